//! A small transactional key-value store: redb on a disk, or its twin in memory with a disk's faults.
//!
//! ```text
//!   Store::read ──▶ one consistent view            RedbStore  (a file, fsync per commit)
//!   Store::write ─▶ all of it, durably, or none    SimStore   (volatile and durable image, SimDisk::crash)
//! ```
//!
//! When `write` returns `Ok`, everything in it survives power loss. When it returns an error of the
//! storage, the store answers nothing more: the process exits and looks at its disk anew (D8). One test
//! suite runs on both. The journal of a node is kept elsewhere; this is for the small state of the others.

mod folder;
#[cfg(not(madsim))]
mod redb;
mod simulated;
#[cfg(test)]
mod suite;

pub use folder::DataFolder;
#[cfg(not(madsim))]
pub use redb::RedbStore;
pub use simulated::{SimDisk, SimStore, SyncFailure};

use std::path::PathBuf;

use crate::exit::{ExitCode, Fails};
use crate::file::FileError;

/// A named table of byte keys to byte values, ordered by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Table(pub &'static str);

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Why the store could not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the data folder.
    #[error("{} is in use by another process{}", path.display(), process(*pid))]
    Locked {
        /// The folder.
        path: PathBuf,
        /// The other process, as far as it is known.
        pid: Option<u32>,
    },
    /// The folder or its lock cannot be used.
    #[error("data folder: {0}")]
    Folder(#[from] FileError),
    /// The disk, or the file on it, failed. The process must exit.
    #[error("storage failed: {0}")]
    Failed(String),
}

fn process(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})"))
        .unwrap_or_default()
}

impl Fails for StoreError {
    fn code(&self) -> ExitCode {
        match self {
            StoreError::Locked { .. } => ExitCode::Unavailable,
            StoreError::Folder(error) => error.code(),
            StoreError::Failed(_) => ExitCode::Error,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            StoreError::Locked { .. } => {
                Some("stop the other process, or give this one a folder of its own".into())
            }
            StoreError::Folder(error) => error.hint(),
            StoreError::Failed(_) => {
                Some("check the disk; a restart reads back what was durable".into())
            }
        }
    }
}

/// Reading inside a transaction.
pub trait Reader {
    /// The value of a key.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// At most `limit` pairs from `from` on, up to but without `to`, in ascending order of keys.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    fn range(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError>;
}

/// Writing inside a transaction; it reads what it wrote.
pub trait Writer: Reader {
    /// Sets a key.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError>;
}

/// The store. Clones are handles to one store. Calls wait for the disk: see [`crate::world::blocking`].
pub trait Store: Clone + Send + Sync + 'static {
    /// Runs `work` over one consistent view.
    ///
    /// # Errors
    /// What `work` returns, or [`StoreError::Failed`].
    fn read<R, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&dyn Reader) -> Result<R, E>,
    ) -> Result<R, E>;

    /// Runs `work` alone among writers and makes all of it durable; if `work` fails, none of it happened.
    ///
    /// # Errors
    /// What `work` returns; [`StoreError::Failed`] if the result is not known to be durable.
    fn write<R, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut dyn Writer) -> Result<R, E>,
    ) -> Result<R, E>;

    /// The value of a key.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|view| view.get(table, key))
    }

    /// At most `limit` pairs from `from` on, up to but without `to`.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    fn range(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        self.read(|view| view.range(table, from, to, limit))
    }

    /// Sets one key, durably.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    fn put(&self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.write(|view| view.put(table, key, value))
    }
}
