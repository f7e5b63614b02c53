//! Whether persons could still decide after a change: what nobody can decide for could never be
//! amended, reset or stopped from standing still (M1-L13, FAULTS 66).
//!
//! Asked of every change that could take the last way out: an amendment, a revocation of a
//! subject or key, an act of the root.

use std::collections::BTreeSet;

use redlatch_types::SubjectId;
use redlatch_types::records::{ActionClass, ConstitutionV1, HumanKeyV1, SafetyKernelV1};

use crate::authority::Governance;

/// What persons must be able to decide in every mode, or an organism stays as it is for ever.
const WAYS_OUT: [ActionClass; 3] = [
    ActionClass::ConstitutionAmend,
    ActionClass::KeyChange,
    ActionClass::ResetFrozen,
];

/// Whether enough persons could decide under `kernel` and `constitution`, with those of the live
/// keys that `stays` leaves.
pub(super) fn remain(
    governance: &Governance,
    kernel: &SafetyKernelV1,
    constitution: &ConstitutionV1,
    stays: impl Fn(&HumanKeyV1) -> bool,
) -> bool {
    let able = |key: &&HumanKeyV1| {
        key.revoked_at_optional.is_none()
            && kernel
                .human_attestation_classes
                .contains(&key.attestation_class)
            && WAYS_OUT.iter().all(|action| key.scopes.contains(action))
            && governance.enrolled(&key.subject_id).is_some()
            && stays(key)
    };
    let keys = governance.human_keys.values().map(|held| &held.key);
    let persons: BTreeSet<&SubjectId> = keys.filter(able).map(|key| &key.subject_id).collect();
    // A credential answers for one relying party only (WebAuthn L3 §5.8.3): under another none would serve.
    let asked = constitution.webauthn_rp_id == governance.constitution.webauthn_rp_id
        && !constitution.webauthn_origins.is_empty();
    asked && persons.len() as u64 >= constitution.human_approvals_required.max(1)
}
