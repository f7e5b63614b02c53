//! Git as a child process that sees nothing of this process's environment and nothing of the system's
//! configuration; it dies with the future that waits for it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::process::Command;

use super::ObjectId;

/// Why git gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum GitFault {
    /// It does not start.
    #[error("git does not start: {0}")]
    Start(#[source] io::Error),
    /// It failed.
    #[error("git {what} failed: {stderr}")]
    Failed {
        /// Its subcommand.
        what: &'static str,
        /// The last line it wrote.
        stderr: String,
    },
    /// It ended, or wrote something that cannot be read.
    #[error("git {0} gave an answer that cannot be read")]
    Unreadable(&'static str),
    /// An object is not there, or of another kind.
    #[error("{kind} {id} is not there")]
    Missing {
        /// What it should be.
        kind: &'static str,
        /// Its name.
        id: ObjectId,
    },
    /// An object's bytes do not hash to its name.
    #[error("object {0} does not hash to its own name")]
    NotItself(ObjectId),
    /// An object is larger than is looked at.
    #[error("{kind} {id} has {size} bytes; more than {max} are not looked at")]
    TooLarge {
        /// What it is.
        kind: &'static str,
        /// Its name.
        id: ObjectId,
        /// Its size.
        size: u64,
        /// How much is.
        max: u64,
    },
    /// The bytes of a tree or commit are malformed.
    #[error("{kind} {id} is malformed")]
    Malformed {
        /// What it is.
        kind: &'static str,
        /// Its name.
        id: ObjectId,
    },
    /// There is more of something than is looked at.
    #[error("more than {max} {what}; that is not looked at")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are.
        max: u64,
    },
    /// The folder cannot be used.
    #[error("quarantine: {0}")]
    Folder(#[from] redlatch_link::file::FileError),
}

/// How git is called.
#[derive(Clone, Debug)]
pub(super) struct Git {
    /// The bare repository.
    pub(super) folder: PathBuf,
    /// The only configuration besides the repository's own.
    pub(super) configuration: PathBuf,
    /// Where git and its helpers are looked for.
    pub(super) search_path: String,
    /// Protocols that a fetch may use, colon-separated.
    pub(super) protocols: String,
}

impl Git {
    pub(super) fn command<S: AsRef<OsStr>>(&self, folder: &Path, arguments: &[S]) -> Command {
        let mut command = Command::new("git");
        command
            .env_clear()
            .env("PATH", &self.search_path)
            .env("LC_ALL", "C")
            .env("HOME", "/nonexistent")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", &self.configuration)
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ALLOW_PROTOCOL", &self.protocols)
            .current_dir(folder)
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs git in the repository and wants success.
    pub(super) async fn run<S: AsRef<OsStr>>(
        &self,
        what: &'static str,
        arguments: &[S],
    ) -> Result<Output, GitFault> {
        self.run_in(&self.folder, what, arguments).await
    }

    pub(super) async fn run_in<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        what: &'static str,
        arguments: &[S],
    ) -> Result<Output, GitFault> {
        let output = self
            .command(folder, arguments)
            .output()
            .await
            .map_err(GitFault::Start)?;
        if output.status.success() {
            return Ok(output);
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last = stderr.lines().rfind(|line| !line.trim().is_empty());
        Err(GitFault::Failed {
            what,
            stderr: last.unwrap_or("it says nothing").trim().to_owned(),
        })
    }
}
