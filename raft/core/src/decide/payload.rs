//! Whether an action is well formed, and lawful as the state stands now (DESIGN §9, SPEC E.9).
//!
//! Asked when the intent is frozen, and again at PREPARE, at COMMIT and, for what takes effect
//! inside the journal, at its activation: what was lawful once is not lawful for ever.

use redlatch_types::limits::{
    CREDENTIAL_ID_LEN_MAX, GRANTS_MAX, HUMAN_KEYS_MAX, SCOPES_MAX, SUBJECTS_MAX,
};
use redlatch_types::records::{
    ActionPayload, ActorKind, AutonomyGrantV1, ClientIdentityV1, ConstitutionV1, GrantPayload,
    HumanKeyV1, KeyPayload, LandPayload, ModePayload, ORGANISM_REALM, OutcomeKind,
    PromotionPayload, ResolvePayload, SubjectPayload, SwapPayload, Tier,
};
use redlatch_types::sign::check_key;
use redlatch_types::{Digest, HumanKeyId, PublicKey, Refusal};

use super::deciders::After;
use super::{roster, terms};
use crate::authority::{Authority, EffectStage, Governance, TransactionStage};
use crate::planted::Bug;
use crate::webauthn::CredentialKey;

/// Refuses `payload`, proposed by `proposer`, unless it is well formed and lawful now.
pub(super) fn lawful(
    state: &Authority,
    governance: &Governance,
    proposer: &ClientIdentityV1,
    payload: &ActionPayload,
) -> Result<(), Refusal> {
    let holds = match payload {
        ActionPayload::Land(land) => return landable(land),
        ActionPayload::ReleasePromote(swap)
        | ActionPayload::BlockRatify(swap)
        | ActionPayload::BlockArchive(swap)
        | ActionPayload::ExternalEffect(swap) => return swappable(swap),
        ActionPayload::ConstitutionAmend(amend) => {
            let next = &amend.constitution;
            terms::amendment_holds(governance, next)
                && (lasts(state, next) || Bug::EndedOnArrival.planted())
                && leaves_somebody(&After {
                    constitution: next,
                    ..After::unchanged(governance)
                })
        }
        ActionPayload::ModeActivate(mode) => return mode_may_follow(governance, mode),
        ActionPayload::GrantChange(change) => {
            return grant_may_change(state, governance, proposer, change);
        }
        ActionPayload::SubjectChange(change) => {
            return subject_may_change(governance, proposer, change);
        }
        ActionPayload::KeyChange(change) => return key_may_change(governance, proposer, change),
        ActionPayload::RosterChange(change) => roster::after(governance, change).is_some(),
        ActionPayload::VerifierSetChange(verifiers) => {
            roster::with_verifiers(governance, verifiers).is_some()
        }
        // Which grounds are live is the fence's to say; here only that some are named in order.
        ActionPayload::ResetFrozen(reset) => {
            !reset.grounds.is_empty() && reset.grounds.windows(2).all(|w| w[0] < w[1])
        }
        ActionPayload::ResolveEffect(resolve) => return resolvable(state, resolve),
    };
    holds.then_some(()).ok_or(Refusal::KernelFloor)
}

/// Whether the change leaves somebody who can propose and enough who can decide.
fn leaves_somebody(after: &After<'_>) -> bool {
    after.can_be_governed() || Bug::NobodyLeft.planted()
}

/// Whether a constitution would still be in force once it is: nothing but its successor could
/// end one that has ended.
fn lasts(state: &Authority, next: &ConstitutionV1) -> bool {
    let from = next.effective_at.max(state.clock.state_time);
    next.expires_at_optional.is_none_or(|end| end > from)
}

fn landable(land: &LandPayload) -> Result<(), Refusal> {
    let full_id = |id: &[u8]| id.len() == 20 || id.len() == 32;
    let landable = full_id(&land.new.0)
        && (land.old.0.is_empty() || land.old.0.len() == land.new.0.len())
        && land.old != land.new
        && land.new.0.iter().any(|b| *b != 0)
        && land.resource.repository.as_str() != ORGANISM_REALM
        && land.resource.reference.as_str().starts_with("refs/");
    landable.then_some(()).ok_or(Refusal::UnlandableCandidate)
}

fn swappable(swap: &SwapPayload) -> Result<(), Refusal> {
    let head = |id: &[u8]| id.len() <= 64;
    let swappable = head(&swap.old.0)
        && head(&swap.new.0)
        && !swap.new.0.is_empty()
        && swap.old != swap.new
        && swap.resource.realm.as_str() != ORGANISM_REALM
        && !swap.resource.path.as_str().is_empty();
    swappable.then_some(()).ok_or(Refusal::UnlandableCandidate)
}

/// M1-I18: a mode is put in force by an activation of its own, among those the constitution
/// allows, and on gate receipts.
fn mode_may_follow(governance: &Governance, mode: &ModePayload) -> Result<(), Refusal> {
    let allowed = governance
        .constitution
        .allowed_autonomy_modes
        .contains(&mode.mode)
        && mode.mode != governance.epoch.active_mode
        && (mode.gate_receipts_digest != Digest::ZERO || Bug::ModeWithoutGates.planted())
        && mode.rollback_plan_digest != Digest::ZERO;
    allowed.then_some(()).ok_or(Refusal::KernelFloor)
}

fn grant_may_change(
    state: &Authority,
    governance: &Governance,
    proposer: &ClientIdentityV1,
    change: &GrantPayload,
) -> Result<(), Refusal> {
    match change {
        GrantPayload::Promote(promotion) => promotable(state, governance, proposer, promotion),
        GrantPayload::Demote(id, tier) => {
            let held = governance.grants.get(id).ok_or(Refusal::WrongState)?;
            (*tier < held.grant.max_tier)
                .then_some(())
                .ok_or(Refusal::KernelFloor)
        }
        GrantPayload::Revoke(id) => {
            let held = governance.grants.contains_key(id);
            held.then_some(()).ok_or(Refusal::WrongState)
        }
    }
}

/// SPEC E.9: one tier at a time, for exactly the tuple that was proven, by somebody else, with
/// data and a way back (M1-I11, M1-I17, M1-L7).
fn promotable(
    state: &Authority,
    governance: &Governance,
    proposer: &ClientIdentityV1,
    promotion: &PromotionPayload,
) -> Result<(), Refusal> {
    let grant = &promotion.grant;
    let target = governance
        .enrolled(&grant.subject_id)
        .ok_or(Refusal::Unauthorized)?;
    let own = target.person() == proposer.person();
    if own && !Bug::PromotesItself.planted() {
        return Err(Refusal::SelfAuthorization);
    }
    let replaced = match &promotion.replaces_optional {
        Some(id) => Some(&governance.grants.get(id).ok_or(Refusal::WrongState)?.grant),
        None => None,
    };
    let one_step = match replaced {
        Some(old) => {
            (same_tuple(old, grant) || Bug::PromotionOfAnotherTuple.planted())
                && terms::one_higher(old.max_tier) == grant.max_tier
        }
        None => grant.max_tier <= Tier::A1,
    };
    let room = promotion.replaces_optional.is_some() || governance.grants.len() < GRANTS_MAX;
    let bounded = |len: usize| (1..=SCOPES_MAX).contains(&len);
    let sound = one_step
        && room
        && (promotion.dataset_digest != Digest::ZERO || Bug::PromotionWithoutData.planted())
        && promotion.rollback_digest != Digest::ZERO
        // The journal fills this in with the marker of the promotion itself.
        && grant.promotion_receipt_id == Digest::ZERO
        && grant.expires_at > state.clock.state_time
        && grant.issued_at <= state.clock.state_time
        && grant.budget > 0
        && bounded(grant.action_classes.len())
        && bounded(grant.risk_domains.len())
        && bounded(grant.resource_environment_scope.len());
    sound.then_some(()).ok_or(Refusal::KernelFloor)
}

/// Evidence for one subject, action, risk, resource and mode says nothing about another
/// (M1-L7). A promotion may tighten budget and life, never widen the budget.
fn same_tuple(old: &AutonomyGrantV1, new: &AutonomyGrantV1) -> bool {
    old.subject_id == new.subject_id
        && old.mode == new.mode
        && old.action_classes == new.action_classes
        && old.risk_domains == new.risk_domains
        && old.resource_environment_scope == new.resource_environment_scope
        && old.delegate_subject_ids == new.delegate_subject_ids
        && new.budget <= old.budget
}

fn subject_may_change(
    governance: &Governance,
    proposer: &ClientIdentityV1,
    change: &SubjectPayload,
) -> Result<(), Refusal> {
    match change {
        SubjectPayload::Enrol(subject) => {
            let new = !governance.subjects.contains_key(&subject.subject_id)
                && governance.subjects.len() < SUBJECTS_MAX
                && subject_is_sound(governance, subject);
            new.then_some(()).ok_or(Refusal::KernelFloor)
        }
        SubjectPayload::Rotate(subject) => {
            let known = governance
                .enrolled(&subject.subject_id)
                .ok_or(Refusal::WrongState)?;
            let governs = |it: &ClientIdentityV1| {
                it.scopes
                    .iter()
                    .any(|scope| scope.as_str() == ORGANISM_REALM)
            };
            let narrowed = After {
                without: Some(&subject.subject_id),
                ..After::unchanged(governance)
            };
            let kept = known.actor_kind == subject.actor_kind
                && known.person_optional == subject.person_optional
                && subject_is_sound(governance, subject)
                && (governs(subject) || !governs(known) || leaves_somebody(&narrowed));
            kept.then_some(()).ok_or(Refusal::KernelFloor)
        }
        SubjectPayload::Revoke(subject) => {
            governance.enrolled(subject).ok_or(Refusal::WrongState)?;
            if *subject == proposer.subject_id {
                return Err(Refusal::SelfAuthorization);
            }
            leaves_somebody(&After {
                without: Some(subject),
                ..After::unchanged(governance)
            })
            .then_some(())
            .ok_or(Refusal::KernelFloor)
        }
    }
}

/// Every key stands in one place only, and no party of the roster is a subject (FAULTS 43, 44).
fn subject_is_sound(governance: &Governance, subject: &ClientIdentityV1) -> bool {
    let name = subject.subject_id.as_str();
    subject.revoked_at_optional.is_none()
        && subject.scopes.len() <= SCOPES_MAX
        && !roster::names(&governance.roster).contains(name)
        && name != terms::OWNER
        && name != terms::ISSUER
        && key_is_new(governance, &subject.public_key)
}

fn key_is_new(governance: &Governance, key: &PublicKey) -> bool {
    let new = check_key(key).is_ok()
        && *key != governance.kernel.pinned_external_root_key
        && !roster::keys(&governance.roster).contains(key)
        && governance.subjects.values().all(|s| s.public_key != *key)
        && governance
            .quorum_key
            .as_ref()
            .is_none_or(|q| q.group_key != *key);
    new || Bug::KeyInTwoPlaces.planted()
}

fn key_may_change(
    governance: &Governance,
    proposer: &ClientIdentityV1,
    change: &KeyPayload,
) -> Result<(), Refusal> {
    match change {
        KeyPayload::Enrol(key) => {
            // Nobody makes themselves an approver (M1-I12).
            if key.subject_id == *proposer.person() {
                return Err(Refusal::SelfAuthorization);
            }
            let new = governance.human_keys.len() < HUMAN_KEYS_MAX && key_is_sound(governance, key);
            new.then_some(()).ok_or(Refusal::KernelFloor)
        }
        KeyPayload::Rotate(old, key) => {
            let live = live_key(governance, old)?;
            let kept = live.subject_id == key.subject_id
                && live.scopes == key.scopes
                && governance.human_keys.len() < HUMAN_KEYS_MAX
                && key_is_sound(governance, key);
            kept.then_some(()).ok_or(Refusal::KernelFloor)
        }
        KeyPayload::Revoke(old) => {
            let key = live_key(governance, old)?;
            leaves_somebody(&After {
                without_key: Some(key),
                ..After::unchanged(governance)
            })
            .then_some(())
            .ok_or(Refusal::KernelFloor)
        }
    }
}

fn live_key<'a>(governance: &'a Governance, id: &HumanKeyId) -> Result<&'a HumanKeyV1, Refusal> {
    governance
        .human_keys
        .get(id)
        .map(|held| &held.key)
        .filter(|key| key.revoked_at_optional.is_none())
        .ok_or(Refusal::WrongState)
}

/// A key that may be enrolled: of an enrolled person, well formed, kept well enough, and new.
pub(super) fn key_is_sound(governance: &Governance, key: &HumanKeyV1) -> bool {
    let person = governance
        .enrolled(&key.subject_id)
        .is_some_and(|s| s.actor_kind == ActorKind::Human);
    let new = governance.human_keys.values().all(|held| {
        held.key.credential_id != key.credential_id && held.key.public_key != key.public_key
    });
    person
        && new
        && key.revoked_at_optional.is_none()
        && key.rotated_at_optional.is_none()
        && key_is_well_formed(key)
        && governance
            .kernel
            .human_attestation_classes
            .contains(&key.attestation_class)
}

/// What can be said of a key without the state.
pub(super) fn key_is_well_formed(key: &HumanKeyV1) -> bool {
    CredentialKey::from_cose(&key.public_key.0).is_ok()
        && (1..=CREDENTIAL_ID_LEN_MAX).contains(&key.credential_id.0.len())
}

/// A person may say how an effect ended only where its executor could not, or does not.
fn resolvable(state: &Authority, resolve: &ResolvePayload) -> Result<(), Refusal> {
    let transaction = state
        .transactions
        .get(&resolve.transaction_id)
        .ok_or(Refusal::UnknownTransaction)?;
    let open = matches!(
        transaction.stage,
        TransactionStage::Committed(_, EffectStage::Claimed(..) | EffectStage::Unknown)
    );
    (open && resolve.outcome != OutcomeKind::OutcomeUnknown)
        .then_some(())
        .ok_or(Refusal::WrongState)
}
