//! The Merkle tree of the journal: frontier, stored nodes, proofs.
