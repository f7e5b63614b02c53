//! Judge and outbox behind one lock: one input at a time, durable before anything leaves.
//!
//! ```text
//!   freeze receipt ─▶ evaluate ─┐
//!   signed order ───▶ raise ────┤        ┌─▶ verdict, answer
//!   actuator, nodes ▶ remembered┼─ lock ─┤
//!   proven event ───▶ heard ────┤        └─▶ deliveries, after their Persist
//!   time ───────────▶ tick, beat┘
//! ```
//!
//! A failure of the store takes the machine away for good: nothing more is said, and the process ends.

use std::sync::Arc;
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use redlatch_link::follow::Trust;
use redlatch_link::logs::INTENT_ID;
use redlatch_link::store::Store;
use redlatch_link::world::{self, Monotonic};
use redlatch_types::event::{ChainPlace, Event};
use redlatch_types::policy::{Demand, Policy};
use redlatch_types::proven::{NotProven, ProvenEvent};
use redlatch_types::receipt::{self, Receipt, ReceiptError};
use redlatch_types::records::RaiseOrderV1;
use redlatch_types::{
    Canonical, Digest, Envelope, LatchNumber, NodeId, OrganismId, OutboxEpoch, Refusal, Signed,
    SigningKey,
};
use redlatch_watch::beats::BeatCounter;
use redlatch_watch::outbox::{Effect, Head, Memory, Progress, RedRequest};
use redlatch_watch::rules::Epochs;
use redlatch_watch::verdict::{FreezeFacts, Fresh, Silence};
use redlatch_watch::{Health, Judge, Officers, Outbox};
use tokio::sync::{Mutex, Notify};

use crate::alarm::Alarm;
use crate::courier::Couriers;
use crate::driver;
use crate::metrics::{Cause, SentinelMetrics};
use crate::store::{self, KeptError, KnownV1};

/// The machine is gone: the process is about to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoVerdict {
    /// What was brought is no text of a receipt, or it does not hold.
    #[error("the freeze is not proven: {0}")]
    NotProven(#[from] NotProven),
    /// Nothing is said, and asking again is fair.
    #[error(transparent)]
    Silent(#[from] Silence),
    /// The sentinel is about to end.
    #[error("the sentinel is stopping")]
    Stopping,
}

/// Why an order is not obeyed. Nothing happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotObeyed {
    /// It is not authentic, or cannot be read.
    #[error("{}: {why}", refusal.code())]
    Refused {
        /// The stable code.
        refusal: Refusal,
        /// For people.
        why: &'static str,
    },
    /// The sentinel is about to end.
    #[error("the sentinel is stopping")]
    Stopping,
}

/// A proven freeze and the state time that proves it.
struct Freeze {
    event: ProvenEvent,
    proven_at: u64,
}

/// What one sentinel is.
pub(crate) struct Machine {
    pub(crate) judge: Judge,
    pub(crate) outbox: Outbox,
    pub(crate) beats: BeatCounter,
    pub(crate) rng: ChaCha20Rng,
    pub(crate) known: KnownV1,
    /// Where the highest proven latch stands; the beginning, if that is not known.
    pub(crate) latched_at: u64,
    /// Highest state time that is proven.
    pub(crate) state_time: u64,
    /// What is in force, and whose receipts are believed.
    pub(crate) trust: Trust,
    /// Who may order a stop.
    pub(crate) officers: Officers,
}

/// What handlers and drivers share.
pub(crate) struct Desk<S> {
    pub(crate) store: S,
    pub(crate) organism: OrganismId,
    pub(crate) key: SigningKey,
    pub(crate) couriers: Couriers,
    pub(crate) metrics: SentinelMetrics,
    pub(crate) alarm: Alarm,
    pub(crate) begun: Monotonic,
    pub(crate) machine: Mutex<Option<Machine>>,
    /// The next time at which something is due may have changed.
    pub(crate) rescheduled: Notify,
    /// The journal may have something new.
    pub(crate) news: Notify,
}

impl Machine {
    /// 32 fresh bytes.
    pub(crate) fn draw(&mut self) -> Digest {
        let mut bytes = Digest::ZERO;
        self.rng.fill_bytes(&mut bytes.0);
        bytes
    }

    /// The governance in force, as far as it is proven.
    fn epochs(&self) -> Epochs {
        Epochs {
            constitution: self.trust.in_force().constitution.constitution_epoch,
            autonomy: self.trust.in_force().autonomy_epoch,
        }
    }
}

impl<S: Store> Desk<S> {
    /// Milliseconds of this process's monotonic clock.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// One input to the outbox, with everything that follows from it.
    async fn input<R>(
        self: &Arc<Self>,
        input: impl FnOnce(&mut Machine, u64, &mut Vec<Effect>) -> R,
    ) -> Result<R, Stopped> {
        let result = self.quietly(input).await?;
        self.rescheduled.notify_one();
        Ok(result)
    }

    /// The same without waking whoever repeats: for the repeats themselves, which would never rest.
    async fn quietly<R>(
        self: &Arc<Self>,
        input: impl FnOnce(&mut Machine, u64, &mut Vec<Effect>) -> R,
    ) -> Result<R, Stopped> {
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(Stopped)?;
        let mut out = Vec::new();
        let result = input(machine, self.now(), &mut out);
        if driver::run_outbox(self, out).await.is_err() {
            *held = None;
            return Err(Stopped);
        }
        Ok(result)
    }

    /// What is in force, and whose receipts are believed.
    pub(crate) async fn trust(&self) -> Result<Trust, Stopped> {
        let held = self.machine.lock().await;
        Ok(held.as_ref().ok_or(Stopped)?.trust.clone())
    }

    /// What receipts must meet now.
    async fn policy(&self) -> Result<Policy, Stopped> {
        let held = self.machine.lock().await;
        Ok(held.as_ref().ok_or(Stopped)?.trust.policy().clone())
    }

    /// The verdict on the intent of a freeze receipt, sealed.
    pub(crate) async fn evaluate(self: &Arc<Self>, text: &str) -> Result<Envelope, NoVerdict> {
        let policy = self.policy().await.map_err(|Stopped| NoVerdict::Stopping)?;
        let freeze = freeze(text, &policy)?;
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(NoVerdict::Stopping)?;
        machine.state_time = machine.state_time.max(freeze.proven_at);
        let fresh = Fresh {
            verdict_id: machine.draw(),
            nonce: machine.draw(),
        };
        let facts = FreezeFacts {
            freeze: &freeze.event,
            proven_at: freeze.proven_at,
            epochs: machine.epochs(),
            // Evidence is the verifiers' matter: the sentinel fetches none and holds none.
            evidence_held: &Default::default(),
        };
        let mut out = Vec::new();
        let posture = machine.outbox.posture();
        let findings = machine
            .judge
            .handle_intent(&facts, posture, fresh, &mut out);
        let said = driver::run_judge(self, machine, out).await;
        if said.is_err() {
            *held = None;
        }
        if let Event::Frozen(intent, ..) = freeze.event.event() {
            for finding in &findings {
                let (rule, outcome) = (&finding.rule, finding.outcome);
                tracing::debug!({ INTENT_ID } = %intent, %rule, ?outcome, text = %finding.text);
            }
            tracing::info!({ INTENT_ID } = %intent, said = said_word(&said), "judged");
        }
        self.rescheduled.notify_one();
        said.map_err(|Stopped| NoVerdict::Stopping)?
            .map_err(NoVerdict::Silent)
    }

    /// Obeys a signed order; returns the number and the entry of the RED, which is durable.
    pub(crate) async fn raise(
        self: &Arc<Self>,
        order: &[u8],
    ) -> Result<(OutboxEpoch, Option<Envelope>), NotObeyed> {
        let order = self.authentic(order).await?;
        let id = order.record().order_id;
        if let Some(number) = self.obeyed(id).await? {
            let entry = self.entry(number).await?;
            return Ok((number, entry));
        }
        let numbers = self.input(|machine, now, out| {
            let request = request(order.record(), machine.state_time);
            machine.outbox.handle_reds(vec![request], now, out)
        });
        let numbers = numbers.await.map_err(|Stopped| NotObeyed::Stopping)?;
        let number = numbers.first().copied().unwrap_or_default();
        self.metrics.raised(Cause::Order);
        tracing::warn!(outbox_epoch = %number, reason = %order.record().reason, "RED by order");
        let store = self.store.clone();
        let kept = world::blocking(move || store::obey(&store, &id, number)).await;
        kept.map_err(|error| self.fatal(&error))?;
        self.news.notify_one();
        Ok((number, self.entry(number).await?))
    }

    /// The order, if an enrolled operator or person has signed it for this organism.
    async fn authentic(&self, order: &[u8]) -> Result<Signed<RaiseOrderV1>, NotObeyed> {
        let refused = |refusal, why| NotObeyed::Refused { refusal, why };
        let envelope = Envelope::from_canonical(order)
            .map_err(|_| refused(Refusal::NotCanonical, "the order cannot be read"))?;
        if envelope.scope.organism_id != self.organism {
            return Err(refused(Refusal::WrongOrganism, "for another organism"));
        }
        let held = self.machine.lock().await;
        let machine = held.as_ref().ok_or(NotObeyed::Stopping)?;
        if !machine.officers.may_order(&envelope.key) {
            let why = "no enrolled operator or person has signed it";
            return Err(refused(Refusal::Unauthorized, why));
        }
        let signed = envelope
            .open::<RaiseOrderV1>()
            .map_err(|_| refused(Refusal::BadSignature, "the order is not what was signed"))?;
        if signed.record().reason.as_str().trim().is_empty() {
            return Err(refused(Refusal::NotCanonical, "an order says why"));
        }
        Ok(signed)
    }

    async fn obeyed(&self, id: Digest) -> Result<Option<OutboxEpoch>, NotObeyed> {
        let store = self.store.clone();
        let known = world::blocking(move || store::obeyed(&store, &id)).await;
        known.map_err(|error| self.fatal(&error))
    }

    async fn entry(&self, number: OutboxEpoch) -> Result<Option<Envelope>, NotObeyed> {
        let held = self.machine.lock().await;
        let machine = held.as_ref().ok_or(NotObeyed::Stopping)?;
        let mut entries = machine.outbox.entries();
        let found = entries.find(|(it, _)| *it == number);
        Ok(found.map(|(_, entry)| entry.envelope.clone()))
    }

    fn fatal(&self, error: &KeptError) -> NotObeyed {
        driver::fatal(&self.alarm, error);
        NotObeyed::Stopping
    }

    /// Entries that are kept, with how far they came; the head; the health.
    pub(crate) async fn outbox(
        &self,
    ) -> Result<(Vec<(Envelope, Progress)>, OutboxEpoch, Health), Stopped> {
        let held = self.machine.lock().await;
        let outbox = &held.as_ref().ok_or(Stopped)?.outbox;
        let entries = outbox.entries();
        let entries = entries.map(|(_, entry)| (entry.envelope.clone(), entry.progress));
        Ok((entries.collect(), outbox.head().number, outbox.health()))
    }

    /// Shows where the outbox stands.
    pub(crate) async fn show(&self) -> Result<(), Stopped> {
        let held = self.machine.lock().await;
        let outbox = &held.as_ref().ok_or(Stopped)?.outbox;
        let entries = outbox.entries();
        let open = entries.filter(|(_, entry)| entry.progress != Progress::Closed);
        let open: Vec<OutboxEpoch> = open.map(|(number, _)| number).collect();
        self.metrics.show(outbox.head().number, &open);
        Ok(())
    }

    /// What the actuator or the journal remembers of the outbox.
    pub(crate) async fn remembered(
        self: &Arc<Self>,
        memory: Memory,
        head: Head,
    ) -> Result<(), Stopped> {
        let input = self.input(|machine, now, out| {
            machine.outbox.handle_remembered(memory, head, now, out);
        });
        input.await
    }

    /// A proven event of the journal.
    pub(crate) async fn heard(self: &Arc<Self>, event: &ProvenEvent) -> Result<(), Stopped> {
        match event.event() {
            Event::Authorized(_) => return self.used(event).await,
            Event::SubjectChanged(_) => return self.enrolled(event).await,
            _ => {}
        }
        let input = self.input(|machine, now, out| {
            if learn(&mut machine.known, event, self.key.public_key()) {
                machine.latched_at = event.index();
            }
            machine.outbox.handle_event(event, now, out);
        });
        input.await?;
        match event.event() {
            Event::GroundsReset(_) => self.reset().await,
            _ => Ok(()),
        }
    }

    /// What was reset stands no more, durably; a rule whose cause is still there trips again. A process that
    /// dies in between reads the leaf again.
    async fn reset(self: &Arc<Self>) -> Result<(), Stopped> {
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(Stopped)?;
        let mut out = Vec::new();
        let (epochs, posture) = (machine.epochs(), machine.outbox.posture());
        machine.judge.handle_reset(epochs, posture, &mut out);
        let run = driver::run_judge(self, machine, out).await;
        if run.is_err() {
            *held = None;
        }
        self.rescheduled.notify_one();
        run.map(drop)
    }

    /// A subject is another, durably, before the place in the journal moves on.
    async fn enrolled(&self, event: &ProvenEvent) -> Result<(), Stopped> {
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(Stopped)?;
        let Some(officer) = machine.officers.take(event) else {
            return Ok(());
        };
        let store = self.store.clone();
        let kept = world::blocking(move || store::keep_officer(&store, &officer)).await;
        if let Err(error) = kept {
            driver::fatal(&self.alarm, &error);
            *held = None;
            return Err(Stopped);
        }
        Ok(())
    }

    async fn used(self: &Arc<Self>, event: &ProvenEvent) -> Result<(), Stopped> {
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(Stopped)?;
        let mut out = Vec::new();
        machine.judge.handle_used(event, &mut out);
        let run = driver::run_judge(self, machine, out).await;
        if run.is_err() {
            *held = None;
        }
        run.map(drop)
    }

    /// What is in force has changed: REDs go to the nodes that there are now. True: the root has acted, and
    /// nothing more is said before the next start.
    pub(crate) async fn follow(self: &Arc<Self>, trust: &Trust) -> Result<bool, Stopped> {
        let roster = &trust.in_force().roster;
        self.couriers.follow(roster);
        let nodes: Vec<NodeId> = roster.nodes.iter().map(|it| it.node_id).collect();
        let input = self.input(|machine, now, out| {
            let before = machine.trust.in_force();
            let acted = before.root_acts != trust.in_force().root_acts;
            if before.roster.roster_epoch != roster.roster_epoch {
                machine.outbox.handle_roster(&nodes, now, out);
            }
            machine.trust = trust.clone();
            acted
        });
        input.await
    }

    /// State time that a majority is at.
    pub(crate) async fn state_time(self: &Arc<Self>, state_time: u64) -> Result<(), Stopped> {
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(Stopped)?;
        machine.state_time = machine.state_time.max(state_time);
        let mut out = Vec::new();
        machine.judge.handle_state_time(state_time, &mut out);
        let run = driver::run_judge(self, machine, out).await;
        if run.is_err() {
            *held = None;
        }
        run.map(drop)
    }

    /// Everything before leaf `next` was taken in. Returns what is known now.
    pub(crate) async fn read_to(&self, next: u64, keep: bool) -> Result<KnownV1, Stopped> {
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(Stopped)?;
        machine.known.next = machine.known.next.max(next);
        let known = machine.known;
        if keep {
            let (store, trust) = (self.store.clone(), machine.trust.kept().clone());
            let kept = world::blocking(move || store::keep_known(&store, &known, Some(&trust)));
            let kept = kept.await;
            if let Err(error) = kept {
                driver::fatal(&self.alarm, &error);
                *held = None;
                return Err(Stopped);
            }
        }
        Ok(known)
    }

    /// What is known of the journal, and where its highest proven latch stands.
    pub(crate) async fn known(&self) -> Result<(KnownV1, u64), Stopped> {
        let held = self.machine.lock().await;
        let machine = held.as_ref().ok_or(Stopped)?;
        Ok((machine.known, machine.latched_at))
    }

    /// Repeats what is due. Returns how long nothing will be.
    pub(crate) async fn tick(self: &Arc<Self>) -> Result<Option<Duration>, Stopped> {
        let due = self.quietly(|machine, now, out| {
            machine.outbox.handle_timeout(now, out);
            let due = machine.outbox.next_wakeup();
            due.map(|due| Duration::from_millis(due.saturating_sub(now).max(1)))
        });
        due.await
    }

    /// The next beat, sealed.
    pub(crate) async fn beat(&self) -> Result<Envelope, Stopped> {
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(Stopped)?;
        let beat = machine.beats.next(&machine.outbox);
        Ok(Envelope::seal(machine.trust.scope(), &self.key, &beat))
    }

    /// 32 fresh bytes.
    pub(crate) async fn draw(&self) -> Result<Digest, Stopped> {
        let mut held = self.machine.lock().await;
        Ok(held.as_mut().ok_or(Stopped)?.draw())
    }

    /// Whether something waits for the journal.
    pub(crate) async fn awaits(&self) -> bool {
        let held = self.machine.lock().await;
        held.as_ref()
            .is_some_and(|machine| machine.outbox.entries().next().is_some())
    }
}

/// Takes in what an event says of latches and of this sentinel's outbox. Leaves may be read again, so
/// nothing goes back. Says whether it was the next latch.
fn learn(known: &mut KnownV1, event: &ProvenEvent, own: redlatch_types::PublicKey) -> bool {
    let position = event.index();
    let in_chain = position >= known.chain_from;
    let mut advance = |number, root| {
        if in_chain && number > known.watermark.number {
            known.watermark = Head { number, root };
        }
    };
    match event.event() {
        Event::RedLatched(receipt, place, _, envelope) => {
            if *place == ChainPlace::Next && envelope.key == own {
                let root = receipt.sentinel_outbox_root_digest;
                advance(receipt.sentinel_outbox_epoch, root);
            }
            // A later one says nothing of one that nobody has shown.
            if receipt.latch_epoch == known.latches.next() {
                known.latches = receipt.latch_epoch;
                return true;
            }
        }
        Event::RedChained(number, root) => advance(*number, *root),
        Event::RootActed(act, ..) if act.replaces_sentinel() && in_chain => {
            known.watermark = Head::ZERO;
            known.chain_from = position.saturating_add(1);
        }
        _ => {}
    }
    false
}

/// What is known before the first leaf is read.
pub(crate) const NOTHING_KNOWN: KnownV1 = KnownV1 {
    next: 0,
    latches: LatchNumber(0),
    watermark: Head::ZERO,
    chain_from: 0,
};

fn request(order: &RaiseOrderV1, issued_at: u64) -> RedRequest {
    let mut verbs = order.verbs.clone();
    verbs.sort();
    verbs.dedup();
    RedRequest {
        verdict_id: order.order_id,
        scope: order.scope.clone(),
        verbs,
        rollback_plan: order.rollback_candidate_plan_digest_optional,
        source: match order.scope {
            redlatch_types::records::RedScope::Intent(intent) => Some(intent),
            _ => None,
        },
        reason: order.reason.clone(),
        issued_at,
    }
}

fn freeze(text: &str, policy: &Policy) -> Result<Freeze, NotProven> {
    let receipt = Receipt::parse(text.as_bytes()).map_err(ReceiptError::from)?;
    let verified = receipt::verify_for(&receipt, policy, Demand::Nodes)?;
    let event = ProvenEvent::of(&receipt, policy)?;
    let frozen_at = match event.event() {
        Event::Frozen(_, frozen_at, ..) => *frozen_at,
        _ => 0,
    };
    // Heads carry seconds, and a head over a freeze is not older than the freeze.
    let proven_at = verified.time_s.saturating_mul(1_000).max(frozen_at);
    Ok(Freeze { event, proven_at })
}

fn said_word(said: &Result<Result<Envelope, Silence>, Stopped>) -> String {
    match said {
        Ok(Ok(envelope)) => envelope
            .open::<redlatch_types::records::SentinelVerdictV1>()
            .map_or_else(
                |error| error.to_string(),
                |it| it.record().verdict.to_string(),
            ),
        Ok(Err(silence)) => format!("nothing: {silence}"),
        Err(Stopped) => "nothing: stopping".to_owned(),
    }
}
