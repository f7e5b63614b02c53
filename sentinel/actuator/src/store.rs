//! What an actuator keeps: HOLD, attempts, the grounds that are not reset, how far it has read the journal.
//!
//! HOLD is one row that reads as *everything* whenever it is not exactly what was written (FAULTS 24).

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use redlatch_link::follow::TrustV1;
use redlatch_link::store::{Pair, Store, StoreError, Table};
use redlatch_types::event::Ground;
use redlatch_types::{Canonical, GroundNumber, LatchNumber};

use crate::attempts::AttemptV1;
use crate::hold::SeenV1;

const HOLD: Table = Table("hold");
const ATTEMPTS: Table = Table("attempts");
const GROUNDS: Table = Table("grounds");
const JOURNAL: Table = Table("journal");

const STATE: &[u8] = b"state";
const KNOWN: &[u8] = b"known";
const TRUST: &[u8] = b"trust";
/// Rows looked at in one go.
const PAGE: usize = 1_024;

/// Why the store does not give what was asked.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// The store failed; the process must end.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A row is there and cannot be read.
    #[error("the {0} in the store cannot be read")]
    Unreadable(&'static str),
}

/// What is known of the journal. Everything before `next` has been taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct KnownV1 {
    /// The first leaf that was not taken in, or belongs to a latch that is not over.
    #[n(0)]
    pub next: u64,
    /// The last RED that the journal latched in order.
    #[n(1)]
    pub watermark: SeenV1,
    /// Every latch up to here was taken in.
    #[n(2)]
    pub latches: LatchNumber,
    /// Leaves before this one are of a sentinel that the root has replaced: their REDs are in another chain.
    #[n(3)]
    pub chain_from: u64,
}

/// Everything, as it was found.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) hold: Option<Vec<u8>>,
    pub(crate) attempts: Vec<Vec<u8>>,
    pub(crate) grounds: BTreeMap<GroundNumber, Ground>,
    pub(crate) known: Option<KnownV1>,
    pub(crate) trust: Option<TrustV1>,
}

/// Reads everything. Rows that cannot be read are left out: the journal's leaves lead to them again, and
/// until then HOLD stays as wide as it is. Whom to believe is no such row: without the nodes of before it
/// could not be proven again.
pub(crate) fn stored<S: Store>(store: &S) -> Result<Stored, KeptError> {
    let attempts = pairs(store, ATTEMPTS)?.into_iter().map(|(_, value)| value);
    let mut grounds = BTreeMap::new();
    let mut whole = true;
    for (key, value) in pairs(store, GROUNDS)? {
        let number = key.try_into().map(u64::from_be_bytes).map(GroundNumber);
        let number = number.ok();
        match (number, Ground::from_canonical(&value).ok()) {
            (Some(number), Some(ground)) => {
                grounds.insert(number, ground);
            }
            _ => whole = false,
        }
    }
    let known = store.get(JOURNAL, KNOWN)?;
    let known = known.and_then(|bytes| KnownV1::from_canonical(&bytes).ok());
    let trust = store.get(JOURNAL, TRUST)?;
    let trust = trust.map(|bytes| TrustV1::from_canonical(&bytes));
    let trust = trust
        .transpose()
        .map_err(|_| KeptError::Unreadable("roster in force"))?;
    let complete = whole && known.is_some();
    Ok(Stored {
        hold: store.get(HOLD, STATE)?,
        attempts: attempts.collect(),
        // Without all of it the journal is read from its beginning.
        grounds: if complete { grounds } else { BTreeMap::new() },
        known: known.filter(|_| whole),
        trust,
    })
}

fn pairs<S: Store>(store: &S, table: Table) -> Result<Vec<Pair>, StoreError> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut from = Vec::new();
    loop {
        let page = store.range(table, &from, None, PAGE)?;
        let full = page.len() == PAGE;
        pairs.extend(page);
        match pairs.last() {
            Some((key, _)) if full => {
                from.clone_from(key);
                from.push(0);
            }
            _ => return Ok(pairs),
        }
    }
}

/// Remembers whom to believe, and forgets what HOLD is and how far the journal was read: whoever was here before may
/// have missed what led here.
pub(crate) fn begin_anew<S: Store>(store: &S, trust: &TrustV1) -> Result<(), KeptError> {
    store.write(|view| {
        view.put(JOURNAL, TRUST, &trust.to_canonical())?;
        view.delete(JOURNAL, KNOWN)?;
        Ok(view.delete(HOLD, STATE)?)
    })
}

fn key(latch: LatchNumber) -> [u8; 8] {
    latch.0.to_be_bytes()
}

/// Replaces HOLD.
pub(crate) fn keep_hold<S: Store>(store: &S, state: &[u8]) -> Result<(), KeptError> {
    Ok(store.put(HOLD, STATE, state)?)
}

/// Keeps an attempt under its latch.
pub(crate) fn keep_attempt<S: Store>(store: &S, attempt: &AttemptV1) -> Result<(), KeptError> {
    let key = key(attempt.latch.latch_epoch);
    Ok(store.put(ATTEMPTS, &key, &attempt.to_canonical())?)
}

/// Drops the attempt at a latch that is over.
pub(crate) fn forget_attempt<S: Store>(store: &S, latch: LatchNumber) -> Result<(), KeptError> {
    store.write(|view| Ok(view.delete(ATTEMPTS, &key(latch))?))
}

/// Remembers what a batch of leaves has taught; a ground that was reset is dropped.
pub(crate) fn keep_known<S: Store>(
    store: &S,
    known: &KnownV1,
    grounds: &[(GroundNumber, Option<Ground>)],
    trust: Option<&TrustV1>,
) -> Result<(), KeptError> {
    store.write(|view| {
        for (number, ground) in grounds {
            let key = number.0.to_be_bytes();
            match ground {
                Some(ground) => view.put(GROUNDS, &key, &ground.to_canonical())?,
                None => view.delete(GROUNDS, &key)?,
            }
        }
        if let Some(trust) = trust {
            view.put(JOURNAL, TRUST, &trust.to_canonical())?;
        }
        Ok(view.put(JOURNAL, KNOWN, &known.to_canonical())?)
    })
}

#[cfg(test)]
mod tests {
    use redlatch_journal::development::{Parties, genesis};
    use redlatch_link::store::SimDisk;
    use redlatch_types::in_force::InForceV1;
    use redlatch_types::records::{GenesisV1, PinnedParty};
    use redlatch_types::{Digest, SigningKey};

    use super::*;

    fn organism() -> GenesisV1 {
        let pinned = |name: &str| PinnedParty {
            name: name.parse().unwrap(),
            key: SigningKey::from_seed([1; 32]).public_key(),
            builds_digest: Digest::ZERO,
            policy_digest: Digest::ZERO,
        };
        genesis(Parties {
            organism_name: "test".parse().unwrap(),
            created_at: 0,
            nonce: Digest::ZERO,
            root: SigningKey::from_seed([2; 32]).public_key(),
            nodes: Vec::new(),
            verifiers: Vec::new(),
            sentinel: pinned("sentinel"),
            actuator: pinned("actuator"),
            subjects: Vec::new(),
            repository: "repo".parse().unwrap(),
            human_keys: Vec::new(),
        })
    }

    #[test]
    fn whoever_replaces_another_begins_with_nothing_but_attempts_and_whom_to_believe() {
        let disk = SimDisk::new();
        let store = disk.open().unwrap();
        let known = KnownV1 {
            next: 100,
            watermark: crate::hold::NOTHING_SEEN,
            latches: LatchNumber(3),
            chain_from: 7,
        };
        keep_hold(&store, b"narrow").unwrap();
        keep_known(&store, &known, &[], None).unwrap();
        store
            .put(ATTEMPTS, &key(LatchNumber(3)), b"attempt")
            .unwrap();
        assert_eq!(stored(&store).unwrap().known, Some(known));

        let trust = TrustV1 {
            in_force: InForceV1::of_genesis(&organism()),
            is_ahead: false,
        };
        begin_anew(&store, &trust).unwrap();
        let found = stored(&store).unwrap();
        assert_eq!((found.hold, found.known), (None, None));
        assert_eq!((found.trust, found.attempts.len()), (Some(trust), 1));
    }
}
