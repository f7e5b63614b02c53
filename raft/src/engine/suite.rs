//! The promises of [`Engine`], one named check each, run against the real engine, the simulated
//! one, and engines that break one promise on purpose: each of those must be caught.
//!
//! A check that needs a power loss or a failing disk runs on simulated disks only. That the real
//! engine syncs before it answers is shown on the real system calls, in `tests/sync_before_ack.rs`.

use futures::FutureExt;
use futures::executor::block_on;

use super::format::FORMAT_KEY;
use super::*;

mod mutants;

/// A store that can be opened again and again.
trait Rig {
    type Engine: Engine + std::fmt::Debug;
    fn open(&self) -> Result<Self::Engine, StorageFault>;
    fn disk(&self) -> Option<&SimDisk>;
}

impl Rig for SimDisk {
    type Engine = SimEngine;
    fn open(&self) -> Result<SimEngine, StorageFault> {
        SimDisk::open(self)
    }
    fn disk(&self) -> Option<&SimDisk> {
        Some(self)
    }
}

type Verdict = Result<(), String>;

enum Check<R> {
    AnyDisk(&'static str, fn(&R) -> Verdict),
    SimulatedDisk(&'static str, fn(&R, &SimDisk) -> Verdict),
}

macro_rules! ensure {
    ($truth:expr, $($why:tt)+) => {
        if !$truth {
            return Err(format!($($why)+));
        }
    };
}

fn checks<R: Rig>() -> Vec<Check<R>> {
    use Check::{AnyDisk, SimulatedDisk};
    vec![
        AnyDisk("reads_show_what_was_written", reads_show_what_was_written),
        AnyDisk("ranges_are_half_open", ranges_are_half_open),
        AnyDisk("families_are_separate", families_are_separate),
        AnyDisk(
            "a_batch_takes_effect_in_order",
            a_batch_takes_effect_in_order,
        ),
        AnyDisk("calls_keep_their_order", calls_keep_their_order),
        AnyDisk(
            "a_new_process_sees_everything",
            a_new_process_sees_everything,
        ),
        AnyDisk("one_process_at_a_time", one_process_at_a_time),
        AnyDisk("the_format_is_judged_first", the_format_is_judged_first),
        AnyDisk("a_condemned_store_stops", a_condemned_store_stops),
        SimulatedDisk("synced_survives_power_loss", synced_survives_power_loss),
        SimulatedDisk(
            "synced_covers_earlier_buffered",
            synced_covers_earlier_buffered,
        ),
        SimulatedDisk("acknowledged_only_after_sync", acknowledged_only_after_sync),
        SimulatedDisk("power_loss_keeps_a_prefix", power_loss_keeps_a_prefix),
        SimulatedDisk("a_batch_is_whole", a_batch_is_whole),
        SimulatedDisk("what_open_shows_is_durable", what_open_shows_is_durable),
        SimulatedDisk("a_failed_sync_is_final", a_failed_sync_is_final),
        SimulatedDisk("a_failed_write_is_final", a_failed_write_is_final),
        SimulatedDisk("a_full_disk_is_final", a_full_disk_is_final),
    ]
}

/// Runs every check that the disk allows on a store of its own; returns those that failed.
fn failures<R: Rig>(new: impl Fn() -> R) -> Vec<(&'static str, String)> {
    let mut failures = Vec::new();
    for check in checks::<R>() {
        let rig = new();
        let (name, verdict) = match check {
            Check::AnyDisk(name, run) => (name, run(&rig)),
            Check::SimulatedDisk(name, run) => match rig.disk() {
                Some(disk) => (name, run(&rig, disk)),
                None => continue,
            },
        };
        failures.extend(verdict.err().map(|why| (name, why)));
    }
    failures
}

#[test]
fn the_simulated_engine_keeps_every_promise() {
    assert_eq!(failures(SimDisk::new), []);
}

#[cfg(not(madsim))]
#[test]
fn the_real_engine_keeps_every_promise() {
    struct Directory(tempfile::TempDir);
    impl Rig for Directory {
        type Engine = RocksEngine;
        fn open(&self) -> Result<RocksEngine, StorageFault> {
            RocksEngine::open(
                self.0.path(),
                RocksOptions {
                    ballast_bytes: 1 << 16,
                },
            )
        }
        fn disk(&self) -> Option<&SimDisk> {
            None
        }
    }
    assert_eq!(
        failures(|| Directory(tempfile::tempdir().expect("temporary directory"))),
        []
    );
}

fn say(fault: StorageFault) -> String {
    format!("unexpected fault: {fault}")
}

fn put(
    engine: &impl Engine,
    family: Family,
    key: &str,
    value: &str,
    durability: Durability,
) -> Result<(), StorageFault> {
    let mut batch = WriteBatch::new();
    batch.put(family, key, value);
    block_on(engine.write(batch, durability))
}

fn has(engine: &impl Engine, family: Family, key: &str) -> Result<bool, String> {
    engine
        .get(family, key.as_bytes())
        .map(|found| found.is_some())
        .map_err(say)
}

fn keys(engine: &impl Engine, family: Family, from: &str, to: &str) -> Result<Vec<String>, String> {
    let rows = engine
        .scan(family, from.as_bytes(), to.as_bytes(), 100)
        .map_err(say)?;
    Ok(rows
        .into_iter()
        .map(|(key, _)| String::from_utf8_lossy(&key).into_owned())
        .collect())
}

use Durability::{Buffered, Synced};
use Family::{Index, Leaves, Log, Meta, Nodes};

fn reads_show_what_was_written<R: Rig>(rig: &R) -> Verdict {
    let engine = rig.open().map_err(say)?;
    for (key, value) in [("b", "1"), ("a", "2"), ("c", "3"), ("b", "4")] {
        put(&engine, Log, key, value, Buffered).map_err(say)?;
    }
    ensure!(
        engine.get(Log, b"b").map_err(say)? == Some(b"4".to_vec()),
        "b was overwritten"
    );
    ensure!(
        engine.get(Log, b"d").map_err(say)?.is_none(),
        "d was never written"
    );
    ensure!(
        keys(&engine, Log, "a", "z")? == ["a", "b", "c"],
        "scan ascends"
    );
    ensure!(
        engine.scan(Log, b"a", b"z", 2).map_err(say)?.len() == 2,
        "scan obeys its limit"
    );
    let last = engine.last(Log).map_err(say)?;
    ensure!(
        last == Some((b"c".to_vec(), b"3".to_vec())),
        "last is the greatest key"
    );
    let mut batch = WriteBatch::new();
    batch.delete(Log, "c");
    block_on(engine.write(batch, Synced)).map_err(say)?;
    ensure!(keys(&engine, Log, "a", "z")? == ["a", "b"], "c was deleted");
    Ok(())
}

fn ranges_are_half_open<R: Rig>(rig: &R) -> Verdict {
    let engine = rig.open().map_err(say)?;
    for key in ["a", "b", "c", "d"] {
        put(&engine, Log, key, "", Buffered).map_err(say)?;
    }
    ensure!(
        keys(&engine, Log, "b", "d")? == ["b", "c"],
        "scan of [b, d)"
    );
    ensure!(
        keys(&engine, Log, "d", "b")?.is_empty(),
        "scan of a reversed range"
    );
    let mut batch = WriteBatch::new();
    batch.delete_range(Log, "b", "d");
    batch.delete_range(Log, "z", "a");
    block_on(engine.write(batch, Synced)).map_err(say)?;
    ensure!(
        keys(&engine, Log, "a", "z")? == ["a", "d"],
        "delete of [b, d)"
    );
    Ok(())
}

fn families_are_separate<R: Rig>(rig: &R) -> Verdict {
    let engine = rig.open().map_err(say)?;
    for family in Family::ALL {
        put(&engine, family, "key", family.name(), Buffered).map_err(say)?;
    }
    for family in Family::ALL {
        let found = engine.get(family, b"key").map_err(say)?;
        ensure!(
            found == Some(family.name().into()),
            "{family:?} has its own value"
        );
    }
    Ok(())
}

fn a_batch_takes_effect_in_order<R: Rig>(rig: &R) -> Verdict {
    let engine = rig.open().map_err(say)?;
    let mut batch = WriteBatch::new();
    batch.put(Log, "a", "early");
    batch.put(Log, "b", "early");
    batch.delete_range(Log, "a", "z");
    batch.put(Log, "b", "late");
    block_on(engine.write(batch, Synced)).map_err(say)?;
    ensure!(!has(&engine, Log, "a")?, "a was put before the deletion");
    ensure!(
        engine.get(Log, b"b").map_err(say)? == Some(b"late".to_vec()),
        "b was put after it"
    );
    Ok(())
}

fn calls_keep_their_order<R: Rig>(rig: &R) -> Verdict {
    let engine = rig.open().map_err(say)?;
    let write = |value: usize, durability| {
        let mut batch = WriteBatch::new();
        batch.put(Meta, "value", value.to_string());
        batch.put(Leaves, value.to_string(), "");
        engine.write(batch, durability)
    };
    let mut waiting: Vec<_> = (0..20)
        .map(|value| write(value, if value % 3 == 0 { Synced } else { Buffered }))
        .collect();
    // A future that is dropped does not take its batch back.
    drop(waiting.remove(7));
    for written in waiting.into_iter().rev() {
        block_on(written).map_err(say)?;
    }
    ensure!(
        engine.get(Meta, b"value").map_err(say)? == Some(b"19".to_vec()),
        "the last call wins"
    );
    ensure!(
        has(&engine, Leaves, "7")?,
        "the dropped future's batch is there"
    );
    Ok(())
}

fn a_new_process_sees_everything<R: Rig>(rig: &R) -> Verdict {
    let engine = rig.open().map_err(say)?;
    put(&engine, Log, "synced", "", Synced).map_err(say)?;
    put(&engine, Nodes, "buffered", "", Buffered).map_err(say)?;
    drop(engine);
    let engine = rig.open().map_err(say)?;
    ensure!(has(&engine, Log, "synced")?, "the synced key");
    ensure!(
        has(&engine, Nodes, "buffered")?,
        "the buffered key: no power was lost"
    );
    Ok(())
}

fn one_process_at_a_time<R: Rig>(rig: &R) -> Verdict {
    let engine = rig.open().map_err(say)?;
    let clone = engine.clone();
    drop(engine);
    let second = rig.open();
    ensure!(
        matches!(second, Err(StorageFault::Locked { .. })),
        "second open: {second:?}"
    );
    drop(clone);
    rig.open().map(drop).map_err(say)
}

fn the_format_is_judged_first<R: Rig>(rig: &R) -> Verdict {
    let engine = rig.open().map_err(say)?;
    let later = FormatRecord {
        format: FORMAT + 1,
        reader_min: FORMAT + 1,
    };
    let mut batch = WriteBatch::new();
    batch.put(Meta, FORMAT_KEY, later.to_bytes());
    block_on(engine.write(batch, Synced)).map_err(say)?;
    drop(engine);
    let refused = rig.open().map(drop);
    let expected = StorageFault::NewerFormat {
        needed: FORMAT + 1,
        readable: FORMAT,
    };
    ensure!(
        refused == Err(expected),
        "a later release's store: {refused:?}"
    );
    Ok(())
}

fn a_condemned_store_stops<R: Rig>(rig: &R) -> Verdict {
    let engine = rig.open().map_err(say)?;
    put(&engine, Log, "a", "", Synced).map_err(say)?;
    engine.condemn(StorageFault::Corrupt {
        what: "entry 7".into(),
        detail: "test".into(),
    });
    stopped(&engine)
}

fn stopped(engine: &impl Engine) -> Verdict {
    let is_stopped =
        |result: Result<(), StorageFault>| matches!(result, Err(StorageFault::Stopped { .. }));
    for durability in [Buffered, Synced] {
        let written = put(engine, Log, "later", "", durability);
        ensure!(
            is_stopped(written.clone()),
            "{durability:?} write after the fault: {written:?}"
        );
    }
    ensure!(
        is_stopped(engine.get(Log, b"a").map(drop)),
        "get after the fault"
    );
    ensure!(
        is_stopped(engine.scan(Log, b"a", b"b", 1).map(drop)),
        "scan after the fault"
    );
    ensure!(
        is_stopped(engine.last(Log).map(drop)),
        "last after the fault"
    );
    ensure!(
        engine.failed().now_or_never().is_some(),
        "whoever waits for a fault is told"
    );
    Ok(())
}

fn synced_survives_power_loss<R: Rig>(rig: &R, disk: &SimDisk) -> Verdict {
    for round in 0..5 {
        let engine = rig.open().map_err(say)?;
        put(&engine, Log, &round.to_string(), "", Synced).map_err(say)?;
        put(&engine, Log, "unsynced", "", Buffered).map_err(say)?;
        disk.power_loss(0);
    }
    let engine = rig.open().map_err(say)?;
    ensure!(
        keys(&engine, Log, "0", "9")? == ["0", "1", "2", "3", "4"],
        "synced and acknowledged"
    );
    Ok(())
}

fn synced_covers_earlier_buffered<R: Rig>(rig: &R, disk: &SimDisk) -> Verdict {
    let engine = rig.open().map_err(say)?;
    put(&engine, Leaves, "leaf", "", Buffered).map_err(say)?;
    put(&engine, Nodes, "node", "", Buffered).map_err(say)?;
    put(&engine, Log, "entry", "", Synced).map_err(say)?;
    disk.power_loss(0);
    let engine = rig.open().map_err(say)?;
    ensure!(
        has(&engine, Leaves, "leaf")?,
        "one log for all families: the leaf came first"
    );
    ensure!(
        has(&engine, Nodes, "node")?,
        "one log for all families: the node came first"
    );
    Ok(())
}

fn acknowledged_only_after_sync<R: Rig>(rig: &R, disk: &SimDisk) -> Verdict {
    let engine = rig.open().map_err(say)?;
    let write = |key: &str| {
        let mut batch = WriteBatch::new();
        batch.put(Log, key, "");
        engine.write(batch, Synced)
    };
    disk.hold_syncs();
    let mut held = Box::pin(write("a"));
    ensure!(
        (&mut held).now_or_never().is_none(),
        "answered while the fsync was running"
    );
    disk.release_syncs();
    block_on(held).map_err(say)?;
    disk.hold_syncs();
    let mut held = Box::pin(write("b"));
    ensure!(
        (&mut held).now_or_never().is_none(),
        "answered while the fsync was running"
    );
    disk.power_loss(0);
    ensure!(block_on(held).is_err(), "answered after the power was gone");
    disk.release_syncs();
    let engine = rig.open().map_err(say)?;
    ensure!(has(&engine, Log, "a")?, "a was acknowledged");
    ensure!(
        !has(&engine, Log, "b")?,
        "b was not, and no fsync covered it"
    );
    Ok(())
}

fn power_loss_keeps_a_prefix<R: Rig>(rig: &R, disk: &SimDisk) -> Verdict {
    drop(rig.open().map_err(say)?);
    let before = disk.image();
    let all = ["a", "b", "c", "d", "e", "f"];
    for keep in 0..=all.len() {
        let engine = rig.open().map_err(say)?;
        for (at, key) in all.iter().enumerate() {
            let family = [Log, Log, Leaves][at % 3];
            put(&engine, family, key, "", Buffered).map_err(say)?;
        }
        disk.power_loss(keep);
        let engine = rig.open().map_err(say)?;
        let mut kept = [
            keys(&engine, Log, "a", "z")?,
            keys(&engine, Leaves, "a", "z")?,
        ]
        .concat();
        kept.sort();
        ensure!(
            all.starts_with(&kept.iter().map(String::as_str).collect::<Vec<_>>()),
            "{kept:?}"
        );
        disk.rollback(&before);
    }
    Ok(())
}

fn a_batch_is_whole<R: Rig>(rig: &R, disk: &SimDisk) -> Verdict {
    drop(rig.open().map_err(say)?);
    let before = disk.image();
    for keep in 0..4 {
        let engine = rig.open().map_err(say)?;
        let mut batch = WriteBatch::new();
        for family in [Leaves, Nodes, Index, Meta] {
            batch.put(family, "entry 120", "applied");
        }
        block_on(engine.write(batch, Buffered)).map_err(say)?;
        disk.power_loss(keep);
        let engine = rig.open().map_err(say)?;
        let mut found = 0;
        for family in [Leaves, Nodes, Index, Meta] {
            found += usize::from(has(&engine, family, "entry 120")?);
        }
        ensure!(found == 0 || found == 4, "{found} of 4 rows after a crash");
        disk.rollback(&before);
    }
    Ok(())
}

fn what_open_shows_is_durable<R: Rig>(rig: &R, disk: &SimDisk) -> Verdict {
    let engine = rig.open().map_err(say)?;
    put(&engine, Log, "a", "", Buffered).map_err(say)?;
    disk.kill();
    let engine = rig.open().map_err(say)?;
    ensure!(has(&engine, Log, "a")?, "the operating system lived");
    disk.power_loss(0);
    let engine = rig.open().map_err(say)?;
    ensure!(has(&engine, Log, "a")?, "the process before has seen it");
    Ok(())
}

fn a_failed_sync_is_final<R: Rig>(rig: &R, disk: &SimDisk) -> Verdict {
    let engine = rig.open().map_err(say)?;
    put(&engine, Log, "a", "", Synced).map_err(say)?;
    disk.fail_syncs(1);
    let failed = put(&engine, Log, "b", "", Synced);
    ensure!(
        matches!(failed, Err(StorageFault::Io { .. })),
        "the failing sync: {failed:?}"
    );
    stopped(&engine)?;
    disk.kill();
    let engine = rig.open().map_err(say)?;
    ensure!(has(&engine, Log, "a")?, "acknowledged before the fault");
    ensure!(
        !has(&engine, Log, "b")?,
        "only what is on the platter is read"
    );
    Ok(())
}

fn a_failed_write_is_final<R: Rig>(rig: &R, disk: &SimDisk) -> Verdict {
    for left in [FailedWrite::Absent, FailedWrite::Present] {
        let engine = rig.open().map_err(say)?;
        disk.fail_writes(1, left);
        let failed = put(&engine, Log, "b", "", Buffered);
        ensure!(
            matches!(failed, Err(StorageFault::Io { .. })),
            "the failing write: {failed:?}"
        );
        stopped(&engine)?;
        disk.power_loss(0);
    }
    Ok(())
}

fn a_full_disk_is_final<R: Rig>(rig: &R, disk: &SimDisk) -> Verdict {
    let engine = rig.open().map_err(say)?;
    put(&engine, Log, "a", "", Synced).map_err(say)?;
    disk.set_budget(Some(disk.used() + 8));
    let full = put(&engine, Log, "b", "too long for what is left", Synced);
    ensure!(
        matches!(full, Err(StorageFault::Full { .. })),
        "the write that does not fit: {full:?}"
    );
    stopped(&engine)?;
    drop(engine);
    disk.set_budget(None);
    let engine = rig.open().map_err(say)?;
    ensure!(
        has(&engine, Log, "a")?,
        "acknowledged before the disk was full"
    );
    ensure!(!has(&engine, Log, "b")?, "nothing phantom");
    put(&engine, Log, "b", "fits again", Synced).map_err(say)
}
