//! Why a ceremony's message is not taken, or why the ceremony is dead.

use redlatch_types::Refusal;

/// Why a message is not taken, or why the ceremony is dead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CeremonyFault {
    /// This ceremony was begun before; it is never resumed.
    #[error("the ceremony was begun before and is never resumed")]
    BegunBefore,
    /// It names another roster than the one in force, or a key epoch that is not next.
    #[error("the ceremony is not about the next key of this roster")]
    StaleRoster,
    /// The message is not by the member it names. The member's place stays free.
    #[error("the message is not by the verifier it names")]
    NotAuthorised,
    /// The message belongs to another ceremony.
    #[error("the message belongs to another ceremony")]
    OtherCeremony,
    /// The message is not for this member.
    #[error("the message is for another member")]
    OtherRecipient,
    /// The message does not decode.
    #[error("the message does not decode")]
    NotCanonical,
    /// The member's message came before round 1 was complete. Send it again later.
    #[error("round 1 is not complete here")]
    TooEarly,
    /// The ceremony is over here.
    #[error("the ceremony is over")]
    Over,
    /// A member said two different things. The ceremony is dead.
    #[error("member {0} said two different things")]
    Equivocation(u16),
    /// A member saw another round 1 than this one. The ceremony is dead.
    #[error("member {0} saw another round 1")]
    OtherRound1(u16),
    /// A member's package does not hold. The ceremony is dead.
    #[error("the package of member {0} does not hold")]
    BadPackage(u16),
    /// The deadline passed. The ceremony is dead.
    #[error("the ceremony timed out")]
    TimedOut,
    /// The library refused its own result. The ceremony is dead.
    #[error("the result of the ceremony does not hold")]
    BadResult,
}

impl CeremonyFault {
    /// The stable code for the wire.
    pub fn refusal(&self) -> Refusal {
        match self {
            CeremonyFault::BegunBefore | CeremonyFault::Over => Refusal::AlreadySpent,
            CeremonyFault::StaleRoster => Refusal::StaleRoster,
            CeremonyFault::NotAuthorised | CeremonyFault::OtherRecipient => Refusal::Unauthorized,
            CeremonyFault::NotCanonical => Refusal::NotCanonical,
            CeremonyFault::TooEarly => Refusal::TooEarly,
            CeremonyFault::TimedOut => Refusal::Expired,
            CeremonyFault::OtherCeremony
            | CeremonyFault::Equivocation(_)
            | CeremonyFault::OtherRound1(_)
            | CeremonyFault::BadPackage(_)
            | CeremonyFault::BadResult => Refusal::BadSignature,
        }
    }
}
