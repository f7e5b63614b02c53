//! What goes wrong, as values: drawn from the seed, written into the trace, then carried out by the world.
//!
//! Drawing decides what is tried; whether it makes sense at that moment (a node that is down cannot be
//! paused) the world says. A majority is kept apart only for a while: liveness is judged after the faults.

use std::fmt;

use crate::organism::NODES;
use crate::seed::Draws;

/// Something that goes wrong, or ends going wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL: the operating system lives, written pages stay.
    Kill(u64),
    /// Power loss on one node; so many of the oldest unsynced writes have reached the platter.
    PowerLoss(u64, usize),
    /// Power loss everywhere at once, with so many writes kept on each.
    PowerLossEverywhere(usize),
    /// Every node that is down starts.
    StartAll,
    /// One node hears nobody and nobody hears it, its peers alone.
    Isolate(u64),
    /// Messages from the first to the second get lost.
    OneWay(u64, u64),
    /// The network is whole again.
    Heal,
    /// The process stands still.
    Pause(u64),
    /// Processes that stand still go on.
    ResumeAll,
    /// Its fsyncs take up to so many milliseconds.
    SlowDisk(u64, u64),
    /// Its next fsync fails with EIO.
    FailedSync(u64),
    /// Its clock is ahead by so many milliseconds.
    Clock(u64, i64),
    /// Messages take up to so many milliseconds.
    SlowNetwork(u64),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Kill(node) => write!(f, "kill n{node}"),
            Fault::PowerLoss(node, keep) => write!(f, "power loss n{node} keeping {keep}"),
            Fault::PowerLossEverywhere(keep) => write!(f, "power loss everywhere keeping {keep}"),
            Fault::StartAll => f.write_str("start all"),
            Fault::Isolate(node) => write!(f, "isolate n{node}"),
            Fault::OneWay(from, to) => write!(f, "one way n{from} to n{to}"),
            Fault::Heal => f.write_str("heal"),
            Fault::Pause(node) => write!(f, "pause n{node}"),
            Fault::ResumeAll => f.write_str("resume all"),
            Fault::SlowDisk(node, ms) => write!(f, "disk of n{node} takes {ms} ms"),
            Fault::FailedSync(node) => write!(f, "next fsync of n{node} fails"),
            Fault::Clock(node, ms) => write!(f, "clock of n{node} is ahead by {ms} ms"),
            Fault::SlowNetwork(ms) => write!(f, "messages take {ms} ms"),
        }
    }
}

/// Draws what a kind of fault leaves open.
type Make = fn(&mut Draws) -> Fault;

/// Weights of the mix: repairs outweigh single faults, so that a run spends time in every state between.
const WEIGHTS: [(u64, Make); 13] = [
    (8, |draws| Fault::Kill(node(draws))),
    (6, |draws| Fault::PowerLoss(node(draws), kept(draws))),
    (4, |draws| Fault::PowerLossEverywhere(kept(draws))),
    (22, |_| Fault::StartAll),
    (8, |draws| Fault::Isolate(node(draws))),
    (6, |draws| one_way(draws)),
    (16, |_| Fault::Heal),
    (4, |draws| Fault::Pause(node(draws))),
    (8, |_| Fault::ResumeAll),
    (6, |draws| {
        Fault::SlowDisk(node(draws), draws.between(1, 120))
    }),
    (3, |draws| Fault::FailedSync(node(draws))),
    (4, |draws| clock(draws)),
    (5, |draws| Fault::SlowNetwork(draws.between(2, 60))),
];

/// Draws the next fault.
pub fn draw(draws: &mut Draws) -> Fault {
    let total = WEIGHTS.iter().map(|(weight, _)| weight).sum();
    let mut left = draws.below(total);
    for (weight, make) in WEIGHTS {
        if left < weight {
            return make(draws);
        }
        left -= weight;
    }
    Fault::Heal
}

fn node(draws: &mut Draws) -> u64 {
    draws.between(1, NODES + 1)
}

fn kept(draws: &mut Draws) -> usize {
    usize::try_from(draws.below(6)).unwrap_or_default()
}

fn one_way(draws: &mut Draws) -> Fault {
    let from = node(draws);
    let to = (from + draws.between(1, NODES) - 1) % NODES + 1;
    Fault::OneWay(from, to)
}

/// Mostly small, sometimes an hour; back or ahead, or right again.
fn clock(draws: &mut Draws) -> Fault {
    let node = node(draws);
    let bound = if draws.percent(30) { 3_600_000 } else { 4_000 };
    let ahead = i64::try_from(draws.below(bound)).unwrap_or_default();
    match draws.below(3) {
        0 => Fault::Clock(node, ahead),
        1 => Fault::Clock(node, -ahead),
        _ => Fault::Clock(node, 0),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::seed::Seed;

    #[test]
    fn every_kind_is_drawn_and_names_real_nodes() {
        let mut draws = Seed(5).draws("faults");
        let mut kinds = BTreeSet::new();
        for _ in 0..2_000 {
            let fault = draw(&mut draws);
            if let Fault::OneWay(from, to) = fault {
                assert!(from != to && (1..=NODES).contains(&to), "{fault}");
            }
            let words = fault.to_string();
            kinds.insert(
                words
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        let all = [
            "clock", "disk", "heal", "isolate", "kill", "messages", "next", "one", "pause",
            "power", "resume", "start",
        ];
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
    }
}
