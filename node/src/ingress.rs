//! The door for commands: which role may bring which kind, and in which class it waits.
//!
//! The certificate is a check at the door only: authority is the signature inside the command, and the
//! journal judges it. What drivers and the proposer make is never accepted from outside, so nobody can
//! bring a step forward that its own conditions do not.

use redlatch_link::Role;
use redlatch_raft::proposer::Class;

/// The kinds of commands, by their number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Start the organism.
    Bootstrap = 1,
    /// Move state time.
    Tick = 2,
    /// Activate the quorum's key.
    ActivateQuorumKey = 3,
    /// Freeze an intent.
    FreezeIntent = 4,
    /// Decide and mint.
    Authorize = 5,
    /// Consume the capability.
    Prepare = 6,
    /// Write the marker.
    Commit = 7,
    /// End a transaction.
    Abort = 8,
    /// Take back.
    Withdraw = 9,
    /// Claim an effect.
    ClaimEffect = 10,
    /// Report an outcome.
    ReportOutcome = 11,
    /// Latch REDs.
    LatchRed = 12,
    /// Store a safety attempt.
    StoreSafetyIntent = 13,
    /// Prepare a safety transaction.
    PrepareSafety = 14,
    /// Claim the latch.
    ClaimSafety = 15,
    /// End the latch.
    FinishSafety = 16,
    /// Close an outbox entry.
    AcknowledgeOutbox = 17,
    /// Put a StateRoot leaf.
    Checkpoint = 18,
    /// Ask that a person be challenged.
    OpenChallenge = 19,
    /// Decide by persons and mint.
    AuthorizeHuman = 20,
    /// Decide by policy and mint.
    AuthorizePolicy = 21,
    /// Put a committed change in force.
    Activate = 22,
    /// Replace pins of the kernel.
    RootAct = 23,
    /// Raise the feature level.
    RaiseFeatureLevel = 24,
    /// Come back as a learner.
    Rejoin = 25,
}

/// Canonical CBOR of an enum: an array of two, the first of them the variant's number.
const ARRAY_OF_TWO: u8 = 0x82;
/// An integer from 24 on stands in a byte of its own (RFC 8949 §3.1); below, this byte would be the integer.
const ONE_BYTE_FOLLOWS: u8 = 0x18;

impl Kind {
    /// Every kind, ascending.
    pub const ALL: [Kind; 25] = [
        Kind::Bootstrap,
        Kind::Tick,
        Kind::ActivateQuorumKey,
        Kind::FreezeIntent,
        Kind::Authorize,
        Kind::Prepare,
        Kind::Commit,
        Kind::Abort,
        Kind::Withdraw,
        Kind::ClaimEffect,
        Kind::ReportOutcome,
        Kind::LatchRed,
        Kind::StoreSafetyIntent,
        Kind::PrepareSafety,
        Kind::ClaimSafety,
        Kind::FinishSafety,
        Kind::AcknowledgeOutbox,
        Kind::Checkpoint,
        Kind::OpenChallenge,
        Kind::AuthorizeHuman,
        Kind::AuthorizePolicy,
        Kind::Activate,
        Kind::RootAct,
        Kind::RaiseFeatureLevel,
        Kind::Rejoin,
    ];

    /// The kind of a command's canonical bytes, before anything else of them is read. `None`: not canonical.
    pub fn peek(command: &[u8]) -> Option<Kind> {
        let number = match command {
            [ARRAY_OF_TWO, ONE_BYTE_FOLLOWS, long, ..] if *long >= ONE_BYTE_FOLLOWS => *long,
            [ARRAY_OF_TWO, short, ..] if *short < ONE_BYTE_FOLLOWS => *short,
            _ => return None,
        };
        Kind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// The class in which it waits for its place: RED before safety before the rest.
    pub const fn class(self) -> Class {
        match self {
            Kind::LatchRed => Class::Red,
            Kind::StoreSafetyIntent
            | Kind::PrepareSafety
            | Kind::ClaimSafety
            | Kind::FinishSafety
            | Kind::AcknowledgeOutbox => Class::Safety,
            _ => Class::Client,
        }
    }
}

/// What a holder of `role` may bring. Anything that is not listed is denied.
pub const fn brings(role: Role) -> &'static [Kind] {
    match role {
        Role::Client => &[Kind::FreezeIntent, Kind::Withdraw, Kind::OpenChallenge],
        Role::Operator => &[
            Kind::FreezeIntent,
            Kind::Withdraw,
            Kind::OpenChallenge,
            Kind::RaiseFeatureLevel,
            Kind::RootAct,
        ],
        Role::Gate => &[Kind::ClaimEffect, Kind::ReportOutcome],
        Role::Verifier => &[Kind::ActivateQuorumKey],
        Role::Sentinel => &[Kind::LatchRed, Kind::AcknowledgeOutbox],
        Role::Actuator => &[
            Kind::StoreSafetyIntent,
            Kind::PrepareSafety,
            Kind::ClaimSafety,
            Kind::FinishSafety,
        ],
        Role::Node | Role::Runner => &[],
    }
}

/// Whether a holder of `role` may bring a command of `kind`.
pub fn admits(role: Role, kind: Kind) -> bool {
    brings(role).contains(&kind)
}

/// Roles that may connect to the client listener. Nodes have a listener of their own.
pub const CALLERS: [Role; 7] = [
    Role::Verifier,
    Role::Sentinel,
    Role::Actuator,
    Role::Client,
    Role::Gate,
    Role::Operator,
    Role::Runner,
];

#[cfg(test)]
mod tests {
    use redlatch_types::command::RawCommand;
    use redlatch_types::records::AbortReason;
    use redlatch_types::{
        Bytes, Canonical, CapabilityId, Digest, Envelope, IntentDigest, OrganismId, PublicKey,
        Scope, Signature, TickNumber, TransactionId,
    };

    use super::*;

    /// One row per kind, one column per role in the order of `Role::ALL`:
    /// node, verifier, sentinel, actuator, client, gate, operator, runner.
    const EXPECTED: [(Kind, &str); 25] = [
        (Kind::Bootstrap, "........"),
        (Kind::Tick, "........"),
        (Kind::ActivateQuorumKey, ".x......"),
        (Kind::FreezeIntent, "....x.x."),
        (Kind::Authorize, "........"),
        (Kind::Prepare, "........"),
        (Kind::Commit, "........"),
        (Kind::Abort, "........"),
        (Kind::Withdraw, "....x.x."),
        (Kind::ClaimEffect, ".....x.."),
        (Kind::ReportOutcome, ".....x.."),
        (Kind::LatchRed, "..x....."),
        (Kind::StoreSafetyIntent, "...x...."),
        (Kind::PrepareSafety, "...x...."),
        (Kind::ClaimSafety, "...x...."),
        (Kind::FinishSafety, "...x...."),
        (Kind::AcknowledgeOutbox, "..x....."),
        (Kind::Checkpoint, "........"),
        (Kind::OpenChallenge, "....x.x."),
        (Kind::AuthorizeHuman, "........"),
        (Kind::AuthorizePolicy, "........"),
        (Kind::Activate, "........"),
        (Kind::RootAct, "......x."),
        (Kind::RaiseFeatureLevel, "......x."),
        (Kind::Rejoin, "........"),
    ];

    #[test]
    fn every_cell_of_the_table_of_roles_and_commands() {
        let mut cells = 0;
        for ((kind, row), expected_kind) in EXPECTED.iter().zip(Kind::ALL) {
            assert_eq!(*kind, expected_kind);
            for (role, cell) in Role::ALL.into_iter().zip(row.chars()) {
                assert_eq!(admits(role, *kind), cell == 'x', "{role} {kind:?}");
                cells += 1;
            }
        }
        assert_eq!(cells, 25 * 8);
    }

    #[test]
    fn only_red_waits_with_red() {
        for kind in Kind::ALL {
            assert_eq!(kind.class() == Class::Red, kind == Kind::LatchRed);
        }
        assert_eq!(Kind::FreezeIntent.class(), Class::Client);
        assert_eq!(Kind::AcknowledgeOutbox.class(), Class::Safety);
    }

    fn envelope() -> Envelope {
        Envelope {
            scope: Scope {
                organism_id: OrganismId(Digest::ZERO),
                organism_epoch: 1,
            },
            key: PublicKey([1; 32]),
            body: Bytes(vec![1]),
            signature: Signature([2; 64]),
        }
    }

    #[test]
    fn the_kind_is_read_from_the_canonical_bytes() {
        let intent = IntentDigest(Digest::ZERO);
        let transaction = TransactionId(Digest::ZERO);
        let commands = [
            (RawCommand::Bootstrap(envelope()), Kind::Bootstrap),
            (RawCommand::Tick(TickNumber(1), vec![]), Kind::Tick),
            (
                RawCommand::ActivateQuorumKey(vec![]),
                Kind::ActivateQuorumKey,
            ),
            (
                RawCommand::FreezeIntent(envelope(), Bytes(vec![])),
                Kind::FreezeIntent,
            ),
            (
                RawCommand::Prepare(intent, CapabilityId(Digest::ZERO)),
                Kind::Prepare,
            ),
            (RawCommand::Commit(transaction), Kind::Commit),
            (
                RawCommand::Abort(transaction, AbortReason::Expired),
                Kind::Abort,
            ),
            (
                RawCommand::Withdraw(envelope(), Bytes(vec![])),
                Kind::Withdraw,
            ),
            (RawCommand::ClaimEffect(envelope()), Kind::ClaimEffect),
            (RawCommand::ReportOutcome(envelope()), Kind::ReportOutcome),
            (RawCommand::LatchRed(vec![envelope()]), Kind::LatchRed),
            (RawCommand::PrepareSafety(envelope()), Kind::PrepareSafety),
            (RawCommand::ClaimSafety(transaction), Kind::ClaimSafety),
            (RawCommand::FinishSafety(transaction), Kind::FinishSafety),
            (
                RawCommand::AcknowledgeOutbox(envelope()),
                Kind::AcknowledgeOutbox,
            ),
            (RawCommand::Checkpoint, Kind::Checkpoint),
            (
                RawCommand::OpenChallenge(envelope(), Bytes(vec![])),
                Kind::OpenChallenge,
            ),
            (RawCommand::Activate(transaction), Kind::Activate),
            (RawCommand::RootAct(envelope()), Kind::RootAct),
            (
                RawCommand::RaiseFeatureLevel(vec![]),
                Kind::RaiseFeatureLevel,
            ),
            (RawCommand::Rejoin(envelope()), Kind::Rejoin),
        ];
        for (command, kind) in commands {
            assert_eq!(Kind::peek(&command.to_canonical()), Some(kind));
        }
        let long = [0x82, 0x18, 4];
        let unknown = [0x82, 0x18, 26];
        for bytes in [
            &[][..],
            &[0x82],
            &[0x82, 0],
            &[0x82, 0x18],
            &long,
            &unknown,
            &[0x83, 4],
        ] {
            assert_eq!(Kind::peek(bytes), None);
        }
    }
}
