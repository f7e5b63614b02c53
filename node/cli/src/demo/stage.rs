//! The organism that a demo plays on: made, started, asked, hurt, and stopped again, whatever happened.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use redlatch_link::config::{self, Sources};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};
use redlatch_link::nodes::Nodes;
use redlatch_link::world::{self, Monotonic};
use redlatch_proto::v1::ClusterResponse;
use redlatch_types::PublicKey;
use redlatch_types::event::Event;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::journal;
use super::repository::text;
use super::timeline::{below, expect, leaf, short, typed};
use super::tool::Tool;
use crate::Common;
use crate::answer::Running;
use crate::client::Client;
use crate::output::Format;

/// Largest file that a verifier with the stricter rule approves, in bytes.
pub(super) const STRICT_BYTES: u64 = 100;
/// How long the processes may take to be ready, the quorum's key to be made, a node to be back.
const READY: Duration = Duration::from_secs(90);
/// How long the processes may take to stop.
const STOP: Duration = Duration::from_secs(30);
/// Pause before something is looked at again.
const LOOK: Duration = Duration::from_millis(100);
/// How long a node may take to answer.
const ASK: Duration = Duration::from_secs(3);

/// The organism, its processes, and how to ask them.
pub(super) struct Stage {
    place: PathBuf,
    organism: PathBuf,
    pub(super) tool: Tool,
    /// `redlatch dev`, once it runs.
    dev: Option<Child>,
    /// Nodes that were started again.
    again: Vec<Child>,
    /// Of every process that was ever started, by name.
    pids: BTreeMap<String, u32>,
    client: Option<Client>,
    group_key: Option<PublicKey>,
}

impl Stage {
    /// Nothing is made yet.
    ///
    /// # Errors
    /// [`Failure`] if this executable cannot be found.
    pub(super) fn new(place: &Path) -> Result<Stage, Failure> {
        text(place)?;
        Ok(Stage {
            place: place.to_owned(),
            organism: place.join("organism"),
            tool: Tool::new(place)?,
            dev: None,
            again: Vec::new(),
            pids: BTreeMap::new(),
            client: None,
            group_key: None,
        })
    }

    /// The demo's folder.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// The organism's folder.
    pub(super) fn organism(&self) -> &Path {
        &self.organism
    }

    /// The organism's folder as an argument.
    pub(super) fn dir(&self) -> &str {
        // Checked when the stage was made.
        self.organism.to_str().unwrap_or_default()
    }

    /// The cluster, asked as the operator.
    ///
    /// # Errors
    /// [`Failure`] before [`Stage::open`].
    pub(super) fn client(&self) -> Result<&Client, Failure> {
        let closed = || Failure::new(ExitCode::Error, "the organism does not run");
        self.client.as_ref().ok_or_else(closed)
    }

    /// Makes the organism, gives the last `strict` verifiers a stricter rule, and starts everything.
    ///
    /// # Errors
    /// [`Failure`] if anything does not get ready.
    pub(super) async fn open(&mut self, strict: u8) -> Result<(), Failure> {
        let init = ["init", "--dev", self.dir()];
        typed(&self.tool.typed(&init))?;
        self.tool.done(&init).await?;
        for verifier in (1..=4_u8).rev().take(strict.into()) {
            self.stricter(&format!("v{verifier}"))?;
        }
        typed(&format!("{} &", self.tool.typed(&["dev", self.dir()])))?;
        self.start().await?;
        let common = Common {
            config: None,
            dir: Some(self.organism.clone()),
            subject: None,
            output: Format::Table,
            deadline: 15,
        };
        self.client = Some(Client::open(&common, "operator")?);
        for (name, pid) in &self.pids {
            below(name, &format!("process {pid}, ready"))?;
        }
        self.group_key = Some(self.quorum_key().await?);
        Ok(())
    }

    /// Writes the rule into the verifier's own configuration, which nobody else can change.
    fn stricter(&self, verifier: &str) -> Result<(), Failure> {
        let path = format!("verifiers/{verifier}/verifier.toml");
        let file = self.organism.join(&path);
        let mut rules: Value = config::load(&Sources::none().file(&file))?;
        rules["evaluate"]["git"]["file_bytes_max"] = STRICT_BYTES.into();
        file::replace_file(&file, config::print(&rules)?.as_bytes(), Access::Private)?;
        below(
            verifier,
            &format!("{path}: file_bytes_max = {STRICT_BYTES}"),
        )
    }

    async fn start(&mut self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(
                ExitCode::Error,
                format!("redlatch dev does not start: {error}"),
            )
        };
        let log = self.log("dev").map_err(failed)?;
        let mut dev = self
            .tool
            .beside("redlatch")
            .args(["-o", "json", "dev", self.dir()])
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(failed)?;
        let out = dev.stdout.take();
        self.dev = Some(dev);
        let mut line = String::new();
        if let Some(out) = out {
            let mut out = BufReader::new(out);
            // No line at all is told apart below.
            let _ = world::timeout(READY, out.read_line(&mut line)).await;
        }
        let answer: Running = serde_json::from_str(&line).map_err(|_| {
            let log = file::read_file(&self.organism.join("logs/dev.log")).unwrap_or_default();
            let said = String::from_utf8_lossy(&log).into_owned();
            Failure::new(
                ExitCode::Error,
                format!("the processes are not ready:\n{said}"),
            )
        })?;
        for process in answer.nodes.into_iter().chain(answer.parties) {
            self.pids.insert(process.name, process.pid);
        }
        expect(self.pids.len() == 9, "nine processes", self.pids.len())
    }

    fn log(&self, name: &str) -> std::io::Result<std::fs::File> {
        let path = self.organism.join("logs").join(format!("{name}.log"));
        OpenOptions::new().create(true).append(true).open(path)
    }

    /// Waits for the four verifiers' key ceremony to be in the journal.
    async fn quorum_key(&self) -> Result<PublicKey, Failure> {
        let mut journal = journal::Journal::new(self.client()?.another_connection()?, 0);
        let until = Monotonic::now().plus(READY);
        while Monotonic::now() < until {
            if let Some((at, Event::QuorumKeyActivated(epoch, key, ..))) =
                journal.next(LOOK).await?
            {
                let shown = format!("key epoch {epoch}, group key {}", short(key));
                leaf(at, "QUORUM KEY", &shown)?;
                return Ok(key);
            }
        }
        Err(Failure::new(
            ExitCode::Error,
            "expected a quorum key; saw none in the journal",
        ))
    }

    /// The key that the verifiers made together, as the journal has it.
    ///
    /// # Errors
    /// [`Failure`] before [`Stage::open`].
    pub(super) fn group_key(&self) -> Result<PublicKey, Failure> {
        let none = || Failure::new(ExitCode::Error, "the quorum has no key yet");
        self.group_key.ok_or_else(none)
    }

    /// How many leaves there are now.
    ///
    /// # Errors
    /// [`Failure`] if no node answers.
    pub(super) async fn size(&self) -> Result<u64, Failure> {
        Ok(self.client()?.status().await?.record().tree_size)
    }

    /// Names of the nodes.
    ///
    /// # Errors
    /// [`Failure`] before [`Stage::open`].
    pub(super) fn nodes(&self) -> Result<Vec<String>, Failure> {
        let members = self.client()?.nodes.members();
        Ok(members.map(|it| it.name.clone()).collect())
    }

    /// One node alone.
    ///
    /// # Errors
    /// [`Failure`] if there is none of that name.
    pub(super) fn node(&self, name: &str) -> Result<Nodes, Failure> {
        self.client()?.node(name)
    }

    /// What a node shows about itself; none if it does not answer.
    pub(super) async fn shown(&self, name: &str) -> Result<Option<ClusterResponse>, Failure> {
        Ok(self.client()?.nodes.cluster(name, ASK).await.ok())
    }

    /// The node that leads, and its term.
    ///
    /// # Errors
    /// [`Failure`] if none does for a while.
    pub(super) async fn leader(&self) -> Result<(String, u64), Failure> {
        let until = Monotonic::now().plus(READY);
        while Monotonic::now() < until {
            for name in self.nodes()? {
                let shown = self.shown(&name).await?;
                if let Some(shown) = shown.filter(|it| it.role == "leader") {
                    return Ok((name, shown.term));
                }
            }
            world::sleep(LOOK).await;
        }
        Err(Failure::new(ExitCode::Error, "expected a leader; saw none"))
    }

    /// Kills a process where it stands.
    ///
    /// # Errors
    /// [`Failure`] if there is none of that name.
    pub(super) fn kill(&self, name: &str) -> Result<(), Failure> {
        let pid = self.pids.get(name).copied();
        let pid = pid
            .ok_or_else(|| Failure::new(ExitCode::Error, format!("no process is called {name}")))?;
        signal(pid, Signal::KILL)
    }

    /// Starts a killed node again, on the state that it left.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be started.
    pub(super) fn start_again(&mut self, node: &str) -> Result<(), Failure> {
        let file = format!("organism/nodes/{node}/node.toml");
        typed(&format!("redlatch-node --config {file} &"))?;
        let failed = |error: std::io::Error| {
            Failure::new(
                ExitCode::Error,
                format!("{node} does not start again: {error}"),
            )
        };
        let log = self.log(node).map_err(failed)?;
        let mut command: Command = self.tool.beside("redlatch-node");
        let child = command
            .args(["--config", &file])
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        self.pids.insert(node.to_owned(), child.id().unwrap_or(0));
        self.again.push(child);
        Ok(())
    }

    /// Waits until every node shows at least `size` leaves.
    ///
    /// # Errors
    /// [`Failure`] with the node that does not.
    pub(super) async fn caught_up(&self, size: u64) -> Result<(), Failure> {
        let until = Monotonic::now().plus(READY);
        for name in self.nodes()? {
            loop {
                let seen = self.shown(&name).await?.map_or(0, |it| it.tree_size);
                if seen >= size {
                    break;
                }
                let late = Monotonic::now() >= until;
                expect(!late, format!("{size} leaves on {name}"), seen)?;
                world::sleep(LOOK).await;
            }
        }
        Ok(())
    }

    /// Stops every process that was started.
    ///
    /// # Errors
    /// [`Failure`] if they do not stop by themselves.
    pub(super) async fn close(&mut self) -> Result<(), Failure> {
        let started = self.again.drain(..).chain(self.dev.take());
        for mut child in started {
            let Some(pid) = child.id() else { continue };
            signal(pid, Signal::TERM)?;
            if world::timeout(STOP, child.wait()).await.is_err() {
                // Already gone: nothing to kill.
                let _ = child.kill().await;
                let text = format!("process {pid} does not stop by itself");
                return Err(Failure::new(ExitCode::Error, text));
            }
        }
        Ok(())
    }
}

impl Drop for Stage {
    /// What was not closed is asked to stop all the same.
    fn drop(&mut self) {
        if let Some(pid) = self.dev.as_ref().and_then(Child::id) {
            // Already gone: nothing to ask.
            let _ = signal(pid, Signal::TERM);
        }
    }
}

/// Sends a signal to a process that this demo started.
///
/// # Errors
/// [`Failure`] if there is no such process.
pub(super) fn signal(pid: u32, signal: Signal) -> Result<(), Failure> {
    let target = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let sent = target.map(|target| kill_process(target, signal));
    match sent {
        Some(Ok(())) => Ok(()),
        _ => {
            let text = format!("process {pid} is gone");
            Err(Failure::new(ExitCode::Error, text))
        }
    }
}
