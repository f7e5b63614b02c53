//! Signed tree heads of all nodes: which are valid, which have a majority, which contradict
//! (D4). Pure: it holds no key that signs, and asks for this node's own tree by a closure.

use std::collections::{BTreeMap, BTreeSet};

use redlatch_types::checkpoint::{Checkpoint, Origin};
use redlatch_types::note::{Algorithm, KeyError, Note, SignatureLine, Statement, VerifierKey};
use redlatch_types::records::RosterV1;
use redlatch_types::{Digest, RosterEpoch};

use crate::planted::Bug;

/// Heads kept of one node that this node's tree has not reached.
const AHEAD_PER_NODE_MAX: usize = 64;

/// One head with one node's two signatures over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedHead {
    /// The node that signed.
    pub node: u64,
    /// Leaves in the tree.
    pub size: u64,
    /// Its root.
    pub root: Digest,
    /// State time after the entry, milliseconds; the cosignature says it in seconds.
    pub state_time_ms: u64,
    /// By the log key.
    pub log_signature: SignatureLine,
    /// By the cosigner key.
    pub cosignature: SignatureLine,
}

/// A head that a majority of voters has cosigned and that is a head of this node's own tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CosignedHead {
    /// Leaves in the tree.
    pub size: u64,
    /// Its root.
    pub root: Digest,
    /// State time after the entry, milliseconds.
    pub state_time_ms: u64,
    /// The checkpoint with the signatures.
    pub note: Note,
}

/// Two signed heads that cannot be of one journal. Kept as evidence; whoever holds it cosigns
/// nothing more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "two histories: node {} signed root {} at size {}, this is not {expected}",
    found.node, found.root, found.size
)]
pub struct Fork {
    /// The root that this node's tree, or another signed head, has at that size.
    pub expected: Digest,
    /// The head that contradicts it.
    pub found: Box<SignedHead>,
}

/// Why a head counts for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    /// The signer is no node of the roster.
    #[error("the signer is no node of the roster")]
    NotANode,
    /// A signature does not hold, or is not by that node's keys.
    #[error("a signature does not hold")]
    Signature,
}

/// The keys heads are verified with: those of every node of a roster. Only voters count.
#[derive(Clone, Debug)]
pub struct HeadKeys {
    /// Which journal.
    pub origin: Origin,
    /// Log key and cosigner key. A learner's are here too: a peer may have applied its promotion
    /// before this node does.
    nodes: BTreeMap<u64, (VerifierKey, VerifierKey)>,
    voters: BTreeSet<u64>,
}

impl HeadKeys {
    /// The keys of a roster.
    ///
    /// # Errors
    /// [`KeyError`] if the roster holds a key that cannot sign.
    pub fn new(origin: Origin, roster: &RosterV1) -> Result<Self, KeyError> {
        let keys = |node: &redlatch_types::records::RosterNode| {
            let name = origin.cosigner_name(node.name.as_str())?;
            let log = VerifierKey::new(origin.log_name(), Algorithm::Ed25519, node.log_key)?;
            let cosigner = VerifierKey::new(name, Algorithm::Cosignature, node.cosigner_key)?;
            Ok((node.node_id.0, (log, cosigner)))
        };
        let nodes = roster.nodes.iter().map(keys);
        Ok(Self {
            origin,
            nodes: nodes.collect::<Result<_, KeyError>>()?,
            voters: roster.voters().map(|node| node.node_id.0).collect(),
        })
    }

    /// How many voters are a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// The text that is signed.
    #[must_use]
    pub fn text(&self, size: u64, root: &Digest) -> String {
        Checkpoint {
            origin: self.origin,
            size,
            root: *root,
        }
        .to_string()
    }

    /// Verifies both signatures of a head.
    ///
    /// # Errors
    /// [`BadHead`].
    pub fn verify(&self, head: &SignedHead) -> Result<(), BadHead> {
        let (log, cosigner) = self.nodes.get(&head.node).ok_or(BadHead::NotANode)?;
        let text = self.text(head.size, &head.root);
        let signed = log.verify(&text, &head.log_signature);
        let observed = cosigner.verify(&text, &head.cosignature);
        let time_s = head.state_time_ms / 1_000;
        match (signed, observed) {
            (Ok(Statement::Signed), Ok(Statement::Observed { time_s: seen })) if seen == time_s => {
                Ok(())
            }
            _ => Err(BadHead::Signature),
        }
    }

    /// Counts the voters that validly cosigned the checkpoint in `note`: what proves a snapshot.
    #[must_use]
    pub fn cosigners(&self, note: &Note) -> usize {
        let held = |key: &VerifierKey| {
            note.signatures()
                .iter()
                .any(|line| key.verify(note.text(), line).is_ok())
        };
        self.voters
            .iter()
            .filter_map(|node| self.nodes.get(node))
            .filter(|(_, cosigner)| held(cosigner))
            .count()
    }

    /// A note of a head by those of `signers` that count; `None` if they are no majority.
    fn assemble(&self, signers: &BTreeMap<u64, SignedHead>) -> Option<CosignedHead> {
        let counted = || {
            let signed = signers.iter();
            signed
                .filter(|(node, _)| self.voters.contains(node))
                .map(|(_, head)| head)
        };
        if counted().count() < self.majority() && !Bug::OneCosigner.planted() {
            return None;
        }
        let first = counted().next()?;
        let text = self.text(first.size, &first.root);
        let mut note = Note::new(text, first.log_signature.clone()).ok()?;
        for head in counted() {
            note.add(head.cosignature.clone()).ok()?;
        }
        Some(CosignedHead {
            size: first.size,
            root: first.root,
            state_time_ms: first.state_time_ms,
            note,
        })
    }
}

/// A roster has followed another: the majority of the one before still has to prove it, to
/// whoever knows no later one (D4).
#[derive(Clone, Debug)]
pub struct RosterStep {
    /// Version of the roster that followed.
    pub epoch: RosterEpoch,
    /// Position of its leaf.
    pub position: u64,
    /// Leaves after its entry: at this head the node that left has signed for the last time.
    pub size: u64,
    /// Keys of the roster before it.
    pub before: HeadKeys,
}

/// This node's own tree, as far as it may be asked.
pub trait OwnTree {
    /// Leaves applied.
    fn size(&self) -> u64;
    /// Root of the first `size` leaves; `None` if it cannot be told now.
    fn root_at(&self, size: u64) -> Option<Digest>;
}

/// The heads this node knows of.
#[derive(Debug)]
pub struct HeadBook {
    keys: HeadKeys,
    /// By size, then root: who signed.
    heads: BTreeMap<u64, BTreeMap<Digest, BTreeMap<u64, SignedHead>>>,
    cosigned: Option<CosignedHead>,
    /// A size whose head is asked for even if a higher one has its majority first: a snapshot is
    /// proven by exactly that head.
    wanted: Option<u64>,
    /// Rosters that followed and are not proven by the one before, in order.
    steps: Vec<RosterStep>,
}

impl HeadBook {
    /// An empty book.
    #[must_use]
    pub fn new(keys: HeadKeys) -> Self {
        Self {
            keys,
            heads: BTreeMap::new(),
            cosigned: None,
            wanted: None,
            steps: Vec::new(),
        }
    }

    /// Counts by another roster from here on. A head that has no majority of it is none any more:
    /// the next one is at most one entry away.
    pub fn follow(&mut self, keys: HeadKeys) {
        self.keys = keys;
        let enough = |head: &CosignedHead| self.keys.cosigners(&head.note) >= self.keys.majority();
        self.cosigned = self.cosigned.take().filter(enough);
    }

    /// Asks for heads by which the roster before proves the step.
    pub fn expect_step(&mut self, step: RosterStep) {
        self.steps.push(step);
    }

    /// Steps that are not proven yet.
    #[must_use]
    pub fn steps(&self) -> &[RosterStep] {
        &self.steps
    }

    /// Steps up to `epoch` are proven by other means.
    pub fn forget_steps(&mut self, epoch: RosterEpoch) {
        self.steps.retain(|step| step.epoch > epoch);
    }

    /// The steps that the roster before has proven by now, each with a head above its leaf.
    pub fn proven_steps(&mut self, tree: &impl OwnTree) -> Vec<(RosterStep, CosignedHead)> {
        let mut proven = Vec::new();
        while let Some(step) = self.steps.first() {
            if step.size > tree.size() {
                break;
            }
            let reached = step.size..=tree.size();
            let above = self.heads.range(reached).flat_map(|(_, roots)| roots);
            let own = above.filter(|(root, signers)| {
                let size = signers.values().next().map_or(0, |head| head.size);
                tree.root_at(size) == Some(**root)
            });
            let head = own.filter_map(|(_, signers)| {
                let head = step.before.assemble(signers)?;
                // A number may have changed hands: what counts is the signature.
                let enough = step.before.cosigners(&head.note) >= step.before.majority();
                enough.then_some(head)
            });
            let Some(head) = head.last() else { break };
            proven.push((self.steps.remove(0), head));
        }
        proven
    }

    /// Whether heads of `size` are kept though a higher one has its majority.
    fn keeps(&self, size: u64) -> bool {
        self.wanted == Some(size) || self.steps.iter().any(|step| step.size == size)
    }

    /// The keys it verifies with.
    #[must_use]
    pub fn keys(&self) -> &HeadKeys {
        &self.keys
    }

    /// The highest head with a majority.
    #[must_use]
    pub fn cosigned(&self) -> Option<&CosignedHead> {
        self.cosigned.as_ref()
    }

    /// Asks that heads of `size` be kept until another size is asked for.
    pub fn want(&mut self, size: u64) {
        self.wanted = Some(size);
    }

    /// The head of exactly `size`, if a majority has cosigned the tree's root there.
    #[must_use]
    pub fn cosigned_at(&self, size: u64, tree: &impl OwnTree) -> Option<CosignedHead> {
        if let Some(known) = self.cosigned.as_ref().filter(|known| known.size == size) {
            return Some(known.clone());
        }
        let signers = self.heads.get(&size)?.get(&tree.root_at(size)?)?;
        self.keys.assemble(signers)
    }

    /// Starts from a head that is proven already: the one a snapshot came with.
    pub fn start_from(&mut self, head: CosignedHead) {
        if self
            .cosigned
            .as_ref()
            .is_none_or(|known| known.size < head.size)
        {
            self.cosigned = Some(head);
        }
    }

    /// Takes in a verified head.
    ///
    /// # Errors
    /// [`Fork`] if it contradicts this node's tree or another signed head.
    pub fn record(&mut self, head: SignedHead, tree: &impl OwnTree) -> Result<(), Box<Fork>> {
        check_against(tree, &head)?;
        let below = self
            .cosigned
            .as_ref()
            .is_some_and(|known| head.size < known.size);
        if below && !self.keeps(head.size) {
            return Ok(());
        }
        let roots = self.heads.entry(head.size).or_default();
        if let Some((expected, _)) = roots.iter().find(|(root, _)| **root != head.root) {
            return Err(Box::new(Fork {
                expected: *expected,
                found: Box::new(head),
            }));
        }
        let node = head.node;
        roots.entry(head.root).or_default().insert(node, head);
        self.bound(node, tree.size());
        Ok(())
    }

    /// Holds heads that the tree has reached against it and finds the highest with a majority.
    /// Says whether a higher one was found.
    ///
    /// # Errors
    /// [`Fork`] if a peer's head turns out to contradict the tree.
    pub fn settle(&mut self, tree: &impl OwnTree) -> Result<bool, Box<Fork>> {
        let known = self.cosigned.as_ref().map_or(0, |head| head.size);
        let mut best = None;
        for (size, roots) in self.heads.range(..=tree.size()) {
            for signers in roots.values() {
                let Some(any) = signers.values().next() else {
                    continue;
                };
                check_against(tree, any)?;
                if *size > known && tree.root_at(*size) == Some(any.root) {
                    best = self.keys.assemble(signers).or(best);
                }
            }
        }
        let Some(head) = best else {
            return Ok(false);
        };
        // Heads below serve no receipt any more; heads at this size still gain signatures.
        let below = self.heads.range(..head.size).map(|(size, _)| *size);
        let done: Vec<u64> = below.filter(|size| !self.keeps(*size)).collect();
        for size in done {
            self.heads.remove(&size);
        }
        self.cosigned = Some(head);
        Ok(true)
    }

    /// Drops the lowest of a node's heads ahead of the tree when it has sent too many.
    fn bound(&mut self, node: u64, own_size: u64) {
        let signed_by = |roots: &BTreeMap<Digest, BTreeMap<u64, SignedHead>>| {
            roots.values().any(|signers| signers.contains_key(&node))
        };
        let ahead: BTreeSet<u64> = self
            .heads
            .range(own_size.saturating_add(1)..)
            .filter(|(_, roots)| signed_by(roots))
            .map(|(size, _)| *size)
            .collect();
        let excess = ahead.len().saturating_sub(AHEAD_PER_NODE_MAX);
        for size in ahead.into_iter().take(excess) {
            if let Some(roots) = self.heads.get_mut(&size) {
                for signers in roots.values_mut() {
                    signers.remove(&node);
                }
            }
        }
    }
}

fn check_against(tree: &impl OwnTree, head: &SignedHead) -> Result<(), Box<Fork>> {
    if head.size > tree.size() {
        return Ok(());
    }
    match tree.root_at(head.size) {
        Some(expected) if expected != head.root => Err(Box::new(Fork {
            expected,
            found: Box::new(head.clone()),
        })),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
