//! What a node says from a real state: statuses, held REDs, void transactions.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

#[path = "../../raft/core/tests/world/mod.rs"]
mod world;

use redlatch_journal::admit::RedEntry;
use redlatch_journal::{Command, admit};
use redlatch_node::drivers::void_transactions;
use redlatch_node::held::HeldReds;
use redlatch_node::view::{self, Question};
use redlatch_types::command::RawCommand;
use redlatch_types::records::{
    AbortReason, EffectState, RedScope, ScopeState, StatusV1, WithdrawalV1,
};
use redlatch_types::{Canonical, Digest, IntentDigest, MarkerNumber, NodeId};
use world::{MAIN, Outbox, START, World};

const OTHER: &str = "refs/heads/other";

fn status(world: &World, intent: Option<IntentDigest>, held: &HeldReds) -> StatusV1 {
    let question = Question {
        nonce: Digest::of(b"nonce"),
        intent,
    };
    let authority = &world.state.authority;
    let held = held.scopes(authority);
    let size = world.state.log.frontier.size();
    view::status(authority, size, NodeId(1), question, &held).expect("after genesis")
}

fn nothing_held() -> HeldReds {
    HeldReds::default()
}

fn segment(command: &RawCommand) -> Vec<RedEntry> {
    match admit(&command.to_canonical()) {
        Ok(Command::LatchRed(segment)) => segment,
        other => panic!("not a segment: {other:?}"),
    }
}

#[test]
fn a_status_repeats_the_question_and_says_where_the_state_stands() {
    let world = World::new();
    let status = status(&world, None, &nothing_held());
    assert_eq!(status.nonce, Digest::of(b"nonce"));
    assert_eq!(status.effect, EffectState::NotAsked);
    assert_eq!(status.scope, ScopeState::Free);
    assert_eq!(status.tree_size, world.state.log.frontier.size());
    assert_eq!(status.state_time, world.now());
    assert_eq!(status.autonomy_epoch.0, 2);
    assert_eq!(status.quorum_key_epoch.0, 1);
}

#[test]
fn before_genesis_there_is_no_status() {
    let world = World::before_genesis();
    let question = Question {
        nonce: Digest::ZERO,
        intent: None,
    };
    let said = view::status(&world.state.authority, 0, NodeId(1), question, &[]);
    assert_eq!(said, None);
}

#[test]
fn an_effect_is_outstanding_from_its_marker_to_its_deadline() {
    let mut world = World::new();
    let intent = world.freeze(MAIN, 1, 2);
    let before = status(&world, Some(intent), &nothing_held());
    assert_eq!(before.effect, EffectState::NotOutstanding);
    assert_eq!(before.marker, MarkerNumber(0));
    let (_, marker) = world.commit(intent);
    let after = status(&world, Some(intent), &nothing_held());
    assert_eq!(
        (after.effect, after.marker),
        (EffectState::Outstanding, marker)
    );
    let deadline = world.intent(intent).effect_deadline_ms;
    world.tick(START + 10_000 + deadline + world::MINUTE);
    let late = status(&world, Some(intent), &nothing_held());
    assert_ne!(late.effect, EffectState::Outstanding);
}

#[test]
fn a_latch_is_said_in_its_scope_and_wherever_the_scope_is_unknown() {
    let mut world = World::new();
    let (one, two) = (world.freeze(MAIN, 1, 2), world.freeze(OTHER, 1, 3));
    let red = Outbox::new().red(&world, &RedScope::ActionClass(world.intent(one).action));
    let latch = world.latch(red);
    for intent in [Some(one), Some(two), None, Some(IntentDigest(Digest::ZERO))] {
        let said = status(&world, intent, &nothing_held()).scope;
        assert_eq!(said, ScopeState::Latched, "{intent:?}");
    }
    world.stop(latch);
    let said = status(&world, Some(one), &nothing_held()).scope;
    assert_eq!(said, ScopeState::Frozen, "the freeze outlives the latch");
    assert!(!view::stops_for_people(&world.state.authority).is_empty());
}

#[test]
fn a_red_that_is_held_is_never_called_free_and_goes_with_its_latch() {
    let mut world = World::new();
    let intent = world.freeze(MAIN, 1, 2);
    let red = Outbox::new().red(&world, &RedScope::Intent(intent));
    let held = nothing_held();
    held.hold(&segment(&red), &world.state.authority);
    assert_eq!(held.len(), 1);
    assert_eq!(
        status(&world, Some(intent), &held).scope,
        ScopeState::RedHeld
    );
    assert_eq!(status(&world, None, &held).scope, ScopeState::RedHeld);
    let again = held.command().expect("something to latch");
    assert_eq!(
        segment(&red),
        segment(&RawCommand::from_canonical(&again).unwrap())
    );
    world.latch(red);
    assert_eq!(held.settle(&world.state.authority), 0);
    assert_eq!(held.command(), None);
    assert_eq!(
        status(&world, Some(intent), &held).scope,
        ScopeState::Latched
    );
}

#[test]
fn a_latched_red_and_a_strangers_red_are_not_held() {
    let mut world = World::new();
    let red = Outbox::new().red(&world, &RedScope::Everything);
    let RawCommand::LatchRed(envelopes) = &red else {
        panic!("a segment");
    };
    let forged = redlatch_types::Envelope::seal(
        envelopes[0].scope,
        &world::key(world::AGENT),
        &envelopes[0]
            .open::<redlatch_types::records::SentinelRedOutboxV1>()
            .unwrap()
            .record()
            .clone(),
    );
    let held = nothing_held();
    held.hold(
        &segment(&RawCommand::LatchRed(vec![forged])),
        &world.state.authority,
    );
    assert!(held.is_empty());
    let segment = segment(&red);
    world.latch(red);
    held.hold(&segment, &world.state.authority);
    assert!(held.is_empty());
}

#[test]
fn what_the_abort_driver_finds_is_what_the_journal_accepts() {
    let mut world = World::new();
    let intent = world.freeze(MAIN, 1, 2);
    let id = world.prepare(intent);
    assert_eq!(void_transactions(&world.state.authority), []);
    let red = Outbox::new().red(&world, &RedScope::Intent(intent));
    world.latch(red);
    let found = void_transactions(&world.state.authority);
    assert_eq!(found, [(id, AbortReason::RedLatched)]);
    world.ok(RawCommand::Abort(id, AbortReason::RedLatched));
    assert_eq!(void_transactions(&world.state.authority), []);
}

#[test]
fn time_is_waited_for_only_while_something_lives() {
    let mut world = World::new();
    assert!(!view::waits_for_time(&world.state.authority));
    let intent = world.freeze(MAIN, 1, 2);
    assert!(view::waits_for_time(&world.state.authority));
    let withdrawal = WithdrawalV1 {
        intent_digest: intent,
        reason: Default::default(),
    };
    let payload = withdrawal.to_canonical();
    let record = world.envelope_record("agent", &payload);
    let envelope =
        redlatch_types::Envelope::seal(world.scope(), &world::key(world::AGENT), &record);
    world.ok(RawCommand::Withdraw(
        envelope,
        redlatch_types::Bytes(payload),
    ));
    assert!(!view::waits_for_time(&world.state.authority));
}
