//! Everything of redlatch that knows openraft: where the Raft log and the journal are kept, how
//! nodes speak to each other, how commands become entries and how tree heads are cosigned.
//!
//! ```text
//!   API (redlatch-node)                      peers
//!        |  commands                           ^  |  AppendEntries, Vote, Snapshot, Hello, heads
//!        v                                     |  v
//!   +----------+   one entry = one batch   +----------+
//!   | proposer |-------------------------->| openraft |
//!   +----------+                           +----------+
//!        ^                                   |      |
//!        | outcomes              log, vote   |      |  committed entries, in order
//!        |                                   v      v
//!        |                          +-----------+ +---------+    heads    +--------+
//!        +--------------------------| log_store | | machine |------------>| cosign |
//!                                   +-----------+ +---------+             +--------+
//!                                     synced |       | buffered, one write per entry
//!                                            v       v
//!                                   +------------------------+
//!                                   |         engine         |   RocksDB, or a simulated disk
//!                                   +------------------------+
//! ```
//!
//! This crate does not decide anything about intents, RED or receipts: that is the pure
//! `redlatch-journal`, which `machine` drives. It does not know the client API, drivers or
//! diagnostics of a node, and it never repairs a disk that has failed: a storage fault ends the
//! process (D8).

#![forbid(unsafe_code)]

mod admission;
pub mod alarm;
pub mod archive;
pub mod batch;
mod campaign;
mod chain;
pub mod config;
pub mod cosign;
pub mod engine;
pub mod entry;
mod exchange;
mod forward;
pub mod heads;
mod hello;
pub mod links;
pub mod log_store;
pub mod machine;
pub mod membership;
pub mod memory;
pub mod network;
pub mod node;
pub mod peers;
pub mod planted;
mod propose;
pub mod proposer;
pub mod read_point;
mod record;
mod rejoin;
pub mod runtime;
pub mod server;
pub mod shared;
pub mod snapshot;
pub mod standing;
pub mod wire;
