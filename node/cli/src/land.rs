//! `redlatch land`: brings a commit before the organism and, once it is committed, onto its branch.
//!
//! ```text
//!   candidate, evidence ─▶ gate   FreezeIntent ─▶ journal ─▶ authorized ▸ prepared ▸ committed
//!                                                             │ each step read back
//!   branch, with the intent ─▶ gate ◀─────────────────────────┘        effect reported
//! ```
//!
//! It decides nothing and moves no ref by itself. Until COMMIT it takes back what it froze if it gives up.

mod evidence;
mod push;

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file;
use redlatch_link::world::{self, Monotonic};
use redlatch_proto::v1;
use redlatch_proto::v1::support_request::Support;
use redlatch_types::event::Accepted;
use redlatch_types::records::{ActionPayload, GitRef, LandPayload, OutcomeKind, Text};
use redlatch_types::{Bytes, EventId, IntentDigest, Name, Refusal, SubjectId};

use crate::answer::{Decimal, Landed};
use crate::client::{Client, Signer, another, random, refused};
use crate::git::{Git, ObjectFormat, ObjectId};
use crate::in_force::InForce;
use crate::output::note;
use crate::watch::{self, Seen, Waited, Watch};
use crate::{Common, Done, intent, output};
use evidence::Evidence;

/// How long a command is accepted, in state time.
const COMMAND_TTL_MS: u64 = 10 * 60 * 1_000;
/// How long the effect's report is waited for after the push.
const REPORT_WAIT: Duration = Duration::from_secs(10);

/// How often receipts are brought again while a decision is waited for.
const SUPPORT_AGAIN: Duration = Duration::from_secs(2);
/// Pause before a push that may pass later is brought again.
const PUSH_AGAIN: Duration = Duration::from_millis(500);

/// What to land where. `--config` names the configuration of the proposing subject.
#[derive(Args)]
pub(crate) struct Land {
    /// Path or URL of the gated repository.
    #[arg(long, value_name = "URL_OR_PATH")]
    repo: String,
    /// The repository's name in grants; the only one of the subject's scope if not named.
    #[arg(long, value_name = "NAME")]
    repository: Option<Name>,
    /// Full name of the branch, refs/heads/…
    #[arg(long = "ref", value_name = "REF")]
    reference: String,
    /// The commit, by any name that the source repository knows.
    #[arg(long, value_name = "COMMIT")]
    commit: String,
    /// Repository that has the commit.
    #[arg(long, value_name = "PATH", default_value = ".")]
    source: PathBuf,
    /// Signed gate receipts for exactly this commit.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    evidence: Vec<PathBuf>,
    /// The gate that makes the effect; the repository's only one if not named.
    #[arg(long, value_name = "NAME")]
    executor: Option<SubjectId>,
    /// Go on with an intent that is frozen already.
    #[arg(long, value_name = "DIGEST")]
    intent: Option<IntentDigest>,
    /// How long to wait for COMMIT, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    wait: u64,
}

/// Everything that was found before anything was sent.
struct Plan {
    git: Git,
    land: LandPayload,
    commit: ObjectId,
    evidence: Vec<Evidence>,
    store_version: u64,
}

pub(crate) async fn run(arguments: &Land, common: &Common) -> Done {
    let client = Client::current(common, "agent").await?;
    let (signer, in_force) = client.signer().await?;
    let plan = plan(arguments, &client, &signer, &in_force).await?;
    note(&format!(
        "commit {} onto {} of {}",
        plan.commit, plan.land.resource.reference, plan.land.resource.repository
    ));
    bring(arguments, &client, &signer, &plan).await?;
    let intent = match arguments.intent {
        Some(intent) => intent,
        None => freeze(arguments, &client, &signer, &in_force, &plan).await?,
    };
    let receipts = receipts(&plan, intent)?;
    if let Some(receipts) = &receipts {
        support(&client, receipts.clone()).await?;
    }
    let mut watch = Watch::new(&client, intent).await?;
    let until = Monotonic::now().plus(Duration::from_secs(arguments.wait));
    let seen = tokio::select! {
        biased;
        seen = wait_for_commit(arguments, &client, &signer, &mut watch, until) => seen?,
        never = support_again(&client, receipts.as_ref()) => match never {},
    };
    move_branch(arguments, &client, &plan, intent).await?;
    note("pushed: the gate let it through");
    let outcome = watch.outcome(REPORT_WAIT).await?;
    report(&plan, intent, &seen, outcome, common)
}

/// Looks at source, journal and branch.
async fn plan(
    arguments: &Land,
    client: &Client,
    signer: &Signer,
    in_force: &InForce,
) -> Result<Plan, Failure> {
    let git = Git::in_folder(&arguments.source).reaching_out();
    let format = git.format()?;
    let commit = git.resolve(&arguments.commit, format)?;
    git.commit(&commit, format)?;
    let resource = GitRef {
        repository: repository(arguments, signer)?,
        reference: Text::new(&arguments.reference)
            .map_err(|error| Failure::new(ExitCode::Usage, format!("--ref: {error}")))?,
    };
    let known = client
        .nodes
        .resource(resource.id(), client.deadline)
        .await?;
    let at = push::remote_head(&git, &arguments.repo, resource.reference.as_str(), format)?;
    let old = head(&known, at.as_ref())?;
    let land = LandPayload {
        resource,
        old: Bytes(old),
        new: Bytes(commit.bytes().to_vec()),
    };
    check_free(&known, arguments)?;
    let organism = client.genesis.organism_id();
    let subjects = &in_force.subjects;
    let evidence = evidence::read(&arguments.evidence, &land, organism, subjects)?;
    Ok(Plan {
        git,
        land,
        commit,
        evidence,
        store_version: known.store_version,
    })
}

/// What the branch is at: journal and branch must agree, where the journal knows.
fn head(known: &v1::ResourceResponse, at: Option<&ObjectId>) -> Result<Vec<u8>, Failure> {
    let at = at.map_or(Vec::new(), |id| id.bytes().to_vec());
    match &known.head {
        Some(head) if *head != at => {
            let text = format!(
                "refused {}: the journal has the branch at {}, the repository at {}",
                Refusal::StaleHead.code(),
                shown(head),
                shown(&at)
            );
            Err(Failure::new(ExitCode::Refused, text)
                .hint("the branch was moved past the gate, or a landing is not reported yet: redlatch gate reconcile"))
        }
        _ => Ok(at),
    }
}

/// A landing in flight is told at once rather than refused at PREPARE.
fn check_free(known: &v1::ResourceResponse, arguments: &Land) -> Result<(), Failure> {
    if known.reserved_by.is_some() && arguments.intent.is_none() {
        note("another landing holds the branch; this one is prepared once it is over");
    }
    Ok(())
}

fn shown(id: &[u8]) -> String {
    if id.is_empty() {
        "nothing".to_owned()
    } else {
        hex::encode(id)
    }
}

fn repository(arguments: &Land, signer: &Signer) -> Result<Name, Failure> {
    match (&arguments.repository, &signer.subject.scopes[..]) {
        (Some(name), _) => Ok(name.clone()),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(Failure::new(
            ExitCode::Usage,
            "the subject has several repositories: name one with --repository",
        )),
    }
}

/// Pushes candidate and evidence, signed for by this subject.
async fn bring(
    arguments: &Land,
    client: &Client,
    signer: &Signer,
    plan: &Plan,
) -> Result<(), Failure> {
    let scope = *client.status().await?.scope();
    let repository = &plan.land.resource.repository;
    for evidence in &plan.evidence {
        let blob = push::store(&plan.git, &evidence.file)?;
        let reference = evidence.reference();
        push::created_once(
            &plan.git,
            &arguments.repo,
            &blob,
            &reference,
            |object| signer.seal(scope, &push::statement(repository, object)),
            plan.commit_format(),
        )?;
    }
    let reference = push::candidate_reference(&plan.commit);
    push::created_once(
        &plan.git,
        &arguments.repo,
        &plan.commit,
        &reference,
        |object| signer.seal(scope, &push::statement(repository, object)),
        plan.commit_format(),
    )?;
    note(&format!("candidate {reference}"));
    Ok(())
}

impl Plan {
    fn commit_format(&self) -> ObjectFormat {
        match self.commit.bytes().len() {
            32 => ObjectFormat::Sha256,
            _ => ObjectFormat::Sha1,
        }
    }
}

async fn freeze(
    arguments: &Land,
    client: &Client,
    signer: &Signer,
    in_force: &InForce,
    plan: &Plan,
) -> Result<IntentDigest, Failure> {
    let event = EventId(random());
    let payload = ActionPayload::Land(plan.land.clone());
    let executor = arguments.executor.clone();
    let mut proposal = intent::proposal(signer, in_force, payload, executor)?;
    proposal.expected_store_version = plan.store_version;
    proposal.evidence = plan.evidence.iter().map(|it| it.digest).collect();
    proposal.evidence.sort();
    proposal.evidence.dedup();
    let life = Duration::from_secs(arguments.wait).as_millis();
    let life = u64::try_from(life)
        .unwrap_or(u64::MAX)
        .saturating_add(proposal.effect_deadline_ms);
    let submitted = client
        .submit_stamped(signer, event, COMMAND_TTL_MS, |stamp| {
            proposal.expires_at = stamp.state_time.saturating_add(life);
            signer.freeze(stamp, event, &proposal)
        })
        .await?;
    match submitted.accepted().map_err(refused)? {
        Accepted::Frozen(digest) => Ok(digest),
        other => Err(another(&other)),
    }
}

/// The receipts, for a decision by policy. Verifiers fetch theirs from the gate.
fn receipts(plan: &Plan, intent: IntentDigest) -> Result<Option<Support>, Failure> {
    if plan.evidence.is_empty() {
        return Ok(None);
    }
    let files = plan.evidence.iter();
    let receipts: Result<Vec<_>, _> = files.map(|it| file::read_file(&it.file)).collect();
    Ok(Some(Support::Receipts(v1::GateReceipts {
        intent_digest: intent.0.0.to_vec(),
        receipts: receipts?,
    })))
}

/// Brings the receipts to the leader, in case that a policy decides.
async fn support(client: &Client, receipts: Support) -> Result<(), Failure> {
    let answer = client.nodes.support(receipts, client.deadline).await?;
    let expected = [
        Refusal::WrongVariant.code(),
        Refusal::UnknownIntent.code(),
        "",
    ];
    match expected.contains(&answer.refusal.as_str()) {
        true => Ok(()),
        false => Err(watch::undecided(&answer.refusal)),
    }
}

/// Brings the receipts again while the marker is waited for: a leader holds them in memory, and a new one has
/// none.
async fn support_again(client: &Client, receipts: Option<&Support>) -> Infallible {
    let Some(receipts) = receipts else {
        return std::future::pending().await;
    };
    loop {
        world::sleep(SUPPORT_AGAIN).await;
        // Refused once it is decided, and then the journal says how it ended.
        let _ = client.nodes.support(receipts.clone(), SUPPORT_AGAIN).await;
    }
}

/// Waits for the marker. Whoever gives up takes the intent back, so that nothing is left half done.
async fn wait_for_commit(
    arguments: &Land,
    client: &Client,
    signer: &Signer,
    watch: &mut Watch<'_>,
    until: Monotonic,
) -> Result<Seen, Failure> {
    let failure = match watch.committed(until).await? {
        Waited::Committed(seen) => return Ok(seen),
        Waited::Over(code) | Waited::TimedOut(Some(code)) => watch::undecided(&code),
        Waited::TimedOut(None) => Failure::new(
            ExitCode::Unavailable,
            format!("unavailable no COMMIT within {} s", arguments.wait),
        )
        .hint("check that sentinel and verifiers run: redlatch status; then land again"),
    };
    watch::withdraw(client, signer, watch).await?;
    note(&format!("intent {} was taken back", watch.intent()));
    Err(failure)
}

/// Pushes the branch, by a marker that was seen. What a gate cannot do while a leader is elected it can do soon
/// after, and the same push leads to the same claim: so it is brought again, for as long as an answer is waited for.
async fn move_branch(
    arguments: &Land,
    client: &Client,
    plan: &Plan,
    intent: IntentDigest,
) -> Result<(), Failure> {
    let reference = plan.land.resource.reference.as_str();
    let until = Monotonic::now().plus(client.deadline);
    loop {
        let pushed = push::landing(&plan.git, &arguments.repo, &plan.commit, reference, intent);
        let Err(failure) = pushed else {
            return Ok(());
        };
        let passes = matches!(
            failure.code,
            ExitCode::Unavailable | ExitCode::Indeterminate
        );
        if !passes {
            return Err(failure);
        }
        if until.since(Monotonic::now()) <= PUSH_AGAIN {
            return Err(failure.hint(format!("go on with redlatch land … --intent {intent}")));
        }
        note(&format!("pushed again: {}", failure.text));
        world::sleep(PUSH_AGAIN).await;
    }
}

fn report(
    plan: &Plan,
    intent: IntentDigest,
    seen: &Seen,
    outcome: Option<(u64, OutcomeKind)>,
    common: &Common,
) -> Done {
    let word = outcome.map_or("not_reported_yet", |(_, kind)| kind.word());
    let answer = Landed {
        intent: intent.to_string(),
        transaction: seen.transaction.to_string(),
        marker: seen.marker.0.into(),
        position: seen.position.into(),
        repository: plan.land.resource.repository.to_string(),
        r#ref: plan.land.resource.reference.to_string(),
        old: hex::encode(&plan.land.old.0),
        new: plan.commit.to_string(),
        outcome: word.to_owned(),
        outcome_position: outcome.map(|(position, _)| Decimal(position)),
    };
    output::print(common.output, &answer, |answer| {
        output::lines(&[
            ("landed", answer.new.clone()),
            ("ref", answer.r#ref.clone()),
            ("intent", answer.intent.clone()),
            ("marker", answer.marker.to_string()),
            ("position", answer.position.to_string()),
            ("outcome", answer.outcome.clone()),
        ])
    })?;
    Ok(0)
}
