//! What the outbox keeps on disk: one state record and one record per entry.
//!
//! They are written together in one transaction ([`Write`]) that compares the writer
//! generation first, so a second process on the same folder stops the first at its next write
//! (FAULTS 55).

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use redlatch_types::records::RedScope;
use redlatch_types::{Canonical, Envelope, GroundNumber, LatchNumber, NotCanonical, OutboxEpoch};

use super::chain::{ChainFault, ChainReader, Head, Owner};

/// How far an entry came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Progress {
    /// Signed and stored; no latch is proven.
    #[n(1)]
    Chained,
    /// Latched under this number.
    #[n(2)]
    Latched(#[n(0)] LatchNumber),
    /// Its stop is complete; the acknowledgement goes out.
    #[n(3)]
    Terminal(#[n(0)] LatchNumber),
    /// The journal holds the acknowledgement.
    #[n(4)]
    Closed,
}

/// What an entry follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Link {
    /// The entry before it in this store.
    #[n(1)]
    Previous,
    /// A head that others remember and this store has lost.
    #[n(2)]
    Remembered(#[n(0)] Head),
}

/// One entry as stored.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StoredEntryV1 {
    /// As signed.
    #[n(0)]
    pub envelope: Envelope,
    /// How far it came.
    #[n(1)]
    pub progress: Progress,
    /// What it follows.
    #[n(2)]
    pub link: Link,
}

/// A RED that is in force until a reset.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StandingV1 {
    /// Its outbox number.
    #[n(0)]
    pub number: OutboxEpoch,
    /// What it stops.
    #[n(1)]
    pub scope: RedScope,
    /// The ground under which it is proven to be latched: what a reset has to name.
    #[n(2)]
    pub ground: Option<GroundNumber>,
    /// Its stop is complete, and the journal holds the acknowledgement.
    #[n(3)]
    pub is_over: bool,
}

/// What somebody remembers that this outbox has lost. It stays until the root replaces the
/// sentinel's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Damage {
    /// Others know a longer chain.
    #[n(1)]
    RolledBack(#[n(0)] Head),
    /// Others know another chain.
    #[n(2)]
    Forked(#[n(0)] Head),
    /// The records were gone or unreadable.
    #[n(3)]
    Lost,
}

/// The state record.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct OutboxStateV1 {
    /// Raised by every process that opens the outbox.
    #[n(0)]
    pub generation: u64,
    /// Head before the first stored entry; everything up to it is closed.
    #[n(1)]
    pub base: Head,
    /// Head after the last stored entry.
    #[n(2)]
    pub head: Head,
    /// Highest number that journal or actuator is known to hold.
    #[n(3)]
    pub protected: OutboxEpoch,
    /// What was found wrong.
    #[n(4)]
    pub damage: Option<Damage>,
    /// REDs in force.
    #[n(5)]
    pub standing: Vec<StandingV1>,
}

/// What a [`Write`] leaves of the entries that it does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// They stay.
    Rest,
    /// They are deleted first.
    Nothing,
}

/// One synced transaction. The shell refuses it, and ends the process, unless the generation
/// in the store is the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// What the stored generation must be; `None`: there must be no state record.
    pub expected_generation: Option<u64>,
    /// What becomes of the entries that are not named here.
    pub keep: Keep,
    /// The new state record.
    pub state: OutboxStateV1,
    /// Entries to store.
    pub put: BTreeMap<OutboxEpoch, StoredEntryV1>,
    /// Entries to delete.
    pub delete: Vec<OutboxEpoch>,
}

/// What the shell found on disk: the state record's bytes and the entries' bytes, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The state record.
    pub state: Option<Vec<u8>>,
    /// The entries.
    pub entries: Vec<Vec<u8>>,
}

/// Why the stored outbox is not to be used. The sentinel must not take it for an empty one:
/// see [`super::Outbox::after_loss`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Corrupt {
    /// A key without its memory.
    #[error("there is no outbox record; a sentinel with a key has one")]
    Missing,
    /// A record does not decode.
    #[error("an outbox record cannot be read: {0}")]
    Unreadable(#[from] NotCanonical),
    /// The entries are no chain.
    #[error(transparent)]
    Chain(#[from] ChainFault),
}

/// The records, checked: the chain is whole from base to head.
pub(super) fn read(
    owner: Owner,
    found: &Found,
) -> Result<(OutboxStateV1, BTreeMap<OutboxEpoch, StoredEntryV1>), Corrupt> {
    let state = found.state.as_ref().ok_or(Corrupt::Missing)?;
    let state = OutboxStateV1::from_canonical(state)?;
    let mut reader = ChainReader::new(owner, state.base);
    let mut entries = BTreeMap::new();
    for bytes in &found.entries {
        let entry = StoredEntryV1::from_canonical(bytes)?;
        if let Link::Remembered(head) = entry.link
            && state.damage.is_some()
        {
            reader.head = head;
        }
        reader.next(&entry.envelope)?;
        entries.insert(reader.head.number, entry);
    }
    if reader.head.number < state.head.number {
        let (end, anchor) = (reader.head, state.head);
        return Err(ChainFault::Shorter { end, anchor }.into());
    }
    if reader.head != state.head {
        return Err(ChainFault::Forked { anchor: state.head }.into());
    }
    Ok((state, entries))
}
