//! `refused_never_happens`: of what a client was told that nothing happened, nothing stands in the
//! journal. DESIGN §11 (*refused*, *unavailable* and *indeterminate* are never confused); fault 30.

use super::Invariant;
use crate::history::{Fact, History};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "refused_never_happens",
    statement: "a command answered with \"nothing happened\" leaves no leaf, then or later",
    source: "DESIGN 11, fault 30",
    check,
};

fn check(history: &History) -> Result<(), String> {
    let happened = history
        .facts
        .iter()
        .find_map(|(position, fact)| match fact {
            Fact::Frozen { event, .. } | Fact::Withdrawn { event, .. } => history
                .promises
                .nothing
                .contains(event)
                .then_some((position, event)),
            _ => None,
        });
    match happened {
        None => Ok(()),
        Some((position, event)) => Err(format!("command {event} stands at {position}")),
    }
}

#[cfg(test)]
mod tests {
    use redlatch_types::{Digest, EventId, IntentDigest};

    use super::*;

    #[test]
    fn fault_030_a_command_that_happened_after_all_is_found() {
        let (event, intent) = (EventId(Digest::of(b"e")), IntentDigest(Digest::of(b"i")));
        let mut history = History::default();
        history.facts.insert(4, Fact::Withdrawn { event, intent });
        history
            .promises
            .nothing_happened(EventId(Digest::of(b"other")));
        history.promises.lose_sight_of(event);
        assert_eq!(check(&history), Ok(()), "unknown is not absent");
        history.promises.unknown.clear();
        history.promises.nothing_happened(event);
        assert!(check(&history).is_err());
    }
}
