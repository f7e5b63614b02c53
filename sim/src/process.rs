//! One node of the simulated cluster: its disk and clock, which outlive it, and the process that runs the
//! product's whole node over them.
//!
//! ```text
//!   Seat (disk, clock, probe) ──boot──▶ RecordedEngine ─▶ NodeProcess ─▶ exit, with its reason
//!                                                  └─▶ observer: states, leaders, trace
//! ```
//!
//! A process that ends by itself stays down until the world starts it again. Nothing is decided here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use redlatch_journal::Authority;
use redlatch_link::diagnostics::Diagnostics;
use redlatch_link::transport::{Credentials, Dialer};
use redlatch_link::world;
use redlatch_link::{PeerIdentity, Role, exit};
use redlatch_node::{NodeParts, NodeProcess, PartyAddresses, StartFailure};
use redlatch_raft::config::Timing;
use redlatch_raft::engine::SimDisk;
use redlatch_raft::node::{RaftNode, RaftRole};
use redlatch_raft::proposer::ProposerLimits;
use redlatch_raft::shared::WallClock;
use redlatch_types::Digest;

use crate::disk::{Lie, Probe, RecordedEngine};
use crate::history::History;
use crate::organism::{NODES, Organism, node_name};
use crate::states::States;
use crate::trace::{Trace, Who};

/// A handle to a running node.
pub type Raft = RaftNode<RecordedEngine>;

/// How often a node is asked whether it leads.
const LOOK: Duration = Duration::from_millis(50);

const PEERS_PORT: u16 = 7400;
const CLIENTS_PORT: u16 = 7401;

/// What everybody in one run shares.
#[derive(Clone)]
pub struct Stage {
    /// Who takes part.
    pub organism: Arc<Organism>,
    /// What was seen.
    pub history: Arc<Mutex<History>>,
    /// What is written down.
    pub trace: Trace,
    /// Authorities whose digest is known.
    pub states: Arc<Mutex<States>>,
    /// When the run began, by the true clock, whoever asks.
    pub begun: Instant,
    /// Where the parties of a decision listen, in a world that has them.
    pub parties: Arc<OnceLock<PartyAddresses>>,
}

impl Stage {
    /// Microseconds of simulated time since the run began.
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Writes a line.
    pub fn note(&self, who: Who, what: impl std::fmt::Display) {
        self.trace.add(self.now_us(), who, what);
    }

    /// A node shows its state after the entry at `index`; the digest of it.
    pub fn show_state(&self, node: u64, index: u64, authority: &Authority) -> Digest {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = states.digest(index, authority);
        History::show(&mut self.history().states, index, digest, node);
        digest
    }

    /// The history.
    pub fn history(&self) -> MutexGuard<'_, History> {
        // A panic of a node ends the run; the history stays readable for the report.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A node's place in the world.
pub struct Seat {
    /// Its number.
    pub id: u64,
    stage: Stage,
    /// Milliseconds that its clock is ahead.
    clock_ahead_ms: Arc<AtomicI64>,
    probe: Probe,
    lie: Lie,
    inner: Mutex<Inner>,
}

struct Inner {
    disk: SimDisk,
    raft: Option<Raft>,
    exit: Option<String>,
}

/// Where a node listens for its peers.
pub fn peers_address(node: u64) -> String {
    format!("10.0.0.{node}:{PEERS_PORT}")
}

/// Where a node listens for everybody else.
pub fn clients_address(node: u64) -> String {
    format!("10.0.0.{node}:{CLIENTS_PORT}")
}

impl Seat {
    /// A seat with a new disk and a true clock.
    pub fn new(id: u64, stage: Stage, lie: Lie) -> Seat {
        Seat {
            id,
            stage,
            clock_ahead_ms: Arc::default(),
            probe: Probe::default(),
            lie,
            inner: Mutex::new(Inner {
                disk: SimDisk::new(),
                raft: None,
                exit: None,
            }),
        }
    }

    /// The disk.
    pub fn disk(&self) -> SimDisk {
        self.lock().disk.clone()
    }

    /// Puts another disk in.
    pub fn replace_disk(&self, disk: SimDisk) {
        self.lock().disk = disk;
    }

    /// The trap in its engine.
    pub fn probe(&self) -> &Probe {
        &self.probe
    }

    /// The running node, if it runs.
    pub fn raft(&self) -> Option<Raft> {
        self.lock().raft.clone()
    }

    /// Why the last process ended by itself, if it did.
    pub fn exit(&self) -> Option<String> {
        self.lock().exit.clone()
    }

    /// Sets how far its clock is ahead, milliseconds.
    pub fn set_clock(&self, ahead_ms: i64) {
        self.clock_ahead_ms.store(ahead_ms, Ordering::Relaxed);
    }

    /// The process is gone: forgets its handles, so that its disk can be opened again.
    pub fn forget_process(&self) {
        let raft = {
            let mut inner = self.lock();
            inner.exit = None;
            inner.raft.take()
        };
        drop(raft);
    }

    /// The life of one process, from opening the disk to its end.
    pub async fn live(self: Arc<Self>) {
        self.stage.note(Who::Node(self.id), "starts");
        let reason = match self.run().await {
            Ok(()) => "stopped".to_owned(),
            Err(failure) => exit::chain(&failure),
        };
        self.stage
            .note(Who::Node(self.id), format_args!("exits: {reason}"));
        self.forget_process();
        self.disk().kill();
        self.lock().exit = Some(reason);
    }

    async fn run(self: &Arc<Self>) -> Result<(), StartFailure> {
        let mut process = NodeProcess::start(self.parts()?).await?;
        if let Some(parties) = self.stage.parties.get() {
            let organism = &self.stage.organism;
            let own = credentials(organism, Role::Node, &node_name(self.id));
            process.coordinate(&Dialer::new(own), parties)?;
        }
        self.lock().raft = Some(process.raft().clone());
        self.stage.note(Who::Node(self.id), "runs");
        world::spawn(observe(self.stage.clone(), self.id, process.raft().clone()));
        process.run(std::future::pending()).await
    }

    fn parts(&self) -> Result<NodeParts<RecordedEngine>, StartFailure> {
        let organism = &self.stage.organism;
        let stage = &self.stage;
        let engine = RecordedEngine::open(&self.disk(), self.id, stage, &self.probe, self.lie)
            .map_err(|fault| StartFailure::Raft(fault.into()))?;
        let others = (1..=NODES).filter(|node| *node != self.id);
        let peers: BTreeMap<String, String> = others
            .map(|node| (node_name(node), peers_address(node)))
            .collect();
        let diagnostics = Diagnostics::default();
        Ok(NodeParts {
            engine,
            genesis: organism.sealed.clone(),
            keys: organism.node_keys(self.id),
            number: 0,
            rejoin: false,
            credentials: credentials(organism, Role::Node, &node_name(self.id)),
            peers_address: socket(&peers_address(self.id)),
            clients_address: socket(&clients_address(self.id)),
            peers,
            clock: self.clock(),
            timing: Timing::default(),
            limits: ProposerLimits::default(),
            metrics: diagnostics.metrics,
            readiness: diagnostics.readiness,
        })
    }

    fn clock(&self) -> WallClock {
        let ahead = Arc::clone(&self.clock_ahead_ms);
        WallClock::new(move || {
            world::now_unix_ms().saturating_add_signed(ahead.load(Ordering::Relaxed))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The identity that a party shows.
pub fn credentials(organism: &Organism, role: Role, name: &str) -> Credentials {
    let identity =
        PeerIdentity::new(organism.id(), role, name).expect("names of this world are names");
    Credentials::simulated(identity)
}

pub(crate) fn socket(address: &str) -> SocketAddr {
    address
        .parse()
        .expect("addresses of this world are addresses")
}

/// Writes down when a node leads, for as long as its process lives.
async fn observe(stage: Stage, node: u64, raft: Raft) {
    let mut places = raft.watch_place();
    let mut led = None;
    loop {
        places.borrow_and_update();
        let metrics = raft.metrics();
        let leads = (metrics.role == RaftRole::Leader).then_some(metrics.term);
        if leads != led {
            led = leads;
            if let Some(term) = leads {
                History::show(&mut stage.history().leaders, term, node, node);
                stage.note(Who::Node(node), format_args!("leads term {term}"));
            } else {
                stage.note(
                    Who::Node(node),
                    format_args!("leads no more, term {}", metrics.term),
                );
            }
        }
        tokio::select! {
            biased;
            changed = places.changed() => if changed.is_err() { return },
            () = world::sleep(LOOK) => {}
        }
    }
}
