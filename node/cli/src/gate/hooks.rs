//! The two hooks and the reconciliation of what they left behind.
//!
//! ```text
//!   pre-receive   receipt ▸ token ▸ claim stored ▸ claim applied ▸ hold line, fresh status ▸ token stored ▸ exit 0
//!                                                                    git moves the ref: old ▸ new or not
//!   post-receive  ref seen at new ▸ done
//!   reconcile     each claim left: ref at new ▸ done; push gone and ref at old ▸ failed; else unknown
//! ```

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::world::Monotonic;
use redlatch_types::records::{ActorKind, CandidatePushV1, OutcomeKind};
use redlatch_types::{Envelope, IntentDigest, Refusal, Scope};

use super::config::{Gate, enrolled};
use super::core::binding::Permit;
use super::core::settle::{Pusher, settle};
use super::core::token::admit;
use super::core::update::{self, BRANCHES, Landing, Push, STDIN_BYTES_MAX};
use super::pusher::PusherId;
use super::refusal::{GateError, Refused};
use super::repository::{HookEnvironment, Repository};
use super::state::{GateState, OpenClaim, Stage};
use crate::environment;
use crate::git::ObjectId;
use crate::output::note;

/// How often post-receive tries to report.
const REPORTS_MAX: usize = 3;
/// Who may bring candidates.
const BRINGERS: [ActorKind; 3] = [ActorKind::Agent, ActorKind::Human, ActorKind::Operator];

/// Judges a push. `Ok` lets git move the ref.
///
/// # Errors
/// [`GateError`]: git moves nothing.
pub(crate) async fn pre_receive(config: &Path) -> Result<(), GateError> {
    let stdin = read_stdin()?;
    let repository = Repository::of_hook(&HookEnvironment::of_process())?;
    let updates = update::parse(&stdin, repository.format)?;
    let push = update::classify(updates, &push_options()?)?;
    let mut gate = Gate::open(config).await?;
    match push {
        Push::Candidate(commit, client) => {
            check_client(&gate, &client, &commit)?;
            repository.check_commit(&commit)?;
            settle_in_passing(&gate, &repository).await;
            Ok(())
        }
        Push::Evidence(blob, digest, client) => {
            check_client(&gate, &client, &blob)?;
            Ok(repository.check_evidence(&blob, &digest)?)
        }
        Push::Landing(landing, intent) => land(&mut gate, &repository, &landing, intent).await,
    }
}

/// Only an enrolled client of this repository brings candidates and evidence.
fn check_client(gate: &Gate, client: &Envelope, object: &ObjectId) -> Result<(), Refused> {
    let signed = client
        .open::<CandidatePushV1>()
        .map_err(|_| Refused::StrangeClient)?;
    let record = signed.record();
    let known = enrolled(
        &gate.genesis.subjects,
        signed.key(),
        &BRINGERS,
        &gate.post.repository,
    );
    let own = signed.scope().organism_id == gate.post.organism
        && record.repository == gate.post.repository
        && record.object.0 == object.bytes();
    (known.is_some() && own)
        .then_some(())
        .ok_or(Refused::StrangeClient)
}

/// Settles what earlier pushes left. A candidate moves nothing, so it does not depend on the nodes: what
/// cannot be reported is tried again by the next push.
async fn settle_in_passing(gate: &Gate, repository: &Repository) {
    if let Ok(state) = GateState::open(&gate.state, Duration::ZERO).await
        && let Err(error) = settle_all(gate, repository, &state, None).await
    {
        note(&format!(
            "redlatch: an earlier landing is not reported yet: {error}"
        ));
    }
}

async fn land(
    gate: &mut Gate,
    repository: &Repository,
    landing: &Landing,
    intent: IntentDigest,
) -> Result<(), GateError> {
    repository.check_commit(&landing.new)?;
    check_old(repository, landing)?;
    repository.check_fast_forward(landing)?;
    let pusher = PusherId::of_this_hook().ok_or(Refused::NotFromReceivePack)?;
    let permit = gate.permit(landing, intent).await?;
    let state = GateState::open(&gate.state, gate.deadline).await?;
    settle_all(gate, repository, &state, Some(&permit)).await?;
    let resource = permit.claim.resource_id;
    admit(
        state.honoured(&resource)?.as_ref(),
        &permit.honoured,
        landing.old_bytes(),
    )?;
    let scope = gate.scope().await?;
    let open = OpenClaim {
        intent,
        claim: permit.claim.clone(),
        organism_epoch: scope.organism_epoch,
        reference: landing.reference.clone(),
        old: permit.honoured.old.clone(),
        new: permit.honoured.new.clone(),
        stage: Stage::Sent,
        pusher,
    };
    let open = claim(gate, &state, open).await?;
    let asked = match fresh(gate, &permit, &scope).await {
        Ok(asked) => asked,
        Err(error) => return Err(give_up(gate, repository, &state, &open, error).await),
    };
    honour(gate, repository, &state, &permit, landing, asked)
}

/// Hold line and statuses; how old the older of the two answers is. A roster that has changed meanwhile is
/// followed and asked. One that nobody proves yet may be proven soon: nothing has moved, and the same push may
/// come again.
async fn fresh(gate: &mut Gate, permit: &Permit, scope: &Scope) -> Result<Monotonic, GateError> {
    loop {
        let held = gate.not_held(permit).await?;
        match gate.fresh_status(permit, scope).await {
            Ok(asked) => return Ok(held.unwrap_or(asked)),
            Err(GateError::Refused(stale @ Refused::StaleRoster)) => {
                if !gate.follow().await? {
                    return Err(GateError::Unavailable(stale.to_string()));
                }
            }
            Err(other) => return Err(other),
        }
    }
}

/// The ref is at what the push says: git compares again when it moves it.
fn check_old(repository: &Repository, landing: &Landing) -> Result<(), GateError> {
    if repository.head(&landing.reference)? == landing.old_bytes() {
        Ok(())
    } else {
        Err(Refusal::StaleHead.into())
    }
}

/// Stores the claim, sends it, and remembers that it is applied. A refused claim is forgotten: nothing
/// may be made by it. One whose fate is unknown stays.
async fn claim(gate: &Gate, state: &GateState, open: OpenClaim) -> Result<OpenClaim, GateError> {
    let known = state.claims()?.into_iter().find(|it| it.id() == open.id());
    let first = known.is_none();
    if known.is_some_and(|it| it.pusher != open.pusher && it.pusher.liveness() != Pusher::Gone) {
        return Err(GateError::Unavailable(
            "ref_busy: another push of this intent is under way".into(),
        ));
    }
    state.put(&open)?;
    match gate.claim(&open).await {
        Ok(()) => {
            let applied = OpenClaim {
                stage: Stage::Applied,
                ..open
            };
            state.put(&applied)?;
            Ok(applied)
        }
        Err(error) => {
            let nothing_happened = match &error {
                GateError::Refused(_) => true,
                GateError::Unavailable(_) => first,
                GateError::Indeterminate(_) | GateError::Failed(_) => false,
            };
            if nothing_happened {
                state.forget(&open)?;
            }
            Err(error)
        }
    }
}

/// After a claim, the statuses said no. For good: the ref does not move by this push, so *failed* can be
/// said at once. Otherwise the same push may come again, and the claim waits for it.
async fn give_up(
    gate: &Gate,
    repository: &Repository,
    state: &GateState,
    open: &OpenClaim,
    error: GateError,
) -> GateError {
    if matches!(error, GateError::Refused(_))
        && let Ok(now) = repository.head(&open.reference)
        && let Some(outcome) = settle(&open.old.0, &open.new.0, &now, Pusher::Gone)
        && let Err(unreported) = close(gate, state, open, outcome, now).await
    {
        note(&format!(
            "redlatch: the claim is not reported yet: {unreported}"
        ));
    }
    error
}

/// The last step before git moves the ref: the token is stored, and the statuses are still fresh after that.
fn honour(
    gate: &Gate,
    repository: &Repository,
    state: &GateState,
    permit: &Permit,
    landing: &Landing,
    asked: Monotonic,
) -> Result<(), GateError> {
    let resource = permit.claim.resource_id;
    check_old(repository, landing)?;
    admit(
        state.honoured(&resource)?.as_ref(),
        &permit.honoured,
        landing.old_bytes(),
    )?;
    state.honour(&resource, &permit.honoured)?;
    if asked.elapsed() > gate.freshness {
        let text = "status_stale: the nodes' statuses grew old before the ref could move";
        return Err(GateError::Unavailable(text.into()));
    }
    Ok(())
}

/// Reports what git has moved. What cannot be reported stays for `gate reconcile`.
///
/// # Errors
/// [`GateError`]; the refs have moved all the same.
pub(crate) async fn post_receive(config: &Path) -> Result<(), GateError> {
    let stdin = read_stdin()?;
    let repository = Repository::of_hook(&HookEnvironment::of_process())?;
    let updates = update::parse(&stdin, repository.format)?;
    if !updates
        .iter()
        .any(|it| it.reference.as_str().starts_with(BRANCHES))
    {
        return Ok(());
    }
    let gate = Gate::open(config).await?;
    let state = GateState::open(&gate.state, gate.deadline).await?;
    let mut tries = 1;
    loop {
        match settle_all(&gate, &repository, &state, None).await {
            Err(GateError::Unavailable(_) | GateError::Indeterminate(_)) if tries < REPORTS_MAX => {
                tries += 1;
            }
            other => return other.map(drop),
        }
    }
}

/// Compares the ref of every claim and reports what can be said. Returns how many claims stay open.
///
/// # Errors
/// [`GateError`] if a report could not be made.
pub(crate) async fn reconcile(config: &Path, repository: &Path) -> Result<usize, GateError> {
    let gate = Gate::open(config).await?;
    let repository = Repository::open(repository)?;
    let state = GateState::open(&gate.state, gate.deadline).await?;
    settle_all(&gate, &repository, &state, None).await
}

/// Settles every claim but the one of `own`. One of the same ref whose push is still under way keeps
/// `own` waiting.
async fn settle_all(
    gate: &Gate,
    repository: &Repository,
    state: &GateState,
    own: Option<&Permit>,
) -> Result<usize, GateError> {
    let mut left = 0;
    for open in state.claims()? {
        if own.is_some_and(|own| own.claim.transaction_id == open.id()) {
            continue;
        }
        let now = repository.head(&open.reference)?;
        let outcome = settle(&open.old.0, &open.new.0, &now, open.pusher.liveness());
        let Some(outcome) = outcome else {
            left += 1;
            if own.is_some_and(|own| own.claim.resource_id == open.claim.resource_id) {
                let text = "ref_busy: another push of this ref is under way";
                return Err(GateError::Unavailable(text.into()));
            }
            continue;
        };
        close(gate, state, &open, outcome, now).await?;
    }
    Ok(left)
}

/// Reports one outcome and forgets the claim once the journal has a word on it.
async fn close(
    gate: &Gate,
    state: &GateState,
    open: &OpenClaim,
    outcome: OutcomeKind,
    now: Vec<u8>,
) -> Result<(), GateError> {
    // A claim whose fate is unknown is asked for again: if it is refused, there is nothing to report.
    if open.stage == Stage::Sent
        && let Err(error) = gate.claim(open).await
    {
        return match error {
            GateError::Refused(refused) => {
                note(&format!(
                    "redlatch: the claim of {} never counted: {}",
                    open.intent,
                    refused.code()
                ));
                Ok(state.forget(open)?)
            }
            other => Err(other),
        };
    }
    match gate.report(open, outcome, now).await? {
        Ok(_) => {
            note(&format!(
                "redlatch: reported {outcome} for {}",
                open.reference
            ));
            Ok(state.forget(open)?)
        }
        // The journal has another word on this effect, a person's for instance, and keeps it.
        Err(
            refusal @ (Refusal::WrongState | Refusal::UnknownTransaction | Refusal::UnknownIntent),
        ) => {
            note(&format!(
                "redlatch: {outcome} for {} was not taken: {refusal}",
                open.reference
            ));
            Ok(state.forget(open)?)
        }
        Err(refusal) => Err(refusal.into()),
    }
}

fn read_stdin() -> Result<Vec<u8>, GateError> {
    let mut bytes = Vec::new();
    let read = std::io::stdin()
        .lock()
        .take(STDIN_BYTES_MAX + 1)
        .read_to_end(&mut bytes);
    match read {
        Ok(count) if count as u64 <= STDIN_BYTES_MAX => Ok(bytes),
        _ => Err(Refused::MalformedPush.into()),
    }
}

/// The push options that git hands to the hook.
fn push_options() -> Result<Vec<String>, GateError> {
    let Some(count) = environment::text("GIT_PUSH_OPTION_COUNT") else {
        return Ok(Vec::new());
    };
    let count: usize = count
        .parse()
        .ok()
        .filter(|count| *count <= 64)
        .ok_or(Refused::MalformedOption)?;
    (0..count)
        .map(|n| {
            environment::text(&format!("GIT_PUSH_OPTION_{n}"))
                .ok_or(Refused::MalformedOption.into())
        })
        .collect()
}

/// A hook's end: one line that `redlatch land` reads back, and a hint for people.
pub(crate) fn ended(error: GateError) -> Failure {
    let failure = Failure::from(error);
    let text = match failure.code {
        ExitCode::Refused | ExitCode::Unavailable | ExitCode::Indeterminate => failure.text,
        _ => format!("failed {}", failure.text),
    };
    Failure {
        code: failure.code,
        text,
        hint: failure.hint,
    }
}
