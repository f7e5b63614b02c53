//! RED from the officer's word to the closed outbox, whatever is down meanwhile.

use redlatch_link::store::SyncFailure;
use redlatch_proto::answer::NoAnswer;
use redlatch_types::records::*;
use redlatch_types::{Canonical, Envelope};

use crate::parties::{Parties, free};
use crate::until;
use crate::world::journal::MAIN;
use crate::world::key;

fn agent() -> RedScope {
    RedScope::Subject("agent".parse().unwrap())
}

async fn closed(parties: &Parties) -> bool {
    let outbox = parties.outbox().await;
    outbox.is_ok_and(|outbox| outbox.entries.is_empty() && outbox.head > 0)
}

async fn holds(parties: &Parties, scope: RedScope) -> bool {
    parties
        .permit()
        .await
        .is_ok_and(|beat| beat.held.contains(&scope))
}

async fn holds_only(parties: &Parties, scopes: Vec<RedScope>) -> bool {
    parties.permit().await.is_ok_and(|beat| beat.held == scopes)
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_i32_a_red_is_latched_carried_out_and_acknowledged() {
    let mut parties = Parties::new().await;
    let (_actuator, narrowed) = parties.actuator().await;
    let (_sentinel, compared) = parties.sentinel("repo:refs/heads/").await;
    until("ready", || async {
        narrowed.is_ready() && compared.is_ready()
    })
    .await;
    let intent = parties.cluster.world(|world| world.freeze(MAIN, 0, 7));
    let frozen = parties.cluster.world(|world| world.intent(intent));
    until("permitted", || async {
        parties
            .permit()
            .await
            .is_ok_and(|beat| beat.permits(&frozen))
    })
    .await;
    assert_eq!(
        parties
            .raise(1, RedScope::Intent(intent))
            .await
            .unwrap()
            .outbox_epoch,
        1
    );
    until("closed", || closed(&parties)).await;
    for word in [
        "red_latched",
        "safety_committed",
        "safety_terminal",
        "outbox_acknowledged",
    ] {
        assert_eq!(parties.cluster.count(word), 1, "{word}");
    }
    for node in 1..=3 {
        assert!(parties.cluster.brought("latch_red", node) > 0, "n{node}");
    }
    // The intent and, by the mandate, its proposer; never everything once the bytes are known.
    let held = vec![RedScope::Intent(intent), agent()];
    until("held by its ground alone", || {
        holds_only(&parties, held.clone())
    })
    .await;
    assert!(!parties.permit().await.unwrap().permits(&frozen));
    let verdict = parties.evaluate(intent).await;
    let withheld = verdict.is_ok_and(|it| it.verdict == Verdict::Withheld);
    assert!(withheld, "no GREEN under a standing RED");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_022_hold_rises_at_once_while_the_whole_cluster_is_down() {
    let mut parties = Parties::new().await;
    let (actuator, narrowed) = parties.actuator().await;
    let (_sentinel, _) = parties.sentinel("repo:refs/heads/").await;
    until("narrowed", || async { narrowed.is_ready() }).await;
    assert!(holds_only(&parties, vec![]).await);
    parties.cluster.set_down(true);
    parties.raise(1, agent()).await.unwrap();
    until("held", || holds(&parties, agent())).await;
    assert_eq!(parties.cluster.count("red_latched"), 0);
    // FAULTS 24: what was held is held after power loss, and the cluster is still down.
    actuator.stop().await;
    parties.actuator_disk.crash();
    let (_actuator, _) = parties.actuator().await;
    until("held again", || holds_only(&parties, vec![agent()])).await;
    parties.cluster.set_down(false);
    until("closed", || closed(&parties)).await;
    assert_eq!(parties.cluster.count("safety_terminal"), 1);
    assert!(holds(&parties, agent()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_026_a_red_is_durable_before_it_is_sent_and_delivered_after_a_crash() {
    let mut parties = Parties::new().await;
    parties.cluster.set_down(true);
    // Nobody can hear it: no actuator, no node.
    let (sentinel, _) = parties.sentinel("repo:refs/heads/").await;
    let syncs = parties.sentinel_disk.syncs();
    assert_eq!(parties.raise(1, agent()).await.unwrap().outbox_epoch, 1);
    assert!(parties.sentinel_disk.syncs() > syncs);
    parties.sentinel_disk.crash();
    drop(sentinel);
    let (_actuator, _) = parties.actuator().await;
    parties.service = free();
    let (_sentinel, _) = parties.sentinel("repo:refs/heads/").await;
    until("held", || holds(&parties, RedScope::Everything)).await;
    parties.cluster.set_down(false);
    until("closed", || closed(&parties)).await;
    assert_eq!(parties.cluster.count("red_latched"), 1);
    until("narrowed", || holds_only(&parties, vec![agent()])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_093_a_red_that_cannot_be_made_durable_is_sent_to_nobody() {
    let mut parties = Parties::new().await;
    let (_actuator, narrowed) = parties.actuator().await;
    let (sentinel, compared) = parties.sentinel("repo:refs/heads/").await;
    until("ready", || async {
        narrowed.is_ready() && compared.is_ready()
    })
    .await;
    parties.sentinel_disk.fail_next_sync(SyncFailure::Lost);
    assert!(parties.raise(1, agent()).await.is_err());
    assert!(sentinel.ended().await.contains("the store failed"));
    assert_eq!(parties.permit().await.unwrap().seen_outbox_epoch.0, 0);
    assert_eq!(parties.cluster.count("red_latched"), 0);
    // FAULTS 62: and its silence denies.
    until("silent", || async {
        parties
            .permit()
            .await
            .is_ok_and(|beat| beat.sentinel == SentinelLine::Silent)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_024_a_fresh_actuator_holds_everything_until_a_majority_shows_every_ground() {
    let mut parties = Parties::new().await;
    parties.cluster.set_down(true);
    let (_actuator, narrowed) = parties.actuator().await;
    assert!(holds_only(&parties, vec![RedScope::Everything]).await);
    parties.cluster.set_down(false);
    // The sentinel does not beat yet: which REDs there are, nobody knows.
    until("silent", || async {
        parties
            .permit()
            .await
            .is_ok_and(|beat| beat.sentinel == SentinelLine::Silent)
    })
    .await;
    assert!(holds_only(&parties, vec![RedScope::Everything]).await);
    let (_sentinel, _) = parties.sentinel("repo:refs/heads/").await;
    until("narrowed", || holds_only(&parties, vec![])).await;
    until("ready", || async { narrowed.is_ready() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_025_a_stop_that_lost_its_actuator_on_the_way_goes_on_after_a_restart() {
    let mut parties = Parties::new().await;
    let (_sentinel, _) = parties.sentinel("repo:refs/heads/").await;
    parties.raise(1, agent()).await.unwrap();
    until("latched", || async {
        parties.cluster.count("red_latched") == 1
    })
    .await;
    // The latch came first; the actuator has never heard of the RED.
    let (actuator, _) = parties.actuator().await;
    until("stored", || async {
        parties.cluster.count("safety_intent_stored") > 0
    })
    .await;
    parties.actuator_disk.crash();
    actuator.stop().await;
    let (_actuator, _) = parties.actuator().await;
    until("terminal", || async {
        parties.cluster.count("safety_terminal") == 1
    })
    .await;
    assert_eq!(parties.cluster.count("safety_committed"), 1);
    until("closed", || closed(&parties)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_023_a_node_that_shows_wrong_receipts_moves_nobody_and_stops_nobody() {
    let mut parties = Parties::new().await;
    // Both processes ask this one first.
    parties.cluster.set_liar(1);
    let (_actuator, _) = parties.actuator().await;
    let (_sentinel, _) = parties.sentinel("repo:refs/heads/").await;
    parties.raise(1, agent()).await.unwrap();
    until("closed", || closed(&parties)).await;
    assert_eq!(parties.cluster.count("safety_terminal"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_024_latches_that_nodes_hide_keep_hold_as_wide_as_it_is() {
    let mut parties = Parties::new().await;
    let (sentinel, compared) = parties.sentinel("repo:refs/heads/").await;
    let end = parties.cluster.size();
    parties.raise(1, agent()).await.unwrap();
    until("latched", || async {
        parties.cluster.count("red_latched") == 1
    })
    .await;
    assert!(!compared.is_ready());
    sentinel.stop().await;
    // A sentinel that has lost its outbox would beat as if there had never been a RED.
    parties.sentinel_disk = redlatch_link::store::SimDisk::new();
    parties.cluster.set_hidden_from(Some(end));
    let (_actuator, narrowed) = parties.actuator().await;
    let (_sentinel, compared) = parties.sentinel("repo:refs/heads/").await;
    until("beating", || async {
        parties
            .permit()
            .await
            .is_ok_and(|beat| beat.sentinel == SentinelLine::Beating)
    })
    .await;
    // The majority's statuses say that there is a latch which nobody shows: the actuator asks again and again.
    let asked = |node| parties.cluster.brought("status", node);
    let before: usize = (1..=3).map(asked).sum();
    until("asked on", || async {
        (1..=3).map(asked).sum::<usize>() > before + 6
    })
    .await;
    assert!(holds_only(&parties, vec![RedScope::Everything]).await);
    assert!(!narrowed.is_ready() && !compared.is_ready());
    // Once it is shown, the lost outbox shows as well: everything is stopped.
    parties.cluster.set_hidden_from(None);
    until("stated", || async {
        let outbox = parties.outbox().await;
        outbox.is_ok_and(|outbox| outbox.health.contains("another chain"))
    })
    .await;
    until("everything", || async {
        parties.cluster.count("red_latched") >= 2
    })
    .await;
    assert!(holds(&parties, RedScope::Everything).await);
}

/// Enrols, rotates or revokes a subject in the journal that the nodes show.
fn change(parties: &Parties, change: SubjectPayload) {
    parties.cluster.world(|world| {
        world.make_change(ActionPayload::SubjectChange(Box::new(change)));
    });
}

fn officer(n: u8) -> ClientIdentityV1 {
    ClientIdentityV1 {
        actor_kind: ActorKind::Operator,
        ..crate::world::journal::new_subject("deputy", n)
    }
}

/// Whether the sentinel takes this key for an officer's. The order gives no reason: an officer is told so, and
/// anybody else is turned away before; nothing is stopped by either.
async fn is_officer(parties: &Parties, n: u8) -> bool {
    let order = RaiseOrderV1 {
        reason: Text::lossy(" "),
        ..parties.order(n, agent())
    };
    let sealed = Envelope::seal(parties.scope(), &key(n), &order);
    let refused = parties.raise_bytes(sealed.to_canonical()).await;
    match NoAnswer::of(&refused.expect_err("no reason is given")) {
        Some(NoAnswer::Invalid) => true,
        Some(NoAnswer::Denied) => false,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_order_a_stop_follows_the_journal_and_is_asked_of_nobody() {
    let mut parties = Parties::new().await;
    let (sentinel, _) = parties.sentinel("repo:refs/heads/").await;
    assert!(!is_officer(&parties, 60).await, "enrolled by nobody yet");
    change(&parties, SubjectPayload::Enrol(officer(60)));
    until("enrolled", || is_officer(&parties, 60)).await;
    change(&parties, SubjectPayload::Rotate(officer(61)));
    until("another key", || is_officer(&parties, 61)).await;
    assert!(!is_officer(&parties, 60).await, "the key of before");
    // What is known is kept, and no node is needed for it.
    parties.cluster.set_down(true);
    sentinel.stop().await;
    let (sentinel, _) = parties.sentinel("repo:refs/heads/").await;
    assert!(is_officer(&parties, 61).await && !is_officer(&parties, 60).await);
    parties.cluster.set_down(false);
    let revoked = SubjectPayload::Revoke("deputy".parse().unwrap());
    change(&parties, revoked);
    until("revoked", || async { !is_officer(&parties, 61).await }).await;
    parties.cluster.set_down(true);
    sentinel.stop().await;
    let (_sentinel, _) = parties.sentinel("repo:refs/heads/").await;
    assert!(!is_officer(&parties, 61).await, "revoked for ever");
    let obeyed = parties.raise(1, agent()).await;
    assert!(obeyed.is_ok(), "a founding officer: {obeyed:?}");
}
