//! The decision: GREEN, votes, sheet, group signature, and every way to be refused.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with its reason in sight"
)]

use super::world::*;
use redlatch_types::command::{Authorization, RawCommand};
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::*;
use redlatch_types::*;

fn authorize(given: Authorization) -> RawCommand {
    RawCommand::Authorize(Box::new(given))
}

#[test]
fn a_vote_needs_its_voters_signature() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let mut given = world.authorization(digest, &approvals());
    given.votes[0].signature.0[3] ^= 1;
    assert_eq!(world.refused(authorize(given)), Refusal::BadSignature);
    // Signed by another verifier's key, and by a key that is no verifier's.
    for n in [21, 77] {
        let mut given = world.authorization(digest, &approvals());
        let vote = VoteV1::from_canonical(&given.votes[0].body.0).unwrap();
        given.votes[0] = Envelope::seal(world.scope(), &key(n), &vote);
        assert_eq!(world.refused(authorize(given)), Refusal::Unauthorized);
    }
}

#[test]
pub(super) fn q3_three_of_four_in_three_domains_and_no_label_counts_twice() {
    use VoteVerdict::{Approve, Reject};
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let short: [&[(usize, VoteVerdict)]; 4] = [
        &[(0, Approve), (1, Approve)],
        &[(0, Approve), (1, Approve), (2, Reject)],
        &[(0, Approve), (1, Approve), (2, Reject), (3, Reject)],
        &[],
    ];
    for verdicts in short {
        let given = world.authorization(digest, verdicts);
        assert_eq!(world.refused(authorize(given)), Refusal::InsufficientQuorum);
    }
    // FAULTS 43: the same vote again does not make a third.
    let given = world.authorization(digest, &[(0, Approve), (1, Approve), (1, Approve)]);
    assert_eq!(world.refused(authorize(given)), Refusal::InsufficientQuorum);
    // A dissent is counted and kept.
    let given = world.authorization(
        digest,
        &[(0, Approve), (1, Reject), (2, Approve), (3, Approve)],
    );
    world.ok(authorize(given));
    let Some(Event::Authorized(body)) = world.events.last() else {
        panic!()
    };
    assert_eq!(body.votes().len(), 4);
}

#[test]
pub(super) fn m1_l1_two_domains_are_not_three() {
    let mut parties = parties();
    parties.verifiers[1].failure_domain = id("east");
    let mut world = World::before_genesis();
    world.ok(seal_genesis(&redlatch_journal::development::genesis(
        parties,
    )));
    world.tick(START + 1_000);
    let confirmations = world.key_confirmations(|_, _| {});
    world.ok(RawCommand::ActivateQuorumKey(confirmations));
    let digest = world.freeze(MAIN, 0, 7);
    let given = world.authorization(digest, &approvals());
    assert_eq!(
        world.refused(authorize(given)),
        Refusal::InsufficientIndependence
    );
    use VoteVerdict::Approve;
    let given = world.authorization(digest, &[(0, Approve), (2, Approve), (3, Approve)]);
    world.ok(authorize(given));
}

/// Whatever the constitution in force has come to ask for, a decision stays above the kernel's floors.
#[test]
fn m1_l1_a_decision_keeps_the_kernels_floors_under_a_constitution_below_them() {
    use VoteVerdict::Approve;
    type Change = fn(&mut redlatch_journal::authority::Governance);
    type Votes = &'static [(usize, VoteVerdict)];
    let below: [(Change, Votes, Refusal); 2] = [
        (
            |g| g.constitution.independence_spec.quorum_threshold = 2,
            &[(0, Approve), (1, Approve)],
            Refusal::InsufficientQuorum,
        ),
        (
            |g| {
                g.constitution.independence_spec.minimum_failure_domains = 2;
                g.roster.verifiers[1].failure_domain = id("east");
            },
            &[(0, Approve), (1, Approve), (2, Approve)],
            Refusal::InsufficientIndependence,
        ),
    ];
    for (change, votes, expected) in below {
        let mut world = World::new();
        let governance = world.state.authority.governance.as_mut().unwrap();
        change(governance);
        governance.epoch.constitution_digest = governance.constitution.digest();
        let digest = world.freeze(MAIN, 0, 7);
        let given = world.authorization(digest, votes);
        assert_eq!(world.refused(authorize(given)), expected);
    }
}

#[test]
pub(super) fn fault_031_only_votes_of_the_sheet_count_and_all_of_them() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let mut missing_line = world.authorization(digest, &approvals());
    missing_line.sheet.seals.remove(0);
    assert_eq!(
        world.refused(authorize(missing_line)),
        Refusal::InsufficientQuorum
    );
    let mut other_seal = world.authorization(digest, &approvals());
    other_seal.sheet.seals[0].seal = digest_of_other();
    assert_eq!(
        world.refused(authorize(other_seal)),
        Refusal::InsufficientQuorum
    );
    let mut unsorted = world.authorization(digest, &approvals());
    unsorted.sheet.seals.reverse();
    assert_eq!(
        world.refused(authorize(unsorted)),
        Refusal::InsufficientQuorum
    );
    let mut unopened = world.authorization(
        digest,
        &[
            (0, VoteVerdict::Approve),
            (1, VoteVerdict::Approve),
            (2, VoteVerdict::Approve),
            (3, VoteVerdict::Reject),
        ],
    );
    unopened.votes.pop();
    assert_eq!(
        world.refused(authorize(unopened)),
        Refusal::InsufficientQuorum
    );
}

fn digest_of_other() -> Digest {
    digest("other")
}

#[test]
fn votes_for_another_intent_or_epoch_do_not_count() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let other = world.freeze("refs/heads/side", 0, 8);
    type Case = (Refusal, fn(&mut VoteV1, IntentDigest));
    let cases: &[Case] = &[
        (Refusal::InsufficientQuorum, |v, other| {
            v.intent_digest = other
        }),
        (Refusal::StaleRoster, |v, _| v.roster_epoch = RosterEpoch(2)),
        (Refusal::StaleRoster, |v, _| {
            v.quorum_key_epoch = KeyEpoch(2)
        }),
    ];
    for (expected, change) in cases {
        let green = world.green_record(digest);
        let mut votes: Vec<_> = (0..3)
            .map(|v| world.vote(digest, v, VoteVerdict::Approve))
            .collect();
        change(&mut votes[0], other);
        let given = world.authorization_of(digest, green, votes);
        assert_eq!(world.refused(authorize(given)), *expected);
    }
}

#[test]
pub(super) fn fault_035_the_decision_must_be_the_one_that_follows_from_the_votes() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    type Change = fn(&mut AgentQuorumDecisionV1);
    let changes: &[Change] = &[
        |d| d.expires_at += 1,
        |d| d.quorum_threshold = 2,
        |d| d.signed_votes_dissents[0].verdict = VoteVerdict::Reject,
        |d| d.binding.executor_subject_id_optional = None,
        |d| d.binding.autonomy_epoch = AutonomyEpoch(9),
        |d| d.seal_sheet_digest = digest_of_other(),
        |d| d.sentinel_verdict_digest = digest_of_other(),
        |d| d.applicable_grant_id = GrantId(digest_of_other()),
    ];
    for change in changes {
        let mut given = world.authorization(digest, &approvals());
        let mut decision = AgentQuorumDecisionV1::from_canonical(&given.decision.body.0).unwrap();
        change(&mut decision);
        given.decision = Envelope::seal(world.scope(), &key(GROUP), &decision);
        assert_eq!(world.refused(authorize(given)), Refusal::CandidateMismatch);
    }
    // The right decision under another key.
    let mut given = world.authorization(digest, &approvals());
    let decision = AgentQuorumDecisionV1::from_canonical(&given.decision.body.0).unwrap();
    given.decision = Envelope::seal(world.scope(), &key(20), &decision);
    assert_eq!(world.refused(authorize(given)), Refusal::InsufficientQuorum);
}

#[test]
pub(super) fn m1_i22_without_a_valid_current_green_nothing_is_decided() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    type Case = (Refusal, fn(&mut SentinelVerdictV1));
    let cases: &[Case] = &[
        (Refusal::SentinelRequired, |v| v.verdict = Verdict::Withheld),
        (Refusal::SentinelRequired, |v| {
            v.intent_digest = IntentDigest(digest_of_other())
        }),
        (Refusal::SentinelRequired, |v| {
            v.intent_core_ref = IntentDigest(digest_of_other())
        }),
        (Refusal::SentinelRequired, |v| {
            v.intent_canonicalization_version = 2
        }),
        (Refusal::SentinelRequired, |v| {
            v.sentinel_identity_key_binary_policy_digest = digest_of_other();
        }),
        (Refusal::SentinelRequired, |v| {
            v.metric_evidence_rollback_digest = digest_of_other()
        }),
        (Refusal::SentinelRequired, |v| {
            v.risk_scope_digest = digest_of_other()
        }),
        (Refusal::SentinelRequired, |v| {
            v.candidate_digest_optional = None
        }),
        (Refusal::SentinelRequired, |v| {
            v.constitution_epoch = ConstitutionEpoch(2)
        }),
        (Refusal::SentinelRequired, |v| {
            v.autonomy_epoch = AutonomyEpoch(1)
        }),
        (Refusal::SentinelRequired, |v| v.issued_at = START - 1),
        (Refusal::TimeStale, |v| v.issued_at += 1),
        (Refusal::TimeStale, |v| v.expires_at += 11 * MINUTE),
        (Refusal::Expired, |v| v.expires_at = v.issued_at),
    ];
    for (i, (expected, change)) in cases.iter().enumerate() {
        let mut green = world.green_record(digest);
        change(&mut green);
        let votes = (0..3)
            .map(|v| world.vote(digest, v, VoteVerdict::Approve))
            .collect();
        let given = world.authorization_of(digest, green, votes);
        assert_eq!(world.refused(authorize(given)), *expected, "case {i}");
    }
    let mut given = world.authorization(digest, &approvals());
    let verdict = SentinelVerdictV1::from_canonical(&given.green.body.0).unwrap();
    given.green = Envelope::seal(world.scope(), &key(ACTUATOR), &verdict);
    assert_eq!(world.refused(authorize(given)), Refusal::SentinelRequired);
}

#[test]
pub(super) fn m1_i33_one_intent_has_one_decision() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let first = world.authorization(digest, &approvals());
    world.ok(authorize(first.clone()));
    let repeat = world.apply(authorize(first));
    assert!(repeat.reply.is_ok() && repeat.events.is_empty());
    let second = world.authorization(digest, &approvals());
    assert_eq!(world.refused(authorize(second)), Refusal::AlreadySpent);
}

#[test]
fn m1_i25_a_human_gated_intent_is_not_decided_by_the_quorum() {
    let mut record = redlatch_journal::development::genesis(parties());
    record.activations.truncate(1);
    for grant in &mut record.grants {
        grant.mode = Mode::HumanGated;
        grant.autonomy_epoch = AutonomyEpoch(1);
    }
    record.activations[0].grants_digest = grants_digest(record.grants.iter());
    let mut world = World::before_genesis();
    world.ok(seal_genesis(&record));
    world.tick(START + 1_000);
    let confirmations = world.key_confirmations(|_, _| {});
    world.ok(RawCommand::ActivateQuorumKey(confirmations));
    let digest = world.freeze(MAIN, 0, 7);
    let given = world.authorization(digest, &approvals());
    assert_eq!(world.refused(authorize(given)), Refusal::WrongVariant);
}

#[test]
fn a_freeze_and_its_decision_never_share_an_entry() {
    let mut world = World::new();
    let proposal = world.proposal("agent", MAIN, 0, 7);
    let freeze = world.freeze_command(AGENT, "agent", &proposal);
    let before = world.state.clone();
    let Accepted::Frozen(digest) = world.ok(freeze.clone()) else {
        panic!()
    };
    let given = authorize(world.authorization(digest, &approvals()));
    world.state = before;
    let outcomes = world.apply_together(vec![freeze, given.clone()]);
    assert!(outcomes[0].reply.is_ok());
    assert_eq!(outcomes[1].reply, Err(Refusal::TooEarly));
    world.ok(given);
}

#[test]
fn m1_i12_whoever_has_a_role_in_the_intent_does_not_vote_on_it() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let live = world.state.authority.intents.get_mut(&digest).unwrap();
    live.intent.promotion_target_subject_id_optional = Some(id("va"));
    let given = world.authorization(digest, &approvals());
    assert_eq!(world.refused(authorize(given)), Refusal::SelfAuthorization);
}

#[test]
fn fault_043_one_voter_under_two_lines_is_not_two() {
    use VoteVerdict::Approve;
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let mut given = world.authorization(digest, &[(0, Approve), (1, Approve), (2, Approve)]);
    given.votes[2] = given.votes[1].clone();
    assert_eq!(world.refused(authorize(given)), Refusal::InsufficientQuorum);
}

#[test]
fn a_sheet_or_a_vote_made_for_something_else_does_not_count() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let mut given = world.authorization(digest, &approvals());
    given.sheet.intent_digest = IntentDigest(digest_of_other());
    assert_eq!(world.refused(authorize(given)), Refusal::InsufficientQuorum);
    // A vote and a decision of another organism epoch.
    let mut scope = world.scope();
    scope.organism_epoch = 2;
    let mut given = world.authorization(digest, &approvals());
    let vote = VoteV1::from_canonical(&given.votes[0].body.0).unwrap();
    given.votes[0] = Envelope::seal(scope, &key(20), &vote);
    assert_eq!(world.refused(authorize(given)), Refusal::WrongOrganism);
    let mut given = world.authorization(digest, &approvals());
    let decision = AgentQuorumDecisionV1::from_canonical(&given.decision.body.0).unwrap();
    given.decision = Envelope::seal(scope, &key(GROUP), &decision);
    assert_eq!(world.refused(authorize(given)), Refusal::WrongOrganism);
}

#[test]
pub(super) fn m1_l16_a_quorum_decision_is_labelled_quorum_ratified() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    world.authorize(digest);
    let Some(Event::Authorized(body)) = world.events.last() else {
        panic!()
    };
    assert_eq!(body.decision.label, RatificationLabel::QuorumRatified);
    assert_eq!(body.decision.authority_kind, AuthorityVariant::AgentQuorum);
}

/// A decision lists votes by voter, in whatever order they came.
#[test]
fn votes_come_in_any_order() {
    let mut world = World::new();
    let digest = world.freeze(MAIN, 0, 7);
    let mut given = world.authorization(digest, &approvals());
    given.votes.reverse();
    world.ok(authorize(given));
}
