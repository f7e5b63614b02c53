//! The store on a disk: one redb file, one fsync per commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{
    Database, Durability, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition,
    TableError, WriteTransaction,
};

use super::{DataFolder, Pair, Reader, Store, StoreError, Table, Writer};
use crate::file;

const FILE: &str = "state.redb";
const CACHE_BYTES: usize = 16 << 20;

/// A store in a data folder.
#[derive(Clone)]
pub struct RedbStore(Arc<Shared>);

struct Shared {
    database: Database,
    /// Set for good by the first failure of the storage.
    failed: AtomicBool,
    _folder: Option<DataFolder>,
}

fn failed(error: impl Into<redb::Error>) -> StoreError {
    StoreError::Failed(error.into().to_string())
}

impl RedbStore {
    /// Opens the folder's store, or makes an empty one.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if the file is damaged or the disk fails.
    pub fn open(folder: DataFolder) -> Result<RedbStore, StoreError> {
        let path = folder.path().join(FILE);
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create(&path)
            .map_err(failed)?;
        // The file's name must be as durable as its first commit (FAULTS 11).
        file::sync_folder(&path)?;
        Ok(RedbStore::over(database, Some(folder)))
    }

    pub(super) fn over(database: Database, folder: Option<DataFolder>) -> RedbStore {
        RedbStore(Arc::new(Shared {
            database,
            failed: AtomicBool::new(false),
            _folder: folder,
        }))
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.0.failed.load(Ordering::Acquire) {
            return Err(StoreError::Failed(
                "it failed before; the process must exit".into(),
            ));
        }
        Ok(())
    }

    /// Remembers a failure: what the disk holds now is known only after a restart.
    fn fail(&self, error: impl Into<redb::Error>) -> StoreError {
        self.0.failed.store(true, Ordering::Release);
        failed(error)
    }
}

impl Store for RedbStore {
    fn read<R, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&dyn Reader) -> Result<R, E>,
    ) -> Result<R, E> {
        self.check()?;
        let view = View(
            self.0
                .database
                .begin_read()
                .map_err(|error| self.fail(error))?,
        );
        work(&view)
    }

    fn write<R, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut dyn Writer) -> Result<R, E>,
    ) -> Result<R, E> {
        self.check()?;
        let mut transaction = self
            .0
            .database
            .begin_write()
            .map_err(|error| self.fail(error))?;
        // A writer that waited here while another failed must not go on.
        self.check()?;
        transaction
            .set_durability(Durability::Immediate)
            .map_err(|error| StoreError::Failed(error.to_string()))?;
        let mut edit = Edit(transaction);
        match work(&mut edit) {
            Ok(value) => {
                edit.0.commit().map_err(|error| self.fail(error))?;
                Ok(value)
            }
            Err(error) => {
                edit.0.abort().map_err(|error| self.fail(error))?;
                Err(error)
            }
        }
    }
}

type Bytes = &'static [u8];

fn definition(table: Table) -> TableDefinition<'static, Bytes, Bytes> {
    TableDefinition::new(table.0)
}

fn get_in(
    table: &impl ReadableTable<Bytes, Bytes>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(table
        .get(key)
        .map_err(failed)?
        .map(|value| value.value().to_vec()))
}

fn range_in(
    table: &impl ReadableTable<Bytes, Bytes>,
    from: &[u8],
    to: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<Pair>, StoreError> {
    if to.is_some_and(|to| to <= from) {
        return Ok(Vec::new());
    }
    let found = match to {
        Some(to) => table.range::<&[u8]>(from..to),
        None => table.range::<&[u8]>(from..),
    };
    found
        .map_err(failed)?
        .take(limit)
        .map(|pair| {
            pair.map(|(key, value)| (key.value().to_vec(), value.value().to_vec()))
                .map_err(failed)
        })
        .collect()
}

struct View(ReadTransaction);

impl Reader for View {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.0.open_table(definition(table)) {
            Ok(open) => get_in(&open, key),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn range(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        match self.0.open_table(definition(table)) {
            Ok(open) => range_in(&open, from, to, limit),
            Err(TableError::TableDoesNotExist(_)) => Ok(Vec::new()),
            Err(error) => Err(failed(error)),
        }
    }
}

struct Edit(WriteTransaction);

impl Reader for Edit {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        get_in(&self.0.open_table(definition(table)).map_err(failed)?, key)
    }

    fn range(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        range_in(
            &self.0.open_table(definition(table)).map_err(failed)?,
            from,
            to,
            limit,
        )
    }
}

impl Writer for Edit {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let mut open = self.0.open_table(definition(table)).map_err(failed)?;
        open.insert(key, value).map_err(failed).map(drop)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        let mut open = self.0.open_table(definition(table)).map_err(failed)?;
        open.remove(key).map_err(failed).map(drop)
    }
}
