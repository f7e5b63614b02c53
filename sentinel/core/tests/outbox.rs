//! The outbox: nothing is lost, nothing is reordered, nothing grows, nobody rolls it back.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod world;

use std::collections::BTreeMap;

use proptest::prelude::*;
use redlatch_types::command::RawCommand;
use redlatch_types::event::Event;
use redlatch_types::mandate::NegativeVerb;
use redlatch_types::records::*;
use redlatch_types::*;
use redlatch_watch::outbox::{
    Damage, Delivery, Effect, Head, Memory, OPEN_MAX, Outbox, RETRY_FIRST_MS, RETRY_MAX_MS,
    Receiver, STANDING_MAX,
};
use redlatch_watch::{BeatCounter, Health};
use world::*;

fn scope() -> redlatch_types::Scope {
    World::new().scope()
}

fn numbers(segment: &[Envelope]) -> Vec<u64> {
    let record = |e: &Envelope| SentinelRedOutboxV1::from_canonical(&e.body.0).unwrap();
    segment.iter().map(|e| record(e).outbox_epoch.0).collect()
}

fn verdict(envelope: &Envelope) -> RedVerdictV1 {
    let record = SentinelRedOutboxV1::from_canonical(&envelope.body.0).unwrap();
    RedVerdictV1::from_canonical(&record.red_verdict.0).unwrap()
}

fn scope_of(envelope: &Envelope) -> RedScope {
    let verdict = verdict(envelope);
    RedScope::from_open(verdict.scope_kind, &verdict.scope_value).unwrap()
}

#[test]
fn a_red_is_persisted_then_sent_to_the_actuator_then_to_every_node() {
    let mut sentinel = Sentinel::new(scope());
    let mut out = Vec::new();
    sentinel
        .outbox
        .handle_reds(vec![request(1, subject("agent"))], 0, &mut out);
    let words: Vec<_> = out
        .iter()
        .map(|e| match e {
            Effect::Persist(_) => "persist".to_owned(),
            Effect::Deliver(d) => format!("{:?} {:?}", d.to, numbers(&d.segment)),
            Effect::Alarm(_) => "alarm".to_owned(),
        })
        .collect();
    let nodes = (1..=3).map(|n| format!("Node(NodeId({n})) [1]"));
    let mut expected = vec!["persist".to_owned(), "Actuator [1]".to_owned()];
    expected.extend(nodes);
    assert_eq!(words, expected);
}

#[test]
fn fault_078_each_receiver_gets_the_whole_segment_until_it_acknowledges() {
    let mut sentinel = Sentinel::new(scope());
    for i in 0..3 {
        sentinel.red(request(i, subject(&format!("s{i}"))));
    }
    let head = sentinel.outbox.head();
    let due = sentinel.outbox.next_wakeup().unwrap();
    assert_eq!(due, RETRY_FIRST_MS);
    for delivery in sentinel.timeout(due) {
        assert_eq!(numbers(&delivery.segment), [1, 2, 3]);
    }
    // The actuator has two, then one (its disk went back), then all, twice.
    let roots: BTreeMap<_, _> = sentinel
        .outbox
        .entries()
        .map(|(n, e)| {
            let record = SentinelRedOutboxV1::from_canonical(&e.envelope.body.0).unwrap();
            (n, record.signed_outbox_root_digest)
        })
        .collect();
    let at = |n: u64| Head {
        number: OutboxEpoch(n),
        root: roots[&OutboxEpoch(n)],
    };
    let actuator = |sentinel: &mut Sentinel| {
        let now = sentinel.now + RETRY_MAX_MS;
        let deliveries = sentinel.timeout(now);
        let found = deliveries.into_iter().find(|d| d.to == Receiver::Actuator);
        found.map(|d| numbers(&d.segment))
    };
    sentinel.remembered(Memory::Actuator, at(2));
    assert_eq!(actuator(&mut sentinel), Some(vec![3]));
    sentinel.remembered(Memory::Actuator, at(1));
    assert_eq!(actuator(&mut sentinel), Some(vec![2, 3]));
    sentinel.remembered(Memory::Actuator, head);
    sentinel.remembered(Memory::Actuator, head);
    assert_eq!(actuator(&mut sentinel), None);
    assert_eq!(sentinel.alarms, []);
    // Nodes acknowledge by a proven latch only, whatever they say: they are still served.
    let deliveries = sentinel.timeout(sentinel.now + RETRY_MAX_MS);
    assert_eq!(deliveries.len(), 3);
}

#[test]
fn the_pause_doubles_to_its_bound_and_starts_anew_with_progress() {
    let mut sentinel = Sentinel::new(scope());
    sentinel.red(request(1, subject("agent")));
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let due = sentinel.outbox.next_wakeup().unwrap();
        pauses.push(due - sentinel.now);
        assert!(!sentinel.timeout(due).is_empty());
    }
    assert_eq!(pauses, [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    sentinel.red(request(2, subject("other")));
    assert_eq!(sentinel.outbox.next_wakeup(), Some(sentinel.now + 50));
}

#[test]
fn m1_i32_an_entry_is_closed_by_proven_latch_terminal_and_acknowledgement_only() {
    let mut world = World::new();
    let mut sentinel = Sentinel::confirmed(world.scope());
    let (_, deliveries) = sentinel.red(request(1, subject("agent")));
    let latch = world.latch(RawCommand::LatchRed(deliveries[1].segment.clone()));
    let latched = world.events.last().unwrap().clone();
    // A minority's word is no proof.
    let minority = receipt(world.scope(), &latched, &[1]);
    assert!(redlatch_types::proven::ProvenEvent::of(&minority, &policy(world.scope())).is_err());
    let deliveries = sentinel.event(&latched);
    let node = deliveries
        .iter()
        .find(|d| d.to == Receiver::Node(NodeId(1)));
    assert_eq!(node.unwrap().awaiting, [latch]);
    assert!(node.unwrap().segment.is_empty());
    // A terminal event of another latch does not help.
    sentinel.event(&Event::SafetyTerminal(
        LatchNumber(9),
        TransactionId(digest("x")),
    ));
    world.stop(latch);
    let deliveries = sentinel.event(&world.events.last().unwrap().clone());
    let node = deliveries
        .iter()
        .find(|d| d.to == Receiver::Node(NodeId(1)));
    let [ack] = &node.unwrap().closing[..] else {
        panic!("{node:?}")
    };
    // A crash here: the acknowledgement goes out again, byte for byte.
    let again = sentinel.restart();
    let node = again.iter().find(|d| d.to == Receiver::Node(NodeId(2)));
    assert_eq!(&node.unwrap().closing[..], std::slice::from_ref(ack));
    world.ok(RawCommand::AcknowledgeOutbox(ack.clone()));
    sentinel.event(&world.events.last().unwrap().clone());
    assert_eq!(sentinel.outbox.entries().count(), 0);
    assert!(sentinel.disk.entries.is_empty());
    let head = sentinel.outbox.head();
    assert_eq!(head.number, OutboxEpoch(1));
    sentinel.remembered(Memory::Actuator, head);
    sentinel.remembered(Memory::Journal, head);
    assert_eq!(sentinel.outbox.health(), Health::Sound);
    assert_eq!(sentinel.timeout(1 << 40), []);
    assert_eq!(sentinel.outbox.next_wakeup(), None);
    // The chain goes on where it was, after a restart as well.
    sentinel.restart();
    let (number, _) = sentinel.red(request(2, subject("other")));
    assert_eq!(number, OutboxEpoch(2));
    // What was latched stands until a reset.
    assert_eq!(sentinel.standing(), [subject("agent"), subject("other")]);
    sentinel.event(&Event::GroundsReset(vec![GroundNumber(1)]));
    assert_eq!(sentinel.standing(), [subject("other")]);
}

#[test]
fn fault_094_the_same_is_asked_once_and_nothing_is_dropped_when_it_is_full() {
    let mut sentinel = Sentinel::confirmed(scope());
    let (first, _) = sentinel.red(request(0, subject("same")));
    for i in 1..1_000 {
        assert_eq!(sentinel.red(request(i, subject("same"))).0, first);
    }
    assert_eq!(sentinel.outbox.entries().count(), 1);
    // More verbs are more: they are not swallowed.
    let more = with_verbs(request(1_000, subject("same")), &[NegativeVerb::Revoke]);
    let (second, _) = sentinel.red(more.clone());
    assert_ne!(second, first);
    assert_eq!(sentinel.red(more).0, second);
    for i in 0..2 * OPEN_MAX as u64 {
        sentinel.red(request(i, subject(&format!("s{i}"))));
        sentinel.outbox.check();
    }
    assert_eq!(sentinel.outbox.entries().count(), OPEN_MAX);
    assert_eq!(sentinel.outbox.health(), Health::Full);
    let last = sentinel.outbox.entries().last().unwrap().1;
    assert_eq!(scope_of(&last.envelope), RedScope::Everything);
    let wide = sentinel
        .outbox
        .entries()
        .filter(|(_, e)| scope_of(&e.envelope) == RedScope::Everything);
    assert_eq!(wide.count(), 1);
    sentinel.restart();
    assert_eq!(sentinel.outbox.entries().count(), OPEN_MAX);
}

#[test]
fn fault_094_what_stands_is_bounded_and_widens() {
    let mut world = World::new();
    let mut sentinel = Sentinel::confirmed(world.scope());
    for i in 0..STANDING_MAX as u64 + 1 {
        let (number, _) = sentinel.red(request(i, subject(&format!("s{i}"))));
        let entry = sentinel.outbox.entries().find(|(n, _)| *n == number);
        let latch = world.latch(RawCommand::LatchRed(vec![
            entry.unwrap().1.envelope.clone(),
        ]));
        sentinel.event(&world.events.last().unwrap().clone());
        sentinel.event(&Event::SafetyTerminal(latch, TransactionId(digest("t"))));
        let ack = world.ack(latch, number.0);
        let RawCommand::AcknowledgeOutbox(ack) = ack else {
            unreachable!()
        };
        sentinel.event(&Event::OutboxAcknowledged(latch, ack));
    }
    // More than are kept apart: everything is stopped, and each waits for its own reset.
    let stops = |sentinel: &Sentinel| sentinel.outbox.posture().stops(&subject("nobody"));
    assert!(stops(&sentinel));
    assert_eq!(sentinel.outbox.entries().count(), 0);
    sentinel.restart();
    assert!(stops(&sentinel));
    sentinel.event(&Event::GroundsReset(vec![GroundNumber(7)]));
    assert!(!stops(&sentinel));
    assert_eq!(sentinel.standing().len(), STANDING_MAX);
    assert!(!sentinel.standing().contains(&subject("s6")));
}

#[test]
fn one_batch_is_coalesced_before_it_is_chained() {
    let mut sentinel = Sentinel::new(scope());
    let batch = vec![
        with_verbs(request(1, subject("a")), &[NegativeVerb::Revoke]),
        request(2, subject("b")),
        with_verbs(request(3, subject("a")), &[NegativeVerb::Demote]),
    ];
    let mut out = Vec::new();
    let carried = sentinel.outbox.handle_reds(batch, 0, &mut out);
    assert_eq!(carried, [OutboxEpoch(1), OutboxEpoch(2), OutboxEpoch(1)]);
    let writes = out.iter().filter(|e| matches!(e, Effect::Persist(_)));
    assert_eq!(writes.count(), 1);
    sentinel.run(out);
    let first = sentinel.outbox.entries().next().unwrap().1;
    let verdict = verdict(&first.envelope);
    assert_eq!(verdict.negative_verbs, [3, 5]);
    assert_eq!(verdict.reason, Text::lossy("because of 3"));
}

#[test]
fn fault_034_a_rolled_back_outbox_refuses_green_and_states_red_everything() {
    let world = World::new();
    let mut sentinel = Sentinel::confirmed(world.scope());
    sentinel.red(request(1, subject("a")));
    let snapshot = sentinel.disk.clone();
    for (i, name) in [(2, "b"), (3, "c")] {
        sentinel.red(request(i, subject(name)));
    }
    let known = sentinel.outbox.head();
    let all: Vec<_> = sentinel
        .outbox
        .entries()
        .map(|(_, e)| e.envelope.clone())
        .collect();
    for memory in [Memory::Journal, Memory::Actuator] {
        let mut old = Sentinel::new(world.scope());
        old.disk = snapshot.clone();
        old.restart();
        assert_eq!(old.outbox.health(), Health::Unconfirmed);
        let deliveries = old.remembered(memory, known);
        assert_eq!(old.alarms, [Damage::RolledBack(known)]);
        assert_eq!(old.outbox.health(), Health::Damaged);
        let stated = deliveries[0].segment.last().unwrap();
        assert_eq!(scope_of(stated), RedScope::Everything);
        assert_eq!(old.outbox.head().number, OutboxEpoch(4));
        // It follows what the journal knows, and latches there.
        let mut after = World::new();
        after.latch(RawCommand::LatchRed(all.clone()));
        after.latch(RawCommand::LatchRed(vec![stated.clone()]));
        assert_eq!(after.state.authority.outbox.number, OutboxEpoch(4));
        // For good: a restart and agreeing answers do not heal it.
        old.restart();
        let head = old.outbox.head();
        old.remembered(Memory::Journal, head);
        old.remembered(Memory::Actuator, head);
        assert_eq!(old.outbox.health(), Health::Damaged);
    }
}

#[test]
fn fault_034_a_fork_and_lost_records_state_red_everything() {
    let mut sentinel = Sentinel::confirmed(scope());
    sentinel.red(request(1, subject("a")));
    let other = Head {
        number: OutboxEpoch(1),
        root: digest("another"),
    };
    sentinel.remembered(Memory::Journal, other);
    assert_eq!(sentinel.alarms, [Damage::Forked(other)]);
    let last = sentinel.outbox.entries().last().unwrap().1;
    assert_eq!(scope_of(&last.envelope), RedScope::Everything);

    for known in [Head::ZERO, other] {
        let mut out = Vec::new();
        let outbox = Outbox::after_loss(writer(scope()), None, &mut out);
        let mut lost = Sentinel::new(scope());
        lost.outbox = outbox;
        lost.disk = Disk::default();
        lost.run(out);
        assert_eq!(lost.outbox.health(), Health::Damaged);
        lost.remembered(Memory::Journal, known);
        let last = lost.outbox.entries().last().unwrap().1;
        assert_eq!(scope_of(&last.envelope), RedScope::Everything);
        assert_eq!(lost.outbox.head().number, known.number.next());
        lost.restart();
        assert_eq!(lost.outbox.health(), Health::Damaged);
    }
}

#[test]
fn fault_034_damage_is_stated_once_until_a_reset_and_again_after_it() {
    let mut world = World::new();
    let mut sentinel = Sentinel::confirmed(world.scope());
    let mut out = Vec::new();
    sentinel.outbox = Outbox::after_loss(writer(world.scope()), Some(1), &mut out);
    sentinel.run(out);
    let deliveries = sentinel.remembered(Memory::Journal, Head::ZERO);
    let latch = world.latch(RawCommand::LatchRed(deliveries[1].segment.clone()));
    world.stop(latch);
    let RawCommand::AcknowledgeOutbox(ack) = world.ack(latch, 1) else {
        unreachable!()
    };
    world.ok(RawCommand::AcknowledgeOutbox(ack));
    for event in &world.events {
        sentinel.event(event);
    }
    assert_eq!(sentinel.outbox.entries().count(), 0);
    let head = sentinel.outbox.head();
    for _ in 0..3 {
        sentinel.remembered(Memory::Journal, head);
        sentinel.restart();
        assert_eq!(sentinel.outbox.head(), head);
    }
    // A reset cannot make a damaged outbox whole.
    sentinel.event(&Event::GroundsReset(vec![GroundNumber(1)]));
    assert_eq!(sentinel.standing(), []);
    sentinel.remembered(Memory::Journal, head);
    assert_eq!(sentinel.outbox.head().number, head.number.next());
}

#[test]
fn a_latch_of_a_red_that_this_writer_never_signed_is_damage() {
    let mut world = World::new();
    let mut sentinel = Sentinel::confirmed(world.scope());
    let red = journal::Outbox::new().red(&world, &RedScope::Everything);
    world.latch(red);
    sentinel.event(&world.events.last().unwrap().clone());
    assert_eq!(sentinel.outbox.health(), Health::Damaged);
}

#[test]
fn beats_count_up_and_name_the_head() {
    let mut sentinel = Sentinel::new(scope());
    let mut beats = BeatCounter::default();
    let first = beats.next(&sentinel.outbox);
    assert_eq!((first.sequence, first.writer_generation), (1, 1));
    assert_eq!(first.outbox_root_digest, Digest::ZERO);
    sentinel.red(request(1, subject("a")));
    let second = beats.next(&sentinel.outbox);
    assert_eq!((second.sequence, second.outbox_epoch), (2, OutboxEpoch(1)));
    sentinel.restart();
    let after = BeatCounter::default().next(&sentinel.outbox);
    assert_eq!((after.sequence, after.writer_generation), (1, 2));
}

/// One step of a hostile day.
#[derive(Debug, Clone)]
enum Step {
    Push(u8, u8),
    PushThenCrash(u8, usize),
    Restart,
    Time(u64),
    /// Deliver pending delivery number so and so to its receiver, `times` times.
    Deliver(usize, usize),
    Lose(usize),
    Progress,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6u8, 0..4u8).prop_map(|(s, v)| Step::Push(s, v)),
        1 => (0..6u8, 0..4usize).prop_map(|(s, kept)| Step::PushThenCrash(s, kept)),
        1 => Just(Step::Restart),
        3 => (0..6_000u64).prop_map(Step::Time),
        6 => (0..9usize, 1..3usize).prop_map(|(at, times)| Step::Deliver(at, times)),
        2 => (0..9usize).prop_map(Step::Lose),
        3 => Just(Step::Progress),
    ]
}

/// The far side: a journal, an actuator that remembers what it was given.
struct Day {
    world: World,
    sentinel: Sentinel,
    pending: Vec<Delivery>,
    actuator: Vec<u64>,
    promised: Vec<(RedScope, Vec<NegativeVerb>)>,
    shown: usize,
}

fn verbs(v: u8) -> Vec<NegativeVerb> {
    let all = [NegativeVerb::Revoke, NegativeVerb::Demote];
    let bits = all.iter().zip([1, 2]);
    bits.filter(|(_, bit)| v & bit != 0)
        .map(|(v, _)| *v)
        .collect()
}

impl Day {
    fn new() -> Day {
        let world = World::new();
        Day {
            sentinel: Sentinel::new(world.scope()),
            world,
            pending: Vec::new(),
            actuator: Vec::new(),
            promised: Vec::new(),
            shown: 0,
        }
    }

    fn step(&mut self, step: Step, serial: u64) {
        match step {
            Step::Push(s, v) => {
                let red = with_verbs(request(serial, subject(&format!("s{s}"))), &verbs(v));
                self.promised.push((red.scope.clone(), red.verbs.clone()));
                let (_, deliveries) = self.sentinel.red(red);
                self.pending.extend(deliveries);
            }
            Step::PushThenCrash(s, kept) => {
                let red = request(serial, subject(&format!("s{s}")));
                let scope = red.scope.clone();
                if self.sentinel.red_then_crash(red, kept).is_some() {
                    self.promised.push((scope, Vec::new()));
                }
            }
            Step::Restart => self.pending.extend(self.sentinel.restart()),
            Step::Time(ms) => {
                let now = self.sentinel.now + ms;
                self.pending.extend(self.sentinel.timeout(now));
            }
            Step::Deliver(at, times) if at < self.pending.len() => {
                let delivery = self.pending.remove(at);
                for _ in 0..times {
                    self.deliver(&delivery);
                }
            }
            Step::Lose(at) if at < self.pending.len() => {
                self.pending.remove(at);
            }
            Step::Deliver(..) | Step::Lose(_) => {}
            Step::Progress => self.progress(),
        }
    }

    fn deliver(&mut self, delivery: &Delivery) {
        let found = numbers(&delivery.segment);
        assert!(found.is_sorted() && found.windows(2).all(|w| w[1] == w[0] + 1));
        if delivery.to == Receiver::Actuator {
            for (number, envelope) in found.iter().zip(&delivery.segment) {
                let expected = self.actuator.last().map_or(1, |n| n + 1);
                assert!(*number <= expected, "a segment leaves nothing out");
                if *number == expected {
                    self.actuator.push(*number);
                }
                let record = SentinelRedOutboxV1::from_canonical(&envelope.body.0).unwrap();
                if Some(&record.outbox_epoch.0) == self.actuator.last() {
                    let head = Head {
                        number: record.outbox_epoch,
                        root: record.signed_outbox_root_digest,
                    };
                    let more = self.sentinel.remembered(Memory::Actuator, head);
                    self.pending.extend(more);
                }
            }
            return;
        }
        if !delivery.segment.is_empty() {
            self.world
                .ok(RawCommand::LatchRed(delivery.segment.clone()));
        }
        for ack in &delivery.closing {
            self.world.ok(RawCommand::AcknowledgeOutbox(ack.clone()));
        }
    }

    /// The actuator's part for the lowest latch, then some of the journal's news is shown.
    fn progress(&mut self) {
        let pending = self.world.state.authority.pending_latches();
        let next = pending.map(|l| l.receipt.latch_epoch).next();
        if let Some(latch) = next {
            self.world.stop(latch);
        }
        let news: Vec<_> = self.world.events[self.shown..].to_vec();
        self.shown = self.world.events.len();
        for event in news {
            self.pending.extend(self.sentinel.event(&event));
        }
    }

    fn settle(&mut self) {
        for _ in 0..2_000 {
            if self.sentinel.outbox.entries().next().is_none() {
                return;
            }
            let due = self
                .sentinel
                .outbox
                .next_wakeup()
                .expect("something is owed");
            let now = due.max(self.sentinel.now);
            let deliveries = self.sentinel.timeout(now);
            self.pending.extend(deliveries);
            for delivery in std::mem::take(&mut self.pending) {
                self.deliver(&delivery);
            }
            self.progress();
        }
        panic!("the outbox does not come to its end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// M1-I32: whatever is lost, repeated, reordered or crashed, every RED that was accepted
    /// latches in its order, and for every scope what it asked for is in the journal.
    #[test]
    fn m1_i32_no_red_is_lost_or_reordered(steps in proptest::collection::vec(step(), 1..60)) {
        let mut day = Day::new();
        for (serial, step) in (0..).zip(steps) {
            day.step(step, serial);
            day.sentinel.outbox.check();
        }
        day.settle();
        let latched: Vec<_> = day.world.events.iter().filter_map(|e| match e {
            Event::RedLatched(receipt, _, _, envelope) => Some((receipt, verdict(envelope))),
            _ => None,
        }).collect();
        let order: Vec<_> = latched.iter().map(|(r, _)| r.sentinel_outbox_epoch.0).collect();
        let expected: Vec<_> = (1..=day.sentinel.outbox.head().number.0).collect();
        prop_assert_eq!(order, expected);
        for (scope, verbs) in &day.promised {
            let (kind, value) = scope.to_open();
            let carried = latched.iter().any(|(_, v)| {
                v.scope_kind == kind && v.scope_value == value
                    && verbs.iter().all(|verb| v.negative_verbs.contains(&verb.number()))
            });
            prop_assert!(carried, "{scope:?} {verbs:?}");
        }
        prop_assert_eq!(&day.sentinel.alarms, &[]);
    }
}
