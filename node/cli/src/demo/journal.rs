//! Journals as they are read back: one leaf after the other from whichever node answers, or all of one node.

use std::time::Duration;

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::nodes::Nodes;
use redlatch_link::world::{self, Monotonic};
use redlatch_proto::v1::JournalLeaf;
use redlatch_types::Canonical;
use redlatch_types::event::Event;

use crate::tail::Tail;

/// How long a node may take to show its whole journal.
const WHOLE: Duration = Duration::from_secs(10);

/// Reads on from a position.
pub(super) struct Journal(Tail);

impl Journal {
    /// Begins at leaf `next`.
    pub(super) fn new(nodes: Nodes, next: u64) -> Journal {
        Journal(Tail::new(nodes, next))
    }

    /// The first position that was not read yet.
    pub(super) fn position(&self) -> u64 {
        self.0.position()
    }

    /// The next leaf; none if there is none within `wait`.
    ///
    /// # Errors
    /// [`Failure`] for an answer that no retry changes.
    pub(super) async fn next(&mut self, wait: Duration) -> Result<Option<(u64, Event)>, Failure> {
        let leaf = self.0.next(Monotonic::now().plus(wait)).await?;
        leaf.map(|leaf| Ok((leaf.position, decode(&leaf)?)))
            .transpose()
    }
}

/// Every leaf that the nodes show, in order, with its bytes.
///
/// # Errors
/// [`Failure`] if the stream breaks or holds something else than events.
pub(super) async fn whole(nodes: &Nodes) -> Result<Vec<(Event, Vec<u8>)>, Failure> {
    let mut stream = nodes.journal(0, false, WHOLE).await?;
    let mut leaves = Vec::new();
    loop {
        let leaf = world::timeout(WHOLE, stream.message()).await;
        match leaf {
            Ok(Ok(Some(leaf))) => leaves.push((decode(&leaf)?, leaf.leaf)),
            Ok(Ok(None)) => return Ok(leaves),
            Ok(Err(status)) => return Err(broken(status.message())),
            Err(late) => return Err(broken(&late.to_string())),
        }
    }
}

fn decode(leaf: &JournalLeaf) -> Result<Event, Failure> {
    Event::from_canonical(&leaf.leaf)
        .map_err(|fault| broken(&format!("leaf {} is no event: {fault}", leaf.position)))
}

fn broken(why: &str) -> Failure {
    Failure::new(
        ExitCode::Error,
        format!("the journal cannot be read: {why}"),
    )
}
