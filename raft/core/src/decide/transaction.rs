//! PREPARE, COMMIT, ABORT of positive transactions (DESIGN §5.5, §5.6, SPEC E.12).

use redlatch_types::event::{Accepted, Event};
use redlatch_types::limits::{PREPARE_TTL_MS, RESOURCES_MAX};
use redlatch_types::records::{
    AbortReason, AuthorizationSnapshotV1, AutonomyCapabilityV1, CommitMarkerV1, CommonBindingSet,
    PositiveAuthorityTransactionV1, SovereignActionIntentV1, TransactionVariant,
};
use redlatch_types::{
    Canonical, CapabilityId, Digest, IntentDigest, MarkerNumber, Refusal, TransactionId,
};

use super::fence::{Target, fence, one_step_per_entry, still_authorised};
use super::payload::lawful;
use super::{Decision, effects, governance};
use crate::authority::{
    Authority, EffectStage, Governance, Intent, IntentStage, Permit, Transaction, TransactionStage,
};
use crate::planted::Bug;

/// Consumes the capability and stores what COMMIT will be compared with. Nothing is visible.
pub(super) fn prepare(
    state: &Authority,
    digest: &IntentDigest,
    capability: &CapabilityId,
) -> Decision {
    let governance = governance(state)?;
    let live = state.intents.get(digest).ok_or(Refusal::UnknownIntent)?;
    let permit = match &live.stage {
        IntentStage::Frozen => return Err(Refusal::WrongState),
        IntentStage::InTransaction(id) => return repeated_prepare(*id, capability),
        IntentStage::Authorized(permit) => permit,
    };
    if permit.capability.id() != *capability && !Bug::AnyCapabilityPrepares.planted() {
        return Err(Refusal::Unauthorized);
    }
    fence(state, Target::of(&live.intent))?;
    one_step_per_entry(state, digest)?;
    still_authorised(state, live)?;
    let now = state.clock.state_time;
    if now >= permit.capability.expires_at || now >= permit.verdict_expires_at {
        return Err(Refusal::Expired);
    }
    check_permit(governance, live, digest, permit)?;
    check_expected(state, &live.intent)?;
    let id = PositiveAuthorityTransactionV1::id_of(capability);
    check_reservation(state, &live.intent, &id)?;
    check_budget(state, governance, &live.intent)?;
    let transaction = Box::new(compose(state, governance, live, permit, *capability));
    Ok((
        vec![Event::Prepared(id, transaction)],
        Accepted::Prepared(id),
    ))
}

/// The same capability again: the first outcome. Another one: this intent is spent.
fn repeated_prepare(id: TransactionId, capability: &CapabilityId) -> Decision {
    if PositiveAuthorityTransactionV1::id_of(capability) == id {
        Ok((Vec::new(), Accepted::Prepared(id)))
    } else {
        Err(Refusal::AlreadySpent)
    }
}

/// The capability is the one of this intent, this decision and this grant, field by field
/// (M1-L8, M1-I13).
fn check_permit(
    governance: &Governance,
    live: &Intent,
    digest: &IntentDigest,
    permit: &Permit,
) -> Result<(), Refusal> {
    let (capability, intent) = (&permit.capability, &live.intent);
    let grant = match &intent.applicable_grant_id {
        Some(id) => Some(governance.grants.get(id).ok_or(Refusal::Unauthorized)?),
        None => None,
    };
    let fits = capability.binding == CommonBindingSet::of(intent, *digest)
        && capability.authority_decision_digest == permit.decision.digest()
        && capability.nonce == AutonomyCapabilityV1::nonce_of(&permit.decision.digest())
        && capability.effective_tier == intent.tier
        && capability.audience == intent.audience
        && capability.action == intent.action
        && capability.applicable_grant_id == intent.applicable_grant_id
        && capability.applicable_grant_digest == intent.applicable_grant_digest
        && capability.idempotency_key == intent.idempotency_key
        && capability.capability_kind == intent.required_authority_variant
        && capability.budget == grant.map(|held| held.grant.budget);
    fits.then_some(()).ok_or(Refusal::Unauthorized)
}

/// Everything that may have changed around the intent since it was frozen: its effects' checks
/// and whether the action is still lawful (M1-I27, SPEC F.2).
fn check_expected(state: &Authority, intent: &SovereignActionIntentV1) -> Result<(), Refusal> {
    let governance = governance(state)?;
    effects::check(state, governance, intent)?;
    let proposer = governance
        .enrolled(&intent.proposer_subject_id)
        .ok_or(Refusal::Unauthorized)?;
    lawful(state, governance, proposer, &intent.payload)
}

/// One transaction holds a resource at a time. An expired, fenced or lapsed one holds nothing.
fn check_reservation(
    state: &Authority,
    intent: &SovereignActionIntentV1,
    own: &TransactionId,
) -> Result<(), Refusal> {
    let resource = state.resources.get(&intent.payload.resource().id());
    if resource.is_none() && state.resources.len() >= RESOURCES_MAX {
        return Err(Refusal::LimitExceeded);
    }
    let holder = resource.and_then(|r| r.reserved_by).filter(|h| h != own);
    match holder {
        Some(other) if holds(state, &other) && !Bug::ReservationIgnored.planted() => {
            Err(Refusal::ResourceReserved)
        }
        _ => Ok(()),
    }
}

/// Whether a transaction still holds its resource and its share of the budget.
pub(super) fn holds(state: &Authority, id: &TransactionId) -> bool {
    let Some(transaction) = state.transactions.get(id) else {
        return false;
    };
    match &transaction.stage {
        TransactionStage::Prepared => void_reason(state, transaction).is_none(),
        TransactionStage::Committed(marker, effect) => match effect {
            EffectStage::Unclaimed => state.clock.state_time < marker.effect_deadline,
            EffectStage::Claimed(..) | EffectStage::Unknown => true,
            EffectStage::Done(_) | EffectStage::Failed(_) | EffectStage::Withheld(_) => false,
        },
    }
}

/// Committed actions and live preparations together stay within the grant's budget.
fn check_budget(
    state: &Authority,
    governance: &Governance,
    intent: &SovereignActionIntentV1,
) -> Result<(), Refusal> {
    let Some(id) = &intent.applicable_grant_id else {
        return Ok(());
    };
    let grant = governance.grants.get(id).ok_or(Refusal::Unauthorized)?;
    let preparing = state
        .transactions
        .iter()
        .filter(|(id, t)| {
            t.stage == TransactionStage::Prepared
                && t.transaction.applicable_grant_id == intent.applicable_grant_id
                && holds(state, id)
        })
        .count() as u64;
    (grant.committed + preparing < grant.grant.budget || Bug::BudgetIgnored.planted())
        .then_some(())
        .ok_or(Refusal::BudgetExceeded)
}

fn compose(
    state: &Authority,
    governance: &Governance,
    live: &Intent,
    permit: &Permit,
    capability_id: CapabilityId,
) -> PositiveAuthorityTransactionV1 {
    let binding = permit.capability.binding.clone();
    let now = state.clock.state_time;
    PositiveAuthorityTransactionV1 {
        identity_role_binding_digest: PositiveAuthorityTransactionV1::role_binding(&binding),
        binding,
        transaction_variant: TransactionVariant::PositiveAuthority,
        capability_kind: permit.decision.authority_kind,
        capability_id,
        authority_decision_digest: permit.capability.authority_decision_digest,
        applicable_grant_id: live.intent.applicable_grant_id,
        sentinel_verdict_digest_optional: permit.decision.sentinel_verdict_digest_optional,
        promotion_target_subject_id_optional: live
            .intent
            .promotion_target_subject_id_optional
            .clone(),
        expected_active_mode: governance.epoch.active_mode,
        expected_activation_receipt_id: governance.epoch.activation_receipt_id,
        expected_pending_red_set_digest: state.pending_red_set_digest(),
        expected_red_latch_epoch: state.issued.latch,
        tick: state.clock.tick,
        prepared_at: now,
        expires_at: (now + PREPARE_TTL_MS)
            .min(permit.verdict_expires_at)
            .min(live.intent.expires_at),
        decision_digest: permit.decision.decision_digest,
        effective_tier_optional: permit.decision.effective_tier_optional,
        idempotency_key: permit.capability.idempotency_key,
        nonce: permit.capability.nonce,
        rollback_plan_digest: live.intent.rollback.digest(&live.intent.payload),
    }
}

/// Revalidates everything at this position and writes the marker (M1-I34).
pub(super) fn commit(state: &Authority, id: &TransactionId) -> Decision {
    let governance = governance(state)?;
    let transaction = state
        .transactions
        .get(id)
        .ok_or(Refusal::UnknownTransaction)?;
    if let TransactionStage::Committed(marker, _) = &transaction.stage {
        return Ok((Vec::new(), Accepted::Committed(marker.marker)));
    }
    let digest = transaction.transaction.binding.intent_digest;
    let live = state.intents.get(&digest).ok_or(Refusal::UnknownIntent)?;
    fence(state, Target::of(&live.intent))?;
    one_step_per_entry(state, &digest)?;
    if !Bug::PreparedIsEnough.planted() {
        revalidate(state, governance, live, transaction)?;
    }
    check_expected(state, &live.intent)?;
    check_reservation(state, &live.intent, id)?;
    let marker = marker_of(state, governance, live, transaction, *id);
    let number = marker.marker;
    Ok((
        vec![Event::Committed(Box::new(marker))],
        Accepted::Committed(number),
    ))
}

/// Everything of the stored transaction that must still be so (M1-I14, M1-I27).
fn revalidate(
    state: &Authority,
    governance: &Governance,
    live: &Intent,
    transaction: &Transaction,
) -> Result<(), Refusal> {
    let stored = &transaction.transaction;
    if state.clock.state_time >= stored.expires_at
        || state.clock.state_time >= transaction.verdict_expires_at
    {
        return Err(Refusal::Expired);
    }
    still_authorised(state, live)?;
    let digest = live.intent.digest();
    let unchanged = stored.binding == CommonBindingSet::of(&live.intent, digest)
        && stored.effective_tier_optional == Some(live.intent.tier)
        && stored.idempotency_key == live.intent.idempotency_key
        && stored.nonce == AutonomyCapabilityV1::nonce_of(&stored.authority_decision_digest)
        && stored.rollback_plan_digest == live.intent.rollback.digest(&live.intent.payload)
        && stored.expected_active_mode == governance.epoch.active_mode
        && stored.expected_activation_receipt_id == governance.epoch.activation_receipt_id
        && stored.identity_role_binding_digest
            == PositiveAuthorityTransactionV1::role_binding(&stored.binding);
    unchanged.then_some(()).ok_or(Refusal::EpochFenced)
}

/// The authority in force, as it will be looked at long after.
pub(super) fn snapshot(state: &Authority, governance: &Governance) -> AuthorizationSnapshotV1 {
    AuthorizationSnapshotV1 {
        active_mode: governance.epoch.active_mode,
        activation_receipt_id: governance.epoch.activation_receipt_id,
        constitution_epoch: governance.constitution.constitution_epoch,
        autonomy_epoch: governance.epoch.autonomy_epoch,
        grants_digest: governance.grants_digest(),
        latch_epoch: state.issued.latch,
        tick: state.clock.tick,
        state_time: state.clock.state_time,
    }
}

fn marker_of(
    state: &Authority,
    governance: &Governance,
    live: &Intent,
    transaction: &Transaction,
    id: TransactionId,
) -> CommitMarkerV1 {
    let now = state.clock.state_time;
    CommitMarkerV1 {
        marker: MarkerNumber(state.issued.marker.0).next(),
        transaction_id: id,
        intent_digest: transaction.transaction.binding.intent_digest,
        transaction_digest: Digest::of(&transaction.transaction.to_canonical()),
        committed_at: now,
        authorization_snapshot: snapshot(state, governance),
        effect_deadline: now.max(live.intent.payload.activates_at())
            + live.intent.effect_deadline_ms,
    }
}

/// Ends a prepared transaction, but only for a reason that is true here and now.
pub(super) fn abort(state: &Authority, id: &TransactionId, reason: &AbortReason) -> Decision {
    governance(state)?;
    let transaction = state
        .transactions
        .get(id)
        .ok_or(Refusal::UnknownTransaction)?;
    if transaction.stage != TransactionStage::Prepared {
        return Err(Refusal::WrongState);
    }
    if void_reason(state, transaction).as_ref() != Some(reason) && !Bug::AbortForNoReason.planted()
    {
        return Err(Refusal::WrongState);
    }
    let intent = transaction.transaction.binding.intent_digest;
    Ok((
        vec![Event::Aborted(*id, intent, reason.clone())],
        Accepted::Aborted(*id),
    ))
}

/// Why a prepared transaction can no longer COMMIT, if it cannot.
pub(super) fn void_reason(state: &Authority, transaction: &Transaction) -> Option<AbortReason> {
    let digest = transaction.transaction.binding.intent_digest;
    let Some(live) = state.intents.get(&digest) else {
        return Some(AbortReason::Expired);
    };
    let fenced = fence(state, Target::of(&live.intent)).err();
    let checks = fenced
        .or_else(|| {
            let governance = state.governance.as_ref()?;
            revalidate(state, governance, live, transaction).err()
        })
        .or_else(|| check_expected(state, &live.intent).err());
    match checks? {
        Refusal::RedLatched => Some(AbortReason::RedLatched),
        Refusal::Frozen => Some(AbortReason::Frozen),
        Refusal::EpochFenced => Some(AbortReason::EpochFenced),
        Refusal::StaleHead | Refusal::StaleScope => Some(AbortReason::StaleHead),
        Refusal::Unauthorized | Refusal::BudgetExceeded => Some(AbortReason::GrantEnded),
        _ => Some(AbortReason::Expired),
    }
}
