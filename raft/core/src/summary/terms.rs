//! Every term that a change would put in force, one a line, for the person who decides on it.
//!
//! Records are taken apart field by field, so that a new field cannot be forgotten here: it does
//! not compile until somebody has said how a person reads it.

use std::fmt::Display;

use redlatch_types::Bytes;
use redlatch_types::records::{
    ActionPayload, AutonomyGrantV1, ClientIdentityV1, ConstitutionV1, GrantPayload, HumanKeyV1,
    IndependenceSpecV1, KeyPayload, ModePayload, PinnedParty, PolicyClauseV1, PromotionPayload,
    ResourceScope, RootActV1, RosterNode, RosterPayload, RosterV1, RosterVerifier, SafetyKernelV1,
    SubjectPayload, VerifierSeat,
};
use redlatch_types::time::rfc3339;

/// A term: its name, and what it would be.
type Term = (&'static str, String);

/// The terms of `payload`, in the order of its record; none for what its first lines say whole.
pub(super) fn of(payload: &ActionPayload) -> Vec<Term> {
    match payload {
        ActionPayload::ConstitutionAmend(amend) => constitution(&amend.constitution),
        ActionPayload::ModeActivate(mode) => activation(mode),
        ActionPayload::GrantChange(change) => match &**change {
            GrantPayload::Promote(given) => promotion(given),
            GrantPayload::Demote(..) | GrantPayload::Revoke(_) => Vec::new(),
        },
        ActionPayload::SubjectChange(change) => match &**change {
            SubjectPayload::Enrol(it) | SubjectPayload::Rotate(it) => subject(it),
            SubjectPayload::Revoke(_) => Vec::new(),
        },
        ActionPayload::KeyChange(change) => match &**change {
            KeyPayload::Enrol(it) | KeyPayload::Rotate(_, it) => human_key(it),
            KeyPayload::Revoke(_) => Vec::new(),
        },
        ActionPayload::RosterChange(change) => match &**change {
            RosterPayload::Join(it) => node(it),
            RosterPayload::Promote(_) | RosterPayload::Remove(_) => Vec::new(),
        },
        ActionPayload::VerifierSetChange(set) => set.iter().flat_map(verifier).collect(),
        ActionPayload::Land(_)
        | ActionPayload::ReleasePromote(_)
        | ActionPayload::BlockRatify(_)
        | ActionPayload::BlockArchive(_)
        | ActionPayload::ExternalEffect(_)
        | ActionPayload::ResetFrozen(_)
        | ActionPayload::ResolveEffect(_) => Vec::new(),
    }
}

fn constitution(it: &ConstitutionV1) -> Vec<Term> {
    let ConstitutionV1 {
        constitution_epoch,
        previous_constitution_digest,
        effective_at,
        expires_at_optional,
        allowed_autonomy_modes,
        objectives_non_goals,
        budgets_risk_actions_digest,
        independence_spec,
        amendment_rules,
        old_runtime_approval_digest,
        safety_kernel_digest,
        quorum_signature_required,
        policy_clauses,
        human_approvals_required,
        webauthn_rp_id,
        webauthn_origins,
    } = it;
    let ends = expires_at_optional.map_or_else(|| "never".to_owned(), rfc3339);
    let mut terms = vec![
        term("version", constitution_epoch),
        term("follows", previous_constitution_digest),
        term("in force from", rfc3339(*effective_at)),
        term("ends", ends),
        term("modes allowed", list(allowed_autonomy_modes)),
    ];
    terms.extend(objectives_non_goals.iter().map(|it| term("objective", it)));
    terms.push(term("action registry", budgets_risk_actions_digest));
    terms.extend(independence(independence_spec));
    terms.extend(amendment_rules.iter().map(|it| term("amended by", it)));
    terms.extend([
        term("approved before", old_runtime_approval_digest),
        term("kernel", safety_kernel_digest),
        term("group signature", yes(*quorum_signature_required)),
    ]);
    terms.extend(policy_clauses.iter().flat_map(clause));
    terms.extend([
        term("persons who must approve", human_approvals_required),
        term("relying party", webauthn_rp_id),
        term("asked at", list(webauthn_origins)),
    ]);
    terms
}

fn independence(it: &IndependenceSpecV1) -> Vec<Term> {
    let IndependenceSpecV1 {
        four_voting_verifier_principals,
        quorum_threshold,
        minimum_failure_domains,
        blind_isolation_policy_digest,
        nonvoting_sentinel_id,
        proposer_executor_nonvoting,
    } = it;
    let seat = |it: &VerifierSeat| {
        let VerifierSeat {
            verifier_id,
            failure_domain,
        } = it;
        term("votes", format!("{verifier_id} in {failure_domain}"))
    };
    let mut terms: Vec<Term> = four_voting_verifier_principals.iter().map(seat).collect();
    terms.extend([
        term("votes needed", quorum_threshold),
        term("failure domains needed", minimum_failure_domains),
        term("isolation policy", blind_isolation_policy_digest),
        term("sentinel", nonvoting_sentinel_id),
        term(
            "proposer and executor kept from voting",
            yes(*proposer_executor_nonvoting),
        ),
    ]);
    terms
}

fn clause(it: &PolicyClauseV1) -> Vec<Term> {
    let PolicyClauseV1 {
        clause_id,
        action_classes,
        risk_domains,
        resource_environment_scope,
        required_gates,
        runners,
    } = it;
    vec![
        term("policy clause", clause_id),
        term("  decides", list(action_classes)),
        term("  at risk", list(risk_domains)),
        term("  about", scopes(resource_environment_scope)),
        term("  after gates", list(required_gates)),
        term("  run by", list(runners)),
    ]
}

fn activation(it: &ModePayload) -> Vec<Term> {
    let ModePayload {
        mode,
        activates_at,
        gate_receipts_digest,
        rollback_plan_digest,
    } = it;
    vec![
        term("mode to be", mode),
        term("active from", rfc3339(*activates_at)),
        term("shown by gate receipts", gate_receipts_digest),
        term("taken back by", rollback_plan_digest),
    ]
}

fn promotion(it: &PromotionPayload) -> Vec<Term> {
    let PromotionPayload {
        grant: it,
        replaces_optional,
        dataset_digest,
        rollback_digest,
    } = it;
    let mut terms = grant(it);
    let replaces = replaces_optional.map_or_else(|| "none".to_owned(), |id| id.to_string());
    terms.extend([
        term("replaces grant", replaces),
        term("on the data", dataset_digest),
        term("taken back by", rollback_digest),
    ]);
    terms
}

fn grant(it: &AutonomyGrantV1) -> Vec<Term> {
    let AutonomyGrantV1 {
        subject_id,
        role_id,
        mode,
        max_tier,
        action_classes,
        risk_domains,
        resource_environment_scope,
        budget,
        promotion_receipt_id,
        issued_at,
        expires_at,
        constitution_epoch,
        autonomy_epoch,
        delegate_subject_ids,
    } = it;
    vec![
        term("given to", subject_id),
        term("as", role_id),
        term("in mode", mode),
        term("up to tier", max_tier),
        term("for", list(action_classes)),
        term("at risk", list(risk_domains)),
        term("about", scopes(resource_environment_scope)),
        term("how often", budget),
        term("promoted by", promotion_receipt_id),
        term("from", rfc3339(*issued_at)),
        term("until", rfc3339(*expires_at)),
        term("under constitution", constitution_epoch),
        term("with autonomy epoch", autonomy_epoch),
        term("may be used for them by", list(delegate_subject_ids)),
    ]
}

fn subject(it: &ClientIdentityV1) -> Vec<Term> {
    let ClientIdentityV1 {
        subject_id,
        actor_kind,
        public_key,
        app_host_identity,
        enrollment_evidence,
        scopes,
        issuer,
        created_at,
        revoked_at_optional,
        person_optional,
    } = it;
    let person = person_optional.as_ref().unwrap_or(subject_id);
    vec![
        term("subject", subject_id),
        term("kind", actor_kind),
        term("key", public_key),
        term("host", app_host_identity),
        term("evidence", enrollment_evidence),
        term("acts in", list(scopes)),
        term("issued by", issuer),
        term("from", rfc3339(*created_at)),
        term("revoked", time(*revoked_at_optional)),
        term("client of", person),
    ]
}

fn human_key(it: &HumanKeyV1) -> Vec<Term> {
    let HumanKeyV1 {
        subject_id,
        credential_id,
        public_key,
        platform,
        attestation_class,
        app_host_identity,
        enrollment_evidence,
        scopes,
        created_at,
        rotated_at_optional,
        revoked_at_optional,
        counter,
        backup_eligible,
    } = it;
    vec![
        term("key id", it.id()),
        term("key of", subject_id),
        term("credential", hex(credential_id)),
        term("public key", hex(public_key)),
        term("platform", platform),
        term("kept in", attestation_class),
        term("host", app_host_identity),
        term("evidence", enrollment_evidence),
        term("decides", list(scopes)),
        term("from", rfc3339(*created_at)),
        term("rotated", time(*rotated_at_optional)),
        term("revoked", time(*revoked_at_optional)),
        term("counter", counter),
        term("may be copied", yes(*backup_eligible)),
    ]
}

fn node(it: &RosterNode) -> Vec<Term> {
    let RosterNode {
        node_id,
        name,
        seat,
        log_key,
        cosigner_key,
        record_key,
    } = it;
    vec![
        term("node", node_id),
        term("name", name),
        term("as", seat),
        term("log key", log_key),
        term("cosigner key", cosigner_key),
        term("record key", record_key),
    ]
}

fn verifier(it: &RosterVerifier) -> Vec<Term> {
    let RosterVerifier {
        verifier_id,
        identifier,
        failure_domain,
        vote_key,
        witness_key,
        builds_digest,
        policy_digest,
    } = it;
    vec![
        term("verifier", verifier_id),
        term("  share", identifier),
        term("  failure domain", failure_domain),
        term("  vote key", vote_key),
        term("  witness key", witness_key),
        term("  builds", builds_digest),
        term("  policy", policy_digest),
    ]
}

/// The terms of an act of the root.
pub(super) fn of_root_act(it: &RootActV1) -> Vec<Term> {
    let RootActV1 {
        number,
        previous_kernel_digest,
        kernel: next,
        roster,
        old_outbox_root_optional,
        reason,
    } = it;
    let RosterV1 {
        roster_epoch,
        nodes,
        verifiers,
        sentinel,
        actuator,
    } = roster;
    let mut terms = vec![
        term("act of the root", number),
        term("reason", reason),
        term("follows kernel", previous_kernel_digest),
    ];
    terms.extend(kernel(next));
    terms.push(term("roster", roster_epoch));
    terms.extend(nodes.iter().flat_map(node));
    terms.extend(verifiers.iter().flat_map(verifier));
    terms.extend(party("sentinel", sentinel));
    terms.extend(party("actuator", actuator));
    let old = old_outbox_root_optional.map_or_else(|| "none".to_owned(), |it| it.to_string());
    terms.push(term("end of the old outbox", old));
    terms
}

fn kernel(it: &SafetyKernelV1) -> Vec<Term> {
    let SafetyKernelV1 {
        kernel_id,
        verifier_binary_digest,
        canonicalization_version,
        pinned_external_root_key,
        verified_boot_policy_digest,
        immutable_invariants_digest,
        minimum_verifier_seats,
        minimum_quorum_threshold,
        minimum_failure_domains,
        proposer_executor_nonvoting,
        sentinel_required_and_nonvoting,
        sentinel_red_absolute_veto,
        sentinel_outbox_antirollback_required,
        sentinel_identity_binary_policy_digest,
        safety_actuator_identity_binary_policy_digest,
        required_sentinel_unavailable_fail_closed,
        human_attestation_classes,
    } = it;
    vec![
        term("kernel", kernel_id),
        term("root key", pinned_external_root_key),
        term("persons' keys kept in", list(human_attestation_classes)),
        term("verified boot", verified_boot_policy_digest),
        term("invariants", immutable_invariants_digest),
        term("canonicalization", canonicalization_version),
        term("verifier builds", verifier_binary_digest),
        term("sentinel pin", sentinel_identity_binary_policy_digest),
        term(
            "actuator pin",
            safety_actuator_identity_binary_policy_digest,
        ),
        term("seats at least", minimum_verifier_seats),
        term("votes at least", minimum_quorum_threshold),
        term("failure domains at least", minimum_failure_domains),
        term(
            "proposer and executor kept from voting",
            yes(*proposer_executor_nonvoting),
        ),
        term(
            "sentinel required and not voting",
            yes(*sentinel_required_and_nonvoting),
        ),
        term("RED is an absolute veto", yes(*sentinel_red_absolute_veto)),
        term(
            "outbox kept from rollback",
            yes(*sentinel_outbox_antirollback_required),
        ),
        term(
            "nothing without the sentinel",
            yes(*required_sentinel_unavailable_fail_closed),
        ),
    ]
}

fn party(role: &'static str, it: &PinnedParty) -> Vec<Term> {
    let PinnedParty {
        name,
        key,
        builds_digest,
        policy_digest,
    } = it;
    vec![
        term(role, name),
        term("  key", key),
        term("  builds", builds_digest),
        term("  policy", policy_digest),
    ]
}

fn term(name: &'static str, value: impl Display) -> Term {
    (name, value.to_string())
}

/// An empty list means nothing and nobody (M1-I8), and a person reads it so.
fn list<T: Display>(items: &[T]) -> String {
    joined(items.iter().map(ToString::to_string))
}

fn scopes(items: &[ResourceScope]) -> String {
    joined(items.iter().map(|scope| {
        let ResourceScope {
            repository,
            ref_prefix,
        } = scope;
        format!("{repository} {ref_prefix}*")
    }))
}

fn joined(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    match items.is_empty() {
        true => "nothing".to_owned(),
        false => items.join(", "),
    }
}

fn yes(holds: bool) -> &'static str {
    if holds { "yes" } else { "no" }
}

fn time(at: Option<u64>) -> String {
    at.map_or_else(|| "no".to_owned(), rfc3339)
}

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &Bytes) -> String {
    use std::fmt::Write;
    bytes.0.iter().fold(String::new(), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
