//! Decisions and capabilities (SPEC C.20 to C.22).

use minicbor::{Decode, Encode};

use super::ballot::CountedVote;
use super::base::{ActionClass, AuthorityVariant, RatificationLabel, Tier};
use super::binding::CommonBindingSet;
use crate::bytes::Digest;
use crate::codec::Canonical;
use crate::ids::{
    CapabilityId, EventId, GrantId, IntentDigest, KeyEpoch, Name, RosterEpoch, SubjectId,
    VerifierId,
};

/// The quorum's decision (SPEC C.20, D12). Signed under the group key; rebuilt byte for byte by
/// every replica from its own state and the votes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct AgentQuorumDecisionV1 {
    /// The common binding set.
    #[n(0)]
    pub binding: CommonBindingSet,
    /// The executor; not optional here.
    #[n(1)]
    pub executor_subject_id: SubjectId,
    /// The four voters of the roster, ascending.
    #[n(2)]
    pub four_verifier_principals: Vec<VerifierId>,
    /// All counted votes, dissents too, ascending by voter.
    #[n(3)]
    pub signed_votes_dissents: Vec<CountedVote>,
    /// The one GREEN.
    #[n(4)]
    pub sentinel_verdict_digest: Digest,
    /// Evidence, rollout and rollback; equal to the intent's.
    #[n(5)]
    pub evidence_rollout_rollback_digest: Digest,
    /// Threshold in force.
    #[n(6)]
    pub quorum_threshold: u64,
    /// Domains in force.
    #[n(7)]
    pub minimum_failure_domains: u64,
    /// Quorum policy in force.
    #[n(8)]
    pub quorum_policy_digest: Digest,
    /// Independence rule in force.
    #[n(9)]
    pub independence_spec_digest: Digest,
    /// Grant relied on.
    #[n(10)]
    pub applicable_grant_id: GrantId,
    /// Its digest.
    #[n(11)]
    pub applicable_grant_digest: Digest,
    /// The sheet of seals.
    #[n(12)]
    pub seal_sheet_digest: Digest,
    /// Roster of the ballot.
    #[n(13)]
    pub roster_epoch: RosterEpoch,
    /// Quorum key of the signature.
    #[n(14)]
    pub quorum_key_epoch: KeyEpoch,
    /// When the decision ends: that of the verdict.
    #[n(15)]
    pub expires_at: u64,
}

/// Exactly one variant, as the intent required (SPEC C.21, M1-I25). Composed by the journal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct AuthorityDecisionV1 {
    /// The common binding set.
    #[n(0)]
    pub binding: CommonBindingSet,
    /// Which variant decided; equal to the required one.
    #[n(1)]
    pub authority_kind: AuthorityVariant,
    /// Digest of the variant's decision.
    #[n(2)]
    pub decision_digest: Digest,
    /// Grant.
    #[n(3)]
    pub grant_id_optional: Option<GrantId>,
    /// Effective tier.
    #[n(4)]
    pub effective_tier_optional: Option<Tier>,
    /// Subject being promoted.
    #[n(5)]
    pub promotion_subject_optional: Option<SubjectId>,
    /// The verdict it rests on.
    #[n(6)]
    pub sentinel_verdict_digest_optional: Option<Digest>,
    /// Metrics, evidence, rollout and rollback.
    #[n(7)]
    pub metric_evidence_rollout_rollback_digest: Digest,
    /// How what it ratifies is labelled (M1-L16).
    #[n(8)]
    pub label: RatificationLabel,
    /// When it ends.
    #[n(9)]
    pub expires_at: u64,
}

impl AuthorityDecisionV1 {
    /// `authority_decision_digest` of SPEC.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }
}

/// One-shot permission to PREPARE, minted from a final decision (SPEC C.9, C.22).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct AutonomyCapabilityV1 {
    /// The common binding set.
    #[n(0)]
    pub binding: CommonBindingSet,
    /// The decision it was minted from.
    #[n(1)]
    pub authority_decision_digest: Digest,
    /// Digest of decision and policy.
    #[n(2)]
    pub decision_policy_digest: Digest,
    /// Tier at which it is valid.
    #[n(3)]
    pub effective_tier: Tier,
    /// Subject being promoted.
    #[n(4)]
    pub promotion_target_subject_id_optional: Option<SubjectId>,
    /// Audience.
    #[n(5)]
    pub audience: Name,
    /// Action.
    #[n(6)]
    pub action: ActionClass,
    /// Grant.
    #[n(7)]
    pub applicable_grant_id: Option<GrantId>,
    /// Its digest.
    #[n(8)]
    pub applicable_grant_digest: Option<Digest>,
    /// The verdict it rests on.
    #[n(9)]
    pub sentinel_verdict_digest_optional: Option<Digest>,
    /// Single-use value.
    #[n(10)]
    pub nonce: Digest,
    /// State time of minting.
    #[n(11)]
    pub issued_at: u64,
    /// State time past which it is void.
    #[n(12)]
    pub expires_at: u64,
    /// How many actions the grant may commit in all; equal to the grant's, none without one.
    #[n(13)]
    pub budget: Option<u64>,
    /// Idempotency key of the proposal; equal to the intent's.
    #[n(14)]
    pub idempotency_key: EventId,
    /// Which variant it was minted from: with HUMAN it is SPEC's HumanCapabilityV1 (C.9), else
    /// its AutonomyCapabilityV1.
    #[n(15)]
    pub capability_kind: AuthorityVariant,
}

impl AutonomyCapabilityV1 {
    /// `nonce` of the capability that is minted from this decision.
    pub fn nonce_of(authority_decision_digest: &Digest) -> Digest {
        Digest::of_parts(&[
            b"redlatch/v1/capability-nonce\0",
            &authority_decision_digest.0,
        ])
    }

    /// `capability_id` of SPEC: the digest of the record.
    pub fn id(&self) -> CapabilityId {
        CapabilityId(Digest::of(&self.to_canonical()))
    }

    /// The intent it serves.
    pub fn intent(&self) -> IntentDigest {
        self.binding.intent_digest
    }
}
