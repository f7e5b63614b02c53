//! What a person sees: everything that a change would put in force, and nothing only as a digest.

use redlatch_journal::summary::summary;
use redlatch_types::records::*;
use redlatch_types::*;

use super::world::*;

/// The lines about `payload`, without the two that hold digests of the whole.
fn shown(world: &World, at: IntentDigest, payload: ActionPayload) -> Vec<String> {
    let mut intent = world.intent(at);
    intent.payload = payload;
    let text = summary(&intent, &at);
    let lines = text.lines().filter(|line| !line.starts_with("what: "));
    lines.map(str::to_owned).collect()
}

/// Each change of `record` alters a line that a person reads.
fn each_is_seen<T: Clone>(
    what: &str,
    record: &T,
    payload: impl Fn(T) -> ActionPayload,
    changes: &[fn(&mut T)],
) {
    let mut world = World::new();
    let at = world.freeze(MAIN, 0, 7);
    let before = shown(&world, at, payload(record.clone()));
    for (n, change) in changes.iter().enumerate() {
        let mut other = record.clone();
        change(&mut other);
        let after = shown(&world, at, payload(other));
        assert_ne!(before, after, "{what}: change {n}");
    }
}

#[test]
fn a_person_sees_every_rule_of_a_constitution() {
    let world = World::new();
    let amend = |it| ActionPayload::ConstitutionAmend(Box::new(AmendPayload { constitution: it }));
    let mut rules = world.governance().constitution;
    rules.policy_clauses = vec![landing_clause()];
    let changes: [fn(&mut ConstitutionV1); 22] = [
        |c| c.constitution_epoch = c.constitution_epoch.next(),
        |c| c.previous_constitution_digest = digest("other"),
        |c| c.effective_at += 1_000,
        |c| c.expires_at_optional = Some(START),
        |c| c.allowed_autonomy_modes.clear(),
        |c| c.objectives_non_goals.push(Text::lossy("grow")),
        |c| c.budgets_risk_actions_digest = digest("other"),
        |c| c.independence_spec.four_voting_verifier_principals[0].failure_domain = id("moon"),
        |c| c.independence_spec.quorum_threshold += 1,
        |c| c.independence_spec.minimum_failure_domains += 1,
        |c| c.independence_spec.blind_isolation_policy_digest = digest("other"),
        |c| c.independence_spec.nonvoting_sentinel_id = id("other"),
        |c| c.independence_spec.proposer_executor_nonvoting ^= true,
        |c| c.amendment_rules.push(Text::lossy("by nobody")),
        |c| c.old_runtime_approval_digest = digest("other"),
        |c| c.safety_kernel_digest = digest("other"),
        |c| c.quorum_signature_required ^= true,
        |c| c.policy_clauses[0].resource_environment_scope[0].ref_prefix = Text::lossy("refs/"),
        |c| c.policy_clauses[0].required_gates.clear(),
        |c| c.human_approvals_required += 1,
        |c| c.webauthn_rp_id = Text::lossy("elsewhere"),
        |c| c.webauthn_origins.push(Text::lossy("https://elsewhere")),
    ];
    each_is_seen("constitution", &rules, amend, &changes);
    let changes: [fn(&mut ConstitutionV1); 4] = [
        |c| c.policy_clauses[0].clause_id = id("other"),
        |c| c.policy_clauses[0].action_classes.clear(),
        |c| c.policy_clauses[0].risk_domains.push(RiskClass::High),
        |c| c.policy_clauses[0].runners.clear(),
    ];
    each_is_seen("clause", &rules, amend, &changes);
}

#[test]
fn a_person_sees_the_whole_tuple_of_a_grant_and_what_speaks_for_it() {
    let world = World::new();
    let promotion = PromotionPayload {
        grant: world.governance().grants[&world.grant("agent")]
            .grant
            .clone(),
        replaces_optional: None,
        dataset_digest: digest("data"),
        rollback_digest: digest("back"),
    };
    let changes: [fn(&mut PromotionPayload); 17] = [
        |p| p.grant.subject_id = id("other"),
        |p| p.grant.role_id = id("other"),
        |p| p.grant.mode = Mode::FullAutonomy,
        |p| p.grant.max_tier = Tier::A5,
        |p| p.grant.action_classes.clear(),
        |p| p.grant.risk_domains.push(RiskClass::High),
        |p| p.grant.resource_environment_scope[0].ref_prefix = Text::lossy("refs/"),
        |p| p.grant.budget += 1,
        |p| p.grant.promotion_receipt_id = digest("other"),
        |p| p.grant.issued_at += 1_000,
        |p| p.grant.expires_at += 1_000,
        |p| p.grant.constitution_epoch = p.grant.constitution_epoch.next(),
        |p| p.grant.autonomy_epoch = p.grant.autonomy_epoch.next(),
        |p| p.grant.delegate_subject_ids.push(id("other")),
        |p| p.replaces_optional = Some(p.grant.id()),
        |p| p.dataset_digest = digest("other"),
        |p| p.rollback_digest = digest("other"),
    ];
    let change = |it| ActionPayload::GrantChange(Box::new(GrantPayload::Promote(it)));
    each_is_seen("grant", &promotion, change, &changes);
    let mode = ModePayload {
        mode: Mode::HumanGated,
        activates_at: START,
        gate_receipts_digest: digest("gates"),
        rollback_plan_digest: digest("plan"),
    };
    let changes: [fn(&mut ModePayload); 4] = [
        |m| m.mode = Mode::FullAutonomy,
        |m| m.activates_at += 1_000,
        |m| m.gate_receipts_digest = digest("other"),
        |m| m.rollback_plan_digest = digest("other"),
    ];
    each_is_seen("mode", &mode, ActionPayload::ModeActivate, &changes);
}

#[test]
fn a_person_sees_whose_key_it_is_and_what_it_may_do() {
    let changes: [fn(&mut ClientIdentityV1); 10] = [
        |s| s.subject_id = id("other"),
        |s| s.actor_kind = ActorKind::Human,
        |s| s.public_key = key(99).public_key(),
        |s| s.app_host_identity = Text::lossy("elsewhere"),
        |s| s.enrollment_evidence = digest("other"),
        |s| s.scopes.push(id("organism")),
        |s| s.issuer = id("other"),
        |s| s.created_at += 1_000,
        |s| s.revoked_at_optional = Some(START),
        |s| s.person_optional = Some(id("alice")),
    ];
    for wrap in [SubjectPayload::Enrol, SubjectPayload::Rotate] {
        let change = |it| ActionPayload::SubjectChange(Box::new(wrap(it)));
        each_is_seen("subject", &new_subject("new", 60), change, &changes);
    }
    let held = human_key("alice", OWNER);
    let changes: [fn(&mut HumanKeyV1); 13] = [
        |k| k.subject_id = id("bob"),
        |k| k.credential_id.0.push(0),
        |k| k.public_key.0.push(0),
        |k| k.platform = Text::lossy("other"),
        |k| k.attestation_class = AttestationClass::Hardware,
        |k| k.app_host_identity = Text::lossy("elsewhere"),
        |k| k.enrollment_evidence = digest("other"),
        |k| k.scopes.clear(),
        |k| k.created_at += 1_000,
        |k| k.rotated_at_optional = Some(START),
        |k| k.revoked_at_optional = Some(START),
        |k| k.counter += 1,
        |k| k.backup_eligible ^= true,
    ];
    let enrol = |it| ActionPayload::KeyChange(Box::new(KeyPayload::Enrol(it)));
    each_is_seen("key", &held, enrol, &changes);
    let rotate =
        |it: HumanKeyV1| ActionPayload::KeyChange(Box::new(KeyPayload::Rotate(held.id(), it)));
    each_is_seen("key", &held, rotate, &changes);
}

#[test]
fn a_person_sees_every_key_of_a_node_and_of_a_verifier() {
    let changes: [fn(&mut RosterNode); 6] = [
        |n| n.node_id = NodeId(9),
        |n| n.name = id("other"),
        |n| n.seat = Seat::Voter,
        |n| n.log_key = key(99).public_key(),
        |n| n.cosigner_key = key(99).public_key(),
        |n| n.record_key = key(99).public_key(),
    ];
    let join = |it| ActionPayload::RosterChange(Box::new(RosterPayload::Join(it)));
    each_is_seen("node", &newcomer(), join, &changes);
    let verifiers = World::new().governance().roster.verifiers;
    let changes: [fn(&mut Vec<RosterVerifier>); 8] = [
        |v| v[3].verifier_id = id("other"),
        |v| v[3].identifier = 9,
        |v| v[3].failure_domain = id("moon"),
        |v| v[3].vote_key = key(99).public_key(),
        |v| v[3].witness_key = key(99).public_key(),
        |v| v[3].builds_digest = digest("other"),
        |v| v[3].policy_digest = digest("other"),
        |v| v.truncate(3),
    ];
    each_is_seen(
        "verifiers",
        &verifiers,
        ActionPayload::VerifierSetChange,
        &changes,
    );
}

#[test]
fn the_root_sees_every_term_of_its_act() {
    let world = World::new();
    let act = root_act(&world, |_| {});
    let changes: [fn(&mut RootActV1); 33] = [
        |a| a.number += 1,
        |a| a.previous_kernel_digest = digest("other"),
        |a| a.reason = Text::lossy("another"),
        |a| a.old_outbox_root_optional = None,
        |a| a.kernel.kernel_id = id("other"),
        |a| a.kernel.verifier_binary_digest = digest("other"),
        |a| a.kernel.canonicalization_version += 1,
        |a| a.kernel.pinned_external_root_key = key(99).public_key(),
        |a| a.kernel.verified_boot_policy_digest = digest("other"),
        |a| a.kernel.immutable_invariants_digest = digest("other"),
        |a| a.kernel.minimum_verifier_seats += 1,
        |a| a.kernel.minimum_quorum_threshold += 1,
        |a| a.kernel.minimum_failure_domains += 1,
        |a| a.kernel.proposer_executor_nonvoting ^= true,
        |a| a.kernel.sentinel_required_and_nonvoting ^= true,
        |a| a.kernel.sentinel_red_absolute_veto ^= true,
        |a| a.kernel.sentinel_outbox_antirollback_required ^= true,
        |a| a.kernel.sentinel_identity_binary_policy_digest = digest("other"),
        |a| a.kernel.safety_actuator_identity_binary_policy_digest = digest("other"),
        |a| a.kernel.required_sentinel_unavailable_fail_closed ^= true,
        |a| a.kernel.human_attestation_classes.clear(),
        |a| a.roster.roster_epoch = a.roster.roster_epoch.next(),
        |a| a.roster.nodes[0].log_key = key(99).public_key(),
        |a| a.roster.verifiers[0].vote_key = key(99).public_key(),
        |a| a.roster.sentinel.name = id("other"),
        |a| a.roster.sentinel.key = key(99).public_key(),
        |a| a.roster.sentinel.builds_digest = digest("other"),
        |a| a.roster.sentinel.policy_digest = digest("other"),
        |a| a.roster.actuator.name = id("other"),
        |a| a.roster.actuator.key = key(99).public_key(),
        |a| a.roster.actuator.builds_digest = digest("other"),
        |a| a.roster.actuator.policy_digest = digest("other"),
        |a| a.roster.nodes.truncate(2),
    ];
    let before = root_act_text(&act);
    for (n, change) in changes.iter().enumerate() {
        let mut other = act.clone();
        change(&mut other);
        assert_ne!(before, root_act_text(&other), "change {n}");
    }
}

fn root_act_text(act: &RootActV1) -> String {
    redlatch_journal::summary::root_act(act)
}
