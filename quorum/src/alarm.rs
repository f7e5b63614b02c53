//! The one way in which a verifier must stop: a cause, raised once, seen by whoever runs the process.

use tokio::sync::watch;

/// Why a verifier must not go on. The process ends, and what is on disk decides the next start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FatalCause {
    /// Seats, pins or the organism epoch are others, or the key is void and another one is to be made: what is kept
    /// now is what the next start begins with.
    #[error(
        "the verifiers, their key or the organism epoch are others; the next start is under what is in force now"
    )]
    OtherTerms,
    /// Something could not be made durable.
    #[error("the store failed: {0}")]
    Storage(String),
    /// A fellow remembers a later boot of this verifier, or another one with this number (FAULTS 34).
    #[error(
        "{fellow} remembers boot {remembered} of this verifier, and this is boot {generation}: the store was rolled back or copied"
    )]
    RolledBack {
        /// Who remembers.
        fellow: String,
        /// Which boot.
        remembered: u64,
        /// This one.
        generation: u64,
    },
    /// The share in the store is not one of the key in force.
    #[error("the key share cannot be used: {0}")]
    Share(String),
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
                tracing::error!(%cause, "this verifier must stop");
                *raised = Some(cause);
            }
            first
        });
    }

    /// Whether it was raised.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.borrow().is_some()
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
