//! What happened in one run, as the invariants read it: what each disk took in, what each node applied and
//! said, what clients were promised.
//!
//! It only records. Nothing here is compared with anything: that is the work of [`crate::invariants`], so
//! that each of them can be shown a history made by hand.

use std::collections::{BTreeMap, BTreeSet, btree_map};

use redlatch_types::records::{RedScope, ScopeState};
use redlatch_types::{Digest, EventId, IntentDigest, LatchNumber, TransactionId, VerifierId};

use crate::facts;
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
        /// Its number.
        number: LatchNumber,
        /// What its ground freezes.
        scopes: BTreeSet<RedScope>,
    },
    /// The stop of a latch is complete.
    Terminal(LatchNumber),
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

/// A ballot as a verifier's disk took it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BallotSeen {
    /// Digest of the signed vote.
    pub vote: Digest,
    /// Digest of the sheet it opened, if it did.
    pub sheet: Option<Digest>,
    /// What was committed to for it.
    pub nonces: Vec<NonceSeen>,
    /// Packages that it gave a share for.
    pub packages: Vec<Digest>,
}

impl BallotSeen {
    /// A ballot of which nothing but the vote is there yet.
    pub fn of(vote: Digest) -> BallotSeen {
        BallotSeen {
            vote,
            sheet: None,
            nonces: Vec::new(),
            packages: Vec::new(),
        }
    }
}

/// The commitment to a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonceSeen {
    /// Boot in which the nonce lives.
    pub boot: u64,
    /// Which issue for its intent.
    pub issue: u64,
    /// Digest of the commitment.
    pub commitment: Digest,
}

/// A RED that the sentinel has taken on: it is durable there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaisedSeen {
    /// When the sentinel said so, microseconds.
    pub at_us: u64,
    /// Digest of its record.
    pub record: Digest,
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
    /// By index of an applied entry: digest of the authority after it.
    pub states: BTreeMap<u64, Shown<Digest>>,
    /// Receipts.
    pub receipts: Vec<ReceiptSeen>,
    /// Statuses.
    pub statuses: Vec<StatusSeen>,
    /// What clients and the sentinel were told.
    pub promises: Promises,
    /// By verifier and intent: every state of its ballot that its disk took in.
    pub ballots: BTreeMap<(VerifierId, IntentDigest), Vec<BallotSeen>>,
    /// By verifier and intent: votes that the journal counted.
    pub counted: BTreeMap<(VerifierId, IntentDigest), BTreeSet<Digest>>,
    /// REDs that the sentinel was made to raise.
    pub raised: Vec<RaisedSeen>,
    /// Since when nothing goes wrong any more, microseconds; none while faults go on.
    pub calm_since_us: Option<u64>,
    /// When it was last judged, microseconds.
    pub judged_us: u64,
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

    /// Takes in a leaf that a node wrote.
    pub fn take_leaf(&mut self, position: u64, leaf: &[u8], node: u64) {
        History::show(&mut self.leaves, position, Digest::of(leaf), node);
        if let btree_map::Entry::Vacant(first) = self.facts.entry(position) {
            first.insert(facts::of(leaf));
            for (verifier, intent, vote) in facts::counted(leaf) {
                let votes = self.counted.entry((verifier, intent)).or_default();
                votes.insert(vote);
            }
        }
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
