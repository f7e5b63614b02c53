//! `redlatch`, the person's tool: makes and runs a development organism, asks the cluster, verifies receipts.
//!
//! ```text
//!   arguments ─▶ command ─▶ client.toml ─▶ Nodes (redlatch-link) ═ mutual TLS ═▶ nodes
//!                   └─▶ init, receipt verify: files only
//!   answer ─▶ table or JSON on standard output, hints and progress on standard error, exit code (DESIGN §11)
//! ```
//!
//! It holds no authority of its own: what it sends is signed with the key of the subject it is run as, and
//! what it prints is either verified here or says that it is not.

#![forbid(unsafe_code)]

mod answer;
mod approve;
mod attest;
mod bench;
mod client;
mod decision;
mod demo;
mod describe;
mod dev;
mod effect;
mod environment;
mod gate;
mod git;
mod governance;
mod in_force;
mod init;
mod intent;
mod journal;
mod key;
mod land;
mod node;
mod output;
mod propose;
mod receipt;
mod red;
mod root;
mod rosters;
mod status;
mod tail;
mod trust_policy;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use redlatch_link::exit::{self, Failure};

use output::Format;

/// Authority for what cannot be undone: ask the cluster, prove what happened.
#[derive(Parser)]
#[command(name = "redlatch", version)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Args, Clone)]
pub(crate) struct Common {
    /// Configuration file of the subject to act as (or REDLATCH_CONFIG).
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Folder of a development organism; its clients/NAME/client.toml is used.
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "REDLATCH_DIR",
        conflicts_with = "config"
    )]
    dir: Option<PathBuf>,
    /// Whose configuration below --dir: agent, operator, approver, deputy, runner or gate.
    #[arg(id = "acting_as", long = "as", global = true, value_name = "NAME")]
    subject: Option<String>,
    /// How the answer is printed.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// How long to wait for an answer, in seconds.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 15)]
    deadline: u64,
}

#[derive(Subcommand)]
enum Command {
    /// Make a new organism.
    Init(init::InitArguments),
    /// Run all processes of a development organism until Ctrl-C.
    Dev(dev::DevArguments),
    /// Show the nodes, and what is latched or frozen (exit code 2 if anything is).
    Status,
    /// Read the journal.
    Journal {
        #[command(subcommand)]
        command: journal::JournalCommand,
    },
    /// Get and verify receipts.
    Receipt {
        #[command(subcommand)]
        command: receipt::ReceiptCommand,
    },
    /// Lead a trust policy to the roster in force.
    TrustPolicy {
        #[command(subcommand)]
        command: trust_policy::TrustPolicyCommand,
    },
    /// Freeze, withdraw and show intents.
    Intent {
        #[command(subcommand)]
        command: intent::IntentCommand,
    },
    /// Propose a change of the organism, or an effect that is no landing.
    Propose(propose::Propose),
    /// Approve a frozen intent as a person, by an authenticator.
    Approve(approve::Approve),
    /// Make an authenticator of software for a person (development organisms only).
    Authenticator(approve::NewAuthenticator),
    /// Make keys; show the quorum's key, propose another one or another verifier.
    Key {
        #[command(subcommand)]
        command: key::KeyCommand,
    },
    /// Show what is in force: mode, subjects, grants, persons' keys, grounds of what is frozen.
    Governance,
    /// Print the constitution in force, as `propose constitution` reads it.
    Constitution,
    /// Raise the feature level to what every node's build carries.
    RaiseLevel,
    /// Draft, sign and bring an act of the offline root.
    Root {
        #[command(subcommand)]
        command: root::RootCommand,
    },
    /// Claim an effect and report its outcome, as an enrolled effector.
    Effect {
        #[command(subcommand)]
        command: effect::EffectCommand,
    },
    /// Land a commit on a branch behind a gate.
    Land(land::Land),
    /// Stand in front of a git repository; attest what a command came to.
    Gate {
        #[command(subcommand)]
        command: gate::GateCommand,
    },
    /// Stop: raise RED, show what is stopped.
    Red {
        #[command(subcommand)]
        command: red::RedCommand,
    },
    /// Play the product's main job on a development organism of its own, and assert every step.
    Demo(demo::DemoArguments),
    /// Measure.
    Bench {
        #[command(subcommand)]
        command: bench::BenchCommand,
    },
    /// Change the nodes of the organism; look at nodes' configurations.
    Node {
        #[command(subcommand)]
        command: node::NodeCommand,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(arguments)),
        Err(error) => Err(Failure::new(
            exit::ExitCode::Error,
            format!("no runtime: {error}"),
        )),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.report(),
    }
}

/// The exit code of a command that has said what it had to say.
type Done = Result<u8, Failure>;

async fn run(arguments: Arguments) -> Done {
    let Arguments { common, command } = arguments;
    match command {
        Command::Init(arguments) => init::run(&arguments, common.output),
        Command::Dev(arguments) => dev::run(&arguments, &common).await,
        Command::Status => status::run(&common).await,
        Command::Journal { command } => journal::run(&command, &common).await,
        Command::Receipt { command } => receipt::run(&command, &common).await,
        Command::TrustPolicy { command } => trust_policy::run(&command, &common).await,
        Command::Intent { command } => intent::run(&command, &common).await,
        Command::Propose(arguments) => propose::run(&arguments, &common).await,
        Command::Approve(arguments) => approve::run(&arguments, &common).await,
        Command::Authenticator(arguments) => approve::make(&arguments, common.output),
        Command::Key { command } => key::run(&command, &common).await,
        Command::Governance => governance::run(&common).await,
        Command::Constitution => propose::constitution::show(&common).await,
        Command::RaiseLevel => propose::level::run(&common).await,
        Command::Root { command } => root::run(&command, &common).await,
        Command::Effect { command } => effect::run(&command, &common).await,
        Command::Land(arguments) => land::run(&arguments, &common).await,
        Command::Gate { command } => gate::run(&command, &common).await,
        Command::Red { command } => red::run(&command, &common).await,
        Command::Demo(arguments) => demo::run(&arguments, &common).await,
        Command::Bench { command } => bench::run(&command, &common).await,
        Command::Node { command } => node::run(&command, &common).await,
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
