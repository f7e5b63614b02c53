//! The peer table of a running node: taken in from every answer, written with the next append of
//! the log, and handed out with every answer (D9).
//!
//! The rules are in [`crate::peers`]; this file only keeps the table where two tasks can reach it
//! and its bytes where the next fsync finds them.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::{LogId, Vote};
use crate::engine::{Durability, Engine, Family, StorageFault, WriteBatch, framed, unframed};
use crate::log_store::LogStore;
use crate::peers::{Disk, PeerRow, PeerTable};
use crate::rejoin::Floor;
use crate::wire::{log_mark, vote_mark, vote_of};

const TABLE: &[u8] = b"peer/table";
const INCARNATION: &[u8] = b"peer/incarnation";

/// What this node remembers, and the disk it started with.
#[derive(Debug)]
pub struct Memory<E> {
    own: u64,
    disk: Mutex<Disk>,
    log_store: LogStore<E>,
    table: Mutex<PeerTable>,
}

/// A peer remembers more of this node than it has ever had: its disk went back in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The row about this node.
    pub row: PeerRow,
}

impl<E: Engine> Memory<E> {
    /// Reads the table and counts this boot: the incarnation is synced before anything is sent.
    ///
    /// # Errors
    /// Any fault of the store; a damaged table or incarnation is `Corrupt`.
    pub async fn open(own: u64, log_store: LogStore<E>) -> Result<Self, StorageFault> {
        let engine = log_store.engine().clone();
        let table = match read(&engine, TABLE, "peer table")? {
            None => PeerTable::default(),
            Some(bytes) => PeerTable::from_bytes(&bytes)
                .map_err(|error| corrupt(&engine, "peer table", &error.to_string()))?,
        };
        let incarnation = match read(&engine, INCARNATION, "incarnation")? {
            None => 1,
            Some(bytes) => match bytes.first_chunk::<8>() {
                Some(last) if bytes.len() == 8 => u64::from_be_bytes(*last).saturating_add(1),
                _ => return Err(corrupt(&engine, "incarnation", "not 8 bytes")),
            },
        };
        let mut batch = WriteBatch::new();
        batch.put(
            Family::Meta,
            INCARNATION,
            framed(&incarnation.to_be_bytes()),
        );
        engine.write(batch, Durability::Synced).await?;

        let durable = log_store.durable();
        let disk = Disk {
            incarnation,
            vote: durable.vote.as_ref().map(vote_mark).unwrap_or_default(),
            last_log: durable.last.as_ref().map(log_mark),
        };
        Ok(Self {
            own,
            disk: Mutex::new(disk),
            log_store,
            table: Mutex::new(table),
        })
    }

    /// This boot's number.
    pub fn incarnation(&self) -> u64 {
        self.disk().incarnation
    }

    /// The disk as it was when this process started, or as it has been raised since.
    pub fn disk(&self) -> Disk {
        *self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises vote and incarnation above all that is remembered of this node, synced together with
    /// `batch`: whatever the lost disk has promised, this one promises less than nothing of it.
    ///
    /// # Errors
    /// Any fault of the store.
    pub(crate) async fn raise(
        &self,
        floor: &Floor,
        mut batch: WriteBatch,
    ) -> Result<(), StorageFault> {
        let incarnation = floor.incarnation.max(self.incarnation());
        batch.put(
            Family::Meta,
            INCARNATION,
            framed(&incarnation.to_be_bytes()),
        );
        self.log_store
            .raise_vote(vote_of(&floor.vote), batch)
            .await?;
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        disk.incarnation = incarnation;
        disk.vote = floor.vote;
        Ok(())
    }

    /// The table, for an answer.
    pub fn table(&self) -> PeerTable {
        self.lock().clone()
    }

    /// Takes in a peer's table. Rows of nodes outside `known` are dropped.
    ///
    /// # Errors
    /// [`Remembered`] if the peer knows more of this node than this node has ever had. The process
    /// must stop voting and end.
    pub fn absorb(&self, rows: &PeerTable, known: &BTreeSet<u64>) -> Result<(), Remembered> {
        let mut table = self.lock();
        let mut news = false;
        for row in rows.rows() {
            if row.node == self.own {
                self.check_own(row, &table)?;
            } else if known.contains(&row.node) {
                news |= table.absorb(row);
            }
        }
        if news {
            self.keep(&table);
        }
        Ok(())
    }

    /// Records what this node has promised: its stored vote, and the last entry acknowledged under
    /// it. Called with what is already durable, before the promise is sent.
    pub fn promise(&self, vote: &Vote, acknowledged: Option<&LogId>) {
        let row = PeerRow {
            node: self.own,
            incarnation: self.incarnation(),
            vote: vote_mark(vote),
            log: acknowledged.map(log_mark),
        };
        let mut table = self.lock();
        if table.absorb(&row) {
            self.keep(&table);
        }
    }

    /// Own promises are recorded before they are sent, so no peer can honestly know more than the
    /// own row or the disk at boot.
    fn check_own(&self, row: &PeerRow, table: &PeerTable) -> Result<(), Remembered> {
        let disk = self.disk();
        let forgotten_boot = row.incarnation > disk.incarnation;
        let promised = table.row(self.own).map(|own| Disk {
            incarnation: own.incarnation,
            vote: own.vote,
            last_log: own.log,
        });
        let forgotten =
            row.is_above(&disk) && promised.is_none_or(|promised| row.is_above(&promised));
        if forgotten_boot || forgotten {
            Err(Remembered { row: *row })
        } else {
            Ok(())
        }
    }

    fn keep(&self, table: &PeerTable) {
        self.log_store
            .piggyback(TABLE.to_vec(), framed(&table.to_bytes()));
    }

    fn lock(&self) -> MutexGuard<'_, PeerTable> {
        // Rows are plain values: a panic elsewhere leaves the table usable.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read<E: Engine>(engine: &E, key: &[u8], what: &str) -> Result<Option<Vec<u8>>, StorageFault> {
    let Some(stored) = engine.get(Family::Meta, key)? else {
        return Ok(None);
    };
    match unframed(what, &stored) {
        Ok(bytes) => Ok(Some(bytes.to_vec())),
        Err(fault) => Err(engine.condemn(fault)),
    }
}

fn corrupt<E: Engine>(engine: &E, what: &str, detail: &str) -> StorageFault {
    engine.condemn(StorageFault::Corrupt {
        what: what.into(),
        detail: detail.into(),
    })
}
