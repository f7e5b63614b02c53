//! Gate and tool follow the roster by proven links, and deny whatever is unproven, stale or absent.

use redlatch_types::receipt::Receipt;
use redlatch_types::records::{RosterNode, RosterPayload, Seat};
use redlatch_types::{IntentDigest, NodeId};

use crate::bench::{Bench, Ended, redlatch};
use crate::world::{id, key};

const MAIN: &str = "refs/heads/main";

fn newcomer() -> RosterNode {
    RosterNode {
        node_id: NodeId(4),
        name: id("n4"),
        seat: Seat::Learner,
        log_key: key(104).public_key(),
        cosigner_key: key(114).public_key(),
        record_key: key(124).public_key(),
    }
}

/// n4 joins, n4 is promoted, n3 is removed; each signed by a majority of the voters before. Then a landing of the
/// second commit is committed.
fn change(bench: &Bench) -> ([Receipt; 3], IntentDigest) {
    let steps = [
        (RosterPayload::Join(newcomer()), vec![1, 2]),
        (RosterPayload::Promote(NodeId(4)), vec![1, 3]),
        (RosterPayload::Remove(NodeId(3)), vec![1, 2, 4]),
    ];
    let links = steps.map(|(step, signers)| bench.cluster.change_roster(step, &signers));
    let intent = bench.committed(MAIN, &bench.commits[0], &bench.commits[1]);
    (links, intent)
}

fn show(bench: &Bench, links: &[Receipt]) {
    bench.cluster.lock().links = links.to_vec();
}

fn show_of(bench: &Bench, node: u64, links: &[Receipt]) {
    bench.cluster.lock().links_of.insert(node, links.to_vec());
}

/// Pushes the second commit.
fn land(bench: &Bench, intent: IntentDigest) -> Ended {
    bench.land(intent, &bench.commits[1], MAIN)
}

#[track_caller]
fn landed(bench: &Bench, ended: Ended) {
    ended.ok();
    assert_eq!(bench.head(MAIN), bench.commits[1]);
}

#[track_caller]
fn denied(bench: &Bench, ended: Ended, code: &str) {
    ended.refused(code);
    assert_eq!(bench.head(MAIN), bench.commits[0]);
}

/// `redlatch trust-policy update` as the agent, on a policy file of this bench.
fn update(bench: &Bench, file: &str) -> Ended {
    let (config, policy) = (bench.path("agent.toml"), bench.path(file));
    let command = ["--config", &config, "trust-policy", "update", "--policy"];
    redlatch(&[&command[..], &[&policy]].concat())
}

fn read(bench: &Bench, file: &str) -> String {
    std::fs::read_to_string(bench.at(file)).expect("there")
}

fn forget(bench: &Bench) {
    std::fs::remove_dir_all(bench.at("agent.state")).expect("it was kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_goes_on_after_each_change_of_the_roster_that_is_proven() {
    let bench = Bench::new().await;
    const SIDE: &str = "refs/heads/side";
    let (links, intent) = change(&bench);
    let side = bench.committed(SIDE, "", &bench.commits[2]);
    show(&bench, &links);
    landed(&bench, land(&bench, intent));
    // What it has followed is kept: it needs nobody to show it again.
    show(&bench, &[]);
    bench.land(side, &bench.commits[2], SIDE).ok();
    assert_eq!(bench.head(SIDE), bench.commits[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_nobody_proves_denies_until_somebody_does() {
    let bench = Bench::new().await;
    let (links, intent) = change(&bench);
    let push = || land(&bench, intent);
    // The marker itself is proven: two of those who sign are of the genesis.
    denied(&bench, push(), "stale_roster");
    for short in 1..3 {
        show(&bench, &links[..short]);
        denied(&bench, push(), "stale_roster");
    }
    show(&bench, &links);
    landed(&bench, push());
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_prove_nothing_lead_nowhere() {
    let bench = Bench::new().await;
    let (links, intent) = change(&bench);
    let [join, promote, remove] = links;
    let unsigned = {
        let mut shared = bench.cluster.lock();
        let all = std::mem::replace(&mut shared.cosigners, vec![1]);
        let position = join.proof.index;
        let weak = shared.receipt(position);
        shared.cosigners = all;
        weak
    };
    let mut altered = join.clone();
    altered.leaf.clone_from(&promote.leaf);
    let chains = [
        ("cut", vec![promote.clone(), remove.clone()]),
        ("reordered", vec![promote, join, remove]),
        ("one signature", vec![unsigned]),
        ("another leaf", vec![altered]),
    ];
    let policy = read(&bench, "policy.txt");
    for (what, chain) in chains {
        show(&bench, &chain);
        let text = update(&bench, "policy.txt").ok();
        assert!(text.contains("does not hold"), "{what}: {text}");
        let now = read(&bench, "policy.txt");
        assert_eq!(now, format!("# roster 1\n{policy}"), "{what}");
    }
    denied(&bench, land(&bench, intent), "stale_roster");
    assert!(!bench.at("state/rosters").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_honest_node_is_enough_to_be_led_on() {
    let bench = Bench::new().await;
    let (links, intent) = change(&bench);
    let mut altered = links.to_vec();
    altered[0].leaf.pop();
    show(&bench, &altered);
    show_of(&bench, 2, &links);
    landed(&bench, land(&bench, intent));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_whose_kept_chain_is_damaged_or_foreign_moves_nothing() {
    let bench = Bench::new().await;
    let (links, intent) = change(&bench);
    show(&bench, &links);
    bench.reconcile().ok();
    let file = bench.at("state/rosters");
    let kept = std::fs::read(&file).expect("kept");
    let mut damaged = kept.clone();
    *damaged.last_mut().expect("not empty") ^= 1;
    for bytes in [&damaged[..], &kept[..kept.len() / 2], b""] {
        std::fs::write(&file, bytes).expect("written");
        denied(&bench, land(&bench, intent), "must not be used");
    }
    std::fs::write(&file, &kept).expect("written");
    landed(&bench, land(&bench, intent));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_proven_changes_of_one_roster_stop_gate_and_tool() {
    let bench = Bench::new().await;
    let ([join, ..], intent) = change(&bench);
    show(&bench, &[join]);
    let other = Bench::new().await;
    let stranger = RosterNode {
        record_key: key(125).public_key(),
        ..newcomer()
    };
    let second = RosterPayload::Join(stranger);
    let second = other.cluster.change_roster(second, &[1, 2]);
    show_of(&bench, 2, &[second]);
    denied(&bench, land(&bench, intent), "two histories");
    let policy = read(&bench, "policy.txt");
    update(&bench, "policy.txt").refused("two histories");
    assert_eq!(read(&bench, "policy.txt"), policy);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voter_without_an_address_is_named_and_nothing_moves() {
    let bench = Bench::new().await;
    let config = read(&bench, "gate.toml");
    let without: String = config
        .lines()
        .filter(|it| !it.starts_with("n4 ="))
        .fold(String::new(), |text, line| text + line + "\n");
    std::fs::write(bench.at("gate.toml"), without).expect("written");
    let (links, intent) = change(&bench);
    show(&bench, &links);
    denied(&bench, land(&bench, intent), "`nodes.n4` is not set");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trust_policy_is_led_to_the_roster_in_force_and_never_back() {
    let bench = Bench::new().await;
    let (links, _) = change(&bench);
    let genesis = read(&bench, "policy.txt");
    show(&bench, &links);
    let text = update(&bench, "policy.txt").ok();
    let page = include_str!("../../../../docs/receipts.md");
    let shown = text.replace(&bench.path("policy.txt"), "trust-policy.txt");
    for line in shown.lines() {
        assert!(
            page.contains(&format!("\n    {line}\n")),
            "not shown: {line}"
        );
    }
    for part in [
        "updated",
        "roster   4",
        "2 of n1 n2 n4",
        "added    n4",
        "removed  n3",
    ] {
        assert!(text.contains(part), "no {part} in:\n{text}");
    }
    let updated = read(&bench, "policy.txt");
    assert!(updated.starts_with("# roster 4\n"), "{updated}");
    let again = update(&bench, "policy.txt").ok();
    assert!(again.contains("current"), "{again}");
    assert_eq!(read(&bench, "policy.txt"), updated);
    // What is signed by the nodes of today is proven by it, and was not by the one before.
    let position = links[2].proof.index.to_string();
    let config = bench.path("agent.toml");
    let receipt = redlatch(&[
        "--config",
        &config,
        "receipt",
        "get",
        "--position",
        &position,
    ])
    .ok();
    std::fs::write(bench.at("receipt"), receipt).expect("written");
    let verify = |policy: &str| {
        let (receipt, policy) = (bench.path("receipt"), bench.path(policy));
        redlatch(&["receipt", "verify", &receipt, "--policy", &policy])
    };
    verify("policy.txt").ok();
    // Neither a shorter chain nor a lost state leads it back.
    show(&bench, &links[..1]);
    let text = update(&bench, "policy.txt").ok();
    assert!(text.contains("current"), "{text}");
    forget(&bench);
    let refused = update(&bench, "policy.txt");
    assert_eq!(refused.code, 3, "{refused:?}");
    refused.refused("the policy is of roster 4, and the nodes prove no more than roster 2");
    assert_eq!(read(&bench, "policy.txt"), updated);
    // A file without the line is known by its keys: those of roster 4 are of none that is proven here.
    let unmarked = updated.replace("# roster 4\n", "");
    std::fs::write(bench.at("unmarked.txt"), &unmarked).expect("written");
    let refused = update(&bench, "unmarked.txt");
    assert_eq!(refused.code, 3, "{refused:?}");
    assert_eq!(read(&bench, "unmarked.txt"), unmarked);
    // The genesis' own leads on from where it is.
    std::fs::write(bench.at("first.txt"), &genesis).expect("written");
    update(&bench, "first.txt").ok();
    assert!(read(&bench, "first.txt").starts_with("# roster 2\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_of_another_organism_is_not_led_anywhere() {
    let bench = Bench::new().await;
    show(&bench, &change(&bench).0);
    let foreign = include_str!("../../../../tests/frozen/receipt-production.policy");
    std::fs::write(bench.at("foreign.txt"), foreign).expect("written");
    let refused = update(&bench, "foreign.txt");
    assert_eq!(refused.code, 3, "{refused:?}");
    refused.refused("the trust policy is for redlatch/");
    assert_eq!(read(&bench, "foreign.txt"), foreign);
}
