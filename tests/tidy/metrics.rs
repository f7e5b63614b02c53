//! docs/metrics.md against the names in shipped code, both ways.
//!
//! The first column of the page's tables, where it holds a name of ours in backticks, is the page's list. A
//! name in the code is the text of a `CounterName`, `GaugeName` or `HistogramName`.

use crate::finding::{Finding, none, places};
use crate::source::{self, Source};

const PAGE: &str = "docs/metrics.md";
const KINDS: [&str; 3] = [
    "CounterName::new(",
    "GaugeName::new(",
    "HistogramName::new(",
];

/// Names of the page with their lines. A table with only one column of names lists none twice.
fn listed(page: &str) -> Vec<(usize, String)> {
    let numbered = page.lines().enumerate();
    numbered
        .filter_map(|(index, line)| {
            let cell = line.strip_prefix("| `redlatch_")?.split('`').next()?;
            // A sentence in the first column is no entry.
            let whole = line.starts_with(&format!("| `redlatch_{cell}` | "));
            whole.then(|| (index + 1, format!("redlatch_{cell}")))
        })
        .filter(|(line, _)| !is_sign(page, *line))
        .collect()
}

/// Whether a line belongs to the table of signs, which explains names and lists none.
fn is_sign(page: &str, line: usize) -> bool {
    let before = page.lines().take(line);
    let heading = before.filter(|it| it.starts_with("## ")).last();
    heading == Some("## What to watch")
}

/// Names in shipped code, with their places.
fn used(sources: &[Source]) -> Vec<(String, usize, String)> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.shipped()) {
        for (number, code) in source.production() {
            if !KINDS.iter().any(|kind| code.contains(kind)) {
                continue;
            }
            // rustfmt may put the text on the next line.
            let raw = source.lines[number - 1..].iter().take(2);
            let text = raw.map(|line| line.raw.as_str()).collect::<String>();
            let name = text.split('"').nth(1).unwrap_or_default();
            if name.starts_with("redlatch_") {
                found.push((source.path.clone(), number, name.to_owned()));
            }
        }
    }
    found
}

fn mismatches(page: &str, sources: &[Source]) -> Vec<Finding> {
    let (listed, used) = (listed(page), used(sources));
    let mut findings = Vec::new();
    for (path, line, name) in &used {
        if !listed.iter().any(|(_, it)| it == name) {
            findings.push(Finding::new(
                path,
                *line,
                format!("{name} is not in {PAGE}"),
            ));
        }
    }
    for (index, (line, name)) in listed.iter().enumerate() {
        if !used.iter().any(|(_, _, it)| it == name) {
            findings.push(Finding::new(PAGE, *line, format!("nothing counts {name}")));
        }
        if listed[..index].iter().any(|(_, it)| it == name) {
            findings.push(Finding::new(PAGE, *line, format!("{name} twice")));
        }
    }
    findings
}

#[test]
fn the_page_lists_the_metrics_that_the_code_counts() {
    let page = source::read(&redlatch_tests::repository(), PAGE);
    let sources = source::all();
    assert!(listed(&page).len() > 40, "the page's tables are not read");
    none(
        mismatches(&page, &sources),
        "Operators know a metric by docs/metrics.md: give each one a row, and take away the rows of those that are gone.",
    );
}

#[test]
fn a_missing_an_extra_and_a_repeated_name_are_found() {
    let page = "| name | labels | what |\n|---|---|---|\n\
        | `redlatch_a_b_total` | | x |\n| `redlatch_a_c_count` | | x |\n| `redlatch_a_b_total` | | x |\n\
        ## What to watch\n| `redlatch_a_d_count` | x |\n";
    let code = "const A: CounterName = CounterName::new(\"redlatch_a_b_total\");\n\
        const D: GaugeName =\n    GaugeName::new(\n        \"redlatch_a_d_count\",\n    );\n";
    let sources = [Source::parse("x/src/metrics.rs", code)];
    let found = mismatches(page, &sources);
    let expected = [("x/src/metrics.rs", 3), (PAGE, 4), (PAGE, 5)];
    assert_eq!(places(&found), expected);
}
