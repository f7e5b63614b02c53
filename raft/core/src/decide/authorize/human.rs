//! HUMAN: persons approve one challenge each (DESIGN §5.4, SPEC F.3).
//!
//! The challenge binds the intent, the very bytes that the person was shown, the person and the
//! organism. Its nonce is reserved while the challenge lives, consumed by the decision, and
//! released when the challenge expires or its intent ends.

use std::collections::BTreeSet;

use redlatch_types::event::{Accepted, Basis, Event};
use redlatch_types::limits::{CHALLENGE_TTL_MS, CHALLENGES_PER_INTENT_MAX};
use redlatch_types::records::{
    ActionPayload, ChallengeRequestV1, CommonBindingSet, HumanApprovalV1, HumanDecisionV1,
    HumanKeyV1, OwnerChallengeV1, SovereignActionIntentV1,
};
use redlatch_types::{Bytes, Digest, IntentDigest, Refusal, SubjectId};

use super::Decided;
use crate::admit::{Asserted, ClientCommand, HumanAuthorization};
use crate::authority::{Authority, Governance, HumanKey, Intent, IntentStage};
use crate::decide::client::{Entry, enter, origination};
use crate::decide::{Decision, governance};
use crate::planted::Bug;
use crate::summary::summary;
use crate::webauthn;

/// Reserves a nonce and says what the person is asked. Only a client of that person may ask:
/// each has few open challenges of an intent, and nobody else may use them up.
pub(in crate::decide) fn open_challenge(
    state: &Authority,
    command: &ClientCommand<ChallengeRequestV1>,
) -> Decision {
    let subject = match enter(state, command)? {
        Entry::Repeat(accepted) => return Ok((Vec::new(), accepted)),
        Entry::New(subject) => subject,
    };
    let governance = governance(state)?;
    let request = &command.payload;
    let live = state
        .intents
        .get(&request.intent_digest)
        .ok_or(Refusal::UnknownIntent)?;
    if live.stage != IntentStage::Frozen {
        return Err(Refusal::AlreadySpent);
    }
    if live.intent.required_authority_variant != redlatch_types::records::AuthorityVariant::Human {
        return Err(Refusal::WrongVariant);
    }
    let approver = &request.approver_subject_id;
    check_approver(governance, &live.intent, approver)?;
    usable_keys(governance, &live.intent, approver)
        .next()
        .ok_or(Refusal::ApproverExcluded)?;
    if subject.person() != approver && !Bug::AnybodyAsks.planted() {
        return Err(Refusal::Unauthorized);
    }
    let open = state
        .challenges
        .values()
        .filter(|c| {
            c.binding.intent_digest == request.intent_digest && c.approver_subject_id == *approver
        })
        .count();
    if open >= CHALLENGES_PER_INTENT_MAX {
        return Err(Refusal::LimitExceeded);
    }
    let challenge = compose(state, &live.intent, request);
    let id = challenge.id();
    let event = Event::ChallengeIssued(
        id,
        Box::new(challenge),
        origination(command, &subject.subject_id),
    );
    Ok((vec![event], Accepted::ChallengeIssued(id)))
}

fn compose(
    state: &Authority,
    intent: &SovereignActionIntentV1,
    request: &ChallengeRequestV1,
) -> OwnerChallengeV1 {
    let now = state.clock.state_time;
    OwnerChallengeV1 {
        binding: CommonBindingSet::of(intent, request.intent_digest),
        audience: intent.audience.clone(),
        action: intent.action,
        payload_digest: intent.action_payload_digest,
        idempotency_key: intent.idempotency_key,
        safety_kernel_digest: intent.safety_kernel_digest,
        approver_subject_id: request.approver_subject_id.clone(),
        canonical_summary: Bytes(summary(intent, &request.intent_digest).into_bytes()),
        nonce: Digest::of_parts(&[
            b"redlatch/v1/challenge-nonce\0",
            &request.nonce.0,
            &state.clock.tick.0.to_be_bytes(),
        ]),
        issued_at: now,
        expires_at: (now + CHALLENGE_TTL_MS).min(intent.expires_at),
    }
}

/// A person who proposed it, called for it, or is concerned by it, decides nothing (M1-I12,
/// M1-I26, M1-L7). A person is known by all of their clients.
fn check_approver(
    governance: &Governance,
    intent: &SovereignActionIntentV1,
    approver: &SubjectId,
) -> Result<(), Refusal> {
    governance
        .enrolled(approver)
        .ok_or(Refusal::ApproverExcluded)?;
    let concerned = governance
        .subjects
        .values()
        .any(|s| s.person() == approver && intent.involves(&s.subject_id));
    let excluded = concerned || intent.involves(approver);
    (!excluded || Bug::ProposerApproves.planted())
        .then_some(())
        .ok_or(Refusal::ApproverExcluded)
}

/// The person's live keys that reach this action and are kept well enough.
fn usable_keys<'a>(
    governance: &'a Governance,
    intent: &'a SovereignActionIntentV1,
    approver: &'a SubjectId,
) -> impl Iterator<Item = &'a HumanKeyV1> {
    governance
        .human_keys
        .values()
        .map(|held| &held.key)
        .filter(move |key| key.subject_id == *approver && usable(governance, intent, key))
}

fn usable(governance: &Governance, intent: &SovereignActionIntentV1, key: &HumanKeyV1) -> bool {
    key.revoked_at_optional.is_none()
        && key.scopes.contains(&intent.action)
        && governance
            .kernel
            .human_attestation_classes
            .contains(&key.attestation_class)
}

/// Decides by as many persons as the constitution asks for, each counted once.
pub(super) fn decide(
    state: &Authority,
    governance: &Governance,
    live: &Intent,
    given: &HumanAuthorization,
) -> Result<Decided, Refusal> {
    let ascend = given
        .approvals
        .windows(2)
        .all(|w| w[0].record().challenge_id < w[1].record().challenge_id);
    if !ascend {
        return Err(Refusal::NotCanonical);
    }
    let mut approvals: Vec<(SubjectId, &HumanApprovalV1)> = Vec::new();
    for approval in &given.approvals {
        let person = check(state, governance, live, given.intent_digest, approval)?;
        approvals.push((person, approval.record()));
    }
    approvals.sort_by(|a, b| a.0.cmp(&b.0));
    let persons: BTreeSet<&SubjectId> = approvals.iter().map(|(person, _)| person).collect();
    let counted = match Bug::PersonCountsTwice.planted() {
        true => approvals.len(),
        false => persons.len(),
    };
    if (counted as u64) < approvals_required(governance, &live.intent) {
        return Err(Refusal::InsufficientQuorum);
    }
    let decision = HumanDecisionV1 {
        binding: CommonBindingSet::of(&live.intent, given.intent_digest),
        challenge_ids: given
            .approvals
            .iter()
            .map(|a| a.record().challenge_id)
            .collect(),
        human_approval_digests: approvals.iter().map(|(_, a)| a.digest()).collect(),
        approvers: persons.into_iter().cloned().collect(),
        issued_at: state.clock.state_time,
        expires_at: given.green.record().expires_at,
    };
    let carried = approvals.iter().map(|(_, a)| (*a).clone()).collect();
    Ok(Decided {
        decision_digest: decision.digest(),
        basis: Basis::Human(Box::new(decision), carried),
    })
}

/// By the constitution in force: an amendment has no say in who decides on it (M1-I16).
fn approvals_required(governance: &Governance, intent: &SovereignActionIntentV1) -> u64 {
    let required = match &intent.payload {
        ActionPayload::ConstitutionAmend(amend) if Bug::AmendmentApprovesItself.planted() => {
            amend.constitution.human_approvals_required
        }
        _ => governance.constitution.human_approvals_required,
    };
    required.max(1)
}

/// Whose approval this is and of which intent, if it would count now. It decides nothing:
/// `AuthorizeHuman` is asked the same again.
///
/// # Errors
/// The [`Refusal`] that a decision resting on it would meet.
pub fn check_approval(
    state: &Authority,
    approval: &Asserted,
) -> Result<(IntentDigest, SubjectId), Refusal> {
    let governance = governance(state)?;
    let challenge = state
        .challenges
        .get(&approval.record().challenge_id)
        .ok_or(Refusal::UnknownChallenge)?;
    let digest = challenge.binding.intent_digest;
    let live = state.intents.get(&digest).ok_or(Refusal::UnknownIntent)?;
    if live.stage != IntentStage::Frozen {
        return Err(Refusal::AlreadySpent);
    }
    let person = check(state, governance, live, digest, approval)?;
    Ok((digest, person))
}

/// One approval: of a live challenge for exactly this intent, by a usable key of the person who
/// was asked. Who approved, if it holds.
fn check(
    state: &Authority,
    governance: &Governance,
    live: &Intent,
    digest: IntentDigest,
    approval: &Asserted,
) -> Result<SubjectId, Refusal> {
    let record = approval.record();
    let challenge = state
        .challenges
        .get(&record.challenge_id)
        .ok_or(Refusal::UnknownChallenge)?;
    if state.clock.state_time >= challenge.expires_at {
        return Err(Refusal::Expired);
    }
    if challenge.binding != CommonBindingSet::of(&live.intent, digest)
        && !Bug::ApprovalServesAnyIntent.planted()
    {
        return Err(Refusal::CandidateMismatch);
    }
    let held = governance
        .human_keys
        .get(&record.key_id)
        .ok_or(Refusal::BadAssertion)?;
    let person = &challenge.approver_subject_id;
    let own = held.key.subject_id == *person && held.key.public_key == record.public_key;
    if !own && !Bug::KeyOfAnybody.planted() {
        return Err(Refusal::BadAssertion);
    }
    check_approver(governance, &live.intent, person)?;
    if !usable(governance, &live.intent, &held.key) {
        return Err(Refusal::ApproverExcluded);
    }
    if !Bug::ClaimsUnchecked.planted() {
        check_assertion(governance, challenge, held, approval)?;
    }
    Ok(person.clone())
}

/// The claims inside the assertion; its signature was checked at admission.
fn check_assertion(
    governance: &Governance,
    challenge: &OwnerChallengeV1,
    held: &HumanKey,
    approval: &Asserted,
) -> Result<(), Refusal> {
    let constitution = &governance.constitution;
    let origins: Vec<&str> = constitution
        .webauthn_origins
        .iter()
        .map(|origin| origin.as_str())
        .collect();
    let key = webauthn::CredentialKey::from_cose(&held.key.public_key.0)
        .map_err(|_| Refusal::BadAssertion)?;
    let credential = webauthn::Credential {
        id: &held.key.credential_id.0,
        key: &key,
        rp_id: constitution.webauthn_rp_id.as_str(),
        origins: &origins,
        counter: held.counter,
        backup_eligible: held.key.backup_eligible,
    };
    let expected = webauthn::challenge(
        &governance.scope(),
        &challenge.nonce,
        &challenge.binding.intent_digest,
        &Digest::of(&challenge.canonical_summary.0),
        &challenge.approver_subject_id,
    );
    let assertion = approval.assertion(&held.key.credential_id.0);
    webauthn::check_claims(&credential, &expected, &assertion)
        .map(|_| ())
        .map_err(|_| Refusal::BadAssertion)
}
