//! The roster: who the fixed parties are, with their keys and failure domains (D9).

use minicbor::{Decode, Encode};

use super::base::words;
use super::governance::VerifierSeat;
use crate::bytes::{Digest, PublicKey};
use crate::ids::{FailureDomain, Name, NodeId, RosterEpoch, VerifierId};
use std::fmt;

words! {
    /// Whether a node counts for majorities.
    Seat {
        /// Counts for cosigning, clocks, status and policies.
        1 Voter "voter",
        /// Receives the journal and counts for nothing.
        2 Learner "learner",
    }
}

/// A node and its three keys (D4).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct RosterNode {
    /// Number, also openraft's.
    #[n(0)]
    pub node_id: NodeId,
    /// Name in certificates and in the trust policy.
    #[n(1)]
    pub name: Name,
    /// Whether it counts.
    #[n(2)]
    pub seat: Seat,
    /// Signs checkpoints as log; its vkey's name is the origin.
    #[n(3)]
    pub log_key: PublicKey,
    /// Cosigns heads (C2SP cosignature, type 0x04).
    #[n(4)]
    pub cosigner_key: PublicKey,
    /// Signs status, clock readings and the peer table.
    #[n(5)]
    pub record_key: PublicKey,
}

/// A voting verifier.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct RosterVerifier {
    /// Name.
    #[n(0)]
    pub verifier_id: VerifierId,
    /// FROST identifier (RFC 9591 §3.1), 1 to 4, never 0.
    #[n(1)]
    pub identifier: u16,
    /// Whom it could fail together with.
    #[n(2)]
    pub failure_domain: FailureDomain,
    /// Signs votes and key confirmations.
    #[n(3)]
    pub vote_key: PublicKey,
    /// Cosigns heads as a witness.
    #[n(4)]
    pub witness_key: PublicKey,
    /// Digest of the list of builds it may run.
    #[n(5)]
    pub builds_digest: Digest,
    /// Digest of its policy.
    #[n(6)]
    pub policy_digest: Digest,
}

/// A pinned party: sentinel or actuator.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct PinnedParty {
    /// Name in certificates.
    #[n(0)]
    pub name: Name,
    /// Its signing key.
    #[n(1)]
    pub key: PublicKey,
    /// Digest of the list of builds it may run.
    #[n(2)]
    pub builds_digest: Digest,
    /// Digest of its policy.
    #[n(3)]
    pub policy_digest: Digest,
}

impl PinnedParty {
    /// The `…_identity_key_binary_policy_digest` of SPEC: one digest over all four pins.
    pub fn pin_digest(&self) -> Digest {
        use crate::codec::Canonical;
        Digest::of(&self.to_canonical())
    }
}

/// The roster in force.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct RosterV1 {
    /// Version.
    #[n(0)]
    pub roster_epoch: RosterEpoch,
    /// Nodes, ascending by number.
    #[n(1)]
    pub nodes: Vec<RosterNode>,
    /// The four verifiers, ascending by FROST identifier.
    #[n(2)]
    pub verifiers: Vec<RosterVerifier>,
    /// The one sentinel.
    #[n(3)]
    pub sentinel: PinnedParty,
    /// The one actuator.
    #[n(4)]
    pub actuator: PinnedParty,
}

impl RosterV1 {
    /// The nodes that count.
    pub fn voters(&self) -> impl Iterator<Item = &RosterNode> {
        self.nodes.iter().filter(|n| n.seat == Seat::Voter)
    }

    /// The smallest number of voters that is more than half of them.
    pub fn majority(&self) -> usize {
        self.voters().count() / 2 + 1
    }

    /// The voting seats of its verifiers, ascending by name.
    pub fn verifier_seats(&self) -> Vec<VerifierSeat> {
        let seat = |verifier: &RosterVerifier| VerifierSeat {
            verifier_id: verifier.verifier_id.clone(),
            failure_domain: verifier.failure_domain.clone(),
        };
        let mut seats: Vec<VerifierSeat> = self.verifiers.iter().map(seat).collect();
        seats.sort();
        seats
    }

    /// The node of that number.
    pub fn node(&self, id: NodeId) -> Option<&RosterNode> {
        self.nodes.iter().find(|n| n.node_id == id)
    }

    /// The voter that signs records with `key`.
    pub fn voter_by_record_key(&self, key: &PublicKey) -> Option<&RosterNode> {
        self.voters().find(|n| n.record_key == *key)
    }

    /// The verifier that votes with `key`.
    pub fn verifier_by_vote_key(&self, key: &PublicKey) -> Option<&RosterVerifier> {
        self.verifiers.iter().find(|v| v.vote_key == *key)
    }

    /// The verifier of that name.
    pub fn verifier(&self, id: &VerifierId) -> Option<&RosterVerifier> {
        self.verifiers.iter().find(|v| v.verifier_id == *id)
    }
}
