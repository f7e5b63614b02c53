//! Receipts: offline-verifiable proofs that an event is in the journal.
