//! Runs the simulator as a child: one seed per process, whichever way the tests are run.

use std::process::{Command, Output};

/// Runs `redlatch-sim` with these arguments.
pub(crate) fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_redlatch-sim"))
        .args(arguments)
        .output()
        .expect("the simulator starts")
}

/// What it printed.
pub(crate) fn printed(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}
