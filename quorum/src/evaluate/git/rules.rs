//! This verifier's rules about a change: which paths, how large, how many. Pure.

use super::objects::ObjectId;
use super::walk::{Change, Now};
use crate::evaluate::Report;

/// How much a change may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one file.
    pub file_bytes_max: u64,
    /// Bytes of all changed files together.
    pub changed_bytes_max: u64,
    /// Changed paths.
    pub changed_files_max: u64,
    /// Commits between the old and the new head.
    pub commits_max: u64,
}

/// What a path must be like: `*` stands for anything within a name, `**` for anything, `?` for one character.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern(String);

/// A pattern that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no pattern for paths: it is relative, without empty, `.` or `..` parts")]
pub struct BadPattern(pub String);

impl Pattern {
    fn new(text: &str) -> Result<Pattern, BadPattern> {
        let odd = |part: &str| matches!(part, "" | "." | "..");
        if text.split('/').any(odd) {
            return Err(BadPattern(text.to_owned()));
        }
        Ok(Pattern(text.to_owned()))
    }

    fn matches(&self, path: &str) -> bool {
        matches(self.0.as_bytes(), path.as_bytes())
    }
}

/// Wildcards by backtracking over the last star of each kind; linear for one star, bounded by the product.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => path.is_empty(),
        [b'*', b'*', b'/', rest @ ..] => {
            let folders = (0..path.len()).filter(|at| path[*at] == b'/');
            matches(rest, path)
                || folders
                    .map(|at| &path[at + 1..])
                    .any(|it| matches(rest, it))
        }
        [b'*', b'*', rest @ ..] => (0..=path.len()).any(|at| matches(rest, &path[at..])),
        [b'*', rest @ ..] => {
            let within = path
                .iter()
                .position(|byte| *byte == b'/')
                .unwrap_or(path.len());
            (0..=within).any(|at| matches(rest, &path[at..]))
        }
        [b'?', rest @ ..] => path
            .split_first()
            .is_some_and(|(byte, path)| *byte != b'/' && matches(rest, path)),
        [byte, rest @ ..] => path
            .split_first()
            .is_some_and(|(first, path)| first == byte && matches(rest, path)),
    }
}

/// The rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    allowed: Vec<Pattern>,
    forbidden: Vec<Pattern>,
    /// How much a change may be.
    pub limits: Limits,
}

impl Rules {
    /// A changed path must match one of `allowed` and none of `forbidden`. Nothing allowed allows nothing.
    ///
    /// # Errors
    /// [`BadPattern`].
    pub fn new(
        allowed: &[String],
        forbidden: &[String],
        limits: Limits,
    ) -> Result<Rules, BadPattern> {
        let read = |texts: &[String]| -> Result<Vec<Pattern>, BadPattern> {
            texts.iter().map(|it| Pattern::new(it)).collect()
        };
        Ok(Rules {
            allowed: read(allowed)?,
            forbidden: read(forbidden)?,
            limits,
        })
    }

    /// What is to be said for and against a change.
    pub(super) fn judge(&self, old: Option<&ObjectId>, new: &ObjectId, change: &Change) -> Report {
        if !change.descends {
            let old = old.map_or_else(String::new, ObjectId::to_string);
            return Report::against(format!("commit {new} does not descend from {old}"));
        }
        let mut against = Vec::new();
        for (path, now) in &change.paths {
            against.extend(self.about(path, *now));
        }
        let sizes = change.paths.values().map(|now| match now {
            Now::File(size) => *size,
            Now::Deleted | Now::Symlink | Now::Gitlink => 0,
        });
        let bytes = sizes.fold(0, u64::saturating_add);
        let files = change.paths.len() as u64;
        let limits = &self.limits;
        if change.cut || files > limits.changed_files_max {
            against.push(format!(
                "more than {} files change",
                limits.changed_files_max
            ));
        }
        if bytes > limits.changed_bytes_max {
            against.push(format!(
                "the changed files have {bytes} bytes; at most {} are allowed",
                limits.changed_bytes_max
            ));
        }
        Report {
            seen: vec![format!(
                "commit {new}: {files} files changed, {bytes} bytes, {} commits read",
                change.commits
            )],
            against,
        }
    }

    fn about(&self, path: &str, now: Now) -> Vec<String> {
        let mut against = Vec::new();
        if let Some(pattern) = self.forbidden.iter().find(|it| it.matches(path)) {
            against.push(format!("path {path} is forbidden by {}", pattern.0));
        }
        if !self.allowed.iter().any(|it| it.matches(path)) {
            against.push(format!("path {path} is not among the allowed ones"));
        }
        match now {
            Now::File(size) if size > self.limits.file_bytes_max => against.push(format!(
                "file {path} has {size} bytes; at most {} are allowed",
                self.limits.file_bytes_max
            )),
            Now::Gitlink => against.push(format!("path {path} is a commit of another repository")),
            Now::Symlink => against.push(format!("path {path} is a symbolic link")),
            Now::File(_) | Now::Deleted => {}
        }
        against
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            file_bytes_max: 100,
            changed_bytes_max: 150,
            changed_files_max: 2,
            commits_max: 10,
        }
    }

    fn rules() -> Rules {
        Rules::new(
            &["**".into()],
            &[".github/**".into(), "**/*.key".into()],
            limits(),
        )
        .expect("patterns")
    }

    fn judged(paths: &[(&str, Now)]) -> Vec<String> {
        let change = Change {
            paths: paths.iter().map(|(p, n)| ((*p).to_owned(), *n)).collect(),
            descends: true,
            commits: 1,
            cut: false,
        };
        let new = ObjectId::new(&[1; 20]).expect("an id");
        rules().judge(None, &new, &change).against
    }

    #[test]
    fn each_rule_rejects_what_it_is_about_and_no_more() {
        assert_eq!(
            judged(&[("src/a.rs", Now::File(100)), ("b", Now::Deleted)]),
            [""; 0]
        );
        let cases: [(&[(&str, Now)], &str); 6] = [
            (
                &[("a", Now::File(101))],
                "file a has 101 bytes; at most 100 are allowed",
            ),
            (
                &[(".github/x", Now::Deleted)],
                "path .github/x is forbidden by .github/**",
            ),
            (
                &[("a/b.key", Now::File(1))],
                "path a/b.key is forbidden by **/*.key",
            ),
            (
                &[("a", Now::Gitlink)],
                "path a is a commit of another repository",
            ),
            (&[("a", Now::Symlink)], "path a is a symbolic link"),
            (
                &[("a", Now::File(100)), ("b", Now::File(51))],
                "the changed files have 151 bytes; at most 150 are allowed",
            ),
        ];
        for (paths, says) in cases {
            assert_eq!(judged(paths), [says]);
        }
        let three = [
            ("a", Now::File(1)),
            ("b", Now::File(1)),
            ("c", Now::File(1)),
        ];
        assert_eq!(judged(&three), ["more than 2 files change"]);
    }

    #[test]
    fn nothing_allowed_allows_nothing() {
        let rules = Rules::new(&[], &[], limits()).expect("no patterns");
        assert_eq!(rules.about("a", Now::File(1)).len(), 1);
    }

    #[test]
    fn stars_stop_at_folders_and_double_stars_do_not() {
        let cases = [
            ("*.rs", "a.rs", true),
            ("*.rs", "a/b.rs", false),
            ("**/*.rs", "b.rs", true),
            ("**/*.rs", "a/c/b.rs", true),
            ("src/**", "src/a/b", true),
            ("src/**", "srcs/a", false),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("docs/*/x", "docs/a/x", true),
            ("docs/*/x", "docs/a/b/x", false),
            ("**", "any/thing", true),
        ];
        for (pattern, path, expected) in cases {
            let pattern = Pattern::new(pattern).expect("a pattern");
            assert_eq!(pattern.matches(path), expected, "{} {path}", pattern.0);
        }
        for bad in ["", "/a", "a//b", "a/../b", "./a", "a/"] {
            assert!(Pattern::new(bad).is_err(), "{bad}");
        }
    }
}
