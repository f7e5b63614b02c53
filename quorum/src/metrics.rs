//! The verifier's numbers, under the names that dashboards know (docs/metrics.md). Nothing is decided by them.
//!
//! They tell no more than the verifier itself would: what a vote says is counted when it is opened, not when
//! it is cast, because until the sheet of seals is fixed nobody is to know (FAULTS 31).

use std::time::Duration;

use redlatch_ballot::messages::SigningCommitmentsV1;
use redlatch_ballot::records::BallotRecordV1;
use redlatch_ballot::{Row, VerifierEffect};
use redlatch_link::diagnostics::{
    Counter, CounterName, Gauge, GaugeName, Histogram, HistogramName, Registry, SECONDS,
};
use redlatch_types::records::{FindingsV1, VoteV1, VoteVerdict};
use redlatch_types::{Canonical, KeyEpoch, Name};

const BALLOTS: CounterName = CounterName::new("redlatch_verifier_ballots_cast_total");
const VOTES: CounterName = CounterName::new("redlatch_verifier_votes_total");
const FINDINGS: CounterName = CounterName::new("redlatch_verifier_findings_total");
const EVALUATION: HistogramName = HistogramName::new("redlatch_verifier_evaluation_seconds");
const EVALUATING: GaugeName = GaugeName::new("redlatch_verifier_evaluating_intents_count");
const SESSIONS: GaugeName = GaugeName::new("redlatch_verifier_open_sessions_count");
const BURNED: CounterName = CounterName::new("redlatch_verifier_burned_commitments_total");
const SHARES: CounterName = CounterName::new("redlatch_verifier_released_shares_total");
const KEY_EPOCH: GaugeName = GaugeName::new("redlatch_verifier_key_epoch_number");
const GENERATION: GaugeName = GaugeName::new("redlatch_verifier_boot_generation_number");

/// The verifier's metrics. Clones share one set.
#[derive(Clone)]
pub(crate) struct VerifierMetrics {
    registry: Registry,
    cast: Counter,
    burned: Counter,
    shares: Counter,
    evaluating: Gauge,
    sessions: Gauge,
    key_epoch: Gauge,
}

/// What a step of the machine added to a ballot's record.
pub(crate) struct Step {
    cast: bool,
    burned: usize,
    released: usize,
    /// The vote, if this step opened it.
    pub(crate) opened: Option<VoteV1>,
}

impl Step {
    /// What these effects add to the record that the store has so far; none if they write no ballot.
    pub(crate) fn of(before: Option<&BallotRecordV1>, effects: &[VerifierEffect]) -> Option<Step> {
        let rows = effects.iter().filter_map(|effect| match effect {
            VerifierEffect::Persist(rows) => Some(rows),
            VerifierEffect::Send(_) => None,
        });
        let mut ballots = rows.flatten().filter_map(|row| match row {
            Row::Ballot(ballot) => Some(&**ballot),
            _ => None,
        });
        let after = ballots.next()?;
        let length = |of: fn(&BallotRecordV1) -> usize| before.map_or(0, of);
        let issued = after.issues.iter().skip(length(|it| it.issues.len()));
        let commitments = issued.filter_map(|issue| {
            SigningCommitmentsV1::from_canonical(&issue.commitments.body.0)
                .ok()
                .map(|issue| issue.commitments.len())
        });
        let was_open = before.is_some_and(|it| it.opened_sheet.is_some());
        let opens = !was_open && after.opened_sheet.is_some();
        let vote = || VoteV1::from_canonical(&after.vote.body.0).ok();
        Some(Step {
            cast: before.is_none(),
            burned: commitments.sum(),
            released: after.released.len()
                - length(|it| it.released.len()).min(after.released.len()),
            opened: opens.then(vote).flatten(),
        })
    }
}

impl VerifierMetrics {
    /// Metrics of a verifier that asks these evaluators. What can be counted is there from the start.
    pub(crate) fn new(
        registry: &Registry,
        evaluators: impl Iterator<Item = Name>,
    ) -> VerifierMetrics {
        let counter = |name, help| registry.counter(name, help, &[]);
        let gauge = |name, help| registry.gauge(name, help, &[]);
        let metrics = VerifierMetrics {
            cast: counter(BALLOTS, "Votes cast, whatever they say."),
            burned: counter(BURNED, "Commitments issued, and burned by that."),
            shares: counter(SHARES, "Signature shares released."),
            evaluating: gauge(EVALUATING, "Intents that ballots are in hand for."),
            sessions: gauge(SESSIONS, "Ballots in memory, of at most 64."),
            key_epoch: gauge(KEY_EPOCH, "Epoch of the quorum key in force here; 0: none."),
            registry: registry.clone(),
        };
        for verdict in VoteVerdict::ALL {
            metrics.votes(*verdict);
        }
        for evaluator in evaluators {
            metrics.evaluation(&evaluator);
            for verdict in VoteVerdict::ALL {
                metrics.findings(&evaluator, *verdict);
            }
        }
        metrics
    }

    fn votes(&self, verdict: VoteVerdict) -> Counter {
        let labels = [("verdict", verdict.word())];
        let help = "Votes opened, by verdict.";
        self.registry.counter(VOTES, help, &labels)
    }

    fn findings(&self, evaluator: &Name, verdict: VoteVerdict) -> Counter {
        let labels = [
            ("evaluator", evaluator.as_str()),
            ("verdict", verdict.word()),
        ];
        let help = "Findings of opened votes, by evaluator and verdict.";
        self.registry.counter(FINDINGS, help, &labels)
    }

    fn evaluation(&self, evaluator: &Name) -> Histogram {
        let labels = [("evaluator", evaluator.as_str())];
        let help = "Time an evaluator took for one candidate.";
        self.registry.histogram(EVALUATION, help, SECONDS, &labels)
    }

    /// Shows which boot this is.
    pub(crate) fn booted(&self, generation: u64) {
        let help = "Number of this boot.";
        self.registry.gauge(GENERATION, help, &[]).set(generation);
    }

    /// Shows the key in force.
    pub(crate) fn adopted(&self, epoch: Option<KeyEpoch>) {
        self.key_epoch.set(epoch.map_or(0, |epoch| epoch.0));
    }

    /// Shows how many intents are in hand.
    pub(crate) fn in_hand(&self, intents: usize) {
        self.evaluating.set(intents);
    }

    /// Counts an evaluator's look at a candidate.
    pub(crate) fn evaluated(&self, evaluator: &Name, span: Duration) {
        self.evaluation(evaluator).observe_span(span);
    }

    /// Counts a step that is durable, and shows how many ballots are in memory after it.
    pub(crate) fn stepped(&self, step: Option<&Step>, sessions: usize) {
        self.sessions.set(sessions);
        let Some(step) = step else {
            return;
        };
        self.cast.add(u64::from(step.cast));
        self.burned.add(step.burned as u64);
        self.shares.add(step.released as u64);
        if let Some(vote) = &step.opened {
            self.votes(vote.verdict).increment();
        }
    }

    /// Counts what each evaluator said for a vote that was opened.
    pub(crate) fn opened(&self, findings: &FindingsV1) {
        for finding in &findings.findings {
            self.findings(&finding.evaluator, finding.verdict)
                .increment();
        }
    }
}

#[cfg(test)]
mod tests {
    use redlatch_ballot::Subset;
    use redlatch_ballot::messages::NonceCommitmentV1;
    use redlatch_ballot::records::{IssueV1, ReleasedV1};
    use redlatch_types::records::SealSheetV1;
    use redlatch_types::{
        Bytes, Digest, Envelope, IntentDigest, OrganismId, RosterEpoch, Scope, SigningKey,
    };

    use super::*;

    fn seal<T: redlatch_types::Record>(record: &T) -> Envelope {
        let scope = Scope {
            organism_id: OrganismId(Digest::ZERO),
            organism_epoch: 1,
        };
        Envelope::seal(scope, &SigningKey::from_seed([9; 32]), record)
    }

    /// A ballot on which a vote against was cast.
    fn cast() -> BallotRecordV1 {
        let (intent_digest, verifier_id) = (IntentDigest(Digest::ZERO), "va".parse().unwrap());
        let commitments = Subset::of_member(1).map(|subset| NonceCommitmentV1 {
            subset,
            hiding: Bytes(vec![1; 32]),
            binding: Bytes(vec![2; 32]),
        });
        let issue = SigningCommitmentsV1 {
            intent_digest,
            verifier_id,
            vote_digest: Digest::ZERO,
            quorum_key_epoch: KeyEpoch(1),
            boot_generation: 1,
            issue: 1,
            commitments: commitments.collect(),
        };
        let vote = VoteV1 {
            intent_digest,
            verifier_id: issue.verifier_id.clone(),
            verdict: VoteVerdict::Reject,
            findings_digest: Digest::ZERO,
            salt: Digest::ZERO,
            roster_epoch: RosterEpoch(1),
            quorum_key_epoch: KeyEpoch(1),
        };
        BallotRecordV1 {
            intent_digest,
            intent: Bytes(Vec::new()),
            frozen_at: 0,
            vote: seal(&vote),
            issues: vec![IssueV1 {
                boot_generation: 1,
                term: 1,
                commitments: seal(&issue),
            }],
            opened_sheet: None,
            released: Vec::new(),
        }
    }

    fn step(before: Option<&BallotRecordV1>, after: &BallotRecordV1) -> Option<Step> {
        let row = Row::Ballot(Box::new(after.clone()));
        Step::of(before, &[VerifierEffect::Persist(vec![row])])
    }

    #[test]
    fn fault_031_what_a_vote_says_is_counted_when_it_is_opened_and_not_before() {
        let registry = Registry::new();
        let metrics = VerifierMetrics::new(&registry, std::iter::empty());
        let shown = |line: &str| {
            let text = registry.render();
            let line = format!("redlatch_verifier_{line}\n");
            assert!(text.contains(&line), "{line} in {text}");
        };
        let cast = cast();
        metrics.stepped(step(None, &cast).as_ref(), 1);
        shown("ballots_cast_total 1");
        shown("burned_commitments_total 3");
        shown("votes_total{verdict=\"REJECT\"} 0");

        let mut opened = cast.clone();
        opened.opened_sheet = Some(SealSheetV1 {
            intent_digest: cast.intent_digest,
            seals: Vec::new(),
        });
        metrics.stepped(step(Some(&cast), &opened).as_ref(), 1);
        shown("votes_total{verdict=\"REJECT\"} 1");
        // A repeat writes nothing.
        metrics.stepped(Step::of(Some(&opened), &[]).as_ref(), 1);

        let mut released = opened.clone();
        released.issues.extend(cast.issues.clone());
        released.released.push(ReleasedV1 {
            package_digest: Digest::ZERO,
            share: cast.vote.clone(),
        });
        metrics.stepped(step(Some(&opened), &released).as_ref(), 1);
        shown("ballots_cast_total 1");
        shown("burned_commitments_total 6");
        shown("released_shares_total 1");
        shown("votes_total{verdict=\"REJECT\"} 1");
        shown("open_sessions_count 1");
    }
}
