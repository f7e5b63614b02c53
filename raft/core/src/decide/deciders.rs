//! Whether persons could still decide after a change: what nobody can propose or decide could never
//! be amended or reset (M1-L13, FAULTS 66).
//!
//! Asked of a genesis and of every change that could take the last way out: an amendment, a revocation or rotation
//! of a subject, a revocation of a key, an act of the root.

use std::collections::BTreeSet;

use redlatch_types::SubjectId;
use redlatch_types::records::{
    ActionClass, ActorKind, ClientIdentityV1, ConstitutionV1, HumanKeyV1, ORGANISM_REALM,
    SafetyKernelV1,
};

use crate::authority::Governance;

/// What persons must be able to decide in every mode, or an organism stays as it is for ever.
const WAYS_OUT: [ActionClass; 3] = [
    ActionClass::ConstitutionAmend,
    ActionClass::KeyChange,
    ActionClass::ResetFrozen,
];

/// An organism as it would be after a change.
pub(super) struct After<'a> {
    /// As it is.
    pub(super) governance: &'a Governance,
    /// The kernel to be.
    pub(super) kernel: &'a SafetyKernelV1,
    /// The constitution to be.
    pub(super) constitution: &'a ConstitutionV1,
    /// Who is revoked, or acts no more in the realm of the organism.
    pub(super) without: Option<&'a SubjectId>,
    /// Which of the live keys that decided before decides no more.
    pub(super) without_key: Option<&'a HumanKeyV1>,
}

impl<'a> After<'a> {
    /// The organism as it is.
    pub(super) fn unchanged(governance: &'a Governance) -> After<'a> {
        After {
            governance,
            kernel: &governance.kernel,
            constitution: &governance.constitution,
            without: None,
            without_key: None,
        }
    }

    /// Whether somebody could still propose a way out that enough others can approve: whoever
    /// proposed, by any of their clients, does not approve (M1-I12).
    pub(super) fn can_be_governed(&self) -> bool {
        let governance = self.governance;
        let keys = governance.human_keys.values().map(|held| &held.key);
        let persons: BTreeSet<&SubjectId> = keys
            .filter(|key| self.decides(key))
            .map(|key| &key.subject_id)
            .collect();
        // A credential answers for one relying party only (WebAuthn L3 §5.8.3): under another none
        // would serve.
        let asked = self.constitution.webauthn_rp_id == governance.constitution.webauthn_rp_id
            && !self.constitution.webauthn_origins.is_empty();
        let required = self.constitution.human_approvals_required.max(1);
        let approved = |proposer: &ClientIdentityV1| {
            let others = persons.iter().filter(|it| **it != proposer.person());
            others.count() as u64 >= required
        };
        asked
            && governance
                .subjects
                .values()
                .any(|it| self.proposes(it) && approved(it))
    }

    fn decides(&self, key: &HumanKeyV1) -> bool {
        key.revoked_at_optional.is_none()
            && self
                .kernel
                .human_attestation_classes
                .contains(&key.attestation_class)
            && WAYS_OUT.iter().all(|action| key.scopes.contains(action))
            && self.governance.enrolled(&key.subject_id).is_some()
            && self.without != Some(&key.subject_id)
            && self.without_key != Some(key)
    }

    fn proposes(&self, subject: &ClientIdentityV1) -> bool {
        subject.revoked_at_optional.is_none()
            && subject.actor_kind != ActorKind::Gate
            && subject
                .scopes
                .iter()
                .any(|it| it.as_str() == ORGANISM_REALM)
            && self.without != Some(&subject.subject_id)
    }
}
