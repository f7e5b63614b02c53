//! Doors for the model checker and for proofs by mutation never reach a shipped binary (D3).
//!
//! Such a door is named: a function `symbolic…` or `mutant…`, a feature or cfg `symbolic` or
//! `mutant`. It may exist in shipped sources only under a gate, and no manifest may open the gate.

use crate::finding::{Finding, none};
use crate::source::{self, Source};

const NAMES: [&str; 2] = ["symbolic", "mutant"];

fn names_a_door(code: &str) -> bool {
    NAMES.iter().any(|name| code.to_lowercase().contains(name))
}

fn is_gate(raw: &str) -> bool {
    let raw = raw.trim_start();
    let cfg = raw.starts_with("#[cfg(") || raw.starts_with("#![cfg(");
    cfg && !raw.contains("not(")
        && (NAMES.iter().any(|name| raw.contains(name)) || raw.contains("test"))
}

/// Production lines that name a door and stand in no gated item.
fn open_doors(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|it| it.shipped()) {
        let mut closed_until = 0;
        for (index, line) in source.lines.iter().enumerate() {
            if is_gate(&line.raw) {
                let whole_file = line.raw.starts_with("#![");
                let end = source::item_end(&source.lines, index) + 1;
                closed_until = closed_until.max(if whole_file { usize::MAX } else { end });
            }
            if !line.test && index >= closed_until && names_a_door(&line.code) {
                findings.push(Finding::new(&source.path, index + 1, line.code.trim()));
            }
        }
    }
    findings
}

/// Lines of a manifest that open a gate outside development dependencies.
fn opened_gates(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut section = "";
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            section = line;
        }
        let comment = line.trim_start().starts_with('#');
        let declares = section == "[features]" && !line.starts_with("default");
        let development = section.contains("dev-dependencies") || section.contains("lints");
        if !comment && !declares && !development && names_a_door(line) {
            findings.push(Finding::new(path, index + 1, line));
        }
    }
    findings
}

#[test]
fn no_mutant_and_no_symbolic_constructor_is_shipped() {
    none(
        open_doors(&source::all()),
        "Gate the item by #[cfg(test)] or #[cfg(feature = \"symbolic\")].",
    );
    let root = redlatch_tests::repository();
    let manifests = source::files();
    let opened = manifests
        .iter()
        .filter(|path| path.ends_with("Cargo.toml") && !path.starts_with("sim/"))
        .flat_map(|path| opened_gates(path, &source::read(&root, path)))
        .collect();
    none(opened, "Only a dev-dependency may name this feature.");
}

mod bad_examples {
    use super::*;
    use crate::finding::places;

    #[test]
    fn an_ungated_door_is_found() {
        let text = "pub fn symbolic() {}\n#[cfg(feature = \"symbolic\")]\npub fn symbolic_vote() {\n    a(mutant);\n}\n#[cfg(not(test))]\npub fn mutant() {}\n";
        let sources = [
            Source::parse("proto/types/src/a.rs", text),
            Source::parse("sim/src/a.rs", text),
        ];
        let here = "proto/types/src/a.rs";
        let found = open_doors(&sources);
        assert_eq!(places(&found), [(here, 1), (here, 7)]);
    }

    #[test]
    fn a_manifest_that_opens_a_gate_is_found() {
        let text = "[features]\nsymbolic = []\ndefault = [\"symbolic\"]\n[dependencies]\na = { features = [\"mutant\"] }\n[dev-dependencies]\na = { features = [\"mutant\"] }\n";
        let lines: Vec<usize> = opened_gates("Cargo.toml", text)
            .iter()
            .map(|it| it.line)
            .collect();
        assert_eq!(lines, [3, 5]);
    }
}
