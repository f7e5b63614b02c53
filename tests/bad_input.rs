//! What is wrong on a command line, in a configuration or around a process: each has its own text and its own
//! exit code, and nothing is half done.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use redlatch_link::Role;
use redlatch_link::transport::Tls;
use redlatch_tests::cluster::Cluster;
use redlatch_tests::identity::{Authority, issued};
use redlatch_tests::process::{Answer, command};
use redlatch_tests::{StateFolder, binary};

const ERROR: i32 = 1;
const USAGE: i32 = 2;
const REFUSED: i32 = 3;
const UNAVAILABLE: i32 = 4;

fn tool(arguments: &[&str]) -> Answer {
    Answer::of(command(&binary("redlatch")).args(arguments))
}

/// Runs n1 of a cluster with other settings; it must not start.
fn node(cluster: &Cluster, settings: &[(&str, &Path)]) -> Answer {
    let mut node = cluster.node_command("n1");
    for (key, value) in settings {
        node.arg("--set").arg(format!("{key}={}", value.display()));
    }
    let answer = Answer::of(&mut node);
    assert!(answer.out.is_empty(), "{answer:#?}");
    answer
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("readable");
    let mut all: Vec<PathBuf> = entries.map(|it| it.expect("readable").path()).collect();
    all.sort();
    all
}

#[test]
fn an_unknown_key_names_the_nearest_one_wherever_it_stands() {
    let cluster = Cluster::made("unknown-key");
    let nearest = ["unknown key `listen.client`", "`listen.clients`"];
    node(&cluster, &[("listen.client", Path::new("127.0.0.1:1"))]).says(USAGE, &nearest);
    let mut environment = cluster.node_command("n1");
    environment.env("REDLATCH_LISTEN__CLIENT", "127.0.0.1:1");
    Answer::of(&mut environment).says(USAGE, &nearest);
    let file = cluster.place("n1").join("node.toml");
    let text = std::fs::read_to_string(&file).expect("by init");
    let wrong = text.replace("clients = ", "client = ");
    assert_ne!(wrong, text);
    std::fs::write(&file, wrong).expect("the folder of this test is writable");
    node(&cluster, &[]).says(USAGE, &nearest);
    assert!(
        !cluster.place("n1").join("data").exists(),
        "nothing was begun"
    );
}

#[test]
fn a_missing_or_wrong_certificate_is_named() {
    let cluster = Cluster::made("certificates");
    let other = Cluster::made("certificates-other");
    let place =
        |cluster: &Cluster, party: &str, file: &str| cluster.organism().join(party).join(file);
    let certificate = |party: &str| place(&cluster, party, "tls.pem");
    let key = |party: &str| place(&cluster, party, "tls.key");
    let nowhere = PathBuf::from("/nowhere/tls.pem");
    node(&cluster, &[("tls.certificate", &nowhere)])
        .says(USAGE, &["certificate", "/nowhere/tls.pem does not exist"]);
    node(&cluster, &[("tls.certificate", &certificate("nodes/n2"))])
        .says(USAGE, &["does not belong to the certificate"]);
    let n2 = [
        ("tls.certificate", &*certificate("nodes/n2")),
        ("tls.key", &*key("nodes/n2")),
    ];
    node(&cluster, &n2).says(REFUSED, &["not the one in the roster"]);
    let agent = [
        ("tls.certificate", &*certificate("clients/agent")),
        ("tls.key", &*key("clients/agent")),
    ];
    node(&cluster, &agent).says(REFUSED, &["client/agent", "no node of the roster"]);
    let authority = other.organism().join("authority/ca.pem");
    node(&cluster, &[("tls.authority", &authority)])
        .says(REFUSED, &["was not issued by the configured authority"]);
    let log_key = place(&other, "nodes/n1", "log.key");
    node(&cluster, &[("keys.log", &log_key)]).says(REFUSED, &["not the one in the roster"]);
    assert!(
        !cluster.place("n1").join("data").exists(),
        "nothing was begun"
    );
}

/// A command that calls nodes, each in its own way, as the operator of `config` but with these settings.
fn calls(config: &Path, settings: &[(&str, PathBuf)], mut check: impl FnMut(&str, Answer)) {
    const INTENT: &str = "abababababababababababababababababababababababababababababababab";
    const COMMANDS: [&str; 8] = [
        "status",
        "journal tail",
        "receipt get --position 0",
        "intent freeze --repo demo --ref refs/heads/main --new 5a1e0c4fd2b38e5b6b1b2f6c3a4d5e6f70818283",
        "intent withdraw --intent",
        "intent show",
        "red show",
        "bench append --seconds 1",
    ];
    for words in COMMANDS {
        let mut tool = command(&binary("redlatch"));
        for (key, value) in settings {
            tool.env(format!("REDLATCH_TLS__{key}"), value);
        }
        tool.arg("--config").arg(config).args(words.split(' '));
        if words.ends_with("--intent") || words.ends_with("intent show") {
            tool.arg(INTENT);
        }
        check(words, Answer::of(&mut tool));
    }
}

/// A configuration in which every node has the address of another.
fn turned(cluster: &Cluster, config: &Path) -> PathBuf {
    let text = std::fs::read_to_string(config).expect("by init");
    let [n1, n2, n3] = Cluster::names().map(|name| cluster.address(name, "clients").to_string());
    let text = text.replace(&n1, "first").replace(&n2, &n1);
    let text = text.replace(&n3, &n2).replace("first", &n3);
    let turned = cluster.folder().path().join("turned.toml");
    std::fs::write(&turned, text).expect("the folder of this test is writable");
    turned
}

#[test]
fn a_certificate_that_either_end_does_not_accept_ends_every_call_with_3_and_says_whose() {
    let cluster = Cluster::start("not-accepted");
    let organism = cluster.organism();
    let agent = organism.join("clients/agent/client.toml");
    let files = |tls: Tls| {
        vec![
            ("CERTIFICATE", tls.certificate),
            ("KEY", tls.key),
            ("AUTHORITY", tls.authority),
        ]
    };
    let (ours, stranger) = (Authority::of(&organism), Authority::stranger());
    let id = cluster.genesis().organism_id();
    let issue = |what: &str, authority: &Authority, trusted: &Authority| {
        let folder = cluster.folder().process(what);
        files(authority.issue(id, Role::Client, "agent", &folder, trusted))
    };
    let turned = turned(&cluster, &agent);
    /// What is wrong, whose folder it is, what is set, and what is said.
    type Case<'a> = (&'a str, &'a Path, Vec<(&'a str, PathBuf)>, [&'a str; 2]);
    let cases: [Case<'_>; 5] = [
        (
            "issued by a stranger",
            &agent,
            issue("stranger", &stranger, &ours),
            [
                "does not accept this process's certificate: it was not issued by the authority",
                "hint: use a certificate of the organism that runs there",
            ],
        ),
        (
            "a node's own",
            &agent,
            files(issued(&organism, id, "nodes/n1")),
            [
                "does not accept this process's certificate: its organism, role or key is not admitted there",
                "hint: use a certificate of this organism whose role may call there",
            ],
        ),
        (
            "nodes of a stranger",
            &agent,
            issue("believer", &stranger, &stranger),
            [
                "a certificate that is not accepted here: it was not issued by the configured authority",
                "hint: check the address",
            ],
        ),
        (
            "nodes at each other's addresses",
            &turned,
            Vec::new(),
            [
                "a certificate that is not accepted here: expected node/n",
                "hint: check the address",
            ],
        ),
        (
            "expired",
            &agent,
            files(ours.issue_expired(id, Role::Client, "agent", &cluster.folder().process("old"))),
            ["tls.pem has expired", "hint: issue a new certificate"],
        ),
    ];
    for (what, config, settings, words) in &cases {
        calls(config, settings, |command, answer| {
            println!("{what}: {command}");
            answer.says(REFUSED, words);
            assert!(answer.out.is_empty(), "{answer:#?}");
        });
    }
    let nowhere = vec![("CERTIFICATE", PathBuf::from("/nowhere/tls.pem"))];
    calls(&agent, &nowhere, |_, answer| {
        answer.says(USAGE, &["/nowhere/tls.pem does not exist"]);
    });
    assert_eq!(cluster.ask(&["status"])["state"], "green");
}

#[test]
fn another_organisms_certificate_genesis_or_nodes_are_refused() {
    let mut cluster = Cluster::start("organism");
    let other = Cluster::made("organism-other");
    let n1 = other.place("n1");
    let foreign = [
        ("tls.certificate", &*n1.join("tls.pem")),
        ("tls.key", &*n1.join("tls.key")),
    ];
    node(&cluster, &foreign).says(REFUSED, &["belongs to organism", "tls.organism is"]);
    let genesis = other.organism().join("genesis.cbor");
    node(&cluster, &[("genesis", &genesis)]).says(
        REFUSED,
        &["the genesis starts organism", "the certificate belongs to"],
    );
    // A client of the one at the nodes of the other.
    let config = other.organism().join("clients/operator/client.toml");
    let mut text = std::fs::read_to_string(&config).expect("by init");
    for name in Cluster::names() {
        let theirs = other.address(name, "clients").to_string();
        text = text.replace(&theirs, &cluster.address(name, "clients").to_string());
    }
    std::fs::write(&config, text).expect("the folder of this test is writable");
    let mut stranger = command(&binary("redlatch"));
    stranger.arg("--config").arg(&config);
    let answer = Answer::of(stranger.args(["journal", "tail"]));
    answer.says(
        REFUSED,
        &[
            "not issued by the configured authority",
            "check the address",
        ],
    );
    assert!(answer.out.is_empty(), "{answer:#?}");
    assert_eq!(cluster.ask(&["status"])["state"], "green");
    // A second genesis over data that has one.
    assert_eq!(cluster.stop("n1"), Some(0));
    let mut second = other.node_command("n1");
    let data = cluster.place("n1").join("data");
    second.arg("--set").arg(format!("data={}", data.display()));
    Answer::of(&mut second).says(REFUSED, &["a second genesis", "is never accepted"]);
    cluster.start_node("n1");
    assert_eq!(cluster.ask(&["status"])["state"], "green");
}

#[test]
fn a_taken_port_and_a_taken_disk_are_told_apart_and_harm_nobody() {
    let mut cluster = Cluster::made("taken");
    for listener in ["diagnostics", "clients", "peers"] {
        let address = cluster.address("n1", listener);
        let taken = TcpListener::bind(address).expect("free until now");
        let answer = node(&cluster, &[]);
        answer.says(UNAVAILABLE, &[&address.to_string(), "in use"]);
        drop(taken);
    }
    cluster.start_all();
    let anywhere = Path::new("127.0.0.1:0");
    let elsewhere = [
        ("listen.peers", anywhere),
        ("listen.clients", anywhere),
        ("listen.diagnostics", anywhere),
    ];
    node(&cluster, &elsewhere).says(
        UNAVAILABLE,
        &["another process runs on this data directory"],
    );
    cluster.freeze("refs/heads/unharmed");
    assert_eq!(cluster.ask(&["status"])["state"], "green");
}

#[test]
fn init_makes_a_whole_organism_or_touches_nothing() {
    let folder = StateFolder::new("init");
    let place = folder.process("mine");
    std::fs::write(place.join("thesis"), "mine").expect("writable");
    let text = place.to_str().expect("ASCII");
    tool(&["init", "--dev", text]).says(USAGE, &["is not empty", "never written over"]);
    tool(&["dev", text]).says(USAGE, &["holds no organism"]);
    assert_eq!(entries(&place), [place.join("thesis")]);
    let fresh = folder.path().join("fresh");
    let fresh_text = fresh.to_str().expect("ASCII");
    tool(&["init"]).says(REFUSED, &["not_supported", "init --dev DIR"]);
    tool(&["init", "--dev", fresh_text, "--nodes", "4"]).says(USAGE, &["3 or 5 nodes"]);
    assert!(!fresh.exists());
}

#[test]
fn what_cannot_be_meant_is_a_usage_error() {
    let cluster = Cluster::made("usage");
    tool(&["frobnicate"]).says(USAGE, &["unrecognized subcommand", "frobnicate"]);
    tool(&["status", "--frobnicate"]).says(USAGE, &["--frobnicate"]);
    tool(&["status"]).says(USAGE, &["no configuration", "--dir DIR"]);
    let nowhere = ["--dir", "/nowhere/organism", "status"];
    tool(&nowhere).says(USAGE, &["/nowhere/organism"]);
    cluster.tool(&["receipt", "get"]).says(USAGE, &["--intent"]);
    let short = [
        "intent",
        "freeze",
        "--repo",
        "demo",
        "--ref",
        "refs/heads/main",
        "--new",
        "abc",
    ];
    let answer = cluster.tool(&short);
    assert_ne!(answer.code, Some(0), "{answer:#?}");
}

#[test]
fn with_all_nodes_down_status_is_an_error_and_a_command_may_be_tried_again() {
    let cluster = Cluster::made("down");
    let answer = cluster.tool(&["--deadline", "2", "status"]);
    assert_eq!(answer.code, Some(ERROR), "{answer:#?}");
    let report = answer.json();
    assert_eq!(report["state"], "unavailable");
    let nodes = report["nodes"].as_array().expect("a list");
    assert!(
        nodes.iter().all(|node| node["unreachable"].is_string()),
        "{report}"
    );
    let new = "5a1e0c4fd2b38e5b6b1b2f6c3a4d5e6f70818283";
    let freeze = [
        "intent",
        "freeze",
        "--repo",
        "demo",
        "--ref",
        "refs/heads/main",
        "--new",
        new,
    ];
    let mut arguments = vec!["--deadline", "2"];
    arguments.extend(freeze);
    let answer = cluster.tool(&arguments);
    answer.says(UNAVAILABLE, &["no node could answer", "redlatch status"]);
    let answer = cluster.tool(&["--deadline", "2", "receipt", "get", "--position", "0"]);
    answer.says(UNAVAILABLE, &["no node could answer"]);
}

/// Runs the tool with standard output, or standard error, going to nobody.
fn unheard(mut tool: Command, deaf_to_errors: bool) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    if deaf_to_errors {
        tool.stderr(writer).stdout(Stdio::null());
    } else {
        tool.stdout(writer).stderr(Stdio::piped());
    }
    let output = tool.output().expect("the tool starts");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), err)
}

#[test]
fn an_answer_that_nobody_reads_ends_quietly_with_the_commands_own_exit_code() {
    let mut cluster = Cluster::start("unread");
    cluster.freeze("refs/heads/read");
    let organism = cluster.organism();
    let with = |arguments: &[&str]| {
        let mut tool = command(&binary("redlatch"));
        tool.arg("--dir").arg(&organism).args(arguments);
        tool
    };
    let quietly = |arguments: &[&str], code: i32| {
        let ended = unheard(with(arguments), false);
        assert_eq!(ended, (Some(code), String::new()), "{arguments:?}");
        let (code_when_deaf, _) = unheard(with(arguments), true);
        assert_eq!(code_when_deaf, Some(code), "{arguments:?}");
    };
    quietly(&["status"], 0);
    quietly(&["-o", "json", "status"], 0);
    quietly(&["journal", "tail", "--from", "0"], 0);
    // It would go on for ever with a reader.
    let follow = unheard(with(&["journal", "tail", "--from", "0", "--follow"]), false);
    assert_eq!(follow, (Some(0), String::new()));
    quietly(&["receipt", "get", "--position", "0"], 0);
    let config = cluster.place("n1").join("node.toml");
    let config = config.to_str().expect("ASCII");
    quietly(&["node", "config", "check", config], 0);
    quietly(&["node", "config", "print", config], 0);
    let frozen = redlatch_tests::repository().join("tests/frozen");
    let policy = frozen.join("receipt-production.policy");
    let policy = policy.to_str().expect("ASCII");
    quietly(
        &[
            "-o", "json", "receipt", "verify", policy, "--policy", policy,
        ],
        1,
    );
    let fresh = cluster.folder().path().join("fresh");
    let mut init = command(&binary("redlatch"));
    init.args(["init", "--dev"]).arg(&fresh);
    assert_eq!(unheard(init, true).0, Some(0));
    cluster.kill_all();
    quietly(&["--deadline", "2", "status"], ERROR);
}
