//! Every roster from the genesis to the last one that is proven, with the links between them (DESIGN D4).
//!
//! ```text
//!   genesis ─▶ roster 1 ─link─▶ roster 2 ─link─▶ … ─link─▶ the last one proven
//!              links that anybody shows: known already · the next · neither (refused) · a second one (a fork)
//! ```
//!
//! Whoever trusts a genesis keeps this: clients, gates and `redlatch trust-policy update`. It only grows, so a
//! shorter chain, an old one or one of another journal changes nothing. Two proven changes of one roster are
//! two histories: nothing is believed beyond them.
//!
//! What a single link must meet is [`crate::chain`]'s matter. That a lineage ends where the journal is now
//! does not follow from it: that says only a fresh status.

use thiserror::Error;

use crate::chain::{BadLink, Trust};
use crate::codec::Canonical;
use crate::event::Event;
use crate::ids::RosterEpoch;
use crate::policy::{Demand, Policy, PolicyError};
use crate::receipt::Receipt;
use crate::records::{GenesisV1, RosterV1};
use crate::sign::Scope;

/// Why a link is not taken in. The lineage is as it was.
#[derive(Debug, Error)]
pub enum RefusedLink {
    /// It does not lead on from the roster that it must follow.
    #[error("the link after roster {after} does not hold: {why}")]
    Broken {
        /// The roster before it.
        after: RosterEpoch,
        /// What is wrong.
        why: BadLink,
    },
    /// Another change of the same roster is proven as well.
    #[error("roster {0} was changed in two ways and both are proven: these are two histories")]
    Forked(RosterEpoch),
}

/// Why a trust policy says nothing here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StrangePolicy {
    /// It is for another journal, or another history of this one.
    #[error("the trust policy is for {policy}, the rosters are of {rosters}")]
    OtherJournal {
        /// Whose heads the policy judges.
        policy: Box<str>,
        /// Whose rosters are known.
        rosters: Box<str>,
    },
    /// Its keys are those of none of the rosters: it is later than what is proven, or foreign.
    #[error("the trust policy's keys are those of no roster up to {0}")]
    OtherKeys(RosterEpoch),
    /// The roster makes no policy.
    #[error("no policy can be made of the roster: {0}")]
    Policy(#[from] PolicyError),
}

/// What a link was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Known before.
    Known,
    /// The next one.
    Next,
}

/// The rosters from the genesis on, each proven by the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// What is trusted after so many links.
    rosters: Vec<Trust>,
    links: Vec<Receipt>,
    last: Trust,
}

impl From<Trust> for Lineage {
    /// The lineage of what is trusted alone.
    fn from(first: Trust) -> Lineage {
        Lineage {
            rosters: Vec::new(),
            links: Vec::new(),
            last: first,
        }
    }
}

impl Lineage {
    /// The genesis' roster alone.
    ///
    /// # Errors
    /// [`PolicyError`] if that roster makes no policy.
    pub fn of_genesis(genesis: &GenesisV1, history: u64) -> Result<Lineage, PolicyError> {
        Ok(Lineage::from(Trust::of_genesis(genesis, history)?))
    }

    /// The last roster that is proven.
    pub fn roster(&self) -> &RosterV1 {
        self.last.roster()
    }

    /// The organism and the epoch that the last act of the root has led to.
    pub fn scope(&self) -> Scope {
        self.last.scope()
    }

    /// Its version.
    pub fn epoch(&self) -> RosterEpoch {
        self.roster().roster_epoch
    }

    /// The links, in order: the first one leads on from the genesis.
    pub fn links(&self) -> &[Receipt] {
        &self.links
    }

    /// Takes in a link that somebody shows, if it is proven under the whole policy of the roster before.
    ///
    /// # Errors
    /// [`RefusedLink`].
    pub fn take(&mut self, link: &Receipt) -> Result<Step, RefusedLink> {
        if let Some(known) = self.known(link) {
            return self.again(known, link);
        }
        let after = self.epoch();
        let next = self.last.follow(link, Demand::Quorum);
        let next = next.map_err(|why| RefusedLink::Broken { after, why })?;
        self.rosters.push(std::mem::replace(&mut self.last, next));
        self.links.push(link.clone());
        Ok(Step::Next)
    }

    /// A link to a version that is known: the same change, whatever head proves it now, or a second one.
    fn again(&self, known: usize, link: &Receipt) -> Result<Step, RefusedLink> {
        if self.links[known].leaf == link.leaf {
            return Ok(Step::Known);
        }
        let (before, after) = (&self.rosters[known], self.rosters.get(known + 1));
        let epoch = before.roster().roster_epoch;
        match before.follow(link, Demand::Quorum) {
            Ok(other) if other == *after.unwrap_or(&self.last) => Ok(Step::Known),
            Ok(_) => Err(RefusedLink::Forked(epoch)),
            Err(why) => Err(RefusedLink::Broken { after: epoch, why }),
        }
    }

    /// The place of the known link that leads to the same version.
    fn known(&self, link: &Receipt) -> Option<usize> {
        let event = Event::from_canonical(&link.leaf).ok()?;
        let epoch = event.roster()?.roster_epoch;
        let first = self.rosters.first()?.roster().roster_epoch.next();
        let place = usize::try_from(epoch.0.checked_sub(first.0)?).ok()?;
        (place < self.links.len()).then_some(place)
    }

    /// What receipts must meet now, for whoever was given this policy. Its thresholds count as long as its
    /// keys are those of the last roster; the policy of an earlier one is an old word, and what the last
    /// roster asks for counts.
    ///
    /// # Errors
    /// [`StrangePolicy`]: nothing may be verified by it.
    pub fn policy(&self, given: &Policy) -> Result<Policy, StrangePolicy> {
        let own = self.last.policy().origin();
        if given.origin() != own {
            return Err(StrangePolicy::OtherJournal {
                policy: given.origin().to_string().into(),
                rosters: own.to_string().into(),
            });
        }
        if given.is_of(self.roster()) {
            return Ok(given.clone());
        }
        if self.rosters.iter().any(|it| given.is_of(it.roster())) {
            return Ok(given.under(self.roster())?);
        }
        Err(StrangePolicy::OtherKeys(self.epoch()))
    }
}

#[cfg(test)]
mod tests;
