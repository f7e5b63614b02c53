//! How far the decision on an intent came, for people and for a client that waits.
//!
//! ```text
//!   journaled decision ─▶ any node: votes from the leaf, findings from the verifiers
//!   undecided          ─▶ the leader alone: what its coordinator remembers, and what it waits for
//! ```
//!
//! Unproven throughout: what counts is the journal and its receipts.

use redlatch_journal::authority::{IntentStage, TransactionStage};
use redlatch_journal::{Authority, IndexKey};
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_raft::engine::Engine;
use redlatch_types::event::Event;
use redlatch_types::records::{AgentQuorumDecisionV1, AuthorityVariant, Verdict};
use redlatch_types::{Canonical, Digest, IntentDigest, VerifierId};
use tonic::Status;

use super::{Desk, digest};
use crate::answer;
use crate::coordinator::{findings_of, of_counted, persons_required};

/// What is known of the decision on an intent.
pub(super) async fn progress<E: Engine>(
    desk: &Desk<E>,
    request: &v1::ProgressRequest,
) -> Result<v1::ProgressResponse, Status> {
    let intent = IntentDigest(digest("intent_digest", &request.intent_digest)?);
    let live = desk.raft.read(|state| stage(&state.authority, &intent));
    let stage = match live {
        Some(stage) => stage,
        None => gone(desk, &intent)?,
    };
    let remembered = desk.progress.of(&intent).filter(|_| desk.raft.leads());
    let decision = decision(desk, &intent)?;
    let mut shown = match (remembered, decision) {
        (Some(remembered), _) => remembered,
        (None, Some(decision)) => of_decision(desk, &decision).await,
        (None, None) if stage == "frozen" && !desk.raft.leads() => {
            let leader = desk.raft.leader().and_then(|id| desk.name_of(id));
            return Err(NoAnswer::not_leader(leader.as_deref()));
        }
        (None, None) => v1::ProgressResponse::default(),
    };
    shown.stage = stage.to_owned();
    shown.notes.extend(awaited(desk, &intent));
    Ok(shown)
}

/// What an undecided intent waits for that somebody has to bring.
fn awaited<E: Engine>(desk: &Desk<E>, intent: &IntentDigest) -> Option<String> {
    let (variant, required) = desk.raft.read(|state| {
        let live = state.authority.intents.get(intent)?;
        let frozen = live.stage == IntentStage::Frozen;
        frozen.then(|| {
            let variant = live.intent.required_authority_variant;
            (variant, persons_required(&state.authority))
        })
    })?;
    match variant {
        AuthorityVariant::Human => {
            let persons = desk.support().persons(intent);
            Some(format!(
                "{persons} of {required} persons approve: redlatch approve {intent}"
            ))
        }
        AuthorityVariant::Policy => {
            let receipts = desk.support().receipts(intent).len();
            Some(format!("{receipts} gate receipts are here for the policy"))
        }
        AuthorityVariant::AgentQuorum => None,
    }
}

/// Where a live intent stands.
fn stage(authority: &Authority, intent: &IntentDigest) -> Option<&'static str> {
    Some(match &authority.intents.get(intent)?.stage {
        IntentStage::Frozen => "frozen",
        IntentStage::Authorized(_) => "authorized",
        IntentStage::InTransaction(id) => match &authority.transactions.get(id)?.stage {
            TransactionStage::Prepared => "prepared",
            TransactionStage::Committed(..) => "committed",
        },
    })
}

/// Where an intent stands that is no longer live: it ended, or ran its course.
fn gone<E: Engine>(desk: &Desk<E>, intent: &IntentDigest) -> Result<&'static str, Status> {
    let find = |key: IndexKey| {
        let found = desk.raft.find(&key.to_bytes());
        found.map_err(|fault| answer::of_storage(&fault))
    };
    if find(IndexKey::Frozen(*intent))?.is_none() {
        return Err(NoAnswer::Absent.status("no such intent in this node's journal"));
    }
    let ended = find(IndexKey::Ended(*intent))?.is_some();
    Ok(if ended { "ended" } else { "closed" })
}

/// The journaled decision on an intent and its verdict.
fn decision<E: Engine>(
    desk: &Desk<E>,
    intent: &IntentDigest,
) -> Result<Option<AgentQuorumDecisionV1>, Status> {
    let storage = |fault| answer::of_storage(&fault);
    let key = IndexKey::Authorized(*intent).to_bytes();
    let Some(position) = desk.raft.find(&key).map_err(storage)? else {
        return Ok(None);
    };
    let leaf = desk.raft.leaf(position).map_err(storage)?;
    Ok(
        leaf.and_then(|leaf| match Event::from_canonical(&leaf).ok()? {
            Event::Authorized(it) => {
                AgentQuorumDecisionV1::from_canonical(&it.quorum()?.decision.body.0).ok()
            }
            _ => None,
        }),
    )
}

/// The votes of a decision, with the findings that the verifiers still have.
async fn of_decision<E: Engine>(
    desk: &Desk<E>,
    decision: &AgentQuorumDecisionV1,
) -> v1::ProgressResponse {
    let counted = &decision.signed_votes_dissents;
    let votes: Vec<(VerifierId, Digest)> = counted
        .iter()
        .map(|it| (it.verifier_id.clone(), it.findings_digest))
        .collect();
    let findings = match desk.parties.get() {
        Some(parties) => findings_of(parties, &votes).await,
        None => Default::default(),
    };
    v1::ProgressResponse {
        // Nothing is decided without a GREEN.
        verdict: Verdict::Green.to_string(),
        votes: counted
            .iter()
            .map(|it| of_counted(it, findings.get(&it.verifier_id)))
            .collect(),
        ..v1::ProgressResponse::default()
    }
}
