//! What is in force for this verifier: read from the journal, believed by receipts (D13, FAULTS 38).
//!
//! ```text
//!   leaves ─▶ roster, constitution, key, epoch: proven, in their order ─▶ kept ─▶ terms, share opened
//!          ─▶ at their end: compared with what a majority vouches for ─▶ read again, if something was left out
//! ```
//!
//! What was proven is kept, so that a restart needs no node to vouch for it again. A share whose key's
//! activation is not proven stays sealed, whoever says that it is in force. A ballot is voted on under the
//! terms that are in force here, or not at all.
//!
//! Other seats, pins or another organism epoch are the next start's to take up: everything in the process
//! rests on them. So is a key that was voided: the ceremony of the next one is held under the roster of a start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use redlatch_ballot::{OwnSeat, SealedShare, Terms};
use redlatch_link::diagnostics::Condition;
use redlatch_link::follow::{Batch, Follower, Standing, Trust, Wanted};
use redlatch_link::store::Store;
use redlatch_link::world::{self, Monotonic};
use redlatch_types::Digest;

use crate::alarm::{Alarm, FatalCause};
use crate::ceremony::Conductor;
use crate::signer::Signer;
use crate::store::{self, FollowedV1, KeptError};
use crate::vault::Vault;

/// Pause before the journal is read on.
const AGAIN: Duration = Duration::from_millis(500);
/// How often the end of the journal is compared with what a majority vouches for.
const COMPARE: Duration = Duration::from_secs(5);
/// How long that may take.
const COMPARE_DEADLINE: Duration = Duration::from_secs(3);
/// Leaves after which the place in the journal is kept, though nothing changed.
const KEEP_EVERY: u64 = 1_024;

/// Follows what is in force, and takes it up.
pub(crate) struct Activation<S> {
    pub(crate) store: S,
    pub(crate) vault: Arc<Vault>,
    /// Terms of the start: what the process rests on.
    pub(crate) terms: Terms,
    pub(crate) seat: OwnSeat,
    pub(crate) signer: Arc<Signer<S>>,
    pub(crate) conductor: Arc<Conductor<S>>,
    pub(crate) alarm: Alarm,
    /// A majority vouches for it that the journal was read to its end, and that the quorum has no key.
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
        let (vault, identifier) = (Arc::clone(&self.vault), self.seat.identifier);
        let shares =
            world::blocking(move || store::shares(&store, &vault, organism, identifier)).await?;
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
    pub(crate) async fn follow(
        self: Arc<Self>,
        mut follower: Follower,
        mut rng: ChaCha20Rng,
        condition: Condition,
    ) {
        let mut kept = follower.position();
        let mut level: Option<Monotonic> = None;
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
                    if level.is_none_or(|at| at.elapsed() >= COMPARE) {
                        let is_level = self.compare(&mut follower, &mut rng, &condition).await;
                        level = is_level.then(Monotonic::now);
                    }
                }
                Err(error) => tracing::debug!(%error, "the journal cannot be read on yet"),
            }
            world::sleep(AGAIN).await;
        }
    }

    /// Compares what was read with what a majority vouches for; true: nothing was left out.
    async fn compare(
        &self,
        follower: &mut Follower,
        rng: &mut ChaCha20Rng,
        condition: &Condition,
    ) -> bool {
        let mut nonce = Digest::ZERO;
        rng.fill_bytes(&mut nonce.0);
        let standing = match follower.read_point(nonce, COMPARE_DEADLINE).await {
            Ok(point) => follower.compare(&point, None),
            Err(error) => {
                tracing::debug!(%error, "no majority to compare with");
                Standing::Behind
            }
        };
        let has_key = follower.trust().in_force().quorum_key.is_some();
        let is_level = standing == Standing::Level;
        match standing {
            Standing::LeftOut => {
                condition.unmet("a majority says that more is in force than is shown")
            }
            Standing::Level if has_key => condition.met(),
            Standing::Level | Standing::Behind => {}
        }
        self.none_so_far
            .store(is_level && !has_key, Ordering::Release);
        is_level
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
            // The next key is made under one roster by all four: under the one of their start.
            let other_roster = known.roster.roster_epoch != self.terms.roster().roster_epoch;
            let another_key = known.quorum_key.is_none() && other_roster;
            if !same || another_key {
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
        Ok(())
    }
}
