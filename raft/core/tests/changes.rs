//! Each rule of what may change an organism, and of what may be landed, by something wrong alone.

use redlatch_journal::authority::Governance;
use redlatch_types::command::RawCommand;
use redlatch_types::event::Accepted;
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

fn governance(world: &mut World) -> &mut Governance {
    world.state.authority.governance.as_mut().expect("started")
}

fn grant_change(change: GrantPayload) -> ActionPayload {
    ActionPayload::GrantChange(Box::new(change))
}

fn subject_change(change: SubjectPayload) -> ActionPayload {
    ActionPayload::SubjectChange(Box::new(change))
}

fn key_change(change: KeyPayload) -> ActionPayload {
    ActionPayload::KeyChange(Box::new(change))
}

/// A world in which persons decide everything, so that no grant stands before the rule.
fn gated() -> World {
    let mut world = World::new();
    governance(&mut world).epoch.active_mode = Mode::HumanGated;
    for name in ["agent", "gate"] {
        let subject = governance(&mut world).subjects.get_mut(&id(name));
        subject.expect("enrolled").scopes.push(id(ORGANISM_REALM));
    }
    world
}

#[test]
fn what_is_landed_is_another_full_object_on_a_reference_of_a_repository() {
    type Change = fn(&mut LandPayload);
    let changes: [(&str, Change); 9] = [
        ("no reference", |l| {
            l.resource.reference = Text::lossy("heads/main")
        }),
        ("the organism itself", |l| {
            l.resource.repository = id(ORGANISM_REALM)
        }),
        ("too short", |l| l.new = Bytes(vec![7; 19])),
        ("between the two lengths", |l| l.new = Bytes(vec![7; 31])),
        ("nothing", |l| l.new = Bytes(Vec::new())),
        ("a deletion", |l| l.new = Bytes(vec![0; 20])),
        ("the same", |l| l.old = l.new.clone()),
        ("another kind of object", |l| l.old = Bytes(vec![1; 32])),
        ("a short old one", |l| l.old = Bytes(vec![1; 19])),
    ];
    let mut world = gated();
    let landing = |world: &World, change: Change| {
        let mut proposal = world.proposal("agent", MAIN, 0, 7);
        proposal.applicable_grant_id = None;
        let ActionPayload::Land(land) = &mut proposal.payload else {
            unreachable!();
        };
        change(land);
        proposal
    };
    for (what, change) in changes {
        let proposal = landing(&world, change);
        let command = world.freeze_command(AGENT, "agent", &proposal);
        assert_eq!(
            world.refused(command),
            Refusal::UnlandableCandidate,
            "{what}"
        );
    }
    let good: [Change; 3] = [
        |_| {},
        |l| l.new = Bytes(vec![7; 32]),
        |l| l.old = Bytes(vec![8; 20]),
    ];
    for change in good {
        let proposal = landing(&world, change);
        let command = world.freeze_command(AGENT, "agent", &proposal);
        world.ok(command);
    }
}

#[test]
fn what_is_swapped_is_another_head_of_a_resource_outside() {
    type Change = fn(&mut SwapPayload);
    let changes: [(&str, Change); 6] = [
        ("nothing", |s| s.new = Bytes(Vec::new())),
        ("the same", |s| s.old = s.new.clone()),
        ("a long old one", |s| s.old = Bytes(vec![1; 65])),
        ("a long new one", |s| s.new = Bytes(vec![1; 65])),
        ("no path", |s| s.resource.path = Text::default()),
        ("the organism itself", |s| {
            s.resource.realm = id(ORGANISM_REALM)
        }),
    ];
    type Wrap = fn(SwapPayload) -> ActionPayload;
    let kinds: [Wrap; 4] = [
        ActionPayload::ReleasePromote,
        ActionPayload::BlockRatify,
        ActionPayload::BlockArchive,
        ActionPayload::ExternalEffect,
    ];
    let mut world = gated();
    let proposal = |world: &World, change: Change, wrap: Wrap| {
        let mut swap = SwapPayload {
            resource: ExternalResource {
                realm: id("repo"),
                path: Text::lossy("channels/stable"),
            },
            old: Bytes(vec![2; 64]),
            new: Bytes(vec![1; 64]),
        };
        change(&mut swap);
        ProposalV1 {
            executor_subject_id_optional: Some(id("gate")),
            ..world.change(wrap(swap))
        }
    };
    for wrap in kinds {
        for (what, change) in changes {
            let proposal = proposal(&world, change, wrap);
            let command = world.freeze_command(AGENT, "agent", &proposal);
            assert_eq!(
                world.refused(command),
                Refusal::UnlandableCandidate,
                "{what}"
            );
        }
        let proposal = proposal(&world, |_| {}, wrap);
        let command = world.freeze_command(AGENT, "agent", &proposal);
        world.ok(command);
    }
}

#[test]
fn a_mode_a_demotion_a_revocation_and_a_reset_change_something_that_is_there() {
    let mut world = World::new();
    let agent = world.grant("agent");
    let unknown = GrantId(digest("unknown"));
    let cases = [
        (
            ActionPayload::ModeActivate(ModePayload {
                mode: Mode::HumanGated,
                activates_at: 0,
                gate_receipts_digest: digest("gates"),
                rollback_plan_digest: Digest::ZERO,
            }),
            Refusal::KernelFloor,
        ),
        (
            grant_change(GrantPayload::Demote(agent, Tier::A3)),
            Refusal::KernelFloor,
        ),
        (
            grant_change(GrantPayload::Demote(agent, Tier::A4)),
            Refusal::KernelFloor,
        ),
        (
            grant_change(GrantPayload::Demote(unknown, Tier::A0)),
            Refusal::WrongState,
        ),
        (
            grant_change(GrantPayload::Revoke(unknown)),
            Refusal::WrongState,
        ),
        (reset(&[]), Refusal::KernelFloor),
        (reset(&[1, 1]), Refusal::KernelFloor),
        (
            ActionPayload::ResolveEffect(ResolvePayload {
                transaction_id: TransactionId(digest("unknown")),
                outcome: OutcomeKind::Done,
                observed_head: Bytes(vec![1; 20]),
            }),
            Refusal::UnknownTransaction,
        ),
    ];
    for (at, (payload, refusal)) in cases.into_iter().enumerate() {
        assert_eq!(world.refused_change(payload), refusal, "{at}");
    }
    world.make_change(grant_change(GrantPayload::Demote(agent, Tier::A2)));
    let agent = world.grant("agent");
    world.make_change(grant_change(GrantPayload::Revoke(agent)));
    // A revocation takes the one grant, not those of others.
    let left: Vec<String> = world
        .governance()
        .grants
        .values()
        .map(|held| held.grant.subject_id.to_string())
        .collect();
    assert_eq!(left, ["other"]);
}

#[test]
fn m1_l7_each_part_of_the_tuple_and_of_the_proof_of_a_promotion_counts() {
    type Change = fn(&mut PromotionPayload);
    let changes: [(&str, Change, Refusal); 10] = [
        (
            "of nobody",
            |p| p.grant.subject_id = id("nobody"),
            Refusal::Unauthorized,
        ),
        (
            "of another subject",
            |p| p.grant.subject_id = id("other"),
            Refusal::KernelFloor,
        ),
        (
            "with delegates",
            |p| p.grant.delegate_subject_ids = vec![id("other")],
            Refusal::KernelFloor,
        ),
        (
            "in place of nothing",
            |p| p.replaces_optional = Some(GrantId(digest("unknown"))),
            Refusal::WrongState,
        ),
        (
            "with a receipt of its own",
            |p| p.grant.promotion_receipt_id = digest("x"),
            Refusal::KernelFloor,
        ),
        (
            "of the past",
            |p| p.grant.expires_at = START + 1_000,
            Refusal::KernelFloor,
        ),
        (
            "of the future",
            |p| p.grant.issued_at = START + 1_001,
            Refusal::KernelFloor,
        ),
        (
            "a first one of no action",
            |p| first(p, |g| g.action_classes.clear()),
            Refusal::KernelFloor,
        ),
        (
            "a first one of no risk",
            |p| first(p, |g| g.risk_domains.clear()),
            Refusal::KernelFloor,
        ),
        (
            "a first one of nothing",
            |p| first(p, |g| g.resource_environment_scope.clear()),
            Refusal::KernelFloor,
        ),
    ];
    let mut world = World::new();
    for (what, change, refusal) in changes {
        let payload = world.promotion(change);
        assert_eq!(world.refused_change(payload), refusal, "{what}");
    }
    let lists: [fn(&mut AutonomyGrantV1, usize); 3] = [
        |g, n| g.action_classes = vec![ActionClass::Land; n],
        |g, n| g.risk_domains = vec![RiskClass::Low; n],
        |g, n| {
            let scope = g.resource_environment_scope[0].clone();
            g.resource_environment_scope = vec![scope; n];
        },
    ];
    for list in lists {
        for (n, fits) in [(limits::SCOPES_MAX, true), (limits::SCOPES_MAX + 1, false)] {
            let payload = world.promotion(|p| {
                p.replaces_optional = None;
                p.grant.max_tier = Tier::A1;
                list(&mut p.grant, n);
            });
            let proposal = world.change(payload);
            let command = world.freeze_command(GOVERNOR, "governor", &proposal);
            assert_eq!(world.apply(command).reply.is_ok(), fits, "{n}");
        }
    }
}

/// A first grant at the tier at which one starts, changed.
fn first(promotion: &mut PromotionPayload, change: fn(&mut AutonomyGrantV1)) {
    promotion.replaces_optional = None;
    promotion.grant.max_tier = Tier::A1;
    change(&mut promotion.grant);
}

#[test]
fn fault_094_grants_subjects_and_keys_have_an_end() {
    let mut world = World::new();
    let new_grant = world.promotion(|p| first(p, |_| {}));
    let promoted = world.promotion(|_| {});
    let enrolled = enrol(new_subject("new", 60));
    let of_bob = |n| HumanKeyV1 {
        subject_id: id("bob"),
        ..human_key("bob", n)
    };
    let key = key_change(KeyPayload::Enrol(of_bob(70)));
    let old = human_key("bob", DEPUTY).id();
    let rotated = key_change(KeyPayload::Rotate(old, of_bob(70)));
    for payload in [&new_grant, &enrolled, &key, &rotated] {
        world.freeze_change(payload.clone());
    }
    fill(governance(&mut world));
    for payload in [new_grant, enrolled, key, rotated] {
        assert_eq!(world.refused_change(payload), Refusal::KernelFloor);
    }
    // What takes the place of another needs no room.
    world.freeze_change(promoted);
    let rotated = subject_change(SubjectPayload::Rotate(new_subject("agent", 61)));
    world.freeze_change(rotated);
}

/// As many grants, subjects and keys as there may be.
fn fill(governance: &mut Governance) {
    let grant = governance.grants.values().next().expect("one").clone();
    for n in governance.grants.len()..limits::GRANTS_MAX {
        let id = GrantId(Digest::of(&n.to_be_bytes()));
        governance.grants.insert(id, grant.clone());
    }
    let subject = governance.subjects[&id::<SubjectId>("other")].clone();
    for n in governance.subjects.len()..limits::SUBJECTS_MAX {
        governance
            .subjects
            .insert(id(&format!("s{n}")), subject.clone());
    }
    let key = governance.human_keys.values().next().expect("one").clone();
    for n in governance.human_keys.len()..limits::HUMAN_KEYS_MAX {
        let id = HumanKeyId(Digest::of(&n.to_be_bytes()));
        governance.human_keys.insert(id, key.clone());
    }
}

#[test]
fn each_rule_about_subjects_holds_by_itself() {
    let mut identity = [0; 32];
    identity[0] = 1;
    let new = |change: fn(&mut ClientIdentityV1)| {
        let mut subject = new_subject("new", 60);
        change(&mut subject);
        subject
    };
    let mut weak = new_subject("new", 60);
    weak.public_key = PublicKey(identity);
    let known = |change: fn(&mut ClientIdentityV1)| {
        let mut subject = new_subject("agent", 61);
        change(&mut subject);
        subject
    };
    use SubjectPayload::{Enrol, Revoke, Rotate};
    let cases = [
        ("weak key", Enrol(weak), Refusal::KernelFloor),
        (
            "revoked already",
            Enrol(new(|s| s.revoked_at_optional = Some(START))),
            Refusal::KernelFloor,
        ),
        (
            "everywhere",
            Enrol(new(|s| s.scopes = vec![id("repo"); limits::SCOPES_MAX + 1])),
            Refusal::KernelFloor,
        ),
        (
            "a node's name",
            Enrol(new(|s| s.subject_id = id("n1"))),
            Refusal::KernelFloor,
        ),
        ("unknown", Rotate(new(|_| {})), Refusal::WrongState),
        (
            "another kind",
            Rotate(known(|s| s.actor_kind = ActorKind::Human)),
            Refusal::KernelFloor,
        ),
        (
            "another person",
            Rotate(known(|s| s.person_optional = Some(id("bob")))),
            Refusal::KernelFloor,
        ),
        (
            "everywhere",
            Rotate(known(|s| {
                s.scopes = vec![id("repo"); limits::SCOPES_MAX + 1]
            })),
            Refusal::KernelFloor,
        ),
        ("unknown", Revoke(id("nobody")), Refusal::WrongState),
        ("itself", Revoke(id("governor")), Refusal::SelfAuthorization),
    ];
    let mut world = World::new();
    for (what, change, refusal) in cases {
        assert_eq!(
            world.refused_change(subject_change(change)),
            refusal,
            "{what}"
        );
    }
    let most = new(|s| s.scopes = vec![id("repo"); limits::SCOPES_MAX]);
    world.freeze_change(subject_change(Enrol(most)));
    world.make_change(subject_change(Revoke(id("agent"))));
    let again = subject_change(Revoke(id("agent")));
    assert_eq!(world.refused_change(again), Refusal::WrongState, "twice");
    let back = subject_change(Rotate(new_subject("agent", 61)));
    assert_eq!(
        world.refused_change(back),
        Refusal::WrongState,
        "never comes back"
    );
    let grants = world.governance().grants;
    let left: Vec<_> = grants
        .values()
        .map(|g| g.grant.subject_id.to_string())
        .collect();
    assert_eq!(left, ["other"], "grants of others stay");
}

#[test]
fn each_rule_about_keys_of_persons_holds_by_itself() {
    let bobs = human_key("bob", DEPUTY);
    let fresh = |change: fn(&mut HumanKeyV1)| {
        let mut key = HumanKeyV1 {
            subject_id: id("bob"),
            ..human_key("bob", 70)
        };
        change(&mut key);
        key
    };
    use KeyPayload::{Enrol, Revoke, Rotate};
    let unknown = human_key("bob", 71).id();
    let cases = [
        (
            "revoked",
            Enrol(fresh(|k| k.revoked_at_optional = Some(START))),
            Refusal::KernelFloor,
        ),
        (
            "rotated",
            Enrol(fresh(|k| k.rotated_at_optional = Some(START))),
            Refusal::KernelFloor,
        ),
        (
            "of nobody",
            Enrol(fresh(|k| k.subject_id = id("nobody"))),
            Refusal::KernelFloor,
        ),
        (
            "unknown",
            Rotate(unknown, fresh(|_| {})),
            Refusal::WrongState,
        ),
        (
            "to another person",
            Rotate(bobs.id(), fresh(|k| k.subject_id = id("alice"))),
            Refusal::KernelFloor,
        ),
        (
            "for other actions",
            Rotate(bobs.id(), fresh(|k| k.scopes = vec![ActionClass::Land])),
            Refusal::KernelFloor,
        ),
        (
            "to a bad one",
            Rotate(bobs.id(), fresh(|k| k.public_key = Bytes(vec![1; 77]))),
            Refusal::KernelFloor,
        ),
        ("unknown", Revoke(unknown), Refusal::WrongState),
    ];
    let mut world = World::new();
    for (what, change, refusal) in cases {
        assert_eq!(world.refused_change(key_change(change)), refusal, "{what}");
    }
    // Nobody makes themselves an approver, by whatever client.
    let own = key_change(Enrol(HumanKeyV1 {
        subject_id: id("alice"),
        ..human_key("alice", 72)
    }));
    let proposal = world.change(own);
    let command = world.freeze_command(OWNER, "alice", &proposal);
    assert_eq!(world.refused(command), Refusal::SelfAuthorization);
    // A kind of key that the kernel does not trust.
    let before = world.state.clone();
    governance(&mut world).kernel.human_attestation_classes = vec![AttestationClass::Hardware];
    let soft = key_change(Enrol(fresh(|_| {})));
    assert_eq!(world.refused_change(soft), Refusal::KernelFloor);
    world.state = before;
    world.make_change(key_change(Rotate(bobs.id(), fresh(|_| {}))));
    let again = key_change(Rotate(
        bobs.id(),
        fresh(|k| k.credential_id = Bytes(vec![9; 16])),
    ));
    assert_eq!(
        world.refused_change(again),
        Refusal::WrongState,
        "it is revoked"
    );
    let again = key_change(Revoke(bobs.id()));
    assert_eq!(
        world.refused_change(again),
        Refusal::WrongState,
        "it is revoked"
    );
}

/// Persons are counted, not keys: two keys of one leave one who can decide.
#[test]
fn two_keys_of_one_person_are_one_who_can_decide() {
    let mut world = World::new();
    let second = HumanKeyV1 {
        subject_id: id("alice"),
        ..human_key("alice", 72)
    };
    world.make_change(key_change(KeyPayload::Enrol(second)));
    let change = world.amended(|c| c.human_approvals_required = 2);
    world.make_change(change);
    let bobs = key_change(KeyPayload::Revoke(human_key("bob", DEPUTY).id()));
    assert_eq!(world.refused_change(bobs), Refusal::KernelFloor);
    let one_of_hers = key_change(KeyPayload::Revoke(human_key("alice", 72).id()));
    world.freeze_change(one_of_hers);
}

#[test]
fn each_rule_about_nodes_and_verifiers_holds_by_itself() {
    let node = newcomer();
    let change = |payload| ActionPayload::RosterChange(Box::new(payload));
    let mut identity = [0; 32];
    identity[0] = 1;
    let joins: [(&str, RosterNode); 7] = [
        (
            "number 0",
            RosterNode {
                node_id: NodeId(0),
                ..node.clone()
            },
        ),
        (
            "a verifier's name",
            RosterNode {
                name: id("va"),
                ..node.clone()
            },
        ),
        (
            "a weak key",
            RosterNode {
                log_key: PublicKey(identity),
                ..node.clone()
            },
        ),
        (
            "the root's key",
            RosterNode {
                log_key: key(ROOT).public_key(),
                ..node.clone()
            },
        ),
        (
            "a subject's key",
            RosterNode {
                log_key: key(AGENT).public_key(),
                ..node.clone()
            },
        ),
        (
            "a node's key",
            RosterNode {
                log_key: key(101).public_key(),
                ..node.clone()
            },
        ),
        (
            "one key twice",
            RosterNode {
                log_key: node.record_key,
                ..node.clone()
            },
        ),
    ];
    let mut world = World::new();
    for (what, node) in joins {
        let payload = change(RosterPayload::Join(node));
        assert_eq!(
            world.refused_change(payload),
            Refusal::KernelFloor,
            "{what}"
        );
    }
    for payload in [
        RosterPayload::Promote(NodeId(9)),
        RosterPayload::Promote(NodeId(1)),
        RosterPayload::Remove(NodeId(9)),
        RosterPayload::Remove(NodeId(1)),
    ] {
        assert_eq!(world.refused_change(change(payload)), Refusal::KernelFloor);
    }
    type Verifiers = fn(&mut Vec<RosterVerifier>);
    let sets: [(&str, Verifiers); 9] = [
        ("five", |v| {
            let mut fifth = v[3].clone();
            fifth.identifier = 5;
            fifth.verifier_id = id("ve");
            fifth.vote_key = key(160).public_key();
            fifth.witness_key = key(161).public_key();
            v.push(fifth);
        }),
        ("a weak key", |v| {
            v[3].vote_key = PublicKey([0; 32]);
            v[3].vote_key.0[0] = 1;
        }),
        ("three", |v| drop(v.pop())),
        ("a name twice", |v| v[1].verifier_id = id("va")),
        ("an identifier twice", |v| v[1].identifier = 1),
        ("a subject's name", |v| v[3].verifier_id = id("agent")),
        ("a key twice", |v| v[3].vote_key = v[2].vote_key),
        ("two domains", |v| {
            for verifier in &mut v[1..] {
                verifier.failure_domain = id("south");
            }
        }),
        ("a subject's key", |v| {
            v[3].witness_key = key(AGENT).public_key()
        }),
    ];
    for (what, change) in sets {
        let mut verifiers = world.governance().roster.verifiers;
        change(&mut verifiers);
        let payload = ActionPayload::VerifierSetChange(verifiers);
        assert_eq!(
            world.refused_change(payload),
            Refusal::KernelFloor,
            "{what}"
        );
    }
}

/// Three voters at least, seven at most, nine nodes, one a step.
#[test]
fn a_roster_grows_and_shrinks_between_its_bounds() {
    let change = |payload| ActionPayload::RosterChange(Box::new(payload));
    let learner = |n: u8| RosterNode {
        node_id: NodeId(u64::from(n)),
        name: id(&format!("n{n}")),
        seat: Seat::Learner,
        log_key: key(170 + n).public_key(),
        cosigner_key: key(180 + n).public_key(),
        record_key: key(190 + n).public_key(),
    };
    let mut world = World::new();
    for n in 4..=9 {
        world.make_change(change(RosterPayload::Join(learner(n))));
    }
    let tenth = change(RosterPayload::Join(learner(10)));
    assert_eq!(world.refused_change(tenth), Refusal::KernelFloor);
    for n in 4..=7 {
        world.make_change(change(RosterPayload::Promote(NodeId(n))));
    }
    let eighth = change(RosterPayload::Promote(NodeId(8)));
    assert_eq!(world.refused_change(eighth), Refusal::KernelFloor);
    let twice = change(RosterPayload::Promote(NodeId(7)));
    assert_eq!(world.refused_change(twice), Refusal::KernelFloor);
    // A number that was free again takes its place in the order.
    world.make_change(change(RosterPayload::Remove(NodeId(8))));
    world.make_change(change(RosterPayload::Join(learner(8))));
    let ascend = |world: &World| {
        let nodes = world.governance().roster.nodes;
        nodes.windows(2).all(|w| w[0].node_id < w[1].node_id)
    };
    assert!(ascend(&world));
    for n in [9, 8, 7, 6, 5, 4] {
        world.make_change(change(RosterPayload::Remove(NodeId(n))));
    }
    let third = change(RosterPayload::Remove(NodeId(3)));
    assert_eq!(world.refused_change(third), Refusal::KernelFloor);
    let nodes: Vec<u64> = world
        .governance()
        .roster
        .nodes
        .iter()
        .map(|n| n.node_id.0)
        .collect();
    assert_eq!(nodes, [1, 2, 3]);
}

#[test]
fn fault_038_a_key_in_force_is_repeated_exactly_and_its_group_key_is_a_good_point() {
    let mut world = World::new();
    let changes: [fn(&mut KeyConfirmationV1); 3] = [
        |c| c.group_key = key(5).public_key(),
        |c| c.public_key_package_digest = digest("other"),
        |c| c.quorum_key_epoch = KeyEpoch(2),
    ];
    for change in changes {
        let other = world.key_confirmations(|_, c| change(c));
        let command = RawCommand::ActivateQuorumKey(other);
        assert_eq!(world.refused(command), Refusal::NotSupported);
    }
    let mut world = World::before_genesis();
    world.ok(seal_genesis(&redlatch_journal::development::genesis(
        parties(),
    )));
    type Change = fn(&mut KeyConfirmationV1);
    let wrong: [(Change, Refusal); 3] = [
        (
            |c| {
                c.group_key = PublicKey([0; 32]);
                c.group_key.0[0] = 1;
            },
            Refusal::BadSignature,
        ),
        (|c| c.quorum_key_epoch = KeyEpoch(2), Refusal::StaleRoster),
        (|c| c.roster_epoch = RosterEpoch(2), Refusal::StaleRoster),
    ];
    for (change, refusal) in wrong {
        let weak = world.key_confirmations(|_, c| change(c));
        assert_eq!(world.refused(RawCommand::ActivateQuorumKey(weak)), refusal);
    }
    let none = RawCommand::ActivateQuorumKey(Vec::new());
    assert_eq!(world.refused(none), Refusal::InsufficientQuorum);
}

/// A key that was voided is followed by one of the next epoch, and by none before it.
#[test]
fn fault_042_a_key_of_an_earlier_epoch_does_not_come_back() {
    let mut world = World::new();
    let mut verifiers = world.governance().roster.verifiers;
    verifiers[3].policy_digest = digest("another policy");
    verifiers[3].failure_domain = id("elsewhere");
    world.make_change(ActionPayload::VerifierSetChange(verifiers));
    assert!(world.governance().quorum_key.is_none());
    assert_eq!(world.governance().epoch.quorum_key_epoch, KeyEpoch(0));
    let spec = world.governance().constitution.independence_spec;
    let seat = &spec.four_voting_verifier_principals[3];
    assert_eq!(seat.failure_domain, id("elsewhere"));
    let approval = world.governance().constitution.old_runtime_approval_digest;
    assert_ne!(
        approval,
        Digest::ZERO,
        "the constitution says who approved it"
    );
    let of = |world: &World, epoch, roster| {
        RawCommand::ActivateQuorumKey(world.key_confirmations(|_, c| {
            c.quorum_key_epoch = KeyEpoch(epoch);
            c.roster_epoch = RosterEpoch(roster);
        }))
    };
    for (epoch, roster) in [(1, 2), (1, 1), (2, 1), (3, 2)] {
        let command = of(&world, epoch, roster);
        assert_eq!(world.refused(command), Refusal::StaleRoster);
    }
    let command = of(&world, 2, 2);
    let accepted = world.ok(command);
    assert_eq!(accepted, Accepted::QuorumKeyActivated(KeyEpoch(2)));
}

/// Seats are listed by name, whatever numbers they have.
#[test]
fn a_constitution_lists_the_seats_by_name() {
    let mut world = World::new();
    let mut verifiers = world.governance().roster.verifiers;
    verifiers[0].verifier_id = id("vz");
    world.make_change(ActionPayload::VerifierSetChange(verifiers));
    let spec = world.governance().constitution.independence_spec;
    let names = spec.four_voting_verifier_principals.iter();
    let names: Vec<_> = names.map(|seat| seat.verifier_id.to_string()).collect();
    assert_eq!(names, ["vb", "vc", "vd", "vz"]);
}
