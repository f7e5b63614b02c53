//! The read point (DESIGN §8, fault 19): a place in the log that no entry committed before the
//! question lies behind, confirmed by a majority and not by the leader alone.
//!
//! Every committed entry is durable on a majority, so the highest last log id of any majority is
//! at or above it; once this node has applied up to there, its state is not stale. A deposed or
//! isolated leader finds no majority and says nothing.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use redlatch_link::world;
use redlatch_proto::v1;
use tonic::Status;

use crate::config::LogId;
use crate::engine::Engine;
use crate::links::call;
use crate::machine::Place;
use crate::membership::Seats;
use crate::shared::Shared;
use crate::wire;

const ANSWER_DEADLINE: Duration = Duration::from_millis(500);

/// Proof that what is read after it is not older than its request. Only
/// [`crate::node::RaftNode::read_point`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadPoint {
    /// What was applied when the point was reached.
    pub place: Place,
}

/// Why there is no read point. Nothing may be called free on the strength of this node's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadPointError {
    /// Too few nodes answered.
    #[error("no majority answered")]
    NoMajority,
    /// The state did not get there in time.
    #[error("the state is behind the read point")]
    Behind,
}

/// Finds the point and waits for the state to reach it, both within `deadline`.
pub(crate) async fn reach<E: Engine>(
    shared: &Shared<E>,
    deadline: Duration,
) -> Result<ReadPoint, ReadPointError> {
    if shared.raft().is_err() {
        return Err(ReadPointError::NoMajority);
    }
    let started = world::Monotonic::now();
    let target = world::timeout(deadline, confirmed(shared))
        .await
        .unwrap_or(Err(ReadPointError::NoMajority))?;
    let left = deadline.saturating_sub(started.elapsed());
    let mut places = shared.machine.watch_place();
    let reached = world::timeout(left, places.wait_for(|place| place.log_id() >= target)).await;
    match reached {
        // A process that slept finds answers waiting that were true before it slept (fault 74).
        Ok(Ok(_)) if started.elapsed() > deadline => Err(ReadPointError::Behind),
        Ok(Ok(place)) => Ok(ReadPoint { place: *place }),
        Ok(Err(_)) | Err(_) => Err(ReadPointError::Behind),
    }
}

/// The highest last log id among a majority of voters. This node counts if it is a voter.
async fn confirmed<E: Engine>(shared: &Shared<E>) -> Result<Option<LogId>, ReadPointError> {
    let seats = Seats::of(&shared.known_roster());
    let mut calls: FuturesUnordered<_> = shared
        .links
        .peers()
        .into_iter()
        .filter(|peer| seats.voters.contains(peer))
        .map(|peer| one(shared, peer))
        .collect();
    let mut heard = usize::from(shared.machine.counts());
    let mut highest = shared.log_store.durable().last;
    while heard < seats.majority() {
        match calls.next().await {
            None => return Err(ReadPointError::NoMajority),
            Some(Err(status)) => tracing::debug!(%status, "no answer for a read point"),
            Some(Ok(last)) => {
                highest = highest.max(last);
                heard += 1;
            }
        }
    }
    Ok(highest)
}

async fn one<E: Engine>(shared: &Shared<E>, peer: u64) -> Result<Option<LogId>, Status> {
    let mut client = shared.links.control(peer)?;
    let message = v1::ReadPointRequest { sender: shared.own };
    let answer = call(ANSWER_DEADLINE, message, |request| async move {
        client.read_point(request).await
    })
    .await?;
    Ok(answer.last_log_id.map(wire::log_id_in))
}
