//! Measured numbers in the README are those of the last record that `deploy/bench.sh --record` wrote.

use crate::finding::{Finding, none};
use crate::source;
use serde_json::Value;

const README: &str = "README.md";
const RECORD: &str = "docs/measured/append.json";
/// The table's heading.
const HEADING: &str = "| clients | appends/s | p50 | p99 |";

/// A latency with as many digits as it is worth.
fn latency(ms: f64) -> String {
    if ms < 10.0 {
        format!("{ms:.1} ms")
    } else {
        format!("{ms:.0} ms")
    }
}

/// The rows that a record makes; none if it is no record.
fn rows(record: &Value) -> Option<Vec<String>> {
    let runs = record["runs"].as_array()?;
    let row = |run: &Value| {
        let (clients, rate) = (
            run["clients"].as_u64()?,
            run["appends_per_second"].as_f64()?,
        );
        let (p50, p99) = (run["p50_ms"].as_f64()?, run["p99_ms"].as_f64()?);
        let failed = run["errors"].as_object()?.len();
        let (p50, p99) = (latency(p50), latency(p99));
        (failed == 0).then(|| format!("| {clients} | {rate:.0} | {p50} | {p99} |"))
    };
    runs.iter().map(row).collect()
}

/// What a record says about its circumstances, as the README has to say it.
fn circumstances(record: &Value) -> Option<String> {
    let text = |name: &str| record[name].as_str();
    let (cores, load) = (record["cores"].as_u64()?, record["load_before"].as_f64()?);
    let (date, cpu, profile) = (text("date")?, text("cpu")?, text("profile")?);
    Some(format!(
        "Measured on {date}: {cores} cores ({cpu}), {profile} profile, load {load:.1} before it began."
    ))
}

/// Rows of the README's table, with the line of the first.
fn shown(readme: &str) -> (usize, Vec<&str>) {
    let lines: Vec<&str> = readme.lines().collect();
    let heading = lines.iter().position(|it| *it == HEADING);
    let first = heading.map_or(lines.len(), |at| at + 2);
    let rows = lines.iter().skip(first);
    let rows = rows.take_while(|it| it.starts_with('|')).copied().collect();
    (first + 1, rows)
}

fn departures(readme: &str, record: &Value) -> Vec<Finding> {
    let (Some(rows), Some(said)) = (rows(record), circumstances(record)) else {
        return vec![Finding::new(RECORD, 0, "is no record without errors")];
    };
    let mut findings = Vec::new();
    let (line, shown) = shown(readme);
    if shown != rows {
        let what = format!("the table has to be:\n{}", rows.join("\n"));
        findings.push(Finding::new(README, line, what));
    }
    let prose = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    if !prose.contains(&said) {
        findings.push(Finding::new(README, line, format!("has to say: {said}")));
    }
    findings
}

#[test]
fn the_readme_shows_the_numbers_that_were_measured_last() {
    let root = redlatch_tests::repository();
    let record = serde_json::from_str(&source::read(&root, RECORD)).expect("a record is JSON");
    none(
        departures(&source::read(&root, README), &record),
        "Measure again with `make bench ARGS=--record`, and show what it recorded.",
    );
}

mod bad_examples {
    use super::*;

    fn record() -> Value {
        serde_json::json!({
            "date": "2026-01-02", "profile": "dev", "cores": 2, "cpu": "X", "load_before": 0.04,
            "runs": [
                { "clients": 1, "appends_per_second": 266.6, "p50_ms": 3.71, "p99_ms": 9.97, "errors": {} },
                { "clients": 64, "appends_per_second": 850.2, "p50_ms": 75.4, "p99_ms": 119.1, "errors": {} },
            ]
        })
    }

    const GOOD: &str = "Text. Measured on 2026-01-02: 2 cores (X), dev\nprofile, load 0.0 before it began.\n\n| clients | appends/s | p50 | p99 |\n|---|---|---|---|\n| 1 | 267 | 3.7 ms | 10.0 ms |\n| 64 | 850 | 75 ms | 119 ms |\n\n| other |\n";

    #[test]
    fn another_number_row_or_day_is_found() {
        assert_eq!(departures(GOOD, &record()), []);
        let wrong = [
            ("3.7 ms", "3.6 ms"),
            ("| 64 | 850 | 75 ms | 119 ms |\n", ""),
            ("2026-01-02", "2026-01-03"),
            ("| clients | appends/s", "| clients | per second"),
        ];
        for (right, wrong) in wrong {
            let text = GOOD.replace(right, wrong);
            assert_eq!(departures(&text, &record()).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn a_record_with_errors_or_without_a_part_is_none() {
        let mut failed = record();
        failed["runs"][1]["errors"]["limit"] = "3".into();
        assert_eq!(departures(GOOD, &failed).len(), 1);
        let mut part = record();
        part["cores"] = Value::Null;
        assert_eq!(departures(GOOD, &part).len(), 1);
    }
}
