//! The sentinel's numbers, under the names that dashboards know (docs/metrics.md). Nothing is decided by them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redlatch_link::diagnostics::{Counter, CounterName, Gauge, GaugeName, Registry};
use redlatch_link::world::Monotonic;
use redlatch_types::OutboxEpoch;
use redlatch_types::records::Verdict;

use crate::courier::NoAnswer;

const VERDICTS: CounterName = CounterName::new("redlatch_sentinel_verdicts_total");
const REDS: CounterName = CounterName::new("redlatch_sentinel_reds_total");
const DELIVERIES: CounterName = CounterName::new("redlatch_sentinel_deliveries_total");
const BEATS: CounterName = CounterName::new("redlatch_sentinel_beats_total");
const HEAD: GaugeName = GaugeName::new("redlatch_sentinel_outbox_head_number");
const OPEN: GaugeName = GaugeName::new("redlatch_sentinel_outbox_unacknowledged_count");
const OLDEST: GaugeName = GaugeName::new("redlatch_sentinel_outbox_oldest_age_milliseconds");
const BEAT_AGE: GaugeName = GaugeName::new("redlatch_sentinel_beat_age_milliseconds");
const GENERATION: GaugeName = GaugeName::new("redlatch_sentinel_writer_generation_number");

/// Kind of an answer that is no verdict.
pub(crate) const SILENT: &str = "silent";

/// Why a RED was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// By a rule of the sentinel.
    Rule,
    /// By a signed order.
    Order,
}

impl Cause {
    const fn word(self) -> &'static str {
        match self {
            Cause::Rule => "rule",
            Cause::Order => "order",
        }
    }
}

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With the receiver's answer.
    Answered,
    /// Receiver and sentinel do not accept each other's certificates.
    NotTrusted,
    /// With no answer before the deadline.
    Late,
    /// In any other way.
    Failed,
}

impl Outcome {
    /// How a call ended.
    pub(crate) fn of<T>(answer: &Result<T, NoAnswer>) -> Outcome {
        match answer {
            Ok(_) => Outcome::Answered,
            Err(NoAnswer::NotTrusted(_)) => Outcome::NotTrusted,
            Err(NoAnswer::Late) => Outcome::Late,
            Err(NoAnswer::Failed) => Outcome::Failed,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::NotTrusted => "not_trusted",
            Outcome::Late => "late",
            Outcome::Failed => "failed",
        }
    }
}

/// The sentinel's metrics.
pub(crate) struct SentinelMetrics {
    registry: Registry,
    head: Gauge,
    open: Gauge,
    oldest: Gauge,
    beat_age: Gauge,
    times: Mutex<Times>,
}

/// Since when, by this process's clock.
struct Times {
    /// Entries that are not acknowledged, since this process first saw them.
    open: BTreeMap<OutboxEpoch, Monotonic>,
    /// The actuator's last answer to a beat; before the first, the start.
    beat: Monotonic,
}

impl SentinelMetrics {
    /// Metrics of a sentinel that delivers to these.
    pub(crate) fn new<'a>(
        registry: &Registry,
        targets: impl Iterator<Item = &'a str>,
    ) -> SentinelMetrics {
        let gauge = |name, help| registry.gauge(name, help, &[]);
        let metrics = SentinelMetrics {
            head: gauge(HEAD, "Number of the last RED in the outbox."),
            open: gauge(OPEN, "REDs whose stop is not complete and acknowledged."),
            oldest: gauge(
                OLDEST,
                "Time since this process first saw the oldest of them.",
            ),
            beat_age: gauge(BEAT_AGE, "Time since the actuator answered a beat."),
            registry: registry.clone(),
            times: Mutex::new(Times {
                open: BTreeMap::new(),
                beat: Monotonic::now(),
            }),
        };
        // What can be counted is there from the start.
        for verdict in Verdict::ALL {
            metrics.verdicts(verdict.word());
        }
        metrics.verdicts(SILENT);
        for cause in [Cause::Rule, Cause::Order] {
            metrics.reds(cause);
        }
        for target in targets {
            metrics.deliveries(target, Outcome::Answered);
        }
        metrics.beats(Outcome::Answered);
        metrics
    }

    fn verdicts(&self, kind: &str) -> Counter {
        let help = "Answers about intents, by kind.";
        self.registry.counter(VERDICTS, help, &[("kind", kind)])
    }

    fn reds(&self, cause: Cause) -> Counter {
        let help = "REDs raised, by cause.";
        let labels = [("cause", cause.word())];
        self.registry.counter(REDS, help, &labels)
    }

    fn deliveries(&self, target: &str, outcome: Outcome) -> Counter {
        let help = "Calls that bring REDs and acknowledgements, by target and result.";
        let labels = [("target", target), ("result", outcome.word())];
        self.registry.counter(DELIVERIES, help, &labels)
    }

    fn beats(&self, outcome: Outcome) -> Counter {
        let help = "Beats to the actuator, by result.";
        let labels = [("result", outcome.word())];
        self.registry.counter(BEATS, help, &labels)
    }

    /// Shows which writer of the outbox this is.
    pub(crate) fn opened(&self, generation: u64) {
        let help = "Writer generation of the outbox.";
        self.registry.gauge(GENERATION, help, &[]).set(generation);
    }

    /// Counts what was said about an intent: a verdict's word, or `silent`.
    pub(crate) fn judged(&self, kind: &str) {
        self.verdicts(kind).increment();
    }

    /// Counts a RED.
    pub(crate) fn raised(&self, cause: Cause) {
        self.reds(cause).increment();
    }

    /// Counts one call that brought REDs or acknowledgements.
    pub(crate) fn delivered(&self, target: &str, outcome: Outcome) {
        self.deliveries(target, outcome).increment();
    }

    /// Counts a beat.
    pub(crate) fn beaten(&self, outcome: Outcome) {
        if outcome == Outcome::Answered {
            self.lock().beat = Monotonic::now();
        }
        self.beats(outcome).increment();
    }

    /// Shows the outbox, and how old everything is by now.
    pub(crate) fn show(&self, head: OutboxEpoch, open: &[OutboxEpoch]) {
        let now = Monotonic::now();
        let mut times = self.lock();
        times.open.retain(|number, _| open.contains(number));
        for number in open {
            times.open.entry(*number).or_insert(now);
        }
        let oldest = times.open.values().map(|since| now.since(*since)).max();
        let beat = now.since(times.beat);
        drop(times);
        self.head.set(head.0);
        self.open.set(open.len());
        self.oldest
            .set(oldest.unwrap_or(Duration::ZERO).as_millis());
        self.beat_age.set(beat.as_millis());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_what_is_still_open() {
        let registry = Registry::new();
        let metrics = SentinelMetrics::new(&registry, ["n1"].into_iter());
        metrics.show(OutboxEpoch(2), &[OutboxEpoch(1), OutboxEpoch(2)]);
        let first = |metrics: &SentinelMetrics| metrics.lock().open[&OutboxEpoch(1)];
        let since = first(&metrics);
        metrics.show(OutboxEpoch(3), &[OutboxEpoch(1), OutboxEpoch(3)]);
        assert_eq!(first(&metrics), since, "it does not grow younger");
        assert_eq!(metrics.lock().open.len(), 2);
        metrics.show(OutboxEpoch(3), &[]);
        let text = registry.render();
        for line in [
            "outbox_head_number 3",
            "outbox_unacknowledged_count 0",
            "outbox_oldest_age_milliseconds 0",
            "deliveries_total{target=\"n1\",result=\"answered\"} 0",
        ] {
            assert!(
                text.contains(&format!("redlatch_sentinel_{line}\n")),
                "{line} in {text}"
            );
        }
    }

    #[test]
    fn only_an_answered_beat_makes_the_line_young() {
        let metrics = SentinelMetrics::new(&Registry::new(), std::iter::empty());
        let begun = metrics.lock().beat;
        for outcome in [Outcome::Late, Outcome::NotTrusted, Outcome::Failed] {
            metrics.beaten(outcome);
            assert_eq!(metrics.lock().beat, begun);
        }
        metrics.beaten(Outcome::Answered);
        assert_ne!(metrics.lock().beat, begun);
    }
}
