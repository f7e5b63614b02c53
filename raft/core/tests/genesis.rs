//! Genesis and the quorum's first key.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with its reason in sight"
)]

use super::world::*;
use redlatch_journal::development::genesis;
use redlatch_types::command::RawCommand;
use redlatch_types::records::*;
use redlatch_types::*;

#[test]
fn a_genesis_is_accepted_once() {
    let mut world = World::before_genesis();
    let command = seal_genesis(&genesis(parties()));
    world.ok(command.clone());
    assert_eq!(world.now(), START, "time begins with the organism");
    assert_eq!(world.refused(command), Refusal::AlreadyBootstrapped);
    let mut other = parties();
    other.nonce = digest("another");
    assert_eq!(
        world.refused(seal_genesis(&genesis(other))),
        Refusal::AlreadyBootstrapped
    );
}

#[test]
fn nothing_passes_before_genesis() {
    let mut world = World::before_genesis();
    for command in [
        RawCommand::Commit(TransactionId(Digest::ZERO)),
        RawCommand::Prepare(IntentDigest(Digest::ZERO), CapabilityId(Digest::ZERO)),
        RawCommand::Tick(TickNumber(1), Vec::new()),
        RawCommand::ActivateQuorumKey(Vec::new()),
        RawCommand::Checkpoint,
    ] {
        assert_eq!(world.refused(command), Refusal::NoGenesis);
    }
}

#[test]
fn a_genesis_of_another_root_is_refused() {
    let mut world = World::before_genesis();
    let record = genesis(parties());
    let forged = Envelope::seal(record.scope(), &key(77), &record);
    assert_eq!(
        world.refused(RawCommand::Bootstrap(forged)),
        Refusal::Unauthorized
    );
}

/// One change, one refusal: each line breaks one rule of a sound genesis.
#[test]
fn m1_i21_a_genesis_below_the_floors_or_against_itself_is_refused() {
    type Break = (&'static str, fn(&mut GenesisV1));
    let breaks: &[Break] = &[
        ("seats", |g| g.kernel.minimum_verifier_seats = 3),
        ("threshold", |g| g.kernel.minimum_quorum_threshold = 2),
        ("threshold 0", |g| g.kernel.minimum_quorum_threshold = 0),
        ("domains", |g| g.kernel.minimum_failure_domains = 2),
        ("proposer votes", |g| {
            g.kernel.proposer_executor_nonvoting = false
        }),
        ("sentinel optional", |g| {
            g.kernel.sentinel_required_and_nonvoting = false
        }),
        ("no veto", |g| g.kernel.sentinel_red_absolute_veto = false),
        ("rollback", |g| {
            g.kernel.sentinel_outbox_antirollback_required = false
        }),
        ("fail open", |g| {
            g.kernel.required_sentinel_unavailable_fail_closed = false
        }),
        ("canonicalization", |g| {
            g.kernel.canonicalization_version = 2
        }),
        ("sentinel pin", |g| {
            g.roster.sentinel.policy_digest = digest("x")
        }),
        ("actuator pin", |g| {
            g.roster.actuator.policy_digest = digest("x")
        }),
        ("two nodes", |g| {
            g.roster.nodes.pop();
        }),
        ("learner", |g| g.roster.nodes[0].seat = Seat::Learner),
        ("node 0", |g| g.roster.nodes[0].node_id = NodeId(0)),
        ("node twice", |g| g.roster.nodes[1].node_id = NodeId(1)),
        ("name twice", |g| g.roster.nodes[1].name = id("n1")),
        ("identifier 0", |g| g.roster.verifiers[0].identifier = 0),
        ("identifier twice", |g| g.roster.verifiers[1].identifier = 1),
        ("three verifiers", |g| {
            g.roster.verifiers.pop();
        }),
        ("other domain", |g| {
            g.roster.verifiers[0].failure_domain = id("south")
        }),
        ("spec threshold", |g| {
            g.constitution.independence_spec.quorum_threshold = 2
        }),
        ("spec domains", |g| {
            g.constitution.independence_spec.minimum_failure_domains = 2
        }),
        ("spec above seats", |g| {
            g.constitution.independence_spec.quorum_threshold = 5
        }),
        ("spec sentinel", |g| {
            g.constitution.independence_spec.nonvoting_sentinel_id = id("other");
        }),
        ("constitution kernel", |g| {
            g.constitution.safety_kernel_digest = digest("x")
        }),
        ("registry", |g| {
            g.constitution.budgets_risk_actions_digest = digest("x")
        }),
        ("constitution epoch", |g| {
            g.constitution.constitution_epoch = ConstitutionEpoch(2);
        }),
        ("first mode", |g| {
            g.activations[0].activated_mode = Mode::PolicyAutonomous
        }),
        ("skipped epoch", |g| {
            g.activations[1].activated_autonomy_epoch = AutonomyEpoch(3);
        }),
        ("mode not allowed", |g| {
            g.constitution.allowed_autonomy_modes = vec![Mode::HumanGated];
        }),
        ("third activation", |g| {
            let last = g.activations[1].clone();
            g.activations.push(last);
        }),
        ("grants digest", |g| {
            g.activations[1].grants_digest = digest("x")
        }),
        ("grant of nobody", |g| g.grants[0].subject_id = id("nobody")),
        ("production with grants", |g| {
            g.kind = OrganismKind::Production
        }),
        ("grant of another constitution", |g| {
            g.grants[0].constitution_epoch = ConstitutionEpoch(2);
            regrant(g);
        }),
        ("grant of an earlier epoch", |g| {
            g.grants[0].autonomy_epoch = AutonomyEpoch(1);
            regrant(g);
        }),
        ("grant of tomorrow", |g| {
            g.grants[0].issued_at = g.created_at + 1;
            regrant(g);
        }),
        ("constitution before", |g| {
            g.activations[0].previous_constitution_epoch = ConstitutionEpoch(1);
        }),
        ("digest of the constitution before", |g| {
            g.activations[1].previous_constitution_digest = Digest::ZERO;
        }),
        ("quorum policy", |g| {
            g.activations[1].quorum_policy_digest = digest("x");
        }),
        ("issued after it is active", |g| {
            g.activations[1].issued_at = g.activations[1].activates_at + 1;
        }),
        ("other verifier builds", |g| {
            g.roster.verifiers[3].builds_digest = digest("x");
        }),
        ("nobody to decide", |g| g.human_keys.clear()),
        ("more to decide than there are persons", |g| {
            amend(g, |c| c.human_approvals_required = 3);
        }),
        ("nowhere to be asked", |g| {
            amend(g, |c| c.webauthn_origins.clear())
        }),
        ("subject is verifier", |g| {
            g.subjects[0].subject_id = id("va")
        }),
    ];
    for (what, change) in breaks {
        let mut record = genesis(parties());
        change(&mut record);
        let mut world = World::before_genesis();
        assert_eq!(
            world.refused(seal_genesis(&record)),
            Refusal::BadGenesis,
            "{what}"
        );
    }
}

/// Changes the constitution and whatever names its digest, so that nothing else is wrong.
fn amend(genesis: &mut GenesisV1, change: fn(&mut ConstitutionV1)) {
    change(&mut genesis.constitution);
    let digest = genesis.constitution.digest();
    for activation in &mut genesis.activations {
        activation.target_constitution_digest = digest;
        if activation.previous_constitution_epoch.0 == 1 {
            activation.previous_constitution_digest = digest;
        }
    }
}

/// Lets the last activation name the grants as they are now, so that nothing else is wrong.
fn regrant(genesis: &mut GenesisV1) {
    genesis.activations[1].grants_digest = grants_digest(genesis.grants.iter());
}

#[test]
fn fault_043_a_key_in_two_places_is_refused() {
    let shared = key(20).public_key();
    let places: &[fn(&mut GenesisV1, PublicKey)] = &[
        |g, k| g.roster.verifiers[1].vote_key = k,
        |g, k| g.roster.verifiers[1].witness_key = k,
        |g, k| g.roster.nodes[0].log_key = k,
        |g, k| g.roster.nodes[0].cosigner_key = k,
        |g, k| g.roster.nodes[0].record_key = k,
        |g, k| g.subjects[0].public_key = k,
    ];
    for place in places {
        let mut record = genesis(parties());
        place(&mut record, shared);
        let mut world = World::before_genesis();
        assert_eq!(world.refused(seal_genesis(&record)), Refusal::BadGenesis);
    }
}

#[test]
fn fault_044_a_small_order_key_in_the_roster_is_refused() {
    let mut identity = [0; 32];
    identity[0] = 1;
    let mut record = genesis(parties());
    record.roster.verifiers[2].vote_key = PublicKey(identity);
    let mut world = World::before_genesis();
    assert_eq!(world.refused(seal_genesis(&record)), Refusal::BadGenesis);
}

#[test]
fn a_production_organism_starts_human_gated_without_grants() {
    let record = production();
    let mut world = World::before_genesis();
    world.ok(seal_genesis(&record));
    let governance = world.state.authority.governance.as_ref().unwrap();
    assert_eq!(governance.epoch.active_mode, Mode::HumanGated);
    assert_eq!(governance.epoch.autonomy_epoch, AutonomyEpoch(1));
}

fn before_key() -> World {
    let mut world = World::before_genesis();
    world.ok(seal_genesis(&genesis(parties())));
    world
}

#[test]
fn fault_038_the_quorum_key_needs_four_equal_confirmations() {
    let mut world = before_key();
    let all = world.key_confirmations(|_, _| {});
    assert_eq!(
        world.refused(RawCommand::ActivateQuorumKey(all[..3].to_vec())),
        Refusal::InsufficientQuorum
    );
    let mut twice = all[..3].to_vec();
    twice.push(all[0].clone());
    assert_eq!(
        world.refused(RawCommand::ActivateQuorumKey(twice)),
        Refusal::InsufficientQuorum
    );
    let changes: &[fn(&mut KeyConfirmationV1)] = &[
        |c| c.transcript_digest = digest("other"),
        |c| c.group_key = key(5).public_key(),
        |c| c.public_key_package_digest = digest("other"),
        |c| c.verifier_id = id("va"),
        |c| c.quorum_key_epoch = KeyEpoch(2),
        |c| c.roster_epoch = RosterEpoch(2),
    ];
    for change in changes {
        let differing = world.key_confirmations(|i, c| {
            if i == 3 {
                change(c);
            }
        });
        assert_eq!(
            world.refused(RawCommand::ActivateQuorumKey(differing)),
            Refusal::InsufficientQuorum
        );
    }
    let mut elsewhere = all.clone();
    let last = KeyConfirmationV1::from_canonical(&all[3].body.0).expect("its own record");
    let scope = Scope {
        organism_id: OrganismId(digest("elsewhere")),
        ..world.scope()
    };
    elsewhere[3] = Envelope::seal(scope, &key(VERIFIERS[3].1), &last);
    assert_eq!(
        world.refused(RawCommand::ActivateQuorumKey(elsewhere)),
        Refusal::WrongOrganism
    );
    world.ok(RawCommand::ActivateQuorumKey(all));
}

#[test]
fn a_second_quorum_key_is_refused_and_a_repeat_is_not_new() {
    let mut world = World::new();
    let all = world.key_confirmations(|_, _| {});
    let outcome = world.apply(RawCommand::ActivateQuorumKey(all));
    assert!(outcome.reply.is_ok() && outcome.events.is_empty());
    let other = world.key_confirmations(|_, c| c.group_key = key(5).public_key());
    assert_eq!(
        world.refused(RawCommand::ActivateQuorumKey(other)),
        Refusal::NotSupported
    );
}

#[test]
fn a_red_stops_the_activation_of_a_key() {
    let mut world = before_key();
    let red = Outbox::new().red(&world, &RedScope::ActionClass(ActionClass::Land));
    world.latch(red);
    let all = world.key_confirmations(|_, _| {});
    assert_eq!(
        world.refused(RawCommand::ActivateQuorumKey(all)),
        Refusal::RedLatched
    );
}

#[test]
fn ticks_need_a_majority_of_distinct_voters_and_the_tick_before() {
    let mut world = World::new();
    let next = world.state.authority.clock.tick.next();
    let later = START + 5_000;
    let one = world.readings(&[(1, later)]);
    assert_eq!(
        world.refused(RawCommand::Tick(next, one)),
        Refusal::TimeStale
    );
    let twice = world.readings(&[(1, later), (1, later)]);
    assert_eq!(
        world.refused(RawCommand::Tick(next, twice)),
        Refusal::TimeStale
    );
    let good = world.readings(&[(1, later), (3, later)]);
    assert_eq!(
        world.refused(RawCommand::Tick(next.next(), good.clone())),
        Refusal::WrongState
    );
    world.ok(RawCommand::Tick(next, good.clone()));
    assert_eq!(world.now(), later);
    // The same readings name the tick before: they serve once.
    assert_eq!(
        world.refused(RawCommand::Tick(next.next(), good)),
        Refusal::TimeStale
    );
    let stranger = ClockReadingV1 {
        node_id: NodeId(1),
        roster_epoch: RosterEpoch(1),
        previous_tick: next,
        clock_ms: later,
    };
    let forged = vec![
        Envelope::seal(world.scope(), &key(AGENT), &stranger),
        world.readings(&[(2, later)]).remove(0),
    ];
    assert_eq!(
        world.refused(RawCommand::Tick(next.next(), forged)),
        Refusal::Unauthorized
    );
}

/// A clock counts as its own node's, for the roster in force, in this organism and epoch.
#[test]
fn each_reading_of_a_tick_is_a_voters_own_and_of_now() {
    let mut world = World::new();
    let scope = world.scope();
    let before = Scope {
        organism_epoch: scope.organism_epoch - 1,
        ..scope
    };
    let previous = world.state.authority.clock.tick;
    let time = START + 5_000;
    let own = ClockReadingV1 {
        node_id: NodeId(2),
        roster_epoch: RosterEpoch(1),
        previous_tick: previous,
        clock_ms: time,
    };
    let of_another = ClockReadingV1 {
        node_id: NodeId(3),
        ..own.clone()
    };
    let other_roster = ClockReadingV1 {
        roster_epoch: RosterEpoch(2),
        ..own.clone()
    };
    let tick = |world: &World, second: Envelope| {
        let first = world.readings(&[(1, time)]).remove(0);
        RawCommand::Tick(previous.next(), vec![first, second])
    };
    for (scope, reading, expected) in [
        (before, &own, Refusal::WrongOrganism),
        (scope, &of_another, Refusal::TimeStale),
        (scope, &other_roster, Refusal::TimeStale),
    ] {
        let command = tick(&world, Envelope::seal(scope, &key(122), reading));
        assert_eq!(world.refused(command), expected, "{reading:?}");
    }
    let command = tick(&world, Envelope::seal(scope, &key(122), &own));
    world.ok(command);
}
