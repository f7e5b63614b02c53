//! The actuator: the smallest binary, negative verbs only (DESIGN §6, D1, D2).
//!
//! ```text
//!   RED (sentinel, direct) ─▶ verify_red ─▶ Hold ─▶ permits(intent)? ─▶ gates
//!                                            ▲
//!   latch (journal, proven) ─────────────────┤
//!                                            ▼
//!                          Attempts: Persist ▸ StoreIntent ▸ stored, proven ▸ sign
//!                                    ▸ Prepare ▸ Claim ▸ Finish ▸ terminal, proven
//! ```
//!
//! The two halves do not wait for each other: HOLD rises with the RED alone, without a quorum;
//! the safety transaction follows the latch alone, in whatever order the two arrive.
//!
//! What comes out is negative by type: [`attempts::SafetyCommand`] has four variants, and each
//! carries out the mandate that the latch has fixed (M1-I30, M1-I31). The actuator obeys no
//! node: only proven events and the sentinel's signature move it, and doubt reads as HOLD.
//!
//! These modules are pure: no clock, no randomness, no I/O. They do not raise RED, do not lift
//! a freeze (a person's reset does), and know nothing of votes or decisions.

#![forbid(unsafe_code)]

pub mod attempts;
pub mod hold;
pub mod verify_red;

pub use attempts::{Attempts, SafetyCommand};
pub use hold::{Answer, Hold};
pub use verify_red::{AuthenticRed, RedVerifier};
