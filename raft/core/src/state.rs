//! `State`: authority and log together, and the application of one Raft entry.
//!
//! ```text
//!   entry ──▶ clear stepped ──▶ for each command: admit ▸ decide ▸ evolve ▸ leaf
//!         └──▶ StateRoot leaf, if the entry crosses a boundary or asks for one
//! ```
//!
//! `decide` sees only the authority. The log is a Merkle frontier and the last entry's id;
//! leaves, tree nodes and the archive index are effects for the caller to store.

use minicbor::{Decode, Encode};
use redlatch_types::event::{Accepted, Event, StateRootV1};
use redlatch_types::limits::STATE_ROOT_EVERY_LEAVES;
use redlatch_types::{Canonical, Digest, NotCanonical, Refusal, RosterEpoch, merkle};

use crate::admit::{Command, admit};
use crate::authority::Authority;
use crate::decide::{Outcome, decide};
use crate::evolve::evolve;
use crate::index::IndexKey;
use crate::tree::{Frontier, NodeIndex};

/// Where a Raft entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
#[cbor(map)]
pub struct EntryId {
    /// Term.
    #[n(0)]
    pub term: u64,
    /// Node that led in that term.
    #[n(1)]
    pub leader: u64,
    /// Index.
    #[n(2)]
    pub index: u64,
}

/// The part of the state that decisions do not see.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Encode, Decode)]
#[cbor(map)]
pub struct Log {
    /// The tree over all leaves.
    #[n(0)]
    pub frontier: Frontier,
    /// The last entry applied.
    #[n(1)]
    pub last: EntryId,
}

/// The replicated state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Encode, Decode)]
#[cbor(map)]
pub struct State {
    /// What decisions depend on.
    #[n(0)]
    pub authority: Authority,
    /// What they do not.
    #[n(1)]
    pub log: Log,
}

/// Size and root of the tree after an entry, and the state time of its signature (D4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct TreeHead {
    /// Leaves.
    #[n(0)]
    pub size: u64,
    /// RFC 6962 root.
    #[n(1)]
    pub root: Digest,
    /// State time, milliseconds.
    #[n(2)]
    pub state_time_ms: u64,
}

/// The effects of one entry, for the caller to store in one write and to answer from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// One per command, in order.
    pub outcomes: Vec<Outcome>,
    /// Position of the first leaf.
    pub first_leaf: u64,
    /// The events as leaves, in order.
    pub events: Vec<Event>,
    /// Their canonical bytes.
    pub leaves: Vec<Vec<u8>>,
    /// Tree nodes that became complete.
    pub nodes: Vec<(NodeIndex, Digest)>,
    /// Archive index: key and leaf position.
    pub index: Vec<(IndexKey, u64)>,
    /// The head to be signed after this entry, if one is.
    pub head: Option<TreeHead>,
    /// Whether the last leaf is a StateRoot, so that a snapshot may be taken exactly here.
    pub state_root: bool,
}

impl State {
    /// The state before genesis.
    pub fn new() -> State {
        State::default()
    }

    /// Applies the commands of one entry, admitting each of them here.
    pub fn apply(&mut self, at: EntryId, commands: &[Vec<u8>]) -> Applied {
        let admitted: Vec<_> = commands.iter().map(|c| admit(c)).collect();
        self.apply_admitted(at, &admitted)
    }

    /// Applies the commands of one entry; `admitted` are the results of [`admit`], which the
    /// caller may have computed in parallel or remembered. Total: it never fails.
    pub fn apply_admitted(
        &mut self,
        at: EntryId,
        admitted: &[Result<Command, Refusal>],
    ) -> Applied {
        let mut applied = Applied {
            first_leaf: self.log.frontier.size(),
            ..Applied::default()
        };
        self.authority.stepped.clear();
        let mut checkpoint = false;
        for command in admitted {
            let outcome = match command {
                Ok(command) => decide(&self.authority, command),
                Err(refusal) => Outcome {
                    events: Vec::new(),
                    reply: Err(*refusal),
                },
            };
            checkpoint |= outcome.reply == Ok(Accepted::Checkpointed);
            for event in &outcome.events {
                evolve(&mut self.authority, event);
                self.append(event, &mut applied);
            }
            applied.outcomes.push(outcome);
        }
        self.log.last = at;
        if checkpoint || self.crossed_a_boundary(applied.first_leaf) {
            let root = Event::StateRoot(self.state_root(at));
            self.append(&root, &mut applied);
            applied.state_root = true;
        }
        if applied.events.iter().any(Event::asks_for_head) {
            applied.head = Some(self.head());
        }
        applied
    }

    /// Evolves by one stored leaf, as replay does. Position and tree move as in `apply`; nothing is stepped.
    ///
    /// # Errors
    /// [`NotCanonical`] if the bytes are no event; nothing has changed then.
    pub fn replay(&mut self, leaf: &[u8]) -> Result<Event, NotCanonical> {
        let event = Event::from_canonical(leaf)?;
        evolve(&mut self.authority, &event);
        // Leaves do not say where an entry ends, and what stepped in one decides nothing after it.
        self.authority.stepped.clear();
        self.log
            .frontier
            .append(merkle::leaf_hash(leaf), &mut Vec::new());
        Ok(event)
    }

    /// The head of the tree as it is now.
    pub fn head(&self) -> TreeHead {
        TreeHead {
            size: self.log.frontier.size(),
            root: self.log.frontier.root(),
            state_time_ms: self.authority.clock.state_time,
        }
    }

    /// SHA-256 of the canonical authority.
    pub fn digest(&self) -> Digest {
        self.authority.digest()
    }

    /// The state's canonical bytes, for a snapshot.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_canonical()
    }

    /// The state of a snapshot.
    ///
    /// # Errors
    /// [`NotCanonical`] if the bytes are not canonical. Whether they are the right ones is
    /// proven by the caller against a cosigned head.
    pub fn from_bytes(bytes: &[u8]) -> Result<State, NotCanonical> {
        State::from_canonical(bytes)
    }

    fn append(&mut self, event: &Event, applied: &mut Applied) {
        let leaf = event.to_canonical();
        let position = self.log.frontier.size();
        self.log
            .frontier
            .append(merkle::leaf_hash(&leaf), &mut applied.nodes);
        applied
            .index
            .extend(IndexKey::of(event).into_iter().map(|k| (k, position)));
        applied.events.push(event.clone());
        applied.leaves.push(leaf);
    }

    fn crossed_a_boundary(&self, before: u64) -> bool {
        let after = self.log.frontier.size();
        before / STATE_ROOT_EVERY_LEAVES != after / STATE_ROOT_EVERY_LEAVES
    }

    /// The digest is that of the authority with nothing stepped: what the next entry starts
    /// from, and what a snapshot holds.
    fn state_root(&mut self, at: EntryId) -> StateRootV1 {
        self.authority.stepped.clear();
        StateRootV1 {
            authority_digest: self.authority.digest(),
            term: at.term,
            index: at.index,
            roster_epoch: self
                .authority
                .governance
                .as_ref()
                .map_or(RosterEpoch(0), |g| g.roster.roster_epoch),
            size: self.log.frontier.size(),
        }
    }
}
