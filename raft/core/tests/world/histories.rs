//! Two histories that together hold every kind of command and of event.

use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::mandate::covers;
use redlatch_types::records::*;
use redlatch_types::*;

use super::*;

/// A history that holds every kind of event and command. The keys are fixed and Ed25519 is
/// deterministic, so its bytes are the same on every machine and in every release that keeps
/// the wire format.
pub fn full_history() -> World {
    let mut world = World::new();
    world.land(MAIN, 0, 7);
    aborted_and_withdrawn(&mut world);
    // Everything below the first RED happens in frozen scopes.
    let committed = world.freeze("refs/heads/side", 0, 8);
    let (side, marker) = world.commit(committed);
    let mut outbox = Outbox::new();
    let verdict = Outbox::verdict(&RedScope::Subject(id("agent")), &[5], None);
    let demote = outbox.push(world.scope(), None, verdict.to_canonical());
    let latch = world.latch(RawCommand::LatchRed(vec![demote]));
    let claim = world.claim(side, marker);
    world.apply(claim);
    world.stop(latch);
    let ack = world.ack(latch, 1);
    world.ok(ack);
    let verdict = Outbox::verdict(&RedScope::Subject(id("other")), &[3], None);
    let revoke = outbox.push(world.scope(), None, verdict.to_canonical());
    let early = outbox.red(&world, &RedScope::Everything);
    world.ok(early.clone());
    let latch = world.latch(RawCommand::LatchRed(vec![revoke]));
    world.ok(early);
    world.stop(latch);
    let mut refused = world.proposal("agent", MAIN, 7, 9);
    refused.expected_contract_version = 2;
    let command = world.freeze_command(AGENT, "agent", &refused);
    world.apply(command);
    world.apply(RawCommand::Checkpoint);
    world
}

fn aborted_and_withdrawn(world: &mut World) {
    let digest = world.freeze("refs/heads/late", 0, 7);
    let late = world.prepare(digest);
    world.tick(START + 3 * MINUTE);
    world.ok(RawCommand::Abort(late, AbortReason::Expired));
    let digest = world.freeze("refs/heads/regret", 0, 7);
    let payload = WithdrawalV1 {
        intent_digest: digest,
        reason: Text::new("no longer wanted").unwrap(),
    }
    .to_canonical();
    let record = world.envelope_record("agent", &payload);
    world.ok(RawCommand::Withdraw(
        Envelope::seal(world.scope(), &key(AGENT), &record),
        Bytes(payload),
    ));
}

/// An organism that governs itself: every kind of leaf that changes who decides.
pub fn governed_history() -> World {
    let mut world = World::before_genesis();
    let mut record = redlatch_journal::development::genesis(parties());
    // Below what it is raised to.
    record.feature_level = redlatch_journal::registry::ROSTER_LEVEL;
    world.ok(seal_genesis(&record));
    world.tick(START + 1_000);
    let supports = (1..=3).map(|n| support(&world, n, FEATURE_LEVEL)).collect();
    world.ok(RawCommand::RaiseFeatureLevel(supports));
    let confirmations = world.key_confirmations(|_, _| {});
    world.ok(RawCommand::ActivateQuorumKey(confirmations));
    let change = world.amended(|c| c.policy_clauses = vec![landing_clause()]);
    world.make_change(change);
    resolved_effect(&mut world);
    world.make_change(enrol(new_subject("new", 60)));
    let fresh = HumanKeyV1 {
        subject_id: id("bob"),
        ..human_key("bob", 70)
    };
    world.make_change(ActionPayload::KeyChange(Box::new(KeyPayload::Enrol(fresh))));
    let change = world.promotion(|_| {});
    world.make_change(change);
    let latch = Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(latch);
    world.stop(latch);
    world.make_change(reset(&[1]));
    rosters(&mut world);
    let act = root_act(&world, |a| {
        a.old_outbox_root_optional = world.state.authority.outbox.root
    });
    let act = sealed_root_act(&world, &act, ROOT);
    world.ok(act);
    world
}

/// A landing that a policy decides, and whose end a person has to tell.
fn resolved_effect(world: &mut World) {
    let passed = gate_passed(world);
    let landing = freeze_on(world, &[&passed]);
    let command = policy_authorization(world, landing, vec![passed]);
    let Accepted::Authorized(capability) = world.ok(command) else {
        panic!("authorized");
    };
    let id = PositiveAuthorityTransactionV1::id_of(&capability);
    world.ok(RawCommand::Prepare(landing, capability));
    let Accepted::Committed(marker) = world.ok(RawCommand::Commit(id)) else {
        panic!("committed");
    };
    let claim = world.claim(id, marker);
    world.ok(claim);
    world.make_change(ActionPayload::ResolveEffect(ResolvePayload {
        transaction_id: id,
        outcome: OutcomeKind::Done,
        observed_head: Bytes(vec![1; 20]),
    }));
}

/// A node joins, another comes back, a verifier is replaced.
fn rosters(world: &mut World) {
    let join = RosterPayload::Join(newcomer());
    for step in [join, RosterPayload::Promote(NodeId(4))] {
        world.make_change(ActionPayload::RosterChange(Box::new(step)));
    }
    let mut verifiers = world.governance().roster.verifiers;
    verifiers[3].vote_key = key(27).public_key();
    world.make_change(ActionPayload::VerifierSetChange(verifiers));
    let record = RejoinV1 {
        node_id: NodeId(3),
        roster_epoch: world.governance().roster.roster_epoch,
        incarnation: 7,
        record_key: key(123).public_key(),
    };
    let rejoin = Envelope::seal(world.scope(), &key(123), &record);
    world.ok(RawCommand::Rejoin(rejoin));
}

/// M1-I34 from outside: what was latched or frozen before a step has no positive event after it.
pub fn nothing_positive_in_a_stopped_scope(
    before: &redlatch_journal::authority::Authority,
    events: &[Event],
) {
    for event in events {
        let intent = match event {
            Event::Authorized(body) => body.decision.binding.intent_digest,
            Event::Prepared(_, transaction) => transaction.binding.intent_digest,
            Event::Committed(marker) => marker.intent_digest,
            _ => continue,
        };
        let stopped = before.grounds.values().flat_map(|ground| &ground.scopes);
        let intent = &before.intents[&intent].intent;
        // The one act that passes a freeze, because it names what froze.
        if matches!(intent.payload, ActionPayload::ResetFrozen(_)) {
            continue;
        }
        for scope in stopped {
            assert!(!covers(scope, intent), "{} under {scope:?}", event.word());
        }
    }
}
