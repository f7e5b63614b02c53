//! Invariants and laws about the record itself: who owns what, and what outlives what.

use redlatch_journal::State;
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

#[test]
pub(super) fn m1_i1_an_effect_is_done_only_under_the_marker_of_its_transaction() {
    let mut world = World::new();
    let one = world.freeze(MAIN, 0, 7);
    let (id, marker) = world.commit(one);
    let two = world.freeze("refs/heads/side", 0, 8);
    let (other, other_marker) = world.commit(two);
    let claims = [world.claim(id, marker), world.claim(other, other_marker)];
    for claim in claims {
        world.ok(claim);
    }
    let done = |transaction_id, marker, of| {
        let RawCommand::ClaimEffect(claim) = world.claim(of, marker) else {
            unreachable!();
        };
        EffectOutcomeV1 {
            transaction_id,
            marker,
            claim_digest: claim.digest(),
            outcome: OutcomeKind::Done,
            observed_head: Bytes(vec![7; 20]),
            detail: Text::default(),
        }
    };
    let honest = done(id, marker, id);
    let under_another = EffectOutcomeV1 {
        marker: other_marker,
        ..honest.clone()
    };
    let sealed = |record: &EffectOutcomeV1, world: &World| {
        RawCommand::ReportOutcome(Envelope::seal(world.scope(), &key(GATE), record))
    };
    let wrong = sealed(&under_another, &world);
    assert_eq!(world.refused(wrong), Refusal::CandidateMismatch);
    let right = sealed(&honest, &world);
    world.ok(right);
    // Every effect that the record calls done names a transaction whose marker stands before it.
    let mut markers = Vec::new();
    for event in &world.events {
        match event {
            Event::Committed(marker) => markers.push(marker.transaction_id),
            Event::EffectReported(id, ..) => assert!(markers.contains(id)),
            _ => {}
        }
    }
}

#[test]
pub(super) fn m1_i3_recovery_and_migration_start_nothing_sovereign() {
    for ingress in [Ingress::Recovery, Ingress::Migration] {
        let mut world = World::new();
        let mut proposal = world.proposal("agent", MAIN, 0, 7);
        proposal.ingress = ingress;
        let command = world.freeze_command(AGENT, "agent", &proposal);
        assert_eq!(world.refused(command), Refusal::UnknownAction, "{ingress}");
    }
}

/// The candidate says that one person is enough; the constitution in force says two.
#[test]
pub(super) fn m1_i16_an_amendment_has_no_say_in_its_own_decision() {
    let mut world = World::new();
    let change = world.amended(|c| c.human_approvals_required = 2);
    world.make_change(change);
    let mut alice = alice();
    // The amendment was decided by Alice: her authenticator has counted.
    alice
        .authenticator
        .assert("localhost", "https://localhost", &Digest::ZERO);
    let mut bob = bob();
    let easier = world.amended(|c| {
        c.human_approvals_required = 1;
        c.webauthn_origins = vec![Text::lossy("https://elsewhere.test")];
    });
    let digest = world.freeze_change(easier);
    let [first, second] = [&alice, &bob].map(|person| world.challenge(digest, person));
    let one = world.approve(first, &mut alice);
    let alone = world.human_authorization(digest, vec![one.clone()]);
    assert_eq!(world.refused(alone), Refusal::InsufficientQuorum);
    // Nor is an approval given where only the candidate would look for one.
    let there = world.approve_at(second, &mut bob, "localhost", "https://elsewhere.test");
    let command = world.human_authorization(digest, vec![one.clone(), there]);
    assert_eq!(world.refused(command), Refusal::BadAssertion);
    let other = world.approve(second, &mut bob);
    let both = world.human_authorization(digest, vec![one, other]);
    world.ok(both);
}

/// Whatever else the record says: mode, receipt, grants and fence are what the epoch's leaf says.
#[test]
pub(super) fn m1_i20_m1_l15_only_the_epoch_record_owns_mode_receipt_grants_and_fence() {
    let mut world = World::new();
    let change = world.amended(|c| {
        c.allowed_autonomy_modes =
            vec![Mode::HumanGated, Mode::FullAutonomy, Mode::PolicyAutonomous];
    });
    world.make_change(change);
    let mode = ActionPayload::ModeActivate(ModePayload {
        mode: Mode::FullAutonomy,
        activates_at: 0,
        gate_receipts_digest: digest("gates"),
        rollback_plan_digest: digest("rollback"),
    });
    world.make_change(mode);
    assert_eq!(world.governance().epoch.active_mode, Mode::FullAutonomy);
    for world in [world, governed_history(), full_history()] {
        let mut state = State::new();
        let mut epoch = None;
        for leaf in &world.leaves {
            let event = state.replay(leaf).expect("its own leaf");
            let governance = state.authority.governance.as_ref().expect("after genesis");
            let now = governance.epoch.clone();
            let before = epoch.replace(now.clone());
            match event {
                Event::Bootstrapped(..) => {}
                Event::EpochPublished(published) => assert_eq!(*published, now),
                // The root's act stops everything and moves the epoch; mode and receipt it leaves.
                Event::RootActed(..) => {
                    let before = before.expect("an epoch");
                    assert!(now.autonomy_epoch > before.autonomy_epoch);
                    assert_eq!(now.active_mode, before.active_mode);
                    assert_eq!(now.activation_receipt_id, before.activation_receipt_id);
                }
                _ => {
                    let before = before.expect("an epoch");
                    let owned = |e: &AutonomyEpochV1| {
                        (e.active_mode, e.activation_receipt_id, e.autonomy_epoch)
                    };
                    assert_eq!(owned(&now), owned(&before), "{}", event.word());
                }
            }
        }
    }
}

/// An amendment that allows a mode, in whatever order, puts none in force.
#[test]
pub(super) fn m1_l14_a_mode_that_is_allowed_is_not_the_mode_in_force() {
    let mut world = World::new();
    let before = world.governance().epoch;
    let change = world.amended(|c| {
        c.allowed_autonomy_modes =
            vec![Mode::FullAutonomy, Mode::HumanGated, Mode::PolicyAutonomous];
    });
    world.make_change(change);
    assert_eq!(world.governance().epoch.active_mode, before.active_mode);
    let without_gates = ActionPayload::ModeActivate(ModePayload {
        mode: Mode::FullAutonomy,
        activates_at: 0,
        gate_receipts_digest: Digest::ZERO,
        rollback_plan_digest: digest("rollback"),
    });
    assert_eq!(world.refused_change(without_gates), Refusal::KernelFloor);
    // The receipt of an activation names the decision of the authority before it.
    let mode = ActionPayload::ModeActivate(ModePayload {
        mode: Mode::FullAutonomy,
        activates_at: 0,
        gate_receipts_digest: digest("gates"),
        rollback_plan_digest: digest("rollback"),
    });
    let was = world.governance();
    world.make_change(mode);
    let receipt = world.events.iter().rev().find_map(|event| match event {
        Event::Activated(_, _, receipt) => Some((**receipt).clone()),
        _ => None,
    });
    let receipt = receipt.expect("a receipt");
    assert_ne!(receipt.authority_decision_digest, Digest::ZERO);
    assert_eq!(receipt.previous_autonomy_epoch, was.epoch.autonomy_epoch);
    assert_eq!(
        receipt.previous_constitution_digest,
        was.constitution.digest()
    );
    assert_eq!(world.governance().epoch.activation_receipt_id, receipt.id());
}

/// The digest alone carries nothing: without the bytes nobody is asked, nothing goes on.
#[test]
pub(super) fn m1_l5_without_the_bytes_of_an_intent_its_digest_is_worth_nothing() {
    let mut world = World::new();
    let frozen = world.freeze(MAIN, 0, 7);
    let decided = world.freeze("refs/heads/side", 0, 8);
    let capability = world.authorize(decided);
    let prepared = world.freeze("refs/heads/third", 0, 9);
    let transaction = world.prepare(prepared);
    let governed = world.freeze_change(reset(&[1]));
    let given = world.authorization(frozen, &approvals());
    let asked = world.challenge_command(governed, &alice());
    for digest in [frozen, decided, prepared, governed] {
        world.state.authority.intents.remove(&digest);
    }
    for command in [
        RawCommand::Authorize(Box::new(given)),
        asked,
        RawCommand::Prepare(decided, capability),
        RawCommand::Commit(transaction),
    ] {
        assert_eq!(world.refused(command), Refusal::UnknownIntent);
    }
    // What was prepared can only be ended.
    world.ok(RawCommand::Abort(transaction, AbortReason::Expired));
}

/// A vote, a verdict or a decision is about the variant and the registry that were frozen.
#[test]
pub(super) fn m1_l6_variant_and_registry_are_frozen_and_others_void_the_votes() {
    let changes: [fn(&mut SovereignActionIntentV1); 4] = [
        |i| i.action_policy_registry_digest = digest("another registry"),
        |i| i.classifier_decision_digest = digest("another class"),
        |i| i.required_authority_variant = AuthorityVariant::Policy,
        |i| i.expected_store_version += 1,
    ];
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let given = world.authorization(digest, &approvals());
    let command = RawCommand::Authorize(Box::new(given));
    let good = world.state.clone();
    for (at, change) in changes.into_iter().enumerate() {
        world.state = good.clone();
        let live = world.state.authority.intents.get_mut(&digest);
        change(&mut live.expect("frozen").intent);
        assert_ne!(world.intent(digest).digest(), digest, "another intent");
        let refused = world.refused(command.clone());
        let expected = [
            Refusal::EpochFenced,
            Refusal::CandidateMismatch,
            Refusal::WrongVariant,
            Refusal::CandidateMismatch,
        ];
        assert_eq!(refused, expected[at], "change {at}");
    }
    world.state = good;
    world.ok(command);
}

/// After a restart: what is prepared is judged as of then, a latch is renewed, a marker stands.
#[test]
pub(super) fn m1_l9_recovery_judges_what_is_prepared_renews_a_latch_and_keeps_a_marker() {
    let restart = |world: &mut World| {
        world.state = State::from_bytes(&world.state.to_bytes()).expect("its own bytes");
    };
    let mut world = World::new();
    let committed = world.freeze("refs/heads/side", 0, 8);
    let (landed, marker) = world.commit(committed);
    let digest = world.freeze(MAIN, 0, 7);
    let prepared = world.prepare(digest);
    let red = Outbox::new().red(&world, &RedScope::Subject(id("other")));
    let latch = world.latch(red);
    let first = world.store_attempt(latch);
    restart(&mut world);
    world.tick(world.now() + 2 * MINUTE);
    // PREPARED: its time has passed while nobody ran.
    assert_eq!(
        world.refused(RawCommand::Commit(prepared)),
        Refusal::Expired
    );
    // PENDING: the attempt is dead, the latch takes the next one.
    let late = world.capability_command(&first, ACTUATOR);
    assert_eq!(world.refused(late), Refusal::Expired);
    world.stop(latch);
    restart(&mut world);
    // COMMITTED: it stands as of its own time, whatever came since.
    let again = world.apply(RawCommand::Commit(landed));
    assert_eq!(again.reply, Ok(Accepted::Committed(marker)));
    assert!(again.events.is_empty());
}

/// No key but the root's moves the kernel, and who dissented stays in the record.
#[test]
pub(super) fn m1_l11_nobody_but_the_root_moves_the_kernel_and_a_dissent_stays_in_the_record() {
    let mut world = World::new();
    for n in [AGENT, GOVERNOR, OWNER, SENTINEL, ACTUATOR, GROUP, 20, 121] {
        let act = sealed_root_act(&world, &root_act(&world, |_| {}), n);
        assert_eq!(world.refused(act), Refusal::Unauthorized, "{n}");
    }
    for world in [governed_history(), full_history()] {
        let mut state = State::new();
        let mut kernel = None;
        for leaf in &world.leaves {
            let event = state.replay(leaf).expect("its own leaf");
            let governance = state.authority.governance.as_ref().expect("after genesis");
            let moved = kernel.replace(governance.kernel.digest());
            let may = matches!(event, Event::Bootstrapped(..) | Event::RootActed(..));
            assert!(may || moved == kernel, "{}", event.word());
        }
    }
    use VoteVerdict::{Approve, Reject};
    let digest = world.freeze(MAIN, 0, 7);
    let votes = [(0, Approve), (1, Reject), (2, Approve), (3, Approve)];
    let given = world.authorization(digest, &votes);
    world.ok(RawCommand::Authorize(Box::new(given)));
    let Some(Event::Authorized(body)) = world.events.last() else {
        panic!("decided");
    };
    let verdicts = body.votes().iter().map(|vote| {
        let record = VoteV1::from_canonical(&vote.body.0).expect("a vote");
        (record.verifier_id.to_string(), record.verdict)
    });
    let dissents = verdicts.filter(|(_, verdict)| *verdict == Reject);
    assert_eq!(dissents.collect::<Vec<_>>(), [("vb".to_owned(), Reject)]);
    // The dissent is part of what was signed: without it there is no decision.
    let other = world.freeze("refs/heads/side", 0, 8);
    let mut hidden = world.authorization(other, &votes);
    hidden.votes.remove(1);
    let command = RawCommand::Authorize(Box::new(hidden));
    assert_eq!(world.refused(command), Refusal::InsufficientQuorum);
}
