//! Whom a follower believes: rosters one after the other, each proven under the one before.

use redlatch_link::follow::Trust;
use redlatch_types::event::Event;
use redlatch_types::in_force::Taken;
use redlatch_types::policy::Policy;
use redlatch_types::receipt::Receipt;
use redlatch_types::records::*;
use redlatch_types::*;

use crate::parties::{Parties, free};
use crate::until;
use crate::world::journal::{AGENT, MAIN, ROOT, World};
use crate::world::{key, policy, receipt};

/// A node that joins; its keys are numbered like those of the first three.
pub(crate) fn joined(n: u8) -> RosterNode {
    RosterNode {
        node_id: NodeId(n.into()),
        name: format!("n{n}").parse().unwrap(),
        seat: Seat::Learner,
        log_key: key(100 + n).public_key(),
        cosigner_key: key(110 + n).public_key(),
        record_key: key(120 + n).public_key(),
    }
}

fn change(world: &mut World, change: RosterPayload) -> Event {
    world.make_change(ActionPayload::RosterChange(Box::new(change)));
    let events = world.events.iter().rev();
    let mut changes = events.filter(|it| matches!(it, Event::RosterChanged(_)));
    changes.next().unwrap().clone()
}

/// n1, n2, n3 become n3, n4, n5, one node a step.
fn move_on(world: &mut World) -> Vec<Event> {
    let steps = [
        RosterPayload::Join(joined(4)),
        RosterPayload::Promote(NodeId(4)),
        RosterPayload::Remove(NodeId(1)),
        RosterPayload::Join(joined(5)),
        RosterPayload::Promote(NodeId(5)),
        RosterPayload::Remove(NodeId(2)),
    ];
    steps.into_iter().map(|step| change(world, step)).collect()
}

fn genesis(world: &World) -> GenesisV1 {
    let Event::Bootstrapped(genesis, _) = &world.events[0] else {
        panic!("it begins with the genesis");
    };
    (**genesis).clone()
}

struct Bench {
    world: World,
    genesis: GenesisV1,
}

impl Bench {
    fn new() -> Bench {
        let world = World::new();
        let genesis = genesis(&world);
        Bench { world, genesis }
    }
    fn configured(&self) -> Policy {
        policy(self.genesis.scope())
    }
    fn fresh(&self) -> Trust {
        Trust::resume(self.configured(), &self.genesis, None).unwrap()
    }
    fn receipt(&self, event: &Event, nodes: &[u8]) -> Receipt {
        receipt(self.genesis.scope(), event, nodes)
    }
    /// Each receipt stands at position 0 of its tree; what is known begins there every time.
    fn follow(&self, trust: &mut Trust, event: &Event, nodes: &[u8]) -> bool {
        match trust.prove(&self.receipt(event, nodes)) {
            Ok(proven) => {
                let mut kept = trust.kept().clone();
                kept.in_force.next = 0;
                *trust = Trust::resume(trust.policy().clone(), &self.genesis, Some(kept)).unwrap();
                trust.take(&proven).is_ok()
            }
            Err(_) => false,
        }
    }
    fn believes(&self, trust: &Trust, nodes: &[u8]) -> bool {
        trust
            .prove(&self.receipt(&self.world.events[1], nodes))
            .is_ok()
    }
}

#[test]
fn each_roster_is_proven_under_the_one_before_and_kept() {
    let mut bench = Bench::new();
    let steps = move_on(&mut bench.world);
    let mut trust = bench.fresh();
    // Not by those whom it would bring in, and not by too few of those who are there.
    assert!(!bench.follow(&mut trust, &steps[0], &[3]));
    assert!(bench.follow(&mut trust, &steps[0], &[2, 3]));
    assert!(
        !bench.follow(&mut trust, &steps[2], &[2, 3]),
        "one was left out"
    );
    assert!(bench.follow(&mut trust, &steps[1], &[2, 3]));
    assert!(
        !bench.believes(&trust, &[2, 3]),
        "two of four are no majority"
    );
    assert!(!bench.follow(&mut trust, &steps[2], &[3, 4]));
    for (step, nodes) in steps[2..]
        .iter()
        .zip([&[2, 3, 4][..], &[3, 4], &[3, 4], &[3, 4, 5]])
    {
        assert!(bench.follow(&mut trust, step, nodes), "{nodes:?}");
    }
    // The nodes of the beginning are nobody any more, also for a process that starts with their policy.
    let again = Trust::resume(
        bench.configured(),
        &bench.genesis,
        Some(trust.kept().clone()),
    );
    for trust in [trust, again.unwrap()] {
        assert!(bench.believes(&trust, &[4, 5]));
        assert!(!bench.believes(&trust, &[1, 2]));
        assert!(!bench.believes(&trust, &[1, 2, 3]));
    }
}

#[test]
fn a_policy_of_a_later_roster_is_the_operators_word_until_it_is_reached() {
    let mut bench = Bench::new();
    let steps = move_on(&mut bench.world);
    let later = bench
        .configured()
        .under(&bench.world.governance().roster)
        .unwrap();
    let mut trust = Trust::resume(later.clone(), &bench.genesis, None).unwrap();
    for step in &steps {
        assert!(trust.kept().is_ahead);
        let proven = trust.prove(&bench.receipt(step, &[4, 5])).unwrap();
        let mut kept = trust.kept().clone();
        kept.in_force.next = 0;
        trust = Trust::resume(later.clone(), &bench.genesis, Some(kept)).unwrap();
        assert_eq!(trust.take(&proven), Ok(Taken::Roster));
    }
    assert!(!trust.kept().is_ahead);
    assert_eq!(trust.policy(), &later);
    // From there on it is an old word, like any other.
    let next = change(&mut bench.world, RosterPayload::Join(joined(6)));
    assert!(bench.follow(&mut trust, &next, &[4, 5]));
}

#[test]
fn an_act_of_the_root_may_name_new_nodes_and_nobody_elses_act_may() {
    let bench = Bench::new();
    let governance = bench.world.governance();
    let mut roster = governance.roster.clone();
    roster.roster_epoch = roster.roster_epoch.next();
    roster.nodes = (4..=6).map(joined).collect();
    roster.nodes.iter_mut().for_each(|it| it.seat = Seat::Voter);
    let act = RootActV1 {
        number: 1,
        previous_kernel_digest: governance.kernel.digest(),
        kernel: governance.kernel.clone(),
        roster,
        old_outbox_root_optional: None,
        reason: Text::lossy("the machines are gone"),
    };
    let acted = |signer: u8| {
        let ground = redlatch_types::event::Ground {
            number: GroundNumber(1),
            scopes: vec![RedScope::Everything],
            cause: redlatch_types::event::GroundCause::RootAct(1),
        };
        let envelope = Envelope::seal(bench.genesis.scope(), &key(signer), &act);
        Event::RootActed(Box::new(act.clone()), ground, envelope)
    };
    let mut trust = bench.fresh();
    assert!(!bench.follow(&mut trust, &acted(AGENT), &[4, 5]));
    assert!(
        !bench.follow(&mut trust, &acted(ROOT), &[4]),
        "and by their majority"
    );
    assert!(bench.follow(&mut trust, &acted(ROOT), &[4, 5]));
    assert_eq!(trust.scope().organism_epoch, 2);
    assert!(bench.believes(&trust, &[5, 6]));
    assert!(!bench.believes(&trust, &[1, 2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn both_processes_go_on_with_the_nodes_that_replaced_the_first_ones() {
    let mut parties = Parties::new().await;
    let (sentinel, _) = parties.sentinel("repo:refs/heads/").await;
    parties.cluster.world(|world| {
        move_on(world);
    });
    // The nodes of every roster on the way have cosigned.
    parties.cluster.set_signers(&[3, 2, 4, 5]);
    // The first of a roster is read from first: n3 of the last one alone.
    let read = || parties.cluster.brought("read out", 3) > 0;
    until("the sentinel follows the last roster", || async { read() }).await;
    let (actuator, narrowed) = parties.actuator().await;
    until("narrowed", || async { narrowed.is_ready() }).await;
    sentinel.stop().await;
    actuator.stop().await;
    parties.sentinel_disk.crash();
    parties.actuator_disk.crash();
    // Nobody of the genesis is left to vouch for anything.
    parties.cluster.set_signers(&[4, 5]);
    let brought = parties.cluster.brought("latch_red", 1);
    parties.service = free();
    let (_sentinel, compared) = parties.sentinel("repo:refs/heads/").await;
    let (_actuator, narrowed) = parties.actuator().await;
    until("ready", || async { compared.is_ready() }).await;
    let intent = parties.cluster.world(|world| world.freeze(MAIN, 0, 7));
    until("green", || async {
        let said = parties.evaluate(intent).await;
        said.is_ok_and(|it| it.verdict == Verdict::Green)
    })
    .await;
    parties.raise(1, RedScope::Everything).await.unwrap();
    until("closed", || async {
        let outbox = parties.outbox().await;
        outbox.is_ok_and(|it| it.entries.is_empty() && it.head == 1)
    })
    .await;
    until("narrowed again", || async { narrowed.is_ready() }).await;
    assert_eq!(parties.cluster.count("safety_terminal"), 1);
    assert_eq!(
        parties.cluster.brought("latch_red", 1),
        brought,
        "it is gone"
    );
    for node in 3..=5 {
        assert!(parties.cluster.brought("latch_red", node) > 0, "n{node}");
    }
}
