//! The world outside a core: clock, tasks, randomness, signals. Real, or simulated under `--cfg madsim`.
//!
//! ```text
//!               real                         simulated
//!  now_unix_ms  the system's clock           the simulated process's clock, which can be wrong
//!  spawn …      tokio                        madsim (through the same names)
//!  blocking     a thread for blocking work   inline
//!  rng          ChaCha20 from the system     ChaCha20 from the simulation's seed
//! ```
//!
//! Cores take time and randomness as arguments; only shells call this module. The wall clock decides
//! nothing by itself (D7): it is an input to signed readings, logs and certificate checks.

#[cfg(madsim)]
mod skewed;

use std::future::Future;
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
#[cfg(madsim)]
pub use skewed::set_clock;
pub use tokio::task::JoinHandle;

/// Milliseconds since 1970-01-01 UTC by this process's clock; 0 if the clock stands before that.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place where wall time is read"
)]
pub fn now_unix_ms() -> u64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
    #[cfg(madsim)]
    let now = skewed::wall(now);
    now
}

/// A point on this process's monotonic clock. It means nothing to another process or after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monotonic(std::time::Instant);

impl Monotonic {
    /// Now.
    pub fn now() -> Monotonic {
        let now = std::time::Instant::now();
        #[cfg(madsim)]
        let now = skewed::monotonic(now);
        Monotonic(now)
    }

    /// How long ago this was; zero for a point in the future.
    pub fn elapsed(self) -> Duration {
        Monotonic::now().since(self)
    }

    /// From `earlier` to this; zero if it was not earlier.
    pub fn since(self, earlier: Monotonic) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// The point `span` later; this one if the clock does not reach that far.
    #[must_use]
    pub fn plus(self, span: Duration) -> Monotonic {
        Monotonic(self.0.checked_add(span).unwrap_or(self.0))
    }
}

/// The deadline passed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("deadline passed")]
pub struct DeadlinePassed;

/// Runs a future as a task of this process.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future)
}

/// Waits.
pub async fn sleep(span: Duration) {
    #[cfg(madsim)]
    let span = skewed::wait(span);
    tokio::time::sleep(span).await;
}

/// Waits until a point of the monotonic clock.
pub async fn sleep_until(at: Monotonic) {
    sleep(at.since(Monotonic::now())).await;
}

/// Waits for a future at most so long.
///
/// # Errors
/// [`DeadlinePassed`]; the future is dropped.
pub async fn timeout<F: Future>(span: Duration, future: F) -> Result<F::Output, DeadlinePassed> {
    #[cfg(madsim)]
    let span = skewed::wait(span);
    tokio::time::timeout(span, future)
        .await
        .map_err(|_| DeadlinePassed)
}

/// Runs work that waits for a disk, apart from the threads that run tasks.
///
/// A panic in the work goes on in the caller. Under simulation it runs in place.
pub async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    #[cfg(madsim)]
    return work();
    #[cfg(not(madsim))]
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only a runtime that is shutting down cancels; nothing waits for the value any more.
            Err(_) => std::future::pending().await,
        },
    }
}

/// The process's source of randomness. Called once, in `main`; everything else takes `&mut impl RngCore + CryptoRng`.
///
/// # Panics
/// If the system has no randomness: nothing that follows could be safe.
#[cfg(not(madsim))]
pub fn rng() -> ChaCha20Rng {
    use rand_core::SeedableRng;
    ChaCha20Rng::from_rng(rand_core::OsRng).expect("the system has a source of randomness")
}

/// The simulated process's source of randomness: drawn from the simulation's seed.
#[cfg(madsim)]
pub fn rng() -> ChaCha20Rng {
    use madsim::rand::RngCore;
    use rand_core::SeedableRng;
    let mut seed = [0; 32];
    madsim::rand::thread_rng().fill_bytes(&mut seed);
    ChaCha20Rng::from_seed(seed)
}

/// Returns when the process is asked to stop: SIGTERM or SIGINT; under simulation, its ctrl-c.
pub async fn stop_signal() {
    #[cfg(not(madsim))]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // Without a handler the signal's default action ends the process, which is a stop as well.
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                biased;
                _ = terminate.recv() => return,
                _ = tokio::signal::ctrl_c() => return,
            }
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

#[cfg(all(test, not(madsim)))]
mod tests {
    use rand_core::RngCore;

    use super::*;

    #[test]
    fn two_sources_of_randomness_differ() {
        assert_ne!(rng().next_u64(), rng().next_u64());
    }

    #[test]
    fn the_wall_clock_is_after_this_was_written() {
        assert!(now_unix_ms() > 1_700_000_000_000);
    }

    #[test]
    fn monotonic_arithmetic_never_wraps() {
        let now = Monotonic::now();
        let later = now.plus(Duration::from_secs(1));
        assert_eq!(later.since(now), Duration::from_secs(1));
        assert_eq!(now.since(later), Duration::ZERO);
        assert_eq!(now.plus(Duration::MAX), now);
    }

    #[tokio::test]
    async fn a_deadline_drops_what_is_late() {
        assert_eq!(
            timeout(Duration::ZERO, std::future::pending::<()>()).await,
            Err(DeadlinePassed)
        );
        assert_eq!(timeout(Duration::from_secs(60), async { 7 }).await, Ok(7));
    }

    #[tokio::test]
    async fn blocking_work_gives_its_value() {
        assert_eq!(blocking(|| 40 + 2).await, 42);
    }
}
