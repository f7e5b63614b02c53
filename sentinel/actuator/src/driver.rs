//! The one place where effects happen, in their order: durable first, then said or sent.

use std::sync::Arc;
use std::time::Duration;

use redlatch_link::nodes::Again;
use redlatch_link::store::Store;
use redlatch_link::world;
use redlatch_types::command::RawCommand;
use redlatch_types::{Canonical, Digest, LatchNumber};

use crate::alarm::{Alarm, FatalCause};
use crate::attempts::{self, SafetyCommand};
use crate::desk::{Desk, Stopped};
use crate::hold::{self, SeenV1};
use crate::metrics::{self, ACCEPTED, NO_ANSWER};
use crate::store::{self, KeptError};

/// How long a command is carried from node to node; then it is the attempts' matter again.
const COMMAND_DEADLINE: Duration = Duration::from_secs(3);

/// Carries out what HOLD wants; gives what may be answered to the sentinel.
pub(crate) async fn run_hold<S: Store>(
    desk: &Arc<Desk<S>>,
    effects: Vec<hold::Effect>,
) -> Result<Option<SeenV1>, Stopped> {
    let mut stored = None;
    for effect in effects {
        match effect {
            hold::Effect::Persist(state) => {
                let store = desk.store.clone();
                let kept = world::blocking(move || store::keep_hold(&store, &state)).await;
                durable(desk, kept)?;
            }
            hold::Effect::Stored(seen) => stored = Some(seen),
        }
    }
    Ok(stored)
}

/// Carries out what the attempts want.
pub(crate) async fn run_attempts<S: Store>(
    desk: &Arc<Desk<S>>,
    effects: Vec<attempts::Effect>,
) -> Result<(), Stopped> {
    for effect in effects {
        match effect {
            attempts::Effect::Persist(attempt) => {
                let current = attempt.attempt.digest();
                desk.metrics.works_on(attempt.latch.latch_epoch, current);
                let store = desk.store.clone();
                let kept = world::blocking(move || store::keep_attempt(&store, &attempt)).await;
                durable(desk, kept)?;
            }
            attempts::Effect::Forget(latch) => {
                desk.metrics.is_over(latch);
                let store = desk.store.clone();
                let kept = world::blocking(move || store::forget_attempt(&store, latch)).await;
                durable(desk, kept)?;
            }
            attempts::Effect::Submit {
                latch,
                attempt,
                command,
            } => dispatch(Arc::clone(desk), latch, attempt, command),
            // The journal is read from where the leaves of open latches begin.
            attempts::Effect::Ask(_) | attempts::Effect::AskLive => desk.news.notify_one(),
            attempts::Effect::Alarm(alarm) => tracing::error!(%alarm, "a stop does not go on"),
        }
    }
    Ok(())
}

/// Sends a command off; its answer comes back as an input, or never.
fn dispatch<S: Store>(
    desk: Arc<Desk<S>>,
    latch: LatchNumber,
    attempt: Digest,
    command: SafetyCommand,
) {
    world::spawn(submit(desk, latch, attempt, command));
}

async fn submit<S: Store>(
    desk: Arc<Desk<S>>,
    latch: LatchNumber,
    attempt: Digest,
    command: SafetyCommand,
) {
    let word = metrics::word(&command);
    let command = RawCommand::from(command).to_canonical();
    let (again, no_receipt) = (Again::SameAnswer, Duration::ZERO);
    let nodes = desk.nodes();
    let sent = nodes.submit(&command, &again, COMMAND_DEADLINE, no_receipt);
    match sent.await {
        Ok(submitted) => {
            let reply = submitted.accepted();
            let answer = reply.as_ref().err().map_or(ACCEPTED, |it| it.code());
            desk.metrics.answered(word, answer);
            if let Err(refusal) = &reply {
                tracing::debug!(%latch, %refusal, "a safety command is refused");
            }
            // A machine that is gone needs no answer.
            let _ = desk.reply(latch, attempt, &reply).await;
        }
        Err(error) => {
            desk.metrics.answered(word, NO_ANSWER);
            tracing::debug!(%latch, %error, "no answer to a safety command");
        }
    }
    desk.news.notify_one();
}

fn durable<S: Store>(desk: &Arc<Desk<S>>, kept: Result<(), KeptError>) -> Result<(), Stopped> {
    kept.map_err(|error| {
        fatal(&desk.alarm, &error);
        Stopped
    })
}

/// Ends the process for a failure of the store.
pub(crate) fn fatal(alarm: &Alarm, error: &KeptError) {
    alarm.raise(FatalCause::Storage(error.to_string()));
}
