//! States kept small: equal parts of many states are kept once.
//!
//! The states that wait to be explored differ in a few parts and share the rest, above all the
//! governance. Each part is kept in a pool (the COLLAPSE mode of the SPIN model checker does the
//! same), so that a waiting state is a handful of pointers.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use redlatch_journal::authority::{
    Authority, Clock, Governance, Intent, Issued, Latch, Transaction,
};
use redlatch_types::{IntentDigest, LatchNumber, TransactionId};

use super::past::Past;

/// Values of one kind, each kept once.
struct Pool<T>(Mutex<HashSet<Arc<T>>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool(Mutex::new(HashSet::new()))
    }
}

impl<T: Hash + Eq> Pool<T> {
    fn keep(&self, value: T) -> Arc<T> {
        let mut kept = self.0.lock().expect("no other thread panics in here");
        if let Some(known) = kept.get(&value) {
            return Arc::clone(known);
        }
        let value = Arc::new(value);
        kept.insert(Arc::clone(&value));
        value
    }
}

/// The pools of one exploration.
#[derive(Default)]
pub(super) struct Pools {
    governance: Pool<Option<Governance>>,
    intents: Pool<(IntentDigest, Intent)>,
    transactions: Pool<(TransactionId, Transaction)>,
    latches: Pool<(LatchNumber, Latch)>,
    rest: Pool<Authority>,
    pasts: Pool<Past>,
}

/// An [`Authority`] and its past, in pooled parts.
#[derive(Clone)]
pub(super) struct Packed {
    governance: Arc<Option<Governance>>,
    intents: Box<[Arc<(IntentDigest, Intent)>]>,
    transactions: Box<[Arc<(TransactionId, Transaction)>]>,
    latches: Box<[Arc<(LatchNumber, Latch)>]>,
    rest: Arc<Authority>,
    clock: Clock,
    issued: Issued,
    past: Arc<Past>,
}

impl Pools {
    pub(super) fn pack(&self, mut state: Authority, past: Past) -> Packed {
        let intents = std::mem::take(&mut state.intents);
        let transactions = std::mem::take(&mut state.transactions);
        let latches = std::mem::take(&mut state.latches);
        Packed {
            governance: self.governance.keep(state.governance.take()),
            intents: intents.into_iter().map(|i| self.intents.keep(i)).collect(),
            transactions: transactions
                .into_iter()
                .map(|t| self.transactions.keep(t))
                .collect(),
            latches: latches.into_iter().map(|l| self.latches.keep(l)).collect(),
            clock: std::mem::take(&mut state.clock),
            issued: std::mem::take(&mut state.issued),
            rest: self.rest.keep(state),
            past: self.pasts.keep(past),
        }
    }
}

impl Packed {
    pub(super) fn authority(&self) -> Authority {
        Authority {
            governance: (*self.governance).clone(),
            clock: self.clock,
            intents: self.intents.iter().map(|i| (**i).clone()).collect(),
            transactions: self.transactions.iter().map(|t| (**t).clone()).collect(),
            latches: self.latches.iter().map(|l| (**l).clone()).collect(),
            issued: self.issued,
            ..(*self.rest).clone()
        }
    }

    /// Equal for equal states with equal pasts, and, short of a collision, for no others.
    pub(super) fn identity(&self) -> u64 {
        fn place<T>(kept: &Arc<T>) -> usize {
            Arc::as_ptr(kept) as usize
        }
        let intents: Vec<usize> = self.intents.iter().map(place).collect();
        let transactions: Vec<usize> = self.transactions.iter().map(place).collect();
        let latches: Vec<usize> = self.latches.iter().map(place).collect();
        let mut hasher = DefaultHasher::new();
        (intents, transactions, latches).hash(&mut hasher);
        (
            place(&self.governance),
            place(&self.rest),
            place(&self.past),
        )
            .hash(&mut hasher);
        (self.clock, self.issued).hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn past(&self) -> &Arc<Past> {
        &self.past
    }
}
