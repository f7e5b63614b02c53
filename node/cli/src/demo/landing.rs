//! Landings: a commit is attested, frozen, decided by sentinel and verifiers, committed, and moves its branch.

use std::time::Duration;

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::world::{self, Monotonic};
use redlatch_proto::v1::ProgressVote;
use redlatch_types::event::{Authorized, Event};
use redlatch_types::records::{
    AgentQuorumDecisionV1, OutcomeKind, PositiveAuthorityTransactionV1, SentinelVerdictV1, Verdict,
    VoteV1, VoteVerdict,
};
use redlatch_types::{Envelope, IntentDigest, MarkerNumber, TransactionId};
use rustix::process::Signal;

use super::evidence;
use super::journal::{Journal, whole};
use super::repository::{BRANCH, Repository, text};
use super::stage::{STRICT_BYTES, Stage, signal};
use super::timeline::{below, expect, held, leaf, scene, short, typed};
use super::tool::{Ran, Running};
use crate::git::ObjectId;
use crate::output;

/// How long a landing may take, step after step.
const LANDING: Duration = Duration::from_secs(120);
/// How long a leaf is waited for before the landing itself is looked at.
const LOOK: Duration = Duration::from_millis(300);
/// How long findings may take to be with the coordinator.
const FINDINGS: Duration = Duration::from_secs(5);
/// Voters of an organism, and the approvals that a decision needs.
const VOTERS: usize = 4;
const APPROVALS: usize = 3;

/// A landing that was started, and what of it was read back.
pub(super) struct Landing {
    commit: ObjectId,
    journal: Journal,
    /// None once it was killed.
    running: Option<Running>,
    intent: Option<IntentDigest>,
    transaction: Option<TransactionId>,
    marker: Option<(u64, MarkerNumber)>,
    outcome: Option<(u64, OutcomeKind)>,
}

/// How far a landing is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Its freeze.
    Frozen,
    /// Its PREPARE.
    Prepared,
    /// Its marker.
    Committed,
    /// The gate's report.
    Reported,
}

/// A push is refused; the same commit lands with GREEN and the quorum, and its receipt holds offline.
pub(super) async fn one(
    stage: &Stage,
    repository: &Repository,
    dissents: u8,
) -> Result<(), Failure> {
    scene("a push is refused before authority")?;
    let content = "A change that is larger than one verifier likes.\n".repeat(5);
    let commit = repository.commit("CHANGES", &content)?;
    let push = repository.push(&commit, None)?;
    below("gate", &push.said)?;
    push.expect_refused()?;
    repository.expect_head(None)?;
    held("the branch does not exist")?;

    scene("the same commit lands after a check, GREEN and 3 of 4")?;
    attest(stage, repository, &commit).await?;
    let mut landing = Landing::start(stage, repository, &commit, stage.size().await?).await?;
    landing.read_until(stage, Step::Reported).await?;
    let (intent, (at, marker)) = landing.landed().await?;
    expect_dissents(stage, intent, dissents.into()).await?;
    repository.expect_head(Some(&commit))?;
    held(&format!("push accepted: {BRANCH} is at {}", short(&commit)))?;

    scene("its receipt, verified offline with two files")?;
    evidence::verify(stage, "commit", at, "committed").await?;
    held(&format!(
        "marker {marker} proven; the altered receipt is refused"
    ))
}

/// The leader is killed when its PREPARE is read; there is one marker, in every journal.
pub(super) async fn without_its_leader(
    stage: &mut Stage,
    repository: &Repository,
) -> Result<(), Failure> {
    scene("a second landing; the leader is killed when its PREPARE is read")?;
    let commit = repository.commit("SECOND", "small\n")?;
    attest(stage, repository, &commit).await?;
    let (leader, term) = stage.leader().await?;
    let from = stage.size().await?;
    let mut landing = Landing::start(stage, repository, &commit, from).await?;
    landing.journal = Journal::new(stage.node(&leader)?, from);
    landing.read_until(stage, Step::Prepared).await?;
    stage.kill(&leader)?;
    typed(&format!("kill -9 {leader}"))?;
    below(&leader, &format!("leader of term {term}, killed"))?;
    let read = landing.journal.position();
    landing.journal = Journal::new(stage.client()?.another_connection()?, read);
    landing.read_until(stage, Step::Reported).await?;
    let reported = landing.outcome.map_or(0, |(at, _)| at);
    let (intent, _) = landing.landed().await?;
    let (successor, later) = stage.leader().await?;
    below(&successor, &format!("leader of term {later}"))?;
    expect(later > term, format!("a term after {term}"), later)?;
    repository.expect_head(Some(&commit))?;
    stage.start_again(&leader)?;
    stage.caught_up(reported.saturating_add(1)).await?;
    one_marker(stage, intent).await
}

/// Asserts from every node's whole journal that an intent has exactly one marker, at one position.
pub(super) async fn one_marker(stage: &Stage, intent: IntentDigest) -> Result<(), Failure> {
    let mut journals = Vec::new();
    for name in stage.nodes()? {
        let leaves = whole(&stage.node(&name)?).await?;
        let of_intent = |event: &Event| matches!(event, Event::Committed(marker) if marker.intent_digest == intent);
        let markers: Vec<usize> = (0..leaves.len())
            .filter(|at| of_intent(&leaves[*at].0))
            .collect();
        let seen = format!(
            "{} leaves, markers of the intent at {markers:?}",
            leaves.len()
        );
        below(&name, &seen)?;
        expect(markers.len() == 1, format!("one marker on {name}"), &seen)?;
        journals.push((name, leaves));
    }
    let shortest = journals.iter().map(|(_, leaves)| leaves.len()).min();
    let common = shortest.unwrap_or(0);
    let equal = journals
        .windows(2)
        .all(|two| two[0].1[..common] == two[1].1[..common]);
    expect(
        equal,
        format!("the same {common} leaves on every node"),
        "others",
    )?;
    held(&format!(
        "exactly one marker, in every node's journal; {common} leaves equal byte for byte"
    ))
}

/// Runs the check on exactly one commit and signs what it came to.
pub(super) async fn attest(
    stage: &Stage,
    repository: &Repository,
    commit: &ObjectId,
) -> Result<(), Failure> {
    let (id, out) = (commit.to_string(), receipt_file(stage, commit));
    let arguments = [
        "--dir",
        stage.dir(),
        "gate",
        "attest",
        "--repo",
        text(repository.work())?,
        "--commit",
        &id,
        "--command",
        "cat * && echo checked",
        "--expect",
        "checked",
        "--out",
        &out,
    ];
    typed(&stage.tool.typed(&arguments))?;
    let said = stage.tool.done(&arguments).await?;
    for line in said.lines().take(2) {
        let (word, rest) = line.split_once("  ").unwrap_or((line, ""));
        below(word, rest.trim())?;
    }
    Ok(())
}

fn receipt_file(stage: &Stage, commit: &ObjectId) -> String {
    let name = format!("checked-{}.receipt", &commit.to_string()[..8]);
    stage.place().join(name).display().to_string()
}

impl Landing {
    /// Starts `redlatch land` with the commit's receipt, reading the journal from `from` on.
    ///
    /// # Errors
    /// [`Failure`] if it does not start.
    pub(super) async fn start(
        stage: &Stage,
        repository: &Repository,
        commit: &ObjectId,
        from: u64,
    ) -> Result<Landing, Failure> {
        let (id, receipt, bare) = (
            commit.to_string(),
            receipt_file(stage, commit),
            repository.bare(),
        );
        let arguments = [
            "--dir",
            stage.dir(),
            "land",
            "--repo",
            &bare,
            "--source",
            text(repository.work())?,
            "--ref",
            BRANCH,
            "--commit",
            &id,
            "--evidence",
            &receipt,
        ];
        typed(&stage.tool.typed(&arguments))?;
        Ok(Landing {
            commit: commit.clone(),
            journal: Journal::new(stage.client()?.another_connection()?, from),
            running: Some(stage.tool.start(&arguments)?),
            intent: None,
            transaction: None,
            marker: None,
            outcome: None,
        })
    }

    /// The intent, once its freeze was read.
    ///
    /// # Errors
    /// [`Failure`] before.
    pub(super) fn intent(&self) -> Result<IntentDigest, Failure> {
        self.intent
            .ok_or_else(|| unread("the freeze of the intent"))
    }

    /// Kills the process that lands, not the landing.
    ///
    /// # Errors
    /// [`Failure`] if it has ended already.
    pub(super) async fn kill(&mut self) -> Result<(), Failure> {
        typed("kill -9 redlatch land")?;
        let running = self.running.take().ok_or_else(gone)?;
        signal(running.pid, Signal::KILL)?;
        let ran = running.end().await?;
        expect(ran.code.is_none(), "a client that was killed", ran.error())
    }

    /// How the process that lands ends.
    ///
    /// # Errors
    /// [`Failure`] if it was killed.
    pub(super) async fn end(self) -> Result<Ran, Failure> {
        self.running.ok_or_else(gone)?.end().await
    }

    /// Reads and tells leaves of this landing up to a step.
    ///
    /// # Errors
    /// [`Failure`] if the landing ends before, or takes too long.
    pub(super) async fn read_until(&mut self, stage: &Stage, step: Step) -> Result<(), Failure> {
        let until = Monotonic::now().plus(LANDING);
        loop {
            let ended = self.running.as_ref().is_some_and(Running::has_ended);
            if let Some((at, event)) = self.journal.next(LOOK).await? {
                if self.step(stage, at, &event).await? == Some(step) {
                    return Ok(());
                }
            } else if let Some(running) = self.running.take_if(|_| ended) {
                // What it wrote is read: whoever lands has given up before this step.
                running.end().await?.ended_with(0)?;
                return Err(unread("the next step"));
            } else if Monotonic::now() >= until {
                return Err(unread("the next step"));
            }
        }
    }

    async fn step(
        &mut self,
        stage: &Stage,
        at: u64,
        event: &Event,
    ) -> Result<Option<Step>, Failure> {
        match event {
            Event::Frozen(digest, _, intent, _) => {
                let landing = intent.payload.land();
                if let Some(land) = landing.filter(|it| it.new.0 == self.commit.bytes()) {
                    self.intent = Some(*digest);
                    let (new, reference) = (short(&self.commit), &land.resource.reference);
                    let shown = format!("intent {}: {reference} to {new}", short(digest));
                    leaf(at, "FROZEN", &shown)?;
                    return Ok(Some(Step::Frozen));
                }
            }
            Event::Authorized(body) if self.is_of(&body.decision.binding.intent_digest) => {
                let id = PositiveAuthorityTransactionV1::id_of(&body.capability_id);
                self.transaction = Some(id);
                decision(stage, at, body).await?;
            }
            Event::Prepared(id, _) if Some(*id) == self.transaction => {
                leaf(
                    at,
                    "PREPARE",
                    &format!("transaction {}; nothing is visible yet", short(id)),
                )?;
                return Ok(Some(Step::Prepared));
            }
            Event::Committed(marker) if self.is_of(&marker.intent_digest) => {
                self.marker = Some((at, marker.marker));
                let time = output::time(marker.committed_at);
                leaf(
                    at,
                    "COMMIT",
                    &format!("marker {}, at state time {time}", marker.marker),
                )?;
                return Ok(Some(Step::Committed));
            }
            Event::EffectClaimed(id, ..) if Some(*id) == self.transaction => {
                leaf(at, "CLAIM", "the gate is about to move the branch")?;
            }
            Event::EffectReported(id, outcome, ..) if Some(*id) == self.transaction => {
                self.outcome = Some((at, *outcome));
                leaf(at, "EFFECT", &format!("{outcome}: the branch moved"))?;
                return Ok(Some(Step::Reported));
            }
            _ => {}
        }
        Ok(None)
    }

    fn is_of(&self, intent: &IntentDigest) -> bool {
        self.intent.as_ref() == Some(intent)
    }

    /// Asserts that it ended well: exit code 0, one marker read, the effect done.
    async fn landed(self) -> Result<(IntentDigest, (u64, MarkerNumber)), Failure> {
        let intent = self.intent()?;
        let marker = self.marker.ok_or_else(|| unread("the marker"))?;
        let done = matches!(self.outcome, Some((_, OutcomeKind::Done)));
        let seen = self
            .outcome
            .map_or("none".to_owned(), |(_, it)| it.to_string());
        expect(done, "the effect done", seen)?;
        self.end().await?.ended_with(0)?;
        Ok((intent, marker))
    }
}

fn gone() -> Failure {
    Failure::new(ExitCode::Error, "the process that lands was killed")
}

fn unread(what: &str) -> Failure {
    let text = format!("expected {what}; it is not in the journal");
    Failure::new(ExitCode::Error, text)
}

/// Tells a decision: the GREEN, the votes with their findings, the group's signature, each verified here.
async fn decision(stage: &Stage, at: u64, body: &Authorized) -> Result<(), Failure> {
    let intent = body.decision.binding.intent_digest;
    let roster = &stage.client()?.genesis.roster;
    leaf(
        at,
        "AUTHORIZED",
        "one decision, one capability; what it rests on:",
    )?;
    let green = body.green.open::<SentinelVerdictV1>().map_err(forged)?;
    let by = *green.key() == roster.sentinel.key;
    let said = green.record();
    let good = by && said.verdict == Verdict::Green && said.intent_digest == intent;
    expect(
        good,
        "the sentinel's own GREEN on this intent",
        said.verdict,
    )?;
    below(
        "GREEN",
        &format!(
            "signed by the sentinel, until {}",
            output::time(said.expires_at)
        ),
    )?;
    for vote in body.votes() {
        tell_vote(stage, vote).await?;
    }
    let basis = body.quorum().ok_or_else(|| {
        Failure::new(
            ExitCode::Error,
            "something else than the quorum decided the landing",
        )
    })?;
    let group = basis.decision.open::<AgentQuorumDecisionV1>();
    let group = group.map_err(forged)?;
    let key = stage.group_key()?;
    expect(
        *group.key() == key,
        "the quorum's signature",
        short(group.key()),
    )?;
    let votes = &group.record().signed_votes_dissents;
    let approve = votes.iter().filter(|it| it.verdict == VoteVerdict::Approve);
    let (approve, all) = (approve.count(), votes.len());
    expect(approve >= APPROVALS, "three approvals", approve)?;
    expect(all == VOTERS, "four votes", all)?;
    let shown = format!("{approve} of {all}, group key {}, verified", short(key));
    below("GROUP SIGNATURE", &shown)
}

fn forged(error: impl std::fmt::Display) -> Failure {
    let text = format!("expected a signature that holds; saw {error}");
    Failure::new(ExitCode::Error, text)
}

/// One vote of a decision. A dissent is told with the findings whose digest it signs.
async fn tell_vote(stage: &Stage, envelope: &Envelope) -> Result<(), Failure> {
    let signed = envelope.open::<VoteV1>().map_err(forged)?;
    let vote = signed.record();
    let seats = &stage.client()?.genesis.roster.verifiers;
    let seat = seats.iter().find(|it| it.verifier_id == vote.verifier_id);
    let domain = seat
        .filter(|it| it.vote_key == *signed.key())
        .map(|it| it.failure_domain.to_string());
    let id = vote.verifier_id.as_str();
    expect(
        domain.is_some(),
        format!("the vote key of {id}"),
        short(signed.key()),
    )?;
    let domain = domain.unwrap_or_default();
    below(
        "vote",
        &format!("{id} {:<8} {domain}", vote.verdict.to_string()),
    )?;
    if vote.verdict != VoteVerdict::Approve {
        let found = findings(stage, vote.intent_digest, id).await?;
        let same = found.findings_digest == vote.findings_digest.0;
        expect(same, "the findings that the vote signs", "others")?;
        tell_findings(&found)?;
    }
    Ok(())
}

/// What a verifier holds against an intent.
pub(super) fn tell_findings(vote: &ProgressVote) -> Result<(), Failure> {
    let against = vote.findings.iter().filter(|it| it.verdict == vote.verdict);
    for finding in against {
        for sentence in &finding.sentences {
            below(
                "finding",
                &format!("{} {}: {sentence}", vote.verifier, finding.evaluator),
            )?;
        }
    }
    Ok(())
}

/// A verifier's opened vote with its findings, as the coordinator shows it.
pub(super) async fn findings(
    stage: &Stage,
    intent: IntentDigest,
    verifier: &str,
) -> Result<ProgressVote, Failure> {
    let client = stage.client()?;
    let until = Monotonic::now().plus(FINDINGS);
    loop {
        let progress = client.nodes.progress(intent, client.deadline).await?;
        let mut votes = progress.votes.into_iter();
        let vote = votes.find(|it| it.verifier == verifier && !it.findings.is_empty());
        if let Some(vote) = vote {
            return Ok(vote);
        }
        let late = Monotonic::now() >= until;
        expect(!late, format!("the findings of {verifier}"), "none")?;
        world::sleep(LOOK).await;
    }
}

/// Asserts who dissented, and that it was the stricter rule.
async fn expect_dissents(
    stage: &Stage,
    intent: IntentDigest,
    wanted: usize,
) -> Result<(), Failure> {
    for verifier in (1..=VOTERS).rev().take(wanted) {
        let vote = findings(stage, intent, &format!("v{verifier}")).await?;
        expect_too_large(&vote)?;
    }
    if wanted > 0 {
        held("the dissent stands with its finding, and does not stop what 3 of 4 decided")?;
    }
    Ok(())
}

/// Asserts that a vote rejects by the stricter size rule.
pub(super) fn expect_too_large(vote: &ProgressVote) -> Result<(), Failure> {
    let rule = format!("at most {STRICT_BYTES} are allowed");
    let mut sentences = vote.findings.iter().flat_map(|it| &it.sentences);
    let by_rule = vote.verdict == VoteVerdict::Reject.to_string()
        && sentences.any(|sentence| sentence.contains(&rule));
    let seen = format!("{}: {:?}", vote.verdict, vote.findings);
    expect(
        by_rule,
        format!("{} to reject: {rule}", vote.verifier),
        seen,
    )
}
