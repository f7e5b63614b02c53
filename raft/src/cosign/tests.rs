//! Tests of the cosigner: order, holds, restarts.

use futures::executor::block_on;
use redlatch_journal::tree::Frontier;
use redlatch_types::chain::Trust;
use redlatch_types::checkpoint::Stage;
use redlatch_types::event::Event;
use redlatch_types::in_force::RootInForce;
use redlatch_types::records::{PinnedParty, RosterNode, RosterV1, Seat};
use redlatch_types::{Canonical, Name, NodeId, OrganismId, RosterEpoch, Scope, merkle};

use super::*;
use crate::archive;
use crate::chain;
use crate::engine::{Durability, SimDisk, SimEngine, WriteBatch};

fn origin() -> Origin {
    Origin {
        stage: Stage::Development,
        organism: OrganismId(Digest::of(b"o")),
        history: 0,
    }
}

fn key(node: u64, use_: u8) -> SigningKey {
    SigningKey::from_seed([u8::try_from(node).expect("small") * 10 + use_; 32])
}

fn roster() -> RosterV1 {
    let node = |id: u64| RosterNode {
        node_id: NodeId(id),
        name: Name::new(&format!("n{id}")).expect("a name"),
        seat: Seat::Voter,
        log_key: key(id, 1).public_key(),
        cosigner_key: key(id, 2).public_key(),
        record_key: key(id, 3).public_key(),
    };
    let party = PinnedParty {
        name: Name::new("party").expect("a name"),
        key: key(9, 1).public_key(),
        builds_digest: Digest::of(b"b"),
        policy_digest: Digest::of(b"p"),
    };
    RosterV1 {
        roster_epoch: RosterEpoch(1),
        nodes: (1..=3).map(node).collect(),
        verifiers: vec![],
        sentinel: party.clone(),
        actuator: party,
    }
}

fn cosigner(node: u64, engine: SimEngine) -> Cosigner<SimEngine> {
    let keys = NodeSigningKeys {
        log: Arc::new(key(node, 1)),
        cosigner: Arc::new(key(node, 2)),
        record: Arc::new(key(node, 3)),
    };
    let verifiers = HeadKeys::new(origin(), &roster()).expect("keys");
    let name = origin().cosigner_name(&format!("n{node}")).expect("a name");
    Cosigner::open(node, keys, verifiers, name, engine).expect("opens")
}

/// A journal of `count` leaves on a fresh disk; the places after each leaf.
fn journal(count: u8, salt: u8) -> (SimDisk, SimEngine, Vec<HeadPlace>) {
    journal_of((0..count).map(|leaf| vec![leaf, salt]))
}

/// A journal of these leaves.
fn journal_of(leaves: impl IntoIterator<Item = Vec<u8>>) -> (SimDisk, SimEngine, Vec<HeadPlace>) {
    let disk = SimDisk::new();
    let engine = disk.open().expect("opens");
    let mut frontier = Frontier::new();
    let mut places = Vec::new();
    for bytes in leaves {
        let (first, mut nodes) = (frontier.size(), Vec::new());
        frontier.append(merkle::leaf_hash(&bytes), &mut nodes);
        let mut batch = WriteBatch::new();
        archive::put(&mut batch, first, [bytes], &nodes, []);
        block_on(engine.write(batch, Durability::Synced)).expect("written");
        places.push(HeadPlace {
            size: frontier.size(),
            root: frontier.root(),
            state_time_ms: 5_000,
            kind: HeadKind::Neutral,
        });
    }
    (disk, engine, places)
}

fn persist(engine: &SimEngine, record: Vec<u8>) {
    let mut batch = WriteBatch::new();
    batch.put(Family::Meta, LAST_SIGNED, record);
    block_on(engine.write(batch, Durability::Synced)).expect("written");
}

#[test]
fn a_receipt_appears_when_a_majority_has_cosigned_and_verifies_offline() {
    let (_disk, engine, places) = journal(6, 0);
    let (one, two) = (cosigner(1, engine.clone()), cosigner(2, engine));
    let place = places[4];
    let (own, _) = one.consider(place, true).expect("signed");
    one.announce(6, Some(own));
    assert_eq!(
        one.receipt(2).expect("readable"),
        None,
        "one of three is no majority"
    );
    let (peer, _) = two.consider(place, true).expect("signed");
    one.receive(vec![peer]);
    let receipt = one.receipt(2).expect("readable").expect("a majority");
    assert_eq!(receipt.leaf, vec![2, 0]);
    let leaf = merkle::leaf_hash(&receipt.leaf);
    merkle::verify_inclusion(2, 5, &leaf, &receipt.proof.hashes, &place.root).expect("proven");
    assert_eq!(
        one.receipt(5).expect("readable"),
        None,
        "the head is below that leaf"
    );
}

#[test]
fn nothing_is_signed_backwards() {
    let (_disk, engine, places) = journal(6, 0);
    let one = cosigner(1, engine);
    assert!(one.consider(places[4], true).is_some());
    assert!(one.consider(places[2], true).is_none());
    assert!(
        one.consider(places[4], true).is_some(),
        "the same again is the same signature"
    );
    assert!(one.consider(places[5], true).is_some());
}

#[test]
fn after_a_restart_nothing_is_signed_until_the_tree_has_caught_up() {
    let (_disk, engine, places) = journal(6, 0);
    let (_, record) = cosigner(1, engine.clone())
        .consider(places[4], true)
        .expect("signed");
    persist(&engine, record);
    let again = cosigner(1, engine);
    assert!(
        again.consider(places[2], true).is_none(),
        "a smaller tree waits"
    );
    assert_eq!(again.fork(), None, "and is no fork");
    assert!(again.consider(places[4], true).is_some());
    assert!(again.consider(places[5], true).is_some());
}

#[test]
fn another_journal_than_the_one_signed_before_degrades() {
    let (_disk, engine, places) = journal(6, 0);
    let (_, record) = cosigner(1, engine)
        .consider(places[4], true)
        .expect("signed");
    let (_other_disk, other, other_places) = journal(6, 1);
    persist(&other, record);
    let again = cosigner(1, other);
    assert!(again.consider(other_places[5], true).is_none());
    assert!(again.fork().is_some());
    assert!(
        again.consider(other_places[5], true).is_none(),
        "and it stays so"
    );
}

#[test]
fn a_held_red_withholds_positive_markers_until_a_stop() {
    let (_disk, engine, places) = journal(6, 0);
    let one = cosigner(1, engine);
    let of = |at: usize, kind| HeadPlace { kind, ..places[at] };
    one.hold(CosignHold::RedHeld);
    assert!(
        one.consider(of(0, HeadKind::Neutral), true).is_some(),
        "nothing positive yet"
    );
    assert!(one.consider(of(1, HeadKind::Positive), true).is_none());
    assert!(
        one.consider(of(2, HeadKind::Neutral), true).is_none(),
        "it would cover the marker"
    );
    assert!(
        one.consider(of(3, HeadKind::Stop), true).is_some(),
        "a latch is always cosigned"
    );
    assert!(one.consider(of(4, HeadKind::Positive), true).is_none());
    let (lifted, _) = one.hold(CosignHold::None).expect("the withheld head");
    assert_eq!(lifted.size, 5);
}

#[test]
fn a_fork_by_a_peer_stops_all_signing() {
    let (_disk, engine, places) = journal(6, 0);
    let (_other_disk, other, other_places) = journal(6, 1);
    let one = cosigner(1, engine);
    let (own, _) = one.consider(places[3], true).expect("signed");
    one.announce(6, Some(own));
    let (forked, _) = cosigner(2, other)
        .consider(other_places[3], true)
        .expect("signed");
    one.receive(vec![forked.clone()]);
    assert_eq!(one.fork().map(|fork| *fork.found), Some(forked));
    assert!(one.consider(places[5], true).is_none());
}

#[test]
fn a_node_that_does_not_count_signs_nothing_not_even_what_it_withheld() {
    let (_disk, engine, places) = journal(6, 0);
    let one = cosigner(1, engine);
    one.hold(CosignHold::RedHeld);
    let positive = HeadPlace {
        kind: HeadKind::Positive,
        ..places[1]
    };
    assert!(one.consider(positive, true).is_none());
    assert!(one.consider(places[2], false).is_none());
    assert!(one.hold(CosignHold::None).is_none(), "nothing was kept");
    assert!(one.consider(places[3], true).is_some(), "promoted again");
}

#[test]
fn links_beyond_what_is_applied_are_not_taken_and_those_before_them_are() {
    let changed = |epoch| {
        let next = RosterV1 {
            roster_epoch: RosterEpoch(epoch),
            ..roster()
        };
        Event::RosterChanged(Box::new(next)).to_canonical()
    };
    let (_disk, engine, places) = journal_of((2..=4).map(changed));
    let (one, two) = (cosigner(1, engine.clone()), cosigner(2, engine));
    let (own, _) = one.consider(places[2], true).expect("signed");
    one.announce(3, Some(own));
    let (peer, _) = two.consider(places[2], true).expect("signed");
    one.receive(vec![peer]);
    let link = |at| one.receipt(at).expect("readable").expect("a majority");
    let taken = |applied, links: Vec<Receipt>| {
        let root = RootInForce {
            scope: Scope {
                organism_id: origin().organism,
                organism_epoch: 1,
            },
            key: key(9, 9).public_key(),
            kernel_digest: Digest::ZERO,
            acts: 0,
            roster_epoch: RosterEpoch(1),
        };
        let trust = Trust::of_roster(origin(), roster(), root).expect("a policy");
        let (trust, taken) = chain::provable(trust, RosterEpoch(applied), links);
        let epochs: Vec<u64> = taken.iter().map(|(epoch, _)| epoch.0).collect();
        assert_eq!(trust.roster().roster_epoch.0, *epochs.last().unwrap_or(&1));
        epochs
    };
    let all = || (0..3).map(link).collect::<Vec<_>>();
    assert_eq!(taken(4, all()), [2, 3, 4]);
    assert_eq!(taken(3, all()), [2, 3]);
    assert_eq!(taken(1, all()), [0; 0]);
    // One left out ends the chain; what a peer puts before it does not.
    assert_eq!(taken(4, vec![link(0), link(2)]), [2]);
    assert_eq!(taken(4, vec![link(2), link(0), link(1)]), [2, 3]);
}
