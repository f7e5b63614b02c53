//! Commands as they travel: what anybody may ask the journal to do, before any check.
//!
//! A command is canonical CBOR whose signed parts are [`Envelope`]s. Nothing here is believed:
//! `admit` in the journal opens every envelope, `decide` compares the signers with the state.
//! Drivers' steps (PREPARE, COMMIT, …) carry no signature, because their authority is what
//! they refer to; they are compare-and-set on its state.

use minicbor::{Decode, Encode};

use crate::bytes::Bytes;
use crate::ids::{CapabilityId, IntentDigest, TickNumber, TransactionId};
use crate::records::{AbortReason, HumanApprovalV1, SafetyActionIntentV1, SealSheetV1};
use crate::sign::Envelope;

/// A command before admission.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum RawCommand {
    /// Start the organism. Signed by the offline root.
    #[n(1)]
    Bootstrap(#[n(0)] Envelope),
    /// Move state time. Carries a majority's clock readings.
    #[n(2)]
    Tick(#[n(0)] TickNumber, #[n(1)] Vec<Envelope>),
    /// Activate the quorum's first key. Carries the four verifiers' confirmations.
    #[n(3)]
    ActivateQuorumKey(#[n(0)] Vec<Envelope>),
    /// Freeze an intent. Signed envelope and the proposal's canonical bytes.
    #[n(4)]
    FreezeIntent(#[n(0)] Envelope, #[n(1)] Bytes),
    /// Decide and mint. See [`Authorization`].
    #[n(5)]
    Authorize(#[n(0)] Box<Authorization>),
    /// Consume the capability.
    #[n(6)]
    Prepare(#[n(0)] IntentDigest, #[n(1)] CapabilityId),
    /// Write the marker.
    #[n(7)]
    Commit(#[n(0)] TransactionId),
    /// End a transaction whose reason to end is true in state.
    #[n(8)]
    Abort(#[n(0)] TransactionId, #[n(1)] AbortReason),
    /// The proposer takes back. Signed envelope and the withdrawal's canonical bytes.
    #[n(9)]
    Withdraw(#[n(0)] Envelope, #[n(1)] Bytes),
    /// Claim an effect. Signed by the executor.
    #[n(10)]
    ClaimEffect(#[n(0)] Envelope),
    /// Report an effect's outcome. Signed by the executor.
    #[n(11)]
    ReportOutcome(#[n(0)] Envelope),
    /// Latch REDs: a segment of the sentinel's outbox, ascending.
    #[n(12)]
    LatchRed(#[n(0)] Vec<Envelope>),
    /// Store a safety attempt before it is signed.
    #[n(13)]
    StoreSafetyIntent(#[n(0)] Box<SafetyActionIntentV1>),
    /// Prepare a safety transaction. Signed by the pinned actuator.
    #[n(14)]
    PrepareSafety(#[n(0)] Envelope),
    /// Claim the latch and write the safety marker.
    #[n(15)]
    ClaimSafety(#[n(0)] TransactionId),
    /// End the latch once its rollbacks are ordered.
    #[n(16)]
    FinishSafety(#[n(0)] TransactionId),
    /// The sentinel holds the terminal acknowledgement. Signed by the sentinel.
    #[n(17)]
    AcknowledgeOutbox(#[n(0)] Envelope),
    /// Put a StateRoot leaf at the end of this entry.
    #[n(18)]
    Checkpoint,
    /// Ask that a person be challenged. Signed envelope and the request's canonical bytes.
    #[n(19)]
    OpenChallenge(#[n(0)] Envelope, #[n(1)] Bytes),
    /// Decide by persons and mint.
    #[n(20)]
    AuthorizeHuman(#[n(0)] Box<HumanAuthorization>),
    /// Decide by policy and mint.
    #[n(21)]
    AuthorizePolicy(#[n(0)] Box<PolicyAuthorization>),
    /// Put a committed change of the organism itself in force (DESIGN §5.8).
    #[n(22)]
    Activate(#[n(0)] TransactionId),
    /// Replace pins of the kernel. Signed by the offline root.
    #[n(23)]
    RootAct(#[n(0)] Envelope),
    /// Raise the feature level. Carries every node's statement that it supports it.
    #[n(24)]
    RaiseFeatureLevel(#[n(0)] Vec<Envelope>),
    /// A node that lost its disk comes back as a learner. Signed by its record key.
    #[n(25)]
    Rejoin(#[n(0)] Envelope),
}

/// What one `AuthorizeHuman` carries: GREEN and the persons' approvals.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct HumanAuthorization {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// The sentinel's GREEN.
    #[n(1)]
    pub green: Envelope,
    /// Approvals, ascending by challenge.
    #[n(2)]
    pub approvals: Vec<HumanApprovalV1>,
}

/// What one `AuthorizePolicy` carries: GREEN and the gate receipts that the clauses ask for.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PolicyAuthorization {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// The sentinel's GREEN.
    #[n(1)]
    pub green: Envelope,
    /// Gate receipts, each signed by its runner, ascending by digest.
    #[n(2)]
    pub receipts: Vec<Envelope>,
}

/// What one `Authorize` carries: GREEN, the opened votes, their sheet, the quorum's decision.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Authorization {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// The sentinel's GREEN.
    #[n(1)]
    pub green: Envelope,
    /// Opened votes, ascending by voter.
    #[n(2)]
    pub votes: Vec<Envelope>,
    /// The sheet that fixed them.
    #[n(3)]
    pub sheet: SealSheetV1,
    /// The decision under the group key.
    #[n(4)]
    pub decision: Envelope,
}
