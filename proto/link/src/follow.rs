//! The journal as a process outside of the cluster follows it: leaves in order, and those that matter proven.
//!
//! ```text
//!   any node ── leaves, unproven ─▶ wanted? ── receipt, node group ─▶ ProvenEvent ─▶ the caller's core
//!   a majority ── signed, fresh statuses ─▶ ReadPoint: how far must be read, which latches must be known
//! ```
//!
//! No single node is believed: it can show leaves late, or not at all, but not other ones, and a reader that
//! has proven every latch up to a [`ReadPoint`]'s has missed none (latches are numbered without gaps). A node
//! that shows a receipt which does not hold is left for the next one.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use redlatch_proto::v1;
use redlatch_types::event::Event;
use redlatch_types::policy::Policy;
use redlatch_types::proven::ProvenEvent;
use redlatch_types::receipt::{Receipt, ReceiptError};
use redlatch_types::records::{RosterV1, StatusV1};
use redlatch_types::{Canonical, Digest, IntentDigest, LatchNumber};

use crate::nodes::{CallError, Member, Nodes};
use crate::transport::{Dialer, TransportError};
use crate::world;

/// How long a node may take to begin an answer, or to show the next leaf.
const CALL_DEADLINE: Duration = Duration::from_secs(3);
/// How long a majority may take to cosign a head over a leaf.
const RECEIPT_DEADLINE: Duration = Duration::from_secs(5);
/// Wanted leaves that are handed on at a time.
const BATCH_MAX: usize = 64;

/// What a reader wants of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing.
    No,
    /// Its content, whoever says it: the reader checks it otherwise.
    Read,
    /// Its proof.
    Proof,
}

/// A leaf that was wanted.
#[derive(Clone, Debug)]
pub enum News {
    /// Unproven.
    Read(Box<Event>),
    /// Proven.
    Proven(Box<ProvenEvent>),
}

/// Leaves that were wanted, in order.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Each with its position.
    pub news: Vec<(u64, News)>,
    /// Position of the first leaf that was not looked at.
    pub next: u64,
    /// The node that answered shows no more leaves now.
    pub at_end: bool,
}

/// Follows the journal from a position.
pub struct Follower {
    /// The same nodes, each time with another one first.
    rotations: Vec<Nodes>,
    at: usize,
    policy: Policy,
    next: u64,
}

impl Follower {
    /// A reader that begins at leaf `next`.
    ///
    /// # Errors
    /// [`TransportError::NotAnAddress`] for an address or name that cannot be dialled.
    pub fn new(
        dialer: &Dialer,
        members: &[Member],
        policy: Policy,
        next: u64,
    ) -> Result<Follower, TransportError> {
        let rotated = |first: usize| {
            let mut members = members.to_vec();
            members.rotate_left(first);
            Nodes::new(dialer, &members)
        };
        let rotations: Vec<Nodes> = (0..members.len().max(1))
            .map(rotated)
            .collect::<Result<_, _>>()?;
        Ok(Follower {
            rotations,
            at: 0,
            policy,
            next,
        })
    }

    /// The cluster, with the node that is read from first.
    pub fn nodes(&self) -> &Nodes {
        &self.rotations[self.at % self.rotations.len()]
    }

    /// The first leaf that was not read yet.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Reads on from an earlier leaf.
    pub fn rewind(&mut self, to: u64) {
        self.next = self.next.min(to);
    }

    /// Reads again from an earlier leaf, of another node: this one has shown something else in the place of
    /// what must be there.
    pub fn reread(&mut self, from: u64) {
        self.rewind(from);
        self.at = (self.at + 1) % self.rotations.len();
    }

    /// Reads on until there is enough for one batch, or no more.
    ///
    /// # Errors
    /// [`CallError`] if there was nothing to hand on; another node is asked the next time.
    pub async fn read_on(&mut self, wanted: impl Fn(&Event) -> Wanted) -> Result<Batch, CallError> {
        let mut news = Vec::new();
        match self.read(&wanted, &mut news).await {
            Ok(at_end) => Ok(self.batch(news, at_end)),
            Err(error) => {
                self.at = (self.at + 1) % self.rotations.len();
                if news.is_empty() {
                    return Err(error);
                }
                Ok(self.batch(news, false))
            }
        }
    }

    fn batch(&self, news: Vec<(u64, News)>, at_end: bool) -> Batch {
        Batch {
            news,
            next: self.next,
            at_end,
        }
    }

    async fn read(
        &mut self,
        wanted: &impl Fn(&Event) -> Wanted,
        news: &mut Vec<(u64, News)>,
    ) -> Result<bool, CallError> {
        let nodes = self.nodes().clone();
        let mut leaves = nodes.journal(self.next, false, CALL_DEADLINE).await?;
        while news.len() < BATCH_MAX {
            let unavailable = |text: String| CallError::Unavailable(text);
            let leaf = world::timeout(CALL_DEADLINE, leaves.message()).await;
            let leaf = leaf.map_err(|late| unavailable(late.to_string()))?;
            let Some(leaf) = leaf.map_err(|status| unavailable(status.message().to_owned()))?
            else {
                return Ok(true);
            };
            if leaf.position != self.next {
                return Err(unavailable("the node left leaves out".to_owned()));
            }
            if let Some(wanted) = self.look(&nodes, &leaf, wanted).await? {
                news.push((leaf.position, wanted));
            }
            self.next = leaf.position + 1;
        }
        Ok(false)
    }

    async fn look(
        &self,
        nodes: &Nodes,
        leaf: &v1::JournalLeaf,
        wanted: &impl Fn(&Event) -> Wanted,
    ) -> Result<Option<News>, CallError> {
        let Ok(event) = Event::from_canonical(&leaf.leaf) else {
            // A later build's event. What it fences, nodes fence; here it moves nothing.
            tracing::warn!(
                position = leaf.position,
                "a leaf that this build cannot read"
            );
            return Ok(None);
        };
        match wanted(&event) {
            Wanted::No => Ok(None),
            Wanted::Read => Ok(Some(News::Read(Box::new(event)))),
            Wanted::Proof => {
                let proven = self.prove(nodes, leaf).await?;
                Ok(Some(News::Proven(Box::new(proven))))
            }
        }
    }

    async fn prove(&self, nodes: &Nodes, leaf: &v1::JournalLeaf) -> Result<ProvenEvent, CallError> {
        let at = v1::leaf_at::At::Position(leaf.position);
        let text = nodes.receipt(at, RECEIPT_DEADLINE).await?;
        let misbehaved = |what: String| CallError::Misbehaved {
            node: "a node".to_owned(),
            what,
        };
        let receipt = Receipt::parse(text.as_bytes())
            .map_err(|fault| misbehaved(ReceiptError::from(fault).to_string()))?;
        let proven = ProvenEvent::of(&receipt, &self.policy)
            .map_err(|fault| misbehaved(fault.to_string()))?;
        let same = proven.index() == leaf.position && receipt.leaf == leaf.leaf;
        if !same {
            return Err(misbehaved("the receipt is of another leaf".to_owned()));
        }
        Ok(proven)
    }
}

/// Where the leaf of an intent's freeze is found: its key in the archive index of every node.
pub fn frozen_at(intent: &IntentDigest) -> v1::leaf_at::At {
    const FROZEN: u8 = 3;
    let mut key = vec![FROZEN];
    key.extend_from_slice(&intent.0.0);
    v1::leaf_at::At::IndexKey(key)
}

/// What a majority of the voters vouches for at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPoint {
    /// Leaves that there are at least.
    pub size: u64,
    /// The highest latch; 0 if there is none.
    pub latches: LatchNumber,
    /// State time that at least one honest node is at (D7).
    pub state_time: u64,
}

/// Asks every voter for a fresh signed status until a majority has answered.
///
/// # Errors
/// [`CallError::Unavailable`] if there is no majority before the deadline.
pub async fn read_point(
    nodes: &Nodes,
    roster: &RosterV1,
    nonce: Digest,
    deadline: Duration,
) -> Result<ReadPoint, CallError> {
    let mut asked: FuturesUnordered<_> = roster
        .voters()
        .map(|voter| nodes.status(voter.name.as_str(), nonce, None, deadline))
        .collect();
    let mut statuses = Vec::new();
    let mut failure = CallError::Unavailable("no node of the roster has an address".to_owned());
    while let Some(answer) = asked.next().await {
        match answer {
            Ok(status) => statuses.push(status.record().clone()),
            Err(error) => failure = error,
        }
        if statuses.len() >= roster.majority() {
            return Ok(of_majority(&statuses, roster));
        }
    }
    Err(failure)
}

fn of_majority(statuses: &[StatusV1], roster: &RosterV1) -> ReadPoint {
    let mut times: Vec<u64> = statuses.iter().map(|it| it.state_time).collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    let faulty = roster.voters().count().saturating_sub(1) / 2;
    let highest = |of: fn(&StatusV1) -> u64| statuses.iter().map(of).max().unwrap_or(0);
    ReadPoint {
        size: highest(|it| it.tree_size),
        latches: LatchNumber(highest(|it| it.latch_epoch.0)),
        state_time: times.get(faulty).copied().unwrap_or(0),
    }
}
