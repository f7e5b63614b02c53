//! The one way in which a sentinel must stop: a cause, raised once, seen by whoever runs the process.

use tokio::sync::watch;

/// Why a sentinel must not go on. The process ends, and what is on disk decides the next start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FatalCause {
    /// Something could not be made durable.
    #[error("the store failed: {0}")]
    Storage(String),
    /// Another process has opened the outbox since this one did (FAULTS 55).
    #[error("another process writes this outbox")]
    AnotherWriter,
    /// Pins and the organism epoch are others: what is kept now is what the next start begins with.
    #[error("the offline root has acted; the next start is under what is in force now")]
    RootActed,
}

/// Raises the cause. Clones raise the same one.
#[derive(Clone)]
pub(crate) struct Alarm(watch::Sender<Option<FatalCause>>);

impl Alarm {
    pub(crate) fn new() -> Alarm {
        Alarm(watch::Sender::new(None))
    }

    /// The first cause stays.
    pub(crate) fn raise(&self, cause: FatalCause) {
        self.0.send_if_modified(|raised| {
            let first = raised.is_none();
            if first {
                tracing::error!(%cause, "this sentinel must stop");
                *raised = Some(cause);
            }
            first
        });
    }

    /// Resolves once it is raised.
    pub(crate) async fn raised(&self) -> FatalCause {
        let mut seen = self.0.subscribe();
        loop {
            if let Some(cause) = seen.borrow_and_update().clone() {
                return cause;
            }
            if seen.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
