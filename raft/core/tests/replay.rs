//! Replay and order: the same entries give the same state, leaves rebuild it, nothing panics.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with its reason in sight"
)]

use super::world::*;
use proptest::prelude::*;
use redlatch_journal::{EntryId, State};
use redlatch_types::Canonical;
use redlatch_types::command::RawCommand;
use redlatch_types::event::Event;
use redlatch_types::records::*;

/// A busy history: landings, refusals, a RED, its end.
fn history() -> World {
    let mut world = World::new();
    world.land(MAIN, 0, 7);
    let digest = world.freeze(MAIN, 7, 8);
    let late = world.prepare(digest);
    let mut outbox = Outbox::new();
    let red = outbox.red(&world, &RedScope::Intent(digest));
    let latch = world.latch(red);
    world.refused(RawCommand::Commit(late));
    world.stop(latch);
    let ack = world.ack(latch, 1);
    world.ok(ack);
    world.tick(START + 5 * MINUTE);
    world.apply(RawCommand::Checkpoint);
    world
}

fn at(index: u64) -> EntryId {
    EntryId {
        term: 1,
        leader: 1,
        index,
    }
}

#[test]
fn fault_017_the_same_entries_give_the_same_state_and_leaves() {
    let world = history();
    let mut again = State::new();
    let mut leaves = Vec::new();
    for (entry, index) in world.entries.iter().zip(1..) {
        leaves.extend(again.apply(at(index), entry).leaves);
    }
    assert_eq!(again, world.state);
    assert_eq!(leaves, world.leaves);
    assert_eq!(again.digest(), world.state.digest());
}

#[test]
fn evolving_over_the_leaves_gives_the_same_authority_and_tree() {
    let world = history();
    let mut replayed = State::new();
    let mut roots = 0;
    for leaf in &world.leaves {
        let before = replayed.digest();
        if let Event::StateRoot(root) = replayed.replay(leaf).unwrap() {
            assert_eq!(root.authority_digest, before);
            roots += 1;
        }
    }
    assert_eq!(roots, 1);
    assert_eq!(replayed.authority, world.state.authority);
    assert_eq!(replayed.head(), world.state.head());
}

#[test]
fn a_snapshot_is_the_state_that_its_state_root_names() {
    let world = history();
    let bytes = world.state.to_bytes();
    let restored = State::from_bytes(&bytes).unwrap();
    assert_eq!(restored, world.state);
    let Some(Event::StateRoot(root)) = world.events.last() else {
        panic!("the last entry asked for a StateRoot")
    };
    assert_eq!(root.authority_digest, restored.digest());
    assert_eq!(root.size + 1, restored.log.frontier.size());
}

#[test]
fn fault_006_a_state_root_follows_every_boundary() {
    let mut world = World::new();
    let every = redlatch_types::limits::STATE_ROOT_EVERY_LEAVES;
    let mut time = world.now();
    while world.state.log.frontier.size() < every + 2 {
        time += 1;
        world.tick(time);
    }
    let roots: Vec<u64> = world
        .events
        .iter()
        .filter_map(|e| match e {
            Event::StateRoot(root) => Some(root.size),
            _ => None,
        })
        .collect();
    assert_eq!(roots, [every]);
}

/// What stepped in an entry is no part of the state that the entry's root is of.
#[test]
fn fault_006_a_state_root_in_the_entry_of_a_step_is_what_replay_leads_to() {
    let mut world = World::new();
    let proposal = world.proposal("agent", MAIN, 0, 7);
    let freeze = world.freeze_command(AGENT, "agent", &proposal);
    world.apply_together(vec![freeze, RawCommand::Checkpoint]);
    let Some(Event::StateRoot(root)) = world.events.last() else {
        panic!("a checkpoint asks for one");
    };
    let mut state = State::new();
    let (_, before) = world.leaves.split_last().expect("its own leaf");
    for leaf in before {
        state.replay(leaf).expect("a leaf of this journal");
    }
    assert_eq!(root.authority_digest, state.digest());
}

#[test]
fn heads_are_asked_for_at_the_places_of_d4() {
    let mut world = World::new();
    let number = world.state.authority.clock.tick.next();
    let readings = world.readings(&[(1, START + 9_000), (2, START + 9_000)]);
    let tick = RawCommand::Tick(number, readings).to_canonical();
    let applied = world.state.apply(at(100), &[tick]);
    assert_eq!(applied.head, Some(world.state.head()));
    let nothing = world.state.apply(at(101), &[vec![0xff]]);
    assert_eq!(nothing.head, None);
    assert!(nothing.leaves.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// FAULTS 18: apply is total over arbitrary bytes, mutated commands included.
    #[test]
    fn fault_018_apply_is_total(
        which: prop::sample::Index,
        at_byte: prop::sample::Index,
        flip in 1..=255u8,
        cut in 0usize..8,
    ) {
        let world = history();
        let entry = which.get(&world.entries);
        let mut bytes = entry[0].clone();
        let i = at_byte.index(bytes.len());
        bytes[i] ^= flip;
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        let mut state = world.state.clone();
        let applied = state.apply(at(1_000), &[bytes]);
        prop_assert_eq!(applied.outcomes.len(), 1);
    }

    /// Any leaf, however damaged, is refused or evolves; it never panics.
    #[test]
    fn evolve_is_total(which: prop::sample::Index, at_byte: prop::sample::Index, flip in 1..=255u8) {
        let world = history();
        let mut leaf = which.get(&world.leaves).clone();
        let i = at_byte.index(leaf.len());
        leaf[i] ^= flip;
        let mut state = world.state.clone();
        let _ = state.replay(&leaf);
        let mut empty = State::new();
        let _ = empty.replay(&leaf);
    }

    /// A changed command never has the effect of the command it was made from.
    #[test]
    fn a_mutated_signed_command_is_refused(at_byte: prop::sample::Index, flip in 1..=255u8) {
        let mut world = World::new();
        let proposal = world.proposal("agent", MAIN, 0, 7);
        let mut bytes = world.freeze_command(AGENT, "agent", &proposal).to_canonical();
        let i = at_byte.index(bytes.len());
        bytes[i] ^= flip;
        let outcome = world.apply_bytes(vec![bytes]).remove(0);
        prop_assert!(outcome.reply.is_err());
        let changed = world.events.iter().any(|e| matches!(e, Event::Frozen(..)));
        prop_assert!(!changed);
    }
}
