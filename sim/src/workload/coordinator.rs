//! The coordinator and the gate: intents are carried to their marker, and effects are claimed.
//!
//! The coordinator stands in for the driver that runs inside the leader: no role may bring its steps from
//! outside. Its authority is real: GREEN, three votes and the group's signature.

use std::time::Duration;

use redlatch_link::Role;
use redlatch_link::nodes::{Again, Nodes};
use redlatch_link::world as link;
use redlatch_raft::proposer::Class;
use redlatch_types::command::RawCommand;
use redlatch_types::event::Accepted;
use redlatch_types::{Canonical, IntentDigest, MarkerNumber, TransactionId};

use super::{Plan, SUBMIT_DEADLINE, Workload, short};
use crate::oracle::Promised;
use crate::seed::Draws;
use crate::trace::Who;
use crate::world::leader_of;

const STEP_DEADLINE: Duration = Duration::from_secs(5);

/// Carries one intent after the other as far as it gets.
pub(super) async fn live(load: Workload, plan: Plan) {
    let mut draws = load.draws("coordinator");
    let gate = load.nodes(Role::Gate, "gate", None);
    let mut tried = 0;
    while load.goes_on() {
        link::sleep(Duration::from_millis(draws.between(1, plan.pause_ms))).await;
        let frozen = load.frozen();
        // Mostly the oldest that was not tried; now and then one that was.
        let again = usize::try_from(draws.below(tried as u64 + 1)).unwrap_or_default();
        let at = if draws.percent(80) { tried } else { again };
        let Some((_, intent)) = frozen.get(at) else {
            continue;
        };
        tried = tried.max(at + 1);
        if let Some((transaction, marker)) = carry(&load, *intent, &mut draws).await {
            claim(&load, &gate, *intent, transaction, marker).await;
        }
    }
}

/// Authorize, prepare, commit: each proposed after its predecessor was applied (D10).
async fn carry(
    load: &Workload,
    intent: IntentDigest,
    draws: &mut Draws,
) -> Option<(TransactionId, MarkerNumber)> {
    let (_, raft) = leader_of(load.seats.iter())?;
    let organism = &load.stage.organism;
    let command = raft.read(|state| organism.authorization(&state.authority, intent, draws))?;
    let Accepted::Authorized(capability) = step(load, command).await?.0 else {
        return None;
    };
    pause(draws).await;
    let Accepted::Prepared(id) = step(load, RawCommand::Prepare(intent, capability)).await?.0
    else {
        return None;
    };
    pause(draws).await;
    let (Accepted::Committed(marker), position) = step(load, RawCommand::Commit(id)).await? else {
        return None;
    };
    load.stage.note(
        Who::World,
        format_args!("committed {} at {position:?}", short(Some(intent))),
    );
    load.count("committed");
    let at_us = load.stage.now_us();
    load.stage
        .history()
        .promises
        .acknowledge(at_us, Promised::Committed(id), position);
    Some((id, marker))
}

/// Leaves room for a RED between two steps.
async fn pause(draws: &mut Draws) {
    link::sleep(Duration::from_millis(draws.below(60))).await;
}

/// Proposes one step on whichever node leads now; what it led to, and its leaf.
async fn step(load: &Workload, command: RawCommand) -> Option<(Accepted, Option<u64>)> {
    let (_, raft) = leader_of(load.seats.iter())?;
    let proposed = raft
        .propose(Class::Client, command.to_canonical(), STEP_DEADLINE)
        .await
        .ok()?;
    let position = (!proposed.positions.is_empty()).then_some(proposed.positions.start);
    match proposed.outcome.reply {
        Ok(accepted) => Some((accepted, position)),
        Err(refusal) => {
            load.stage
                .note(Who::World, format_args!("a step is refused: {refusal}"));
            load.count("steps refused");
            None
        }
    }
}

async fn claim(
    load: &Workload,
    gate: &Nodes,
    intent: IntentDigest,
    id: TransactionId,
    marker: MarkerNumber,
) {
    let Some((_, raft)) = leader_of(load.seats.iter()) else {
        return;
    };
    let resource = raft.read(|state| {
        let live = state.authority.intents.get(&intent)?;
        Some(live.intent.payload.resource().id())
    });
    let Some(resource) = resource else { return };
    let command = load
        .stage
        .organism
        .claim(id, marker, resource)
        .to_canonical();
    let claimed = gate
        .submit(
            &command,
            &Again::SameAnswer,
            SUBMIT_DEADLINE,
            Duration::ZERO,
        )
        .await;
    match claimed {
        Ok(submitted) => match submitted.accepted() {
            Ok(_) => load.count("claimed"),
            Err(refusal) => {
                load.stage
                    .note(Who::World, format_args!("the claim is refused: {refusal}"));
                load.count("claims refused");
            }
        },
        Err(error) => load.blame(&error),
    }
}
