//! What loads, what does not, and who counts.

use proptest::prelude::*;

use super::fixtures::{Organism, TIME_S};
use super::*;
use crate::bytes::Digest;
use crate::ids::OrganismId;
use crate::note::{KeyName, Note, SignatureError, SignatureLine};
use crate::sign::SigningKey;

fn read(text: &str) -> Result<Policy, ParseError> {
    Policy::parse(text.as_bytes())
}

/// The policy's text with the `n`-th line (from 0) replaced; several lines or none are fine.
fn with_line(text: &str, n: usize, replacement: &str) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines[n] = replacement;
    lines.concat()
}

fn line(text: &str, n: usize) -> &str {
    text.lines().nth(n).unwrap()
}

#[test]
fn a_policy_reads_back_from_its_text() {
    for organism in [Organism::production(), Organism::development()] {
        let policy = organism.policy();
        assert_eq!(read(&policy.to_string()), Ok(policy));
    }
}

#[test]
fn the_text_has_the_shape_of_the_design() {
    let text = Organism::production().policy().to_string();
    let words: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let expected = [
        "log", "log", "log", "witness", "witness", "witness", "group", "witness", "witness",
        "witness", "witness", "group", "group", "quorum",
    ];
    assert_eq!(words, expected);
    assert_eq!(line(&text, 6), "group nodes 2 node-1 node-2 node-3");
    assert_eq!(
        line(&text, 11),
        "group witnesses 3 verifier-1 verifier-2 verifier-3 verifier-4"
    );
    assert_eq!(line(&text, 12), "group both all nodes witnesses");
    assert_eq!(line(&text, 13), "quorum both");
    let text = Organism::development().policy().to_string();
    assert_eq!(line(&text, 7), "quorum nodes");
}

#[test]
fn comments_blanks_urls_order_and_keywords_are_read_over() {
    let policy = Organism::production().policy();
    let text = policy.to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[0].push_str("\thttps://node-1.example/");
    lines[3].push_str("  https://node-1.example/");
    lines[12] = "group both 2 witnesses nodes".to_owned();
    lines.insert(13, "  # the end".to_owned());
    lines.insert(0, " \t".to_owned());
    lines.swap(1, 4);
    let mut other = lines.join("\n");
    other.push('\n');
    let read = read(&other).unwrap();
    assert_eq!(read.nodes(), policy.nodes());
    assert_eq!(read.witnesses(), policy.witnesses());
    assert_eq!(read.logs().len(), 3);
}

#[test]
fn a_damaged_or_foreign_policy_does_not_load() {
    let text = Organism::production().policy().to_string();
    let at = |line, why| ParseError::Line { line, why };
    use LineError::*;
    let unknown = |name: &str| UnknownName(name.to_owned());
    let taken = |name: &str| NameTaken(name.to_owned());
    let table = [
        (String::new(), ParseError::CutOff),
        (text.trim_end().to_owned(), ParseError::CutOff),
        (with_line(&text, 13, ""), ParseError::Lacks("quorum")),
        ("\n".to_owned(), ParseError::Lacks("group nodes")),
        (text.replace('\n', "\r\n"), at(1, ControlCharacter)),
        (text.replace("quorum", "quo\0rum"), at(14, ControlCharacter)),
        (with_line(&text, 13, "quorum none\n"), at(14, BadQuorum)),
        (with_line(&text, 13, "quorum nodes\n"), at(14, BadQuorum)),
        (
            with_line(&text, 13, "quorum witnesses\n"),
            at(14, BadQuorum),
        ),
        (with_line(&text, 13, "quorum node-1\n"), at(14, BadQuorum)),
        (
            with_line(&text, 13, "quorum both nodes\n"),
            at(14, Malformed),
        ),
        (with_line(&text, 13, "quorum\n"), at(14, Malformed)),
        (with_line(&text, 13, "Quorum both\n"), at(14, Malformed)),
        (format!("{text}quorum both\n"), at(15, AfterQuorum)),
        (format!("{text}group more any nodes\n"), at(15, AfterQuorum)),
        (with_line(&text, 12, ""), at(13, BadQuorum)),
        (
            with_line(&text, 12, "group both any nodes witnesses\n"),
            at(13, Malformed),
        ),
        (
            with_line(&text, 12, "group both all nodes nodes\n"),
            at(13, Malformed),
        ),
        (
            with_line(&text, 12, "group all all nodes witnesses\n"),
            at(13, Malformed),
        ),
        (with_line(&text, 12, "group both all\n"), at(13, Malformed)),
        (with_line(&text, 0, "log\n"), at(1, Malformed)),
        (with_line(&text, 0, "log a+b+c d e\n"), at(1, Malformed)),
        (
            with_line(&text, 0, "log a+b+c\n"),
            at(1, Key(KeyError::Malformed)),
        ),
        (
            with_line(&text, 6, "group nodes 2 node-1 node-2 node-4\n"),
            at(7, unknown("node-4")),
        ),
        (
            with_line(&text, 6, "group nodes 2 node-1 node-2 node-2\n"),
            at(7, unknown("node-2")),
        ),
        (
            with_line(&text, 6, "group nodes 2 node-1 node-2 verifier-1\n"),
            at(7, unknown("verifier-1")),
        ),
        (
            with_line(
                &text,
                11,
                "group witnesses 3 verifier-1 verifier-2 verifier-3 node-1\n",
            ),
            at(12, unknown("node-1")),
        ),
        (
            with_line(
                &text,
                11,
                "group witnesses 3 verifier-1 verifier-2 verifier-3\n",
            ),
            ParseError::Ungrouped("verifier-4".to_owned()),
        ),
        (
            with_line(&text, 4, &format!("{}\n", line(&text, 3))),
            at(5, taken("node-1")),
        ),
        (text.replace("node-1", "nodes"), at(4, taken("nodes"))),
        (text.replace("node-1", "none"), at(4, taken("none"))),
        (
            with_line(
                &text,
                7,
                &format!("{}\n{}\n", line(&text, 6), line(&text, 7)),
            ),
            at(8, taken("nodes")),
        ),
        ("#".repeat(POLICY_BYTES_MAX) + "\n", ParseError::NotText),
    ];
    for (bad, why) in table {
        assert_eq!(read(&bad), Err(why), "{bad}");
    }
    assert_eq!(Policy::parse(b"# \xff\n"), Err(ParseError::NotText));
}

#[test]
fn fault_052_a_threshold_of_zero_or_above_the_members_does_not_load() {
    let organism = Organism::production();
    let policy = organism.policy();
    let text = policy.to_string();
    for bad in [
        "0",
        "4",
        "02",
        "+2",
        "-1",
        "2.0",
        "x",
        "18446744073709551616",
    ] {
        let why = LineError::BadThreshold(bad.to_owned());
        let other = text.replace("group nodes 2", &format!("group nodes {bad}"));
        assert_eq!(read(&other), Err(ParseError::Line { line: 7, why }));
    }
    for threshold in [0, 4, usize::MAX] {
        let nodes = Group {
            threshold,
            ..policy.nodes.clone()
        };
        let made = Policy::new(policy.logs.clone(), nodes, policy.witnesses.clone());
        assert_eq!(
            made,
            Err(PolicyError::BadThreshold {
                threshold,
                members: 3
            })
        );
    }
    for threshold in [0, 5] {
        let witnesses = Group {
            threshold,
            ..policy.witnesses.clone().unwrap()
        };
        let made = Policy::new(policy.logs.clone(), policy.nodes.clone(), Some(witnesses));
        assert_eq!(
            made,
            Err(PolicyError::BadThreshold {
                threshold,
                members: 4
            })
        );
    }
}

#[test]
fn groups_of_signers_that_need_not_meet_do_not_load() {
    let text = Organism::production().policy().to_string();
    let policy = |why: PolicyError| Err(ParseError::Policy(why));
    for minority in ["1", "any"] {
        let other = text.replace("group nodes 2", &format!("group nodes {minority}"));
        let why = PolicyError::NoMajority {
            threshold: 1,
            members: 3,
        };
        assert_eq!(read(&other), policy(why));
    }
    let other = text.replace("group witnesses 3", "group witnesses 2");
    assert_eq!(
        read(&other),
        policy(PolicyError::WeakWitnesses {
            threshold: 2,
            members: 4
        })
    );
    for stricter in [
        text.replace("group nodes 2", "group nodes all"),
        text.replace("group witnesses 3", "group witnesses 4"),
    ] {
        assert!(read(&stricter).is_ok());
    }
    for (count, good) in [
        (0, false),
        (2, false),
        (3, true),
        (4, true),
        (5, false),
        (6, false),
    ] {
        let organism = Organism::new(Stage::Production, 3, count);
        let made = Policy::of_roster(
            &organism.origin,
            &organism.node_keys(),
            &organism.witness_keys(),
        );
        assert_eq!(made.is_ok(), good, "3 of {count}");
    }
    for nodes in 1..=7 {
        let policy = Organism::new(Stage::Production, nodes, 4).policy();
        assert!(2 * policy.nodes().threshold > nodes);
    }
}

#[test]
fn a_policy_without_witnesses_is_for_development_only() {
    let text = Organism::development().policy().to_string();
    assert!(read(&text).is_ok());

    let production = Organism::new(Stage::Production, 3, 0);
    let made = Policy::of_roster(&production.origin, &production.node_keys(), &[]);
    assert_eq!(made, Err(PolicyError::WitnessesRequired));

    let signed = Organism::production().policy();
    let logs: String = signed
        .logs
        .iter()
        .map(|key| format!("log {key}\n"))
        .collect();
    let rest: String = text.split_inclusive('\n').skip(3).collect();
    let read_production = read(&(logs + &rest));
    assert_eq!(read_production, Err(PolicyError::WitnessesRequired.into()));
}

#[test]
fn the_logs_are_the_nodes_of_one_journal() {
    let organism = Organism::production();
    let policy = organism.policy();
    let new =
        |logs: Vec<VerifierKey>| Policy::new(logs, policy.nodes.clone(), policy.witnesses.clone());
    let named = |name: &str, algorithm, log: &SigningKey| {
        VerifierKey::new(KeyName::new(name).unwrap(), algorithm, log.public_key()).unwrap()
    };
    assert_eq!(
        new(vec![]),
        Err(PolicyError::LogPerNode { logs: 0, nodes: 0 })
    );
    let two = policy.logs[..2].to_vec();
    assert_eq!(
        new(two.clone()),
        Err(PolicyError::LogPerNode { logs: 2, nodes: 3 })
    );

    let later = Origin {
        history: 1,
        ..organism.origin
    };
    let with_third = |third: VerifierKey| new([two.clone(), vec![third]].concat());
    let third = &organism.logs[2];
    let other = named(&later.to_string(), Algorithm::Ed25519, third);
    assert_eq!(with_third(other), Err(PolicyError::BadOrigin));
    let same = named(&organism.origin.to_string(), Algorithm::Cosignature, third);
    let name = organism.origin.to_string();
    assert_eq!(with_third(same), Err(PolicyError::WrongAlgorithm { name }));

    let foreign = organism
        .logs
        .iter()
        .map(|log| named("example.com/log", Algorithm::Ed25519, log));
    assert_eq!(new(foreign.collect()), Err(PolicyError::BadOrigin));

    let mut nodes = policy.nodes.clone();
    nodes.members[1].key = named("n", Algorithm::Ed25519, &organism.nodes[1]);
    let made = Policy::new(policy.logs.clone(), nodes, policy.witnesses.clone());
    assert_eq!(
        made,
        Err(PolicyError::WrongAlgorithm {
            name: "node-2".to_owned()
        })
    );
}

#[test]
fn fault_043_a_repeated_key_does_not_load() {
    let organism = Organism::production();
    let policy = organism.policy();
    let repeated = |name: &str| {
        Err(PolicyError::RepeatedKey {
            name: name.to_owned(),
        })
    };
    let made = |organism: &Organism| {
        Policy::of_roster(
            &organism.origin,
            &organism.node_keys(),
            &organism.witness_keys(),
        )
    };
    let mut twice = Organism::production();
    twice.witnesses[2] = twice.witnesses[0].clone();
    assert_eq!(made(&twice), repeated("verifier-3"));
    let mut twice = Organism::production();
    twice.nodes[1] = twice.nodes[0].clone();
    assert_eq!(made(&twice), repeated("node-2"));
    let mut twice = Organism::production();
    twice.logs[2] = twice.logs[0].clone();
    assert_eq!(made(&twice), repeated(&organism.origin.to_string()));
    // One key in two roles would let one holder count twice.
    let mut twice = Organism::production();
    twice.witnesses[3] = twice.nodes[0].clone();
    assert_eq!(made(&twice), repeated("verifier-4"));
    let mut twice = Organism::production();
    twice.nodes[0] = twice.logs[0].clone();
    assert_eq!(made(&twice), repeated("node-1"));

    // The same in a file, under another label and another key name.
    let renamed = VerifierKey::new(
        KeyName::new("VERIFIER-1").unwrap(),
        Algorithm::Cosignature,
        organism.witnesses[0].public_key(),
    )
    .unwrap();
    let text = with_line(
        &policy.to_string(),
        10,
        &format!("witness verifier-4 {renamed}\n"),
    );
    let why = PolicyError::RepeatedKey {
        name: "verifier-4".to_owned(),
    };
    assert_eq!(read(&text), Err(ParseError::Policy(why)));
}

#[test]
fn fault_044_a_key_that_verifies_everything_does_not_load() {
    let organism = Organism::development();
    let mut nodes = organism.node_keys();
    nodes[0].cosigner = PublicKey([0; 32]);
    let made = Policy::of_roster(&organism.origin, &nodes, &[]);
    assert_eq!(
        made,
        Err(PolicyError::Key(KeyError::BadKey(crate::sign::BadKey)))
    );
}

#[test]
fn a_label_that_could_not_be_read_back_is_refused() {
    let policy = Organism::development().policy();
    for label in [
        "",
        "a b",
        "a\tb",
        "a\nb",
        "nodes",
        "witnesses",
        "both",
        "none",
        "node-2",
    ] {
        let mut nodes = policy.nodes.clone();
        nodes.members[0].label = label.to_owned();
        assert!(
            Policy::new(policy.logs.clone(), nodes, None).is_err(),
            "{label:?}"
        );
    }
}

fn accepted(policy: &Policy, head: &Note, demand: Demand) -> Result<u64, HeadError> {
    policy.accept(head, demand).map(|head| head.time_s)
}

#[test]
fn heads_are_accepted_by_a_majority_and_three_witnesses() {
    let organism = Organism::production();
    let policy = organism.policy();
    let checkpoint = organism.checkpoint(9, Digest::of(b"root"));
    let judge = |nodes: &[usize], witnesses: &[usize], demand| {
        accepted(
            &policy,
            &organism.head(&checkpoint, nodes, witnesses),
            demand,
        )
    };
    let nodes = |found| Err(NotMet::NodesMissing { found, needed: 2 }.into());
    let witnesses = |found| Err(NotMet::WitnessesMissing { found, needed: 3 }.into());
    use Demand::{Nodes, Quorum};
    assert_eq!(judge(&[0, 1], &[0, 1, 2], Quorum), Ok(TIME_S));
    assert_eq!(judge(&[1, 2], &[3, 1, 2], Quorum), Ok(TIME_S + 1));
    assert_eq!(judge(&[0, 1, 2], &[0, 1, 2, 3], Quorum), Ok(TIME_S + 1));
    assert_eq!(judge(&[0, 1, 2], &[0, 1], Quorum), witnesses(2));
    assert_eq!(judge(&[0, 1, 2], &[], Quorum), witnesses(0));
    assert_eq!(judge(&[0, 1, 2], &[], Nodes), Ok(TIME_S + 1));
    assert_eq!(judge(&[0], &[0, 1, 2, 3], Quorum), nodes(1));
    assert_eq!(judge(&[0], &[0, 1, 2, 3], Nodes), nodes(1));
    assert_eq!(judge(&[], &[], Nodes), nodes(0));

    let head = policy
        .accept(&organism.head(&checkpoint, &[0, 1], &[]), Nodes)
        .unwrap();
    assert_eq!((head.checkpoint, head.demand), (checkpoint, Nodes));

    let development = Organism::development();
    let checkpoint = development.checkpoint(9, Digest::of(b"root"));
    let head = development.head(&checkpoint, &[0, 2], &[]);
    assert_eq!(accepted(&development.policy(), &head, Quorum), Ok(TIME_S));
}

#[test]
fn one_clock_that_runs_ahead_does_not_move_the_time() {
    let organism = Organism::development();
    let text = organism.checkpoint(9, Digest::of(b"root")).to_string();
    let mut head = Note::new(text.clone(), organism.log_line(&text, 0)).unwrap();
    let times = [TIME_S, TIME_S + 5, u64::MAX / 2];
    for (node, time_s) in times.into_iter().enumerate() {
        let name = organism
            .origin
            .cosigner_name(&format!("node-{}", node + 1))
            .unwrap();
        let key = &organism.nodes[node];
        head.add(SignatureLine::by_cosigner(name, key, &text, time_s).unwrap())
            .unwrap();
    }
    assert_eq!(
        accepted(&organism.policy(), &head, Demand::Nodes),
        Ok(TIME_S + 5)
    );
}

#[test]
fn fault_043_one_key_counts_once() {
    let organism = Organism::production();
    let checkpoint = organism.checkpoint(9, Digest::of(b"root"));
    let text = checkpoint.to_string();
    let mut head = organism.head(&checkpoint, &[0], &[0, 1]);
    for time_s in [TIME_S + 60, TIME_S + 61, TIME_S + 62] {
        for (label, key) in [
            ("node-1", &organism.nodes[0]),
            ("verifier-1", &organism.witnesses[0]),
        ] {
            let name = organism.origin.cosigner_name(label).unwrap();
            head.add(SignatureLine::by_cosigner(name, key, &text, time_s).unwrap())
                .unwrap();
        }
    }
    let policy = organism.policy();
    let why = NotMet::NodesMissing {
        found: 1,
        needed: 2,
    };
    assert_eq!(accepted(&policy, &head, Demand::Quorum), Err(why.into()));
    head.add(organism.node_line(&text, 2)).unwrap();
    let why = NotMet::WitnessesMissing {
        found: 2,
        needed: 3,
    };
    assert_eq!(accepted(&policy, &head, Demand::Quorum), Err(why.into()));

    // The same line again, as a file may have it.
    let line = organism.witness_line(&text, 1);
    let repeated = Note::parse(&format!("{head}{line}\n{line}\n")).unwrap();
    assert_eq!(repeated.signatures().len(), head.signatures().len() + 2);
    assert_eq!(
        accepted(&policy, &repeated, Demand::Quorum),
        Err(why.into())
    );
    assert_eq!(accepted(&policy, &repeated, Demand::Nodes), Ok(TIME_S + 2));
}

#[test]
fn lines_of_unknown_keys_count_for_nothing() {
    let organism = Organism::production();
    let policy = organism.policy();
    let checkpoint = organism.checkpoint(9, Digest::of(b"root"));
    let text = checkpoint.to_string();
    let mut head = organism.head(&checkpoint, &[0, 1], &[0, 1]);
    let cosign = |name: KeyName, key: &SigningKey| {
        SignatureLine::by_cosigner(name, key, &text, TIME_S).unwrap()
    };
    let third = organism.origin.cosigner_name("verifier-3").unwrap();
    let key = &organism.witnesses[2];
    let right = cosign(third.clone(), key);
    for line in [
        // Right key under a wrong name, and right name with a key nobody knows.
        cosign(organism.origin.cosigner_name("verifier-5").unwrap(), key),
        cosign(third.clone(), &SigningKey::from_seed([9; 32])),
        // Right line with a wrong id.
        SignatureLine {
            key_id: crate::note::KeyId([0; 4]),
            ..right.clone()
        },
        // Right name and key, but signed as a log signs.
        SignatureLine::by_log(third, key, &text),
    ] {
        head.add(line).unwrap();
    }
    let why = NotMet::WitnessesMissing {
        found: 2,
        needed: 3,
    };
    assert_eq!(accepted(&policy, &head, Demand::Quorum), Err(why.into()));
    head.add(right).unwrap();
    assert_eq!(accepted(&policy, &head, Demand::Quorum), Ok(TIME_S));
}

#[test]
fn a_line_of_a_known_key_that_does_not_hold_makes_the_head_invalid() {
    let organism = Organism::production();
    let policy = organism.policy();
    let checkpoint = organism.checkpoint(9, Digest::of(b"root"));
    let text = checkpoint.to_string();
    let whole = organism.head(&checkpoint, &[0, 1], &[0, 1, 2]);
    let other_text = organism.checkpoint(10, Digest::of(b"root")).to_string();
    for (name, line) in [
        (
            "verifier-4".to_owned(),
            organism.witness_line(&other_text, 3),
        ),
        ("node-3".to_owned(), organism.node_line(&other_text, 2)),
        (
            organism.origin.to_string(),
            organism.log_line(&other_text, 1),
        ),
    ] {
        let mut head = whole.clone();
        head.add(line).unwrap();
        let why = SignatureError::BadSignature(crate::sign::BadSignature);
        let why = InvalidHead::Signature { name, why };
        for demand in [Demand::Quorum, Demand::Nodes] {
            assert_eq!(accepted(&policy, &head, demand), Err(why.clone().into()));
        }
    }
    // Signatures do not carry over to another text.
    let moved = whole.to_string().replace(&text, &other_text);
    let moved = Note::parse(&moved).unwrap();
    assert!(matches!(
        accepted(&policy, &moved, Demand::Nodes),
        Err(HeadError::Invalid(_))
    ));
}

#[test]
fn heads_of_other_journals_and_unsigned_ones_do_not_meet_the_policy() {
    let organism = Organism::production();
    let policy = organism.policy();
    let others = [
        Origin {
            history: 1,
            ..organism.origin
        },
        Origin {
            stage: Stage::Development,
            ..organism.origin
        },
        Origin {
            organism: OrganismId(Digest::of(b"other")),
            ..organism.origin
        },
    ];
    for found in others {
        let other = Organism {
            origin: found,
            ..Organism::production()
        };
        let checkpoint = other.checkpoint(9, Digest::of(b"root"));
        let head = other.head(&checkpoint, &[0, 1, 2], &[0, 1, 2, 3]);
        let why = NotMet::OtherOrigin {
            expected: organism.origin,
            found,
        };
        assert_eq!(accepted(&policy, &head, Demand::Nodes), Err(why.into()));
    }

    let checkpoint = organism.checkpoint(9, Digest::of(b"root"));
    let text = checkpoint.to_string();
    let mut head = Note::new(text.clone(), organism.node_line(&text, 0)).unwrap();
    for line in [organism.node_line(&text, 1), organism.node_line(&text, 2)] {
        head.add(line).unwrap();
    }
    let missing = Err(NotMet::NoLogSignature.into());
    assert_eq!(accepted(&policy, &head, Demand::Nodes), missing);
    let stranger = SigningKey::from_seed([9; 32]);
    head.add(SignatureLine::by_log(
        organism.origin.log_name(),
        &stranger,
        &text,
    ))
    .unwrap();
    assert_eq!(accepted(&policy, &head, Demand::Nodes), missing);

    let text = "no checkpoint\n".to_owned();
    let head = Note::new(text.clone(), organism.log_line(&text, 0)).unwrap();
    let judged = accepted(&policy, &head, Demand::Nodes);
    assert!(matches!(
        judged,
        Err(HeadError::Invalid(InvalidHead::Checkpoint(_)))
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Lines in any number and order, from a fixed set of keys: the count is that of the keys.
    #[test]
    fn fault_043_k_keys_never_count_for_more_than_k(
        lines in prop::collection::vec((0usize..7, 0u64..3), 0..24),
    ) {
        let organism = Organism::production();
        let policy = organism.policy();
        let text = organism.checkpoint(9, Digest::of(b"root")).to_string();
        let mut head = Note::new(text.clone(), organism.log_line(&text, 0)).unwrap();
        for (signer, later) in &lines {
            let (label, key) = match *signer {
                node @ 0..3 => (format!("node-{}", node + 1), &organism.nodes[node]),
                other => {
                    (format!("verifier-{}", other - 2), &organism.witnesses[other - 3])
                }
            };
            let name = organism.origin.cosigner_name(&label).unwrap();
            let line = SignatureLine::by_cosigner(name, key, &text, TIME_S + later).unwrap();
            head.add(line).unwrap();
        }
        let signers: BTreeSet<usize> = lines.iter().map(|(signer, _)| *signer).collect();
        let nodes = signers.range(..3).count();
        let witnesses = signers.range(3..).count();
        let expected = if nodes < 2 {
            Err(HeadError::NotMet(NotMet::NodesMissing { found: nodes, needed: 2 }))
        } else if witnesses < 3 {
            Err(HeadError::NotMet(NotMet::WitnessesMissing { found: witnesses, needed: 3 }))
        } else {
            Ok(())
        };
        prop_assert_eq!(policy.accept(&head, Demand::Quorum).map(|_| ()), expected);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Policy::parse(&bytes).is_err());
    }

    /// A policy with a changed byte either does not load or says the same of every key.
    #[test]
    fn a_changed_byte_never_adds_trust(at: prop::sample::Index, flip in 1u8..) {
        let policy = Organism::production().policy();
        let mut bytes = policy.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(other) = Policy::parse(&bytes) {
            let keys = |policy: &Policy| -> Vec<PublicKey> {
                policy.keys().map(|(_, key)| *key.key()).collect()
            };
            prop_assert_eq!(keys(&other), keys(&policy));
            prop_assert!(other.nodes().threshold >= policy.nodes().threshold);
        }
    }
}
