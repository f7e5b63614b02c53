//! Which membership entries may reach openraft (D9). Pure.
//!
//! The roster is state of the journal; openraft's membership only follows it. An entry passes if
//! it is the applied roster, or the one joint step towards it from a membership that differs by
//! at most one voter. An append is cut before the first entry that does not pass: what stands
//! before it is taken and answered as a partial success, so the roster event commits, is applied,
//! and the leader's retry passes (fault 15). Before genesis is applied, the genesis file's roster
//! counts.

use std::collections::BTreeSet;

use openraft::EntryPayload;

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

    /// Whether a membership entry may pass while this is the applied roster.
    #[must_use]
    pub fn permits(&self, membership: &Membership) -> bool {
        let nodes: BTreeSet<u64> = membership.nodes().map(|(node, _)| *node).collect();
        match membership.get_joint_config().as_slice() {
            [voters] => *voters == self.voters && nodes.is_subset(&self.all()),
            [before, after] => {
                *after == self.voters
                    && before.symmetric_difference(after).count() <= 1
                    && nodes.is_subset(&self.all().union(before).copied().collect())
            }
            _ => false,
        }
    }

    /// Whether `membership` is this roster, with no step under way: what a snapshot must carry.
    #[must_use]
    pub fn is(&self, membership: &Membership) -> bool {
        membership.get_joint_config().len() == 1 && self.permits(membership)
    }

    /// How many of `entries` may pass, counted from the first.
    #[must_use]
    pub fn passing(&self, entries: &[Entry]) -> usize {
        let foreign = |entry: &Entry| match &entry.payload {
            EntryPayload::Membership(membership) => !self.permits(membership),
            _ => false,
        };
        entries.iter().position(foreign).unwrap_or(entries.len())
    }
}

#[cfg(test)]
mod tests {
    use openraft::CommittedLeaderId;

    use super::*;
    use crate::config::LogId;

    fn seats(voters: &[u64], learners: &[u64]) -> Seats {
        Seats {
            voters: voters.iter().copied().collect(),
            learners: learners.iter().copied().collect(),
        }
    }

    fn membership(configurations: &[&[u64]], learners: &[u64]) -> Membership {
        let sets = configurations
            .iter()
            .map(|set| set.iter().copied().collect())
            .collect();
        Membership::new(sets, learners.iter().copied().collect::<BTreeSet<u64>>())
    }

    #[test]
    fn fault_015_only_the_roster_and_the_step_towards_it_pass() {
        let roster = seats(&[1, 2, 3], &[4]);
        for (configurations, learners, passes) in [
            (&[&[1, 2, 3][..]][..], &[][..], true),
            (&[&[1, 2, 3]], &[4], true),
            // Foreign voters, a foreign learner, a voter less, a learner that votes.
            (&[&[1, 2, 9]], &[], false),
            (&[&[1, 2, 3]], &[9], false),
            (&[&[1, 2]], &[3], false),
            (&[&[1, 2, 3, 4]], &[], false),
            // Joint steps: towards the roster from one voter away, and nothing else.
            (&[&[1, 2], &[1, 2, 3]], &[], true),
            (&[&[1, 2, 3, 5], &[1, 2, 3]], &[], true),
            (&[&[1, 2, 3], &[1, 2]], &[], false),
            (&[&[7, 8, 9], &[1, 2, 3]], &[], false),
            (&[&[1, 2, 4], &[1, 2, 3]], &[], false),
            (&[&[1, 2], &[1, 2, 3], &[1, 2, 3]], &[], false),
        ] {
            let entry = membership(configurations, learners);
            assert_eq!(
                roster.permits(&entry),
                passes,
                "{configurations:?} {learners:?}"
            );
        }
        assert!(!roster.is(&membership(&[&[1, 2], &[1, 2, 3]], &[])));
        assert!(roster.is(&membership(&[&[1, 2, 3]], &[4])));
    }

    #[test]
    fn fault_015_an_append_is_cut_before_the_first_foreign_membership() {
        let entry = |index, payload| Entry {
            log_id: LogId::new(CommittedLeaderId::new(3, 0), index),
            payload,
        };
        let entries = [
            entry(7, EntryPayload::Blank),
            entry(8, EntryPayload::Membership(membership(&[&[1, 2, 3]], &[]))),
            entry(
                9,
                EntryPayload::Membership(membership(&[&[1, 2, 3, 4]], &[])),
            ),
            entry(10, EntryPayload::Blank),
        ];
        assert_eq!(seats(&[1, 2, 3], &[]).passing(&entries), 2);
        // Once the roster event is applied, the next step passes.
        assert_eq!(seats(&[1, 2, 3, 4], &[]).passing(&entries[2..]), 2);
        assert_eq!(seats(&[7], &[]).passing(&entries), 1);
    }
}
