//! The asynchronous runtime openraft runs on: tokio in a real process, madsim's scheduler and
//! clock in a simulated one.
//!
//! It does not choose the world: `--cfg madsim` does. Nothing outside this file and `config.rs`
//! meets openraft's runtime types.

#[cfg(not(madsim))]
pub use openraft::TokioRuntime as Runtime;
#[cfg(madsim)]
pub use simulated::SimulatedRuntime as Runtime;

#[cfg(madsim)]
mod simulated {
    use std::fmt;
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Mutex;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use openraft::async_runtime::AsyncOneshotSendExt;
    use openraft::{AsyncRuntime, OptionalSend};

    /// openraft's runtime over madsim: spawns, timers and randomness all come from the seed.
    #[derive(Debug, Default, PartialEq, Eq)]
    pub struct SimulatedRuntime;

    /// A point of simulated monotonic time. A newtype because openraft implements its `Instant`
    /// for tokio's type only.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct SimulatedInstant(std::time::Instant);

    impl std::ops::Add<Duration> for SimulatedInstant {
        type Output = Self;
        fn add(self, duration: Duration) -> Self {
            Self(self.0 + duration)
        }
    }
    impl std::ops::AddAssign<Duration> for SimulatedInstant {
        fn add_assign(&mut self, duration: Duration) {
            self.0 += duration;
        }
    }
    impl std::ops::Sub<Duration> for SimulatedInstant {
        type Output = Self;
        fn sub(self, duration: Duration) -> Self {
            Self(self.0 - duration)
        }
    }
    impl std::ops::Sub<SimulatedInstant> for SimulatedInstant {
        type Output = Duration;
        fn sub(self, earlier: Self) -> Duration {
            self.0.saturating_duration_since(earlier.0)
        }
    }
    impl std::ops::SubAssign<Duration> for SimulatedInstant {
        fn sub_assign(&mut self, duration: Duration) {
            self.0 -= duration;
        }
    }
    impl openraft::Instant for SimulatedInstant {
        fn now() -> Self {
            // madsim answers clock_gettime, so this is simulated time.
            Self(std::time::Instant::now())
        }
    }

    pin_project_lite::pin_project! {
        /// A future with a deadline; madsim's own `timeout` has no type that can be named.
        pub struct Deadline<F> {
            #[pin]
            future: F,
            #[pin]
            sleep: madsim::time::Sleep,
        }
    }

    impl<F: Future> Future for Deadline<F> {
        type Output = Result<F::Output, madsim::time::error::Elapsed>;

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            let this = self.project();
            if let Poll::Ready(output) = this.future.poll(context) {
                return Poll::Ready(Ok(output));
            }
            this.sleep
                .poll(context)
                .map(|()| Err(madsim::time::error::Elapsed))
        }
    }

    /// The sending half of a oneshot channel, with the `Debug` openraft asks for.
    pub struct OneshotSender<T>(tokio::sync::oneshot::Sender<T>);

    impl<T> fmt::Debug for OneshotSender<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("OneshotSender")
        }
    }
    impl<T: OptionalSend> AsyncOneshotSendExt<T> for OneshotSender<T> {
        fn send(self, value: T) -> Result<(), T> {
            self.0.send(value)
        }
    }

    /// A join handle that is `Sync`, as openraft asks: the mutex is only ever reached through
    /// `&mut`, so it is never locked.
    pub struct JoinHandle<T>(Mutex<madsim::task::JoinHandle<T>>);

    impl<T> Unpin for JoinHandle<T> {}

    impl<T> Future for JoinHandle<T> {
        type Output = Result<T, madsim::task::JoinError>;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            let handle = self
                .0
                .get_mut()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            Pin::new(handle).poll(context)
        }
    }

    impl AsyncRuntime for SimulatedRuntime {
        type JoinError = madsim::task::JoinError;
        type JoinHandle<T: OptionalSend + 'static> = JoinHandle<T>;
        type Sleep = madsim::time::Sleep;
        type Instant = SimulatedInstant;
        type TimeoutError = madsim::time::error::Elapsed;
        type Timeout<R, T: Future<Output = R> + OptionalSend> = Deadline<T>;
        type ThreadLocalRng = madsim::rand::GlobalRng;
        type OneshotSender<T: OptionalSend> = OneshotSender<T>;
        type OneshotReceiver<T: OptionalSend> = tokio::sync::oneshot::Receiver<T>;
        type OneshotReceiverError = tokio::sync::oneshot::error::RecvError;

        fn spawn<T>(future: T) -> JoinHandle<T::Output>
        where
            T: Future + OptionalSend + 'static,
            T::Output: OptionalSend + 'static,
        {
            JoinHandle(Mutex::new(madsim::task::spawn(future)))
        }

        fn sleep(duration: Duration) -> Self::Sleep {
            madsim::time::sleep(duration)
        }

        fn sleep_until(deadline: SimulatedInstant) -> Self::Sleep {
            madsim::time::sleep_until(deadline.0)
        }

        fn timeout<R, F: Future<Output = R> + OptionalSend>(
            duration: Duration,
            future: F,
        ) -> Deadline<F> {
            Deadline {
                future,
                sleep: madsim::time::sleep(duration),
            }
        }

        fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
            deadline: SimulatedInstant,
            future: F,
        ) -> Deadline<F> {
            Deadline {
                future,
                sleep: madsim::time::sleep_until(deadline.0),
            }
        }

        fn is_panic(error: &Self::JoinError) -> bool {
            error.is_panic()
        }

        fn thread_rng() -> Self::ThreadLocalRng {
            madsim::rand::thread_rng()
        }

        fn oneshot<T>() -> (OneshotSender<T>, Self::OneshotReceiver<T>)
        where
            T: OptionalSend,
        {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            (OneshotSender(sender), receiver)
        }
    }
}
