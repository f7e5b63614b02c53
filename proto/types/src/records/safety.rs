//! The safety attempt: intent, capability, marker, terminal (SPEC C.25 to C.28, DESIGN §6).

use minicbor::{Decode, Encode};

use super::transaction::{AuthorizationSnapshotV1, TransactionVariant};
use crate::bytes::Digest;
use crate::codec::Canonical;
use crate::ids::{
    AutonomyEpoch, CapabilityId, ConstitutionEpoch, IntentDigest, LatchNumber, MarkerNumber,
    OutboxEpoch, TickNumber, TransactionId,
};
use crate::mandate::Mandate;

/// The latch of a RED (SPEC C.25). Its leaf's receipt is the owner's signature.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct RedLatchReceiptV1 {
    /// Number of the latch.
    #[n(0)]
    pub latch_epoch: LatchNumber,
    /// Outbox number of the RED.
    #[n(1)]
    pub sentinel_outbox_epoch: OutboxEpoch,
    /// Outbox root of the RED.
    #[n(2)]
    pub sentinel_outbox_root_digest: Digest,
    /// The RED.
    #[n(3)]
    pub red_verdict_digest: Digest,
    /// The intent it concerns.
    #[n(4)]
    pub source_intent_digest_optional: Option<IntentDigest>,
    /// The immutable mandate.
    #[n(5)]
    pub mandate: Mandate,
    /// State time of the latch.
    #[n(6)]
    pub latched_at: u64,
    /// Tick that fixes that time.
    #[n(7)]
    pub tick: TickNumber,
    /// Constitution version.
    #[n(8)]
    pub constitution_epoch: ConstitutionEpoch,
    /// Autonomy epoch.
    #[n(9)]
    pub autonomy_epoch: AutonomyEpoch,
}

impl RedLatchReceiptV1 {
    /// `latch_receipt_digest` of SPEC.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }
}

/// One versioned attempt to carry out a mandate (SPEC C.26).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct SafetyActionIntentV1 {
    /// Canonicalization rule.
    #[n(0)]
    pub safety_intent_canonicalization_version: u64,
    /// Number of the attempt at this latch, from 1.
    #[n(1)]
    pub attempt_sequence: u64,
    /// Digest of the attempt it rebases.
    #[n(2)]
    pub rebased_from_attempt_digest_optional: Option<Digest>,
    /// Intent that received the RED.
    #[n(3)]
    pub source_intent_core_ref_optional: Option<IntentDigest>,
    /// The RED.
    #[n(4)]
    pub sentinel_red_verdict_digest: Digest,
    /// The latch.
    #[n(5)]
    pub red_latch_receipt_digest: Digest,
    /// Its number.
    #[n(6)]
    pub latch_epoch: LatchNumber,
    /// Pin of the actuator.
    #[n(7)]
    pub actuator_identity_key_binary_policy_digest: Digest,
    /// Constitution version expected.
    #[n(8)]
    pub expected_constitution_epoch: ConstitutionEpoch,
    /// Autonomy epoch expected; may be rebased.
    #[n(9)]
    pub expected_autonomy_epoch: AutonomyEpoch,
    /// Digest of the affected scope; equal to the mandate's.
    #[n(10)]
    pub affected_grants_scope_digest: Digest,
    /// Digest of the allowed verbs; equal to the mandate's.
    #[n(11)]
    pub allowed_negative_actions_digest: Digest,
    /// Rollback plan; equal to the mandate's.
    #[n(12)]
    pub rollback_candidate_plan_digest_optional: Option<Digest>,
    /// The mandate.
    #[n(13)]
    pub immutable_negative_mandate_digest: Digest,
    /// Idempotency of the attempt; fresh each time.
    #[n(14)]
    pub attempt_idempotency_key: Digest,
    /// Single-use value; fresh each time.
    #[n(15)]
    pub nonce: Digest,
    /// True: valid as long as the latch is PENDING.
    #[n(16)]
    pub valid_while_latch_pending: bool,
}

/// The four values of an attempt that may differ from the attempt before it (M1-I31).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rebase {
    /// Number of the attempt.
    pub attempt_sequence: u64,
    /// The attempt it rebases.
    pub rebased_from: Option<Digest>,
    /// Current autonomy epoch.
    pub expected_autonomy_epoch: AutonomyEpoch,
    /// Fresh idempotency key.
    pub attempt_idempotency_key: Digest,
    /// Fresh nonce.
    pub nonce: Digest,
}

impl SafetyActionIntentV1 {
    /// Derives the attempt from the latch: everything but `rebase` follows from it, so journal
    /// and actuator, who both call this, compare for exact equality (M1-I31).
    pub fn derive(latch: &RedLatchReceiptV1, actuator_pin: Digest, rebase: Rebase) -> Self {
        SafetyActionIntentV1 {
            safety_intent_canonicalization_version: super::base::CANONICALIZATION_VERSION,
            attempt_sequence: rebase.attempt_sequence,
            rebased_from_attempt_digest_optional: rebase.rebased_from,
            source_intent_core_ref_optional: latch.source_intent_digest_optional,
            sentinel_red_verdict_digest: latch.red_verdict_digest,
            red_latch_receipt_digest: latch.digest(),
            latch_epoch: latch.latch_epoch,
            actuator_identity_key_binary_policy_digest: actuator_pin,
            expected_constitution_epoch: latch.constitution_epoch,
            expected_autonomy_epoch: rebase.expected_autonomy_epoch,
            affected_grants_scope_digest: latch.mandate.scope_digest(),
            allowed_negative_actions_digest: latch.mandate.verbs_digest(),
            rollback_candidate_plan_digest_optional: latch.mandate.rollback_candidate_plan_digest,
            immutable_negative_mandate_digest: latch.mandate.digest(),
            attempt_idempotency_key: rebase.attempt_idempotency_key,
            nonce: rebase.nonce,
            valid_while_latch_pending: true,
        }
    }

    /// `safety_intent_digest`, also the attempt's id.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }
}

/// One-shot, negative-only permission for one attempt (SPEC C.27). Signed by the pinned actuator.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct SafetyCapabilityV1 {
    /// The stored attempt.
    #[n(0)]
    pub safety_intent_digest: Digest,
    /// Content address of its bytes; equal to the digest.
    #[n(1)]
    pub safety_intent_core_ref: Digest,
    /// Number of the attempt.
    #[n(2)]
    pub attempt_sequence: u64,
    /// The latch.
    #[n(3)]
    pub red_latch_receipt_digest: Digest,
    /// Its number.
    #[n(4)]
    pub latch_epoch: LatchNumber,
    /// The mandate.
    #[n(5)]
    pub immutable_negative_mandate_digest: Digest,
    /// Pin of the actuator.
    #[n(6)]
    pub actuator_identity_key_binary_policy_digest: Digest,
    /// Autonomy epoch expected.
    #[n(7)]
    pub expected_autonomy_epoch: AutonomyEpoch,
    /// Idempotency of the attempt.
    #[n(8)]
    pub attempt_idempotency_key: Digest,
    /// The attempt's nonce.
    #[n(9)]
    pub nonce: Digest,
    /// Canonicalization rule of the attempt.
    #[n(10)]
    pub safety_intent_canonicalization_version: u64,
    /// The RED.
    #[n(11)]
    pub sentinel_red_verdict_digest: Digest,
    /// Constitution version expected.
    #[n(12)]
    pub expected_constitution_epoch: ConstitutionEpoch,
    /// Digest of the affected scope; equal to the mandate's.
    #[n(13)]
    pub affected_grants_scope_digest: Digest,
    /// Digest of the allowed verbs; equal to the mandate's.
    #[n(14)]
    pub allowed_negative_actions_digest: Digest,
    /// Rollback plan; equal to the mandate's.
    #[n(15)]
    pub rollback_candidate_plan_digest_optional: Option<Digest>,
}

impl SafetyCapabilityV1 {
    /// The capability for a stored attempt.
    pub fn of(attempt: &SafetyActionIntentV1) -> SafetyCapabilityV1 {
        let digest = attempt.digest();
        SafetyCapabilityV1 {
            safety_intent_digest: digest,
            safety_intent_core_ref: digest,
            attempt_sequence: attempt.attempt_sequence,
            red_latch_receipt_digest: attempt.red_latch_receipt_digest,
            latch_epoch: attempt.latch_epoch,
            immutable_negative_mandate_digest: attempt.immutable_negative_mandate_digest,
            actuator_identity_key_binary_policy_digest: attempt
                .actuator_identity_key_binary_policy_digest,
            expected_autonomy_epoch: attempt.expected_autonomy_epoch,
            attempt_idempotency_key: attempt.attempt_idempotency_key,
            nonce: attempt.nonce,
            safety_intent_canonicalization_version: attempt.safety_intent_canonicalization_version,
            sentinel_red_verdict_digest: attempt.sentinel_red_verdict_digest,
            expected_constitution_epoch: attempt.expected_constitution_epoch,
            affected_grants_scope_digest: attempt.affected_grants_scope_digest,
            allowed_negative_actions_digest: attempt.allowed_negative_actions_digest,
            rollback_candidate_plan_digest_optional: attempt
                .rollback_candidate_plan_digest_optional,
        }
    }

    /// `safety_capability_id` of SPEC C.28: the digest of the record.
    pub fn id(&self) -> CapabilityId {
        CapabilityId(Digest::of(&self.to_canonical()))
    }

    /// The safety transaction of this capability.
    pub fn transaction_id(&self) -> TransactionId {
        SafetyMarkerV1::transaction_of(&self.id())
    }
}

/// The marker of a safety transaction: the one that won its latch (SPEC C.36, M1-L10).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct SafetyMarkerV1 {
    /// Number.
    #[n(0)]
    pub marker: MarkerNumber,
    /// The transaction.
    #[n(1)]
    pub transaction_id: TransactionId,
    /// The latch.
    #[n(2)]
    pub latch_epoch: LatchNumber,
    /// The attempt.
    #[n(3)]
    pub safety_intent_digest: Digest,
    /// Epoch before.
    #[n(4)]
    pub old_autonomy_epoch: AutonomyEpoch,
    /// Epoch after.
    #[n(5)]
    pub new_autonomy_epoch: AutonomyEpoch,
    /// State time.
    #[n(6)]
    pub committed_at: u64,
    /// The mandate that it carries out.
    #[n(7)]
    pub mandate: Mandate,
    /// Committed transactions in scope whose effects are to be rolled back, ascending.
    #[n(8)]
    pub compensates: Vec<TransactionId>,
    /// Always SAFETY_KERNEL (M1-I29).
    #[n(9)]
    pub transaction_variant: TransactionVariant,
    /// Always true: no positive decision stands behind a stop (M1-I2, M1-I29).
    #[n(10)]
    pub positive_authority_decision_forbidden: bool,
    /// The actuator's capability, from which the transaction's id follows.
    #[n(11)]
    pub safety_capability_id: CapabilityId,
    /// The authority in force when the latch was claimed, before its epoch ended.
    #[n(12)]
    pub authorization_snapshot: AuthorizationSnapshotV1,
}

impl SafetyMarkerV1 {
    /// `transaction_id`: derived from the capability, so one capability has one transaction.
    pub fn transaction_of(capability: &CapabilityId) -> TransactionId {
        TransactionId(Digest::of_parts(&[
            b"redlatch/v1/safety-transaction-id\0",
            &capability.0.0,
        ]))
    }

    /// Whether the marker says of itself what every safety marker must say: its variant, that
    /// no decision stands behind it, the capability its id follows from, and one epoch's step
    /// from the one that its snapshot shows.
    pub fn is_sound(&self) -> bool {
        self.transaction_variant == TransactionVariant::SafetyKernel
            && self.positive_authority_decision_forbidden
            && self.transaction_id == SafetyMarkerV1::transaction_of(&self.safety_capability_id)
            && self.old_autonomy_epoch == self.authorization_snapshot.autonomy_epoch
            && self.new_autonomy_epoch == self.old_autonomy_epoch.next()
            && self.committed_at == self.authorization_snapshot.state_time
    }
}
