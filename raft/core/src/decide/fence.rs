//! The fence: the one place where a latch, a freeze or a moved epoch stops what is positive.
//!
//! M1-L4, M1-I14, M1-I34: authority linearizes here, at the command's own position, and never
//! at the time it was proposed.

use redlatch_types::mandate::covers;
use redlatch_types::records::{
    ActionPayload, AuthorityVariant, RedScope, ResetPayload, SovereignActionIntentV1,
};
use redlatch_types::{GroundNumber, Refusal};

use super::governance;
use crate::authority::{Authority, Intent};
use crate::planted::Bug;

/// What a positive command is about to act on.
pub(super) enum Target<'a> {
    /// Day-to-day work: one intent.
    Intent(&'a SovereignActionIntentV1),
    /// The organism itself, by this intent: any latch or freeze, however narrow, stops it.
    Governance(&'a SovereignActionIntentV1),
    /// The organism itself, without an intent.
    Organism,
    /// What is frozen: the one act that passes a freeze, if it names every ground (DESIGN §6).
    Reset(&'a SovereignActionIntentV1, &'a ResetPayload),
}

impl<'a> Target<'a> {
    /// What `intent` acts on.
    pub(super) fn of(intent: &'a SovereignActionIntentV1) -> Target<'a> {
        match &intent.payload {
            ActionPayload::ResetFrozen(reset) => Target::Reset(intent, reset),
            _ if intent.action.is_operational() => Target::Intent(intent),
            _ => Target::Governance(intent),
        }
    }

    fn intent(&self) -> Option<&'a SovereignActionIntentV1> {
        match self {
            Target::Intent(intent) | Target::Governance(intent) | Target::Reset(intent, _) => {
                Some(intent)
            }
            Target::Organism => None,
        }
    }

    fn stopped_by(&self, scopes: &[RedScope]) -> bool {
        match self {
            Target::Intent(intent) => scopes.iter().any(|s| {
                let unseen = matches!(s, RedScope::Subject(_)) && Bug::SubjectUnfenced.planted();
                covers(s, intent) && !unseen
            }),
            Target::Governance(_) | Target::Organism | Target::Reset(..) => true,
        }
    }
}

/// Refuses anything positive on `target` while a latch covers it, a freeze covers it, issuance
/// is frozen, or its autonomy epoch is not the one in force.
pub(super) fn fence(state: &Authority, target: Target<'_>) -> Result<(), Refusal> {
    let governance = governance(state)?;
    let latched = state
        .pending_latches()
        .any(|l| target.stopped_by(&l.receipt.mandate.scopes));
    if latched && !Bug::LatchUnseen.planted() {
        return Err(Refusal::RedLatched);
    }
    let frozen = match &target {
        Target::Reset(_, reset) => !names_every_ground(state, reset),
        _ => {
            governance.epoch.issuance_frozen
                || state.grounds.values().any(|g| target.stopped_by(&g.scopes))
        }
    };
    if frozen && !Bug::FreezeUnseen.planted() {
        return Err(Refusal::Frozen);
    }
    match target.intent() {
        Some(intent)
            if intent.autonomy_epoch != governance.epoch.autonomy_epoch
                && !Bug::EpochUnfenced.planted() =>
        {
            Err(Refusal::EpochFenced)
        }
        _ => Ok(()),
    }
}

/// Whether the reset names live grounds only, and with them every other ground that freezes
/// anything of the same scope.
fn names_every_ground(state: &Authority, reset: &ResetPayload) -> bool {
    let named = |number: &GroundNumber| reset.grounds.contains(number);
    let scopes: Vec<&RedScope> = state
        .grounds
        .iter()
        .filter(|(number, _)| named(number))
        .flat_map(|(_, ground)| &ground.scopes)
        .collect();
    let all_live = reset.grounds.iter().all(|n| state.grounds.contains_key(n));
    let shares = |scope: &RedScope| {
        *scope == RedScope::Everything
            || scopes.contains(&&RedScope::Everything)
            || scopes.contains(&scope)
    };
    let none_left = state
        .grounds
        .iter()
        .all(|(number, ground)| named(number) || !ground.scopes.iter().any(shares));
    // That it names any at all is `lawful`'s to say, at the freeze and at every step.
    all_live && (none_left || Bug::ResetForgetsGrounds.planted())
}

/// What persons may do though the constitution has ended: open what is frozen, and put another
/// in its place. Nothing else would ever end that state.
fn leads_out(intent: &SovereignActionIntentV1) -> bool {
    intent.required_authority_variant == AuthorityVariant::Human
        && matches!(
            intent.payload,
            ActionPayload::ConstitutionAmend(_) | ActionPayload::ResetFrozen(_)
        )
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
    if !unchanged && !Bug::GovernanceUnchecked.planted() {
        return Err(Refusal::EpochFenced);
    }
    let constitution_ended = governance
        .constitution
        .expires_at_optional
        .is_some_and(|end| now >= end);
    let ended = constitution_ended && !leads_out(i);
    if ended && !Bug::EndedConstitutionServes.planted() {
        return Err(Refusal::Expired);
    }
    let parties = [
        Some(&i.caller_subject_id),
        i.executor_subject_id_optional.as_ref(),
    ];
    if parties
        .into_iter()
        .flatten()
        .any(|subject| governance.enrolled(subject).is_none())
    {
        return Err(Refusal::Unauthorized);
    }
    grant_lives(state, i)
}

/// Refuses an intent whose grant is gone, expired, or used up.
fn grant_lives(state: &Authority, intent: &SovereignActionIntentV1) -> Result<(), Refusal> {
    let governance = governance(state)?;
    let Some(id) = &intent.applicable_grant_id else {
        // Frozen without a grant: a human decides, and nobody else.
        let human = intent.required_authority_variant == AuthorityVariant::Human;
        return human.then_some(()).ok_or(Refusal::Unauthorized);
    };
    let grant = governance.grants.get(id).ok_or(Refusal::Unauthorized)?;
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
    let first = !state.stepped.contains(intent) || Bug::StepsShareAnEntry.planted();
    first.then_some(()).ok_or(Refusal::TooEarly)
}

/// Refuses a record that is valid for longer than `max` or is over.
pub(super) fn fresh(state: &Authority, issued: u64, expires: u64, max: u64) -> Result<(), Refusal> {
    let now = state.clock.state_time;
    if expires <= now {
        return Err(Refusal::Expired);
    }
    // A signer can only know a state time that the journal has had.
    if issued > now || expires.saturating_sub(issued) > max {
        return Err(Refusal::TimeStale);
    }
    Ok(())
}
