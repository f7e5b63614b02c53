//! Doors for the model checker and for proofs by mutation never reach a shipped binary (D3).
//!
//! Such a door is named: a function `symbolic…` or `mutant…`, a feature or cfg `symbolic` or
//! `mutant`. It may exist in shipped sources only under a gate, and no manifest may open the gate.
//!
//! A planted bug is a check that a test may switch off. Shipped sources declare such bugs by
//! `planted_bugs!` and ask for them by `planted()`, which is `false` where it is not for a test;
//! they plant none. What that comes to is read from the binaries: none of them has the mark.

use std::path::{Path, PathBuf};

use redlatch_types::planted::MARK;

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

/// Where planted bugs are made.
const PLANTED: &str = "proto/types/src/planted.rs";
/// All that another shipped source may say of them.
const MENTIONS: [&str; 5] = [
    ".planted()",
    "planted_bugs!",
    "mod planted;",
    "crate::planted::Bug;",
    "crate::planted::{self, Bug};",
];

/// Production lines of shipped sources that do more with planted bugs than declare and ask.
fn planting(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let shipped = sources
        .iter()
        .filter(|it| it.shipped() && it.path != PLANTED);
    for source in shipped {
        for (line, code) in source.production() {
            let rest = MENTIONS
                .iter()
                .fold(code.to_owned(), |rest, it| rest.replace(it, ""));
            let lists = ["Bug::ALL", "Bug::by_name"]
                .iter()
                .any(|it| rest.contains(it));
            if lists || rest.to_lowercase().contains("plant") {
                findings.push(Finding::new(&source.path, line, code.trim()));
            }
        }
    }
    findings
}

#[test]
fn shipped_sources_declare_planted_bugs_and_plant_none() {
    none(
        planting(&source::all()),
        "Declare bugs by planted_bugs! in planted.rs, ask by `Bug::X.planted()`; only a test plants.",
    );
}

const BINARIES: [&str; 5] = [
    "redlatch",
    "redlatch-node",
    "redlatch-verifier",
    "redlatch-sentinel",
    "redlatch-actuator",
];

/// Whether a file has the mark of a build in which bugs can be planted.
fn is_marked(file: &Path) -> bool {
    let bytes = std::fs::read(file).expect("the binary is readable");
    let mark = MARK.as_bytes();
    bytes.windows(mark.len()).any(|window| window == mark)
}

/// The same binary as other profiles have left it in the target directory, where they have.
fn of_other_profiles(binary: &Path) -> Vec<PathBuf> {
    let (Some(name), Some(target)) = (binary.file_name(), binary.parent().and_then(Path::parent))
    else {
        return Vec::new();
    };
    ["debug", "release"]
        .iter()
        .map(|profile| target.join(profile).join(name))
        .filter(|path| path != binary && path.is_file())
        .collect()
}

#[test]
fn no_shipped_binary_can_have_a_bug_planted() {
    for name in BINARIES {
        let built = redlatch_tests::binary(name);
        let others = of_other_profiles(&built);
        for binary in [built].iter().chain(&others) {
            let shown = binary.display();
            assert!(!is_marked(binary), "{shown} can have a bug planted");
        }
    }
}

mod bad_examples {
    use super::*;

    #[test]
    fn a_source_that_plants_is_found() {
        let fine = "pub mod planted;\nuse crate::planted::Bug;\nif a && !Bug::A.planted() {}\nredlatch_types::planted_bugs! {}\n";
        let bad = "let _a = Bug::A.plant();\nBug::ALL[0];\nlet a = PLANTED;\n#[cfg(test)]\nfn t() {\n    Bug::A.plant();\n}\n";
        let sources = [
            Source::parse("raft/src/a.rs", fine),
            Source::parse("raft/src/b.rs", bad),
            Source::parse("sim/src/b.rs", bad),
            Source::parse(PLANTED, bad),
        ];
        let here = "raft/src/b.rs";
        assert_eq!(
            places(&planting(&sources)),
            [(here, 1), (here, 2), (here, 3)]
        );
    }

    #[test]
    fn a_marked_binary_is_found() {
        // This one names the mark, so it stands in it.
        let own = std::env::current_exe().expect("a running test has a path");
        assert!(is_marked(&own), "nothing would be found: {MARK}");
    }
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
