//! Clock readings, from which ticks make state time (DESIGN D7).

use minicbor::{Decode, Encode};

use crate::ids::{NodeId, RosterEpoch, TickNumber};

/// One node's clock, signed with its record key. Names the tick before, so it serves once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct ClockReadingV1 {
    /// Whose clock.
    #[n(0)]
    pub node_id: NodeId,
    /// Roster it reads under.
    #[n(1)]
    pub roster_epoch: RosterEpoch,
    /// The tick before the one this reading is for.
    #[n(2)]
    pub previous_tick: TickNumber,
    /// The node's wall clock, milliseconds since the Unix epoch.
    #[n(3)]
    pub clock_ms: u64,
}
