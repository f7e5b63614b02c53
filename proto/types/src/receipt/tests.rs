//! Receipts as files: the frozen samples, every bit of them, and every line out of place.

use proptest::prelude::*;

use super::*;
use crate::checkpoint::OriginError;
use crate::merkle::definition::{path, root};
use crate::merkle::leaf_hash;
use crate::policy::fixtures::{Organism, TIME_S};

const DEVELOPMENT_RECEIPT: &str =
    include_str!("../../../../tests/frozen/receipt-development.tlog-proof");
const DEVELOPMENT_POLICY: &str =
    include_str!("../../../../tests/frozen/receipt-development.policy");
const PRODUCTION_RECEIPT: &str =
    include_str!("../../../../tests/frozen/receipt-production.tlog-proof");
const PRODUCTION_POLICY: &str = include_str!("../../../../tests/frozen/receipt-production.policy");

/// Leaf number `n` of the sample journals: the CBOR map {0: n, 1: "sample"}.
fn leaf(n: u8) -> Vec<u8> {
    let mut bytes = vec![0xa2, 0x00, n, 0x01, 0x66];
    bytes.extend_from_slice(b"sample");
    bytes
}

fn receipt(organism: &Organism, nodes: &[usize], witnesses: &[usize]) -> Receipt {
    receipt_of(organism, 6, 4, nodes, witnesses)
}

fn receipt_of(
    organism: &Organism,
    size: u8,
    index: u8,
    nodes: &[usize],
    witnesses: &[usize],
) -> Receipt {
    let hashes: Vec<Digest> = (0..size).map(|n| leaf_hash(&leaf(n))).collect();
    let checkpoint = organism.checkpoint(size.into(), root(&hashes));
    let head = organism.head(&checkpoint, nodes, witnesses);
    let proof = TlogProof {
        index: index.into(),
        hashes: path(index.into(), &hashes),
        head,
    };
    Receipt {
        leaf: leaf(index),
        proof,
    }
}

fn check(receipt: &str, policy: &Policy) -> Result<Verified, ReceiptError> {
    verify(&Receipt::parse(receipt.as_bytes())?, policy)
}

#[test]
fn the_frozen_samples_verify_and_are_what_is_written_today() {
    let development = Organism::development();
    let production = Organism::production();
    for (text, policy, organism, witnesses) in [
        (
            DEVELOPMENT_RECEIPT,
            DEVELOPMENT_POLICY,
            &development,
            [].as_slice(),
        ),
        (
            PRODUCTION_RECEIPT,
            PRODUCTION_POLICY,
            &production,
            &[0, 1, 3],
        ),
    ] {
        let policy = Policy::parse(policy.as_bytes()).unwrap();
        let verified = check(text, &policy).unwrap();
        let read = Receipt::parse(text.as_bytes()).unwrap();
        let expected = Verified {
            origin: organism.origin,
            index: 4,
            size: 6,
            root: verified.root,
            time_s: TIME_S,
            demand: Demand::Quorum,
        };
        assert_eq!(verified, expected);
        assert_eq!(read.leaf, leaf(4));
        assert_eq!(receipt(organism, &[0, 1], witnesses).to_string(), text);
    }
    assert_eq!(development.policy().to_string(), DEVELOPMENT_POLICY);
    assert_eq!(production.policy().to_string(), PRODUCTION_POLICY);
}

#[test]
fn invalid_and_policy_not_met_are_never_confused() {
    let production = Organism::production();
    let (development, policy) = (Organism::development().policy(), production.policy());
    let check_for = |receipt: &Receipt, demand| verify_for(receipt, &policy, demand).map(|_| ());
    let whole = receipt(&production, &[0, 1], &[0, 1, 2]);
    assert_eq!(check_for(&whole, Demand::Quorum), Ok(()));

    let not_met = [
        (receipt(&production, &[0, 1], &[0, 1]), Demand::Quorum),
        (receipt(&production, &[0, 1], &[]), Demand::Quorum),
        (receipt(&production, &[0], &[0, 1, 2]), Demand::Nodes),
        (
            receipt(&Organism::development(), &[0, 1, 2], &[]),
            Demand::Nodes,
        ),
    ];
    for (receipt, demand) in not_met {
        assert!(matches!(
            check_for(&receipt, demand),
            Err(ReceiptError::NotMet(_))
        ));
    }
    assert_eq!(
        check_for(&receipt(&production, &[0, 1], &[]), Demand::Nodes),
        Ok(())
    );

    // A leaf that is not in the tree is invalid under every policy, met or not.
    let mut forged = whole.clone();
    forged.leaf = leaf(5);
    let why = ReceiptError::Invalid(InvalidReceipt::Proof(ProofError::RootMismatch));
    for policy in [&policy, &development] {
        assert_eq!(verify(&forged, policy), Err(why.clone()));
    }
    let mut moved = whole.clone();
    moved.proof.index = 5;
    assert!(matches!(
        check_for(&moved, Demand::Nodes),
        Err(ReceiptError::Invalid(_))
    ));
    moved.proof.index = 6;
    let why = ProofError::IndexOutside { index: 6, size: 6 };
    let why = ReceiptError::Invalid(InvalidReceipt::Proof(why));
    assert_eq!(verify(&moved, &policy), Err(why));

    let mut resigned = whole;
    let foreign = receipt_of(&production, 7, 4, &[2], &[]).proof.head;
    resigned
        .proof
        .head
        .add(foreign.signatures()[1].clone())
        .unwrap();
    assert!(matches!(
        check_for(&resigned, Demand::Quorum),
        Err(ReceiptError::Invalid(InvalidReceipt::Head(_)))
    ));
}

#[test]
fn an_inner_node_is_no_leaf() {
    // Without the prefixes of RFC 6962 the two children of a node would pass for a leaf.
    let production = Organism::production();
    let whole = receipt_of(&production, 2, 0, &[0, 1], &[0, 1, 2]);
    let hashes = [leaf_hash(&leaf(0)), leaf_hash(&leaf(1))];
    let forged = Receipt {
        leaf: [hashes[0].0, hashes[1].0].concat(),
        proof: TlogProof {
            index: 0,
            hashes: Vec::new(),
            ..whole.proof
        },
    };
    let why = ProofError::WrongLength {
        hashes: 0,
        expected: 1,
    };
    let why = ReceiptError::Invalid(InvalidReceipt::Proof(why));
    assert_eq!(verify(&forged, &production.policy()), Err(why));
}

#[test]
fn every_flipped_bit_of_a_receipt_is_noticed() {
    let policy = Policy::parse(DEVELOPMENT_POLICY.as_bytes()).unwrap();
    let mut bytes = DEVELOPMENT_RECEIPT.as_bytes().to_vec();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            let verdict = Receipt::parse(&bytes)
                .map_err(ReceiptError::from)
                .and_then(|receipt| verify(&receipt, &policy));
            assert!(verdict.is_err(), "bit {bit} of byte {at}");
            bytes[at] ^= 1 << bit;
        }
    }
}

#[test]
fn every_cut_of_a_receipt_is_noticed() {
    let policy = Policy::parse(DEVELOPMENT_POLICY.as_bytes()).unwrap();
    let first_signature = DEVELOPMENT_RECEIPT.find('—').unwrap();
    let boundaries: Vec<usize> = DEVELOPMENT_RECEIPT
        .match_indices('\n')
        .map(|(at, _)| at + 1)
        .filter(|at| *at > first_signature)
        .collect();
    for cut in 0..DEVELOPMENT_RECEIPT.len() {
        let verdict = Receipt::parse(&DEVELOPMENT_RECEIPT.as_bytes()[..cut])
            .map_err(ReceiptError::from)
            .and_then(|receipt| verify(&receipt, &policy));
        // Whole lines less are fewer signatures; anything else is no receipt.
        match verdict {
            Err(ReceiptError::NotMet(_)) => assert!(boundaries.contains(&cut), "cut at {cut}"),
            Err(ReceiptError::Invalid(_)) => assert!(!boundaries.contains(&cut), "cut at {cut}"),
            Ok(_) => panic!("cut at {cut} verifies"),
        }
    }
}

#[test]
fn lines_repeated_dropped_or_swapped_are_noticed() {
    let policy = Policy::parse(PRODUCTION_POLICY.as_bytes()).unwrap();
    let whole = check(PRODUCTION_RECEIPT, &policy);
    assert!(whole.is_ok());
    let lines: Vec<&str> = PRODUCTION_RECEIPT.split_inclusive('\n').collect();
    let signatures = lines.iter().position(|line| line.starts_with('—')).unwrap();
    for at in 0..lines.len() {
        let mut dropped = lines.clone();
        dropped.remove(at);
        assert!(
            check(&dropped.concat(), &policy).is_err(),
            "line {at} dropped"
        );

        let mut repeated = lines.clone();
        repeated.insert(at, lines[at]);
        let verdict = check(&repeated.concat(), &policy);
        if at < signatures {
            assert!(verdict.is_err(), "line {at} repeated");
        } else {
            assert_eq!(verdict, whole, "a signature repeated is one signature");
        }

        let mut swapped = lines.clone();
        swapped.swap(at, (at + 1) % lines.len());
        let verdict = check(&swapped.concat(), &policy);
        if (signatures..lines.len() - 1).contains(&at) {
            assert_eq!(verdict, whole, "the order of signatures means nothing");
        } else {
            assert!(verdict.is_err(), "line {at} swapped with the next");
        }

        let mut widened = lines.clone();
        widened.insert(at, "\n");
        assert!(
            check(&widened.concat(), &policy).is_err(),
            "blank line before line {at}"
        );
    }
}

#[test]
fn receipts_have_one_spelling() {
    let text = PRODUCTION_RECEIPT;
    let lines: Vec<&str> = text.lines().collect();
    let (extra, index, hash, blank) = (lines[1], lines[2], lines[3], 5);
    assert_eq!((index, lines[blank]), ("index 4", ""));
    let origin = lines[blank + 1];
    let size = lines[blank + 2];
    let replaced = |from: &str, to: &str| text.replacen(from, to, 1);
    use InvalidReceipt::*;
    for (bad, why) in [
        (String::new(), NotATlogProof),
        (replaced("@v1", "@v2"), NotATlogProof),
        (format!("\u{feff}{text}"), NotATlogProof),
        (format!("\n{text}"), NotATlogProof),
        (text.replace('\n', "\r\n"), NotATlogProof),
        (replaced(&format!("{extra}\n"), ""), NoLeaf),
        (replaced(extra, "extra "), NoLeaf),
        (replaced(extra, "extra"), NoLeaf),
        (replaced(extra, &format!("{extra} ")), NoLeaf),
        (replaced(extra, &format!("{extra}\r")), NoLeaf),
        (replaced(extra, &extra.replace("extra ", "Extra ")), NoLeaf),
        (replaced(extra, &extra.replace("extra ", "extra  ")), NoLeaf),
        (replaced(extra, extra.trim_end_matches('=')), NoLeaf),
        (replaced(index, "index 04"), NoIndex),
        (replaced(index, "index +4"), NoIndex),
        (replaced(index, "index -4"), NoIndex),
        (replaced(index, "index"), NoIndex),
        (replaced(index, "index 4 "), NoIndex),
        (replaced(index, "index 18446744073709551616"), NoIndex),
        (replaced(index, &format!("{extra}\n{index}")), NoIndex),
        (
            replaced(hash, hash.trim_end_matches('=')),
            BadHash { line: 1 },
        ),
        (replaced(hash, &format!(" {hash}")), BadHash { line: 1 }),
        (replaced(hash, &format!("{hash}\n ")), BadHash { line: 2 }),
        (replaced(hash, "AAAA"), BadHash { line: 1 }),
        (
            replaced(hash, &format!("{hash}\n").repeat(64)),
            TooManyHashes,
        ),
        (lines[..blank].join("\n") + "\n", NoCheckpoint),
        (lines[..=blank].join("\n") + "\n", Note(NoteError::NotWhole)),
        (
            lines[..=blank + 4].join("\n") + "\n",
            Note(NoteError::NotWhole),
        ),
        (text.trim_end().to_owned(), Note(NoteError::NotWhole)),
        (
            replaced(origin, &format!("{origin}\r")),
            Note(NoteError::ControlCharacter),
        ),
        (
            replaced(origin, "example.com/log"),
            Checkpoint(CheckpointError::Origin(OriginError)),
        ),
        (
            replaced(&format!("\n{size}\n"), &format!("\n0{size}\n")),
            Checkpoint(CheckpointError::BadSize),
        ),
        (
            replaced("\n\n—", "\nextension\n\n—"),
            Checkpoint(CheckpointError::NotThreeLines),
        ),
    ] {
        assert_eq!(Receipt::parse(bad.as_bytes()), Err(why), "{bad}");
    }
    assert_eq!(Receipt::parse(&[0xff]), Err(NotText));
    assert_eq!(
        Receipt::parse(&vec![b'x'; RECEIPT_BYTES_MAX + 1]),
        Err(NotText)
    );
}

#[test]
fn the_first_leaf_alone_has_an_empty_proof() {
    let production = Organism::production();
    let first = receipt_of(&production, 1, 0, &[1, 2], &[1, 2, 3]);
    let text = first.to_string();
    assert!(text.contains("\nindex 0\n\nredlatch/"));
    assert_eq!(check(&text, &production.policy()).unwrap().size, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn written_receipts_read_back_and_verify(size in 1u8..24, index: prop::sample::Index) {
        let organism = Organism::development();
        let index = u8::try_from(index.index(size.into())).unwrap();
        let receipt = receipt_of(&organism, size, index, &[0, 2], &[]);
        let read = Receipt::parse(receipt.to_string().as_bytes());
        prop_assert_eq!(&read, &Ok(receipt));
        let verified = verify(&read.unwrap(), &organism.policy()).unwrap();
        prop_assert_eq!((verified.index, verified.size), (index.into(), size.into()));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), keep in 0usize..900) {
        let mut file = PRODUCTION_RECEIPT.as_bytes()[..keep].to_vec();
        file.extend_from_slice(&bytes);
        if let Ok(read) = Receipt::parse(&file) {
            prop_assert_eq!(read.to_string().into_bytes(), file);
        }
    }
}
