//! The rules and parties in force, as a node tells them: what a proposal is made from.
//!
//! Unproven, and nothing is decided by it: the journal judges whatever is made from it.

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_proto::v1;
use redlatch_types::event::Ground;
use redlatch_types::records::{
    ActionClass, ActorKind, AutonomyEpochV1, AutonomyGrantV1, ClientIdentityV1, ConstitutionV1,
    HumanKeyV1, RosterV1, SafetyKernelV1,
};
use redlatch_types::{Canonical, Digest, Name, NotCanonical, SubjectId};

/// Everything in force.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    pub(crate) kernel: SafetyKernelV1,
    pub(crate) constitution: ConstitutionV1,
    pub(crate) roster: RosterV1,
    pub(crate) epoch: AutonomyEpochV1,
    pub(crate) subjects: Vec<ClientIdentityV1>,
    /// Grants, each with the actions committed under it.
    pub(crate) grants: Vec<(AutonomyGrantV1, u64)>,
    pub(crate) human_keys: Vec<HumanKeyV1>,
    pub(crate) grounds: Vec<Ground>,
    /// Acts of the root so far.
    pub(crate) root_acts: u64,
    /// Where the chain of the sentinel in force ends.
    pub(crate) outbox_root: Option<Digest>,
}

impl InForce {
    /// Reads a node's answer.
    ///
    /// # Errors
    /// [`Failure`] if this build cannot read it.
    pub(crate) fn read(answer: &v1::GovernanceResponse) -> Result<InForce, Failure> {
        let outbox_root = answer.outbox_root.as_deref().map(<[u8; 32]>::try_from);
        let outbox_root = outbox_root.transpose().map_err(unreadable)?.map(Digest);
        let read = || -> Result<InForce, NotCanonical> {
            let grants = answer.grants.iter().map(|it| {
                let grant = AutonomyGrantV1::from_canonical(&it.grant)?;
                Ok((grant, it.committed))
            });
            Ok(InForce {
                kernel: SafetyKernelV1::from_canonical(&answer.kernel)?,
                constitution: ConstitutionV1::from_canonical(&answer.constitution)?,
                roster: RosterV1::from_canonical(&answer.roster)?,
                epoch: AutonomyEpochV1::from_canonical(&answer.epoch)?,
                subjects: all(&answer.subjects)?,
                grants: grants.collect::<Result<_, NotCanonical>>()?,
                human_keys: all(&answer.human_keys)?,
                grounds: all(&answer.grounds)?,
                root_acts: answer.root_acts,
                outbox_root,
            })
        };
        read().map_err(unreadable)
    }

    /// A subject's first grant in the mode in force that covers a class of actions.
    pub(crate) fn grant(
        &self,
        subject: &SubjectId,
        class: ActionClass,
    ) -> Option<&AutonomyGrantV1> {
        let covers = |grant: &&AutonomyGrantV1| {
            grant.subject_id == *subject
                && grant.mode == self.epoch.active_mode
                && grant.action_classes.contains(&class)
        };
        self.grants.iter().map(|(grant, _)| grant).find(covers)
    }

    /// The only live gate of a realm.
    ///
    /// # Errors
    /// [`Failure`] if there is none, or more than one.
    pub(crate) fn only_gate(&self, realm: &Name) -> Result<SubjectId, Failure> {
        let mut gates = self.subjects.iter().filter(|subject| {
            subject.actor_kind == ActorKind::Gate
                && subject.revoked_at_optional.is_none()
                && subject.scopes.contains(realm)
        });
        let usage = |text: String| Failure::new(ExitCode::Usage, text);
        match (gates.next(), gates.next()) {
            (Some(gate), None) => Ok(gate.subject_id.clone()),
            (None, _) => Err(usage(format!("no gate is enrolled for {realm}"))),
            (Some(_), Some(_)) => {
                Err(usage(format!("{realm} has several gates")).hint("name one with --executor"))
            }
        }
    }
}

fn unreadable(fault: impl std::fmt::Display) -> Failure {
    let text = format!("a node's answer cannot be read: {fault}");
    Failure::new(ExitCode::Error, text).hint("nodes and tool must have the same version")
}

fn all<T: Canonical>(records: &[Vec<u8>]) -> Result<Vec<T>, NotCanonical> {
    records.iter().map(|it| T::from_canonical(it)).collect()
}
