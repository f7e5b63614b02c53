//! From a command line to a running node and from its end to an exit code (DESIGN §11).
//!
//! ```text
//!   --config, REDLATCH_…, --set ─▶ NodeConfig ─▶ diagnostics ─▶ store ─▶ NodeProcess ─▶ SIGTERM: drain, 0
//!                                                                           └─ fatal: at once, not 0
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use redlatch_link::config::{self, Sources};
use redlatch_link::diagnostics::{self, Condition, Diagnostics};
use redlatch_link::exit::Failure;
use redlatch_link::file::{self, Access, FileError};
use redlatch_link::supervisor::{self, Word};
use redlatch_link::transport::{Credentials, Dialer};
use redlatch_link::{build_id, exit, logs, world};
use redlatch_node::{NodeConfig, NodeFiles, NodeParts, NodeProcess, StartFailure};
use redlatch_raft::engine::{RocksEngine, RocksOptions};
use redlatch_raft::node::StartError;
use redlatch_raft::proposer::ProposerLimits;
use redlatch_raft::shared::WallClock;
use redlatch_types::OrganismId;
use tokio::signal::unix::{SignalKind, signal};

/// Name of the file in the data directory that says whose it is.
const ORGANISM_FILE: &str = "organism";

/// How long the store may take to close after a fault.
const CLOSE: Duration = Duration::from_secs(5);

/// One replica of the redlatch journal.
#[derive(Parser)]
#[command(name = "redlatch-node", version)]
struct Arguments {
    /// The configuration file (or REDLATCH_CONFIG).
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Sets one key above file and environment, e.g. listen.clients=127.0.0.1:7401.
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    settings: Vec<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the node (the default).
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
    let config: NodeConfig = config::load(&sources(arguments)?)?;
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
            let files = NodeFiles::read(&config)?;
            println!(
                "ok: {} of organism {}",
                files.credentials.identity().short(),
                files.organism
            );
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

fn serve(config: &NodeConfig) -> Result<(), Failure> {
    let files = NodeFiles::read(config)?;
    logs::install(&config.logs)?;
    claim_data(&config.data, files.organism)?;
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
    let result = runtime.block_on(node(config, files, diagnostics, started));
    if result.is_err() {
        // Nothing more is acknowledged: every task ends where it stands. The store is closed before the
        // process ends, because the engine's own threads abort a process that ends around them; a disk
        // that hangs is not waited for longer than this.
        runtime.shutdown_timeout(CLOSE);
    }
    result
}

async fn node(
    config: &NodeConfig,
    files: NodeFiles,
    diagnostics: Diagnostics,
    started: Condition,
) -> Result<(), Failure> {
    let data = config.data.clone();
    let engine = world::blocking(move || RocksEngine::open(&data, RocksOptions::default()))
        .await
        .map_err(|fault| StartFailure::Raft(StartError::Storage(fault)))?;
    started.unmet("waiting for a majority of the nodes");
    let name = files.credentials.identity().short();
    let credentials = files.credentials.clone();
    let parts = NodeParts {
        engine,
        genesis: files.genesis,
        keys: files.keys,
        credentials: files.credentials,
        peers_address: config.listen.peers,
        clients_address: config.listen.clients,
        peers: config.peers.clone(),
        clock: WallClock::system(),
        timing: config.timing.into(),
        limits: ProposerLimits::default(),
        metrics: diagnostics.metrics,
        readiness: diagnostics.readiness,
    };
    let mut process = tokio::select! {
        biased;
        () = world::stop_signal() => return Ok(()),
        process = NodeProcess::start(parts) => process?,
    };
    process.coordinate(&Dialer::new(credentials.clone()), &config.parties())?;
    started.met();
    tracing::info!(
        node = %name,
        organism = %files.organism,
        peers = %process.peers_address(),
        clients = %process.clients_address(),
        build_id = build_id::build_id(),
        "running"
    );
    world::spawn(reload_on_hangup(credentials));
    world::spawn(keep_supervised());
    // Without a supervisor there is nobody to tell.
    let _ = supervisor::tell(Word::Ready);
    process.run(stop()).await?;
    tracing::info!(node = %name, "stopped");
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
                tracing::error!(error = %exit::chain(&error), "the old certificates stay")
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

/// Makes the data directory this organism's, or refuses one that is another's.
fn claim_data(data: &Path, organism: OrganismId) -> Result<(), StartFailure> {
    let fault = |source| StartFailure::File {
        what: "data directory",
        source,
    };
    if !data.is_dir() {
        file::create_private_folder(data).map_err(fault)?;
    }
    let path = data.join(ORGANISM_FILE);
    match file::create_file(&path, format!("{organism}\n").as_bytes(), Access::Public) {
        Ok(()) => return Ok(()),
        Err(FileError::Exists { .. }) => {}
        Err(other) => return Err(fault(other)),
    }
    let found = file::read_file(&path).map_err(fault)?;
    let found = String::from_utf8_lossy(&found).trim().to_owned();
    if found == organism.to_string() {
        Ok(())
    } else {
        Err(StartFailure::SecondGenesis {
            path: data.to_owned(),
            found,
            given: organism,
        })
    }
}

#[cfg(test)]
mod tests {
    use redlatch_link::exit::Fails;
    use redlatch_types::Digest;

    use super::*;

    #[test]
    fn a_data_directory_belongs_to_the_first_genesis() {
        let folder = std::env::temp_dir().join(format!("redlatch-claim-{}", std::process::id()));
        let organism = |byte| OrganismId(Digest([byte; 32]));
        claim_data(&folder, organism(1)).expect("claimed");
        claim_data(&folder, organism(1)).expect("the same again");
        let refused = claim_data(&folder, organism(2)).expect_err("another");
        assert!(matches!(refused, StartFailure::SecondGenesis { .. }));
        assert_eq!(refused.code(), exit::ExitCode::Refused);
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn m1_i6_livez_answers_while_the_nodes_own_threads_are_stuck() {
        let diagnostics = Diagnostics::default();
        let _unmet = diagnostics
            .readiness
            .condition("genesis", "not applied yet");
        let anywhere = "127.0.0.1:0".parse().expect("an address");
        let endpoint = diagnostics::start(anywhere, diagnostics).expect("listening");
        let (release, stuck) = std::sync::mpsc::channel::<()>();
        let node = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            // As an apply that never ends: the only thread of the runtime waits for ever.
            runtime.expect("a runtime").block_on(async { stuck.recv() })
        });
        assert_eq!(code(endpoint.address(), "/livez"), "200");
        assert_eq!(code(endpoint.address(), "/readyz"), "503");
        drop(release);
        assert!(node.join().expect("released").is_err());
    }

    fn code(address: std::net::SocketAddr, path: &str) -> String {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(address).expect("connected");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
