//! What can be said about a claimed move from what the ref is at (FAULTS 78): nothing that was not seen.

use redlatch_types::records::OutcomeKind;

/// Whether the push that was let through may still move the ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pusher {
    /// Its process is there, or nobody can tell.
    MayStillMove,
    /// It is gone.
    Gone,
}

/// The outcome of a move from `old` to `new`, now that the ref is at `now`; empty bytes: no ref.
/// `None` as long as it can still go either way.
pub(crate) fn settle(old: &[u8], new: &[u8], now: &[u8], pusher: Pusher) -> Option<OutcomeKind> {
    if now == new {
        return Some(OutcomeKind::Done);
    }
    match pusher {
        Pusher::MayStillMove => None,
        Pusher::Gone if now == old => Some(OutcomeKind::Failed),
        // Somebody moved the ref past this gate, perhaps after the effect was there.
        Pusher::Gone => Some(OutcomeKind::OutcomeUnknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_078_only_what_was_seen_is_reported() {
        let (old, new, other) = (&[1; 20], &[2; 20], &[3; 20]);
        let table: [(&[u8], Pusher, Option<OutcomeKind>); 7] = [
            (new, Pusher::Gone, Some(OutcomeKind::Done)),
            (new, Pusher::MayStillMove, Some(OutcomeKind::Done)),
            (old, Pusher::Gone, Some(OutcomeKind::Failed)),
            (old, Pusher::MayStillMove, None),
            (other, Pusher::Gone, Some(OutcomeKind::OutcomeUnknown)),
            (other, Pusher::MayStillMove, None),
            (&[], Pusher::Gone, Some(OutcomeKind::OutcomeUnknown)),
        ];
        for (now, pusher, expected) in table {
            assert_eq!(
                settle(old, new, now, pusher),
                expected,
                "{now:?} {pusher:?}"
            );
        }
        assert_eq!(
            settle(&[], new, &[], Pusher::Gone),
            Some(OutcomeKind::Failed)
        );
    }
}
