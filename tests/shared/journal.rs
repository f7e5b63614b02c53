//! What the nodes of a cluster have of the journal, held against each other and against what a client was told.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use redlatch_journal::State;
use redlatch_types::event::{Accepted, Event, Reply};
use redlatch_types::policy::{Demand, Policy};
use redlatch_types::receipt::{Receipt, verify_for};
use redlatch_types::{Digest, EventId, IntentDigest};

use redlatch_link::nodes::{Again, CallError, Nodes, Submitted};
use redlatch_proto::v1::leaf_at::At;

use crate::caller::{Caller, Signer, random};
use crate::cluster::{Cluster, PATIENCE};
use crate::eventually;
use crate::home::Home;

/// The journal that all nodes have, replayed.
pub struct Agreed {
    /// Its events, in order.
    pub events: Vec<Event>,
    /// The state after them.
    pub state: State,
}

impl Agreed {
    /// The idempotency keys of all freezes and withdrawals.
    pub fn origins(&self) -> BTreeSet<EventId> {
        let origin = |event: &Event| match event {
            Event::Frozen(_, _, _, origin) | Event::Withdrawn(_, origin) => Some(origin.event_id),
            _ => None,
        };
        self.events.iter().filter_map(origin).collect()
    }
}

/// Waits until all nodes stand still at one place, and asserts that they have the same leaves, that replay of
/// these gives every state root among them, and that each node shows and proves that very state.
#[track_caller]
pub fn agreed(home: &impl Home, caller: &Caller) -> Agreed {
    settled(caller);
    // First, because a tick may come at any time: what is read later holds what is said now.
    let (size, said) = states(caller);
    let replayed = Replayed::of(&leaves_of_all(caller, size));
    for (node, digest) in Cluster::names().into_iter().zip(said) {
        assert_eq!(
            replayed.digests[size], digest,
            "the state of {node} after {size} leaves"
        );
        shows(caller, node, &replayed.state);
        proves(&home.organism(), caller, node, &replayed.roots);
    }
    let Replayed { events, state, .. } = replayed;
    Agreed { events, state }
}

/// What each node says its state comes to after the same number of leaves, and that number.
fn states(caller: &Caller) -> (usize, [Digest; 3]) {
    eventually("three states of one size", PATIENCE, || {
        let [first, second, third] = Cluster::names().map(|node| caller.state_digest(node));
        let said = [first?, second?, third?];
        let size = said[0].0;
        let one = said.iter().all(|it| it.0 == size);
        one.then(|| (usize::try_from(size).expect("small"), said.map(|it| it.1)))
    })
}

/// The leaves that every node has, byte for byte, and not fewer than a node has spoken of.
#[track_caller]
fn leaves_of_all(caller: &Caller, spoken_of: usize) -> Vec<Vec<u8>> {
    eventually("three journals of one length", PATIENCE, || {
        let [first, second, third] = Cluster::names().map(|node| caller.leaves(node));
        for (node, other) in [("n2", &second), ("n3", &third)] {
            let mut pairs = first.iter().zip(other);
            let differ = pairs.position(|(a, b)| a != b);
            assert_eq!(differ, None, "{node} differs from n1 at this leaf");
        }
        let length = first.len();
        let one = second.len() == length && third.len() == length && length >= spoken_of;
        one.then_some(first)
    })
}

/// A journal, evolved leaf by leaf.
struct Replayed {
    events: Vec<Event>,
    state: State,
    /// The tree's root after each leaf.
    roots: Vec<Digest>,
    /// What the state came to after each leaf.
    digests: Vec<Digest>,
}

impl Replayed {
    #[track_caller]
    fn of(leaves: &[Vec<u8>]) -> Replayed {
        let mut replayed = Replayed {
            events: Vec::new(),
            state: State::new(),
            roots: Vec::new(),
            digests: vec![State::new().digest()],
        };
        for leaf in leaves {
            let event = replayed.state.replay(leaf).expect("a leaf is an event");
            if let Event::StateRoot(root) = &event {
                assert_eq!(
                    Some(&root.authority_digest),
                    replayed.digests.last(),
                    "a state root is the replayed state"
                );
            }
            replayed.events.push(event);
            replayed.roots.push(replayed.state.head().root);
            replayed.digests.push(replayed.state.digest());
        }
        replayed
    }
}

/// Waits until no node is behind another.
pub fn settled(caller: &Caller) {
    eventually("all nodes have applied one log", PATIENCE, || {
        let shown = Cluster::names().map(|node| caller.shown(node));
        let places = shown.map(|it| it.map(|it| (it.last_log, it.applied, it.tree_size)));
        let [Some(first), Some(second), Some(third)] = places else {
            return None;
        };
        (first == second && second == third && first.0 == first.1).then_some(())
    });
}

#[track_caller]
fn shows(caller: &Caller, node: &str, state: &State) {
    let shown = caller.shown(node).expect("it answers");
    let authority = &state.authority;
    let governance = authority.governance.as_ref().expect("after genesis");
    let theirs = (
        shown.state_time_ms,
        shown.live_intents,
        shown.autonomy_epoch,
    );
    let replayed = (
        authority.clock.state_time,
        authority.intents.len() as u64,
        governance.epoch.autonomy_epoch.0,
    );
    // A tick may have come since the leaves were read.
    assert!(theirs.0 >= replayed.0, "{node}: {theirs:?} {replayed:?}");
    assert_eq!((theirs.1, theirs.2), (replayed.1, replayed.2), "{node}");
    assert_eq!(shown.degraded, "", "{node}");
}

/// The node's own receipt of the genesis is under a head that replay of the leaves leads to.
#[track_caller]
fn proves(organism: &Path, caller: &Caller, node: &str, roots: &[Digest]) {
    let text = caller.run(
        caller
            .only(node)
            .receipt(At::Position(0), Duration::from_secs(30)),
    );
    let receipt = Receipt::parse(text.expect("a majority cosigns").as_bytes()).expect("a receipt");
    let policy = std::fs::read(organism.join("trust-policy.txt")).expect("by init");
    let policy = Policy::parse(&policy).expect("a policy");
    let verified = verify_for(&receipt, &policy, Demand::Quorum).expect("valid");
    let size = usize::try_from(verified.size).expect("small");
    if let Some(root) = roots.get(size - 1) {
        assert_eq!(*root, verified.root, "the tree of {node} at {size} leaves");
    }
}

/// What a client was told: the idempotency keys of everything that was acknowledged.
pub type Acknowledged = Vec<EventId>;

/// Freezes and withdraws in turn, so often or until the nodes fail it; notes what was acknowledged.
pub async fn load(
    nodes: Nodes,
    signer: std::sync::Arc<Signer>,
    told: std::sync::Arc<std::sync::Mutex<Acknowledged>>,
    give_up: Duration,
    at_most: usize,
) {
    let mut state_time = None;
    let mut frozen: Option<IntentDigest> = None;
    for _ in 0..at_most {
        let time = match state_time {
            Some(time) => time,
            None => match nodes.any_status(random(), give_up).await {
                Ok(status) => *state_time.insert(status.record().state_time),
                Err(_) => return,
            },
        };
        let event = EventId(random());
        let command = match frozen {
            Some(intent) => signer.withdraw(time, event, intent),
            None => signer.freeze(time, event),
        };
        let Ok(submitted) = submit(&nodes, &signer, event, &command, give_up).await else {
            return;
        };
        match submitted.reply {
            Reply::Accepted(accepted) => {
                told.lock().expect("plain values").push(event);
                frozen = match accepted {
                    Accepted::Frozen(digest) => Some(digest),
                    _ => None,
                };
            }
            // State time stands still while nobody asks for anything, and then leaps.
            Reply::Refused(_) => (state_time, frozen) = (None, None),
        }
    }
}

/// Submits a client's command; a repeat is answered by its key.
pub async fn submit(
    nodes: &Nodes,
    signer: &Signer,
    event: EventId,
    command: &[u8],
    within: Duration,
) -> Result<Submitted, CallError> {
    let again = Again::ByKey(signer.subject().clone(), event);
    nodes.submit(command, &again, within, Duration::ZERO).await
}
