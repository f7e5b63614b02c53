//! Long functions and files: the lists may only shrink.

use crate::finding::{Finding, none};
use crate::source::{self, Source, indent};

/// Lines of a function from which one talks about it.
const FUNCTION_LINES: usize = 70;
/// Lines of a file, tests included.
const FILE_LINES: usize = 800;

/// Functions that are longer: file, function, lines. Never add to this list or raise a number.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];
/// Files that are longer: file, lines. Never add to this list or raise a number.
const LONG_FILES: &[(&str, usize)] = &[];

/// A function of production code.
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// The name a line of code defines a function by.
fn function_name(code: &str) -> Option<&str> {
    let code = code.trim_start();
    let at = code.find("fn ")?;
    let opens = code[..at].split_whitespace().all(|word| {
        matches!(word, "pub" | "async" | "const" | "unsafe" | "extern") || word.starts_with("pub(")
    });
    let name = code[at + 3..].split(['(', '<']).next()?;
    (opens && !name.is_empty()).then_some(name)
}

fn functions(source: &Source) -> Vec<Function> {
    let mut found = Vec::new();
    for (index, line) in source.lines.iter().enumerate() {
        let Some(name) = function_name(&line.code) else {
            continue;
        };
        if line.test {
            continue;
        }
        let close = format!("{}}}", " ".repeat(indent(&line.code)));
        let body = source.lines[index..].iter();
        let one_line = line.code.ends_with('}') || line.code.ends_with(';');
        let end = body.clone().position(|it| it.code.starts_with(&close));
        found.push(Function {
            name: name.to_owned(),
            line: index + 1,
            lines: if one_line {
                1
            } else {
                end.map_or(1, |end| end + 1)
            },
        });
    }
    found
}

/// A length against what the list allows: new, grown, or listed without need.
fn ratchet(lines: usize, limit: usize, listed: Option<usize>) -> Option<String> {
    match listed {
        None if lines > limit => Some(format!("{lines} lines, more than {limit}")),
        Some(allowed) if lines > allowed => Some(format!("grew from {allowed} to {lines} lines")),
        Some(allowed) if lines < allowed => {
            Some(format!("has {lines} lines, listed with {allowed}"))
        }
        _ => None,
    }
}

fn long_functions(sources: &[Source], listed: &[(&str, &str, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        for function in functions(source) {
            let entry = listed
                .iter()
                .find(|(path, name, _)| *path == source.path && *name == function.name);
            if let Some(what) = ratchet(function.lines, FUNCTION_LINES, entry.map(|it| it.2)) {
                let what = format!("fn {}: {what}", function.name);
                findings.push(Finding::new(&source.path, function.line, what));
            }
        }
    }
    findings
}

fn long_files(sources: &[Source], listed: &[(&str, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let entry = listed.iter().find(|(path, _)| *path == source.path);
        if let Some(what) = ratchet(source.lines.len(), FILE_LINES, entry.map(|it| it.1)) {
            findings.push(Finding::new(&source.path, 0, what));
        }
    }
    findings
}

/// Entries for files that are gone.
fn dead_entries<'a>(sources: &[Source], paths: impl Iterator<Item = &'a str>) -> Vec<Finding> {
    paths
        .filter(|path| !sources.iter().any(|source| source.path == *path))
        .map(|path| {
            Finding::new(
                "tests/tidy/sizes.rs",
                0,
                format!("lists {path}, which is gone"),
            )
        })
        .collect()
}

#[test]
fn functions_do_not_grow_past_the_mark() {
    none(
        long_functions(&source::all(), LONG_FUNCTIONS),
        "Split it by what it does; if it shrank, lower its number in LONG_FUNCTIONS or drop it.",
    );
}

#[test]
fn files_do_not_grow_past_the_mark() {
    let sources = source::all();
    none(
        long_files(&sources, LONG_FILES),
        "Split it by topic; if it shrank, lower its number in LONG_FILES or drop it.",
    );
    let listed = LONG_FILES.iter().map(|it| it.0);
    let functions = LONG_FUNCTIONS.iter().map(|it| it.0);
    none(
        dead_entries(&sources, listed.chain(functions)),
        "Drop the entry.",
    );
}

mod bad_examples {
    use super::*;

    fn function_of(lines: usize) -> Source {
        let body = "    step();\n".repeat(lines - 2);
        Source::parse(
            "a/src/x.rs",
            &format!("fn short() {{}}\npub(crate) async fn long<T>(\n{body}}}\n"),
        )
    }

    #[test]
    fn a_long_function_is_found_unless_listed() {
        let sources = [function_of(71)];
        assert_eq!(long_functions(&sources, &[]).len(), 1);
        assert_eq!(long_functions(&[function_of(70)], &[]), []);
        assert_eq!(long_functions(&sources, &[("a/src/x.rs", "long", 71)]), []);
    }

    #[test]
    fn a_listed_function_may_neither_grow_nor_keep_a_number_it_does_not_need() {
        let listed = [("a/src/x.rs", "long", 75)];
        assert_eq!(long_functions(&[function_of(76)], &listed).len(), 1);
        assert_eq!(long_functions(&[function_of(74)], &listed).len(), 1);
        assert_eq!(long_functions(&[function_of(75)], &listed), []);
    }

    #[test]
    fn a_long_file_and_a_dead_entry_are_found() {
        let sources = [Source::parse("a/src/x.rs", &"//\n".repeat(801))];
        assert_eq!(long_files(&sources, &[]).len(), 1);
        assert_eq!(dead_entries(&sources, ["b.rs"].into_iter()).len(), 1);
    }
}
