//! Small records of the state machine in `Meta`: the last applied entry, and the leaves that are
//! still to be fetched after a snapshot.

use openraft::CommittedLeaderId;

use crate::config::{LogId, StoredMembership};
use crate::engine::{Engine, Family, StorageFault, framed, unframed};
use crate::entry::{decode_membership, encode_membership};

/// Key of [`AppliedRecord`].
pub(crate) const APPLIED: &[u8] = b"sm/applied";
/// Key of [`Gap`].
pub(crate) const GAP: &[u8] = b"sm/gap";

/// The last applied entry with the membership in force after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedRecord {
    /// The entry.
    pub(crate) log_id: LogId,
    /// openraft's membership.
    pub(crate) membership: StoredMembership,
}

impl AppliedRecord {
    /// Layout: log id (term, index), membership's log id (flag, term, index), membership.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_log_id(&self.log_id, &mut out);
        let at = self.membership.log_id();
        out.push(u8::from(at.is_some()));
        push_log_id(&at.unwrap_or_default(), &mut out);
        encode_membership(self.membership.membership(), &mut out);
        framed(&out)
    }

    pub(crate) fn stored<E: Engine>(engine: &E) -> Result<Option<Self>, StorageFault> {
        read(engine, APPLIED, "last applied", |bytes| {
            let (log_id, rest) = take_log_id(bytes)?;
            let (flag, rest) = rest.split_first()?;
            let (at, rest) = take_log_id(rest)?;
            let membership = decode_membership(rest).ok()?;
            let at = (*flag == 1).then_some(at);
            Some(Self {
                log_id,
                membership: StoredMembership::new(at, membership),
            })
        })
    }
}

/// Leaves of `[from, to)` that a snapshot covers and this node does not hold yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// First missing leaf.
    pub(crate) from: u64,
    /// First leaf after them; the size of the proven tree.
    pub(crate) to: u64,
}

impl Gap {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = self.from.to_be_bytes().to_vec();
        out.extend_from_slice(&self.to.to_be_bytes());
        framed(&out)
    }

    pub(crate) fn stored<E: Engine>(engine: &E) -> Result<Option<Self>, StorageFault> {
        read(engine, GAP, "leaves to fetch", |bytes| {
            let (from, rest) = bytes.split_first_chunk::<8>()?;
            let to: [u8; 8] = rest.try_into().ok()?;
            Some(Self {
                from: u64::from_be_bytes(*from),
                to: u64::from_be_bytes(to),
            })
        })
    }
}

fn read<E: Engine, T>(
    engine: &E,
    key: &[u8],
    what: &str,
    decode: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<Option<T>, StorageFault> {
    let Some(stored) = engine.get(Family::Meta, key)? else {
        return Ok(None);
    };
    let bytes = unframed(what, &stored).map_err(|fault| engine.condemn(fault))?;
    match decode(bytes) {
        Some(record) => Ok(Some(record)),
        None => Err(engine.condemn(StorageFault::Corrupt {
            what: what.into(),
            detail: "it has another shape".into(),
        })),
    }
}

fn push_log_id(log_id: &LogId, out: &mut Vec<u8>) {
    out.extend_from_slice(&log_id.leader_id.term.to_be_bytes());
    out.extend_from_slice(&log_id.index.to_be_bytes());
}

fn take_log_id(bytes: &[u8]) -> Option<(LogId, &[u8])> {
    let (term, rest) = bytes.split_first_chunk::<8>()?;
    let (index, rest) = rest.split_first_chunk::<8>()?;
    let (term, index) = (u64::from_be_bytes(*term), u64::from_be_bytes(*index));
    Some((LogId::new(CommittedLeaderId::new(term, 0), index), rest))
}
