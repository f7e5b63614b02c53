//! The terms that a constitution must keep: the kernel's floors, whoever proposes (M1-L1, M1-I21).

use std::collections::BTreeSet;

use redlatch_types::limits::{POLICY_CLAUSES_MAX, SCOPES_MAX};
use redlatch_types::records::{
    AttestationClass, CANONICALIZATION_VERSION, ConstitutionV1, Mode, OrganismKind, PolicyClauseV1,
    RosterV1, SafetyKernelV1, Tier,
};
use redlatch_types::{Canonical, Digest};

use crate::authority::Governance;
use crate::planted::Bug;
use crate::registry::registry_digest;

/// The subject whose authority a human decision uses: the organism's owner.
pub(crate) const OWNER: &str = "owner";
/// The subject that composes intents: the journal itself.
pub(crate) const ISSUER: &str = "journal";

/// The floors that nothing below the root lowers.
pub(super) fn floors_hold(kernel: &SafetyKernelV1, kind: OrganismKind) -> bool {
    // A key in a file decides nothing that is for real.
    let keys_are_kept = kind == OrganismKind::Development
        || !kernel
            .human_attestation_classes
            .contains(&AttestationClass::Software);
    kernel.minimum_verifier_seats >= 4
        && kernel.minimum_quorum_threshold >= 3
        && kernel.minimum_failure_domains >= 3
        && kernel.proposer_executor_nonvoting
        && kernel.sentinel_required_and_nonvoting
        && kernel.sentinel_red_absolute_veto
        && kernel.sentinel_outbox_antirollback_required
        && kernel.required_sentinel_unavailable_fail_closed
        && kernel.canonicalization_version == CANONICALIZATION_VERSION
        && keys_are_kept
}

/// The kernel pins exactly the roster's verifiers' builds, sentinel and actuator.
pub(super) fn pins_match(kernel: &SafetyKernelV1, roster: &RosterV1) -> bool {
    let builds: Vec<Digest> = roster.verifiers.iter().map(|v| v.builds_digest).collect();
    kernel.verifier_binary_digest == Digest::of(&builds.to_canonical())
        && kernel.sentinel_identity_binary_policy_digest == roster.sentinel.pin_digest()
        && kernel.safety_actuator_identity_binary_policy_digest == roster.actuator.pin_digest()
}

/// Whether `constitution` keeps the kernel's floors and names exactly the roster's voters.
pub(super) fn constitution_holds(
    constitution: &ConstitutionV1,
    kernel: &SafetyKernelV1,
    roster: &RosterV1,
) -> bool {
    let spec = &constitution.independence_spec;
    let seats = roster.verifier_seats();
    let domains: BTreeSet<_> = seats.iter().map(|s| &s.failure_domain).collect();
    constitution.safety_kernel_digest == kernel.digest()
        && constitution.budgets_risk_actions_digest == registry_digest()
        && seats.len() as u64 >= kernel.minimum_verifier_seats
        && spec.four_voting_verifier_principals == seats
        && spec.quorum_threshold >= kernel.minimum_quorum_threshold
        && spec.quorum_threshold <= seats.len() as u64
        && spec.minimum_failure_domains >= kernel.minimum_failure_domains
        && spec.minimum_failure_domains <= domains.len() as u64
        && spec.proposer_executor_nonvoting
        && spec.nonvoting_sentinel_id == roster.sentinel.name
        && constitution.human_approvals_required >= 1
        && constitution.policy_clauses.len() <= POLICY_CLAUSES_MAX
        && constitution.policy_clauses.iter().all(clause_holds)
}

/// A clause decides day-to-day work only, and never without somebody's evidence.
fn clause_holds(clause: &PolicyClauseV1) -> bool {
    let bounded = |len: usize| (1..=SCOPES_MAX).contains(&len);
    clause.action_classes.iter().all(|c| c.is_operational())
        && bounded(clause.action_classes.len())
        && bounded(clause.risk_domains.len())
        && bounded(clause.resource_environment_scope.len())
        && bounded(clause.required_gates.len())
        && bounded(clause.runners.len())
}

/// Whether `next` may follow the constitution in force: it names it, is the next epoch, keeps
/// every floor and still allows people to decide and the mode in force (M1-I16, M1-L12).
pub(super) fn amendment_holds(governance: &Governance, next: &ConstitutionV1) -> bool {
    let current = &governance.constitution;
    next.constitution_epoch == current.constitution_epoch.next()
        && (next.previous_constitution_digest == current.digest() || Bug::AmendmentOfAnother.planted())
        // The journal fills this in with the decision of the constitution in force.
        && next.old_runtime_approval_digest == Digest::ZERO
        && next.allowed_autonomy_modes.contains(&Mode::HumanGated)
        && next
            .allowed_autonomy_modes
            .contains(&governance.epoch.active_mode)
        && (constitution_holds(next, &governance.kernel, &governance.roster)
            || Bug::FloorsLowered.planted())
}

/// The tier above; A5 stays.
pub(super) fn one_higher(tier: Tier) -> Tier {
    let above = Tier::ALL.iter().copied().find(|t| *t > tier);
    above.unwrap_or(tier)
}

/// The tier below; A0 stays.
pub(super) fn one_lower(tier: Tier) -> Tier {
    let below = Tier::ALL.iter().rev().copied().find(|t| *t < tier);
    below.unwrap_or(tier)
}
