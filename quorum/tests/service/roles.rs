//! Each call refuses each wrong role: one row per call, one column per role.

use redlatch_link::Role;
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use tonic::Status;

use crate::quorum::{Client, Quorum};

const CALLS: [(&str, Role); 7] = [
    ("key", Role::Node),
    ("ballot", Role::Node),
    ("open", Role::Node),
    ("sign", Role::Node),
    ("findings", Role::Node),
    ("boot", Role::Verifier),
    ("ceremony", Role::Verifier),
];

async fn call(client: &mut Client, name: &str) -> Result<(), Status> {
    match name {
        "key" => client.key(v1::KeyRequest {}).await.map(drop),
        "ballot" => client.ballot(v1::BallotRequest::default()).await.map(drop),
        "open" => client.open(v1::OpenRequest::default()).await.map(drop),
        "sign" => client.sign(v1::SignRequest::default()).await.map(drop),
        "findings" => client
            .findings(v1::FindingsRequest::default())
            .await
            .map(drop),
        "boot" => client.boot(v1::BootRequest::default()).await.map(drop),
        "ceremony" => client
            .ceremony(v1::CeremonyRequest::default())
            .await
            .map(drop),
        other => panic!("no call {other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cell_of_the_table_of_roles_and_calls() {
    let mut quorum = Quorum::new().await;
    quorum.start("v1").await.unwrap();
    let mut cells = 0;
    for role in Role::ALL {
        let caller = match role {
            Role::Node => "n1",
            Role::Verifier => "v2",
            Role::Sentinel => "sentinel",
            Role::Actuator => "actuator",
            _ => "somebody",
        };
        let mut client = quorum.client(role, caller, "v1");
        for (name, allowed) in CALLS {
            let answer = call(&mut client, name).await;
            let denied = answer
                .as_ref()
                .err()
                .is_some_and(|it| NoAnswer::of(it) == Some(NoAnswer::Denied));
            match role {
                _ if role == allowed => assert!(!denied, "{role} {name}"),
                Role::Node | Role::Verifier => assert!(denied, "{role} {name}: {answer:?}"),
                // Not let in at all: no service wrote this status.
                _ => {
                    let status = answer.expect_err("not let in");
                    assert_eq!(NoAnswer::of(&status), None, "{role} {name}: {status}");
                }
            }
            cells += 1;
        }
    }
    assert_eq!(cells, 7 * 8);
}
