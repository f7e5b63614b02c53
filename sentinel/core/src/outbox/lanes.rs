//! Lanes: to whom something is still owed, and when to try again. Pure timing.

use std::collections::BTreeMap;

use redlatch_types::{NodeId, OutboxEpoch};

/// First pause before a delivery is repeated, milliseconds.
pub const RETRY_FIRST_MS: u64 = 50;
/// Longest pause; it doubles up to here and starts anew with progress.
pub const RETRY_MAX_MS: u64 = 5_000;

/// Who receives deliveries. The actuator comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Receiver {
    /// The actuator, directly.
    Actuator,
    /// A node.
    Node(NodeId),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Lane {
    /// The receiver owes no answer for anything up to here.
    pub(super) acknowledged: OutboxEpoch,
    pause: u64,
    due: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Lanes(BTreeMap<Receiver, Lane>);

impl Lanes {
    pub(super) fn new(nodes: &[NodeId], acknowledged: OutboxEpoch) -> Lanes {
        let mut lanes = Lanes(BTreeMap::new());
        lanes.0.insert(Receiver::Actuator, Lane::new(acknowledged));
        lanes.set_nodes(nodes, acknowledged);
        lanes
    }

    /// Keeps the lanes of `nodes`, opens missing ones and drops the others.
    pub(super) fn set_nodes(&mut self, nodes: &[NodeId], acknowledged: OutboxEpoch) {
        self.0.retain(|to, _| match to {
            Receiver::Actuator => true,
            Receiver::Node(id) => nodes.contains(id),
        });
        for id in nodes {
            let lane = self.0.entry(Receiver::Node(*id));
            lane.or_insert_with(|| Lane::new(acknowledged));
        }
    }

    pub(super) fn receivers(&self) -> Vec<Receiver> {
        self.0.keys().copied().collect()
    }

    pub(super) fn lane_mut(&mut self, to: Receiver) -> Option<&mut Lane> {
        self.0.get_mut(&to)
    }

    /// Everybody is served at `now`, and after the first pause again.
    pub(super) fn hurry(&mut self, now: u64) {
        self.0.values_mut().for_each(|lane| lane.hurry(now));
    }

    pub(super) fn next_due(&self) -> Option<u64> {
        self.0.values().filter_map(|lane| lane.due).min()
    }
}

impl Lane {
    fn new(acknowledged: OutboxEpoch) -> Lane {
        Lane {
            acknowledged,
            pause: RETRY_FIRST_MS,
            due: None,
        }
    }

    pub(super) fn hurry(&mut self, now: u64) {
        self.pause = RETRY_FIRST_MS;
        self.due = Some(now);
    }

    /// Whether to deliver at `now`; if so, the next try is planned.
    pub(super) fn take_turn(&mut self, now: u64) -> bool {
        let turn = self.due.is_some_and(|due| due <= now);
        if turn {
            self.due = Some(now.saturating_add(self.pause));
            self.pause = self.pause.saturating_mul(2).min(RETRY_MAX_MS);
        }
        turn
    }

    /// Nothing is owed.
    pub(super) fn rest(&mut self) {
        self.due = None;
        self.pause = RETRY_FIRST_MS;
    }
}
