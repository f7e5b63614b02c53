//! What every store must do, run on redb, on redb over a disk that crashes, and on the twin; and run on
//! stores with a defect each, which it must notice.

use super::simulated::Defect;
use super::{Pair, SimDisk, SimStore, Store, StoreError, SyncFailure, Table};

const VOTES: Table = Table("votes");
const SEALS: Table = Table("seals");

/// Something stores can be opened on, and what can happen to it.
trait Medium {
    type Store: Store;
    fn open(&self) -> Result<Self::Store, StoreError>;
    /// Power loss, or as near to it as the medium gets.
    fn crash(&self);
    /// The next sync fails and loses what was written; false if the medium cannot do that.
    fn fail_next_sync(&self) -> bool;
}

type Verdict = Result<(), String>;

fn holds(what: &str, condition: bool) -> Verdict {
    if condition {
        Ok(())
    } else {
        Err(what.to_owned())
    }
}

fn text(error: StoreError) -> String {
    error.to_string()
}

fn pair(key: &[u8], value: &[u8]) -> Pair {
    (key.to_vec(), value.to_vec())
}

/// The whole suite: the first property that does not hold is named.
fn run<M: Medium>(fresh: impl Fn() -> M) -> Verdict {
    reads_what_it_wrote(&fresh())?;
    ranges_are_ordered_and_bounded(&fresh())?;
    a_failed_transaction_leaves_nothing(&fresh())?;
    a_transaction_reads_its_own_writes(&fresh())?;
    a_view_does_not_move(&fresh())?;
    acknowledged_is_durable(&fresh())?;
    a_failed_sync_is_final(&fresh())
}

fn reads_what_it_wrote(medium: &impl Medium) -> Verdict {
    let store = medium.open().map_err(text)?;
    holds(
        "an empty table has no keys",
        store.get(VOTES, b"a").map_err(text)?.is_none(),
    )?;
    store.put(VOTES, b"a", b"1").map_err(text)?;
    store.put(SEALS, b"a", b"2").map_err(text)?;
    holds(
        "tables are apart",
        store.get(VOTES, b"a").map_err(text)? == Some(b"1".to_vec()),
    )?;
    store.put(VOTES, b"a", b"").map_err(text)?;
    holds(
        "an empty value is a value",
        store.get(VOTES, b"a").map_err(text)? == Some(vec![]),
    )?;
    store.write(|view| view.delete(VOTES, b"a")).map_err(text)?;
    store
        .write(|view| view.delete(VOTES, b"never"))
        .map_err(text)?;
    holds(
        "deleted is gone",
        store.get(VOTES, b"a").map_err(text)?.is_none(),
    )
}

fn ranges_are_ordered_and_bounded(medium: &impl Medium) -> Verdict {
    let store = medium.open().map_err(text)?;
    let none = store.range(VOTES, b"", None, 9).map_err(text)?;
    holds("an empty table has an empty range", none.is_empty())?;
    for key in [&b"c"[..], b"a", b"ab", b"b", b""] {
        store.put(VOTES, key, key).map_err(text)?;
    }
    let keys = |from: &[u8], to: Option<&[u8]>, limit| -> Result<Vec<Vec<u8>>, String> {
        Ok(store
            .range(VOTES, from, to, limit)
            .map_err(text)?
            .into_iter()
            .map(|(key, _)| key)
            .collect())
    };
    let all: Vec<Vec<u8>> = [&b""[..], b"a", b"ab", b"b", b"c"]
        .map(<[u8]>::to_vec)
        .into();
    holds("all keys ascend", keys(b"", None, 9)? == all)?;
    holds(
        "from is in, to is out",
        keys(b"a", Some(b"b"), 9)? == all[1..3],
    )?;
    holds("the limit limits", keys(b"a", None, 2)? == all[1..3])?;
    holds(
        "nothing lies between equals",
        keys(b"b", Some(b"b"), 9)?.is_empty(),
    )?;
    holds(
        "nothing lies backwards",
        keys(b"c", Some(b"a"), 9)?.is_empty(),
    )
}

fn a_failed_transaction_leaves_nothing(medium: &impl Medium) -> Verdict {
    let store = medium.open().map_err(text)?;
    store.put(VOTES, b"a", b"1").map_err(text)?;
    let refused: Result<(), StoreError> = store.write(|view| {
        view.put(VOTES, b"a", b"2")?;
        view.put(SEALS, b"b", b"2")?;
        Err(StoreError::Failed("the work says no".into()))
    });
    holds("the work's error comes back", refused.is_err())?;
    holds(
        "an aborted put is undone",
        store.get(VOTES, b"a").map_err(text)? == Some(b"1".to_vec()),
    )?;
    holds(
        "an aborted key is not there",
        store.get(SEALS, b"b").map_err(text)?.is_none(),
    )?;
    store.put(VOTES, b"c", b"3").map_err(text)?;
    holds(
        "an abort does not stop the store",
        store.get(VOTES, b"c").map_err(text)?.is_some(),
    )
}

fn a_transaction_reads_its_own_writes(medium: &impl Medium) -> Verdict {
    let store = medium.open().map_err(text)?;
    let seen = store.write(|view| {
        view.put(VOTES, b"a", b"1")?;
        view.put(VOTES, b"b", b"2")?;
        view.delete(VOTES, b"a")?;
        view.range(VOTES, b"", None, 9)
    });
    holds(
        "a transaction reads its own writes",
        seen.map_err(text)? == [pair(b"b", b"2")],
    )
}

fn a_view_does_not_move(medium: &impl Medium) -> Verdict {
    let store = medium.open().map_err(text)?;
    store.put(VOTES, b"a", b"1").map_err(text)?;
    let seen = store.read(|view| {
        store.put(VOTES, b"a", b"2")?;
        view.get(VOTES, b"a")
    });
    holds(
        "a view does not move",
        seen.map_err(text)? == Some(b"1".to_vec()),
    )
}

fn acknowledged_is_durable(medium: &impl Medium) -> Verdict {
    for round in 0u8..4 {
        let store = medium.open().map_err(text)?;
        let before = store.range(VOTES, b"", None, 99).map_err(text)?;
        holds(
            "acknowledged is durable",
            before.len() == usize::from(round),
        )?;
        store
            .write(|view| {
                view.put(VOTES, &[round], b"vote")?;
                view.put(SEALS, b"last", &[round])
            })
            .map_err(text)?;
        medium.crash();
        drop(store);
    }
    let store = medium.open().map_err(text)?;
    holds(
        "both tables were committed",
        store.get(SEALS, b"last").map_err(text)? == Some(vec![3]),
    )
}

fn a_failed_sync_is_final(medium: &impl Medium) -> Verdict {
    let store = medium.open().map_err(text)?;
    store.put(VOTES, b"a", b"1").map_err(text)?;
    if !medium.fail_next_sync() {
        return Ok(());
    }
    holds(
        "a failed sync is reported",
        store.put(VOTES, b"b", b"2").is_err(),
    )?;
    holds(
        "nothing is written after a failed sync",
        store.put(VOTES, b"c", b"3").is_err(),
    )?;
    holds(
        "nothing is read after a failed sync",
        store.get(VOTES, b"a").is_err(),
    )?;
    medium.crash();
    drop(store);
    let store = medium.open().map_err(text)?;
    let found = store.range(VOTES, b"", None, 9).map_err(text)?;
    holds(
        "what was acknowledged before is there, and only that",
        found == [pair(b"a", b"1")],
    )
}

impl Medium for SimDisk {
    type Store = SimStore;

    fn open(&self) -> Result<SimStore, StoreError> {
        SimDisk::open(self)
    }

    fn crash(&self) {
        SimDisk::crash(self);
    }

    fn fail_next_sync(&self) -> bool {
        SimDisk::fail_next_sync(self, SyncFailure::Lost);
        true
    }
}

#[test]
fn the_twin_keeps_the_promises() {
    assert_eq!(run(SimDisk::new), Ok(()));
}

#[test]
fn the_suite_notices_each_defect() {
    let cases = [
        (Defect::AcknowledgesEarly, "acknowledged is durable"),
        (Defect::KeepsAborted, "an aborted put is undone"),
        (
            Defect::RetriesSync,
            "nothing is written after a failed sync",
        ),
    ];
    for (defect, property) in cases {
        assert_eq!(
            run(|| SimDisk::with(defect)),
            Err(property.to_owned()),
            "{defect:?}"
        );
    }
}

#[cfg(not(madsim))]
mod disk {
    //! redb, on a real file and on a disk in memory whose unsynced pages are lost.

    use std::io;
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    use redb::{Database, StorageBackend};

    use super::super::{DataFolder, RedbStore};
    use super::*;

    struct Folder(tempfile::TempDir);

    impl Medium for Folder {
        type Store = RedbStore;

        fn open(&self) -> Result<RedbStore, StoreError> {
            RedbStore::open(DataFolder::open(self.0.path())?)
        }

        fn crash(&self) {}

        fn fail_next_sync(&self) -> bool {
            false
        }
    }

    #[derive(Clone, Debug, Default)]
    struct Pages(Arc<Mutex<Platter>>);

    #[derive(Debug, Default)]
    struct Platter {
        volatile: Vec<u8>,
        durable: Vec<u8>,
        boots: u64,
        fail_next_sync: bool,
    }

    /// The disk as one boot sees it; after a crash its accesses change nothing.
    #[derive(Debug)]
    struct Boot(Pages, u64);

    impl Pages {
        fn lock(&self) -> MutexGuard<'_, Platter> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl Boot {
        fn platter(&self) -> io::Result<MutexGuard<'_, Platter>> {
            let platter = self.0.lock();
            if platter.boots == self.1 {
                Ok(platter)
            } else {
                Err(io::Error::other("no power"))
            }
        }
    }

    fn span(offset: u64, len: usize) -> std::ops::Range<usize> {
        let start = usize::try_from(offset).expect("a small disk");
        start..start + len
    }

    impl StorageBackend for Boot {
        fn len(&self) -> io::Result<u64> {
            Ok(self.platter()?.volatile.len() as u64)
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            let platter = self.platter()?;
            let found = platter
                .volatile
                .get(span(offset, out.len()))
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            out.copy_from_slice(found);
            Ok(())
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.platter()?.volatile.resize(span(len, 0).start, 0);
            Ok(())
        }

        fn sync_data(&self) -> io::Result<()> {
            let mut platter = self.platter()?;
            if std::mem::take(&mut platter.fail_next_sync) {
                return Err(io::Error::other("fsync: input/output error"));
            }
            platter.durable = platter.volatile.clone();
            Ok(())
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let mut platter = self.platter()?;
            let place = platter
                .volatile
                .get_mut(span(offset, data.len()))
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            place.copy_from_slice(data);
            Ok(())
        }
    }

    impl Medium for Pages {
        type Store = RedbStore;

        fn open(&self) -> Result<RedbStore, StoreError> {
            let boot = Boot(self.clone(), self.lock().boots);
            let database = Database::builder().create_with_backend(boot);
            Ok(RedbStore::over(
                database.map_err(|error| StoreError::Failed(error.to_string()))?,
                None,
            ))
        }

        fn crash(&self) {
            let mut platter = self.lock();
            platter.volatile = platter.durable.clone();
            platter.boots += 1;
            platter.fail_next_sync = false;
        }

        fn fail_next_sync(&self) -> bool {
            self.lock().fail_next_sync = true;
            true
        }
    }

    #[test]
    fn redb_keeps_the_promises_on_a_file() {
        assert_eq!(run(|| Folder(tempfile::tempdir().expect("folder"))), Ok(()));
    }

    #[test]
    fn redb_keeps_the_promises_over_power_loss() {
        assert_eq!(run(Pages::default), Ok(()));
    }

    #[test]
    fn a_second_process_is_refused() {
        let folder = Folder(tempfile::tempdir().expect("folder"));
        let store = folder.open().expect("opened");
        assert!(matches!(folder.open(), Err(StoreError::Locked { .. })));
        drop(store);
        assert!(folder.open().is_ok());
    }
}
