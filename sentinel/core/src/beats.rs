//! Beats: the sentinel's sign of life towards the actuator, with its outbox's head.
//!
//! A beat proves neither that a node lives nor that nothing is wrong; its absence raises HOLD
//! at the actuator, and its head shows a RED that has not arrived (FAULTS 62). How old a beat
//! may be is the receiver's matter.

use redlatch_types::records::SentinelBeatV1;

use crate::outbox::Outbox;

/// Numbers the beats of one writer. Starts at zero with every process: the writer generation
/// of the outbox, which every start raises, comes before it in comparison.
#[derive(Debug, Default)]
pub struct BeatCounter {
    sequence: u64,
}

impl BeatCounter {
    /// The next beat, to be sealed by the shell. It names the outbox as it is persisted: call
    /// it only after the effects of the last input have been run.
    pub fn next(&mut self, outbox: &Outbox) -> SentinelBeatV1 {
        self.sequence = self.sequence.saturating_add(1);
        let head = outbox.head();
        SentinelBeatV1 {
            sequence: self.sequence,
            writer_generation: outbox.generation(),
            outbox_epoch: head.number,
            outbox_root_digest: head.root,
        }
    }
}
