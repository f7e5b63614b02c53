//! Kernel, constitution, independence, epoch and grants (SPEC C.11 to C.15, C.29).

use std::fmt;

use minicbor::{Decode, Encode};

use super::base::{ActionClass, Mode, RiskClass, Text, Tier, words};
use super::clause::PolicyClauseV1;
use super::human::AttestationClass;
use super::root::RootActV1;
use crate::bytes::{Digest, PublicKey};
use crate::codec::Canonical;
use crate::ids::{
    AutonomyEpoch, ConstitutionEpoch, FailureDomain, GrantId, KeyEpoch, Name, SubjectId, VerifierId,
};

/// The root-pinned kernel: floors and pins that nothing below the root changes (SPEC C.11).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct SafetyKernelV1 {
    /// Name of the kernel.
    #[n(0)]
    pub kernel_id: Name,
    /// Digest of the lists of verifier builds that may run, one per seat in the roster's order.
    #[n(1)]
    pub verifier_binary_digest: Digest,
    /// The canonicalization rule.
    #[n(2)]
    pub canonicalization_version: u64,
    /// The offline root.
    #[n(3)]
    pub pinned_external_root_key: PublicKey,
    /// Policy of verified boot.
    #[n(4)]
    pub verified_boot_policy_digest: Digest,
    /// Digest of the invariants' text.
    #[n(5)]
    pub immutable_invariants_digest: Digest,
    /// Floor of seats, four (M1-L1).
    #[n(6)]
    pub minimum_verifier_seats: u64,
    /// Floor of approvals, three (M1-L1).
    #[n(7)]
    pub minimum_quorum_threshold: u64,
    /// Floor of failure domains, three (M1-L1).
    #[n(8)]
    pub minimum_failure_domains: u64,
    /// True: proposer and executor never vote.
    #[n(9)]
    pub proposer_executor_nonvoting: bool,
    /// True: the sentinel is required and never votes.
    #[n(10)]
    pub sentinel_required_and_nonvoting: bool,
    /// True: a RED is an absolute veto.
    #[n(11)]
    pub sentinel_red_absolute_veto: bool,
    /// True: the outbox is protected against rollback.
    #[n(12)]
    pub sentinel_outbox_antirollback_required: bool,
    /// Pin of the sentinel.
    #[n(13)]
    pub sentinel_identity_binary_policy_digest: Digest,
    /// Pin of the actuator.
    #[n(14)]
    pub safety_actuator_identity_binary_policy_digest: Digest,
    /// True: without the sentinel nothing positive passes.
    #[n(15)]
    pub required_sentinel_unavailable_fail_closed: bool,
    /// How well a person's key must be kept to decide anything. Empty means none (M1-I8).
    #[n(16)]
    pub human_attestation_classes: Vec<AttestationClass>,
}

impl SafetyKernelV1 {
    /// `kernel_digest` of SPEC C.11.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }
}

/// The constitution: what is wanted, what is allowed, how it changes (SPEC C.12).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct ConstitutionV1 {
    /// Version.
    #[n(0)]
    pub constitution_epoch: ConstitutionEpoch,
    /// The one before; [`Digest::ZERO`] for the first.
    #[n(1)]
    pub previous_constitution_digest: Digest,
    /// When it becomes effective.
    #[n(2)]
    pub effective_at: u64,
    /// When it ends; past it nothing autonomous passes (M1-L13).
    #[n(3)]
    pub expires_at_optional: Option<u64>,
    /// Modes that may be activated. Empty means none (M1-I8).
    #[n(4)]
    pub allowed_autonomy_modes: Vec<Mode>,
    /// Objectives and non-goals, for people.
    #[n(5)]
    pub objectives_non_goals: Vec<Text>,
    /// Digest of the action policy registry in force.
    #[n(6)]
    pub budgets_risk_actions_digest: Digest,
    /// The independence rule in force.
    #[n(7)]
    pub independence_spec: IndependenceSpecV1,
    /// How it may be amended, for people.
    #[n(8)]
    pub amendment_rules: Vec<Text>,
    /// Approval by the runtime before; [`Digest::ZERO`] for the first (M1-L12).
    #[n(9)]
    pub old_runtime_approval_digest: Digest,
    /// The kernel it was written under.
    #[n(10)]
    pub safety_kernel_digest: Digest,
    /// Whether a quorum decision needs the group signature beside the votes (D12).
    #[n(11)]
    pub quorum_signature_required: bool,
    /// What a policy may decide alone, and on whose evidence. Empty means nothing (M1-I8).
    #[n(12)]
    pub policy_clauses: Vec<PolicyClauseV1>,
    /// How many persons must approve a human decision; at least one.
    #[n(13)]
    pub human_approvals_required: u64,
    /// Relying party of the persons' credentials (WebAuthn `rpId`).
    #[n(14)]
    pub webauthn_rp_id: Text,
    /// Origins in which they may be asked. Empty means none (M1-I8).
    #[n(15)]
    pub webauthn_origins: Vec<Text>,
}

impl ConstitutionV1 {
    /// `policy_digest` of SPEC C.19: the clauses in force.
    pub fn policy_digest(&self) -> Digest {
        Digest::of(&self.policy_clauses.to_canonical())
    }

    /// `constitution_digest` of SPEC C.12.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }

    /// The one that follows it unchanged.
    #[must_use]
    pub fn followed(&self) -> ConstitutionV1 {
        ConstitutionV1 {
            constitution_epoch: self.constitution_epoch.next(),
            previous_constitution_digest: self.digest(),
            ..self.clone()
        }
    }

    /// The one that follows it with an act of the root: under its kernel and about its parties.
    #[must_use]
    pub fn after_root_act(&self, act: &RootActV1) -> ConstitutionV1 {
        let mut next = self.followed();
        next.safety_kernel_digest = act.kernel.digest();
        next.independence_spec.four_voting_verifier_principals = act.roster.verifier_seats();
        next.independence_spec.nonvoting_sentinel_id = act.roster.sentinel.name.clone();
        next
    }

    /// `quorum_policy_digest` of SPEC: the terms on quorum decisions.
    pub fn quorum_policy_digest(&self) -> Digest {
        let spec = &self.independence_spec;
        Digest::of(
            &(
                spec.quorum_threshold,
                spec.minimum_failure_domains,
                self.quorum_signature_required,
            )
                .to_canonical(),
        )
    }
}

/// Who votes, how many must approve, from how many domains (SPEC C.15).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct IndependenceSpecV1 {
    /// The four voters with their domains, ascending by name.
    #[n(0)]
    pub four_voting_verifier_principals: Vec<VerifierSeat>,
    /// Approvals needed.
    #[n(1)]
    pub quorum_threshold: u64,
    /// Domains needed among the approvals.
    #[n(2)]
    pub minimum_failure_domains: u64,
    /// How verifiers are kept apart.
    #[n(3)]
    pub blind_isolation_policy_digest: Digest,
    /// The sentinel, which does not vote.
    #[n(4)]
    pub nonvoting_sentinel_id: Name,
    /// Proposer and executor do not vote.
    #[n(5)]
    pub proposer_executor_nonvoting: bool,
}

impl IndependenceSpecV1 {
    /// `independence_spec_digest` of SPEC C.12.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }
}

/// One voting seat.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(map)]
pub struct VerifierSeat {
    /// Who.
    #[n(0)]
    pub verifier_id: VerifierId,
    /// Whom it could fail together with.
    #[n(1)]
    pub failure_domain: FailureDomain,
}

/// The protected record that alone owns mode, grants and fence (SPEC C.13, M1-I20).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct AutonomyEpochV1 {
    /// Version; a bump fences every earlier capability.
    #[n(0)]
    pub autonomy_epoch: AutonomyEpoch,
    /// The mode in force.
    #[n(1)]
    pub active_mode: Mode,
    /// The receipt that activated it (M1-I18).
    #[n(2)]
    pub activation_receipt_id: Digest,
    /// Digest of the grants in force.
    #[n(3)]
    pub grants_digest: Digest,
    /// Whether minting is frozen everywhere.
    #[n(4)]
    pub issuance_frozen: bool,
    /// Constitution in force.
    #[n(5)]
    pub constitution_epoch: ConstitutionEpoch,
    /// Quorum key in force; 0 before the first activation.
    #[n(6)]
    pub quorum_key_epoch: KeyEpoch,
    /// Digest of that constitution, which binds kernel, independence rule and quorum policy.
    #[n(7)]
    pub constitution_digest: Digest,
    /// State time from which the record is in force.
    #[n(8)]
    pub effective_at: u64,
    /// Whether a stop published the record.
    #[n(9)]
    pub safety_state: SafetyState,
}

words! {
    /// In which state of safety an epoch began (`safety_state` of SPEC C.13).
    SafetyState {
        /// By positive authority or the genesis.
        1 Normal "NORMAL",
        /// By a safety transaction: what its mandate froze stays frozen until a reset.
        2 Stopped "STOPPED",
    }
}

/// A scoped permission for one subject (SPEC C.14, M1-I17).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct AutonomyGrantV1 {
    /// Whose permission.
    #[n(0)]
    pub subject_id: SubjectId,
    /// Role granted, for people.
    #[n(1)]
    pub role_id: Name,
    /// The mode in which it applies.
    #[n(2)]
    pub mode: Mode,
    /// Highest tier.
    #[n(3)]
    pub max_tier: Tier,
    /// Action classes covered. Empty means none (M1-I8).
    #[n(4)]
    pub action_classes: Vec<ActionClass>,
    /// Risk classes covered. Empty means none.
    #[n(5)]
    pub risk_domains: Vec<RiskClass>,
    /// Resources covered. Empty means none.
    #[n(6)]
    pub resource_environment_scope: Vec<ResourceScope>,
    /// How many actions it may commit in all.
    #[n(7)]
    pub budget: u64,
    /// Receipt of the promotion that created it; [`Digest::ZERO`] in a genesis.
    #[n(8)]
    pub promotion_receipt_id: Digest,
    /// When it was given.
    #[n(9)]
    pub issued_at: u64,
    /// When it ends.
    #[n(10)]
    pub expires_at: u64,
    /// Constitution version under which it was given.
    #[n(11)]
    pub constitution_epoch: ConstitutionEpoch,
    /// Autonomy epoch with which it came into force.
    #[n(12)]
    pub autonomy_epoch: AutonomyEpoch,
    /// Subjects that may act under it in the grant subject's name. Empty means none (M1-I8).
    #[n(13)]
    pub delegate_subject_ids: Vec<SubjectId>,
}

impl AutonomyGrantV1 {
    /// `grant_id` of SPEC C.14: the digest of the record.
    pub fn id(&self) -> GrantId {
        GrantId(Digest::of(&self.to_canonical()))
    }
}

/// A set of resources: those of one realm whose path begins with a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct ResourceScope {
    /// Realm, exactly: a repository, an environment, or `organism`.
    #[n(0)]
    pub repository: Name,
    /// Beginning of the path, for a ref its full name. Empty matches none (M1-I8).
    #[n(1)]
    pub ref_prefix: Text,
}

/// The receipt of prior authority that alone makes a mode active (SPEC C.29, M1-I18).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct AutonomyActivationReceiptV1 {
    /// Digest of the previous (mode, epoch); [`Digest::ZERO`] for the first.
    #[n(0)]
    pub previous_mode_epoch_digest: Digest,
    /// Constitution before.
    #[n(1)]
    pub previous_constitution_epoch: ConstitutionEpoch,
    /// Autonomy epoch before; 0 for the first.
    #[n(2)]
    pub previous_autonomy_epoch: AutonomyEpoch,
    /// Constitution to be in force.
    #[n(3)]
    pub target_constitution_digest: Digest,
    /// The later epoch that it activates.
    #[n(4)]
    pub activated_autonomy_epoch: AutonomyEpoch,
    /// The mode that it activates.
    #[n(5)]
    pub activated_mode: Mode,
    /// Gate receipts relied on.
    #[n(6)]
    pub gate_receipts_digest: Digest,
    /// Rollback plan.
    #[n(7)]
    pub rollback_plan_digest: Digest,
    /// When it takes effect.
    #[n(8)]
    pub activates_at: u64,
    /// The decision of prior authority; the genesis' own for the first ones.
    #[n(9)]
    pub authority_decision_digest: Digest,
    /// Grants in force with it.
    #[n(10)]
    pub grants_digest: Digest,
    /// Kernel in force with it.
    #[n(11)]
    pub safety_kernel_digest: Digest,
    /// Constitution before; [`Digest::ZERO`] for the first.
    #[n(12)]
    pub previous_constitution_digest: Digest,
    /// Quorum policy in force with it: [`ConstitutionV1::quorum_policy_digest`].
    #[n(13)]
    pub quorum_policy_digest: Digest,
    /// When it was made; never later than `activates_at`.
    #[n(14)]
    pub issued_at: u64,
}

impl AutonomyActivationReceiptV1 {
    /// `receipt_id` of SPEC C.29: the digest of the record.
    pub fn id(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }
}

/// `grants_digest` of SPEC C.13: over the grants in the order of their ids.
pub fn grants_digest<'a>(grants: impl Iterator<Item = &'a AutonomyGrantV1>) -> Digest {
    let mut ids: Vec<GrantId> = grants.map(AutonomyGrantV1::id).collect();
    ids.sort();
    Digest::of(&ids.to_canonical())
}
