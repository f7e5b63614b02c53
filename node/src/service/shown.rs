//! What a node shows to people about itself, and on request what its state comes to.
//!
//! ```text
//!   place, metrics ─────────────────────────────────────────────────────▶ shown
//!   state ─▶ copied under its lock ─▶ lock given back ─▶ bytes ─▶ SHA-256 ──▲   one at a time, seldom
//! ```
//!
//! Asks for no read point, and says nothing about *free*.

use std::sync::Arc;
use std::time::Duration;

use redlatch_journal::Authority;
use redlatch_link::build_id;
use redlatch_link::world::{self, Monotonic};
use redlatch_proto::v1;
use redlatch_raft::engine::Engine;
use redlatch_raft::membership::Step;
use redlatch_raft::node::RaftRole;
use redlatch_types::NodeId;
use redlatch_types::records::OrganismKind;
use tokio::sync::Mutex;

use super::Desk;
use crate::view;

/// The state is copied for at most one part in so many of the time, however often it is asked for.
const REST: u32 = 20;

/// What the state came to when it was worked out last. Whoever works it out holds it: any number of callers
/// cost one copy at a time, and none while the journal stands still.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastDigest(Arc<Mutex<Option<Taken>>>);

#[derive(Clone, Debug)]
struct Taken {
    digest: v1::StateDigest,
    at: Monotonic,
    copying: Duration,
}

impl Taken {
    /// Whether it is of so many leaves, or too young to be taken again. It says itself of how many it is.
    fn will_do(&self, size: u64) -> bool {
        self.digest.tree_size == size || self.at.elapsed() < self.copying * REST
    }
}

/// Everything that was asked for.
pub(super) async fn cluster<E: Engine>(
    desk: &Arc<Desk<E>>,
    request: v1::ClusterRequest,
) -> v1::ClusterResponse {
    let state_digest = match request.state_digest {
        true => Some(state_digest(desk).await),
        false => None,
    };
    v1::ClusterResponse {
        state_digest,
        ..shown(desk)
    }
}

async fn state_digest<E: Engine>(desk: &Arc<Desk<E>>) -> v1::StateDigest {
    let mut last = Arc::clone(&desk.last_digest.0).lock_owned().await;
    let size = desk.raft.read(|state| state.log.frontier.size());
    if let Some(taken) = last.as_ref().filter(|taken| taken.will_do(size)) {
        return taken.digest.clone();
    }
    let desk = Arc::clone(desk);
    world::blocking(move || {
        let at = Monotonic::now();
        // The state is applied to under the same lock: applying waits for a copy, and not for its digest.
        let (mut authority, tree_size) = desk
            .raft
            .read(|state| (state.authority.clone(), state.log.frontier.size()));
        let copying = at.elapsed();
        // Of the last entry only; leaves do not say where entries end, and a snapshot holds nothing of it.
        authority.stepped.clear();
        let digest = v1::StateDigest {
            digest: authority.digest().0.to_vec(),
            tree_size,
        };
        *last = Some(Taken {
            digest: digest.clone(),
            at,
            copying,
        });
        digest
    })
    .await
}

fn shown<E: Engine>(desk: &Desk<E>) -> v1::ClusterResponse {
    let metrics = desk.raft.metrics();
    let own = metrics.node_id;
    let name = |id: NodeId| desk.name_of(id).unwrap_or_default();
    let shown = v1::ClusterResponse {
        node: name(own),
        node_id: own.0,
        role: role(metrics.role).to_owned(),
        leader: metrics.leader.map(name).unwrap_or_default(),
        term: metrics.term,
        last_log: metrics.last_log_index.unwrap_or(0),
        applied: metrics.place.entry.map_or(0, |entry| entry.index),
        tree_size: metrics.place.size,
        cosigned_size: metrics.cosigned_size,
        state_time_ms: metrics.place.state_time_ms,
        clock_ms: desk.clock.now_ms(),
        clock_fit: desk.clock.is_fit(),
        degraded: desk
            .raft
            .fork()
            .map(|fork| fork.to_string())
            .unwrap_or_default(),
        held_reds: u64::try_from(desk.held.len()).unwrap_or(u64::MAX),
        build_id: build_id::build_id().to_owned(),
        standing: metrics.standing.word().to_owned(),
        membership: metrics
            .step
            .filter(|step| *step != Step::Followed)
            .map(|step| step.to_string())
            .unwrap_or_default(),
        ..v1::ClusterResponse::default()
    };
    desk.raft.read(|state| with_state(shown, &state.authority))
}

fn with_state(mut shown: v1::ClusterResponse, authority: &Authority) -> v1::ClusterResponse {
    let count = |len: usize| u64::try_from(len).unwrap_or(u64::MAX);
    shown.stops = view::stops_for_people(authority);
    shown.live_intents = count(authority.intents.len());
    shown.live_transactions = count(authority.transactions.len());
    if let Some(governance) = &authority.governance {
        shown.organism = governance.organism_id.0.0.to_vec();
        shown.organism_epoch = governance.organism_epoch;
        shown.development = governance.kind == OrganismKind::Development;
        shown.active_mode = governance.epoch.active_mode.to_string();
        shown.autonomy_epoch = governance.epoch.autonomy_epoch.0;
        shown.quorum_key_epoch = governance.quorum_key.as_ref().map_or(0, |key| key.epoch.0);
        shown.roster_epoch = governance.roster.roster_epoch.0;
        shown.constitution_epoch = governance.constitution.constitution_epoch.0;
        shown.feature_level = governance.feature_level;
    }
    shown
}

fn role(role: RaftRole) -> &'static str {
    match role {
        RaftRole::Learner => "learner",
        RaftRole::Follower => "follower",
        RaftRole::Candidate => "candidate",
        RaftRole::Leader => "leader",
        RaftRole::Stopped => "stopped",
    }
}
