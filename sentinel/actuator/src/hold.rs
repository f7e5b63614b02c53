//! HOLD: what the actuator denies at once, without a quorum (DESIGN §6, D2).
//!
//! ```text
//!   authentic RED ──────▶┐
//!   proven latch ───────▶├─ held scopes ──Persist──▶ answer to the sentinel
//!   no memory, gap, fork ▶┘       │
//!   live grounds, proven ──────▶ narrow, never below what is not yet in the journal
//!   reset of a ground, proven ─▶ that ground holds no more
//!                                 ▼
//!          permits(intent) = nothing held covers it ∧ fresh beat ∧ no RED outstanding
//! ```
//!
//! - An absent, truncated, altered or newer state reads as HOLD everything (FAULTS 24).
//! - HOLD rises in memory with the RED itself and is level-held: a RED that was there for one
//!   moment is held until the journal's live grounds, proven, no longer have it (FAULTS 23).
//! - Silence of the sentinel is no latch: it denies while it lasts (FAULTS 62). A beat that
//!   names a RED which has not arrived denies as well.
//! - Bounded: too many scopes are *everything* (FAULTS 94).
//!
//! HOLD does not stop the cluster and is not authority: it is what a gate asks beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use minicbor::{Decode, Encode};
use redlatch_types::event::{Event, Ground, GroundCause};
use redlatch_types::mandate::covers;
use redlatch_types::proven::ProvenEvent;
use redlatch_types::records::{
    PermitBeatV1, RedScope, SentinelBeatV1, SentinelLine, SovereignActionIntentV1,
};
use redlatch_types::{Bytes, Canonical, Digest, GroundNumber, OutboxEpoch, PublicKey};

use crate::verify_red::{AuthenticBeat, AuthenticRed};

/// Held scopes that are kept apart; beyond it everything is held.
pub const HELD_MAX: usize = 256;
/// Roots of past REDs that are remembered to tell a repeat from a fork.
pub const ROOTS_MAX: usize = 256;
/// Age of the last beat, by the actuator's monotonic clock, past which the sentinel is silent.
pub const BEAT_AGE_MAX_MS: u64 = 1_000;

/// Why a scope is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Cause {
    /// This RED.
    #[n(1)]
    Red(#[n(0)] OutboxEpoch),
    /// This ground of the journal.
    #[n(2)]
    Ground(#[n(0)] GroundNumber),
    /// REDs before this one did not arrive.
    #[n(3)]
    Gap(#[n(0)] OutboxEpoch),
    /// Two signed REDs cannot stand in one chain, or one cannot be read.
    #[n(4)]
    Fork(#[n(0)] OutboxEpoch),
    /// The stored state was absent, unreadable or of a sentinel before, or there was too much to keep apart.
    #[n(5)]
    NoMemory,
}

/// One held scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(map)]
pub struct HeldV1 {
    /// What is denied.
    #[n(0)]
    pub scope: RedScope,
    /// Why.
    #[n(1)]
    pub cause: Cause,
}

/// Number and root of a RED in the sentinel's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SeenV1 {
    /// Number; 0 before the first.
    #[n(0)]
    pub number: OutboxEpoch,
    /// Root after it.
    #[n(1)]
    pub root: Digest,
}

/// Before the first RED of a chain.
pub(crate) const NOTHING_SEEN: SeenV1 = SeenV1 {
    number: OutboxEpoch(0),
    root: Digest::ZERO,
};

/// What is stored.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct HoldStateV1 {
    #[n(0)]
    seen: SeenV1,
    #[n(1)]
    roots: BTreeMap<OutboxEpoch, Digest>,
    #[n(2)]
    held: Vec<HeldV1>,
    #[n(3)]
    narrowed_at_size: u64,
    #[n(4)]
    early: BTreeMap<OutboxEpoch, EarlyV1>,
    /// Whose chain it is.
    #[n(5)]
    sentinel: PublicKey,
}

/// A RED whose predecessors have not arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct EarlyV1 {
    #[n(0)]
    previous: Digest,
    #[n(1)]
    root: Digest,
}

/// The stored form: the state and its digest, so that a changed byte is no other state.
#[derive(Debug, Encode, Decode)]
#[cbor(map)]
struct SealedStateV1 {
    #[n(0)]
    state: Bytes,
    #[n(1)]
    digest: Digest,
}

/// The journal's live grounds at one read point. The shell makes it only from what a majority
/// of nodes vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveGrounds {
    /// Leaves of the tree at the read point.
    pub size: u64,
    /// The last RED latched in order.
    pub watermark: SeenV1,
    /// Every live ground.
    pub grounds: Vec<Ground>,
}

/// Why HOLD stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotNarrowed {
    /// A later read point was used before.
    #[error("the grounds are older than what HOLD already rests on")]
    Stale,
    /// Without memory, only the sentinel can say which REDs there are.
    #[error("the actuator lost its memory and the sentinel does not beat")]
    SentinelSilent,
    /// REDs are not latched yet, and which ones is not known here.
    #[error("the sentinel has REDs that the journal has not latched")]
    NotLatched,
    /// The journal follows another chain than this actuator.
    #[error("the journal's watermark is in another chain")]
    OtherChain,
}

/// The answer to a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing known here speaks against it.
    Permit,
    /// It must not be.
    Deny(Denial),
}

/// Why a gate must not act.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// A held scope covers it.
    #[error("held: {0}")]
    Held(Cause),
    /// No fresh beat of the sentinel.
    #[error("the sentinel is silent")]
    SentinelSilent,
    /// The sentinel has a RED that has not arrived.
    #[error("a RED has been signed that has not arrived")]
    RedOutstanding,
    /// The sentinel's outbox is behind what was seen of it, or another.
    #[error("the sentinel's outbox is not the one that was seen")]
    OutboxBehind,
}

/// What HOLD wants done, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Write and sync these bytes in place of the stored state.
    Persist(Vec<u8>),
    /// Answer the sentinel: everything up to here is stored.
    Stored(SeenV1),
}

#[derive(Debug, Clone)]
struct Heard {
    beat: SentinelBeatV1,
    at: u64,
}

impl Heard {
    fn is_fresh(&self, now: u64) -> bool {
        now.saturating_sub(self.at) <= BEAT_AGE_MAX_MS
    }
}

/// HOLD and what it rests on.
#[derive(Debug, Clone)]
pub struct Hold {
    state: HoldStateV1,
    held: BTreeSet<HeldV1>,
    heard: Option<Heard>,
    stored: Vec<u8>,
}

impl Hold {
    /// HOLD from the stored bytes, under the sentinel in force. Whatever cannot be read, a fresh install
    /// included, is HOLD everything; so is what was seen of a sentinel that the root has replaced since.
    pub fn load(stored: Option<&[u8]>, sentinel: PublicKey) -> Hold {
        let known = stored.and_then(read);
        let state = known.filter(|state| state.sentinel == sentinel);
        let state = state.unwrap_or_else(|| HoldStateV1 {
            seen: NOTHING_SEEN,
            roots: BTreeMap::new(),
            held: vec![everything(Cause::NoMemory)],
            narrowed_at_size: 0,
            early: BTreeMap::new(),
            sentinel,
        });
        Hold {
            held: state.held.iter().cloned().collect(),
            state,
            heard: None,
            stored: stored.unwrap_or_default().to_vec(),
        }
    }

    /// What is held.
    pub fn held(&self) -> impl Iterator<Item = &HeldV1> {
        self.held.iter()
    }

    /// The last RED seen.
    pub fn seen(&self) -> SeenV1 {
        self.state.seen
    }

    /// Holds what an authentic RED stops, stores it, answers. `source` are the frozen bytes of
    /// the intent that it names, if at hand: they narrow what would else be everything.
    pub fn handle_red(
        &mut self,
        red: &AuthenticRed,
        source: Option<&SovereignActionIntentV1>,
        out: &mut Vec<Effect>,
    ) {
        match red.entry() {
            None => self.hold(everything(Cause::Fork(OutboxEpoch(0)))),
            Some(entry) => {
                let now_seen = SeenV1 {
                    number: entry.outbox_epoch,
                    root: entry.signed_outbox_root_digest,
                };
                if !self.is_repeat(now_seen) {
                    self.place(now_seen, entry.previous_outbox_root_digest);
                    let cause = Cause::Red(now_seen.number);
                    for scope in red.scopes(source) {
                        self.hold(HeldV1 { scope, cause });
                    }
                }
            }
        }
        self.store(out);
        out.push(Effect::Stored(self.state.seen));
    }

    /// Holds what a proven latch freezes, whether or not its RED has arrived.
    pub fn handle_latch(&mut self, event: &ProvenEvent, out: &mut Vec<Effect>) {
        let Event::RedLatched(_, _, ground, _) = event.event() else {
            return;
        };
        // Whether it is still live, only grounds of a later read point can tell.
        if event.index() < self.state.narrowed_at_size {
            return;
        }
        self.hold_ground(ground);
        self.store(out);
    }

    /// Holds what an act of the root freezes. If it replaces the sentinel, the next start begins with HOLD
    /// everything.
    pub fn handle_root_act(&mut self, event: &ProvenEvent, out: &mut Vec<Effect>) {
        let Event::RootActed(_, ground, _) = event.event() else {
            return;
        };
        self.hold_ground(ground);
        self.store(out);
    }

    /// Ends what a proven reset names, ground by ground; a repeat finds nothing more to end. What is
    /// held for a RED itself waits for [`Hold::narrow`], which looks at every latch.
    pub fn handle_reset(&mut self, event: &ProvenEvent, out: &mut Vec<Effect>) {
        let Event::GroundsReset(grounds) = event.event() else {
            return;
        };
        let ended = |h: &HeldV1| matches!(h.cause, Cause::Ground(n) if grounds.contains(&n));
        self.held.retain(|h| !ended(h));
        self.store(out);
    }

    /// Hears a beat. A repeated or earlier one is no sign of life.
    pub fn handle_beat(&mut self, beat: &AuthenticBeat, now: u64) {
        let beat = beat.record();
        let order = |b: &SentinelBeatV1| (b.writer_generation, b.sequence);
        let newer = self
            .heard
            .as_ref()
            .is_none_or(|heard| order(beat) > order(&heard.beat));
        if newer {
            self.heard = Some(Heard {
                beat: beat.clone(),
                at: now,
            });
        }
    }

    /// Replaces what is held by the journal's live grounds and the REDs that are not yet
    /// latched there. Beside a reset the only way in which HOLD becomes less.
    ///
    /// # Errors
    /// [`NotNarrowed`]; HOLD has not become less.
    pub fn narrow(
        &mut self,
        live: &LiveGrounds,
        now: u64,
        out: &mut Vec<Effect>,
    ) -> Result<(), NotNarrowed> {
        let watermark = live.watermark.number;
        if live.size <= self.state.narrowed_at_size {
            return Err(NotNarrowed::Stale);
        }
        let root_here = self.state.roots.get(&watermark);
        if root_here.is_some_and(|root| *root != live.watermark.root) {
            self.hold(everything(Cause::Fork(watermark)));
            self.store(out);
            return Err(NotNarrowed::OtherChain);
        }
        if self.held.iter().any(|h| h.cause == Cause::NoMemory) {
            let heard = self.heard.as_ref().filter(|h| h.is_fresh(now));
            let heard = heard.ok_or(NotNarrowed::SentinelSilent)?;
            let last = heard.beat.outbox_epoch.max(self.state.seen.number);
            if last > watermark {
                return Err(NotNarrowed::NotLatched);
            }
        }
        // The journal freezes everything for a fork that it has seen: that ground takes over.
        let takes_over = |g: &Ground| matches!(g.cause, GroundCause::ChainBreak(_));
        let fork_is_frozen = live.grounds.iter().any(takes_over);
        self.held.retain(|h| match h.cause {
            Cause::Red(number) | Cause::Gap(number) => number > watermark,
            Cause::Fork(_) => !fork_is_frozen,
            Cause::Ground(_) | Cause::NoMemory => false,
        });
        live.grounds.iter().for_each(|g| self.hold_ground(g));
        self.state.narrowed_at_size = live.size;
        if live.watermark.number > self.state.seen.number {
            self.see(live.watermark);
        }
        self.store(out);
        Ok(())
    }

    /// Whether a gate may act on `intent`, as far as is known here.
    pub fn permits(&self, intent: &SovereignActionIntentV1, now: u64) -> Answer {
        if let Some(held) = self.held.iter().find(|h| covers(&h.scope, intent)) {
            return Answer::Deny(Denial::Held(held.cause));
        }
        match self.line(now) {
            SentinelLine::Beating => Answer::Permit,
            SentinelLine::Silent => Answer::Deny(Denial::SentinelSilent),
            SentinelLine::RedOutstanding => Answer::Deny(Denial::RedOutstanding),
            SentinelLine::Behind => Answer::Deny(Denial::OutboxBehind),
        }
    }

    /// What is heard of the sentinel; anything but beating denies everything.
    pub fn line(&self, now: u64) -> SentinelLine {
        let Some(heard) = self.heard.as_ref().filter(|h| h.is_fresh(now)) else {
            return SentinelLine::Silent;
        };
        let (beat, seen) = (&heard.beat, self.state.seen);
        if beat.outbox_epoch > seen.number {
            return SentinelLine::RedOutstanding;
        }
        if beat.outbox_epoch < seen.number || beat.outbox_root_digest != seen.root {
            return SentinelLine::Behind;
        }
        SentinelLine::Beating
    }

    /// The permit beat for a gate's nonce.
    pub fn permit_beat(&self, nonce: Digest, now: u64) -> PermitBeatV1 {
        let mut held: Vec<RedScope> = self.held.iter().map(|h| h.scope.clone()).collect();
        held.dedup();
        PermitBeatV1 {
            nonce,
            held,
            sentinel: self.line(now),
            seen_outbox_epoch: self.state.seen.number,
        }
    }

    /// Whether the journal's live grounds could make HOLD less: something is held on other grounds.
    pub fn could_narrow(&self) -> bool {
        let other = |h: &HeldV1| !matches!(h.cause, Cause::Ground(_));
        self.held.iter().any(other)
    }

    fn is_repeat(&self, red: SeenV1) -> bool {
        let known = self.state.roots.get(&red.number);
        let early = self.state.early.get(&red.number).map(|e| &e.root);
        match known.or(early) {
            Some(root) => *root == red.root,
            // Older than what is remembered, or latched before this actuator knew of it.
            None => red.number <= self.state.seen.number,
        }
    }

    /// Finds the RED's place in the chain; what is out of place holds everything.
    fn place(&mut self, red: SeenV1, previous: Digest) {
        let seen = self.state.seen;
        let known = self.state.roots.contains_key(&red.number);
        let next = red.number == seen.number.next();
        let forks = self.state.early.contains_key(&red.number) || next && previous != seen.root;
        if known || forks {
            self.hold(everything(Cause::Fork(red.number)));
        }
        if next {
            self.see(red);
        } else if red.number > seen.number {
            self.hold(everything(Cause::Gap(red.number)));
            let root = red.root;
            self.state
                .early
                .insert(red.number, EarlyV1 { previous, root });
            if self.state.early.len() > ROOTS_MAX {
                self.state.early.pop_last();
            }
        }
    }

    /// Moves on to `red`, and to those that were only waiting for it.
    fn see(&mut self, red: SeenV1) {
        let mut red = red;
        loop {
            self.state.seen = red;
            self.state.roots.insert(red.number, red.root);
            self.state.early.retain(|number, _| *number > red.number);
            while self.state.roots.len() > ROOTS_MAX {
                self.state.roots.pop_first();
            }
            let number = red.number.next();
            let Some(early) = self.state.early.remove(&number) else {
                return;
            };
            if early.previous != red.root {
                self.hold(everything(Cause::Fork(number)));
            }
            let root = early.root;
            red = SeenV1 { number, root };
        }
    }

    fn hold_ground(&mut self, ground: &Ground) {
        let cause = Cause::Ground(ground.number);
        for scope in &ground.scopes {
            let scope = scope.clone();
            self.hold(HeldV1 { scope, cause });
        }
    }

    fn hold(&mut self, held: HeldV1) {
        self.held.insert(held);
        if self.held.len() > HELD_MAX {
            // A fork is not forgotten: only a ground of the journal takes it over.
            let fork = |h: &HeldV1| matches!(h.cause, Cause::Fork(_));
            let fork = self.held.iter().find(|h| fork(h)).cloned();
            self.held = BTreeSet::from([everything(Cause::NoMemory)]);
            self.held.extend(fork);
        }
    }

    /// Persists, if something changed since the last time.
    fn store(&mut self, out: &mut Vec<Effect>) {
        self.state.held = self.held.iter().cloned().collect();
        let state = Bytes(self.state.to_canonical());
        let digest = Digest::of(&state.0);
        let bytes = SealedStateV1 { state, digest }.to_canonical();
        if bytes != self.stored {
            self.stored.clone_from(&bytes);
            out.push(Effect::Persist(bytes));
        }
    }
}

fn everything(cause: Cause) -> HeldV1 {
    HeldV1 {
        scope: RedScope::Everything,
        cause,
    }
}

/// `None` for anything that is not exactly what was stored.
fn read(bytes: &[u8]) -> Option<HoldStateV1> {
    let sealed = SealedStateV1::from_canonical(bytes).ok()?;
    if Digest::of(&sealed.state.0) != sealed.digest {
        return None;
    }
    HoldStateV1::from_canonical(&sealed.state.0).ok()
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Red(n) => write!(f, "RED {n}"),
            Cause::Ground(n) => write!(f, "ground {n} of the journal"),
            Cause::Gap(n) => write!(f, "REDs before {n} are missing"),
            Cause::Fork(n) => write!(f, "two chains at RED {n}, or one that cannot be read"),
            Cause::NoMemory => f.write_str("the actuator has no complete memory"),
        }
    }
}
