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
//! [`attempts`], [`hold`] and [`verify_red`] are pure: no clock, no randomness, no I/O. They do not
//! raise RED, do not lift a freeze (a person's reset does), and know nothing of votes or decisions.
//! Around them stands the shell: [`ActuatorProcess`] over any store, in the real and in the
//! simulated world, with two listeners. On the RED line the pinned sentinel is heard and nobody
//! else; on the hold line gates ask and change nothing. `main` adds the configuration file, redb,
//! diagnostics, logs and signals.

#![forbid(unsafe_code)]

mod alarm;
pub mod attempts;
pub mod config;
mod desk;
mod driver;
mod follow;
pub mod hold;
mod metrics;
pub mod planted;
pub mod process;
mod service;
mod start;
pub mod store;
pub mod verify_red;

pub use alarm::FatalCause;
pub use attempts::{Attempts, SafetyCommand};
pub use config::ActuatorConfig;
pub use hold::{Answer, Hold};
pub use process::{ActuatorParts, ActuatorProcess};
pub use start::StartFailure;
pub use verify_red::{AuthenticRed, RedVerifier};
