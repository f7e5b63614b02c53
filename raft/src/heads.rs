//! Signed tree heads of all nodes: which are valid, which have a majority, which contradict
//! (D4). Pure: it holds no key that signs, and asks for this node's own tree by a closure.

use std::collections::{BTreeMap, BTreeSet};

use redlatch_types::Digest;
use redlatch_types::checkpoint::{Checkpoint, Origin};
use redlatch_types::note::{Algorithm, KeyError, Note, SignatureLine, Statement, VerifierKey};
use redlatch_types::records::RosterV1;

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
    /// The signer is no voter of the roster.
    #[error("the signer is no voter")]
    NotAVoter,
    /// A signature does not hold, or is not by that node's keys.
    #[error("a signature does not hold")]
    Signature,
}

/// The keys heads are verified with.
#[derive(Clone, Debug)]
pub struct HeadKeys {
    /// Which journal.
    pub origin: Origin,
    voters: BTreeMap<u64, (VerifierKey, VerifierKey)>,
}

impl HeadKeys {
    /// The voters' keys of a roster.
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
        let voters = roster.voters().map(keys).collect::<Result<_, KeyError>>()?;
        Ok(Self { origin, voters })
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
        let (log, cosigner) = self.voters.get(&head.node).ok_or(BadHead::NotAVoter)?;
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
            .values()
            .filter(|(_, cosigner)| held(cosigner))
            .count()
    }
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
        }
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
        if signers.len() < self.keys.majority() {
            return None;
        }
        self.assemble(signers)
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
        if below && self.wanted != Some(head.size) {
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
                let enough = signers.len() >= self.keys.majority() || Bug::OneCosigner.planted();
                if *size > known && enough && tree.root_at(*size) == Some(any.root) {
                    best = Some(signers.clone());
                }
            }
        }
        let Some(head) = best.and_then(|signers| self.assemble(&signers)) else {
            return Ok(false);
        };
        // Heads below serve no receipt any more; heads at this size still gain signatures.
        let wanted = self.wanted.filter(|size| *size < head.size);
        let wanted = wanted.and_then(|size| Some((size, self.heads.remove(&size)?)));
        self.heads = self.heads.split_off(&head.size);
        self.heads.extend(wanted);
        self.cosigned = Some(head);
        Ok(true)
    }

    fn assemble(&self, signers: &BTreeMap<u64, SignedHead>) -> Option<CosignedHead> {
        let first = signers.values().next()?;
        let text = self.keys.text(first.size, &first.root);
        let mut note = Note::new(text, first.log_signature.clone()).ok()?;
        for head in signers.values() {
            note.add(head.cosignature.clone()).ok()?;
        }
        Some(CosignedHead {
            size: first.size,
            root: first.root,
            state_time_ms: first.state_time_ms,
            note,
        })
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
