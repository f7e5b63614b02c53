//! `redlatch node`: changes the nodes of an organism, one node a step (DESIGN D9), and looks at configurations.
//!
//! ```text
//!   new node's host:  describe ─▶ file ─▶ join ─▶ approve ─▶ it receives the journal ─▶ promote ─▶ approve
//!   wiped node's host: --set rejoin=true ─▶ rejoin (waits) ─▶ promote ─▶ approve
//! ```
//!
//! Joining, promoting and removing are decisions of a person like any other: this command only proposes them.
//! A return is the node's own act and gives it nothing. Nothing here decides who counts.

mod development;
mod record;

use std::path::PathBuf;

use clap::Subcommand;
use redlatch_link::config::{self, Sources};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::world::{self, Monotonic};
use redlatch_node::{NodeConfig, NodeFiles};
use redlatch_proto::v1::ClusterResponse;
use redlatch_types::records::{ActionPayload, RosterNode, RosterPayload, Seat};

use crate::answer::Returned;
use crate::client::{self, Client};
use crate::in_force::InForce;
use crate::propose::{self, Proposal};
use crate::{Common, Done, output};

/// How often the roster is looked at while a node is waited for.
const LOOK: std::time::Duration = std::time::Duration::from_millis(300);

/// Entries that a node may lack and still be promoted: what a leader counts as caught up.
const CAUGHT_UP_ENTRIES: u64 = 64;

#[derive(Subcommand)]
pub(crate) enum NodeCommand {
    /// Check or print a node's configuration.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print what the roster is told of a node, from its configuration: `node join` reads it.
    Describe {
        /// The node's configuration file.
        file: PathBuf,
    },
    /// Make keys, certificate and configuration of one more node (development organisms only).
    New(development::New),
    /// Propose that a node joins, as a learner.
    Join {
        /// What `node describe` printed on the node's host.
        file: PathBuf,
        #[command(flatten)]
        proposal: Proposal,
    },
    /// Propose that a learner votes and counts.
    Promote {
        /// The node's name.
        node: String,
        /// Do not ask the node first whether it has the journal.
        #[arg(long)]
        unseen: bool,
        #[command(flatten)]
        proposal: Proposal,
    },
    /// Propose that a node leaves.
    Remove {
        /// The node's name.
        node: String,
        #[command(flatten)]
        proposal: Proposal,
    },
    /// Wait until the journal has taken in the return of a node that lost its disk.
    Rejoin {
        /// The node's name. It is started with `--set rejoin=true`.
        node: String,
        /// How long to wait, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        wait: u64,
    },
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the file and everything it names.
    Check {
        /// The node's configuration file.
        file: PathBuf,
    },
    /// Print the effective configuration.
    Print {
        /// The node's configuration file.
        file: PathBuf,
    },
}

pub(crate) async fn run(command: &NodeCommand, common: &Common) -> Done {
    match command {
        NodeCommand::Config { command } => look(command),
        NodeCommand::Describe { file } => describe(file),
        NodeCommand::New(new) => development::run(new, common),
        NodeCommand::Join { file, proposal } => {
            let node = record::read(file)?;
            let client = Client::current(common, "operator").await?;
            joins(&client.in_force().await?, &node)?;
            bring(&client, RosterPayload::Join(node), proposal, common).await
        }
        NodeCommand::Promote {
            node,
            unseen,
            proposal,
        } => {
            let client = Client::current(common, "operator").await?;
            let in_force = client.in_force().await?;
            let node = named(&in_force, node)?;
            promotes(node)?;
            if !unseen {
                caught_up(&client, node).await?;
            }
            let change = RosterPayload::Promote(node.node_id);
            bring(&client, change, proposal, common).await
        }
        NodeCommand::Remove { node, proposal } => {
            let client = Client::current(common, "operator").await?;
            let in_force = client.in_force().await?;
            let change = RosterPayload::Remove(named(&in_force, node)?.node_id);
            bring(&client, change, proposal, common).await
        }
        NodeCommand::Rejoin { node, wait } => rejoin(node, *wait, common).await,
    }
}

async fn bring(
    client: &Client,
    change: RosterPayload,
    proposal: &Proposal,
    common: &Common,
) -> Done {
    let payload = ActionPayload::RosterChange(Box::new(change));
    propose::bring(client, payload, None, &proposal.how(), common).await
}

/// A node of the roster in force.
fn named<'a>(in_force: &'a InForce, name: &str) -> Result<&'a RosterNode, Failure> {
    let nodes = &in_force.roster.nodes;
    let found = nodes.iter().find(|node| node.name.as_str() == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let text = format!("no node of the roster is called {name}");
        Failure::new(ExitCode::Usage, text).hint(format!("it names {}", known.join(", ")))
    })
}

/// Says what the journal would refuse without a word of why.
fn joins(in_force: &InForce, node: &RosterNode) -> Result<(), Failure> {
    let mut nodes = in_force.roster.nodes.iter();
    match nodes.find(|known| known.node_id == node.node_id || known.name == node.name) {
        None => Ok(()),
        Some(known) => {
            let text = format!(
                "{} is node {} of the roster already",
                known.name, known.node_id
            );
            Err(Failure::new(ExitCode::Usage, text)
                .hint("a node joins under a name and a number that no node has"))
        }
    }
}

fn promotes(node: &RosterNode) -> Result<(), Failure> {
    if node.seat == Seat::Learner {
        return Ok(());
    }
    Err(Failure::new(
        ExitCode::Usage,
        format!("{} votes already", node.name),
    ))
}

/// Asks the node itself whether it has the journal: from its promotion on a majority counts it, and while it
/// has not caught up every other one is needed.
async fn caught_up(client: &Client, node: &RosterNode) -> Result<(), Failure> {
    let own = client.of_roster(node)?;
    let refuse = |text: String| {
        Err(Failure::new(ExitCode::Unavailable, text)
            .hint("wait until it has, or say --unseen if you know better"))
    };
    let shown: ClusterResponse = match own.cluster(node.name.as_str(), client.deadline).await {
        Ok(shown) => shown,
        Err(error) => return refuse(format!("{} does not answer: {error}", node.name)),
    };
    let others = applied(client).await;
    if shown.applied.saturating_add(CAUGHT_UP_ENTRIES) < others {
        return refuse(format!(
            "{} has not caught up: it has applied entry {} of {others}",
            node.name, shown.applied
        ));
    }
    Ok(())
}

/// The last entry that any node which answers has applied.
async fn applied(client: &Client) -> u64 {
    let members: Vec<_> = client.nodes.members().cloned().collect();
    let asked = members
        .iter()
        .map(|member| client.nodes.cluster(&member.name, client.deadline));
    let answers = futures::future::join_all(asked).await;
    let applied = answers.into_iter().flatten().map(|shown| shown.applied);
    applied.max().unwrap_or_default()
}

/// Waits for what the node brings about itself: its `Rejoin`, journaled.
async fn rejoin(name: &str, wait: u64, common: &Common) -> Done {
    let client = Client::current(common, "operator").await?;
    let until = Monotonic::now().plus(std::time::Duration::from_secs(wait));
    loop {
        let in_force = client.in_force().await?;
        let node = named(&in_force, name)?;
        if node.seat == Seat::Learner {
            return returned(&in_force, node, common);
        }
        if until.since(Monotonic::now()).is_zero() {
            let text = format!("{name} has not come back: it is still a voter of the roster");
            return Err(Failure::new(ExitCode::Unavailable, text).hint(format!(
                "start it with `redlatch-node --config FILE --set rejoin=true`; `redlatch node rejoin {name}` waits for it"
            )));
        }
        world::sleep(LOOK).await;
    }
}

fn returned(in_force: &InForce, node: &RosterNode, common: &Common) -> Done {
    let answer = Returned {
        node: node.name.to_string(),
        number: node.node_id.0.into(),
        seat: node.seat.to_string(),
        roster_epoch: in_force.roster.roster_epoch.0.into(),
    };
    output::print(common.output, &answer, |answer| {
        output::lines(&[
            ("node", format!("{} ({})", answer.node, answer.number)),
            ("seat", answer.seat.clone()),
            ("roster", answer.roster_epoch.to_string()),
        ])
    })?;
    output::note(&format!("next: redlatch node promote {}", answer.node));
    Ok(0)
}

/// Reads a node's configuration and every file that it names.
fn files(file: &std::path::Path) -> Result<(NodeConfig, NodeFiles), Failure> {
    let sources = Sources::of_process(Some(file), client::RESERVED)?;
    let loaded: NodeConfig = config::load(&sources)?;
    let files = NodeFiles::read(&loaded)?;
    Ok((loaded, files))
}

fn describe(file: &std::path::Path) -> Done {
    let (_, files) = files(file)?;
    output::put(&record::text(&record::of(&files)))?;
    Ok(0)
}

fn look(command: &ConfigCommand) -> Done {
    match command {
        ConfigCommand::Print { file } => {
            let sources = Sources::of_process(Some(file), client::RESERVED)?;
            let loaded: NodeConfig = config::load(&sources)?;
            output::put(&config::print(&loaded)?)?
        }
        ConfigCommand::Check { file } => {
            let (_, files) = files(file)?;
            let who = files.credentials.identity().short();
            output::put(&format!("ok: {who} of organism {}\n", files.organism))?
        }
    };
    Ok(0)
}
