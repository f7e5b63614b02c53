//! From the roster one trusts to the roster in force: a chain of roster changes (DESIGN D4).
//!
//! ```text
//!   genesis ──▶ roster 1 ──▶ roster 2 ──▶ … ──▶ roster in force
//!                    each link: the leaf that changes it, receipted under the roster before,
//!                    or an act of the offline root
//! ```
//!
//! A link is a receipt of a roster event: `RosterChanged` or `NodeRejoined`, whose head the roster
//! before has signed, or `RootActed`, whose envelope the root has signed. Versions follow without a
//! gap, so neither an old change nor one left out passes for the next. Whoever keeps a policy from
//! long ago reaches the one of today without asking anybody for trust. This module fetches nothing
//! and does not know where a chain is kept.

use thiserror::Error;

use crate::bytes::PublicKey;
use crate::checkpoint::{Origin, Stage};
use crate::codec::Canonical;
use crate::event::Event;
use crate::ids::RosterEpoch;
use crate::policy::{Demand, NodeKeys, Policy, PolicyError, WitnessKey};
use crate::receipt::{Receipt, ReceiptError, verify_for};
use crate::records::{GenesisV1, OrganismKind, RosterV1};
use crate::sign::Envelope;

/// Why a link does not lead on.
#[derive(Debug, Error)]
pub enum BadLink {
    /// The leaf is no event, or not one that changes the roster.
    #[error("the leaf does not change the roster")]
    NotARosterChange,
    /// The roster in the leaf is not the next version.
    #[error("roster {found} does not follow roster {trusted}")]
    NotTheNext {
        /// The version reached so far.
        trusted: RosterEpoch,
        /// The version in the leaf.
        found: RosterEpoch,
    },
    /// The roster before has not signed it.
    #[error("the roster before has not signed it: {0}")]
    Receipt(#[from] ReceiptError),
    /// The act is not signed by the root, or for another organism.
    #[error("the act is not signed by the root of this organism")]
    NotTheRoot,
    /// No policy can be made of the roster.
    #[error("no policy can be made of the roster: {0}")]
    Policy(#[from] PolicyError),
}

/// A roster that is trusted, with what the next link is held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    origin: Origin,
    roster: RosterV1,
    root: PublicKey,
    policy: Policy,
}

impl Trust {
    /// Trust in the roster of a genesis.
    ///
    /// # Errors
    /// [`PolicyError`] if the roster makes no policy.
    pub fn of_genesis(genesis: &GenesisV1, history: u64) -> Result<Trust, PolicyError> {
        let origin = Origin {
            stage: match genesis.kind {
                OrganismKind::Production => Stage::Production,
                OrganismKind::Development => Stage::Development,
            },
            organism: genesis.organism_id(),
            history,
        };
        let root = genesis.kernel.pinned_external_root_key;
        Trust::of_roster(origin, genesis.roster.clone(), root)
    }

    /// Trust in a roster that is known by other means: applied, for example.
    ///
    /// # Errors
    /// [`PolicyError`] if the roster makes no policy.
    pub fn of_roster(
        origin: Origin,
        roster: RosterV1,
        root: PublicKey,
    ) -> Result<Trust, PolicyError> {
        let policy = policy_of(&origin, &roster)?;
        Ok(Trust {
            origin,
            roster,
            root,
            policy,
        })
    }

    /// The roster that is trusted.
    pub fn roster(&self) -> &RosterV1 {
        &self.roster
    }

    /// Its policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The next roster, if `link` proves it. `demand` is what the head of a change must meet; an
    /// act of the root needs no head.
    ///
    /// # Errors
    /// [`BadLink`]: the trust stays where it is.
    pub fn follow(&self, link: &Receipt, demand: Demand) -> Result<Trust, BadLink> {
        let event = Event::from_canonical(&link.leaf).map_err(|_| BadLink::NotARosterChange)?;
        let (roster, root) = match event {
            Event::RosterChanged(roster) | Event::NodeRejoined(roster, _) => {
                verify_for(link, &self.policy, demand)?;
                (*roster, self.root)
            }
            Event::RootActed(_, _, envelope) => self.acted(&envelope)?,
            _ => return Err(BadLink::NotARosterChange),
        };
        let (trusted, found) = (self.roster.roster_epoch, roster.roster_epoch);
        if found != trusted.next() {
            return Err(BadLink::NotTheNext { trusted, found });
        }
        Ok(Trust::of_roster(self.origin, roster, root)?)
    }

    fn acted(&self, envelope: &Envelope) -> Result<(RosterV1, PublicKey), BadLink> {
        let signed = envelope
            .open::<crate::records::RootActV1>()
            .map_err(|_| BadLink::NotTheRoot)?;
        let ours = *signed.key() == self.root && signed.scope().organism_id == self.origin.organism;
        if !ours {
            return Err(BadLink::NotTheRoot);
        }
        let act = signed.record();
        let root = act.kernel.pinned_external_root_key;
        Ok((act.roster.clone(), root))
    }
}

/// The policy of a roster. A development organism has no witnesses (D4).
///
/// # Errors
/// [`PolicyError`].
pub fn policy_of(origin: &Origin, roster: &RosterV1) -> Result<Policy, PolicyError> {
    let nodes: Vec<NodeKeys> = roster
        .voters()
        .map(|node| NodeKeys {
            label: node.name.to_string(),
            log: node.log_key,
            cosigner: node.cosigner_key,
        })
        .collect();
    let witness = |verifier: &crate::records::RosterVerifier| WitnessKey {
        label: verifier.verifier_id.to_string(),
        key: verifier.witness_key,
    };
    let witnesses: Vec<WitnessKey> = match origin.stage {
        Stage::Production => roster.verifiers.iter().map(witness).collect(),
        Stage::Development => Vec::new(),
    };
    Policy::of_roster(origin, &nodes, &witnesses)
}

#[cfg(test)]
mod tests;
