//! The process `redlatch-actuator`: configuration, redb, diagnostics, signals, exit code. What an actuator
//! does is in the library; the simulated world starts it from there and has no such process.

#[cfg(not(madsim))]
mod shell;

#[cfg(not(madsim))]
fn main() -> std::process::ExitCode {
    redlatch_link::shell::main::<shell::Actuator>()
}

#[cfg(madsim)]
fn main() {}
