//! RFC 6962 Merkle tree hashing, and verification of inclusion and consistency proofs
//! (RFC 9162 §2.1.3.2 and §2.1.4.2). It verifies only: proofs are made from stored tree
//! nodes by `redlatch_journal::tree`.

use thiserror::Error;

use crate::bytes::Digest;

/// A proof of more hashes is refused before any of them is looked at: 63 hashes serve a
/// tree of 2^63 leaves (C2SP tlog-witness names the same bound).
pub const PROOF_HASHES_MAX: usize = 63;

const LEAF_PREFIX: [u8; 1] = [0x00];
const NODE_PREFIX: [u8; 1] = [0x01];

/// Why a Merkle proof does not hold. Every variant blames whoever made the proof.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum ProofError {
    /// The leaf's index is not in a tree of that size.
    #[error("index {index} is outside a tree of {size} leaves")]
    IndexOutside {
        /// Zero-based position of the leaf.
        index: u64,
        /// Leaves in the tree.
        size: u64,
    },
    /// The older tree is larger than the newer one.
    #[error("the older tree has {old_size} leaves, the newer only {new_size}")]
    SizeShrank {
        /// Leaves in the older tree.
        old_size: u64,
        /// Leaves in the newer tree.
        new_size: u64,
    },
    /// More than [`PROOF_HASHES_MAX`] hashes.
    #[error("a proof of {hashes} hashes is longer than any tree needs")]
    TooLong {
        /// Hashes in the proof.
        hashes: usize,
    },
    /// Not the number of hashes that this position and size have.
    #[error("the proof has {hashes} hashes where {expected} are needed")]
    WrongLength {
        /// Hashes in the proof.
        hashes: usize,
        /// Hashes that the shape of the tree asks for.
        expected: usize,
    },
    /// The hashes lead to another root than the (newer) one given.
    #[error("the proof leads to another root")]
    RootMismatch,
    /// The hashes lead to another older root than the one given.
    #[error("the proof leads to another root of the older tree")]
    OldRootMismatch,
}

/// Hash of one leaf: SHA-256 of `0x00 || data` (RFC 6962 §2.1).
pub fn leaf_hash(data: &[u8]) -> Digest {
    Digest::of_parts(&[&LEAF_PREFIX, data])
}

/// Hash of an inner node: SHA-256 of `0x01 || left || right` (RFC 6962 §2.1).
pub fn node_hash(left: &Digest, right: &Digest) -> Digest {
    Digest::of_parts(&[&NODE_PREFIX, &left.0, &right.0])
}

/// Root of the tree without leaves: SHA-256 of nothing (RFC 6962 §2.1).
pub fn empty_root() -> Digest {
    Digest::of(&[])
}

/// Checks that the leaf with hash `leaf` stands at `index` in the tree of `size` leaves
/// with root `root`. `proof` runs from the leaf's sibling up to the root's child.
///
/// The size is as trustworthy as whoever stated it together with the root: for some
/// positions trees of neighbouring sizes have proofs of the same shape.
///
/// # Errors
/// Any [`ProofError`] except the two about an older tree.
pub fn verify_inclusion(
    index: u64,
    size: u64,
    leaf: &Digest,
    proof: &[Digest],
    root: &Digest,
) -> Result<(), ProofError> {
    if index >= size {
        return Err(ProofError::IndexOutside { index, size });
    }
    let shape = Shape::of(index, size - 1);
    expect_length(proof, shape.inner + shape.border)?;
    let (inner, border) = proof.split_at(shape.inner);
    let top = climb_border(climb(*leaf, inner, index), border);
    if top == *root {
        Ok(())
    } else {
        Err(ProofError::RootMismatch)
    }
}

/// Checks that the tree (`old_size`, `old_root`) is a prefix of (`new_size`, `new_root`).
/// Equal sizes and an older size of 0 have empty proofs; the roots are compared still.
///
/// # Errors
/// Any [`ProofError`] except [`ProofError::IndexOutside`].
pub fn verify_consistency(
    old_size: u64,
    old_root: &Digest,
    new_size: u64,
    new_root: &Digest,
    proof: &[Digest],
) -> Result<(), ProofError> {
    if old_size > new_size {
        return Err(ProofError::SizeShrank { old_size, new_size });
    }
    if old_size == 0 || old_size == new_size {
        return verify_trivial(old_size, old_root, new_size, new_root, proof);
    }
    // Both roots are rebuilt from one start: the largest complete subtree that ends where
    // the older tree ends. If that is the older tree itself, the proof leaves it out.
    let skip = old_size.trailing_zeros();
    let shape = Shape::of(old_size - 1, new_size - 1);
    let inner = shape.inner - skip as usize;
    let (start, hashes) = match proof.split_first() {
        _ if old_size.is_power_of_two() => (*old_root, proof),
        Some((first, rest)) => (*first, rest),
        None => {
            let expected = 1 + inner + shape.border;
            return Err(ProofError::WrongLength {
                hashes: 0,
                expected,
            });
        }
    };
    expect_length(proof, proof.len() - hashes.len() + inner + shape.border)?;
    let path = (old_size - 1) >> skip;
    let (inner, border) = hashes.split_at(inner);
    if climb_border(climb_left(start, inner, path), border) != *old_root {
        return Err(ProofError::OldRootMismatch);
    }
    if climb_border(climb(start, inner, path), border) != *new_root {
        return Err(ProofError::RootMismatch);
    }
    Ok(())
}

fn verify_trivial(
    old_size: u64,
    old_root: &Digest,
    new_size: u64,
    new_root: &Digest,
    proof: &[Digest],
) -> Result<(), ProofError> {
    expect_length(proof, 0)?;
    if old_size == 0 && *old_root != empty_root() {
        return Err(ProofError::OldRootMismatch);
    }
    if old_size == new_size && old_root != new_root {
        return Err(ProofError::RootMismatch);
    }
    Ok(())
}

/// How a path splits: `inner` steps below the point where it parts from the path of the
/// tree's last leaf, then `border` steps along the right edge, where only left siblings
/// exist.
struct Shape {
    inner: usize,
    border: usize,
}

impl Shape {
    fn of(index: u64, last: u64) -> Shape {
        let inner = u64::BITS - (index ^ last).leading_zeros();
        let above = index.checked_shr(inner).unwrap_or(0);
        Shape {
            inner: inner as usize,
            border: above.count_ones() as usize,
        }
    }
}

fn expect_length(proof: &[Digest], expected: usize) -> Result<(), ProofError> {
    let hashes = proof.len();
    if hashes > PROOF_HASHES_MAX {
        return Err(ProofError::TooLong { hashes });
    }
    if hashes != expected {
        return Err(ProofError::WrongLength { hashes, expected });
    }
    Ok(())
}

/// Climbs with siblings on the side that each bit of `path` says, lowest bit first.
fn climb(start: Digest, siblings: &[Digest], path: u64) -> Digest {
    siblings
        .iter()
        .enumerate()
        .fold(start, |node, (level, sibling)| {
            if bit(path, level) {
                node_hash(sibling, &node)
            } else {
                node_hash(&node, sibling)
            }
        })
}

/// Climbs with the left siblings only: what lies right was not there in the older tree.
fn climb_left(start: Digest, siblings: &[Digest], path: u64) -> Digest {
    siblings
        .iter()
        .enumerate()
        .fold(start, |node, (level, sibling)| {
            if bit(path, level) {
                node_hash(sibling, &node)
            } else {
                node
            }
        })
}

fn climb_border(start: Digest, siblings: &[Digest]) -> Digest {
    siblings
        .iter()
        .fold(start, |node, sibling| node_hash(sibling, &node))
}

/// `level` is below [`PROOF_HASHES_MAX`], so the shift stays inside the word.
fn bit(path: u64, level: usize) -> bool {
    (path >> level) & 1 == 1
}

#[cfg(test)]
pub(crate) mod definition;
#[cfg(test)]
mod tests;
