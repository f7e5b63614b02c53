//! The engine that a simulated node is given: the product's own simulated engine, with a recorder around
//! it, a trap for crashes at one exact write, and lies for proving the invariants.
//!
//! ```text
//!   node ──write──▶ RecordedEngine ──(lie?)──▶ SimEngine on a SimDisk
//!                        └─▶ History: votes, applied entries, leaves, as the node believes them stored
//! ```
//!
//! It reads the layouts that `log_store`, `record` and `archive` document, and decides nothing.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redlatch_journal::State;
use redlatch_link::world;
use redlatch_raft::engine::{
    Durability, Engine, Family, Op, Row, SimDisk, SimEngine, StorageFault, WriteBatch, unframed,
};
use redlatch_types::Digest;

use crate::history::{DiskEvent, History, VoteSeen};
use crate::organism::NODES;
use crate::process::Stage;
use crate::trace::Who;

const VOTE: &[u8] = b"raft/vote";
const PURGED: &[u8] = b"raft/purged";
const APPLIED: &[u8] = b"sm/applied";
const LOG_END: [u8; 9] = [u8::MAX; 9];

/// How long an early answer is ahead of its sync.
const EARLY: Duration = Duration::from_millis(300);

/// A promise of the engine that a planted disk breaks (fault 99).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lie {
    /// None: the product's own engine.
    #[default]
    None,
    /// Appends to the log are answered and never synced.
    AppendUnsynced,
    /// Appends to the log are answered 300 ms before they are synced.
    AppendAnsweredEarly,
    /// Votes are answered and never synced.
    VoteUnsynced,
    /// Some leaves of an applied entry are left out, on the last node.
    LeavesDropped,
}

/// A write after which the power is to be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashAt {
    /// The log was truncated; what replaces the tail is not appended yet.
    Truncate,
}

/// What a node's engine shares with the world that owns its disk.
#[derive(Clone, Default)]
pub struct Probe(Arc<Mutex<Armed>>);

#[derive(Default)]
struct Armed {
    crash_at: Option<CrashAt>,
    sprung: bool,
}

impl Probe {
    /// Arms a trap: the next such write is synced and never answered.
    pub fn arm(&self, at: CrashAt) {
        *self.lock() = Armed {
            crash_at: Some(at),
            sprung: false,
        };
    }

    /// Whether the trap was reached.
    pub fn has_sprung(&self) -> bool {
        self.lock().sprung
    }

    fn springs(&self, what: Option<CrashAt>) -> bool {
        let mut armed = self.lock();
        let springs = what.is_some() && armed.crash_at == what;
        if springs {
            *armed = Armed {
                crash_at: None,
                sprung: true,
            };
        }
        springs
    }

    fn lock(&self) -> MutexGuard<'_, Armed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The engine of one boot of one node.
#[derive(Clone)]
pub struct RecordedEngine {
    inner: SimEngine,
    node: u64,
    stage: Stage,
    log: Arc<Mutex<LogMirror>>,
    probe: Probe,
    lie: Lie,
    /// Last applied index that this boot found: what is shown up to there is rebuilt.
    found: u64,
}

impl std::fmt::Debug for RecordedEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RecordedEngine({})", self.node)
    }
}

/// What the log holds, so that an applied index can be given its entry.
#[derive(Default)]
struct LogMirror {
    entries: BTreeMap<u64, (u64, Digest)>,
    applied: u64,
}

/// What one batch means.
#[derive(Default)]
struct Meaning {
    vote: Option<VoteSeen>,
    applied: Option<u64>,
    leaves: Vec<(u64, Vec<u8>)>,
    appends: bool,
    crash: Option<CrashAt>,
}

impl RecordedEngine {
    /// Opens a disk for one boot and records what is found there.
    ///
    /// # Errors
    /// As the engine itself.
    pub fn open(
        disk: &SimDisk,
        node: u64,
        stage: &Stage,
        probe: &Probe,
        lie: Lie,
    ) -> Result<RecordedEngine, StorageFault> {
        let inner = disk.open()?;
        let mut engine = RecordedEngine {
            inner,
            node,
            stage: stage.clone(),
            log: Arc::default(),
            probe: probe.clone(),
            lie,
            found: 0,
        };
        engine.found = engine.record_opening()?;
        Ok(engine)
    }

    /// Records what is on the disk; the last applied index in it.
    fn record_opening(&self) -> Result<u64, StorageFault> {
        let vote = self
            .inner
            .get(Family::Meta, VOTE)?
            .as_deref()
            .and_then(vote_in);
        let applied = self
            .inner
            .get(Family::Meta, APPLIED)?
            .as_deref()
            .and_then(applied_in);
        for (key, value) in self.inner.scan(Family::Log, &[], &LOG_END, usize::MAX)? {
            self.mirror().append(&key, &value);
        }
        let opened = DiskEvent::Opened { vote, applied };
        self.history()
            .disks
            .entry(self.node)
            .or_default()
            .push(opened);
        if let Some(applied) = applied {
            self.record_applied(applied);
        }
        Ok(applied.unwrap_or_default())
    }

    /// Every entry up to an applied one counts as applied by this node.
    fn record_applied(&self, index: u64) {
        let mut mirror = self.mirror();
        let from = mirror.applied.min(index);
        let reached: Vec<(u64, (u64, Digest))> = mirror
            .entries
            .range(from..=index)
            .map(|(at, entry)| (*at, *entry))
            .collect();
        mirror.applied = index;
        let mut history = self.history();
        for (at, entry) in reached {
            History::show(&mut history.entries, at, entry, self.node);
        }
    }

    fn record(&self, meaning: Meaning) {
        if let Some(index) = meaning.applied {
            self.record_applied(index);
        }
        if let Some(VoteSeen {
            term,
            candidate,
            committed,
        }) = meaning.vote
        {
            let candidate = candidate.unwrap_or_default();
            let word = if committed { "follows" } else { "votes for" };
            self.stage.note(
                Who::Node(self.node),
                format_args!("{word} n{candidate} in term {term}"),
            );
        }
        let mut history = self.history();
        for (position, leaf) in meaning.leaves {
            history.take_leaf(position, &leaf, self.node);
        }
        let events = history.disks.entry(self.node).or_default();
        events.extend(meaning.applied.map(DiskEvent::Applied));
        events.extend(meaning.vote.map(DiskEvent::Voted));
        if let Some(VoteSeen {
            term,
            candidate: Some(leader),
            committed: true,
        }) = meaning.vote
        {
            History::show(&mut history.leaders, term, leader, self.node);
        }
    }

    /// After a true sync: what was applied before it is safe.
    fn record_sync(&self, applied: u64) {
        let mut history = self.history();
        let events = history.disks.entry(self.node).or_default();
        events.push(DiskEvent::AppliedSynced(applied));
    }

    fn is_lied_about(&self, meaning: &Meaning) -> bool {
        match self.lie {
            Lie::None | Lie::LeavesDropped => false,
            Lie::AppendUnsynced | Lie::AppendAnsweredEarly => meaning.appends,
            Lie::VoteUnsynced => meaning.vote.is_some(),
        }
    }

    fn without_some_leaves(&self, batch: WriteBatch) -> WriteBatch {
        if self.lie != Lie::LeavesDropped || self.node != NODES {
            return batch;
        }
        let mut left = WriteBatch::new();
        for op in batch.into_ops() {
            match op {
                Op::Put {
                    family: Family::Leaves,
                    key,
                    ..
                } if index_of(&key).is_some_and(|at| at % 16 == 9) => {}
                Op::Put { family, key, value } => left.put(family, key, value),
                Op::Delete { family, key } => left.delete(family, key),
                Op::DeleteRange { family, from, to } => left.delete_range(family, from, to),
            }
        }
        left
    }

    fn mirror(&self) -> MutexGuard<'_, LogMirror> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.stage.history()
    }
}

impl LogMirror {
    fn append(&mut self, key: &[u8], value: &[u8]) {
        let entry = index_of(key).zip(unframed("entry", value).ok());
        if let Some((index, entry)) = entry
            && let Some(term) = entry.first_chunk::<8>()
        {
            self.entries
                .insert(index, (u64::from_be_bytes(*term), Digest::of(entry)));
        }
    }

    /// Takes in a batch's changes of the log.
    fn change(&mut self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Put {
                    family: Family::Log,
                    key,
                    value,
                } => self.append(key, value),
                Op::DeleteRange {
                    family: Family::Log,
                    from,
                    to,
                } => {
                    let last = index_of(to).unwrap_or(u64::MAX);
                    let first = index_of(from).unwrap_or_default();
                    self.entries
                        .retain(|index, _| *index < first || *index >= last);
                }
                _ => {}
            }
        }
    }
}

impl Meaning {
    fn of(batch: &WriteBatch) -> Meaning {
        let mut meaning = Meaning::default();
        let purges = batch
            .ops()
            .iter()
            .any(|op| matches!(op, Op::Put { key, .. } if key == PURGED));
        for op in batch.ops() {
            match op {
                Op::Put {
                    family: Family::Meta,
                    key,
                    value,
                } if key == VOTE => {
                    meaning.vote = vote_in(value);
                }
                Op::Put {
                    family: Family::Meta,
                    key,
                    value,
                } if key == APPLIED => {
                    meaning.applied = applied_in(value);
                }
                Op::Put {
                    family: Family::Leaves,
                    key,
                    value,
                } => {
                    meaning
                        .leaves
                        .extend(index_of(key).map(|at| (at, value.clone())));
                }
                Op::Put {
                    family: Family::Log,
                    ..
                } => meaning.appends = true,
                Op::DeleteRange {
                    family: Family::Log,
                    ..
                } if !purges => {
                    meaning.crash = Some(CrashAt::Truncate);
                }
                _ => {}
            }
        }
        meaning
    }
}

impl Engine for RecordedEngine {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, StorageFault> {
        self.inner.get(family, key)
    }

    fn scan(
        &self,
        family: Family,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StorageFault> {
        self.inner.scan(family, from, to, limit)
    }

    fn last(&self, family: Family) -> Result<Option<Row>, StorageFault> {
        self.inner.last(family)
    }

    fn write(
        &self,
        batch: WriteBatch,
        durability: Durability,
    ) -> impl Future<Output = Result<(), StorageFault>> + Send {
        let meaning = Meaning::of(&batch);
        self.mirror().change(batch.ops());
        let lied = durability == Durability::Synced && self.is_lied_about(&meaning);
        let given = if lied {
            Durability::Buffered
        } else {
            durability
        };
        let safe = self.mirror().applied;
        // The batch takes its place in the order of writes here, not when the future is polled.
        let written = self.inner.write(self.without_some_leaves(batch), given);
        let this = self.clone();
        async move {
            written.await?;
            if given == Durability::Synced {
                this.record_sync(safe);
            } else if lied && this.lie == Lie::AppendAnsweredEarly {
                world::spawn(sync_late(this.inner.clone()));
            }
            if this.probe.springs(meaning.crash) {
                return std::future::pending().await;
            }
            this.record(meaning);
            Ok(())
        }
    }

    fn condemn(&self, fault: StorageFault) -> StorageFault {
        self.inner.condemn(fault)
    }

    fn failed(&self) -> impl Future<Output = StorageFault> + Send + 'static {
        self.inner.failed()
    }

    fn show_state(&self, index: u64, state: &State) {
        let digest = self.stage.show_state(self.node, index, &state.authority);
        if index > self.found {
            let (size, short) = (state.log.frontier.size(), &digest.to_string()[..12]);
            self.stage.note(
                Who::Node(self.node),
                format_args!("applied {index} leaves {size} state {short}"),
            );
        }
    }
}

/// An empty synced write makes everything before it durable.
async fn sync_late(engine: SimEngine) {
    world::sleep(EARLY).await;
    // A fault ends the process by the engine's own fuse.
    let _ = engine.write(WriteBatch::new(), Durability::Synced).await;
}

fn index_of(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_be_bytes)
}

/// A vote: term u64, 0 or 1 with a candidate u64, committed u8.
fn vote_in(value: &[u8]) -> Option<VoteSeen> {
    let (term, rest) = unframed("vote", value).ok()?.split_first_chunk::<8>()?;
    let (candidate, committed) = match rest {
        [0, committed] => (None, *committed),
        [1, candidate @ .., committed] => (index_of(candidate), *committed),
        _ => return None,
    };
    Some(VoteSeen {
        term: u64::from_be_bytes(*term),
        candidate,
        committed: committed == 1,
    })
}

/// The record of the last applied entry begins with its term and index.
fn applied_in(value: &[u8]) -> Option<u64> {
    let (_, rest) = unframed("applied", value).ok()?.split_first_chunk::<8>()?;
    rest.first_chunk::<8>()
        .map(|index| u64::from_be_bytes(*index))
}

#[cfg(test)]
mod tests {
    use redlatch_raft::engine::framed;

    use super::*;

    #[test]
    fn votes_and_applied_places_are_read_as_they_are_written() {
        let vote = [&7_u64.to_be_bytes()[..], &[1], &3_u64.to_be_bytes(), &[1]].concat();
        let seen = VoteSeen {
            term: 7,
            candidate: Some(3),
            committed: true,
        };
        assert_eq!(vote_in(&framed(&vote)), Some(seen));
        let nobody = [&7_u64.to_be_bytes()[..], &[0, 0]].concat();
        let seen = VoteSeen {
            term: 7,
            candidate: None,
            committed: false,
        };
        assert_eq!(vote_in(&framed(&nobody)), Some(seen));
        let applied = [&2_u64.to_be_bytes()[..], &9_u64.to_be_bytes(), &[0, 1, 2]].concat();
        assert_eq!(applied_in(&framed(&applied)), Some(9));
        assert_eq!((vote_in(b"damaged"), applied_in(b"damaged")), (None, None));
    }

    #[test]
    fn the_mirror_follows_appends_truncations_and_purges() {
        let entry = |term: u64| framed(&[&term.to_be_bytes()[..], b"rest"].concat());
        let mut batch = WriteBatch::new();
        for (index, term) in [(1_u64, 1), (2, 1), (3, 2), (4, 2)] {
            batch.put(Family::Log, index.to_be_bytes(), entry(term));
        }
        batch.delete_range(Family::Log, 4_u64.to_be_bytes(), LOG_END);
        batch.delete_range(Family::Log, 0_u64.to_be_bytes(), 2_u64.to_be_bytes());
        let mut mirror = LogMirror::default();
        mirror.change(batch.ops());
        let left: Vec<(u64, u64)> = mirror
            .entries
            .iter()
            .map(|(index, (term, _))| (*index, *term))
            .collect();
        assert_eq!(left, [(2, 1), (3, 2)]);
        assert_eq!(Meaning::of(&batch).crash, Some(CrashAt::Truncate));
        batch.put(Family::Meta, PURGED, "point");
        assert_eq!(Meaning::of(&batch).crash, None);
    }
}
