//! Proofs made here against the verification of `redlatch_types::merkle`.

// Tree sizes of tests fit every word size.
#![allow(clippy::cast_possible_truncation)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use redlatch_types::codec::Canonical;
use redlatch_types::merkle::{leaf_hash, verify_consistency, verify_inclusion};

use super::*;

/// A tree with its stored nodes, and the root of every size on the way.
struct Grown {
    frontier: Frontier,
    nodes: BTreeMap<NodeIndex, Digest>,
    roots: Vec<Digest>,
}

fn grow(leaves: u64) -> Grown {
    let mut frontier = Frontier::new();
    let mut nodes = BTreeMap::new();
    let mut roots = vec![frontier.root()];
    let mut completed = Vec::new();
    for leaf in 0..leaves {
        frontier.append(numbered(leaf), &mut completed);
        for (node, hash) in completed.drain(..) {
            assert_eq!(nodes.insert(node, hash), None, "{node:?} was written twice");
        }
        roots.push(frontier.root());
    }
    Grown {
        frontier,
        nodes,
        roots,
    }
}

fn numbered(leaf: u64) -> Digest {
    leaf_hash(&leaf.to_be_bytes())
}

impl Grown {
    fn inclusion(&self, size: u64, index: u64) -> Option<Vec<Digest>> {
        inclusion_proof(size, index, &mut |node| self.nodes.get(&node).copied())
    }

    fn consistency(&self, old: u64, new: u64) -> Option<Vec<Digest>> {
        consistency_proof(old, new, &mut |node| self.nodes.get(&node).copied())
    }

    fn root(&self, size: u64) -> &Digest {
        &self.roots[size as usize]
    }
}

/// `MTH` of RFC 6962 §2.1, over leaf hashes.
fn root_by_definition(leaves: &[Digest]) -> Digest {
    match leaves {
        [] => empty_root(),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            node_hash(&root_by_definition(left), &root_by_definition(right))
        }
    }
}

#[test]
fn roots_are_those_of_the_definition() {
    let grown = grow(130);
    let leaves: Vec<Digest> = (0..130).map(numbered).collect();
    for size in 0..=leaves.len() {
        assert_eq!(
            grown.roots[size],
            root_by_definition(&leaves[..size]),
            "{size} leaves"
        );
    }
}

#[test]
fn the_classic_certificate_transparency_tree() {
    let mut frontier = Frontier::new();
    for leaf in [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ] {
        let bytes: Vec<u8> = (0..leaf.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&leaf[at..at + 2], 16).unwrap())
            .collect();
        frontier.append(leaf_hash(&bytes), &mut Vec::new());
    }
    assert_eq!(
        frontier.root().to_string(),
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
    );
}

#[test]
fn exactly_the_complete_subtrees_are_stored() {
    let grown = grow(70);
    for level in 0..8u8 {
        let stored = grown
            .nodes
            .keys()
            .filter(|node| node.level == level)
            .count() as u64;
        assert_eq!(stored, 70 >> level, "level {level}");
    }
}

#[test]
fn every_proof_of_every_size_verifies() {
    let grown = grow(70);
    for new in 0..=70 {
        for index in 0..new {
            let proof = grown.inclusion(new, index).unwrap();
            let leaf = numbered(index);
            assert_eq!(
                verify_inclusion(index, new, &leaf, &proof, grown.root(new)),
                Ok(())
            );
        }
        for old in 0..=new {
            let proof = grown.consistency(old, new).unwrap();
            let verdict = verify_consistency(old, grown.root(old), new, grown.root(new), &proof);
            assert_eq!(verdict, Ok(()), "{old} to {new}");
        }
    }
}

#[test]
fn what_cannot_be_proven_has_no_proof() {
    let grown = grow(10);
    assert_eq!(grown.inclusion(10, 10), None);
    assert_eq!(grown.inclusion(0, 0), None);
    assert_eq!(grown.consistency(7, 6), None);
    assert_eq!(
        grown.inclusion(11, 3),
        None,
        "the eleventh leaf is not stored"
    );
    assert_eq!(
        grown.inclusion(u64::MAX, 3),
        None,
        "nothing so large is stored"
    );
    assert_eq!(
        grown.consistency(3, u64::MAX),
        None,
        "nothing so large is stored"
    );
}

#[test]
fn a_missing_node_is_no_proof_rather_than_a_wrong_one() {
    let mut grown = grow(21);
    let stored: Vec<NodeIndex> = grown.nodes.keys().copied().collect();
    for missing in stored {
        let hash = grown.nodes.remove(&missing).unwrap();
        for index in 0..21 {
            if let Some(proof) = grown.inclusion(21, index) {
                let leaf = numbered(index);
                assert_eq!(
                    verify_inclusion(index, 21, &leaf, &proof, grown.root(21)),
                    Ok(())
                );
            }
        }
        grown.nodes.insert(missing, hash);
    }
}

#[test]
fn a_frontier_whose_peaks_do_not_fit_its_size_does_not_decode() {
    let frontier = grow(6).frontier;
    let bytes = frontier.to_canonical();
    assert_eq!(Frontier::from_canonical(&bytes), Ok(frontier));
    assert_eq!(bytes[..3], [0xa2, 0x00, 0x06]);
    for size in (0..24u8).filter(|size| size.count_ones() != 2) {
        let mut other = bytes.clone();
        other[2] = size;
        assert!(Frontier::from_canonical(&other).is_err(), "size {size}");
    }
    let mut huge = vec![0xa2, 0x00, 0x1b];
    huge.extend_from_slice(&((1u64 << 63) | 1).to_be_bytes());
    huge.extend_from_slice(&bytes[3..]);
    assert!(Frontier::from_canonical(&huge).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_frontier_read_back_goes_on_as_the_one_written(before in 0u64..300, after in 0u64..40) {
        let mut written = grow(before).frontier;
        let mut read = Frontier::from_canonical(&written.to_canonical()).unwrap();
        for leaf in 0..after {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            written.append(numbered(leaf), &mut a);
            read.append(numbered(leaf), &mut b);
            prop_assert_eq!(a, b);
        }
        prop_assert_eq!(written.root(), read.root());
        prop_assert_eq!(written.size(), before + after);
    }

    #[test]
    fn one_flipped_bit_breaks_every_proof(
        new in 2u64..300,
        index: prop::sample::Index,
        old: prop::sample::Index,
        at: prop::sample::Index,
        bit in 0usize..256,
    ) {
        let grown = grow(new);
        let flip = |proof: &[Digest]| {
            let mut proof = proof.to_vec();
            let place = at.index(proof.len());
            proof[place].0[bit / 8] ^= 1 << (bit % 8);
            proof
        };
        let index = index.index(new as usize) as u64;
        let proof = grown.inclusion(new, index).unwrap();
        let leaf = numbered(index);
        prop_assert_eq!(verify_inclusion(index, new, &leaf, &proof, grown.root(new)), Ok(()));
        let wrong = flip(&proof);
        prop_assert!(verify_inclusion(index, new, &leaf, &wrong, grown.root(new)).is_err());

        let old = old.index(new as usize - 1) as u64 + 1;
        let proof = grown.consistency(old, new).unwrap();
        let check = |proof: &[Digest]| {
            verify_consistency(old, grown.root(old), new, grown.root(new), proof)
        };
        prop_assert_eq!(check(&proof), Ok(()));
        prop_assert!(check(&flip(&proof)).is_err());
    }
}
