//! RED: it always latches, nothing positive passes it, and the stop comes to its end.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with its reason in sight"
)]

use super::world::*;
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event, GroundCause};
use redlatch_types::mandate::{Mandate, NegativeVerb};
use redlatch_types::records::*;
use redlatch_types::*;

fn mandate_of(world: &World, latch: LatchNumber) -> Mandate {
    world.state.authority.latches[&latch]
        .receipt
        .mandate
        .clone()
}

/// M1-I34 and FAULTS 22: whichever comes first in the journal wins, at every step.
#[test]
pub(super) fn fault_022_a_latch_stops_every_positive_step_that_comes_after_it() {
    for scope in scopes() {
        // After the freeze.
        let mut world = World::new();
        let digest = world.freeze(MAIN, 0, 7);
        let red = Outbox::new().red(&world, &scope(digest));
        world.latch(red);
        let given = world.authorization(digest, &approvals());
        let command = RawCommand::Authorize(Box::new(given));
        assert_eq!(world.refused(command), Refusal::RedLatched);
        // After the decision.
        let mut world = World::new();
        let digest = world.freeze(MAIN, 0, 7);
        let capability = world.authorize(digest);
        let red = Outbox::new().red(&world, &scope(digest));
        world.latch(red);
        assert_eq!(
            world.refused(RawCommand::Prepare(digest, capability)),
            Refusal::RedLatched
        );
        // After PREPARE.
        let mut world = World::new();
        let digest = world.freeze(MAIN, 0, 7);
        let id = world.prepare(digest);
        let red = Outbox::new().red(&world, &scope(digest));
        world.latch(red);
        assert_eq!(world.refused(RawCommand::Commit(id)), Refusal::RedLatched);
        world.ok(RawCommand::Abort(id, AbortReason::RedLatched));
        // After COMMIT: the marker stays, the effect does not come.
        let mut world = World::new();
        let digest = world.freeze(MAIN, 0, 7);
        let (id, marker) = world.commit(digest);
        let red = Outbox::new().red(&world, &scope(digest));
        world.latch(red);
        let claim = world.claim(id, marker);
        let outcome = world.apply(claim.clone());
        assert_eq!(outcome.reply, Err(Refusal::RedLatched));
        assert_eq!(outcome.events, [Event::EffectWithheld(id, marker)]);
        assert_eq!(world.refused(claim), Refusal::RedLatched);
    }
}

/// Every scope that covers the intent of these tests.
fn scopes() -> Vec<fn(IntentDigest) -> RedScope> {
    vec![
        RedScope::Intent,
        |_| RedScope::Subject(id("agent")),
        |_| RedScope::Subject(id("gate")),
        |_| RedScope::ActionClass(ActionClass::Land),
        |_| RedScope::Everything,
    ]
}

#[test]
fn m1_i34_both_orders_in_one_entry() {
    for red_first in [true, false] {
        let mut world = World::new();
        let digest = world.freeze(MAIN, 0, 7);
        let id = world.prepare(digest);
        let red = Outbox::new().red(&world, &RedScope::Intent(digest));
        let commit = RawCommand::Commit(id);
        let outcomes = if red_first {
            let outcomes = world.apply_together(vec![red, commit]);
            [outcomes[0].clone(), outcomes[1].clone()]
        } else {
            let outcomes = world.apply_together(vec![commit, red]);
            [outcomes[1].clone(), outcomes[0].clone()]
        };
        assert!(outcomes[0].reply.is_ok());
        let expected = if red_first {
            Err(Refusal::RedLatched)
        } else {
            Ok(Accepted::Committed(MarkerNumber(1)))
        };
        assert_eq!(outcomes[1].reply, expected);
    }
}

#[test]
fn a_latch_outside_the_scope_stops_nothing() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let id = world.prepare(digest);
    let mut outbox = Outbox::new();
    for scope in [
        RedScope::Subject(id_of("other")),
        RedScope::ActionClass(ActionClass::ReleasePromote),
        RedScope::Mission(super::world::id("mission")),
    ] {
        let red = outbox.red(&world, &scope);
        world.latch(red);
    }
    world.ok(RawCommand::Commit(id));
}

fn id_of(text: &str) -> SubjectId {
    super::world::id(text)
}

#[test]
fn the_stop_comes_to_its_end_and_the_freeze_goes_on() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let mut outbox = Outbox::new();
    let red = outbox.red(&world, &RedScope::Intent(digest));
    let latch = world.latch(red);
    let id = world.stop(latch);
    let words: Vec<_> = world.events.iter().rev().take(6).map(Event::word).collect();
    assert_eq!(
        words,
        [
            "safety_terminal",
            "epoch_published",
            "safety_committed",
            "latch_committing",
            "safety_prepared",
            "safety_intent_stored"
        ]
    );
    let epoch = &world.state.authority.governance.as_ref().unwrap().epoch;
    assert_eq!(epoch.autonomy_epoch, AutonomyEpoch(3));
    let ack = world.ack(latch, 1);
    world.ok(ack.clone());
    assert!(world.apply(ack).events.is_empty());
    assert!(world.state.authority.latches.is_empty());
    // A new intent of the same subject is frozen still; it can be frozen as bytes.
    let again = world.freeze("refs/heads/side", 0, 8);
    let given = world.authorization(again, &approvals());
    assert_eq!(
        world.refused(RawCommand::Authorize(Box::new(given))),
        Refusal::Frozen
    );
    assert_eq!(
        world.refused(RawCommand::ClaimSafety(id)),
        Refusal::UnknownTransaction
    );
}

#[test]
pub(super) fn m1_i14_an_epoch_bump_fences_what_was_issued_before() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let id = world.prepare(digest);
    // A stop of somebody else bumps the epoch for all.
    let red = Outbox::new().red(&world, &RedScope::Subject(id_of("other")));
    let latch = world.latch(red);
    world.stop(latch);
    assert_eq!(world.refused(RawCommand::Commit(id)), Refusal::EpochFenced);
    world.ok(RawCommand::Abort(id, AbortReason::EpochFenced));
    let fresh = world.freeze(MAIN, 0, 7);
    world.commit(fresh);
}

#[test]
fn an_intent_scoped_red_freezes_its_proposer_too() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let red = Outbox::new().red(&world, &RedScope::Intent(digest));
    let latch = world.latch(red);
    assert_eq!(
        mandate_of(&world, latch).scopes,
        [RedScope::Intent(digest), RedScope::Subject(id_of("agent"))]
    );
}

#[test]
fn unknown_unbound_or_unreadable_widens_to_everything_freeze_only() {
    let known = |world: &mut World| world.freeze(MAIN, 0, 7);
    type Case = fn(&mut World, IntentDigest) -> (Option<IntentDigest>, Vec<u8>);
    let cases: &[Case] = &[
        // An intent that the journal does not have.
        |_, _| {
            let unknown = IntentDigest(digest("unknown"));
            let scope = RedScope::Intent(unknown);
            (
                Some(unknown),
                Outbox::verdict(&scope, &[], None).to_canonical(),
            )
        },
        // A scope that names an intent while the entry names none.
        |_, d| {
            let scope = RedScope::Intent(d);
            (None, Outbox::verdict(&scope, &[], None).to_canonical())
        },
        // An unknown scope kind.
        |_, d| {
            let mut verdict = Outbox::verdict(&RedScope::Intent(d), &[], None);
            verdict.scope_kind = 9;
            (Some(d), verdict.to_canonical())
        },
        // A scope value that does not decode.
        |_, d| {
            let mut verdict = Outbox::verdict(&RedScope::Intent(d), &[], None);
            verdict.scope_value = Bytes(vec![1, 2, 3]);
            (Some(d), verdict.to_canonical())
        },
        // A positive or unknown verb.
        |_, d| {
            let verdict = Outbox::verdict(&RedScope::Intent(d), &[7], None);
            (Some(d), verdict.to_canonical())
        },
        |_, d| {
            let verdict = Outbox::verdict(&RedScope::Intent(d), &[0], None);
            (Some(d), verdict.to_canonical())
        },
        // A rollback plan that is not the bound one, or none although rollback is asked for.
        |_, d| {
            let plan = Some(digest("other plan"));
            let verdict = Outbox::verdict(&RedScope::Intent(d), &[6], plan);
            (Some(d), verdict.to_canonical())
        },
        |_, d| {
            let verdict = Outbox::verdict(&RedScope::Intent(d), &[6], None);
            (Some(d), verdict.to_canonical())
        },
        // Bytes that are no verdict.
        |_, d| (Some(d), vec![0xff; 9]),
    ];
    for (i, case) in cases.iter().enumerate() {
        let mut world = World::new();
        let intent = known(&mut world);
        let (source, verdict) = case(&mut world, intent);
        let envelope = Outbox::new().push(world.scope(), source, verdict);
        let latch = world.latch(RawCommand::LatchRed(vec![envelope]));
        assert_eq!(mandate_of(&world, latch), Mandate::everything(), "case {i}");
    }
}

#[test]
fn a_bound_rollback_is_part_of_the_mandate_and_orders_compensation() {
    let mut world = World::new();
    // What somebody else has done is there as well, and stays.
    let proposal = world.proposal("other", "refs/heads/other", 0, 6);
    let command = world.freeze_command(OTHER_AGENT, "other", &proposal);
    let Accepted::Frozen(others) = world.ok(command) else {
        panic!("frozen");
    };
    let (theirs, marker) = world.commit(others);
    let claim = world.claim(theirs, marker);
    world.ok(claim);
    let digest = world.freeze(MAIN, 0, 7);
    let (id, marker) = world.commit(digest);
    let claim = world.claim(id, marker);
    world.ok(claim);
    let done = world.outcome(id, marker, OutcomeKind::Done, 7);
    world.ok(done);
    let intent = world.intent(digest);
    let plan = intent.rollback.digest(&intent.payload);
    let verdict = Outbox::verdict(&RedScope::Intent(digest), &[6], Some(plan)).to_canonical();
    let envelope = Outbox::new().push(world.scope(), Some(digest), verdict);
    let latch = world.latch(RawCommand::LatchRed(vec![envelope]));
    assert!(
        mandate_of(&world, latch)
            .verbs
            .contains(&NegativeVerb::Rollback)
    );
    world.stop(latch);
    let marker = world.events.iter().rev().find_map(|e| match e {
        Event::SafetyCommitted(marker) => Some(marker),
        _ => None,
    });
    assert_eq!(marker.unwrap().compensates, [id]);
}

#[test]
fn revoke_demote_and_abort_do_what_the_mandate_says() {
    let verdict = |verbs: &[u64]| {
        Outbox::verdict(&RedScope::Subject(id_of("agent")), verbs, None).to_canonical()
    };
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let id = world.prepare(digest);
    let grant = world.grant("agent");
    let envelope = Outbox::new().push(world.scope(), None, verdict(&[3, 4]));
    let latch = world.latch(RawCommand::LatchRed(vec![envelope]));
    world.stop(latch);
    let governance = world.state.authority.governance.as_ref().unwrap();
    assert!(!governance.grants.contains_key(&grant));
    assert_eq!(governance.epoch.grants_digest, governance.grants_digest());
    assert!(!world.state.authority.transactions.contains_key(&id));

    let mut world = World::new();
    let envelope = Outbox::new().push(world.scope(), None, verdict(&[5]));
    let latch = world.latch(RawCommand::LatchRed(vec![envelope]));
    world.stop(latch);
    let governance = world.state.authority.governance.as_ref().unwrap();
    let lowered = &governance.grants[&world.grant("agent")].grant;
    assert_eq!(lowered.max_tier, Tier::A2);
    assert_eq!(governance.epoch.grants_digest, governance.grants_digest());
}

#[test]
fn red_by_a_wrong_key_or_for_another_organism_is_refused() {
    let mut world = World::new();
    let verdict = Outbox::verdict(&RedScope::Everything, &[], None).to_canonical();
    let envelope = Outbox::new().push(world.scope(), None, verdict.clone());
    let record = SentinelRedOutboxV1::from_canonical(&envelope.body.0).unwrap();
    for n in [AGENT, ACTUATOR, GROUP] {
        let forged = Envelope::seal(world.scope(), &key(n), &record);
        assert_eq!(
            world.refused(RawCommand::LatchRed(vec![forged])),
            Refusal::Unauthorized
        );
    }
    let mut scope = world.scope();
    scope.organism_id = OrganismId(digest("other"));
    let foreign = Outbox::new().push(scope, None, verdict.clone());
    assert_eq!(
        world.refused(RawCommand::LatchRed(vec![foreign])),
        Refusal::WrongOrganism
    );
    let mut broken = envelope;
    broken.signature.0[0] ^= 1;
    assert_eq!(
        world.refused(RawCommand::LatchRed(vec![broken])),
        Refusal::BadSignature
    );
    assert_eq!(
        world.refused(RawCommand::LatchRed(Vec::new())),
        Refusal::LimitExceeded
    );
}

#[test]
fn a_red_of_an_earlier_organism_epoch_latches_everything() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let mut scope = world.scope();
    scope.organism_epoch = 0;
    let verdict = Outbox::verdict(&RedScope::Intent(digest), &[], None).to_canonical();
    let old = Outbox::new().push(scope, Some(digest), verdict);
    let latch = world.latch(RawCommand::LatchRed(vec![old]));
    assert_eq!(mandate_of(&world, latch), Mandate::everything());
}

#[test]
pub(super) fn an_unreadable_but_authentic_red_stops_everything_once() {
    let mut world = World::new();
    let scope = world.scope();
    let body = vec![0xa1, 0x01, 0x02];
    let signature = key(SENTINEL).sign(&sign::preimage(
        SentinelRedOutboxV1::TYPE,
        &scope,
        &Digest::of(&body),
    ));
    let envelope = Envelope {
        scope,
        key: key(SENTINEL).public_key(),
        body: Bytes(body),
        signature,
    };
    let latch = world.latch(RawCommand::LatchRed(vec![envelope.clone()]));
    assert_eq!(mandate_of(&world, latch), Mandate::everything());
    let again = world.apply(RawCommand::LatchRed(vec![envelope]));
    assert!(again.reply.is_ok() && again.events.is_empty());
}

#[test]
fn a_red_whose_root_does_not_follow_from_it_stops_everything() {
    let mut world = World::new();
    let verdict = Outbox::verdict(&RedScope::Subject(id_of("agent")), &[], None).to_canonical();
    let honest = Outbox::new().push(world.scope(), None, verdict);
    let mut record = SentinelRedOutboxV1::from_canonical(&honest.body.0).unwrap();
    record.signed_outbox_root_digest = digest("not the root");
    let wrong = Envelope::seal(world.scope(), &key(SENTINEL), &record);
    let latch = world.latch(RawCommand::LatchRed(vec![wrong]));
    assert_eq!(mandate_of(&world, latch), Mandate::everything());
    assert_eq!(world.state.authority.outbox.number, OutboxEpoch(0));
}

#[test]
pub(super) fn a_segment_latches_in_order_in_one_entry_and_repeats_are_known() {
    let mut world = World::new();
    let mut outbox = Outbox::new();
    for subject in ["agent", "other", "gate"] {
        outbox.red(&world, &RedScope::Subject(id_of(subject)));
    }
    let all = outbox.entries.clone();
    let first = world.ok(RawCommand::LatchRed(all[..2].to_vec()));
    assert_eq!(
        first,
        Accepted::Latched(vec![LatchNumber(1), LatchNumber(2)])
    );
    let second = world.ok(RawCommand::LatchRed(all.clone()));
    assert_eq!(
        second,
        Accepted::Latched(vec![LatchNumber(1), LatchNumber(2), LatchNumber(3)])
    );
    let third = world.apply(RawCommand::LatchRed(all));
    assert!(third.events.is_empty());
    assert_eq!(world.state.authority.outbox.number, OutboxEpoch(3));
}

#[test]
pub(super) fn m1_i32_a_gap_latches_everything_and_its_predecessor_latches_in_turn() {
    let mut world = World::new();
    let mut outbox = Outbox::new();
    for subject in ["agent", "other"] {
        outbox.red(&world, &RedScope::Subject(id_of(subject)));
    }
    let [first, second] = [outbox.entries[0].clone(), outbox.entries[1].clone()];
    let early = world.latch(RawCommand::LatchRed(vec![second.clone()]));
    assert_eq!(mandate_of(&world, early), Mandate::everything());
    assert_eq!(world.state.authority.outbox.number, OutboxEpoch(0));
    let gap = world.state.authority.grounds.values().next().unwrap();
    assert_eq!(gap.cause, GroundCause::ChainGap(OutboxEpoch(2)));
    assert!(
        world
            .apply(RawCommand::LatchRed(vec![second.clone()]))
            .events
            .is_empty()
    );
    let late = world.latch(RawCommand::LatchRed(vec![first.clone()]));
    assert_eq!(
        mandate_of(&world, late).scopes,
        [RedScope::Subject(id_of("agent"))]
    );
    assert_eq!(world.state.authority.outbox.number, OutboxEpoch(1));
    let chained = world.apply(RawCommand::LatchRed(vec![first, second]));
    assert_eq!(chained.events.len(), 1);
    assert_eq!(world.state.authority.outbox.number, OutboxEpoch(2));
    assert!(world.state.authority.outbox.early.is_empty());
}

#[test]
fn fault_055_two_reds_that_cannot_be_in_one_chain_freeze_everything() {
    let mut world = World::new();
    let mut outbox = Outbox::new();
    let red = outbox.red(&world, &RedScope::Subject(id_of("agent")));
    world.latch(red);
    let fork = Outbox::new().red(&world, &RedScope::Subject(id_of("other")));
    let latch = world.latch(fork.clone());
    assert_eq!(mandate_of(&world, latch), Mandate::everything());
    let causes: Vec<_> = world
        .state
        .authority
        .grounds
        .values()
        .map(|g| g.cause.clone())
        .collect();
    assert!(causes.contains(&GroundCause::ChainBreak(OutboxEpoch(1))));
    assert!(world.apply(fork).events.is_empty());
    // The honest chain goes on.
    let next = outbox.red(&world, &RedScope::Subject(id_of("gate")));
    let latch = world.latch(next);
    assert_eq!(
        mandate_of(&world, latch).scopes,
        [RedScope::Subject(id_of("gate"))]
    );
    // A next entry on another root is a fork too.
    let mut other = Outbox::new();
    other.number = 2;
    other.root = digest("elsewhere");
    let fork = other.red(&world, &RedScope::Subject(id_of("gate")));
    let latch = world.latch(fork);
    assert_eq!(mandate_of(&world, latch), Mandate::everything());
}

#[test]
pub(super) fn m1_i31_only_the_four_rebased_fields_may_differ() {
    type Change = fn(&mut SafetyActionIntentV1);
    let changes: &[Change] = &[
        |a| a.safety_intent_canonicalization_version = 2,
        |a| a.attempt_sequence = 2,
        |a| a.rebased_from_attempt_digest_optional = Some(digest("x")),
        |a| a.source_intent_core_ref_optional = None,
        |a| a.sentinel_red_verdict_digest = digest("x"),
        |a| a.red_latch_receipt_digest = digest("x"),
        |a| a.actuator_identity_key_binary_policy_digest = digest("x"),
        |a| a.expected_constitution_epoch = ConstitutionEpoch(9),
        |a| a.expected_autonomy_epoch = AutonomyEpoch(9),
        |a| a.affected_grants_scope_digest = digest("x"),
        |a| a.allowed_negative_actions_digest = digest("x"),
        |a| a.rollback_candidate_plan_digest_optional = Some(digest("x")),
        |a| a.immutable_negative_mandate_digest = digest("x"),
        |a| a.valid_while_latch_pending = false,
    ];
    let mut world = World::new();
    let intent = world.freeze(MAIN, 0, 7);
    let red = Outbox::new().red(&world, &RedScope::Intent(intent));
    let latch = world.latch(red);
    for (i, change) in changes.iter().enumerate() {
        let mut attempt = world.attempt(latch);
        change(&mut attempt);
        assert_eq!(
            world.refused(RawCommand::StoreSafetyIntent(Box::new(attempt))),
            Refusal::MandateMismatch,
            "change {i}"
        );
    }
    world.store_attempt(latch);
}

#[test]
pub(super) fn m1_l2_only_the_pinned_actuator_starts_a_safety_transaction() {
    let mut world = World::new();
    let red = Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    let attempt = world.store_attempt(latch);
    for n in [SENTINEL, AGENT, GROUP, 20] {
        let command = world.capability_command(&attempt, n);
        assert_eq!(world.refused(command), Refusal::Unauthorized);
    }
    // Not stored: not prepared.
    let unstored = world.attempt(latch);
    let command = world.capability_command(&unstored, ACTUATOR);
    assert_eq!(world.refused(command), Refusal::MandateMismatch);
    let command = world.capability_command(&attempt, ACTUATOR);
    world.ok(command);
}

#[test]
pub(super) fn m1_i35_a_dead_attempt_is_followed_by_another_while_positives_stay_fenced() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let positive = world.prepare(digest);
    let red = Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    let first = world.store_attempt(latch);
    // While it lives there is no second one.
    let second = world.attempt(latch);
    assert_eq!(
        world.refused(RawCommand::StoreSafetyIntent(Box::new(second))),
        Refusal::WrongState
    );
    world.tick(world.now() + 2 * MINUTE);
    let late = world.capability_command(&first, ACTUATOR);
    assert_eq!(world.refused(late), Refusal::Expired);
    let second = world.attempt(latch);
    let mut reused = second.clone();
    reused.nonce = first.nonce;
    assert_eq!(
        world.refused(RawCommand::StoreSafetyIntent(Box::new(reused))),
        Refusal::MandateMismatch
    );
    world.ok(RawCommand::StoreSafetyIntent(Box::new(second.clone())));
    let old = world.capability_command(&first, ACTUATOR);
    assert_eq!(world.refused(old), Refusal::MandateMismatch);
    let command = world.capability_command(&second, ACTUATOR);
    let Accepted::SafetyPrepared(id) = world.ok(command) else {
        panic!()
    };
    assert_eq!(
        world.refused(RawCommand::Commit(positive)),
        Refusal::RedLatched
    );
    world.ok(RawCommand::ClaimSafety(id));
    world.ok(RawCommand::FinishSafety(id));
}

#[test]
pub(super) fn m1_i36_one_marker_per_latch_and_no_effect_before_it() {
    let mut world = World::new();
    let red = Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    let id = world.prepare_safety(latch);
    let epoch = |w: &World| {
        w.state
            .authority
            .governance
            .as_ref()
            .unwrap()
            .epoch
            .autonomy_epoch
    };
    assert_eq!(epoch(&world), AutonomyEpoch(2));
    assert_eq!(
        world.refused(RawCommand::FinishSafety(id)),
        Refusal::WrongState
    );
    world.ok(RawCommand::ClaimSafety(id));
    assert_eq!(epoch(&world), AutonomyEpoch(3));
    assert_eq!(
        world.refused(RawCommand::ClaimSafety(id)),
        Refusal::WrongState
    );
    let loser = world.attempt(latch);
    assert_eq!(
        world.refused(RawCommand::StoreSafetyIntent(Box::new(loser))),
        Refusal::StaleLatchClaim
    );
    world.ok(RawCommand::FinishSafety(id));
    let again = world.apply(RawCommand::FinishSafety(id));
    assert!(again.reply.is_ok() && again.events.is_empty());
    let markers = world
        .events
        .iter()
        .filter(|e| matches!(e, Event::SafetyCommitted(_)));
    assert_eq!(markers.count(), 1);
}

#[test]
pub(super) fn m1_l10_claim_marker_and_epoch_are_one_entry() {
    let mut world = World::new();
    let red = Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    let id = world.prepare_safety(latch);
    let outcome = world.apply(RawCommand::ClaimSafety(id));
    let words: Vec<_> = outcome.events.iter().map(Event::word).collect();
    assert_eq!(
        words[..3],
        ["latch_committing", "safety_committed", "epoch_published"]
    );
}

#[test]
fn two_latches_are_stopped_one_after_the_other() {
    let mut world = World::new();
    let mut outbox = Outbox::new();
    let one = outbox.red(&world, &RedScope::Subject(id_of("agent")));
    let one = world.latch(one);
    let two = outbox.red(&world, &RedScope::Subject(id_of("other")));
    let two = world.latch(two);
    let first = world.prepare_safety(one);
    let second = world.prepare_safety(two);
    world.ok(RawCommand::ClaimSafety(first));
    // The epoch moved under the second attempt: it dies, a rebased one follows.
    assert_eq!(
        world.refused(RawCommand::ClaimSafety(second)),
        Refusal::Expired
    );
    world.ok(RawCommand::FinishSafety(first));
    let second = world.prepare_safety(two);
    world.ok(RawCommand::ClaimSafety(second));
    world.ok(RawCommand::FinishSafety(second));
    let epoch = &world.state.authority.governance.as_ref().unwrap().epoch;
    assert_eq!(epoch.autonomy_epoch, AutonomyEpoch(4));
}

#[test]
fn an_outbox_entry_is_closed_only_by_the_sentinel_and_only_when_terminal() {
    let mut world = World::new();
    let red = Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    let early = world.ack(latch, 1);
    assert_eq!(world.refused(early), Refusal::WrongState);
    world.stop(latch);
    let record = OutboxAckV1 {
        latch,
        outbox_epoch: OutboxEpoch(1),
        sentinel_key: key(SENTINEL).public_key(),
    };
    let forged = Envelope::seal(world.scope(), &key(ACTUATOR), &record);
    assert_eq!(
        world.refused(RawCommand::AcknowledgeOutbox(forged)),
        Refusal::Unauthorized
    );
    let wrong = world.ack(latch, 2);
    assert_eq!(world.refused(wrong), Refusal::WrongState);
    let unknown = world.ack(LatchNumber(9), 1);
    assert_eq!(world.refused(unknown), Refusal::WrongState);
    let record = OutboxAckV1 {
        latch,
        outbox_epoch: OutboxEpoch(1),
        sentinel_key: key(ACTUATOR).public_key(),
    };
    let of_another = Envelope::seal(world.scope(), &key(SENTINEL), &record);
    let of_another = RawCommand::AcknowledgeOutbox(of_another);
    assert_eq!(world.refused(of_another), Refusal::WrongState);
    let right = world.ack(latch, 1);
    world.ok(right.clone());
    let again = world.apply(right);
    let accepted = Accepted::OutboxAcknowledged(latch);
    assert_eq!((again.reply, again.events), (Ok(accepted), vec![]));
}
