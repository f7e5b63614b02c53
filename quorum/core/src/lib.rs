//! The blind ballot and the quorum's key, as values and rules (DESIGN §7: D11, D12, D13).
//!
//! ```text
//!                 packet            sheet               package
//!   coordinator ─────────▶ verifier ◀──────── coordinator ────────▶ verifier
//!   (untrusted)            │  ▲                                     │
//!                evaluate  │  │ stored vote, sheet, burned nonces   │ own check, own message
//!                          ▼  │                                     ▼
//!                 sealed vote + commitments      opened vote      share ──▶ aggregate ──▶ Authorization
//!
//!   ceremony: round 1 ─▶ round 2 ─▶ sealed share ─▶ four confirmations journaled ─▶ active share
//! ```
//!
//! - [`verifier`]: one verifier's machine. Its methods return ordered [`VerifierEffect`]s; what must be
//!   durable before it is said stands before it. The driver carries them out one by one, and
//!   stops the process when one fails.
//! - [`coordinator`]: the rules of the party that carries messages between four verifiers, the
//!   sentinel and the journal. It is trusted with nothing: whatever it sends is checked.
//! - [`ceremony`]: the distributed key generation of the four, three of four, fixed.
//! - [`tally`], [`decision`]: pure functions that count votes and rebuild the one decision.
//!
//! A verifier signs what it rebuilt from its own stored vote and never bytes from the wire
//! (FAULTS 35). A nonce is a value without `Clone` that signing consumes (FAULTS 32).
//!
//! This crate does not do I/O, has no clock and draws no randomness of its own; it does not
//! evaluate candidates, does not verify receipts, and does not know who is connected.

#![forbid(unsafe_code)]

pub mod ceremony;
pub mod coordinator;
pub mod decision;
mod group;
pub mod messages;
mod nonce;
pub mod planted;
pub mod records;
pub mod share;
pub mod tally;
pub mod terms;
pub mod verifier;

pub use ceremony::{Ceremony, CeremonyEffect, CeremonyFault};
pub use coordinator::{Abstention, Coordinator, Step};
pub use records::{Row, VerifierEffect};
pub use share::{KeyShare, SealedShare, ShareError};
pub use tally::Subset;
pub use terms::{FreezeProof, FrozenIntent, OwnSeat, QuorumKey, Terms};
pub use verifier::{Answer, Next, Refused, Verifier};
