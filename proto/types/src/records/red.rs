//! RED: the sentinel's outbox records and what they ask for (SPEC C.24, DESIGN §6).
//!
//! A correctly signed RED of this organism always latches. Its inner verdict is therefore read
//! leniently: what a reader does not know widens the stop, it never weakens it.

use minicbor::{Decode, Encode};

use super::base::{ActionClass, Text};
use crate::bytes::{Bytes, Digest, PublicKey};
use crate::codec::Canonical;
use crate::ids::{IntentDigest, LatchNumber, MissionId, OutboxEpoch, SubjectId};
use crate::mandate::NegativeVerb;

/// One entry of the sentinel's outbox: hash-chained, gap-free, signed (SPEC C.24).
///
/// Delivery state (`delivery_attempt`, `journal_latch_ack`, `actuator_ack`, `state`) is the
/// sentinel's own and not signed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct SentinelRedOutboxV1 {
    /// Number, from 1, gap-free.
    #[n(0)]
    pub outbox_epoch: OutboxEpoch,
    /// Root before this entry; [`Digest::ZERO`] before the first.
    #[n(1)]
    pub previous_outbox_root_digest: Digest,
    /// Canonical bytes of a [`RedVerdictV1`]; unreadable bytes stop everything.
    #[n(2)]
    pub red_verdict: Bytes,
    /// The intent concerned, if one is.
    #[n(3)]
    pub source_intent_digest_optional: Option<IntentDigest>,
    /// Root after this entry: [`SentinelRedOutboxV1::root_after`].
    #[n(4)]
    pub signed_outbox_root_digest: Digest,
    /// Highest number that the sentinel has protected elsewhere.
    #[n(5)]
    pub protected_latest_outbox_epoch: OutboxEpoch,
}

impl SentinelRedOutboxV1 {
    /// `red_verdict_digest` of SPEC.
    pub fn red_verdict_digest(&self) -> Digest {
        Digest::of(&self.red_verdict.0)
    }

    /// The root that follows `previous` by an entry of this number, verdict and source.
    pub fn root_after(
        previous: &Digest,
        number: OutboxEpoch,
        red_verdict_digest: &Digest,
        source: Option<&IntentDigest>,
    ) -> Digest {
        let source = source.map_or(Digest::ZERO, |s| s.0);
        Digest::of_parts(&[
            b"redlatch/v1/outbox-root\0",
            &previous.0,
            &number.0.to_be_bytes(),
            &red_verdict_digest.0,
            &source.0,
        ])
    }

    /// Whether the stated root is the one that follows from the entry's own fields.
    pub fn root_holds(&self) -> bool {
        self.signed_outbox_root_digest
            == SentinelRedOutboxV1::root_after(
                &self.previous_outbox_root_digest,
                self.outbox_epoch,
                &self.red_verdict_digest(),
                self.source_intent_digest_optional.as_ref(),
            )
    }
}

/// What the sentinel wants stopped. Numbers are open: unknown ones widen (see `mandate`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct RedVerdictV1 {
    /// Unique.
    #[n(0)]
    pub verdict_id: Digest,
    /// Number of a [`RedScope`] kind.
    #[n(1)]
    pub scope_kind: u64,
    /// Its value: canonical bytes of the identifier; empty for *everything*.
    #[n(2)]
    pub scope_value: Bytes,
    /// Numbers of negative verbs asked for beside freeze.
    #[n(3)]
    pub negative_verbs: Vec<u64>,
    /// The rollback plan asked for; must be the one bound in the intent.
    #[n(4)]
    pub rollback_candidate_plan_digest_optional: Option<Digest>,
    /// Why, for people.
    #[n(5)]
    pub reason: Text,
    /// State time that the sentinel last knew.
    #[n(6)]
    pub issued_at: u64,
}

/// What a RED covers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum RedScope {
    /// One intent.
    #[n(1)]
    Intent(#[n(0)] IntentDigest),
    /// One mission.
    #[n(2)]
    Mission(#[n(0)] MissionId),
    /// One subject and its grants.
    #[n(3)]
    Subject(#[n(0)] SubjectId),
    /// One class of actions.
    #[n(4)]
    ActionClass(#[n(0)] ActionClass),
    /// Everything.
    #[n(5)]
    Everything,
}

impl RedScope {
    /// The scope as numbers and bytes for a [`RedVerdictV1`].
    pub fn to_open(&self) -> (u64, Bytes) {
        match self {
            RedScope::Intent(id) => (1, Bytes(id.to_canonical())),
            RedScope::Mission(id) => (2, Bytes(id.to_canonical())),
            RedScope::Subject(id) => (3, Bytes(id.to_canonical())),
            RedScope::ActionClass(class) => (4, Bytes(class.to_canonical())),
            RedScope::Everything => (5, Bytes::default()),
        }
    }

    /// The scope of a verdict's numbers and bytes; `None` for what this build does not know.
    pub fn from_open(kind: u64, value: &Bytes) -> Option<RedScope> {
        match kind {
            1 => IntentDigest::from_canonical(&value.0)
                .ok()
                .map(RedScope::Intent),
            2 => MissionId::from_canonical(&value.0)
                .ok()
                .map(RedScope::Mission),
            3 => SubjectId::from_canonical(&value.0)
                .ok()
                .map(RedScope::Subject),
            4 => ActionClass::from_canonical(&value.0)
                .ok()
                .map(RedScope::ActionClass),
            5 if value.0.is_empty() => Some(RedScope::Everything),
            _ => None,
        }
    }
}

/// The sentinel confirms that it holds the terminal acknowledgement of a latch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct OutboxAckV1 {
    /// The latch.
    #[n(0)]
    pub latch: LatchNumber,
    /// Its outbox entry.
    #[n(1)]
    pub outbox_epoch: OutboxEpoch,
    /// Key of the outbox.
    #[n(2)]
    pub sentinel_key: PublicKey,
}

/// A person's order to the sentinel to raise RED. Signed by an enrolled operator or person; the
/// sentinel obeys every authentic one and asks nobody (M1-L4).
///
/// It is read strictly, unlike the RED that follows from it: an order that this build does not
/// understand is refused to the person at once, who can order a wider stop.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct RaiseOrderV1 {
    /// Unique; a repeat is answered with the RED of the first.
    #[n(0)]
    pub order_id: Digest,
    /// What is to be stopped.
    #[n(1)]
    pub scope: RedScope,
    /// Verbs beside freeze and fence, ascending.
    #[n(2)]
    pub verbs: Vec<NegativeVerb>,
    /// The plan bound in the intent, if rollback is asked for.
    #[n(3)]
    pub rollback_candidate_plan_digest_optional: Option<Digest>,
    /// Why, for people.
    #[n(4)]
    pub reason: Text,
}
