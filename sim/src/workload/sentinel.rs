//! The sentinel: signs REDs and brings each to every node until it is latched. It never gives up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redlatch_link::Role;
use redlatch_link::nodes::{Again, Nodes};
use redlatch_link::world as link;
use redlatch_types::Canonical;
use redlatch_types::event::Accepted;
use redlatch_types::records::RedScope;

use super::{Plan, Workload};
use crate::oracle::{Promised, RedSent};
use crate::organism::{AGENTS, NODES, Outbox, agent_name};
use crate::seed::Draws;
use crate::trace::Who;

const DELIVERY_DEADLINE: Duration = Duration::from_secs(3);

/// Signs REDs and brings each to every node until it is latched.
pub(super) async fn live(load: Workload, plan: Plan) {
    let mut draws = load.draws("sentinel");
    let mut outbox = load.stage.organism.outbox();
    for _ in 0..plan.reds {
        link::sleep(Duration::from_millis(draws.between(500, plan.red_pause_ms))).await;
        while load.goes_on() && !load.shared.reds_may_come.load(Ordering::Relaxed) {
            link::sleep(Duration::from_millis(100)).await;
        }
        if !load.goes_on() {
            return;
        }
        let scope = red_scope(&load, &mut draws);
        red(&load, &mut outbox, scope, None, &mut draws).await;
    }
}

fn red_scope(load: &Workload, draws: &mut Draws) -> RedScope {
    let frozen = load.frozen();
    let agent = draws.between(1, AGENTS + 1);
    let subject = agent_name(agent)
        .parse()
        .map_or(RedScope::Everything, RedScope::Subject);
    match (draws.below(30), draws.one_of(&frozen)) {
        (0, _) => RedScope::Everything,
        (1..8, _) | (_, None) => subject,
        (_, Some((_, intent))) => RedScope::Intent(intent),
    }
}

/// Signs one RED and delivers the chain until it is latched. It goes on after the workload has stopped: a
/// sentinel never gives up. `only` restricts it to one node.
pub async fn red(
    load: &Workload,
    outbox: &mut Outbox,
    scope: RedScope,
    only: Option<u64>,
    draws: &mut Draws,
) {
    let record = outbox.sign(&scope, link::now_unix_ms(), draws);
    load.stage
        .note(Who::Sentinel, format_args!("signs a RED of {scope:?}"));
    load.stage
        .history()
        .promises
        .reds
        .push(RedSent { record, scope });
    load.lock().reds_waiting += 1;
    let targets = (1..=NODES).filter(|node| only.is_none_or(|only| only == *node));
    let lines: Vec<Nodes> = targets
        .map(|node| load.nodes(Role::Sentinel, "sentinel", Some(node)))
        .collect();
    while let Some(segment) = outbox.segment() {
        let count = outbox.waiting();
        if deliver(load, &lines, segment.to_canonical()).await {
            let at_us = load.stage.now_us();
            for record in outbox.acknowledge(count) {
                let mut history = load.stage.history();
                history
                    .promises
                    .acknowledge(at_us, Promised::Latched(record), None);
            }
            load.count("latched");
            load.lock().reds_waiting -= 1;
            load.stage.note(Who::Sentinel, "is told of the latch");
        } else {
            link::sleep(Duration::from_millis(150)).await;
        }
    }
}

/// Brings a segment to every node at once; true as soon as one says that it is latched.
async fn deliver(load: &Workload, lines: &[Nodes], segment: Vec<u8>) -> bool {
    let (told, mut answers) = tokio::sync::mpsc::unbounded_channel();
    for line in lines {
        let (line, segment) = (line.clone(), segment.clone());
        let (told, load) = (told.clone(), load.clone());
        // Each delivery goes on by itself: a node that is slow to answer must still get it.
        link::spawn(async move {
            let again = Again::SameAnswer;
            let answer = line
                .submit(&segment, &again, DELIVERY_DEADLINE, Duration::ZERO)
                .await;
            let latched = match answer {
                Ok(submitted) => matches!(submitted.accepted(), Ok(Accepted::Latched(_))),
                Err(error) => {
                    load.blame(&error);
                    false
                }
            };
            let _ = told.send(latched);
        });
    }
    drop(told);
    while let Some(latched) = answers.recv().await {
        if latched {
            return true;
        }
    }
    false
}
