//! What the coordinator tells its driver, and why it does not take an answer.

use redlatch_types::command::Authorization;
use redlatch_types::records::SealSheetV1;
use redlatch_types::{Digest, Envelope, Refusal, VerifierId};

use crate::messages::SigningPackageV1;
use crate::tally::TallyFault;

/// Until when the coordinator waits, on the driver's clock, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For the fourth seal; with three of them the sheet is fixed then.
    pub seal_by: u64,
    /// For the whole ballot; then it abstains.
    pub decide_by: u64,
    /// How long a member may take to answer a package.
    pub share_ms: u64,
}

/// What the driver does next. It drops an `Open` whose sheet is no longer
/// [`super::Coordinator::sheet`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send the packet with this term to this verifier.
    Ask {
        /// To whom.
        to: VerifierId,
        /// The attempt's number.
        term: u64,
    },
    /// Ask the sentinel for its verdict.
    Sentinel,
    /// Ask this verifier to open the sheet.
    Open {
        /// To whom.
        to: VerifierId,
        /// The sheet.
        sheet: SealSheetV1,
    },
    /// Ask this verifier for its share.
    Sign {
        /// To whom.
        to: VerifierId,
        /// The package.
        package: Box<SigningPackageV1>,
    },
    /// Report that a verifier gave a bad share.
    Blame(Box<Blame>),
    /// The ballot decided: submit this command.
    Authorize(Box<Authorization>),
    /// The ballot is over without a decision, for good.
    Abstain(Abstention),
}

impl Step {
    /// What this step asks of whom; `None` if it asks no verifier.
    pub fn request(&self) -> Option<(&VerifierId, Request)> {
        match self {
            Step::Ask { to, term } => Some((to, Request::Packet(*term))),
            Step::Open { to, sheet } => Some((to, Request::Sheet(sheet.digest()))),
            Step::Sign { to, package } => Some((to, Request::Package(package.digest()))),
            Step::Sentinel | Step::Blame(_) | Step::Authorize(_) | Step::Abstain(_) => None,
        }
    }
}

/// What a verifier was asked, so that a late refusal is not taken for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The packet, with this term.
    Packet(u64),
    /// To open the sheet with this digest.
    Sheet(Digest),
    /// To sign the package with this digest.
    Package(Digest),
}

/// Evidence of a bad share: the package and the signed share that answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blame {
    /// Whose share.
    pub verifier_id: VerifierId,
    /// What it answered.
    pub package: SigningPackageV1,
    /// Its signed answer.
    pub share: Envelope,
}

/// Why a ballot ended without a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abstention {
    /// Fewer than three approve, answer or open.
    InsufficientQuorum,
    /// Approvals from too few domains.
    InsufficientIndependence,
    /// No GREEN.
    SentinelRequired,
    /// Roster or quorum key changed under the ballot.
    StaleRoster,
    /// A voter of the sheet has a role in the intent.
    SelfAuthorization,
}

impl Abstention {
    /// The stable code.
    pub fn refusal(self) -> Refusal {
        match self {
            Abstention::InsufficientQuorum => Refusal::InsufficientQuorum,
            Abstention::InsufficientIndependence => Refusal::InsufficientIndependence,
            Abstention::SentinelRequired => Refusal::SentinelRequired,
            Abstention::StaleRoster => Refusal::StaleRoster,
            Abstention::SelfAuthorization => Refusal::SelfAuthorization,
        }
    }
}

impl From<TallyFault> for Abstention {
    fn from(fault: TallyFault) -> Abstention {
        match fault {
            TallyFault::InsufficientIndependence => Abstention::InsufficientIndependence,
            TallyFault::StaleRoster => Abstention::StaleRoster,
            TallyFault::SelfAuthorization => Abstention::SelfAuthorization,
            TallyFault::BadSheet
            | TallyFault::Unauthorized
            | TallyFault::NotOfTheSheet
            | TallyFault::Missing
            | TallyFault::InsufficientQuorum => Abstention::InsufficientQuorum,
        }
    }
}

/// Why an answer is not taken. It changes nothing; the sender may still answer properly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerFault {
    /// The sender is no verifier of the roster, or answers for another one.
    #[error("the answer is not by the verifier it came from")]
    NotAuthorised,
    /// The seal equals another verifier's (FAULTS 31).
    #[error("the seal is another verifier's")]
    CopiedSeal,
    /// The sender sealed something else before.
    #[error("the verifier sealed another vote before")]
    Equivocation,
    /// The opened vote is not what was sealed, or not on the sheet.
    #[error("the opened vote is not the sealed one")]
    NotTheSeal,
    /// The share does not answer the package in hand.
    #[error("the share answers another package")]
    OtherPackage,
    /// The verdict is not one about this intent by the pinned sentinel.
    #[error("not a verdict of the sentinel about this intent")]
    NotAVerdict,
    /// The package's digest is not that of the key in force.
    #[error("the public key package is not that of the key in force")]
    OtherKey,
}
