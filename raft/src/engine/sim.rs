//! A disk that can fail on demand, and the engine on it. It is the twin of the real engine: the
//! simulated cluster runs on it, and so do the ordinary tests that need a power loss.
//!
//! ```text
//!             write                      fsync (covers what was written when it began)
//!   batches ----------> pending ----------------------------------------> durable
//!                          \____________ readers see both ________________/
//!
//!   kill        the process ends, the operating system lives: pending stays
//!   power_loss  durable, and as many of the oldest pending batches as the caller says
//!   rollback    an earlier durable image, as a restored VM snapshot would give
//! ```
//!
//! The disk outlives the node: [`SimDisk`] is the platter, [`SimEngine`] one process that has it
//! open. It does not model flipped bits or failing reads; the real engine's tests damage files.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::format::{self, FORMAT_KEY};
use super::{Durability, Engine, Family, FormatRecord, Fuse, Op, Row, StorageFault, WriteBatch};

/// Draws how long the next fsync takes. In the simulated world it is given the node's own random
/// source; outside of it the duration is ignored.
pub type SyncDelay = Box<dyn FnMut() -> Duration + Send>;

/// What a failed write leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedWrite {
    /// Nothing reached the file.
    Absent,
    /// The bytes reached the file before the error came back (fault 9).
    Present,
}

/// A durable state of a disk, kept to go back to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image(Families);

/// A simulated disk. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    disk: Arc<Mutex<Disk>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Families {
    maps: [BTreeMap<Vec<u8>, Vec<u8>>; Family::ALL.len()],
    bytes: u64,
}

struct Disk {
    /// What a reader sees: `durable` with every pending batch applied.
    visible: Families,
    durable: Families,
    /// Written and not yet durable, oldest first; its length is `written - synced`.
    pending: VecDeque<WriteBatch>,
    written: u64,
    synced: u64,
    /// A failed fsync has dropped the pages after this batch: no later fsync brings them back,
    /// whatever it returns (fault 8).
    lost_after: Option<u64>,
    /// Raised whenever the process that has the disk open is gone; voids its handles and its
    /// fsyncs in flight.
    boot: u64,
    open: Weak<()>,
    budget: Option<u64>,
    sync_failures: u32,
    write_failures: (u32, FailedWrite),
    delay: SyncDelay,
    held: Option<Vec<oneshot::Sender<()>>>,
    syncs: u64,
}

impl Families {
    fn apply(&mut self, batch: &WriteBatch) {
        for op in batch.ops() {
            match op {
                Op::Put { family, key, value } => {
                    let old = self.maps[family.slot()].insert(key.clone(), value.clone());
                    self.bytes += (key.len() + value.len()) as u64;
                    self.forget(key, old);
                }
                Op::Delete { family, key } => {
                    let old = self.maps[family.slot()].remove(key);
                    self.forget(key, old);
                }
                Op::DeleteRange { family, from, to } => {
                    for key in self.keys(*family, from, to) {
                        let old = self.maps[family.slot()].remove(&key);
                        self.forget(&key, old);
                    }
                }
            }
        }
    }

    fn forget(&mut self, key: &[u8], old: Option<Vec<u8>>) {
        if let Some(value) = old {
            self.bytes -= (key.len() + value.len()) as u64;
        }
    }

    fn keys(&self, family: Family, from: &[u8], to: &[u8]) -> Vec<Vec<u8>> {
        self.rows(family, from, to)
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn rows(
        &self,
        family: Family,
        from: &[u8],
        to: &[u8],
    ) -> impl Iterator<Item = (&Vec<u8>, &Vec<u8>)> {
        // BTreeMap::range panics on a reversed range.
        let to = to.max(from);
        self.maps[family.slot()].range(from.to_vec()..to.to_vec())
    }

    fn is_empty(&self) -> bool {
        self.maps.iter().all(BTreeMap::is_empty)
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let disk = self.lock();
        f.debug_struct("SimDisk")
            .field("boot", &disk.boot)
            .field("written", &disk.written)
            .field("synced", &disk.synced)
            .finish_non_exhaustive()
    }
}

/// The life of the disk, from outside of the process that uses it.
impl SimDisk {
    /// An empty disk: unlimited, without faults, with immediate fsyncs.
    pub fn new() -> Self {
        Self {
            disk: Arc::new(Mutex::new(Disk {
                visible: Families::default(),
                durable: Families::default(),
                pending: VecDeque::new(),
                written: 0,
                synced: 0,
                lost_after: None,
                boot: 0,
                open: Weak::new(),
                budget: None,
                sync_failures: 0,
                write_failures: (0, FailedWrite::Absent),
                delay: Box::new(|| Duration::ZERO),
                held: None,
                syncs: 0,
            })),
        }
    }

    /// Opens the disk for one process, as the real engine opens its directory: one at a time, the
    /// format judged first, and everything recovery shows made durable before it is shown.
    ///
    /// # Errors
    /// `Locked` while another engine is open; the faults of the format record.
    pub fn open(&self) -> Result<SimEngine, StorageFault> {
        let mut disk = self.lock();
        if disk.open.strong_count() > 0 {
            return Err(StorageFault::Locked {
                path: "simulated disk".into(),
            });
        }
        disk.end_process();
        let all = disk.written;
        disk.settle(all);
        if disk.visible.is_empty() {
            let mut stamp = WriteBatch::new();
            stamp.put(Family::Meta, FORMAT_KEY, FormatRecord::CURRENT.to_bytes());
            disk.visible.apply(&stamp);
            disk.durable.apply(&stamp);
        } else {
            let meta = &disk.visible.maps[Family::Meta.slot()];
            format::judge(meta.get(FORMAT_KEY).map(Vec::as_slice))?;
        }
        let process = Arc::new(());
        disk.open = Arc::downgrade(&process);
        Ok(SimEngine {
            disk: self.clone(),
            boot: disk.boot,
            fuse: Arc::new(Fuse::new()),
            _process: process,
        })
    }

    /// The process is gone (SIGKILL), the operating system is not: unsynced batches stay, except
    /// those whose fsync has failed. Handles and fsyncs in flight are void.
    pub fn kill(&self) {
        self.lock().end_process();
    }

    /// The power is gone. The durable batches stay, and the oldest `keep` of the unsynced ones
    /// (all of them if `keep` is larger): a torn log ends somewhere, but never inside a batch.
    /// Returns how many batches were lost.
    pub fn power_loss(&self, keep: usize) -> usize {
        let mut disk = self.lock();
        let keep = keep.min(disk.pending.len());
        let lost = disk.pending.len() - keep;
        let upto = disk.synced + keep as u64;
        disk.settle(upto);
        disk.revert();
        disk.end_process();
        lost
    }

    /// How many batches a power loss could take right now.
    pub fn unsynced(&self) -> usize {
        self.lock().pending.len()
    }

    /// Successful fsyncs since the disk was made.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// What a power loss would leave.
    pub fn image(&self) -> Image {
        Image(self.lock().durable.clone())
    }

    /// Another disk with this one's durable content, as a copied data directory (fault 13).
    pub fn copy(&self) -> SimDisk {
        let copy = SimDisk::new();
        copy.rollback(&self.image());
        copy
    }

    /// The disk goes back in time (fault 13), the process with it.
    pub fn rollback(&self, image: &Image) {
        let mut disk = self.lock();
        disk.durable = image.0.clone();
        disk.revert();
        disk.end_process();
    }
}

/// Faults, set from outside.
impl SimDisk {
    /// The next `count` fsyncs fail with EIO; those after them report success again, but what the
    /// failed one should have written is gone.
    pub fn fail_syncs(&self, count: u32) {
        self.lock().sync_failures = count;
    }

    /// The next `count` writes fail.
    pub fn fail_writes(&self, count: u32, left: FailedWrite) {
        self.lock().write_failures = (count, left);
    }

    /// The disk holds at most `bytes` of keys and values; `None` lifts the limit.
    pub fn set_budget(&self, bytes: Option<u64>) {
        self.lock().budget = bytes;
    }

    /// Bytes of keys and values a reader sees: to set a budget by.
    pub fn used(&self) -> u64 {
        self.lock().visible.bytes
    }

    /// How long fsyncs take from now on (in the simulated world).
    pub fn set_sync_delay(&self, delay: SyncDelay) {
        self.lock().delay = delay;
    }

    /// No fsync ends until [`SimDisk::release_syncs`]: a disk that hangs.
    pub fn hold_syncs(&self) {
        self.lock().held.get_or_insert_default();
    }

    /// Lets held fsyncs go on, in the order in which they began.
    pub fn release_syncs(&self) {
        for gate in self.lock().held.take().into_iter().flatten() {
            // A writer that was dropped no longer waits.
            let _ = gate.send(());
        }
    }
}

/// The calls of the process that has the disk open, identified by its boot.
impl SimDisk {
    /// Puts a batch at the end of the write-ahead log.
    pub(super) fn place(&self, boot: u64, batch: WriteBatch) -> Result<(), StorageFault> {
        let mut disk = self.lock();
        disk.alive(boot, "writing")?;
        let failing = disk.write_failures.0 > 0;
        if failing {
            disk.write_failures.0 -= 1;
        }
        if !failing || disk.write_failures.1 == FailedWrite::Present {
            disk.fits(&batch)?;
            disk.visible.apply(&batch);
            disk.pending.push_back(batch);
            disk.written += 1;
        }
        match failing {
            false => Ok(()),
            true => Err(io("writing", "simulated EIO")),
        }
    }

    /// One fsync of the write-ahead log: begins now, ends after the disk's delay.
    pub(super) async fn sync(&self, boot: u64) -> Result<(), StorageFault> {
        let (upto, delay, gate) = self.lock().begin_sync(boot)?;
        if let Some(gate) = gate {
            // A gate that is dropped with the disk lets nobody wait for ever.
            let _ = gate.await;
        }
        pause(delay).await;
        self.lock().end_sync(boot, upto)
    }

    fn read<T>(&self, boot: u64, read: impl FnOnce(&Families) -> T) -> Result<T, StorageFault> {
        let disk = self.lock();
        disk.alive(boot, "reading")?;
        Ok(read(&disk.visible))
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        // A panicking test must not hide its own message behind a poisoned lock.
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    fn alive(&self, boot: u64, during: &'static str) -> Result<(), StorageFault> {
        match self.boot == boot {
            true => Ok(()),
            false => Err(io(during, "the process that opened the disk is gone")),
        }
    }

    fn fits(&self, batch: &WriteBatch) -> Result<(), StorageFault> {
        let needed = self.visible.bytes + batch.byte_len() as u64;
        match self.budget {
            Some(budget) if needed > budget => Err(StorageFault::Full {
                detail: format!("{needed} bytes of {budget}"),
            }),
            _ => Ok(()),
        }
    }

    fn begin_sync(
        &mut self,
        boot: u64,
    ) -> Result<(u64, Duration, Option<oneshot::Receiver<()>>), StorageFault> {
        self.alive(boot, "syncing")?;
        let gate = self.held.as_mut().map(|held| {
            let (open, gate) = oneshot::channel();
            held.push(open);
            gate
        });
        Ok((self.written, (self.delay)(), gate))
    }

    fn end_sync(&mut self, boot: u64, upto: u64) -> Result<(), StorageFault> {
        self.alive(boot, "syncing")?;
        if self.sync_failures > 0 {
            self.sync_failures -= 1;
            self.lost_after.get_or_insert(self.synced);
            return Err(io("syncing", "simulated EIO"));
        }
        self.settle(self.lost_after.map_or(upto, |lost| lost.min(upto)));
        self.syncs += 1;
        Ok(())
    }

    /// Makes the batches up to position `upto` durable. Two fsyncs may end out of order: the
    /// later one has then done the work of both.
    fn settle(&mut self, upto: u64) {
        while self.synced < upto {
            let Some(batch) = self.pending.pop_front() else {
                break;
            };
            self.durable.apply(&batch);
            self.synced += 1;
        }
    }

    /// Drops what is not durable.
    fn revert(&mut self) {
        self.visible = self.durable.clone();
        self.pending.clear();
        self.written = self.synced;
        self.lost_after = None;
    }

    fn end_process(&mut self) {
        if self.lost_after.is_some() {
            self.revert();
        }
        self.boot += 1;
        self.open = Weak::new();
        // Whoever waits on a held fsync must learn that it is void.
        if let Some(held) = &mut self.held {
            held.clear();
        }
    }
}

fn io(during: &'static str, detail: &str) -> StorageFault {
    StorageFault::Io {
        during,
        detail: detail.into(),
    }
}

#[cfg(madsim)]
async fn pause(delay: Duration) {
    if !delay.is_zero() {
        madsim::time::sleep(delay).await;
    }
}

#[cfg(not(madsim))]
async fn pause(_: Duration) {}

/// One process that has a [`SimDisk`] open.
#[derive(Clone)]
pub struct SimEngine {
    disk: SimDisk,
    boot: u64,
    fuse: Arc<Fuse>,
    /// The disk is locked as long as one of these lives.
    _process: Arc<()>,
}

impl fmt::Debug for SimEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimEngine")
            .field("boot", &self.boot)
            .finish_non_exhaustive()
    }
}

impl SimEngine {
    /// The disk under this engine.
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }

    #[cfg(test)]
    pub(super) fn boot(&self) -> u64 {
        self.boot
    }

    fn read<T>(&self, read: impl FnOnce(&Families) -> T) -> Result<T, StorageFault> {
        self.fuse.check()?;
        self.disk
            .read(self.boot, read)
            .map_err(|fault| self.fuse.blow(fault))
    }
}

impl Engine for SimEngine {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, StorageFault> {
        self.read(|families| families.maps[family.slot()].get(key).cloned())
    }

    fn scan(
        &self,
        family: Family,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StorageFault> {
        self.read(|families| {
            let rows = families.rows(family, from, to).take(limit);
            rows.map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        })
    }

    fn last(&self, family: Family) -> Result<Option<Row>, StorageFault> {
        self.read(|families| {
            let last = families.maps[family.slot()].last_key_value();
            last.map(|(key, value)| (key.clone(), value.clone()))
        })
    }

    fn write(
        &self,
        batch: WriteBatch,
        durability: Durability,
    ) -> impl Future<Output = Result<(), StorageFault>> + Send {
        let placed = self.fuse.check().and_then(|()| {
            self.disk
                .place(self.boot, batch)
                .map_err(|fault| self.fuse.blow(fault))
        });
        let this = self.clone();
        async move {
            placed?;
            if durability == Durability::Synced {
                this.disk
                    .sync(this.boot)
                    .await
                    .map_err(|fault| this.fuse.blow(fault))?;
            }
            // Another write may have failed meanwhile; nothing is acknowledged after that.
            this.fuse.check()
        }
    }

    fn condemn(&self, fault: StorageFault) -> StorageFault {
        self.fuse.blow(fault)
    }

    fn failed(&self) -> impl Future<Output = StorageFault> + Send + 'static {
        self.fuse.blown()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::executor::block_on;

    use super::*;

    fn write(
        engine: &SimEngine,
        key: &str,
        durability: Durability,
    ) -> impl Future<Output = Result<(), StorageFault>> {
        let mut batch = WriteBatch::new();
        batch.put(Family::Log, key, "");
        engine.write(batch, durability)
    }

    #[test]
    fn an_fsync_covers_what_was_written_when_it_began() {
        let disk = SimDisk::new();
        let engine = disk.open().expect("open");
        disk.hold_syncs();
        let mut first = Box::pin(write(&engine, "a", Durability::Synced));
        assert_eq!((&mut first).now_or_never(), None);
        block_on(write(&engine, "b", Durability::Buffered)).expect("buffered");
        disk.release_syncs();
        block_on(first).expect("synced");
        assert_eq!(disk.power_loss(0), 1, "b came after the fsync had begun");
        let engine = disk.open().expect("open");
        assert!(engine.get(Family::Log, b"a").expect("readable").is_some());
        assert_eq!(engine.get(Family::Log, b"b"), Ok(None));
    }

    #[test]
    fn fault_008_after_a_failed_fsync_a_later_one_reports_success_and_saves_nothing() {
        let disk = SimDisk::new();
        let engine = disk.open().expect("open");
        disk.fail_syncs(1);
        block_on(write(&engine, "a", Durability::Synced)).expect_err("EIO");
        block_on(disk.sync(engine.boot())).expect("the disk lies");
        assert_eq!(disk.unsynced(), 1);
    }

    #[test]
    fn fault_009_a_failed_write_may_be_there_after_the_crash() {
        for (left, found) in [
            (FailedWrite::Absent, None),
            (FailedWrite::Present, Some(vec![])),
        ] {
            let disk = SimDisk::new();
            let engine = disk.open().expect("open");
            disk.fail_writes(1, left);
            block_on(write(&engine, "a", Durability::Buffered)).expect_err("EIO");
            disk.kill();
            let engine = disk.open().expect("open");
            assert_eq!(engine.get(Family::Log, b"a"), Ok(found));
        }
    }

    #[test]
    fn fault_013_a_rolled_back_disk_holds_what_it_held_then() {
        let disk = SimDisk::new();
        let engine = disk.open().expect("open");
        block_on(write(&engine, "a", Durability::Synced)).expect("synced");
        let then = disk.image();
        block_on(write(&engine, "b", Durability::Synced)).expect("synced");
        disk.rollback(&then);
        block_on(write(&engine, "c", Durability::Synced)).expect_err("the process is gone");
        assert_eq!(disk.image(), then);
        let engine = disk.open().expect("open");
        assert_eq!(engine.get(Family::Log, b"b"), Ok(None));
    }

    #[cfg(madsim)]
    #[test]
    fn a_slow_disk_takes_its_time_in_the_simulated_world() {
        madsim::runtime::Runtime::new().block_on(async {
            let disk = SimDisk::new();
            disk.set_sync_delay(Box::new(|| Duration::from_millis(40)));
            let engine = disk.open().expect("open");
            let start = madsim::time::Instant::now();
            write(&engine, "a", Durability::Buffered)
                .await
                .expect("buffered");
            assert!(start.elapsed() < Duration::from_millis(10));
            write(&engine, "a", Durability::Synced)
                .await
                .expect("synced");
            assert!(start.elapsed() >= Duration::from_millis(40));
        });
    }
}
