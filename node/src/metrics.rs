//! The node's numbers, under the names that dashboards know. Nothing is decided by them.

use std::time::Duration;

use redlatch_link::diagnostics::{
    Counter, CounterName, Gauge, GaugeName, Histogram, HistogramName, Registry, SECONDS,
};
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1::SubmitResponse;
use redlatch_raft::node::{RaftMetrics, RaftRole};
use redlatch_types::event::Reply;
use redlatch_types::{Canonical, Refusal};
use tonic::Status;

const SUBMITS: CounterName = CounterName::new("redlatch_node_submits_total");
const REFUSALS: CounterName = CounterName::new("redlatch_node_refusals_total");
const LEADER_CHANGES: CounterName = CounterName::new("redlatch_raft_leader_changes_total");
const SUBMIT_SECONDS: HistogramName = HistogramName::new("redlatch_node_submit_seconds");
const APPENDED: GaugeName = GaugeName::new("redlatch_journal_appended_index");
const APPLIED: GaugeName = GaugeName::new("redlatch_journal_applied_index");
const LEAVES: GaugeName = GaugeName::new("redlatch_journal_tree_leaves");
const COSIGNED: GaugeName = GaugeName::new("redlatch_journal_cosigned_leaves");
const STATE_TIME: GaugeName = GaugeName::new("redlatch_journal_state_time_milliseconds");
const TERM: GaugeName = GaugeName::new("redlatch_raft_term_number");
const IS_LEADER: GaugeName = GaugeName::new("redlatch_raft_is_leader");
const HAS_LEADER: GaugeName = GaugeName::new("redlatch_raft_has_leader");
const IS_VOTER: GaugeName = GaugeName::new("redlatch_raft_is_voter");
const UNADDRESSED: GaugeName = GaugeName::new("redlatch_raft_unaddressed_nodes_count");
const WAITING: GaugeName = GaugeName::new("redlatch_raft_waiting_commands");
const SKEW: GaugeName = GaugeName::new("redlatch_node_clock_skew_milliseconds");
const LATCHED: GaugeName = GaugeName::new("redlatch_red_latched_count");
const HELD: GaugeName = GaugeName::new("redlatch_red_held_count");
const EPOCH: GaugeName = GaugeName::new("redlatch_autonomy_epoch_number");

/// The node's metrics. Clones share one set.
#[derive(Clone)]
pub(crate) struct NodeMetrics {
    registry: Registry,
    accepted: Counter,
    leader_changes: Counter,
    /// From the arrival of a command to its answer.
    submit_seconds: Histogram,
    journal: [Gauge; 5],
    raft: [Gauge; 5],
    waiting: [Gauge; 3],
    stops: [Gauge; 4],
}

/// What of the state is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Latches that are not terminal.
    pub(crate) latched: usize,
    /// REDs held here.
    pub(crate) held: usize,
    /// Autonomy epoch.
    pub(crate) epoch: u64,
    /// Own clock minus state time.
    pub(crate) skew_ms: i64,
}

impl NodeMetrics {
    pub(crate) fn new(registry: &Registry) -> NodeMetrics {
        let gauge = |name, help| registry.gauge(name, help, &[]);
        let waiting = |class| {
            registry.gauge(
                WAITING,
                "Commands that wait, by class.",
                &[("class", class)],
            )
        };
        // What can be counted is there from the start.
        for refusal in Refusal::ALL {
            refusals(registry, *refusal);
        }
        NodeMetrics {
            accepted: registry.counter(SUBMITS, SUBMITS_HELP, &[("outcome", "accepted")]),
            leader_changes: registry.counter(LEADER_CHANGES, "Leaders seen after the first.", &[]),
            submit_seconds: registry.histogram(
                SUBMIT_SECONDS,
                "From a command's arrival to its answer.",
                SECONDS,
                &[],
            ),
            journal: [
                gauge(APPENDED, "Index of the last entry in the log."),
                gauge(APPLIED, "Index of the last applied entry."),
                gauge(LEAVES, "Leaves of the journal."),
                gauge(COSIGNED, "Leaves under the highest head with a majority."),
                gauge(STATE_TIME, "State time, milliseconds since 1970."),
            ],
            raft: [
                gauge(TERM, "Raft term."),
                gauge(IS_LEADER, "Whether this node leads: 0 or 1."),
                gauge(HAS_LEADER, "Whether a leader is known: 0 or 1."),
                gauge(IS_VOTER, "Whether this node votes and counts: 0 or 1."),
                gauge(
                    UNADDRESSED,
                    "Nodes of the roster that no address is configured of.",
                ),
            ],
            waiting: [waiting("red"), waiting("safety"), waiting("client")],
            stops: [
                gauge(LATCHED, "Latches that are not terminal."),
                gauge(HELD, "REDs held that the journal has not latched."),
                gauge(EPOCH, "Autonomy epoch in force."),
                gauge(SKEW, "Own clock minus state time at the last tick."),
            ],
            registry: registry.clone(),
        }
    }

    /// Counts an answer to Submit and how long it took.
    pub(crate) fn submitted(&self, answer: &Result<SubmitResponse, Status>, span: Duration) {
        self.submit_seconds.observe_span(span);
        let outcome = match answer {
            Ok(answer) => match Reply::from_canonical(&answer.reply) {
                Ok(Reply::Accepted(_)) => return self.accepted.increment(),
                Ok(Reply::Refused(refusal)) => {
                    refusals(&self.registry, refusal).increment();
                    "refused"
                }
                Err(_) => "invalid",
            },
            Err(status) => NoAnswer::of(status).map_or("other", NoAnswer::word),
        };
        self.registry
            .counter(SUBMITS, SUBMITS_HELP, &[("outcome", outcome)])
            .increment();
    }

    /// Counts a change of leader.
    pub(crate) fn leader_changed(&self) {
        self.leader_changes.increment();
    }

    /// Shows where the node stands.
    pub(crate) fn show(&self, metrics: &RaftMetrics, shown: Shown) {
        let [appended, applied, leaves, cosigned, time] = &self.journal;
        appended.set(metrics.last_log_index.unwrap_or(0));
        applied.set(metrics.place.entry.map_or(0, |entry| entry.index));
        leaves.set(metrics.place.size);
        cosigned.set(metrics.cosigned_size);
        time.set(metrics.place.state_time_ms);
        let [term, is_leader, has_leader, is_voter, unaddressed] = &self.raft;
        term.set(metrics.term);
        is_leader.set(i64::from(metrics.role == RaftRole::Leader));
        has_leader.set(i64::from(metrics.leader.is_some()));
        is_voter.set(i64::from(metrics.standing.counts()));
        unaddressed.set(metrics.unreachable.len());
        let [red, safety, client] = &self.waiting;
        red.set(metrics.queues.red);
        safety.set(metrics.queues.safety);
        client.set(metrics.queues.client);
        let [latched, held, epoch, skew] = &self.stops;
        latched.set(shown.latched);
        held.set(shown.held);
        epoch.set(shown.epoch);
        skew.set(shown.skew_ms);
    }
}

fn refusals(registry: &Registry, refusal: Refusal) -> Counter {
    let labels = [("code", refusal.code())];
    registry.counter(REFUSALS, "Refusals by code.", &labels)
}

const SUBMITS_HELP: &str = "Commands brought to this node, by outcome.";

#[cfg(all(test, not(madsim)))]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_outcome_and_refusals_by_code() {
        let registry = Registry::new();
        let metrics = NodeMetrics::new(&registry);
        let refused = Ok(SubmitResponse {
            reply: Reply::Refused(Refusal::RedLatched).to_canonical(),
            ..SubmitResponse::default()
        });
        metrics.submitted(&refused, Duration::ZERO);
        metrics.submitted(&Err(NoAnswer::Indeterminate.status("")), Duration::ZERO);
        let text = registry.render();
        for line in [
            "redlatch_node_refusals_total{code=\"red_latched\"} 1",
            "redlatch_node_submits_total{outcome=\"refused\"} 1",
            "redlatch_node_submits_total{outcome=\"indeterminate\"} 1",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
