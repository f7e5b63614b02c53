//! Every kind of leaf and command: one spelling, frozen bytes, no second meaning.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with its reason in sight"
)]

use std::collections::{BTreeMap, BTreeSet};

use super::world::*;
use super::{governance, policy, root};
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::*;
use redlatch_types::*;

/// A history that holds every kind of event and command. The keys are fixed and Ed25519 is
/// deterministic, so its bytes are the same on every machine and in every release that keeps
/// the wire format.
fn full_history() -> World {
    let mut world = World::new();
    world.land(MAIN, 0, 7);
    aborted_and_withdrawn(&mut world);
    // Everything below the first RED happens in frozen scopes.
    let committed = world.freeze("refs/heads/side", 0, 8);
    let (id, marker) = world.commit(committed);
    let mut outbox = Outbox::new();
    let verdict = Outbox::verdict(&RedScope::Subject(self::id("agent")), &[5], None);
    let demote = outbox.push(world.scope(), None, verdict.to_canonical());
    let latch = world.latch(RawCommand::LatchRed(vec![demote]));
    let claim = world.claim(id, marker);
    world.apply(claim);
    world.stop(latch);
    let ack = world.ack(latch, 1);
    world.ok(ack);
    let verdict = Outbox::verdict(&RedScope::Subject(self::id("other")), &[3], None);
    let revoke = outbox.push(world.scope(), None, verdict.to_canonical());
    let early = outbox.red(&world, &RedScope::Everything);
    world.ok(early.clone());
    let latch = world.latch(RawCommand::LatchRed(vec![revoke]));
    world.ok(early);
    world.stop(latch);
    let mut refused = world.proposal("agent", MAIN, 7, 9);
    refused.expected_contract_version = 2;
    let command = world.freeze_command(AGENT, "agent", &refused);
    world.apply(command);
    world.apply(RawCommand::Checkpoint);
    world
}

fn aborted_and_withdrawn(world: &mut World) {
    let digest = world.freeze("refs/heads/late", 0, 7);
    let late = world.prepare(digest);
    world.tick(START + 3 * MINUTE);
    world.ok(RawCommand::Abort(late, AbortReason::Expired));
    let digest = world.freeze("refs/heads/regret", 0, 7);
    let payload = WithdrawalV1 {
        intent_digest: digest,
        reason: Text::new("no longer wanted").unwrap(),
    }
    .to_canonical();
    let record = world.envelope_record("agent", &payload);
    world.ok(RawCommand::Withdraw(
        Envelope::seal(world.scope(), &key(AGENT), &record),
        Bytes(payload),
    ));
}

/// An organism that governs itself: every kind of leaf that changes who decides.
fn governed_history() -> World {
    let mut world = World::before_genesis();
    let record = redlatch_journal::development::genesis(parties());
    world.ok(seal_genesis(&record));
    world.tick(START + 1_000);
    let supports = (1..=3).map(|n| root::support(&world, n, 2)).collect();
    world.ok(RawCommand::RaiseFeatureLevel(supports));
    let confirmations = world.key_confirmations(|_, _| {});
    world.ok(RawCommand::ActivateQuorumKey(confirmations));
    let change = world.amended(|c| c.policy_clauses = vec![policy::clause()]);
    world.make_change(change);
    resolved_effect(&mut world);
    world.make_change(governance::enrol(governance::subject("new", 60)));
    let fresh = HumanKeyV1 {
        subject_id: id("bob"),
        ..human_key("bob", 70)
    };
    world.make_change(ActionPayload::KeyChange(Box::new(KeyPayload::Enrol(fresh))));
    let change = world.promotion(|_| {});
    world.make_change(change);
    let latch = Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(latch);
    world.stop(latch);
    world.make_change(governance::reset(&[1]));
    rosters(&mut world);
    let act = root::act(&world, |a| {
        a.old_outbox_root_optional = world.state.authority.outbox.root
    });
    let act = root::sealed(&world, &act, ROOT);
    world.ok(act);
    world
}

/// A landing that a policy decides, and whose end a person has to tell.
fn resolved_effect(world: &mut World) {
    let passed = policy::passed(world);
    let landing = policy::freeze(world, &[&passed]);
    let command = policy::authorize(world, landing, vec![passed]);
    let Accepted::Authorized(capability) = world.ok(command) else {
        panic!("authorized");
    };
    let id = PositiveAuthorityTransactionV1::id_of(&capability);
    world.ok(RawCommand::Prepare(landing, capability));
    let Accepted::Committed(marker) = world.ok(RawCommand::Commit(id)) else {
        panic!("committed");
    };
    let claim = world.claim(id, marker);
    world.ok(claim);
    world.make_change(ActionPayload::ResolveEffect(ResolvePayload {
        transaction_id: id,
        outcome: OutcomeKind::Done,
        observed_head: Bytes(vec![1; 20]),
    }));
}

/// A node joins, another comes back, a verifier is replaced.
fn rosters(world: &mut World) {
    let join = RosterPayload::Join(RosterNode {
        node_id: NodeId(4),
        name: id("n4"),
        seat: Seat::Learner,
        log_key: key(104).public_key(),
        cosigner_key: key(114).public_key(),
        record_key: key(124).public_key(),
    });
    for step in [join, RosterPayload::Promote(NodeId(4))] {
        world.make_change(ActionPayload::RosterChange(Box::new(step)));
    }
    let mut verifiers = world.governance().roster.verifiers;
    verifiers[3].vote_key = key(27).public_key();
    world.make_change(ActionPayload::VerifierSetChange(verifiers));
    let record = RejoinV1 {
        node_id: NodeId(3),
        roster_epoch: world.governance().roster.roster_epoch,
        incarnation: 7,
        record_key: key(123).public_key(),
    };
    let rejoin = Envelope::seal(world.scope(), &key(123), &record);
    world.ok(RawCommand::Rejoin(rejoin));
}

/// The first leaf of each kind, by its word.
fn leaves() -> BTreeMap<&'static str, Vec<u8>> {
    let mut found = BTreeMap::new();
    for world in [full_history(), governed_history()] {
        for (event, leaf) in world.events.iter().zip(&world.leaves) {
            found.entry(event.word()).or_insert_with(|| leaf.clone());
        }
    }
    found
}

#[test]
fn the_history_holds_every_kind_of_leaf_and_command() {
    assert_eq!(leaves().len(), 38, "kinds of events");
    let worlds = [full_history(), governed_history()];
    let entries = worlds
        .iter()
        .flat_map(|world| world.entries.iter().flatten());
    let commands: BTreeSet<u8> = entries.map(|c| kind(c)).collect();
    assert_eq!(commands, (1..=25).collect(), "kinds of commands");
}

/// The number of a command's kind: second byte of `[kind, [fields]]`, or the third above 23.
fn kind(command: &[u8]) -> u8 {
    assert_eq!(command[0], 0x82);
    if command[1] == 0x18 {
        command[2]
    } else {
        command[1]
    }
}

#[test]
fn frozen_bytes_of_every_leaf() {
    let mut listed = String::new();
    for (word, leaf) in leaves() {
        listed += &format!("{word} {} {}\n", leaf.len(), Digest::of(&leaf));
    }
    let frozen = include_str!("frozen/leaves.txt");
    assert_eq!(
        listed, frozen,
        "the wire format changed: raise the feature level, keep the old decoder, then refreeze"
    );
}

/// FAULTS 48 to 51, over every kind: a changed byte is refused or is another value.
#[test]
fn fault_048_a_changed_byte_never_spells_the_same_leaf() {
    for (word, leaf) in leaves() {
        let event = Event::from_canonical(&leaf).unwrap();
        // Every byte of short leaves, a spread of long ones, always the first hundred.
        let step = 1 + leaf.len() / 512;
        for i in (0..leaf.len()).filter(|i| *i < 100 || i % step == 0) {
            for flip in [0x01, 0x20, 0x80] {
                let mut changed = leaf.clone();
                changed[i] ^= flip;
                if let Ok(other) = Event::from_canonical(&changed) {
                    assert_eq!(other.to_canonical(), changed, "{word} at {i}");
                    assert_ne!(other, event, "{word} at {i}");
                }
            }
        }
        let mut longer = leaf.clone();
        longer.push(0);
        assert!(
            Event::from_canonical(&longer).is_err(),
            "{word} with a tail"
        );
        assert!(Event::from_canonical(&leaf[..leaf.len() - 1]).is_err());
    }
}

#[test]
fn fault_056_no_record_type_can_be_read_as_another() {
    let names: BTreeSet<_> = TYPES.iter().collect();
    assert_eq!(names.len(), TYPES.len());
    let scope = World::new().scope();
    let body = digest("body");
    for a in TYPES {
        for b in TYPES {
            let equal = sign::preimage(a, &scope, &body) == sign::preimage(b, &scope, &body);
            assert_eq!(equal, a == b);
        }
    }
}

/// FAULTS 52: the default of everything is refused, as bytes and as numbers.
#[test]
fn fault_052_zero_and_emptiness_are_no_command() {
    for bytes in [
        &[][..],
        &[0x00],
        &[0x80],
        &[0xa0],
        &[0x82, 0x00, 0x80],
        &[0x82, 0x18, 0xc8, 0x80],
    ] {
        assert!(RawCommand::from_canonical(bytes).is_err());
        assert!(Event::from_canonical(bytes).is_err());
    }
    assert!(Mode::from_canonical(&[0]).is_err());
    assert!(Verdict::from_canonical(&[0]).is_err());
    assert!(VoteVerdict::from_canonical(&[0]).is_err());
    assert!(AuthorityVariant::from_canonical(&[0]).is_err());
    assert!(OutcomeKind::from_canonical(&[0]).is_err());
}
