//! Authorize: GREEN, exactly one decision, one capability, in one entry (DESIGN §5.4, §7).
//!
//! ```text
//!   fence ▸ one step ▸ still authorised ▸ variant ▸ GREEN ─┬─▶ quorum  votes, sheet, group signature
//!                                                          ├─▶ human   approvals of live challenges
//!                                                          └─▶ policy  clauses, gate receipts
//!                                                                └──▶ AuthorityDecision, capability
//! ```
//!
//! What is the same for every variant stands here, once; a variant only says what its own
//! decision rests on.

mod human;
mod policy;
mod quorum;

pub use human::check_approval;
pub(super) use human::open_challenge;

use redlatch_types::event::{Accepted, Authorized, Basis, Event};
use redlatch_types::limits::{CAPABILITY_TTL_MS, VERDICT_TTL_MS_MAX};
use redlatch_types::records::{
    AuthorityDecisionV1, AuthorityVariant, AutonomyCapabilityV1, CommonBindingSet,
    RatificationLabel, SentinelVerdictV1, SovereignActionIntentV1, Verdict,
};
use redlatch_types::{Canonical, Digest, IntentDigest, Refusal, Signed};

use super::fence::{Target, fence, fresh, one_step_per_entry, still_authorised};
use super::{Decision, governance, signed_by};
use crate::admit::{Authorization, HumanAuthorization, PolicyAuthorization};
use crate::authority::{Authority, Governance, Intent, IntentStage};
use crate::planted::Bug;
use crate::registry::mode_allows;

/// What a variant's own decision comes to.
struct Decided {
    /// Its digest.
    decision_digest: Digest,
    /// What it rests on.
    basis: Basis,
}

/// Decides an intent by its quorum and mints its capability.
pub(super) fn by_quorum(state: &Authority, given: &Authorization) -> Decision {
    let governance = governance(state)?;
    let (digest, green) = (given.intent_digest, &given.green);
    let live = live(state, &digest)?;
    if let Some(repeat) = repeated(live, |permit| permit == given.decision.digest()) {
        return repeat;
    }
    check_common(
        state,
        governance,
        live,
        AuthorityVariant::AgentQuorum,
        digest,
        green,
    )?;
    let decided = quorum::decide(governance, live, given)?;
    Ok(mint(state, &live.intent, digest, green, decided))
}

/// Decides an intent by persons and mints its capability.
pub(super) fn by_humans(state: &Authority, given: &HumanAuthorization) -> Decision {
    let governance = governance(state)?;
    let (digest, green) = (given.intent_digest, &given.green);
    let live = live(state, &digest)?;
    // The challenges of the first time are spent, so a repeat is known by its GREEN.
    if let Some(repeat) = repeated_by_verdict(live, green) {
        return repeat;
    }
    check_common(
        state,
        governance,
        live,
        AuthorityVariant::Human,
        digest,
        green,
    )?;
    let decided = human::decide(state, governance, live, given)?;
    Ok(mint(state, &live.intent, digest, green, decided))
}

/// Decides an intent by the constitution's clauses and mints its capability.
pub(super) fn by_policy(state: &Authority, given: &PolicyAuthorization) -> Decision {
    let governance = governance(state)?;
    let (digest, green) = (given.intent_digest, &given.green);
    let live = live(state, &digest)?;
    if let Some(repeat) = repeated_by_verdict(live, green) {
        return repeat;
    }
    check_common(
        state,
        governance,
        live,
        AuthorityVariant::Policy,
        digest,
        green,
    )?;
    let decided = policy::decide(governance, live, given)?;
    Ok(mint(state, &live.intent, digest, green, decided))
}

fn live<'a>(state: &'a Authority, digest: &IntentDigest) -> Result<&'a Intent, Refusal> {
    state.intents.get(digest).ok_or(Refusal::UnknownIntent)
}

/// Driver steps are compare-and-set: a repeat returns the first outcome.
fn repeated(live: &Intent, same: impl Fn(Digest) -> bool) -> Option<Decision> {
    match &live.stage {
        IntentStage::Frozen => None,
        IntentStage::Authorized(permit) if same(permit.decision.decision_digest) => Some(Ok((
            Vec::new(),
            Accepted::Authorized(permit.capability.id()),
        ))),
        // M1-I33: one intent has at most one positive decision.
        IntentStage::Authorized(_) if Bug::DecidedTwice.planted() => None,
        IntentStage::Authorized(_) | IntentStage::InTransaction(_) => {
            Some(Err(Refusal::AlreadySpent))
        }
    }
}

fn repeated_by_verdict(live: &Intent, green: &Signed<SentinelVerdictV1>) -> Option<Decision> {
    let verdict = match &live.stage {
        IntentStage::Authorized(permit) => permit.decision.sentinel_verdict_digest_optional,
        _ => None,
    };
    repeated(live, |_| verdict == Some(green.digest()))
}

/// What every variant has to pass, in the order of SPEC F.6.
fn check_common(
    state: &Authority,
    governance: &Governance,
    live: &Intent,
    variant: AuthorityVariant,
    digest: IntentDigest,
    green: &Signed<SentinelVerdictV1>,
) -> Result<(), Refusal> {
    fence(state, Target::of(&live.intent))?;
    one_step_per_entry(state, &digest)?;
    still_authorised(state, live)?;
    // M1-I25: the variant is the one frozen in the intent, and the mode in force allows it.
    let frozen = live.intent.required_authority_variant == variant;
    let allowed = (frozen || Bug::VariantUnchecked.planted())
        && mode_allows(governance.epoch.active_mode, live.intent.action, variant);
    if !allowed {
        return Err(Refusal::WrongVariant);
    }
    if Bug::GreenUnchecked.planted() {
        return Ok(());
    }
    check_green(state, governance, live, digest, green)
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
        && (verdict.issued_at >= live.frozen_at || Bug::VerdictBeforeTheFreeze.planted());
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

fn mint(
    state: &Authority,
    intent: &SovereignActionIntentV1,
    digest: IntentDigest,
    green: &Signed<SentinelVerdictV1>,
    decided: Decided,
) -> (Vec<Event>, Accepted) {
    let binding = CommonBindingSet::of(intent, digest);
    let variant = intent.required_authority_variant;
    let now = state.clock.state_time;
    let verdict_expires_at = green.record().expires_at;
    let expires_at = (now + CAPABILITY_TTL_MS).min(intent.expires_at);
    let held = state.governance.as_ref().zip(intent.applicable_grant_id);
    let budget = held
        .and_then(|(governance, id)| governance.grants.get(&id))
        .map(|held| held.grant.budget);
    let decision = AuthorityDecisionV1 {
        binding: binding.clone(),
        authority_kind: variant,
        decision_digest: decided.decision_digest,
        grant_id_optional: intent.applicable_grant_id,
        effective_tier_optional: Some(intent.tier),
        promotion_subject_optional: intent.promotion_target_subject_id_optional.clone(),
        sentinel_verdict_digest_optional: Some(green.digest()),
        metric_evidence_rollout_rollback_digest: intent.metric_evidence_rollout_rollback_digest,
        label: match Bug::QuorumCalledHuman.planted() {
            true => RatificationLabel::HumanRatified,
            false => variant.label(),
        },
        expires_at,
    };
    let capability = capability_of(&decision, intent, budget, now);
    let capability_id = capability.id();
    let event = Event::Authorized(Box::new(Authorized {
        decision,
        capability,
        capability_id,
        verdict_expires_at,
        green: green.envelope().clone(),
        basis: decided.basis,
    }));
    (vec![event], Accepted::Authorized(capability_id))
}

/// The one-shot capability of a final decision (M1-I13).
fn capability_of(
    decision: &AuthorityDecisionV1,
    intent: &SovereignActionIntentV1,
    budget: Option<u64>,
    now: u64,
) -> AutonomyCapabilityV1 {
    let decision_digest = decision.digest();
    AutonomyCapabilityV1 {
        binding: decision.binding.clone(),
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
        sentinel_verdict_digest_optional: decision.sentinel_verdict_digest_optional,
        nonce: AutonomyCapabilityV1::nonce_of(&decision_digest),
        issued_at: now,
        expires_at: decision.expires_at,
        capability_kind: decision.authority_kind,
        budget,
        idempotency_key: intent.idempotency_key,
    }
}
