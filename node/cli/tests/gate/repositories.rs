//! Crafted repositories and pushes: none of them gets a ref moved (FAULTS 81, 82).

use std::fs;

use crate::bench::{Bench, git_in};

const MAIN: &str = "refs/heads/main";

/// A gated repository with a committed landing of its second commit.
async fn ready() -> (Bench, redlatch_types::IntentDigest) {
    let bench = Bench::new().await;
    let intent = bench.committed(MAIN, &bench.commits[0], &bench.commits[1]);
    (bench, intent)
}

/// The landing is refused with `code`, nothing is claimed, and passes once `undo` has been done.
fn refused_until(
    bench: &Bench,
    intent: redlatch_types::IntentDigest,
    code: &str,
    undo: impl FnOnce(&Bench),
) {
    let (a, b) = (&bench.commits[0], &bench.commits[1]);
    bench.land(intent, b, MAIN).refused(code);
    bench.push_candidate(b).refused(code);
    assert_eq!(bench.head(MAIN), *a);
    assert!(bench.cluster.lock().claims.is_empty());
    undo(bench);
    bench.land(intent, b, MAIN).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_081_replace_refs() {
    let (bench, intent) = ready().await;
    let (a, c) = (&bench.commits[0], &bench.commits[2]);
    bench.bare(&["fetch", "-q", &bench.path("clone"), c]).ok();
    bench.bare(&["replace", a, c]).ok();
    refused_until(&bench, intent, "unsafe_repository", |bench| {
        bench.bare(&["replace", "-d", &bench.commits[0]]).ok();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_081_grafts() {
    let (bench, intent) = ready().await;
    let grafts = bench.at("repo.git/info/grafts");
    fs::create_dir_all(grafts.parent().expect("info")).expect("info");
    fs::write(&grafts, format!("{}\n", bench.commits[0])).expect("written");
    refused_until(&bench, intent, "unsafe_repository", |_| {
        fs::remove_file(&grafts).expect("removed")
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_081_alternates() {
    let (bench, intent) = ready().await;
    let alternates = bench.at("repo.git/objects/info/alternates");
    fs::write(&alternates, bench.path("clone/.git/objects\n")).expect("written");
    refused_until(&bench, intent, "unsafe_repository", |_| {
        fs::remove_file(&alternates).expect("removed");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_081_shallow() {
    let (bench, intent) = ready().await;
    let shallow = bench.at("repo.git/shallow");
    fs::write(&shallow, format!("{}\n", bench.commits[0])).expect("written");
    refused_until(&bench, intent, "unsafe_repository", |_| {
        fs::remove_file(&shallow).expect("removed")
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_081_a_push_out_of_a_shallow_clone_brings_no_shallow_history() {
    let (bench, intent) = ready().await;
    let base = bench.folder.path();
    let source = format!("file://{}", bench.path("clone"));
    git_in(
        base,
        &["clone", "-q", "--depth=1", "-b", "work", &source, "shallow"],
    )
    .ok();
    let option = format!("redlatch-intent={intent}");
    let spec = format!("{}:{MAIN}", bench.commits[2]);
    let repo = bench.path("repo.git");
    let ended = git_in(&bench.at("shallow"), &["push", "-o", &option, &repo, &spec]);
    assert_ne!(ended.code, 0, "{}", ended.text);
    assert_eq!(bench.head(MAIN), bench.commits[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_081_gitlinks() {
    let mut bench = Bench::new().await;
    let link = format!("160000,{},sub", bench.commits[0]);
    bench
        .git(&["update-index", "--add", "--cacheinfo", &link])
        .ok();
    bench.git(&["commit", "-q", "-m", "submodule"]).ok();
    let evil = bench.git(&["rev-parse", "HEAD"]).ok().trim().to_owned();
    bench.commits.push(evil.clone());
    let intent = bench.committed(MAIN, &bench.commits[0], &evil);
    bench.push_candidate(&evil).refused("gitlink_refused");
    bench.land(intent, &evil, MAIN).refused("gitlink_refused");
    assert_eq!(bench.head(MAIN), bench.commits[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_081_an_object_with_other_bytes_is_not_the_commit() {
    let (bench, intent) = ready().await;
    let [a, b, c] = &bench.commits[..] else {
        panic!()
    };
    bench.push_candidate(b).ok();
    bench.push_candidate(c).ok();
    // The bytes of one commit under the name of another, as a damaged disk or a patient attacker leaves it.
    let object = |id: &str| bench.at("repo.git/objects").join(&id[..2]).join(&id[2..]);
    let (from, to) = (object(c), object(b));
    fs::remove_file(&to).expect("loose");
    fs::copy(from, &to).expect("copied");
    let ended = bench.land(intent, b, MAIN);
    ended.refused("does not hash to its own name");
    assert_eq!(bench.head(MAIN), *a);
    assert!(bench.cluster.lock().claims.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_081_a_ref_that_stands_for_another() {
    let bench = Bench::new().await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    bench.bare(&["symbolic-ref", "refs/heads/alias", MAIN]).ok();
    let intent = bench.committed("refs/heads/alias", a, b);
    bench
        .land(intent, b, "refs/heads/alias")
        .refused("symbolic_ref");
    assert_eq!(bench.head(MAIN), *a);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_082_deletes_forces_tags_and_names() {
    let (bench, intent) = ready().await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    let option = format!("redlatch-intent={intent}");
    let push = |spec: &str| bench.push(&[&option], spec);
    push(&format!(":{MAIN}")).refused("delete_refused");
    push(&format!("{b}:refs/tags/v1")).refused("tag_refused");
    push(&format!("{b}:refs/heads/{b}")).refused("ref_named_like_id");
    push(&format!("{b}:refs/replace/{a}")).refused("ref_refused");
    push(&format!("{b}:refs/redlatch/candidate/{a}")).refused("candidate_name");
    push(&format!("{b}:refs/notes/commits")).refused("ref_refused");
    bench.git(&["checkout", "-q", "--orphan", "orphan"]).ok();
    bench.git(&["commit", "-q", "-m", "unrelated"]).ok();
    let orphan = bench.git(&["rev-parse", "HEAD"]).ok().trim().to_owned();
    let forced = bench.committed("refs/heads/forced", a, &orphan);
    bench.bare(&["update-ref", "refs/heads/forced", a]).ok();
    bench
        .land(forced, &format!("+{orphan}"), "refs/heads/forced")
        .refused("");
    assert_eq!(bench.head("refs/heads/forced"), *a);
    assert_eq!(bench.head(MAIN), *a);
    assert_eq!(bench.head("refs/tags/v1"), "");
    assert!(bench.cluster.lock().claims.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_082_a_candidate_is_never_moved_or_deleted() {
    let bench = Bench::new().await;
    let [_, b, c] = &bench.commits[..] else {
        panic!()
    };
    bench.push_candidate(b).ok();
    let reference = format!("refs/redlatch/candidate/{b}");
    let option = bench.candidate_option(crate::world::AGENT, "repo", b);
    bench
        .push(&[&option], &format!("+{c}:{reference}"))
        .refused("candidate_name");
    bench.push(&[&option], &format!(":{reference}")).refused("");
    assert_eq!(bench.head(&reference), *b);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_082_thirty_refs_and_mixed_pushes_pass_as_nothing() {
    let (bench, intent) = ready().await;
    let [a, b, _] = &bench.commits[..] else {
        panic!()
    };
    let option = format!("redlatch-intent={intent}");
    let mut arguments: Vec<String> =
        vec!["push".into(), "-o".into(), option.clone(), "origin".into()];
    arguments.push(format!("{b}:{MAIN}"));
    arguments.extend((0..29).map(|n| format!("{b}:refs/heads/b{n}")));
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    bench.git(&words).refused("too_many_refs");
    let candidate = format!("{b}:refs/redlatch/candidate/{b}");
    let signed = bench.candidate_option(crate::world::AGENT, "repo", b);
    let main = format!("{b}:{MAIN}");
    bench
        .git(&[
            "push", "-o", &option, "-o", &signed, "origin", &main, &candidate,
        ])
        .refused("mixed_push");
    assert_eq!(bench.head(MAIN), *a);
    assert_eq!(bench.head("refs/heads/b7"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_with_a_work_tree_or_a_foreign_hook_is_not_gated() {
    let bench = Bench::new().await;
    let config = bench.path("gate.toml");
    let install = |repo: &str| {
        crate::bench::redlatch(&["--config", &config, "gate", "install", "--repo", repo])
    };
    install(&bench.path("clone/.git")).refused("unsafe_repository");
    install(&bench.path("nowhere")).refused("unsafe_repository");
    git_in(bench.folder.path(), &["init", "-q", "--bare", "other.git"]).ok();
    let hook = bench.at("other.git/hooks/pre-receive");
    fs::create_dir_all(hook.parent().expect("hooks")).expect("hooks");
    fs::write(&hook, "#!/bin/sh\nexit 0\n").expect("written");
    install(&bench.path("other.git")).refused("not ours");
    assert_eq!(
        fs::read_to_string(&hook).expect("read"),
        "#!/bin/sh\nexit 0\n"
    );
    fs::remove_file(&hook).expect("removed");
    install(&bench.path("other.git")).ok();
    install(&bench.path("other.git")).ok();
}
