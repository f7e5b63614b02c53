//! `redlatch root`: an act of the offline root, from its draft to the journal (DESIGN §6).
//!
//! ```text
//!   where the nodes are        where the root key is                       where the nodes are
//!   draft: what is in force ─▶ sign: every term shown, the word `sign` ─▶ bring ─▶ everything frozen
//!          and what changes                                                          └─▶ redlatch propose reset
//! ```
//!
//! The draft holds the whole record, so the root's machine needs no network: what is signed is what is shown.
//! An act grants nothing. It raises the organism's epoch and freezes everything until persons reset it.

mod draft;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use redlatch_journal::IndexKey;
use redlatch_journal::summary::root_act;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};
use redlatch_link::keys;
use redlatch_link::nodes::CallError;
use redlatch_proto::v1::leaf_at::At;
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::RootActV1;
use redlatch_types::{Canonical, Envelope, Refusal};

use crate::answer::{Acted, Drafted, Signed};
use crate::client::{Client, another, refused};
use crate::output::{self, Format};
use crate::{Common, Done};
use draft::{Changes, Draft};

#[derive(Subcommand)]
pub(crate) enum RootCommand {
    /// Write an act that changes what is named and leaves everything else as it is in force.
    Draft(Box<DraftArguments>),
    /// Show every term of a draft and sign it with the root's key. Asks no node.
    Sign(SignArguments),
    /// Bring a signed act to the nodes. From then on everything is frozen until persons reset it.
    Bring {
        /// The signed act.
        file: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct DraftArguments {
    /// Where the draft is written.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    changes: Changes,
}

#[derive(Args)]
pub(crate) struct SignArguments {
    /// The draft.
    file: PathBuf,
    /// The root's signing key.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Where the signed act is written.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Do not ask; whoever runs this has read the terms.
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn run(command: &RootCommand, common: &Common) -> Done {
    match command {
        RootCommand::Draft(arguments) => draft(arguments, common).await,
        RootCommand::Sign(arguments) => sign(arguments, common.output),
        RootCommand::Bring { file } => bring(file, common).await,
    }
}

async fn draft(arguments: &DraftArguments, common: &Common) -> Done {
    let client = Client::current(common, "operator").await?;
    let in_force = client.in_force().await?;
    // The root signs every key in it: none of them is one node's word.
    if in_force.roster != *client.rosters().roster() {
        let text = "the roster that a node tells is not the one that is proven";
        return Err(Failure::new(ExitCode::Refused, text)
            .hint("bring the trust policy up to date: redlatch trust-policy update"));
    }
    let scope = *client.status().await?.scope();
    let draft = Draft {
        scope,
        act: arguments.changes.act(&in_force)?,
    };
    file::create_file(&arguments.out, draft.text().as_bytes(), Access::Public)?;
    let answer = Drafted {
        act: draft.act.number.into(),
        file: arguments.out.display().to_string(),
    };
    output::print(common.output, &answer, |answer| {
        output::lines(&[
            ("act", answer.act.to_string()),
            ("draft", answer.file.clone()),
        ])
    })?;
    output::note("next, where the root key is: redlatch root sign DRAFT --key KEY --out ACT");
    Ok(0)
}

fn sign(arguments: &SignArguments, format: Format) -> Done {
    let draft = Draft::read(&arguments.file)?;
    let key = keys::load_key(&arguments.key)?;
    output::note(&format!(
        "organism: {}\norganism epoch: {}",
        draft.scope.organism_id.0, draft.scope.organism_epoch
    ));
    let terms = root_act(&draft.act);
    let terms: Vec<String> = terms.lines().map(output::clean).collect();
    output::note(&terms.join("\n"));
    output::note(&format!("signed by: {}", key.public_key()));
    if !arguments.yes && !confirmed()? {
        return Err(Failure::new(ExitCode::Refused, "nothing was signed"));
    }
    let envelope = Envelope::seal(draft.scope, &key, &draft.act);
    file::create_file(&arguments.out, &envelope.to_canonical(), Access::Public)?;
    let answer = Signed {
        act: draft.act.number.into(),
        by: key.public_key().to_string(),
        file: arguments.out.display().to_string(),
    };
    output::print(format, &answer, |answer| {
        output::lines(&[
            ("act", answer.act.to_string()),
            ("signed by", answer.by.clone()),
            ("file", answer.file.clone()),
        ])
    })?;
    output::note("next, where the nodes are: redlatch root bring ACT");
    Ok(0)
}

/// Asks the person; only the word itself is a yes.
fn confirmed() -> Result<bool, Failure> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::new(ExitCode::Usage, "nobody is there to be asked")
            .hint("run it in a terminal, or say --yes"));
    }
    let _ = write!(io::stderr().lock(), "type `sign` to sign: ");
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    read.map_err(|error| Failure::new(ExitCode::Error, format!("no answer: {error}")))?;
    Ok(line.trim() == "sign")
}

async fn bring(path: &Path, common: &Common) -> Done {
    let bytes = file::read_file(path)?;
    let unreadable = || {
        let text = format!("{} is no signed act of a root", path.display());
        Failure::new(ExitCode::Usage, text).hint("`redlatch root sign` makes one")
    };
    let envelope = Envelope::from_canonical(&bytes).map_err(|_| unreadable())?;
    let signed = envelope.open::<RootActV1>().map_err(|_| unreadable())?;
    let act = signed.record();
    let client = Client::current(common, "operator").await?;
    let command = RawCommand::RootAct(envelope.clone());
    let submitted = client.submit(&command).await?;
    match submitted.accepted() {
        Ok(Accepted::RootActed(number)) if number == act.number => {}
        Ok(other) => return Err(another(&other)),
        // Sent twice, or by two people: the second time it has happened already.
        Err(refusal) if follows_itself(refusal) && acted(&client, act, &envelope).await? => {}
        Err(refusal) => return Err(refused(refusal)),
    }
    let answer = Acted {
        act: act.number.into(),
        kernel: act.kernel.digest().to_string(),
    };
    output::print(common.output, &answer, |answer| {
        output::lines(&[
            ("acted", answer.act.to_string()),
            ("kernel", answer.kernel.clone()),
        ])
    })?;
    output::note(
        "everything is frozen; sentinel, actuator and verifiers end once and must be started again; \
         then: redlatch propose reset --cause TEXT",
    );
    Ok(0)
}

/// What an act meets that is in force already: it was signed for the epoch and kernel before it.
fn follows_itself(refusal: Refusal) -> bool {
    matches!(refusal, Refusal::WrongState | Refusal::WrongOrganism)
}

/// Whether the journal holds exactly this act under exactly this signature.
async fn acted(client: &Client, act: &RootActV1, envelope: &Envelope) -> Result<bool, Failure> {
    let at = At::IndexKey(IndexKey::RootAct(act.number).to_bytes());
    match client.nodes.leaf(at, client.deadline).await {
        Ok((_, leaf)) => Ok(matches!(
            Event::from_canonical(&leaf),
            Ok(Event::RootActed(_, _, held)) if held == *envelope
        )),
        Err(CallError::Absent(_)) => Ok(false),
        Err(other) => Err(other.into()),
    }
}
