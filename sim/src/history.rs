//! What happened in one run, as the invariants read it: what each disk took in, what each node applied and
//! said, what clients were promised.
//!
//! It only records. Nothing here is compared with anything: that is the work of [`crate::invariants`], so
//! that each of them can be shown a history made by hand.

use std::collections::{BTreeMap, BTreeSet};

use redlatch_types::records::{RedScope, ScopeState};
use redlatch_types::{Digest, EventId, IntentDigest, TransactionId};

use crate::oracle::Promises;

/// A vote as it lies on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct VoteSeen {
    /// Term.
    pub term: u64,
    /// Candidate.
    pub candidate: Option<u64>,
    /// Whether the candidate is known to have won.
    pub committed: bool,
}

/// Something a node's disk took in, in the order in which it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskEvent {
    /// A process opened it and found this vote and this last applied index.
    Opened {
        /// Vote.
        vote: Option<VoteSeen>,
        /// Last applied index.
        applied: Option<u64>,
    },
    /// A vote whose sync was answered.
    Voted(VoteSeen),
    /// A last applied index, written but perhaps not synced.
    Applied(u64),
    /// Everything written up to this applied index is synced.
    AppliedSynced(u64),
    /// The disk went back in time or is new; everything before means nothing for it any more.
    Replaced,
}

/// What a leaf of the journal says, as far as an invariant asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// An intent is frozen.
    Frozen {
        /// Idempotency key of the command.
        event: EventId,
        /// The intent.
        intent: IntentDigest,
        /// Every scope that would stop it.
        scopes: BTreeSet<RedScope>,
    },
    /// An intent was taken back.
    Withdrawn {
        /// Idempotency key of the command.
        event: EventId,
        /// The intent.
        intent: IntentDigest,
    },
    /// A positive step of an intent.
    Positive {
        /// Which.
        step: Step,
        /// The intent.
        intent: IntentDigest,
        /// The transaction, once there is one.
        transaction: Option<TransactionId>,
    },
    /// An effect is about to be made.
    Claimed(TransactionId),
    /// A RED is latched.
    Latched {
        /// Digest of the sentinel's record.
        record: Digest,
        /// What its ground freezes.
        scopes: BTreeSet<RedScope>,
    },
    /// Anything else, by its word.
    Other(&'static str),
}

/// A positive step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Decided and minted.
    Authorized,
    /// Capability consumed.
    Prepared,
    /// Marker written.
    Committed,
}

/// A receipt that somebody was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptSeen {
    /// Position of its leaf.
    pub position: u64,
    /// Digest of its leaf.
    pub leaf: Digest,
    /// Size of the tree under the head.
    pub size: u64,
    /// Root of that tree.
    pub root: Digest,
    /// Whether it verifies under the organism's policy; the reason if not.
    pub verified: Result<(), String>,
}

/// A signed status that somebody was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusSeen {
    /// Who signed it.
    pub node: u64,
    /// When the question was asked, microseconds.
    pub asked_us: u64,
    /// What was asked about.
    pub intent: Option<IntentDigest>,
    /// What it says.
    pub scope: ScopeState,
}

/// One node's journal once everything has settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Digest of each leaf, from position 0 on.
    pub leaves: Vec<Digest>,
    /// Digest of the authority.
    pub state: Digest,
}

/// By value: who has shown it. Two values under one key are a contradiction.
pub type Shown<T> = BTreeMap<T, BTreeSet<u64>>;

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By node: what its disk took in.
    pub disks: BTreeMap<u64, Vec<DiskEvent>>,
    /// By term: who led.
    pub leaders: BTreeMap<u64, Shown<u64>>,
    /// By index: term and digest of the entry that was applied.
    pub entries: BTreeMap<u64, Shown<(u64, Digest)>>,
    /// By position: digest of the leaf that was written.
    pub leaves: BTreeMap<u64, Shown<Digest>>,
    /// By position: what the first leaf written there says.
    pub facts: BTreeMap<u64, Fact>,
    /// By index of the last applied entry: digest of the authority.
    pub states: BTreeMap<u64, Shown<Digest>>,
    /// Receipts.
    pub receipts: Vec<ReceiptSeen>,
    /// Statuses.
    pub statuses: Vec<StatusSeen>,
    /// What clients and the sentinel were told.
    pub promises: Promises,
    /// By node, once the run has settled.
    pub settled: BTreeMap<u64, Settled>,
}

impl History {
    /// Records that `node` has shown `value` under `key`.
    pub fn show<K: Ord, T: Ord>(of: &mut BTreeMap<K, Shown<T>>, key: K, value: T, node: u64) {
        of.entry(key)
            .or_default()
            .entry(value)
            .or_default()
            .insert(node);
    }

    /// The scopes that would stop an intent; none if its leaf was not seen.
    pub fn scopes_of(&self, asked: IntentDigest) -> Option<&BTreeSet<RedScope>> {
        self.facts.values().find_map(|fact| match fact {
            Fact::Frozen { intent, scopes, .. } if *intent == asked => Some(scopes),
            _ => None,
        })
    }
}

/// The key of a map under which two different values were shown.
pub fn contradiction<K: Copy, T>(of: &BTreeMap<K, Shown<T>>) -> Option<(K, &Shown<T>)> {
    of.iter()
        .find(|(_, shown)| shown.len() > 1)
        .map(|(key, shown)| (*key, shown))
}
