//! `redlatch gate attest`: runs one command on exactly one commit and signs what it came to (SPEC C.40).
//!
//! ```text
//!   repository ──fetch by id──▶ new clone, hashed again ──checkout──▶ command, cleared environment
//!                                                                       │ log, exit code, times
//!                          signed receipt ◀── runner's key ◀────────────┘
//! ```
//!
//! The clone knows nothing of its source but the commit: no hooks, no filters, no submodules, no other refs.
//! It is no sandbox: the command runs as the user who calls this, and runners belong on hosts of their own.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use clap::Args;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};
use redlatch_link::{build_id, world};
use redlatch_types::records::{
    ActorKind, GateFindingsV1, GateReceiptV1, GateVerdict, GitRef, LandPayload, Text,
};
use redlatch_types::{Bytes, Canonical, Digest, Name};

use crate::answer::Attested;
use crate::client::{Client, Signer, random};
use crate::git::{Git, GitError, ObjectFormat, ObjectId};
use crate::{Common, Done, environment, output};

/// Largest log; a command that writes more is stopped.
const LOG_BYTES_MAX: u64 = 256 << 20;
/// How often the log's size is looked at.
const LOG_LOOK: Duration = Duration::from_millis(500);
/// Where the command finds programs, if the caller has no PATH.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What to run, on what, and where the results go. `--config` names the runner's configuration.
#[derive(Args)]
pub(crate) struct Attest {
    /// Path or URL of a repository that has the commit.
    #[arg(long, value_name = "URL_OR_PATH")]
    repo: String,
    /// The repository's name in grants; the only one of the runner's scope if not named.
    #[arg(long, value_name = "NAME")]
    repository: Option<Name>,
    /// Full id of the commit.
    #[arg(long, value_name = "ID")]
    commit: String,
    /// The command, for sh.
    #[arg(long, value_name = "TEXT")]
    command: String,
    /// The gate's name.
    #[arg(long, value_name = "NAME", default_value = "gate")]
    gate_id: Name,
    /// Version of the gate's specification.
    #[arg(long, value_name = "TEXT", default_value = "1")]
    spec_version: String,
    /// Version of the runner's key.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    key_version: u64,
    /// Text that the log must hold: a run without it has checked nothing.
    #[arg(long, value_name = "TEXT")]
    expect: Option<String>,
    /// Variables of the caller's environment that the command also gets.
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,
    /// How long the command may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 1_800)]
    time_limit: u64,
    /// Where the signed receipt is written.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Where the full log is written; beside the receipt if not named.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By itself.
    Exit(ExitStatus),
    /// Stopped: it took too long.
    TimeLimit,
    /// Stopped: it wrote too much.
    LogLimit,
}

/// A run and its traces.
struct Run {
    end: End,
    started_at: u64,
    ended_at: u64,
    environment: Digest,
}

pub(crate) async fn run(arguments: &Attest, common: &Common) -> Done {
    let command = Text::new(&arguments.command)
        .ok()
        .filter(|text| !text.as_str().trim().is_empty())
        .ok_or_else(|| {
            usage("--command is empty, longer than 1024 bytes, or has control characters")
        })?;
    // Evidence is of one epoch of the organism: of the one that any node proves, or that was known before.
    let client = Client::current(common, "runner").await?;
    let signer = client.signer_by_genesis().await?;
    let repository = repository(arguments, &signer)?;
    let (id, format) = commit(&arguments.commit)?;
    let work = tempfile::tempdir().map_err(|error| failed("make a folder", &error))?;
    let tree = checkout(work.path(), &arguments.repo, &id, format)?;
    let log = arguments
        .log
        .clone()
        .unwrap_or_else(|| arguments.out.with_extension("log"));
    let run = execute(arguments, work.path(), &tree, &log).await?;
    let findings = findings(&run, &log, arguments.expect.as_deref())?;
    let receipt = receipt(
        arguments,
        command,
        repository,
        &id,
        findings,
        run.environment,
    );
    let envelope = signer.seal(client.rosters().scope(), &receipt);
    let bytes = envelope.to_canonical();
    file::replace_file(&arguments.out, &bytes, Access::Public)?;
    report(&receipt, &bytes, arguments, &log, common)
}

/// The repository that the receipt is for: one of the runner's scope.
fn repository(arguments: &Attest, signer: &Signer) -> Result<Name, Failure> {
    let subject = &signer.subject;
    if subject.actor_kind != ActorKind::Runner {
        let text = format!(
            "{} is enrolled as {}, not as runner",
            subject.subject_id, subject.actor_kind
        );
        return Err(
            Failure::new(ExitCode::Refused, text).hint("sign with the key of an enrolled runner")
        );
    }
    match (&arguments.repository, &subject.scopes[..]) {
        (Some(name), scopes) if scopes.contains(name) => Ok(name.clone()),
        (None, [only]) => Ok(only.clone()),
        (Some(name), _) => Err(Failure::new(
            ExitCode::Refused,
            format!(
                "{} is not enrolled for repository {name}",
                subject.subject_id
            ),
        )),
        (None, _) => Err(usage(
            "the runner has several repositories: name one with --repository",
        )),
    }
}

fn commit(text: &str) -> Result<(ObjectId, ObjectFormat), Failure> {
    let format = match text.len() {
        64 => ObjectFormat::Sha256,
        _ => ObjectFormat::Sha1,
    };
    let id = ObjectId::parse(text, format)
        .ok_or_else(|| usage("--commit is not a full object id; git rev-parse prints one"))?;
    Ok((id, format))
}

/// A new clone with the one commit, checked out. What it has was hashed by git on arrival, and the commit here.
fn checkout(
    work: &Path,
    source: &str,
    id: &ObjectId,
    format: ObjectFormat,
) -> Result<PathBuf, Failure> {
    let tree = work.join("tree");
    for name in ["tree", "home", "tmp"] {
        fs::create_dir(work.join(name)).map_err(|error| failed("make a folder", &error))?;
    }
    let git = Git::in_folder(&tree).reaching_out();
    let object_format = match format {
        ObjectFormat::Sha1 => "--object-format=sha1",
        ObjectFormat::Sha256 => "--object-format=sha256",
    };
    git.run(&["init", "-q", "--template=", object_format, "."])?;
    let source = match Path::new(source).canonicalize() {
        Ok(path) => path.to_string_lossy().into_owned(),
        Err(_) => source.to_owned(),
    };
    let id_text = id.to_string();
    let fetch = [
        "-c",
        "fetch.fsckObjects=true",
        "fetch",
        "-q",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-write-fetch-head",
        "--end-of-options",
        &source,
        &id_text,
    ];
    git.run(&fetch).map_err(|error| match error {
        GitError::Failed { ref stderr, .. } if stderr.contains("not our ref") => {
            GitError::NoCommit(id_text.clone())
        }
        other => other,
    })?;
    git.commit(id, format)?;
    if git.has_gitlinks(id)? {
        let text =
            format!("commit {id} names commits of other repositories, which are not checked out");
        return Err(Failure::new(ExitCode::Refused, text)
            .hint("attest a commit whose files are all its own"));
    }
    git.run(&["checkout", "-q", "--detach", &id_text])?;
    let changed = git.run(&["status", "--porcelain", "--ignored"])?;
    if !changed.is_empty() {
        return Err(Failure::new(
            ExitCode::Error,
            "the checkout differs from the commit",
        ));
    }
    Ok(tree)
}

/// The command's environment: nothing of the caller's but what was named.
fn variables(arguments: &Attest, work: &Path) -> Vec<(String, String)> {
    let variable = environment::text;
    let folder = |name: &str| work.join(name).to_string_lossy().into_owned();
    let mut variables = vec![
        ("HOME".to_owned(), folder("home")),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
        (
            "PATH".to_owned(),
            variable("PATH").unwrap_or_else(|| PATH.to_owned()),
        ),
        ("TMPDIR".to_owned(), folder("tmp")),
    ];
    for name in &arguments.pass_env {
        if let Some(value) = variable(name) {
            variables.retain(|(known, _)| known != name);
            variables.push((name.clone(), value));
        }
    }
    variables.sort();
    variables
}

/// Digest of the environment. The folders of one run are left out: they are never the same again.
fn environment_digest(variables: &[(String, String)], work: &Path) -> Digest {
    let work = work.to_string_lossy();
    let lines: Vec<String> = variables
        .iter()
        .map(|(name, value)| format!("{name}={}", value.replace(&*work, "")))
        .collect();
    Digest::of(&lines.to_canonical())
}

async fn execute(arguments: &Attest, work: &Path, tree: &Path, log: &Path) -> Result<Run, Failure> {
    let output = File::create(log).map_err(|error| failed("create the log", &error))?;
    let errors = output
        .try_clone()
        .map_err(|error| failed("share the log", &error))?;
    let variables = variables(arguments, work);
    let started_at = world::now_unix_ms();
    let mut child = tokio::process::Command::new("/bin/sh")
        .args(["-c", &arguments.command])
        .current_dir(tree)
        .env_clear()
        .envs(variables.iter().cloned())
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(|error| failed("start /bin/sh", &error))?;
    let group = child.id();
    let end = wait(&mut child, log, Duration::from_secs(arguments.time_limit)).await?;
    // What the command left running would write on into a log that is already hashed.
    kill_group(group);
    if !matches!(end, End::Exit(_)) {
        child
            .wait()
            .await
            .map_err(|error| failed("end the command", &error))?;
    }
    let ended_at = world::now_unix_ms().max(started_at);
    Ok(Run {
        end,
        started_at,
        ended_at,
        environment: environment_digest(&variables, work),
    })
}

async fn wait(
    child: &mut tokio::process::Child,
    log: &Path,
    limit: Duration,
) -> Result<End, Failure> {
    let begun = world::Monotonic::now();
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        match world::timeout(left.min(LOG_LOOK), child.wait()).await {
            Ok(status) => {
                let status = status.map_err(|error| failed("wait for the command", &error))?;
                return Ok(End::Exit(status));
            }
            Err(_) if begun.elapsed() >= limit => return Ok(End::TimeLimit),
            Err(_) if fs::metadata(log).is_ok_and(|it| it.len() > LOG_BYTES_MAX) => {
                return Ok(End::LogLimit);
            }
            Err(_) => {}
        }
    }
}

fn kill_group(group: Option<u32>) {
    let group = group.and_then(|id| i32::try_from(id).ok());
    if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
        // An empty group is no error worth a word.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

fn findings(run: &Run, log: &Path, expect: Option<&str>) -> Result<GateFindingsV1, Failure> {
    let bytes = file::read_file(log)?;
    let found = expect.is_none_or(|text| contains(&bytes, text.as_bytes()));
    let (verdict, finding) = judge(run.end, !bytes.trim_ascii().is_empty(), found);
    let exit_code = match run.end {
        End::Exit(status) => status.code().and_then(|code| u64::try_from(code).ok()),
        _ => None,
    };
    Ok(GateFindingsV1 {
        verdict,
        exit_code_optional: exit_code,
        started_at_clock: run.started_at,
        ended_at_clock: run.ended_at,
        log_digest: Digest::of(&bytes),
        log_bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        findings: vec![Text::lossy(&finding)],
    })
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// What a run came to. A command that says nothing, or not what was expected, has checked nothing.
fn judge(end: End, wrote: bool, found: bool) -> (GateVerdict, String) {
    let status = match end {
        End::TimeLimit => return (GateVerdict::Failed, "stopped at the time limit".into()),
        End::LogLimit => return (GateVerdict::Failed, "stopped: the log is too large".into()),
        End::Exit(status) => status,
    };
    if let Some(signal) = status.signal() {
        return (GateVerdict::Failed, format!("ended by signal {signal}"));
    }
    match status.code() {
        Some(0) if !wrote => (
            GateVerdict::NothingChecked,
            "exit code 0 and an empty log".into(),
        ),
        Some(0) if !found => (
            GateVerdict::NothingChecked,
            "exit code 0, and the expected text is not in the log".into(),
        ),
        Some(0) => (GateVerdict::Passed, "exit code 0".into()),
        code => (
            GateVerdict::Failed,
            format!("exit code {}", code.unwrap_or(-1)),
        ),
    }
}

fn receipt(
    arguments: &Attest,
    command: Text,
    repository: Name,
    id: &ObjectId,
    findings: GateFindingsV1,
    environment: Digest,
) -> GateReceiptV1 {
    // Which ref it may land on is no part of a candidate's digest.
    let land = LandPayload {
        resource: GitRef {
            repository,
            reference: Text::default(),
        },
        old: Bytes::default(),
        new: Bytes(id.bytes().to_vec()),
    };
    let ended_at = findings.ended_at_clock;
    GateReceiptV1 {
        gate_id: arguments.gate_id.clone(),
        spec_version: Text::lossy(&arguments.spec_version),
        harness_fixture_digest: Digest::of(build_id::build_id().as_bytes()),
        environment_digest: environment,
        command,
        verdict_and_findings: findings,
        provider_key_version: arguments.key_version,
        receipt_id: random(),
        release_candidate_digest: land.candidate_digest(),
        artifact_digests: Vec::new(),
        generated_at_clock: world::now_unix_ms().max(ended_at),
        evidence_refs: Vec::new(),
    }
}

fn report(
    receipt: &GateReceiptV1,
    bytes: &[u8],
    arguments: &Attest,
    log: &Path,
    common: &Common,
) -> Done {
    let findings = &receipt.verdict_and_findings;
    let exit_code = findings.exit_code_optional;
    let answer = Attested {
        verdict: findings.verdict.word().to_owned(),
        findings: findings.findings.iter().map(Text::to_string).collect(),
        // A process's exit code is a byte.
        exit_code: exit_code.and_then(|it| u32::try_from(it).ok()),
        digest: Digest::of(bytes).to_string(),
        receipt: arguments.out.display().to_string(),
        log: log.display().to_string(),
        log_digest: findings.log_digest.to_string(),
    };
    output::print(common.output, &answer, |answer| {
        output::lines(&[
            ("verdict", findings.verdict.to_string()),
            ("because", answer.findings.join("; ")),
            ("receipt", answer.receipt.clone()),
            ("digest", answer.digest.clone()),
            ("log", answer.log.clone()),
        ])
    })?;
    let said = answer.findings;
    match findings.verdict {
        GateVerdict::Passed => Ok(0),
        verdict => Err(Failure::new(
            ExitCode::Error,
            format!("the gate did not pass: {verdict} ({})", said.join("; ")),
        )
        .hint(format!("read {}", log.display()))),
    }
}

fn usage(text: &str) -> Failure {
    Failure::new(ExitCode::Usage, text)
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(ExitCode::Error, format!("cannot {what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_085_only_a_run_that_checked_something_passes() {
        let exit = |code: i32| End::Exit(ExitStatus::from_raw(code << 8));
        let table = [
            (exit(0), true, true, GateVerdict::Passed),
            (exit(0), false, true, GateVerdict::NothingChecked),
            (exit(0), true, false, GateVerdict::NothingChecked),
            (exit(1), true, true, GateVerdict::Failed),
            (exit(127), true, true, GateVerdict::Failed),
            (
                End::Exit(ExitStatus::from_raw(9)),
                true,
                true,
                GateVerdict::Failed,
            ),
            (End::TimeLimit, true, true, GateVerdict::Failed),
            (End::LogLimit, true, true, GateVerdict::Failed),
        ];
        for (end, wrote, found, expected) in table {
            assert_eq!(
                judge(end, wrote, found).0,
                expected,
                "{end:?} {wrote} {found}"
            );
        }
    }

    #[test]
    fn the_environment_digest_forgets_the_folders_of_one_run() {
        let variables = |work: &str| vec![("HOME".to_owned(), format!("{work}/home"))];
        let digest = |work| environment_digest(&variables(work), Path::new(work));
        assert_eq!(digest("/tmp/a"), digest("/tmp/b"));
        let other = vec![("HOME".to_owned(), "/srv".to_owned())];
        assert_ne!(
            digest("/tmp/a"),
            environment_digest(&other, Path::new("/tmp/a"))
        );
    }
}
