//! What the applied state says about scopes, effects and stops: pure reading, no decision.
//!
//! A scope is *free* only if nothing known covers it. Where the state no longer holds what was asked
//! about, every stop counts as covering it: absent is no reason to say free.

use redlatch_journal::Authority;
use redlatch_journal::authority::{EffectStage, Governance, LatchState, TransactionStage};
use redlatch_proto::v1;
use redlatch_types::mandate::covers;
use redlatch_types::records::{
    EffectState, RedScope, ScopeState, SovereignActionIntentV1, StatusV1,
};
use redlatch_types::{Canonical, Digest, IntentDigest, KeyEpoch, MarkerNumber, NodeId};

/// What a status is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The asker's nonce.
    pub nonce: Digest,
    /// The intent, if one is asked about.
    pub intent: Option<IntentDigest>,
}

/// The status of this node's state; none before genesis. `held` are the scopes of held REDs.
pub fn status(
    authority: &Authority,
    tree_size: u64,
    node_id: NodeId,
    question: Question,
    held: &[RedScope],
) -> Option<StatusV1> {
    let governance = authority.governance.as_ref()?;
    let (effect, marker) = effect(authority, question.intent);
    Some(StatusV1 {
        node_id,
        nonce: question.nonce,
        intent_digest_optional: question.intent,
        scope: scope(authority, governance, question.intent, held),
        effect,
        marker,
        active_mode: governance.epoch.active_mode,
        autonomy_epoch: governance.epoch.autonomy_epoch,
        constitution_epoch: governance.constitution.constitution_epoch,
        roster_epoch: governance.roster.roster_epoch,
        quorum_key_epoch: governance
            .quorum_key
            .as_ref()
            .map_or(KeyEpoch(0), |key| key.epoch),
        latch_epoch: authority.issued.latch,
        history: governance.history,
        tree_size,
        tick: authority.clock.tick,
        state_time: authority.clock.state_time,
    })
}

fn scope(
    authority: &Authority,
    governance: &Governance,
    asked: Option<IntentDigest>,
    held: &[RedScope],
) -> ScopeState {
    let intent = asked.and_then(|digest| authority.intents.get(&digest));
    let intent = intent.map(|live| &live.intent);
    let latched = authority
        .pending_latches()
        .any(|latch| stops(&latch.receipt.mandate.scopes, intent));
    if latched {
        return ScopeState::Latched;
    }
    if stops(held, intent) {
        return ScopeState::RedHeld;
    }
    let frozen = governance.epoch.issuance_frozen
        || authority
            .grounds
            .values()
            .any(|ground| stops(&ground.scopes, intent));
    if frozen {
        ScopeState::Frozen
    } else {
        ScopeState::Free
    }
}

/// Whether one of the scopes covers the intent; without a live intent, whether there is one at all.
fn stops(scopes: &[RedScope], intent: Option<&SovereignActionIntentV1>) -> bool {
    match intent {
        Some(intent) => scopes.iter().any(|scope| covers(scope, intent)),
        None => !scopes.is_empty(),
    }
}

fn effect(authority: &Authority, asked: Option<IntentDigest>) -> (EffectState, MarkerNumber) {
    let none = MarkerNumber(0);
    let Some(digest) = asked else {
        return (EffectState::NotAsked, none);
    };
    let stage = authority
        .transactions
        .values()
        .find(|it| it.transaction.binding.intent_digest == digest)
        .map(|it| &it.stage);
    match stage {
        Some(TransactionStage::Committed(marker, effect)) => {
            let may_be_made = match effect {
                EffectStage::Unclaimed => authority.clock.state_time < marker.effect_deadline,
                EffectStage::Claimed(..) => true,
                EffectStage::Done(_)
                | EffectStage::Failed(_)
                | EffectStage::Unknown
                | EffectStage::Withheld(_) => false,
            };
            let state = if may_be_made {
                EffectState::Outstanding
            } else {
                EffectState::NotOutstanding
            };
            (state, marker.marker)
        }
        Some(TransactionStage::Prepared) | None => (EffectState::NotOutstanding, none),
    }
}

/// Everything that stops something, one line each, for people.
pub fn stops_for_people(authority: &Authority) -> Vec<String> {
    let mut lines: Vec<String> = authority
        .latches
        .values()
        .map(|latch| {
            let state = match latch.state {
                LatchState::Pending => "pending",
                LatchState::Committing(_) => "committing",
                LatchState::Terminal(_) => "terminal",
            };
            let scopes = in_words(&latch.receipt.mandate.scopes);
            format!("latch {} ({state}): {scopes}", latch.receipt.latch_epoch)
        })
        .collect();
    lines.extend(authority.grounds.values().map(|ground| {
        let scopes = in_words(&ground.scopes);
        format!("freeze {} by {}: {scopes}", ground.number, ground.cause)
    }));
    let frozen = authority
        .governance
        .as_ref()
        .is_some_and(|governance| governance.epoch.issuance_frozen);
    if frozen {
        lines.push("issuance is frozen everywhere".to_owned());
    }
    lines
}

fn in_words(scopes: &[RedScope]) -> String {
    let words: Vec<String> = scopes
        .iter()
        .map(|scope| match scope {
            RedScope::Intent(digest) => format!("intent {digest}"),
            RedScope::Mission(mission) => format!("mission {mission}"),
            RedScope::Subject(subject) => format!("subject {subject}"),
            RedScope::ActionClass(class) => format!("action class {class}"),
            RedScope::Everything => "everything".to_owned(),
        })
        .collect();
    words.join(", ")
}

/// Rules and parties in force; none before genesis.
pub fn in_force(authority: &Authority) -> Option<v1::GovernanceResponse> {
    let governance = authority.governance.as_ref()?;
    let grounds = authority.grounds.values();
    let grants = governance.grants.values();
    let keys = governance.human_keys.values();
    Some(v1::GovernanceResponse {
        kernel: governance.kernel.to_canonical(),
        constitution: governance.constitution.to_canonical(),
        roster: governance.roster.to_canonical(),
        epoch: governance.epoch.to_canonical(),
        subjects: governance
            .subjects
            .values()
            .map(Canonical::to_canonical)
            .collect(),
        grants: grants
            .map(|held| v1::GrantInForce {
                grant: held.grant.to_canonical(),
                committed: held.committed,
            })
            .collect(),
        human_keys: keys.map(|held| held.key.to_canonical()).collect(),
        grounds: grounds.map(Canonical::to_canonical).collect(),
        feature_level: governance.feature_level,
        root_acts: governance.root_acts,
        outbox_root: authority.outbox.root.map(|root| root.0.to_vec()),
    })
}

/// Whether something live ends by time, so that time has to go on even if nobody asks for anything.
pub fn waits_for_time(authority: &Authority) -> bool {
    let open_latch = authority.pending_latches().next().is_some();
    open_latch || !authority.intents.is_empty() || !authority.transactions.is_empty()
}
