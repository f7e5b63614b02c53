//! Engines that each break one promise, as real stores have done. The suite is worth something
//! only if it tells each of them from a good engine.

use std::sync::{Arc, Mutex};

use super::*;

/// What a broken engine does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// Takes `Synced` for `Buffered`.
    DropsSync,
    /// Starts the fsync and answers at once (fault 5).
    AnswersBeforeSync,
    /// Lets a batch overtake the one before it.
    Reorders,
    /// Writes a batch as two (fault 6).
    HalvesBatches,
    /// A log of its own per family: a sync covers only the batch it came with.
    SyncsAlone,
    /// Tries a failed fsync again and believes the second answer (fault 8).
    RetriesSync,
    /// Reports a failed write and goes on (fault 9).
    GoesOnAfterFailedWrite,
    /// Takes a full disk for success (fault 12).
    SwallowsFull,
    /// Deletes the end of a range with it.
    DeletesRangeEnd,
}

#[derive(Clone, Debug)]
struct Mutant {
    flaw: Flaw,
    inner: SimEngine,
    late: Arc<Mutex<Vec<WriteBatch>>>,
}

struct MutantRig {
    flaw: Flaw,
    disk: SimDisk,
}

impl Rig for MutantRig {
    type Engine = Mutant;
    fn open(&self) -> Result<Mutant, StorageFault> {
        Ok(Mutant {
            flaw: self.flaw,
            inner: self.disk.open()?,
            late: Arc::default(),
        })
    }
    fn disk(&self) -> Option<&SimDisk> {
        Some(&self.disk)
    }
}

impl Mutant {
    fn place(&self, batch: WriteBatch) -> Result<(), StorageFault> {
        self.inner.disk().place(self.inner.boot(), batch)
    }

    async fn sync(&self) -> Result<(), StorageFault> {
        self.inner.disk().sync(self.inner.boot()).await
    }

    fn place_late(&self) {
        for batch in self.late.lock().expect("no panic").drain(..) {
            // A fault is met by the next write.
            let _ = self.place(batch);
        }
    }
}

impl Engine for Mutant {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, StorageFault> {
        self.place_late();
        self.inner.get(family, key)
    }

    fn scan(
        &self,
        family: Family,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, StorageFault> {
        self.place_late();
        self.inner.scan(family, from, to, limit)
    }

    fn last(&self, family: Family) -> Result<Option<Row>, StorageFault> {
        self.place_late();
        self.inner.last(family)
    }

    async fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StorageFault> {
        let synced = durability == Durability::Synced;
        match self.flaw {
            Flaw::DropsSync => self.inner.write(batch, Durability::Buffered).await,
            Flaw::AnswersBeforeSync => self
                .inner
                .write(batch, durability)
                .now_or_never()
                .unwrap_or(Ok(())),
            Flaw::Reorders => {
                let held = std::mem::take(&mut *self.late.lock().expect("no panic"));
                if !synced && held.is_empty() {
                    self.late.lock().expect("no panic").push(batch);
                    return self.inner.write(WriteBatch::new(), durability).await;
                }
                let first = self.inner.write(batch, Durability::Buffered).await;
                for batch in held {
                    self.inner.write(batch, Durability::Buffered).await?;
                }
                first?;
                self.inner.write(WriteBatch::new(), durability).await
            }
            Flaw::HalvesBatches => {
                let (mut first, mut second) = (WriteBatch::new(), WriteBatch::new());
                let half = batch.ops().len() / 2;
                for (at, op) in batch.into_ops().into_iter().enumerate() {
                    push(if at < half { &mut first } else { &mut second }, op);
                }
                self.inner.write(first, Durability::Buffered).await?;
                self.inner.write(second, durability).await
            }
            Flaw::SyncsAlone => {
                if synced {
                    let written = self.inner.write(batch, durability).await;
                    self.place_late();
                    return written;
                }
                self.late.lock().expect("no panic").push(batch);
                self.inner.write(WriteBatch::new(), durability).await
            }
            Flaw::RetriesSync => {
                self.inner.write(batch, Durability::Buffered).await?;
                match synced {
                    true if self.sync().await.is_err() => self.sync().await,
                    _ => Ok(()),
                }
            }
            Flaw::GoesOnAfterFailedWrite => {
                self.inner.get(Family::Meta, b"fuse")?;
                self.place(batch)?;
                match synced {
                    true => self.inner.write(WriteBatch::new(), durability).await,
                    false => Ok(()),
                }
            }
            Flaw::SwallowsFull => match self.inner.write(batch, durability).await {
                Err(StorageFault::Full { .. }) => Ok(()),
                written => written,
            },
            Flaw::DeletesRangeEnd => {
                let mut wrong = WriteBatch::new();
                for op in batch.into_ops() {
                    if let Op::DeleteRange { family, to, .. } = &op {
                        wrong.delete(*family, to.clone());
                    }
                    push(&mut wrong, op);
                }
                self.inner.write(wrong, durability).await
            }
        }
    }

    fn condemn(&self, fault: StorageFault) -> StorageFault {
        self.inner.condemn(fault)
    }

    fn failed(&self) -> impl Future<Output = StorageFault> + Send + 'static {
        self.inner.failed()
    }
}

fn push(batch: &mut WriteBatch, op: Op) {
    match op {
        Op::Put { family, key, value } => batch.put(family, key, value),
        Op::Delete { family, key } => batch.delete(family, key),
        Op::DeleteRange { family, from, to } => batch.delete_range(family, from, to),
    }
}

#[test]
fn every_broken_engine_is_caught() {
    let expected = [
        (Flaw::DropsSync, "synced_survives_power_loss"),
        (Flaw::AnswersBeforeSync, "acknowledged_only_after_sync"),
        (Flaw::Reorders, "power_loss_keeps_a_prefix"),
        (Flaw::HalvesBatches, "a_batch_is_whole"),
        (Flaw::SyncsAlone, "synced_covers_earlier_buffered"),
        (Flaw::RetriesSync, "a_failed_sync_is_final"),
        (Flaw::GoesOnAfterFailedWrite, "a_failed_write_is_final"),
        (Flaw::SwallowsFull, "a_full_disk_is_final"),
        (Flaw::DeletesRangeEnd, "ranges_are_half_open"),
    ];
    for (flaw, by) in expected {
        let failures = failures(|| MutantRig {
            flaw,
            disk: SimDisk::new(),
        });
        assert!(
            failures.iter().any(|(check, _)| *check == by),
            "{flaw:?} got by: {failures:?}"
        );
    }
}
