//! The fence: the one place where a latch, a freeze or a moved epoch stops what is positive.
//!
//! M1-L4, M1-I14, M1-I34: authority linearizes here, at the command's own position, and never
//! at the time it was proposed.

use redlatch_types::mandate::covers;
use redlatch_types::records::{RedScope, SovereignActionIntentV1};
use redlatch_types::{Refusal, limits};

use super::governance;
use crate::authority::{Authority, Intent};
use crate::planted::Bug;

/// What a positive command is about to act on.
pub(super) enum Target<'a> {
    /// One intent.
    Intent(&'a SovereignActionIntentV1),
    /// The organism itself: any latch or freeze, however narrow, stops it.
    Organism,
}

/// Refuses anything positive on `target` while a latch covers it, a freeze covers it, issuance
/// is frozen, or its autonomy epoch is not the one in force.
pub(super) fn fence(state: &Authority, target: Target<'_>) -> Result<(), Refusal> {
    let governance = governance(state)?;
    let stopped_by = |scopes: &[RedScope]| match target {
        Target::Intent(intent) => scopes.iter().any(|s| {
            let unseen = matches!(s, RedScope::Subject(_)) && Bug::SubjectUnfenced.planted();
            covers(s, intent) && !unseen
        }),
        Target::Organism => true,
    };
    if state
        .pending_latches()
        .any(|l| stopped_by(&l.receipt.mandate.scopes))
    {
        return Err(Refusal::RedLatched);
    }
    if governance.epoch.issuance_frozen || state.grounds.values().any(|g| stopped_by(&g.scopes)) {
        return Err(Refusal::Frozen);
    }
    match target {
        Target::Intent(intent) if intent.autonomy_epoch != governance.epoch.autonomy_epoch => {
            Err(Refusal::EpochFenced)
        }
        _ => Ok(()),
    }
}

/// Refuses an intent whose governance is not the one that was frozen with it, whose parties
/// are no longer enrolled, or whose grant has ended (M1-I27, M1-L13).
pub(super) fn still_authorised(state: &Authority, intent: &Intent) -> Result<(), Refusal> {
    let governance = governance(state)?;
    let now = state.clock.state_time;
    let i = &intent.intent;
    if now >= i.expires_at {
        return Err(Refusal::Expired);
    }
    let unchanged = i.active_mode == governance.epoch.active_mode
        && i.autonomy_activation_receipt_id == governance.epoch.activation_receipt_id
        && i.constitution_epoch == governance.constitution.constitution_epoch
        && i.constitution_digest == governance.constitution.digest()
        && i.constitution_digest == governance.epoch.constitution_digest
        && governance.epoch.effective_at <= now
        && i.safety_kernel_digest == governance.kernel.digest()
        && i.quorum_policy_digest == governance.quorum_policy_digest()
        && i.independence_spec_digest == governance.constitution.independence_spec.digest()
        && i.action_policy_registry_digest == crate::registry::registry_digest()
        && i.expected_store_epoch == governance.organism_epoch;
    if !unchanged {
        return Err(Refusal::EpochFenced);
    }
    let constitution_ended = governance
        .constitution
        .expires_at_optional
        .is_some_and(|end| now >= end);
    if constitution_ended {
        return Err(Refusal::Expired);
    }
    for subject in [
        Some(&i.caller_subject_id),
        i.executor_subject_id_optional.as_ref(),
    ]
    .into_iter()
    .flatten()
    {
        let enrolled = governance
            .subjects
            .get(subject)
            .is_some_and(|s| s.revoked_at_optional.is_none());
        if !enrolled {
            return Err(Refusal::Unauthorized);
        }
    }
    grant_lives(state, i)
}

/// Refuses an intent whose grant is gone, expired, or used up.
fn grant_lives(state: &Authority, intent: &SovereignActionIntentV1) -> Result<(), Refusal> {
    let governance = governance(state)?;
    let grant = governance
        .grants
        .get(&intent.applicable_grant_id)
        .ok_or(Refusal::Unauthorized)?;
    if state.clock.state_time >= grant.grant.expires_at {
        return Err(Refusal::Expired);
    }
    if grant.committed >= grant.grant.budget {
        return Err(Refusal::BudgetExceeded);
    }
    Ok(())
}

/// Refuses a second positive step of one intent in one entry: each step is its own commit, at
/// which RED can win (D10).
pub(super) fn one_step_per_entry(
    state: &Authority,
    intent: &redlatch_types::IntentDigest,
) -> Result<(), Refusal> {
    let first = !state.stepped.contains(intent);
    first.then_some(()).ok_or(Refusal::TooEarly)
}

/// Refuses a record that is valid for longer than `max` or is over.
pub(super) fn fresh(state: &Authority, issued: u64, expires: u64, max: u64) -> Result<(), Refusal> {
    let now = state.clock.state_time;
    if expires <= now {
        return Err(Refusal::Expired);
    }
    // A signer can only know a state time that the journal has had.
    if issued > now || expires.saturating_sub(issued) > max.min(limits::INTENT_TTL_MS_MAX) {
        return Err(Refusal::TimeStale);
    }
    Ok(())
}
