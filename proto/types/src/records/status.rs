//! The signed status: what a node vouches for at a read point (DESIGN §8).

use std::fmt;

use minicbor::{Decode, Encode};

use super::base::{Mode, words};
use crate::bytes::Digest;
use crate::ids::{
    AutonomyEpoch, ConstitutionEpoch, IntentDigest, KeyEpoch, LatchNumber, MarkerNumber, NodeId,
    RosterEpoch, TickNumber,
};

words! {
    /// Whether anything positive may happen in the scope asked for.
    ScopeState {
        /// Nothing is latched, frozen or held here, as of the read point.
        1 Free "free",
        /// A RED is latched in it.
        2 Latched "latched",
        /// It is frozen.
        3 Frozen "frozen",
        /// The node holds a RED that is not latched yet.
        4 RedHeld "red_held",
    }
}

words! {
    /// What became of the effect asked about.
    EffectState {
        /// No effect was asked about.
        1 NotAsked "not_asked",
        /// Committed, in time, not finished: the effect may be made.
        2 Outstanding "outstanding",
        /// Anything else: it must not be made.
        3 NotOutstanding "not_outstanding",
    }
}

/// One node's statement, signed with its record key, fresh by the asker's nonce.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct StatusV1 {
    /// Who answers.
    #[n(0)]
    pub node_id: NodeId,
    /// The asker's nonce.
    #[n(1)]
    pub nonce: Digest,
    /// The intent asked about.
    #[n(2)]
    pub intent_digest_optional: Option<IntentDigest>,
    /// State of its scope, or of everything if none was asked about.
    #[n(3)]
    pub scope: ScopeState,
    /// State of its effect.
    #[n(4)]
    pub effect: EffectState,
    /// Marker of that effect; 0 if there is none.
    #[n(5)]
    pub marker: MarkerNumber,
    /// Mode in force.
    #[n(6)]
    pub active_mode: Mode,
    /// Autonomy epoch in force.
    #[n(7)]
    pub autonomy_epoch: AutonomyEpoch,
    /// Constitution version in force.
    #[n(8)]
    pub constitution_epoch: ConstitutionEpoch,
    /// Roster in force.
    #[n(9)]
    pub roster_epoch: RosterEpoch,
    /// Quorum key in force; 0 if none.
    #[n(10)]
    pub quorum_key_epoch: KeyEpoch,
    /// Highest latch number; 0 if there is none.
    #[n(11)]
    pub latch_epoch: LatchNumber,
    /// History.
    #[n(12)]
    pub history: u64,
    /// Leaves in the tree at the read point.
    #[n(13)]
    pub tree_size: u64,
    /// Last tick.
    #[n(14)]
    pub tick: TickNumber,
    /// State time.
    #[n(15)]
    pub state_time: u64,
}
