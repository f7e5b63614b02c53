//! The actuator's numbers, under the names that dashboards know (docs/metrics.md). Nothing is decided by them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use redlatch_link::diagnostics::{
    Counter, CounterName, Gauge, GaugeName, Histogram, HistogramName, Registry,
};
use redlatch_link::world::Monotonic;
use redlatch_types::{Digest, LatchNumber, OutboxEpoch};

use crate::attempts::SafetyCommand;

const SEEN: CounterName = CounterName::new("redlatch_actuator_reds_seen_total");
const LAST: GaugeName = GaugeName::new("redlatch_actuator_last_red_number");
const HELD: GaugeName = GaugeName::new("redlatch_actuator_hold_scopes_count");
const BEATS: CounterName = CounterName::new("redlatch_actuator_sentinel_beats_total");
const PERMITS: CounterName = CounterName::new("redlatch_actuator_permit_beats_total");
const WORKING: GaugeName = GaugeName::new("redlatch_actuator_latches_working_count");
const BEGUN: CounterName = CounterName::new("redlatch_actuator_attempts_begun_total");
const ENDED: CounterName = CounterName::new("redlatch_actuator_attempts_ended_total");
const COMMANDS: CounterName = CounterName::new("redlatch_actuator_commands_total");
const TERMINAL: HistogramName = HistogramName::new("redlatch_actuator_latch_to_terminal_seconds");

/// Bounds for stops: a few round trips while all is well, as long as it takes while the cluster is down.
const STOPS: &[f64] = &[
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0,
];

/// An attempt gave way to another at the same latch.
const REBASED: &str = "rebased";
/// An attempt was the last: the stop is proven to be complete.
const COMPLETE: &str = "terminal";
/// Answer to a command: the node accepted it.
pub(crate) const ACCEPTED: &str = "accepted";
/// Answer to a command: there is none.
pub(crate) const NO_ANSWER: &str = "none";
/// The words of [`word`].
const COMMANDS_ALL: [&str; 4] = ["store", "prepare", "claim", "finish"];

/// The actuator's metrics.
pub(crate) struct ActuatorMetrics {
    registry: Registry,
    seen: Counter,
    last: Gauge,
    held: Gauge,
    beats: Counter,
    permits: Counter,
    working: Gauge,
    begun: Counter,
    terminal: Histogram,
    works: Mutex<BTreeMap<LatchNumber, Work>>,
}

/// A latch at work.
struct Work {
    /// The current attempt.
    attempt: Digest,
    /// When this process began; not known for a stop that it took over from an earlier one.
    since: Option<Monotonic>,
}

impl ActuatorMetrics {
    /// Metrics of an actuator that goes on with these attempts at these latches.
    pub(crate) fn new(
        registry: &Registry,
        works: impl Iterator<Item = (LatchNumber, Digest)>,
    ) -> ActuatorMetrics {
        let counter = |name, help| registry.counter(name, help, &[]);
        let gauge = |name, help| registry.gauge(name, help, &[]);
        let taken_over = |(latch, attempt)| {
            let since = None;
            (latch, Work { attempt, since })
        };
        let metrics = ActuatorMetrics {
            seen: counter(SEEN, "REDs taken in and stored."),
            last: gauge(LAST, "Outbox number of the last RED stored."),
            held: gauge(HELD, "Scopes that HOLD covers."),
            beats: counter(BEATS, "Beats of the sentinel heard."),
            permits: counter(PERMITS, "Permit beats answered to gates."),
            working: gauge(WORKING, "Latches whose stop is not complete."),
            begun: counter(BEGUN, "Safety attempts begun."),
            terminal: registry.histogram(
                TERMINAL,
                "From a latch proven here to the proof that its stop is complete.",
                STOPS,
                &[],
            ),
            registry: registry.clone(),
            works: Mutex::new(works.map(taken_over).collect()),
        };
        metrics.working.set(metrics.lock().len());
        // What can be counted is there from the start.
        for result in [REBASED, COMPLETE] {
            metrics.ended(result);
        }
        for command in COMMANDS_ALL {
            metrics.commands(command, ACCEPTED);
        }
        metrics
    }

    /// Shows what is held after RED number `last`.
    pub(crate) fn holds(&self, last: OutboxEpoch, scopes: usize) {
        self.last.set(last.0);
        self.held.set(scopes);
    }

    /// Counts REDs that are stored.
    pub(crate) fn took(&self, reds: usize) {
        self.seen.add(reds as u64);
    }

    /// Counts a beat of the sentinel.
    pub(crate) fn heard_beat(&self) {
        self.beats.increment();
    }

    /// Counts a permit beat.
    pub(crate) fn permitted(&self) {
        self.permits.increment();
    }

    /// Takes note of the current attempt at a latch.
    pub(crate) fn works_on(&self, latch: LatchNumber, attempt: Digest) {
        let mut works = self.lock();
        match works.get_mut(&latch) {
            Some(work) if work.attempt == attempt => return,
            Some(work) => {
                work.attempt = attempt;
                self.ended(REBASED).increment();
            }
            None => {
                let since = Some(Monotonic::now());
                works.insert(latch, Work { attempt, since });
            }
        }
        self.begun.increment();
        self.working.set(works.len());
    }

    /// Takes note of a stop that is complete.
    pub(crate) fn is_over(&self, latch: LatchNumber) {
        let mut works = self.lock();
        let Some(work) = works.remove(&latch) else {
            return;
        };
        self.working.set(works.len());
        self.ended(COMPLETE).increment();
        if let Some(since) = work.since {
            self.terminal.observe_span(since.elapsed());
        }
    }

    /// Counts the answer to a safety command: [`ACCEPTED`], a refusal's code, or [`NO_ANSWER`].
    pub(crate) fn answered(&self, command: &'static str, answer: &str) {
        self.commands(command, answer).increment();
    }

    fn commands(&self, command: &str, answer: &str) -> Counter {
        let help = "Safety commands sent to the nodes, by command and answer.";
        let labels = [("command", command), ("answer", answer)];
        self.registry.counter(COMMANDS, help, &labels)
    }

    fn ended(&self, result: &str) -> Counter {
        let help = "Safety attempts ended, by result.";
        self.registry.counter(ENDED, help, &[("result", result)])
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<LatchNumber, Work>> {
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The word of a command.
pub(crate) const fn word(command: &SafetyCommand) -> &'static str {
    match command {
        SafetyCommand::Store(_) => "store",
        SafetyCommand::Prepare(_) => "prepare",
        SafetyCommand::Claim(_) => "claim",
        SafetyCommand::Finish(_) => "finish",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_once_and_stops_that_were_taken_over_have_no_span() {
        let registry = Registry::new();
        let attempt = |byte| Digest([byte; 32]);
        let taken_over = (LatchNumber(1), attempt(1));
        let metrics = ActuatorMetrics::new(&registry, [taken_over].into_iter());
        metrics.works_on(LatchNumber(1), attempt(1));
        metrics.works_on(LatchNumber(1), attempt(2));
        metrics.works_on(LatchNumber(2), attempt(3));
        metrics.works_on(LatchNumber(2), attempt(3));
        let shown = |line: &str| {
            let text = registry.render();
            assert!(
                text.contains(&format!("redlatch_actuator_{line}\n")),
                "{line} in {text}"
            );
        };
        shown("attempts_begun_total 2");
        shown("attempts_ended_total{result=\"rebased\"} 1");
        shown("latches_working_count 2");
        for latch in [1, 2, 2] {
            metrics.is_over(LatchNumber(latch));
        }
        shown("attempts_ended_total{result=\"terminal\"} 2");
        shown("latches_working_count 0");
        shown("latch_to_terminal_seconds_count 1");
    }
}
