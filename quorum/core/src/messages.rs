//! What coordinator and verifiers, and verifiers among themselves, say to each other.
//!
//! Canonical CBOR like every record (D6). What a verifier says of itself is signed with its
//! vote key, so that no carrier can alter it and blame has evidence. A signing package carries
//! no message: each signer rebuilds it (FAULTS 35).

use minicbor::{Decode, Encode};
use redlatch_types::records::{SealSheetV1, SealedVoteV1};
use redlatch_types::{
    Bytes, Canonical, Digest, Envelope, IntentDigest, KeyEpoch, PublicKey, Record, RosterEpoch,
    VerifierId,
};

use crate::tally::Subset;

/// A coordinator's wish for a sealed vote. The freeze receipt and the evidence travel beside it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct BallotPacketV1 {
    /// Canonical bytes of the intent, the same for all four.
    #[n(0)]
    pub intent: Bytes,
    /// Number of the coordinator's attempt; a higher one asks for fresh commitments.
    #[n(1)]
    pub term: u64,
    /// A fresh value, mixed into the nonces, so that two copies of one machine draw apart
    /// (FAULTS 34). For example the root of the latest head.
    #[n(2)]
    pub fresh: Digest,
}

/// Public half of one nonce pair (RFC 9591 §5.1), for one subset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(map)]
pub struct NonceCommitmentV1 {
    /// The only subset it serves.
    #[n(0)]
    pub subset: Subset,
    /// Hiding commitment, 32 bytes.
    #[n(1)]
    pub hiding: Bytes,
    /// Binding commitment, 32 bytes.
    #[n(2)]
    pub binding: Bytes,
}

/// The commitments that a verifier hands out beside its sealed vote (D13).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SigningCommitmentsV1 {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// Whose they are.
    #[n(1)]
    pub verifier_id: VerifierId,
    /// Digest of its vote: the seal.
    #[n(2)]
    pub vote_digest: Digest,
    /// Quorum key they serve.
    #[n(3)]
    pub quorum_key_epoch: KeyEpoch,
    /// Boot of the verifier in which the nonces live.
    #[n(4)]
    pub boot_generation: u64,
    /// Which issue for this intent, from 1; at most [`crate::verifier::ISSUES_MAX`].
    #[n(5)]
    pub issue: u64,
    /// One per subset it belongs to, ascending.
    #[n(6)]
    pub commitments: Vec<NonceCommitmentV1>,
}

impl SigningCommitmentsV1 {
    /// The commitment for `subset`.
    pub fn for_subset(&self, subset: Subset) -> Option<&NonceCommitmentV1> {
        self.commitments.iter().find(|c| c.subset == subset)
    }
}

/// A verifier's first answer.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SealedAnswerV1 {
    /// Its sealed vote.
    #[n(0)]
    pub sealed: SealedVoteV1,
    /// Signed [`SigningCommitmentsV1`]; absent once the issues for this intent are used up.
    #[n(1)]
    pub commitments: Option<Envelope>,
    /// The sheet it opened, if any: a new coordinator adopts it (D11).
    #[n(2)]
    pub opened_sheet: Option<SealSheetV1>,
}

/// What a coordinator asks three verifiers to sign over. No message: each rebuilds it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SigningPackageV1 {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// Who signs.
    #[n(1)]
    pub subset: Subset,
    /// The sheet that all opened.
    #[n(2)]
    pub sheet: SealSheetV1,
    /// All votes of the sheet, ascending by voter.
    #[n(3)]
    pub votes: Vec<Envelope>,
    /// The sentinel's GREEN.
    #[n(4)]
    pub green: Envelope,
    /// The three signed [`SigningCommitmentsV1`], ascending by identifier.
    #[n(5)]
    pub commitments: Vec<Envelope>,
}

impl SigningPackageV1 {
    /// What a nonce serves once: the digest of every byte of the package.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }
}

/// A verifier's share of the group signature (RFC 9591 §5.2).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SignatureShareV1 {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// Whose share.
    #[n(1)]
    pub verifier_id: VerifierId,
    /// The package it answers.
    #[n(2)]
    pub package_digest: Digest,
    /// The scalar, 32 bytes.
    #[n(3)]
    pub share: Bytes,
}

/// One member's public share.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct VerifyingShareV1 {
    /// FROST identifier.
    #[n(0)]
    pub identifier: u16,
    /// Point, 32 bytes.
    #[n(1)]
    pub share: Bytes,
}

/// The public result of a ceremony; the journal pins its digest, coordinators aggregate with it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PublicKeyPackageV1 {
    /// Version of the key.
    #[n(0)]
    pub quorum_key_epoch: KeyEpoch,
    /// The group's Ed25519 key.
    #[n(1)]
    pub group_key: PublicKey,
    /// The four public shares, ascending.
    #[n(2)]
    pub verifying_shares: Vec<VerifyingShareV1>,
}

impl PublicKeyPackageV1 {
    /// `public_key_package_digest` of a key confirmation.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }
}

/// What a ceremony is about. Threshold and members are not in it: they are fixed (FAULTS 40).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(map)]
pub struct CeremonyId {
    /// Draws this attempt apart from every other; a failed one is never resumed.
    #[n(0)]
    pub nonce: Digest,
    /// Roster whose four verifiers take part.
    #[n(1)]
    pub roster_epoch: RosterEpoch,
    /// Version that the key will have.
    #[n(2)]
    pub quorum_key_epoch: KeyEpoch,
}

/// Round 1 of the ceremony, said to all.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CeremonyRound1V1 {
    /// Which ceremony.
    #[n(0)]
    pub ceremony: CeremonyId,
    /// Who speaks.
    #[n(1)]
    pub verifier_id: VerifierId,
    /// Its index; pinned to its identity by the roster (FAULTS 39).
    #[n(2)]
    pub identifier: u16,
    /// Commitments to the three coefficients, 32 bytes each.
    #[n(3)]
    pub commitment: Vec<Bytes>,
    /// Proof of possession of the first coefficient, 64 bytes.
    #[n(4)]
    pub proof: Bytes,
}

/// Round 2 of the ceremony, said to one recipient over a confidential channel.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CeremonyRound2V1 {
    /// Which ceremony.
    #[n(0)]
    pub ceremony: CeremonyId,
    /// Who speaks.
    #[n(1)]
    pub sender: u16,
    /// To whom.
    #[n(2)]
    pub recipient: u16,
    /// Digest of all four round-1 messages as the sender saw them.
    #[n(3)]
    pub round1_digest: Digest,
    /// The secret share, 32 bytes.
    #[n(4)]
    pub share: Bytes,
}

impl Record for SigningCommitmentsV1 {
    const TYPE: &'static str = "signing-commitments";
}
impl Record for SignatureShareV1 {
    const TYPE: &'static str = "signature-share";
}
impl Record for CeremonyRound1V1 {
    const TYPE: &'static str = "ceremony-round-1";
}
impl Record for CeremonyRound2V1 {
    const TYPE: &'static str = "ceremony-round-2";
}
