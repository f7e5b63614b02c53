//! From a receipt and bytes to a frozen intent: what a verifier votes on (M1-I24).
//!
//! The receipt must meet the trust policy's node group, its leaf must be a freeze, and the bytes must hash
//! to what was frozen. Nothing of it is believed because a node brought it.

use redlatch_ballot::{FreezeProof, FrozenIntent};
use redlatch_types::Refusal;
use redlatch_types::policy::{Demand, Policy};
use redlatch_types::receipt::{self, Receipt, ReceiptError};

/// Why there is nothing to vote on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotFrozen {
    /// The receipt does not hold.
    #[error(transparent)]
    Receipt(#[from] ReceiptError),
    /// The receipt is of something else, or of other bytes.
    #[error("{0}")]
    Other(String),
}

impl NotFrozen {
    /// The stable code for the wire.
    pub(crate) fn refusal(&self) -> Refusal {
        match self {
            NotFrozen::Receipt(_) => Refusal::BadSignature,
            NotFrozen::Other(_) => Refusal::CandidateMismatch,
        }
    }
}

/// The intent, if it is the one that the receipt says is frozen.
///
/// # Errors
/// [`NotFrozen`].
pub(crate) fn frozen(
    policy: &Policy,
    text: &str,
    intent: &[u8],
) -> Result<FrozenIntent, NotFrozen> {
    let receipt = Receipt::parse(text.as_bytes()).map_err(ReceiptError::from)?;
    receipt::verify_for(&receipt, policy, Demand::Nodes)?;
    let other = |error: &dyn std::fmt::Display| NotFrozen::Other(error.to_string());
    let proof = FreezeProof::of_verified_leaf(&receipt.leaf).map_err(|error| other(&error))?;
    FrozenIntent::check(&proof, intent).map_err(|error| other(&error))
}
