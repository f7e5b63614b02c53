//! The key ceremony as the verifiers carry it out among themselves (D13, FAULTS 38 to 40).
//!
//! ```text
//!   member 1, all fellows up, no key in the journal ─▶ begins under a fresh nonce
//!   the others ─▶ begin when member 1's first message names a ceremony
//!   each ─▶ messages to each, until taken ─▶ share kept, sealed ─▶ confirmation to member 1, again and again
//!   member 1, four confirmations of one transcript ─▶ ActivateQuorumKey ─▶ journal
//! ```
//!
//! Who begins is a convention and gives no power: all four must take part, a failed ceremony is dead for
//! good, and any may be followed by another. A share that was made is kept whatever became of the rest.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use redlatch_ballot::messages::{CeremonyId, CeremonyRound1V1};
use redlatch_ballot::records::BootRecordV1;
use redlatch_ballot::{Ceremony, CeremonyEffect, OwnSeat, SealedShare, Terms};
use redlatch_link::nodes::{Again, Nodes};
use redlatch_link::store::Store;
use redlatch_link::world::{self, Monotonic};
use redlatch_proto::v1::ceremony_request::Message;
use redlatch_types::command::RawCommand;
use redlatch_types::records::KeyConfirmationV1;
use redlatch_types::{Canonical, Digest, Envelope, Refusal, Signed, VerifierId};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use crate::alarm::{Alarm, FatalCause};
use crate::driver;
use crate::fellows::Fellow;
use crate::store::{self, KeptError};
use crate::vault::Vault;

/// How long a ceremony may take.
const CEREMONY_MS: u64 = 30_000;
/// How often there is something to look after.
const LOOK: Duration = Duration::from_millis(250);
/// How long the cluster may take to answer a submission.
const SUBMIT_DEADLINE: Duration = Duration::from_secs(10);
/// Pause before an activation that is not read back yet is submitted again.
const SUBMIT_AGAIN: Duration = Duration::from_secs(2);
/// The member that begins ceremonies and submits their result.
const FIRST: u16 = 1;

/// Kinds of messages that wait for a fellow.
enum Waiting {
    Round1(Vec<u8>),
    /// Holds a secret.
    Round2(Zeroizing<Vec<u8>>),
}

impl Waiting {
    fn message(&self) -> Message {
        match self {
            Waiting::Round1(bytes) => Message::Round1(bytes.clone()),
            Waiting::Round2(bytes) => Message::Round2(bytes.to_vec()),
        }
    }
}

/// Messages of the current ceremony for each member, in order.
type Outbox = BTreeMap<u16, VecDeque<(CeremonyId, Waiting)>>;

struct State {
    current: Option<Ceremony>,
    /// When the current ceremony was begun, or this process started.
    since: Monotonic,
    rng: ChaCha20Rng,
    /// Confirmations by transcript and verifier.
    confirmations: BTreeMap<Digest, BTreeMap<VerifierId, Envelope>>,
    /// This verifier's own.
    own: Vec<Envelope>,
}

/// This verifier's part in ceremonies.
pub(crate) struct Conductor<S> {
    store: S,
    vault: Arc<Vault>,
    terms: Terms,
    seat: OwnSeat,
    boot: BootRecordV1,
    alarm: Alarm,
    begun: Monotonic,
    state: Mutex<State>,
    outbox: Lock<Outbox>,
    /// A key is in force: nothing is left to do.
    over: AtomicBool,
}

impl<S: Store> Conductor<S> {
    /// With the shares that wait in the store; each is confirmed again.
    pub(crate) fn new(
        (store, vault): (S, Arc<Vault>),
        terms: Terms,
        seat: OwnSeat,
        boot: BootRecordV1,
        alarm: Alarm,
        shares: &[SealedShare],
        rng: ChaCha20Rng,
    ) -> Conductor<S> {
        let own = confirmed_again(shares, &terms, &seat);
        let mut state = State {
            current: None,
            since: Monotonic::now(),
            rng,
            confirmations: BTreeMap::new(),
            own: own.clone(),
        };
        for confirmation in own {
            // Its own, made a moment ago.
            let _ = take_confirmation(&mut state, &terms, &confirmation);
        }
        Conductor {
            store,
            vault,
            terms,
            seat,
            boot,
            alarm,
            begun: Monotonic::now(),
            state: Mutex::new(state),
            outbox: Lock::new(BTreeMap::new()),
            over: AtomicBool::new(false),
        }
    }

    /// A key is in force.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.outbox().clear();
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) || self.alarm.is_raised()
    }

    /// A fellow's message.
    ///
    /// # Errors
    /// The code with which it is not taken; `too_early` asks for it again.
    pub(crate) async fn heard(&self, message: Message) -> Result<(), Refusal> {
        if self.is_over() {
            return Err(Refusal::AlreadySpent);
        }
        let mut state = self.state.lock().await;
        match message {
            Message::Round1(bytes) => self.round1(&mut state, &bytes).await,
            Message::Round2(bytes) => {
                let bytes = Zeroizing::new(bytes);
                let current = state.current.as_mut().ok_or(Refusal::TooEarly)?;
                let effects = current.handle_round2(&bytes);
                let effects = effects.map_err(|fault| self.blame(&fault))?;
                self.run(&mut state, effects).await
            }
            Message::Confirmation(bytes) => {
                let envelope =
                    Envelope::from_canonical(&bytes).map_err(|_| Refusal::NotCanonical)?;
                take_confirmation(&mut state, &self.terms, &envelope)
            }
        }
    }

    async fn round1(&self, state: &mut State, bytes: &[u8]) -> Result<(), Refusal> {
        let envelope = Envelope::from_canonical(bytes).map_err(|_| Refusal::NotCanonical)?;
        let said = envelope
            .open::<CeremonyRound1V1>()
            .map_err(|_| Refusal::BadSignature)?;
        let id = said.record().ceremony;
        if state.current.as_ref().map(Ceremony::id) != Some(id) {
            self.check_first(&said)?;
            self.begin(state, id).await?;
        }
        let current = state.current.as_mut().ok_or(Refusal::TooEarly)?;
        let effects = current.handle_round1(&envelope);
        let effects = effects.map_err(|fault| self.blame(&fault))?;
        self.run(state, effects).await
    }

    /// Only member 1's own message begins a ceremony; until it comes, the others' are too early.
    fn check_first(&self, said: &Signed<CeremonyRound1V1>) -> Result<(), Refusal> {
        let first = self.terms.by_identifier(FIRST);
        let by_first = first.is_some_and(|it| it.vote_key == *said.key())
            && said.record().identifier == FIRST
            && *said.scope() == self.terms.scope();
        match (by_first, self.seat.identifier == FIRST) {
            (true, false) => Ok(()),
            (_, true) => Err(Refusal::AlreadySpent),
            (false, false) => Err(Refusal::TooEarly),
        }
    }

    /// Begins a ceremony here; an unfinished one before it is dead.
    async fn begin(&self, state: &mut State, id: CeremonyId) -> Result<(), Refusal> {
        let store = self.store.clone();
        let known = world::blocking(move || store::begun(&store, &id))
            .await
            .map_err(|error| self.failed(&error))?;
        let deadline = self.now().saturating_add(CEREMONY_MS);
        let begun = Ceremony::begin(
            self.terms.clone(),
            self.seat.clone(),
            id,
            known.as_ref(),
            self.boot.clone(),
            deadline,
            &mut state.rng,
        );
        let (ceremony, effects) = begun.map_err(|fault| self.blame(&fault))?;
        tracing::info!(ceremony = ?id.nonce, "a key ceremony begins");
        state.current = Some(ceremony);
        state.since = Monotonic::now();
        self.outbox().clear();
        self.run(state, effects).await
    }

    /// Carries effects out in their order.
    async fn run(&self, state: &mut State, effects: Vec<CeremonyEffect>) -> Result<(), Refusal> {
        let id = state.current.as_ref().map(Ceremony::id);
        for effect in effects {
            match effect {
                CeremonyEffect::Persist(rows) => driver::persist(&self.store, &self.vault, rows)
                    .await
                    .map_err(|error| self.failed(&error))?,
                CeremonyEffect::Broadcast(envelope) => {
                    let bytes = envelope.to_canonical();
                    for verifier in &self.terms.roster().verifiers {
                        self.wait(id, verifier.identifier, Waiting::Round1(bytes.clone()));
                    }
                }
                CeremonyEffect::Tell { to, message } => {
                    self.wait(id, to, Waiting::Round2(message));
                }
                CeremonyEffect::Confirm(envelope) => {
                    self.read_back(&envelope).await?;
                    tracing::info!("a key share was made; it waits for the journal");
                    take_confirmation(state, &self.terms, &envelope)?;
                    state.own.push(envelope);
                }
            }
        }
        Ok(())
    }

    /// What is confirmed is what a restart finds: the share is read back and tested once more.
    async fn read_back(&self, confirmation: &Envelope) -> Result<(), Refusal> {
        let (store, vault) = (self.store.clone(), Arc::clone(&self.vault));
        let (organism, identifier) = (self.terms.scope().organism_id, self.seat.identifier);
        let found =
            world::blocking(move || store::shares(&store, &vault, organism, identifier)).await;
        let shares = found.map_err(|error| self.failed(&error))?;
        let again = confirmed_again(&shares, &self.terms, &self.seat);
        if again.contains(confirmation) {
            return Ok(());
        }
        let lost = KeptError::Unreadable("share that was just written");
        Err(self.failed(&lost))
    }

    fn wait(&self, id: Option<CeremonyId>, to: u16, message: Waiting) {
        if let Some(id) = id.filter(|_| to != self.seat.identifier) {
            self.outbox()
                .entry(to)
                .or_default()
                .push_back((id, message));
        }
    }

    fn outbox(&self) -> std::sync::MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn failed(&self, error: &KeptError) -> Refusal {
        self.alarm.raise(FatalCause::Storage(error.to_string()));
        Refusal::NotSupported
    }

    fn blame(&self, fault: &redlatch_ballot::CeremonyFault) -> Refusal {
        let refusal = fault.refusal();
        if refusal != Refusal::TooEarly {
            tracing::warn!(%fault, "a ceremony message is not taken");
        }
        refusal
    }

    /// The first message for a member.
    fn first_for(&self, member: u16) -> Option<(CeremonyId, Message)> {
        let outbox = self.outbox();
        let (id, waiting) = outbox.get(&member)?.front()?;
        Some((*id, waiting.message()))
    }

    /// Takes the first message for a member off, if it is still one of that ceremony.
    fn taken(&self, member: u16, id: &CeremonyId) {
        if let Some(queue) = self.outbox().get_mut(&member)
            && queue.front().is_some_and(|(first, _)| first == id)
        {
            queue.pop_front();
        }
    }

    /// Four confirmations of one transcript, ascending by verifier.
    async fn complete(&self) -> Option<Vec<Envelope>> {
        let state = self.state.lock().await;
        let all = self.terms.roster().verifiers.len();
        let complete = state.confirmations.values().find(|it| it.len() == all)?;
        Some(complete.values().cloned().collect())
    }

    /// Whether it is time for another ceremony; a dead or finished one gets its time first.
    async fn wants_another(&self) -> bool {
        let mut state = self.state.lock().await;
        let now = self.now();
        let waited = state.since.elapsed() >= Duration::from_millis(CEREMONY_MS);
        let nothing_waits = state.own.is_empty();
        match &mut state.current {
            None => nothing_waits || waited,
            Some(current) => {
                if let Err(fault) = current.handle_timeout(now) {
                    tracing::warn!(%fault, "the key ceremony failed");
                }
                current.is_dead() || (current.is_finished() && waited)
            }
        }
    }

    async fn begin_fresh(&self) {
        let mut state = self.state.lock().await;
        let mut nonce = Digest::ZERO;
        state.rng.fill_bytes(&mut nonce.0);
        let id = CeremonyId {
            nonce,
            roster_epoch: self.terms.roster().roster_epoch,
            quorum_key_epoch: self.terms.next_key_epoch(),
        };
        // A failure has been logged; it is tried again.
        let _ = self.begin(&mut state, id).await;
    }
}

/// What waits in the store for the key that comes next under this roster. Any other share is void or of a ceremony
/// that can end in no key any more.
fn confirmed_again(shares: &[SealedShare], terms: &Terms, seat: &OwnSeat) -> Vec<Envelope> {
    let roster = terms.roster().roster_epoch;
    let waits = |it: &&SealedShare| {
        terms.quorum_key().is_none()
            && it.epoch() == terms.next_key_epoch()
            && it.roster_epoch() == roster
    };
    let confirmed = |share: &SealedShare| match share.confirm(terms, seat) {
        Ok(confirmation) => Some(confirmation),
        Err(error) => {
            tracing::warn!(%error, "a key share is not confirmed again");
            None
        }
    };
    shares.iter().filter(waits).filter_map(confirmed).collect()
}

/// Notes a confirmation by the verifier that it names, for this roster's next key.
fn take_confirmation(state: &mut State, terms: &Terms, envelope: &Envelope) -> Result<(), Refusal> {
    let signed = envelope
        .open::<KeyConfirmationV1>()
        .map_err(|_| Refusal::BadSignature)?;
    let record = signed.record();
    let verifier = terms.roster().verifier_by_vote_key(signed.key());
    let authentic = verifier.is_some_and(|it| it.verifier_id == record.verifier_id)
        && *signed.scope() == terms.scope();
    if !authentic {
        return Err(Refusal::Unauthorized);
    }
    if record.quorum_key_epoch != terms.next_key_epoch()
        || record.roster_epoch != terms.roster().roster_epoch
    {
        return Err(Refusal::StaleRoster);
    }
    // Everything that the four must agree on.
    let agreed = Digest::of_parts(&[
        &record.transcript_digest.0,
        &record.group_key.0,
        &record.public_key_package_digest.0,
    ]);
    let of_one = state.confirmations.entry(agreed).or_default();
    of_one.insert(record.verifier_id.clone(), envelope.clone());
    Ok(())
}

/// Brings a fellow its messages, in order, until each is taken or cannot be.
pub(crate) async fn carry<S: Store>(conductor: Arc<Conductor<S>>, fellow: Fellow) {
    while !conductor.is_over() {
        let Some((id, message)) = conductor.first_for(fellow.identifier) else {
            world::sleep(LOOK).await;
            continue;
        };
        match fellow.ceremony(message).await {
            Some(Ok(())) => conductor.taken(fellow.identifier, &id),
            Some(Err(Refusal::TooEarly)) | None => world::sleep(LOOK).await,
            Some(Err(refusal)) => {
                tracing::warn!(fellow = %fellow.verifier_id, %refusal, "refuses a ceremony message");
                conductor.taken(fellow.identifier, &id);
            }
        }
    }
}

/// Confirms again and again what was made here, until a key is in force.
pub(crate) async fn confirm<S: Store>(conductor: Arc<Conductor<S>>, first: Fellow) {
    while !conductor.is_over() {
        let own = {
            let mut state = conductor.state.lock().await;
            let now = conductor.now();
            if let Some(Err(fault)) = state.current.as_mut().map(|it| it.handle_timeout(now)) {
                tracing::warn!(%fault, "the key ceremony failed");
            }
            state.own.clone()
        };
        for confirmation in own {
            let message = Message::Confirmation(confirmation.to_canonical());
            // Not heard or refused: the next round says it again.
            let _ = fellow_hears(&first, message).await;
        }
        world::sleep(LOOK).await;
    }
}

async fn fellow_hears(fellow: &Fellow, message: Message) -> bool {
    matches!(fellow.ceremony(message).await, Some(Ok(())))
}

/// Member 1: begins ceremonies while there is no key, and submits the result of the one that is complete.
/// `ready` says whether the journal was read to its end without a key, and every fellow is there.
pub(crate) async fn lead<S: Store>(
    conductor: Arc<Conductor<S>>,
    nodes: Nodes,
    ready: impl Fn() -> bool + Send,
) {
    while !conductor.is_over() {
        if let Some(confirmations) = conductor.complete().await {
            submit(&nodes, confirmations).await;
            world::sleep(SUBMIT_AGAIN).await;
        } else if ready() && conductor.wants_another().await {
            conductor.begin_fresh().await;
        } else {
            world::sleep(LOOK).await;
        }
    }
}

async fn submit(nodes: &Nodes, confirmations: Vec<Envelope>) {
    let command = RawCommand::ActivateQuorumKey(confirmations).to_canonical();
    let submitted = nodes
        .submit(
            &command,
            &Again::SameAnswer,
            SUBMIT_DEADLINE,
            Duration::ZERO,
        )
        .await;
    match submitted.map(|it| it.accepted()) {
        Ok(Ok(_)) => tracing::info!("the quorum's key is submitted"),
        Ok(Err(refusal)) => tracing::warn!(%refusal, "the journal refuses the quorum's key"),
        Err(error) => tracing::warn!(%error, "the quorum's key is not submitted yet"),
    }
}
