//! `sheet_opened_once`: a verifier opens its sealed vote under one sheet, for ever. D11; fault 31.

use std::collections::BTreeSet;

use redlatch_types::Digest;

use super::Invariant;
use crate::history::History;

pub(super) const INVARIANT: Invariant = Invariant {
    id: "sheet_opened_once",
    statement: "a verifier opens its vote on an intent under one sheet, and never closes it again",
    source: "D11, fault 31",
    check,
};

fn check(history: &History) -> Result<(), String> {
    for ((verifier, intent), ballots) in &history.ballots {
        let sheets: BTreeSet<Digest> = ballots.iter().filter_map(|it| it.sheet).collect();
        let opened = ballots.iter().skip_while(|it| it.sheet.is_none());
        let closed = opened.filter(|it| it.sheet.is_none()).count();
        if sheets.len() > 1 || closed > 0 {
            return Err(format!(
                "{verifier} opens {intent:?} under {sheets:?} and forgets it {closed} times"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use redlatch_types::IntentDigest;

    use super::*;
    use crate::history::BallotSeen;

    fn verdict(sheets: &[Option<&str>]) -> Result<(), String> {
        let ballots = sheets.iter().map(|sheet| BallotSeen {
            sheet: sheet.map(|sheet| Digest::of(sheet.as_bytes())),
            ..BallotSeen::of(Digest::ZERO)
        });
        let key = ("va".parse().unwrap(), IntentDigest(Digest::of(b"i")));
        let mut history = History::default();
        history.ballots.insert(key, ballots.collect());
        check(&history)
    }

    #[test]
    fn one_sheet_may_be_kept_again() {
        assert_eq!(verdict(&[None, Some("one"), Some("one")]), Ok(()));
    }

    #[test]
    fn fault_031_a_second_sheet_and_a_forgotten_one_are_found() {
        assert!(verdict(&[Some("one"), Some("other")]).is_err());
        assert!(verdict(&[Some("one"), None]).is_err());
    }
}
