//! Three nodes in one simulated world: the whole of `redlatch-raft` over madsim's network and disks
//! that forget what was not synced. Real sockets and processes are tested elsewhere.
#![cfg(madsim)]

mod cluster {
    mod membership;
    pub(crate) mod world;
}

use std::time::Duration;

use cluster::world::{Cluster, run};
use redlatch_link::world::timeout;
use redlatch_raft::node::StartError;
use redlatch_raft::proposer::{Class, ProposeError};
use redlatch_raft::read_point::ReadPointError;
use redlatch_types::event::Accepted;
use redlatch_types::receipt::verify;

const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_command_is_committed_receipted_and_snapshotted_on_every_node() {
    run(1, async {
        let cluster = Cluster::start().await;
        let committed = cluster.checkpoint().await;
        assert_eq!(committed.outcome.reply, Ok(Accepted::Checkpointed));
        // The StateRoot leaf is the last of the entry.
        let position = committed.positions.end;
        for id in 1..=3 {
            let node = cluster.node(id).await;
            let receipt = node
                .wait_receipt(position, LONG)
                .await
                .expect("a majority cosigns");
            let verified = verify(&receipt, &cluster.policy()).expect("it verifies offline");
            assert_eq!(verified.index, position);
            cluster
                .until("a snapshot is kept", || {
                    node.metrics().snapshot_index.is_some()
                })
                .await;
        }
        cluster.agree().await;
    });
}

#[test]
fn fault_005_the_leader_loses_power_and_nothing_acknowledged_is_lost() {
    run(2, async {
        let cluster = Cluster::start().await;
        let before = cluster.checkpoint().await;
        let leader = cluster.leader().await;
        cluster.power_loss(leader).await;
        let after = cluster.checkpoint().await;
        assert!(after.entry.term > before.entry.term);
        cluster.boot(leader);
        cluster.agree().await;
        let node = cluster.node(leader).await;
        assert!(node.metrics().incarnation == 2 && node.place().size > after.positions.end);
    });
}

#[test]
fn every_node_loses_power_at_once_and_all_come_back() {
    run(3, async {
        let cluster = Cluster::start().await;
        let committed = cluster.checkpoint().await;
        for id in 1..=3 {
            cluster.power_loss(id).await;
        }
        for id in 1..=3 {
            cluster.boot(id);
        }
        cluster.agree().await;
        let again = cluster.checkpoint().await;
        assert!(again.positions.start > committed.positions.end);
        let node = cluster.node(1).await;
        node.wait_receipt(committed.positions.end, LONG)
            .await
            .expect("receipts go on");
    });
}

#[test]
fn fault_014_a_wiped_disk_is_not_let_in() {
    run(4, async {
        let cluster = Cluster::start().await;
        cluster.checkpoint().await;
        cluster.agree().await;
        cluster.power_loss(2).await;
        cluster.wipe(2);
        cluster.boot(2);
        let refused = cluster.refusal(2).await;
        assert!(
            matches!(refused, StartError::RolledBack { .. }),
            "{refused}"
        );
        // The others go on without it.
        cluster.checkpoint().await;
    });
}

#[test]
fn fault_013_a_disk_that_went_back_in_time_is_not_let_in() {
    run(5, async {
        let cluster = Cluster::start().await;
        cluster.checkpoint().await;
        cluster.agree().await;
        let image = cluster.image(3);
        cluster.checkpoint().await;
        cluster.agree().await;
        cluster.power_loss(3).await;
        cluster.rollback(3, &image);
        cluster.boot(3);
        let refused = cluster.refusal(3).await;
        assert!(
            matches!(refused, StartError::RolledBack { .. }),
            "{refused}"
        );
    });
}

#[test]
fn fault_019_an_isolated_leader_has_no_read_point_and_commits_nothing() {
    run(6, async {
        let cluster = Cluster::start().await;
        cluster.checkpoint().await;
        let leader = cluster.leader().await;
        let node = cluster.node(leader).await;
        cluster
            .read_point(leader, SHORT)
            .await
            .expect("a majority answers");
        cluster.isolate(leader);
        let alone = cluster.read_point(leader, SHORT).await;
        assert_eq!(alone, Err(ReadPointError::NoMajority));
        let stuck = node.propose(Class::Red, cluster.command(), SHORT).await;
        assert_eq!(stuck.map(|_| ()), Err(ProposeError::Indeterminate));
        // The others elect one of them, and its reads see what it commits.
        let committed = cluster.checkpoint_without(leader).await;
        cluster.heal();
        let point = cluster
            .read_point(leader, LONG)
            .await
            .expect("a majority answers again");
        assert!(point.place.size > committed.positions.end);
    });
}

#[test]
fn a_node_that_was_away_below_the_log_is_filled_by_snapshot_and_leaves() {
    run(7, async {
        let cluster = Cluster::start().await;
        cluster.checkpoint().await;
        cluster.agree().await;
        let away = 1 + cluster.leader().await % 3;
        cluster.power_loss(away).await;
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
        cluster.boot(away);
        cluster.agree().await;
        let node = cluster.node(away).await;
        cluster
            .until("leaves are filled", || node.metrics().leaves_missing == 0)
            .await;
        for position in [0, 1, node.place().size / 2, node.place().size - 1] {
            let receipt = node
                .wait_receipt(position, LONG)
                .await
                .expect("proofs are served");
            verify(&receipt, &cluster.policy()).expect("and verify");
        }
    });
}

/// D2: one delivery of the sentinel, to any node, is enough.
#[test]
fn fault_026_reds_that_one_node_hands_on_reach_every_other() {
    run(8, async {
        let cluster = Cluster::start().await;
        cluster.checkpoint().await;
        let follower = 1 + cluster.leader().await % 3;
        let command = b"a LatchRed command".to_vec();
        cluster.forward_reds(follower, command.clone()).await;
        for id in (1..=3).filter(|id| *id != follower) {
            let node = cluster.node(id).await;
            let handed_on = timeout(SHORT, node.forwarded_reds()).await;
            assert_eq!(handed_on, Ok(command.clone()));
        }
    });
}
