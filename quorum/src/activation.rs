//! Whether the quorum has a key: read from the journal, believed by its receipt (D13, FAULTS 38).
//!
//! ```text
//!   leaves, unproven ─▶ QuorumKeyActivated at position p ─▶ receipt of p, node group ─▶ share opened
//! ```
//!
//! The receipt is kept, so that a restart needs no node to vote again. A share without that receipt stays
//! sealed, whoever says that its key is in force.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redlatch_ballot::{OwnSeat, QuorumKey, SealedShare, Terms};
use redlatch_link::diagnostics::Condition;
use redlatch_link::nodes::{CallError, Nodes};
use redlatch_link::store::Store;
use redlatch_link::world;
use redlatch_proto::v1;
use redlatch_types::Canonical;
use redlatch_types::event::Event;
use redlatch_types::policy::Policy;
use redlatch_types::proven::ProvenEvent;
use redlatch_types::receipt::{Receipt, ReceiptError};

use crate::alarm::{Alarm, FatalCause};
use crate::ceremony::Conductor;
use crate::signer::Signer;
use crate::store::{self, KeptError};

/// How long a node may take to begin its answer.
const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// Pause before the journal is read on.
const AGAIN: Duration = Duration::from_millis(500);

/// The key that a receipt says is in force.
///
/// # Errors
/// A sentence about the receipt.
pub fn proven_key(policy: &Policy, text: &str) -> Result<QuorumKey, String> {
    let receipt =
        Receipt::parse(text.as_bytes()).map_err(|error| ReceiptError::from(error).to_string())?;
    let proven = ProvenEvent::of(&receipt, policy).map_err(|error| error.to_string())?;
    match proven.event() {
        Event::QuorumKeyActivated(epoch, group_key, digest, _) => Ok(QuorumKey {
            epoch: *epoch,
            group_key: *group_key,
            public_key_package_digest: *digest,
        }),
        _ => Err("the receipt is of another event".to_owned()),
    }
}

/// Looks for the key's activation and takes it up.
pub(crate) struct Activation<S> {
    pub(crate) store: S,
    pub(crate) terms: Terms,
    pub(crate) seat: OwnSeat,
    pub(crate) policy: Policy,
    pub(crate) signer: Arc<Signer<S>>,
    pub(crate) conductor: Arc<Conductor<S>>,
    pub(crate) alarm: Alarm,
    /// The journal was read to its end, and there was none.
    pub(crate) none_so_far: AtomicBool,
}

impl<S: Store> Activation<S> {
    /// Takes up the key of the receipt that is kept, if there is one.
    ///
    /// # Errors
    /// [`KeptError`] if the store or the share in it cannot be used.
    pub(crate) async fn resume(&self) -> Result<bool, KeptError> {
        let store = self.store.clone();
        let kept = world::blocking(move || store::activation(&store)).await?;
        let Some(bytes) = kept else {
            return Ok(false);
        };
        let text = String::from_utf8(bytes).map_err(|_| KeptError::Unreadable("activation"))?;
        match proven_key(&self.policy, &text) {
            Ok(key) => self.adopt(key).await.map(|()| true),
            Err(error) => {
                // A later trust policy no longer accepts its signers: the journal is asked again.
                tracing::warn!(error, "the kept receipt of the quorum's key does not hold");
                Ok(false)
            }
        }
    }

    async fn adopt(&self, key: QuorumKey) -> Result<(), KeptError> {
        let (store, organism) = (self.store.clone(), self.terms.scope().organism_id);
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
        let terms = self.terms.clone().with_key(key);
        self.signer.adopt(terms, share).await;
        self.conductor.end();
        Ok(())
    }

    /// Reads the journal until there is a key.
    pub(crate) async fn follow(self: Arc<Self>, nodes: Nodes, condition: Condition) {
        let mut from = 0;
        loop {
            match self.read(&nodes, &mut from).await {
                Ok(Some(text)) => {
                    match self.take_up(&text).await {
                        Ok(()) => condition.met(),
                        Err(error) => self.alarm.raise(match error {
                            KeptError::Share(error) => FatalCause::Share(error.to_string()),
                            other => FatalCause::Storage(other.to_string()),
                        }),
                    }
                    return;
                }
                Ok(None) => self.none_so_far.store(true, Ordering::Release),
                Err(error) => tracing::debug!(%error, "the journal cannot be read on yet"),
            }
            world::sleep(AGAIN).await;
        }
    }

    async fn take_up(&self, text: &str) -> Result<(), KeptError> {
        let key = proven_key(&self.policy, text)
            .map_err(|_| KeptError::Unreadable("receipt of the quorum's key"))?;
        let (store, kept) = (self.store.clone(), text.to_owned());
        world::blocking(move || store::keep_activation(&store, &kept)).await?;
        self.adopt(key).await
    }

    /// Reads leaves from a position to the end; gives a receipt that holds, if there was an activation.
    async fn read(&self, nodes: &Nodes, from: &mut u64) -> Result<Option<String>, CallError> {
        let mut leaves = nodes.journal(*from, false, CALL_DEADLINE).await?;
        loop {
            let next = world::timeout(CALL_DEADLINE, leaves.message()).await;
            let unavailable = |text: String| CallError::Unavailable(text);
            let next = next.map_err(|error| unavailable(error.to_string()))?;
            let Some(leaf) = next.map_err(|status| unavailable(status.message().to_owned()))?
            else {
                return Ok(None);
            };
            if is_activation(&leaf.leaf) {
                let at = v1::leaf_at::At::Position(leaf.position);
                let text = nodes.receipt(at, CALL_DEADLINE).await?;
                match proven_key(&self.policy, &text) {
                    Ok(_) => return Ok(Some(text)),
                    Err(error) => tracing::warn!(error, "an activation that is not proven"),
                }
            }
            *from = leaf.position + 1;
        }
    }
}

fn is_activation(leaf: &[u8]) -> bool {
    matches!(
        Event::from_canonical(leaf),
        Ok(Event::QuorumKeyActivated(..))
    )
}
