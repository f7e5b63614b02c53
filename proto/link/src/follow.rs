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
//! does not: what follows it is read on, and the leaf is *owed* until its receipt is there. Only what changes
//! what is in force waits for what is owed before it, and only for what changes that too.
//!
//! No leaf stands in the way for good. One that does not follow what is known says that something was left out
//! before it: that is read again of another node, and once all were asked it is read past. One that no node can
//! prove may rest on a roster that was left out: then all of it is read again from the last change on.

mod compare;
mod named;
mod owed;
mod trust;

use std::collections::BTreeMap;
use std::time::Duration;

use redlatch_proto::v1;
use redlatch_types::event::Event;
use redlatch_types::in_force::{InForceV1, Taken};
use redlatch_types::proven::NotProven;
use redlatch_types::proven::ProvenEvent;
use redlatch_types::receipt::{Receipt, ReceiptError};
use redlatch_types::{Canonical, IntentDigest};

pub use compare::{ProvenLatches, ReadPoint, Standing, read_point};
pub use named::until_named;
use owed::{Debt, Owed};
pub use trust::{NotFollowed, Trust, TrustV1};

use crate::nodes::{self, CallError, Nodes};
use crate::transport::{Dialer, TransportError};
use crate::world::{self, Monotonic};

/// How long a node may take to begin an answer, or to show the next leaf.
const CALL_DEADLINE: Duration = Duration::from_secs(3);
/// How long a majority may take to cosign a head over a leaf.
const RECEIPT_DEADLINE: Duration = Duration::from_secs(5);
/// Wanted leaves that are handed on at a time.
const BATCH_MAX: usize = 64;
/// Leaves that are looked at for one batch, wanted or not: no stream goes on for ever.
const LOOKED_MAX: usize = 4_096;

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
    /// Leaves before `next` that are still to be proven.
    owed: Owed,
    /// A proven leaf that does not follow what is known.
    refused: Tries,
    /// A leaf whose proof nobody has.
    unproven: Tries,
    /// A read point that was not reached yet, and when it was asked for.
    ahead: Option<(ReadPoint, Monotonic)>,
}

/// How often a leaf was tried in vain.
#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    position: u64,
    times: usize,
}

impl Tries {
    /// Once more at this position; how often by now.
    fn again(&mut self, position: u64) -> usize {
        let before = if self.position == position {
            self.times
        } else {
            0
        };
        let times = before.saturating_add(1);
        *self = Tries { position, times };
        times
    }
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
            owed: Owed::default(),
            refused: Tries::default(),
            unproven: Tries::default(),
            ahead: None,
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

    /// Whether a change of what is in force was shown whose proof is not there yet.
    fn awaits_change(&self) -> bool {
        self.refused.times == 0 && self.owed.blocks(u64::MAX)
    }

    /// Reads on from an earlier leaf.
    pub fn rewind(&mut self, to: u64) {
        if to < self.next {
            self.next = to;
            self.owed.read_again(to);
        }
    }

    /// Reads again from an earlier leaf, of another node: this one has shown something else in the place of
    /// what must be there.
    pub fn reread(&mut self, from: u64) {
        self.rewind(from);
        self.turn();
    }

    /// From here on another node is asked first.
    fn turn(&mut self) {
        self.at = (self.at + 1) % self.rotations.len();
    }

    /// Reads on until there is enough for one batch, or no more.
    ///
    /// # Errors
    /// [`CallError`] if there was nothing to hand on; another node is asked the next time.
    pub async fn read_on(&mut self, wanted: impl Fn(&Event) -> Wanted) -> Result<Batch, CallError> {
        let mut news = Vec::new();
        self.settle(&wanted, &mut news).await;
        match self.read(&wanted, &mut news).await {
            Ok(at_end) => Ok(self.batch(news, at_end)),
            Err(error) => {
                self.failed(&error);
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
            next: self.owed.first().unwrap_or(self.next),
            trust: is_news.then(|| Box::new(self.trust.clone())),
            at_end,
        }
    }

    /// Another node is asked. When all of them were asked for the proof of one leaf, a change of whom one
    /// believes may have been left out before it; the longer that does not help, the more rarely it is tried.
    fn failed(&mut self, error: &CallError) {
        self.turn();
        if matches!(error, CallError::NotYet(_) | CallError::Misbehaved { .. }) {
            let (times, nodes) = (self.unproven.again(self.next), self.rotations.len());
            if times.is_multiple_of(nodes) && (times / nodes).is_power_of_two() {
                self.reread(self.trust.in_force().next);
            }
        }
    }

    /// Proves what is owed, as far as it can be proven by now. Whatever comes of it, reading goes on; so one
    /// failure ends it, and the next time begins behind that one.
    async fn settle(&mut self, wanted: &impl Fn(&Event) -> Wanted, news: &mut Vec<(u64, News)>) {
        if let Some(from) = self.owed.room_again() {
            self.rewind(from);
        }
        for position in self.owed.in_turn() {
            let Some(leaf) = self.owed.leaf(position).map(<[u8]>::to_vec) else {
                continue;
            };
            let nodes = self.nodes().clone();
            let shown = v1::JournalLeaf { position, leaf };
            match self.look(&nodes, &shown, wanted, Duration::ZERO).await {
                Ok(Look::News(found)) => {
                    self.owed.paid(position);
                    news.extend(found.map(|found| (position, found)));
                }
                Ok(Look::Blocked) => {}
                Ok(Look::Owed(_)) | Err(_) => {
                    self.owed.in_vain(position);
                    self.turn();
                    return;
                }
            }
        }
    }

    async fn read(
        &mut self,
        wanted: &impl Fn(&Event) -> Wanted,
        news: &mut Vec<(u64, News)>,
    ) -> Result<bool, CallError> {
        let nodes = self.nodes().clone();
        let mut leaves = nodes.journal(self.next, false, CALL_DEADLINE).await?;
        let (enough, pause) = (news.len() + BATCH_MAX, self.pause());
        for _ in 0..LOOKED_MAX {
            if news.len() >= enough {
                break;
            }
            if Some(self.next) == pause {
                return Ok(true);
            }
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
            let found = self.look(&nodes, &leaf, wanted, RECEIPT_DEADLINE).await?;
            self.next = leaf.position + 1;
            match found {
                Look::Owed(debt) => self.owed.add(leaf.position, leaf.leaf, debt),
                Look::Blocked => self.owed.add(leaf.position, leaf.leaf, Debt::Change),
                Look::News(found) => news.extend(found.map(|found| (leaf.position, found))),
            }
            if self.trust.in_force().roster.roster_epoch != before {
                // The rest is read from the nodes that are there now.
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Looks at a leaf; what may have to wait for witnesses is not waited for.
    async fn look(
        &mut self,
        nodes: &Nodes,
        leaf: &v1::JournalLeaf,
        wanted: &impl Fn(&Event) -> Wanted,
        patience: Duration,
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
            Wanted::No if !changes => return Ok(Look::News(None)),
            Wanted::Read if !changes => return Ok(Look::News(Some(News::Read(Box::new(event))))),
            Wanted::No | Wanted::Read | Wanted::Proof => {}
        }
        let known = self.trust.in_force().has_taken(&event, leaf.position);
        if changes && known && wanted(&event) != Wanted::Proof {
            return Ok(Look::News(None));
        }
        // What comes after a change that is owed may rest on it.
        let in_order = changes && !matches!(event, Event::EpochPublished(_));
        if in_order && self.owed.blocks(leaf.position) {
            return Ok(Look::Blocked);
        }
        let debt = if in_order { Debt::Change } else { Debt::Proof };
        let waits = event.is_positive_marker() || event.widens_trust();
        let patience = if waits { Duration::ZERO } else { patience };
        let proven = match self.prove(nodes, leaf, patience).await {
            Ok(proven) => proven,
            Err(CallError::NotYet(_)) if waits => return Ok(Look::Owed(debt)),
            Err(error) => return Err(error),
        };
        if self.take(&proven)? {
            Ok(Look::News(Some(News::Proven(Box::new(proven)))))
        } else {
            Ok(Look::Owed(debt))
        }
    }

    /// Takes in what changes the trust. What does not follow was left out before it: that is read again, of
    /// every node in its turn. False: all of them were asked, and it still does not follow.
    fn take(&mut self, proven: &ProvenEvent) -> Result<bool, CallError> {
        match self.trust.take(proven) {
            Ok(Taken::Nothing) => Ok(true),
            Ok(taken) => {
                self.is_news = true;
                self.refused = Tries::default();
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
                Ok(true)
            }
            Err(fault) => {
                let position = proven.index();
                if self.refused.again(position) > self.rotations.len() {
                    tracing::error!(position, %fault, "a change is read past that does not follow");
                    return Ok(false);
                }
                self.rewind(self.trust.in_force().next);
                Err(misbehaved(fault.to_string()))
            }
        }
    }

    async fn prove(
        &mut self,
        nodes: &Nodes,
        leaf: &v1::JournalLeaf,
        patience: Duration,
    ) -> Result<ProvenEvent, CallError> {
        let at = v1::leaf_at::At::Position(leaf.position);
        let text = nodes.receipt(at, patience).await?;
        let receipt = Receipt::parse(text.as_bytes())
            .map_err(|fault| misbehaved(ReceiptError::from(fault).to_string()))?;
        let proven = self.trust.prove(&receipt).map_err(|fault| match fault {
            NotProven::Receipt(ReceiptError::NotMet(why)) => CallError::NotYet(why.to_string()),
            fault => misbehaved(fault.to_string()),
        })?;
        if proven.index() != leaf.position {
            return Err(misbehaved("the receipt is of another leaf".to_owned()));
        }
        if receipt.leaf != leaf.leaf {
            // It is proven that the one that was shown is none: if it is owed, it is not any more.
            self.rewind(leaf.position);
            return Err(misbehaved("another leaf stands there".to_owned()));
        }
        Ok(proven)
    }
}

/// What came of a look at a leaf.
enum Look {
    /// Nothing, or what was wanted.
    News(Option<News>),
    /// It has to be proven, and cannot be yet; or it does not follow, whoever is asked.
    Owed(Debt),
    /// It changes what is in force, and so does something before it that is owed.
    Blocked,
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
