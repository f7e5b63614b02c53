//! What the tasks of one node share. It holds handles and decides nothing but who a caller is.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use redlatch_link::identity::{PeerIdentity, Role};
use redlatch_link::transport;
use redlatch_proto::v1;
use redlatch_types::chain::Trust;
use redlatch_types::policy::Demand;
use redlatch_types::receipt::Receipt;
use redlatch_types::records::RosterV1;
use redlatch_types::{Name, NodeId, OrganismId};
use tonic::{Request, Status};

use crate::alarm::{Alarm, FatalCause};
use crate::config::{Membership, Raft};
use crate::cosign::{Cosigner, NodeSigningKeys};
use crate::engine::Engine;
use crate::forward::Forwarded;
use crate::links::Links;
use crate::log_store::LogStore;
use crate::machine::Machine;
use crate::membership::{Seats, Step};
use crate::memory::Memory;
use crate::proposer::Queues;
use crate::rejoin::{Rejoined, Since};
use crate::standing::Standing;
use crate::wire;

/// A wall clock: milliseconds since 1970. It decides nothing but this node's own readings.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl WallClock {
    /// The clock of this world.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(redlatch_link::world::now_unix_ms))
    }

    /// A clock that somebody else turns.
    pub fn new(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now_ms))
    }

    /// What it shows.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}

/// The parts of one node.
pub struct Shared<E> {
    pub(crate) own: u64,
    /// Its name in the roster and in its certificate.
    pub(crate) name: Name,
    pub(crate) organism: OrganismId,
    pub(crate) keys: NodeSigningKeys,
    pub(crate) clock: WallClock,
    pub(crate) log_store: LogStore<E>,
    pub(crate) memory: Memory<E>,
    pub(crate) machine: Machine<E>,
    pub(crate) cosigner: Arc<Cosigner<E>>,
    pub(crate) links: Links,
    /// Whether the roster's word about this node is about the disk it has.
    pub(crate) rejoined: Arc<Rejoined<E>>,
    /// Nodes whose disk is another one than the one this leader remembers.
    pub(crate) renewed: Renewed,
    /// The last roster that a chain from the trusted one has led to. It says who may call; what counts
    /// is what is applied.
    pub(crate) learned: Mutex<Option<Trust>>,
    /// The membership's next step, while this node leads.
    pub(crate) step: Mutex<Option<Step>>,
    /// REDs that peers have handed on.
    pub(crate) forwarded: Forwarded,
    pub(crate) alarm: Alarm,
    /// Set once the peers have let this node start.
    pub(crate) raft: OnceLock<Raft>,
    /// Where commands wait; set together with `raft`.
    pub(crate) queues: OnceLock<Arc<Queues>>,
}

/// Nodes that have rejoined while this node leads. Nothing is sent to them until openraft has let go of
/// what it remembers of their log: it asserts that a log never becomes shorter.
#[derive(Debug, Default)]
pub(crate) struct Renewed(Mutex<BTreeSet<u64>>);

impl Renewed {
    pub(crate) fn add(&self, node: u64) {
        self.lock().insert(node);
    }

    pub(crate) fn contains(&self, node: u64) -> bool {
        self.lock().contains(&node)
    }

    /// Those that `keep` names, after the others are forgotten.
    pub(crate) fn retain(&self, keep: impl Fn(u64) -> bool) -> BTreeSet<u64> {
        let mut nodes = self.lock();
        nodes.retain(|node| keep(*node));
        nodes.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        // Plain numbers: a panic elsewhere leaves them usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E> fmt::Debug for Shared<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({})", self.own)
    }
}

impl<E: Engine> Shared<E> {
    /// Openraft, once it runs.
    pub(crate) fn raft(&self) -> Result<&Raft, Status> {
        if self.alarm.cause().is_some() {
            return Err(Status::unavailable("this node is stopping"));
        }
        self.raft
            .get()
            .ok_or_else(|| Status::unavailable("this node has not started yet"))
    }

    /// Takes in rows of a peer; one that remembers more of this node than it ever had stops it.
    pub(crate) fn absorb(&self, rows: Vec<v1::PeerRow>) -> Result<(), Status> {
        let table = wire::rows_in(rows)?;
        let known: BTreeSet<u64> = Seats::of(&self.known_roster()).all();
        self.memory.absorb(&table, &known).map_err(|remembered| {
            self.alarm.raise(FatalCause::RolledBack(remembered.row));
            Status::unavailable("rolled_back")
        })
    }

    /// openraft's membership; empty before it runs.
    pub(crate) fn membership(&self) -> Membership {
        self.raft.get().map_or_else(Membership::default, |raft| {
            let metrics = raft.metrics();
            let metrics = metrics.borrow();
            metrics.membership_config.membership().clone()
        })
    }

    /// Whether `node` may take part in elections: a voter of the roster, or of a membership that has not
    /// followed it yet, because a step under way needs majorities of both.
    pub(crate) fn elects(&self, node: u64) -> bool {
        Seats::of(&self.known_roster()).voters.contains(&node)
            || self.membership().voter_ids().any(|voter| voter == node)
    }

    /// The newest roster that this node can trust: the applied one, unless a chain has led beyond it.
    pub(crate) fn known_roster(&self) -> Arc<RosterV1> {
        let applied = self.machine.roster();
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = learned
            .as_ref()
            .map(Trust::roster)
            .filter(|learned| learned.roster_epoch > applied.roster_epoch);
        newer.map_or(applied, |newer| Arc::new(newer.clone()))
    }

    /// Follows a chain of rosters from the trusted one on, as far as it holds.
    pub(crate) fn learn(&self, links: &[Vec<u8>]) {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        let trust = learned.take().or_else(|| self.machine.trust());
        let links = links.iter().filter_map(|link| Receipt::parse(link).ok());
        *learned = trust.map(|trust| {
            links.fold(trust, |trust, link| {
                trust.follow(&link, Demand::Nodes).unwrap_or(trust)
            })
        });
    }

    /// What this node is in the roster that it has applied.
    pub(crate) fn standing(&self) -> Standing {
        let roster = self.machine.roster();
        let seat = roster.node(NodeId(self.own)).map(|node| node.seat);
        match seat {
            None => Standing::Outside,
            Some(_) if self.machine.counts() => Standing::Voter,
            Some(_) if self.rejoined.since() != Since::Always => Standing::Returning,
            Some(_) => Standing::Learner,
        }
    }

    /// The membership's next step; `None` unless this node leads.
    pub(crate) fn step(&self) -> Option<Step> {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn show_step(&self, step: Option<Step>) {
        let mut shown = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(step) = step.filter(|step| *shown != Some(*step)) {
            tracing::info!(%step, "membership");
        }
        *shown = step;
    }

    /// Refuses to send to a node whose log this leader remembers and that has lost it.
    pub(crate) fn is_known_disk(&self, target: u64) -> Result<(), Status> {
        if self.renewed.contains(target) {
            return Err(Status::unavailable("the node has rejoined on another disk"));
        }
        Ok(())
    }

    /// Seats of the roster in force.
    pub(crate) fn seats(&self) -> Seats {
        Seats::of(&self.machine.roster())
    }

    /// The node that calls: its certificate is of role node and of this organism, and names the
    /// roster's node of the number it gives.
    pub(crate) fn sender<T>(&self, request: &Request<T>, claimed: u64) -> Result<u64, Status> {
        self.is_node(&transport::caller(request)?, claimed)?;
        Ok(claimed)
    }

    /// As [`Shared::sender`], for an identity that is known already.
    pub(crate) fn is_node(&self, caller: &PeerIdentity, claimed: u64) -> Result<(), Status> {
        let roster = self.known_roster();
        // A node that is being removed is known until openraft has let go of it.
        let name = match roster.node(NodeId(claimed)) {
            Some(node) => Some(node.name.clone()),
            None => self.links.name(claimed),
        };
        let is_it = name.is_some_and(|name| {
            caller.role == Role::Node
                && caller.organism == self.organism
                && caller.name == name.as_str()
                && claimed != self.own
        });
        if is_it {
            Ok(())
        } else {
            Err(Status::permission_denied(
                "the caller is not the node it says it is",
            ))
        }
    }
}
