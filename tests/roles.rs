//! Who may call what: every call of both services with the certificate of every role, and with certificates
//! that nobody should accept.

use redlatch_link::Role;
use redlatch_link::exit::chain;
use redlatch_link::transport::{self, Failed, Tls};
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_tests::caller::Caller;
use redlatch_tests::cluster::{Cluster, PATIENCE};
use redlatch_tests::eventually;
use redlatch_tests::identity::Authority;
use redlatch_types::event::Reply;
use redlatch_types::{Canonical, Digest, OrganismId, Refusal};
use tonic::{Code, Response, Status};

/// How a call with an empty message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    /// A service looked at the message.
    Open,
    /// Turned away for who the caller is.
    Closed,
}

/// # Panics
/// If the answer does not say which of the two it was.
fn door<T>(call: &str, answer: Result<Response<T>, Status>) -> Door {
    let Err(status) = answer else {
        return Door::Open;
    };
    match NoAnswer::of(&status) {
        Some(NoAnswer::Denied) => return Door::Closed,
        Some(_) => return Door::Open,
        None => {}
    }
    match status.code() {
        Code::PermissionDenied | Code::Unauthenticated | Code::Unimplemented => Door::Closed,
        Code::InvalidArgument | Code::FailedPrecondition => Door::Open,
        // Turned away in the handshake.
        _ if matches!(transport::failed(&status), Failed::NotTrusted(_)) => Door::Closed,
        _ => panic!("{call}: {}", chain(&status)),
    }
}

/// How many connections n1 has refused, by its own log.
fn refusals(cluster: &Cluster) -> usize {
    let log = std::fs::read_to_string(cluster.organism().join("logs/n1.log"));
    log.expect("n1 writes it")
        .matches("connection refused peer=")
        .count()
}

/// Waits until n1 has said that it refused more connections than `before`.
fn says_that_it_refused(cluster: &Cluster, before: usize) {
    eventually("n1 logs the refusal", PATIENCE, || {
        (refusals(cluster) > before).then_some(())
    });
}

const PUBLIC_CALLS: usize = 11;
const PEER_CALLS: usize = 8;

/// Every call of the public service on n1.
fn public(caller: &Caller) -> [Door; PUBLIC_CALLS] {
    let mut client = caller.authority("n1");
    let nothing = v1::JournalRequest {
        from: u64::MAX,
        follow: false,
    };
    caller.run(async move {
        [
            door("submit", client.submit(v1::SubmitRequest::default()).await),
            door(
                "outcome",
                client.outcome(v1::OutcomeRequest::default()).await,
            ),
            door("status", client.status(v1::StatusRequest::default()).await),
            door(
                "receipt",
                client.receipt(v1::ReceiptRequest::default()).await,
            ),
            door("leaf", client.leaf(v1::LeafRequest::default()).await),
            door("journal", client.journal(nothing).await),
            door(
                "resource",
                client.resource(v1::ResourceRequest::default()).await,
            ),
            door(
                "progress",
                client.progress(v1::ProgressRequest::default()).await,
            ),
            door(
                "governance",
                client.governance(v1::GovernanceRequest::default()).await,
            ),
            door(
                "rosters",
                client.rosters(v1::RostersRequest::default()).await,
            ),
            door(
                "cluster",
                client.cluster(v1::ClusterRequest::default()).await,
            ),
        ]
    })
}

/// Every call of the service for peers on n1, in the name of node `sender`.
fn peers(caller: &Caller, aside: bool, sender: u64) -> [Door; PEER_CALLS] {
    let mut client = caller.peer("n1", aside);
    let header = v1::SnapshotHeader {
        sender,
        ..Default::default()
    };
    let part = v1::SnapshotPart {
        header: Some(header),
        ..Default::default()
    };
    let append = v1::AppendRequest {
        sender,
        ..Default::default()
    };
    let vote = v1::VoteRequest {
        sender,
        ..Default::default()
    };
    let hello = v1::HelloRequest {
        sender,
        ..Default::default()
    };
    let reading = v1::ReadingRequest {
        sender,
        ..Default::default()
    };
    let heads = v1::HeadsRequest {
        sender,
        ..Default::default()
    };
    let leaves = v1::LeavesRequest {
        sender,
        ..Default::default()
    };
    caller.run(async move {
        [
            door("append", client.append(append).await),
            door("vote", client.vote(vote).await),
            door(
                "snapshot",
                client.snapshot(futures::stream::iter([part])).await,
            ),
            door("hello", client.hello(hello).await),
            door("reading", client.reading(reading).await),
            door("heads", client.heads(heads).await),
            door("leaves", client.leaves(leaves).await),
            door(
                "read_point",
                client.read_point(v1::ReadPointRequest { sender }).await,
            ),
        ]
    })
}

/// A caller of each role: the certificate that `init` issued, and for the runner one of the same authority.
fn every_role(cluster: &Cluster) -> Vec<(Role, Caller)> {
    let authority = Authority::of(&cluster.organism());
    let organism = cluster.genesis().organism_id();
    let runner = authority.issue(
        organism,
        Role::Runner,
        "ci",
        &cluster.folder().process("runner"),
        &authority,
    );
    Role::ALL
        .into_iter()
        .map(|role| {
            let place = match role {
                Role::Node => "nodes/n2",
                Role::Verifier => "verifiers/v1",
                Role::Sentinel => "sentinel",
                Role::Actuator => "actuator",
                Role::Client => "clients/agent",
                Role::Gate => "clients/gate",
                Role::Operator => "clients/operator",
                Role::Runner => return (role, Caller::with(cluster, &runner)),
            };
            (role, Caller::of(cluster, place))
        })
        .collect()
}

/// What each role may submit, one row per kind of command in the order of its number on the wire, one column
/// per role in the order of `Role::ALL`: node, verifier, sentinel, actuator, client, gate, operator, runner.
const SUBMITS: [(&str, &str); 25] = [
    ("bootstrap", "........"),
    ("tick", "........"),
    ("activate quorum key", ".x......"),
    ("freeze intent", "....x.x."),
    ("authorize", "........"),
    ("prepare", "........"),
    ("commit", "........"),
    ("abort", "........"),
    ("withdraw", "....x.x."),
    ("claim effect", ".....x.."),
    ("report outcome", ".....x.."),
    ("latch red", "..x....."),
    ("store safety intent", "...x...."),
    ("prepare safety", "...x...."),
    ("claim safety", "...x...."),
    ("finish safety", "...x...."),
    ("acknowledge outbox", "..x....."),
    ("checkpoint", "........"),
    ("open challenge", "....x.x."),
    ("authorize human", "........"),
    ("authorize policy", "........"),
    ("activate", "........"),
    ("root act", "......x."),
    ("raise feature level", "......x."),
    ("rejoin", "........"),
];

/// Calls that only some roles may make, one column per role.
const SOME: [(&str, &str); 2] = [("support", "....x.x."), ("feature", "......x.")];

fn some(caller: &Caller) -> [Door; SOME.len()] {
    let mut client = caller.authority("n1");
    caller.run(async move {
        [
            door(
                "support",
                client.support(v1::SupportRequest::default()).await,
            ),
            door(
                "feature",
                client.feature(v1::FeatureRequest::default()).await,
            ),
        ]
    })
}

#[test]
fn m1_i7_every_call_refuses_every_wrong_role() {
    let cluster = Cluster::start("roles");
    for (column, (role, caller)) in every_role(&cluster).into_iter().enumerate() {
        let node = role == Role::Node;
        let open_if = |may: bool| if may { Door::Open } else { Door::Closed };
        let before = refusals(&cluster);
        assert_eq!(
            public(&caller),
            [open_if(!node); PUBLIC_CALLS],
            "{role} on the client listener"
        );
        assert_eq!(
            peers(&caller, false, 2),
            [open_if(node); PEER_CALLS],
            "{role} on the peer listener"
        );
        // One of the two listeners has turned it away.
        says_that_it_refused(&cluster, before);
        // The peers' service is not served to clients at all.
        let aside = peers(&caller, true, 2);
        assert_eq!(
            aside,
            [Door::Closed; PEER_CALLS],
            "{role} asks for it among clients"
        );
        if node {
            let forged = peers(&caller, false, 3);
            assert_eq!(forged, [Door::Closed; PEER_CALLS], "n2 in the name of n3");
            continue;
        }
        for (door, (call, row)) in some(&caller).into_iter().zip(SOME) {
            let may = row.as_bytes()[column] == b'x';
            assert_eq!(door, open_if(may), "{role} calls {call}");
        }
        for (number, (kind, row)) in (1_u8..).zip(SUBMITS) {
            let may = row.as_bytes()[column] == b'x';
            assert_eq!(submits(&caller, number), may, "{role} brings {kind}");
        }
    }
    assert_eq!(
        cluster.ask(&["status"])["state"],
        "green",
        "nothing happened"
    );
}

/// Whether a command of this kind passes the door; what it says is garbage and is refused behind it.
fn submits(caller: &Caller, kind: u8) -> bool {
    let mut client = caller.authority("n1");
    let request = v1::SubmitRequest {
        command: match kind {
            0..24 => vec![0x82, kind, 0x80],
            _ => vec![0x82, 0x18, kind, 0x80],
        },
        receipt_wait_ms: 0,
    };
    match caller.run(async move { client.submit(request).await }) {
        Ok(answer) => {
            let reply = Reply::from_canonical(&answer.into_inner().reply).expect("canonical");
            assert_eq!(reply, Reply::Refused(Refusal::NotCanonical));
            true
        }
        Err(status) => {
            assert_eq!(NoAnswer::of(&status), Some(NoAnswer::Denied), "{status}");
            false
        }
    }
}

#[track_caller]
fn refused_everywhere(cluster: &Cluster, what: &str, tls: &Tls) {
    let caller = Caller::with(cluster, tls);
    let before = refusals(cluster);
    assert_eq!(public(&caller), [Door::Closed; PUBLIC_CALLS], "{what}");
    says_that_it_refused(cluster, before);
    let before = refusals(cluster);
    let doors = peers(&caller, false, 2);
    assert_eq!(doors, [Door::Closed; PEER_CALLS], "{what}");
    says_that_it_refused(cluster, before);
}

#[test]
fn fault_057_a_certificate_is_believed_by_organism_authority_and_key_and_not_by_its_name() {
    let cluster = Cluster::start("strangers");
    let ours = Authority::of(&cluster.organism());
    let stranger = Authority::stranger();
    let organism = cluster.genesis().organism_id();
    let other = OrganismId(Digest::of(b"another organism"));
    let cases = [
        (
            "another organism's client",
            &ours,
            other,
            Role::Client,
            "agent",
        ),
        ("another organism's node", &ours, other, Role::Node, "n2"),
        (
            "a strange authority's client",
            &stranger,
            organism,
            Role::Client,
            "agent",
        ),
        (
            "a strange authority's node",
            &stranger,
            organism,
            Role::Node,
            "n2",
        ),
        (
            "the sentinel with another key",
            &ours,
            organism,
            Role::Sentinel,
            "sentinel",
        ),
        ("a node with another key", &ours, organism, Role::Node, "n2"),
        (
            "a node that is in no roster",
            &ours,
            organism,
            Role::Node,
            "n9",
        ),
        (
            "a verifier that is in no roster",
            &ours,
            organism,
            Role::Verifier,
            "v9",
        ),
    ];
    for (number, (what, authority, id, role, name)) in cases.into_iter().enumerate() {
        let folder = cluster.folder().process(&format!("case-{number}"));
        let tls = authority.issue(id, role, name, &folder, &ours);
        refused_everywhere(&cluster, what, &tls);
    }
    // The same authority and organism, a role that is known by name: let in, so the table above can fail.
    let folder = cluster.folder().process("guest");
    let guest = ours.issue(organism, Role::Operator, "guest", &folder, &ours);
    let guest = Caller::with(&cluster, &guest);
    assert_eq!(public(&guest), [Door::Open; PUBLIC_CALLS]);
}

#[test]
fn fault_060_bad_handshakes_and_silent_connections_stop_nobody() {
    use std::io::Write;
    let cluster = Cluster::start("handshakes");
    let mut held = Vec::new();
    for node in Cluster::names() {
        for listener in ["peers", "clients"] {
            let address = cluster.address(node, listener);
            for number in 0..80 {
                let mut stream = std::net::TcpStream::connect(address).expect("it listens");
                if number % 2 == 0 {
                    // May be turned away at once.
                    let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
                }
                held.push(stream);
            }
        }
    }
    cluster.freeze("refs/heads/through-the-crowd");
    assert_eq!(cluster.ask(&["status"])["state"], "green");
    drop(held);
}
