//! Readiness: the named conditions a process waits for, each met or unmet with a reason.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::Notify;

/// The conditions of a process. Clones share one set.
#[derive(Clone, Default)]
pub struct Readiness(Arc<Shared>);

#[derive(Default)]
struct Shared {
    conditions: ArcSwap<Vec<Arc<Named>>>,
    changed: Notify,
}

struct Named {
    name: &'static str,
    /// Why it is not met; none when it is.
    unmet: ArcSwapOption<String>,
}

/// One condition, in the hands of whoever knows whether it is met.
#[derive(Clone)]
pub struct Condition {
    named: Arc<Named>,
    readiness: Readiness,
}

/// A condition as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Its name.
    pub name: &'static str,
    /// Why it is not met; none when it is.
    pub unmet: Option<String>,
}

impl Readiness {
    /// No conditions: ready.
    pub fn new() -> Readiness {
        Readiness::default()
    }

    /// Adds a condition, not met yet for `reason`.
    pub fn condition(&self, name: &'static str, reason: &str) -> Condition {
        let named = Arc::new(Named {
            name,
            unmet: ArcSwapOption::from_pointee(reason.to_owned()),
        });
        self.0.conditions.rcu(|before| {
            let mut conditions = Vec::clone(before);
            conditions.push(Arc::clone(&named));
            conditions
        });
        self.0.changed.notify_waiters();
        Condition {
            named,
            readiness: self.clone(),
        }
    }

    /// Every condition in the order they were added.
    pub fn states(&self) -> Vec<State> {
        let conditions = self.0.conditions.load();
        conditions
            .iter()
            .map(|named| State {
                name: named.name,
                unmet: named.unmet.load().as_deref().cloned(),
            })
            .collect()
    }

    /// Whether every condition is met.
    pub fn is_ready(&self) -> bool {
        self.0
            .conditions
            .load()
            .iter()
            .all(|named| named.unmet.load().is_none())
    }

    /// Resolves when something has changed after `seen` was read from [`Readiness::is_ready`].
    pub async fn changed_from(&self, seen: bool) {
        loop {
            let changed = self.0.changed.notified();
            if self.is_ready() != seen {
                return;
            }
            changed.await;
        }
    }
}

impl Condition {
    /// It is met.
    pub fn met(&self) {
        self.named.unmet.store(None);
        self.readiness.0.changed.notify_waiters();
    }

    /// It is not met, for this reason.
    pub fn unmet(&self, reason: impl Into<String>) {
        self.named.unmet.store(Some(Arc::new(reason.into())));
        self.readiness.0.changed.notify_waiters();
    }
}

#[cfg(all(test, not(madsim)))]
mod tests {
    use super::*;

    #[test]
    fn ready_means_every_condition_is_met() {
        let readiness = Readiness::new();
        assert!(readiness.is_ready());
        let journal = readiness.condition("journal", "replaying");
        let peers = readiness.condition("peers", "none answered");
        journal.met();
        assert!(!readiness.is_ready());
        peers.met();
        assert!(readiness.is_ready());
        journal.unmet("disk failed");
        assert_eq!(
            readiness.states(),
            [
                State {
                    name: "journal",
                    unmet: Some("disk failed".into())
                },
                State {
                    name: "peers",
                    unmet: None
                },
            ]
        );
    }

    #[tokio::test]
    async fn a_change_wakes_whoever_waits_for_it() {
        let readiness = Readiness::new();
        let journal = readiness.condition("journal", "replaying");
        let waiting = tokio::spawn({
            let readiness = readiness.clone();
            async move { readiness.changed_from(false).await }
        });
        tokio::task::yield_now().await;
        journal.unmet("still replaying");
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        journal.met();
        waiting.await.expect("woken");
    }
}
