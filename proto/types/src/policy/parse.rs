//! Reading a policy's text (c2sp.org/tlog-policy). Whether what was read may be used is
//! decided by [`Policy::new`], not here.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{Group, Member, POLICY_MEMBERS_MAX, Policy, PolicyError};
use crate::note::{KeyError, VerifierKey, decode_decimal};

/// Longest policy that is read, in bytes.
pub const POLICY_BYTES_MAX: usize = 64 * 1024;

pub(super) const NODES: &str = "nodes";
pub(super) const WITNESSES: &str = "witnesses";
pub(super) const BOTH: &str = "both";
const NONE: &str = "none";

/// The bytes are no policy of this product. Blames whoever configured it.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum ParseError {
    /// Not UTF-8, or longer than [`POLICY_BYTES_MAX`].
    #[error("a policy is UTF-8 text of at most {POLICY_BYTES_MAX} bytes")]
    NotText,
    /// The last line has no newline: the file was cut off.
    #[error("the last line does not end in a newline")]
    CutOff,
    /// One line is wrong.
    #[error("line {line}: {why}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        why: LineError,
    },
    /// Some line is missing: a group, or the quorum.
    #[error("the policy lacks the line `{0}`")]
    Lacks(&'static str),
    /// A witness that belongs to no group would be trusted for nothing.
    #[error("witness {0:?} belongs to no group")]
    Ungrouped(String),
    /// The lines are good, the policy is not.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// What is wrong with one line of a policy.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum LineError {
    /// A carriage return or another control character.
    #[error("contains a control character")]
    ControlCharacter,
    /// Not `log`, `witness`, `group` or `quorum` with what belongs to it.
    #[error("is not a log, witness, group or quorum line of this product")]
    Malformed,
    /// The key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A witness or group of that name is there already, or the name is reserved.
    #[error("the name {0:?} is taken")]
    NameTaken(String),
    /// Named before it is defined, or listed in a second group.
    #[error("{0:?} is not a witness or group that is defined above and still free")]
    UnknownName(String),
    /// Not `all`, `any` or a number from 1 to the number of members.
    #[error("{0:?} is no threshold for so many members")]
    BadThreshold(String),
    /// The quorum is not `both`, or `nodes` where no witnesses are defined.
    #[error("the quorum must be the group of nodes and witnesses, if there are any, or nodes")]
    BadQuorum,
    /// More than [`POLICY_MEMBERS_MAX`] logs or witnesses of a group.
    #[error("one too many (at most {POLICY_MEMBERS_MAX} per group)")]
    TooMany,
    /// A second quorum line, or a line after it that it does not cover.
    #[error("comes after the quorum line")]
    AfterQuorum,
}

/// Whether a witness may be called that.
pub(super) fn is_label(label: &str) -> bool {
    let written = !label.is_empty() && !label.contains(|c: char| c == ' ' || c.is_control());
    written && ![NODES, WITNESSES, BOTH, NONE].contains(&label)
}

impl Policy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// [`ParseError`]: the policy must not be used.
    pub fn parse(bytes: &[u8]) -> Result<Policy, ParseError> {
        if bytes.len() > POLICY_BYTES_MAX {
            return Err(ParseError::NotText);
        }
        let text = str::from_utf8(bytes).map_err(|_| ParseError::NotText)?;
        let text = text.strip_suffix('\n').ok_or(ParseError::CutOff)?;
        let mut draft = Draft::default();
        for (index, line) in text.split('\n').enumerate() {
            let line_number = index + 1;
            draft.read(line).map_err(|why| ParseError::Line {
                line: line_number,
                why,
            })?;
        }
        draft.finish()
    }
}

/// What has been read so far.
#[derive(Default)]
struct Draft {
    logs: Vec<VerifierKey>,
    /// Witnesses that no group has claimed yet.
    free: BTreeMap<String, VerifierKey>,
    nodes: Option<Group>,
    witnesses: Option<Group>,
    both: Option<()>,
    quorum: Option<()>,
}

impl Draft {
    fn read(&mut self, line: &str) -> Result<(), LineError> {
        if line.chars().any(|c| c.is_ascii_control() && c != '\t') {
            return Err(LineError::ControlCharacter);
        }
        let words: Vec<&str> = line
            .split([' ', '\t'])
            .filter(|word| !word.is_empty())
            .collect();
        match words[..] {
            [] => Ok(()),
            [first, ..] if first.starts_with('#') => Ok(()),
            _ if self.quorum.is_some() => Err(LineError::AfterQuorum),
            ["log", key] | ["log", key, _] => self.read_log(key),
            ["witness", name, key] | ["witness", name, key, _] => self.read_witness(name, key),
            ["group", name, threshold, ref members @ ..] if !members.is_empty() => {
                self.read_group(name, threshold, members)
            }
            ["quorum", name] => self.read_quorum(name),
            _ => Err(LineError::Malformed),
        }
    }

    fn read_log(&mut self, key: &str) -> Result<(), LineError> {
        if self.logs.len() == POLICY_MEMBERS_MAX {
            return Err(LineError::TooMany);
        }
        self.logs.push(key.parse()?);
        Ok(())
    }

    fn read_witness(&mut self, name: &str, key: &str) -> Result<(), LineError> {
        if !is_label(name) || self.is_witness(name) {
            return Err(LineError::NameTaken(name.to_owned()));
        }
        if self.free.len() == 2 * POLICY_MEMBERS_MAX {
            return Err(LineError::TooMany);
        }
        self.free.insert(name.to_owned(), key.parse()?);
        Ok(())
    }

    fn is_witness(&self, name: &str) -> bool {
        let groups = self.nodes.iter().chain(&self.witnesses);
        let grouped = groups
            .flat_map(|group| &group.members)
            .any(|member| member.label == name);
        grouped || self.free.contains_key(name)
    }

    fn read_group(
        &mut self,
        name: &str,
        threshold: &str,
        members: &[&str],
    ) -> Result<(), LineError> {
        let bad_threshold = || LineError::BadThreshold(threshold.to_owned());
        let threshold = read_threshold(threshold, members.len()).ok_or_else(bad_threshold)?;
        if name == BOTH {
            return self.read_both(threshold, members);
        }
        let slot = match name {
            NODES => &mut self.nodes,
            WITNESSES => &mut self.witnesses,
            _ => return Err(LineError::Malformed),
        };
        if slot.is_some() {
            return Err(LineError::NameTaken(name.to_owned()));
        }
        if members.len() > POLICY_MEMBERS_MAX {
            return Err(LineError::TooMany);
        }
        let mut group = Group {
            threshold,
            members: Vec::new(),
        };
        for label in members {
            let unknown = || LineError::UnknownName((*label).to_owned());
            let (label, key) = self.free.remove_entry(*label).ok_or_else(unknown)?;
            group.members.push(Member { label, key });
        }
        *slot = Some(group);
        Ok(())
    }

    fn read_both(&mut self, threshold: usize, members: &[&str]) -> Result<(), LineError> {
        if self.both.is_some() {
            return Err(LineError::NameTaken(BOTH.to_owned()));
        }
        if !matches!(members, [NODES, WITNESSES] | [WITNESSES, NODES]) || threshold != 2 {
            return Err(LineError::Malformed);
        }
        for (name, group) in [(NODES, &self.nodes), (WITNESSES, &self.witnesses)] {
            if group.is_none() {
                return Err(LineError::UnknownName(name.to_owned()));
            }
        }
        self.both = Some(());
        Ok(())
    }

    fn read_quorum(&mut self, name: &str) -> Result<(), LineError> {
        let good = match name {
            BOTH => self.both.is_some(),
            NODES => self.nodes.is_some() && self.witnesses.is_none(),
            _ => false,
        };
        self.quorum = good.then_some(());
        self.quorum.ok_or(LineError::BadQuorum)
    }

    fn finish(self) -> Result<Policy, ParseError> {
        let nodes = self.nodes.ok_or(ParseError::Lacks("group nodes"))?;
        self.quorum.ok_or(ParseError::Lacks("quorum"))?;
        if let Some((label, _)) = self.free.into_iter().next() {
            return Err(ParseError::Ungrouped(label));
        }
        Ok(Policy::new(self.logs, nodes, self.witnesses)?)
    }
}

fn read_threshold(text: &str, members: usize) -> Option<usize> {
    let threshold = match text {
        "all" => members,
        "any" => 1,
        number => usize::try_from(decode_decimal(number)?).ok()?,
    };
    (1..=members).contains(&threshold).then_some(threshold)
}
