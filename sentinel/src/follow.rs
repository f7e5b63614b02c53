//! What runs beside the service: beats, repeats, and the journal.
//!
//! ```text
//!   every 250 ms ─▶ beat ─▶ actuator ─▶ what it remembers
//!   when due     ─▶ tick ─▶ deliveries again
//!   journal      ─▶ proven events ─▶ desk; at its end: compared with what a majority vouches for
//! ```

use std::sync::Arc;
use std::time::Duration;

use redlatch_link::diagnostics::Condition;
use redlatch_link::follow::{Batch, Follower, News, ProvenLatches, Standing, Wanted};
use redlatch_link::store::Store;
use redlatch_link::world::{self, Monotonic};
use redlatch_types::event::Event;
use redlatch_watch::outbox::Memory;

use crate::alarm::FatalCause;
use crate::courier::NoAnswer;
use crate::desk::{Desk, Stopped};
use crate::metrics::Outcome;

/// How often the numbers are shown afresh: ages grow by themselves.
const SHOW_EVERY: Duration = Duration::from_millis(250);
/// Between two beats. The actuator calls the sentinel silent after one second.
const BEAT: Duration = Duration::from_millis(250);
/// Longest time without a look at what is due.
const LOOK: Duration = Duration::from_secs(1);
/// Pause before the journal is read on, while something waits for it.
const SOON: Duration = Duration::from_millis(50);
/// The same while nothing does.
const IDLE: Duration = Duration::from_millis(500);
/// How often the end of the journal is compared with what a majority vouches for.
const COMPARE: Duration = Duration::from_secs(5);
/// How long that may take.
const COMPARE_DEADLINE: Duration = Duration::from_secs(3);
/// Leaves after which the place in the journal is kept, though nothing was wanted.
const KEEP_EVERY: u64 = 1_024;

/// Beats until the machine is gone.
pub(crate) async fn beat<S: Store>(desk: Arc<Desk<S>>, condition: Condition) {
    loop {
        let Ok(beat) = desk.beat().await else {
            return;
        };
        let beaten = desk.couriers.beat(&beat).await;
        desk.metrics.beaten(Outcome::of(&beaten));
        match beaten {
            Ok(head) => {
                if desk.remembered(Memory::Actuator, head).await.is_err() {
                    return;
                }
                condition.met();
            }
            Err(NoAnswer::NotTrusted(reason)) => condition.unmet(reason.to_string()),
            Err(_) => condition.unmet("the actuator does not answer"),
        }
        world::sleep(BEAT).await;
    }
}

/// Shows numbers until the machine is gone.
pub(crate) async fn show<S: Store>(desk: Arc<Desk<S>>) {
    while desk.show().await.is_ok() {
        world::sleep(SHOW_EVERY).await;
    }
}

/// Repeats deliveries when they are due.
pub(crate) async fn repeat<S: Store>(desk: Arc<Desk<S>>) {
    while let Ok(due) = desk.tick().await {
        let wait = due.unwrap_or(LOOK).min(LOOK);
        // Either way it is looked at what is due.
        let _ = world::timeout(wait, desk.rescheduled.notified()).await;
    }
}

/// What the sentinel needs of the journal.
fn wanted(event: &Event) -> Wanted {
    match event {
        Event::RedLatched(..)
        | Event::RedChained(..)
        | Event::SafetyTerminal(..)
        | Event::OutboxAcknowledged(..)
        | Event::GroundsReset(..)
        | Event::SubjectChanged(..)
        | Event::RootActed(..)
        | Event::Authorized(..) => Wanted::Proof,
        _ => Wanted::No,
    }
}

/// Follows the journal until the machine is gone.
pub(crate) async fn journal<S: Store>(
    desk: Arc<Desk<S>>,
    mut follower: Follower,
    condition: Condition,
) {
    let mut kept = follower.position();
    let mut compared: Option<Monotonic> = None;
    loop {
        let mut pause = desk.awaits().await;
        match follower.read_on(wanted).await {
            Ok(batch) => {
                pause |= !batch.at_end;
                if take_in(&desk, &batch, &mut kept).await.is_err() {
                    return;
                }
                let due = compared.is_none_or(|at| at.elapsed() >= COMPARE);
                if batch.at_end && due {
                    match compare(&desk, &mut follower).await {
                        Ok(true) => {
                            compared = Some(Monotonic::now());
                            condition.met();
                        }
                        Ok(false) => {}
                        Err(Stopped) => return,
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "the journal cannot be read on yet"),
        }
        let pause = if pause { SOON } else { IDLE };
        // Either way the journal is read on.
        let _ = world::timeout(pause, desk.news.notified()).await;
    }
}

async fn take_in<S: Store>(
    desk: &Arc<Desk<S>>,
    batch: &Batch,
    kept: &mut u64,
) -> Result<(), Stopped> {
    for (_, news) in &batch.news {
        if let News::Proven(event) = news {
            tracing::debug!(
                event = event.event().word(),
                position = event.index(),
                "read"
            );
            desk.heard(event).await?;
        }
    }
    let acted = match &batch.trust {
        Some(trust) => desk.follow(trust).await?,
        None => false,
    };
    let keep = batch.trust.is_some()
        || !batch.news.is_empty()
        || batch.next >= kept.saturating_add(KEEP_EVERY);
    desk.read_to(batch.next, keep).await?;
    if keep {
        *kept = batch.next;
    }
    if acted {
        desk.alarm.raise(FatalCause::RootActed);
        return Err(Stopped);
    }
    Ok(())
}

/// Compares what was read with what a majority vouches for; false: there is more to read.
async fn compare<S: Store>(desk: &Arc<Desk<S>>, follower: &mut Follower) -> Result<bool, Stopped> {
    let nonce = desk.draw().await?;
    let point = match follower.read_point(nonce, COMPARE_DEADLINE).await {
        Ok(point) => point,
        Err(error) => {
            tracing::debug!(%error, "no majority to compare with");
            return Ok(false);
        }
    };
    desk.state_time(point.state_time).await?;
    let (known, at) = desk.known().await?;
    let up_to = known.latches;
    let standing = follower.compare(&point, Some(ProvenLatches { up_to, at }));
    if standing != Standing::Level {
        return Ok(false);
    }
    desk.remembered(Memory::Journal, known.watermark).await?;
    Ok(true)
}
