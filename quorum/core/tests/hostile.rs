//! Hostile coordinators and fellows against an honest verifier (FAULTS 31, 32, 35, 42, 43).

#![allow(clippy::unwrap_used, reason = "tests")]

mod world;

use redlatch_ballot::coordinator::AnswerFault;
use redlatch_ballot::messages::*;
use redlatch_ballot::tally::TallyFault;
use redlatch_ballot::terms::{BadTerms, FreezeMismatch};
use redlatch_ballot::verifier::{ISSUES_MAX, SESSIONS_OPEN_MAX};
use redlatch_ballot::*;
use redlatch_types::records::*;
use redlatch_types::*;
use world::journal::{AGENT, MINUTE, SENTINEL, VERIFIERS, key};
use world::*;

/// The subset {1, 2, 3}.
fn first_three() -> Subset {
    Subset::without(4).unwrap()
}

fn resign<T: Record + Clone>(envelope: &Envelope, by: u8, change: impl FnOnce(&mut T)) -> Envelope {
    let mut record = T::from_canonical(&envelope.body.0).unwrap();
    change(&mut record);
    Envelope::seal(envelope.scope, &key(by), &record)
}

#[test]
fn fault_031_a_sealed_answer_shows_nothing_of_the_verdict() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    for (at, evaluation) in [(0, approve(0)), (1, reject(1))] {
        let answer = court.desks[at]
            .packet(&frozen, asked(1), evaluation)
            .unwrap();
        let said = answer.to_canonical();
        let stored = court.desks[at].disk.ballot(&frozen.digest()).unwrap();
        let vote = VoteV1::from_canonical(&stored.vote.body.0).unwrap();
        for hidden in [vote.salt.0, vote.findings_digest.0] {
            assert!(!said.windows(32).any(|w| w == hidden));
        }
    }
}

#[test]
fn fault_031_equal_votes_of_two_verifiers_and_of_two_intents_have_different_seals() {
    let mut court = Court::new();
    let one = court.freeze(1);
    let answers = court.seals(&one, approve);
    let mut seals: Vec<_> = answers.iter().map(|a| a.sealed.seal).collect();
    seals.sort();
    seals.dedup();
    assert_eq!(seals.len(), 4);
}

#[test]
fn fault_031_a_copied_seal_is_refused_by_coordinator_and_verifier() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let mut answers = court.seals(&frozen, approve);
    let (mut coordinator, _) = court.coordinator(&frozen, 1);
    coordinator
        .handle_sealed(&name(0), answers[0].clone(), 0)
        .unwrap();
    // As it is: the seal names va and va's key.
    let as_it_is = coordinator.handle_sealed(&name(3), answers[0].clone(), 0);
    assert_eq!(as_it_is, Err(AnswerFault::NotAuthorised));
    // Under the copier's own name: the signature over the digest it can make itself.
    let stolen = resign::<VoteV1>(
        &court.desks[0].disk.ballot(&frozen.digest()).unwrap().vote,
        VERIFIERS[3].1,
        |_| {},
    );
    let copy = SealedAnswerV1 {
        sealed: SealedVoteV1::of(&stolen, name(3)),
        commitments: None,
        opened_sheet: None,
    };
    assert_eq!(copy.sealed.seal, answers[0].sealed.seal);
    let copied = coordinator.handle_sealed(&name(3), copy.clone(), 0);
    assert_eq!(copied, Err(AnswerFault::CopiedSeal));
    answers[3] = copy;
    let sheet = sheet_of(&frozen, &answers);
    assert_eq!(court.desks[1].open(&sheet), Err(Refused::BadSheet));
}

#[test]
fn fault_031_a_verifier_opens_one_sheet_and_only_with_its_own_seal_in_it() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let answers = court.seals(&frozen, approve);
    let good = sheet_of(&frozen, &answers);
    let mut cases = vec![
        ("without me", sheet_of(&frozen, &answers[1..])),
        ("two lines", sheet_of(&frozen, &answers[..2])),
    ];
    let mut change = |what, f: &dyn Fn(&mut SealSheetV1)| {
        let mut sheet = good.clone();
        f(&mut sheet);
        cases.push((what, sheet));
    };
    change("my seal changed", &|s| s.seals[0].seal = Digest::ZERO);
    change("order", &|s| s.seals.swap(1, 2));
    change("twice", &|s| s.seals[2] = s.seals[1].clone());
    change("a stranger", &|s| {
        s.seals[3].verifier_id = "zz".parse().unwrap();
    });
    for (what, sheet) in cases {
        assert_eq!(
            court.desks[0].open(&sheet),
            Err(Refused::BadSheet),
            "{what}"
        );
    }
    let mut other_intent = good.clone();
    other_intent.intent_digest = IntentDigest(Digest::ZERO);
    assert_eq!(
        court.desks[0].open(&other_intent),
        Err(Refused::UnknownIntent)
    );
    let vote = court.desks[0].open(&good).unwrap();
    assert_eq!(court.desks[0].open(&good).unwrap(), vote, "a repeat");
    court.crash(0);
    let smaller = sheet_of(&frozen, &answers[..3]);
    let refused = court.desks[0].open(&smaller);
    assert_eq!(refused, Err(Refused::AlreadyOpened(Box::new(good.clone()))));
    assert_eq!(court.desks[0].open(&good).unwrap(), vote, "after a restart");
}

#[test]
fn fault_031_an_opening_under_another_name_is_refused() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let answers = court.seals(&frozen, approve);
    let (mut coordinator, _) = court.coordinator(&frozen, 1);
    for (i, answer) in answers.iter().enumerate() {
        coordinator
            .handle_sealed(&name(i), answer.clone(), 0)
            .unwrap();
    }
    let sheet = coordinator.sheet().unwrap().clone();
    let of_zero = court.desks[0].open(&sheet).unwrap();
    assert_eq!(
        coordinator.handle_opened(&name(1), &of_zero, 0),
        Err(AnswerFault::NotAuthorised)
    );
    let changed = resign::<VoteV1>(&of_zero, VERIFIERS[0].1, |v| {
        v.verdict = VoteVerdict::Reject;
    });
    assert_eq!(
        coordinator.handle_opened(&name(0), &changed, 0),
        Err(AnswerFault::NotTheSeal)
    );
}

#[test]
fn one_vote_per_intent_stands_whatever_is_asked_again() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let first = court.desks[0]
        .packet(&frozen, asked(1), approve(0))
        .unwrap();
    let again = court.desks[0].packet(&frozen, asked(1), reject(0)).unwrap();
    assert_eq!(again, first, "the same answer, byte for byte");
    court.crash(0);
    let later = court.desks[0].packet(&frozen, asked(1), reject(0)).unwrap();
    assert_eq!(later.sealed, first.sealed);
    assert_ne!(later.commitments, first.commitments);
    let higher = court.desks[0].packet(&frozen, asked(2), reject(0)).unwrap();
    assert_eq!(higher.sealed, first.sealed);
    assert_ne!(higher.commitments, later.commitments);
    let lower = court.desks[0].packet(&frozen, asked(1), reject(0)).unwrap();
    assert_eq!(lower, higher, "an old coordinator gets no fresh nonces");
}

#[test]
fn commitments_are_issued_at_most_eight_times_per_intent() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let mut seen = Vec::new();
    for term in 1..20 {
        let answer = court.desks[0]
            .packet(&frozen, asked(term), approve(0))
            .unwrap();
        if term % 3 == 0 {
            court.crash(0);
        }
        seen.extend(answer.commitments.map(|c| c.digest()));
    }
    seen.dedup();
    assert_eq!(seen.len(), ISSUES_MAX);
    let issues = court.desks[0].disk.ballot(&frozen.digest()).unwrap().issues;
    assert_eq!(issues.len(), ISSUES_MAX);
}

#[test]
fn open_ballots_are_bounded_and_closing_one_makes_room() {
    let mut court = Court::new();
    let mut frozen = Vec::new();
    for n in 0..=SESSIONS_OPEN_MAX {
        let digest = court.world.freeze(&format!("refs/heads/b{n}"), 0, 1);
        frozen.push(court.frozen(digest));
    }
    let (last, first) = frozen.split_last().unwrap();
    for one in first {
        court.desks[0].packet(one, asked(1), approve(0)).unwrap();
    }
    let refused = court.desks[0].packet(last, asked(1), approve(0));
    assert_eq!(refused, Err(Refused::LimitExceeded));
    let machine = court.desks[0].machine.as_mut().unwrap();
    machine.close(&first[0].digest());
    court.desks[0].packet(last, asked(1), approve(0)).unwrap();
}

/// Crash after the first `kept` effects of the answer to the first package.
fn share_after_crash(kept: usize) -> (Court, SigningPackageV1, Option<Envelope>) {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let package = court.package(&frozen, first_three(), approve);
    let stored = court.desks[1].disk.ballot(&frozen.digest());
    let machine = court.desks[1].machine.as_mut().unwrap();
    let mut effects = machine.sign(&package, stored.as_ref()).unwrap();
    effects.truncate(kept);
    let said = court.desks[1].carry_out(effects).pop().map(|a| match a {
        Answer::Share(share) => share,
        other => panic!("{other:?}"),
    });
    court.crash(1);
    (court, package, said)
}

#[test]
fn fault_032_a_nonce_is_dead_after_a_crash_at_every_step() {
    for kept in 0..=2 {
        let (mut court, package, said) = share_after_crash(kept);
        assert_eq!(said.is_some(), kept == 2);
        let mut other = package.clone();
        other.green = court.green(package.intent_digest);
        assert_ne!(other.digest(), package.digest());
        // Another message for the same commitments: never, before or after the share was kept.
        assert_eq!(court.desks[1].sign(&other), Err(Refused::AlreadySpent));
        let repeat = court.desks[1].sign(&package);
        if kept == 0 {
            assert_eq!(repeat, Err(Refused::AlreadySpent), "the share was not kept");
        } else {
            let again = repeat.expect("a kept share is the only answer to its package");
            assert!(said.is_none_or(|s| s == again));
        }
    }
}

#[test]
fn fault_032_a_crash_before_the_vote_is_durable_leaves_no_vote_and_no_nonce() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    for kept in 0..=1 {
        let desk = &mut court.desks[0];
        let stored = desk.disk.ballot(&frozen.digest());
        let machine = desk.machine.as_mut().unwrap();
        let mut effects = match machine
            .handle_packet(&frozen, asked(1), stored.as_ref(), &mut desk.rng)
            .unwrap()
        {
            Next::Evaluate => machine
                .cast(&frozen, approve(0), asked(1), None, &mut desk.rng)
                .unwrap(),
            Next::Effects(effects) => effects,
        };
        assert!(matches!(effects[0], VerifierEffect::Persist(_)));
        assert!(matches!(effects[1], VerifierEffect::Send(_)));
        effects.truncate(kept);
        assert!(desk.carry_out(effects).is_empty());
        court.crash(0);
        let known = court.desks[0].disk.ballot(&frozen.digest());
        assert_eq!(known.is_some(), kept == 1);
    }
}

#[test]
fn fault_032_one_nonce_answers_one_package_while_running() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let package = court.package(&frozen, first_three(), approve);
    let share = court.desks[0].sign(&package).unwrap();
    assert_eq!(court.desks[0].sign(&package), Ok(share), "byte-identical");
    let mut other = package.clone();
    other.green = court.green(frozen.digest());
    assert_eq!(court.desks[0].sign(&other), Err(Refused::AlreadySpent));
    // The same commitments under another subset have another nonce, which is alive; but the
    // subset's own members did not commit.
    let mut moved = package;
    moved.subset = Subset::without(3).unwrap();
    assert_eq!(court.desks[0].sign(&moved), Err(Refused::BadSignature));
}

/// Every way to alter a package, with what the verifier says to it.
type Tamper = fn(&mut Court, &mut SigningPackageV1);

/// Of the commitments, the sheet and the votes.
fn tampers() -> Vec<(&'static str, Tamper, Refused)> {
    vec![
        (
            "a commitment by another key",
            |_, p| {
                p.commitments[2] = resign::<SigningCommitmentsV1>(&p.commitments[2], AGENT, |_| {})
            },
            Refused::BadSignature,
        ),
        (
            "a commitment changed on its way",
            |_, p| {
                let mut record =
                    SigningCommitmentsV1::from_canonical(&p.commitments[1].body.0).unwrap();
                record.commitments.swap(0, 1);
                p.commitments[1].body = Bytes(record.to_canonical());
            },
            Refused::BadSignature,
        ),
        (
            "commitments in another order",
            |_, p| p.commitments.swap(1, 2),
            Refused::BadSignature,
        ),
        (
            "one member for another",
            |_, p| p.commitments[2] = p.commitments[1].clone(),
            Refused::BadSignature,
        ),
        (
            "two signers",
            |_, p| {
                p.commitments.pop();
            },
            Refused::BadPackage,
        ),
        (
            "commitments of another quorum key (FAULTS 42)",
            |_, p| {
                p.commitments[2] =
                    resign::<SigningCommitmentsV1>(&p.commitments[2], VERIFIERS[2].1, |c| {
                        c.quorum_key_epoch = KeyEpoch(2)
                    });
            },
            Refused::StaleRoster,
        ),
        (
            "commitments for another vote",
            |_, p| {
                p.commitments[2] =
                    resign::<SigningCommitmentsV1>(&p.commitments[2], VERIFIERS[2].1, |c| {
                        c.vote_digest = Digest::ZERO
                    });
            },
            Refused::BadPackage,
        ),
        (
            "another sheet",
            |_, p| {
                p.sheet.seals.pop();
                p.votes.pop();
            },
            Refused::BadSheet,
        ),
        (
            "a vote left out",
            |_, p| {
                p.votes.pop();
            },
            Refused::Tally(TallyFault::Missing),
        ),
        (
            "votes in another order",
            |_, p| p.votes.swap(0, 1),
            Refused::BadPackage,
        ),
        (
            "one vote twice",
            |_, p| p.votes[1] = p.votes[0].clone(),
            Refused::BadPackage,
        ),
        (
            "a verdict turned, signed by its own verifier",
            |_, p| {
                p.votes[3] = resign::<VoteV1>(&p.votes[3], VERIFIERS[3].1, |v| {
                    v.verdict = VoteVerdict::Reject;
                });
            },
            Refused::Tally(TallyFault::NotOfTheSheet),
        ),
        (
            "a verdict turned on its way",
            |_, p| {
                let mut vote = VoteV1::from_canonical(&p.votes[3].body.0).unwrap();
                vote.verdict = VoteVerdict::Reject;
                p.votes[3].body = Bytes(vote.to_canonical());
            },
            Refused::BadSignature,
        ),
        (
            "a vote by another key",
            |_, p| p.votes[2] = resign::<VoteV1>(&p.votes[2], AGENT, |_| {}),
            Refused::Tally(TallyFault::Unauthorized),
        ),
        (
            "another organism's vote",
            |_, p| {
                let vote = VoteV1::from_canonical(&p.votes[2].body.0).unwrap();
                let scope = Scope {
                    organism_epoch: 2,
                    ..p.votes[2].scope
                };
                p.votes[2] = Envelope::seal(scope, &key(VERIFIERS[2].1), &vote);
            },
            Refused::Tally(TallyFault::Unauthorized),
        ),
        (
            "GREEN by another key",
            |_, p| p.green = resign::<SentinelVerdictV1>(&p.green, AGENT, |_| {}),
            Refused::SentinelRequired,
        ),
        (
            "WITHHELD",
            |_, p| {
                p.green = resign::<SentinelVerdictV1>(&p.green, SENTINEL, |v| {
                    v.verdict = Verdict::Withheld;
                });
            },
            Refused::SentinelRequired,
        ),
        (
            "GREEN about another intent",
            |court, p| {
                let other = court.world.freeze("refs/heads/other", 0, 9);
                p.green = court.green(other);
            },
            Refused::SentinelRequired,
        ),
        (
            "GREEN under another autonomy epoch",
            |_, p| {
                p.green = resign::<SentinelVerdictV1>(&p.green, SENTINEL, |v| {
                    v.autonomy_epoch = v.autonomy_epoch.next();
                });
            },
            Refused::SentinelRequired,
        ),
        (
            "GREEN under another constitution",
            |_, p| {
                p.green = resign::<SentinelVerdictV1>(&p.green, SENTINEL, |v| {
                    v.constitution_epoch = v.constitution_epoch.next()
                });
            },
            Refused::SentinelRequired,
        ),
        (
            "GREEN about other bytes",
            |_, p| {
                p.green = resign::<SentinelVerdictV1>(&p.green, SENTINEL, |v| {
                    v.intent_core_ref = IntentDigest(Digest::ZERO)
                });
            },
            Refused::SentinelRequired,
        ),
        (
            "GREEN under another canonicalization rule",
            |_, p| {
                p.green = resign::<SentinelVerdictV1>(&p.green, SENTINEL, |v| {
                    v.intent_canonicalization_version = 2
                });
            },
            Refused::SentinelRequired,
        ),
        (
            "GREEN about another risk",
            |_, p| {
                p.green = resign::<SentinelVerdictV1>(&p.green, SENTINEL, |v| {
                    v.risk_scope_digest = Digest::ZERO
                });
            },
            Refused::SentinelRequired,
        ),
        (
            "GREEN about another candidate",
            |_, p| {
                p.green = resign::<SentinelVerdictV1>(&p.green, SENTINEL, |v| {
                    v.candidate_digest_optional = None
                });
            },
            Refused::SentinelRequired,
        ),
        (
            "GREEN about other evidence",
            |_, p| {
                p.green = resign::<SentinelVerdictV1>(&p.green, SENTINEL, |v| {
                    v.metric_evidence_rollback_digest = Digest::ZERO
                });
            },
            Refused::SentinelRequired,
        ),
        (
            "GREEN of another sentinel build",
            |_, p| {
                p.green = resign::<SentinelVerdictV1>(&p.green, SENTINEL, |v| {
                    v.sentinel_identity_key_binary_policy_digest = Digest::ZERO
                });
            },
            Refused::SentinelRequired,
        ),
        (
            "GREEN that lives too long",
            |_, p| {
                p.green = resign::<SentinelVerdictV1>(&p.green, SENTINEL, |v| {
                    v.expires_at = v.issued_at + 60 * MINUTE;
                });
            },
            Refused::SentinelRequired,
        ),
        (
            "GREEN from before the freeze",
            |_, p| {
                p.green = resign::<SentinelVerdictV1>(&p.green, SENTINEL, |v| v.issued_at -= 1_000);
            },
            Refused::SentinelRequired,
        ),
    ]
}

#[test]
fn fault_035_whatever_a_hostile_coordinator_changes_gets_no_share_and_burns_the_nonce() {
    let mut court = Court::new();
    for (n, (what, tamper, expected)) in (1u8..).zip(tampers()) {
        let digest = court.world.freeze(&format!("refs/heads/t{n}"), 0, n);
        let frozen = court.frozen(digest);
        let package = court.package(&frozen, first_three(), approve);
        let mut changed = package.clone();
        tamper(&mut court, &mut changed);
        assert_ne!(changed, package, "{what}");
        assert_eq!(court.desks[0].sign(&changed), Err(expected), "{what}");
        // The nonce is gone, for the honest package too (FAULTS 35, 42).
        let after = court.desks[0].sign(&package);
        assert_eq!(after, Err(Refused::AlreadySpent), "{what}");
        let stored = court.desks[0].disk.ballot(&digest).unwrap();
        assert!(stored.released.is_empty(), "{what}");
    }
}

#[test]
fn fault_035_no_share_for_an_intent_it_did_not_vote_on() {
    let mut court = Court::new();
    let seven = court.freeze(7);
    let package = court.package(&seven, first_three(), approve);
    let eight = court.world.freeze("refs/heads/eight", 0, 8);
    let mut moved = package.clone();
    moved.intent_digest = eight;
    assert_eq!(court.desks[0].sign(&moved), Err(Refused::UnknownIntent));
    // Voted on both: the package of one with the other's name contradicts its own votes.
    let eight = court.frozen(eight);
    court.package(&eight, first_three(), approve);
    assert_eq!(court.desks[0].sign(&moved), Err(Refused::AlreadySpent));
    court.desks[0].sign(&package).expect("the honest one");
}

#[test]
fn fault_035_a_dissenter_never_signs_even_for_three_approvals_of_others() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let dissent = |i: usize| if i == 0 { reject(i) } else { approve(i) };
    let package = court.package(&frozen, first_three(), dissent);
    assert_eq!(court.desks[0].sign(&package), Err(Refused::NotApproved));
    let refused = court.desks[1].sign(&package);
    let apart = Refused::Tally(TallyFault::InsufficientIndependence);
    assert_eq!(refused, Err(apart), "a subset with a dissenter in it");
}

#[test]
fn two_approvals_get_no_share_from_anybody() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let dissent = |i: usize| if i >= 2 { reject(i) } else { approve(i) };
    let package = court.package(&frozen, first_three(), dissent);
    for at in 0..2 {
        let refused = court.desks[at].sign(&package);
        let few = Refused::Tally(TallyFault::InsufficientQuorum);
        assert_eq!(refused, Err(few));
    }
}

#[test]
fn an_expired_green_and_an_expired_intent_get_no_share() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let package = court.package(&frozen, first_three(), approve);
    let green = package.green.open::<SentinelVerdictV1>().unwrap();
    let machine = court.desks[0].machine.as_mut().unwrap();
    machine.observe(green.record().expires_at);
    assert_eq!(
        court.desks[0].sign(&package),
        Err(Refused::SentinelRequired)
    );
    let machine = court.desks[1].machine.as_mut().unwrap();
    machine.observe(frozen.intent().expires_at);
    assert_eq!(court.desks[1].sign(&package), Err(Refused::Expired));
    let late = court.desks[1].packet(&frozen, asked(9), approve(1));
    assert_eq!(late, Err(Refused::Expired));
}

#[test]
fn an_intent_of_an_earlier_autonomy_epoch_gets_no_share() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let package = court.package(&frozen, first_three(), approve);
    let machine = court.desks[0].machine.as_mut().unwrap();
    machine.observe_epoch(frozen.intent().autonomy_epoch.next());
    assert_eq!(court.desks[0].sign(&package), Err(Refused::EpochFenced));
    let again = court.desks[0].packet(&frozen, asked(2), approve(0));
    assert_eq!(again, Err(Refused::EpochFenced));
}

#[test]
fn intent_bytes_are_re_hashed_against_the_freeze() {
    let mut court = Court::new();
    let one = court.freeze(1);
    let leaf = court.world.leaves.last().unwrap().clone();
    let proof = FreezeProof::of_verified_leaf(&leaf).unwrap();
    let mut bytes = one.bytes().0.clone();
    *bytes.last_mut().unwrap() ^= 1;
    let changed = FrozenIntent::check(&proof, &bytes);
    assert_eq!(changed, Err(FreezeMismatch::OtherBytes));
    assert!(FreezeProof::of_verified_leaf(&court.world.leaves[0]).is_err());
    assert!(FreezeProof::of_verified_leaf(&leaf[1..]).is_err());
}

#[test]
fn fault_043_one_key_on_two_seats_is_no_roster() {
    let (_, genesis) = journal_with(["east", "north", "south", "west"]);
    let mut same = genesis.clone();
    same.roster.verifiers[2].vote_key = same.roster.verifiers[0].vote_key;
    assert_eq!(Terms::of_genesis(&same).err(), Some(BadTerms::RepeatedKey));
    let mut sentinel = genesis.clone();
    sentinel.roster.verifiers[2].vote_key = sentinel.roster.sentinel.key;
    assert_eq!(
        Terms::of_genesis(&sentinel).err(),
        Some(BadTerms::RepeatedKey)
    );
    let mut names = genesis.clone();
    names.roster.verifiers[1].verifier_id = names.roster.verifiers[0].verifier_id.clone();
    assert_eq!(
        Terms::of_genesis(&names).err(),
        Some(BadTerms::RepeatedName)
    );
    let mut three = genesis.clone();
    three.roster.verifiers.pop();
    assert_eq!(Terms::of_genesis(&three).err(), Some(BadTerms::Seats));
    let mut small = genesis;
    let mut identity = [0; 32];
    identity[0] = 1;
    small.roster.verifiers[0].vote_key = PublicKey(identity);
    assert_eq!(Terms::of_genesis(&small).err(), Some(BadTerms::BadKey));
}

#[test]
fn a_verifier_with_a_role_in_the_intent_does_not_vote() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let mut desk = court.desks.remove(0);
    desk.seat.verifier_id = frozen
        .intent()
        .proposer_subject_id
        .0
        .clone()
        .into_verifier();
    desk.machine = None;
    desk.disk = Disk::default();
    desk.boot(&court.terms.clone());
    let refused = desk.packet(&frozen, asked(1), approve(0));
    assert_eq!(refused, Err(Refused::SelfAuthorization));
}

trait IntoVerifier {
    fn into_verifier(self) -> VerifierId;
}
impl IntoVerifier for Name {
    fn into_verifier(self) -> VerifierId {
        VerifierId(self)
    }
}

#[test]
fn a_fellow_with_a_role_in_the_intent_is_not_counted() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let package = court.package(&frozen, first_three(), approve);
    let votes: Vec<Signed<VoteV1>> = package.votes.iter().map(|v| v.open().unwrap()).collect();
    let count = |intent: &SovereignActionIntentV1| {
        let sheet = &package.sheet;
        redlatch_ballot::tally::count(&court.terms, intent, frozen.digest(), sheet, &votes)
    };
    assert_eq!(count(frozen.intent()).unwrap().len(), 4);
    for role in 0..4 {
        let mut intent = frozen.intent().clone();
        let fellow = SubjectId(name(role).0);
        match role {
            0 => intent.proposer_subject_id = fellow,
            1 => intent.executor_subject_id_optional = Some(fellow),
            2 => intent.promotion_target_subject_id_optional = Some(fellow),
            _ => intent.caller_subject_id = fellow,
        }
        assert_eq!(count(&intent), Err(TallyFault::SelfAuthorization));
    }
}

#[test]
fn a_verifier_that_seals_twice_is_noticed() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let (mut coordinator, _) = court.coordinator(&frozen, 1);
    let first = court.desks[0]
        .packet(&frozen, asked(1), approve(0))
        .unwrap();
    coordinator.handle_sealed(&name(0), first, 0).unwrap();
    court.desks[0]
        .disk
        .0
        .remove(&Row::ballot_key(&frozen.digest()));
    court.crash(0);
    let second = court.desks[0].packet(&frozen, asked(1), reject(0)).unwrap();
    assert_eq!(
        coordinator.handle_sealed(&name(0), second, 0),
        Err(AnswerFault::Equivocation)
    );
}

#[test]
fn without_an_active_key_nobody_votes() {
    let (mut world, genesis) = journal_with(["east", "north", "south", "west"]);
    let terms = Terms::of_genesis(&genesis).unwrap();
    let mut desks = desks(&terms);
    // The journal freezes; the verifier has a share at most sealed.
    let digest = world.freeze(journal::MAIN, 0, 1);
    let leaf = world.leaves.last().unwrap();
    let proof = FreezeProof::of_verified_leaf(leaf).unwrap();
    let bytes = world.intent(digest).to_canonical();
    let frozen = FrozenIntent::check(&proof, &bytes).unwrap();
    let refused = desks[0].packet(&frozen, asked(1), approve(0));
    assert_eq!(refused, Err(Refused::StaleRoster));
    assert!(!desks[0].machine.as_ref().unwrap().can_sign());
}

#[test]
fn fault_034_two_copies_of_one_machine_draw_different_nonces_from_a_fresh_value() {
    let mut court = Court::new();
    let frozen = court.freeze(1);
    let mut commitments = Vec::new();
    for fresh in [1u8, 2, 1] {
        let mut copy = Desk {
            seat: court.desks[0].seat.clone(),
            disk: court.desks[0].disk.clone(),
            machine: None,
            rng: rng(7),
        };
        copy.boot(&court.terms);
        let asked = redlatch_ballot::verifier::Asked {
            term: 1,
            fresh: Digest::of(&[fresh]),
        };
        let answer = copy.packet(&frozen, asked, approve(0)).unwrap();
        let signed = answer.commitments.unwrap();
        let record = SigningCommitmentsV1::from_canonical(&signed.body.0).unwrap();
        commitments.push(record.commitments);
    }
    assert_ne!(commitments[0], commitments[1]);
    assert_eq!(commitments[0], commitments[2], "and nothing else differs");
}
