//! `redlatch demo`: the product's main job on a development organism of its own, told as a timeline.
//!
//! ```text
//!   init, dev ─▶ nine processes ◀── land, gate attest, red raise: this tool, as a person would call it
//!                    │
//!                    └─ leaves of the journal, signed records ─▶ timeline, assertions ─▶ exit code
//! ```
//!
//! Every line with a position was read back from the nodes' journals; nothing is told that was not read. The
//! demo holds no authority and knows no short cut: what it asserts here, anybody can read. It ends with 0
//! only if every assertion held.

mod evidence;
mod journal;
mod landing;
mod repository;
mod stage;
mod stop;
mod strict;
mod timeline;
mod tool;

use clap::Args;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::world;

use crate::git::Git;
use crate::output::Format;
use crate::{Common, Done, output};
use repository::Repository;
use stage::Stage;
use timeline::scene;

/// Most verifiers that may dissent before a landing is refused.
const DISSENTS_MAX: u8 = 1;

#[derive(Args)]
pub(crate) struct DemoArguments {
    /// How many verifiers have a stricter size rule in their own configuration; with 2 the landing is refused.
    #[arg(long, value_name = "VERIFIERS", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=4))]
    strict: u8,
    /// Keep the organism's folder and say where it is.
    #[arg(long)]
    keep: bool,
}

pub(crate) async fn run(arguments: &DemoArguments, common: &Common) -> Done {
    if common.output == Format::Json {
        return Err(
            Failure::new(ExitCode::Usage, "a demo is for people: it has no JSON")
                .hint("redlatch -o json journal tail prints what happened for programs"),
        );
    }
    let place = tempfile::Builder::new()
        .prefix("redlatch-demo-")
        .tempdir()
        .map_err(|error| Failure::new(ExitCode::Error, format!("no temporary folder: {error}")))?;
    // Nothing is started for a demo that cannot go on.
    Git::in_folder(place.path()).run(&["version"])?;
    let mut stage = Stage::new(place.path())?;
    let played = tokio::select! {
        biased;
        () = world::stop_signal() => Err(Failure::new(ExitCode::Error, "interrupted")),
        played = play(&mut stage, arguments) => played,
    };
    let closed = stage.close().await;
    let kept = if arguments.keep || played.is_err() || closed.is_err() {
        Some(place.keep())
    } else {
        None
    };
    if let Err(failure) = played.and(closed) {
        let logs = kept.map(|it| it.join("organism/logs").display().to_string());
        return Err(failure.hint(format!("logs: {}", logs.unwrap_or_default())));
    }
    if let Some(kept) = kept {
        output::put(&format!("\nkept: {}\n", kept.display()))?;
    }
    output::put("\nevery assertion held\n")?;
    Ok(0)
}

async fn play(stage: &mut Stage, arguments: &DemoArguments) -> Result<(), Failure> {
    scene(
        "a development organism: nine processes with their own keys, and a git repository behind a gate",
    )?;
    stage.open(arguments.strict).await?;
    let repository = Repository::create(stage).await?;
    if arguments.strict > DISSENTS_MAX {
        return strict::play(stage, &repository, arguments.strict).await;
    }
    landing::one(stage, &repository, arguments.strict).await?;
    landing::without_its_leader(stage, &repository).await?;
    stop::play(stage, &repository).await
}
