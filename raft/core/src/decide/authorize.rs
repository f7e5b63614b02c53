//! Authorize: GREEN, exactly one decision, one capability, in one entry (DESIGN §5.4, §7).
//!
//! The votes are the authority; the group signature is their compact evidence. The decision
//! record is rebuilt here from state and votes and must be byte-equal to what was signed, so
//! no coordinator can have anything else signed (D12, FAULTS 35).

use std::collections::BTreeSet;

use redlatch_types::event::{Accepted, Authorized, Event};
use redlatch_types::limits::{CAPABILITY_TTL_MS, VERDICT_TTL_MS_MAX};
use redlatch_types::records::{
    AgentQuorumDecisionV1, AuthorityDecisionV1, AuthorityVariant, AutonomyCapabilityV1,
    CommonBindingSet, CountedVote, SentinelVerdictV1, SovereignActionIntentV1, Verdict, VoteV1,
    VoteVerdict,
};
use redlatch_types::{Canonical, Digest, IntentDigest, Refusal, Signed, SubjectId};

use super::fence::{Target, fence, fresh, one_step_per_entry, still_authorised};
use super::{Decision, governance, in_scope, signed_by};
use crate::admit::Authorization;
use crate::authority::{Authority, Governance, Intent, IntentStage};

/// Decides an intent by its quorum and mints its capability.
pub(super) fn authorize(state: &Authority, given: &Authorization) -> Decision {
    let governance = governance(state)?;
    let digest = given.intent_digest;
    let live = state.intents.get(&digest).ok_or(Refusal::UnknownIntent)?;
    if let Some(repeat) = repeated(live, given) {
        return repeat;
    }
    fence(state, Target::Intent(&live.intent))?;
    one_step_per_entry(state, &digest)?;
    still_authorised(state, live)?;
    // M1-I25: the variant is the one frozen in the intent; this release decides AGENT_QUORUM.
    if live.intent.required_authority_variant != AuthorityVariant::AgentQuorum {
        return Err(Refusal::WrongVariant);
    }
    check_green(state, governance, live, digest, &given.green)?;
    let counted = count_votes(governance, &live.intent, digest, given)?;
    check_floors(governance, &counted)?;
    let expected = rebuild(governance, &live.intent, digest, given, counted)?;
    check_signature(governance, &expected, &given.decision)?;
    let budget = governance
        .grants
        .get(&live.intent.applicable_grant_id)
        .map(|held| held.grant.budget)
        .ok_or(Refusal::Unauthorized)?;
    Ok(mint(state, &live.intent, digest, given, budget))
}

/// Driver steps are compare-and-set: a repeat returns the first outcome.
fn repeated(live: &Intent, given: &Authorization) -> Option<Decision> {
    match &live.stage {
        IntentStage::Frozen => None,
        IntentStage::Authorized(permit)
            if permit.decision.decision_digest == given.decision.digest() =>
        {
            Some(Ok((
                Vec::new(),
                Accepted::Authorized(permit.capability.id()),
            )))
        }
        // M1-I33: one intent has at most one positive decision.
        IntentStage::Authorized(_) | IntentStage::InTransaction(_) => {
            Some(Err(Refusal::AlreadySpent))
        }
    }
}

/// M1-I22: a valid GREEN of the pinned sentinel, over exactly this intent, current and fresh.
fn check_green(
    state: &Authority,
    governance: &Governance,
    live: &Intent,
    digest: IntentDigest,
    green: &Signed<SentinelVerdictV1>,
) -> Result<(), Refusal> {
    let sentinel = &governance.roster.sentinel;
    signed_by(governance, green, &sentinel.key).map_err(|_| Refusal::SentinelRequired)?;
    let verdict = green.record();
    let intent = &live.intent;
    let about_this = verdict.verdict == Verdict::Green
        && verdict.intent_digest == digest
        && verdict.intent_core_ref == digest
        && verdict.intent_canonicalization_version == intent.intent_canonicalization_version
        && verdict.sentinel_identity_key_binary_policy_digest == sentinel.pin_digest()
        && verdict.metric_evidence_rollback_digest
            == intent.metric_evidence_rollout_rollback_digest
        && verdict.risk_scope_digest == intent.risk_scope_digest
        && verdict.candidate_digest_optional == intent.candidate_digest_optional
        && verdict.constitution_epoch == governance.constitution.constitution_epoch
        && verdict.autonomy_epoch == governance.epoch.autonomy_epoch
        && verdict.issued_at >= live.frozen_at;
    if !about_this {
        return Err(Refusal::SentinelRequired);
    }
    fresh(
        state,
        verdict.issued_at,
        verdict.expires_at,
        VERDICT_TTL_MS_MAX,
    )
}

/// The votes of the sheet, each by the key enrolled for its voter, each by another voter.
fn count_votes(
    governance: &Governance,
    intent: &SovereignActionIntentV1,
    digest: IntentDigest,
    given: &Authorization,
) -> Result<Vec<CountedVote>, Refusal> {
    let sheet = &given.sheet;
    if sheet.intent_digest != digest || !sheet.is_sorted_set() {
        return Err(Refusal::InsufficientQuorum);
    }
    let key_epoch = governance
        .quorum_key
        .as_ref()
        .map(|k| k.epoch)
        .ok_or(Refusal::StaleRoster)?;
    let mut voters = BTreeSet::new();
    let mut counted = Vec::new();
    for vote in &given.votes {
        let counted_vote = count_vote(governance, vote)?;
        let record = vote.record();
        if record.intent_digest != digest {
            return Err(Refusal::InsufficientQuorum);
        }
        if record.roster_epoch != governance.roster.roster_epoch
            || record.quorum_key_epoch != key_epoch
        {
            return Err(Refusal::StaleRoster);
        }
        // D11: only votes of the one sheet ever count, each exactly as it was sealed.
        if sheet.seal_of(&record.verifier_id) != Some(&vote.digest()) {
            return Err(Refusal::InsufficientQuorum);
        }
        // M1-I12: proposer, executor and promotion target never vote.
        let voter: SubjectId = SubjectId(record.verifier_id.0.clone());
        if intent.involves(&voter) {
            return Err(Refusal::SelfAuthorization);
        }
        if !voters.insert(record.verifier_id.clone()) {
            return Err(Refusal::InsufficientQuorum);
        }
        counted.push(counted_vote);
    }
    if counted.len() != sheet.seals.len() {
        return Err(Refusal::InsufficientQuorum);
    }
    counted.sort();
    Ok(counted)
}

fn count_vote(governance: &Governance, vote: &Signed<VoteV1>) -> Result<CountedVote, Refusal> {
    in_scope(governance, vote.scope())?;
    let record = vote.record();
    let verifier = governance
        .roster
        .verifier_by_vote_key(vote.key())
        .filter(|v| v.verifier_id == record.verifier_id)
        .ok_or(Refusal::Unauthorized)?;
    Ok(CountedVote {
        verifier_id: verifier.verifier_id.clone(),
        verdict: record.verdict,
        findings_digest: record.findings_digest,
        failure_domain: verifier.failure_domain.clone(),
        vote_digest: vote.digest(),
    })
}

/// The constitution's terms, and under them the kernel's floors (M1-L1).
fn check_floors(governance: &Governance, counted: &[CountedVote]) -> Result<(), Refusal> {
    let spec = &governance.constitution.independence_spec;
    let kernel = &governance.kernel;
    let threshold = spec.quorum_threshold.max(kernel.minimum_quorum_threshold);
    let domains = spec
        .minimum_failure_domains
        .max(kernel.minimum_failure_domains);
    let approvals: Vec<_> = counted
        .iter()
        .filter(|v| v.verdict == VoteVerdict::Approve)
        .collect();
    if (approvals.len() as u64) < threshold {
        return Err(Refusal::InsufficientQuorum);
    }
    let distinct: BTreeSet<_> = approvals.iter().map(|v| &v.failure_domain).collect();
    if (distinct.len() as u64) < domains {
        return Err(Refusal::InsufficientIndependence);
    }
    Ok(())
}

/// The one decision record that these votes and this state lead to.
fn rebuild(
    governance: &Governance,
    intent: &SovereignActionIntentV1,
    digest: IntentDigest,
    given: &Authorization,
    counted: Vec<CountedVote>,
) -> Result<AgentQuorumDecisionV1, Refusal> {
    let spec = &governance.constitution.independence_spec;
    let key = governance.quorum_key.as_ref().ok_or(Refusal::StaleRoster)?;
    let executor = intent
        .executor_subject_id_optional
        .clone()
        .ok_or(Refusal::Unauthorized)?;
    Ok(AgentQuorumDecisionV1 {
        binding: CommonBindingSet::of(intent, digest),
        executor_subject_id: executor,
        four_verifier_principals: spec
            .four_voting_verifier_principals
            .iter()
            .map(|s| s.verifier_id.clone())
            .collect(),
        signed_votes_dissents: counted,
        sentinel_verdict_digest: given.green.digest(),
        evidence_rollout_rollback_digest: intent.metric_evidence_rollout_rollback_digest,
        quorum_threshold: spec.quorum_threshold,
        minimum_failure_domains: spec.minimum_failure_domains,
        quorum_policy_digest: governance.quorum_policy_digest(),
        independence_spec_digest: spec.digest(),
        applicable_grant_id: intent.applicable_grant_id,
        applicable_grant_digest: intent.applicable_grant_digest,
        seal_sheet_digest: given.sheet.digest(),
        roster_epoch: governance.roster.roster_epoch,
        quorum_key_epoch: key.epoch,
        expires_at: given.green.record().expires_at,
    })
}

/// Byte equality with the rebuilt record, under the constitution's quorum key (D12).
fn check_signature(
    governance: &Governance,
    expected: &AgentQuorumDecisionV1,
    given: &Signed<AgentQuorumDecisionV1>,
) -> Result<(), Refusal> {
    in_scope(governance, given.scope())?;
    if given.digest() != Digest::of(&expected.to_canonical()) {
        return Err(Refusal::CandidateMismatch);
    }
    let key = governance.quorum_key.as_ref().ok_or(Refusal::StaleRoster)?;
    (given.key() == &key.group_key)
        .then_some(())
        .ok_or(Refusal::InsufficientQuorum)
}

fn mint(
    state: &Authority,
    intent: &SovereignActionIntentV1,
    digest: IntentDigest,
    given: &Authorization,
    budget: u64,
) -> (Vec<Event>, Accepted) {
    let binding = CommonBindingSet::of(intent, digest);
    let green = given.green.digest();
    let now = state.clock.state_time;
    let verdict_expires_at = given.green.record().expires_at;
    let expires_at = (now + CAPABILITY_TTL_MS).min(intent.expires_at);
    let decision = AuthorityDecisionV1 {
        binding: binding.clone(),
        authority_kind: AuthorityVariant::AgentQuorum,
        decision_digest: given.decision.digest(),
        grant_id_optional: Some(intent.applicable_grant_id),
        effective_tier_optional: Some(intent.tier),
        promotion_subject_optional: intent.promotion_target_subject_id_optional.clone(),
        sentinel_verdict_digest_optional: Some(green),
        metric_evidence_rollout_rollback_digest: intent.metric_evidence_rollout_rollback_digest,
        label: AuthorityVariant::AgentQuorum.label(),
        expires_at,
    };
    let decision_digest = decision.digest();
    let capability = AutonomyCapabilityV1 {
        binding,
        authority_decision_digest: decision_digest,
        decision_policy_digest: Digest::of(
            &(decision_digest, intent.quorum_policy_digest).to_canonical(),
        ),
        effective_tier: intent.tier,
        promotion_target_subject_id_optional: intent.promotion_target_subject_id_optional.clone(),
        audience: intent.audience.clone(),
        action: intent.action,
        applicable_grant_id: intent.applicable_grant_id,
        applicable_grant_digest: intent.applicable_grant_digest,
        sentinel_verdict_digest_optional: Some(green),
        nonce: AutonomyCapabilityV1::nonce_of(&decision_digest),
        issued_at: now,
        expires_at,
        budget,
        idempotency_key: intent.idempotency_key,
    };
    let capability_id = capability.id();
    let event = Event::Authorized(Box::new(Authorized {
        decision,
        capability,
        capability_id,
        verdict_expires_at,
        green: given.green.envelope().clone(),
        votes: given.votes.iter().map(|v| v.envelope().clone()).collect(),
        sheet: given.sheet.clone(),
        quorum_decision: given.decision.envelope().clone(),
    }));
    (vec![event], Accepted::Authorized(capability_id))
}
