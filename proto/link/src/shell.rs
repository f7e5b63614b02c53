//! From a command line to a running process and from its end to an exit code (DESIGN §11).
//!
//! ```text
//!   --config, REDLATCH_…, --set ─▶ Config ─┬─ config print: 0
//!                                          └─▶ Files ─┬─ config check: 0
//!                                                     └─▶ logs ─▶ diagnostics ─▶ start ─▶ run ─▶ SIGTERM: drain, 0
//!                                                                                          └─ fatal: at once, not 0
//! ```
//!
//! All processes of the organism share this shell; what differs between them is a [`Service`]. It decides
//! nothing about authority and knows no record. It exists in the real world alone: the simulated world starts
//! processes from their libraries, without command line, signals and supervisor.

use std::ffi::OsString;
use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{self, Sources};
use crate::diagnostics::{self, Condition, Diagnostics};
use crate::exit::{self, ExitCode, Failure};
use crate::logs::{self, Logs};
use crate::supervisor::{self, Word};
use crate::transport::Credentials;
use crate::world;

/// What one kind of process brings to the shell.
pub trait Service {
    /// The name of its binary.
    const NAME: &'static str;
    /// What it is, for `--help`.
    const ABOUT: &'static str;
    /// A setting that it has, as the example in the help of `--set`.
    const SETTING: &'static str;
    /// How long threads that wait for a disk may keep the process from ending after a fault.
    const CLOSE: Duration = Duration::ZERO;

    /// Its configuration file.
    type Config: DeserializeOwned + Serialize;
    /// What the configuration names, read and checked.
    type Files;
    /// The process once it serves.
    type Process;

    /// What the shell needs of the configuration.
    fn settings(config: &Self::Config) -> Settings<'_>;

    /// Reads and checks everything that the configuration names, and changes nothing.
    ///
    /// # Errors
    /// [`Failure`] with the first thing that is missing or does not fit the rest.
    fn read(config: &Self::Config) -> Result<Self::Files, Failure>;

    /// Whose certificate the process uses.
    fn credentials(files: &Self::Files) -> &Credentials;

    /// Starts the process and resolves when it serves. Dropped halfway if the process is asked to stop.
    /// `starting` is not met yet; its reason may be changed to what is waited for next.
    ///
    /// # Errors
    /// [`Failure`], with which the process ends.
    fn start(
        config: Self::Config,
        files: Self::Files,
        diagnostics: Diagnostics,
        starting: &Condition,
    ) -> impl Future<Output = Result<Self::Process, Failure>>;

    /// Serves until `stop` resolves, then lets open calls finish.
    ///
    /// # Errors
    /// [`Failure`] at once if the process must not go on.
    fn run(
        process: Self::Process,
        stop: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<(), Failure>>;
}

/// What the shell needs of a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// What is written to the log.
    pub logs: &'a Logs,
    /// Where health and metrics are answered, for this machine alone.
    pub diagnostics: SocketAddr,
}

#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The configuration file (or REDLATCH_CONFIG).
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,
    // Its help names a setting that the process has.
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    settings: Vec<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the process (the default).
    Run,
    /// Look at the configuration without running.
    Config {
        #[command(subcommand)]
        what: ConfigCommand,
    },
}

#[derive(Clone, Copy, Subcommand)]
enum ConfigCommand {
    /// Check the configuration and every file it names.
    Check,
    /// Print the effective configuration.
    Print,
}

/// The whole `main` of a service's binary.
pub fn main<S: Service>() -> std::process::ExitCode {
    match run::<S>(std::env::args_os()) {
        Ok(()) => ExitCode::Ok.into(),
        Err(failure) => failure.report(),
    }
}

/// Does what a command line asks for, the binary's name first. One that cannot be understood, and one that
/// asks for help, end the process here.
///
/// # Errors
/// [`Failure`], with which the process is to end.
pub fn run<S: Service>(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let matches = command::<S>().get_matches_from(arguments);
    let arguments = Arguments::from_arg_matches(&matches)
        .map_err(|error| Failure::new(ExitCode::Usage, error.to_string()))?;
    let config: S::Config = config::load(&sources(&arguments)?)?;
    match arguments.command {
        Some(Command::Config { what }) => look::<S>(&config, what),
        Some(Command::Run) | None => serve::<S>(config),
    }
}

fn command<S: Service>() -> clap::Command {
    let help = format!(
        "Sets one key above file and environment, e.g. {}",
        S::SETTING
    );
    Arguments::command()
        .name(S::NAME)
        .about(S::ABOUT)
        .mut_arg("settings", |settings| settings.help(help))
}

fn sources(arguments: &Arguments) -> Result<Sources, Failure> {
    let mut sources = Sources::of_process(arguments.config.as_deref(), &[])?;
    for setting in &arguments.settings {
        let (key, value) = setting.split_once('=').ok_or_else(|| {
            let text = format!("--set {setting} is not KEY=VALUE");
            Failure::new(ExitCode::Usage, text)
        })?;
        sources = sources.flag(key, value);
    }
    Ok(sources)
}

fn look<S: Service>(config: &S::Config, what: ConfigCommand) -> Result<(), Failure> {
    let text = match what {
        ConfigCommand::Print => config::print(config)?,
        ConfigCommand::Check => {
            let files = S::read(config)?;
            let identity = S::credentials(&files).identity();
            format!(
                "ok: {} of organism {}\n",
                identity.short(),
                identity.organism
            )
        }
    };
    // Whoever closed standard output does not want to know.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Ok(())
}

fn serve<S: Service>(config: S::Config) -> Result<(), Failure> {
    let files = S::read(&config)?;
    let settings = S::settings(&config);
    logs::install(settings.logs)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(ExitCode::Error, format!("no runtime: {error}")))?;
    let diagnostics = Diagnostics {
        descriptors: vec![redlatch_proto::FILE_DESCRIPTOR_SET],
        ..Diagnostics::default()
    };
    // Before anything can ask: a process without conditions counts as ready.
    let starting = diagnostics
        .readiness
        .condition("start", "opening the store");
    // Outside of the runtime: the endpoint has one of its own.
    let _endpoint = diagnostics::start(settings.diagnostics, diagnostics.clone())?;
    let result = runtime.block_on(live::<S>(config, files, diagnostics, starting));
    if result.is_err() {
        // Nothing more is acknowledged or said: every task ends where it stands.
        runtime.shutdown_timeout(S::CLOSE);
    }
    result
}

async fn live<S: Service>(
    config: S::Config,
    files: S::Files,
    diagnostics: Diagnostics,
    starting: Condition,
) -> Result<(), Failure> {
    let credentials = S::credentials(&files).clone();
    let identity = credentials.identity().short();
    // Both signals are heard from here on: whoever is told READY may send them at once.
    let hangup = signal(SignalKind::hangup());
    let mut asked = pin!(world::stop_signal());
    let process = tokio::select! {
        biased;
        () = &mut asked => return Ok(()),
        started = S::start(config, files, diagnostics, &starting) => started?,
    };
    starting.met();
    match hangup {
        Ok(hangup) => drop(world::spawn(reload_on(hangup, credentials))),
        Err(error) => tracing::warn!(%error, "certificates are not read again at SIGHUP"),
    }
    world::spawn(keep_supervised());
    // Without a supervisor there is nobody to tell.
    let _ = supervisor::tell(Word::Ready);
    let stop = async {
        asked.await;
        let _ = supervisor::tell(Word::Stopping);
        tracing::info!("stopping: open calls may finish");
    };
    S::run(process, stop).await?;
    tracing::info!(%identity, "stopped");
    Ok(())
}

/// Reads certificate, key and authority again at every hangup.
async fn reload_on(mut hangup: Signal, credentials: Credentials) {
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
