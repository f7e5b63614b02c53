//! After the faults have stopped: within 30 s of simulated time there is a leader, a new freeze is
//! accepted, every signed RED is latched, and all nodes have applied the same.
//!
//! Then the journals are read from every node, leaf by leaf, for the invariants that speak of the settled
//! run. A bound that is not met is a failure, not a longer wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redlatch_link::Role;
use redlatch_raft::engine::StorageFault;
use redlatch_types::Digest;

use crate::history::Settled;
use crate::organism::{NODES, agent_name};
use crate::process::Raft;
use crate::trace::Who;
use crate::workload::Workload;
use crate::world::{Failure, World};

/// How long the cluster may take for each of the four.
pub const SPAN: Duration = Duration::from_secs(30);

/// Ends every fault and waits until the cluster serves and agrees. `without` are nodes that must not come
/// back by themselves.
///
/// # Errors
/// [`Failure`].
pub async fn settle(world: &mut World, load: &Workload, without: &[u64]) -> Result<(), Failure> {
    world.stage.note(Who::World, "the faults stop");
    world.repair_without(without);
    world.calm();
    let members: Vec<u64> = (1..=NODES).filter(|node| !without.contains(node)).collect();
    world
        .until("every node runs", SPAN, |world| running(world, &members))
        .await?;
    world.until("a leader", SPAN, World::leader).await?;
    serves(world, load).await?;
    let latched = |_: &World| (load.reds_waiting() == 0).then_some(());
    world
        .until("every signed RED is latched", SPAN, latched)
        .await?;
    load.stop();
    world
        .until("all nodes agree", SPAN, |world| agreed(world, &members))
        .await?;
    for node in members {
        read_journal(world, node)?;
    }
    world.stage.note(Who::World, "settled");
    world.judge()?;
    match load.misbehaved() {
        None => Ok(()),
        Some(what) => Err(Failure::Unexpected(format!(
            "an answer that no honest node gives: {what}"
        ))),
    }
}

/// A new client freezes an intent.
async fn serves(world: &mut World, load: &Workload) -> Result<(), Failure> {
    let served = Arc::new(AtomicBool::new(false));
    let (asks, told) = (load.clone(), Arc::clone(&served));
    world.spawn(async move {
        let nodes = asks.nodes(Role::Client, &agent_name(1), None);
        let mut draws = asks.draws("liveness");
        while asks.freeze(&nodes, 1, &mut draws).await.is_none() {
            redlatch_link::world::sleep(Duration::from_millis(100)).await;
        }
        told.store(true, Ordering::Relaxed);
    });
    let served = |_: &World| served.load(Ordering::Relaxed).then_some(());
    world.until("a freeze is accepted", SPAN, served).await
}

fn running(world: &World, members: &[u64]) -> Option<()> {
    members
        .iter()
        .all(|node| world.seat(*node).raft().is_some())
        .then_some(())
}

/// All have applied the last entry of the leader's log, and hold every leaf.
fn agreed(world: &World, members: &[u64]) -> Option<()> {
    let (_, leader) = world.leader()?;
    let last = leader.metrics().last_log_index;
    let rafts: Option<Vec<Raft>> = members
        .iter()
        .map(|node| world.seat(*node).raft())
        .collect();
    let same = rafts?.iter().all(|raft| {
        let metrics = raft.metrics();
        metrics.place.entry.map(|entry| entry.index) == last
            && metrics.place.size == leader.place().size
            && metrics.leaves_missing == 0
    });
    same.then_some(())
}

/// Takes every leaf of a node into the history.
fn read_journal(world: &World, node: u64) -> Result<(), Failure> {
    let raft = world.seat(node).raft();
    let raft = raft.ok_or_else(|| Failure::Unexpected(format!("node {node} went away")))?;
    let leaves = all_leaves(&raft).map_err(|fault| Failure::Unexpected(fault.to_string()))?;
    let mut settled = Settled {
        leaves: Vec::new(),
        state: raft.read(|state| state.digest()),
    };
    let mut history = world.stage.history();
    for (position, leaf) in (0..).zip(leaves) {
        settled.leaves.push(Digest::of(&leaf));
        history.take_leaf(position, &leaf, node);
    }
    history.settled.insert(node, settled);
    Ok(())
}

fn all_leaves(raft: &Raft) -> Result<Vec<Vec<u8>>, StorageFault> {
    let size = raft.place().size;
    let mut leaves: Vec<Vec<u8>> = Vec::new();
    loop {
        let more = raft.leaves(leaves.len() as u64, size)?;
        if more.is_empty() {
            return Ok(leaves);
        }
        leaves.extend(more);
    }
}
