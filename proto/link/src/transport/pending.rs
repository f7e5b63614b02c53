//! Bounds on what strangers can hold: handshakes in progress, and connections per source (FAULTS 60).
//!
//! A newcomer's handshake is never refused: when the table or its source's share is full, the oldest one
//! gives way. Peers that connect and stay silent therefore push out each other, not the peer that speaks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::Limits;

/// Who is being shaken hands with, and who is connected.
pub(super) struct Pending {
    table: Mutex<Table>,
    handshakes_max: usize,
    handshakes_per_source_max: usize,
    connections_per_source_max: usize,
}

#[derive(Default)]
struct Table {
    /// Number of the next handshake; numbers order handshakes by age.
    next: u64,
    handshakes: BTreeMap<u64, oneshot::Sender<()>>,
    sources: BTreeMap<IpAddr, Source>,
}

#[derive(Default)]
struct Source {
    handshakes: BTreeSet<u64>,
    connections: usize,
}

/// A handshake's place in the table; given back on drop.
pub(super) struct Handshake {
    pending: Arc<Pending>,
    source: IpAddr,
    number: u64,
}

/// A connection's place in its source's share; given back on drop.
pub(super) struct Place {
    pending: Arc<Pending>,
    source: IpAddr,
}

impl Pending {
    pub(super) fn new(limits: &Limits) -> Arc<Pending> {
        Arc::new(Pending {
            table: Mutex::default(),
            handshakes_max: limits.handshakes_max.max(1),
            handshakes_per_source_max: limits.handshakes_per_source_max.max(1),
            connections_per_source_max: limits.connections_per_source_max.max(1),
        })
    }

    /// Begins a handshake. The receiver resolves when it has to give way.
    pub(super) fn begin(self: &Arc<Self>, source: IpAddr) -> (Handshake, oneshot::Receiver<()>) {
        let (evict, evicted) = oneshot::channel();
        let mut table = self.lock();
        let share = table.sources.get(&source).map(|held| &held.handshakes);
        let oldest_of_source = share
            .filter(|share| share.len() >= self.handshakes_per_source_max)
            .and_then(|share| share.first().copied());
        let oldest = (table.handshakes.len() >= self.handshakes_max)
            .then(|| {
                table
                    .handshakes
                    .first_key_value()
                    .map(|(number, _)| *number)
            })
            .flatten();
        if let Some(victim) = oldest_of_source.or(oldest) {
            // Dropping the sender resolves the victim's receiver; the victim's own drop tidies up the rest.
            table.handshakes.remove(&victim);
            for held in table.sources.values_mut() {
                held.handshakes.remove(&victim);
            }
        }
        let number = table.next;
        table.next += 1;
        table.handshakes.insert(number, evict);
        table
            .sources
            .entry(source)
            .or_default()
            .handshakes
            .insert(number);
        drop(table);
        (
            Handshake {
                pending: Arc::clone(self),
                source,
                number,
            },
            evicted,
        )
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // The table is consistent between any two statements that could panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn forget_if_idle(&mut self, source: IpAddr) {
        if self
            .sources
            .get(&source)
            .is_some_and(|held| held.handshakes.is_empty() && held.connections == 0)
        {
            self.sources.remove(&source);
        }
    }
}

impl Handshake {
    /// Turns the handshake into a connection, if its source's share is not used up.
    pub(super) fn establish(self) -> Option<Place> {
        let mut table = self.pending.lock();
        let held = table.sources.entry(self.source).or_default();
        if held.connections >= self.pending.connections_per_source_max {
            return None;
        }
        held.connections += 1;
        drop(table);
        Some(Place {
            pending: Arc::clone(&self.pending),
            source: self.source,
        })
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut table = self.pending.lock();
        table.handshakes.remove(&self.number);
        if let Some(held) = table.sources.get_mut(&self.source) {
            held.handshakes.remove(&self.number);
        }
        table.forget_if_idle(self.source);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.pending.lock();
        if let Some(held) = table.sources.get_mut(&self.source) {
            held.connections = held.connections.saturating_sub(1);
        }
        table.forget_if_idle(self.source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(handshakes: usize, per_source: usize, connections: usize) -> Arc<Pending> {
        Pending::new(&Limits {
            handshakes_max: handshakes,
            handshakes_per_source_max: per_source,
            connections_per_source_max: connections,
            ..Limits::default()
        })
    }

    fn source(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn gave_way(evicted: &mut oneshot::Receiver<()>) -> bool {
        evicted.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn fault_060_a_silent_source_pushes_out_only_itself() {
        let pending = table(100, 2, 10);
        let (_quiet, mut quiet) = pending.begin(source(1));
        let mut silent: Vec<_> = (0..5).map(|_| pending.begin(source(2))).collect();
        let fate: Vec<bool> = silent
            .iter_mut()
            .map(|(_, evicted)| gave_way(evicted))
            .collect();
        assert_eq!(fate, [true, true, true, false, false]);
        assert!(!gave_way(&mut quiet));
    }

    #[test]
    fn fault_060_a_full_table_admits_the_newcomer_and_drops_the_oldest() {
        let pending = table(2, 2, 10);
        let (_first, mut first) = pending.begin(source(1));
        let (_second, mut second) = pending.begin(source(2));
        let (_third, mut third) = pending.begin(source(3));
        assert_eq!(
            [&mut first, &mut second, &mut third].map(gave_way),
            [true, false, false]
        );
    }

    #[test]
    fn shares_are_given_back_and_nothing_is_left_behind() {
        let pending = table(2, 2, 1);
        let place = pending.begin(source(1)).0.establish().expect("room");
        assert!(
            pending.begin(source(1)).0.establish().is_none(),
            "share used up"
        );
        drop(place);
        assert!(pending.begin(source(1)).0.establish().is_some());
        let table = pending.lock();
        assert!(table.handshakes.is_empty() && table.sources.is_empty());
    }
}
