//! How a verifier starts: the table of what its store may show (FAULTS 34).
//!
//! A key without its memory never signs again: whoever lost the record of its votes and burned
//! nonces could be made to repeat them. It does not open the store.

use std::collections::BTreeMap;

use redlatch_types::{AutonomyEpoch, KeyEpoch};

use super::Verifier;
use crate::records::{BootRecordV1, Row, VerifierEffect};
use crate::share::KeyShare;
use crate::terms::{OwnSeat, Terms};

/// What the driver found at its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// The boot counter.
    pub boot: Option<BootRecordV1>,
    /// Highest epoch of a readable key share in the store or beside it; 0 for none.
    pub share_epoch: KeyEpoch,
    /// Highest boot generation of this verifier that anything outside this disk remembers: a
    /// peer, a journal, a counter.
    pub remembered_generation: Option<u64>,
    /// Something outside this disk has shown an earlier boot that the store was rolled back or copied.
    pub was_rolled_back: bool,
}

/// Why a verifier must not start on this store. Each ends the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartFault {
    /// There is a key share and no memory of what it signed.
    #[error("a key share without its state: votes and burned nonces are lost")]
    KeyWithoutState,
    /// The store is older than what others remember.
    #[error("the store is older than what others remember: generation {stored} of {remembered}")]
    RolledBack {
        /// Generation in the store; 0 for none.
        stored: u64,
        /// What others remember.
        remembered: u64,
    },
    /// An earlier boot was shown that it runs on a store from the past. Starting once more does not bring back
    /// what is lost.
    #[error("an earlier boot was shown that the store was rolled back or copied")]
    WasRolledBack,
    /// The store knows of fewer keys than there are shares.
    #[error("the state is older than the key share beside it")]
    StateOlderThanKey,
    /// The store knows of a share that is not there.
    #[error("a key share that the state knows of is missing")]
    ShareMissing,
    /// The store belongs to another organism or verifier.
    #[error("the store belongs to another organism or verifier")]
    OtherOwner,
}

impl Verifier {
    /// Starts one boot. `share` is the share of the key in force, if it is active. Carry out
    /// the effects before anything else: they raise the boot generation durably.
    ///
    /// # Errors
    /// [`StartFault`]: stop the process, and do not repair by deleting.
    pub fn start(
        terms: Terms,
        seat: OwnSeat,
        share: Option<KeyShare>,
        stored: &Stored,
    ) -> Result<(Verifier, Vec<VerifierEffect>), StartFault> {
        let generation = next_generation(&terms, &seat, stored)?;
        let boot = BootRecordV1 {
            organism_id: terms.scope().organism_id,
            verifier_id: seat.verifier_id.clone(),
            generation,
            key_epoch: stored.share_epoch,
        };
        let verifier = Verifier {
            terms,
            seat,
            share,
            generation,
            state_time: 0,
            autonomy_epoch: AutonomyEpoch(0),
            sessions: BTreeMap::new(),
        };
        Ok((
            verifier,
            vec![VerifierEffect::Persist(vec![Row::Boot(boot)])],
        ))
    }

    /// The boot record to write together with a new share (see [`crate::ceremony`]).
    pub fn boot_record(&self, share_epoch: KeyEpoch) -> BootRecordV1 {
        BootRecordV1 {
            organism_id: self.terms.scope().organism_id,
            verifier_id: self.seat.verifier_id.clone(),
            generation: self.generation,
            key_epoch: share_epoch,
        }
    }
}

fn next_generation(terms: &Terms, seat: &OwnSeat, stored: &Stored) -> Result<u64, StartFault> {
    if stored.was_rolled_back {
        return Err(StartFault::WasRolledBack);
    }
    let generation = stored.boot.as_ref().map_or(0, |b| b.generation);
    if let Some(remembered) = stored.remembered_generation
        && remembered > generation
    {
        return Err(StartFault::RolledBack {
            stored: generation,
            remembered,
        });
    }
    let Some(boot) = &stored.boot else {
        return if stored.share_epoch == KeyEpoch(0) {
            Ok(1)
        } else {
            Err(StartFault::KeyWithoutState)
        };
    };
    if boot.organism_id != terms.scope().organism_id || boot.verifier_id != seat.verifier_id {
        return Err(StartFault::OtherOwner);
    }
    if boot.key_epoch < stored.share_epoch {
        return Err(StartFault::StateOlderThanKey);
    }
    if boot.key_epoch > stored.share_epoch {
        return Err(StartFault::ShareMissing);
    }
    Ok(generation + 1)
}
