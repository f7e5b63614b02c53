//! Whom a follower believes: the trust policy of the roster in force, as far as the journal was read (DESIGN D4).
//!
//! ```text
//!   configured policy ─▶ roster of the genesis ──proven change──▶ policy of the next roster ─▶ …
//!                                                 └─ kept, so that a restart does not need the nodes before
//! ```
//!
//! A change that is not proven under the roster before it changes nothing. The one exception is an act of
//! the root, which may name new nodes in the place of those that are gone: it needs the signature of the root
//! in force, and then the receipt of the nodes that it names.
//!
//! A policy whose keys are not the genesis' says that the operator already trusts a later roster: it is
//! used until the roster that was followed is the one it is of.

use minicbor::{Decode, Encode};
use redlatch_types::event::Event;
use redlatch_types::in_force::{InForceV1, NotTaken, Taken};
use redlatch_types::policy::{Policy, PolicyError};
use redlatch_types::proven::{NotProven, ProvenEvent};
use redlatch_types::receipt::Receipt;
use redlatch_types::records::GenesisV1;
use redlatch_types::{Canonical, Scope};

/// What a follower keeps of it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TrustV1 {
    /// What is in force.
    #[n(0)]
    pub in_force: InForceV1,
    /// The configured policy is of a roster that was not reached yet.
    #[n(1)]
    pub is_ahead: bool,
}

/// What is in force, and whose receipts are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    kept: TrustV1,
    policy: Policy,
}

/// Why a proven event does not move the trust. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFollowed {
    /// It does not follow.
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
    /// The roster makes no policy.
    #[error("its roster makes no trust policy: {0}")]
    NoPolicy(#[from] PolicyError),
}

impl Trust {
    /// The trust of a process that starts, from what it is told and what it has kept.
    ///
    /// # Errors
    /// [`PolicyError`] if the roster that was kept makes no policy.
    pub fn resume(
        configured: Policy,
        genesis: &GenesisV1,
        kept: Option<TrustV1>,
    ) -> Result<Trust, PolicyError> {
        let kept = kept.unwrap_or_else(|| TrustV1 {
            in_force: InForceV1::of_genesis(genesis),
            is_ahead: !configured.is_of(&genesis.roster),
        });
        let roster = &kept.in_force.roster;
        // It may ask for more than a majority; but once the roster is another, it is an old word.
        let policy = if kept.is_ahead || configured.is_of(roster) {
            configured
        } else {
            configured.under(roster)?
        };
        Ok(Trust { kept, policy })
    }

    /// What receipts must meet.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What is in force.
    pub fn in_force(&self) -> &InForceV1 {
        &self.kept.in_force
    }

    /// Organism and its epoch.
    pub fn scope(&self) -> Scope {
        self.kept.in_force.scope
    }

    /// What is to be kept.
    pub fn kept(&self) -> &TrustV1 {
        &self.kept
    }

    /// The event of a receipt, if it is proven to this trust.
    ///
    /// # Errors
    /// [`NotProven`].
    pub fn prove(&self, receipt: &Receipt) -> Result<ProvenEvent, NotProven> {
        let refused = match ProvenEvent::of(receipt, &self.policy) {
            Ok(proven) => return Ok(proven),
            Err(refused) => refused,
        };
        match Event::from_canonical(&receipt.leaf) {
            Ok(Event::RootActed(act, _, envelope))
                if self.in_force().check_root_act(&act, &envelope).is_ok() =>
            {
                let after = self.policy.under(&act.roster);
                after.map_or(Err(refused), |policy| ProvenEvent::of(receipt, &policy))
            }
            _ => Err(refused),
        }
    }

    /// Takes in a proven event.
    ///
    /// # Errors
    /// [`NotFollowed`].
    pub fn take(&mut self, proven: &ProvenEvent) -> Result<Taken, NotFollowed> {
        let mut next = self.kept.clone();
        let taken = next.in_force.take(proven)?;
        if matches!(taken, Taken::Roster | Taken::Root) {
            let roster = &next.in_force.roster;
            if self.policy.is_of(roster) {
                next.is_ahead = false;
            } else if !next.is_ahead {
                self.policy = self.policy.under(roster)?;
            }
        }
        self.kept = next;
        Ok(taken)
    }
}
