//! A whole development organism, nine processes of their own, with a real repository behind its gate.
//!
//! ```text
//!   redlatch init --dev ─▶ 3 nodes, 4 verifiers, actuator, sentinel ─▶ /readyz ─▶ quorum key
//!   git init --bare ◀── gate install ◀── land ◀── authors
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::author::{Author, git};
use crate::cluster::PATIENCE;
use crate::home::{self, Home};
use crate::process::{Answer, Process, command, page};
use crate::{StateFolder, binary, eventually};

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

/// The node that `redlatch node new` makes; started by the tests that let it join.
const JOINING: (&str, &str, &str) = ("n4", "node", "nodes/n4");

/// An organism and those of its processes that run.
pub struct Organism {
    running: BTreeMap<&'static str, Process>,
    main: Author,
    /// Removed last.
    folder: StateFolder,
}

impl Home for Organism {
    fn organism(&self) -> PathBuf {
        self.place()
    }
}

impl Organism {
    /// Makes an organism with a gated repository, starts everything, and waits for the quorum's key.
    pub fn start(what: &str) -> Organism {
        let folder = StateFolder::new(what);
        let mut organism = Organism {
            running: BTreeMap::new(),
            main: Author::of(folder.path(), "main"),
            folder,
        };
        let place = organism.place();
        let mut init = command(&binary("redlatch"));
        let made = Answer::of(init.args(["init", "--dev"]).arg(&place));
        made.says(0, &["DEVELOPMENT"]);
        organism.start_all();
        eventually("a quorum key", PATIENCE, || {
            let status = organism.tool(&["-o", "json", "status"]);
            (status.json()["quorum_key_epoch"] == "1").then_some(())
        });
        organism.repositories();
        organism
    }

    /// The organism's folder.
    pub fn place(&self) -> PathBuf {
        place_in(self.folder.path())
    }

    fn repositories(&self) {
        let bare = bare_in(self.folder.path());
        std::fs::create_dir_all(&bare).expect("the folder of this test is writable");
        git(&bare, &["init", "-q", "--bare", "--template=", "."]);
        self.main.begin();
        let path = bare.display().to_string();
        let installed = self.tool(&["gate", "install", "--repo", &path]);
        assert_eq!(installed.code, Some(0), "{installed:#?}");
    }

    /// Somebody who lands on a branch of their own, from a work tree of their own.
    pub fn author(&self, branch: &str) -> Author {
        let author = Author::of(self.folder.path(), branch);
        author.begin();
        author
    }

    /// Starts every process that does not run, and waits until all are ready.
    pub fn start_all(&mut self) {
        for (name, ..) in PROCESSES {
            if !self.running.contains_key(name) {
                self.spawn(name);
            }
        }
        for (name, ..) in PROCESSES {
            self.wait_ready(name);
        }
    }

    /// Kills every process that runs: all are signalled before the first is waited for.
    pub fn kill_all(&mut self) {
        for process in self.running.values() {
            process.signal(Signal::KILL);
        }
        self.running.clear();
    }

    /// Has the gate report what it can of the claims that it holds; how many stay open.
    #[track_caller]
    pub fn reconcile(&self) -> u64 {
        let bare = bare_in(self.folder.path()).display().to_string();
        let answer = self.tool(&["-o", "json", "gate", "reconcile", "--repo", &bare]);
        assert_eq!(answer.code, Some(0), "{answer:#?}");
        answer.json()["open"].as_u64().expect("a number")
    }

    /// Where a process keeps its configuration, its keys and its state.
    fn folder_of(name: &str) -> (&'static str, &'static str) {
        let mut known = PROCESSES.iter().chain([&JOINING]);
        let known = known.find(|(it, ..)| *it == name);
        let (_, kind, folder) = known.expect("a process of the organism");
        (*kind, *folder)
    }

    fn config_of(&self, name: &str) -> PathBuf {
        let (kind, folder) = Organism::folder_of(name);
        self.place().join(folder).join(format!("{kind}.toml"))
    }

    fn spawn(&mut self, name: &'static str) {
        self.spawn_with(name, &[]);
    }

    /// Starts a process with settings above its configuration, and does not wait.
    pub fn spawn_with(&mut self, name: &'static str, settings: &[&str]) {
        let (kind, _) = Organism::folder_of(name);
        let mut process = command(&binary(&format!("redlatch-{kind}")));
        process.arg("--config").arg(self.config_of(name));
        for setting in settings {
            process.args(["--set", setting]);
        }
        let log = self.place().join("logs").join(format!("{name}.log"));
        self.running
            .insert(name, Process::start(&mut process, &log));
    }

    /// What a process waits for, as its `/readyz` says; empty once it is ready.
    pub fn waits_for(&self, name: &str) -> String {
        let address = home::address(&self.config_of(name), "diagnostics");
        match page(address, "/readyz") {
            Some((200, _)) => String::new(),
            Some((_, waits)) => waits,
            None => "it does not answer".to_owned(),
        }
    }

    /// Kills a process.
    pub fn kill(&mut self, name: &str) {
        self.running.remove(name).expect("it runs").kill();
    }

    /// Waits until a process has ended by itself; its exit code and everything it wrote.
    pub fn ended(&mut self, name: &str) -> (Option<i32>, String) {
        let mut process = self.running.remove(name).expect("it runs");
        let status = process.wait(&format!("{name} ends"));
        (status.code(), process.output())
    }

    /// Deletes everything that a process has written to its disk.
    pub fn wipe(&self, name: &str) {
        let (_, folder) = Organism::folder_of(name);
        let data = self.place().join(folder).join("data");
        std::fs::remove_dir_all(data).expect("it does not run");
    }

    /// Waits until a process is ready.
    pub fn wait_ready(&mut self, name: &str) {
        let address = home::address(&self.config_of(name), "diagnostics");
        let process = self.running.get_mut(name).expect("it runs");
        eventually(&format!("{name} is ready"), PATIENCE, || {
            if let Some(status) = process.ended() {
                panic!("{name} ended ({status}): {}", process.output());
            }
            page(address, "/readyz").filter(|(code, _)| *code == 200)
        });
    }

    /// What a process that runs counts, as a scraper reads it.
    pub fn metrics(&self, name: &str) -> String {
        let page = page(
            home::address(&self.config_of(name), "diagnostics"),
            "/metrics",
        );
        let (code, body) = page.expect("it runs");
        assert_eq!(code, 200, "{body}");
        body
    }

    /// The path of a process's configuration.
    pub fn config(&self, name: &str) -> String {
        self.config_of(name).display().to_string()
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

    /// Waits until a process that still runs has ended of itself, not well.
    pub fn ends(&mut self, name: &str) {
        let mut process = self.running.remove(name).expect("it runs");
        let status = process.wait(&format!("{name} ends"));
        assert_ne!(status.code(), Some(0), "{name}: {}", process.output());
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
        self.main.tool(arguments)
    }

    /// Writes a file beside the organism; its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).expect("the folder of this test is writable");
        path.display().to_string()
    }

    /// Runs the tool as somebody, with settings of their own.
    pub fn tool_as(&self, who: &str, settings: &[(&str, &str)], arguments: &[&str]) -> Answer {
        let mut tool = command(&binary("redlatch"));
        tool.envs(settings.iter().copied());
        tool.arg("--dir").arg(self.place()).args(["--as", who]);
        Answer::of(tool.args(["-o", "json"]).args(arguments))
    }

    /// Draws a signing key beside the organism; its public half.
    #[track_caller]
    pub fn new_key(&self, name: &str) -> String {
        let drawn = self.tool(&["-o", "json", "key", "new", "--out", &self.key_file(name)]);
        assert_eq!(drawn.code, Some(0), "{drawn:#?}");
        drawn.json()["public_key"]
            .as_str()
            .expect("a key")
            .to_owned()
    }

    /// The file of a key drawn by [`Organism::new_key`].
    pub fn key_file(&self, name: &str) -> String {
        let path = self.folder.path().join(format!("{name}.key"));
        path.display().to_string()
    }

    /// The public key that the genesis enrols a subject with.
    pub fn public_key(&self, subject: &str) -> String {
        let genesis = home::genesis(&self.place());
        let mut subjects = genesis.subjects.iter();
        let found = subjects.find(|it| it.subject_id.as_str() == subject);
        found.expect("a subject").public_key.to_string()
    }

    /// Has something proposed as the operator; its intent.
    #[track_caller]
    pub fn propose(&self, arguments: &[&str]) -> String {
        self.proposed(&[&["propose"], arguments].concat())
    }

    #[track_caller]
    fn proposed(&self, command: &[&str]) -> String {
        let proposed = self.tool_as("operator", &[], command);
        assert_eq!(proposed.code, Some(0), "{proposed:#?}");
        assert_eq!(proposed.json()["decided_by"], "HUMAN", "{proposed:#?}");
        let intent = proposed.json()["intent"].as_str().map(str::to_owned);
        intent.expect("a digest")
    }

    /// Has a person approve an intent.
    pub fn approve(&self, who: &str, intent: &str) -> Answer {
        self.tool_as(who, &[], &["approve", intent, "--yes"])
    }

    /// Has something proposed, approved, and waits until it is in force.
    #[track_caller]
    pub fn put_in_force(&self, arguments: &[&str]) {
        self.decide(&[&["propose"], arguments].concat());
    }

    /// As [`Organism::put_in_force`], for any command that proposes.
    #[track_caller]
    pub fn decide(&self, command: &[&str]) {
        let intent = self.proposed(command);
        let approved = self.approve("approver", &intent);
        assert_eq!(approved.code, Some(0), "{approved:#?}");
        assert_eq!(approved.json()["stage"], "in_force");
    }

    /// A subject's only grant, and its tier.
    #[track_caller]
    pub fn grant_of(&self, subject: &str) -> (String, String) {
        let shown = self.tool(&["-o", "json", "governance"]).json();
        let grants = shown["grants"].as_array().expect("a list").clone();
        let mut own = grants.iter().filter(|it| it["subject"] == subject);
        let grant = own.next().expect("a grant");
        let field = |name: &str| grant[name].as_str().expect("a text").to_owned();
        (field("grant"), field("tier"))
    }

    /// Has persons raise a subject's grant from A0 to A3, one tier at a time (SPEC E.9).
    #[track_caller]
    pub fn promote_step_by_step(&self, subject: &str) {
        let data = self.file("dataset", "100 drills\n");
        for tier in ["A1", "A2", "A3"] {
            let (grant, _) = self.grant_of(subject);
            let promote = ["grant", "promote", "--replaces", &grant, "--dataset", &data];
            self.put_in_force(&[&promote[..], &["--rollback-plan", &data]].concat());
            assert_eq!(self.grant_of(subject).1, tier);
        }
    }

    /// What `redlatch status` says.
    #[track_caller]
    pub fn status(&self) -> serde_json::Value {
        self.tool(&["-o", "json", "status"]).json()
    }

    /// Changes a process's configuration and starts it again.
    pub fn reconfigure(&mut self, name: &'static str, change: impl FnOnce(&str) -> String) {
        let file = self.config_of(name);
        let text = std::fs::read_to_string(&file).expect("made by init");
        self.stop(name);
        std::fs::write(&file, change(&text)).expect("writable");
        self.start_again(name);
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

    /// Makes a commit for the main branch that adds one file; its id.
    pub fn commit(&self, name: &str) -> String {
        self.main.commit(name)
    }

    /// As [`Author::land`], on the main branch.
    pub fn land(&self, commit: &str, wait_s: u32) -> Answer {
        self.main.land(commit, wait_s)
    }

    /// What the main branch is at; none if it does not exist.
    pub fn head(&self) -> Option<String> {
        self.main.head()
    }
}

fn place_in(folder: &Path) -> PathBuf {
    folder.join("organism")
}

fn bare_in(folder: &Path) -> PathBuf {
    place_in(folder).join("repositories/demo.git")
}
