//! `red_never_lost`: every RED the sentinel has signed is latched once the run has settled, and once.
//! M1-I32; DESIGN §6; fault 22.
//!
//! The sentinel delivers until it sees the latch, so after the faults have stopped none may be missing,
//! whether its first deliveries were answered or not.

use std::collections::BTreeMap;

use redlatch_types::Digest;

use super::Invariant;
use crate::history::{Fact, History};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "red_never_lost",
    statement: "every signed RED is latched in the end, exactly once",
    source: "M1-I32, DESIGN 6, fault 22",
    check,
};

fn check(history: &History) -> Result<(), String> {
    let mut latches: BTreeMap<Digest, Vec<u64>> = BTreeMap::new();
    for (position, fact) in &history.facts {
        if let Fact::Latched { record, .. } = fact {
            latches.entry(*record).or_default().push(*position);
        }
    }
    if let Some((record, positions)) = latches.iter().find(|(_, at)| at.len() > 1) {
        return Err(format!("RED {record} is latched at {positions:?}"));
    }
    let missing = history
        .promises
        .reds
        .iter()
        .find(|red| !latches.contains_key(&red.record));
    match missing {
        Some(red) if !history.settled.is_empty() => Err(format!("{red:?} is not latched")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use redlatch_types::records::RedScope;

    use super::*;
    use crate::history::Settled;
    use crate::oracle::RedSent;

    fn settled() -> Settled {
        Settled {
            leaves: Vec::new(),
            state: Digest::ZERO,
        }
    }

    fn history(latched: &[u64]) -> History {
        let record = Digest::of(b"red");
        let mut history = History::default();
        history.promises.reds.push(RedSent {
            record,
            scope: RedScope::Everything,
        });
        for position in latched {
            let latched = Fact::Latched {
                record,
                number: redlatch_types::LatchNumber(*position),
                scopes: BTreeSet::from([RedScope::Everything]),
            };
            history.facts.insert(*position, latched);
        }
        history
    }

    #[test]
    fn a_red_may_be_missing_only_while_faults_go_on() {
        let mut open = history(&[]);
        assert_eq!(check(&open), Ok(()));
        open.settled.insert(1, settled());
        assert!(check(&open).is_err());
        let mut latched = history(&[9]);
        latched.settled.insert(1, settled());
        assert_eq!(check(&latched), Ok(()));
    }

    #[test]
    fn a_red_that_latched_twice_is_found() {
        assert!(check(&history(&[9, 12])).is_err());
    }
}
