//! The genesis: the root-signed bundle from which an organism starts (DESIGN §9).

use std::fmt;

use minicbor::{Decode, Encode};

use super::base::{ActorKind, Text, words};
use super::governance::{
    AutonomyActivationReceiptV1, AutonomyGrantV1, ConstitutionV1, SafetyKernelV1,
};
use super::human::HumanKeyV1;
use super::roster::RosterV1;
use crate::bytes::PublicKey;
use crate::codec::Canonical;
use crate::ids::{Name, OrganismId, SubjectId};
use crate::{Digest, Scope};

words! {
    /// Whether an organism is for real. Receipts of the two kinds have different origins.
    OrganismKind {
        /// For real.
        1 Production "production",
        /// For development: its keys stand on one disk; gates and auditors refuse it elsewhere.
        2 Development "development",
    }
}

/// An enrolled caller (SPEC C.4).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct ClientIdentityV1 {
    /// Name of the subject; the caller is derived from the key, never supplied (M1-I26).
    #[n(0)]
    pub subject_id: SubjectId,
    /// What kind of actor it is.
    #[n(1)]
    pub actor_kind: ActorKind,
    /// Its key. `key_id` is the key itself.
    #[n(2)]
    pub public_key: PublicKey,
    /// Application or host it runs in, for people.
    #[n(3)]
    pub app_host_identity: Text,
    /// Evidence from enrolment.
    #[n(4)]
    pub enrollment_evidence: Digest,
    /// Repositories it may act on. Empty means none (M1-I8).
    #[n(5)]
    pub scopes: Vec<Name>,
    /// Who enrolled it.
    #[n(6)]
    pub issuer: SubjectId,
    /// When it was enrolled.
    #[n(7)]
    pub created_at: u64,
    /// When it was revoked.
    #[n(8)]
    pub revoked_at_optional: Option<u64>,
    /// The person whose client it is: nobody approves what their own client proposed.
    #[n(9)]
    pub person_optional: Option<SubjectId>,
}

impl ClientIdentityV1 {
    /// The person behind it; the subject itself if no other is named.
    pub fn person(&self) -> &SubjectId {
        self.person_optional.as_ref().unwrap_or(&self.subject_id)
    }
}

/// The bundle that an offline root signs to start an organism.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct GenesisV1 {
    /// Name for people.
    #[n(0)]
    pub organism_name: Name,
    /// Production or development.
    #[n(1)]
    pub kind: OrganismKind,
    /// When it was made; state time starts here.
    #[n(2)]
    pub created_at: u64,
    /// Draws one organism apart from another with the same content.
    #[n(3)]
    pub nonce: Digest,
    /// Floors and pins.
    #[n(4)]
    pub kernel: SafetyKernelV1,
    /// The first constitution.
    #[n(5)]
    pub constitution: ConstitutionV1,
    /// The first roster.
    #[n(6)]
    pub roster: RosterV1,
    /// Enrolled subjects, ascending by name.
    #[n(7)]
    pub subjects: Vec<ClientIdentityV1>,
    /// Grants; empty in production (DESIGN §13.5).
    #[n(8)]
    pub grants: Vec<AutonomyGrantV1>,
    /// Activation receipts in order: HUMAN_GATED at epoch 1, and in development one more.
    #[n(9)]
    pub activations: Vec<AutonomyActivationReceiptV1>,
    /// Enrolled keys of persons, ascending by id.
    #[n(10)]
    pub human_keys: Vec<HumanKeyV1>,
    /// Feature level that all founding nodes support; at least 1.
    #[n(11)]
    pub feature_level: u64,
}

impl GenesisV1 {
    /// The organism that this genesis starts.
    pub fn organism_id(&self) -> OrganismId {
        OrganismId(Digest::of(&self.to_canonical()))
    }

    /// The scope in which the genesis and all of epoch 1 is signed.
    pub fn scope(&self) -> Scope {
        Scope {
            organism_id: self.organism_id(),
            organism_epoch: 1,
        }
    }
}
