//! `redlatch propose`: brings a change before the organism that is no landing.
//!
//! ```text
//!   arguments, what is in force ─▶ payload ─▶ FreezeIntent ─▶ intent ─▶ redlatch approve, or the quorum
//! ```
//!
//! It decides nothing. Who decides follows from the action and the mode; the answer says which it is.

pub(crate) mod constitution;
pub(crate) mod level;
pub(crate) mod parse;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use redlatch_journal::IndexKey;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file;
use redlatch_link::nodes::CallError;
use redlatch_proto::v1::leaf_at::At;
use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::{
    ActionClass, ActionPayload, ActorKind, AmendPayload, AuthorityVariant, AutonomyGrantV1,
    ClientIdentityV1, ExternalResource, GrantPayload, HumanKeyV1, KeyPayload, Mode, ModePayload,
    OutcomeKind, PromotionPayload, ResetPayload, ResolvePayload, ResourceScope, RiskClass,
    SubjectPayload, SwapPayload, Text, Tier,
};
use redlatch_types::{
    AutonomyEpoch, Bytes, Canonical, Digest, EventId, GrantId, GroundNumber, HumanKeyId,
    IntentDigest, Name, SubjectId, TransactionId,
};

use crate::answer::Proposed;
use crate::client::{Client, another, refused};
use crate::in_force::InForce;
use crate::intent::How;
use crate::{Common, Done, intent, output};
use parse::{hexadecimal, scope};

/// A change, and for how long it may be decided.
/// For how long a change may be decided, of commands that propose one change each.
#[derive(Args)]
pub(crate) struct Proposal {
    /// How long the intent lives, in seconds of state time.
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    pub(crate) ttl: u64,
    /// Repeat under this idempotency key.
    #[arg(long, value_name = "HEX")]
    pub(crate) event_id: Option<EventId>,
}

impl Proposal {
    /// As a proposal is brought.
    pub(crate) fn how(&self) -> How {
        How {
            ttl_s: self.ttl,
            event_id: self.event_id,
        }
    }
}

#[derive(Args)]
pub(crate) struct Propose {
    #[command(subcommand)]
    change: Change,
    /// How long the intent lives, in seconds of state time.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 86_400)]
    ttl: u64,
    /// Repeat under this idempotency key.
    #[arg(long, global = true, value_name = "HEX")]
    event_id: Option<EventId>,
}

#[derive(Subcommand)]
enum Change {
    /// Activate a mode.
    Mode(ModeChange),
    /// Give, lower or take a grant.
    #[command(subcommand)]
    Grant(GrantChange),
    /// Enrol, rotate or revoke a subject.
    #[command(subcommand)]
    Subject(SubjectChange),
    /// Enrol, rotate or revoke a person's key.
    #[command(subcommand)]
    Key(KeyChange),
    /// Replace the constitution by an edited copy of what `redlatch constitution` prints.
    Constitution {
        /// The edited file.
        file: PathBuf,
    },
    /// Re-open what is frozen. All live grounds, unless some are named.
    Reset {
        /// What had gone wrong and is repaired.
        #[arg(long)]
        cause: String,
        /// A ground; may be repeated.
        #[arg(long = "ground", value_name = "NUMBER")]
        grounds: Vec<u64>,
    },
    /// Say how a claimed effect ended that its executor could not say.
    Resolve {
        /// The transaction.
        transaction: TransactionId,
        /// `done` or `failed`.
        #[arg(value_parser = parse::resolution)]
        outcome: OutcomeKind,
        /// Head of the resource as it was found, hexadecimal.
        #[arg(long, value_name = "HEX", value_parser = hexadecimal, default_value = "")]
        head: Bytes,
    },
    /// Promote a release to a channel.
    Release(Swap),
    /// Ratify a block.
    BlockRatify(Swap),
    /// Archive a block.
    BlockArchive(Swap),
    /// Any other effect that an enrolled effector makes.
    Effect(Swap),
}

#[derive(Args)]
struct ModeChange {
    /// The mode.
    mode: Mode,
    /// What shows the mode proven; may be repeated.
    #[arg(long = "evidence", value_name = "FILE", required = true)]
    evidence: Vec<PathBuf>,
    /// How one comes back from it.
    #[arg(long, value_name = "FILE")]
    rollback_plan: PathBuf,
}

#[derive(Subcommand)]
enum GrantChange {
    /// Give a first grant (at most A1), or raise one by one tier.
    Promote(Box<Promotion>),
    /// Lower a grant.
    Demote {
        /// The grant.
        grant: GrantId,
        /// The tier that is left.
        tier: Tier,
    },
    /// Take a grant.
    Revoke {
        /// The grant.
        grant: GrantId,
    },
}

#[derive(Args)]
struct Promotion {
    /// Whose grant. Not needed with --replaces.
    #[arg(long, required_unless_present = "replaces")]
    subject: Option<SubjectId>,
    /// The grant that is raised by one tier; everything else stays.
    #[arg(
        long,
        value_name = "GRANT",
        conflicts_with_all = ["subject", "role", "actions", "risks", "resources", "mode", "tier", "budget"]
    )]
    replaces: Option<GrantId>,
    /// Role, for people.
    #[arg(long, default_value = "developer")]
    role: Name,
    /// Classes of actions; may be repeated.
    #[arg(long = "action")]
    actions: Vec<ActionClass>,
    /// Classes of risk; may be repeated.
    #[arg(long = "risk")]
    risks: Vec<RiskClass>,
    /// Resources as realm:path-prefix; may be repeated.
    #[arg(long = "resource", value_parser = scope)]
    resources: Vec<ResourceScope>,
    /// The mode in which it applies; the one in force if not named.
    #[arg(long)]
    mode: Option<Mode>,
    /// Tier of a first grant.
    #[arg(long, default_value = "A1")]
    tier: Tier,
    /// How many actions it may commit.
    #[arg(long, default_value_t = 100)]
    budget: u64,
    /// How long it lives, in seconds of state time.
    #[arg(long, value_name = "SECONDS", default_value_t = 30 * 86_400)]
    life: u64,
    /// The data on which the promotion rests.
    #[arg(long, value_name = "FILE")]
    dataset: PathBuf,
    /// How it is taken back.
    #[arg(long, value_name = "FILE")]
    rollback_plan: PathBuf,
}

#[derive(Subcommand)]
enum SubjectChange {
    /// Enrol a subject.
    Enrol(Subject),
    /// Replace a subject's key and scopes.
    Rotate(Subject),
    /// Revoke a subject, for ever.
    Revoke {
        /// The subject.
        subject: SubjectId,
    },
}

#[derive(Args)]
struct Subject {
    /// Its name.
    subject: SubjectId,
    /// Its Ed25519 public key, hexadecimal.
    #[arg(long, value_name = "HEX", value_parser = parse::public_key)]
    key: redlatch_types::PublicKey,
    /// What it is; kept by a rotation.
    #[arg(long, default_value = "agent")]
    kind: ActorKind,
    /// Realms in which it may act; may be repeated. A rotation that names none keeps them.
    #[arg(long = "scope", value_name = "REALM")]
    scopes: Vec<Name>,
    /// The person whose client it is.
    #[arg(long)]
    person: Option<SubjectId>,
}

#[derive(Subcommand)]
enum KeyChange {
    /// Enrol a key.
    Enrol {
        /// The key's record, as `redlatch authenticator` writes it.
        file: PathBuf,
    },
    /// Replace a key of the same person.
    Rotate {
        /// The key that ends.
        key: HumanKeyId,
        /// As for `enrol`.
        file: PathBuf,
    },
    /// Revoke a key, for ever.
    Revoke {
        /// The key.
        key: HumanKeyId,
    },
}

/// A compare-and-swap of one resource outside.
#[derive(Args)]
struct Swap {
    /// Environment or system.
    #[arg(long)]
    realm: Name,
    /// The resource's name there.
    #[arg(long)]
    path: String,
    /// Its head before, hexadecimal; empty if there must be none.
    #[arg(long, value_name = "HEX", value_parser = hexadecimal, default_value = "")]
    old: Bytes,
    /// Its head after, hexadecimal.
    #[arg(long, value_name = "HEX", value_parser = hexadecimal)]
    new: Bytes,
    /// The effector that makes the effect; the realm's only one if not named.
    #[arg(long, value_name = "NAME")]
    executor: Option<SubjectId>,
}

pub(crate) async fn run(arguments: &Propose, common: &Common) -> Done {
    let client = Client::current(common, "operator").await?;
    let now = client.status().await?.record().state_time;
    let in_force = client.in_force().await?;
    let (payload, executor) = payload(&arguments.change, &in_force, now)?;
    let how = How {
        ttl_s: arguments.ttl,
        event_id: arguments.event_id,
    };
    bring(&client, payload, executor, &how, common).await
}

/// Freezes a payload and says who decides.
///
/// # Errors
/// [`Failure`]; also for a refusal of the journal.
pub(crate) async fn bring(
    client: &Client,
    payload: ActionPayload,
    executor: Option<SubjectId>,
    how: &How,
    common: &Common,
) -> Done {
    let (signer, in_force) = client.signer().await?;
    let proposal = intent::proposal(&signer, &in_force, payload, executor)?;
    let (submitted, event) = intent::submit(client, &signer, proposal, how).await?;
    let digest = match submitted.accepted().map_err(refused)? {
        Accepted::Frozen(digest) => digest,
        other => return Err(another(&other)),
    };
    let variant = variant(client, digest).await?;
    let answer = Proposed {
        intent: digest.to_string(),
        decided_by: variant.to_string(),
        event_id: event.to_string(),
    };
    output::print(common.output, &answer, |answer| {
        output::lines(&[
            ("proposed", answer.intent.clone()),
            ("decided by", answer.decided_by.clone()),
            ("event id", answer.event_id.clone()),
        ])
    })?;
    if variant == AuthorityVariant::Human {
        output::note(&format!("next: redlatch approve {digest}"));
    }
    Ok(0)
}

/// Who decides a frozen intent, as the journal has it.
async fn variant(client: &Client, digest: IntentDigest) -> Result<AuthorityVariant, Failure> {
    let at = At::IndexKey(IndexKey::Frozen(digest).to_bytes());
    let absent = || CallError::Absent(format!("the freeze of {digest}"));
    let (_, bytes) = client.nodes.leaf(at, client.deadline).await?;
    match Event::from_canonical(&bytes) {
        Ok(Event::Frozen(_, _, intent, _)) => Ok(intent.required_authority_variant),
        _ => Err(absent().into()),
    }
}

/// What is proposed, and who makes the effect if that was said.
fn payload(
    change: &Change,
    in_force: &InForce,
    now: u64,
) -> Result<(ActionPayload, Option<SubjectId>), Failure> {
    let payload = match change {
        Change::Mode(change) => ActionPayload::ModeActivate(mode(change)?),
        Change::Grant(change) => {
            ActionPayload::GrantChange(Box::new(grant(change, in_force, now)?))
        }
        Change::Subject(change) => {
            ActionPayload::SubjectChange(Box::new(subject(change, in_force, now)?))
        }
        Change::Key(change) => ActionPayload::KeyChange(Box::new(key(change)?)),
        Change::Constitution { file } => {
            let constitution = constitution::edited(file, &in_force.constitution, now)?;
            ActionPayload::ConstitutionAmend(Box::new(AmendPayload { constitution }))
        }
        Change::Reset { cause, grounds } => {
            ActionPayload::ResetFrozen(reset(cause, grounds, in_force)?)
        }
        Change::Resolve {
            transaction,
            outcome,
            head,
        } => ActionPayload::ResolveEffect(ResolvePayload {
            transaction_id: *transaction,
            outcome: *outcome,
            observed_head: head.clone(),
        }),
        Change::Release(it) => return swap(it, ActionPayload::ReleasePromote),
        Change::BlockRatify(it) => return swap(it, ActionPayload::BlockRatify),
        Change::BlockArchive(it) => return swap(it, ActionPayload::BlockArchive),
        Change::Effect(it) => return swap(it, ActionPayload::ExternalEffect),
    };
    Ok((payload, None))
}

fn swap(
    swap: &Swap,
    action: impl FnOnce(SwapPayload) -> ActionPayload,
) -> Result<(ActionPayload, Option<SubjectId>), Failure> {
    let payload = SwapPayload {
        resource: ExternalResource {
            realm: swap.realm.clone(),
            path: text("--path", &swap.path)?,
        },
        old: swap.old.clone(),
        new: swap.new.clone(),
    };
    Ok((action(payload), swap.executor.clone()))
}

fn text(what: &str, value: &str) -> Result<Text, Failure> {
    Text::new(value).map_err(|error| Failure::new(ExitCode::Usage, format!("{what}: {error}")))
}

fn mode(change: &ModeChange) -> Result<ModePayload, Failure> {
    let evidence = change.evidence.iter().map(|it| digest_of(it));
    let mut evidence: Vec<Digest> = evidence.collect::<Result<_, _>>()?;
    evidence.sort();
    Ok(ModePayload {
        mode: change.mode,
        activates_at: 0,
        gate_receipts_digest: Digest::of(&evidence.to_canonical()),
        rollback_plan_digest: digest_of(&change.rollback_plan)?,
    })
}

/// SHA-256 of a file.
fn digest_of(path: &Path) -> Result<Digest, Failure> {
    Ok(Digest::of(&file::read_file(path)?))
}

fn grant(change: &GrantChange, in_force: &InForce, now: u64) -> Result<GrantPayload, Failure> {
    Ok(match change {
        GrantChange::Promote(promotion) => {
            let dataset_digest = digest_of(&promotion.dataset)?;
            let rollback_digest = digest_of(&promotion.rollback_plan)?;
            GrantPayload::Promote(PromotionPayload {
                grant: promoted(promotion, in_force, now)?,
                replaces_optional: promotion.replaces,
                dataset_digest,
                rollback_digest,
            })
        }
        GrantChange::Demote { grant, tier } => GrantPayload::Demote(*grant, *tier),
        GrantChange::Revoke { grant } => GrantPayload::Revoke(*grant),
    })
}

/// A first grant, or the one that is replaced with the next tier and nothing else changed.
fn promoted(
    promotion: &Promotion,
    in_force: &InForce,
    now: u64,
) -> Result<AutonomyGrantV1, Failure> {
    let usage = |text: &str| Failure::new(ExitCode::Usage, text);
    let expires_at = now.saturating_add(promotion.life.saturating_mul(1_000));
    if let Some(replaced) = &promotion.replaces {
        let mut grants = in_force.grants.iter().map(|(grant, _)| grant);
        let old = grants
            .find(|grant| grant.id() == *replaced)
            .ok_or_else(|| usage("--replaces names no grant in force"))?;
        let next = Tier::ALL.iter().copied().find(|tier| *tier > old.max_tier);
        return Ok(AutonomyGrantV1 {
            max_tier: next.ok_or_else(|| usage("nothing is above A5"))?,
            promotion_receipt_id: Digest::ZERO,
            issued_at: now,
            expires_at,
            ..old.clone()
        });
    }
    let subject = promotion.subject.clone();
    Ok(AutonomyGrantV1 {
        subject_id: subject.ok_or_else(|| usage("--subject is not named"))?,
        role_id: promotion.role.clone(),
        mode: promotion.mode.unwrap_or(in_force.epoch.active_mode),
        max_tier: promotion.tier,
        action_classes: promotion.actions.clone(),
        risk_domains: promotion.risks.clone(),
        resource_environment_scope: promotion.resources.clone(),
        budget: promotion.budget,
        promotion_receipt_id: Digest::ZERO,
        issued_at: now,
        expires_at,
        constitution_epoch: in_force.constitution.constitution_epoch,
        autonomy_epoch: AutonomyEpoch(in_force.epoch.autonomy_epoch.0 + 1),
        delegate_subject_ids: Vec::new(),
    })
}

fn subject(
    change: &SubjectChange,
    in_force: &InForce,
    now: u64,
) -> Result<SubjectPayload, Failure> {
    let identity = |it: &Subject, kind, person| ClientIdentityV1 {
        subject_id: it.subject.clone(),
        actor_kind: kind,
        public_key: it.key,
        app_host_identity: Text::lossy("redlatch propose"),
        enrollment_evidence: Digest::of(&it.key.0),
        scopes: it.scopes.clone(),
        issuer: it.subject.clone(),
        created_at: now,
        revoked_at_optional: None,
        person_optional: person,
    };
    Ok(match change {
        SubjectChange::Enrol(it) => SubjectPayload::Enrol(identity(it, it.kind, it.person.clone())),
        SubjectChange::Rotate(it) => {
            let mut subjects = in_force.subjects.iter();
            let known = subjects.find(|known| known.subject_id == it.subject);
            let known = known.ok_or_else(|| {
                let text = format!("no subject is called {}", it.subject);
                Failure::new(ExitCode::Usage, text)
            })?;
            let mut rotated = identity(it, known.actor_kind, known.person_optional.clone());
            if it.scopes.is_empty() {
                rotated.scopes.clone_from(&known.scopes);
            }
            SubjectPayload::Rotate(rotated)
        }
        SubjectChange::Revoke { subject } => SubjectPayload::Revoke(subject.clone()),
    })
}

fn key(change: &KeyChange) -> Result<KeyPayload, Failure> {
    let record = |path: &Path| -> Result<HumanKeyV1, Failure> {
        let bytes = file::read_file(path)?;
        HumanKeyV1::from_canonical(&bytes).map_err(|error| {
            let text = format!("{} is no key's record: {error}", path.display());
            Failure::new(ExitCode::Usage, text)
        })
    };
    Ok(match change {
        KeyChange::Enrol { file } => KeyPayload::Enrol(record(file)?),
        KeyChange::Rotate { key, file } => KeyPayload::Rotate(*key, record(file)?),
        KeyChange::Revoke { key } => KeyPayload::Revoke(*key),
    })
}

fn reset(cause: &str, grounds: &[u64], in_force: &InForce) -> Result<ResetPayload, Failure> {
    let mut numbers: Vec<GroundNumber> = match grounds {
        [] => in_force.grounds.iter().map(|it| it.number).collect(),
        named => named.iter().map(|it| GroundNumber(*it)).collect(),
    };
    numbers.sort();
    numbers.dedup();
    if numbers.is_empty() {
        return Err(Failure::new(ExitCode::Usage, "nothing is frozen"));
    }
    let cause = text("--cause", cause)?;
    if cause.as_str().trim().is_empty() {
        return Err(Failure::new(
            ExitCode::Usage,
            "a reset says what is repaired",
        ));
    }
    Ok(ResetPayload {
        grounds: numbers,
        cause,
    })
}
