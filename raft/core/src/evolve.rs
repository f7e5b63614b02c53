//! `evolve`: the state after one event. It checks nothing and cannot fail (DESIGN D3).
//!
//! Whatever an event names but the state does not have is passed over, so that replaying any
//! leaves, even damaged ones, ends in some state and never in a panic.

use redlatch_types::event::{Accepted, Basis, ChainPlace, Event, Ground, Origination};
use redlatch_types::limits::COMPENSATION_WINDOW_MS;
use redlatch_types::records::{
    AutonomyEpochV1, GenesisV1, HumanApprovalV1, HumanKeyV1, Mode, OutcomeKind, RootActV1,
    SafetyState,
};
use redlatch_types::{Bytes, Digest, HumanKeyId, IntentDigest, KeyEpoch, TransactionId};

use crate::authority::{
    Attempt, Authority, Clock, EffectStage, FirstOutcome, Governance, Grant, HumanKey, Intent,
    IntentStage, Latch, LatchState, OutboxWatermark, Permit, QuorumKey, Resource, Transaction,
    TransactionStage,
};

/// Changes `state` by `event`.
pub fn evolve(state: &mut Authority, event: &Event) {
    match event {
        Event::Bootstrapped(genesis, _) => bootstrapped(state, genesis),
        Event::Ticked(number, time, _) => {
            state.clock = Clock {
                tick: *number,
                state_time: *time,
            };
            state.audits.clear();
            forget_what_is_over(state);
        }
        Event::QuorumKeyActivated(epoch, key, package, _) => {
            if let Some(governance) = &mut state.governance {
                governance.epoch.quorum_key_epoch = *epoch;
                governance.last_key_epoch = *epoch;
                governance.quorum_key = Some(QuorumKey {
                    epoch: *epoch,
                    group_key: *key,
                    public_key_package_digest: *package,
                });
            }
        }
        Event::Frozen(digest, _, intent, origin) => {
            remember(state, origin, Accepted::Frozen(*digest));
            // The freeze is a commit of its own too: no decision may share its entry.
            state.stepped.insert(*digest);
            state.intents.insert(
                *digest,
                Intent {
                    intent: (**intent).clone(),
                    frozen_at: state.clock.state_time,
                    stage: IntentStage::Frozen,
                },
            );
        }
        Event::Withdrawn(digest, origin) => {
            remember(state, origin, Accepted::Withdrawn(*digest));
            end_intent(state, digest);
        }
        Event::Refused(subject, ..) => {
            *state.audits.entry(subject.clone()).or_default() += 1;
        }
        Event::ChallengeIssued(id, challenge, origin) => {
            remember(state, origin, Accepted::ChallengeIssued(*id));
            state.challenges.insert(*id, (**challenge).clone());
        }
        Event::Authorized(_)
        | Event::Prepared(..)
        | Event::Committed(_)
        | Event::Aborted(..)
        | Event::EffectClaimed(..)
        | Event::EffectReported(..)
        | Event::EffectResolved(..)
        | Event::EffectWithheld(..)
        | Event::Activated(..) => positive(state, event),
        _ => negative(state, event),
    }
}

/// Events of positive transactions.
fn positive(state: &mut Authority, event: &Event) {
    match event {
        Event::Authorized(body) => {
            let digest = body.decision.binding.intent_digest;
            state.stepped.insert(digest);
            if let Basis::Human(_, approvals) = &body.basis {
                consume(state, &digest, approvals);
            }
            if let Some(intent) = state.intents.get_mut(&digest) {
                intent.stage = IntentStage::Authorized(Box::new(Permit {
                    decision: body.decision.clone(),
                    capability: body.capability.clone(),
                    verdict_expires_at: body.verdict_expires_at,
                }));
            }
        }
        Event::Prepared(id, transaction) => prepared(state, id, transaction),
        Event::Committed(marker) => {
            state.issued.marker = marker.marker;
            state.stepped.insert(marker.intent_digest);
            let Some(transaction) = state.transactions.get_mut(&marker.transaction_id) else {
                return;
            };
            transaction.stage = TransactionStage::Committed(marker.clone(), EffectStage::Unclaimed);
            let grant = transaction.transaction.applicable_grant_id;
            if let Some(governance) = &mut state.governance
                && let Some(grant) = grant.and_then(|id| governance.grants.get_mut(&id))
            {
                grant.committed += 1;
            }
        }
        // Its challenges were released when it was decided.
        Event::Aborted(id, intent, _) => {
            release(state, id);
            state.transactions.remove(id);
            state.intents.remove(intent);
        }
        Event::EffectClaimed(id, _, key, claim) => {
            if let Some(intent) = set_effect(state, id, EffectStage::Claimed(claim.digest(), *key))
            {
                state.stepped.insert(intent);
            }
        }
        Event::EffectReported(id, outcome, head, _) | Event::EffectResolved(id, outcome, head) => {
            reported(state, id, *outcome, head);
        }
        Event::Activated(id, ..) => activated(state, id),
        Event::EffectWithheld(id, _) => {
            let now = state.clock.state_time;
            set_effect(state, id, EffectStage::Withheld(now));
            release(state, id);
        }
        _ => {}
    }
}

/// Events of the stop path.
fn negative(state: &mut Authority, event: &Event) {
    match event {
        Event::RedLatched(receipt, place, ground, envelope) => {
            state.issued.latch = receipt.latch_epoch;
            state.issued.ground = ground.number;
            state.grounds.insert(ground.number, ground.clone());
            let outbox = &mut state.outbox;
            let root = receipt.sentinel_outbox_root_digest;
            match place {
                ChainPlace::Next => {
                    outbox.number = receipt.sentinel_outbox_epoch;
                    outbox.root = Some(root);
                }
                ChainPlace::Early => {
                    outbox.early.insert(receipt.sentinel_outbox_epoch, root);
                }
                ChainPlace::Broken | ChainPlace::Unreadable => {
                    outbox.broken.insert(envelope.digest());
                }
            }
            state.latches.insert(
                receipt.latch_epoch,
                Latch {
                    receipt: (**receipt).clone(),
                    state: LatchState::Pending,
                    attempt: None,
                },
            );
        }
        Event::RedChained(number, root) => {
            state.outbox.number = *number;
            state.outbox.root = Some(*root);
            state.outbox.early.remove(number);
        }
        Event::SafetyIntentStored(attempt) => {
            let stored_at = state.clock.state_time;
            if let Some(latch) = state.latches.get_mut(&attempt.latch_epoch) {
                latch.attempt = Some(Attempt {
                    intent: (**attempt).clone(),
                    stored_at,
                    prepared: None,
                });
            }
        }
        Event::SafetyPrepared(id, capability, _) => {
            let latch = state.latches.get_mut(&capability.latch_epoch);
            if let Some(attempt) = latch.and_then(|l| l.attempt.as_mut()) {
                attempt.prepared = Some(*id);
            }
        }
        Event::LatchCommitting(number, id) => {
            if let Some(latch) = state.latches.get_mut(number) {
                latch.state = LatchState::Committing(*id);
            }
        }
        Event::SafetyTerminal(number, id) => {
            // A sentinel that is gone acknowledges nothing: the act that replaced it has closed its outbox.
            if *number <= state.outbox.begins_after {
                state.latches.remove(number);
            } else if let Some(latch) = state.latches.get_mut(number) {
                latch.state = LatchState::Terminal(*id);
            }
        }
        Event::SafetyCommitted(marker) => state.issued.marker = marker.marker,
        Event::OutboxAcknowledged(number, _) => {
            state.latches.remove(number);
        }
        _ => governed(state, event),
    }
}

/// Events that change who takes part and which rules are in force.
fn governed(state: &mut Authority, event: &Event) {
    if let Event::RootActed(act, ground, _) = event {
        root_acted(state, act, ground);
    }
    if let Event::GroundsReset(grounds) = event {
        state.grounds.retain(|number, _| !grounds.contains(number));
    }
    let Some(governance) = &mut state.governance else {
        return;
    };
    match event {
        Event::ConstitutionAmended(constitution) => {
            governance.constitution = (**constitution).clone();
        }
        Event::RosterChanged(roster) | Event::NodeRejoined(roster, _) => {
            governance.roster = (**roster).clone();
        }
        Event::QuorumKeyVoided(_) => {
            // The epoch that is published with it says so too.
            governance.quorum_key = None;
        }
        Event::FeatureLevelRaised(level, _) => governance.feature_level = *level,
        Event::SubjectChanged(subject) => {
            governance
                .subjects
                .insert(subject.subject_id.clone(), (**subject).clone());
        }
        Event::HumanKeyChanged(key) => {
            let counter = governance
                .human_keys
                .get(&key.id())
                .map_or(key.counter, |held| held.counter);
            let held = HumanKey {
                key: (**key).clone(),
                counter,
            };
            governance.human_keys.insert(key.id(), held);
        }
        Event::GrantGiven(replaced, grant) => {
            let committed = replaced
                .and_then(|old| governance.grants.remove(&old))
                .map_or(0, |held| held.committed);
            let held = Grant {
                grant: (**grant).clone(),
                committed,
            };
            governance.grants.insert(grant.id(), held);
        }
        Event::EpochPublished(epoch) => governance.epoch = (**epoch).clone(),
        Event::GrantRevoked(id) => {
            governance.grants.remove(id);
        }
        Event::GrantDemoted(id, grant) => {
            let committed = governance.grants.remove(id).map_or(0, |g| g.committed);
            governance.grants.insert(
                grant.id(),
                Grant {
                    grant: (**grant).clone(),
                    committed,
                },
            );
        }
        _ => {}
    }
}

fn bootstrapped(state: &mut Authority, genesis: &GenesisV1) {
    let last = genesis.activations.last();
    state.clock.state_time = genesis.created_at;
    state.governance = Some(Governance {
        organism_id: genesis.organism_id(),
        organism_epoch: 1,
        history: 0,
        kind: genesis.kind,
        kernel: genesis.kernel.clone(),
        constitution: genesis.constitution.clone(),
        roster: genesis.roster.clone(),
        epoch: AutonomyEpochV1 {
            autonomy_epoch: last.map(|r| r.activated_autonomy_epoch).unwrap_or_default(),
            active_mode: last.map_or(Mode::HumanGated, |r| r.activated_mode),
            activation_receipt_id: last.map_or(Digest::ZERO, |r| r.id()),
            grants_digest: last.map_or(Digest::ZERO, |r| r.grants_digest),
            issuance_frozen: false,
            constitution_epoch: genesis.constitution.constitution_epoch,
            quorum_key_epoch: KeyEpoch(0),
            constitution_digest: genesis.constitution.digest(),
            effective_at: genesis.created_at,
            safety_state: SafetyState::Normal,
        },
        grants: genesis
            .grants
            .iter()
            .map(|g| {
                let held = Grant {
                    grant: g.clone(),
                    committed: 0,
                };
                (g.id(), held)
            })
            .collect(),
        subjects: genesis
            .subjects
            .iter()
            .map(|s| (s.subject_id.clone(), s.clone()))
            .collect(),
        quorum_key: None,
        human_keys: genesis.human_keys.iter().map(enrolled).collect(),
        feature_level: genesis.feature_level,
        root_acts: 0,
        last_key_epoch: KeyEpoch(0),
    });
}

fn enrolled(key: &HumanKeyV1) -> (HumanKeyId, HumanKey) {
    let held = HumanKey {
        key: key.clone(),
        counter: key.counter,
    };
    (key.id(), held)
}

/// New pins, new parties, another organism epoch: everything issued before is void, and
/// everything is frozen until people reset it.
fn root_acted(state: &mut Authority, act: &RootActV1, ground: &Ground) {
    state.issued.ground = ground.number;
    state.grounds.insert(ground.number, ground.clone());
    let Some(governance) = &mut state.governance else {
        return;
    };
    governance.constitution = governance.constitution.after_root_act(act);
    if governance.roster.sentinel.key != act.roster.sentinel.key {
        state.outbox = OutboxWatermark {
            begins_after: state.issued.latch,
            ..OutboxWatermark::default()
        };
        let is_terminal = |latch: &Latch| matches!(latch.state, LatchState::Terminal(_));
        state.latches.retain(|_, latch| !is_terminal(latch));
    }
    if governance.roster.verifiers != act.roster.verifiers {
        governance.quorum_key = None;
        governance.epoch.quorum_key_epoch = KeyEpoch(0);
    }
    governance.kernel = act.kernel.clone();
    governance.roster = act.roster.clone();
    governance.root_acts = act.number;
    governance.organism_epoch += 1;
    governance.epoch.autonomy_epoch = governance.epoch.autonomy_epoch.next();
    governance.epoch.constitution_epoch = governance.constitution.constitution_epoch;
    governance.epoch.constitution_digest = governance.constitution.digest();
    governance.epoch.effective_at = state.clock.state_time;
    governance.epoch.safety_state = SafetyState::Stopped;
}

/// The approvals are used: nonces of the intent's challenges are gone, counters move.
fn consume(state: &mut Authority, intent: &IntentDigest, approvals: &[HumanApprovalV1]) {
    release_challenges(state, intent);
    let Some(governance) = &mut state.governance else {
        return;
    };
    for approval in approvals {
        if let Some(held) = governance.human_keys.get_mut(&approval.key_id) {
            held.counter = approval.counter;
        }
    }
}

/// The nonces of an intent's open challenges are reserved no longer.
fn release_challenges(state: &mut Authority, intent: &IntentDigest) {
    state
        .challenges
        .retain(|_, challenge| challenge.binding.intent_digest != *intent);
}

/// A change inside the journal is in force: its resource is one version on.
fn activated(state: &mut Authority, id: &TransactionId) {
    let now = state.clock.state_time;
    let Some(intent) = set_effect(state, id, EffectStage::Done(now)) else {
        return;
    };
    state.stepped.insert(intent);
    release(state, id);
    let resource = state
        .intents
        .get(&intent)
        .map(|i| i.intent.payload.resource().id());
    if let Some(resource) = resource.and_then(|id| state.resources.get_mut(&id)) {
        resource.store_version += 1;
    }
}

fn remember(state: &mut Authority, origin: &Origination, accepted: Accepted) {
    state
        .idempotency
        .entry(origin.subject_id.clone())
        .or_default()
        .insert(
            origin.event_id,
            FirstOutcome {
                payload_digest: origin.payload_digest,
                accepted,
                expires_at: origin.expires_at,
            },
        );
}

fn prepared(
    state: &mut Authority,
    id: &TransactionId,
    transaction: &redlatch_types::records::PositiveAuthorityTransactionV1,
) {
    let digest = transaction.binding.intent_digest;
    state.stepped.insert(digest);
    let Some(intent) = state.intents.get_mut(&digest) else {
        return;
    };
    let verdict_expires_at = match &intent.stage {
        IntentStage::Authorized(permit) => permit.verdict_expires_at,
        _ => transaction.expires_at,
    };
    intent.stage = IntentStage::InTransaction(*id);
    let resource = intent.intent.payload.resource();
    state
        .resources
        .entry(resource.id())
        .or_insert(Resource {
            resource,
            head: None,
            store_version: 0,
            reserved_by: None,
        })
        .reserved_by = Some(*id);
    state.transactions.insert(
        *id,
        Transaction {
            transaction: transaction.clone(),
            verdict_expires_at,
            stage: TransactionStage::Prepared,
        },
    );
}

/// Sets what a committed effect is at; returns its intent.
fn set_effect(
    state: &mut Authority,
    id: &TransactionId,
    stage: EffectStage,
) -> Option<IntentDigest> {
    let transaction = state.transactions.get_mut(id)?;
    if let TransactionStage::Committed(_, effect) = &mut transaction.stage {
        *effect = stage;
    }
    Some(transaction.transaction.binding.intent_digest)
}

/// The world is where the executor saw it; the next landing starts from there.
fn reported(state: &mut Authority, id: &TransactionId, outcome: OutcomeKind, head: &Bytes) {
    let now = state.clock.state_time;
    let stage = match outcome {
        OutcomeKind::Done => EffectStage::Done(now),
        OutcomeKind::Failed => EffectStage::Failed(now),
        OutcomeKind::OutcomeUnknown => EffectStage::Unknown,
    };
    let Some(intent) = set_effect(state, id, stage) else {
        return;
    };
    if outcome == OutcomeKind::OutcomeUnknown {
        return;
    }
    release(state, id);
    let Some(intent) = state.intents.get(&intent) else {
        return;
    };
    let resource = intent.intent.payload.resource().id();
    if let Some(resource) = state.resources.get_mut(&resource) {
        resource.head = Some(head.clone());
        resource.store_version += 1;
    }
}

/// Gives back the resource, if this transaction has it.
fn release(state: &mut Authority, id: &TransactionId) {
    let Some(transaction) = state.transactions.get(id) else {
        return;
    };
    let digest = transaction.transaction.binding.intent_digest;
    let Some(intent) = state.intents.get(&digest) else {
        return;
    };
    let resource = intent.intent.payload.resource().id();
    if let Some(resource) = state.resources.get_mut(&resource)
        && resource.reserved_by == Some(*id)
    {
        resource.reserved_by = None;
    }
}

/// Ends an intent and whatever transaction it is in.
fn end_intent(state: &mut Authority, digest: &IntentDigest) {
    let stage = state.intents.get(digest).map(|i| i.stage.clone());
    if let Some(IntentStage::InTransaction(id)) = stage {
        release(state, &id);
        state.transactions.remove(&id);
    }
    state.intents.remove(digest);
    release_challenges(state, digest);
}

/// Drops what `decide` would refuse anyway, so that the state stays bounded. Expiry itself is
/// decided there, never here.
fn forget_what_is_over(state: &mut Authority) {
    let now = state.clock.state_time;
    for outcomes in state.idempotency.values_mut() {
        outcomes.retain(|_, first| first.expires_at > now);
    }
    state.idempotency.retain(|_, outcomes| !outcomes.is_empty());
    state
        .challenges
        .retain(|_, challenge| challenge.expires_at > now);
    let over: Vec<IntentDigest> = state
        .intents
        .iter()
        .filter(|(_, i)| is_over(state, i, now))
        .map(|(d, _)| *d)
        .collect();
    for digest in over {
        end_intent(state, &digest);
    }
}

fn is_over(state: &Authority, intent: &Intent, now: u64) -> bool {
    match &intent.stage {
        IntentStage::Frozen => now >= intent.intent.expires_at,
        IntentStage::Authorized(permit) => now >= permit.capability.expires_at,
        IntentStage::InTransaction(id) => match state.transactions.get(id).map(|t| &t.stage) {
            None => true,
            // A prepared transaction waits for its Abort; only a lost one is dropped.
            Some(TransactionStage::Prepared) => now >= intent.intent.expires_at,
            Some(TransactionStage::Committed(marker, effect)) => match effect {
                EffectStage::Unclaimed => now >= marker.effect_deadline + COMPENSATION_WINDOW_MS,
                EffectStage::Claimed(..) | EffectStage::Unknown => false,
                EffectStage::Done(at) | EffectStage::Failed(at) | EffectStage::Withheld(at) => {
                    now >= at + COMPENSATION_WINDOW_MS
                }
            },
        },
    }
}
