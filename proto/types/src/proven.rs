//! An event that is believed: its receipt was verified, or it does not exist as this type.
//!
//! ```text
//!   receipt + trust policy ──ProvenEvent::of──▶ ProvenEvent ──▶ a core may act on it
//! ```
//!
//! Sentinel and actuator obey no node: what moves them on (a latch, a stored attempt, the end
//! of a stop) is a leaf that a majority of the roster's nodes vouches for (DESIGN D4). Negative
//! facts and freezes need the nodes alone; positive markers, and what opens a freeze or changes
//! whom one believes, need the policy's whole quorum.
//!
//! That a leaf stands in the journal does not say what came after it.

use crate::checkpoint::Origin;
use crate::codec::{Canonical, NotCanonical};
use crate::event::Event;
use crate::policy::{Demand, Policy};
use crate::receipt::{self, Receipt, ReceiptError};

/// Why a receipt proves no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotProven {
    /// The leaf is the encoding of no event that this build knows.
    #[error("the leaf is no event: {0}")]
    NotAnEvent(#[from] NotCanonical),
    /// The receipt does not hold under the policy.
    #[error(transparent)]
    Receipt(#[from] ReceiptError),
}

/// An event of the journal with its place. Only [`ProvenEvent::of`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenEvent {
    event: Event,
    origin: Origin,
    index: u64,
}

impl ProvenEvent {
    /// Verifies a receipt under the group that its kind of event needs.
    ///
    /// # Errors
    /// [`NotProven`] if the leaf is no event or the receipt does not hold.
    pub fn of(receipt: &Receipt, policy: &Policy) -> Result<ProvenEvent, NotProven> {
        let event = Event::from_canonical(&receipt.leaf)?;
        let demand = if event.is_positive_marker() || event.widens_trust() {
            Demand::Quorum
        } else {
            Demand::Nodes
        };
        let verified = receipt::verify_for(receipt, policy, demand)?;
        Ok(ProvenEvent {
            event,
            origin: verified.origin,
            index: verified.index,
        })
    }

    /// What happened.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// In which journal.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Zero-based position of the leaf.
    pub fn index(&self) -> u64 {
        self.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::StateRootV1;
    use crate::ids::{GroundNumber, RosterEpoch, TickNumber};
    use crate::merkle::leaf_hash;
    use crate::policy::fixtures::Organism;
    use crate::receipt::TlogProof;

    #[test]
    fn what_opens_or_widens_needs_the_witnesses_and_what_stops_does_not() {
        let organism = Organism::production();
        let proven = |event: &Event, witnesses: &[usize]| {
            let leaf = event.to_canonical();
            let checkpoint = organism.checkpoint(1, leaf_hash(&leaf));
            let proof = TlogProof {
                index: 0,
                hashes: Vec::new(),
                head: organism.head(&checkpoint, &[0, 1], witnesses),
            };
            ProvenEvent::of(&Receipt { leaf, proof }, &organism.policy()).is_ok()
        };
        let reset = Event::GroundsReset(vec![GroundNumber(1)]);
        assert!(!proven(&reset, &[]) && !proven(&reset, &[0, 1]));
        assert!(proven(&reset, &[0, 1, 2]));
        let subject = |revoked| crate::records::ClientIdentityV1 {
            subject_id: "deputy".parse().unwrap(),
            actor_kind: crate::records::ActorKind::Operator,
            public_key: crate::SigningKey::from_seed([1; 32]).public_key(),
            app_host_identity: crate::records::Text::default(),
            enrollment_evidence: crate::Digest::ZERO,
            scopes: Vec::new(),
            issuer: "governor".parse().unwrap(),
            created_at: 1,
            revoked_at_optional: revoked,
            person_optional: None,
        };
        let changed = |revoked| Event::SubjectChanged(Box::new(subject(revoked)));
        assert!(!proven(&changed(None), &[0, 1]) && proven(&changed(None), &[0, 1, 2]));
        assert!(
            proven(&changed(Some(2)), &[]),
            "a revocation waits for nobody"
        );
        let root = StateRootV1 {
            authority_digest: crate::Digest::ZERO,
            term: 1,
            index: 1,
            roster_epoch: RosterEpoch(1),
            size: 0,
        };
        for event in [
            Event::Ticked(TickNumber(1), 1, Vec::new()),
            Event::StateRoot(root),
        ] {
            assert!(proven(&event, &[]), "{}", event.word());
        }
    }
}
