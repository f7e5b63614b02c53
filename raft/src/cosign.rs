//! Signs this node's heads after apply, keeps peers' heads beside them, and makes receipts (D4).
//!
//! A head is signed only in order, never backwards, and after a restart only once the tree has
//! caught up with the last head signed before it and has the same root there (D9). What the node
//! holds back — a RED it has not seen latched, a clock out of bounds — is told by
//! [`CosignHold`]. Whoever holds two histories signs nothing more. Signing is after apply and holds
//! nobody up. Whether an event is positive or a stop is the journal's word, not decided here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redlatch_types::checkpoint::{Checkpoint, Origin};
use redlatch_types::note::{KeyName, SignatureError, SignatureLine};
use redlatch_types::receipt::{Receipt, TlogProof};
use redlatch_types::{Digest, RosterEpoch, SigningKey};
use tokio::sync::watch;

use crate::archive::Archive;
use crate::engine::{Engine, Family, StorageFault, framed, unframed};
pub use crate::heads::{
    BadHead, CosignedHead, Fork, HeadBook, HeadKeys, OwnTree, RosterStep, SignedHead,
};

/// Key in `Meta` of the last head this node has signed: size u64, root.
pub(crate) const LAST_SIGNED: &[u8] = b"cosign/last";

/// Own heads kept for peers that lag.
const RECENT_MAX: usize = 32;

/// The three keys of a node (D4).
#[derive(Clone)]
pub struct NodeSigningKeys {
    /// Signs checkpoints as log.
    pub log: Arc<SigningKey>,
    /// Cosigns heads.
    pub cosigner: Arc<SigningKey>,
    /// Signs status and clock readings.
    pub record: Arc<SigningKey>,
}

impl std::fmt::Debug for NodeSigningKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeSigningKeys")
    }
}

/// Why this node signs no head from a new positive marker on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CosignHold {
    /// It holds nothing back.
    #[default]
    None,
    /// It holds a valid RED that its applied journal has not latched (D2).
    RedHeld,
    /// Its clock differs from state time by more than 2 s (D7).
    ClockUnfit,
}

/// What the entry before a head contains, as far as holding back asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadKind {
    /// Neither of the others.
    Neutral,
    /// A positive marker.
    Positive,
    /// A latch, freeze, safety or terminal event: always cosigned.
    Stop,
}

/// A place where a head is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadPlace {
    /// Leaves after the entry.
    pub size: u64,
    /// Root of the tree.
    pub root: Digest,
    /// State time after the entry, milliseconds.
    pub state_time_ms: u64,
    /// What the entry contains.
    pub kind: HeadKind,
}

#[derive(Debug)]
struct Inner {
    book: HeadBook,
    /// Last head signed by this disk, of this or an earlier boot.
    last: Option<(u64, Digest)>,
    /// Whether `last` has been found in the tree of this boot.
    continued: bool,
    hold: CosignHold,
    /// The latest head not signed because of `hold`; until a stop, later heads join it.
    withheld: Option<HeadPlace>,
    fork: Option<Box<Fork>>,
    /// Own heads, ascending.
    recent: VecDeque<SignedHead>,
    /// Leaves whose writes are done.
    written: u64,
}

/// Signs and collects heads.
#[derive(Debug)]
pub struct Cosigner<E> {
    own: u64,
    keys: NodeSigningKeys,
    archive: Archive<E>,
    inner: Mutex<Inner>,
    /// Size of the highest head with a majority.
    cosigned: watch::Sender<u64>,
    /// Size of the highest head this node has signed.
    signed: watch::Sender<u64>,
    origin: Origin,
    cosigner_name: KeyName,
}

/// The tree on disk, as the book asks for it.
struct WrittenTree<'a, E> {
    archive: &'a Archive<E>,
    size: u64,
}

impl<E: Engine> OwnTree for WrittenTree<'_, E> {
    fn size(&self) -> u64 {
        self.size
    }

    fn root_at(&self, size: u64) -> Option<Digest> {
        // A fault has blown the engine's fuse and ends the process; here it only means "not now".
        self.archive.root_at(size).ok().flatten()
    }
}

impl<E: Engine> Cosigner<E> {
    /// Reads the last signed head.
    ///
    /// # Errors
    /// Any fault of the store; a damaged record is `Corrupt`.
    pub fn open(
        own: u64,
        keys: NodeSigningKeys,
        verifiers: HeadKeys,
        cosigner_name: KeyName,
        engine: E,
    ) -> Result<Self, StorageFault> {
        let origin = verifiers.origin;
        let last = match engine.get(Family::Meta, LAST_SIGNED)? {
            None => None,
            Some(stored) => Some(decode_last(&stored).map_err(|fault| engine.condemn(fault))?),
        };
        let inner = Inner {
            book: HeadBook::new(verifiers),
            continued: last.is_none(),
            last,
            hold: CosignHold::None,
            withheld: None,
            fork: None,
            recent: VecDeque::new(),
            written: 0,
        };
        Ok(Self {
            own,
            keys,
            archive: Archive::new(engine),
            inner: Mutex::new(inner),
            cosigned: watch::Sender::new(0),
            signed: watch::Sender::new(0),
            origin,
            cosigner_name,
        })
    }

    /// Decides whether to sign the head of an entry whose writes are not done yet. Returns the
    /// head and the record of it, which goes into the entry's own batch; after the batch,
    /// [`Cosigner::announce`] lets it out. A node that does not count signs nothing: what it would
    /// have withheld is nobody's to sign either.
    pub fn consider(&self, place: HeadPlace, counts: bool) -> Option<(SignedHead, Vec<u8>)> {
        let mut inner = self.lock();
        if !counts {
            inner.withheld = None;
            return None;
        }
        if inner.fork.is_some() || !self.has_continued(&mut inner, &place) {
            return None;
        }
        let held = inner.hold != CosignHold::None && place.kind == HeadKind::Positive;
        if place.kind != HeadKind::Stop && (held || inner.withheld.is_some()) {
            inner.withheld = Some(place);
            return None;
        }
        inner.withheld = None;
        self.sign(&mut inner, &place)
    }

    /// Whether the tree holds the last head signed before this boot. A different root there is a
    /// fork of this node's own making; a smaller tree only waits.
    fn has_continued(&self, inner: &mut Inner, place: &HeadPlace) -> bool {
        let Some((size, root)) = inner.last.filter(|_| !inner.continued) else {
            return true;
        };
        let found = match size.cmp(&place.size) {
            std::cmp::Ordering::Greater => return false,
            std::cmp::Ordering::Equal => Some(place.root),
            std::cmp::Ordering::Less => self.archive.root_at(size).ok().flatten(),
        };
        match found {
            None => false,
            Some(found) if found == root => {
                inner.continued = true;
                true
            }
            Some(found) => {
                tracing::error!(size, signed = %root, %found, "the journal is not the one signed before");
                if let Ok(head) = self.make(&HeadPlace {
                    size,
                    root: found,
                    ..*place
                }) {
                    inner.fork = Some(Box::new(Fork {
                        expected: root,
                        found: Box::new(head),
                    }));
                }
                false
            }
        }
    }

    fn sign(&self, inner: &mut Inner, place: &HeadPlace) -> Option<(SignedHead, Vec<u8>)> {
        // Never backwards; the same head again is the same signature.
        if inner.last.is_some_and(|(size, _)| place.size < size) {
            return None;
        }
        let head = self.make(place).ok()?;
        inner.last = Some((place.size, place.root));
        Some((head, encode_last(place.size, &place.root)))
    }

    fn make(&self, place: &HeadPlace) -> Result<SignedHead, SignatureError> {
        let text = Checkpoint {
            origin: self.origin,
            size: place.size,
            root: place.root,
        }
        .to_string();
        let log_signature = SignatureLine::by_log(self.origin.log_name(), &self.keys.log, &text);
        let cosignature = SignatureLine::by_cosigner(
            self.cosigner_name.clone(),
            &self.keys.cosigner,
            &text,
            place.state_time_ms / 1_000,
        )?;
        Ok(SignedHead {
            node: self.own,
            size: place.size,
            root: place.root,
            state_time_ms: place.state_time_ms,
            log_signature,
            cosignature,
        })
    }

    /// The writes up to `written` leaves are done: lets an own head out and looks for majorities.
    pub fn announce(&self, written: u64, head: Option<SignedHead>) {
        let mut inner = self.lock();
        inner.written = inner.written.max(written);
        if let Some(head) = head {
            let size = head.size;
            if inner.recent.len() == RECENT_MAX {
                inner.recent.pop_front();
            }
            inner.recent.push_back(head.clone());
            self.record(&mut inner, head);
            self.signed.send_replace(size);
        }
        self.settle(&mut inner);
    }

    /// Takes in heads of peers; those that do not verify count for nothing.
    pub fn receive(&self, heads: Vec<SignedHead>) {
        let keys = self.lock().book.keys().clone();
        // Signatures are checked outside the lock: apply waits for it.
        let valid: Vec<_> = heads
            .into_iter()
            .filter(|head| keys.verify(head).is_ok())
            .collect();
        let mut inner = self.lock();
        for head in valid {
            self.record(&mut inner, head);
        }
        self.settle(&mut inner);
    }

    fn record(&self, inner: &mut Inner, head: SignedHead) {
        let tree = WrittenTree {
            archive: &self.archive,
            size: inner.written,
        };
        if let Err(fork) = inner.book.record(head, &tree) {
            degrade(inner, fork);
        }
    }

    fn settle(&self, inner: &mut Inner) {
        let tree = WrittenTree {
            archive: &self.archive,
            size: inner.written,
        };
        match inner.book.settle(&tree) {
            Err(fork) => degrade(inner, fork),
            Ok(false) => {}
            Ok(true) => {
                let size = inner.book.cosigned().map_or(0, |head| head.size);
                self.cosigned.send_replace(size);
            }
        }
    }

    /// Counts by another roster from here on.
    pub fn follow(&self, keys: HeadKeys) {
        self.lock().book.follow(keys);
    }

    /// Asks for heads by which the roster before proves the step, until it has.
    pub fn expect_step(&self, step: RosterStep) {
        self.lock().book.expect_step(step);
    }

    /// Whether a roster step still waits for its proof.
    pub fn waits_for_steps(&self) -> bool {
        !self.lock().book.steps().is_empty()
    }

    /// Steps up to `epoch` are proven by other means.
    pub fn forget_steps(&self, epoch: RosterEpoch) {
        self.lock().book.forget_steps(epoch);
    }

    /// Which journal.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Steps that the roster before them has proven since the last call, each with its receipt. A
    /// step whose leaf or nodes are not here is proven by the snapshot that brought it.
    ///
    /// # Errors
    /// Any fault of the store.
    pub fn proven_steps(&self) -> Result<Vec<(RosterStep, Receipt)>, StorageFault> {
        let proven = {
            let mut inner = self.lock();
            let tree = WrittenTree {
                archive: &self.archive,
                size: inner.written,
            };
            inner.book.proven_steps(&tree)
        };
        let mut receipts = Vec::with_capacity(proven.len());
        for (step, head) in proven {
            if let Some(receipt) = self.receipt_under(step.position, &head)? {
                receipts.push((step, receipt));
            }
        }
        Ok(receipts)
    }

    /// Starts from the head a snapshot was proven with.
    pub fn start_from(&self, head: CosignedHead) {
        let mut inner = self.lock();
        inner.book.start_from(head);
        let size = inner.book.cosigned().map_or(0, |head| head.size);
        self.cosigned.send_replace(size);
    }

    /// Own heads of at least `size`, ascending; the last one if all are smaller.
    pub fn recent(&self, size: u64) -> Vec<SignedHead> {
        let inner = self.lock();
        let from: Vec<_> = inner
            .recent
            .iter()
            .filter(|head| head.size >= size)
            .cloned()
            .collect();
        match (from.is_empty(), inner.recent.back()) {
            (true, Some(last)) => vec![last.clone()],
            _ => from,
        }
    }

    /// Follows the size of the highest head this node has signed.
    pub fn watch_signed(&self) -> watch::Receiver<u64> {
        self.signed.subscribe()
    }

    /// Follows the size of the highest head with a majority.
    pub fn watch_cosigned(&self) -> watch::Receiver<u64> {
        self.cosigned.subscribe()
    }

    /// The highest head with a majority.
    pub fn cosigned(&self) -> Option<CosignedHead> {
        self.lock().book.cosigned().cloned()
    }

    /// The head of exactly `size`, if it has a majority.
    pub fn cosigned_at(&self, size: u64) -> Option<CosignedHead> {
        let inner = self.lock();
        let tree = WrittenTree {
            archive: &self.archive,
            size: inner.written,
        };
        inner.book.cosigned_at(size, &tree)
    }

    /// Asks that the head of `size` be collected even if a higher one has its majority first.
    pub fn want(&self, size: u64) {
        self.lock().book.want(size);
    }

    /// The keys heads are verified with.
    pub fn keys(&self) -> HeadKeys {
        self.lock().book.keys().clone()
    }

    /// The evidence, if this node holds two histories.
    pub fn fork(&self) -> Option<Fork> {
        self.lock().fork.as_deref().cloned()
    }

    /// Sets what is held back. Lifting it signs the latest head that was withheld; the record of
    /// it must be written before [`Cosigner::announce`].
    pub fn hold(&self, hold: CosignHold) -> Option<(SignedHead, Vec<u8>)> {
        let mut inner = self.lock();
        inner.hold = hold;
        if hold != CosignHold::None || inner.fork.is_some() {
            return None;
        }
        let place = inner.withheld.take()?;
        self.sign(&mut inner, &place)
    }

    /// The receipt of a leaf under the highest cosigned head; `None` if there is no such head
    /// above it yet, or leaves or nodes are still being fetched.
    ///
    /// # Errors
    /// Any fault of the store.
    pub fn receipt(&self, position: u64) -> Result<Option<Receipt>, StorageFault> {
        match self.cosigned().filter(|head| head.size > position) {
            Some(head) => self.receipt_under(position, &head),
            None => Ok(None),
        }
    }

    fn receipt_under(
        &self,
        position: u64,
        head: &CosignedHead,
    ) -> Result<Option<Receipt>, StorageFault> {
        let leaf = self.archive.leaf(position)?;
        let hashes = self.archive.inclusion(head.size, position)?;
        Ok(match (leaf, hashes) {
            (Some(leaf), Some(hashes)) => Some(Receipt {
                leaf,
                proof: TlogProof {
                    index: position,
                    hashes,
                    head: head.note.clone(),
                },
            }),
            _ => None,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change of the book is whole before anything in it could panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn degrade(inner: &mut Inner, fork: Box<Fork>) {
    if inner.fork.is_none() {
        tracing::error!(%fork, "degraded: this node cosigns nothing more");
        inner.fork = Some(fork);
    }
}

fn encode_last(size: u64, root: &Digest) -> Vec<u8> {
    let mut bytes = size.to_be_bytes().to_vec();
    bytes.extend_from_slice(&root.0);
    framed(&bytes)
}

fn decode_last(stored: &[u8]) -> Result<(u64, Digest), StorageFault> {
    let what = "last cosigned head";
    let bytes = unframed(what, stored)?;
    let corrupt = || StorageFault::Corrupt {
        what: what.into(),
        detail: "not 40 bytes".into(),
    };
    let (size, root) = bytes.split_first_chunk::<8>().ok_or_else(corrupt)?;
    let root = root.try_into().map_err(|_| corrupt())?;
    Ok((u64::from_be_bytes(*size), Digest(root)))
}

#[cfg(test)]
mod tests;
