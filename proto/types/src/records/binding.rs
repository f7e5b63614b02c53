//! The common binding set: what every decision, capability and transaction repeats (M1-L8).

use minicbor::{Decode, Encode};

use super::base::{AuthorityVariant, Mode};
use super::intent::SovereignActionIntentV1;
use crate::bytes::Digest;
use crate::ids::{AutonomyEpoch, ConstitutionEpoch, IntentDigest, SubjectId};

/// CB of SPEC part C. Built by [`CommonBindingSet::of`] from the frozen intent and by nothing
/// else; compared as a whole, so no field can be substituted on the way (M1-I27).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct CommonBindingSet {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// Content address of its bytes; equal to the digest.
    #[n(1)]
    pub intent_core_ref: IntentDigest,
    /// Canonicalization rule.
    #[n(2)]
    pub intent_canonicalization_version: u64,
    /// Issuer.
    #[n(3)]
    pub issuer_subject_id: SubjectId,
    /// Decision subject.
    #[n(4)]
    pub decision_subject_id: SubjectId,
    /// Caller.
    #[n(5)]
    pub caller_subject_id: SubjectId,
    /// Proposer.
    #[n(6)]
    pub proposer_subject_id: SubjectId,
    /// Executor.
    #[n(7)]
    pub executor_subject_id_optional: Option<SubjectId>,
    /// Delegation.
    #[n(8)]
    pub delegation_grant_digest_optional: Option<Digest>,
    /// Required variant.
    #[n(9)]
    pub required_authority_variant: AuthorityVariant,
    /// Registry.
    #[n(10)]
    pub action_policy_registry_digest: Digest,
    /// Classification.
    #[n(11)]
    pub classifier_decision_digest: Digest,
    /// Mode.
    #[n(12)]
    pub active_mode: Mode,
    /// Activation receipt.
    #[n(13)]
    pub autonomy_activation_receipt_id: Digest,
    /// Risk and scope.
    #[n(14)]
    pub risk_scope_digest: Digest,
    /// Candidate.
    #[n(15)]
    pub candidate_digest_optional: Option<Digest>,
    /// Constitution.
    #[n(16)]
    pub constitution_digest: Digest,
    /// Constitution version.
    #[n(17)]
    pub constitution_epoch: ConstitutionEpoch,
    /// Autonomy epoch.
    #[n(18)]
    pub autonomy_epoch: AutonomyEpoch,
    /// OCC.
    #[n(19)]
    pub expected_store_epoch: u64,
    /// OCC.
    #[n(20)]
    pub expected_store_version: u64,
    /// OCC.
    #[n(21)]
    pub expected_boundary_version: u64,
    /// OCC.
    #[n(22)]
    pub expected_contract_version: u64,
}

impl CommonBindingSet {
    /// The binding set of `intent`, whose digest is `digest`.
    pub fn of(intent: &SovereignActionIntentV1, digest: IntentDigest) -> CommonBindingSet {
        CommonBindingSet {
            intent_digest: digest,
            intent_core_ref: digest,
            intent_canonicalization_version: intent.intent_canonicalization_version,
            issuer_subject_id: intent.issuer_subject_id.clone(),
            decision_subject_id: intent.decision_subject_id.clone(),
            caller_subject_id: intent.caller_subject_id.clone(),
            proposer_subject_id: intent.proposer_subject_id.clone(),
            executor_subject_id_optional: intent.executor_subject_id_optional.clone(),
            delegation_grant_digest_optional: intent.delegation_grant_digest_optional,
            required_authority_variant: intent.required_authority_variant,
            action_policy_registry_digest: intent.action_policy_registry_digest,
            classifier_decision_digest: intent.classifier_decision_digest,
            active_mode: intent.active_mode,
            autonomy_activation_receipt_id: intent.autonomy_activation_receipt_id,
            risk_scope_digest: intent.risk_scope_digest,
            candidate_digest_optional: intent.candidate_digest_optional,
            constitution_digest: intent.constitution_digest,
            constitution_epoch: intent.constitution_epoch,
            autonomy_epoch: intent.autonomy_epoch,
            expected_store_epoch: intent.expected_store_epoch,
            expected_store_version: intent.expected_store_version,
            expected_boundary_version: intent.expected_boundary_version,
            expected_contract_version: intent.expected_contract_version,
        }
    }
}
