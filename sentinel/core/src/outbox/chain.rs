//! The chain of the outbox: heads, and what a chain must satisfy against an anchor (FAULTS 55).

use std::fmt;

use minicbor::{Decode, Encode};
use redlatch_types::records::SentinelRedOutboxV1;
use redlatch_types::{Digest, Envelope, OrganismId, OutboxEpoch, PublicKey};

/// A number and the root after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Head {
    /// Last number; 0 before the first entry.
    #[n(0)]
    pub number: OutboxEpoch,
    /// Root after it; [`Digest::ZERO`] before the first.
    #[n(1)]
    pub root: Digest,
}

impl Head {
    /// Before the first entry.
    pub const ZERO: Head = Head {
        number: OutboxEpoch(0),
        root: Digest::ZERO,
    };
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.number, self.root)
    }
}

/// Whose chain it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The organism.
    pub organism_id: OrganismId,
    /// The sentinel's key.
    pub key: PublicKey,
}

/// Where a chain is not what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// The signature does not hold or the body is no outbox entry.
    #[error("the entry after {after} is not a signed outbox entry")]
    NotSigned {
        /// Number before it.
        after: OutboxEpoch,
    },
    /// Signed by somebody else or for another organism.
    #[error("entry {number} is not this sentinel's")]
    Foreign {
        /// Its number.
        number: OutboxEpoch,
    },
    /// A number is missing, repeated or out of order.
    #[error("entry {found} stands where {expected} must be")]
    Gap {
        /// The number that must come.
        expected: OutboxEpoch,
        /// The number that came.
        found: OutboxEpoch,
    },
    /// It does not follow from the entry before it.
    #[error("entry {number} does not follow from the one before it")]
    Unlinked {
        /// Its number.
        number: OutboxEpoch,
    },
    /// The chain ends before what is remembered.
    #[error("the chain ends at {end}, but {anchor} is remembered")]
    Shorter {
        /// Where it ends.
        end: Head,
        /// What is remembered.
        anchor: Head,
    },
    /// The chain has another root where something is remembered.
    #[error("the chain has another root at {anchor}")]
    Forked {
        /// What is remembered.
        anchor: Head,
    },
}

/// Reads a chain forward, entry by entry.
#[derive(Debug)]
pub(super) struct ChainReader {
    owner: Owner,
    pub(super) head: Head,
}

impl ChainReader {
    pub(super) fn new(owner: Owner, base: Head) -> ChainReader {
        ChainReader { owner, head: base }
    }

    /// Checks that `envelope` is the next entry.
    pub(super) fn next(&mut self, envelope: &Envelope) -> Result<SentinelRedOutboxV1, ChainFault> {
        let after = self.head.number;
        let signed = envelope
            .open::<SentinelRedOutboxV1>()
            .map_err(|_| ChainFault::NotSigned { after })?;
        let entry = signed.record();
        let (number, expected) = (entry.outbox_epoch, after.next());
        if *signed.key() != self.owner.key || signed.scope().organism_id != self.owner.organism_id {
            return Err(ChainFault::Foreign { number });
        }
        if number != expected {
            let found = number;
            return Err(ChainFault::Gap { expected, found });
        }
        if entry.previous_outbox_root_digest != self.head.root || !entry.root_holds() {
            return Err(ChainFault::Unlinked { number });
        }
        self.head = Head {
            number,
            root: entry.signed_outbox_root_digest,
        };
        Ok(entry.clone())
    }
}

/// Checks that `entries` are the chain that begins after `base` and passes through `anchor`,
/// which is remembered elsewhere: no entry is edited, missing, repeated or of another writer.
///
/// # Errors
/// [`ChainFault`], the first one met.
pub fn verify_chain<'a>(
    owner: Owner,
    base: Head,
    entries: impl IntoIterator<Item = &'a Envelope>,
    anchor: Head,
) -> Result<Head, ChainFault> {
    let mut reader = ChainReader::new(owner, base);
    let mut at_anchor = (base.number == anchor.number).then_some(base.root);
    for envelope in entries {
        reader.next(envelope)?;
        if reader.head.number == anchor.number {
            at_anchor = Some(reader.head.root);
        }
    }
    let end = reader.head;
    if end.number < anchor.number {
        return Err(ChainFault::Shorter { end, anchor });
    }
    match at_anchor {
        Some(root) if root == anchor.root => Ok(end),
        _ => Err(ChainFault::Forked { anchor }),
    }
}
