//! Random orders of everything that may happen: what must hold after every single command.
//!
//! A step is drawn as three numbers and made sense of in the state it meets, so that most steps
//! are about something that exists; the rest are refused, which must change nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use redlatch_journal::authority::IntentStage;
use redlatch_journal::planted::Bug;
use redlatch_journal::{EntryId, State};
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

/// One step: what kind, and about which of the things that there are.
type Step = (u8, u8, u8);

/// The world with what the steps have made in it.
struct Play {
    world: World,
    outbox: Outbox,
    intents: Vec<IntentDigest>,
    capabilities: BTreeMap<IntentDigest, CapabilityId>,
    transactions: Vec<TransactionId>,
    latches: Vec<LatchNumber>,
    stops: Vec<TransactionId>,
    sent: Vec<RawCommand>,
}

fn pick<T: Clone>(of: &[T], n: u8) -> Option<T> {
    (!of.is_empty()).then(|| of[usize::from(n) % of.len()].clone())
}

impl Play {
    fn new() -> Play {
        Play {
            world: World::new(),
            outbox: Outbox::new(),
            intents: Vec::new(),
            capabilities: BTreeMap::new(),
            transactions: Vec::new(),
            latches: Vec::new(),
            stops: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// The command of a step, if it can be made at all.
    fn command(&mut self, (kind, a, b): Step) -> Option<RawCommand> {
        let reference = ["refs/heads/a", "refs/heads/b"][usize::from(a % 2)];
        match kind % 16 {
            0 => {
                let proposal = self.world.proposal("agent", reference, 0, b.max(1));
                Some(self.world.freeze_command(AGENT, "agent", &proposal))
            }
            1 => self.authorization(a, b),
            2 => {
                let intent = pick(&self.intents, a)?;
                let capability = *self.capabilities.get(&intent)?;
                Some(RawCommand::Prepare(intent, capability))
            }
            3 => Some(RawCommand::Commit(pick(&self.transactions, a)?)),
            4 => {
                let reasons = [
                    AbortReason::Expired,
                    AbortReason::RedLatched,
                    AbortReason::Frozen,
                    AbortReason::EpochFenced,
                ];
                let id = pick(&self.transactions, a)?;
                Some(RawCommand::Abort(id, pick(&reasons, b)?))
            }
            5 => {
                let id = pick(&self.transactions, a)?;
                self.world.state.authority.transactions.get(&id)?;
                Some(self.world.claim(id, self.marker(&id)?))
            }
            6 => {
                let id = pick(&self.transactions, a)?;
                self.world.state.authority.transactions.get(&id)?;
                let outcome = pick(OutcomeKind::ALL, b)?;
                Some(self.world.outcome(id, self.marker(&id)?, outcome, b))
            }
            7 => {
                let scopes = [
                    RedScope::Everything,
                    RedScope::Subject(id("agent")),
                    RedScope::Subject(id("nobody")),
                    RedScope::ActionClass(ActionClass::ReleasePromote),
                ];
                let scope = pick(&scopes, a)?;
                let scope = match pick(&self.intents, b) {
                    Some(intent) if a % 5 == 4 => RedScope::Intent(intent),
                    _ => scope,
                };
                Some(self.outbox.red(&self.world, &scope))
            }
            8 => {
                let latch = pick(&self.latches, a)?;
                self.world.state.authority.latches.get(&latch)?;
                let attempt = self.world.attempt(latch);
                Some(RawCommand::StoreSafetyIntent(Box::new(attempt)))
            }
            9 => {
                let latch = pick(&self.latches, a)?;
                let held = self.world.state.authority.latches.get(&latch)?;
                let attempt = held.attempt.as_ref()?.intent.clone();
                Some(self.world.capability_command(&attempt, ACTUATOR))
            }
            10 => Some(RawCommand::ClaimSafety(pick(&self.stops, a)?)),
            11 => Some(RawCommand::FinishSafety(pick(&self.stops, a)?)),
            12 => Some(self.world.ack(pick(&self.latches, a)?, u64::from(b % 4))),
            13 => {
                let ahead = [1_000, MINUTE, 5 * MINUTE, 61 * MINUTE][usize::from(a % 4)];
                let time = self.world.now() + ahead;
                let readings = self.world.readings(&[(1, time), (2, time)]);
                let number = self.world.state.authority.clock.tick.next();
                Some(RawCommand::Tick(number, readings))
            }
            14 => pick(&self.sent, a),
            _ => Some(RawCommand::Checkpoint),
        }
    }

    fn marker(&self, id: &TransactionId) -> Option<MarkerNumber> {
        self.world.events.iter().find_map(|event| match event {
            Event::Committed(marker) if marker.transaction_id == *id => Some(marker.marker),
            _ => None,
        })
    }

    fn authorization(&mut self, a: u8, b: u8) -> Option<RawCommand> {
        let intent = pick(&self.intents, a)?;
        self.world.state.authority.intents.get(&intent)?;
        let votes: Vec<_> = match b % 4 {
            0 => approvals()[..2].to_vec(),
            _ => approvals(),
        };
        let given = self.world.authorization(intent, &votes);
        Some(RawCommand::Authorize(Box::new(given)))
    }

    /// Applies a step, remembers what it made, and checks what must hold.
    fn step(&mut self, step: Step) {
        let Some(command) = self.command(step) else {
            return;
        };
        let before = self.world.state.authority.clone();
        let outcome = self.world.apply(command.clone());
        if outcome.reply.is_err() {
            let mut after = self.world.state.authority.clone();
            after.audits = before.audits.clone();
            after.stepped = before.stepped.clone();
            let withheld = matches!(outcome.events[..], [Event::EffectWithheld(..)]);
            assert!(withheld || after == before, "a refusal changed the state");
        }
        self.sent.push(command);
        for event in &outcome.events {
            self.remember(event);
        }
        match outcome.reply {
            Ok(Accepted::Latched(numbers)) => self.latches.extend(numbers),
            Ok(Accepted::Authorized(capability)) => {
                if let Some(Event::Authorized(body)) = outcome.events.first() {
                    let intent = body.decision.binding.intent_digest;
                    self.capabilities.insert(intent, capability);
                }
            }
            _ => {}
        }
        nothing_positive_in_a_stopped_scope(&before, &outcome.events);
    }

    fn remember(&mut self, event: &Event) {
        match event {
            Event::Frozen(digest, ..) => self.intents.push(*digest),
            Event::Prepared(id, _) => self.transactions.push(*id),
            Event::SafetyPrepared(id, ..) => self.stops.push(*id),
            _ => {}
        }
    }
}

/// What must hold of a whole history.
fn history_holds(world: &World) {
    let mut markers = BTreeSet::new();
    let mut decided = BTreeSet::new();
    let mut claimed = BTreeSet::new();
    let mut epoch = AutonomyEpoch(0);
    for event in &world.events {
        match event {
            Event::Committed(marker) => assert!(markers.insert(marker.marker)),
            Event::SafetyCommitted(marker) => assert!(markers.insert(marker.marker)),
            Event::Authorized(body) => {
                assert!(
                    decided.insert(body.decision.binding.intent_digest),
                    "M1-I33"
                );
            }
            Event::LatchCommitting(latch, _) => assert!(claimed.insert(*latch), "M1-I36"),
            Event::EpochPublished(next) => {
                assert!(next.autonomy_epoch > epoch);
                epoch = next.autonomy_epoch;
            }
            _ => {}
        }
    }
    let numbers: Vec<u64> = markers.iter().map(|m| m.0).collect();
    assert!(
        numbers.iter().zip(1..).all(|(m, n)| *m == n),
        "no gap in {numbers:?}"
    );
    for intent in world.state.authority.intents.values() {
        if let IntentStage::InTransaction(id) = &intent.stage {
            assert!(world.state.authority.transactions.contains_key(id));
        }
    }
}

/// Plays the steps and looks at everything.
fn play(steps: Vec<Step>) {
    let mut play = Play::new();
    for step in steps {
        play.step(step);
    }
    let world = &play.world;
    history_holds(world);

    let mut replayed = State::new();
    for leaf in &world.leaves {
        replayed.replay(leaf).expect("its own leaf");
    }
    let mut live = world.state.authority.clone();
    live.stepped.clear();
    assert_eq!(replayed.authority.digest(), live.digest());
    assert_eq!(replayed.head(), world.state.head());

    let mut again = State::new();
    for (entry, index) in world.entries.iter().zip(1..) {
        let at = EntryId {
            term: 1,
            leader: 1,
            index,
        };
        again.apply(at, entry);
    }
    assert_eq!(again.digest(), world.state.digest());
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(any::<Step>(), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Every order: refusals change nothing, stops stop, and leaves rebuild the same state.
    #[test]
    fn whatever_comes_in_whatever_order_the_rules_hold_and_replay_agrees(steps in steps()) {
        play(steps);
    }
}

/// The same orders notice what goes wrong: on a fixed stream of numbers, so that it is no luck.
#[test]
fn random_orders_notice_planted_bugs() {
    for bug in [Bug::FreezeUnseen, Bug::DecidedTwice] {
        let mut runner = TestRunner::new_with_rng(
            ProptestConfig {
                cases: 400,
                max_shrink_iters: 0,
                failure_persistence: None,
                ..ProptestConfig::default()
            },
            TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        );
        let planted = bug.plant();
        let outcome = runner.run(&steps(), |steps| {
            let played = catch_unwind(AssertUnwindSafe(|| play(steps)));
            played.map_err(|_| TestCaseError::fail("noticed"))
        });
        drop(planted);
        assert!(outcome.is_err(), "no order noticed {}", bug.name());
    }
}
