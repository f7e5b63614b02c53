//! The redlatch node: one replica of the journal with its public face.
//!
//! ```text
//!   clients, gates, verifiers, sentinel, actuator          peers (nodes only)
//!            │ mutual TLS                                      │ mutual TLS
//!            ▼                                                 ▼
//!   service: role ▸ admit ▸ propose / signed reads      redlatch-raft's peer service
//!            │                                                 │
//!            └──────────────▶ RaftNode (redlatch-raft) ◀───────┘
//!                                │        ▲
//!                   held, clock, view   drivers: REDs, time, void transactions
//!                                       coordinator ─▶ verifiers, sentinel (leader only)
//! ```
//!
//! [`NodeProcess`] is the whole node over any engine, in the real and in the simulated world; `main` adds
//! the configuration file, RocksDB, diagnostics, logs and signals.
//!
//! The node decides nothing: what may happen is judged by `redlatch-journal` on every replica, and the
//! authority for it is in the signatures of a command, not in the certificate of who brings it. It makes no
//! vote, no verdict and no effect.

#![forbid(unsafe_code)]

mod answer;
pub mod clock;
pub mod config;
pub mod coordinator;
pub mod drivers;
pub mod files;
pub mod held;
pub mod ingress;
mod metrics;
pub mod process;
mod service;
mod start;
pub mod view;

pub use config::NodeConfig;
pub use coordinator::PartyAddresses;
pub use files::NodeFiles;
pub use process::{NodeParts, NodeProcess};
pub use start::StartFailure;
