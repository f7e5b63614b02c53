//! Receipts of a running cluster and frozen ones, verified offline: two files, no network, published exit codes.

use std::path::{Path, PathBuf};
use std::process::Command;

use redlatch_tests::cluster::Cluster;
use redlatch_tests::process::{Answer, command};
use redlatch_tests::{StateFolder, binary, repository};

const VALID: i32 = 0;
const INVALID: i32 = 1;
const USAGE: i32 = 2;
const NOT_MET: i32 = 3;

fn verify(receipt: &Path, policy: &Path) -> Answer {
    let mut verify = command(&binary("redlatch"));
    verify.args(["receipt", "verify"]).arg(receipt);
    Answer::of(verify.arg("--policy").arg(policy))
}

fn frozen(name: &str) -> PathBuf {
    repository().join("tests/frozen").join(name)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("it is there")
}

fn put(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("the folder of this test is writable");
    path
}

/// Gets a receipt of the running cluster into a file.
fn get(cluster: &Cluster, position: u64, path: &Path) {
    let position = position.to_string();
    let arguments = ["receipt", "get", "--wait", "60", "--position", &position];
    let answer = cluster.ask(&arguments);
    std::fs::write(path, answer["receipt"].as_str().expect("a text")).expect("writable");
}

/// `unshare` into a network namespace of its own, which has no interface but a loopback that is down.
fn without_network() -> Command {
    let mut unshare = command(Path::new("unshare"));
    if rustix::process::geteuid().is_root() {
        unshare.arg("--net");
    } else {
        unshare.args(["--user", "--map-root-user", "--net"]);
    }
    unshare.arg("--");
    unshare
}

#[test]
fn a_receipt_verifies_without_any_network_from_two_files_alone() {
    let mut probe = without_network();
    let probe = Answer::of(probe.args(["cat", "/proc/net/dev", "/proc/net/route"]));
    assert_eq!(
        probe.code,
        Some(0),
        "this test needs a network namespace of its own (root, or user namespaces): {probe:#?}"
    );
    let interfaces: Vec<&str> = probe
        .out
        .lines()
        .filter(|line| line.contains(": "))
        .collect();
    assert!(
        interfaces
            .iter()
            .all(|line| line.trim_start().starts_with("lo:")),
        "{probe:#?}"
    );

    let cluster = Cluster::start("offline");
    let (intent, position) = cluster.freeze("refs/heads/proven");
    let folder = cluster.folder().process("auditor");
    get(&cluster, position, &folder.join("receipt"));
    put(
        &folder,
        "policy",
        &read(&cluster.organism().join("trust-policy.txt")),
    );
    drop(std::fs::rename(
        cluster.organism(),
        cluster.folder().path().join("moved"),
    ));

    let mut verify = without_network();
    verify
        .arg(binary("redlatch"))
        .env_clear()
        .current_dir(&folder);
    verify.args([
        "-o", "json", "receipt", "verify", "receipt", "--policy", "policy",
    ]);
    let answer = Answer::of(&mut verify);
    answer.says(VALID, &[]);
    let said = answer.json();
    assert_eq!(said["valid"], true);
    assert_eq!(said["proves"], "history only");
    assert_eq!(said["position"], position.to_string());
    assert_eq!(said["event"], "frozen");
    assert_eq!(said["fields"]["intent"], intent);
    let left = std::fs::read_dir(&folder).expect("readable").count();
    assert_eq!(left, 2, "verifying writes nothing");
}

#[test]
fn every_altered_byte_of_a_leaf_and_every_altered_hash_makes_a_receipt_invalid() {
    let folder = StateFolder::new("altered");
    let policy = frozen("receipt-production.policy");
    let text = read(&frozen("receipt-production.tlog-proof"));
    assert_eq!(
        verify(&frozen("receipt-production.tlog-proof"), &policy).code,
        Some(VALID)
    );
    let lines: Vec<&str> = text.lines().collect();
    let mut altered = 0;
    // Leaf, index, two hashes; origin, size and root of the head.
    for (number, line) in lines.iter().enumerate().take(9).skip(1) {
        if line.is_empty() {
            continue;
        }
        let at = line.rfind([' ', '/']).map_or(0, |at| at + 1);
        let other = if line[at..].starts_with('5') {
            "6"
        } else {
            "5"
        };
        let fresh = format!("{}{other}{}", &line[..at], &line[at + 1..]);
        let mut lines: Vec<&str> = lines.clone();
        lines[number] = &fresh;
        let path = put(folder.path(), "altered", &(lines.join("\n") + "\n"));
        let answer = verify(&path, &policy);
        // Another origin is another journal's, which this policy does not speak for.
        let code = if line.starts_with("redlatch/") {
            NOT_MET
        } else {
            INVALID
        };
        assert_eq!(answer.code, Some(code), "line {number}: {answer:#?}");
        assert!(answer.out.is_empty(), "{answer:#?}");
        altered += 1;
    }
    assert_eq!(altered, 7);
}

#[test]
fn a_receipt_without_enough_signatures_does_not_meet_the_policy() {
    let folder = StateFolder::new("few");
    let policy = frozen("receipt-production.policy");
    let text = read(&frozen("receipt-production.tlog-proof"));
    for (whose, word) in [
        ("cosigner/node-1", "nodes"),
        ("cosigner/verifier-4", "witnesses"),
    ] {
        let fewer: String = text
            .lines()
            .filter(|line| !line.contains(whose))
            .map(|line| format!("{line}\n"))
            .collect();
        let path = put(folder.path(), "few", &fewer);
        verify(&path, &policy).says(NOT_MET, &["policy not met", word]);
    }
}

#[test]
fn a_policy_of_another_organism_or_stage_is_not_met() {
    let cluster = Cluster::made("other-policy");
    let ours = cluster.organism().join("trust-policy.txt");
    let (production, development) = ("receipt-production", "receipt-development");
    let proof = |stage: &str| frozen(&format!("{stage}.tlog-proof"));
    let policy = |stage: &str| frozen(&format!("{stage}.policy"));
    verify(&proof(development), &policy(development)).says(VALID, &[]);
    let cases = [
        (proof(development), ours),
        (proof(development), policy(production)),
        (proof(production), policy(development)),
    ];
    for (receipt, policy) in cases {
        let answer = verify(&receipt, &policy);
        answer.says(NOT_MET, &["policy not met", "the policy is for"]);
    }
}

#[test]
fn a_production_origin_with_nodes_alone_is_no_policy() {
    let folder = StateFolder::new("nodes-only");
    let text = read(&frozen("receipt-production.policy"));
    let witnessed = |line: &&str| {
        !line.contains("verifier-") && !line.contains("group both") && !line.contains("quorum both")
    };
    let mut nodes: Vec<&str> = text.lines().filter(witnessed).collect();
    nodes.push("quorum nodes\n");
    let policy = put(folder.path(), "policy", &nodes.join("\n"));
    let answer = verify(&frozen("receipt-production.tlog-proof"), &policy);
    answer.says(USAGE, &["must not be used", "redlatch-dev/ origins only"]);
    assert!(answer.out.is_empty(), "{answer:#?}");
}

#[test]
fn what_is_no_receipt_and_what_is_no_policy_are_told_apart() {
    let receipt = frozen("receipt-production.tlog-proof");
    let policy = frozen("receipt-production.policy");
    verify(&policy, &policy).says(INVALID, &["invalid receipt", "the first line is not"]);
    verify(&receipt, &receipt).says(USAGE, &["must not be used"]);
    verify(Path::new("/nowhere/receipt"), &policy)
        .says(USAGE, &["/nowhere/receipt", "does not exist"]);
    verify(&receipt, Path::new("/nowhere/policy"))
        .says(USAGE, &["/nowhere/policy", "does not exist"]);
    let mut unnamed = command(&binary("redlatch"));
    let unnamed = Answer::of(unnamed.args(["receipt", "verify"]).arg(&receipt));
    unnamed.says(USAGE, &["--policy"]);
}

#[test]
fn fault_043_one_node_that_signs_often_is_one_node() {
    let folder = StateFolder::new("repeated");
    let policy = frozen("receipt-development.policy");
    let text = read(&frozen("receipt-development.tlog-proof"));
    let signature = |node: &str| {
        let mut lines = text.lines();
        lines
            .find(|line| line.contains(&format!("cosigner/{node} ")))
            .expect("it signed")
    };
    let (first, second) = (signature("node-1"), signature("node-2"));
    let twice = text.replace(second, first);
    assert_ne!(twice, text);
    let answer = verify(&put(folder.path(), "twice", &twice), &policy);
    assert!(
        matches!(answer.code, Some(INVALID | NOT_MET)),
        "{answer:#?}"
    );
    // Nor under another name.
    let key = |text: &str| text.rsplit('+').next().map(str::to_owned);
    let policies = read(&policy);
    let of = |node: &str| {
        let mut lines = policies.lines();
        let found = lines.find(|line| line.starts_with(&format!("witness {node} ")));
        key(found.expect("it is listed")).expect("it has a key")
    };
    let doubled = policies.replace(&of("node-2"), &of("node-1"));
    assert_ne!(doubled, policies);
    let doubled = put(folder.path(), "policy", &doubled);
    let answer = verify(&frozen("receipt-development.tlog-proof"), &doubled);
    answer.says(USAGE, &["must not be used"]);
}
