//! Which membership entries may reach openraft, and the next one that a leader writes (D9). Pure.
//!
//! The roster is state of the journal; openraft's membership only follows it, one node a step:
//!
//! ```text
//!   roster event applied ─▶ next ─▶ add learner ─▶ caught up ─▶ joint ─▶ uniform ─▶ … ─▶ followed
//! ```
//!
//! Every node judges each membership entry of a peer by its own applied roster and by the membership
//! it has: the entry leaves the voters alone, begins the one joint step towards the roster, or ends
//! the joint step under way. An append is cut before the first entry that does not pass: what stands
//! before it is taken and answered as a partial success, so the roster event commits, is applied, and
//! the leader's retry passes (fault 15). Entries at or below the last applied one were judged when
//! they came. Before genesis is applied, the genesis file's roster counts.

use std::collections::BTreeSet;
use std::fmt;

use openraft::EntryPayload;
use redlatch_types::NodeId;

use crate::config::{Entry, Membership};

/// The nodes of a roster by seat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seats {
    /// Nodes that vote and count.
    pub voters: BTreeSet<u64>,
    /// Nodes that only receive.
    pub learners: BTreeSet<u64>,
}

impl Seats {
    /// The seats of a roster.
    #[must_use]
    pub fn of(roster: &redlatch_types::records::RosterV1) -> Seats {
        let voters: BTreeSet<u64> = roster.voters().map(|node| node.node_id.0).collect();
        let all = roster.nodes.iter().map(|node| node.node_id.0);
        Seats {
            learners: all.filter(|node| !voters.contains(node)).collect(),
            voters,
        }
    }

    /// Every node of the roster.
    #[must_use]
    pub fn all(&self) -> BTreeSet<u64> {
        self.voters.union(&self.learners).copied().collect()
    }

    /// How many voters are a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Whether `next` may follow `now` while this is the applied roster.
    #[must_use]
    pub fn permits(&self, now: &Membership, next: &Membership) -> bool {
        let known = self.all().union(&nodes(now)).copied().collect();
        let voters = match (
            now.get_joint_config().as_slice(),
            next.get_joint_config().as_slice(),
        ) {
            // The entry that begins a log.
            ([], [first]) => *first == self.voters,
            ([same], [still]) => same == still,
            ([same], [before, after]) => same == before && self.is_step(before, after),
            ([_, after], [end]) => after == end,
            _ => false,
        };
        voters && nodes(next).is_subset(&known)
    }

    /// One node nearer to the roster.
    fn is_step(&self, before: &BTreeSet<u64>, after: &BTreeSet<u64>) -> bool {
        let mut moved = before.symmetric_difference(after);
        match (moved.next(), moved.next()) {
            (Some(node), None) => self.voters.contains(node) == after.contains(node),
            _ => false,
        }
    }

    /// Whether `membership` is this roster, with no step under way: what a snapshot must carry.
    /// A learner may be missing: it counts for nothing.
    #[must_use]
    pub fn is(&self, membership: &Membership) -> bool {
        let voters = membership.get_joint_config().as_slice();
        voters == [self.voters.clone()] && nodes(membership).is_subset(&self.all())
    }

    /// How many of `entries` may pass, counted from the first, on a node whose membership is `now`
    /// and that has applied everything up to `applied`.
    #[must_use]
    pub fn passing(&self, now: &Membership, applied: Option<u64>, entries: &[Entry]) -> usize {
        let mut now = now;
        for (passed, entry) in entries.iter().enumerate() {
            let EntryPayload::Membership(next) = &entry.payload else {
                continue;
            };
            if Some(entry.log_id.index) <= applied {
                continue;
            }
            if !self.permits(now, next) {
                return passed;
            }
            now = next;
        }
        entries.len()
    }
}

fn nodes(membership: &Membership) -> BTreeSet<u64> {
    membership.nodes().map(|(node, _)| *node).collect()
}

/// Where openraft's membership stands against the roster: the one step that is due, or what it
/// waits for. A leader makes the step, whoever began it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// The membership is the roster.
    #[default]
    Followed,
    /// A joint step is under way and has to end.
    Close,
    /// The node is of the roster no more, or has rejoined on another disk: what is known of its log
    /// is void.
    Drop(NodeId),
    /// The node is of the roster and gets nothing yet.
    AddLearner(NodeId),
    /// The node votes once it has caught up.
    Await(NodeId),
    /// The node has caught up and becomes a voter.
    Promote(NodeId),
    /// The node votes no more.
    Retire(NodeId),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Followed => f.write_str("the membership is the roster"),
            Step::Close => f.write_str("the step under way ends"),
            Step::Drop(node) => write!(f, "node {node} gets nothing more"),
            Step::AddLearner(node) => write!(f, "node {node} begins to receive"),
            Step::Await(node) => write!(f, "node {node} has to catch up"),
            Step::Promote(node) => write!(f, "node {node} becomes a voter"),
            Step::Retire(node) => write!(f, "node {node} votes no more"),
        }
    }
}

/// What a leader knows when it looks for the next step.
#[derive(Debug)]
pub struct View<'a> {
    /// The applied roster.
    pub seats: &'a Seats,
    /// The membership in effect.
    pub membership: &'a Membership,
    /// Nodes that hold nearly all of the log.
    pub caught_up: &'a BTreeSet<u64>,
    /// Nodes whose disk is another one than the one whose log this leader remembers.
    pub renewed: &'a BTreeSet<u64>,
}

impl View<'_> {
    /// The next step. Learners first, they decide nothing; then a voter that is ready, then one that
    /// leaves; a node that is replaced stays until the other has caught up.
    #[must_use]
    pub fn next(&self) -> Step {
        let voters = match self.membership.get_joint_config().as_slice() {
            [voters] => voters,
            // Before the first entry there is nothing to change.
            [] => return Step::Followed,
            _ => return Step::Close,
        };
        let present = nodes(self.membership);
        let learners = || present.difference(voters);
        let wanted = self.seats.all();
        if let Some(node) =
            learners().find(|node| !wanted.contains(node) || self.renewed.contains(node))
        {
            return Step::Drop(NodeId(*node));
        }
        if let Some(node) = wanted.difference(&present).next() {
            return Step::AddLearner(NodeId(*node));
        }
        let mut joining = self.seats.voters.difference(voters);
        let waits = joining.clone().next();
        if let Some(node) = joining.find(|node| self.caught_up.contains(node)) {
            return Step::Promote(NodeId(*node));
        }
        let leaving = voters.difference(&self.seats.voters).next();
        let replaced = waits.is_some() && voters.len() <= self.seats.voters.len();
        match (leaving, waits) {
            (Some(node), _) if !replaced => Step::Retire(NodeId(*node)),
            (_, Some(node)) => Step::Await(NodeId(*node)),
            _ => Step::Followed,
        }
    }
}

#[cfg(test)]
mod tests;
