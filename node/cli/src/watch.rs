//! The steps of one intent, as they are read back from the journal.

use std::collections::BTreeSet;
use std::time::Duration;

use redlatch_journal::IndexKey;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::nodes::CallError;
use redlatch_link::world::{self, Monotonic};
use redlatch_proto::v1;
use redlatch_proto::v1::leaf_at::At;
use redlatch_types::event::{Basis, Event};
use redlatch_types::records::{
    AbortReason, OutcomeKind, PositiveAuthorityTransactionV1, Text, WithdrawalV1,
};
use redlatch_types::{Canonical, EventId, IntentDigest, MarkerNumber, Refusal, TransactionId};

use crate::client::{Client, Signer, random, refused};
use crate::output::note;
use crate::tail::Tail;

/// How long a withdrawal is accepted, in state time.
const WITHDRAWAL_TTL_MS: u64 = 60 * 1_000;
/// Pause before a leaf is asked for again.
const PAUSE: Duration = Duration::from_millis(100);

/// How often the nodes are asked how a decision goes while nothing is written.
const LOOK: Duration = Duration::from_secs(1);

/// How waiting for COMMIT ended.
#[derive(Clone, Debug)]
pub(crate) enum Waited {
    /// With the marker.
    Committed(Seen),
    /// The nodes say that this intent will not be decided, and why.
    Over(String),
    /// Nothing happened in time; what stood against it last, if anything.
    TimedOut(Option<String>),
}

/// How an intent took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Its marker stands; the effect is its executor's.
    Committed(u64),
    /// The change of the organism is in force.
    InForce(u64),
}

impl End {
    /// As answers name it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            End::Committed(_) => "committed",
            End::InForce(_) => "in_force",
        }
    }

    /// Position of the leaf that says so.
    pub(crate) fn position(self) -> u64 {
        let (End::Committed(position) | End::InForce(position)) = self;
        position
    }
}

/// The marker, as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) transaction: TransactionId,
    pub(crate) marker: MarkerNumber,
    pub(crate) position: u64,
}

/// Follows the journal from an intent's freeze on.
pub(crate) struct Watch<'a> {
    client: &'a Client,
    intent: IntentDigest,
    transaction: Option<TransactionId>,
    /// Whether somebody outside the journal makes the effect.
    external: bool,
    leaves: Tail,
    told: Told,
}

impl<'a> Watch<'a> {
    /// Finds where the intent was frozen.
    pub(crate) async fn new(
        client: &'a Client,
        intent: IntentDigest,
    ) -> Result<Watch<'a>, Failure> {
        let until = Monotonic::now().plus(client.deadline);
        let next = loop {
            let at = At::IndexKey(IndexKey::Frozen(intent).to_bytes());
            match client.nodes.leaf(at, client.deadline).await {
                Ok((position, _)) => break position,
                Err(CallError::Absent(_)) if Monotonic::now() < until => world::sleep(PAUSE).await,
                Err(CallError::Absent(_)) => return Err(refused(Refusal::UnknownIntent)),
                Err(other) => return Err(other.into()),
            }
        };
        Ok(Watch {
            client,
            intent,
            transaction: None,
            external: true,
            leaves: Tail::new(client.nodes.clone(), next),
            told: Told::default(),
        })
    }

    pub(crate) fn intent(&self) -> IntentDigest {
        self.intent
    }

    /// Reads on until the marker is there, the decision is over, or `until`.
    ///
    /// # Errors
    /// [`Failure`] if the intent ended without a marker.
    pub(crate) async fn committed(&mut self, until: Monotonic) -> Result<Waited, Failure> {
        let mut against = None;
        while Monotonic::now() < until {
            let look = Monotonic::now().plus(LOOK).min(until);
            match self.pull(look).await? {
                Some((position, Event::Committed(marker)))
                    if marker.intent_digest == self.intent =>
                {
                    note(&format!(
                        "{position:>8}  committed       marker {}",
                        marker.marker
                    ));
                    return Ok(Waited::Committed(Seen {
                        transaction: marker.transaction_id,
                        marker: marker.marker,
                        position,
                    }));
                }
                Some((position, other)) => self.step(position, &other).await?,
                None => {
                    let progress = self.look().await;
                    against = progress.as_ref().map(|it| it.refusal.clone());
                    against = against.filter(|code| !code.is_empty());
                    if let Some(code) = against
                        .clone()
                        .filter(|_| progress.is_some_and(|it| it.over))
                    {
                        return Ok(Waited::Over(code));
                    }
                }
            }
        }
        Ok(Waited::TimedOut(against))
    }

    /// Reads on until the intent has taken effect as far as the nodes bring it.
    ///
    /// # Errors
    /// [`Failure`] if it ended without, will not be decided, or nothing came in time.
    pub(crate) async fn in_effect(&mut self, until: Monotonic) -> Result<End, Failure> {
        let seen = match self.committed(until).await? {
            Waited::Committed(seen) => seen,
            Waited::Over(code) => return Err(undecided(&code)),
            Waited::TimedOut(against) => return Err(late(self.intent, against)),
        };
        if self.external {
            return Ok(End::Committed(seen.position));
        }
        while let Some((position, event)) = self.pull(until).await? {
            match event {
                Event::Activated(id, ..) if id == seen.transaction => {
                    note(&format!("{position:>8}  activated"));
                    return Ok(End::InForce(position));
                }
                _ => {}
            }
        }
        Err(late(self.intent, None))
    }

    /// Asks how the decision goes and tells what is new of it. It is for people: what counts is read from
    /// the journal, so an answer that does not come is no failure.
    async fn look(&mut self) -> Option<v1::ProgressResponse> {
        let progress = self.client.nodes.progress(self.intent, LOOK).await.ok()?;
        self.told.tell(&progress);
        Some(progress)
    }

    /// Reads on until the gate's report is there; `None` after `wait`.
    pub(crate) async fn outcome(
        &mut self,
        wait: Duration,
    ) -> Result<Option<(u64, OutcomeKind)>, Failure> {
        let until = Monotonic::now().plus(wait);
        while let Some((position, event)) = self.pull(until).await? {
            match event {
                Event::EffectClaimed(id, ..) if Some(id) == self.transaction => {
                    note(&format!("{position:>8}  effect_claimed"));
                }
                Event::EffectReported(id, outcome, ..) if Some(id) == self.transaction => {
                    note(&format!("{position:>8}  effect_reported {outcome}"));
                    return Ok(Some((position, outcome)));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// One step before the marker.
    async fn step(&mut self, position: u64, event: &Event) -> Result<(), Failure> {
        match event {
            Event::Frozen(digest, _, intent, _) if *digest == self.intent => {
                self.external = intent.action.is_external();
                note(&format!("{position:>8}  frozen          intent {digest}"));
            }
            Event::Authorized(body) if body.decision.binding.intent_digest == self.intent => {
                let id = PositiveAuthorityTransactionV1::id_of(&body.capability_id);
                self.transaction = Some(id);
                let basis = basis(&body.basis);
                note(&format!("{position:>8}  authorized      GREEN, {basis}"));
            }
            Event::Prepared(id, _) if Some(*id) == self.transaction => {
                note(&format!("{position:>8}  prepared        transaction {id}"));
            }
            Event::Aborted(_, intent, reason) if *intent == self.intent => {
                return Err(ended(position, reason));
            }
            Event::Withdrawn(intent, _) if *intent == self.intent => {
                return Err(ended(position, &AbortReason::Withdrawn));
            }
            _ => {}
        }
        Ok(())
    }

    /// The next leaf that this build can read; `None` at `until`.
    async fn pull(&mut self, until: Monotonic) -> Result<Option<(u64, Event)>, Failure> {
        while let Some(leaf) = self.leaves.next(until).await? {
            if let Ok(event) = Event::from_canonical(&leaf.leaf) {
                return Ok(Some((leaf.position, event)));
            }
        }
        Ok(None)
    }
}

/// What was told of a decision already.
#[derive(Default)]
struct Told {
    lines: BTreeSet<String>,
}

impl Told {
    fn tell(&mut self, progress: &v1::ProgressResponse) {
        for line in told(progress) {
            if self.lines.insert(line.clone()) {
                note(&format!("{:>8}  {line}", ""));
            }
        }
    }
}

/// A decision in progress, line by line.
fn told(progress: &v1::ProgressResponse) -> Vec<String> {
    let mut lines = Vec::new();
    if !progress.verdict.is_empty() {
        lines.push(format!(
            "sentinel        {} {}",
            progress.verdict, progress.verdict_reason
        ));
    }
    for vote in progress
        .votes
        .iter()
        .filter(|vote| !vote.verdict.is_empty())
    {
        lines.push(format!(
            "vote            {} {}",
            vote.verifier, vote.verdict
        ));
        for finding in vote.findings.iter().filter(|it| it.verdict == vote.verdict) {
            let said = finding.sentences.join("; ");
            lines.push(format!(
                "finding         {} {}: {said}",
                vote.verifier, finding.evaluator
            ));
        }
    }
    lines.extend(
        progress
            .notes
            .iter()
            .map(|line| format!("note            {line}")),
    );
    let line = |line: String| Text::lossy(line.trim_end()).to_string();
    lines.into_iter().map(line).collect()
}

/// What a decision rests on, in a few words.
fn basis(basis: &Basis) -> String {
    match basis {
        Basis::Quorum(quorum) => format!("{} votes opened", quorum.votes.len()),
        Basis::Human(decision, _) => {
            let who: Vec<&str> = decision.approvers.iter().map(|it| it.as_str()).collect();
            format!("approved by {}", who.join(", "))
        }
        Basis::Policy(decision, _) => {
            let clauses = decision.matched_clauses.iter();
            let names: Vec<&str> = clauses.map(|it| it.as_str()).collect();
            format!("by policy {}", names.join(", "))
        }
    }
}

/// What stands against an intent, in the nodes' words. They are no more than words: nothing in them moves the
/// reader's cursor.
pub(crate) fn undecided(code: &str) -> Failure {
    match code.parse::<Refusal>() {
        Ok(refusal) => {
            Failure::new(ExitCode::Refused, format!("refused {refusal}")).hint(refusal.hint())
        }
        Err(_) => Failure::new(ExitCode::Refused, format!("refused {}", Text::lossy(code))),
    }
}

fn late(intent: IntentDigest, against: Option<String>) -> Failure {
    let why = against.map_or_else(String::new, |code| format!(": {}", Text::lossy(&code)));
    let text = format!("intent {intent} has not taken effect in time{why}");
    Failure::new(ExitCode::Unavailable, text)
        .hint(format!("it goes on; see redlatch intent show {intent}"))
}

fn ended(position: u64, reason: &AbortReason) -> Failure {
    let refusal = match reason {
        AbortReason::Withdrawn => Refusal::WrongState,
        AbortReason::Expired => Refusal::Expired,
        AbortReason::RedLatched => Refusal::RedLatched,
        AbortReason::Frozen => Refusal::Frozen,
        AbortReason::EpochFenced => Refusal::EpochFenced,
        AbortReason::StaleHead => Refusal::StaleHead,
        AbortReason::GrantEnded => Refusal::BudgetExceeded,
    };
    let text = match reason {
        AbortReason::Withdrawn => {
            format!("refused withdrawn: the intent was taken back (position {position})")
        }
        _ => format!("refused {refusal} (position {position})"),
    };
    Failure::new(ExitCode::Refused, text).hint(refusal.hint())
}

/// Takes an intent back that was not committed in time.
///
/// # Errors
/// [`ExitCode::Indeterminate`] if nobody knows whether it is taken back, or if COMMIT was faster.
pub(crate) async fn withdraw(
    client: &Client,
    signer: &Signer,
    watch: &Watch<'_>,
) -> Result<(), Failure> {
    let intent = watch.intent();
    let event = EventId(random());
    let withdrawal = WithdrawalV1 {
        intent_digest: intent,
        reason: Text::lossy("no COMMIT in time"),
    };
    let submitted = client
        .submit_stamped(signer, event, WITHDRAWAL_TTL_MS, |stamp| {
            signer.withdraw(stamp, event, &withdrawal)
        })
        .await;
    let resume = format!("go on with redlatch land … --intent {intent}");
    match submitted.map(|it| it.accepted()) {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(refusal)) => {
            let text = format!("indeterminate intent {intent} could not be taken back: {refusal}");
            Err(Failure::new(ExitCode::Indeterminate, text).hint(resume))
        }
        Err(error) => {
            let text = format!("indeterminate intent {intent} may still be committed: {error}");
            Err(Failure::new(ExitCode::Indeterminate, text).hint(resume))
        }
    }
}
