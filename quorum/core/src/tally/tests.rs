//! Tables of who counts, and of which three may sign.

use super::*;
use redlatch_types::Digest;

fn vote(name: &str, verdict: VoteVerdict, domain: &str) -> CountedVote {
    CountedVote {
        verifier_id: name.parse().expect("a name"),
        verdict,
        findings_digest: Digest::ZERO,
        failure_domain: domain.parse().expect("a name"),
        vote_digest: Digest::of(name.as_bytes()),
    }
}

const FLOORS: Floors = Floors {
    threshold: 3,
    domains: 3,
};

#[test]
fn floors_count_approvers_and_their_domains() {
    let cases: &[(&str, &str, Result<(), TallyFault>)] = &[
        ("yyyy", "ensw", Ok(())),
        ("yyyn", "ensw", Ok(())),
        ("yyy", "ens", Ok(())),
        ("yyyy", "eens", Ok(())),
        ("yyyn", "eens", Err(TallyFault::InsufficientIndependence)),
        ("nyyy", "eens", Ok(())),
        ("yyy", "een", Err(TallyFault::InsufficientIndependence)),
        ("yyyy", "eeee", Err(TallyFault::InsufficientIndependence)),
        ("yynn", "ensw", Err(TallyFault::InsufficientQuorum)),
        ("yy", "en", Err(TallyFault::InsufficientQuorum)),
        ("nnnn", "ensw", Err(TallyFault::InsufficientQuorum)),
        ("", "", Err(TallyFault::InsufficientQuorum)),
    ];
    for (verdicts, domains, expected) in cases {
        let counted: Vec<CountedVote> = verdicts
            .chars()
            .zip(domains.chars())
            .zip(["va", "vb", "vc", "vd"])
            .map(|((v, d), name)| {
                let verdict = if v == 'y' {
                    VoteVerdict::Approve
                } else {
                    VoteVerdict::Reject
                };
                vote(name, verdict, &d.to_string())
            })
            .collect();
        let found = check_floors(FLOORS, &counted);
        assert_eq!(found, *expected, "{verdicts} {domains}");
    }
}

#[test]
fn fault_043_one_verifier_named_three_times_is_one_approval() {
    let same: Vec<_> = ["e", "n", "s"]
        .iter()
        .map(|d| vote("va", VoteVerdict::Approve, d))
        .collect();
    assert_eq!(
        check_floors(FLOORS, &same),
        Err(TallyFault::InsufficientQuorum)
    );
}

#[test]
fn a_stricter_constitution_holds_and_a_laxer_one_does_not_lower_the_floor() {
    let three: Vec<_> = ["va", "vb", "vc"]
        .iter()
        .zip(["e", "n", "s"])
        .map(|(v, d)| vote(v, VoteVerdict::Approve, d))
        .collect();
    let four = Floors {
        threshold: 4,
        domains: 3,
    };
    assert_eq!(
        check_floors(four, &three),
        Err(TallyFault::InsufficientQuorum)
    );
}

#[test]
fn a_subset_is_three_of_four_and_nothing_else() {
    assert_eq!(Subset::ALL.map(Subset::members).concat().len(), 12);
    for left_out in 1..=MEMBERS {
        let subset = Subset::without(left_out).expect("a member");
        assert!(!subset.contains(left_out));
        assert_eq!(subset.members().len(), usize::from(THRESHOLD));
    }
    assert_eq!(Subset::without(0), None);
    assert_eq!(Subset::without(5), None);
    for identifier in 1..=MEMBERS {
        assert_eq!(Subset::of_member(identifier).count(), 3);
    }
}
