//! The way out of a stop: a person's reset, judged by the sentinel, followed by both by its receipt.

use redlatch_sentinel::rules::RulesConfig;
use redlatch_types::records::*;
use redlatch_types::{GroundNumber, IntentDigest};

use crate::parties::Parties;
use crate::until;

fn subject(name: &str) -> RedScope {
    RedScope::Subject(name.parse().unwrap())
}

fn reset(grounds: &[u64]) -> ActionPayload {
    ActionPayload::ResetFrozen(ResetPayload {
        grounds: grounds.iter().map(|n| GroundNumber(*n)).collect(),
        cause: Text::lossy("the deployment that went wrong is rolled back"),
    })
}

/// Whoever proposes it is stopped, and it is no reset.
fn revoke(parties: &Parties) -> IntentDigest {
    parties.cluster.world(|world| {
        let change = GrantPayload::Revoke(world.grant("other"));
        world.freeze_change(ActionPayload::GrantChange(Box::new(change)))
    })
}

fn allowing(resources: &[&str]) -> RulesConfig {
    RulesConfig {
        allowed: resources.iter().map(|it| (*it).to_owned()).collect(),
        ..RulesConfig::default()
    }
}

async fn holds(parties: &Parties, scopes: &[RedScope]) -> bool {
    let beat = parties.permit().await;
    beat.is_ok_and(|beat| beat.held == scopes)
}

async fn closed(parties: &Parties, head: u64) -> bool {
    let outbox = parties.outbox().await;
    outbox.is_ok_and(|outbox| outbox.entries.is_empty() && outbox.head == head)
}

async fn says(parties: &Parties, intent: IntentDigest, verdict: Verdict) -> bool {
    let said = parties.evaluate(intent).await;
    said.is_ok_and(|it| it.verdict == verdict)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_is_green_and_its_receipt_alone_reopens_what_it_names() {
    let mut parties = Parties::new().await;
    let (actuator, _) = parties.actuator().await;
    let rules = allowing(&["organism:grants", "organism:grounds"]);
    let (sentinel, ready) = parties.sentinel_of(rules.clone()).await;
    until("ready", || async { ready.is_ready() }).await;
    let (governor, other) = (subject("governor"), subject("other"));
    parties.raise(1, governor.clone()).await.unwrap();
    until("the first is closed", || closed(&parties, 1)).await;
    parties.raise(2, other.clone()).await.unwrap();
    until("the second is closed", || closed(&parties, 2)).await;
    let both = [governor.clone(), other.clone()];
    until("both are held", || holds(&parties, &both)).await;
    let change = revoke(&parties);
    until("withheld", || says(&parties, change, Verdict::Withheld)).await;
    // A person asks; the sentinel judges the reset, not the scope that it reopens.
    let intent = parties
        .cluster
        .world(|world| world.freeze_change(reset(&[1])));
    until("green", || says(&parties, intent, Verdict::Green)).await;
    // Its GREEN opens nothing, and neither does the commit.
    assert!(holds(&parties, &both).await);
    let id = parties
        .cluster
        .world(|world| world.commit_change(reset(&[1])));
    assert!(holds(&parties, &both).await);
    parties.cluster.world(|world| {
        world.ok(redlatch_types::command::RawCommand::Activate(id));
    });
    let left = [other.clone()];
    until("one is left", || holds(&parties, &left)).await;
    let change = revoke(&parties);
    until("green again", || says(&parties, change, Verdict::Green)).await;
    // Both remember it through power loss, with the whole cluster down.
    parties.cluster.set_down(true);
    actuator.stop().await;
    sentinel.stop().await;
    parties.actuator_disk.crash();
    parties.sentinel_disk.crash();
    let (_actuator, _) = parties.actuator().await;
    until("still one", || holds(&parties, &left)).await;
    parties.cluster.set_down(false);
    let (_sentinel, ready) = parties.sentinel_of(rules).await;
    until("ready again", || async { ready.is_ready() }).await;
    parties.cluster.world(|world| {
        world.make_change(reset(&[2]));
    });
    until("nothing is held", || holds(&parties, &[])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_actuator_that_reads_everything_afresh_holds_what_is_not_reset() {
    let mut parties = Parties::new().await;
    let (actuator, _) = parties.actuator().await;
    let (_sentinel, _) = parties.sentinel("repo:refs/heads/").await;
    parties.raise(1, subject("agent")).await.unwrap();
    until("closed", || closed(&parties, 1)).await;
    parties.raise(2, subject("other")).await.unwrap();
    until("closed", || closed(&parties, 2)).await;
    actuator.stop().await;
    // The highest latch is the one that is reset: how many there are is known all the same.
    parties.cluster.world(|world| {
        world.make_change(reset(&[2]));
    });
    parties.actuator_disk = redlatch_link::store::SimDisk::new();
    let (actuator, narrowed) = parties.actuator().await;
    until("narrowed", || async { narrowed.is_ready() }).await;
    assert!(holds(&parties, &[subject("agent")]).await);
    actuator.stop().await;
    let (_actuator, narrowed) = parties.actuator().await;
    until("narrowed", || async { narrowed.is_ready() }).await;
    parties.raise(3, subject("third")).await.unwrap();
    until("closed", || closed(&parties, 3)).await;
    let held = [subject("agent"), subject("third")];
    until("narrowed to the live grounds", || holds(&parties, &held)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_023_another_leaf_in_the_place_of_a_latch_hides_it_from_nobody() {
    let mut parties = Parties::new().await;
    // Both processes ask this one first.
    parties.cluster.set_masking(1, "red_latched");
    let (_sentinel, compared) = parties.sentinel("repo:refs/heads/").await;
    parties.raise(1, subject("agent")).await.unwrap();
    until("latched", || async {
        parties.cluster.count("red_latched") == 1
    })
    .await;
    // The second one has not even heard of the first: it was not there.
    let (_actuator, narrowed) = parties.actuator().await;
    parties.raise(2, subject("other")).await.unwrap();
    until("closed", || closed(&parties, 2)).await;
    until("ready", || async {
        narrowed.is_ready() && compared.is_ready()
    })
    .await;
    let held = [subject("agent"), subject("other")];
    until("both are held", || holds(&parties, &held)).await;
    assert_eq!(parties.cluster.count("safety_terminal"), 2);
}
