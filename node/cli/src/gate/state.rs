//! What a gate must not forget: the last token honoured per resource, and the claims it has not reported.

use std::path::Path;
use std::time::Duration;

use minicbor::{Decode, Encode};
use redlatch_link::store::{DataFolder, RedbStore, Store, StoreError, Table};
use redlatch_link::world::{self, Monotonic};
use redlatch_types::records::{EffectClaimV1, Text};
use redlatch_types::{Bytes, Canonical, IntentDigest, ResourceId, TransactionId};

use super::core::token::Honoured;
use super::pusher::PusherId;

const HONOURED: Table = Table("honoured");
const CLAIMS: Table = Table("claims");
/// Claims read at once. A claim reserves its resource, so there is one per ref at most.
const CLAIMS_MAX: usize = 65_536;
/// Pause before the state is asked for again while another hook holds it.
const PAUSE: Duration = Duration::from_millis(20);

/// How far a claim is known to have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum Stage {
    /// On its way; nobody knows whether it is in the journal.
    #[n(1)]
    Sent,
    /// The journal has it.
    #[n(2)]
    Applied,
}

/// A claim without a reported outcome.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(crate) struct OpenClaim {
    /// The intent.
    #[n(0)]
    pub(crate) intent: IntentDigest,
    /// What was claimed.
    #[n(1)]
    pub(crate) claim: EffectClaimV1,
    /// Organism epoch it was signed in.
    #[n(2)]
    pub(crate) organism_epoch: u64,
    /// The ref.
    #[n(3)]
    pub(crate) reference: Text,
    /// What it was at.
    #[n(4)]
    pub(crate) old: Bytes,
    /// What it was to be at.
    #[n(5)]
    pub(crate) new: Bytes,
    /// How far it came.
    #[n(6)]
    pub(crate) stage: Stage,
    /// Who may still move the ref.
    #[n(7)]
    pub(crate) pusher: PusherId,
}

impl OpenClaim {
    /// Its transaction: one has one claim.
    pub(crate) fn id(&self) -> TransactionId {
        self.claim.transaction_id
    }
}

/// The gate's state, held by one hook at a time.
pub(crate) struct GateState(RedbStore);

impl GateState {
    /// Takes hold of the state, waiting for another hook at most so long.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if it does not let go; [`StoreError`] otherwise.
    pub(crate) async fn open(path: &Path, wait: Duration) -> Result<GateState, StoreError> {
        let begun = Monotonic::now();
        loop {
            match DataFolder::open(path) {
                Ok(folder) => return Ok(GateState(RedbStore::open(folder)?)),
                Err(StoreError::Locked { .. }) if begun.elapsed() < wait => {
                    world::sleep(PAUSE).await;
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// What was honoured last for a resource.
    ///
    /// # Errors
    /// [`StoreError::Failed`]; a value that cannot be read is one as well.
    pub(crate) fn honoured(&self, resource: &ResourceId) -> Result<Option<Honoured>, StoreError> {
        let found = self.0.get(HONOURED, &resource.0.0)?;
        found.map(|bytes| decode(&bytes)).transpose()
    }

    /// Remembers what is honoured, durably.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    pub(crate) fn honour(
        &self,
        resource: &ResourceId,
        honoured: &Honoured,
    ) -> Result<(), StoreError> {
        self.0
            .put(HONOURED, &resource.0.0, &honoured.to_canonical())
    }

    /// Every claim without a reported outcome.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    pub(crate) fn claims(&self) -> Result<Vec<OpenClaim>, StoreError> {
        let found = self.0.range(CLAIMS, &[], None, CLAIMS_MAX)?;
        found.iter().map(|(_, bytes)| decode(bytes)).collect()
    }

    /// Remembers a claim, durably.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    pub(crate) fn put(&self, claim: &OpenClaim) -> Result<(), StoreError> {
        self.0.put(CLAIMS, &claim.id().0.0, &claim.to_canonical())
    }

    /// Forgets a claim: its outcome is in the journal, or it never was.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    pub(crate) fn forget(&self, claim: &OpenClaim) -> Result<(), StoreError> {
        self.0.write(|view| view.delete(CLAIMS, &claim.id().0.0))
    }
}

fn decode<T: Canonical>(bytes: &[u8]) -> Result<T, StoreError> {
    T::from_canonical(bytes).map_err(|error| StoreError::Failed(format!("gate state: {error}")))
}
