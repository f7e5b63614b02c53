//! A cluster of three that changes who it is, in one simulated world: nodes join, are promoted, leave, and
//! come back with another disk (D9, faults 13 to 15).

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::EntryPayload;
use redlatch_raft::config::{Entry, Membership};
use redlatch_raft::membership::Step;
use redlatch_raft::node::StartError;
use redlatch_raft::standing::Standing;
use redlatch_types::NodeId;
use redlatch_types::chain::Trust;
use redlatch_types::policy::Demand;
use redlatch_types::receipt::{Receipt, verify};
use redlatch_types::records::{RosterPayload, Seat};

use super::world::{Cluster, Persons, roster_node, run};

const LONG: Duration = Duration::from_secs(30);

async fn until_standing(cluster: &Cluster, id: u64, standing: Standing) {
    let node = cluster.node(id).await;
    let what = format!("node {id}: {standing}");
    cluster.until(&what, || node.standing() == standing).await;
}

/// Joins node `id` and promotes it once it has caught up.
async fn bring_in(cluster: &mut Cluster, persons: &mut Persons, id: u64) {
    let record = roster_node(id, Seat::Learner);
    persons.change(cluster, RosterPayload::Join(record)).await;
    cluster.add(id);
    until_standing(cluster, id, Standing::Learner).await;
    cluster.followed().await;
    persons
        .change(cluster, RosterPayload::Promote(NodeId(id)))
        .await;
    until_standing(cluster, id, Standing::Voter).await;
    cluster.followed().await;
}

/// The trust that the chain of a node leads to, from the genesis on.
async fn follow(cluster: &Cluster, id: u64) -> Trust {
    let node = cluster.node(id).await;
    let roster = cluster.roster().await;
    let links = || node.chain().expect("readable");
    let steps = usize::try_from(roster.roster_epoch.0 - 1).expect("few");
    cluster
        .until("every step is proven", || links().len() == steps)
        .await;
    let step = |trust: Trust, link: &Receipt| trust.follow(link, Demand::Quorum);
    let trust = links().iter().try_fold(cluster.trust(), step);
    let trust = trust.expect("each link holds");
    assert_eq!(*trust.roster(), roster);
    trust
}

/// A receipt of a new leaf, given by `id`, that verifies under the policy of the roster in force.
async fn receipted(cluster: &Cluster, id: u64, except: u64) {
    let committed = cluster.checkpoint_without(except).await;
    let node = cluster.node(id).await;
    let receipt = node.wait_receipt(committed.positions.end, LONG).await;
    let receipt = receipt.expect("a majority cosigns");
    let trust = follow(cluster, id).await;
    let verified = verify(&receipt, trust.policy()).expect("under the roster in force");
    assert_eq!(verified.index, committed.positions.end);
}

#[test]
fn a_fourth_node_joins_is_promoted_and_carries_on_without_the_old_leader() {
    run(11, async {
        let (mut cluster, mut persons) = (Cluster::start().await, Persons::new());
        cluster.checkpoint().await;
        bring_in(&mut cluster, &mut persons, 4).await;
        assert_eq!(cluster.roster().await.voters().count(), 4);
        receipted(&cluster, 4, 0).await;
        // Three of four are needed now: without the fourth nothing would commit or be receipted.
        let leader = cluster.leader().await;
        cluster.power_loss(leader).await;
        let left: Vec<u64> = (1..=4).filter(|id| *id != leader).collect();
        receipted(&cluster, left[0], leader).await;
        cluster.agree_among(&left).await;
    });
}

#[test]
fn a_learner_counts_for_nothing() {
    run(12, async {
        let (mut cluster, mut persons) = (Cluster::start().await, Persons::new());
        let record = roster_node(4, Seat::Learner);
        persons.change(&cluster, RosterPayload::Join(record)).await;
        cluster.add(4);
        until_standing(&cluster, 4, Standing::Learner).await;
        cluster.followed().await;
        cluster.agree_among(&[1, 2, 3, 4]).await;
        let learner = cluster.node(4).await;
        // It has the journal, and receipts that the others signed; it signs none.
        receipted(&cluster, 4, 0).await;
        assert_eq!(learner.metrics().signed_size, 0);
        cluster.read_point(4, LONG).await.expect("by the others");
        // Two of the three are gone: the learner makes no majority with the one that is left.
        let leader = cluster.leader().await;
        let other = 1 + leader % 3;
        cluster.power_loss(leader).await;
        cluster.power_loss(other).await;
        let alone = 6 - leader - other;
        assert!(cluster.read_point(alone, LONG).await.is_err());
        assert!(!learner.leads() && !cluster.node(alone).await.leads());
    });
}

#[test]
fn a_removed_leader_steps_down_when_the_others_have_taken_over() {
    run(13, async {
        let (mut cluster, mut persons) = (Cluster::start().await, Persons::new());
        bring_in(&mut cluster, &mut persons, 4).await;
        let leader = cluster.leader().await;
        let removed = cluster.node(leader).await;
        let removal = persons
            .change(&cluster, RosterPayload::Remove(NodeId(leader)))
            .await;
        cluster.until("it steps down", || !removed.leads()).await;
        until_standing(&cluster, leader, Standing::Outside).await;
        let left: Vec<u64> = (1..=4).filter(|id| *id != leader).collect();
        receipted(&cluster, left[0], leader).await;
        cluster.followed().await;
        assert_eq!(cluster.roster().await.voters().count(), 3);
        // It signs nothing that came after its removal, however much of it it is still told.
        let event = cluster.roster().await.roster_epoch;
        assert_eq!(removed.metrics().roster_epoch, event);
        assert_eq!(removed.metrics().signed_size, removal);
        // Two of three are enough again.
        let leader = cluster.leader().await;
        cluster.power_loss(leader).await;
        cluster.checkpoint_without(leader).await;
    });
}

#[test]
fn fault_014_a_wiped_node_comes_back_only_by_rejoin_and_promote() {
    run(14, async {
        let (cluster, mut persons) = (Cluster::start().await, Persons::new());
        cluster.checkpoint().await;
        cluster.agree().await;
        let wiped = 1 + cluster.leader().await % 3;
        let term = cluster.node(wiped).await.metrics().term;
        cluster.power_loss(wiped).await;
        cluster.wipe(wiped);
        cluster.boot(wiped);
        let refused = cluster.refusal(wiped).await;
        assert!(matches!(refused, StartError::RolledBack { .. }));
        cluster.power_loss(wiped).await;
        cluster.boot_returning(wiped);
        until_standing(&cluster, wiped, Standing::Returning).await;
        cluster
            .until("the journal knows", || {
                let node = cluster.running(1 + wiped % 3).expect("it runs");
                node.metrics().roster_epoch.0 == 2
            })
            .await;
        let roster = cluster.roster().await;
        let seat = roster.node(NodeId(wiped)).map(|node| node.seat);
        assert_eq!(seat, Some(Seat::Learner));
        cluster.followed().await;
        cluster.checkpoint().await;
        cluster.agree().await;
        assert_eq!(
            cluster.node(wiped).await.standing(),
            Standing::Returning,
            "what it replays of its former self gives it no vote"
        );
        persons
            .change(&cluster, RosterPayload::Promote(NodeId(wiped)))
            .await;
        until_standing(&cluster, wiped, Standing::Voter).await;
        cluster.followed().await;
        let node = cluster.node(wiped).await;
        assert!(node.metrics().term > term && node.metrics().incarnation > 1);
        // It is needed again, and it is let in again after a restart.
        let other = cluster.leader().await;
        let other = if other == wiped { 1 + wiped % 3 } else { other };
        cluster.power_loss(other).await;
        receipted(&cluster, wiped, other).await;
        cluster.boot(other);
        cluster.power_loss(wiped).await;
        cluster.boot(wiped);
        until_standing(&cluster, wiped, Standing::Voter).await;
        cluster.agree().await;
    });
}

/// Nobody remembers anything; that the disks return is all that says there was an organism before.
#[test]
fn fault_014_disks_that_return_never_begin_anew_though_nobody_remembers() {
    run(21, async {
        let cluster = Cluster::start().await;
        cluster.checkpoint().await;
        cluster.agree().await;
        for node in 1..=3 {
            cluster.power_loss(node).await;
            cluster.wipe(node);
        }
        (1..=3).for_each(|node| cluster.boot_returning(node));
        for node in 1..=3 {
            until_standing(&cluster, node, Standing::Returning).await;
        }
        for node in 1..=3 {
            let metrics = cluster.node(node).await.metrics();
            assert_eq!((metrics.leader, metrics.place.size), (None, 0), "{node}");
        }
    });
}

/// A node brings the return of another one, signed with that one's own key.
#[test]
fn fault_014_nobody_brings_the_return_of_another_node() {
    run(20, async {
        let cluster = Cluster::start().await;
        cluster.checkpoint().await;
        cluster.agree().await;
        let leader = cluster.leader().await;
        let (caller, about) = (1 + leader % 3, 1 + (leader + 1) % 3);
        let refused = cluster.rejoin_as(caller, leader, about).await;
        assert_eq!(refused, Some(tonic::Code::InvalidArgument));
        assert_eq!(cluster.roster().await.roster_epoch.0, 1);
        cluster.checkpoint().await;
        cluster.agree().await;
        // Its own is taken, and it counts for nothing from then on.
        assert_eq!(cluster.rejoin_as(caller, leader, caller).await, None);
        let roster = cluster.roster().await;
        let seat = roster.node(NodeId(caller)).map(|node| node.seat);
        assert_eq!(seat, Some(Seat::Learner));
    });
}

#[test]
fn fault_013_a_disk_that_went_back_in_time_comes_back_as_a_learner() {
    run(15, async {
        let cluster = Cluster::start().await;
        cluster.checkpoint().await;
        cluster.agree().await;
        let back = 1 + cluster.leader().await % 3;
        let image = cluster.image(back);
        for _ in 0..5 {
            cluster.checkpoint().await;
        }
        cluster.agree().await;
        cluster.power_loss(back).await;
        cluster.rollback(back, &image);
        cluster.boot_returning(back);
        until_standing(&cluster, back, Standing::Returning).await;
        cluster.checkpoint().await;
        cluster.agree().await;
        assert_eq!(cluster.node(back).await.standing(), Standing::Returning);
    });
}

#[test]
fn fault_014_a_learner_that_was_wiped_begins_anew() {
    run(16, async {
        let (mut cluster, mut persons) = (Cluster::start().await, Persons::new());
        let record = roster_node(4, Seat::Learner);
        persons.change(&cluster, RosterPayload::Join(record)).await;
        cluster.add(4);
        until_standing(&cluster, 4, Standing::Learner).await;
        cluster.followed().await;
        cluster.agree_among(&[1, 2, 3, 4]).await;
        cluster.power_loss(4).await;
        cluster.wipe(4);
        cluster.boot_returning(4);
        until_standing(&cluster, 4, Standing::Returning).await;
        cluster.checkpoint().await;
        cluster.agree_among(&[1, 2, 3, 4]).await;
    });
}

/// The newcomer knows the genesis only, and nobody of it is left.
#[test]
fn a_newcomer_follows_the_chain_of_rosters_to_nodes_that_its_genesis_does_not_name() {
    run(17, async {
        let (mut cluster, mut persons) = (Cluster::start().await, Persons::new());
        for (comes, goes) in [(4, 1), (5, 2), (6, 3)] {
            bring_in(&mut cluster, &mut persons, comes).await;
            persons
                .change(&cluster, RosterPayload::Remove(NodeId(goes)))
                .await;
            cluster
                .until("another one leads", || {
                    let leads = |id| cluster.running(id).is_some_and(|node| node.leads());
                    !leads(goes) && (1..=6).any(leads)
                })
                .await;
            cluster.followed().await;
            cluster.power_loss(goes).await;
        }
        receipted(&cluster, 4, 0).await;
        // More entries than are kept behind a snapshot.
        for _ in 0..1_200 {
            cluster.checkpoint().await;
        }
        let leader = cluster.node(cluster.leader().await).await;
        cluster
            .until("the log is purged", || {
                leader.metrics().purged_index > Some(60)
            })
            .await;
        // Under another number: who was removed does not come back under its own.
        let record = roster_node(7, Seat::Learner);
        persons.change(&cluster, RosterPayload::Join(record)).await;
        cluster.add(7);
        until_standing(&cluster, 7, Standing::Learner).await;
        let node = cluster.node(7).await;
        cluster
            .until("leaves are filled", || node.metrics().leaves_missing == 0)
            .await;
        cluster.agree_among(&[4, 5, 6, 7]).await;
        receipted(&cluster, 7, 0).await;
    });
}

#[test]
fn fault_015_a_step_under_way_is_ended_by_the_next_leader() {
    run(18, async {
        let (mut cluster, mut persons) = (Cluster::start().await, Persons::new());
        let record = roster_node(4, Seat::Learner);
        persons.change(&cluster, RosterPayload::Join(record)).await;
        // Promoted before it is there: the step waits, and nobody waits for the step.
        persons
            .change(&cluster, RosterPayload::Promote(NodeId(4)))
            .await;
        let leader = cluster.leader().await;
        let node = cluster.node(leader).await;
        cluster
            .until("the leader waits", || {
                node.metrics().step == Some(Step::Await(NodeId(4)))
            })
            .await;
        cluster.checkpoint().await;
        cluster.power_loss(leader).await;
        cluster.add(4);
        until_standing(&cluster, 4, Standing::Voter).await;
        cluster.followed().await;
        cluster.boot(leader);
        cluster.agree_among(&[1, 2, 3, 4]).await;
        receipted(&cluster, 4, 0).await;
    });
}

/// A leader that makes up a membership, against a follower of the roster's mind.
#[test]
fn fault_015_a_membership_that_is_not_the_roster_is_cut_off_and_what_stands_before_it_is_taken() {
    run(19, async {
        let cluster = Cluster::start().await;
        cluster.checkpoint().await;
        cluster.agree().await;
        let leader = cluster.leader().await;
        let follower = 1 + leader % 3;
        let node = cluster.node(follower).await;
        let (term, last) = (node.metrics().term, node.place().entry.expect("applied"));
        cluster.power_loss(leader).await;
        let answer = cluster
            .append_as(leader, follower, |log_id| {
                let foreign = Membership::new(
                    vec![BTreeSet::from([1, 2, 3]), BTreeSet::from([1, 2, 3, 9])],
                    BTreeSet::new(),
                );
                let entry = |at, payload| Entry {
                    log_id: log_id(at),
                    payload,
                };
                let entries = vec![
                    entry(1, EntryPayload::Blank),
                    entry(2, EntryPayload::Membership(foreign)),
                ];
                (term + 1, (last.term, last.index), entries)
            })
            .await;
        assert_eq!(answer, Some((term + 1, last.index + 1)), "one entry of two");
    });
}
