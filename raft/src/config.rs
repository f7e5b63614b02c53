//! openraft's generics, met once: the type configuration with its aliases, and the timing and
//! size settings with their reasons. No other file of the product spells a type parameter of
//! openraft.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::batch::Batch;

openraft::declare_raft_types!(
    /// The one configuration redlatch runs openraft with.
    pub TypeConfig:
        D = Batch,
        R = EntryOutcome,
        NodeId = u64,
        Node = openraft::EmptyNode,
        SnapshotData = Vec<u8>,
        AsyncRuntime = crate::runtime::Runtime,
);

/// A handle to the running consensus core.
pub type Raft = openraft::Raft<TypeConfig>;
/// One entry of the Raft log.
pub type Entry = openraft::Entry<TypeConfig>;
/// Position of an entry: term and index.
pub type LogId = openraft::LogId<u64>;
/// A vote as it is stored and compared.
pub type Vote = openraft::Vote<u64>;
/// The sets of voters and learners as openraft keeps them.
pub type Membership = openraft::Membership<u64, openraft::EmptyNode>;
/// A membership with the log id of its entry.
pub type StoredMembership = openraft::StoredMembership<u64, openraft::EmptyNode>;
/// What openraft knows of a snapshot.
pub type SnapshotMeta = openraft::SnapshotMeta<u64, openraft::EmptyNode>;
/// A snapshot: its meta and its bytes.
pub type Snapshot = openraft::Snapshot<TypeConfig>;
/// How storage tells openraft that it has failed; always fatal (D8).
pub type StorageError = openraft::StorageError<u64>;

/// What became of one Raft entry on this node. It stays inside the process: openraft hands it from
/// the state machine to the proposer that wrote the entry.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub enum EntryOutcome {
    /// Blank and membership entries.
    #[default]
    Empty,
    /// The batch was built under another term than the one it was written in, or is not a batch:
    /// every node skips it (fault 27).
    Void,
    /// The batch was applied; one outcome per command, same order.
    #[serde(skip)]
    Applied(Arc<crate::machine::AppliedEntry>),
}

/// Heartbeat and election timing, in milliseconds of monotonic time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Interval between heartbeats. openraft also uses it as the deadline of one AppendEntries,
    /// the follower's fsync included, so it must be well above the slowest healthy disk.
    pub heartbeat_ms: u64,
    /// Shortest wait before a follower campaigns, after the leader's lease.
    pub election_ms_min: u64,
    /// Longest such wait; also the length of the leader's lease.
    pub election_ms_max: u64,
}

impl Default for Timing {
    fn default() -> Self {
        // 200 ms leave room for a 1 MiB entry and one slow fsync; a failed leader is replaced
        // within two times 1 s (lease, then the random wait).
        Self {
            heartbeat_ms: 200,
            election_ms_min: 600,
            election_ms_max: 1_000,
        }
    }
}

/// Entries a follower may get in one AppendEntries. The bytes are bounded as well, by `network`.
const ENTRIES_PER_APPEND_MAX: u64 = 64;

/// Entries kept behind a snapshot, so that a node that was away for a moment catches up from the
/// log and needs no snapshot.
const ENTRIES_KEPT_BEHIND_SNAPSHOT: u64 = 1_024;

/// openraft's own configuration.
///
/// # Errors
/// If the timing contradicts itself (heartbeat not below the election wait, minimum not below
/// maximum); the text is openraft's.
pub fn openraft_config(
    timing: Timing,
) -> Result<Arc<openraft::Config>, Box<openraft::ConfigError>> {
    let config = openraft::Config {
        cluster_name: String::from("redlatch"),
        heartbeat_interval: timing.heartbeat_ms,
        election_timeout_min: timing.election_ms_min,
        election_timeout_max: timing.election_ms_max,
        max_payload_entries: ENTRIES_PER_APPEND_MAX,
        // Snapshots are taken exactly at a StateRoot leaf whose head a majority has cosigned (D8):
        // `machine` decides when, openraft never does.
        snapshot_policy: openraft::SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: ENTRIES_KEPT_BEHIND_SNAPSHOT,
        ..openraft::Config::default()
    };
    config.validate().map(Arc::new).map_err(Box::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_timing_is_valid_and_contradictions_are_refused() {
        assert!(openraft_config(Timing::default()).is_ok());
        let slow_heartbeat = Timing {
            heartbeat_ms: 700,
            ..Timing::default()
        };
        assert!(openraft_config(slow_heartbeat).is_err());
    }
}
