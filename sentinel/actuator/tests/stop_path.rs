//! The whole stop path in one pure world: sentinel, actuator and journal, with loss,
//! repetition, reordering and crashes between any two effects.
//!
//! ```text
//!   outbox ──Deliver──▶ actuator (HOLD) ──answer──▶ outbox
//!      └────Deliver──▶ journal ──events──▶ actuator (attempts) ──commands──▶ journal
//!                          └──────events──▶ outbox ──acknowledgement──▶ journal
//! ```

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod bench;

use std::collections::BTreeMap;

use bench::world::{MAIN, SENTINEL, Sentinel, World, approvals, key, request, subject};
use bench::{Actuator, Submitted, latch_of, verifier};
use proptest::prelude::*;
use redlatch_actuator::hold::{Answer, Denial};
use redlatch_types::command::RawCommand;
use redlatch_types::event::Event;
use redlatch_types::records::*;
use redlatch_types::*;
use redlatch_watch::BeatCounter;
use redlatch_watch::outbox::{Delivery, Head, Memory, Receiver};

/// Something on its way.
#[derive(Debug, Clone)]
enum Packet {
    Delivery(Delivery),
    /// The actuator's answer to the sentinel.
    Stored(Head),
    /// An event of the journal, by position, to the sentinel.
    NewsToSentinel(usize),
    /// And to the actuator.
    NewsToActuator(usize),
    Command(Submitted),
    Reply(
        Submitted,
        Box<Result<redlatch_types::event::Accepted, Refusal>>,
    ),
}

struct Net {
    world: World,
    sentinel: Sentinel,
    actuator: Actuator,
    wire: Vec<Packet>,
    shown: usize,
    raised: Vec<RedScope>,
    intents: BTreeMap<IntentDigest, SovereignActionIntentV1>,
}

impl Net {
    fn new() -> Net {
        let world = World::new();
        Net {
            sentinel: Sentinel::new(world.scope()),
            actuator: Actuator::new(&world),
            world,
            wire: Vec::new(),
            shown: 0,
            raised: Vec::new(),
            intents: BTreeMap::new(),
        }
    }

    fn freeze(&mut self, n: u8) -> IntentDigest {
        let reference = format!("refs/heads/r{n}");
        let intent = self.world.freeze(&reference, 0, 7);
        self.intents.insert(intent, self.world.intent(intent));
        intent
    }

    fn raise(&mut self, n: u64, scope: RedScope) {
        let (_, deliveries) = self.sentinel.red(request(n, scope.clone()));
        self.raised.push(scope);
        self.send(deliveries);
    }

    fn send(&mut self, deliveries: Vec<Delivery>) {
        self.wire
            .extend(deliveries.into_iter().map(Packet::Delivery));
    }

    /// What actuator and journal have put out goes on the wire.
    fn collect(&mut self) {
        let submitted = std::mem::take(&mut self.actuator.submitted);
        self.wire.extend(submitted.into_iter().map(Packet::Command));
        for seen in std::mem::take(&mut self.actuator.answers) {
            self.wire.push(Packet::Stored(Head {
                number: seen.number,
                root: seen.root,
            }));
        }
        for at in self.shown..self.world.events.len() {
            self.wire.push(Packet::NewsToSentinel(at));
            self.wire.push(Packet::NewsToActuator(at));
        }
        self.shown = self.world.events.len();
        for ask in std::mem::take(&mut self.actuator.asks) {
            let about = |e: &Event| latch_of(e).is_some() && (ask.is_none() || latch_of(e) == ask);
            for (at, event) in self.world.events.iter().enumerate() {
                if about(event) {
                    self.wire.push(Packet::NewsToActuator(at));
                }
            }
        }
    }

    fn arrive(&mut self, packet: Packet) {
        match packet {
            Packet::Delivery(delivery) => self.deliver(delivery),
            Packet::Stored(head) => {
                let more = self.sentinel.remembered(Memory::Actuator, head);
                self.send(more);
            }
            Packet::NewsToSentinel(at) => {
                let event = self.world.events[at].clone();
                let more = self.sentinel.event(&event);
                self.send(more);
            }
            Packet::NewsToActuator(at) => {
                let event = self.world.events[at].clone();
                let source = self.source_of(&event);
                self.actuator.event(&event, source.as_ref());
            }
            Packet::Command(sent) => {
                let reply = self.world.apply(sent.command.clone().into()).reply;
                self.wire.push(Packet::Reply(sent, Box::new(reply)));
            }
            Packet::Reply(sent, reply) => self.actuator.reply(&sent, &reply),
        }
        self.collect();
    }

    fn deliver(&mut self, delivery: Delivery) {
        if delivery.to == Receiver::Actuator {
            for envelope in &delivery.segment {
                let source = self.source_in(envelope);
                self.actuator.red(envelope, source.as_ref());
            }
            return;
        }
        if !delivery.segment.is_empty() {
            self.world.ok(RawCommand::LatchRed(delivery.segment));
        }
        for ack in delivery.closing {
            self.world.ok(RawCommand::AcknowledgeOutbox(ack));
        }
        // A node shows again the events of the latches that are asked about.
        for (at, event) in self.world.events.iter().enumerate() {
            let asked = latch_of(event).is_some_and(|l| delivery.awaiting.contains(&l));
            if asked || matches!(event, Event::RedLatched(..) | Event::OutboxAcknowledged(..)) {
                self.wire.push(Packet::NewsToSentinel(at));
            }
        }
    }

    fn source_in(&self, envelope: &Envelope) -> Option<SovereignActionIntentV1> {
        let record = SentinelRedOutboxV1::from_canonical(&envelope.body.0).unwrap();
        let intent = record.source_intent_digest_optional?;
        self.intents.get(&intent).cloned()
    }

    fn source_of(&self, event: &Event) -> Option<SovereignActionIntentV1> {
        match event {
            Event::RedLatched(_, _, _, envelope) => self.source_in(envelope),
            _ => None,
        }
    }

    fn pass_time(&mut self, ms: u64) {
        let now = self.sentinel.now + ms;
        let more = self.sentinel.timeout(now);
        self.send(more);
        self.actuator.now = self.actuator.now.max(now);
        self.actuator.timeout();
        self.collect();
    }

    fn is_over(&self) -> bool {
        self.sentinel.outbox.entries().next().is_none()
            && self.actuator.attempts.works().next().is_none()
    }

    /// Nothing is lost any more: everything must come to its end.
    fn settle(&mut self) {
        self.actuator.restart();
        self.collect();
        for _ in 0..400 {
            if self.is_over() {
                return;
            }
            while !self.wire.is_empty() {
                let packet = self.wire.remove(0);
                self.arrive(packet);
            }
            self.pass_time(6_000);
        }
        panic!("the stop path does not come to its end");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Raise(u8),
    RaiseIntent(u8),
    /// Packet number so and so arrives, so many times.
    Arrive(usize, usize),
    Lose(usize),
    Time(u64),
    CrashSentinel(u8, usize),
    /// The actuator runs so many more effects, then it is gone.
    DoomActuator(usize),
    RestartActuator,
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..4u8).prop_map(Step::Raise),
        1 => (0..3u8).prop_map(Step::RaiseIntent),
        14 => (0..12usize, 1..3usize).prop_map(|(at, times)| Step::Arrive(at, times)),
        2 => (0..12usize).prop_map(Step::Lose),
        4 => (0..6_000u64).prop_map(Step::Time),
        1 => (0..4u8, 0..3usize).prop_map(|(s, kept)| Step::CrashSentinel(s, kept)),
        1 => (0..6usize).prop_map(Step::DoomActuator),
        1 => Just(Step::RestartActuator),
        1 => Just(Step::Tick),
    ]
}

fn take(net: &mut Net, step: Step, serial: u64) {
    match step {
        Step::Raise(s) => net.raise(serial, subject(&format!("s{s}"))),
        Step::RaiseIntent(n) => {
            let intent = net.intents.keys().nth(n.into()).copied().unwrap();
            net.raise(serial, RedScope::Intent(intent));
        }
        Step::Arrive(at, times) if at < net.wire.len() => {
            let packet = net.wire.remove(at);
            for _ in 0..times {
                net.arrive(packet.clone());
            }
        }
        Step::Lose(at) if at < net.wire.len() => {
            net.wire.remove(at);
        }
        Step::Arrive(..) | Step::Lose(_) => {}
        Step::Time(ms) => net.pass_time(ms),
        Step::CrashSentinel(s, kept) => {
            let scope = subject(&format!("s{s}"));
            let red = request(serial, scope.clone());
            if net.sentinel.red_then_crash(red, kept).is_some() {
                net.raised.push(scope);
            }
        }
        Step::DoomActuator(effects) => net.actuator.runs = Some(effects),
        Step::RestartActuator => {
            net.actuator.restart();
            net.collect();
        }
        Step::Tick => {
            let now = net.world.now() + 130_000;
            net.world.tick(now);
            net.collect();
        }
    }
    // A process that is out of effects is gone; it comes back at once.
    if net.actuator.runs == Some(0) {
        net.actuator.restart();
        net.collect();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// M1-I32, M1-I35, M1-I36: every RED latches once, every latch is ended by exactly one
    /// marker, the outbox closes, and HOLD covers what was raised.
    #[test]
    fn m1_i32_every_red_comes_to_its_terminal_end(
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let mut net = Net::new();
        (0..3).for_each(|n| { net.freeze(n); });
        net.raise(1_000, subject("s0"));
        for (serial, step) in (0..).zip(steps) {
            take(&mut net, step, serial);
        }
        net.settle();
        let count = |word: &str| net.world.events.iter().filter(|e| e.word() == word).count();
        let reds = net.sentinel.outbox.head().number.0;
        for word in ["red_latched", "safety_committed", "safety_terminal", "outbox_acknowledged"] {
            prop_assert_eq!(count(word) as u64, reds, "{}", word);
        }
        prop_assert_eq!(net.world.state.authority.latches.len(), 0);
        for scope in &net.raised {
            prop_assert!(net.actuator.holds(scope), "{:?}", scope);
            let frozen = net.world.state.authority.grounds.values();
            prop_assert!(frozen.into_iter().any(|g| g.scopes.contains(scope)));
        }
        prop_assert_eq!(&net.sentinel.alarms, &[]);
        prop_assert_eq!(&net.actuator.alarms, &[]);
    }
}

/// FAULTS 22 along the stop path: RED between PREPARE and COMMIT.
#[test]
fn fault_022_hold_rises_before_the_latch_and_the_latch_stops_the_commit() {
    let mut net = Net::new();
    let digest = net.world.freeze(MAIN, 0, 7);
    let intent = net.world.intent(digest);
    net.intents.insert(digest, intent.clone());
    let prepared = net.world.prepare(digest);
    let (_, deliveries) = net.sentinel.red(request(1, RedScope::Intent(digest)));
    // The actuator alone: denied at the gate, no quorum, no latch.
    let to_actuator = deliveries.iter().find(|d| d.to == Receiver::Actuator);
    net.deliver(to_actuator.unwrap().clone());
    assert!(net.world.state.authority.latches.is_empty());
    assert!(matches!(
        net.actuator.hold.permits(&intent, 0),
        Answer::Deny(Denial::Held(_))
    ));
    // The journal alone, another node's copy.
    let to_node = deliveries
        .iter()
        .find(|d| d.to == Receiver::Node(NodeId(3)));
    net.deliver(to_node.unwrap().clone());
    let refused = net.world.refused(RawCommand::Commit(prepared));
    assert_eq!(refused, Refusal::RedLatched);
    net.collect();
    net.settle();
    assert_eq!(
        net.world.refused(RawCommand::Commit(prepared)),
        Refusal::Frozen
    );
}

#[test]
fn a_red_and_its_latch_lead_to_the_same_stop_in_either_order() {
    for latch_first in [true, false] {
        let mut net = Net::new();
        let intent = net.freeze(0);
        net.raise(1, RedScope::Intent(intent));
        let place = |p: &Packet| match p {
            Packet::Delivery(d) if d.to == Receiver::Actuator => 1,
            Packet::Delivery(_) => 0,
            _ => 2,
        };
        net.wire.sort_by_key(place);
        if !latch_first {
            net.wire.reverse();
        }
        while let Some(packet) = (!net.wire.is_empty()).then(|| net.wire.remove(0)) {
            net.arrive(packet);
        }
        net.settle();
        let frozen = net.world.state.authority.grounds.values().next().unwrap();
        assert_eq!(frozen.scopes, [RedScope::Intent(intent), subject("agent")]);
        for scope in &frozen.scopes {
            assert!(net.actuator.holds(scope));
        }
        let given = net.world.authorization(intent, &approvals());
        let refused = net.world.refused(RawCommand::Authorize(Box::new(given)));
        assert_eq!(refused, Refusal::Frozen);
    }
}

/// Beats travel beside: what the sentinel has signed is denied before it arrives.
#[test]
fn fault_062_a_beat_that_overtakes_its_red_denies() {
    let mut net = Net::new();
    let mut beats = BeatCounter::default();
    let intent = net.freeze(0);
    net.raise(1, subject("s1"));
    let beat = Envelope::seal(
        net.world.scope(),
        &key(SENTINEL),
        &beats.next(&net.sentinel.outbox),
    );
    let beat = verifier(net.world.scope()).beat(&beat).unwrap();
    net.actuator.hold.handle_beat(&beat, 0);
    let answer = net.actuator.hold.permits(&net.intents[&intent], 0);
    assert!(matches!(answer, Answer::Deny(_)));
}
