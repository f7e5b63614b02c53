//! openraft's outgoing calls over the links to the peers.
//!
//! An answer is held against the request before openraft sees it, because openraft asserts what a
//! broken or hostile peer could violate. Entries go out in the encoding of the log.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use openraft::error::{
    Fatal, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, OptionalSend, RaftLogId};
use redlatch_proto::v1;
use tonic::Status;

use crate::config::{LogId, Snapshot, TypeConfig, Vote};
use crate::engine::Engine;
use crate::entry;
use crate::links::call;
use crate::shared::Shared;
use crate::snapshot;
use crate::wire;

/// Bytes of entries in one append after which no further entry is added.
pub const APPEND_BYTES_MAX: usize = 2 << 20;

/// Pause after a peer could not be reached.
const BACKOFF: Duration = Duration::from_millis(200);

/// A snapshot must arrive at no less than this rate, beside a fixed allowance.
const SNAPSHOT_BYTES_PER_SECOND_MIN: u64 = 1 << 20;
const SNAPSHOT_ALLOWANCE: Duration = Duration::from_secs(20);

type CallError = RPCError<u64, EmptyNode, RaftError<u64>>;

/// Makes the per-peer networks.
#[derive(Debug)]
pub struct Network<E> {
    shared: Arc<Shared<E>>,
}

impl<E: Engine> Network<E> {
    /// The network of this node.
    pub(crate) fn new(shared: Arc<Shared<E>>) -> Self {
        Self { shared }
    }
}

impl<E: Engine> RaftNetworkFactory<TypeConfig> for Network<E> {
    type Network = Outgoing<E>;

    async fn new_client(&mut self, target: u64, _: &EmptyNode) -> Outgoing<E> {
        Outgoing {
            shared: Arc::clone(&self.shared),
            target,
        }
    }
}

/// Calls to one peer.
#[derive(Debug)]
pub struct Outgoing<E> {
    shared: Arc<Shared<E>>,
    target: u64,
}

impl<E: Engine> RaftNetwork<TypeConfig> for Outgoing<E> {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, CallError> {
        self.shared
            .is_known_disk(self.target)
            .map_err(unreachable)?;
        let (entries, sent) = prefix(&rpc);
        // openraft flushes the leader's own log before it replicates, so what is sent is what
        // this node has made durable under its own vote.
        self.shared.memory.promise(&rpc.vote, sent.as_ref());
        let complete = entries.len() == rpc.entries.len();
        let message = v1::AppendRequest {
            sender: self.shared.own,
            vote: Some(wire::vote_out(&rpc.vote)),
            previous: rpc.prev_log_id.as_ref().map(wire::log_id_out),
            committed: rpc.leader_commit.as_ref().map(wire::log_id_out),
            entries,
            rows: wire::rows_out(&self.shared.memory.table()),
        };
        let mut client = self
            .shared
            .links
            .control(self.target)
            .map_err(unreachable)?;
        let answer = call(option.hard_ttl(), message, |request| async move {
            client.append(request).await
        })
        .await
        .map_err(unreachable)?;
        // It may have rejoined meanwhile, and then it was another disk that answered.
        self.shared
            .is_known_disk(self.target)
            .map_err(unreachable)?;
        self.shared.absorb(answer.rows).map_err(broken)?;
        let response =
            wire::append_response_in(answer.result).map_err(|error| broken(error.into()))?;
        check_append(&rpc, sent.as_ref(), &response).map_err(|why| broken(misbehaved(why)))?;
        Ok(match response {
            AppendEntriesResponse::Success if !complete => {
                AppendEntriesResponse::PartialSuccess(sent)
            }
            other => other,
        })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, CallError> {
        let message = v1::VoteRequest {
            sender: self.shared.own,
            vote: Some(wire::vote_out(&rpc.vote)),
            last_log_id: rpc.last_log_id.as_ref().map(wire::log_id_out),
        };
        let mut client = self
            .shared
            .links
            .control(self.target)
            .map_err(unreachable)?;
        let answer = call(option.hard_ttl(), message, |request| async move {
            client.vote(request).await
        })
        .await
        .map_err(unreachable)?;
        self.shared.absorb(answer.rows).map_err(broken)?;
        let vote = wire::vote_in(answer.vote).map_err(|error| broken(error.into()))?;
        Ok(VoteResponse {
            vote,
            vote_granted: answer.granted,
            last_log_id: answer.last_log_id.map(wire::log_id_in),
        })
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<TypeConfig, Fatal<u64>>> {
        self.shared
            .is_known_disk(self.target)
            .map_err(|status| gone(&status))?;
        let length = snapshot.snapshot.len() as u64;
        let deadline =
            SNAPSHOT_ALLOWANCE + Duration::from_secs(length / SNAPSHOT_BYTES_PER_SECOND_MIN);
        let parts = snapshot::parts(self.shared.own, &vote, snapshot);
        let mut client = self
            .shared
            .links
            .bulk(self.target)
            .map_err(|status| gone(&status))?;
        // The simulated transport goes on reading a request stream whose call was dropped; ending
        // the stream with the call ends that reader too.
        let (alive, ended) = tokio::sync::oneshot::channel::<()>();
        let parts = futures::stream::iter(parts).take_until(ended);
        let transfer = call(deadline, parts, |request| async move {
            client.snapshot(request).await
        });
        let answer = tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            answer = transfer => answer.map_err(|status| gone(&status)),
        };
        drop(alive);
        self.shared
            .is_known_disk(self.target)
            .map_err(|status| gone(&status))?;
        let vote = wire::vote_in(answer?.vote).map_err(|error| gone(&Status::from(error)))?;
        Ok(SnapshotResponse { vote })
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(BACKOFF))
    }
}

/// The encoded entries that fit in one append, and the last log id they reach.
fn prefix(rpc: &AppendEntriesRequest<TypeConfig>) -> (Vec<Vec<u8>>, Option<LogId>) {
    let mut entries = Vec::with_capacity(rpc.entries.len());
    let mut reached = rpc.prev_log_id;
    let mut bytes = 0;
    for entry in &rpc.entries {
        if bytes >= APPEND_BYTES_MAX {
            break;
        }
        let encoded = entry::encode(entry);
        bytes += encoded.len();
        entries.push(encoded);
        reached = Some(*entry.get_log_id());
    }
    (entries, reached)
}

/// Holds an answer against what openraft asserts about it.
fn check_append(
    rpc: &AppendEntriesRequest<TypeConfig>,
    sent: Option<&LogId>,
    response: &AppendEntriesResponse<u64>,
) -> Result<(), &'static str> {
    let fits = match response {
        AppendEntriesResponse::Success => true,
        AppendEntriesResponse::PartialSuccess(matching) => {
            let sent_ids = rpc.entries.iter().map(|entry| entry.log_id);
            *matching == rpc.prev_log_id
                || sent_ids
                    .take_while(|id| Some(id) <= sent)
                    .any(|id| Some(id) == *matching)
        }
        AppendEntriesResponse::Conflict => rpc.prev_log_id.is_some(),
        // A leader's vote is committed, so only a later term is higher.
        AppendEntriesResponse::HigherVote(vote) => vote.leader_id.term > rpc.vote.leader_id.term,
    };
    if fits {
        Ok(())
    } else {
        Err("the answer does not fit the append")
    }
}

fn misbehaved(why: &'static str) -> Status {
    Status::internal(why)
}

fn unreachable(status: Status) -> CallError {
    RPCError::Unreachable(Unreachable::new(&status))
}

fn broken(status: Status) -> CallError {
    RPCError::Network(NetworkError::new(&status))
}

fn gone(status: &Status) -> StreamingError<TypeConfig, Fatal<u64>> {
    StreamingError::Unreachable(Unreachable::new(status))
}

#[cfg(test)]
mod tests {
    use openraft::{CommittedLeaderId, EntryPayload};

    use super::*;
    use crate::batch::{Batch, BatchContent};
    use crate::config::Entry;

    fn id(term: u64, index: u64) -> LogId {
        LogId::new(CommittedLeaderId::new(term, 0), index)
    }

    fn request(count: u64, bytes: usize) -> AppendEntriesRequest<TypeConfig> {
        let batch = |index| {
            let commands = vec![vec![0; bytes]];
            let batch = Batch::new(&BatchContent {
                term: 3,
                leader: 1,
                commands,
            })
            .expect("fits");
            Entry {
                log_id: id(3, index),
                payload: EntryPayload::Normal(batch),
            }
        };
        AppendEntriesRequest {
            vote: Vote::new_committed(3, 1),
            prev_log_id: Some(id(2, 9)),
            entries: (10..10 + count).map(batch).collect(),
            leader_commit: None,
        }
    }

    #[test]
    fn an_append_is_cut_by_bytes_but_never_empty() {
        assert_eq!(prefix(&request(3, 10)).1, Some(id(3, 12)));
        assert_eq!(prefix(&request(5, 1 << 20)).1, Some(id(3, 11)));
        assert_eq!(prefix(&request(0, 0)), (vec![], Some(id(2, 9))));
    }

    #[test]
    fn answers_that_openraft_would_assert_on_are_refused() {
        let rpc = request(3, 10);
        let sent = prefix(&rpc).1;
        let check = |response| check_append(&rpc, sent.as_ref(), &response).is_ok();
        assert!(check(AppendEntriesResponse::PartialSuccess(Some(id(
            3, 11
        )))));
        assert!(check(AppendEntriesResponse::PartialSuccess(Some(id(2, 9)))));
        assert!(!check(AppendEntriesResponse::PartialSuccess(None)));
        assert!(!check(AppendEntriesResponse::PartialSuccess(Some(id(
            3, 99
        )))));
        assert!(!check(AppendEntriesResponse::HigherVote(
            Vote::new_committed(3, 2)
        )));
        assert!(check(AppendEntriesResponse::HigherVote(Vote::new(4, 2))));
        assert!(check(AppendEntriesResponse::Conflict));
    }
}
