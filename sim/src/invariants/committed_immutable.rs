//! `committed_immutable`: what was applied at an index or position is the same everywhere and for ever.
//! Raft §5.4 (*state machine safety*), TLA+ `StateMachineSafety`; faults 1, 3 and 5.
//!
//! Read from the disks, so it includes nodes that have crashed since: an entry counts from the moment a
//! node wrote it as applied, a leaf from the moment it was written.

use super::Invariant;
use crate::history::{History, contradiction};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "committed_immutable",
    statement: "an applied entry and a written leaf are the same on every node and never change",
    source: "Raft 5.4, faults 1, 3, 5",
    check,
};

fn check(history: &History) -> Result<(), String> {
    if let Some((index, shown)) = contradiction(&history.entries) {
        return Err(format!("entry {index} is {shown:?}"));
    }
    match contradiction(&history.leaves) {
        None => Ok(()),
        Some((position, shown)) => Err(format!("leaf {position} is {shown:?}")),
    }
}

#[cfg(test)]
mod tests {
    use redlatch_types::Digest;

    use super::*;

    #[test]
    fn the_same_everywhere_passes_another_entry_does_not() {
        let mut history = History::default();
        for node in 1..=3 {
            History::show(&mut history.entries, 7, (2, Digest::of(b"a")), node);
            History::show(&mut history.leaves, 0, Digest::of(b"leaf"), node);
        }
        assert_eq!(check(&history), Ok(()));
        let mut other_term = history.clone();
        History::show(&mut other_term.entries, 7, (3, Digest::of(b"a")), 1);
        assert!(check(&other_term).is_err());
        History::show(&mut history.leaves, 0, Digest::of(b"other"), 3);
        assert!(check(&history).is_err());
    }
}
