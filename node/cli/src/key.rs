//! `redlatch key`: keys of those who sign.

use std::path::PathBuf;

use clap::Subcommand;
use redlatch_link::{keys, world};

use crate::answer::NewKey;
use crate::output::Format;
use crate::{Done, output};

#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    /// Draw an Ed25519 signing key. It is nobody's until it is enrolled.
    New {
        /// Where it is written, readable by its owner alone.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
}

pub(crate) fn run(command: &KeyCommand, format: Format) -> Done {
    let KeyCommand::New { out } = command;
    let key = keys::create_key(out, &mut world::rng())?;
    let answer = NewKey {
        public_key: key.public_key().to_string(),
        file: out.display().to_string(),
    };
    output::print(format, &answer, |answer| {
        output::lines(&[
            ("public key", answer.public_key.clone()),
            ("file", answer.file.clone()),
        ])
    })?;
    Ok(0)
}
