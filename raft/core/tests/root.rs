//! Acts without a decision: the offline root, the feature level, a node that comes back.

use redlatch_journal::registry::FEATURE_LEVEL;
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, GroundCause};
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

#[test]
fn a_root_act_replaces_pins_freezes_everything_and_grants_nothing() {
    let mut world = World::new();
    let landing = world.freeze(MAIN, 0, 1);
    let prepared = world.prepare(landing);
    let before = world.governance();
    let command = sealed_root_act(&world, &root_act(&world, |_| {}), ROOT);
    world.ok(command.clone());
    let after = world.governance();
    assert_eq!(after.organism_epoch, before.organism_epoch + 1);
    assert_eq!(after.roster.sentinel.key, key(70).public_key());
    assert_eq!(
        after.kernel.digest(),
        after.constitution.safety_kernel_digest
    );
    assert_eq!(after.grants, before.grants);
    assert_eq!(after.epoch.safety_state, SafetyState::Stopped);
    let ground = world
        .state
        .authority
        .grounds
        .values()
        .next()
        .expect("a ground");
    assert_eq!(ground.cause, GroundCause::RootAct(1));
    assert_eq!(world.state.authority.issued.ground, ground.number);
    assert_eq!(world.refused(RawCommand::Commit(prepared)), Refusal::Frozen);
    // The old sentinel's word is nobody's now, and the act is not repeated.
    let scope = world.scope();
    let red = Outbox::new().push(
        scope,
        None,
        Outbox::verdict(&RedScope::Everything, &[], None).to_canonical(),
    );
    assert_eq!(
        world.refused(RawCommand::LatchRed(vec![red])),
        Refusal::Unauthorized
    );
    assert_eq!(world.refused(command), Refusal::WrongOrganism);
}

/// M1-I32: the act that replaces a sentinel closes its outbox, of which nobody acknowledges anything any more.
#[test]
fn a_stop_of_a_sentinel_before_ends_without_its_word_and_is_in_no_chain_of_the_next() {
    let mut world = World::new();
    let (mut old, mut new) = (Outbox::new(), Outbox::of(NEXT_SENTINEL));
    let subject = |name: &str| RedScope::Subject(id(name));
    let red = old.red(&world, &subject("agent"));
    let terminal = world.latch(red);
    let red = old.red(&world, &subject("other"));
    let pending = world.latch(red);
    world.stop(terminal);
    let root = old.root;
    let act = root_act(&world, |a| a.old_outbox_root_optional = Some(root));
    world.ok(sealed_root_act(&world, &act, ROOT));
    let live = |world: &World| -> Vec<LatchNumber> {
        let latches = world.state.authority.latches.keys();
        latches.copied().collect()
    };
    assert_eq!(live(&world), [pending]);
    // The new one numbers from 1 again; that it repeats itself is no break of the chain before.
    let first = new.red(&world, &subject("agent"));
    let ours = world.latch(first.clone());
    let second = new.red(&world, &subject("gate"));
    let next = world.latch(second);
    assert_eq!(world.ok(first), Accepted::Latched(vec![ours]));
    assert_eq!(live(&world), [pending, ours, next]);
    // Each ends; the new sentinel acknowledges its own.
    for latch in [pending, ours] {
        world.stop(latch);
    }
    assert_eq!(live(&world), [ours, next]);
}

#[test]
fn m1_i21_not_even_the_root_lowers_a_floor_or_leaves_a_pin_unmatched() {
    let mut world = World::new();
    type Change = fn(&mut RootActV1);
    let changes: [(&str, Change, Refusal); 14] = [
        (
            "an identifier twice",
            |a| a.roster.verifiers[0].identifier = 2,
            Refusal::KernelFloor,
        ),
        (
            "identifier 0",
            |a| a.roster.verifiers[0].identifier = 0,
            Refusal::KernelFloor,
        ),
        (
            "node 0",
            |a| a.roster.nodes[0].node_id = NodeId(0),
            Refusal::KernelFloor,
        ),
        (
            "a node twice",
            |a| a.roster.nodes[1].node_id = NodeId(1),
            Refusal::KernelFloor,
        ),
        (
            "eight voters",
            |a| {
                let node = |n: u8| RosterNode {
                    node_id: NodeId(u64::from(n)),
                    name: id(&format!("n{n}")),
                    seat: Seat::Voter,
                    log_key: key(170 + n).public_key(),
                    cosigner_key: key(180 + n).public_key(),
                    record_key: key(190 + n).public_key(),
                };
                a.roster.nodes.extend((4..=8).map(node));
            },
            Refusal::KernelFloor,
        ),
        ("number", |a| a.number = 2, Refusal::WrongState),
        (
            "kernel before",
            |a| a.previous_kernel_digest = digest("x"),
            Refusal::WrongState,
        ),
        (
            "threshold",
            |a| a.kernel.minimum_quorum_threshold = 2,
            Refusal::KernelFloor,
        ),
        (
            "domains",
            |a| a.kernel.minimum_failure_domains = 2,
            Refusal::KernelFloor,
        ),
        (
            "veto",
            |a| a.kernel.sentinel_red_absolute_veto = false,
            Refusal::KernelFloor,
        ),
        (
            "pin",
            |a| a.roster.sentinel.key = key(71).public_key(),
            Refusal::KernelFloor,
        ),
        (
            "old chain",
            |a| a.old_outbox_root_optional = None,
            Refusal::KernelFloor,
        ),
        (
            "verifiers",
            |a| {
                a.roster.verifiers.pop();
            },
            Refusal::KernelFloor,
        ),
        (
            "epoch",
            |a| a.roster.roster_epoch = RosterEpoch(1),
            Refusal::KernelFloor,
        ),
    ];
    for (what, change, expected) in changes {
        let command = sealed_root_act(&world, &root_act(&world, change), ROOT);
        assert_eq!(world.refused(command), expected, "{what}");
    }
    let command = sealed_root_act(&world, &root_act(&world, |_| {}), AGENT);
    assert_eq!(world.refused(command), Refusal::Unauthorized);
}

#[test]
fn a_feature_is_proposed_only_once_every_node_supports_it() {
    let mut world = World::before_genesis();
    let mut record = redlatch_journal::development::genesis(parties());
    record.feature_level = 1;
    world.ok(seal_genesis(&record));
    world.tick(START + 1_000);
    assert_eq!(world.governance().feature_level, 1);
    let change = ActionPayload::ResetFrozen(ResetPayload {
        grounds: vec![GroundNumber(1)],
        cause: Text::default(),
    });
    assert_eq!(world.refused_change(change.clone()), Refusal::FeatureLevel);
    let all = |world: &World, level| {
        (1..=3)
            .map(|n| support(world, n, level))
            .collect::<Vec<_>>()
    };
    let two = all(&world, FEATURE_LEVEL)[..2].to_vec();
    assert_eq!(
        world.refused(RawCommand::RaiseFeatureLevel(two)),
        Refusal::FeatureLevel
    );
    let mut twice = all(&world, FEATURE_LEVEL);
    twice[2] = twice[1].clone();
    assert_eq!(
        world.refused(RawCommand::RaiseFeatureLevel(twice)),
        Refusal::StaleRoster
    );
    let beyond = all(&world, FEATURE_LEVEL + 1);
    assert_eq!(
        world.refused(RawCommand::RaiseFeatureLevel(beyond)),
        Refusal::FeatureLevel
    );
    let raise = RawCommand::RaiseFeatureLevel(all(&world, FEATURE_LEVEL));
    world.ok(raise.clone());
    world.ok(raise);
    assert_eq!(world.governance().feature_level, FEATURE_LEVEL);
    world.freeze_change(change);
}

/// What every node says counts only as its own word, of one level, for the roster in force.
#[test]
fn each_word_for_a_feature_level_is_the_nodes_own_and_of_now() {
    let mut world = World::before_genesis();
    let mut record = redlatch_journal::development::genesis(parties());
    record.feature_level = 1;
    world.ok(seal_genesis(&record));
    let scope = world.scope();
    let before = Scope {
        organism_epoch: scope.organism_epoch - 1,
        ..scope
    };
    let says = FeatureSupportV1 {
        node_id: NodeId(3),
        roster_epoch: RosterEpoch(1),
        feature_level: 2,
    };
    let other_level = FeatureSupportV1 {
        feature_level: 3,
        ..says.clone()
    };
    let other_roster = FeatureSupportV1 {
        roster_epoch: RosterEpoch(2),
        ..says.clone()
    };
    let unknown = FeatureSupportV1 {
        node_id: NodeId(4),
        ..says.clone()
    };
    let words = [
        (scope, 122, &says, Refusal::Unauthorized),
        (before, 123, &says, Refusal::WrongOrganism),
        (scope, 123, &other_level, Refusal::StaleRoster),
        (scope, 123, &other_roster, Refusal::StaleRoster),
        (scope, 123, &unknown, Refusal::Unauthorized),
    ];
    let raise = |world: &World, third: Envelope| {
        let two = (1..=2).map(|n| support(world, n, 2));
        RawCommand::RaiseFeatureLevel(two.chain([third]).collect())
    };
    for (scope, n, word, expected) in words {
        let third = Envelope::seal(scope, &key(n), word);
        let command = raise(&world, third);
        assert_eq!(world.refused(command), expected, "{word:?} by {n}");
    }
    let command = raise(&world, Envelope::seal(scope, &key(123), &says));
    world.ok(command);
}

#[test]
fn a_red_and_its_freeze_stop_a_new_feature_level() {
    let mut world = World::before_genesis();
    let mut record = redlatch_journal::development::genesis(parties());
    record.feature_level = 1;
    world.ok(seal_genesis(&record));
    world.tick(START + 1_000);
    let all = |world: &World| (1..=3).map(|n| support(world, n, 2)).collect();
    let red = Outbox::new().red(&world, &RedScope::Subject(id("other")));
    let latch = world.latch(red);
    let raise = RawCommand::RaiseFeatureLevel(all(&world));
    assert_eq!(world.refused(raise.clone()), Refusal::RedLatched);
    world.stop(latch);
    assert_eq!(world.refused(raise), Refusal::Frozen);
}

/// The word of a node that lost its disk, under the record key of node `n - 120`.
fn rejoin(world: &World, node: u8, n: u8) -> RawCommand {
    let record = RejoinV1 {
        node_id: NodeId(u64::from(node)),
        roster_epoch: world.governance().roster.roster_epoch,
        incarnation: 7,
        record_key: key(120 + node).public_key(),
    };
    RawCommand::Rejoin(Envelope::seal(world.scope(), &key(n), &record))
}

#[test]
fn a_node_that_lost_its_disk_comes_back_as_a_learner_by_its_own_word() {
    let mut world = World::new();
    let forged = rejoin(&world, 3, 121);
    assert_eq!(world.refused(forged), Refusal::Unauthorized);
    let command = rejoin(&world, 3, 123);
    world.ok(command);
    let roster = world.governance().roster;
    assert_eq!(roster.node(NodeId(3)).expect("known").seat, Seat::Learner);
    assert_eq!(roster.roster_epoch, RosterEpoch(2));
    // Two of two are left: a second one would leave nobody to decide.
    let command = rejoin(&world, 2, 122);
    assert_eq!(world.refused(command), Refusal::KernelFloor);
}

#[test]
fn a_node_gives_up_its_vote_here_now_and_under_the_key_it_has() {
    let mut world = World::new();
    let scope = world.scope();
    let elsewhere = Scope {
        organism_id: OrganismId(digest("elsewhere")),
        ..scope
    };
    let record = RejoinV1 {
        node_id: NodeId(3),
        roster_epoch: RosterEpoch(1),
        incarnation: 7,
        record_key: key(123).public_key(),
    };
    let other_key = RejoinV1 {
        record_key: key(122).public_key(),
        ..record.clone()
    };
    let other_roster = RejoinV1 {
        roster_epoch: RosterEpoch(2),
        ..record.clone()
    };
    for (scope, record, expected) in [
        (elsewhere, &record, Refusal::WrongOrganism),
        (scope, &other_key, Refusal::Unauthorized),
        (scope, &other_roster, Refusal::StaleRoster),
    ] {
        let command = RawCommand::Rejoin(Envelope::seal(scope, &key(123), record));
        assert_eq!(world.refused(command), expected, "{record:?}");
    }
    world.ok(RawCommand::Rejoin(Envelope::seal(
        scope,
        &key(123),
        &record,
    )));
}

/// Where nobody can decide already, an act takes nothing away and stops everything all the same.
#[test]
fn the_root_acts_in_an_organism_that_nobody_can_decide_for() {
    let mut world = World::new();
    let governance = world.state.authority.governance.as_mut().expect("started");
    governance.human_keys.clear();
    let act = sealed_root_act(&world, &root_act(&world, |_| {}), ROOT);
    world.ok(act);
}

#[test]
pub(super) fn no_node_loses_its_vote_where_it_cannot_get_it_back() {
    let mut world = World::before_genesis();
    let mut record = redlatch_journal::development::genesis(parties());
    record.feature_level = 2;
    world.ok(seal_genesis(&record));
    world.tick(START + 1_000);
    let early = rejoin(&world, 3, 123);
    assert_eq!(world.refused(early), Refusal::FeatureLevel);
    let raise = RawCommand::RaiseFeatureLevel((1..=3).map(|n| support(&world, n, 3)).collect());
    world.ok(raise);
    let command = rejoin(&world, 3, 123);
    world.ok(command);
}

#[test]
fn nodes_of_a_roster_ascend_in_whatever_order_they_joined() {
    let mut world = World::new();
    let later = RosterNode {
        node_id: NodeId(9),
        name: id("n9"),
        log_key: key(105).public_key(),
        cosigner_key: key(115).public_key(),
        record_key: key(125).public_key(),
        ..newcomer()
    };
    for node in [later, newcomer()] {
        let join = RosterPayload::Join(node);
        world.make_change(ActionPayload::RosterChange(Box::new(join)));
    }
    let nodes = world.governance().roster.nodes;
    let numbers: Vec<u64> = nodes.iter().map(|n| n.node_id.0).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 9]);
}

#[test]
fn nodes_join_as_learners_are_promoted_and_leave_one_a_step() {
    let mut world = World::new();
    let node = newcomer();
    let change = |payload| ActionPayload::RosterChange(Box::new(payload));
    type Change = fn(&mut RosterNode);
    let changes: [Change; 5] = [
        |n| n.seat = Seat::Voter,
        |n| n.node_id = NodeId(1),
        |n| n.name = id("n1"),
        |n| n.log_key = n.record_key,
        |n| n.record_key = key(SENTINEL).public_key(),
    ];
    for alter in changes {
        let mut wrong = node.clone();
        alter(&mut wrong);
        let payload = change(RosterPayload::Join(wrong));
        assert_eq!(world.refused_change(payload), Refusal::KernelFloor);
    }
    let leaves = change(RosterPayload::Remove(NodeId(1)));
    assert_eq!(
        world.refused_change(leaves),
        Refusal::KernelFloor,
        "three voters at least"
    );
    world.make_change(change(RosterPayload::Join(node)));
    world.make_change(change(RosterPayload::Promote(NodeId(4))));
    let roster = world.governance().roster;
    assert_eq!(
        (roster.voters().count(), roster.roster_epoch),
        (4, RosterEpoch(3))
    );
}
