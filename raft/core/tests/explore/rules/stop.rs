//! Rules of the stop path.

use redlatch_journal::Command;
use redlatch_types::limits::SAFETY_ATTEMPT_TTL_MS;
use redlatch_types::records::{Rebase, SafetyActionIntentV1, SafetyMarkerV1, TransactionVariant};
use redlatch_types::{Envelope, LatchNumber};

use super::super::past::place_of;
use super::*;

impl Taken<'_> {
    pub(super) fn stop(&self, event: &Event, broken: &mut Broken) {
        match event {
            Event::RedLatched(receipt, place, ground, _) => {
                let past = place_of(receipt).and_then(|n| self.past.reds.get(n));
                broken.unless(past.is_some_and(|r| r.latch.is_none()), Rule::I32);
                // The sentinel's chain is whole: nothing in it is broken or unreadable.
                let chained = matches!(place, ChainPlace::Next | ChainPlace::Early);
                broken.unless(chained, Rule::I32);
                // What comes before its predecessor stops everything.
                let all = receipt.mandate.scopes == [RedScope::Everything];
                broken.unless(*place != ChainPlace::Early || all, Rule::I32);
                let frozen = receipt.mandate.scopes.iter().all(|scope| {
                    ground.scopes.contains(scope) || ground.scopes.contains(&RedScope::Everything)
                });
                broken.unless(frozen, Rule::I34);
                broken.unless(self.after.grounds.contains_key(&ground.number), Rule::I34);
            }
            Event::SafetyIntentStored(attempt) => self.stored(attempt, broken),
            Event::SafetyPrepared(_, capability, envelope) => {
                self.prepared_by(envelope, broken);
                let latch = self.before.latches.get(&capability.latch_epoch);
                let attempt = latch.and_then(|l| l.attempt.as_ref());
                let lives = attempt.is_some_and(|a| {
                    a.intent.digest() == capability.safety_intent_digest && self.lives(a)
                });
                broken.unless(lives, Rule::I35);
            }
            Event::LatchCommitting(latch, id) => self.claimed(*latch, id, broken),
            Event::SafetyCommitted(marker) => self.marked(marker, broken),
            Event::SafetyTerminal(latch, id) => {
                let held = self.before.latches.get(latch).map(|l| l.state);
                broken.unless(held == Some(LatchState::Committing(*id)), Rule::I36);
            }
            _ => {}
        }
    }

    fn lives(&self, attempt: &redlatch_journal::authority::Attempt) -> bool {
        let now = self.before.clock.state_time;
        attempt.intent.expected_autonomy_epoch.0 == epoch(self.before)
            && now < attempt.stored_at + SAFETY_ATTEMPT_TTL_MS
    }

    fn prepared_by(&self, envelope: &Envelope, broken: &mut Broken) {
        let actuator = self
            .before
            .governance
            .as_ref()
            .map(|g| g.roster.actuator.key);
        broken.unless(actuator == Some(envelope.key), Rule::L2);
    }

    /// The attempt is the one that was asked for, follows from latch and mandate, and spends
    /// neither a nonce nor a key of an attempt before it.
    fn stored(&self, attempt: &SafetyActionIntentV1, broken: &mut Broken) {
        let asked = match self.command {
            Command::StoreSafetyIntent(asked) => **asked == *attempt,
            _ => false,
        };
        let Some(latch) = self.before.latches.get(&attempt.latch_epoch) else {
            return broken.unless(false, Rule::I31);
        };
        broken.unless(latch.state == LatchState::Pending, Rule::I36);
        let previous = latch.attempt.as_ref();
        broken.unless(!previous.is_some_and(|a| self.lives(a)), Rule::I35);
        let pin = self
            .before
            .governance
            .as_ref()
            .map(|g| g.roster.actuator.pin_digest());
        let derived = pin.map(|pin| {
            let rebase = Rebase {
                attempt_sequence: previous.map_or(1, |a| a.intent.attempt_sequence + 1),
                rebased_from: previous.map(|a| a.intent.digest()),
                expected_autonomy_epoch: redlatch_types::AutonomyEpoch(epoch(self.before)),
                attempt_idempotency_key: attempt.attempt_idempotency_key,
                nonce: attempt.nonce,
            };
            SafetyActionIntentV1::derive(&latch.receipt, pin, rebase)
        });
        let mut earlier = self.past.reds.iter().flat_map(|r| &r.attempts);
        let fresh = earlier.all(|e| {
            e.nonce != attempt.nonce && e.attempt_idempotency_key != attempt.attempt_idempotency_key
        });
        let same = derived.as_ref() == Some(attempt);
        broken.unless(asked && same && fresh, Rule::I31);
    }

    /// The claim: once per latch, by a living attempt, with marker and epoch right behind it.
    fn claimed(&self, latch: LatchNumber, id: &TransactionId, broken: &mut Broken) {
        let red = self.past.red(latch).map(|r| &self.past.reds[r]);
        broken.unless(red.is_some_and(|r| !r.claimed), Rule::I36);
        let held = self.before.latches.get(&latch);
        broken.unless(
            held.is_some_and(|l| l.state == LatchState::Pending),
            Rule::I36,
        );
        let attempt = held.and_then(|l| l.attempt.as_ref());
        let lives = attempt.is_some_and(|a| a.prepared == Some(*id) && self.lives(a));
        broken.unless(lives, Rule::I35);
        let ordered = match self.events {
            [
                Event::LatchCommitting(..),
                Event::SafetyCommitted(marker),
                Event::EpochPublished(_),
                effects @ ..,
            ] => {
                let negative = |e: &Event| {
                    matches!(
                        e,
                        Event::GrantDemoted(..) | Event::GrantRevoked(_) | Event::Aborted(..)
                    )
                };
                marker.transaction_id == *id
                    && marker.latch_epoch == latch
                    && effects.iter().all(negative)
            }
            _ => false,
        };
        broken.unless(ordered, Rule::I36);
    }

    fn marked(&self, marker: &SafetyMarkerV1, broken: &mut Broken) {
        let alone = marker.transaction_variant == TransactionVariant::SafetyKernel
            && marker.positive_authority_decision_forbidden
            && !self
                .events
                .iter()
                .any(|e| matches!(e, Event::Committed(_) | Event::Prepared(..)));
        broken.unless(alone, Rule::I29);
        let held = self.before.latches.get(&marker.latch_epoch);
        let same = held.is_some_and(|l| l.receipt.mandate == marker.mandate);
        broken.unless(same, Rule::I31);
    }

    /// A latch ends by its stop only, and leaves only when it is over and acknowledged; what it
    /// froze stays frozen until a reset.
    pub(super) fn latches(&self, broken: &mut Broken) {
        for (number, latch) in &self.before.latches {
            let holds = match (latch.state, self.after.latches.get(number).map(|l| l.state)) {
                (LatchState::Terminal(_), None) => {
                    let closed =
                        |e: &Event| matches!(e, Event::OutboxAcknowledged(n, _) if n == number);
                    self.events.iter().any(closed)
                }
                (then, Some(now)) if then == now => true,
                (LatchState::Pending, Some(LatchState::Committing(_))) => true,
                (LatchState::Committing(by), Some(LatchState::Terminal(end))) => by == end,
                _ => false,
            };
            broken.unless(holds, Rule::I35);
        }
        let gone = self
            .before
            .grounds
            .keys()
            .filter(|n| !self.after.grounds.contains_key(n));
        let mut freed = self.events.iter().filter_map(|e| match e {
            Event::GroundsReset(grounds) => Some(grounds),
            _ => None,
        });
        let freed = freed.next().cloned().unwrap_or_default();
        broken.unless(gone.eq(freed.iter()), Rule::Whole);
        if let Step::Red(first, last) = self.step {
            let mut latched = self.past.reds.clone();
            for event in self.events {
                if let Event::RedLatched(receipt, ..) = event
                    && let Some(red) = place_of(receipt).and_then(|n| latched.get_mut(n))
                {
                    red.latch = Some(receipt.latch_epoch);
                }
            }
            let all = latched[*first..=*last].iter().all(|r| r.latch.is_some());
            broken.unless(all, Rule::I32);
        }
    }
}
