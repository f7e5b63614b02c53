//! The vocabulary of redlatch: records, identifiers, canonical bytes, signatures and receipts.
//!
//! ```text
//!   record ──codec──▶ canonical CBOR ──sign──▶ Envelope ──open──▶ Signed<T>
//!                                                                   │ (the only door)
//!   leaf ──merkle──▶ root ──checkpoint──▶ note + cosignatures ──policy──▶ receipt verified
//! ```
//!
//! Everything here is a value: no clock, no randomness, no I/O, no unordered map. Journal,
//! verifiers, sentinel, actuator, gate and the offline verifier share these definitions and
//! therefore cannot disagree about what was signed (DESIGN D4 to D6).
//!
//! This crate does not decide anything about state (`redlatch-journal` does), does not talk
//! to anyone (`redlatch-link` does) and knows no protobuf (`redlatch-proto` does).

#![forbid(unsafe_code)]

pub mod bytes;
pub mod chain;
pub mod checkpoint;
pub mod codec;
pub mod command;
pub mod event;
pub mod ids;
pub mod in_force;
pub mod limits;
pub mod lineage;
pub mod mandate;
pub mod merkle;
pub mod note;
pub mod planted;
pub mod policy;
pub mod proven;
pub mod receipt;
pub mod records;
pub mod refusal;
pub mod sign;
pub mod time;

pub use bytes::{Bytes, Digest, PublicKey, Signature};
pub use codec::{Canonical, NotCanonical};
pub use ids::*;
pub use refusal::Refusal;
pub use sign::{Envelope, Record, Scope, Signed, SigningKey};
