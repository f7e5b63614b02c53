//! Changes of the organism itself: amendments, modes, grants, subjects, keys, resets (DESIGN §9).

use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

fn grant_change(change: GrantPayload) -> ActionPayload {
    ActionPayload::GrantChange(Box::new(change))
}

#[test]
fn m1_l12_an_amendment_is_decided_before_and_active_after_at_a_later_epoch() {
    let mut world = World::new();
    let before = world.governance();
    let change = world.amended(|c| c.objectives_non_goals = vec![Text::lossy("other")]);
    let id = world.commit_change(change);
    // Committed is not in force.
    assert_eq!(world.governance().constitution, before.constitution);
    world.ok(RawCommand::Activate(id));
    let after = world.governance();
    assert_eq!(after.constitution.constitution_epoch, ConstitutionEpoch(2));
    assert_eq!(
        after.constitution.previous_constitution_digest,
        before.constitution.digest()
    );
    assert_ne!(after.constitution.old_runtime_approval_digest, Digest::ZERO);
    assert_eq!(
        after.epoch.autonomy_epoch,
        before.epoch.autonomy_epoch.next()
    );
    assert_eq!(after.epoch.constitution_digest, after.constitution.digest());
    // Again is the first answer, and nothing more.
    let events = world.events.len();
    world.ok(RawCommand::Activate(id));
    assert_eq!(world.events.len(), events);
    // What is frozen under the new constitution goes on as before.
    world.land("refs/heads/main", 0, 1);
}

#[test]
pub(super) fn m1_i21_no_amendment_lowers_a_floor() {
    let mut world = World::new();
    type Change = fn(&mut ConstitutionV1);
    let changes: [(&str, Change); 16] = [
        ("threshold", |c| c.independence_spec.quorum_threshold = 2),
        ("threshold above the seats", |c| {
            c.independence_spec.quorum_threshold = 5
        }),
        ("domains", |c| {
            c.independence_spec.minimum_failure_domains = 2
        }),
        ("voting proposer", |c| {
            c.independence_spec.proposer_executor_nonvoting = false
        }),
        ("seats", |c| {
            c.independence_spec.four_voting_verifier_principals.pop();
        }),
        ("sentinel", |c| {
            c.independence_spec.nonvoting_sentinel_id = id("va")
        }),
        ("kernel", |c| c.safety_kernel_digest = digest("other")),
        ("registry", |c| {
            c.budgets_risk_actions_digest = digest("other")
        }),
        ("no person", |c| c.human_approvals_required = 0),
        ("people may not decide", |c| {
            c.allowed_autonomy_modes = vec![Mode::PolicyAutonomous]
        }),
        ("the mode in force", |c| {
            c.allowed_autonomy_modes = vec![Mode::HumanGated]
        }),
        ("same epoch", |c| {
            c.constitution_epoch = ConstitutionEpoch(1)
        }),
        ("later epoch", |c| {
            c.constitution_epoch = ConstitutionEpoch(3)
        }),
        ("another predecessor", |c| {
            c.previous_constitution_digest = digest("other")
        }),
        ("approves itself", |c| {
            c.old_runtime_approval_digest = digest("me")
        }),
        ("clause without evidence", |c| {
            c.policy_clauses = vec![PolicyClauseV1 {
                clause_id: id("any"),
                action_classes: vec![ActionClass::Land],
                risk_domains: vec![RiskClass::Low],
                resource_environment_scope: vec![ResourceScope {
                    repository: id("repo"),
                    ref_prefix: Text::lossy("refs/"),
                }],
                required_gates: Vec::new(),
                runners: Vec::new(),
            }];
        }),
    ];
    for (what, change) in changes {
        let payload = world.amended(change);
        assert_eq!(
            world.refused_change(payload),
            Refusal::KernelFloor,
            "{what}"
        );
    }
}

#[test]
pub(super) fn m1_i18_a_mode_is_active_only_by_its_activation() {
    let mut world = World::new();
    let mode = |world: &World, mode, gates| {
        ActionPayload::ModeActivate(ModePayload {
            mode,
            activates_at: world.now() + MINUTE,
            gate_receipts_digest: gates,
            rollback_plan_digest: digest("rollback"),
        })
    };
    let refused = [
        mode(&world, Mode::FullAutonomy, digest("gates")),
        mode(&world, Mode::PolicyAutonomous, digest("gates")),
        mode(&world, Mode::HumanGated, Digest::ZERO),
    ];
    for payload in refused {
        assert_eq!(world.refused_change(payload), Refusal::KernelFloor);
    }
    let payload = mode(&world, Mode::HumanGated, digest("gates"));
    let id = world.commit_change(payload);
    assert_eq!(world.refused(RawCommand::Activate(id)), Refusal::NotDue);
    assert_eq!(world.governance().epoch.active_mode, Mode::PolicyAutonomous);
    let due = world.now() + MINUTE;
    world.tick(due);
    // Nothing becomes active as a side effect of time.
    assert_eq!(world.governance().epoch.active_mode, Mode::PolicyAutonomous);
    world.ok(RawCommand::Activate(id));
    let epoch = world.governance().epoch;
    assert_eq!(epoch.active_mode, Mode::HumanGated);
    let receipt = world.events.iter().rev().find_map(|e| match e {
        Event::Activated(_, _, receipt) => Some(receipt.clone()),
        _ => None,
    });
    let receipt = receipt.expect("an activation receipt");
    assert_eq!(epoch.activation_receipt_id, receipt.id());
    assert_eq!(receipt.activated_mode, Mode::HumanGated);
    // The grants of the other mode cover nothing now.
    let proposal = world.proposal("agent", MAIN, 0, 1);
    let command = world.freeze_command(AGENT, "agent", &proposal);
    assert_eq!(world.refused(command), Refusal::Unauthorized);
}

#[test]
pub(super) fn an_activation_that_comes_too_late_has_lapsed() {
    let mut world = World::new();
    // Its time begins when it is due, not when it was committed.
    let due = world.now() + 20 * MINUTE;
    let id = world.commit_change(ActionPayload::ModeActivate(ModePayload {
        mode: Mode::HumanGated,
        activates_at: due,
        gate_receipts_digest: digest("gates"),
        rollback_plan_digest: digest("rollback"),
    }));
    let committed = world.state.clone();
    world.tick(due + 10 * MINUTE);
    let late = world.refused(RawCommand::Activate(id));
    assert_eq!(late, Refusal::EffectLapsed);
    world.state = committed;
    world.tick(due + 10 * MINUTE - 1);
    world.ok(RawCommand::Activate(id));
    let mut world = World::new();
    let change = grant_change(GrantPayload::Revoke(world.grant("other")));
    let id = world.commit_change(change);
    let late = world.now() + 10 * MINUTE;
    world.tick(late);
    assert_eq!(
        world.refused(RawCommand::Activate(id)),
        Refusal::EffectLapsed
    );
}

/// A committed change that has half an hour to be activated.
fn committed_for_long(world: &mut World, payload: ActionPayload) -> TransactionId {
    let mut proposal = world.change(payload);
    proposal.effect_deadline_ms = 30 * MINUTE;
    let command = world.freeze_command(GOVERNOR, "governor", &proposal);
    let Accepted::Frozen(digest) = world.ok(command) else {
        panic!("it is frozen");
    };
    let capability = world.decide(digest);
    let Accepted::Prepared(id) = world.ok(RawCommand::Prepare(digest, capability)) else {
        panic!("it is prepared");
    };
    world.ok(RawCommand::Commit(id));
    id
}

#[test]
pub(super) fn d12_another_key_of_the_same_four_lets_ballots_end_for_ten_minutes() {
    let rotation = |world: &World| {
        let same = world.governance().roster.verifiers;
        ActionPayload::VerifierSetChange(same)
    };
    // No ballot is open.
    let mut world = World::new();
    let payload = rotation(&world);
    world.make_change(payload);
    assert!(world.governance().quorum_key.is_none());
    assert_eq!(world.governance().last_key_epoch, KeyEpoch(1));

    // One is open all the time.
    let mut world = World::new();
    world.freeze(MAIN, 0, 1);
    let payload = rotation(&world);
    let id = committed_for_long(&mut world, payload);
    let committed = world.now();
    assert_eq!(world.refused(RawCommand::Activate(id)), Refusal::NotDue);
    world.tick(committed + 10 * MINUTE - 1);
    assert_eq!(world.refused(RawCommand::Activate(id)), Refusal::NotDue);
    world.tick(committed + 10 * MINUTE);
    world.ok(RawCommand::Activate(id));

    // Whoever replaces a verifier waits for no ballot.
    let mut world = World::new();
    world.freeze(MAIN, 0, 1);
    let mut verifiers = world.governance().roster.verifiers;
    verifiers[0].policy_digest = digest("another policy");
    world.make_change(ActionPayload::VerifierSetChange(verifiers));
    assert!(world.governance().quorum_key.is_none());
}

#[test]
pub(super) fn a_latch_stops_an_activation_and_its_epoch_voids_it() {
    let mut world = World::new();
    let change = grant_change(GrantPayload::Revoke(world.grant("other")));
    let id = world.commit_change(change);
    let mut outbox = Outbox::new();
    let red = outbox.red(&world, &RedScope::Subject(super::world::id("gate")));
    let latch = world.latch(red);
    assert_eq!(world.refused(RawCommand::Activate(id)), Refusal::RedLatched);
    world.stop(latch);
    assert_eq!(world.refused(RawCommand::Activate(id)), Refusal::Frozen);
    assert!(
        world
            .governance()
            .grants
            .contains_key(&world.grant("other"))
    );
}

#[test]
pub(super) fn m1_i11_m1_i17_a_promotion_is_one_step_for_one_tuple_with_data_and_a_way_back() {
    let mut world = World::new();
    type Change = fn(&mut PromotionPayload);
    let changes: [(&str, Change); 11] = [
        ("no data", |p| p.dataset_digest = Digest::ZERO),
        ("no way back", |p| p.rollback_digest = Digest::ZERO),
        ("two tiers", |p| p.grant.max_tier = Tier::A5),
        ("the same tier", |p| p.grant.max_tier = Tier::A3),
        ("another mode", |p| p.grant.mode = Mode::HumanGated),
        ("another action", |p| {
            p.grant.action_classes.push(ActionClass::ReleasePromote)
        }),
        ("another risk", |p| {
            p.grant.risk_domains.push(RiskClass::High)
        }),
        ("another resource", |p| {
            p.grant.resource_environment_scope[0].ref_prefix = Text::lossy("refs/")
        }),
        ("more budget", |p| p.grant.budget += 1),
        ("no budget", |p| p.grant.budget = 0),
        ("a first grant above A1", |p| {
            p.replaces_optional = None;
            p.grant.max_tier = Tier::A2;
        }),
    ];
    for (what, change) in changes {
        let payload = world.promotion(change);
        assert_eq!(
            world.refused_change(payload),
            Refusal::KernelFloor,
            "{what}"
        );
    }
    let payload = world.promotion(|_| {});
    world.make_change(payload);
    let grant = world.governance().grants[&world.grant("agent")]
        .grant
        .clone();
    assert_eq!(grant.max_tier, Tier::A4);
    assert_ne!(grant.promotion_receipt_id, Digest::ZERO);
    let other = world.governance().grants[&world.grant("other")]
        .grant
        .clone();
    assert_eq!(other.max_tier, Tier::A3, "nobody else is promoted");
}

#[test]
fn m1_l7_nobody_promotes_themselves() {
    let mut world = World::new();
    let payload = world.promotion(|_| {});
    let mut proposal = world.change(payload.clone());
    let command = world.freeze_command(AGENT, "agent", &proposal);
    assert_eq!(world.refused(command), Refusal::SelfAuthorization);
    proposal.promotion_target_subject_id_optional = None;
    let command = world.freeze_command(GOVERNOR, "governor", &proposal);
    assert_eq!(
        world.refused(command),
        Refusal::SelfAuthorization,
        "the target is named"
    );
}

#[test]
fn m1_i14_a_demotion_voids_what_was_minted_before_it() {
    let mut world = World::new();
    let landing = world.freeze(MAIN, 0, 1);
    let prepared = world.prepare(landing);
    let change = grant_change(GrantPayload::Demote(world.grant("agent"), Tier::A2));
    world.make_change(change);
    assert_eq!(
        world.refused(RawCommand::Commit(prepared)),
        Refusal::EpochFenced
    );
    let proposal = world.proposal("agent", MAIN, 0, 1);
    let command = world.freeze_command(AGENT, "agent", &proposal);
    assert_eq!(world.refused(command), Refusal::Unauthorized);
}

#[test]
pub(super) fn a_subject_is_enrolled_rotated_and_revoked_by_decision_only() {
    let mut world = World::new();
    for taken in [
        new_subject("agent", 60),
        new_subject("owner", 60),
        new_subject("journal", 60),
        new_subject("va", 60),
        new_subject("new", AGENT),
        new_subject("new", SENTINEL),
        new_subject("new", ROOT),
        new_subject("new", GROUP),
        new_subject("new", 101),
    ] {
        assert_eq!(world.refused_change(enrol(taken)), Refusal::KernelFloor);
    }
    world.make_change(enrol(new_subject("new", 60)));
    assert!(world.governance().subjects.contains_key(&id("new")));
    let rotate = SubjectPayload::Rotate(new_subject("agent", 61));
    world.make_change(ActionPayload::SubjectChange(Box::new(rotate)));
    let proposal = world.proposal("agent", MAIN, 0, 1);
    let command = world.freeze_command(AGENT, "agent", &proposal);
    assert_eq!(world.refused(command), Refusal::Unauthorized, "the old key");
    let command = world.freeze_command(61, "agent", &proposal);
    world.ok(command);
    let revoke = SubjectPayload::Revoke(id("agent"));
    world.make_change(ActionPayload::SubjectChange(Box::new(revoke)));
    let command = world.freeze_command(61, "agent", &proposal);
    assert_eq!(world.refused(command), Refusal::Unauthorized);
    assert!(
        world
            .governance()
            .grants
            .values()
            .all(|g| g.grant.subject_id != id("agent"))
    );
}

#[test]
pub(super) fn keys_of_persons_are_kept_well_enough_new_and_never_the_last() {
    let mut world = World::new();
    let change = |payload| ActionPayload::KeyChange(Box::new(payload));
    let (alice, bob) = (human_key("alice", OWNER), human_key("bob", DEPUTY));
    let fresh = HumanKeyV1 {
        subject_id: id("bob"),
        ..human_key("bob", 70)
    };
    type Change = fn(&mut HumanKeyV1);
    let changes: [(&str, Change); 5] = [
        ("no person", |k| k.subject_id = id("agent")),
        ("a known key", |k| {
            k.public_key = human_key("bob", DEPUTY).public_key
        }),
        ("a known credential", |k| {
            k.credential_id = human_key("bob", DEPUTY).credential_id
        }),
        ("no point", |k| k.public_key = Bytes(vec![1; 77])),
        ("no id", |k| k.credential_id = Bytes(Vec::new())),
    ];
    for (what, alter) in changes {
        let mut key = fresh.clone();
        alter(&mut key);
        let refused = world.refused_change(change(KeyPayload::Enrol(key)));
        assert_eq!(refused, Refusal::KernelFloor, "{what}");
    }
    world.make_change(change(KeyPayload::Rotate(bob.id(), fresh.clone())));
    let keys = world.governance().human_keys;
    assert!(keys[&bob.id()].key.revoked_at_optional.is_some());
    assert!(keys[&fresh.id()].key.revoked_at_optional.is_none());
    world.make_change(change(KeyPayload::Revoke(fresh.id())));
    let last = change(KeyPayload::Revoke(alice.id()));
    assert_eq!(
        world.refused_change(last),
        Refusal::KernelFloor,
        "somebody must decide"
    );
}

#[test]
pub(super) fn a_reset_names_every_ground_waits_for_terminal_and_leads_to_a0() {
    let mut world = World::new();
    let mut outbox = Outbox::new();
    let agent = RedScope::Subject(id("agent"));
    let first = outbox.red(&world, &agent);
    let first = world.latch(first);
    let second = outbox.red(&world, &RedScope::Everything);
    let second = world.latch(second);
    world.stop(first);
    let digest = world.freeze_change(reset(&[1, 2]));
    let challenge = world.challenge(digest, &alice());
    let mut person = alice();
    let approval = world.approve(challenge, &mut person);
    let command = world.human_authorization(digest, vec![approval]);
    assert_eq!(
        world.refused(command),
        Refusal::RedLatched,
        "one latch is not terminal"
    );
    world.stop(second);
    for few in [&[1][..], &[2], &[1, 2, 3]] {
        let digest = world.freeze_change(reset(few));
        let challenge = world.challenge(digest, &alice());
        let mut person = alice();
        let approval = world.approve(challenge, &mut person);
        let command = world.human_authorization(digest, vec![approval]);
        assert_eq!(world.refused(command), Refusal::Frozen, "{few:?}");
    }
    assert_eq!(
        world.refused_change(reset(&[2, 1])),
        Refusal::KernelFloor,
        "in order"
    );
    let epoch = world.governance().epoch.autonomy_epoch;
    world.make_change(reset(&[1, 2]));
    assert!(world.state.authority.grounds.is_empty());
    let after = world.governance();
    assert_eq!(after.epoch.autonomy_epoch, epoch.next());
    assert!(after.grants.values().all(|g| g.grant.max_tier == Tier::A0));
    // Out of the freeze, and with nothing that could land by itself.
    let proposal = world.proposal("agent", MAIN, 0, 1);
    let command = world.freeze_command(AGENT, "agent", &proposal);
    assert_eq!(world.refused(command), Refusal::Unauthorized);
}

#[test]
fn a_red_after_the_decision_of_a_reset_stops_the_reset() {
    let mut world = World::new();
    let mut outbox = Outbox::new();
    let red = outbox.red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    world.stop(latch);
    let id = world.commit_change(reset(&[1]));
    let red = outbox.red(&world, &RedScope::Subject(super::world::id("agent")));
    let latch = world.latch(red);
    assert_eq!(world.refused(RawCommand::Activate(id)), Refusal::RedLatched);
    world.stop(latch);
    assert_eq!(world.refused(RawCommand::Activate(id)), Refusal::Frozen);
}

#[test]
pub(super) fn only_a_reset_is_decided_in_a_frozen_organism() {
    let mut world = World::new();
    let mut outbox = Outbox::new();
    let red = outbox.red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    world.stop(latch);
    let change = grant_change(GrantPayload::Revoke(world.grant("other")));
    let digest = world.freeze_change(change);
    let mut person = alice();
    let challenge = world.challenge(digest, &person);
    let approval = world.approve(challenge, &mut person);
    let command = world.human_authorization(digest, vec![approval]);
    assert_eq!(world.refused(command), Refusal::Frozen);
}

#[test]
fn a_person_says_how_an_unknown_effect_ended() {
    let mut world = World::new();
    let landing = world.freeze(MAIN, 0, 1);
    let (id, marker) = world.commit(landing);
    let resolve = |outcome| {
        ActionPayload::ResolveEffect(ResolvePayload {
            transaction_id: id,
            outcome,
            observed_head: Bytes(vec![1; 20]),
        })
    };
    assert_eq!(
        world.refused_change(resolve(OutcomeKind::Done)),
        Refusal::WrongState,
        "unclaimed"
    );
    let claim = world.claim(id, marker);
    world.ok(claim);
    let unknown = world.outcome(id, marker, OutcomeKind::OutcomeUnknown, 0);
    world.ok(unknown);
    let refused = world.refused_change(resolve(OutcomeKind::OutcomeUnknown));
    assert_eq!(refused, Refusal::WrongState, "no answer");
    world.make_change(resolve(OutcomeKind::Done));
    let resource = world.intent(landing).payload.resource().id();
    let held = &world.state.authority.resources[&resource];
    assert_eq!(held.reserved_by, None);
    assert_eq!(held.head, Some(Bytes(vec![1; 20])));
}

#[test]
pub(super) fn a_caller_acts_in_its_own_realms_only() {
    let mut world = World::new();
    let change = world.promotion(|_| {});
    let mut proposal = world.change(change);
    proposal.payload = grant_change(GrantPayload::Revoke(world.grant("other")));
    proposal.promotion_target_subject_id_optional = None;
    let command = world.freeze_command(AGENT, "agent", &proposal);
    assert_eq!(world.refused(command), Refusal::Unauthorized);
}

#[test]
pub(super) fn m1_l7_nobody_promotes_a_client_of_their_own() {
    let mut world = World::new();
    world.make_change(enrol(ClientIdentityV1 {
        person_optional: Some(id("alice")),
        ..new_subject("helper", 60)
    }));
    let payload = world.promotion(|p| {
        p.replaces_optional = None;
        p.grant.subject_id = id("helper");
        p.grant.max_tier = Tier::A1;
    });
    let proposal = world.change(payload.clone());
    let command = world.freeze_command(OWNER, "alice", &proposal);
    assert_eq!(world.refused(command), Refusal::SelfAuthorization);
    world.freeze_change(payload);
}

#[test]
fn an_activation_after_its_intent_has_expired_is_refused() {
    let mut world = World::new();
    let payload = grant_change(GrantPayload::Revoke(world.grant("other")));
    let mut proposal = world.change(payload);
    proposal.expires_at = world.now() + 5 * MINUTE;
    let command = world.freeze_command(GOVERNOR, "governor", &proposal);
    let Accepted::Frozen(digest) = world.ok(command) else {
        panic!("frozen");
    };
    let capability = world.decide(digest);
    let Accepted::Prepared(id) = world.ok(RawCommand::Prepare(digest, capability)) else {
        panic!("prepared");
    };
    world.ok(RawCommand::Commit(id));
    let late = world.now() + 6 * MINUTE;
    world.tick(late);
    assert_eq!(world.refused(RawCommand::Activate(id)), Refusal::Expired);
}

#[test]
fn a_person_does_not_overwrite_what_the_gate_reported_meanwhile() {
    let mut world = World::new();
    let landing = world.freeze(MAIN, 0, 1);
    let (id, marker) = world.commit(landing);
    let claim = world.claim(id, marker);
    world.ok(claim);
    let resolve = world.commit_change(ActionPayload::ResolveEffect(ResolvePayload {
        transaction_id: id,
        outcome: OutcomeKind::Done,
        observed_head: Bytes(vec![1; 20]),
    }));
    let failed = world.outcome(id, marker, OutcomeKind::Failed, 9);
    world.ok(failed);
    assert_eq!(
        world.refused(RawCommand::Activate(resolve)),
        Refusal::WrongState
    );
}
