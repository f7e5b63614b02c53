//! The one proposer (D10): takes commands by class, builds batches with RED first, keeps at most two
//! entries in openraft, and puts a tick before clients when time has stood still.
//!
//! ```text
//!   propose ──▶ queues: RED | safety | client ──▶ batch ──▶ openraft (at most 2) ──▶ outcomes
//!                                       tick (readings of a majority) ──┘
//! ```
//!
//! A proposal lives here, not in the caller's future: a client that hangs up changes nothing (fault
//! 30). RED is never refused by admission; it waits neither for a tick nor for clients. Each batch
//! carries the term it was decided in, and every node skips it in another (fault 27). What commands
//! mean is not known here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redlatch_types::NodeId;
use redlatch_types::limits::{BATCH_BYTES_MAX, BATCH_COMMANDS_MAX, COMMAND_BYTES_MAX};
use tokio::sync::{Notify, oneshot};

use redlatch_journal::{EntryId, Outcome};

use crate::machine::AppliedEntry;

/// What a command is, as far as order and admission ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A RED segment: first, and never refused by admission.
    Red,
    /// Safety transactions and acknowledgements.
    Safety,
    /// Everything else; waits for a fresh tick.
    Client,
}

/// How much waits in this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProposerLimits {
    /// Commands of clients that may wait.
    pub client_commands_max: usize,
    /// Their bytes.
    pub client_bytes_max: usize,
}

impl Default for ProposerLimits {
    fn default() -> Self {
        // Eight full batches: more would only be waited for longer than a caller waits.
        Self {
            client_commands_max: 8 * BATCH_COMMANDS_MAX,
            client_bytes_max: 8 * BATCH_BYTES_MAX,
        }
    }
}

/// What a command has led to. It is applied on this node and committed on a majority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Events and reply.
    pub outcome: Outcome,
    /// The entry.
    pub entry: EntryId,
    /// Leaf positions of the events.
    pub positions: std::ops::Range<u64>,
}

/// Why a command has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// This node does not lead. Nothing happened; go there.
    #[error("not the leader")]
    NotLeader {
        /// The leader, if it is known.
        leader: Option<NodeId>,
    },
    /// Nothing happened; it is safe to retry anywhere.
    #[error("unavailable; nothing happened")]
    Unavailable,
    /// The queue is full or the command too long. Nothing happened.
    #[error("limit exceeded; nothing happened")]
    LimitExceeded,
    /// It may have happened: ask by key, never blindly retry.
    #[error("indeterminate; it may have happened")]
    Indeterminate,
}

/// One command that waits for its place in the journal.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) command: Vec<u8>,
    reply: oneshot::Sender<Result<Committed, ProposeError>>,
    /// Set by whoever comes first: the proposer that takes it, or the caller that gives up.
    settled: Arc<AtomicBool>,
}

impl Waiting {
    /// Takes the command for a batch; `false` if the caller has given it up.
    fn take(&self) -> bool {
        !self.settled.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn answer(self, result: Result<Committed, ProposeError>) {
        // The caller may have hung up; the command stands where it stands.
        let _ = self.reply.send(result);
    }
}

/// A caller's hold on its command.
#[derive(Debug)]
pub(crate) struct Ticket {
    answer: oneshot::Receiver<Result<Committed, ProposeError>>,
    settled: Arc<AtomicBool>,
}

impl Ticket {
    /// Waits for the outcome.
    pub(crate) async fn outcome(&mut self) -> Result<Committed, ProposeError> {
        // A proposer that is gone may have written the command.
        (&mut self.answer)
            .await
            .unwrap_or(Err(ProposeError::Indeterminate))
    }

    /// Gives up: certain if the command was still waiting, indeterminate if it was taken.
    pub(crate) fn give_up(&self) -> ProposeError {
        if self.settled.swap(true, Ordering::AcqRel) {
            ProposeError::Indeterminate
        } else {
            ProposeError::Unavailable
        }
    }
}

/// The queues that callers fill and the proposer's task empties.
#[derive(Debug)]
pub(crate) struct Queues {
    limits: ProposerLimits,
    inner: Mutex<Inner>,
    pub(crate) filled: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    red: VecDeque<Waiting>,
    safety: VecDeque<Waiting>,
    client: VecDeque<Waiting>,
    client_bytes: usize,
}

/// How many commands wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLengths {
    /// REDs.
    pub red: usize,
    /// Safety.
    pub safety: usize,
    /// Clients.
    pub client: usize,
}

/// Whether clients may go into the next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    /// The last tick is fresh, or a tick goes first in the same batch.
    Go,
    /// They wait for a tick.
    Wait,
}

impl Queues {
    pub(crate) fn new(limits: ProposerLimits) -> Self {
        Self {
            limits,
            inner: Mutex::default(),
            filled: Notify::new(),
        }
    }

    /// Puts a command into its queue.
    pub(crate) fn admit(&self, class: Class, command: Vec<u8>) -> Result<Ticket, ProposeError> {
        let too_long = match class {
            // A segment of REDs may be as long as an entry.
            Class::Red => command.len() > BATCH_BYTES_MAX,
            Class::Safety | Class::Client => command.len() > COMMAND_BYTES_MAX,
        };
        if too_long {
            return Err(ProposeError::LimitExceeded);
        }
        let mut inner = self.lock();
        if class == Class::Client {
            let full = inner.client.len() >= self.limits.client_commands_max
                || inner.client_bytes + command.len() > self.limits.client_bytes_max;
            if full {
                return Err(ProposeError::LimitExceeded);
            }
            inner.client_bytes += command.len();
        }
        let (reply, answer) = oneshot::channel();
        let settled = Arc::new(AtomicBool::new(false));
        let waiting = Waiting {
            command,
            reply,
            settled: Arc::clone(&settled),
        };
        inner.queue(class).push_back(waiting);
        drop(inner);
        self.filled.notify_one();
        Ok(Ticket { answer, settled })
    }

    /// The commands of the next batch: `first`, which counts towards its limits, is the caller's.
    /// RED, then safety, then — after the tick — clients.
    pub(crate) fn next(&self, clients: Clients, tick_bytes: usize) -> Segments {
        let mut inner = self.lock();
        let mut room = Room {
            commands: BATCH_COMMANDS_MAX,
            bytes: BATCH_BYTES_MAX,
        };
        let red = take(&mut inner.red, &mut room);
        let safety = take(&mut inner.safety, &mut room);
        let tick = tick_bytes > 0 && room.fits(tick_bytes);
        let mut client = Vec::new();
        if clients == Clients::Go && (tick || tick_bytes == 0) {
            let before: usize = inner
                .client
                .iter()
                .map(|waiting| waiting.command.len())
                .sum();
            client = take(&mut inner.client, &mut room);
            let after: usize = inner
                .client
                .iter()
                .map(|waiting| waiting.command.len())
                .sum();
            inner.client_bytes -= before - after;
        }
        Segments {
            red,
            safety,
            tick,
            client,
        }
    }

    /// How many wait.
    pub(crate) fn lengths(&self) -> QueueLengths {
        let inner = self.lock();
        QueueLengths {
            red: inner.red.len(),
            safety: inner.safety.len(),
            client: inner.client.len(),
        }
    }

    /// Answers everything that waits in `classes`: it has not been proposed.
    pub(crate) fn refuse(&self, classes: &[Class], error: ProposeError) {
        let mut refused = Vec::new();
        {
            let mut inner = self.lock();
            for class in classes {
                refused.extend(inner.queue(*class).drain(..));
                if *class == Class::Client {
                    inner.client_bytes = 0;
                }
            }
        }
        for waiting in refused {
            waiting.answer(Err(error));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn queue(&mut self, class: Class) -> &mut VecDeque<Waiting> {
        match class {
            Class::Red => &mut self.red,
            Class::Safety => &mut self.safety,
            Class::Client => &mut self.client,
        }
    }
}

/// What one batch is made of.
#[derive(Debug)]
pub(crate) struct Segments {
    red: Vec<Waiting>,
    safety: Vec<Waiting>,
    /// Whether the tick had room.
    pub(crate) tick: bool,
    client: Vec<Waiting>,
}

impl Segments {
    pub(crate) fn is_empty(&self) -> bool {
        !self.tick && self.red.is_empty() && self.safety.is_empty() && self.client.is_empty()
    }

    /// The commands in order with who waits for each; nobody waits for the tick.
    pub(crate) fn ordered(self, tick: Option<Vec<u8>>) -> (Vec<Vec<u8>>, Vec<Option<Waiting>>) {
        let mut commands = Vec::new();
        let mut waiting = Vec::new();
        let tick = tick.filter(|_| self.tick);
        let some = |waiting| (None, Some(waiting));
        let before = self.red.into_iter().chain(self.safety).map(some);
        let ticks = tick.into_iter().map(|tick| (Some(tick), None));
        for (own, waiter) in before.chain(ticks).chain(self.client.into_iter().map(some)) {
            let mut waiter: Option<Waiting> = waiter;
            commands.push(match (own, &mut waiter) {
                (Some(own), _) => own,
                (None, Some(waiter)) => std::mem::take(&mut waiter.command),
                (None, None) => continue,
            });
            waiting.push(waiter);
        }
        (commands, waiting)
    }
}

struct Room {
    commands: usize,
    bytes: usize,
}

impl Room {
    fn fits(&mut self, bytes: usize) -> bool {
        if self.commands == 0 || self.bytes < bytes {
            return false;
        }
        self.commands -= 1;
        self.bytes -= bytes;
        true
    }
}

fn take(queue: &mut VecDeque<Waiting>, room: &mut Room) -> Vec<Waiting> {
    let mut taken = Vec::new();
    while let Some(front) = queue.front() {
        if !room.fits(front.command.len()) {
            break;
        }
        if let Some(front) = queue.pop_front()
            && front.take()
        {
            taken.push(front);
        }
    }
    taken
}

/// Hands the outcomes of an entry to those who wait for them.
pub(crate) fn answer(waiting: Vec<Option<Waiting>>, applied: &AppliedEntry) {
    let results = applied.outcomes.iter().zip(&applied.positions);
    for (waiter, (outcome, positions)) in waiting.into_iter().zip(results) {
        if let Some(waiter) = waiter {
            waiter.answer(Ok(Committed {
                outcome: outcome.clone(),
                entry: applied.entry,
                positions: positions.clone(),
            }));
        }
    }
}

#[cfg(test)]
mod tests;
