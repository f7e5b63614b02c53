//! Acts of the offline root and of nodes that need no decision (DESIGN §6, §9, D9).

use minicbor::{Decode, Encode};

use super::base::Text;
use super::governance::SafetyKernelV1;
use super::roster::RosterV1;
use crate::bytes::{Digest, PublicKey};
use crate::ids::{NodeId, RosterEpoch};

/// The offline root replaces pins of the kernel: a lost sentinel, actuator or root, builds.
/// It raises the organism epoch, leaves everything frozen and grants nothing. Signed by the
/// root in force.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct RootActV1 {
    /// Number, from 1 without gaps.
    #[n(0)]
    pub number: u64,
    /// Digest of the kernel that it replaces.
    #[n(1)]
    pub previous_kernel_digest: Digest,
    /// The kernel to be in force.
    #[n(2)]
    pub kernel: SafetyKernelV1,
    /// The roster to be in force: the parties behind the new pins, and any node or verifier
    /// that is replaced.
    #[n(3)]
    pub roster: RosterV1,
    /// Last known root of the old sentinel's chain, if the sentinel is replaced.
    #[n(4)]
    pub old_outbox_root_optional: Option<Digest>,
    /// Why, for people.
    #[n(5)]
    pub reason: Text,
}

impl RootActV1 {
    /// Whether it replaces the sentinel, and so begins another chain of REDs. The journal takes no act of which
    /// this is not true exactly if it names another key.
    pub fn replaces_sentinel(&self) -> bool {
        self.old_outbox_root_optional.is_some()
    }
}

/// A node says which feature level its build supports. Signed with its record key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct FeatureSupportV1 {
    /// The node.
    #[n(0)]
    pub node_id: NodeId,
    /// Roster in force.
    #[n(1)]
    pub roster_epoch: RosterEpoch,
    /// The level.
    #[n(2)]
    pub feature_level: u64,
}

/// A node that lost its disk comes back as a learner, under the same key (D9). Signed with its
/// record key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct RejoinV1 {
    /// The node.
    #[n(0)]
    pub node_id: NodeId,
    /// Roster in force.
    #[n(1)]
    pub roster_epoch: RosterEpoch,
    /// Its incarnation, greater than any its peers have seen.
    #[n(2)]
    pub incarnation: u64,
    /// Its record key, which signs this.
    #[n(3)]
    pub record_key: PublicKey,
}
