//! A runner attests exactly one commit, and only what was checked.

use redlatch_types::records::{GateReceiptV1, GateVerdict};
use redlatch_types::{Canonical, Digest, Envelope};

use crate::bench::{Bench, Ended, redlatch};
use crate::cluster::RUNNER;
use crate::world::key;

impl Bench {
    pub fn attest(&self, who: &str, commit: &str, command: &str, more: &[&str]) -> Ended {
        let (config, clone, out) = (self.path(who), self.path("clone"), self.path("receipt"));
        let mut arguments = vec!["--config", &config, "gate", "attest", "--repo", &clone];
        arguments.extend(["--commit", commit, "--command", command, "--out", &out]);
        arguments.extend(more);
        redlatch(&arguments)
    }

    pub fn receipt(&self) -> GateReceiptV1 {
        let bytes = std::fs::read(self.at("receipt")).expect("a receipt");
        let envelope = Envelope::from_canonical(&bytes).expect("an envelope");
        assert_eq!(envelope.key, key(RUNNER).public_key());
        envelope
            .open::<GateReceiptV1>()
            .expect("signed")
            .record()
            .clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_signed_with_its_log_and_its_commit() {
    let bench = Bench::new().await;
    let b = &bench.commits[1];
    // What lies in the caller's tree, index and environment is not what is judged.
    std::fs::write(bench.at("clone/file9"), "not committed").expect("written");
    let command = "ls; git rev-parse HEAD; echo secret=${SECRET-none}";
    bench.attest("runner.toml", b, command, &[]).ok();
    let log = std::fs::read_to_string(bench.at("receipt.log")).expect("a log");
    assert_eq!(log, format!("file1\nfile2\n{b}\nsecret=none\n"));
    let receipt = bench.receipt();
    let findings = &receipt.verdict_and_findings;
    assert_eq!(findings.verdict, GateVerdict::Passed);
    assert_eq!(findings.exit_code_optional, Some(0));
    assert_eq!(findings.log_digest, Digest::of(log.as_bytes()));
    assert_eq!(receipt.command.as_str(), command);
    assert_eq!(receipt.check(&bench.candidate(b)), Ok(()));
    assert!(receipt.check(&bench.candidate(&bench.commits[2])).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_085_failures_and_empty_runs_are_signed_as_such() {
    let bench = Bench::new().await;
    let b = &bench.commits[1];
    let cases: [(&str, &[&str], GateVerdict, Option<u64>); 5] = [
        ("echo no; exit 7", &[], GateVerdict::Failed, Some(7)),
        ("true", &[], GateVerdict::NothingChecked, Some(0)),
        (
            "echo 0 tests",
            &["--expect", "1 test"],
            GateVerdict::NothingChecked,
            Some(0),
        ),
        ("kill -9 $$", &[], GateVerdict::Failed, None),
        (
            "echo long; sleep 600 & sleep 600",
            &["--time-limit", "1"],
            GateVerdict::Failed,
            None,
        ),
    ];
    for (command, more, verdict, code) in cases {
        let ended = bench.attest("runner.toml", b, command, more);
        assert_eq!(ended.code, 1, "{command}: {}", ended.text);
        let findings = bench.receipt().verdict_and_findings;
        assert_eq!(findings.verdict, verdict, "{command}");
        assert_eq!(findings.exit_code_optional, code, "{command}");
        assert!(bench.receipt().check(&bench.candidate(b)).is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_attested_leaves_no_receipt() {
    let bench = Bench::new().await;
    let b = &bench.commits[1];
    let absent = "1234567890123456789012345678901234567890";
    let cases = [
        (
            bench.attest("runner.toml", absent, "true", &[]),
            3,
            "is not there",
        ),
        (
            bench.attest("runner.toml", &b[..12], "true", &[]),
            2,
            "not a full object id",
        ),
        (bench.attest("runner.toml", b, " ", &[]), 2, "--command"),
        (
            bench.attest("agent.toml", b, "true", &[]),
            3,
            "not as runner",
        ),
        (
            bench.attest("runner.toml", b, "true", &["--repository", "other"]),
            3,
            "not enrolled",
        ),
    ];
    for (ended, code, text) in cases {
        assert_eq!(ended.code, code, "{}", ended.text);
        ended.refused(text);
    }
    assert!(!bench.at("receipt").exists());
}
