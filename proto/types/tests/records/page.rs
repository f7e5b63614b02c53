//! docs/records.md against the sources: what it names exists, and what exists it names.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Sources, root};

/// How many visible fields each class of SPEC part C has, C.3 to C.36. Classes of later issues
/// stand at 0: they have one line in the page's last table.
const VISIBLE: [usize; 34] = [
    21, 8, 3, 3, 27, 4, 3, 15, 17, 8, 5, 9, 4, 5, 7, 2, 5, 5, 5, 2, 5, 12, 14, 15, 1, 4, 11, 0, 0,
    0, 0, 7, 3, 1,
];

fn page() -> String {
    std::fs::read_to_string(root().join("docs/records.md")).unwrap()
}

/// The cells of a table's line.
fn cells(line: &str) -> Vec<&str> {
    let inner = line.strip_prefix('|').and_then(|l| l.strip_suffix('|'));
    inner.map_or_else(Vec::new, |l| l.split('|').map(str::trim).collect())
}

/// Everything between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// `(type, field)` of every `Type.field`, and of the own fields, which stand in two cells.
fn named_fields(page: &str) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let (tables, own) = page.split_once("\n## Own fields\n").unwrap();
    for token in quoted(tables) {
        if let Some((record, field)) = token.split_once('.')
            && record.starts_with(|c: char| c.is_ascii_uppercase())
        {
            found.insert((record.to_owned(), field.to_owned()));
        }
    }
    for line in own.lines() {
        if let [record, fields, _] = cells(line)[..] {
            let record = record.trim_matches('`');
            found.extend(quoted(fields).map(|f| (record.to_owned(), f.to_owned())));
        }
    }
    found
}

/// What the page names that no source has.
fn dangling(page: &str, sources: &Sources) -> Vec<String> {
    let fields = named_fields(page).into_iter();
    let fields = fields.filter(|(record, field)| !sources.has_member(record, field));
    let mut missing: Vec<String> = fields.map(|(r, f)| format!("{r}.{f}")).collect();
    for (owner, member) in quoted(page).filter_map(|t| t.split_once("::")) {
        let exists = sources.has_member(owner, member)
            || sources.has_function(owner, member)
            || (owner, member) == ("Record", "TYPE");
        if !exists {
            missing.push(format!("{owner}::{member}"));
        }
    }
    missing
}

/// Public fields of records that the page does not name.
fn unnamed(page: &str, sources: &Sources) -> Vec<String> {
    let named = named_fields(page);
    let mut missing = Vec::new();
    for record in &sources.records {
        // Variants begin with a capital: they are values, not fields.
        let fields = sources.members[record].iter();
        for field in fields.filter(|f| f.starts_with(|c: char| c.is_ascii_lowercase())) {
            if !named.contains(&(record.clone(), field.clone())) {
                missing.push(format!("{record}.{field}"));
            }
        }
    }
    missing
}

/// Rows of each class, by its number: kind of the field and where it is.
fn rows(page: &str) -> BTreeMap<usize, Vec<(String, String)>> {
    let mut found: BTreeMap<usize, Vec<(String, String)>> = BTreeMap::new();
    let mut class = 0;
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            let number = title.strip_prefix("C.").and_then(|t| t.split(' ').next());
            class = number.map_or(0, |n| n.parse().unwrap());
        }
        if let [field, kind, place] = cells(line)[..]
            && class != 0
            && field.starts_with('`')
        {
            let row = (kind.to_owned(), place.to_owned());
            found.entry(class).or_default().push(row);
        }
    }
    found
}

/// Rows that say nothing, and classes that lack a row.
fn incomplete(page: &str) -> Vec<String> {
    let rows = rows(page);
    let mut wrong = Vec::new();
    for (expected, class) in VISIBLE.into_iter().zip(3..) {
        let found = rows.get(&class).map_or(&[][..], Vec::as_slice);
        let visible = found.iter().filter(|(kind, _)| kind == "V").count();
        if visible != expected {
            wrong.push(format!(
                "C.{class} has {visible} visible rows of {expected}"
            ));
        }
        for (kind, place) in found {
            let reasoned = match place.strip_prefix("absent") {
                Some(rest) => rest.starts_with(" because ") && rest.len() > 20,
                None => !place.is_empty(),
            };
            if !reasoned || !["V", "H", "M", "L"].contains(&kind.as_str()) {
                wrong.push(format!("C.{class}: {kind} {place}"));
            }
        }
    }
    wrong
}

#[test]
fn the_page_names_what_exists_and_all_that_exists() {
    let (page, sources) = (page(), Sources::read());
    let nothing: [String; 0] = [];
    assert_eq!(dangling(&page, &sources), nothing, "no source has these");
    assert_eq!(
        unnamed(&page, &sources),
        nothing,
        "docs/records.md lacks these"
    );
    assert_eq!(incomplete(&page), nothing, "rows of docs/records.md");
}

#[test]
fn a_wrong_page_is_found_out() {
    let (page, sources) = (page(), Sources::read());
    let renamed = page.replace("`AutonomyEpochV1.safety_state`", "`AutonomyEpochV1.safety`");
    assert_eq!(dangling(&renamed, &sources), ["AutonomyEpochV1.safety"]);
    assert_eq!(
        unnamed(&renamed, &sources),
        ["AutonomyEpochV1.safety_state"]
    );
    let function = page.replace("AutonomyGrantV1::id`", "AutonomyGrantV1::name`");
    assert_eq!(dangling(&function, &sources), ["AutonomyGrantV1::name"]);
    let without: String = page
        .lines()
        .filter(|l| !l.starts_with("| `safety_state`"))
        .map(|l| format!("{l}\n"))
        .collect();
    assert_eq!(incomplete(&without), ["C.13 has 4 visible rows of 5"]);
    let bare = page.replace(
        "| absent because a RED never expires (M1-I35) |",
        "| absent |",
    );
    assert_eq!(incomplete(&bare), ["C.24: L absent"]);
}
