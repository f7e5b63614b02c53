//! Everybody outside of the cluster: agents that freeze, withdraw and ask, a coordinator that carries
//! intents to their marker, the gate that claims effects, and the sentinel with its REDs.
//!
//! ```text
//!   agent ─ Submit, Status, Receipt ─▶ any node          over the simulated network, as signed commands
//!   sentinel ─ LatchRed ─▶ every node, until latched
//!   coordinator ─ propose ─▶ the leader's own handle      authorize ▸ prepare ▸ commit
//! ```
//!
//! Each answer goes into the oracle at the moment it arrives. The coordinator stands in for the driver that
//! runs inside the leader: no role may bring those steps from outside.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redlatch_link::Role;
use redlatch_link::nodes::{Again, CallError, Nodes, Submitted, members};
use redlatch_link::transport::Dialer;
use redlatch_link::world as link;
use redlatch_proto::v1::leaf_at::At;
use redlatch_raft::proposer::Class;
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Reply};
use redlatch_types::records::{RedScope, ScopeState};
use redlatch_types::{Canonical, Digest, EventId, IntentDigest, MarkerNumber, TransactionId};

use crate::history::{Fact, ReceiptSeen, StatusSeen};
use crate::oracle::{Promised, RedSent};
use crate::organism::{AGENTS, NODES, agent_name, node_name};
use crate::process::{Seat, Stage, clients_address, credentials};
use crate::seed::{Draws, Seed};
use crate::trace::Who;
use crate::world::{World, leader_of};

const SUBMIT_DEADLINE: Duration = Duration::from_secs(8);
const READ_DEADLINE: Duration = Duration::from_secs(3);
const DELIVERY_DEADLINE: Duration = Duration::from_secs(3);
const STEP_DEADLINE: Duration = Duration::from_secs(5);

/// How much is done by whom.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Longest pause of an agent between two calls, milliseconds.
    pub pause_ms: u64,
    /// REDs the sentinel signs in this run.
    pub reds: u64,
    /// Longest pause of the sentinel before each of them, milliseconds.
    pub red_pause_ms: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            pause_ms: 400,
            reds: 3,
            red_pause_ms: 9_000,
        }
    }
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    /// How often something happened.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self
            .0
            .iter()
            .map(|(what, times)| format!("{what} {times}"))
            .collect();
        f.write_str(&words.join(", "))
    }
}

/// The parties outside, as far as they share anything. Clones are the same parties.
#[derive(Clone)]
pub struct Workload {
    stage: Stage,
    seats: Vec<Arc<Seat>>,
    seed: Seed,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    reds_may_come: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    counts: Counts,
    /// Acknowledged and not taken back: who proposed, which intent.
    frozen: Vec<(u64, IntentDigest)>,
    /// REDs that are signed and not latched yet.
    reds_waiting: usize,
    /// Answers that no honest node gives.
    misbehaved: Option<String>,
}

impl Workload {
    /// Starts everybody.
    pub fn start(world: &World, plan: Plan) -> Workload {
        let load = Workload::idle(world);
        world.spawn(activate(load.clone()));
        for agent in 1..=AGENTS {
            world.spawn(agent_life(load.clone(), agent, plan));
        }
        world.spawn(coordinator(load.clone(), plan));
        world.spawn(sentinel(load.clone(), plan));
        load
    }

    /// The same parties, of whom nobody does anything by itself.
    pub fn idle(world: &World) -> Workload {
        Workload {
            stage: world.stage.clone(),
            seats: world.seats().cloned().collect(),
            seed: world.seed,
            shared: Arc::default(),
        }
    }

    /// Nobody begins anything new.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    /// Signed REDs that are not latched yet.
    pub fn reds_waiting(&self) -> usize {
        self.lock().reds_waiting
    }

    /// An answer that no honest node gives, if there was one.
    pub fn misbehaved(&self) -> Option<String> {
        self.lock().misbehaved.clone()
    }

    /// Intents that were acknowledged as frozen and not taken back.
    pub fn frozen(&self) -> Vec<(u64, IntentDigest)> {
        self.lock().frozen.clone()
    }

    /// The cluster, or some of its nodes, as a party calls it.
    pub fn nodes(&self, role: Role, name: &str, only: Option<u64>) -> Nodes {
        let organism = &self.stage.organism;
        let wanted = (1..=NODES).filter(|node| only.is_none_or(|only| only == *node));
        let addresses = wanted
            .map(|node| (node_name(node), clients_address(node)))
            .collect();
        let members = members(&organism.genesis.roster, &addresses);
        let dialer = Dialer::new(credentials(organism, role, name));
        Nodes::new(&dialer, &members).expect("addresses of this world are addresses")
    }

    /// Draws for one party.
    pub fn draws(&self, party: &str) -> Draws {
        self.seed.draws(party)
    }

    fn goes_on(&self) -> bool {
        !self.shared.stopped.load(Ordering::Relaxed)
    }

    fn count(&self, what: &'static str) {
        *self.lock().counts.0.entry(what).or_default() += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.shared
            .inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What single parties do.
impl Workload {
    /// Asks one node, or any, and writes down what it says. State time, if there was an answer.
    pub async fn ask_status(
        &self,
        nodes: &Nodes,
        node: Option<u64>,
        intent: Option<IntentDigest>,
        nonce: Digest,
    ) -> Option<(u64, ScopeState)> {
        let asked_us = self.stage.now_us();
        let answer = match node {
            Some(node) => {
                nodes
                    .status(&node_name(node), nonce, intent, READ_DEADLINE)
                    .await
            }
            None => nodes.any_status(nonce, READ_DEADLINE).await,
        };
        match answer {
            Ok(status) => {
                let status = status.record();
                let (node, scope) = (status.node_id.0, status.scope);
                self.stage.note(
                    Who::Node(node),
                    format_args!("says {scope} of {}", short(intent)),
                );
                let intent = status.intent_digest_optional;
                let seen = StatusSeen {
                    node,
                    asked_us,
                    intent,
                    scope,
                };
                self.stage.history().statuses.push(seen);
                self.count(if scope == ScopeState::Free {
                    "status free"
                } else {
                    "status stopped"
                });
                Some((status.state_time, scope))
            }
            Err(error) => {
                self.blame(&error);
                self.count("status none");
                None
            }
        }
    }

    /// Freezes one intent and writes down what was answered.
    pub async fn freeze(
        &self,
        nodes: &Nodes,
        agent: u64,
        draws: &mut Draws,
    ) -> Option<IntentDigest> {
        let (now, _) = self.ask_status(nodes, None, None, draws.digest()).await?;
        let key = EventId(draws.digest());
        let command = self.stage.organism.freeze(agent, now, key);
        let receipt = if draws.percent(15) {
            Duration::from_secs(2)
        } else {
            Duration::ZERO
        };
        let again = again(agent, key, draws);
        let answer = nodes
            .submit(&command.to_canonical(), &again, SUBMIT_DEADLINE, receipt)
            .await;
        let promised = |accepted| match accepted {
            Accepted::Frozen(intent) => Some(Promised::Frozen(key, intent)),
            _ => None,
        };
        let frozen = self.take_down(agent, key, answer, promised);
        match frozen? {
            Promised::Frozen(_, intent) => {
                self.lock().frozen.push((agent, intent));
                Some(intent)
            }
            _ => None,
        }
    }

    async fn withdraw(&self, nodes: &Nodes, agent: u64, draws: &mut Draws) {
        let own: Vec<IntentDigest> = self
            .frozen()
            .into_iter()
            .filter(|it| it.0 == agent)
            .map(|it| it.1)
            .collect();
        let Some(intent) = draws.one_of(&own) else {
            return;
        };
        let Some((now, _)) = self.ask_status(nodes, None, None, draws.digest()).await else {
            return;
        };
        let key = EventId(draws.digest());
        let command = self.stage.organism.withdraw(agent, now, key, intent);
        let again = again(agent, key, draws);
        let bytes = command.to_canonical();
        let answer = nodes
            .submit(&bytes, &again, SUBMIT_DEADLINE, Duration::ZERO)
            .await;
        let promised = |accepted| match accepted {
            Accepted::Withdrawn(intent) => Some(Promised::Withdrawn(key, intent)),
            _ => None,
        };
        self.take_down(agent, key, answer, promised);
    }

    async fn ask_receipt(&self, nodes: &Nodes, draws: &mut Draws) {
        let known: Vec<u64> = {
            let history = self.stage.history();
            history
                .promises
                .acknowledged
                .iter()
                .filter_map(|it| it.position)
                .collect()
        };
        let Some(position) = draws.one_of(&known) else {
            return;
        };
        match nodes.receipt(At::Position(position), READ_DEADLINE).await {
            Ok(text) => self.keep_receipt(&text),
            Err(error) => self.blame(&error),
        }
    }

    /// Verifies a receipt as an auditor would, and keeps what it proves.
    fn keep_receipt(&self, text: &str) {
        let policy = self.stage.organism.policy();
        let verified = redlatch_types::receipt::Receipt::parse(text.as_bytes())
            .map_err(|error| error.to_string())
            .and_then(|receipt| {
                let verified = redlatch_types::receipt::verify(&receipt, &policy);
                Ok((
                    Digest::of(&receipt.leaf),
                    verified.map_err(|error| error.to_string())?,
                ))
            });
        let seen = match verified {
            Ok((leaf, it)) => ReceiptSeen {
                position: it.index,
                leaf,
                size: it.size,
                root: it.root,
                verified: Ok(()),
            },
            Err(why) => ReceiptSeen {
                position: 0,
                leaf: Digest::ZERO,
                size: 0,
                root: Digest::ZERO,
                verified: Err(why),
            },
        };
        self.count("receipts");
        self.stage.history().receipts.push(seen);
    }

    /// Writes down the answer to an agent's command; what it promises, if anything.
    fn take_down(
        &self,
        agent: u64,
        key: EventId,
        answer: Result<Submitted, CallError>,
        promised: impl FnOnce(Accepted) -> Option<Promised>,
    ) -> Option<Promised> {
        let at_us = self.stage.now_us();
        let who = Who::Client(agent);
        let mut history = self.stage.history();
        match answer {
            Ok(Submitted {
                reply: Reply::Accepted(accepted),
                leaves,
                receipt,
                ..
            }) => {
                let position = (!leaves.is_empty()).then_some(leaves.start);
                self.count(word(&accepted));
                self.stage
                    .note(who, format_args!("{} at {position:?}", word(&accepted)));
                let promise = promised(accepted);
                if let Some(promise) = &promise {
                    history
                        .promises
                        .acknowledge(at_us, promise.clone(), position);
                }
                drop(history);
                if let Some(receipt) = receipt {
                    self.keep_receipt(&receipt);
                }
                promise
            }
            Ok(Submitted {
                reply: Reply::Refused(refusal),
                ..
            }) => {
                self.stage.note(who, format_args!("refused: {refusal}"));
                self.count("refused");
                history.promises.nothing_happened(key);
                None
            }
            Err(error) => {
                drop(history);
                self.blame(&error);
                let mut history = self.stage.history();
                if nothing_happened(&error) {
                    self.stage.note(who, "nothing happened");
                    self.count("nothing happened");
                    history.promises.nothing_happened(key);
                } else {
                    self.stage.note(who, "nobody knows");
                    self.count("nobody knows");
                    history.promises.lose_sight_of(key);
                }
                None
            }
        }
    }

    /// Every answer that cannot be believed is a defect of a node.
    fn blame(&self, error: &CallError) {
        let impossible = matches!(
            error,
            CallError::Misbehaved { .. } | CallError::Denied(_) | CallError::Invalid(_)
        );
        if impossible {
            self.lock().misbehaved.get_or_insert(error.to_string());
        }
    }
}

/// Whether an error says that the command has had and will have no effect.
fn nothing_happened(error: &CallError) -> bool {
    matches!(
        error,
        CallError::Unavailable(_)
            | CallError::Limit(_)
            | CallError::Denied(_)
            | CallError::Invalid(_)
    )
}

fn again(agent: u64, key: EventId, draws: &mut Draws) -> Again {
    let subject = agent_name(agent).parse().ok();
    match (draws.below(4), subject) {
        (0, _) => Again::Never,
        (1, _) => Again::SameAnswer,
        (_, Some(subject)) => Again::ByKey(subject, key),
        (_, None) => Again::Never,
    }
}

fn word(accepted: &Accepted) -> &'static str {
    match accepted {
        Accepted::Frozen(_) => "frozen",
        Accepted::Withdrawn(_) => "withdrawn",
        Accepted::Committed(_) => "committed",
        Accepted::EffectClaimed(_) => "claimed",
        Accepted::Latched(_) => "latched",
        _ => "accepted",
    }
}

fn short(intent: Option<IntentDigest>) -> String {
    intent.map_or_else(
        || "everything".into(),
        |digest| digest.to_string()[..12].into(),
    )
}

/// Brings the verifiers' confirmations until the quorum has its key, then lets REDs come.
async fn activate(load: Workload) {
    let nodes = load.nodes(Role::Verifier, "va", None);
    let command = load.stage.organism.key_confirmations().to_canonical();
    while load.goes_on() {
        let answer = nodes
            .submit(
                &command,
                &Again::SameAnswer,
                SUBMIT_DEADLINE,
                Duration::ZERO,
            )
            .await;
        if answer.is_ok_and(|submitted| submitted.accepted().is_ok()) {
            load.stage.note(Who::World, "the quorum has its key");
            load.shared.reds_may_come.store(true, Ordering::Relaxed);
            return;
        }
        link::sleep(Duration::from_millis(200)).await;
    }
}

async fn agent_life(load: Workload, agent: u64, plan: Plan) {
    let name = agent_name(agent);
    let nodes = load.nodes(Role::Client, &name, None);
    let mut draws = load.draws(&name);
    while load.goes_on() {
        link::sleep(Duration::from_millis(draws.between(1, plan.pause_ms))).await;
        match draws.below(100) {
            0..60 => {
                load.freeze(&nodes, agent, &mut draws).await;
            }
            60..66 => load.withdraw(&nodes, agent, &mut draws).await,
            66..90 => {
                let node = draws.between(1, NODES + 1);
                let intents = load.frozen();
                let intent = draws
                    .one_of(&intents)
                    .map(|it| it.1)
                    .filter(|_| draws.percent(80));
                load.ask_status(&nodes, Some(node), intent, draws.digest())
                    .await;
            }
            _ => load.ask_receipt(&nodes, &mut draws).await,
        }
    }
}

/// Carries one intent after the other as far as it gets.
async fn coordinator(load: Workload, plan: Plan) {
    let mut draws = load.draws("coordinator");
    let gate = load.nodes(Role::Gate, "gate", None);
    let mut tried = 0;
    while load.goes_on() {
        link::sleep(Duration::from_millis(draws.between(1, plan.pause_ms))).await;
        let frozen = load.frozen();
        // Mostly the oldest that was not tried; now and then one that was.
        let again = usize::try_from(draws.below(tried as u64 + 1)).unwrap_or_default();
        let at = if draws.percent(80) { tried } else { again };
        let Some((_, intent)) = frozen.get(at) else {
            continue;
        };
        tried = tried.max(at + 1);
        if let Some((transaction, marker)) = carry(&load, *intent, &mut draws).await {
            claim(&load, &gate, *intent, transaction, marker).await;
        }
    }
}

/// Authorize, prepare, commit: each proposed after its predecessor was applied (D10).
async fn carry(
    load: &Workload,
    intent: IntentDigest,
    draws: &mut Draws,
) -> Option<(TransactionId, MarkerNumber)> {
    let (_, raft) = leader_of(load.seats.iter())?;
    let organism = &load.stage.organism;
    let command = raft.read(|state| organism.authorization(&state.authority, intent, draws))?;
    let Accepted::Authorized(capability) = step(load, command).await?.0 else {
        return None;
    };
    pause(draws).await;
    let Accepted::Prepared(id) = step(load, RawCommand::Prepare(intent, capability)).await?.0
    else {
        return None;
    };
    pause(draws).await;
    let (Accepted::Committed(marker), position) = step(load, RawCommand::Commit(id)).await? else {
        return None;
    };
    load.stage.note(
        Who::World,
        format_args!("committed {} at {position:?}", short(Some(intent))),
    );
    load.count("committed");
    let at_us = load.stage.now_us();
    load.stage
        .history()
        .promises
        .acknowledge(at_us, Promised::Committed(id), position);
    Some((id, marker))
}

/// Leaves room for a RED between two steps.
async fn pause(draws: &mut Draws) {
    link::sleep(Duration::from_millis(draws.below(60))).await;
}

/// Proposes one step on whichever node leads now; what it led to, and its leaf.
async fn step(load: &Workload, command: RawCommand) -> Option<(Accepted, Option<u64>)> {
    let (_, raft) = leader_of(load.seats.iter())?;
    let proposed = raft
        .propose(Class::Client, command.to_canonical(), STEP_DEADLINE)
        .await
        .ok()?;
    let position = (!proposed.positions.is_empty()).then_some(proposed.positions.start);
    match proposed.outcome.reply {
        Ok(accepted) => Some((accepted, position)),
        Err(refusal) => {
            load.stage
                .note(Who::World, format_args!("a step is refused: {refusal}"));
            load.count("steps refused");
            None
        }
    }
}

async fn claim(
    load: &Workload,
    gate: &Nodes,
    intent: IntentDigest,
    id: TransactionId,
    marker: MarkerNumber,
) {
    let Some((_, raft)) = leader_of(load.seats.iter()) else {
        return;
    };
    let resource = raft.read(|state| {
        let live = state.authority.intents.get(&intent)?;
        Some(live.intent.payload.resource().id())
    });
    let Some(resource) = resource else { return };
    let command = load
        .stage
        .organism
        .claim(id, marker, resource)
        .to_canonical();
    let claimed = gate
        .submit(
            &command,
            &Again::SameAnswer,
            SUBMIT_DEADLINE,
            Duration::ZERO,
        )
        .await;
    match claimed {
        Ok(submitted) => match submitted.accepted() {
            Ok(_) => load.count("claimed"),
            Err(refusal) => {
                load.stage
                    .note(Who::World, format_args!("the claim is refused: {refusal}"));
                load.count("claims refused");
            }
        },
        Err(error) => load.blame(&error),
    }
}

/// Signs REDs and brings each to every node until it is latched.
async fn sentinel(load: Workload, plan: Plan) {
    let mut draws = load.draws("sentinel");
    let mut outbox = load.stage.organism.outbox();
    for _ in 0..plan.reds {
        link::sleep(Duration::from_millis(draws.between(500, plan.red_pause_ms))).await;
        while load.goes_on() && !load.shared.reds_may_come.load(Ordering::Relaxed) {
            link::sleep(Duration::from_millis(100)).await;
        }
        if !load.goes_on() {
            return;
        }
        let scope = red_scope(&load, &mut draws);
        red(&load, &mut outbox, scope, None, &mut draws).await;
    }
}

fn red_scope(load: &Workload, draws: &mut Draws) -> RedScope {
    let frozen = load.frozen();
    let agent = draws.between(1, AGENTS + 1);
    let subject = agent_name(agent)
        .parse()
        .map_or(RedScope::Everything, RedScope::Subject);
    match (draws.below(30), draws.one_of(&frozen)) {
        (0, _) => RedScope::Everything,
        (1..8, _) | (_, None) => subject,
        (_, Some((_, intent))) => RedScope::Intent(intent),
    }
}

/// Signs one RED and delivers the chain until it is latched. It goes on after the workload has stopped: a
/// sentinel never gives up. `only` restricts it to one node.
pub async fn red(
    load: &Workload,
    outbox: &mut crate::organism::Outbox,
    scope: RedScope,
    only: Option<u64>,
    draws: &mut Draws,
) {
    let record = outbox.sign(&scope, link::now_unix_ms(), draws);
    load.stage
        .note(Who::Sentinel, format_args!("signs a RED of {scope:?}"));
    load.stage
        .history()
        .promises
        .reds
        .push(RedSent { record, scope });
    load.lock().reds_waiting += 1;
    let targets = (1..=NODES).filter(|node| only.is_none_or(|only| only == *node));
    let lines: Vec<Nodes> = targets
        .map(|node| load.nodes(Role::Sentinel, "sentinel", Some(node)))
        .collect();
    while let Some(segment) = outbox.segment() {
        let count = outbox.waiting();
        if deliver(load, &lines, segment.to_canonical()).await {
            let at_us = load.stage.now_us();
            for record in outbox.acknowledge(count) {
                let mut history = load.stage.history();
                history
                    .promises
                    .acknowledge(at_us, Promised::Latched(record), None);
            }
            load.count("latched");
            load.lock().reds_waiting -= 1;
            load.stage.note(Who::Sentinel, "is told of the latch");
        } else {
            link::sleep(Duration::from_millis(150)).await;
        }
    }
}

/// Brings a segment to every node at once; true as soon as one says that it is latched.
async fn deliver(load: &Workload, lines: &[Nodes], segment: Vec<u8>) -> bool {
    let (told, mut answers) = tokio::sync::mpsc::unbounded_channel();
    for line in lines.iter().cloned() {
        let (segment, told, load) = (segment.clone(), told.clone(), load.clone());
        // Each delivery goes on by itself: a node that is slow to answer must still get it.
        link::spawn(async move {
            let again = Again::SameAnswer;
            let answer = line
                .submit(&segment, &again, DELIVERY_DEADLINE, Duration::ZERO)
                .await;
            let latched = match answer {
                Ok(submitted) => matches!(submitted.accepted(), Ok(Accepted::Latched(_))),
                Err(error) => {
                    load.blame(&error);
                    false
                }
            };
            let _ = told.send(latched);
        });
    }
    drop(told);
    while let Some(latched) = answers.recv().await {
        if latched {
            return true;
        }
    }
    false
}

/// Facts that the journal shows of a kind, for scenarios.
pub fn facts_of(stage: &Stage, is: impl Fn(&Fact) -> bool) -> usize {
    stage
        .history()
        .facts
        .values()
        .filter(|fact| is(fact))
        .count()
}
