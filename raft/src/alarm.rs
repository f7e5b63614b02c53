//! What ends this process, and what only makes it stop signing. The first fatal cause stays.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::engine::StorageFault;
use crate::peers::PeerRow;

/// Why the process must exit non-zero. Nothing more is served, voted or acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FatalCause {
    /// The store has failed (D8, fault 8).
    #[error("storage: {0}")]
    Storage(StorageFault),
    /// A peer remembers more of this node than its disk holds (D9, fault 13).
    #[error("rolled_back: a peer remembers {0}")]
    RolledBack(PeerRow),
    /// The roster in force has other keys under this node's number.
    #[error("the roster in force names other keys for this node")]
    NotThisNode,
    /// openraft has stopped.
    #[error("consensus stopped: {0}")]
    Consensus(String),
}

/// The place where the first fatal cause is kept and awaited.
#[derive(Debug)]
pub struct Alarm {
    cause: watch::Sender<Option<FatalCause>>,
    /// Guards the first writer.
    first: Mutex<()>,
}

impl Default for Alarm {
    fn default() -> Self {
        Self {
            cause: watch::Sender::new(None),
            first: Mutex::new(()),
        }
    }
}

impl Alarm {
    /// Records `cause` unless another came first.
    pub fn raise(&self, cause: FatalCause) {
        let _guard = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if self.cause.borrow().is_none() {
            tracing::error!(%cause, "this node must stop");
            self.cause.send_replace(Some(cause));
        }
    }

    /// The cause, if there is one.
    pub fn cause(&self) -> Option<FatalCause> {
        self.cause.borrow().clone()
    }

    /// Resolves with the first cause.
    pub async fn raised(&self) -> FatalCause {
        let mut cause = self.cause.subscribe();
        loop {
            if let Some(cause) = cause.borrow_and_update().clone() {
                return cause;
            }
            // The sender lives in `self`, so this cannot fail while we wait.
            if cause.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn the_first_cause_stays_and_late_waiters_get_it() {
        let alarm = Alarm::default();
        assert_eq!(alarm.cause(), None);
        alarm.raise(FatalCause::Consensus("first".into()));
        alarm.raise(FatalCause::Consensus("second".into()));
        assert_eq!(
            block_on(alarm.raised()),
            FatalCause::Consensus("first".into())
        );
    }
}
