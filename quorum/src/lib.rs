//! The redlatch verifier: one of four voters, as a service.
//!
//! ```text
//!   nodes (role node)                         fellows (role verifier)
//!     │ ballot, open, sign                       │ ceremony, boot
//!     ▼                                          ▼
//!   service ─▶ signer ─▶ redlatch-ballot's     ceremony ─▶ sealed share ─▶ four confirmations
//!                │       machine                                              │ journaled
//!                │          │ effects                                         ▼
//!     evaluate ◀─┘          ▼                                 activation: receipt verified, share opened
//!   git, evidence     driver::run_effects ─▶ store (durable before it is said)
//! ```
//!
//! [`VerifierProcess`] is the whole verifier over any store, in the real and in the simulated world;
//! `main` adds the configuration file, redb, diagnostics, logs and signals.
//!
//! It believes no node: a freeze is believed by its receipt, a key by the receipt of its activation, a
//! candidate by its own look at it. It proposes nothing but the activation of the quorum's key, and it
//! makes no effect.

#![forbid(unsafe_code)]

mod activation;
mod alarm;
pub mod ceremony;
pub mod config;
mod driver;
pub mod evaluate;
mod fellows;
mod freeze;
mod metrics;
mod newcomer;
pub mod process;
mod service;
mod signer;
mod start;
pub mod store;
mod vault;

pub use alarm::FatalCause;
pub use config::VerifierConfig;
pub use process::{VerifierParts, VerifierProcess};
pub use start::StartFailure;
pub use vault::{StretchCost, VaultError};
