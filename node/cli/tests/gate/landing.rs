//! A commit lands exactly when a COMMIT says so and nothing has stopped it since.

use std::os::unix::fs::PermissionsExt;

use redlatch_types::limits::MINUTE_MS;
use redlatch_types::records::{RedScope, ScopeState};

use crate::bench::{Bench, redlatch};
use crate::cluster::Says;
use crate::world::{GATE, OTHER_AGENT, Outbox};

const MAIN: &str = "refs/heads/main";

/// Lets the next pre-receive pass, then kills git before it moves the ref.
fn kill_git_after_pre_receive(bench: &Bench) {
    let hook = bench.at("repo.git/hooks/pre-receive");
    std::fs::rename(&hook, hook.with_extension("real")).expect("moved");
    let script = format!(
        "#!/bin/sh\n'{}' || exit 1\nkill -9 $PPID\nexit 0\n",
        hook.with_extension("real").display()
    );
    std::fs::write(&hook, script).expect("written");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

fn restore_hook(bench: &Bench) {
    let hook = bench.at("repo.git/hooks/pre-receive");
    std::fs::rename(hook.with_extension("real"), &hook).expect("moved back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_lands_after_commit_and_only_then() {
    let bench = Bench::new().await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    bench
        .push(&[], &format!("{b}:{MAIN}"))
        .refused("intent_missing");
    bench.push_candidate(b).ok();
    assert_eq!(bench.head(&format!("refs/redlatch/candidate/{b}")), *b);
    let intent = bench.freeze(MAIN, a, b);
    bench.land(intent, b, MAIN).refused("not_committed");
    assert_eq!(bench.head(MAIN), *a);
    bench.cluster.lock().world.commit(intent);
    bench.land(intent, b, MAIN).ok();
    assert_eq!(bench.head(MAIN), *b);
    assert_eq!(bench.effect(intent), "Done");
    assert!(bench.reconcile().ok().contains("\"open\":0"));
    assert_eq!(bench.cluster.lock().claims.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_branch_lands_and_the_next_landing_follows() {
    let bench = Bench::new().await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    let first = bench.committed("refs/heads/new", "", a);
    bench.land(first, a, "refs/heads/new").ok();
    let second = bench.committed("refs/heads/new", a, b);
    bench.land(second, b, "refs/heads/new").ok();
    assert_eq!(bench.head("refs/heads/new"), *b);
    // The first authority is spent, whatever the ref is at.
    bench.land(first, a, "refs/heads/new").refused("");
    assert_eq!(bench.head("refs/heads/new"), *b);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sha256_repository_is_gated_alike() {
    let bench = Bench::with_format("sha256").await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    assert_eq!(a.len(), 64);
    bench.push_candidate(b).ok();
    let intent = bench.committed(MAIN, a, b);
    bench.land(intent, b, MAIN).ok();
    assert_eq!(bench.effect(intent), "Done");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_085_an_authority_serves_its_own_update_only() {
    let bench = Bench::new().await;
    let [a, b, c] = &bench.commits[..] else {
        panic!()
    };
    let intent = bench.committed(MAIN, a, b);
    bench.land(intent, c, MAIN).refused("candidate_mismatch");
    bench
        .land(intent, b, "refs/heads/other")
        .refused("candidate_mismatch");
    let stale = bench.committed("refs/heads/stale", b, c);
    bench
        .land(stale, c, "refs/heads/stale")
        .refused("candidate_mismatch");
    assert_eq!(bench.head(MAIN), *a);
    assert!(
        bench.cluster.lock().claims.is_empty(),
        "nothing was claimed"
    );
    bench.land(intent, b, MAIN).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_must_meet_the_policy() {
    let bench = Bench::new().await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    let intent = bench.committed(MAIN, a, b);
    bench.cluster.lock().cosigners = vec![1];
    bench.land(intent, b, MAIN).refused("not_proven");
    assert!(bench.cluster.lock().claims.is_empty());
    bench.cluster.lock().cosigners = vec![1, 3];
    bench.land(intent, b, MAIN).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_are_brought_by_enrolled_clients() {
    let bench = Bench::new().await;
    let [_, b, c] = &bench.commits[..] else {
        panic!()
    };
    let spec = format!("{b}:refs/redlatch/candidate/{b}");
    bench.push(&[], &spec).refused("client_missing");
    for (signer, repository, commit) in [
        (99, "repo", b),
        (GATE, "repo", b),
        (OTHER_AGENT, "other", b),
        (OTHER_AGENT, "repo", c),
    ] {
        let option = bench.candidate_option(signer, repository, commit);
        bench.push(&[&option], &spec).refused("client_refused");
    }
    assert_eq!(bench.head(&format!("refs/redlatch/candidate/{b}")), "");
    let option = bench.candidate_option(OTHER_AGENT, "repo", b);
    bench.push(&[&option], &spec).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_that_knows_of_a_stop_is_enough() {
    let bench = Bench::new().await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    for (scope, code) in [
        (ScopeState::Latched, "red_latched"),
        (ScopeState::RedHeld, "red_latched"),
        (ScopeState::Frozen, "frozen"),
    ] {
        let intent = bench.committed(MAIN, a, b);
        bench.cluster.says(3, Says::Scope(scope));
        bench.land(intent, b, MAIN).refused(code);
        assert_eq!(bench.head(MAIN), *a);
        assert_eq!(
            bench.effect(intent),
            "Failed",
            "seen, so it is said at once"
        );
        bench.cluster.says(3, Says::Truth);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minority_that_is_silent_or_behind_stops_nothing_and_a_majority_does() {
    let bench = Bench::new().await;
    let [a, b, c] = &bench.commits[..] else {
        panic!()
    };
    let intent = bench.committed(MAIN, a, b);
    bench.cluster.says(2, Says::Nothing);
    bench.cluster.says(3, Says::Nothing);
    bench.land(intent, b, MAIN).refused("status_missing");
    assert_eq!(bench.head(MAIN), *a);
    // The claim waits for the same push, which may come again.
    assert_eq!(bench.effect(intent), "Claimed");
    bench.cluster.says(2, Says::Truth);
    bench.land(intent, b, MAIN).ok();
    assert_eq!(bench.effect(intent), "Done");
    let intent = bench.committed(MAIN, b, c);
    bench.cluster.says(3, Says::NotOutstanding);
    bench.land(intent, c, MAIN).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_lands_after_a_red() {
    let bench = Bench::new().await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    let intent = bench.committed(MAIN, a, b);
    {
        let mut shared = bench.cluster.lock();
        let red = Outbox::new().red(&shared.world, &RedScope::Everything);
        shared.world.latch(red);
    }
    bench.land(intent, b, MAIN).refused("red_latched");
    assert_eq!(bench.head(MAIN), *a);
    assert_eq!(bench.effect(intent), "Withheld");
    assert!(bench.reconcile().ok().contains("\"open\":0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_078_claimed_and_killed_then_the_next_landing_succeeds() {
    let bench = Bench::new().await;
    let [a, b, c] = &bench.commits[..] else {
        panic!()
    };
    let intent = bench.committed(MAIN, a, b);
    kill_git_after_pre_receive(&bench);
    let ended = bench.land(intent, b, MAIN);
    assert_ne!(ended.code, 0, "{}", ended.text);
    restore_hook(&bench);
    assert_eq!(bench.head(MAIN), *a);
    assert_eq!(
        bench.effect(intent),
        "Claimed",
        "nothing is reported that was not seen"
    );
    // The next candidate settles what is left.
    bench.push_candidate(c).ok();
    assert_eq!(bench.effect(intent), "Failed");
    let next = bench.committed(MAIN, a, c);
    bench.land(next, c, MAIN).ok();
    assert_eq!(bench.head(MAIN), *c);
    assert_eq!(bench.effect(next), "Done");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_078_claimed_and_killed_then_the_same_push_succeeds() {
    let bench = Bench::new().await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    let intent = bench.committed(MAIN, a, b);
    kill_git_after_pre_receive(&bench);
    assert_ne!(bench.land(intent, b, MAIN).code, 0);
    restore_hook(&bench);
    bench.land(intent, b, MAIN).ok();
    assert_eq!(bench.head(MAIN), *b);
    assert_eq!(bench.effect(intent), "Done");
    assert_eq!(
        bench.cluster.lock().claims.len(),
        2,
        "the same claim, answered twice"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_078_moved_but_not_reported_is_found_again() {
    let bench = Bench::new().await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    let intent = bench.committed(MAIN, a, b);
    std::fs::remove_file(bench.at("repo.git/hooks/post-receive")).expect("removed");
    bench.land(intent, b, MAIN).ok();
    assert_eq!(bench.effect(intent), "Claimed");
    assert!(bench.reconcile().ok().contains("\"open\":0"));
    assert_eq!(bench.effect(intent), "Done");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_078_a_ref_moved_past_the_gate_is_unknown() {
    let bench = Bench::new().await;
    let [a, b, c] = &bench.commits[..] else {
        panic!()
    };
    let intent = bench.committed(MAIN, a, b);
    kill_git_after_pre_receive(&bench);
    assert_ne!(bench.land(intent, b, MAIN).code, 0);
    restore_hook(&bench);
    bench.push_candidate(c).ok();
    assert_eq!(bench.effect(intent), "Failed");
    let intent = bench.committed(MAIN, a, b);
    kill_git_after_pre_receive(&bench);
    assert_ne!(bench.land(intent, b, MAIN).code, 0);
    restore_hook(&bench);
    bench.bare(&["update-ref", MAIN, c]).ok();
    bench.reconcile().ok();
    assert_eq!(bench.effect(intent), "Unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn never_pushed_then_the_next_landing_succeeds() {
    let bench = Bench::new().await;
    let [a, b, c] = &bench.commits[..] else {
        panic!()
    };
    let lapsed = bench.committed(MAIN, a, b);
    {
        let mut shared = bench.cluster.lock();
        let later = shared.world.now() + 11 * MINUTE_MS;
        shared.world.tick(later);
    }
    bench.land(lapsed, b, MAIN).refused("effect_lapsed");
    let next = bench.committed(MAIN, a, c);
    bench.land(next, c, MAIN).ok();
    assert_eq!(bench.head(MAIN), *c);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_029_the_gate_remembers_its_tokens() {
    let bench = Bench::new().await;
    let [a, b, c] = &bench.commits[..] else {
        panic!()
    };
    let first = bench.committed(MAIN, a, b);
    bench.land(first, b, MAIN).ok();
    let second = bench.committed(MAIN, b, c);
    bench.land(second, c, MAIN).ok();
    // Somebody puts the ref back behind the gate's back: the first authority does not count again.
    bench.bare(&["update-ref", MAIN, a]).ok();
    bench.land(first, b, MAIN).refused("stale_token");
    assert_eq!(bench.head(MAIN), *a);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_082_of_two_racing_pushers_only_the_one_with_authority_lands() {
    let mut bench = Bench::new().await;
    for round in 0..8 {
        let old = bench.head(MAIN);
        let new = bench.commit(&format!("round{round}"), "x");
        let intent = bench.committed(MAIN, &old, &new);
        let twin = bench.git(&[
            "commit-tree",
            "-p",
            &old,
            "-m",
            "twin",
            &format!("{new}^{{tree}}"),
        ]);
        let twin = twin.ok().trim().to_owned();
        std::thread::scope(|scope| {
            let with = scope.spawn(|| bench.land(intent, &new, MAIN));
            let other = scope.spawn(|| bench.land(intent, &twin, MAIN));
            with.join().expect("ended").ok();
            assert_ne!(other.join().expect("ended").code, 0);
        });
        assert_eq!(bench.head(MAIN), new);
        assert_eq!(bench.effect(intent), "Done");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_082_a_landing_under_way_is_not_called_failed() {
    let bench = Bench::new().await;
    let [a, b, c] = &bench.commits[..] else {
        panic!()
    };
    let intent = bench.committed(MAIN, a, b);
    // After the gate's yes, git is kept from moving the ref until the other push is over.
    let hook = bench.at("repo.git/hooks/pre-receive");
    let real = hook.with_extension("real");
    std::fs::rename(&hook, &real).expect("moved");
    let (waits, go) = (bench.at("waits"), bench.at("go"));
    let script = format!(
        "#!/bin/sh\n'{}' || exit 1\n[ -e '{waits}' ] && exit 0\ntouch '{waits}'\n\
         n=0; while ! [ -e '{go}' ] && [ $n -lt 1000 ]; do n=$((n+1)); sleep 0.01; done\nexit 0\n",
        real.display(),
        waits = waits.display(),
        go = go.display(),
    );
    std::fs::write(&hook, script).expect("written");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).expect("executable");
    std::thread::scope(|scope| {
        let landing = scope.spawn(|| bench.land(intent, b, MAIN));
        while !waits.exists() {
            assert!(!landing.is_finished(), "it waits for the other push");
            std::thread::yield_now();
        }
        bench.push_candidate(c).ok();
        assert!(bench.reconcile().ok().contains("\"open\":1"));
        assert_eq!(bench.effect(intent), "Claimed");
        bench.land(intent, b, MAIN).refused("ref_busy");
        std::fs::write(&go, "").expect("written");
        landing.join().expect("ended").ok();
    });
    assert_eq!(bench.head(MAIN), *b);
    assert_eq!(bench.effect(intent), "Done");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_082_the_same_push_twice_at_once_lands_once() {
    let bench = Bench::new().await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    let intent = bench.committed(MAIN, a, b);
    std::thread::scope(|scope| {
        let one = scope.spawn(|| bench.land(intent, b, MAIN));
        let two = scope.spawn(|| bench.land(intent, b, MAIN));
        let codes = [one.join().expect("ended"), two.join().expect("ended")];
        assert!(codes.iter().any(|it| it.code == 0), "{codes:?}");
    });
    assert_eq!(bench.head(MAIN), *b);
    bench.reconcile().ok();
    assert_eq!(bench.effect(intent), "Done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_called_by_hand_lets_nothing_through() {
    let bench = Bench::new().await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    bench.push_candidate(b).ok();
    let intent = bench.committed(MAIN, a, b);
    let mut hook = std::process::Command::new(bench.at("repo.git/hooks/pre-receive"))
        .current_dir(bench.at("repo.git"))
        .env("GIT_DIR", ".")
        .env("GIT_PUSH_OPTION_COUNT", "1")
        .env("GIT_PUSH_OPTION_0", format!("redlatch-intent={intent}"))
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let line = format!("{a} {b} {MAIN}\n");
    std::io::Write::write_all(&mut hook.stdin.take().expect("piped"), line.as_bytes())
        .expect("fed");
    let output = hook.wait_with_output().expect("ended");
    crate::bench::Ended::of(&output).refused("no_receive_pack");
    assert!(bench.cluster.lock().claims.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_configurations_name_their_fault() {
    let bench = Bench::new().await;
    let good = std::fs::read_to_string(bench.at("gate.toml")).expect("read");
    let check = |text: &str| {
        std::fs::write(bench.at("other.toml"), text).expect("written");
        redlatch(&["--config", &bench.path("other.toml"), "gate", "check"])
    };
    assert_eq!(check(&good).code, 0);
    let n2 = good
        .lines()
        .find(|it| it.starts_with("n2 ="))
        .expect("a line");
    let cases = [
        (
            good.replace("freshness_ms", "freshnes_ms"),
            "did you mean `freshness_ms`",
        ),
        (
            good.replace("\"repo\"", "\"other\""),
            "enrolled for this repository",
        ),
        (
            good.replace("gate.key", "agent.key"),
            "enrolled for this repository",
        ),
        (good.replace("state = \"state\"", ""), "`state` is not set"),
        (good.replace(n2, ""), "`nodes.n2` is not set"),
        (
            good.replace(n2, &n2.replace("n2", "n9")),
            "`nodes.n2` is not set",
        ),
        (good.replace("genesis.cbor", "policy.txt"), "not a genesis"),
        (good.replace("policy.txt", "genesis.cbor"), "trust policy"),
    ];
    for (text, expected) in cases {
        let ended = check(&text);
        assert_eq!(ended.code, 2, "{expected}: {}", ended.text);
        ended.refused(expected);
    }
}
