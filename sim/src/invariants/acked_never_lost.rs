//! `acked_never_lost`: what a client was told to be done stands in every node's journal. D8; fault 5.
//!
//! Checked on the settled run: a node that is behind may lack the leaf meanwhile. Where the answer named a
//! position, the leaf must stand there.

use super::Invariant;
use crate::history::{Fact, History, Step};
use crate::oracle::{Acknowledged, Promised};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "acked_never_lost",
    statement: "every acknowledged freeze, withdrawal, COMMIT and RED stays in every node's journal",
    source: "D8, fault 5",
    check,
};

fn check(history: &History) -> Result<(), String> {
    if history.settled.is_empty() {
        return Ok(());
    }
    for promise in &history.promises.acknowledged {
        let position = stands(history, promise)
            .ok_or_else(|| format!("{:?} is in no journal", promise.what))?;
        let leaf = history
            .leaves
            .get(&position)
            .and_then(|shown| shown.keys().next());
        let lacks = history.settled.iter().find(|(_, settled)| {
            let at = usize::try_from(position).unwrap_or(usize::MAX);
            settled.leaves.get(at) != leaf
        });
        if let Some((node, _)) = lacks {
            return Err(format!(
                "node {node} lacks {:?} at {position}",
                promise.what
            ));
        }
    }
    Ok(())
}

/// The position at which the journal keeps a promise.
fn stands(history: &History, promise: &Acknowledged) -> Option<u64> {
    let keeps = |fact: &Fact| match (&promise.what, fact) {
        (Promised::Frozen(key, digest), Fact::Frozen { event, intent, .. })
        | (Promised::Withdrawn(key, digest), Fact::Withdrawn { event, intent }) => {
            (key, digest) == (event, intent)
        }
        (
            Promised::Committed(id),
            Fact::Positive {
                step: Step::Committed,
                transaction,
                ..
            },
        ) => Some(*id) == *transaction,
        (Promised::Latched(digest), Fact::Latched { record, .. }) => digest == record,
        _ => false,
    };
    match promise.position {
        Some(position) => history
            .facts
            .get(&position)
            .is_some_and(keeps)
            .then_some(position),
        None => history
            .facts
            .iter()
            .find(|(_, fact)| keeps(fact))
            .map(|(position, _)| *position),
    }
}

#[cfg(test)]
mod tests {
    use redlatch_types::{Digest, EventId, IntentDigest};

    use super::*;
    use crate::history::Settled;

    fn history(position: Option<u64>) -> History {
        let (event, intent) = (EventId(Digest::of(b"e")), IntentDigest(Digest::of(b"i")));
        let mut history = History::default();
        history
            .promises
            .acknowledge(1, Promised::Frozen(event, intent), position);
        let frozen = Fact::Frozen {
            event,
            intent,
            scopes: Default::default(),
        };
        history.facts.insert(1, frozen);
        let leaves = vec![Digest::of(b"0"), Digest::of(b"1")];
        for (position, leaf) in (0..).zip(&leaves) {
            History::show(&mut history.leaves, position, *leaf, 1);
        }
        for node in 1..=3 {
            let settled = Settled {
                leaves: leaves.clone(),
                state: Digest::ZERO,
            };
            history.settled.insert(node, settled);
        }
        history
    }

    #[test]
    fn what_stands_everywhere_passes() {
        assert_eq!(check(&history(None)), Ok(()));
        assert_eq!(check(&history(Some(1))), Ok(()));
    }

    #[test]
    fn fault_005_a_lost_or_moved_acknowledgement_is_found() {
        assert!(check(&history(Some(0))).is_err(), "another position");
        let mut one_node = history(None);
        one_node
            .settled
            .get_mut(&2)
            .expect("node 2")
            .leaves
            .truncate(1);
        assert!(check(&one_node).is_err(), "one node lacks it");
        let mut nowhere = history(None);
        nowhere.facts.clear();
        assert!(check(&nowhere).is_err(), "no node has it");
    }
}
