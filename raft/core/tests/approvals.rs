//! What an approval needs beside its assertion: the right key, order, number, a person who is still there.

use redlatch_journal::development::{WEBAUTHN_ORIGIN, WEBAUTHN_RP_ID};
use redlatch_types::command::RawCommand;
use redlatch_types::event::Accepted;
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

/// An approval of `challenge` in the name of whom it asked, by any authenticator and any key.
fn answered(
    world: &World,
    challenge: ChallengeId,
    signer: u8,
    named: HumanKeyId,
) -> HumanApprovalV1 {
    let asked = &world.state.authority.challenges[&challenge];
    let value = redlatch_journal::webauthn::challenge(
        &world.scope(),
        &asked.nonce,
        &asked.binding.intent_digest,
        &Digest::of(&asked.canonical_summary.0),
        &asked.approver_subject_id,
    );
    let mut authenticator = authenticator(signer);
    let asserted = authenticator.assert(WEBAUTHN_RP_ID, WEBAUTHN_ORIGIN, &value);
    HumanApprovalV1 {
        challenge_id: challenge,
        key_id: named,
        user_presence_flags: asserted.authenticator_data[32],
        counter: authenticator.counter(),
        authenticator_data: Bytes(asserted.authenticator_data),
        client_data_json: Bytes(asserted.client_data_json),
        signature: Bytes(asserted.signature),
        public_key: Bytes(authenticator.public_key().expect("a good key").to_cose()),
    }
}

/// The statement is right to the last byte; only whose key signed it is not.
#[test]
fn fault_064_a_right_statement_under_a_key_that_is_not_the_named_one_decides_nothing() {
    let (mut world, digest) = waits_for_a_person();
    let challenge = world.challenge(digest, &alice());
    let (hers, his) = (human_key("alice", OWNER), human_key("bob", DEPUTY));
    let stranger = 70;
    for (what, signer, named) in [
        ("his key, named as his", DEPUTY, his.id()),
        ("his key, named as hers", DEPUTY, hers.id()),
        ("her key, named as his", OWNER, his.id()),
        ("nobody's key, named as hers", stranger, hers.id()),
        ("her key, unknown", OWNER, human_key("alice", stranger).id()),
    ] {
        let approval = answered(&world, challenge, signer, named);
        let command = world.human_authorization(digest, vec![approval]);
        assert_eq!(world.refused(command), Refusal::BadAssertion, "{what}");
    }
    let approval = answered(&world, challenge, OWNER, hers.id());
    let command = world.human_authorization(digest, vec![approval]);
    world.ok(command);
}

#[test]
fn m1_i12_who_left_after_the_question_decides_nothing() {
    let (mut world, digest) = waits_for_a_person();
    let mut alice = alice();
    let challenge = world.challenge(digest, &alice);
    let approval = world.approve(challenge, &mut alice);
    let command = world.human_authorization(digest, vec![approval]);
    let before = world.state.clone();
    let governance = world.state.authority.governance.as_mut().expect("started");
    let held = governance.subjects.get_mut(&id("alice")).expect("enrolled");
    held.revoked_at_optional = Some(START);
    assert_eq!(world.refused(command.clone()), Refusal::ApproverExcluded);
    // The governor turns out to be a client of hers.
    world.state = before.clone();
    let governance = world.state.authority.governance.as_mut().expect("started");
    let held = governance
        .subjects
        .get_mut(&id("governor"))
        .expect("enrolled");
    held.person_optional = Some(id("alice"));
    assert_eq!(world.refused(command.clone()), Refusal::ApproverExcluded);
    world.state = before;
    world.ok(command);
}

#[test]
fn approvals_come_in_one_order_and_none_comes_twice() {
    let (mut world, digest) = waits_for_a_person();
    let (mut alice, mut bob) = (alice(), bob());
    let [one, other] = [&alice, &bob].map(|person| world.challenge(digest, person));
    let mut approvals = vec![
        world.approve(one, &mut alice),
        world.approve(other, &mut bob),
    ];
    approvals.sort_by_key(|approval| std::cmp::Reverse(approval.challenge_id));
    let green = world.green_record(digest);
    let given = |world: &World, approvals| {
        RawCommand::AuthorizeHuman(Box::new(redlatch_types::command::HumanAuthorization {
            intent_digest: digest,
            green: Envelope::seal(world.scope(), &key(SENTINEL), &green),
            approvals,
        }))
    };
    let backwards = given(&world, approvals.clone());
    assert_eq!(world.refused(backwards), Refusal::NotCanonical);
    let twice = given(&world, vec![approvals[0].clone(), approvals[0].clone()]);
    assert_eq!(world.refused(twice), Refusal::NotCanonical);
    approvals.reverse();
    let right = given(&world, approvals);
    world.ok(right);
}

#[test]
fn fault_094_an_intent_has_so_many_open_challenges_and_another_has_its_own() {
    let (mut world, digest) = waits_for_a_person();
    let mut alice = alice();
    let open = (0..limits::CHALLENGES_PER_INTENT_MAX).map(|_| world.challenge(digest, &alice));
    let first = open.collect::<Vec<_>>()[0];
    let over = world.challenge_command(digest, &alice);
    assert_eq!(world.refused(over), Refusal::LimitExceeded);
    let change = revoke(&world, "agent");
    let other = world.freeze_change(change);
    world.challenge(other, &alice);
    // What was asked about the first is released with it, and nothing else is.
    let approval = world.approve(first, &mut alice);
    let command = world.human_authorization(digest, vec![approval]);
    world.ok(command);
    assert_eq!(world.state.authority.challenges.len(), 1);
    assert!(matches!(
        world.state.authority.challenges.values().next(),
        Some(challenge) if challenge.binding.intent_digest == other
    ));
}

#[test]
fn fault_094_more_approvals_than_challenges_are_not_even_looked_at() {
    let (mut world, digest) = waits_for_a_person();
    let mut alice = alice();
    let challenge = world.challenge(digest, &alice);
    let approval = world.approve(challenge, &mut alice);
    let many = vec![approval.clone(); limits::CHALLENGES_PER_INTENT_MAX + 1];
    let command = world.human_authorization(digest, many);
    assert_eq!(world.refused(command), Refusal::LimitExceeded);
    let most = vec![approval.clone(); limits::CHALLENGES_PER_INTENT_MAX];
    let command = world.human_authorization(digest, most);
    assert_eq!(world.refused(command), Refusal::NotCanonical);
    let mut longest = approval.clone();
    longest.signature.0 = vec![b' '; limits::ASSERTION_PART_LEN_MAX];
    let command = world.human_authorization(digest, vec![longest]);
    assert_eq!(world.refused(command), Refusal::BadAssertion);
    for part in 0..3 {
        let mut long = approval.clone();
        let parts = [
            &mut long.authenticator_data,
            &mut long.client_data_json,
            &mut long.signature,
        ];
        let [data, client, signature] = parts;
        [data, client, signature][part].0 = vec![b' '; limits::ASSERTION_PART_LEN_MAX + 1];
        let command = world.human_authorization(digest, vec![long]);
        assert_eq!(
            world.refused(command),
            Refusal::LimitExceeded,
            "part {part}"
        );
    }
}

/// What an approval repeats of its assertion is what the assertion says.
#[test]
fn flags_and_counter_of_an_approval_are_those_that_were_signed() {
    let (mut world, digest) = waits_for_a_person();
    let mut alice = alice();
    let challenge = world.challenge(digest, &alice);
    let approval = world.approve(challenge, &mut alice);
    type Change = fn(&mut HumanApprovalV1);
    let changes: [Change; 3] = [
        |a| a.user_presence_flags |= 0x08,
        |a| a.user_presence_flags = 0,
        |a| a.counter += 1,
    ];
    for change in changes {
        let mut other = approval.clone();
        change(&mut other);
        let command = world.human_authorization(digest, vec![other]);
        assert_eq!(world.refused(command), Refusal::BadAssertion);
    }
    let Accepted::Authorized(_) = ({
        let command = world.human_authorization(digest, vec![approval]);
        world.ok(command)
    }) else {
        panic!("decided");
    };
}

#[test]
fn a_question_about_nothing_or_about_what_is_decided_is_refused() {
    let (mut world, digest) = waits_for_a_person();
    let unknown = world.challenge_command(IntentDigest(Digest::ZERO), &alice());
    assert_eq!(world.refused(unknown), Refusal::UnknownIntent);
    world.decide(digest);
    let late = world.challenge_command(digest, &bob());
    assert_eq!(world.refused(late), Refusal::AlreadySpent);
}

/// Approvals come by challenge and are recorded by person, whatever order that makes.
#[test]
fn a_decision_of_two_lists_them_by_name() {
    let mut world = World::new();
    let (mut alice, mut bob) = (alice(), bob());
    for subject in ["other", "agent", "other", "agent", "other", "agent"] {
        let change = revoke(&world, subject);
        let digest = world.freeze_change(change);
        let [one, two] = [&alice, &bob].map(|person| world.challenge(digest, person));
        let given = [world.approve(one, &mut alice), world.approve(two, &mut bob)];
        let digests: Vec<_> = given.iter().map(HumanApprovalV1::digest).collect();
        let command = world.human_authorization(digest, given.to_vec());
        world.ok(command);
        let Some(redlatch_types::event::Event::Authorized(body)) = world.events.last() else {
            panic!("decided");
        };
        let redlatch_types::event::Basis::Human(decision, carried) = &body.basis else {
            panic!("{:?}", body.basis);
        };
        assert_eq!(decision.approvers, [id("alice"), id("bob")]);
        assert_eq!(decision.human_approval_digests, digests);
        assert_eq!(carried[..], given);
    }
}

#[test]
fn a_question_that_is_asked_again_is_the_same_question() {
    let (mut world, digest) = waits_for_a_person();
    let command = world.challenge_command(digest, &alice());
    let first = world.ok(command.clone());
    let again = world.apply(command);
    assert_eq!((again.reply, again.events), (Ok(first), vec![]));
    assert_eq!(world.state.authority.challenges.len(), 1);
    // Taken back, the intent takes its questions with it.
    let payload = WithdrawalV1 {
        intent_digest: digest,
        reason: Text::default(),
    };
    let payload = payload.to_canonical();
    let record = world.envelope_record("governor", &payload);
    let envelope = Envelope::seal(world.scope(), &key(GOVERNOR), &record);
    world.ok(RawCommand::Withdraw(envelope, Bytes(payload)));
    assert!(world.state.authority.challenges.is_empty());
}

/// A subject that is somebody else's client is a party all the same.
#[test]
fn m1_i12_m1_l7_whoever_has_a_role_is_excluded_by_name_and_by_person() {
    let mut world = World::new();
    let change = revoke(&world, "other");
    let proposal = world.change(change);
    let command = world.freeze_command(OWNER, "alice", &proposal);
    let Accepted::Frozen(digest) = world.ok(command) else {
        panic!("frozen");
    };
    let governance = world.state.authority.governance.as_mut().expect("started");
    let held = governance.subjects.get_mut(&id("alice")).expect("enrolled");
    held.person_optional = Some(id("carol"));
    let asked = world.challenge_command(digest, &alice());
    assert_eq!(world.refused(asked), Refusal::ApproverExcluded);
    // The governor acts for Alice, who is promoted.
    let governance = world.state.authority.governance.as_mut().expect("started");
    let held = governance
        .subjects
        .get_mut(&id("governor"))
        .expect("enrolled");
    held.person_optional = Some(id("alice"));
    let payload = world.promotion(|p| {
        p.replaces_optional = None;
        p.grant.subject_id = id("alice");
        p.grant.max_tier = Tier::A1;
    });
    assert_eq!(world.refused_change(payload), Refusal::SelfAuthorization);
}
