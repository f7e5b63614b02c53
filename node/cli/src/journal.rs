//! `redlatch journal tail`: leaves as they stand in a node's journal, unproven.

use clap::Subcommand;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_proto::v1::JournalLeaf;
use redlatch_types::Canonical;
use redlatch_types::event::Event;

use crate::answer::Leaf;
use crate::client::Client;
use crate::output::{Format, Reader};
use crate::{Common, Done, describe, output};

/// Leaves shown without `--from`.
const LAST: u64 = 20;

#[derive(Subcommand)]
pub(crate) enum JournalCommand {
    /// Show the last leaves, or those from a position on.
    Tail {
        /// First position.
        #[arg(long, value_name = "POSITION")]
        from: Option<u64>,
        /// Go on with what is appended.
        #[arg(long)]
        follow: bool,
    },
}

pub(crate) async fn run(command: &JournalCommand, common: &Common) -> Done {
    let JournalCommand::Tail { from, follow } = command;
    let client = Client::current(common, "operator").await?;
    let from = match from {
        Some(from) => *from,
        None => {
            let size = client.status().await?.record().tree_size;
            size.saturating_sub(LAST)
        }
    };
    let mut leaves = client.nodes.journal(from, *follow, client.deadline).await?;
    loop {
        match leaves.message().await {
            Ok(Some(leaf)) => {
                if show(&leaf, common.output)? == Reader::Gone {
                    return Ok(0);
                }
            }
            Ok(None) => return Ok(0),
            Err(status) => {
                let text = format!("the stream ended: {}", status.message());
                return Err(Failure::new(ExitCode::Unavailable, text)
                    .hint("run it again with --from the next position"));
            }
        }
    }
}

fn show(leaf: &JournalLeaf, format: Format) -> Result<Reader, Failure> {
    let event = Event::from_canonical(&leaf.leaf).map_err(|fault| {
        let text = format!(
            "leaf {} is no event that this build knows: {fault}",
            leaf.position
        );
        Failure::new(ExitCode::Error, text).hint("use the release that the nodes run")
    })?;
    let shown = Leaf {
        position: leaf.position.into(),
        told: describe::told(&event),
    };
    output::print(format, &shown, |shown| {
        let (position, word) = (leaf.position, event.word());
        format!(
            "{position:>8}  {word:<22} {}\n",
            describe::line(&shown.told)
        )
    })
}
