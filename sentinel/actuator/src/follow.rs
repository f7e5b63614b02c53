//! What runs beside the services: repeats, and the journal.
//!
//! ```text
//!   when due ─▶ tick ─▶ commands again
//!   journal  ─▶ frozen bytes, proven stops ─▶ desk
//!            ─▶ at its end: read point of a majority ─▶ read again, if something was left out
//!                                                   ─▶ narrow, if more is held than grounds say
//! ```

use std::sync::Arc;
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use redlatch_link::diagnostics::Condition;
use redlatch_link::follow::{Batch, Follower, News, ProvenLatches, Standing, Wanted, frozen_at};
use redlatch_link::store::Store;
use redlatch_link::world::{self, Monotonic};
use redlatch_types::event::Event;
use redlatch_types::proven::ProvenEvent;
use redlatch_types::records::SovereignActionIntentV1;
use redlatch_types::{Canonical, Digest, IntentDigest};

use crate::alarm::FatalCause;
use crate::desk::{Desk, Stopped};

/// Longest time without a look at what is due.
const LOOK: Duration = Duration::from_secs(1);
/// Pause before the journal is read on, while a stop is under way.
const SOON: Duration = Duration::from_millis(30);
/// The same while none is.
const IDLE: Duration = Duration::from_millis(300);
/// How often the leaves of open latches are read again: an event may have come before its latch.
const AGAIN: Duration = Duration::from_secs(2);
/// How often HOLD is compared with what a majority vouches for.
const COMPARE: Duration = Duration::from_millis(500);
/// How often what was read is compared with it while HOLD is no wider than that: a latch may be hidden.
const COMPARE_AT_REST: Duration = Duration::from_secs(5);
/// How long a node may take.
const DEADLINE: Duration = Duration::from_secs(3);
/// Leaves after which the place in the journal is kept, though nothing was wanted.
const KEEP_EVERY: u64 = 1_024;

/// Repeats commands when they are due.
pub(crate) async fn repeat<S: Store>(desk: Arc<Desk<S>>) {
    while let Ok(due) = desk.tick().await {
        let wait = due.unwrap_or(LOOK).min(LOOK);
        // Either way it is looked at what is due.
        let _ = world::timeout(wait, desk.rescheduled.notified()).await;
    }
}

/// What the actuator needs of the journal.
fn wanted(event: &Event) -> Wanted {
    match event {
        Event::Frozen(..) => Wanted::Read,
        Event::RedLatched(..)
        | Event::RedChained(..)
        | Event::SafetyIntentStored(..)
        | Event::SafetyPrepared(..)
        | Event::LatchCommitting(..)
        | Event::SafetyCommitted(..)
        | Event::EpochPublished(..)
        | Event::SafetyTerminal(..)
        | Event::OutboxAcknowledged(..)
        | Event::GroundsReset(..)
        | Event::RootActed(..) => Wanted::Proof,
        _ => Wanted::No,
    }
}

/// Reads the journal for one actuator.
pub(crate) struct Reader<S> {
    pub(crate) desk: Arc<Desk<S>>,
    pub(crate) follower: Follower,
    pub(crate) rng: ChaCha20Rng,
    pub(crate) condition: Condition,
    kept: u64,
    root_acts: u64,
    reread: Monotonic,
    compared: Option<Monotonic>,
}

impl<S: Store> Reader<S> {
    pub(crate) fn new(
        desk: Arc<Desk<S>>,
        follower: Follower,
        rng: ChaCha20Rng,
        condition: Condition,
    ) -> Reader<S> {
        Reader {
            kept: follower.position(),
            root_acts: follower.trust().in_force().root_acts,
            desk,
            follower,
            rng,
            condition,
            reread: Monotonic::now(),
            compared: None,
        }
    }

    /// Follows the journal until the machine is gone.
    pub(crate) async fn run(mut self) {
        while let Ok(pause) = self.round().await {
            // Either way the journal is read on.
            let _ = world::timeout(pause, self.desk.news.notified()).await;
        }
    }

    /// Reads on once; how long there is nothing to do.
    async fn round(&mut self) -> Result<Duration, Stopped> {
        let (could_narrow, working) = self.desk.waits().await;
        if working && self.reread.elapsed() >= AGAIN {
            self.reread = Monotonic::now();
            if let Some(first) = self.desk.first_open().await {
                self.follower.reread(first);
            }
        }
        let mut more = false;
        match self.follower.read_on(wanted).await {
            Ok(batch) => {
                more = !batch.at_end;
                self.take_in(&batch).await?;
                if batch.at_end {
                    self.compare(could_narrow).await?;
                }
            }
            Err(error) => tracing::debug!(%error, "the journal cannot be read on yet"),
        }
        let (_, working) = self.desk.waits().await;
        Ok(if more || working { SOON } else { IDLE })
    }

    async fn take_in(&mut self, batch: &Batch) -> Result<(), Stopped> {
        for (_, news) in &batch.news {
            match news {
                News::Read(event) => {
                    if let Event::Frozen(_, _, intent, _) = &**event {
                        self.desk.frozen((**intent).clone()).await?;
                    }
                }
                News::Proven(event) => self.hear(event).await?,
            }
        }
        if let Some(trust) = &batch.trust {
            self.desk.follow(self.follower.nodes().clone());
            self.desk.in_force(trust.in_force().autonomy_epoch).await?;
        }
        let stops = |(_, news): &(u64, News)| matches!(news, News::Proven(_));
        let trust = batch.trust.as_deref();
        let due = batch.next >= self.kept.saturating_add(KEEP_EVERY);
        if trust.is_some() || due || batch.news.iter().any(stops) {
            self.desk.read_to(batch.next, trust).await?;
            self.kept = batch.next;
        }
        if trust.is_some_and(|it| it.in_force().root_acts != self.root_acts) {
            self.desk.alarm.raise(FatalCause::RootActed);
            return Err(Stopped);
        }
        Ok(())
    }

    async fn hear(&self, event: &ProvenEvent) -> Result<(), Stopped> {
        tracing::debug!(
            event = event.event().word(),
            position = event.index(),
            "read"
        );
        let Some(missing) = self.desk.heard(event).await? else {
            return Ok(());
        };
        match self.fetch(&missing).await {
            Some(intent) => {
                self.desk.frozen(intent).await?;
                self.desk.heard(event).await?;
            }
            None => tracing::warn!(%missing, "the bytes of a frozen intent are not to be had yet"),
        }
        Ok(())
    }

    /// The bytes of a frozen intent, of whichever node has them; whose digest is another's are nobody's.
    async fn fetch(&self, intent: &IntentDigest) -> Option<SovereignActionIntentV1> {
        let leaf = self
            .follower
            .nodes()
            .leaf(frozen_at(intent), DEADLINE)
            .await;
        let (_, leaf) = leaf.ok()?;
        match Event::from_canonical(&leaf).ok()? {
            Event::Frozen(_, _, bytes, _) if bytes.digest() == *intent => Some(*bytes),
            _ => None,
        }
    }

    /// Asks a majority how far the journal is; HOLD becomes what its grounds say, if all of them are known and
    /// more is held than they say.
    async fn compare(&mut self, could_narrow: bool) -> Result<(), Stopped> {
        let often = if could_narrow {
            COMPARE
        } else {
            self.condition.met();
            COMPARE_AT_REST
        };
        let early = self.compared.is_some_and(|at| at.elapsed() < often);
        if early && !self.follower.has_reached() {
            return Ok(());
        }
        self.compared = Some(Monotonic::now());
        let mut nonce = Digest::ZERO;
        self.rng.fill_bytes(&mut nonce.0);
        let point = match self.follower.read_point(nonce, DEADLINE).await {
            Ok(point) => point,
            Err(error) => {
                tracing::debug!(%error, "no majority to ask for the live grounds");
                return Ok(());
            }
        };
        let (up_to, at) = self.desk.latches().await?;
        let standing = self
            .follower
            .compare(&point, Some(ProvenLatches { up_to, at }));
        let narrows = could_narrow && standing == Standing::Level;
        if narrows && self.desk.narrow(point.size).await? {
            self.condition.met();
        }
        Ok(())
    }
}
