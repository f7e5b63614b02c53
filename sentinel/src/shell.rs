//! From a command line to a running sentinel and from its end to an exit code (DESIGN §11).
//!
//! ```text
//!   --config, REDLATCH_…, --set ─▶ SentinelConfig ─▶ diagnostics ─▶ store ─▶ SentinelProcess ─▶ SIGTERM: 0
//!                                                                               └─ fatal: at once, not 0
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use redlatch_link::config::{self, Sources};
use redlatch_link::diagnostics::{self, Condition, Diagnostics};
use redlatch_link::exit::Failure;
use redlatch_link::store::{DataFolder, RedbStore};
use redlatch_link::supervisor::{self, Word};
use redlatch_link::transport::Credentials;
use redlatch_link::{build_id, exit, logs, world};
use redlatch_sentinel::config::SentinelFiles;
use redlatch_sentinel::{SentinelConfig, SentinelParts, SentinelProcess};
use tokio::signal::unix::{SignalKind, signal};

/// The sentinel of a redlatch organism.
#[derive(Parser)]
#[command(name = "redlatch-sentinel", version)]
struct Arguments {
    /// The configuration file (or REDLATCH_CONFIG).
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Sets one key above file and environment, e.g. listen.service=127.0.0.1:7600.
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    settings: Vec<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the sentinel (the default).
    Run,
    /// Look at the configuration without running.
    Config {
        #[command(subcommand)]
        what: ConfigCommand,
    },
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Check the configuration and every file it names.
    Check,
    /// Print the effective configuration.
    Print,
}

pub(super) fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => exit::ExitCode::Ok.into(),
        Err(failure) => failure.report(),
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let config: SentinelConfig = config::load(&sources(arguments)?)?;
    match &arguments.command {
        Some(Command::Config {
            what: ConfigCommand::Print,
        }) => {
            print!("{}", config::print(&config)?);
            Ok(())
        }
        Some(Command::Config {
            what: ConfigCommand::Check,
        }) => {
            let files = SentinelFiles::read(&config)?;
            let identity = files.credentials.identity();
            println!("ok: {} of organism {}", identity.short(), identity.organism);
            Ok(())
        }
        Some(Command::Run) | None => serve(&config),
    }
}

fn sources(arguments: &Arguments) -> Result<Sources, Failure> {
    let mut sources = Sources::of_process(arguments.config.as_deref(), &[])?;
    for setting in &arguments.settings {
        let (key, value) = setting.split_once('=').ok_or_else(|| {
            Failure::new(
                exit::ExitCode::Usage,
                format!("--set {setting} is not KEY=VALUE"),
            )
        })?;
        sources = sources.flag(key, value);
    }
    Ok(sources)
}

fn serve(config: &SentinelConfig) -> Result<(), Failure> {
    let files = SentinelFiles::read(config)?;
    logs::install(&config.logs)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(exit::ExitCode::Error, format!("no runtime: {error}")))?;
    // Outside of the runtime: the endpoint has one of its own.
    let diagnostics = Diagnostics {
        descriptors: vec![redlatch_proto::FILE_DESCRIPTOR_SET],
        ..Diagnostics::default()
    };
    // Before anything can ask: a process without conditions counts as ready.
    let started = diagnostics
        .readiness
        .condition("start", "opening the store");
    let _endpoint = diagnostics::start(config.listen.diagnostics, diagnostics.clone())?;
    let result = runtime.block_on(sentinel(config, files, diagnostics, started));
    if result.is_err() {
        // After a fatal fault nothing more is waited for, and nothing more is said.
        runtime.shutdown_background();
    }
    result
}

async fn sentinel(
    config: &SentinelConfig,
    files: SentinelFiles,
    diagnostics: Diagnostics,
    started: Condition,
) -> Result<(), Failure> {
    let data = config.data.clone();
    let store = world::blocking(move || RedbStore::open(DataFolder::open(&data)?)).await?;
    let name = files.credentials.identity().short();
    let credentials = files.credentials.clone();
    let parts = SentinelParts {
        store,
        genesis: files.genesis,
        policy: files.policy,
        key: files.key,
        rules: files.rules,
        verdict_ttl_ms: config.rules.verdict_ttl_ms,
        credentials: files.credentials,
        address: config.listen.service,
        nodes: config.nodes.clone(),
        actuator: config.actuator.clone(),
        rng: world::rng(),
        readiness: diagnostics.readiness,
    };
    let process = SentinelProcess::start(parts).await?;
    started.met();
    tracing::info!(
        sentinel = %name,
        generation = process.generation(),
        service = %process.address(),
        build_id = build_id::build_id(),
        "running"
    );
    world::spawn(reload_on_hangup(credentials));
    world::spawn(keep_supervised());
    // Without a supervisor there is nobody to tell.
    let _ = supervisor::tell(Word::Ready);
    process.run(stop()).await?;
    tracing::info!(sentinel = %name, "stopped");
    Ok(())
}

/// Resolves when the process is asked to stop, and says so.
async fn stop() {
    world::stop_signal().await;
    let _ = supervisor::tell(Word::Stopping);
    tracing::info!("stopping: open calls may finish");
}

/// Reads certificate, key and authority again at every SIGHUP.
async fn reload_on_hangup(credentials: Credentials) {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else {
        return;
    };
    while hangup.recv().await.is_some() {
        match credentials.reload() {
            Ok(()) => tracing::info!("certificates are read again"),
            Err(error) => {
                tracing::error!(error = %exit::chain(&error), "the old certificates stay");
            }
        }
    }
}

async fn keep_supervised() {
    let Some(interval) = supervisor::watchdog_interval() else {
        return;
    };
    loop {
        let _ = supervisor::tell(Word::Watchdog);
        world::sleep(interval).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
