//! HOLD: up at once, kept through everything, down by proof only.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod bench;

use bench::world::{
    AGENT, MAIN, SENTINEL, START, Sentinel, World, digest, journal, key, request, subject,
    with_verbs,
};
use bench::{Actuator, verifier};
use redlatch_actuator::hold::{
    Answer, BEAT_AGE_MAX_MS, Cause, Denial, Effect, HELD_MAX, Hold, LiveGrounds, NotNarrowed,
    SeenV1,
};
use redlatch_actuator::verify_red::NotAuthentic;
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Event, Ground, GroundCause};
use redlatch_types::mandate::NegativeVerb;
use redlatch_types::proven::ProvenEvent;
use redlatch_types::records::*;
use redlatch_types::*;
use redlatch_watch::BeatCounter;

/// Journal, sentinel and an actuator that knows that nothing is held.
struct Bench {
    world: World,
    sentinel: Sentinel,
    beats: BeatCounter,
    actuator: Actuator,
}

impl Bench {
    fn new() -> Bench {
        let world = World::new();
        let mut bench = Bench {
            sentinel: Sentinel::confirmed(world.scope()),
            actuator: Actuator::new(&world),
            beats: BeatCounter::default(),
            world,
        };
        bench.beat();
        bench.narrow().unwrap();
        bench
    }
    fn beat(&mut self) -> Envelope {
        let beat = self.beats.next(&self.sentinel.outbox);
        let beat = Envelope::seal(self.world.scope(), &key(SENTINEL), &beat);
        self.hear(&beat);
        beat
    }
    fn hear(&mut self, beat: &Envelope) {
        let beat = verifier(self.world.scope()).beat(beat).unwrap();
        self.actuator.hold.handle_beat(&beat, self.actuator.now);
    }
    fn live(&self) -> LiveGrounds {
        let authority = &self.world.state.authority;
        LiveGrounds {
            size: self.world.leaves.len() as u64,
            watermark: SeenV1 {
                number: authority.outbox.number,
                root: authority.outbox.root.unwrap_or(Digest::ZERO),
            },
            grounds: authority.grounds.values().cloned().collect(),
        }
    }
    fn narrow(&mut self) -> Result<(), NotNarrowed> {
        let mut out = Vec::new();
        let (live, now) = (self.live(), self.actuator.now);
        let narrowed = self.actuator.hold.narrow(&live, now, &mut out);
        self.actuator.run_hold(out);
        narrowed
    }
    /// Chains a RED and returns what would be delivered.
    fn red(&mut self, scope: RedScope) -> Envelope {
        let n = self.sentinel.outbox.head().number.0;
        let (_, deliveries) = self.sentinel.red(request(n, scope));
        deliveries[0].segment.last().unwrap().clone()
    }
    fn intent(&mut self) -> SovereignActionIntentV1 {
        let digest = self.world.freeze(MAIN, 0, 7);
        self.world.intent(digest)
    }
    fn answer(&self, intent: &SovereignActionIntentV1) -> Answer {
        self.actuator.hold.permits(intent, self.actuator.now)
    }
    /// A person resets this ground; the actuator is shown the receipt.
    fn reset(&mut self, ground: u64) {
        let payload = ResetPayload {
            grounds: vec![GroundNumber(ground)],
            cause: Text::lossy("repaired"),
        };
        self.world.make_change(ActionPayload::ResetFrozen(payload));
        let events = self.world.events.iter().rev();
        let mut resets = events.filter(|it| matches!(it, Event::GroundsReset(_)));
        let reset = resets.next().unwrap().clone();
        self.actuator.event(&reset, None);
    }
    fn latch(&mut self, envelope: &Envelope) -> LatchNumber {
        self.world
            .latch(RawCommand::LatchRed(vec![envelope.clone()]))
    }
}

/// The sentinel in force.
fn pinned() -> PublicKey {
    key(SENTINEL).public_key()
}

fn denied(cause: Cause) -> Answer {
    Answer::Deny(Denial::Held(cause))
}

fn holds_everything(hold: &Hold) -> bool {
    hold.held().any(|h| h.scope == RedScope::Everything)
}

#[test]
fn fault_024_an_absent_or_unreadable_state_is_hold_everything() {
    let mut bench = Bench::new();
    let red = bench.red(subject("other"));
    bench.actuator.red(&red, None);
    let stored = bench.actuator.hold_disk.clone().unwrap();
    assert!(!holds_everything(&Hold::load(Some(&stored), pinned())));
    assert!(holds_everything(&Hold::load(None, pinned())));
    for length in 0..stored.len() {
        assert!(
            holds_everything(&Hold::load(Some(&stored[..length]), pinned())),
            "cut at {length}"
        );
    }
    for at in 0..stored.len() {
        for bit in 0..8 {
            let mut altered = stored.clone();
            altered[at] ^= 1 << bit;
            assert!(
                holds_everything(&Hold::load(Some(&altered), pinned())),
                "{at}.{bit}"
            );
        }
    }
    let mut longer = stored.clone();
    longer.push(0);
    assert!(holds_everything(&Hold::load(Some(&longer), pinned())));
}

#[test]
fn fault_024_restarts_keep_hold_whatever_became_of_the_cause() {
    let mut bench = Bench::new();
    let intent = bench.intent();
    let red = bench.red(subject("agent"));
    bench.actuator.red(&red, None);
    for _ in 0..3 {
        bench.sentinel.restart();
        bench.actuator.restart();
        bench.beats = BeatCounter::default();
        bench.beat();
        assert_eq!(bench.answer(&intent), denied(Cause::Red(OutboxEpoch(1))));
    }
}

#[test]
fn fault_023_a_red_of_one_moment_is_held_until_the_journal_has_no_ground_for_it() {
    let mut bench = Bench::new();
    let intent = bench.intent();
    assert_eq!(bench.answer(&intent), Answer::Permit);
    let red = bench.red(subject("agent"));
    bench.actuator.red(&red, None);
    // Held in the same step, before anything is latched, beats or not.
    assert_eq!(bench.answer(&intent), denied(Cause::Red(OutboxEpoch(1))));
    bench.beat();
    assert_eq!(bench.answer(&intent), denied(Cause::Red(OutboxEpoch(1))));
    // The journal has not latched it: its list of grounds does not end it.
    bench.world.tick(START + 5_000);
    bench.narrow().unwrap();
    assert_eq!(bench.answer(&intent), denied(Cause::Red(OutboxEpoch(1))));
    let latch = bench.latch(&red);
    bench.world.stop(latch);
    bench.narrow().unwrap();
    assert_eq!(
        bench.answer(&intent),
        denied(Cause::Ground(GroundNumber(1)))
    );
    // The ground is gone (a reset): the same RED, delivered again, does not come back.
    bench.world.state.authority.grounds.clear();
    bench.world.tick(START + 9_000);
    bench.narrow().unwrap();
    bench.actuator.red(&red, None);
    assert_eq!(bench.answer(&intent), Answer::Permit);
    // An older list neither raises nor lowers.
    assert_eq!(bench.narrow(), Err(NotNarrowed::Stale));
}

#[test]
fn the_latch_alone_raises_hold_too() {
    let mut bench = Bench::new();
    let intent = bench.intent();
    let red = bench.red(subject("agent"));
    bench.latch(&red);
    let event = bench.world.events.last().unwrap().clone();
    let proven = bench::world::prove(bench.world.scope(), &event);
    // The proof of this bench stands at position 0, below the list already used; a later one
    // would be `narrow`'s. A fresh actuator takes it.
    let mut fresh = Hold::load(None, pinned());
    fresh.handle_latch(&proven, &mut Vec::new());
    assert!(
        fresh
            .held()
            .any(|h| h.cause == Cause::Ground(GroundNumber(1)))
    );
    bench.narrow().unwrap();
    assert_eq!(
        bench.answer(&intent),
        denied(Cause::Ground(GroundNumber(1)))
    );
}

#[test]
fn fault_062_silence_and_a_stale_or_repeated_beat_deny() {
    let mut bench = Bench::new();
    let intent = bench.intent();
    let beat = bench.beat();
    bench.actuator.now += BEAT_AGE_MAX_MS;
    assert_eq!(bench.answer(&intent), Answer::Permit);
    bench.actuator.now += 1;
    assert_eq!(bench.answer(&intent), Answer::Deny(Denial::SentinelSilent));
    bench.hear(&beat);
    assert_eq!(bench.answer(&intent), Answer::Deny(Denial::SentinelSilent));
    bench.beat();
    assert_eq!(bench.answer(&intent), Answer::Permit);
    // A restart hears nothing until it hears a new one.
    bench.actuator.restart();
    assert_eq!(bench.answer(&intent), Answer::Deny(Denial::SentinelSilent));
}

#[test]
fn fault_062_a_beat_names_the_red_that_did_not_arrive() {
    let mut bench = Bench::new();
    let intent = bench.intent();
    let red = bench.red(subject("other"));
    bench.beat();
    assert_eq!(bench.answer(&intent), Answer::Deny(Denial::RedOutstanding));
    bench.actuator.red(&red, None);
    assert_eq!(bench.answer(&intent), Answer::Permit);
    // A sentinel that knows of less than was seen: rolled back.
    let old = Sentinel::new(bench.world.scope());
    bench.sentinel = old;
    bench.sentinel.restart();
    bench.beat();
    assert_eq!(bench.answer(&intent), Answer::Deny(Denial::OutboxBehind));
}

#[test]
fn fault_025_an_unreachable_source_denies() {
    let world = World::new();
    let mut bench = Bench::new();
    let intent = bench.intent();
    let actuator = Actuator::new(&world);
    assert_eq!(actuator.hold.permits(&intent, 0), denied(Cause::NoMemory));
    // No list of grounds, however fresh, replaces the sentinel's word for what is missing.
    let mut hold = Hold::load(None, pinned());
    let narrowed = hold.narrow(&bench.live(), 0, &mut Vec::new());
    assert_eq!(narrowed, Err(NotNarrowed::SentinelSilent));
    bench.red(subject("agent"));
    bench.actuator.hold = Hold::load(None, pinned());
    bench.beat();
    assert_eq!(bench.narrow(), Err(NotNarrowed::NotLatched));
    assert_eq!(bench.answer(&intent), denied(Cause::NoMemory));
}

#[test]
fn fault_094_too_many_scopes_are_everything() {
    let mut bench = Bench::new();
    let mut outbox = journal::Outbox::new();
    for i in 0..=HELD_MAX {
        let command = outbox.red(&bench.world, &subject(&format!("s{i}")));
        let RawCommand::LatchRed(segment) = command else {
            unreachable!()
        };
        bench.actuator.red(&segment[0], None);
    }
    assert!(holds_everything(&bench.actuator.hold));
    assert!(bench.actuator.hold.held().count() <= HELD_MAX);
    bench.actuator.restart();
    assert!(holds_everything(&bench.actuator.hold));
    // Still narrowed only when the journal has them all.
    assert!(bench.narrow().is_err());
    let intent = bench.intent();
    assert_ne!(bench.answer(&intent), Answer::Permit);
}

#[test]
fn fault_078_reds_in_any_order_and_number_end_in_the_same_hold() {
    let mut bench = Bench::new();
    let names = ["a", "b", "c", "d"];
    let reds: Vec<_> = names.iter().map(|n| bench.red(subject(n))).collect();
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]] {
        bench.actuator.restart();
        let mut hold = bench.actuator.hold.clone();
        let mut last = None;
        for at in order.into_iter().chain(order) {
            let red = verifier(bench.world.scope()).red(&reds[at]).unwrap();
            let mut out = Vec::new();
            hold.handle_red(&red, None, &mut out);
            assert!(
                matches!(out.last(), Some(Effect::Stored(_))),
                "each is answered"
            );
            last = out.pop();
        }
        let seen = hold.seen();
        assert_eq!(seen.number, OutboxEpoch(4));
        assert_eq!(seen.root, bench.sentinel.outbox.head().root);
        assert_eq!(last, Some(Effect::Stored(seen)));
        for name in names {
            let held = |h: &&redlatch_actuator::hold::HeldV1| h.scope == subject(name);
            assert_eq!(hold.held().filter(held).count(), 1, "{order:?} {name}");
        }
        assert!(
            !hold.held().any(|h| matches!(h.cause, Cause::Fork(_))),
            "{order:?}"
        );
    }
}

#[test]
fn two_chains_of_one_key_hold_everything_until_the_journal_freezes_for_them() {
    let mut bench = Bench::new();
    let mut other = Sentinel::new(bench.world.scope());
    let ours = bench.red(subject("a"));
    let (_, theirs) = other.red(request(99, subject("b")));
    bench.actuator.red(&ours, None);
    bench.actuator.red(&theirs[0].segment[0], None);
    let fork = Cause::Fork(OutboxEpoch(1));
    assert!(bench.actuator.hold.held().any(|h| h.cause == fork));
    bench.latch(&ours);
    bench.narrow().unwrap();
    assert!(
        bench.actuator.hold.held().any(|h| h.cause == fork),
        "not known there"
    );
    bench.latch(&theirs[0].segment[0]);
    bench.narrow().unwrap();
    assert!(!bench.actuator.hold.held().any(|h| h.cause == fork));
    assert!(
        holds_everything(&bench.actuator.hold),
        "its ground took over"
    );
}

#[test]
fn only_the_pinned_sentinel_of_this_organism_raises_hold() {
    let mut bench = Bench::new();
    let red = bench.red(subject("agent"));
    let check = |envelope: &Envelope| verifier(bench.world.scope()).red(envelope).err();
    assert_eq!(check(&red), None);
    let record = SentinelRedOutboxV1::from_canonical(&red.body.0).unwrap();
    let forged = Envelope::seal(red.scope, &key(AGENT), &record);
    assert_eq!(check(&forged), Some(NotAuthentic::WrongKey));
    let mut elsewhere = red.scope;
    elsewhere.organism_id = OrganismId(digest("other"));
    let foreign = Envelope::seal(elsewhere, &key(SENTINEL), &record);
    assert_eq!(check(&foreign), Some(NotAuthentic::WrongOrganism));
    let mut broken = red.clone();
    broken.signature.0[9] ^= 1;
    assert_eq!(check(&broken), Some(NotAuthentic::BadSignature));
    // A beat is no RED and a RED is no beat.
    let beat = bench.beat();
    assert_eq!(
        verifier(bench.world.scope()).red(&beat).err(),
        Some(NotAuthentic::BadSignature)
    );
    assert_eq!(
        verifier(bench.world.scope()).beat(&red).err(),
        Some(NotAuthentic::BadSignature)
    );
}

#[test]
fn what_is_unknown_or_unreadable_holds_everything_and_known_bytes_narrow_it() {
    let mut bench = Bench::new();
    let intent = bench.intent();
    let red = bench.red(RedScope::Intent(intent.digest()));
    let red = verifier(bench.world.scope()).red(&red).unwrap();
    assert_eq!(red.source(), Some(intent.digest()));
    assert_eq!(red.scopes(None), [RedScope::Everything]);
    let narrow = [RedScope::Intent(intent.digest()), subject("agent")];
    assert_eq!(red.scopes(Some(&intent)), narrow);
    // Bytes of another intent are no help.
    let digest = bench.world.freeze("refs/heads/other", 0, 9);
    let other = bench.world.intent(digest);
    assert_eq!(red.scopes(Some(&other)), [RedScope::Everything]);
    // Nor do they bind a plan that the named intent does not have.
    let mut asked = request(7, subject("other"));
    asked.verbs = vec![NegativeVerb::Rollback];
    asked.rollback_plan = Some(other.rollback.digest(&other.payload));
    asked.source = Some(intent.digest());
    let (_, deliveries) = bench.sentinel.red(asked);
    let unbound = deliveries[0].segment.last().unwrap();
    let unbound = verifier(bench.world.scope()).red(unbound).unwrap();
    assert_eq!(unbound.scopes(Some(&other)), [RedScope::Everything]);
    // An earlier organism epoch and an unreadable body.
    let mut older = bench.world.scope();
    older.organism_epoch = 0;
    let envelope = Envelope::seal(older, &key(SENTINEL), red.entry().unwrap());
    let old = verifier(bench.world.scope()).red(&envelope).unwrap();
    assert_eq!(old.scopes(Some(&intent)), [RedScope::Everything]);
    let body = vec![0xa1, 0x01, 0x02];
    let scope = bench.world.scope();
    let bytes = sign::preimage(SentinelRedOutboxV1::TYPE, &scope, &Digest::of(&body));
    let unreadable = Envelope {
        scope,
        key: key(SENTINEL).public_key(),
        signature: key(SENTINEL).sign(&bytes),
        body: Bytes(body),
    };
    bench.actuator.red(&unreadable, None);
    assert!(holds_everything(&bench.actuator.hold));
}

/// FAULTS 26: the stop's own work starves no beat, and there is a way out that is not silence.
#[test]
fn fault_026_a_stuck_stop_leaves_beats_and_permits_alone() {
    let mut bench = Bench::new();
    let digest = bench.world.freeze(MAIN, 0, 7);
    let intent = bench.world.intent(digest);
    let red = bench.red(subject("other"));
    bench.actuator.red(&red, None);
    bench.latch(&red);
    let latched = bench.world.events.last().unwrap().clone();
    bench.actuator.event(&latched, None);
    // The journal answers nothing for ten minutes.
    while bench.actuator.now < 600_000 {
        bench.actuator.timeout();
        bench.beat();
        assert_eq!(bench.answer(&intent), Answer::Permit);
    }
    assert!(bench.actuator.submitted.len() > 100);
    assert!(bench.actuator.holds(&subject("other")));
    // The way out: the stop ends, a reset takes the ground away, its proof lowers HOLD.
    bench.world.stop(LatchNumber(1));
    bench.reset(1);
    bench.narrow().unwrap();
    assert!(!bench.actuator.holds(&subject("other")));
}

#[test]
fn hold_ends_per_latch_and_by_the_proven_reset_of_its_ground_alone() {
    let mut bench = Bench::new();
    let (agent, other) = (subject("agent"), subject("other"));
    for scope in [&agent, &other] {
        let red = bench.red(scope.clone());
        bench.actuator.red(&red, None);
        let latch = bench.latch(&red);
        bench.world.stop(latch);
    }
    bench.narrow().unwrap();
    let holds = |bench: &Bench| (bench.actuator.holds(&agent), bench.actuator.holds(&other));
    assert_eq!(holds(&bench), (true, true));
    // What a minority or another organism's nodes say is nobody's reset.
    let of = |ground: u64| Event::GroundsReset(vec![GroundNumber(ground)]);
    let policy = bench::world::policy(bench.world.scope());
    let minority = bench::world::receipt(bench.world.scope(), &of(1), &[1]);
    assert!(ProvenEvent::of(&minority, &policy).is_err());
    let mut elsewhere = bench.world.scope();
    elsewhere.organism_id = OrganismId(digest("other"));
    let foreign = bench::world::receipt(elsewhere, &of(1), &[1, 2]);
    assert!(ProvenEvent::of(&foreign, &policy).is_err());
    // A ground that nobody holds for.
    bench.actuator.event(&of(3), None);
    assert_eq!(holds(&bench), (true, true));
    bench.reset(1);
    assert_eq!(holds(&bench), (false, true));
    // It is durable, and only the other one is left.
    bench.actuator.restart();
    assert_eq!(holds(&bench), (false, true));
    // The same subject again, under another ground: the old receipt ends nothing of it.
    let again = with_verbs(request(9, agent.clone()), &[NegativeVerb::Revoke]);
    let (_, deliveries) = bench.sentinel.red(again);
    let red = deliveries[0].segment.last().unwrap().clone();
    bench.actuator.red(&red, None);
    let latch = bench.latch(&red);
    bench.world.stop(latch);
    bench.narrow().unwrap();
    bench.actuator.event(&of(1), None);
    assert_eq!(holds(&bench), (true, true));
    // A RED that is not latched has no ground, so no reset reaches it.
    let red = bench.red(subject("third"));
    bench.actuator.red(&red, None);
    bench.actuator.event(
        &Event::GroundsReset((0..99).map(GroundNumber).collect()),
        None,
    );
    assert!(bench.actuator.holds(&subject("third")));
}

#[test]
fn an_act_of_the_root_holds_everything_and_a_new_sentinel_begins_a_new_chain() {
    let root_act = |bench: &Bench, sentinel: u8| {
        let governance = bench.world.governance();
        let mut roster = governance.roster.clone();
        roster.sentinel.key = key(sentinel).public_key();
        let act = RootActV1 {
            number: 1,
            previous_kernel_digest: governance.kernel.digest(),
            kernel: governance.kernel.clone(),
            roster,
            old_outbox_root_optional: None,
            reason: Text::lossy("a test"),
        };
        let ground = Ground {
            number: GroundNumber(5),
            scopes: vec![RedScope::Everything],
            cause: GroundCause::RootAct(1),
        };
        let envelope = Envelope::seal(bench.world.scope(), &key(journal::ROOT), &act);
        Event::RootActed(Box::new(act), ground, envelope)
    };
    for (sentinel, replaced) in [(SENTINEL, false), (77, true)] {
        let mut bench = Bench::new();
        let red = bench.red(subject("agent"));
        bench.actuator.red(&red, None);
        let act = root_act(&bench, sentinel);
        bench.actuator.event(&act, None);
        assert!(holds_everything(&bench.actuator.hold));
        bench.actuator.verifier.sentinel = key(sentinel).public_key();
        bench.actuator.restart();
        let of_red = |h: &redlatch_actuator::hold::HeldV1| matches!(h.cause, Cause::Red(_));
        assert_eq!(bench.actuator.hold.held().any(of_red), !replaced);
        assert_eq!(bench.actuator.hold.seen().number.0, u64::from(!replaced));
        // What was seen of another is no memory of this one: only proven grounds lead out.
        bench
            .actuator
            .event(&Event::GroundsReset(vec![GroundNumber(5)]), None);
        assert_eq!(holds_everything(&bench.actuator.hold), replaced);
        if !replaced {
            assert_eq!(bench.actuator.hold.held().count(), 1);
        }
        bench.actuator.verifier.sentinel = key(SENTINEL).public_key();
    }
}
