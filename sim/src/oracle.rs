//! What clients and the sentinel were promised.
//!
//! An answer *accepted* must be true of every node's journal for ever. An answer that says *nothing
//! happened* (refused, unavailable, too busy) must be true as well. A call that failed in any other way is
//! **unknown**: it may stand in the journal or not, now or later, and nothing may be concluded from it; an
//! oracle that took it for absent would cry wolf at the first lost answer.

use std::collections::BTreeSet;

use redlatch_types::records::RedScope;
use redlatch_types::{Digest, EventId, IntentDigest, TransactionId};

/// What an acknowledged command must have left in the journal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promised {
    /// The intent is frozen, by the command of this key.
    Frozen(EventId, IntentDigest),
    /// The intent was taken back, by the command of this key.
    Withdrawn(EventId, IntentDigest),
    /// The marker of this transaction is written.
    Committed(TransactionId),
    /// This record of the sentinel is latched.
    Latched(Digest),
}

/// An acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// When the answer arrived, microseconds.
    pub at_us: u64,
    /// What it says.
    pub what: Promised,
    /// Position of the first leaf, where the answer named one.
    pub position: Option<u64>,
}

/// A RED that the sentinel has signed and sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedSent {
    /// Digest of the record.
    pub record: Digest,
    /// What it asks to stop.
    pub scope: RedScope,
}

/// Everything that was said to anybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// Accepted.
    pub acknowledged: Vec<Acknowledged>,
    /// Keys of commands of which it was said that nothing happened.
    pub nothing: BTreeSet<EventId>,
    /// Keys of commands whose fate nobody knows.
    pub unknown: BTreeSet<EventId>,
    /// REDs, in the order of the sentinel's chain.
    pub reds: Vec<RedSent>,
}

impl Promises {
    /// Takes down an acknowledgement.
    pub fn acknowledge(&mut self, at_us: u64, what: Promised, position: Option<u64>) {
        self.acknowledged.push(Acknowledged {
            at_us,
            what,
            position,
        });
    }

    /// Takes down that nobody knows. What was unknown once stays so, whatever is said later.
    pub fn lose_sight_of(&mut self, key: EventId) {
        self.unknown.insert(key);
        self.nothing.remove(&key);
    }

    /// Takes down that nothing happened.
    pub fn nothing_happened(&mut self, key: EventId) {
        if !self.unknown.contains(&key) {
            self.nothing.insert(key);
        }
    }

    /// When the latch of a RED was acknowledged, if it was.
    pub fn latched_at(&self, record: Digest) -> Option<u64> {
        let latched = Promised::Latched(record);
        let of = self.acknowledged.iter().filter(|it| it.what == latched);
        of.map(|it| it.at_us).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_never_turned_into_absent() {
        let key = EventId(Digest::of(b"key"));
        let mut promises = Promises::default();
        promises.lose_sight_of(key);
        promises.nothing_happened(key);
        assert!(promises.nothing.is_empty());
        let mut promises = Promises::default();
        promises.nothing_happened(key);
        promises.lose_sight_of(key);
        assert!(promises.nothing.is_empty());
    }

    #[test]
    fn a_latch_counts_from_its_first_acknowledgement() {
        let record = Digest::of(b"red");
        let mut promises = Promises::default();
        assert_eq!(promises.latched_at(record), None);
        promises.acknowledge(9, Promised::Latched(record), None);
        promises.acknowledge(5, Promised::Latched(record), None);
        assert_eq!(promises.latched_at(record), Some(5));
    }
}
