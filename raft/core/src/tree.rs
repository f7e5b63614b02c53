//! The journal's Merkle tree (RFC 6962): the frontier that grows with each leaf, the inner
//! nodes that are stored, and the proofs that are made from them.
//!
//! ```text
//!   leaf hash ──append──▶ Frontier ──root──▶ tree head
//!                            │
//!                            └──▶ (NodeIndex, Digest) to be stored ──fetch──▶ proofs
//! ```
//!
//! Only *complete* subtrees are stored: each is written once and never changes. Whatever else
//! a proof needs is hashed from them. This module does not store and does not verify:
//! verification is `redlatch_types::merkle`, shared with those who have no journal.

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};
use redlatch_types::bytes::Digest;
use redlatch_types::merkle::{empty_root, node_hash};

/// A frontier of more leaves is no frontier of a journal: proofs have at most 63 hashes.
pub const TREE_SIZE_MAX: u64 = 1 << 62;

/// A complete subtree: leaves `index * 2^level` up to `(index + 1) * 2^level`, exclusive.
/// Level 0 is a leaf.
#[derive(Clone, Copy, Debug, Decode, Encode, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cbor(map)]
pub struct NodeIndex {
    /// Height above the leaves.
    #[n(0)]
    pub level: u8,
    /// Position among the complete subtrees of that level, from the left.
    #[n(1)]
    pub index: u64,
}

/// The right edge of the tree: what is needed to append a leaf and to compute the root.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Frontier {
    size: u64,
    /// Roots of the complete subtrees that make up the tree, largest first: one for each bit
    /// that is set in `size`.
    peaks: Vec<Digest>,
}

impl Frontier {
    /// The tree without leaves.
    pub fn new() -> Frontier {
        Frontier::default()
    }

    /// Number of leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Appends the leaf with hash `leaf` and pushes every subtree that it completes onto
    /// `out`, the leaf itself first.
    pub fn append(&mut self, leaf: Digest, out: &mut Vec<(NodeIndex, Digest)>) {
        let mut node = NodeIndex {
            level: 0,
            index: self.size,
        };
        let mut hash = leaf;
        out.push((node, hash));
        while node.index & 1 == 1 {
            let Some(left) = self.peaks.pop() else { break };
            hash = node_hash(&left, &hash);
            node = NodeIndex {
                level: node.level + 1,
                index: node.index >> 1,
            };
            out.push((node, hash));
        }
        self.peaks.push(hash);
        self.size += 1;
    }

    /// The RFC 6962 root.
    pub fn root(&self) -> Digest {
        let mut peaks = self.peaks.iter().rev();
        let Some(smallest) = peaks.next() else {
            return empty_root();
        };
        peaks.fold(*smallest, |right, left| node_hash(left, &right))
    }
}

impl<C> Encode<C> for Frontier {
    fn encode<W: encode::Write>(
        &self,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        e.map(2)?.u8(0)?.u64(self.size)?.u8(1)?;
        self.peaks.encode(e, ctx)
    }
}

impl<'b, C> Decode<'b, C> for Frontier {
    /// Refuses a frontier whose peaks do not belong to its size: appending to it would give
    /// roots of no tree.
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Frontier, decode::Error> {
        let shape = || decode::Error::message("not a frontier");
        if d.map()? != Some(2) || d.u8()? != 0 {
            return Err(shape());
        }
        let size = d.u64()?;
        if size > TREE_SIZE_MAX || d.u8()? != 1 {
            return Err(shape());
        }
        let peaks = Vec::<Digest>::decode(d, ctx)?;
        if usize::try_from(size.count_ones()) != Ok(peaks.len()) {
            return Err(shape());
        }
        Ok(Frontier { size, peaks })
    }
}

/// Inclusion proof of leaf `index` in the tree of the first `size` leaves (RFC 6962 §2.1.1),
/// from the leaf's sibling up to the root's child. `fetch` yields stored nodes.
///
/// `None`: a node is missing, or `index` is not below `size`.
pub fn inclusion_proof(
    size: u64,
    index: u64,
    fetch: &mut dyn FnMut(NodeIndex) -> Option<Digest>,
) -> Option<Vec<Digest>> {
    if index >= size {
        return None;
    }
    let mut proof = Vec::new();
    let mut span = Span {
        start: 0,
        len: size,
    };
    while span.len > 1 {
        let (left, right) = span.split();
        let sibling = if index < right.start {
            span = left;
            right
        } else {
            span = right;
            left
        };
        proof.push(sibling.hash(fetch)?);
    }
    proof.reverse();
    Some(proof)
}

/// Consistency proof between the trees of the first `old` and the first `new` leaves
/// (RFC 6962 §2.1.2). Empty if `old` is 0 or equal to `new`.
///
/// `None`: a node is missing, or `old` is larger than `new`.
pub fn consistency_proof(
    old: u64,
    new: u64,
    fetch: &mut dyn FnMut(NodeIndex) -> Option<Digest>,
) -> Option<Vec<Digest>> {
    if old > new {
        return None;
    }
    let mut proof = Vec::new();
    if old == 0 || old == new {
        return Some(proof);
    }
    // Down to the subtree that ends where the older tree ends; beside the way lie the hashes.
    let mut span = Span { start: 0, len: new };
    while span.start + span.len != old {
        let (left, right) = span.split();
        let sibling = if old <= right.start {
            span = left;
            right
        } else {
            span = right;
            left
        };
        proof.push(sibling.hash(fetch)?);
    }
    // A verifier knows the older root itself, so it is left out when it is that subtree.
    if span.start != 0 {
        proof.push(span.hash(fetch)?);
    }
    proof.reverse();
    Some(proof)
}

/// Consecutive leaves as RFC 6962 divides them: `start` is a multiple of the largest power of
/// two that is not above `len`.
#[derive(Clone, Copy)]
struct Span {
    start: u64,
    len: u64,
}

impl Span {
    /// At the largest power of two below `len`, which is at least 2.
    fn split(self) -> (Span, Span) {
        let left = 1 << (self.len - 1).ilog2();
        let right = Span {
            start: self.start + left,
            len: self.len - left,
        };
        (
            Span {
                start: self.start,
                len: left,
            },
            right,
        )
    }

    /// Root of the span: folded from its complete subtrees.
    fn hash(self, fetch: &mut dyn FnMut(NodeIndex) -> Option<Digest>) -> Option<Digest> {
        let mut complete = Vec::new();
        let Span { mut start, mut len } = self;
        while len > 0 {
            let level = len.ilog2();
            let level_byte = u8::try_from(level).ok()?;
            complete.push(fetch(NodeIndex {
                level: level_byte,
                index: start >> level,
            })?);
            start += 1 << level;
            len -= 1 << level;
        }
        let mut right_to_left = complete.into_iter().rev();
        let smallest = right_to_left.next()?;
        Some(right_to_left.fold(smallest, |right, left| node_hash(&left, &right)))
    }
}

#[cfg(test)]
mod tests;
