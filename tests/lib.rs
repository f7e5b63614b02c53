//! Shared ground of the tests that look at the whole product.
//!
//! ```text
//!   test executable ── beside it ──▶ redlatch, redlatch-node, … ── refused if stale
//!        │                                   │
//!        └── StateFolder (one per process) ◀─┘
//! ```
//!
//! - [`repository`]: the root of the checkout that this executable was built from.
//! - [`binary`]: a product binary beside this executable, refused if it is not a build of what
//!   now lies in the checkout.
//! - [`StateFolder`]: a folder that is gone after the test, and kept if the test failed.
//! - [`eventually`]: waits for a condition, never for a time.
//! - [`home`]: the folder that `init --dev` made, whatever of it runs.
//! - [`process`], [`cluster`]: nodes as processes of their own, killable one by one.
//! - [`organism`], [`author`]: all nine processes, a repository behind their gate, and who lands on it.
//! - [`excerpt`]: what a document shows of a program's output, held against that output.
//! - [`identity`], [`caller`], [`journal`]: certificates, signed commands and what nodes have of them.
//!
//! This crate does not build anything, and no other crate depends on it.

#![forbid(unsafe_code)]

#[path = "shared/author.rs"]
pub mod author;
#[path = "shared/build.rs"]
mod build;
#[path = "shared/caller.rs"]
pub mod caller;
#[path = "shared/cluster.rs"]
pub mod cluster;
#[path = "shared/excerpt.rs"]
pub mod excerpt;
#[path = "shared/home.rs"]
pub mod home;
#[path = "shared/identity.rs"]
pub mod identity;
#[path = "shared/journal.rs"]
pub mod journal;
#[path = "shared/organism.rs"]
pub mod organism;
#[path = "shared/process.rs"]
pub mod process;
#[path = "shared/state.rs"]
mod state;

pub use build::{Stale, binary, freshness, repository};
pub use state::{StateFolder, eventually};
