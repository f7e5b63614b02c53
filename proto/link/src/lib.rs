//! The shell kit: what every process of redlatch needs around its core, in two worlds.
//!
//! ```text
//!            config ──▶ T            certificate ──▶ identity (spiffe://organism/role/name)
//!                                         │
//!  shell ─┬─ logs, exit, supervisor   transport: Dialer ─▶ Link ═ mutual TLS ═▶ Listener ─▶ services
//!         ├─ world: clock, tasks, randomness                                     caller(&request)
//!         ├─ diagnostics: /livez /readyz /metrics, gRPC health (loopback only)
//!         └─ store, keys, file: what must survive power loss
//! ```
//!
//! Built with `--cfg madsim` the same names run in a simulation: the transport without TLS, the store's twin
//! in place of redb, time and randomness from the seed. Code above this crate has no `cfg` of its own.
//!
//! Apart from [`nodes`], the client of the cluster that every other process uses, and [`follow`], which reads
//! its journal, it knows no record, no journal and no method; it decides nothing about what a caller may do.

#![forbid(unsafe_code)]

pub mod build_id;
pub mod certificate;
pub mod config;
pub mod diagnostics;
pub mod exit;
pub mod file;
pub mod follow;
pub mod identity;
pub mod keys;
pub mod logs;
pub mod nodes;
pub mod passphrase;
#[cfg(not(madsim))]
pub mod shell;
pub mod store;
pub mod supervisor;
pub mod transport;
pub mod world;

pub use identity::{PeerIdentity, Role};
