//! Activate: what changes the organism itself takes effect by its own command (DESIGN §5.8).
//!
//! ```text
//!   COMMIT ──▶ pending ──▶ Activate, judged like a COMMIT at its own position
//!                             └─▶ Activated(receipt) · what changed · EpochPublished(next epoch)
//! ```
//!
//! Nothing becomes active as a side effect of time. A latch or freeze in between stops the
//! activation, and the epoch that the stop publishes voids it for ever. Every activation is a
//! later autonomy epoch, so whatever was issued before it is void (M1-I14, M1-L12).

use redlatch_types::event::{Accepted, Event};
use redlatch_types::limits::KEY_ROTATION_WAIT_MS;
use redlatch_types::records::{
    ActionPayload, AuthorityVariant, AutonomyActivationReceiptV1, AutonomyEpochV1, AutonomyGrantV1,
    ClientIdentityV1, CommitMarkerV1, GrantPayload, HumanKeyV1, KeyPayload, RedScope, ResetPayload,
    SafetyState, SovereignActionIntentV1, SubjectPayload, Tier, grants_digest,
};
use redlatch_types::{Canonical, Digest, GrantId, KeyEpoch, Refusal, TransactionId};

use super::fence::{Target, fence, one_step_per_entry, still_authorised};
use super::payload::lawful;
use super::{Decision, effects, governance, roster};
use crate::authority::{
    Authority, EffectStage, Governance, Intent, IntentStage, Transaction, TransactionStage,
};
use crate::evolve::evolve;
use crate::planted::Bug;

/// Puts a committed change in force.
pub(super) fn activate(state: &Authority, id: &TransactionId) -> Decision {
    let governance = governance(state)?;
    let transaction = state
        .transactions
        .get(id)
        .ok_or(Refusal::UnknownTransaction)?;
    let digest = transaction.transaction.binding.intent_digest;
    let live = state.intents.get(&digest).ok_or(Refusal::UnknownIntent)?;
    let TransactionStage::Committed(marker, effect) = &transaction.stage else {
        return Err(Refusal::WrongState);
    };
    if live.intent.action.is_external() {
        return Err(Refusal::WrongState);
    }
    let accepted = Accepted::Activated(*id, live.intent.autonomy_epoch.next());
    match effect {
        EffectStage::Unclaimed => {}
        EffectStage::Done(_) => return Ok((Vec::new(), accepted)),
        _ => return Err(Refusal::WrongState),
    }
    if !Bug::ActivationUnfenced.planted() {
        fence(state, Target::of(&live.intent))?;
    }
    one_step_per_entry(state, &digest)?;
    if state.clock.state_time < live.intent.payload.activates_at()
        && !Bug::ActivatedBeforeItsTime.planted()
    {
        return Err(Refusal::NotDue);
    }
    if !ballots_may_end(state, governance, &live.intent, marker) {
        return Err(Refusal::NotDue);
    }
    if state.clock.state_time >= marker.effect_deadline && !Bug::ActivatedAfterItsTime.planted() {
        return Err(Refusal::EffectLapsed);
    }
    still_authorised(state, live)?;
    effects::check(state, governance, &live.intent)?;
    let proposer = governance
        .enrolled(&live.intent.proposer_subject_id)
        .ok_or(Refusal::Unauthorized)?;
    lawful(state, governance, proposer, &live.intent.payload)?;
    let events = in_force(state, governance, live, transaction, marker)?;
    Ok((events, accepted))
}

/// Whether another key of the same four verifiers may end the ballots that are open (D12): once there is none, or ten
/// minutes after its marker. A change of who votes waits for nobody.
fn ballots_may_end(
    state: &Authority,
    governance: &Governance,
    intent: &SovereignActionIntentV1,
    marker: &CommitMarkerV1,
) -> bool {
    let planned = matches!(&intent.payload, ActionPayload::VerifierSetChange(verifiers)
        if *verifiers == governance.roster.verifiers);
    if !planned || governance.quorum_key.is_none() || Bug::RotationEndsBallots.planted() {
        return true;
    }
    let now = state.clock.state_time;
    let open = |it: &Intent| {
        it.stage == IntentStage::Frozen
            && it.intent.required_authority_variant == AuthorityVariant::AgentQuorum
            && it.intent.autonomy_epoch == governance.epoch.autonomy_epoch
            && now < it.intent.expires_at
    };
    !state.intents.values().any(open)
        || now >= marker.committed_at.saturating_add(KEY_ROTATION_WAIT_MS)
}

/// The events of an activation: the receipt, what changed, the next epoch.
fn in_force(
    state: &Authority,
    governance: &Governance,
    live: &Intent,
    transaction: &Transaction,
    marker: &CommitMarkerV1,
) -> Result<Vec<Event>, Refusal> {
    let changes = changes(state, governance, live, transaction, marker)?;
    let mut after = state.clone();
    for change in &changes {
        evolve(&mut after, change);
    }
    let next = after.governance.as_ref().ok_or(Refusal::NoGenesis)?;
    let mode = match &live.intent.payload {
        ActionPayload::ModeActivate(mode) => mode.mode,
        ActionPayload::ConstitutionAmend(amend) if Bug::ConstitutionOwnsTheMode.planted() => {
            amend.constitution.allowed_autonomy_modes[0]
        }
        _ => governance.epoch.active_mode,
    };
    let grants = grants_digest(next.grants.values().map(|held| &held.grant));
    let receipt = receipt(state, governance, next, live, transaction, (mode, grants));
    let epoch = AutonomyEpochV1 {
        autonomy_epoch: receipt.activated_autonomy_epoch,
        active_mode: mode,
        activation_receipt_id: receipt.id(),
        grants_digest: grants,
        issuance_frozen: governance.epoch.issuance_frozen,
        constitution_epoch: next.constitution.constitution_epoch,
        constitution_digest: next.constitution.digest(),
        effective_at: state.clock.state_time,
        safety_state: SafetyState::Normal,
        quorum_key_epoch: next.quorum_key.as_ref().map_or(KeyEpoch(0), |k| k.epoch),
    };
    let activated = Event::Activated(marker.transaction_id, marker.marker, Box::new(receipt));
    let mut events = vec![activated];
    events.extend(changes);
    events.push(Event::EpochPublished(Box::new(epoch)));
    Ok(events)
}

fn receipt(
    state: &Authority,
    before: &Governance,
    after: &Governance,
    live: &Intent,
    transaction: &Transaction,
    (mode, grants): (redlatch_types::records::Mode, Digest),
) -> AutonomyActivationReceiptV1 {
    let intent = &live.intent;
    let (gates, rollback) = match &intent.payload {
        ActionPayload::ModeActivate(mode) => (mode.gate_receipts_digest, mode.rollback_plan_digest),
        payload => (
            Digest::of(&intent.evidence.to_canonical()),
            intent.rollback.digest(payload),
        ),
    };
    AutonomyActivationReceiptV1 {
        previous_mode_epoch_digest: Digest::of(
            &(before.epoch.active_mode, before.epoch.autonomy_epoch).to_canonical(),
        ),
        previous_constitution_epoch: before.constitution.constitution_epoch,
        previous_autonomy_epoch: before.epoch.autonomy_epoch,
        target_constitution_digest: after.constitution.digest(),
        activated_autonomy_epoch: before.epoch.autonomy_epoch.next(),
        activated_mode: mode,
        gate_receipts_digest: gates,
        rollback_plan_digest: rollback,
        activates_at: state.clock.state_time,
        authority_decision_digest: transaction.transaction.authority_decision_digest,
        grants_digest: grants,
        safety_kernel_digest: before.kernel.digest(),
        previous_constitution_digest: before.constitution.digest(),
        quorum_policy_digest: after.quorum_policy_digest(),
        issued_at: state.clock.state_time,
    }
}

/// What the payload changes, one event per record.
fn changes(
    state: &Authority,
    governance: &Governance,
    live: &Intent,
    transaction: &Transaction,
    marker: &CommitMarkerV1,
) -> Result<Vec<Event>, Refusal> {
    let now = state.clock.state_time;
    Ok(match &live.intent.payload {
        ActionPayload::ConstitutionAmend(amend) => {
            let mut constitution = amend.constitution.clone();
            // M1-L12: approved by the constitution before, and it says so.
            constitution.old_runtime_approval_digest =
                transaction.transaction.authority_decision_digest;
            vec![Event::ConstitutionAmended(Box::new(constitution))]
        }
        ActionPayload::ModeActivate(_) => Vec::new(),
        ActionPayload::GrantChange(change) => grant_changes(governance, change, marker, now),
        ActionPayload::SubjectChange(change) => subject_changes(governance, change, now),
        ActionPayload::KeyChange(change) => key_changes(governance, change, now),
        ActionPayload::RosterChange(change) => {
            let next = roster::after(governance, change).ok_or(Refusal::KernelFloor)?;
            vec![Event::RosterChanged(Box::new(next))]
        }
        ActionPayload::VerifierSetChange(verifiers) => {
            let (roster, mut constitution) =
                roster::with_verifiers(governance, verifiers).ok_or(Refusal::KernelFloor)?;
            constitution.old_runtime_approval_digest =
                transaction.transaction.authority_decision_digest;
            vec![
                Event::RosterChanged(Box::new(roster)),
                Event::ConstitutionAmended(Box::new(constitution)),
                Event::QuorumKeyVoided(governance.last_key_epoch),
            ]
        }
        ActionPayload::ResetFrozen(reset) => reset_changes(state, governance, reset),
        ActionPayload::ResolveEffect(resolve) => vec![Event::EffectResolved(
            resolve.transaction_id,
            resolve.outcome,
            resolve.observed_head.clone(),
        )],
        ActionPayload::Land(_)
        | ActionPayload::ReleasePromote(_)
        | ActionPayload::BlockRatify(_)
        | ActionPayload::BlockArchive(_)
        | ActionPayload::ExternalEffect(_) => return Err(Refusal::WrongState),
    })
}

fn grant_changes(
    governance: &Governance,
    change: &GrantPayload,
    marker: &CommitMarkerV1,
    now: u64,
) -> Vec<Event> {
    match change {
        GrantPayload::Promote(promotion) => {
            let grant = AutonomyGrantV1 {
                promotion_receipt_id: Digest::of(&marker.to_canonical()),
                issued_at: now,
                constitution_epoch: governance.constitution.constitution_epoch,
                autonomy_epoch: governance.epoch.autonomy_epoch.next(),
                ..promotion.grant.clone()
            };
            vec![Event::GrantGiven(
                promotion.replaces_optional,
                Box::new(grant),
            )]
        }
        GrantPayload::Demote(id, tier) => demoted(governance, id, *tier, now),
        GrantPayload::Revoke(id) => vec![Event::GrantRevoked(*id)],
    }
}

fn demoted(governance: &Governance, id: &GrantId, tier: Tier, now: u64) -> Vec<Event> {
    let lowered = governance.grants.get(id).map(|held| AutonomyGrantV1 {
        max_tier: tier,
        issued_at: now,
        autonomy_epoch: governance.epoch.autonomy_epoch.next(),
        ..held.grant.clone()
    });
    lowered
        .map(|grant| Event::GrantDemoted(*id, Box::new(grant)))
        .into_iter()
        .collect()
}

fn subject_changes(governance: &Governance, change: &SubjectPayload, now: u64) -> Vec<Event> {
    match change {
        SubjectPayload::Enrol(subject) | SubjectPayload::Rotate(subject) => {
            let enrolled = ClientIdentityV1 {
                created_at: now,
                ..subject.clone()
            };
            vec![Event::SubjectChanged(Box::new(enrolled))]
        }
        SubjectPayload::Revoke(subject) => {
            let grants = governance.grants.iter();
            let mut events: Vec<Event> = grants
                .filter(|(_, held)| held.grant.subject_id == *subject)
                .map(|(id, _)| Event::GrantRevoked(*id))
                .collect();
            events.extend(governance.subjects.get(subject).map(|known| {
                Event::SubjectChanged(Box::new(ClientIdentityV1 {
                    revoked_at_optional: Some(now),
                    ..known.clone()
                }))
            }));
            events
        }
    }
}

fn key_changes(governance: &Governance, change: &KeyPayload, now: u64) -> Vec<Event> {
    let ended = |id, rotated: Option<u64>, revoked: Option<u64>| {
        governance.human_keys.get(id).map(|held| {
            Event::HumanKeyChanged(Box::new(HumanKeyV1 {
                rotated_at_optional: rotated,
                revoked_at_optional: revoked,
                ..held.key.clone()
            }))
        })
    };
    let enrolled = |key: &HumanKeyV1| {
        Event::HumanKeyChanged(Box::new(HumanKeyV1 {
            created_at: now,
            ..key.clone()
        }))
    };
    match change {
        KeyPayload::Enrol(key) => vec![enrolled(key)],
        // The key that is replaced decides nothing any more.
        KeyPayload::Rotate(old, key) => ended(old, Some(now), Some(now))
            .into_iter()
            .chain([enrolled(key)])
            .collect(),
        KeyPayload::Revoke(old) => ended(old, None, Some(now)).into_iter().collect(),
    }
}

/// SPEC E.9: out of a freeze leads only A0. Every grant in the scopes of the grounds goes down.
fn reset_changes(state: &Authority, governance: &Governance, reset: &ResetPayload) -> Vec<Event> {
    let scopes: Vec<&RedScope> = state
        .grounds
        .iter()
        .filter(|(number, _)| reset.grounds.contains(number))
        .flat_map(|(_, ground)| &ground.scopes)
        .collect();
    let concerned = |grant: &AutonomyGrantV1| {
        scopes.iter().any(|scope| match scope {
            RedScope::Everything => true,
            RedScope::Subject(subject) => grant.subject_id == *subject,
            RedScope::ActionClass(class) => grant.action_classes.contains(class),
            // An intent's mandate names its proposer beside it; a mission has no grants.
            RedScope::Intent(_) | RedScope::Mission(_) => false,
        })
    };
    let mut events = vec![Event::GroundsReset(reset.grounds.clone())];
    for (id, held) in &governance.grants {
        if concerned(&held.grant)
            && held.grant.max_tier > Tier::A0
            && !Bug::ResetKeepsTiers.planted()
        {
            events.extend(demoted(governance, id, Tier::A0, state.clock.state_time));
        }
    }
    events
}
