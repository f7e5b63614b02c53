//! `Authority`: the whole state that decisions depend on (DESIGN D3).
//!
//! It holds numbers, not log positions, so two orders of commands that lead to the same
//! authority give equal values. It is bounded: what is terminal leaves it, and absent means
//! spent or void. Nothing here decides; see [`crate::decide`].

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use redlatch_types::event::{Accepted, Ground};
use redlatch_types::records::{
    AuthorityDecisionV1, AutonomyCapabilityV1, AutonomyEpochV1, AutonomyGrantV1, ClientIdentityV1,
    CommitMarkerV1, ConstitutionV1, HumanKeyV1, OrganismKind, OwnerChallengeV1,
    PositiveAuthorityTransactionV1, RedLatchReceiptV1, ResourceRef, RosterV1, SafetyActionIntentV1,
    SafetyKernelV1, SovereignActionIntentV1, grants_digest,
};
use redlatch_types::{
    Bytes, Canonical, ChallengeId, Digest, EventId, GrantId, GroundNumber, HumanKeyId,
    IntentDigest, KeyEpoch, LatchNumber, MarkerNumber, OrganismId, OutboxEpoch, PublicKey,
    ResourceId, Scope, SubjectId, TickNumber, TransactionId,
};

/// The replicated state that decisions depend on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Encode, Decode)]
#[cbor(map)]
pub struct Authority {
    /// Who, under which rules; `None` before genesis.
    #[n(0)]
    pub governance: Option<Governance>,
    /// State time.
    #[n(1)]
    pub clock: Clock,
    /// Live intents.
    #[n(2)]
    pub intents: BTreeMap<IntentDigest, Intent>,
    /// Live positive transactions.
    #[n(3)]
    pub transactions: BTreeMap<TransactionId, Transaction>,
    /// Latches whose outbox entry is not closed.
    #[n(4)]
    pub latches: BTreeMap<LatchNumber, Latch>,
    /// What is frozen and why.
    #[n(5)]
    pub grounds: BTreeMap<GroundNumber, Ground>,
    /// Where the sentinel's chain stands.
    #[n(6)]
    pub outbox: OutboxWatermark,
    /// Resources that effects have touched or hold.
    #[n(7)]
    pub resources: BTreeMap<ResourceId, Resource>,
    /// First outcomes of client commands, until they expire.
    #[n(8)]
    pub idempotency: BTreeMap<SubjectId, BTreeMap<EventId, FirstOutcome>>,
    /// Audit lines written since the last tick, per subject.
    #[n(9)]
    pub audits: BTreeMap<SubjectId, u64>,
    /// Last numbers issued.
    #[n(10)]
    pub issued: Issued,
    /// Intents that made a positive step in the entry being applied (D10).
    #[n(11)]
    pub stepped: BTreeSet<IntentDigest>,
    /// Open challenges to persons; their nonces are reserved, neither consumed nor released.
    #[n(12)]
    pub challenges: BTreeMap<ChallengeId, OwnerChallengeV1>,
}

/// Who takes part and which rules are in force.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Governance {
    /// The organism.
    #[n(0)]
    pub organism_id: OrganismId,
    /// Raised by restore, recover, RootAct.
    #[n(1)]
    pub organism_epoch: u64,
    /// Raised by restore and recover only.
    #[n(2)]
    pub history: u64,
    /// Production or development.
    #[n(3)]
    pub kind: OrganismKind,
    /// The kernel.
    #[n(4)]
    pub kernel: SafetyKernelV1,
    /// The constitution in force.
    #[n(5)]
    pub constitution: ConstitutionV1,
    /// The roster in force.
    #[n(6)]
    pub roster: RosterV1,
    /// The protected epoch record, sole owner of the mode (M1-I20).
    #[n(7)]
    pub epoch: AutonomyEpochV1,
    /// Grants with their use.
    #[n(8)]
    pub grants: BTreeMap<GrantId, Grant>,
    /// Enrolled subjects.
    #[n(9)]
    pub subjects: BTreeMap<SubjectId, ClientIdentityV1>,
    /// The quorum's key.
    #[n(10)]
    pub quorum_key: Option<QuorumKey>,
    /// Keys of persons, revoked ones too: a revoked key never comes back.
    #[n(11)]
    pub human_keys: BTreeMap<HumanKeyId, HumanKey>,
    /// What may be proposed: the level that every node's build supports.
    #[n(12)]
    pub feature_level: u64,
    /// Acts of the offline root so far.
    #[n(13)]
    pub root_acts: u64,
    /// Highest epoch that a key of the quorum has had.
    #[n(14)]
    pub last_key_epoch: KeyEpoch,
}

/// A person's key and the last signature counter that it showed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct HumanKey {
    /// The key as it is enrolled.
    #[n(0)]
    pub key: HumanKeyV1,
    /// Last counter.
    #[n(1)]
    pub counter: u32,
}

/// A grant and how much of its budget is committed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Grant {
    /// The grant.
    #[n(0)]
    pub grant: AutonomyGrantV1,
    /// Actions committed under it.
    #[n(1)]
    pub committed: u64,
}

/// The quorum's active key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct QuorumKey {
    /// Its epoch.
    #[n(0)]
    pub epoch: KeyEpoch,
    /// The group's Ed25519 key.
    #[n(1)]
    pub group_key: PublicKey,
    /// Digest of the FROST public key package.
    #[n(2)]
    pub public_key_package_digest: Digest,
}

/// State time and the tick that set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Encode, Decode)]
#[cbor(map)]
pub struct Clock {
    /// Last tick.
    #[n(0)]
    pub tick: TickNumber,
    /// State time, milliseconds since the Unix epoch.
    #[n(1)]
    pub state_time: u64,
}

/// A live intent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Intent {
    /// The intent.
    #[n(0)]
    pub intent: SovereignActionIntentV1,
    /// State time of the freeze.
    #[n(1)]
    pub frozen_at: u64,
    /// How far it came.
    #[n(2)]
    pub stage: IntentStage,
}

/// How far an intent came. Each stage is one commit later than the one before.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum IntentStage {
    /// Its bytes may be signed about.
    #[n(1)]
    Frozen,
    /// Decided; the capability is not consumed.
    #[n(2)]
    Authorized(#[n(0)] Box<Permit>),
    /// The capability is consumed by this transaction.
    #[n(3)]
    InTransaction(#[n(0)] TransactionId),
}

/// A decision with its unspent capability.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Permit {
    /// The decision.
    #[n(0)]
    pub decision: AuthorityDecisionV1,
    /// The capability.
    #[n(1)]
    pub capability: AutonomyCapabilityV1,
    /// When the verdict ends.
    #[n(2)]
    pub verdict_expires_at: u64,
}

/// A live positive transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Transaction {
    /// As stored by PREPARE.
    #[n(0)]
    pub transaction: PositiveAuthorityTransactionV1,
    /// When the verdict ends.
    #[n(1)]
    pub verdict_expires_at: u64,
    /// How far it came.
    #[n(2)]
    pub stage: TransactionStage,
}

/// How far a positive transaction came (SPEC E.12).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum TransactionStage {
    /// Nothing visible.
    #[n(1)]
    Prepared,
    /// The marker stands; what the effect is at.
    #[n(2)]
    Committed(#[n(0)] Box<CommitMarkerV1>, #[n(1)] EffectStage),
}

/// What a committed effect is at (DESIGN §5.7).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum EffectStage {
    /// Not claimed.
    #[n(1)]
    Unclaimed,
    /// Claimed with this claim and effect key; the world may have changed.
    #[n(2)]
    Claimed(#[n(0)] Digest, #[n(1)] Digest),
    /// Reported as made, at this state time.
    #[n(3)]
    Done(#[n(0)] u64),
    /// Reported as not made, at this state time.
    #[n(4)]
    Failed(#[n(0)] u64),
    /// Nobody can say; the resource stays reserved until a person decides.
    #[n(5)]
    Unknown,
    /// A latch came before the claim, at this state time.
    #[n(6)]
    Withheld(#[n(0)] u64),
}

/// A latch and its current attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Latch {
    /// The receipt, which holds the mandate.
    #[n(0)]
    pub receipt: RedLatchReceiptV1,
    /// Where it stands (SPEC E.10).
    #[n(1)]
    pub state: LatchState,
    /// The last attempt; earlier ones are dead.
    #[n(2)]
    pub attempt: Option<Attempt>,
}

/// PENDING, COMMITTING, TERMINAL (SPEC E.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub enum LatchState {
    /// Latched; the mandate is not carried out.
    #[n(1)]
    Pending,
    /// Claimed by this transaction.
    #[n(2)]
    Committing(#[n(0)] TransactionId),
    /// Carried out by this transaction.
    #[n(3)]
    Terminal(#[n(0)] TransactionId),
}

/// A safety attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Attempt {
    /// As stored before it was signed.
    #[n(0)]
    pub intent: SafetyActionIntentV1,
    /// State time when it was stored.
    #[n(1)]
    pub stored_at: u64,
    /// Its transaction, once prepared.
    #[n(2)]
    pub prepared: Option<TransactionId>,
}

/// Where the sentinel's chain stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Encode, Decode)]
#[cbor(map)]
pub struct OutboxWatermark {
    /// Last number latched in order.
    #[n(0)]
    pub number: OutboxEpoch,
    /// Root after it.
    #[n(1)]
    pub root: Option<Digest>,
    /// Latched before their predecessors: number to root.
    #[n(2)]
    pub early: BTreeMap<OutboxEpoch, Digest>,
    /// Latched although they cannot be in this chain: digests of their bodies.
    #[n(3)]
    pub broken: BTreeSet<Digest>,
    /// Latches up to this one rest on REDs of a sentinel that the root has replaced.
    #[n(4)]
    pub begins_after: LatchNumber,
}

/// A resource that effects change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Resource {
    /// What it is.
    #[n(0)]
    pub resource: ResourceRef,
    /// Its authoritative head, once an effect on it was reported.
    #[n(1)]
    pub head: Option<Bytes>,
    /// Moves with every reported effect.
    #[n(2)]
    pub store_version: u64,
    /// The transaction that holds it, if it still holds.
    #[n(3)]
    pub reserved_by: Option<TransactionId>,
}

/// The first outcome of a client's command.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct FirstOutcome {
    /// Digest of the payload.
    #[n(0)]
    pub payload_digest: Digest,
    /// What it led to.
    #[n(1)]
    pub accepted: Accepted,
    /// How long it is remembered.
    #[n(2)]
    pub expires_at: u64,
}

/// Last numbers issued, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Encode, Decode)]
#[cbor(map)]
pub struct Issued {
    /// Markers, positive and safety.
    #[n(0)]
    pub marker: MarkerNumber,
    /// Latches.
    #[n(1)]
    pub latch: LatchNumber,
    /// Grounds.
    #[n(2)]
    pub ground: GroundNumber,
}

impl Authority {
    /// SHA-256 of the canonical bytes.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }

    /// The scope in which records must be signed now; `None` before genesis.
    pub fn scope(&self) -> Option<Scope> {
        self.governance.as_ref().map(Governance::scope)
    }

    /// The latches that fence: all that are not TERMINAL.
    pub fn pending_latches(&self) -> impl Iterator<Item = &Latch> {
        self.latches
            .values()
            .filter(|l| !matches!(l.state, LatchState::Terminal(_)))
    }

    /// `expected_pending_red_set_digest` of SPEC C.35.
    pub fn pending_red_set_digest(&self) -> Digest {
        let pending: Vec<_> = self
            .pending_latches()
            .map(|l| l.receipt.latch_epoch)
            .collect();
        Digest::of(&pending.to_canonical())
    }

    /// Committed transactions whose effect may be in the world and is covered by `covers`.
    pub fn effects_in_world(&self) -> impl Iterator<Item = (&TransactionId, &Transaction)> {
        self.transactions.iter().filter(|(_, t)| {
            matches!(
                t.stage,
                TransactionStage::Committed(
                    _,
                    EffectStage::Claimed(..) | EffectStage::Done(_) | EffectStage::Unknown
                )
            )
        })
    }
}

impl Governance {
    /// The scope in which records must be signed now.
    pub fn scope(&self) -> Scope {
        Scope {
            organism_id: self.organism_id,
            organism_epoch: self.organism_epoch,
        }
    }

    /// Whether `subject` is enrolled and not revoked.
    pub fn enrolled(&self, subject: &SubjectId) -> Option<&ClientIdentityV1> {
        self.subjects
            .get(subject)
            .filter(|s| s.revoked_at_optional.is_none())
    }

    /// `grants_digest` of SPEC C.13.
    pub fn grants_digest(&self) -> Digest {
        grants_digest(self.grants.values().map(|g| &g.grant))
    }

    /// The live subject enrolled with `key`.
    pub fn subject_by_key(&self, key: &PublicKey) -> Option<&ClientIdentityV1> {
        self.subjects
            .values()
            .find(|s| s.public_key == *key && s.revoked_at_optional.is_none())
    }

    /// `quorum_policy_digest`: the constitution's terms on quorum decisions.
    pub fn quorum_policy_digest(&self) -> Digest {
        self.constitution.quorum_policy_digest()
    }
}
