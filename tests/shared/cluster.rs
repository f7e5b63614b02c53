//! A development organism with its nodes as processes of their own, each killable by itself.
//!
//! ```text
//!   redlatch init --dev ─▶ folder ─▶ redlatch-node n1, n2, n3 ─▶ /readyz ─▶ the test ─▶ all killed in drop
//! ```
//!
//! The ports that `init` chose are replaced by ports below the range from which the system takes the ports of
//! outgoing connections: a node that is started again finds its own free.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use redlatch_types::records::GenesisV1;
use rustix::process::Signal;
use serde_json::Value;

use crate::home::{self, Home};
use crate::process::{Answer, Process, command, page};
use crate::{StateFolder, binary, eventually};

/// How long a node, an election or a restart may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);

const LOOPBACK: &str = "127.0.0.1:";
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// An organism and those of its nodes that run.
pub struct Cluster {
    nodes: BTreeMap<String, Process>,
    /// Removed last.
    folder: StateFolder,
}

impl Home for Cluster {
    fn organism(&self) -> PathBuf {
        self.folder.path().join("organism")
    }
}

impl Cluster {
    /// Makes an organism of three nodes; none of them runs yet.
    pub fn made(what: &str) -> Cluster {
        let cluster = Cluster {
            nodes: BTreeMap::new(),
            folder: StateFolder::new(what),
        };
        let organism = cluster.organism();
        let made = Answer::of(
            command(&binary("redlatch"))
                .args(["init", "--dev"])
                .arg(&organism),
        );
        made.says(0, &["DEVELOPMENT"]);
        move_ports(&organism);
        cluster
    }

    /// Makes an organism, starts all nodes and waits until they are ready.
    pub fn start(what: &str) -> Cluster {
        let mut cluster = Cluster::made(what);
        cluster.start_all();
        cluster
    }

    /// The organism's folder.
    pub fn organism(&self) -> PathBuf {
        self.folder.path().join("organism")
    }

    /// The folder of this test, which holds the organism's.
    pub fn folder(&self) -> &StateFolder {
        &self.folder
    }

    /// The names of all nodes, running or not.
    pub fn names() -> [&'static str; 3] {
        ["n1", "n2", "n3"]
    }

    /// The organism's genesis.
    pub fn genesis(&self) -> GenesisV1 {
        home::genesis(&self.organism())
    }

    /// A node's folder.
    pub fn place(&self, node: &str) -> PathBuf {
        self.organism().join("nodes").join(node)
    }

    /// Where a node listens: `peers`, `clients` or `diagnostics`.
    pub fn address(&self, node: &str, listener: &str) -> SocketAddr {
        home::address(&home::node_config(&self.organism(), node), listener)
    }

    /// The command that runs a node.
    pub fn node_command(&self, node: &str) -> Command {
        let mut command = command(&binary("redlatch-node"));
        command
            .arg("--config")
            .arg(self.place(node).join("node.toml"));
        command
    }

    /// Starts a node by its command, or one made from it. Does not wait.
    pub fn spawn(&mut self, node: &str, command: &mut Command) {
        let output = self.organism().join("logs").join(format!("{node}.log"));
        let process = Process::start(command, &output);
        self.nodes.insert(node.to_owned(), process);
    }

    /// Starts every node that does not run, and waits until all are ready.
    pub fn start_all(&mut self) {
        for node in Cluster::names() {
            if !self.nodes.contains_key(node) {
                self.spawn(node, &mut self.node_command(node));
            }
        }
        for node in Cluster::names() {
            self.wait_ready(node);
        }
    }

    /// Starts one node and waits until it is ready.
    pub fn start_node(&mut self, node: &str) {
        self.spawn(node, &mut self.node_command(node));
        self.wait_ready(node);
    }

    /// Waits until a node says that it is ready.
    pub fn wait_ready(&mut self, node: &str) {
        let address = self.address(node, "diagnostics");
        let process = self.process(node);
        eventually(&format!("{node} is ready"), PATIENCE, || {
            if let Some(status) = process.ended() {
                panic!("{node} ended ({status}): {}", process.output());
            }
            page(address, "/readyz").filter(|(code, _)| *code == 200)
        });
    }

    /// A node that runs.
    pub fn process(&mut self, node: &str) -> &mut Process {
        self.nodes.get_mut(node).expect("the node runs")
    }

    /// Kills a node.
    pub fn kill(&mut self, node: &str) {
        self.nodes.remove(node).expect("the node runs").kill();
    }

    /// Kills every node that runs: all are signalled before the first is waited for.
    pub fn kill_all(&mut self) {
        for process in self.nodes.values() {
            process.signal(Signal::KILL);
        }
        self.nodes.clear();
    }

    /// Asks a node to stop, waits until it has, and gives its exit code.
    pub fn stop(&mut self, node: &str) -> Option<i32> {
        let mut process = self.nodes.remove(node).expect("the node runs");
        process.signal(Signal::TERM);
        process.wait(&format!("{node} stops")).code()
    }

    /// Stops a node where it stands, and waits until each of its threads does; it keeps its connections and
    /// its ports.
    pub fn pause(&mut self, node: &str) {
        let process = self.process(node);
        process.signal(Signal::STOP);
        eventually(&format!("{node} stands still"), PATIENCE, || {
            process.is_stopped().then_some(())
        });
    }

    /// Lets a paused node go on.
    pub fn resume(&mut self, node: &str) {
        self.process(node).signal(Signal::CONT);
    }

    /// Runs the person's tool against this organism and answers in JSON.
    pub fn tool(&self, arguments: &[&str]) -> Answer {
        let mut tool = command(&binary("redlatch"));
        tool.arg("--dir").arg(self.organism());
        Answer::of(tool.args(["-o", "json"]).args(arguments))
    }

    /// As [`Cluster::tool`] for a command that must succeed; its JSON.
    #[track_caller]
    pub fn ask(&self, arguments: &[&str]) -> Value {
        let answer = self.tool(arguments);
        assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:#?}");
        answer.json()
    }

    /// Freezes the landing of a fresh commit through the tool; its digest and position.
    #[track_caller]
    pub fn freeze(&self, reference: &str) -> (String, u64) {
        let arguments = ["intent", "freeze", "--repo", "demo", "--ref", reference];
        let mut tool = arguments.to_vec();
        tool.extend(["--new", "5a1e0c4fd2b38e5b6b1b2f6c3a4d5e6f70818283"]);
        let answer = self.ask(&tool);
        let position = answer["position"].as_str().expect("a fresh freeze");
        let position = position.parse().expect("an integer as text");
        (
            answer["intent"].as_str().expect("a digest").to_owned(),
            position,
        )
    }

    /// The name of the node that leads, by its own word and that of a majority.
    pub fn leader(&self) -> String {
        eventually("a leader", PATIENCE, || {
            let report = self.tool(&["status"]).json();
            let nodes = report["nodes"].as_array().cloned().unwrap_or_default();
            let leader = nodes.iter().find(|node| node["role"] == "leader")?;
            let name = leader["name"].as_str()?;
            let agree = nodes.iter().filter(|node| node["leader"] == name).count();
            (agree > nodes.len() / 2).then(|| name.to_owned())
        })
    }
}

/// Gives every address in the organism's configurations a port of [`PORTS`].
fn move_ports(organism: &Path) {
    let mut moved: BTreeMap<String, u16> = BTreeMap::new();
    let mut next = fresh_ports();
    for (parents, file) in [("nodes", "node.toml"), ("clients", "client.toml")] {
        let folders = std::fs::read_dir(organism.join(parents)).expect("made by init");
        for folder in folders {
            let path = folder.expect("readable").path().join(file);
            let text = std::fs::read_to_string(&path).expect("made by init");
            let mut parts = text.split(LOOPBACK);
            let mut fresh = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let digits = part.find(|it: char| !it.is_ascii_digit());
                let (port, rest) = part.split_at(digits.unwrap_or(part.len()));
                let port = moved
                    .entry(port.to_owned())
                    .or_insert_with(|| next.next().expect("a free port"));
                fresh += &format!("{LOOPBACK}{port}{rest}");
            }
            std::fs::write(&path, fresh).expect("the folder of this test is writable");
        }
    }
}

/// Ports that nobody listens on, beginning somewhere else in each process.
fn fresh_ports() -> impl Iterator<Item = u16> {
    let span = u32::from(PORTS.end - PORTS.start);
    let offset = std::process::id().wrapping_mul(97) % span;
    (0..span).filter_map(move |step| {
        let port = PORTS.start + u16::try_from((offset + step) % span).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
        Some(port)
    })
}
