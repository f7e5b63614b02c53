//! People who decide: their keys, the challenge they are shown, their approval (SPEC C.6 to C.8, C.18).
//!
//! ```text
//!   frozen intent ─▶ OwnerChallengeV1 (nonce reserved) ─▶ authenticator signs its digest
//!                                                             └─▶ HumanApprovalV1 ─▶ HumanDecisionV1
//! ```
//!
//! An approver is a person: two credentials of one person count once, and nobody approves what
//! a subject of the same person proposed (M1-I12, M1-I26).

use std::fmt;

use minicbor::{Decode, Encode};

use super::base::{Text, words};
use super::binding::CommonBindingSet;
use crate::bytes::{Bytes, Digest};
use crate::codec::Canonical;
use crate::ids::{ChallengeId, HumanKeyId, IntentDigest, SubjectId};

words! {
    /// How well a key is kept (`attestation_class` of SPEC C.6).
    AttestationClass {
        /// On hardware that does not give it out.
        1 Hardware "hardware",
        /// In the platform's keystore, not exportable.
        2 Platform "platform",
        /// In a file: for development organisms only.
        3 Software "software",
    }
}

/// An enrolled key of a person: one entry of the HumanKeyRegistry (SPEC C.6).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct HumanKeyV1 {
    /// The person.
    #[n(0)]
    pub subject_id: SubjectId,
    /// The authenticator's id of the credential, 1 to 1,023 bytes.
    #[n(1)]
    pub credential_id: Bytes,
    /// Its public key: the one COSE encoding of an ES256 or EdDSA key (RFC 9053 §7).
    #[n(2)]
    pub public_key: Bytes,
    /// Platform of the authenticator, for people.
    #[n(3)]
    pub platform: Text,
    /// How well the key is kept.
    #[n(4)]
    pub attestation_class: AttestationClass,
    /// Application or host it was enrolled in, for people.
    #[n(5)]
    pub app_host_identity: Text,
    /// Evidence from enrolment.
    #[n(6)]
    pub enrollment_evidence: Digest,
    /// Action classes it may decide, by word; empty means none (M1-I8).
    #[n(7)]
    pub scopes: Vec<super::base::ActionClass>,
    /// When it was enrolled.
    #[n(8)]
    pub created_at: u64,
    /// When it took the place of another key of the same person.
    #[n(9)]
    pub rotated_at_optional: Option<u64>,
    /// When it was revoked.
    #[n(10)]
    pub revoked_at_optional: Option<u64>,
    /// Signature counter at enrolment.
    #[n(11)]
    pub counter: u32,
    /// Whether it was enrolled as one that may be copied to other devices; never changes.
    #[n(12)]
    pub backup_eligible: bool,
}

impl HumanKeyV1 {
    /// `key_id` of SPEC C.6: over person, credential id and key, which never change.
    pub fn id(&self) -> HumanKeyId {
        let what = (&self.subject_id, &self.credential_id, &self.public_key);
        let bytes = minicbor::to_vec(what).expect("encoding into memory cannot fail");
        HumanKeyId(Digest::of_parts(&[b"redlatch/v1/human-key-id\0", &bytes]))
    }
}

/// A client asks that a person be challenged about a frozen intent (SPEC F.3).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct ChallengeRequestV1 {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// The person.
    #[n(1)]
    pub approver_subject_id: SubjectId,
    /// Randomness of the person's own client: nobody else can know the challenge before.
    #[n(2)]
    pub nonce: Digest,
}

/// What a person is asked to approve (SPEC C.7). Composed by the journal; its
/// `owner_signature` is the receipt of its leaf (D4).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct OwnerChallengeV1 {
    /// The common binding set of the intent.
    #[n(0)]
    pub binding: CommonBindingSet,
    /// Audience of the intent.
    #[n(1)]
    pub audience: crate::ids::Name,
    /// Action of the intent.
    #[n(2)]
    pub action: super::base::ActionClass,
    /// Digest of the action.
    #[n(3)]
    pub payload_digest: Digest,
    /// Idempotency key of the proposal.
    #[n(4)]
    pub idempotency_key: crate::ids::EventId,
    /// Kernel in force.
    #[n(5)]
    pub safety_kernel_digest: Digest,
    /// Who is asked.
    #[n(6)]
    pub approver_subject_id: SubjectId,
    /// The text that the person sees, byte for byte.
    #[n(7)]
    pub canonical_summary: Bytes,
    /// Single-use value: the client's, drawn together with the journal's position.
    #[n(8)]
    pub nonce: Digest,
    /// State time of issue.
    #[n(9)]
    pub issued_at: u64,
    /// State time past which it is void.
    #[n(10)]
    pub expires_at: u64,
}

impl OwnerChallengeV1 {
    /// `challenge_id` of SPEC: the digest of the record.
    pub fn id(&self) -> ChallengeId {
        ChallengeId(Digest::of(&self.to_canonical()))
    }
}

/// A person's approval: a WebAuthn assertion over the challenge (SPEC C.8). Its signature is
/// the authenticator's, over the bytes below.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct HumanApprovalV1 {
    /// The challenge.
    #[n(0)]
    pub challenge_id: ChallengeId,
    /// The key that approves.
    #[n(1)]
    pub key_id: HumanKeyId,
    /// The authenticator's data: relying party, presence flags, counter.
    #[n(2)]
    pub authenticator_data: Bytes,
    /// The client's data: type, challenge, origin.
    #[n(3)]
    pub client_data_json: Bytes,
    /// The assertion's signature.
    #[n(4)]
    pub signature: Bytes,
    /// The public key it is made with, as COSE writes it; must be the enrolled one.
    #[n(5)]
    pub public_key: Bytes,
    /// The flags in the authenticator's data: bit 0 present, bit 2 verified (WebAuthn §6.1).
    #[n(6)]
    pub user_presence_flags: u8,
    /// The counter in the authenticator's data.
    #[n(7)]
    pub counter: u32,
}

impl HumanApprovalV1 {
    /// `human_approval_digest` of SPEC C.18.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }
}

/// The human decision (SPEC C.18). Composed by the journal from the approvals.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct HumanDecisionV1 {
    /// The common binding set.
    #[n(0)]
    pub binding: CommonBindingSet,
    /// The challenges that were answered, ascending.
    #[n(1)]
    pub challenge_ids: Vec<ChallengeId>,
    /// `human_approval_digest` of SPEC, one per approver, in the order of the approvers.
    #[n(2)]
    pub human_approval_digests: Vec<Digest>,
    /// The persons, ascending and each once.
    #[n(3)]
    pub approvers: Vec<SubjectId>,
    /// State time of the decision.
    #[n(4)]
    pub issued_at: u64,
    /// When it ends: that of the verdict.
    #[n(5)]
    pub expires_at: u64,
}

impl HumanDecisionV1 {
    /// `decision_id` of SPEC C.18: the digest of the record.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }
}
