//! A snapshot: the state exactly at a StateRoot leaf, with the proof that a majority cosigned that
//! leaf (D8). Its form on disk and on the wire, and the check before it is believed.
//!
//! Whoever receives one believes nothing of it: each roster step is verified under the roster before
//! it, from the one in force on, the head under the last of them, the leaf under the head, the state under the leaf, the log id under the leaf, the membership
//! under the state's roster. Taking one is `machine`'s business.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use openraft::CommittedLeaderId;
use redlatch_journal::State;
use redlatch_proto::v1;
use redlatch_types::chain::Trust;
use redlatch_types::checkpoint::Checkpoint;
use redlatch_types::event::{Event, StateRootV1};
use redlatch_types::note::Note;
use redlatch_types::policy::Demand;
use redlatch_types::receipt::Receipt;
use redlatch_types::{Canonical, Digest, RosterEpoch, merkle};

use crate::chain;
use crate::config::{LogId, Snapshot, SnapshotMeta, StoredMembership, Vote};
use crate::engine::{Engine, Family, StorageFault, WriteBatch, framed, unframed};
use crate::entry::{decode_membership, encode_membership};
use crate::heads::{CosignedHead, HeadKeys};
use crate::membership::Seats;
use crate::wire;

/// Bytes of one part on the wire.
pub const PART_BYTES: usize = 256 << 10;
/// Bytes of one part on disk.
const STORED_PART_BYTES: usize = 1 << 20;
/// A longer snapshot is refused before it is received.
pub const SNAPSHOT_BYTES_MAX: u64 = 4 << 30;

const HEADER_KEY: &[u8] = b"header";
const FIRST_PART: &[u8] = b"part/";
const AFTER_PARTS: &[u8] = b"part0";

/// The content of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct Content {
    /// Canonical bytes of the state.
    #[n(0)]
    state: ByteVec,
    /// The StateRoot leaf, the last of the tree.
    #[n(1)]
    leaf: ByteVec,
    /// Its inclusion proof.
    #[n(2)]
    hashes: Vec<Digest>,
    /// The cosigned head.
    #[n(3)]
    head: String,
    /// State time of that head, milliseconds.
    #[n(4)]
    state_time_ms: u64,
    /// Receipts of the roster steps since the genesis, in order.
    #[n(5)]
    links: Vec<String>,
}

/// Why a snapshot is not believed. The sender is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSnapshot {
    /// It is not in the one encoding.
    #[error("the snapshot is not canonical")]
    NotCanonical,
    /// The head is not of this journal.
    #[error("the snapshot's head is of another journal")]
    OtherJournal,
    /// A roster step does not follow from the one before it.
    #[error("the snapshot's chain of rosters does not hold")]
    BadChain,
    /// The head lacks a majority of the roster's nodes.
    #[error("the snapshot's head is cosigned by {found} nodes, {needed} are needed")]
    NotCosigned {
        /// Valid cosignatures of voters.
        found: usize,
        /// The majority.
        needed: usize,
    },
    /// The last leaf under the head is not the StateRoot it claims to be.
    #[error("the snapshot's leaf is not the state root under its head")]
    NotTheLeaf,
    /// The state is not the one the leaf names.
    #[error("the snapshot's state does not fit its state root")]
    OtherState,
    /// The log id is not the one the leaf names.
    #[error("the snapshot's log id does not fit its state root")]
    OtherEntry,
    /// openraft's membership is not the state's roster.
    #[error("the snapshot's membership is not its roster")]
    OtherMembership,
}

/// A snapshot that has been proven. Only [`verify`] makes one.
#[derive(Debug)]
pub struct Proven {
    /// The state.
    pub state: State,
    /// The head it was proven with.
    pub head: CosignedHead,
    /// The roster steps that led from the trusted roster to the one that proves the head.
    pub links: Vec<(RosterEpoch, Receipt)>,
}

/// Makes the bytes of a snapshot.
#[must_use]
pub fn encode(
    state: Vec<u8>,
    leaf: Vec<u8>,
    hashes: Vec<Digest>,
    links: &[Receipt],
    head: &CosignedHead,
) -> Vec<u8> {
    Content {
        state: state.into(),
        leaf: leaf.into(),
        hashes,
        links: links.iter().map(ToString::to_string).collect(),
        head: head.note.to_string(),
        state_time_ms: head.state_time_ms,
    }
    .to_canonical()
}

/// Proves a snapshot to whoever trusts a roster: the one in force, or an earlier one.
///
/// # Errors
/// [`BadSnapshot`].
pub fn verify(meta: &SnapshotMeta, bytes: &[u8], trust: &Trust) -> Result<Proven, BadSnapshot> {
    let content = Content::from_canonical(bytes).map_err(|_| BadSnapshot::NotCanonical)?;
    let (trust, links) = walk(trust, &content.links)?;
    let keys = HeadKeys::new(*trust.policy().origin(), trust.roster())
        .map_err(|_| BadSnapshot::OtherJournal)?;
    let note = Note::parse(&content.head).map_err(|_| BadSnapshot::NotCanonical)?;
    let checkpoint = Checkpoint::parse(note.text()).map_err(|_| BadSnapshot::NotCanonical)?;
    if checkpoint.origin != keys.origin {
        return Err(BadSnapshot::OtherJournal);
    }
    let (found, needed) = (keys.cosigners(&note), keys.majority());
    if found < needed {
        return Err(BadSnapshot::NotCosigned { found, needed });
    }
    let root = state_root(&content, &checkpoint).ok_or(BadSnapshot::NotTheLeaf)?;
    let state = State::from_bytes(&content.state).map_err(|_| BadSnapshot::NotCanonical)?;
    let frontier = &state.log.frontier;
    let same_tree = frontier.size() == checkpoint.size && frontier.root() == checkpoint.root;
    if !same_tree || state.digest() != root.authority_digest {
        return Err(BadSnapshot::OtherState);
    }
    if meta.last_log_id != Some(LogId::new(CommittedLeaderId::new(root.term, 0), root.index)) {
        return Err(BadSnapshot::OtherEntry);
    }
    let roster = state
        .authority
        .governance
        .as_ref()
        .map(|governance| &governance.roster);
    let membership = meta.last_membership.membership();
    if !roster.is_some_and(|roster| Seats::of(roster).is(membership)) {
        return Err(BadSnapshot::OtherMembership);
    }
    let head = CosignedHead {
        size: checkpoint.size,
        root: checkpoint.root,
        state_time_ms: content.state_time_ms,
        note,
    };
    Ok(Proven { state, head, links })
}

/// Follows the links that lead beyond the trusted roster.
fn walk(
    trust: &Trust,
    links: &[String],
) -> Result<(Trust, Vec<(RosterEpoch, Receipt)>), BadSnapshot> {
    let (mut trust, mut followed) = (trust.clone(), Vec::new());
    for link in links {
        let link = Receipt::parse(link.as_bytes()).map_err(|_| BadSnapshot::NotCanonical)?;
        let event = Event::from_canonical(&link.leaf).map_err(|_| BadSnapshot::BadChain)?;
        let epoch = chain::roster_of(&event)
            .ok_or(BadSnapshot::BadChain)?
            .roster_epoch;
        if epoch > trust.roster().roster_epoch {
            trust = trust
                .follow(&link, Demand::Nodes)
                .map_err(|_| BadSnapshot::BadChain)?;
            followed.push((epoch, link));
        }
    }
    Ok((trust, followed))
}

/// The StateRoot, if it is the last leaf under the checkpoint.
fn state_root(content: &Content, checkpoint: &Checkpoint) -> Option<StateRootV1> {
    let Ok(Event::StateRoot(root)) = Event::from_canonical(&content.leaf) else {
        return None;
    };
    if root.size.checked_add(1) != Some(checkpoint.size) {
        return None;
    }
    let leaf = merkle::leaf_hash(&content.leaf);
    let (size, hashes) = (checkpoint.size, &content.hashes);
    merkle::verify_inclusion(root.size, size, &leaf, hashes, &checkpoint.root).ok()?;
    Some(root)
}

/// The id openraft knows a snapshot by.
#[must_use]
pub fn id_of(log_id: Option<&LogId>) -> String {
    log_id.map_or_else(
        || String::from("none"),
        |id| format!("{}-{}", id.leader_id.term, id.index),
    )
}

/// A snapshot cut into parts for the wire; the first carries the header.
pub(crate) fn parts(own: u64, vote: &Vote, snapshot: Snapshot) -> Vec<v1::SnapshotPart> {
    let Snapshot {
        meta,
        snapshot: bytes,
    } = snapshot;
    let mut membership = Vec::new();
    encode_membership(meta.last_membership.membership(), &mut membership);
    let header = v1::SnapshotHeader {
        sender: own,
        vote: Some(wire::vote_out(vote)),
        last_log_id: meta.last_log_id.as_ref().map(wire::log_id_out),
        membership_log_id: meta.last_membership.log_id().as_ref().map(wire::log_id_out),
        membership,
        length: bytes.len() as u64,
    };
    let first = v1::SnapshotPart {
        header: Some(header),
        data: Vec::new(),
        done: false,
    };
    let data = bytes.chunks(PART_BYTES).map(|data| v1::SnapshotPart {
        header: None,
        data: data.to_vec(),
        done: false,
    });
    let last = v1::SnapshotPart {
        header: None,
        data: Vec::new(),
        done: true,
    };
    std::iter::once(first)
        .chain(data)
        .chain(std::iter::once(last))
        .collect()
}

/// openraft's view of a header.
pub(crate) fn meta_in(header: &v1::SnapshotHeader) -> Result<SnapshotMeta, wire::Malformed> {
    let membership = decode_membership(&header.membership)
        .map_err(|_| wire::Malformed("membership of a snapshot"))?;
    let last_log_id = header.last_log_id.map(wire::log_id_in);
    Ok(SnapshotMeta {
        last_log_id,
        last_membership: StoredMembership::new(
            header.membership_log_id.map(wire::log_id_in),
            membership,
        ),
        snapshot_id: id_of(last_log_id.as_ref()),
    })
}

/// Puts a snapshot into `batch`, over the one that was there.
pub(crate) fn put(batch: &mut WriteBatch, meta: &SnapshotMeta, bytes: &[u8]) {
    batch.delete_range(Family::Snapshot, FIRST_PART, AFTER_PARTS);
    let mut membership = Vec::new();
    encode_membership(meta.last_membership.membership(), &mut membership);
    let header = StoredHeader {
        last: meta.last_log_id.map(|id| (id.leader_id.term, id.index)),
        membership_at: meta
            .last_membership
            .log_id()
            .map(|id| (id.leader_id.term, id.index)),
        membership: membership.into(),
        length: bytes.len() as u64,
    };
    batch.put(Family::Snapshot, HEADER_KEY, framed(&header.to_canonical()));
    for (number, part) in (0_u32..).zip(bytes.chunks(STORED_PART_BYTES)) {
        batch.put(Family::Snapshot, part_key(number), framed(part));
    }
}

/// Reads the stored snapshot.
///
/// # Errors
/// Any fault of the store; a damaged snapshot is `Corrupt`.
pub(crate) fn load<E: Engine>(engine: &E) -> Result<Option<(SnapshotMeta, Vec<u8>)>, StorageFault> {
    let what = "snapshot";
    let corrupt = |detail: &str| {
        engine.condemn(StorageFault::Corrupt {
            what: what.into(),
            detail: detail.into(),
        })
    };
    let Some(stored) = engine.get(Family::Snapshot, HEADER_KEY)? else {
        return Ok(None);
    };
    let header = unframed(what, &stored).map_err(|fault| engine.condemn(fault))?;
    let header = StoredHeader::from_canonical(header).map_err(|_| corrupt("header"))?;
    let mut bytes = Vec::new();
    let mut number = 0_u32;
    while (bytes.len() as u64) < header.length {
        let part = engine.get(Family::Snapshot, &part_key(number))?;
        let part = part.ok_or_else(|| corrupt("a part is missing"))?;
        bytes.extend_from_slice(unframed(what, &part).map_err(|fault| engine.condemn(fault))?);
        number += 1;
    }
    let membership = decode_membership(&header.membership).map_err(|_| corrupt("membership"))?;
    let id = |at: (u64, u64)| LogId::new(CommittedLeaderId::new(at.0, 0), at.1);
    let last_log_id = header.last.map(id);
    let meta = SnapshotMeta {
        last_log_id,
        last_membership: StoredMembership::new(header.membership_at.map(id), membership),
        snapshot_id: id_of(last_log_id.as_ref()),
    };
    Ok(Some((meta, bytes)))
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct StoredHeader {
    #[n(0)]
    last: Option<(u64, u64)>,
    #[n(1)]
    membership_at: Option<(u64, u64)>,
    #[n(2)]
    membership: ByteVec,
    #[n(3)]
    length: u64,
}

fn part_key(number: u32) -> Vec<u8> {
    let mut key = FIRST_PART.to_vec();
    key.extend_from_slice(&number.to_be_bytes());
    key
}
