//! Calls to the other nodes: two links per peer, so that snapshots and leaves never stand in front
//! of heartbeats and votes (fault 93), and a deadline on every outstanding call.
//!
//! A clogged link does not report an error by itself; without the deadline a call on it would
//! hang for ever.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use redlatch_link::identity::{PeerIdentity, Role};
use redlatch_link::transport::{Dialer, Link, TransportError};
use redlatch_link::world;
use redlatch_proto::v1;
use redlatch_types::records::RosterV1;
use redlatch_types::{NodeId, OrganismId};
use tonic::{Request, Response, Status};

use crate::snapshot::PART_BYTES;

/// A client of one peer.
pub type Client = redlatch_link::client_type!(v1::peer_client::PeerClient);

/// Most bytes of one message between nodes: an append of [`crate::network::APPEND_BYTES_MAX`] and
/// one entry of 1 MiB more, with room for the rest.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Why a peer cannot be called at all.
#[derive(Debug, thiserror::Error)]
pub enum PeerAddressError {
    /// The configuration names no address for a node of the roster.
    #[error("no address for node {0}")]
    Missing(NodeId),
    /// The address cannot be dialled.
    #[error("address of node {node}: {source}")]
    Unusable {
        /// Whose address.
        node: NodeId,
        /// Why not.
        source: TransportError,
    },
    /// The roster's name cannot stand in an identity.
    #[error("name of node {0} cannot stand in a certificate")]
    Name(NodeId),
}

/// Links to every other node.
#[derive(Debug)]
pub struct Links(BTreeMap<u64, PeerLinks>);

#[derive(Debug)]
struct PeerLinks {
    /// Appends, votes, readings, heads, read points.
    control: Link,
    /// Snapshots and leaves.
    bulk: Link,
}

impl Links {
    /// Links to the roster's nodes other than `own`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`PeerAddressError`].
    pub fn new(
        own: u64,
        organism: OrganismId,
        roster: &RosterV1,
        addresses: &BTreeMap<NodeId, String>,
        dialer: &Dialer,
    ) -> Result<Links, PeerAddressError> {
        let mut links = BTreeMap::new();
        for node in roster.nodes.iter().filter(|node| node.node_id.0 != own) {
            let id = node.node_id;
            let address = addresses.get(&id).ok_or(PeerAddressError::Missing(id))?;
            let identity = PeerIdentity::new(organism, Role::Node, node.name.as_str())
                .map_err(|_| PeerAddressError::Name(id))?;
            let link = || {
                dialer
                    .channel(address, &identity)
                    .map_err(|source| PeerAddressError::Unusable { node: id, source })
            };
            links.insert(
                id.0,
                PeerLinks {
                    control: link()?,
                    bulk: link()?,
                },
            );
        }
        Ok(Links(links))
    }

    /// Every peer there is a link to, ascending.
    pub fn peers(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.keys().copied()
    }

    /// A client for short calls.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is no such peer.
    pub fn control(&self, peer: u64) -> Result<Client, Status> {
        self.0
            .get(&peer)
            .map(|links| client(&links.control))
            .ok_or_else(unknown)
    }

    /// A client for long transfers.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is no such peer.
    pub fn bulk(&self, peer: u64) -> Result<Client, Status> {
        self.0
            .get(&peer)
            .map(|links| client(&links.bulk))
            .ok_or_else(unknown)
    }
}

fn unknown() -> Status {
    Status::not_found("no link to that node")
}

fn client(link: &Link) -> Client {
    const { assert!(PART_BYTES < MESSAGE_BYTES_MAX) };
    v1::peer_client::PeerClient::with_interceptor(link.channel(), link.introduction())
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// Makes one call and waits for its answer at most `deadline`.
///
/// # Errors
/// The peer's status, or `DEADLINE_EXCEEDED`.
pub async fn call<T, Q, F>(
    deadline: Duration,
    message: Q,
    call: impl FnOnce(Request<Q>) -> F,
) -> Result<T, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let mut request = Request::new(message);
    // The server may stop as well; the local deadline is the one that holds.
    request.set_timeout(deadline);
    match world::timeout(deadline, call(request)).await {
        Ok(answer) => answer.map(Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("the peer did not answer in time")),
    }
}
