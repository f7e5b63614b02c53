//! A whole node over any engine: listeners, raft, service, drivers, in the order in which they may start.
//!
//! ```text
//!   bind both listeners ─▶ open raft ─▶ serve peers ─▶ Hello, start ─▶ serve clients ─▶ drivers ─▶ run
//! ```
//!
//! Peers are answered before this node runs, because they wait for its Hello; clients only after.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use redlatch_link::Role;
use redlatch_link::diagnostics::{Condition, Readiness, Registry};
use redlatch_link::transport::{
    self, Credentials, Dialer, Limits, Listener, Routes, TransportError,
};
use redlatch_link::world::{self, JoinHandle};
use redlatch_raft::config::Timing;
use redlatch_raft::cosign::NodeSigningKeys;
use redlatch_raft::engine::Engine;
use redlatch_raft::node::{Opened, RaftNode, RaftNodeConfig, StartError};
use redlatch_raft::proposer::ProposerLimits;
use redlatch_raft::shared::WallClock;
use redlatch_raft::standing::Standing;
use redlatch_types::records::{GenesisV1, RosterV1};
use redlatch_types::{Envelope, Name, NodeId};
use tokio::sync::watch;

use crate::clock::ClockFitness;
use crate::coordinator::{self, Parties, PartyAddresses, Progress};
use crate::drivers;
use crate::files::place;
use crate::held::HeldReds;
use crate::ingress::CALLERS;
use crate::metrics::{NodeMetrics, Shown};
use crate::service::{AuthorityService, Desk, LastDigest};
use crate::start::StartFailure;

/// How often numbers and readiness are shown afresh.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// What a node is made of.
pub struct NodeParts<E> {
    /// Its store.
    pub engine: E,
    /// The root-signed genesis.
    pub genesis: Envelope,
    /// Log key, cosigner key, record key.
    pub keys: NodeSigningKeys,
    /// The number under which it joins, if the genesis does not name it; else 0.
    pub number: u64,
    /// Whether a disk that lost what it promised comes back, as a learner.
    pub rejoin: bool,
    /// Its certificate: role node, and its name in the roster.
    pub credentials: Credentials,
    /// Where peers connect.
    pub peers_address: SocketAddr,
    /// Where everybody else connects.
    pub clients_address: SocketAddr,
    /// `host:port` of every other node, by name.
    pub peers: BTreeMap<String, String>,
    /// Its wall clock.
    pub clock: WallClock,
    /// Heartbeat and election.
    pub timing: Timing,
    /// What may wait.
    pub limits: ProposerLimits,
    /// Where its numbers go.
    pub metrics: Registry,
    /// Where it says what it waits for.
    pub readiness: Readiness,
}

/// A running node.
pub struct NodeProcess<E> {
    desk: Arc<Desk<E>>,
    peers_address: SocketAddr,
    clients_address: SocketAddr,
    stop: watch::Sender<bool>,
    /// Both servers.
    servers: Vec<JoinHandle<Result<(), TransportError>>>,
    /// Drivers and the task that shows numbers.
    tasks: Vec<JoinHandle<()>>,
}

/// What the node reports as ready or not, by name.
struct Conditions {
    peers: Condition,
    genesis: Condition,
    roster: Condition,
    leader: Condition,
    clock: Condition,
    journal: Condition,
}

impl Conditions {
    fn new(readiness: &Readiness) -> Conditions {
        Conditions {
            peers: readiness.condition("peers", "a majority has not answered yet"),
            genesis: readiness.condition("genesis", "not applied yet"),
            roster: readiness.condition("roster", "not applied yet"),
            leader: readiness.condition("leader", "no leader is known"),
            clock: readiness.condition("clock", "not judged yet"),
            journal: readiness.condition("journal", "not checked yet"),
        }
    }
}

impl<E: Engine> NodeProcess<E> {
    /// Starts a node and waits until a majority, itself included, has answered its Hello. Dropping the
    /// future before it is done leaves tasks that end with the process.
    ///
    /// # Errors
    /// [`StartFailure`].
    pub async fn start(parts: NodeParts<E>) -> Result<NodeProcess<E>, StartFailure> {
        let conditions = Conditions::new(&parts.readiness);
        let (node, roster) = own_place(&parts)?;
        let (peers, clients) = listeners(&parts).await?;
        let (peers_address, clients_address) = (peers.address(), clients.address());
        let clock = parts.clock.clone();
        let record_key = Arc::clone(&parts.keys.record);
        let metrics = NodeMetrics::new(&parts.metrics);
        let opened = RaftNode::open(raft_config(parts, node)).await?;
        let (stop, stopped) = watch::channel(false);
        let routes = Routes::new().service(opened.peer_service());
        let peer_server = world::spawn(transport::serve(peers, routes, until(stopped.clone())));
        let raft = joined(opened).await?;
        conditions.peers.met();
        let last_tick = raft.read(|state| state.authority.clock.tick);
        let desk = Arc::new(Desk {
            raft,
            record_key,
            held: Arc::new(HeldReds::default()),
            clock: Arc::new(ClockFitness::new(clock, last_tick)),
            metrics,
            genesis_roster: roster,
            progress: Progress::default(),
            support: Mutex::default(),
            parties: OnceLock::new(),
            last_digest: LastDigest::default(),
        });
        let routes = Routes::new().service(AuthorityService::server(Arc::clone(&desk)));
        let client_server = world::spawn(transport::serve(clients, routes, until(stopped)));
        let mut tasks = drivers::start(&desk);
        tasks.push(world::spawn(show(Arc::clone(&desk), conditions)));
        Ok(NodeProcess {
            desk,
            peers_address,
            clients_address,
            stop,
            servers: vec![client_server, peer_server],
            tasks,
        })
    }

    /// Lets this node coordinate decisions whenever it leads; without it intents stay frozen. Only the
    /// first call counts.
    ///
    /// # Errors
    /// [`StartFailure::Transport`] for an address that cannot be dialled, or a name that is not the roster's.
    pub fn coordinate(
        &mut self,
        dialer: &Dialer,
        addresses: &PartyAddresses,
    ) -> Result<(), StartFailure> {
        let parties = Parties::new(dialer, &self.desk.genesis_roster, addresses)?;
        let parties = Arc::new(parties);
        if self.desk.parties.set(Arc::clone(&parties)).is_ok() {
            let driver = coordinator::coordinate(Arc::clone(&self.desk), parties);
            self.tasks.push(world::spawn(driver));
        }
        Ok(())
    }

    /// The replicated journal.
    pub fn raft(&self) -> &RaftNode<E> {
        &self.desk.raft
    }

    /// REDs held here.
    pub fn held(&self) -> &HeldReds {
        &self.desk.held
    }

    /// Where peers connect.
    pub fn peers_address(&self) -> SocketAddr {
        self.peers_address
    }

    /// Where everybody else connects.
    pub fn clients_address(&self) -> SocketAddr {
        self.clients_address
    }

    /// Runs until `stop` resolves, then drains: open calls finish, raft stops, the store closes.
    ///
    /// # Errors
    /// [`StartFailure::Fatal`] at once if the node must not go on; [`StartFailure::Transport`] if a
    /// server ends by itself.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send) -> Result<(), StartFailure> {
        let ended = futures::future::select_all(self.servers.iter_mut());
        tokio::select! {
            biased;
            cause = self.desk.raft.fatal() => return Err(StartFailure::Fatal(cause)),
            (ended, _, _) = ended => return Err(of_server(ended).into()),
            () = stop => {}
        }
        self.drain().await;
        Ok(())
    }

    /// Stops gracefully.
    async fn drain(self) {
        for task in &self.tasks {
            task.abort();
        }
        self.stop.send_replace(true);
        for server in self.servers {
            // A server that ended with an error while stopping has nothing left to lose.
            let _ = server.await;
        }
        self.desk.raft.shutdown().await;
    }
}

fn of_server<J: std::fmt::Display>(ended: Result<Result<(), TransportError>, J>) -> TransportError {
    match ended {
        Ok(Err(error)) => error,
        Ok(Ok(())) => TransportError::Stopped("it ended early".to_owned()),
        Err(join) => TransportError::Stopped(join.to_string()),
    }
}

/// Resolves when the flag is set, or whoever could set it is gone.
async fn until(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// This node's number and name, and the genesis' roster, if certificate and genesis belong together.
fn own_place<E>(parts: &NodeParts<E>) -> Result<((NodeId, Name), RosterV1), StartFailure> {
    let signed = parts
        .genesis
        .open::<GenesisV1>()
        .map_err(|_| StartFailure::Raft(StartError::Genesis))?;
    let genesis = signed.record();
    let identity = parts.credentials.identity();
    if identity.organism != genesis.organism_id() {
        return Err(StartFailure::WrongOrganism {
            genesis: genesis.organism_id(),
            certificate: identity.organism,
        });
    }
    let own = place(&genesis.roster, &identity, parts.number)?;
    Ok((own, genesis.roster.clone()))
}

async fn listeners<E>(parts: &NodeParts<E>) -> Result<(Listener, Listener), TransportError> {
    let credentials = &parts.credentials;
    let limits = Limits::default();
    let peers = Listener::bind(
        parts.peers_address,
        credentials,
        &[Role::Node],
        limits.clone(),
    )
    .await?;
    let clients = Listener::bind(parts.clients_address, credentials, &CALLERS, limits).await?;
    Ok((peers, clients))
}

fn raft_config<E>(parts: NodeParts<E>, (node_id, name): (NodeId, Name)) -> RaftNodeConfig<E> {
    RaftNodeConfig {
        node_id,
        name,
        engine: parts.engine,
        genesis: parts.genesis,
        keys: parts.keys,
        peers: parts.peers,
        returns: parts.rejoin,
        dialer: Dialer::new(parts.credentials),
        clock: parts.clock,
        timing: parts.timing,
        limits: parts.limits,
    }
}

/// Starts raft, unless the node must stop before.
async fn joined<E: Engine>(opened: Opened<E>) -> Result<RaftNode<E>, StartFailure> {
    let fatal = opened.fatal();
    tokio::select! {
        biased;
        cause = fatal => Err(StartFailure::Fatal(cause)),
        started = opened.start() => Ok(started?),
    }
}

/// Shows numbers and readiness until it is aborted.
async fn show<E: Engine>(desk: Arc<Desk<E>>, conditions: Conditions) {
    let mut leader = None;
    loop {
        let metrics = desk.raft.metrics();
        if metrics.leader.is_some() && metrics.leader != leader {
            if leader.is_some() {
                desk.metrics.leader_changed();
            }
            leader = metrics.leader;
        }
        let (bootstrapped, shown) = desk.raft.read(|state| {
            let authority = &state.authority;
            let governance = authority.governance.as_ref();
            let shown = Shown {
                latched: authority.pending_latches().count(),
                held: desk.held.len(),
                epoch: governance.map_or(0, |it| it.epoch.autonomy_epoch.0),
                skew_ms: desk.clock.skew_ms(),
            };
            (governance.is_some(), shown)
        });
        desk.metrics.show(&metrics, shown);
        set(&conditions.genesis, bootstrapped, || {
            "not applied yet".to_owned()
        });
        let standing = metrics.standing;
        let takes_part = matches!(standing, Standing::Voter | Standing::Learner);
        set(&conditions.roster, takes_part, || standing.to_string());
        set(&conditions.leader, metrics.leader.is_some(), || {
            "no leader is known".to_owned()
        });
        set(&conditions.clock, !desk.clock.is_reported(), || {
            format!("clock_unfit: {} ms from state time", desk.clock.skew_ms())
        });
        let fork = desk.raft.fork();
        set(&conditions.journal, fork.is_none(), || {
            format!(
                "degraded: {}",
                fork.as_ref().map(ToString::to_string).unwrap_or_default()
            )
        });
        world::sleep(SHOW_EVERY).await;
    }
}

fn set(condition: &Condition, met: bool, reason: impl FnOnce() -> String) {
    if met {
        condition.met();
    } else {
        condition.unmet(reason());
    }
}
