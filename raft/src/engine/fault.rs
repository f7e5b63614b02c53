//! What a store can die of, and the fuse that makes the first such fault final.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;

/// Why the store cannot be used, named by what failed. Every one of them is fatal for the process
/// that met it: nothing is retried (D8).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageFault {
    /// The operating system refused a read, a write or a sync.
    #[error("the disk failed while {during}: {detail}")]
    Io {
        /// What the store was doing.
        during: &'static str,
        /// The system's or the engine's own words.
        detail: String,
    },
    /// What is on the disk is not what was written there.
    #[error("the store is damaged ({what}): {detail}")]
    Corrupt {
        /// The record or file.
        what: String,
        /// How it was noticed.
        detail: String,
    },
    /// The volume has no room left.
    #[error("the volume of the store is full: {detail}")]
    Full {
        /// What did not fit.
        detail: String,
    },
    /// Another process has the store open.
    #[error("the store at {path} is open in another process")]
    Locked {
        /// The data directory.
        path: String,
    },
    /// A later release wrote the store in a way this one cannot read.
    #[error("the store needs a reader of format {needed}, this release reads up to {readable}")]
    NewerFormat {
        /// The oldest format number a reader must know.
        needed: u32,
        /// The newest format number this release knows.
        readable: u32,
    },
    /// An earlier release wrote the store in a way this one no longer reads.
    #[error("the store has format {found}, this release reads from {readable} on")]
    OlderFormat {
        /// The format number in the store.
        found: u32,
        /// The oldest format number this release reads.
        readable: u32,
    },
    /// The caller broke the order the store exists to keep: a vote that regresses, an append that
    /// would leave a hole. Ours to fix; nothing was written.
    #[error("the store was asked for what must never be: {detail}")]
    OutOfOrder {
        /// What was asked.
        detail: String,
    },
    /// An earlier fault of the same store; nothing was tried.
    #[error("the store has stopped after: {first}")]
    Stopped {
        /// The fault that stopped it.
        first: Box<StorageFault>,
    },
}

impl StorageFault {
    /// The fault that came first: the one to report.
    pub fn first(&self) -> &StorageFault {
        match self {
            StorageFault::Stopped { first } => first.first(),
            fault => fault,
        }
    }
}

impl From<StorageFault> for std::io::Error {
    fn from(fault: StorageFault) -> Self {
        let kind = match fault.first() {
            StorageFault::Full { .. } => std::io::ErrorKind::StorageFull,
            StorageFault::Corrupt { .. } => std::io::ErrorKind::InvalidData,
            StorageFault::Locked { .. } => std::io::ErrorKind::ResourceBusy,
            _ => std::io::ErrorKind::Other,
        };
        std::io::Error::new(kind, fault)
    }
}

/// Blows at the first fault and stays blown. Without it a second fsync may report success for
/// pages the kernel has thrown away after the first one failed (fault 8).
#[derive(Debug, Default)]
pub struct Fuse {
    state: Mutex<FuseState>,
}

#[derive(Debug, Default)]
struct FuseState {
    first: Option<StorageFault>,
    waiting: Vec<oneshot::Sender<StorageFault>>,
}

impl Fuse {
    /// An intact fuse.
    pub fn new() -> Self {
        Self::default()
    }

    /// `Ok` as long as nothing has failed.
    ///
    /// # Errors
    /// [`StorageFault::Stopped`] with the first fault.
    pub fn check(&self) -> Result<(), StorageFault> {
        match &self.lock().first {
            None => Ok(()),
            Some(first) => Err(StorageFault::Stopped {
                first: Box::new(first.clone()),
            }),
        }
    }

    /// Records `fault` if it is the first, wakes whoever waits, and hands the fault back for the
    /// caller to return.
    pub fn blow(&self, fault: StorageFault) -> StorageFault {
        let mut state = self.lock();
        if state.first.is_none() {
            state.first = Some(fault.first().clone());
            for waiter in state.waiting.drain(..) {
                // A waiter that has gone away needs no answer.
                let _ = waiter.send(fault.first().clone());
            }
        }
        fault
    }

    /// Resolves with the first fault. If the store is dropped without one, it never resolves.
    pub fn blown(&self) -> impl Future<Output = StorageFault> + Send + use<> {
        let (tx, rx) = oneshot::channel();
        let mut state = self.lock();
        match &state.first {
            Some(first) => {
                let _ = tx.send(first.clone());
            }
            None => {
                state.waiting.retain(|waiter| !waiter.is_closed());
                state.waiting.push(tx);
            }
        }
        async move {
            match rx.await {
                Ok(fault) => fault,
                Err(_) => std::future::pending().await,
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FuseState> {
        // The state is a plain value: a panic elsewhere cannot leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::executor::block_on;

    use super::*;

    fn fault(detail: &str) -> StorageFault {
        StorageFault::Io {
            during: "testing",
            detail: detail.into(),
        }
    }

    #[test]
    fn the_first_fault_is_the_one_that_stays() {
        let fuse = Fuse::new();
        assert_eq!(fuse.check(), Ok(()));
        fuse.blow(fault("first"));
        fuse.blow(fault("second"));
        let stopped = fuse.check().expect_err("blown");
        assert_eq!(stopped.first(), &fault("first"));
        assert_eq!(block_on(fuse.blown()), fault("first"));
    }

    #[test]
    fn a_waiter_is_woken_by_the_fault_and_not_before() {
        let fuse = Fuse::new();
        let mut waiter = Box::pin(fuse.blown());
        assert_eq!((&mut waiter).now_or_never(), None);
        fuse.blow(fault("first"));
        assert_eq!(block_on(waiter), fault("first"));
    }
}
