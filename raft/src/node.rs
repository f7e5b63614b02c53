//! One node: opens its store, lets its peers judge its disk, runs Raft, proposer and cosigner, and
//! offers what the API needs (D8, D9, D10).
//!
//! Order at boot: open (nothing is sent) ▸ serve the peer service ▸ start (Hello, then Raft). This
//! file judges no command, knows no client and no gRPC method but the peers'.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use openraft::ServerState;
use redlatch_journal::State;
use redlatch_link::server_type;
use redlatch_link::transport::Dialer;
use redlatch_link::world;
use redlatch_proto::v1::peer_server::PeerServer;
use redlatch_types::chain::Trust;
use redlatch_types::note::KeyError;
use redlatch_types::policy::PolicyError;
use redlatch_types::receipt::Receipt;
use redlatch_types::records::{GenesisV1, RosterV1};
use redlatch_types::{Envelope, Name, NodeId, RosterEpoch};
use tokio::sync::watch;

use crate::alarm::{Alarm, FatalCause};
use crate::archive::Archive;
use crate::config::{Raft, Timing, openraft_config};
use crate::cosign::{CosignHold, CosignedHead, Cosigner, Fork, HeadKeys, NodeSigningKeys};
use crate::engine::{Engine, StorageFault, WriteBatch};
use crate::forward::{self, Forwarded};
use crate::links::{Links, PeerAddressError};
use crate::log_store::LogStore;
use crate::machine::{Machine, Place};
use crate::membership::Step;
use crate::memory::Memory;
use crate::network::Network;
use crate::peers::PeerRow;
use crate::propose::Proposer;
use crate::proposer::{Class, Committed, ProposeError, ProposerLimits, QueueLengths, Queues};
use crate::read_point::{self, ReadPoint, ReadPointError};
use crate::rejoin::{self, Rejoined};
use crate::server::PeerService;
use crate::shared::{Renewed, Shared, WallClock};
use crate::standing::Standing;
use crate::{campaign, exchange, hello};

/// Bytes of leaves that one call of [`RaftNode::leaves`] reads.
const LEAVES_BYTES_MAX: usize = 4 << 20;

/// What a node is started with.
#[derive(Debug)]
pub struct RaftNodeConfig<E> {
    /// Its number in the roster.
    pub node_id: NodeId,
    /// Its name in the roster and in its certificate.
    pub name: Name,
    /// Its store.
    pub engine: E,
    /// The root-signed genesis. Its roster counts until it is applied. A node that it does not name
    /// joins later: it waits until a majority knows it by a roster.
    pub genesis: Envelope,
    /// Its three keys.
    pub keys: NodeSigningKeys,
    /// `host:port` of the other nodes, by name: of those in the roster, and of those that may join.
    pub peers: BTreeMap<String, String>,
    /// Whether a disk that lost what it promised is to come back as a learner, by `Rejoin`.
    pub returns: bool,
    /// Shows this node's certificate.
    pub dialer: Dialer,
    /// Its wall clock.
    pub clock: WallClock,
    /// Heartbeat and election.
    pub timing: Timing,
    /// What may wait.
    pub limits: ProposerLimits,
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be used.
    #[error("storage: {0}")]
    Storage(#[from] StorageFault),
    /// The genesis file is not signed by the root it names, or not for the organism it makes.
    #[error("the genesis is not signed by the root it names")]
    Genesis,
    /// No roster can be made of the genesis file's.
    #[error("the genesis' roster: {0}")]
    Roster(#[from] PolicyError),
    /// A key of this node is not the roster's.
    #[error("a key of this node is not the one in the roster")]
    WrongKeys,
    /// A key of the roster cannot verify.
    #[error("the roster's keys: {0}")]
    RosterKeys(#[from] KeyError),
    /// A peer cannot be called.
    #[error(transparent)]
    PeerAddress(#[from] PeerAddressError),
    /// The timing contradicts itself.
    #[error("timing: {0}")]
    Timing(String),
    /// A peer remembers more of this node than its disk holds (faults 13, 14). It must not vote;
    /// it comes back only by `Rejoin`, if it is started so.
    #[error("rolled_back: node {by} remembers {row}; this disk went back in time or was wiped")]
    RolledBack {
        /// Who remembers.
        by: NodeId,
        /// What it remembers.
        row: PeerRow,
    },
    /// openraft does not start.
    #[error("consensus: {0}")]
    Consensus(String),
}

/// A node that has read its disk and answers `Hello`, but does not run Raft yet.
#[derive(Debug)]
pub struct Opened<E> {
    shared: Arc<Shared<E>>,
    genesis: Envelope,
    timing: Timing,
    limits: ProposerLimits,
    returns: bool,
}

/// A running node. Clones are handles of the same node.
pub struct RaftNode<E> {
    shared: Arc<Shared<E>>,
    raft: Raft,
    queues: Arc<Queues>,
}

impl<E> std::fmt::Debug for RaftNode<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RaftNode({})", self.shared.own)
    }
}

impl<E> Clone for RaftNode<E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            raft: self.raft.clone(),
            queues: Arc::clone(&self.queues),
        }
    }
}

/// What a node is in its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaftRole {
    /// Receives only.
    Learner,
    /// Follows a leader or waits for one.
    Follower,
    /// Asks for votes.
    Candidate,
    /// Leads.
    Leader,
    /// Has stopped.
    Stopped,
}

/// Numbers for people and dashboards. Nothing is decided by them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftMetrics {
    /// This node.
    pub node_id: NodeId,
    /// This boot's number.
    pub incarnation: u64,
    /// Its role.
    pub role: RaftRole,
    /// What it is in the roster that it has applied.
    pub standing: Standing,
    /// Version of that roster.
    pub roster_epoch: RosterEpoch,
    /// Where openraft's membership stands against the roster, as the leader sees it; `None` on others.
    pub step: Option<Step>,
    /// Nodes of the roster that this node has no address of.
    pub unreachable: Vec<NodeId>,
    /// Its term.
    pub term: u64,
    /// The leader it knows of.
    pub leader: Option<NodeId>,
    /// Index of the last entry in the log.
    pub last_log_index: Option<u64>,
    /// What is applied.
    pub place: Place,
    /// Index the stored snapshot reaches.
    pub snapshot_index: Option<u64>,
    /// Index up to which the log is purged.
    pub purged_index: Option<u64>,
    /// Size of the highest head with a majority.
    pub cosigned_size: u64,
    /// Size of the highest head that this boot has signed.
    pub signed_size: u64,
    /// Commands that wait.
    pub queues: QueueLengths,
    /// Milliseconds since a majority acknowledged this leader; `None` on others.
    pub majority_ack_age_ms: Option<u64>,
    /// Leaves below a snapshot that are still to be fetched.
    pub leaves_missing: u64,
}

/// Why a receipt is not there.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptWait {
    /// No head above the leaf got a majority in time.
    #[error("no majority has cosigned a head above that leaf yet")]
    NotYet,
    /// The store has failed.
    #[error(transparent)]
    Storage(#[from] StorageFault),
}

impl<E: Engine> RaftNode<E> {
    /// Opens log and state and counts this boot on disk. Nothing is sent.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn open(config: RaftNodeConfig<E>) -> Result<Opened<E>, StartError> {
        let genesis = open_genesis(&config.genesis)?;
        let organism = genesis.organism_id();
        let (own, name) = (config.node_id.0, &config.name);
        // The history is 0: nothing that raises it exists yet in this release.
        let trust = Trust::of_genesis(&genesis, 0)?;
        let origin = *trust.policy().origin();
        let cosigner_name = origin.cosigner_name(name.as_str())?;
        let verifiers = HeadKeys::new(origin, trust.roster())?;
        let engine = config.engine;
        let log_store = LogStore::open(engine.clone())?;
        let rejoined = Arc::new(Rejoined::open(engine.clone())?);
        let cosigner = Cosigner::open(own, config.keys.clone(), verifiers, cosigner_name, engine)?;
        let cosigner = Arc::new(cosigner);
        let place = (config.node_id, &trust);
        let (signs, since) = (Arc::clone(&cosigner), Arc::clone(&rejoined));
        let machine = Machine::open(&log_store, place, signs, since).await?;
        let roster = machine.roster();
        if !is_this_node(&roster, config.node_id, name, &config.keys) {
            return Err(StartError::WrongKeys);
        }
        let links = Links::new(own, organism, &roster, config.peers, config.dialer)?;
        let memory = Memory::open(own, log_store.clone()).await?;
        let shared = Arc::new(Shared {
            own,
            name: config.name,
            organism,
            keys: config.keys,
            clock: config.clock,
            log_store,
            memory,
            machine,
            cosigner,
            links,
            rejoined,
            renewed: Renewed::default(),
            learned: Mutex::new(None),
            step: Mutex::new(None),
            forwarded: Forwarded::default(),
            alarm: Alarm::default(),
            raft: OnceLock::new(),
            queues: OnceLock::new(),
        });
        let (timing, limits) = (config.timing, config.limits);
        Ok(Opened {
            shared,
            genesis: config.genesis,
            timing,
            limits,
            returns: config.returns,
        })
    }

    /// Its number.
    pub fn node_id(&self) -> NodeId {
        NodeId(self.shared.own)
    }

    /// Asks for `command` to be put into the journal and waits for its outcome at most `deadline`.
    /// Dropping the future, or giving up, does not take a proposed command back.
    ///
    /// # Errors
    /// [`ProposeError`]; only `Indeterminate` may have happened.
    pub async fn propose(
        &self,
        class: Class,
        command: Vec<u8>,
        deadline: Duration,
    ) -> Result<Committed, ProposeError> {
        if self.shared.alarm.cause().is_some() {
            return Err(ProposeError::Unavailable);
        }
        if !self.leads() {
            return Err(ProposeError::NotLeader {
                leader: self.leader(),
            });
        }
        let mut ticket = self.queues.admit(class, command)?;
        match world::timeout(deadline, ticket.outcome()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ticket.give_up()),
        }
    }

    /// What is applied and written here. It may be behind; see [`RaftNode::read_point`].
    pub fn place(&self) -> Place {
        self.shared.machine.place()
    }

    /// Follows [`RaftNode::place`].
    pub fn watch_place(&self) -> watch::Receiver<Place> {
        self.shared.machine.watch_place()
    }

    /// Looks at the applied state under a short lock; apply waits meanwhile.
    pub fn read<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        self.shared.machine.read(look)
    }

    /// Waits until this node's state is not older than this call, confirmed by a majority.
    ///
    /// # Errors
    /// [`ReadPointError`]: nothing may be called free on the strength of this node's state.
    pub async fn read_point(&self, deadline: Duration) -> Result<ReadPoint, ReadPointError> {
        read_point::reach(&self.shared, deadline).await
    }

    /// The receipt of a leaf under the highest cosigned head, if there is one above it.
    ///
    /// # Errors
    /// Any fault of the store.
    pub fn receipt(&self, position: u64) -> Result<Option<Receipt>, StorageFault> {
        self.shared.cosigner.receipt(position)
    }

    /// Waits for the receipt of a leaf at most `deadline`.
    ///
    /// # Errors
    /// [`ReceiptWait`].
    pub async fn wait_receipt(
        &self,
        position: u64,
        deadline: Duration,
    ) -> Result<Receipt, ReceiptWait> {
        let mut cosigned = self.shared.cosigner.watch_cosigned();
        let waited = world::timeout(deadline, async {
            loop {
                cosigned.borrow_and_update();
                if let Some(receipt) = self.receipt(position)? {
                    return Ok(receipt);
                }
                if cosigned.changed().await.is_err() {
                    return Err(ReceiptWait::NotYet);
                }
            }
        });
        waited.await.unwrap_or(Err(ReceiptWait::NotYet))
    }

    /// The highest head with a majority.
    pub fn cosigned(&self) -> Option<CosignedHead> {
        self.shared.cosigner.cosigned()
    }

    /// Follows the size of the highest head with a majority.
    pub fn watch_cosigned(&self) -> watch::Receiver<u64> {
        self.shared.cosigner.watch_cosigned()
    }

    /// One leaf.
    ///
    /// # Errors
    /// Any fault of the store.
    pub fn leaf(&self, position: u64) -> Result<Option<Vec<u8>>, StorageFault> {
        Archive::new(self.shared.log_store.engine().clone()).leaf(position)
    }

    /// Consecutive leaves of `[from, to)`; fewer if they are many bytes, or below a gap.
    ///
    /// # Errors
    /// Any fault of the store.
    pub fn leaves(&self, from: u64, to: u64) -> Result<Vec<Vec<u8>>, StorageFault> {
        let to = to.min(self.place().size);
        Archive::new(self.shared.log_store.engine().clone()).leaves(from, to, LEAVES_BYTES_MAX)
    }

    /// Position that an index key leads to ([`redlatch_journal::IndexKey::to_bytes`]).
    ///
    /// # Errors
    /// Any fault of the store.
    pub fn find(&self, key: &[u8]) -> Result<Option<u64>, StorageFault> {
        Archive::new(self.shared.log_store.engine().clone()).find(key)
    }

    /// Consistency proof between two sizes of the journal, for witnesses and auditors.
    ///
    /// # Errors
    /// Any fault of the store.
    pub fn consistency(
        &self,
        old: u64,
        new: u64,
    ) -> Result<Option<Vec<redlatch_types::Digest>>, StorageFault> {
        Archive::new(self.shared.log_store.engine().clone()).consistency(old, new)
    }

    /// Tells the cosigner what to hold back (D2, D7).
    ///
    /// # Errors
    /// Any fault of the store.
    pub async fn hold_cosigning(&self, hold: CosignHold) -> Result<(), StorageFault> {
        self.shared.machine.hold(hold).await
    }

    /// The evidence, if this node holds two histories: it cosigns nothing more (degraded).
    pub fn fork(&self) -> Option<Fork> {
        self.shared.cosigner.fork()
    }

    /// The leader this node knows of.
    pub fn leader(&self) -> Option<NodeId> {
        self.raft.metrics().borrow().current_leader.map(NodeId)
    }

    /// Whether this node believes that it leads. It may be wrong; commands carry the term.
    pub fn leads(&self) -> bool {
        self.raft.metrics().borrow().state == ServerState::Leader
    }

    /// Resolves whenever role, term or leader may have changed.
    pub fn watch_leadership(&self) -> impl Future<Output = ()> + Send + use<E> {
        let mut metrics = self.raft.server_metrics();
        // The clone remembers what the original has seen: nothing.
        metrics.mark_unchanged();
        async move {
            if metrics.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Numbers for people.
    pub fn metrics(&self) -> RaftMetrics {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        RaftMetrics {
            node_id: self.node_id(),
            incarnation: self.shared.memory.incarnation(),
            role: role_of(metrics.state),
            standing: self.standing(),
            roster_epoch: self.shared.machine.roster().roster_epoch,
            step: self.shared.step(),
            unreachable: self.shared.links.missing(&self.shared.machine.roster()),
            term: metrics.current_term,
            leader: metrics.current_leader.map(NodeId),
            last_log_index: metrics.last_log_index,
            place: self.place(),
            snapshot_index: metrics.snapshot.map(|id| id.index),
            purged_index: metrics.purged.map(|id| id.index),
            cosigned_size: self.cosigned().map_or(0, |head| head.size),
            signed_size: *self.shared.cosigner.watch_signed().borrow(),
            queues: self.queues.lengths(),
            majority_ack_age_ms: metrics.millis_since_quorum_ack,
            leaves_missing: self.shared.machine.gap().map_or(0, |gap| gap.to - gap.from),
        }
    }

    /// What this node is in the roster that it has applied.
    pub fn standing(&self) -> Standing {
        self.shared.standing()
    }

    /// Receipts of all roster changes, each under the roster before it, in order.
    ///
    /// # Errors
    /// Any fault of the store.
    pub fn chain(&self) -> Result<Vec<Receipt>, StorageFault> {
        crate::chain::links(self.shared.log_store.engine())
    }

    /// Hands a LatchRed command to every peer, once.
    pub async fn forward_reds(&self, command: &[u8]) {
        forward::forward(&self.shared, command).await;
    }

    /// The next command that a peer has handed on, unchecked. For one taker.
    pub async fn forwarded_reds(&self) -> Vec<u8> {
        self.shared.forwarded.next().await
    }

    /// Resolves when the process must exit non-zero.
    pub async fn fatal(&self) -> FatalCause {
        self.shared.alarm.raised().await
    }

    /// Stops Raft. Commands that wait are answered; the store closes with the last handle.
    pub async fn shutdown(&self) {
        // The core's join error says nothing that the alarm does not.
        let _ = self.raft.shutdown().await;
    }
}

impl<E: Engine> Opened<E> {
    /// The peer service. It must be served before [`Opened::start`]: peers that start at the same
    /// time wait for its `Hello`.
    pub fn peer_service(&self) -> server_type!(PeerServer<PeerService<E>>) {
        PeerService::server(Arc::clone(&self.shared))
    }

    /// What this disk remembers as applied.
    pub fn place(&self) -> Place {
        self.shared.machine.place()
    }

    /// Resolves when the process must exit non-zero.
    pub fn fatal(&self) -> impl Future<Output = FatalCause> + Send + use<E> {
        let shared = Arc::clone(&self.shared);
        async move { shared.alarm.raised().await }
    }

    /// Asks the peers, then runs Raft. Waits until a majority, this node included, has answered.
    ///
    /// # Errors
    /// [`StartError::RolledBack`], or that openraft does not start.
    pub async fn start(self) -> Result<RaftNode<E>, StartError> {
        let Self {
            shared,
            genesis,
            timing,
            limits,
            returns,
        } = self;
        let floor =
            hello::ask(&shared, returns)
                .await
                .map_err(|hello::RolledBack { by, row }| StartError::RolledBack {
                    by: NodeId(by),
                    row,
                })?;
        if let Some(floor) = floor {
            let mut batch = WriteBatch::new();
            shared.rejoined.begin(&mut batch);
            shared.memory.raise(&floor, batch).await?;
        }
        let config =
            openraft_config(timing).map_err(|error| StartError::Timing(error.to_string()))?;
        let network = Network::new(Arc::clone(&shared));
        let (log_store, machine) = (shared.log_store.clone(), shared.machine.clone());
        let raft = Raft::new(shared.own, config, network, log_store, machine)
            .await
            .map_err(|error| StartError::Consensus(error.to_string()))?;
        initialize(&shared, &raft).await?;
        // Nobody else sets them: `start` consumes the only `Opened`.
        let queues = Arc::new(Queues::new(limits));
        let _ = shared.queues.set(Arc::clone(&queues));
        let _ = shared.raft.set(raft.clone());
        world::spawn(campaign::take_turns(
            Arc::clone(&shared),
            raft.clone(),
            timing,
        ));
        spawn_tasks(&shared, &raft, &queues, genesis);
        Ok(RaftNode {
            shared,
            raft,
            queues,
        })
    }
}

/// A log that is empty begins with the roster as its first entry: the same on every node, so it
/// does not matter who writes it. A node that joins or returns is given its log by others.
async fn initialize<E: Engine>(shared: &Shared<E>, raft: &Raft) -> Result<(), StartError> {
    let seats = shared.seats();
    let consensus = |error: &dyn std::fmt::Display| StartError::Consensus(error.to_string());
    if !shared.machine.counts()
        || raft
            .is_initialized()
            .await
            .map_err(|error| consensus(&error))?
    {
        return Ok(());
    }
    raft.initialize(seats.voters)
        .await
        .map_err(|error| consensus(&error))
}

fn spawn_tasks<E: Engine>(
    shared: &Arc<Shared<E>>,
    raft: &Raft,
    queues: &Arc<Queues>,
    genesis: Envelope,
) {
    for session in shared.links.sessions() {
        world::spawn(exchange::offer_heads(Arc::clone(shared), session));
    }
    world::spawn(follow_roster(Arc::clone(shared), raft.clone()));
    world::spawn(rejoin::announce(Arc::clone(shared)));
    world::spawn(exchange::keep_snapshots(Arc::clone(shared)));
    world::spawn(exchange::fill_gaps(Arc::clone(shared)));
    world::spawn(watch_storage(Arc::clone(shared)));
    world::spawn(watch_consensus(Arc::clone(shared), raft.clone()));
    let proposer = Proposer::new(
        Arc::clone(shared),
        raft.clone(),
        Arc::clone(queues),
        genesis,
    );
    world::spawn(proposer.run());
}

/// Takes up peers as the roster names them, and lets them go once openraft has. Stops the node if the
/// roster means another one by its number.
async fn follow_roster<E: Engine>(shared: Arc<Shared<E>>, raft: Raft) {
    let mut rosters = shared.machine.watch_roster();
    let mut metrics = raft.server_metrics();
    loop {
        let roster = Arc::clone(&rosters.borrow_and_update());
        let kept: BTreeSet<u64> = {
            let metrics = metrics.borrow_and_update();
            let nodes = metrics.membership_config.nodes();
            nodes.map(|(node, _)| *node).collect()
        };
        if !is_this_node(&roster, NodeId(shared.own), &shared.name, &shared.keys) {
            return shared.alarm.raise(FatalCause::NotThisNode);
        }
        let (new, failed) = shared.links.follow(&shared.known_roster(), &kept);
        for session in new {
            world::spawn(exchange::offer_heads(Arc::clone(&shared), session));
        }
        for error in failed {
            tracing::warn!(%error, "a node of the roster cannot be called");
        }
        let changed = tokio::select! {
            changed = rosters.changed() => changed.is_ok(),
            changed = metrics.changed() => changed.is_ok(),
        };
        if !changed {
            return;
        }
    }
}

async fn watch_storage<E: Engine>(shared: Arc<Shared<E>>) {
    let fault = shared.log_store.engine().failed().await;
    shared.alarm.raise(FatalCause::Storage(fault));
}

/// Raises the alarm when openraft stops by itself, and stops openraft when the alarm is raised.
async fn watch_consensus<E: Engine>(shared: Arc<Shared<E>>, raft: Raft) {
    let mut metrics = raft.metrics();
    let stopped = async {
        loop {
            if let Err(fatal) = &metrics.borrow_and_update().running_state {
                return fatal.to_string();
            }
            if metrics.changed().await.is_err() {
                return String::from("its core is gone");
            }
        }
    };
    tokio::select! {
        biased;
        why = stopped => {
            // openraft stops for a fault of the store as well: then that is the cause to report.
            let fault = shared.log_store.engine().failed().now_or_never();
            shared.alarm.raise(fault.map_or(FatalCause::Consensus(why), FatalCause::Storage));
        }
        _ = shared.alarm.raised() => {
            let _ = raft.shutdown().await;
        }
    }
}

fn open_genesis(envelope: &Envelope) -> Result<GenesisV1, StartError> {
    let signed = envelope
        .open::<GenesisV1>()
        .map_err(|_| StartError::Genesis)?;
    let genesis = signed.record();
    let by_its_root = *signed.key() == genesis.kernel.pinned_external_root_key;
    if !by_its_root || *signed.scope() != genesis.scope() {
        return Err(StartError::Genesis);
    }
    Ok(genesis.clone())
}

/// Whether the roster, if it knows the number, means this node by it.
fn is_this_node(roster: &RosterV1, id: NodeId, name: &Name, keys: &NodeSigningKeys) -> bool {
    roster.node(id).is_none_or(|node| {
        node.name == *name
            && node.log_key == keys.log.public_key()
            && node.cosigner_key == keys.cosigner.public_key()
            && node.record_key == keys.record.public_key()
    })
}

fn role_of(state: ServerState) -> RaftRole {
    match state {
        ServerState::Learner => RaftRole::Learner,
        ServerState::Follower => RaftRole::Follower,
        ServerState::Candidate => RaftRole::Candidate,
        ServerState::Leader => RaftRole::Leader,
        ServerState::Shutdown => RaftRole::Stopped,
    }
}
