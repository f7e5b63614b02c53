//! REDs that this node holds and its journal has not latched yet (D2).
//!
//! While there is one, the node signs no *free* in its scope and cosigns no head from a new positive
//! marker on. A RED is held from the moment its signature is found to be the pinned sentinel's, before
//! anything is proposed, until the applied journal shows it latched. What is held is in memory only: the
//! sentinel delivers again until it sees the latch.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redlatch_journal::Authority;
use redlatch_journal::admit::RedEntry;
use redlatch_types::command::RawCommand;
use redlatch_types::mandate::{Mandate, mandate};
use redlatch_types::records::{RedScope, SentinelRedOutboxV1};
use redlatch_types::{Canonical, Digest, Envelope};
use tokio::sync::Notify;

/// Most REDs held one by one; beyond that the node holds a stop of everything until all are latched.
const HELD_MAX: usize = 1_024;

/// The REDs this node holds.
#[derive(Debug, Default)]
pub struct HeldReds {
    inner: Mutex<Inner>,
    /// One permit per waiter that matters: the guard and the driver.
    guard: Notify,
    driver: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// By digest of the body.
    reds: BTreeMap<Digest, Held>,
    /// More came than are kept apart.
    overflowed: bool,
}

#[derive(Debug)]
struct Held {
    envelope: Envelope,
    entry: Option<SentinelRedOutboxV1>,
}

impl HeldReds {
    /// Holds a segment, as far as the organism's sentinel has signed it.
    pub fn hold(&self, segment: &[RedEntry], authority: &Authority) {
        let Some(governance) = &authority.governance else {
            return;
        };
        let mut inner = self.lock();
        for red in segment {
            let envelope = red.signed.envelope();
            let ours = envelope.key == governance.roster.sentinel.key
                && envelope.scope.organism_id == governance.organism_id;
            if !ours || is_latched(authority, envelope, red.entry.as_ref()) {
                continue;
            }
            if inner.reds.len() >= HELD_MAX {
                inner.overflowed = true;
                continue;
            }
            let held = Held {
                envelope: envelope.clone(),
                entry: red.entry.clone(),
            };
            inner.reds.insert(envelope.digest(), held);
        }
        drop(inner);
        self.guard.notify_one();
        self.driver.notify_one();
    }

    /// Resolves for the guard when more may be held.
    pub(crate) async fn for_guard(&self) {
        self.guard.notified().await;
    }

    /// Resolves for the driver when more may be held.
    pub(crate) async fn for_driver(&self) {
        self.driver.notified().await;
    }

    /// Lets go of what the applied journal has latched. Says how many are left.
    pub fn settle(&self, authority: &Authority) -> usize {
        let mut inner = self.lock();
        inner
            .reds
            .retain(|_, held| !is_latched(authority, &held.envelope, held.entry.as_ref()));
        if inner.reds.is_empty() {
            inner.overflowed = false;
        }
        inner.reds.len()
    }

    /// How many are held.
    pub fn len(&self) -> usize {
        self.lock().reds.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the held REDs would freeze, ascending. Empty: nothing is held.
    pub fn scopes(&self, authority: &Authority) -> Vec<RedScope> {
        let inner = self.lock();
        if inner.overflowed {
            return vec![RedScope::Everything];
        }
        let mut scopes: Vec<RedScope> = inner
            .reds
            .values()
            .flat_map(|held| would_freeze(authority, held.entry.as_ref()).scopes)
            .collect();
        scopes.sort();
        scopes.dedup();
        scopes
    }

    /// One command that latches what is held, in the order of the sentinel's chain; none if nothing is.
    pub fn command(&self) -> Option<Vec<u8>> {
        let inner = self.lock();
        let mut held: Vec<&Held> = inner.reds.values().collect();
        held.sort_by_key(|held| held.entry.as_ref().map(|entry| entry.outbox_epoch));
        let segment: Vec<Envelope> = held
            .into_iter()
            .take(redlatch_types::limits::RED_SEGMENT_LEN_MAX)
            .map(|held| held.envelope.clone())
            .collect();
        (!segment.is_empty()).then(|| RawCommand::LatchRed(segment).to_canonical())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Plain values: a panic elsewhere leaves them usable.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn would_freeze(authority: &Authority, entry: Option<&SentinelRedOutboxV1>) -> Mandate {
    let Some(entry) = entry else {
        return Mandate::everything();
    };
    let source = entry
        .source_intent_digest_optional
        .and_then(|digest| authority.intents.get(&digest));
    mandate(&entry.red_verdict, source.map(|live| &live.intent))
}

/// Whether the applied journal has latched it, in order, early or as a break of the chain.
fn is_latched(
    authority: &Authority,
    envelope: &Envelope,
    entry: Option<&SentinelRedOutboxV1>,
) -> bool {
    let outbox = &authority.outbox;
    if outbox.broken.contains(&envelope.digest()) {
        return true;
    }
    let Some(entry) = entry else {
        return false;
    };
    let root = entry.signed_outbox_root_digest;
    entry.outbox_epoch <= outbox.number
        || outbox.early.get(&entry.outbox_epoch) == Some(&root)
        || authority
            .latches
            .values()
            .any(|latch| latch.receipt.sentinel_outbox_root_digest == root)
}
