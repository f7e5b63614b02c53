//! What a gate asks of the nodes: the proof of a COMMIT, its claim, fresh statuses, its report.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rand_core::RngCore;
use redlatch_journal::IndexKey;
use redlatch_link::nodes::{Again, CallError};
use redlatch_link::world::{self, Monotonic};
use redlatch_proto::v1::leaf_at::At;
use redlatch_types::checkpoint::Origin;
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::proven::ProvenEvent;
use redlatch_types::receipt::Receipt;
use redlatch_types::records::{
    CommitMarkerV1, EffectOutcomeV1, OutcomeKind, PositiveAuthorityTransactionV1, StatusV1, Text,
};
use redlatch_types::{
    Bytes, Canonical, Digest, Envelope, IntentDigest, NodeId, Refusal, Scope, Signed, TransactionId,
};

use super::config::Gate;
use super::core::binding::{Permit, bind};
use super::core::status::{Judgement, Question, Waiting, judge};
use super::core::update::Landing;
use super::refusal::{GateError, Refused};
use super::state::OpenClaim;

/// How long all nodes are waited for before a majority suffices (DESIGN §8).
const FOR_ALL: Duration = Duration::from_millis(250);
/// How long a leaf may be missing on a node that is behind.
const LEAF_WAIT: Duration = Duration::from_secs(1);
const LEAF_PAUSE: Duration = Duration::from_millis(50);

impl Gate {
    /// The proven authority for a move.
    ///
    /// # Errors
    /// [`GateError`].
    pub(crate) async fn permit(
        &self,
        landing: &Landing,
        asked: IntentDigest,
    ) -> Result<Permit, GateError> {
        let frozen = self.leaf(IndexKey::Frozen(asked)).await?;
        let Some(Event::Frozen(_, _, intent, _)) = frozen else {
            return Err(Refusal::UnknownIntent.into());
        };
        // Neither leaf is believed: the intent is known by its digest, the marker by its receipt.
        let authorized = self.leaf(IndexKey::Authorized(asked)).await?;
        let Some(Event::Authorized(authorized)) = authorized else {
            return Err(Refused::NotCommitted.into());
        };
        let id = PositiveAuthorityTransactionV1::id_of(&authorized.capability_id);
        let (origin, marker) = self.marker(id).await?;
        Ok(bind(&self.post, landing, asked, &intent, &origin, &marker)?)
    }

    /// The marker of a transaction, proven under this gate's policy.
    async fn marker(&self, id: TransactionId) -> Result<(Origin, CommitMarkerV1), GateError> {
        let at = At::IndexKey(IndexKey::Committed(id).to_bytes());
        if self.leaf(IndexKey::Committed(id)).await?.is_none() {
            return Err(Refused::NotCommitted.into());
        }
        let text = match self.nodes.receipt(at, self.deadline).await {
            Err(CallError::NotYet(_)) => return Err(Refused::NotProven.into()),
            other => other?,
        };
        let receipt = Receipt::parse(text.as_bytes()).map_err(|_| Refused::NotProven)?;
        let proven = ProvenEvent::of(&receipt, &self.policy).map_err(|_| Refused::NotProven)?;
        match proven.event() {
            Event::Committed(marker) => Ok((*proven.origin(), (**marker).clone())),
            _ => Err(Refused::NotProven.into()),
        }
    }

    /// A leaf, unproven; none if the node that answers has none for a while.
    pub(crate) async fn leaf(&self, key: IndexKey) -> Result<Option<Event>, GateError> {
        let begun = Monotonic::now();
        loop {
            let at = At::IndexKey(key.to_bytes());
            match self.nodes.leaf(at, self.deadline).await {
                Ok((_, bytes)) => return Ok(Event::from_canonical(&bytes).ok()),
                Err(CallError::Absent(_)) if begun.elapsed() < LEAF_WAIT => {
                    world::sleep(LEAF_PAUSE).await;
                }
                Err(CallError::Absent(_)) => return Ok(None),
                Err(other) => return Err(other.into()),
            }
        }
    }

    /// The scope that signatures are made in, as a node of the roster states it.
    ///
    /// # Errors
    /// [`GateError`].
    pub(crate) async fn scope(&self) -> Result<Scope, GateError> {
        let status = self.nodes.any_status(nonce(), self.deadline).await?;
        Ok(*status.scope())
    }

    /// Claims an effect and waits until the claim is applied.
    ///
    /// # Errors
    /// [`GateError::Refused`] with the journal's refusal: nothing may be made.
    pub(crate) async fn claim(&self, open: &OpenClaim) -> Result<(), GateError> {
        let scope = self.scope_of(open);
        let envelope = Envelope::seal(scope, self.key(), &open.claim);
        let accepted = self.submit(RawCommand::ClaimEffect(envelope)).await??;
        match accepted {
            Accepted::EffectClaimed(marker) if marker == open.claim.marker => Ok(()),
            _ => Err(Refused::NotOutstanding.into()),
        }
    }

    /// Reports how a claimed effect ended.
    ///
    /// # Errors
    /// [`GateError`] if there is no answer; a refusal is an answer.
    pub(crate) async fn report(
        &self,
        open: &OpenClaim,
        outcome: OutcomeKind,
        head: Vec<u8>,
    ) -> Result<Result<Accepted, Refusal>, GateError> {
        let record = EffectOutcomeV1 {
            transaction_id: open.claim.transaction_id,
            marker: open.claim.marker,
            claim_digest: Digest::of(&open.claim.to_canonical()),
            outcome,
            observed_head: Bytes(head),
            detail: Text::lossy("compared by the gate"),
        };
        let envelope = Envelope::seal(self.scope_of(open), self.key(), &record);
        self.submit(RawCommand::ReportOutcome(envelope)).await
    }

    fn scope_of(&self, open: &OpenClaim) -> Scope {
        Scope {
            organism_id: self.post.organism,
            organism_epoch: open.organism_epoch,
        }
    }

    /// Both commands are answered again as the first time (D3), so they may be sent again.
    async fn submit(&self, command: RawCommand) -> Result<Result<Accepted, Refusal>, GateError> {
        let bytes = command.to_canonical();
        let submitted = self
            .nodes
            .submit(&bytes, &Again::SameAnswer, self.deadline, Duration::ZERO)
            .await?;
        Ok(submitted.accepted())
    }

    /// Asks every voter and judges what they say. The answer is as old as the returned point, which lies
    /// before the question.
    ///
    /// # Errors
    /// [`GateError::Refused`] if one of them knows of a stop or a majority of nothing outstanding,
    /// [`GateError::Unavailable`] if too few answer in time.
    pub(crate) async fn fresh_status(
        &self,
        permit: &Permit,
        scope: &Scope,
    ) -> Result<Monotonic, GateError> {
        let asked = Monotonic::now();
        let nonce = nonce();
        let question = Question {
            token: permit.honoured.token,
            roster: self.roster().roster_epoch,
            majority: self.roster().majority(),
        };
        let mut open: FuturesUnordered<_> = self
            .voters
            .iter()
            .map(|(name, id)| self.ask(name, *id, nonce, permit.intent))
            .collect();
        let mut heard = BTreeMap::new();
        loop {
            let (waiting, span) = self.waiting(asked.elapsed(), open.is_empty());
            match judge(&question, &heard, waiting) {
                Judgement::Permit => return Ok(asked),
                Judgement::Deny(refused) => return Err(refused.into()),
                Judgement::TooFew => return Err(too_few(heard.len(), self.voters.len())),
                Judgement::Wait => {}
            }
            let Ok(Some((id, Ok(status)))) = world::timeout(span, open.next()).await else {
                continue;
            };
            if status.scope().organism_epoch > scope.organism_epoch {
                return Err(Refusal::WrongOrganism.into());
            }
            if status.record().node_id == id && status.scope() == scope {
                heard.insert(id, status.record().clone());
            }
        }
    }

    /// One voter's answer; the record key of exactly that voter signed it.
    async fn ask(
        &self,
        name: &str,
        id: NodeId,
        nonce: Digest,
        intent: IntentDigest,
    ) -> (NodeId, Result<Signed<StatusV1>, CallError>) {
        let status = self.nodes.status(name, nonce, Some(intent), self.freshness);
        (id, status.await)
    }

    /// Whom the gate still waits for, and how long.
    fn waiting(&self, elapsed: Duration, nobody_left: bool) -> (Waiting, Duration) {
        if nobody_left || elapsed >= self.freshness {
            (Waiting::Over, Duration::ZERO)
        } else if elapsed >= FOR_ALL {
            (Waiting::ForMajority, self.freshness - elapsed)
        } else {
            (Waiting::ForAll, FOR_ALL - elapsed)
        }
    }
}

fn too_few(heard: usize, voters: usize) -> GateError {
    GateError::Unavailable(format!(
        "status_missing: {heard} of {voters} nodes gave a fresh status that could be believed"
    ))
}

/// 32 fresh random bytes.
pub(crate) fn nonce() -> Digest {
    let mut bytes = [0; 32];
    world::rng().fill_bytes(&mut bytes);
    Digest(bytes)
}
