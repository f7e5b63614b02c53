//! The tables of D9: what passes, and which step is next.

use openraft::CommittedLeaderId;
use proptest::prelude::*;

use super::*;
use crate::config::LogId;

fn set(nodes: &[u64]) -> BTreeSet<u64> {
    nodes.iter().copied().collect()
}

fn seats(voters: &[u64], learners: &[u64]) -> Seats {
    Seats {
        voters: set(voters),
        learners: set(learners),
    }
}

fn membership(configurations: &[&[u64]], learners: &[u64]) -> Membership {
    let sets = configurations.iter().map(|it| set(it)).collect();
    Membership::new(sets, set(learners))
}

#[test]
fn fault_015_only_the_step_towards_the_roster_passes() {
    let roster = seats(&[1, 2, 3], &[4]);
    type Row<'a> = (&'a [&'a [u64]], &'a [&'a [u64]], &'a [u64], bool);
    let rows: [Row<'_>; 20] = [
        // The entry that begins a log is the roster.
        (&[], &[&[1, 2, 3]], &[], true),
        (&[], &[&[1, 2, 9]], &[], false),
        (&[], &[&[1, 2], &[1, 2, 3]], &[], false),
        // Voters as they are, with learners of the roster.
        (&[&[1, 2, 3]], &[&[1, 2, 3]], &[], true),
        (&[&[1, 2, 3]], &[&[1, 2, 3]], &[4], true),
        (&[&[1, 2]], &[&[1, 2]], &[3], true),
        (&[&[1, 2, 3]], &[&[1, 2, 3]], &[9], false),
        // Other voters without a joint step, foreign or not.
        (&[&[1, 2, 3]], &[&[1, 2, 9]], &[], false),
        (&[&[1, 2]], &[&[1, 2, 3]], &[], false),
        // Joint steps: from the voters there are, one node nearer to the roster.
        (&[&[1, 2]], &[&[1, 2], &[1, 2, 3]], &[], true),
        (&[&[1, 2, 3, 5]], &[&[1, 2, 3, 5], &[1, 2, 3]], &[], true),
        (&[&[1, 5, 6]], &[&[1, 5, 6], &[1, 2, 5, 6]], &[], true),
        (&[&[1, 2, 3]], &[&[1, 2, 3], &[1, 2]], &[], false),
        (&[&[1, 2, 3]], &[&[1, 2, 3], &[1, 2, 3, 4]], &[], false),
        (&[&[1, 2, 3]], &[&[1, 2, 3, 5], &[1, 2, 3]], &[], false),
        (&[&[1, 2, 4]], &[&[1, 2, 4], &[1, 2, 3]], &[], false),
        (&[&[7, 8, 9]], &[&[7, 8, 9], &[1, 2, 3]], &[], false),
        // A joint step ends as it began, and nothing begins before it has ended.
        (&[&[1, 2], &[1, 2, 3]], &[&[1, 2, 3]], &[], true),
        (&[&[1, 2], &[1, 2, 3]], &[&[1, 2]], &[], false),
        (
            &[&[1, 2], &[1, 2, 3]],
            &[&[1, 2, 3], &[1, 2, 3, 4]],
            &[],
            false,
        ),
    ];
    for (now, next, learners, passes) in rows {
        let (before, after) = (membership(now, &[]), membership(next, learners));
        assert_eq!(
            roster.permits(&before, &after),
            passes,
            "{now:?} {next:?} {learners:?}"
        );
    }
    assert!(!roster.is(&membership(&[&[1, 2], &[1, 2, 3]], &[])));
    assert!(!roster.is(&membership(&[&[1, 2]], &[])));
    assert!(!roster.is(&membership(&[&[1, 2, 3]], &[9])));
    assert!(roster.is(&membership(&[&[1, 2, 3]], &[4])));
}

fn entry(index: u64, payload: EntryPayload<crate::config::TypeConfig>) -> Entry {
    Entry {
        log_id: LogId::new(CommittedLeaderId::new(3, 0), index),
        payload,
    }
}

#[test]
fn fault_015_an_append_is_cut_before_the_first_foreign_membership() {
    let joint: &[&[u64]] = &[&[1, 2, 3], &[1, 2, 3, 4]];
    let entries = [
        entry(7, EntryPayload::Blank),
        entry(8, EntryPayload::Membership(membership(&[&[1, 2, 3]], &[]))),
        entry(9, EntryPayload::Membership(membership(joint, &[]))),
        entry(10, EntryPayload::Blank),
        entry(
            11,
            EntryPayload::Membership(membership(&[&[1, 2, 3, 4]], &[])),
        ),
    ];
    let now = membership(&[&[1, 2, 3]], &[]);
    assert_eq!(seats(&[1, 2, 3], &[4]).passing(&now, Some(6), &entries), 2);
    // Once the roster event is applied, the next step passes, and its end after it.
    let promoted = seats(&[1, 2, 3, 4], &[]);
    assert_eq!(promoted.passing(&now, Some(8), &entries[2..]), 3);
    // Its end passes under a later roster as well: the step has to end.
    let later = seats(&[1, 2, 3], &[]);
    let during = membership(joint, &[]);
    assert_eq!(later.passing(&during, Some(10), &entries[4..]), 1);
    assert_eq!(seats(&[7], &[]).passing(&now, Some(6), &entries), 2);
}

/// A new leader probes from the middle of the log: what is applied here was judged by the roster of
/// its time.
#[test]
fn entries_that_are_applied_are_not_judged_again() {
    let entries = [entry(
        0,
        EntryPayload::Membership(membership(&[&[1, 2, 3]], &[])),
    )];
    let (roster, now) = (seats(&[2, 3, 4], &[]), membership(&[&[2, 3, 4]], &[]));
    assert_eq!(roster.passing(&now, Some(0), &entries), 1);
    assert_eq!(roster.passing(&now, None, &entries), 0);
}

#[test]
fn the_next_step_of_every_kind() {
    use Step as S;
    let id = NodeId;
    type Row<'a> = (
        &'a [&'a [u64]],
        &'a [u64],
        (&'a [u64], &'a [u64]),
        &'a [u64],
        &'a [u64],
        Step,
    );
    // membership, its learners; roster: voters, learners; caught up; renewed disks.
    let rows: [Row<'_>; 17] = [
        (&[], &[], (&[1, 2, 3], &[]), &[], &[], S::Followed),
        (&[&[1, 2, 3]], &[], (&[1, 2, 3], &[]), &[], &[], S::Followed),
        // Join, then Promote once it has caught up.
        (
            &[&[1, 2, 3]],
            &[],
            (&[1, 2, 3], &[4]),
            &[],
            &[],
            S::AddLearner(id(4)),
        ),
        (
            &[&[1, 2, 3]],
            &[4],
            (&[1, 2, 3], &[4]),
            &[4],
            &[],
            S::Followed,
        ),
        (
            &[&[1, 2, 3]],
            &[4],
            (&[1, 2, 3, 4], &[]),
            &[],
            &[],
            S::Await(id(4)),
        ),
        (
            &[&[1, 2, 3]],
            &[4],
            (&[1, 2, 3, 4], &[]),
            &[4],
            &[],
            S::Promote(id(4)),
        ),
        // Promoted before anybody gave it anything.
        (
            &[&[1, 2, 3]],
            &[],
            (&[1, 2, 3, 4], &[]),
            &[4],
            &[],
            S::AddLearner(id(4)),
        ),
        // Whoever finds a joint step ends it, whatever the roster says by now.
        (
            &[&[1, 2, 3], &[1, 2, 3, 4]],
            &[],
            (&[1, 2, 3], &[]),
            &[],
            &[],
            S::Close,
        ),
        // Removed: a voter by a joint step, a learner at once.
        (
            &[&[1, 2, 3, 4]],
            &[],
            (&[2, 3, 4], &[]),
            &[],
            &[],
            S::Retire(id(1)),
        ),
        (
            &[&[1, 2, 3]],
            &[4],
            (&[1, 2, 3], &[]),
            &[4],
            &[],
            S::Drop(id(4)),
        ),
        // Rejoined: it votes no more, is dropped with its voters' set, and begins anew.
        (
            &[&[1, 2, 3]],
            &[],
            (&[1, 3], &[2]),
            &[2],
            &[2],
            S::Retire(id(2)),
        ),
        (
            &[&[1, 3]],
            &[],
            (&[1, 3], &[2]),
            &[],
            &[],
            S::AddLearner(id(2)),
        ),
        // A learner on another disk begins anew as well.
        (
            &[&[1, 2, 3]],
            &[4],
            (&[1, 2, 3], &[4]),
            &[4],
            &[4],
            S::Drop(id(4)),
        ),
        // Several rosters behind: whoever is replaced stays until the other is ready.
        (
            &[&[1, 2, 3]],
            &[4],
            (&[2, 3, 4], &[]),
            &[],
            &[],
            S::Await(id(4)),
        ),
        (
            &[&[1, 2, 3]],
            &[4],
            (&[2, 3, 4], &[]),
            &[4],
            &[],
            S::Promote(id(4)),
        ),
        (
            &[&[1, 2, 3, 4]],
            &[5],
            (&[2, 3, 5], &[]),
            &[],
            &[],
            S::Retire(id(1)),
        ),
        // Dead weight first: it may be what keeps the log.
        (
            &[&[1, 2, 3]],
            &[4, 9],
            (&[1, 2, 3, 4], &[]),
            &[4],
            &[],
            S::Drop(id(9)),
        ),
    ];
    for (number, (configurations, learners, (voters, waiting), caught_up, renewed, step)) in
        rows.into_iter().enumerate()
    {
        let view = View {
            seats: &seats(voters, waiting),
            membership: &membership(configurations, learners),
            caught_up: &set(caught_up),
            renewed: &set(renewed),
        };
        assert_eq!(view.next(), step, "row {number}");
    }
}

/// What a leader's step makes of a membership, as openraft makes it.
fn made(now: &Membership, step: Step) -> Membership {
    let configurations = now.get_joint_config().clone();
    let mut present = nodes(now);
    let sets = match step {
        Step::Followed | Step::Await(_) => return now.clone(),
        Step::Close => {
            let last = configurations.last().cloned().unwrap_or_default();
            let left = configurations.first().cloned().unwrap_or_default();
            present.retain(|node| last.contains(node) || !left.contains(node));
            vec![last]
        }
        Step::Drop(node) => {
            present.remove(&node.0);
            configurations
        }
        Step::AddLearner(node) => {
            present.insert(node.0);
            configurations
        }
        Step::Promote(node) | Step::Retire(node) => {
            let before = configurations.last().cloned().unwrap_or_default();
            let after = before
                .symmetric_difference(&set(&[node.0]))
                .copied()
                .collect();
            vec![before, after]
        }
    };
    Membership::new(sets, present)
}

proptest! {
    /// From any membership to any roster: every step passes on a node with the same roster, changes
    /// one voter at most, and they end, at the roster.
    #[test]
    fn steps_lead_to_the_roster_and_each_of_them_passes(
        first in prop::collection::btree_set(1u64..8, 1..6),
        present in prop::collection::btree_set(1u64..8, 0..7),
        voters in prop::collection::btree_set(1u64..8, 1..6),
        learners in prop::collection::btree_set(1u64..8, 0..4),
    ) {
        let roster = Seats { learners: learners.difference(&voters).copied().collect(), voters };
        let everybody = (1..8).collect();
        let mut now = Membership::new(vec![first], present);
        for _ in 0..40 {
            let view = View {
                seats: &roster,
                membership: &now,
                caught_up: &everybody,
                renewed: &BTreeSet::new(),
            };
            let step = view.next();
            if step == Step::Followed {
                break;
            }
            let next = made(&now, step);
            prop_assert!(roster.permits(&now, &next), "{step}: {now} {next}");
            now = next;
        }
        prop_assert!(roster.is(&now), "{now}");
        prop_assert_eq!(nodes(&now), roster.all());
    }
}
