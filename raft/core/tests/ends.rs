//! What ends, what comes again, and what is over: to the moment, and without a second effect.

use redlatch_journal::authority::{Authority, IntentStage};
use redlatch_journal::registry::FEATURE_LEVEL;
use redlatch_journal::{EntryId, IndexKey, State};
use redlatch_types::command::RawCommand;
use redlatch_types::event::Accepted;
use redlatch_types::mandate::NegativeVerb;
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

/// A repeat is answered as the first time and does nothing.
fn repeated(world: &mut World, command: RawCommand) {
    let first = world.ok(command.clone());
    let again = world.apply(command);
    assert_eq!((again.reply, again.events), (Ok(first), vec![]));
}

#[test]
fn every_step_that_comes_again_is_answered_and_does_nothing() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let given = world.authorization(digest, &approvals());
    repeated(&mut world, RawCommand::Authorize(Box::new(given)));
    let Some(IntentStage::Authorized(permit)) = world
        .state
        .authority
        .intents
        .get(&digest)
        .map(|i| i.stage.clone())
    else {
        panic!("decided");
    };
    let capability = permit.capability.id();
    repeated(&mut world, RawCommand::Prepare(digest, capability));
    let id = PositiveAuthorityTransactionV1::id_of(&capability);
    repeated(&mut world, RawCommand::Commit(id));
    let claim = world.claim(id, MarkerNumber(1));
    repeated(&mut world, claim);
    for outcome in [OutcomeKind::OutcomeUnknown, OutcomeKind::Done] {
        let report = world.outcome(id, MarkerNumber(1), outcome, 7);
        repeated(&mut world, report);
    }
    // What was landed outside is not activated as well.
    let activate = RawCommand::Activate(id);
    assert_eq!(world.refused(activate), Refusal::WrongState);
    let supports = (1..=3).map(|n| support(&world, n, FEATURE_LEVEL)).collect();
    let raise = world.apply(RawCommand::RaiseFeatureLevel(supports));
    assert!(raise.reply.is_ok(), "it is at that level");
    assert_eq!(raise.events, []);
    let lower = (1..=3).map(|n| support(&world, n, 1)).collect();
    let lower = RawCommand::RaiseFeatureLevel(lower);
    assert_eq!(world.refused(lower), Refusal::FeatureLevel);
    let red = Outbox::new().red(&world, &RedScope::Everything);
    repeated(&mut world, red);
    let attempt = world.attempt(LatchNumber(1));
    repeated(
        &mut world,
        RawCommand::StoreSafetyIntent(Box::new(attempt.clone())),
    );
    // The key of an attempt that died serves no second one.
    world.tick(world.now() + limits::SAFETY_ATTEMPT_TTL_MS);
    let mut next = world.attempt(LatchNumber(1));
    next.attempt_idempotency_key = attempt.attempt_idempotency_key;
    let store = RawCommand::StoreSafetyIntent(Box::new(next));
    assert_eq!(world.refused(store), Refusal::MandateMismatch);
}

#[test]
fn a_node_that_comes_back_twice_is_one_learner() {
    let mut world = World::new();
    let record = RejoinV1 {
        node_id: NodeId(3),
        roster_epoch: RosterEpoch(1),
        incarnation: 7,
        record_key: key(123).public_key(),
    };
    let command = RawCommand::Rejoin(Envelope::seal(world.scope(), &key(123), &record));
    repeated(&mut world, command);
    // A learner may leave though no voter could.
    let node = RosterPayload::Remove(NodeId(3));
    world.make_change(ActionPayload::RosterChange(Box::new(node)));
    assert_eq!(world.governance().roster.nodes.len(), 2);
}

/// What `evolve` drops with the tick, `decide` would refuse by its time.
#[test]
fn m1_i14_a_time_that_is_over_is_refused_even_where_nothing_was_dropped() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    world.authorize(digest);
    let now = world.now();
    let live = world
        .state
        .authority
        .intents
        .get_mut(&digest)
        .expect("live");
    let IntentStage::Authorized(permit) = &mut live.stage else {
        panic!("decided");
    };
    permit.capability.expires_at = now;
    let capability = permit.capability.id();
    let prepare = RawCommand::Prepare(digest, capability);
    assert_eq!(world.refused(prepare), Refusal::Expired);
    let digest = world.freeze("refs/heads/side", 0, 8);
    let id = world.prepare(digest);
    let held = world.state.authority.transactions.get_mut(&id);
    held.expect("prepared").verdict_expires_at = now;
    assert_eq!(world.refused(RawCommand::Commit(id)), Refusal::Expired);
    let change = revoke(&world, "other");
    let digest = world.freeze_change(change);
    let mut alice = alice();
    let challenge = world.challenge(digest, &alice);
    let approval = world.approve(challenge, &mut alice);
    let held = world.state.authority.challenges.get_mut(&challenge);
    held.expect("open").expires_at = now;
    let command = world.human_authorization(digest, vec![approval]);
    assert_eq!(world.refused(command), Refusal::Expired);
}

#[test]
fn fault_077_envelopes_proposals_and_activations_end_to_the_millisecond() {
    let mut world = World::new();
    let now = world.now();
    let payload = world.proposal("agent", MAIN, 0, 7).to_canonical();
    for (expires_at, expected) in [
        (now, Err(Refusal::Expired)),
        (
            now + limits::COMMAND_EXPIRY_AHEAD_MS_MAX + 1,
            Err(Refusal::TimeStale),
        ),
        (now + limits::COMMAND_EXPIRY_AHEAD_MS_MAX, Ok(())),
        (now + 1, Ok(())),
    ] {
        let mut record = world.envelope_record("agent", &payload);
        record.expires_at = expires_at;
        let envelope = Envelope::seal(world.scope(), &key(AGENT), &record);
        let outcome = world.apply(RawCommand::FreezeIntent(envelope, Bytes(payload.clone())));
        assert_eq!(outcome.reply.map(|_| ()), expected, "{}", expires_at - now);
    }
    let mut proposal = world.proposal("agent", MAIN, 0, 7);
    proposal.expires_at = now;
    let command = world.freeze_command(AGENT, "agent", &proposal);
    assert_eq!(world.refused(command), Refusal::Expired);
    // An intent that ends before its effect's time ends the activation with it.
    let change = revoke(&world, "other");
    let mut proposal = world.change(change);
    proposal.expires_at = now + 5 * MINUTE;
    let command = world.freeze_command(GOVERNOR, "governor", &proposal);
    let Accepted::Frozen(digest) = world.ok(command) else {
        panic!("frozen");
    };
    let capability = world.decide(digest);
    let id = PositiveAuthorityTransactionV1::id_of(&capability);
    world.ok(RawCommand::Prepare(digest, capability));
    world.ok(RawCommand::Commit(id));
    let before = world.state.clone();
    world.tick(now + 5 * MINUTE);
    assert_eq!(world.refused(RawCommand::Activate(id)), Refusal::Expired);
    world.state = before;
    world.tick(now + 5 * MINUTE - 1);
    world.ok(RawCommand::Activate(id));
    // A grant of this very moment is none of the future, and all seats may be asked for.
    let promotion = world.promotion(|p| p.grant.issued_at = START + 5 * MINUTE + 999);
    world.freeze_change(promotion);
    let all = world.amended(|c| c.independence_spec.quorum_threshold = 4);
    world.freeze_change(all);
}

/// Nothing that is given out for an intent outlives it.
#[test]
fn m1_i14_no_challenge_decision_or_capability_ends_after_its_intent() {
    let mut world = World::new();
    let end = world.now() + 5 * MINUTE;
    let mut proposal = world.change(revoke(&world, "other"));
    proposal.expires_at = end;
    let command = world.freeze_command(GOVERNOR, "governor", &proposal);
    let Accepted::Frozen(digest) = world.ok(command) else {
        panic!("frozen");
    };
    let challenge = world.challenge(digest, &bob());
    let held = &world.state.authority.challenges[&challenge];
    assert_eq!(held.expires_at, end);
    world.decide(digest);
    let stage = &world.state.authority.intents[&digest].stage;
    let IntentStage::Authorized(permit) = stage else {
        panic!("decided");
    };
    let ends = (permit.decision.expires_at, permit.capability.expires_at);
    assert_eq!(ends, (end, end));
    // Nor does a preparation outlive what it rests on: the verdict, the intent.
    for (intent_left, verdict_left) in [(3, 1), (1, 3)] {
        let mut world = World::new();
        let now = world.now();
        let mut proposal = world.proposal("agent", MAIN, 0, 7);
        proposal.expires_at = now + intent_left;
        let command = world.freeze_command(AGENT, "agent", &proposal);
        let Accepted::Frozen(digest) = world.ok(command) else {
            panic!("frozen");
        };
        let mut green = world.green_record(digest);
        green.expires_at = now + verdict_left;
        let votes = approvals();
        let votes = votes
            .iter()
            .map(|(v, verdict)| world.vote(digest, *v, *verdict));
        let votes = votes.collect();
        let given = world.authorization_of(digest, green, votes);
        let Accepted::Authorized(capability) = world.ok(RawCommand::Authorize(Box::new(given)))
        else {
            panic!("decided");
        };
        world.ok(RawCommand::Prepare(digest, capability));
        let id = PositiveAuthorityTransactionV1::id_of(&capability);
        let prepared = &world.state.authority.transactions[&id].transaction;
        assert_eq!(prepared.expires_at, now + 1);
    }
}

/// What is over leaves the state with the tick of its end, and not a tick before.
#[test]
fn fault_094_what_is_over_leaves_the_state_in_its_time() {
    let gone = |world: &mut World, digest: IntentDigest, end: u64| {
        let before = world.state.clone();
        world.tick(end - 1);
        assert!(world.state.authority.intents.contains_key(&digest));
        world.state = before.clone();
        world.tick(end);
        assert!(!world.state.authority.intents.contains_key(&digest));
        assert!(world.state.authority.transactions.is_empty());
        let held = world.state.authority.resources.values();
        assert!(held.clone().all(|r| r.reserved_by.is_none()));
        world.state = before;
    };
    let mut world = World::new();
    let start = world.now();
    let window = limits::COMPENSATION_WINDOW_MS;
    let digest = world.freeze(MAIN, 0, 7);
    gone(&mut world, digest, start + 60 * MINUTE);
    let capability = world.authorize(digest);
    gone(&mut world, digest, start + limits::CAPABILITY_TTL_MS);
    world.ok(RawCommand::Prepare(digest, capability));
    gone(&mut world, digest, start + 60 * MINUTE);
    let id = PositiveAuthorityTransactionV1::id_of(&capability);
    world.ok(RawCommand::Commit(id));
    gone(&mut world, digest, start + 10 * MINUTE + window);
    let claim = world.claim(id, MarkerNumber(1));
    world.ok(claim);
    for outcome in [OutcomeKind::Failed, OutcomeKind::Done] {
        let before = world.state.clone();
        let report = world.outcome(id, MarkerNumber(1), outcome, 7);
        world.ok(report);
        gone(&mut world, digest, start + window);
        world.state = before;
    }
    // What is claimed and not reported stays until somebody says how it ended.
    world.tick(start + 30 * window);
    assert!(world.state.authority.transactions.contains_key(&id));
}

#[test]
fn an_activation_moves_its_resource_and_holds_it_no_longer() {
    let mut world = World::new();
    let change = revoke(&world, "other");
    let stale = world.change(revoke(&world, "agent"));
    world.make_change(change);
    let held: Vec<_> = world.state.authority.resources.values().collect();
    assert_eq!(held.len(), 1);
    assert_eq!((held[0].store_version, held[0].reserved_by), (1, None));
    let command = world.freeze_command(GOVERNOR, "governor", &stale);
    assert_eq!(world.refused(command), Refusal::StaleHead);
}

#[test]
fn each_thing_that_stops_a_step_stops_it_alone() {
    type Change = fn(&mut Authority, &IntentDigest);
    let changes: [(Change, Refusal); 2] = [
        (
            |s, _| {
                s.governance
                    .as_mut()
                    .expect("started")
                    .epoch
                    .issuance_frozen = true
            },
            Refusal::Frozen,
        ),
        (
            |s, d| {
                let live = s.intents.get_mut(d).expect("live");
                live.intent.candidate_digest_optional = None;
                let intent = live.intent.clone();
                let IntentStage::Authorized(permit) = &mut live.stage else {
                    panic!("decided");
                };
                permit.capability.binding = CommonBindingSet::of(&intent, *d);
            },
            Refusal::CandidateMismatch,
        ),
    ];
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    world.authorize(digest);
    let before = world.state.clone();
    for (change, refusal) in changes {
        world.state = before.clone();
        change(&mut world.state.authority, &digest);
        let stage = &world.state.authority.intents[&digest].stage;
        let IntentStage::Authorized(permit) = stage else {
            panic!("decided");
        };
        let prepare = RawCommand::Prepare(digest, permit.capability.id());
        assert_eq!(world.refused(prepare), refusal);
    }
    // The bytes of a live intent are not frozen a second time, remembered or not.
    let mut world = World::new();
    let proposal = world.proposal("agent", MAIN, 0, 7);
    let command = world.freeze_command(AGENT, "agent", &proposal);
    world.ok(command.clone());
    world.state.authority.idempotency.clear();
    assert_eq!(world.refused(command), Refusal::WrongState);
    // Two grounds of one scope are cleared together or not at all.
    let mut world = World::new();
    let mut outbox = Outbox::new();
    for _ in 0..2 {
        let red = outbox.red(&world, &RedScope::Subject(id("agent")));
        let latch = world.latch(red);
        world.stop(latch);
    }
    let digest = world.freeze_change(reset(&[1]));
    let mut alice = alice();
    let challenge = world.challenge(digest, &alice);
    let approval = world.approve(challenge, &mut alice);
    let command = world.human_authorization(digest, vec![approval]);
    assert_eq!(world.refused(command), Refusal::Frozen);
}

/// A policy that names nothing decides nothing, though its variant was frozen.
#[test]
fn m1_i8_a_policy_of_no_clause_or_of_an_empty_one_decides_nothing() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 1);
    let live = world.state.authority.intents.get_mut(&digest);
    live.expect("frozen").intent.required_authority_variant = AuthorityVariant::Policy;
    let command = policy_authorization(&mut world, digest, Vec::new());
    assert_eq!(world.refused(command), Refusal::WrongVariant);
    let empties: [fn(&mut PolicyClauseV1); 2] =
        [|c| c.required_gates.clear(), |c| c.runners.clear()];
    for empty in empties {
        let mut world = World::new();
        let governance = world.state.authority.governance.as_mut().expect("started");
        let mut clause = landing_clause();
        empty(&mut clause);
        governance.constitution.policy_clauses = vec![clause];
        governance.epoch.constitution_digest = governance.constitution.digest();
        let passed = gate_passed(&world);
        let digest = freeze_on(&mut world, &[&passed]);
        let command = policy_authorization(&mut world, digest, vec![passed]);
        assert_eq!(world.refused(command), Refusal::InsufficientQuorum);
    }
}

#[test]
fn a_key_is_confirmed_by_each_verifier_once_and_five_voters_are_a_roster() {
    let mut record = redlatch_journal::development::genesis(parties());
    for n in [4u8, 5] {
        record.roster.nodes.push(RosterNode {
            node_id: NodeId(u64::from(n)),
            name: id(&format!("n{n}")),
            seat: Seat::Voter,
            log_key: key(170 + n).public_key(),
            cosigner_key: key(180 + n).public_key(),
            record_key: key(190 + n).public_key(),
        });
    }
    let mut world = World::before_genesis();
    world.ok(seal_genesis(&record));
    let mut five = world.key_confirmations(|_, _| {});
    five.push(five[0].clone());
    let command = RawCommand::ActivateQuorumKey(five);
    assert_eq!(world.refused(command), Refusal::InsufficientQuorum);
}

#[test]
fn a_refusal_in_another_epoch_leaves_no_line() {
    let mut world = World::new();
    let payload = world.proposal("agent", MAIN, 0, 7).to_canonical();
    let record = world.envelope_record("agent", &payload);
    let mut scope = world.scope();
    scope.organism_epoch += 1;
    let envelope = Envelope::seal(scope, &key(AGENT), &record);
    let outcome = world.apply(RawCommand::FreezeIntent(envelope, Bytes(payload)));
    assert_eq!(outcome.reply, Err(Refusal::WrongOrganism));
    assert_eq!(outcome.events, []);
}

/// A plan that is bound asks for its rollback by itself, and verbs are a set.
#[test]
fn m1_i31_the_verbs_of_a_mandate_are_in_order_and_each_once() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let intent = world.intent(digest);
    let plan = Some(intent.rollback.digest(&intent.payload));
    for verbs in [&[5, 3, 3, 1][..], &[6, 5, 3]] {
        let verdict = Outbox::verdict(&RedScope::Subject(id("agent")), verbs, plan).to_canonical();
        let mandate = redlatch_types::mandate::mandate(&Bytes(verdict), Some(&intent));
        use NegativeVerb::{Demote, FenceEpoch, Freeze, Revoke, Rollback};
        assert_eq!(
            mandate.verbs,
            [Freeze, FenceEpoch, Revoke, Demote, Rollback]
        );
    }
}

#[test]
fn what_one_entry_leaves_behind() {
    let mut state = State::new();
    let at = |index| EntryId {
        term: 3,
        leader: 2,
        index,
    };
    let genesis = seal_genesis(&redlatch_journal::development::genesis(parties()));
    let applied = state.apply(at(1), &[genesis.to_canonical()]);
    assert_eq!(state.log.last, at(1));
    assert_eq!(applied.index, [(IndexKey::Genesis, 0)]);
    assert!(!applied.state_root);
    let applied = state.apply(at(2), &[RawCommand::Checkpoint.to_canonical()]);
    assert_eq!(state.log.last, at(2));
    assert!(applied.state_root);
    assert_eq!(applied.index, [(IndexKey::StateRoot, 1)]);
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let text = redlatch_journal::summary::summary(&world.intent(digest), &digest);
    assert!(text.contains("executed by: gate\n"), "{text}");
}
