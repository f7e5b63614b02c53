//! The check of every effect that an action has (SPEC H.1): all of them must pass, at the
//! freeze and again at every step that follows. Satisfying one branch only is fail-closed.

use redlatch_types::Refusal;
use redlatch_types::records::{ActorKind, Effect, SovereignActionIntentV1};

use super::freeze::{BOUNDARY_VERSION, CONTRACT_VERSION};
use crate::authority::{Authority, Governance};
use crate::planted::Bug;

/// Refuses `intent` unless the check of each of its effects passes now.
pub(super) fn check(
    state: &Authority,
    governance: &Governance,
    intent: &SovereignActionIntentV1,
) -> Result<(), Refusal> {
    // No effects is no complete set of effects (M1-I3).
    if intent.effects.is_empty() {
        return Err(Refusal::UnknownAction);
    }
    intent
        .effects
        .iter()
        .try_for_each(|effect| check_one(state, governance, intent, *effect))
}

fn check_one(
    state: &Authority,
    governance: &Governance,
    intent: &SovereignActionIntentV1,
    effect: Effect,
) -> Result<(), Refusal> {
    match effect {
        Effect::Read => scope_of_caller(governance, intent),
        Effect::RuntimeStoreWrite => expected_store(state, intent),
        Effect::SourceFilesystemWrite => target_digest(state, intent),
        Effect::CoordinationRecord => scope_of_caller(governance, intent),
        // A decision, a journal entry, a capability and a transaction: the rest of `decide`.
        // What can be said here is that the action has somebody to decide it.
        Effect::SovereignMutation => {
            let decided = governance
                .constitution
                .allowed_autonomy_modes
                .contains(&intent.active_mode);
            decided.then_some(()).ok_or(Refusal::WrongVariant)
        }
        Effect::ProcessSpawn | Effect::NetworkExpose => pinned_executor(governance, intent),
        // Graph and mission stores come with their own releases; until then nothing writes them.
        Effect::GraphMutation | Effect::MissionStateWrite => Err(Refusal::UnknownAction),
    }
}

/// Ownership: an enrolled caller acts in its own realms only. Empty means none (M1-I8).
fn scope_of_caller(
    governance: &Governance,
    intent: &SovereignActionIntentV1,
) -> Result<(), Refusal> {
    let caller = governance
        .enrolled(&intent.caller_subject_id)
        .ok_or(Refusal::Unauthorized)?;
    let resource = intent.payload.resource();
    let own = caller
        .scopes
        .iter()
        .any(|scope| scope.as_str() == resource.realm());
    (own || Bug::RealmUnchecked.planted())
        .then_some(())
        .ok_or(Refusal::Unauthorized)
}

/// OCC against the resource as it is now (M1-I27, SPEC F.2, in its order).
fn expected_store(state: &Authority, intent: &SovereignActionIntentV1) -> Result<(), Refusal> {
    if intent.expected_boundary_version != BOUNDARY_VERSION
        || intent.expected_contract_version != CONTRACT_VERSION
    {
        return Err(Refusal::StaleScope);
    }
    let resource = state.resources.get(&intent.payload.resource().id());
    let version_fits = resource.map_or(0, |r| r.store_version) == intent.expected_store_version;
    let head = resource.and_then(|r| r.head.as_ref());
    let head_fits = match (head, intent.payload.swap()) {
        (Some(head), Some((old, _))) => head == old,
        _ => true,
    };
    ((version_fits && head_fits) || Bug::StaleHeadAccepted.planted())
        .then_some(())
        .ok_or(Refusal::StaleHead)
}

/// Source is written only as exactly the frozen candidate, onto exactly the expected head.
fn target_digest(state: &Authority, intent: &SovereignActionIntentV1) -> Result<(), Refusal> {
    if intent.candidate_digest_optional != Some(intent.payload.candidate_digest()) {
        return Err(Refusal::CandidateMismatch);
    }
    expected_store(state, intent)
}

/// Only an enrolled effector of the realm starts processes or opens a surface there.
fn pinned_executor(
    governance: &Governance,
    intent: &SovereignActionIntentV1,
) -> Result<(), Refusal> {
    let name = intent.executor_subject_id_optional.as_ref();
    let executor = name
        .and_then(|name| governance.enrolled(name))
        .ok_or(Refusal::Unauthorized)?;
    let resource = intent.payload.resource();
    let pinned = executor.actor_kind == ActorKind::Gate
        && executor
            .scopes
            .iter()
            .any(|scope| scope.as_str() == resource.realm());
    pinned.then_some(()).ok_or(Refusal::Unauthorized)
}
