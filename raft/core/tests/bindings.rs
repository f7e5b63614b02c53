//! Every field that a record repeats is compared where the record is used (M1-L8, M1-I27).

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with its reason in sight"
)]

use super::world::*;
use redlatch_journal::authority::{Authority, IntentStage};
use redlatch_types::command::RawCommand;
use redlatch_types::records::*;
use redlatch_types::*;

/// The freeze of a proposal in the name of a mission, under an envelope that `change` has altered.
fn frozen_with(change: fn(&mut CausalEnvelopeV1)) -> Result<(), Refusal> {
    let mut world = World::new();
    let mut proposal = world.proposal("agent", MAIN, 0, 7);
    proposal.mission_id_optional = Some(id("mission"));
    let payload = proposal.to_canonical();
    let mut record = world.envelope_record("agent", &payload);
    change(&mut record);
    let sealed = Envelope::seal(world.scope(), &key(AGENT), &record);
    let outcome = world.apply(RawCommand::FreezeIntent(sealed, Bytes(payload)));
    outcome.reply.map(|_| ())
}

#[test]
fn an_envelope_names_what_its_payload_names_or_nothing() {
    type Change = fn(&mut CausalEnvelopeV1);
    let agreeing: [Change; 4] = [
        |_| {},
        |e| e.mission_id_optional = Some(id("mission")),
        |e| e.store_version_optional = Some(0),
        |e| {
            let land = LandPayload {
                resource: GitRef {
                    repository: id("repo"),
                    reference: Text::new(MAIN).unwrap(),
                },
                old: Bytes::default(),
                new: Bytes(vec![7; 20]),
            };
            e.target_digest_optional = Some(land.candidate_digest());
        },
    ];
    for (at, change) in agreeing.into_iter().enumerate() {
        assert_eq!(frozen_with(change), Ok(()), "agreeing {at}");
    }
    let other: [Change; 4] = [
        |e| e.mission_id_optional = Some(id("another")),
        |e| e.store_version_optional = Some(1),
        |e| e.target_digest_optional = Some(digest("another")),
        |e| e.delegation_id_optional = Some(digest("nobody's")),
    ];
    for (at, change) in other.into_iter().enumerate() {
        let outcome = frozen_with(change);
        assert_eq!(outcome, Err(Refusal::CandidateMismatch), "other {at}");
    }
}

#[test]
fn an_envelope_that_names_what_nothing_can_compare_is_refused() {
    let unknown: [fn(&mut CausalEnvelopeV1); 5] = [
        |e| e.capability_id_optional = Some(CapabilityId(digest("x"))),
        |e| e.mission_head_id_optional = Some(digest("x")),
        |e| e.block_id_optional = Some(digest("x")),
        |e| e.receipt_id_optional = Some(digest("x")),
        |e| e.presence_id_optional = Some(digest("x")),
    ];
    for (at, change) in unknown.into_iter().enumerate() {
        let outcome = frozen_with(change);
        assert_eq!(outcome, Err(Refusal::NotSupported), "unknown {at}");
    }
}

#[test]
fn m1_l8_prepare_compares_the_capability_with_intent_decision_and_grant() {
    let changes: [fn(&mut AutonomyCapabilityV1); 11] = [
        |c| c.binding.caller_subject_id = id("other"),
        |c| c.authority_decision_digest = digest("x"),
        |c| c.effective_tier = Tier::A5,
        |c| c.audience = id("other"),
        |c| c.action = ActionClass::ReleasePromote,
        |c| c.applicable_grant_id = Some(GrantId(digest("x"))),
        |c| c.applicable_grant_digest = Some(digest("x")),
        |c| c.nonce = digest("x"),
        |c| c.budget = None,
        |c| c.capability_kind = AuthorityVariant::Human,
        |c| c.idempotency_key = EventId(digest("x")),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut world = World::new();
        let intent = world.freeze(MAIN, 0, 7);
        world.authorize(intent);
        let state: &mut Authority = &mut world.state.authority;
        let live = state.intents.get_mut(&intent).unwrap();
        let IntentStage::Authorized(permit) = &mut live.stage else {
            panic!("{:?}", live.stage)
        };
        change(&mut permit.capability);
        let id = permit.capability.id();
        assert_eq!(
            world.refused(RawCommand::Prepare(intent, id)),
            Refusal::Unauthorized,
            "change {at}"
        );
    }
}

#[test]
fn m1_i27_commit_compares_the_stored_transaction_with_the_intent() {
    let changes: [fn(&mut PositiveAuthorityTransactionV1); 10] = [
        |t| t.identity_role_binding_digest = digest("x"),
        |t| t.expected_activation_receipt_id = digest("x"),
        |t| t.expected_active_mode = Mode::HumanGated,
        |t| {
            t.binding.candidate_digest_optional = None;
            let binding = &t.binding;
            t.identity_role_binding_digest = PositiveAuthorityTransactionV1::role_binding(binding);
        },
        |t| t.binding.executor_subject_id_optional = None,
        |t| t.effective_tier_optional = Some(Tier::A5),
        |t| t.idempotency_key = EventId(digest("x")),
        |t| t.nonce = digest("x"),
        |t| t.rollback_plan_digest = digest("x"),
        |t| t.authority_decision_digest = digest("x"),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut world = World::new();
        let intent = world.freeze(MAIN, 0, 7);
        let id = world.prepare(intent);
        let held = world.state.authority.transactions.get_mut(&id).unwrap();
        change(&mut held.transaction);
        assert_eq!(
            world.refused(RawCommand::Commit(id)),
            Refusal::EpochFenced,
            "change {at}"
        );
    }
}

fn assert_repeats(capability: &SafetyCapabilityV1, attempt: &SafetyActionIntentV1) {
    let (c, a) = (capability, attempt);
    let version = a.safety_intent_canonicalization_version;
    assert_eq!(c.safety_intent_digest, a.digest());
    assert_eq!(c.safety_intent_core_ref, a.digest());
    assert_eq!(c.safety_intent_canonicalization_version, version);
    assert_eq!(c.sentinel_red_verdict_digest, a.sentinel_red_verdict_digest);
    assert_eq!(c.expected_constitution_epoch, a.expected_constitution_epoch);
    assert_eq!(
        c.affected_grants_scope_digest,
        a.affected_grants_scope_digest
    );
    assert_eq!(
        c.allowed_negative_actions_digest,
        a.allowed_negative_actions_digest
    );
    assert_eq!(
        c.rollback_candidate_plan_digest_optional,
        a.rollback_candidate_plan_digest_optional
    );
}

#[test]
fn m1_i31_a_safety_capability_repeats_its_attempt_field_by_field() {
    let changes: [fn(&mut SafetyCapabilityV1); 6] = [
        |c| c.safety_intent_canonicalization_version += 1,
        |c| c.sentinel_red_verdict_digest = digest("x"),
        |c| c.expected_constitution_epoch = ConstitutionEpoch(2),
        |c| c.affected_grants_scope_digest = digest("x"),
        |c| c.allowed_negative_actions_digest = digest("x"),
        |c| c.rollback_candidate_plan_digest_optional = Some(digest("x")),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut world = World::new();
        let red = Outbox::new().red(&world, &RedScope::Everything);
        let latch = world.latch(red);
        let attempt = world.store_attempt(latch);
        let mut capability = SafetyCapabilityV1::of(&attempt);
        assert_repeats(&capability, &attempt);
        change(&mut capability);
        let sealed = Envelope::seal(world.scope(), &key(ACTUATOR), &capability);
        assert_eq!(
            world.refused(RawCommand::PrepareSafety(sealed)),
            Refusal::MandateMismatch,
            "change {at}"
        );
    }
}

#[test]
pub(super) fn m1_i29_a_stop_says_that_no_decision_stands_behind_it_and_publishes_a_stopped_epoch() {
    let mut world = World::new();
    let before = world.state.authority.governance.clone().unwrap().epoch;
    assert_eq!(before.safety_state, SafetyState::Normal);
    let red = Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    world.tick(START + MINUTE);
    let attempt = world.store_attempt(latch);
    let command = world.capability_command(&attempt, ACTUATOR);
    world.ok(command);
    let capability = SafetyCapabilityV1::of(&attempt);
    world.ok(RawCommand::ClaimSafety(capability.transaction_id()));
    let marker = world.events.iter().find_map(|event| match event {
        redlatch_types::event::Event::SafetyCommitted(marker) => Some((**marker).clone()),
        _ => None,
    });
    let marker = marker.unwrap();
    assert!(marker.is_sound());
    assert!(marker.positive_authority_decision_forbidden);
    assert_eq!(marker.transaction_variant, TransactionVariant::SafetyKernel);
    assert_eq!(marker.safety_capability_id, capability.id());
    assert_eq!(
        marker.authorization_snapshot.autonomy_epoch,
        before.autonomy_epoch
    );
    let after = world.state.authority.governance.clone().unwrap().epoch;
    assert_eq!(after.safety_state, SafetyState::Stopped);
    assert_eq!(after.effective_at, marker.committed_at);
    assert_eq!(after.constitution_digest, before.constitution_digest);
    let breaks: [fn(&mut SafetyMarkerV1); 6] = [
        |m| m.transaction_variant = TransactionVariant::PositiveAuthority,
        |m| m.positive_authority_decision_forbidden = false,
        |m| m.safety_capability_id = CapabilityId(digest("x")),
        |m| m.authorization_snapshot.autonomy_epoch = AutonomyEpoch(9),
        |m| m.new_autonomy_epoch = m.old_autonomy_epoch,
        |m| m.committed_at += 1,
    ];
    for (at, change) in breaks.into_iter().enumerate() {
        let mut broken = marker.clone();
        change(&mut broken);
        assert!(!broken.is_sound(), "break {at}");
    }
}
