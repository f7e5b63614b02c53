//! What is due for an intent follows from the state, and from what somebody brought that would count.

use redlatch_types::records::*;
use redlatch_types::*;

use super::*;
use world::*;

#[path = "../../../raft/core/tests/world/mod.rs"]
mod world;

/// What is due while nobody brought anything.
fn waiting_for(world: &World) -> BTreeMap<IntentDigest, Due> {
    due(&world.state.authority, &Support::default())
}

#[test]
fn a_frozen_intent_of_the_quorum_wants_a_ballot_until_it_expires() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 1);
    assert_eq!(waiting_for(&world), BTreeMap::from([(digest, Due::Ballot)]));
    let authority = &world.state.authority;
    assert_eq!(next(authority, &digest), None, "nothing without a decision");
    let expires_at = world.intent(digest).expires_at;
    world.state.authority.clock.state_time = expires_at;
    assert!(waiting_for(&world).is_empty());
}

#[test]
fn a_transaction_that_is_gone_wants_nothing() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 1);
    let live = world.state.authority.intents.get_mut(&digest);
    let transaction = TransactionId(Digest::of(b"transaction"));
    live.expect("live").stage = IntentStage::InTransaction(transaction);
    assert!(waiting_for(&world).is_empty(), "absent means spent or void");
    assert_eq!(next(&world.state.authority, &digest), None);
}

#[test]
fn persons_decide_once_enough_of_them_approve_and_what_is_made_up_is_not_held() {
    let mut world = World::new();
    let change = world.amended(|next| next.human_approvals_required = 2);
    world.make_change(change);
    let change = revoke(&world, "other");
    let digest = world.freeze_change(change);
    assert!(waiting_for(&world).is_empty(), "nobody has approved");
    let (mut alice, mut bob) = (alice(), bob());
    // The amendment was decided by Alice: her authenticator has counted.
    let zero = Digest::ZERO;
    alice
        .authenticator
        .assert("localhost", "https://localhost", &zero);
    let asked = [
        world.challenge(digest, &alice),
        world.challenge(digest, &alice),
    ];
    let of_bob = world.challenge(digest, &bob);
    let authority = |world: &World| world.state.authority.clone();
    let mut support = Support::default();

    let good = world.approve(asked[0], &mut alice);
    let forged = HumanApprovalV1 {
        signature: Bytes(vec![0; 70]),
        ..good.clone()
    };
    let of_another = HumanApprovalV1 {
        challenge_id: of_bob,
        ..good.clone()
    };
    for made_up in [forged, of_another] {
        let held = support.approve(&authority(&world), made_up);
        assert_eq!(held, Err(Refusal::BadAssertion));
        assert_eq!(support.persons(&digest), 0);
    }
    assert_eq!(support.approve(&authority(&world), good), Ok(digest));
    let again = world.approve(asked[1], &mut alice);
    assert_eq!(support.approve(&authority(&world), again), Ok(digest));
    assert_eq!(support.persons(&digest), 1, "one person, twice");
    assert!(due(&authority(&world), &support).is_empty());
    let other = world.approve(of_bob, &mut bob);
    assert_eq!(support.approve(&authority(&world), other), Ok(digest));
    let human = Due::Brought(AuthorityVariant::Human);
    let wanted = BTreeMap::from([(digest, human)]);
    assert_eq!(due(&authority(&world), &support), wanted);

    // A counter that moved on meanwhile makes the approval stale: it must not spoil the other person's.
    let mut moved = authority(&world);
    let governance = moved.governance.as_mut().expect("after genesis");
    let key = human_key("alice", OWNER).id();
    governance
        .human_keys
        .get_mut(&key)
        .expect("enrolled")
        .counter = 99;
    support.settle(&moved);
    assert_eq!(support.persons(&digest), 1);
    assert_eq!(support.approvals(&digest)[0].challenge_id, of_bob);
    // What is decided or gone is forgotten.
    let mut gone = authority(&world);
    gone.intents.clear();
    support.settle(&gone);
    assert!(support.approvals(&digest).is_empty());
}

#[test]
fn a_change_of_the_organism_is_activated_when_it_may_be() {
    let mut world = World::new();
    let change = revoke(&world, "other");
    let transaction = world.commit_change(change);
    let digest = *world.state.authority.intents.keys().next().expect("live");
    let wanted = BTreeMap::from([(digest, Due::Activate)]);
    assert_eq!(waiting_for(&world), wanted);
    let command = next(&world.state.authority, &digest);
    assert_eq!(command, Some(RawCommand::Activate(transaction)));

    // A stop keeps it out, and it is not proposed again and again.
    let before = world.state.clone();
    let red = Outbox::new().red(&world, &RedScope::Everything);
    world.ok(red);
    assert!(waiting_for(&world).is_empty());
    world.state = before;
    world.ok(RawCommand::Activate(transaction));
    assert!(waiting_for(&world).is_empty(), "it is in force");
}

#[test]
fn an_effect_outside_is_its_executors_and_is_not_activated() {
    let after = |step: &dyn Fn(&mut World, IntentDigest)| {
        let mut world = World::new();
        let digest = world.freeze(MAIN, 0, 1);
        step(&mut world, digest);
        waiting_for(&world).remove(&digest)
    };
    let authorized = after(&|world, digest| {
        world.authorize(digest);
    });
    assert_eq!(authorized, Some(Due::Prepare));
    let prepared = after(&|world, digest| {
        world.prepare(digest);
    });
    assert_eq!(prepared, Some(Due::Commit));
    let committed = after(&|world, digest| {
        world.commit(digest);
    });
    assert_eq!(committed, None);
}

#[test]
fn a_policy_decides_on_the_receipts_that_its_intent_names_and_no_others_are_held() {
    let mut world = World::new();
    let change = world.amended(|next| next.policy_clauses = vec![landing_clause()]);
    world.make_change(change);
    let named = gate_passed(&world);
    let digest = freeze_on(&mut world, &[&named]);
    assert!(waiting_for(&world).is_empty(), "no receipt is here");
    let authority = world.state.authority.clone();
    let mut support = Support::default();
    let mut attest = |envelopes: &[&Envelope]| {
        let bytes: Vec<Vec<u8>> = envelopes.iter().map(|it| it.to_canonical()).collect();
        support.attest(&authority, digest, &bytes)
    };
    let other = gate_receipt(&world, 1, |_| {}, RUNNER + 1);
    assert_eq!(attest(&[&named, &other]), Err(Refusal::CandidateMismatch));
    let unsigned = Envelope {
        signature: Signature([0; 64]),
        ..named.clone()
    };
    assert_eq!(attest(&[&unsigned]), Err(Refusal::BadSignature));
    let many = vec![&named; limits::POLICY_RECEIPTS_MAX + 1];
    assert_eq!(attest(&many), Err(Refusal::LimitExceeded));
    assert_eq!(attest(&[&named]), Ok(()));
    assert_eq!(attest(&[&named]), Ok(()), "bringing it again is safe");
    assert_eq!(support.receipts(&digest), [named]);
    let policy = Due::Brought(AuthorityVariant::Policy);
    assert_eq!(
        due(&authority, &support),
        BTreeMap::from([(digest, policy)])
    );
    let nowhere = IntentDigest(Digest::ZERO);
    assert_eq!(
        support.attest(&authority, nowhere, &[]),
        Err(Refusal::UnknownIntent)
    );
}

#[test]
fn the_quorums_intents_take_no_receipts_from_callers() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 1);
    let held = Support::default().attest(&world.state.authority, digest, &[]);
    assert_eq!(held, Err(Refusal::WrongVariant));
}
