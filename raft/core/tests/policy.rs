//! The policy decides: clauses of the constitution, receipts of the runners they name (SPEC C.19).

use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Basis, Event};
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

/// A world whose constitution lets gate `unit` of the runner decide landings.
fn governed() -> World {
    let mut world = World::new();
    let change = world.amended(|c| c.policy_clauses = vec![landing_clause()]);
    world.make_change(change);
    world
}

#[test]
fn m1_l16_a_policy_decides_by_its_clauses_and_says_policy_ratified() {
    let mut world = governed();
    let passed = gate_receipt(&world, 1, |_| {}, RUNNER);
    let digest = freeze_on(&mut world, &[&passed]);
    assert_eq!(
        world.intent(digest).required_authority_variant,
        AuthorityVariant::Policy
    );
    let command = policy_authorization(&mut world, digest, vec![passed]);
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
    let passed = gate_receipt(&world, 1, |_| {}, RUNNER);
    let stranger = gate_receipt(&world, 1, |_| {}, AGENT);
    let other_gate = gate_receipt(&world, 1, |r| r.gate_id = id("lint"), RUNNER);
    let other_commit = gate_receipt(&world, 2, |_| {}, RUNNER);
    let failed = gate_receipt(
        &world,
        1,
        |r| r.verdict_and_findings.exit_code_optional = Some(1),
        RUNNER,
    );
    let all = [&passed, &stranger, &other_gate, &other_commit, &failed];
    let digest = freeze_on(&mut world, &all);
    let mut refused = |receipts: Vec<Envelope>| {
        let command = policy_authorization(&mut world, digest, receipts);
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
    let unfrozen = gate_receipt(&world, 1, |r| r.receipt_id = digest_of(), RUNNER);
    let command = policy_authorization(&mut world, digest, vec![unfrozen]);
    assert_eq!(
        world.refused(command),
        Refusal::CandidateMismatch,
        "not the frozen evidence"
    );
    let command = policy_authorization(&mut world, digest, vec![passed]);
    world.ok(command);
}

fn digest_of() -> Digest {
    digest("another")
}

#[test]
fn a_policy_decides_nothing_that_its_clauses_do_not_name() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 1);
    let command = policy_authorization(&mut world, digest, Vec::new());
    assert_eq!(world.refused(command), Refusal::WrongVariant);
}

/// A policy decides by grants and clauses together: without a grant only a person does.
#[test]
fn m1_i13_a_policy_decides_nothing_for_an_intent_that_lost_its_grant() {
    let mut world = governed();
    let passed = gate_passed(&world);
    let digest = freeze_on(&mut world, &[&passed]);
    let command = policy_authorization(&mut world, digest, vec![passed]);
    let live = world.state.authority.intents.get_mut(&digest);
    live.expect("frozen").intent.applicable_grant_id = None;
    assert_eq!(world.refused(command), Refusal::Unauthorized);
}

#[test]
fn a_receipt_of_another_organism_or_organism_epoch_decides_nothing() {
    let mut world = governed();
    let scope = world.scope();
    let passed = gate_passed(&world);
    let record = GateReceiptV1::from_canonical(&passed.body.0).expect("its own record");
    let elsewhere = Scope {
        organism_id: OrganismId(digest("elsewhere")),
        ..scope
    };
    let before = Scope {
        organism_epoch: scope.organism_epoch - 1,
        ..scope
    };
    for scope in [elsewhere, before] {
        let foreign = Envelope::seal(scope, &key(RUNNER), &record);
        let digest = freeze_on(&mut world, &[&foreign]);
        let command = policy_authorization(&mut world, digest, vec![foreign]);
        assert_eq!(world.refused(command), Refusal::WrongOrganism);
    }
}
