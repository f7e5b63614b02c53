//! Rules and verdicts: what is said of a frozen intent, what is never said, what is remembered.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod world;

use std::collections::BTreeSet;

use redlatch_types::command::RawCommand;
use redlatch_types::event::Event;
use redlatch_types::mandate::NegativeVerb;
use redlatch_types::proven::ProvenEvent;
use redlatch_types::records::*;
use redlatch_types::*;
use redlatch_watch::outbox::{Health, Posture, StandingV1};
use redlatch_watch::rules::{Condition, Epochs, Limit, Outcome, Quota, TripScope, Tripwire};
use redlatch_watch::verdict::{Effect, FreezeFacts, Fresh, Identity, Judge, Silence, Stage};
use redlatch_watch::{RedCall, Rules};
use world::*;

const SOUND: Posture<'static> = Posture {
    health: Health::Sound,
    standing: &[],
};

fn refs(prefix: &str) -> ResourceScope {
    ResourceScope {
        repository: id("repo"),
        ref_prefix: Text::new(prefix).unwrap(),
    }
}

fn rules() -> Rules {
    Rules {
        limits: vec![
            Limit::Allowed(vec![refs("refs/heads/")]),
            Limit::Forbidden(vec![refs("refs/heads/release/")]),
            Limit::Evidence(1),
            Limit::Risk(RiskClass::Medium),
        ],
        tripwires: Vec::new(),
        proof_age_ms_max: MINUTE,
    }
}

fn quota(intents_max: usize) -> Quota {
    Quota {
        intents_max,
        window_ms: 10 * MINUTE,
    }
}

/// The journal, a judge over it, and what the judge has stored.
struct Bench {
    world: World,
    judge: Judge,
    stored: std::collections::BTreeMap<IntentDigest, Vec<u8>>,
    held: BTreeSet<Digest>,
}

impl Bench {
    fn new(rules: Rules) -> Bench {
        let world = World::new();
        let governance = world.state.authority.governance.as_ref().unwrap();
        let identity = Identity {
            pin: governance.roster.sentinel.pin_digest(),
            verdict_ttl_ms: 5 * MINUTE,
        };
        Bench {
            judge: Judge::open(identity, rules, []).unwrap(),
            world,
            stored: Default::default(),
            held: BTreeSet::from([digest("gate receipt")]),
        }
    }
    fn freeze(&mut self, reference: &str) -> ProvenEvent {
        self.world.freeze(reference, 0, 7);
        self.proven("frozen")
    }
    fn proven(&self, word: &str) -> ProvenEvent {
        let found = self.world.events.iter().rev().find(|e| e.word() == word);
        prove(self.world.scope(), found.unwrap())
    }
    fn epochs(&self) -> Epochs {
        let governance = self.world.state.authority.governance.as_ref().unwrap();
        Epochs {
            constitution: governance.constitution.constitution_epoch,
            autonomy: governance.epoch.autonomy_epoch,
        }
    }
    fn ask_with(&mut self, freeze: &ProvenEvent, posture: Posture<'_>) -> Vec<Effect> {
        let fresh = Fresh {
            verdict_id: self.world.fresh(),
            nonce: self.world.fresh(),
        };
        let facts = FreezeFacts {
            freeze,
            proven_at: self.world.now(),
            epochs: self.epochs(),
            evidence_held: &self.held,
        };
        let mut out = Vec::new();
        self.judge.handle_intent(&facts, posture, fresh, &mut out);
        for effect in &out {
            match effect {
                Effect::Persist(j) => {
                    self.stored.insert(j.intent_digest, j.to_canonical());
                }
                Effect::Forget(intent) => {
                    self.stored.remove(intent);
                }
                _ => {}
            }
        }
        out
    }
    fn ask(&mut self, freeze: &ProvenEvent) -> Vec<Effect> {
        self.ask_with(freeze, SOUND)
    }
    /// The one statement or silence at the end.
    fn said(&mut self, freeze: &ProvenEvent) -> Result<Verdict, Silence> {
        said(&self.ask(freeze))
    }
    fn restart(&mut self, rules: Rules) {
        let governance = self.world.state.authority.governance.as_ref().unwrap();
        let identity = Identity {
            pin: governance.roster.sentinel.pin_digest(),
            verdict_ttl_ms: 5 * MINUTE,
        };
        let stored = self.stored.values().map(Vec::as_slice);
        self.judge = Judge::open(identity, rules, stored).unwrap();
    }
}

fn on_no_ground(scope: RedScope) -> StandingV1 {
    StandingV1 {
        number: OutboxEpoch(1),
        scope,
        ground: None,
        is_over: false,
    }
}

fn said(out: &[Effect]) -> Result<Verdict, Silence> {
    match out.last() {
        Some(Effect::State(verdict)) => Ok(verdict.verdict),
        Some(Effect::Silent(silence)) => Err(silence.clone()),
        other => panic!("{other:?}"),
    }
}

fn raised(out: &[Effect]) -> Vec<&RedCall> {
    let calls = out.iter().filter_map(|e| match e {
        Effect::Raise(call) => Some(call),
        _ => None,
    });
    calls.collect()
}

#[test]
fn a_green_is_what_the_journal_accepts_and_is_persisted_first() {
    let mut bench = Bench::new(rules());
    let freeze = bench.freeze(MAIN);
    let out = bench.ask(&freeze);
    let [Effect::Persist(_), Effect::State(green)] = &out[..] else {
        panic!("{out:?}")
    };
    assert_eq!(green.verdict, Verdict::Green);
    let Event::Frozen(digest, ..) = freeze.event() else {
        unreachable!()
    };
    let votes = approvals();
    let votes: Vec<_> = votes
        .iter()
        .map(|(v, verdict)| bench.world.vote(*digest, *v, *verdict))
        .collect();
    let given = bench
        .world
        .authorization_of(*digest, (**green).clone(), votes);
    bench.world.ok(RawCommand::Authorize(Box::new(given)));
    // Used: no further GREEN, not even after a restart.
    let used = bench.proven("authorized");
    let mut out = Vec::new();
    bench.judge.handle_used(&used, &mut out);
    let [Effect::Persist(judgement)] = &out[..] else {
        panic!("{out:?}")
    };
    assert_eq!(judgement.stage, Stage::Used);
    bench.stored.insert(*digest, judgement.to_canonical());
    bench.restart(rules());
    assert_eq!(bench.said(&freeze), Err(Silence::Used));
}

#[test]
fn a_fresh_green_is_stated_again_until_one_is_used() {
    let mut bench = Bench::new(rules());
    let freeze = bench.freeze(MAIN);
    let first = bench.ask(&freeze);
    bench.world.tick(START + 2 * MINUTE);
    let second = bench.ask(&freeze);
    let (Some(Effect::State(a)), Some(Effect::State(b))) = (first.last(), second.last()) else {
        panic!("{first:?} {second:?}")
    };
    assert_eq!((a.verdict, b.verdict), (Verdict::Green, Verdict::Green));
    assert!(b.issued_at > a.issued_at && b.nonce != a.nonce && b.verdict_id != a.verdict_id);
    // Nothing new is to be stored.
    assert_eq!(second.len(), 1);
}

#[test]
fn limits_withhold_each_for_its_own_reason() {
    let cases: [(&str, Limit); 6] = [
        (MAIN, Limit::Allowed(vec![refs("refs/tags/")])),
        (MAIN, Limit::Allowed(Vec::new())),
        (MAIN, Limit::Allowed(vec![refs("")])),
        (MAIN, Limit::Forbidden(vec![refs("refs/heads/ma")])),
        (MAIN, Limit::Evidence(2)),
        (MAIN, Limit::Rate(quota(0))),
    ];
    for (reference, limit) in cases {
        let mut bench = Bench::new(Rules {
            limits: vec![limit.clone()],
            ..rules()
        });
        let freeze = bench.freeze(reference);
        let out = bench.ask(&freeze);
        let Some(Effect::State(verdict)) = out.last() else {
            panic!("{limit:?}: {out:?}")
        };
        assert_eq!(verdict.verdict, Verdict::Withheld, "{limit:?}");
        assert!(verdict.reason_optional.is_some());
        assert!(raised(&out).is_empty(), "a limit never stops anybody");
    }
}

#[test]
fn a_withheld_is_for_good_for_intent_and_evidence() {
    let mut bench = Bench::new(rules());
    bench.held.clear();
    let freeze = bench.freeze(MAIN);
    assert_eq!(bench.said(&freeze), Ok(Verdict::Withheld));
    // Rules that became milder, a restart and time change nothing for the same evidence.
    let mild = || Rules {
        limits: Vec::new(),
        ..rules()
    };
    bench.restart(mild());
    assert_eq!(bench.said(&freeze), Ok(Verdict::Withheld));
    // The evidence came: that is another question.
    bench.held.insert(digest("gate receipt"));
    assert_eq!(bench.said(&freeze), Ok(Verdict::Green));
    bench.held.clear();
    assert_eq!(bench.said(&freeze), Ok(Verdict::Withheld));
}

#[test]
fn green_needs_a_sound_outbox_and_silence_leaves_no_trace() {
    let mut bench = Bench::new(rules());
    let freeze = bench.freeze(MAIN);
    for health in [Health::Unconfirmed, Health::Full, Health::Damaged] {
        let posture = Posture {
            health,
            standing: &[],
        };
        let out = bench.ask_with(&freeze, posture);
        assert_eq!(out, [Effect::Silent(Silence::Outbox(health))]);
    }
    assert_eq!(bench.said(&freeze), Ok(Verdict::Green));
}

#[test]
fn an_old_proof_and_an_unknown_epoch_are_silence_not_withheld() {
    let mut bench = Bench::new(rules());
    let freeze = bench.freeze(MAIN);
    let now = bench.world.now();
    bench
        .judge
        .handle_state_time(now + 2 * MINUTE, &mut Vec::new());
    assert!(matches!(bench.said(&freeze), Err(Silence::CannotJudge(_))));
    bench.world.tick(START + 3 * MINUTE);
    assert_eq!(bench.said(&freeze), Ok(Verdict::Green));
    // A proof of something else is no freeze.
    let tick = bench.proven("ticked");
    assert_eq!(bench.said(&tick), Err(Silence::NotAFreeze));
}

#[test]
fn an_intent_of_an_epoch_that_is_over_is_withheld() {
    let mut bench = Bench::new(rules());
    let freeze = bench.freeze(MAIN);
    let red = journal::Outbox::new().red(&bench.world, &subject("other"));
    let latch = bench.world.latch(red);
    bench.world.stop(latch);
    assert_eq!(bench.said(&freeze), Ok(Verdict::Withheld));
}

#[test]
fn rate_and_budget_count_one_subject_within_the_window_across_restarts() {
    let with = |limit: Limit| Rules {
        limits: vec![limit],
        proof_age_ms_max: 60 * MINUTE,
        ..rules()
    };
    for limit in [Limit::Rate(quota(2)), Limit::Budget(quota(2))] {
        let mut bench = Bench::new(with(limit.clone()));
        for reference in ["refs/heads/a", "refs/heads/b"] {
            let freeze = bench.freeze(reference);
            assert_eq!(bench.said(&freeze), Ok(Verdict::Green));
            assert_eq!(
                bench.said(&freeze),
                Ok(Verdict::Green),
                "asked twice, counted once"
            );
        }
        bench.restart(with(limit.clone()));
        let third = bench.freeze("refs/heads/c");
        assert_eq!(bench.said(&third), Ok(Verdict::Withheld), "{limit:?}");
        bench.world.tick(START + 11 * MINUTE);
        let later = bench.freeze("refs/heads/d");
        assert_eq!(bench.said(&later), Ok(Verdict::Green), "{limit:?}");
    }
}

fn wire(when: Vec<Condition>, scope: TripScope, verbs: &[NegativeVerb]) -> Rules {
    Rules {
        limits: vec![Limit::Allowed(Vec::new())],
        tripwires: vec![Tripwire {
            name: id("no-release-without-evidence"),
            when,
            scope,
            verbs: verbs.to_vec(),
        }],
        ..rules()
    }
}

#[test]
fn a_forbidden_combination_is_red_although_limits_would_withhold() {
    let both = vec![
        Condition::Resource(refs("refs/heads/main")),
        Condition::Action(ActionClass::Land),
    ];
    let mut bench = Bench::new(wire(both, TripScope::Intent, &[NegativeVerb::Rollback]));
    let freeze = bench.freeze(MAIN);
    let out = bench.ask(&freeze);
    let Event::Frozen(digest, _, intent, _) = freeze.event() else {
        unreachable!()
    };
    let [call] = &raised(&out)[..] else {
        panic!("{out:?}")
    };
    assert_eq!(call.scope, RedScope::Intent(*digest));
    assert_eq!(call.source, Some(*digest));
    assert_eq!(
        call.rollback_plan,
        Some(intent.rollback.digest(&intent.payload))
    );
    assert!(
        matches!(out[0], Effect::Raise(_)),
        "raised before anything is remembered"
    );
    assert_eq!(said(&out), Err(Silence::Red));
    // It latches as asked for: nothing in it is unknown or unbound.
    let mut sentinel = Sentinel::confirmed(bench.world.scope());
    let call: RedCall = (*call).clone();
    let (_, deliveries) = sentinel.red(call.into_request(world::digest("id"), START));
    let red = RawCommand::LatchRed(deliveries[0].segment.clone());
    let latch = bench.world.latch(red);
    let mandate = &bench.world.state.authority.latches[&latch].receipt.mandate;
    assert!(!mandate.scopes.contains(&RedScope::Everything));
    assert!(mandate.verbs.contains(&NegativeVerb::Rollback));
    // Standing: withheld, no second RED.
    let standing = sentinel.outbox.posture().standing.to_vec();
    let posture = Posture {
        health: Health::Sound,
        standing: &standing,
    };
    let out = bench.ask_with(&freeze, posture);
    assert!(raised(&out).is_empty());
    assert_eq!(said(&out), Ok(Verdict::Withheld));
}

#[test]
fn half_a_combination_and_an_empty_one_never_trip() {
    for when in [
        Vec::new(),
        vec![
            Condition::Resource(refs("refs/heads/main")),
            Condition::WithoutEvidence,
        ],
    ] {
        let mut bench = Bench::new(wire(when, TripScope::Everything, &[]));
        let freeze = bench.freeze(MAIN);
        let out = bench.ask(&freeze);
        assert!(raised(&out).is_empty());
        assert_eq!(said(&out), Ok(Verdict::Withheld));
    }
}

#[test]
fn a_runaway_subject_trips_also_when_its_intents_are_only_withheld() {
    let mut bench = Bench::new(wire(
        vec![Condition::MoreThan(quota(2))],
        TripScope::Proposer,
        &[],
    ));
    for reference in ["refs/heads/a", "refs/heads/b"] {
        let freeze = bench.freeze(reference);
        assert_eq!(bench.said(&freeze), Ok(Verdict::Withheld));
    }
    let first_again = bench.proven("frozen");
    let third = bench.freeze("refs/heads/c");
    let out = bench.ask(&third);
    assert_eq!(raised(&out)[0].scope, subject("agent"));
    assert_eq!(
        raised(&out)[0].source,
        None,
        "one entry per subject, not per intent"
    );
    // A remembered WITHHELD does not hide it either.
    let out = bench.ask(&first_again);
    assert_eq!(raised(&out).len(), 1);
}

#[test]
fn a_red_that_stands_over_the_intent_withholds() {
    let mut bench = Bench::new(rules());
    let freeze = bench.freeze(MAIN);
    let standing = [on_no_ground(subject("agent"))];
    let posture = Posture {
        health: Health::Sound,
        standing: &standing,
    };
    assert_eq!(
        said(&bench.ask_with(&freeze, posture)),
        Ok(Verdict::Withheld)
    );
    let mut other = Bench::new(rules());
    let freeze = other.freeze(MAIN);
    let standing = [on_no_ground(subject("other"))];
    let posture = Posture {
        health: Health::Sound,
        standing: &standing,
    };
    assert_eq!(said(&other.ask_with(&freeze, posture)), Ok(Verdict::Green));
}

#[test]
fn what_is_over_is_forgotten_and_what_cannot_be_read_stops_the_judge() {
    let mut bench = Bench::new(rules());
    let freeze = bench.freeze(MAIN);
    bench.ask(&freeze);
    assert_eq!(bench.stored.len(), 1);
    bench.world.tick(START + 90 * MINUTE);
    let later = bench.freeze("refs/heads/later");
    bench.ask(&later);
    assert_eq!(bench.stored.len(), 1, "the first one is over");
    let identity = Identity {
        pin: Digest::ZERO,
        verdict_ttl_ms: MINUTE,
    };
    let bytes = bench.stored.values().next().unwrap();
    let cut = &bytes[..bytes.len() - 1];
    assert!(Judge::open(identity, rules(), [cut]).is_err());
}

#[test]
fn every_rule_leaves_a_finding() {
    let mut bench = Bench::new(wire(
        vec![Condition::RiskAtLeast(RiskClass::High)],
        TripScope::Mission,
        &[],
    ));
    let freeze = bench.freeze(MAIN);
    let fresh = Fresh {
        verdict_id: digest("a"),
        nonce: digest("b"),
    };
    let facts = FreezeFacts {
        freeze: &freeze,
        proven_at: bench.world.now(),
        epochs: bench.epochs(),
        evidence_held: &bench.held,
    };
    let findings = bench
        .judge
        .handle_intent(&facts, SOUND, fresh, &mut Vec::new());
    let found: Vec<_> = findings
        .iter()
        .map(|f| (f.rule.as_str(), f.outcome))
        .collect();
    assert_eq!(
        found,
        [
            ("freeze-proof", Outcome::Satisfied),
            ("epochs", Outcome::Satisfied),
            ("allowed-resources", Outcome::Withholds),
            ("no-release-without-evidence", Outcome::Satisfied),
            ("standing-reds", Outcome::Satisfied),
        ]
    );
}

/// One action of every class that has a resource of its own, with its line in `docs/stop-path.md`.
fn actions(world: &World) -> Vec<(ActionPayload, &'static str)> {
    let swap = |realm: &str| SwapPayload {
        resource: ExternalResource {
            realm: id(realm),
            path: Text::new("channels/stable").unwrap(),
        },
        old: Bytes(Vec::new()),
        new: Bytes(vec![1]),
    };
    let mode = ModePayload {
        mode: Mode::HumanGated,
        activates_at: 0,
        gate_receipts_digest: digest("gates"),
        rollback_plan_digest: digest("plan"),
    };
    let resolve = ResolvePayload {
        transaction_id: TransactionId(digest("transaction")),
        outcome: OutcomeKind::Done,
        observed_head: Bytes(Vec::new()),
    };
    let reset = ResetPayload {
        grounds: vec![GroundNumber(1)],
        cause: Text::lossy("repaired"),
    };
    let grant = GrantPayload::Revoke(GrantId(digest("grant")));
    let key = KeyPayload::Revoke(HumanKeyId(digest("key")));
    let node = RosterPayload::Remove(NodeId(3));
    let subject = SubjectPayload::Revoke(id("other"));
    vec![
        (
            ActionPayload::ReleasePromote(swap("prod")),
            "prod:channels/",
        ),
        (ActionPayload::ExternalEffect(swap("dns")), "dns:channels/"),
        (world.amended(|_| {}), "organism:constitution"),
        (ActionPayload::ModeActivate(mode), "organism:mode"),
        (
            ActionPayload::GrantChange(Box::new(grant)),
            "organism:grants",
        ),
        (
            ActionPayload::SubjectChange(Box::new(subject)),
            "organism:subjects",
        ),
        (ActionPayload::KeyChange(Box::new(key)), "organism:keys"),
        (
            ActionPayload::RosterChange(Box::new(node)),
            "organism:roster/nodes",
        ),
        (
            ActionPayload::VerifierSetChange(Vec::new()),
            "organism:roster/verifiers",
        ),
        (ActionPayload::ResetFrozen(reset), "organism:grounds"),
        (ActionPayload::ResolveEffect(resolve), "organism:effects"),
    ]
}

#[test]
fn every_class_of_action_is_allowed_by_its_own_resource_and_by_no_other() {
    let page = include_str!("../../../docs/stop-path.md");
    let world = World::new();
    let resources: Vec<ResourceScope> = actions(&world)
        .iter()
        .map(|(_, text)| {
            let (realm, prefix) = text.split_once(':').unwrap();
            ResourceScope {
                repository: id(realm),
                ref_prefix: Text::new(prefix).unwrap(),
            }
        })
        .collect();
    for (at, (payload, text)) in actions(&world).into_iter().enumerate() {
        let class = payload.class();
        let documented = |line: &str| line.starts_with('|') && line.contains(&format!("`{class}`"));
        let line = page
            .lines()
            .find(|line| documented(line))
            .unwrap_or_default();
        let external = line.contains("<environment or system>");
        assert!(
            external || line.contains(&format!("`{text}`")),
            "{class}: {line}"
        );
        for (other, resource) in resources.iter().enumerate() {
            let allowed = Limit::Allowed(vec![resource.clone()]);
            let mut bench = Bench::new(Rules {
                limits: vec![allowed],
                ..rules()
            });
            bench.freeze(MAIN);
            let event = bench.world.events.last().unwrap().clone();
            let Event::Frozen(_, frozen_at, mut intent, origination) = event else {
                panic!("just frozen");
            };
            intent.action = class;
            intent.payload = payload.clone();
            let frozen = Event::Frozen(intent.digest(), frozen_at, intent, origination);
            let freeze = prove(bench.world.scope(), &frozen);
            let out = bench.ask(&freeze);
            let expected = if at == other {
                Verdict::Green
            } else {
                Verdict::Withheld
            };
            assert_eq!(said(&out), Ok(expected), "{class} under {resource:?}");
            if let (Verdict::Withheld, Some(Effect::State(verdict))) = (expected, out.last()) {
                let path = text.split_once(':').unwrap();
                let reason = verdict.reason_optional.clone().unwrap();
                let begins = format!("{class} on {}", path.1);
                assert!(reason.as_str().starts_with(&begins), "{reason}");
                let ends = format!("in {} is not in an allowed resource", path.0);
                assert!(reason.as_str().ends_with(&ends), "{reason}");
            }
        }
    }
}
