//! Where a RED stands in its chain, and what a stop takes along: each rule by itself.

use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, ChainPlace, Event};
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

fn place(event: &Event) -> Option<ChainPlace> {
    match event {
        Event::RedLatched(_, place, ..) => Some(*place),
        _ => None,
    }
}

#[test]
fn a_fork_that_comes_again_is_answered_with_its_own_latch() {
    let mut world = World::new();
    let honest = Outbox::new().red(&world, &RedScope::Subject(id("agent")));
    let fork = Outbox::new().red(&world, &RedScope::Subject(id("other")));
    let first = world.latch(honest.clone());
    let second = world.latch(fork.clone());
    assert_ne!(first, second);
    for (red, latch) in [(honest, first), (fork, second)] {
        let again = world.apply(red);
        assert_eq!(again.reply, Ok(Accepted::Latched(vec![latch])));
        assert!(again.events.is_empty());
    }
}

#[test]
fn fault_055_two_reds_of_one_number_before_their_turn_are_a_fork() {
    let mut world = World::new();
    let early = |world: &World, subject: &str| {
        let mut later = Outbox::new();
        later.number = 6;
        later.red(world, &RedScope::Subject(id(subject)))
    };
    let one = early(&world, "agent");
    let other = early(&world, "other");
    let first = world.apply(one.clone());
    assert_eq!(first.events.iter().find_map(place), Some(ChainPlace::Early));
    let second = world.apply(other);
    assert_eq!(
        second.events.iter().find_map(place),
        Some(ChainPlace::Broken)
    );
    assert!(world.apply(one).events.is_empty());
}

/// What came before its turn is compared once its turn has come.
#[test]
fn fault_055_another_red_in_the_turn_of_one_that_came_early_is_a_fork() {
    let mut world = World::new();
    let mut outbox = Outbox::new();
    let first = outbox.red(&world, &RedScope::Subject(id("agent")));
    let (number, root) = (outbox.number, outbox.root);
    let early = outbox.red(&world, &RedScope::Subject(id("other")));
    (outbox.number, outbox.root) = (number, root);
    let fork = outbox.red(&world, &RedScope::Subject(id("gate")));
    for (red, expected) in [
        (early.clone(), Some(ChainPlace::Early)),
        (first, Some(ChainPlace::Next)),
        (fork, Some(ChainPlace::Broken)),
        (early, None),
    ] {
        let latched = world.apply(red);
        assert_eq!(latched.events.iter().find_map(place), expected);
    }
    assert_eq!(world.state.authority.latches.len(), 3);
}

/// The last number that there is has no successor, and is not its own.
#[test]
fn the_last_number_of_a_chain_is_known_again() {
    let mut world = World::new();
    let mut outbox = Outbox::new();
    outbox.number = u64::MAX - 1;
    let last = outbox.red(&world, &RedScope::Everything);
    world.state.authority.outbox.number = OutboxEpoch(u64::MAX);
    world.state.authority.outbox.root = Some(outbox.root);
    assert!(world.apply(last).events.is_empty());
}

/// A number below the watermark whose latch is archived was latched in its turn; 0 never was.
#[test]
fn what_lies_below_the_watermark_is_a_repeat_unless_it_cannot_be() {
    let mut world = World::new();
    let mut outbox = Outbox::new();
    for subject in ["agent", "other"] {
        outbox.red(&world, &RedScope::Subject(id(subject)));
    }
    let entries = outbox.entries.clone();
    let latches = world.ok(RawCommand::LatchRed(entries.clone()));
    let Accepted::Latched(latches) = latches else {
        panic!("latched");
    };
    let first = RawCommand::LatchRed(vec![entries[0].clone()]);
    let known = world.apply(first.clone());
    assert_eq!(known.reply, Ok(Accepted::Latched(vec![latches[0]])));
    let fork = Outbox::new().red(&world, &RedScope::Subject(id("gate")));
    let forked = world.apply(fork);
    assert_eq!(
        forked.events.iter().find_map(place),
        Some(ChainPlace::Broken)
    );
    world.stop(latches[0]);
    let ack = world.ack(latches[0], 1);
    world.ok(ack);
    world.state.authority.latches.clear();
    let archived = world.apply(first);
    assert_eq!(
        (archived.events, archived.reply),
        (vec![], Ok(Accepted::Latched(vec![])))
    );
    // The last one in order is compared, though its latch is archived as well.
    let mut fork = Outbox::new();
    fork.number = 1;
    let fork = fork.red(&world, &RedScope::Subject(id("gate")));
    let before = world.state.clone();
    let forked = world.apply(fork);
    assert_eq!(
        forked.events.iter().find_map(place),
        Some(ChainPlace::Broken)
    );
    world.state = before;
    let verdict = Outbox::verdict(&RedScope::Subject(id("agent")), &[], None);
    let verdict = Bytes(verdict.to_canonical());
    let number = OutboxEpoch(0);
    let root =
        SentinelRedOutboxV1::root_after(&Digest::ZERO, number, &Digest::of(&verdict.0), None);
    let zero = SentinelRedOutboxV1 {
        outbox_epoch: number,
        previous_outbox_root_digest: Digest::ZERO,
        red_verdict: verdict,
        source_intent_digest_optional: None,
        signed_outbox_root_digest: root,
        protected_latest_outbox_epoch: number,
    };
    let zero = Envelope::seal(world.scope(), &key(SENTINEL), &zero);
    let stopped = world.apply(RawCommand::LatchRed(vec![zero]));
    let places: Vec<_> = stopped.events.iter().filter_map(place).collect();
    assert_eq!(places.len(), 1, "number 0 stops everything");
}

#[test]
fn m1_i30_a_stop_aborts_what_is_prepared_in_its_scope_and_nothing_else() {
    let mut world = World::new();
    let committed = world.freeze("refs/heads/committed", 0, 7);
    let (landed, _) = world.commit(committed);
    let mut outside = world.proposal("other", "refs/heads/outside", 0, 8);
    outside.executor_subject_id_optional = Some(id("gate"));
    let command = world.freeze_command(OTHER_AGENT, "other", &outside);
    let Accepted::Frozen(outside) = world.ok(command) else {
        panic!("frozen");
    };
    let elsewhere = world.prepare(outside);
    let inside = world.freeze("refs/heads/inside", 0, 9);
    let prepared = world.prepare(inside);
    let verdict = Outbox::verdict(&RedScope::Subject(id("agent")), &[4], None);
    let envelope = Outbox::new().push(world.scope(), None, verdict.to_canonical());
    let latch = world.latch(RawCommand::LatchRed(vec![envelope]));
    world.stop(latch);
    let aborted: Vec<_> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Aborted(id, ..) => Some(*id),
            _ => None,
        })
        .collect();
    assert_eq!(aborted, [prepared]);
    let transactions = &world.state.authority.transactions;
    assert!(transactions.contains_key(&landed) && transactions.contains_key(&elsewhere));
    assert!(!transactions.contains_key(&prepared));
    let intents = &world.state.authority.intents;
    assert!(intents.contains_key(&committed) && intents.contains_key(&outside));
    assert!(!intents.contains_key(&inside));
}

/// Without the verb a stop aborts nothing, and rolls back nothing.
#[test]
fn m1_i31_a_stop_does_no_more_than_its_verbs() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let prepared = world.prepare(digest);
    let side = world.freeze("refs/heads/side", 0, 8);
    let (id_of_side, marker) = world.commit(side);
    let claim = world.claim(id_of_side, marker);
    world.ok(claim);
    let before = world.governance().grants;
    let red = Outbox::new().red(&world, &RedScope::Subject(id("agent")));
    let latch = world.latch(red);
    world.stop(latch);
    assert!(world.state.authority.transactions.contains_key(&prepared));
    assert_eq!(world.governance().grants, before);
    let marker = world.events.iter().find_map(|event| match event {
        Event::SafetyCommitted(marker) => Some(marker.compensates.clone()),
        _ => None,
    });
    assert_eq!(marker, Some(Vec::new()));
}

/// Revocation and demotion reach the grants of the named subject, or all of them.
#[test]
fn m1_i17_a_stop_revokes_and_lowers_the_grants_that_it_names() {
    let stopped = |scope: RedScope, verb: u64| {
        let mut world = World::new();
        let verdict = Outbox::verdict(&scope, &[verb], None).to_canonical();
        let envelope = Outbox::new().push(world.scope(), None, verdict);
        let latch = world.latch(RawCommand::LatchRed(vec![envelope]));
        world.stop(latch);
        let grants = world.governance().grants;
        let mut left: Vec<_> = grants
            .values()
            .map(|g| (g.grant.subject_id.to_string(), g.grant.max_tier))
            .collect();
        left.sort();
        left
    };
    let grant = |name: &str, tier| (name.to_owned(), tier);
    let agent = RedScope::Subject(id("agent"));
    let class = RedScope::ActionClass(ActionClass::Land);
    assert_eq!(stopped(agent.clone(), 3), [grant("other", Tier::A3)]);
    assert_eq!(stopped(RedScope::Everything, 3), []);
    let both = [grant("agent", Tier::A3), grant("other", Tier::A3)];
    assert_eq!(stopped(class.clone(), 3), both);
    assert_eq!(stopped(class, 5), both);
    let one = [grant("agent", Tier::A2), grant("other", Tier::A3)];
    assert_eq!(stopped(agent, 5), one);
    let lower = [grant("agent", Tier::A2), grant("other", Tier::A2)];
    assert_eq!(stopped(RedScope::Everything, 5), lower);
}

#[test]
fn an_attempt_for_a_latch_that_never_was_is_no_attempt() {
    let mut world = World::new();
    let red = Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    let attempt = world.attempt(latch);
    for (number, refusal) in [(0, Refusal::WrongState), (2, Refusal::WrongState)] {
        let mut other = attempt.clone();
        other.latch_epoch = LatchNumber(number);
        let store = RawCommand::StoreSafetyIntent(Box::new(other));
        assert_eq!(world.refused(store), refusal, "{number}");
    }
    world.stop(latch);
    let ack = world.ack(latch, 1);
    world.ok(ack);
    let store = RawCommand::StoreSafetyIntent(Box::new(attempt));
    assert_eq!(world.refused(store), Refusal::StaleLatchClaim, "archived");
    for number in [0, 2] {
        let unknown = world.ack(LatchNumber(number), 1);
        assert_eq!(world.refused(unknown), Refusal::WrongState, "{number}");
    }
}

#[test]
fn a_red_about_one_intent_stops_its_proposer_and_not_another() {
    let mut world = World::new();
    let mut proposal = world.proposal("other", "refs/heads/other", 0, 8);
    proposal.executor_subject_id_optional = Some(id("gate"));
    let command = world.freeze_command(OTHER_AGENT, "other", &proposal);
    let Accepted::Frozen(others) = world.ok(command) else {
        panic!("frozen");
    };
    let digest = world.freeze(MAIN, 0, 7);
    let red = Outbox::new().red(&world, &RedScope::Intent(digest));
    world.latch(red);
    world.commit(others);
    // An entry that names one intent and a verdict that names another stop everything.
    let verdict = Outbox::verdict(&RedScope::Intent(others), &[], None).to_canonical();
    let mut outbox = Outbox::new();
    outbox.number = 1;
    outbox.root = world.state.authority.outbox.root.expect("latched");
    let mixed = outbox.push(world.scope(), Some(digest), verdict);
    let latch = world.latch(RawCommand::LatchRed(vec![mixed]));
    let receipt = &world.state.authority.latches[&latch].receipt;
    assert_eq!(
        receipt.mandate,
        redlatch_types::mandate::Mandate::everything()
    );
}
