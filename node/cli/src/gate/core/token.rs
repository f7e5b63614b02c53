//! Fencing: per resource, only a token greater than the last honoured one passes (DESIGN §8, FAULTS 29).

use minicbor::{Decode, Encode};
use redlatch_types::{Bytes, IntentDigest, MarkerNumber};

use crate::gate::refusal::Refused;

/// A fencing token: ordered by history, then by marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(map)]
pub(crate) struct Token {
    /// History of the journal.
    #[n(0)]
    pub(crate) history: u64,
    /// Number of the marker in it.
    #[n(1)]
    pub(crate) marker: MarkerNumber,
}

/// What was honoured: a token and the one move that it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct Honoured {
    /// The token.
    #[n(0)]
    pub(crate) token: Token,
    /// The intent.
    #[n(1)]
    pub(crate) intent: IntentDigest,
    /// What the ref was at.
    #[n(2)]
    pub(crate) old: Bytes,
    /// What it was to be at.
    #[n(3)]
    pub(crate) new: Bytes,
}

/// Whether `next` may be honoured after `last`, given what the ref is at.
///
/// # Errors
/// [`Refused::NoToken`] for a number that no journal gives, [`Refused::StaleToken`] for one that is not
/// greater, unless it is the very same move again and the ref has not moved.
pub(crate) fn admit(last: Option<&Honoured>, next: &Honoured, now: &[u8]) -> Result<(), Refused> {
    // Markers count from 1, and the last number has no successor: honouring it would close the
    // resource for good.
    if next.token.marker.0 == 0 || next.token.marker.0 == u64::MAX {
        return Err(Refused::NoToken);
    }
    match last {
        None => Ok(()),
        Some(last) if next.token > last.token => Ok(()),
        Some(last) if next == last && next.old.0 == now => Ok(()),
        Some(_) => Err(Refused::StaleToken),
    }
}

#[cfg(test)]
mod tests {
    use redlatch_types::Digest;

    use super::*;

    fn honoured(history: u64, marker: u64) -> Honoured {
        Honoured {
            token: Token {
                history,
                marker: MarkerNumber(marker),
            },
            intent: IntentDigest(Digest::of(&marker.to_be_bytes())),
            old: Bytes(vec![1; 20]),
            new: Bytes(vec![2; 20]),
        }
    }

    #[test]
    fn fault_029_only_a_greater_token_passes() {
        let last = honoured(1, 7);
        let table = [
            (0, 0, Err(Refused::NoToken)),
            (1, 0, Err(Refused::NoToken)),
            (1, 1, Err(Refused::StaleToken)),
            (1, 6, Err(Refused::StaleToken)),
            (1, 8, Ok(())),
            (1, u64::MAX - 1, Ok(())),
            (1, u64::MAX, Err(Refused::NoToken)),
            (0, 8, Err(Refused::StaleToken)),
            (0, u64::MAX - 1, Err(Refused::StaleToken)),
            (2, 1, Ok(())),
            (2, 0, Err(Refused::NoToken)),
        ];
        for (history, marker, expected) in table {
            let next = honoured(history, marker);
            assert_eq!(
                admit(Some(&last), &next, &[1; 20]),
                expected,
                "{history} {marker}"
            );
        }
        assert_eq!(admit(None, &honoured(0, 1), &[]), Ok(()));
        assert_eq!(admit(None, &honoured(0, 0), &[]), Err(Refused::NoToken));
    }

    #[test]
    fn fault_029_an_equal_token_passes_only_as_the_same_move_of_an_unchanged_ref() {
        let last = honoured(1, 7);
        assert_eq!(admit(Some(&last), &last, &[1; 20]), Ok(()));
        assert_eq!(
            admit(Some(&last), &last, &[2; 20]),
            Err(Refused::StaleToken)
        );
        type Change = fn(&mut Honoured);
        let changes: [Change; 3] = [
            |it| it.intent = IntentDigest(Digest::ZERO),
            |it| it.old = Bytes(vec![]),
            |it| it.new = Bytes(vec![3; 20]),
        ];
        for change in changes {
            let mut other = last.clone();
            change(&mut other);
            assert_eq!(
                admit(Some(&last), &other, &other.old.0),
                Err(Refused::StaleToken)
            );
        }
    }
}
