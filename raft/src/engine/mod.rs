//! The disk of a node, as little of it as the rest of redlatch has to know: six families of
//! ordered keys behind one write-ahead log (D8).
//!
//! ```text
//!   log_store, machine, cosign
//!        |  get, scan, last            |  write(batch, Synced | Buffered)
//!        v                             v
//!   +---------------------------------------------+     first fault     +------+
//!   |  Engine: Meta Log Leaves Nodes Index Snapshot|------------------->| Fuse |--> process exits
//!   +---------------------------------------------+                     +------+
//!        |                                   |
//!     RocksEngine (real disk)         SimEngine on a SimDisk (tests, simulation)
//! ```
//!
//! The promise of every engine, checked for both by the same suite:
//!
//! 1. A batch is applied whole or not at all.
//! 2. Batches reach the disk in the order of their `write` calls; a crash loses a suffix of them.
//! 3. A `Synced` write returns `Ok` only after an fsync that began after the batch was written
//!    returned success; it makes every earlier `Buffered` batch durable with it.
//! 4. The first failed write or sync blows the fuse: it is never tried again and every later call
//!    fails. The caller must end the process; only a fresh open may read the disk again.
//!
//! This module does not know what is stored: layouts belong to the modules that write them. It
//! does not repair, resume or fall back.

mod batch;
mod fault;
mod format;
mod frame;
#[cfg(not(madsim))]
mod rocks;
mod sim;
#[cfg(test)]
mod suite;

use std::future::Future;

pub use batch::{Op, WriteBatch};
pub use fault::{Fuse, StorageFault};
pub use format::{FORMAT, FORMAT_MIN_READABLE, FormatRecord};
pub use frame::{framed, unframed};
#[cfg(not(madsim))]
pub use rocks::{BALLAST_BYTES, RocksEngine, RocksOptions, Usage};
pub use sim::{FailedWrite, Image, SimDisk, SimEngine, SyncDelay};

/// A separate, ordered key space. All families share one write-ahead log, so one batch may touch
/// several of them and stays atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Small single records: format, vote, purge point, incarnation, peer table, last applied.
    Meta,
    /// The Raft log, one entry per key (index, big-endian).
    Log,
    /// Journal events in canonical bytes, one per key (position, big-endian).
    Leaves,
    /// Complete Merkle subtrees.
    Nodes,
    /// Archive index: what an event is about, to its position.
    Index,
    /// Snapshots of the authority state.
    Snapshot,
}

impl Family {
    /// Every family, in the order of their on-disk numbers.
    pub const ALL: [Family; 6] = [
        Family::Meta,
        Family::Log,
        Family::Leaves,
        Family::Nodes,
        Family::Index,
        Family::Snapshot,
    ];

    /// The name on disk (RocksDB column family) and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Family::Meta => "meta",
            Family::Log => "log",
            Family::Leaves => "leaves",
            Family::Nodes => "nodes",
            Family::Index => "index",
            Family::Snapshot => "snapshot",
        }
    }

    /// Position in [`Family::ALL`].
    pub(crate) fn slot(self) -> usize {
        self as usize
    }
}

/// When a write may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After fsync: a power loss cannot take it back.
    Synced,
    /// After it is in the write-ahead log: a power loss may take it back, together with every
    /// write after it.
    Buffered,
}

/// A key with its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// An open store. Clones are handles of the same store; the store closes with the last of them.
pub trait Engine: Clone + Send + Sync + 'static {
    /// The value under `key`.
    ///
    /// # Errors
    /// Any [`StorageFault`]; after the first one every call fails with [`StorageFault::Stopped`].
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, StorageFault>;

    /// At most `limit` rows of `[from, to)`, ascending.
    ///
    /// # Errors
    /// As [`Engine::get`].
    fn scan(
        &self,
        family: Family,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StorageFault>;

    /// The row with the greatest key.
    ///
    /// # Errors
    /// As [`Engine::get`].
    fn last(&self, family: Family) -> Result<Option<Row>, StorageFault>;

    /// Applies `batch` as a whole and returns when it has the asked durability. The batch takes
    /// its place in the order of writes when this is called, not when the future is polled;
    /// dropping the future does not take it back. Readers see it when the future has resolved.
    ///
    /// # Errors
    /// As [`Engine::get`]. After an error it is unknown whether the batch will be there after the
    /// next open.
    fn write(
        &self,
        batch: WriteBatch,
        durability: Durability,
    ) -> impl Future<Output = Result<(), StorageFault>> + Send;

    /// Stops the store for a fault noticed above it, such as a record that does not decode, and
    /// hands the fault back.
    fn condemn(&self, fault: StorageFault) -> StorageFault;

    /// Resolves with the first fault of this store, also one met in the background. Whoever runs
    /// the process waits on it and exits.
    fn failed(&self) -> impl Future<Output = StorageFault> + Send + 'static;

    /// The state after the entry at `index`, also when it is rebuilt. The engine is what a simulated run
    /// brings along, so this is where it sees every applied entry, and not just those that are there when it looks.
    #[cfg(madsim)]
    fn show_state(&self, _index: u64, _state: &redlatch_journal::State) {}
}
