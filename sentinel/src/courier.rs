//! Couriers: one to the actuator, one to each node. They bring, and hand back what was answered.
//!
//! A courier makes one attempt and is gone; when to try again is the outbox's matter. What a node answers is
//! nobody's proof: latch and terminal are read from the journal with receipts.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redlatch_link::store::Store;
use redlatch_link::transport::{self, Dialer, Failed, Link, NotTrusted, TransportError};
use redlatch_link::{PeerIdentity, Role, client_type, world};
use redlatch_proto::v1;
use redlatch_proto::v1::authority_client::AuthorityClient;
use redlatch_proto::v1::red_line_client::RedLineClient;
use redlatch_types::command::RawCommand;
use redlatch_types::records::RosterV1;
use redlatch_types::{Canonical, Digest, Envelope, NodeId, OutboxEpoch};
use redlatch_watch::outbox::{Delivery, Head, Memory, Receiver};

use crate::desk::Desk;
use crate::metrics::{Outcome, SentinelMetrics};

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How long a beat may take: the next one comes soon.
const BEAT_ATTEMPT: Duration = Duration::from_secs(1);

type Node = client_type!(AuthorityClient);
type Actuator = client_type!(RedLineClient);

/// What the actuator is called where deliveries are counted.
const ACTUATOR: &str = "actuator";

/// Links to everybody whom a RED goes to.
pub(crate) struct Couriers {
    dialer: Dialer,
    /// `host:port` by the name of the node.
    addresses: BTreeMap<String, String>,
    /// Those of the roster in force that have an address, with their names.
    nodes: RwLock<BTreeMap<NodeId, (String, Node)>>,
    actuator: Actuator,
}

/// Why a receiver gave no answer that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// Receiver and sentinel do not accept each other's certificates.
    NotTrusted(NotTrusted),
    /// Not before the deadline.
    Late,
    /// Any other reason.
    Failed,
}

impl Couriers {
    /// Links to the actuator and to every node that has an address. Nothing is connected yet.
    ///
    /// # Errors
    /// [`TransportError::NotAnAddress`].
    pub(crate) fn new(
        dialer: &Dialer,
        roster: &RosterV1,
        nodes: &BTreeMap<String, String>,
        actuator: &str,
    ) -> Result<Couriers, TransportError> {
        let clients = clients(dialer, roster, nodes)?;
        let link = link(
            dialer,
            Role::Actuator,
            roster.actuator.name.as_str(),
            actuator,
        )?;
        Ok(Couriers {
            dialer: dialer.clone(),
            addresses: nodes.clone(),
            nodes: RwLock::new(clients),
            actuator: RedLineClient::with_interceptor(link.channel(), link.introduction()),
        })
    }

    /// From here on it delivers to the nodes of this roster.
    pub(crate) fn follow(&self, roster: &RosterV1) {
        match clients(&self.dialer, roster, &self.addresses) {
            Ok(clients) => *self.nodes.write().unwrap_or_else(PoisonError::into_inner) = clients,
            Err(error) => tracing::error!(%error, "REDs go to the nodes of before"),
        }
    }

    fn node(&self, node: NodeId) -> Option<(String, Node)> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        nodes.get(&node).cloned()
    }

    /// Every name that there is an address for, and the actuator: all whom it may ever deliver to.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &str> {
        self.addresses.keys().map(String::as_str).chain([ACTUATOR])
    }

    /// Brings a segment to the actuator; gives what it has stored.
    async fn red(&self, segment: &[Envelope]) -> Result<Head, NoAnswer> {
        let request = v1::RedRequest {
            segment: segment.iter().map(Canonical::to_canonical).collect(),
        };
        let mut client = self.actuator.clone();
        let answer = heard(world::timeout(ATTEMPT, client.red(request)).await, "RED")?;
        head(answer.acknowledged_outbox_epoch, &answer.outbox_root)
    }

    /// Brings a beat to the actuator; gives what it has stored.
    pub(crate) async fn beat(&self, beat: &Envelope) -> Result<Head, NoAnswer> {
        let request = v1::BeatRequest {
            beat: beat.to_canonical(),
        };
        let mut client = self.actuator.clone();
        let answer = world::timeout(BEAT_ATTEMPT, client.beat(request)).await;
        let answer = heard(answer, "beat")?;
        head(answer.acknowledged_outbox_epoch, &answer.outbox_root)
    }

    /// Brings a command to one node. Whatever it answers, it holds a RED from the moment it has read it (D2).
    /// Nothing is counted for a node without an address.
    async fn submit(&self, node: NodeId, command: &RawCommand, metrics: &SentinelMetrics) {
        let Some((name, mut client)) = self.node(node) else {
            return;
        };
        let request = v1::SubmitRequest {
            command: command.to_canonical(),
            receipt_wait_ms: 0,
        };
        let answer = world::timeout(ATTEMPT, client.submit(request)).await;
        metrics.delivered(&name, Outcome::of(&heard(answer, &name)));
    }
}

fn link(dialer: &Dialer, role: Role, name: &str, address: &str) -> Result<Link, TransportError> {
    let refuse = |_| TransportError::NotAnAddress(address.to_owned());
    let peer = PeerIdentity::new(dialer.identity().organism, role, name).map_err(refuse)?;
    dialer.channel(address, &peer)
}

fn clients(
    dialer: &Dialer,
    roster: &RosterV1,
    addresses: &BTreeMap<String, String>,
) -> Result<BTreeMap<NodeId, (String, Node)>, TransportError> {
    let mut clients = BTreeMap::new();
    for node in &roster.nodes {
        if let Some(address) = addresses.get(node.name.as_str()) {
            let link = link(dialer, Role::Node, node.name.as_str(), address)?;
            let client = AuthorityClient::with_interceptor(link.channel(), link.introduction());
            clients.insert(node.node_id, (node.name.to_string(), client));
        }
    }
    Ok(clients)
}

fn heard<T>(
    answer: Result<Result<tonic::Response<T>, tonic::Status>, world::DeadlinePassed>,
    what: &str,
) -> Result<T, NoAnswer> {
    match answer {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => {
            tracing::debug!(what, status = transport::words(&status), "not delivered");
            match transport::failed(&status) {
                Failed::NotTrusted(reason) => Err(NoAnswer::NotTrusted(reason)),
                Failed::NeverConnected | Failed::CutOff => Err(NoAnswer::Failed),
            }
        }
        Err(late) => {
            tracing::debug!(what, %late, "not delivered");
            Err(NoAnswer::Late)
        }
    }
}

fn head(number: u64, root: &[u8]) -> Result<Head, NoAnswer> {
    let root = root.try_into().map_err(|_| NoAnswer::Failed)?;
    Ok(Head {
        number: OutboxEpoch(number),
        root: Digest(root),
    })
}

/// Sends a courier off: a receiver that does not answer holds up nobody else.
pub(crate) fn dispatch<S: Store>(desk: Arc<Desk<S>>, delivery: Delivery) {
    world::spawn(deliver(desk, delivery));
}

async fn deliver<S: Store>(desk: Arc<Desk<S>>, delivery: Delivery) {
    match delivery.to {
        Receiver::Actuator => {
            let stored = desk.couriers.red(&delivery.segment).await;
            desk.metrics.delivered(ACTUATOR, Outcome::of(&stored));
            if let Ok(head) = stored {
                // A machine that is gone needs no answer.
                let _ = desk.remembered(Memory::Actuator, head).await;
            }
        }
        Receiver::Node(node) => {
            if !delivery.segment.is_empty() {
                let command = RawCommand::LatchRed(delivery.segment);
                desk.couriers.submit(node, &command, &desk.metrics).await;
            }
            for acknowledgement in delivery.closing {
                let command = RawCommand::AcknowledgeOutbox(acknowledgement);
                desk.couriers.submit(node, &command, &desk.metrics).await;
            }
            desk.news.notify_one();
        }
    }
}
