//! Known vectors of RFC 6962 trees (those of the Certificate Transparency test suites), and
//! every proof against a tree that is computed straight from the definition.

// Tree sizes of tests fit every word size.
#![allow(clippy::cast_possible_truncation)]

use proptest::prelude::*;

use super::definition::{numbered_leaves, path, root, subproof};
use super::*;

/// The eight leaves that Certificate Transparency implementations test with.
const CT_LEAVES: [&str; 8] = [
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
];

/// Roots of the trees of the first 1 to 8 of them.
const CT_ROOTS: [&str; 8] = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

fn digest(hex: &str) -> Digest {
    hex.parse().unwrap()
}

fn digests(list: &[&str]) -> Vec<Digest> {
    list.iter().map(|hex| digest(hex)).collect()
}

fn ct_leaves() -> Vec<Digest> {
    CT_LEAVES
        .iter()
        .map(|leaf| leaf_hash(&hex::decode(leaf).unwrap()))
        .collect()
}

fn flipped(digest: &Digest, bit: usize) -> Digest {
    let mut bytes = digest.0;
    bytes[bit / 8] ^= 1 << (bit % 8);
    Digest(bytes)
}

#[test]
fn known_hashes() {
    assert_eq!(
        empty_root(),
        digest("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    );
    assert_eq!(leaf_hash(b""), digest(CT_ROOTS[0]));
    assert_eq!(
        leaf_hash(b"L123456"),
        digest("395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56")
    );
    assert_eq!(
        Digest::of_parts(&[&[1], b"N123", b"N456"]),
        digest("aa217fe888e47007fa15edab33c2b492a722cb106c64667fc2b044444de66bbb")
    );
}

#[test]
fn known_roots() {
    let leaves = ct_leaves();
    for (count, expected) in (1..=8).zip(CT_ROOTS) {
        assert_eq!(root(&leaves[..count]), digest(expected), "{count} leaves");
    }
}

#[test]
fn known_inclusion_proofs() {
    let leaves = ct_leaves();
    let known: [(u64, u64, &[&str]); 4] = [
        (0, 1, &[]),
        (
            0,
            8,
            &[
                "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
            ],
        ),
        (
            5,
            8,
            &[
                "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
                "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            ],
        ),
        (
            2,
            3,
            &["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
        ),
    ];
    for (index, size, proof) in known {
        let leaf = leaves[index as usize];
        let root = digest(CT_ROOTS[size as usize - 1]);
        assert_eq!(
            verify_inclusion(index, size, &leaf, &digests(proof), &root),
            Ok(())
        );
    }
}

#[test]
fn known_consistency_proofs() {
    let known: [(u64, u64, &[&str]); 4] = [
        (1, 1, &[]),
        (
            1,
            8,
            &[
                "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
            ],
        ),
        (
            6,
            8,
            &[
                "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
                "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            ],
        ),
        (
            2,
            5,
            &[
                "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            ],
        ),
    ];
    for (old, new, proof) in known {
        let (old_root, new_root) = (
            digest(CT_ROOTS[old as usize - 1]),
            digest(CT_ROOTS[new as usize - 1]),
        );
        let verdict = verify_consistency(old, &old_root, new, &new_root, &digests(proof));
        assert_eq!(verdict, Ok(()), "{old} to {new}");
    }
}

#[test]
fn every_proof_of_small_trees_verifies_and_proves_nothing_else() {
    let leaves = numbered_leaves(40);
    for size in 1..=leaves.len() {
        let root_hash = root(&leaves[..size]);
        for index in 0..size {
            let proof = path(index, &leaves[..size]);
            for (other, leaf) in leaves[..size].iter().enumerate() {
                let claim = verify_inclusion(other as u64, size as u64, leaf, &proof, &root_hash);
                assert_eq!(
                    claim.is_ok(),
                    other == index,
                    "{other} by the proof of {index}"
                );
                let claim = verify_inclusion(index as u64, size as u64, leaf, &proof, &root_hash);
                assert_eq!(claim.is_ok(), other == index, "leaf {other} at {index}");
            }
        }
        for old in 1..=size {
            let proof = subproof(old, &leaves[..size], true);
            for claimed in 1..=size {
                let old_root = root(&leaves[..claimed]);
                let claim =
                    verify_consistency(claimed as u64, &old_root, size as u64, &root_hash, &proof);
                assert_eq!(
                    claim.is_ok(),
                    claimed == old,
                    "{claimed} by the proof of {old}"
                );
            }
        }
    }
}

#[test]
fn an_older_tree_without_leaves_is_a_prefix_of_every_tree() {
    let new_root = root(&numbered_leaves(5));
    assert_eq!(
        verify_consistency(0, &empty_root(), 5, &new_root, &[]),
        Ok(())
    );
    assert_eq!(
        verify_consistency(0, &empty_root(), 0, &empty_root(), &[]),
        Ok(())
    );
    assert_eq!(
        verify_consistency(0, &new_root, 5, &new_root, &[]),
        Err(ProofError::OldRootMismatch)
    );
    assert_eq!(
        verify_consistency(0, &empty_root(), 5, &new_root, &[new_root]),
        Err(ProofError::WrongLength {
            hashes: 1,
            expected: 0
        })
    );
}

#[test]
fn shapes_that_cannot_be_are_named() {
    let hash = empty_root();
    assert_eq!(
        verify_inclusion(0, 0, &hash, &[], &hash),
        Err(ProofError::IndexOutside { index: 0, size: 0 })
    );
    assert_eq!(
        verify_inclusion(5, 5, &hash, &[], &hash),
        Err(ProofError::IndexOutside { index: 5, size: 5 })
    );
    assert_eq!(
        verify_inclusion(0, 5, &hash, &[], &hash),
        Err(ProofError::WrongLength {
            hashes: 0,
            expected: 3
        })
    );
    assert_eq!(
        verify_inclusion(0, u64::MAX, &hash, &[hash; 64], &hash),
        Err(ProofError::TooLong { hashes: 64 })
    );
    assert_eq!(
        verify_inclusion(u64::MAX - 1, u64::MAX, &hash, &[hash; 63], &hash),
        Err(ProofError::RootMismatch)
    );
    assert_eq!(
        verify_consistency(3, &hash, 2, &hash, &[]),
        Err(ProofError::SizeShrank {
            old_size: 3,
            new_size: 2
        })
    );
    assert_eq!(
        verify_consistency(3, &hash, 4, &hash, &[]),
        Err(ProofError::WrongLength {
            hashes: 0,
            expected: 3
        })
    );
    assert_eq!(
        verify_consistency(1, &hash, u64::MAX, &hash, &[hash; 65]),
        Err(ProofError::TooLong { hashes: 65 })
    );
    assert_eq!(
        verify_consistency(4, &hash, 4, &node_hash(&hash, &hash), &[]),
        Err(ProofError::RootMismatch)
    );
}

proptest! {
    #[test]
    fn one_flipped_bit_breaks_an_inclusion_proof(
        size in 1usize..200,
        index: prop::sample::Index,
        place: prop::sample::Index,
        bit in 0usize..256,
    ) {
        let leaves = numbered_leaves(size);
        let index = index.index(size);
        let (mut leaf, mut root_hash) = (leaves[index], root(&leaves));
        let mut proof = path(index, &leaves);
        let (index, size) = (index as u64, size as u64);
        prop_assert_eq!(verify_inclusion(index, size, &leaf, &proof, &root_hash), Ok(()));
        match place.index(proof.len() + 2) {
            0 => leaf = flipped(&leaf, bit),
            1 => root_hash = flipped(&root_hash, bit),
            at => proof[at - 2] = flipped(&proof[at - 2], bit),
        }
        prop_assert_eq!(
            verify_inclusion(index, size, &leaf, &proof, &root_hash),
            Err(ProofError::RootMismatch)
        );
    }

    #[test]
    fn one_flipped_bit_breaks_a_consistency_proof(
        new in 1usize..200,
        old: prop::sample::Index,
        place: prop::sample::Index,
        bit in 0usize..256,
    ) {
        let leaves = numbered_leaves(new);
        let old = old.index(new) + 1;
        let (mut old_root, mut new_root) = (root(&leaves[..old]), root(&leaves));
        let mut proof = subproof(old, &leaves, true);
        let (old, new) = (old as u64, new as u64);
        prop_assert_eq!(verify_consistency(old, &old_root, new, &new_root, &proof), Ok(()));
        match place.index(proof.len() + 2) {
            0 => old_root = flipped(&old_root, bit),
            1 => new_root = flipped(&new_root, bit),
            at => proof[at - 2] = flipped(&proof[at - 2], bit),
        }
        prop_assert!(verify_consistency(old, &old_root, new, &new_root, &proof).is_err());
    }

    #[test]
    fn a_proof_cut_or_lengthened_is_refused(
        size in 2usize..200,
        index: prop::sample::Index,
        at: prop::sample::Index,
    ) {
        let leaves = numbered_leaves(size);
        let index = index.index(size);
        let root_hash = root(&leaves);
        let proof = path(index, &leaves);
        let at = at.index(proof.len());
        let (mut cut, mut longer) = (proof.clone(), proof.clone());
        cut.remove(at);
        longer.insert(at, proof[at]);
        for wrong in [cut, longer] {
            let verdict =
                verify_inclusion(index as u64, size as u64, &leaves[index], &wrong, &root_hash);
            prop_assert_eq!(
                verdict,
                Err(ProofError::WrongLength { hashes: wrong.len(), expected: proof.len() })
            );
        }
    }

    #[test]
    fn no_input_panics(
        index: u64,
        size: u64,
        old: u64,
        hashes in prop::collection::vec(any::<[u8; 32]>(), 0..70),
    ) {
        let proof: Vec<Digest> = hashes.into_iter().map(Digest).collect();
        let hash = empty_root();
        prop_assert!(
            verify_inclusion(index, size, &hash, &proof, &hash).is_err() || size == 1
        );
        let consistency = verify_consistency(old, &hash, size, &hash, &proof);
        prop_assert!(consistency.is_err() || old == size || old == 0);
    }
}
