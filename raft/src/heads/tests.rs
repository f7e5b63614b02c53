//! Tests of collected heads: majorities and forks.

use redlatch_types::OrganismId;
use redlatch_types::checkpoint::Stage;
use redlatch_types::note::KeyName;
use redlatch_types::sign::SigningKey;

use super::*;

fn origin() -> Origin {
    Origin {
        stage: Stage::Development,
        organism: OrganismId(Digest::of(b"o")),
        history: 0,
    }
}

fn log_key(node: u64) -> SigningKey {
    SigningKey::from_seed([u8::try_from(node).expect("small"); 32])
}

fn cosigner_key(node: u64) -> SigningKey {
    SigningKey::from_seed([u8::try_from(node).expect("small") + 100; 32])
}

fn cosigner_name(node: u64) -> KeyName {
    origin().cosigner_name(&format!("n{node}")).expect("a name")
}

fn keys() -> HeadKeys {
    let voter = |node| {
        let log = log_key(node).public_key();
        let cosigner = cosigner_key(node).public_key();
        let log = VerifierKey::new(origin().log_name(), Algorithm::Ed25519, log).expect("a key");
        let cosigner =
            VerifierKey::new(cosigner_name(node), Algorithm::Cosignature, cosigner).expect("a key");
        (node, (log, cosigner))
    };
    HeadKeys {
        origin: origin(),
        nodes: (1..=4).map(voter).collect(),
        voters: (1..=3).collect(),
    }
}

fn keys_of(voters: &[u64]) -> HeadKeys {
    HeadKeys {
        voters: voters.iter().copied().collect(),
        ..keys()
    }
}

fn head(node: u64, size: u64, root: Digest) -> SignedHead {
    let text = keys().text(size, &root);
    SignedHead {
        node,
        size,
        root,
        state_time_ms: 7_000 + size,
        log_signature: SignatureLine::by_log(origin().log_name(), &log_key(node), &text),
        cosignature: SignatureLine::by_cosigner(
            cosigner_name(node),
            &cosigner_key(node),
            &text,
            (7_000 + size) / 1_000,
        )
        .expect("a time"),
    }
}

/// A tree of a given size whose roots are made up, but one per size.
struct Made(u64);

fn root(size: u64) -> Digest {
    Digest::of(&size.to_be_bytes())
}

impl OwnTree for Made {
    fn size(&self) -> u64 {
        self.0
    }
    fn root_at(&self, size: u64) -> Option<Digest> {
        (size <= self.0).then(|| root(size))
    }
}

fn book() -> HeadBook {
    HeadBook::new(keys())
}

#[test]
fn a_head_needs_both_signatures_of_a_voter() {
    let keys = keys();
    let good = head(2, 5, root(5));
    assert_eq!(keys.verify(&good), Ok(()));
    assert_eq!(
        keys.verify(&SignedHead {
            node: 9,
            ..good.clone()
        }),
        Err(BadHead::NotANode)
    );
    for bad in [
        SignedHead {
            node: 3,
            ..good.clone()
        },
        SignedHead {
            size: 6,
            ..good.clone()
        },
        SignedHead {
            root: root(6),
            ..good.clone()
        },
        SignedHead {
            state_time_ms: 99_000,
            ..good.clone()
        },
        SignedHead {
            log_signature: head(3, 5, root(5)).log_signature,
            ..good.clone()
        },
        SignedHead {
            cosignature: head(3, 5, root(5)).cosignature,
            ..good.clone()
        },
    ] {
        assert_eq!(keys.verify(&bad), Err(BadHead::Signature), "{bad:?}");
    }
}

#[test]
fn a_majority_of_distinct_voters_makes_a_receiptable_head() {
    let (mut book, tree) = (book(), Made(5));
    book.record(head(1, 5, root(5)), &tree).expect("no fork");
    book.record(head(1, 5, root(5)), &tree).expect("no fork");
    assert_eq!(book.settle(&tree), Ok(false), "one node twice is one node");
    book.record(head(3, 5, root(5)), &tree).expect("no fork");
    assert_eq!(book.settle(&tree), Ok(true));
    let cosigned = book.cosigned().expect("a majority");
    assert_eq!((cosigned.size, cosigned.root), (5, root(5)));
    assert_eq!(keys().cosigners(&cosigned.note), 2);
}

#[test]
fn heads_ahead_of_the_tree_wait_for_it() {
    let mut book = book();
    for node in [2, 3] {
        book.record(head(node, 9, root(9)), &Made(5))
            .expect("no fork");
    }
    assert_eq!(book.settle(&Made(5)), Ok(false));
    assert_eq!(book.settle(&Made(9)), Ok(true));
}

#[test]
fn two_histories_are_noticed_whichever_comes_first() {
    // Against the own tree, at once and later.
    assert!(book().record(head(2, 5, root(50)), &Made(5)).is_err());
    let mut later = book();
    later
        .record(head(2, 5, root(50)), &Made(3))
        .expect("not known yet");
    let fork = later.settle(&Made(5)).expect_err("the tree got there");
    assert_eq!((fork.expected, fork.found.root), (root(5), root(50)));
    // Between two peers, ahead of the own tree.
    let mut ahead = book();
    ahead
        .record(head(2, 9, root(9)), &Made(3))
        .expect("the first");
    assert!(ahead.record(head(3, 9, root(90)), &Made(3)).is_err());
}

#[test]
fn a_wanted_head_is_found_below_a_higher_one() {
    let (mut book, tree) = (book(), Made(9));
    book.want(5);
    for node in [1, 2] {
        book.record(head(node, 9, root(9)), &tree).expect("no fork");
    }
    assert_eq!(book.settle(&tree), Ok(true));
    for node in [1, 2] {
        book.record(head(node, 5, root(5)), &tree).expect("no fork");
        book.record(head(node, 6, root(6)), &tree).expect("no fork");
    }
    assert_eq!(book.settle(&tree), Ok(false), "never backwards");
    assert_eq!(
        book.cosigned_at(5, &tree).map(|head| head.root),
        Some(root(5))
    );
    assert_eq!(book.cosigned_at(6, &tree), None, "nobody asked for it");
}

#[test]
fn fault_094_one_node_cannot_fill_the_book_with_the_future() {
    let mut book = book();
    for size in 10..10 + 3 * AHEAD_PER_NODE_MAX as u64 {
        book.record(head(2, size, root(size)), &Made(5))
            .expect("no fork");
    }
    let kept = book
        .heads
        .values()
        .flat_map(BTreeMap::values)
        .filter(|signers| signers.contains_key(&2));
    assert_eq!(kept.count(), AHEAD_PER_NODE_MAX);
}

fn signed(book: &mut HeadBook, size: u64, nodes: &[u64], tree: &Made) {
    for node in nodes {
        book.record(head(*node, size, root(size)), tree)
            .expect("no fork");
    }
}

#[test]
fn a_learner_counts_only_once_the_roster_says_so() {
    let (mut book, tree) = (book(), Made(5));
    signed(&mut book, 5, &[1, 4], &tree);
    assert_eq!(book.settle(&tree), Ok(false), "node 4 is no voter");
    book.follow(keys_of(&[1, 4]));
    assert_eq!(book.settle(&tree), Ok(true));
    let note = book.cosigned().expect("a majority").note.clone();
    assert_eq!(keys_of(&[1, 4]).cosigners(&note), 2);
}

#[test]
fn a_head_without_a_majority_of_the_roster_that_followed_proves_nothing_more() {
    let (mut book, tree) = (book(), Made(6));
    signed(&mut book, 5, &[1, 2], &tree);
    assert_eq!(book.settle(&tree), Ok(true));
    book.follow(keys_of(&[1, 2, 3, 4]));
    assert_eq!(book.cosigned(), None, "two of four");
    signed(&mut book, 5, &[3], &tree);
    assert_eq!(book.settle(&tree), Ok(true), "the third of four");
    // Whoever left is in no note: a policy of the new roster knows no log of theirs.
    book.follow(keys_of(&[2, 3]));
    signed(&mut book, 6, &[1, 2, 3], &tree);
    assert_eq!(book.settle(&tree), Ok(true));
    let note = &book.cosigned().expect("a majority").note;
    assert_eq!(keys_of(&[1]).cosigners(note), 0);
    assert_eq!(keys_of(&[2, 3]).cosigners(note), 2);
}

#[test]
fn the_roster_before_proves_the_one_that_follows() {
    let (mut book, tree) = (book(), Made(9));
    book.follow(keys_of(&[2, 3, 4]));
    book.expect_step(RosterStep {
        epoch: RosterEpoch(2),
        position: 5,
        size: 7,
        before: keys_of(&[1, 2, 3, 4]),
    });
    signed(&mut book, 7, &[2, 3], &tree);
    assert_eq!(book.settle(&tree), Ok(true), "two of three");
    assert!(book.proven_steps(&tree).is_empty(), "but two of four");
    // A head below the leaf says nothing; the head of the entry is kept for who signs it last.
    signed(&mut book, 6, &[1, 2, 3, 4], &tree);
    signed(&mut book, 9, &[2, 3], &tree);
    assert_eq!(book.settle(&tree), Ok(true));
    assert!(book.proven_steps(&tree).is_empty());
    signed(&mut book, 7, &[1], &tree);
    let proven = book.proven_steps(&tree);
    assert_eq!(proven.len(), 1);
    let (step, head) = &proven[0];
    assert_eq!((step.epoch, head.size), (RosterEpoch(2), 7));
    assert_eq!(step.before.cosigners(&head.note), 3);
    assert!(book.steps().is_empty());
}
