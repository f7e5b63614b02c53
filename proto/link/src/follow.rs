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
//!
//! What changes whom one believes is always taken in ([`Trust`]): after a proven change of the roster the next
//! leaves are read from the nodes of the new one, and under their policy. A node that has no address in the
//! configuration is not called; its cosignatures count.
//!
//! A leaf that nodes alone cannot prove (a reset, a roster) may have to wait for witnesses. The stop path
//! does not: what follows it is read on, and the leaf is *owed* until its receipt is there.

mod trust;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use redlatch_proto::v1;
use redlatch_types::event::Event;
use redlatch_types::in_force::{InForceV1, Taken};
use redlatch_types::proven::NotProven;
use redlatch_types::proven::ProvenEvent;
use redlatch_types::receipt::{Receipt, ReceiptError};
use redlatch_types::records::{RosterV1, StatusV1};
use redlatch_types::{
    AutonomyEpoch, Canonical, ConstitutionEpoch, Digest, IntentDigest, LatchNumber, RosterEpoch,
};

pub use trust::{NotFollowed, Trust, TrustV1};

use crate::nodes::{self, CallError, Nodes};
use crate::transport::{Dialer, TransportError};
use crate::world;

/// How long a node may take to begin an answer, or to show the next leaf.
const CALL_DEADLINE: Duration = Duration::from_secs(3);
/// How long a majority may take to cosign a head over a leaf.
const RECEIPT_DEADLINE: Duration = Duration::from_secs(5);
/// Wanted leaves that are handed on at a time.
const BATCH_MAX: usize = 64;
/// Leaves that wait for their proof; beyond it nothing is read on.
const OWED_MAX: usize = 1_024;

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
    /// Position of the first leaf that was not looked at, or is still owed: where a restart has to begin.
    pub next: u64,
    /// What is believed from here on, if that has changed.
    pub trust: Option<Box<Trust>>,
    /// The node that answered shows no more leaves now.
    pub at_end: bool,
}

/// Follows the journal from a position.
pub struct Follower {
    dialer: Dialer,
    /// `host:port` by the name of the node.
    addresses: BTreeMap<String, String>,
    /// The same nodes, each time with another one first.
    rotations: Vec<Nodes>,
    at: usize,
    trust: Trust,
    /// It is another one than was handed on last.
    is_news: bool,
    next: u64,
    /// Leaves before it whose proof is not there yet.
    owed: BTreeMap<u64, Vec<u8>>,
}

impl Follower {
    /// A reader that begins at leaf `next`.
    ///
    /// # Errors
    /// [`TransportError::NotAnAddress`] for an address or name that cannot be dialled.
    pub fn new(
        dialer: &Dialer,
        addresses: &BTreeMap<String, String>,
        trust: Trust,
        next: u64,
    ) -> Result<Follower, TransportError> {
        Ok(Follower {
            dialer: dialer.clone(),
            addresses: addresses.clone(),
            rotations: rotations(dialer, addresses, &trust)?,
            at: 0,
            trust,
            is_news: false,
            next,
            owed: BTreeMap::new(),
        })
    }

    /// What is believed and in force, as far as was read.
    pub fn trust(&self) -> &Trust {
        &self.trust
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
        let owed = self.settle(&wanted, &mut news).await;
        let read = match owed {
            Ok(()) => self.read(&wanted, &mut news).await,
            Err(error) => Err(error),
        };
        match read {
            Ok(at_end) => Ok(self.batch(news, at_end)),
            Err(error) => {
                self.at = (self.at + 1) % self.rotations.len();
                if news.is_empty() && !self.is_news {
                    return Err(error);
                }
                Ok(self.batch(news, false))
            }
        }
    }

    fn batch(&mut self, news: Vec<(u64, News)>, at_end: bool) -> Batch {
        let is_news = std::mem::take(&mut self.is_news);
        Batch {
            news,
            next: self.owed.keys().next().copied().unwrap_or(self.next),
            trust: is_news.then(|| Box::new(self.trust.clone())),
            at_end,
        }
    }

    /// Proves what is owed, as far as it can be proven by now; the first that cannot ends it, because what
    /// changes the trust is taken in its order.
    async fn settle(
        &mut self,
        wanted: &impl Fn(&Event) -> Wanted,
        news: &mut Vec<(u64, News)>,
    ) -> Result<(), CallError> {
        while let Some((position, leaf)) = self.owed.pop_first() {
            let nodes = self.nodes().clone();
            let shown = v1::JournalLeaf {
                position,
                leaf: leaf.clone(),
            };
            let found = self.look(&nodes, &shown, wanted).await;
            if !matches!(found, Ok(Look::News(_))) {
                self.owed.insert(position, leaf);
            }
            match found? {
                Look::Owed => {
                    self.at = (self.at + 1) % self.rotations.len();
                    return Ok(());
                }
                Look::News(found) => news.extend(found.map(|found| (position, found))),
            }
        }
        Ok(())
    }

    async fn read(
        &mut self,
        wanted: &impl Fn(&Event) -> Wanted,
        news: &mut Vec<(u64, News)>,
    ) -> Result<bool, CallError> {
        let nodes = self.nodes().clone();
        let mut leaves = nodes.journal(self.next, false, CALL_DEADLINE).await?;
        while news.len() < BATCH_MAX && self.owed.len() < OWED_MAX {
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
            let before = self.trust.in_force().roster.roster_epoch;
            match self.look(&nodes, &leaf, wanted).await? {
                Look::Owed => {
                    self.owed.insert(leaf.position, leaf.leaf.clone());
                }
                Look::News(found) => news.extend(found.map(|found| (leaf.position, found))),
            }
            self.next = leaf.position + 1;
            if self.trust.in_force().roster.roster_epoch != before {
                // The rest is read from the nodes that are there now.
                return Ok(false);
            }
        }
        Ok(false)
    }

    async fn look(
        &mut self,
        nodes: &Nodes,
        leaf: &v1::JournalLeaf,
        wanted: &impl Fn(&Event) -> Wanted,
    ) -> Result<Look, CallError> {
        let Ok(event) = Event::from_canonical(&leaf.leaf) else {
            // A later build's event. What it fences, nodes fence; here it moves nothing.
            tracing::warn!(
                position = leaf.position,
                "a leaf that this build cannot read"
            );
            return Ok(Look::News(None));
        };
        let changes = InForceV1::is_changed_by(&event);
        match wanted(&event) {
            Wanted::No if !changes => Ok(Look::News(None)),
            Wanted::Read if !changes => Ok(Look::News(Some(News::Read(Box::new(event))))),
            wanted => {
                let known = leaf.position < self.trust.in_force().next;
                if changes && known && wanted != Wanted::Proof {
                    return Ok(Look::News(None));
                }
                let waits = event.is_positive_marker() || event.widens_trust();
                // What comes after something that is owed may rest on it.
                let in_order = changes && !matches!(event, Event::EpochPublished(_));
                let blocked = in_order && self.owed.keys().any(|it| *it < leaf.position);
                if blocked {
                    return Ok(Look::Owed);
                }
                let proven = match self.prove(nodes, leaf).await {
                    Ok(proven) => proven,
                    Err(CallError::NotYet(_)) if waits => return Ok(Look::Owed),
                    Err(error) => return Err(error),
                };
                self.take(&proven)?;
                Ok(Look::News(Some(News::Proven(Box::new(proven)))))
            }
        }
    }

    /// Takes in what changes the trust. What does not follow was left out before it: that is read again.
    fn take(&mut self, proven: &ProvenEvent) -> Result<(), CallError> {
        match self.trust.take(proven) {
            Ok(Taken::Nothing) => Ok(()),
            Ok(taken) => {
                self.is_news = true;
                if matches!(taken, Taken::Roster | Taken::Root) {
                    let rotations = rotations(&self.dialer, &self.addresses, &self.trust);
                    match rotations {
                        Ok(rotations) => (self.rotations, self.at) = (rotations, 0),
                        // Nobody of the new roster has an address here: those of before may still answer.
                        Err(error) => {
                            tracing::error!(%error, "the roster in force cannot be called")
                        }
                    }
                }
                Ok(())
            }
            Err(fault) => {
                let from = self.trust.in_force().next;
                self.owed.retain(|it, _| *it < from);
                self.rewind(from);
                Err(misbehaved(fault.to_string()))
            }
        }
    }

    async fn prove(&self, nodes: &Nodes, leaf: &v1::JournalLeaf) -> Result<ProvenEvent, CallError> {
        let at = v1::leaf_at::At::Position(leaf.position);
        let text = nodes.receipt(at, RECEIPT_DEADLINE).await?;
        let receipt = Receipt::parse(text.as_bytes())
            .map_err(|fault| misbehaved(ReceiptError::from(fault).to_string()))?;
        let proven = self.trust.prove(&receipt).map_err(|fault| match fault {
            NotProven::Receipt(ReceiptError::NotMet(why)) => CallError::NotYet(why.to_string()),
            fault => misbehaved(fault.to_string()),
        })?;
        let same = proven.index() == leaf.position && receipt.leaf == leaf.leaf;
        if !same {
            return Err(misbehaved("the receipt is of another leaf".to_owned()));
        }
        Ok(proven)
    }
}

/// What came of a look at a leaf.
enum Look {
    /// Nothing, or what was wanted.
    News(Option<News>),
    /// It has to be proven, and cannot be yet.
    Owed,
}

fn misbehaved(what: String) -> CallError {
    CallError::Misbehaved {
        node: "a node".to_owned(),
        what,
    }
}

/// The nodes of the roster in force that have an address, each time with another one first.
fn rotations(
    dialer: &Dialer,
    addresses: &BTreeMap<String, String>,
    trust: &Trust,
) -> Result<Vec<Nodes>, TransportError> {
    let members = nodes::members(&trust.in_force().roster, addresses);
    let rotated = |first: usize| {
        let mut members = members.clone();
        members.rotate_left(first);
        Nodes::new(dialer, &members)
    };
    (0..members.len().max(1)).map(rotated).collect()
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
    /// The roster in force there.
    pub roster_epoch: RosterEpoch,
    /// The constitution in force there.
    pub constitution_epoch: ConstitutionEpoch,
    /// The autonomy epoch in force there.
    pub autonomy_epoch: AutonomyEpoch,
}

impl ReadPoint {
    /// Whether more is in force there than what was followed: something was left out.
    pub fn is_beyond(&self, known: &InForceV1) -> bool {
        self.roster_epoch > known.roster.roster_epoch
            || self.constitution_epoch > known.constitution.constitution_epoch
            || self.autonomy_epoch > known.autonomy_epoch
    }
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
        roster_epoch: RosterEpoch(highest(|it| it.roster_epoch.0)),
        constitution_epoch: ConstitutionEpoch(highest(|it| it.constitution_epoch.0)),
        autonomy_epoch: AutonomyEpoch(highest(|it| it.autonomy_epoch.0)),
    }
}
