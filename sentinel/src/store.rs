//! What a sentinel keeps: outbox, judgements, obeyed orders, officers, how far it has read the journal.
//!
//! Every change of the outbox is one synced transaction that first compares the writer generation, so a
//! second process on the same store stops the first one at its next write (FAULTS 55).

use minicbor::{Decode, Encode};
use redlatch_link::follow::TrustV1;
use redlatch_link::store::{Reader, Store, StoreError, Table, Writer};
use redlatch_types::{Canonical, Digest, LatchNumber, OutboxEpoch, PublicKey};
use redlatch_watch::officers::OfficerV1;
use redlatch_watch::outbox::{Found, Head, Keep, OutboxStateV1, Write};
use redlatch_watch::verdict::JudgementV1;

const OUTBOX: Table = Table("outbox");
const ENTRIES: Table = Table("outbox-entries");
const JUDGEMENTS: Table = Table("judgements");
const ORDERS: Table = Table("orders");
const JOURNAL: Table = Table("journal");
const OFFICERS: Table = Table("officers");

const STATE: &[u8] = b"state";
const KNOWN: &[u8] = b"known";
const TRUST: &[u8] = b"trust";
const OWNER: &[u8] = b"owner";
/// Rows looked at in one go.
const PAGE: usize = 1_024;

/// Why the store does not give or take what was asked.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// The store failed; the process must end.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process has opened the outbox.
    #[error("another process writes this outbox")]
    AnotherWriter,
    /// A row is there and cannot be read.
    #[error("the {0} in the store cannot be read")]
    Unreadable(&'static str),
}

/// What is known of the journal. Everything before `next` has been taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct KnownV1 {
    /// The first leaf that was not taken in.
    #[n(0)]
    pub next: u64,
    /// The highest latch that is proven; there is none below it that is not.
    #[n(1)]
    pub latches: LatchNumber,
    /// The last RED of this sentinel that the journal latched in order.
    #[n(2)]
    pub watermark: Head,
    /// Leaves before this one are of a sentinel that the root has replaced: their REDs are in another chain.
    #[n(3)]
    pub chain_from: u64,
}

/// Everything, as it was found.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) outbox: Found,
    pub(crate) judgements: Vec<Vec<u8>>,
    pub(crate) known: Option<KnownV1>,
    pub(crate) trust: Option<TrustV1>,
    /// Whose store it is.
    pub(crate) owner: Option<PublicKey>,
    /// Subjects that were changed after the genesis.
    pub(crate) officers: Vec<OfficerV1>,
    /// Nothing was ever written here, beside whose store it is and whom to believe.
    pub(crate) is_new: bool,
}

impl Stored {
    /// The writer generation on disk, if it can be read.
    pub(crate) fn generation(&self) -> Option<u64> {
        generation_of(self.outbox.state.as_deref())
    }
}

fn generation_of(state: Option<&[u8]>) -> Option<u64> {
    let state = OutboxStateV1::from_canonical(state?).ok()?;
    Some(state.generation)
}

/// Reads everything.
pub(crate) fn stored<S: Store>(store: &S) -> Result<Stored, KeptError> {
    store.read(|view| {
        let state = view.get(OUTBOX, STATE)?;
        let entries = values(view, ENTRIES)?;
        let judgements = values(view, JUDGEMENTS)?;
        let known = view.get(JOURNAL, KNOWN)?;
        let is_new =
            state.is_none() && entries.is_empty() && judgements.is_empty() && known.is_none();
        let known = known.map(|bytes| KnownV1::from_canonical(&bytes));
        let known = known
            .transpose()
            .map_err(|_| KeptError::Unreadable("place in the journal"))?;
        let trust = view.get(JOURNAL, TRUST)?;
        let trust = trust.map(|bytes| TrustV1::from_canonical(&bytes));
        let trust = trust
            .transpose()
            .map_err(|_| KeptError::Unreadable("roster in force"))?;
        let owner = view.get(JOURNAL, OWNER)?;
        let owner = owner.map(|bytes| PublicKey::from_canonical(&bytes));
        let owner = owner
            .transpose()
            .map_err(|_| KeptError::Unreadable("owner"))?;
        let officers = values(view, OFFICERS)?;
        let officers = officers.iter().map(|it| OfficerV1::from_canonical(it));
        let officers = officers.collect::<Result<_, _>>();
        let officers = officers.map_err(|_| KeptError::Unreadable("officers"))?;
        Ok(Stored {
            outbox: Found { state, entries },
            judgements,
            known,
            trust,
            owner,
            officers,
            is_new,
        })
    })
}

/// All values of a table, by ascending key.
fn values(view: &dyn Reader, table: Table) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut values = Vec::new();
    let mut from = Vec::new();
    loop {
        let page = view.range(table, &from, None, PAGE)?;
        let full = page.len() == PAGE;
        for (key, value) in page {
            from = key;
            values.push(value);
        }
        if !full {
            return Ok(values);
        }
        from.push(0);
    }
}

fn key(number: OutboxEpoch) -> [u8; 8] {
    number.0.to_be_bytes()
}

/// Carries out one write of the outbox.
pub(crate) fn persist<S: Store>(store: &S, write: &Write) -> Result<(), KeptError> {
    store.write(|view| {
        let stored = generation_of(view.get(OUTBOX, STATE)?.as_deref());
        if stored != write.expected_generation {
            return Err(KeptError::AnotherWriter);
        }
        if write.keep == Keep::Nothing {
            clear(view, ENTRIES)?;
        }
        view.put(OUTBOX, STATE, &write.state.to_canonical())?;
        for (number, entry) in &write.put {
            view.put(ENTRIES, &key(*number), &entry.to_canonical())?;
        }
        for number in &write.delete {
            view.delete(ENTRIES, &key(*number))?;
        }
        Ok(())
    })
}

fn clear(view: &mut dyn Writer, table: Table) -> Result<(), StoreError> {
    loop {
        let page = view.range(table, &[], None, PAGE)?;
        if page.is_empty() {
            return Ok(());
        }
        for (key, _) in page {
            view.delete(table, &key)?;
        }
    }
}

/// Keeps a judgement under its intent.
pub(crate) fn keep<S: Store>(store: &S, judgement: &JudgementV1) -> Result<(), KeptError> {
    let key = judgement.intent_digest.0.0;
    Ok(store.put(JUDGEMENTS, &key, &judgement.to_canonical())?)
}

/// Drops what is kept of an intent.
pub(crate) fn forget<S: Store>(store: &S, intent: &Digest) -> Result<(), KeptError> {
    store.write(|view| Ok(view.delete(JUDGEMENTS, &intent.0)?))
}

/// The RED that an order led to.
pub(crate) fn obeyed<S: Store>(
    store: &S,
    order: &Digest,
) -> Result<Option<OutboxEpoch>, KeptError> {
    let Some(bytes) = store.get(ORDERS, &order.0)? else {
        return Ok(None);
    };
    let number = bytes.try_into().map(u64::from_be_bytes);
    let number = number.map_err(|_| KeptError::Unreadable("obeyed order"))?;
    Ok(Some(OutboxEpoch(number)))
}

/// Remembers which RED an order led to.
pub(crate) fn obey<S: Store>(
    store: &S,
    order: &Digest,
    number: OutboxEpoch,
) -> Result<(), KeptError> {
    Ok(store.put(ORDERS, &order.0, &key(number))?)
}

/// Remembers what is proven of a subject.
pub(crate) fn keep_officer<S: Store>(store: &S, officer: &OfficerV1) -> Result<(), KeptError> {
    let key = officer.subject.subject_id.as_str().as_bytes();
    Ok(store.put(OFFICERS, key, &officer.to_canonical())?)
}

/// Remembers how far the journal was taken in, and whom to believe from there on if that has changed.
pub(crate) fn keep_known<S: Store>(
    store: &S,
    known: &KnownV1,
    trust: Option<&TrustV1>,
) -> Result<(), KeptError> {
    store.write(|view| {
        if let Some(trust) = trust {
            view.put(JOURNAL, TRUST, &trust.to_canonical())?;
        }
        Ok(view.put(JOURNAL, KNOWN, &known.to_canonical())?)
    })
}

/// The store is this sentinel's from here on; with whom it believes, if it had to ask for that.
pub(crate) fn own<S: Store>(
    store: &S,
    owner: &PublicKey,
    trust: Option<&TrustV1>,
) -> Result<(), KeptError> {
    store.write(|view| {
        if let Some(trust) = trust {
            view.put(JOURNAL, TRUST, &trust.to_canonical())?;
        }
        Ok(view.put(JOURNAL, OWNER, &owner.to_canonical())?)
    })
}

#[cfg(test)]
mod tests {
    use redlatch_link::store::SimDisk;
    use redlatch_types::records::{RedScope, Text};
    use redlatch_types::{OrganismId, Scope, SigningKey};
    use redlatch_watch::Outbox;
    use redlatch_watch::outbox::{Effect, RedRequest, Writer as Owner};

    use super::*;

    fn owner() -> Owner {
        Owner {
            scope: Scope {
                organism_id: OrganismId(Digest::ZERO),
                organism_epoch: 1,
            },
            key: SigningKey::from_seed([2; 32]),
            nodes: Vec::new(),
        }
    }

    fn red() -> RedRequest {
        RedRequest {
            verdict_id: Digest::ZERO,
            scope: RedScope::Everything,
            verbs: Vec::new(),
            rollback_plan: None,
            source: None,
            reason: Text::lossy("a test"),
            issued_at: 0,
        }
    }

    fn writes(out: Vec<Effect>) -> Vec<Write> {
        let persist = |effect| match effect {
            Effect::Persist(write) => Some(*write),
            _ => None,
        };
        out.into_iter().filter_map(persist).collect()
    }

    #[test]
    fn fault_055_a_second_writer_stops_the_first_at_its_next_write() {
        let disk = SimDisk::new();
        let store = disk.open().unwrap();
        let mut out = Vec::new();
        let mut first = Outbox::first(owner(), &mut out);
        for write in writes(std::mem::take(&mut out)) {
            persist(&store, &write).unwrap();
        }
        let found = stored(&store).unwrap();
        assert!(!found.is_new);
        let second = Outbox::open(owner(), &found.outbox, 0, &mut out).unwrap();
        assert!(second.generation() > first.generation());
        for write in writes(std::mem::take(&mut out)) {
            persist(&store, &write).unwrap();
        }
        first.handle_reds(vec![red()], 0, &mut out);
        let refused = persist(&store, &writes(out)[0]);
        assert!(matches!(refused, Err(KeptError::AnotherWriter)));
        assert_eq!(
            stored(&store).unwrap().generation(),
            Some(second.generation())
        );
    }

    #[test]
    fn an_order_and_the_place_in_the_journal_survive_power_loss() {
        let disk = SimDisk::new();
        let store = disk.open().unwrap();
        assert!(stored(&store).unwrap().is_new);
        let known = KnownV1 {
            next: 7,
            latches: LatchNumber(1),
            watermark: Head::ZERO,
            chain_from: 0,
        };
        keep_known(&store, &known, None).unwrap();
        obey(&store, &Digest::of(b"order"), OutboxEpoch(3)).unwrap();
        drop(store);
        disk.crash();
        let store = disk.open().unwrap();
        let found = stored(&store).unwrap();
        assert_eq!(found.known, Some(known));
        assert!(!found.is_new, "a lost outbox is not a new one");
        let number = obeyed(&store, &Digest::of(b"order")).unwrap();
        assert_eq!(number, Some(OutboxEpoch(3)));
        assert_eq!(obeyed(&store, &Digest::ZERO).unwrap(), None);
    }
}
