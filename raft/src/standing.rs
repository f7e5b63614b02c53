//! What this node is in the roster that it has applied, for people and for readiness.

use std::fmt;

/// What a node is in the roster that it has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A voter: it votes, cosigns and counts.
    Voter,
    /// A learner: it receives the journal and counts for nothing.
    Learner,
    /// It has lost its disk and come back: it counts for nothing until it is promoted.
    Returning,
    /// In no roster that it has applied: it was removed, or has not joined yet.
    Outside,
}

impl Standing {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Standing::Voter => "voter",
            Standing::Learner => "learner",
            Standing::Returning => "returning",
            Standing::Outside => "outside",
        }
    }

    /// Whether the node votes, cosigns and counts.
    #[must_use]
    pub fn counts(self) -> bool {
        self == Standing::Voter
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Standing::Voter => "voter",
            Standing::Learner => "learner: it counts for nothing until it is promoted",
            Standing::Returning => {
                "returning with another disk: it counts for nothing until it is promoted"
            }
            Standing::Outside => "outside the roster: it was removed, or has not joined yet",
        })
    }
}
