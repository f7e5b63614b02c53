//! What a client sends: the signed causal envelope and its payload (SPEC C.3, DESIGN §5.1).

use minicbor::{Decode, Encode};

use super::action::{ActionPayload, RollbackPlan};
use super::base::{ActorKind, Ingress, Text};
use crate::bytes::Digest;
use crate::ids::{CapabilityId, EventId, GrantId, IntentDigest, MissionId, Name, SubjectId};

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
    /// Grant relied on; none where a human decides and no grant is needed.
    #[n(2)]
    pub applicable_grant_id: Option<GrantId>,
    /// Who makes the effect: for `land` the gate of the repository. None inside the journal.
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
    /// By which way the request came in.
    #[n(14)]
    pub ingress: Ingress,
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
