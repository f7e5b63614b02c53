//! Planted faults (fault 99): what is broken on purpose, the story that provokes it, and the invariant that
//! must find it.
//!
//! ```text
//!   a disk that lies         crate::disk::Lie
//!   a check switched off     the closed list of a crate, `planted.rs` there; no shipped binary has the switch
//!   an answer made up here   StatusWithoutReadPoint
//! ```
//!
//! Every invariant is named here at least once: one that nothing has ever violated may be blind.

use std::any::Any;

use crate::disk::Lie;

/// Something that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The disks break a promise.
    Disk(Lie),
    /// A node answers status from what it has applied, without a read point.
    StatusWithoutReadPoint,
    /// The journal lacks a check.
    Journal(redlatch_journal::planted::Bug),
    /// Nodes lack a check.
    Node(redlatch_raft::planted::Bug),
    /// Verifiers lack a check.
    Verifier(redlatch_ballot::planted::Bug),
    /// The actuator lacks a check.
    Actuator(redlatch_actuator::planted::Bug),
}

/// A planted fault that has to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planted {
    /// Its name on the command line.
    pub name: &'static str,
    /// What is broken.
    pub plant: Plant,
    /// The story that provokes it.
    pub scenario: &'static str,
    /// The seed on which it is found.
    pub seed: u64,
    /// The invariant that finds it.
    pub invariant: &'static str,
}

/// A row of the table.
const fn row(
    plant: Plant,
    name: &'static str,
    (scenario, seed): (&'static str, u64),
    invariant: &'static str,
) -> Planted {
    Planted {
        name,
        plant,
        scenario,
        seed,
        invariant,
    }
}

/// All of them.
pub const ALL: [Planted; 16] = {
    use redlatch_actuator::planted::Bug as Actuator;
    use redlatch_ballot::planted::Bug as Verifier;
    use redlatch_journal::planted::Bug as Journal;
    use redlatch_raft::planted::Bug as Node;
    [
        row(
            Plant::Disk(Lie::AppendUnsynced),
            "append-unsynced",
            ("all_nodes_lose_unsynced_pages_at_once", 1),
            "committed_immutable",
        ),
        row(
            Plant::Disk(Lie::AppendAnsweredEarly),
            "append-answered-early",
            ("all_nodes_lose_unsynced_pages_at_once", 1),
            "committed_immutable",
        ),
        row(
            Plant::Disk(Lie::VoteUnsynced),
            "vote-unsynced",
            ("voter_loses_power", 1),
            "vote_monotone",
        ),
        row(
            Plant::Disk(Lie::LeavesDropped),
            "leaves-dropped",
            ("calm", 1),
            "acked_never_lost",
        ),
        row(
            Plant::StatusWithoutReadPoint,
            "status-without-read-point",
            ("deposed_leader_status", 1),
            "permission_reads_never_stale",
        ),
        row(
            Plant::Node(Node::VoteGivenTwice),
            "vote-given-twice",
            ("split_votes", 1),
            "election_safety",
        ),
        row(
            Plant::Node(Node::StartFromSnapshot),
            "start-from-snapshot",
            ("leader_killed", 1),
            "applied_monotone",
        ),
        row(
            Plant::Node(Node::OutcomesForgotten),
            "outcomes-forgotten",
            ("leader_killed", 1),
            "state_roots_equal",
        ),
        row(
            Plant::Node(Node::OneCosigner),
            "one-cosigner",
            ("calm", 1),
            "receipts_never_contradict",
        ),
        row(
            Plant::Journal(Journal::SubjectUnfenced),
            "subject-unfenced",
            ("calm", 2),
            "nothing_positive_after_latch",
        ),
        row(
            Plant::Journal(Journal::RedLatchedAgain),
            "red-latched-again",
            ("calm", 1),
            "red_never_lost",
        ),
        row(
            Plant::Journal(Journal::RepeatRefused),
            "repeat-refused",
            ("all_nodes_lose_unsynced_pages_at_once", 2),
            "refused_never_happens",
        ),
        row(
            Plant::Verifier(Verifier::VoteForgotten),
            "vote-forgotten",
            ("ballots_broken_off", 1),
            "verifier_votes_once",
        ),
        row(
            Plant::Verifier(Verifier::SheetForgotten),
            "sheet-forgotten",
            ("ballots_broken_off", 1),
            "sheet_opened_once",
        ),
        row(
            Plant::Verifier(Verifier::NonceDerived),
            "nonce-derived",
            ("ballots_broken_off", 1),
            "nonce_once",
        ),
        row(
            Plant::Actuator(Actuator::DeadAttemptKept),
            "dead-attempt-kept",
            ("organism_faults", 1),
            "red_reaches_terminal",
        ),
    ]
};

/// The planted fault of a name.
pub fn find(name: &str) -> Option<&'static Planted> {
    const { &ALL }.iter().find(|it| it.name == name)
}

impl Plant {
    /// How the disks of the nodes lie.
    pub fn lie(self) -> Lie {
        match self {
            Plant::Disk(lie) => lie,
            _ => Lie::None,
        }
    }

    /// Switches a check off on this thread, which is the whole world, until what is returned is dropped.
    pub fn switch_off(self) -> Box<dyn Any> {
        match self {
            Plant::Disk(_) | Plant::StatusWithoutReadPoint => Box::new(()),
            Plant::Journal(bug) => Box::new(bug.plant()),
            Plant::Node(bug) => Box::new(bug.plant()),
            Plant::Verifier(bug) => Box::new(bug.plant()),
            Plant::Actuator(bug) => Box::new(bug.plant()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{invariants, scenarios};

    #[test]
    fn fault_099_every_invariant_has_a_planted_fault() {
        let found: BTreeSet<&str> = ALL.iter().map(|it| it.invariant).collect();
        let all: BTreeSet<&str> = invariants::ALL.iter().map(|it| it.id).collect();
        assert_eq!(found, all);
    }

    #[test]
    fn names_are_unique_and_stories_exist() {
        let names: BTreeSet<&str> = ALL.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|it| scenarios::find(it.scenario).is_some()));
    }

    #[test]
    fn every_check_that_only_this_world_switches_off_is_planted() {
        let planted = |plant| ALL.iter().any(|it| it.plant == plant);
        let nodes = redlatch_raft::planted::Bug::ALL.iter();
        assert!(nodes.copied().map(Plant::Node).all(planted));
        let verifiers = redlatch_ballot::planted::Bug::ALL.iter();
        assert!(verifiers.copied().map(Plant::Verifier).all(planted));
        let actuators = redlatch_actuator::planted::Bug::ALL.iter();
        assert!(actuators.copied().map(Plant::Actuator).all(planted));
    }
}
