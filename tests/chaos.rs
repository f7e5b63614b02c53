//! All nine processes of an organism killed at one instant, under landings, freezes and a RED: what was acknowledged
//! is there on every node, in one state, and nothing is half done.
//!
//! ```text
//!   authors ── land ──▶ organism ◀── freeze, withdraw ── clients       each round, until its moment
//!                          │ kill -9, all nine
//!                          ▼ started again; who lands goes on with what is committed
//!   what was told  ⊆  leaves of n1 = n2 = n3 ─▶ replay ─▶ one state = the digest that each node shows
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use redlatch_journal::State;
use redlatch_journal::authority::{EffectStage, TransactionStage};
use redlatch_tests::author::Author;
use redlatch_tests::caller::{Caller, Signer};
use redlatch_tests::cluster::PATIENCE;
use redlatch_tests::eventually;
use redlatch_tests::journal::{Acknowledged, Agreed, agreed, load};
use redlatch_tests::organism::Organism;
use redlatch_tests::process::Answer;
use redlatch_types::event::Event;
use redlatch_types::records::OutcomeKind;
use redlatch_types::{Canonical, OutboxEpoch, TransactionId};

/// Who lands, each on a branch of their own.
const BRANCHES: [&str; 2] = ["one", "two"];
/// Clients that freeze and withdraw.
const CLIENTS: usize = 1;
/// What is acknowledged in a round before its moment is waited for.
const COMMITS: usize = 1;
const FREEZES: usize = 10;
/// What one client asks for in a round: every freeze is a ballot of all four verifiers, and landings need them too.
const AT_MOST: usize = 24;
/// How long a landing waits for COMMIT, longer than everything is down, seconds.
const WAIT: u32 = 60;
/// How long a client that freezes goes on without an answer.
const GIVE_UP: Duration = Duration::from_secs(3);
/// What is stopped in the end.
const SCOPE: &str = "action:land";

const DONE: i32 = 0;
const REFUSED: i32 = 3;
const UNAVAILABLE: i32 = 4;
const INDETERMINATE: i32 = 5;

/// When everything is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// A PREPARE is applied, its COMMIT is not there yet.
    Prepared,
    /// A gate has claimed an effect and not reported it.
    Claimed,
    /// The sentinel has acknowledged a RED.
    Raised,
}

/// What somebody outside the organism was told.
#[derive(Default)]
struct Told {
    /// Marker numbers, by intent.
    commits: Mutex<BTreeMap<String, u64>>,
    /// Idempotency keys of freezes and withdrawals.
    freezes: Arc<Mutex<Acknowledged>>,
    /// Outbox numbers.
    reds: Mutex<Vec<u64>>,
}

impl Told {
    fn counts(&self) -> (usize, usize) {
        let commits = self.commits.lock().expect("plain values").len();
        (commits, self.freezes.lock().expect("plain values").len())
    }

    /// Notes the COMMIT that a landing told of, however it ended; the intent, if it did.
    fn committed(&self, landing: &Answer) -> Option<String> {
        let intent = told_after(landing, "frozen", "intent")?;
        let marker = told_after(landing, "committed", "marker")?;
        let marker = marker.parse().expect("a number");
        let mut commits = self.commits.lock().expect("plain values");
        let first = *commits.entry(intent.clone()).or_insert(marker);
        assert_eq!(first, marker, "one intent has one marker");
        Some(intent)
    }
}

/// What a landing said after two words of one of its lines.
fn told_after(landing: &Answer, step: &str, what: &str) -> Option<String> {
    landing.err.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, first, second, value] if (first, second) == (step, what) => Some(value.to_owned()),
            _ => None,
        }
    })
}

/// Lands commit after commit until it is told to stop or a RED refuses; goes on with what is committed.
fn land(author: &Author, branch: &str, round: usize, told: &Told, stop: &AtomicBool) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // No two authors make the same commit.
        let commit = author.commit(&format!("{branch}-{round}-{number}"));
        let mut answer = author.land(&commit, WAIT);
        while let Some(intent) = told.committed(&answer) {
            match answer.code {
                Some(UNAVAILABLE | INDETERMINATE) => {
                    answer = author.go_on(&commit, &intent, WAIT);
                }
                _ => break,
            }
        }
        match answer.code {
            Some(DONE | UNAVAILABLE | INDETERMINATE) => {}
            Some(REFUSED) => return,
            _ => panic!("{answer:#?}"),
        }
    }
}

/// Everything that asks something of the organism at once.
struct Load {
    stop: Arc<AtomicBool>,
    authors: Vec<JoinHandle<()>>,
    clients: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(organism: &Organism, caller: &Caller, told: &Arc<Told>, round: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let author = |branch: &&'static str| {
            let (author, branch) = (organism.author(branch), *branch);
            let (told, stop) = (Arc::clone(told), Arc::clone(&stop));
            std::thread::spawn(move || land(&author, branch, round, &told, &stop))
        };
        let signer = Arc::new(Signer::agent(organism));
        let client = |_| {
            let (signer, freezes) = (Arc::clone(&signer), Arc::clone(&told.freezes));
            caller.spawn(load(caller.nodes(), signer, freezes, GIVE_UP, AT_MOST))
        };
        Load {
            authors: BRANCHES.iter().map(author).collect(),
            clients: (0..CLIENTS).map(client).collect(),
            stop,
        }
    }

    /// Waits until everybody has come to an end with what they had begun.
    fn end(self, caller: &Caller) {
        for client in self.clients {
            caller.run(client).expect("a client ends by itself");
        }
        for author in self.authors {
            author.join().expect("an author ends by themselves");
        }
    }
}

/// Waits for an event that comes after the leaves that are there now.
fn sees(caller: &Caller, wanted: fn(&Event) -> bool) {
    let size = eventually("a node answers", PATIENCE, || caller.shown("n1")).tree_size;
    let nodes = caller.nodes();
    caller.run(async {
        let mut leaves = nodes.journal(size, true, PATIENCE).await.expect("a stream");
        loop {
            let next = tokio::time::timeout(PATIENCE, leaves.message()).await;
            let leaf = next.expect("in time").expect("nobody is killed yet");
            let leaf = leaf.expect("a stream that follows does not end").leaf;
            if wanted(&Event::from_canonical(&leaf).expect("an event")) {
                return;
            }
        }
    });
}

impl Moment {
    fn wait(self, organism: &Organism, caller: &Caller, told: &Told) {
        match self {
            Moment::Prepared => sees(caller, |event| matches!(event, Event::Prepared(..))),
            Moment::Claimed => sees(caller, |event| matches!(event, Event::EffectClaimed(..))),
            Moment::Raised => {
                let order = ["-o", "json", "red", "raise", "--scope", SCOPE];
                let raised = organism.tool(&[&order[..], &["--reason", "a test"]].concat());
                assert_eq!(raised.code, Some(DONE), "{raised:#?}");
                let number = raised.json()["outbox_epoch"].as_str().map(str::parse);
                let number = number.expect("a text").expect("a number");
                told.reds.lock().expect("plain values").push(number);
            }
        }
    }
}

/// One round of load, up to its moment; then everything is killed and started again.
fn round(organism: &mut Organism, caller: &Caller, told: &Arc<Told>, number: usize, at: Moment) {
    let before = told.counts();
    let load = Load::start(organism, caller, told, number);
    eventually("load", PATIENCE, || {
        let failed = load.authors.iter().any(JoinHandle::is_finished);
        assert!(!failed, "an author has given up");
        let (commits, freezes) = told.counts();
        (commits >= before.0 + COMMITS && freezes >= before.1 + FREEZES).then_some(())
    });
    at.wait(organism, caller, told);
    load.stop.store(true, Ordering::Relaxed);
    organism.kill_all();
    organism.start_all();
    load.end(caller);
}

/// Waits until every RED is latched and carried out, and nothing in the state waits for anybody but a person.
fn resolved(organism: &Organism, caller: &Caller, told: &Told) {
    let raised = told.reds.lock().expect("plain values").len();
    eventually("nothing is half done", PATIENCE, || {
        let mut state = State::new();
        let mut latched = 0;
        for leaf in caller.leaves("n1") {
            let event = state.replay(&leaf).expect("a leaf is an event");
            latched += usize::from(matches!(event, Event::RedLatched(..)));
        }
        let half = state.authority.transactions.values().any(|it| {
            matches!(
                it.stage,
                TransactionStage::Prepared
                    | TransactionStage::Committed(_, EffectStage::Claimed(..))
            )
        });
        // A latch leaves the state once it is carried out and the sentinel knows.
        let stopped = latched >= raised && state.authority.latches.is_empty();
        (!half && stopped && organism.reconcile() == 0).then_some(())
    });
}

/// Everything that was told is in the journal.
#[track_caller]
fn holds(told: &Told, journal: &Agreed) {
    let mut markers = BTreeMap::new();
    let mut latched = Vec::new();
    for event in &journal.events {
        match event {
            Event::Committed(marker) => {
                let second = markers.insert(marker.intent_digest.to_string(), marker.marker.0);
                assert_eq!(second, None, "one intent has one marker");
            }
            Event::RedLatched(receipt, ..) => latched.push(receipt.sentinel_outbox_epoch),
            _ => {}
        }
    }
    for (intent, marker) in told.commits.lock().expect("plain values").iter() {
        assert_eq!(markers.get(intent), Some(marker), "the COMMIT of {intent}");
    }
    let there = journal.origins();
    let freezes = told.freezes.lock().expect("plain values");
    let lost: Vec<_> = freezes.iter().filter(|it| !there.contains(it)).collect();
    assert!(lost.is_empty(), "{lost:?} of {}", freezes.len());
    let reds = told.reds.lock().expect("plain values");
    let reds: Vec<OutboxEpoch> = reds.iter().copied().map(OutboxEpoch).collect();
    assert_eq!(latched, reds, "each RED is latched once");
}

/// Each claimed effect has one outcome, the branches are where the outcomes say, and nothing positive follows a
/// latch.
#[track_caller]
fn whole(organism: &Organism, journal: &Agreed) {
    let mut claimed: BTreeMap<TransactionId, u32> = BTreeMap::new();
    let mut heads = BTreeMap::new();
    let mut stopped = false;
    for (at, event) in journal.events.iter().enumerate() {
        assert!(!(stopped && event.is_positive_marker()), "{at}: {event:?}");
        match event {
            Event::EffectClaimed(id, ..) => {
                assert_eq!(claimed.insert(*id, 0), None, "{at}: a second claim");
            }
            Event::EffectReported(id, outcome, ..) => {
                *claimed.get_mut(id).expect("claimed before") += 1;
                assert_ne!(
                    *outcome,
                    OutcomeKind::OutcomeUnknown,
                    "{at}: the gate can tell"
                );
            }
            Event::RedLatched(..) => stopped = true,
            _ => {}
        }
    }
    assert!(claimed.values().all(|count| *count == 1), "{claimed:?}");
    for resource in journal.state.authority.resources.values() {
        let head = resource.head.as_ref().map(|head| hex::encode(&head.0));
        heads.insert(resource.resource.path().to_owned(), head);
    }
    for branch in BRANCHES {
        let known = heads.get(&format!("refs/heads/{branch}")).cloned();
        let head = organism.author(branch).head();
        assert_eq!(known.flatten(), head, "{branch}");
    }
}

#[test]
fn fault_005_sigkill_of_all_nine_under_load_keeps_every_acknowledged_commit_and_red() {
    let mut organism = Organism::start("chaos");
    let caller = Caller::of(&organism, "clients/agent");
    let told = Arc::new(Told::default());
    let moments = [Moment::Prepared, Moment::Claimed, Moment::Raised];
    for (number, at) in moments.into_iter().enumerate() {
        round(&mut organism, &caller, &told, number, at);
        resolved(&organism, &caller, &told);
        let journal = agreed(&organism, &caller);
        holds(&told, &journal);
        whole(&organism, &journal);
    }
    let commits = told.commits.lock().expect("plain values").len();
    assert!(commits >= moments.len() * COMMITS, "{commits} COMMITs");
}
