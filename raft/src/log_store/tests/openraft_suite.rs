//! openraft's own test suite for storage, on the real engine and on the simulated one, with the
//! smallest state machine that it accepts.

use openraft::RaftSnapshotBuilder;
use openraft::storage::RaftStateMachine;
use openraft::testing::{StoreBuilder, Suite};

use super::*;
use crate::config::{EntryOutcome, Snapshot, SnapshotMeta, StoredMembership};
use crate::engine::{RocksEngine, RocksOptions};

type Kept = Option<(SnapshotMeta, Vec<u8>)>;

/// Remembers what was applied last; its snapshot is the membership alone.
#[derive(Clone, Debug, Default)]
struct Machine {
    applied: Option<LogId>,
    membership: StoredMembership,
    /// Shared with the builder, which is a clone.
    snapshot: Arc<Mutex<Kept>>,
}

impl Machine {
    fn keep(&self, meta: &SnapshotMeta, bytes: Vec<u8>) {
        *self.snapshot.lock().expect("no panic") = Some((meta.clone(), bytes));
    }
}

impl RaftSnapshotBuilder<TypeConfig> for Machine {
    async fn build_snapshot(&mut self) -> Result<Snapshot, StorageError> {
        let meta = SnapshotMeta {
            last_log_id: self.applied,
            last_membership: self.membership.clone(),
            snapshot_id: String::from("one"),
        };
        self.keep(&meta, Vec::new());
        Ok(Snapshot {
            meta,
            snapshot: Box::default(),
        })
    }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<EntryOutcome>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut outcomes = Vec::new();
        for entry in entries {
            self.applied = Some(entry.log_id);
            if let EntryPayload::Membership(membership) = entry.payload {
                self.membership = StoredMembership::new(Some(entry.log_id), membership);
            }
            outcomes.push(EntryOutcome::Empty);
        }
        Ok(outcomes)
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Vec<u8>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Vec<u8>>,
    ) -> Result<(), StorageError> {
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.keep(meta, *snapshot);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, StorageError> {
        let snapshot = self.snapshot.lock().expect("no panic").clone();
        Ok(snapshot.map(|(meta, bytes)| Snapshot {
            meta,
            snapshot: Box::new(bytes),
        }))
    }
}

/// Runs openraft's checks by name on fresh stores. One is left out,
/// `get_initial_state_membership_from_log_and_sm`: it appends entry 1 after entry 2 as a short cut,
/// which this store refuses, as openraft's own contract asks.
macro_rules! run {
    ($guard:ty, $engine:ty, $builder:expr, [$($check:ident),+ $(,)?]) => {{
        type Checks = Suite<TypeConfig, LogStore<$engine>, Machine, Builder<$guard, $engine>, $guard>;
        let runtime = tokio::runtime::Runtime::new().expect("runtime");
        let mut failed: Vec<(&str, StorageError)> = Vec::new();
        $({
            let (_guard, store, machine) = ($builder)();
            let verdict = runtime.block_on(Checks::$check(store, machine));
            failed.extend(verdict.err().map(|error| (stringify!($check), error)));
        })+
        assert_eq!(failed, []);
        let transfer = Checks::transfer_snapshot(&Builder($builder));
        runtime.block_on(transfer).expect("transfer_snapshot");
    }};
}

macro_rules! run_all {
    ($guard:ty, $engine:ty, $builder:expr) => {
        run!(
            $guard,
            $engine,
            $builder,
            [
                last_membership_in_log_initial,
                last_membership_in_log,
                last_membership_in_log_multi_step,
                get_membership_initial,
                get_membership_from_log_and_empty_sm,
                get_membership_from_empty_log_and_sm,
                get_membership_from_log_le_sm_last_applied,
                get_membership_from_log_gt_sm_last_applied_1,
                get_membership_from_log_gt_sm_last_applied_2,
                get_initial_state_without_init,
                get_initial_state_with_state,
                get_initial_state_last_log_gt_sm,
                get_initial_state_last_log_lt_sm,
                get_initial_state_log_ids,
                get_initial_state_re_apply_committed,
                save_vote,
                get_log_entries,
                limited_get_log_entries,
                try_get_log_entry,
                initial_logs,
                get_log_state,
                get_log_id,
                last_id_in_log,
                last_applied_state,
                purge_logs_upto_0,
                purge_logs_upto_5,
                purge_logs_upto_20,
                delete_logs_since_11,
                delete_logs_since_0,
                append_to_log,
                snapshot_meta,
                apply_single,
                apply_multiple,
            ]
        )
    };
}

type Built<G, E> = (G, LogStore<E>, Machine);

struct Builder<G, E>(fn() -> Built<G, E>);

impl<G: Send + Sync, E: Engine> StoreBuilder<TypeConfig, LogStore<E>, Machine, G>
    for Builder<G, E>
{
    async fn build(&self) -> Result<Built<G, E>, StorageError> {
        Ok((self.0)())
    }
}

fn on_simulated_disk() -> Built<(), SimEngine> {
    ((), start(&SimDisk::new()), Machine::default())
}

fn on_rocks() -> Built<tempfile::TempDir, RocksEngine> {
    let dir = tempfile::tempdir().expect("temporary directory");
    let engine = RocksEngine::open(
        dir.path(),
        RocksOptions {
            ballast_bytes: 1 << 16,
        },
    );
    let store = LogStore::open(engine.expect("open")).expect("a new log");
    (dir, store, Machine::default())
}

#[test]
fn openraft_accepts_the_simulated_engine() {
    run_all!((), SimEngine, on_simulated_disk);
}

#[test]
fn openraft_accepts_the_real_engine() {
    run_all!(tempfile::TempDir, RocksEngine, on_rocks);
}
