//! One run from a seed to a verdict: builds the simulation, tells the story, keeps the trace.

use std::time::Duration;

use madsim::Config;
use madsim::runtime::Runtime;

use crate::disk::Lie;
use crate::planted::Plant;
use crate::scenarios::{Options, Scenario};
use crate::seed::Seed;
use crate::trace::{Trace, Who};
use crate::workload::Counts;
use crate::world::{Failure, World};

/// What became of a run.
pub struct Report {
    /// What everybody did, or why it failed.
    pub verdict: Result<Counts, Failure>,
    /// Simulated time.
    pub span: Duration,
    /// Judgements.
    pub steps: u64,
    /// Everything that happened.
    pub trace: Trace,
}

/// Runs one scenario on one seed. Once per process: two runs in one process are not equal.
pub fn run(seed: Seed, scenario: &Scenario, options: &Options, trace: Trace) -> Report {
    let lie = options.plant.map_or(Lie::None, Plant::lie);
    let _switched_off = options.plant.map(Plant::switch_off);
    let runtime = Runtime::with_seed_and_config(seed.0, Config::default());
    runtime.block_on(async {
        let mut world = World::new(seed, trace.clone(), lie);
        let verdict = (scenario.run)(&mut world, options).await;
        match &verdict {
            Ok(counts) => world
                .stage
                .note(Who::World, format_args!("passed: {counts}")),
            Err(failure) => world
                .stage
                .note(Who::World, format_args!("FAILED: {failure}")),
        }
        Report {
            verdict,
            span: world.stage.begun.elapsed(),
            steps: world.steps,
            trace,
        }
    })
}
