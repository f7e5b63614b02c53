//! The decision that votes and state lead to, rebuilt by everyone alike (D12, FAULTS 35).
//!
//! The journal has its own copy of the rule and compares byte for byte; the end-to-end tests
//! show that the two agree. Nothing here takes a message from anybody.

use redlatch_types::limits::VERDICT_TTL_MS_MAX;
use redlatch_types::records::{
    AgentQuorumDecisionV1, CommonBindingSet, CountedVote, SealSheetV1, SentinelVerdictV1,
    SovereignActionIntentV1, Verdict,
};
use redlatch_types::sign::{Record, preimage};
use redlatch_types::{Bytes, Canonical, Digest, Envelope, IntentDigest, Signature, Signed};

use crate::terms::Terms;

/// The intent under decision.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The frozen intent.
    pub intent: &'a SovereignActionIntentV1,
    /// Its digest.
    pub digest: IntentDigest,
    /// State time at freezing.
    pub frozen_at: u64,
}

/// The verdict is not a GREEN on which this decision can rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no valid GREEN of the pinned sentinel about this intent")]
pub struct NoGreen;

/// M1-I22: a GREEN of the pinned sentinel, over exactly this intent, fresh at `now` (state
/// time, milliseconds).
///
/// # Errors
/// [`NoGreen`] for anything else, WITHHELD included.
pub fn check_green(
    terms: &Terms,
    subject: Subject<'_>,
    now: u64,
    green: &Signed<SentinelVerdictV1>,
) -> Result<(), NoGreen> {
    let sentinel = &terms.roster().sentinel;
    let verdict = green.record();
    let intent = subject.intent;
    let by_the_sentinel = green.key() == &sentinel.key && *green.scope() == terms.scope();
    let about_this = verdict.verdict == Verdict::Green
        && verdict.intent_digest == subject.digest
        && verdict.intent_core_ref == subject.digest
        && verdict.intent_canonicalization_version == intent.intent_canonicalization_version
        && verdict.sentinel_identity_key_binary_policy_digest == sentinel.pin_digest()
        && verdict.metric_evidence_rollback_digest
            == intent.metric_evidence_rollout_rollback_digest
        && verdict.risk_scope_digest == intent.risk_scope_digest
        && verdict.candidate_digest_optional == intent.candidate_digest_optional
        && verdict.constitution_epoch == intent.constitution_epoch
        && verdict.autonomy_epoch == intent.autonomy_epoch;
    let in_time = verdict.issued_at >= subject.frozen_at
        && verdict.expires_at > now
        && verdict
            .expires_at
            .checked_sub(verdict.issued_at)
            .is_some_and(|life| life <= VERDICT_TTL_MS_MAX);
    (by_the_sentinel && about_this && in_time)
        .then_some(())
        .ok_or(NoGreen)
}

/// The one decision record that these votes lead to; `None` without quorum key or executor.
pub fn rebuild(
    terms: &Terms,
    subject: Subject<'_>,
    green: &Signed<SentinelVerdictV1>,
    sheet: &SealSheetV1,
    counted: Vec<CountedVote>,
) -> Option<AgentQuorumDecisionV1> {
    let spec = terms.independence();
    let intent = subject.intent;
    Some(AgentQuorumDecisionV1 {
        binding: CommonBindingSet::of(intent, subject.digest),
        executor_subject_id: intent.executor_subject_id_optional.clone()?,
        four_verifier_principals: spec
            .four_voting_verifier_principals
            .iter()
            .map(|s| s.verifier_id.clone())
            .collect(),
        signed_votes_dissents: counted,
        sentinel_verdict_digest: green.digest(),
        evidence_rollout_rollback_digest: intent.metric_evidence_rollout_rollback_digest,
        quorum_threshold: spec.quorum_threshold,
        minimum_failure_domains: spec.minimum_failure_domains,
        quorum_policy_digest: terms.quorum_policy_digest(),
        independence_spec_digest: spec.digest(),
        applicable_grant_id: intent.applicable_grant_id?,
        applicable_grant_digest: intent.applicable_grant_digest?,
        seal_sheet_digest: sheet.digest(),
        roster_epoch: terms.roster().roster_epoch,
        quorum_key_epoch: terms.quorum_key()?.epoch,
        expires_at: green.record().expires_at,
    })
}

/// The bytes that the group signs for `decision`.
pub fn message(terms: &Terms, decision: &AgentQuorumDecisionV1) -> Vec<u8> {
    let digest = Digest::of(&decision.to_canonical());
    preimage(AgentQuorumDecisionV1::TYPE, &terms.scope(), &digest)
}

/// The decision under the group's signature; `None` without quorum key.
pub fn envelope(
    terms: &Terms,
    decision: &AgentQuorumDecisionV1,
    signature: Signature,
) -> Option<Envelope> {
    Some(Envelope {
        scope: terms.scope(),
        key: terms.quorum_key()?.group_key,
        body: Bytes(decision.to_canonical()),
        signature,
    })
}
