//! Stories about disks: power loss, crashes at one exact write, EIO, going back in time, snapshots.

use std::time::Duration;

use redlatch_raft::engine::SimDisk;
use redlatch_raft::proposer::Class;
use redlatch_types::command::RawCommand;
use redlatch_types::event::Accepted;
use redlatch_types::records::AbortReason;
use redlatch_types::{Canonical, Digest, TransactionId};

use super::{Options, another_leader, expect, first_leader};
use crate::disk::CrashAt;
use crate::faults::Fault;
use crate::history::{DiskEvent, VoteSeen};
use crate::liveness::{SPAN, settle};
use crate::organism::NODES;
use crate::workload::{Counts, Plan, Workload};
use crate::world::{Failure, World};

/// Entries that the leader keeps behind a snapshot, and some more.
const ENTRIES_AWAY: u64 = 1_300;

/// Fault 5: the power goes on all three nodes at the same moment, under load.
pub(super) async fn all_lose_power(
    world: &mut World,
    options: &Options,
) -> Result<Counts, Failure> {
    let load = Workload::start(world, Plan::default());
    let mut draws = world.seed.draws("scenario");
    first_leader(world).await?;
    for _ in 0..options.steps.unwrap_or(4) {
        let before = load.counts().of("frozen");
        let span = Duration::from_secs(20);
        let served = |_: &World| (load.counts().of("frozen") > before + 8).then_some(());
        world
            .until("freezes are acknowledged", span, served)
            .await?;
        world.run(Duration::from_millis(draws.below(300))).await?;
        // At least once nothing unsynced survives; otherwise the log is torn somewhere.
        let keep = usize::try_from(draws.below(3)).unwrap_or_default();
        world.do_to(Fault::PowerLossEverywhere(keep));
        world.run(Duration::from_millis(draws.below(500))).await?;
        world.do_to(Fault::StartAll);
    }
    settle(world, &load, &[]).await?;
    Ok(load.counts())
}

/// Fault 5: a node loses power right after it has voted.
pub(super) async fn voter_loses_power(world: &mut World) -> Result<Counts, Failure> {
    let load = Workload::start(world, Plan::default());
    for _ in 0..4 {
        let leader = first_leader(world).await?;
        world.run(Duration::from_secs(1)).await?;
        let before: Vec<u64> = (1..=NODES)
            .map(|node| last_vote(world, node).term)
            .collect();
        world.do_to(Fault::Isolate(leader));
        let voter = world
            .until("somebody votes", SPAN, |world| {
                (1..=NODES).zip(&before).find_map(|(node, before)| {
                    (node != leader && last_vote(world, node).term > *before).then_some(node)
                })
            })
            .await?;
        world.do_to(Fault::PowerLoss(voter, 0));
        world.run(Duration::from_millis(300)).await?;
        world.start(voter);
        world.do_to(Fault::Heal);
        world.run(Duration::from_secs(3)).await?;
    }
    settle(world, &load, &[]).await?;
    Ok(load.counts())
}

/// The last vote whose sync was answered.
fn last_vote(world: &World, node: u64) -> VoteSeen {
    let history = world.stage.history();
    let events = history.disks.get(&node).into_iter().flatten().rev();
    let mut votes = events.filter_map(|event| match event {
        DiskEvent::Voted(vote) => Some(*vote),
        _ => None,
    });
    votes.next().unwrap_or_default()
}

/// A deposed leader cuts its tail off and loses power before it appends what replaces it.
pub(super) async fn crash_after_truncate(world: &mut World) -> Result<Counts, Failure> {
    let load = Workload::start(world, Plan::default());
    let old = first_leader(world).await?;
    world.run(Duration::from_secs(2)).await?;
    world.do_to(Fault::Isolate(old));
    // Clients still reach it: what it appends alone is a tail that must go.
    another_leader(world, old).await?;
    world.run(Duration::from_secs(3)).await?;
    world.seat(old).probe().arm(CrashAt::Truncate);
    world.do_to(Fault::Heal);
    let sprung = |world: &World| world.seat(old).probe().has_sprung().then_some(());
    world.until("the tail is cut off", SPAN, sprung).await?;
    world.do_to(Fault::PowerLoss(old, 0));
    world.run(Duration::from_secs(1)).await?;
    world.start(old);
    let back = |world: &World| world.seat(old).raft();
    world
        .until(
            "the node runs again: a truncation is no rollback",
            SPAN,
            back,
        )
        .await?;
    settle(world, &load, &[]).await?;
    Ok(load.counts())
}

/// Fault 8: an fsync fails; the process ends by itself and the others go on.
pub(super) async fn failed_sync(world: &mut World) -> Result<Counts, Failure> {
    let load = Workload::start(world, Plan::default());
    let leader = first_leader(world).await?;
    for victim in [leader, leader % NODES + 1] {
        world.run(Duration::from_secs(2)).await?;
        world.do_to(Fault::FailedSync(victim));
        let ended = |world: &World| world.seat(victim).exit();
        let reason = world
            .until("the process ends", Duration::from_secs(5), ended)
            .await?;
        expect(reason.contains("had to stop: storage"), || {
            format!("it ended with: {reason}")
        })?;
        let before = load.counts().of("frozen");
        let served = |_: &World| (load.counts().of("frozen") > before + 3).then_some(());
        world
            .until("the others go on", Duration::from_secs(15), served)
            .await?;
        world.start(victim);
    }
    settle(world, &load, &[]).await?;
    Ok(load.counts())
}

/// Fault 13: a node comes back with an earlier image of its own disk. It says so and votes no more.
pub(super) async fn rolled_back(world: &mut World) -> Result<Counts, Failure> {
    let load = Workload::start(world, Plan::default());
    let leader = first_leader(world).await?;
    let victim = leader % NODES + 1;
    world.run(Duration::from_secs(3)).await?;
    let earlier = world.seat(victim).disk().copy();
    world.run(Duration::from_secs(6)).await?;
    world.replace_disk(victim, earlier);
    comes_back_as_rolled_back(world, victim).await?;
    // The node that must not help: a new leader needs the other two.
    world.do_to(Fault::Kill(leader));
    world.run(Duration::from_secs(5)).await?;
    expect(world.leader().is_none(), || {
        "a rolled-back node helped to elect".into()
    })?;
    world.start(leader);
    settle(world, &load, &[victim]).await?;
    Ok(load.counts())
}

/// Fault 14: a node comes back with an empty disk. It says so and votes no more.
pub(super) async fn wiped(world: &mut World) -> Result<Counts, Failure> {
    let load = Workload::start(world, Plan::default());
    let leader = first_leader(world).await?;
    let victim = leader % NODES + 1;
    world.run(Duration::from_secs(4)).await?;
    world.replace_disk(victim, SimDisk::new());
    comes_back_as_rolled_back(world, victim).await?;
    settle(world, &load, &[victim]).await?;
    Ok(load.counts())
}

async fn comes_back_as_rolled_back(world: &mut World, victim: u64) -> Result<(), Failure> {
    world.start(victim);
    let ended = |world: &World| world.seat(victim).exit();
    let reason = world
        .until("it refuses to run", Duration::from_secs(10), ended)
        .await?;
    expect(reason.contains("rolled_back"), || {
        format!("it ended with: {reason}")
    })?;
    world.run(Duration::from_secs(5)).await
}

/// A node was away for so long that the log it needs is gone: it installs a snapshot and fetches leaves.
pub(super) async fn snapshot(world: &mut World) -> Result<Counts, Failure> {
    let load = Workload::start(
        world,
        Plan {
            reds: 1,
            ..Plan::default()
        },
    );
    let leader = first_leader(world).await?;
    let away = leader % NODES + 1;
    world.run(Duration::from_secs(2)).await?;
    let had = world
        .seat(away)
        .raft()
        .and_then(|raft| raft.metrics().last_log_index);
    world.do_to(Fault::Kill(away));
    many_entries(world).await?;
    let purged = move |world: &World| {
        let (_, raft) = world.leader()?;
        (raft.metrics().purged_index > had).then_some(())
    };
    world
        .until("the log is purged beyond what the node has", SPAN, purged)
        .await?;
    world.start(away);
    let installed = |world: &World| {
        let metrics = world.seat(away).raft()?.metrics();
        (metrics.snapshot_index > had && metrics.leaves_missing == 0).then_some(())
    };
    world
        .until(
            "the snapshot is installed and its leaves are there",
            SPAN,
            installed,
        )
        .await?;
    settle(world, &load, &[]).await?;
    Ok(load.counts())
}

/// Entries that change nothing, one after the other, with a checkpoint near the end.
async fn many_entries(world: &mut World) -> Result<(), Failure> {
    let nothing = RawCommand::Abort(TransactionId(Digest::ZERO), AbortReason::Expired);
    let nothing = nothing.to_canonical();
    for at in 0..ENTRIES_AWAY {
        let (_, raft) = world.until("a leader", SPAN, World::leader).await?;
        let last = at + 20 == ENTRIES_AWAY;
        let command = if last {
            RawCommand::Checkpoint.to_canonical()
        } else {
            nothing.clone()
        };
        let deadline = Duration::from_secs(5);
        let committed = raft.propose(Class::Safety, command, deadline).await;
        if last {
            let reply = committed.map(|it| it.outcome.reply);
            let done = matches!(reply, Ok(Ok(Accepted::Checkpointed)));
            expect(done, || format!("no checkpoint: {reply:?}"))?;
        }
        if at % 100 == 0 {
            world.judge()?;
        }
    }
    Ok(())
}
