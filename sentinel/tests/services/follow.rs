//! A reader of the journal among nodes that withhold, replace and postpone: it reads every stop, always.

use std::time::Duration;

use redlatch_journal::authority::Governance;
use redlatch_link::Role;
use redlatch_link::follow::{Follower, News, ReadPoint, Standing, Trust, Wanted};
use redlatch_link::transport::Dialer;
use redlatch_types::event::Event;
use redlatch_types::in_force::{ActiveKeyV1, InForceV1};
use redlatch_types::records::*;
use redlatch_types::*;

use crate::cluster::Cluster;
use crate::parties::Parties;
use crate::trust::joined;
use crate::world::journal::{Outbox, ROOT, World, reset, root_act, sealed_root_act};
use crate::world::policy;

/// Rounds in which every node was asked more than once.
const ROUNDS: usize = 24;

/// How long a majority may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Nodes, a sentinel's chain without a sentinel, and somebody who reads.
struct Bench {
    parties: Parties,
    outbox: Outbox,
    follower: Follower,
}

fn wanted(event: &Event) -> Wanted {
    match event {
        Event::RedLatched(..) | Event::GroundsReset(..) => Wanted::Proof,
        _ => Wanted::No,
    }
}

fn roster(change: RosterPayload) -> ActionPayload {
    ActionPayload::RosterChange(Box::new(change))
}

impl Bench {
    async fn new() -> Bench {
        let parties = Parties::new().await;
        let own = parties.identities.credentials(Role::Sentinel, "sentinel");
        let genesis = parties.cluster.genesis();
        let trust = Trust::resume(policy(genesis.scope()), &genesis, None).unwrap();
        let follower = Follower::new(&Dialer::new(own), &parties.nodes, trust, 0).unwrap();
        // A majority of the first roster and of those that follow it.
        parties.cluster.set_signers(&[1, 2, 3]);
        let mut bench = Bench {
            parties,
            outbox: Outbox::new(),
            follower,
        };
        let key = bench.last("quorum_key_activated");
        assert_eq!(bench.round().await, Some(vec![key]), "it is in force");
        bench
    }

    fn world<R>(&self, with: impl FnOnce(&mut World) -> R) -> R {
        self.parties.cluster.world(with)
    }

    fn change(&self, payload: ActionPayload) {
        self.world(|world| {
            world.make_change(payload);
        });
    }

    /// A RED on a subject that nobody is; where it is latched.
    fn red(&mut self, subject: &str) -> u64 {
        let scope = RedScope::Subject(subject.parse().unwrap());
        self.parties.cluster.world(|world| {
            let red = self.outbox.red(world, &scope);
            let latch = world.latch(red);
            world.stop(latch);
        });
        let latched = self.parties.cluster.positions("red_latched");
        *latched.last().unwrap()
    }

    fn act(&self, change: impl FnOnce(&mut RootActV1, Governance)) {
        self.world(|world| {
            let act = root_act(world, |it| change(it, world.governance()));
            let sealed = sealed_root_act(world, &act, ROOT);
            world.ok(sealed);
        });
    }

    fn last(&self, word: &str) -> u64 {
        *self.parties.cluster.positions(word).last().unwrap()
    }

    /// No node gives the receipt of the leaf at this position.
    fn withhold(&self, position: u64) {
        (1..=5).for_each(|node| self.parties.cluster.withhold(node, position));
    }

    /// What one round hands on, by position; none if it ends in an error.
    async fn round(&mut self) -> Option<Vec<u64>> {
        let batch = self.follower.read_on(wanted).await.ok()?;
        for (_, news) in &batch.news {
            assert!(matches!(news, News::Proven(_)), "unproven: {news:?}");
        }
        Some(
            batch
                .news
                .into_iter()
                .map(|(position, _)| position)
                .collect(),
        )
    }

    /// Reads until the leaf at this position is handed on.
    async fn reads(&mut self, position: u64) -> bool {
        for _ in 0..ROUNDS {
            let read = self.round().await.unwrap_or_default();
            if read.contains(&position) {
                return true;
            }
        }
        false
    }

    /// Reads until this roster is in force for the reader.
    async fn reaches(&mut self, epoch: u64) -> bool {
        for _ in 0..ROUNDS {
            // An error makes it ask another node.
            let _ = self.round().await;
            if self.roster_epoch() == epoch {
                return true;
            }
        }
        false
    }

    /// How the reader stands to a majority.
    async fn compare(&mut self) -> Standing {
        let point = self.follower.read_point(Digest::ZERO, DEADLINE).await;
        self.follower.compare(&point.unwrap(), None)
    }

    fn roster_epoch(&self) -> u64 {
        self.follower.trust().in_force().roster.roster_epoch.0
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_turns_out_not_to_follow_keeps_nobody_from_reading_a_stop() {
    let mut bench = Bench::new().await;
    // The one who is asked first hides the first change; the second one is owed for a while.
    bench.parties.cluster.set_masking(1, "roster_changed");
    bench.change(roster(RosterPayload::Join(joined(4))));
    bench.change(roster(RosterPayload::Promote(NodeId(4))));
    let second = bench.last("roster_changed");
    bench.withhold(second);
    let red = bench.red("one");
    assert!(bench.reads(red).await, "it waits for nobody's proof");
    assert_eq!(bench.roster_epoch(), 1);
    bench.parties.cluster.withhold_nothing();
    let red = bench.red("two");
    assert!(bench.reads(red).await, "what does not follow is in the way");
    assert!(
        bench.reaches(3).await,
        "and it is read again with what was hidden"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_every_node_hides_is_read_past_and_found_once_one_shows_it() {
    let mut bench = Bench::new().await;
    for node in 1..=5 {
        bench.parties.cluster.set_masking(node, "roster_changed");
    }
    bench.change(roster(RosterPayload::Join(joined(4))));
    bench.change(roster(RosterPayload::Promote(NodeId(4))));
    let red = bench.red("one");
    assert!(bench.reads(red).await);
    assert_eq!(
        bench.roster_epoch(),
        1,
        "and nothing is believed that does not follow"
    );
    bench.parties.cluster.unmask();
    let missing = bench.follower.trust().in_force().next;
    bench.follower.reread(missing);
    assert!(bench.reaches(3).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_only_hidden_nodes_can_prove_leads_back_to_what_was_hidden() {
    let mut bench = Bench::new().await;
    bench.act(|it, before| {
        it.kernel = before.kernel;
        it.old_outbox_root_optional = None;
        it.roster.sentinel = before.roster.sentinel;
        it.roster.nodes = (4..=6).map(joined).collect();
        let voters = it.roster.nodes.iter_mut();
        voters.for_each(|node| node.seat = Seat::Voter);
    });
    // From here on the first nodes vouch for nothing, and one of them hides why.
    bench.parties.cluster.set_signers(&[4, 5]);
    bench.parties.cluster.set_masking(1, "root_acted");
    let red = bench.red("one");
    assert!(bench.reads(red).await);
    assert_eq!(bench.follower.trust().in_force().root_acts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_leaf_in_the_place_of_a_stop_is_not_owed_once_the_stop_is_proven() {
    let mut bench = Bench::new().await;
    let red = bench.red("one");
    let other = Event::GroundsReset(vec![GroundNumber(7)]);
    bench.parties.cluster.set_mask(1, red, &other);
    bench.parties.cluster.withhold(1, red);
    let read = bench.round().await.expect("it reads on");
    assert!(!read.contains(&red), "it is owed as what it is shown as");
    assert!(bench.reads(red).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_that_is_owed_blocks_neither_the_root_nor_another_reset() {
    let mut bench = Bench::new().await;
    bench.red("one");
    bench.red("two");
    let mut resets = Vec::new();
    for ground in [1, 2] {
        bench.change(reset(&[ground]));
        resets.push(bench.last("grounds_reset"));
    }
    resets.iter().for_each(|position| bench.withhold(*position));
    let root = bench.outbox.root;
    bench.act(|it, _| it.old_outbox_root_optional = Some(root));
    for _ in 0..3 {
        assert!(bench.round().await.is_some());
    }
    assert_eq!(bench.follower.trust().in_force().root_acts, 1);
    bench.parties.cluster.withhold_nothing();
    bench.withhold(resets[0]);
    assert!(
        bench.reads(resets[1]).await,
        "the one before it is in the way"
    );
    bench.parties.cluster.withhold_nothing();
    assert!(bench.reads(resets[0]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_waits_for_the_owed_one_before_it_and_is_not_taken_for_one_left_out() {
    let mut bench = Bench::new().await;
    bench.change(roster(RosterPayload::Join(joined(4))));
    let first = bench.last("roster_changed");
    bench.change(roster(RosterPayload::Promote(NodeId(4))));
    let second = bench.last("roster_changed");
    bench.withhold(first);
    for _ in 0..3 {
        let read = bench.round().await.expect("nobody is blamed");
        assert!(!read.contains(&first) && !read.contains(&second));
        assert_eq!(bench.follower.position(), bench.parties.cluster.size());
        assert_eq!(bench.roster_epoch(), 1);
    }
    bench.parties.cluster.withhold_nothing();
    assert!(bench.reaches(3).await, "each in its turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_that_was_hidden_before_a_later_change_is_read_again() {
    let mut bench = Bench::new().await;
    bench.red("one");
    let hidden = bench.last("epoch_published");
    let genesis = bench.world(|world| world.events[0].clone());
    bench.parties.cluster.set_mask(1, hidden, &genesis);
    let root = bench.outbox.root;
    bench.act(|it, _| it.old_outbox_root_optional = Some(root));
    let epochs = |bench: &Bench| {
        let known = bench.follower.trust().in_force().autonomy_epoch;
        (
            known,
            bench.world(|world| world.governance().epoch.autonomy_epoch),
        )
    };
    bench.round().await;
    let (known, there) = epochs(&bench);
    assert!(known < there);
    assert_eq!(bench.compare().await, Standing::LeftOut);
    bench.round().await;
    let (known, there) = epochs(&bench);
    assert_eq!(known, there);
    assert_eq!(bench.compare().await, Standing::Level);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_grows_all_the_time_is_reached() {
    let mut bench = Bench::new().await;
    bench.red("one");
    assert_eq!(bench.compare().await, Standing::Behind);
    bench.round().await;
    // There are more leaves already, and a majority would say so.
    bench.red("two");
    assert_eq!(bench.compare().await, Standing::Level);
    assert_eq!(bench.compare().await, Standing::Behind);
}

#[test]
fn each_epoch_that_is_behind_says_where_to_read_again() {
    let genesis = Cluster::new().genesis();
    let mut known = InForceV1::of_genesis(&genesis);
    (known.next, known.epoch_next) = (70, 40);
    known.quorum_key = Some(ActiveKeyV1 {
        epoch: KeyEpoch(2),
        group_key: genesis.roster.sentinel.key,
        public_key_package_digest: Digest::ZERO,
    });
    let level = ReadPoint {
        size: 100,
        latches: LatchNumber(0),
        state_time: 0,
        roster_epoch: known.roster.roster_epoch,
        constitution_epoch: known.constitution.constitution_epoch,
        autonomy_epoch: known.autonomy_epoch,
        quorum_key_epoch: KeyEpoch(2),
    };
    assert_eq!(level.missing_from(&known), None);
    type Change = fn(&mut ReadPoint);
    let ahead: [(Change, u64); 4] = [
        (|it| it.roster_epoch = it.roster_epoch.next(), 70),
        (
            |it| it.constitution_epoch = it.constitution_epoch.next(),
            70,
        ),
        (|it| it.quorum_key_epoch = KeyEpoch(3), 70),
        (|it| it.autonomy_epoch = it.autonomy_epoch.next(), 40),
    ];
    for (change, from) in ahead {
        let mut point = level;
        change(&mut point);
        assert_eq!(point.missing_from(&known), Some(from), "{point:?}");
    }
    known.quorum_key = None;
    assert_eq!(level.missing_from(&known), Some(70));
}
