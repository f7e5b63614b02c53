//! Who voted what and why, as `redlatch intent show` prints it. Unproven: what counts is in the journal.

use redlatch_proto::v1;
use redlatch_types::records::Text;

use crate::answer::{Decision, Finding, Sentinel, Vote};

/// A decision for programs.
pub(crate) fn answer(progress: &v1::ProgressResponse) -> Decision {
    Decision {
        stage: progress.stage.clone(),
        sentinel: Sentinel {
            verdict: progress.verdict.clone(),
            reason: progress.verdict_reason.clone(),
        },
        votes: progress.votes.iter().map(vote).collect(),
        refusal: progress.refusal.clone(),
        over: progress.over,
        notes: progress.notes.clone(),
    }
}

fn vote(vote: &v1::ProgressVote) -> Vote {
    let finding = |it: &v1::ProgressFinding| Finding {
        evaluator: it.evaluator.clone(),
        verdict: it.verdict.clone(),
        sentences: it.sentences.clone(),
    };
    Vote {
        verifier: vote.verifier.clone(),
        failure_domain: vote.failure_domain.clone(),
        state: vote.state.clone(),
        verdict: vote.verdict.clone(),
        refusal: vote.refusal.clone(),
        findings_digest: hex::encode(&vote.findings_digest),
        findings: vote.findings.iter().map(finding).collect(),
    }
}

/// A decision for people.
pub(crate) fn to_lines(progress: &v1::ProgressResponse) -> String {
    let mut lines = vec![format!("stage     {}", progress.stage)];
    if !progress.verdict.is_empty() {
        lines.push(format!(
            "sentinel  {} {}",
            progress.verdict, progress.verdict_reason
        ));
    }
    for vote in &progress.votes {
        let said = if vote.verdict.is_empty() {
            &vote.state
        } else {
            &vote.verdict
        };
        lines.push(format!(
            "vote      {:<8} {said:<8} {} {}",
            vote.verifier, vote.failure_domain, vote.refusal
        ));
        for finding in &vote.findings {
            for sentence in &finding.sentences {
                let (evaluator, verdict) = (&finding.evaluator, &finding.verdict);
                lines.push(format!("            {evaluator} {verdict}: {sentence}"));
            }
        }
    }
    if !progress.refusal.is_empty() {
        let end = if progress.over {
            ", for good: a new try is a new intent"
        } else {
            ""
        };
        lines.push(format!("refusal   {}{end}", progress.refusal));
    }
    lines.extend(
        progress
            .notes
            .iter()
            .map(|note| format!("note      {note}")),
    );
    // A node's words are its own: nothing in them moves the reader's cursor.
    let clean = |line: &String| Text::lossy(line.trim_end()).to_string() + "\n";
    lines.iter().map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> v1::ProgressResponse {
        v1::ProgressResponse {
            stage: "frozen".into(),
            verdict: "GREEN".into(),
            votes: vec![v1::ProgressVote {
                verifier: "v4".into(),
                failure_domain: "domain-4".into(),
                state: "opened".into(),
                verdict: "REJECT".into(),
                findings_digest: vec![0xab; 32],
                findings: vec![v1::ProgressFinding {
                    evaluator: "git".into(),
                    verdict: "REJECT".into(),
                    sentences: vec!["file a has 9 bytes\u{1b}[2J".into()],
                }],
                ..v1::ProgressVote::default()
            }],
            refusal: "insufficient_quorum".into(),
            over: true,
            ..v1::ProgressResponse::default()
        }
    }

    #[test]
    fn a_dissent_is_shown_with_its_reason_and_moves_no_cursor() {
        let text = to_lines(&progress());
        assert!(
            text.contains("vote      v4       REJECT   domain-4"),
            "{text}"
        );
        assert!(text.contains("git REJECT: file a has 9 bytes"), "{text}");
        assert!(
            text.contains("refusal   insufficient_quorum, for good"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
        let answer = answer(&progress());
        assert_eq!(answer.votes[0].findings[0].evaluator, "git");
        assert!(answer.over);
    }
}
