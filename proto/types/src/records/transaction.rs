//! Authority transactions and their markers (SPEC C.34 to C.37).

use std::fmt;

use minicbor::{Decode, Encode};

use super::base::{AuthorityVariant, Mode, Tier, words};
use super::binding::CommonBindingSet;
use crate::bytes::Digest;
use crate::codec::Canonical;
use crate::ids::{
    AutonomyEpoch, CapabilityId, ConstitutionEpoch, EventId, GrantId, IntentDigest, LatchNumber,
    MarkerNumber, SubjectId, TickNumber, TransactionId,
};

words! {
    /// Exactly one variant per transaction (M1-I29).
    TransactionVariant {
        /// Rests on a positive decision and a one-shot capability.
        1 PositiveAuthority "POSITIVE_AUTHORITY",
        /// Rests on a RED, its latch and the actuator's capability; never on a decision.
        2 SafetyKernel "SAFETY_KERNEL",
    }
}

/// A positive transaction as it is stored by PREPARE (SPEC C.34, C.35).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct PositiveAuthorityTransactionV1 {
    /// The common binding set.
    #[n(0)]
    pub binding: CommonBindingSet,
    /// Always POSITIVE_AUTHORITY.
    #[n(1)]
    pub transaction_variant: TransactionVariant,
    /// Kind of the capability.
    #[n(2)]
    pub capability_kind: AuthorityVariant,
    /// The capability, consumed by this PREPARE.
    #[n(3)]
    pub capability_id: CapabilityId,
    /// The decision it was minted from.
    #[n(4)]
    pub authority_decision_digest: Digest,
    /// Grant.
    #[n(5)]
    pub applicable_grant_id: Option<GrantId>,
    /// Verdict.
    #[n(6)]
    pub sentinel_verdict_digest_optional: Option<Digest>,
    /// Subject being promoted.
    #[n(7)]
    pub promotion_target_subject_id_optional: Option<SubjectId>,
    /// Mode expected at COMMIT.
    #[n(8)]
    pub expected_active_mode: Mode,
    /// Activation receipt expected at COMMIT.
    #[n(9)]
    pub expected_activation_receipt_id: Digest,
    /// Binding of identities and roles.
    #[n(10)]
    pub identity_role_binding_digest: Digest,
    /// Pending REDs seen at PREPARE.
    #[n(11)]
    pub expected_pending_red_set_digest: Digest,
    /// Latch number seen at PREPARE.
    #[n(12)]
    pub expected_red_latch_epoch: LatchNumber,
    /// Tick at PREPARE, the time evidence of `prepared_at`.
    #[n(13)]
    pub tick: TickNumber,
    /// State time of PREPARE.
    #[n(14)]
    pub prepared_at: u64,
    /// State time past which it can no longer COMMIT.
    #[n(15)]
    pub expires_at: u64,
    /// Digest of the variant's decision.
    #[n(16)]
    pub decision_digest: Digest,
    /// Tier at which the capability was valid; equal to the intent's.
    #[n(17)]
    pub effective_tier_optional: Option<Tier>,
    /// Idempotency key of the proposal; equal to the intent's.
    #[n(18)]
    pub idempotency_key: EventId,
    /// The capability's nonce, consumed by this PREPARE.
    #[n(19)]
    pub nonce: Digest,
    /// What undoes the effect: the digest of the intent's plan.
    #[n(20)]
    pub rollback_plan_digest: Digest,
}

impl PositiveAuthorityTransactionV1 {
    /// `transaction_id`: derived from the capability, so one capability has one transaction.
    pub fn id_of(capability: &CapabilityId) -> TransactionId {
        TransactionId(Digest::of_parts(&[
            b"redlatch/v1/transaction-id\0",
            &capability.0.0,
        ]))
    }

    /// `identity_role_binding_digest` of the binding set.
    pub fn role_binding(binding: &CommonBindingSet) -> Digest {
        let roles = (
            &binding.decision_subject_id,
            &binding.caller_subject_id,
            &binding.proposer_subject_id,
            &binding.executor_subject_id_optional,
        );
        Digest::of(&minicbor::to_vec(roles).expect("encoding into memory cannot fail"))
    }
}

/// The authority that was valid at COMMIT, for validation long after (`authorization_snapshot`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct AuthorizationSnapshotV1 {
    /// Mode.
    #[n(0)]
    pub active_mode: Mode,
    /// Activation receipt.
    #[n(1)]
    pub activation_receipt_id: Digest,
    /// Constitution version.
    #[n(2)]
    pub constitution_epoch: ConstitutionEpoch,
    /// Autonomy epoch.
    #[n(3)]
    pub autonomy_epoch: AutonomyEpoch,
    /// Grants in force.
    #[n(4)]
    pub grants_digest: Digest,
    /// Highest latch number.
    #[n(5)]
    pub latch_epoch: LatchNumber,
    /// Tick that fixes the time.
    #[n(6)]
    pub tick: TickNumber,
    /// State time.
    #[n(7)]
    pub state_time: u64,
}

impl AuthorizationSnapshotV1 {
    /// `authorization_snapshot_digest` of SPEC C.34.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }
}

/// The commit marker of a positive transaction: from this leaf on its effects are visible.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct CommitMarkerV1 {
    /// Number; with the history it is the fencing token.
    #[n(0)]
    pub marker: MarkerNumber,
    /// The transaction.
    #[n(1)]
    pub transaction_id: TransactionId,
    /// The intent.
    #[n(2)]
    pub intent_digest: IntentDigest,
    /// Digest of the stored transaction.
    #[n(3)]
    pub transaction_digest: Digest,
    /// State time of COMMIT.
    #[n(4)]
    pub committed_at: u64,
    /// The authority that was valid then.
    #[n(5)]
    pub authorization_snapshot: AuthorizationSnapshotV1,
    /// State time past which the effect can no longer be claimed.
    #[n(6)]
    pub effect_deadline: u64,
}

/// Why a transaction or intent ended without effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum AbortReason {
    /// The proposer took it back.
    #[n(1)]
    Withdrawn,
    /// Its time ran out.
    #[n(2)]
    Expired,
    /// A RED is latched in its scope.
    #[n(3)]
    RedLatched,
    /// Its scope is frozen.
    #[n(4)]
    Frozen,
    /// The autonomy epoch moved on.
    #[n(5)]
    EpochFenced,
    /// The resource moved on.
    #[n(6)]
    StaleHead,
    /// The grant ended or its budget is used up.
    #[n(7)]
    GrantEnded,
}
