//! Calls to the other nodes: two links per peer, so that snapshots and leaves never stand in front
//! of heartbeats and votes (fault 93), and a deadline on every outstanding call.
//!
//! A clogged link does not report an error by itself; without the deadline a call on it would
//! hang for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use redlatch_link::identity::{PeerIdentity, Role};
use redlatch_link::transport::{Dialer, Link, TransportError};
use redlatch_link::world;
use redlatch_proto::v1;
use redlatch_types::records::{RosterNode, RosterV1};
use redlatch_types::{Name, NodeId, OrganismId};
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

/// Links to every other node that this node has to do with: those of the roster, and those that
/// openraft has not let go yet. Addresses are this node's own configuration, by name: no journal
/// entry redirects a connection.
#[derive(Debug)]
pub struct Links {
    own: u64,
    organism: OrganismId,
    addresses: BTreeMap<String, String>,
    dialer: Dialer,
    peers: RwLock<BTreeMap<u64, PeerLinks>>,
    sessions: AtomicU64,
}

/// One time that a peer was taken up: by its number, until it is let go. A peer that comes back is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The peer.
    pub(crate) peer: u64,
    number: u64,
}

#[derive(Debug)]
struct PeerLinks {
    session: Session,
    /// The name in its certificate.
    name: Name,
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
        addresses: BTreeMap<String, String>,
        dialer: Dialer,
    ) -> Result<Links, PeerAddressError> {
        let links = Links {
            own,
            organism,
            addresses,
            dialer,
            peers: RwLock::default(),
            sessions: AtomicU64::new(0),
        };
        for node in roster.nodes.iter().filter(|node| node.node_id.0 != own) {
            let link = links.dial(node)?;
            links.write().insert(node.node_id.0, link);
        }
        Ok(links)
    }

    /// Takes up the nodes of a roster that followed, and lets go of those that neither it nor
    /// `kept` names. Says who is new, and why somebody cannot be called.
    pub(crate) fn follow(
        &self,
        roster: &RosterV1,
        kept: &BTreeSet<u64>,
    ) -> (Vec<Session>, Vec<PeerAddressError>) {
        let (mut new, mut failed) = (Vec::new(), Vec::new());
        for node in roster
            .nodes
            .iter()
            .filter(|node| node.node_id.0 != self.own)
        {
            let id = node.node_id.0;
            let known = self.read().get(&id).is_some_and(|it| it.name == node.name);
            if known {
                continue;
            }
            match self.dial(node) {
                Ok(link) => {
                    new.push(link.session);
                    self.write().insert(id, link);
                }
                Err(error) => failed.push(error),
            }
        }
        self.write()
            .retain(|id, _| roster.node(NodeId(*id)).is_some() || kept.contains(id));
        (new, failed)
    }

    /// Clients of every node that there is an address of, whoever it is in the roster.
    pub(crate) fn strangers(&self) -> Vec<(String, Client)> {
        let dial = |(name, address): (&String, &String)| {
            let identity = PeerIdentity::new(self.organism, Role::Node, name.as_str()).ok()?;
            let link = self.dialer.channel(address, &identity).ok()?;
            Some((name.clone(), client(&link)))
        };
        self.addresses.iter().filter_map(dial).collect()
    }

    fn dial(&self, node: &RosterNode) -> Result<PeerLinks, PeerAddressError> {
        let id = node.node_id;
        let address = self.addresses.get(node.name.as_str());
        let address = address.ok_or(PeerAddressError::Missing(id))?;
        let identity = PeerIdentity::new(self.organism, Role::Node, node.name.as_str())
            .map_err(|_| PeerAddressError::Name(id))?;
        let link = || {
            let channel = self.dialer.channel(address, &identity);
            channel.map_err(|source| PeerAddressError::Unusable { node: id, source })
        };
        let session = Session {
            peer: id.0,
            number: self.sessions.fetch_add(1, Ordering::Relaxed),
        };
        Ok(PeerLinks {
            session,
            name: node.name.clone(),
            control: link()?,
            bulk: link()?,
        })
    }

    /// Every peer there is a link to, ascending.
    pub fn peers(&self) -> Vec<u64> {
        self.read().keys().copied().collect()
    }

    /// Every peer there is a link to, each as it was taken up.
    pub(crate) fn sessions(&self) -> Vec<Session> {
        self.read().values().map(|links| links.session).collect()
    }

    /// Whether the peer has not been let go since.
    pub(crate) fn lasts(&self, session: Session) -> bool {
        let peers = self.read();
        let links = peers.get(&session.peer);
        links.is_some_and(|links| links.session == session)
    }

    /// Nodes of the roster that there is no link to.
    pub(crate) fn missing(&self, roster: &RosterV1) -> Vec<NodeId> {
        let peers = self.read();
        let others = roster.nodes.iter().map(|node| node.node_id);
        others
            .filter(|node| node.0 != self.own && !peers.contains_key(&node.0))
            .collect()
    }

    /// The name of a peer there is a link to.
    pub(crate) fn name(&self, peer: u64) -> Option<Name> {
        self.read().get(&peer).map(|links| links.name.clone())
    }

    /// A client for short calls.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is no such peer.
    pub fn control(&self, peer: u64) -> Result<Client, Status> {
        self.read()
            .get(&peer)
            .map(|links| client(&links.control))
            .ok_or_else(unknown)
    }

    /// A client for long transfers.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is no such peer.
    pub fn bulk(&self, peer: u64) -> Result<Client, Status> {
        self.read()
            .get(&peer)
            .map(|links| client(&links.bulk))
            .ok_or_else(unknown)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<u64, PeerLinks>> {
        // Whole values go in and out: a panic elsewhere leaves them usable.
        self.peers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, PeerLinks>> {
        self.peers.write().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(all(test, madsim))]
mod tests {
    use redlatch_link::transport::Credentials;
    use redlatch_types::records::{PinnedParty, Seat};
    use redlatch_types::{Digest, PublicKey, RosterEpoch};

    use super::*;

    fn roster(nodes: &[u64]) -> RosterV1 {
        let key = PublicKey([0; 32]);
        let node = |id: &u64| RosterNode {
            node_id: NodeId(*id),
            name: Name::new(&format!("n{id}")).expect("a name"),
            seat: Seat::Voter,
            log_key: key,
            cosigner_key: key,
            record_key: key,
        };
        let party = PinnedParty {
            name: Name::new("party").expect("a name"),
            key,
            builds_digest: Digest::ZERO,
            policy_digest: Digest::ZERO,
        };
        RosterV1 {
            roster_epoch: RosterEpoch(1),
            nodes: nodes.iter().map(node).collect(),
            verifiers: Vec::new(),
            sentinel: party.clone(),
            actuator: party,
        }
    }

    #[test]
    fn a_peer_that_is_let_go_and_taken_up_again_is_another_session() {
        let organism = OrganismId(Digest::ZERO);
        let identity = PeerIdentity::new(organism, Role::Node, "n1").expect("a name");
        let dialer = Dialer::new(Credentials::simulated(identity));
        let addresses = (1..=3).map(|id| (format!("n{id}"), format!("10.0.0.{id}:1")));
        let links = Links::new(
            1,
            organism,
            &roster(&[1, 2, 3]),
            addresses.collect(),
            dialer,
        );
        let links = links.expect("addresses");
        let first: Vec<Session> = links.sessions();
        assert!(first.len() == 2 && first.iter().all(|it| links.lasts(*it)));
        let none = BTreeSet::new();
        assert_eq!(links.follow(&roster(&[1, 2]), &none).0, []);
        assert_eq!(
            [true, false],
            [links.lasts(first[0]), links.lasts(first[1])]
        );
        let (new, failed) = links.follow(&roster(&[1, 2, 3]), &none);
        assert!(failed.is_empty() && new.len() == 1 && new[0] != first[1]);
        // The task of the old session ends, whatever became of the link meanwhile.
        assert!(links.lasts(new[0]) && !links.lasts(first[1]));
    }
}
