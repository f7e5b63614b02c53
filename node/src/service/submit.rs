//! Submit: role, admission, proposal, reply.

use std::ops::Range;
use std::time::Duration;

use redlatch_journal::EntryId;
use redlatch_journal::{Command, IndexKey, admit};
use redlatch_link::Role;
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1::{SubmitRequest, SubmitResponse};
use redlatch_raft::engine::Engine;
use redlatch_types::event::{Accepted, Event, Reply};
use redlatch_types::{Canonical, EventId, Refusal, SubjectId};
use tonic::Status;

use super::Desk;
use crate::answer;
use crate::ingress::{Kind, admits};

/// How long a command may wait for its outcome before its caller is told that it is not known.
const PROPOSE_DEADLINE: Duration = Duration::from_secs(10);
/// Longest wait for a receipt.
pub(super) const RECEIPT_WAIT_MAX: Duration = Duration::from_secs(60);

/// Takes a command to its reply.
pub(super) async fn submit<E: Engine>(
    desk: &Desk<E>,
    role: Role,
    request: SubmitRequest,
) -> Result<SubmitResponse, Status> {
    let SubmitRequest {
        command,
        receipt_wait_ms,
    } = request;
    let Some(kind) = Kind::peek(&command) else {
        return Ok(at_the_door(Refusal::NotCanonical));
    };
    if !admits(role, kind) {
        let text = format!("role {role} may not bring {kind:?}");
        return Err(NoAnswer::Denied.status(text));
    }
    // A bad command is refused without the journal; each replica admits it again for itself.
    let admitted = match admit(&command) {
        Ok(admitted) => admitted,
        Err(refusal) => return Ok(at_the_door(refusal)),
    };
    if let Command::LatchRed(segment) = &admitted {
        // Held before it is proposed: from here on this node says free no more (D2).
        desk.raft
            .read(|state| desk.held.hold(segment, &state.authority));
    }
    let origin = origin(&admitted);
    let committed = desk
        .raft
        .propose(kind.class(), command, PROPOSE_DEADLINE)
        .await
        .map_err(|error| answer::of_proposal(error, |id| desk.name_of(id)))?;
    if committed.outcome.reply == Err(Refusal::Expired)
        && let Some((subject, event)) = origin
        && let Some((first, position)) = archived(desk, &subject, &event)?
    {
        // The command is past its expiry, but it was carried out before: its first outcome.
        return Ok(response(Ok(first), None, position..position));
    }
    let mut answer = response(
        committed.outcome.reply,
        Some(committed.entry),
        committed.positions.clone(),
    );
    let wait = Duration::from_millis(receipt_wait_ms.into()).min(RECEIPT_WAIT_MAX);
    if !wait.is_zero() && !committed.positions.is_empty() {
        let last = committed.positions.end - 1;
        // Without a receipt in time the outcome is still an answer; the receipt can be asked for later.
        let receipt = desk.raft.wait_receipt(last, wait).await.ok();
        answer.receipt = receipt.map(|receipt| receipt.to_string());
    }
    Ok(answer)
}

/// The idempotency key of a client's command: whose it is follows from the envelope that it signed.
fn origin(command: &Command) -> Option<(SubjectId, EventId)> {
    let envelope = match command {
        Command::FreezeIntent(freeze) => freeze.envelope.record(),
        Command::Withdraw(withdraw) => withdraw.envelope.record(),
        Command::OpenChallenge(request) => request.envelope.record(),
        _ => return None,
    };
    Some((envelope.actor_id.clone(), envelope.event_id))
}

/// The first outcome of a command by the archive index, and its leaf's position.
pub(super) fn archived<E: Engine>(
    desk: &Desk<E>,
    subject: &SubjectId,
    event: &EventId,
) -> Result<Option<(Accepted, u64)>, Status> {
    let key = IndexKey::Origin(subject.clone(), *event).to_bytes();
    let storage = |fault| answer::of_storage(&fault);
    let Some(position) = desk.raft.find(&key).map_err(storage)? else {
        return Ok(None);
    };
    let leaf = desk.raft.leaf(position).map_err(storage)?;
    // A leaf that is missing or unreadable leaves the outcome unknown; it is never called refused.
    let accepted = leaf
        .and_then(|leaf| Event::from_canonical(&leaf).ok())
        .and_then(|event| first_outcome(&event))
        .ok_or_else(|| NoAnswer::Indeterminate.status("the archive cannot be read here"))?;
    Ok(Some((accepted, position)))
}

fn first_outcome(event: &Event) -> Option<Accepted> {
    match event {
        Event::Frozen(digest, ..) => Some(Accepted::Frozen(*digest)),
        Event::Withdrawn(digest, _) => Some(Accepted::Withdrawn(*digest)),
        Event::ChallengeIssued(id, ..) => Some(Accepted::ChallengeIssued(*id)),
        _ => None,
    }
}

fn at_the_door(refusal: Refusal) -> SubmitResponse {
    response(Err(refusal), None, 0..0)
}

fn response(
    reply: Result<Accepted, Refusal>,
    entry: Option<EntryId>,
    leaves: Range<u64>,
) -> SubmitResponse {
    SubmitResponse {
        reply: Reply::from(reply).to_canonical(),
        term: entry.map(|entry| entry.term),
        index: entry.map(|entry| entry.index),
        first_leaf: leaves.start,
        leaves: leaves.end - leaves.start,
        receipt: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_at_the_door_has_no_entry_and_no_leaf() {
        let answer = at_the_door(Refusal::BadSignature);
        let reply = Reply::from_canonical(&answer.reply).expect("canonical");
        assert_eq!(reply, Reply::Refused(Refusal::BadSignature));
        assert_eq!((answer.term, answer.index, answer.leaves), (None, None, 0));
    }
}
