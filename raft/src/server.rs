//! The peer service: every call of `peer.proto`, answered by one node.
//!
//! Each method first proves the sender, then checks what openraft would only assert. `Hello` is
//! answered from the table on disk, also before this node's own Raft runs; everything else waits
//! for that. What may be promised is recorded before it is sent (D9).

use std::sync::Arc;
use std::time::Duration;

use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest};
use openraft::{LogIdOptionExt, ServerState};
use redlatch_link::identity::Role;
use redlatch_link::server_type;
use redlatch_link::world;
use redlatch_proto::v1;
use redlatch_proto::v1::peer_server::{Peer, PeerServer};
use redlatch_types::command::RawCommand;
use redlatch_types::limits::COMMAND_BYTES_MAX;
use redlatch_types::records::{ClockReadingV1, RejoinV1};
use redlatch_types::{Canonical, Envelope, NodeId, RosterEpoch, Scope, TickNumber};
use tonic::{Request, Response, Status, Streaming};

use crate::archive::Archive;
use crate::chain;
use crate::config::{Entry, LogId, Raft, Snapshot, TypeConfig, Vote};
use crate::engine::Engine;
use crate::links::MESSAGE_BYTES_MAX;
use crate::planted::Bug;
use crate::proposer::Class;
use crate::rejoin::Since;
use crate::shared::Shared;
use crate::snapshot::{self, SNAPSHOT_BYTES_MAX};
use crate::{entry, wire};

/// How long a peer may pause inside a snapshot.
const PART_DEADLINE: Duration = Duration::from_secs(10);

/// Pause before an append is answered of which nothing was taken, so that the leader's immediate
/// retry does not spin.
const NOTHING_TAKEN_PAUSE: Duration = Duration::from_millis(50);

/// Bytes of leaves in one answer.
const LEAVES_BYTES_MAX: usize = 1 << 20;

/// How long the journal may take to take in a return.
const REJOIN_DEADLINE: Duration = Duration::from_secs(2);

/// Links in one answer.
const LINKS_MAX: usize = 1_024;

/// Heads in one message.
pub(crate) const HEADS_MAX: usize = 64;

/// Answers peers.
#[derive(Debug)]
pub struct PeerService<E> {
    shared: Arc<Shared<E>>,
}

impl<E: Engine> PeerService<E> {
    /// The service of a node, with its limits.
    pub(crate) fn server(shared: Arc<Shared<E>>) -> server_type!(PeerServer<Self>) {
        PeerServer::new(Self { shared })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    async fn take(
        &self,
        rpc: AppendEntriesRequest<TypeConfig>,
    ) -> Result<AppendEntriesResponse<u64>, Status> {
        let mut rpc = rpc;
        let (vote, previous) = (rpc.vote, rpc.prev_log_id);
        let applied = self.shared.machine.place().entry.map(|entry| entry.index);
        let now = self.shared.membership();
        let passing = self.shared.seats().passing(&now, applied, &rpc.entries);
        let cut = passing < rpc.entries.len();
        rpc.entries.truncate(passing);
        let reached = rpc.entries.last().map(|entry| entry.log_id).or(previous);
        let response = self
            .shared
            .raft()?
            .append_entries(rpc)
            .await
            .map_err(stopped)?;
        let acknowledged = match &response {
            AppendEntriesResponse::Success => reached,
            AppendEntriesResponse::PartialSuccess(matching) => *matching,
            AppendEntriesResponse::Conflict => None,
            AppendEntriesResponse::HigherVote(higher) => {
                self.shared.memory.promise(higher, None);
                return Ok(response);
            }
        };
        self.shared.memory.promise(&vote, acknowledged.as_ref());
        if response.is_success() && cut {
            if passing == 0 {
                world::sleep(NOTHING_TAKEN_PAUSE).await;
            }
            return Ok(AppendEntriesResponse::PartialSuccess(reached));
        }
        Ok(response)
    }

    /// A leader's vote is committed and its own; two leaders of one term cannot be.
    fn check_leader(&self, sender: u64, vote: &Vote) -> Result<(), Status> {
        if !vote.committed || vote.leader_id.voted_for != Some(sender) {
            return Err(Status::permission_denied("the vote is not the sender's"));
        }
        let stored = self.shared.log_store.durable().vote;
        let other_leader = stored.is_some_and(|stored| {
            stored.committed
                && stored.leader_id.term == vote.leader_id.term
                && stored.leader_id != vote.leader_id
        });
        if other_leader {
            return Err(Status::failed_precondition("this term has another leader"));
        }
        Ok(())
    }

    async fn collect(
        &self,
        parts: &mut Streaming<v1::SnapshotPart>,
        length: u64,
    ) -> Result<Vec<u8>, Status> {
        if length > SNAPSHOT_BYTES_MAX {
            return Err(Status::resource_exhausted("the snapshot is too long"));
        }
        let mut bytes = Vec::new();
        loop {
            let part = next(parts).await?;
            bytes.extend_from_slice(&part.data);
            if bytes.len() as u64 > length {
                return Err(Status::invalid_argument(
                    "the snapshot is longer than it said",
                ));
            }
            if part.done {
                break;
            }
        }
        if bytes.len() as u64 != length {
            return Err(Status::invalid_argument(
                "the snapshot is shorter than it said",
            ));
        }
        Ok(bytes)
    }
}

async fn next(parts: &mut Streaming<v1::SnapshotPart>) -> Result<v1::SnapshotPart, Status> {
    match world::timeout(PART_DEADLINE, parts.message()).await {
        Err(_) => Err(Status::deadline_exceeded("the snapshot paused too long")),
        Ok(part) => part?.ok_or_else(|| Status::invalid_argument("the snapshot ended early")),
    }
}

#[tonic::async_trait]
impl<E: Engine> Peer for PeerService<E> {
    async fn append(
        &self,
        request: Request<v1::AppendRequest>,
    ) -> Result<Response<v1::AppendResponse>, Status> {
        let sender = self.shared.sender(&request, request.get_ref().sender)?;
        let message = request.into_inner();
        let vote = wire::vote_in(message.vote)?;
        self.check_leader(sender, &vote)?;
        self.shared.receives()?;
        let prev_log_id = message.previous.map(wire::log_id_in);
        let entries = entries_in(&message.entries, prev_log_id, &vote)?;
        // Before the append, so that its fsync covers the rows.
        self.shared.absorb(message.rows)?;
        let leader_commit = message.committed.map(wire::log_id_in);
        let rpc = AppendEntriesRequest {
            vote,
            prev_log_id,
            entries,
            leader_commit,
        };
        let response = self.take(rpc).await?;
        let table = self.shared.memory.table();
        Ok(Response::new(wire::append_response_out(&response, &table)))
    }

    async fn vote(
        &self,
        request: Request<v1::VoteRequest>,
    ) -> Result<Response<v1::VoteResponse>, Status> {
        let sender = self.shared.sender(&request, request.get_ref().sender)?;
        let message = request.into_inner();
        let vote = wire::vote_in(message.vote)?;
        if vote.committed || vote.leader_id.voted_for != Some(sender) {
            return Err(Status::permission_denied("the vote is not the sender's"));
        }
        if !self.shared.elects(sender) {
            return Err(Status::permission_denied("the sender is no voter"));
        }
        if !self.shared.may_vote() {
            return Err(Status::failed_precondition("this node has no vote"));
        }
        let last_log_id = message.last_log_id.map(wire::log_id_in);
        let rpc = VoteRequest { vote, last_log_id };
        let mut response = self.shared.raft()?.vote(rpc).await.map_err(stopped)?;
        let same_term = response.vote.leader_id.term == vote.leader_id.term;
        if same_term && response.last_log_id <= last_log_id && Bug::VoteGivenTwice.planted() {
            (response.vote, response.vote_granted) = (vote, true);
        }
        self.shared.memory.promise(&response.vote, None);
        Ok(Response::new(v1::VoteResponse {
            vote: Some(wire::vote_out(&response.vote)),
            granted: response.vote_granted,
            last_log_id: response.last_log_id.as_ref().map(wire::log_id_out),
            rows: wire::rows_out(&self.shared.memory.table()),
        }))
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<v1::SnapshotPart>>,
    ) -> Result<Response<v1::SnapshotResponse>, Status> {
        // Any node may be checked before the header is there: the number comes with it.
        let caller = redlatch_link::transport::caller(&request)?;
        let mut parts = request.into_inner();
        let header = next(&mut parts)
            .await?
            .header
            .ok_or(wire::Malformed("no header"))?;
        self.shared.is_node(&caller, header.sender)?;
        let vote = wire::vote_in(header.vote)?;
        self.check_leader(header.sender, &vote)?;
        let raft = self.shared.receives()?;
        let meta = snapshot::meta_in(&header)?;
        let bytes = self.collect(&mut parts, header.length).await?;
        if meta.last_log_id > self.shared.machine.place().log_id() {
            self.shared
                .machine
                .prove(&meta, &bytes)
                .map_err(|error| Status::failed_precondition(error.to_string()))?;
        }
        let snapshot = Snapshot {
            meta,
            snapshot: Box::new(bytes),
        };
        let response = raft
            .install_full_snapshot(vote, snapshot)
            .await
            .map_err(stopped)?;
        self.shared.memory.promise(&response.vote, None);
        let vote = Some(wire::vote_out(&response.vote));
        Ok(Response::new(v1::SnapshotResponse { vote }))
    }

    async fn hello(
        &self,
        request: Request<v1::HelloRequest>,
    ) -> Result<Response<v1::HelloResponse>, Status> {
        self.shared.sender(&request, request.get_ref().sender)?;
        if !self.shared.machine.speaks() {
            // It has forgotten what it knew of others, too: its answer would count for a memory.
            return Err(Status::failed_precondition("this node has lost its disk"));
        }
        let (organism_epoch, roster_epoch) = self.shared.epochs();
        Ok(Response::new(v1::HelloResponse {
            rows: wire::rows_out(&self.shared.memory.table()),
            roster_epoch: roster_epoch.0,
            organism_epoch,
        }))
    }

    async fn rejoin(
        &self,
        request: Request<v1::RejoinRequest>,
    ) -> Result<Response<v1::RejoinResponse>, Status> {
        let sender = self.shared.sender(&request, request.get_ref().sender)?;
        let index = self
            .shared
            .journal_rejoin(sender, request.into_inner().command)
            .await?;
        Ok(Response::new(v1::RejoinResponse { index }))
    }

    async fn chain(
        &self,
        request: Request<v1::ChainRequest>,
    ) -> Result<Response<v1::ChainResponse>, Status> {
        // Any node of the organism: one that is to join is in no roster that it could be known by.
        let caller = redlatch_link::transport::caller(&request)?;
        if caller.role != Role::Node || caller.organism != self.shared.organism {
            return Err(Status::permission_denied("the caller is no node"));
        }
        let links = chain::links(self.shared.log_store.engine()).map_err(unreadable)?;
        let links = links.iter().map(|link| link.to_string().into_bytes());
        Ok(Response::new(v1::ChainResponse {
            links: links.take(LINKS_MAX).collect(),
        }))
    }

    async fn reading(
        &self,
        request: Request<v1::ReadingRequest>,
    ) -> Result<Response<v1::ReadingResponse>, Status> {
        self.shared.sender(&request, request.get_ref().sender)?;
        self.shared.raft()?;
        let message = request.get_ref();
        let previous = TickNumber(message.previous_tick);
        let envelope = self
            .shared
            .clock_reading(RosterEpoch(message.roster_epoch), previous)
            .ok_or_else(|| Status::failed_precondition("not the roster or tick of this node"))?;
        Ok(Response::new(v1::ReadingResponse {
            reading: envelope.to_canonical(),
        }))
    }

    async fn heads(
        &self,
        request: Request<v1::HeadsRequest>,
    ) -> Result<Response<v1::HeadsResponse>, Status> {
        let sender = self.shared.sender(&request, request.get_ref().sender)?;
        let message = request.into_inner();
        if message.heads.len() > HEADS_MAX {
            return Err(Status::resource_exhausted("too many heads"));
        }
        let heads = message
            .heads
            .into_iter()
            .map(wire::head_in)
            .collect::<Result<Vec<_>, _>>()?;
        if heads.iter().any(|head| head.node != sender) {
            return Err(Status::permission_denied("a head is not the sender's"));
        }
        let from = heads.first().map_or(u64::MAX, |head| head.size);
        self.shared.cosigner.receive(heads);
        let heads = self
            .shared
            .cosigner
            .recent(from)
            .iter()
            .map(wire::head_out)
            .collect();
        Ok(Response::new(v1::HeadsResponse { heads }))
    }

    async fn leaves(
        &self,
        request: Request<v1::LeavesRequest>,
    ) -> Result<Response<v1::LeavesResponse>, Status> {
        self.shared.sender(&request, request.get_ref().sender)?;
        let message = request.get_ref();
        let engine = self.shared.log_store.engine();
        // Leaves of a gap are not proven yet; nothing unproven is handed on.
        let to = match self.shared.machine.gap() {
            Some(gap) if message.from < gap.to => gap.from.min(message.to),
            _ => message.to.min(self.shared.machine.place().size),
        };
        let leaves = Archive::new(engine.clone())
            .leaves(message.from, to, LEAVES_BYTES_MAX)
            .map_err(unreadable)?;
        Ok(Response::new(v1::LeavesResponse { leaves }))
    }

    async fn reds(
        &self,
        request: Request<v1::RedsRequest>,
    ) -> Result<Response<v1::RedsResponse>, Status> {
        self.shared.sender(&request, request.get_ref().sender)?;
        let command = request.into_inner().command;
        if command.len() > COMMAND_BYTES_MAX || !self.shared.forwarded.push(command) {
            return Err(Status::resource_exhausted("no room for more REDs now"));
        }
        Ok(Response::new(v1::RedsResponse {}))
    }

    async fn read_point(
        &self,
        request: Request<v1::ReadPointRequest>,
    ) -> Result<Response<v1::ReadPointResponse>, Status> {
        self.shared.sender(&request, request.get_ref().sender)?;
        // A node that its peers have not let start may have forgotten entries, and so may one that has
        // rejoined: it does not count.
        self.shared.raft()?;
        if !self.shared.machine.counts() {
            return Err(Status::failed_precondition("this node does not count"));
        }
        let durable = self.shared.log_store.durable();
        Ok(Response::new(v1::ReadPointResponse {
            vote: durable.vote.as_ref().map(wire::vote_out),
            last_log_id: durable.last.as_ref().map(wire::log_id_out),
            applied: self
                .shared
                .machine
                .place()
                .log_id()
                .as_ref()
                .map(wire::log_id_out),
        }))
    }
}

impl<E: Engine> Shared<E> {
    /// Openraft, for what a leader sends. A node whose return is not journaled takes nothing: its leader
    /// still remembers the log that it has lost.
    fn receives(&self) -> Result<&Raft, Status> {
        if self.rejoined.since() == Since::Unknown {
            return Err(Status::unavailable(
                "the return of this node is not journaled yet",
            ));
        }
        self.raft()
    }

    /// Whether this node grants votes: it elects, and the roster speaks of the disk it has.
    pub(crate) fn may_vote(&self) -> bool {
        self.elects(self.own) && self.machine.speaks()
    }

    /// Epochs of organism and roster.
    fn epochs(&self) -> (u64, RosterEpoch) {
        let organism = self.machine.read(|state| {
            let governance = state.authority.governance.as_ref();
            governance.map_or(1, |governance| governance.organism_epoch)
        });
        (organism, self.machine.roster().roster_epoch)
    }

    /// Journals the return of `sender` if this node leads. Says in which entry.
    async fn journal_rejoin(&self, sender: u64, command: Vec<u8>) -> Result<u64, Status> {
        let raft = self.raft()?;
        let about = match RawCommand::from_canonical(&command) {
            Ok(RawCommand::Rejoin(envelope)) => envelope.open::<RejoinV1>().ok(),
            _ => None,
        };
        if about.map(|signed| signed.record().node_id) != Some(NodeId(sender)) {
            return Err(Status::invalid_argument("not the sender's own return"));
        }
        let leads = raft.metrics().borrow().state == ServerState::Leader;
        let queues = self.queues.get().filter(|_| leads);
        let queues = queues.ok_or_else(|| Status::unavailable("this node does not lead"))?;
        let mut ticket = queues
            .admit(Class::Client, command)
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let committed = match world::timeout(REJOIN_DEADLINE, ticket.outcome()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ticket.give_up()),
        };
        let committed = committed.map_err(|error| Status::unavailable(error.to_string()))?;
        match committed.outcome.reply {
            Ok(_) => {
                // Before it is told: only from then on the node takes what it is sent. Whatever else
                // became of its command, it takes nothing, and nothing is to be remembered of it.
                self.renewed.add(sender);
                Ok(committed.entry.index)
            }
            Err(refusal) => Err(Status::failed_precondition(refusal.to_string())),
        }
    }

    /// A signed reading of this node's clock; `None` if this node does not count, or is asked for another
    /// roster, or for a tick that has passed.
    pub(crate) fn clock_reading(
        &self,
        roster_epoch: RosterEpoch,
        previous_tick: TickNumber,
    ) -> Option<Envelope> {
        if !self.machine.counts() {
            return None;
        }
        let (scope, epoch, tick) = self.machine.read(|state| {
            let governance = state.authority.governance.as_ref()?;
            let scope = Scope {
                organism_id: governance.organism_id,
                organism_epoch: governance.organism_epoch,
            };
            Some((
                scope,
                governance.roster.roster_epoch,
                state.authority.clock.tick,
            ))
        })?;
        if epoch != roster_epoch || previous_tick < tick {
            return None;
        }
        let reading = ClockReadingV1 {
            node_id: NodeId(self.own),
            roster_epoch,
            previous_tick,
            clock_ms: self.clock.now_ms(),
        };
        Some(Envelope::seal(scope, &self.keys.record, &reading))
    }
}

/// Decodes entries and checks what openraft asserts: consecutive, not above the leader's term.
fn entries_in(
    encoded: &[Vec<u8>],
    previous: Option<LogId>,
    vote: &Vote,
) -> Result<Vec<Entry>, Status> {
    let mut entries = Vec::with_capacity(encoded.len());
    let mut last = previous;
    for bytes in encoded {
        let entry =
            entry::decode(bytes).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let id = entry.log_id;
        let follows = id.index == last.next_index() && last.is_none_or(|last| last < id);
        if !follows || id.leader_id.term > vote.leader_id.term {
            return Err(Status::invalid_argument(
                "the entries are not a piece of one log",
            ));
        }
        last = Some(id);
        entries.push(entry);
    }
    Ok(entries)
}

fn stopped(error: impl std::fmt::Display) -> Status {
    Status::unavailable(format!("consensus has stopped: {error}"))
}

fn unreadable(fault: crate::engine::StorageFault) -> Status {
    Status::unavailable(fault.to_string())
}

#[cfg(test)]
mod tests {
    use openraft::{CommittedLeaderId, EntryPayload};

    use super::*;

    fn id(term: u64, index: u64) -> LogId {
        LogId::new(CommittedLeaderId::new(term, 0), index)
    }

    #[test]
    fn only_a_piece_of_one_log_reaches_openraft() {
        let vote = Vote::new_committed(3, 1);
        let blank = |term, index| {
            entry::encode(&Entry {
                log_id: id(term, index),
                payload: EntryPayload::Blank,
            })
        };
        let fits = |entries: &[Vec<u8>], previous| entries_in(entries, previous, &vote).is_ok();
        assert!(fits(&[], None));
        assert!(fits(&[blank(0, 0), blank(1, 1)], None));
        assert!(fits(&[blank(2, 8), blank(3, 9)], Some(id(2, 7))));
        assert!(!fits(&[blank(2, 9)], Some(id(2, 7))), "a hole");
        assert!(!fits(&[blank(1, 8)], Some(id(2, 7))), "an older term");
        assert!(
            !fits(&[blank(4, 8)], Some(id(2, 7))),
            "a later term than the leader's"
        );
        assert!(!fits(&[vec![1, 2, 3]], None), "no entry");
    }
}
