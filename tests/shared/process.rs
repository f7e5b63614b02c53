//! One process of the product as a test runs it: started with its output in a file, signalled, waited for.
//!
//! Does not know what the process is for, and never waits for a time.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

/// Variables with this prefix are settings of the product's processes.
const SETTINGS: &str = "REDLATCH_";
/// How long a diagnostics page may take.
const PAGE: Duration = Duration::from_secs(5);

/// A command without any setting of the environment that the tests run in.
pub fn command(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with(SETTINGS) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// How a command that has ended answered.
#[derive(Debug)]
pub struct Answer {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub out: String,
    /// What it wrote to standard error.
    pub err: String,
}

impl Answer {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Answer {
        let output = command.output().expect("the command can be started");
        Answer {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts the exit code, and that standard error says all of `words`.
    ///
    /// # Panics
    /// With the whole answer, if it does not.
    #[track_caller]
    pub fn says(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {self:#?}");
        }
    }

    /// The one JSON value on standard output.
    ///
    /// # Panics
    /// With the whole answer, if there is none.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// A process that runs until it is told otherwise. It does not outlive this value.
pub struct Process {
    child: Child,
    output: PathBuf,
}

impl Process {
    /// Starts a command; what it writes goes to the end of the file `output`.
    pub fn start(command: &mut Command, output: &Path) -> Process {
        let file = File::options().create(true).append(true).open(output);
        let file = file.expect("the folder of this test is writable");
        let second = file.try_clone().expect("a second descriptor");
        let child = command.stdout(file).stderr(second).spawn();
        Process {
            child: child.expect("the process can be started"),
            output: output.to_path_buf(),
        }
    }

    /// Everything it, and earlier processes with the same file, have written.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).expect("process numbers are small");
        let pid = Pid::from_raw(id).expect("a child has a number");
        // A child that is not waited for keeps its number, so this reaches no other process.
        let _ = kill_process(pid, signal);
    }

    /// Whether every one of its threads has been stopped by a signal.
    pub fn is_stopped(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id())).expect("it runs");
        threads.into_iter().all(|thread| {
            let path = thread.expect("readable").path().join("stat");
            let stat = std::fs::read_to_string(path).unwrap_or_default();
            // The state follows the name, which ends with the last parenthesis.
            stat.rsplit(')')
                .next()
                .is_some_and(|rest| rest.trim_start().starts_with('T'))
        })
    }

    /// How it ended, once it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// Waits until it has ended by itself.
    pub fn wait(&mut self, what: &str) -> ExitStatus {
        eventually(what, Duration::from_secs(60), || self.ended())
    }

    /// Ends it at once, without a word to it.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("it is our child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
        }
    }
}

/// A page of a diagnostics endpoint: code and body; none if nobody answers.
pub fn page(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, PAGE).ok()?;
    stream.set_read_timeout(Some(PAGE)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StateFolder;

    #[test]
    fn a_process_does_not_outlive_its_value() {
        let folder = StateFolder::new("process");
        let mut sleep = Command::new("sleep");
        let process = Process::start(sleep.arg("600"), &folder.path().join("out"));
        let place = PathBuf::from(format!("/proc/{}", process.id()));
        assert!(place.exists());
        drop(process);
        assert!(!place.exists());
    }

    #[test]
    fn an_answer_has_its_code_and_both_texts() {
        let mut shell = Command::new("sh");
        let answer = Answer::of(shell.args(["-c", "echo '{\"a\":1}'; echo no >&2; exit 3"]));
        answer.says(3, &["no"]);
        assert_eq!(answer.json()["a"], 1);
    }
}
