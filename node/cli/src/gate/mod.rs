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
mod hold_line;
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
use serde_json::json;

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
            let answer = json!({ "open": left });
            output::print(common.output, &answer, |_| format!("open claims  {left}\n"))?;
        }
        GateCommand::Install { repo } => {
            let config = config(common)?;
            config::Gate::load(&config)?;
            install::install(repo, &config)?;
            let answer = json!({ "installed": repo });
            output::print(common.output, &answer, |_| {
                format!("installed  {}\n", repo.display())
            })?;
        }
        GateCommand::Check { repo } => {
            let config = config(common)?;
            let gate = config::Gate::load(&config)?;
            if let Some(repo) = repo {
                install::check(repo, &config)?;
            }
            let answer = json!({ "subject": gate.post.subject.to_string(), "repository": gate.post.repository.to_string() });
            output::print(common.output, &answer, |_| {
                format!(
                    "ok: {} of repository {}\n",
                    gate.post.subject, gate.post.repository
                )
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
