//! What the coordinator remembers of decisions, for people: who voted what and why, and what stands in the way.
//!
//! Nothing is decided by it; it is bounded, and forgotten when this node no longer leads. A verdict is
//! noted only from an opened vote.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redlatch_proto::v1;
use redlatch_types::records::{
    CountedVote, FindingsV1, RosterV1, SentinelVerdictV1, Verdict, VoteV1,
};
use redlatch_types::{IntentDigest, Refusal, VerifierId};

/// Most intents remembered; the oldest goes first.
const INTENTS_MAX: usize = 1024;
/// Most sentences per intent.
const NOTES_MAX: usize = 64;

/// What is known of one decision.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    /// Order of arrival.
    number: u64,
    votes: BTreeMap<VerifierId, v1::ProgressVote>,
    verdict: String,
    verdict_reason: String,
    refusal: Option<Refusal>,
    over: bool,
    notes: Vec<String>,
}

/// Everything the coordinator remembers.
#[derive(Default)]
pub(crate) struct Progress {
    known: Mutex<(u64, BTreeMap<IntentDigest, Known>)>,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<IntentDigest, Known>)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, digest: &IntentDigest, change: impl FnOnce(&mut Known)) {
        let mut guard = self.lock();
        let (number, known) = &mut *guard;
        if !known.contains_key(digest) {
            *number += 1;
            let fresh = Known {
                number: *number,
                ..Known::default()
            };
            known.insert(*digest, fresh);
        }
        if let Some(it) = known.get_mut(digest) {
            change(it);
        }
        if known.len() > INTENTS_MAX {
            let oldest = known.iter().min_by_key(|(_, it)| it.number);
            if let Some(oldest) = oldest.map(|(digest, _)| *digest) {
                known.remove(&oldest);
            }
        }
    }

    /// A ballot begins: the voters of the roster, silent so far.
    pub(super) fn begun(&self, digest: &IntentDigest, roster: &RosterV1) {
        self.change(digest, |it| {
            it.refusal = None;
            for verifier in &roster.verifiers {
                let silent = v1::ProgressVote {
                    verifier: verifier.verifier_id.to_string(),
                    failure_domain: verifier.failure_domain.to_string(),
                    state: "silent".to_owned(),
                    ..v1::ProgressVote::default()
                };
                it.votes.insert(verifier.verifier_id.clone(), silent);
            }
        });
    }

    fn vote(
        &self,
        digest: &IntentDigest,
        verifier: &VerifierId,
        change: impl FnOnce(&mut v1::ProgressVote),
    ) {
        self.change(digest, |it| {
            if let Some(vote) = it.votes.get_mut(verifier) {
                change(vote);
            }
        });
    }

    /// A verifier's seal came, in time for the sheet or late.
    pub(super) fn sealed(&self, digest: &IntentDigest, verifier: &VerifierId, late: bool) {
        self.vote(digest, verifier, |vote| {
            if vote.state != "opened" {
                vote.state = if late { "late" } else { "sealed" }.to_owned();
                vote.refusal.clear();
            }
        });
    }

    /// A verifier refused.
    pub(super) fn voter_refused(
        &self,
        digest: &IntentDigest,
        verifier: &VerifierId,
        refusal: Refusal,
    ) {
        self.vote(digest, verifier, |vote| {
            if vote.state == "silent" {
                vote.state = "refused".to_owned();
            }
            vote.refusal = refusal.code().to_owned();
        });
    }

    /// A verifier opened its vote.
    pub(super) fn opened(&self, digest: &IntentDigest, record: &VoteV1) {
        self.vote(digest, &record.verifier_id, |vote| {
            vote.state = "opened".to_owned();
            vote.verdict = record.verdict.to_string();
            vote.findings_digest = record.findings_digest.0.to_vec();
        });
    }

    /// Findings behind an opened vote.
    pub(super) fn found(&self, digest: &IntentDigest, findings: &FindingsV1) {
        let lines = of_findings(findings);
        self.vote(digest, &findings.verifier_id, |vote| vote.findings = lines);
    }

    /// The sentinel spoke.
    pub(super) fn verdict(&self, digest: &IntentDigest, verdict: &SentinelVerdictV1) {
        self.change(digest, |it| {
            it.verdict = verdict.verdict.to_string();
            if verdict.verdict != Verdict::Green {
                let reason = verdict.reason_optional.as_ref();
                it.verdict_reason = reason.map_or_else(String::new, ToString::to_string);
            }
        });
    }

    /// The sentinel says nothing so far.
    pub(super) fn sentinel_silent(&self, digest: &IntentDigest) {
        self.change(digest, |it| {
            if it.verdict.is_empty() && it.refusal.is_none() {
                it.refusal = Some(Refusal::SentinelRequired);
            }
        });
    }

    /// Something stands in the way and may pass.
    pub(super) fn waiting(&self, digest: &IntentDigest, refusal: Refusal, note: &str) {
        self.change(digest, |it| {
            it.refusal = Some(refusal);
            note_once(it, note);
        });
    }

    /// The journal refused a step.
    pub(super) fn refused(&self, digest: &IntentDigest, refusal: Refusal) {
        self.waiting(
            digest,
            refusal,
            &format!("the journal refused a step: {refusal}"),
        );
    }

    /// The ballot ended without a decision, for good.
    pub(super) fn abstained(&self, digest: &IntentDigest, refusal: Refusal) {
        self.change(digest, |it| {
            it.refusal = Some(refusal);
            it.over = true;
            note_once(it, &format!("it ended without a decision: {refusal}"));
        });
    }

    /// A sentence for people.
    pub(super) fn note(&self, digest: &IntentDigest, note: &str) {
        self.change(digest, |it| note_once(it, note));
    }

    /// The journal took the decision.
    pub(super) fn decided(&self, digest: &IntentDigest) {
        self.change(digest, |it| it.refusal = None);
    }

    /// Whether the ballot on an intent ended for good.
    pub(super) fn is_over(&self, digest: &IntentDigest) -> bool {
        self.lock().1.get(digest).is_some_and(|it| it.over)
    }

    /// Everything is forgotten.
    pub(super) fn forget(&self) {
        self.lock().1.clear();
    }

    /// What is known of an intent.
    pub(crate) fn of(&self, digest: &IntentDigest) -> Option<v1::ProgressResponse> {
        let guard = self.lock();
        let known = guard.1.get(digest)?;
        Some(v1::ProgressResponse {
            stage: String::new(),
            verdict: known.verdict.clone(),
            verdict_reason: known.verdict_reason.clone(),
            votes: known.votes.values().cloned().collect(),
            refusal: known
                .refusal
                .map(|it| it.code().to_owned())
                .unwrap_or_default(),
            over: known.over,
            notes: known.notes.clone(),
        })
    }
}

fn note_once(known: &mut Known, note: &str) {
    if known.notes.len() < NOTES_MAX && known.notes.last().is_none_or(|last| last != note) {
        known.notes.push(note.to_owned());
    }
}

/// Findings as people see them.
fn of_findings(findings: &FindingsV1) -> Vec<v1::ProgressFinding> {
    let line = |finding: &redlatch_types::records::FindingV1| v1::ProgressFinding {
        evaluator: finding.evaluator.to_string(),
        verdict: finding.verdict.to_string(),
        sentences: finding.sentences.iter().map(ToString::to_string).collect(),
    };
    findings.findings.iter().map(line).collect()
}

/// A counted vote of a journaled decision, with its findings if somebody has them.
pub(crate) fn of_counted(vote: &CountedVote, findings: Option<&FindingsV1>) -> v1::ProgressVote {
    v1::ProgressVote {
        verifier: vote.verifier_id.to_string(),
        failure_domain: vote.failure_domain.to_string(),
        state: "opened".to_owned(),
        verdict: vote.verdict.to_string(),
        refusal: String::new(),
        findings_digest: vote.findings_digest.0.to_vec(),
        findings: findings.map(of_findings).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use redlatch_types::Digest;

    use super::*;

    fn intent(n: usize) -> IntentDigest {
        IntentDigest(Digest::of(&n.to_be_bytes()))
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let progress = Progress::default();
        for n in 0..=INTENTS_MAX {
            progress.abstained(&intent(n), Refusal::InsufficientQuorum);
        }
        assert!(progress.of(&intent(0)).is_none());
        assert!(progress.is_over(&intent(1)) && progress.is_over(&intent(INTENTS_MAX)));
        for n in 0..2 * NOTES_MAX {
            progress.note(&intent(1), &n.to_string());
        }
        assert_eq!(
            progress.of(&intent(1)).expect("known").notes.len(),
            NOTES_MAX
        );
    }

    #[test]
    fn a_silent_sentinel_is_a_reason_only_while_it_is_silent() {
        let progress = Progress::default();
        progress.sentinel_silent(&intent(1));
        let refusal = |n| progress.of(&intent(n)).expect("known").refusal;
        assert_eq!(refusal(1), "sentinel_required");
        progress.decided(&intent(1));
        assert_eq!(refusal(1), "");
        progress.waiting(&intent(2), Refusal::RedLatched, "stopped");
        progress.sentinel_silent(&intent(2));
        assert_eq!(refusal(2), "red_latched");
    }
}
