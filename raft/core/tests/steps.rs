//! Each check of a positive step by something that is wrong alone: roles, grants, order, what changed since.

use redlatch_journal::authority::{Authority, Governance};
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

fn governance(world: &mut World) -> &mut Governance {
    world.state.authority.governance.as_mut().expect("started")
}

/// The reply of a freeze by this subject.
fn frozen(world: &mut World, n: u8, subject: &str, proposal: &ProposalV1) -> Result<(), Refusal> {
    let command = world.freeze_command(n, subject, proposal);
    world.apply(command).reply.map(|_| ())
}

#[test]
fn m1_i13_only_a_person_decides_without_a_grant() {
    let mut world = World::new();
    let mut landing = world.proposal("agent", MAIN, 0, 7);
    landing.applicable_grant_id = None;
    let outcome = frozen(&mut world, AGENT, "agent", &landing);
    assert_eq!(outcome, Err(Refusal::Unauthorized));
    // A delegation without the grant that it is of.
    let mut change = world.change(reset(&[1]));
    change.delegation_grant_digest_optional = Some(digest("grant"));
    let outcome = frozen(&mut world, GOVERNOR, "governor", &change);
    assert_eq!(outcome, Err(Refusal::Unauthorized));
    // A frozen intent that lost its grant.
    let digest = world.freeze(MAIN, 0, 7);
    let given = world.authorization(digest, &approvals());
    let live = world.state.authority.intents.get_mut(&digest);
    live.expect("frozen").intent.applicable_grant_id = None;
    let command = RawCommand::Authorize(Box::new(given));
    assert_eq!(world.refused(command), Refusal::Unauthorized);
}

#[test]
fn m1_i26_a_delegate_is_named_in_the_grant_and_names_it() {
    let mut record = redlatch_journal::development::genesis(parties());
    for grant in &mut record.grants {
        if grant.subject_id == id("agent") {
            grant.delegate_subject_ids = vec![id("other")];
        }
    }
    record.activations[1].grants_digest = grants_digest(record.grants.iter());
    let mut world = World::before_genesis();
    world.ok(seal_genesis(&record));
    world.tick(START + 1_000);
    let grant = world.grant("agent");
    let mut proposal = world.proposal("agent", MAIN, 0, 7);
    proposal.delegation_grant_digest_optional = Some(grant.0);
    assert_eq!(frozen(&mut world, OTHER_AGENT, "other", &proposal), Ok(()));
    let outcome = frozen(&mut world, OWNER, "alice", &proposal);
    assert_eq!(outcome, Err(Refusal::Unauthorized), "nobody's delegate");
    proposal.delegation_grant_digest_optional = Some(world.grant("other").0);
    let outcome = frozen(&mut world, OTHER_AGENT, "other", &proposal);
    assert_eq!(
        outcome,
        Err(Refusal::Unauthorized),
        "another grant's digest"
    );
    proposal.delegation_grant_digest_optional = None;
    let outcome = frozen(&mut world, OTHER_AGENT, "other", &proposal);
    assert_eq!(outcome, Err(Refusal::Unauthorized), "without a delegation");
}

#[test]
fn a_grant_of_a_later_epoch_covers_nothing_yet() {
    let changes: [fn(&mut AutonomyGrantV1); 2] = [
        |g| g.autonomy_epoch = AutonomyEpoch(3),
        |g| g.constitution_epoch = ConstitutionEpoch(2),
    ];
    for change in changes {
        let mut world = World::new();
        let proposal = world.proposal("agent", MAIN, 0, 7);
        let grant = world.grant("agent");
        let held = governance(&mut world).grants.get_mut(&grant);
        change(&mut held.expect("held").grant);
        let outcome = frozen(&mut world, AGENT, "agent", &proposal);
        assert_eq!(outcome, Err(Refusal::Unauthorized));
    }
}

#[test]
fn m1_i12_executors_are_gates_of_the_realm_and_inside_the_journal_there_is_none() {
    let mut world = World::new();
    let mut change = world.change(reset(&[1]));
    change.executor_subject_id_optional = Some(id("gate"));
    let outcome = frozen(&mut world, GOVERNOR, "governor", &change);
    assert_eq!(outcome, Err(Refusal::Unauthorized));
    let proposal = world.proposal("agent", MAIN, 0, 7);
    let changes: [fn(&mut ClientIdentityV1); 3] = [
        |s| s.actor_kind = ActorKind::Agent,
        |s| s.scopes = vec![id("elsewhere")],
        |s| s.revoked_at_optional = Some(START),
    ];
    let before = world.state.clone();
    for change in changes {
        world.state = before.clone();
        let gate = governance(&mut world).subjects.get_mut(&id("gate"));
        change(gate.expect("enrolled"));
        let outcome = frozen(&mut world, AGENT, "agent", &proposal);
        assert_eq!(outcome, Err(Refusal::Unauthorized));
    }
}

/// A release, which starts processes and opens a surface.
fn release(world: &World) -> ProposalV1 {
    let swap = SwapPayload {
        resource: ExternalResource {
            realm: id("repo"),
            path: Text::lossy("channels/stable"),
        },
        old: Bytes(Vec::new()),
        new: Bytes(vec![1]),
    };
    ProposalV1 {
        executor_subject_id_optional: Some(id("gate")),
        ..world.change(ActionPayload::ReleasePromote(swap))
    }
}

#[test]
fn an_executor_that_is_no_longer_a_gate_of_the_realm_starts_nothing() {
    let changes: [fn(&mut Governance); 4] = [
        |g| {
            g.subjects
                .get_mut(&id("gate"))
                .expect("enrolled")
                .actor_kind = ActorKind::Agent
        },
        |g| g.subjects.get_mut(&id("gate")).expect("enrolled").scopes = vec![id("elsewhere")],
        |g| {
            g.subjects
                .get_mut(&id("gate"))
                .expect("enrolled")
                .scopes
                .clear()
        },
        |g| g.subjects.get_mut(&id("bob")).expect("enrolled").scopes = vec![id("elsewhere")],
    ];
    let mut world = World::new();
    let proposal = release(&world);
    let command = world.freeze_command(DEPUTY, "bob", &proposal);
    let Accepted::Frozen(digest) = world.ok(command) else {
        panic!("frozen");
    };
    let capability = world.decide(digest);
    let prepare = RawCommand::Prepare(digest, capability);
    let before = world.state.clone();
    for (at, change) in changes.into_iter().enumerate() {
        world.state = before.clone();
        change(governance(&mut world));
        assert_eq!(
            world.refused(prepare.clone()),
            Refusal::Unauthorized,
            "{at}"
        );
    }
    world.state = before;
    world.ok(prepare);
}

#[test]
fn m1_i3_an_intent_without_effects_or_with_one_that_nothing_writes_goes_nowhere() {
    let changes: [fn(&mut Vec<Effect>); 3] = [
        |effects| effects.clear(),
        |effects| effects.push(Effect::GraphMutation),
        |effects| effects.push(Effect::MissionStateWrite),
    ];
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let capability = world.authorize(digest);
    let before = world.state.clone();
    for change in changes {
        world.state = before.clone();
        let live = world.state.authority.intents.get_mut(&digest);
        change(&mut live.expect("live").intent.effects);
        // The capability is the one of the intent as it is now, so that only its effects are wrong.
        let intent = world.intent(digest);
        let live = world
            .state
            .authority
            .intents
            .get_mut(&digest)
            .expect("live");
        let redlatch_journal::authority::IntentStage::Authorized(permit) = &mut live.stage else {
            panic!("decided");
        };
        permit.capability.binding = CommonBindingSet::of(&intent, digest);
        let id = permit.capability.id();
        let prepare = RawCommand::Prepare(digest, id);
        assert_eq!(world.refused(prepare), Refusal::UnknownAction);
    }
    world.state = before;
    world.ok(RawCommand::Prepare(digest, capability));
}

#[test]
fn m1_i8_a_mode_that_the_constitution_does_not_allow_has_nobody_to_decide() {
    let mut world = World::new();
    let proposal = world.proposal("agent", MAIN, 0, 7);
    let constitution = &mut governance(&mut world).constitution;
    constitution.allowed_autonomy_modes = vec![Mode::HumanGated];
    let outcome = frozen(&mut world, AGENT, "agent", &proposal);
    assert_eq!(outcome, Err(Refusal::WrongVariant));
}

/// Every digest and epoch that an intent has of its governance, by itself.
#[test]
fn m1_l6_each_frozen_term_of_an_intent_is_compared_at_the_next_step() {
    let changes: [fn(&mut Authority, &IntentDigest); 12] = [
        |s, d| intent(s, d).active_mode = Mode::FullAutonomy,
        |s, d| intent(s, d).autonomy_activation_receipt_id = digest("x"),
        |s, d| intent(s, d).constitution_epoch = ConstitutionEpoch(9),
        |s, d| intent(s, d).constitution_digest = digest("x"),
        |s, d| intent(s, d).safety_kernel_digest = digest("x"),
        |s, d| intent(s, d).quorum_policy_digest = digest("x"),
        |s, d| intent(s, d).independence_spec_digest = digest("x"),
        |s, d| intent(s, d).action_policy_registry_digest = digest("x"),
        |s, d| intent(s, d).expected_store_epoch = 9,
        |s, d| intent(s, d).autonomy_epoch = AutonomyEpoch(9),
        |s, _| epoch(s).effective_at += 1_000_000,
        |s, _| epoch(s).constitution_digest = digest("x"),
    ];
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let given = world.authorization(digest, &approvals());
    let command = RawCommand::Authorize(Box::new(given));
    let before = world.state.clone();
    for (at, change) in changes.into_iter().enumerate() {
        world.state = before.clone();
        change(&mut world.state.authority, &digest);
        assert_eq!(world.refused(command.clone()), Refusal::EpochFenced, "{at}");
    }
    world.state = before;
    world.ok(command);
}

fn intent<'a>(state: &'a mut Authority, digest: &IntentDigest) -> &'a mut SovereignActionIntentV1 {
    &mut state.intents.get_mut(digest).expect("live").intent
}

fn epoch(state: &mut Authority) -> &mut AutonomyEpochV1 {
    &mut state.governance.as_mut().expect("started").epoch
}

#[test]
fn m1_i25_the_mode_in_force_must_allow_the_variant_too() {
    let mut world = World::new();
    let change = ActionPayload::GrantChange(Box::new(GrantPayload::Revoke(world.grant("other"))));
    let governed = world.freeze_change(change);
    let landing = world.freeze(MAIN, 0, 7);
    let mut given = world.authorization(landing, &approvals());
    let green = world.green_record(governed);
    given.intent_digest = governed;
    given.green = Envelope::seal(world.scope(), &key(SENTINEL), &green);
    let grant = world.grant("agent");
    let live = intent(&mut world.state.authority, &governed);
    live.required_authority_variant = AuthorityVariant::AgentQuorum;
    live.applicable_grant_id = Some(grant);
    let command = RawCommand::Authorize(Box::new(given));
    assert_eq!(world.refused(command), Refusal::WrongVariant);
}

/// RED can win between any two steps: none of them shares its entry with the next one.
#[test]
fn each_step_of_an_intent_is_an_entry_of_its_own() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let given = RawCommand::Authorize(Box::new(world.authorization(digest, &approvals())));
    let before = world.state.clone();
    let Accepted::Authorized(capability) = world.ok(given.clone()) else {
        panic!("decided");
    };
    world.state = before;
    let prepare = RawCommand::Prepare(digest, capability);
    let outcomes = world.apply_together(vec![given, prepare.clone()]);
    assert_eq!(outcomes[1].reply, Err(Refusal::TooEarly));
    let Accepted::Prepared(id) = world.ok(prepare) else {
        panic!("prepared");
    };
    let governed = world.freeze_change(ActionPayload::GrantChange(Box::new(GrantPayload::Revoke(
        world.grant("other"),
    ))));
    let capability = world.decide(governed);
    let Accepted::Prepared(change) = world.ok(RawCommand::Prepare(governed, capability)) else {
        panic!("prepared");
    };
    let together = vec![RawCommand::Commit(change), RawCommand::Activate(change)];
    let outcomes = world.apply_together(together);
    assert!(outcomes[0].reply.is_ok());
    assert_eq!(outcomes[1].reply, Err(Refusal::TooEarly));
    // Another intent's step in the same entry is none of its business.
    let together = vec![RawCommand::Commit(id), RawCommand::Activate(change)];
    let outcomes = world.apply_together(together);
    assert!(outcomes.iter().all(|o| o.reply.is_ok()), "{outcomes:?}");
    let stepped = &world.state.authority.stepped;
    assert!(stepped.contains(&digest) && stepped.contains(&governed));
}

#[test]
fn what_an_activation_rests_on_is_looked_at_again() {
    type Change = fn(&mut Authority);
    let changes: [(Change, Refusal); 3] = [
        (
            |s| {
                let governance = s.governance.as_mut().expect("started");
                let governor = governance.subjects.get_mut(&id("governor"));
                governor.expect("enrolled").scopes.clear();
            },
            Refusal::Unauthorized,
        ),
        (
            |s| {
                for resource in s.resources.values_mut() {
                    resource.store_version += 1;
                }
            },
            Refusal::StaleHead,
        ),
        (
            |s| s.governance.as_mut().expect("started").grants.clear(),
            Refusal::WrongState,
        ),
    ];
    let mut world = World::new();
    let change = ActionPayload::GrantChange(Box::new(GrantPayload::Revoke(world.grant("other"))));
    let id = world.commit_change(change);
    let before = world.state.clone();
    for (at, (change, refusal)) in changes.into_iter().enumerate() {
        world.state = before.clone();
        change(&mut world.state.authority);
        assert_eq!(world.refused(RawCommand::Activate(id)), refusal, "{at}");
    }
    world.state = before;
    world.ok(RawCommand::Activate(id));
}

#[test]
fn an_activation_or_a_deadline_beyond_the_longest_life_is_not_even_frozen() {
    let mut world = World::new();
    let mode = |activates_at| {
        ActionPayload::ModeActivate(ModePayload {
            mode: Mode::HumanGated,
            activates_at,
            gate_receipts_digest: digest("gates"),
            rollback_plan_digest: digest("rollback"),
        })
    };
    let last = world.now() + limits::INTENT_TTL_MS_MAX;
    assert_eq!(world.refused_change(mode(last + 1)), Refusal::TimeStale);
    world.freeze_change(mode(last));
    let mut proposal = world.proposal("agent", MAIN, 0, 7);
    proposal.expires_at = last + 1;
    let outcome = frozen(&mut world, AGENT, "agent", &proposal);
    assert_eq!(outcome, Err(Refusal::TimeStale));
    proposal.expires_at = last;
    proposal.effect_deadline_ms = limits::EFFECT_DEADLINE_MS_MAX + 1;
    let outcome = frozen(&mut world, AGENT, "agent", &proposal);
    assert_eq!(outcome, Err(Refusal::TimeStale));
    proposal.effect_deadline_ms = limits::EFFECT_DEADLINE_MS_MAX;
    assert_eq!(frozen(&mut world, AGENT, "agent", &proposal), Ok(()));
    proposal.effect_deadline_ms = 1;
    proposal.expires_at = world.now() + 1;
    assert_eq!(frozen(&mut world, AGENT, "agent", &proposal), Ok(()));
}

#[test]
fn fault_094_a_proposal_names_so_many_pieces_of_evidence_and_each_once() {
    let mut world = World::new();
    let mut proposal = world.proposal("agent", MAIN, 0, 7);
    let many = |n: u8| (0..n).map(|n| Digest([n; 32])).collect::<Vec<_>>();
    proposal.evidence = many(65);
    let outcome = frozen(&mut world, AGENT, "agent", &proposal);
    assert_eq!(outcome, Err(Refusal::NotCanonical));
    proposal.evidence = many(64);
    assert_eq!(frozen(&mut world, AGENT, "agent", &proposal), Ok(()));
    proposal.evidence.swap(0, 1);
    let outcome = frozen(&mut world, AGENT, "agent", &proposal);
    assert_eq!(outcome, Err(Refusal::NotCanonical));
}

/// The grounds that a reset leaves are those of scopes that it has nothing to do with.
#[test]
fn a_reset_of_one_subject_leaves_the_grounds_and_grants_of_another() {
    let mut world = World::new();
    let mut outbox = Outbox::new();
    for subject in ["agent", "other"] {
        let red = outbox.red(&world, &RedScope::Subject(id(subject)));
        let latch = world.latch(red);
        world.stop(latch);
    }
    world.make_change(reset(&[1]));
    let grounds: Vec<_> = world.state.authority.grounds.keys().copied().collect();
    assert_eq!(grounds, [GroundNumber(2)]);
    let tier = |world: &World, subject| {
        let governance = world.governance();
        governance.grants[&world.grant(subject)].grant.max_tier
    };
    assert_eq!(tier(&world, "agent"), Tier::A0);
    assert_eq!(tier(&world, "other"), Tier::A3);
    // What is at the bottom already is not lowered again.
    let red = outbox.red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    world.stop(latch);
    world.make_change(reset(&[2, 3]));
    let lowered = world.events.iter().filter_map(|event| match event {
        Event::GrantDemoted(_, grant) => Some(grant.subject_id.to_string()),
        _ => None,
    });
    assert_eq!(lowered.collect::<Vec<_>>(), ["agent", "other"]);
}

#[test]
fn a_reset_of_an_action_class_lowers_the_grants_that_have_it() {
    let mut world = World::new();
    let mut outbox = Outbox::new();
    for class in [ActionClass::ReleasePromote, ActionClass::Land] {
        let red = outbox.red(&world, &RedScope::ActionClass(class));
        let latch = world.latch(red);
        world.stop(latch);
    }
    world.make_change(reset(&[1]));
    let tiers = |world: &World| -> Vec<Tier> {
        let governance = world.governance();
        governance
            .grants
            .values()
            .map(|g| g.grant.max_tier)
            .collect()
    };
    assert_eq!(tiers(&world), [Tier::A3, Tier::A3], "nobody may release");
    world.make_change(reset(&[2]));
    assert_eq!(tiers(&world), [Tier::A0, Tier::A0]);
}

#[test]
fn nothing_at_all_passes_before_genesis() {
    let mut seen = std::collections::BTreeSet::new();
    for world in [full_history(), governed_history()] {
        for command in world.entries.iter().flatten() {
            let command = RawCommand::from_canonical(command).expect("one of ours");
            let kind = std::mem::discriminant(&command);
            if matches!(command, RawCommand::Bootstrap(_)) || !seen.insert(format!("{kind:?}")) {
                continue;
            }
            let mut empty = World::before_genesis();
            assert_eq!(empty.refused(command), Refusal::NoGenesis);
        }
    }
    assert_eq!(seen.len(), 24);
}

#[test]
fn a_revoked_subject_asks_for_nothing() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let payload = WithdrawalV1 {
        intent_digest: digest,
        reason: Text::default(),
    };
    let payload = payload.to_canonical();
    let record = world.envelope_record("agent", &payload);
    let envelope = Envelope::seal(world.scope(), &key(AGENT), &record);
    let command = RawCommand::Withdraw(envelope, Bytes(payload));
    let agent = governance(&mut world).subjects.get_mut(&id("agent"));
    agent.expect("enrolled").revoked_at_optional = Some(START);
    let outcome = world.apply(command);
    assert_eq!(outcome.reply, Err(Refusal::Unauthorized));
    assert_eq!(outcome.events, [], "and leaves no line");
}
