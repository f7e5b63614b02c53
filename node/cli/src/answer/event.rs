//! A leaf of the journal: `journal tail`, and inside the answers of `intent show` and `receipt verify`.

use serde::{Deserialize, Serialize};

use super::Decimal;

/// A leaf with its place.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Leaf {
    pub(crate) position: Decimal,
    #[serde(flatten)]
    pub(crate) told: Told,
}

/// An event's word and fields. Times are RFC 3339 in UTC.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time is told and printed; a box would only hide the fields"
)]
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "fields", rename_all = "snake_case")]
pub(crate) enum Told {
    Bootstrapped {
        organism: String,
        organism_name: String,
        kind: String,
        nodes: u32,
        verifiers: u32,
    },
    Ticked {
        tick: Decimal,
        state_time: String,
        readings: u32,
    },
    QuorumKeyActivated {
        key_epoch: Decimal,
        group_key: String,
        public_key_package: String,
    },
    Frozen {
        intent: String,
        frozen_at: String,
        caller: String,
        executor: Option<String>,
        action: String,
        variant: String,
        resource: String,
        repository: Option<String>,
        r#ref: Option<String>,
        old: Option<String>,
        new: Option<String>,
        event_id: String,
        expires_at: String,
    },
    Authorized {
        intent: String,
        capability: String,
        label: String,
        votes: u32,
    },
    Prepared {
        transaction: String,
        intent: String,
    },
    Committed {
        marker: Decimal,
        transaction: String,
        intent: String,
        committed_at: String,
        effect_deadline: String,
    },
    Aborted {
        transaction: String,
        intent: String,
        reason: String,
    },
    Withdrawn {
        intent: String,
        caller: String,
        event_id: String,
    },
    EffectClaimed {
        transaction: String,
        marker: Decimal,
        effect_key: String,
    },
    EffectReported {
        transaction: String,
        outcome: String,
        head: String,
    },
    EffectWithheld {
        transaction: String,
        marker: Decimal,
    },
    RedLatched {
        latch: Decimal,
        outbox_epoch: Decimal,
        chain: String,
        latched_at: String,
        ground: String,
    },
    RedChained {
        outbox_epoch: Decimal,
        root: String,
    },
    GrantRevoked {
        grant: String,
    },
    GrantDemoted {
        grant: String,
        becomes: String,
    },
    SafetyIntentStored {},
    SafetyPrepared {
        transaction: String,
    },
    LatchCommitting {
        latch: Decimal,
        transaction: String,
    },
    SafetyCommitted {
        marker: Decimal,
        transaction: String,
    },
    EpochPublished {
        autonomy_epoch: Decimal,
        mode: String,
    },
    SafetyTerminal {
        latch: Decimal,
        transaction: String,
    },
    OutboxAcknowledged {
        latch: Decimal,
    },
    Refused {
        subject: String,
        code: String,
        command: String,
    },
    StateRoot {
        authority: String,
        term: Decimal,
        index: Decimal,
        size: Decimal,
    },
    ChallengeIssued {
        challenge: String,
        intent: String,
        approver: String,
    },
    Activated {
        transaction: String,
        marker: Decimal,
        autonomy_epoch: Decimal,
    },
    ConstitutionAmended {
        constitution_epoch: Decimal,
        constitution: String,
    },
    GrantGiven {
        grant: String,
        replaces: Option<String>,
    },
    SubjectChanged {
        subject: String,
        revoked: bool,
    },
    HumanKeyChanged {
        key: String,
        subject: String,
        revoked: bool,
    },
    RosterChanged {
        roster_epoch: Decimal,
    },
    NodeRejoined {
        roster_epoch: Decimal,
    },
    QuorumKeyVoided {
        key_epoch: Decimal,
    },
    GroundsReset {
        grounds: String,
    },
    RootActed {
        act: Decimal,
        ground: String,
    },
    FeatureLevelRaised {
        feature_level: Decimal,
    },
    EffectResolved {
        transaction: String,
        outcome: String,
        head: String,
    },
    /// The leaf is no event that this build can read; it has no fields.
    #[serde(rename = "unknown to this build")]
    Unknown,
}
