//! HOLD and attempts behind one lock: one input at a time, durable before anything is said or sent.
//!
//! ```text
//!   RED, beat (sentinel) ─▶┐                ┌─▶ what is stored, to the sentinel
//!   nonce (gate) ─────────▶├─ lock, no I/O ─┤   permit beat, signed
//!   leaves, proven ───────▶│  but the store └─▶ safety commands, to the nodes
//!   replies, time ────────▶┘
//! ```
//!
//! Nothing under the lock waits for a network, so a RED never does. A failure of the store takes the machine
//! away for good and the process ends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use redlatch_link::follow::Trust;
use redlatch_link::nodes::Nodes;
use redlatch_link::store::Store;
use redlatch_link::world::{self, Monotonic};
use redlatch_types::event::{Accepted, ChainPlace, Event, Ground};
use redlatch_types::proven::ProvenEvent;
use redlatch_types::records::SovereignActionIntentV1;
use redlatch_types::{
    AutonomyEpoch, Canonical, Digest, Envelope, GroundNumber, IntentDigest, LatchNumber, Refusal,
    Scope, SigningKey,
};
use tokio::sync::{Mutex, Notify};

use crate::alarm::Alarm;
use crate::attempts::{self, Attempts, LatchRefused};
use crate::driver;
use crate::hold::{self, Hold, LiveGrounds, NOTHING_SEEN, NotNarrowed, SeenV1};
use crate::metrics::ActuatorMetrics;
use crate::store::{self, KnownV1};
use crate::verify_red::{NotAuthentic, RedVerifier};

/// Frozen intents whose bytes are kept in memory, so that a RED on one of them holds no more than it must.
const INTENTS_MAX: usize = 4_096;

/// The machine is gone: the process is about to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

/// Why the sentinel's word counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotHeard {
    /// No envelope.
    #[error("not canonical")]
    NotCanonical,
    /// Somebody else's.
    #[error(transparent)]
    NotAuthentic(#[from] NotAuthentic),
    /// The actuator is about to end.
    #[error("the actuator is stopping")]
    Stopping,
}

/// Bytes of frozen intents, by digest; the oldest go first.
#[derive(Default)]
struct Intents {
    by_digest: BTreeMap<IntentDigest, SovereignActionIntentV1>,
    order: VecDeque<IntentDigest>,
}

impl Intents {
    fn keep(&mut self, intent: SovereignActionIntentV1) {
        let digest = intent.digest();
        if self.by_digest.insert(digest, intent).is_none() {
            self.order.push_back(digest);
        }
        if self.order.len() > INTENTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_digest.remove(&oldest);
        }
    }
}

/// What one actuator is.
pub(crate) struct Machine {
    pub(crate) hold: Hold,
    pub(crate) attempts: Attempts,
    rng: ChaCha20Rng,
    intents: Intents,
    /// Every ground that is not reset.
    grounds: BTreeMap<GroundNumber, Ground>,
    /// What became of grounds and is not kept yet.
    fresh: Vec<(GroundNumber, Option<Ground>)>,
    /// Every latch up to here is proven.
    latches: LatchNumber,
    /// Where the last of them stands; the beginning, if that is not known.
    latched_at: u64,
    watermark: SeenV1,
    /// Leaves before this one are of a sentinel that the root has replaced.
    chain_from: u64,
    /// Where the leaves of latches that are not over begin.
    open: BTreeMap<LatchNumber, u64>,
}

impl Machine {
    pub(crate) fn new(
        hold: Hold,
        attempts: Attempts,
        rng: ChaCha20Rng,
        grounds: BTreeMap<GroundNumber, Ground>,
        known: Option<KnownV1>,
    ) -> Machine {
        Machine {
            hold,
            attempts,
            rng,
            intents: Intents::default(),
            grounds,
            fresh: Vec::new(),
            latches: known.map(|known| known.latches).unwrap_or_default(),
            latched_at: 0,
            watermark: known.map_or(NOTHING_SEEN, |known| known.watermark),
            chain_from: known.map_or(0, |known| known.chain_from),
            open: BTreeMap::new(),
        }
    }
}

/// What handlers and drivers share.
pub(crate) struct Desk<S> {
    pub(crate) store: S,
    pub(crate) scope: Scope,
    pub(crate) key: SigningKey,
    pub(crate) verifier: RedVerifier,
    /// The nodes of the roster in force.
    pub(crate) nodes: RwLock<Nodes>,
    pub(crate) alarm: Alarm,
    pub(crate) metrics: ActuatorMetrics,
    pub(crate) begun: Monotonic,
    pub(crate) machine: Mutex<Option<Machine>>,
    /// The next time at which something is due may have changed.
    pub(crate) rescheduled: Notify,
    /// The journal may have something new.
    pub(crate) news: Notify,
}

impl<S: Store> Desk<S> {
    /// Milliseconds of this process's monotonic clock.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The nodes of the roster in force.
    pub(crate) fn nodes(&self) -> Nodes {
        self.nodes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// From here on commands go to these nodes.
    pub(crate) fn follow(&self, nodes: Nodes) {
        *self.nodes.write().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    /// Holds what a segment stops. What is stored after it is the answer to the sentinel.
    pub(crate) async fn red(self: &Arc<Self>, segment: &[Vec<u8>]) -> Result<SeenV1, NotHeard> {
        let mut reds = Vec::new();
        for bytes in segment {
            let envelope = Envelope::from_canonical(bytes).map_err(|_| NotHeard::NotCanonical)?;
            reds.push(self.verifier.red(&envelope)?);
        }
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(NotHeard::Stopping)?;
        let mut out = Vec::new();
        for red in &reds {
            let source = red.source();
            let source = source.and_then(|intent| machine.intents.by_digest.get(&intent));
            machine.hold.handle_red(red, source, &mut out);
        }
        let before = machine.hold.seen();
        let stores = |effect: &&hold::Effect| matches!(effect, hold::Effect::Persist(_));
        let taken = out.iter().filter(stores).count();
        match driver::run_hold(self, out).await {
            Ok(stored) => {
                self.metrics.took(taken);
                machine.show(&self.metrics);
                self.news.notify_one();
                Ok(stored.unwrap_or(before))
            }
            Err(Stopped) => {
                *held = None;
                Err(NotHeard::Stopping)
            }
        }
    }

    /// Hears a beat.
    pub(crate) async fn beat(&self, beat: &[u8]) -> Result<SeenV1, NotHeard> {
        let envelope = Envelope::from_canonical(beat).map_err(|_| NotHeard::NotCanonical)?;
        let beat = self.verifier.beat(&envelope)?;
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(NotHeard::Stopping)?;
        machine.hold.handle_beat(&beat, self.now());
        self.metrics.heard_beat();
        Ok(machine.hold.seen())
    }

    /// The permit beat, signed.
    pub(crate) async fn permit(&self, nonce: Digest) -> Result<Envelope, Stopped> {
        let held = self.machine.lock().await;
        let machine = held.as_ref().ok_or(Stopped)?;
        let beat = machine.hold.permit_beat(nonce, self.now());
        drop(held);
        self.metrics.permitted();
        Ok(Envelope::seal(self.scope, &self.key, &beat))
    }

    /// Keeps the bytes of a frozen intent. Its digest is its proof.
    pub(crate) async fn frozen(&self, intent: SovereignActionIntentV1) -> Result<(), Stopped> {
        let mut held = self.machine.lock().await;
        held.as_mut().ok_or(Stopped)?.intents.keep(intent);
        Ok(())
    }

    /// A proven leaf. `Some(intent)`: these frozen bytes are needed, then the leaf again.
    pub(crate) async fn heard(
        self: &Arc<Self>,
        event: &ProvenEvent,
    ) -> Result<Option<IntentDigest>, Stopped> {
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(Stopped)?;
        let mut holding = Vec::new();
        machine.hold.handle_latch(event, &mut holding);
        machine.hold.handle_reset(event, &mut holding);
        machine.hold.handle_root_act(event, &mut holding);
        let mut acting = Vec::new();
        let missing = machine.take_in(event, &self.verifier, self.now(), &mut acting);
        self.run(&mut held, holding, acting).await?;
        Ok(missing)
    }

    /// This autonomy epoch is in force.
    pub(crate) async fn in_force(self: &Arc<Self>, epoch: AutonomyEpoch) -> Result<(), Stopped> {
        let mut held = self.machine.lock().await;
        let Machine { attempts, rng, .. } = held.as_mut().ok_or(Stopped)?;
        let mut out = Vec::new();
        attempts.handle_in_force(epoch, self.now(), &mut || draw(rng), &mut out);
        self.run(&mut held, Vec::new(), out).await
    }

    /// A node's answer to a command.
    pub(crate) async fn reply(
        self: &Arc<Self>,
        latch: LatchNumber,
        attempt: Digest,
        reply: &Result<Accepted, Refusal>,
    ) -> Result<(), Stopped> {
        let mut held = self.machine.lock().await;
        let Machine { attempts, rng, .. } = held.as_mut().ok_or(Stopped)?;
        let mut out = Vec::new();
        let now = self.now();
        attempts.handle_reply(latch, attempt, reply, now, &mut || draw(rng), &mut out);
        self.run(&mut held, Vec::new(), out).await
    }

    /// Repeats what is due. Returns how long nothing will be.
    pub(crate) async fn tick(self: &Arc<Self>) -> Result<Option<Duration>, Stopped> {
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(Stopped)?;
        let mut out = Vec::new();
        machine.attempts.handle_timeout(self.now(), &mut out);
        let due = machine.attempts.next_wakeup();
        self.quietly(&mut held, Vec::new(), out).await?;
        Ok(due.map(|due| Duration::from_millis(due.saturating_sub(self.now()).max(1))))
    }

    /// Everything before leaf `next` was taken in; keeps what it taught. The place that is kept lies before
    /// every leaf of a latch that is not over, so that a restart reads those again.
    pub(crate) async fn read_to(&self, next: u64, trust: Option<&Trust>) -> Result<(), Stopped> {
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(Stopped)?;
        let fresh = std::mem::take(&mut machine.fresh);
        let open = machine.open.values().min().copied();
        let known = KnownV1 {
            next: open.unwrap_or(next).min(next),
            watermark: machine.watermark,
            latches: machine.latches,
            chain_from: machine.chain_from,
        };
        let (store, trust) = (self.store.clone(), trust.map(|it| it.kept().clone()));
        let keep = move || store::keep_known(&store, &known, &fresh, trust.as_ref());
        let kept = world::blocking(keep).await;
        if let Err(error) = kept {
            driver::fatal(&self.alarm, &error);
            *held = None;
            return Err(Stopped);
        }
        Ok(())
    }

    /// Where the leaves of latches that are not over begin.
    pub(crate) async fn first_open(&self) -> Option<u64> {
        let held = self.machine.lock().await;
        held.as_ref()?.open.values().min().copied()
    }

    /// The latch up to which every one is proven here, and where it stands.
    pub(crate) async fn latches(&self) -> Result<(LatchNumber, u64), Stopped> {
        let held = self.machine.lock().await;
        let machine = held.as_ref().ok_or(Stopped)?;
        Ok((machine.latches, machine.latched_at))
    }

    /// Whether the journal's grounds could make HOLD less, and whether a stop is under way.
    pub(crate) async fn waits(&self) -> (bool, bool) {
        let held = self.machine.lock().await;
        held.as_ref().map_or((false, false), |machine| {
            let working = machine.attempts.works().next().is_some();
            (machine.hold.could_narrow(), working)
        })
    }

    /// Makes HOLD what the journal's live grounds say, as of a read point at which every latch is known here.
    /// False: it stays wider.
    pub(crate) async fn narrow(self: &Arc<Self>, size: u64) -> Result<bool, Stopped> {
        let mut held = self.machine.lock().await;
        let machine = held.as_mut().ok_or(Stopped)?;
        let live = LiveGrounds {
            size,
            watermark: machine.watermark,
            grounds: machine.grounds.values().cloned().collect(),
        };
        let mut out = Vec::new();
        let narrowed = machine.hold.narrow(&live, self.now(), &mut out);
        match &narrowed {
            Ok(()) => {
                let scopes = machine.hold.held().count();
                tracing::info!(size, scopes, "HOLD is what the journal's live grounds say");
            }
            Err(not_narrowed) => tracing::debug!(%not_narrowed, "HOLD stays as it is"),
        }
        self.run(&mut held, out, Vec::new()).await?;
        Ok(matches!(narrowed, Ok(()) | Err(NotNarrowed::Stale)))
    }

    /// Carries effects out; takes the machine away if something could not be made durable.
    async fn run(
        self: &Arc<Self>,
        held: &mut Option<Machine>,
        holding: Vec<hold::Effect>,
        acting: Vec<attempts::Effect>,
    ) -> Result<(), Stopped> {
        let done = self.quietly(held, holding, acting).await;
        self.rescheduled.notify_one();
        done
    }

    /// The same without waking whoever repeats: for the repeats themselves, which would never rest.
    async fn quietly(
        self: &Arc<Self>,
        held: &mut Option<Machine>,
        holding: Vec<hold::Effect>,
        acting: Vec<attempts::Effect>,
    ) -> Result<(), Stopped> {
        let done = match driver::run_hold(self, holding).await {
            Ok(_) => driver::run_attempts(self, acting).await,
            Err(Stopped) => Err(Stopped),
        };
        match held.as_ref().filter(|_| done.is_ok()) {
            Some(machine) => machine.show(&self.metrics),
            None => *held = None,
        }
        done
    }
}

impl Machine {
    /// The current attempt at each latch whose stop is not complete.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = (LatchNumber, Digest)> {
        let works = self.attempts.works();
        works.map(|work| (work.latch.latch_epoch, work.attempt.digest()))
    }

    /// Shows what is held.
    pub(crate) fn show(&self, metrics: &ActuatorMetrics) {
        metrics.holds(self.hold.seen().number, self.hold.held().count());
    }

    /// Moves on by a proven leaf.
    fn take_in(
        &mut self,
        event: &ProvenEvent,
        verifier: &RedVerifier,
        now: u64,
        out: &mut Vec<attempts::Effect>,
    ) -> Option<IntentDigest> {
        match event.event() {
            Event::RedLatched(..) => return self.latched(event, verifier, now, out),
            Event::RedChained(number, root) => {
                let (number, root) = (*number, *root);
                self.advance(event.index(), SeenV1 { number, root });
            }
            Event::SafetyTerminal(latch, _) => {
                self.open.remove(latch);
            }
            Event::GroundsReset(grounds) => self.reset(grounds),
            Event::RootActed(act, ground, _) => {
                self.ground(ground);
                if act.replaces_sentinel() && event.index() >= self.chain_from {
                    self.watermark = NOTHING_SEEN;
                    self.chain_from = event.index().saturating_add(1);
                }
            }
            _ => {}
        }
        let Machine { attempts, rng, .. } = self;
        attempts.handle_event(event, now, &mut || draw(rng), out);
        None
    }

    fn advance(&mut self, position: u64, to: SeenV1) {
        if position >= self.chain_from && to.number > self.watermark.number {
            self.watermark = to;
        }
    }

    /// This ground is live.
    fn ground(&mut self, ground: &Ground) {
        let known = self.grounds.insert(ground.number, ground.clone());
        if known.is_none() {
            self.fresh.push((ground.number, Some(ground.clone())));
        }
    }

    /// These grounds are live no more. That there were latches on them stays known.
    fn reset(&mut self, numbers: &[GroundNumber]) {
        for number in numbers {
            if self.grounds.remove(number).is_some() {
                self.fresh.push((*number, None));
            }
        }
    }

    fn latched(
        &mut self,
        event: &ProvenEvent,
        verifier: &RedVerifier,
        now: u64,
        out: &mut Vec<attempts::Effect>,
    ) -> Option<IntentDigest> {
        let Event::RedLatched(receipt, place, ground, envelope) = event.event() else {
            return None;
        };
        let latch = receipt.latch_epoch;
        self.ground(ground);
        // A later one says nothing of one that nobody has shown.
        if latch == self.latches.next() {
            self.latches = latch;
            self.latched_at = event.index();
        }
        // Leaves may be read again; the end of the latch, if there is one, comes after this leaf.
        self.open.insert(latch, event.index());
        if *place == ChainPlace::Next {
            let seen = SeenV1 {
                number: receipt.sentinel_outbox_epoch,
                root: receipt.sentinel_outbox_root_digest,
            };
            self.advance(event.index(), seen);
        }
        let red = verifier.latched(envelope).ok();
        let source = red.and_then(|red| self.intents.by_digest.get(&red.source()?));
        let Machine { attempts, rng, .. } = self;
        let mut draw = || draw(rng);
        match attempts.handle_latch(event, verifier, source, now, &mut draw, out) {
            Ok(()) => None,
            Err(LatchRefused::SourceMissing(intent)) => Some(intent),
            Err(refused) => {
                tracing::error!(%latch, %refused, "no attempt is made; what is held stays held");
                None
            }
        }
    }
}

fn draw(rng: &mut ChaCha20Rng) -> Digest {
    let mut bytes = Digest::ZERO;
    rng.fill_bytes(&mut bytes.0);
    bytes
}
