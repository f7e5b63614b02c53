//! The peer table (D9): what every node remembers of every node's disk, and the judgement before
//! a node votes again. Pure: no I/O, no openraft, no clock.
//!
//! A row never claims more than its node had made durable when it said so: the vote it had synced
//! and the last entry it had acknowledged *under that vote*. An acknowledged entry is truncated
//! only under a higher vote, so comparing the vote before the log id tells a truncation (less log,
//! higher vote) from a disk that went back in time (faults 13, 14). An unacknowledged tail is in
//! no row: a crash between truncate and append is not a rollback.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A vote as rows carry it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VoteMark {
    /// Term.
    pub term: u64,
    /// Whom the vote went to; `None` in the initial vote.
    pub node: Option<u64>,
    /// Whether a majority is known to have granted it.
    pub committed: bool,
}

/// A log id as rows carry it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogMark {
    /// Term.
    pub term: u64,
    /// Index.
    pub index: u64,
}

/// How two votes of one node relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VoteOrder {
    Ordered(Ordering),
    /// Granted to two candidates in one term: one of the two disks has forgotten the other vote.
    Twice,
}

impl VoteMark {
    /// A committed vote overrides an uncommitted one of the same term, whoever it is for.
    fn compare(&self, other: &VoteMark) -> VoteOrder {
        let rank = (self.term, self.committed).cmp(&(other.term, other.committed));
        if rank != Ordering::Equal {
            return VoteOrder::Ordered(rank);
        }
        match (self.node, other.node) {
            (Some(mine), Some(theirs)) if mine != theirs => VoteOrder::Twice,
            (mine, theirs) => VoteOrder::Ordered(mine.is_some().cmp(&theirs.is_some())),
        }
    }
}

/// What is remembered of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerRow {
    /// Whose disk.
    pub node: u64,
    /// Boots of that disk so far.
    pub incarnation: u64,
    /// The highest vote it has synced.
    pub vote: VoteMark,
    /// The last entry it has acknowledged under that vote.
    pub log: Option<LogMark>,
}

impl PeerRow {
    /// Whether this row remembers vote or log that `disk` does not hold.
    #[must_use]
    pub fn is_above(&self, disk: &Disk) -> bool {
        match self.vote.compare(&disk.vote) {
            VoteOrder::Ordered(Ordering::Equal) => self.log > disk.last_log,
            VoteOrder::Ordered(order) => order == Ordering::Greater,
            VoteOrder::Twice => true,
        }
    }

    /// Keeps the more of both: the highest incarnation, the highest vote with its log.
    fn join(&mut self, other: &PeerRow) {
        self.incarnation = self.incarnation.max(other.incarnation);
        match other.vote.compare(&self.vote) {
            VoteOrder::Ordered(Ordering::Greater) => {
                self.vote = other.vote;
                self.log = other.log;
            }
            VoteOrder::Ordered(Ordering::Equal) => self.log = self.log.max(other.log),
            // The first memory stays; the node it is about is judged by it.
            VoteOrder::Ordered(Ordering::Less) | VoteOrder::Twice => {}
        }
    }
}

impl fmt::Display for PeerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PeerRow {
            node,
            incarnation,
            vote,
            log,
        } = self;
        write!(
            f,
            "node {node}, incarnation {incarnation}, vote in term {}",
            vote.term
        )?;
        if let Some(candidate) = vote.node {
            write!(f, " for {candidate}")?;
        }
        match log {
            Some(log) => write!(f, ", log up to {}.{}", log.term, log.index),
            None => f.write_str(", no log"),
        }
    }
}

/// What a node reads from its own disk before Raft starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// This boot's incarnation, already synced.
    pub incarnation: u64,
    /// The stored vote.
    pub vote: VoteMark,
    /// The last entry of the log.
    pub last_log: Option<LogMark>,
}

/// What a node may do after its peers have answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloVerdict {
    /// A majority, itself included, has answered, and nobody remembers more than the disk holds.
    Start,
    /// Too few have answered.
    Wait,
    /// A peer remembers more: this disk went back in time or was wiped. The node must not vote.
    RolledBack {
        /// Who remembers.
        by: u64,
        /// What it remembers.
        row: PeerRow,
    },
}

/// Judges the answers to `Hello`: for each voter that answered, its table.
///
/// Peers record no row from a `Hello`, so a row with this boot's incarnation means that the number
/// has been used before: the disk has forgotten a boot.
#[must_use]
pub fn judge_hello(
    own: u64,
    disk: &Disk,
    answers: &BTreeMap<u64, PeerTable>,
    voters: &BTreeSet<u64>,
) -> HelloVerdict {
    for (by, table) in answers {
        if let Some(row) = table.row(own)
            && (row.incarnation >= disk.incarnation || row.is_above(disk))
        {
            return HelloVerdict::RolledBack { by: *by, row: *row };
        }
    }
    let heard = voters
        .iter()
        .filter(|voter| **voter == own || answers.contains_key(voter))
        .count();
    if heard > voters.len() / 2 {
        HelloVerdict::Start
    } else {
        HelloVerdict::Wait
    }
}

/// The rows, one per node, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerTable(BTreeMap<u64, PeerRow>);

/// Why bytes are not a peer table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a peer table: {0}")]
pub struct NotAPeerTable(&'static str);

/// Rows a table may hold: far more nodes than a roster has.
pub const ROWS_MAX: usize = 64;

const ROW_LEN: usize = 8 + 8 + (8 + 9 + 1) + 17;

impl PeerTable {
    /// What is remembered of `node`.
    #[must_use]
    pub fn row(&self, node: u64) -> Option<&PeerRow> {
        self.0.get(&node)
    }

    /// All rows, ascending by node.
    pub fn rows(&self) -> impl Iterator<Item = &PeerRow> {
        self.0.values()
    }

    /// Takes in one row; says whether anything new was in it. A full table takes no new node.
    pub fn absorb(&mut self, row: &PeerRow) -> bool {
        if self.0.len() >= ROWS_MAX && !self.0.contains_key(&row.node) {
            return false;
        }
        let known = self.0.entry(row.node).or_insert(PeerRow {
            node: row.node,
            incarnation: 0,
            vote: VoteMark::default(),
            log: None,
        });
        let before = *known;
        known.join(row);
        *known != before
    }

    /// Forgets nodes that `keep` does not name.
    pub fn retain(&mut self, keep: &BTreeSet<u64>) {
        self.0.retain(|node, _| keep.contains(node));
    }

    /// For the disk: rows of fixed length, ascending.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.0.len() * ROW_LEN);
        for row in self.0.values() {
            out.extend_from_slice(&row.node.to_be_bytes());
            out.extend_from_slice(&row.incarnation.to_be_bytes());
            out.extend_from_slice(&row.vote.term.to_be_bytes());
            out.push(u8::from(row.vote.node.is_some()));
            out.extend_from_slice(&row.vote.node.unwrap_or_default().to_be_bytes());
            out.push(u8::from(row.vote.committed));
            out.push(u8::from(row.log.is_some()));
            let log = row.log.unwrap_or_default();
            out.extend_from_slice(&log.term.to_be_bytes());
            out.extend_from_slice(&log.index.to_be_bytes());
        }
        out
    }

    /// Reads what [`PeerTable::to_bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes are anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<PeerTable, NotAPeerTable> {
        if !bytes.len().is_multiple_of(ROW_LEN) || bytes.len() > ROWS_MAX * ROW_LEN {
            return Err(NotAPeerTable("bad length"));
        }
        let mut table = PeerTable::default();
        for row in bytes.chunks_exact(ROW_LEN) {
            let row = row_from(row).ok_or(NotAPeerTable("bad row"))?;
            table.0.insert(row.node, row);
        }
        if table.to_bytes() != bytes {
            return Err(NotAPeerTable("not the one encoding"));
        }
        Ok(table)
    }
}

fn row_from(bytes: &[u8]) -> Option<PeerRow> {
    let number = |at: usize| -> Option<u64> {
        bytes
            .get(at..)?
            .first_chunk::<8>()
            .map(|chunk| u64::from_be_bytes(*chunk))
    };
    let flag = |at: usize| bytes.get(at).map(|byte| *byte == 1);
    let (candidate, log) = (
        number(25)?,
        LogMark {
            term: number(35)?,
            index: number(43)?,
        },
    );
    Some(PeerRow {
        node: number(0)?,
        incarnation: number(8)?,
        vote: VoteMark {
            term: number(16)?,
            node: flag(24)?.then_some(candidate),
            committed: flag(33)?,
        },
        log: flag(34)?.then_some(log),
    })
}

#[cfg(test)]
mod tests;
