//! GREEN, WITHHELD, silence: over a proven freeze, persisted before they are said.

use redlatch_link::Role;
use redlatch_proto::v1;
use redlatch_types::command::RawCommand;
use redlatch_types::records::*;
use tonic::Code;

use crate::parties::Parties;
use crate::until;
use crate::world::journal::{MAIN, approvals};

const ANY: &str = "repo:refs/heads/";

#[tokio::test(flavor = "multi_thread")]
async fn a_green_over_a_proven_freeze_is_one_that_the_journal_takes() {
    let mut parties = Parties::new().await;
    let (_actuator, _) = parties.actuator().await;
    let (_sentinel, readiness) = parties.sentinel(ANY).await;
    until("compared", || async { readiness.is_ready() }).await;
    let intent = parties.cluster.world(|world| world.freeze(MAIN, 0, 7));
    let verdict = parties.evaluate(intent).await.unwrap();
    assert_eq!(verdict.verdict, Verdict::Green);
    parties.cluster.world(|world| {
        let votes: Vec<VoteV1> = approvals()
            .iter()
            .map(|(verifier, verdict)| world.vote(intent, *verifier, *verdict))
            .collect();
        let authorization = world.authorization_of(intent, verdict, votes);
        world.ok(RawCommand::Authorize(Box::new(authorization)));
    });
    // Once a decision rests on it, there is no further one.
    until("used", || async {
        let again = parties.evaluate(intent).await;
        again.is_err_and(|status| status.message().contains("already used"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn withheld_is_for_good_even_under_other_rules_after_power_loss() {
    let mut parties = Parties::new().await;
    let (_actuator, _) = parties.actuator().await;
    let (sentinel, readiness) = parties.sentinel("other:refs/").await;
    until("compared", || async { readiness.is_ready() }).await;
    let intent = parties.cluster.world(|world| world.freeze(MAIN, 0, 7));
    let verdict = parties.evaluate(intent).await.unwrap();
    assert_eq!(verdict.verdict, Verdict::Withheld);
    let reason = verdict.reason_optional.expect("a WITHHELD says why");
    assert_eq!(sentinel.stop().await, "stopped");
    parties.sentinel_disk.crash();
    let (_sentinel, readiness) = parties.sentinel(ANY).await;
    until("compared", || async { readiness.is_ready() }).await;
    let again = parties.evaluate(intent).await.unwrap();
    assert_eq!(again.verdict, Verdict::Withheld);
    assert_eq!(again.reason_optional, Some(reason));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_093_what_cannot_be_made_durable_is_not_said() {
    let mut parties = Parties::new().await;
    let (_actuator, _) = parties.actuator().await;
    let (sentinel, readiness) = parties.sentinel(ANY).await;
    until("compared", || async { readiness.is_ready() }).await;
    let intent = parties.cluster.world(|world| world.freeze(MAIN, 0, 7));
    parties
        .sentinel_disk
        .fail_next_sync(redlatch_link::store::SyncFailure::Lost);
    let said = parties.evaluate(intent).await;
    assert!(said.is_err(), "{said:?}");
    assert!(sentinel.ended().await.contains("the store failed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_034_without_the_actuators_and_the_journals_word_there_is_no_green() {
    let mut parties = Parties::new().await;
    let (_sentinel, _) = parties.sentinel(ANY).await;
    let intent = parties.cluster.world(|world| world.freeze(MAIN, 0, 7));
    let status = parties.evaluate(intent).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(
        status.message().starts_with("sentinel_required"),
        "{status:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_proven_freeze_is_not_judged() {
    let mut parties = Parties::new().await;
    let (_sentinel, _) = parties.sentinel(ANY).await;
    let intent = parties.cluster.world(|world| world.freeze(MAIN, 0, 7));
    let receipt = parties.cluster.freeze_receipt(intent);
    let unsigned: Vec<&str> = receipt.lines().filter(|it| !it.contains("/n")).collect();
    let genesis = parties.cluster.receipt(0).unwrap().to_string();
    let mut sentinel = parties.ask_sentinel(Role::Node, "n1");
    for text in ["", "x", &unsigned.join("\n"), &genesis] {
        let freeze_receipt = text.to_owned();
        let request = v1::EvaluateRequest { freeze_receipt };
        assert!(sentinel.evaluate(request).await.is_err(), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_sentinel_is_unavailable() {
    let mut parties = Parties::new().await;
    let (sentinel, _) = parties.sentinel(ANY).await;
    assert_eq!(sentinel.stop().await, "stopped");
    let intent = parties.cluster.world(|world| world.freeze(MAIN, 0, 7));
    let status = parties.evaluate(intent).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}
