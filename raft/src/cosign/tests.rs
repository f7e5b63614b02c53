//! Tests of the cosigner: order, holds, restarts.

use futures::executor::block_on;
use redlatch_journal::tree::Frontier;
use redlatch_types::checkpoint::Stage;
use redlatch_types::records::{PinnedParty, RosterNode, RosterV1, Seat};
use redlatch_types::{Name, NodeId, OrganismId, RosterEpoch, merkle};

use super::*;
use crate::archive;
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
    let disk = SimDisk::new();
    let engine = disk.open().expect("opens");
    let mut frontier = Frontier::new();
    let mut places = Vec::new();
    for leaf in 0..count {
        let bytes = vec![leaf, salt];
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
