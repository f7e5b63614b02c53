//! One process under `redlatch dev`: started with its log and pid file, asked to stop, in the end killed.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use redlatch_link::config::ENV_PREFIX;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};
use redlatch_link::world;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::output;

/// How long a process may drain before it is killed.
const DRAIN: Duration = Duration::from_secs(15);
/// How long a diagnostics page may take.
const PAGE: Duration = Duration::from_secs(2);
/// Lines of the log that are shown when a process fails to start.
const LAST_WORDS: usize = 5;

/// A running process.
pub(super) struct Child {
    process: tokio::process::Child,
    pid: u32,
    log: PathBuf,
    pid_file: PathBuf,
    /// How it ended, once it has.
    ended: Option<String>,
}

impl Child {
    /// Starts `binary` on a configuration file; its output goes to `logs/NAME.log`, its pid to
    /// `run/NAME.pid`.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be started.
    pub(super) fn start(
        name: &str,
        binary: &Path,
        config: &Path,
        folder: &Path,
    ) -> Result<Child, Failure> {
        let failed = |error: io::Error| {
            let text = format!("{name} cannot be started: {error}");
            Failure::new(ExitCode::Error, text)
        };
        for place in ["logs", "run"] {
            file::create_private_folder(&folder.join(place))?;
        }
        let log = folder.join("logs").join(format!("{name}.log"));
        let out = open_log(&log).map_err(failed)?;
        let mut command = Command::new(binary);
        // Settings for this process are none of the node's: its file says everything.
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.to_string_lossy().starts_with(ENV_PREFIX)) {
            command.env_remove(name);
        }
        let process = command
            .arg("--config")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(out.try_clone().map_err(failed)?)
            .stderr(out)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let pid = process.id().unwrap_or(0);
        let pid_file = folder.join("run").join(format!("{name}.pid"));
        file::replace_file(&pid_file, format!("{pid}\n").as_bytes(), Access::Public)?;
        Ok(Child {
            process,
            pid,
            log,
            pid_file,
            ended: None,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended; none while it runs.
    pub(super) fn ended(&mut self) -> Option<String> {
        self.look();
        self.ended.clone()
    }

    /// As [`Child::ended`], but only the first time.
    pub(super) fn ended_now(&mut self) -> Option<String> {
        let known = self.ended.is_some();
        self.look();
        self.ended.clone().filter(|_| !known)
    }

    fn look(&mut self) {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.process.try_wait()
        {
            self.ended = Some(status.to_string());
            // The number may be another process's soon.
            let _ = std::fs::remove_file(&self.pid_file);
        }
    }

    /// The end of its log.
    pub(super) fn last_words(&self) -> String {
        let text = file::read_file(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n")
    }

    /// Asks it to drain.
    pub(super) fn ask_to_stop(&self) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let (Some(pid), None) = (pid, &self.ended) {
            // Already gone: nothing to ask.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits until it has ended; kills it if that takes too long.
    pub(super) async fn stopped(&mut self) {
        if world::timeout(DRAIN, self.process.wait()).await.is_err() {
            output::note(&format!(
                "process {} does not stop by itself and is killed",
                self.pid
            ));
            // Already gone: nothing to kill.
            let _ = self.process.kill().await;
        }
        self.look();
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Fetches a page of a process's diagnostics: status code and body.
pub(super) async fn page(address: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let fetch = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let answer: io::Result<String> = match world::timeout(PAGE, fetch).await {
        Ok(answer) => answer,
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
    };
    let answer = answer?;
    parse_page(&answer).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

fn parse_page(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?.parse().ok()?;
    Some((code, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_code_and_a_body() {
        let answer = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 3\r\n\r\nno\n";
        assert_eq!(parse_page(answer), Some((503, "no\n".to_owned())));
        assert_eq!(parse_page("HTTP/1.1"), None);
    }
}
