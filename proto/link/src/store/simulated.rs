//! The store's twin in memory, over a disk that can crash, fail its syncs and go back in time.
//!
//! The disk is held outside the process that uses it, so it survives the process. A commit first changes
//! the store's volatile image, then syncs; a crash leaves the durable image alone.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Pair, Reader, Store, StoreError, Table, Writer};

const HISTORY_MAX: usize = 256;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Tables by name; shared until changed.
#[derive(Clone, Default, PartialEq, Eq)]
struct Image(BTreeMap<Table, Arc<Rows>>);

/// What a failed sync did to the disk. The process cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncFailure {
    /// Nothing reached it.
    Lost,
    /// Everything reached it, and the error came after.
    Written,
}

/// A disk. Clones are the same disk.
#[derive(Clone, Default)]
pub struct SimDisk(Arc<Mutex<Platter>>);

#[derive(Default)]
struct Platter {
    /// Every synced image, oldest first, the present one last; the first is the empty disk.
    synced: Vec<Image>,
    /// Counts power losses; a store opened before the last one is dead.
    boots: u64,
    opened: bool,
    next_sync: Option<SyncFailure>,
    #[cfg(test)]
    defect: Option<Defect>,
}

/// Ways to be wrong that the suite must notice.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    /// Says "durable" before the sync.
    AcknowledgesEarly,
    /// Keeps what a failed transaction wrote.
    KeepsAborted,
    /// Goes on after a failed sync.
    RetriesSync,
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> SimDisk {
        SimDisk::default()
    }

    #[cfg(test)]
    pub(super) fn with(defect: Defect) -> SimDisk {
        let disk = SimDisk::new();
        disk.lock().defect = Some(defect);
        disk
    }

    /// Opens the store on this disk.
    ///
    /// # Errors
    /// [`StoreError::Locked`] while another store on it is open.
    pub fn open(&self) -> Result<SimStore, StoreError> {
        let mut platter = self.lock();
        if platter.opened {
            return Err(StoreError::Locked {
                path: "simulated disk".into(),
                pid: None,
            });
        }
        platter.opened = true;
        let volatile = Volatile {
            image: platter.durable(),
            failed: false,
        };
        let session = Session {
            disk: self.clone(),
            boot: platter.boots,
            volatile: Mutex::new(volatile),
        };
        Ok(SimStore(Arc::new(session)))
    }

    /// Power loss: what is not durable is gone, and so is whoever had the store open.
    pub fn crash(&self) {
        let mut platter = self.lock();
        platter.boots += 1;
        platter.opened = false;
        platter.next_sync = None;
    }

    /// The next sync fails, once.
    pub fn fail_next_sync(&self, how: SyncFailure) {
        self.lock().next_sync = Some(how);
    }

    /// A failure that was announced and has not come yet does not come.
    pub fn fail_no_sync(&self) {
        self.lock().next_sync = None;
    }

    /// How many commits were synced so far.
    pub fn syncs(&self) -> usize {
        self.lock().synced.len().saturating_sub(1)
    }

    /// Power loss, and the disk comes back as it was `commits` syncs ago (at most as far as it remembers).
    pub fn rollback(&self, commits: usize) {
        self.crash();
        let mut platter = self.lock();
        let kept = platter.synced.len().saturating_sub(commits).max(1);
        platter.synced.truncate(kept);
    }

    fn lock(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Platter {
    fn durable(&mut self) -> Image {
        if self.synced.is_empty() {
            self.synced.push(Image::default());
        }
        self.synced.last().cloned().unwrap_or_default()
    }

    fn sync(&mut self, image: &Image) -> Result<(), StoreError> {
        #[cfg(test)]
        if self.defect == Some(Defect::AcknowledgesEarly) {
            return Ok(());
        }
        let failure = self.next_sync.take();
        if failure != Some(SyncFailure::Lost) {
            self.synced.push(image.clone());
            if self.synced.len() > HISTORY_MAX {
                self.synced.remove(0);
            }
        }
        match failure {
            None => Ok(()),
            Some(_) => Err(StoreError::Failed("fsync: input/output error".into())),
        }
    }
}

/// A store on a simulated disk.
#[derive(Clone)]
pub struct SimStore(Arc<Session>);

struct Session {
    disk: SimDisk,
    boot: u64,
    volatile: Mutex<Volatile>,
}

struct Volatile {
    image: Image,
    failed: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut platter = self.disk.lock();
        // After a crash the disk may be open again, in other hands.
        if platter.boots == self.boot {
            platter.opened = false;
        }
    }
}

impl Session {
    fn lock(&self) -> MutexGuard<'_, Volatile> {
        self.volatile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, volatile: &Volatile) -> Result<(), StoreError> {
        if self.disk.lock().boots != self.boot {
            return Err(StoreError::Failed("the process was killed".into()));
        }
        if volatile.failed {
            return Err(StoreError::Failed(
                "it failed before; the process must exit".into(),
            ));
        }
        Ok(())
    }
}

impl Store for SimStore {
    fn read<R, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&dyn Reader) -> Result<R, E>,
    ) -> Result<R, E> {
        let volatile = self.0.lock();
        self.0.check(&volatile)?;
        let view = volatile.image.clone();
        // Readers do not keep writers waiting, and may write in between.
        drop(volatile);
        work(&view)
    }

    fn write<R, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut dyn Writer) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut volatile = self.0.lock();
        self.0.check(&volatile)?;
        let mut edit = volatile.image.clone();
        let worked = work(&mut edit);
        #[cfg(test)]
        if worked.is_err() && self.0.disk.lock().defect == Some(Defect::KeepsAborted) {
            volatile.image = edit.clone();
        }
        let value = worked?;
        volatile.image = edit;
        let synced = self.0.disk.lock().sync(&volatile.image);
        volatile.failed = synced.is_err();
        #[cfg(test)]
        if self.0.disk.lock().defect == Some(Defect::RetriesSync) {
            volatile.failed = false;
        }
        synced?;
        Ok(value)
    }
}

impl Reader for Image {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(&table).and_then(|rows| rows.get(key)).cloned())
    }

    fn range(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        let Some(rows) = self.0.get(&table) else {
            return Ok(Vec::new());
        };
        if to.is_some_and(|to| to <= from) {
            return Ok(Vec::new());
        }
        let end = to.map_or(Bound::Unbounded, Bound::Excluded);
        let found = rows.range::<[u8], _>((Bound::Included(from), end));
        Ok(found
            .take(limit)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}

impl Writer for Image {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        Arc::make_mut(self.0.entry(table).or_default()).insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        if let Some(rows) = self.0.get_mut(&table) {
            Arc::make_mut(rows).remove(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOTES: Table = Table("votes");

    #[test]
    fn fault_011_a_failed_sync_may_or_may_not_have_written() {
        for (how, found) in [
            (SyncFailure::Lost, None),
            (SyncFailure::Written, Some(b"yes".to_vec())),
        ] {
            let disk = SimDisk::new();
            let store = disk.open().expect("opened");
            disk.fail_next_sync(how);
            assert!(matches!(
                store.put(VOTES, b"k", b"yes"),
                Err(StoreError::Failed(_))
            ));
            disk.crash();
            assert_eq!(
                disk.open().expect("opened").get(VOTES, b"k").expect("read"),
                found,
                "{how:?}"
            );
        }
    }

    #[test]
    fn a_failure_that_is_called_off_does_not_come() {
        let disk = SimDisk::new();
        disk.fail_next_sync(SyncFailure::Lost);
        disk.fail_no_sync();
        let store = disk.open().expect("opened");
        store.put(VOTES, b"k", b"yes").expect("durable");
    }

    #[test]
    fn a_rollback_brings_an_earlier_synced_image_back() {
        let disk = SimDisk::new();
        let store = disk.open().expect("opened");
        for value in [b"1", b"2", b"3"] {
            store.put(VOTES, b"k", value).expect("durable");
        }
        assert_eq!(disk.syncs(), 3);
        disk.rollback(2);
        assert!(
            store.get(VOTES, b"k").is_err(),
            "whoever had it open is gone"
        );
        assert_eq!(
            disk.open().expect("opened").get(VOTES, b"k").expect("read"),
            Some(b"1".to_vec())
        );
        disk.rollback(100);
        assert_eq!(
            disk.open().expect("opened").get(VOTES, b"k").expect("read"),
            None
        );
    }

    #[test]
    fn one_store_at_a_time() {
        let disk = SimDisk::new();
        let store = disk.open().expect("opened");
        assert!(matches!(disk.open(), Err(StoreError::Locked { .. })));
        let other = store.clone();
        drop(store);
        assert!(
            matches!(disk.open(), Err(StoreError::Locked { .. })),
            "a clone still holds it"
        );
        drop(other);
        let before = disk.open().expect("free");
        disk.crash();
        let after = disk.open().expect("the dead hold nothing");
        drop(before);
        assert!(
            matches!(disk.open(), Err(StoreError::Locked { .. })),
            "the dead free nothing"
        );
        drop(after);
    }
}
