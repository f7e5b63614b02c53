//! `redlatch-sim`: runs one scenario on one seed and says whether every invariant held.
//!
//! Exit codes: 0 passed, 1 failed (names the invariant, the step and the command that repeats the run),
//! 2 usage, or not built for simulation.

#![forbid(unsafe_code)]

use std::process::ExitCode;

#[cfg(madsim)]
mod simulated {
    use std::path::PathBuf;
    use std::process::ExitCode;

    use clap::Parser;
    use redlatch_sim::planted::{self, Planted};
    use redlatch_sim::run::{Report, run};
    use redlatch_sim::scenarios::{self, Options};
    use redlatch_sim::seed::Seed;
    use redlatch_sim::trace::Trace;

    /// Lines of the trace that a failed run shows.
    const TAIL: usize = 25;

    /// Runs the cluster in a simulated world, on one seed.
    #[derive(Parser)]
    #[command(name = "redlatch-sim", version)]
    struct Arguments {
        /// Where every draw comes from.
        #[arg(long)]
        seed: u64,
        /// Write what happened there, one line per event.
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
        /// The story.
        #[arg(long, default_value = "random", value_parser = scenario)]
        scenario: &'static scenarios::Scenario,
        /// Rounds of faults, where the story has rounds.
        #[arg(long, value_name = "N")]
        steps: Option<u64>,
        /// Break something on purpose: an invariant must find it.
        #[arg(long, value_name = "NAME", value_parser = plant)]
        plant: Option<&'static Planted>,
        /// Print the trace as it grows.
        #[arg(long)]
        follow: bool,
    }

    fn scenario(name: &str) -> Result<&'static scenarios::Scenario, String> {
        scenarios::find(name).ok_or_else(|| {
            let names: Vec<&str> = scenarios::ALL.iter().map(|it| it.name).collect();
            format!("one of: {}", names.join(", "))
        })
    }

    fn plant(name: &str) -> Result<&'static Planted, String> {
        planted::find(name).ok_or_else(|| {
            let names: Vec<&str> = planted::ALL.iter().map(|it| it.name).collect();
            format!("one of: {}", names.join(", "))
        })
    }

    pub(super) fn main() -> ExitCode {
        let arguments = Arguments::parse();
        let Arguments {
            seed,
            scenario,
            steps,
            plant,
            ..
        } = &arguments;
        let again = command(&arguments);
        println!(
            "seed {seed} scenario {} steps {steps:?} plant {:?}",
            scenario.name,
            plant.map(|it| it.name)
        );
        let trace = if arguments.follow {
            Trace::shown()
        } else {
            Trace::default()
        };
        let options = Options {
            steps: *steps,
            plant: plant.map(|it| it.plant),
        };
        let report = run(Seed(*seed), scenario, &options, trace);
        let Report {
            verdict,
            span,
            steps,
            trace,
        } = report;
        if let Some(path) = &arguments.trace
            && let Err(error) = redlatch_link::file::replace_file(
                path,
                trace.text().as_bytes(),
                redlatch_link::file::Access::Public,
            )
        {
            eprintln!("the trace cannot be written: {error}");
            return ExitCode::FAILURE;
        }
        let span = span.as_secs_f64();
        let (lines, digest) = (trace.len(), trace.digest());
        println!("{span:.1} simulated seconds, {steps} judgements, trace {lines} lines {digest}");
        match verdict {
            Ok(counts) => {
                println!("passed: {counts}");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                println!("{}", trace.tail(TAIL));
                println!("FAILED at judgement {steps}: {failure}");
                println!("again: {again}");
                ExitCode::FAILURE
            }
        }
    }

    /// The command that repeats the run.
    fn command(arguments: &Arguments) -> String {
        let Arguments {
            seed,
            scenario,
            steps,
            plant,
            ..
        } = arguments;
        let mut command = format!("redlatch-sim --seed {seed} --scenario {}", scenario.name);
        if let Some(steps) = steps {
            command += &format!(" --steps {steps}");
        }
        if let Some(plant) = plant {
            command += &format!(" --plant {}", plant.name);
        }
        command
    }
}

#[cfg(madsim)]
fn main() -> ExitCode {
    simulated::main()
}

#[cfg(not(madsim))]
fn main() -> ExitCode {
    eprintln!(
        "redlatch-sim runs only in the simulated world: RUSTFLAGS=\"--cfg madsim\" cargo build --profile sim -p redlatch-sim (or: make sim)"
    );
    ExitCode::from(2)
}
