//! The genesis of a development organism (DESIGN §9).
//!
//! A development organism starts in POLICY_AUTONOMOUS at epoch 2 with one grant, so that its
//! first landing needs no ceremony. Everything else, mode, grant, tier and epoch, is checked
//! from the first day as in production. Its origin says `redlatch-dev`, and gates and auditors
//! of production refuse it. Used by `redlatch init --dev`, the simulator and the tests.

pub mod authenticator;

use redlatch_types::records::{
    ActionClass, ActorKind, AttestationClass, AutonomyActivationReceiptV1, AutonomyGrantV1,
    CANONICALIZATION_VERSION, ClientIdentityV1, ConstitutionV1, GenesisV1, HumanKeyV1,
    IndependenceSpecV1, Mode, ORGANISM_REALM, OrganismKind, PinnedParty, ResourceScope, RiskClass,
    RosterNode, RosterV1, RosterVerifier, SafetyKernelV1, Text, Tier, VerifierSeat, grants_digest,
};
use redlatch_types::{
    AutonomyEpoch, Canonical, ConstitutionEpoch, Digest, Name, PublicKey, RosterEpoch, SubjectId,
};

use crate::registry::{SERVED_LEVEL, registry_digest};

/// Who takes part in a development organism.
#[derive(Debug, Clone)]
pub struct Parties {
    /// Name for people.
    pub organism_name: Name,
    /// When it is made, milliseconds since the Unix epoch.
    pub created_at: u64,
    /// Draws it apart from others.
    pub nonce: Digest,
    /// The offline root.
    pub root: PublicKey,
    /// Nodes, ascending by number.
    pub nodes: Vec<RosterNode>,
    /// The four verifiers, ascending by FROST identifier.
    pub verifiers: Vec<RosterVerifier>,
    /// The sentinel.
    pub sentinel: PinnedParty,
    /// The actuator.
    pub actuator: PinnedParty,
    /// Enrolled subjects.
    pub subjects: Vec<Subject>,
    /// Repository that the grants cover, refs below `refs/heads/`.
    pub repository: Name,
    /// Keys of persons among the subjects; none if nobody is to decide anything.
    pub human_keys: Vec<HumanKeyV1>,
}

/// An enrolled subject of a development organism.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Name.
    pub subject_id: SubjectId,
    /// Kind.
    pub actor_kind: ActorKind,
    /// Key.
    pub public_key: PublicKey,
}

/// Relying party of a development organism's persons.
pub const WEBAUTHN_RP_ID: &str = "localhost";
/// The one origin in which they are asked.
pub const WEBAUTHN_ORIGIN: &str = "https://localhost";
/// Most actions that the grant of a development organism's agent commits.
pub const GRANT_BUDGET: u64 = 1_000_000;
/// Life of that grant.
pub const GRANT_TTL_MS: u64 = 365 * 24 * redlatch_types::limits::HOUR_MS;

/// Builds the genesis. Every agent gets one grant: A3, `land`, the repository's branches.
pub fn genesis(parties: Parties) -> GenesisV1 {
    let kernel = kernel(&parties);
    let constitution = constitution(&parties, &kernel);
    let grants: Vec<AutonomyGrantV1> = parties
        .subjects
        .iter()
        .filter(|s| s.actor_kind == ActorKind::Agent)
        .map(|s| grant(&parties, s))
        .collect();
    let activations = activations(&parties, &kernel, &constitution, &grants);
    let mut subjects: Vec<ClientIdentityV1> = parties
        .subjects
        .iter()
        .map(|s| identity(&parties, s))
        .collect();
    subjects.sort_by(|a, b| a.subject_id.cmp(&b.subject_id));
    let mut human_keys = parties.human_keys.clone();
    human_keys.sort_by_key(HumanKeyV1::id);
    GenesisV1 {
        organism_name: parties.organism_name,
        kind: OrganismKind::Development,
        created_at: parties.created_at,
        nonce: parties.nonce,
        kernel,
        constitution,
        roster: RosterV1 {
            roster_epoch: RosterEpoch(1),
            nodes: parties.nodes,
            verifiers: parties.verifiers,
            sentinel: parties.sentinel,
            actuator: parties.actuator,
        },
        subjects,
        grants,
        activations,
        human_keys,
        feature_level: SERVED_LEVEL,
    }
}

fn name(text: &str) -> Name {
    Name::new(text).expect("constant names are names")
}

fn text(text: &str) -> Text {
    Text::lossy(text)
}

fn kernel(parties: &Parties) -> SafetyKernelV1 {
    let builds: Vec<Digest> = parties.verifiers.iter().map(|v| v.builds_digest).collect();
    SafetyKernelV1 {
        kernel_id: name("redlatch-kernel-1"),
        verifier_binary_digest: Digest::of(&builds.to_canonical()),
        canonicalization_version: CANONICALIZATION_VERSION,
        pinned_external_root_key: parties.root,
        verified_boot_policy_digest: Digest::of(b"genesis signature, kernel and constitution"),
        immutable_invariants_digest: Digest::of(b"M1-I1..36, M1-L1..16"),
        minimum_verifier_seats: 4,
        minimum_quorum_threshold: 3,
        minimum_failure_domains: 3,
        proposer_executor_nonvoting: true,
        sentinel_required_and_nonvoting: true,
        sentinel_red_absolute_veto: true,
        sentinel_outbox_antirollback_required: true,
        sentinel_identity_binary_policy_digest: parties.sentinel.pin_digest(),
        safety_actuator_identity_binary_policy_digest: parties.actuator.pin_digest(),
        required_sentinel_unavailable_fail_closed: true,
        human_attestation_classes: vec![
            AttestationClass::Hardware,
            AttestationClass::Platform,
            AttestationClass::Software,
        ],
    }
}

fn constitution(parties: &Parties, kernel: &SafetyKernelV1) -> ConstitutionV1 {
    let mut seats: Vec<VerifierSeat> = parties
        .verifiers
        .iter()
        .map(|v| VerifierSeat {
            verifier_id: v.verifier_id.clone(),
            failure_domain: v.failure_domain.clone(),
        })
        .collect();
    seats.sort();
    ConstitutionV1 {
        constitution_epoch: ConstitutionEpoch(1),
        previous_constitution_digest: Digest::ZERO,
        effective_at: parties.created_at,
        expires_at_optional: None,
        allowed_autonomy_modes: vec![Mode::HumanGated, Mode::PolicyAutonomous],
        objectives_non_goals: vec![text("development organism: not for anything real")],
        budgets_risk_actions_digest: registry_digest(),
        independence_spec: IndependenceSpecV1 {
            four_voting_verifier_principals: seats,
            quorum_threshold: 3,
            minimum_failure_domains: 3,
            blind_isolation_policy_digest: Digest::of(b"sealed votes, one sheet per intent"),
            nonvoting_sentinel_id: parties.sentinel.name.clone(),
            proposer_executor_nonvoting: true,
        },
        amendment_rules: vec![text("amendments are human decisions")],
        old_runtime_approval_digest: Digest::ZERO,
        safety_kernel_digest: kernel.digest(),
        quorum_signature_required: true,
        policy_clauses: Vec::new(),
        human_approvals_required: 1,
        webauthn_rp_id: text(WEBAUTHN_RP_ID),
        webauthn_origins: vec![text(WEBAUTHN_ORIGIN)],
    }
}

fn identity(parties: &Parties, subject: &Subject) -> ClientIdentityV1 {
    ClientIdentityV1 {
        subject_id: subject.subject_id.clone(),
        actor_kind: subject.actor_kind,
        public_key: subject.public_key,
        app_host_identity: text("development"),
        enrollment_evidence: Digest::of(b"enrolled by the genesis"),
        scopes: scopes(parties, subject.actor_kind),
        issuer: SubjectId(name("root")),
        created_at: parties.created_at,
        revoked_at_optional: None,
        person_optional: None,
    }
}

/// Everybody acts on the repository; people and operators on the organism as well.
fn scopes(parties: &Parties, kind: ActorKind) -> Vec<Name> {
    let mut scopes = vec![parties.repository.clone()];
    if matches!(kind, ActorKind::Human | ActorKind::Operator) {
        scopes.push(name(ORGANISM_REALM));
    }
    scopes
}

fn grant(parties: &Parties, subject: &Subject) -> AutonomyGrantV1 {
    AutonomyGrantV1 {
        subject_id: subject.subject_id.clone(),
        role_id: name("developer"),
        mode: Mode::PolicyAutonomous,
        max_tier: Tier::A3,
        action_classes: vec![ActionClass::Land],
        risk_domains: vec![RiskClass::Low],
        resource_environment_scope: vec![ResourceScope {
            repository: parties.repository.clone(),
            ref_prefix: text("refs/heads/"),
        }],
        budget: GRANT_BUDGET,
        promotion_receipt_id: Digest::ZERO,
        issued_at: parties.created_at,
        expires_at: parties.created_at + GRANT_TTL_MS,
        constitution_epoch: ConstitutionEpoch(1),
        autonomy_epoch: AutonomyEpoch(2),
        delegate_subject_ids: Vec::new(),
    }
}

/// HUMAN_GATED at epoch 1, POLICY_AUTONOMOUS at epoch 2.
fn activations(
    parties: &Parties,
    kernel: &SafetyKernelV1,
    constitution: &ConstitutionV1,
    grants: &[AutonomyGrantV1],
) -> Vec<AutonomyActivationReceiptV1> {
    let receipt = |previous: Digest, epoch: u64, mode: Mode, grants_digest: Digest| {
        AutonomyActivationReceiptV1 {
            previous_mode_epoch_digest: previous,
            previous_constitution_epoch: ConstitutionEpoch(epoch - 1),
            previous_autonomy_epoch: AutonomyEpoch(epoch - 1),
            target_constitution_digest: constitution.digest(),
            activated_autonomy_epoch: AutonomyEpoch(epoch),
            activated_mode: mode,
            gate_receipts_digest: Digest::ZERO,
            rollback_plan_digest: Digest::ZERO,
            activates_at: parties.created_at,
            authority_decision_digest: Digest::ZERO,
            grants_digest,
            safety_kernel_digest: kernel.digest(),
            previous_constitution_digest: if epoch == 1 {
                Digest::ZERO
            } else {
                constitution.digest()
            },
            quorum_policy_digest: constitution.quorum_policy_digest(),
            issued_at: parties.created_at,
        }
    };
    let first = receipt(
        Digest::ZERO,
        1,
        Mode::HumanGated,
        grants_digest(std::iter::empty()),
    );
    let link = Digest::of(&(Mode::HumanGated, AutonomyEpoch(1)).to_canonical());
    let second = receipt(
        link,
        2,
        Mode::PolicyAutonomous,
        grants_digest(grants.iter()),
    );
    vec![first, second]
}
