//! Which way a write should take from an async task to RocksDB: measured, not guessed
//! (docs/adr/0004-storage-engine.md). Prints microseconds per acknowledged write.
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
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use redlatch_raft::engine::{
        Durability, Engine, Family, RocksEngine, RocksOptions, WriteBatch,
    };
    use rocksdb::{DB, WriteOptions};

    const WRITES: u64 = 2_000;
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
        let engine = |dir: &Path| RocksEngine::open(dir, RocksOptions::default()).expect("open");
        let bare = |dir: &Path| Arc::new(DB::open_default(dir).expect("open"));
        println!(
            "{:<16} {:>12} {:>14} {:>16}",
            "us per write", "synced", "with buffered", "timer late (max)"
        );
        runtime.block_on(async {
            run("own thread", |dir| OwnThread(engine(dir))).await;
            run("spawn_blocking", |dir| SpawnBlocking(bare(dir))).await;
            run("block_in_place", |dir| BlockInPlace(bare(dir))).await;
        });
    }

    async fn run<P: WritePath>(name: &str, open: impl Fn(&Path) -> P) {
        let dir = tempfile::tempdir_in(".").expect("on a real disk");
        let path = open(dir.path());
        let alone = tokio::spawn(loop_synced(path.clone())).await.expect("ran");
        let stop = Arc::new(AtomicBool::new(false));
        let late = Arc::new(AtomicU64::new(0));
        let buffered = tokio::spawn(loop_buffered(path.clone(), Arc::clone(&stop)));
        let timer = tokio::spawn(watch_timer(Arc::clone(&stop), Arc::clone(&late)));
        let beside = tokio::spawn(loop_synced(path)).await.expect("ran");
        stop.store(true, Ordering::Relaxed);
        let _ = tokio::join!(buffered, timer);
        let late = late.load(Ordering::Relaxed);
        println!("{name:<16} {alone:>12.0} {beside:>14.0} {late:>16}");
    }

    async fn loop_synced(path: impl WritePath) -> f64 {
        let start = Instant::now();
        for key in 0..WRITES {
            path.write(key, Durability::Synced).await;
        }
        start.elapsed().as_secs_f64() * 1e6 / WRITES as f64
    }

    async fn loop_buffered(path: impl WritePath, stop: Arc<AtomicBool>) {
        let mut key = 1 << 32;
        while !stop.load(Ordering::Relaxed) {
            path.write(key, Durability::Buffered).await;
            key += 1;
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    async fn watch_timer(stop: Arc<AtomicBool>, late: Arc<AtomicU64>) {
        while !stop.load(Ordering::Relaxed) {
            let due = Instant::now() + Duration::from_millis(1);
            tokio::time::sleep_until(due.into()).await;
            let by = due.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
            late.fetch_max(by, Ordering::Relaxed);
        }
    }
}
