//! Stories about verifiers, sentinel and actuator: everything that can go wrong with them while decisions and
//! stops are under way, and disks of theirs that go back in time.

use std::time::Duration;

use redlatch_types::records::RedScope;
use redlatch_types::{IntentDigest, VerifierId};

use super::organism::{
    PATIENCE, START, WATCH, closed, committed, decisions, freeze, has, land, order, raise, ready,
    subject,
};
use super::{Options, expect, first_leader};
use crate::faults::{self, Fault};
use crate::history::{BallotSeen, Fact};
use crate::liveness::settle;
use crate::organism::{AGENTS, SENTINEL, VERIFIERS};
use crate::parties::Parties;
use crate::party_faults::{self, Party, PartyFault, everybody};
use crate::process::Stage;
use crate::workload::{Counts, Plan, Workload};
use crate::world::{Failure, World};

/// How long everything that was raised and begun may take once the faults have stopped.
const AFTERWARDS: Duration = Duration::from_secs(90);
/// The agent whom no stop names.
const FREE: u64 = 1;

/// Everybody is up, and the quorum has its key.
async fn begin(world: &mut World) -> Result<(Parties, Workload), Failure> {
    let parties = Parties::gather(world);
    let load = Workload::idle(world);
    first_leader(world).await?;
    ready(world, &parties, &everybody(), START).await?;
    Ok((parties, load))
}

/// Faults of parties, and some of nodes, drawn from the seed, while agents propose and stops are raised.
pub(super) async fn mix(world: &mut World, options: &Options) -> Result<Counts, Failure> {
    let (parties, load) = begin(world).await?;
    let plan = Plan {
        pause_ms: 2_500,
        ..Plan::default()
    };
    load.agents(world, plan);
    let mut draws = world.seed.draws("party faults");
    let steps = options.steps.unwrap_or(40);
    let mut taken = Vec::new();
    for step in 0..steps {
        if draws.percent(75) {
            parties.do_to(party_faults::draw(&mut draws));
        } else {
            world.do_to(faults::draw(&mut draws));
        }
        let span = Duration::from_millis(draws.between(20, 2_000));
        world.run(span).await?;
        // Two stops at once: the second one is made under an epoch that the first one ends.
        if step == steps / 2 || step == steps / 2 + 1 {
            let agent = AGENTS - step % 2;
            let scope = RedScope::Subject(subject(agent));
            taken.push(order(world, scope, &format!("red of agent {agent}")));
        }
    }
    load.stop();
    world.repair_without(&[]);
    parties.repair();
    world.calm();
    ready(world, &parties, &everybody(), AFTERWARDS).await?;
    let all_taken = |_: &World| taken.iter().all(|it| it().is_some()).then_some(());
    world
        .until("every stop is raised", PATIENCE, all_taken)
        .await?;
    world
        .until("every stop is over", AFTERWARDS, |world| over(&world.stage))
        .await?;
    land(world, &parties, &load, FREE, "last").await?;
    settle(world, &load, &[]).await?;
    match parties.ended() {
        Some(ended) => Err(Failure::Unexpected(ended)),
        None => Ok(load.counts()),
    }
}

/// Everything that was latched is terminal and acknowledged.
fn over(stage: &Stage) -> Option<()> {
    let history = stage.history();
    let count = |is: fn(&Fact) -> bool| history.facts.values().filter(|fact| is(fact)).count();
    let latched = count(|fact| matches!(fact, Fact::Latched { .. }));
    let terminal = count(|fact| matches!(fact, Fact::Terminal(_)));
    let acknowledged = count(|fact| matches!(fact, Fact::Other("outbox_acknowledged")));
    let all = latched >= history.raised.len() && latched == terminal && latched == acknowledged;
    all.then_some(())
}

/// Ballots are broken off where it hurts most: two verifiers that have opened their vote lose power before they
/// give a share, together with the leader whose coordinator had asked them. The votes and the sheet stand, fresh
/// nonces are drawn, and the next coordinator ends the ballot.
pub(super) async fn ballots_broken_off(world: &mut World) -> Result<Counts, Failure> {
    let (parties, load) = begin(world).await?;
    let mut draws = world.seed.draws("who is broken off");
    for purpose in [
        "first broken",
        "second broken",
        "third broken",
        "fourth broken",
    ] {
        world.do_to(Fault::SlowNetwork(80));
        let intent = freeze(world, &load, FREE, purpose, PATIENCE).await?;
        let opened = world
            .until("two votes are opened", PATIENCE, |world| {
                let opened = opened(&world.stage, intent);
                (opened.len() >= 2).then_some(opened)
            })
            .await?;
        let (leader, _) = world.until("a leader", PATIENCE, World::leader).await?;
        opened.iter().for_each(|who| parties.kill(who));
        world.do_to(Fault::Kill(leader));
        world.do_to(Fault::SlowNetwork(5));
        let span = Duration::from_millis(draws.between(1, 1_500));
        world.run(span).await?;
        world.start(leader);
        parties.do_to(PartyFault::StartAll);
        let what = format!("the {purpose} ballot ends in a landing");
        let landed = |world: &World| committed(&world.stage, intent).then_some(());
        world.until(&what, AFTERWARDS, landed).await?;
    }
    settle(world, &load, &[]).await?;
    match parties.ended() {
        Some(ended) => Err(Failure::Unexpected(ended)),
        None => Ok(load.counts()),
    }
}

/// Verifiers whose vote on an intent is opened, and who have given no share of it.
fn opened(stage: &Stage, intent: IntentDigest) -> Vec<Party> {
    let history = stage.history();
    let is_open = |who: &Party| {
        let of = |it: &(&(VerifierId, IntentDigest), &Vec<BallotSeen>)| {
            it.0.0.as_str() == *who && it.0.1 == intent
        };
        let last = history.ballots.iter().find(of).and_then(|it| it.1.last());
        last.is_some_and(|it| it.sheet.is_some() && it.packages.is_empty())
    };
    let names = VERIFIERS.iter().map(|it| it.0);
    names.filter(is_open).collect()
}

/// A verifier comes back with its disk as it was before its present boot. Its fellows remember a later one: it
/// says so, votes no more, and the other three decide.
pub(super) async fn verifier_rolled_back(world: &mut World) -> Result<Counts, Failure> {
    let (parties, load) = begin(world).await?;
    let mut draws = world.seed.draws("who goes back");
    let names: Vec<Party> = VERIFIERS.iter().map(|it| it.0).collect();
    let victim = draws.one_of(&names).unwrap_or(names[0]);
    let earlier = parties.syncs(victim);
    parties.kill(victim);
    parties.start(victim);
    ready(world, &parties, &[victim], PATIENCE).await?;
    land(world, &parties, &load, FREE, "before").await?;
    let kept = ballots_of(&world.stage, victim);
    expect(kept > 0, || format!("{victim} has kept no ballot"))?;
    parties.roll_back(victim, earlier);
    parties.start(victim);
    ends(world, &parties, victim, "rolled back").await?;
    land(world, &parties, &load, FREE, "without it").await?;
    // As often as it is started.
    parties.start(victim);
    ends(world, &parties, victim, "rolled back").await?;
    expect(ballots_of(&world.stage, victim) == kept, || {
        format!("{victim} went back in time and voted")
    })?;
    settle(world, &load, &[]).await?;
    Ok(load.counts())
}

async fn ends(world: &mut World, parties: &Parties, who: Party, word: &str) -> Result<(), Failure> {
    let what = format!("{who} refuses to run");
    let reason = world.until(&what, PATIENCE, |_| parties.exit(who)).await?;
    expect(reason.contains(word), || {
        format!("{who} ended with: {reason}")
    })
}

/// How many states of its ballots a verifier's disk has taken in.
fn ballots_of(stage: &Stage, verifier: Party) -> usize {
    let history = stage.history();
    let own = history
        .ballots
        .iter()
        .filter(|it| it.0.0.as_str() == verifier);
    own.map(|it| it.1.len()).sum()
}

/// The sentinel comes back with its disk as it was before a RED that journal and actuator know. It learns of it
/// from them, states no GREEN any more and stops everything.
pub(super) async fn sentinel_rolled_back(world: &mut World) -> Result<Counts, Failure> {
    let (parties, load) = begin(world).await?;
    land(world, &parties, &load, FREE, "before").await?;
    let earlier = parties.syncs(SENTINEL);
    world.calm();
    let scope = RedScope::Subject(subject(AGENTS));
    raise(world, scope, "red that is forgotten").await?;
    closed(world, 1).await?;
    parties.roll_back(SENTINEL, earlier);
    parties.start(SENTINEL);
    let everything = |world: &World| {
        let stops = |fact: &Fact| match fact {
            Fact::Latched { scopes, .. } => scopes.contains(&RedScope::Everything),
            _ => false,
        };
        has(&world.stage, stops).then_some(())
    };
    world
        .until("everything is stopped", PATIENCE, everything)
        .await?;
    let before = decisions(&world.stage);
    let frozen = freeze(world, &load, FREE, "afterwards", PATIENCE).await?;
    world.run(WATCH).await?;
    let decided = decisions(&world.stage) > before || committed(&world.stage, frozen);
    expect(!decided, || {
        "something was decided after the sentinel went back in time".to_owned()
    })?;
    settle(world, &load, &[]).await?;
    match parties.ended() {
        Some(ended) => Err(Failure::Unexpected(ended)),
        None => Ok(load.counts()),
    }
}
