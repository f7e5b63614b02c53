//! `redlatch effect`: an enrolled effector claims an effect, makes it, and reports how it ended (DESIGN §5.7, §8).
//!
//! ```text
//!   claim: proven marker ─▶ EffectClaim, applied ─▶ fresh statuses of all nodes, the actuator's beat
//!                                                     └─▶ token: now make it
//!   report: done, failed or outcome_unknown ─▶ the resource is free again
//! ```
//!
//! The effect itself is the effector's: it hands the token to what it changes, which refuses any token that is
//! not higher than the last. A claim repeated is the same claim: its key follows from the marker.
//!
//! No node is believed: the voters and how many are more than half follow from the roster that is proven from
//! the genesis on, the history from the marker's receipt. A landing is a gate's, never an effector's.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Subcommand;
use redlatch_journal::IndexKey;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::nodes::CallError;
use redlatch_proto::v1::leaf_at::At;
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::{
    CommitMarkerV1, EffectClaimV1, EffectOutcomeV1, OutcomeKind, PositiveAuthorityTransactionV1,
    SovereignActionIntentV1, Text,
};
use redlatch_types::{Bytes, Canonical, Digest, Envelope, IntentDigest, NodeId};

use crate::answer::{Claimed, Reported};
use crate::client::{Client, Signer, another, random, refused};
use crate::gate::core::status::{Judgement, Question, Waiting, judge};
use crate::gate::core::token::Token;
use crate::{Common, Done, output};

/// How long a node may take to say that nothing stands against the effect.
const FRESH: Duration = Duration::from_secs(2);

#[derive(Subcommand)]
pub(crate) enum EffectCommand {
    /// Claim a committed effect. With exit code 0 it may be made now, and only now.
    Claim {
        /// The intent.
        intent: IntentDigest,
    },
    /// Report how a claimed effect ended.
    Report {
        /// The intent.
        intent: IntentDigest,
        /// `done`, `failed` or `outcome_unknown`.
        outcome: OutcomeKind,
        /// Head of the resource as it is now, hexadecimal; the intended one if it is done.
        #[arg(long, value_name = "HEX")]
        head: Option<String>,
        /// A sentence for people.
        #[arg(long, default_value = "")]
        detail: String,
    },
}

/// A committed effect, proven.
struct Committed {
    intent: SovereignActionIntentV1,
    marker: CommitMarkerV1,
    /// History in which the marker is proven.
    history: u64,
}

pub(crate) async fn run(command: &EffectCommand, common: &Common) -> Done {
    let client = Client::current(common, "gate").await?;
    let (signer, _) = client.signer().await?;
    match command {
        EffectCommand::Claim { intent } => {
            let voters = client.voters()?;
            // Before anything is claimed: without it a RED that no node has yet would not be heard.
            client.hold_line()?;
            let committed = Committed::find(&client, *intent).await?;
            claim(&client, &signer, &voters, *intent, &committed, common).await
        }
        EffectCommand::Report {
            intent,
            outcome,
            head,
            detail,
        } => {
            let committed = Committed::find(&client, *intent).await?;
            let head = observed(&committed, *outcome, head.as_deref())?;
            report(
                &client,
                &signer,
                &committed,
                (*outcome, head, detail),
                common,
            )
            .await
        }
    }
}

impl Committed {
    /// Intent and marker; neither is believed without its proof.
    async fn find(client: &Client, digest: IntentDigest) -> Result<Committed, Failure> {
        let at = |key: IndexKey| At::IndexKey(key.to_bytes());
        let (frozen, _) = client.proven(at(IndexKey::Frozen(digest))).await?;
        let capability = match leaf(client, IndexKey::Authorized(digest)).await? {
            Event::Authorized(body) => body.capability_id,
            _ => return Err(not_committed()),
        };
        let id = PositiveAuthorityTransactionV1::id_of(&capability);
        // Looked for before its proof is waited for.
        leaf(client, IndexKey::Committed(id)).await?;
        let (committed, origin) = client.proven(at(IndexKey::Committed(id))).await?;
        match (frozen, committed) {
            (Event::Frozen(found, _, intent, _), Event::Committed(marker))
                if found == digest
                    && intent.digest() == digest
                    && marker.intent_digest == digest =>
            {
                Ok(Committed {
                    intent: *intent,
                    marker: *marker,
                    history: origin.history,
                })
            }
            _ => Err(not_committed()),
        }
    }

    /// Heads before and after, if the effect is an effector's to make.
    fn swap(&self) -> Result<(&Bytes, &Bytes), Failure> {
        let payload = &self.intent.payload;
        let refuse = |text: String| Failure::new(ExitCode::Refused, text);
        match (payload.land(), payload.swap()) {
            (None, Some(swap)) => Ok(swap),
            (Some(_), _) => Err(refuse("land is no effect of an effector".to_owned())
                .hint("its gate claims it when the branch is pushed: redlatch land")),
            (None, None) => {
                let text = format!("{} has no effect outside the journal", payload.class());
                Err(refuse(text).hint("nothing is to be done: it is in force"))
            }
        }
    }

    /// The one claim of this effect.
    fn claim(&self) -> EffectClaimV1 {
        let marker = &self.marker;
        EffectClaimV1 {
            transaction_id: marker.transaction_id,
            marker: marker.marker,
            resource_id: self.intent.payload.resource().id(),
            effect_key: Digest::of_parts(&[
                b"redlatch/v1/effect-key\0",
                &marker.transaction_id.0.0,
                &marker.marker.0.to_be_bytes(),
            ]),
        }
    }
}

/// A leaf, unproven; without one there is no effect.
async fn leaf(client: &Client, key: IndexKey) -> Result<Event, Failure> {
    let at = At::IndexKey(key.to_bytes());
    match client.nodes.leaf(at, client.deadline).await {
        Ok((_, bytes)) => Event::from_canonical(&bytes)
            .map_err(|error| Failure::new(ExitCode::Error, error.to_string())),
        Err(CallError::Absent(_)) => Err(not_committed()),
        Err(other) => Err(other.into()),
    }
}

fn not_committed() -> Failure {
    Failure::new(
        ExitCode::Refused,
        "not committed: there is no effect to make",
    )
}

async fn claim(
    client: &Client,
    signer: &Signer,
    voters: &[(NodeId, &str)],
    intent: IntentDigest,
    committed: &Committed,
    common: &Common,
) -> Done {
    let (old, new) = committed.swap()?;
    let claim = committed.claim();
    let scope = *client.status().await?.scope();
    let command = RawCommand::ClaimEffect(signer.seal(scope, &claim));
    match submit(client, &command).await? {
        Accepted::EffectClaimed(marker) if marker == claim.marker => {}
        other => return Err(another(&other)),
    }
    let token = Token {
        history: committed.history,
        marker: claim.marker,
    };
    client
        .permits(&committed.intent, FRESH)
        .await
        .map_err(not_free)?;
    free(client, voters, intent, token).await?;
    let answer = Claimed {
        intent: intent.to_string(),
        history: token.history.into(),
        marker: token.marker.0.into(),
        effect_key: claim.effect_key.to_string(),
        resource: committed.intent.payload.resource().to_string(),
        old: hex::encode(&old.0),
        new: hex::encode(&new.0),
    };
    output::print(common.output, &answer, |answer| {
        output::lines(&[
            ("claimed", answer.intent.clone()),
            ("resource", answer.resource.clone()),
            ("old", answer.old.clone()),
            ("new", answer.new.clone()),
            ("token", format!("{}.{}", answer.history, answer.marker)),
            ("effect key", answer.effect_key.clone()),
        ])
    })?;
    Ok(0)
}

/// What a claimed effect comes to that is not free. This claim may be a repeat, and the effect be made already.
fn not_free(mut failure: Failure) -> Failure {
    if failure.code == ExitCode::Refused {
        failure.text = format!("claimed, and refused since: {}", failure.text);
        failure.hint(
            "do not make it. Report what is so: `failed` if it was not made, `done` if it was before, \
             `outcome_unknown` if nobody knows",
        )
    } else {
        failure.text = format!("claimed, and not known to be free: {}", failure.text);
        failure.hint("do not make it now; claim again")
    }
}

/// Asks every voter whether anything stands against the effect now: one stop denies, a majority permits.
async fn free(
    client: &Client,
    voters: &[(NodeId, &str)],
    intent: IntentDigest,
    token: Token,
) -> Result<(), Failure> {
    let nonce = random();
    let asked = voters.iter().map(|(id, name)| async move {
        let status = client.nodes.status(name, nonce, Some(intent), FRESH);
        (*id, status.await)
    });
    let mut heard = BTreeMap::new();
    for (id, status) in futures::future::join_all(asked).await {
        if let Ok(status) = status
            && status.record().node_id == id
        {
            heard.insert(id, status.record().clone());
        }
    }
    let roster = client.rosters().roster();
    let question = Question {
        token,
        roster: roster.roster_epoch,
        majority: roster.majority(),
    };
    match judge(&question, &heard, Waiting::Over) {
        Judgement::Permit => Ok(()),
        Judgement::Deny(why) => Err(not_free(Failure::new(ExitCode::Refused, why.to_string()))),
        Judgement::Wait | Judgement::TooFew => {
            let (said, all) = (heard.len(), voters.len());
            let text = format!("only {said} of {all} nodes say so");
            Err(not_free(Failure::new(ExitCode::Unavailable, text)))
        }
    }
}

/// What the resource is at after the effect.
fn observed(
    committed: &Committed,
    outcome: OutcomeKind,
    head: Option<&str>,
) -> Result<Bytes, Failure> {
    let usage = |text: String| Failure::new(ExitCode::Usage, text);
    if let Some(text) = head {
        let bytes = hex::decode(text).map_err(|error| usage(format!("--head: {error}")))?;
        return Ok(Bytes(bytes));
    }
    let swap = committed.intent.payload.swap();
    match (outcome, swap) {
        (OutcomeKind::Done, Some((_, new))) => Ok(new.clone()),
        (OutcomeKind::Failed, Some((old, _))) => Ok(old.clone()),
        _ => Ok(Bytes::default()),
    }
}

async fn report(
    client: &Client,
    signer: &Signer,
    committed: &Committed,
    (outcome, observed_head, detail): (OutcomeKind, Bytes, &str),
    common: &Common,
) -> Done {
    let claim = committed.claim();
    let record = EffectOutcomeV1 {
        transaction_id: claim.transaction_id,
        marker: claim.marker,
        claim_digest: Digest::of(&claim.to_canonical()),
        outcome,
        observed_head,
        detail: Text::lossy(detail),
    };
    let scope = *client.status().await?.scope();
    let envelope: Envelope = signer.seal(scope, &record);
    submit(client, &RawCommand::ReportOutcome(envelope)).await?;
    let answer = Reported {
        transaction: claim.transaction_id.to_string(),
        outcome: outcome.to_string(),
    };
    output::print(common.output, &answer, |answer| {
        output::lines(&[
            ("reported", answer.outcome.clone()),
            ("transaction", answer.transaction.clone()),
        ])
    })?;
    Ok(0)
}

async fn submit(client: &Client, command: &RawCommand) -> Result<Accepted, Failure> {
    client.submit(command).await?.accepted().map_err(refused)
}
