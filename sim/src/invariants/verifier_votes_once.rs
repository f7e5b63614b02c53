//! `verifier_votes_once`: a verifier has one vote on an intent, whatever it is asked and however often it
//! starts anew. M1-L1; D11; faults 30, 34.
//!
//! Seen from both ends: every ballot that its disk took in, and every vote that the journal counted.

use std::collections::BTreeSet;

use redlatch_types::Digest;

use super::Invariant;
use crate::history::History;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "verifier_votes_once",
    statement: "a verifier has one vote on an intent, across restarts",
    source: "M1-L1, D11, faults 30 and 34",
    check,
};

fn check(history: &History) -> Result<(), String> {
    let keys = history.ballots.keys().chain(history.counted.keys());
    for key in keys {
        let kept = history.ballots.get(key).into_iter().flatten();
        let mut votes: BTreeSet<Digest> = kept.map(|ballot| ballot.vote).collect();
        votes.extend(history.counted.get(key).into_iter().flatten());
        if votes.len() > 1 {
            let (verifier, intent) = key;
            return Err(format!("{verifier} votes on {intent:?} as {votes:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use redlatch_types::{IntentDigest, VerifierId};

    use super::*;
    use crate::history::BallotSeen;

    fn key(verifier: &str) -> (VerifierId, IntentDigest) {
        let intent = IntentDigest(Digest::of(b"intent"));
        (verifier.parse().unwrap(), intent)
    }

    fn kept(votes: &[&str]) -> History {
        let mut history = History::default();
        let ballots = votes
            .iter()
            .map(|vote| BallotSeen::of(Digest::of(vote.as_bytes())));
        history.ballots.insert(key("va"), ballots.collect());
        history
    }

    #[test]
    fn one_vote_may_be_kept_again_and_be_counted() {
        let mut history = kept(&["yes", "yes"]);
        let counted = BTreeSet::from([Digest::of(b"yes")]);
        history.counted.insert(key("va"), counted);
        let other = BTreeSet::from([Digest::of(b"no")]);
        history.counted.insert(key("vb"), other);
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn fault_030_a_second_vote_is_found_on_the_disk_and_in_the_journal() {
        assert!(check(&kept(&["yes", "no"])).is_err());
        let mut history = kept(&["yes"]);
        let counted = BTreeSet::from([Digest::of(b"no")]);
        history.counted.insert(key("va"), counted.clone());
        assert!(check(&history).is_err());
        history.ballots.clear();
        assert_eq!(check(&history), Ok(()));
        let both = counted.into_iter().chain([Digest::of(b"yes")]).collect();
        history.counted.insert(key("va"), both);
        assert!(check(&history).is_err());
    }
}
