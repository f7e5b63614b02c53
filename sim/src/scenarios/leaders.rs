//! Stories about leaders, partitions and clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redlatch_link::Role;
use redlatch_link::world as link;
use redlatch_node::view::{self, Question};
use redlatch_types::records::{RedScope, ScopeState};
use redlatch_types::{Digest, NodeId};

use super::{Options, another_leader, expect, first_leader};
use crate::faults::Fault;
use crate::history::StatusSeen;
use crate::liveness::settle;
use crate::organism::NODES;
use crate::planted::Plant;
use crate::workload::{Counts, Plan, Workload, red};
use crate::world::{Failure, World};

/// The leader is killed again and again.
pub(super) async fn killed(world: &mut World, options: &Options) -> Result<Counts, Failure> {
    let load = Workload::start(world, Plan::default());
    let mut draws = world.seed.draws("scenario");
    let mut leader = first_leader(world).await?;
    for _ in 0..options.steps.unwrap_or(5) {
        world
            .run(Duration::from_millis(draws.between(800, 4_000)))
            .await?;
        world.do_to(Fault::Kill(leader));
        let next = another_leader(world, leader).await?;
        world
            .run(Duration::from_millis(draws.between(1, 2_000)))
            .await?;
        world.start(leader);
        leader = next;
    }
    settle(world, &load, &[]).await?;
    Ok(load.counts())
}

/// Faults 1 and 2: the two that are left campaign at the same time again and again, over a network on which
/// their questions cross.
pub(super) async fn split_votes(world: &mut World, options: &Options) -> Result<Counts, Failure> {
    let load = Workload::start(
        world,
        Plan {
            pause_ms: 1_500,
            ..Plan::default()
        },
    );
    let mut leader = first_leader(world).await?;
    for _ in 0..options.steps.unwrap_or(12) {
        world.do_to(Fault::SlowNetwork(250));
        world.run(Duration::from_secs(2)).await?;
        world.do_to(Fault::Kill(leader));
        world.run(Duration::from_secs(5)).await?;
        world.do_to(Fault::SlowNetwork(5));
        let next = another_leader(world, leader).await?;
        world.start(leader);
        leader = next;
    }
    settle(world, &load, &[]).await?;
    Ok(load.counts())
}

/// Fault 2b: one node campaigns alone for a minute, then comes back.
pub(super) async fn partition_heal(world: &mut World) -> Result<Counts, Failure> {
    let load = Workload::start(
        world,
        Plan {
            pause_ms: 1_500,
            ..Plan::default()
        },
    );
    let leader = first_leader(world).await?;
    let alone = leader % NODES + 1;
    world.run(Duration::from_secs(2)).await?;
    world.do_to(Fault::Isolate(alone));
    world.run(Duration::from_secs(60)).await?;
    let before = load.counts().of("frozen");
    world.do_to(Fault::Heal);
    // Ten election timeouts.
    let span = Duration::from_secs(10);
    let more = |_: &World| (load.counts().of("frozen") > before + 3).then_some(());
    world
        .until("the whole cluster serves again", span, more)
        .await?;
    settle(world, &load, &[]).await?;
    Ok(load.counts())
}

/// Fault 19: a leader that is cut off is asked whether something is latched, while its successor latches.
pub(super) async fn deposed_status(
    world: &mut World,
    options: &Options,
) -> Result<Counts, Failure> {
    let load = Workload::start(
        world,
        Plan {
            reds: 0,
            ..Plan::default()
        },
    );
    let old = first_leader(world).await?;
    world.run(Duration::from_secs(3)).await?;
    let free = Arc::new(AtomicU64::new(0));
    let none = Arc::new(AtomicU64::new(0));
    world.spawn(keep_asking(
        load.clone(),
        old,
        Arc::clone(&free),
        Arc::clone(&none),
    ));
    world.run(Duration::from_secs(1)).await?;
    expect(free.load(Ordering::Relaxed) > 0, || {
        "a leader does not say free".into()
    })?;
    world.do_to(Fault::Isolate(old));
    let new = another_leader(world, old).await?;
    let (teller, mut draws) = (load.clone(), world.seed.draws("scenario"));
    let mut outbox = world.stage.organism.outbox();
    world.spawn(async move {
        red(
            &teller,
            &mut outbox,
            RedScope::Everything,
            Some(new),
            &mut draws,
        )
        .await;
    });
    let latched = |_: &World| (load.counts().of("latched") > 0).then_some(());
    world
        .until("the RED is latched", Duration::from_secs(10), latched)
        .await?;
    none.store(0, Ordering::Relaxed);
    if options.plant == Some(Plant::StatusWithoutReadPoint) {
        say_what_is_applied(world, old);
    }
    world.run(Duration::from_secs(8)).await?;
    expect(none.load(Ordering::Relaxed) > 0, || {
        "the deposed leader was not asked".into()
    })?;
    settle(world, &load, &[]).await?;
    Ok(load.counts())
}

/// Asks one node about everything for as long as the world lives.
async fn keep_asking(load: Workload, node: u64, free: Arc<AtomicU64>, none: Arc<AtomicU64>) {
    let nodes = load.nodes(Role::Client, "agent-1", None);
    let mut draws = load.draws("asker");
    loop {
        match load
            .ask_status(&nodes, Some(node), None, draws.digest())
            .await
        {
            Some((_, ScopeState::Free)) => free.fetch_add(1, Ordering::Relaxed),
            Some(_) => 0,
            None => none.fetch_add(1, Ordering::Relaxed),
        };
        link::sleep(Duration::from_millis(100)).await;
    }
}

/// The planted fault: what a node would say that does not look for a read point.
fn say_what_is_applied(world: &World, node: u64) {
    let Some(raft) = world.seat(node).raft() else {
        return;
    };
    let question = Question {
        nonce: Digest::ZERO,
        intent: None,
    };
    let said = raft.read(|state| view::status(&state.authority, 0, NodeId(node), question, &[]));
    let scope = said.map_or(ScopeState::Latched, |status| status.scope);
    let asked_us = world.stage.now_us() + 1;
    let seen = StatusSeen {
        node,
        asked_us,
        intent: None,
        scope,
    };
    world.stage.history().statuses.push(seen);
}

/// One clock is wrong by an hour, then by two minutes the other way: state time follows the others.
pub(super) async fn clock_step(world: &mut World) -> Result<Counts, Failure> {
    let load = Workload::start(world, Plan::default());
    let leader = first_leader(world).await?;
    let mut draws = world.seed.draws("scenario");
    world.run(Duration::from_secs(3)).await?;
    for ahead_ms in [3_600_000, -120_000, 0] {
        // The leader's clock is as good a victim as any other.
        let victim = if draws.percent(50) {
            leader
        } else {
            leader % NODES + 1
        };
        (1..=NODES).for_each(|node| world.do_to(Fault::Clock(node, 0)));
        world.do_to(Fault::Clock(victim, ahead_ms));
        let before = load.counts().of("frozen");
        for _ in 0..8 {
            world.run(Duration::from_secs(1)).await?;
            state_time_is_honest(world)?;
        }
        let served = load.counts().of("frozen") > before;
        expect(served, || {
            format!("nothing is frozen with a clock {ahead_ms} ms ahead")
        })?;
    }
    settle(world, &load, &[]).await?;
    Ok(load.counts())
}

/// State time is not ahead of the true clocks, and not far behind them while clients keep it going (D7).
fn state_time_is_honest(world: &World) -> Result<(), Failure> {
    let now = link::now_unix_ms();
    for raft in world.seats().filter_map(|seat| seat.raft()) {
        let state_time = raft.place().state_time_ms;
        let honest = state_time <= now && state_time + 10_000 > now;
        expect(honest, || format!("state time {state_time} at {now}"))?;
    }
    Ok(())
}
