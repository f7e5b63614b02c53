//! Answers about stops: `red raise`, `red show`.

use serde::{Deserialize, Serialize};

use super::Decimal;

/// `red raise`: the RED is durable in the sentinel's outbox.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Raised {
    pub(crate) outbox_epoch: Decimal,
    pub(crate) order_id: String,
    pub(crate) scope: String,
}

/// `red show`: three views of the stop, each from its own source.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stop {
    pub(crate) outbox: View<Outbox>,
    pub(crate) latches: View<Vec<Latch>>,
    pub(crate) hold: View<Hold>,
}

/// What a source shows, or why it is silent.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum View<T> {
    Silent { error: String },
    Seen(T),
}

/// The sentinel's outbox.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outbox {
    pub(crate) head: Decimal,
    pub(crate) health: String,
    pub(crate) open: Vec<OutboxEntry>,
}

/// A RED that is not closed.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OutboxEntry {
    /// None if this build cannot read the entry; it stops everything then.
    pub(crate) outbox_epoch: Option<Decimal>,
    pub(crate) scope: String,
    pub(crate) reason: String,
    pub(crate) progress: String,
    pub(crate) latch: Option<Decimal>,
}

/// A latch as the journal tells it; the three places are positions.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latch {
    pub(crate) latch: Decimal,
    pub(crate) outbox_epoch: Decimal,
    pub(crate) scopes: Vec<String>,
    pub(crate) reason: String,
    pub(crate) latched_at: Decimal,
    pub(crate) terminal_at: Option<Decimal>,
    pub(crate) acknowledged_at: Option<Decimal>,
}

/// What the actuator holds.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub(crate) held: Vec<String>,
    pub(crate) sentinel: String,
    pub(crate) seen_outbox_epoch: Decimal,
}
