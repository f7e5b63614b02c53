//! Who may depend on whom (DESIGN §10), read from Cargo's own answers.

use crate::finding::{Finding, none};
use crate::source;
use serde_json::Value;
use std::process::Command;

/// Each crate of the workspace with the crates of ours it may depend on. The simulated world and
/// the test crate may use all, and nobody uses them.
const EDGES: [(&str, &[&str]); 12] = [
    ("redlatch-types", &[]),
    ("redlatch-proto", &["types"]),
    ("redlatch-link", &["types", "proto"]),
    ("redlatch-journal", &["types"]),
    ("redlatch-ballot", &["types"]),
    ("redlatch-watch", &["types"]),
    ("redlatch-raft", &["types", "proto", "link", "journal"]),
    ("redlatch-verifier", &["types", "proto", "link", "ballot"]),
    ("redlatch-sentinel", &["types", "proto", "link", "watch"]),
    ("redlatch-actuator", &["types", "proto", "link"]),
    (
        "redlatch-node",
        &["types", "proto", "link", "journal", "raft", "ballot"],
    ),
    ("redlatch", &["types", "proto", "link", "journal", "node"]),
];

/// Tested together, never delivered together: who depends on whom for tests alone.
const TESTED_TOGETHER: [(&str, &str); 1] = [("redlatch-sentinel", "redlatch-actuator")];

/// May use every crate; no crate may use them.
const OUTSIDE: [&str; 2] = ["redlatch-sim", "redlatch-tests"];

/// Crates without runtime, transport, storage and randomness.
const PURE: [&str; 4] = [
    "redlatch-types",
    "redlatch-journal",
    "redlatch-ballot",
    "redlatch-watch",
];

/// What must not be anywhere below a pure crate.
const IMPURE: [&str; 17] = [
    "tokio",
    "madsim",
    "madsim-tokio",
    "madsim-tonic",
    "tonic",
    "hyper",
    "mio",
    "rustls",
    "rocksdb",
    "librocksdb-sys",
    "redb",
    "openraft",
    "rand",
    "rand_chacha",
    "getrandom",
    "redlatch-proto",
    "redlatch-link",
];

/// Packages that the workspace refuses at any depth.
const REFUSED: [&str; 5] = [
    "aws-lc-rs",
    "aws-lc-sys",
    "openssl",
    "openssl-sys",
    "native-tls",
];

/// The only openraft: its order of sync and replication is the one that was tested.
const OPENRAFT: &str = "0.9.25";

/// The answer of a cargo subcommand about this workspace.
fn cargo(arguments: &[&str]) -> Result<String, String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program)
        .args(arguments)
        .current_dir(redlatch_tests::repository())
        .output()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The workspace's own packages, without their resolved dependencies.
fn packages() -> Vec<Value> {
    let text = cargo(&["metadata", "--no-deps", "--format-version", "1"]).expect("cargo metadata");
    let metadata: Value = serde_json::from_str(&text).expect("cargo metadata writes JSON");
    metadata["packages"].as_array().cloned().unwrap_or_default()
}

/// Path of a package's manifest from the root of the repository.
fn manifest(package: &Value) -> String {
    let path = package["manifest_path"].as_str().unwrap_or_default();
    let root = redlatch_tests::repository();
    let path = std::path::Path::new(path);
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}

fn wrong_edges(packages: &[Value]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        if OUTSIDE.contains(&name) {
            continue;
        }
        let Some((_, allowed)) = EDGES.iter().find(|(owner, _)| *owner == name) else {
            findings.push(Finding::new(
                &manifest(package),
                0,
                format!("unknown crate {name}"),
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = dependency["name"].as_str().unwrap_or_default();
            let ours = target == "redlatch" || target.starts_with("redlatch-");
            let short = target.trim_start_matches("redlatch-");
            // Tests of a core may ask another core; what is delivered may not.
            let tested = PURE.contains(&target) || TESTED_TOGETHER.contains(&(name, target));
            let tests_only = dependency["kind"] == "dev" && tested;
            if ours && !tests_only && !allowed.contains(&short) {
                let what = format!("{name} depends on {target}");
                findings.push(Finding::new(&manifest(package), 0, what));
            }
        }
    }
    findings
}

/// Lines of `cargo tree --prefix none` that name an impure package.
fn impure(owner: &str, tree: &str) -> Vec<Finding> {
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    names
        .filter(|name| IMPURE.contains(name))
        .map(|name| Finding::new("Cargo.lock", 0, format!("{owner} reaches {name}")))
        .collect()
}

/// Refused packages in the text of a Cargo.lock.
fn refused(lock: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut name = "";
    for (index, line) in lock.lines().enumerate() {
        let value = |key: &str| Some(line.strip_prefix(key)?.trim_matches('"'));
        if let Some(found) = value("name = ") {
            name = found;
            if REFUSED.contains(&found) {
                findings.push(Finding::new("Cargo.lock", index + 1, found));
            }
        }
        if let Some(version) = value("version = ")
            && name == "openraft"
            && version != OPENRAFT
        {
            let what = format!("openraft {version}, not {OPENRAFT}");
            findings.push(Finding::new("Cargo.lock", index + 1, what));
        }
        if let Some(origin) = value("source = ")
            && origin != "registry+https://github.com/rust-lang/crates.io-index"
        {
            findings.push(Finding::new(
                "Cargo.lock",
                index + 1,
                format!("{name} from {origin}"),
            ));
        }
    }
    findings
}

/// Members whose manifest does not take lints and licence from the workspace.
fn unlinted(path: &str, text: &str) -> Vec<Finding> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let lints = lines
        .windows(2)
        .any(|it| it == ["[lints]", "workspace = true"]);
    let licence = lines.contains(&"license.workspace = true");
    let private = lines.contains(&"publish.workspace = true");
    let missing = [
        (lints, "[lints] workspace = true"),
        (licence, "license.workspace = true"),
        (private, "publish.workspace = true"),
    ];
    missing
        .into_iter()
        .filter(|(there, _)| !there)
        .map(|(_, what)| Finding::new(path, 0, format!("lacks {what}")))
        .collect()
}

#[test]
fn crates_depend_only_where_the_design_says() {
    none(
        wrong_edges(&packages()),
        "DESIGN §10 and D1 fix the edges: move the code, or change EDGES together with a decision record.",
    );
}

#[test]
fn pure_crates_reach_no_runtime_storage_or_randomness() {
    let members = packages();
    let mut findings = Vec::new();
    for owner in PURE {
        if !members.iter().any(|it| it["name"] == owner) {
            continue;
        }
        let arguments = [
            "tree", "--locked", "-p", owner, "-e", "normal", "--prefix", "none",
        ];
        let tree = cargo(&arguments).expect("cargo tree");
        assert!(
            tree.starts_with(owner),
            "cargo tree answered something else: {tree}"
        );
        findings.extend(impure(owner, &tree));
    }
    none(
        findings,
        "A pure crate is a dependency list, not a promise: drop the dependency or its default features.",
    );
}

#[test]
fn refused_packages_are_not_locked() {
    let lock = source::read(&redlatch_tests::repository(), "Cargo.lock");
    assert!(
        lock.contains("name = \"openraft\""),
        "Cargo.lock is not readable"
    );
    none(
        refused(&lock),
        "See deny.toml: TLS is rustls with ring, openraft is =0.9.25, everything comes from crates.io.",
    );
}

#[test]
fn every_crate_takes_lints_and_licence_from_the_workspace() {
    let root = redlatch_tests::repository();
    let members = packages();
    assert!(
        members.len() >= 9,
        "cargo metadata lists {} crates",
        members.len()
    );
    let findings = members
        .iter()
        .map(manifest)
        .flat_map(|path| unlinted(&path, &source::read(&root, &path)))
        .collect();
    none(findings, "Add the line to the manifest.");
}

mod bad_examples {
    use super::*;
    use serde_json::json;

    fn package(name: &str, dependencies: &[&str]) -> Value {
        let list: Vec<Value> = dependencies
            .iter()
            .map(|it| json!({ "name": it }))
            .collect();
        json!({ "name": name, "manifest_path": "x/Cargo.toml", "dependencies": list })
    }

    fn tests_of(name: &str, dependency: &str) -> Value {
        let list = [json!({ "name": dependency, "kind": "dev" })];
        json!({ "name": name, "manifest_path": "x/Cargo.toml", "dependencies": list })
    }

    #[test]
    fn a_wrong_edge_and_an_unknown_crate_are_found() {
        let packages = [
            package(
                "redlatch-actuator",
                &["redlatch-types", "redlatch-raft", "tokio"],
            ),
            package("redlatch-node", &["redlatch-sim"]),
            package("redlatch-new", &[]),
            package("redlatch-sim", &["redlatch-node"]),
            tests_of("redlatch-ballot", "redlatch-journal"),
            tests_of("redlatch-watch", "redlatch-raft"),
        ];
        let found: Vec<String> = wrong_edges(&packages)
            .into_iter()
            .map(|it| it.what)
            .collect();
        let expected = [
            "redlatch-actuator depends on redlatch-raft",
            "redlatch-node depends on redlatch-sim",
            "unknown crate redlatch-new",
            "redlatch-watch depends on redlatch-raft",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_impure_package_at_any_depth_is_found() {
        let tree =
            "redlatch-types v0.1.0 (x)\nrand_core v0.6.4\ngetrandom v0.2.17\nrand v0.8.5 (*)\n";
        let found: Vec<String> = impure("redlatch-types", tree)
            .into_iter()
            .map(|it| it.what)
            .collect();
        let expected = [
            "redlatch-types reaches getrandom",
            "redlatch-types reaches rand",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_refused_package_version_or_source_is_found() {
        let lock = "[[package]]\nname = \"openraft\"\nversion = \"0.10.0-alpha.37\"\nsource = \"git+https://example.org/x\"\n\n[[package]]\nname = \"openssl\"\nversion = \"0.10.0\"\n";
        let lines: Vec<usize> = refused(lock).iter().map(|it| it.line).collect();
        assert_eq!(lines, [3, 4, 7]);
    }

    #[test]
    fn a_manifest_without_lints_is_found() {
        let text =
            "[package]\nlicense.workspace = true\n[lints]\n[dependencies]\nworkspace = true\n";
        assert_eq!(unlinted("x/Cargo.toml", text).len(), 2);
    }
}
