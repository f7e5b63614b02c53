//! `redlatch land` from the first push to the reported outcome.

use redlatch_proto::v1;
use redlatch_types::records::{GitRef, LandPayload, Text};
use redlatch_types::{Bytes, Digest};

use crate::bench::{Bench, Ended, redlatch};
use crate::cluster::Says;
use crate::world::id;

const MAIN: &str = "refs/heads/main";

impl Bench {
    pub fn candidate(&self, commit: &str) -> Digest {
        let land = LandPayload {
            resource: GitRef {
                repository: id("repo"),
                reference: Text::lossy(MAIN),
            },
            old: Bytes(vec![]),
            new: Bytes(hex::decode(commit).expect("hex")),
        };
        land.candidate_digest()
    }

    fn redlatch_land(&self, commit: &str, more: &[&str]) -> Ended {
        let (config, repo, clone) = (
            self.path("agent.toml"),
            self.path("repo.git"),
            self.path("clone"),
        );
        let mut arguments = vec!["--config", &config, "-o", "json", "land", "--repo", &repo];
        arguments.extend(["--source", &clone, "--ref", MAIN, "--commit", commit]);
        arguments.extend(more);
        redlatch(&arguments)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_with_evidence_lands_and_every_step_is_read_back() {
    let bench = Bench::new().await;
    bench.cluster.lock().decides = true;
    let b = &bench.commits[1];
    bench.attest("runner.toml", b, "ls", &[]).ok();
    let receipt = bench.path("receipt");
    let text = bench.redlatch_land(b, &["--evidence", &receipt]).ok();
    for step in [
        "frozen",
        "authorized",
        "prepared",
        "committed",
        "effect_claimed",
    ] {
        assert!(text.contains(step), "no {step} in:\n{text}");
    }
    assert!(text.contains("\"outcome\":\"done\""), "{text}");
    assert_eq!(bench.head(MAIN), *b);
    let bytes = std::fs::read(&receipt).expect("read");
    let digest = Digest::of(&bytes);
    let stored = bench.bare(&[
        "cat-file",
        "-s",
        &format!("refs/redlatch/evidence/{digest}"),
    ]);
    assert_eq!(stored.ok().trim(), bytes.len().to_string());
    let shared = bench.cluster.lock();
    let mut intents = shared.world.state.authority.intents.values();
    assert_eq!(intents.next().expect("one").intent.evidence, [digest]);
}

#[tokio::test(flavor = "multi_thread")]
async fn landings_follow_each_other() {
    let bench = Bench::new().await;
    bench.cluster.lock().decides = true;
    let [_, b, c] = &bench.commits[..] else {
        panic!()
    };
    bench.redlatch_land(b, &[]).ok();
    bench.redlatch_land(c, &[]).ok();
    assert_eq!(bench.head(MAIN), *c);
    let again = bench.redlatch_land(c, &[]);
    assert_eq!(again.code, 3, "{}", again.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_commit_it_gives_up_and_takes_back_what_it_froze() {
    let bench = Bench::new().await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    let ended = bench.redlatch_land(b, &["--wait", "1"]);
    assert_eq!(ended.code, 4, "{}", ended.text);
    ended.refused("no COMMIT");
    assert_eq!(bench.head(MAIN), *a);
    let intents = bench.cluster.lock().world.state.authority.intents.len();
    assert_eq!(intents, 0, "nothing can be committed later");
    bench.cluster.lock().decides = true;
    bench.redlatch_land(b, &[]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_is_over_ends_it_with_its_code_and_its_findings() {
    let bench = Bench::new().await;
    let b = &bench.commits[1];
    let vote = |verifier: &str, verdict: &str, sentence: &str| v1::ProgressVote {
        verifier: verifier.into(),
        state: "opened".into(),
        verdict: verdict.into(),
        findings: vec![v1::ProgressFinding {
            evaluator: "git".into(),
            verdict: verdict.into(),
            sentences: vec![sentence.into()],
        }],
        ..v1::ProgressVote::default()
    };
    for (code, over) in [("insufficient_quorum", true), ("sentinel_required", false)] {
        bench.cluster.lock().progress = v1::ProgressResponse {
            refusal: code.into(),
            over,
            votes: vec![
                vote("va", "APPROVE", "small"),
                vote("vb", "REJECT", "larger than 10 files"),
            ],
            ..v1::ProgressResponse::default()
        };
        let ended = bench.redlatch_land(b, &["--wait", "3"]);
        assert_eq!(ended.code, 3, "{}", ended.text);
        let text = ended.refused(code);
        assert!(text.contains("vb REJECT"), "{text}");
        assert!(text.contains("larger than 10 files"), "{text}");
        assert!(
            bench
                .cluster
                .lock()
                .world
                .state
                .authority
                .intents
                .is_empty()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_it_with_the_gates_own_code() {
    let bench = Bench::new().await;
    bench.cluster.lock().decides = true;
    let b = &bench.commits[1];
    bench
        .cluster
        .says(2, Says::Scope(redlatch_types::records::ScopeState::RedHeld));
    let ended = bench.redlatch_land(b, &[]);
    assert_eq!(ended.code, 3, "{}", ended.text);
    ended.refused("red_latched");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_landing_that_was_cut_off_goes_on_by_its_intent() {
    let bench = Bench::new().await;
    bench.cluster.lock().decides = true;
    let b = &bench.commits[1];
    bench.cluster.says(2, Says::Nothing);
    bench.cluster.says(3, Says::Nothing);
    let ended = bench.redlatch_land(b, &[]);
    assert_eq!(ended.code, 4, "{}", ended.text);
    ended.refused("status_missing");
    bench.cluster.says(2, Says::Truth);
    bench.cluster.says(3, Says::Truth);
    let intent = *bench
        .cluster
        .lock()
        .world
        .state
        .authority
        .intents
        .keys()
        .next()
        .expect("one");
    bench
        .redlatch_land(b, &["--intent", &intent.to_string()])
        .ok();
    assert_eq!(bench.head(MAIN), *b);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_moved_or_altered_is_told_before_anything_is_frozen() {
    let bench = Bench::new().await;
    let [_, b, c] = &bench.commits[..] else {
        panic!()
    };
    bench.attest("runner.toml", c, "ls", &[]).ok();
    let other = bench.path("receipt");
    let mut bytes = std::fs::read(&other).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(bench.at("altered"), &bytes).expect("written");
    std::fs::write(bench.at("report.txt"), "all green").expect("written");
    let (altered, unsigned) = (bench.path("altered"), bench.path("report.txt"));
    let cases = [
        (
            bench.redlatch_land("1234567890123456789012345678901234567890", &[]),
            3,
            "is not there",
        ),
        (
            bench.redlatch_land(b, &["--evidence", &other]),
            3,
            "another candidate",
        ),
        (
            bench.redlatch_land(b, &["--evidence", &altered]),
            3,
            "evidence",
        ),
        (
            bench.redlatch_land(b, &["--evidence", &unsigned]),
            3,
            "no evidence",
        ),
        (
            bench.redlatch_land(b, &["--repository", "other"]),
            3,
            "client_refused",
        ),
        (
            bench.redlatch_land(b, &["--executor", "agent"]),
            3,
            "self_authorization",
        ),
    ];
    for (ended, code, text) in cases {
        assert_eq!(ended.code, code, "{text}: {}", ended.text);
        ended.refused(text);
    }
    assert!(
        bench
            .cluster
            .lock()
            .world
            .state
            .authority
            .intents
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_moved_past_the_gate_is_told() {
    let bench = Bench::new().await;
    bench.cluster.lock().decides = true;
    let [a, b, c] = &bench.commits[..] else {
        panic!()
    };
    bench.redlatch_land(b, &[]).ok();
    bench.bare(&["update-ref", MAIN, a]).ok();
    let ended = bench.redlatch_land(c, &[]);
    assert_eq!(ended.code, 3, "{}", ended.text);
    ended.refused("stale_head");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_without_a_gate_is_told() {
    let bench = Bench::new().await;
    crate::bench::git_in(bench.folder.path(), &["init", "-q", "--bare", "open.git"]).ok();
    let (config, repo) = (bench.path("agent.toml"), bench.path("open.git"));
    let clone = bench.path("clone");
    let b = &bench.commits[1];
    let land = |repo: &str| {
        redlatch(&[
            "--config", &config, "land", "--repo", repo, "--source", &clone, "--ref", MAIN,
            "--commit", b,
        ])
    };
    land(&repo).refused("no gate in front");
    let ended = land(&bench.path("nowhere.git"));
    assert_eq!(ended.code, 4, "{}", ended.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_stands_under_the_digest_of_its_bytes() {
    let bench = Bench::new().await;
    let push = |name: &str, content: &[u8], digest: Digest| {
        std::fs::write(bench.at(name), content).expect("written");
        let blob = bench
            .git(&["hash-object", "-w", &bench.path(name)])
            .ok()
            .trim()
            .to_owned();
        let option = bench.candidate_option(crate::world::AGENT, "repo", &blob);
        bench.push(
            &[&option],
            &format!("{blob}:refs/redlatch/evidence/{digest}"),
        )
    };
    push("small", b"receipt", Digest::of(b"other")).refused("evidence_name");
    let large = vec![7; 64 * 1024 + 1];
    push("large", &large, Digest::of(&large)).refused("evidence_name");
    push("small", b"receipt", Digest::of(b"receipt")).ok();
}
