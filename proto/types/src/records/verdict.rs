//! The sentinel's verdict on an intent (SPEC C.23). RED goes its own way: see [`super::red`].

use std::fmt;

use minicbor::{Decode, Encode};

use super::base::{Text, words};
use crate::bytes::Digest;
use crate::ids::{AutonomyEpoch, ConstitutionEpoch, IntentDigest};

words! {
    /// What the sentinel says of an intent.
    Verdict {
        /// No objection: necessary for a positive decision, sufficient for nothing.
        1 Green "GREEN",
        /// No permission, without a stop: the sentinel could not satisfy itself.
        2 Withheld "WITHHELD",
    }
}

/// Signed by the pinned sentinel over a frozen intent, never over a decision (M1-L2).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct SentinelVerdictV1 {
    /// Unique.
    #[n(0)]
    pub verdict_id: Digest,
    /// Pin of sentinel identity, key, build list and policy.
    #[n(1)]
    pub sentinel_identity_key_binary_policy_digest: Digest,
    /// Metrics, evidence and rollback considered; equal to the intent's.
    #[n(2)]
    pub metric_evidence_rollback_digest: Digest,
    /// GREEN or WITHHELD.
    #[n(3)]
    pub verdict: Verdict,
    /// The intent.
    #[n(4)]
    pub intent_digest: IntentDigest,
    /// Content address of its bytes.
    #[n(5)]
    pub intent_core_ref: IntentDigest,
    /// Canonicalization rule.
    #[n(6)]
    pub intent_canonicalization_version: u64,
    /// Constitution version judged under.
    #[n(7)]
    pub constitution_epoch: ConstitutionEpoch,
    /// Autonomy epoch judged under.
    #[n(8)]
    pub autonomy_epoch: AutonomyEpoch,
    /// Risk and scope judged.
    #[n(9)]
    pub risk_scope_digest: Digest,
    /// Candidate judged.
    #[n(10)]
    pub candidate_digest_optional: Option<Digest>,
    /// Single-use value.
    #[n(11)]
    pub nonce: Digest,
    /// State time at signing, from the freeze proof.
    #[n(12)]
    pub issued_at: u64,
    /// State time past which it is void; at most 10 min later.
    #[n(13)]
    pub expires_at: u64,
    /// Why, for people; a WITHHELD always says.
    #[n(14)]
    pub reason_optional: Option<Text>,
}
