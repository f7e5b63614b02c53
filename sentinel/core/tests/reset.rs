//! Resets: when one may be GREEN, what ends a standing RED, and a cause that is still there.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod world;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use redlatch_types::command::RawCommand;
use redlatch_types::event::Event;
use redlatch_types::proven::ProvenEvent;
use redlatch_types::records::*;
use redlatch_types::*;
use redlatch_watch::outbox::STANDING_KEPT_MAX;
use redlatch_watch::rules::{
    Condition, Epochs, Finding, Limit, Outcome, Quota, TripScope, Tripwire,
};
use redlatch_watch::verdict::{
    Effect, FreezeFacts, Fresh, Identity, Judge, JudgementV1, Silence, Stage, TRIPS_KEPT_MAX,
    TripV1,
};
use redlatch_watch::{RedCall, Rules};
use world::*;

fn rules(when: Vec<Condition>) -> Rules {
    let resource = |realm: &str, prefix: &str| ResourceScope {
        repository: id(realm),
        ref_prefix: Text::new(prefix).unwrap(),
    };
    Rules {
        limits: vec![Limit::Allowed(vec![
            resource("repo", "refs/heads/"),
            resource("organism", "grounds"),
        ])],
        tripwires: vec![Tripwire {
            name: id("runaway"),
            when,
            scope: TripScope::Proposer,
            verbs: Vec::new(),
        }],
        proof_age_ms_max: 60 * MINUTE,
    }
}

fn rules_allowing_changes() -> Rules {
    let grants = ResourceScope {
        repository: id("organism"),
        ref_prefix: Text::lossy("grants"),
    };
    Rules {
        limits: vec![Limit::Allowed(vec![grants])],
        ..never()
    }
}

fn never() -> Rules {
    rules(Vec::new())
}

/// Journal, sentinel and judge, which are shown every event in order.
struct Bench {
    world: World,
    sentinel: Sentinel,
    judge: Judge,
    rules: Rules,
    stored: BTreeMap<IntentDigest, Vec<u8>>,
    shown: usize,
    raised: Vec<RedCall>,
    /// What the sentinel takes to be in force, if that is not what is.
    known: Option<Epochs>,
}

impl Bench {
    fn new(rules: Rules) -> Bench {
        let world = World::new();
        let judge = Judge::open(identity(), rules.clone(), []).unwrap();
        let mut bench = Bench {
            sentinel: Sentinel::confirmed(world.scope()),
            shown: 0,
            judge,
            rules,
            world,
            stored: BTreeMap::new(),
            raised: Vec::new(),
            known: None,
        };
        bench.hear();
        bench
    }
    fn epochs(&self) -> Epochs {
        let governance = self.world.governance();
        Epochs {
            constitution: governance.constitution.constitution_epoch,
            autonomy: governance.epoch.autonomy_epoch,
        }
    }
    fn hear(&mut self) {
        let news = self.world.events[self.shown..].to_vec();
        self.shown = self.world.events.len();
        for event in &news {
            self.sentinel.event(event);
            if matches!(event, Event::GroundsReset(_)) {
                let mut out = Vec::new();
                let (epochs, posture) = (self.epochs(), self.sentinel.outbox.posture());
                self.judge.handle_reset(epochs, posture, &mut out);
                self.run(out);
            }
        }
    }
    fn run(&mut self, out: Vec<Effect>) {
        for effect in out {
            match effect {
                Effect::Persist(judgement) => {
                    let intent = judgement.intent_digest;
                    self.stored.insert(intent, judgement.to_canonical());
                }
                Effect::Raise(call) => {
                    self.raised.push(call.clone());
                    let fresh = self.world.fresh();
                    self.sentinel.red(call.into_request(fresh, START));
                }
                _ => {}
            }
        }
    }
    fn restart(&mut self) {
        self.sentinel.restart();
        let stored = self.stored.values().map(Vec::as_slice);
        self.judge = Judge::open(identity(), self.rules.clone(), stored).unwrap();
    }
    /// Latches what the sentinel has chained last; its stop is not complete.
    fn latch(&mut self) -> LatchNumber {
        let last = self.sentinel.outbox.entries().last().unwrap();
        let red = last.1.envelope.clone();
        let latch = self.world.latch(RawCommand::LatchRed(vec![red]));
        self.hear();
        latch
    }
    /// From there to the acknowledgement.
    fn complete(&mut self, latch: LatchNumber) {
        self.world.stop(latch);
        self.hear();
        let number = self.sentinel.outbox.entries().last().unwrap().0;
        let ack = self.world.ack(latch, number.0);
        self.world.ok(ack);
        self.hear();
    }
    /// A RED by order, carried to its end; its ground has the latch's number.
    fn stop(&mut self, scope: RedScope) -> u64 {
        let n = self.sentinel.outbox.head().number.0;
        self.sentinel.red(request(n, scope));
        let latch = self.latch();
        self.complete(latch);
        latch.0
    }
    fn ask(&mut self, digest: IntentDigest) -> (Result<Verdict, Silence>, Vec<Finding>) {
        let event = self
            .world
            .events
            .iter()
            .find(|event| matches!(event, Event::Frozen(frozen, ..) if *frozen == digest));
        let freeze = prove(self.world.scope(), event.unwrap());
        let fresh = Fresh {
            verdict_id: self.world.fresh(),
            nonce: self.world.fresh(),
        };
        let facts = FreezeFacts {
            freeze: &freeze,
            proven_at: self.world.now(),
            epochs: self.known.unwrap_or_else(|| self.epochs()),
            evidence_held: &BTreeSet::new(),
        };
        let mut out = Vec::new();
        let posture = self.sentinel.outbox.posture();
        let findings = self.judge.handle_intent(&facts, posture, fresh, &mut out);
        let said = match out.last() {
            Some(Effect::State(verdict)) => Ok(verdict.verdict),
            Some(Effect::Silent(silence)) => Err(silence.clone()),
            other => panic!("{other:?}"),
        };
        self.run(out);
        (said, findings)
    }
    fn said(&mut self, digest: IntentDigest) -> Result<Verdict, Silence> {
        self.ask(digest).0
    }
    /// What is said of a reset that is proposed now.
    fn reset(&mut self, grounds: &[u64]) -> Result<Verdict, Silence> {
        let intent = self.world.freeze_change(reset(grounds, "repaired"));
        self.said(intent)
    }
    fn make(&mut self, grounds: &[u64]) {
        self.world.make_change(reset(grounds, "repaired"));
        self.hear();
    }
}

fn identity() -> Identity {
    Identity {
        pin: Digest::ZERO,
        verdict_ttl_ms: 5 * MINUTE,
    }
}

fn reset(grounds: &[u64], cause: &str) -> ActionPayload {
    ActionPayload::ResetFrozen(ResetPayload {
        grounds: grounds.iter().map(|n| GroundNumber(*n)).collect(),
        cause: Text::new(cause).unwrap(),
    })
}

#[test]
fn a_reset_says_why_and_waits_until_every_red_that_it_names_is_over() {
    let mut bench = Bench::new(never());
    bench.sentinel.red(request(1, subject("agent")));
    let latch = bench.latch();
    let early = bench.reset(&[1]);
    assert!(matches!(early, Err(Silence::CannotJudge(_))), "{early:?}");
    bench.world.stop(latch);
    bench.hear();
    // TERMINAL, and the journal does not yet hold the acknowledgement.
    let early = bench.reset(&[1]);
    assert!(matches!(early, Err(Silence::CannotJudge(_))), "{early:?}");
    let ack = bench.world.ack(latch, 1);
    bench.world.ok(ack);
    bench.hear();
    let intent = bench.world.freeze_change(reset(&[1], "  "));
    assert_eq!(bench.said(intent), Ok(Verdict::Withheld));
    assert_eq!(bench.reset(&[1]), Ok(Verdict::Green));
    bench.restart();
    bench.sentinel.remembered(
        redlatch_watch::outbox::Memory::Actuator,
        bench.sentinel.outbox.head(),
    );
    bench.sentinel.remembered(
        redlatch_watch::outbox::Memory::Journal,
        bench.sentinel.outbox.head(),
    );
    assert_eq!(bench.reset(&[1]), Ok(Verdict::Green));
}

#[test]
fn the_reds_that_it_ends_do_not_withhold_a_reset_and_every_other_one_does() {
    let mut bench = Bench::new(never());
    let everything = bench.stop(RedScope::Everything);
    let landing = bench.world.freeze(MAIN, 0, 7);
    assert_eq!(bench.said(landing), Ok(Verdict::Withheld));
    assert_eq!(bench.reset(&[everything]), Ok(Verdict::Green));
    // A ground that is not this sentinel's is the journal's to know.
    assert_eq!(bench.reset(&[everything, 99]), Ok(Verdict::Green));
    let proposer = bench.stop(subject("governor"));
    assert_eq!(bench.reset(&[everything]), Ok(Verdict::Withheld));
    assert_eq!(bench.reset(&[proposer]), Ok(Verdict::Withheld));
    assert_eq!(bench.reset(&[everything, proposer]), Ok(Verdict::Green));
    // One that is not even latched has no ground that could be named.
    bench.sentinel.red(request(7, subject("governor")));
    assert_eq!(bench.reset(&[everything, proposer]), Ok(Verdict::Withheld));
}

#[test]
fn an_intent_of_a_later_epoch_than_is_known_is_not_withheld_for_a_red_that_may_be_reset() {
    let mut bench = Bench::new(rules_allowing_changes());
    bench.stop(subject("governor"));
    let known = bench.epochs();
    bench.world.make_change(reset(&[1], "repaired"));
    let change = GrantPayload::Revoke(bench.world.grant("other"));
    let change = ActionPayload::GrantChange(Box::new(change));
    let intent = bench.world.freeze_change(change);
    bench.known = Some(known);
    let early = bench.said(intent);
    assert!(matches!(early, Err(Silence::CannotJudge(_))), "{early:?}");
    bench.known = None;
    bench.hear();
    assert_eq!(bench.said(intent), Ok(Verdict::Green));
}

#[test]
fn a_reset_passes_no_rule_of_the_configuration() {
    let mut bench = Bench::new(Rules {
        limits: vec![Limit::Allowed(Vec::new())],
        ..never()
    });
    let ground = bench.stop(RedScope::Everything);
    let intent = bench.world.freeze_change(reset(&[ground], "repaired"));
    let (said, findings) = bench.ask(intent);
    assert_eq!(said, Ok(Verdict::Withheld));
    let of_reset = findings.iter().find(|it| it.rule.as_str() == "reset");
    assert_eq!(of_reset.unwrap().outcome, Outcome::Satisfied);
}

#[test]
fn only_the_proven_reset_of_its_ground_ends_a_standing_red() {
    let mut bench = Bench::new(never());
    let (agent, other) = (subject("agent"), subject("other"));
    bench.stop(agent.clone());
    bench.stop(other.clone());
    let of = |ground: u64| Event::GroundsReset(vec![GroundNumber(ground)]);
    // A minority of the nodes, and another organism's nodes, prove nothing.
    let minority = receipt(bench.world.scope(), &of(1), &[1]);
    let policy = policy(bench.world.scope());
    assert!(ProvenEvent::of(&minority, &policy).is_err());
    let mut elsewhere = bench.world.scope();
    elsewhere.organism_id = OrganismId(digest("other"));
    let foreign = receipt(elsewhere, &of(1), &[1, 2]);
    assert!(ProvenEvent::of(&foreign, &policy).is_err());
    bench.sentinel.event(&of(3));
    assert_eq!(bench.sentinel.standing(), [agent.clone(), other.clone()]);
    bench.make(&[1]);
    assert_eq!(bench.sentinel.standing(), std::slice::from_ref(&other));
    bench.restart();
    assert_eq!(bench.sentinel.standing(), std::slice::from_ref(&other));
    // The same subject again: the old receipt is of another ground.
    bench.stop(agent.clone());
    bench.sentinel.event(&of(1));
    assert_eq!(bench.sentinel.standing(), [other, agent]);
}

#[test]
fn a_rate_that_is_still_exceeded_withholds_the_reset_and_trips_again_at_once() {
    let window_ms = 10 * MINUTE;
    let more_than = Quota {
        intents_max: 2,
        window_ms,
    };
    let mut bench = Bench::new(rules(vec![Condition::MoreThan(more_than)]));
    let run_away = |bench: &mut Bench, round: u8| {
        for n in 0..3 {
            let reference = format!("refs/heads/{round}-{n}");
            let intent = bench.world.freeze(&reference, 0, 7);
            let _ = bench.said(intent);
        }
    };
    run_away(&mut bench, 1);
    assert_eq!(bench.raised.len(), 1);
    let latch = bench.latch();
    bench.complete(latch);
    bench.restart();
    for memory in [
        redlatch_watch::outbox::Memory::Actuator,
        redlatch_watch::outbox::Memory::Journal,
    ] {
        let head = bench.sentinel.outbox.head();
        bench.sentinel.remembered(memory, head);
    }
    assert_eq!(bench.reset(&[1]), Ok(Verdict::Withheld), "still exceeded");
    bench.world.tick(START + 2 * window_ms);
    assert_eq!(bench.reset(&[1]), Ok(Verdict::Green), "back in bounds");
    // Between the GREEN and the reset the subject runs away again: no RED, because one stands.
    run_away(&mut bench, 2);
    assert_eq!(bench.raised.len(), 1);
    bench.make(&[1]);
    assert_eq!(bench.raised.len(), 2, "nobody had to ask again");
    assert_eq!(bench.sentinel.standing(), [subject("agent")]);
}

#[test]
fn a_combination_is_over_with_its_intent_and_back_with_the_next() {
    let main = Condition::Action(ActionClass::Land);
    let mut bench = Bench::new(rules(vec![main]));
    let intent = bench.world.freeze(MAIN, 0, 7);
    assert_eq!(bench.said(intent), Err(Silence::Red));
    let latch = bench.latch();
    bench.complete(latch);
    // The stop's epoch has fenced the intent.
    assert_eq!(bench.reset(&[1]), Ok(Verdict::Green));
    let again = bench.world.freeze(MAIN, 0, 8);
    assert_eq!(bench.said(again), Ok(Verdict::Withheld), "a RED stands");
    let (said, findings) = {
        let intent = bench.world.freeze_change(reset(&[1], "repaired"));
        bench.ask(intent)
    };
    assert_eq!(said, Ok(Verdict::Withheld));
    let text = &findings.last().unwrap().text;
    assert!(text.as_str().contains("tripwire runaway"), "{text}");
    // Another subject's reset is not this rule's matter.
    let other = bench.stop(subject("other"));
    let named = bench.world.freeze_change(reset(&[other], "repaired"));
    let (_, findings) = bench.ask(named);
    assert_eq!(findings.last().unwrap().outcome, Outcome::Satisfied);
}

#[test]
fn trips_are_kept_in_a_bounded_number_and_a_cause_that_is_not_kept_is_still_there() {
    let main = Condition::Action(ActionClass::Land);
    let mut bench = Bench::new(rules(vec![main]));
    let first = bench.world.freeze(MAIN, 0, 7);
    let (proposer, intent) = {
        let intent = bench.world.intent(first);
        (intent.proposer_subject_id.clone(), Box::new(intent))
    };
    for n in 0..TRIPS_KEPT_MAX as u64 {
        let judgement = JudgementV1 {
            intent_digest: IntentDigest(Digest::of(&n.to_be_bytes())),
            proposer: proposer.clone(),
            frozen_at: START,
            forget_at: START + 30 * MINUTE,
            stage: Stage::Judged,
            withheld: Vec::new(),
            tripped: Some(TripV1::Kept(intent.clone())),
        };
        bench
            .stored
            .insert(judgement.intent_digest, judgement.to_canonical());
    }
    bench.restart();
    let _ = bench.said(first);
    let kept = JudgementV1::from_canonical(&bench.stored[&first]).unwrap();
    assert_eq!(kept.tripped, Some(TripV1::NotKept));
    // It is known now, and there is no more room than before: asked again it is not kept either.
    let _ = bench.said(first);
    let again = JudgementV1::from_canonical(&bench.stored[&first]).unwrap();
    assert_eq!(again.tripped, Some(TripV1::NotKept));
    let latch = bench.latch();
    bench.complete(latch);
    bench.restart();
    let said = bench.reset(&[1]);
    assert!(matches!(said, Err(Silence::CannotJudge(_))), "{said:?}");
}

#[test]
fn fault_094_what_stands_without_room_is_ended_by_no_reset() {
    let mut bench = Bench::new(never());
    for n in 0..=STANDING_KEPT_MAX {
        bench.stop(subject(&format!("s{n}")));
    }
    assert_eq!(bench.sentinel.standing().len(), STANDING_KEPT_MAX);
    let all = (1..=STANDING_KEPT_MAX as u64 + 1).map(GroundNumber);
    bench.sentinel.event(&Event::GroundsReset(all.collect()));
    assert_eq!(bench.sentinel.standing(), [RedScope::Everything]);
}

#[derive(Debug, Clone)]
enum Step {
    Red(u8),
    Reset(u8),
    Restart,
    Replay,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4u8).prop_map(Step::Red),
        3 => (0..4u8).prop_map(Step::Reset),
        1 => Just(Step::Restart),
        1 => Just(Step::Replay),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// What stands is what was latched and not reset, whatever is repeated and whenever it restarts.
    #[test]
    fn what_stands_is_what_the_journal_freezes(steps in prop::collection::vec(step(), 1..14)) {
        let mut bench = Bench::new(never());
        for step in steps {
            match step {
                Step::Red(who) => {
                    bench.stop(subject(&format!("s{who}")));
                }
                Step::Reset(who) => {
                    let scope = subject(&format!("s{who}"));
                    let grounds = bench.world.state.authority.grounds.clone();
                    let named: Vec<u64> = grounds
                        .iter()
                        .filter(|(_, ground)| ground.scopes.contains(&scope))
                        .map(|(number, _)| number.0)
                        .collect();
                    if !named.is_empty() {
                        bench.make(&named);
                    }
                }
                Step::Restart => bench.restart(),
                Step::Replay => bench.shown = 0,
            }
            bench.hear();
            let grounds = &bench.world.state.authority.grounds;
            let mut live: Vec<RedScope> = grounds.values().flat_map(|g| g.scopes.clone()).collect();
            let mut standing = bench.sentinel.standing();
            live.sort();
            standing.sort();
            prop_assert_eq!(standing, live);
        }
    }
}
