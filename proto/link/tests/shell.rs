//! The shell around every process: command line, start, signals, supervisor, exit codes.
//!
//! The process under test is this test binary once more: [`child`] becomes a service when it is told its
//! command line. What it does is one of the [`Toy`]'s modes; the tests wait for what it says, never for a time.

#![cfg(not(madsim))]

use std::ffi::OsString;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, SanType,
};
use redlatch_link::diagnostics::{Condition, Diagnostics};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{Access, replace_file};
use redlatch_link::logs::Logs;
use redlatch_link::shell::{self, Service, Settings};
use redlatch_link::transport::{Credentials, Tls};
use redlatch_link::world;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

/// The variable that makes [`child`] a service: its arguments, one a line.
const ARGUMENTS: &str = "SHELL_TEST_ARGUMENTS";
/// How long the child may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

struct Toy;

#[derive(Deserialize, Serialize)]
#[serde(default)]
struct ToyConfig {
    mode: String,
    diagnostics: SocketAddr,
    logs: Logs,
    tls: Tls,
}

impl Default for ToyConfig {
    fn default() -> ToyConfig {
        ToyConfig {
            mode: "serve".into(),
            diagnostics: SocketAddr::from(([127, 0, 0, 1], 0)),
            logs: Logs::default(),
            tls: Tls::default(),
        }
    }
}

impl Service for Toy {
    const NAME: &'static str = "toy";
    const ABOUT: &'static str = "What tests start";
    const SETTING: &'static str = "mode=serve";

    type Config = ToyConfig;
    type Files = Credentials;
    type Process = String;

    fn settings(config: &ToyConfig) -> Settings<'_> {
        Settings {
            logs: &config.logs,
            diagnostics: config.diagnostics,
        }
    }

    fn read(config: &ToyConfig) -> Result<Credentials, Failure> {
        Ok(Credentials::load(&config.tls)?)
    }

    fn credentials(files: &Credentials) -> &Credentials {
        files
    }

    async fn start(
        config: ToyConfig,
        _: Credentials,
        diagnostics: Diagnostics,
        _: &Condition,
    ) -> Result<String, Failure> {
        let states = diagnostics.readiness.states();
        assert!(states.iter().any(|it| it.unmet.is_some()), "not ready yet");
        eprintln!("toy: starting");
        match config.mode.as_str() {
            "hang" => std::future::pending().await,
            "unable" => Err(Failure::new(ExitCode::Unavailable, "the disk is busy")),
            _ => Ok(config.mode),
        }
    }

    async fn run(mode: String, stop: impl Future<Output = ()> + Send) -> Result<(), Failure> {
        if mode == "fault" {
            // As a disk that never answers.
            let (begun, began) = tokio::sync::oneshot::channel();
            world::spawn(world::blocking(|| {
                let _ = begun.send(());
                std::thread::park();
            }));
            let _ = began.await;
            return Err(Failure::new(ExitCode::Error, "a write failed").hint("look at the disk"));
        }
        stop.await;
        Ok(())
    }
}

#[test]
fn child() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else {
        return;
    };
    let arguments = std::iter::once("toy").chain(arguments.lines());
    let code = match shell::run::<Toy>(arguments.map(OsString::from)) {
        Ok(()) => ExitCode::Ok,
        Err(failure) => {
            let _ = failure.report();
            failure.code
        }
    };
    std::process::exit(i32::from(code as u8));
}

/// A folder with one client's certificate, key and configuration, and its supervisor's socket.
struct Scene {
    folder: TempDir,
    supervisor: UnixDatagram,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        let supervisor = UnixDatagram::bind(folder.path().join("notify")).expect("bound");
        supervisor
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout");
        let scene = Scene { folder, supervisor };
        let organism = "ab".repeat(32);
        let key = KeyPair::generate().expect("a key");
        let (authority, issuer) = authority();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let name = format!("spiffe://{organism}/client/a");
        params.subject_alt_names = vec![SanType::URI(name.try_into().expect("ASCII"))];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let certificate = params.signed_by(&key, &issuer).expect("signed");
        scene.write("tls.crt", &certificate.pem());
        scene.write("tls.key", &key.serialize_pem());
        scene.write("authority.crt", &authority);
        let path = |name| scene.folder.path().join(name).display().to_string();
        let tls = format!(
            "[tls]\norganism = {organism:?}\ncertificate = {:?}\nkey = {:?}\nauthority = {:?}\n",
            path("tls.crt"),
            path("tls.key"),
            path("authority.crt")
        );
        scene.write("toy.toml", &tls);
        scene
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        replace_file(&path, text.as_bytes(), Access::Private).expect("written");
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("REDLATCH_") {
                command.env_remove(name);
            }
        }
        command
            .args(["--exact", "child", "--nocapture"])
            .env(ARGUMENTS, arguments.join("\n"))
            .env("REDLATCH_CONFIG", self.folder.path().join("toy.toml"))
            .env_remove("WATCHDOG_USEC")
            .env("NOTIFY_SOCKET", self.folder.path().join("notify"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn ended(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("started")
    }

    fn running(&self, arguments: &[&str]) -> Running {
        let mut child = self.command(arguments).spawn().expect("started");
        let errors = BufReader::new(child.stderr.take().expect("piped"));
        Running { child, errors }
    }

    fn told(&self) -> String {
        let mut word = [0; 32];
        let len = self.supervisor.recv(&mut word).expect("a word in time");
        String::from_utf8_lossy(&word[..len]).into_owned()
    }
}

fn authority() -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("signed");
    (certificate.pem(), Issuer::new(params, key))
}

/// A child that does not outlive this value.
struct Running {
    child: Child,
    errors: BufReader<ChildStderr>,
}

impl Running {
    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status();
        assert!(sent.expect("kill is installed").success());
    }

    /// Reads what it writes until a line says `words`.
    fn says(&mut self, words: &str) {
        let mut all = String::new();
        while !all.contains(words) {
            let more = self.errors.read_line(&mut all).expect("readable");
            assert!(more > 0, "it ended without {words:?}: {all}");
        }
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().expect("our child").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn says(output: &Output, code: i32, words: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert_eq!(errors.matches(words).count(), 1, "{words:?} in {errors}");
}

#[test]
fn the_configuration_is_checked_and_printed_without_running() {
    let scene = Scene::new();
    let output = scene.ended(&["config", "check"]);
    let out = String::from_utf8_lossy(&output.stdout);
    let expected = format!("ok: client/a of organism {}\n", "ab".repeat(32));
    assert!(out.ends_with(&expected), "{out}");
    assert_eq!(output.status.code(), Some(0));
    let output = scene.ended(&["--set", "mode=x", "config", "print"]);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("mode = \"x\"\n"), "{out}");
    assert_eq!(output.status.code(), Some(0));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("toy: starting"));
}

#[test]
fn what_cannot_be_meant_is_usage() {
    let scene = Scene::new();
    says(
        &scene.ended(&["--set", "mode"]),
        2,
        "--set mode is not KEY=VALUE",
    );
    says(&scene.ended(&["--set", "mod=x"]), 2, "did you mean `mode`?");
    says(&scene.ended(&["--sett", "mode=x"]), 2, "'--sett'");
    says(&scene.ended(&["--config", "/nowhere"]), 2, "/nowhere");
    let help = scene.ended(&["--help"]);
    let out = String::from_utf8_lossy(&help.stdout);
    assert!(out.contains("What tests start") && out.contains("e.g. mode=serve"));
    let version = scene.ended(&["--version"]);
    let out = String::from_utf8_lossy(&version.stdout);
    assert!(out.contains(concat!("toy ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn a_process_that_cannot_start_says_why_once_and_keeps_its_code() {
    let scene = Scene::new();
    let output = scene.ended(&["--set", "mode=unable"]);
    says(&output, 4, "error: the disk is busy");
    scene.write("tls.crt", "none");
    let output = scene.ended(&[]);
    says(&output, 2, "holds none in PEM form");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("toy: starting"));
}

#[test]
fn a_stop_right_after_ready_is_told_and_ends_with_0() {
    let scene = Scene::new();
    for name in ["-TERM", "-INT"] {
        let mut running = scene.running(&["run"]);
        assert_eq!(scene.told(), "READY=1");
        running.signal(name);
        assert_eq!(scene.told(), "STOPPING=1");
        running.says("stopped");
        assert_eq!(running.code(), Some(0), "{name}");
    }
}

#[test]
fn a_stop_while_it_starts_ends_with_0() {
    let scene = Scene::new();
    let mut running = scene.running(&["--set", "mode=hang"]);
    running.says("toy: starting");
    running.signal("-TERM");
    assert_eq!(running.code(), Some(0));
}

#[test]
fn a_hangup_right_after_ready_reads_the_certificates_again() {
    let scene = Scene::new();
    let mut running = scene.running(&[]);
    assert_eq!(scene.told(), "READY=1");
    running.signal("-HUP");
    running.says("certificates are read again");
    scene.write("tls.crt", "none");
    running.signal("-HUP");
    running.says("the old certificates stay");
    running.signal("-TERM");
    assert_eq!(running.code(), Some(0));
}

#[test]
fn a_fault_ends_the_process_around_a_disk_that_hangs() {
    let scene = Scene::new();
    let output = scene.ended(&["--set", "mode=fault"]);
    says(&output, 1, "error: a write failed\n hint: look at the disk");
    assert_eq!(scene.told(), "READY=1");
}

#[test]
fn the_watchdog_is_fed() {
    let scene = Scene::new();
    let mut child = scene.command(&[]);
    let mut child = child.env("WATCHDOG_USEC", "2000").spawn().expect("started");
    let mut words = std::iter::repeat_with(|| scene.told());
    let fed = words.by_ref().filter(|word| word == "WATCHDOG=1").nth(2);
    assert!(fed.is_some());
    child.kill().expect("our child");
    child.wait().expect("our child");
}
