//! Every list has an end, and to its last place it serves (FAULTS 94).

use redlatch_journal::authority::{FirstOutcome, Intent, IntentStage, Resource, TransactionStage};
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, ChainPlace, Event};
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

fn numbered(n: usize) -> Digest {
    Digest::of_parts(&[b"bound", &n.to_be_bytes()])
}

/// So many copies of a frozen intent, changed.
fn fill(world: &mut World, many: usize, change: impl Fn(&mut Intent)) {
    let digest = world.freeze("refs/heads/first", 0, 7);
    let intents = &mut world.state.authority.intents;
    let mut copy = intents[&digest].clone();
    change(&mut copy);
    for n in 1..many {
        intents.insert(IntentDigest(numbered(n)), copy.clone());
    }
}

fn freezes(world: &mut World, n: u8, subject: &str) -> Result<Accepted, Refusal> {
    let proposal = world.proposal(subject, MAIN, 0, 7);
    let command = world.freeze_command(n, subject, &proposal);
    world.apply(command).reply
}

#[test]
fn fault_094_a_subject_has_so_many_open_intents_and_others_have_their_own() {
    let mut world = World::new();
    fill(&mut world, limits::INTENTS_OPEN_PER_SUBJECT_MAX - 1, |_| {});
    assert!(
        freezes(&mut world, AGENT, "agent").is_ok(),
        "the last place"
    );
    let over = freezes(&mut world, AGENT, "agent");
    assert_eq!(over, Err(Refusal::LimitExceeded));
    assert!(freezes(&mut world, OTHER_AGENT, "other").is_ok());
    // What is committed is open no longer; what is prepared is.
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 9);
    let id = world.prepare(digest);
    let many = limits::INTENTS_OPEN_PER_SUBJECT_MAX;
    fill(&mut world, many, |i| {
        i.stage = IntentStage::InTransaction(id)
    });
    let prepared = world.state.clone();
    let over = freezes(&mut world, AGENT, "agent");
    assert_eq!(over, Err(Refusal::LimitExceeded));
    world.state = prepared;
    world.ok(RawCommand::Commit(id));
    let held = &world.state.authority.transactions[&id].stage;
    assert!(matches!(held, TransactionStage::Committed(..)));
    assert!(freezes(&mut world, AGENT, "agent").is_ok());
}

#[test]
fn fault_094_all_together_have_so_many_intents() {
    let mut world = World::new();
    fill(&mut world, limits::INTENTS_OPEN_MAX - 1, |i| {
        i.intent.caller_subject_id = id("somebody");
    });
    assert!(
        freezes(&mut world, AGENT, "agent").is_ok(),
        "the last place"
    );
    let over = freezes(&mut world, OTHER_AGENT, "other");
    assert_eq!(over, Err(Refusal::LimitExceeded));
}

#[test]
fn fault_094_a_subject_has_so_many_answers_that_are_remembered() {
    let mut world = World::new();
    let first = FirstOutcome {
        payload_digest: Digest::ZERO,
        accepted: Accepted::Checkpointed,
        expires_at: u64::MAX,
    };
    let remembered =
        (1..limits::IDEMPOTENCY_PER_SUBJECT_MAX).map(|n| (EventId(numbered(n)), first.clone()));
    let remembered = remembered.collect();
    world
        .state
        .authority
        .idempotency
        .insert(id("agent"), remembered);
    assert!(
        freezes(&mut world, AGENT, "agent").is_ok(),
        "the last place"
    );
    let over = freezes(&mut world, AGENT, "agent");
    assert_eq!(over, Err(Refusal::LimitExceeded));
    assert!(freezes(&mut world, OTHER_AGENT, "other").is_ok());
}

#[test]
fn fault_094_effects_touch_so_many_resources() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let resource = world.intent(digest).payload.resource();
    for n in 0..limits::RESOURCES_MAX {
        let held = Resource {
            resource: resource.clone(),
            head: None,
            store_version: 0,
            reserved_by: None,
        };
        let resources = &mut world.state.authority.resources;
        resources.insert(ResourceId(numbered(n)), held);
    }
    let full = world.state.clone();
    let capability = world.authorize(digest);
    let prepare = RawCommand::Prepare(digest, capability);
    assert_eq!(world.refused(prepare.clone()), Refusal::LimitExceeded);
    // One that is there already needs no room, and one place is enough.
    let resources = &mut world.state.authority.resources;
    let one = resources.remove(&ResourceId(numbered(1))).expect("filled");
    let with_room = world.state.clone();
    world.ok(prepare.clone());
    world.state = with_room;
    world.state.authority.resources.insert(resource.id(), one);
    world.ok(prepare);
    world.state = full;
}

/// A sentinel that has lost its chain freezes everything by so many grounds; one more adds none.
#[test]
fn fault_094_broken_and_early_reds_are_kept_apart_up_to_a_bound() {
    let mut world = World::new();
    let unreadable = |world: &World, n: u8| {
        let body = vec![0xa1, 0x01, 0x18, n];
        let scope = world.scope();
        let of = sign::preimage(SentinelRedOutboxV1::TYPE, &scope, &Digest::of(&body));
        RawCommand::LatchRed(vec![Envelope {
            scope,
            key: key(SENTINEL).public_key(),
            body: Bytes(body),
            signature: key(SENTINEL).sign(&of),
        }])
    };
    let fork = |world: &World| {
        let mut other = Outbox::new();
        other.root = digest("elsewhere");
        other.red(world, &RedScope::Everything)
    };
    let early = |world: &World| {
        let mut later = Outbox::new();
        later.number = 1_000;
        later.red(world, &RedScope::Everything)
    };
    for n in 1..limits::RED_EARLY_MAX {
        world.state.authority.outbox.broken.insert(numbered(n));
        let number = OutboxEpoch(10 + n as u64);
        world
            .state
            .authority
            .outbox
            .early
            .insert(number, numbered(n));
    }
    let before = world.state.clone();
    for (what, command, other) in [
        (
            "unreadable",
            unreadable(&world, 200),
            unreadable(&world, 201),
        ),
        ("broken", fork(&world), unreadable(&world, 201)),
        ("early", early(&world), {
            let mut later = Outbox::new();
            later.number = 2_000;
            later.red(&world, &RedScope::Everything)
        }),
    ] {
        world.state = before.clone();
        let last = world.apply(command);
        let places: Vec<_> = last.events.iter().filter_map(place).collect();
        assert_eq!(places.len(), 1, "{what}: the last place");
        let over = world.apply(other);
        assert_eq!(
            (over.events, over.reply),
            (vec![], Ok(Accepted::Latched(vec![]))),
            "{what}"
        );
    }
    // Full of the unreadable, what is broken adds nothing either.
    world.state = before;
    world.apply(unreadable(&world, 200));
    let over = fork(&world);
    assert!(world.apply(over).events.is_empty());
}

fn place(event: &Event) -> Option<ChainPlace> {
    match event {
        Event::RedLatched(_, place, ..) => Some(*place),
        _ => None,
    }
}

#[test]
fn fault_094_a_command_carries_so_many_parts() {
    let mut world = World::new();
    let number = world.state.authority.clock.tick.next();
    let one = world.readings(&[(1, START)]).remove(0);
    for (n, expected) in [
        (limits::BATCH_COMMANDS_MAX, Refusal::TimeStale),
        (limits::BATCH_COMMANDS_MAX + 1, Refusal::LimitExceeded),
    ] {
        let command = RawCommand::Tick(number, vec![one.clone(); n]);
        assert_eq!(world.refused(command), expected, "{n} readings");
    }
    let digest = world.freeze(MAIN, 0, 1);
    let receipt = gate_passed(&world);
    for (n, expected) in [
        (limits::POLICY_RECEIPTS_MAX, Refusal::WrongVariant),
        (limits::POLICY_RECEIPTS_MAX + 1, Refusal::LimitExceeded),
    ] {
        let receipts = vec![receipt.clone(); n];
        let command = policy_authorization(&mut world, digest, receipts);
        assert_eq!(world.refused(command), expected, "{n} receipts");
    }
    let mut outbox = Outbox::new();
    for _ in 0..=limits::RED_SEGMENT_LEN_MAX {
        outbox.red(&world, &RedScope::Mission(id("elsewhere")));
    }
    let over = RawCommand::LatchRed(outbox.entries.clone());
    assert_eq!(world.refused(over), Refusal::LimitExceeded);
    let longest = outbox.entries[..limits::RED_SEGMENT_LEN_MAX].to_vec();
    world.ok(RawCommand::LatchRed(longest));
    assert_eq!(
        world.state.authority.latches.len(),
        limits::RED_SEGMENT_LEN_MAX
    );
}

#[test]
fn fault_094_a_command_has_so_many_bytes() {
    let mut world = World::new();
    for (n, expected) in [
        (limits::COMMAND_BYTES_MAX, Refusal::NotCanonical),
        (limits::COMMAND_BYTES_MAX + 1, Refusal::LimitExceeded),
    ] {
        let outcome = world.apply_bytes(vec![vec![0; n]]).remove(0);
        assert_eq!(outcome.reply, Err(expected), "{n} bytes");
    }
}

/// A budget is used by what is committed and by what is being prepared under the same grant.
#[test]
fn a_budget_is_each_grants_own_and_each_use_counts_once() {
    let with_budget = |budget: u64| {
        let mut record = redlatch_journal::development::genesis(parties());
        for grant in &mut record.grants {
            grant.budget = budget;
        }
        record.activations[1].grants_digest = grants_digest(record.grants.iter());
        let mut world = World::before_genesis();
        world.ok(seal_genesis(&record));
        world.tick(START + 1_000);
        let confirmations = world.key_confirmations(|_, _| {});
        world.ok(RawCommand::ActivateQuorumKey(confirmations));
        world
    };
    let mut world = with_budget(1);
    let one = world.freeze(MAIN, 0, 7);
    world.prepare(one);
    let proposal = world.proposal("other", "refs/heads/other", 0, 8);
    let command = world.freeze_command(OTHER_AGENT, "other", &proposal);
    let Accepted::Frozen(others) = world.ok(command) else {
        panic!("frozen");
    };
    world.prepare(others);
    // What has expired uses nothing.
    let two = world.freeze("refs/heads/two", 0, 9);
    let capability = world.authorize(two);
    let prepare = RawCommand::Prepare(two, capability);
    assert_eq!(world.refused(prepare.clone()), Refusal::BudgetExceeded);
    world.tick(world.now() + limits::PREPARE_TTL_MS);
    world.ok(prepare);
    // What is committed is counted as committed only.
    let mut world = with_budget(2);
    for (reference, new) in [("refs/heads/a", 7), ("refs/heads/b", 8)] {
        let digest = world.freeze(reference, 0, new);
        world.commit(digest);
    }
}

/// Whoever took a resource over keeps it when the one before is ended.
#[test]
fn ending_a_transaction_gives_back_only_what_it_still_holds() {
    let mut world = World::new();
    let one = world.freeze(MAIN, 0, 7);
    let two = world.freeze(MAIN, 0, 8);
    let first = world.prepare(one);
    world.tick(world.now() + limits::PREPARE_TTL_MS);
    let second = world.prepare(two);
    world.ok(RawCommand::Abort(first, AbortReason::Expired));
    let resource = world.intent(two).payload.resource().id();
    let held = &world.state.authority.resources[&resource];
    assert_eq!(held.reserved_by, Some(second));
    world.ok(RawCommand::Commit(second));
}

/// An answer is remembered as long as the command could come again, and not longer.
#[test]
fn answers_and_refusals_are_forgotten_in_their_time() {
    let mut world = World::new();
    world.freeze(MAIN, 0, 7);
    let end = world.now() + 10 * MINUTE;
    let mut refused = world.proposal("agent", MAIN, 0, 7);
    refused.expected_boundary_version = 9;
    let command = world.freeze_command(AGENT, "agent", &refused);
    world.refused(command);
    assert_eq!(world.state.authority.audits.len(), 1);
    world.tick(end - 1);
    assert!(world.state.authority.audits.is_empty());
    assert_eq!(world.state.authority.idempotency.len(), 1);
    world.tick(end);
    assert!(world.state.authority.idempotency.is_empty());
}
