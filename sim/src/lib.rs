//! The simulated world of redlatch: the real node, verifiers, sentinel and actuator, unchanged, on simulated
//! disks, clocks and network, one seed per process.
//!
//! ```text
//!   seed ─▶ scenario ─▶ world: 3 nodes (redlatch-node over redlatch-raft), faults, workload
//!                          │   and in stories of the whole organism: 4 verifiers, sentinel, actuator
//!                          │ disks, states, answers
//!                          ▼
//!                       history ─▶ invariants (one file each) at every step
//!                          │  └─▶ oracle: what clients were promised; a lost answer is unknown
//!                          ▼
//!                       liveness: faults stop, 30 s to lead, serve, latch and agree
//!                       trace: equal byte for byte for equal seeds
//! ```
//!
//! Built with `--cfg madsim` the sockets, clocks, tasks and randomness of every crate below come from the
//! seed; the disk is the product's own simulated engine. What that leaves out is tested elsewhere: bytes on
//! the wire, TLS and RocksDB (RECIPE: messages travel as values here).
//!
//! This crate does not model the product: there is no second implementation to compare with, only
//! properties. It is not shipped, and nothing depends on it.

#![forbid(unsafe_code)]

pub mod facts;
pub mod faults;
pub mod history;
pub mod invariants;
pub mod oracle;
pub mod organism;
pub mod party_faults;
pub mod seed;
pub mod states;
pub mod trace;

#[cfg(madsim)]
pub mod disk;
#[cfg(madsim)]
pub mod kept;
#[cfg(madsim)]
pub mod liveness;
#[cfg(madsim)]
pub mod parties;
#[cfg(madsim)]
pub mod planted;
#[cfg(madsim)]
pub mod process;
#[cfg(madsim)]
pub mod run;
#[cfg(madsim)]
pub mod scenarios;
#[cfg(madsim)]
pub mod workload;
#[cfg(madsim)]
pub mod world;
