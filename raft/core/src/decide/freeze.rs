//! Freeze: the intent that follows from a proposal, the caller's key and the state (DESIGN §5.2).

use redlatch_types::event::{Accepted, Event};
use redlatch_types::limits::{EFFECT_DEADLINE_MS_MAX, INTENT_TTL_MS_MAX};
use redlatch_types::records::{
    ActionPayload, ActorKind, AuthorityVariant, AutonomyGrantV1, CANONICALIZATION_VERSION,
    ClientIdentityV1, GrantPayload, ProposalV1, SovereignActionIntentV1,
};
use redlatch_types::{Canonical, Digest, EventId, Name, Refusal, SubjectId};

use super::client::{Entry, check_quota, enter, origination};
use super::payload::lawful;
use super::{Decision, effects, governance, terms};
use crate::admit::ClientCommand;
use crate::authority::{Authority, Governance};
use crate::planted::Bug;
use crate::registry::{Classification, classify, registry_digest};

/// Versions of boundary and contract of every resource: nothing in this release moves them.
pub(super) const BOUNDARY_VERSION: u64 = 1;
/// See [`BOUNDARY_VERSION`].
pub(super) const CONTRACT_VERSION: u64 = 1;

/// Freezes the intent. Frozen bytes are no permission, so a latch does not stop them: a reset
/// must be able to start.
pub(super) fn freeze(state: &Authority, command: &ClientCommand<ProposalV1>) -> Decision {
    let subject = match enter(state, command)? {
        Entry::Repeat(accepted) => return Ok((Vec::new(), accepted)),
        Entry::New(subject) => subject,
    };
    let governance = governance(state)?;
    let proposal = &command.payload;
    let classified = classify(
        proposal.ingress,
        &proposal.payload,
        governance.epoch.active_mode,
        governance.feature_level,
        &governance.constitution.policy_clauses,
    )?;
    let grant = applicable_grant(governance, subject, proposal, &classified)?;
    check_roles(governance, subject, proposal)?;
    check_times(state, proposal)?;
    check_evidence(proposal)?;
    lawful(state, governance, subject, &proposal.payload)?;
    check_quota(state, &subject.subject_id)?;
    let intent = compose(state, governance, subject, command, &classified, grant);
    effects::check(state, governance, &intent)?;
    let digest = intent.digest();
    if state.intents.contains_key(&digest) {
        return Err(Refusal::WrongState);
    }
    let event = Event::Frozen(
        digest,
        state.clock.state_time,
        Box::new(intent),
        origination(command, &subject.subject_id),
    );
    Ok((vec![event], Accepted::Frozen(digest)))
}

/// The grant relied on: none is needed where a human decides, and a named one always counts.
fn applicable_grant<'a>(
    governance: &'a Governance,
    caller: &ClientIdentityV1,
    proposal: &ProposalV1,
    classified: &Classification,
) -> Result<Option<&'a AutonomyGrantV1>, Refusal> {
    let Some(id) = &proposal.applicable_grant_id else {
        let human = classified.variant == AuthorityVariant::Human
            && proposal.delegation_grant_digest_optional.is_none();
        return human.then_some(None).ok_or(Refusal::Unauthorized);
    };
    let grant = &governance
        .grants
        .get(id)
        .ok_or(Refusal::Unauthorized)?
        .grant;
    let resource = proposal.payload.resource();
    let covers = grant.mode == governance.epoch.active_mode
        && grant.constitution_epoch <= governance.constitution.constitution_epoch
        && grant.autonomy_epoch <= governance.epoch.autonomy_epoch
        && grant.max_tier >= classified.tier
        && (grant.action_classes.contains(&proposal.payload.class())
            || grant.action_classes.is_empty() && Bug::EmptyListAllows.planted())
        && grant.risk_domains.contains(&classified.risk)
        && grant
            .resource_environment_scope
            .iter()
            .any(|scope| resource.covered_by(scope));
    // M1-I26: who calls under another's grant is named in it, and says which grant it is.
    let entitled = match &proposal.delegation_grant_digest_optional {
        None => grant.subject_id == caller.subject_id,
        Some(digest) => *digest == id.0 && grant.delegate_subject_ids.contains(&caller.subject_id),
    };
    (covers && entitled)
        .then_some(Some(grant))
        .ok_or(Refusal::Unauthorized)
}

/// Who does what: the executor of an effect outside is an enrolled gate of its realm and not
/// the proposer; inside the journal there is none. A promotion names its target (M1-I12, M1-L7).
fn check_roles(
    governance: &Governance,
    caller: &ClientIdentityV1,
    proposal: &ProposalV1,
) -> Result<(), Refusal> {
    let target = proposal.promotion_target_subject_id_optional.as_ref();
    // That no subject promotes itself is `lawful`'s to say, of whoever is promoted.
    if target == Some(caller.person()) {
        return Err(Refusal::SelfAuthorization);
    }
    let promoted = match &proposal.payload {
        ActionPayload::GrantChange(change) => match &**change {
            GrantPayload::Promote(promotion) => Some(&promotion.grant.subject_id),
            GrantPayload::Demote(..) | GrantPayload::Revoke(_) => None,
        },
        _ => None,
    };
    if target != promoted {
        return Err(Refusal::SelfAuthorization);
    }
    let named = proposal.executor_subject_id_optional.as_ref();
    if !proposal.payload.class().is_external() {
        return named.is_none().then_some(()).ok_or(Refusal::Unauthorized);
    }
    let name = named.ok_or(Refusal::Unauthorized)?;
    if *name == caller.subject_id {
        return Err(Refusal::SelfAuthorization);
    }
    let executor = governance.enrolled(name).ok_or(Refusal::Unauthorized)?;
    let realm = proposal.payload.resource();
    let fits = executor.actor_kind == ActorKind::Gate
        && executor
            .scopes
            .iter()
            .any(|scope| scope.as_str() == realm.realm());
    fits.then_some(()).ok_or(Refusal::Unauthorized)
}

fn check_times(state: &Authority, proposal: &ProposalV1) -> Result<(), Refusal> {
    let now = state.clock.state_time;
    if proposal.expires_at <= now {
        return Err(Refusal::Expired);
    }
    let bounded = proposal.expires_at - now <= INTENT_TTL_MS_MAX
        && proposal.effect_deadline_ms >= 1
        && proposal.effect_deadline_ms <= EFFECT_DEADLINE_MS_MAX
        && proposal.payload.activates_at().saturating_sub(now) <= INTENT_TTL_MS_MAX;
    bounded.then_some(()).ok_or(Refusal::TimeStale)
}

fn check_evidence(proposal: &ProposalV1) -> Result<(), Refusal> {
    let ascends = proposal.evidence.windows(2).all(|w| w[0] < w[1]);
    (ascends && proposal.evidence.len() <= 64)
        .then_some(())
        .ok_or(Refusal::NotCanonical)
}

/// Composes the intent: what the client wished, and everything it has no say in.
fn compose(
    state: &Authority,
    governance: &Governance,
    caller: &ClientIdentityV1,
    command: &ClientCommand<ProposalV1>,
    classified: &Classification,
    grant: Option<&AutonomyGrantV1>,
) -> SovereignActionIntentV1 {
    let proposal = &command.payload;
    let event_id = command.envelope.record().event_id;
    let candidate = proposal.payload.candidate_digest();
    let resource = proposal.payload.resource();
    let risk_scope = Digest::of(&(classified.risk, resource).to_canonical());
    let digests = Digests::of(governance, proposal, classified, grant, risk_scope);
    SovereignActionIntentV1 {
        intent_canonicalization_version: CANONICALIZATION_VERSION,
        issuer_subject_id: subject(terms::ISSUER),
        decision_subject_id: grant.map_or_else(|| subject(terms::OWNER), |g| g.subject_id.clone()),
        caller_subject_id: caller.subject_id.clone(),
        proposer_subject_id: caller.subject_id.clone(),
        executor_subject_id_optional: proposal.executor_subject_id_optional.clone(),
        delegation_grant_digest_optional: proposal.delegation_grant_digest_optional,
        promotion_target_subject_id_optional: proposal.promotion_target_subject_id_optional.clone(),
        audience: proposal.audience.clone(),
        action: proposal.payload.class(),
        payload: proposal.payload.clone(),
        action_payload_digest: Digest::of(&proposal.payload.to_canonical()),
        required_authority_variant: classified.variant,
        action_policy_registry_digest: registry_digest(),
        classifier_decision_digest: classified.digest(),
        active_mode: governance.epoch.active_mode,
        autonomy_activation_receipt_id: governance.epoch.activation_receipt_id,
        applicable_grant_id: grant.map(AutonomyGrantV1::id),
        applicable_grant_digest: grant.map(|g| g.id().0),
        tier: classified.tier,
        risk: classified.risk,
        risk_scope_digest: risk_scope,
        candidate_digest_optional: Some(candidate),
        constitution_digest: governance.constitution.digest(),
        constitution_epoch: governance.constitution.constitution_epoch,
        autonomy_epoch: governance.epoch.autonomy_epoch,
        safety_kernel_digest: governance.kernel.digest(),
        quorum_policy_digest: governance.quorum_policy_digest(),
        independence_spec_digest: governance.constitution.independence_spec.digest(),
        expected_store_epoch: governance.organism_epoch,
        expected_store_version: proposal.expected_store_version,
        expected_boundary_version: proposal.expected_boundary_version,
        expected_contract_version: proposal.expected_contract_version,
        organism_repo_brain_digest: digests.organism_repo_brain,
        mission_head_block_candidate_promotion_digest: digests.mission_candidate_promotion,
        mode_grant_tier_risk_scope_budget_digest: digests.mode_grant_tier_risk_budget,
        metric_evidence_rollout_rollback_digest: digests.evidence_rollback,
        evidence: proposal.evidence.clone(),
        rollback: proposal.rollback.clone(),
        mission_id_optional: proposal.mission_id_optional.clone(),
        idempotency_key: event_id,
        nonce: nonce(state, caller, event_id),
        expires_at: proposal.expires_at,
        effect_deadline_ms: proposal.effect_deadline_ms,
        ingress: proposal.ingress,
        effects: classified.effects.to_vec(),
    }
}

fn subject(constant: &str) -> SubjectId {
    SubjectId(Name::new(constant).expect("a constant name is a name"))
}

/// The digests by which an intent binds what belongs together (SPEC C.17).
struct Digests {
    organism_repo_brain: Digest,
    mission_candidate_promotion: Digest,
    mode_grant_tier_risk_budget: Digest,
    evidence_rollback: Digest,
}

impl Digests {
    fn of(
        governance: &Governance,
        proposal: &ProposalV1,
        classified: &Classification,
        grant: Option<&AutonomyGrantV1>,
        risk_scope: Digest,
    ) -> Digests {
        let resource = proposal.payload.resource();
        let promotion = proposal.promotion_target_subject_id_optional.clone();
        let mission = proposal.mission_id_optional.clone();
        let candidate = proposal.payload.candidate_digest();
        let rollback = proposal.rollback.digest(&proposal.payload);
        Digests {
            organism_repo_brain: digest_of(&(
                governance.organism_id,
                resource.realm().as_bytes().to_vec(),
            )),
            mission_candidate_promotion: digest_of(&(mission, candidate, promotion)),
            mode_grant_tier_risk_budget: digest_of(&(
                governance.epoch.active_mode,
                grant.map(|g| g.id().0),
                classified.tier,
                risk_scope,
                grant.map(|g| g.budget),
            )),
            evidence_rollback: digest_of(&(proposal.evidence.clone(), rollback)),
        }
    }
}

fn digest_of(value: &impl Canonical) -> Digest {
    Digest::of(&value.to_canonical())
}

/// Draws equal wishes of one caller apart.
fn nonce(state: &Authority, caller: &ClientIdentityV1, event_id: EventId) -> Digest {
    Digest::of_parts(&[
        b"redlatch/v1/intent-nonce\0",
        &state.clock.tick.0.to_be_bytes(),
        &event_id.0.0,
        caller.subject_id.as_str().as_bytes(),
    ])
}
