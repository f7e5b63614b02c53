//! What is in force, as a process outside of the cluster has proven it (DESIGN D4, D9, §9).
//!
//! ```text
//!   genesis ─▶ InForceV1 ──RosterChanged · ConstitutionAmended · EpochPublished · … , each proven──▶ InForceV1
//!                        ──RootActed, signed by the root in force──▶ InForceV1 of the next organism epoch
//! ```
//!
//! Each link names the one before it: a roster its epoch, a constitution the digest of its
//! predecessor, a root act its number and the kernel that it replaces. So nothing can be left
//! out, and nothing is taken twice. What does not follow changes nothing.
//!
//! The journal decides; this repeats what it has decided and judges nothing but the order.

use minicbor::{Decode, Encode};

use crate::bytes::{Digest, PublicKey};
use crate::event::Event;
use crate::ids::{AutonomyEpoch, KeyEpoch};
use crate::proven::ProvenEvent;
use crate::records::{
    ConstitutionV1, GenesisV1, RootActV1, RosterV1, SafetyKernelV1, VerifierSeat,
};
use crate::sign::{Envelope, Scope};

/// The quorum's key in force.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ActiveKeyV1 {
    /// Its version.
    #[n(0)]
    pub epoch: KeyEpoch,
    /// The group's key.
    #[n(1)]
    pub group_key: PublicKey,
    /// Digest of the public key package.
    #[n(2)]
    pub public_key_package_digest: Digest,
}

/// Governance in force up to a leaf.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct InForceV1 {
    /// Every leaf before this one that changes anything here was taken in.
    #[n(0)]
    pub next: u64,
    /// Organism and its epoch.
    #[n(1)]
    pub scope: Scope,
    /// The roster.
    #[n(2)]
    pub roster: RosterV1,
    /// The kernel.
    #[n(3)]
    pub kernel: SafetyKernelV1,
    /// The constitution.
    #[n(4)]
    pub constitution: ConstitutionV1,
    /// The autonomy epoch.
    #[n(5)]
    pub autonomy_epoch: AutonomyEpoch,
    /// The quorum's key, if it has one.
    #[n(6)]
    pub quorum_key: Option<ActiveKeyV1>,
    /// Acts of the root so far.
    #[n(7)]
    pub root_acts: u64,
}

/// What a proven event is to what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Nothing here is changed by it, or it was taken in before.
    Nothing,
    /// Something else than the roster's nodes has changed.
    Terms,
    /// The roster has changed: other receipts are believed from here on.
    Roster,
    /// The root has acted: keys, pins and the organism epoch are others.
    Root,
}

/// Why a proven event is not taken in. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// What comes between was not shown.
    #[error("it does not follow what is known to be in force")]
    OutOfOrder,
    /// A pinned party is another, which only the root can bring about.
    #[error("it replaces a pinned party without the root")]
    OtherPins,
    /// The root in force has not signed it.
    #[error("it is not signed by the root in force")]
    NotByTheRoot,
}

impl InForceV1 {
    /// What a genesis puts in force, whose signature the caller has verified.
    pub fn of_genesis(genesis: &GenesisV1) -> InForceV1 {
        let active = genesis.activations.last();
        InForceV1 {
            next: 0,
            scope: genesis.scope(),
            roster: genesis.roster.clone(),
            kernel: genesis.kernel.clone(),
            constitution: genesis.constitution.clone(),
            autonomy_epoch: active
                .map(|it| it.activated_autonomy_epoch)
                .unwrap_or_default(),
            quorum_key: None,
            root_acts: 0,
        }
    }

    /// Whether an event changes what is in force, so that whoever follows must take it in.
    pub fn is_changed_by(event: &Event) -> bool {
        matches!(
            event,
            Event::RosterChanged(_)
                | Event::NodeRejoined(..)
                | Event::ConstitutionAmended(_)
                | Event::QuorumKeyActivated(..)
                | Event::QuorumKeyVoided(_)
                | Event::EpochPublished(_)
                | Event::RootActed(..)
        )
    }

    /// Takes in a proven event.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub fn take(&mut self, proven: &ProvenEvent) -> Result<Taken, NotTaken> {
        if let Event::EpochPublished(epoch) = proven.event() {
            // It only rises, so its order to the rest does not matter: a stop must not wait for it.
            self.autonomy_epoch = self.autonomy_epoch.max(epoch.autonomy_epoch);
            return Ok(Taken::Terms);
        }
        if proven.index() < self.next {
            return Ok(Taken::Nothing);
        }
        let taken = match proven.event() {
            Event::RosterChanged(roster) | Event::NodeRejoined(roster, _) => self.roster(roster)?,
            Event::ConstitutionAmended(constitution) => {
                if constitution.previous_constitution_digest != self.constitution.digest() {
                    return Err(NotTaken::OutOfOrder);
                }
                self.constitution = (**constitution).clone();
                Taken::Terms
            }
            Event::QuorumKeyActivated(epoch, group_key, digest, _) => {
                if self
                    .quorum_key
                    .as_ref()
                    .is_some_and(|it| it.epoch >= *epoch)
                {
                    return Err(NotTaken::OutOfOrder);
                }
                self.quorum_key = Some(ActiveKeyV1 {
                    epoch: *epoch,
                    group_key: *group_key,
                    public_key_package_digest: *digest,
                });
                Taken::Terms
            }
            Event::QuorumKeyVoided(_) => {
                self.quorum_key = None;
                Taken::Terms
            }
            Event::RootActed(act, _, envelope) => self.root(act, envelope)?,
            _ => return Ok(Taken::Nothing),
        };
        self.next = proven.index().saturating_add(1);
        Ok(taken)
    }

    fn roster(&mut self, roster: &RosterV1) -> Result<Taken, NotTaken> {
        if roster.roster_epoch != self.roster.roster_epoch.next() {
            return Err(NotTaken::OutOfOrder);
        }
        let pinned = |it: &RosterV1| (it.sentinel.clone(), it.actuator.clone());
        if pinned(roster) != pinned(&self.roster) {
            return Err(NotTaken::OtherPins);
        }
        self.roster = roster.clone();
        Ok(Taken::Roster)
    }

    /// Whether the root in force has signed this act as its next one.
    ///
    /// # Errors
    /// [`NotTaken`] with what is wrong with it.
    pub fn check_root_act(&self, act: &RootActV1, envelope: &Envelope) -> Result<(), NotTaken> {
        let signed = envelope
            .open::<RootActV1>()
            .map_err(|_| NotTaken::NotByTheRoot)?;
        let by_root = *signed.key() == self.kernel.pinned_external_root_key
            && signed.scope().organism_id == self.scope.organism_id
            && signed.record() == act;
        if !by_root {
            return Err(NotTaken::NotByTheRoot);
        }
        let follows = *signed.scope() == self.scope
            && act.number == self.root_acts.saturating_add(1)
            && act.previous_kernel_digest == self.kernel.digest()
            && act.roster.roster_epoch == self.roster.roster_epoch.next();
        follows.then_some(()).ok_or(NotTaken::OutOfOrder)
    }

    fn root(&mut self, act: &RootActV1, envelope: &Envelope) -> Result<Taken, NotTaken> {
        self.check_root_act(act, envelope)?;
        self.constitution = constitution_after(&self.constitution, act);
        if self.roster.verifiers != act.roster.verifiers {
            self.quorum_key = None;
        }
        self.kernel = act.kernel.clone();
        self.roster = act.roster.clone();
        self.root_acts = act.number;
        self.scope.organism_epoch = self.scope.organism_epoch.saturating_add(1);
        self.autonomy_epoch = self.autonomy_epoch.next();
        Ok(Taken::Root)
    }
}

/// The constitution in force, under the new kernel and about the new parties.
fn constitution_after(current: &ConstitutionV1, act: &RootActV1) -> ConstitutionV1 {
    let mut next = ConstitutionV1 {
        constitution_epoch: current.constitution_epoch.next(),
        previous_constitution_digest: current.digest(),
        safety_kernel_digest: act.kernel.digest(),
        ..current.clone()
    };
    let verifiers = act.roster.verifiers.iter();
    let mut seats: Vec<VerifierSeat> = verifiers
        .map(|it| VerifierSeat {
            verifier_id: it.verifier_id.clone(),
            failure_domain: it.failure_domain.clone(),
        })
        .collect();
    seats.sort();
    next.independence_spec.four_voting_verifier_principals = seats;
    next.independence_spec.nonvoting_sentinel_id = act.roster.sentinel.name.clone();
    next
}
