//! `state_roots_equal`: two nodes that have applied the same entry have the same state. D3; fault 17.
//!
//! The digest is that of the whole authority after every single entry, also of those that a node applies
//! once more when it starts, so a state that depends on anything but the log shows at that very entry.

use super::Invariant;
use crate::history::{History, contradiction};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "state_roots_equal",
    statement: "after the same entry every node has the same digest of its authority",
    source: "D3, fault 17",
    check,
};

fn check(history: &History) -> Result<(), String> {
    if let Some((index, shown)) = contradiction(&history.states) {
        return Err(format!("after entry {index} the digests are {shown:?}"));
    }
    let mut settled = history.settled.iter();
    let Some((first, one)) = settled.next() else {
        return Ok(());
    };
    match settled.find(|(_, other)| other.state != one.state) {
        None => Ok(()),
        Some((node, _)) => Err(format!("settled, nodes {first} and {node} have two states")),
    }
}

#[cfg(test)]
mod tests {
    use redlatch_types::Digest;

    use super::*;
    use crate::history::Settled;

    #[test]
    fn fault_017_another_digest_after_the_same_entry_is_found() {
        let mut history = History::default();
        for (index, node) in [(5, 1), (5, 2), (6, 1)] {
            History::show(&mut history.states, index, Digest::of(&[5]), node);
        }
        assert_eq!(check(&history), Ok(()));
        History::show(&mut history.states, 6, Digest::of(&[6]), 3);
        assert!(check(&history).is_err());
    }

    #[test]
    fn settled_nodes_have_one_state() {
        let mut history = History::default();
        for (node, state) in [(1, b"a"), (2, b"a"), (3, b"b")] {
            assert_eq!(check(&history), Ok(()));
            let settled = Settled {
                leaves: vec![],
                state: Digest::of(state),
            };
            history.settled.insert(node, settled);
        }
        assert!(check(&history).is_err());
    }
}
