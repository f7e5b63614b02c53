//! The engine of a real node: RocksDB, one column family per [`Family`], one write-ahead log.
//!
//! ```text
//!   write() --channel--> thread "redlatch-disk": one batch for all that wait, one fsync --> WAL
//!   get(), scan(), last() ------------------ memtables, block cache, files ------------> caller
//!
//!   <dir>/lock      held as long as the store is open
//!   <dir>/ballast   room to stop in when the volume is full (fault 12)
//!   <dir>/stopped   why the last process stopped, if the disk was the reason
//!   <dir>/db/       RocksDB
//! ```
//!
//! One thread writes, so the order of batches is the order of calls, no thread of the async
//! runtime ever waits for a disk, and what arrives during one fsync shares the next
//! (docs/adr/0004-storage-engine.md has the measurement). It does not compress, and it does not
//! let RocksDB resume after a background error.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use fs4::fs_std::FileExt;
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType,
    DBRecoveryMode, Direction, ErrorKind, IteratorMode, LogLevel, Options, ReadOptions,
    WriteOptions, properties,
};
use tokio::sync::oneshot;

use super::format::{self, FORMAT_KEY};
use super::{Durability, Engine, Family, FormatRecord, Fuse, Op, Row, StorageFault, WriteBatch};

/// Default size of the ballast file.
pub const BALLAST_BYTES: u64 = 64 << 20;

/// An idle store looks for background errors this often.
const BACKGROUND_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Batches of at most this many bytes share one write. Above it the copy costs more than the
/// fsync it saves.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// The log is replayed at every open: its size bounds how long that takes.
const WAL_BYTES_MAX: u64 = 128 << 20;

/// Memtables of all families together.
const MEMTABLE_BYTES_MAX: usize = 128 << 20;

const BLOCK_CACHE_BYTES: usize = 64 << 20;

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RocksOptions {
    /// Size of the ballast file in bytes.
    pub ballast_bytes: u64,
}

impl Default for RocksOptions {
    fn default() -> Self {
        Self {
            ballast_bytes: BALLAST_BYTES,
        }
    }
}

/// Room on the volume of the store, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What this process may still write.
    pub free: u64,
    /// The size of the volume.
    pub total: u64,
}

/// RocksDB in one directory. Clones are handles of the same open store.
#[derive(Clone)]
pub struct RocksEngine {
    open: Arc<Open>,
}

struct Open {
    store: Arc<Store>,
    /// `None` only while the store closes.
    requests: Option<Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    /// Released last, after RocksDB has closed.
    _lock: File,
}

struct Store {
    db: DB,
    fuse: Fuse,
    dir: PathBuf,
}

struct Request {
    batch: WriteBatch,
    durability: Durability,
    done: oneshot::Sender<Result<(), StorageFault>>,
}

impl fmt::Debug for RocksEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksEngine")
            .field("dir", &self.open.store.dir)
            .finish_non_exhaustive()
    }
}

impl RocksEngine {
    /// Opens the store in `dir`, or makes a new one there. Blocks while RocksDB replays its log.
    ///
    /// # Errors
    /// `Locked` while another process has it open, `Full` if the ballast does not fit, `Corrupt`
    /// if the log or a file is damaged, the faults of the format record, `Io`.
    pub fn open(dir: &Path, options: RocksOptions) -> Result<Self, StorageFault> {
        let lock = lock(dir)?;
        let db = open_db(dir)?;
        let store = Arc::new(Store {
            db,
            fuse: Fuse::new(),
            dir: dir.to_owned(),
        });
        ensure_ballast(dir, options.ballast_bytes)?;
        store.stamp()?;
        report_last_stop(dir);
        let (requests, queue) = mpsc::channel();
        let writer = {
            let store = Arc::clone(&store);
            std::thread::Builder::new()
                .name("redlatch-disk".into())
                .spawn(move || store.run(&queue))
                .map_err(|error| io_fault("starting the disk thread", &error))?
        };
        Ok(Self {
            open: Arc::new(Open {
                store,
                requests: Some(requests),
                writer: Some(writer),
                _lock: lock,
            }),
        })
    }

    /// Room on the volume: what the alarm before a full disk is computed from.
    ///
    /// # Errors
    /// `Io` if the file system does not say.
    pub fn usage(&self) -> Result<Usage, StorageFault> {
        let dir = &self.open.store.dir;
        let ask = |answer: io::Result<u64>| {
            answer.map_err(|error| io_fault("asking for free space", &error))
        };
        Ok(Usage {
            free: ask(fs4::available_space(dir))?,
            total: ask(fs4::total_space(dir))?,
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // The thread ends when the channel does; a write in flight is finished first.
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            // A panic of the thread has been printed where it happened.
            let _ = writer.join();
        }
    }
}

impl Engine for RocksEngine {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, StorageFault> {
        self.open.store.guarded(|store| {
            let found = store.db.get_pinned_cf(store.handle(family)?, key);
            Ok(found
                .map_err(|error| rocks_fault("reading", &error))?
                .map(|value| value.to_vec()))
        })
    }

    fn scan(
        &self,
        family: Family,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StorageFault> {
        if from >= to {
            return self.open.store.fuse.check().map(|()| Vec::new());
        }
        self.open.store.guarded(|store| {
            let mut options = ReadOptions::default();
            options.set_iterate_upper_bound(to);
            let start = IteratorMode::From(from, Direction::Forward);
            rows(
                store
                    .db
                    .iterator_cf_opt(store.handle(family)?, options, start)
                    .take(limit),
            )
        })
    }

    fn last(&self, family: Family) -> Result<Option<Row>, StorageFault> {
        self.open.store.guarded(|store| {
            let from_end = store
                .db
                .iterator_cf(store.handle(family)?, IteratorMode::End);
            Ok(rows(from_end.take(1))?.pop())
        })
    }

    fn write(
        &self,
        batch: WriteBatch,
        durability: Durability,
    ) -> impl Future<Output = Result<(), StorageFault>> + Send {
        let (done, answer) = oneshot::channel();
        if let Some(requests) = &self.open.requests {
            // If the thread is gone the request is dropped, and the answer with it.
            let _ = requests.send(Request {
                batch,
                durability,
                done,
            });
        }
        // The store must not close while a write is in flight.
        let open = Arc::clone(&self.open);
        async move {
            answer.await.unwrap_or_else(|_| {
                Err(open.store.fail(StorageFault::Io {
                    during: "writing",
                    detail: "the disk thread has ended".into(),
                }))
            })
        }
    }

    fn condemn(&self, fault: StorageFault) -> StorageFault {
        self.open.store.fail(fault)
    }

    fn failed(&self) -> impl Future<Output = StorageFault> + Send + 'static {
        self.open.store.fuse.blown()
    }
}

impl Store {
    /// The life of the writing thread.
    fn run(&self, queue: &Receiver<Request>) {
        loop {
            match queue.recv_timeout(BACKGROUND_CHECK_INTERVAL) {
                Ok(first) => {
                    let group = gather(first, queue);
                    let result = self.commit(&group);
                    for request in group {
                        // Whoever dropped the future does not want the answer.
                        let _ = request.done.send(result.clone());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    // The fuse keeps a fault for whoever calls next.
                    let _ = self.guarded(Store::check_background);
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Writes a group as one RocksDB batch: the group stays in order, and each of its members is
    /// whole because the group is.
    fn commit(&self, group: &[Request]) -> Result<(), StorageFault> {
        self.guarded(|store| {
            let mut joined = rocksdb::WriteBatch::default();
            for request in group {
                store.add(&request.batch, &mut joined)?;
            }
            let mut options = WriteOptions::default();
            options.set_sync(group.iter().any(|one| one.durability == Durability::Synced));
            store
                .db
                .write_opt(joined, &options)
                .map_err(|error| rocks_fault("writing", &error))?;
            store.check_background()
        })
    }

    fn add(&self, batch: &WriteBatch, to: &mut rocksdb::WriteBatch) -> Result<(), StorageFault> {
        for op in batch.ops() {
            match op {
                Op::Put { family, key, value } => to.put_cf(self.handle(*family)?, key, value),
                Op::Delete { family, key } => to.delete_cf(self.handle(*family)?, key),
                Op::DeleteRange {
                    family,
                    from,
                    to: end,
                } => {
                    to.delete_range_cf(self.handle(*family)?, from, end);
                }
            }
        }
        Ok(())
    }

    /// A flush or compaction that failed has no caller to tell. RocksDB would try again by
    /// itself and clear the error; the count stays (fault 9).
    fn check_background(&self) -> Result<(), StorageFault> {
        let errors = self
            .db
            .property_int_value(properties::BACKGROUND_ERRORS)
            .map_err(|error| rocks_fault("asking for background errors", &error))?;
        match errors {
            None | Some(0) => Ok(()),
            Some(count) => Err(StorageFault::Io {
                during: "writing in the background",
                detail: format!("RocksDB counts {count} background errors, see db/LOG"),
            }),
        }
    }

    /// Runs one call unless the fuse is blown, and blows it if the call fails.
    fn guarded<T>(
        &self,
        call: impl FnOnce(&Store) -> Result<T, StorageFault>,
    ) -> Result<T, StorageFault> {
        self.fuse.check()?;
        call(self).map_err(|fault| self.fail(fault))
    }

    /// The first fault: make room if that is what lacks, leave word for the operator, blow.
    fn fail(&self, fault: StorageFault) -> StorageFault {
        if self.fuse.check().is_ok() {
            if matches!(fault.first(), StorageFault::Full { .. }) {
                // If even this fails, the stop record is lost and nothing else.
                let _ = fs::remove_file(self.dir.join("ballast"));
            }
            let _ = fs::write(self.dir.join("stopped"), format!("{}\n", fault.first()));
        }
        self.fuse.blow(fault)
    }

    /// Writes the format record into a new store, judges the one of an old store.
    fn stamp(&self) -> Result<(), StorageFault> {
        let meta = self.handle(Family::Meta)?;
        let stored = self.db.get_cf(meta, FORMAT_KEY);
        let stored = stored.map_err(|error| rocks_fault("reading the format", &error))?;
        if stored.is_some() || !self.is_empty()? {
            return format::judge(stored.as_deref()).map(|_| ());
        }
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        self.db
            .put_cf_opt(meta, FORMAT_KEY, FormatRecord::CURRENT.to_bytes(), &synced)
            .map_err(|error| rocks_fault("writing the format", &error))
    }

    fn is_empty(&self) -> Result<bool, StorageFault> {
        for family in Family::ALL {
            let first = self
                .db
                .iterator_cf(self.handle(family)?, IteratorMode::Start);
            if !rows(first.take(1))?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn handle(&self, family: Family) -> Result<&ColumnFamily, StorageFault> {
        self.db
            .cf_handle(family.name())
            .ok_or_else(|| StorageFault::Corrupt {
                what: format!("family {}", family.name()),
                detail: "not in the store".into(),
            })
    }
}

/// Everything that waits, up to [`GROUP_BYTES_MAX`].
fn gather(first: Request, queue: &Receiver<Request>) -> Vec<Request> {
    let mut bytes = first.batch.byte_len();
    let mut group = vec![first];
    while bytes < GROUP_BYTES_MAX {
        let Ok(next) = queue.try_recv() else { break };
        bytes += next.batch.byte_len();
        group.push(next);
    }
    group
}

type RocksRow = Result<(Box<[u8]>, Box<[u8]>), rocksdb::Error>;

fn rows(found: impl Iterator<Item = RocksRow>) -> Result<Vec<Row>, StorageFault> {
    found
        .map(|row| match row {
            Ok((key, value)) => Ok((key.into_vec(), value.into_vec())),
            Err(error) => Err(rocks_fault("reading", &error)),
        })
        .collect()
}

/// Takes the directory for this process. RocksDB has a lock of its own, but says so only in words.
fn lock(dir: &Path) -> Result<File, StorageFault> {
    let failed = |error: &io::Error| io_fault("opening the data directory", error);
    fs::create_dir_all(dir).map_err(|error| failed(&error))?;
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        // A new directory is durable only with its entry in the parent (fault 11).
        File::open(parent)
            .and_then(|parent| parent.sync_all())
            .map_err(|error| failed(&error))?;
    }
    let file = File::create(dir.join("lock")).map_err(|error| failed(&error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageFault::Locked {
            path: dir.display().to_string(),
        }),
        Err(TryLockError::Error(error)) => Err(failed(&error)),
    }
}

/// Opens RocksDB; if the volume is full, once more with the room of the ballast. Nothing has been
/// acknowledged yet, so this second try hides nothing.
fn open_db(dir: &Path) -> Result<DB, StorageFault> {
    let path = dir.join("db");
    let open = || {
        let options = db_options();
        let found = match path.join("CURRENT").exists() {
            true => DB::list_cf(&options, &path)?,
            false => Vec::new(),
        };
        DB::open_cf_descriptors(&options, &path, families(found))
    };
    let first = match open() {
        Ok(db) => return Ok(db),
        Err(error) => rocks_fault("opening", &error),
    };
    let ballast = dir.join("ballast");
    match first {
        StorageFault::Full { .. } if fs::remove_file(&ballast).is_ok() => {
            open().map_err(|error| rocks_fault("opening", &error))
        }
        fault => Err(fault),
    }
}

fn db_options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_paranoid_checks(true);
    // A process killed inside a write leaves half a record at the end: dropped, it was never
    // acknowledged. Damage anywhere else refuses to open. The default (point in time) would drop
    // everything after a flipped bit without a word, AbsoluteConsistency would not open after a
    // kill (fault 10).
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    // A log file that is missing or shorter than when it was last synced refuses to open.
    options.set_track_and_verify_wals_in_manifest(true);
    // In a recycled file the old content follows the tail, and a torn tail looks like damage.
    options.set_recycle_log_file_num(0);
    // Each batch goes to the operating system before `write` returns: SIGKILL loses nothing.
    options.set_manual_wal_flush(false);
    options.set_max_total_wal_size(WAL_BYTES_MAX);
    options.set_db_write_buffer_size(MEMTABLE_BYTES_MAX);
    options.set_max_open_files(512);
    options.set_max_background_jobs(2);
    options.set_keep_log_file_num(4);
    options.set_max_log_file_size(16 << 20);
    options.set_log_level(LogLevel::Warn);
    options
}

/// Our families, and whatever a later release may have added: its format record decides whether
/// this release may go on, and that can be read only after the open.
fn families(found: Vec<String>) -> Vec<ColumnFamilyDescriptor> {
    let cache = Cache::new_lru_cache(BLOCK_CACHE_BYTES);
    let ours = Family::ALL.map(Family::name);
    let others = found
        .into_iter()
        .filter(|name| !ours.contains(&name.as_str()));
    ours.iter()
        .map(|name| (*name).to_owned())
        .chain(others)
        .map(|name| {
            let options = family_options(&name, &cache);
            ColumnFamilyDescriptor::new(name, options)
        })
        .collect()
}

fn family_options(name: &str, cache: &Cache) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(cache);
    if [Family::Nodes.name(), Family::Index.name()].contains(&name) {
        // Point reads, often of keys that are not there.
        blocks.set_bloom_filter(10.0, false);
    }
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::None);
    options.set_write_buffer_size(32 << 20);
    options
}

/// A store never runs without its ballast: the next full disk would find no room to stop in.
fn ensure_ballast(dir: &Path, bytes: u64) -> Result<(), StorageFault> {
    let path = dir.join("ballast");
    let allocate = || -> io::Result<()> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)?;
        if file.metadata()?.len() != bytes {
            file.set_len(0)?;
            FileExt::allocate(&file, bytes)?;
            file.sync_all()?;
        }
        Ok(())
    };
    allocate().map_err(|error| {
        // Half a ballast is no reserve, and what it holds is needed to come back.
        let _ = fs::remove_file(&path);
        match error.kind() {
            io::ErrorKind::StorageFull => StorageFault::Full {
                detail: format!(
                    "{bytes} bytes of ballast do not fit; free that much and start again"
                ),
            },
            _ => io_fault("reserving the ballast", &error),
        }
    })
}

fn report_last_stop(dir: &Path) {
    let path = dir.join("stopped");
    if let Ok(reason) = fs::read_to_string(&path) {
        tracing::warn!(
            reason = reason.trim(),
            "the last process stopped because of its disk"
        );
        let _ = fs::remove_file(&path);
    }
}

fn io_fault(during: &'static str, error: &io::Error) -> StorageFault {
    match error.kind() {
        io::ErrorKind::StorageFull => StorageFault::Full {
            detail: error.to_string(),
        },
        _ => StorageFault::Io {
            during,
            detail: error.to_string(),
        },
    }
}

/// RocksDB's C interface hands over a text. The kind is its first word; "full" only the system's
/// own phrase tells (no locale is ever set).
fn rocks_fault(during: &'static str, error: &rocksdb::Error) -> StorageFault {
    let detail = error.as_ref().to_owned();
    match error.kind() {
        ErrorKind::Corruption => StorageFault::Corrupt {
            what: format!("found while {during}"),
            detail,
        },
        _ if detail.contains("No space left on device") => StorageFault::Full { detail },
        _ => StorageFault::Io { during, detail },
    }
}

#[cfg(test)]
mod tests;
