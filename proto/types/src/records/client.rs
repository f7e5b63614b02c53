//! What a client sends: the signed causal envelope and its payload (SPEC C.3, DESIGN §5.1).

use minicbor::{Decode, Encode};

use super::base::{ActionClass, ActorKind, Text};
use crate::bytes::{Bytes, Digest};
use crate::codec::Canonical;
use crate::ids::{
    CapabilityId, EventId, GrantId, IntentDigest, MissionId, Name, ResourceId, SubjectId,
};

/// The header that binds a command to its actor and its cause (SPEC C.3). Signed by the actor.
///
/// `key_id`, `algorithm` and `signature` of SPEC are those of the [`crate::Envelope`] around it;
/// `organism_id` is that of its scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct CausalEnvelopeV1 {
    /// Unique for this actor; the idempotency key of the command.
    #[n(0)]
    pub event_id: EventId,
    /// The acting subject; must be the one enrolled with the signing key.
    #[n(1)]
    pub actor_id: SubjectId,
    /// Its kind; must be the enrolled one.
    #[n(2)]
    pub actor_kind: ActorKind,
    /// Who issued the envelope.
    #[n(3)]
    pub issuer: SubjectId,
    /// Mission concerned.
    #[n(4)]
    pub mission_id_optional: Option<MissionId>,
    /// Store version the event was based on.
    #[n(5)]
    pub store_version_optional: Option<u64>,
    /// Digest of the target acted on.
    #[n(6)]
    pub target_digest_optional: Option<Digest>,
    /// Event that caused this one.
    #[n(7)]
    pub causation_id_optional: Option<EventId>,
    /// Groups the events of one flow.
    #[n(8)]
    pub correlation_id: EventId,
    /// Digest of the payload that comes with it.
    #[n(9)]
    pub payload_digest: Digest,
    /// State time at signing, from a signed Status.
    #[n(10)]
    pub issued_at: u64,
    /// State time past which the command is neither accepted nor repeated; at most 24 h ahead.
    #[n(11)]
    pub expires_at: u64,
    /// Capability used. Refused if set: a client uses none, PREPARE names it.
    #[n(12)]
    pub capability_id_optional: Option<CapabilityId>,
    /// Mission head that the event was based on. Refused if set: no letters are kept yet.
    #[n(13)]
    pub mission_head_id_optional: Option<Digest>,
    /// Delegation concerned: the payload's.
    #[n(14)]
    pub delegation_id_optional: Option<Digest>,
    /// System block concerned. Refused if set: no blocks are kept yet.
    #[n(15)]
    pub block_id_optional: Option<Digest>,
    /// Receipt concerned. Refused if set: no command acts on one yet.
    #[n(16)]
    pub receipt_id_optional: Option<Digest>,
    /// Presence or session concerned. Refused if set: none is kept.
    #[n(17)]
    pub presence_id_optional: Option<Digest>,
}

/// What a client asks to have frozen as an intent. Everything it could lie about is left out:
/// caller, variant, tier, epochs and digests are added by the journal (M1-I26).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct ProposalV1 {
    /// Intended audience, for people.
    #[n(0)]
    pub audience: Name,
    /// What is to be done.
    #[n(1)]
    pub payload: ActionPayload,
    /// Grant relied on.
    #[n(2)]
    pub applicable_grant_id: GrantId,
    /// Who makes the effect: for `land` the gate of the repository.
    #[n(3)]
    pub executor_subject_id_optional: Option<SubjectId>,
    /// Explicit delegation when caller and grant subject differ.
    #[n(4)]
    pub delegation_grant_digest_optional: Option<Digest>,
    /// Subject that a promotion concerns.
    #[n(5)]
    pub promotion_target_subject_id_optional: Option<SubjectId>,
    /// Store version of the resource that the proposal was made on.
    #[n(6)]
    pub expected_store_version: u64,
    /// Boundary version likewise.
    #[n(7)]
    pub expected_boundary_version: u64,
    /// Contract version likewise.
    #[n(8)]
    pub expected_contract_version: u64,
    /// Digests of the evidence (gate receipts), ascending.
    #[n(9)]
    pub evidence: Vec<Digest>,
    /// What undoes the effect.
    #[n(10)]
    pub rollback: RollbackPlan,
    /// State time past which the intent is void; at most 30 d ahead.
    #[n(11)]
    pub expires_at: u64,
    /// Milliseconds after COMMIT within which the effect must be claimed; at most 24 h.
    #[n(12)]
    pub effect_deadline_ms: u64,
    /// Mission concerned.
    #[n(13)]
    pub mission_id_optional: Option<MissionId>,
}

/// The action itself, by class.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum ActionPayload {
    /// Move a ref of a repository to a candidate commit.
    #[n(1)]
    Land(#[n(0)] LandPayload),
}

impl ActionPayload {
    /// The class of the action.
    pub fn class(&self) -> ActionClass {
        match self {
            ActionPayload::Land(_) => ActionClass::Land,
        }
    }

    /// The resource that the action changes.
    pub fn resource(&self) -> &GitRef {
        match self {
            ActionPayload::Land(land) => &land.resource,
        }
    }
}

/// One ref of one repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct GitRef {
    /// Repository, by the name under which gates and grants know it.
    #[n(0)]
    pub repository: Name,
    /// Full name of the ref, `refs/heads/…`.
    #[n(1)]
    pub reference: Text,
}

impl GitRef {
    /// The resource's identifier: digest of this record.
    pub fn id(&self) -> ResourceId {
        ResourceId(Digest::of(&self.to_canonical()))
    }
}

/// Payload of `land`: compare-and-swap of one ref.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct LandPayload {
    /// The ref.
    #[n(0)]
    pub resource: GitRef,
    /// Full object id that the ref must have; empty if the ref must not exist.
    #[n(1)]
    pub old: Bytes,
    /// Full object id of the candidate commit.
    #[n(2)]
    pub new: Bytes,
}

impl LandPayload {
    /// `candidate_digest` of SPEC: which commit in which repository.
    pub fn candidate_digest(&self) -> Digest {
        Digest::of(&(&self.resource.repository, &self.new).to_canonical_pair())
    }
}

/// Encodes a pair of borrowed values canonically, without building an owned record.
trait CanonicalPair {
    fn to_canonical_pair(&self) -> Vec<u8>;
}

impl<A: Encode<()>, B: Encode<()>> CanonicalPair for (&A, &B) {
    fn to_canonical_pair(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("encoding into memory cannot fail")
    }
}

/// What undoes an effect, bound in the intent (SPEC A.4, negative mandate).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum RollbackPlan {
    /// Move the ref back to its old value by compare-and-swap; if it moved on, freeze the ref.
    #[n(1)]
    MoveRefBack,
    /// Freeze the ref and leave it to people.
    #[n(2)]
    FreezeRef,
}

impl RollbackPlan {
    /// `rollback_candidate_plan_digest` of SPEC C.25 for this plan and action.
    pub fn digest(&self, payload: &ActionPayload) -> Digest {
        Digest::of(&(self, payload).to_canonical_pair())
    }
}

/// A proposer takes back an intent or transaction that is not committed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct WithdrawalV1 {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// Why, for people.
    #[n(1)]
    pub reason: Text,
}
