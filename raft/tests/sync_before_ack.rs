//! Sync before acknowledge, on the real engine and the real system calls (fault 5): a child process
//! writes under `tests/preload/count_sync.c`, which notes every sync the kernel has finished, and
//! the child notes every acknowledgement in the same file. Killing a process proves nothing here,
//! because the page cache outlives it.
#![cfg(not(madsim))]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use futures::executor::block_on;
use redlatch_raft::engine::{Durability, Engine, Family, RocksEngine, RocksOptions, WriteBatch};

const DIRECTORY: &str = "REDLATCH_SYNC_TEST_DIR";
const LOG: &str = "COUNT_SYNC_LOG";
const SYNCED: usize = 50;
const BUFFERED: usize = 200;

/// Runs only in the child, which the test below starts; by itself it has nothing to do.
#[test]
fn child_writes_and_notes_its_acknowledgements() {
    let (Some(dir), Some(log)) = (std::env::var_os(DIRECTORY), std::env::var_os(LOG)) else {
        return;
    };
    let mut log = OpenOptions::new()
        .append(true)
        .create(true)
        .open(log)
        .expect("log");
    let options = RocksOptions {
        ballast_bytes: 1 << 16,
    };
    let engine = RocksEngine::open(Path::new(&dir), options).expect("open");
    let write = |at: usize, durability| {
        let mut batch = WriteBatch::new();
        batch.put(Family::Log, at.to_be_bytes(), [7; 300]);
        block_on(engine.write(batch, durability)).expect("written");
    };
    note(&mut log, "start");
    for at in 0..SYNCED {
        write(at, Durability::Synced);
        note(&mut log, "ack synced");
    }
    for at in 0..BUFFERED {
        write(SYNCED + at, Durability::Buffered);
        note(&mut log, "ack buffered");
    }
    note(&mut log, "end");
}

fn note(log: &mut File, line: &str) {
    log.write_all(format!("{line}\n").as_bytes())
        .expect("noted");
}

#[test]
fn fault_005_the_kernel_has_synced_before_every_acknowledgement() {
    let scratch = tempfile::tempdir().expect("temporary directory");
    let lines = run_child(scratch.path());
    let window = window(&lines);
    let mut syncs = 0;
    let (mut synced, mut buffered) = (0, 0);
    for line in window {
        match line.as_str() {
            "ack synced" => {
                synced += 1;
                assert!(syncs >= 1, "acknowledgement {synced} came before its sync");
                syncs = 0;
            }
            "ack buffered" => {
                buffered += 1;
                assert_eq!(syncs, 0, "buffered write {buffered} was synced");
            }
            line => syncs += usize::from(is_wal_sync(line)),
        }
    }
    assert_eq!((synced, buffered), (SYNCED, BUFFERED));
}

/// A finished fdatasync or fsync of a file of RocksDB's write-ahead log.
fn is_wal_sync(line: &str) -> bool {
    let mut words = line.splitn(3, ' ');
    let call = words.next().unwrap_or_default();
    let result = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    ["fdatasync", "fsync"].contains(&call) && result == "0" && path.ends_with(".log")
}

/// What happened after the open and before the close.
fn window(lines: &[String]) -> &[String] {
    let at = |mark: &str| {
        lines
            .iter()
            .position(|line| line == mark)
            .expect("the child ran")
    };
    assert!(
        lines[..at("start")]
            .iter()
            .any(|line| line.starts_with("f")),
        "the preload library sees the syncs of the open"
    );
    &lines[at("start") + 1..at("end")]
}

fn run_child(scratch: &Path) -> Vec<String> {
    let library = build_preload(scratch);
    let log = scratch.join("sync.log");
    let child = Command::new(std::env::current_exe().expect("own path"))
        .args(["--exact", "child_writes_and_notes_its_acknowledgements"])
        .env(DIRECTORY, scratch.join("store"))
        .env(LOG, &log)
        .env("LD_PRELOAD", library)
        .output()
        .expect("child starts");
    assert!(
        child.status.success(),
        "{}",
        String::from_utf8_lossy(&child.stdout)
    );
    let text = fs::read_to_string(log).expect("the child wrote a log");
    text.lines().map(str::to_owned).collect()
}

fn build_preload(scratch: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/preload/count_sync.c");
    let library = scratch.join("count_sync.so");
    let cc = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
        .arg(&library)
        .arg(source)
        .arg("-ldl")
        .output()
        .expect("cc is installed with g++, which building RocksDB needs");
    assert!(
        cc.status.success(),
        "{}",
        String::from_utf8_lossy(&cc.stderr)
    );
    library
}
