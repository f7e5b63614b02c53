//! Genesis and the quorum's first key.

use std::collections::BTreeSet;

use redlatch_types::event::{Accepted, Event};
use redlatch_types::limits::{NODES_MAX, VERIFIER_SEATS};
use redlatch_types::records::{
    ActorKind, GenesisV1, KeyConfirmationV1, Mode, OrganismKind, RosterV1, grants_digest,
};
use redlatch_types::sign::check_key;
use redlatch_types::{
    AutonomyEpoch, Canonical, ConstitutionEpoch, Digest, PublicKey, Refusal, Signed,
};

use super::deciders::After;
use super::fence::{Target, fence};
use super::payload::key_is_well_formed;
use super::{Decision, governance, in_scope, roster, terms};
use crate::authority::Authority;
use crate::evolve::evolve;
use crate::planted::Bug;
use crate::registry::FEATURE_LEVEL;

/// The first command of a journal, accepted once (DESIGN §9).
pub(super) fn bootstrap(state: &Authority, genesis: &Signed<GenesisV1>) -> Decision {
    if state.governance.is_some() {
        return Err(Refusal::AlreadyBootstrapped);
    }
    let record = genesis.record();
    let signed_by_its_root = genesis.key() == &record.kernel.pinned_external_root_key
        && genesis.scope() == &record.scope();
    if !signed_by_its_root {
        return Err(Refusal::Unauthorized);
    }
    check(record).ok_or(Refusal::BadGenesis)?;
    let event = Event::Bootstrapped(Box::new(record.clone()), genesis.envelope().clone());
    let mut born = state.clone();
    evolve(&mut born, &event);
    let can_be_governed = After::unchanged(governance(&born)?).can_be_governed();
    if !can_be_governed && !Bug::NobodyLeft.planted() {
        return Err(Refusal::BadGenesis);
    }
    Ok((vec![event], Accepted::Bootstrapped))
}

/// `None` if the genesis contradicts itself or the kernel's floors. How many subjects, grants and
/// keys it has is not asked: more than the state has room for do not fit into a command.
fn check(genesis: &GenesisV1) -> Option<()> {
    let all = [
        terms::floors_hold(&genesis.kernel, genesis.kind),
        terms::pins_match(&genesis.kernel, &genesis.roster),
        roster_is_sound(&genesis.roster),
        terms::constitution_holds(&genesis.constitution, &genesis.kernel, &genesis.roster),
        human_keys_are_sound(genesis),
        (1..=FEATURE_LEVEL).contains(&genesis.feature_level),
        keys_are_distinct(genesis),
        subjects_are_sound(genesis),
        constitution_is_sound(genesis),
        activations_chain(genesis),
    ];
    all.into_iter().all(|holds| holds).then_some(())
}

fn roster_is_sound(roster: &RosterV1) -> bool {
    let voters = roster.voters().count();
    let names: BTreeSet<_> = roster.nodes.iter().map(|n| &n.name).collect();
    let verifier_names: BTreeSet<_> = roster.verifiers.iter().map(|v| &v.verifier_id).collect();
    (voters == 3 || voters == 5)
        && roster.nodes.len() <= NODES_MAX
        && roster::nodes_are_numbered(&roster.nodes)
        && names.len() == roster.nodes.len()
        && roster.roster_epoch.0 == 1
        && roster::verifiers_are_numbered(&roster.verifiers)
        && verifier_names.len() == VERIFIER_SEATS
}

/// Every key is a good point and stands in one place only, so that no party can be counted
/// twice or sign in two roles (FAULTS 43, 44).
fn keys_are_distinct(genesis: &GenesisV1) -> bool {
    let mut keys: Vec<PublicKey> = roster::keys_with_repeats(&genesis.roster);
    keys.push(genesis.kernel.pinned_external_root_key);
    keys.extend(genesis.subjects.iter().map(|s| s.public_key));
    let distinct: BTreeSet<_> = keys.iter().collect();
    distinct.len() == keys.len() && keys.iter().all(|k| check_key(k).is_ok())
}

fn subjects_are_sound(genesis: &GenesisV1) -> bool {
    let ascend = genesis
        .subjects
        .windows(2)
        .all(|w| w[0].subject_id < w[1].subject_id);
    let parties = roster::names(&genesis.roster);
    let no_party_is_a_subject = genesis.subjects.iter().all(|s| {
        let name = s.subject_id.as_str();
        !parties.contains(name) && name != terms::OWNER && name != terms::ISSUER
    });
    let grants_name_subjects = genesis.grants.iter().all(|g| {
        genesis
            .subjects
            .iter()
            .any(|s| s.subject_id == g.subject_id)
    });
    // A grant is given by this genesis: under its constitution, at the epoch it starts in.
    let started = genesis
        .activations
        .last()
        .map(|a| a.activated_autonomy_epoch);
    let grants_begin_here = genesis.grants.iter().all(|g| {
        g.constitution_epoch == genesis.constitution.constitution_epoch
            && Some(g.autonomy_epoch) == started
            && g.issued_at <= genesis.created_at
    });
    let ids: BTreeSet<_> = genesis.grants.iter().map(|g| g.id()).collect();
    ascend
        && no_party_is_a_subject
        && ids.len() == genesis.grants.len()
        && grants_name_subjects
        && grants_begin_here
}

/// Keys of enrolled persons, each well formed, kept well enough, once, and live.
fn human_keys_are_sound(genesis: &GenesisV1) -> bool {
    let ascend = genesis.human_keys.windows(2).all(|w| w[0].id() < w[1].id());
    let credentials: BTreeSet<_> = genesis
        .human_keys
        .iter()
        .map(|k| &k.credential_id)
        .collect();
    // One authenticator must not stand for two persons.
    let keys: BTreeSet<_> = genesis.human_keys.iter().map(|k| &k.public_key).collect();
    let each_sound = genesis.human_keys.iter().all(|key| {
        let person = genesis
            .subjects
            .iter()
            .any(|s| s.subject_id == key.subject_id && s.actor_kind == ActorKind::Human);
        person
            && key.revoked_at_optional.is_none()
            && key.rotated_at_optional.is_none()
            && key_is_well_formed(key)
            && genesis
                .kernel
                .human_attestation_classes
                .contains(&key.attestation_class)
    });
    ascend
        && credentials.len() == genesis.human_keys.len()
        && keys.len() == genesis.human_keys.len()
        && each_sound
}

fn constitution_is_sound(genesis: &GenesisV1) -> bool {
    let constitution = &genesis.constitution;
    constitution.constitution_epoch.0 == 1
        && constitution.previous_constitution_digest == Digest::ZERO
        && constitution.old_runtime_approval_digest == Digest::ZERO
        && constitution.effective_at <= genesis.created_at
}

/// Activation 0 is HUMAN_GATED at epoch 1. Only a development genesis may carry one more, and
/// grants (DESIGN §9, §13.5).
fn activations_chain(genesis: &GenesisV1) -> bool {
    let expected = match genesis.kind {
        OrganismKind::Production => 1,
        OrganismKind::Development => 2,
    };
    let constitution = &genesis.constitution;
    let grants_allowed = genesis.kind == OrganismKind::Development || genesis.grants.is_empty();
    let mut previous = Digest::ZERO;
    let mut epoch = AutonomyEpoch(0);
    let mut constitution_before = (ConstitutionEpoch(0), Digest::ZERO);
    for receipt in &genesis.activations {
        let follows = receipt.previous_mode_epoch_digest == previous
            && receipt.previous_autonomy_epoch == epoch
            && receipt.activated_autonomy_epoch == epoch.next()
            && receipt.target_constitution_digest == genesis.constitution.digest()
            && receipt.safety_kernel_digest == genesis.kernel.digest()
            && receipt.quorum_policy_digest == constitution.quorum_policy_digest()
            && (
                receipt.previous_constitution_epoch,
                receipt.previous_constitution_digest,
            ) == constitution_before
            && receipt.issued_at <= receipt.activates_at
            && receipt.activates_at <= genesis.created_at
            && genesis
                .constitution
                .allowed_autonomy_modes
                .contains(&receipt.activated_mode);
        if !follows {
            return false;
        }
        previous =
            Digest::of(&(receipt.activated_mode, receipt.activated_autonomy_epoch).to_canonical());
        epoch = receipt.activated_autonomy_epoch;
        constitution_before = (constitution.constitution_epoch, constitution.digest());
    }
    let first_is_human = genesis
        .activations
        .first()
        .is_some_and(|r| r.activated_mode == Mode::HumanGated);
    let last_names_grants = genesis
        .activations
        .last()
        .is_some_and(|r| r.grants_digest == grants_digest(genesis.grants.iter()));
    grants_allowed && first_is_human && last_names_grants && genesis.activations.len() <= expected
}

/// The quorum's key, against the roster in force: four confirmations of one transcript (D13,
/// FAULTS 38). A key in force is replaced only after a change of the verifiers has voided it.
pub(super) fn activate_quorum_key(
    state: &Authority,
    confirmations: &[Signed<KeyConfirmationV1>],
) -> Decision {
    let governance = governance(state)?;
    let first = confirmations.first().ok_or(Refusal::InsufficientQuorum)?;
    let result = first.record();
    if let Some(active) = &governance.quorum_key {
        let repeat = active.group_key == result.group_key
            && active.epoch == result.quorum_key_epoch
            && active.public_key_package_digest == result.public_key_package_digest;
        return if repeat {
            Ok((Vec::new(), Accepted::QuorumKeyActivated(active.epoch)))
        } else {
            Err(Refusal::NotSupported)
        };
    }
    fence(state, Target::Organism)?;
    if result.quorum_key_epoch != governance.last_key_epoch.next()
        || result.roster_epoch != governance.roster.roster_epoch
    {
        return Err(Refusal::StaleRoster);
    }
    check_key(&result.group_key).map_err(|_| Refusal::BadSignature)?;
    let mut confirmed = BTreeSet::new();
    for confirmation in confirmations {
        in_scope(governance, confirmation.scope())?;
        let verifier = governance
            .roster
            .verifier_by_vote_key(confirmation.key())
            .ok_or(Refusal::Unauthorized)?;
        let record = confirmation.record();
        let same = record.verifier_id == verifier.verifier_id
            && record.quorum_key_epoch == result.quorum_key_epoch
            && record.roster_epoch == result.roster_epoch
            && record.transcript_digest == result.transcript_digest
            && record.group_key == result.group_key
            && record.public_key_package_digest == result.public_key_package_digest;
        if !same || !confirmed.insert(verifier.verifier_id.clone()) {
            return Err(Refusal::InsufficientQuorum);
        }
    }
    if confirmed.len() != governance.roster.verifiers.len() {
        return Err(Refusal::InsufficientQuorum);
    }
    let event = Event::QuorumKeyActivated(
        result.quorum_key_epoch,
        result.group_key,
        result.public_key_package_digest,
        confirmations.iter().map(|c| c.envelope().clone()).collect(),
    );
    Ok((
        vec![event],
        Accepted::QuorumKeyActivated(result.quorum_key_epoch),
    ))
}
