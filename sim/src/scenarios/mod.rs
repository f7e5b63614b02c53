//! What happens in a run: named stories, each with what it asserts beside the invariants.
//!
//! | name | story |
//! |---|---|
//! | `calm` | nothing goes wrong |
//! | `leader_killed` | the leader is killed under load, again and again |
//! | `split_votes` | two nodes campaign at the same time over a slow network, again and again |
//! | `all_nodes_lose_unsynced_pages_at_once` | the power goes on all three nodes at the same moment |
//! | `voter_loses_power` | a node loses power right after it has voted |
//! | `crash_between_truncate_and_append` | a deposed leader crashes after cutting its tail off |
//! | `failed_sync` | an fsync fails: the process ends, the cluster goes on |
//! | `rolled_back_disk` | a disk goes back in time |
//! | `wiped_disk` | a disk is empty |
//! | `snapshot_install` | a node was away for so long that the log is gone |
//! | `partition_heal` | one node campaigns alone for a minute and comes back |
//! | `deposed_leader_status` | a leader that is cut off is asked whether something is latched |
//! | `clock_step` | one clock is wrong by an hour, then by two minutes the other way |
//! | `organism` | verifiers, sentinel and actuator decide and stop; some of them are killed |
//! | `organism_faults` | the same under faults of every kind, of parties and of nodes |
//! | `ballots_broken_off` | verifiers lose power between opening their vote and signing, and the leader with them |
//! | `rolled_back_verifier` | a verifier's disk goes back before its present boot |
//! | `rolled_back_sentinel` | the sentinel's disk goes back before a RED that others know |
//! | `random` | a mix of every fault of nodes, drawn from the seed |
//!
//! Every story ends with [`crate::liveness::settle`].

mod disks;
mod leaders;
mod organism;
mod parties;
mod random;

use std::time::Duration;

use futures::future::LocalBoxFuture;

use crate::liveness::settle;
use crate::planted::Plant;
use crate::workload::{Counts, Plan, Workload};
use crate::world::{Failure, World};

/// What a scenario is run with.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Rounds of faults, where the story has rounds.
    pub steps: Option<u64>,
    /// A broken behaviour that an invariant must catch.
    pub plant: Option<Plant>,
}

/// A story.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Tells it.
    pub run: for<'a> fn(&'a mut World, &'a Options) -> LocalBoxFuture<'a, Result<Counts, Failure>>,
}

/// All of them.
pub const ALL: [Scenario; 19] = [
    Scenario {
        name: "calm",
        run: |world, _| Box::pin(calm(world)),
    },
    Scenario {
        name: "leader_killed",
        run: |world, it| Box::pin(leaders::killed(world, it)),
    },
    Scenario {
        name: "split_votes",
        run: |world, it| Box::pin(leaders::split_votes(world, it)),
    },
    Scenario {
        name: "all_nodes_lose_unsynced_pages_at_once",
        run: |world, it| Box::pin(disks::all_lose_power(world, it)),
    },
    Scenario {
        name: "voter_loses_power",
        run: |world, _| Box::pin(disks::voter_loses_power(world)),
    },
    Scenario {
        name: "crash_between_truncate_and_append",
        run: |world, _| Box::pin(disks::crash_after_truncate(world)),
    },
    Scenario {
        name: "failed_sync",
        run: |world, _| Box::pin(disks::failed_sync(world)),
    },
    Scenario {
        name: "rolled_back_disk",
        run: |world, _| Box::pin(disks::rolled_back(world)),
    },
    Scenario {
        name: "wiped_disk",
        run: |world, _| Box::pin(disks::wiped(world)),
    },
    Scenario {
        name: "snapshot_install",
        run: |world, _| Box::pin(disks::snapshot(world)),
    },
    Scenario {
        name: "partition_heal",
        run: |world, _| Box::pin(leaders::partition_heal(world)),
    },
    Scenario {
        name: "deposed_leader_status",
        run: |world, it| Box::pin(leaders::deposed_status(world, it)),
    },
    Scenario {
        name: "clock_step",
        run: |world, _| Box::pin(leaders::clock_step(world)),
    },
    Scenario {
        name: "organism",
        run: |world, _| Box::pin(organism::whole(world)),
    },
    Scenario {
        name: "organism_faults",
        run: |world, it| Box::pin(parties::mix(world, it)),
    },
    Scenario {
        name: "ballots_broken_off",
        run: |world, _| Box::pin(parties::ballots_broken_off(world)),
    },
    Scenario {
        name: "rolled_back_verifier",
        run: |world, _| Box::pin(parties::verifier_rolled_back(world)),
    },
    Scenario {
        name: "rolled_back_sentinel",
        run: |world, _| Box::pin(parties::sentinel_rolled_back(world)),
    },
    Scenario {
        name: "random",
        run: |world, it| Box::pin(random::mix(world, it)),
    },
];

/// The story of a name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    const { &ALL }.iter().find(|scenario| scenario.name == name)
}

/// Nothing goes wrong.
async fn calm(world: &mut World) -> Result<Counts, Failure> {
    let load = Workload::start(world, Plan::default());
    first_leader(world).await?;
    world.run(Duration::from_secs(20)).await?;
    settle(world, &load, &[]).await?;
    let counts = load.counts();
    for what in [
        "frozen",
        "withdrawn",
        "committed",
        "claimed",
        "latched",
        "receipts",
    ] {
        expect(counts.of(what) > 0, || {
            format!("nothing {what} in a calm run: {counts}")
        })?;
    }
    Ok(counts)
}

/// Waits for the first leader of a world.
async fn first_leader(world: &mut World) -> Result<u64, Failure> {
    let span = Duration::from_secs(10);
    world
        .until("a first leader", span, |world| {
            world.leader().map(|it| it.0)
        })
        .await
}

/// Waits for a leader that is none of `not`.
async fn another_leader(world: &mut World, not: u64) -> Result<u64, Failure> {
    let span = Duration::from_secs(10);
    let other = |world: &World| world.leader().map(|it| it.0).filter(|node| *node != not);
    world.until("another leader", span, other).await
}

fn expect(truth: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failure> {
    if truth {
        Ok(())
    } else {
        Err(Failure::Unexpected(otherwise()))
    }
}
