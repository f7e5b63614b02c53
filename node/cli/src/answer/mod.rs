//! What the tool says to programs: one type per answer, one rule for numbers.
//!
//! ```text
//!   command ─▶ an answer of this module ─▶ output::print ─▶ text for people, or one line of JSON
//! ```
//!
//! The rule (docs/output.md): an integer of 64 bits is text in JSON, whatever its value, because readers that
//! hold numbers as floating point round it from 2^53 on (RFC 8259 §6). These are the epochs, sequences, numbers,
//! positions, sizes and times in milliseconds of the journal; their type here is [`Decimal`]. What is counted in
//! a list, an exit code or a process id has at most 32 bits and is a number, as are fractions. So the type of a
//! field never depends on its value.
//!
//! Only an [`Answer`] can be printed, and every answer is in the list at the end of this file: the tests write
//! each of them, read it back and look for integers that are not text.

mod cluster;
mod event;
mod governance;
mod intent;
mod receipt;
mod stop;

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) use cluster::{Bench, Made, NewNode, Node, Process, Returned, Running, State, Status};
pub(crate) use event::{Leaf, Told};
pub(crate) use governance::{
    Acted, Drafted, Governed, GovernedGrant, GovernedGround, GovernedKey, GovernedNode,
    GovernedSubject, KeyStatus, SeatedVerifier, Signed,
};
pub(crate) use intent::{
    Approved, Attested, Claimed, Decision, Drawn, Finding, Installed, Landed, Level, NewKey,
    OpenClaims, Post, Proposed, Reported, Sentinel, Shown, Submitted, Vote,
};
pub(crate) use receipt::{Invalid, PolicyUpdated, Proof, Valid};
pub(crate) use stop::{Hold, Latch, Outbox, OutboxEntry, Raised, Stop, View};

/// An integer of 64 bits: in JSON it is decimal text, and nothing else is read as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Decimal<T = u64>(pub(crate) T);

impl From<u64> for Decimal {
    fn from(number: u64) -> Decimal {
        Decimal(number)
    }
}

impl<T: fmt::Display> fmt::Display for Decimal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Display> Serialize for Decimal<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr + fmt::Display> Deserialize<'de> for Decimal<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = text.parse().ok().filter(|it: &T| it.to_string() == text);
        let number = number.ok_or_else(|| D::Error::custom("no integer in decimal"));
        number.map(Decimal)
    }
}

/// The length of a list.
pub(crate) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Something that the tool can print as JSON.
pub(crate) trait Answer: Serialize {}

/// Makes types answers, and lets the tests look at each.
macro_rules! answers {
    ($($answer:ident),* $(,)?) => {
        $(impl Answer for $answer {})*

        #[cfg(test)]
        fn visit_all(visitor: &mut impl tests::Visitor) {
            $(visitor.visit::<$answer>(stringify!($answer));)*
        }
    };
}

answers![
    Acted,
    Approved,
    Attested,
    Bench,
    Claimed,
    Drafted,
    Drawn,
    Governed,
    Installed,
    Invalid,
    KeyStatus,
    Landed,
    Leaf,
    Level,
    Made,
    NewKey,
    NewNode,
    OpenClaims,
    PolicyUpdated,
    Post,
    Proof,
    Proposed,
    Raised,
    Reported,
    Returned,
    Running,
    Shown,
    Signed,
    Status,
    Stop,
    Submitted,
    Valid,
];

#[cfg(test)]
mod tests;
