//! What an exploration has to come past, so that what holds does not hold of nothing.

use redlatch_journal::authority::{
    Authority, EffectStage, IntentStage, LatchState, TransactionStage,
};
use redlatch_types::event::{ChainPlace, Event};
use redlatch_types::records::AbortReason;

use super::past::Past;

/// Declares the sights with their names.
macro_rules! sights {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {
        /// Something that happens on some path.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub(super) enum Sight { $($(#[$doc])* $name,)* }

        impl Sight {
            pub(super) fn text(self) -> &'static str {
                match self { $(Sight::$name => $text,)* }
            }
        }
    };
}

sights! {
    /// An effect was made.
    Landed "seen: an effect is done";
    /// An effect was made while a latch of another scope was pending.
    LandedBesideALatch "seen: an effect is claimed beside a pending latch of another scope";
    /// Both wishes have a marker.
    BothCommitted "seen: two markers of two intents";
    /// A prepared transaction was ended.
    Aborted "seen: a transaction is ended by its time";
    /// A claim came after a latch.
    Withheld "seen: an effect is withheld";
    /// An intent ended by its time.
    Lapsed "seen: an intent ends by its time";
    /// A change of the organism is in force.
    Activated "seen: a change of the organism is in force";
    /// A reset is in force.
    Freed "seen: what was frozen is free";
    /// Two latches are pending.
    TwoPending "seen: two latches pending";
    /// Two stops are complete.
    BothTerminal "seen: two stops complete";
    /// A RED came before its predecessor.
    ChainGap "seen: a RED before its predecessor";
    /// A third attempt.
    ThirdAttempt "seen: a third attempt is prepared";
    /// A third epoch.
    ThirdEpoch "seen: a third epoch";
}

/// A set of sights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Sights(u32);

impl Sights {
    pub(super) fn bits(self) -> u32 {
        self.0
    }
    pub(super) fn from_bits(bits: u32) -> Sights {
        Sights(bits)
    }
    pub(super) fn has(self, sight: Sight) -> bool {
        self.0 & (1 << sight as u8) != 0
    }

    fn add(&mut self, sight: Sight, seen: bool) {
        if seen {
            self.0 |= 1 << sight as u8;
        }
    }

    /// What is seen in this step.
    pub(super) fn of(
        before: &Authority,
        events: &[Event],
        after: &Authority,
        past: &Past,
    ) -> Sights {
        let mut seen = Sights::default();
        let committed = after
            .transactions
            .values()
            .filter(|t| t.stage != TransactionStage::Prepared);
        let stops = |wanted: fn(&LatchState) -> bool| {
            after.latches.values().filter(|l| wanted(&l.state)).count() >= 2
        };
        seen.add(Sight::BothCommitted, committed.count() >= 2);
        seen.add(Sight::TwoPending, stops(|s| *s == LatchState::Pending));
        seen.add(
            Sight::BothTerminal,
            stops(|s| matches!(s, LatchState::Terminal(_))),
        );
        seen.add(Sight::ThirdEpoch, past.began.len() >= 3);
        for event in events {
            seen.event(event, before, after);
        }
        seen
    }

    fn event(&mut self, event: &Event, before: &Authority, after: &Authority) {
        match event {
            Event::EffectReported(id, ..) => {
                let done = after.transactions.get(id).is_some_and(|t| {
                    matches!(
                        t.stage,
                        TransactionStage::Committed(_, EffectStage::Done(_))
                    )
                });
                self.add(Sight::Landed, done);
            }
            Event::EffectClaimed(..) => {
                let beside = before.pending_latches().next().is_some();
                self.add(Sight::LandedBesideALatch, beside);
            }
            Event::Aborted(_, _, reason) => {
                self.add(Sight::Aborted, *reason == AbortReason::Expired);
            }
            Event::EffectWithheld(..) => self.add(Sight::Withheld, true),
            Event::Ticked(..) => {
                let mut undecided = before.intents.iter();
                let lapsed = undecided.any(|(digest, live)| {
                    live.stage == IntentStage::Frozen && !after.intents.contains_key(digest)
                });
                self.add(Sight::Lapsed, lapsed);
            }
            Event::Activated(..) => self.add(Sight::Activated, true),
            Event::GroundsReset(_) => self.add(Sight::Freed, true),
            Event::RedLatched(_, ChainPlace::Early, ..) => self.add(Sight::ChainGap, true),
            Event::SafetyPrepared(_, capability, _) => {
                self.add(Sight::ThirdAttempt, capability.attempt_sequence >= 3);
            }
            _ => {}
        }
    }
}
