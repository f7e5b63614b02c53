//! What was read, compared with what a majority vouches for: whether something was left out, and where.
//!
//! ```text
//!   fresh statuses of a majority ─▶ ReadPoint ─┬─ more leaves than were read          ─▶ Behind: read on
//!                                              ├─ more in force than was followed     ─▶ LeftOut: read again
//!                                              ├─ more latches than are proven        ─▶ LeftOut: read again
//!                                              └─ neither                             ─▶ Level
//! ```
//!
//! A majority holds every committed leaf, so whoever is level with one had nothing hidden from it that this
//! compares. One node that overstates keeps a reader from being level and makes it read again: it opens nothing.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use redlatch_types::in_force::InForceV1;
use redlatch_types::records::{RosterV1, StatusV1};
use redlatch_types::{
    AutonomyEpoch, ConstitutionEpoch, Digest, KeyEpoch, LatchNumber, RosterEpoch,
};

use super::Follower;
use crate::nodes::{CallError, Nodes};
use crate::world::Monotonic;

/// How long a read point is kept that was not reached yet. One node may have made it up.
const AHEAD_KEPT: Duration = Duration::from_secs(10);

/// What a majority of the voters vouches for at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPoint {
    /// Leaves that there are at least.
    pub size: u64,
    /// The highest latch; 0 if there is none.
    pub latches: LatchNumber,
    /// State time that at least one honest node is at (D7).
    pub state_time: u64,
    /// The roster in force there.
    pub roster_epoch: RosterEpoch,
    /// The constitution in force there.
    pub constitution_epoch: ConstitutionEpoch,
    /// The autonomy epoch in force there.
    pub autonomy_epoch: AutonomyEpoch,
    /// The quorum's key in force there; 0 if it has none.
    pub quorum_key_epoch: KeyEpoch,
}

impl ReadPoint {
    /// Where to read again, if more is in force there than what was followed: something was left out.
    pub fn missing_from(&self, known: &InForceV1) -> Option<u64> {
        let key = known.quorum_key.as_ref().map(|it| it.epoch);
        let later = self.roster_epoch > known.roster.roster_epoch
            || self.constitution_epoch > known.constitution.constitution_epoch
            || self.quorum_key_epoch > key.unwrap_or_default();
        let epoch = self.autonomy_epoch > known.autonomy_epoch;
        // The epoch is taken in out of order: what came after the last one may stand before the last change.
        let changes = later.then_some(known.next);
        changes
            .into_iter()
            .chain(epoch.then_some(known.epoch_next))
            .min()
    }
}

/// The latches that a reader has proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvenLatches {
    /// Every latch up to this one.
    pub up_to: LatchNumber,
    /// Where it stands; the beginning, if that is not known.
    pub at: u64,
}

/// How a reader stands to a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There are leaves that it has not read yet, or that are not proven yet.
    Behind,
    /// Something was left out of what it was shown. It reads again, of another node.
    LeftOut,
    /// It has missed nothing that is compared.
    Level,
}

impl Follower {
    /// How far the journal is: as the voters of the roster in force say now, or said a moment ago if that was
    /// not compared with yet. Otherwise a journal that grows all the time would never be reached.
    ///
    /// # Errors
    /// [`CallError::Unavailable`] if there is no majority before the deadline.
    pub async fn read_point(
        &mut self,
        nonce: Digest,
        deadline: Duration,
    ) -> Result<ReadPoint, CallError> {
        if let Some((point, asked)) = self.ahead {
            if asked.elapsed() < AHEAD_KEPT {
                return Ok(point);
            }
            self.ahead = None;
        }
        let roster = &self.trust().in_force().roster;
        read_point(self.nodes(), roster, nonce, deadline).await
    }

    /// Where to pause: a read point that is still ahead is compared with what was read up to it, and no further,
    /// because it says nothing of later leaves. Nobody has to compare: the next round goes on.
    pub(super) fn pause(&mut self) -> Option<u64> {
        let ahead = self
            .ahead
            .filter(|(point, asked)| point.size > self.position() && asked.elapsed() < AHEAD_KEPT);
        self.ahead = ahead;
        ahead.map(|(point, _)| point.size)
    }

    /// Whether a read point was just reached that was ahead.
    pub fn has_reached(&self) -> bool {
        self.ahead
            .is_some_and(|(point, _)| point.size == self.position())
    }

    /// Compares what was read with a read point; `latches` of those that follow them. What was left out is read
    /// again.
    pub fn compare(&mut self, point: &ReadPoint, latches: Option<ProvenLatches>) -> Standing {
        if self.position() < point.size {
            self.ahead = self.ahead.or_else(|| Some((*point, Monotonic::now())));
            return Standing::Behind;
        }
        self.ahead = None;
        let hidden = latches.filter(|proven| proven.up_to < point.latches);
        let missing = point.missing_from(self.trust().in_force());
        if missing.is_some() && self.awaits_change() {
            return Standing::Behind;
        }
        match missing.or(hidden.map(|proven| proven.at)) {
            Some(from) => {
                self.reread(from);
                Standing::LeftOut
            }
            None => Standing::Level,
        }
    }
}

/// Asks every voter for a fresh signed status until a majority has answered.
///
/// # Errors
/// [`CallError::Unavailable`] if there is no majority before the deadline.
pub async fn read_point(
    nodes: &Nodes,
    roster: &RosterV1,
    nonce: Digest,
    deadline: Duration,
) -> Result<ReadPoint, CallError> {
    let mut asked: FuturesUnordered<_> = roster
        .voters()
        .map(|voter| nodes.status(voter.name.as_str(), nonce, None, deadline))
        .collect();
    let mut statuses = Vec::new();
    let mut failure = CallError::Unavailable("no node of the roster has an address".to_owned());
    while let Some(answer) = asked.next().await {
        match answer {
            Ok(status) => statuses.push(status.record().clone()),
            Err(error) => failure = error,
        }
        if statuses.len() >= roster.majority() {
            return Ok(of_majority(&statuses, roster));
        }
    }
    Err(failure)
}

fn of_majority(statuses: &[StatusV1], roster: &RosterV1) -> ReadPoint {
    let mut times: Vec<u64> = statuses.iter().map(|it| it.state_time).collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    let faulty = roster.voters().count().saturating_sub(1) / 2;
    let highest = |of: fn(&StatusV1) -> u64| statuses.iter().map(of).max().unwrap_or(0);
    ReadPoint {
        size: highest(|it| it.tree_size),
        latches: LatchNumber(highest(|it| it.latch_epoch.0)),
        state_time: times.get(faulty).copied().unwrap_or(0),
        roster_epoch: RosterEpoch(highest(|it| it.roster_epoch.0)),
        constitution_epoch: ConstitutionEpoch(highest(|it| it.constitution_epoch.0)),
        autonomy_epoch: AutonomyEpoch(highest(|it| it.autonomy_epoch.0)),
        quorum_key_epoch: KeyEpoch(highest(|it| it.quorum_key_epoch.0)),
    }
}
