//! The journal as a stream: leaves in order, from this node's disk, on to those that are not there yet.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use redlatch_proto::v1::{JournalLeaf, JournalRequest};
use redlatch_raft::engine::Engine;
use redlatch_raft::machine::Place;
use tokio::sync::watch;
use tonic::Status;

use super::Desk;
use crate::answer;

/// Leaves read from the disk at once.
const CHUNK: u64 = 256;

/// The stream of one call.
pub(super) type Leaves = Pin<Box<dyn Stream<Item = Result<JournalLeaf, Status>> + Send>>;

struct Tail<E> {
    desk: Arc<Desk<E>>,
    next: u64,
    follow: bool,
    ready: VecDeque<JournalLeaf>,
    places: watch::Receiver<Place>,
}

/// Leaves from the position asked for; with `follow` it goes on until the caller hangs up.
pub(super) fn leaves<E: Engine>(desk: &Arc<Desk<E>>, request: &JournalRequest) -> Leaves {
    let tail = Tail {
        desk: Arc::clone(desk),
        next: request.from,
        follow: request.follow,
        ready: VecDeque::new(),
        places: desk.raft.watch_place(),
    };
    Box::pin(futures::stream::try_unfold(tail, |mut tail| async move {
        let leaf = tail.pull().await?;
        Ok(leaf.map(|leaf| (leaf, tail)))
    }))
}

impl<E: Engine> Tail<E> {
    /// The next leaf; `None` at the end.
    async fn pull(&mut self) -> Result<Option<JournalLeaf>, Status> {
        loop {
            if let Some(leaf) = self.ready.pop_front() {
                return Ok(Some(leaf));
            }
            self.places.borrow_and_update();
            self.read()?;
            if !self.ready.is_empty() {
                continue;
            }
            if !self.follow || self.places.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    fn read(&mut self) -> Result<(), Status> {
        let leaves = self
            .desk
            .raft
            .leaves(self.next, self.next.saturating_add(CHUNK))
            .map_err(|fault| answer::of_storage(&fault))?;
        for leaf in leaves {
            self.ready.push_back(JournalLeaf {
                position: self.next,
                leaf,
            });
            self.next += 1;
        }
        Ok(())
    }
}
