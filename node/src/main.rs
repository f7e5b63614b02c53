//! The process `redlatch-node`: configuration, RocksDB, diagnostics, signals, exit code. What a node does is
//! in the library; the simulated world starts nodes from there and has no such process.

#[cfg(not(madsim))]
mod shell;

#[cfg(not(madsim))]
fn main() -> std::process::ExitCode {
    redlatch_link::shell::main::<shell::Node>()
}

#[cfg(madsim)]
fn main() {}
