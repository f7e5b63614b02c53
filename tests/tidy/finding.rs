//! What a rule says: a place and what to do about it.

use std::fmt;

/// One violation of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Path from the root of the repository.
    pub(crate) path: String,
    /// Counted from 1; 0 if the whole file is meant.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Fails with every finding, and with what to do.
#[track_caller]
pub(crate) fn none(findings: Vec<Finding>, what_to_do: &str) {
    if findings.is_empty() {
        return;
    }
    let list: Vec<String> = findings.iter().map(Finding::to_string).collect();
    panic!("\n{}\n{what_to_do}\n", list.join("\n"));
}

/// The lines at which a rule found something: what a self-test compares.
pub(crate) fn places(findings: &[Finding]) -> Vec<(&str, usize)> {
    findings
        .iter()
        .map(|it| (it.path.as_str(), it.line))
        .collect()
}
