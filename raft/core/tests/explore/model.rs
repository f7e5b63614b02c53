//! The model: the real `decide` and `evolve`, one command per entry, every command in every state.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use redlatch_journal::authority::{Authority, TransactionStage};
use redlatch_journal::planted::Bug;
use redlatch_journal::{Command, decide, evolve};
use redlatch_types::event::Event;
use redlatch_types::records::{AbortReason, OutcomeKind};
use stateright::{Model, Property};

use super::super::world::World;
use super::compose::{Composer, Said};
use super::pack::{Packed, Pools};
use super::past::Past;
use super::rules::{self, Broken, Rule, Taken};
use super::scenario::{Scenario, Wish};
use super::shape::Shape;
use super::sights::{Sight, Sights};
use super::step::{Claimer, Distortion, Flaw, Moment, Signer, Step};

/// One exploration: a scenario, and the bug that may be planted into it.
pub(super) struct Exploration {
    pub(super) scenario: Scenario,
    bug: Option<Bug>,
    composer: Composer,
    pools: Pools,
    seen: AtomicU32,
    /// A step broke a rule: what is longer is of no interest while the search goes on.
    found: AtomicBool,
    over: AtomicBool,
    /// Commands decided, refused ones too.
    pub(super) decided: AtomicUsize,
}

/// A state with its past, as far as it is kept. Equal shapes are one state.
#[derive(Clone)]
pub(super) struct Node {
    packed: Packed,
    shape: Shape,
    broken: Broken,
}

impl Node {
    pub(super) fn broken(&self) -> Broken {
        self.broken
    }
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }
    /// Tells apart what is not the very same state and past.
    pub(super) fn identity(&self) -> u64 {
        self.packed.identity()
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        self.shape == other.shape && self.broken == other.broken
    }
}
impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.shape.hash(state);
        self.broken.hash(state);
    }
}
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shape)
    }
}

/// A step together with where it leads, so that nothing is decided twice.
#[derive(Clone, PartialEq)]
pub(super) struct Action {
    pub(super) step: Step,
    pub(super) reply: String,
    pub(super) next: Node,
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.step, self.reply)
    }
}

impl Exploration {
    pub(super) fn new(scenario: Scenario, bug: Option<Bug>) -> Exploration {
        Exploration {
            scenario,
            bug,
            composer: Composer::new(scenario),
            pools: Pools::default(),
            seen: AtomicU32::new(0),
            found: AtomicBool::new(false),
            over: AtomicBool::new(false),
            decided: AtomicUsize::new(0),
        }
    }

    /// The sights of the scenario that no step came past.
    pub(super) fn unseen(&self) -> Vec<Sight> {
        let seen = Sights::from_bits(self.seen.load(Ordering::Relaxed));
        let wanted = self.scenario.sights.iter().copied();
        wanted.filter(|sight| !seen.has(*sight)).collect()
    }

    /// From here on paths are only walked again.
    pub(super) fn search_is_over(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn node(&self, state: Authority, past: Past, broken: Broken) -> Node {
        Node {
            shape: Shape::of(&self.scenario, &state, &past),
            packed: self.pools.pack(state, past),
            broken,
        }
    }

    /// Where every command leads that leads anywhere.
    pub(super) fn successors(&self, node: &Node) -> Vec<Action> {
        // Bugs are planted per thread, and the checker has threads of its own.
        let _planted = self.bug.map(Bug::plant);
        let state = node.packed.authority();
        let past = node.packed.past();
        let mut actions = Vec::new();
        for step in self.steps(&state, past) {
            if let Some((command, said)) = self.composer.compose(&step, &state, past) {
                actions.extend(self.take(node, &state, step, &command, said));
            }
        }
        for said in &past.accepted {
            let (step, command) = self.composer.again(*said);
            actions.extend(self.take(node, &state, step, &command, None));
        }
        actions
    }

    /// Decides one command in an entry of its own.
    fn take(
        &self,
        node: &Node,
        before: &Authority,
        step: Step,
        command: &Command,
        said: Option<Said>,
    ) -> Option<Action> {
        let past = node.packed.past();
        self.decided.fetch_add(1, Ordering::Relaxed);
        let outcome = decide(before, command);
        let reply = || match &outcome.reply {
            Ok(accepted) => format!("{accepted:?}"),
            Err(refusal) => format!("refused: {}", refusal.code()),
        };
        let audits_only = outcome
            .events
            .iter()
            .all(|e| matches!(e, Event::Refused(..)));
        if audits_only {
            let broken = rules::refused(before, past, &step, &outcome);
            let next = Node {
                broken,
                ..node.clone()
            };
            let reply = if broken.is_empty() {
                return None;
            } else {
                reply()
            };
            return Some(Action { step, reply, next });
        }
        let mut after = before.clone();
        for event in &outcome.events {
            evolve(&mut after, event);
        }
        let mut broken = Broken::default();
        self.probe(&after, past, &step, &outcome.events, &mut broken);
        after.stepped.clear();
        let withheld = matches!(outcome.events[..], [Event::EffectWithheld(..)]);
        broken.unless(outcome.reply.is_ok() || withheld, Rule::Refused);
        let taken = Taken {
            before,
            past,
            step: &step,
            command,
            events: &outcome.events,
            after: &after,
        };
        broken.add(taken.broken());
        let first = past.began.first().map_or(0, |(epoch, _)| epoch.0);
        if broken.is_empty() && rules::epoch(&after) >= first + self.scenario.epochs {
            return None;
        }
        let point = self.scenario.point(after.clock.state_time);
        // A RED may come again in every state anyway, and then move the chain on.
        let kept = outcome.reply.is_ok() && !matches!(step, Step::Red(..));
        let next = past.after(&step, said.filter(|_| kept), &outcome.events, point);
        let seen = Sights::of(before, &outcome.events, &after, &next);
        self.seen.fetch_or(seen.bits(), Ordering::Relaxed);
        Some(Action {
            reply: reply(),
            step,
            next: self.node(after, next, broken),
        })
    }

    /// What would happen in the same entry: no second positive step of an intent. `decide` looks
    /// at `stepped` for the stepped intents only, so this is all that an entry of several commands
    /// adds to entries of one.
    fn probe(
        &self,
        after: &Authority,
        past: &Past,
        step: &Step,
        events: &[Event],
        broken: &mut Broken,
    ) {
        if after.stepped.is_empty() {
            return;
        }
        let past = past.after(
            step,
            None,
            events,
            self.scenario.point(after.clock.state_time),
        );
        let stepped = |wish: &usize| {
            let intent = past.wishes[*wish].intent;
            intent.is_some_and(|intent| after.stepped.contains(&intent))
        };
        for wish in (0..past.wishes.len()).filter(stepped) {
            let Some(now) = self.composer.moment(after) else {
                continue;
            };
            let steps = [
                Step::Authorize(wish, now),
                Step::Prepare(wish, wish),
                Step::Commit(wish),
                Step::Activate(wish),
                Step::Claim(wish, Claimer::Gate),
            ];
            for step in steps {
                let Some((command, _)) = self.composer.compose(&step, after, &past) else {
                    continue;
                };
                self.decided.fetch_add(1, Ordering::Relaxed);
                let outcome = decide(after, &command);
                let stopped =
                    |e: &Event| matches!(e, Event::Refused(..) | Event::EffectWithheld(..));
                broken.unless(outcome.events.iter().all(stopped), Rule::OneStep);
            }
        }
    }

    /// Every step that anybody can take on this path, right or wrong.
    fn steps(&self, state: &Authority, past: &Past) -> Vec<Step> {
        let mut steps = vec![Step::Tick];
        for wish in 0..past.wishes.len() {
            self.wish_steps(state, past, wish, &mut steps);
        }
        for last in 0..past.reds.len() {
            steps.extend((0..=last).map(|first| Step::Red(first, last)));
            if past.reds[last].latch.is_some() {
                red_steps(past, last, &mut steps);
            }
        }
        steps
    }

    fn wish_steps(&self, state: &Authority, past: &Past, wish: usize, steps: &mut Vec<Step>) {
        let own = &past.wishes[wish];
        let Some(intent) = own.intent else {
            return steps.push(Step::Freeze(wish));
        };
        if let Some(live) = state.intents.get(&intent) {
            let human = !matches!(self.scenario.wishes[wish], Wish::Land(..));
            if human && state.challenges.is_empty() {
                steps.push(Step::Challenge(wish));
            }
            let moments = self.moments(state, past, own.frozen_at);
            let last = moments.len().saturating_sub(1);
            // A person answers now; what the quorum signed earlier may come later.
            let signed = if human {
                &moments[last..]
            } else {
                &moments[..]
            };
            steps.extend(signed.iter().map(|m| Step::Authorize(wish, *m)));
            steps.extend([Step::AuthorizeAgain(wish), Step::Withdraw(wish)]);
            if own.capability.is_none() {
                steps.extend(Flaw::ALL.iter().map(|f| Step::AuthorizeBadly(wish, *f)));
            }
            debug_assert!(live.intent.digest() == intent);
        }
        for other in 0..past.wishes.len() {
            if past.wishes[other].capability.is_some() {
                steps.push(Step::Prepare(wish, other));
            }
        }
        let Some(id) = own.transaction else {
            return;
        };
        steps.extend([Step::Commit(wish), Step::Activate(wish)]);
        let prepared = state
            .transactions
            .get(&id)
            .is_some_and(|t| t.stage == TransactionStage::Prepared);
        if prepared {
            steps.extend(reasons().into_iter().map(|r| Step::Abort(wish, r)));
        } else {
            steps.push(Step::Abort(wish, AbortReason::Expired));
        }
        if own.marker.is_some() {
            steps.extend(Claimer::ALL.iter().map(|who| Step::Claim(wish, *who)));
            steps.extend(OutcomeKind::ALL.iter().map(|how| Step::Report(wish, *how)));
        }
    }

    /// The moments since `frozen_at`, the present one last.
    fn moments(&self, state: &Authority, past: &Past, frozen_at: usize) -> Vec<Moment> {
        let now = self.scenario.point(state.clock.state_time);
        let mut moments = Vec::new();
        for (i, (epoch, began)) in past.began.iter().enumerate() {
            let ended = past.began.get(i + 1).map_or(now, |(_, next)| *next);
            let points = (*began).max(frozen_at)..=ended;
            moments.extend(points.map(|point| Moment {
                point,
                epoch: epoch.0,
            }));
        }
        moments
    }
}

fn red_steps(past: &Past, red: usize, steps: &mut Vec<Step>) {
    steps.push(Step::Store(red));
    steps.extend(Distortion::ALL.iter().map(|d| Step::StoreBadly(red, *d)));
    let stored = past.reds[red].attempts.iter().map(|a| a.attempt_sequence);
    for attempt in stored {
        steps.extend([
            Step::PrepareSafety(red, attempt, Signer::Actuator),
            Step::PrepareSafety(red, attempt, Signer::Gate),
            Step::ClaimSafety(red, attempt),
            Step::FinishSafety(red, attempt),
        ]);
    }
    steps.push(Step::Acknowledge(red));
}

fn reasons() -> [AbortReason; 7] {
    [
        AbortReason::Withdrawn,
        AbortReason::Expired,
        AbortReason::RedLatched,
        AbortReason::Frozen,
        AbortReason::EpochFenced,
        AbortReason::StaleHead,
        AbortReason::GrantEnded,
    ]
}

impl Model for Exploration {
    type State = Node;
    type Action = Action;

    fn init_states(&self) -> Vec<Node> {
        let world = World::new();
        let state = world.state.authority.clone();
        let epoch = redlatch_types::AutonomyEpoch(rules::epoch(&state));
        let (wishes, reds) = (self.scenario.wishes.len(), self.scenario.reds.len());
        let past = Past::start(wishes, reds, epoch);
        let mut state = state;
        state.stepped.clear();
        vec![self.node(state, past, Broken::default())]
    }

    fn actions(&self, node: &Node, actions: &mut Vec<Action>) {
        let over = self.over.load(Ordering::Relaxed);
        // What follows a broken rule is of no interest, nor is a longer path to another one.
        if node.broken.is_empty() && (over || !self.found.load(Ordering::Relaxed)) {
            actions.extend(self.successors(node));
            let broken = actions.iter().any(|a| !a.next.broken.is_empty());
            self.found.fetch_or(broken, Ordering::Relaxed);
        }
    }

    fn next_state(&self, _: &Node, action: Action) -> Option<Node> {
        Some(action.next)
    }

    fn properties(&self) -> Vec<Property<Exploration>> {
        rules::properties()
    }
}
