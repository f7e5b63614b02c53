//! What one Raft entry carries: an ordered batch of commands with the term and node that decided
//! to write it (D10, fault 27).
//!
//! Layout, big-endian: version u8 = 1, term u64, leader u64, count u16, then per command a length
//! u32 and the bytes. One value has exactly one encoding. What the commands mean is not known
//! here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

/// Most commands in one entry (D10).
pub const COMMANDS_MAX: usize = redlatch_types::limits::BATCH_COMMANDS_MAX;
/// Most bytes of commands in one entry (D10).
pub const BYTES_MAX: usize = redlatch_types::limits::BATCH_BYTES_MAX;

const VERSION: u8 = 1;
const HEADER_LEN: usize = 1 + 8 + 8 + 2;

/// A batch as openraft carries it: its bytes, never decoded and re-encoded on the way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Set once the batch has been handed to the log. A write that openraft refuses before that
    /// has certainly not happened; afterwards it is indeterminate, even if openraft later says
    /// "forward to leader".
    #[serde(skip)]
    logged: Arc<AtomicBool>,
}

impl PartialEq for Batch {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

/// The decoded content of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchContent {
    /// Term in which the proposer believed itself leader.
    pub term: u64,
    /// The node that proposed.
    pub leader: u64,
    /// Canonical command bytes, in order.
    pub commands: Vec<Vec<u8>>,
}

/// Why bytes are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a batch: {0}")]
pub struct NotABatch(&'static str);

/// Why commands do not fit in one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {COMMANDS_MAX} commands or {BYTES_MAX} bytes in one batch")]
pub struct BatchTooLarge;

impl Batch {
    /// Encodes `content`.
    ///
    /// # Errors
    /// If it holds more than [`COMMANDS_MAX`] commands or [`BYTES_MAX`] bytes of them.
    pub fn new(content: &BatchContent) -> Result<Self, BatchTooLarge> {
        let payload: usize = content.commands.iter().map(Vec::len).sum();
        if content.commands.len() > COMMANDS_MAX || payload > BYTES_MAX {
            return Err(BatchTooLarge);
        }
        let count = u16::try_from(content.commands.len()).map_err(|_| BatchTooLarge)?;
        let mut bytes = Vec::with_capacity(HEADER_LEN + payload + 4 * content.commands.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&content.term.to_be_bytes());
        bytes.extend_from_slice(&content.leader.to_be_bytes());
        bytes.extend_from_slice(&count.to_be_bytes());
        for command in &content.commands {
            let length = u32::try_from(command.len()).map_err(|_| BatchTooLarge)?;
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(command);
        }
        Ok(Self::from_log(bytes))
    }

    /// A batch read back from the log or received from a peer. The bytes are judged by
    /// [`Batch::decode`], when they are applied.
    #[must_use]
    pub fn from_log(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            logged: Arc::default(),
        }
    }

    /// The bytes to put into the log. From here on the batch counts as written.
    #[must_use]
    pub fn bytes_for_log(&self) -> &[u8] {
        self.logged.store(true, Ordering::Release);
        &self.bytes
    }

    /// The mark that [`Batch::bytes_for_log`] sets, shared with every clone of this batch.
    #[must_use]
    pub fn logged_mark(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.logged)
    }

    /// Decodes the batch.
    ///
    /// # Errors
    /// If the bytes are not the one encoding of a batch within its limits.
    pub fn decode(&self) -> Result<BatchContent, NotABatch> {
        let mut rest = self.bytes.as_slice();
        if take::<1>(&mut rest)? != [VERSION] {
            return Err(NotABatch("unknown version"));
        }
        let term = u64::from_be_bytes(take(&mut rest)?);
        let leader = u64::from_be_bytes(take(&mut rest)?);
        let count = usize::from(u16::from_be_bytes(take(&mut rest)?));
        if count > COMMANDS_MAX {
            return Err(NotABatch("too many commands"));
        }
        let mut commands = Vec::with_capacity(count);
        let mut payload = 0_usize;
        for _ in 0..count {
            let length = u32::from_be_bytes(take(&mut rest)?);
            let length = usize::try_from(length).map_err(|_| NotABatch("too long"))?;
            if length > rest.len() {
                return Err(NotABatch("ends early"));
            }
            let (command, tail) = rest.split_at(length);
            payload += length;
            commands.push(command.to_vec());
            rest = tail;
        }
        if !rest.is_empty() || payload > BYTES_MAX {
            return Err(NotABatch("too long"));
        }
        Ok(BatchContent {
            term,
            leader,
            commands,
        })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], NotABatch> {
    let (head, tail) = rest
        .split_first_chunk::<N>()
        .ok_or(NotABatch("ends early"))?;
    *rest = tail;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn content(commands: Vec<Vec<u8>>) -> BatchContent {
        BatchContent {
            term: 3,
            leader: 2,
            commands,
        }
    }

    proptest! {
        #[test]
        fn round_trip(commands in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..9)) {
            let content = content(commands);
            let batch = Batch::new(&content).expect("small");
            prop_assert_eq!(batch.decode(), Ok(content));
        }

        #[test]
        fn fault_018_no_bytes_panic_and_each_value_has_one_encoding(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(content) = Batch::from_log(bytes.clone()).decode() {
                let again = Batch::new(&content).expect("decoded within limits");
                prop_assert_eq!(again.bytes_for_log(), bytes.as_slice());
            }
        }
    }

    #[test]
    fn limits_hold_on_both_sides() {
        assert!(Batch::new(&content(vec![vec![]; COMMANDS_MAX])).is_ok());
        assert_eq!(
            Batch::new(&content(vec![vec![]; COMMANDS_MAX + 1])),
            Err(BatchTooLarge)
        );
        assert_eq!(
            Batch::new(&content(vec![vec![0; BYTES_MAX + 1]])),
            Err(BatchTooLarge)
        );
    }

    #[test]
    fn the_mark_is_set_by_logging_and_shared_with_clones() {
        let batch = Batch::new(&content(vec![vec![1]])).expect("small");
        let mark = batch.logged_mark();
        let moved = batch.clone();
        assert!(!mark.load(Ordering::Acquire));
        let _ = moved.bytes_for_log();
        assert!(mark.load(Ordering::Acquire));
    }
}
