//! AGENT_QUORUM: the votes are the authority; the group signature is their compact evidence.
//!
//! The decision record is rebuilt here from state and votes and must be byte-equal to what was
//! signed, so no coordinator can have anything else signed (D12, FAULTS 35).

use std::collections::BTreeSet;

use redlatch_types::event::{Basis, QuorumBasis};
use redlatch_types::records::{
    AgentQuorumDecisionV1, CommonBindingSet, CountedVote, SovereignActionIntentV1, VoteV1,
    VoteVerdict,
};
use redlatch_types::{Canonical, Digest, Envelope, IntentDigest, Refusal, Signed, SubjectId};

use super::Decided;
use crate::admit::Authorization;
use crate::authority::{Governance, Intent};
use crate::decide::in_scope;
use crate::planted::Bug;

/// Decides by the opened votes of one sheet.
pub(super) fn decide(
    governance: &Governance,
    live: &Intent,
    given: &Authorization,
) -> Result<Decided, Refusal> {
    let digest = given.intent_digest;
    let counted = count_votes(governance, &live.intent, digest, given)?;
    check_floors(governance, &counted)?;
    let expected = rebuild(governance, &live.intent, digest, given, counted)?;
    check_signature(governance, &expected, &given.decision)?;
    Ok(Decided {
        decision_digest: given.decision.digest(),
        basis: Basis::Quorum(Box::new(QuorumBasis {
            votes: carried(&given.votes),
            sheet: given.sheet.clone(),
            decision: given.decision.envelope().clone(),
        })),
    })
}

/// Every vote, dissents too: nobody hides one from the record (M1-L11).
fn carried(votes: &[Signed<VoteV1>]) -> Vec<Envelope> {
    let shown = |v: &&Signed<VoteV1>| {
        v.record().verdict == VoteVerdict::Approve || !Bug::DissentHidden.planted()
    };
    let votes = votes.iter().filter(shown);
    votes.map(|v| v.envelope().clone()).collect()
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
        if sheet.seal_of(&record.verifier_id) != Some(&vote.digest())
            && !Bug::VotesOutsideTheSheet.planted()
        {
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
    if (approvals.len() as u64) < threshold && !Bug::ThresholdUnchecked.planted() {
        return Err(Refusal::InsufficientQuorum);
    }
    let distinct: BTreeSet<_> = approvals.iter().map(|v| &v.failure_domain).collect();
    if (distinct.len() as u64) < domains && !Bug::DomainsUnchecked.planted() {
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
        applicable_grant_id: intent.applicable_grant_id.ok_or(Refusal::Unauthorized)?,
        applicable_grant_digest: intent
            .applicable_grant_digest
            .ok_or(Refusal::Unauthorized)?,
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
    if given.digest() != Digest::of(&expected.to_canonical()) && !Bug::DecisionBelieved.planted() {
        return Err(Refusal::CandidateMismatch);
    }
    let key = governance.quorum_key.as_ref().ok_or(Refusal::StaleRoster)?;
    (given.key() == &key.group_key)
        .then_some(())
        .ok_or(Refusal::InsufficientQuorum)
}
