//! What must not stay behind: notes to oneself, silenced tests, paths of one machine.

use crate::finding::{Finding, none};
use crate::source::{self, mentions};

/// Words in any text of ours. Spelled in two halves, so that this file does not find itself.
const WORDS: [&str; 5] = [
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("XX", "X"),
    concat!("HA", "CK"),
    concat!("for ", "now"),
];

/// Words in Rust code.
const CODE: [&str; 4] = [
    concat!("db", "g!"),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("#[ig", "nore"),
];

/// Home and build folders of one machine.
const MACHINE: [&str; 4] = [
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
];

/// Ends of the names of files that people write.
const TEXT: [&str; 10] = [
    ".rs", ".md", ".toml", ".sh", ".proto", ".yaml", ".yml", ".service", "Makefile", ".ci/run",
];

fn is_text(path: &str) -> bool {
    TEXT.iter().any(|end| path.ends_with(end))
}

fn notes(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for word in WORDS {
            if mentions(line, word) {
                findings.push(Finding::new(path, index + 1, word));
            }
        }
        for word in CODE {
            let comment = line.trim_start().starts_with("//");
            if path.ends_with(".rs") && !comment && mentions(line, word) {
                findings.push(Finding::new(path, index + 1, word));
            }
        }
    }
    findings
}

/// An absolute path begins after a space, a quote, a bracket, `=` or `:`, not inside a longer path.
fn machine_paths(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for prefix in MACHINE {
            let absolute = line.match_indices(prefix).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                before.is_none_or(|c| !c.is_alphanumeric() && !"./_-}~".contains(c))
            });
            if absolute {
                findings.push(Finding::new(path, index + 1, prefix));
            }
        }
    }
    findings
}

/// Applies a rule to every text file of the checkout.
fn in_texts(rule: fn(&str, &str) -> Vec<Finding>) -> Vec<Finding> {
    let root = redlatch_tests::repository();
    let files = source::files();
    files
        .iter()
        .filter(|path| is_text(path))
        .flat_map(|path| rule(path, &source::read(&root, path)))
        .collect()
}

#[test]
fn nothing_is_left_for_later() {
    none(
        in_texts(notes),
        "Finish it or file an issue; a test that does not run is removed or repaired.",
    );
}

#[test]
fn no_path_of_one_machine() {
    none(
        in_texts(machine_paths),
        "Write the path relative to the repository, or take it from a variable.",
    );
}

mod bad_examples {
    use super::*;

    #[test]
    fn notes_and_silenced_tests_are_found() {
        let text = format!(
            "// {}: later\nlet a = {}(b);\n{}]\nfn c() {{}} // HACKERS, TODOS\n",
            WORDS[0], CODE[0], CODE[3]
        );
        let lines: Vec<usize> = notes("a.rs", &text).iter().map(|it| it.line).collect();
        assert_eq!(lines, [1, 2, 3]);
    }

    #[test]
    fn an_absolute_path_is_found_and_a_relative_one_is_not() {
        let text = format!("cd {0}x\nsee docs{0}x\nsee \"{0}y\"\n", MACHINE[1]);
        let lines: Vec<usize> = machine_paths("a.md", &text)
            .iter()
            .map(|it| it.line)
            .collect();
        assert_eq!(lines, [1, 3]);
    }
}
