//! POLICY: the constitution's clauses decide, on the receipts of the runners they name.
//!
//! Nothing of the decision is brought along: every replica matches the clauses and composes the
//! record itself (DESIGN §5.4).

use std::collections::BTreeSet;

use redlatch_types::event::Basis;
use redlatch_types::records::{
    CommonBindingSet, GateReceiptV1, PolicyClauseV1, PolicyDecisionV1, SovereignActionIntentV1,
};
use redlatch_types::{Canonical, Digest, Name, Refusal, Signed};

use super::Decided;
use crate::admit::PolicyAuthorization;
use crate::authority::{Governance, Intent};
use crate::decide::in_scope;
use crate::registry::matching_clauses;

/// Decides by every clause that matches: all of them must be satisfied.
pub(super) fn decide(
    governance: &Governance,
    live: &Intent,
    given: &PolicyAuthorization,
) -> Result<Decided, Refusal> {
    let intent = &live.intent;
    let constitution = &governance.constitution;
    let matched: Vec<&PolicyClauseV1> =
        matching_clauses(&constitution.policy_clauses, &intent.payload, intent.risk).collect();
    if matched.is_empty() {
        return Err(Refusal::WrongVariant);
    }
    check_receipts(governance, intent, &given.receipts)?;
    for clause in &matched {
        check_clause(clause, &given.receipts)?;
    }
    let owned: Vec<PolicyClauseV1> = matched.iter().map(|c| (*c).clone()).collect();
    let receipts: Vec<Digest> = given.receipts.iter().map(evidence_digest).collect();
    let decision = PolicyDecisionV1 {
        binding: CommonBindingSet::of(intent, given.intent_digest),
        policy_digest: constitution.policy_digest(),
        matched_clauses_digest: Digest::of(&owned.to_canonical()),
        matched_clauses: matched.iter().map(|c| c.clause_id.clone()).collect(),
        risk_budget_scope_digest: intent.mode_grant_tier_risk_scope_budget_digest,
        proof_receipts_digest: Digest::of(&receipts.to_canonical()),
        sentinel_verdict_digest_optional: Some(given.green.digest()),
        metric_evidence_rollout_rollback_digest: intent.metric_evidence_rollout_rollback_digest,
        expires_at: given.green.record().expires_at,
    };
    let carried = given
        .receipts
        .iter()
        .map(|r| r.envelope().clone())
        .collect();
    Ok(Decided {
        decision_digest: decision.digest(),
        basis: Basis::Policy(Box::new(decision), carried),
    })
}

/// Exactly the evidence that was frozen with the intent, for exactly its candidate.
fn check_receipts(
    governance: &Governance,
    intent: &SovereignActionIntentV1,
    receipts: &[Signed<GateReceiptV1>],
) -> Result<(), Refusal> {
    let candidate = intent
        .candidate_digest_optional
        .ok_or(Refusal::CandidateMismatch)?;
    let digests: BTreeSet<Digest> = receipts.iter().map(evidence_digest).collect();
    let frozen: BTreeSet<Digest> = intent.evidence.iter().copied().collect();
    if digests.len() != receipts.len() || !digests.is_subset(&frozen) {
        return Err(Refusal::CandidateMismatch);
    }
    for receipt in receipts {
        in_scope(governance, receipt.scope())?;
        receipt
            .record()
            .check(&candidate)
            .map_err(|_| Refusal::CandidateMismatch)?;
    }
    Ok(())
}

fn evidence_digest(receipt: &Signed<GateReceiptV1>) -> Digest {
    receipt.envelope().evidence_digest()
}

/// Each gate that the clause requires has passed, by one of its runners.
fn check_clause(
    clause: &PolicyClauseV1,
    receipts: &[Signed<GateReceiptV1>],
) -> Result<(), Refusal> {
    // An empty list would mean anybody, or nothing to show (M1-I8).
    if clause.required_gates.is_empty() || clause.runners.is_empty() {
        return Err(Refusal::InsufficientQuorum);
    }
    let passed = |gate: &Name| {
        receipts
            .iter()
            .any(|r| r.record().gate_id == *gate && clause.runners.contains(r.key()))
    };
    clause
        .required_gates
        .iter()
        .all(passed)
        .then_some(())
        .ok_or(Refusal::InsufficientQuorum)
}
