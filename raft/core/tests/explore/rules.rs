//! The rules: what must hold of every step, said without looking at how `decide` says it.

use redlatch_journal::Outcome;
use redlatch_journal::authority::{
    Authority, EffectStage, Intent, IntentStage, LatchState, Transaction, TransactionStage,
};
use redlatch_types::event::{Accepted, ChainPlace, Event};
use redlatch_types::mandate::covers;
use redlatch_types::records::{ActionPayload, RedScope, ResetPayload, SovereignActionIntentV1};
use redlatch_types::{Canonical, TransactionId};

use super::past::Past;
use super::step::Step;

mod positive;
mod stop;

/// Declares the rules with the names under which the checker knows them.
macro_rules! rules {
    ($($name:ident $text:literal;)*) => {
        /// A property of every state and every step.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub(super) enum Rule { $($name,)* }

        impl Rule {
            pub(super) fn text(self) -> &'static str {
                match self { $(Rule::$name => $text,)* }
            }
        }

        /// The rules as properties of the model.
        pub(super) fn properties() -> Vec<stateright::Property<super::model::Exploration>> {
            vec![$(stateright::Property::always($text, |_, node: &super::model::Node| {
                !node.broken().has(Rule::$name)
            }),)*]
        }
    };
}

rules! {
    I2 "M1-I2 no positive step without the one before it";
    I14 "M1-I14 nothing survives freeze, expiry or an epoch bump";
    I15 "M1-I15 votes never override a RED";
    I22 "M1-I22 nothing is decided without a valid, current GREEN";
    I25 "M1-I25 exactly the variant that the intent froze";
    I27 "M1-I27 nothing is prepared or committed on a resource that moved on";
    I29 "M1-I29 a transaction has one variant; a stop rests on no decision";
    I31 "M1-I31 an attempt equals the mandate but for four fields";
    I32 "M1-I32 no RED is lost, none latches twice";
    I33 "M1-I33 one intent, one decision";
    I34 "M1-I34 nothing positive after a latch in its scope";
    I35 "M1-I35 a dead attempt never ends the stop";
    I36 "M1-I36 one marker per latch, no effect before it";
    L1 "M1-L1 three of four decide";
    L2 "M1-L2 only the pinned actuator starts a stop";
    Spent "a capability is spent once";
    Reserved "one transaction holds a resource";
    Markers "marker numbers have no gap";
    Epochs "the epoch only grows, by one, with a marker or an activation";
    OneStep "two steps of an intent never share an entry";
    Whole "only a reset that names every ground frees, and it leads to A0";
    Ended "a transaction is ended for a true reason only";
    Executor "only the executor claims, once, and before the deadline";
    Refused "a refusal changes nothing, a repeat is answered with what was";
    Replay "the events as leaves lead to the same state";
    Time "state time only grows, by ticks";
}

/// The rules that a step broke.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Broken(u32);

impl Broken {
    pub(super) fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u8) != 0
    }
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub(super) fn add(&mut self, more: Broken) {
        self.0 |= more.0;
    }
    pub(super) fn unless(&mut self, holds: bool, rule: Rule) {
        if !holds {
            self.0 |= 1 << rule as u8;
        }
    }
}

/// One accepted step.
pub(super) struct Taken<'a> {
    pub(super) before: &'a Authority,
    /// The past before the step.
    pub(super) past: &'a Past,
    pub(super) step: &'a Step,
    pub(super) command: &'a redlatch_journal::Command,
    pub(super) events: &'a [Event],
    pub(super) after: &'a Authority,
}

impl Taken<'_> {
    /// The rules that this step broke.
    pub(super) fn broken(&self) -> Broken {
        let mut broken = Broken::default();
        for event in self.events {
            self.positive(event, &mut broken);
            self.stop(event, &mut broken);
        }
        self.reservations(&mut broken);
        self.numbers(&mut broken);
        self.latches(&mut broken);
        let again = matches!(self.step, Step::Again(_));
        broken.unless(!again, Rule::Refused);
        broken.unless(self.replays(), Rule::Replay);
        broken
    }

    /// Markers without gap, epochs and time that only grow.
    fn numbers(&self, broken: &mut Broken) {
        let (mut marker, mut epoch) = (self.before.issued.marker, epoch(self.before));
        let (mut published, mut carried, mut ticks) = (0, 0, 0);
        for event in self.events {
            let next = match event {
                Event::Committed(next) => Some(next.marker),
                Event::SafetyCommitted(next) => {
                    broken.unless(next.old_autonomy_epoch.0 == epoch, Rule::Epochs);
                    broken.unless(next.new_autonomy_epoch.0 == epoch + 1, Rule::Epochs);
                    carried += 1;
                    Some(next.marker)
                }
                Event::Activated(_, _, receipt) => {
                    let next = receipt.activated_autonomy_epoch.0;
                    broken.unless(next == epoch + 1, Rule::Epochs);
                    carried += 1;
                    None
                }
                Event::EpochPublished(next) => {
                    broken.unless(next.autonomy_epoch.0 == epoch + 1, Rule::Epochs);
                    epoch = next.autonomy_epoch.0;
                    published += 1;
                    None
                }
                Event::Ticked(..) => {
                    ticks += 1;
                    None
                }
                _ => None,
            };
            if let Some(next) = next {
                broken.unless(next == marker.next(), Rule::Markers);
                marker = next;
            }
        }
        broken.unless(self.after.issued.marker == marker, Rule::Markers);
        broken.unless(published == carried && published <= 1, Rule::Epochs);
        broken.unless(self::epoch(self.after) == epoch, Rule::Epochs);
        let (then, now) = (self.before.clock, self.after.clock);
        broken.unless(now.tick.0 == then.tick.0 + ticks, Rule::Time);
        let moved = now.state_time >= then.state_time && (ticks > 0 || now == then);
        broken.unless(moved, Rule::Time);
    }

    /// The events, written and read as leaves, lead from the same state to the same state.
    fn replays(&self) -> bool {
        let mut replayed = self.before.clone();
        for event in self.events {
            let Ok(event) = Event::from_canonical(&event.to_canonical()) else {
                return false;
            };
            redlatch_journal::evolve(&mut replayed, &event);
        }
        replayed.stepped.clear();
        replayed == *self.after
    }
}

/// The rule of what is refused, or answered without an event.
pub(super) fn refused(state: &Authority, past: &Past, step: &Step, outcome: &Outcome) -> Broken {
    let mut broken = Broken::default();
    if let Ok(accepted) = &outcome.reply {
        broken.unless(was(state, past, accepted), Rule::Refused);
    }
    // A signed RED of the pinned sentinel is never refused.
    if matches!(step, Step::Red(..)) {
        broken.unless(outcome.reply.is_ok(), Rule::I32);
    }
    broken
}

/// Whether a repeat's answer is what had been.
fn was(state: &Authority, past: &Past, accepted: &Accepted) -> bool {
    let effect = |id: &TransactionId| match &state.transactions.get(id)?.stage {
        TransactionStage::Committed(_, effect) => Some(effect.clone()),
        TransactionStage::Prepared => None,
    };
    match accepted {
        Accepted::Frozen(digest) => past.wish(digest).is_some(),
        Accepted::Authorized(id) => past.wishes.iter().any(|w| w.capability == Some(*id)),
        Accepted::Prepared(id) => state.transactions.contains_key(id),
        Accepted::Committed(marker) | Accepted::EffectClaimed(marker) => {
            past.wishes.iter().any(|w| w.marker == Some(*marker))
        }
        Accepted::Activated(id, _) => matches!(effect(id), Some(EffectStage::Done(_))),
        Accepted::Latched(numbers) => numbers.iter().all(|n| past.red(*n).is_some()),
        Accepted::SafetyTerminal(number) => state
            .latches
            .get(number)
            .is_none_or(|l| matches!(l.state, LatchState::Terminal(_))),
        Accepted::Aborted(_) | Accepted::Ticked(..) | Accepted::SafetyCommitted(_) => false,
        _ => true,
    }
}

pub(super) fn epoch(state: &Authority) -> u64 {
    let governance = state.governance.as_ref();
    governance.map_or(0, |g| g.epoch.autonomy_epoch.0)
}

/// Whether a latch, or a freeze, stops this intent here.
pub(super) struct Stopped {
    pub(super) latched: bool,
    pub(super) frozen: bool,
}

impl Stopped {
    pub(super) fn is(state: &Authority, intent: &SovereignActionIntentV1) -> Stopped {
        let mut pending = state
            .latches
            .values()
            .filter(|l| !matches!(l.state, LatchState::Terminal(_)));
        let stops = |scopes: &[RedScope]| {
            let organism = !intent.action.is_operational();
            organism || scopes.iter().any(|s| covers(s, intent))
        };
        let latched = pending.any(|l| stops(&l.receipt.mandate.scopes));
        let frozen = match &intent.payload {
            ActionPayload::ResetFrozen(reset) => !whole(state, reset),
            _ => state.grounds.values().any(|g| stops(&g.scopes)),
        };
        Stopped { latched, frozen }
    }
}

/// Whether a reset names living grounds, and leaves none that overlaps them.
pub(super) fn whole(state: &Authority, reset: &ResetPayload) -> bool {
    let overlap = |a: &RedScope, b: &RedScope| {
        a == b || *a == RedScope::Everything || *b == RedScope::Everything
    };
    let mut named = Vec::new();
    for number in &reset.grounds {
        let Some(ground) = state.grounds.get(number) else {
            return false;
        };
        named.extend(&ground.scopes);
    }
    let mut left = state
        .grounds
        .values()
        .filter(|g| !reset.grounds.contains(&g.number));
    let overlapped = left.any(|g| {
        let mut scopes = g.scopes.iter();
        scopes.any(|left| named.iter().any(|n| overlap(left, n)))
    });
    !named.is_empty() && !overlapped
}

/// The intent of a transaction, with the transaction.
fn held<'a>(state: &'a Authority, id: &TransactionId) -> Option<(&'a Intent, &'a Transaction)> {
    let transaction = state.transactions.get(id)?;
    let intent = state
        .intents
        .get(&transaction.transaction.binding.intent_digest)?;
    Some((intent, transaction))
}
