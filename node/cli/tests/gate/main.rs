//! The git gate as a process: real git, real hooks, the real journal behind three nodes in this process.

#![allow(
    unreachable_pub,
    dead_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests, and a world that they share with others"
)]

mod attest;
mod bench;
mod cluster;
mod land;
mod landing;
mod repositories;
mod rosters;
#[path = "../../../src/view.rs"]
mod view;
#[path = "../../../../raft/core/tests/world/mod.rs"]
mod world;
