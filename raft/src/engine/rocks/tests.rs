//! The real engine against damaged files, failing background work and a full volume.

use futures::FutureExt;
use futures::executor::block_on;

use super::*;

const BALLAST: RocksOptions = RocksOptions {
    ballast_bytes: 1 << 16,
};
const ROWS: u64 = 12;

fn open(dir: &Path) -> Result<RocksEngine, StorageFault> {
    RocksEngine::open(dir, BALLAST)
}

fn put(engine: &RocksEngine, at: u64) -> Result<(), StorageFault> {
    let mut batch = WriteBatch::new();
    batch.put(Family::Log, at.to_be_bytes(), at.to_string());
    batch.put(Family::Leaves, at.to_be_bytes(), at.to_string());
    block_on(engine.write(batch, Durability::Synced))
}

/// A store whose log holds `ROWS` synced batches after its first one; returns the log file.
fn acknowledged(dir: &Path) -> PathBuf {
    // The first open ends with an empty log; what follows is replayed from one file.
    drop(open(dir).expect("open"));
    let engine = open(dir).expect("open");
    for at in 0..ROWS {
        put(&engine, at).expect("synced");
    }
    drop(engine);
    let logs = fs::read_dir(dir.join("db"))
        .expect("listed")
        .map(|file| file.expect("entry").path());
    let mut logs: Vec<_> = logs
        .filter(|path| path.extension().is_some_and(|name| name == "log"))
        .filter(|path| path.metadata().is_ok_and(|meta| meta.len() > 0))
        .collect();
    assert_eq!(logs.len(), 1, "one log file: {logs:?}");
    logs.remove(0)
}

/// Opens a copy of the store with another log file. `Some(n)`: it opened and holds the first `n`
/// batches, each whole.
fn opens_with(dir: &Path, log: &Path, bytes: &[u8]) -> Option<u64> {
    let copy = tempfile::tempdir().expect("temporary directory");
    fs::create_dir(copy.path().join("db")).expect("made");
    for file in fs::read_dir(dir.join("db")).expect("listed") {
        let file = file.expect("entry");
        fs::copy(file.path(), copy.path().join("db").join(file.file_name())).expect("copied");
    }
    fs::write(
        copy.path()
            .join("db")
            .join(log.file_name().expect("a file")),
        bytes,
    )
    .expect("written");
    let engine = open(copy.path()).ok()?;
    let expected: Vec<Row> = (0..ROWS)
        .map(|at| (at.to_be_bytes().to_vec(), at.to_string().into_bytes()))
        .collect();
    let found = engine
        .scan(Family::Log, &[], &[u8::MAX; 9], usize::MAX)
        .expect("readable");
    assert!(
        expected.starts_with(&found),
        "a prefix, unaltered: {found:?}"
    );
    let leaves = engine
        .scan(Family::Leaves, &[], &[u8::MAX; 9], usize::MAX)
        .expect("readable");
    assert_eq!(leaves, found, "batches are whole");
    Some(found.len() as u64)
}

#[test]
fn fault_010_a_torn_tail_opens_with_every_batch_before_it() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let log = acknowledged(dir.path());
    let bytes = fs::read(&log).expect("readable");
    assert_eq!(opens_with(dir.path(), &log, &bytes), Some(ROWS));
    let mut before = 0;
    for cut in (0..bytes.len()).step_by(23) {
        let kept = opens_with(dir.path(), &log, &bytes[..cut]).expect("a torn tail opens");
        assert!(
            kept >= before && kept < ROWS,
            "{kept} batches in {cut} bytes"
        );
        before = kept;
    }
    assert_eq!(before, ROWS - 1, "only the torn record is dropped");
}

/// What recovery does with a flipped bit, by where it is. A flipped length makes the record seem
/// to reach beyond the end of the file, which is what a torn tail looks like: this engine alone
/// cannot tell them apart, the peers' memory of our last log id can (D9).
#[test]
fn fault_010_a_flipped_bit_is_refused_or_looks_torn_but_never_alters() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let log = acknowledged(dir.path());
    let bytes = fs::read(&log).expect("readable");
    let (mut refused, mut torn) = (0, 0);
    for at in (0..bytes.len()).step_by(11) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x10;
        match opens_with(dir.path(), &log, &flipped) {
            None => refused += 1,
            Some(kept) => {
                assert!(kept < ROWS, "the flip at {at} went unnoticed");
                torn += 1;
            }
        }
    }
    assert!(refused > 5 * torn, "{refused} refused, {torn} look torn");
    // A flip inside the last acknowledged value is always refused.
    let mut flipped = bytes.clone();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    assert_eq!(opens_with(dir.path(), &log, &flipped), None);
}

#[test]
fn fault_010_a_log_file_that_is_gone_is_refused_or_leaves_no_gap() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let log = acknowledged(dir.path());
    let kept = opens_with(dir.path(), &log, &[]);
    assert!(kept.is_none_or(|kept| kept == 0), "{kept:?}");
}

/// Makes the next flush fail in the background: directories stand where its files should go.
fn break_flushes(engine: &RocksEngine) {
    let store = &engine.open.store;
    for number in 0..200 {
        // Those that exist are RocksDB's own.
        let _ = fs::create_dir(store.dir.join(format!("db/{number:06}.sst")));
    }
    let family = store.handle(Family::Log).expect("family");
    store.db.flush_cf(family).expect_err("no file can be made");
}

#[test]
fn fault_009_a_write_after_a_background_error_fails_for_good() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let engine = open(dir.path()).expect("open");
    put(&engine, 1).expect("synced");
    break_flushes(&engine);
    put(&engine, 2).expect_err("the flush before it failed");
    let fault = engine
        .failed()
        .now_or_never()
        .expect("the process is told to exit");
    assert!(matches!(fault, StorageFault::Io { .. }), "{fault:?}");
}

#[test]
fn fault_009_an_idle_store_notices_a_background_error() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let engine = open(dir.path()).expect("open");
    put(&engine, 1).expect("synced");
    break_flushes(&engine);
    // Nobody calls: the writing thread looks by itself.
    let fault = block_on(engine.failed());
    let during = "writing in the background";
    assert!(
        matches!(fault, StorageFault::Io { during: found, .. } if found == during),
        "{fault:?}"
    );
}

#[test]
fn fault_012_a_full_volume_gives_up_the_ballast_and_leaves_word() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let ballast = dir.path().join("ballast");
    let engine = open(dir.path()).expect("open");
    put(&engine, 1).expect("synced");
    assert_eq!(
        ballast.metadata().expect("reserved").len(),
        BALLAST.ballast_bytes
    );
    engine.condemn(StorageFault::Full {
        detail: "no space left".into(),
    });
    assert!(!ballast.exists(), "its room is needed now");
    let word = fs::read_to_string(dir.path().join("stopped")).expect("a stop record");
    assert!(word.contains("full"), "{word}");
    put(&engine, 2).expect_err("stopped");
    drop(engine);
    let engine = open(dir.path()).expect("there is room again");
    assert!(ballast.exists() && !dir.path().join("stopped").exists());
    assert_eq!(
        engine.get(Family::Log, &1_u64.to_be_bytes()),
        Ok(Some(b"1".to_vec()))
    );
    assert_eq!(engine.get(Family::Log, &2_u64.to_be_bytes()), Ok(None));
}

#[test]
fn fault_012_a_store_without_room_for_its_ballast_does_not_open() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let refused = RocksEngine::open(
        dir.path(),
        RocksOptions {
            ballast_bytes: 1 << 60,
        },
    );
    assert!(refused.is_err());
    assert!(
        !dir.path().join("ballast").exists(),
        "half a ballast is no reserve"
    );
    open(dir.path()).expect("with a ballast that fits");
}

#[test]
fn a_store_without_its_format_record_is_not_opened() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let engine = open(dir.path()).expect("open");
    put(&engine, 1).expect("synced");
    let mut batch = WriteBatch::new();
    batch.delete(Family::Meta, FORMAT_KEY);
    block_on(engine.write(batch, Durability::Synced)).expect("synced");
    drop(engine);
    let refused = open(dir.path()).map(drop);
    assert!(
        matches!(refused, Err(StorageFault::Corrupt { .. })),
        "{refused:?}"
    );
}

#[test]
fn the_volume_tells_its_room() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let usage = open(dir.path()).expect("open").usage().expect("known");
    assert!(usage.free <= usage.total && usage.total > 0, "{usage:?}");
}
