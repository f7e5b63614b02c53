//! Invariants that belong to no single command: roles, bindings, recovery, the two paths.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with its reason in sight"
)]

use super::world::*;
use redlatch_journal::State;
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::mandate::NegativeVerb;
use redlatch_types::records::*;
use redlatch_types::*;

#[test]
pub(super) fn m1_i2_no_positive_step_without_the_one_before_it() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let nothing = CapabilityId(Digest::ZERO);
    assert_eq!(
        world.refused(RawCommand::Prepare(digest, nothing)),
        Refusal::WrongState
    );
    let unknown = IntentDigest(Digest::ZERO);
    assert_eq!(
        world.refused(RawCommand::Prepare(unknown, nothing)),
        Refusal::UnknownIntent
    );
    let capability = world.authorize(digest);
    let id = PositiveAuthorityTransactionV1::id_of(&capability);
    assert_eq!(
        world.refused(RawCommand::Commit(id)),
        Refusal::UnknownTransaction
    );
    assert_eq!(
        world.refused(RawCommand::Prepare(digest, nothing)),
        Refusal::Unauthorized
    );
}

#[test]
fn m1_i12_a_verifier_cannot_be_a_subject_and_an_executor_is_never_the_proposer() {
    for verifier in VERIFIERS {
        let mut record = redlatch_journal::development::genesis(parties());
        record.subjects[0].subject_id = id(verifier.0);
        record
            .subjects
            .sort_by(|a, b| a.subject_id.cmp(&b.subject_id));
        let mut world = World::before_genesis();
        assert_eq!(world.refused(seal_genesis(&record)), Refusal::BadGenesis);
    }
    for pinned in ["sentinel", "actuator"] {
        let mut record = redlatch_journal::development::genesis(parties());
        record.subjects[2].subject_id = id(pinned);
        record
            .subjects
            .sort_by(|a, b| a.subject_id.cmp(&b.subject_id));
        record.grants.clear();
        record.activations[1].grants_digest = grants_digest(record.grants.iter());
        let mut world = World::before_genesis();
        assert_eq!(world.refused(seal_genesis(&record)), Refusal::BadGenesis);
    }
}

#[test]
fn m1_i13_without_an_active_quorum_key_nothing_is_decided() {
    let mut world = World::before_genesis();
    world.ok(seal_genesis(&redlatch_journal::development::genesis(
        parties(),
    )));
    world.tick(START + 1_000);
    let digest = world.freeze(MAIN, 0, 7);
    let given = world.authorization(digest, &approvals());
    assert_eq!(
        world.refused(RawCommand::Authorize(Box::new(given))),
        Refusal::StaleRoster
    );
}

#[test]
fn m1_i15_four_of_four_votes_do_not_override_a_red() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let all: Vec<_> = (0..4).map(|v| (v, VoteVerdict::Approve)).collect();
    let given = world.authorization(digest, &all);
    let red = Outbox::new().red(&world, &RedScope::Intent(digest));
    let outcomes = world.apply_together(vec![red, RawCommand::Authorize(Box::new(given.clone()))]);
    assert_eq!(outcomes[1].reply, Err(Refusal::RedLatched));
    world.stop(LatchNumber(1));
    assert_eq!(
        world.refused(RawCommand::Authorize(Box::new(given))),
        Refusal::Frozen
    );
}

/// Lets the activations name the constitution as it is now.
fn rename_constitution(genesis: &mut GenesisV1) {
    let digest = genesis.constitution.digest();
    for receipt in &mut genesis.activations {
        receipt.target_constitution_digest = digest;
        if receipt.previous_constitution_epoch != ConstitutionEpoch(0) {
            receipt.previous_constitution_digest = digest;
        }
    }
}

#[test]
fn m1_i18_a_mode_without_activation_receipt_is_not_active() {
    // Full autonomy is allowed by the constitution, yet nothing activates it.
    let mut record = redlatch_journal::development::genesis(parties());
    record
        .constitution
        .allowed_autonomy_modes
        .push(Mode::FullAutonomy);
    rename_constitution(&mut record);
    let mut world = World::before_genesis();
    world.ok(seal_genesis(&record));
    let epoch = &world.state.authority.governance.as_ref().unwrap().epoch;
    assert_eq!(epoch.active_mode, Mode::PolicyAutonomous);
    assert_eq!(epoch.activation_receipt_id, record.activations[1].id());
}

#[test]
fn m1_i23_no_digest_depends_on_itself() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    world.authorize(digest);
    let intent = world.intent(digest);
    let bytes = intent.to_canonical();
    assert_eq!(IntentDigest(Digest::of(&bytes)), digest);
    let Some(Event::Authorized(body)) = world.events.last() else {
        panic!()
    };
    let later = [
        digest.0,
        body.green.digest(),
        body.quorum().unwrap().decision.digest(),
        body.decision.digest(),
        body.capability_id.0,
    ];
    for excluded in later {
        assert!(!bytes.windows(32).any(|w| w == excluded.as_bytes()));
    }
    assert_eq!(
        body.decision.sentinel_verdict_digest_optional,
        Some(body.green.digest())
    );
    assert_eq!(body.decision.binding.intent_core_ref, digest);
}

#[test]
pub(super) fn m1_i24_the_frozen_leaf_holds_the_bytes_that_its_digest_names() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let Some(Event::Frozen(named, time, intent, _)) = world.events.last() else {
        panic!()
    };
    assert_eq!(*named, digest);
    assert_eq!(intent.digest(), digest);
    assert_eq!(*time, world.now());
    // A verdict that claims to be older than the freeze is refused.
    let mut green = world.green_record(digest);
    green.issued_at = world.now() - 1;
    let votes = (0..3)
        .map(|v| world.vote(digest, v, VoteVerdict::Approve))
        .collect();
    let given = world.authorization_of(digest, green, votes);
    assert_eq!(
        world.refused(RawCommand::Authorize(Box::new(given))),
        Refusal::SentinelRequired
    );
}

/// M1-L8: one field of the binding set changed, one decision refused.
#[test]
fn m1_l8_every_field_of_the_binding_set_is_compared() {
    type Change = fn(&mut CommonBindingSet);
    let changes: &[Change] = &[
        |b| b.intent_digest = IntentDigest(Digest::of(b"x")),
        |b| b.intent_core_ref = IntentDigest(Digest::of(b"x")),
        |b| b.intent_canonicalization_version = 2,
        |b| b.issuer_subject_id = id("x"),
        |b| b.decision_subject_id = id("x"),
        |b| b.caller_subject_id = id("x"),
        |b| b.proposer_subject_id = id("x"),
        |b| b.executor_subject_id_optional = Some(id("x")),
        |b| b.delegation_grant_digest_optional = Some(Digest::of(b"x")),
        |b| b.required_authority_variant = AuthorityVariant::Policy,
        |b| b.action_policy_registry_digest = Digest::of(b"x"),
        |b| b.classifier_decision_digest = Digest::of(b"x"),
        |b| b.active_mode = Mode::FullAutonomy,
        |b| b.autonomy_activation_receipt_id = Digest::of(b"x"),
        |b| b.risk_scope_digest = Digest::of(b"x"),
        |b| b.candidate_digest_optional = Some(Digest::of(b"x")),
        |b| b.constitution_digest = Digest::of(b"x"),
        |b| b.constitution_epoch = ConstitutionEpoch(9),
        |b| b.autonomy_epoch = AutonomyEpoch(9),
        |b| b.expected_store_epoch = 9,
        |b| b.expected_store_version = 9,
        |b| b.expected_boundary_version = 9,
        |b| b.expected_contract_version = 9,
    ];
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    // One change per field: the set has as many keys as there are changes.
    let fields = CommonBindingSet::of(&world.intent(digest), digest).to_canonical()[0] & 0x1f;
    assert_eq!(changes.len(), field_count(fields));
    for (i, change) in changes.iter().enumerate() {
        let mut given = world.authorization(digest, &approvals());
        let mut decision = AgentQuorumDecisionV1::from_canonical(&given.decision.body.0).unwrap();
        change(&mut decision.binding);
        given.decision = Envelope::seal(world.scope(), &key(GROUP), &decision);
        assert_eq!(
            world.refused(RawCommand::Authorize(Box::new(given))),
            Refusal::CandidateMismatch,
            "field {i}"
        );
    }
}

/// Present fields plus the one optional field that is absent in this world (the delegation).
fn field_count(present: u8) -> usize {
    usize::from(present) + 1
}

#[test]
fn m1_i28_recovery_reads_state_only() {
    // PREPARED without marker: revalidated against what is now.
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let id = world.prepare(digest);
    world.state = State::from_bytes(&world.state.to_bytes()).unwrap();
    let mut later = World::new();
    later.state = world.state.clone();
    later.tick(later.now() + 3 * MINUTE);
    assert_eq!(later.refused(RawCommand::Commit(id)), Refusal::Expired);
    later.ok(RawCommand::Abort(id, AbortReason::Expired));
    // COMMITTED: goes on without new authority, whatever came since.
    world.ok(RawCommand::Commit(id));
    world.state = State::from_bytes(&world.state.to_bytes()).unwrap();
    let red = Outbox::new().red(&world, &RedScope::Everything);
    world.latch(red);
    let again = world.apply(RawCommand::Commit(id));
    assert_eq!(again.reply, Ok(Accepted::Committed(MarkerNumber(1))));
    assert!(again.events.is_empty());
}

#[test]
fn m1_i29_no_safety_step_without_the_one_before_it() {
    let mut world = World::new();
    let nothing = TransactionId(Digest::ZERO);
    for command in [
        RawCommand::ClaimSafety(nothing),
        RawCommand::FinishSafety(nothing),
    ] {
        assert_eq!(world.refused(command), Refusal::UnknownTransaction);
    }
    let red = Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    let attempt = world.attempt(latch);
    let unstored = world.capability_command(&attempt, ACTUATOR);
    assert_eq!(world.refused(unstored), Refusal::WrongState);
    world.store_attempt(latch);
    let mut other = attempt;
    other.latch_epoch = LatchNumber(2);
    assert_eq!(
        world.refused(RawCommand::StoreSafetyIntent(Box::new(other))),
        Refusal::WrongState
    );
    // A positive transaction is no safety transaction.
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let positive = world.prepare(digest);
    assert_eq!(
        world.refused(RawCommand::ClaimSafety(positive)),
        Refusal::UnknownTransaction
    );
}

#[test]
fn m1_i30_the_verbs_of_a_stop_are_six_and_all_negative() {
    let known: Vec<_> = (0..=300).filter_map(NegativeVerb::from_number).collect();
    let words: Vec<_> = known.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "freeze",
            "fence_epoch",
            "revoke",
            "abort_prepare",
            "demote",
            "rollback"
        ]
    );
    assert_eq!(NegativeVerb::from_number(u64::MAX), None);
}

#[test]
fn m1_i17_a_grant_covers_its_own_subject_and_nobody_elses() {
    let mut world = World::new();
    let agent = world.grant("agent");
    let other = world.grant("other");
    assert_ne!(agent, other);
    let mut proposal = world.proposal("agent", MAIN, 0, 7);
    proposal.applicable_grant_id = Some(other);
    let command = world.freeze_command(AGENT, "agent", &proposal);
    assert_eq!(world.refused(command), Refusal::Unauthorized);
}

#[test]
pub(super) fn m1_l3_safety_and_positive_capabilities_are_signed_under_different_names() {
    let mut world = World::new();
    let red = Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    let attempt = world.store_attempt(latch);
    let RawCommand::PrepareSafety(envelope) = world.capability_command(&attempt, ACTUATOR) else {
        panic!()
    };
    assert!(envelope.open::<SafetyCapabilityV1>().is_ok());
    assert!(envelope.open::<EffectClaimV1>().is_err());
    assert!(envelope.open::<AgentQuorumDecisionV1>().is_err());
    // The same attempt again is the same transaction, not a second one.
    let first = world.ok(RawCommand::PrepareSafety(envelope.clone()));
    let again = world.apply(RawCommand::PrepareSafety(envelope));
    assert_eq!(again.reply, Ok(first));
    assert!(again.events.is_empty());
}

#[test]
fn m1_l4_the_latch_comes_from_the_journal_and_stays_until_its_end() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let id = world.prepare(digest);
    let red = Outbox::new().red(&world, &RedScope::Intent(digest));
    // Not yet in the journal: it stops nothing there.
    let RawCommand::LatchRed(_) = &red else {
        panic!()
    };
    world.ok(RawCommand::Commit(id));
    world.latch(red);
    // Time alone ends neither latch nor freeze.
    world.tick(world.now() + 60 * MINUTE);
    let next = world.freeze("refs/heads/next", 0, 8);
    let given = world.authorization(next, &approvals());
    assert_eq!(
        world.refused(RawCommand::Authorize(Box::new(given))),
        Refusal::RedLatched
    );
}

/// The governance moves on between decision and COMMIT: each field alone voids the step.
#[test]
pub(super) fn m1_i27_nothing_is_substituted_after_the_verdict() {
    type Change = fn(&mut redlatch_journal::authority::Governance);
    let changes: &[Change] = &[
        |g| g.epoch.active_mode = Mode::FullAutonomy,
        |g| g.epoch.activation_receipt_id = Digest::of(b"x"),
        |g| g.constitution.constitution_epoch = ConstitutionEpoch(2),
        |g| g.constitution.objectives_non_goals.clear(),
        |g| g.constitution.quorum_signature_required = false,
        |g| g.constitution.independence_spec.quorum_threshold = 4,
        |g| g.kernel.minimum_quorum_threshold = 4,
        |g| g.organism_epoch = 2,
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut world = World::new();
        let digest = world.freeze(MAIN, 0, 7);
        let capability = world.authorize(digest);
        let governance = world.state.authority.governance.clone();
        change(world.state.authority.governance.as_mut().unwrap());
        assert_eq!(
            world.refused(RawCommand::Prepare(digest, capability)),
            Refusal::EpochFenced,
            "before PREPARE, change {i}"
        );
        world.state.authority.governance = governance;
        let Accepted::Prepared(id) = world.ok(RawCommand::Prepare(digest, capability)) else {
            panic!()
        };
        change(world.state.authority.governance.as_mut().unwrap());
        assert_eq!(
            world.refused(RawCommand::Commit(id)),
            Refusal::EpochFenced,
            "before COMMIT, change {i}"
        );
    }
}

#[test]
pub(super) fn m1_l13_an_expired_constitution_and_a_revoked_party_stop_everything_positive() {
    type Change = fn(&mut redlatch_journal::authority::Governance);
    let revoke: &[(Refusal, Change)] = &[
        (Refusal::Expired, |g| {
            g.constitution.expires_at_optional = Some(START + 1_000);
        }),
        (Refusal::Unauthorized, |g| {
            g.subjects
                .get_mut(&id("agent"))
                .unwrap()
                .revoked_at_optional = Some(START);
        }),
        (Refusal::Unauthorized, |g| {
            g.subjects.get_mut(&id("gate")).unwrap().revoked_at_optional = Some(START);
        }),
        (Refusal::Unauthorized, |g| g.grants.clear()),
    ];
    for (expected, change) in revoke {
        let mut world = World::new();
        if *expected == Refusal::Expired {
            // In force from the start, so that only its end can stop the step.
            let mut record = redlatch_journal::development::genesis(parties());
            record.constitution.expires_at_optional = Some(START + 3 * MINUTE);
            rename_constitution(&mut record);
            world = World::before_genesis();
            world.ok(seal_genesis(&record));
            world.tick(START + 2 * MINUTE);
            let confirmations = world.key_confirmations(|_, _| {});
            world.ok(RawCommand::ActivateQuorumKey(confirmations));
        }
        let digest = world.freeze(MAIN, 0, 7);
        let id = world.prepare(digest);
        if *expected == Refusal::Expired {
            world.tick(START + 3 * MINUTE);
        } else {
            change(world.state.authority.governance.as_mut().unwrap());
        }
        assert_eq!(world.refused(RawCommand::Commit(id)), *expected);
    }
}
