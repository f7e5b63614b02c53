//! What is in force for this verifier: read from the journal, believed by receipts (D13, FAULTS 38).
//!
//! ```text
//!   leaves ─▶ roster, constitution, key, epoch: proven, in their order ─▶ kept ─▶ terms, share opened
//! ```
//!
//! What was proven is kept, so that a restart needs no node to vouch for it again. A share whose key's
//! activation is not proven stays sealed, whoever says that it is in force. A ballot is voted on under the
//! terms that are in force here, or not at all.
//!
//! Other seats, pins or another organism epoch are the next start's to take up: everything in the process
//! rests on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redlatch_ballot::{OwnSeat, SealedShare, Terms};
use redlatch_link::diagnostics::Condition;
use redlatch_link::follow::{Batch, Follower, Trust, Wanted};
use redlatch_link::store::Store;
use redlatch_link::world;

use crate::alarm::{Alarm, FatalCause};
use crate::ceremony::Conductor;
use crate::signer::Signer;
use crate::store::{self, FollowedV1, KeptError};

/// Pause before the journal is read on.
const AGAIN: Duration = Duration::from_millis(500);
/// Leaves after which the place in the journal is kept, though nothing changed.
const KEEP_EVERY: u64 = 1_024;

/// Follows what is in force, and takes it up.
pub(crate) struct Activation<S> {
    pub(crate) store: S,
    /// Terms of the start: what the process rests on.
    pub(crate) terms: Terms,
    pub(crate) seat: OwnSeat,
    pub(crate) signer: Arc<Signer<S>>,
    pub(crate) conductor: Arc<Conductor<S>>,
    pub(crate) alarm: Alarm,
    /// The journal was read to its end, and the quorum has no key.
    pub(crate) none_so_far: AtomicBool,
}

impl<S: Store> Activation<S> {
    /// Takes up what is in force. Says whether the quorum has a key.
    ///
    /// # Errors
    /// [`KeptError`] if the store or the share in it cannot be used.
    pub(crate) async fn adopt(&self, trust: &Trust) -> Result<bool, KeptError> {
        let terms = Terms::in_force(trust.in_force())
            .map_err(|_| KeptError::Unreadable("roster in force"))?;
        let Some(key) = terms.quorum_key().cloned() else {
            self.signer.adopt(trust, terms, None).await;
            return Ok(false);
        };
        let (store, organism) = (self.store.clone(), terms.scope().organism_id);
        let identifier = self.seat.identifier;
        let shares = world::blocking(move || store::shares(&store, organism, identifier)).await?;
        let ours = |it: &&SealedShare| it.epoch() == key.epoch && it.group_key() == key.group_key;
        let share = shares.iter().find(ours).map(|it| it.activate(&key));
        let share = share.transpose()?;
        if share.is_none() {
            tracing::error!(
                "the quorum has a key, and no share of it is here: this verifier does not vote"
            );
        }
        tracing::info!(epoch = %key.epoch, group_key = %key.group_key, "the quorum's key is in force");
        self.signer.adopt(trust, terms, share).await;
        self.conductor.end();
        Ok(true)
    }

    /// Follows the journal for as long as the process runs.
    pub(crate) async fn follow(self: Arc<Self>, mut follower: Follower, condition: Condition) {
        let mut kept = follower.position();
        loop {
            match follower.read_on(|_| Wanted::No).await {
                Ok(batch) => {
                    if let Err(cause) = self.take_in(&batch, &follower, &mut kept, &condition).await
                    {
                        self.alarm.raise(cause);
                        return;
                    }
                    if !batch.at_end {
                        continue;
                    }
                }
                Err(error) => tracing::debug!(%error, "the journal cannot be read on yet"),
            }
            world::sleep(AGAIN).await;
        }
    }

    async fn take_in(
        &self,
        batch: &Batch,
        follower: &Follower,
        kept: &mut u64,
        condition: &Condition,
    ) -> Result<(), FatalCause> {
        let trust = follower.trust();
        if batch.trust.is_some() || batch.next >= kept.saturating_add(KEEP_EVERY) {
            let followed = FollowedV1 {
                next: batch.next,
                trust: trust.kept().clone(),
            };
            let store = self.store.clone();
            let keep = world::blocking(move || store::keep_followed(&store, &followed));
            keep.await
                .map_err(|error| FatalCause::Storage(error.to_string()))?;
            *kept = batch.next;
        }
        if batch.trust.is_some() {
            let known = trust.in_force();
            let same = known.scope == self.terms.scope()
                && known.roster.verifiers == self.terms.roster().verifiers;
            if !same {
                return Err(FatalCause::OtherTerms);
            }
            let has_key = self.adopt(trust).await.map_err(|error| match error {
                KeptError::Share(error) => FatalCause::Share(error.to_string()),
                other => FatalCause::Storage(other.to_string()),
            })?;
            if has_key {
                condition.met();
            } else {
                condition.unmet("the quorum's key is not in force here yet");
            }
        }
        let has_key = trust.in_force().quorum_key.is_some();
        self.none_so_far
            .store(batch.at_end && !has_key, Ordering::Release);
        Ok(())
    }
}
