//! The chain against an anchor (FAULTS 55), and the signed kinds apart from each other (FAULTS 56).

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod world;

use redlatch_types::records::*;
use redlatch_types::*;
use redlatch_watch::outbox::{
    ChainFault, Corrupt, Effect, Found, Head, Outbox, Owner, verify_chain,
};
use world::*;

fn scope() -> redlatch_types::Scope {
    World::new().scope()
}

fn owner(scope: redlatch_types::Scope) -> Owner {
    Owner {
        organism_id: scope.organism_id,
        key: key(SENTINEL).public_key(),
    }
}

/// A chain of `n` entries and its head.
fn chain(n: u64) -> (Owner, Vec<Envelope>, Head) {
    let scope = scope();
    let mut sentinel = Sentinel::new(scope);
    for i in 0..n {
        sentinel.red(request(i, subject(&format!("s{i}"))));
    }
    let entries = sentinel.outbox.entries();
    let envelopes = entries.map(|(_, e)| e.envelope.clone()).collect();
    (owner(scope), envelopes, sentinel.outbox.head())
}

#[test]
fn fault_055_every_single_edit_deletion_and_duplication_is_noticed() {
    let (owner, whole, anchor) = chain(20);
    let check = |entries: &[Envelope]| verify_chain(owner, Head::ZERO, entries, anchor);
    assert_eq!(check(&whole), Ok(anchor));
    for at in 0..whole.len() {
        let mut without = whole.clone();
        without.remove(at);
        assert!(check(&without).is_err(), "deleted {at}");
        let mut twice = whole.clone();
        twice.insert(at, whole[at].clone());
        assert!(check(&twice).is_err(), "repeated {at}");
        if at > 0 {
            let mut swapped = whole.clone();
            swapped.swap(at - 1, at);
            assert!(check(&swapped).is_err(), "swapped {at}");
        }
        for byte in 0..whole[at].body.0.len() {
            let mut edited = whole.clone();
            edited[at].body.0[byte] ^= 1;
            assert!(check(&edited).is_err(), "edited {at} at {byte}");
        }
        for edit in [
            |e: &mut Envelope| e.signature.0[0] ^= 1,
            |e: &mut Envelope| e.scope.organism_epoch += 1,
            |e: &mut Envelope| e.key = key(AGENT).public_key(),
        ] {
            let mut edited = whole.clone();
            edit(&mut edited[at]);
            assert!(check(&edited).is_err(), "edited {at}");
        }
    }
}

#[test]
fn fault_055_the_tail_cannot_vanish_and_nobody_else_can_rechain() {
    let (owner, whole, anchor) = chain(20);
    for kept in [0, 1, 17, 19] {
        let found = verify_chain(owner, Head::ZERO, &whole[..kept], anchor);
        assert!(
            matches!(found, Err(ChainFault::Shorter { .. })),
            "{found:?}"
        );
    }
    let first_gone = verify_chain(owner, Head::ZERO, &whole[3..], anchor);
    assert!(matches!(first_gone, Err(ChainFault::Gap { .. })));
    // The same REDs chained anew by a key that is not the sentinel's.
    let forged: Vec<_> = whole
        .iter()
        .map(|e| {
            let record = SentinelRedOutboxV1::from_canonical(&e.body.0).unwrap();
            Envelope::seal(e.scope, &key(AGENT), &record)
        })
        .collect();
    let found = verify_chain(owner, Head::ZERO, &forged, anchor);
    assert!(matches!(found, Err(ChainFault::Foreign { .. })));
    // Another chain of the same key and length.
    let mut other = Sentinel::new(scope());
    for i in 0..20 {
        other.red(request(100 + i, subject(&format!("s{i}"))));
    }
    let other: Vec<_> = other
        .outbox
        .entries()
        .map(|(_, e)| e.envelope.clone())
        .collect();
    // The head of one and the tail of the other, against either anchor.
    for (head, tail) in [(&whole, &other), (&other, &whole)] {
        let spliced: Vec<_> = head[..10].iter().chain(&tail[10..]).collect();
        let found = verify_chain(owner, Head::ZERO, spliced, anchor);
        let number = OutboxEpoch(11);
        assert_eq!(found, Err(ChainFault::Unlinked { number }));
    }
    let found = verify_chain(owner, Head::ZERO, &other, anchor);
    assert_eq!(found, Err(ChainFault::Forked { anchor }));
}

#[test]
fn fault_055_a_stored_outbox_that_is_not_whole_does_not_open() {
    let mut sentinel = Sentinel::new(scope());
    for i in 0..20 {
        sentinel.red(request(i, subject(&format!("s{i}"))));
    }
    let found = sentinel.disk.found();
    let open = |found: &Found| {
        Outbox::open(writer(sentinel.scope), found, 0, &mut Vec::new()).map(|o| o.head())
    };
    assert_eq!(open(&found), Ok(sentinel.outbox.head()));
    for at in 0..20 {
        let mut without = found.clone();
        without.entries.remove(at);
        assert!(open(&without).is_err());
        let mut twice = found.clone();
        twice.entries.insert(at, found.entries[at].clone());
        assert!(open(&twice).is_err());
    }
    let stateless = Found {
        state: None,
        ..found.clone()
    };
    assert_eq!(open(&stateless), Err(Corrupt::Missing));
    for length in [0, 1, found.state.as_ref().unwrap().len() - 1] {
        let mut cut = found.clone();
        cut.state.as_mut().unwrap().truncate(length);
        assert!(matches!(open(&cut), Err(Corrupt::Unreadable(_))));
    }
}

#[test]
fn fault_055_a_second_writer_stops_the_first() {
    let mut first = Sentinel::new(scope());
    first.red(request(1, subject("agent")));
    let mut out = Vec::new();
    let second = Outbox::open(writer(first.scope), &first.disk.found(), 0, &mut out).unwrap();
    assert_eq!(second.generation(), first.outbox.generation() + 1);
    let Effect::Persist(opened) = &out[0] else {
        panic!("{out:?}")
    };
    first.disk.write(opened);
    let mut out = Vec::new();
    first
        .outbox
        .handle_reds(vec![request(2, subject("other"))], 0, &mut out);
    let Effect::Persist(late) = &out[0] else {
        panic!("{out:?}")
    };
    let stored = first.disk.state.as_ref().map(|s| s.generation);
    assert_ne!(late.expected_generation, stored);
}

#[test]
fn fault_056_a_signature_of_the_sentinel_serves_one_kind_only() {
    let (_, whole, _) = chain(1);
    let red = &whole[0];
    assert!(red.open::<SentinelRedOutboxV1>().is_ok());
    assert!(red.open_leniently::<SentinelVerdictV1>().is_err());
    assert!(red.open_leniently::<SentinelBeatV1>().is_err());
    assert!(red.open_leniently::<OutboxAckV1>().is_err());
    let mut elsewhere = red.clone();
    elsewhere.scope.organism_id = OrganismId(digest("production"));
    assert!(elsewhere.open::<SentinelRedOutboxV1>().is_err());
}
