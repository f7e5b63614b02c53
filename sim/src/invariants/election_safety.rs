//! `election_safety`: in one term at most one node leads. Raft §5.2 and §3.6.3, TLA+ `ElectionSafety`;
//! faults 1 and 2.
//!
//! A leader shows itself in two ways, and both are recorded: it says that it leads, and a disk stores its
//! vote as committed. A node that still believes itself leader of an *earlier* term is no contradiction.

use super::Invariant;
use crate::history::{History, contradiction};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "election_safety",
    statement: "at most one node leads in a term",
    source: "Raft 5.2, faults 1 and 2",
    check,
};

fn check(history: &History) -> Result<(), String> {
    match contradiction(&history.leaders) {
        None => Ok(()),
        Some((term, shown)) => {
            let leaders: Vec<&u64> = shown.keys().collect();
            Err(format!("term {term} has the leaders {leaders:?}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_001_two_leaders_of_one_term_are_found() {
        let mut history = History::default();
        for (term, leader, seen_by) in [(1, 1, 1), (1, 1, 2), (2, 3, 3)] {
            History::show(&mut history.leaders, term, leader, seen_by);
        }
        assert_eq!(check(&history), Ok(()));
        History::show(&mut history.leaders, 2, 1, 1);
        assert_eq!(check(&history), Err("term 2 has the leaders [1, 3]".into()));
    }
}
