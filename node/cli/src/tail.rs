//! The journal as it grows: one leaf after the other from whichever node answers.

use std::time::Duration;

use redlatch_link::exit::Failure;
use redlatch_link::nodes::{CallError, Nodes};
use redlatch_link::world::{self, Monotonic};
use redlatch_proto::v1::JournalLeaf;
use tonic::Streaming;

/// Pause before a stream is asked for again.
const PAUSE: Duration = Duration::from_millis(50);

/// Reads on from a position.
pub(crate) struct Tail {
    nodes: Nodes,
    next: u64,
    stream: Option<Streaming<JournalLeaf>>,
}

impl Tail {
    /// Begins at leaf `next`.
    pub(crate) fn new(nodes: Nodes, next: u64) -> Tail {
        Tail {
            nodes,
            next,
            stream: None,
        }
    }

    /// The first position that was not read yet.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    /// The next leaf; none at `until`. A stream that ends is asked for again where it stopped.
    ///
    /// # Errors
    /// [`Failure`] for an answer that no retry changes.
    pub(crate) async fn next(&mut self, until: Monotonic) -> Result<Option<JournalLeaf>, Failure> {
        loop {
            let left = until.since(Monotonic::now());
            if left.is_zero() {
                return Ok(None);
            }
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => match self.nodes.journal(self.next, true, left).await {
                    Ok(stream) => self.stream.insert(stream),
                    Err(CallError::Unavailable(_)) => {
                        world::sleep(PAUSE.min(left)).await;
                        continue;
                    }
                    Err(other) => return Err(other.into()),
                },
            };
            match world::timeout(left, stream.message()).await {
                Err(_) => return Ok(None),
                Ok(Ok(Some(leaf))) => {
                    self.next = leaf.position.saturating_add(1);
                    return Ok(Some(leaf));
                }
                Ok(_) => {
                    self.stream = None;
                    world::sleep(PAUSE.min(left)).await;
                }
            }
        }
    }
}
