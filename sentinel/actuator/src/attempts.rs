//! Attempts: from a proven latch to its terminal event (DESIGN §6, M1-I31, M1-I35, M1-I36).
//!
//! ```text
//!   proven latch ─derive─▶ Derived ──StoreIntent──▶ (journal)
//!        ▲                    │ SafetyIntentStored, proven
//!        │                    ▼
//!      rebase ◀─refused─── Stored ──sign, Prepare──▶ Prepared ──Claim──▶ Claimed ──Finish──▶ gone
//!   (four fields)                                                   SafetyTerminal, proven
//! ```
//!
//! - Everything in an attempt but its four fresh fields follows from the latch
//!   ([`SafetyActionIntentV1::derive`]); a stored attempt that does not follow is not signed.
//! - A capability is signed only for an attempt whose storing is proven; the signature is
//!   deterministic, so a repeat is the same bytes and the same transaction.
//! - A PENDING latch keeps its mandate for ever: an attempt that expired, was fenced or lost
//!   its place is rebased, as often as it takes. Nobody's word ends a latch, only the proof.
//! - One latch is worked on at a time, because each claim moves the epoch under the others.
//! - Every step is persisted before it is submitted, every command may be repeated.
//!
//! What leaves here is a [`SafetyCommand`]; there is no other kind. This module does not hold
//! ([`crate::hold`] does), and does not judge whether a RED was right.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, ChainPlace, Event};
use redlatch_types::mandate::Mandate;
use redlatch_types::proven::ProvenEvent;
use redlatch_types::records::{
    Rebase, RedLatchReceiptV1, SafetyActionIntentV1, SafetyCapabilityV1, SovereignActionIntentV1,
};
use redlatch_types::{
    AutonomyEpoch, Canonical, Digest, Envelope, IntentDigest, LatchNumber, NotCanonical, Refusal,
    Scope, SigningKey, TransactionId,
};

use crate::planted::Bug;
use crate::verify_red::{NotAuthentic, RedVerifier};

/// First pause before a command is repeated, milliseconds.
pub const RETRY_FIRST_MS: u64 = 100;
/// Longest pause.
pub const RETRY_MAX_MS: u64 = 5_000;

/// What the actuator may ask of the journal. Negative by type (M1-I30).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SafetyCommand {
    /// Store the attempt's bytes before they are signed.
    Store(Box<SafetyActionIntentV1>),
    /// Prepare the attempt that this capability is for.
    Prepare(Envelope),
    /// Claim the latch.
    Claim(TransactionId),
    /// End the latch.
    Finish(TransactionId),
}

impl From<SafetyCommand> for RawCommand {
    fn from(command: SafetyCommand) -> RawCommand {
        match command {
            SafetyCommand::Store(attempt) => RawCommand::StoreSafetyIntent(attempt),
            SafetyCommand::Prepare(capability) => RawCommand::PrepareSafety(capability),
            SafetyCommand::Claim(transaction) => RawCommand::ClaimSafety(transaction),
            SafetyCommand::Finish(transaction) => RawCommand::FinishSafety(transaction),
        }
    }
}

/// How far the current attempt at a latch came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Stage {
    /// Derived; the journal may not have it.
    #[n(1)]
    Derived,
    /// Proven to be stored; it may be signed.
    #[n(2)]
    Stored,
    /// Prepared under this transaction.
    #[n(3)]
    Prepared(#[n(0)] TransactionId),
    /// This transaction has claimed the latch.
    #[n(4)]
    Claimed(#[n(0)] TransactionId),
}

/// A latch at work, as stored under its number.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AttemptV1 {
    /// The latch.
    #[n(0)]
    pub latch: RedLatchReceiptV1,
    /// The current attempt.
    #[n(1)]
    pub attempt: SafetyActionIntentV1,
    /// The last attempt that the journal is proven to have stored.
    #[n(2)]
    pub stored: Option<SafetyActionIntentV1>,
    /// How far the current one came.
    #[n(3)]
    pub stage: Stage,
}

/// What the attempts want done, in order. If a `Persist` fails, nothing after it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Write and sync, under the latch's number.
    Persist(Box<AttemptV1>),
    /// Delete what is stored under this latch: its stop is complete.
    Forget(LatchNumber),
    /// Send to the journal; the answer comes back with latch and attempt, or never.
    Submit {
        /// The latch.
        latch: LatchNumber,
        /// Digest of the attempt, to tell late answers.
        attempt: Digest,
        /// The command.
        command: SafetyCommand,
    },
    /// Fetch the proven events of this latch.
    Ask(LatchNumber),
    /// Fetch every live latch with its proven events.
    AskLive,
    /// Tell people.
    Alarm(Alarm),
}

/// What must not happen. The latch stays PENDING and its fence stays up meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Alarm {
    /// The journal stored an attempt that does not follow from its latch.
    #[error("latch {0}: the stored attempt does not follow from it")]
    NotDerived(LatchNumber),
    /// The journal does not accept this actuator's key or pin.
    #[error("latch {0}: the journal does not accept this actuator: {1}")]
    NotAccepted(LatchNumber, Refusal),
}

/// Why no attempt is made at a latch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LatchRefused {
    /// The event is no latch.
    #[error("the proven event is no latch")]
    NotALatch,
    /// The RED that it rests on is not the pinned sentinel's.
    #[error("the latch rests on no RED of the sentinel: {0}")]
    NotAuthentic(#[from] NotAuthentic),
    /// The latch names another RED than it carries.
    #[error("the latch names another RED than it carries")]
    OtherRed,
    /// The latch says another thing than its RED.
    #[error("the latch's mandate does not follow from its RED")]
    OtherMandate,
    /// The mandate can only be recomputed with the frozen bytes of this intent.
    #[error("the frozen intent {0} is needed to recompute the mandate")]
    SourceMissing(IntentDigest),
}

/// A stored attempt cannot be read. It is dropped: the journal's events lead to it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a stored attempt cannot be read: {0}")]
pub struct Unreadable(#[from] NotCanonical);

/// Who signs.
#[derive(Debug)]
pub struct Signer {
    /// Organism and its epoch.
    pub scope: Scope,
    /// The actuator's key.
    pub key: SigningKey,
    /// Its pin: identity, key, builds, policy.
    pub pin: Digest,
}

/// The latches at work.
#[derive(Debug)]
pub struct Attempts {
    signer: Signer,
    epoch: AutonomyEpoch,
    works: BTreeMap<LatchNumber, Work>,
    ended: LatchNumber,
    ended_above: BTreeMap<LatchNumber, ()>,
}

#[derive(Debug)]
struct Work {
    record: AttemptV1,
    pause: u64,
    due: u64,
    rounds: u32,
}

impl Attempts {
    /// Resumes from what was persisted, and asks for the live latches. Records that cannot be
    /// read are returned; they are no loss. `epoch` is in force as far as is known: an act of the root
    /// raises it without publishing it.
    pub fn open<'a>(
        signer: Signer,
        epoch: AutonomyEpoch,
        stored: impl IntoIterator<Item = &'a [u8]>,
        now: u64,
        out: &mut Vec<Effect>,
    ) -> (Attempts, Vec<Unreadable>) {
        let mut attempts = Attempts {
            signer,
            epoch,
            works: BTreeMap::new(),
            ended: LatchNumber(0),
            ended_above: BTreeMap::new(),
        };
        let mut unreadable = Vec::new();
        for bytes in stored {
            match AttemptV1::from_canonical(bytes) {
                Ok(record) => attempts.put(record, now),
                Err(error) => unreadable.push(error.into()),
            }
        }
        out.push(Effect::AskLive);
        attempts.drive(now, out);
        (attempts, unreadable)
    }

    /// The latches at work.
    pub fn works(&self) -> impl Iterator<Item = &AttemptV1> {
        self.works.values().map(|w| &w.record)
    }

    /// When [`Attempts::handle_timeout`] is due, if ever.
    pub fn next_wakeup(&self) -> Option<u64> {
        self.active().map(|work| work.due)
    }

    /// Begins the stop of a proven latch. A repeat, or a latch that is over, changes nothing.
    /// `source` are the frozen bytes of the intent that its RED names, if at hand.
    ///
    /// # Errors
    /// [`LatchRefused`]: no attempt is made; what is held stays held.
    pub fn handle_latch(
        &mut self,
        event: &ProvenEvent,
        verifier: &RedVerifier,
        source: Option<&SovereignActionIntentV1>,
        now: u64,
        draw: &mut dyn FnMut() -> Digest,
        out: &mut Vec<Effect>,
    ) -> Result<(), LatchRefused> {
        let Event::RedLatched(receipt, place, _, envelope) = event.event() else {
            return Err(LatchRefused::NotALatch);
        };
        if self.works.contains_key(&receipt.latch_epoch) || self.is_over(receipt.latch_epoch) {
            return Ok(());
        }
        check_mandate(receipt, *place, envelope, verifier, source)?;
        let attempt = self.derive(receipt, None, draw);
        let record = AttemptV1 {
            latch: (**receipt).clone(),
            attempt,
            stored: None,
            stage: Stage::Derived,
        };
        out.push(Effect::Persist(Box::new(record.clone())));
        self.put(record, now);
        self.drive(now, out);
        Ok(())
    }

    /// Moves on by a proven event; others than those of a safety transaction are ignored.
    pub fn handle_event(
        &mut self,
        event: &ProvenEvent,
        now: u64,
        draw: &mut dyn FnMut() -> Digest,
        out: &mut Vec<Effect>,
    ) {
        match event.event() {
            Event::SafetyIntentStored(stored) => self.stored(stored, now, draw, out),
            Event::SafetyPrepared(id, capability, _) => {
                let attempt = capability.safety_intent_digest;
                self.prepared(capability.latch_epoch, attempt, *id, now, out);
            }
            Event::LatchCommitting(latch, id) => self.claimed(*latch, *id, now, out),
            Event::SafetyCommitted(marker) => {
                self.claimed(marker.latch_epoch, marker.transaction_id, now, out);
            }
            Event::EpochPublished(epoch) => self.epoch_moved(epoch.autonomy_epoch, now, draw, out),
            Event::SafetyTerminal(latch, _) | Event::OutboxAcknowledged(latch, _) => {
                self.over(*latch, out);
            }
            _ => {}
        }
        self.drive(now, out);
    }

    /// This autonomy epoch is in force: acts of the root have raised it beside those that were published.
    pub fn handle_in_force(
        &mut self,
        epoch: AutonomyEpoch,
        now: u64,
        draw: &mut dyn FnMut() -> Digest,
        out: &mut Vec<Effect>,
    ) {
        self.epoch_moved(epoch, now, draw, out);
        self.drive(now, out);
    }

    /// Takes a node's answer to a command. It is nobody's proof: it decides what to ask or to
    /// send next, and ends nothing.
    pub fn handle_reply(
        &mut self,
        latch: LatchNumber,
        attempt: Digest,
        reply: &Result<Accepted, Refusal>,
        now: u64,
        draw: &mut dyn FnMut() -> Digest,
        out: &mut Vec<Effect>,
    ) {
        let current = self.works.get(&latch).map(|w| w.record.attempt.digest());
        if current != Some(attempt) {
            return;
        }
        match reply {
            Ok(Accepted::SafetyPrepared(id)) => self.prepared(latch, attempt, *id, now, out),
            Ok(Accepted::SafetyCommitted(_)) => {
                if let Some(Stage::Prepared(id)) = self.stage(latch) {
                    self.claimed(latch, id, now, out);
                }
            }
            Ok(_) => out.push(Effect::Ask(latch)),
            Err(refusal) => self.refused(latch, *refusal, now, draw, out),
        }
        self.drive(now, out);
    }

    /// Repeats what is due.
    pub fn handle_timeout(&mut self, now: u64, out: &mut Vec<Effect>) {
        self.drive(now, out);
    }

    fn refused(
        &mut self,
        latch: LatchNumber,
        refusal: Refusal,
        now: u64,
        draw: &mut dyn FnMut() -> Digest,
        out: &mut Vec<Effect>,
    ) {
        match refusal {
            // The attempt is dead; the latch is not (M1-I35).
            Refusal::Expired | Refusal::EpochFenced => {
                out.push(Effect::Ask(latch));
                self.rebase(latch, draw, out);
                self.wait(latch, now);
            }
            // Something was stored or moved that is not known here: rebase on what is, and
            // learn the rest.
            Refusal::MandateMismatch if self.stage(latch) == Some(Stage::Derived) => {
                out.push(Effect::Ask(latch));
                self.rebase(latch, draw, out);
                self.wait(latch, now);
            }
            Refusal::WrongState if self.stage(latch) == Some(Stage::Derived) => {
                out.push(Effect::Ask(latch));
                self.return_to_stored(latch, out);
                self.wait(latch, now);
            }
            Refusal::Unauthorized | Refusal::WrongOrganism | Refusal::BadSignature => {
                out.push(Effect::Alarm(Alarm::NotAccepted(latch, refusal)));
            }
            // Lost, done already, or another attempt lives: only the events can tell.
            _ => out.push(Effect::Ask(latch)),
        }
    }

    /// A stored attempt becomes the current one, if it follows from its latch, whoever sent it. One under
    /// another pin is of before an act of the root, and dead: the next one is based on it.
    fn stored(
        &mut self,
        stored: &SafetyActionIntentV1,
        now: u64,
        draw: &mut dyn FnMut() -> Digest,
        out: &mut Vec<Effect>,
    ) {
        let pin = self.signer.pin;
        let Some(work) = self.works.get_mut(&stored.latch_epoch) else {
            return;
        };
        let record = &mut work.record;
        if matches!(record.stage, Stage::Claimed(_)) || is_older(stored, record.stored.as_ref()) {
            return;
        }
        let same = record.attempt == *stored;
        let known = record.stored.as_ref() == Some(stored);
        if known && (!same || record.stage != Stage::Derived) {
            return;
        }
        let is_own = stored.actuator_identity_key_binary_policy_digest == pin;
        let is_dead = stored.expected_autonomy_epoch < self.epoch;
        if !follows(stored, record) || !(is_own || is_dead) {
            out.push(Effect::Alarm(Alarm::NotDerived(stored.latch_epoch)));
            return;
        }
        record.stored = Some(stored.clone());
        if is_own {
            record.attempt = stored.clone();
            record.stage = Stage::Stored;
        }
        work.progress(now);
        if !is_own {
            return self.rebase(stored.latch_epoch, draw, out);
        }
        out.push(Effect::Persist(Box::new(work.record.clone())));
    }

    fn prepared(
        &mut self,
        latch: LatchNumber,
        attempt: Digest,
        id: TransactionId,
        now: u64,
        out: &mut Vec<Effect>,
    ) {
        let Some(work) = self.works.get_mut(&latch) else {
            return;
        };
        let record = &mut work.record;
        let ours = SafetyCapabilityV1::of(&record.attempt).transaction_id() == id;
        if ours && record.attempt.digest() == attempt && record.stage == Stage::Stored {
            record.stage = Stage::Prepared(id);
            work.progress(now);
            out.push(Effect::Persist(Box::new(work.record.clone())));
        }
    }

    fn claimed(&mut self, latch: LatchNumber, id: TransactionId, now: u64, out: &mut Vec<Effect>) {
        let Some(work) = self.works.get_mut(&latch) else {
            return;
        };
        if work.record.stage != Stage::Claimed(id) {
            work.record.stage = Stage::Claimed(id);
            work.progress(now);
            out.push(Effect::Persist(Box::new(work.record.clone())));
        }
    }

    fn over(&mut self, latch: LatchNumber, out: &mut Vec<Effect>) {
        if self.works.remove(&latch).is_some() {
            out.push(Effect::Forget(latch));
        }
        self.ended_above.insert(latch, ());
        while self.ended_above.remove(&self.ended.next()).is_some() {
            self.ended = self.ended.next();
        }
        while self.ended_above.len() > ENDED_MAX {
            self.ended_above.pop_first();
        }
    }

    fn is_over(&self, latch: LatchNumber) -> bool {
        latch <= self.ended || self.ended_above.contains_key(&latch)
    }

    /// A higher epoch is in force: attempts under a lower one are dead unless they caused it.
    fn epoch_moved(
        &mut self,
        epoch: AutonomyEpoch,
        now: u64,
        draw: &mut dyn FnMut() -> Digest,
        out: &mut Vec<Effect>,
    ) {
        self.epoch = self.epoch.max(epoch);
        let fenced: Vec<_> = self
            .works
            .iter()
            .filter(|(_, w)| !matches!(w.record.stage, Stage::Claimed(_)))
            .filter(|(_, w)| w.record.attempt.expected_autonomy_epoch < self.epoch)
            .map(|(latch, _)| *latch)
            .collect();
        for latch in fenced {
            self.rebase(latch, draw, out);
            if let Some(work) = self.works.get_mut(&latch) {
                work.progress(now);
            }
        }
    }

    /// A new attempt at the same latch: only the four fields differ (M1-I31).
    fn rebase(
        &mut self,
        latch: LatchNumber,
        draw: &mut dyn FnMut() -> Digest,
        out: &mut Vec<Effect>,
    ) {
        let Some(work) = self.works.get(&latch) else {
            return;
        };
        if matches!(work.record.stage, Stage::Claimed(_)) || Bug::DeadAttemptKept.planted() {
            return;
        }
        let attempt = self.derive(&work.record.latch, work.record.stored.as_ref(), draw);
        if let Some(work) = self.works.get_mut(&latch) {
            work.record.attempt = attempt;
            work.record.stage = Stage::Derived;
            out.push(Effect::Persist(Box::new(work.record.clone())));
        }
    }

    /// The stored attempt lives after all, whatever was said of it: go on with it.
    fn return_to_stored(&mut self, latch: LatchNumber, out: &mut Vec<Effect>) {
        if let Some(work) = self.works.get_mut(&latch)
            && let Some(stored) = &work.record.stored
        {
            work.record.attempt = stored.clone();
            work.record.stage = Stage::Stored;
            out.push(Effect::Persist(Box::new(work.record.clone())));
        }
    }

    /// A node that refuses again and again must not make the actuator spin.
    fn wait(&mut self, latch: LatchNumber, now: u64) {
        if let Some(work) = self.works.get_mut(&latch) {
            work.due = now.saturating_add(work.pause);
            work.slow_down();
        }
    }

    fn derive(
        &self,
        latch: &RedLatchReceiptV1,
        stored: Option<&SafetyActionIntentV1>,
        draw: &mut dyn FnMut() -> Digest,
    ) -> SafetyActionIntentV1 {
        let attempt_sequence = stored.map_or(1, |s| s.attempt_sequence.saturating_add(1));
        // The sequence is part of both, so that they are fresh even if the draw is not.
        let mut fresh = |purpose: &[u8]| {
            let sequence = attempt_sequence.to_be_bytes();
            Digest::of_parts(&[purpose, &latch.digest().0, &sequence, &draw().0])
        };
        let rebase = Rebase {
            attempt_sequence,
            rebased_from: stored.map(SafetyActionIntentV1::digest),
            expected_autonomy_epoch: self.epoch.max(latch.autonomy_epoch),
            attempt_idempotency_key: fresh(b"redlatch/v1/safety-idempotency-key\0"),
            nonce: fresh(b"redlatch/v1/safety-nonce\0"),
        };
        SafetyActionIntentV1::derive(latch, self.signer.pin, rebase)
    }

    fn stage(&self, latch: LatchNumber) -> Option<Stage> {
        self.works.get(&latch).map(|w| w.record.stage)
    }

    fn put(&mut self, record: AttemptV1, now: u64) {
        self.epoch = self.epoch.max(record.attempt.expected_autonomy_epoch);
        let work = Work {
            pause: RETRY_FIRST_MS,
            due: now,
            rounds: 0,
            record,
        };
        self.works.insert(work.record.latch.latch_epoch, work);
    }

    /// The latch that is worked on: the lowest, unless it is stuck.
    fn active(&self) -> Option<&Work> {
        let order = |w: &&Work| (w.rounds, w.record.latch.latch_epoch);
        self.works.values().min_by_key(order)
    }

    /// Submits the step that is due, for the one latch that is worked on.
    fn drive(&mut self, now: u64, out: &mut Vec<Effect>) {
        let Some(latch) = self.active().map(|w| w.record.latch.latch_epoch) else {
            return;
        };
        let Some(work) = self.works.get_mut(&latch).filter(|w| w.due <= now) else {
            return;
        };
        let repeat = work.pause != RETRY_FIRST_MS;
        work.due = now.saturating_add(work.pause);
        work.slow_down();
        let record = &work.record;
        let command = match record.stage {
            Stage::Derived => SafetyCommand::Store(Box::new(record.attempt.clone())),
            Stage::Stored => SafetyCommand::Prepare(Envelope::seal(
                self.signer.scope,
                &self.signer.key,
                &SafetyCapabilityV1::of(&record.attempt),
            )),
            Stage::Prepared(id) => SafetyCommand::Claim(id),
            Stage::Claimed(id) => SafetyCommand::Finish(id),
        };
        let attempt = record.attempt.digest();
        out.push(Effect::Submit {
            latch,
            attempt,
            command,
        });
        if repeat {
            out.push(Effect::Ask(latch));
        }
    }
}

/// Latches over that are remembered out of order.
const ENDED_MAX: usize = 1_024;

impl Work {
    fn progress(&mut self, now: u64) {
        self.pause = RETRY_FIRST_MS;
        self.due = now;
        self.rounds = 0;
    }

    /// Doubles the pause; at its longest, another latch gets its turn.
    fn slow_down(&mut self) {
        self.pause = self.pause.saturating_mul(2);
        if self.pause > RETRY_MAX_MS {
            self.pause = RETRY_MAX_MS;
            self.rounds = self.rounds.saturating_add(1);
        }
    }
}

fn is_older(attempt: &SafetyActionIntentV1, stored: Option<&SafetyActionIntentV1>) -> bool {
    stored.is_some_and(|s| attempt.attempt_sequence < s.attempt_sequence)
}

/// Whether a stored attempt is the one that its latch leads to with its four fields and its actuator.
fn follows(attempt: &SafetyActionIntentV1, record: &AttemptV1) -> bool {
    let pin = attempt.actuator_identity_key_binary_policy_digest;
    let rebase = Rebase {
        attempt_sequence: attempt.attempt_sequence,
        rebased_from: attempt.rebased_from_attempt_digest_optional,
        expected_autonomy_epoch: attempt.expected_autonomy_epoch,
        attempt_idempotency_key: attempt.attempt_idempotency_key,
        nonce: attempt.nonce,
    };
    SafetyActionIntentV1::derive(&record.latch, pin, rebase) == *attempt
}

/// Whether the latch says what its RED says. Wider, everything, is always the journal's right.
fn check_mandate(
    receipt: &RedLatchReceiptV1,
    place: ChainPlace,
    envelope: &Envelope,
    verifier: &RedVerifier,
    source: Option<&SovereignActionIntentV1>,
) -> Result<(), LatchRefused> {
    let red = verifier.latched(envelope)?;
    let rests_on_it = match red.entry() {
        Some(entry) => {
            receipt.red_verdict_digest == entry.red_verdict_digest()
                && receipt.sentinel_outbox_epoch == entry.outbox_epoch
                && receipt.sentinel_outbox_root_digest == entry.signed_outbox_root_digest
        }
        None => receipt.red_verdict_digest == red.digest(),
    };
    if !rests_on_it {
        return Err(LatchRefused::OtherRed);
    }
    if receipt.mandate == Mandate::everything() {
        return Ok(());
    }
    let source = source.filter(|intent| red.source() == Some(intent.digest()));
    let named = red.source().filter(|_| source.is_none());
    if place == ChainPlace::Next && receipt.mandate == red.mandate(source) {
        return Ok(());
    }
    match named {
        Some(intent) => Err(LatchRefused::SourceMissing(intent)),
        None => Err(LatchRefused::OtherMandate),
    }
}
