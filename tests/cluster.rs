//! Three nodes as processes: killed, paused, stopped and started again, each with its own keys and state.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redlatch_tests::caller::{Caller, Signer, random};
use redlatch_tests::cluster::{Cluster, PATIENCE};
use redlatch_tests::journal::{agreed, load, submit};
use redlatch_tests::{eventually, process};
use redlatch_types::EventId;
use redlatch_types::event::Reply;
use redlatch_types::records::ScopeState;

/// Rounds of killing everything.
const ROUNDS: usize = 3;
/// Clients at once.
const CLIENTS: usize = 6;
/// Acknowledged commands before the next kill.
const ACKNOWLEDGED: usize = 60;

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("readable");
    let mut all = Vec::new();
    for entry in entries {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.push(path);
        }
    }
    all
}

#[test]
fn each_process_has_its_own_keys_and_its_own_state_that_nobody_else_may_read() {
    let cluster = Cluster::start("own-state");
    let mut keys = BTreeSet::new();
    let mut count = 0;
    for path in files(&cluster.organism()) {
        if path.extension().is_some_and(|it| it == "key") {
            let key = std::fs::read(&path).expect("readable");
            let mode = path.metadata().expect("there").permissions().mode();
            assert_eq!(mode & 0o077, 0, "{} is private", path.display());
            keys.insert(key);
            count += 1;
        }
    }
    assert_eq!(keys.len(), count, "no two parties share a key");
    // At least authority and root; 3 nodes with 4 keys; 4 verifiers with 3; 5 other parties with 2.
    assert!(count >= 2 + 3 * 4 + 4 * 3 + 5 * 2, "{count} keys");
    for node in Cluster::names() {
        let data = cluster.place(node).join("data");
        let mode = data
            .metadata()
            .expect("made by the node")
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{} is private", data.display());
        assert!(files(&data).len() > 3, "{node} keeps its state there");
    }
    let report = cluster.ask(&["status"]);
    let nodes = report["nodes"].as_array().expect("a list");
    assert_eq!(nodes.len(), 3);
    assert_eq!(report["state"], "green");
    for node in nodes {
        let digest = node["state_digest"].as_str().expect("a text");
        let size = node["state_digest_size"].as_str().map(str::parse::<u64>);
        assert!(
            digest.len() == 64 && size.is_some_and(|it| it.is_ok_and(|size| size > 0)),
            "{node}"
        );
    }
}

#[test]
fn fault_005_sigkill_of_every_node_under_load_loses_nothing_that_was_acknowledged() {
    let mut cluster = Cluster::start("kill-all");
    let caller = Caller::of(&cluster, "clients/agent");
    let signer = Arc::new(Signer::agent(&cluster));
    let told = Arc::new(Mutex::new(Vec::new()));
    for round in 1..=ROUNDS {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let give_up = Duration::from_secs(3);
                let (signer, told) = (Arc::clone(&signer), Arc::clone(&told));
                caller.spawn(load(caller.nodes(), signer, told, give_up, usize::MAX))
            })
            .collect();
        eventually("load", PATIENCE, || {
            let count = told.lock().expect("plain values").len();
            (count >= round * ACKNOWLEDGED).then_some(())
        });
        cluster.kill_all();
        for client in clients {
            caller.run(client).expect("a client ends by itself");
        }
        cluster.start_all();
        let agreed = agreed(&cluster, &caller);
        let there = agreed.origins();
        let told = told.lock().expect("plain values");
        let lost: Vec<_> = told.iter().filter(|it| !there.contains(it)).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?} of {}", told.len());
    }
}

#[test]
fn a_killed_leader_is_replaced_and_nothing_acknowledged_is_lost() {
    let mut cluster = Cluster::start("kill-leader");
    let (before, position) = cluster.freeze("refs/heads/before");
    let leader = cluster.leader();
    cluster.kill(&leader);
    let (after, later) = cluster.freeze("refs/heads/after");
    assert!(later > position && before != after);
    let shown = cluster.ask(&["intent", "show", &before]);
    assert_eq!(shown["leaves"][0]["position"], position.to_string());
    let next = cluster.leader();
    assert_ne!(next, leader);
    cluster.start_node(&leader);
    let caller = Caller::of(&cluster, "clients/operator");
    assert_eq!(agreed(&cluster, &caller).state.authority.intents.len(), 2);
}

#[test]
fn fault_019_fault_074_a_leader_that_slept_takes_nothing_from_its_old_state() {
    let mut cluster = Cluster::start("sleeping-leader");
    let caller = Caller::of(&cluster, "clients/agent");
    let signer = Signer::agent(&cluster);
    cluster.freeze("refs/heads/before");
    let leader = cluster.leader();
    // Connections are open before the leader sleeps, and questions wait for it in its sockets.
    let asleep = caller.only(&leader);
    let first = caller
        .run(asleep.any_status(random(), PATIENCE))
        .expect("awake");
    assert_eq!(first.record().scope, ScopeState::Free);
    cluster.pause(&leader);
    let event = EventId(random());
    let command = signer.freeze(first.record().state_time, event);
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let (nodes, leader) = (asleep.clone(), leader.clone());
            let ask = async move { nodes.status(&leader, random(), None, PATIENCE).await };
            caller.spawn(ask)
        })
        .collect();
    let (_, position) = cluster.freeze("refs/heads/while-it-slept");
    cluster.resume(&leader);
    for question in waiting {
        // Whatever it answers, it knows what was acknowledged before it was woken.
        if let Ok(status) = caller.run(question).expect("it ends") {
            let size = status.record().tree_size;
            assert!(
                size > position,
                "{leader} spoke of {size} leaves, {position} is in the journal"
            );
        }
    }
    let brought = caller.run(submit(&caller.nodes(), &signer, event, &command, PATIENCE));
    assert!(matches!(
        brought.expect("an answer").reply,
        Reply::Accepted(_)
    ));
    let agreed = agreed(&cluster, &caller);
    assert!(agreed.origins().contains(&event));
}

#[test]
fn without_a_majority_a_node_says_neither_free_nor_accepted() {
    let mut cluster = Cluster::start("minority");
    let leader = cluster.leader();
    let caller = Caller::of(&cluster, "clients/agent");
    let status = caller
        .status(&leader, PATIENCE)
        .expect("with a majority it speaks");
    for node in Cluster::names() {
        if node != leader {
            cluster.kill(node);
        }
    }
    let patience = Duration::from_secs(5);
    assert!(
        caller.status(&leader, patience).is_none(),
        "no read point, no status"
    );
    let signer = Signer::agent(&cluster);
    let event = EventId(random());
    let command = signer.freeze(status.record().state_time, event);
    let nodes = caller.nodes();
    let submitted = caller.run(submit(&nodes, &signer, event, &command, patience));
    assert!(submitted.is_err(), "{submitted:?}");
    let answer = cluster.tool(&["status"]);
    assert_eq!(answer.code, Some(1), "{answer:#?}");
    assert_eq!(answer.json()["state"], "unavailable");
    // Nothing is half done: with a majority again, the repeat of the same command is accepted once.
    cluster.start_all();
    let repeat = caller.run(submit(&nodes, &signer, event, &command, PATIENCE));
    assert!(matches!(
        repeat.expect("an answer").reply,
        Reply::Accepted(_)
    ));
    let events = agreed(&cluster, &caller).events;
    let frozen =
        |it: &&redlatch_types::event::Event| matches!(it, redlatch_types::event::Event::Frozen(..));
    assert_eq!(events.iter().filter(frozen).count(), 1);
}

#[test]
fn a_clean_stop_drains_with_exit_code_0_and_loses_nothing() {
    let mut cluster = Cluster::start("clean-stop");
    let (intent, _) = cluster.freeze("refs/heads/kept");
    let caller = Caller::of(&cluster, "clients/operator");
    let before = agreed(&cluster, &caller);
    for node in Cluster::names() {
        let address = cluster.address(node, "diagnostics");
        assert_eq!(process::page(address, "/livez").map(|it| it.0), Some(200));
        assert_eq!(cluster.stop(node), Some(0), "{node}");
        assert!(process::page(address, "/livez").is_none(), "{node} is gone");
    }
    cluster.start_all();
    let after = agreed(&cluster, &caller);
    assert!(after.events.len() >= before.events.len());
    assert_eq!(after.events[..before.events.len()], before.events);
    let shown = cluster.ask(&["intent", "show", &intent]);
    assert_eq!(shown["leaves"][0]["event"], "frozen");
}
