//! The leader's coordinator: takes frozen intents to their decision, and decided ones to their marker (§5, §7).
//!
//! ```text
//!   Frozen ─▶ ballot: four verifiers and the sentinel ─▶ Authorize ─┐
//!   Authorized ─▶ Prepare ─┐                                        │ each proposed only after the
//!   Prepared ─▶ Commit     │◀───────────────────────────────────────┘ one before was read as applied
//! ```
//!
//! It reads the applied state and nothing else, so a new leader goes on where it finds things (M1-I28); every
//! command is compare-and-set, so an old leader's repeats change nothing. It is trusted with nothing:
//! verifiers and journal check whatever it brings. What it remembers is for people ([`Progress`]) and goes
//! when this node no longer leads.

mod ballot;
mod parties;
mod progress;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redlatch_journal::Authority;
use redlatch_journal::authority::{IntentStage, TransactionStage};
use redlatch_link::logs::INTENT_ID;
use redlatch_link::world::{self, JoinHandle, Monotonic};
use redlatch_raft::engine::Engine;
use redlatch_raft::proposer::{Class, Committed, ProposeError};
use redlatch_types::command::RawCommand;
use redlatch_types::records::AuthorityVariant;
use redlatch_types::{Canonical, IntentDigest, Refusal};

use crate::service::Desk;

pub(crate) use ballot::findings_of;
pub(crate) use parties::Parties;
pub use parties::PartyAddresses;
pub(crate) use progress::{Progress, of_counted};

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
    /// PREPARE.
    Prepare,
    /// COMMIT.
    Commit,
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
    let due = desk.raft.read(|state| due(&state.authority));
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
        let settled = due == Due::Ballot && desk.progress.is_over(&digest);
        let busy = running.contains_key(&digest) || rested.contains_key(&digest);
        if settled || busy || running.len() >= AT_ONCE {
            continue;
        }
        let (desk, parties) = (Arc::clone(desk), Arc::clone(parties));
        let task = match due {
            Due::Ballot => world::spawn(ballot::run(desk, parties, digest)),
            Due::Prepare | Due::Commit => world::spawn(step(desk, digest)),
        };
        running.insert(digest, Running { due, task });
    }
}

/// What every live intent waits for, as far as this driver can do it.
fn due(authority: &Authority) -> BTreeMap<IntentDigest, Due> {
    let now = authority.clock.state_time;
    let live = authority.intents.iter();
    live.filter_map(|(digest, it)| {
        let due = match &it.stage {
            IntentStage::Frozen => {
                let ours = it.intent.required_authority_variant == AuthorityVariant::AgentQuorum;
                (ours && it.intent.expires_at > now).then_some(Due::Ballot)
            }
            IntentStage::Authorized(permit) => {
                (permit.capability.expires_at > now).then_some(Due::Prepare)
            }
            IntentStage::InTransaction(id) => {
                let transaction = authority.transactions.get(id);
                transaction
                    .filter(|it| it.stage == TransactionStage::Prepared)
                    .map(|_| Due::Commit)
            }
        };
        Some((*digest, due?))
    })
    .collect()
}

/// The one command that follows from where an intent stands now.
fn next(authority: &Authority, digest: &IntentDigest) -> Option<RawCommand> {
    match &authority.intents.get(digest)?.stage {
        IntentStage::Frozen => None,
        IntentStage::Authorized(permit) => {
            Some(RawCommand::Prepare(*digest, permit.capability.id()))
        }
        IntentStage::InTransaction(id) => Some(RawCommand::Commit(*id)),
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
