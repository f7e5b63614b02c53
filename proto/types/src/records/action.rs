//! Actions: what a sovereign action does, to which resource, and what undoes it (SPEC H.1, DESIGN §9).
//!
//! ```text
//!   outside the journal (an executor claims, makes, reports)   inside it (its own Activate, DESIGN §5.8)
//!   land · release_promote · block_ratify · block_archive ·    constitution_amend · mode_activate · grant_change ·
//!   external_effect                                            resolve_effect · subject_change · key_change · roster_change ·
//!                                                              verifier_set_change · reset_frozen
//! ```
//!
//! Every action changes exactly one resource, by compare-and-set on that resource's version and,
//! outside the journal, on its head. A resource has a realm and a path, and by these two alone
//! grants and allow-lists cover it.

use std::fmt;

use minicbor::{Decode, Encode};

use super::base::{ActionClass, Mode, Text, Tier};
use super::effect::OutcomeKind;
use super::genesis::ClientIdentityV1;
use super::governance::{AutonomyGrantV1, ConstitutionV1, ResourceScope};
use super::human::HumanKeyV1;
use super::roster::{RosterNode, RosterVerifier};
use crate::bytes::{Bytes, Digest};
use crate::codec::Canonical;
use crate::ids::{
    GrantId, GroundNumber, HumanKeyId, Name, NodeId, ResourceId, SubjectId, TransactionId,
};

/// The realm of everything that the journal itself keeps. No repository may have this name.
pub const ORGANISM_REALM: &str = "organism";

/// The action itself, by class.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum ActionPayload {
    /// Move a ref of a repository to a candidate commit.
    #[n(1)]
    Land(#[n(0)] LandPayload),
    /// Promote a release to a channel of an environment.
    #[n(2)]
    ReleasePromote(#[n(0)] SwapPayload),
    /// Replace the constitution.
    #[n(3)]
    ConstitutionAmend(#[n(0)] Box<AmendPayload>),
    /// Activate a mode.
    #[n(4)]
    ModeActivate(#[n(0)] ModePayload),
    /// Give, lower or take a grant.
    #[n(5)]
    GrantChange(#[n(0)] Box<GrantPayload>),
    /// Change the nodes, one a step.
    #[n(6)]
    RosterChange(#[n(0)] Box<RosterPayload>),
    /// Re-open what is frozen.
    #[n(7)]
    ResetFrozen(#[n(0)] ResetPayload),
    /// Ratify a block.
    #[n(8)]
    BlockRatify(#[n(0)] SwapPayload),
    /// Archive a block.
    #[n(9)]
    BlockArchive(#[n(0)] SwapPayload),
    /// Enrol, rotate or revoke a subject.
    #[n(10)]
    SubjectChange(#[n(0)] Box<SubjectPayload>),
    /// Enrol, rotate or revoke a person's key.
    #[n(11)]
    KeyChange(#[n(0)] Box<KeyPayload>),
    /// Replace the voting verifiers; the quorum then needs a new key.
    #[n(12)]
    VerifierSetChange(#[n(0)] Vec<RosterVerifier>),
    /// Any other effect that an enrolled effector makes.
    #[n(13)]
    ExternalEffect(#[n(0)] SwapPayload),
    /// Say how a claimed effect ended that its executor could not say (DESIGN §5.7).
    #[n(14)]
    ResolveEffect(#[n(0)] ResolvePayload),
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

/// Payload of every other effect outside the journal: compare-and-swap of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct SwapPayload {
    /// The resource.
    #[n(0)]
    pub resource: ExternalResource,
    /// Its head before, as its executor names it; empty if there must be none.
    #[n(1)]
    pub old: Bytes,
    /// Its head after: for a release the digest of exactly the tested artifact (M1-I10).
    #[n(2)]
    pub new: Bytes,
}

/// Payload of `constitution_amend`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct AmendPayload {
    /// The constitution to be in force, naming the one before and the next epoch.
    #[n(0)]
    pub constitution: ConstitutionV1,
}

/// Payload of `mode_activate`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct ModePayload {
    /// The mode.
    #[n(0)]
    pub mode: Mode,
    /// State time before which it cannot be activated.
    #[n(1)]
    pub activates_at: u64,
    /// Gate receipts that show the mode proven.
    #[n(2)]
    pub gate_receipts_digest: Digest,
    /// How one comes back from it.
    #[n(3)]
    pub rollback_plan_digest: Digest,
}

/// Payload of `grant_change` (SPEC E.9).
#[expect(
    clippy::large_enum_variant,
    reason = "it stands in a box wherever it is carried"
)]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum GrantPayload {
    /// Give a grant, or raise one by one tier. Needs a dataset and a rollback (M1-I11).
    #[n(1)]
    Promote(#[n(0)] PromotionPayload),
    /// Lower a grant to this tier.
    #[n(2)]
    Demote(#[n(0)] GrantId, #[n(1)] Tier),
    /// Take a grant.
    #[n(3)]
    Revoke(#[n(0)] GrantId),
}

/// A promotion: for one subject, action, risk, resource and budget, never in general (M1-I17).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct PromotionPayload {
    /// The grant to be given.
    #[n(0)]
    pub grant: AutonomyGrantV1,
    /// The grant it replaces, one tier below and of the same tuple; none for a first one, which is at most A1.
    #[n(1)]
    pub replaces_optional: Option<GrantId>,
    /// The data on which the promotion gate passed; of the same action, risk and resource (M1-L7).
    #[n(2)]
    pub dataset_digest: Digest,
    /// How it is taken back.
    #[n(3)]
    pub rollback_digest: Digest,
}

/// Payload of `roster_change`: one node a step (D9).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum RosterPayload {
    /// A node joins and counts for nothing yet.
    #[n(1)]
    Join(#[n(0)] RosterNode),
    /// A learner becomes a voter.
    #[n(2)]
    Promote(#[n(0)] NodeId),
    /// A node leaves.
    #[n(3)]
    Remove(#[n(0)] NodeId),
}

/// Payload of `reset_frozen` (DESIGN §6).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct ResetPayload {
    /// Every live ground of the scope, ascending.
    #[n(0)]
    pub grounds: Vec<GroundNumber>,
    /// What had gone wrong and is repaired, for people and for the sentinel.
    #[n(1)]
    pub cause: Text,
}

/// Payload of `resolve_effect`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct ResolvePayload {
    /// The transaction whose effect is claimed and has no outcome.
    #[n(0)]
    pub transaction_id: TransactionId,
    /// How it ended; `outcome_unknown` is no answer.
    #[n(1)]
    pub outcome: OutcomeKind,
    /// Head of the resource as people found it.
    #[n(2)]
    pub observed_head: Bytes,
}

/// Payload of `subject_change`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum SubjectPayload {
    /// Enrol a subject.
    #[n(1)]
    Enrol(#[n(0)] ClientIdentityV1),
    /// Replace an enrolled subject's key and particulars.
    #[n(2)]
    Rotate(#[n(0)] ClientIdentityV1),
    /// Revoke a subject, for ever.
    #[n(3)]
    Revoke(#[n(0)] SubjectId),
}

/// Payload of `key_change` (SPEC C.6).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
pub enum KeyPayload {
    /// Enrol a person's key.
    #[n(1)]
    Enrol(#[n(0)] HumanKeyV1),
    /// Replace a key of the same person.
    #[n(2)]
    Rotate(#[n(0)] HumanKeyId, #[n(1)] HumanKeyV1),
    /// Revoke a key, for ever.
    #[n(3)]
    Revoke(#[n(0)] HumanKeyId),
}

/// One ref of one repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(map)]
pub struct GitRef {
    /// Repository, by the name under which gates and grants know it.
    #[n(0)]
    pub repository: Name,
    /// Full name of the ref, `refs/heads/…`.
    #[n(1)]
    pub reference: Text,
}

/// A resource outside the journal that is no git ref.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(map)]
pub struct ExternalResource {
    /// Environment or system, by the name under which its executor is enrolled.
    #[n(0)]
    pub realm: Name,
    /// Its name there: `channels/stable`, `blocks/42`.
    #[n(1)]
    pub path: Text,
}

/// What an action changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum ResourceRef {
    /// A ref.
    #[n(1)]
    GitRef(#[n(0)] GitRef),
    /// Something else outside.
    #[n(2)]
    External(#[n(0)] ExternalResource),
    /// A part of the organism itself.
    #[n(3)]
    Organism(#[n(0)] Text),
}

impl GitRef {
    /// The resource's identifier: digest of this record.
    pub fn id(&self) -> ResourceId {
        ResourceId(Digest::of(&self.to_canonical()))
    }
}

impl ResourceRef {
    /// The resource's identifier.
    pub fn id(&self) -> ResourceId {
        match self {
            ResourceRef::GitRef(git) => git.id(),
            other => ResourceId(Digest::of_parts(&[
                b"redlatch/v1/resource\0",
                &other.to_canonical(),
            ])),
        }
    }

    /// The name by which subjects are allowed to act on it.
    pub fn realm(&self) -> &str {
        match self {
            ResourceRef::GitRef(git) => git.repository.as_str(),
            ResourceRef::External(external) => external.realm.as_str(),
            ResourceRef::Organism(_) => ORGANISM_REALM,
        }
    }

    /// Its name inside its realm.
    pub fn path(&self) -> &str {
        match self {
            ResourceRef::GitRef(git) => git.reference.as_str(),
            ResourceRef::External(external) => external.path.as_str(),
            ResourceRef::Organism(part) => part.as_str(),
        }
    }

    /// The ref, if it is one.
    pub fn git_ref(&self) -> Option<&GitRef> {
        match self {
            ResourceRef::GitRef(git) => Some(git),
            _ => None,
        }
    }

    /// Whether `scope` covers it. An empty prefix covers nothing (M1-I8).
    pub fn covered_by(&self, scope: &ResourceScope) -> bool {
        let prefix = scope.ref_prefix.as_str();
        !prefix.is_empty()
            && scope.repository.as_str() == self.realm()
            && self.path().starts_with(prefix)
    }
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.realm(), self.path())
    }
}

impl ActionPayload {
    /// The class of the action.
    pub fn class(&self) -> ActionClass {
        match self {
            ActionPayload::Land(_) => ActionClass::Land,
            ActionPayload::ReleasePromote(_) => ActionClass::ReleasePromote,
            ActionPayload::ConstitutionAmend(_) => ActionClass::ConstitutionAmend,
            ActionPayload::ModeActivate(_) => ActionClass::ModeActivate,
            ActionPayload::GrantChange(_) => ActionClass::GrantChange,
            ActionPayload::RosterChange(_) => ActionClass::RosterChange,
            ActionPayload::ResetFrozen(_) => ActionClass::ResetFrozen,
            ActionPayload::BlockRatify(_) => ActionClass::BlockRatify,
            ActionPayload::BlockArchive(_) => ActionClass::BlockArchive,
            ActionPayload::SubjectChange(_) => ActionClass::SubjectChange,
            ActionPayload::KeyChange(_) => ActionClass::KeyChange,
            ActionPayload::VerifierSetChange(_) => ActionClass::VerifierSetChange,
            ActionPayload::ExternalEffect(_) => ActionClass::ExternalEffect,
            ActionPayload::ResolveEffect(_) => ActionClass::ResolveEffect,
        }
    }

    /// The one resource that the action changes.
    pub fn resource(&self) -> ResourceRef {
        let organism = |part: &str| ResourceRef::Organism(Text::lossy(part));
        match self {
            ActionPayload::Land(land) => ResourceRef::GitRef(land.resource.clone()),
            ActionPayload::ReleasePromote(swap)
            | ActionPayload::BlockRatify(swap)
            | ActionPayload::BlockArchive(swap)
            | ActionPayload::ExternalEffect(swap) => ResourceRef::External(swap.resource.clone()),
            ActionPayload::ConstitutionAmend(_) => organism("constitution"),
            ActionPayload::ModeActivate(_) => organism("mode"),
            ActionPayload::GrantChange(_) => organism("grants"),
            ActionPayload::SubjectChange(_) => organism("subjects"),
            ActionPayload::KeyChange(_) => organism("keys"),
            ActionPayload::RosterChange(_) => organism("roster/nodes"),
            ActionPayload::VerifierSetChange(_) => organism("roster/verifiers"),
            ActionPayload::ResetFrozen(_) => organism("grounds"),
            ActionPayload::ResolveEffect(_) => organism("effects"),
        }
    }

    /// The landing, if it is one.
    pub fn land(&self) -> Option<&LandPayload> {
        match self {
            ActionPayload::Land(land) => Some(land),
            _ => None,
        }
    }

    /// Heads before and after, for what is changed outside the journal.
    pub fn swap(&self) -> Option<(&Bytes, &Bytes)> {
        match self {
            ActionPayload::Land(land) => Some((&land.old, &land.new)),
            ActionPayload::ReleasePromote(swap)
            | ActionPayload::BlockRatify(swap)
            | ActionPayload::BlockArchive(swap)
            | ActionPayload::ExternalEffect(swap) => Some((&swap.old, &swap.new)),
            _ => None,
        }
    }

    /// `candidate_digest` of SPEC: exactly what is to be landed, promoted or put in force.
    pub fn candidate_digest(&self) -> Digest {
        match self {
            ActionPayload::Land(land) => land.candidate_digest(),
            other => Digest::of(&other.to_canonical()),
        }
    }

    /// State time before which an action inside the journal cannot take effect; 0 if at once.
    pub fn activates_at(&self) -> u64 {
        match self {
            ActionPayload::ConstitutionAmend(amend) => amend.constitution.effective_at,
            ActionPayload::ModeActivate(mode) => mode.activates_at,
            _ => 0,
        }
    }
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
