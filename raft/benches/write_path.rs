//! Which way a write should take from an async task to RocksDB: measured, not guessed
//! (docs/adr/0004-storage-engine.md). Prints the median of 15 rounds in microseconds.
//!
//!     cargo bench -p redlatch-raft --bench write_path --profile dev
//!
//! One task writes closed-loop synced batches of 4 KiB, alone and while a second one writes
//! buffered batches (apply beside append). Compared: the engine's own thread; `spawn_blocking` and
//! `block_in_place` around a bare RocksDB. A third column is how late a 1 ms timer of the same
//! runtime fires meanwhile: what a blocked worker costs everybody else.

#[cfg(madsim)]
fn main() {}

#[cfg(not(madsim))]
fn main() {
    real::main();
}

#[cfg(not(madsim))]
mod real {
    use std::future::Future;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use redlatch_raft::engine::{
        Durability, Engine, Family, RocksEngine, RocksOptions, WriteBatch,
    };
    use rocksdb::{DB, WriteOptions};

    const ROUNDS: usize = 15;
    const WRITES: u64 = 100;
    const BYTES: usize = 4 << 10;

    trait WritePath: Clone + Send + Sync + 'static {
        fn write(&self, key: u64, durability: Durability) -> impl Future<Output = ()> + Send;
    }

    #[derive(Clone)]
    struct OwnThread(RocksEngine);

    impl WritePath for OwnThread {
        async fn write(&self, key: u64, durability: Durability) {
            let mut batch = WriteBatch::new();
            batch.put(Family::Log, key.to_be_bytes(), vec![7; BYTES]);
            self.0.write(batch, durability).await.expect("written");
        }
    }

    #[derive(Clone)]
    struct SpawnBlocking(Arc<DB>);

    #[derive(Clone)]
    struct BlockInPlace(Arc<DB>);

    fn bare(db: &DB, key: u64, durability: Durability) {
        let mut options = WriteOptions::default();
        options.set_sync(durability == Durability::Synced);
        db.put_opt(key.to_be_bytes(), vec![7; BYTES], &options)
            .expect("written");
    }

    impl WritePath for SpawnBlocking {
        async fn write(&self, key: u64, durability: Durability) {
            let db = Arc::clone(&self.0);
            tokio::task::spawn_blocking(move || bare(&db, key, durability))
                .await
                .expect("ran");
        }
    }

    impl WritePath for BlockInPlace {
        async fn write(&self, key: u64, durability: Durability) {
            tokio::task::block_in_place(|| bare(&self.0, key, durability));
        }
    }

    pub(crate) fn main() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("runtime");
        runtime.block_on(compare());
    }

    /// The paths take turns, round by round: a noisy neighbour meets them all.
    async fn compare() {
        let dirs = [(); 3].map(|()| tempfile::tempdir_in(".").expect("on a real disk"));
        let bare = |dir: &Path| Arc::new(DB::open_default(dir).expect("open"));
        let engine = RocksEngine::open(dirs[0].path(), RocksOptions::default()).expect("open");
        let own_thread = OwnThread(engine);
        let spawn_blocking = SpawnBlocking(bare(dirs[1].path()));
        let block_in_place = BlockInPlace(bare(dirs[2].path()));
        let mut rounds = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            rounds[0].push(round(&own_thread).await);
            rounds[1].push(round(&spawn_blocking).await);
            rounds[2].push(round(&block_in_place).await);
        }
        println!(
            "{:<16} {:>8} {:>14} {:>12}",
            "median us", "synced", "with buffered", "timer late"
        );
        let names = ["own thread", "spawn_blocking", "block_in_place"];
        for (name, rounds) in names.iter().zip(rounds) {
            let median = |pick: fn(&Round) -> u64| {
                let mut all: Vec<u64> = rounds.iter().map(pick).collect();
                all.sort_unstable();
                all[all.len() / 2]
            };
            let (alone, beside) = (median(|round| round.alone), median(|round| round.beside));
            println!(
                "{name:<16} {alone:>8} {beside:>14} {:>12}",
                median(|round| round.late)
            );
        }
    }

    /// Microseconds: per synced write alone, per synced write beside buffered ones, and the worst
    /// delay of the timer.
    struct Round {
        alone: u64,
        beside: u64,
        late: u64,
    }

    async fn round(path: &impl WritePath) -> Round {
        let alone = tokio::spawn(loop_synced(path.clone())).await.expect("ran");
        let stop = Arc::new(AtomicBool::new(false));
        let buffered = tokio::spawn(loop_buffered(path.clone(), Arc::clone(&stop)));
        let timer = tokio::spawn(watch_timer(Arc::clone(&stop)));
        let beside = tokio::spawn(loop_synced(path.clone())).await.expect("ran");
        stop.store(true, Ordering::Relaxed);
        buffered.await.expect("ran");
        Round {
            alone,
            beside,
            late: timer.await.expect("ran"),
        }
    }

    async fn loop_synced(path: impl WritePath) -> u64 {
        let start = Instant::now();
        for key in 0..WRITES {
            path.write(key, Durability::Synced).await;
        }
        micros(start.elapsed()) / WRITES
    }

    async fn loop_buffered(path: impl WritePath, stop: Arc<AtomicBool>) {
        let mut key = 1 << 32;
        while !stop.load(Ordering::Relaxed) {
            path.write(key, Durability::Buffered).await;
            key += 1;
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    async fn watch_timer(stop: Arc<AtomicBool>) -> u64 {
        let mut late = 0;
        while !stop.load(Ordering::Relaxed) {
            let due = Instant::now() + Duration::from_millis(1);
            tokio::time::sleep_until(due.into()).await;
            late = late.max(micros(due.elapsed()));
        }
        late
    }

    fn micros(elapsed: Duration) -> u64 {
        u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
    }
}
