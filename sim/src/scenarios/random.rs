//! The mix: faults of every kind, drawn from the seed, under load.

use std::time::Duration;

use super::{Options, first_leader};
use crate::faults;
use crate::liveness::settle;
use crate::workload::{Counts, Plan, Workload};
use crate::world::{Failure, World};

/// Draws faults for so many rounds, then lets everything settle.
pub(super) async fn mix(world: &mut World, options: &Options) -> Result<Counts, Failure> {
    let mut draws = world.seed.draws("faults");
    let plan = Plan {
        reds: draws.below(4),
        ..Plan::default()
    };
    let load = Workload::start(world, plan);
    first_leader(world).await?;
    for _ in 0..options.steps.unwrap_or(40) {
        let fault = faults::draw(&mut draws);
        world.do_to(fault);
        world
            .run(Duration::from_millis(draws.between(20, 3_000)))
            .await?;
    }
    settle(world, &load, &[]).await?;
    Ok(load.counts())
}
