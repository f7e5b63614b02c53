//! Effects in the world: claimed before they are made, reported after (DESIGN §5.7).

use std::fmt;

use minicbor::{Decode, Encode};

use super::base::{Text, words};
use crate::bytes::{Bytes, Digest};
use crate::ids::{MarkerNumber, ResourceId, TransactionId};

/// The executor states that it is about to make the effect of a marker. Signed by the executor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct EffectClaimV1 {
    /// The transaction.
    #[n(0)]
    pub transaction_id: TransactionId,
    /// Its marker.
    #[n(1)]
    pub marker: MarkerNumber,
    /// The resource.
    #[n(2)]
    pub resource_id: ResourceId,
    /// Idempotency key of the effect, chosen once by the executor.
    #[n(3)]
    pub effect_key: Digest,
}

words! {
    /// How an effect ended.
    OutcomeKind {
        /// The effect is there.
        1 Done "done",
        /// The effect is not there and will not come.
        2 Failed "failed",
        /// Nobody can say; a person decides.
        3 OutcomeUnknown "outcome_unknown",
    }
}

/// The executor reports how the effect ended. Signed by the executor; may be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct EffectOutcomeV1 {
    /// The transaction.
    #[n(0)]
    pub transaction_id: TransactionId,
    /// Its marker.
    #[n(1)]
    pub marker: MarkerNumber,
    /// Digest of the claim.
    #[n(2)]
    pub claim_digest: Digest,
    /// How it ended.
    #[n(3)]
    pub outcome: OutcomeKind,
    /// Head of the resource as the executor sees it now.
    #[n(4)]
    pub observed_head: Bytes,
    /// Details for people.
    #[n(5)]
    pub detail: Text,
}
