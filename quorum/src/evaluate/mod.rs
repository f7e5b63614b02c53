//! Evaluators: a verifier's own look at a candidate, each bounded in time, each leaving a finding.
//!
//! ```text
//!   frozen intent ─▶ git      ─┐
//!                 ─▶ evidence ─┴▶ FindingsV1 ─▶ verdict: APPROVE only if all approve
//! ```
//!
//! Whoever fails, hangs or panics rejects, with a sentence that says so: an evaluator that did not look has
//! nothing to approve. No evaluator asks a node, a fellow or the proposer for an opinion.

pub mod evidence;
pub mod git;
#[cfg(all(test, not(madsim)))]
pub(crate) mod testing;

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use redlatch_ballot::FrozenIntent;
use redlatch_link::world::{self, Monotonic};
use redlatch_types::records::{FindingV1, FindingsV1, Text, VoteVerdict};
use redlatch_types::{Name, VerifierId};

use crate::metrics::VerifierMetrics;

/// Most sentences of one finding.
const SENTENCES_MAX: usize = 32;

/// What an evaluator saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What it looked at.
    pub seen: Vec<String>,
    /// Every reason to reject; none approves.
    pub against: Vec<String>,
}

impl Report {
    /// A report with one reason to reject.
    pub fn against(reason: impl Into<String>) -> Report {
        Report {
            seen: Vec::new(),
            against: vec![reason.into()],
        }
    }

    fn finding(self, evaluator: Name) -> FindingV1 {
        let verdict = if self.against.is_empty() && !self.seen.is_empty() {
            VoteVerdict::Approve
        } else {
            VoteVerdict::Reject
        };
        let all = self.against.len() + self.seen.len();
        let mut sentences: Vec<Text> = self
            .against
            .iter()
            .chain(&self.seen)
            .take(SENTENCES_MAX)
            .map(|sentence| Text::lossy(sentence))
            .collect();
        if all > SENTENCES_MAX {
            sentences.push(Text::lossy(&format!("and {} more", all - SENTENCES_MAX)));
        }
        FindingV1 {
            evaluator,
            verdict,
            sentences,
        }
    }
}

/// One way to look at a candidate.
pub trait Evaluator: Send + Sync + 'static {
    /// Its name in findings.
    fn name(&self) -> Name;

    /// Looks. An error is a reason to reject.
    fn evaluate<'a>(&'a self, intent: &'a FrozenIntent) -> BoxFuture<'a, Result<Report, String>>;
}

/// All evaluators of a verifier.
#[derive(Clone)]
pub struct Panel {
    evaluators: Vec<Arc<dyn Evaluator>>,
    deadline: Duration,
}

impl Panel {
    /// Evaluators that each get `deadline`. A panel without any rejects everything.
    pub fn new(evaluators: Vec<Arc<dyn Evaluator>>, deadline: Duration) -> Panel {
        Panel {
            evaluators,
            deadline,
        }
    }

    /// The names of its evaluators.
    pub(crate) fn names(&self) -> impl Iterator<Item = Name> {
        self.evaluators.iter().map(|it| it.name())
    }

    /// Runs all evaluators beside each other.
    pub(crate) async fn evaluate(
        &self,
        intent: &Arc<FrozenIntent>,
        verifier_id: &VerifierId,
        metrics: &VerifierMetrics,
    ) -> FindingsV1 {
        let running = self.evaluators.iter().map(|it| {
            let look = one(Arc::clone(it), Arc::clone(intent), self.deadline);
            async move {
                let begun = Monotonic::now();
                let finding = look.await;
                metrics.evaluated(&finding.evaluator, begun.elapsed());
                finding
            }
        });
        FindingsV1 {
            intent_digest: intent.digest(),
            verifier_id: verifier_id.clone(),
            findings: join_all(running).await,
        }
    }
}

/// One evaluator in a task of its own, so that its panic is a finding and not ours.
async fn one(
    evaluator: Arc<dyn Evaluator>,
    intent: Arc<FrozenIntent>,
    deadline: Duration,
) -> FindingV1 {
    let name = evaluator.name();
    let mut task = world::spawn(async move { evaluator.evaluate(&intent).await });
    let report = match world::timeout(deadline, &mut task).await {
        Ok(Ok(Ok(report))) => report,
        Ok(Ok(Err(fault))) => Report::against(fault),
        Ok(Err(_)) => Report::against("the evaluator failed"),
        Err(world::DeadlinePassed) => {
            task.abort();
            Report::against(format!("no result within {} ms", deadline.as_millis()))
        }
    };
    report.finding(name)
}

#[cfg(all(test, not(madsim)))]
mod tests {
    use redlatch_link::diagnostics::Registry;
    use redlatch_types::IntentDigest;

    use super::*;
    use crate::evaluate::testing::land_intent;

    struct Scripted(&'static str);

    impl Evaluator for Scripted {
        fn name(&self) -> Name {
            self.0.parse().expect("a name")
        }
        fn evaluate<'a>(&'a self, _: &'a FrozenIntent) -> BoxFuture<'a, Result<Report, String>> {
            Box::pin(async move {
                match self.0 {
                    "approves" => Ok(Report {
                        seen: vec!["looked".into()],
                        against: vec![],
                    }),
                    "rejects" => Ok(Report::against("too large")),
                    "blind" => Ok(Report::default()),
                    "fails" => Err("no disk".into()),
                    "hangs" => std::future::pending().await,
                    _ => panic!("as planned"),
                }
            })
        }
    }

    async fn findings(names: &[&'static str]) -> FindingsV1 {
        let evaluators: Vec<Arc<dyn Evaluator>> = names
            .iter()
            .map(|name| Arc::new(Scripted(name)) as Arc<dyn Evaluator>)
            .collect();
        let panel = Panel::new(evaluators, Duration::from_millis(50));
        let intent = Arc::new(land_intent(&[], &[1; 20], vec![]));
        let metrics = VerifierMetrics::new(&Registry::new(), panel.names());
        panel
            .evaluate(&intent, &"va".parse().expect("a name"), &metrics)
            .await
    }

    #[tokio::test]
    async fn whoever_fails_hangs_panics_or_saw_nothing_rejects_and_says_so() {
        for (name, says) in [
            ("rejects", "too large"),
            ("fails", "no disk"),
            ("hangs", "no result within 50 ms"),
            ("panics", "the evaluator failed"),
        ] {
            let found = findings(&["approves", name]).await;
            assert_eq!(found.verdict(), VoteVerdict::Reject, "{name}");
            assert_eq!(found.findings[0].verdict, VoteVerdict::Approve, "{name}");
            let sentence = found.findings[1].sentences[0].to_string();
            assert_eq!(sentence, says, "{name}");
        }
        assert_eq!(findings(&["blind"]).await.verdict(), VoteVerdict::Reject);
        assert_eq!(findings(&[]).await.verdict(), VoteVerdict::Reject);
        let good = findings(&["approves", "approves"]).await;
        assert_eq!(good.verdict(), VoteVerdict::Approve);
        assert_ne!(
            good.intent_digest,
            IntentDigest(redlatch_types::Digest::ZERO)
        );
    }
}
