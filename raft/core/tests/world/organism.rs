//! Acts on the organism itself: clauses and their receipts, acts of the root, subjects, resets.

use redlatch_types::command::{PolicyAuthorization, RawCommand};
use redlatch_types::event::Accepted;
use redlatch_types::records::*;
use redlatch_types::*;

use super::*;

/// Runs the gates of the clause below.
pub const RUNNER: u8 = 90;

/// A fourth node, as it joins.
pub fn newcomer() -> RosterNode {
    RosterNode {
        node_id: NodeId(4),
        name: id("n4"),
        seat: Seat::Learner,
        log_key: key(104).public_key(),
        cosigner_key: key(114).public_key(),
        record_key: key(124).public_key(),
    }
}

pub fn landing_clause() -> PolicyClauseV1 {
    PolicyClauseV1 {
        clause_id: id("unit-tested"),
        action_classes: vec![ActionClass::Land],
        risk_domains: vec![RiskClass::Low],
        resource_environment_scope: vec![ResourceScope {
            repository: id("repo"),
            ref_prefix: Text::lossy("refs/heads/"),
        }],
        required_gates: vec![id("unit")],
        runners: vec![key(RUNNER).public_key()],
    }
}

/// What the clause's runner says of the commit.
pub fn gate_passed(world: &World) -> Envelope {
    gate_receipt(world, 1, |_| {}, RUNNER)
}

pub fn gate_receipt(
    world: &World,
    commit: u8,
    change: impl FnOnce(&mut GateReceiptV1),
    n: u8,
) -> Envelope {
    let ActionPayload::Land(land) = world.proposal("agent", MAIN, 0, commit).payload else {
        unreachable!();
    };
    let mut record = GateReceiptV1 {
        gate_id: id("unit"),
        spec_version: Text::lossy("1"),
        harness_fixture_digest: digest("harness"),
        environment_digest: digest("environment"),
        command: Text::lossy("make test"),
        verdict_and_findings: GateFindingsV1 {
            verdict: GateVerdict::Passed,
            exit_code_optional: Some(0),
            started_at_clock: 10,
            ended_at_clock: 20,
            log_digest: digest("log"),
            log_bytes: 3,
            findings: Vec::new(),
        },
        provider_key_version: 1,
        receipt_id: digest("id"),
        release_candidate_digest: land.candidate_digest(),
        artifact_digests: Vec::new(),
        generated_at_clock: 20,
        evidence_refs: Vec::new(),
    };
    change(&mut record);
    Envelope::seal(world.scope(), &key(n), &record)
}

pub fn freeze_on(world: &mut World, evidence: &[&Envelope]) -> IntentDigest {
    let mut proposal = world.proposal("agent", MAIN, 0, 1);
    proposal.evidence = evidence.iter().map(|e| e.evidence_digest()).collect();
    proposal.evidence.sort();
    proposal.evidence.dedup();
    let command = world.freeze_command(AGENT, "agent", &proposal);
    match world.ok(command) {
        Accepted::Frozen(digest) => digest,
        other => panic!("{other:?}"),
    }
}

pub fn policy_authorization(
    world: &mut World,
    digest: IntentDigest,
    receipts: Vec<Envelope>,
) -> RawCommand {
    let green = world.green_record(digest);
    RawCommand::AuthorizePolicy(Box::new(PolicyAuthorization {
        intent_digest: digest,
        green: Envelope::seal(world.scope(), &world.sentinel(), &green),
        receipts,
    }))
}

/// The sentinel that [`root_act`] puts in the place of the first.
pub const NEXT_SENTINEL: u8 = 70;

/// The act that replaces the sentinel, changed.
pub fn root_act(world: &World, change: impl FnOnce(&mut RootActV1)) -> RootActV1 {
    let governance = world.governance();
    let mut roster = governance.roster.clone();
    roster.roster_epoch = roster.roster_epoch.next();
    roster.sentinel.key = key(NEXT_SENTINEL).public_key();
    let mut act = RootActV1 {
        number: 1,
        previous_kernel_digest: governance.kernel.digest(),
        kernel: SafetyKernelV1 {
            sentinel_identity_binary_policy_digest: roster.sentinel.pin_digest(),
            ..governance.kernel
        },
        roster,
        old_outbox_root_optional: Some(Digest::ZERO),
        reason: Text::lossy("the sentinel is lost"),
    };
    change(&mut act);
    act
}

pub fn sealed_root_act(world: &World, act: &RootActV1, n: u8) -> RawCommand {
    RawCommand::RootAct(Envelope::seal(world.scope(), &key(n), act))
}

pub fn support(world: &World, node: u8, level: u64) -> Envelope {
    let record = FeatureSupportV1 {
        node_id: NodeId(u64::from(node)),
        roster_epoch: world.governance().roster.roster_epoch,
        feature_level: level,
    };
    Envelope::seal(world.scope(), &key(120 + node), &record)
}

pub fn reset(grounds: &[u64]) -> ActionPayload {
    ActionPayload::ResetFrozen(ResetPayload {
        grounds: grounds.iter().map(|n| GroundNumber(*n)).collect(),
        cause: Text::lossy("repaired"),
    })
}

pub fn new_subject(name: &str, n: u8) -> ClientIdentityV1 {
    ClientIdentityV1 {
        subject_id: id(name),
        actor_kind: ActorKind::Agent,
        public_key: key(n).public_key(),
        app_host_identity: Text::default(),
        enrollment_evidence: digest("evidence"),
        scopes: vec![id("repo")],
        issuer: id("governor"),
        created_at: START,
        revoked_at_optional: None,
        person_optional: None,
    }
}

pub fn enrol(subject: ClientIdentityV1) -> ActionPayload {
    ActionPayload::SubjectChange(Box::new(SubjectPayload::Enrol(subject)))
}
