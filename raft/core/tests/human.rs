//! Persons decide: challenge, assertion, decision (DESIGN §5.4, SPEC F.3, FAULTS 64, 65, 68, 69).

use redlatch_journal::admit::Asserted;
use redlatch_journal::authority::{Authority, IntentStage};
use redlatch_journal::check_approval;
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Basis, Event};
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

#[test]
fn a_person_decides_and_the_record_says_human_ratified() {
    let (mut world, digest) = waits_for_a_person();
    assert_eq!(
        world.intent(digest).required_authority_variant,
        AuthorityVariant::Human
    );
    world.decide(digest);
    let Some(Event::Authorized(body)) = world.events.last() else {
        panic!("{:?}", world.events.last());
    };
    assert_eq!(body.decision.authority_kind, AuthorityVariant::Human);
    assert_eq!(body.decision.label, RatificationLabel::HumanRatified);
    assert_eq!(body.capability.capability_kind, AuthorityVariant::Human);
    let Basis::Human(decision, approvals) = &body.basis else {
        panic!("{:?}", body.basis);
    };
    assert_eq!(decision.approvers, [id("alice")]);
    assert_eq!(decision.human_approval_digests, [approvals[0].digest()]);
    assert_eq!(body.decision.decision_digest, decision.digest());
    // The nonce is consumed and the counter has moved.
    assert!(world.state.authority.challenges.is_empty());
    let key = human_key("alice", OWNER).id();
    assert_eq!(world.governance().human_keys[&key].counter, 1);
}

#[test]
pub(super) fn fault_064_an_assertion_of_another_challenge_page_or_party_decides_nothing() {
    let (mut world, digest) = waits_for_a_person();
    let mut alice = alice();
    let challenge = world.challenge(digest, &alice);
    let other = world.challenge(digest, &alice);
    let good = world.approve(challenge, &mut alice);
    let elsewhere = [
        world.approve_at(challenge, &mut alice, "example.org", "https://localhost"),
        world.approve_at(challenge, &mut alice, "localhost", "https://example.org"),
        HumanApprovalV1 {
            challenge_id: other,
            ..good.clone()
        },
        HumanApprovalV1 {
            counter: 9,
            ..good.clone()
        },
        HumanApprovalV1 {
            user_presence_flags: 1,
            ..good.clone()
        },
        HumanApprovalV1 {
            public_key: human_key("bob", DEPUTY).public_key,
            ..good.clone()
        },
        HumanApprovalV1 {
            key_id: human_key("bob", DEPUTY).id(),
            ..good.clone()
        },
        HumanApprovalV1 {
            signature: Bytes(Vec::new()),
            ..good.clone()
        },
    ];
    for wrong in elsewhere {
        let command = world.human_authorization(digest, vec![wrong.clone()]);
        assert_eq!(world.refused(command), Refusal::BadAssertion, "{wrong:?}");
    }
    let unknown = HumanApprovalV1 {
        challenge_id: ChallengeId(digest.0),
        ..good.clone()
    };
    let command = world.human_authorization(digest, vec![unknown]);
    assert_eq!(world.refused(command), Refusal::UnknownChallenge);
    let command = world.human_authorization(digest, vec![good]);
    assert!(matches!(world.ok(command), Accepted::Authorized(_)));
}

#[test]
pub(super) fn fault_065_an_approval_serves_one_intent_once() {
    let mut world = World::new();
    let change = revoke(&world, "other");
    let first = world.freeze_change(change.clone());
    let second = world.freeze_change(change);
    let mut alice = alice();
    let challenge = world.challenge(first, &alice);
    let approval = world.approve(challenge, &mut alice);
    let moved = world.human_authorization(second, vec![approval.clone()]);
    assert_eq!(world.refused(moved), Refusal::CandidateMismatch);
    let command = world.human_authorization(first, vec![approval.clone()]);
    world.ok(command.clone());
    // The same command again is the same answer; the approval with another verdict is spent.
    assert!(matches!(world.ok(command), Accepted::Authorized(_)));
    let again = world.human_authorization(first, vec![approval.clone()]);
    assert_eq!(world.refused(again), Refusal::AlreadySpent);
    let again = world.human_authorization(second, vec![approval]);
    assert_eq!(world.refused(again), Refusal::UnknownChallenge);
}

#[test]
pub(super) fn fault_068_a_cloned_authenticator_shows_by_its_counter() {
    let mut world = World::new();
    let change = revoke(&world, "other");
    let digest = world.freeze_change(change.clone());
    world.decide(digest);
    let digest = world.freeze_change(change);
    let mut clone = alice();
    let challenge = world.challenge(digest, &clone);
    let approval = world.approve(challenge, &mut clone);
    let command = world.human_authorization(digest, vec![approval]);
    assert_eq!(world.refused(command), Refusal::BadAssertion);
}

#[test]
pub(super) fn m1_i12_nobody_decides_what_they_or_their_clients_proposed() {
    let mut world = World::new();
    let change = revoke(&world, "other");
    let proposal = world.change(change);
    let command = world.freeze_command(OWNER, "alice", &proposal);
    let Accepted::Frozen(digest) = world.ok(command) else {
        panic!("frozen");
    };
    let asked = world.challenge_command(digest, &alice());
    assert_eq!(world.refused(asked), Refusal::ApproverExcluded);
    let mut bob = bob();
    let challenge = world.challenge(digest, &bob);
    let approval = world.approve(challenge, &mut bob);
    let command = world.human_authorization(digest, vec![approval]);
    world.ok(command);
}

#[test]
fn a_person_without_a_key_or_who_is_no_person_is_not_asked() {
    let (mut world, digest) = waits_for_a_person();
    for name in ["agent", "governor", "nobody"] {
        let nobody = Person {
            name: "alice",
            ..alice()
        };
        let request = ChallengeRequestV1 {
            intent_digest: digest,
            approver_subject_id: id(name),
            nonce: world.fresh(),
        };
        let payload = request.to_canonical();
        let record = world.envelope_record(nobody.name, &payload);
        let envelope = Envelope::seal(world.scope(), &key(nobody.client), &record);
        let command = RawCommand::OpenChallenge(envelope, Bytes(payload));
        assert_eq!(world.refused(command), Refusal::ApproverExcluded, "{name}");
    }
}

/// An intent has few open challenges: an agent that had Bob asked often enough would keep
/// him from deciding for as long as they live.
#[test]
pub(super) fn fault_094_nobody_uses_up_the_questions_of_another_person() {
    let (mut world, digest) = waits_for_a_person();
    for (name, client) in [("agent", AGENT), ("governor", GOVERNOR), ("alice", OWNER)] {
        let request = ChallengeRequestV1 {
            intent_digest: digest,
            approver_subject_id: id("bob"),
            nonce: world.fresh(),
        };
        let payload = request.to_canonical();
        let record = world.envelope_record(name, &payload);
        let envelope = Envelope::seal(world.scope(), &key(client), &record);
        let asked = RawCommand::OpenChallenge(envelope, Bytes(payload));
        assert_eq!(world.refused(asked), Refusal::Unauthorized, "{name}");
    }
    assert!(world.state.authority.challenges.is_empty());
    // Nor by having oneself asked as often as one may.
    for _ in 0..limits::CHALLENGES_PER_INTENT_MAX {
        world.challenge(digest, &alice());
    }
    let more = world.challenge_command(digest, &alice());
    assert_eq!(world.refused(more), Refusal::LimitExceeded);
    world.challenge(digest, &bob());
}

#[test]
pub(super) fn two_persons_are_two_and_two_challenges_of_one_person_are_one() {
    let mut world = World::new();
    let change = world.amended(|c| c.human_approvals_required = 2);
    world.make_change(change);
    let change = revoke(&world, "other");
    let digest = world.freeze_change(change);
    let (mut alice, mut bob) = (alice(), bob());
    // The amendment was decided by Alice: her authenticator has counted.
    alice
        .authenticator
        .assert("localhost", "https://localhost", &Digest::ZERO);
    let first = world.challenge(digest, &alice);
    let second = world.challenge(digest, &alice);
    let third = world.challenge(digest, &bob);
    let one = world.approve(first, &mut alice);
    let same = world.approve(second, &mut alice);
    let other = world.approve(third, &mut bob);
    for few in [vec![one.clone()], vec![one.clone(), same], Vec::new()] {
        let command = world.human_authorization(digest, few);
        assert_eq!(world.refused(command), Refusal::InsufficientQuorum);
    }
    let command = world.human_authorization(digest, vec![one, other]);
    world.ok(command);
}

#[test]
fn an_expired_challenge_is_void_and_its_nonce_is_released() {
    let mut world = World::new();
    let change = revoke(&world, "other");
    let mut proposal = world.change(change);
    proposal.expires_at = world.now() + 3 * limits::HOUR_MS;
    let command = world.freeze_command(GOVERNOR, "governor", &proposal);
    let Accepted::Frozen(digest) = world.ok(command) else {
        panic!("frozen");
    };
    let mut alice = alice();
    let challenge = world.challenge(digest, &alice);
    let approval = world.approve(challenge, &mut alice);
    let later = world.now() + limits::CHALLENGE_TTL_MS;
    world.tick(later);
    assert!(world.state.authority.challenges.is_empty());
    let command = world.human_authorization(digest, vec![approval]);
    assert_eq!(world.refused(command), Refusal::UnknownChallenge);
}

/// Even under a constitution that has come to ask for nobody.
#[test]
fn m1_i8_no_approvals_at_all_decide_nothing() {
    let mut world = World::new();
    let governance = world.state.authority.governance.as_mut().expect("started");
    governance.constitution.human_approvals_required = 0;
    governance.epoch.constitution_digest = governance.constitution.digest();
    let change = revoke(&world, "other");
    let digest = world.freeze_change(change);
    let command = world.human_authorization(digest, Vec::new());
    assert_eq!(world.refused(command), Refusal::InsufficientQuorum);
    world.decide(digest);
}

/// What is held for a decision is what the decision would count.
#[test]
fn an_approval_is_worth_holding_while_its_intent_waits() {
    let (mut world, digest) = waits_for_a_person();
    let mut alice = alice();
    let challenge = world.challenge(digest, &alice);
    let approval = world.approve(challenge, &mut alice);
    let approval = Asserted::check(approval).expect("its own signature");
    let waiting = world.state.authority.clone();
    let worth = |state: &Authority| check_approval(state, &approval);
    assert_eq!(worth(&waiting), Ok((digest, id("alice"))));
    type Change = fn(&mut Authority, IntentDigest, ChallengeId);
    let changes: [(Change, Refusal); 4] = [
        (|s, _, _| s.governance = None, Refusal::NoGenesis),
        (
            |s, _, challenge| {
                s.challenges.remove(&challenge);
            },
            Refusal::UnknownChallenge,
        ),
        (
            |s, digest, _| {
                s.intents.remove(&digest);
            },
            Refusal::UnknownIntent,
        ),
        (
            |s, digest, _| {
                let live = s.intents.get_mut(&digest).expect("frozen");
                live.stage = IntentStage::InTransaction(TransactionId(Digest::ZERO));
            },
            Refusal::AlreadySpent,
        ),
    ];
    for (change, expected) in changes {
        let mut state = waiting.clone();
        change(&mut state, digest, challenge);
        assert_eq!(worth(&state), Err(expected));
    }
}

#[test]
pub(super) fn m1_i25_a_variant_other_than_the_frozen_one_decides_nothing() {
    let mut world = World::new();
    let change = revoke(&world, "other");
    let governed = world.freeze_change(change);
    let landing = world.freeze("refs/heads/main", 0, 1);
    // A quorum for what a human must decide: the votes are good, the variant is not.
    let mut given = world.authorization(landing, &approvals());
    let green = world.green_record(governed);
    given.intent_digest = governed;
    given.green = Envelope::seal(world.scope(), &key(SENTINEL), &green);
    assert_eq!(
        world.refused(RawCommand::Authorize(Box::new(given))),
        Refusal::WrongVariant
    );
    let command = world.human_authorization(landing, Vec::new());
    assert_eq!(world.refused(command), Refusal::WrongVariant);
    let asked = world.challenge_command(landing, &alice());
    assert_eq!(world.refused(asked), Refusal::WrongVariant);
}

#[test]
fn the_summary_names_what_is_decided() {
    let (mut world, digest) = waits_for_a_person();
    let challenge = world.challenge(digest, &alice());
    let shown = world.state.authority.challenges[&challenge]
        .canonical_summary
        .0
        .clone();
    let shown = String::from_utf8(shown).expect("text");
    for part in [
        "action: grant_change",
        "revoke grant",
        "proposed by: governor",
        &digest.to_string(),
    ] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
}

#[test]
fn a_key_that_is_revoked_or_does_not_reach_so_far_asks_nobody() {
    let mut world = World::new();
    let key = |payload| ActionPayload::KeyChange(Box::new(payload));
    let narrow = HumanKeyV1 {
        subject_id: id("bob"),
        scopes: vec![ActionClass::Land],
        ..human_key("bob", 70)
    };
    world.make_change(key(KeyPayload::Enrol(narrow)));
    world.make_change(key(KeyPayload::Revoke(human_key("bob", DEPUTY).id())));
    let change = revoke(&world, "other");
    let digest = world.freeze_change(change);
    let asked = world.challenge_command(digest, &bob());
    assert_eq!(world.refused(asked), Refusal::ApproverExcluded);
}

#[test]
fn a_key_that_the_kernel_no_longer_trusts_asks_nobody() {
    let mut world = World::new();
    // Somebody has a key on hardware, or the act would leave nobody who decides.
    let hardware = HumanKeyV1 {
        attestation_class: AttestationClass::Hardware,
        ..human_key("bob", 70)
    };
    let enrol = KeyPayload::Enrol(hardware);
    world.make_change(ActionPayload::KeyChange(Box::new(enrol)));
    let act = root_act(&world, |act| {
        act.kernel.human_attestation_classes = vec![AttestationClass::Hardware];
    });
    let act = sealed_root_act(&world, &act, ROOT);
    world.ok(act);
    let digest = world.freeze_change(reset(&[1]));
    let asked = world.challenge_command(digest, &alice());
    assert_eq!(world.refused(asked), Refusal::ApproverExcluded);
}
