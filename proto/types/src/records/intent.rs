//! The intent: the immutable pre-decision bytes of a sovereign action (SPEC C.17, M1-I23).

use minicbor::{Decode, Encode};

use super::action::{ActionPayload, RollbackPlan};
use super::base::{ActionClass, AuthorityVariant, Effect, Ingress, Mode, RiskClass, Tier};
use crate::bytes::Digest;
use crate::codec::Canonical;
use crate::ids::{
    AutonomyEpoch, ConstitutionEpoch, EventId, GrantId, IntentDigest, MissionId, Name, SubjectId,
};

/// What is to be done, by whom, under which authority, against which expected state.
///
/// It excludes its own digest and ref, verdict, votes, decision, capability and transaction,
/// so no digest can depend on itself (M1-I23). Nothing in it may change until COMMIT: a change
/// is another intent (M1-I27, M1-L6).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct SovereignActionIntentV1 {
    /// The canonicalization rule (M1-I24).
    #[n(0)]
    pub intent_canonicalization_version: u64,
    /// Who composed the intent: the journal.
    #[n(1)]
    pub issuer_subject_id: SubjectId,
    /// Whose authority is used: the grant's subject (M1-I26).
    #[n(2)]
    pub decision_subject_id: SubjectId,
    /// Who called, derived from the signing key.
    #[n(3)]
    pub caller_subject_id: SubjectId,
    /// Who proposed.
    #[n(4)]
    pub proposer_subject_id: SubjectId,
    /// Who makes the effect.
    #[n(5)]
    pub executor_subject_id_optional: Option<SubjectId>,
    /// Explicit delegation.
    #[n(6)]
    pub delegation_grant_digest_optional: Option<Digest>,
    /// Subject that a promotion concerns.
    #[n(7)]
    pub promotion_target_subject_id_optional: Option<SubjectId>,
    /// Intended audience.
    #[n(8)]
    pub audience: Name,
    /// Class of the action.
    #[n(9)]
    pub action: ActionClass,
    /// The action.
    #[n(10)]
    pub payload: ActionPayload,
    /// Digest of the action.
    #[n(11)]
    pub action_payload_digest: Digest,
    /// The one variant that may decide.
    #[n(12)]
    pub required_authority_variant: AuthorityVariant,
    /// Registry that classified.
    #[n(13)]
    pub action_policy_registry_digest: Digest,
    /// Its result.
    #[n(14)]
    pub classifier_decision_digest: Digest,
    /// Mode in force.
    #[n(15)]
    pub active_mode: Mode,
    /// Receipt that activated it.
    #[n(16)]
    pub autonomy_activation_receipt_id: Digest,
    /// Grant relied on; none where a human decides without one.
    #[n(17)]
    pub applicable_grant_id: Option<GrantId>,
    /// Its digest.
    #[n(18)]
    pub applicable_grant_digest: Option<Digest>,
    /// Effective tier.
    #[n(19)]
    pub tier: Tier,
    /// Risk class.
    #[n(20)]
    pub risk: RiskClass,
    /// Digest of risk and scope.
    #[n(21)]
    pub risk_scope_digest: Digest,
    /// Candidate to be landed or promoted.
    #[n(22)]
    pub candidate_digest_optional: Option<Digest>,
    /// Constitution in force.
    #[n(23)]
    pub constitution_digest: Digest,
    /// Its version.
    #[n(24)]
    pub constitution_epoch: ConstitutionEpoch,
    /// Autonomy epoch in force.
    #[n(25)]
    pub autonomy_epoch: AutonomyEpoch,
    /// Kernel in force.
    #[n(26)]
    pub safety_kernel_digest: Digest,
    /// Quorum policy in force: digest of the constitution's quorum terms.
    #[n(27)]
    pub quorum_policy_digest: Digest,
    /// Independence rule in force.
    #[n(28)]
    pub independence_spec_digest: Digest,
    /// OCC: the organism epoch.
    #[n(29)]
    pub expected_store_epoch: u64,
    /// OCC: version of the resource.
    #[n(30)]
    pub expected_store_version: u64,
    /// OCC: boundary version.
    #[n(31)]
    pub expected_boundary_version: u64,
    /// OCC: contract version.
    #[n(32)]
    pub expected_contract_version: u64,
    /// Organism, repository and brain as one digest.
    #[n(33)]
    pub organism_repo_brain_digest: Digest,
    /// Mission, head, block, candidate and promotion as one digest.
    #[n(34)]
    pub mission_head_block_candidate_promotion_digest: Digest,
    /// Mode, grant, tier, risk, scope and budget as one digest.
    #[n(35)]
    pub mode_grant_tier_risk_scope_budget_digest: Digest,
    /// Metrics, evidence, rollout and rollback as one digest.
    #[n(36)]
    pub metric_evidence_rollout_rollback_digest: Digest,
    /// Digests of the evidence, ascending.
    #[n(37)]
    pub evidence: Vec<Digest>,
    /// What undoes the effect.
    #[n(38)]
    pub rollback: RollbackPlan,
    /// Mission concerned.
    #[n(39)]
    pub mission_id_optional: Option<MissionId>,
    /// Idempotency key of the proposal.
    #[n(40)]
    pub idempotency_key: EventId,
    /// Draws equal wishes apart: derived from caller and idempotency key.
    #[n(41)]
    pub nonce: Digest,
    /// State time past which the intent is void.
    #[n(42)]
    pub expires_at: u64,
    /// Milliseconds after COMMIT within which the effect must be claimed or activated.
    #[n(43)]
    pub effect_deadline_ms: u64,
    /// By which way the proposal came in.
    #[n(44)]
    pub ingress: Ingress,
    /// Everything that the action does, as the registry classified it.
    #[n(45)]
    pub effects: Vec<Effect>,
}

impl SovereignActionIntentV1 {
    /// `intent_digest` of SPEC: what everything after it refers to.
    pub fn digest(&self) -> IntentDigest {
        IntentDigest(Digest::of(&self.to_canonical()))
    }

    /// Whether `subject` has a role in this intent that excludes voting on it (M1-I12).
    pub fn involves(&self, subject: &SubjectId) -> bool {
        [
            Some(&self.decision_subject_id),
            Some(&self.caller_subject_id),
            Some(&self.proposer_subject_id),
            self.executor_subject_id_optional.as_ref(),
            self.promotion_target_subject_id_optional.as_ref(),
        ]
        .into_iter()
        .flatten()
        .any(|s| s == subject)
    }
}
