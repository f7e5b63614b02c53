//! `redlatch red`: the safety officer's word to the sentinel, and what is stopped.
//!
//! ```text
//!   red raise ─▶ signed order ─▶ sentinel: durable in its outbox ─▶ answered
//!   red show  ─▶ sentinel (outbox) · journal (latches, unproven) · actuator (HOLD, signed)
//! ```
//!
//! Raising needs the sentinel and nothing else. An order has an id: the same order again leads to the same
//! RED, so it may be repeated when nobody knows what became of it.

mod show;

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use redlatch_journal::IndexKey;
use redlatch_link::client_type;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::transport::{self, Failed};
use redlatch_link::world::{self, Monotonic};
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_proto::v1::leaf_at::At;
use redlatch_proto::v1::sentinel_client::SentinelClient;
use redlatch_types::event::Event;
use redlatch_types::mandate::NegativeVerb;
use redlatch_types::records::{ActionClass, RaiseOrderV1, RedScope, Text};
use redlatch_types::{Canonical, Digest, Envelope};
use tonic::Status;

use crate::answer::Raised;
use crate::client::{Client, random};
use crate::{Common, Done, output};

/// Pause before an order is brought again.
const AGAIN: Duration = Duration::from_millis(200);

type Sentinel = client_type!(SentinelClient);

#[derive(Subcommand)]
pub(crate) enum RedCommand {
    /// Order the sentinel to raise RED. Works with the whole cluster down.
    Raise(Raise),
    /// Show the sentinel's outbox, the journal's latches and what the actuator holds.
    Show,
}

#[derive(Args)]
pub(crate) struct Raise {
    /// What to stop: intent:DIGEST, mission:NAME, subject:NAME, action:CLASS or everything.
    #[arg(long)]
    scope: ScopeArgument,
    /// Why, for people.
    #[arg(long)]
    reason: String,
    /// What to do beside freeze and fence: revoke, abort_prepare, demote or rollback; may be repeated.
    #[arg(long = "verb", value_name = "VERB", value_parser = verb)]
    verbs: Vec<NegativeVerb>,
    /// Repeat the order of this id.
    #[arg(long, value_name = "HEX")]
    order_id: Option<Digest>,
}

/// A scope as it is written.
#[derive(Clone)]
struct ScopeArgument(RedScope);

impl FromStr for ScopeArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<ScopeArgument, String> {
        let bad = |error: &dyn std::fmt::Display| format!("{text}: {error}");
        let scope = match text.split_once(':') {
            None if text == "everything" => RedScope::Everything,
            Some(("intent", id)) => RedScope::Intent(id.parse().map_err(|error| bad(&error))?),
            Some(("mission", id)) => RedScope::Mission(id.parse().map_err(|error| bad(&error))?),
            Some(("subject", id)) => RedScope::Subject(id.parse().map_err(|error| bad(&error))?),
            Some(("action", word)) => {
                let mut classes = ActionClass::ALL.iter();
                let class = classes.find(|class| class.word() == word);
                RedScope::ActionClass(*class.ok_or_else(|| bad(&"no class of actions"))?)
            }
            _ => {
                return Err(bad(
                    &"not intent:, mission:, subject:, action: or everything",
                ));
            }
        };
        Ok(ScopeArgument(scope))
    }
}

fn verb(text: &str) -> Result<NegativeVerb, String> {
    let mut verbs = (1..).map_while(NegativeVerb::from_number);
    verbs
        .find(|verb| verb.to_string() == text)
        .ok_or_else(|| format!("{text} is no negative verb"))
}

/// A scope as people read it.
pub(crate) fn scope_text(scope: &RedScope) -> String {
    match scope {
        RedScope::Intent(id) => format!("intent:{id}"),
        RedScope::Mission(id) => format!("mission:{id}"),
        RedScope::Subject(id) => format!("subject:{id}"),
        RedScope::ActionClass(class) => format!("action:{class}"),
        RedScope::Everything => "everything".to_owned(),
    }
}

pub(crate) async fn run(command: &RedCommand, common: &Common) -> Done {
    match command {
        // No node is asked anything first: a stop must be ordered with the whole cluster down.
        RedCommand::Raise(arguments) => {
            raise(&Client::open(common, "operator")?, arguments, common).await
        }
        RedCommand::Show => show::run(&Client::current(common, "operator").await?, common).await,
    }
}

async fn raise(client: &Client, arguments: &Raise, common: &Common) -> Done {
    if arguments.reason.trim().is_empty() {
        return Err(Failure::new(ExitCode::Usage, "an order says why")
            .hint("give the reason as people will read it"));
    }
    let officer = client.key()?;
    let order_id = arguments.order_id.unwrap_or_else(random);
    let order = RaiseOrderV1 {
        order_id,
        scope: arguments.scope.0.clone(),
        verbs: arguments.verbs.clone(),
        rollback_candidate_plan_digest_optional: plan(client, arguments).await?,
        reason: Text::lossy(&arguments.reason),
    };
    // Who is an officer now says the sentinel, which has followed the journal.
    let sealed = Envelope::seal(client.genesis.scope(), &officer, &order).to_canonical();
    let repeat = format!("repeat with --order-id {order_id}: it leads to the same RED");
    let raised = bring(client, sealed).await.map_err(|failure| {
        // What was refused is refused again.
        if failure.code == ExitCode::Refused {
            failure
        } else {
            failure.hint(repeat)
        }
    })?;
    let answer = Raised {
        outbox_epoch: raised.outbox_epoch.into(),
        order_id: order_id.to_string(),
        scope: scope_text(&order.scope),
    };
    output::print(common.output, &answer, |answer| {
        let number = answer.outbox_epoch;
        output::lines(&[
            ("RED", format!("{number}, durable in the sentinel's outbox")),
            ("scope", answer.scope.clone()),
            ("order", answer.order_id.clone()),
            ("next", "redlatch red show".to_owned()),
        ])
    })?;
    Ok(0)
}

/// The plan bound in the intent, if rollback is asked for: nothing else may be rolled back.
async fn plan(client: &Client, arguments: &Raise) -> Result<Option<Digest>, Failure> {
    if !arguments.verbs.contains(&NegativeVerb::Rollback) {
        return Ok(None);
    }
    let RedScope::Intent(intent) = arguments.scope.0 else {
        return Err(
            Failure::new(ExitCode::Usage, "rollback needs --scope intent:DIGEST")
                .hint("only the plan bound in one intent can be rolled back"),
        );
    };
    let at = At::IndexKey(IndexKey::Frozen(intent).to_bytes());
    let (_, leaf) = client.nodes.leaf(at, client.deadline).await?;
    match Event::from_canonical(&leaf) {
        Ok(Event::Frozen(_, _, frozen, _)) if frozen.digest() == intent => {
            Ok(Some(frozen.rollback.digest(&frozen.payload)))
        }
        _ => Err(Failure::new(
            ExitCode::Error,
            "a node showed another leaf than the intent's freeze",
        )),
    }
}

/// Brings an order until there is an answer or the deadline has passed.
async fn bring(client: &Client, order: Vec<u8>) -> Result<v1::RaiseResponse, Failure> {
    let mut sentinel = sentinel(client)?;
    let until = Monotonic::now().plus(client.deadline);
    let mut uncertain = false;
    loop {
        let left = until.since(Monotonic::now());
        let request = v1::RaiseRequest {
            order: order.clone(),
        };
        let failure = match world::timeout(left, sentinel.raise(request)).await {
            Ok(Ok(answer)) => return Ok(answer.into_inner()),
            Ok(Err(status)) => {
                uncertain |=
                    NoAnswer::of(&status).is_none() && transport::failed(&status) == Failed::CutOff;
                let failure = of_status(&status);
                if failure.code == ExitCode::Refused {
                    return Err(failure);
                }
                failure
            }
            Err(late) => {
                uncertain = true;
                Failure::new(ExitCode::Unavailable, late.to_string())
            }
        };
        if until.since(Monotonic::now()) <= AGAIN {
            let code = if uncertain {
                ExitCode::Indeterminate
            } else {
                ExitCode::Unavailable
            };
            return Err(Failure::new(
                code,
                format!("the sentinel: {}", failure.text),
            ));
        }
        world::sleep(AGAIN).await;
    }
}

fn sentinel(client: &Client) -> Result<Sentinel, Failure> {
    let link = client.sentinel()?;
    let made = SentinelClient::with_interceptor(link.channel(), link.introduction());
    Ok(made)
}

/// What a status means for the one who asked sentinel or actuator.
fn of_status(status: &Status) -> Failure {
    if let Failed::NotTrusted(reason) = transport::failed(status) {
        return reason.into();
    }
    let text = transport::words(status);
    let refused = matches!(
        NoAnswer::of(status),
        Some(NoAnswer::Denied | NoAnswer::Invalid)
    );
    if refused {
        Failure::new(ExitCode::Refused, format!("refused: {text}"))
    } else {
        Failure::new(ExitCode::Unavailable, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_as_it_is_written() {
        let intent = format!("intent:{}", "ab".repeat(32));
        for text in [
            intent.as_str(),
            "mission:m1",
            "subject:agent",
            "action:land",
            "everything",
        ] {
            let scope: ScopeArgument = text.parse().unwrap();
            assert_eq!(scope_text(&scope.0), text);
        }
        for bad in ["", "intent:ab", "action:fly", "subject:A", "all", "grant:x"] {
            assert!(bad.parse::<ScopeArgument>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_negative_verbs_can_be_asked_for() {
        assert_eq!(verb("revoke"), Ok(NegativeVerb::Revoke));
        assert!(verb("land").is_err());
    }

    #[test]
    fn a_refused_order_is_no_uncertain_one() {
        let denied = of_status(&NoAnswer::Denied.status("unauthorized"));
        assert_eq!(denied.code, ExitCode::Refused);
        let stopping = of_status(&NoAnswer::Unavailable.status("stopping"));
        assert_eq!(stopping.code, ExitCode::Unavailable);
    }
}
