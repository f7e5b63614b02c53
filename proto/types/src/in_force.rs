//! What is in force, as a process outside of the cluster has proven it (DESIGN D4, D9, §9).
//!
//! ```text
//!   genesis ─▶ InForceV1 ──RosterChanged · ConstitutionAmended · EpochPublished · … , each proven──▶ InForceV1
//!                        ──RootActed, signed by the root in force──▶ InForceV1 of the next organism epoch
//! ```
//!
//! Rosters, constitutions and acts of the root name the one before them (an epoch, a digest, a number and the
//! kernel that is replaced), so one that was left out shows with the next one, which does not follow and
//! changes nothing. Of the last one there is no next: that it was left out is seen only by comparing with what
//! a majority says is in force. The same holds for the quorum's key, whose epochs only grow, and for the
//! autonomy epoch, which is taken in whatever came before it. A key ends with the verifiers that hold it.
//!
//! The journal decides; this repeats what it has decided and judges nothing but the order.

use minicbor::{Decode, Encode};

use crate::bytes::{Digest, PublicKey};
use crate::event::Event;
use crate::ids::{AutonomyEpoch, KeyEpoch, RosterEpoch};
use crate::proven::ProvenEvent;
use crate::records::{ConstitutionV1, GenesisV1, RootActV1, RosterV1, SafetyKernelV1};
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
    /// The leaf after the last published autonomy epoch that was taken in: a later one stands behind it.
    #[n(8)]
    pub epoch_next: u64,
    /// Where the acts of the root stand that came after that leaf; each raised the epoch by one.
    #[n(9)]
    pub acts_since: Vec<u64>,
    /// Sentinels that the root has replaced. What they said before was latched, and is still to be ended.
    #[n(10)]
    pub former_sentinels: Vec<PublicKey>,
    /// The latest epoch of which the quorum ever had a key: the next key is of the one after it.
    #[n(11)]
    pub last_key_epoch: KeyEpoch,
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
            epoch_next: 0,
            acts_since: Vec::new(),
            former_sentinels: Vec::new(),
            last_key_epoch: KeyEpoch(0),
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

    /// Whether a leaf that changes what is in force was taken in before, or came too late to count.
    pub fn has_taken(&self, event: &Event, position: u64) -> bool {
        match event {
            Event::EpochPublished(_) => position < self.epoch_next,
            _ => position < self.next,
        }
    }

    /// Takes in a proven event.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub fn take(&mut self, proven: &ProvenEvent) -> Result<Taken, NotTaken> {
        let position = proven.index();
        if self.has_taken(proven.event(), position) {
            return Ok(Taken::Nothing);
        }
        if let Event::EpochPublished(epoch) = proven.event() {
            // It only rises, so its order to the rest does not matter: a stop must not wait for it.
            self.published(epoch.autonomy_epoch, position);
            return Ok(Taken::Terms);
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
                self.last_key_epoch = self.last_key_epoch.max(*epoch);
                self.quorum_key = Some(ActiveKeyV1 {
                    epoch: *epoch,
                    group_key: *group_key,
                    public_key_package_digest: *digest,
                });
                Taken::Terms
            }
            Event::QuorumKeyVoided(epoch) => {
                // Named by the journal, so that a key which was left out is counted all the same.
                self.last_key_epoch = self.last_key_epoch.max(*epoch);
                self.quorum_key = None;
                Taken::Terms
            }
            Event::RootActed(act, _, envelope) => self.root(act, envelope)?,
            _ => return Ok(Taken::Nothing),
        };
        self.next = position.saturating_add(1);
        // An epoch that was published after the act has counted it.
        if taken == Taken::Root && position >= self.epoch_next {
            self.autonomy_epoch = self.autonomy_epoch.next();
            self.acts_since.push(position);
        }
        Ok(taken)
    }

    /// A later epoch, which acts of the root may have raised since.
    fn published(&mut self, epoch: AutonomyEpoch, position: u64) {
        self.acts_since.retain(|act| *act > position);
        let since = self.acts_since.iter();
        self.autonomy_epoch = since.fold(epoch, |epoch, _| epoch.next());
        self.epoch_next = position.saturating_add(1);
    }

    fn roster(&mut self, roster: &RosterV1) -> Result<Taken, NotTaken> {
        if roster.roster_epoch != self.roster.roster_epoch.next() {
            return Err(NotTaken::OutOfOrder);
        }
        let pinned = |it: &RosterV1| (it.sentinel.clone(), it.actuator.clone());
        if pinned(roster) != pinned(&self.roster) {
            return Err(NotTaken::OtherPins);
        }
        if roster.nodes == self.roster.nodes {
            // A change of the verifiers, though they may be the same four: theirs is another key from here on,
            // whoever hides that this one was voided.
            self.quorum_key = None;
        }
        self.seat(roster);
        Ok(Taken::Roster)
    }

    /// This roster is in force. A key ends with the verifiers that hold it, whoever hides that it was voided.
    fn seat(&mut self, roster: &RosterV1) {
        if self.roster.verifiers != roster.verifiers {
            self.quorum_key = None;
        }
        self.roster = roster.clone();
    }

    /// What the next act of the root is held against.
    pub fn root_in_force(&self) -> RootInForce {
        RootInForce {
            scope: self.scope,
            key: self.kernel.pinned_external_root_key,
            kernel_digest: self.kernel.digest(),
            acts: self.root_acts,
            roster_epoch: self.roster.roster_epoch,
        }
    }

    /// Whether the root in force has signed this act as its next one.
    ///
    /// # Errors
    /// [`NotTaken`] with what is wrong with it.
    pub fn check_root_act(&self, act: &RootActV1, envelope: &Envelope) -> Result<(), NotTaken> {
        self.root_in_force().check(act, envelope)
    }

    fn root(&mut self, act: &RootActV1, envelope: &Envelope) -> Result<Taken, NotTaken> {
        self.check_root_act(act, envelope)?;
        self.constitution = self.constitution.after_root_act(act);
        self.kernel = act.kernel.clone();
        if act.replaces_sentinel() {
            self.former_sentinels.push(self.roster.sentinel.key);
        }
        self.seat(&act.roster);
        self.root_acts = act.number;
        self.scope.organism_epoch = self.scope.organism_epoch.saturating_add(1);
        Ok(Taken::Root)
    }
}

/// The root as it stands: what its next act is held against, wherever one is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootInForce {
    /// Organism and its epoch.
    pub scope: Scope,
    /// The root's key.
    pub key: PublicKey,
    /// Digest of the kernel in force.
    pub kernel_digest: Digest,
    /// Acts so far.
    pub acts: u64,
    /// The roster in force.
    pub roster_epoch: RosterEpoch,
}

impl RootInForce {
    /// The root of a genesis.
    pub fn of_genesis(genesis: &GenesisV1) -> RootInForce {
        InForceV1::of_genesis(genesis).root_in_force()
    }

    /// Whether the root has signed this act, and as its next one.
    ///
    /// # Errors
    /// [`NotTaken`] with what is wrong with it.
    pub fn check(&self, act: &RootActV1, envelope: &Envelope) -> Result<(), NotTaken> {
        let signed = envelope
            .open::<RootActV1>()
            .map_err(|_| NotTaken::NotByTheRoot)?;
        let by_root = *signed.key() == self.key
            && signed.scope().organism_id == self.scope.organism_id
            && signed.record() == act;
        if !by_root {
            return Err(NotTaken::NotByTheRoot);
        }
        let follows = *signed.scope() == self.scope
            && act.number == self.acts.saturating_add(1)
            && act.previous_kernel_digest == self.kernel_digest
            && act.roster.roster_epoch == self.roster_epoch.next();
        follows.then_some(()).ok_or(NotTaken::OutOfOrder)
    }

    /// The root after an act that was checked.
    #[must_use]
    pub fn after(&self, act: &RootActV1) -> RootInForce {
        RootInForce {
            scope: Scope {
                organism_epoch: self.scope.organism_epoch.saturating_add(1),
                ..self.scope
            },
            key: act.kernel.pinned_external_root_key,
            kernel_digest: act.kernel.digest(),
            acts: act.number,
            roster_epoch: act.roster.roster_epoch,
        }
    }
}
