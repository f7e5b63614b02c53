//! `applied_monotone`: what a node has applied never goes back. Faults 3 and 6.
//!
//! While a process lives, never at all; across a crash, never below what its disk had synced. Writes of
//! apply are not synced by themselves (D8): a power loss may take the last of them, and the Raft log brings
//! them back.

use super::Invariant;
use crate::history::{DiskEvent, History};

pub(super) const INVARIANT: Invariant = Invariant {
    id: "applied_monotone",
    statement: "the applied index never goes back; across a power loss not below what was synced",
    source: "D8, faults 3 and 6",
    check,
};

fn check(history: &History) -> Result<(), String> {
    history.disks.iter().try_for_each(|(node, events)| {
        one_disk(events).map_err(|what| format!("node {node}: {what}"))
    })
}

fn one_disk(events: &[DiskEvent]) -> Result<(), String> {
    let (mut applied, mut synced) = (0, 0);
    for event in events {
        match event {
            DiskEvent::Applied(index) => {
                if *index < applied {
                    return Err(format!("applied went from {applied} to {index}"));
                }
                applied = *index;
            }
            DiskEvent::AppliedSynced(index) => synced = synced.max(*index),
            DiskEvent::Opened { applied: found, .. } => {
                let found = found.unwrap_or_default();
                if found < synced {
                    return Err(format!("{synced} was synced, {found} was found"));
                }
                applied = found;
            }
            DiskEvent::Replaced => (applied, synced) = (0, 0),
            DiskEvent::Voted(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use DiskEvent::{Applied, AppliedSynced, Opened, Replaced};

    fn verdict(events: &[DiskEvent]) -> Result<(), String> {
        let mut history = History::default();
        history.disks.insert(2, events.to_vec());
        check(&history)
    }

    fn opened(applied: u64) -> DiskEvent {
        Opened {
            vote: None,
            applied: Some(applied),
        }
    }

    #[test]
    fn a_power_loss_may_take_what_was_not_synced() {
        let events = [
            Applied(4),
            AppliedSynced(4),
            Applied(5),
            opened(4),
            Applied(5),
            Replaced,
        ];
        assert_eq!(verdict(&events), Ok(()));
    }

    #[test]
    fn fault_003_a_rewind_is_found() {
        assert!(verdict(&[Applied(70), Applied(40)]).is_err());
        assert!(verdict(&[Applied(4), AppliedSynced(4), opened(3)]).is_err());
        assert!(verdict(&[opened(9), Applied(8)]).is_err());
    }
}
