//! The one place where effects leave the outbox: first what is to be stored, then what is owed.

use redlatch_types::limits::RED_SEGMENT_LEN_MAX;
use redlatch_types::records::OutboxAckV1;
use redlatch_types::{Canonical, Envelope, LatchNumber, OutboxEpoch};

use super::{Effect, Outbox, Progress, Receiver, SEGMENT_BYTES_MAX, Write};

/// What one receiver is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// To whom.
    pub to: Receiver,
    /// Entries after the last acknowledged one, ascending.
    pub segment: Vec<Envelope>,
    /// Latches whose terminal event is awaited; nodes only.
    pub awaiting: Vec<LatchNumber>,
    /// Signed [`OutboxAckV1`] to be journaled; nodes only.
    pub closing: Vec<Envelope>,
}

impl Outbox {
    /// Persists what changed, then serves whoever is due: the one place where effects leave.
    pub(super) fn run(&mut self, now: u64, out: &mut Vec<Effect>) {
        if let Some(unwritten) = self.unwritten.take() {
            let put = unwritten.put.iter();
            let put = put.filter_map(|n| Some((*n, self.entries.get(n)?.clone())));
            out.push(Effect::Persist(Box::new(Write {
                expected_generation: unwritten.expected_generation,
                keep: unwritten.keep,
                state: self.state.clone(),
                put: put.collect(),
                delete: unwritten.delete,
            })));
        }
        for to in self.lanes.receivers() {
            let turn = self
                .lanes
                .lane_mut(to)
                .is_some_and(|lane| lane.take_turn(now));
            if !turn {
                continue;
            }
            match self.owed(to) {
                Some(delivery) => out.push(Effect::Deliver(delivery)),
                None => {
                    if let Some(lane) = self.lanes.lane_mut(to) {
                        lane.rest();
                    }
                }
            }
        }
    }

    fn owed(&mut self, to: Receiver) -> Option<Delivery> {
        let delivery = match to {
            Receiver::Actuator => {
                let acknowledged = self.lanes.lane_mut(to)?.acknowledged;
                Delivery {
                    to,
                    segment: self.segment_after(acknowledged),
                    awaiting: Vec::new(),
                    closing: Vec::new(),
                }
            }
            Receiver::Node(_) => Delivery {
                to,
                segment: self.segment_after(self.latched_through()),
                awaiting: self.awaiting(),
                closing: self.closing(),
            },
        };
        let owes = !delivery.segment.is_empty()
            || !delivery.awaiting.is_empty()
            || !delivery.closing.is_empty();
        owes.then_some(delivery)
    }

    /// The last number up to which every entry is proven latched: what a node acknowledges.
    fn latched_through(&self) -> OutboxEpoch {
        let unlatched = self
            .entries
            .iter()
            .find(|(_, e)| e.progress == Progress::Chained);
        match unlatched {
            Some((number, _)) => OutboxEpoch(number.0.saturating_sub(1)),
            None => self.state.head.number,
        }
    }

    fn segment_after(&self, number: OutboxEpoch) -> Vec<Envelope> {
        let mut bytes = 0;
        let mut segment = Vec::new();
        for entry in self.entries.range(number.next()..).map(|(_, e)| e) {
            bytes += entry.envelope.to_canonical().len();
            let fits = bytes <= SEGMENT_BYTES_MAX && segment.len() < RED_SEGMENT_LEN_MAX;
            if !fits && !segment.is_empty() {
                break;
            }
            segment.push(entry.envelope.clone());
        }
        segment
    }

    fn awaiting(&self) -> Vec<LatchNumber> {
        let latches = self.entries.values().filter_map(|e| match e.progress {
            Progress::Latched(latch) => Some(latch),
            _ => None,
        });
        latches.collect()
    }

    fn closing(&self) -> Vec<Envelope> {
        let terminal = self.entries.iter().filter_map(|(n, e)| match e.progress {
            Progress::Terminal(latch) => Some((*n, latch)),
            _ => None,
        });
        terminal
            .map(|(outbox_epoch, latch)| {
                let record = OutboxAckV1 {
                    latch,
                    outbox_epoch,
                    sentinel_key: self.writer.key.public_key(),
                };
                Envelope::seal(self.writer.scope, &self.writer.key, &record)
            })
            .collect()
    }
}
