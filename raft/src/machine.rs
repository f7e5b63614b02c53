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
    RaftSnapshotBuilder, StorageIOError,
};
use redlatch_journal::{Applied, EntryId, Outcome, State};
use redlatch_types::NodeId;
use redlatch_types::chain::Trust;
use redlatch_types::in_force::RootInForce;
use redlatch_types::policy::Demand;
use redlatch_types::receipt::Receipt;
use redlatch_types::records::RosterV1;
use tokio::sync::watch;

use crate::admission::{Admissions, Admitted};
use crate::archive::{self, Archive};
use crate::chain;
use crate::config::{
    Entry, EntryOutcome, LogId, Snapshot, SnapshotMeta, StorageError, StoredMembership, TypeConfig,
};
use crate::cosign::{CosignHold, Cosigner, HeadKeys, HeadKind, HeadPlace, LAST_SIGNED, RosterStep};
use crate::engine::{Durability, Engine, Family, StorageFault, WriteBatch};
use crate::log_store::LogStore;
use crate::membership::Seats;
use crate::planted::Bug;
use crate::record::{APPLIED, AppliedRecord, GAP, Gap};
use crate::rejoin::Rejoined;
use crate::snapshot::{self, BadSnapshot, Proven};

mod rebuilt;

use rebuilt::Rebuilt;

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
    own: NodeId,
    engine: E,
    admissions: Arc<Admissions>,
    state: RwLock<State>,
    cells: Mutex<Cells>,
    place: watch::Sender<Place>,
    /// What counts before genesis is applied.
    genesis: Trust,
    /// The roster in force: the applied one, or the genesis file's before genesis is applied.
    roster: watch::Sender<Arc<RosterV1>>,
    cosigner: Arc<Cosigner<E>>,
    rejoined: Arc<Rejoined<E>>,
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
    pub(crate) async fn open(
        log_store: &LogStore<E>,
        (own, trust): (NodeId, &Trust),
        cosigner: Arc<Cosigner<E>>,
        rejoined: Arc<Rejoined<E>>,
    ) -> Result<Self, StorageFault> {
        let engine = log_store.engine().clone();
        let mut rebuilt = Rebuilt::start(&engine, &cosigner, trust)?;
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
        let roster = applied_roster(&state).unwrap_or_else(|| trust.roster().clone());
        follow(&engine, &cosigner, &roster, None)?;
        for step in chain::pending(&engine, cosigner.origin())? {
            cosigner.expect_step(step);
        }
        if let Some(candidate) = &candidate {
            cosigner.want(candidate.size);
        }
        let machine = Self {
            inner: Arc::new(Inner {
                own,
                engine,
                admissions: log_store.admissions(),
                state: RwLock::new(state),
                cells: Mutex::new(Cells {
                    membership,
                    candidate,
                    gap,
                }),
                place: watch::Sender::new(place),
                genesis: trust.clone(),
                roster: watch::Sender::new(Arc::new(roster)),
                cosigner,
                rejoined,
            }),
        };
        let head = head.filter(|_| machine.counts());
        machine.sign_again(place.size, head).await?;
        Ok(machine)
    }

    /// Signs the last head once more, so that peers that have not seen it get it. It is the same
    /// signature: the time in it is state time.
    async fn sign_again(&self, size: u64, head: Option<HeadPlace>) -> Result<(), StorageFault> {
        let signed = head.and_then(|head| self.inner.cosigner.consider(head, true));
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
    pub fn roster(&self) -> Arc<RosterV1> {
        Arc::clone(&self.inner.roster.borrow())
    }

    /// Follows the roster in force.
    pub(crate) fn watch_roster(&self) -> watch::Receiver<Arc<RosterV1>> {
        self.inner.roster.subscribe()
    }

    /// Whether this node counts: it is a voter of the roster in force, and the roster speaks of
    /// the disk that this node has.
    pub fn counts(&self) -> bool {
        self.speaks() && is_voter(&self.roster(), self.inner.own)
    }

    /// Whether the roster in force speaks of the disk that this node has.
    pub(crate) fn speaks(&self) -> bool {
        let applied = self.place().entry.map(|entry| entry.index);
        self.inner.rejoined.speaks(applied)
    }

    /// Proves a received snapshot: by the roster in force and the roster steps that it brings.
    ///
    /// # Errors
    /// [`BadSnapshot`].
    pub(crate) fn prove(&self, meta: &SnapshotMeta, bytes: &[u8]) -> Result<Proven, BadSnapshot> {
        let trust = self.trust().ok_or(BadSnapshot::OtherJournal)?;
        snapshot::verify(meta, bytes, &trust)
    }

    /// Trust in the roster in force; `None` if no policy can be made of it.
    pub(crate) fn trust(&self) -> Option<Trust> {
        let applied = self.read(|state| {
            let governance = state.authority.governance.as_ref()?;
            let root = RootInForce {
                scope: governance.scope(),
                key: governance.kernel.pinned_external_root_key,
                kernel_digest: governance.kernel.digest(),
                acts: governance.root_acts,
                roster_epoch: governance.roster.roster_epoch,
            };
            Some((governance.roster.clone(), root))
        });
        match applied {
            None => Some(self.inner.genesis.clone()),
            Some((roster, root)) => {
                Trust::of_roster(self.inner.cosigner.origin(), roster, root).ok()
            }
        }
    }

    /// Keeps the waiting candidate as the snapshot if its head has a majority now. Says whether
    /// there is a new snapshot.
    ///
    /// # Errors
    /// Any fault of the store.
    pub(crate) async fn keep_candidate(&self) -> Result<bool, StorageFault> {
        if self.inner.cosigner.waits_for_steps() {
            // Without every link of the chain it could not be proven to a newcomer.
            return Ok(false);
        }
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
        let links = chain::links(&self.inner.engine)?;
        let bytes = snapshot::encode(state, leaf, hashes, &links, &head);
        let mut batch = WriteBatch::new();
        snapshot::put(&mut batch, &meta, &bytes);
        self.inner.engine.write(batch, Durability::Synced).await?;
        Ok(true)
    }

    /// Keeps the roster steps that the roster before them has proven by now.
    ///
    /// # Errors
    /// Any fault of the store.
    pub(crate) async fn keep_links(&self) -> Result<(), StorageFault> {
        let proven = self.inner.cosigner.proven_steps()?;
        if proven.is_empty() {
            return Ok(());
        }
        let mut batch = WriteBatch::new();
        for (step, receipt) in &proven {
            chain::put_link(&mut batch, step.epoch, receipt);
        }
        self.inner.engine.write(batch, Durability::Synced).await
    }

    /// Takes in links of a peer, as far as they prove steps that are still pending here.
    ///
    /// # Errors
    /// Any fault of the store.
    pub(crate) async fn take_links(&self, links: Vec<Receipt>) -> Result<(), StorageFault> {
        let mut trust = self.inner.genesis.clone();
        for link in chain::links(&self.inner.engine)? {
            match trust.follow(&link, Demand::Nodes) {
                Ok(next) => trust = next,
                Err(error) => {
                    return Err(corrupt(
                        &self.inner.engine,
                        "roster link",
                        &error.to_string(),
                    ));
                }
            }
        }
        // What is ahead of what is applied here is brought by its entries.
        let applied = self.roster().roster_epoch;
        let (trust, links) = chain::provable(trust, applied, links);
        let mut batch = WriteBatch::new();
        for (epoch, link) in &links {
            chain::put_link(&mut batch, *epoch, link);
        }
        self.inner.engine.write(batch, Durability::Synced).await?;
        self.inner
            .cosigner
            .forget_steps(trust.roster().roster_epoch);
        Ok(())
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
                        let before = self.roster();
                        let applied = self.state().apply_admitted(entry, &commands);
                        self.store(entry, log_id, applied, &before).await
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
        before: &RosterV1,
    ) -> Result<EntryOutcome, StorageFault> {
        let followed = self.read(|state| {
            let governance = state.authority.governance.as_ref()?;
            let roster = &governance.roster;
            (roster.roster_epoch != before.roster_epoch).then(|| roster.clone())
        });
        let after = followed.as_ref().unwrap_or(before);
        // Whoever leaves signs the head of its own removal, and nothing after it.
        let voter = is_voter(before, self.inner.own) || is_voter(after, self.inner.own);
        let counts = voter && self.inner.rejoined.speaks(Some(log_id.index));
        let cosigner = &self.inner.cosigner;
        let signed = head_of(&applied).and_then(|head| cosigner.consider(head, counts));
        let candidate = self.candidate(log_id, &applied, after);
        let steps = chain::steps(&applied, before, cosigner.origin())
            .map_err(|error| corrupt(&self.inner.engine, "roster", &error.to_string()))?;
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
        for (step, roster) in &steps {
            chain::put_pending(&mut batch, step, roster);
        }
        self.inner.engine.write(batch, Durability::Buffered).await?;

        if let Some(roster) = followed {
            follow(&self.inner.engine, cosigner, &roster, steps)?;
            self.inner.roster.send_replace(Arc::new(roster));
        }
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

    /// While the membership has not followed the roster, there is none: nobody would believe it.
    fn candidate(&self, log_id: LogId, applied: &Applied, roster: &RosterV1) -> Option<Candidate> {
        let leaf = applied
            .leaves
            .last()
            .filter(|_| applied.state_root)?
            .clone();
        let membership = self.cells().membership.clone();
        if !Seats::of(roster).is(membership.membership()) {
            return None;
        }
        let meta = SnapshotMeta {
            last_log_id: Some(log_id),
            last_membership: membership,
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
        let Proven { state, head, links } = self.prove(meta, &bytes)?;
        let before = self.place().size;
        let mut batch = WriteBatch::new();
        snapshot::put(&mut batch, meta, &bytes);
        for (epoch, link) in &links {
            chain::put_link(&mut batch, *epoch, link);
        }
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
        let roster = applied_roster(&state);
        *self.state() = state;
        if let Some(roster) = roster {
            follow(&self.inner.engine, &self.inner.cosigner, &roster, None)?;
            self.inner.cosigner.forget_steps(roster.roster_epoch);
            self.inner.roster.send_replace(Arc::new(roster));
        }
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

fn applied_roster(state: &State) -> Option<RosterV1> {
    let governance = state.authority.governance.as_ref();
    governance.map(|governance| governance.roster.clone())
}

fn is_voter(roster: &RosterV1, own: NodeId) -> bool {
    roster.voters().any(|node| node.node_id == own)
}

/// Lets the cosigner count by another roster. The journal takes no roster with a key that cannot
/// verify, so a fault here is one of this node.
fn follow<E: Engine>(
    engine: &E,
    cosigner: &Cosigner<E>,
    roster: &RosterV1,
    steps: impl IntoIterator<Item = (RosterStep, RosterV1)>,
) -> Result<(), StorageFault> {
    let keys = HeadKeys::new(cosigner.origin(), roster)
        .map_err(|error| corrupt(engine, "roster", &error.to_string()))?;
    cosigner.follow(keys);
    for (step, _) in steps {
        cosigner.expect_step(step);
    }
    Ok(())
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
