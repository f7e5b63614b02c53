//! The evaluators against real repositories in temporary folders.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use redlatch_types::records::{GateFindingsV1, GateReceiptV1, GateVerdict, Text};
use redlatch_types::{Canonical, Digest, Envelope, Scope, SigningKey};

use super::*;
use crate::evaluate::evidence::EvidenceEvaluator;
use crate::evaluate::testing::{candidate, key, land_intent, scope};

/// A bare repository that candidates are pushed to, and a verifier's quarantine beside it.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let world = World { folder };
        world.git(&["init", "--quiet", "--bare", "."], b"");
        world
    }

    fn source(&self) -> PathBuf {
        let path = self.folder.path().join("source.git");
        std::fs::create_dir_all(&path).expect("a folder");
        path
    }

    fn git(&self, arguments: &[&str], stdin: &[u8]) -> String {
        let mut child = Command::new("git")
            .current_dir(self.source())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_AUTHOR_NAME", "a")
            .env("GIT_AUTHOR_EMAIL", "a@example.invalid")
            .env("GIT_COMMITTER_NAME", "a")
            .env("GIT_COMMITTER_EMAIL", "a@example.invalid")
            .env("GIT_AUTHOR_DATE", "1700000000 +0000")
            .env("GIT_COMMITTER_DATE", "1700000000 +0000")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("git is installed");
        child
            .stdin
            .take()
            .expect("piped")
            .write_all(stdin)
            .expect("written");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "git {arguments:?}");
        String::from_utf8(output.stdout)
            .expect("text")
            .trim()
            .to_owned()
    }

    fn blob(&self, bytes: &[u8]) -> String {
        self.git(&["hash-object", "-w", "--stdin"], bytes)
    }

    /// A commit of files, given by path (one level of folders) and content.
    fn commit(&self, files: &[(&str, &[u8])], parents: &[&str]) -> String {
        let mut lines = String::new();
        let folders: BTreeSet<&str> = files
            .iter()
            .filter_map(|(path, _)| Some(path.split_once('/')?.0))
            .collect();
        for folder in folders {
            let mut inner = String::new();
            for (path, bytes) in files {
                if let Some((of, name)) = path.split_once('/')
                    && of == folder
                {
                    inner += &format!("100644 blob {}\t{name}\n", self.blob(bytes));
                }
            }
            let tree = self.git(&["mktree"], inner.as_bytes());
            lines += &format!("040000 tree {tree}\t{folder}\n");
        }
        for (path, bytes) in files.iter().filter(|(path, _)| !path.contains('/')) {
            lines += &format!("100644 blob {}\t{path}\n", self.blob(bytes));
        }
        self.commit_of(&lines, parents)
    }

    fn commit_of(&self, tree_lines: &str, parents: &[&str]) -> String {
        let tree = self.git(&["mktree", "--missing"], tree_lines.as_bytes());
        let mut arguments = vec!["commit-tree", "-m", "change", &tree];
        for parent in parents {
            arguments.extend(["-p", parent]);
        }
        self.git(&arguments, b"")
    }

    fn offer(&self, commit: &str) {
        let reference = format!("refs/redlatch/candidate/{commit}");
        self.git(&["update-ref", &reference, commit], b"");
    }

    fn quarantine(&self) -> Arc<Quarantine> {
        Arc::new(Quarantine::new(QuarantineConfig {
            folder: self.folder.path().join("quarantine"),
            source: self.source().display().to_string(),
            search_path: "/usr/local/bin:/usr/bin:/bin".into(),
            protocols: "file".into(),
        }))
    }

    fn evaluator(&self) -> GitEvaluator {
        let limits = Limits {
            file_bytes_max: 100,
            changed_bytes_max: 1_000,
            changed_files_max: 3,
            commits_max: 5,
        };
        let rules = Rules::new(&["**".into()], &["ci/**".into()], limits).expect("rules");
        GitEvaluator::new(self.quarantine(), "repo".parse().expect("a name"), rules)
    }

    /// What the evaluator says of moving `main` from `old` to `new`.
    async fn judge(&self, old: &str, new: &str) -> Result<Report, String> {
        let bytes = |id: &str| hex::decode(id).expect("hex");
        let intent = land_intent(&bytes(old), &bytes(new), vec![]);
        self.evaluator().evaluate(&intent).await
    }
}

#[tokio::test]
async fn a_good_change_is_approved_and_says_what_was_seen() {
    let world = World::new();
    let old = world.commit(&[("a", b"one"), ("src/b", b"two")], &[]);
    let new = world.commit(
        &[("a", b"one"), ("src/b", b"three"), ("src/c", b"")],
        &[&old],
    );
    world.offer(&new);
    let report = world.judge(&old, &new).await.expect("looked");
    assert_eq!(report.against, [""; 0]);
    assert!(
        report.seen[0].contains("2 files changed, 5 bytes"),
        "{:?}",
        report.seen
    );
    let first = world.judge("", &old).await;
    assert!(
        first.is_err(),
        "the old head was never offered as a candidate"
    );
    world.offer(&old);
    assert_eq!(
        world.judge("", &old).await.expect("looked").against,
        [""; 0]
    );
}

#[tokio::test]
async fn each_rule_rejects_a_real_commit_and_names_what_is_wrong() {
    let world = World::new();
    let old = world.commit(&[("a", b"one")], &[]);
    let gitlink = format!("160000 commit {}\tmodule\n", "11".repeat(20));
    let symlink = format!("120000 blob {}\tlink\n", world.blob(b"/etc/passwd"));
    let cases = [
        (
            world.commit(&[("a", &[b'x'; 101])], &[&old]),
            "file a has 101 bytes; at most 100 are allowed",
        ),
        (
            world.commit(&[("a", b"one"), ("ci/run", b"x")], &[&old]),
            "path ci/run is forbidden by ci/**",
        ),
        (
            world.commit(
                &[("a", b"1"), ("b", b"1"), ("c", b"1"), ("d", b"1")],
                &[&old],
            ),
            "more than 3 files change",
        ),
        (
            world.commit_of(&gitlink, &[&old]),
            "path module is a commit of another repository",
        ),
        (
            world.commit_of(&symlink, &[&old]),
            "path link is a symbolic link",
        ),
    ];
    for (new, says) in cases {
        world.offer(&new);
        let report = world.judge(&old, &new).await.expect("looked");
        assert!(
            report.against.iter().any(|it| it == says),
            "{says}: {report:?}"
        );
    }
}

#[tokio::test]
async fn fault_081_a_commit_that_is_not_there_or_does_not_descend_is_rejected() {
    let world = World::new();
    let old = world.commit(&[("a", b"one")], &[]);
    let fault = world
        .judge(&old, &"11".repeat(20))
        .await
        .expect_err("not there");
    assert!(fault.starts_with("git fetch failed"), "{fault}");
    let stranger = world.commit(&[("a", b"two")], &[]);
    world.offer(&stranger);
    let report = world.judge(&old, &stranger).await.expect("looked");
    assert_eq!(
        report.against,
        [format!("commit {stranger} does not descend from {old}")]
    );
    // A candidate may be far behind: more commits than are read are no approval.
    let mut far = old.clone();
    for step in 0..7u8 {
        far = world.commit(&[("a", &[step])], &[&far]);
    }
    world.offer(&far);
    let fault = world.judge(&old, &far).await.expect_err("too far");
    assert!(fault.contains("more than 5 commits"), "{fault}");
}

#[tokio::test]
async fn fault_081_replace_refs_and_the_callers_environment_change_nothing() {
    let world = World::new();
    let old = world.commit(&[("a", b"one")], &[]);
    let harmless = world.commit(&[("a", b"two")], &[&old]);
    let bad = world.commit(&[("ci/run", b"x")], &[&old]);
    world.offer(&bad);
    world.git(
        &["update-ref", &format!("refs/replace/{bad}"), &harmless],
        b"",
    );
    let report = world.judge(&old, &bad).await.expect("looked");
    assert!(!report.against.is_empty(), "{report:?}");
}

#[tokio::test]
async fn fault_081_a_forged_object_is_found_by_its_hash() {
    let world = World::new();
    let old = world.commit(&[("a", b"one")], &[]);
    let new = world.commit(&[("a", b"two")], &[&old]);
    world.offer(&new);
    assert_eq!(
        world.judge(&old, &new).await.expect("looked").against,
        [""; 0]
    );
    // Somebody with access to the quarantine puts other bytes under the blob's name.
    let blob = world.git(&["rev-parse", &format!("{new}:a")], b"");
    let clone = world.folder.path().join("quarantine/sha1.git");
    let objects = clone.join("objects");
    let forged = world.folder.path().join("source.git/objects");
    std::fs::remove_dir_all(objects.join("pack")).expect("packs are gone");
    copy(&forged, &objects);
    let place = objects.join(&blob[..2]).join(&blob[2..]);
    let other = world.blob(b"ten");
    std::fs::remove_file(&place).expect("the honest object");
    std::fs::copy(forged.join(&other[..2]).join(&other[2..]), &place).expect("forged");
    let fault = world.judge(&old, &new).await.expect_err("found");
    assert_eq!(
        fault,
        format!("object {blob} does not hash to its own name")
    );
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).expect("readable") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&target).expect("a folder");
            copy(&entry.path(), &target);
        } else {
            // Objects are read-only; what is there already is the same.
            let _ = std::fs::copy(entry.path(), target);
        }
    }
}

fn receipt(new: &str, runner: &SigningKey, change: impl FnOnce(&mut GateReceiptV1)) -> Vec<u8> {
    let mut receipt = GateReceiptV1 {
        gate_id: "unit".parse().expect("a name"),
        spec_version: Text::lossy("1"),
        harness_fixture_digest: Digest::ZERO,
        environment_digest: Digest::ZERO,
        command: Text::lossy("make test"),
        verdict_and_findings: GateFindingsV1 {
            verdict: GateVerdict::Passed,
            exit_code_optional: Some(0),
            started_at_clock: 1,
            ended_at_clock: 2,
            log_digest: Digest::ZERO,
            log_bytes: 3,
            findings: vec![],
        },
        provider_key_version: 1,
        receipt_id: Digest::ZERO,
        release_candidate_digest: candidate(&hex::decode(new).expect("hex")),
        artifact_digests: vec![],
        generated_at_clock: 3,
        evidence_refs: vec![],
    };
    change(&mut receipt);
    Envelope::seal(scope(), runner, &receipt).to_canonical()
}

async fn judge_evidence(world: &World, new: &str, files: &[Vec<u8>]) -> Report {
    let digests: Vec<Digest> = files.iter().map(|bytes| Digest::of(bytes)).collect();
    let intent = land_intent(&[], &hex::decode(new).expect("hex"), digests);
    let runners = BTreeSet::from([key(7).public_key()]);
    let evaluator = EvidenceEvaluator::new(world.quarantine(), scope().organism_id, runners, 1);
    evaluator.evaluate(&intent).await.expect("looked")
}

fn attach(world: &World, bytes: &[u8]) {
    let reference = format!("refs/redlatch/evidence/{}", Digest::of(bytes));
    let blob = world.blob(bytes);
    world.git(&["update-ref", &reference, &blob], b"");
}

#[tokio::test]
async fn evidence_is_a_passed_receipt_for_this_commit_by_a_configured_runner() {
    let world = World::new();
    let new = world.commit(&[("a", b"one")], &[]);
    let good = receipt(&new, &key(7), |_| {});
    attach(&world, &good);
    let report = judge_evidence(&world, &new, std::slice::from_ref(&good)).await;
    assert_eq!(report.against, [""; 0]);
    assert!(report.seen[0].contains("gate unit passed"), "{report:?}");

    let other_commit = receipt(&"22".repeat(20), &key(7), |_| {});
    let failed = receipt(&new, &key(7), |it| {
        it.verdict_and_findings.verdict = GateVerdict::Failed;
    });
    let stranger = receipt(&new, &key(8), |_| {});
    let signed = Envelope::from_canonical(&good).expect("a record");
    let signed = signed.open::<GateReceiptV1>().expect("signed");
    let next = Scope {
        organism_epoch: scope().organism_epoch + 1,
        ..scope()
    };
    let other_epoch = Envelope::seal(next, &key(7), signed.record());
    let unsigned = b"passed, honestly".to_vec();
    let mut altered = good.clone();
    *altered.last_mut().expect("bytes") ^= 1;
    let missing = receipt(&new, &key(7), |it| it.provider_key_version = 2);
    for (bytes, says) in [
        (other_commit, "for another candidate"),
        (failed, "the command failed"),
        (
            stranger,
            "0 passed gate receipts by configured runners; 1 are needed",
        ),
        (other_epoch.to_canonical(), "for another organism or epoch"),
        (unsigned, "it is no signed record"),
        (altered, "does not hold"),
    ] {
        attach(&world, &bytes);
        let report = judge_evidence(&world, &new, &[bytes]).await;
        assert!(
            report.against.join("; ").contains(says),
            "{says}: {report:?}"
        );
    }
    let report = judge_evidence(&world, &new, &[missing]).await;
    assert!(report.against[0].contains("git fetch failed"), "{report:?}");
    assert!(!judge_evidence(&world, &new, &[]).await.against.is_empty());
}

#[tokio::test]
async fn evidence_with_other_bytes_than_its_name_rejects() {
    let world = World::new();
    let new = world.commit(&[("a", b"one")], &[]);
    let good = receipt(&new, &key(7), |_| {});
    let named = receipt(&new, &key(7), |it| it.provider_key_version = 9);
    let reference = format!("refs/redlatch/evidence/{}", Digest::of(&named));
    let blob = world.blob(&good);
    world.git(&["update-ref", &reference, &blob], b"");
    let report = judge_evidence(&world, &new, &[named]).await;
    assert!(report.against[0].contains("has other bytes"), "{report:?}");
}
