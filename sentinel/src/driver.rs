//! The one place where effects happen, in their order: durable first, then said or sent.
//!
//! After a failed `Persist` nothing that comes after it is run, the alarm is raised, and the caller takes the
//! machine away.

use std::sync::Arc;

use redlatch_link::store::Store;
use redlatch_link::world;
use redlatch_types::Envelope;
use redlatch_watch::outbox;
use redlatch_watch::verdict::{self, Silence};

use crate::alarm::{Alarm, FatalCause};
use crate::courier;
use crate::desk::{Desk, Machine, Stopped};
use crate::metrics::{Cause, SILENT};
use crate::store::{self, KeptError};

/// Carries out what the outbox wants.
pub(crate) async fn run_outbox<S: Store>(
    desk: &Arc<Desk<S>>,
    effects: Vec<outbox::Effect>,
) -> Result<(), Stopped> {
    for effect in effects {
        match effect {
            outbox::Effect::Persist(write) => {
                let store = desk.store.clone();
                let kept = world::blocking(move || store::persist(&store, &write)).await;
                durable(desk, kept)?;
            }
            outbox::Effect::Deliver(delivery) => {
                courier::dispatch(Arc::clone(desk), delivery);
            }
            outbox::Effect::Alarm(damage) => {
                tracing::error!(
                    ?damage,
                    "the outbox is damaged: GREEN is refused until the root replaces this sentinel"
                );
            }
        }
    }
    Ok(())
}

/// Carries out what the judge wants, and gives what it says: a sealed verdict, or why there is none.
pub(crate) async fn run_judge<S: Store>(
    desk: &Arc<Desk<S>>,
    machine: &mut Machine,
    effects: Vec<verdict::Effect>,
) -> Result<Result<Envelope, Silence>, Stopped> {
    let mut said = Err(Silence::NotAFreeze);
    for effect in effects {
        match effect {
            verdict::Effect::Persist(judgement) => {
                let store = desk.store.clone();
                let kept = world::blocking(move || store::keep(&store, &judgement)).await;
                durable(desk, kept)?;
            }
            verdict::Effect::Forget(intent) => {
                let store = desk.store.clone();
                let kept = world::blocking(move || store::forget(&store, &intent.0)).await;
                durable(desk, kept)?;
            }
            verdict::Effect::Raise(call) => {
                tracing::warn!(reason = %call.reason, "RED by rule");
                desk.metrics.raised(Cause::Rule);
                let request = call.into_request(machine.draw(), machine.state_time);
                let mut out = Vec::new();
                let now = desk.now();
                machine.outbox.handle_reds(vec![request], now, &mut out);
                run_outbox(desk, out).await?;
                desk.news.notify_one();
            }
            verdict::Effect::State(verdict) => {
                desk.metrics.judged(verdict.verdict.word());
                said = Ok(Envelope::seal(machine.trust.scope(), &desk.key, &*verdict));
            }
            verdict::Effect::Silent(silence) => {
                desk.metrics.judged(SILENT);
                said = Err(silence);
            }
        }
    }
    Ok(said)
}

fn durable<S: Store>(desk: &Arc<Desk<S>>, kept: Result<(), KeptError>) -> Result<(), Stopped> {
    kept.map_err(|error| {
        fatal(&desk.alarm, &error);
        Stopped
    })
}

/// Ends the process for a failure of the store.
pub(crate) fn fatal(alarm: &Alarm, error: &KeptError) {
    alarm.raise(match error {
        KeptError::AnotherWriter => FatalCause::AnotherWriter,
        other => FatalCause::Storage(other.to_string()),
    });
}
