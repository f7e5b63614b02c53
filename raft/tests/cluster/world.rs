//! The simulated cluster: nodes with disks that outlive them, and a network that can be cut.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use madsim::net::NetSim;
use madsim::runtime::{Handle, NodeHandle, Runtime};
use redlatch_journal::development::{Parties, genesis};
use redlatch_link::identity::{PeerIdentity, Role};
use redlatch_link::transport::{Credentials, Dialer, Limits, Listener, Routes, serve};
use redlatch_raft::config::Timing;
use redlatch_raft::cosign::NodeSigningKeys;
use redlatch_raft::engine::{Image, SimDisk, SimEngine};
use redlatch_raft::node::{RaftNode, RaftNodeConfig, StartError};
use redlatch_raft::proposer::{Class, Committed, ProposeError, ProposerLimits};
use redlatch_raft::read_point::{ReadPoint, ReadPointError};
use redlatch_raft::shared::WallClock;
use redlatch_types::checkpoint::{Origin, Stage};
use redlatch_types::command::RawCommand;
use redlatch_types::policy::{NodeKeys, Policy};
use redlatch_types::records::{GenesisV1, PinnedParty, RosterNode, RosterVerifier, Seat};
use redlatch_types::{
    Canonical, Digest, Envelope, FailureDomain, Name, NodeId, OrganismId, SigningKey, VerifierId,
};

type Node = RaftNode<SimEngine>;

const PROPOSE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);
const ROOT: u8 = 1;

/// Runs one world from one seed, on a thread of its own as madsim asks.
pub(crate) fn run(seed: u64, scenario: impl Future<Output = ()> + Send + 'static) {
    let world = std::thread::spawn(move || {
        let mut runtime = Runtime::with_seed_and_config(seed, madsim::Config::default());
        runtime.set_time_limit(Duration::from_secs(600));
        runtime.block_on(scenario);
    });
    if let Err(panic) = world.join() {
        std::panic::resume_unwind(panic);
    }
}

fn key(number: u8) -> SigningKey {
    SigningKey::from_seed([number; 32])
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn keys(id: u64) -> NodeSigningKeys {
    let id = u8::try_from(id).expect("small");
    NodeSigningKeys {
        log: Arc::new(key(100 + id)),
        cosigner: Arc::new(key(110 + id)),
        record: Arc::new(key(120 + id)),
    }
}

fn organism() -> GenesisV1 {
    let node = |id: u64| RosterNode {
        node_id: NodeId(id),
        name: name(&format!("n{id}")),
        seat: Seat::Voter,
        log_key: keys(id).log.public_key(),
        cosigner_key: keys(id).cosigner.public_key(),
        record_key: keys(id).record.public_key(),
    };
    let verifier = |number: u8| RosterVerifier {
        verifier_id: VerifierId(name(&format!("v{number}"))),
        identifier: u16::from(number),
        failure_domain: FailureDomain(name(&format!("d{number}"))),
        vote_key: key(20 + number).public_key(),
        witness_key: key(30 + number).public_key(),
        builds_digest: Digest::of(b"builds"),
        policy_digest: Digest::of(b"policy"),
    };
    let party = |label: &str, number| PinnedParty {
        name: name(label),
        key: key(number).public_key(),
        builds_digest: Digest::of(b"builds"),
        policy_digest: Digest::of(b"policy"),
    };
    genesis(Parties {
        organism_name: name("test"),
        created_at: 1_000,
        nonce: Digest::of(b"nonce"),
        root: key(ROOT).public_key(),
        nodes: (1..=3).map(node).collect(),
        verifiers: (1..=4).map(verifier).collect(),
        sentinel: party("sentinel", 40),
        actuator: party("actuator", 41),
        subjects: vec![],
        repository: name("repo"),
        human_keys: Vec::new(),
    })
}

fn address(id: u64) -> SocketAddr {
    format!("10.0.0.{id}:5000").parse().expect("an address")
}

async fn node(id: u64, disk: SimDisk, started: Started) {
    let genesis = organism();
    let organism = genesis.organism_id();
    let identity = PeerIdentity::new(organism, Role::Node, format!("n{id}")).expect("a name");
    let credentials = Credentials::simulated(identity);
    let others = (1..=3).filter(|other| *other != id);
    let opened = RaftNode::open(RaftNodeConfig {
        node_id: NodeId(id),
        engine: disk.open().expect("the disk opens"),
        genesis: Envelope::seal(genesis.scope(), &key(ROOT), &genesis),
        keys: keys(id),
        peers: others
            .map(|other| (NodeId(other), address(other).to_string()))
            .collect(),
        dialer: Dialer::new(credentials.clone()),
        clock: WallClock::system(),
        timing: Timing::default(),
        limits: ProposerLimits::default(),
    })
    .await
    .expect("the node opens");
    let listener = Listener::bind(address(id), &credentials, &[Role::Node], Limits::default());
    let listener = listener.await.expect("the address is free");
    let routes = Routes::new().service(opened.peer_service());
    madsim::task::spawn(serve(listener, routes, std::future::pending()));
    let outcome = opened.start().await;
    started.lock().expect("no panic").insert(id, outcome);
    std::future::pending::<()>().await;
}

type Started = Arc<Mutex<BTreeMap<u64, Result<Node, StartError>>>>;

/// Three nodes.
pub(crate) struct Cluster {
    handles: BTreeMap<u64, NodeHandle>,
    disks: Arc<Mutex<BTreeMap<u64, SimDisk>>>,
    started: Started,
}

impl Cluster {
    /// Starts all three and waits until the genesis is applied everywhere.
    pub(crate) async fn start() -> Cluster {
        let started = Started::default();
        let disks: BTreeMap<u64, SimDisk> = (1..=3).map(|id| (id, SimDisk::new())).collect();
        let disks = Arc::new(Mutex::new(disks));
        let handle = |id: u64| {
            let (disks, started) = (Arc::clone(&disks), Arc::clone(&started));
            let init = move || {
                let disk = disks.lock().expect("no panic")[&id].clone();
                node(id, disk, Arc::clone(&started))
            };
            let world = Handle::current();
            let builder = world.create_node().name(format!("n{id}"));
            (id, builder.ip(address(id).ip()).init(init).build())
        };
        let handles = (1..=3).map(handle).collect();
        let cluster = Cluster {
            handles,
            disks,
            started,
        };
        for id in 1..=3 {
            let node = cluster.node(id).await;
            cluster
                .until("genesis is applied", || node.place().size > 0)
                .await;
        }
        cluster
    }

    /// The running node.
    pub(crate) async fn node(&self, id: u64) -> Node {
        self.until("the node has started", || self.running(id).is_some())
            .await;
        self.running(id).expect("just seen")
    }

    fn running(&self, id: u64) -> Option<Node> {
        let started = self.started.lock().expect("no panic");
        started
            .get(&id)
            .and_then(|outcome| outcome.as_ref().ok())
            .cloned()
    }

    /// Why the node did not start.
    pub(crate) async fn refusal(&self, id: u64) -> StartError {
        self.until("the node has tried", || {
            self.started.lock().expect("no panic").contains_key(&id)
        })
        .await;
        let outcome = self.started.lock().expect("no panic").remove(&id);
        outcome.expect("just seen").expect_err("it must not start")
    }

    /// The leader of the highest term.
    pub(crate) async fn leader(&self) -> u64 {
        let leader = || {
            let running = (1..=3).filter_map(|id| self.running(id));
            let leaders = running.filter(Node::leads);
            leaders
                .map(|node| (node.metrics().term, node.node_id().0))
                .max()
        };
        self.until("there is a leader", || leader().is_some()).await;
        leader().expect("just seen").1
    }

    /// A read point asked for inside the node's own process, whose calls the network may cut.
    pub(crate) async fn read_point(
        &self,
        id: u64,
        deadline: Duration,
    ) -> Result<ReadPoint, ReadPointError> {
        let node = self.node(id).await;
        let asked = self.handles[&id].spawn(async move { node.read_point(deadline).await });
        asked.await.expect("the node lives")
    }

    /// Hands a command on to the peers, from inside the node's own process.
    pub(crate) async fn forward_reds(&self, id: u64, command: Vec<u8>) {
        let node = self.node(id).await;
        let handed = self.handles[&id].spawn(async move { node.forward_reds(&command).await });
        handed.await.expect("the node lives");
    }

    /// A command that anybody may ask for.
    pub(crate) fn command(&self) -> Vec<u8> {
        RawCommand::Checkpoint.to_canonical()
    }

    /// Commits one command, wherever the leader is.
    pub(crate) async fn checkpoint(&self) -> Committed {
        self.checkpoint_without(0).await
    }

    /// As `checkpoint`, asking any node but one.
    pub(crate) async fn checkpoint_without(&self, except: u64) -> Committed {
        let deadline = madsim::time::Instant::now() + PATIENCE;
        loop {
            for id in (1..=3).filter(|id| *id != except) {
                let Some(node) = self.running(id) else {
                    continue;
                };
                match node.propose(Class::Client, self.command(), PROPOSE).await {
                    Ok(committed) => return committed,
                    Err(ProposeError::LimitExceeded) => panic!("nothing else waits"),
                    Err(_) => assert!(madsim::time::Instant::now() < deadline, "no commit"),
                }
            }
            madsim::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Power loss: the process ends, and what was not synced is gone.
    pub(crate) async fn power_loss(&self, id: u64) {
        Handle::current().kill(self.handles[&id].id());
        self.started.lock().expect("no panic").remove(&id);
        self.disk(id).power_loss(0);
    }

    /// Starts the node again on its disk.
    pub(crate) fn boot(&self, id: u64) {
        Handle::current().restart(self.handles[&id].id());
    }

    fn disk(&self, id: u64) -> SimDisk {
        self.disks.lock().expect("no panic")[&id].clone()
    }

    /// What is durable on the disk.
    pub(crate) fn image(&self, id: u64) -> Image {
        self.disk(id).image()
    }

    /// Puts an older image back.
    pub(crate) fn rollback(&self, id: u64, image: &Image) {
        self.disk(id).rollback(image);
    }

    /// Puts an empty disk in.
    pub(crate) fn wipe(&self, id: u64) {
        self.disks
            .lock()
            .expect("no panic")
            .insert(id, SimDisk::new());
    }

    /// Cuts the node off from the others.
    pub(crate) fn isolate(&self, id: u64) {
        for other in (1..=3).filter(|other| *other != id) {
            NetSim::current().clog_link(self.handles[&id].id(), self.handles[&other].id());
            NetSim::current().clog_link(self.handles[&other].id(), self.handles[&id].id());
        }
    }

    /// Every link works again.
    pub(crate) fn heal(&self) {
        for one in self.handles.values() {
            for other in self.handles.values() {
                NetSim::current().unclog_link(one.id(), other.id());
            }
        }
    }

    /// Waits until all three have applied the same entry and have equal states.
    pub(crate) async fn agree(&self) {
        let states = || {
            let of = |node: Node| {
                let digest = node.read(|state| (state.digest(), state.head().root));
                let entry = node.place().entry.map(|entry| (entry.term, entry.index));
                (entry, digest)
            };
            (1..=3)
                .filter_map(|id| self.running(id))
                .map(of)
                .collect::<Vec<_>>()
        };
        self.until("all three agree", || {
            let states = states();
            states.len() == 3 && states.iter().all(|state| *state == states[0])
        })
        .await;
    }

    /// Waits for something that simulated time brings about.
    pub(crate) async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = madsim::time::Instant::now() + PATIENCE;
        while !holds() {
            assert!(
                madsim::time::Instant::now() < deadline,
                "not in time: {what}"
            );
            madsim::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The trust policy of the roster, nodes only.
    pub(crate) fn policy(&self) -> Policy {
        let genesis = organism();
        let organism: OrganismId = genesis.organism_id();
        let origin = Origin {
            stage: Stage::Development,
            organism,
            history: 0,
        };
        let nodes: Vec<NodeKeys> = genesis
            .roster
            .voters()
            .map(|node| NodeKeys {
                label: node.name.to_string(),
                log: node.log_key,
                cosigner: node.cosigner_key,
            })
            .collect();
        Policy::of_roster(&origin, &nodes, &[]).expect("a development policy")
    }
}
