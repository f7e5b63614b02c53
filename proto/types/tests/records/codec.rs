//! Every encoded type: one spelling, no second meaning, none forgotten (FAULTS 48 to 51).

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::draw::{ENUMS, Gen, STRUCTS, Type, WORDS};
use crate::source::Sources;

fn types() -> impl Iterator<Item = &'static Type> {
    STRUCTS.iter().chain(ENUMS).chain(WORDS)
}

#[test]
fn every_encoded_type_of_the_sources_is_drawn() {
    let drawn: BTreeSet<String> = types().map(|t| t.name.to_owned()).collect();
    let encoded = Sources::read().encoded;
    let forgotten: Vec<_> = encoded.difference(&drawn).collect();
    let gone: Vec<_> = drawn.difference(&encoded).collect();
    assert!(
        forgotten.is_empty() && gone.is_empty(),
        "tests/records/draw.rs lacks {forgotten:?} and lists {gone:?}, which no source has"
    );
    assert_eq!(drawn.len(), types().count(), "a type stands twice");
}

/// Every byte of one instance of every type, in each of its eight bits and at its two ends.
#[test]
fn fault_048_no_altered_byte_of_any_type_says_the_same() {
    for ty in types() {
        // The longest of a few draws: options and lists are filled.
        let bytes = (0..16).map(|seed| (ty.draw)(&mut Gen::new(seed)));
        let bytes = bytes.filter(|b| b.len() <= 8_192).max_by_key(Vec::len);
        let bytes = bytes.unwrap_or_else(|| (ty.draw)(&mut Gen::empty()));
        for at in 0..bytes.len() {
            let flips = (0..8).map(|bit| bytes[at] ^ (1 << bit));
            for byte in flips.chain([0x00, 0xff]).filter(|b| *b != bytes[at]) {
                let mut altered = bytes.clone();
                altered[at] = byte;
                assert!(
                    (ty.tells_apart)(&bytes, &altered),
                    "{} byte {at} as {byte:#04x}",
                    ty.name
                );
            }
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!((ty.tells_apart)(&bytes, &longer), "{} with a tail", ty.name);
        let shorter = &bytes[..bytes.len() - 1];
        assert!((ty.tells_apart)(&bytes, shorter), "{} cut short", ty.name);
    }
}

#[test]
fn the_empty_instance_of_every_type_has_one_spelling() {
    for ty in types() {
        let bytes = (ty.draw)(&mut Gen::empty());
        assert_eq!(bytes, (ty.draw)(&mut Gen::empty()), "{}", ty.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_drawn_instance_is_read_back_and_no_altered_byte_says_the_same(
        seed: u64,
        at: prop::sample::Index,
        flip in 1..=255u8,
    ) {
        for ty in types() {
            let bytes = (ty.draw)(&mut Gen::new(seed));
            let mut altered = bytes.clone();
            altered[at.index(bytes.len())] ^= flip;
            prop_assert!((ty.tells_apart)(&bytes, &altered), "{}", ty.name);
        }
    }
}
