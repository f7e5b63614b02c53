//! Whether bytes are one CBOR map in the CTAP2 canonical form, without reading what it says.
//!
//! WebAuthn §2 lets every decoder refuse what is not in that form: shortest heads, definite
//! lengths, no tags, keys ascending and therefore unique, at most four levels. The extensions
//! of an assertion are not used, but a signed blob that several readers split differently is
//! refused all the same (FAULTS 48, 49).

/// Levels of nesting (CTAP 2.1 §8, *Message Encoding*).
const DEPTH_MAX: u8 = 4;

const TEXT: u8 = 3;
const MAP: u8 = 5;

/// `true` if all of `bytes` is one canonical map whose keys are text.
pub(super) fn is_map_by_name(bytes: &[u8]) -> bool {
    let Some((major, pairs, mut rest)) = head(bytes) else {
        return false;
    };
    let mut last: &[u8] = &[];
    for _ in 0..pairs {
        let Some((key, after)) = pair(rest, 1) else {
            return false;
        };
        if key[0] >> 5 != TEXT || key <= last {
            return false;
        }
        (last, rest) = (key, after);
    }
    major == MAP && rest.is_empty()
}

/// The encoded key of a pair, and what follows its value.
fn pair(bytes: &[u8], depth: u8) -> Option<(&[u8], &[u8])> {
    let after_key = item(bytes, depth)?;
    let key = &bytes[..bytes.len() - after_key.len()];
    Some((key, item(after_key, depth)?))
}

/// What follows one canonical item. An item takes at least one byte, so a long array ends.
fn item(bytes: &[u8], depth: u8) -> Option<&[u8]> {
    let (major, argument, rest) = head(bytes)?;
    if matches!(major, 4 | 5) && depth >= DEPTH_MAX {
        return None;
    }
    match major {
        0 | 1 | 7 => Some(rest),
        2 => rest.get(usize::try_from(argument).ok()?..),
        TEXT => {
            let (text, rest) = rest.split_at_checked(usize::try_from(argument).ok()?)?;
            std::str::from_utf8(text).ok()?;
            Some(rest)
        }
        4 => (0..argument).try_fold(rest, |rest, _| item(rest, depth + 1)),
        MAP => {
            let empty: &[u8] = &[];
            let (_, rest) = (0..argument).try_fold((empty, rest), |(last, rest), _| {
                pair(rest, depth + 1).filter(|(key, _)| *key > last)
            })?;
            Some(rest)
        }
        _ => None,
    }
}

/// Major type, argument and what follows; only the shortest spelling of the argument.
/// For simple values and floats the argument means nothing.
fn head(bytes: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (major, info) = (first >> 5, first & 0x1f);
    let width = match info {
        0..=23 => 0,
        24..=27 => 1usize << (info - 24),
        _ => return None,
    };
    let (bytes, rest) = rest.split_at_checked(width)?;
    let argument = match width {
        0 => u64::from(info),
        _ => bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    };
    let canonical = match (major, info) {
        // false, true, null, undefined, and floats of any width.
        (7, _) => matches!(info, 20..=23 | 25..=27),
        (_, 24) => argument > 23,
        (_, 25) => argument > 0xff,
        (_, 26) => argument > 0xffff,
        (_, 27) => argument > 0xffff_ffff,
        _ => true,
    };
    canonical.then_some((major, argument, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(text: &str) -> bool {
        is_map_by_name(&hex::decode(text.replace(' ', "")).unwrap())
    }

    #[test]
    fn canonical_maps_are_accepted() {
        for text in [
            "a0",                                          // nothing
            "a1 63 757669 01",                             // uvi
            "a2 61 61 f5 62 6161 40",                      // shorter key first
            "a1 6b 6372656450726f74656374 02",             // credProtect
            "a1 61 61 83 01 20 f6",                        // array
            "a1 61 61 a2 01 02 61 61 fb 3ff0000000000000", // map inside, float
            "a1 61 61 81 81 80",                           // four levels
            "a1 61 61 81 81 81 01",                        // and a number in the last one
            "a1 61 61 19 0100",                            // integer of two bytes
            "a1 61 61 1a 00010000",                        // of four
            "a1 61 61 1b 0000000100000000",                // of eight
            "a1 61 61 58 18 000000000000000000000000000000000000000000000000",
        ] {
            assert!(accepted(text), "{text}");
        }
    }

    #[test]
    fn fault_048_a_repeated_name_is_refused() {
        for text in [
            "a2 61 61 01 61 61 02",       // same name twice
            "a1 61 61 a2 01 02 01 03",    // same key twice inside
            "a1 61 61 81 a2 01 02 01 03", // deeper inside
        ] {
            assert!(!accepted(text), "{text}");
        }
    }

    #[test]
    fn fault_049_every_other_spelling_is_refused() {
        for text in [
            "",                       // nothing at all
            "a1",                     // truncated
            "a1 61 61",               // without value
            "a0 00",                  // trailing byte
            "80",                     // no map
            "40",                     // no map, and nothing follows
            "a1 01 02",               // key is no text
            "a2 62 6161 01 61 61 02", // order
            "bf ff",                  // indefinite
            "a1 61 61 9f ff",         // indefinite inside
            "a1 78 01 61 01",         // longer head of a text
            "a1 61 61 18 17",         // longer integers
            "a1 61 61 19 00ff",       //
            "a1 61 61 1a 0000ffff",   //
            "a1 61 61 1b 00000000ffffffff",
            "b8 01 61 61 01",               // longer head of a map
            "a1 61 61 c1 00",               // tag
            "a1 61 c3 01",                  // not UTF-8
            "a1 61 61 f8 20",               // simple value
            "a1 61 61 f0",                  // simple value
            "a1 61 61 1c",                  // reserved head
            "a1 61 61 81 81 81 80",         // five levels
            "a1 61 61 81 81 a1 01 80",      // five levels through a map
            "a1 61 61 42 00",               // truncated bytes
            "a1 61 61 5b ffffffffffffffff", // longer than memory
            "bb ffffffffffffffff 61 61 01", // more pairs than bytes
            "a1 61 61 9b ffffffffffffffff", // more items than bytes
        ] {
            assert!(!accepted(text), "{text}");
        }
    }
}
