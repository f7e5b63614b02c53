//! Who may call what: wrong roles, wrong signers, altered orders.

use redlatch_link::Role;
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_types::records::*;
use redlatch_types::*;
use tonic::Status;

use crate::cluster::OPERATOR;
use crate::parties::Parties;
use crate::world::journal::{AGENT, SENTINEL};
use crate::world::key;

const OTHERS: [(Role, &str); 7] = [
    (Role::Node, "n2"),
    (Role::Verifier, "va"),
    (Role::Actuator, "actuator"),
    (Role::Client, "agent"),
    (Role::Gate, "gate"),
    (Role::Operator, "operator"),
    (Role::Runner, "runner"),
];

/// Denied by the method, or not even let in; no method has read the request.
fn is_kept_out(status: &Status) -> bool {
    matches!(NoAnswer::of(status), None | Some(NoAnswer::Denied))
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_057_every_wrong_role_is_refused_on_every_call_of_the_sentinel() {
    let mut parties = Parties::new().await;
    let (_sentinel, _) = parties.sentinel("repo:refs/").await;
    for (role, name) in OTHERS {
        let mut client = parties.ask_sentinel(role, name);
        if role != Role::Node {
            let status = client.evaluate(v1::EvaluateRequest::default()).await;
            let status = status.unwrap_err();
            assert!(is_kept_out(&status), "{role}: {status:?}");
        }
        if role != Role::Operator {
            let order = Envelope::seal(
                parties.scope(),
                &key(OPERATOR),
                &parties.order(1, RedScope::Everything),
            );
            let request = v1::RaiseRequest {
                order: order.to_canonical(),
            };
            let status = client.raise(request).await.unwrap_err();
            assert!(is_kept_out(&status), "{role}: {status:?}");
            let status = client.outbox(v1::OutboxRequest {}).await.unwrap_err();
            assert!(is_kept_out(&status), "{role}: {status:?}");
        }
    }
    assert_eq!(parties.outbox().await.unwrap().head, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_060_nobody_but_the_sentinel_is_heard_on_the_red_line_and_it_asks_nothing() {
    let mut parties = Parties::new().await;
    let (_actuator, _) = parties.actuator().await;
    for (role, name) in OTHERS {
        let mut client = parties.ask_red_line(role, name);
        let status = client.red(v1::RedRequest::default()).await.unwrap_err();
        assert!(is_kept_out(&status), "{role}: {status:?}");
        let status = client.beat(v1::BeatRequest::default()).await.unwrap_err();
        assert!(is_kept_out(&status), "{role}: {status:?}");
    }
    let others = OTHERS.into_iter().chain([(Role::Sentinel, "sentinel")]);
    for (role, name) in others.filter(|(role, _)| !matches!(role, Role::Gate | Role::Operator)) {
        let mut client = parties.ask_hold_line(role, name);
        let nonce = vec![0; 32];
        let status = client
            .permit(v1::PermitRequest { nonce })
            .await
            .unwrap_err();
        assert!(is_kept_out(&status), "{role}: {status:?}");
    }
    let mut gate = parties.ask_hold_line(Role::Gate, "gate");
    let short = v1::PermitRequest { nonce: vec![0; 31] };
    assert!(gate.permit(short).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_right_caller_with_the_wrong_signature_is_not_heard() {
    let mut parties = Parties::new().await;
    let (_actuator, _) = parties.actuator().await;
    let beat = SentinelBeatV1 {
        sequence: 1,
        writer_generation: 1,
        outbox_epoch: OutboxEpoch(0),
        outbox_root_digest: Digest::ZERO,
    };
    let mut elsewhere = parties.scope();
    elsewhere.organism_id = OrganismId(Digest::ZERO);
    let mut line = parties.ask_red_line(Role::Sentinel, "sentinel");
    for envelope in [
        Envelope::seal(parties.scope(), &key(AGENT), &beat),
        Envelope::seal(elsewhere, &key(SENTINEL), &beat),
    ] {
        let bytes = envelope.to_canonical();
        let request = v1::BeatRequest {
            beat: bytes.clone(),
        };
        assert!(line.beat(request).await.is_err());
        let request = v1::RedRequest {
            segment: vec![bytes],
        };
        assert!(line.red(request).await.is_err());
    }
    assert_eq!(
        parties.permit().await.unwrap().sentinel,
        SentinelLine::Silent
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_authentic_order_is_obeyed_and_only_once() {
    let mut parties = Parties::new().await;
    let (_sentinel, _) = parties.sentinel("repo:refs/").await;
    let scope = RedScope::Subject("agent".parse().unwrap());
    let order = parties.order(1, scope.clone());
    let good = Envelope::seal(parties.scope(), &key(OPERATOR), &order);
    let mut altered = good.clone();
    altered.body = Bytes(parties.order(1, RedScope::Everything).to_canonical());
    let mut elsewhere = parties.scope();
    elsewhere.organism_id = OrganismId(Digest::ZERO);
    let mut unreasoned = order.clone();
    unreasoned.reason = Text::lossy(" ");
    for bad in [
        Envelope::seal(parties.scope(), &key(AGENT), &order),
        Envelope::seal(elsewhere, &key(OPERATOR), &order),
        Envelope::seal(parties.scope(), &key(OPERATOR), &unreasoned),
        altered,
    ] {
        let status = parties.raise_bytes(bad.to_canonical()).await.unwrap_err();
        assert!(NoAnswer::of(&status).is_some(), "{status:?}");
    }
    assert!(parties.raise_bytes(vec![0xff]).await.is_err());
    assert_eq!(parties.outbox().await.unwrap().head, 0);
    for _ in 0..2 {
        let raised = parties.raise_bytes(good.to_canonical()).await.unwrap();
        assert_eq!(raised.outbox_epoch, 1);
        let entry = Envelope::from_canonical(&raised.entry).unwrap();
        let entry = entry
            .open::<SentinelRedOutboxV1>()
            .unwrap()
            .record()
            .clone();
        let verdict = RedVerdictV1::from_canonical(&entry.red_verdict.0).unwrap();
        let stopped = RedScope::from_open(verdict.scope_kind, &verdict.scope_value);
        assert_eq!(stopped, Some(scope.clone()));
    }
    assert_eq!(parties.outbox().await.unwrap().head, 1);
}
