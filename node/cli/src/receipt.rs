//! `redlatch receipt get` and `verify`. Getting needs the cluster; verifying needs two files and nothing else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use redlatch_journal::IndexKey;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file;
use redlatch_proto::v1::leaf_at::At;
use redlatch_types::event::Event;
use redlatch_types::policy::{Demand, Policy};
use redlatch_types::receipt::{Receipt, ReceiptError, Verified, verify_for};
use redlatch_types::{Canonical, IntentDigest, LatchNumber, MarkerNumber, TickNumber};

use crate::answer::{Invalid, Proof, Told, Valid};
use crate::client::Client;
use crate::output::Format;
use crate::{Common, Done, describe, output};

/// Exit codes of `receipt verify` (DESIGN §11); bad usage is 2.
const INVALID: u8 = 1;
const POLICY_NOT_MET: u8 = 3;
/// What a receipt does not say.
const HISTORY_ONLY: &str = "This proves history only. Whether anything has been latched since is a question for the nodes.\n";

#[derive(Subcommand)]
pub(crate) enum ReceiptCommand {
    /// Print the receipt of one leaf, once a majority of the nodes has cosigned it.
    Get {
        #[command(flatten)]
        leaf: Leaf,
        /// How long to wait for the cosignatures, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 10)]
        wait: u64,
    },
    /// Verify a receipt offline: exit code 0 valid, 1 invalid, 2 usage, 3 policy not met.
    Verify {
        /// The receipt.
        receipt: PathBuf,
        /// The trust policy that says whose signatures count.
        #[arg(long, value_name = "FILE")]
        policy: PathBuf,
    },
}

/// Which leaf.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Leaf {
    /// The freeze of an intent.
    #[arg(long, value_name = "DIGEST")]
    intent: Option<IntentDigest>,
    /// A commit marker.
    #[arg(long, value_name = "NUMBER")]
    marker: Option<u64>,
    /// A latch.
    #[arg(long, value_name = "NUMBER")]
    latch: Option<u64>,
    /// A tick.
    #[arg(long, value_name = "NUMBER")]
    tick: Option<u64>,
    /// Any leaf.
    #[arg(long, value_name = "POSITION")]
    position: Option<u64>,
}

impl Leaf {
    /// None only if clap's group lets none through.
    fn at(&self) -> Option<At> {
        let key = |key: IndexKey| At::IndexKey(key.to_bytes());
        let Leaf {
            intent,
            marker,
            latch,
            tick,
            position,
        } = self;
        intent
            .map(|digest| key(IndexKey::Frozen(digest)))
            .or(marker.map(|number| key(IndexKey::Marker(MarkerNumber(number)))))
            .or(latch.map(|number| key(IndexKey::Latch(LatchNumber(number)))))
            .or(tick.map(|number| key(IndexKey::Tick(TickNumber(number)))))
            .or(position.map(At::Position))
    }
}

pub(crate) async fn run(command: &ReceiptCommand, common: &Common) -> Done {
    match command {
        ReceiptCommand::Get { leaf, wait } => get(leaf, *wait, common).await,
        ReceiptCommand::Verify { receipt, policy } => verify(receipt, policy, common.output),
    }
}

async fn get(leaf: &Leaf, wait: u64, common: &Common) -> Done {
    let at = leaf
        .at()
        .ok_or_else(|| Failure::new(ExitCode::Usage, "no leaf is named"))?;
    let client = Client::current(common, "operator").await?;
    let receipt = client.nodes.receipt(at, Duration::from_secs(wait)).await?;
    output::print(common.output, &Proof { receipt }, |it| it.receipt.clone())?;
    Ok(0)
}

fn verify(receipt: &Path, policy: &Path, format: Format) -> Done {
    let policy = self::policy(policy)?;
    let bytes = read(receipt)?;
    let judged = Receipt::parse(&bytes)
        .map_err(ReceiptError::from)
        .and_then(|receipt| {
            let event = Event::from_canonical(&receipt.leaf).ok();
            let demand = demand(event.as_ref());
            verify_for(&receipt, &policy, demand).map(|verified| (verified, event))
        });
    match judged {
        Ok((verified, event)) => {
            show(&verified, event.as_ref(), format)?;
            Ok(0)
        }
        Err(error) => {
            let code = match &error {
                ReceiptError::Invalid(_) => INVALID,
                ReceiptError::NotMet(_) => POLICY_NOT_MET,
            };
            let text = error.to_string();
            match format {
                Format::Json => {
                    let answer = Invalid {
                        valid: false,
                        reason: text,
                    };
                    output::print(format, &answer, |it| it.reason.clone())?;
                }
                Format::Table => output::note(&text),
            }
            Ok(code)
        }
    }
}

/// The trust policy in a file.
///
/// # Errors
/// [`Failure`] if it cannot be read, or must not be used.
pub(crate) fn policy(file: &Path) -> Result<Policy, Failure> {
    Policy::parse(&read(file)?).map_err(|error| {
        let text = format!("{} must not be used: {error}", file.display());
        Failure::new(ExitCode::Usage, text)
            .hint("use the trust policy that was published for the organism")
    })
}

/// Freezes of intents and stops may be proven by the nodes alone (D4); everything else, and what this build
/// cannot read, needs the policy's quorum.
pub(crate) fn demand(event: Option<&Event>) -> Demand {
    match event {
        Some(event) if event.is_stop() || matches!(event, Event::Frozen(..)) => Demand::Nodes,
        _ => Demand::Quorum,
    }
}

fn show(
    verified: &Verified,
    event: Option<&Event>,
    format: Format,
) -> Result<output::Reader, Failure> {
    let group = match verified.demand {
        Demand::Quorum => "quorum",
        Demand::Nodes => "nodes",
    };
    let seen = output::time(verified.time_s.saturating_mul(1_000));
    let word = event.map_or("unknown to this build", Event::word);
    let answer = Valid {
        valid: true,
        proves: "history only".to_owned(),
        origin: verified.origin.to_string(),
        position: verified.index.into(),
        tree_size: verified.size.into(),
        root: verified.root.to_string(),
        seen_at: seen,
        group: group.to_owned(),
        told: event.map_or(Told::Unknown, describe::told),
    };
    output::print(format, &answer, |answer| {
        let mut pairs = vec![
            ("valid", format!("yes, by the policy's {group}")),
            ("origin", answer.origin.clone()),
            (
                "position",
                format!("{} of {} leaves", answer.position, answer.tree_size),
            ),
            ("root", answer.root.clone()),
            ("seen at", answer.seen_at.clone()),
            ("event", word.to_owned()),
        ];
        let fields = describe::fields(&answer.told);
        for (key, text) in &fields {
            pairs.push((key.as_str(), text.clone()));
        }
        output::lines(&pairs) + HISTORY_ONLY
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    file::read_file(path).map_err(|error| {
        let failure = Failure::from(error);
        Failure {
            code: ExitCode::Usage,
            ..failure
        }
    })
}

#[cfg(test)]
mod tests {
    use redlatch_types::{Digest, OutboxEpoch, TransactionId};

    use super::*;

    #[test]
    fn only_freezes_and_stops_are_proven_by_nodes_alone() {
        let id = TransactionId(Digest::ZERO);
        let stop = Event::SafetyTerminal(LatchNumber(1), id);
        assert_eq!(demand(Some(&stop)), Demand::Nodes);
        let positive = Event::EffectWithheld(id, MarkerNumber(1));
        assert_eq!(demand(Some(&positive)), Demand::Quorum);
        let audit = Event::RedChained(OutboxEpoch(1), Digest::ZERO);
        assert_eq!(demand(Some(&audit)), Demand::Quorum);
        assert_eq!(demand(None), Demand::Quorum);
    }
}
