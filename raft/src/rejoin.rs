//! A node whose disk lost what it had promised comes back by `Rejoin` (D9, faults 13, 14).
//!
//! ```text
//!   Hello: rolled_back ─▶ floor: a vote and an incarnation above all that a majority remembers, synced
//!                      ─▶ Raft runs; nothing is taken from a leader, voted or signed
//!                      ─▶ Rejoin in the journal ─▶ it receives ─▶ Promote ─▶ it counts again
//! ```
//!
//! The record on disk says from which entry on the applied roster may give this node its vote back.
//! Entries before it speak of a voter that this disk is not any more. Whoever runs the node asks for
//! all this; the journal decides it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redlatch_link::world;
use redlatch_proto::v1;
use redlatch_types::command::RawCommand;
use redlatch_types::records::RejoinV1;
use redlatch_types::{Canonical, Envelope, NodeId, RosterEpoch, Scope};
use tonic::Status;

use crate::engine::{Durability, Engine, Family, StorageFault, WriteBatch, framed, unframed};
use crate::links::call;
use crate::peers::{PeerTable, VoteMark};
use crate::shared::Shared;

const RECORD: &[u8] = b"peer/rejoin";
/// In the record: the journal has not said yet where the node rejoined.
const UNKNOWN: u64 = u64::MAX;

const ANSWER_DEADLINE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(300);

/// Since when the roster's word about this node is about this disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// It has never lost anything.
    Always,
    /// It has rejoined, or is about to; the journal has not said where.
    Unknown,
    /// It rejoined in this entry.
    Entry(u64),
}

/// The record with the value that is in force.
#[derive(Debug)]
pub(crate) struct Rejoined<E> {
    engine: E,
    since: Mutex<Since>,
}

impl<E: Engine> Rejoined<E> {
    /// Reads the record.
    ///
    /// # Errors
    /// Any fault of the store; a damaged record is `Corrupt`.
    pub(crate) fn open(engine: E) -> Result<Self, StorageFault> {
        let since = match engine.get(Family::Meta, RECORD)? {
            None => Since::Always,
            Some(stored) => decode(&stored).map_err(|fault| engine.condemn(fault))?,
        };
        Ok(Self {
            engine,
            since: Mutex::new(since),
        })
    }

    /// The value in force.
    pub(crate) fn since(&self) -> Since {
        // A plain value: a panic elsewhere leaves it usable.
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a roster applied by entry `index` speaks of this disk.
    pub(crate) fn speaks(&self, index: Option<u64>) -> bool {
        match self.since() {
            Since::Always => true,
            Since::Unknown => false,
            Since::Entry(entry) => index >= Some(entry),
        }
    }

    /// Puts the beginning of a return into the batch that also raises vote and incarnation.
    pub(crate) fn begin(&self, batch: &mut WriteBatch) {
        self.set(Since::Unknown);
        batch.put(Family::Meta, RECORD, encode(UNKNOWN));
    }

    /// The journal has said where.
    async fn found(&self, index: u64) -> Result<(), StorageFault> {
        let mut batch = WriteBatch::new();
        batch.put(Family::Meta, RECORD, encode(index));
        self.engine.write(batch, Durability::Synced).await?;
        self.set(Since::Entry(index));
        Ok(())
    }

    fn set(&self, since: Since) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

fn encode(index: u64) -> Vec<u8> {
    framed(&index.to_be_bytes())
}

fn decode(stored: &[u8]) -> Result<Since, StorageFault> {
    let what = "rejoin record";
    let bytes = unframed(what, stored)?;
    match <[u8; 8]>::try_from(bytes).map(u64::from_be_bytes) {
        Ok(UNKNOWN) => Ok(Since::Unknown),
        Ok(index) => Ok(Since::Entry(index)),
        Err(_) => Err(StorageFault::Corrupt {
            what: what.into(),
            detail: "not 8 bytes".into(),
        }),
    }
}

/// What a node that returns must be above: nothing it may have promised is at or above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Floor {
    /// Above every vote that anybody's row holds. It is nobody's.
    pub(crate) vote: VoteMark,
    /// Above every boot of this node that anybody remembers.
    pub(crate) incarnation: u64,
}

/// The floor above what `tables` remember.
pub(crate) fn floor<'a>(own: u64, tables: impl Iterator<Item = &'a PeerTable>) -> Floor {
    let (mut term, mut incarnation) = (0, 0);
    for row in tables.flat_map(PeerTable::rows) {
        term = term.max(row.vote.term);
        if row.node == own {
            incarnation = incarnation.max(row.incarnation);
        }
    }
    Floor {
        vote: VoteMark {
            term: term.saturating_add(1),
            node: None,
            committed: false,
        },
        incarnation: incarnation.saturating_add(1),
    }
}

/// Asks the leader, whoever it is, to journal the return, until it has. Ends when the record says
/// where, and with the process.
pub(crate) async fn announce<E: Engine>(shared: std::sync::Arc<Shared<E>>) {
    // What each peer said last: an operator has to see a refusal, but not three times a second.
    let mut told: BTreeMap<u64, String> = BTreeMap::new();
    while shared.rejoined.since() == Since::Unknown {
        for peer in shared.links.peers() {
            match ask(&shared, peer).await {
                Err(status) => {
                    let why = status.message().to_owned();
                    if told.get(&peer) != Some(&why) {
                        tracing::warn!(peer, why, "the return is not journaled yet");
                        told.insert(peer, why);
                    }
                }
                Ok(index) => {
                    if let Err(fault) = shared.rejoined.found(index).await {
                        let cause = crate::alarm::FatalCause::Storage(fault);
                        return shared.alarm.raise(cause);
                    }
                    tracing::info!(
                        index,
                        "rejoined as a learner; a promotion gives the vote back"
                    );
                    return;
                }
            }
        }
        world::sleep(PAUSE).await;
    }
}

async fn ask<E: Engine>(shared: &Shared<E>, peer: u64) -> Result<u64, Status> {
    let mut client = shared.links.control(peer)?;
    let hello = v1::HelloRequest {
        sender: shared.own,
        incarnation: shared.memory.incarnation(),
    };
    let answer = call(ANSWER_DEADLINE, hello, |request| async move {
        client.hello(request).await
    })
    .await?;
    let scope = Scope {
        organism_id: shared.organism,
        organism_epoch: answer.organism_epoch,
    };
    let record = RejoinV1 {
        node_id: NodeId(shared.own),
        roster_epoch: RosterEpoch(answer.roster_epoch),
        incarnation: shared.memory.incarnation(),
        record_key: shared.keys.record.public_key(),
    };
    let envelope = Envelope::seal(scope, &shared.keys.record, &record);
    let message = v1::RejoinRequest {
        sender: shared.own,
        command: RawCommand::Rejoin(envelope).to_canonical(),
    };
    let mut client = shared.links.control(peer)?;
    let answer = call(ANSWER_DEADLINE, message, |request| async move {
        client.rejoin(request).await
    })
    .await?;
    Ok(answer.index)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::engine::SimDisk;
    use crate::peers::{LogMark, PeerRow};

    fn row(node: u64, incarnation: u64, term: u64) -> PeerRow {
        PeerRow {
            node,
            incarnation,
            vote: VoteMark {
                term,
                node: Some(node),
                committed: true,
            },
            log: Some(LogMark { term, index: 5 }),
        }
    }

    #[test]
    fn fault_013_the_floor_is_above_every_vote_and_boot_that_is_remembered() {
        let mut one = PeerTable::default();
        one.absorb(&row(2, 7, 4));
        one.absorb(&row(1, 90, 9));
        let mut other = PeerTable::default();
        other.absorb(&row(2, 3, 6));
        let floor = floor(2, [&one, &other].into_iter());
        assert_eq!(floor.incarnation, 8);
        assert_eq!((floor.vote.term, floor.vote.node), (10, None));
        // With the floor on its disk, nobody's memory is above it.
        let disk = crate::peers::Disk {
            incarnation: floor.incarnation,
            vote: floor.vote,
            last_log: None,
        };
        assert!(
            !one.rows()
                .chain(other.rows())
                .any(|row| row.is_above(&disk))
        );
    }

    #[test]
    fn fault_014_the_roster_speaks_of_this_disk_from_the_rejoin_on() {
        let disk = SimDisk::new();
        let open = || Rejoined::open(disk.open().expect("opens")).expect("readable");
        let first = open();
        assert!(first.speaks(None) && first.speaks(Some(3)));
        let mut batch = WriteBatch::new();
        first.begin(&mut batch);
        assert!(!first.speaks(Some(1_000)), "from the moment it is begun");
        block_on(first.engine.write(batch, Durability::Synced)).expect("written");
        drop(first);
        disk.power_loss(0);
        let second = open();
        assert_eq!(second.since(), Since::Unknown);
        assert!(!second.speaks(Some(1_000)));
        block_on(second.found(40)).expect("written");
        drop(second);
        disk.power_loss(0);
        let third = open();
        assert_eq!(
            [None, Some(39), Some(40)].map(|index| third.speaks(index)),
            [false, false, true]
        );
    }
}
