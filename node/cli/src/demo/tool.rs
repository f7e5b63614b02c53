//! This tool as a person calls it: a process of its own, its answer, its exit code.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use redlatch_link::config::ENV_PREFIX;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::world::{self, JoinHandle};
use tokio::process::Command;

use super::timeline::short;

/// The executable, and the organism it is pointed at.
pub(super) struct Tool {
    program: PathBuf,
    place: PathBuf,
}

/// How a call ended.
pub(super) struct Ran {
    typed: String,
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

/// A call under way. Dropped, it is killed.
pub(super) struct Running {
    typed: String,
    pub(super) pid: u32,
    ended: JoinHandle<std::io::Result<Output>>,
}

impl Tool {
    /// This very executable, below a folder that printed commands are relative to.
    ///
    /// # Errors
    /// [`Failure`] if the executable cannot be found.
    pub(super) fn new(place: &Path) -> Result<Tool, Failure> {
        let program = std::env::current_exe().map_err(|error| {
            let text = format!("cannot find this executable: {error}");
            Failure::new(ExitCode::Error, text)
        })?;
        Ok(Tool {
            program,
            place: place.to_owned(),
        })
    }

    /// A command of a program that lies beside this one, without settings of the caller.
    pub(super) fn beside(&self, name: &str) -> Command {
        command(&self.program.with_file_name(name), &self.place)
    }

    /// As it would be typed in the demo's folder; long ids are cut short.
    pub(super) fn typed(&self, arguments: &[&str]) -> String {
        let folder = format!("{}/", self.place.display());
        let words = arguments.iter().map(|word| {
            let word = word.replace(&folder, "");
            let id = word.len() >= 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
            match (id, word.contains(' ')) {
                (true, _) => short(word),
                (false, true) => format!("\"{word}\""),
                (false, false) => word,
            }
        });
        format!("redlatch {}", words.collect::<Vec<_>>().join(" "))
    }

    /// Starts a call.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be started.
    pub(super) fn start(&self, arguments: &[&str]) -> Result<Running, Failure> {
        let typed = self.typed(arguments);
        let child = command(&self.program, &self.place)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Failure::new(ExitCode::Error, format!("{typed}: {error}")))?;
        Ok(Running {
            typed,
            pid: child.id().unwrap_or(0),
            ended: world::spawn(child.wait_with_output()),
        })
    }

    /// Makes a call and waits for its end, whatever that is.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be started.
    pub(super) async fn run(&self, arguments: &[&str]) -> Result<Ran, Failure> {
        self.start(arguments)?.end().await
    }

    /// Makes a call that must succeed; its standard output.
    ///
    /// # Errors
    /// [`Failure`] with what it said.
    pub(super) async fn done(&self, arguments: &[&str]) -> Result<String, Failure> {
        self.run(arguments).await?.ended_with(0).map(|ran| ran.out)
    }
}

impl Running {
    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_finished()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`Failure`] if nobody knows how it ended.
    pub(super) async fn end(mut self) -> Result<Ran, Failure> {
        let ended = (&mut self.ended).await;
        let lost = |error: &dyn std::fmt::Display| {
            Failure::new(ExitCode::Error, format!("{}: {error}", self.typed))
        };
        let output = ended.map_err(|error| lost(&error))?;
        let output = output.map_err(|error| lost(&error))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Ran {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
            typed: self.typed.clone(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ended.abort();
    }
}

impl Ran {
    /// Asserts the exit code.
    ///
    /// # Errors
    /// [`Failure`] with both codes and what was said.
    pub(super) fn ended_with(self, code: i32) -> Result<Ran, Failure> {
        if self.code == Some(code) {
            return Ok(self);
        }
        let ended = self.code.map_or("a signal".to_owned(), |it| it.to_string());
        let said = format!("{}{}", self.err, self.out);
        let text = format!(
            "expected exit code {code} of `{}`, it ended with {ended}:\n{}",
            self.typed,
            said.trim_end()
        );
        Err(Failure::new(ExitCode::Error, text))
    }

    /// The line that says why it did not do it.
    pub(super) fn error(&self) -> &str {
        let line = self.err.lines().find_map(|line| line.split_once("error: "));
        line.map_or("it says nothing", |(_, text)| text.trim())
    }
}

fn command(program: &Path, place: &Path) -> Command {
    let mut command = Command::new(program);
    let ours = std::env::vars_os().map(|(name, _)| name);
    let ours = ours.filter(|name| name.to_string_lossy().starts_with(ENV_PREFIX));
    for name in ours {
        command.env_remove::<&OsStr>(&name);
    }
    command.current_dir(place).stdin(Stdio::null());
    command
}
