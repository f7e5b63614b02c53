//! The state after a restart: the stored snapshot, then the log up to the last applied entry once more.
//! What comes out must be what is stored.

use openraft::{EntryPayload, RaftLogReader};
use redlatch_journal::{Applied, State};
use redlatch_types::chain::Trust;

use super::{Candidate, applied_roster, corrupt, head_of};
use crate::admission::{Admitted, admitted};
use crate::archive::Archive;
use crate::config::{Entry, LogId, SnapshotMeta, StoredMembership};
use crate::cosign::{Cosigner, HeadKind, HeadPlace};
use crate::engine::{Engine, StorageFault};
use crate::log_store::LogStore;
use crate::membership::Seats;
use crate::record::AppliedRecord;
use crate::snapshot;

/// Entries read from the log at once.
const REBUILD_STEP: u64 = 64;

/// The state while it is rebuilt.
pub(super) struct Rebuilt {
    pub(super) state: State,
    pub(super) last: Option<LogId>,
    pub(super) membership: StoredMembership,
    pub(super) head: Option<HeadPlace>,
    pub(super) candidate: Option<Candidate>,
}

impl Rebuilt {
    pub(super) fn start<E: Engine>(
        engine: &E,
        cosigner: &Cosigner<E>,
        trust: &Trust,
    ) -> Result<Self, StorageFault> {
        let Some((meta, bytes)) = snapshot::load(engine)? else {
            let membership = StoredMembership::default();
            let state = State::new();
            return Ok(Self {
                state,
                last: None,
                membership,
                head: None,
                candidate: None,
            });
        };
        let proven = snapshot::verify(&meta, &bytes, trust)
            .map_err(|error| corrupt(engine, "snapshot", &error.to_string()))?;
        cosigner.start_from(proven.head.clone());
        let head = HeadPlace {
            size: proven.head.size,
            root: proven.head.root,
            state_time_ms: proven.head.state_time_ms,
            kind: HeadKind::Neutral,
        };
        Ok(Self {
            state: proven.state,
            last: meta.last_log_id,
            membership: meta.last_membership,
            head: Some(head),
            candidate: None,
        })
    }

    /// Applies the log up to the last applied entry once more. Nothing is written: it is there.
    pub(super) async fn catch_up<E: Engine>(
        &mut self,
        engine: &E,
        log_store: &LogStore<E>,
    ) -> Result<(), StorageFault> {
        let Some(applied) = AppliedRecord::stored(engine)? else {
            return Ok(());
        };
        let archive = Archive::new(engine.clone());
        let mut reader = log_store.clone();
        let end = applied.log_id.index.saturating_add(1);
        let mut next = self.last.map_or(0, |last| last.index + 1);
        while next < end {
            let step = next..end.min(next.saturating_add(REBUILD_STEP));
            let entries = reader
                .try_get_log_entries(step)
                .await
                .map_err(|error| corrupt(engine, "log", &error.to_string()))?;
            if entries.is_empty() {
                return Err(corrupt(engine, "log", "an applied entry is missing"));
            }
            for entry in entries {
                if entry.log_id.index != next {
                    return Err(corrupt(engine, "log", "an applied entry is missing"));
                }
                self.again(&entry, &archive, engine)?;
                #[cfg(madsim)]
                engine.show_state(next, &self.state);
                next += 1;
            }
        }
        if self.last != Some(applied.log_id) {
            return Err(corrupt(
                engine,
                "last applied",
                "it is not the entry in the log",
            ));
        }
        self.membership = applied.membership;
        Ok(())
    }

    fn again<E: Engine>(
        &mut self,
        entry: &Entry,
        archive: &Archive<E>,
        engine: &E,
    ) -> Result<(), StorageFault> {
        self.last = Some(entry.log_id);
        match &entry.payload {
            EntryPayload::Blank => {}
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(entry.log_id), membership.clone());
            }
            EntryPayload::Normal(batch) => {
                let Some(admitted) = admitted(batch, &entry.log_id) else {
                    return Ok(());
                };
                let Admitted {
                    entry: at,
                    commands,
                } = admitted;
                let applied = self.state.apply_admitted(at, &commands);
                for (position, leaf) in (applied.first_leaf..).zip(&applied.leaves) {
                    if archive.leaf(position)?.as_ref() != Some(leaf) {
                        return Err(corrupt(engine, "journal", "a leaf is not what was applied"));
                    }
                }
                self.head = head_of(&applied).or(self.head);
                self.candidate = self
                    .candidate_of(entry.log_id, &applied)
                    .or(self.candidate.take());
            }
        }
        Ok(())
    }

    fn candidate_of(&self, log_id: LogId, applied: &Applied) -> Option<Candidate> {
        let leaf = applied
            .leaves
            .last()
            .filter(|_| applied.state_root)?
            .clone();
        let roster = applied_roster(&self.state)?;
        if !Seats::of(&roster).is(self.membership.membership()) {
            return None;
        }
        let meta = SnapshotMeta {
            last_log_id: Some(log_id),
            last_membership: self.membership.clone(),
            snapshot_id: snapshot::id_of(Some(&log_id)),
        };
        let size = self.state.log.frontier.size();
        Some(Candidate {
            size,
            meta,
            state: self.state.to_bytes(),
            leaf,
        })
    }
}
