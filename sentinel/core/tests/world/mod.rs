//! The journal's test world, receipts for its events, and an outbox with a disk.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a world for tests: each file uses another part of it"
)]

#[path = "../../../../raft/core/tests/world/mod.rs"]
pub mod journal;

use std::cell::RefCell;
use std::collections::BTreeMap;

use redlatch_types::checkpoint::{Checkpoint, Origin, Stage};
use redlatch_types::event::Event;
use redlatch_types::mandate::NegativeVerb;
use redlatch_types::merkle::leaf_hash;
use redlatch_types::note::{Note, SignatureLine};
use redlatch_types::policy::{NodeKeys, Policy};
use redlatch_types::proven::ProvenEvent;
use redlatch_types::receipt::{Receipt, TlogProof};
use redlatch_types::records::*;
use redlatch_types::*;
use redlatch_watch::outbox::{
    Damage, Delivery, Effect, Found, Head, Keep, Memory, Outbox, OutboxStateV1, RedRequest,
    StoredEntryV1, Write, Writer,
};

pub use journal::{
    ACTUATOR, AGENT, GATE, MAIN, MINUTE, SENTINEL, START, World, approvals, digest, id, key,
};

pub fn origin(scope: Scope) -> Origin {
    Origin {
        stage: Stage::Development,
        organism: scope.organism_id,
        history: 0,
    }
}

pub fn policy(scope: Scope) -> Policy {
    let keys = |n: u8| NodeKeys {
        label: format!("n{n}"),
        log: key(100 + n).public_key(),
        cosigner: key(110 + n).public_key(),
    };
    let nodes: Vec<_> = (1..=3).map(keys).collect();
    Policy::of_roster(&origin(scope), &nodes, &[]).unwrap()
}

/// A receipt in a tree of this one leaf, cosigned by `nodes`.
pub fn receipt(scope: Scope, event: &Event, nodes: &[u8]) -> Receipt {
    let leaf = event.to_canonical();
    let head = head(scope, 1, leaf_hash(&leaf), nodes);
    Receipt {
        leaf,
        proof: TlogProof {
            index: 0,
            hashes: Vec::new(),
            head,
        },
    }
}

/// A head, cosigned by `nodes`.
pub fn head(scope: Scope, size: u64, root: Digest, nodes: &[u8]) -> Note {
    let origin = origin(scope);
    let text = Checkpoint { origin, size, root }.to_string();
    // The first of them is also the log.
    let log = key(100 + nodes.first().copied().unwrap_or(1));
    let line = SignatureLine::by_log(origin.log_name(), &log, &text);
    let mut head = Note::new(text.clone(), line).unwrap();
    for n in nodes {
        let name = origin.cosigner_name(&format!("n{n}")).unwrap();
        let line = SignatureLine::by_cosigner(name, &key(110 + n), &text, 1_800_000_000);
        head.add(line.unwrap()).unwrap();
    }
    head
}

thread_local! {
    /// What was proven is proven: tests show the same event many times.
    static PROVEN: RefCell<BTreeMap<Digest, ProvenEvent>> = const { RefCell::new(BTreeMap::new()) };
}

pub fn prove(scope: Scope, event: &Event) -> ProvenEvent {
    let key = Digest::of_parts(&[&scope.to_canonical(), &event.to_canonical()]);
    let prove = || ProvenEvent::of(&receipt(scope, event, &[1, 2]), &policy(scope)).unwrap();
    PROVEN.with_borrow_mut(|proven| proven.entry(key).or_insert_with(prove).clone())
}

pub fn writer(scope: Scope) -> Writer {
    Writer {
        scope,
        key: key(SENTINEL),
        nodes: (1..=3).map(NodeId).collect(),
    }
}

pub fn request(n: u64, scope: RedScope) -> RedRequest {
    RedRequest {
        verdict_id: Digest::of(&n.to_be_bytes()),
        scope,
        verbs: Vec::new(),
        rollback_plan: None,
        source: None,
        reason: Text::lossy(&format!("because of {n}")),
        issued_at: START,
    }
}

pub fn with_verbs(mut red: RedRequest, verbs: &[NegativeVerb]) -> RedRequest {
    red.verbs = verbs.to_vec();
    red
}

pub fn subject(name: &str) -> RedScope {
    RedScope::Subject(id(name))
}

/// What survives a crash: exactly what was persisted, in order, generation checked.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    pub state: Option<OutboxStateV1>,
    pub entries: BTreeMap<OutboxEpoch, StoredEntryV1>,
}

impl Disk {
    pub fn write(&mut self, write: &Write) {
        let stored = self.state.as_ref().map(|s| s.generation);
        assert_eq!(stored, write.expected_generation, "another writer");
        if write.keep == Keep::Nothing {
            self.entries.clear();
        }
        self.state = Some(write.state.clone());
        self.entries.extend(write.put.clone());
        for number in &write.delete {
            self.entries.remove(number);
        }
    }
    pub fn found(&self) -> Found {
        Found {
            state: self.state.as_ref().map(Canonical::to_canonical),
            entries: self.entries.values().map(Canonical::to_canonical).collect(),
        }
    }
}

/// The sentinel's outbox with its disk; effects are run in order up to a crash.
pub struct Sentinel {
    pub scope: Scope,
    pub outbox: Outbox,
    pub disk: Disk,
    pub now: u64,
    pub alarms: Vec<Damage>,
}

impl Sentinel {
    pub fn new(scope: Scope) -> Sentinel {
        let mut out = Vec::new();
        let outbox = Outbox::first(writer(scope), &mut out);
        let mut sentinel = Sentinel {
            scope,
            outbox,
            disk: Disk::default(),
            now: 0,
            alarms: Vec::new(),
        };
        sentinel.run(out);
        sentinel
    }

    /// Compared with empty memories: ready for GREEN.
    pub fn confirmed(scope: Scope) -> Sentinel {
        let mut sentinel = Sentinel::new(scope);
        for memory in [Memory::Journal, Memory::Actuator] {
            sentinel.remembered(memory, Head::ZERO);
        }
        sentinel
    }

    pub fn run(&mut self, out: Vec<Effect>) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        for effect in out {
            match effect {
                Effect::Persist(write) => {
                    assert!(deliveries.is_empty(), "persisted before anything is sent");
                    self.disk.write(&write);
                }
                Effect::Deliver(delivery) => deliveries.push(delivery),
                Effect::Alarm(damage) => self.alarms.push(damage),
            }
        }
        self.outbox.check();
        deliveries
    }

    pub fn red(&mut self, red: RedRequest) -> (OutboxEpoch, Vec<Delivery>) {
        let mut out = Vec::new();
        let numbers = self.outbox.handle_reds(vec![red], self.now, &mut out);
        (numbers[0], self.run(out))
    }
    pub fn remembered(&mut self, memory: Memory, head: Head) -> Vec<Delivery> {
        let mut out = Vec::new();
        self.outbox
            .handle_remembered(memory, head, self.now, &mut out);
        self.run(out)
    }
    pub fn event(&mut self, event: &Event) -> Vec<Delivery> {
        let mut out = Vec::new();
        let proven = prove(self.scope, event);
        self.outbox.handle_event(&proven, self.now, &mut out);
        self.run(out)
    }
    pub fn timeout(&mut self, now: u64) -> Vec<Delivery> {
        self.now = now;
        let mut out = Vec::new();
        self.outbox.handle_timeout(now, &mut out);
        self.run(out)
    }
    /// What is stopped until a reset.
    pub fn standing(&self) -> Vec<RedScope> {
        let standing = self.outbox.posture().standing.iter();
        standing.map(|it| it.scope.clone()).collect()
    }
    pub fn restart(&mut self) -> Vec<Delivery> {
        let mut out = Vec::new();
        let writer = writer(self.scope);
        self.outbox = Outbox::open(writer, &self.disk.found(), self.now, &mut out).unwrap();
        self.run(out)
    }
    /// An input whose effects are lost after the first `kept` of them; then a restart.
    pub fn red_then_crash(&mut self, red: RedRequest, kept: usize) -> Option<OutboxEpoch> {
        let mut out = Vec::new();
        let numbers = self.outbox.handle_reds(vec![red], self.now, &mut out);
        out.truncate(kept);
        let persisted = kept > 0;
        for effect in out {
            if let Effect::Persist(write) = effect {
                self.disk.write(&write);
            }
        }
        self.restart();
        persisted.then(|| numbers[0])
    }
}
