//! Keys of the archive index: from what people ask by to the leaf that answers (DESIGN D3, D8).
//!
//! The index is written beside the leaves and read by the API; `decide` never reads it.

use redlatch_types::event::Event;
use redlatch_types::{
    CapabilityId, EventId, IntentDigest, LatchNumber, MarkerNumber, SubjectId, TickNumber,
    TransactionId,
};

/// What a leaf can be asked for by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexKey {
    /// The genesis.
    Genesis,
    /// A tick.
    Tick(TickNumber),
    /// The freeze of an intent.
    Frozen(IntentDigest),
    /// The decision on an intent.
    Authorized(IntentDigest),
    /// A minted capability.
    Capability(CapabilityId),
    /// PREPARE of a transaction.
    Prepared(TransactionId),
    /// The marker of a transaction.
    Committed(TransactionId),
    /// The end of an intent or transaction without effect.
    Ended(IntentDigest),
    /// A marker by number.
    Marker(MarkerNumber),
    /// The last word on a transaction's effect.
    Effect(TransactionId),
    /// A latch.
    Latch(LatchNumber),
    /// The end of a latch.
    Terminal(LatchNumber),
    /// The answer to a client's command.
    Origin(SubjectId, EventId),
    /// The last StateRoot.
    StateRoot,
    /// The activation of a committed change.
    Activated(TransactionId),
    /// An act of the offline root.
    RootAct(u64),
}

impl IndexKey {
    /// The key's bytes: a tag and the identifier. Numbers are big-endian, so they sort.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (tag, rest): (u8, Vec<u8>) = match self {
            IndexKey::Genesis => (1, Vec::new()),
            IndexKey::Tick(n) => (2, n.0.to_be_bytes().to_vec()),
            IndexKey::Frozen(d) => (3, d.0.0.to_vec()),
            IndexKey::Authorized(d) => (4, d.0.0.to_vec()),
            IndexKey::Capability(d) => (5, d.0.0.to_vec()),
            IndexKey::Prepared(d) => (6, d.0.0.to_vec()),
            IndexKey::Committed(d) => (7, d.0.0.to_vec()),
            IndexKey::Ended(d) => (8, d.0.0.to_vec()),
            IndexKey::Marker(n) => (9, n.0.to_be_bytes().to_vec()),
            IndexKey::Effect(d) => (10, d.0.0.to_vec()),
            IndexKey::Latch(n) => (11, n.0.to_be_bytes().to_vec()),
            IndexKey::Terminal(n) => (12, n.0.to_be_bytes().to_vec()),
            IndexKey::Origin(subject, event) => {
                let mut rest = event.0.0.to_vec();
                rest.extend_from_slice(subject.as_str().as_bytes());
                (13, rest)
            }
            IndexKey::StateRoot => (14, Vec::new()),
            IndexKey::Activated(d) => (15, d.0.0.to_vec()),
            IndexKey::RootAct(n) => (16, n.to_be_bytes().to_vec()),
        };
        let mut bytes = vec![tag];
        bytes.extend(rest);
        bytes
    }

    /// What `event` can be asked for by.
    pub fn of(event: &Event) -> Vec<IndexKey> {
        let origin = |o: &redlatch_types::event::Origination| {
            IndexKey::Origin(o.subject_id.clone(), o.event_id)
        };
        match event {
            Event::Bootstrapped(..) => vec![IndexKey::Genesis],
            Event::Ticked(n, ..) => vec![IndexKey::Tick(*n)],
            Event::Frozen(d, _, _, o) => vec![IndexKey::Frozen(*d), origin(o)],
            Event::Authorized(a) => vec![
                IndexKey::Authorized(a.decision.binding.intent_digest),
                IndexKey::Capability(a.capability_id),
            ],
            Event::Prepared(id, _) => vec![IndexKey::Prepared(*id)],
            Event::Committed(m) => vec![
                IndexKey::Committed(m.transaction_id),
                IndexKey::Marker(m.marker),
            ],
            Event::Aborted(_, intent, _) => vec![IndexKey::Ended(*intent)],
            Event::Withdrawn(intent, o) => vec![IndexKey::Ended(*intent), origin(o)],
            Event::EffectClaimed(id, ..)
            | Event::EffectReported(id, ..)
            | Event::EffectWithheld(id, ..) => vec![IndexKey::Effect(*id)],
            Event::RedLatched(receipt, ..) => vec![IndexKey::Latch(receipt.latch_epoch)],
            Event::SafetyCommitted(m) => vec![
                IndexKey::Committed(m.transaction_id),
                IndexKey::Marker(m.marker),
            ],
            Event::SafetyTerminal(latch, _) => vec![IndexKey::Terminal(*latch)],
            Event::StateRoot(_) => vec![IndexKey::StateRoot],
            Event::ChallengeIssued(_, _, o) => vec![origin(o)],
            Event::Activated(id, ..) => vec![IndexKey::Effect(*id), IndexKey::Activated(*id)],
            Event::EffectResolved(id, ..) => vec![IndexKey::Effect(*id)],
            Event::RootActed(act, ..) => vec![IndexKey::RootAct(act.number)],
            Event::QuorumKeyActivated(..)
            | Event::RedChained(..)
            | Event::GrantRevoked(..)
            | Event::GrantDemoted(..)
            | Event::SafetyIntentStored(..)
            | Event::SafetyPrepared(..)
            | Event::LatchCommitting(..)
            | Event::EpochPublished(..)
            | Event::OutboxAcknowledged(..)
            | Event::ConstitutionAmended(..)
            | Event::GrantGiven(..)
            | Event::SubjectChanged(..)
            | Event::HumanKeyChanged(..)
            | Event::RosterChanged(..)
            | Event::QuorumKeyVoided(..)
            | Event::GroundsReset(..)
            | Event::FeatureLevelRaised(..)
            | Event::NodeRejoined(..)
            | Event::Refused(..) => Vec::new(),
        }
    }
}
