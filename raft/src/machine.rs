//! The state machine that openraft drives: decodes a batch, applies it to the journal's state, and
//! writes what follows in one engine batch per entry (D8, fault 6).
//!
//! ```text
//!   entry, admitted ──▶ State ──▶ one buffered write: leaves, nodes, index, last applied, signed head
//!                                    └──▶ then: place, heads to the cosigner, outcomes to openraft
//! ```
//!
//! After a restart the state is the stored snapshot plus the log entries up to the last applied
//! one, so what is applied never goes back; the leaves that come out must be the stored ones. A
//! snapshot is kept only when a majority has cosigned the head of its StateRoot leaf. This file
//! judges no command and waits for no peer.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use openraft::storage::RaftStateMachine;
use openraft::{
    AnyError, CommittedLeaderId, EntryPayload, ErrorSubject, ErrorVerb, OptionalSend,
    RaftLogReader, RaftSnapshotBuilder, StorageIOError,
};
use redlatch_journal::{Applied, EntryId, Outcome, State};
use redlatch_types::records::RosterV1;
use tokio::sync::watch;

use crate::admission::{Admissions, Admitted, admitted};
use crate::archive::{self, Archive};
use crate::config::{
    Entry, EntryOutcome, LogId, Snapshot, SnapshotMeta, StorageError, StoredMembership, TypeConfig,
};
use crate::cosign::{CosignHold, Cosigner, HeadKind, HeadPlace, LAST_SIGNED};
use crate::engine::{Durability, Engine, Family, StorageFault, WriteBatch};
use crate::log_store::LogStore;
use crate::planted::Bug;
use crate::record::{APPLIED, AppliedRecord, GAP, Gap};
use crate::snapshot::{self, BadSnapshot, Proven};

/// Entries read from the log at once while the state is rebuilt.
const REBUILD_STEP: u64 = 64;

/// What an applied entry led to.
#[derive(Clone, Debug, Default)]
pub struct AppliedEntry {
    /// Where it stands.
    pub entry: EntryId,
    /// One per command, same order.
    pub outcomes: Vec<Outcome>,
    /// Leaf positions of each command's events, same order.
    pub positions: Vec<Range<u64>>,
    /// Leaves after the entry.
    pub size: u64,
}

/// What this node has applied and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The last entry, blank and membership entries included; the leader is known of batches only.
    pub entry: Option<EntryId>,
    /// Leaves of the journal.
    pub size: u64,
    /// State time, milliseconds; 0 before genesis.
    pub state_time_ms: u64,
}

impl Place {
    /// The entry as openraft orders it: by term, then index.
    pub(crate) fn log_id(&self) -> Option<LogId> {
        self.entry
            .map(|entry| LogId::new(CommittedLeaderId::new(entry.term, 0), entry.index))
    }
}

/// A state that may become a snapshot once its head has a majority.
#[derive(Debug)]
struct Candidate {
    size: u64,
    meta: SnapshotMeta,
    state: Vec<u8>,
    leaf: Vec<u8>,
}

#[derive(Debug)]
struct Cells {
    membership: StoredMembership,
    candidate: Option<Candidate>,
    /// As on disk, or about to be: changed only together with the call that writes it.
    gap: Option<Gap>,
}

/// The state machine. Clones share one state.
#[derive(Debug)]
pub struct Machine<E> {
    inner: Arc<Inner<E>>,
}

#[derive(Debug)]
struct Inner<E> {
    engine: E,
    admissions: Arc<Admissions>,
    genesis_roster: RosterV1,
    state: RwLock<State>,
    cells: Mutex<Cells>,
    place: watch::Sender<Place>,
    cosigner: Arc<Cosigner<E>>,
}

impl<E> Clone for Machine<E> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<E: Engine> Machine<E> {
    /// Rebuilds the state: the stored snapshot, then the log up to the last applied entry.
    ///
    /// # Errors
    /// Any fault of the store; `Corrupt` if snapshot, log and leaves do not fit together.
    pub async fn open(
        log_store: &LogStore<E>,
        genesis_roster: RosterV1,
        cosigner: Arc<Cosigner<E>>,
    ) -> Result<Self, StorageFault> {
        let engine = log_store.engine().clone();
        let mut rebuilt = Rebuilt::start(&engine, &cosigner)?;
        if !Bug::StartFromSnapshot.planted() {
            rebuilt.catch_up(&engine, log_store).await?;
        }
        if Bug::OutcomesForgotten.planted() {
            rebuilt.state.authority.idempotency.clear();
        }
        let Rebuilt {
            state,
            last,
            membership,
            head,
            candidate,
        } = rebuilt;
        let place = place_of(&state, last);
        let gap = Gap::stored(&engine)?;
        if let Some(candidate) = &candidate {
            cosigner.want(candidate.size);
        }
        let machine = Self {
            inner: Arc::new(Inner {
                engine,
                admissions: log_store.admissions(),
                genesis_roster,
                state: RwLock::new(state),
                cells: Mutex::new(Cells {
                    membership,
                    candidate,
                    gap,
                }),
                place: watch::Sender::new(place),
                cosigner,
            }),
        };
        machine.sign_again(place.size, head).await?;
        Ok(machine)
    }

    /// Signs the last head once more, so that peers that have not seen it get it. It is the same
    /// signature: the time in it is state time.
    async fn sign_again(&self, size: u64, head: Option<HeadPlace>) -> Result<(), StorageFault> {
        let signed = head.and_then(|head| self.inner.cosigner.consider(head));
        if let Some((_, record)) = &signed {
            let mut batch = WriteBatch::new();
            batch.put(Family::Meta, LAST_SIGNED, record.clone());
            self.inner.engine.write(batch, Durability::Buffered).await?;
        }
        self.inner
            .cosigner
            .announce(size, signed.map(|(head, _)| head));
        Ok(())
    }

    /// What is applied and written.
    pub fn place(&self) -> Place {
        *self.inner.place.borrow()
    }

    /// Follows what is applied and written.
    pub fn watch_place(&self) -> watch::Receiver<Place> {
        self.inner.place.subscribe()
    }

    /// Looks at the state under a short lock.
    pub fn read<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        // `apply` is total; a panic elsewhere while reading leaves the state whole.
        look(
            &self
                .inner
                .state
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// The roster in force: the applied one, or the genesis file's before genesis is applied.
    pub fn roster(&self) -> RosterV1 {
        self.read(|state| {
            let governance = state.authority.governance.as_ref();
            governance.map_or_else(|| self.inner.genesis_roster.clone(), |g| g.roster.clone())
        })
    }

    /// Proves a received snapshot against the roster in force.
    ///
    /// # Errors
    /// [`BadSnapshot`].
    pub(crate) fn prove(&self, meta: &SnapshotMeta, bytes: &[u8]) -> Result<Proven, BadSnapshot> {
        snapshot::verify(meta, bytes, &self.inner.cosigner.keys())
    }

    /// Keeps the waiting candidate as the snapshot if its head has a majority now. Says whether
    /// there is a new snapshot.
    ///
    /// # Errors
    /// Any fault of the store.
    pub(crate) async fn keep_candidate(&self) -> Result<bool, StorageFault> {
        let waiting = self
            .cells()
            .candidate
            .as_ref()
            .map(|candidate| candidate.size);
        let Some(head) = waiting.and_then(|size| self.inner.cosigner.cosigned_at(size)) else {
            return Ok(false);
        };
        let candidate = self
            .cells()
            .candidate
            .take_if(|candidate| candidate.size == head.size);
        let Some(Candidate {
            size,
            meta,
            state,
            leaf,
        }) = candidate
        else {
            return Ok(false);
        };
        let archive = Archive::new(self.inner.engine.clone());
        let Some(hashes) = archive.inclusion(size, size - 1)? else {
            return Ok(false);
        };
        let bytes = snapshot::encode(state, leaf, hashes, &head);
        let mut batch = WriteBatch::new();
        snapshot::put(&mut batch, &meta, &bytes);
        self.inner.engine.write(batch, Durability::Synced).await?;
        Ok(true)
    }

    /// Tells the cosigner what to hold back. Lifting the hold signs the latest withheld head.
    ///
    /// # Errors
    /// Any fault of the store.
    pub(crate) async fn hold(&self, hold: CosignHold) -> Result<(), StorageFault> {
        let Some((head, record)) = self.inner.cosigner.hold(hold) else {
            return Ok(());
        };
        let mut batch = WriteBatch::new();
        batch.put(Family::Meta, LAST_SIGNED, record);
        self.inner.engine.write(batch, Durability::Buffered).await?;
        self.inner.cosigner.announce(self.place().size, Some(head));
        Ok(())
    }

    /// Leaves below an installed snapshot that this node does not hold yet.
    pub(crate) fn gap(&self) -> Option<Gap> {
        self.cells().gap
    }

    /// The leaves of `gap` are written and proven. Nothing happens if a newer snapshot has moved
    /// the gap meanwhile.
    ///
    /// # Errors
    /// Any fault of the store.
    pub(crate) async fn close_gap(&self, gap: Gap) -> Result<(), StorageFault> {
        let written = {
            let mut cells = self.cells();
            if cells.gap != Some(gap) {
                return Ok(());
            }
            cells.gap = None;
            let mut batch = WriteBatch::new();
            batch.delete(Family::Meta, GAP);
            self.inner.engine.write(batch, Durability::Synced)
        };
        written.await
    }

    async fn apply_entry(&self, entry: Entry) -> Result<EntryOutcome, StorageFault> {
        let log_id = entry.log_id;
        match entry.payload {
            EntryPayload::Blank => self.move_to(log_id, None).await,
            EntryPayload::Membership(membership) => {
                let stored = StoredMembership::new(Some(log_id), membership);
                self.move_to(log_id, Some(stored)).await
            }
            EntryPayload::Normal(batch) => {
                let admitted = self.inner.admissions.take(log_id, &batch).await;
                match admitted {
                    None => {
                        self.move_to(log_id, None).await?;
                        Ok(EntryOutcome::Void)
                    }
                    Some(Admitted { entry, commands }) => {
                        let applied = self.state().apply_admitted(entry, &commands);
                        self.store(entry, log_id, applied).await
                    }
                }
            }
        }
    }

    /// An entry without commands.
    async fn move_to(
        &self,
        log_id: LogId,
        membership: Option<StoredMembership>,
    ) -> Result<EntryOutcome, StorageFault> {
        if let Some(membership) = membership {
            self.cells().membership = membership;
        }
        let mut batch = WriteBatch::new();
        self.put_applied(&mut batch, log_id);
        self.inner.engine.write(batch, Durability::Buffered).await?;
        self.arrive(self.read(|state| place_of(state, Some(log_id))));
        Ok(EntryOutcome::Empty)
    }

    /// What is applied is written: shows it.
    fn arrive(&self, place: Place) {
        #[cfg(madsim)]
        if let Some(entry) = place.entry {
            self.read(|state| self.inner.engine.show_state(entry.index, state));
        }
        self.inner.place.send_replace(place);
    }

    /// Writes what a batch led to, then shows it.
    async fn store(
        &self,
        entry: EntryId,
        log_id: LogId,
        applied: Applied,
    ) -> Result<EntryOutcome, StorageFault> {
        let signed = head_of(&applied).and_then(|head| self.inner.cosigner.consider(head));
        let candidate = self.candidate(log_id, &applied);
        let Applied {
            outcomes,
            first_leaf,
            leaves,
            nodes,
            index,
            ..
        } = applied;
        let size = first_leaf + leaves.len() as u64;
        let mut batch = WriteBatch::new();
        let index = index
            .into_iter()
            .map(|(key, position)| (key.to_bytes(), position));
        archive::put(&mut batch, first_leaf, leaves, &nodes, index);
        self.put_applied(&mut batch, log_id);
        if let Some((_, record)) = &signed {
            batch.put(Family::Meta, LAST_SIGNED, record.clone());
        }
        self.inner.engine.write(batch, Durability::Buffered).await?;

        if let Some(candidate) = candidate {
            self.inner.cosigner.want(candidate.size);
            self.cells().candidate = Some(candidate);
        }
        let place = self.read(|state| Place {
            entry: Some(entry),
            ..place_of(state, Some(log_id))
        });
        self.arrive(place);
        self.inner
            .cosigner
            .announce(size, signed.map(|(head, _)| head));
        let positions = positions(first_leaf, &outcomes);
        Ok(EntryOutcome::Applied(Arc::new(AppliedEntry {
            entry,
            outcomes,
            positions,
            size,
        })))
    }

    fn candidate(&self, log_id: LogId, applied: &Applied) -> Option<Candidate> {
        let leaf = applied
            .leaves
            .last()
            .filter(|_| applied.state_root)?
            .clone();
        let meta = SnapshotMeta {
            last_log_id: Some(log_id),
            last_membership: self.cells().membership.clone(),
            snapshot_id: snapshot::id_of(Some(&log_id)),
        };
        let (size, state) = self.read(|state| (state.log.frontier.size(), state.to_bytes()));
        Some(Candidate {
            size,
            meta,
            state,
            leaf,
        })
    }

    fn put_applied(&self, batch: &mut WriteBatch, log_id: LogId) {
        let membership = self.cells().membership.clone();
        batch.put(
            Family::Meta,
            APPLIED,
            AppliedRecord { log_id, membership }.to_bytes(),
        );
    }

    async fn install(&self, meta: &SnapshotMeta, bytes: Vec<u8>) -> Result<(), InstallError> {
        if meta.last_log_id <= self.place().log_id() {
            // A delayed, older snapshot: what is applied never goes back (fault 3).
            return Ok(());
        }
        let Proven { state, head } = self.prove(meta, &bytes)?;
        let before = self.place().size;
        let mut batch = WriteBatch::new();
        snapshot::put(&mut batch, meta, &bytes);
        if let Some(log_id) = meta.last_log_id {
            let membership = meta.last_membership.clone();
            batch.put(
                Family::Meta,
                APPLIED,
                AppliedRecord { log_id, membership }.to_bytes(),
            );
        }
        let written = {
            let mut cells = self.cells();
            let from = cells.gap.map_or(before, |gap| gap.from.min(before));
            let gap = Gap {
                from,
                to: head.size,
            };
            batch.put(Family::Meta, GAP, gap.to_bytes());
            cells.gap = Some(gap);
            cells.membership = meta.last_membership.clone();
            cells.candidate = None;
            // A write takes its place when it is called: no other change of the gap slips between.
            self.inner.engine.write(batch, Durability::Synced)
        };
        written.await?;

        let place = place_of(&state, meta.last_log_id);
        *self.state() = state;
        self.arrive(place);
        self.inner.cosigner.start_from(head);
        self.inner.cosigner.announce(place.size, None);
        Ok(())
    }

    fn state(&self) -> std::sync::RwLockWriteGuard<'_, State> {
        self.inner
            .state
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn cells(&self) -> MutexGuard<'_, Cells> {
        self.inner
            .cells
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn place_of(state: &State, last: Option<LogId>) -> Place {
    Place {
        entry: last.map(|id| EntryId {
            term: id.leader_id.term,
            leader: if state.log.last.index == id.index {
                state.log.last.leader
            } else {
                0
            },
            index: id.index,
        }),
        size: state.log.frontier.size(),
        state_time_ms: state.authority.clock.state_time,
    }
}

fn head_of(applied: &Applied) -> Option<HeadPlace> {
    let head = applied.head?;
    let has = |what: fn(&redlatch_types::event::Event) -> bool| applied.events.iter().any(what);
    let kind = match (
        has(|event| event.is_stop()),
        has(|event| event.is_positive_marker()),
    ) {
        (true, _) => HeadKind::Stop,
        (false, true) => HeadKind::Positive,
        (false, false) => HeadKind::Neutral,
    };
    Some(HeadPlace {
        size: head.size,
        root: head.root,
        state_time_ms: head.state_time_ms,
        kind,
    })
}

fn positions(first: u64, outcomes: &[Outcome]) -> Vec<Range<u64>> {
    let mut next = first;
    let mut of = |outcome: &Outcome| {
        let from = next;
        next += outcome.events.len() as u64;
        from..next
    };
    outcomes.iter().map(&mut of).collect()
}

/// Why a snapshot was not installed.
#[derive(Debug, thiserror::Error)]
enum InstallError {
    #[error(transparent)]
    Bad(#[from] BadSnapshot),
    #[error(transparent)]
    Storage(#[from] StorageFault),
}

/// The state while it is rebuilt.
struct Rebuilt {
    state: State,
    last: Option<LogId>,
    membership: StoredMembership,
    head: Option<HeadPlace>,
    candidate: Option<Candidate>,
}

impl Rebuilt {
    fn start<E: Engine>(engine: &E, cosigner: &Cosigner<E>) -> Result<Self, StorageFault> {
        let Some((meta, bytes)) = snapshot::load(engine)? else {
            let membership = StoredMembership::default();
            let state = State::new();
            return Ok(Self {
                state,
                last: None,
                membership,
                head: None,
                candidate: None,
            });
        };
        let proven = snapshot::verify(&meta, &bytes, &cosigner.keys())
            .map_err(|error| corrupt(engine, "snapshot", &error.to_string()))?;
        cosigner.start_from(proven.head.clone());
        let head = HeadPlace {
            size: proven.head.size,
            root: proven.head.root,
            state_time_ms: proven.head.state_time_ms,
            kind: HeadKind::Neutral,
        };
        Ok(Self {
            state: proven.state,
            last: meta.last_log_id,
            membership: meta.last_membership,
            head: Some(head),
            candidate: None,
        })
    }

    /// Applies the log up to the last applied entry once more. Nothing is written: it is there.
    async fn catch_up<E: Engine>(
        &mut self,
        engine: &E,
        log_store: &LogStore<E>,
    ) -> Result<(), StorageFault> {
        let Some(applied) = AppliedRecord::stored(engine)? else {
            return Ok(());
        };
        let archive = Archive::new(engine.clone());
        let mut reader = log_store.clone();
        let end = applied.log_id.index.saturating_add(1);
        let mut next = self.last.map_or(0, |last| last.index + 1);
        while next < end {
            let step = next..end.min(next.saturating_add(REBUILD_STEP));
            let entries = reader
                .try_get_log_entries(step)
                .await
                .map_err(|error| corrupt(engine, "log", &error.to_string()))?;
            if entries.is_empty() {
                return Err(corrupt(engine, "log", "an applied entry is missing"));
            }
            for entry in entries {
                if entry.log_id.index != next {
                    return Err(corrupt(engine, "log", "an applied entry is missing"));
                }
                self.again(&entry, &archive, engine)?;
                #[cfg(madsim)]
                engine.show_state(next, &self.state);
                next += 1;
            }
        }
        if self.last != Some(applied.log_id) {
            return Err(corrupt(
                engine,
                "last applied",
                "it is not the entry in the log",
            ));
        }
        self.membership = applied.membership;
        Ok(())
    }

    fn again<E: Engine>(
        &mut self,
        entry: &Entry,
        archive: &Archive<E>,
        engine: &E,
    ) -> Result<(), StorageFault> {
        self.last = Some(entry.log_id);
        match &entry.payload {
            EntryPayload::Blank => {}
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(entry.log_id), membership.clone());
            }
            EntryPayload::Normal(batch) => {
                let Some(admitted) = admitted(batch, &entry.log_id) else {
                    return Ok(());
                };
                let applied = self
                    .state
                    .apply_admitted(admitted.entry, &admitted.commands);
                for (position, leaf) in (applied.first_leaf..).zip(&applied.leaves) {
                    if archive.leaf(position)?.as_ref() != Some(leaf) {
                        return Err(corrupt(engine, "journal", "a leaf is not what was applied"));
                    }
                }
                self.head = head_of(&applied).or(self.head);
                self.candidate = self
                    .candidate_of(entry.log_id, &applied)
                    .or(self.candidate.take());
            }
        }
        Ok(())
    }

    fn candidate_of(&self, log_id: LogId, applied: &Applied) -> Option<Candidate> {
        let leaf = applied
            .leaves
            .last()
            .filter(|_| applied.state_root)?
            .clone();
        let meta = SnapshotMeta {
            last_log_id: Some(log_id),
            last_membership: self.membership.clone(),
            snapshot_id: snapshot::id_of(Some(&log_id)),
        };
        let size = self.state.log.frontier.size();
        Some(Candidate {
            size,
            meta,
            state: self.state.to_bytes(),
            leaf,
        })
    }
}

fn corrupt<E: Engine>(engine: &E, what: &str, detail: &str) -> StorageFault {
    engine.condemn(StorageFault::Corrupt {
        what: what.into(),
        detail: detail.into(),
    })
}

fn failed(verb: ErrorVerb, error: &(impl std::error::Error + 'static)) -> StorageError {
    StorageIOError::new(ErrorSubject::StateMachine, verb, AnyError::new(error)).into()
}

impl<E: Engine> RaftStateMachine<TypeConfig> for Machine<E> {
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.place().log_id(), self.cells().membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<EntryOutcome>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut outcomes = Vec::new();
        for entry in entries {
            let outcome = self.apply_entry(entry).await;
            outcomes.push(outcome.map_err(|fault| failed(ErrorVerb::Write, &fault))?);
        }
        Ok(outcomes)
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Vec<u8>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Vec<u8>>,
    ) -> Result<(), StorageError> {
        self.install(meta, *snapshot)
            .await
            .map_err(|error| failed(ErrorVerb::Write, &error))
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, StorageError> {
        let loaded = snapshot::load(&self.inner.engine);
        let loaded = loaded.map_err(|fault| failed(ErrorVerb::Read, &fault))?;
        Ok(loaded.map(|(meta, bytes)| Snapshot {
            meta,
            snapshot: Box::new(bytes),
        }))
    }
}

/// openraft asks for a snapshot only after [`Machine::keep_candidate`] has stored one.
impl<E: Engine> RaftSnapshotBuilder<TypeConfig> for Machine<E> {
    async fn build_snapshot(&mut self) -> Result<Snapshot, StorageError> {
        self.get_current_snapshot().await?.ok_or_else(|| {
            failed(
                ErrorVerb::Read,
                &std::io::Error::other("there is no proven snapshot"),
            )
        })
    }
}
