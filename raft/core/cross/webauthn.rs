//! Assertions of two authenticators, judged by redlatch and by a relying party of others.
//!
//! ```text
//!   passkey (browser, authenticator) ─┐                   ┌─▶ redlatch_journal::webauthn
//!                                     ├─▶ one assertion ──┤
//!   SoftAuthenticator ── bent ────────┘   same bytes      └─▶ webauthn-rs-core
//! ```
//!
//! Where redlatch alone refuses, [`EXPLAINED`] says why, and each of its rows must be met.

mod bent;
mod browser;
mod differences;
mod parties;
mod signatures;

use std::collections::BTreeSet;

use redlatch_journal::webauthn::challenge;
use redlatch_types::sign::Scope;
use redlatch_types::{Digest, IntentDigest, OrganismId};

use bent::Bent;
use browser::Browser;
use differences::{EXPLAINED, Explained};
use parties::{Given, Judged, Parties};

/// The challenge of the n-th question, made as the journal makes it.
fn asked(n: u8) -> Digest {
    let scope = Scope {
        organism_id: OrganismId(Digest::of(b"cross")),
        organism_epoch: 1,
    };
    let approver = "alice".parse().expect("a subject");
    let intent = IntentDigest(Digest::of(&[n]));
    challenge(
        &scope,
        &Digest::of(&[n, n]),
        &intent,
        &Digest::of(b"shown"),
        &approver,
    )
}

#[test]
fn an_authenticator_of_others_convinces_both() {
    let mut browser = Browser::new();
    let mut parties = browser.enrol();
    for n in 0..8 {
        let given = browser.answer(&parties, &asked(n), true);
        let judged = parties.judge(&asked(n), &given);
        assert_eq!(judged, Judged::both(u32::from(n) + 1), "answer {n}");
        parties.counted(u32::from(n) + 1);
        let again = parties.judge(&asked(n), &given);
        assert_eq!(
            again.ours,
            Err("counter_not_greater"),
            "answer {n} once more"
        );
        assert_eq!(again.theirs, None, "answer {n} once more");
    }
}

#[test]
fn without_a_verified_person_or_for_another_question_it_convinces_neither() {
    let mut browser = Browser::new();
    let parties = browser.enrol();
    let unverified = browser.answer(&parties, &asked(1), false);
    let judged = parties.judge(&asked(1), &unverified);
    assert_eq!(
        (judged.ours, judged.theirs),
        (Err("user_not_verified"), None)
    );
    let given = browser.answer(&parties, &asked(2), true);
    let judged = parties.judge(&asked(3), &given);
    assert_eq!((judged.ours, judged.theirs), (Err("wrong_challenge"), None));
}

#[test]
fn our_own_authenticator_convinces_both() {
    for n in 0..8 {
        let (parties, soft) = Parties::of_soft(n);
        let given = soft.good(&asked(n));
        assert_eq!(parties.judge(&asked(n), &given), Judged::both(42));
    }
}

/// A byte of an answer, changed after it was signed. Nobody takes it, whoever made it.
#[test]
fn no_changed_byte_of_an_answer_convinces_anybody() {
    let mut browser = Browser::new();
    let theirs = browser.enrol();
    let of_browser = browser.answer(&theirs, &asked(1), true);
    let (ours, soft) = Parties::of_soft(1);
    let of_soft = soft.good(&asked(1));
    let mut tried = 0;
    for (parties, good) in [(&theirs, of_browser), (&ours, of_soft)] {
        for (what, given) in bent::bytes(&good) {
            let judged = parties.judge(&asked(1), &given);
            assert!(judged.ours.is_err(), "redlatch accepts {what}");
            assert_eq!(judged.theirs, None, "the other accepts {what}");
            tried += 1;
        }
    }
    assert!(tried > 1_500, "{tried} changes");
}

/// Who signed, with which algorithm, in which spelling: nothing but the one signature is taken.
#[test]
fn no_other_signature_convinces_anybody() {
    let mut browser = Browser::new();
    let theirs = browser.enrol();
    let of_browser = [1, 2].map(|n| browser.answer(&theirs, &asked(n), true));
    let (ours, soft) = Parties::of_soft(1);
    let of_soft = [1, 2].map(|n| soft.good(&asked(n)));
    for (parties, [good, other]) in [(&theirs, of_browser), (&ours, of_soft)] {
        for Bent { what, given } in signatures::bent(&good, &other) {
            let judged = parties.judge(&asked(1), &given);
            assert!(judged.ours.is_err(), "redlatch accepts {what}");
            assert_eq!(judged.theirs, None, "the other accepts {what}");
        }
    }
}

#[test]
fn both_take_either_of_the_two_signatures_of_a_key() {
    let (parties, soft) = Parties::of_soft(3);
    let good = soft.good(&asked(3));
    let mirrored = signatures::mirrored(&good);
    assert_ne!(mirrored, good);
    assert_eq!(parties.judge(&asked(3), &mirrored), Judged::both(42));
    assert_eq!(signatures::mirrored(&mirrored), good);
}

/// The one thing that redlatch alone accepts ([`differences`] says why). When they learn it, this test says so.
#[test]
fn an_eddsa_credential_convinces_redlatch_alone() {
    let (parties, soft) = Parties::of_ed_dsa();
    let judged = parties.judge(&asked(4), &soft.good(&asked(4)));
    assert_eq!((judged.ours, judged.theirs), (Ok(42), None));
}

/// An authenticator that signs whatever it is told: every flag, counter and statement.
#[test]
fn what_is_truly_signed_gets_one_answer_or_an_explained_difference() {
    let (parties, soft) = Parties::of_soft(1);
    let mut met = BTreeSet::new();
    let mut unexplained = Vec::new();
    let (mut refused, mut accepted) = (0, 0);
    for Bent { what, given } in soft.statements(&asked(1)) {
        match parties.judge(&asked(1), &given) {
            Judged {
                ours: Err(_),
                theirs: None,
            } => refused += 1,
            Judged {
                ours: Err(code),
                theirs: Some(_),
            } => {
                let row = EXPLAINED
                    .iter()
                    .find(|it| it.code == code && (it.shows)(&given));
                match row {
                    Some(row) => _ = met.insert(row.code),
                    None => unexplained.push(format!("{what}: only redlatch refuses, {code}")),
                }
            }
            Judged {
                ours: Ok(ours),
                theirs: Some(theirs),
            } if ours == theirs => accepted += 1,
            other => unexplained.push(format!("{what}: {other:?}")),
        }
    }
    assert!(unexplained.is_empty(), "{unexplained:#?}");
    for Explained { code, reason, .. } in EXPLAINED {
        assert!(met.contains(code), "nothing shows {code}: {reason}");
    }
    assert!(refused > 500 && accepted > 50, "{refused} and {accepted}");
}

/// Keeps the helper honest: a good statement is one that both take.
#[test]
fn the_statements_hold_the_good_one() {
    let (parties, soft) = Parties::of_soft(2);
    let statements = soft.statements(&asked(2));
    let good: Vec<&Given> = statements
        .iter()
        .filter(|bent| bent.what == "good")
        .map(|bent| &bent.given)
        .collect();
    assert_eq!(good.len(), 1);
    assert_eq!(parties.judge(&asked(2), good[0]), Judged::both(42));
}
