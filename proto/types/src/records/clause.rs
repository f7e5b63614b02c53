//! Policy clauses, and the decision that rests on them (SPEC C.19).
//!
//! A clause is part of the constitution: it says which actions a policy may decide alone, on
//! whose evidence. Every replica matches the clauses itself and composes the same decision.

use minicbor::{Decode, Encode};

use super::base::{ActionClass, RiskClass};
use super::binding::CommonBindingSet;
use super::governance::ResourceScope;
use crate::bytes::{Digest, PublicKey};
use crate::codec::Canonical;
use crate::ids::Name;

/// One clause. Every list that is empty means nothing and nobody (M1-I8).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct PolicyClauseV1 {
    /// Its name.
    #[n(0)]
    pub clause_id: Name,
    /// Action classes that it decides; operational ones only.
    #[n(1)]
    pub action_classes: Vec<ActionClass>,
    /// Risk classes that it decides.
    #[n(2)]
    pub risk_domains: Vec<RiskClass>,
    /// Resources that it decides about.
    #[n(3)]
    pub resource_environment_scope: Vec<ResourceScope>,
    /// Gates that must have passed on exactly the candidate, each by a receipt of a runner below.
    #[n(4)]
    pub required_gates: Vec<Name>,
    /// Keys of the runners whose receipts count.
    #[n(5)]
    pub runners: Vec<PublicKey>,
}

/// The policy's decision. Composed by every replica from the clauses and the receipts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct PolicyDecisionV1 {
    /// The common binding set.
    #[n(0)]
    pub binding: CommonBindingSet,
    /// The clauses in force, as one digest.
    #[n(1)]
    pub policy_digest: Digest,
    /// The clauses that matched, as one digest.
    #[n(2)]
    pub matched_clauses_digest: Digest,
    /// Their names, in the constitution's order.
    #[n(3)]
    pub matched_clauses: Vec<Name>,
    /// Risk, budget and scope as they were evaluated.
    #[n(4)]
    pub risk_budget_scope_digest: Digest,
    /// The receipts relied on, as one digest.
    #[n(5)]
    pub proof_receipts_digest: Digest,
    /// The GREEN it rests on.
    #[n(6)]
    pub sentinel_verdict_digest_optional: Option<Digest>,
    /// Evidence, rollout and rollback; equal to the intent's.
    #[n(7)]
    pub metric_evidence_rollout_rollback_digest: Digest,
    /// When it ends: that of the verdict.
    #[n(8)]
    pub expires_at: u64,
}

impl PolicyDecisionV1 {
    /// The digest that the authority decision names.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }
}
