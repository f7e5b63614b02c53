//! The authority journal: a pure, synchronous decider and its Merkle log (DESIGN D3, D4).
//!
//! ```text
//!             admit            decide                 evolve
//!   bytes ──────────▶ Command ────────▶ events,reply ────────▶ Authority'
//!          signatures          state                     │
//!          canonical           only read                 └──leaf──▶ Log (tree, positions)
//! ```
//!
//! - `admit` is stateless: it decodes, re-encodes, and checks every signature against the key
//!   that the record names. It may run in parallel and may be memoised.
//! - `decide` checks everything else against the state and changes nothing.
//! - `evolve` changes the state by one event, checks nothing and cannot fail.
//! - [`State::apply`] runs one Raft entry, an ordered batch, through the three.
//!
//! Time comes from `Tick` commands only (D7), expiry is decided here and by nobody else, and
//! everything is ordered data: two replicas that apply the same entries are equal.
//!
//! This crate does not do I/O, has no clock and no randomness, and knows neither Raft nor gRPC.
//! The archive of terminal things lives outside; `decide` never asks it.

#![forbid(unsafe_code)]

pub mod admit;
pub mod authority;
pub mod decide;
pub mod development;
pub mod evolve;
pub mod index;
pub mod planted;
pub mod registry;
pub mod state;
pub mod summary;
pub mod tree;
pub mod webauthn;

#[cfg(test)]
extern crate self as redlatch_journal;
// Inside the crate, because a bug can be planted only here (`Bug`).
#[cfg(test)]
#[path = "../tests/main.rs"]
mod tests;

pub use admit::{Command, admit};
pub use authority::Authority;
pub use decide::{Outcome, check_approval, decide};
pub use evolve::evolve;
pub use index::IndexKey;
pub use state::{Applied, EntryId, Log, State, TreeHead};
