//! The process `redlatch-verifier`: configuration, redb, diagnostics, signals, exit code. What a verifier
//! does is in the library; the simulated world starts verifiers from there and has no such process.

#[cfg(not(madsim))]
mod shell;

#[cfg(not(madsim))]
fn main() -> std::process::ExitCode {
    redlatch_link::shell::main::<shell::Verifier>()
}

#[cfg(madsim)]
fn main() {}
