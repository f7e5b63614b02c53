//! The policy decides: clauses of the constitution, receipts of the runners they name (SPEC C.19).

use redlatch_types::command::{PolicyAuthorization, RawCommand};
use redlatch_types::event::{Accepted, Basis, Event};
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

const RUNNER: u8 = 90;

/// A world whose constitution lets gate `unit` of the runner decide landings.
fn governed() -> World {
    let mut world = World::new();
    let change = world.amended(|c| c.policy_clauses = vec![clause()]);
    world.make_change(change);
    world
}

pub(super) fn clause() -> PolicyClauseV1 {
    PolicyClauseV1 {
        clause_id: id("unit-tested"),
        action_classes: vec![ActionClass::Land],
        risk_domains: vec![RiskClass::Low],
        resource_environment_scope: vec![ResourceScope {
            repository: id("repo"),
            ref_prefix: Text::lossy("refs/heads/"),
        }],
        required_gates: vec![id("unit")],
        runners: vec![key(RUNNER).public_key()],
    }
}

/// What the clause's runner says of the commit.
pub(super) fn passed(world: &World) -> Envelope {
    receipt(world, 1, |_| {}, RUNNER)
}

fn receipt(world: &World, commit: u8, change: impl FnOnce(&mut GateReceiptV1), n: u8) -> Envelope {
    let ActionPayload::Land(land) = world.proposal("agent", MAIN, 0, commit).payload else {
        unreachable!();
    };
    let mut record = GateReceiptV1 {
        gate_id: id("unit"),
        spec_version: Text::lossy("1"),
        harness_fixture_digest: digest("harness"),
        environment_digest: digest("environment"),
        command: Text::lossy("make test"),
        verdict_and_findings: GateFindingsV1 {
            verdict: GateVerdict::Passed,
            exit_code_optional: Some(0),
            started_at_clock: 10,
            ended_at_clock: 20,
            log_digest: digest("log"),
            log_bytes: 3,
            findings: Vec::new(),
        },
        provider_key_version: 1,
        receipt_id: digest("id"),
        release_candidate_digest: land.candidate_digest(),
        artifact_digests: Vec::new(),
        generated_at_clock: 20,
        evidence_refs: Vec::new(),
    };
    change(&mut record);
    Envelope::seal(world.scope(), &key(n), &record)
}

pub(super) fn freeze(world: &mut World, evidence: &[&Envelope]) -> IntentDigest {
    let mut proposal = world.proposal("agent", MAIN, 0, 1);
    proposal.evidence = evidence.iter().map(|e| e.digest()).collect();
    proposal.evidence.sort();
    // Two runners that say the same have one digest.
    proposal.evidence.dedup();
    let command = world.freeze_command(AGENT, "agent", &proposal);
    match world.ok(command) {
        Accepted::Frozen(digest) => digest,
        other => panic!("{other:?}"),
    }
}

pub(super) fn authorize(
    world: &mut World,
    digest: IntentDigest,
    receipts: Vec<Envelope>,
) -> RawCommand {
    let green = world.green_record(digest);
    RawCommand::AuthorizePolicy(Box::new(PolicyAuthorization {
        intent_digest: digest,
        green: Envelope::seal(world.scope(), &key(SENTINEL), &green),
        receipts,
    }))
}

#[test]
fn m1_l16_a_policy_decides_by_its_clauses_and_says_policy_ratified() {
    let mut world = governed();
    let passed = receipt(&world, 1, |_| {}, RUNNER);
    let digest = freeze(&mut world, &[&passed]);
    assert_eq!(
        world.intent(digest).required_authority_variant,
        AuthorityVariant::Policy
    );
    let command = authorize(&mut world, digest, vec![passed]);
    let Accepted::Authorized(capability) = world.ok(command) else {
        panic!("authorized");
    };
    let Some(Event::Authorized(body)) = world.events.last() else {
        panic!("an event");
    };
    assert_eq!(body.decision.label, RatificationLabel::PolicyRatified);
    let Basis::Policy(decision, _) = &body.basis else {
        panic!("{:?}", body.basis);
    };
    assert_eq!(decision.matched_clauses, [id("unit-tested")]);
    world.ok(RawCommand::Prepare(digest, capability));
}

#[test]
fn a_policy_needs_each_gate_by_a_runner_of_the_clause_for_this_candidate() {
    let mut world = governed();
    let passed = receipt(&world, 1, |_| {}, RUNNER);
    let stranger = receipt(&world, 1, |_| {}, AGENT);
    let other_gate = receipt(&world, 1, |r| r.gate_id = id("lint"), RUNNER);
    let other_commit = receipt(&world, 2, |_| {}, RUNNER);
    let failed = receipt(
        &world,
        1,
        |r| r.verdict_and_findings.exit_code_optional = Some(1),
        RUNNER,
    );
    let all = [&passed, &stranger, &other_gate, &other_commit, &failed];
    let digest = freeze(&mut world, &all);
    let mut refused = |receipts: Vec<Envelope>| {
        let command = authorize(&mut world, digest, receipts);
        world.refused(command)
    };
    assert_eq!(refused(Vec::new()), Refusal::InsufficientQuorum);
    assert_eq!(refused(vec![stranger]), Refusal::InsufficientQuorum);
    assert_eq!(refused(vec![other_gate]), Refusal::InsufficientQuorum);
    assert_eq!(refused(vec![other_commit]), Refusal::CandidateMismatch);
    assert_eq!(refused(vec![failed]), Refusal::CandidateMismatch);
    assert_eq!(
        refused(vec![passed.clone(), passed.clone()]),
        Refusal::CandidateMismatch
    );
    let unfrozen = receipt(&world, 1, |r| r.receipt_id = digest_of(), RUNNER);
    let command = authorize(&mut world, digest, vec![unfrozen]);
    assert_eq!(
        world.refused(command),
        Refusal::CandidateMismatch,
        "not the frozen evidence"
    );
    let command = authorize(&mut world, digest, vec![passed]);
    world.ok(command);
}

fn digest_of() -> Digest {
    digest("another")
}

#[test]
fn a_policy_decides_nothing_that_its_clauses_do_not_name() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 1);
    let command = authorize(&mut world, digest, Vec::new());
    assert_eq!(world.refused(command), Refusal::WrongVariant);
}
