//! The safety transaction: the only path without a positive decision (M1-I2, DESIGN §6).
//!
//! Every attempt is recomputed from the latch and compared for equality, so the actuator can
//! neither widen the mandate nor aim it elsewhere (M1-I31). Exactly one attempt gets the
//! marker, in the same entry in which it claims the latch (M1-L10, M1-I36).

use redlatch_types::event::{Accepted, Event};
use redlatch_types::limits::SAFETY_ATTEMPT_TTL_MS;
use redlatch_types::mandate::{Mandate, NegativeVerb};
use redlatch_types::records::{
    AbortReason, AutonomyEpochV1, AutonomyGrantV1, Rebase, RedScope, SafetyActionIntentV1,
    SafetyCapabilityV1, SafetyMarkerV1, SafetyState, TransactionVariant, grants_digest,
};
use redlatch_types::{LatchNumber, Refusal, Signed, TransactionId};

use super::transaction::snapshot;
use super::{Decision, governance, signed_by, terms};
use crate::authority::{Attempt, Authority, Governance, Latch, LatchState, TransactionStage};
use crate::planted::Bug;

/// Stores an attempt's bytes before they are signed (M1-I24 for the safety side).
pub(super) fn store_intent(state: &Authority, attempt: &SafetyActionIntentV1) -> Decision {
    let governance = governance(state)?;
    let latch = pending(state, attempt.latch_epoch)?;
    let digest = attempt.digest();
    if let Some(current) = &latch.attempt {
        if current.intent.digest() == digest {
            return Ok((Vec::new(), Accepted::SafetyStored(digest)));
        }
        if attempt_lives(state, current) {
            return Err(Refusal::WrongState);
        }
    }
    let previous = latch.attempt.as_ref().map(|a| &a.intent);
    let rebase = Rebase {
        attempt_sequence: previous.map_or(1, |p| p.attempt_sequence + 1),
        rebased_from: previous.map(SafetyActionIntentV1::digest),
        expected_autonomy_epoch: governance.epoch.autonomy_epoch,
        attempt_idempotency_key: attempt.attempt_idempotency_key,
        nonce: attempt.nonce,
    };
    let reused = previous.is_some_and(|p| {
        p.nonce == attempt.nonce || p.attempt_idempotency_key == attempt.attempt_idempotency_key
    });
    let derived = SafetyActionIntentV1::derive(
        &latch.receipt,
        governance.roster.actuator.pin_digest(),
        rebase,
    );
    if (reused || derived != *attempt) && !Bug::MandateUnchecked.planted() {
        return Err(Refusal::MandateMismatch);
    }
    Ok((
        vec![Event::SafetyIntentStored(Box::new(derived))],
        Accepted::SafetyStored(digest),
    ))
}

/// The latch, if it is still PENDING; a loser is told so.
fn pending(state: &Authority, number: LatchNumber) -> Result<&Latch, Refusal> {
    match state.latches.get(&number) {
        Some(latch) if latch.state == LatchState::Pending || Bug::LatchHasTwoStops.planted() => {
            Ok(latch)
        }
        Some(_) => Err(Refusal::StaleLatchClaim),
        None if number.0 >= 1 && number <= state.issued.latch => Err(Refusal::StaleLatchClaim),
        None => Err(Refusal::WrongState),
    }
}

/// An attempt dies of its time or of a moved epoch; the latch never does (M1-I35).
fn attempt_lives(state: &Authority, attempt: &Attempt) -> bool {
    if Bug::AttemptNeverDies.planted() {
        return true;
    }
    let current_epoch = state
        .governance
        .as_ref()
        .is_some_and(|g| g.epoch.autonomy_epoch == attempt.intent.expected_autonomy_epoch);
    current_epoch && state.clock.state_time < attempt.stored_at + SAFETY_ATTEMPT_TTL_MS
}

/// Prepares the attempt that the pinned actuator signed. Nothing is visible.
pub(super) fn prepare(state: &Authority, capability: &Signed<SafetyCapabilityV1>) -> Decision {
    let governance = governance(state)?;
    if !Bug::AnybodyActuates.planted() {
        signed_by(governance, capability, &governance.roster.actuator.key)?;
    }
    let record = capability.record();
    let id = record.transaction_id();
    let latch = pending(state, record.latch_epoch)?;
    let attempt = latch.attempt.as_ref().ok_or(Refusal::WrongState)?;
    if attempt.prepared == Some(id) && !Bug::AttemptSpentTwice.planted() {
        return Ok((Vec::new(), Accepted::SafetyPrepared(id)));
    }
    if *record != SafetyCapabilityV1::of(&attempt.intent) {
        return Err(Refusal::MandateMismatch);
    }
    if !attempt_lives(state, attempt) {
        return Err(Refusal::Expired);
    }
    Ok((
        vec![Event::SafetyPrepared(
            id,
            Box::new(record.clone()),
            capability.envelope().clone(),
        )],
        Accepted::SafetyPrepared(id),
    ))
}

/// Claims the latch: claim, marker and published epoch in one entry, in this order (M1-L10).
pub(super) fn claim(state: &Authority, id: &TransactionId) -> Decision {
    let governance = governance(state)?;
    // A latch that is claimed keeps the attempt that claimed it: whoever else tries was refused
    // when the attempt was stored.
    let (latch, attempt, stage) = by_transaction(state, id)?;
    if stage != LatchState::Pending {
        return Err(Refusal::WrongState);
    }
    // At most one epoch transition is ever open: it opens and closes in this entry.
    if !attempt_lives(state, attempt) {
        return Err(Refusal::Expired);
    }
    let number = latch.receipt.latch_epoch;
    let old = governance.epoch.autonomy_epoch;
    let mandate = latch.receipt.mandate.clone();
    let compensates = if mandate.verbs.contains(&NegativeVerb::Rollback) {
        effects_in_scope(state, latch)
    } else {
        Vec::new()
    };
    let marker = SafetyMarkerV1 {
        marker: state.issued.marker.next(),
        transaction_id: *id,
        latch_epoch: number,
        safety_intent_digest: attempt.intent.digest(),
        old_autonomy_epoch: old,
        new_autonomy_epoch: old.next(),
        committed_at: state.clock.state_time,
        mandate,
        compensates,
        transaction_variant: TransactionVariant::SafetyKernel,
        positive_authority_decision_forbidden: !Bug::StopRestsOnADecision.planted(),
        safety_capability_id: SafetyCapabilityV1::of(&attempt.intent).id(),
        authorization_snapshot: snapshot(state, governance),
    };
    debug_assert!(marker.is_sound());
    let accepted = Accepted::SafetyCommitted(marker.marker);
    let mut events = vec![
        Event::LatchCommitting(number, *id),
        Event::SafetyCommitted(Box::new(marker)),
    ];
    let now = state.clock.state_time;
    let (grant_events, grants) = grants_after(governance, &latch.receipt.mandate, now);
    if !Bug::EpochNotPublished.planted() {
        events.push(Event::EpochPublished(Box::new(AutonomyEpochV1 {
            autonomy_epoch: old.next(),
            grants_digest: grants_digest(grants.iter()),
            effective_at: state.clock.state_time,
            safety_state: SafetyState::Stopped,
            ..governance.epoch.clone()
        })));
    }
    events.extend(grant_events);
    events.extend(aborts_in_scope(state, latch));
    Ok((events, accepted))
}

/// Grants whose subject the mandate names: revoked or lowered as it says; and all that remain.
fn grants_after(
    governance: &Governance,
    mandate: &Mandate,
    now: u64,
) -> (Vec<Event>, Vec<AutonomyGrantV1>) {
    let mut events = Vec::new();
    let mut remaining = Vec::new();
    for (id, held) in &governance.grants {
        let named = mandate.scopes.iter().any(|s| match s {
            RedScope::Everything => true,
            RedScope::Subject(subject) => *subject == held.grant.subject_id,
            _ => false,
        });
        if named && mandate.verbs.contains(&NegativeVerb::Revoke) {
            events.push(Event::GrantRevoked(*id));
        } else if named && mandate.verbs.contains(&NegativeVerb::Demote) {
            let lowered = AutonomyGrantV1 {
                max_tier: terms::one_lower(held.grant.max_tier),
                issued_at: now,
                autonomy_epoch: governance.epoch.autonomy_epoch.next(),
                ..held.grant.clone()
            };
            remaining.push(lowered.clone());
            events.push(Event::GrantDemoted(*id, Box::new(lowered)));
        } else {
            remaining.push(held.grant.clone());
        }
    }
    (events, remaining)
}

/// PREPARED transactions in scope end with this entry, where the mandate says so.
fn aborts_in_scope(state: &Authority, latch: &Latch) -> Vec<Event> {
    let mandate = &latch.receipt.mandate;
    if !mandate.verbs.contains(&NegativeVerb::AbortPrepare) {
        return Vec::new();
    }
    let prepared = state
        .transactions
        .iter()
        .filter(|(_, t)| t.stage == TransactionStage::Prepared);
    prepared
        .filter_map(|(id, t)| {
            let intent = t.transaction.binding.intent_digest;
            let covered = mandate.covers(&state.intents.get(&intent)?.intent);
            covered.then_some(Event::Aborted(*id, intent, AbortReason::RedLatched))
        })
        .collect()
}

/// Committed effects that the mandate covers and that may be in the world.
fn effects_in_scope(state: &Authority, latch: &Latch) -> Vec<TransactionId> {
    state
        .effects_in_world()
        .filter(|(_, t)| {
            state
                .intents
                .get(&t.transaction.binding.intent_digest)
                .is_some_and(|i| latch.receipt.mandate.covers(&i.intent))
        })
        .map(|(id, _)| *id)
        .collect()
}

fn by_transaction<'a>(
    state: &'a Authority,
    id: &TransactionId,
) -> Result<(&'a Latch, &'a Attempt, LatchState), Refusal> {
    state
        .latches
        .values()
        .find_map(|l| {
            let attempt = l.attempt.as_ref()?;
            (attempt.prepared == Some(*id)).then_some((l, attempt, l.state))
        })
        .ok_or(Refusal::UnknownTransaction)
}

/// Ends the latch. Its rollbacks were ordered by the marker; they are new transactions of
/// their own, and the freeze goes on (DESIGN §6).
pub(super) fn finish(state: &Authority, id: &TransactionId) -> Decision {
    governance(state)?;
    let (latch, _, stage) = by_transaction(state, id)?;
    let number = latch.receipt.latch_epoch;
    match stage {
        LatchState::Terminal(_) => Ok((Vec::new(), Accepted::SafetyTerminal(number))),
        LatchState::Committing(_) => Ok((
            vec![Event::SafetyTerminal(number, *id)],
            Accepted::SafetyTerminal(number),
        )),
        LatchState::Pending => Err(Refusal::WrongState),
    }
}
