//! Links between the documents lead somewhere.

use crate::finding::{Finding, none};
use crate::source;

/// Lines of prose: code fences are blank.
fn prose(text: &str) -> Vec<String> {
    let mut fenced = false;
    text.lines()
        .map(|line| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            if fenced || fence {
                String::new()
            } else {
                without_code(line)
            }
        })
        .collect()
}

/// The line without its inline code.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// Targets of `[text](target)` in one line of prose.
fn targets(line: &str) -> Vec<&str> {
    let rests = line.split("](").skip(1);
    rests
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.trim())
        .collect()
}

/// The anchors of a document, as a forge derives them from its headings.
fn anchors(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if !fenced && line.starts_with('#') {
            found.push(slug(line.trim_start_matches('#').trim()));
        }
    }
    found
}

fn slug(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars()
        .filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_')
        .collect()
}

/// The path `target` means when it stands in `document`.
fn resolve(document: &str, target: &str) -> String {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Relative links of one document whose file or heading is not there. `read` answers a file's
/// text, or an empty one for a folder, and `None` if there is nothing.
fn dangling(path: &str, text: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in prose(text).iter().enumerate() {
        for target in targets(line) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let there = match file {
                "" => Some(text.to_owned()),
                file => read(&resolve(path, file)),
            };
            let found = there.is_some_and(|text| {
                anchor.is_empty() || anchors(&text).contains(&anchor.to_owned())
            });
            if !found {
                findings.push(Finding::new(path, index + 1, target));
            }
        }
    }
    findings
}

#[test]
fn no_relative_link_dangles() {
    let root = redlatch_tests::repository();
    let read = |path: &str| {
        let exists = root.join(path).exists();
        exists.then(|| source::read(&root, path))
    };
    let documents: Vec<String> = source::files()
        .into_iter()
        .filter(|path| path.ends_with(".md"))
        .collect();
    assert!(!documents.is_empty(), "the checkout has no documents");
    let findings = documents
        .iter()
        .flat_map(|path| dangling(path, &source::read(&root, path), &read))
        .collect();
    none(
        findings,
        "Correct the path or the heading; links are relative to the document.",
    );
}

mod bad_examples {
    use super::*;
    use crate::finding::places;

    #[test]
    fn a_missing_file_and_a_missing_heading_are_found() {
        let read = |path: &str| (path == "docs/a.md").then(|| "# One, two!\n".to_owned());
        let text = "[a](a.md) [b](b.md)\n[c](a.md#one-two) [d](a.md#three)\n[e](https://x.y/z) `[f](g)`\n```\n[h](i)\n```\n[j](../docs/a.md) [k](#nowhere)\n";
        let found = dangling("docs/b.md", text, &read);
        let here = "docs/b.md";
        assert_eq!(places(&found), [(here, 1), (here, 2), (here, 7)]);
    }
}
