//! Reads: outcome by key, signed status, receipts, single leaves, the chain of rosters, resources.

use std::time::Duration;

use redlatch_link::world;
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_raft::engine::Engine;
use redlatch_types::event::Reply;
use redlatch_types::{Canonical, Envelope, EventId, IntentDigest, ResourceId, SubjectId};
use tonic::Status;

use super::{Desk, digest, submit};
use crate::answer;
use crate::view::{self, Question};

/// How long a node looks for a read point before it says that it has none.
const READ_POINT_DEADLINE: Duration = Duration::from_secs(2);
/// Most links of the chain of rosters in one answer, as `authority.proto` says.
const LINKS_MAX: usize = 64;

/// The first outcome under an idempotency key: live state first, then the archive.
pub(super) async fn outcome<E: Engine>(
    desk: &Desk<E>,
    request: v1::OutcomeRequest,
) -> Result<v1::OutcomeResponse, Status> {
    let subject: SubjectId = request
        .subject
        .parse()
        .map_err(|_| NoAnswer::Invalid.status("the subject is not a name"))?;
    let event = EventId(digest("event_id", &request.event_id)?);
    // "Unknown" is an answer as well: it must not come from a state that is behind.
    read_point(desk).await?;
    let live = desk.raft.read(|state| {
        let of_subject = state.authority.idempotency.get(&subject)?;
        of_subject.get(&event).map(|first| first.accepted.clone())
    });
    if let Some(accepted) = live {
        return Ok(v1::OutcomeResponse {
            reply: Some(Reply::Accepted(accepted).to_canonical()),
            position: None,
        });
    }
    let archived = submit::archived(desk, &subject, &event)?;
    Ok(v1::OutcomeResponse {
        reply: archived
            .as_ref()
            .map(|(accepted, _)| Reply::Accepted(accepted.clone()).to_canonical()),
        position: archived.map(|(_, position)| position),
    })
}

/// A signed status, after a read point and never without one (fault 19).
pub(super) async fn status<E: Engine>(
    desk: &Desk<E>,
    request: &v1::StatusRequest,
) -> Result<v1::StatusResponse, Status> {
    let question = Question {
        nonce: digest("nonce", &request.nonce)?,
        intent: request
            .intent_digest
            .as_deref()
            .map(|bytes| digest("intent_digest", bytes).map(IntentDigest))
            .transpose()?,
    };
    read_point(desk).await?;
    let node_id = desk.raft.node_id();
    let signed = desk.raft.read(|state| {
        let held = desk.held.scopes(&state.authority);
        let size = state.log.frontier.size();
        let status = view::status(&state.authority, size, node_id, question, &held)?;
        Some((state.authority.scope()?, status))
    });
    let (scope, status) =
        signed.ok_or_else(|| NoAnswer::Unavailable.status("the journal has no genesis yet"))?;
    let envelope = Envelope::seal(scope, &desk.record_key, &status);
    Ok(v1::StatusResponse {
        status: envelope.to_canonical(),
    })
}

pub(super) async fn read_point<E: Engine>(desk: &Desk<E>) -> Result<(), Status> {
    desk.raft
        .read_point(READ_POINT_DEADLINE)
        .await
        .map(drop)
        .map_err(answer::of_read_point)
}

/// The receipt of a leaf, waited for at most as long as asked.
pub(super) async fn receipt<E: Engine>(
    desk: &Desk<E>,
    request: v1::ReceiptRequest,
) -> Result<v1::ReceiptResponse, Status> {
    let at = selector(request.leaf)?;
    let wait = Duration::from_millis(request.wait_ms.into()).min(submit::RECEIPT_WAIT_MAX);
    let begun = world::Monotonic::now();
    let position = match world::timeout(wait, found(desk, &at)).await {
        Ok(position) => position?,
        Err(world::DeadlinePassed) => locate(desk, &at)?.ok_or_else(absent)?,
    };
    let left = wait.saturating_sub(begun.elapsed());
    let receipt = desk
        .raft
        .wait_receipt(position, left)
        .await
        .map_err(|error| answer::of_receipt(&error))?;
    Ok(v1::ReceiptResponse {
        receipt: receipt.to_string(),
    })
}

/// Waits until the leaf is in this node's journal: the caller may have been faster than its log.
async fn found<E: Engine>(desk: &Desk<E>, at: &v1::leaf_at::At) -> Result<u64, Status> {
    let mut places = desk.raft.watch_place();
    loop {
        places.borrow_and_update();
        if let Some(position) = locate(desk, at)? {
            return Ok(position);
        }
        if places.changed().await.is_err() {
            return Err(NoAnswer::Unavailable.status("this node is stopping"));
        }
    }
}

/// One leaf of this node's journal.
pub(super) fn leaf<E: Engine>(
    desk: &Desk<E>,
    request: v1::LeafRequest,
) -> Result<v1::JournalLeaf, Status> {
    let position = locate(desk, &selector(request.leaf)?)?.ok_or_else(absent)?;
    let leaf = desk
        .raft
        .leaf(position)
        .map_err(|fault| answer::of_storage(&fault))?
        .ok_or_else(absent)?;
    Ok(v1::JournalLeaf { position, leaf })
}

fn selector(leaf: Option<v1::LeafAt>) -> Result<v1::leaf_at::At, Status> {
    leaf.and_then(|leaf| leaf.at)
        .ok_or_else(|| NoAnswer::Invalid.status("no leaf is named"))
}

fn absent() -> Status {
    NoAnswer::Absent.status("no such leaf in this node's journal")
}

fn locate<E: Engine>(desk: &Desk<E>, at: &v1::leaf_at::At) -> Result<Option<u64>, Status> {
    match at {
        v1::leaf_at::At::Position(position) => {
            Ok((*position < desk.raft.place().size).then_some(*position))
        }
        v1::leaf_at::At::IndexKey(key) => desk
            .raft
            .find(key)
            .map_err(|fault| answer::of_storage(&fault)),
    }
}

/// The next links of the chain of rosters. A link that this node has not proven yet is not among them.
pub(super) fn rosters<E: Engine>(
    desk: &Desk<E>,
    request: &v1::RostersRequest,
) -> Result<v1::RostersResponse, Status> {
    let chain = desk.raft.chain();
    let chain = chain.map_err(|fault| answer::of_storage(&fault))?;
    // The genesis' roster is version 1, so the first link leads to version 2.
    let known = usize::try_from(request.after.saturating_sub(1)).unwrap_or(usize::MAX);
    let links = chain.iter().skip(known).take(LINKS_MAX);
    Ok(v1::RostersResponse {
        links: links.map(ToString::to_string).collect(),
    })
}

/// What a resource is at.
pub(super) async fn resource<E: Engine>(
    desk: &Desk<E>,
    request: &v1::ResourceRequest,
) -> Result<v1::ResourceResponse, Status> {
    let id = digest("resource_id", &request.resource_id).map(ResourceId)?;
    read_point(desk).await?;
    let known = desk
        .raft
        .read(|state| state.authority.resources.get(&id).cloned());
    Ok(known.map_or_else(v1::ResourceResponse::default, |known| {
        v1::ResourceResponse {
            head: known.head.map(|head| head.0),
            store_version: known.store_version,
            reserved_by: known.reserved_by.map(|id| id.0.0.to_vec()),
        }
    }))
}
