//! A reset is the stronger act, and is judged as one (DESIGN §6).
//!
//! ```text
//!   ResetFrozen ─▶ cause named · every named RED of ours complete · no rule of ours trips on ─▶ satisfied
//!   its receipt ─▶ the REDs that it names stand no more ─▶ a cause that is there trips again at once
//! ```
//!
//! The REDs on the grounds that it names are what it is to end, so they do not withhold it; any
//! other RED over it does. Grounds that this sentinel has no RED on are the journal's to know.
//!
//! A rule is asked about the intents that have tripped it, as things stand now: an intent that
//! is over trips nothing but a window that still counts it.

use std::collections::BTreeSet;

use redlatch_types::records::{ActionPayload, ResetPayload, SovereignActionIntentV1};

use super::{Effect, Judge, STANDS, TripV1};
use crate::outbox::{Posture, stops};
use crate::rules::{Case, Epochs, Finding, Outcome, RedCall, finding};

/// The finding's name where an intent is a reset.
const RESET: &str = "reset";
/// And where it is anything else.
const STANDING: &str = "standing-reds";

/// What a standing RED is to an intent. One of a later epoch than is known here may come after the
/// reset of that RED: a WITHHELD is for good, and would be wrong.
fn certain(intent: &SovereignActionIntentV1, epochs: Epochs) -> Outcome {
    if intent.autonomy_epoch > epochs.autonomy {
        Outcome::CannotJudge
    } else {
        Outcome::Withholds
    }
}

impl Judge {
    /// Learns from its proven receipt that grounds were reset, after the outbox has. A rule whose
    /// cause is still there trips again, without waiting to be asked.
    pub fn handle_reset(&self, epochs: Epochs, posture: Posture<'_>, out: &mut Vec<Effect>) {
        let asks = |call: &RedCall| {
            let verbs = call.verbs.clone();
            (call.scope.clone(), verbs, call.source, call.rollback_plan)
        };
        let mut news: Vec<RedCall> = Vec::new();
        for call in self.still_tripping(epochs) {
            let same = news.iter().any(|it| asks(it) == asks(&call));
            if !same && !posture.stops(&call.scope) {
                news.push(call);
            }
        }
        out.extend(news.into_iter().map(Effect::Raise));
    }

    /// What the REDs in force say about an intent.
    pub(super) fn of_standing(
        &self,
        intent: &SovereignActionIntentV1,
        posture: Posture<'_>,
        epochs: Epochs,
    ) -> Finding {
        match &intent.payload {
            ActionPayload::ResetFrozen(reset) => {
                let (outcome, text) = self.of_reset(intent, reset, posture, epochs);
                finding(RESET, outcome, &text)
            }
            _ if posture.covers(intent, &[]) => finding(STANDING, certain(intent, epochs), STANDS),
            _ => finding(STANDING, Outcome::Satisfied, "none in scope"),
        }
    }

    fn of_reset(
        &self,
        intent: &SovereignActionIntentV1,
        reset: &ResetPayload,
        posture: Posture<'_>,
        epochs: Epochs,
    ) -> (Outcome, String) {
        if reset.cause.as_str().trim().is_empty() {
            let text = "the reset does not say what had gone wrong and is repaired";
            return (Outcome::Withholds, text.to_owned());
        }
        if posture.covers(intent, &reset.grounds) {
            let text = "a RED stands over the reset whose ground it does not name";
            return (certain(intent, epochs), text.to_owned());
        }
        if let Some(open) = posture.on(&reset.grounds).find(|it| !it.is_over) {
            let text = format!("the stop of RED {} is not complete", open.number);
            return (Outcome::CannotJudge, text);
        }
        let ends = |call: &RedCall| {
            let mut ended = posture.on(&reset.grounds);
            ended.any(|it| stops(&it.scope, &call.scope))
        };
        if let Some(call) = self.still_tripping(epochs).into_iter().find(ends) {
            let text = format!("the cause is still there: {}", call.reason);
            return (Outcome::Withholds, text);
        }
        if self.has_unkept_trips() && posture.on(&reset.grounds).next().is_some() {
            let text = "more intents have tripped a rule than are kept; they must be over first";
            return (Outcome::CannotJudge, text.to_owned());
        }
        (Outcome::Satisfied, "back in bounds".to_owned())
    }

    /// What the rules call RED, asked again now about every intent that has tripped one.
    fn still_tripping(&self, epochs: Epochs) -> Vec<RedCall> {
        let mut calls = Vec::new();
        for digest in &self.trips {
            let judgement = self.judgements.get(digest);
            let kept = judgement.and_then(|it| match &it.tripped {
                Some(TripV1::Kept(intent)) => Some((it.frozen_at, intent)),
                _ => None,
            });
            let Some((frozen_at, intent)) = kept else {
                continue;
            };
            let case = Case {
                intent,
                frozen_at,
                window_end: self.now,
                proven_at: self.now,
                now: self.now,
                epochs,
                evidence_held: &BTreeSet::new(),
                used: &self.use_by(&intent.proposer_subject_id, digest),
            };
            let wires = self.rules.tripwires.iter();
            let tripping = wires.filter(|wire| wire.still_trips(&case));
            calls.extend(tripping.map(|wire| wire.call(intent)));
        }
        calls
    }

    fn has_unkept_trips(&self) -> bool {
        !self.trips_not_kept.is_empty()
    }
}
