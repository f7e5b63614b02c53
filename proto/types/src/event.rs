//! Events: what happened, as the leaves of the journal, and the replies that go with them.
//!
//! A leaf is the canonical CBOR of one [`Event`]. It carries the signed records it rests on, so
//! that replay can repeat every check from leaves alone (DESIGN D3), and everything `evolve`
//! needs, so that applying it never has to decode a signed body again.

use std::fmt;

use minicbor::{Decode, Encode};

use crate::bytes::{Bytes, Digest, PublicKey};
use crate::ids::{
    AutonomyEpoch, CapabilityId, ChallengeId, EventId, GrantId, GroundNumber, IntentDigest,
    KeyEpoch, LatchNumber, MarkerNumber, NodeId, OutboxEpoch, RosterEpoch, SubjectId, TickNumber,
    TransactionId,
};
use crate::records::{
    AbortReason, AuthorityDecisionV1, AutonomyActivationReceiptV1, AutonomyCapabilityV1,
    AutonomyEpochV1, AutonomyGrantV1, ClientIdentityV1, CommitMarkerV1, ConstitutionV1, GenesisV1,
    HumanApprovalV1, HumanDecisionV1, HumanKeyV1, OutcomeKind, OwnerChallengeV1, PolicyDecisionV1,
    PositiveAuthorityTransactionV1, RedLatchReceiptV1, RedScope, RootActV1, RosterV1,
    SafetyActionIntentV1, SafetyCapabilityV1, SafetyMarkerV1, SealSheetV1, SovereignActionIntentV1,
};
use crate::refusal::Refusal;
use crate::sign::Envelope;

/// Which client command an event answers; remembered until `expires_at`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Origination {
    /// Who asked.
    #[n(0)]
    pub subject_id: SubjectId,
    /// The idempotency key.
    #[n(1)]
    pub event_id: EventId,
    /// Digest of the payload.
    #[n(2)]
    pub payload_digest: Digest,
    /// How long a repeat is answered.
    #[n(3)]
    pub expires_at: u64,
    /// The signed envelope.
    #[n(4)]
    pub envelope: Envelope,
    /// The payload's canonical bytes.
    #[n(5)]
    pub payload: Bytes,
}

/// Why something is frozen (DESIGN §6): what a reset has to name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum GroundCause {
    /// A latch, in the scopes of its mandate.
    #[n(1)]
    Latch(#[n(0)] LatchNumber),
    /// REDs came without their predecessors.
    #[n(2)]
    ChainGap(#[n(0)] OutboxEpoch),
    /// Two signed REDs cannot stand in one chain.
    #[n(3)]
    ChainBreak(#[n(0)] OutboxEpoch),
    /// The offline root replaced pins; what goes on from there is a reset's to say.
    #[n(4)]
    RootAct(#[n(0)] u64),
}

/// A freeze: scope and cause. Lives until a reset names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Ground {
    /// Number.
    #[n(0)]
    pub number: GroundNumber,
    /// What is frozen, ascending.
    #[n(1)]
    pub scopes: Vec<RedScope>,
    /// Why.
    #[n(2)]
    pub cause: GroundCause,
}

/// How a RED stands in the sentinel's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum ChainPlace {
    /// It follows the watermark and moves it.
    #[n(1)]
    Next,
    /// Its predecessors are missing; the watermark stays.
    #[n(2)]
    Early,
    /// It cannot be in the chain that the watermark stands in.
    #[n(3)]
    Broken,
    /// It cannot be read; its number is unknown.
    #[n(4)]
    Unreadable,
}

/// A digest of `Authority`, bound to where the journal stood (DESIGN D8).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct StateRootV1 {
    /// Digest of the canonical `Authority`.
    #[n(0)]
    pub authority_digest: Digest,
    /// Raft term of the entry.
    #[n(1)]
    pub term: u64,
    /// Raft index of the entry.
    #[n(2)]
    pub index: u64,
    /// Roster in force.
    #[n(3)]
    pub roster_epoch: RosterEpoch,
    /// Leaves before this one.
    #[n(4)]
    pub size: u64,
}

/// One leaf of the journal. Past tense: it happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Event {
    /// The organism started.
    #[n(1)]
    Bootstrapped(#[n(0)] Box<GenesisV1>, #[n(1)] Envelope),
    /// State time moved.
    #[n(2)]
    Ticked(#[n(0)] TickNumber, #[n(1)] u64, #[n(2)] Vec<Envelope>),
    /// The quorum has a key.
    #[n(3)]
    QuorumKeyActivated(
        #[n(0)] KeyEpoch,
        #[n(1)] PublicKey,
        #[n(2)] Digest,
        #[n(3)] Vec<Envelope>,
    ),
    /// Intent bytes are durable: from here on they may be signed about (M1-I24).
    #[n(4)]
    Frozen(
        #[n(0)] IntentDigest,
        #[n(1)] u64,
        #[n(2)] Box<SovereignActionIntentV1>,
        #[n(3)] Box<Origination>,
    ),
    /// Decided and minted.
    #[n(5)]
    Authorized(#[n(0)] Box<Authorized>),
    /// Capability consumed, snapshot stored, nothing visible.
    #[n(6)]
    Prepared(
        #[n(0)] TransactionId,
        #[n(1)] Box<PositiveAuthorityTransactionV1>,
    ),
    /// The marker: the effect may be claimed.
    #[n(7)]
    Committed(#[n(0)] Box<CommitMarkerV1>),
    /// Ended without effect.
    #[n(8)]
    Aborted(
        #[n(0)] TransactionId,
        #[n(1)] IntentDigest,
        #[n(2)] AbortReason,
    ),
    /// Taken back by its proposer.
    #[n(9)]
    Withdrawn(#[n(0)] IntentDigest, #[n(1)] Box<Origination>),
    /// The executor is about to make the effect.
    #[n(10)]
    EffectClaimed(
        #[n(0)] TransactionId,
        #[n(1)] MarkerNumber,
        #[n(2)] Digest,
        #[n(3)] Envelope,
    ),
    /// The executor reported.
    #[n(11)]
    EffectReported(
        #[n(0)] TransactionId,
        #[n(1)] OutcomeKind,
        #[n(2)] Bytes,
        #[n(3)] Envelope,
    ),
    /// A claim came too late for a latch: the effect was not made and needs none.
    #[n(12)]
    EffectWithheld(#[n(0)] TransactionId, #[n(1)] MarkerNumber),
    /// A RED is latched: nothing positive in its scope follows (M1-L4).
    #[n(13)]
    RedLatched(
        #[n(0)] Box<RedLatchReceiptV1>,
        #[n(1)] ChainPlace,
        #[n(2)] Ground,
        #[n(3)] Envelope,
    ),
    /// The chain reached a RED that had latched early.
    #[n(14)]
    RedChained(#[n(0)] OutboxEpoch, #[n(1)] Digest),
    /// A grant in the mandate's scope is revoked.
    #[n(15)]
    GrantRevoked(#[n(0)] GrantId),
    /// A grant in the mandate's scope is lowered by one tier: the old id and the new grant.
    #[n(25)]
    GrantDemoted(#[n(0)] GrantId, #[n(1)] Box<AutonomyGrantV1>),
    /// A safety attempt's bytes are durable.
    #[n(16)]
    SafetyIntentStored(#[n(0)] Box<SafetyActionIntentV1>),
    /// A safety transaction is prepared; nothing visible.
    #[n(17)]
    SafetyPrepared(
        #[n(0)] TransactionId,
        #[n(1)] Box<SafetyCapabilityV1>,
        #[n(2)] Envelope,
    ),
    /// The latch is claimed by this transaction and no other (M1-L10).
    #[n(18)]
    LatchCommitting(#[n(0)] LatchNumber, #[n(1)] TransactionId),
    /// The safety marker, same entry.
    #[n(19)]
    SafetyCommitted(#[n(0)] Box<SafetyMarkerV1>),
    /// The next epoch is in force, same entry.
    #[n(20)]
    EpochPublished(#[n(0)] Box<AutonomyEpochV1>),
    /// The stop is complete.
    #[n(21)]
    SafetyTerminal(#[n(0)] LatchNumber, #[n(1)] TransactionId),
    /// The sentinel's outbox entry is closed.
    #[n(22)]
    OutboxAcknowledged(#[n(0)] LatchNumber, #[n(1)] Envelope),
    /// An enrolled subject was refused (audit).
    #[n(23)]
    Refused(#[n(0)] SubjectId, #[n(1)] Refusal, #[n(2)] Digest),
    /// Digest of the state after the events before it.
    #[n(24)]
    StateRoot(#[n(0)] StateRootV1),
    /// A person may now be asked; the nonce is reserved.
    #[n(26)]
    ChallengeIssued(
        #[n(0)] ChallengeId,
        #[n(1)] Box<OwnerChallengeV1>,
        #[n(2)] Box<Origination>,
    ),
    /// A committed change of the organism is in force; what it is follows in the same entry.
    #[n(27)]
    Activated(
        #[n(0)] TransactionId,
        #[n(1)] MarkerNumber,
        #[n(2)] Box<AutonomyActivationReceiptV1>,
    ),
    /// This constitution is in force.
    #[n(28)]
    ConstitutionAmended(#[n(0)] Box<ConstitutionV1>),
    /// This grant is in force, in the place of the other if one is named.
    #[n(29)]
    GrantGiven(#[n(0)] Option<GrantId>, #[n(1)] Box<AutonomyGrantV1>),
    /// This subject is enrolled so, or revoked.
    #[n(30)]
    SubjectChanged(#[n(0)] Box<ClientIdentityV1>),
    /// This key of a person is enrolled so, or revoked.
    #[n(31)]
    HumanKeyChanged(#[n(0)] Box<HumanKeyV1>),
    /// This roster is in force.
    #[n(32)]
    RosterChanged(#[n(0)] Box<RosterV1>),
    /// The quorum has no key until its verifiers confirm a new one.
    #[n(33)]
    QuorumKeyVoided(#[n(0)] KeyEpoch),
    /// These grounds are cleared.
    #[n(34)]
    GroundsReset(#[n(0)] Vec<GroundNumber>),
    /// The offline root acted.
    #[n(35)]
    RootActed(#[n(0)] Box<RootActV1>, #[n(1)] Ground, #[n(2)] Envelope),
    /// Features of this level may be proposed.
    #[n(36)]
    FeatureLevelRaised(#[n(0)] u64, #[n(1)] Vec<Envelope>),
    /// A person decided how an effect ended that nobody could say.
    #[n(37)]
    EffectResolved(#[n(0)] TransactionId, #[n(1)] OutcomeKind, #[n(2)] Bytes),
    /// A node came back without its disk.
    #[n(38)]
    NodeRejoined(#[n(0)] Box<RosterV1>, #[n(1)] Envelope),
}

/// Body of [`Event::Authorized`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Authorized {
    /// The one decision.
    #[n(0)]
    pub decision: AuthorityDecisionV1,
    /// The one-shot capability.
    #[n(1)]
    pub capability: AutonomyCapabilityV1,
    /// Its id.
    #[n(2)]
    pub capability_id: CapabilityId,
    /// When the verdict ends.
    #[n(3)]
    pub verdict_expires_at: u64,
    /// The GREEN.
    #[n(4)]
    pub green: Envelope,
    /// What the decision rests on.
    #[n(5)]
    pub basis: Basis,
}

/// What a decision rests on: exactly one variant (M1-I25).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Basis {
    /// Votes.
    #[n(1)]
    Quorum(#[n(0)] Box<QuorumBasis>),
    /// Persons: the decision, and the approvals in the order of its approvers.
    #[n(2)]
    Human(#[n(0)] Box<HumanDecisionV1>, #[n(1)] Vec<HumanApprovalV1>),
    /// Clauses: the decision, and the gate receipts.
    #[n(3)]
    Policy(#[n(0)] Box<PolicyDecisionV1>, #[n(1)] Vec<Envelope>),
}

/// What a quorum's decision rests on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct QuorumBasis {
    /// The votes.
    #[n(0)]
    pub votes: Vec<Envelope>,
    /// Their sheet.
    #[n(1)]
    pub sheet: SealSheetV1,
    /// The quorum's decision.
    #[n(2)]
    pub decision: Envelope,
}

impl Authorized {
    /// What the quorum's decision rests on, if the quorum decided.
    pub fn quorum(&self) -> Option<&QuorumBasis> {
        match &self.basis {
            Basis::Quorum(basis) => Some(basis),
            Basis::Human(..) | Basis::Policy(..) => None,
        }
    }

    /// The votes; none if something else than the quorum decided.
    pub fn votes(&self) -> &[Envelope] {
        self.quorum().map_or(&[], |basis| &basis.votes)
    }
}

impl Event {
    /// A short stable word for lists and logs.
    pub fn word(&self) -> &'static str {
        match self {
            Event::Bootstrapped(..) => "bootstrapped",
            Event::Ticked(..) => "ticked",
            Event::QuorumKeyActivated(..) => "quorum_key_activated",
            Event::Frozen(..) => "frozen",
            Event::Authorized(..) => "authorized",
            Event::Prepared(..) => "prepared",
            Event::Committed(..) => "committed",
            Event::Aborted(..) => "aborted",
            Event::Withdrawn(..) => "withdrawn",
            Event::EffectClaimed(..) => "effect_claimed",
            Event::EffectReported(..) => "effect_reported",
            Event::EffectWithheld(..) => "effect_withheld",
            Event::RedLatched(..) => "red_latched",
            Event::RedChained(..) => "red_chained",
            Event::GrantRevoked(..) => "grant_revoked",
            Event::GrantDemoted(..) => "grant_demoted",
            Event::SafetyIntentStored(..) => "safety_intent_stored",
            Event::SafetyPrepared(..) => "safety_prepared",
            Event::LatchCommitting(..) => "latch_committing",
            Event::SafetyCommitted(..) => "safety_committed",
            Event::EpochPublished(..) => "epoch_published",
            Event::SafetyTerminal(..) => "safety_terminal",
            Event::OutboxAcknowledged(..) => "outbox_acknowledged",
            Event::Refused(..) => "refused",
            Event::StateRoot(..) => "state_root",
            Event::ChallengeIssued(..) => "challenge_issued",
            Event::Activated(..) => "activated",
            Event::ConstitutionAmended(..) => "constitution_amended",
            Event::GrantGiven(..) => "grant_given",
            Event::SubjectChanged(..) => "subject_changed",
            Event::HumanKeyChanged(..) => "human_key_changed",
            Event::RosterChanged(..) => "roster_changed",
            Event::QuorumKeyVoided(..) => "quorum_key_voided",
            Event::GroundsReset(..) => "grounds_reset",
            Event::RootActed(..) => "root_acted",
            Event::FeatureLevelRaised(..) => "feature_level_raised",
            Event::EffectResolved(..) => "effect_resolved",
            Event::NodeRejoined(..) => "node_rejoined",
        }
    }

    /// Whether a head is signed after the entry that holds this event (D4).
    pub fn asks_for_head(&self) -> bool {
        !matches!(
            self,
            Event::Withdrawn(..) | Event::Aborted(..) | Event::Refused(..) | Event::RedChained(..)
        )
    }

    /// Whether the event is positive: what a node that holds an unlatched RED does not cosign.
    pub fn is_positive_marker(&self) -> bool {
        matches!(
            self,
            Event::Committed(..)
                | Event::QuorumKeyActivated(..)
                | Event::EffectClaimed(..)
                | Event::Activated(..)
                | Event::FeatureLevelRaised(..)
        )
    }

    /// Whether somebody may do more after it, or is believed more: what nodes alone do not prove.
    pub fn widens_trust(&self) -> bool {
        match self {
            // Enrolling is, revoking is not.
            Event::SubjectChanged(subject) => subject.revoked_at_optional.is_none(),
            Event::GroundsReset(..)
            | Event::RosterChanged(..)
            | Event::NodeRejoined(..)
            | Event::ConstitutionAmended(..) => true,
            _ => false,
        }
    }

    /// The roster that this event puts in force, if it is one of those that do.
    pub fn roster(&self) -> Option<&RosterV1> {
        match self {
            Event::RosterChanged(roster) | Event::NodeRejoined(roster, _) => Some(roster),
            Event::RootActed(act, _, _) => Some(&act.roster),
            _ => None,
        }
    }

    /// Whether a head over this event is always cosigned, whatever the node holds (D2).
    pub fn is_stop(&self) -> bool {
        matches!(
            self,
            Event::RedLatched(..)
                | Event::GrantRevoked(..)
                | Event::GrantDemoted(..)
                | Event::SafetyIntentStored(..)
                | Event::SafetyPrepared(..)
                | Event::LatchCommitting(..)
                | Event::SafetyCommitted(..)
                | Event::EpochPublished(..)
                | Event::SafetyTerminal(..)
                | Event::OutboxAcknowledged(..)
                | Event::RootActed(..)
        )
    }
}

/// What an accepted command led to; a repeat is answered with the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Accepted {
    /// The organism started.
    #[n(1)]
    Bootstrapped,
    /// State time is this.
    #[n(2)]
    Ticked(#[n(0)] TickNumber, #[n(1)] u64),
    /// The quorum has this key epoch.
    #[n(3)]
    QuorumKeyActivated(#[n(0)] KeyEpoch),
    /// The intent has this digest.
    #[n(4)]
    Frozen(#[n(0)] IntentDigest),
    /// The capability has this id.
    #[n(5)]
    Authorized(#[n(0)] CapabilityId),
    /// The transaction has this id.
    #[n(6)]
    Prepared(#[n(0)] TransactionId),
    /// The marker has this number.
    #[n(7)]
    Committed(#[n(0)] MarkerNumber),
    /// The transaction ended.
    #[n(8)]
    Aborted(#[n(0)] TransactionId),
    /// The intent was taken back.
    #[n(9)]
    Withdrawn(#[n(0)] IntentDigest),
    /// The effect is claimed under this fencing number.
    #[n(10)]
    EffectClaimed(#[n(0)] MarkerNumber),
    /// The outcome is recorded.
    #[n(11)]
    EffectReported(#[n(0)] OutcomeKind),
    /// Latched under these numbers, in order of the segment; known ones are repeated.
    #[n(12)]
    Latched(#[n(0)] Vec<LatchNumber>),
    /// The attempt is stored under this digest.
    #[n(13)]
    SafetyStored(#[n(0)] Digest),
    /// The safety transaction has this id.
    #[n(14)]
    SafetyPrepared(#[n(0)] TransactionId),
    /// The safety marker has this number.
    #[n(15)]
    SafetyCommitted(#[n(0)] MarkerNumber),
    /// The latch is terminal.
    #[n(16)]
    SafetyTerminal(#[n(0)] LatchNumber),
    /// The outbox entry is closed.
    #[n(17)]
    OutboxAcknowledged(#[n(0)] LatchNumber),
    /// A StateRoot follows.
    #[n(18)]
    Checkpointed,
    /// The challenge has this id.
    #[n(19)]
    ChallengeIssued(#[n(0)] ChallengeId),
    /// The change is in force, at this autonomy epoch.
    #[n(20)]
    Activated(#[n(0)] TransactionId, #[n(1)] AutonomyEpoch),
    /// The root's act of this number is in force.
    #[n(21)]
    RootActed(#[n(0)] u64),
    /// Features of this level may be proposed.
    #[n(22)]
    FeatureLevelRaised(#[n(0)] u64),
    /// The node is back, as a learner.
    #[n(23)]
    Rejoined(#[n(0)] NodeId),
}

/// The reply to a command: what it led to, or why nothing happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Reply {
    /// It led to this.
    #[n(1)]
    Accepted(#[n(0)] Accepted),
    /// Nothing happened.
    #[n(2)]
    Refused(#[n(0)] Refusal),
}

impl From<Result<Accepted, Refusal>> for Reply {
    fn from(result: Result<Accepted, Refusal>) -> Self {
        match result {
            Ok(accepted) => Reply::Accepted(accepted),
            Err(refusal) => Reply::Refused(refusal),
        }
    }
}

impl From<Reply> for Result<Accepted, Refusal> {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Accepted(accepted) => Ok(accepted),
            Reply::Refused(refusal) => Err(refusal),
        }
    }
}

impl fmt::Display for GroundCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroundCause::Latch(n) => write!(f, "latch {n}"),
            GroundCause::ChainGap(n) => write!(f, "gap before outbox entry {n}"),
            GroundCause::ChainBreak(n) => write!(f, "fork at outbox entry {n}"),
            GroundCause::RootAct(n) => write!(f, "root act {n}"),
        }
    }
}
