//! Git, called so that only the repository named and the objects in it decide the answer (FAULTS 81).
//!
//! ```text
//!   Git ── cleared environment, no hooks, no system or user configuration, no replace objects,
//!          no lazy fetch, listed protocols only ──▶ git ──▶ exit code, standard output
//! ```
//!
//! Commits are hashed again here; nothing else of a repository is believed or judged by this module.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use redlatch_link::exit::{ExitCode, Fails};
use sha1_checked::Sha1;
use sha2::{Digest as _, Sha256};

use crate::environment;

/// Git said no, or is not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    /// There is no git.
    #[error("git is not installed, or not on the PATH")]
    Missing,
    /// Git could not be started.
    #[error("git does not start")]
    Start(#[source] io::Error),
    /// Git failed.
    #[error("git {command} failed: {stderr}")]
    Failed {
        /// Its subcommand.
        command: String,
        /// Why, in its own words.
        stderr: String,
    },
    /// Git's answer is not of the form it documents.
    #[error("git {0} gave an answer that cannot be read")]
    Unreadable(&'static str),
    /// There is no such commit.
    #[error("commit {0} is not there")]
    NoCommit(String),
    /// The object under that id has other bytes.
    #[error("object {0} does not hash to its own name")]
    NotItself(String),
}

impl Fails for GitError {
    fn code(&self) -> ExitCode {
        match self {
            GitError::NoCommit(_) | GitError::NotItself(_) => ExitCode::Refused,
            _ => ExitCode::Error,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            GitError::Missing => "install git",
            GitError::NoCommit(_) => "name the full id of a commit that the repository has",
            GitError::NotItself(_) => "do not trust this repository; run git fsck in a copy of it",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// How a repository names its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectFormat {
    /// 20 bytes.
    Sha1,
    /// 32 bytes.
    Sha256,
}

impl ObjectFormat {
    /// Hexadecimal digits of a full id.
    pub(crate) const fn digits(self) -> usize {
        match self {
            ObjectFormat::Sha1 => 40,
            ObjectFormat::Sha256 => 64,
        }
    }

    /// The id that bytes of a kind of object have; none for a crafted SHA-1 collision.
    pub(crate) fn id_of(self, kind: &str, content: &[u8]) -> Option<Vec<u8>> {
        let head = format!("{kind} {}\0", content.len());
        match self {
            ObjectFormat::Sha1 => {
                let mut hash = Sha1::new();
                hash.update(head.as_bytes());
                hash.update(content);
                let result = hash.try_finalize();
                (!result.has_collision()).then(|| result.hash().to_vec())
            }
            ObjectFormat::Sha256 => {
                let mut hash = Sha256::new();
                hash.update(head.as_bytes());
                hash.update(content);
                Some(hash.finalize().to_vec())
            }
        }
    }
}

/// The full id of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectId(Vec<u8>);

impl ObjectId {
    /// Reads a full id in lower-case hexadecimal; the id of nothing (zeros) is none.
    pub(crate) fn parse(text: &str, format: ObjectFormat) -> Option<ObjectId> {
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        let bytes = hex::decode(text).ok()?;
        let some = bytes.iter().any(|byte| *byte != 0);
        (lower && text.len() == format.digits() && some).then_some(ObjectId(bytes))
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

/// Where a call of git looks, and what of this process's environment it may see.
#[derive(Clone, Debug)]
pub(crate) struct Git {
    folder: PathBuf,
    environment: Vec<(&'static str, PathBuf)>,
    passed: &'static [&'static str],
    protocols: &'static str,
}

/// Variables that a push over ssh or https needs.
const FOR_PUSHES: &[&str] = &["HOME", "SSH_AUTH_SOCK", "USER", "LOGNAME", "TMPDIR"];

impl Git {
    /// Git on a repository whose git directory is `folder`.
    pub(crate) fn of_directory(folder: &Path) -> Git {
        Git {
            folder: folder.to_owned(),
            environment: vec![("GIT_DIR", folder.to_owned())],
            passed: &[],
            protocols: "file",
        }
    }

    /// Git in a folder: the repository is found from there.
    pub(crate) fn in_folder(folder: &Path) -> Git {
        Git {
            folder: folder.to_owned(),
            environment: Vec::new(),
            passed: &[],
            protocols: "file",
        }
    }

    /// May reach other hosts by ssh and https, with the caller's agent and keys.
    pub(crate) fn reaching_out(mut self) -> Git {
        self.passed = FOR_PUSHES;
        self.protocols = "file:ssh:https";
        self
    }

    /// Also sets a variable.
    pub(crate) fn with(mut self, name: &'static str, value: &Path) -> Git {
        self.environment.push((name, value.to_owned()));
        self
    }

    fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new("git");
        command.env_clear().current_dir(&self.folder);
        for name in ["PATH"].iter().chain(self.passed) {
            if let Some(value) = environment::variable(name) {
                command.env(name, value);
            }
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_LITERAL_PATHSPECS", "1")
            .env("GIT_ALLOW_PROTOCOL", self.protocols);
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        // The folder was named by whoever runs this; git's own rule about its owner would need a
        // configuration that is not read here.
        for setting in [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "safe.directory=*",
            "protocol.version=2",
            "gc.auto=0",
            "maintenance.auto=false",
        ] {
            command.args(["-c", setting]);
        }
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs git, whatever its exit code.
    ///
    /// # Errors
    /// [`GitError::Missing`] or [`GitError::Start`].
    pub(crate) fn output<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Output, GitError> {
        self.command(arguments)
            .output()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound if self.folder.is_dir() => GitError::Missing,
                _ => GitError::Start(error),
            })
    }

    /// Standard output of a call that must succeed.
    ///
    /// # Errors
    /// [`GitError`].
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Vec<u8>, GitError> {
        let output = self.output(arguments)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(GitError::Failed {
            command: arguments
                .first()
                .map(|it| it.as_ref().to_string_lossy().into_owned())
                .unwrap_or_default(),
            stderr: reason(stderr.lines()).to_owned(),
        })
    }

    /// The one line that a call must print.
    ///
    /// # Errors
    /// [`GitError`].
    pub(crate) fn line<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, GitError> {
        let text = self.run(arguments)?;
        let text = String::from_utf8(text).map_err(|_| GitError::Unreadable("output"))?;
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// How this repository names its objects.
    ///
    /// # Errors
    /// [`GitError`].
    pub(crate) fn format(&self) -> Result<ObjectFormat, GitError> {
        match self.line(&["rev-parse", "--show-object-format"])?.as_str() {
            "sha1" => Ok(ObjectFormat::Sha1),
            "sha256" => Ok(ObjectFormat::Sha256),
            _ => Err(GitError::Unreadable("rev-parse")),
        }
    }

    /// The commit that a name in this repository stands for.
    ///
    /// # Errors
    /// [`GitError::NoCommit`] if it stands for none.
    pub(crate) fn resolve(&self, name: &str, format: ObjectFormat) -> Result<ObjectId, GitError> {
        let spec = format!("{name}^{{commit}}");
        let output = self.output(&[
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &spec,
        ])?;
        let text = String::from_utf8_lossy(&output.stdout);
        ObjectId::parse(text.trim_end(), format)
            .filter(|_| output.status.success())
            .ok_or_else(|| GitError::NoCommit(name.chars().take(80).collect()))
    }

    /// The bytes of a commit, hashed here and equal to their name.
    ///
    /// # Errors
    /// [`GitError::NoCommit`], [`GitError::NotItself`].
    pub(crate) fn commit(&self, id: &ObjectId, format: ObjectFormat) -> Result<Vec<u8>, GitError> {
        let output = self.output(&["cat-file", "commit", &id.to_string()])?;
        if !output.status.success() {
            return Err(GitError::NoCommit(id.to_string()));
        }
        let hashed = format.id_of("commit", &output.stdout);
        if hashed.as_deref() == Some(id.bytes()) {
            Ok(output.stdout)
        } else {
            Err(GitError::NotItself(id.to_string()))
        }
    }

    /// Whether a commit's tree names other repositories' commits (submodules).
    ///
    /// # Errors
    /// [`GitError`].
    pub(crate) fn has_gitlinks(&self, id: &ObjectId) -> Result<bool, GitError> {
        let listed = self.run(&["ls-tree", "-r", "-z", "--full-tree", &id.to_string()])?;
        Ok(listed
            .split(|byte| *byte == 0)
            .any(|entry| entry.starts_with(b"160000 ")))
    }

    /// Whether `older` is an ancestor of `newer`, or the same commit.
    ///
    /// # Errors
    /// [`GitError`].
    pub(crate) fn is_ancestor(&self, older: &ObjectId, newer: &ObjectId) -> Result<bool, GitError> {
        let (older, newer) = (older.to_string(), newer.to_string());
        let output = self.output(&["merge-base", "--is-ancestor", &older, &newer])?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(GitError::Unreadable("merge-base")),
        }
    }
}

/// The end of git's line where the other side ended before it said anything: no ref was named to it yet.
pub(crate) const NEVER_BEGAN: &str = "Could not read from remote repository.";

/// The line that says why, of all that git wrote: what follows it is advice.
pub(crate) fn reason<'a>(lines: impl Iterator<Item = &'a str> + Clone) -> &'a str {
    let said = lines.map(str::trim).filter(|line| !line.is_empty());
    let is_cause = |line: &&str| ["fatal: ", "error: "].iter().any(|it| line.starts_with(it));
    let mut causes = said.clone().filter(is_cause);
    let first = causes.next();
    let better = first
        .filter(|line| line.ends_with(NEVER_BEGAN))
        .and_then(|_| causes.next());
    better
        .or(first)
        .or_else(|| said.last())
        .unwrap_or("it says nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_cause_and_not_the_advice_after_it() {
        let never_began = "fatal: Could not read from remote repository.";
        let advice =
            "Please make sure you have the correct access rights\nand the repository exists.";
        let no_repository = "fatal: '/srv/a.git' does not appear to be a git repository";
        for (said, why) in [
            (
                format!("{no_repository}\n{never_began}\n\n{advice}\n"),
                no_repository,
            ),
            (format!("{never_began}\n\n{advice}\n"), never_began),
            (
                "warning: old\nerror: no such ref\nhint: look\n".to_owned(),
                "error: no such ref",
            ),
            ("a\nb\n\n".to_owned(), "b"),
            (String::new(), "it says nothing"),
        ] {
            assert_eq!(reason(said.lines()), why, "{said}");
        }
    }

    #[test]
    fn objects_are_hashed_as_git_does() {
        // The empty tree, known under both names.
        let sha1 = ObjectFormat::Sha1.id_of("tree", b"").expect("no collision");
        assert_eq!(
            hex::encode(sha1),
            "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        );
        let sha256 = ObjectFormat::Sha256.id_of("tree", b"").expect("a hash");
        assert_eq!(
            hex::encode(sha256),
            "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
        );
    }

    #[test]
    fn only_full_lower_case_ids_of_something_are_ids() {
        let full = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        assert!(ObjectId::parse(full, ObjectFormat::Sha1).is_some());
        assert!(ObjectId::parse(full, ObjectFormat::Sha256).is_none());
        for bad in [
            &full[..39],
            &full.to_uppercase(),
            &"0".repeat(40),
            "main",
            "",
        ] {
            assert!(ObjectId::parse(bad, ObjectFormat::Sha1).is_none(), "{bad}");
        }
    }
}
