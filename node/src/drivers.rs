//! What carries work forward without being asked (M1-I28): held REDs, time, void transactions.
//!
//! ```text
//!   place, held ──▶ guard      every node: settle held REDs, judge the clock, tell the cosigner
//!   held        ──▶ reds       leader: latch what is held here; others: hand it on to every peer
//!   peers       ──▶ forwarded  every node: hold what is handed on, if the sentinel has signed it
//!   idle        ──▶ time       leader: a tick at least every 10 s while something live ends by time
//!   prepared    ──▶ aborts     leader: end what can no longer commit
//! ```
//!
//! Each step is read from the applied state and is compare-and-set in the journal, so two leaders, an old
//! and a new one, can both try it. None of it is authority.

use std::sync::Arc;
use std::time::Duration;

use redlatch_journal::authority::TransactionStage;
use redlatch_journal::{Authority, Command, admit, decide};
use redlatch_link::world::{self, JoinHandle, Monotonic};
use redlatch_raft::cosign::CosignHold;
use redlatch_raft::engine::Engine;
use redlatch_raft::proposer::Class;
use redlatch_types::command::RawCommand;
use redlatch_types::records::AbortReason;
use redlatch_types::{Canonical, Digest, TransactionId};

use crate::service::Desk;
use crate::view;

/// Longest time for which state time stands still while something live ends by time.
pub const TICK_IDLE_MAX: Duration = Duration::from_secs(10);
/// How often the leader looks for what is void.
const LOOK: Duration = Duration::from_secs(1);
/// Pause before a held RED is proposed again.
const RED_AGAIN: Duration = Duration::from_millis(250);
/// How long one step of a driver may take.
const STEP_DEADLINE: Duration = Duration::from_secs(10);

/// Every reason that a driver may find; a withdrawal is its proposer's own act.
const VOID_REASONS: [AbortReason; 6] = [
    AbortReason::RedLatched,
    AbortReason::Frozen,
    AbortReason::EpochFenced,
    AbortReason::StaleHead,
    AbortReason::GrantEnded,
    AbortReason::Expired,
];

/// Starts the drivers. They run until they are aborted.
pub(crate) fn start<E: Engine>(desk: &Arc<Desk<E>>) -> Vec<JoinHandle<()>> {
    vec![
        world::spawn(guard(Arc::clone(desk))),
        world::spawn(reds(Arc::clone(desk))),
        world::spawn(forwarded(Arc::clone(desk))),
        world::spawn(time(Arc::clone(desk))),
        world::spawn(aborts(Arc::clone(desk))),
    ]
}

/// Tells the cosigner what to hold back, whenever state or held REDs change.
async fn guard<E: Engine>(desk: Arc<Desk<E>>) {
    let mut places = desk.raft.watch_place();
    let mut told = CosignHold::None;
    loop {
        places.borrow_and_update();
        let (clock, held) = desk
            .raft
            .read(|state| (state.authority.clock, desk.held.settle(&state.authority)));
        desk.clock.judge(clock.tick, clock.state_time);
        let hold = if held > 0 {
            CosignHold::RedHeld
        } else if desk.clock.is_fit() {
            CosignHold::None
        } else {
            CosignHold::ClockUnfit
        };
        if hold != told {
            tracing::warn!(?hold, "what this node withholds has changed");
            // A fault of the store has raised the alarm already and ends the process.
            if desk.raft.hold_cosigning(hold).await.is_err() {
                return;
            }
            told = hold;
        }
        tokio::select! {
            biased;
            changed = places.changed() => if changed.is_err() { return },
            () = desk.held.for_guard() => {}
        }
    }
}

/// Latches what is held while this node leads; else hands it on, so that one delivery of the sentinel to any
/// node is enough (D2).
async fn reds<E: Engine>(desk: Arc<Desk<E>>) {
    loop {
        let Some(command) = desk.held.command() else {
            let _ = world::timeout(LOOK, desk.held.for_driver()).await;
            continue;
        };
        if desk.raft.leads() {
            let proposed = desk.raft.propose(Class::Red, command, STEP_DEADLINE).await;
            tracing::info!(latched = proposed.is_ok(), "proposed the REDs held here");
            world::sleep(RED_AGAIN).await;
        } else {
            // Most often the leader was brought them as well, and there is nothing left to hand on.
            world::sleep(RED_AGAIN).await;
            if let Some(command) = desk.held.command() {
                desk.raft.forward_reds(&command).await;
            }
        }
    }
}

/// Holds what peers hand on. They are not believed: only the sentinel's signature makes a RED.
async fn forwarded<E: Engine>(desk: Arc<Desk<E>>) {
    loop {
        let command = desk.raft.forwarded_reds().await;
        if let Ok(Command::LatchRed(segment)) = admit(&command) {
            desk.raft
                .read(|state| desk.held.hold(&segment, &state.authority));
        }
    }
}

/// Keeps time going while something live ends by it.
async fn time<E: Engine>(desk: Arc<Desk<E>>) {
    let mut last = (0, Monotonic::now());
    loop {
        world::sleep(LOOK).await;
        let state_time_ms = desk.raft.place().state_time_ms;
        if state_time_ms != last.0 {
            last = (state_time_ms, Monotonic::now());
        }
        let due = last.1.elapsed() + LOOK >= TICK_IDLE_MAX
            && desk.raft.leads()
            && desk
                .raft
                .read(|state| view::waits_for_time(&state.authority));
        if due {
            // A client batch brings a tick with it. This one asks for the end of a transaction that cannot
            // exist and is refused without a trace.
            let nothing = RawCommand::Abort(TransactionId(Digest::ZERO), AbortReason::Expired);
            let _ = desk
                .raft
                .propose(Class::Client, nothing.to_canonical(), STEP_DEADLINE)
                .await;
        }
    }
}

/// Ends prepared transactions that can no longer commit, so that what they hold is free.
async fn aborts<E: Engine>(desk: Arc<Desk<E>>) {
    loop {
        world::sleep(LOOK).await;
        if !desk.raft.leads() {
            continue;
        }
        for (id, reason) in desk.raft.read(|state| void_transactions(&state.authority)) {
            tracing::info!(transaction = %id, ?reason, "ending a void transaction");
            let command = RawCommand::Abort(id, reason).to_canonical();
            let proposed = desk
                .raft
                .propose(Class::Client, command, STEP_DEADLINE)
                .await;
            if proposed.is_err() {
                break;
            }
        }
    }
}

/// Prepared transactions whose end the journal would accept, with the reason that it would accept.
pub fn void_transactions(authority: &Authority) -> Vec<(TransactionId, AbortReason)> {
    let prepared = authority
        .transactions
        .iter()
        .filter(|(_, it)| it.stage == TransactionStage::Prepared);
    prepared
        .filter_map(|(id, _)| {
            let accepted = |reason: &&AbortReason| {
                let command = Command::Abort(*id, (*reason).clone());
                decide(authority, &command).reply.is_ok()
            };
            let reason = VOID_REASONS.iter().find(accepted)?;
            Some((*id, reason.clone()))
        })
        .collect()
}
