//! What the tasks of one node share. It holds handles and decides nothing but who a caller is.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use redlatch_link::identity::{PeerIdentity, Role};
use redlatch_link::transport;
use redlatch_proto::v1;
use redlatch_types::OrganismId;
use tonic::{Request, Status};

use crate::alarm::{Alarm, FatalCause};
use crate::config::Raft;
use crate::cosign::{Cosigner, NodeSigningKeys};
use crate::engine::Engine;
use crate::forward::Forwarded;
use crate::links::Links;
use crate::log_store::LogStore;
use crate::machine::Machine;
use crate::membership::Seats;
use crate::memory::Memory;
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
    pub(crate) organism: OrganismId,
    pub(crate) keys: NodeSigningKeys,
    pub(crate) clock: WallClock,
    pub(crate) log_store: LogStore<E>,
    pub(crate) memory: Memory<E>,
    pub(crate) machine: Machine<E>,
    pub(crate) cosigner: Arc<Cosigner<E>>,
    pub(crate) links: Links,
    /// REDs that peers have handed on.
    pub(crate) forwarded: Forwarded,
    pub(crate) alarm: Alarm,
    /// Set once the peers have let this node start.
    pub(crate) raft: OnceLock<Raft>,
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
        let known: BTreeSet<u64> = self.seats().all();
        self.memory.absorb(&table, &known).map_err(|remembered| {
            self.alarm.raise(FatalCause::RolledBack(remembered.row));
            Status::unavailable("rolled_back")
        })
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
        let roster = self.machine.roster();
        let node = roster.nodes.iter().find(|node| node.node_id.0 == claimed);
        let is_it = node.is_some_and(|node| {
            caller.role == Role::Node
                && caller.organism == self.organism
                && caller.name == node.name.as_str()
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
