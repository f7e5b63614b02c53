//! Clocks of simulated processes that are wrong: ahead or behind, too fast or too slow.
//!
//! ```text
//!   set_clock(process, ahead, percent) ─▶ wall: the true time and what it is ahead
//!                                      └▶ monotonic, and every wait: so many percent of true speed, never back
//! ```
//!
//! A process that was never set has the simulation's own clock. What is told to one process changes nothing
//! for another, and nothing of the order in which the simulation runs its tasks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use madsim::task::NodeId;

thread_local! {
    static CLOCKS: RefCell<BTreeMap<NodeId, Clock>> = const { RefCell::new(BTreeMap::new()) };
}

/// One wrong clock.
#[derive(Clone, Copy)]
struct Clock {
    ahead_ms: i64,
    percent: u32,
    /// When it got this speed, by the true clock.
    since: Instant,
    /// What it showed then.
    shown: Instant,
}

impl Clock {
    fn monotonic(&self, now: Instant) -> Instant {
        let passed = now.saturating_duration_since(self.since);
        self.shown + passed * self.percent / 100
    }
}

/// Sets the clock of a simulated process: milliseconds that its wall clock is ahead, and its speed in percent
/// of the true one, at least 1.
pub fn set_clock(process: NodeId, ahead_ms: i64, percent: u32) {
    let now = Instant::now();
    CLOCKS.with_borrow_mut(|clocks| {
        let shown = clocks.get(&process).map_or(now, |it| it.monotonic(now));
        let clock = Clock {
            ahead_ms,
            percent: percent.max(1),
            since: now,
            shown,
        };
        clocks.insert(process, clock);
    });
}

/// The clock of the process that asks, if it is a wrong one.
fn own() -> Option<Clock> {
    CLOCKS.with_borrow(|clocks| {
        // Without a wrong clock nobody has to say who asks, which only a task can.
        let any = !clocks.is_empty();
        any.then(|| clocks.get(&madsim::plugin::node()).copied())
            .flatten()
    })
}

/// What the process takes for the wall time.
pub(super) fn wall(true_ms: u64) -> u64 {
    own().map_or(true_ms, |it| true_ms.saturating_add_signed(it.ahead_ms))
}

/// What its monotonic clock shows.
pub(super) fn monotonic(now: Instant) -> Instant {
    own().map_or(now, |it| it.monotonic(now))
}

/// How long it really waits if it wants to wait for `span`.
pub(super) fn wait(span: Duration) -> Duration {
    own().map_or(span, |it| {
        span.checked_mul(100)
            .map_or(Duration::MAX, |long| long / it.percent)
    })
}

#[cfg(test)]
mod tests {
    use madsim::runtime::Runtime;

    use super::super::{Monotonic, now_unix_ms, sleep};
    use super::*;

    #[test]
    fn a_wrong_clock_is_one_processs_own_and_never_goes_back() {
        Runtime::new().block_on(async {
            let handle = madsim::runtime::Handle::current();
            let process = handle.create_node().build();
            set_clock(process.id(), -60_000, 50);
            let (began, wall) = (Monotonic::now(), now_unix_ms());
            let theirs = process.spawn(async move {
                let begun = Monotonic::now();
                let behind = wall.saturating_sub(now_unix_ms());
                sleep(Duration::from_secs(4)).await;
                (begun, begun.elapsed(), behind)
            });
            let (begun, elapsed, behind) = theirs.await.expect("it runs to its end");
            assert!(elapsed >= Duration::from_secs(4) && elapsed < Duration::from_millis(4_050));
            assert!(began.elapsed() >= Duration::from_secs(8), "it is slow");
            assert!(behind > 59_000, "its wall clock is behind");
            set_clock(process.id(), 0, 100);
            let later = process.spawn(async { Monotonic::now() });
            let later = later.await.expect("it runs to its end");
            assert!(later.since(begun) >= elapsed, "it went back");
        });
    }
}
