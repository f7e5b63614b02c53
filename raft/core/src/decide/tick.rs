//! Ticks: state time from a majority's clocks (DESIGN D7).

use std::collections::BTreeSet;

use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::ClockReadingV1;
use redlatch_types::{Refusal, Signed, TickNumber};

use super::{Decision, governance, in_scope};
use crate::authority::Authority;

/// State time becomes max(previous, the (f+1)-th largest reading) with f = (n-1)/2, so it never
/// goes back and never runs ahead of every honest clock.
pub(super) fn tick(
    state: &Authority,
    number: TickNumber,
    readings: &[Signed<ClockReadingV1>],
) -> Decision {
    let governance = governance(state)?;
    if number != state.clock.tick.next() {
        return Err(Refusal::WrongState);
    }
    let mut seen = BTreeSet::new();
    let mut clocks = Vec::new();
    for reading in readings {
        in_scope(governance, reading.scope())?;
        let voter = governance
            .roster
            .voter_by_record_key(reading.key())
            .ok_or(Refusal::Unauthorized)?;
        let record = reading.record();
        let fits = record.node_id == voter.node_id
            && record.roster_epoch == governance.roster.roster_epoch
            && record.previous_tick == state.clock.tick;
        if !fits || !seen.insert(voter.node_id) {
            return Err(Refusal::TimeStale);
        }
        clocks.push(record.clock_ms);
    }
    if clocks.len() < governance.roster.majority() {
        return Err(Refusal::TimeStale);
    }
    let time = state_time(
        state.clock.state_time,
        governance.roster.voters().count(),
        clocks,
    );
    let envelopes = readings.iter().map(|r| r.envelope().clone()).collect();
    Ok((
        vec![Event::Ticked(number, time, envelopes)],
        Accepted::Ticked(number, time),
    ))
}

/// The rule of D7. `clocks` has at least a majority of `voters` entries.
fn state_time(previous: u64, voters: usize, mut clocks: Vec<u64>) -> u64 {
    clocks.sort_unstable_by(|a, b| b.cmp(a));
    let tolerated = (voters - 1) / 2;
    clocks
        .get(tolerated)
        .map_or(previous, |reading| previous.max(*reading))
}

#[cfg(test)]
mod tests {
    use super::state_time;

    #[test]
    fn one_of_three_clocks_cannot_move_time_ahead_of_the_honest_ones() {
        assert_eq!(state_time(0, 3, vec![100, 101, u64::MAX]), 101);
        assert_eq!(state_time(0, 3, vec![100, u64::MAX]), 100);
        assert_eq!(
            state_time(0, 5, vec![100, 101, 102, u64::MAX, u64::MAX]),
            102
        );
    }

    #[test]
    fn fault_073_time_never_goes_back() {
        assert_eq!(state_time(500, 3, vec![1, 2, 3]), 500);
    }
}
