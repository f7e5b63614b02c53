//! The log store on disks that lose, fail and come back.

use futures::FutureExt;
use futures::executor::block_on;
use openraft::storage::RaftLogStorageExt;
use openraft::{EntryPayload, RaftLogReader};

use super::*;
use crate::batch::{Batch, BatchContent};
use crate::engine::{SimDisk, SimEngine};

mod property;

type Store = LogStore<SimEngine>;

fn start(disk: &SimDisk) -> Store {
    LogStore::open(disk.open().expect("open")).expect("a sound log")
}

fn id(term: u64, index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(term, 0), index)
}

fn entry(term: u64, index: u64) -> Entry {
    let content = BatchContent {
        term,
        leader: 1,
        commands: vec![index.to_be_bytes().to_vec()],
    };
    let payload = EntryPayload::Normal(Batch::new(&content).expect("small"));
    Entry {
        log_id: id(term, index),
        payload,
    }
}

fn entries(term: u64, indexes: std::ops::RangeInclusive<u64>) -> Vec<Entry> {
    indexes.map(|index| entry(term, index)).collect()
}

fn all(store: &mut Store) -> Vec<LogId> {
    let entries = block_on(store.try_get_log_entries(..)).expect("readable");
    entries.iter().map(|entry| entry.log_id).collect()
}

fn ids(term: u64, indexes: std::ops::RangeInclusive<u64>) -> Vec<LogId> {
    indexes.map(|index| id(term, index)).collect()
}

#[test]
fn fault_005_an_acknowledged_append_survives_power_loss() {
    let disk = SimDisk::new();
    let mut store = start(&disk);
    block_on(store.blocking_append(entries(1, 1..=3))).expect("synced");
    block_on(store.save_vote(&Vote::new(2, 3))).expect("synced");
    disk.power_loss(0);
    let mut store = start(&disk);
    assert_eq!(all(&mut store), ids(1, 1..=3));
    let durable = Durable {
        vote: Some(Vote::new(2, 3)),
        last: Some(id(1, 3)),
    };
    assert_eq!(store.durable(), durable);
}

#[test]
fn fault_005_the_callback_waits_for_the_fsync() {
    let disk = SimDisk::new();
    let mut store = start(&disk);
    block_on(store.blocking_append(entries(1, 1..=1))).expect("synced");
    disk.hold_syncs();
    {
        let mut append = Box::pin(store.blocking_append(entries(1, 2..=2)));
        assert!(
            (&mut append).now_or_never().is_none(),
            "called back before the fsync ended"
        );
    }
    assert_eq!(
        store.durable().last,
        Some(id(1, 1)),
        "only what is fsynced is promised"
    );
    assert!(
        store.save_vote(&Vote::new(2, 3)).now_or_never().is_none(),
        "the vote waits too"
    );
    assert_eq!(store.durable().vote, None);
    disk.power_loss(0);
    assert_eq!(all(&mut start(&disk)), ids(1, 1..=1));
}

#[test]
fn fault_008_a_failed_fsync_poisons_the_store() {
    let disk = SimDisk::new();
    let mut store = start(&disk);
    block_on(store.blocking_append(entries(1, 1..=1))).expect("synced");
    disk.fail_syncs(1);
    block_on(store.blocking_append(entries(1, 2..=2))).expect_err("EIO");
    // The disk would report success now.
    block_on(store.blocking_append(entries(1, 2..=2))).expect_err("poisoned");
    block_on(store.save_vote(&Vote::new(1, 1))).expect_err("poisoned");
    block_on(store.truncate(id(1, 1))).expect_err("poisoned");
    block_on(store.purge(id(1, 1))).expect_err("poisoned");
    block_on(store.save_committed(Some(id(1, 1)))).expect_err("poisoned");
    block_on(store.try_get_log_entries(..)).expect_err("poisoned");
    block_on(store.read_vote()).expect_err("poisoned");
    block_on(store.get_log_state()).expect_err("poisoned");
    assert_eq!(store.durable().last, Some(id(1, 1)));
    disk.kill();
    assert_eq!(
        all(&mut start(&disk)),
        ids(1, 1..=1),
        "only what is on the platter"
    );
}

#[test]
fn fault_008_the_callback_carries_the_error() {
    let disk = SimDisk::new();
    let mut store = start(&disk);
    disk.fail_syncs(1);
    let error = block_on(store.blocking_append(entries(1, 1..=1))).expect_err("EIO");
    assert!(error.to_string().contains("simulated EIO"), "{error}");
    let failed = store
        .engine()
        .failed()
        .now_or_never()
        .expect("the process is told to exit");
    assert!(
        matches!(
            failed,
            StorageFault::Io {
                during: "syncing",
                ..
            }
        ),
        "{failed:?}"
    );
}

#[test]
fn a_crash_between_truncate_and_append_comes_back() {
    let disk = SimDisk::new();
    let mut store = start(&disk);
    block_on(store.blocking_append(entries(1, 1..=5))).expect("synced");
    block_on(store.truncate(id(1, 3))).expect("synced");
    disk.power_loss(0);
    let mut store = start(&disk);
    assert_eq!(all(&mut store), ids(1, 1..=2));
    assert_eq!(store.durable().last, Some(id(1, 2)));
    block_on(store.blocking_append(entries(2, 3..=4))).expect("synced");
    disk.power_loss(0);
    assert_eq!(
        all(&mut start(&disk)),
        [ids(1, 1..=2), ids(2, 3..=4)].concat()
    );
}

#[test]
fn purge_survives_power_loss_and_is_the_last_log_id_of_an_empty_log() {
    let disk = SimDisk::new();
    let mut store = start(&disk);
    block_on(store.blocking_append(entries(1, 1..=5))).expect("synced");
    block_on(store.purge(id(1, 3))).expect("synced");
    disk.power_loss(0);
    let mut store = start(&disk);
    assert_eq!(all(&mut store), ids(1, 4..=5));
    // As after a snapshot that reaches beyond the log.
    block_on(store.purge(id(2, 9))).expect("synced");
    disk.power_loss(0);
    let mut store = start(&disk);
    let state = block_on(store.get_log_state()).expect("readable");
    assert_eq!(
        (state.last_purged_log_id, state.last_log_id),
        (Some(id(2, 9)), Some(id(2, 9)))
    );
    assert_eq!(store.durable().last, Some(id(2, 9)));
    block_on(store.blocking_append(entries(2, 10..=10))).expect("follows the purge point");
}

#[test]
fn a_peer_row_rides_on_the_next_append_and_on_its_fsync() {
    let disk = SimDisk::new();
    let mut store = start(&disk);
    store.piggyback(b"peer/2".to_vec(), b"old".to_vec());
    store.piggyback(b"peer/2".to_vec(), b"new".to_vec());
    assert_eq!(disk.unsynced(), 0, "it costs no write of its own");
    block_on(store.blocking_append(entries(1, 1..=1))).expect("synced");
    disk.power_loss(0);
    let store = start(&disk);
    assert_eq!(
        store.engine().get(Family::Meta, b"peer/2"),
        Ok(Some(b"new".to_vec()))
    );
}

#[test]
fn a_vote_never_regresses() {
    let disk = SimDisk::new();
    for lower in [Vote::new(4, 2), Vote::new(5, 3), Vote::new(5, 2)] {
        let mut store = start(&disk);
        block_on(store.save_vote(&Vote::new_committed(5, 2))).expect("synced");
        block_on(store.save_vote(&lower)).expect_err("a second vote in the same term");
        disk.kill();
        assert_eq!(start(&disk).durable().vote, Some(Vote::new_committed(5, 2)));
        disk.kill();
    }
}

#[test]
fn an_append_that_would_leave_a_hole_is_refused() {
    let disk = SimDisk::new();
    let mut store = start(&disk);
    block_on(store.blocking_append(entries(1, 1..=2))).expect("synced");
    block_on(store.blocking_append(entries(1, 4..=4))).expect_err("3 is missing");
    disk.kill();
    assert_eq!(all(&mut start(&disk)), ids(1, 1..=2));
}

#[test]
fn fault_010_damage_is_noticed_not_skipped() {
    let disk = SimDisk::new();
    let mut store = start(&disk);
    block_on(store.blocking_append(entries(1, 1..=3))).expect("synced");
    let sound = store
        .engine()
        .get(Family::Log, &log_key(2))
        .expect("readable")
        .expect("there");
    let mut flipped = sound.clone();
    flipped[12] ^= 1;
    let misplaced = store
        .engine()
        .get(Family::Log, &log_key(1))
        .expect("readable")
        .expect("there");
    for damaged in [
        Some(flipped),
        Some(sound[..9].to_vec()),
        Some(misplaced),
        None,
    ] {
        let mut batch = WriteBatch::new();
        match &damaged {
            Some(value) => batch.put(Family::Log, log_key(2), value.clone()),
            None => batch.delete(Family::Log, log_key(2)),
        }
        let mut store = start(&disk.copy());
        block_on(store.synced(batch)).expect("synced");
        block_on(store.try_get_log_entries(1..4)).expect_err("entry 2 is damaged");
        let fault = store.engine().failed().now_or_never().expect("fatal");
        assert!(
            matches!(fault, StorageFault::Corrupt { .. }),
            "{damaged:?}: {fault:?}"
        );
    }
}

#[test]
fn a_log_that_does_not_follow_its_purge_point_is_corrupt() {
    let disk = SimDisk::new();
    let mut store = start(&disk);
    block_on(store.blocking_append(entries(1, 1..=5))).expect("synced");
    block_on(store.purge(id(1, 2))).expect("synced");
    let mut batch = WriteBatch::new();
    batch.delete(Family::Log, log_key(3));
    block_on(store.synced(batch)).expect("synced");
    disk.kill();
    let opened = LogStore::open(disk.open().expect("open"));
    assert!(
        matches!(opened, Err(StorageFault::Corrupt { .. })),
        "{opened:?}"
    );
}

#[test]
fn a_reader_without_a_limit_gets_a_bounded_answer() {
    let disk = SimDisk::new();
    let mut store = start(&disk);
    let large = |index| {
        let commands = vec![vec![7; 1 << 19]; 2];
        let content = BatchContent {
            term: 1,
            leader: 1,
            commands,
        };
        let payload = EntryPayload::Normal(Batch::new(&content).expect("within limits"));
        Entry {
            log_id: id(1, index),
            payload,
        }
    };
    block_on(store.blocking_append((1..=12).map(large))).expect("synced");
    let some = block_on(store.limited_get_log_entries(1, 13)).expect("readable");
    assert_eq!(some[0].log_id, id(1, 1));
    assert!(
        (4..=8).contains(&some.len()),
        "{} entries of 1 MiB",
        some.len()
    );
    assert_eq!(
        block_on(store.try_get_log_entries(1..13))
            .expect("readable")
            .len(),
        12
    );
    assert_eq!(
        block_on(store.limited_get_log_entries(3, 3))
            .expect("readable")
            .len(),
        0
    );
}

#[test]
fn every_vote_round_trips_and_no_bytes_panic() {
    let unnamed = Vote {
        leader_id: LeaderId {
            term: 3,
            voted_for: None,
        },
        committed: false,
    };
    for vote in [
        unnamed,
        Vote::new(3, 9),
        Vote::new_committed(u64::MAX, u64::MAX),
    ] {
        let bytes = encode_vote(&vote);
        assert_eq!(decode_vote(&bytes), Some(vote));
        for cut in 0..bytes.len() {
            assert_ne!(decode_vote(&bytes[..cut]), Some(vote));
        }
    }
}

#[cfg(not(madsim))]
mod openraft_suite;
