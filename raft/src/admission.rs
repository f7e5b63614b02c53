//! Signatures are checked beside the write of an entry, not while it is applied (D3).
//!
//! ```text
//!   append ──▶ begin ──▶ another thread: decode, every signature ──┐
//!          └─▶ fsync ─▶ majority ─▶ apply ──▶ take ◀───────────────┘ already there, most of the time
//! ```
//!
//! Admission needs no state, so what was admitted early is what would be admitted late. The task that applies
//! entries waits for it and never does it: it decides, evolves and writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use openraft::EntryPayload;
use redlatch_journal::{Command, EntryId, admit};
use redlatch_link::world;
use redlatch_types::Refusal;
use tokio::sync::oneshot;

use crate::batch::Batch;
use crate::config::{Entry, LogId};

/// Entries whose admission is begun and not taken. A log that is read far ahead waits for its turn.
const AHEAD_MAX: usize = 32;

/// A batch whose every signature was looked at.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// Where it stands.
    pub(crate) entry: EntryId,
    /// What each command came to, in order.
    pub(crate) commands: Vec<Result<Command, Refusal>>,
}

/// What will be known of a batch.
type Waited = oneshot::Receiver<Option<Admitted>>;

/// What is being admitted, by log index.
#[derive(Debug, Default)]
pub(crate) struct Admissions {
    /// Whether somebody applies what is written.
    wanted: AtomicBool,
    ahead: Mutex<BTreeMap<u64, (LogId, Waited)>>,
}

impl Admissions {
    /// From now on entries are admitted ahead: somebody applies them.
    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Begins to admit entries that are about to be written.
    pub(crate) fn begin(&self, entries: &[Entry]) {
        if !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        for entry in entries {
            let EntryPayload::Normal(batch) = &entry.payload else {
                continue;
            };
            let (done, waited) = oneshot::channel();
            {
                let mut ahead = self.ahead();
                // Of an index only the entry written last counts: an earlier one was cut off.
                let room = ahead.len() < AHEAD_MAX || ahead.contains_key(&entry.log_id.index);
                if !room {
                    continue;
                }
                ahead.insert(entry.log_id.index, (entry.log_id, waited));
            }
            let (batch, log_id) = (batch.clone(), entry.log_id);
            world::spawn(async move {
                let admitted = world::blocking(move || admitted(&batch, &log_id)).await;
                // Nobody waits any more for what was cut off.
                let _ = done.send(admitted);
            });
        }
    }

    /// What an entry's batch came to; `None` if it is no batch of its entry's term (fault 27).
    pub(crate) async fn take(&self, log_id: LogId, batch: &Batch) -> Option<Admitted> {
        let begun = {
            let mut ahead = self.ahead();
            let later = ahead.split_off(&log_id.index.saturating_add(1));
            let begun = ahead.remove(&log_id.index);
            // What stood before an entry that is applied is never asked for again.
            *ahead = later;
            begun
        };
        if let Some((begun, waited)) = begun
            && begun == log_id
            && let Ok(admitted) = waited.await
        {
            return admitted;
        }
        let batch = batch.clone();
        world::blocking(move || admitted(&batch, &log_id)).await
    }

    fn ahead(&self) -> MutexGuard<'_, BTreeMap<u64, (LogId, Waited)>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decodes a batch and checks every signature in it; `None` if it is no batch of its entry's term (fault 27).
pub(crate) fn admitted(batch: &Batch, log_id: &LogId) -> Option<Admitted> {
    let content = batch.decode().ok()?;
    if content.term != log_id.leader_id.term {
        return None;
    }
    Some(Admitted {
        entry: EntryId {
            term: content.term,
            leader: content.leader,
            index: log_id.index,
        },
        commands: content.commands.iter().map(|it| admit(it)).collect(),
    })
}

#[cfg(all(test, not(madsim)))]
mod tests {
    use openraft::CommittedLeaderId;
    use redlatch_types::Canonical;
    use redlatch_types::command::RawCommand;

    use super::*;
    use crate::batch::BatchContent;

    fn entry(term: u64, index: u64, commands: Vec<Vec<u8>>) -> Entry {
        let content = BatchContent {
            term,
            leader: 1,
            commands,
        };
        Entry {
            log_id: LogId::new(CommittedLeaderId::new(term, 0), index),
            payload: EntryPayload::Normal(Batch::new(&content).expect("small")),
        }
    }

    fn batch(entry: &Entry) -> &Batch {
        match &entry.payload {
            EntryPayload::Normal(batch) => batch,
            other => panic!("{other:?}"),
        }
    }

    fn wanted() -> Admissions {
        let admissions = Admissions::default();
        admissions.want();
        admissions
    }

    fn checkpoint() -> Vec<u8> {
        RawCommand::Checkpoint.to_canonical()
    }

    #[tokio::test]
    async fn what_was_begun_is_what_would_be_admitted_late() {
        let admissions = wanted();
        let first = entry(3, 7, vec![checkpoint(), vec![0xff]]);
        let late = admitted(batch(&first), &first.log_id).expect("a batch");
        admissions.begin(std::slice::from_ref(&first));
        let early = admissions.take(first.log_id, batch(&first)).await;
        let early = early.expect("a batch");
        assert_eq!(early.entry, late.entry);
        assert_eq!(early.commands, late.commands);
        assert_eq!(early.commands[1], Err(Refusal::NotCanonical));
    }

    #[tokio::test]
    async fn an_entry_that_replaces_another_at_its_index_is_the_one_that_counts() {
        let admissions = wanted();
        let cut_off = entry(3, 7, vec![vec![0xff]]);
        let stands = entry(4, 7, vec![checkpoint()]);
        admissions.begin(&[cut_off.clone(), stands.clone()]);
        let taken = admissions.take(stands.log_id, batch(&stands)).await;
        assert_eq!(taken.expect("a batch").commands, [Ok(Command::Checkpoint)]);
        // Begun for another entry than is applied: what is applied is admitted for itself.
        admissions.begin(&[cut_off]);
        let taken = admissions.take(stands.log_id, batch(&stands)).await;
        assert_eq!(taken.expect("a batch").commands, [Ok(Command::Checkpoint)]);
    }

    #[tokio::test]
    async fn what_waits_is_bounded_and_what_was_passed_is_dropped() {
        let admissions = wanted();
        let many: Vec<Entry> = (0..100).map(|n| entry(3, n, vec![checkpoint()])).collect();
        admissions.begin(&many);
        assert_eq!(admissions.ahead().len(), AHEAD_MAX);
        let far = &many[90];
        let taken = admissions.take(far.log_id, batch(far)).await;
        assert_eq!(taken.expect("a batch").entry.index, 90);
        assert!(admissions.ahead().is_empty());
    }

    #[test]
    fn fault_027_a_batch_of_another_term_is_none() {
        let wrong = entry(3, 7, vec![checkpoint()]);
        let log_id = LogId::new(CommittedLeaderId::new(4, 0), 7);
        assert!(admitted(batch(&wrong), &log_id).is_none());
        assert!(admitted(&Batch::from_log(vec![9]), &log_id).is_none());
    }
}
