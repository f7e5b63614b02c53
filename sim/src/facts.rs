//! From a leaf of the journal to what an invariant asks of it. It judges nothing.

use std::collections::BTreeSet;

use redlatch_types::event::Event;
use redlatch_types::records::{RedScope, SovereignActionIntentV1, VoteV1};
use redlatch_types::{Canonical, Digest, Envelope, IntentDigest, VerifierId};

use crate::history::{Fact, Step};

/// What a leaf says; a leaf that is no event says nothing.
pub fn of(leaf: &[u8]) -> Fact {
    match Event::from_canonical(leaf) {
        Ok(event) => of_event(&event),
        Err(_) => Fact::Other("unreadable"),
    }
}

fn of_event(event: &Event) -> Fact {
    match event {
        Event::Frozen(digest, _, intent, origin) => Fact::Frozen {
            event: origin.event_id,
            intent: *digest,
            scopes: scopes(*digest, intent),
        },
        Event::Withdrawn(intent, origin) => Fact::Withdrawn {
            event: origin.event_id,
            intent: *intent,
        },
        Event::Authorized(authorized) => Fact::Positive {
            step: Step::Authorized,
            intent: authorized.decision.binding.intent_digest,
            transaction: None,
        },
        Event::Prepared(id, transaction) => Fact::Positive {
            step: Step::Prepared,
            intent: transaction.binding.intent_digest,
            transaction: Some(*id),
        },
        Event::Committed(marker) => Fact::Positive {
            step: Step::Committed,
            intent: marker.intent_digest,
            transaction: Some(marker.transaction_id),
        },
        Event::EffectClaimed(id, ..) => Fact::Claimed(*id),
        Event::RedLatched(receipt, _, ground, record) => Fact::Latched {
            record: record.digest(),
            number: receipt.latch_epoch,
            scopes: ground.scopes.iter().cloned().collect(),
        },
        Event::SafetyTerminal(latch, _) => Fact::Terminal(*latch),
        other => Fact::Other(other.word()),
    }
}

/// The votes that a decision in a leaf counts: whose, on what, and the digest of the signed vote.
pub fn counted(leaf: &[u8]) -> Vec<(VerifierId, IntentDigest, Digest)> {
    let Ok(Event::Authorized(authorized)) = Event::from_canonical(leaf) else {
        return Vec::new();
    };
    let open = |vote: &Envelope| {
        let signed = vote.open::<VoteV1>().ok()?;
        let said = signed.record();
        Some((said.verifier_id.clone(), said.intent_digest, vote.digest()))
    };
    authorized.votes().iter().filter_map(open).collect()
}

/// Every scope that stops an intent, worked out from SPEC C.25 apart from the product's own `covers`.
fn scopes(digest: IntentDigest, intent: &SovereignActionIntentV1) -> BTreeSet<RedScope> {
    let subjects = [
        Some(&intent.decision_subject_id),
        Some(&intent.caller_subject_id),
        Some(&intent.proposer_subject_id),
        intent.executor_subject_id_optional.as_ref(),
        intent.promotion_target_subject_id_optional.as_ref(),
    ];
    let mut scopes: BTreeSet<RedScope> = subjects
        .into_iter()
        .flatten()
        .cloned()
        .map(RedScope::Subject)
        .collect();
    scopes.insert(RedScope::Intent(digest));
    scopes.insert(RedScope::ActionClass(intent.action));
    scopes.insert(RedScope::Everything);
    scopes.extend(intent.mission_id_optional.clone().map(RedScope::Mission));
    scopes
}
