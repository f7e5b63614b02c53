//! The Raft log and vote on an [`Engine`]: what openraft calls `RaftLogStorage`.
//!
//! | family | key | value, framed with its check | written |
//! |---|---|---|---|
//! | `Log` | index, u64 big-endian | the entry as [`crate::entry`] encodes it | synced, per append |
//! | `Meta` | `raft/vote` | term u64, candidate (0, or 1 and u64), committed u8 | synced |
//! | `Meta` | `raft/purged` | term u64, index u64 | synced, with the deletion |
//! | `Meta` | `raft/committed` | term u64, index u64 | buffered: a hint, openraft learns it again |
//!
//! An append is one synced batch, and its callback is called after the batch is durable (fault 5).
//! Peer rows that wait ride on it, so that remembering them costs no fsync of its own (D9).
//! Every fault is final: the callback carries it, the engine's fuse is blown, every later call
//! fails (faults 8, 9). This module does not apply entries, it does not decide what may be purged,
//! and it does not detect a disk that went back in time: the peer table does.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{
    AnyError, CommittedLeaderId, ErrorSubject, ErrorVerb, LeaderId, OptionalSend, RaftLogReader,
    StorageIOError,
};

use crate::admission::Admissions;
use crate::config::{Entry, LogId, StorageError, TypeConfig, Vote};
use crate::engine::{Durability, Engine, Family, Row, StorageFault, WriteBatch, framed, unframed};
use crate::entry;

const VOTE: &[u8] = b"raft/vote";
const COMMITTED: &[u8] = b"raft/committed";
const PURGED: &[u8] = b"raft/purged";

/// Above every key of the log.
const LOG_END: [u8; 9] = [u8::MAX; 9];

/// A reader that asks for a range without naming a limit gets about this many bytes at once: a
/// lagging follower must not make its leader load the whole log.
const READ_BYTES_MAX: usize = 4 << 20;

/// Rows fetched from the engine at once. An entry may be 1 MiB.
const READ_ROWS: usize = 4;

/// What this node certainly has on its disk: nothing that is not fsynced is in here. It is the
/// node's own row in the peer table (D9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durable {
    /// The vote.
    pub vote: Option<Vote>,
    /// The last log id; the purge point if the log holds nothing after it.
    pub last: Option<LogId>,
}

/// The log store. Clones share one log; openraft serialises the writes.
#[derive(Debug)]
pub struct LogStore<E> {
    shared: Arc<Shared<E>>,
}

#[derive(Debug)]
struct Shared<E> {
    engine: E,
    /// Begun with each append, taken when the entry is applied.
    admissions: Arc<Admissions>,
    memory: Mutex<Memory>,
}

#[derive(Debug)]
struct Memory {
    durable: Durable,
    purged: Option<LogId>,
    /// Meta rows that wait for the next append.
    riding: Vec<Row>,
}

impl<E> Clone for LogStore<E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<E: Engine> LogStore<E> {
    /// Reads the vote and both ends of the log.
    ///
    /// # Errors
    /// `Corrupt` if a record is damaged or the log does not begin after the purge point; any other
    /// fault of the engine.
    pub fn open(engine: E) -> Result<Self, StorageFault> {
        let memory = Memory::read(&engine).map_err(|fault| engine.condemn(fault))?;
        Ok(Self {
            shared: Arc::new(Shared {
                engine,
                admissions: Arc::default(),
                memory: Mutex::new(memory),
            }),
        })
    }

    /// The engine under the log.
    pub fn engine(&self) -> &E {
        &self.shared.engine
    }

    /// What is admitted beside the writes of this log, for whoever applies it.
    pub(crate) fn admissions(&self) -> Arc<Admissions> {
        self.shared.admissions.want();
        Arc::clone(&self.shared.admissions)
    }

    /// What is fsynced.
    pub fn durable(&self) -> Durable {
        self.memory().durable
    }

    /// Puts a `Meta` row into the next append's batch, and so onto the disk with its fsync. A
    /// later row of the same key replaces one that still waits. Until the next append it is
    /// nowhere but here.
    pub fn piggyback(&self, key: Vec<u8>, value: Vec<u8>) {
        let mut memory = self.memory();
        memory.riding.retain(|(waiting, _)| *waiting != key);
        memory.riding.push((key, value));
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Plain values, replaced whole: a panic elsewhere leaves them usable.
        self.shared
            .memory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn synced(&self, batch: WriteBatch) -> Result<(), StorageFault> {
        self.engine().write(batch, Durability::Synced).await
    }

    async fn append_batch(&self, entries: Vec<Entry>) -> Result<(), StorageFault> {
        let Some(last) = entries.last().map(|entry| entry.log_id) else {
            return Ok(());
        };
        self.consecutive(&entries)?;
        self.shared.admissions.begin(&entries);
        let mut batch = WriteBatch::new();
        for entry in &entries {
            batch.put(
                Family::Log,
                log_key(entry.log_id.index),
                framed(&entry::encode(entry)),
            );
        }
        for (key, value) in std::mem::take(&mut self.memory().riding) {
            batch.put(Family::Meta, key, value);
        }
        self.synced(batch).await?;
        self.memory().durable.last = Some(last);
        Ok(())
    }

    /// A hole in the log would be read as its end by the next start.
    fn consecutive(&self, entries: &[Entry]) -> Result<(), StorageFault> {
        let mut last = self.memory().durable.last;
        for entry in entries {
            if last.is_some_and(|last| last.index.checked_add(1) != Some(entry.log_id.index)) {
                return Err(self.engine().condemn(StorageFault::OutOfOrder {
                    detail: format!("entry {} was appended after {last:?}", entry.log_id),
                }));
            }
            last = Some(entry.log_id);
        }
        Ok(())
    }

    async fn write_vote(&self, vote: Vote) -> Result<(), StorageFault> {
        if self
            .durable()
            .vote
            .is_some_and(|old| regresses(&vote, &old))
        {
            return Err(self.engine().condemn(StorageFault::OutOfOrder {
                detail: format!("vote {vote} was saved after {:?}", self.durable().vote),
            }));
        }
        self.raise_vote(vote, WriteBatch::new()).await
    }

    /// Saves a vote together with `batch`. Before openraft runs, or through it.
    ///
    /// # Errors
    /// Any fault of the engine.
    pub(crate) async fn raise_vote(
        &self,
        vote: Vote,
        mut batch: WriteBatch,
    ) -> Result<(), StorageFault> {
        batch.put(Family::Meta, VOTE, framed(&encode_vote(&vote)));
        self.synced(batch).await?;
        self.memory().durable.vote = Some(vote);
        Ok(())
    }

    async fn remove_from(&self, first: u64) -> Result<(), StorageFault> {
        let purged = self.memory().purged;
        let kept = match first.checked_sub(1) {
            None => None,
            Some(before) => match self.entry_at(before)? {
                Some(entry) => Some(entry.log_id),
                None => purged,
            },
        };
        // From here on the entries may be gone: they are not promised to peers any more.
        self.memory().durable.last = kept;
        let mut batch = WriteBatch::new();
        batch.delete_range(Family::Log, log_key(first), LOG_END);
        self.synced(batch).await
    }

    async fn remove_upto(&self, upto: LogId) -> Result<(), StorageFault> {
        let mut batch = WriteBatch::new();
        batch.put(Family::Meta, PURGED, framed(&encode_log_id(&upto)));
        let end = upto
            .index
            .checked_add(1)
            .map_or(LOG_END.to_vec(), |next| log_key(next).to_vec());
        batch.delete_range(Family::Log, log_key(0), end);
        self.synced(batch).await?;
        let mut memory = self.memory();
        memory.purged = Some(upto);
        if memory
            .durable
            .last
            .is_none_or(|last| last.index <= upto.index)
        {
            memory.durable.last = Some(upto);
        }
        Ok(())
    }

    fn entry_at(&self, index: u64) -> Result<Option<Entry>, StorageFault> {
        let key = log_key(index);
        let value = self.engine().get(Family::Log, &key)?;
        value
            .map(|value| decode_entry(&(key.to_vec(), value)))
            .transpose()
            .map_err(|fault| self.engine().condemn(fault))
    }

    /// Entries of `[from, to)` until about `bytes_max` bytes are read; at least one, if there is
    /// one.
    fn read(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<Entry>, StorageFault> {
        let mut entries: Vec<Entry> = Vec::new();
        let (mut next, mut bytes) = (from, 0);
        while next < to && bytes < bytes_max {
            let rows = self
                .engine()
                .scan(Family::Log, &log_key(next), &log_key(to), READ_ROWS)?;
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                let entry = decode_entry(row).map_err(|fault| self.engine().condemn(fault))?;
                let index = entry.log_id.index;
                if !entries.is_empty() && index != next {
                    return Err(self.engine().condemn(hole(next)));
                }
                bytes += row.1.len();
                next = index.saturating_add(1);
                entries.push(entry);
            }
        }
        Ok(entries)
    }
}

impl Memory {
    fn read<E: Engine>(engine: &E) -> Result<Self, StorageFault> {
        let vote = read_meta(engine, VOTE, "vote", decode_vote)?;
        let purged = read_meta(engine, PURGED, "purge point", decode_log_id)?;
        let last = engine
            .last(Family::Log)?
            .as_ref()
            .map(decode_entry)
            .transpose()?;
        let first = engine.scan(Family::Log, &log_key(0), &LOG_END, 1)?;
        let begins = first
            .first()
            .map(decode_entry)
            .transpose()?
            .map(|entry| entry.log_id.index);
        if let (Some(purged), Some(begins)) = (purged, begins)
            && purged.index.checked_add(1) != Some(begins)
        {
            return Err(hole(purged.index.saturating_add(1)));
        }
        let last = last.map(|entry| entry.log_id).or(purged);
        Ok(Self {
            durable: Durable { vote, last },
            purged,
            riding: Vec::new(),
        })
    }
}

impl<E: Engine> RaftLogReader<TypeConfig> for LogStore<E> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, StorageError> {
        let (from, to) = bounds(&range);
        self.read(from, to, usize::MAX)
            .map_err(|fault| fatal(ErrorSubject::Logs, READ, &fault))
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, StorageError> {
        self.read(start, end, READ_BYTES_MAX)
            .map_err(|fault| fatal(ErrorSubject::Logs, READ, &fault))
    }
}

impl<E: Engine> RaftLogStorage<TypeConfig> for LogStore<E> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError> {
        let memory = Memory::read(self.engine())
            .map_err(|fault| fatal(ErrorSubject::Logs, READ, &self.engine().condemn(fault)))?;
        Ok(LogState {
            last_purged_log_id: memory.purged,
            last_log_id: memory.durable.last,
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let saved = self.write_vote(*vote).await;
        saved.map_err(|fault| fatal(ErrorSubject::Vote, WRITE, &fault))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        read_meta(self.engine(), VOTE, "vote", decode_vote)
            .map_err(|fault| fatal(ErrorSubject::Vote, READ, &self.engine().condemn(fault)))
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        let Some(committed) = committed else {
            return Ok(());
        };
        let mut batch = WriteBatch::new();
        batch.put(Family::Meta, COMMITTED, framed(&encode_log_id(&committed)));
        let saved = self.engine().write(batch, Durability::Buffered).await;
        saved.map_err(|fault| fatal(ErrorSubject::Logs, WRITE, &fault))
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        read_meta(self.engine(), COMMITTED, "committed log id", decode_log_id)
            .map_err(|fault| fatal(ErrorSubject::Logs, READ, &self.engine().condemn(fault)))
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TypeConfig>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        // openraft 0.9 waits for the callback before it does anything else, so nothing is gained
        // by returning earlier.
        match self.append_batch(entries.into_iter().collect()).await {
            Ok(()) => {
                callback.log_io_completed(Ok(()));
                Ok(())
            }
            Err(fault) => {
                callback.log_io_completed(Err(fault.clone().into()));
                Err(fatal(ErrorSubject::Logs, WRITE, &fault))
            }
        }
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let removed = self.remove_from(log_id.index).await;
        removed.map_err(|fault| fatal(ErrorSubject::Log(log_id), DELETE, &fault))
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let removed = self.remove_upto(log_id).await;
        removed.map_err(|fault| fatal(ErrorSubject::Log(log_id), DELETE, &fault))
    }
}

const READ: ErrorVerb = ErrorVerb::Read;
const WRITE: ErrorVerb = ErrorVerb::Write;
const DELETE: ErrorVerb = ErrorVerb::Delete;

/// openraft shuts its core down on every storage error; it has no other kind.
fn fatal(subject: ErrorSubject<u64>, verb: ErrorVerb, fault: &StorageFault) -> StorageError {
    StorageIOError::new(subject, verb, AnyError::new(fault)).into()
}

/// Two candidates of one term do not compare: a vote for the second is as wrong as a lower one.
fn regresses(vote: &Vote, old: &Vote) -> bool {
    matches!(vote.partial_cmp(old), None | Some(Ordering::Less))
}

fn hole(index: u64) -> StorageFault {
    StorageFault::Corrupt {
        what: "raft log".into(),
        detail: format!("entry {index} is missing between others"),
    }
}

fn log_key(index: u64) -> [u8; 8] {
    index.to_be_bytes()
}

fn bounds(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let from = match range.start_bound() {
        Bound::Included(first) => *first,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    (from, to)
}

fn decode_entry(row: &Row) -> Result<Entry, StorageFault> {
    let corrupt = |detail: String| StorageFault::Corrupt {
        what: "raft log entry".into(),
        detail,
    };
    let entry = entry::decode(unframed("raft log entry", &row.1)?)
        .map_err(|error| corrupt(error.to_string()))?;
    match row.0 == log_key(entry.log_id.index) {
        true => Ok(entry),
        false => Err(corrupt(format!(
            "entry {} is under another key",
            entry.log_id
        ))),
    }
}

fn read_meta<E: Engine, T>(
    engine: &E,
    key: &[u8],
    what: &'static str,
    decode: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<Option<T>, StorageFault> {
    let Some(value) = engine.get(Family::Meta, key)? else {
        return Ok(None);
    };
    let decoded = decode(unframed(what, &value)?);
    decoded.map(Some).ok_or_else(|| StorageFault::Corrupt {
        what: what.into(),
        detail: "has another shape".into(),
    })
}

fn encode_vote(vote: &Vote) -> Vec<u8> {
    let mut bytes = vote.leader_id.term.to_be_bytes().to_vec();
    match vote.leader_id.voted_for {
        None => bytes.push(0),
        Some(candidate) => {
            bytes.push(1);
            bytes.extend_from_slice(&candidate.to_be_bytes());
        }
    }
    bytes.push(u8::from(vote.committed));
    bytes
}

fn decode_vote(bytes: &[u8]) -> Option<Vote> {
    let (term, rest) = bytes.split_first_chunk()?;
    let (voted_for, committed) = match rest {
        [0, committed] => (None, committed),
        [1, candidate @ .., committed] => (
            Some(u64::from_be_bytes(candidate.try_into().ok()?)),
            committed,
        ),
        _ => return None,
    };
    let leader_id = LeaderId {
        term: u64::from_be_bytes(*term),
        voted_for,
    };
    match committed {
        0 => Some(Vote {
            leader_id,
            committed: false,
        }),
        1 => Some(Vote {
            leader_id,
            committed: true,
        }),
        _ => None,
    }
}

fn encode_log_id(log_id: &LogId) -> Vec<u8> {
    [
        log_id.leader_id.term.to_be_bytes(),
        log_id.index.to_be_bytes(),
    ]
    .concat()
}

fn decode_log_id(bytes: &[u8]) -> Option<LogId> {
    let (term, index) = bytes.split_first_chunk()?;
    let leader_id = CommittedLeaderId::new(u64::from_be_bytes(*term), 0);
    Some(LogId::new(
        leader_id,
        u64::from_be_bytes(index.try_into().ok()?),
    ))
}

#[cfg(test)]
mod tests;
