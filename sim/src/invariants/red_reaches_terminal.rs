//! `red_reaches_terminal`: every RED that was raised at the sentinel is latched and carried out to its end,
//! once, within 30 s of simulated time after the faults have stopped. M1-I32, M1-I35; DESIGN §6.

use std::collections::BTreeMap;

use redlatch_types::LatchNumber;

use super::Invariant;
use crate::history::{Fact, History};

/// How long it may take, microseconds.
const SPAN_US: u64 = 30_000_000;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "red_reaches_terminal",
    statement: "every raised RED ends terminal, once, within 30 s after the faults have stopped",
    source: "M1-I32, M1-I35, DESIGN 6",
    check,
};

fn check(history: &History) -> Result<(), String> {
    let mut ends: BTreeMap<LatchNumber, u64> = BTreeMap::new();
    let mut latches = BTreeMap::new();
    for (position, fact) in &history.facts {
        match fact {
            Fact::Latched { record, number, .. } => {
                latches.insert(*record, *number);
            }
            Fact::Terminal(number) => {
                if let Some(before) = ends.insert(*number, *position) {
                    return Err(format!("{number:?} ends at {before} and {position}"));
                }
            }
            _ => {}
        }
    }
    let Some(calm_us) = history.calm_since_us else {
        return Ok(());
    };
    for raised in &history.raised {
        let number = latches.get(&raised.record);
        let ended = number.is_some_and(|number| ends.contains_key(number));
        let late = history.judged_us > calm_us.max(raised.at_us).saturating_add(SPAN_US);
        if late && !ended {
            return Err(format!("{raised:?} is not over: latched as {number:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use redlatch_types::Digest;

    use super::*;
    use crate::history::RaisedSeen;

    fn history(facts: Vec<Fact>, judged_us: u64) -> History {
        History {
            facts: (0..).zip(facts).collect(),
            raised: vec![RaisedSeen {
                at_us: 5_000_000,
                record: Digest::of(b"red"),
            }],
            calm_since_us: Some(7_000_000),
            judged_us,
            ..History::default()
        }
    }

    fn latched() -> Fact {
        Fact::Latched {
            record: Digest::of(b"red"),
            number: LatchNumber(1),
            scopes: std::collections::BTreeSet::new(),
        }
    }

    #[test]
    fn a_red_has_its_time_and_no_more() {
        let (soon, late) = (37_000_000, 37_000_001);
        let end = Fact::Terminal(LatchNumber(1));
        assert_eq!(check(&history(vec![], soon)), Ok(()));
        assert!(check(&history(vec![], late)).is_err());
        assert!(check(&history(vec![latched()], late)).is_err());
        let other = Fact::Terminal(LatchNumber(2));
        assert!(check(&history(vec![latched(), other], late)).is_err());
        assert_eq!(check(&history(vec![latched(), end], late)), Ok(()));
    }

    #[test]
    fn nothing_is_late_while_faults_go_on() {
        let mut faulty = history(vec![], u64::MAX);
        faulty.calm_since_us = None;
        assert_eq!(check(&faulty), Ok(()));
    }

    #[test]
    fn a_stop_that_ends_twice_is_found() {
        let end = Fact::Terminal(LatchNumber(1));
        assert!(check(&history(vec![latched(), end.clone(), end], 0)).is_err());
    }
}
