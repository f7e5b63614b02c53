//! What a verifier is asked and answers, and why it refuses.

use redlatch_types::records::{SealSheetV1, VoteVerdict};
use redlatch_types::{Digest, Envelope, Refusal};

use crate::messages::SealedAnswerV1;
use crate::records::VerifierEffect;
use crate::tally::TallyFault;

/// What the evaluators found. They run between [`super::Verifier::handle_packet`] and
/// [`super::Verifier::cast`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evaluation {
    /// Their verdict.
    pub verdict: VoteVerdict,
    /// Digest of what they found.
    pub findings_digest: Digest,
}

/// A coordinator's request beside the intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Number of its attempt.
    pub term: u64,
    /// A fresh value that is mixed into the nonces.
    pub fresh: Digest,
}

/// What follows from a packet.
pub enum Next {
    /// No vote yet: run the evaluators on the frozen intent, then call [`super::Verifier::cast`].
    Evaluate,
    /// The vote stands: carry these out.
    Effects(Vec<VerifierEffect>),
}

/// An answer to a coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To a packet.
    Sealed(Box<SealedAnswerV1>),
    /// To a sheet: the opened vote.
    Opened(Envelope),
    /// To a package: the signed [`crate::messages::SignatureShareV1`].
    Share(Envelope),
}

/// Why a verifier does not do what it was asked. Nothing was persisted and nothing released.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The intent wants another decision variant.
    #[error("the intent is not decided by the quorum")]
    WrongVariant,
    /// This verifier has a role in the intent.
    #[error("this verifier has a role in the intent")]
    SelfAuthorization,
    /// The intent is past its expiry.
    #[error("the intent has expired")]
    Expired,
    /// The intent belongs to an earlier autonomy epoch.
    #[error("the autonomy epoch moved on")]
    EpochFenced,
    /// The share in hand is not of the key in force, or vote or package name another.
    #[error("roster or quorum key are not those of the ballot")]
    StaleRoster,
    /// As many ballots are open as may be.
    #[error("too many ballots are open")]
    LimitExceeded,
    /// There is no vote on this intent.
    #[error("no vote was cast on this intent")]
    UnknownIntent,
    /// The sheet is unsound, or this verifier's seal is not in it.
    #[error("the sheet is not one that this verifier opens")]
    BadSheet,
    /// Another sheet was opened before; here it is.
    #[error("another sheet was opened for this intent")]
    AlreadyOpened(Box<SealSheetV1>),
    /// The nonce served another package, or died with an earlier boot.
    #[error("the nonce is spent or dead")]
    AlreadySpent,
    /// This verifier voted REJECT.
    #[error("this verifier did not approve")]
    NotApproved,
    /// The votes do not lead to a decision.
    #[error(transparent)]
    Tally(#[from] TallyFault),
    /// No valid GREEN.
    #[error("no valid GREEN about this intent")]
    SentinelRequired,
    /// A signature does not hold or is not by the enrolled key.
    #[error("a signature does not hold, or is not by the enrolled key")]
    BadSignature,
    /// The package contradicts itself.
    #[error("the package contradicts itself")]
    BadPackage,
}

impl Refused {
    /// The stable code for the wire.
    pub fn refusal(&self) -> Refusal {
        match self {
            Refused::WrongVariant => Refusal::WrongVariant,
            Refused::SelfAuthorization | Refused::Tally(TallyFault::SelfAuthorization) => {
                Refusal::SelfAuthorization
            }
            Refused::Expired => Refusal::Expired,
            Refused::EpochFenced => Refusal::EpochFenced,
            Refused::StaleRoster | Refused::Tally(TallyFault::StaleRoster) => Refusal::StaleRoster,
            Refused::LimitExceeded => Refusal::LimitExceeded,
            Refused::UnknownIntent => Refusal::UnknownIntent,
            Refused::AlreadyOpened(_) | Refused::AlreadySpent => Refusal::AlreadySpent,
            Refused::Tally(TallyFault::InsufficientIndependence) => {
                Refusal::InsufficientIndependence
            }
            Refused::Tally(TallyFault::Unauthorized) => Refusal::Unauthorized,
            Refused::BadSheet | Refused::NotApproved | Refused::Tally(_) => {
                Refusal::InsufficientQuorum
            }
            Refused::SentinelRequired => Refusal::SentinelRequired,
            Refused::BadSignature => Refusal::BadSignature,
            Refused::BadPackage => Refusal::CandidateMismatch,
        }
    }
}
