//! Everybody outside of the cluster: agents that freeze, withdraw and ask, a coordinator that carries
//! intents to their marker, the gate that claims effects, and the sentinel with its REDs.
//!
//! ```text
//!   agent ─ Submit, Status, Receipt ─▶ any node          over the simulated network, as signed commands
//!   sentinel ─ LatchRed ─▶ every node, until latched
//!   coordinator ─ propose ─▶ the leader's own handle      authorize ▸ prepare ▸ commit
//! ```
//!
//! Each answer goes into the oracle at the moment it arrives. Nothing is judged here.

mod agent;
mod coordinator;
mod sentinel;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redlatch_link::Role;
use redlatch_link::nodes::{Again, CallError, Nodes, members};
use redlatch_link::transport::Dialer;
use redlatch_link::world as link;
use redlatch_types::{Canonical, IntentDigest};

use crate::organism::{AGENTS, NODES, node_name};
use crate::process::{Seat, Stage, clients_address, credentials};
use crate::seed::{Draws, Seed};
use crate::trace::Who;
use crate::world::World;

pub use sentinel::red;

const SUBMIT_DEADLINE: Duration = Duration::from_secs(8);

/// How much is done by whom.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Longest pause of an agent between two calls, milliseconds.
    pub pause_ms: u64,
    /// REDs the sentinel signs in this run.
    pub reds: u64,
    /// Longest pause of the sentinel before each of them, milliseconds.
    pub red_pause_ms: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            pause_ms: 400,
            reds: 3,
            red_pause_ms: 9_000,
        }
    }
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    /// How often something happened.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self
            .0
            .iter()
            .map(|(what, times)| format!("{what} {times}"))
            .collect();
        f.write_str(&words.join(", "))
    }
}

/// The parties outside, as far as they share anything. Clones are the same parties.
#[derive(Clone)]
pub struct Workload {
    stage: Stage,
    seats: Vec<Arc<Seat>>,
    seed: Seed,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    reds_may_come: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    counts: Counts,
    /// Acknowledged and not taken back: who proposed, which intent.
    frozen: Vec<(u64, IntentDigest)>,
    /// REDs that are signed and not latched yet.
    reds_waiting: usize,
    /// Answers that no honest node gives.
    misbehaved: Option<String>,
}

impl Workload {
    /// Starts everybody.
    pub fn start(world: &World, plan: Plan) -> Workload {
        let load = Workload::idle(world);
        world.spawn(activate(load.clone()));
        load.agents(world, plan);
        world.spawn(coordinator::live(load.clone(), plan));
        world.spawn(sentinel::live(load.clone(), plan));
        load
    }

    /// Lets the agents live. In a world with all parties nobody else is needed: the rest is real.
    pub fn agents(&self, world: &World, plan: Plan) {
        for agent in 1..=AGENTS {
            world.spawn(agent::live(self.clone(), agent, plan));
        }
    }

    /// The same parties, of whom nobody does anything by itself.
    pub fn idle(world: &World) -> Workload {
        Workload {
            stage: world.stage.clone(),
            seats: world.seats().cloned().collect(),
            seed: world.seed,
            shared: Arc::default(),
        }
    }

    /// Nobody begins anything new.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    /// Signed REDs that are not latched yet.
    pub fn reds_waiting(&self) -> usize {
        self.lock().reds_waiting
    }

    /// An answer that no honest node gives, if there was one.
    pub fn misbehaved(&self) -> Option<String> {
        self.lock().misbehaved.clone()
    }

    /// Intents that were acknowledged as frozen and not taken back.
    pub fn frozen(&self) -> Vec<(u64, IntentDigest)> {
        self.lock().frozen.clone()
    }

    /// The cluster, or some of its nodes, as a party calls it.
    pub fn nodes(&self, role: Role, name: &str, only: Option<u64>) -> Nodes {
        let organism = &self.stage.organism;
        let wanted = (1..=NODES).filter(|node| only.is_none_or(|only| only == *node));
        let addresses = wanted
            .map(|node| (node_name(node), clients_address(node)))
            .collect();
        let members = members(&organism.genesis.roster, &addresses);
        let dialer = Dialer::new(credentials(organism, role, name));
        Nodes::new(&dialer, &members).expect("addresses of this world are addresses")
    }

    /// Draws for one party.
    pub fn draws(&self, party: &str) -> Draws {
        self.seed.draws(party)
    }

    fn goes_on(&self) -> bool {
        !self.shared.stopped.load(Ordering::Relaxed)
    }

    fn count(&self, what: &'static str) {
        *self.lock().counts.0.entry(what).or_default() += 1;
    }

    /// Every answer that cannot be believed is a defect of a node.
    fn blame(&self, error: &CallError) {
        let impossible = matches!(
            error,
            CallError::Misbehaved { .. } | CallError::Denied(_) | CallError::Invalid(_)
        );
        if impossible {
            self.lock().misbehaved.get_or_insert(error.to_string());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.shared
            .inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn short(intent: Option<IntentDigest>) -> String {
    intent.map_or_else(
        || "everything".into(),
        |digest| digest.to_string()[..12].into(),
    )
}

/// Brings the verifiers' confirmations until the quorum has its key, then lets REDs come.
async fn activate(load: Workload) {
    let nodes = load.nodes(Role::Verifier, "va", None);
    let command = load.stage.organism.key_confirmations().to_canonical();
    while load.goes_on() {
        let answer = nodes
            .submit(
                &command,
                &Again::SameAnswer,
                SUBMIT_DEADLINE,
                Duration::ZERO,
            )
            .await;
        if answer.is_ok_and(|submitted| submitted.accepted().is_ok()) {
            load.stage.note(Who::World, "the quorum has its key");
            load.shared.reds_may_come.store(true, Ordering::Relaxed);
            return;
        }
        link::sleep(Duration::from_millis(200)).await;
    }
}
