//! A RED of the organism's sentinel, brought to the nodes as the sentinel does: latched, lasting, proven.

use std::time::Duration;

use redlatch_link::world;
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_tests::caller::{Caller, Outbox, Signer, random};
use redlatch_tests::cluster::{Cluster, PATIENCE};
use redlatch_tests::eventually;
use redlatch_tests::journal::{agreed, submit};
use redlatch_tests::process::{Answer, command};
use redlatch_types::event::{Accepted, Event, Reply};
use redlatch_types::records::{EffectState, RedScope, ScopeState};
use redlatch_types::{Canonical, EventId, IntentDigest, Refusal};
use tonic::Status;

/// Brings a command to each of these nodes at once; what each of them answered.
fn bring(caller: &Caller, nodes: &[&str], command: &[u8]) -> Vec<Result<Reply, Status>> {
    let calls = nodes.iter().map(|node| {
        let mut client = caller.authority(node);
        let request = v1::SubmitRequest {
            command: command.to_vec(),
            receipt_wait_ms: 0,
        };
        async move {
            let answer = client.submit(request).await?.into_inner();
            Ok(Reply::from_canonical(&answer.reply).expect("canonical"))
        }
    });
    caller.run(futures::future::join_all(calls))
}

/// Brings a RED to these nodes until it is latched.
fn latch(caller: &Caller, nodes: &[&str], command: &[u8]) {
    eventually("latched", PATIENCE, || {
        for answer in bring(caller, nodes, command) {
            match answer {
                Ok(Reply::Accepted(Accepted::Latched(numbers))) => {
                    assert_eq!(numbers.len(), 1);
                    return Some(());
                }
                Ok(other) => panic!("{other:?}"),
                Err(status) => assert!(NoAnswer::of(&status).is_some(), "{status}"),
            }
        }
        None
    });
}

fn scope_at(caller: &Caller, node: &str) -> Option<ScopeState> {
    let status = caller.status(node, Duration::from_secs(5))?;
    Some(status.record().scope)
}

fn says_latched(caller: &Caller, node: &str) {
    eventually(&format!("{node} says latched"), PATIENCE, || {
        let scope = scope_at(caller, node)?;
        assert_ne!(scope, ScopeState::Free, "{node} after an acknowledged RED");
        (scope == ScopeState::Latched).then_some(())
    });
}

#[test]
fn fault_022_a_red_is_latched_on_every_node_stops_what_is_positive_and_is_there_after_sigkill() {
    let mut cluster = Cluster::start("red");
    let sentinel = Caller::of(&cluster, "sentinel");
    cluster.freeze("refs/heads/before");
    assert_eq!(scope_at(&sentinel, "n1"), Some(ScopeState::Free));
    let command = Outbox::of(&cluster).red(&RedScope::Everything);
    latch(&sentinel, &Cluster::names(), &command);
    stopped_everywhere(&cluster, &sentinel, "refs/heads/after");
    let folder = cluster.folder().process("receipt");
    let receipt = latch_receipt(&cluster, &folder.join("latch.tlog-proof"));
    assert_eq!(receipt["event"], "red_latched");
    // The nodes' group is enough to prove a stop.
    assert_eq!(receipt["group"], "nodes");

    cluster.kill_all();
    cluster.start_all();
    stopped_everywhere(&cluster, &sentinel, "refs/heads/after-restart");
    // The sentinel does not know whether it was heard and brings it again: one latch, no more.
    latch(&sentinel, &Cluster::names(), &command);
    let events = agreed(&cluster, &sentinel).events;
    let latched = events
        .iter()
        .filter(|it| matches!(it, Event::RedLatched(..)));
    assert_eq!(latched.count(), 1);
}

#[track_caller]
fn stopped_everywhere(cluster: &Cluster, sentinel: &Caller, reference: &str) {
    for node in Cluster::names() {
        says_latched(sentinel, node);
    }
    let answer = cluster.tool(&["status"]);
    assert_eq!(answer.code, Some(2), "{answer:#?}");
    let report = answer.json();
    assert_eq!(report["state"], "stopped");
    let stops = report["stops"].to_string();
    assert!(
        stops.contains("latch 1") && stops.contains("everything"),
        "{stops}"
    );
    // Bytes are no permission, so they may still be frozen; but nobody says free to them.
    let (intent, _) = cluster.freeze(reference);
    let intent: IntentDigest = intent.parse().expect("a digest");
    for node in Cluster::names() {
        let nodes = sentinel.only(node);
        let asked = nodes.status(node, random(), Some(intent), PATIENCE);
        let status = sentinel.run(asked).expect("a status");
        assert_eq!(status.record().scope, ScopeState::Latched, "{node}");
        assert_eq!(
            status.record().effect,
            EffectState::NotOutstanding,
            "{node}"
        );
    }
}

/// The receipt of latch 1, verified offline with the organism's policy.
#[track_caller]
fn latch_receipt(cluster: &Cluster, path: &std::path::Path) -> serde_json::Value {
    let answer = cluster.ask(&["receipt", "get", "--latch", "1", "--wait", "60"]);
    let text = answer["receipt"].as_str().expect("a text");
    std::fs::write(path, text).expect("the folder of this test is writable");
    let mut verify = command(&redlatch_tests::binary("redlatch"));
    verify.args(["-o", "json", "receipt", "verify"]).arg(path);
    verify
        .arg("--policy")
        .arg(cluster.organism().join("trust-policy.txt"));
    let verified = Answer::of(&mut verify);
    verified.says(0, &[]);
    verified.json()
}

#[test]
fn fault_019_fault_074_a_leader_that_slept_through_a_red_never_says_free() {
    let mut cluster = Cluster::start("slept-through");
    let sentinel = Caller::of(&cluster, "sentinel");
    cluster.freeze("refs/heads/before");
    let leader = cluster.leader();
    let asleep = sentinel.only(&leader);
    let first = sentinel
        .run(asleep.any_status(random(), PATIENCE))
        .expect("awake");
    assert_eq!(first.record().scope, ScopeState::Free);
    cluster.pause(&leader);
    let questions: Vec<_> = (0..8)
        .map(|_| {
            let (nodes, leader) = (asleep.clone(), leader.clone());
            sentinel.spawn(async move { nodes.status(&leader, random(), None, PATIENCE).await })
        })
        .collect();
    let names = Cluster::names();
    let awake: Vec<&str> = names.into_iter().filter(|node| *node != leader).collect();
    let command = Outbox::of(&cluster).red(&RedScope::Everything);
    latch(&sentinel, &awake, &command);
    cluster.resume(&leader);
    for question in questions {
        if let Ok(status) = sentinel.run(question).expect("it ends") {
            assert_ne!(status.record().scope, ScopeState::Free, "{leader} slept");
            assert!(status.record().tree_size > first.record().tree_size);
        }
    }
    says_latched(&sentinel, &leader);
}

#[test]
fn a_red_held_by_a_node_without_a_majority_is_never_called_free_and_is_latched_with_one() {
    let mut cluster = Cluster::start("held");
    let sentinel = Caller::of(&cluster, "sentinel");
    let leader = cluster.leader();
    let names = Cluster::names();
    let others: Vec<&str> = names.into_iter().filter(|node| *node != leader).collect();
    for node in &others {
        cluster.kill(node);
    }
    let command = Outbox::of(&cluster).red(&RedScope::Everything);
    let answer = bring(&sentinel, &[&leader], &command).remove(0);
    assert!(answer.is_err(), "{answer:?}");
    let held = sentinel.shown(&leader).expect("it runs").held_reds;
    assert_eq!(held, 1);
    let shown = cluster.tool(&["status"]);
    assert_eq!(shown.code, Some(2), "a held RED shows: {shown:#?}");
    // Nobody brings it again: the node that holds it forwards it (D2). The others were never told of it, so until
    // then a majority of them alone may truthfully say free; the holder may not.
    cluster.start_all();
    says_latched(&sentinel, &leader);
    for node in others {
        eventually(&format!("{node} hears of the latch"), PATIENCE, || {
            (scope_at(&sentinel, node)? == ScopeState::Latched).then_some(())
        });
    }
}

#[test]
fn a_red_that_the_sentinel_has_not_signed_or_that_others_bring_stops_nothing() {
    let cluster = Cluster::start("false-red");
    let sentinel = Caller::of(&cluster, "sentinel");
    let agent = Caller::of(&cluster, "clients/agent");
    let genuine = Outbox::of(&cluster).red(&RedScope::Everything);
    for answer in bring(&agent, &Cluster::names(), &genuine) {
        let status = answer.expect_err("the role may not");
        assert_eq!(NoAnswer::of(&status), Some(NoAnswer::Denied), "{status}");
    }
    let mut altered = genuine.clone();
    let last = altered.last_mut().expect("not empty");
    *last ^= 1;
    for answer in bring(&sentinel, &Cluster::names(), &altered) {
        assert_eq!(
            answer.expect("an answer"),
            Reply::Refused(Refusal::BadSignature)
        );
    }
    let signer = Signer::agent(&cluster);
    let event = EventId(random());
    let command = signer.freeze(world::now_unix_ms(), event);
    let nodes = agent.nodes();
    let reply = agent.run(submit(&nodes, &signer, event, &command, PATIENCE));
    assert!(matches!(
        reply.expect("an answer").reply,
        Reply::Accepted(_)
    ));
    assert_eq!(cluster.ask(&["status"])["state"], "green");
}
