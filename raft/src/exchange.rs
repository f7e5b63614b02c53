//! Tasks beside consensus: sends own heads to each peer and takes in theirs, keeps a snapshot when
//! its head has a majority, and fetches the leaves that a snapshot left out.
//!
//! None of them is waited for by apply. Each ends with the process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redlatch_journal::IndexKey;
use redlatch_journal::tree::{Frontier, NodeIndex};
use redlatch_link::world;
use redlatch_proto::v1;
use redlatch_types::event::Event;
use redlatch_types::receipt::Receipt;
use redlatch_types::{Canonical, Digest, merkle};
use tonic::Status;

use crate::alarm::FatalCause;
use crate::archive::{self, Archive};
use crate::engine::{Durability, Engine, StorageFault, WriteBatch};
use crate::links::{Session, call};
use crate::record::Gap;
use crate::server::HEADS_MAX;
use crate::shared::Shared;
use crate::wire;

const ANSWER_DEADLINE: Duration = Duration::from_secs(1);
const RETRY_PAUSE: Duration = Duration::from_millis(300);
/// Heads are offered again after this long even if nothing is new: the peer may have restarted.
const REPEAT: Duration = Duration::from_secs(2);
const LEAVES_DEADLINE: Duration = Duration::from_secs(10);
const LEAVES_STEP: u64 = 4_096;

/// Offers own heads to one peer until it is let go. One that comes back gets a task of its own.
pub(crate) async fn offer_heads<E: Engine>(shared: Arc<Shared<E>>, session: Session) {
    let peer = session.peer;
    let mut signed = shared.cosigner.watch_signed();
    let mut taken = 0;
    while shared.links.lasts(session) {
        let latest = *signed.borrow_and_update();
        if latest > 0 {
            match offer(&shared, peer, taken + 1).await {
                Ok(()) => taken = latest,
                Err(status) => {
                    tracing::debug!(peer, %status, "heads not taken");
                    world::sleep(RETRY_PAUSE).await;
                    continue;
                }
            }
        }
        let waited = world::timeout(REPEAT, signed.changed()).await;
        if matches!(waited, Ok(Err(_))) {
            return;
        }
    }
}

async fn offer<E: Engine>(shared: &Shared<E>, peer: u64, from: u64) -> Result<(), Status> {
    let mut heads = shared.cosigner.recent(from);
    heads.truncate(HEADS_MAX);
    let message = v1::HeadsRequest {
        sender: shared.own,
        heads: heads.iter().map(wire::head_out).collect(),
    };
    let mut client = shared.links.control(peer)?;
    let answer = call(ANSWER_DEADLINE, message, |request| async move {
        client.heads(request).await
    })
    .await?;
    let heads = answer.heads.into_iter().take(HEADS_MAX).map(wire::head_in);
    shared.cosigner.receive(heads.collect::<Result<_, _>>()?);
    Ok(())
}

/// Keeps the snapshot candidate whenever a majority has cosigned its head, and tells openraft, so
/// that it purges the log below.
pub(crate) async fn keep_snapshots<E: Engine>(shared: Arc<Shared<E>>) {
    let mut cosigned = shared.cosigner.watch_cosigned();
    loop {
        if let Err(fault) = keep_chain(&shared).await {
            return shared.alarm.raise(FatalCause::Storage(fault));
        }
        match shared.machine.keep_candidate().await {
            Err(fault) => return shared.alarm.raise(FatalCause::Storage(fault)),
            Ok(false) => {}
            Ok(true) => {
                if let Some(raft) = shared.raft.get() {
                    // A stopped openraft is noticed by whoever watches its metrics.
                    let _ = raft.trigger().snapshot().await;
                }
            }
        }
        let waited = world::timeout(REPEAT, cosigned.changed()).await;
        if matches!(waited, Ok(Err(_))) {
            return;
        }
    }
}

/// Keeps the links of the chain of rosters. What the heads of today do not prove, because whoever signed
/// is gone, a peer has proven long ago.
async fn keep_chain<E: Engine>(shared: &Shared<E>) -> Result<(), StorageFault> {
    shared.machine.keep_links().await?;
    if !shared.cosigner.waits_for_steps() {
        return Ok(());
    }
    for peer in shared.links.peers() {
        match fetch_chain(shared, peer).await {
            Err(status) => tracing::debug!(peer, %status, "no chain of rosters"),
            Ok(links) => {
                shared.machine.take_links(links).await?;
                if !shared.cosigner.waits_for_steps() {
                    break;
                }
            }
        }
    }
    Ok(())
}

async fn fetch_chain<E: Engine>(shared: &Shared<E>, peer: u64) -> Result<Vec<Receipt>, Status> {
    let mut client = shared.links.bulk(peer)?;
    let message = v1::ChainRequest { sender: shared.own };
    let answer = call(LEAVES_DEADLINE, message, |request| async move {
        client.chain(request).await
    })
    .await?;
    let parsed = answer.links.iter().map(|link| Receipt::parse(link));
    parsed
        .collect::<Result<_, _>>()
        .map_err(|error| Status::invalid_argument(error.to_string()))
}

/// Fetches the leaves below an installed snapshot whenever there is a gap.
pub(crate) async fn fill_gaps<E: Engine>(shared: Arc<Shared<E>>) {
    let mut places = shared.machine.watch_place();
    loop {
        match shared.machine.gap() {
            None => {
                if places.changed().await.is_err() {
                    return;
                }
            }
            Some(gap) => match fill(&shared, gap).await {
                Ok(()) => {}
                Err(FillError::Storage(fault)) => {
                    return shared.alarm.raise(FatalCause::Storage(fault));
                }
                Err(error) => {
                    tracing::warn!(%error, "leaves below the snapshot are still missing");
                    world::sleep(RETRY_PAUSE).await;
                }
            },
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum FillError {
    #[error(transparent)]
    Storage(#[from] StorageFault),
    #[error("no peer gave the leaves: {0}")]
    Peers(String),
    #[error("a peer's leaves do not make the proven tree")]
    OtherTree,
}

/// Fetches `gap` from one peer after the other until the leaves make the proven root. What a peer
/// sends is written under the gap's mark, which stays until the root is right.
async fn fill<E: Engine>(shared: &Shared<E>, gap: Gap) -> Result<(), FillError> {
    let mut why = String::from("there is no peer");
    for peer in shared.links.peers() {
        match fill_from(shared, peer, gap).await {
            Ok(()) => return Ok(()),
            Err(FillError::Peers(reason)) => why = reason,
            Err(FillError::OtherTree) => {
                tracing::error!(peer, "a peer sent leaves of another tree");
                why = FillError::OtherTree.to_string();
            }
            Err(fault) => return Err(fault),
        }
    }
    Err(FillError::Peers(why))
}

async fn fill_from<E: Engine>(shared: &Shared<E>, peer: u64, gap: Gap) -> Result<(), FillError> {
    let engine = shared.log_store.engine();
    let archive = Archive::new(engine.clone());
    let mut frontier = frontier_at(&archive, gap.from)?;
    while frontier.size() < gap.to {
        let from = frontier.size();
        let to = gap.to.min(from + LEAVES_STEP);
        let leaves = fetch(shared, peer, from, to)
            .await
            .map_err(|status| FillError::Peers(status.to_string()))?;
        if leaves.is_empty() {
            return Err(FillError::Peers(String::from("the peer lacks them too")));
        }
        let batch = batch_of(&archive, &mut frontier, leaves)?;
        engine.write(batch, Durability::Buffered).await?;
    }
    let proven = proven_root(shared, gap.to)?;
    if proven != Some(frontier.root()) {
        return Err(FillError::OtherTree);
    }
    shared.machine.close_gap(gap).await?;
    // The tree can be asked again: heads that waited for it are settled.
    shared.cosigner.announce(shared.machine.place().size, None);
    Ok(())
}

/// The root at the snapshot, from the stored snapshot that was proven.
fn proven_root<E: Engine>(shared: &Shared<E>, size: u64) -> Result<Option<Digest>, StorageFault> {
    let Some((meta, bytes)) = crate::snapshot::load(shared.log_store.engine())? else {
        return Ok(None);
    };
    let proven = shared.machine.prove(&meta, &bytes).ok();
    Ok(proven
        .filter(|proven| proven.head.size == size)
        .map(|proven| proven.head.root))
}

async fn fetch<E: Engine>(
    shared: &Shared<E>,
    peer: u64,
    from: u64,
    to: u64,
) -> Result<Vec<Vec<u8>>, Status> {
    let mut client = shared.links.bulk(peer)?;
    let message = v1::LeavesRequest {
        sender: shared.own,
        from,
        to,
    };
    let answer = call(LEAVES_DEADLINE, message, |request| async move {
        client.leaves(request).await
    })
    .await?;
    let asked = usize::try_from(to - from).unwrap_or(usize::MAX);
    if answer.leaves.len() > asked {
        return Err(Status::invalid_argument("more leaves than asked for"));
    }
    Ok(answer.leaves)
}

/// The tree of the leaves below `size`, which are this node's own.
fn frontier_at<E: Engine>(archive: &Archive<E>, size: u64) -> Result<Frontier, FillError> {
    let mut frontier = Frontier::new();
    while frontier.size() < size {
        let to = size.min(frontier.size() + LEAVES_STEP);
        let leaves = archive.leaves(frontier.size(), to, usize::MAX)?;
        if leaves.is_empty() {
            return Err(FillError::Storage(StorageFault::Corrupt {
                what: "journal".into(),
                detail: format!("leaf {} is missing", frontier.size()),
            }));
        }
        for leaf in leaves {
            frontier.append(merkle::leaf_hash(&leaf), &mut Vec::new());
        }
    }
    Ok(frontier)
}

/// The writes for fetched leaves. The index names the last leaf of a key, so an older leaf does not
/// take the place of a newer one.
fn batch_of<E: Engine>(
    archive: &Archive<E>,
    frontier: &mut Frontier,
    leaves: Vec<Vec<u8>>,
) -> Result<WriteBatch, FillError> {
    let first = frontier.size();
    let mut nodes: Vec<(NodeIndex, Digest)> = Vec::new();
    let mut index = BTreeMap::new();
    for leaf in &leaves {
        let event = Event::from_canonical(leaf).map_err(|_| FillError::OtherTree)?;
        let position = frontier.size();
        for key in IndexKey::of(&event) {
            let key = key.to_bytes();
            if archive.find(&key)?.is_none_or(|known| known < position) {
                index.insert(key, position);
            }
        }
        frontier.append(merkle::leaf_hash(leaf), &mut nodes);
    }
    let mut batch = WriteBatch::new();
    archive::put(&mut batch, first, leaves, &nodes, index);
    Ok(batch)
}
