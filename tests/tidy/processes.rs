//! Every process of the product stands in the simulated world, with an invariant that watches it.
//!
//! A process is a package with a binary that runs for long: all of them but the person's tool and the
//! simulator itself. The simulator says in one table which invariants watch which process; that each of them
//! has a planted fault is its own test.

use crate::finding::{Finding, none};
use crate::source;

const TABLE: &str = "sim/src/invariants/mod.rs";
const MANIFEST: &str = "sim/Cargo.toml";
/// They end when they have answered; `poison` is a fuzzer's target.
const TOOLS: [&str; 3] = ["redlatch", "redlatch-sim", "poison"];

/// Names of the binaries that a manifest declares, or that its folder's `main.rs` makes.
fn binaries(manifest: &str, has_main: bool) -> Vec<String> {
    let mut found = Vec::new();
    let (mut section, mut package) = ("", "");
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let name = line
            .strip_prefix("name = \"")
            .and_then(|rest| rest.strip_suffix('"'));
        match (section, name) {
            ("[package]", Some(name)) => package = name,
            ("[[bin]]", Some(name)) => found.push(name.to_owned()),
            _ => {}
        }
    }
    if found.is_empty() && has_main {
        found.push(package.to_owned());
    }
    found
}

/// Processes that the simulator's table or its dependencies leave out.
fn left_out(processes: &[String], table: &str, manifest: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for process in processes.iter().filter(|it| !TOOLS.contains(&it.as_str())) {
        let watched = table.contains(&format!("\"{process}\","));
        if !watched {
            findings.push(Finding::new(
                TABLE,
                1,
                format!("no invariant watches {process}"),
            ));
        }
        if !manifest.contains(&format!("\n{process}.workspace = true")) {
            findings.push(Finding::new(
                MANIFEST,
                1,
                format!("{process} is not simulated"),
            ));
        }
    }
    findings
}

#[test]
fn every_process_is_simulated_and_watched() {
    let root = redlatch_tests::repository();
    let files = source::files();
    let manifests = files.iter().filter(|path| path.ends_with("Cargo.toml"));
    let mut processes = Vec::new();
    for path in manifests {
        let main = path.replace("Cargo.toml", "src/main.rs");
        processes.extend(binaries(&source::read(&root, path), files.contains(&main)));
    }
    assert!(processes.len() >= 6, "{processes:?}");
    none(
        left_out(
            &processes,
            &source::read(&root, TABLE),
            &source::read(&root, MANIFEST),
        ),
        "A new process joins the simulated world together with its first invariant.",
    );
}

mod bad_examples {
    use super::*;

    #[test]
    fn binaries_are_read_from_manifests() {
        let named = "[package]\nname = \"a\"\n[lib]\nname = \"b\"\n[[bin]]\nname = \"c\"\n";
        assert_eq!(binaries(named, true), ["c"]);
        let plain = "[package]\nname = \"a\"\n[lib]\nname = \"b\"\n";
        assert_eq!(binaries(plain, true), ["a"]);
        assert!(binaries(plain, false).is_empty());
    }

    #[test]
    fn a_process_without_a_watch_or_a_simulation_is_found() {
        let processes = ["redlatch", "one", "two"].map(str::to_owned);
        let table = "    (\"one\", &[\"nothing_lost\"]),\n";
        let manifest = "[dependencies]\none.workspace = true\n";
        assert!(left_out(&processes[..2], table, manifest).is_empty());
        assert_eq!(left_out(&processes, table, manifest).len(), 2);
    }
}
