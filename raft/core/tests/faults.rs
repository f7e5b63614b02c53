//! Cases of faults that concern the journal's rules: spent twice, late, stale, shown otherwise.

use proptest::prelude::*;
use redlatch_journal::{EntryId, State};
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Basis, Event};
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

#[test]
fn fault_020_a_capability_stays_spent_however_late_it_comes_again() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let (id, marker) = world.commit(digest);
    let claim = world.claim(id, marker);
    world.ok(claim);
    let done = world.outcome(id, marker, OutcomeKind::Done, 7);
    world.ok(done);
    let Some(capability) = world.events.iter().find_map(|event| match event {
        Event::Authorized(body) => Some(body.capability_id),
        _ => None,
    }) else {
        panic!("decided");
    };
    for later in [0, 40 * MINUTE, 24 * 60 * MINUTE, 60 * 60 * MINUTE] {
        world.tick(world.now() + later);
        let again = world.apply(RawCommand::Prepare(digest, capability));
        assert_eq!(again.events, [], "{later} later");
        let commit = world.apply(RawCommand::Commit(id));
        assert_eq!(commit.events, [], "{later} later");
    }
    let spent = world.events.iter();
    let spent = spent.filter(|event| matches!(event, Event::Prepared(..)));
    assert_eq!(spent.count(), 1);
}

/// A leader that slept proposes what was true when it fell asleep.
#[test]
fn fault_027_what_an_old_leader_meant_to_do_is_judged_where_it_lands() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let id = world.prepare(digest);
    let number = world.state.authority.clock.tick.next();
    let time = world.now() + 3 * MINUTE;
    let tick = RawCommand::Tick(number, world.readings(&[(1, time), (2, time)]));
    // It saw the transaction expire; the others renewed the time and committed.
    world.tick(world.now() + 1_000);
    world.ok(RawCommand::Commit(id));
    let abort = RawCommand::Abort(id, AbortReason::Expired);
    assert_eq!(world.refused(abort), Refusal::WrongState);
    assert_eq!(world.refused(tick), Refusal::WrongState);
    let red = Outbox::new().red(&world, &RedScope::Subject(id_of("other")));
    let latch = world.latch(red);
    let attempt = world.attempt(latch);
    world.stop(latch);
    let store = RawCommand::StoreSafetyIntent(Box::new(attempt));
    assert_eq!(world.refused(store), Refusal::StaleLatchClaim);
}

fn id_of(text: &str) -> SubjectId {
    id(text)
}

#[test]
fn fault_068_an_approval_is_of_the_bytes_that_were_shown() {
    let (mut world, digest) = waits_for_a_person();
    let mut alice = alice();
    let challenge = world.challenge(digest, &alice);
    let approval = world.approve(challenge, &mut alice);
    let command = world.human_authorization(digest, vec![approval.clone()]);
    let honest = world.state.clone();
    // Something else was on the screen.
    let held = world.state.authority.challenges.get_mut(&challenge);
    let shown = &mut held.expect("open").canonical_summary.0;
    shown.push(b' ');
    assert_eq!(world.refused(command.clone()), Refusal::BadAssertion);
    // What changes is another intent, for which this approval says nothing.
    world.state = honest.clone();
    let change = revoke(&world, "agent");
    let other = world.freeze_change(change);
    assert_ne!(other, digest);
    let moved = world.human_authorization(other, vec![approval.clone()]);
    assert_eq!(world.refused(moved), Refusal::CandidateMismatch);
    world.state = honest;
    world.ok(command);
}

#[test]
fn fault_069_an_approval_ends_with_the_epoch_policy_and_mode_it_was_given_under() {
    type Change = fn(&mut redlatch_journal::authority::Governance);
    let changes: [(Change, Refusal); 5] = [
        (|g| g.organism_epoch += 1, Refusal::EpochFenced),
        (
            |g| g.epoch.autonomy_epoch = g.epoch.autonomy_epoch.next(),
            Refusal::EpochFenced,
        ),
        (
            |g| g.epoch.active_mode = Mode::HumanGated,
            Refusal::EpochFenced,
        ),
        (
            |g| g.constitution.human_approvals_required = 2,
            Refusal::EpochFenced,
        ),
        (
            |g| {
                let key = g
                    .human_keys
                    .values_mut()
                    .find(|k| k.key.subject_id == id("alice"));
                key.expect("enrolled").key.revoked_at_optional = Some(START);
            },
            Refusal::ApproverExcluded,
        ),
    ];
    let (mut world, digest) = waits_for_a_person();
    let mut alice = alice();
    let challenge = world.challenge(digest, &alice);
    let approval = world.approve(challenge, &mut alice);
    let command = world.human_authorization(digest, vec![approval]);
    let honest = world.state.clone();
    for (at, (change, expected)) in changes.into_iter().enumerate() {
        world.state = honest.clone();
        change(world.state.authority.governance.as_mut().expect("started"));
        assert_eq!(world.refused(command.clone()), expected, "change {at}");
    }
    world.state = honest;
    world.ok(command);
}

#[test]
fn fault_070_who_approved_follows_from_the_key_and_from_nothing_in_the_request() {
    let (mut world, digest) = waits_for_a_person();
    let (mut alice, mut bob) = (alice(), bob());
    let challenge = world.challenge(digest, &alice);
    // Bob's authenticator answers what Alice was asked, as himself and in her name.
    let as_himself = world.approve(challenge, &mut bob);
    let (hers, his) = (human_key("alice", OWNER), human_key("bob", DEPUTY));
    let as_her = HumanApprovalV1 {
        key_id: hers.id(),
        ..as_himself.clone()
    };
    let with_her_key = HumanApprovalV1 {
        public_key: hers.public_key,
        ..as_her.clone()
    };
    for approval in [as_himself, as_her, with_her_key] {
        let command = world.human_authorization(digest, vec![approval]);
        assert_eq!(world.refused(command), Refusal::BadAssertion);
    }
    let honest = world.approve(challenge, &mut alice);
    let renamed = HumanApprovalV1 {
        key_id: his.id(),
        ..honest.clone()
    };
    let command = world.human_authorization(digest, vec![renamed]);
    assert_eq!(world.refused(command), Refusal::BadAssertion);
    let command = world.human_authorization(digest, vec![honest]);
    world.ok(command);
    let Some(Event::Authorized(body)) = world.events.last() else {
        panic!("decided");
    };
    let Basis::Human(decision, _) = &body.basis else {
        panic!("{:?}", body.basis);
    };
    assert_eq!(decision.approvers, [id("alice")]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// One clock of three says anything, in 1970 or in 2106: time neither goes back nor runs
    /// ahead of the honest ones, and what has expired stays expired.
    #[test]
    fn fault_073_no_clock_revives_what_has_expired(script in proptest::collection::vec((0u8..3, any::<u64>()), 1..12)) {
        let mut world = World::new();
        let digest = world.freeze(MAIN, 0, 7);
        let id = world.prepare(digest);
        let mut honest = world.now() + limits::PREPARE_TTL_MS;
        world.tick(honest);
        for (liar, says) in script {
            honest += 7;
            let clocks = [1u8, 2, 3].map(|node| match node == liar + 1 {
                true => (node, says),
                false => (node, honest),
            });
            let before = world.now();
            let number = world.state.authority.clock.tick.next();
            let readings = world.readings(&clocks);
            world.ok(RawCommand::Tick(number, readings));
            prop_assert!(world.now() >= before);
            prop_assert!(world.now() <= honest);
            prop_assert_eq!(world.refused(RawCommand::Commit(id)), Refusal::Expired);
        }
    }
}

#[test]
fn fault_076_a_change_of_leader_gives_nothing_a_longer_life() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let id = world.prepare(digest);
    let end = world.now() + limits::PREPARE_TTL_MS;
    for term in 2..5 {
        // A new leader, a restart, and a little more of the same life.
        let at = EntryId {
            term,
            leader: term,
            index: 100 + term,
        };
        world
            .state
            .apply(at, &[RawCommand::Checkpoint.to_canonical()]);
        world.state = State::from_bytes(&world.state.to_bytes()).expect("its own bytes");
        world.tick(world.now() + limits::PREPARE_TTL_MS / 4);
    }
    let before = world.state.clone();
    world.tick(end - 1);
    world.ok(RawCommand::Commit(id));
    world.state = before;
    world.tick(end);
    assert_eq!(world.refused(RawCommand::Commit(id)), Refusal::Expired);
}

/// A command that holds to the last millisecond before `end`, and from then on does not.
fn ends_at(world: &mut World, command: &RawCommand, end: u64, refusal: Refusal) {
    let before = world.state.clone();
    world.tick(end - 1);
    let last = world.apply(command.clone());
    assert!(last.reply.is_ok(), "{:?} in its last moment", last.reply);
    world.state = before.clone();
    world.tick(end);
    assert_eq!(world.refused(command.clone()), refusal);
    world.state = before;
}

/// Only the time in the entries counts, and an end is an end to the millisecond on every replica.
#[test]
fn fault_077_every_end_is_judged_by_the_tick_before_it_and_to_the_millisecond() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let long = |world: &mut World, digest| {
        let mut green = world.green_record(digest);
        green.expires_at = green.issued_at + limits::VERDICT_TTL_MS_MAX;
        let votes = (0..3).map(|v| world.vote(digest, v, VoteVerdict::Approve));
        let votes = votes.collect();
        RawCommand::Authorize(Box::new(world.authorization_of(digest, green, votes)))
    };
    // The verdict, until the decision.
    let given = long(&mut world, digest);
    let end = world.now() + limits::VERDICT_TTL_MS_MAX;
    ends_at(&mut world, &given, end, Refusal::Expired);
    // The verdict, until PREPARE and COMMIT.
    let capability = world.authorize(digest);
    let end = world.now() + 5 * MINUTE;
    let prepare = RawCommand::Prepare(digest, capability);
    ends_at(&mut world, &prepare, end, Refusal::Expired);
    let id = match world.ok(prepare) {
        Accepted::Prepared(id) => id,
        other => panic!("{other:?}"),
    };
    let end = world.now() + limits::PREPARE_TTL_MS;
    ends_at(&mut world, &RawCommand::Commit(id), end, Refusal::Expired);
    let Accepted::Committed(marker) = world.ok(RawCommand::Commit(id)) else {
        panic!("committed");
    };
    // The effect, until its claim.
    let claim = world.claim(id, marker);
    let end = world.now() + 10 * MINUTE;
    ends_at(&mut world, &claim, end, Refusal::EffectLapsed);
    // The attempt of a stop, until it is prepared.
    let red = Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    let attempt = world.store_attempt(latch);
    let end = world.now() + limits::SAFETY_ATTEMPT_TTL_MS;
    let command = world.capability_command(&attempt, ACTUATOR);
    ends_at(&mut world, &command, end, Refusal::Expired);
}

#[test]
fn fault_077_a_challenge_is_answered_to_its_last_millisecond_and_no_later() {
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
    let end = world.now() + limits::CHALLENGE_TTL_MS;
    let before = world.state.clone();
    world.tick(end - 1);
    let last = world.human_authorization(digest, vec![approval.clone()]);
    world.ok(last);
    world.state = before;
    world.tick(end);
    let late = world.human_authorization(digest, vec![approval]);
    assert_eq!(world.refused(late), Refusal::UnknownChallenge);
}
