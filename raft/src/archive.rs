//! The journal as it lies on disk: leaves, tree nodes and index, with their keys, and the proofs
//! that are read from them (D4, D8).
//!
//! | family | key | value |
//! |---|---|---|
//! | `Leaves` | position, u64 big-endian | canonical bytes of the event |
//! | `Nodes` | level u8, index u64 big-endian | RFC 6962 hash of that complete subtree |
//! | `Index` | bytes of the index key | position, u64 big-endian |
//!
//! Nothing here is believed without a head: whoever takes a proof checks it. Writes are made by
//! `machine` and `backfill`, as part of their batches.

use redlatch_journal::tree::{self, NodeIndex};
use redlatch_types::{Digest, merkle};

use crate::engine::{Engine, Family, StorageFault, WriteBatch};

/// Leaves read in one step.
const SCAN_ROWS: usize = 256;

/// Reads the journal of one engine.
#[derive(Clone, Debug)]
pub struct Archive<E> {
    engine: E,
}

impl<E: Engine> Archive<E> {
    /// The archive in `engine`.
    pub fn new(engine: E) -> Self {
        Self { engine }
    }

    /// One leaf, if it is there.
    ///
    /// # Errors
    /// Any fault of the store.
    pub fn leaf(&self, position: u64) -> Result<Option<Vec<u8>>, StorageFault> {
        self.engine.get(Family::Leaves, &leaf_key(position))
    }

    /// Consecutive leaves of `[from, to)`, until about `bytes_max` bytes are read; ends early at a
    /// gap. At least one leaf, if the first is there.
    ///
    /// # Errors
    /// Any fault of the store.
    pub fn leaves(
        &self,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Result<Vec<Vec<u8>>, StorageFault> {
        let mut leaves = Vec::new();
        let mut next = from;
        let mut bytes = 0;
        while next < to && bytes < bytes_max {
            let rows =
                self.engine
                    .scan(Family::Leaves, &leaf_key(next), &leaf_key(to), SCAN_ROWS)?;
            if rows.is_empty() {
                break;
            }
            for (key, leaf) in rows {
                if key != leaf_key(next) || (bytes >= bytes_max && !leaves.is_empty()) {
                    return Ok(leaves);
                }
                bytes += leaf.len();
                leaves.push(leaf);
                next += 1;
            }
        }
        Ok(leaves)
    }

    /// Position that an index key leads to.
    ///
    /// # Errors
    /// Any fault of the store; a value that is no position is `Corrupt`.
    pub fn find(&self, key: &[u8]) -> Result<Option<u64>, StorageFault> {
        let Some(value) = self.engine.get(Family::Index, key)? else {
            return Ok(None);
        };
        match <[u8; 8]>::try_from(value) {
            Ok(position) => Ok(Some(u64::from_be_bytes(position))),
            Err(_) => Err(self.engine.condemn(StorageFault::Corrupt {
                what: "archive index".into(),
                detail: "a position is not 8 bytes".into(),
            })),
        }
    }

    /// Root of the first `size` leaves; `None` if a node is missing.
    ///
    /// # Errors
    /// Any fault of the store.
    pub fn root_at(&self, size: u64) -> Result<Option<Digest>, StorageFault> {
        let mut fault = None;
        let root = root_at(size, &mut |node| self.node(node, &mut fault));
        fault.map_or(Ok(root), Err)
    }

    /// Inclusion proof of a leaf in the tree of the first `size` leaves.
    ///
    /// # Errors
    /// Any fault of the store.
    pub fn inclusion(&self, size: u64, position: u64) -> Result<Option<Vec<Digest>>, StorageFault> {
        let mut fault = None;
        let proof = tree::inclusion_proof(size, position, &mut |node| self.node(node, &mut fault));
        fault.map_or(Ok(proof), Err)
    }

    /// Consistency proof between two sizes of this journal.
    ///
    /// # Errors
    /// Any fault of the store.
    pub fn consistency(&self, old: u64, new: u64) -> Result<Option<Vec<Digest>>, StorageFault> {
        let mut fault = None;
        let proof = tree::consistency_proof(old, new, &mut |node| self.node(node, &mut fault));
        fault.map_or(Ok(proof), Err)
    }

    fn node(&self, node: NodeIndex, fault: &mut Option<StorageFault>) -> Option<Digest> {
        match self.engine.get(Family::Nodes, &node_key(&node)) {
            Ok(value) => value.and_then(|value| value.try_into().ok()).map(Digest),
            Err(error) => {
                fault.get_or_insert(error);
                None
            }
        }
    }
}

/// Root of the first `size` leaves from the complete subtrees it is made of (RFC 6962 §2.1).
fn root_at(size: u64, fetch: &mut dyn FnMut(NodeIndex) -> Option<Digest>) -> Option<Digest> {
    let mut root = None;
    let mut rest = size;
    // From the smallest subtree, on the right, to the largest.
    while rest > 0 {
        let level = rest.trailing_zeros();
        rest &= rest - 1;
        let node = NodeIndex {
            level: u8::try_from(level).ok()?,
            index: rest >> level,
        };
        let peak = fetch(node)?;
        root = Some(match root {
            None => peak,
            Some(right) => merkle::node_hash(&peak, &right),
        });
    }
    Some(root.unwrap_or_else(merkle::empty_root))
}

/// Key of a leaf.
pub(crate) fn leaf_key(position: u64) -> [u8; 8] {
    position.to_be_bytes()
}

fn node_key(node: &NodeIndex) -> [u8; 9] {
    let mut key = [0; 9];
    key[0] = node.level;
    key[1..].copy_from_slice(&node.index.to_be_bytes());
    key
}

/// Puts leaves from `first` on, with their nodes and index, into `batch`.
pub(crate) fn put(
    batch: &mut WriteBatch,
    first: u64,
    leaves: impl IntoIterator<Item = Vec<u8>>,
    nodes: &[(NodeIndex, Digest)],
    index: impl IntoIterator<Item = (Vec<u8>, u64)>,
) {
    for (position, leaf) in (first..).zip(leaves) {
        batch.put(Family::Leaves, leaf_key(position), leaf);
    }
    for (node, digest) in nodes {
        batch.put(Family::Nodes, node_key(node), digest.0);
    }
    for (key, position) in index {
        batch.put(Family::Index, key, position.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use redlatch_journal::tree::Frontier;

    use super::*;

    #[test]
    fn the_root_of_every_earlier_size_is_read_from_the_nodes() {
        let mut frontier = Frontier::new();
        let mut nodes = BTreeMap::new();
        let mut roots = vec![frontier.root()];
        for leaf in 0..70_u8 {
            let mut out = Vec::new();
            frontier.append(merkle::leaf_hash(&[leaf]), &mut out);
            nodes.extend(
                out.into_iter()
                    .map(|(node, digest)| (node_key(&node), digest)),
            );
            roots.push(frontier.root());
        }
        for (size, root) in (0..).zip(&roots) {
            let found = root_at(size, &mut |node| nodes.get(&node_key(&node)).copied());
            assert_eq!(found, Some(*root), "size {size}");
        }
        assert_eq!(root_at(3, &mut |_| None), None);
    }
}
