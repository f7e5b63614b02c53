//! What clients ask for: freeze an intent, take it back (DESIGN §5.1, §5.2).

use redlatch_types::event::{Accepted, Event, Origination};
use redlatch_types::limits::{
    COMMAND_EXPIRY_AHEAD_MS_MAX, EFFECT_DEADLINE_MS_MAX, IDEMPOTENCY_PER_SUBJECT_MAX,
    INTENT_TTL_MS_MAX, INTENTS_OPEN_MAX, INTENTS_OPEN_PER_SUBJECT_MAX,
};
use redlatch_types::records::{
    ActionPayload, ActorKind, AutonomyGrantV1, CANONICALIZATION_VERSION, CausalEnvelopeV1,
    ClientIdentityV1, GitRef, ProposalV1, ResourceScope, SovereignActionIntentV1, WithdrawalV1,
};
use redlatch_types::{Canonical, Digest, EventId, MissionId, Name, Refusal, SubjectId};

use super::{Decision, governance, in_scope};
use crate::admit::ClientCommand;
use crate::authority::{Authority, Governance, IntentStage, TransactionStage};
use crate::planted::Bug;
use crate::registry::{Classification, classify, registry_digest};

/// Versions of boundary and contract of every resource: nothing in this release moves them.
pub(crate) const BOUNDARY_VERSION: u64 = 1;
/// See [`BOUNDARY_VERSION`].
pub(crate) const CONTRACT_VERSION: u64 = 1;

/// The checks that every client command passes, or the first outcome of a repeat.
enum Entry<'a> {
    New(&'a ClientIdentityV1),
    Repeat(Accepted),
}

/// What a payload says of the things that its envelope may name too.
trait Named {
    fn mission(&self) -> Option<&MissionId>;
    fn store_version(&self) -> Option<u64>;
    fn target(&self) -> Digest;
    fn delegation(&self) -> Option<Digest>;
}

impl Named for ProposalV1 {
    fn mission(&self) -> Option<&MissionId> {
        self.mission_id_optional.as_ref()
    }
    fn store_version(&self) -> Option<u64> {
        Some(self.expected_store_version)
    }
    fn target(&self) -> Digest {
        let ActionPayload::Land(land) = &self.payload;
        land.candidate_digest()
    }
    fn delegation(&self) -> Option<Digest> {
        self.delegation_grant_digest_optional
    }
}

impl Named for WithdrawalV1 {
    fn mission(&self) -> Option<&MissionId> {
        None
    }
    fn store_version(&self) -> Option<u64> {
        None
    }
    fn target(&self) -> Digest {
        self.intent_digest.0
    }
    fn delegation(&self) -> Option<Digest> {
        None
    }
}

/// What an envelope names, its payload names too. What nothing here can compare is refused, so
/// that no field of a signed header is decoration.
fn check_names(envelope: &CausalEnvelopeV1, payload: &impl Named) -> Result<(), Refusal> {
    let incomparable = envelope.capability_id_optional.is_some()
        || envelope.mission_head_id_optional.is_some()
        || envelope.block_id_optional.is_some()
        || envelope.receipt_id_optional.is_some()
        || envelope.presence_id_optional.is_some();
    if incomparable {
        return Err(Refusal::NotSupported);
    }
    fn agrees<T: PartialEq>(named: Option<T>, payload: Option<T>) -> bool {
        named.is_none() || named == payload
    }
    let agree = agrees(envelope.mission_id_optional.as_ref(), payload.mission())
        && agrees(envelope.store_version_optional, payload.store_version())
        && agrees(envelope.target_digest_optional, Some(payload.target()))
        && agrees(envelope.delegation_id_optional, payload.delegation());
    agree.then_some(()).ok_or(Refusal::CandidateMismatch)
}

fn enter<'a, T: Named>(
    state: &'a Authority,
    command: &ClientCommand<T>,
) -> Result<Entry<'a>, Refusal> {
    let governance = governance(state)?;
    let envelope = command.envelope.record();
    in_scope(governance, command.envelope.scope())?;
    let subject = governance
        .subject_by_key(command.envelope.key())
        .ok_or(Refusal::Unauthorized)?;
    // M1-I26: the caller follows from the key; a name in the body may only agree with it.
    let names_itself = envelope.actor_id == subject.subject_id
        && envelope.issuer == subject.subject_id
        && envelope.actor_kind == subject.actor_kind;
    if !names_itself {
        return Err(Refusal::Unauthorized);
    }
    check_names(envelope, &command.payload)?;
    let now = state.clock.state_time;
    if envelope.expires_at <= now {
        return Err(Refusal::Expired);
    }
    if envelope.issued_at > now || envelope.expires_at - now > COMMAND_EXPIRY_AHEAD_MS_MAX {
        return Err(Refusal::TimeStale);
    }
    let remembered = state.idempotency.get(&subject.subject_id);
    if let Some(first) = remembered.and_then(|m| m.get(&envelope.event_id)) {
        let same = first.payload_digest == envelope.payload_digest;
        return if same && !Bug::RepeatRefused.planted() {
            Ok(Entry::Repeat(first.accepted.clone()))
        } else {
            Err(Refusal::IdempotencyConflict)
        };
    }
    if remembered.is_some_and(|m| m.len() >= IDEMPOTENCY_PER_SUBJECT_MAX) {
        return Err(Refusal::LimitExceeded);
    }
    Ok(Entry::New(subject))
}

fn origination<T>(command: &ClientCommand<T>, subject: &SubjectId) -> Box<Origination> {
    let envelope = command.envelope.record();
    Box::new(Origination {
        subject_id: subject.clone(),
        event_id: envelope.event_id,
        payload_digest: envelope.payload_digest,
        expires_at: envelope.expires_at,
        envelope: command.envelope.envelope().clone(),
        payload: command.payload_bytes.clone(),
    })
}

/// Freezes the intent that follows from the proposal, the caller's key and the state. Frozen
/// bytes are no permission, so a latch does not stop them: a reset must be able to start.
pub(super) fn freeze(state: &Authority, command: &ClientCommand<ProposalV1>) -> Decision {
    let subject = match enter(state, command)? {
        Entry::Repeat(accepted) => return Ok((Vec::new(), accepted)),
        Entry::New(subject) => subject,
    };
    let governance = governance(state)?;
    let proposal = &command.payload;
    let class = proposal.payload.class();
    let classified = classify(class, governance.epoch.active_mode)?;
    let grant = applicable_grant(governance, proposal, &classified)?;
    // Delegations come with the governance records; until then caller and grant subject are one.
    if grant.subject_id != subject.subject_id || proposal.delegation_grant_digest_optional.is_some()
    {
        return Err(Refusal::Unauthorized);
    }
    check_executor(governance, subject, proposal)?;
    check_times(state, proposal)?;
    check_payload(proposal)?;
    check_expected(state, proposal)?;
    check_quota(state, &subject.subject_id)?;
    let intent = compose(state, governance, subject, command, &classified, grant);
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

fn applicable_grant<'a>(
    governance: &'a Governance,
    proposal: &ProposalV1,
    classified: &Classification,
) -> Result<&'a AutonomyGrantV1, Refusal> {
    let grant = &governance
        .grants
        .get(&proposal.applicable_grant_id)
        .ok_or(Refusal::Unauthorized)?
        .grant;
    let covers = grant.mode == governance.epoch.active_mode
        && grant.constitution_epoch <= governance.constitution.constitution_epoch
        && grant.autonomy_epoch <= governance.epoch.autonomy_epoch
        && grant.max_tier >= classified.tier
        && grant.action_classes.contains(&proposal.payload.class())
        && grant.risk_domains.contains(&classified.risk)
        && grant
            .resource_environment_scope
            .iter()
            .any(|s| scope_covers(s, proposal.payload.resource()));
    covers.then_some(grant).ok_or(Refusal::Unauthorized)
}

/// M1-I8: an empty prefix covers nothing.
fn scope_covers(scope: &ResourceScope, resource: &GitRef) -> bool {
    let prefix = scope.ref_prefix.as_str();
    !prefix.is_empty()
        && scope.repository == resource.repository
        && resource.reference.as_str().starts_with(prefix)
}

/// The executor of a landing is an enrolled gate of the repository, and not the proposer.
fn check_executor(
    governance: &Governance,
    caller: &ClientIdentityV1,
    proposal: &ProposalV1,
) -> Result<(), Refusal> {
    let name = proposal
        .executor_subject_id_optional
        .as_ref()
        .ok_or(Refusal::Unauthorized)?;
    if *name == caller.subject_id
        || proposal.promotion_target_subject_id_optional.as_ref() == Some(&caller.subject_id)
    {
        return Err(Refusal::SelfAuthorization);
    }
    let executor = governance.subjects.get(name).ok_or(Refusal::Unauthorized)?;
    let fits = executor.actor_kind == ActorKind::Gate
        && executor.revoked_at_optional.is_none()
        && executor
            .scopes
            .contains(&proposal.payload.resource().repository);
    fits.then_some(()).ok_or(Refusal::Unauthorized)
}

fn check_times(state: &Authority, proposal: &ProposalV1) -> Result<(), Refusal> {
    let now = state.clock.state_time;
    if proposal.expires_at <= now {
        return Err(Refusal::Expired);
    }
    let bounded = proposal.expires_at - now <= INTENT_TTL_MS_MAX
        && proposal.effect_deadline_ms >= 1
        && proposal.effect_deadline_ms <= EFFECT_DEADLINE_MS_MAX;
    bounded.then_some(()).ok_or(Refusal::TimeStale)
}

fn check_payload(proposal: &ProposalV1) -> Result<(), Refusal> {
    let evidence_ascends = proposal.evidence.windows(2).all(|w| w[0] < w[1]);
    if !evidence_ascends || proposal.evidence.len() > 64 {
        return Err(Refusal::NotCanonical);
    }
    match &proposal.payload {
        ActionPayload::Land(land) => {
            let full_id = |id: &[u8]| id.len() == 20 || id.len() == 32;
            let landable = full_id(&land.new.0)
                && (land.old.0.is_empty() || land.old.0.len() == land.new.0.len())
                && land.old != land.new
                && land.new.0.iter().any(|b| *b != 0)
                && land.resource.reference.as_str().starts_with("refs/");
            landable.then_some(()).ok_or(Refusal::UnlandableCandidate)
        }
    }
}

/// OCC: the proposal was made on the current versions and head (SPEC F.2, in its order).
fn check_expected(state: &Authority, proposal: &ProposalV1) -> Result<(), Refusal> {
    if proposal.expected_boundary_version != BOUNDARY_VERSION
        || proposal.expected_contract_version != CONTRACT_VERSION
    {
        return Err(Refusal::StaleScope);
    }
    let ActionPayload::Land(land) = &proposal.payload;
    let resource = state.resources.get(&land.resource.id());
    let version = resource.map_or(0, |r| r.store_version);
    let head_fits = resource
        .and_then(|r| r.head.as_ref())
        .is_none_or(|head| *head == land.old);
    if proposal.expected_store_version != version || !head_fits {
        return Err(Refusal::StaleHead);
    }
    Ok(())
}

/// FAULTS 94: one subject cannot fill the state.
fn check_quota(state: &Authority, subject: &SubjectId) -> Result<(), Refusal> {
    let open = state
        .intents
        .values()
        .filter(|i| i.intent.caller_subject_id == *subject && is_open(state, &i.stage))
        .take(INTENTS_OPEN_PER_SUBJECT_MAX)
        .count();
    if open >= INTENTS_OPEN_PER_SUBJECT_MAX || state.intents.len() >= INTENTS_OPEN_MAX {
        return Err(Refusal::LimitExceeded);
    }
    Ok(())
}

fn is_open(state: &Authority, stage: &IntentStage) -> bool {
    match stage {
        IntentStage::Frozen | IntentStage::Authorized(_) => true,
        IntentStage::InTransaction(id) => state
            .transactions
            .get(id)
            .is_some_and(|t| t.stage == TransactionStage::Prepared),
    }
}

/// Composes the intent: what the client wished, and everything it has no say in.
fn compose(
    state: &Authority,
    governance: &Governance,
    caller: &ClientIdentityV1,
    command: &ClientCommand<ProposalV1>,
    classified: &Classification,
    grant: &AutonomyGrantV1,
) -> SovereignActionIntentV1 {
    let proposal = &command.payload;
    let event_id = command.envelope.record().event_id;
    let ActionPayload::Land(land) = &proposal.payload;
    let candidate = land.candidate_digest();
    let grant_digest = grant.id().0;
    let risk_scope = Digest::of(&(classified.risk, land.resource.clone()).to_canonical());
    let digests = Digests::of(governance, proposal, classified, grant, risk_scope);
    let issuer: SubjectId = SubjectId(Name::new("journal").expect("a constant name is a name"));
    SovereignActionIntentV1 {
        intent_canonicalization_version: CANONICALIZATION_VERSION,
        issuer_subject_id: issuer,
        decision_subject_id: grant.subject_id.clone(),
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
        applicable_grant_id: grant.id(),
        applicable_grant_digest: grant_digest,
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
    }
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
        grant: &AutonomyGrantV1,
        risk_scope: Digest,
    ) -> Digests {
        let ActionPayload::Land(land) = &proposal.payload;
        let repository = land.resource.repository.clone();
        let promotion = proposal.promotion_target_subject_id_optional.clone();
        let mission = proposal.mission_id_optional.clone();
        let rollback = proposal.rollback.digest(&proposal.payload);
        let mode = governance.epoch.active_mode;
        Digests {
            organism_repo_brain: digest_of(&(governance.organism_id, repository)),
            mission_candidate_promotion: digest_of(&(mission, land.candidate_digest(), promotion)),
            mode_grant_tier_risk_budget: digest_of(&(
                mode,
                grant.id().0,
                classified.tier,
                risk_scope,
                grant.budget,
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

/// The proposer takes an uncommitted intent back.
pub(super) fn withdraw(state: &Authority, command: &ClientCommand<WithdrawalV1>) -> Decision {
    let subject = match enter(state, command)? {
        Entry::Repeat(accepted) => return Ok((Vec::new(), accepted)),
        Entry::New(subject) => subject,
    };
    let digest = command.payload.intent_digest;
    let intent = state.intents.get(&digest).ok_or(Refusal::UnknownIntent)?;
    if intent.intent.proposer_subject_id != subject.subject_id {
        return Err(Refusal::Unauthorized);
    }
    if !is_open(state, &intent.stage) {
        return Err(Refusal::WrongState);
    }
    let event = Event::Withdrawn(digest, origination(command, &subject.subject_id));
    Ok((vec![event], Accepted::Withdrawn(digest)))
}
