//! The blind ballot and the quorum's key (DESIGN D11 to D13).
//!
//! A vote is an ordinary signed record whose body is held back: what the verifier hands out
//! first is the [`SealedVoteV1`], the body's digest and the signature over it. The 32-byte salt
//! inside the body keeps the verdict secret until the sheet of seals is fixed.

use std::fmt;

use minicbor::{Decode, Encode};

use super::base::words;
use crate::bytes::{Bytes, Digest, PublicKey, Signature};
use crate::codec::Canonical;
use crate::ids::{FailureDomain, IntentDigest, KeyEpoch, RosterEpoch, VerifierId};
use crate::sign::{Envelope, Scope};

words! {
    /// A verifier's verdict.
    VoteVerdict {
        /// The intent may be carried out.
        1 Approve "APPROVE",
        /// It may not.
        2 Reject "REJECT",
    }
}

/// One verifier's vote on one intent. Signed with the vote key; one per verifier and intent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct VoteV1 {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// The voter.
    #[n(1)]
    pub verifier_id: VerifierId,
    /// Its verdict.
    #[n(2)]
    pub verdict: VoteVerdict,
    /// Digest of its findings.
    #[n(3)]
    pub findings_digest: Digest,
    /// 32 random bytes that hide the rest while it is sealed.
    #[n(4)]
    pub salt: Digest,
    /// Roster it voted under.
    #[n(5)]
    pub roster_epoch: RosterEpoch,
    /// Quorum key it voted under.
    #[n(6)]
    pub quorum_key_epoch: KeyEpoch,
}

/// A vote before it is opened.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct SealedVoteV1 {
    /// Scope of the signature.
    #[n(0)]
    pub scope: Scope,
    /// The voter's key.
    #[n(1)]
    pub key: PublicKey,
    /// The voter.
    #[n(2)]
    pub verifier_id: VerifierId,
    /// SHA-256 of the canonical [`VoteV1`].
    #[n(3)]
    pub seal: Digest,
    /// Signature over the vote.
    #[n(4)]
    pub signature: Signature,
}

impl SealedVoteV1 {
    /// Seals an already signed vote: hands out everything but its body.
    pub fn of(vote: &Envelope, verifier_id: VerifierId) -> SealedVoteV1 {
        SealedVoteV1 {
            scope: vote.scope,
            key: vote.key,
            verifier_id,
            seal: vote.digest(),
            signature: vote.signature,
        }
    }

    /// The signed vote again, once its body is known. Opening it checks everything.
    pub fn opened_with(&self, body: Bytes) -> Envelope {
        Envelope {
            scope: self.scope,
            key: self.key,
            body,
            signature: self.signature,
        }
    }
}

/// One line of a seal sheet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(map)]
pub struct SealLine {
    /// The voter.
    #[n(0)]
    pub verifier_id: VerifierId,
    /// Its seal.
    #[n(1)]
    pub seal: Digest,
}

/// The fixed set of seals of one ballot: only votes of this sheet ever count (D11).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct SealSheetV1 {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// At least three lines, strictly ascending by voter.
    #[n(1)]
    pub seals: Vec<SealLine>,
}

impl SealSheetV1 {
    /// The sheet's digest; the same seals give the same digest.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }

    /// Whether the lines are strictly ascending, so that no voter stands twice.
    pub fn is_sorted_set(&self) -> bool {
        self.seals
            .windows(2)
            .all(|w| w[0].verifier_id < w[1].verifier_id)
    }

    /// The seal of `verifier`.
    pub fn seal_of(&self, verifier: &VerifierId) -> Option<&Digest> {
        self.seals
            .iter()
            .find(|l| l.verifier_id == *verifier)
            .map(|l| &l.seal)
    }
}

/// A counted vote as it stands in a decision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(map)]
pub struct CountedVote {
    /// The voter.
    #[n(0)]
    pub verifier_id: VerifierId,
    /// Its verdict.
    #[n(1)]
    pub verdict: VoteVerdict,
    /// Digest of its findings.
    #[n(2)]
    pub findings_digest: Digest,
    /// Its failure domain at the time.
    #[n(3)]
    pub failure_domain: FailureDomain,
    /// Digest of the signed vote.
    #[n(4)]
    pub vote_digest: Digest,
}

/// One verifier's signed confirmation that a key ceremony ended with this result (FAULTS 38).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct KeyConfirmationV1 {
    /// Who confirms.
    #[n(0)]
    pub verifier_id: VerifierId,
    /// The epoch that the key would have.
    #[n(1)]
    pub quorum_key_epoch: KeyEpoch,
    /// Roster whose four verifiers took part.
    #[n(2)]
    pub roster_epoch: RosterEpoch,
    /// Digest of the whole ceremony.
    #[n(3)]
    pub transcript_digest: Digest,
    /// The group's Ed25519 key.
    #[n(4)]
    pub group_key: PublicKey,
    /// Digest of the FROST public key package.
    #[n(5)]
    pub public_key_package_digest: Digest,
}
