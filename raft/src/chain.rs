//! The chain of roster steps on this node's disk: what proves the roster in force to whoever knows an
//! earlier one only (D4).
//!
//! | family | key | value, framed | written |
//! |---|---|---|---|
//! | `Meta` | `chain/pending/` epoch u64 | position u64, size u64, roster before | with the entry |
//! | `Meta` | `chain/link/` epoch u64 | receipt of the roster's leaf under the roster before | synced, once proven |
//!
//! A step is pending from its entry until a majority of the roster before has signed a head above its
//! leaf. What a link proves is the business of `redlatch_types::chain`.

use redlatch_journal::Applied;
use redlatch_types::chain::Trust;
use redlatch_types::checkpoint::Origin;
use redlatch_types::event::Event;
use redlatch_types::note::KeyError;
use redlatch_types::policy::Demand;
use redlatch_types::receipt::Receipt;
use redlatch_types::records::RosterV1;
use redlatch_types::{Canonical, RosterEpoch};

use crate::cosign::{HeadKeys, RosterStep};
use crate::engine::{Engine, Family, StorageFault, WriteBatch, framed, unframed};

const PENDING: &[u8] = b"chain/pending/";
const AFTER_PENDING: &[u8] = b"chain/pending0";
const LINK: &[u8] = b"chain/link/";
const AFTER_LINK: &[u8] = b"chain/link0";

/// Most links that are read: far more than an organism changes its roster in a life.
const LINKS_MAX: usize = 65_536;

/// The roster that an event puts in force.
pub(crate) fn roster_of(event: &Event) -> Option<&RosterV1> {
    match event {
        Event::RosterChanged(roster) | Event::NodeRejoined(roster, _) => Some(roster),
        Event::RootActed(act, _, _) => Some(&act.roster),
        _ => None,
    }
}

/// The roster steps of an entry, each with the roster before it.
///
/// # Errors
/// [`KeyError`] if the roster before holds a key that cannot verify.
pub(crate) fn steps(
    applied: &Applied,
    before: &RosterV1,
    origin: Origin,
) -> Result<Vec<(RosterStep, RosterV1)>, KeyError> {
    let mut steps = Vec::new();
    let mut before = before;
    let size = applied.first_leaf + applied.leaves.len() as u64;
    for (position, event) in (applied.first_leaf..).zip(&applied.events) {
        if let Some(after) = roster_of(event) {
            // An act of the root stands by the root's signature: it may replace who could sign.
            let acted = matches!(event, Event::RootActed(..));
            let judges = if acted { after } else { before };
            let step = RosterStep {
                epoch: after.roster_epoch,
                position,
                size,
                before: HeadKeys::new(origin, judges)?,
            };
            steps.push((step, judges.clone()));
            before = after;
        }
    }
    Ok(steps)
}

/// Those of a peer's links that lead on from `trust`, each with the version that it leads to, but none beyond
/// `applied`; and where they lead.
pub(crate) fn provable(
    mut trust: Trust,
    applied: RosterEpoch,
    links: Vec<Receipt>,
) -> (Trust, Vec<(RosterEpoch, Receipt)>) {
    let mut taken = Vec::new();
    for link in links {
        let Ok(next) = trust.follow(&link, Demand::Nodes) else {
            continue;
        };
        let epoch = next.roster().roster_epoch;
        if epoch > applied {
            break;
        }
        trust = next;
        taken.push((epoch, link));
    }
    (trust, taken)
}

fn key(prefix: &[u8], epoch: RosterEpoch) -> Vec<u8> {
    [prefix, &epoch.0.to_be_bytes()].concat()
}

/// Puts a step that waits for its proof.
pub(crate) fn put_pending(batch: &mut WriteBatch, step: &RosterStep, before: &RosterV1) {
    let mut value = step.position.to_be_bytes().to_vec();
    value.extend_from_slice(&step.size.to_be_bytes());
    value.extend_from_slice(&before.to_canonical());
    batch.put(Family::Meta, key(PENDING, step.epoch), framed(&value));
}

/// Puts the proof of a step. It waits no more.
pub(crate) fn put_link(batch: &mut WriteBatch, epoch: RosterEpoch, link: &Receipt) {
    let value = link.to_string();
    batch.put(Family::Meta, key(LINK, epoch), framed(value.as_bytes()));
    batch.delete(Family::Meta, key(PENDING, epoch));
}

/// Steps that wait for their proof, in order.
///
/// # Errors
/// Any fault of the store; a damaged record is `Corrupt`.
pub(crate) fn pending<E: Engine>(
    engine: &E,
    origin: Origin,
) -> Result<Vec<RosterStep>, StorageFault> {
    let rows = engine.scan(Family::Meta, PENDING, AFTER_PENDING, LINKS_MAX)?;
    let read = |(key, value): &(Vec<u8>, Vec<u8>)| {
        let what = "pending roster step";
        let bytes = unframed(what, value)?;
        let step = (|| {
            let epoch = key.strip_prefix(PENDING)?.try_into().ok()?;
            let (position, rest) = bytes.split_first_chunk::<8>()?;
            let (size, rest) = rest.split_first_chunk::<8>()?;
            let before = RosterV1::from_canonical(rest).ok()?;
            Some(RosterStep {
                epoch: RosterEpoch(u64::from_be_bytes(epoch)),
                position: u64::from_be_bytes(*position),
                size: u64::from_be_bytes(*size),
                before: HeadKeys::new(origin, &before).ok()?,
            })
        })();
        step.ok_or_else(|| shapeless(what))
    };
    let steps: Result<Vec<_>, _> = rows.iter().map(read).collect();
    steps.map_err(|fault| engine.condemn(fault))
}

/// The links, in order. Ends where one is missing: what follows it proves nothing yet.
///
/// # Errors
/// Any fault of the store; a damaged record is `Corrupt`.
pub(crate) fn links<E: Engine>(engine: &E) -> Result<Vec<Receipt>, StorageFault> {
    let rows = engine.scan(Family::Meta, LINK, AFTER_LINK, LINKS_MAX)?;
    let mut links = Vec::with_capacity(rows.len());
    for ((key, value), epoch) in rows.iter().zip(2u64..) {
        if key.strip_prefix(LINK) != Some(&epoch.to_be_bytes()) {
            break;
        }
        let what = "roster link";
        let link = unframed(what, value)
            .and_then(|bytes| Receipt::parse(bytes).map_err(|_| shapeless(what)))
            .map_err(|fault| engine.condemn(fault))?;
        links.push(link);
    }
    Ok(links)
}

fn shapeless(what: &str) -> StorageFault {
    StorageFault::Corrupt {
        what: what.into(),
        detail: "it has another shape".into(),
    }
}
