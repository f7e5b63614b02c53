//! `nothing_positive_after_latch`: from the position of a latch on, no positive step of an intent in its
//! scope. M1-I34, M1-L4; fault 22.
//!
//! Whether a scope covers an intent is worked out here from the intent's leaf, apart from the journal's own
//! fence. A frozen intent whose leaf was not seen counts as covered by everything. There is no reset in
//! this world, so a latch stops for ever.

use std::collections::{BTreeMap, BTreeSet};

use redlatch_types::IntentDigest;
use redlatch_types::records::RedScope;

use super::Invariant;
use crate::history::{Fact, History};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "nothing_positive_after_latch",
    statement: "after a latch nothing positive in its scope is decided, prepared, committed or claimed",
    source: "M1-I34, M1-L4, fault 22",
    check,
};

fn check(history: &History) -> Result<(), String> {
    let mut stopped: BTreeSet<&RedScope> = BTreeSet::new();
    let mut scopes: BTreeMap<IntentDigest, &BTreeSet<RedScope>> = BTreeMap::new();
    let mut intents = BTreeMap::new();
    for (position, fact) in &history.facts {
        let (step, intent) = match fact {
            Fact::Frozen {
                intent,
                scopes: would_stop,
                ..
            } => {
                scopes.insert(*intent, would_stop);
                continue;
            }
            Fact::Latched { scopes: frozen, .. } => {
                stopped.extend(frozen);
                continue;
            }
            Fact::Positive {
                step,
                intent,
                transaction,
            } => {
                if let Some(transaction) = transaction {
                    intents.insert(*transaction, *intent);
                }
                (format!("{step:?}"), Some(*intent))
            }
            Fact::Claimed(transaction) => ("Claimed".into(), intents.get(transaction).copied()),
            Fact::Withdrawn { .. } | Fact::Terminal(_) | Fact::Other(_) => continue,
        };
        let would_stop = intent.and_then(|intent| scopes.get(&intent));
        let covered = match would_stop {
            Some(scopes) => scopes.iter().any(|scope| stopped.contains(scope)),
            None => !stopped.is_empty(),
        };
        if covered {
            return Err(format!(
                "{step} of {intent:?} at {position}, its scope latched before"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use redlatch_types::Digest;

    use super::*;
    use crate::history::Step;

    fn latched(scope: RedScope) -> Fact {
        Fact::Latched {
            record: Digest::of(b"red"),
            number: redlatch_types::LatchNumber(1),
            scopes: BTreeSet::from([scope]),
        }
    }

    fn verdict(facts: Vec<Fact>) -> Result<(), String> {
        check(&History {
            facts: (0..).zip(facts).collect(),
            ..History::default()
        })
    }

    fn story() -> (Fact, Fact, Fact) {
        let intent = IntentDigest(Digest::of(b"i"));
        let event = redlatch_types::EventId(Digest::of(b"e"));
        let scopes = BTreeSet::from([RedScope::Intent(intent), RedScope::Everything]);
        let step = |step| Fact::Positive {
            step,
            intent,
            transaction: None,
        };
        (
            Fact::Frozen {
                event,
                intent,
                scopes,
            },
            step(Step::Prepared),
            step(Step::Committed),
        )
    }

    #[test]
    fn fault_022_a_commit_after_the_latch_is_found() {
        let (frozen, prepared, committed) = story();
        let red = latched(RedScope::Everything);
        let before = vec![
            frozen.clone(),
            prepared.clone(),
            committed.clone(),
            red.clone(),
        ];
        assert_eq!(verdict(before), Ok(()));
        let after = vec![
            frozen.clone(),
            prepared.clone(),
            red.clone(),
            committed.clone(),
        ];
        assert!(verdict(after).is_err());
        let freezing_is_no_permission = vec![red, frozen];
        assert_eq!(verdict(freezing_is_no_permission), Ok(()));
    }

    #[test]
    fn another_scope_stops_nothing_and_an_unknown_intent_is_covered() {
        let (frozen, prepared, committed) = story();
        let elsewhere = latched(RedScope::Intent(IntentDigest(Digest::of(b"other"))));
        let facts = vec![frozen, elsewhere.clone(), prepared, committed.clone()];
        assert_eq!(verdict(facts), Ok(()));
        assert!(verdict(vec![elsewhere, committed]).is_err());
    }
}
