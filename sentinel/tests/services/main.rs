//! Sentinel and actuator as services: over loopback with mutual TLS, against three nodes that share one pure
//! journal, with stores that lose power.
//!
//! ```text
//!   officer ─▶ Sentinel ─┬─ RED, beats ─▶ RED line ─ Actuator ─ hold line ◀─ gate
//!                        └─ LatchRed ─▶ n1 n2 n3 (one journal, real receipts) ◀─ safety commands ┘
//! ```

#![cfg(not(madsim))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod cluster;
mod evaluate;
mod follow;
mod identities;
mod line;
mod parties;
mod replaced;
mod reset;
mod stop;
mod trust;

#[path = "../../core/tests/world/mod.rs"]
mod world;

use std::future::Future;
use std::time::{Duration, Instant};

/// Waits until `holds`; there is no other synchronisation, and no test rests on how long it takes.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
