//! FAULTS 52: the empty instance of every command is refused, unsigned and well signed.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with its reason in sight"
)]

#[path = "../../../proto/types/tests/records/draw.rs"]
mod draw;
use super::world::*;
use draw::{Draw, Gen, Ways};
use redlatch_types::command::{Authorization, RawCommand};
use redlatch_types::records::*;
use redlatch_types::*;

/// What carries nothing by nature, so that there is nothing to leave empty.
const EMPTY_BY_NATURE: [&str; 1] = ["Checkpoint"];

/// An organism before its genesis, one that has just started, and one in the midst of things:
/// an intent frozen, one prepared, one effect committed, one stop pending with its attempt.
fn worlds() -> Vec<World> {
    let mut busy = World::new();
    busy.freeze("refs/heads/frozen", 0, 7);
    let prepared = busy.freeze("refs/heads/prepared", 0, 8);
    busy.prepare(prepared);
    let committed = busy.freeze("refs/heads/committed", 0, 9);
    busy.commit(committed);
    let red = Outbox::new().red(&busy, &RedScope::Mission(id("elsewhere")));
    let latch = busy.latch(red);
    busy.store_attempt(latch);
    vec![World::before_genesis(), World::new(), busy]
}

#[test]
fn fault_052_the_empty_instance_of_every_command_is_refused() {
    for mut world in worlds() {
        let started = world.state.authority.governance.is_some();
        for (name, way) in RawCommand::ways() {
            let outcome = world.apply(way(&mut Gen::empty()));
            let accepted = started && EMPTY_BY_NATURE.contains(&name);
            assert_eq!(outcome.reply.is_ok(), accepted, "{name}: {outcome:?}");
        }
    }
}

/// An empty record, signed as it should be.
fn sealed<T: Record + Draw>(world: &World, signer: u8) -> Envelope {
    Envelope::seal(world.scope(), &key(signer), &T::draw(&mut Gen::empty()))
}

/// The same command with every signed part empty and signed by the party whose part it is. A new
/// command does not compile here until it says who signs it.
fn signed(world: &World, command: RawCommand) -> RawCommand {
    match command {
        RawCommand::Bootstrap(_) => {
            let genesis = GenesisV1::draw(&mut Gen::empty());
            RawCommand::Bootstrap(Envelope::seal(genesis.scope(), &key(ROOT), &genesis))
        }
        RawCommand::Tick(number, _) => {
            let readings = (121..=123).map(|n| sealed::<ClockReadingV1>(world, n));
            RawCommand::Tick(number, readings.collect())
        }
        RawCommand::ActivateQuorumKey(_) => {
            let parts = VERIFIERS.map(|(_, n, _)| sealed::<KeyConfirmationV1>(world, n));
            RawCommand::ActivateQuorumKey(parts.to_vec())
        }
        RawCommand::FreezeIntent(_, payload) => {
            RawCommand::FreezeIntent(sealed::<CausalEnvelopeV1>(world, AGENT), payload)
        }
        RawCommand::Authorize(_) => RawCommand::Authorize(Box::new(Authorization {
            intent_digest: IntentDigest(Digest::ZERO),
            green: sealed::<SentinelVerdictV1>(world, SENTINEL),
            votes: VERIFIERS
                .map(|(_, n, _)| sealed::<VoteV1>(world, n))
                .to_vec(),
            sheet: SealSheetV1::draw(&mut Gen::empty()),
            decision: sealed::<AgentQuorumDecisionV1>(world, GROUP),
        })),
        RawCommand::Withdraw(_, payload) => {
            RawCommand::Withdraw(sealed::<CausalEnvelopeV1>(world, AGENT), payload)
        }
        RawCommand::ClaimEffect(_) => RawCommand::ClaimEffect(sealed::<EffectClaimV1>(world, GATE)),
        RawCommand::ReportOutcome(_) => {
            RawCommand::ReportOutcome(sealed::<EffectOutcomeV1>(world, GATE))
        }
        RawCommand::PrepareSafety(_) => {
            RawCommand::PrepareSafety(sealed::<SafetyCapabilityV1>(world, ACTUATOR))
        }
        RawCommand::AcknowledgeOutbox(_) => {
            RawCommand::AcknowledgeOutbox(sealed::<OutboxAckV1>(world, SENTINEL))
        }
        // A signed RED always latches, so an empty one does too: see the test below.
        RawCommand::LatchRed(_) => RawCommand::LatchRed(Vec::new()),
        RawCommand::OpenChallenge(_, payload) => {
            RawCommand::OpenChallenge(sealed::<CausalEnvelopeV1>(world, AGENT), payload)
        }
        RawCommand::AuthorizeHuman(mut given) => {
            given.green = sealed::<SentinelVerdictV1>(world, SENTINEL);
            RawCommand::AuthorizeHuman(given)
        }
        RawCommand::AuthorizePolicy(mut given) => {
            given.green = sealed::<SentinelVerdictV1>(world, SENTINEL);
            RawCommand::AuthorizePolicy(given)
        }
        RawCommand::RootAct(_) => RawCommand::RootAct(sealed::<RootActV1>(world, ROOT)),
        RawCommand::RaiseFeatureLevel(_) => {
            let parts = [121, 122, 123].map(|n| sealed::<FeatureSupportV1>(world, n));
            RawCommand::RaiseFeatureLevel(parts.to_vec())
        }
        RawCommand::Rejoin(_) => RawCommand::Rejoin(sealed::<RejoinV1>(world, 121)),
        unsigned @ (RawCommand::Activate(..)
        | RawCommand::Prepare(..)
        | RawCommand::Commit(..)
        | RawCommand::Abort(..)
        | RawCommand::StoreSafetyIntent(..)
        | RawCommand::ClaimSafety(..)
        | RawCommand::FinishSafety(..)
        | RawCommand::Checkpoint) => unsigned,
    }
}

/// The canonical bytes of the empty record that is signed under this name.
pub(super) fn empty_of(name: &str) -> Vec<u8> {
    fn of<T: Record + Draw>() -> (&'static str, Vec<u8>) {
        (T::TYPE, T::draw(&mut Gen::empty()).to_canonical())
    }
    let all = [
        of::<GenesisV1>(),
        of::<ClockReadingV1>(),
        of::<KeyConfirmationV1>(),
        of::<CausalEnvelopeV1>(),
        of::<SentinelVerdictV1>(),
        of::<VoteV1>(),
        of::<AgentQuorumDecisionV1>(),
        of::<EffectClaimV1>(),
        of::<EffectOutcomeV1>(),
        of::<SentinelRedOutboxV1>(),
        of::<SafetyCapabilityV1>(),
        of::<OutboxAckV1>(),
        of::<GateReceiptV1>(),
        of::<RootActV1>(),
        of::<FeatureSupportV1>(),
        of::<RejoinV1>(),
    ];
    let found = all.into_iter().find(|(known, _)| *known == name);
    found.expect("a record of the journal").1
}

#[test]
fn fault_052_an_empty_record_under_a_good_signature_is_refused() {
    for mut world in worlds().into_iter().skip(1) {
        for (name, way) in RawCommand::ways() {
            if EMPTY_BY_NATURE.contains(&name) {
                continue;
            }
            let command = signed(&world, way(&mut Gen::empty()));
            let outcome = world.apply(command);
            assert!(outcome.reply.is_err(), "{name}: {outcome:?}");
        }
    }
}

/// The envelope is all that it should be; only what it carries is empty.
#[test]
fn fault_052_an_empty_payload_under_a_good_envelope_is_refused() {
    let mut world = World::new();
    let proposal = ProposalV1::draw(&mut Gen::empty()).to_canonical();
    let withdrawal = WithdrawalV1::draw(&mut Gen::empty()).to_canonical();
    let freeze = |envelope, payload| RawCommand::FreezeIntent(envelope, payload);
    let withdraw = |envelope, payload| RawCommand::Withdraw(envelope, payload);
    type Wrap = fn(Envelope, Bytes) -> RawCommand;
    let cases: [(&[u8], Wrap); 4] = [
        (&proposal, freeze),
        (&withdrawal, withdraw),
        (&[], freeze),
        (&[], withdraw),
    ];
    for (payload, wrap) in cases {
        let record = world.envelope_record("agent", payload);
        let envelope = Envelope::seal(world.scope(), &key(AGENT), &record);
        let outcome = world.apply(wrap(envelope, Bytes(payload.to_vec())));
        assert!(outcome.reply.is_err(), "{outcome:?}");
    }
}

/// What is empty permits nothing and stops everything (DESIGN §2): the one record that is obeyed
/// when it says nothing is the sentinel's.
#[test]
fn fault_052_an_empty_red_under_a_good_signature_stops_everything() {
    let mut world = World::new();
    let empty = sealed::<SentinelRedOutboxV1>(&world, SENTINEL);
    let latch = world.latch(RawCommand::LatchRed(vec![empty]));
    let receipt = &world.state.authority.latches[&latch].receipt;
    assert_eq!(receipt.mandate.scopes, [RedScope::Everything]);
}
