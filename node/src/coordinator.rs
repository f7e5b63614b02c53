//! The leader's coordinator: takes frozen intents to their decision, and decided ones to their marker (§5, §7).
//!
//! ```text
//!   Frozen ─┬▶ ballot: four verifiers and the sentinel ─▶ Authorize ───────────────┐
//!           └▶ brought: approvals or receipts, and GREEN ─▶ AuthorizeHuman, …Policy ┤ each proposed only
//!   Authorized ─▶ Prepare ─┐                                                       │ after the one before
//!   Prepared ─▶ Commit     │◀──────────────────────────────────────────────────────┘ was read as applied
//!   Committed, inside the journal ─▶ Activate, once it is due
//! ```
//!
//! It reads the applied state and nothing else, so a new leader goes on where it finds things (M1-I28); every
//! command is compare-and-set, so an old leader's repeats change nothing. It is trusted with nothing:
//! verifiers and journal check whatever it brings. What it remembers is for people ([`Progress`]) and goes
//! when this node no longer leads.

mod ballot;
mod brought;
mod parties;
mod progress;
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redlatch_journal::authority::{EffectStage, IntentStage, TransactionStage};
use redlatch_journal::{Authority, Command, decide};
use redlatch_link::logs::INTENT_ID;
use redlatch_link::world::{self, JoinHandle, Monotonic};
use redlatch_raft::engine::Engine;
use redlatch_raft::proposer::{Class, Committed, ProposeError};
use redlatch_types::command::RawCommand;
use redlatch_types::records::{AuthorityVariant, SovereignActionIntentV1};
use redlatch_types::{Canonical, IntentDigest, Refusal, TransactionId};

use crate::service::Desk;

pub(crate) use ballot::findings_of;
pub(crate) use parties::Parties;
pub use parties::PartyAddresses;
pub(crate) use progress::{Progress, of_counted};
pub(crate) use support::Support;

/// How often the state is looked at while nothing is applied.
const LOOK: Duration = Duration::from_millis(500);
/// How long one step may take.
const STEP_DEADLINE: Duration = Duration::from_secs(10);
/// Pause before a step that was refused, or has no outcome, is tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// Most intents that are worked on at once.
const AT_ONCE: usize = 32;

/// What an intent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// A ballot.
    Ballot,
    /// Its decision, by what was brought for it.
    Brought(AuthorityVariant),
    /// PREPARE.
    Prepare,
    /// COMMIT.
    Commit,
    /// Activate.
    Activate,
}

impl Due {
    /// Whether it ends with the decision, and is over once the decision is.
    fn decides(self) -> bool {
        matches!(self, Due::Ballot | Due::Brought(_))
    }
}

/// What is being done about an intent.
struct Running {
    due: Due,
    task: JoinHandle<()>,
}

/// Carries intents forward while this node leads, until it is aborted.
pub(crate) async fn coordinate<E: Engine>(desk: Arc<Desk<E>>, parties: Arc<Parties>) {
    let mut places = desk.raft.watch_place();
    let mut running: BTreeMap<IntentDigest, Running> = BTreeMap::new();
    let mut rested: BTreeMap<IntentDigest, Monotonic> = BTreeMap::new();
    loop {
        places.borrow_and_update();
        if desk.raft.leads() {
            look(&desk, &parties, &mut running, &mut rested);
        } else if !running.is_empty() || !rested.is_empty() {
            running.values().for_each(|it| it.task.abort());
            running.clear();
            rested.clear();
            desk.progress.forget();
            desk.support().forget();
        }
        // Stopping is somebody else's matter; without a change the state is looked at all the same.
        let _ = world::timeout(LOOK, places.changed()).await;
    }
}

/// Starts what is due and not yet under way.
fn look<E: Engine>(
    desk: &Arc<Desk<E>>,
    parties: &Arc<Parties>,
    running: &mut BTreeMap<IntentDigest, Running>,
    rested: &mut BTreeMap<IntentDigest, Monotonic>,
) {
    let due = desk.raft.read(|state| {
        let mut support = desk.support();
        support.settle(&state.authority);
        due(&state.authority, &support)
    });
    running.retain(|digest, it| {
        let finished = it.task.is_finished();
        if finished && due.get(digest) == Some(&it.due) {
            // It ended, and the state still wants it: not at once again.
            rested.insert(*digest, Monotonic::now());
        }
        !finished
    });
    rested.retain(|digest, since| due.contains_key(digest) && since.elapsed() < AGAIN);
    for (digest, due) in due {
        let settled = due.decides() && desk.progress.is_over(&digest);
        let busy = running.contains_key(&digest) || rested.contains_key(&digest);
        if settled || busy || running.len() >= AT_ONCE {
            continue;
        }
        let (desk, parties) = (Arc::clone(desk), Arc::clone(parties));
        let task = match due {
            Due::Ballot => world::spawn(ballot::run(desk, parties, digest)),
            Due::Brought(variant) => world::spawn(brought::run(desk, parties, digest, variant)),
            Due::Prepare | Due::Commit | Due::Activate => world::spawn(step(desk, digest)),
        };
        running.insert(digest, Running { due, task });
    }
}

/// What every live intent waits for, as far as this driver can do it.
fn due(authority: &Authority, support: &Support) -> BTreeMap<IntentDigest, Due> {
    let now = authority.clock.state_time;
    let live = authority.intents.iter();
    live.filter_map(|(digest, it)| {
        let due = match &it.stage {
            IntentStage::Frozen => {
                let alive = it.intent.expires_at > now;
                alive.then(|| undecided(authority, support, digest, &it.intent))?
            }
            IntentStage::Authorized(permit) => {
                (permit.capability.expires_at > now).then_some(Due::Prepare)
            }
            IntentStage::InTransaction(id) => in_transaction(authority, id, &it.intent),
        };
        Some((*digest, due?))
    })
    .collect()
}

/// How an intent is decided, once there is enough to decide it by.
fn undecided(
    authority: &Authority,
    support: &Support,
    digest: &IntentDigest,
    intent: &SovereignActionIntentV1,
) -> Option<Due> {
    let variant = intent.required_authority_variant;
    let enough = match variant {
        AuthorityVariant::AgentQuorum => return Some(Due::Ballot),
        AuthorityVariant::Human => support.persons(digest) as u64 >= persons_required(authority),
        AuthorityVariant::Policy => !support.receipts(digest).is_empty(),
    };
    enough.then_some(Due::Brought(variant))
}

/// How many persons must approve a human decision.
pub(crate) fn persons_required(authority: &Authority) -> u64 {
    let governance = authority.governance.as_ref();
    governance.map_or(u64::MAX, |it| {
        it.constitution.human_approvals_required.max(1)
    })
}

/// COMMIT, or for what changes the organism itself its activation when that is due.
fn in_transaction(
    authority: &Authority,
    id: &TransactionId,
    intent: &SovereignActionIntentV1,
) -> Option<Due> {
    match &authority.transactions.get(id)?.stage {
        TransactionStage::Prepared => Some(Due::Commit),
        TransactionStage::Committed(marker, EffectStage::Unclaimed) => {
            let now = authority.clock.state_time;
            let due = !intent.action.is_external()
                && intent.payload.activates_at() <= now
                && now < marker.effect_deadline
                && !kept_out(authority, id);
            due.then_some(Due::Activate)
        }
        TransactionStage::Committed(..) => None,
    }
}

/// Whether a stop or another change keeps an activation out: it is not proposed again and again. That its
/// COMMIT is in the entry applied last does not.
fn kept_out(authority: &Authority, id: &TransactionId) -> bool {
    let reply = decide(authority, &Command::Activate(*id)).reply;
    !matches!(reply, Ok(_) | Err(Refusal::TooEarly))
}

/// The one command that follows from where an intent stands now.
fn next(authority: &Authority, digest: &IntentDigest) -> Option<RawCommand> {
    match &authority.intents.get(digest)?.stage {
        IntentStage::Frozen => None,
        IntentStage::Authorized(permit) => {
            Some(RawCommand::Prepare(*digest, permit.capability.id()))
        }
        IntentStage::InTransaction(id) => match &authority.transactions.get(id)?.stage {
            TransactionStage::Prepared => Some(RawCommand::Commit(*id)),
            TransactionStage::Committed(..) => Some(RawCommand::Activate(*id)),
        },
    }
}

/// Proposes the next step of an intent, read from the applied state.
async fn step<E: Engine>(desk: Arc<Desk<E>>, digest: IntentDigest) {
    if let Some(command) = desk.raft.read(|state| next(&state.authority, &digest)) {
        propose(&desk, digest, &command).await;
    }
}

/// Proposes a command and notes a refusal. Whatever becomes of it is read from the state.
async fn propose<E: Engine>(desk: &Desk<E>, digest: IntentDigest, command: &RawCommand) {
    let proposed = desk
        .raft
        .propose(Class::Client, command.to_canonical(), STEP_DEADLINE)
        .await;
    match proposed.map(|it: Committed| it.outcome.reply) {
        Ok(Ok(accepted)) => {
            tracing::info!({ INTENT_ID } = %digest, ?accepted, "a step is applied");
        }
        // The step before was in the same entry: it is looked at again.
        Ok(Err(Refusal::TooEarly)) => {}
        Ok(Err(refusal)) => {
            tracing::warn!({ INTENT_ID } = %digest, %refusal, "a step is refused");
            desk.progress.refused(&digest, refusal);
        }
        Err(ProposeError::NotLeader { .. }) => {}
        Err(error) => tracing::warn!({ INTENT_ID } = %digest, %error, "a step has no outcome yet"),
    }
}

#[cfg(test)]
mod tests;
