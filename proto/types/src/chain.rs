//! From the roster one trusts to the roster in force: a chain of roster changes (DESIGN D4).
//!
//! ```text
//!   genesis ──▶ roster 1 ──▶ roster 2 ──▶ … ──▶ roster in force
//!                    each link: the leaf that changes it, receipted under the roster before,
//!                    or an act of the offline root, receipted under the roster that it names
//! ```
//!
//! A link is a receipt of a roster event: `RosterChanged` or `NodeRejoined`, whose head the roster
//! before has signed, or `RootActed`, whose envelope the root in force has signed as its next act, under a
//! head of the nodes that it names. Versions follow without a gap, so neither an old change nor one
//! left out passes for the next. Whoever keeps a policy from long ago reaches the one of today
//! without asking anybody for trust. This module fetches nothing and does not know where a chain is
//! kept.

use thiserror::Error;

use crate::checkpoint::{Origin, Stage};
use crate::codec::Canonical;
use crate::event::Event;
use crate::ids::RosterEpoch;
use crate::in_force::{NotTaken, RootInForce};
use crate::policy::{Demand, Policy, PolicyError};
use crate::receipt::{Receipt, ReceiptError, verify_for};
use crate::records::{GenesisV1, OrganismKind, RosterV1};
use crate::sign::Scope;

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
    /// The root has signed it, and not as its next act: by its number, the kernel or the roster that it replaces,
    /// or for another organism epoch.
    #[error("the act does not follow the one before")]
    NotTheNextAct,
    /// No policy can be made of the roster.
    #[error("no policy can be made of the roster: {0}")]
    Policy(#[from] PolicyError),
}

/// A roster that is trusted, with what the next link is held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    origin: Origin,
    roster: RosterV1,
    root: RootInForce,
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
        let root = RootInForce::of_genesis(genesis);
        Trust::of_roster(origin, genesis.roster.clone(), root)
    }

    /// Trust in a roster that is known by other means: applied, for example. `root` is the root as it stands
    /// under that roster.
    ///
    /// # Errors
    /// [`PolicyError`] if the roster makes no policy.
    pub fn of_roster(
        origin: Origin,
        roster: RosterV1,
        root: RootInForce,
    ) -> Result<Trust, PolicyError> {
        let policy = Policy::of(&origin, &roster)?;
        let root = RootInForce {
            roster_epoch: roster.roster_epoch,
            ..root
        };
        Ok(Trust {
            origin,
            roster,
            root,
            policy,
        })
    }

    /// The organism, and its epoch as the last act of the root that was followed has left it.
    pub fn scope(&self) -> Scope {
        self.root.scope
    }

    /// The roster that is trusted.
    pub fn roster(&self) -> &RosterV1 {
        &self.roster
    }

    /// Its policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The next roster, if `link` proves it. `demand` is what the head must meet: under the roster before for
    /// a change, under the one that it names for an act of the root.
    ///
    /// # Errors
    /// [`BadLink`]: the trust stays where it is.
    pub fn follow(&self, link: &Receipt, demand: Demand) -> Result<Trust, BadLink> {
        let event = Event::from_canonical(&link.leaf).map_err(|_| BadLink::NotARosterChange)?;
        match event {
            Event::RosterChanged(roster) | Event::NodeRejoined(roster, _) => {
                verify_for(link, &self.policy, demand)?;
                self.changed(*roster)
            }
            Event::RootActed(act, _, envelope) => {
                self.root.check(&act, &envelope).map_err(|why| match why {
                    NotTaken::OutOfOrder => BadLink::NotTheNextAct,
                    NotTaken::NotByTheRoot | NotTaken::OtherPins => BadLink::NotTheRoot,
                })?;
                let root = self.root.after(&act);
                let next = Trust::of_roster(self.origin, act.roster, root)?;
                verify_for(link, &next.policy, demand)?;
                Ok(next)
            }
            _ => Err(BadLink::NotARosterChange),
        }
    }

    fn changed(&self, roster: RosterV1) -> Result<Trust, BadLink> {
        let (trusted, found) = (self.roster.roster_epoch, roster.roster_epoch);
        if found != trusted.next() {
            return Err(BadLink::NotTheNext { trusted, found });
        }
        Ok(Trust::of_roster(self.origin, roster, self.root)?)
    }
}

#[cfg(test)]
pub(crate) mod tests;
