//! The invariants table of docs/ARCHITECTURE.md against the names of the tests, both ways.
//!
//! The id of a row, written as a word of a function's name (`M1-I24` is `m1_i24`), must be in the
//! name of a test. An id of a family that the table lists (`m1_i…`) in a test's name must have a row.

use crate::finding::{Finding, none};
use crate::source::{self, Source};

const TABLE: &str = "docs/ARCHITECTURE.md";

/// Ids in the first column of the tables below a heading with the word *invariants*.
fn rows(document: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = None;
    for (index, line) in document.lines().enumerate() {
        let level = line.chars().take_while(|c| *c == '#').count();
        if level > 0 {
            let named = line.to_lowercase().contains("invariants");
            inside = match inside {
                Some(outer) if level > outer => Some(outer),
                _ => named.then_some(level),
            };
        }
        let cell = line
            .strip_prefix('|')
            .and_then(|rest| rest.split('|').next());
        if inside.is_some()
            && let Some(id) = cell.and_then(id_of)
        {
            found.push((index + 1, id));
        }
    }
    found
}

/// The id at the beginning of a cell: capitals, digits and dashes, with a digit at its end.
fn id_of(cell: &str) -> Option<String> {
    let word = cell.split_whitespace().next()?;
    let word = word.trim_matches(['*', '`']);
    let letters = word.starts_with(|c: char| c.is_ascii_uppercase());
    let known = word
        .chars()
        .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-');
    let numbered = word.ends_with(|c: char| c.is_ascii_digit());
    (letters && known && numbered).then(|| word.to_lowercase().replace('-', "_"))
}

/// Test functions: file, line, name.
fn tests(sources: &[Source]) -> Vec<(String, usize, String)> {
    let mut found = Vec::new();
    for source in sources {
        let mut marked = false;
        for (index, line) in source.lines.iter().enumerate() {
            let code = line.code.trim();
            if code.starts_with("#[") {
                marked |= code.contains("test]") || code.contains("test(");
            } else if let Some((_, rest)) = code.split_once("fn ") {
                let name = rest.split(['(', '<']).next().unwrap_or_default();
                if marked {
                    found.push((source.path.clone(), index + 1, name.to_owned()));
                }
                marked = false;
            } else if !code.is_empty() {
                marked = false;
            }
        }
    }
    found
}

/// Is `id` one or more whole words of `name`?
fn names(name: &str, id: &str) -> bool {
    format!("_{name}_").contains(&format!("_{id}_"))
}

/// An id without its number.
fn family(id: &str) -> &str {
    id.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Ids of `family` in a test's name.
fn ids_in(name: &str, family: &str) -> Vec<String> {
    let padded = format!("_{name}_");
    let prefix = format!("_{family}");
    let starts = padded.match_indices(&prefix);
    let number = |at: usize| -> String {
        let rest = padded[at + prefix.len()..].chars();
        rest.take_while(char::is_ascii_digit).collect()
    };
    starts
        .map(|(at, _)| number(at))
        .filter(|digits| !digits.is_empty())
        .map(|digits| format!("{family}{digits}"))
        .filter(|id| names(name, id))
        .collect()
}

fn mismatches(document: &str, sources: &[Source]) -> Vec<Finding> {
    let rows = rows(document);
    let tests = tests(sources);
    let mut findings = Vec::new();
    for (line, id) in &rows {
        if !tests.iter().any(|(_, _, name)| names(name, id)) {
            findings.push(Finding::new(
                TABLE,
                *line,
                format!("no test is named {id}_…"),
            ));
        }
    }
    let mut families: Vec<&str> = rows.iter().map(|(_, id)| family(id)).collect();
    families.sort_unstable();
    families.dedup();
    for (path, line, name) in &tests {
        let ids = families.iter().flat_map(|family| ids_in(name, family));
        for id in ids.filter(|id| !rows.iter().any(|(_, row)| row == id)) {
            findings.push(Finding::new(
                path,
                *line,
                format!("{id} has no row in {TABLE}"),
            ));
        }
    }
    findings
}

#[test]
fn every_invariant_has_a_test_and_every_tested_id_a_row() {
    let document = source::read(&redlatch_tests::repository(), TABLE);
    none(
        mismatches(&document, &source::all()),
        "Name the test after the invariant it checks (M1-I24: m1_i24_…), or add the row.",
    );
    assert!(
        document.is_empty() || !rows(&document).is_empty(),
        "{TABLE} has no table of invariants: a heading with that word, ids in the first column"
    );
}

mod bad_examples {
    use super::*;
    use crate::finding::places;

    const DOCUMENT: &str = "# A\n\n| M1-I1 | not here |\n\n## Invariants\n\n| ID | statement |\n|---|---|\n| M1-I24 | a |\n| `M1-I2` freeze | b |\n\n## Next\n\n| M1-I9 | c |\n";

    #[test]
    fn rows_are_read_below_their_heading_only() {
        let ids: Vec<String> = rows(DOCUMENT).into_iter().map(|(_, id)| id).collect();
        assert_eq!(ids, ["m1_i24", "m1_i2"]);
    }

    #[test]
    fn a_row_without_test_and_a_test_without_row_are_found() {
        let text = "#[test]\nfn m1_i24_freeze() {}\n\n#[tokio::test(start_paused = true)]\nasync fn red_m1_i7() {}\nfn m1_i2_no_test() {}\n#[test]\nfn m1_issue() {}\n";
        let sources = [Source::parse("a/src/x.rs", text)];
        let found = mismatches(DOCUMENT, &sources);
        assert_eq!(places(&found), [(TABLE, 10), ("a/src/x.rs", 5)]);
    }
}
