//! What the path so far has made: names for later steps, and what may happen only once.

use redlatch_types::event::Event;
use redlatch_types::records::{RedLatchReceiptV1, SafetyActionIntentV1, SafetyCapabilityV1};
use redlatch_types::{
    AutonomyEpoch, CapabilityId, IntentDigest, LatchNumber, MarkerNumber, TransactionId,
};

use super::compose::Said;
use super::step::Step;

/// The past of one wish.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct WishPast {
    pub(super) intent: Option<IntentDigest>,
    pub(super) frozen_at: usize,
    /// The last capability minted; spent once a transaction was prepared.
    pub(super) capability: Option<CapabilityId>,
    pub(super) transaction: Option<TransactionId>,
    pub(super) marker: Option<MarkerNumber>,
}

/// The past of one RED.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct RedPast {
    pub(super) latch: Option<LatchNumber>,
    pub(super) claimed: bool,
    pub(super) attempts: Vec<SafetyActionIntentV1>,
}

impl RedPast {
    /// The transaction of an attempt, by its number.
    pub(super) fn transaction(&self, attempt: u64) -> Option<TransactionId> {
        let stored = self
            .attempts
            .iter()
            .find(|a| a.attempt_sequence == attempt)?;
        Some(SafetyCapabilityV1::of(stored).transaction_id())
    }
}

/// Which of the REDs a latch came from, if from one of them.
pub(super) fn place_of(receipt: &RedLatchReceiptV1) -> Option<usize> {
    usize::try_from(receipt.sentinel_outbox_epoch.0)
        .ok()?
        .checked_sub(1)
}

/// The past of one path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Past {
    pub(super) wishes: Vec<WishPast>,
    pub(super) reds: Vec<RedPast>,
    /// The point of time at which each autonomy epoch began, the first one first.
    pub(super) began: Vec<(AutonomyEpoch, usize)>,
    /// Signed commands that were accepted, in order.
    pub(super) accepted: Vec<Said>,
}

impl Past {
    pub(super) fn start(wishes: usize, reds: usize, epoch: AutonomyEpoch) -> Past {
        Past {
            wishes: vec![WishPast::default(); wishes],
            reds: vec![RedPast::default(); reds],
            began: vec![(epoch, 0)],
            accepted: Vec::new(),
        }
    }

    /// The wish that became this intent.
    pub(super) fn wish(&self, intent: &IntentDigest) -> Option<usize> {
        self.wishes.iter().position(|w| w.intent == Some(*intent))
    }

    /// The wish that this transaction carries out.
    pub(super) fn wish_of(&self, id: &TransactionId) -> Option<usize> {
        self.wishes.iter().position(|w| w.transaction == Some(*id))
    }

    /// The RED that became this latch.
    pub(super) fn red(&self, latch: LatchNumber) -> Option<usize> {
        self.reds.iter().position(|r| r.latch == Some(latch))
    }

    /// The past after one more step.
    pub(super) fn after(
        &self,
        step: &Step,
        said: Option<Said>,
        events: &[Event],
        point: usize,
    ) -> Past {
        let mut past = self.clone();
        past.accepted.extend(said);
        for event in events {
            past.note(step, event, point);
        }
        past
    }

    fn note(&mut self, step: &Step, event: &Event, point: usize) {
        match event {
            Event::Frozen(digest, ..) => {
                if let Step::Freeze(wish) = step {
                    self.wishes[*wish].intent = Some(*digest);
                    self.wishes[*wish].frozen_at = point;
                }
            }
            Event::Authorized(body) => {
                if let Some(wish) = self.wish(&body.decision.binding.intent_digest) {
                    self.wishes[wish].capability = Some(body.capability_id);
                }
            }
            Event::Prepared(id, transaction) => {
                if let Some(wish) = self.wish(&transaction.binding.intent_digest) {
                    self.wishes[wish].transaction = Some(*id);
                }
            }
            Event::Committed(marker) => {
                if let Some(wish) = self.wish(&marker.intent_digest) {
                    self.wishes[wish].marker = Some(marker.marker);
                }
            }
            Event::RedLatched(receipt, ..) => {
                if let Some(red) = place_of(receipt).and_then(|n| self.reds.get_mut(n)) {
                    red.latch.get_or_insert(receipt.latch_epoch);
                }
            }
            Event::SafetyIntentStored(attempt) => {
                if let Some(red) = self.red(attempt.latch_epoch) {
                    self.reds[red].attempts.push((**attempt).clone());
                }
            }
            Event::LatchCommitting(latch, _) => {
                if let Some(red) = self.red(*latch) {
                    self.reds[red].claimed = true;
                }
            }
            Event::EpochPublished(epoch) => self.began.push((epoch.autonomy_epoch, point)),
            _ => {}
        }
    }
}
