//! Every rule of a genesis and of an act of the root, broken alone: all that depends on it is made to fit.
//!
//! ```text
//!   parties ─▶ pins and seats ─▶ the kernel's digest ─▶ receipts ─▶ sealed
//!        └ a change comes in at its own stage, and what follows is derived from it
//! ```

use redlatch_journal::development::genesis;
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

/// Where a change comes in. Whatever is derived later fits it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Parties,
    Pins,
    Constitution,
    Receipts,
}
use Stage::{Constitution, Parties as Party, Pins, Receipts};

type Change = fn(&mut GenesisV1);

fn seats(roster: &RosterV1) -> Vec<VerifierSeat> {
    let seat = |v: &RosterVerifier| VerifierSeat {
        verifier_id: v.verifier_id.clone(),
        failure_domain: v.failure_domain.clone(),
    };
    let mut seats: Vec<_> = roster.verifiers.iter().map(seat).collect();
    seats.sort();
    seats
}

fn pin(kernel: &mut SafetyKernelV1, roster: &RosterV1) {
    let builds: Vec<Digest> = roster.verifiers.iter().map(|v| v.builds_digest).collect();
    kernel.verifier_binary_digest = Digest::of(&builds.to_canonical());
    kernel.sentinel_identity_binary_policy_digest = roster.sentinel.pin_digest();
    kernel.safety_actuator_identity_binary_policy_digest = roster.actuator.pin_digest();
}

/// `record` with the change at its stage and everything after it derived anew.
fn broken(mut record: GenesisV1, stage: Stage, change: Change) -> GenesisV1 {
    let at = |here: Stage, record: &mut GenesisV1| {
        if here == stage {
            change(record);
        }
    };
    at(Party, &mut record);
    pin(&mut record.kernel, &record.roster);
    let spec = &mut record.constitution.independence_spec;
    spec.four_voting_verifier_principals = seats(&record.roster);
    spec.nonvoting_sentinel_id = record.roster.sentinel.name.clone();
    at(Pins, &mut record);
    record.constitution.safety_kernel_digest = record.kernel.digest();
    at(Constitution, &mut record);
    let constitution = record.constitution.clone();
    let grants = grants_digest(record.grants.iter());
    let kernel = record.kernel.digest();
    let mut previous = Digest::ZERO;
    for receipt in &mut record.activations {
        receipt.previous_mode_epoch_digest = previous;
        receipt.target_constitution_digest = constitution.digest();
        receipt.safety_kernel_digest = kernel;
        receipt.quorum_policy_digest = constitution.quorum_policy_digest();
        if previous != Digest::ZERO {
            receipt.previous_constitution_digest = constitution.digest();
            receipt.previous_constitution_epoch = constitution.constitution_epoch;
        }
        let link = (receipt.activated_mode, receipt.activated_autonomy_epoch);
        previous = Digest::of(&link.to_canonical());
    }
    if let Some(last) = record.activations.last_mut() {
        last.grants_digest = grants;
    }
    at(Receipts, &mut record);
    record
}

fn refused(record: &GenesisV1) -> Refusal {
    World::before_genesis().refused(seal_genesis(record))
}

#[test]
fn what_is_derived_anew_without_a_change_is_accepted() {
    for record in [genesis(parties()), production()] {
        let same = broken(record.clone(), Receipts, |_| {});
        assert_eq!(same, record);
        World::before_genesis().ok(seal_genesis(&same));
    }
}

#[test]
fn m1_i21_each_floor_of_the_kernel_holds_by_itself() {
    let breaks: &[(&str, Stage, Change)] = &[
        ("seats", Party, |g| g.kernel.minimum_verifier_seats = 3),
        ("threshold", Party, |g| {
            g.kernel.minimum_quorum_threshold = 2
        }),
        ("domains", Party, |g| g.kernel.minimum_failure_domains = 2),
        ("a voting proposer", Party, |g| {
            g.kernel.proposer_executor_nonvoting = false
        }),
        ("no sentinel", Party, |g| {
            g.kernel.sentinel_required_and_nonvoting = false
        }),
        ("no veto", Party, |g| {
            g.kernel.sentinel_red_absolute_veto = false
        }),
        ("a rolled back outbox", Party, |g| {
            g.kernel.sentinel_outbox_antirollback_required = false;
        }),
        ("open without a sentinel", Party, |g| {
            g.kernel.required_sentinel_unavailable_fail_closed = false;
        }),
        ("canonicalization", Party, |g| {
            g.kernel.canonicalization_version = 2
        }),
        ("verifiers' builds", Pins, |g| {
            g.kernel.verifier_binary_digest = digest("x")
        }),
        ("sentinel", Pins, |g| {
            g.kernel.sentinel_identity_binary_policy_digest = digest("x");
        }),
        ("actuator", Pins, |g| {
            g.kernel.safety_actuator_identity_binary_policy_digest = digest("x");
        }),
        ("five seats of four", Party, |g| {
            g.kernel.minimum_verifier_seats = 5
        }),
        ("four of a spec of three", Party, |g| {
            g.kernel.minimum_quorum_threshold = 4
        }),
        ("four domains of a spec of three", Party, |g| {
            g.kernel.minimum_failure_domains = 4
        }),
    ];
    for (what, stage, change) in breaks {
        let record = broken(genesis(parties()), *stage, *change);
        assert_eq!(refused(&record), Refusal::BadGenesis, "{what}");
    }
    let soft = broken(production(), Party, |g| {
        g.kernel
            .human_attestation_classes
            .push(AttestationClass::Software);
    });
    assert_eq!(refused(&soft), Refusal::BadGenesis, "a key in a file");
}

#[test]
fn m1_i21_each_term_of_the_constitution_holds_by_itself() {
    let breaks: &[(&str, Stage, Change)] = &[
        ("kernel", Constitution, |g| {
            g.constitution.safety_kernel_digest = digest("x")
        }),
        ("registry", Constitution, |g| {
            g.constitution.budgets_risk_actions_digest = digest("x");
        }),
        ("other seats", Constitution, |g| {
            let spec = &mut g.constitution.independence_spec;
            spec.four_voting_verifier_principals[0].failure_domain = id("elsewhere");
        }),
        ("five of four", Constitution, |g| {
            g.constitution.independence_spec.quorum_threshold = 5;
        }),
        ("five domains of four", Constitution, |g| {
            g.constitution.independence_spec.minimum_failure_domains = 5;
        }),
        ("below the threshold", Constitution, |g| {
            g.constitution.independence_spec.quorum_threshold = 2;
        }),
        ("below the domains", Constitution, |g| {
            g.constitution.independence_spec.minimum_failure_domains = 2;
        }),
        ("a voting proposer", Constitution, |g| {
            g.constitution.independence_spec.proposer_executor_nonvoting = false;
        }),
        ("another sentinel", Constitution, |g| {
            g.constitution.independence_spec.nonvoting_sentinel_id = id("x");
        }),
        ("nobody", Constitution, |g| {
            g.constitution.human_approvals_required = 0
        }),
        ("epoch", Constitution, |g| {
            g.constitution.constitution_epoch = ConstitutionEpoch(2);
            for grant in &mut g.grants {
                grant.constitution_epoch = ConstitutionEpoch(2);
            }
        }),
        ("one before it", Constitution, |g| {
            g.constitution.previous_constitution_digest = digest("x");
        }),
        ("approved by itself", Constitution, |g| {
            g.constitution.old_runtime_approval_digest = digest("x");
        }),
        ("of tomorrow", Constitution, |g| {
            g.constitution.effective_at = g.created_at + 1;
        }),
        ("too many clauses", Constitution, |g| {
            g.constitution.policy_clauses = vec![landing_clause(); limits::POLICY_CLAUSES_MAX + 1];
        }),
        ("level 0", Receipts, |g| g.feature_level = 0),
        ("a level beyond", Receipts, |g| {
            g.feature_level = redlatch_journal::registry::FEATURE_LEVEL + 1;
        }),
    ];
    for (what, stage, change) in breaks {
        let record = broken(genesis(parties()), *stage, *change);
        assert_eq!(refused(&record), Refusal::BadGenesis, "{what}");
    }
    let most = broken(genesis(parties()), Constitution, |g| {
        g.constitution.policy_clauses = vec![landing_clause(); limits::POLICY_CLAUSES_MAX];
    });
    World::before_genesis().ok(seal_genesis(&most));
}

/// A clause names something of each kind, and no more than can be looked at.
#[test]
fn m1_i8_a_clause_that_names_nothing_or_everything_is_refused() {
    type Clause = fn(&mut PolicyClauseV1, usize);
    let lists: [Clause; 5] = [
        |c, n| c.action_classes = vec![ActionClass::Land; n],
        |c, n| c.risk_domains = vec![RiskClass::Low; n],
        |c, n| {
            let scope = c.resource_environment_scope[0].clone();
            c.resource_environment_scope = vec![scope; n];
        },
        |c, n| c.required_gates = vec![id("unit"); n],
        |c, n| c.runners = vec![key(RUNNER).public_key(); n],
    ];
    let mut world = World::new();
    for (at, list) in lists.into_iter().enumerate() {
        for n in [0, limits::SCOPES_MAX + 1] {
            let change = world.amended(|c| {
                let mut clause = landing_clause();
                list(&mut clause, n);
                c.policy_clauses = vec![clause];
            });
            let refused = world.refused_change(change);
            assert_eq!(refused, Refusal::KernelFloor, "list {at} of {n}");
        }
        let change = world.amended(|c| {
            let mut clause = landing_clause();
            list(&mut clause, limits::SCOPES_MAX);
            c.policy_clauses = vec![clause];
        });
        world.freeze_change(change);
    }
    let change = world.amended(|c| {
        let mut clause = landing_clause();
        clause.action_classes.push(ActionClass::KeyChange);
        c.policy_clauses = vec![clause];
    });
    assert_eq!(world.refused_change(change), Refusal::KernelFloor);
}

fn learner(n: u8) -> RosterNode {
    RosterNode {
        node_id: NodeId(u64::from(n)),
        name: id(&format!("n{n}")),
        seat: Seat::Learner,
        log_key: key(170 + n).public_key(),
        cosigner_key: key(180 + n).public_key(),
        record_key: key(190 + n).public_key(),
    }
}

#[test]
fn a_roster_has_three_or_five_voters_and_four_verifiers_each_once() {
    let breaks: &[(&str, Stage, Change)] = &[
        ("epoch", Party, |g| g.roster.roster_epoch = RosterEpoch(2)),
        ("four voters", Party, |g| {
            g.roster.nodes.push(RosterNode {
                seat: Seat::Voter,
                ..learner(4)
            });
        }),
        ("ten nodes", Party, |g| {
            g.roster.nodes.extend((4..=10).map(learner))
        }),
        ("node 0", Party, |g| g.roster.nodes[0].node_id = NodeId(0)),
        ("a node twice", Party, |g| {
            g.roster.nodes[1].node_id = NodeId(1)
        }),
        ("a node's name twice", Party, |g| {
            g.roster.nodes[1].name = id("n1")
        }),
        ("a verifier's name twice", Party, |g| {
            g.roster.verifiers[1].verifier_id = id("va");
        }),
        ("an identifier twice", Party, |g| {
            g.roster.verifiers[1].identifier = 1
        }),
        ("identifier 0", Party, |g| {
            g.roster.verifiers[0].identifier = 0
        }),
        ("five verifiers", Party, |g| {
            let mut fifth = g.roster.verifiers[3].clone();
            fifth.identifier = 5;
            fifth.verifier_id = id("ve");
            fifth.vote_key = key(160).public_key();
            fifth.witness_key = key(161).public_key();
            g.roster.verifiers.push(fifth);
        }),
    ];
    for (what, stage, change) in breaks {
        let record = broken(genesis(parties()), *stage, *change);
        assert_eq!(refused(&record), Refusal::BadGenesis, "{what}");
    }
    let nine = broken(genesis(parties()), Party, |g| {
        g.roster.nodes.extend((4..=9).map(learner));
    });
    World::before_genesis().ok(seal_genesis(&nine));
}

/// Many subjects with keys of their own, in order.
fn crowd(g: &mut GenesisV1, n: usize) {
    let first = g.subjects[0].clone();
    for i in g.subjects.len()..n {
        let mut seed = [200; 32];
        seed[..8].copy_from_slice(&(i as u64).to_be_bytes());
        g.subjects.push(ClientIdentityV1 {
            subject_id: id(&format!("s{i}")),
            public_key: SigningKey::from_seed(seed).public_key(),
            ..first.clone()
        });
    }
    g.subjects.sort_by(|a, b| a.subject_id.cmp(&b.subject_id));
}

/// As many grants, each another one.
fn grants(g: &mut GenesisV1, n: usize) {
    let first = g.grants[0].clone();
    g.grants = (1..=n as u64)
        .map(|budget| AutonomyGrantV1 {
            budget,
            ..first.clone()
        })
        .collect();
}

#[test]
fn subjects_and_grants_of_a_genesis_are_distinct_known_and_so_many() {
    let named = |g: &mut GenesisV1, name: &str| {
        // Somebody without a grant or a key of a person.
        let gate = g.subjects.iter_mut().find(|s| s.subject_id == id("gate"));
        gate.expect("enrolled").subject_id = id(name);
        g.subjects.sort_by(|a, b| a.subject_id.cmp(&b.subject_id));
    };
    for name in ["va", "n1", "sentinel", "actuator", "owner", "journal"] {
        let mut record = genesis(parties());
        named(&mut record, name);
        let record = broken(record, Receipts, |_| {});
        assert_eq!(refused(&record), Refusal::BadGenesis, "{name}");
    }
    let breaks: &[(&str, Stage, Change)] = &[
        ("out of order", Party, |g| g.subjects.swap(0, 1)),
        ("a grant twice", Party, |g| {
            g.grants[1] = g.grants[0].clone()
        }),
        ("a grant of nobody", Party, |g| {
            g.grants[0].subject_id = id("nobody")
        }),
        ("grant of another constitution", Party, |g| {
            g.grants[0].constitution_epoch = ConstitutionEpoch(2);
        }),
        ("grant of another epoch", Party, |g| {
            g.grants[0].autonomy_epoch = AutonomyEpoch(1)
        }),
        ("grant of tomorrow", Party, |g| {
            g.grants[0].issued_at = g.created_at + 1
        }),
        ("the root's key", Party, |g| {
            g.subjects[0].public_key = g.kernel.pinned_external_root_key;
        }),
        ("a subject twice", Party, |g| {
            let mut twin = g.subjects[0].clone();
            twin.public_key = key(160).public_key();
            g.subjects.insert(1, twin);
        }),
    ];
    for (what, stage, change) in breaks {
        let record = broken(genesis(parties()), *stage, *change);
        assert_eq!(refused(&record), Refusal::BadGenesis, "{what}");
    }
    let owned = broken(production(), Party, |g| {
        g.grants = genesis(parties()).grants
    });
    let mut owned = owned;
    for grant in &mut owned.grants {
        grant.autonomy_epoch = AutonomyEpoch(1);
    }
    let owned = broken(owned, Receipts, |_| {});
    assert_eq!(refused(&owned), Refusal::BadGenesis, "grants in production");
}

/// The state has room for so many; a genesis with one more does not even fit into a command.
#[test]
fn fault_094_the_bytes_of_a_genesis_end_before_its_numbers_do() {
    let more: [Change; 3] = [
        |g| crowd(g, limits::SUBJECTS_MAX + 1),
        |g| grants(g, limits::GRANTS_MAX + 1),
        |g| g.human_keys = vec![g.human_keys[0].clone(); limits::HUMAN_KEYS_MAX + 1],
    ];
    for change in more {
        let record = broken(genesis(parties()), Party, change);
        assert_eq!(refused(&record), Refusal::LimitExceeded);
    }
}

#[test]
fn m1_i12_keys_of_persons_in_a_genesis_are_of_persons_good_live_and_once() {
    let breaks: &[(&str, Stage, Change)] = &[
        ("out of order", Party, |g| g.human_keys.reverse()),
        ("the same twice", Party, |g| {
            g.human_keys[1] = g.human_keys[0].clone()
        }),
        ("of nobody", Party, |g| {
            keyed(g, |k| k.subject_id = id("nobody"))
        }),
        ("of an agent", Party, |g| {
            keyed(g, |k| k.subject_id = id("agent"))
        }),
        ("revoked", Party, |g| {
            keyed(g, |k| k.revoked_at_optional = Some(START))
        }),
        ("rotated", Party, |g| {
            keyed(g, |k| k.rotated_at_optional = Some(START))
        }),
        ("no point", Party, |g| {
            keyed(g, |k| k.public_key = Bytes(vec![4; 77]))
        }),
        ("no credential", Party, |g| {
            keyed(g, |k| k.credential_id = Bytes(Vec::new()))
        }),
        ("a long credential", Party, |g| {
            keyed(g, |k| {
                k.credential_id = Bytes(vec![1; limits::CREDENTIAL_ID_LEN_MAX + 1])
            });
        }),
        ("a credential of two", Party, |g| {
            let other = g.human_keys[0].credential_id.clone();
            g.human_keys[1].credential_id = other;
            g.human_keys.sort_by_key(HumanKeyV1::id);
        }),
        ("a key of two persons", Party, |g| {
            let other = g.human_keys[0].public_key.clone();
            g.human_keys[1].public_key = other;
            g.human_keys.sort_by_key(HumanKeyV1::id);
        }),
        ("not kept well enough", Party, |g| {
            g.kernel.human_attestation_classes = vec![AttestationClass::Hardware];
        }),
    ];
    for (what, stage, change) in breaks {
        let record = broken(genesis(parties()), *stage, *change);
        assert_eq!(refused(&record), Refusal::BadGenesis, "{what}");
    }
    let longest = broken(genesis(parties()), Party, |g| {
        keyed(g, |k| {
            k.credential_id = Bytes(vec![1; limits::CREDENTIAL_ID_LEN_MAX])
        });
    });
    World::before_genesis().ok(seal_genesis(&longest));
}

/// Changes one person's key and keeps the order.
fn keyed(genesis: &mut GenesisV1, change: fn(&mut HumanKeyV1)) {
    change(&mut genesis.human_keys[0]);
    genesis.human_keys.sort_by_key(HumanKeyV1::id);
}

#[test]
fn m1_i18_each_link_of_the_receipts_of_a_genesis_holds_by_itself() {
    let breaks: &[(&str, Stage, Change)] = &[
        ("mode before", Receipts, |g| {
            g.activations[1].previous_mode_epoch_digest = digest("x");
        }),
        ("epoch before", Receipts, |g| {
            g.activations[1].previous_autonomy_epoch = AutonomyEpoch(0);
        }),
        ("constitution", Receipts, |g| {
            g.activations[1].target_constitution_digest = digest("x");
        }),
        ("kernel", Receipts, |g| {
            g.activations[1].safety_kernel_digest = digest("x")
        }),
        ("quorum policy", Receipts, |g| {
            g.activations[1].quorum_policy_digest = digest("x")
        }),
        ("constitution before", Receipts, |g| {
            g.activations[1].previous_constitution_digest = digest("x");
        }),
        ("its epoch", Receipts, |g| {
            g.activations[1].previous_constitution_epoch = ConstitutionEpoch(0);
        }),
        ("issued late", Receipts, |g| {
            g.activations[1].issued_at = g.activations[1].activates_at + 1;
        }),
        ("active tomorrow", Receipts, |g| {
            g.activations[1].activates_at = g.created_at + 1;
        }),
        ("grants", Receipts, |g| {
            g.activations[1].grants_digest = digest("x")
        }),
        ("a mode that is not allowed", Party, |g| {
            g.activations[1].activated_mode = Mode::FullAutonomy;
        }),
        ("no person first", Party, |g| {
            g.activations[0].activated_mode = Mode::PolicyAutonomous;
        }),
        ("a skipped epoch", Party, |g| {
            g.activations[1].activated_autonomy_epoch = AutonomyEpoch(3);
            for grant in &mut g.grants {
                grant.autonomy_epoch = AutonomyEpoch(3);
            }
        }),
        ("a third one", Party, |g| {
            let mut third = g.activations[1].clone();
            third.previous_autonomy_epoch = AutonomyEpoch(2);
            third.activated_autonomy_epoch = AutonomyEpoch(3);
            g.activations.push(third);
            for grant in &mut g.grants {
                grant.autonomy_epoch = AutonomyEpoch(3);
            }
        }),
        ("none", Party, |g| {
            g.activations.clear();
            g.grants.clear();
        }),
    ];
    for (what, stage, change) in breaks {
        let record = broken(genesis(parties()), *stage, *change);
        assert_eq!(refused(&record), Refusal::BadGenesis, "{what}");
    }
    let second = broken(production(), Party, |g| {
        let mut second = genesis(parties()).activations[1].clone();
        second.grants_digest = Digest::ZERO;
        g.activations.push(second);
    });
    assert_eq!(
        refused(&second),
        Refusal::BadGenesis,
        "a second one in production"
    );
}

#[test]
fn a_genesis_is_sealed_for_itself() {
    let record = genesis(parties());
    let mut scope = record.scope();
    scope.organism_epoch = 2;
    let sealed = Envelope::seal(scope, &key(ROOT), &record);
    let command = redlatch_types::command::RawCommand::Bootstrap(sealed);
    assert_eq!(
        World::before_genesis().refused(command),
        Refusal::Unauthorized
    );
}

/// An act of the root whose pins fit what `change` has made of it.
fn fitting(world: &World, change: fn(&mut RootActV1)) -> RootActV1 {
    let mut act = root_act(world, change);
    pin(&mut act.kernel, &act.roster);
    act
}

#[test]
fn m1_i21_each_rule_of_an_act_of_the_root_holds_by_itself() {
    type Act = fn(&mut RootActV1);
    let breaks: &[(&str, Act)] = &[
        ("seats", |a| a.kernel.minimum_verifier_seats = 3),
        ("five seats of four", |a| {
            a.kernel.minimum_verifier_seats = 5
        }),
        ("a weak key", |a| {
            a.roster.nodes[0].log_key = PublicKey([0; 32]);
            a.roster.nodes[0].log_key.0[0] = 1;
        }),
        ("a key in two places", |a| {
            a.roster.actuator.key = a.roster.sentinel.key
        }),
        ("a key of a subject", |a| {
            a.roster.sentinel.key = key(AGENT).public_key()
        }),
        ("the new root's key", |a| {
            a.kernel.pinned_external_root_key = key(70).public_key()
        }),
        ("a name twice", |a| a.roster.actuator.name = id("sentinel")),
        ("a node's name twice", |a| a.roster.nodes[1].name = id("n1")),
        ("two voters", |a| a.roster.nodes[0].seat = Seat::Learner),
        ("ten nodes", |a| {
            a.roster.nodes.extend((4..=10).map(learner))
        }),
        ("three domains less one", |a| {
            for verifier in &mut a.roster.verifiers {
                verifier.failure_domain = id("east");
            }
        }),
        ("an old chain of nobody", |a| {
            a.roster.sentinel.key = key(SENTINEL).public_key();
        }),
    ];
    let mut world = World::new();
    for (what, change) in breaks {
        let act = sealed_root_act(&world, &fitting(&world, *change), ROOT);
        assert_eq!(world.refused(act), Refusal::KernelFloor, "{what}");
    }
    let pins: &[(&str, Act)] = &[
        ("verifiers", |a| {
            a.kernel.verifier_binary_digest = digest("x")
        }),
        ("actuator", |a| {
            a.kernel.safety_actuator_identity_binary_policy_digest = digest("x");
        }),
    ];
    for (what, change) in pins {
        let mut act = fitting(&world, |_| {});
        change(&mut act);
        let act = sealed_root_act(&world, &act, ROOT);
        assert_eq!(world.refused(act), Refusal::KernelFloor, "{what}");
    }
    let nine = fitting(&world, |a| a.roster.nodes.extend((4..=9).map(learner)));
    let act = sealed_root_act(&world, &nine, ROOT);
    world.ok(act);
}

/// As far as the root knew: who holds the old key may say RED between the draft and the act, and is replaced all the
/// same.
#[test]
fn m1_i32_an_act_of_the_root_says_where_it_knew_the_old_chain_to_end() {
    let mut world = World::new();
    let silent = root_act(&world, |act| act.old_outbox_root_optional = None);
    let silent = sealed_root_act(&world, &silent, ROOT);
    assert_eq!(world.refused(silent), Refusal::KernelFloor);
    let drafted = root_act(&world, |_| {});
    let mut thief = Outbox::new();
    let red = thief.red(&world, &RedScope::Subject(id("other")));
    world.latch(red);
    world.ok(sealed_root_act(&world, &drafted, ROOT));
    assert_eq!(world.governance().roster.sentinel, drafted.roster.sentinel);
    assert_eq!(world.state.authority.outbox.number, OutboxEpoch(0));
}

/// What an act does not replace stays as it is; what it does, the constitution names.
#[test]
fn an_act_of_the_root_replaces_what_it_names_and_nothing_else() {
    let mut world = World::new();
    let mut outbox = Outbox::new();
    let red = outbox.red(&world, &RedScope::Subject(id("other")));
    world.latch(red);
    let act = fitting(&world, |a| {
        a.roster.sentinel.key = key(SENTINEL).public_key();
        a.old_outbox_root_optional = None;
        a.roster.actuator.key = key(71).public_key();
    });
    let act = sealed_root_act(&world, &act, ROOT);
    world.ok(act);
    assert_eq!(world.state.authority.outbox.root, Some(outbox.root));
    let governance = world.governance();
    let epoch = &governance.epoch;
    assert_eq!(epoch.constitution_digest, governance.constitution.digest());
    assert_eq!(epoch.constitution_epoch, ConstitutionEpoch(2));
    assert_eq!(epoch.effective_at, world.now());
    assert!(
        world.governance().quorum_key.is_some(),
        "the same verifiers"
    );
    let act = fitting(&world, |a| {
        a.number = 2;
        a.roster.sentinel.key = key(SENTINEL).public_key();
        a.roster.sentinel.name = id("watcher");
        a.old_outbox_root_optional = None;
        a.roster.verifiers[0].failure_domain = id("elsewhere");
    });
    let act = sealed_root_act(&world, &act, ROOT);
    world.ok(act);
    let governance = world.governance();
    assert!(governance.quorum_key.is_none(), "other verifiers");
    let spec = governance.constitution.independence_spec;
    assert_eq!(spec.nonvoting_sentinel_id, id("watcher"));
    assert_eq!(
        spec.four_voting_verifier_principals,
        seats(&governance.roster)
    );
    assert_eq!(governance.epoch.quorum_key_epoch, KeyEpoch(0));
}
