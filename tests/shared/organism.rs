//! A whole development organism, nine processes of their own, with a real repository behind its gate.
//!
//! ```text
//!   redlatch init --dev ─▶ 3 nodes, 4 verifiers, actuator, sentinel ─▶ /readyz ─▶ quorum key
//!   git init --bare ◀── gate install          work tree ─▶ gate attest ─▶ land
//! ```
//!
//! Does not assert how a landing ends: it gives the tool's answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::cluster::PATIENCE;
use crate::process::{Answer, Process, command, page};
use crate::{StateFolder, binary, eventually};

/// The guarded branch.
const BRANCH: &str = "refs/heads/main";

/// Name, kind of binary and folder of every process.
const PROCESSES: [(&str, &str, &str); 9] = [
    ("n1", "node", "nodes/n1"),
    ("n2", "node", "nodes/n2"),
    ("n3", "node", "nodes/n3"),
    ("v1", "verifier", "verifiers/v1"),
    ("v2", "verifier", "verifiers/v2"),
    ("v3", "verifier", "verifiers/v3"),
    ("v4", "verifier", "verifiers/v4"),
    ("actuator", "actuator", "actuator"),
    ("sentinel", "sentinel", "sentinel"),
];

/// An organism and those of its processes that run.
pub struct Organism {
    running: BTreeMap<&'static str, Process>,
    /// Removed last.
    folder: StateFolder,
}

impl Organism {
    /// Makes an organism with a gated repository, starts everything, and waits for the quorum's key.
    pub fn start(what: &str) -> Organism {
        let mut organism = Organism {
            running: BTreeMap::new(),
            folder: StateFolder::new(what),
        };
        let place = organism.place();
        let mut init = command(&binary("redlatch"));
        let made = Answer::of(init.args(["init", "--dev"]).arg(&place));
        made.says(0, &["DEVELOPMENT"]);
        for (name, ..) in PROCESSES {
            organism.spawn(name);
        }
        for (name, ..) in PROCESSES {
            organism.wait_ready(name);
        }
        eventually("a quorum key", PATIENCE, || {
            let status = organism.tool(&["-o", "json", "status"]);
            (status.json()["quorum_key_epoch"] == 1).then_some(())
        });
        organism.repositories();
        organism
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("organism")
    }

    fn bare(&self) -> PathBuf {
        self.place().join("repositories/demo.git")
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn repositories(&self) {
        let (bare, work) = (self.bare(), self.work());
        for folder in [&bare, &work] {
            std::fs::create_dir_all(folder).expect("the folder of this test is writable");
        }
        git(&bare, &["init", "-q", "--bare", "--template=", "."]);
        git(&work, &["init", "-q", "--template=", "-b", "main", "."]);
        let path = bare.display().to_string();
        let installed = self.tool(&["gate", "install", "--repo", &path]);
        assert_eq!(installed.code, Some(0), "{installed:#?}");
    }

    /// Where a process keeps its configuration, its keys and its state.
    fn folder_of(name: &str) -> (&'static str, &'static str) {
        let known = PROCESSES.iter().find(|(it, ..)| *it == name);
        let (_, kind, folder) = known.expect("a process of the organism");
        (*kind, *folder)
    }

    fn config_of(&self, name: &str) -> PathBuf {
        let (kind, folder) = Organism::folder_of(name);
        self.place().join(folder).join(format!("{kind}.toml"))
    }

    fn spawn(&mut self, name: &'static str) {
        let (kind, _) = Organism::folder_of(name);
        let mut process = command(&binary(&format!("redlatch-{kind}")));
        process.arg("--config").arg(self.config_of(name));
        let log = self.place().join("logs").join(format!("{name}.log"));
        let process = Process::start(&mut process, &log);
        self.running.insert(name, process);
    }

    fn wait_ready(&mut self, name: &str) {
        let address = self.diagnostics(name);
        let process = self.running.get_mut(name).expect("it runs");
        eventually(&format!("{name} is ready"), PATIENCE, || {
            if let Some(status) = process.ended() {
                panic!("{name} ended ({status}): {}", process.output());
            }
            page(address, "/readyz").filter(|(code, _)| *code == 200)
        });
    }

    fn diagnostics(&self, name: &str) -> SocketAddr {
        let text = std::fs::read_to_string(self.config_of(name)).expect("made by init");
        let config: toml::Table = text.parse().expect("TOML");
        let address = config["listen"]["diagnostics"].as_str().expect("a text");
        address.parse().expect("an address")
    }

    /// What a process that runs counts, as a scraper reads it.
    pub fn metrics(&self, name: &str) -> String {
        let page = page(self.diagnostics(name), "/metrics");
        let (code, body) = page.expect("it runs");
        assert_eq!(code, 200, "{body}");
        body
    }

    /// The value of one series of a process, by its name with its labels.
    #[track_caller]
    pub fn number(&self, name: &str, series: &str) -> f64 {
        let metrics = self.metrics(name);
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no {series} of {name} in {metrics}"));
        value.parse().expect("a number")
    }

    /// Starts a process that was stopped, on the state that it left.
    pub fn start_again(&mut self, name: &'static str) {
        self.spawn(name);
        self.wait_ready(name);
    }

    /// Asks a process to stop and waits until it has.
    pub fn stop(&mut self, name: &str) {
        let mut process = self.running.remove(name).expect("it runs");
        process.signal(Signal::TERM);
        let status = process.wait(&format!("{name} stops"));
        assert_eq!(status.code(), Some(0), "{name}: {}", process.output());
    }

    /// Runs the person's tool against this organism.
    pub fn tool(&self, arguments: &[&str]) -> Answer {
        let mut tool = command(&binary("redlatch"));
        tool.arg("--dir").arg(self.place());
        Answer::of(tool.args(arguments))
    }

    /// Runs the tool as the operator, but with the certificate of another folder of the organism.
    pub fn tool_disguised(&self, place: &str, arguments: &[&str]) -> Answer {
        let mut tool = command(&binary("redlatch"));
        let place = self.place().join(place);
        for (key, file) in [("CERTIFICATE", "tls.pem"), ("KEY", "tls.key")] {
            tool.env(format!("REDLATCH_TLS__{key}"), place.join(file));
        }
        Answer::of(tool.arg("--dir").arg(self.place()).args(arguments))
    }

    /// Makes a commit that adds one file; its id.
    pub fn commit(&self, name: &str) -> String {
        let work = self.work();
        std::fs::write(work.join(name), format!("{name}\n")).expect("writable");
        git(&work, &["add", "--", name]);
        let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        git(&work, &[&who[..], &["commit", "-q", "-m", name]].concat());
        git(&work, &["rev-parse", "HEAD"])
    }

    /// Has a commit attested and brings it before the organism; the tool's answer in JSON where it landed.
    pub fn land(&self, commit: &str, wait_s: u32) -> Answer {
        let receipt = self.folder.path().join(format!("{commit}.receipt"));
        let (receipt, work) = (
            receipt.display().to_string(),
            self.work().display().to_string(),
        );
        let attest = ["gate", "attest", "--repo", &work, "--commit", commit];
        let attest = [&attest[..], &["--command", "ls", "--out", &receipt]].concat();
        let attested = self.tool(&attest);
        assert_eq!(attested.code, Some(0), "{attested:#?}");
        let (bare, wait) = (self.bare().display().to_string(), wait_s.to_string());
        let land = ["-o", "json", "land", "--repo", &bare, "--source", &work];
        let what = ["--ref", BRANCH, "--commit", commit, "--evidence", &receipt];
        self.tool(&[&land[..], &what[..], &["--wait", &wait]].concat())
    }

    /// What the guarded branch is at; none if it does not exist.
    pub fn head(&self) -> Option<String> {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.bare());
        let answer = Answer::of(git.args(["rev-parse", "--verify", "--quiet", BRANCH]));
        (answer.code == Some(0)).then(|| answer.out.trim().to_owned())
    }
}

#[track_caller]
fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(arguments);
    git.env("GIT_CONFIG_NOSYSTEM", "1");
    git.env("GIT_CONFIG_GLOBAL", "/dev/null");
    let answer = Answer::of(&mut git);
    assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:#?}");
    answer.out.trim().to_owned()
}
