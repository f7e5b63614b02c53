//! The steps of one intent, as they are read back from the journal.

use std::time::Duration;

use redlatch_journal::IndexKey;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::nodes::CallError;
use redlatch_link::world::{self, Monotonic};
use redlatch_proto::v1;
use redlatch_proto::v1::leaf_at::At;
use redlatch_types::event::Event;
use redlatch_types::records::{
    AbortReason, OutcomeKind, PositiveAuthorityTransactionV1, Text, WithdrawalV1,
};
use redlatch_types::{Canonical, EventId, IntentDigest, MarkerNumber, Refusal, TransactionId};

use crate::client::{Client, Signer, random, refused};
use crate::output::note;

/// How long a withdrawal is accepted, in state time.
const WITHDRAWAL_TTL_MS: u64 = 60 * 1_000;
/// Pause before a leaf or a stream is asked for again.
const PAUSE: Duration = Duration::from_millis(100);

/// The marker, as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) transaction: TransactionId,
    pub(super) marker: MarkerNumber,
    pub(super) position: u64,
}

/// Follows the journal from an intent's freeze on.
pub(super) struct Watch<'a> {
    client: &'a Client,
    intent: IntentDigest,
    transaction: Option<TransactionId>,
    next: u64,
    stream: Option<tonic::Streaming<v1::JournalLeaf>>,
}

impl<'a> Watch<'a> {
    /// Finds where the intent was frozen.
    pub(super) async fn new(
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
            next,
            stream: None,
        })
    }

    pub(super) fn intent(&self) -> IntentDigest {
        self.intent
    }

    /// Reads on until the marker is there; `None` at `until`.
    ///
    /// # Errors
    /// [`Failure`] if the intent ended without one.
    pub(super) async fn committed(&mut self, until: Monotonic) -> Result<Option<Seen>, Failure> {
        while let Some((position, event)) = self.pull(until).await? {
            match event {
                Event::Committed(marker) if marker.intent_digest == self.intent => {
                    note(&format!(
                        "{position:>8}  committed       marker {}",
                        marker.marker
                    ));
                    return Ok(Some(Seen {
                        transaction: marker.transaction_id,
                        marker: marker.marker,
                        position,
                    }));
                }
                other => self.step(position, &other)?,
            }
        }
        Ok(None)
    }

    /// Reads on until the gate's report is there; `None` after `wait`.
    pub(super) async fn outcome(
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
    fn step(&mut self, position: u64, event: &Event) -> Result<(), Failure> {
        match event {
            Event::Frozen(digest, ..) if *digest == self.intent => {
                note(&format!("{position:>8}  frozen          intent {digest}"));
            }
            Event::Authorized(body) if body.decision.binding.intent_digest == self.intent => {
                let id = PositiveAuthorityTransactionV1::id_of(&body.capability_id);
                self.transaction = Some(id);
                let votes = body.votes.len();
                note(&format!(
                    "{position:>8}  authorized      GREEN, {votes} votes opened"
                ));
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

    /// The next leaf; `None` at `until`. A stream that ends is asked for again where it stopped.
    async fn pull(&mut self, until: Monotonic) -> Result<Option<(u64, Event)>, Failure> {
        loop {
            let left = until.since(Monotonic::now());
            if left.is_zero() {
                return Ok(None);
            }
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => {
                    let opened = self.client.nodes.journal(self.next, true, left).await;
                    match opened {
                        Ok(stream) => self.stream.insert(stream),
                        Err(CallError::Unavailable(_)) => {
                            world::sleep(PAUSE.min(left)).await;
                            continue;
                        }
                        Err(other) => return Err(other.into()),
                    }
                }
            };
            match world::timeout(left, stream.message()).await {
                Err(_) => return Ok(None),
                Ok(Ok(Some(leaf))) => {
                    self.next = leaf.position.saturating_add(1);
                    if let Ok(event) = Event::from_canonical(&leaf.leaf) {
                        return Ok(Some((leaf.position, event)));
                    }
                }
                Ok(_) => {
                    self.stream = None;
                    world::sleep(PAUSE.min(left)).await;
                }
            }
        }
    }
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
pub(super) async fn withdraw(
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
