//! `vote_monotone`: a vote on disk never goes back, and is given to one candidate a term. Raft §3.3;
//! faults 1, 5, 13 and 14.
//!
//! In one term a candidate's vote may be overridden by that of the candidate who *won*; nothing else. A
//! vote whose write was never answered may be found after a crash or not: only answered ones count. A disk
//! that was replaced by an older or an empty one votes no more.

use super::Invariant;
use crate::history::{DiskEvent, History, VoteSeen};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "vote_monotone",
    statement: "a stored vote never regresses, power loss included, and a replaced disk casts none",
    source: "Raft 3.3, faults 1, 5, 13, 14",
    check,
};

fn check(history: &History) -> Result<(), String> {
    history.disks.iter().try_for_each(|(node, events)| {
        one_disk(events).map_err(|what| format!("node {node}: {what}"))
    })
}

fn one_disk(events: &[DiskEvent]) -> Result<(), String> {
    let mut last: Option<VoteSeen> = None;
    let mut replaced = false;
    for event in events {
        match event {
            DiskEvent::Replaced => replaced = true,
            DiskEvent::Voted(vote) if replaced => {
                return Err(format!(
                    "{vote:?} was cast by a disk that went back in time"
                ));
            }
            DiskEvent::Voted(vote) => {
                follows(last, Some(*vote))?;
                last = Some(*vote);
            }
            DiskEvent::Opened { vote, .. } if !replaced => {
                follows(last, *vote)?;
                last = *vote;
            }
            _ => {}
        }
    }
    Ok(())
}

fn follows(before: Option<VoteSeen>, after: Option<VoteSeen>) -> Result<(), String> {
    let Some(before) = before else { return Ok(()) };
    let forward = after.is_some_and(|after| {
        let same = after.candidate == before.candidate || before.candidate.is_none();
        let (old, new) = (
            (before.term, before.committed),
            (after.term, after.committed),
        );
        new > old || (new == old && same)
    });
    if forward {
        Ok(())
    } else {
        Err(format!("{before:?} was followed by {after:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(term: u64, candidate: u64, committed: bool) -> VoteSeen {
        VoteSeen {
            term,
            candidate: Some(candidate),
            committed,
        }
    }

    fn verdict(events: Vec<DiskEvent>) -> Result<(), String> {
        let mut history = History::default();
        history.disks.insert(1, events);
        check(&history)
    }

    #[test]
    fn a_vote_goes_forward_and_a_winner_overrides() {
        let found = DiskEvent::Opened {
            vote: Some(vote(4, 2, true)),
            applied: None,
        };
        let cast = [
            vote(3, 1, false),
            vote(3, 2, true),
            vote(4, 2, false),
            vote(4, 2, true),
        ];
        let mut events: Vec<DiskEvent> = cast.into_iter().map(DiskEvent::Voted).collect();
        events.push(found);
        assert_eq!(verdict(events), Ok(()));
    }

    #[test]
    fn fault_001_a_second_vote_in_one_term_is_found() {
        let events = [vote(3, 1, false), vote(3, 2, false)].map(DiskEvent::Voted);
        assert!(verdict(events.to_vec()).is_err());
        let events = [vote(3, 1, true), vote(3, 2, true)].map(DiskEvent::Voted);
        assert!(verdict(events.to_vec()).is_err());
    }

    #[test]
    fn fault_005_a_vote_that_a_crash_took_is_found() {
        for vote_found in [None, Some(vote(2, 1, true))] {
            let found = DiskEvent::Opened {
                vote: vote_found,
                applied: None,
            };
            assert!(verdict(vec![DiskEvent::Voted(vote(3, 1, false)), found]).is_err());
        }
    }

    #[test]
    fn fault_013_a_replaced_disk_may_open_and_not_vote() {
        let opened = DiskEvent::Opened {
            vote: None,
            applied: None,
        };
        let mut events = vec![
            DiskEvent::Voted(vote(3, 1, false)),
            DiskEvent::Replaced,
            opened,
        ];
        assert_eq!(verdict(events.clone()), Ok(()));
        events.push(DiskEvent::Voted(vote(9, 1, false)));
        assert!(verdict(events).is_err());
    }
}
