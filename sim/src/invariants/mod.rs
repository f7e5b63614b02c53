//! The safety properties, one file each: id, statement, source, and a check of a [`History`].
//!
//! A check reads what was recorded and says what contradicts it. Each is shown a history that it must
//! pass and one that it must refuse; the faults of `crate::planted`, one at least for each of them, show that
//! it is not blind in a real run (fault 99). Checks on a *settled* run read the journals of all nodes after the faults stopped.

mod acked_never_lost;
mod applied_monotone;
mod committed_immutable;
mod election_safety;
mod nonce_once;
mod nothing_positive_after_latch;
mod permission_reads_never_stale;
mod receipts_never_contradict;
mod red_never_lost;
mod red_reaches_terminal;
mod refused_never_happens;
mod sheet_opened_once;
mod state_roots_equal;
mod verifier_votes_once;
mod vote_monotone;

use crate::history::History;

/// One property.
pub struct Invariant {
    /// Its name: that of its file.
    pub id: &'static str,
    /// What holds.
    pub statement: &'static str,
    /// Where that comes from.
    pub source: &'static str,
    /// Says what contradicts it, if anything does.
    pub check: fn(&History) -> Result<(), String>,
}

/// All of them.
pub const ALL: [Invariant; 15] = [
    election_safety::INVARIANT,
    vote_monotone::INVARIANT,
    committed_immutable::INVARIANT,
    applied_monotone::INVARIANT,
    state_roots_equal::INVARIANT,
    acked_never_lost::INVARIANT,
    refused_never_happens::INVARIANT,
    red_never_lost::INVARIANT,
    nothing_positive_after_latch::INVARIANT,
    receipts_never_contradict::INVARIANT,
    permission_reads_never_stale::INVARIANT,
    verifier_votes_once::INVARIANT,
    sheet_opened_once::INVARIANT,
    nonce_once::INVARIANT,
    red_reaches_terminal::INVARIANT,
];

/// Which of them watch which process, in a world that it takes part in.
pub const WATCHED: [(&str, &[&str]); 4] = [
    (
        "redlatch-node",
        &[
            "committed_immutable",
            "state_roots_equal",
            "acked_never_lost",
            "nothing_positive_after_latch",
        ],
    ),
    (
        "redlatch-verifier",
        &["verifier_votes_once", "sheet_opened_once", "nonce_once"],
    ),
    (
        "redlatch-sentinel",
        &["red_never_lost", "red_reaches_terminal"],
    ),
    ("redlatch-actuator", &["red_reaches_terminal"]),
];

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invariant {id} is violated: {detail} (it says: {statement})")]
pub struct Violation {
    /// Which.
    pub id: &'static str,
    /// What holds otherwise.
    pub statement: &'static str,
    /// What contradicts it.
    pub detail: String,
}

/// Checks all of them.
///
/// # Errors
/// The first that does not hold, in the order of [`ALL`].
pub fn check(history: &History) -> Result<(), Violation> {
    for Invariant {
        id,
        statement,
        check,
        ..
    } in ALL
    {
        check(history).map_err(|detail| Violation {
            id,
            statement,
            detail,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_property_has_a_source() {
        let ids: BTreeSet<&str> = ALL.iter().map(|it| it.id).collect();
        assert_eq!(ids.len(), ALL.len());
        assert!(
            ALL.iter()
                .all(|it| !it.statement.is_empty() && !it.source.is_empty())
        );
    }

    #[test]
    fn every_process_is_watched_by_invariants_that_there_are() {
        for (process, watching) in WATCHED {
            assert!(!watching.is_empty(), "{process}");
            for id in watching {
                assert!(ALL.iter().any(|it| it.id == *id), "{process}: {id}");
            }
        }
    }

    #[test]
    fn an_empty_history_contradicts_nothing() {
        assert_eq!(check(&History::default()), Ok(()));
    }
}
