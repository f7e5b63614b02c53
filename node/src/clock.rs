//! Whether this node's clock is near state time (D7): judged when a tick moves state time, and only then.
//!
//! Between ticks state time stands still, so a difference says nothing. A clock that is off by more than
//! 2 s at a tick is not fit to cosign positive markers until a tick within the bound; if ticks go on to
//! show it for 10 s, the node reports `clock_unfit`. The clock decides nothing else.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redlatch_link::world::Monotonic;
use redlatch_raft::shared::WallClock;
use redlatch_types::TickNumber;
use redlatch_types::limits::{CLOCK_SKEW_MS_MAX, CLOCK_UNFIT_AFTER_MS};

/// The clock with what its ticks have shown.
#[derive(Debug)]
pub struct ClockFitness {
    clock: WallClock,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The tick that was judged last; 0 before the first.
    tick: TickNumber,
    /// Own clock minus state time at that tick.
    skew_ms: i64,
    /// Since when every tick was out of bounds.
    unfit_since: Option<Monotonic>,
    /// It was so for longer than the limit.
    reported: bool,
}

impl ClockFitness {
    /// A clock of which nothing is known: fit. `last` is the tick that was applied before this boot; how
    /// long ago that was says nothing about the clock.
    pub fn new(clock: WallClock, last: TickNumber) -> ClockFitness {
        let seen = Seen {
            tick: last,
            ..Seen::default()
        };
        ClockFitness {
            clock,
            seen: Mutex::new(seen),
        }
    }

    /// What the clock shows.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Judges the clock by the last tick, unless it was judged by it before. The genesis is no tick.
    pub fn judge(&self, tick: TickNumber, state_time_ms: u64) {
        let (now_ms, at) = (self.clock.now_ms(), Monotonic::now());
        self.judge_at(tick, state_time_ms, now_ms, at);
    }

    fn judge_at(&self, tick: TickNumber, state_time_ms: u64, now_ms: u64, at: Monotonic) {
        let mut seen = self.lock();
        if tick <= seen.tick {
            return;
        }
        seen.tick = tick;
        seen.skew_ms = difference(now_ms, state_time_ms);
        if seen.skew_ms.unsigned_abs() <= CLOCK_SKEW_MS_MAX {
            seen.unfit_since = None;
            seen.reported = false;
            return;
        }
        let since = *seen.unfit_since.get_or_insert(at);
        seen.reported = at.since(since) >= Duration::from_millis(CLOCK_UNFIT_AFTER_MS);
    }

    /// Whether the last tick was within the bound.
    pub fn is_fit(&self) -> bool {
        self.lock().unfit_since.is_none()
    }

    /// Whether `clock_unfit` is to be reported.
    pub fn is_reported(&self) -> bool {
        self.lock().reported
    }

    /// Own clock minus state time at the last tick, milliseconds.
    pub fn skew_ms(&self) -> i64 {
        self.lock().skew_ms
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // Plain values: a panic elsewhere leaves them usable.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn difference(a: u64, b: u64) -> i64 {
    let far = |span: u64| i64::try_from(span).unwrap_or(i64::MAX);
    if a >= b { far(a - b) } else { -far(b - a) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitness() -> ClockFitness {
        ClockFitness::new(WallClock::new(|| 0), TickNumber(0))
    }

    #[test]
    fn two_seconds_are_the_bound_on_both_sides() {
        let at = Monotonic::now();
        for (now_ms, fit) in [
            (12_000, true),
            (12_001, false),
            (8_000, true),
            (7_999, false),
        ] {
            let fitness = fitness();
            fitness.judge_at(TickNumber(1), 10_000, now_ms, at);
            assert_eq!(fitness.is_fit(), fit, "{now_ms}");
        }
    }

    #[test]
    fn reported_after_ten_seconds_and_repaired_by_one_good_tick() {
        let fitness = fitness();
        let begun = Monotonic::now();
        let later = begun.plus(Duration::from_millis(CLOCK_UNFIT_AFTER_MS));
        fitness.judge_at(TickNumber(1), 10_000, 0, begun);
        assert!(!fitness.is_fit() && !fitness.is_reported());
        fitness.judge_at(TickNumber(2), 20_000, 0, later);
        assert!(fitness.is_reported());
        fitness.judge_at(TickNumber(3), 21_000, 21_000, later);
        assert!(fitness.is_fit() && !fitness.is_reported());
    }

    #[test]
    fn a_tick_from_before_this_boot_says_nothing() {
        let fitness = ClockFitness::new(WallClock::new(|| 0), TickNumber(7));
        fitness.judge(TickNumber(7), 10_000);
        assert!(fitness.is_fit());
        fitness.judge(TickNumber(8), 10_000);
        assert!(!fitness.is_fit());
    }

    #[test]
    fn the_genesis_and_a_repeat_say_nothing() {
        let fitness = fitness();
        let at = Monotonic::now();
        fitness.judge_at(TickNumber(0), 10_000, 99_000, at);
        fitness.judge_at(TickNumber(1), 10_000, 10_000, at);
        fitness.judge_at(TickNumber(1), 10_000, 99_000, at);
        assert!(fitness.is_fit());
    }
}
