//! One step of openraft's membership towards the roster: looked for, and made.
//!
//! Which step is next is [`View::next`]'s to say. Whatever stops a step half-way, the next look, by this
//! leader or another, begins from the membership as it is then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::{ChangeMembers, EmptyNode};
use redlatch_link::world;
use redlatch_types::NodeId;

use crate::config::Raft;
use crate::engine::Engine;
use crate::membership::{Step, View};
use crate::shared::Shared;

/// A node that lacks no more entries than this has caught up: a moment of writing.
const CAUGHT_UP_ENTRIES: u64 = 64;

/// Pause after a step that openraft has refused, so that the next look does not spin.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);

/// The step that is due.
pub(super) fn next_step<E: Engine>(shared: &Shared<E>, raft: &Raft) -> Step {
    let metrics = raft.metrics();
    let metrics = metrics.borrow();
    let membership = metrics.membership_config.membership();
    let last = metrics.last_log_index.unwrap_or_default();
    let replication = metrics.replication.iter().flatten();
    let near = |at: u64| at.saturating_add(CAUGHT_UP_ENTRIES) >= last;
    let caught_up: BTreeSet<u64> = replication
        .filter(|(_, at)| at.is_some_and(|at| near(at.index)))
        .map(|(node, _)| *node)
        .collect();
    let renewed = shared
        .renewed
        .retain(|node| membership.get_node(&node).is_some());
    View {
        seats: &shared.seats(),
        membership,
        caught_up: &caught_up,
        renewed: &renewed,
    }
    .next()
}

/// Makes a step and waits until openraft has committed it, both halves of a joint one.
pub(super) async fn make(raft: Raft, step: Step) {
    let one = |node: NodeId| BTreeSet::from([node.0]);
    let change = match step {
        Step::Followed | Step::Await(_) => return,
        Step::Close => ChangeMembers::AddVoterIds(BTreeSet::new()),
        Step::Drop(node) => ChangeMembers::RemoveNodes(one(node)),
        Step::AddLearner(node) => ChangeMembers::AddNodes(BTreeMap::from([(node.0, EmptyNode {})])),
        Step::Promote(node) => ChangeMembers::AddVoterIds(one(node)),
        Step::Retire(node) => ChangeMembers::RemoveVoters(one(node)),
    };
    // Whoever votes no more is let go at once: if it comes back, it begins anew.
    if let Err(error) = raft.change_membership(change, false).await {
        tracing::warn!(%step, %error, "the membership has not followed yet");
        world::sleep(REFUSED_PAUSE).await;
    }
}
