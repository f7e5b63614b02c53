//! Whole ballots, from four packets to the journal's own decision.

#![allow(clippy::unwrap_used, reason = "tests")]

mod world;

use redlatch_ballot::coordinator::{Abstention, AnswerFault};
use redlatch_ballot::messages::*;
use redlatch_ballot::verifier::Asked;
use redlatch_ballot::*;
use redlatch_types::event::Event;
use redlatch_types::in_force::{ActiveKeyV1, InForceV1};
use redlatch_types::records::*;
use redlatch_types::sign::{Record, preimage, verify};
use redlatch_types::*;
use world::journal::{SENTINEL, VERIFIERS, key};
use world::*;

#[test]
fn four_verifiers_decide_and_the_journal_mints() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let verdicts = court.ballot(&frozen, &approve, &[]);
    let authorization = verdicts.authorization.expect("a decision");
    assert_eq!(authorization.votes.len(), 4);
    let decision = &authorization.decision;
    let group = court.terms.quorum_key().unwrap().group_key;
    assert_eq!(decision.key, group);
    let message = preimage(
        AgentQuorumDecisionV1::TYPE,
        &decision.scope,
        &decision.digest(),
    );
    assert_eq!(verify(&group, &message, &decision.signature), Ok(()));
    court.accept(authorization);
    assert!(verdicts.blamed.is_empty());
}

#[test]
fn fault_045_the_group_signature_passes_the_one_strict_verify_and_one_changed_bit_does_not() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let decision = court
        .ballot(&frozen, &approve, &[])
        .authorization
        .unwrap()
        .decision;
    assert!(decision.open::<AgentQuorumDecisionV1>().is_ok());
    for at in 0..64 {
        let mut bad = decision.clone();
        bad.signature.0[at] ^= 1;
        assert!(bad.open::<AgentQuorumDecisionV1>().is_err(), "byte {at}");
    }
}

#[test]
fn one_dissent_is_kept_and_three_decide() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let dissent = |i: usize| if i == 2 { reject(i) } else { approve(i) };
    let authorization = court.ballot(&frozen, &dissent, &[]).authorization.unwrap();
    let signed = authorization
        .decision
        .open::<AgentQuorumDecisionV1>()
        .unwrap();
    let verdicts: Vec<_> = signed
        .record()
        .signed_votes_dissents
        .iter()
        .map(|v| v.verdict)
        .collect();
    let (yes, no) = (VoteVerdict::Approve, VoteVerdict::Reject);
    assert_eq!(verdicts, [yes, yes, no, yes]);
    court.accept(authorization);
}

#[test]
fn two_dissents_abstain() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let dissent = |i: usize| if i < 2 { reject(i) } else { approve(i) };
    let verdicts = court.ballot(&frozen, &dissent, &[]);
    assert_eq!(verdicts.abstained, Some(Abstention::InsufficientQuorum));
    assert!(verdicts.authorization.is_none());
}

#[test]
fn any_one_may_be_down_and_two_may_not() {
    for down in 0..4 {
        let mut court = Court::new();
        let frozen = court.freeze(1);
        let authorization = court
            .ballot(&frozen, &approve, &[down])
            .authorization
            .unwrap();
        assert_eq!(authorization.votes.len(), 3);
        court.accept(authorization);
    }
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let verdicts = court.ballot(&frozen, &approve, &[0, 3]);
    assert_eq!(verdicts.abstained, Some(Abstention::InsufficientQuorum));
}

#[test]
fn with_three_domains_only_one_of_the_pair_may_be_missing() {
    for (down, decides) in [(0, true), (1, true), (2, false), (3, false)] {
        let mut court = Court::with_domains(["east", "east", "south", "west"]);
        let frozen = court.freeze(1);
        let verdicts = court.ballot(&frozen, &approve, &[down]);
        if decides {
            court.accept(verdicts.authorization.unwrap());
        } else {
            let why = Some(Abstention::InsufficientIndependence);
            assert_eq!(verdicts.abstained, why, "{down} is down");
        }
    }
}

#[test]
fn without_the_sentinel_or_with_withheld_it_abstains_before_any_share() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let (mut coordinator, steps) = court.coordinator(&frozen, 1);
    let mut asked_to_sign = 0;
    let mut script = Script {
        evaluate: &approve,
        down: vec![],
        mute: vec![],
        sentinel: false,
        before: &mut |_, step| asked_to_sign += u32::from(matches!(step, Step::Sign { .. })),
        share: &mut |_, share| share,
    };
    let verdicts = court.drive(&frozen, &mut coordinator, steps, &mut script);
    assert_eq!(verdicts.abstained, Some(Abstention::SentinelRequired));
    assert_eq!(asked_to_sign, 0);

    let (mut coordinator, _) = court.coordinator(&frozen, 2);
    let mut record = court.world.green_record(frozen.digest());
    record.verdict = Verdict::Withheld;
    let withheld = Envelope::seal(court.world.scope(), &key(SENTINEL), &record);
    let steps = coordinator.handle_verdict(&withheld, 0).unwrap();
    assert_eq!(steps, [Step::Abstain(Abstention::SentinelRequired)]);
    let by_another = Envelope::seal(court.world.scope(), &key(VERIFIERS[0].1), &record);
    let (mut coordinator, _) = court.coordinator(&frozen, 3);
    assert_eq!(
        coordinator.handle_verdict(&by_another, 0),
        Err(AnswerFault::NotAVerdict)
    );
}

/// A share that was changed on its way and signed by its sender again.
fn falsified(court_scope: Scope, at: usize, share: &Envelope) -> Envelope {
    let mut record = share.open::<SignatureShareV1>().unwrap().record().clone();
    record.share.0[at] ^= 1;
    Envelope::seal(court_scope, &key(VERIFIERS[at].1), &record)
}

#[test]
fn a_bad_share_is_named_and_another_subset_succeeds_without_a_second_vote() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let scope = court.world.scope();
    let (mut coordinator, steps) = court.coordinator(&frozen, 1);
    let mut script = Script {
        evaluate: &approve,
        down: vec![],
        mute: vec![],
        sentinel: true,
        before: &mut |_, _| {},
        share: &mut |at, share| {
            if at == 2 {
                falsified(scope, at, &share)
            } else {
                share
            }
        },
    };
    let verdicts = court.drive(&frozen, &mut coordinator, steps, &mut script);
    assert_eq!(verdicts.blamed, [name(2)]);
    let authorization = verdicts.authorization.expect("the other three sign");
    assert_eq!(authorization.votes.len(), 4, "its vote still counts");
    court.accept(authorization);
}

#[test]
fn a_share_for_another_package_is_dropped_and_the_first_answer_counts() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let scope = court.world.scope();
    let (mut coordinator, steps) = court.coordinator(&frozen, 1);
    let packages = up_to_packages(&mut court, &frozen, &mut coordinator, steps);
    assert_eq!(packages.len(), 3);
    let mut last = Vec::new();
    for (to, package) in packages {
        let at = member(&to);
        let share = court.desks[at].sign(&package).unwrap();
        let mut other = share.open::<SignatureShareV1>().unwrap().record().clone();
        other.package_digest = Digest::ZERO;
        let other = Envelope::seal(scope, &key(VERIFIERS[at].1), &other);
        let dropped = coordinator.handle_share(&to, &other, 0);
        assert_eq!(dropped, Err(AnswerFault::OtherPackage));
        if at == 1 {
            // A bad share first: a good one after it does not undo it.
            let bad = falsified(scope, at, &share);
            assert_eq!(coordinator.handle_share(&to, &bad, 0), Ok(vec![]));
        }
        last = coordinator.handle_share(&to, &share, 0).unwrap();
    }
    let Some(Step::Blame(blame)) = last.first() else {
        panic!("{last:?}");
    };
    assert_eq!(blame.verifier_id, name(1));
    let evidence = blame.share.open::<SignatureShareV1>().unwrap();
    assert_eq!(evidence.record().package_digest, blame.package.digest());
}

/// Carries out steps, in any order, up to the first packages.
fn up_to_packages(
    court: &mut Court,
    frozen: &FrozenIntent,
    coordinator: &mut Coordinator,
    mut steps: Vec<Step>,
) -> Vec<(VerifierId, SigningPackageV1)> {
    let mut packages = Vec::new();
    while let Some(step) = steps.pop() {
        steps.extend(match step {
            Step::Ask { to, term } => {
                let at = member(&to);
                let answer = court.desks[at]
                    .packet(frozen, asked(term), approve(at))
                    .unwrap();
                coordinator.handle_sealed(&to, answer, 0).unwrap()
            }
            Step::Open { to, sheet } => {
                let vote = court.desks[member(&to)].open(&sheet).unwrap();
                coordinator.handle_opened(&to, &vote, 0).unwrap()
            }
            Step::Sentinel => {
                let green = court.green(frozen.digest());
                coordinator.handle_verdict(&green, 0).unwrap()
            }
            Step::Sign { to, package } => {
                packages.push((to, *package));
                Vec::new()
            }
            other => panic!("{other:?}"),
        });
    }
    packages.sort_by(|a, b| a.0.cmp(&b.0));
    packages
}

#[test]
fn two_bad_shares_leave_nobody_to_sign() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let scope = court.world.scope();
    let (mut coordinator, steps) = court.coordinator(&frozen, 1);
    let mut script = Script {
        evaluate: &approve,
        down: vec![],
        mute: vec![],
        sentinel: true,
        before: &mut |_, _| {},
        share: &mut |at, share| {
            if at >= 2 {
                falsified(scope, at, &share)
            } else {
                share
            }
        },
    };
    let verdicts = court.drive(&frozen, &mut coordinator, steps, &mut script);
    assert_eq!(verdicts.blamed, [name(2), name(3)]);
    assert_eq!(verdicts.abstained, Some(Abstention::InsufficientQuorum));
}

#[test]
fn a_member_that_restarts_before_signing_keeps_its_vote_and_commits_afresh() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let (mut coordinator, steps) = court.coordinator(&frozen, 1);
    let mut crashed = false;
    let mut script = Script {
        evaluate: &approve,
        down: vec![],
        mute: vec![],
        sentinel: true,
        before: &mut |court, step| {
            if matches!(step, Step::Sign { .. }) && !crashed {
                crashed = true;
                (0..4).for_each(|i| court.crash(i));
            }
        },
        share: &mut |_, share| share,
    };
    let verdicts = court.drive(&frozen, &mut coordinator, steps, &mut script);
    court.accept(verdicts.authorization.expect("after fresh commitments"));
    let issues = court.desks[1].disk.ballot(&frozen.digest()).unwrap().issues;
    assert_eq!(issues.len(), 2);
    assert!(issues[0].boot_generation < issues[1].boot_generation);
}

/// A ballot in which these members vote and answer no package.
fn with_mute(mute: &[usize]) -> (Court, Verdicts) {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let (mut coordinator, steps) = court.coordinator(&frozen, 1);
    let mut script = Script {
        evaluate: &approve,
        down: vec![],
        mute: mute.to_vec(),
        sentinel: true,
        before: &mut |_, _| {},
        share: &mut |_, share| share,
    };
    let verdicts = court.drive(&frozen, &mut coordinator, steps, &mut script);
    (court, verdicts)
}

#[test]
fn a_member_silent_at_signing_is_replaced_by_another_subset() {
    for silent in 0..4 {
        let (mut court, verdicts) = with_mute(&[silent]);
        let authorization = verdicts.authorization.expect("the other three sign");
        assert_eq!(authorization.votes.len(), 4);
        court.accept(authorization);
    }
}

#[test]
fn two_silent_at_signing_end_the_ballot() {
    let (_, verdicts) = with_mute(&[1, 2]);
    assert_eq!(verdicts.abstained, Some(Abstention::InsufficientQuorum));
}

#[test]
fn a_new_coordinator_adopts_the_sheet_it_finds() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    // The first coordinator saw three seals, had one of them opened, and died.
    let answers: Vec<_> = (0..3)
        .map(|i| {
            court.desks[i]
                .packet(&frozen, asked(1), approve(i))
                .unwrap()
        })
        .collect();
    let sheet = sheet_of(&frozen, &answers);
    court.desks[1].open(&sheet).unwrap();
    let (mut coordinator, steps) = court.coordinator(&frozen, 2);
    let mut script = Script {
        evaluate: &approve,
        down: vec![],
        mute: vec![],
        sentinel: true,
        before: &mut |_, _| {},
        share: &mut |_, share| share,
    };
    let verdicts = court.drive(&frozen, &mut coordinator, steps, &mut script);
    let authorization = verdicts.authorization.unwrap();
    assert_eq!(authorization.sheet, sheet);
    let late: Vec<_> = coordinator.late().map(|l| l.verifier_id.clone()).collect();
    assert_eq!(late, [name(3)], "the fourth came late and is shown");
    court.accept(authorization);
}

#[test]
fn two_opened_sheets_that_exclude_each_other_end_the_ballot() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let answers = court.seals(&frozen, approve);
    let one = sheet_of(&frozen, &answers[..3]);
    let other = sheet_of(&frozen, &answers[1..]);
    court.desks[1].open(&one).unwrap();
    court.desks[2].open(&other).unwrap();
    let (mut coordinator, steps) = court.coordinator(&frozen, 2);
    let mut script = Script {
        evaluate: &approve,
        down: vec![],
        mute: vec![],
        sentinel: true,
        before: &mut |_, _| {},
        share: &mut |_, share| share,
    };
    let verdicts = court.drive(&frozen, &mut coordinator, steps, &mut script);
    assert_eq!(verdicts.abstained, Some(Abstention::InsufficientQuorum));
}

#[test]
fn a_sheet_opened_behind_the_coordinators_back_is_adopted() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let (mut coordinator, steps) = court.coordinator(&frozen, 1);
    let mut raced = false;
    let mut script = Script {
        evaluate: &approve,
        down: vec![],
        mute: vec![],
        sentinel: true,
        before: &mut |court, step| {
            if let Step::Open { .. } = step
                && !raced
            {
                raced = true;
                let answers = court.seals(&frozen, approve);
                let theirs = sheet_of(&frozen, &answers[..3]);
                court.desks[0].open(&theirs).unwrap();
            }
        },
        share: &mut |_, share| share,
    };
    let verdicts = court.drive(&frozen, &mut coordinator, steps, &mut script);
    // The first Open found the other sheet while nobody had opened ours.
    let authorization = verdicts.authorization.expect("adopted");
    assert_eq!(authorization.sheet.seals.len(), 3);
    court.accept(authorization);
}

#[test]
fn a_changed_roster_ends_the_ballot_as_stale() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let mut roster = court.terms.roster().clone();
    roster.roster_epoch = RosterEpoch(2);
    let later = court.terms.clone().with_roster(roster).unwrap();
    let (mut coordinator, steps) = court.coordinator(&frozen, 1);
    let mut script = Script {
        evaluate: &approve,
        down: vec![],
        mute: vec![],
        sentinel: true,
        before: &mut |court, step| {
            if matches!(step, Step::Sign { .. }) {
                for desk in &mut court.desks {
                    let key = court.terms.quorum_key().unwrap().clone();
                    let share = desk.sealed_share().unwrap().activate(&key).unwrap();
                    let machine = desk.machine.as_mut().unwrap();
                    machine.adopt(later.clone(), Some(share));
                }
            }
        },
        share: &mut |_, share| share,
    };
    let verdicts = court.drive(&frozen, &mut coordinator, steps, &mut script);
    assert_eq!(verdicts.abstained, Some(Abstention::StaleRoster));
}

/// What is in force in the journal of this court.
fn in_force(court: &Court) -> InForceV1 {
    let Event::Bootstrapped(genesis, _) = &court.world.events[0] else {
        panic!("it begins with the genesis");
    };
    let key = court.terms.quorum_key().unwrap();
    InForceV1 {
        quorum_key: Some(ActiveKeyV1 {
            epoch: key.epoch,
            group_key: key.group_key,
            public_key_package_digest: key.public_key_package_digest,
        }),
        ..InForceV1::of_genesis(genesis)
    }
}

#[test]
fn a_vote_is_cast_under_the_terms_in_force_and_in_the_own_seat_only() {
    type Change = fn(&mut InForceV1);
    let changes: [(&str, Change, bool); 5] = [
        ("nothing", |_| {}, true),
        (
            "another constitution",
            |it| {
                it.constitution
                    .objectives_non_goals
                    .push(Text::lossy("more"))
            },
            false,
        ),
        (
            "another independence rule",
            |it| {
                let spec = &mut it.constitution.independence_spec;
                spec.blind_isolation_policy_digest = Digest::of(b"another");
            },
            false,
        ),
        (
            "another key in the seat",
            |it| it.roster.verifiers[0].vote_key = key(201).public_key(),
            false,
        ),
        (
            "another verifier in the seat",
            |it| it.roster.verifiers[0].verifier_id = "vz".parse().unwrap(),
            false,
        ),
    ];
    for (what, change, votes) in changes {
        let mut court = Court::new();
        let frozen = court.freeze(1);
        let mut known = in_force(&court);
        change(&mut known);
        let terms = Terms::in_force(&known).unwrap();
        let desk = &mut court.desks[0];
        let share = desk.sealed_share().unwrap();
        let share = share.activate(terms.quorum_key().unwrap()).unwrap();
        desk.machine.as_mut().unwrap().adopt(terms, Some(share));
        let asked = Asked {
            term: 1,
            fresh: Digest::of(b"fresh"),
        };
        let said = desk.packet(&frozen, asked, approve(0));
        let expected = (!votes).then_some(Refused::StaleRoster);
        assert_eq!(said.err(), expected, "{what}");
    }
}

#[test]
fn the_public_key_package_must_be_the_one_in_force() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let mut public = court.public.clone();
    public.verifying_shares.swap(0, 1);
    let result = Coordinator::begin(court.terms.clone(), frozen, &public, 1, DEADLINES);
    assert_eq!(result.err(), Some(AnswerFault::OtherKey));
}
