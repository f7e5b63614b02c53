//! `redlatch gate`: authority in front of a git repository (DESIGN §8).
//!
//! ```text
//!   git push ─▶ receive-pack ─▶ pre-receive ──▶ nodes: receipt, claim, fresh statuses
//!                   │ compare-and-swap of the ref        ▲
//!                   └─▶ post-receive ── outcome ─────────┘ ◀── reconcile: what a killed push left
//! ```
//!
//! The gate never moves a ref itself and never believes a client, a node or its own environment alone. It
//! judges no content: that is what verifiers do before COMMIT.

pub(crate) mod config;
pub(crate) mod core;
pub(crate) mod hold_line;
mod hooks;
mod install;
mod journal;
mod pusher;
pub(crate) mod refusal;
mod repository;
mod state;

use std::path::PathBuf;

use clap::Subcommand;
use redlatch_link::exit::{ExitCode, Failure};

use crate::answer::{Installed, OpenClaims, Post, count};
use crate::attest::{self, Attest};
use crate::{Common, Done, output};

/// Commands of a gate. `--config` names the gate's own configuration.
#[derive(Subcommand)]
pub(crate) enum GateCommand {
    /// Git's hook: let a push through, or not.
    PreReceive,
    /// Git's hook: report what moved.
    PostReceive,
    /// Report what became of every claim that is still open.
    Reconcile {
        /// The bare repository.
        #[arg(long, value_name = "PATH")]
        repo: PathBuf,
    },
    /// Put the gate in front of a bare repository.
    Install {
        /// The bare repository.
        #[arg(long, value_name = "PATH")]
        repo: PathBuf,
    },
    /// Check the configuration, and the repository if one is named.
    Check {
        /// The bare repository.
        #[arg(long, value_name = "PATH")]
        repo: Option<PathBuf>,
    },
    /// Run a command on exactly one commit and sign what it came to.
    Attest(Box<Attest>),
}

/// Runs a command of the gate.
///
/// # Errors
/// [`Failure`] with the exit code of DESIGN §11.
pub(crate) async fn run(command: &GateCommand, common: &Common) -> Done {
    match command {
        GateCommand::PreReceive => hooks::pre_receive(&config(common)?)
            .await
            .map_err(hooks::ended)?,
        GateCommand::PostReceive => hooks::post_receive(&config(common)?)
            .await
            .map_err(hooks::ended)?,
        GateCommand::Reconcile { repo } => {
            let left = hooks::reconcile(&config(common)?, repo).await?;
            let answer = OpenClaims { open: count(left) };
            output::print(common.output, &answer, |it| {
                format!("open claims  {}\n", it.open)
            })?;
        }
        GateCommand::Install { repo } => {
            let config = config(common)?;
            config::Gate::load(&config)?;
            install::install(repo, &config)?;
            let answer = Installed {
                installed: repo.display().to_string(),
            };
            output::print(common.output, &answer, |it| {
                format!("installed  {}\n", it.installed)
            })?;
        }
        GateCommand::Check { repo } => {
            let config = config(common)?;
            let gate = config::Gate::load(&config)?;
            if let Some(repo) = repo {
                install::check(repo, &config)?;
            }
            let answer = Post {
                subject: gate.post.subject.to_string(),
                repository: gate.post.repository.to_string(),
            };
            output::print(common.output, &answer, |it| {
                format!("ok: {} of repository {}\n", it.subject, it.repository)
            })?;
        }
        GateCommand::Attest(arguments) => return attest::run(arguments, common).await,
    }
    Ok(0)
}

/// The file of `--config`, or the gate's of a development organism.
fn config(common: &Common) -> Result<PathBuf, Failure> {
    let of_organism = |folder: &PathBuf| folder.join("clients").join("gate").join("gate.toml");
    let file = common
        .config
        .clone()
        .or_else(|| common.dir.as_ref().map(of_organism));
    file.ok_or_else(|| {
        Failure::new(ExitCode::Usage, "no gate configuration is named")
            .hint("name the gate's file with --config PATH")
    })
}
