//! `nonce_once`: a nonce belongs to one issue for one intent in one boot, and no verifier gives more shares
//! than it has nonces. D13; fault 32.
//!
//! The nonces themselves never leave a verifier; their commitments are what can be seen.

use std::collections::{BTreeMap, BTreeSet};

use redlatch_types::Digest;

use super::Invariant;
use crate::history::History;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "nonce_once",
    statement: "a nonce is committed to once, and there are never more shares than nonces",
    source: "D13, fault 32",
    check,
};

fn check(history: &History) -> Result<(), String> {
    let mut places: BTreeMap<Digest, BTreeSet<_>> = BTreeMap::new();
    for ((verifier, intent), ballots) in &history.ballots {
        let mut nonces = BTreeSet::new();
        let mut packages: BTreeSet<Digest> = BTreeSet::new();
        for ballot in ballots {
            packages.extend(&ballot.packages);
            for nonce in &ballot.nonces {
                nonces.insert(nonce.commitment);
                let place = (verifier, *intent, nonce.boot, nonce.issue);
                places.entry(nonce.commitment).or_default().insert(place);
            }
        }
        if packages.len() > nonces.len() {
            let (shares, nonces) = (packages.len(), nonces.len());
            return Err(format!(
                "{verifier} gives {shares} shares on {intent:?} from {nonces} nonces"
            ));
        }
    }
    match places.iter().find(|(_, places)| places.len() > 1) {
        Some((nonce, places)) => Err(format!("nonce {nonce} is issued as {places:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use redlatch_types::IntentDigest;

    use super::*;
    use crate::history::{BallotSeen, NonceSeen};

    fn ballot(nonces: &[(u64, u64, &str)], packages: &[&str]) -> BallotSeen {
        let nonce = |(boot, issue, name): &(u64, u64, &str)| NonceSeen {
            boot: *boot,
            issue: *issue,
            commitment: Digest::of(name.as_bytes()),
        };
        BallotSeen {
            nonces: nonces.iter().map(nonce).collect(),
            packages: packages
                .iter()
                .map(|it| Digest::of(it.as_bytes()))
                .collect(),
            ..BallotSeen::of(Digest::ZERO)
        }
    }

    fn verdict(ballots: &[(&str, BallotSeen)]) -> Result<(), String> {
        let mut history = History::default();
        for (intent, ballot) in ballots {
            let intent = IntentDigest(Digest::of(intent.as_bytes()));
            let key = ("va".parse().unwrap(), intent);
            history.ballots.entry(key).or_default().push(ballot.clone());
        }
        check(&history)
    }

    #[test]
    fn an_issue_may_be_kept_again_and_the_next_boot_has_its_own() {
        let first = ballot(&[(1, 1, "a")], &[]);
        let signed = ballot(&[(1, 1, "a")], &["p"]);
        let second = ballot(&[(1, 1, "a"), (2, 2, "b")], &["p", "q"]);
        let story = [("i", first), ("i", signed), ("i", second)];
        assert_eq!(verdict(&story), Ok(()));
    }

    #[test]
    fn fault_032_a_nonce_of_two_boots_or_two_intents_is_found() {
        let first = || ("i", ballot(&[(1, 1, "a")], &[]));
        assert!(verdict(&[first(), ("i", ballot(&[(2, 2, "a")], &[]))]).is_err());
        assert!(verdict(&[first(), ("j", ballot(&[(1, 1, "a")], &[]))]).is_err());
    }

    #[test]
    fn fault_032_a_share_too_many_is_found() {
        assert!(verdict(&[("i", ballot(&[(1, 1, "a")], &["p", "q"]))]).is_err());
    }
}
