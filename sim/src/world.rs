//! One simulated world: three nodes with their disks and clocks, the network between them, the faults that
//! are done to them, and the judgement at every step.
//!
//! ```text
//!   Seed ─▶ organism, network, plan
//!            n1 10.0.0.1   n2 10.0.0.2   n3 10.0.0.3      everybody else 10.0.1.1
//!   do_to(Fault) ─▶ madsim: kill, restart, pause, clog      disks: kill, power_loss, rollback
//!   run(span)    ─▶ simulated time passes, invariants::check at every step
//! ```
//!
//! A scenario decides what happens when; this file only carries it out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use madsim::net::NetSim;
use madsim::runtime::{Handle, NodeHandle};
use madsim::task::NodeId;
use redlatch_link::world::{self as link, Monotonic};
use redlatch_raft::engine::SimDisk;

use crate::disk::Lie;
use crate::faults::Fault;
use crate::history::DiskEvent;
use crate::invariants::{self, Violation};
use crate::organism::{NODES, Organism, node_name};
use crate::process::{Raft, Seat, Stage};
use crate::seed::Seed;
use crate::trace::{Trace, Who};

/// Simulated time between two judgements.
const STEP: Duration = Duration::from_millis(500);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Why a run fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A safety property does not hold.
    #[error(transparent)]
    Violated(#[from] Violation),
    /// The cluster does not get where it must.
    #[error("liveness: {what} did not happen within {span:?} of simulated time")]
    Stuck {
        /// What was waited for.
        what: String,
        /// For how long.
        span: Duration,
    },
    /// Something that a scenario asserts is not so.
    #[error("scenario: {0}")]
    Unexpected(String),
}

/// A node as the world handles it.
struct Machine {
    seat: Arc<Seat>,
    handle: NodeHandle,
    is_up: bool,
}

/// The world of one run.
pub struct World {
    /// Where everything draws from.
    pub seed: Seed,
    /// What everybody shares.
    pub stage: Stage,
    machines: Vec<Machine>,
    outside: NodeHandle,
    /// Judgements so far.
    pub steps: u64,
}

impl World {
    /// A world with three nodes that are up, on healthy disks and a healthy network. Call it inside the
    /// simulation.
    pub fn new(seed: Seed, trace: Trace, lie: Lie) -> World {
        let stage = Stage {
            organism: Arc::new(Organism::new(seed, link::now_unix_ms())),
            history: Arc::default(),
            trace,
            states: Arc::default(),
            begun: Instant::now(),
            parties: Arc::default(),
        };
        let handle = Handle::current();
        let outside = handle
            .create_node()
            .name("outside")
            .ip([10, 0, 1, 1].into())
            .build();
        let mut world = World {
            seed,
            stage,
            machines: Vec::new(),
            outside,
            steps: 0,
        };
        for id in 1..=NODES {
            let seat = Arc::new(Seat::new(id, world.stage.clone(), lie));
            let own = Arc::clone(&seat);
            let ip = format!("10.0.0.{id}").parse().expect("an address");
            let node = handle
                .create_node()
                .name(node_name(id))
                .ip(ip)
                .init(move || Arc::clone(&own).live())
                .build();
            world.machines.push(Machine {
                seat,
                handle: node,
                is_up: true,
            });
            world.set_disk(id, 1, 6);
        }
        world.set_network(1, 5);
        world
    }

    /// Runs a party outside of the cluster for as long as the world lives.
    pub fn spawn<F: Future<Output = ()> + Send + 'static>(&self, party: F) {
        self.outside.spawn(party);
    }

    /// A node's seat.
    pub fn seat(&self, node: u64) -> &Arc<Seat> {
        &self.machine(node).seat
    }

    /// The nodes as the simulation knows them, ascending.
    pub fn node_ids(&self) -> Vec<NodeId> {
        self.machines.iter().map(|it| it.handle.id()).collect()
    }

    /// Every seat, ascending.
    pub fn seats(&self) -> impl Iterator<Item = &Arc<Seat>> {
        self.machines.iter().map(|machine| &machine.seat)
    }

    /// The node that leads in the highest term, by its own word.
    pub fn leader(&self) -> Option<(u64, Raft)> {
        leader_of(self.seats())
    }

    /// Lets time pass and judges at every step.
    ///
    /// # Errors
    /// The first violation.
    pub async fn run(&mut self, span: Duration) -> Result<(), Failure> {
        let begun = Monotonic::now();
        while begun.elapsed() < span {
            link::sleep(STEP.min(span.saturating_sub(begun.elapsed()))).await;
            self.judge()?;
        }
        Ok(())
    }

    /// Lets time pass until `met` says so, looking every 10 ms and judging at every step.
    ///
    /// # Errors
    /// The first violation, or [`Failure::Stuck`].
    pub async fn until<T>(
        &mut self,
        what: &str,
        span: Duration,
        mut met: impl FnMut(&World) -> Option<T>,
    ) -> Result<T, Failure> {
        let begun = Monotonic::now();
        let mut judged = Monotonic::now();
        loop {
            if let Some(value) = met(self) {
                self.judge()?;
                return Ok(value);
            }
            if begun.elapsed() >= span {
                self.judge()?;
                return Err(Failure::Stuck {
                    what: what.to_owned(),
                    span,
                });
            }
            if judged.elapsed() >= STEP {
                self.judge()?;
                judged = Monotonic::now();
            }
            link::sleep(LOOK).await;
            self.bury();
        }
    }

    /// Checks every invariant.
    ///
    /// # Errors
    /// The first violation.
    pub fn judge(&mut self) -> Result<(), Failure> {
        self.steps += 1;
        self.bury();
        let mut history = self.stage.history();
        history.judged_us = self.stage.now_us();
        Ok(invariants::check(&history)?)
    }

    /// From here on nothing goes wrong any more.
    pub fn calm(&self) {
        self.stage.history().calm_since_us = Some(self.stage.now_us());
    }

    /// Carries out a fault. What makes no sense at this moment does nothing.
    pub fn do_to(&mut self, fault: Fault) {
        self.stage.note(Who::World, fault);
        match fault {
            Fault::Kill(node) => self.kill(node),
            Fault::PowerLoss(node, keep) => self.power_loss(&[node], keep),
            Fault::PowerLossEverywhere(keep) => {
                let all: Vec<u64> = (1..=NODES).collect();
                self.power_loss(&all, keep);
            }
            Fault::StartAll => (1..=NODES).for_each(|node| self.start(node)),
            Fault::Isolate(node) => {
                for peer in (1..=NODES).filter(|peer| *peer != node) {
                    self.clog(node, peer);
                    self.clog(peer, node);
                }
            }
            Fault::OneWay(from, to) => self.clog(from, to),
            Fault::Heal => self.heal(),
            Fault::Pause(node) if self.machine(node).is_up => {
                Handle::current().pause(self.machine(node).handle.id());
            }
            Fault::Pause(_) => {}
            Fault::ResumeAll => {
                for machine in self.machines.iter().filter(|machine| machine.is_up) {
                    Handle::current().resume(machine.handle.id());
                }
            }
            Fault::SlowDisk(node, ms) => self.set_disk(node, 1, ms + 1),
            Fault::FailedSync(node) => self.seat(node).disk().fail_syncs(1),
            Fault::Clock(node, ahead_ms) => self.seat(node).set_clock(ahead_ms),
            Fault::SlowNetwork(ms) => self.set_network(1, ms),
        }
    }

    /// SIGKILL.
    fn kill(&mut self, node: u64) {
        self.take_down(node);
        self.seat(node).disk().kill();
    }

    /// The power goes on all of them at the same moment.
    fn power_loss(&mut self, nodes: &[u64], keep: usize) {
        for node in nodes {
            self.take_down(*node);
            let lost = self.seat(*node).disk().power_loss(keep);
            self.stage.note(
                Who::Node(*node),
                format_args!("lost {lost} unsynced writes"),
            );
        }
    }

    /// Ends the process, however it is, and forgets its handles.
    fn take_down(&mut self, node: u64) {
        let machine = self.machine_mut(node);
        machine.is_up = false;
        Handle::current().kill(machine.handle.id());
        machine.seat.forget_process();
    }

    /// Starts a node that is down, by a fault or by itself.
    pub fn start(&mut self, node: u64) {
        self.bury();
        let machine = self.machine_mut(node);
        if machine.is_up {
            return;
        }
        machine.is_up = true;
        machine.seat.forget_process();
        machine.seat.disk().kill();
        Handle::current().restart(machine.handle.id());
    }

    /// A process that has ended by itself: the system closes its sockets.
    fn bury(&mut self) {
        for machine in &mut self.machines {
            if machine.is_up && machine.seat.exit().is_some() {
                machine.is_up = false;
                Handle::current().kill(machine.handle.id());
            }
        }
    }

    /// Puts another disk into a node that is down: an older image of its own, or a new one.
    pub fn replace_disk(&mut self, node: u64, disk: SimDisk) {
        self.take_down(node);
        self.stage.note(Who::Node(node), "its disk is replaced");
        self.seat(node).replace_disk(disk);
        let mut history = self.stage.history();
        history
            .disks
            .entry(node)
            .or_default()
            .push(DiskEvent::Replaced);
        drop(history);
        self.set_disk(node, 1, 6);
    }

    /// Messages between nodes take between `from_ms` and `to_ms` milliseconds.
    fn set_network(&self, from_ms: u64, to_ms: u64) {
        let latency = Duration::from_millis(from_ms)..Duration::from_millis(to_ms.max(from_ms + 1));
        NetSim::current().update_config(|config| config.send_latency = latency);
    }

    /// Fsyncs of a node take between `from_ms` and `to_ms` milliseconds.
    fn set_disk(&self, node: u64, from_ms: u64, to_ms: u64) {
        let mut draws = self
            .seed
            .draws(&format!("disk {node} {}", self.stage.now_us()));
        let delay = move || Duration::from_micros(draws.between(from_ms * 1_000, to_ms * 1_000));
        self.seat(node).disk().set_sync_delay(Box::new(delay));
    }

    fn clog(&self, from: u64, to: u64) {
        let (from, to) = (self.machine(from).handle.id(), self.machine(to).handle.id());
        NetSim::current().clog_link(from, to);
    }

    fn heal(&self) {
        for from in 1..=NODES {
            for to in (1..=NODES).filter(|to| *to != from) {
                let (from, to) = (self.machine(from).handle.id(), self.machine(to).handle.id());
                NetSim::current().unclog_link(from, to);
            }
        }
    }

    /// Ends every fault and starts every node but those.
    pub fn repair_without(&mut self, without: &[u64]) {
        self.do_to(Fault::Heal);
        self.do_to(Fault::ResumeAll);
        self.do_to(Fault::SlowNetwork(5));
        for node in 1..=NODES {
            self.do_to(Fault::SlowDisk(node, 5));
            self.do_to(Fault::Clock(node, 0));
            self.seat(node).disk().fail_syncs(0);
        }
        (1..=NODES)
            .filter(|node| !without.contains(node))
            .for_each(|node| self.start(node));
    }

    fn machine(&self, node: u64) -> &Machine {
        &self.machines[slot(node)]
    }

    fn machine_mut(&mut self, node: u64) -> &mut Machine {
        &mut self.machines[slot(node)]
    }
}

/// The seat that leads in the highest term, by its own word.
pub fn leader_of<'a>(seats: impl Iterator<Item = &'a Arc<Seat>>) -> Option<(u64, Raft)> {
    let running = seats.filter_map(|seat| seat.raft().map(|raft| (seat.id, raft)));
    running
        .filter(|(_, raft)| raft.leads())
        .max_by_key(|(_, raft)| raft.metrics().term)
}

/// Numbers of nodes begin with 1.
fn slot(node: u64) -> usize {
    usize::try_from(node - 1).expect("three nodes")
}
