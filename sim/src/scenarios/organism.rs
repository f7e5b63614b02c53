//! The whole organism: nodes, verifiers, sentinel and actuator carry intents to their markers, lose
//! processes on the way, and carry a stop to its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redlatch_link::transport::Dialer;
use redlatch_link::world as link;
use redlatch_link::{PeerIdentity, Role, client_type};
use redlatch_proto::v1;
use redlatch_proto::v1::sentinel_client::SentinelClient;
use redlatch_types::records::RedScope;
use redlatch_types::{Canonical, Digest, Envelope, IntentDigest, SubjectId};

use super::{expect, first_leader};
use crate::history::{Fact, RaisedSeen, Step};
use crate::liveness::settle;
use crate::oracle::RedSent;
use crate::organism::{ACTUATOR, OFFICER, SENTINEL, VERIFIERS, agent_name};
use crate::parties::{Parties, SENTINEL_ADDRESS};
use crate::party_faults::{Party, everybody};
use crate::process::{Stage, credentials};
use crate::trace::Who;
use crate::workload::{Counts, Workload};
use crate::world::{Failure, World};

/// How long everybody may take to start, make a key and have it in force.
pub(super) const START: Duration = Duration::from_secs(60);
/// How long a landing or a stop may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// How long the sentinel may take to answer an order before it is asked again.
const ANSWER: Duration = Duration::from_secs(3);
/// How long is watched that nothing more happens.
pub(super) const WATCH: Duration = Duration::from_secs(10);

/// Agent whose work is stopped.
const STOPPED: u64 = 2;
/// Agent whose work is stopped while there is no actuator.
const CUT_OFF: u64 = 3;

/// Whether a fact is meant.
type Is = fn(&Fact) -> bool;
type Sentinel = client_type!(SentinelClient);
/// Whether the sentinel has taken an order on.
pub(super) type Taken = Box<dyn Fn() -> Option<()>>;

/// Decisions with four and with three verifiers, a stop, and a stop without an actuator.
pub(super) async fn whole(world: &mut World) -> Result<Counts, Failure> {
    let parties = Parties::gather(world);
    let load = Workload::idle(world);
    first_leader(world).await?;
    ready(world, &parties, &everybody(), START).await?;
    land(world, &parties, &load, 1, "first").await?;
    a_verifier_is_killed(world, &parties, &load).await?;
    world.calm();
    let scope = RedScope::Subject(subject(STOPPED));
    raise(world, scope, "red").await?;
    closed(world, 1).await?;
    a_stop_without_an_actuator(world, &parties, 2).await?;
    stopped_for_good(world, &parties, &load).await?;
    settle(world, &load, &[]).await?;
    match parties.ended() {
        Some(ended) => Err(Failure::Unexpected(ended)),
        None => Ok(load.counts()),
    }
}

/// Three of four decide; the fourth comes back, and another one may go.
async fn a_verifier_is_killed(
    world: &mut World,
    parties: &Parties,
    load: &Workload,
) -> Result<(), Failure> {
    let mut draws = world.seed.draws("who is killed");
    let at = usize::try_from(draws.below(4)).unwrap_or_default();
    let (one, other) = (VERIFIERS[at].0, VERIFIERS[(at + 1) % 4].0);
    parties.kill(one);
    land(world, parties, load, 1, "second").await?;
    parties.start(one);
    ready(world, parties, &[one], PATIENCE).await?;
    parties.kill(other);
    let third = land(world, parties, load, STOPPED, "third").await?;
    let voted = world
        .stage
        .history()
        .counted
        .iter()
        .any(|((by, on), _)| by.as_str() == one && *on == third);
    expect(voted, || format!("{one} came back and does not vote"))?;
    parties.start(other);
    ready(world, parties, &[other], PATIENCE).await
}

pub(super) fn subject(agent: u64) -> SubjectId {
    agent_name(agent).parse().expect("its name is a name")
}

pub(super) async fn ready(
    world: &mut World,
    parties: &Parties,
    who: &[Party],
    span: Duration,
) -> Result<(), Failure> {
    let what = format!("{who:?} are ready");
    let met = |_: &World| who.iter().all(|who| parties.is_ready(who)).then_some(());
    world
        .until(&what, span, met)
        .await
        .map_err(|failure| parties.ended().map_or(failure, Failure::Unexpected))
}

/// An agent freezes an intent, which is decided and committed without anybody's further doing.
pub(super) async fn land(
    world: &mut World,
    parties: &Parties,
    load: &Workload,
    agent: u64,
    purpose: &'static str,
) -> Result<IntentDigest, Failure> {
    let intent = freeze(world, load, agent, purpose, PATIENCE).await?;
    let what = format!("the {purpose} landing is committed");
    let met = |world: &World| committed(&world.stage, intent).then_some(intent);
    world
        .until(&what, PATIENCE, met)
        .await
        .map_err(|failure| parties.ended().map_or(failure, Failure::Unexpected))
}

pub(super) async fn freeze(
    world: &mut World,
    load: &Workload,
    agent: u64,
    purpose: &'static str,
    span: Duration,
) -> Result<IntentDigest, Failure> {
    let frozen = answer(world, {
        let load = load.clone();
        async move {
            let nodes = load.nodes(Role::Client, &agent_name(agent), None);
            let mut draws = load.draws(purpose);
            loop {
                if let Some(intent) = load.freeze(&nodes, agent, &mut draws).await {
                    return intent;
                }
                link::sleep(Duration::from_millis(100)).await;
            }
        }
    });
    let what = format!("the {purpose} freeze is accepted");
    world.until(&what, span, |_| frozen()).await
}

/// Runs something outside of the cluster; what it gave, once it has.
pub(super) fn answer<T: Copy + Send + 'static, W: Future<Output = T> + Send + 'static>(
    world: &World,
    work: W,
) -> impl Fn() -> Option<T> + use<T, W> {
    let given = Arc::new(Mutex::new(None));
    let told = Arc::clone(&given);
    world.spawn(async move {
        let value = work.await;
        *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    });
    move || *given.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn has(stage: &Stage, what: impl Fn(&Fact) -> bool) -> bool {
    stage.history().facts.values().any(what)
}

pub(super) fn committed(stage: &Stage, asked: IntentDigest) -> bool {
    has(
        stage,
        |fact| matches!(fact, Fact::Positive { step: Step::Committed, intent, .. } if *intent == asked),
    )
}

/// The safety officer orders a stop, and the sentinel takes it on.
pub(super) async fn raise(
    world: &mut World,
    scope: RedScope,
    purpose: &str,
) -> Result<(), Failure> {
    let taken = order(world, scope, purpose);
    let what = format!("the {purpose} is raised");
    world.until(&what, PATIENCE, |_| taken()).await
}

/// The safety officer orders a stop until the sentinel has taken it on, which is written down.
pub(super) fn order(world: &World, scope: RedScope, purpose: &str) -> Taken {
    let stage = world.stage.clone();
    let mut draws = world.seed.draws(purpose);
    let order = stage.organism.order(scope.clone(), &mut draws);
    Box::new(answer(world, async move {
        let record = ask_until_raised(&stage, order).await;
        let at_us = stage.now_us();
        stage.note(Who::Party(SENTINEL), format_args!("raises {scope:?}"));
        let mut history = stage.history();
        history.promises.reds.push(RedSent { record, scope });
        history.raised.push(RaisedSeen { at_us, record });
    }))
}

/// The same order again and again: the sentinel answers it with the same RED.
async fn ask_until_raised(stage: &Stage, order: Envelope) -> Digest {
    let mut sentinel = sentinel(stage);
    loop {
        let order = order.to_canonical();
        let asked = sentinel.raise(v1::RaiseRequest { order });
        let answer = link::timeout(ANSWER, asked).await;
        let entry = answer.ok().and_then(Result::ok);
        let entry = entry.and_then(|it| Envelope::from_canonical(&it.into_inner().entry).ok());
        match entry {
            Some(entry) => return entry.digest(),
            None => link::sleep(Duration::from_millis(200)).await,
        }
    }
}

fn sentinel(stage: &Stage) -> Sentinel {
    let organism = &stage.organism;
    let peer =
        PeerIdentity::new(organism.id(), Role::Sentinel, SENTINEL).expect("its name is a name");
    let link = Dialer::new(credentials(organism, Role::Operator, OFFICER))
        .channel(SENTINEL_ADDRESS, &peer)
        .expect("addresses of this world are addresses");
    SentinelClient::with_interceptor(link.channel(), link.introduction())
}

/// So many stops are latched, carried out, and acknowledged by the sentinel.
pub(super) async fn closed(world: &mut World, stops: usize) -> Result<(), Failure> {
    let count = |world: &World, is: Is| {
        let history = world.stage.history();
        history.facts.values().filter(|fact| is(fact)).count()
    };
    let stages: [(&str, Is); 3] = [
        ("latched", |fact| matches!(fact, Fact::Latched { .. })),
        ("terminal", |fact| matches!(fact, Fact::Terminal(_))),
        ("acknowledged", |fact| {
            matches!(fact, Fact::Other("outbox_acknowledged"))
        }),
    ];
    for (word, is) in stages {
        let what = format!("{stops} stops are {word}");
        let met = |world: &World| (count(world, is) == stops).then_some(());
        world.until(&what, PATIENCE, met).await?;
        world.stage.note(Who::World, what);
    }
    Ok(())
}

/// The stopped agent's work goes no further while another one's does.
async fn stopped_for_good(
    world: &mut World,
    parties: &Parties,
    load: &Workload,
) -> Result<(), Failure> {
    let before = decisions(&world.stage);
    let tried = answer(world, {
        let load = load.clone();
        async move {
            let nodes = load.nodes(Role::Client, &agent_name(STOPPED), None);
            let mut draws = load.draws("stopped");
            // Refused or frozen: freezing is no permission.
            load.freeze(&nodes, STOPPED, &mut draws).await.is_some()
        }
    });
    let what = "the stopped agent has an answer";
    world.until(what, PATIENCE, |_| tried()).await?;
    world.run(WATCH).await?;
    expect(decisions(&world.stage) == before, || {
        "something was decided for the stopped agent".to_owned()
    })?;
    land(world, parties, load, 1, "last").await.map(|_| ())
}

pub(super) fn decisions(stage: &Stage) -> usize {
    let history = stage.history();
    let decided = |fact: &&Fact| {
        matches!(
            fact,
            Fact::Positive {
                step: Step::Authorized,
                ..
            }
        )
    };
    history.facts.values().filter(decided).count()
}

/// The nodes latch a RED that the actuator cannot hear; it is carried out once there is one again, and a
/// sentinel that was killed meanwhile still hears of its end.
async fn a_stop_without_an_actuator(
    world: &mut World,
    parties: &Parties,
    stops: usize,
) -> Result<(), Failure> {
    parties.kill(ACTUATOR);
    let scope = RedScope::Subject(subject(CUT_OFF));
    raise(world, scope, "red without an actuator").await?;
    world
        .until("it is latched all the same", PATIENCE, |world| {
            let history = world.stage.history();
            let latched = |fact: &&Fact| matches!(fact, Fact::Latched { .. });
            (history.facts.values().filter(latched).count() == stops).then_some(())
        })
        .await?;
    parties.kill(SENTINEL);
    world.run(Duration::from_secs(2)).await?;
    parties.start(ACTUATOR);
    parties.start(SENTINEL);
    world.calm();
    closed(world, stops).await?;
    ready(world, parties, &[SENTINEL, ACTUATOR], PATIENCE).await
}
