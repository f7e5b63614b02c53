//! Every command in the README exists: make targets, subcommands and options, paths of scripts.

use crate::finding::{Finding, none};
use crate::source;
use std::process::Command;

const README: &str = "README.md";

/// Commands of the README with their line: in shell blocks every line, in other blocks lines that
/// begin with `$ `, and inline code that begins with a command of ours.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut block: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() {
                None
            } else {
                Some(language.trim())
            };
            continue;
        }
        match block {
            Some(language) => {
                let shell = ["sh", "bash", "shell"].contains(&language);
                let prompted = line.trim_start().strip_prefix("$ ");
                let typed = prompted.or((shell && !line.starts_with(' ')).then_some(line));
                found.extend(typed.map(|command| (number, command.to_owned())));
            }
            None => {
                let spans = line.split('`').skip(1).step_by(2);
                let ours = spans.filter(|span| {
                    let first = span.split(' ').next().unwrap_or_default();
                    span.contains(' ') && (first == "make" || program(first).is_some())
                });
                found.extend(ours.map(|span| (number, span.to_owned())));
            }
        }
    }
    found
}

/// The product binary that a first word means. The simulator is built in its own world: the README
/// reaches it through make.
fn program(word: &str) -> Option<&str> {
    let name = word.rsplit('/').next().unwrap_or(word);
    let ours = name == "redlatch" || name.starts_with("redlatch-");
    (ours && !name.contains('.') && name != "redlatch-sim").then_some(name)
}

/// The simple commands of a line, without assignments, comments and what follows them.
fn simple(line: &str) -> Vec<Vec<&str>> {
    let line = line.split(" #").next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let parts = words.split(|word| ["&&", "||", "|", ";", "&", "\\"].contains(word));
    parts
        .map(|part| {
            let assignment = |word: &&&str| word.contains('=') && !word.starts_with('-');
            let skip = part.iter().take_while(assignment).count();
            part[skip..].to_vec()
        })
        .filter(|part| !part.is_empty())
        .collect()
}

/// Make targets that do not exist.
fn unknown_targets<'a>(words: &[&'a str], makefile: &str) -> Vec<&'a str> {
    let quoted = |word: &&&str| !word.contains(['=', '"', '\'']) && !word.starts_with('-');
    let targets = words[1..].iter().filter(quoted);
    targets
        .filter(|target| {
            let rule = format!("{target}:");
            !makefile.lines().any(|line| line.starts_with(&rule))
        })
        .copied()
        .collect()
}

/// Names below `Commands:` of a help text; empty if it has none.
fn listed(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    lines
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

/// The first subcommand or option that a program's help does not know. `help` answers the help
/// text of a subcommand path.
fn unknown_words(words: &[&str], help: &dyn Fn(&[&str]) -> String) -> Option<String> {
    let mut path: Vec<&str> = Vec::new();
    let mut text = help(&path);
    let mut words = words[1..].iter();
    while let Some(word) = words.next() {
        let names = listed(&text);
        // The one option before a subcommand that takes a value of its own.
        if *word == "--dir" {
            words.next();
            continue;
        }
        let option = word.split('=').next().unwrap_or(word);
        if option.starts_with('-') {
            let known = source::mentions(&text, option) || option == "--";
            if !known {
                return Some(option.to_owned());
            }
        } else if !names.is_empty() {
            let (last, others) = word
                .split('|')
                .collect::<Vec<_>>()
                .split_last()
                .map(|(last, others)| (*last, others.to_vec()))?;
            let missing = others
                .into_iter()
                .chain([last])
                .find(|it| !names.contains(it));
            if let Some(missing) = missing {
                return Some(missing.to_owned());
            }
            path.push(last);
            text = help(&path);
        }
    }
    None
}

fn help(binary: &std::path::Path, path: &[&str]) -> String {
    let output = Command::new(binary).args(path).arg("--help").output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A script that is called by its path.
fn script<'a>(words: &[&'a str]) -> Option<&'a str> {
    let called = if words[0] == "bash" {
        words.get(1)?
    } else {
        words[0]
    };
    let ours =
        called.starts_with("deploy/") || called.starts_with(".ci/") || called.starts_with("./");
    ours.then_some(called.trim_start_matches("./"))
}

#[test]
fn every_command_of_the_readme_exists() {
    let root = redlatch_tests::repository();
    let makefile = source::read(&root, "Makefile");
    let mut findings = Vec::new();
    for (line, command) in commands(&source::read(&root, README)) {
        for words in simple(&command) {
            if words[0] == "make" {
                let unknown = unknown_targets(&words, &makefile);
                findings.extend(
                    unknown
                        .iter()
                        .map(|it| Finding::new(README, line, format!("make {it}"))),
                );
            } else if let Some(name) = program(words[0]) {
                let binary = redlatch_tests::binary(name);
                let unknown = unknown_words(&words, &|path| help(&binary, path));
                findings.extend(
                    unknown.map(|it| Finding::new(README, line, format!("{name} has no {it}"))),
                );
            } else if let Some(path) = script(&words).filter(|path| !root.join(path).exists()) {
                findings.push(Finding::new(README, line, format!("no file {path}")));
            }
        }
    }
    none(
        findings,
        "The README shows only what runs: correct it, or add the command.",
    );
}

mod bad_examples {
    use super::*;

    const TEXT: &str = "Run `make test` or `redlatch status --all`; `make` alone lists.\n\n```sh\nmake demo ARGS=\"--strict 2\" # once\nA=1 redlatch dev && bash .ci/run\n```\n\n```text\n$ redlatch journal tail\nmake believe\n```\n";

    #[test]
    fn commands_are_found_in_blocks_and_in_code() {
        let lines: Vec<usize> = commands(TEXT).iter().map(|it| it.0).collect();
        assert_eq!(lines, [1, 1, 4, 5, 9]);
        let parts = simple("A=1 redlatch dev && bash .ci/run # x");
        assert_eq!(parts, [vec!["redlatch", "dev"], vec!["bash", ".ci/run"]]);
        assert_eq!(script(&parts[1]), Some(".ci/run"));
    }

    #[test]
    fn an_unknown_target_is_found() {
        let words = ["make", "test", "dema", "ARGS=\"--strict", "2\""];
        assert_eq!(unknown_targets(&words, "test: x\ndemo:\n"), ["dema"]);
    }

    #[test]
    fn an_unknown_subcommand_or_option_is_found() {
        let help = |path: &[&str]| match path {
            [] => "Commands:\n  receipt  Receipts\n  status   State\n\nOptions:\n  -h, --help\n",
            ["receipt"] => "Commands:\n  get     One\n  verify  Offline\n\n",
            _ => "Options:\n      --policy <FILE>\n",
        };
        let check = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            unknown_words(&words, &|path| help(path).to_owned())
        };
        assert_eq!(check("redlatch receipt verify x --policy p"), None);
        assert_eq!(check("redlatch receipt get|verify"), None);
        assert_eq!(check("redlatch receipt get|put"), Some("put".to_owned()));
        assert_eq!(check("redlatch recipe"), Some("recipe".to_owned()));
        assert_eq!(check("redlatch status --all"), Some("--all".to_owned()));
    }
}
