//! `redlatch trust-policy update`: leads a trust policy from the roster it is of to the one in force (DESIGN D4).
//!
//! ```text
//!   genesis ─▶ rosters, each proven by the one before ◀─ links, shown by any node
//!   policy file ── of one of them? not of a later one? ──▶ policy of the last one ─▶ the file, whole or not at all
//! ```
//!
//! Nobody is asked for trust: nodes show links, and what they show is verified here, offline. A file that is
//! ahead of what is shown is left alone.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};
use redlatch_types::RosterEpoch;
use redlatch_types::lineage::Lineage;
use redlatch_types::policy::{Group, Policy};

use crate::answer::PolicyUpdated;
use crate::client::Client;
use crate::{Common, Done, output, receipt};

/// Begins the line by which a file says of which roster it is.
const MARK: &str = "# roster ";

#[derive(Subcommand)]
pub(crate) enum TrustPolicyCommand {
    /// Follow the changes of the roster, and write the policy of the last one that is proven.
    Update(Update),
}

#[derive(Args)]
pub(crate) struct Update {
    /// The policy file; the configured one if not named.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

pub(crate) async fn run(command: &TrustPolicyCommand, common: &Common) -> Done {
    let TrustPolicyCommand::Update(arguments) = command;
    let mut client = Client::open(common, "operator")?;
    let path = arguments.policy.clone();
    let path = path.unwrap_or_else(|| client.policy_file().to_owned());
    let old = receipt::policy(&path)?;
    let mark = marked(&path)?;
    client.follow().await?;
    let update = prepare(&old, mark, client.rosters())?;
    if update.policy != old || mark != Some(update.epoch) {
        let text = format!("{MARK}{}\n{}", update.epoch, update.policy);
        file::replace_file(&path, text.as_bytes(), Access::Public)?;
    }
    let answer = answer(&path, &old, &update);
    output::print(common.output, &answer, text)?;
    Ok(0)
}

/// What a policy becomes.
#[derive(Debug, PartialEq, Eq)]
struct Prepared {
    epoch: RosterEpoch,
    policy: Policy,
}

/// Why a policy is not updated. The file stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum NotUpdated {
    /// The file is of a later roster than anybody has proven.
    #[error("the policy is of roster {file}, and the nodes prove no more than roster {proven}")]
    Shorter {
        /// What the file says.
        file: RosterEpoch,
        /// How far the chain leads.
        proven: RosterEpoch,
    },
    /// Its keys are of no roster of this organism, or it is of another journal.
    #[error("{0}")]
    Strange(redlatch_types::lineage::StrangePolicy),
}

impl From<NotUpdated> for Failure {
    fn from(error: NotUpdated) -> Failure {
        let failure = Failure::new(ExitCode::Refused, format!("refused: {error}"));
        match error {
            NotUpdated::Shorter { .. } => failure.hint(
                "the nodes that answered are behind, or hide changes: ask again when others answer",
            ),
            NotUpdated::Strange(_) => {
                failure.hint("start from the trust policy that was published with this genesis")
            }
        }
    }
}

fn prepare(
    old: &Policy,
    mark: Option<RosterEpoch>,
    rosters: &Lineage,
) -> Result<Prepared, NotUpdated> {
    let proven = rosters.epoch();
    if let Some(file) = mark.filter(|file| *file > proven) {
        return Err(NotUpdated::Shorter { file, proven });
    }
    Ok(Prepared {
        epoch: proven,
        policy: rosters.policy(old).map_err(NotUpdated::Strange)?,
    })
}

/// Of which roster the file says that it is. A file without the line was published with a genesis, or by hand.
fn marked(path: &Path) -> Result<Option<RosterEpoch>, Failure> {
    let bytes = file::read_file(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut marks = text.lines().filter_map(|line| line.strip_prefix(MARK));
    let Some(mark) = marks.next() else {
        return Ok(None);
    };
    let epoch = mark.trim().parse().map(RosterEpoch);
    epoch.map(Some).map_err(|_| {
        let text = format!("{}: `{MARK}{mark}` names no roster", path.display());
        Failure::new(ExitCode::Usage, text)
    })
}

/// Labels of the nodes, and how many of them must have signed.
fn group(group: &Group) -> String {
    let labels: Vec<&str> = group.members.iter().map(|it| it.label.as_str()).collect();
    format!("{} of {}", group.threshold, labels.join(" "))
}

fn answer(path: &Path, old: &Policy, update: &Prepared) -> PolicyUpdated {
    let keys = |policy: &Policy| -> Vec<(String, String)> {
        let groups = [Some(policy.nodes()), policy.witnesses()];
        let members = groups.into_iter().flatten().flat_map(|it| &it.members);
        members
            .map(|it| (it.label.clone(), it.key.to_string()))
            .collect()
    };
    let (before, after) = (keys(old), keys(&update.policy));
    let only = |of: &[(String, String)], not: &[(String, String)]| {
        let new = of.iter().filter(|it| !not.contains(it));
        new.map(|(label, _)| label.clone()).collect()
    };
    PolicyUpdated {
        policy: path.display().to_string(),
        roster_epoch: update.epoch.0.into(),
        changed: update.policy != *old,
        nodes: group(update.policy.nodes()),
        witnesses: update.policy.witnesses().map(group).unwrap_or_default(),
        added: only(&after, &before),
        removed: only(&before, &after),
    }
}

fn text(answer: &PolicyUpdated) -> String {
    let list = |names: &[String]| match names {
        [] => "-".to_owned(),
        names => names.join(" "),
    };
    let state = if answer.changed { "updated" } else { "current" };
    let mut pairs = vec![
        (state, answer.policy.clone()),
        ("roster", answer.roster_epoch.to_string()),
        ("nodes", answer.nodes.clone()),
    ];
    if !answer.witnesses.is_empty() {
        pairs.push(("witnesses", answer.witnesses.clone()));
    }
    pairs.push(("added", list(&answer.added)));
    pairs.push(("removed", list(&answer.removed)));
    output::lines(&pairs)
}
