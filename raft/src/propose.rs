//! The proposer's task: empties the queues of [`crate::proposer`] into openraft while this node leads, and
//! lets openraft's membership follow the roster between two batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use openraft::ServerState;
use openraft::error::ClientWriteError;
use redlatch_journal::State;
use redlatch_link::world;
use redlatch_proto::v1;
use redlatch_types::command::RawCommand;
use redlatch_types::limits::TICK_AGE_MS_MAX;
use redlatch_types::{Canonical, Envelope, NodeId, RosterEpoch, TickNumber};
use tonic::Status;

use crate::batch::{Batch, BatchContent};
use crate::config::{EntryOutcome, Raft};
use crate::engine::Engine;
use crate::links::call;
use crate::membership::Step;
use crate::proposer::{self, Class, Clients, ProposeError, Queues, Waiting};
use crate::shared::Shared;

mod change;

/// Entries in openraft at once (D10).
const IN_FLIGHT_MAX: usize = 2;

const READING_DEADLINE: Duration = Duration::from_millis(500);
const READING_ATTEMPTS: usize = 4;
const READING_PAUSE: Duration = Duration::from_millis(100);

/// While there is nothing to do, leadership is looked at this often besides its own changes.
const LOOK: Duration = Duration::from_millis(500);

/// What became of one entry.
struct Written {
    waiting: Vec<Option<Waiting>>,
    outcome: WriteOutcome,
    /// Whether the batch held a tick.
    ticked: bool,
}

enum WriteOutcome {
    Applied(Arc<crate::machine::AppliedEntry>),
    /// Certainly not applied, here or anywhere.
    Nothing(ProposeError),
    Indeterminate,
}

/// Whether batches may be written.
#[derive(PartialEq, Eq)]
enum Writing {
    Open,
    /// A step of the membership waits for those under way.
    Held,
}

/// Where this leader stands with time.
enum Tick {
    /// The last tick is that old.
    Since(world::Monotonic),
    /// There was none in this leadership.
    Unknown,
}

/// The proposer's task.
pub(crate) struct Proposer<E> {
    shared: Arc<Shared<E>>,
    raft: Raft,
    queues: Arc<Queues>,
    genesis: Envelope,
    /// The term this node leads, once the entry that opened it is applied.
    term: Option<u64>,
    tick: Tick,
    writes: FuturesUnordered<BoxFuture<'static, Written>>,
    /// Readings under way for the next tick.
    readings: Option<BoxFuture<'static, Option<Vec<u8>>>>,
    /// A tick command that waits for its batch.
    ready_tick: Option<Vec<u8>>,
    /// A step of the membership under way.
    change: Option<BoxFuture<'static, ()>>,
}

impl<E: Engine> Proposer<E> {
    pub(crate) fn new(
        shared: Arc<Shared<E>>,
        raft: Raft,
        queues: Arc<Queues>,
        genesis: Envelope,
    ) -> Self {
        Self {
            shared,
            raft,
            queues,
            genesis,
            term: None,
            tick: Tick::Unknown,
            writes: FuturesUnordered::new(),
            readings: None,
            ready_tick: None,
            change: None,
        }
    }

    /// Runs until openraft stops.
    pub(crate) async fn run(mut self) {
        let mut metrics = self.raft.metrics();
        let mut places = self.shared.machine.watch_place();
        loop {
            if metrics.borrow_and_update().running_state.is_err() {
                break;
            }
            places.borrow_and_update();
            self.look_at_leadership();
            if self.follow_roster() == Writing::Open {
                self.fill();
            }
            let queues = Arc::clone(&self.queues);
            tokio::select! {
                biased;
                Some(written) = self.writes.next() => self.finish(written),
                Some(tick) = collected(&mut self.readings) => self.collected(tick),
                () = ended(&mut self.change) => self.change = None,
                changed = metrics.changed() => if changed.is_err() { break },
                () = queues.filled.notified() => {}
                _ = places.changed(), if self.term.is_none() => {}
                () = world::sleep(LOOK) => {}
            }
        }
        self.queues.refuse(
            &[Class::Red, Class::Safety, Class::Client],
            ProposeError::Unavailable,
        );
        while let Some(written) = self.writes.next().await {
            self.finish(written);
        }
    }

    /// Leads only from the moment the entry that opened its term is applied: then the state holds
    /// everything committed before.
    fn look_at_leadership(&mut self) {
        let (term, leads, leader) = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow();
            let leads = metrics.state == ServerState::Leader;
            (metrics.current_term, leads, metrics.current_leader)
        };
        let applied = self
            .shared
            .machine
            .place()
            .entry
            .is_some_and(|entry| entry.term == term);
        let now = (leads && applied).then_some(term);
        if now != self.term {
            self.term = now;
            self.tick = Tick::Unknown;
            self.readings = None;
            self.ready_tick = None;
            self.change = None;
            // Another term of this leader remembers nobody's log.
            self.shared.renewed.retain(|_| false);
        }
        if !leads {
            let leader = leader
                .filter(|leader| *leader != self.shared.own)
                .map(NodeId);
            let all = [Class::Red, Class::Safety, Class::Client];
            self.queues.refuse(&all, ProposeError::NotLeader { leader });
        }
    }

    /// Makes the membership's next step, if one is due. While it waits to be made no batch is written: what
    /// is applied then is the whole log, so the roster that the step follows is the one that every node
    /// judges it by.
    fn follow_roster(&mut self) -> Writing {
        if self.term.is_none() {
            self.shared.show_step(None);
            return Writing::Open;
        }
        if self.change.is_some() {
            return Writing::Open;
        }
        let step = change::next_step(&self.shared, &self.raft);
        self.shared.show_step(Some(step));
        if matches!(step, Step::Followed | Step::Await(_)) {
            return Writing::Open;
        }
        if !self.writes.is_empty() {
            return Writing::Held;
        }
        let mut change = change::make(self.raft.clone(), step).boxed();
        // One look hands the change to openraft; what is written from here on comes after it.
        if (&mut change).now_or_never().is_none() {
            self.change = Some(change);
        }
        Writing::Open
    }

    /// Puts batches into openraft until there are two or nothing waits.
    fn fill(&mut self) {
        let Some(term) = self.term else { return };
        while self.writes.len() < IN_FLIGHT_MAX {
            let bootstrapped = self
                .shared
                .machine
                .read(|state| state.authority.governance.is_some());
            if !bootstrapped {
                if self.writes.is_empty() {
                    let genesis = RawCommand::Bootstrap(self.genesis.clone()).to_canonical();
                    self.write(term, vec![genesis], vec![None], false);
                }
                return;
            }
            let clients = self.clients();
            let tick_bytes = self.ready_tick.as_ref().map_or(0, Vec::len);
            let segments = self.queues.next(clients, tick_bytes);
            if segments.is_empty() {
                return;
            }
            let ticked = segments.tick;
            let tick = if ticked { self.ready_tick.take() } else { None };
            let (commands, waiting) = segments.ordered(tick);
            self.write(term, commands, waiting, ticked);
        }
    }

    /// Whether clients may go now; starts to collect readings if they may not.
    fn clients(&mut self) -> Clients {
        let fresh = match self.tick {
            Tick::Since(since) => since.elapsed() <= Duration::from_millis(TICK_AGE_MS_MAX),
            Tick::Unknown => false,
        };
        if fresh || self.ready_tick.is_some() {
            return Clients::Go;
        }
        if self.readings.is_none() && self.queues.lengths().client > 0 {
            self.readings = Some(readings(Arc::clone(&self.shared)).boxed());
        }
        Clients::Wait
    }

    fn collected(&mut self, tick: Option<Vec<u8>>) {
        self.readings = None;
        match tick {
            Some(tick) => self.ready_tick = Some(tick),
            // Without a majority's clocks no client command can be judged; none was proposed.
            None => self
                .queues
                .refuse(&[Class::Client], ProposeError::Unavailable),
        }
    }

    fn write(
        &mut self,
        term: u64,
        commands: Vec<Vec<u8>>,
        waiting: Vec<Option<Waiting>>,
        ticked: bool,
    ) {
        if ticked {
            // From here on clients may follow: the entries keep their order.
            self.tick = Tick::Since(world::Monotonic::now());
        }
        let content = BatchContent {
            term,
            leader: self.shared.own,
            commands,
        };
        let raft = self.raft.clone();
        let write = async move {
            let outcome = match Batch::new(&content) {
                Ok(batch) => put(&raft, batch).await,
                Err(_) => WriteOutcome::Nothing(ProposeError::LimitExceeded),
            };
            Written {
                waiting,
                outcome,
                ticked,
            }
        };
        self.writes.push(write.boxed());
    }

    fn finish(&mut self, written: Written) {
        let Written {
            waiting,
            outcome,
            ticked,
        } = written;
        let error = match outcome {
            WriteOutcome::Applied(applied) => {
                let refused = |outcome: &redlatch_journal::Outcome| outcome.reply.is_err();
                let tick = waiting.iter().zip(&applied.outcomes);
                if ticked
                    && tick
                        .filter(|(who, _)| who.is_none())
                        .any(|(_, o)| refused(o))
                {
                    self.tick = Tick::Unknown;
                }
                return proposer::answer(waiting, &applied);
            }
            WriteOutcome::Nothing(error) => error,
            WriteOutcome::Indeterminate => ProposeError::Indeterminate,
        };
        if ticked {
            self.tick = Tick::Unknown;
        }
        for waiter in waiting.into_iter().flatten() {
            waiter.answer(Err(error));
        }
    }
}

/// The next collected tick; never resolves while none is under way.
async fn collected(
    readings: &mut Option<BoxFuture<'static, Option<Vec<u8>>>>,
) -> Option<Option<Vec<u8>>> {
    match readings {
        Some(readings) => Some(readings.await),
        None => std::future::pending().await,
    }
}

/// Resolves when the step under way has ended; never while none is.
async fn ended(change: &mut Option<BoxFuture<'static, ()>>) {
    match change {
        Some(change) => change.await,
        None => std::future::pending().await,
    }
}

/// Writes one batch and waits for its outcome. A refusal is certain only if the batch has never
/// been handed to the log: openraft says "forward to leader" also for an entry that it had
/// written and another leader has cut off here, but perhaps not everywhere.
async fn put(raft: &Raft, batch: Batch) -> WriteOutcome {
    let logged: Arc<AtomicBool> = batch.logged_mark();
    let uncertain = |error: ProposeError| {
        if logged.load(Ordering::Acquire) {
            WriteOutcome::Indeterminate
        } else {
            WriteOutcome::Nothing(error)
        }
    };
    let Ok(answer) = raft.client_write_ff(batch).await else {
        return uncertain(ProposeError::Unavailable);
    };
    match answer.await {
        Ok(Ok(response)) => match response.data {
            EntryOutcome::Applied(applied) => WriteOutcome::Applied(applied),
            // Every node skips it alike.
            EntryOutcome::Void | EntryOutcome::Empty => {
                WriteOutcome::Nothing(ProposeError::Unavailable)
            }
        },
        Ok(Err(error)) => {
            let leader = match error {
                ClientWriteError::ForwardToLeader(forward) => forward.leader_id.map(NodeId),
                ClientWriteError::ChangeMembershipError(_) => None,
            };
            uncertain(ProposeError::NotLeader { leader })
        }
        Err(_) => uncertain(ProposeError::Unavailable),
    }
}

/// Collects a majority's clock readings into a tick command, with a few attempts: a follower that
/// is one entry behind signs a moment later. `None` if too few answer.
async fn readings<E: Engine>(shared: Arc<Shared<E>>) -> Option<Vec<u8>> {
    for _ in 0..READING_ATTEMPTS {
        if let Some(tick) = round_of_readings(&shared).await {
            return Some(tick);
        }
        world::sleep(READING_PAUSE).await;
    }
    None
}

async fn round_of_readings<E: Engine>(shared: &Shared<E>) -> Option<Vec<u8>> {
    let seats = shared.seats();
    let (epoch, previous) = shared.machine.read(epoch_and_tick)?;
    let own = shared
        .clock_reading(epoch, previous)
        .filter(|_| shared.machine.counts());
    let mut readings: Vec<Envelope> = own.into_iter().collect();
    let mut calls: FuturesUnordered<_> = shared
        .links
        .peers()
        .into_iter()
        .filter(|peer| seats.voters.contains(peer))
        .map(|peer| reading(shared, peer, epoch, previous))
        .collect();
    while readings.len() < seats.majority() {
        match calls.next().await {
            None => return None,
            Some(Ok(envelope)) => readings.push(envelope),
            Some(Err(status)) => tracing::debug!(%status, "no clock reading"),
        }
    }
    Some(RawCommand::Tick(previous.next(), readings).to_canonical())
}

fn epoch_and_tick(state: &State) -> Option<(RosterEpoch, TickNumber)> {
    let governance = state.authority.governance.as_ref()?;
    Some((governance.roster.roster_epoch, state.authority.clock.tick))
}

async fn reading<E: Engine>(
    shared: &Shared<E>,
    peer: u64,
    epoch: RosterEpoch,
    previous: TickNumber,
) -> Result<Envelope, Status> {
    let mut client = shared.links.control(peer)?;
    let message = v1::ReadingRequest {
        sender: shared.own,
        roster_epoch: epoch.0,
        previous_tick: previous.0,
    };
    let answer = call(READING_DEADLINE, message, |request| async move {
        client.reading(request).await
    })
    .await?;
    let envelope = Envelope::from_canonical(&answer.reading)
        .map_err(|_| Status::invalid_argument("the reading is not canonical"))?;
    check_reading(shared, peer, previous, &envelope)?;
    Ok(envelope)
}

/// One bad reading would have the whole tick refused, so it is left out here.
fn check_reading<E: Engine>(
    shared: &Shared<E>,
    peer: u64,
    previous: TickNumber,
    envelope: &Envelope,
) -> Result<(), Status> {
    let bad = || Status::invalid_argument("the reading does not hold");
    let signed = envelope
        .open::<redlatch_types::records::ClockReadingV1>()
        .map_err(|_| bad())?;
    let roster = shared.machine.roster();
    let fits = roster
        .voter_by_record_key(signed.key())
        .is_some_and(|n| n.node_id.0 == peer)
        && signed.record().node_id.0 == peer
        && signed.record().previous_tick == previous;
    if fits { Ok(()) } else { Err(bad()) }
}
