//! What goes wrong with verifiers, sentinel and actuator, as values: drawn from the seed, written into the
//! trace, then carried out by [`crate::parties`].
//!
//! What goes wrong with nodes is in [`crate::faults`]. A disk that goes back in time is no part of the mix: a
//! party that has noticed it does not come back, so that is a story of its own.

use std::fmt;

use crate::organism::{ACTUATOR, NODES, SENTINEL, VERIFIERS};
use crate::seed::Draws;

/// The name of a party.
pub type Party = &'static str;

/// Something that goes wrong with a party, or ends going wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartyFault {
    /// SIGKILL and power loss at once.
    Kill(Party),
    /// Every party that is down starts.
    StartAll,
    /// The process stands still.
    Pause(Party),
    /// Processes that stand still go on.
    ResumeAll,
    /// It and this node hear each other no more.
    Cut(Party, u64),
    /// It and all nodes hear each other no more.
    CutOff(Party),
    /// It and this other party hear each other no more.
    Apart(Party, Party),
    /// It hears nothing of this node, which still hears it.
    Deaf(Party, u64),
    /// Everybody hears everybody.
    Heal,
    /// Its wall clock is ahead by so many milliseconds, and its clock runs at so many percent of true speed.
    Clock(Party, i64, u32),
    /// Its next fsync fails with EIO.
    FailedSync(Party),
}

impl fmt::Display for PartyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartyFault::Kill(who) => write!(f, "kill {who}"),
            PartyFault::StartAll => f.write_str("start all parties"),
            PartyFault::Pause(who) => write!(f, "pause {who}"),
            PartyFault::ResumeAll => f.write_str("resume all parties"),
            PartyFault::Cut(who, node) => write!(f, "cut {who} from n{node}"),
            PartyFault::CutOff(who) => write!(f, "cut {who} from all nodes"),
            PartyFault::Apart(one, other) => write!(f, "part {one} and {other}"),
            PartyFault::Deaf(who, node) => write!(f, "one way {who} to n{node}"),
            PartyFault::Heal => f.write_str("heal the parties' links"),
            PartyFault::Clock(who, ahead, percent) => {
                write!(
                    f,
                    "clock of {who} is ahead by {ahead} ms and runs at {percent} %"
                )
            }
            PartyFault::FailedSync(who) => write!(f, "next fsync of {who} fails"),
        }
    }
}

/// Every party of an organism.
pub fn everybody() -> [Party; 6] {
    let [va, vb, vc, vd] = VERIFIERS.map(|it| it.0);
    [va, vb, vc, vd, SENTINEL, ACTUATOR]
}

/// Draws what a kind of fault leaves open.
type Make = fn(&mut Draws) -> PartyFault;

/// Weights of the mix: repairs outweigh single faults, so that decisions are begun, broken off and gone on with.
const WEIGHTS: [(u64, Make); 11] = [
    (14, |draws| PartyFault::Kill(party(draws))),
    (20, |_| PartyFault::StartAll),
    (6, |draws| PartyFault::Pause(party(draws))),
    (10, |_| PartyFault::ResumeAll),
    (6, |draws| PartyFault::Cut(party(draws), node(draws))),
    (4, |draws| PartyFault::CutOff(party(draws))),
    (5, apart),
    (4, |draws| PartyFault::Deaf(party(draws), node(draws))),
    (14, |_| PartyFault::Heal),
    (6, clock),
    (3, |draws| PartyFault::FailedSync(party(draws))),
];

/// Draws the next fault.
pub fn draw(draws: &mut Draws) -> PartyFault {
    let total = WEIGHTS.iter().map(|(weight, _)| weight).sum();
    let mut left = draws.below(total);
    for (weight, make) in WEIGHTS {
        if left < weight {
            return make(draws);
        }
        left -= weight;
    }
    PartyFault::Heal
}

fn party(draws: &mut Draws) -> Party {
    draws.one_of(&everybody()).unwrap_or(SENTINEL)
}

fn node(draws: &mut Draws) -> u64 {
    draws.between(1, NODES + 1)
}

fn apart(draws: &mut Draws) -> PartyFault {
    let one = party(draws);
    let others: Vec<Party> = everybody().into_iter().filter(|it| *it != one).collect();
    PartyFault::Apart(one, draws.one_of(&others).unwrap_or(one))
}

/// A wall clock that is right or wrong by up to an hour, at half to twice the true speed.
fn clock(draws: &mut Draws) -> PartyFault {
    let who = party(draws);
    let ahead = i64::try_from(draws.below(7_200_000)).unwrap_or_default() - 3_600_000;
    let percent = [50, 80, 100, 120, 200];
    match draws.below(3) {
        0 => PartyFault::Clock(who, 0, 100),
        _ => PartyFault::Clock(who, ahead, draws.one_of(&percent).unwrap_or(100)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::seed::Seed;

    #[test]
    fn every_kind_is_drawn_for_everybody() {
        let mut draws = Seed(5).draws("party faults");
        let (mut kinds, mut killed) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..3_000 {
            let fault = draw(&mut draws);
            match fault {
                PartyFault::Apart(one, other) => assert_ne!(one, other),
                PartyFault::Cut(_, node) | PartyFault::Deaf(_, node) => {
                    assert!((1..=NODES).contains(&node), "{fault}");
                }
                PartyFault::Kill(who) => {
                    killed.insert(who);
                }
                _ => {}
            }
            let words = fault.to_string();
            kinds.insert(
                words
                    .split(' ')
                    .filter(|it| !everybody().contains(it))
                    .take(3)
                    .collect::<String>(),
            );
        }
        assert!(kinds.len() >= WEIGHTS.len(), "{kinds:?}");
        assert_eq!(killed, everybody().into_iter().collect());
    }
}
