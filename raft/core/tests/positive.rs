//! The positive path: freeze, authorize, prepare, commit, claim, report, and every way to be refused.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with its reason in sight"
)]

use super::world::*;
use redlatch_types::command::{Authorization, RawCommand};
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::*;
use redlatch_types::*;

fn digest_of_other() -> Digest {
    digest("other")
}

fn authorize(given: Authorization) -> RawCommand {
    RawCommand::Authorize(Box::new(given))
}

#[test]
fn a_landing_goes_through_in_its_own_entries() {
    let mut world = World::new();
    let (id, marker) = world.land(MAIN, 0, 7);
    assert_eq!(marker, MarkerNumber(1));
    let words: Vec<_> = world.events.iter().map(Event::word).collect();
    assert_eq!(
        words[3..],
        [
            "frozen",
            "authorized",
            "prepared",
            "committed",
            "effect_claimed",
            "effect_reported"
        ]
    );
    let governance = world.state.authority.governance.as_ref().unwrap();
    assert_eq!(governance.grants[&world.grant("agent")].committed, 1);
    assert!(world.state.authority.transactions.contains_key(&id));
    // The next landing starts from the reported head, at the next version.
    world.land(MAIN, 7, 8);
}

#[test]
pub(super) fn m1_i26_the_caller_follows_from_the_key() {
    let mut world = World::new();
    let proposal = world.proposal("agent", MAIN, 0, 7);
    let payload = proposal.to_canonical();
    let changes: &[fn(&mut CausalEnvelopeV1)] = &[
        |e| e.actor_id = id("other"),
        |e| e.issuer = id("other"),
        |e| e.actor_kind = ActorKind::Human,
    ];
    for change in changes {
        let mut record = world.envelope_record("agent", &payload);
        change(&mut record);
        let envelope = Envelope::seal(world.scope(), &key(AGENT), &record);
        assert_eq!(
            world.refused(RawCommand::FreezeIntent(envelope, Bytes(payload.clone()))),
            Refusal::Unauthorized
        );
    }
    // A key that nobody enrolled, and another subject's grant.
    let stranger = world.freeze_command(77, "agent", &proposal);
    assert_eq!(world.refused(stranger), Refusal::Unauthorized);
    let borrowed = world.freeze_command(OTHER_AGENT, "other", &proposal);
    assert_eq!(world.refused(borrowed), Refusal::Unauthorized);
}

#[test]
fn freeze_refuses_each_wrong_proposal_with_its_code() {
    type Case = (Refusal, fn(&mut ProposalV1));
    fn land(p: &mut ProposalV1) -> &mut LandPayload {
        let ActionPayload::Land(land) = &mut p.payload else {
            unreachable!()
        };
        land
    }
    let cases: &[Case] = &[
        (Refusal::Unauthorized, |p| {
            p.applicable_grant_id = Some(GrantId(digest("x")))
        }),
        (Refusal::Unauthorized, |p| {
            p.executor_subject_id_optional = None
        }),
        (Refusal::Unauthorized, |p| {
            p.executor_subject_id_optional = Some(id("nobody"))
        }),
        (Refusal::Unauthorized, |p| {
            p.executor_subject_id_optional = Some(id("other"))
        }),
        (Refusal::SelfAuthorization, |p| {
            p.executor_subject_id_optional = Some(id("agent"))
        }),
        (Refusal::SelfAuthorization, |p| {
            p.promotion_target_subject_id_optional = Some(id("agent"));
        }),
        (Refusal::Unauthorized, |p| {
            p.delegation_grant_digest_optional = Some(digest("x"));
        }),
        (Refusal::Unauthorized, |p| {
            land(p).resource.repository = id("elsewhere")
        }),
        (Refusal::Unauthorized, |p| {
            land(p).resource.reference = Text::new("refs/tags/v1").unwrap();
        }),
        (Refusal::StaleScope, |p| p.expected_boundary_version = 2),
        (Refusal::StaleScope, |p| p.expected_contract_version = 2),
        (Refusal::StaleHead, |p| p.expected_store_version = 1),
        (Refusal::Expired, |p| p.expires_at = START),
        (Refusal::TimeStale, |p| {
            p.expires_at = START + 31 * 24 * 60 * MINUTE
        }),
        (Refusal::TimeStale, |p| p.effect_deadline_ms = 0),
        (Refusal::TimeStale, |p| {
            p.effect_deadline_ms = 25 * 60 * MINUTE
        }),
        (Refusal::UnlandableCandidate, |p| {
            land(p).new = Bytes(vec![1; 19])
        }),
        (Refusal::UnlandableCandidate, |p| {
            land(p).new = Bytes(vec![0; 20])
        }),
        (Refusal::UnlandableCandidate, |p| {
            land(p).old = land(p).new.clone()
        }),
        (Refusal::UnlandableCandidate, |p| {
            land(p).old = Bytes(vec![1; 32])
        }),
        (Refusal::NotCanonical, |p| {
            p.evidence = vec![digest("b"), digest("b")]
        }),
    ];
    for (i, (expected, change)) in cases.iter().enumerate() {
        let mut world = World::new();
        let mut proposal = world.proposal("agent", MAIN, 0, 7);
        change(&mut proposal);
        let command = world.freeze_command(AGENT, "agent", &proposal);
        assert_eq!(world.refused(command), *expected, "case {i}");
    }
}

#[test]
pub(super) fn m1_i8_empty_lists_in_a_grant_cover_nothing() {
    let empties: &[fn(&mut AutonomyGrantV1)] = &[
        |g| g.action_classes.clear(),
        |g| g.risk_domains.clear(),
        |g| g.resource_environment_scope.clear(),
        |g| g.resource_environment_scope[0].ref_prefix = Text::default(),
        |g| g.max_tier = Tier::A2,
        |g| g.mode = Mode::FullAutonomy,
    ];
    for empty in empties {
        let mut record = redlatch_journal::development::genesis(parties());
        for grant in &mut record.grants {
            empty(grant);
        }
        record.activations[1].grants_digest = grants_digest(record.grants.iter());
        let mut world = World::before_genesis();
        world.ok(seal_genesis(&record));
        world.tick(START + 1_000);
        let proposal = world.proposal("agent", MAIN, 0, 7);
        let command = world.freeze_command(AGENT, "agent", &proposal);
        assert_eq!(world.refused(command), Refusal::Unauthorized);
    }
}

#[test]
pub(super) fn a_repeat_gets_the_first_outcome_and_another_payload_is_a_conflict() {
    let mut world = World::new();
    let proposal = world.proposal("agent", MAIN, 0, 7);
    let command = world.freeze_command(AGENT, "agent", &proposal);
    let first = world.ok(command.clone());
    let outcome = world.apply(command.clone());
    assert_eq!(outcome.reply, Ok(first));
    assert!(outcome.events.is_empty());
    let RawCommand::FreezeIntent(envelope, _) = &command else {
        panic!()
    };
    let mut record = CausalEnvelopeV1::from_canonical(&envelope.body.0).unwrap();
    let other = world.proposal("agent", MAIN, 0, 9).to_canonical();
    record.payload_digest = Digest::of(&other);
    let conflict = Envelope::seal(world.scope(), &key(AGENT), &record);
    assert_eq!(
        world.refused(RawCommand::FreezeIntent(conflict, Bytes(other))),
        Refusal::IdempotencyConflict
    );
    // After its expiry the command is refused, not executed again (FAULTS 20).
    world.tick(START + 30 * MINUTE);
    assert_eq!(world.refused(command), Refusal::Expired);
}

#[test]
fn a_command_must_not_expire_too_late_or_be_issued_ahead_of_time() {
    let mut world = World::new();
    let payload = world.proposal("agent", MAIN, 0, 7).to_canonical();
    let changes: &[fn(&mut CausalEnvelopeV1)] =
        &[|e| e.expires_at += 24 * 60 * MINUTE, |e| e.issued_at += 1];
    for change in changes {
        let mut record = world.envelope_record("agent", &payload);
        change(&mut record);
        let envelope = Envelope::seal(world.scope(), &key(AGENT), &record);
        assert_eq!(
            world.refused(RawCommand::FreezeIntent(envelope, Bytes(payload.clone()))),
            Refusal::TimeStale
        );
    }
}

#[test]
fn a_payload_that_the_envelope_does_not_name_is_refused() {
    let mut world = World::new();
    let proposal = world.proposal("agent", MAIN, 0, 7);
    let RawCommand::FreezeIntent(envelope, _) = world.freeze_command(AGENT, "agent", &proposal)
    else {
        panic!()
    };
    let other = world.proposal("agent", MAIN, 0, 9).to_canonical();
    assert_eq!(
        world.refused(RawCommand::FreezeIntent(envelope, Bytes(other))),
        Refusal::CandidateMismatch
    );
}

#[test]
fn fault_094_one_subject_cannot_fill_the_state_with_open_intents() {
    let mut world = World::new();
    for n in 0..limits::INTENTS_OPEN_PER_SUBJECT_MAX {
        let reference = format!("refs/heads/b{n}");
        world.freeze(&reference, 0, 7);
    }
    let proposal = world.proposal("agent", "refs/heads/over", 0, 7);
    let command = world.freeze_command(AGENT, "agent", &proposal);
    assert_eq!(world.refused(command), Refusal::LimitExceeded);
}

#[test]
fn audit_lines_of_refusals_are_bounded_and_only_for_the_enrolled() {
    let mut world = World::new();
    let mut proposal = world.proposal("agent", MAIN, 0, 7);
    proposal.expected_boundary_version = 9;
    let mut lines = 0;
    for _ in 0..2 * limits::AUDITS_PER_SUBJECT_AND_TICK_MAX {
        let command = world.freeze_command(AGENT, "agent", &proposal);
        lines += world.apply(command).events.len() as u64;
    }
    assert_eq!(lines, limits::AUDITS_PER_SUBJECT_AND_TICK_MAX);
    world.tick(START + 3_000);
    let command = world.freeze_command(AGENT, "agent", &proposal);
    assert_eq!(world.apply(command).events.len(), 1);
    let stranger = world.freeze_command(77, "agent", &proposal);
    assert!(world.apply(stranger).events.is_empty());
}

#[test]
pub(super) fn two_steps_of_one_intent_never_share_an_entry() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let given = world.authorization(digest, &approvals());
    let outcomes = world.apply_together(vec![authorize(given)]);
    let Ok(Accepted::Authorized(capability)) = outcomes[0].reply.clone() else {
        panic!()
    };
    let id = PositiveAuthorityTransactionV1::id_of(&capability);
    let outcomes = world.apply_together(vec![
        RawCommand::Prepare(digest, capability),
        RawCommand::Commit(id),
    ]);
    assert!(outcomes[0].reply.is_ok());
    assert_eq!(outcomes[1].reply, Err(Refusal::TooEarly));
    // Whoever guesses the marker's number claims no effect in the marker's own entry.
    let effect_key = super::world::digest("effect");
    let claim = EffectClaimV1 {
        transaction_id: id,
        marker: MarkerNumber(1),
        resource_id: world.intent(digest).payload.resource().id(),
        effect_key,
    };
    let claim = RawCommand::ClaimEffect(Envelope::seal(world.scope(), &key(GATE), &claim));
    let outcomes = world.apply_together(vec![RawCommand::Commit(id), claim.clone()]);
    assert!(outcomes[0].reply.is_ok());
    assert_eq!(outcomes[1].reply, Err(Refusal::TooEarly));
    assert!(outcomes[1].events.is_empty());
    world.ok(claim);
}

#[test]
fn fault_020_a_capability_is_spent_once() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let capability = world.authorize(digest);
    let prepare = RawCommand::Prepare(digest, capability);
    let first = world.ok(prepare.clone());
    let repeat = world.apply(prepare.clone());
    assert_eq!(repeat.reply, Ok(first));
    assert!(repeat.events.is_empty());
    assert_eq!(
        world.refused(RawCommand::Prepare(digest, CapabilityId(digest_of_other()))),
        Refusal::AlreadySpent
    );
    let id = PositiveAuthorityTransactionV1::id_of(&capability);
    let marker = world.ok(RawCommand::Commit(id));
    let again = world.apply(RawCommand::Commit(id));
    assert_eq!(again.reply, Ok(marker));
    assert!(again.events.is_empty());
    assert!(world.apply(prepare).events.is_empty());
    assert_eq!(
        world
            .events
            .iter()
            .filter(|e| matches!(e, Event::Committed(_)))
            .count(),
        1
    );
}

#[test]
fn a_capability_of_another_intent_is_refused() {
    let mut world = World::new();
    let one = world.freeze(MAIN, 0, 7);
    let two = world.freeze("refs/heads/side", 0, 8);
    let capability = world.authorize(one);
    world.authorize(two);
    assert_eq!(
        world.refused(RawCommand::Prepare(two, capability)),
        Refusal::Unauthorized
    );
}

#[test]
fn m1_i14_nothing_survives_its_expiry() {
    // The capability before PREPARE.
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let capability = world.authorize(digest);
    world.tick(world.now() + 5 * MINUTE);
    assert_eq!(
        world.refused(RawCommand::Prepare(digest, capability)),
        Refusal::Expired
    );
    // PREPARE before COMMIT.
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let id = world.prepare(digest);
    world.tick(world.now() + 2 * MINUTE);
    assert_eq!(world.refused(RawCommand::Commit(id)), Refusal::Expired);
    assert_eq!(
        world.refused(RawCommand::Abort(id, AbortReason::RedLatched)),
        Refusal::WrongState
    );
    world.ok(RawCommand::Abort(id, AbortReason::Expired));
    assert_eq!(
        world.refused(RawCommand::Commit(id)),
        Refusal::UnknownTransaction
    );
    // A verdict that ends before the PREPARE does.
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let mut green = world.green_record(digest);
    green.expires_at = green.issued_at + 1_000;
    let votes = (0..3)
        .map(|v| world.vote(digest, v, VoteVerdict::Approve))
        .collect();
    let given = world.authorization_of(digest, green, votes);
    let Accepted::Authorized(capability) = world.ok(authorize(given)) else {
        panic!()
    };
    let Accepted::Prepared(id) = world.ok(RawCommand::Prepare(digest, capability)) else {
        panic!()
    };
    world.tick(world.now() + 1_000);
    assert_eq!(world.refused(RawCommand::Commit(id)), Refusal::Expired);
}

#[test]
pub(super) fn an_abort_needs_a_reason_that_is_true() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let id = world.prepare(digest);
    for reason in [
        AbortReason::Expired,
        AbortReason::RedLatched,
        AbortReason::Frozen,
        AbortReason::EpochFenced,
        AbortReason::StaleHead,
        AbortReason::GrantEnded,
        AbortReason::Withdrawn,
    ] {
        assert_eq!(
            world.refused(RawCommand::Abort(id, reason)),
            Refusal::WrongState
        );
    }
    world.ok(RawCommand::Commit(id));
    // What is committed ends by its effect, not by the time that its preparation had.
    world.tick(world.now() + limits::PREPARE_TTL_MS);
    assert_eq!(
        world.refused(RawCommand::Abort(id, AbortReason::Expired)),
        Refusal::WrongState
    );
}

#[test]
fn the_proposer_takes_back_what_is_not_committed() {
    let mut world = World::new();
    let withdraw = |world: &mut World, n: u8, subject: &str, digest| {
        let payload = WithdrawalV1 {
            intent_digest: digest,
            reason: Text::default(),
        }
        .to_canonical();
        let record = world.envelope_record(subject, &payload);
        RawCommand::Withdraw(
            Envelope::seal(world.scope(), &key(n), &record),
            Bytes(payload),
        )
    };
    let digest = world.freeze(MAIN, 0, 7);
    let id = world.prepare(digest);
    let foreign = withdraw(&mut world, OTHER_AGENT, "other", digest);
    assert_eq!(world.refused(foreign), Refusal::Unauthorized);
    let own = withdraw(&mut world, AGENT, "agent", digest);
    world.ok(own);
    assert_eq!(
        world.refused(RawCommand::Commit(id)),
        Refusal::UnknownTransaction
    );
    let digest = world.freeze(MAIN, 0, 7);
    world.commit(digest);
    let late = withdraw(&mut world, AGENT, "agent", digest);
    assert_eq!(world.refused(late), Refusal::WrongState);
}

#[test]
pub(super) fn one_transaction_holds_a_resource_and_an_expired_one_holds_nothing() {
    let mut world = World::new();
    let one = world.freeze(MAIN, 0, 7);
    let two = world.freeze(MAIN, 0, 8);
    world.prepare(one);
    let capability = world.authorize(two);
    let prepare = RawCommand::Prepare(two, capability);
    assert_eq!(world.refused(prepare.clone()), Refusal::ResourceReserved);
    // No Abort was written, yet the reservation is gone with the PREPARE's time.
    world.tick(world.now() + 2 * MINUTE);
    world.ok(prepare);
}

#[test]
pub(super) fn a_moved_head_is_stale_at_every_step() {
    let mut world = World::new();
    let late = world.freeze(MAIN, 0, 8);
    let capability = world.authorize(late);
    world.land(MAIN, 0, 7);
    assert_eq!(
        world.refused(RawCommand::Prepare(late, capability)),
        Refusal::StaleHead
    );
    let mut proposal = world.proposal("agent", MAIN, 0, 9);
    let command = world.freeze_command(AGENT, "agent", &proposal);
    assert_eq!(world.refused(command), Refusal::StaleHead);
    proposal.expected_store_version = 0;
    let command = world.freeze_command(AGENT, "agent", &proposal);
    assert_eq!(world.refused(command), Refusal::StaleHead);
}

#[test]
fn a_claim_needs_the_executor_the_marker_and_its_time() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let id = world.prepare(digest);
    let early = world.claim(id, MarkerNumber(1));
    assert_eq!(world.refused(early), Refusal::WrongState);
    let Accepted::Committed(marker) = world.ok(RawCommand::Commit(id)) else {
        panic!()
    };
    let record = world.claim_record(id, marker);
    let by = |n: u8, record: &EffectClaimV1, world: &World| {
        RawCommand::ClaimEffect(Envelope::seal(world.scope(), &key(n), record))
    };
    assert_eq!(
        world.refused(by(AGENT, &record, &world)),
        Refusal::Unauthorized
    );
    let mut other = record.clone();
    other.marker = MarkerNumber(2);
    assert_eq!(
        world.refused(by(GATE, &other, &world)),
        Refusal::CandidateMismatch
    );
    let mut other = record.clone();
    other.resource_id = ResourceId(digest_of_other());
    assert_eq!(
        world.refused(by(GATE, &other, &world)),
        Refusal::CandidateMismatch
    );
    world.ok(by(GATE, &record, &world));
    assert!(world.apply(by(GATE, &record, &world)).events.is_empty());
    // FAULTS 78: another effect under the same marker is not a repeat.
    let mut other = record;
    other.effect_key = digest_of_other();
    assert_eq!(
        world.refused(by(GATE, &other, &world)),
        Refusal::AlreadySpent
    );
}

#[test]
pub(super) fn an_unclaimed_effect_lapses_and_a_claimed_one_keeps_the_resource() {
    let mut world = World::new();
    let one = world.freeze(MAIN, 0, 7);
    let (id, marker) = world.commit(one);
    let lapses = world.now() + 10 * MINUTE;
    world.tick(lapses - 1);
    let other = world.freeze(MAIN, 0, 6);
    let capability = world.authorize(other);
    let prepare = RawCommand::Prepare(other, capability);
    assert_eq!(world.refused(prepare), Refusal::ResourceReserved);
    world.tick(lapses);
    let late = world.claim(id, marker);
    assert_eq!(world.refused(late), Refusal::EffectLapsed);
    let two = world.freeze(MAIN, 0, 8);
    let (second, marker) = world.commit(two);
    let claim = world.claim(second, marker);
    world.ok(claim);
    world.tick(world.now() + 20 * MINUTE);
    let three = world.freeze(MAIN, 0, 9);
    let capability = world.authorize(three);
    let prepare = RawCommand::Prepare(three, capability);
    assert_eq!(world.refused(prepare.clone()), Refusal::ResourceReserved);
    let unknown = world.outcome(second, marker, OutcomeKind::OutcomeUnknown, 0);
    world.ok(unknown);
    assert_eq!(world.refused(prepare.clone()), Refusal::ResourceReserved);
    let failed = world.outcome(second, marker, OutcomeKind::Failed, 5);
    world.ok(failed);
    assert_eq!(world.refused(prepare), Refusal::StaleHead);
}

#[test]
fn an_outcome_is_compare_and_set_on_its_claim() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let (id, marker) = world.commit(digest);
    let done = world.outcome(id, marker, OutcomeKind::Done, 7);
    assert_eq!(world.refused(done.clone()), Refusal::WrongState);
    let claim = world.claim(id, marker);
    world.ok(claim);
    world.ok(done.clone());
    assert!(world.apply(done).events.is_empty());
    let failed = world.outcome(id, marker, OutcomeKind::Failed, 7);
    assert_eq!(world.refused(failed), Refusal::WrongState);
}

#[test]
fn an_outcome_of_another_claim_or_organism_epoch_is_refused() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let (id, marker) = world.commit(digest);
    let mut scope = world.scope();
    scope.organism_epoch = 2;
    let record = world.claim_record(id, marker);
    let foreign = RawCommand::ClaimEffect(Envelope::seal(scope, &key(GATE), &record));
    assert_eq!(world.refused(foreign), Refusal::WrongOrganism);
    let claim = world.claim(id, marker);
    world.ok(claim);
    let RawCommand::ReportOutcome(done) = world.outcome(id, marker, OutcomeKind::Done, 7) else {
        panic!()
    };
    let mut record = EffectOutcomeV1::from_canonical(&done.body.0).unwrap();
    record.claim_digest = digest_of_other();
    let other = RawCommand::ReportOutcome(Envelope::seal(world.scope(), &key(GATE), &record));
    assert_eq!(world.refused(other), Refusal::WrongState);
    world.ok(RawCommand::ReportOutcome(done));
}

#[test]
fn commit_looks_at_head_and_reservation_again() {
    let mut world = World::new();
    let one = world.freeze(MAIN, 0, 7);
    let id = world.prepare(one);
    let two = world.freeze("refs/heads/side", 0, 8);
    let other = world.prepare(two);
    let resource = world.intent(one).payload.resource().id();
    let held = world.state.authority.resources.get_mut(&resource).unwrap();
    held.reserved_by = Some(other);
    assert_eq!(
        world.refused(RawCommand::Commit(id)),
        Refusal::ResourceReserved
    );
    let held = world.state.authority.resources.get_mut(&resource).unwrap();
    held.reserved_by = Some(id);
    held.head = Some(Bytes(vec![5; 20]));
    assert_eq!(world.refused(RawCommand::Commit(id)), Refusal::StaleHead);
}

#[test]
pub(super) fn a_budget_counts_commits_and_live_preparations() {
    let mut record = redlatch_journal::development::genesis(parties());
    for grant in &mut record.grants {
        grant.budget = 1;
    }
    record.activations[1].grants_digest = grants_digest(record.grants.iter());
    let mut world = World::before_genesis();
    world.ok(seal_genesis(&record));
    world.tick(START + 1_000);
    let confirmations = world.key_confirmations(|_, _| {});
    world.ok(RawCommand::ActivateQuorumKey(confirmations));
    let one = world.freeze(MAIN, 0, 7);
    let two = world.freeze("refs/heads/side", 0, 8);
    let id = world.prepare(one);
    let capability = world.authorize(two);
    let prepare = RawCommand::Prepare(two, capability);
    assert_eq!(world.refused(prepare.clone()), Refusal::BudgetExceeded);
    world.ok(RawCommand::Commit(id));
    assert_eq!(world.refused(prepare), Refusal::BudgetExceeded);
    let three = world.freeze("refs/heads/third", 0, 9);
    let given = world.authorization(three, &approvals());
    assert_eq!(world.refused(authorize(given)), Refusal::BudgetExceeded);
}

#[test]
fn a_grant_that_ended_stops_what_rests_on_it() {
    let mut record = redlatch_journal::development::genesis(parties());
    for grant in &mut record.grants {
        grant.expires_at = START + 3 * MINUTE;
    }
    record.activations[1].grants_digest = grants_digest(record.grants.iter());
    let mut world = World::before_genesis();
    world.ok(seal_genesis(&record));
    world.tick(START + 2 * MINUTE);
    let confirmations = world.key_confirmations(|_, _| {});
    world.ok(RawCommand::ActivateQuorumKey(confirmations));
    let digest = world.freeze(MAIN, 0, 7);
    let id = world.prepare(digest);
    world.tick(START + 3 * MINUTE);
    assert_eq!(world.refused(RawCommand::Commit(id)), Refusal::Expired);
}

#[test]
fn another_organism_or_epoch_is_refused() {
    let mut world = World::new();
    let proposal = world.proposal("agent", MAIN, 0, 7);
    let payload = proposal.to_canonical();
    let record = world.envelope_record("agent", &payload);
    let mut scopes = [world.scope(), world.scope()];
    scopes[0].organism_id = OrganismId(digest_of_other());
    scopes[1].organism_epoch = 2;
    for scope in scopes {
        let envelope = Envelope::seal(scope, &key(AGENT), &record);
        assert_eq!(
            world.refused(RawCommand::FreezeIntent(envelope, Bytes(payload.clone()))),
            Refusal::WrongOrganism
        );
    }
}

#[test]
fn fault_018_garbage_is_refused_and_never_panics() {
    let mut world = World::new();
    let big = vec![0; limits::COMMAND_BYTES_MAX + 1];
    let outcomes = world.apply_bytes(vec![Vec::new(), vec![0xff; 40], vec![0x82, 0x07], big]);
    let refusals: Vec<_> = outcomes.into_iter().map(|o| o.reply.unwrap_err()).collect();
    assert_eq!(
        refusals,
        [
            Refusal::NotCanonical,
            Refusal::NotCanonical,
            Refusal::NotCanonical,
            Refusal::LimitExceeded
        ]
    );
}
