//! `permission_reads_never_stale`: a status says *free* only if no latch of its scope was acknowledged
//! before the question was asked. DESIGN §8; fault 19.
//!
//! Linearizability of the one answer that permits. An answer that adds caution may always be given. A
//! question about everything is covered by every latch, and so is one about an intent nobody has seen.

use super::Invariant;
use crate::history::{Fact, History, StatusSeen};
use redlatch_types::records::ScopeState;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "permission_reads_never_stale",
    statement: "no node signs free once a latch in that scope was acknowledged before the question",
    source: "DESIGN 8, fault 19",
    check,
};

fn check(history: &History) -> Result<(), String> {
    let free = history
        .statuses
        .iter()
        .filter(|it| it.scope == ScopeState::Free);
    for status in free {
        let stale = history
            .facts
            .iter()
            .find(|(_, fact)| was_latched(history, status, fact));
        if let Some((position, _)) = stale {
            return Err(format!(
                "{status:?}, but the latch at {position} was known before"
            ));
        }
    }
    Ok(())
}

/// Whether `fact` is a latch that covers the question and was acknowledged before it.
fn was_latched(history: &History, status: &StatusSeen, fact: &Fact) -> bool {
    let Fact::Latched { record, scopes, .. } = fact else {
        return false;
    };
    let known = history.promises.latched_at(*record);
    let before = known.is_some_and(|at| at < status.asked_us);
    let asked = status.intent.and_then(|intent| history.scopes_of(intent));
    before && asked.is_none_or(|would_stop| would_stop.iter().any(|it| scopes.contains(it)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use redlatch_types::records::RedScope;
    use redlatch_types::{Digest, EventId, IntentDigest};

    use super::*;
    use crate::oracle::Promised;

    fn verdict(asked_us: u64, intent: Option<&[u8]>, scope: ScopeState) -> Result<(), String> {
        let record = Digest::of(b"red");
        let stopped = IntentDigest(Digest::of(b"stopped"));
        let other = IntentDigest(Digest::of(b"other"));
        let mut history = History::default();
        history
            .promises
            .acknowledge(100, Promised::Latched(record), None);
        for (position, intent) in [(0, stopped), (1, other)] {
            let (event, scopes) = (
                EventId(intent.0),
                BTreeSet::from([RedScope::Intent(intent)]),
            );
            history.facts.insert(
                position,
                Fact::Frozen {
                    event,
                    intent,
                    scopes,
                },
            );
        }
        let scopes = BTreeSet::from([RedScope::Intent(stopped)]);
        let number = redlatch_types::LatchNumber(1);
        let latched = Fact::Latched {
            record,
            number,
            scopes,
        };
        history.facts.insert(2, latched);
        let intent = intent.map(|name| IntentDigest(Digest::of(name)));
        history.statuses.push(StatusSeen {
            node: 1,
            asked_us,
            intent,
            scope,
        });
        check(&history)
    }

    #[test]
    fn caution_an_earlier_question_and_another_scope_pass() {
        assert_eq!(verdict(200, Some(b"stopped"), ScopeState::Latched), Ok(()));
        assert_eq!(verdict(50, Some(b"stopped"), ScopeState::Free), Ok(()));
        assert_eq!(verdict(200, Some(b"other"), ScopeState::Free), Ok(()));
    }

    #[test]
    fn fault_019_free_after_an_acknowledged_latch_is_found() {
        assert!(verdict(101, Some(b"stopped"), ScopeState::Free).is_err());
        assert!(verdict(101, None, ScopeState::Free).is_err());
        assert!(verdict(101, Some(b"never seen"), ScopeState::Free).is_err());
    }
}
