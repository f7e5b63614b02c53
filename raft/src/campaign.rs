//! Breaks ties between candidates.
//!
//! openraft draws its election timeout once a boot and looks at it at a fixed tick. Two nodes that started
//! together and lose their leader together would campaign at the same tick again and again, each voting for
//! itself. Here each node sits out half of its ticks, by a pattern of its own; nothing else of Raft changes,
//! and a node that sits out still votes. A node without a vote does not campaign at all.

use std::sync::Arc;
use std::time::Duration;

use redlatch_link::world;
use redlatch_types::Digest;

use crate::config::{Raft, Timing};
use crate::engine::Engine;
use crate::shared::Shared;

/// Lets this node campaign, or not, tick by tick until openraft stops.
pub(crate) async fn take_turns<E: Engine>(shared: Arc<Shared<E>>, raft: Raft, timing: Timing) {
    let (own, incarnation) = (shared.own, shared.memory.incarnation());
    // The length of openraft's own tick.
    let tick = Duration::from_millis(timing.heartbeat_ms * 3 / 2);
    let metrics = raft.metrics();
    for count in 0_u64.. {
        if metrics.borrow().running_state.is_err() {
            return;
        }
        raft.runtime_config()
            .elect(shared.may_vote() && may_campaign(own, incarnation, count));
        world::sleep(tick).await;
    }
}

/// A fair coin that needs no randomness: two nodes differ in half of all ticks.
fn may_campaign(own: u64, incarnation: u64, count: u64) -> bool {
    let parts = [own, incarnation, count].map(u64::to_be_bytes);
    let digest = Digest::of_parts(&[b"campaign", &parts[0], &parts[1], &parts[2]]);
    digest.0[0] & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_any_two_nodes_one_soon_campaigns_alone() {
        for (one, other) in [(1, 2), (1, 3), (2, 3), (4, 5)] {
            for begin in 0..200 {
                let alone = (begin..begin + 16)
                    .any(|count| may_campaign(one, 1, count) != may_campaign(other, 1, count));
                assert!(alone, "nodes {one} and {other} from tick {begin}");
            }
        }
    }

    #[test]
    fn a_lonely_candidate_soon_may() {
        for own in 1..=5 {
            let longest = (0..1_000_u64)
                .map(|count| {
                    (count..)
                        .take_while(|at| !may_campaign(own, 1, *at))
                        .count()
                })
                .max();
            assert!(longest < Some(16), "node {own} waits {longest:?} ticks");
        }
    }
}
