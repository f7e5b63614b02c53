//! Every kind of leaf and command: one spelling, frozen bytes, no second meaning.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with its reason in sight"
)]

use std::collections::{BTreeMap, BTreeSet};

use super::world::*;
use redlatch_journal::IndexKey;
use redlatch_types::command::RawCommand;
use redlatch_types::event::Event;
use redlatch_types::records::*;
use redlatch_types::*;

/// The first leaf of each kind, by its word.
fn leaves() -> BTreeMap<&'static str, Vec<u8>> {
    let mut found = BTreeMap::new();
    for world in [full_history(), governed_history()] {
        for (event, leaf) in world.events.iter().zip(&world.leaves) {
            found.entry(event.word()).or_insert_with(|| leaf.clone());
        }
    }
    found
}

#[test]
fn the_history_holds_every_kind_of_leaf_and_command() {
    assert_eq!(leaves().len(), 38, "kinds of events");
    let worlds = [full_history(), governed_history()];
    let entries = worlds
        .iter()
        .flat_map(|world| world.entries.iter().flatten());
    let commands: BTreeSet<u8> = entries.map(|c| kind(c)).collect();
    assert_eq!(commands, (1..=25).collect(), "kinds of commands");
}

/// The number of a command's kind: second byte of `[kind, [fields]]`, or the third above 23.
fn kind(command: &[u8]) -> u8 {
    assert_eq!(command[0], 0x82);
    if command[1] == 0x18 {
        command[2]
    } else {
        command[1]
    }
}

#[test]
fn frozen_bytes_of_every_leaf() {
    let mut listed = String::new();
    for (word, leaf) in leaves() {
        listed += &format!("{word} {} {}\n", leaf.len(), Digest::of(&leaf));
    }
    let frozen = include_str!("frozen/leaves.txt");
    assert_eq!(
        listed, frozen,
        "the wire format changed: raise the feature level, keep the old decoder, then refreeze"
    );
}

/// FAULTS 48 to 51, over every kind: a changed byte is refused or is another value.
#[test]
fn fault_048_a_changed_byte_never_spells_the_same_leaf() {
    for (word, leaf) in leaves() {
        let event = Event::from_canonical(&leaf).unwrap();
        // Every byte of short leaves, a spread of long ones, always the first hundred.
        let step = 1 + leaf.len() / 512;
        for i in (0..leaf.len()).filter(|i| *i < 100 || i % step == 0) {
            for flip in [0x01, 0x20, 0x80] {
                let mut changed = leaf.clone();
                changed[i] ^= flip;
                if let Ok(other) = Event::from_canonical(&changed) {
                    assert_eq!(other.to_canonical(), changed, "{word} at {i}");
                    assert_ne!(other, event, "{word} at {i}");
                }
            }
        }
        let mut longer = leaf.clone();
        longer.push(0);
        assert!(
            Event::from_canonical(&longer).is_err(),
            "{word} with a tail"
        );
        assert!(Event::from_canonical(&leaf[..leaf.len() - 1]).is_err());
    }
}

#[test]
fn fault_056_no_record_type_can_be_read_as_another() {
    let names: BTreeSet<_> = TYPES.iter().collect();
    assert_eq!(names.len(), TYPES.len());
    let scope = World::new().scope();
    let body = digest("body");
    for a in TYPES {
        for b in TYPES {
            let equal = sign::preimage(a, &scope, &body) == sign::preimage(b, &scope, &body);
            assert_eq!(equal, a == b);
        }
    }
}

/// FAULTS 52: the default of everything is refused, as bytes and as numbers.
#[test]
fn fault_052_zero_and_emptiness_are_no_command() {
    for bytes in [
        &[][..],
        &[0x00],
        &[0x80],
        &[0xa0],
        &[0x82, 0x00, 0x80],
        &[0x82, 0x18, 0xc8, 0x80],
    ] {
        assert!(RawCommand::from_canonical(bytes).is_err());
        assert!(Event::from_canonical(bytes).is_err());
    }
    assert!(Mode::from_canonical(&[0]).is_err());
    assert!(Verdict::from_canonical(&[0]).is_err());
    assert!(VoteVerdict::from_canonical(&[0]).is_err());
    assert!(AuthorityVariant::from_canonical(&[0]).is_err());
    assert!(OutcomeKind::from_canonical(&[0]).is_err());
}

/// Keys of the index are on disks: a tag of its own for each kind, then all that it names.
#[test]
fn each_key_of_the_index_is_its_tag_and_all_that_it_names() {
    let named = digest("named");
    let event = EventId(digest("event"));
    let transaction = TransactionId(named);
    let intent = IntentDigest(named);
    let origin = [&event.0.0[..], b"agent"].concat();
    let number = 258u64.to_be_bytes().to_vec();
    let name = named.0.to_vec();
    let keys = [
        (IndexKey::Genesis, Vec::new()),
        (IndexKey::Tick(TickNumber(258)), number.clone()),
        (IndexKey::Frozen(intent), name.clone()),
        (IndexKey::Authorized(intent), name.clone()),
        (IndexKey::Capability(CapabilityId(named)), name.clone()),
        (IndexKey::Prepared(transaction), name.clone()),
        (IndexKey::Committed(transaction), name.clone()),
        (IndexKey::Ended(intent), name.clone()),
        (IndexKey::Marker(MarkerNumber(258)), number.clone()),
        (IndexKey::Effect(transaction), name.clone()),
        (IndexKey::Latch(LatchNumber(258)), number.clone()),
        (IndexKey::Terminal(LatchNumber(258)), number.clone()),
        (IndexKey::Origin(id("agent"), event), origin),
        (IndexKey::StateRoot, Vec::new()),
        (IndexKey::Activated(transaction), name),
        (IndexKey::RootAct(258), number),
    ];
    for ((key, rest), tag) in keys.into_iter().zip(1u8..) {
        assert_eq!(key.to_bytes(), [vec![tag], rest].concat(), "{key:?}");
    }
}
