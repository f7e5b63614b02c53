//! The simulated cluster: nodes with disks that outlive them, and a network that can be cut.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use madsim::net::NetSim;
use madsim::runtime::{Handle, NodeHandle, Runtime};
use openraft::CommittedLeaderId;
use redlatch_journal::State;
use redlatch_journal::development::genesis;
use redlatch_journal::registry::FEATURE_LEVEL;
use redlatch_link::identity::{PeerIdentity, Role};
use redlatch_link::transport::{Credentials, Dialer, Limits, Listener, Routes, serve};
use redlatch_link::world::now_unix_ms;
use redlatch_proto::v1;
use redlatch_raft::config::{Entry, LogId, Timing};
use redlatch_raft::cosign::NodeSigningKeys;
use redlatch_raft::engine::{Image, SimDisk, SimEngine};
use redlatch_raft::membership::Step;
use redlatch_raft::node::{RaftNode, RaftNodeConfig, StartError};
use redlatch_raft::proposer::{Class, Committed, ProposeError, ProposerLimits};
use redlatch_raft::read_point::{ReadPoint, ReadPointError};
use redlatch_raft::shared::WallClock;
use redlatch_types::chain::Trust;
use redlatch_types::command::RawCommand;
use redlatch_types::event::Accepted;
use redlatch_types::policy::Policy;
use redlatch_types::records::{
    ActionPayload, GenesisV1, RejoinV1, RosterNode, RosterPayload, RosterV1, Seat,
};
use redlatch_types::{Canonical, Envelope, NodeId};

/// The journal's own small world: parties, persons, keys.
#[path = "../../core/tests/world/mod.rs"]
mod journal;
use journal::{Person, ROOT, START, World, key, parties};

type Node = RaftNode<SimEngine>;

const PROPOSE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);
/// Every node that there may ever be.
const NODES: std::ops::RangeInclusive<u64> = 1..=7;

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

fn keys(id: u64) -> NodeSigningKeys {
    let id = u8::try_from(id).expect("small");
    NodeSigningKeys {
        log: Arc::new(key(100 + id)),
        cosigner: Arc::new(key(110 + id)),
        record: Arc::new(key(120 + id)),
    }
}

/// What a roster says of a node.
pub(crate) fn roster_node(id: u64, seat: Seat) -> RosterNode {
    RosterNode {
        node_id: NodeId(id),
        name: journal::id(&format!("n{id}")),
        seat,
        log_key: keys(id).log.public_key(),
        cosigner_key: keys(id).cosigner.public_key(),
        record_key: keys(id).record.public_key(),
    }
}

/// Nodes 1 to 3, with persons who may change the roster.
fn organism() -> GenesisV1 {
    let mut record = genesis(parties());
    record.feature_level = FEATURE_LEVEL;
    record
}

fn address(id: u64) -> SocketAddr {
    format!("10.0.0.{id}:5000").parse().expect("an address")
}

/// How a node is started.
#[derive(Clone)]
struct Boot {
    disk: SimDisk,
    returns: bool,
    /// What the clocks show at the beginning: state time is that of the genesis.
    began_ms: u64,
}

async fn node(id: u64, boot: Boot, started: Started) {
    let genesis = organism();
    let organism = genesis.organism_id();
    let identity = PeerIdentity::new(organism, Role::Node, format!("n{id}")).expect("a name");
    let credentials = Credentials::simulated(identity);
    let others = NODES.filter(|other| *other != id);
    let opened = RaftNode::open(RaftNodeConfig {
        node_id: NodeId(id),
        name: journal::id(&format!("n{id}")),
        engine: boot.disk.open().expect("the disk opens"),
        genesis: Envelope::seal(genesis.scope(), &key(ROOT), &genesis),
        keys: keys(id),
        peers: others
            .map(|other| (format!("n{other}"), address(other).to_string()))
            .collect(),
        returns: boot.returns,
        dialer: Dialer::new(credentials.clone()),
        clock: WallClock::new(move || START + now_unix_ms() - boot.began_ms),
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

/// Three nodes, and those that join them.
pub(crate) struct Cluster {
    handles: BTreeMap<u64, NodeHandle>,
    boots: Arc<Mutex<BTreeMap<u64, Boot>>>,
    started: Started,
    began_ms: u64,
}

impl Cluster {
    /// Starts all three and waits until the genesis is applied everywhere.
    pub(crate) async fn start() -> Cluster {
        let mut cluster = Cluster {
            handles: BTreeMap::new(),
            boots: Arc::default(),
            started: Started::default(),
            began_ms: now_unix_ms(),
        };
        for id in 1..=3 {
            cluster.add(id);
        }
        for id in 1..=3 {
            let node = cluster.node(id).await;
            cluster
                .until("genesis is applied", || node.place().size > 0)
                .await;
        }
        cluster
    }

    /// Starts a node on an empty disk.
    pub(crate) fn add(&mut self, id: u64) {
        let boot = Boot {
            disk: SimDisk::new(),
            returns: false,
            began_ms: self.began_ms,
        };
        self.boots.lock().expect("no panic").insert(id, boot);
        let (boots, started) = (Arc::clone(&self.boots), Arc::clone(&self.started));
        let init = move || {
            let boot = boots.lock().expect("no panic")[&id].clone();
            node(id, boot, Arc::clone(&started))
        };
        let here = Handle::current();
        let builder = here.create_node().name(format!("n{id}"));
        let handle = builder.ip(address(id).ip()).init(init).build();
        self.handles.insert(id, handle);
    }

    /// The running node.
    pub(crate) async fn node(&self, id: u64) -> Node {
        self.until("the node has started", || self.running(id).is_some())
            .await;
        self.running(id).expect("just seen")
    }

    pub(crate) fn running(&self, id: u64) -> Option<Node> {
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
            let running = NODES.filter_map(|id| self.running(id));
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
        self.commit_without(except, self.command()).await
    }

    /// Commits a command, asking any node but one.
    async fn commit_without(&self, except: u64, command: Vec<u8>) -> Committed {
        let deadline = madsim::time::Instant::now() + PATIENCE;
        loop {
            for id in NODES.filter(|id| *id != except) {
                let Some(node) = self.running(id) else {
                    continue;
                };
                match node.propose(Class::Client, command.clone(), PROPOSE).await {
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

    /// Starts the node again; a disk that lost something comes back by `Rejoin`.
    pub(crate) fn boot_returning(&self, id: u64) {
        let mut boots = self.boots.lock().expect("no panic");
        boots.get_mut(&id).expect("known").returns = true;
        drop(boots);
        self.boot(id);
    }

    fn disk(&self, id: u64) -> SimDisk {
        self.boots.lock().expect("no panic")[&id].disk.clone()
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
        let mut boots = self.boots.lock().expect("no panic");
        boots.get_mut(&id).expect("known").disk = SimDisk::new();
    }

    /// Cuts the node off from the others.
    pub(crate) fn isolate(&self, id: u64) {
        for other in self.handles.keys().filter(|other| **other != id) {
            NetSim::current().clog_link(self.handles[&id].id(), self.handles[other].id());
            NetSim::current().clog_link(self.handles[other].id(), self.handles[&id].id());
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

    /// Waits until the first three have applied the same entry and have equal states.
    pub(crate) async fn agree(&self) {
        self.agree_among(&[1, 2, 3]).await;
    }

    /// Waits until these have applied the same entry and have equal states.
    pub(crate) async fn agree_among(&self, ids: &[u64]) {
        let states = || {
            let of = |node: Node| {
                let digest = node.read(|state| (state.digest(), state.head().root));
                let entry = node.place().entry.map(|entry| (entry.term, entry.index));
                (entry, digest)
            };
            ids.iter()
                .filter_map(|id| self.running(*id))
                .map(of)
                .collect::<Vec<_>>()
        };
        self.until("all agree", || {
            let states = states();
            states.len() == ids.len() && states.iter().all(|state| *state == states[0])
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

    /// The trust policy of the genesis' roster, nodes only.
    pub(crate) fn policy(&self) -> Policy {
        let trust = Trust::of_genesis(&organism(), 0).expect("a development policy");
        trust.policy().clone()
    }

    /// Trust in the genesis, for whoever follows the chain of rosters from there.
    pub(crate) fn trust(&self) -> Trust {
        Trust::of_genesis(&organism(), 0).expect("a development policy")
    }

    /// Commits a command that has to be accepted. A repeat is answered with the first outcome.
    pub(crate) async fn submit(&self, command: &RawCommand) -> Accepted {
        let committed = self.commit_without(0, command.to_canonical()).await;
        committed.outcome.reply.expect("accepted")
    }

    /// The state as the leader has applied it.
    pub(crate) async fn state(&self) -> State {
        let leader = self.leader().await;
        self.node(leader).await.read(State::clone)
    }

    /// The roster as the leader has applied it.
    pub(crate) async fn roster(&self) -> RosterV1 {
        let state = self.state().await;
        state.authority.governance.expect("after genesis").roster
    }

    /// An append that `sender`, whose process is down, sends to `target` as the leader of the next term.
    /// `make` gives term, previous log id and entries; it is told how log ids of that term are made. Says
    /// how far the target's log agrees afterwards; `None` for all of it.
    pub(crate) async fn append_as(
        &self,
        sender: u64,
        target: u64,
        make: impl FnOnce(&dyn Fn(u64) -> LogId) -> (u64, (u64, u64), Vec<Entry>),
    ) -> Option<(u64, u64)> {
        let node = self.running(target).expect("it runs");
        let (next_term, base) = (node.metrics().term + 1, node.place().entry);
        let base = base.map_or(0, |entry| entry.index);
        let log_id = |at| LogId::new(CommittedLeaderId::new(next_term, 0), base + at);
        let (term, (before, index), entries) = make(&log_id);
        let mut client = client_of(sender, target);
        let message = v1::AppendRequest {
            sender,
            vote: Some(v1::RaftVote {
                term,
                node: Some(sender),
                committed: true,
            }),
            previous: Some(v1::RaftLogId {
                term: before,
                index,
            }),
            committed: None,
            entries: entries.iter().map(redlatch_raft::entry::encode).collect(),
            rows: Vec::new(),
        };
        // Sent from a process that lives; who calls is said by the introduction.
        let sent = self.handles[&target].spawn(async move { client.append(message).await });
        let answer = sent.await.expect("it lives").expect("answered");
        match answer.into_inner().result.expect("a result") {
            v1::append_response::Result::Success(_) => None,
            v1::append_response::Result::Partial(partial) => {
                partial.matching.map(|at| (at.term, at.index))
            }
            other => panic!("{other:?}"),
        }
    }

    /// The return of node `about`, signed with its key, brought to `target` by `caller`. Says why it was not
    /// taken.
    pub(crate) async fn rejoin_as(
        &self,
        caller: u64,
        target: u64,
        about: u64,
    ) -> Option<tonic::Code> {
        let state = self.state().await;
        let governance = state.authority.governance.expect("after genesis");
        let record = RejoinV1 {
            node_id: NodeId(about),
            roster_epoch: governance.roster.roster_epoch,
            incarnation: 9,
            record_key: keys(about).record.public_key(),
        };
        let envelope = Envelope::seal(organism().scope(), &keys(about).record, &record);
        let message = v1::RejoinRequest {
            sender: caller,
            command: RawCommand::Rejoin(envelope).to_canonical(),
        };
        let mut client = client_of(caller, target);
        let sent = self.handles[&caller].spawn(async move { client.rejoin(message).await });
        sent.await
            .expect("it lives")
            .err()
            .map(|status| status.code())
    }

    /// Waits until the leader's membership is the roster.
    pub(crate) async fn followed(&self) {
        self.until("the membership follows", || {
            let mut leaders = NODES.filter_map(|id| self.running(id)).filter(Node::leads);
            leaders.any(|node| node.metrics().step == Some(Step::Followed))
        })
        .await;
    }
}

/// A client of `target`'s peer service as the node `caller`.
fn client_of(caller: u64, target: u64) -> redlatch_link::client_type!(v1::peer_client::PeerClient) {
    let identity = |id| {
        PeerIdentity::new(organism().organism_id(), Role::Node, format!("n{id}")).expect("a name")
    };
    let dialer = Dialer::new(Credentials::simulated(identity(caller)));
    let link = dialer.channel(&address(target).to_string(), &identity(target));
    let link = link.expect("an address");
    v1::peer_client::PeerClient::with_interceptor(link.channel(), link.introduction())
}

/// The persons who change the roster.
pub(crate) struct Persons {
    world: World,
    alice: Person,
}

impl Persons {
    pub(crate) fn new() -> Persons {
        Persons {
            world: World::before_genesis(),
            alice: journal::alice(),
        }
    }

    /// From a proposal to its effect: frozen, decided by a person, committed, activated. Says how many
    /// leaves the journal has after it.
    pub(crate) async fn change(&mut self, cluster: &Cluster, change: RosterPayload) -> u64 {
        let Persons { world, alice } = self;
        world.state = cluster.state().await;
        let proposal = world.change(ActionPayload::RosterChange(Box::new(change)));
        let freeze = world.freeze_command(journal::GOVERNOR, "governor", &proposal);
        let Accepted::Frozen(intent) = cluster.submit(&freeze).await else {
            panic!("not frozen");
        };
        let open = world.challenge_command(intent, alice);
        let Accepted::ChallengeIssued(challenge) = cluster.submit(&open).await else {
            panic!("no challenge");
        };
        world.state = cluster.state().await;
        let approval = world.approve(challenge, alice);
        let authorize = world.human_authorization(intent, vec![approval]);
        let Accepted::Authorized(capability) = cluster.submit(&authorize).await else {
            panic!("not authorized");
        };
        let prepare = RawCommand::Prepare(intent, capability);
        let Accepted::Prepared(transaction) = cluster.submit(&prepare).await else {
            panic!("not prepared");
        };
        cluster.submit(&RawCommand::Commit(transaction)).await;
        let activate = RawCommand::Activate(transaction).to_canonical();
        let activated = cluster.commit_without(0, activate).await;
        activated.outcome.reply.expect("activated");
        activated.positions.end
    }
}
