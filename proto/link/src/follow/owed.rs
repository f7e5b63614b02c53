//! Leaves that were read on past before they were proven.
//!
//! How many are kept is bounded, and the bound keeps nobody from reading on: what finds no room is read again
//! once there is some. A leaf is owed until it is proven, or until reading begins again before it.

use std::collections::BTreeMap;

/// Leaves that are kept.
pub(super) const OWED_MAX: usize = 1_024;

/// What is owed for a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Debt {
    /// Its proof. It changes nothing that later leaves rest on.
    Proof,
    /// Its proof. Later leaves that change what is in force come after it.
    Change,
}

#[derive(Debug)]
struct Entry {
    leaf: Vec<u8>,
    debt: Debt,
}

/// What is owed, by position.
#[derive(Debug, Default)]
pub(super) struct Owed {
    kept: BTreeMap<u64, Entry>,
    /// The first leaf that found no room.
    no_room: Option<u64>,
    /// The first of them that changes what is in force.
    no_room_for_change: Option<u64>,
    /// The one that was tried last in vain.
    tried: Option<u64>,
}

impl Owed {
    /// Position of the first leaf that is owed.
    pub(super) fn first(&self) -> Option<u64> {
        let kept = self.kept.keys().next().copied();
        kept.into_iter().chain(self.no_room).min()
    }

    /// Whether a change before this position is owed, so that no later one can be taken in.
    pub(super) fn blocks(&self, position: u64) -> bool {
        let changes = |(_, it): (&u64, &Entry)| it.debt == Debt::Change;
        self.kept.range(..position).any(changes)
            || self.no_room_for_change.is_some_and(|it| it < position)
    }

    /// The leaf at this position is owed.
    pub(super) fn add(&mut self, position: u64, leaf: Vec<u8>, debt: Debt) {
        if self.kept.len() < OWED_MAX || self.kept.contains_key(&position) {
            self.kept.insert(position, Entry { leaf, debt });
            return;
        }
        let first = |known: Option<u64>| Some(known.map_or(position, |it| it.min(position)));
        self.no_room = first(self.no_room);
        if debt == Debt::Change {
            self.no_room_for_change = first(self.no_room_for_change);
        }
    }

    /// The leaf at this position, if it is owed and kept.
    pub(super) fn leaf(&self, position: u64) -> Option<&[u8]> {
        self.kept.get(&position).map(|it| it.leaf.as_slice())
    }

    /// Nothing is owed any more for the leaf at this position.
    pub(super) fn paid(&mut self, position: u64) {
        self.kept.remove(&position);
    }

    /// It cannot be proven now; the next time another one is tried first.
    pub(super) fn in_vain(&mut self, position: u64) {
        self.tried = Some(position);
    }

    /// Those that are kept, in the order in which they are tried.
    pub(super) fn in_turn(&self) -> Vec<u64> {
        let after = |it: &&u64| self.tried.is_none_or(|tried| **it > tried);
        let (later, earlier): (Vec<&u64>, Vec<&u64>) = self.kept.keys().partition(after);
        later.into_iter().chain(earlier).copied().collect()
    }

    /// Reading begins again at `from`: what is owed from there on is read again.
    pub(super) fn read_again(&mut self, from: u64) {
        self.kept.retain(|it, _| *it < from);
        self.no_room = self.no_room.filter(|it| *it < from);
        self.no_room_for_change = self.no_room_for_change.filter(|it| *it < from);
    }

    /// Where to read again, if there is room for what found none.
    pub(super) fn room_again(&self) -> Option<u64> {
        self.no_room.filter(|_| self.kept.len() <= OWED_MAX / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Owed {
        let mut owed = Owed::default();
        for position in 0..OWED_MAX as u64 {
            owed.add(position, vec![1], Debt::Proof);
        }
        owed
    }

    #[test]
    fn only_a_change_blocks_and_only_what_comes_after_it() {
        let mut owed = Owed::default();
        owed.add(3, vec![1], Debt::Proof);
        assert!(!owed.blocks(9));
        owed.add(5, vec![1], Debt::Change);
        assert!(!owed.blocks(5));
        assert!(owed.blocks(6));
        owed.paid(5);
        assert!(!owed.blocks(6));
        assert_eq!(owed.first(), Some(3));
    }

    #[test]
    fn what_finds_no_room_is_read_again_and_not_forgotten() {
        let mut owed = full();
        let end = OWED_MAX as u64;
        owed.add(end, vec![1], Debt::Proof);
        owed.add(end + 1, vec![1], Debt::Change);
        owed.add(end + 2, vec![1], Debt::Change);
        assert_eq!(owed.in_turn().len(), OWED_MAX, "it grows no further");
        assert!(!owed.blocks(end + 1));
        assert!(owed.blocks(end + 2));
        assert_eq!(owed.room_again(), None);
        for position in 0..end / 2 {
            owed.paid(position);
        }
        assert_eq!(owed.room_again(), Some(end));
        for position in end / 2..end {
            owed.paid(position);
        }
        assert_eq!(owed.first(), Some(end), "a restart begins there");
        owed.read_again(end);
        assert_eq!(owed.first(), None);
        assert!(!owed.blocks(u64::MAX));
    }

    #[test]
    fn one_that_cannot_be_proven_keeps_no_other_one_waiting() {
        let mut owed = Owed::default();
        for position in [2, 4, 6] {
            owed.add(position, vec![1], Debt::Proof);
        }
        owed.in_vain(2);
        assert_eq!(owed.in_turn(), [4, 6, 2]);
        owed.in_vain(6);
        assert_eq!(owed.in_turn(), [2, 4, 6]);
        owed.read_again(4);
        assert_eq!(owed.in_turn(), [2]);
    }
}
