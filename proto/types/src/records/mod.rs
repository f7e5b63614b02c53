//! The records of redlatch, one file per noun (SPEC part C; field names are SPEC's).
//!
//! Rules that hold for all of them:
//!
//! - A record is a CBOR map with integer keys; a key is never reused for another meaning.
//! - Signature fields of SPEC are absent: a signature travels in the [`crate::Envelope`]
//!   around the record, and what SPEC calls owner-signed is the receipt of its leaf (D4).
//! - A record never contains its own digest (M1-I23). `…_ref` and `…_digest` of itself are
//!   outer facts, derived by [`crate::Digest::of`] from the canonical bytes.
//! - Zero means *unspecified* and is refused: enum numbers start at 1 (FAULTS 52).
//! - Times are milliseconds of state time since the Unix epoch (D7), unless a name says clock.

mod action;
mod ballot;
mod base;
mod beat;
mod binding;
mod clause;
mod client;
mod decision;
mod effect;
mod findings;
mod gate;
mod genesis;
mod governance;
mod human;
mod intent;
mod red;
mod root;
mod roster;
mod safety;
mod status;
mod time;
mod transaction;
mod verdict;

pub use action::*;
pub use ballot::*;
pub use base::*;
pub use beat::*;
pub use binding::*;
pub use clause::*;
pub use client::*;
pub use decision::*;
pub use effect::*;
pub use findings::*;
pub use gate::*;
pub use genesis::*;
pub use governance::*;
pub use human::*;
pub use intent::*;
pub use red::*;
pub use root::*;
pub use roster::*;
pub use safety::*;
pub use status::*;
pub use time::*;
pub use transaction::*;
pub use verdict::*;

/// Names a record type inside signed bytes. A name is used once, for ever.
macro_rules! record {
    ($($ty:ty = $name:literal;)*) => {
        /// Every record type that can be signed.
        pub const TYPES: &[&str] = &[$($name,)*];

        $(impl crate::sign::Record for $ty {
            const TYPE: &'static str = $name;
        })*
    };
}

record! {
    GenesisV1 = "genesis";
    CausalEnvelopeV1 = "causal-envelope";
    SentinelVerdictV1 = "sentinel-verdict";
    SentinelRedOutboxV1 = "sentinel-red-outbox";
    OutboxAckV1 = "outbox-ack";
    SentinelBeatV1 = "sentinel-beat";
    VoteV1 = "vote";
    AgentQuorumDecisionV1 = "agent-quorum-decision";
    KeyConfirmationV1 = "quorum-key-confirmation";
    EffectClaimV1 = "effect-claim";
    EffectOutcomeV1 = "effect-outcome";
    SafetyCapabilityV1 = "safety-capability";
    ClockReadingV1 = "clock-reading";
    StatusV1 = "status";
    GateReceiptV1 = "gate-receipt";
    CandidatePushV1 = "candidate-push";
    BootClaimV1 = "boot-claim";
    RaiseOrderV1 = "raise-order";
    PermitBeatV1 = "permit-beat";
    RootActV1 = "root-act";
    FeatureSupportV1 = "feature-support";
    RejoinV1 = "rejoin";
}
