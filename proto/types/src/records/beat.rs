//! Beats: the sentinel's to the actuator, and the actuator's permit beat to a gate (DESIGN §6, FAULTS 62).

use std::fmt;

use minicbor::{Decode, Encode};

use super::base::words;
use super::intent::SovereignActionIntentV1;
use super::red::RedScope;
use crate::bytes::Digest;
use crate::ids::OutboxEpoch;
use crate::mandate::covers;

/// Sent by the sentinel to the actuator. A receiver that knows of fewer REDs than the beat
/// names has a RED outstanding; one that knows of more has found a rolled-back sentinel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct SentinelBeatV1 {
    /// Number of the beat, ascending within a writer generation, from 1.
    #[n(0)]
    pub sequence: u64,
    /// Raised whenever a process opens the outbox: two writers show by it (FAULTS 55).
    #[n(1)]
    pub writer_generation: u64,
    /// Last number of the outbox; 0 if it is empty.
    #[n(2)]
    pub outbox_epoch: OutboxEpoch,
    /// Root after that entry; [`Digest::ZERO`] if it is empty.
    #[n(3)]
    pub outbox_root_digest: Digest,
}

words! {
    /// What the actuator hears of the sentinel.
    SentinelLine {
        /// Fresh beats, and nothing signed that has not arrived.
        1 Beating "beating",
        /// No fresh beat.
        2 Silent "silent",
        /// A RED was signed that has not arrived.
        3 RedOutstanding "red_outstanding",
        /// Its outbox is not the one that was seen.
        4 Behind "behind",
    }
}

/// The actuator's answer to a gate's nonce: what it holds. Its age is measured by the gate's
/// monotonic clock from the sending of the nonce; it carries no time of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct PermitBeatV1 {
    /// The gate's nonce.
    #[n(0)]
    pub nonce: Digest,
    /// Every held scope, ascending.
    #[n(1)]
    pub held: Vec<RedScope>,
    /// Anything but beating denies everything.
    #[n(2)]
    pub sentinel: SentinelLine,
    /// The last RED that the actuator has stored; 0 before the first.
    #[n(3)]
    pub seen_outbox_epoch: OutboxEpoch,
}

impl PermitBeatV1 {
    /// Whether nothing that the actuator knows speaks against an act on `intent`.
    pub fn permits(&self, intent: &SovereignActionIntentV1) -> bool {
        self.sentinel == SentinelLine::Beating && !self.held.iter().any(|s| covers(s, intent))
    }
}
