//! The parties of a decision and of a stop in the simulated world: four verifiers, the sentinel and the
//! actuator, each the product's whole process on a disk that outlives it.
//!
//! ```text
//!   va 10.0.2.1   vb 10.0.2.2   vc 10.0.2.3   vd 10.0.2.4      sentinel 10.0.3.1     actuator 10.0.3.2
//!   Post (disk) ──boot──▶ VerifierProcess │ SentinelProcess │ ActuatorProcess ─▶ exit, with its reason
//! ```
//!
//! Evaluators approve whatever they are shown: what they look at is not simulated. Nothing is decided here.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use madsim::net::NetSim;
use madsim::runtime::{Handle, NodeHandle};
use madsim::task::NodeId;
use redlatch_actuator::{ActuatorParts, ActuatorProcess};
use redlatch_ballot::FrozenIntent;
use redlatch_link::diagnostics::{Readiness, Registry};
use redlatch_link::passphrase::Passphrase;
use redlatch_link::store::{SimDisk, SyncFailure};
use redlatch_link::{Role, exit, world};
use redlatch_node::PartyAddresses;
use redlatch_sentinel::rules::{RulesConfig, rules};
use redlatch_sentinel::{SentinelParts, SentinelProcess};
use redlatch_types::Name;
use redlatch_verifier::evaluate::{Evaluator, Panel, Report};
use redlatch_verifier::{StretchCost, VerifierParts, VerifierProcess};

use crate::kept::RecordedStore;
use crate::organism::{ACTUATOR, NODES, SENTINEL, VERIFIERS, node_name};
use crate::party_faults::{Party, PartyFault, everybody};
use crate::process::{Stage, clients_address, credentials, socket};
use crate::trace::Who;
use crate::world::World;

/// Where the sentinel listens.
pub const SENTINEL_ADDRESS: &str = "10.0.3.1:7600";
const RED_LINE: &str = "10.0.3.2:7700";
const HOLD_LINE: &str = "10.0.3.2:7701";
/// What the sentinel lets be acted on.
const ALLOWED: &str = "repo:refs/heads/";
/// Nobody tries a simulated passphrase: stretching it protects nothing.
const LIGHT: StretchCost = StretchCost {
    memory_kib: 8,
    passes: 1,
};

/// Which of the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Verifier,
    Sentinel,
    Actuator,
}

/// One party's place in the world.
struct Post {
    who: &'static str,
    kind: Kind,
    stage: Stage,
    disk: SimDisk,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    is_up: bool,
    readiness: Option<Readiness>,
    exit: Option<String>,
}

impl Inner {
    fn starting() -> Inner {
        Inner {
            is_up: true,
            ..Inner::default()
        }
    }
}

/// All parties, by name, and the nodes as the simulation knows them.
pub struct Parties {
    stage: Stage,
    posts: BTreeMap<Party, (Arc<Post>, NodeHandle)>,
    nodes: Vec<NodeId>,
}

/// Where a verifier listens.
fn verifier_address(name: &str) -> String {
    let at = VERIFIERS.iter().zip(1..).find(|(it, _)| it.0 == name);
    let at: u8 = at.map(|(_, at)| at).expect("one of the four");
    format!("10.0.2.{at}:7500")
}

fn verifiers_but(but: &str) -> BTreeMap<String, String> {
    let names = VERIFIERS.iter().map(|it| it.0).filter(|name| *name != but);
    names
        .map(|name| (name.to_owned(), verifier_address(name)))
        .collect()
}

fn nodes() -> BTreeMap<String, String> {
    (1..=NODES)
        .map(|node| (node_name(node), clients_address(node)))
        .collect()
}

impl Parties {
    /// Starts everybody and tells the nodes where they are. Call it before the world's first moment has
    /// passed: a node looks once, when it starts.
    pub fn gather(world: &World) -> Parties {
        let addresses = PartyAddresses {
            verifiers: verifiers_but(""),
            sentinel: Some(SENTINEL_ADDRESS.to_owned()),
        };
        world.stage.parties.get_or_init(|| addresses);
        let verifiers = VERIFIERS
            .iter()
            .map(|(name, _)| (*name, Kind::Verifier, verifier_address(name)));
        let others = [
            (SENTINEL, Kind::Sentinel, SENTINEL_ADDRESS.to_owned()),
            (ACTUATOR, Kind::Actuator, RED_LINE.to_owned()),
        ];
        let all = verifiers.chain(others);
        Parties {
            stage: world.stage.clone(),
            posts: all
                .map(|(who, kind, address)| (who, place(&world.stage, who, kind, &address)))
                .collect(),
            nodes: world.node_ids(),
        }
    }

    /// Carries out a fault. What makes no sense at this moment does nothing.
    pub fn do_to(&self, fault: PartyFault) {
        self.stage.note(Who::World, fault);
        match fault {
            PartyFault::Kill(who) => self.kill(who),
            PartyFault::StartAll => everybody().into_iter().for_each(|who| self.start(who)),
            PartyFault::Pause(who) if self.post(who).is_up() => {
                Handle::current().pause(self.id(who));
            }
            PartyFault::Pause(_) => {}
            PartyFault::ResumeAll => {
                let up = self.posts.values().filter(|it| it.0.is_up());
                up.for_each(|(_, handle)| Handle::current().resume(handle.id()));
            }
            PartyFault::Cut(who, node) => self.part(self.id(who), self.node(node)),
            PartyFault::CutOff(who) => {
                let nodes = self.nodes.iter();
                nodes.for_each(|node| self.part(self.id(who), *node));
            }
            PartyFault::Apart(one, other) => self.part(self.id(one), self.id(other)),
            PartyFault::Deaf(who, node) => {
                NetSim::current().clog_link(self.node(node), self.id(who));
            }
            PartyFault::Heal => self.heal(),
            PartyFault::Clock(who, ahead_ms, percent) => {
                world::set_clock(self.id(who), ahead_ms, percent);
            }
            PartyFault::FailedSync(who) => {
                self.post(who).disk.fail_next_sync(SyncFailure::Lost);
            }
        }
    }

    /// Ends every fault and starts everybody.
    pub fn repair(&self) {
        self.do_to(PartyFault::Heal);
        self.do_to(PartyFault::ResumeAll);
        for who in everybody() {
            self.do_to(PartyFault::Clock(who, 0, 100));
            self.post(who).disk.fail_no_sync();
        }
        self.do_to(PartyFault::StartAll);
    }

    /// SIGKILL and power loss at once: what is not durable is gone.
    pub fn kill(&self, who: Party) {
        let post = self.post(who);
        self.stage.note(Who::Party(who), "is killed");
        self.stage.history().calm_since_us = None;
        Handle::current().kill(self.id(who));
        post.disk.crash();
        *post.lock() = Inner::default();
    }

    /// Starts one that is down, by a fault or by itself, on its disk.
    pub fn start(&self, who: Party) {
        let post = self.post(who);
        if post.is_up() {
            return;
        }
        // Nothing is left of a process that ended by itself.
        Handle::current().kill(self.id(who));
        *post.lock() = Inner::starting();
        Handle::current().restart(self.id(who));
    }

    /// How many commits its disk has synced.
    pub fn syncs(&self, who: Party) -> usize {
        self.post(who).disk.syncs()
    }

    /// Kills it and brings its disk back to what it was after so many commits.
    pub fn roll_back(&self, who: Party, syncs: usize) {
        self.kill(who);
        let disk = &self.post(who).disk;
        let commits = disk.syncs().saturating_sub(syncs);
        disk.rollback(commits);
        let what = format_args!("its disk goes back by {commits} commits");
        self.stage.note(Who::Party(who), what);
    }

    /// Why it has ended by itself, if it has.
    pub fn exit(&self, who: Party) -> Option<String> {
        self.post(who).lock().exit.clone()
    }

    fn post(&self, who: Party) -> &Post {
        &self.posts[who].0
    }

    fn id(&self, who: Party) -> NodeId {
        self.posts[who].1.id()
    }

    fn node(&self, node: u64) -> NodeId {
        let slot = usize::try_from(node - 1).expect("three nodes");
        self.nodes[slot]
    }

    fn part(&self, one: NodeId, other: NodeId) {
        NetSim::current().clog_link(one, other);
        NetSim::current().clog_link(other, one);
    }

    fn heal(&self) {
        let parties = || self.posts.values().map(|(_, handle)| handle.id());
        for one in parties() {
            for other in self.nodes.iter().copied().chain(parties()) {
                NetSim::current().unclog_link(one, other);
                NetSim::current().unclog_link(other, one);
            }
        }
    }

    /// Whether it runs and waits for nothing.
    pub fn is_ready(&self, who: Party) -> bool {
        let inner = self.post(who).lock();
        inner.readiness.as_ref().is_some_and(Readiness::is_ready)
    }

    /// Somebody who has ended by itself, and why.
    pub fn ended(&self) -> Option<String> {
        self.posts.values().find_map(|(post, _)| {
            let exit = post.lock().exit.clone()?;
            Some(format!("{} ended: {exit}", post.who))
        })
    }
}

fn place(stage: &Stage, who: &'static str, kind: Kind, address: &str) -> (Arc<Post>, NodeHandle) {
    let post = Arc::new(Post {
        who,
        kind,
        stage: stage.clone(),
        disk: SimDisk::new(),
        inner: Mutex::new(Inner::starting()),
    });
    let own = Arc::clone(&post);
    let handle = Handle::current()
        .create_node()
        .name(who)
        .ip(socket(address).ip())
        .init(move || Arc::clone(&own).live())
        .build();
    (post, handle)
}

impl Post {
    fn is_up(&self) -> bool {
        self.lock().is_up
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of one process, from opening the disk to its end.
    async fn live(self: Arc<Self>) {
        self.stage.note(Who::Party(self.who), "starts");
        let readiness = Readiness::new();
        self.lock().readiness = Some(readiness.clone());
        let ended = match self.kind {
            Kind::Verifier => self.verifier(readiness).await,
            Kind::Sentinel => self.sentinel(readiness).await,
            Kind::Actuator => self.actuator(readiness).await,
        };
        let reason = ended.err().unwrap_or_else(|| "stopped".to_owned());
        self.stage
            .note(Who::Party(self.who), format_args!("exits: {reason}"));
        self.disk.crash();
        *self.lock() = Inner {
            exit: Some(reason),
            ..Inner::default()
        };
    }

    async fn verifier(&self, readiness: Readiness) -> Result<(), String> {
        let organism = &self.stage.organism;
        let store = self.disk.open().map_err(chain)?;
        let parts = VerifierParts {
            store: RecordedStore::new(store, self.who, self.stage.clone()),
            genesis: organism.sealed.clone(),
            policy: organism.policy(),
            vote_key: organism.party_key(self.who),
            passphrase: Passphrase::new(self.who.into()),
            stretch: LIGHT,
            panel: Panel::new(vec![Arc::new(Approves)], Duration::from_secs(5)),
            credentials: credentials(organism, Role::Verifier, self.who),
            address: socket(&verifier_address(self.who)),
            nodes: nodes(),
            fellows: verifiers_but(self.who),
            rng: world::rng(),
            metrics: Registry::new(),
            readiness,
        };
        let process = VerifierProcess::start(parts).await.map_err(chain)?;
        let boot = process.generation();
        self.stage
            .note(Who::Party(self.who), format_args!("runs, boot {boot}"));
        process.run(std::future::pending()).await.map_err(chain)
    }

    async fn sentinel(&self, readiness: Readiness) -> Result<(), String> {
        let organism = &self.stage.organism;
        let config = RulesConfig {
            allowed: vec![ALLOWED.to_owned()],
            ..RulesConfig::default()
        };
        let parts = SentinelParts {
            store: self.disk.open().map_err(chain)?,
            genesis: organism.sealed.clone(),
            policy: organism.policy(),
            key: organism.party_key(SENTINEL),
            rules: rules(&config).map_err(chain)?,
            verdict_ttl_ms: config.verdict_ttl_ms,
            credentials: credentials(organism, Role::Sentinel, SENTINEL),
            address: socket(SENTINEL_ADDRESS),
            nodes: nodes(),
            actuator: RED_LINE.to_owned(),
            rng: world::rng(),
            metrics: Registry::new(),
            readiness,
        };
        let process = SentinelProcess::start(parts).await.map_err(chain)?;
        let writer = process.generation();
        self.stage
            .note(Who::Party(self.who), format_args!("runs, writer {writer}"));
        process.run(std::future::pending()).await.map_err(chain)
    }

    async fn actuator(&self, readiness: Readiness) -> Result<(), String> {
        let organism = &self.stage.organism;
        let parts = ActuatorParts {
            store: self.disk.open().map_err(chain)?,
            genesis: organism.sealed.clone(),
            policy: organism.policy(),
            key: organism.party_key(ACTUATOR),
            credentials: credentials(organism, Role::Actuator, ACTUATOR),
            red_line: socket(RED_LINE),
            hold_line: socket(HOLD_LINE),
            nodes: nodes(),
            rng: world::rng(),
            metrics: Registry::new(),
            readiness,
        };
        let process = ActuatorProcess::start(parts).await.map_err(chain)?;
        self.stage.note(Who::Party(self.who), "runs");
        process.run(std::future::pending()).await.map_err(chain)
    }
}

fn chain(failure: impl Error) -> String {
    exit::chain(&failure)
}

/// An evaluator that has seen something good.
struct Approves;

impl Evaluator for Approves {
    fn name(&self) -> Name {
        Name::new("approves").expect("a constant name is a name")
    }

    fn evaluate<'a>(&'a self, _: &'a FrozenIntent) -> BoxFuture<'a, Result<Report, String>> {
        let report = Report {
            seen: vec!["it is simulated".to_owned()],
            against: Vec::new(),
        };
        Box::pin(async move { Ok(report) })
    }
}
