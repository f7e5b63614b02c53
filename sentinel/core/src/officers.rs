//! Who may order a stop: the enrolled operators and persons, as far as the journal has proven it (DESIGN §6).
//!
//! ```text
//!   genesis ─▶ subjects ──SubjectChanged, proven──▶ enrolled · another key · revoked
//! ```
//!
//! A subject is what the latest proven leaf says of it, in whatever order leaves are shown: an enrolment waits
//! for its witnesses, a revocation does not, and whoever was revoked is not enrolled again by an older leaf.
//! No node is asked when an order comes, so a stop can be ordered with the whole cluster down.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use redlatch_types::event::Event;
use redlatch_types::proven::ProvenEvent;
use redlatch_types::records::{ActorKind, ClientIdentityV1};
use redlatch_types::{PublicKey, SubjectId};

/// A subject and the leaf that says so.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct OfficerV1 {
    /// Position of the leaf; 0, the genesis, for a founding subject.
    #[n(0)]
    pub position: u64,
    /// The subject.
    #[n(1)]
    pub subject: ClientIdentityV1,
}

/// Every subject that is known.
#[derive(Debug, Clone, Default)]
pub struct Officers(BTreeMap<SubjectId, OfficerV1>);

impl Officers {
    /// The subjects of the genesis, and those of whom later leaves were kept.
    pub fn resume(genesis: &[ClientIdentityV1], kept: Vec<OfficerV1>) -> Officers {
        let founding = genesis.iter().map(|subject| OfficerV1 {
            position: 0,
            subject: subject.clone(),
        });
        let mut officers = Officers::default();
        for officer in founding.chain(kept) {
            officers.put(officer);
        }
        officers
    }

    /// Takes in a proven event. What it says that is new is to be kept before the next leaf is read.
    pub fn take(&mut self, proven: &ProvenEvent) -> Option<OfficerV1> {
        let Event::SubjectChanged(subject) = proven.event() else {
            return None;
        };
        let officer = OfficerV1 {
            position: proven.index(),
            subject: (**subject).clone(),
        };
        self.put(officer.clone()).then_some(officer)
    }

    fn put(&mut self, officer: OfficerV1) -> bool {
        let id = &officer.subject.subject_id;
        let known = self.0.get(id).map(|it| it.position);
        let is_later = known.is_none_or(|known| known < officer.position);
        if is_later {
            self.0.insert(id.clone(), officer);
        }
        is_later
    }

    /// Whether the holder of a key may order a stop.
    pub fn may_order(&self, key: &PublicKey) -> bool {
        self.0.values().any(|OfficerV1 { subject, .. }| {
            let kind = matches!(subject.actor_kind, ActorKind::Operator | ActorKind::Human);
            kind && subject.public_key == *key && subject.revoked_at_optional.is_none()
        })
    }
}
