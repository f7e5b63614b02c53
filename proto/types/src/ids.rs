//! Identifiers as types, so that one kind can never stand where another is meant.
//!
//! Digest identifiers name bytes; numbers count inside one history; names are short lower-case
//! words chosen by people. None of them is ever a display string of something else.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};

use crate::bytes::{Digest, NotHex};
use crate::limits::NAME_LEN_MAX;

macro_rules! digest_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] pub Digest);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({}…)", stringify!($name), hex::encode(&self.0.0[..6]))
            }
        }

        impl FromStr for $name {
            type Err = NotHex;
            fn from_str(text: &str) -> Result<Self, NotHex> {
                text.parse().map($name)
            }
        }
    )*};
}

macro_rules! number_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode,
        )]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] pub u64);

        impl $name {
            /// The number after this one. Numbers are issued one at a time and never wrap.
            #[must_use]
            pub fn next(self) -> $name {
                $name(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

digest_id! {
    /// An organism: SHA-256 of its genesis record's canonical bytes.
    OrganismId;
    /// An intent: SHA-256 of the canonical intent bytes (M1-I23, M1-I24).
    IntentDigest;
    /// A one-shot capability, derived from the decision it was minted from.
    CapabilityId;
    /// An authority transaction, derived from its capability.
    TransactionId;
    /// An autonomy grant: SHA-256 of its record.
    GrantId;
    /// One event of a client, chosen by the client; the idempotency key of its command.
    EventId;
    /// A resource that effects change, for example one ref of one repository.
    ResourceId;
    /// A challenge to a person: SHA-256 of its record.
    ChallengeId;
    /// A person's key (`key_id` of SPEC C.6).
    HumanKeyId;
}

number_id! {
    /// A node of the roster, and its openraft id.
    NodeId;
    /// Number of a tick; the first is 1, 0 stands before it.
    TickNumber;
    /// Number of a commit marker. With the history it is the fencing token of an effect.
    MarkerNumber;
    /// Number of a RED latch (`latch_epoch` of SPEC C.25).
    LatchNumber;
    /// Number of a freeze ground.
    GroundNumber;
    /// Version of the AutonomyEpoch record; a bump fences all earlier capabilities.
    AutonomyEpoch;
    /// Version of the constitution in force.
    ConstitutionEpoch;
    /// Version of the roster.
    RosterEpoch;
    /// Version of the quorum's key.
    KeyEpoch;
    /// Number of an entry in the sentinel's RED outbox, from 1 and gap-free.
    OutboxEpoch;
}

/// A name is empty, too long, or not made of `a-z 0-9 . _ - /`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} is no name: 1 to {NAME_LEN_MAX} characters of a-z 0-9 . _ - /, starting with a letter or digit"
)]
pub struct NotAName {
    /// What was given, cut to a readable length.
    pub found: String,
}

/// A short name chosen by people: 1 to 64 characters of `a-z 0-9 . _ - /`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Checks and wraps `text`.
    ///
    /// # Errors
    /// [`NotAName`] unless it is 1 to 64 of the allowed characters.
    pub fn new(text: &str) -> Result<Name, NotAName> {
        let allowed = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'/');
        let starts_well = text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric());
        if starts_well && text.len() <= NAME_LEN_MAX && text.bytes().all(allowed) {
            Ok(Name(text.to_owned()))
        } else {
            Err(NotAName {
                found: text.chars().take(80).collect(),
            })
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NotAName;
    fn from_str(text: &str) -> Result<Self, NotAName> {
        Name::new(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<C> Encode<C> for Name {
    fn encode<W: encode::Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        e.str(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Name {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        let at = d.position();
        Name::new(d.str()?).map_err(|_| decode::Error::message("not a name").at(at))
    }
}

macro_rules! name_id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] pub Name);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }
        }

        impl FromStr for $name {
            type Err = NotAName;
            fn from_str(text: &str) -> Result<Self, NotAName> {
                Name::new(text).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }
    )*};
}

name_id! {
    /// An enrolled subject: agent, gate, runner, operator or person.
    SubjectId;
    /// One of the four voting verifiers.
    VerifierId;
    /// A set of principals that could fail or be captured together (SPEC A.4).
    FailureDomain;
    /// A mission.
    MissionId;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Canonical;

    #[test]
    fn names_are_short_lower_case_words() {
        for good in ["a", "agent-1", "verifier.b", "org/repo", &"x".repeat(64)] {
            assert!(Name::new(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "ä", "a b", "-a", "/a", &"x".repeat(65), "a\n"] {
            assert!(Name::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_bad_name_does_not_decode() {
        assert!(SubjectId::from_canonical(&[0x61, b'A']).is_err());
        assert_eq!(
            SubjectId::from_canonical(&[0x61, b'a']),
            Ok("a".parse().unwrap())
        );
    }
}
