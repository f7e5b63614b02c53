//! An actuator with its disk, whose effects can be cut off by a crash.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a bench for tests: each file uses another part of it"
)]

#[path = "../../../core/tests/world/mod.rs"]
pub mod world;

use std::collections::BTreeMap;

use redlatch_actuator::attempts::{self, Alarm, Attempts, SafetyCommand, Signer};
use redlatch_actuator::hold::{self, Hold, SeenV1};
use redlatch_actuator::verify_red::RedVerifier;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::*;
use redlatch_types::*;
use world::{ACTUATOR, SENTINEL, key, prove};

/// Of an organism whose root has never acted.
pub fn verifier(scope: Scope) -> RedVerifier {
    RedVerifier {
        scope,
        sentinel: key(SENTINEL).public_key(),
        former: Vec::new(),
    }
}

/// A command on its way, with what its answer must carry.
#[derive(Debug, Clone)]
pub struct Submitted {
    pub latch: LatchNumber,
    pub attempt: Digest,
    pub command: SafetyCommand,
}

pub struct Actuator {
    pub verifier: RedVerifier,
    pub key: u8,
    pub pin: Digest,
    pub epoch: AutonomyEpoch,
    pub hold: Hold,
    pub attempts: Attempts,
    pub hold_disk: Option<Vec<u8>>,
    pub attempt_disk: BTreeMap<LatchNumber, Vec<u8>>,
    pub now: u64,
    pub submitted: Vec<Submitted>,
    pub answers: Vec<SeenV1>,
    pub asks: Vec<Option<LatchNumber>>,
    pub alarms: Vec<Alarm>,
    /// Effects that are still run; then the process is gone.
    pub runs: Option<usize>,
    draws: u64,
}

fn signer(scope: Scope, own: u8, pin: Digest) -> Signer {
    Signer {
        scope,
        key: key(own),
        pin,
    }
}

impl Actuator {
    pub fn new(world: &world::World) -> Actuator {
        Actuator::begun(world, ACTUATOR, Vec::new())
    }

    /// A new one, on an empty disk, under what is in force in the journal; these sentinels were before.
    pub fn begun(world: &world::World, own: u8, former: Vec<PublicKey>) -> Actuator {
        let governance = world.governance();
        let verifier = RedVerifier {
            scope: world.scope(),
            sentinel: governance.roster.sentinel.key,
            former,
        };
        let (pin, epoch) = (
            governance.roster.actuator.pin_digest(),
            governance.epoch.autonomy_epoch,
        );
        let mut out = Vec::new();
        let signer = signer(verifier.scope, own, pin);
        let (attempts, _) = Attempts::open(signer, epoch, [], 0, &mut out);
        let mut actuator = Actuator {
            key: own,
            pin,
            epoch,
            hold: Hold::load(None, verifier.sentinel),
            verifier,
            attempts,
            hold_disk: None,
            attempt_disk: BTreeMap::new(),
            now: 0,
            submitted: Vec::new(),
            answers: Vec::new(),
            asks: Vec::new(),
            alarms: Vec::new(),
            runs: None,
            draws: 0,
        };
        actuator.run_attempts(out);
        actuator
    }

    /// Whether one more effect is run before the crash.
    fn lives(&mut self) -> bool {
        match &mut self.runs {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    pub fn run_attempts(&mut self, out: Vec<attempts::Effect>) {
        for effect in out {
            if !self.lives() {
                return;
            }
            match effect {
                attempts::Effect::Persist(record) => {
                    let latch = record.latch.latch_epoch;
                    self.attempt_disk.insert(latch, record.to_canonical());
                }
                attempts::Effect::Forget(latch) => {
                    self.attempt_disk.remove(&latch);
                }
                attempts::Effect::Submit {
                    latch,
                    attempt,
                    command,
                } => self.submitted.push(Submitted {
                    latch,
                    attempt,
                    command,
                }),
                attempts::Effect::Ask(latch) => self.asks.push(Some(latch)),
                attempts::Effect::AskLive => self.asks.push(None),
                attempts::Effect::Alarm(alarm) => self.alarms.push(alarm),
            }
        }
    }

    pub fn run_hold(&mut self, out: Vec<hold::Effect>) {
        for effect in out {
            if !self.lives() {
                return;
            }
            match effect {
                hold::Effect::Persist(bytes) => self.hold_disk = Some(bytes),
                hold::Effect::Stored(seen) => self.answers.push(seen),
            }
        }
    }

    pub fn restart(&mut self) {
        self.runs = None;
        self.submitted.clear();
        self.answers.clear();
        self.asks.clear();
        self.hold = Hold::load(self.hold_disk.as_deref(), self.verifier.sentinel);
        let mut out = Vec::new();
        let stored = self.attempt_disk.values().map(Vec::as_slice);
        let signer = signer(self.verifier.scope, self.key, self.pin);
        let (attempts, unreadable) = Attempts::open(signer, self.epoch, stored, self.now, &mut out);
        assert_eq!(unreadable, []);
        self.attempts = attempts;
        self.run_attempts(out);
    }

    pub fn red(&mut self, envelope: &Envelope, source: Option<&SovereignActionIntentV1>) {
        let red = self.verifier.red(envelope).unwrap();
        let mut out = Vec::new();
        self.hold.handle_red(&red, source, &mut out);
        self.run_hold(out);
    }

    /// Shows one proven event to both halves. `source` finds frozen intents.
    pub fn event(&mut self, event: &Event, source: Option<&SovereignActionIntentV1>) {
        let proven = prove(self.verifier.scope, event);
        let mut out = Vec::new();
        self.hold.handle_latch(&proven, &mut out);
        self.hold.handle_reset(&proven, &mut out);
        self.hold.handle_root_act(&proven, &mut out);
        self.run_hold(out);
        let mut out = Vec::new();
        let mut draw = draws(&mut self.draws);
        if matches!(event, Event::RedLatched(..)) {
            let begun = self.attempts.handle_latch(
                &proven,
                &self.verifier,
                source,
                self.now,
                &mut draw,
                &mut out,
            );
            begun.unwrap();
        } else {
            self.attempts
                .handle_event(&proven, self.now, &mut draw, &mut out);
        }
        drop(draw);
        self.run_attempts(out);
    }

    pub fn reply(&mut self, to: &Submitted, reply: &Result<Accepted, Refusal>) {
        let mut out = Vec::new();
        let mut draw = draws(&mut self.draws);
        let (latch, attempt) = (to.latch, to.attempt);
        self.attempts
            .handle_reply(latch, attempt, reply, self.now, &mut draw, &mut out);
        drop(draw);
        self.run_attempts(out);
    }

    pub fn timeout(&mut self) {
        if let Some(due) = self.attempts.next_wakeup() {
            self.now = self.now.max(due);
            let mut out = Vec::new();
            self.attempts.handle_timeout(self.now, &mut out);
            self.run_attempts(out);
        }
    }

    pub fn holds(&self, scope: &RedScope) -> bool {
        self.hold
            .held()
            .any(|h| h.scope == *scope || h.scope == RedScope::Everything)
    }
}

fn draws(serial: &mut u64) -> impl FnMut() -> Digest {
    move || {
        *serial += 1;
        Digest::of_parts(&[b"draw", &serial.to_be_bytes()])
    }
}

/// The latch that an event belongs to, if one.
pub fn latch_of(event: &Event) -> Option<LatchNumber> {
    match event {
        Event::RedLatched(receipt, ..) => Some(receipt.latch_epoch),
        Event::SafetyIntentStored(attempt) => Some(attempt.latch_epoch),
        Event::SafetyPrepared(_, capability, _) => Some(capability.latch_epoch),
        Event::LatchCommitting(latch, _) | Event::SafetyTerminal(latch, _) => Some(*latch),
        Event::SafetyCommitted(marker) => Some(marker.latch_epoch),
        Event::OutboxAcknowledged(latch, _) => Some(*latch),
        _ => None,
    }
}
