//! Merkle trees straight from the recursive definitions of RFC 6962, for tests.

use super::{empty_root, leaf_hash, node_hash};
use crate::bytes::Digest;

/// `MTH` of RFC 6962 §2.1, over leaf hashes.
pub(crate) fn root(leaves: &[Digest]) -> Digest {
    match leaves {
        [] => empty_root(),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(split_point(leaves.len()));
            node_hash(&root(left), &root(right))
        }
    }
}

/// `PATH` of RFC 6962 §2.1.1.
pub(crate) fn path(index: usize, leaves: &[Digest]) -> Vec<Digest> {
    if leaves.len() == 1 {
        return Vec::new();
    }
    let k = split_point(leaves.len());
    let (left, right) = leaves.split_at(k);
    let (mut proof, sibling) = if index < k {
        (path(index, left), right)
    } else {
        (path(index - k, right), left)
    };
    proof.push(root(sibling));
    proof
}

/// `SUBPROOF` of RFC 6962 §2.1.2.
pub(crate) fn subproof(old: usize, leaves: &[Digest], whole: bool) -> Vec<Digest> {
    if old == leaves.len() {
        return if whole {
            Vec::new()
        } else {
            vec![root(leaves)]
        };
    }
    let k = split_point(leaves.len());
    let (left, right) = leaves.split_at(k);
    let (mut proof, sibling) = if old <= k {
        (subproof(old, left, whole), right)
    } else {
        (subproof(old - k, right, false), left)
    };
    proof.push(root(sibling));
    proof
}

fn split_point(len: usize) -> usize {
    len.next_power_of_two() / 2
}

pub(crate) fn numbered_leaves(count: usize) -> Vec<Digest> {
    (0..count).map(|n| leaf_hash(&n.to_be_bytes())).collect()
}
