//! REDs in force: what was said stands until the proven reset of its ground (DESIGN §6).
//!
//! ```text
//!   RED chained ─▶ stands ──latch, proven──▶ on ground g ──acknowledged──▶ over, and still stands
//!                                                 GroundsReset naming g, proven ─▶ gone
//! ```
//!
//! The ground is the only way out: not the end of the stop, not another ground's reset, and no
//! word of a person. A RED whose latch is not proven has no ground, so no reset can end it.

use redlatch_types::mandate::covers;
use redlatch_types::records::{RedScope, SovereignActionIntentV1};
use redlatch_types::{GroundNumber, OutboxEpoch};

use super::request::stops;
use super::{Health, Outbox, StandingV1};

/// REDs in force that are kept apart for judging; with more of them everything is stopped.
pub const STANDING_MAX: usize = 256;
/// REDs in force that are remembered. One more becomes a RED of scope everything without a
/// ground, which no reset ends: only a new sentinel, by the root, starts afresh.
pub const STANDING_KEPT_MAX: usize = 2 * STANDING_MAX;

/// What the judge must know of the outbox.
#[derive(Debug, Clone, Copy)]
pub struct Posture<'a> {
    /// Whether GREEN may be stated at all.
    pub health: Health,
    /// REDs in force.
    pub standing: &'a [StandingV1],
}

impl<'a> Posture<'a> {
    /// Whether a RED stands over `intent`, those on the grounds `named` left aside.
    pub fn covers(&self, intent: &SovereignActionIntentV1, named: &[GroundNumber]) -> bool {
        let mut others = 0;
        let covered = self
            .standing
            .iter()
            .filter(|it| !is_on(it, named))
            .any(|it| {
                others += 1;
                covers(&it.scope, intent)
            });
        covered || others > STANDING_MAX
    }

    /// Whether a RED stands that stops everything one on `asked` would.
    pub fn stops(&self, asked: &RedScope) -> bool {
        let is_wide = self.standing.len() > STANDING_MAX;
        is_wide || self.standing.iter().any(|it| stops(&it.scope, asked))
    }

    /// The REDs on these grounds.
    pub fn on(&self, named: &'a [GroundNumber]) -> impl Iterator<Item = &'a StandingV1> {
        self.standing.iter().filter(|it| is_on(it, named))
    }
}

fn is_on(standing: &StandingV1, named: &[GroundNumber]) -> bool {
    standing
        .ground
        .is_some_and(|ground| named.contains(&ground))
}

impl Outbox {
    /// From here on it stands.
    pub(super) fn stand(&mut self, number: OutboxEpoch, scope: RedScope) {
        let standing = &mut self.state.standing;
        let mut red = StandingV1 {
            number,
            scope,
            ground: None,
            is_over: false,
        };
        if standing.len() >= STANDING_KEPT_MAX {
            standing.pop();
            // No entry has this number, so no latch ever gives it a ground.
            red.number = OutboxEpoch(0);
            red.scope = RedScope::Everything;
        }
        standing.push(red);
    }

    /// A proven latch says on which ground it stands.
    pub(super) fn stands_on(&mut self, number: OutboxEpoch, ground: GroundNumber) {
        if let Some(standing) = self.standing_mut(number) {
            standing.ground = Some(ground);
        }
    }

    /// Its stop is complete. It stands on.
    pub(super) fn is_over(&mut self, number: OutboxEpoch) {
        if let Some(standing) = self.standing_mut(number) {
            standing.is_over = true;
        }
    }

    /// A proven reset ends what stands on its grounds, and nothing else.
    pub(super) fn reset(&mut self, grounds: &[GroundNumber]) {
        let before = self.state.standing.len();
        self.state.standing.retain(|it| !is_on(it, grounds));
        if self.state.standing.len() != before {
            self.touch(None);
        }
    }

    /// In force until a reset, however long ago it was closed.
    pub(super) fn states_everything(&self) -> bool {
        let everything = |it: &StandingV1| it.scope == RedScope::Everything;
        self.state.standing.iter().any(everything)
    }

    fn standing_mut(&mut self, number: OutboxEpoch) -> Option<&mut StandingV1> {
        self.state
            .standing
            .iter_mut()
            .find(|it| it.number == number)
    }
}
