//! What followers take to be in force is what the journal has put in force, event by event.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod world;

use redlatch_types::event::{Event, Ground, GroundCause};
use redlatch_types::in_force::{InForceV1, NotTaken, Taken};
use redlatch_types::proven::ProvenEvent;
use redlatch_types::records::*;
use redlatch_types::*;
use redlatch_watch::Officers;
use world::journal::{self, ROOT};
use world::*;

fn genesis(world: &World) -> GenesisV1 {
    let Event::Bootstrapped(genesis, _) = &world.events[0] else {
        panic!("it begins with the genesis");
    };
    (**genesis).clone()
}

/// The scope of the journal's origin, which no act of the root changes.
fn first(world: &World) -> Scope {
    genesis(world).scope()
}

/// A receipt at position `at` of a tree whose other leaves are alike.
fn at(world: &World, event: &Event, at: u64) -> ProvenEvent {
    let leaf = event.to_canonical();
    let other = merkle::leaf_hash(b"x");
    let (mut hashes, mut root) = (Vec::new(), merkle::leaf_hash(&leaf));
    let mut known = other;
    let mut index = at;
    for _ in 0..16 {
        hashes.push(known);
        root = match index % 2 {
            0 => merkle::node_hash(&root, &known),
            _ => merkle::node_hash(&known, &root),
        };
        known = merkle::node_hash(&known, &known);
        index /= 2;
    }
    let mut receipt = receipt(first(world), event, &[]);
    receipt.proof.index = at;
    receipt.proof.hashes = hashes;
    receipt.proof.head = head(first(world), 1 << 16, root, &[1, 2]);
    ProvenEvent::of(&receipt, &policy(first(world))).unwrap()
}

fn followed(world: &World) -> InForceV1 {
    let mut known = InForceV1::of_genesis(&genesis(world));
    for (position, event) in (0u64..).zip(&world.events) {
        if InForceV1::is_changed_by(event) {
            known.take(&at(world, event, position)).unwrap();
        }
    }
    known
}

fn assert_same(world: &World) {
    let (known, governance) = (followed(world), world.governance());
    assert_eq!(known.roster, governance.roster);
    assert_eq!(known.kernel, governance.kernel);
    assert_eq!(known.constitution, governance.constitution);
    assert_eq!(known.autonomy_epoch, governance.epoch.autonomy_epoch);
    assert_eq!(known.scope, world.scope());
    assert_eq!(known.root_acts, governance.root_acts);
    assert_eq!(known.last_key_epoch, governance.last_key_epoch);
    let key = governance.quorum_key.map(|it| (it.epoch, it.group_key));
    assert_eq!(known.quorum_key.map(|it| (it.epoch, it.group_key)), key);
}

fn joined(n: u8) -> RosterNode {
    RosterNode {
        node_id: NodeId(n.into()),
        name: id(&format!("n{n}")),
        seat: Seat::Learner,
        log_key: key(130 + n).public_key(),
        cosigner_key: key(140 + n).public_key(),
        record_key: key(150 + n).public_key(),
    }
}

fn roster(change: RosterPayload) -> ActionPayload {
    ActionPayload::RosterChange(Box::new(change))
}

/// The four verifiers with other keys.
fn rekeyed(world: &World) -> Vec<RosterVerifier> {
    let verifiers = world.governance().roster.verifiers.into_iter().zip(0u8..);
    verifiers
        .map(|(it, n)| RosterVerifier {
            vote_key: key(170 + n).public_key(),
            witness_key: key(190 + n).public_key(),
            ..it
        })
        .collect()
}

#[test]
fn what_is_followed_is_what_the_journal_has_put_in_force() {
    let mut world = World::new();
    assert_same(&world);
    world.make_change(roster(RosterPayload::Join(joined(4))));
    assert_same(&world);
    world.make_change(roster(RosterPayload::Promote(NodeId(4))));
    world.make_change(roster(RosterPayload::Remove(NodeId(1))));
    assert_same(&world);
    let amended = world.amended(|it| it.objectives_non_goals.push(Text::lossy("more")));
    world.make_change(amended);
    assert_same(&world);
    let verifiers = rekeyed(&world);
    world.make_change(ActionPayload::VerifierSetChange(verifiers));
    assert_same(&world);
    assert_eq!(
        followed(&world).quorum_key,
        None,
        "the new four have none yet"
    );
    let latch = journal::Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(latch);
    world.stop(latch);
    assert_same(&world);
}

fn act(world: &World, signer: u8, change: impl FnOnce(&mut RootActV1)) -> Event {
    let governance = world.governance();
    let mut act = RootActV1 {
        number: governance.root_acts + 1,
        previous_kernel_digest: governance.kernel.digest(),
        kernel: governance.kernel.clone(),
        roster: RosterV1 {
            roster_epoch: governance.roster.roster_epoch.next(),
            ..governance.roster.clone()
        },
        old_outbox_root_optional: None,
        reason: Text::lossy("a test"),
    };
    change(&mut act);
    let ground = Ground {
        number: GroundNumber(1),
        scopes: vec![RedScope::Everything],
        cause: GroundCause::RootAct(act.number),
    };
    let envelope = Envelope::seal(world.scope(), &key(signer), &act);
    Event::RootActed(Box::new(act), ground, envelope)
}

#[test]
fn an_act_of_the_root_is_followed_like_the_journal_does() {
    let mut world = World::new();
    let Event::RootActed(_, _, envelope) = act(&world, ROOT, |it| {
        it.kernel.pinned_external_root_key = key(200).public_key();
    }) else {
        unreachable!()
    };
    world.ok(command::RawCommand::RootAct(envelope));
    assert_same(&world);
    assert_eq!(followed(&world).scope.organism_epoch, 2);
}

/// What is in force once these were shown, in this order.
fn shown(world: &World, positions: impl IntoIterator<Item = usize>) -> InForceV1 {
    let mut known = InForceV1::of_genesis(&genesis(world));
    for position in positions {
        let event = &world.events[position];
        if InForceV1::is_changed_by(event) {
            known.take(&at(world, event, position as u64)).unwrap();
        }
    }
    known
}

fn last(world: &World, word: &str) -> usize {
    let mut events = world.events.iter();
    events.rposition(|it| it.word() == word).unwrap()
}

/// A journal in which the root acts after one published epoch and before another.
fn acted() -> (World, usize, usize, usize) {
    let mut world = World::new();
    world.make_change(roster(RosterPayload::Join(joined(4))));
    let before = last(&world, "epoch_published");
    let Event::RootActed(_, _, envelope) = act(&world, ROOT, |_| {}) else {
        unreachable!()
    };
    world.ok(command::RawCommand::RootAct(envelope));
    let act = last(&world, "root_acted");
    let red = journal::Outbox::new().red(&world, &RedScope::Everything);
    let latch = world.latch(red);
    world.stop(latch);
    let after = last(&world, "epoch_published");
    assert!(before < act && act < after);
    (world, before, act, after)
}

#[test]
fn an_epoch_that_was_left_out_counts_whenever_it_is_shown() {
    let (world, before, act, after) = acted();
    let whole = shown(&world, 0..=act);
    let mut known = shown(&world, (0..=act).filter(|it| *it != before));
    assert!(known.autonomy_epoch < whole.autonomy_epoch);
    assert!(
        known.epoch_next <= before as u64,
        "it is read again from there"
    );
    let hidden = at(&world, &world.events[before], before as u64);
    assert!(!known.has_taken(hidden.event(), hidden.index()));
    assert_eq!(known.take(&hidden), Ok(Taken::Terms));
    assert_eq!(known, whole);
    assert_eq!(known.take(&hidden), Ok(Taken::Nothing));
    assert_eq!(known, whole);
    // The stop's epoch is not to wait for the act, and has counted it.
    let others = (0..act).chain([after, act]);
    assert_eq!(
        shown(&world, others).autonomy_epoch,
        world.governance().epoch.autonomy_epoch
    );
    assert_same(&world);
}

#[test]
fn a_key_ends_with_its_verifiers_though_it_is_hidden_that_it_was_voided() {
    let same = |world: &World| world.governance().roster.verifiers;
    for verifiers in [rekeyed, same] {
        let mut world = World::new();
        assert!(followed(&world).quorum_key.is_some());
        let verifiers = verifiers(&world);
        world.make_change(ActionPayload::VerifierSetChange(verifiers));
        assert_same(&world);
        let voided = last(&world, "quorum_key_voided");
        let known = shown(&world, (0..world.events.len()).filter(|it| *it != voided));
        assert_eq!(known.quorum_key, None);
    }
}

#[test]
fn what_does_not_follow_changes_nothing() {
    let mut world = World::new();
    let known = followed(&world);
    let taken = |event: &Event| {
        let mut after = known.clone();
        let taken = after.take(&at(&world, event, 900));
        assert!(taken.is_ok() || after == known);
        taken
    };
    let next = RosterV1 {
        roster_epoch: known.roster.roster_epoch.next(),
        ..known.roster.clone()
    };
    let changed = |roster: &RosterV1| Event::RosterChanged(Box::new(roster.clone()));
    assert_eq!(taken(&changed(&next)), Ok(Taken::Roster));
    let mut skipped = next.clone();
    skipped.roster_epoch = next.roster_epoch.next();
    assert_eq!(taken(&changed(&skipped)), Err(NotTaken::OutOfOrder));
    assert_eq!(taken(&changed(&known.roster)), Err(NotTaken::OutOfOrder));
    for other in [
        |it: &mut RosterV1| it.sentinel.key = key(201).public_key(),
        |it: &mut RosterV1| it.actuator.key = key(201).public_key(),
    ] {
        let mut pinned = next.clone();
        other(&mut pinned);
        assert_eq!(taken(&changed(&pinned)), Err(NotTaken::OtherPins));
    }
    let stranger = Event::ConstitutionAmended(Box::new(ConstitutionV1 {
        previous_constitution_digest: digest("another"),
        ..known.constitution.clone()
    }));
    assert_eq!(taken(&stranger), Err(NotTaken::OutOfOrder));
    assert_eq!(taken(&act(&world, ROOT, |_| {})), Ok(Taken::Root));
    assert_eq!(
        taken(&act(&world, AGENT, |_| {})),
        Err(NotTaken::NotByTheRoot)
    );
    let again = act(&world, ROOT, |it| it.number += 1);
    assert_eq!(taken(&again), Err(NotTaken::OutOfOrder));
    let other = act(&world, ROOT, |it| {
        it.previous_kernel_digest = digest("another")
    });
    assert_eq!(taken(&other), Err(NotTaken::OutOfOrder));
    // Signed is one act, and shown another.
    let (mut shown, Event::RootActed(_, _, signed)) = (
        act(&world, ROOT, |_| {}),
        act(&world, ROOT, |it| it.reason = Text::lossy("another")),
    ) else {
        unreachable!()
    };
    if let Event::RootActed(_, _, envelope) = &mut shown {
        *envelope = signed;
    }
    assert_eq!(taken(&shown), Err(NotTaken::NotByTheRoot));
    // The same leaf again, and one from before, say nothing new.
    world.make_change(roster(RosterPayload::Join(joined(4))));
    let mut after = followed(&world);
    let last = world
        .events
        .iter()
        .rposition(|it| matches!(it, Event::RosterChanged(_)));
    let (position, event) = (last.unwrap(), world.events[last.unwrap()].clone());
    let before = after.clone();
    let again = at(&world, &event, position as u64);
    assert_eq!(after.take(&again), Ok(Taken::Nothing));
    assert_eq!(after, before);
}

#[test]
fn an_older_enrolment_does_not_undo_a_revocation() {
    let mut world = World::new();
    let officer = ClientIdentityV1 {
        actor_kind: ActorKind::Operator,
        ..journal::new_subject("deputy", 60)
    };
    let change = |world: &mut World, change: SubjectPayload| {
        world.make_change(ActionPayload::SubjectChange(Box::new(change)));
        let changed = |it: &Event| matches!(it, Event::SubjectChanged(_));
        let place = world.events.iter().rposition(changed).unwrap();
        at(world, &world.events[place], place as u64)
    };
    let enrolled = change(&mut world, SubjectPayload::Enrol(officer));
    let revoked = change(
        &mut world,
        SubjectPayload::Revoke("deputy".parse().unwrap()),
    );
    let founding = genesis(&world).subjects;
    let may = |officers: &Officers| officers.may_order(&key(60).public_key());
    // In order, the other way round, and after a restart in between.
    let mut officers = Officers::resume(&founding, Vec::new());
    assert!(!may(&officers));
    officers.take(&enrolled).unwrap();
    assert!(may(&officers));
    let kept = officers.take(&revoked).unwrap();
    assert!(!may(&officers) && officers.take(&revoked).is_none());
    let mut officers = Officers::resume(&founding, vec![kept]);
    assert!(officers.take(&enrolled).is_none());
    assert!(!may(&officers));
    let agent = Officers::resume(&founding, Vec::new());
    assert!(!agent.may_order(&key(journal::AGENT).public_key()));
}
