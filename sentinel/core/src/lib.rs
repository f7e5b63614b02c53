//! The sentinel's pure core: rules, verdicts, the RED outbox, beats (DESIGN §5.3, §6).
//!
//! ```text
//!   freeze proof ─▶ rules ─▶ Judge ──▶ GREEN · WITHHELD · silence      (signed by the shell)
//!                              │
//!                             RED      safety officer
//!                              ▼            ▼
//!                            Outbox: coalesce ▸ chain ▸ Persist ▸ Deliver(actuator)
//!                              ▲                                ▸ Deliver(every node)
//!                              └── latch, terminal, closed: proven events ── retries by time
//! ```
//!
//! Two promises meet here. A RED that was signed is never lost: it is persisted before it is
//! sent, and sent until a proven latch *and* a proven terminal event close it (M1-I32). And no
//! GREEN is stated while anyone remembers a longer or another outbox than this one
//! ([`outbox::Health`]).
//!
//! Inputs are methods, effects are values in the order in which they must be run; a failed
//! [`outbox::Effect::Persist`] ends the process before anything after it is run.
//!
//! This crate does not send, store, sign verdicts, read a clock or draw randomness; it does
//! not decide (the journal does), and nothing in it authorises anything by itself.

#![forbid(unsafe_code)]

pub mod beats;
pub mod officers;
pub mod outbox;
pub mod rules;
pub mod verdict;

pub use beats::BeatCounter;
pub use officers::Officers;
pub use outbox::{Health, Outbox};
pub use rules::{Assessment, RedCall, Rules};
pub use verdict::{FreezeFacts, Judge};
