//! Tests of the peer table and the judgement of a Hello.

use super::*;
use proptest::prelude::*;

fn vote(term: u64, node: u64) -> VoteMark {
    VoteMark {
        term,
        node: Some(node),
        committed: false,
    }
}

fn led(term: u64, node: u64) -> VoteMark {
    VoteMark {
        term,
        node: Some(node),
        committed: true,
    }
}

fn log(term: u64, index: u64) -> Option<LogMark> {
    Some(LogMark { term, index })
}

fn row(incarnation: u64, vote: VoteMark, log: Option<LogMark>) -> PeerRow {
    PeerRow {
        node: 2,
        incarnation,
        vote,
        log,
    }
}

fn voters() -> BTreeSet<u64> {
    BTreeSet::from([1, 2, 3])
}

/// Node 2 starts with `disk`; peer 1 remembers `row` of it.
fn judge(disk: Disk, row: Option<PeerRow>) -> HelloVerdict {
    let mut table = PeerTable::default();
    if let Some(row) = row {
        table.absorb(&row);
    }
    judge_hello(2, &disk, &BTreeMap::from([(1, table)]), &voters())
}

fn rolled_back(disk: Disk, row: PeerRow) {
    assert_eq!(
        judge(disk, Some(row)),
        HelloVerdict::RolledBack { by: 1, row }
    );
}

#[test]
fn fault_013_a_disk_that_went_back_in_time_does_not_vote() {
    let disk = Disk {
        incarnation: 5,
        vote: led(7, 1),
        last_log: log(7, 200),
    };
    // Entries 201 to 230 were acknowledged under the same leader.
    rolled_back(disk, row(4, led(7, 1), log(7, 230)));
    // A vote of a later term was given, and is forgotten.
    rolled_back(disk, row(4, vote(8, 3), None));
    // The same term, another candidate: it would be the second vote in it.
    let undecided = Disk {
        vote: vote(7, 1),
        ..disk
    };
    rolled_back(undecided, row(4, vote(7, 3), None));
    rolled_back(undecided, row(4, led(7, 3), None));
    // A boot is forgotten, though vote and log are the same.
    rolled_back(disk, row(5, led(7, 1), log(7, 200)));
    rolled_back(disk, row(6, led(7, 1), log(7, 200)));
}

#[test]
fn fault_014_a_wiped_disk_under_a_known_id_does_not_vote() {
    let wiped = Disk {
        incarnation: 1,
        ..Disk::default()
    };
    rolled_back(wiped, row(1, vote(1, 1), None));
    rolled_back(wiped, row(3, led(7, 1), log(7, 230)));
    // An empty disk of an id that nobody knows is a fresh node.
    assert_eq!(judge(wiped, None), HelloVerdict::Start);
}

#[test]
fn less_log_under_a_higher_vote_is_a_truncation() {
    let disk = Disk {
        incarnation: 5,
        vote: led(8, 3),
        last_log: log(7, 180),
    };
    assert_eq!(
        judge(disk, Some(row(4, led(7, 1), log(7, 230)))),
        HelloVerdict::Start
    );
    // Overridden within a term: the majority's leader beats an own vote for another candidate.
    assert_eq!(
        judge(disk, Some(row(4, vote(8, 1), None))),
        HelloVerdict::Start
    );
}

#[test]
fn a_crash_between_truncate_and_append_is_no_rollback() {
    // The new leader 3 has been followed (its vote is stored), the conflicting tail is cut, the
    // leader's entries are not there yet. Peers remember what was acknowledged under its vote:
    // the common prefix, never the tail.
    let disk = Disk {
        incarnation: 5,
        vote: led(8, 3),
        last_log: log(6, 180),
    };
    assert_eq!(
        judge(disk, Some(row(4, led(8, 3), log(6, 180)))),
        HelloVerdict::Start
    );
    assert_eq!(
        judge(disk, Some(row(4, led(8, 3), None))),
        HelloVerdict::Start
    );
}

#[test]
fn a_majority_with_itself_must_have_answered() {
    let disk = Disk {
        incarnation: 1,
        ..Disk::default()
    };
    let heard = |from: &[u64], voters: &[u64]| {
        let answers = from
            .iter()
            .map(|peer| (*peer, PeerTable::default()))
            .collect();
        judge_hello(2, &disk, &answers, &voters.iter().copied().collect())
    };
    assert_eq!(heard(&[], &[1, 2, 3]), HelloVerdict::Wait);
    assert_eq!(heard(&[3], &[1, 2, 3]), HelloVerdict::Start);
    assert_eq!(heard(&[3], &[1, 2, 3, 4, 5]), HelloVerdict::Wait);
    assert_eq!(heard(&[3, 5], &[1, 2, 3, 4, 5]), HelloVerdict::Start);
    // Who is no voter counts for nothing, neither as peer nor as itself.
    assert_eq!(heard(&[9], &[1, 2, 3]), HelloVerdict::Wait);
    assert_eq!(heard(&[3], &[1, 3, 4]), HelloVerdict::Wait);
}

#[test]
fn one_memory_is_enough_to_stop_even_without_a_majority() {
    let disk = Disk {
        incarnation: 2,
        vote: led(7, 1),
        last_log: log(7, 200),
    };
    let mut table = PeerTable::default();
    let seen = row(1, led(7, 1), log(7, 201));
    table.absorb(&seen);
    let five = BTreeSet::from([1, 2, 3, 4, 5]);
    assert_eq!(
        judge_hello(2, &disk, &BTreeMap::from([(4, table)]), &five),
        HelloVerdict::RolledBack { by: 4, row: seen }
    );
}

#[test]
fn a_table_only_ever_learns() {
    let mut table = PeerTable::default();
    assert!(table.absorb(&row(3, led(7, 1), log(7, 230))));
    assert!(!table.absorb(&row(3, led(7, 1), log(7, 230))));
    assert!(!table.absorb(&row(2, led(7, 1), log(7, 100))));
    assert!(!table.absorb(&row(3, vote(7, 2), log(9, 999))));
    assert!(table.absorb(&row(4, led(7, 1), None)));
    assert_eq!(table.row(2), Some(&row(4, led(7, 1), log(7, 230))));
    // A higher vote brings its own log, also a shorter one.
    assert!(table.absorb(&row(4, led(8, 3), log(7, 180))));
    assert_eq!(table.row(2), Some(&row(4, led(8, 3), log(7, 180))));
}

fn any_row() -> impl Strategy<Value = PeerRow> {
    (
        0..4_u64,
        0..4_u64,
        0..4_u64,
        proptest::option::of(1..4_u64),
        any::<bool>(),
        proptest::option::of((0..4_u64, 0..9_u64)),
    )
        .prop_map(
            |(node, incarnation, term, candidate, committed, log)| PeerRow {
                node,
                incarnation,
                vote: VoteMark {
                    term,
                    node: candidate,
                    committed,
                },
                log: log.map(|(term, index)| LogMark { term, index }),
            },
        )
}

proptest! {
    #[test]
    fn what_a_table_has_absorbed_stops_any_disk_that_forgot_it(rows in proptest::collection::vec(any_row(), 1..8)) {
        let mut table = PeerTable::default();
        for row in &rows {
            table.absorb(row);
        }
        prop_assert_eq!(PeerTable::from_bytes(&table.to_bytes()), Ok(table.clone()));
        let forgotten = Disk { incarnation: u64::MAX, ..Disk::default() };
        for row in rows {
            let remembered = row.vote != VoteMark::default() || row.log.is_some();
            let verdict = judge_hello(row.node, &forgotten, &BTreeMap::from([(9, table.clone())]), &BTreeSet::from([9]));
            prop_assert_eq!(remembered && verdict == HelloVerdict::Start, false);
        }
    }

    #[test]
    fn bytes_that_are_no_table_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..160)) {
        if let Ok(table) = PeerTable::from_bytes(&bytes) {
            prop_assert_eq!(table.to_bytes(), bytes);
        }
    }
}
