//! The sentinel's beat: that it lives, and where its outbox stands (DESIGN §6, FAULTS 62).

use minicbor::{Decode, Encode};

use crate::bytes::Digest;
use crate::ids::OutboxEpoch;

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
