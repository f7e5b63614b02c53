//! Attempts: only what the latch fixed, only after the proof, until the proof.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod bench;

use bench::world::{
    ACTUATOR, AGENT, MAIN, MINUTE, START, World, approvals, digest, journal, key, prove, subject,
};
use bench::{Actuator, Submitted, verifier};
use redlatch_actuator::SafetyCommand;
use redlatch_actuator::attempts::{Alarm, AttemptV1, Effect, LatchRefused, Stage};
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, ChainPlace, Event};
use redlatch_types::mandate::{Mandate, NegativeVerb};
use redlatch_types::records::*;
use redlatch_types::*;

/// A journal with one pending latch on `agent`, and an actuator that has not heard of it.
fn latched() -> (World, journal::Outbox, LatchNumber, Actuator) {
    let mut world = World::new();
    let mut outbox = journal::Outbox::new();
    let red = outbox.red(&world, &subject("agent"));
    let latch = world.latch(red);
    let actuator = Actuator::new(&world);
    (world, outbox, latch, actuator)
}

fn last(world: &World) -> Event {
    world.events.last().unwrap().clone()
}

fn only(actuator: &mut Actuator) -> Submitted {
    let mut submitted = std::mem::take(&mut actuator.submitted);
    assert_eq!(submitted.len(), 1, "{submitted:?}");
    submitted.remove(0)
}

/// Sends what was submitted, answers it, shows the events it led to.
fn turn(world: &mut World, actuator: &mut Actuator) -> Result<Accepted, Refusal> {
    let sent = only(actuator);
    let outcome = world.apply(sent.command.clone().into());
    actuator.reply(&sent, &outcome.reply);
    for event in &outcome.events {
        actuator.event(event, None);
    }
    outcome.reply
}

/// Goes on to the end, without a refusal.
fn finish(world: &mut World, actuator: &mut Actuator) {
    for _ in 0..3 {
        if actuator.submitted.is_empty() {
            actuator.timeout();
        }
        turn(world, actuator).unwrap();
    }
    assert_eq!(actuator.attempts.works().count(), 0);
}

/// The record of the one latch at work.
fn work(actuator: &Actuator) -> AttemptV1 {
    actuator.attempts.works().next().unwrap().clone()
}

#[test]
fn the_stop_takes_four_commands_and_ends_with_the_proof() {
    let (mut world, _, latch, mut actuator) = latched();
    actuator.event(&last(&world), None);
    for word in ["Store", "Prepare", "Claim", "Finish"] {
        let sent = &actuator.submitted[0].command;
        assert!(format!("{sent:?}").starts_with(word), "{sent:?}");
        turn(&mut world, &mut actuator).unwrap();
    }
    assert_eq!(actuator.attempts.works().count(), 0);
    assert!(actuator.attempt_disk.is_empty() && actuator.submitted.is_empty());
    assert_eq!(actuator.attempts.next_wakeup(), None);
    let state = world.state.authority.latches[&latch].state;
    assert!(format!("{state:?}").starts_with("Terminal"));
    // The latch, shown again, is not begun again.
    let event = world.events.iter().find(|e| e.word() == "red_latched");
    actuator.event(&event.unwrap().clone(), None);
    assert!(actuator.submitted.is_empty());
}

/// M1-I24 on the safety side: no signature before the proof that the bytes are stored.
#[test]
fn a_nodes_word_that_it_stored_the_attempt_is_not_signed_upon() {
    let (mut world, _, latch, mut actuator) = latched();
    actuator.event(&last(&world), None);
    let sent = only(&mut actuator);
    for _ in 0..3 {
        let said = Ok(Accepted::SafetyStored(sent.attempt));
        actuator.reply(&sent, &said);
        assert!(actuator.submitted.is_empty());
        assert_eq!(actuator.asks.pop(), Some(Some(latch)));
    }
    // Its word that everything is over ends nothing either.
    actuator.reply(&sent, &Ok(Accepted::SafetyTerminal(latch)));
    actuator.reply(&sent, &Err(Refusal::StaleLatchClaim));
    assert_eq!(work(&actuator).stage, Stage::Derived);
    assert!(actuator.attempt_disk.contains_key(&latch));
    world.ok(sent.command.into());
    actuator.event(&last(&world), None);
    assert!(matches!(
        only(&mut actuator).command,
        SafetyCommand::Prepare(_)
    ));
}

#[test]
fn m1_i31_a_rebase_changes_only_the_fields_that_it_may() {
    let (mut world, _, latch, mut actuator) = latched();
    actuator.event(&last(&world), None);
    turn(&mut world, &mut actuator).unwrap();
    let first = work(&actuator).attempt;
    world.tick(START + 3 * MINUTE);
    assert_eq!(turn(&mut world, &mut actuator), Err(Refusal::Expired));
    let second = work(&actuator).attempt;
    let allowed = SafetyActionIntentV1 {
        attempt_sequence: 2,
        rebased_from_attempt_digest_optional: Some(first.digest()),
        expected_autonomy_epoch: second.expected_autonomy_epoch,
        attempt_idempotency_key: second.attempt_idempotency_key,
        nonce: second.nonce,
        ..first.clone()
    };
    assert_eq!(second, allowed);
    assert_ne!(second.nonce, first.nonce);
    assert_ne!(
        second.attempt_idempotency_key,
        first.attempt_idempotency_key
    );
    let held = &world.state.authority.latches[&latch];
    assert_eq!(held.attempt.as_ref().unwrap().intent, first);
}

/// M1-I31: what does not follow from the latch is not signed, whoever stored it.
#[test]
fn m1_i31_a_stored_attempt_that_does_not_follow_is_not_signed() {
    let (world, _, latch, mut actuator) = latched();
    actuator.event(&last(&world), None);
    actuator.submitted.clear();
    let good = work(&actuator).attempt;
    type Edit = fn(&mut SafetyActionIntentV1);
    let edits: &[Edit] = &[
        |a| a.safety_intent_canonicalization_version += 1,
        |a| a.source_intent_core_ref_optional = Some(IntentDigest(digest("x"))),
        |a| a.sentinel_red_verdict_digest = digest("x"),
        |a| a.red_latch_receipt_digest = digest("x"),
        |a| a.actuator_identity_key_binary_policy_digest = digest("x"),
        |a| a.expected_constitution_epoch = ConstitutionEpoch(9),
        |a| a.affected_grants_scope_digest = digest("x"),
        |a| a.allowed_negative_actions_digest = digest("x"),
        |a| a.rollback_candidate_plan_digest_optional = Some(digest("x")),
        |a| a.immutable_negative_mandate_digest = digest("x"),
        |a| a.valid_while_latch_pending = false,
    ];
    for edit in edits {
        let mut wrong = good.clone();
        edit(&mut wrong);
        actuator.event(&Event::SafetyIntentStored(Box::new(wrong)), None);
        assert_eq!(actuator.alarms.pop(), Some(Alarm::NotDerived(latch)));
        assert!(actuator.submitted.is_empty());
    }
    assert_eq!(work(&actuator).stage, Stage::Derived);
}

/// M1-I35: expiry, a moved epoch and a foreign attempt each kill an attempt and no latch;
/// nothing positive passes meanwhile.
#[test]
fn m1_i35_no_expiry_spent_nonce_or_stale_epoch_ends_a_latch() {
    let (mut world, mut outbox, _, mut actuator) = latched();
    let intent = world.freeze(MAIN, 0, 7);
    let latch = world.events.iter().find(|e| e.word() == "red_latched");
    actuator.event(&latch.unwrap().clone(), None);
    let refuse = |world: &mut World| {
        let given = world.authorization(intent, &approvals());
        let refused = world.apply(RawCommand::Authorize(Box::new(given))).reply;
        assert_eq!(refused, Err(Refusal::RedLatched));
    };
    // Expired when stored, then when prepared.
    for (at, steps) in [(3, 1), (6, 2)] {
        for _ in 0..steps {
            turn(&mut world, &mut actuator).unwrap();
        }
        world.tick(START + at * MINUTE);
        refuse(&mut world);
        assert_eq!(turn(&mut world, &mut actuator), Err(Refusal::Expired));
        actuator.submitted.clear();
        actuator.timeout();
    }
    // Another latch's stop moves the epoch; this one's attempt is stored under the old one.
    turn(&mut world, &mut actuator).unwrap();
    let red = outbox.red(&world, &subject("other"));
    let second = world.latch(red);
    let before = world.events.len();
    world.stop(second);
    refuse(&mut world);
    actuator.submitted.clear();
    for event in &world.events[before..] {
        if event.word() == "epoch_published" {
            actuator.event(event, None);
        }
    }
    // Somebody else stores the next attempt first: it follows, so it is taken over.
    let stored = world.store_attempt(LatchNumber(1));
    refuse(&mut world);
    assert_eq!(turn(&mut world, &mut actuator), Err(Refusal::WrongState));
    actuator.event(&Event::SafetyIntentStored(Box::new(stored.clone())), None);
    assert_eq!(work(&actuator).attempt, stored);
    actuator.submitted.clear();
    finish(&mut world, &mut actuator);
    assert_eq!(actuator.alarms, []);
}

#[test]
fn a_node_that_lies_about_expiry_delays_nothing_for_long() {
    let (mut world, _, _, mut actuator) = latched();
    actuator.event(&last(&world), None);
    turn(&mut world, &mut actuator).unwrap();
    let stored = work(&actuator).attempt;
    let sent = only(&mut actuator);
    actuator.reply(&sent, &Err(Refusal::Expired));
    assert_eq!(work(&actuator).stage, Stage::Derived);
    actuator.timeout();
    // The honest journal refuses the rebase, because the attempt lives: back to it.
    assert_eq!(turn(&mut world, &mut actuator), Err(Refusal::WrongState));
    assert_eq!(work(&actuator).attempt, stored);
    finish(&mut world, &mut actuator);
}

#[test]
fn fault_078_events_twice_backwards_and_late_answers_change_nothing() {
    let (mut world, _, _, mut actuator) = latched();
    actuator.event(&last(&world), None);
    let store = only(&mut actuator);
    world.ok(store.command.clone().into());
    let stored = last(&world);
    actuator.event(&stored, None);
    let prepare = only(&mut actuator);
    for _ in 0..2 {
        actuator.event(&stored, None);
        actuator.reply(&store, &Ok(Accepted::SafetyStored(store.attempt)));
        assert!(actuator.submitted.is_empty());
    }
    let before = world.events.len();
    world.ok(prepare.command.clone().into());
    let SafetyCommand::Prepare(envelope) = &prepare.command else {
        unreachable!()
    };
    let id = SafetyCapabilityV1::from_canonical(&envelope.body.0)
        .unwrap()
        .transaction_id();
    world.ok(RawCommand::ClaimSafety(id));
    // The claim's events come before the preparation's, and backwards.
    let news: Vec<_> = world.events[before..].iter().rev().cloned().collect();
    for event in news.iter().chain(&news) {
        actuator.event(event, None);
    }
    assert_eq!(work(&actuator).stage, Stage::Claimed(id));
    // A refusal of the attempt that was left behind.
    actuator.reply(&prepare, &Err(Refusal::Expired));
    assert_eq!(work(&actuator).stage, Stage::Claimed(id));
    world.ok(RawCommand::FinishSafety(id));
    actuator.event(&last(&world), None);
    actuator.event(&last(&world), None);
    assert_eq!(actuator.attempts.works().count(), 0);
}

#[test]
fn every_step_is_persisted_first_and_resumed_after_a_crash_anywhere() {
    let mut crashes = 0;
    for runs in 0..40 {
        let (mut world, _, latch, mut actuator) = latched();
        actuator.runs = Some(runs);
        actuator.event(&last(&world), None);
        for _ in 0..60 {
            let terminal = world
                .state
                .authority
                .pending_latches()
                .all(|l| l.receipt.latch_epoch != latch);
            if terminal && actuator.attempts.works().count() == 0 {
                break;
            }
            if actuator.runs == Some(0) {
                crashes += 1;
                actuator.restart();
                let events: Vec<_> = world
                    .events
                    .iter()
                    .filter(|e| bench::latch_of(e).is_some())
                    .cloned()
                    .collect();
                events.iter().for_each(|e| actuator.event(e, None));
            }
            if actuator.submitted.is_empty() {
                actuator.timeout();
            }
            for sent in std::mem::take(&mut actuator.submitted) {
                let outcome = world.apply(sent.command.clone().into());
                actuator.reply(&sent, &outcome.reply);
                outcome.events.iter().for_each(|e| actuator.event(e, None));
            }
        }
        let state = world.state.authority.latches[&latch].state;
        assert!(
            format!("{state:?}").starts_with("Terminal"),
            "{runs}: {state:?}"
        );
        let attempts = world
            .events
            .iter()
            .filter(|e| e.word() == "safety_intent_stored");
        assert_eq!(attempts.count(), 1, "{runs}: a crash costs no attempt");
    }
    assert!(crashes > 5);
}

#[test]
fn a_latch_is_begun_only_if_it_says_what_its_red_says() {
    let (mut world, _, _, _) = latched();
    let intent = world.freeze(MAIN, 0, 7);
    let red = journal::Outbox::new().red(&world, &RedScope::Intent(intent));
    let mut fresh = World::new();
    fresh.freeze(MAIN, 0, 7);
    fresh.latch(red);
    let Event::RedLatched(receipt, place, ground, envelope) = last(&fresh) else {
        unreachable!()
    };
    let begin = |receipt: &RedLatchReceiptV1, place, envelope: &Envelope, source: bool| {
        let event = Event::RedLatched(
            Box::new(receipt.clone()),
            place,
            ground.clone(),
            envelope.clone(),
        );
        let mut actuator = Actuator::new(&fresh);
        let source = source.then(|| fresh.intent(intent));
        let mut out: Vec<Effect> = Vec::new();
        let begun = actuator.attempts.handle_latch(
            &prove(fresh.scope(), &event),
            &verifier(fresh.scope()),
            source.as_ref(),
            0,
            &mut || digest("draw"),
            &mut out,
        );
        assert_eq!(begun.is_err(), out.is_empty());
        begun
    };
    assert_eq!(begin(&receipt, place, &envelope, true), Ok(()));
    assert_eq!(
        begin(&receipt, place, &envelope, false),
        Err(LatchRefused::SourceMissing(intent))
    );
    // Narrower or aimed elsewhere.
    let mut other = (*receipt).clone();
    other.mandate.scopes = vec![RedScope::Intent(intent)];
    assert_eq!(
        begin(&other, place, &envelope, true),
        Err(LatchRefused::OtherMandate)
    );
    let mut other = (*receipt).clone();
    other.mandate.verbs.push(NegativeVerb::Revoke);
    assert_eq!(
        begin(&other, place, &envelope, true),
        Err(LatchRefused::OtherMandate)
    );
    // Wider is the journal's right, the intent known or not.
    let mut wide = (*receipt).clone();
    wide.mandate = Mandate::everything();
    assert_eq!(begin(&wide, ChainPlace::Early, &envelope, false), Ok(()));
    // Another RED, another signer.
    let mut other = (*receipt).clone();
    other.red_verdict_digest = digest("x");
    assert_eq!(
        begin(&other, place, &envelope, true),
        Err(LatchRefused::OtherRed)
    );
    let record = SentinelRedOutboxV1::from_canonical(&envelope.body.0).unwrap();
    let forged = Envelope::seal(envelope.scope, &key(AGENT), &record);
    assert!(matches!(
        begin(&receipt, place, &forged, true),
        Err(LatchRefused::NotAuthentic(_))
    ));
}

/// Latched for a sentinel, begun by an actuator, and then the root replaces both: who comes next ends it
/// (M1-I35), though their RED line is not theirs and the attempt under way has another's pin.
#[test]
fn a_stop_under_way_is_ended_by_the_actuator_that_the_root_names() {
    let (mut world, _, latch, mut before) = latched();
    before.event(&last(&world), None);
    turn(&mut world, &mut before).unwrap();
    let old = world.governance().roster.sentinel.key;
    let root = world.state.authority.outbox.root;
    let act = journal::root_act(&world, |act| {
        act.roster.actuator.key = key(71).public_key();
        act.kernel.safety_actuator_identity_binary_policy_digest = act.roster.actuator.pin_digest();
        act.old_outbox_root_optional = root;
    });
    world.ok(journal::sealed_root_act(&world, &act, journal::ROOT));
    let red = world.events.iter().find_map(|event| match event {
        Event::RedLatched(_, _, _, envelope) => Some(envelope.clone()),
        _ => None,
    });
    let mut next = Actuator::begun(&world, 71, vec![old]);
    assert!(
        next.verifier.red(&red.unwrap()).is_err(),
        "its RED line is not theirs"
    );
    for event in world.events.clone() {
        next.event(&event, None);
    }
    assert_eq!(next.alarms, []);
    let stored = work(&next).stored.expect("the attempt of the one before");
    next.submitted.clear();
    next.timeout();
    turn(&mut world, &mut next).unwrap();
    let ours = work(&next).attempt;
    assert_eq!(
        ours.rebased_from_attempt_digest_optional,
        Some(stored.digest())
    );
    assert_eq!(ours.actuator_identity_key_binary_policy_digest, next.pin);
    finish(&mut world, &mut next);
    assert!(
        !world.state.authority.latches.contains_key(&latch),
        "nobody acknowledges it"
    );
    // Whoever was never a sentinel here is not believed in a latch either.
    let mut stranger = Actuator::begun(&world, 71, Vec::new());
    let latched = world.events.iter().find(|it| it.word() == "red_latched");
    let begun = stranger.attempts.handle_latch(
        &prove(world.scope(), latched.unwrap()),
        &stranger.verifier,
        None,
        0,
        &mut || digest("draw"),
        &mut Vec::new(),
    );
    assert!(matches!(begun, Err(LatchRefused::NotAuthentic(_))));
}

/// An act that replaces nobody raises the epochs all the same: the RED is of an epoch before.
#[test]
fn a_stop_under_way_is_ended_after_an_act_that_replaces_nobody() {
    let (mut world, _, latch, mut actuator) = latched();
    actuator.event(&last(&world), None);
    turn(&mut world, &mut actuator).unwrap();
    let act = journal::root_act(&world, |act| {
        act.roster.sentinel = world.governance().roster.sentinel;
        act.kernel.sentinel_identity_binary_policy_digest = act.roster.sentinel.pin_digest();
        act.old_outbox_root_optional = None;
    });
    world.ok(journal::sealed_root_act(&world, &act, journal::ROOT));
    // With its memory, and without.
    let governance = world.governance();
    actuator.epoch = governance.epoch.autonomy_epoch;
    actuator.verifier.scope = world.scope();
    actuator.restart();
    while actuator.attempts.works().next().is_some() {
        while actuator.submitted.is_empty() {
            actuator.timeout();
        }
        // The dead attempt is refused first.
        let _ = turn(&mut world, &mut actuator);
    }
    let state = world.state.authority.latches[&latch].state;
    assert!(format!("{state:?}").starts_with("Terminal"));
    let mut afresh = Actuator::begun(&world, ACTUATOR, Vec::new());
    let latched = world.events.iter().find(|it| it.word() == "red_latched");
    afresh.event(&latched.unwrap().clone(), None);
    assert_eq!(work(&afresh).latch.latch_epoch, latch);
}

/// An epoch may be read behind an act of the root that was counted before: what is in force says more than it does.
#[test]
fn an_attempt_follows_the_epoch_in_force_though_none_was_published() {
    let (mut world, _, _, mut actuator) = latched();
    actuator.event(&last(&world), None);
    let published = actuator.epoch;
    let mut out = Vec::new();
    let mut draw = || digest("draw");
    let attempts = &mut actuator.attempts;
    attempts.handle_in_force(published.next(), 0, &mut draw, &mut out);
    actuator.run_attempts(out);
    assert_eq!(
        work(&actuator).attempt.expected_autonomy_epoch,
        published.next()
    );
    // A lower one changes nothing any more.
    let mut out = Vec::new();
    let attempts = &mut actuator.attempts;
    attempts.handle_in_force(published, 0, &mut draw, &mut out);
    assert_eq!(
        work(&actuator).attempt.expected_autonomy_epoch,
        published.next()
    );
    world.tick(START + MINUTE);
}

#[test]
fn many_latches_are_worked_on_one_at_a_time_and_a_stuck_one_holds_nobody_up() {
    let mut world = World::new();
    let mut outbox = journal::Outbox::new();
    let mut actuator = Actuator::new(&world);
    for i in 0..12 {
        let red = outbox.red(&world, &subject(&format!("s{i}")));
        world.latch(red);
        actuator.event(&last(&world), None);
    }
    assert_eq!(actuator.submitted.len(), 1);
    let mut commands = 0;
    for _ in 0..1_000 {
        if actuator.attempts.works().count() == 0 {
            break;
        }
        if actuator.submitted.is_empty() {
            actuator.timeout();
        }
        for sent in std::mem::take(&mut actuator.submitted) {
            // Whatever is asked about the first latch gets lost.
            if sent.latch == LatchNumber(1) && actuator.attempts.works().count() > 1 {
                continue;
            }
            commands += 1;
            let outcome = world.apply(sent.command.clone().into());
            actuator.reply(&sent, &outcome.reply);
            outcome.events.iter().for_each(|e| actuator.event(e, None));
        }
    }
    assert_eq!(world.state.authority.pending_latches().count(), 0);
    // Four commands each, and few more for what the moving epoch killed.
    assert!(commands <= 12 * 5, "{commands}");
}

#[test]
fn a_capability_is_the_same_bytes_however_often_it_is_sent() {
    let (mut world, _, _, mut actuator) = latched();
    actuator.event(&last(&world), None);
    turn(&mut world, &mut actuator).unwrap();
    let first = only(&mut actuator).command;
    for _ in 0..5 {
        actuator.timeout();
        assert_eq!(only(&mut actuator).command, first);
    }
    actuator.restart();
    assert_eq!(only(&mut actuator).command, first);
    let SafetyCommand::Prepare(envelope) = &first else {
        panic!("{first:?}")
    };
    assert_eq!(envelope.key, key(ACTUATOR).public_key());
}
