//! The one encoding of a Raft entry, used for the log on disk and for AppendEntries alike, so an
//! entry is never re-encoded on its way.
//!
//! Layout, big-endian: term u64, index u64, kind u8, then by kind: 0 blank, nothing; 1 a batch,
//! its bytes to the end; 2 a membership: configurations (u8 count, each u8 count of ids u64
//! ascending), then all nodes (u8 count, ids u64 ascending). Checksums and keys are the log
//! store's business.

use std::collections::{BTreeMap, BTreeSet};

use openraft::{CommittedLeaderId, EmptyNode, EntryPayload};

use crate::batch::Batch;
use crate::config::{Entry, LogId, Membership};

const KIND_BLANK: u8 = 0;
const KIND_BATCH: u8 = 1;
const KIND_MEMBERSHIP: u8 = 2;

/// Why bytes are not an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a raft entry: {0}")]
pub struct NotAnEntry(&'static str);

/// Encodes `entry`; a batch counts as written from here on (see [`Batch::bytes_for_log`]).
#[must_use]
pub fn encode(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    out.extend_from_slice(&entry.log_id.leader_id.term.to_be_bytes());
    out.extend_from_slice(&entry.log_id.index.to_be_bytes());
    match &entry.payload {
        EntryPayload::Blank => out.push(KIND_BLANK),
        EntryPayload::Normal(batch) => {
            out.push(KIND_BATCH);
            out.extend_from_slice(batch.bytes_for_log());
        }
        EntryPayload::Membership(membership) => {
            out.push(KIND_MEMBERSHIP);
            encode_membership(membership, &mut out);
        }
    }
    out
}

/// Decodes what [`encode`] made.
///
/// # Errors
/// If the bytes are not such an encoding. The bytes of a batch are judged when it is applied.
pub fn decode(bytes: &[u8]) -> Result<Entry, NotAnEntry> {
    let mut rest = bytes;
    let term = u64::from_be_bytes(take(&mut rest)?);
    let index = u64::from_be_bytes(take(&mut rest)?);
    let [kind] = take::<1>(&mut rest)?;
    let payload = match kind {
        KIND_BLANK if rest.is_empty() => EntryPayload::Blank,
        KIND_BATCH => EntryPayload::Normal(Batch::from_log(rest.to_vec())),
        KIND_MEMBERSHIP => EntryPayload::Membership(decode_membership(rest)?),
        _ => return Err(NotAnEntry("unknown kind")),
    };
    Ok(Entry {
        log_id: LogId::new(CommittedLeaderId::new(term, 0), index),
        payload,
    })
}

/// The layout of a membership, also used in `Meta` and in snapshots.
pub fn encode_membership(membership: &Membership, out: &mut Vec<u8>) {
    let configurations = membership.get_joint_config();
    push_count(configurations.len(), out);
    for voters in configurations {
        push_ids(voters.iter().copied(), voters.len(), out);
    }
    let nodes: BTreeSet<u64> = membership.nodes().map(|(id, _)| *id).collect();
    push_ids(nodes.iter().copied(), nodes.len(), out);
}

/// Decodes what [`encode_membership`] made; nothing may follow.
///
/// # Errors
/// If the bytes are not such an encoding.
pub fn decode_membership(bytes: &[u8]) -> Result<Membership, NotAnEntry> {
    let mut rest = bytes;
    let [count] = take::<1>(&mut rest)?;
    let mut configurations = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        configurations.push(take_ids(&mut rest)?);
    }
    let nodes = take_ids(&mut rest)?;
    if !rest.is_empty() {
        return Err(NotAnEntry("too long"));
    }
    if !configurations.iter().all(|voters| voters.is_subset(&nodes)) {
        return Err(NotAnEntry("a voter is no node"));
    }
    let nodes: BTreeMap<u64, EmptyNode> =
        nodes.into_iter().map(|id| (id, EmptyNode::new())).collect();
    Ok(Membership::new(configurations, nodes))
}

fn push_count(count: usize, out: &mut Vec<u8>) {
    // A roster has 3 or 5 nodes and a joint configuration two of them.
    out.push(u8::try_from(count).unwrap_or(u8::MAX));
}

fn push_ids(ids: impl Iterator<Item = u64>, count: usize, out: &mut Vec<u8>) {
    push_count(count, out);
    for id in ids {
        out.extend_from_slice(&id.to_be_bytes());
    }
}

fn take_ids(rest: &mut &[u8]) -> Result<BTreeSet<u64>, NotAnEntry> {
    let [count] = take::<1>(rest)?;
    let mut ids = BTreeSet::new();
    for _ in 0..count {
        let id = u64::from_be_bytes(take(rest)?);
        if ids.last().is_some_and(|last| *last >= id) {
            return Err(NotAnEntry("ids not ascending"));
        }
        ids.insert(id);
    }
    Ok(ids)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], NotAnEntry> {
    let (head, tail) = rest
        .split_first_chunk::<N>()
        .ok_or(NotAnEntry("ends early"))?;
    *rest = tail;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BatchContent;
    use proptest::prelude::*;

    fn entry(payload: EntryPayload<crate::config::TypeConfig>) -> Entry {
        Entry {
            log_id: LogId::new(CommittedLeaderId::new(7, 0), 42),
            payload,
        }
    }

    #[test]
    fn every_kind_round_trips() {
        let batch = Batch::new(&BatchContent {
            term: 7,
            leader: 1,
            commands: vec![vec![1, 2], vec![]],
        })
        .expect("small");
        let joint = Membership::new(
            vec![BTreeSet::from([1, 2, 3]), BTreeSet::from([1, 2, 4])],
            BTreeSet::from([5]),
        );
        for payload in [
            EntryPayload::Blank,
            EntryPayload::Normal(batch),
            EntryPayload::Membership(joint),
        ] {
            let entry = entry(payload);
            assert_eq!(decode(&encode(&entry)), Ok(entry));
        }
    }

    #[test]
    fn a_voter_that_is_no_node_is_refused() {
        // One configuration with node 9, no nodes at all.
        let mut bytes = vec![1, 1];
        bytes.extend_from_slice(&9_u64.to_be_bytes());
        bytes.push(0);
        assert_eq!(
            decode_membership(&bytes),
            Err(NotAnEntry("a voter is no node"))
        );
    }

    proptest! {
        #[test]
        fn fault_018_no_bytes_panic_and_each_entry_has_one_encoding(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Ok(entry) = decode(&bytes) {
                prop_assert_eq!(encode(&entry), bytes);
            }
        }
    }
}
