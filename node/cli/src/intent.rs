//! `redlatch intent`: freeze the bytes of an action, take it back, show how far it came.

use clap::{Args, Subcommand};
use redlatch_journal::IndexKey;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::nodes::{CallError, Submitted};
use redlatch_proto::v1::leaf_at::At;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::{
    ActionClass, ActionPayload, AutonomyGrantV1, GitRef, GrantPayload, Ingress, LandPayload,
    PositiveAuthorityTransactionV1, ProposalV1, RollbackPlan, Text, WithdrawalV1,
};
use redlatch_types::{Bytes, Canonical, EventId, IntentDigest, Name, SubjectId};

use crate::answer::{self, Decimal, Leaf, Shown};
use crate::client::{Client, Signer, another, random, refused};
use crate::in_force::InForce;
use crate::{Common, Done, decision, describe, output};

/// How long a command is accepted, in state time.
const COMMAND_TTL_MS: u64 = 60 * 60 * 1_000;
/// How long after COMMIT the effect may be claimed.
const EFFECT_DEADLINE_MS: u64 = 60 * 60 * 1_000;
/// Versions of boundary and contract: no act of this release moves them.
const FIRST_VERSION: u64 = 1;

#[derive(Subcommand)]
pub(crate) enum IntentCommand {
    /// Freeze the landing of a commit on a ref.
    Freeze(Freeze),
    /// Take back an intent that is not committed.
    Withdraw {
        /// The intent.
        #[arg(long, value_name = "DIGEST")]
        intent: IntentDigest,
        /// Why, for people.
        #[arg(long, default_value = "withdrawn by its proposer")]
        reason: String,
        /// Repeat under this idempotency key.
        #[arg(long, value_name = "HEX")]
        event_id: Option<EventId>,
    },
    /// Show the leaves of an intent.
    Show {
        /// The intent.
        intent: IntentDigest,
    },
}

#[derive(Args)]
pub(crate) struct Freeze {
    /// Repository, by the name under which gates and grants know it.
    #[arg(long)]
    repo: Name,
    /// Full name of the ref, refs/heads/…
    #[arg(long = "ref")]
    reference: String,
    /// Full object id that the ref has; empty if it must not exist.
    #[arg(long, default_value = "")]
    old: String,
    /// Full object id of the candidate commit.
    #[arg(long)]
    new: String,
    /// The gate that makes the effect; the repository's only one if not named.
    #[arg(long)]
    executor: Option<SubjectId>,
    /// How long the intent lives, in seconds of state time.
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    ttl: u64,
    /// Repeat under this idempotency key.
    #[arg(long, value_name = "HEX")]
    event_id: Option<EventId>,
}

pub(crate) async fn run(command: &IntentCommand, common: &Common) -> Done {
    let client = Client::current(common, "agent").await?;
    match command {
        IntentCommand::Freeze(arguments) => freeze(&client, arguments, common).await,
        IntentCommand::Withdraw {
            intent,
            reason,
            event_id,
        } => withdraw(&client, *intent, reason, *event_id, common).await,
        IntentCommand::Show { intent } => show(&client, *intent, common).await,
    }
}

async fn freeze(client: &Client, arguments: &Freeze, common: &Common) -> Done {
    let (signer, in_force) = client.signer().await?;
    let payload = ActionPayload::Land(land(arguments)?);
    let proposal = proposal(&signer, &in_force, payload, arguments.executor.clone())?;
    let how = How {
        ttl_s: arguments.ttl,
        event_id: arguments.event_id,
    };
    let (submitted, event) = submit(client, &signer, proposal, &how).await?;
    done(submitted, event, common)
}

/// For how long, and under which idempotency key, an action is frozen.
pub(crate) struct How {
    pub(crate) ttl_s: u64,
    pub(crate) event_id: Option<EventId>,
}

/// Freezes a proposal against what its resource is at now.
///
/// # Errors
/// [`Failure`] if no node answers; a refusal is an answer.
pub(crate) async fn submit(
    client: &Client,
    signer: &Signer,
    mut proposal: ProposalV1,
    how: &How,
) -> Result<(Submitted, EventId), Failure> {
    let event = how.event_id.unwrap_or_else(|| EventId(random()));
    let resource = proposal.payload.resource().id();
    let known = client.nodes.resource(resource, client.deadline).await?;
    proposal.expected_store_version = known.store_version;
    let submitted = client
        .submit_stamped(signer, event, COMMAND_TTL_MS, |stamp| {
            let life = how.ttl_s.saturating_mul(1_000);
            proposal.expires_at = stamp.state_time.saturating_add(life);
            signer.freeze(stamp, event, &proposal)
        })
        .await?;
    Ok((submitted, event))
}

async fn withdraw(
    client: &Client,
    intent: IntentDigest,
    reason: &str,
    event_id: Option<EventId>,
    common: &Common,
) -> Done {
    let (signer, _) = client.signer().await?;
    let event = event_id.unwrap_or_else(|| EventId(random()));
    let withdrawal = WithdrawalV1 {
        intent_digest: intent,
        reason: Text::lossy(reason),
    };
    let submitted = client
        .submit_stamped(&signer, event, COMMAND_TTL_MS, |stamp| {
            signer.withdraw(stamp, event, &withdrawal)
        })
        .await?;
    done(submitted, event, common)
}

/// Prints what a command led to, or ends with its refusal.
pub(crate) fn done(submitted: Submitted, event: EventId, common: &Common) -> Done {
    let (entry, leaves) = (submitted.entry, submitted.leaves.clone());
    let accepted = submitted.accepted().map_err(refused)?;
    let (word, intent) = match accepted {
        Accepted::Frozen(digest) => ("frozen", digest.to_string()),
        Accepted::Withdrawn(digest) => ("withdrawn", digest.to_string()),
        other => return Err(another(&other)),
    };
    // A repeat is answered without leaves of its own.
    let position = (!leaves.is_empty()).then_some(leaves.start);
    let answer = answer::Submitted {
        result: word.to_owned(),
        intent,
        event_id: event.to_string(),
        position: position.map(Decimal),
        term: entry.map(|(term, _)| term.into()),
        index: entry.map(|(_, index)| index.into()),
    };
    output::print(common.output, &answer, |answer| {
        let mut pairs = vec![
            ("result", answer.result.clone()),
            ("intent", answer.intent.clone()),
            ("event id", answer.event_id.clone()),
        ];
        if let Some(position) = answer.position {
            pairs.push(("position", position.to_string()));
        }
        output::lines(&pairs)
    })?;
    Ok(0)
}

async fn show(client: &Client, intent: IntentDigest, common: &Common) -> Done {
    let mut leaves = Vec::new();
    let first = [
        IndexKey::Frozen(intent),
        IndexKey::Authorized(intent),
        IndexKey::Ended(intent),
    ];
    for key in first {
        leaves.extend(leaf(client, key).await?);
    }
    let capability = leaves.iter().find_map(|(_, event)| match event {
        Event::Authorized(body) => Some(body.capability_id),
        _ => None,
    });
    if let Some(capability) = capability {
        let id = PositiveAuthorityTransactionV1::id_of(&capability);
        for key in [
            IndexKey::Prepared(id),
            IndexKey::Committed(id),
            IndexKey::Effect(id),
        ] {
            leaves.extend(leaf(client, key).await?);
        }
    }
    if leaves.is_empty() {
        let text = format!("no intent {intent} in the journal");
        return Err(Failure::new(ExitCode::Error, text)
            .hint("`redlatch journal tail` lists what was frozen"));
    }
    leaves.sort_by_key(|(position, _)| *position);
    let shown = leaves.iter().map(|(position, event)| Leaf {
        position: Decimal(*position),
        told: describe::told(event),
    });
    // For people only: without an answer the leaves still say what counts.
    let progress = client.nodes.progress(intent, client.deadline).await.ok();
    let answer = Shown {
        intent: intent.to_string(),
        leaves: shown.collect(),
        decision: progress.as_ref().map(decision::answer),
    };
    output::print(common.output, &answer, |answer| {
        let line = |(leaf, (_, event)): (&Leaf, &(u64, Event))| {
            let (position, word) = (leaf.position.0, event.word());
            format!("{position:>8}  {word:<16} {}\n", describe::line(&leaf.told))
        };
        let leaves: String = answer.leaves.iter().zip(&leaves).map(line).collect();
        leaves
            + &progress
                .as_ref()
                .map(decision::to_lines)
                .unwrap_or_default()
    })?;
    Ok(0)
}

async fn leaf(client: &Client, key: IndexKey) -> Result<Option<(u64, Event)>, Failure> {
    let at = At::IndexKey(key.to_bytes());
    match client.nodes.leaf(at, client.deadline).await {
        Ok((position, bytes)) => Ok(Event::from_canonical(&bytes)
            .ok()
            .map(|event| (position, event))),
        Err(CallError::Absent(_)) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

fn land(arguments: &Freeze) -> Result<LandPayload, Failure> {
    let usage = |text: String| Failure::new(ExitCode::Usage, text);
    let object = |name: &str, text: &str| {
        let bytes = hex::decode(text)
            .ok()
            .filter(|it| matches!(it.len(), 0 | 20 | 32));
        bytes.map(Bytes).ok_or_else(|| {
            usage(format!("--{name} {text} is not a full object id"))
                .hint("git rev-parse prints full ids of 40 or 64 hex digits")
        })
    };
    let reference =
        Text::new(&arguments.reference).map_err(|error| usage(format!("--ref: {error}")))?;
    Ok(LandPayload {
        resource: GitRef {
            repository: arguments.repo.clone(),
            reference,
        },
        old: object("old", &arguments.old)?,
        new: object("new", &arguments.new)?,
    })
}

/// The proposal of an action by a subject, under its first grant that covers the class; times and versions are
/// the caller's. Without a grant only a human decides, and the journal says whether one may.
///
/// # Errors
/// [`Failure`] if the executor of an effect outside the journal is not clear.
pub(crate) fn proposal(
    signer: &Signer,
    in_force: &InForce,
    payload: ActionPayload,
    executor: Option<SubjectId>,
) -> Result<ProposalV1, Failure> {
    let class = payload.class();
    let grant = in_force.grant(&signer.subject.subject_id, class);
    let realm = Name::new(payload.resource().realm())
        .map_err(|error| Failure::new(ExitCode::Usage, error.to_string()))?;
    let executor = match (class.is_external(), executor) {
        (true, None) => Some(in_force.only_gate(&realm)?),
        (_, named) => named,
    };
    let rollback = match class {
        ActionClass::Land => RollbackPlan::MoveRefBack,
        _ => RollbackPlan::FreezeRef,
    };
    Ok(ProposalV1 {
        audience: realm,
        applicable_grant_id: grant.map(AutonomyGrantV1::id),
        executor_subject_id_optional: executor,
        delegation_grant_digest_optional: None,
        promotion_target_subject_id_optional: promoted(&payload),
        payload,
        expected_store_version: 0,
        expected_boundary_version: FIRST_VERSION,
        expected_contract_version: FIRST_VERSION,
        evidence: Vec::new(),
        rollback,
        expires_at: 0,
        effect_deadline_ms: EFFECT_DEADLINE_MS,
        mission_id_optional: None,
        ingress: Ingress::Cli,
    })
}

/// The subject that a promotion concerns.
fn promoted(payload: &ActionPayload) -> Option<SubjectId> {
    match payload {
        ActionPayload::GrantChange(change) => match &**change {
            GrantPayload::Promote(promotion) => Some(promotion.grant.subject_id.clone()),
            GrantPayload::Demote(..) | GrantPayload::Revoke(_) => None,
        },
        _ => None,
    }
}
