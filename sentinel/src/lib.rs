//! The redlatch sentinel: it says GREEN, WITHHELD or RED, as a service (DESIGN §5.3, §6).
//!
//! ```text
//!   nodes (role node) ── evaluate ──▶ service ──▶ desk: judge ─┐        ┌─▶ actuator, directly
//!   safety officer (role operator) ── raise ─▶      outbox ────┴ driver ┼─▶ node 1, node 2, … in parallel
//!                                                     ▲   durable first └─▶ verdict, sealed
//!   journal, followed and proven: latch, terminal, acknowledged, decision, epoch ┘
//! ```
//!
//! [`SentinelProcess`] is the whole sentinel over any store, in the real and in the simulated world; `main`
//! adds the configuration file, redb, diagnostics, logs and signals. Raising RED needs this process and
//! nothing else: no node, no quorum, no network.
//!
//! It authorises nothing: its GREEN is one of several things that a decision needs, and its rules are those
//! of its own configuration. It believes no node: freezes, latches and ends are proven by receipts.

#![forbid(unsafe_code)]

mod alarm;
pub mod config;
mod courier;
mod desk;
mod driver;
mod follow;
mod metrics;
pub mod process;
pub mod rules;
mod service;
mod start;
pub mod store;

pub use alarm::FatalCause;
pub use config::SentinelConfig;
pub use process::{SentinelParts, SentinelProcess};
pub use start::StartFailure;
