//! What a node has said is on its disk is on its disk, and a disk that went back in time is noticed.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use redlatch_tests::caller::{Caller, Signer, random};
use redlatch_tests::cluster::{Cluster, PATIENCE};
use redlatch_tests::journal::{agreed, settled, submit};
use redlatch_tests::process::Answer;
use redlatch_tests::repository;
use redlatch_types::EventId;
use redlatch_types::event::{Accepted, Reply};

/// Pairs of a freeze and its withdrawal whose syncs are counted.
const PAIRS: usize = 5;

/// A log in which the nodes' syncs and the test's own marks stand in the order in which they happened.
struct Syncs(PathBuf);

impl Syncs {
    fn mark(&self, line: &str) {
        let log = OpenOptions::new().append(true).create(true).open(&self.0);
        let mut log = log.expect("the folder of this test is writable");
        log.write_all(format!("{line}\n").as_bytes())
            .expect("written");
    }

    /// The nodes whose write-ahead log the kernel has finished syncing between two marks.
    fn between(&self, from: &str, to: &str) -> Vec<&'static str> {
        let text = std::fs::read_to_string(&self.0).expect("the nodes have written it");
        let lines = text.lines().skip_while(|line| *line != from);
        let window: Vec<&str> = lines.take_while(|line| *line != to).collect();
        let synced = |node: &&str| {
            let place = format!("/nodes/{node}/data/");
            window.iter().any(|line| {
                let wal = line.ends_with(".log") && line.contains(&place);
                wal && (line.starts_with("fdatasync 0 ") || line.starts_with("fsync 0 "))
            })
        };
        Cluster::names().into_iter().filter(synced).collect()
    }
}

fn preload(folder: &Path) -> PathBuf {
    let library = folder.join("count_sync.so");
    let built = Answer::of(
        Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-o"])
            .arg(&library)
            .arg(repository().join("tests/preload/count_sync.c"))
            .arg("-ldl"),
    );
    built.says(0, &[]);
    library
}

#[test]
fn fault_005_every_acknowledgement_follows_a_sync_on_a_majority() {
    let mut cluster = Cluster::made("sync");
    let library = preload(cluster.folder().path());
    let syncs = Syncs(cluster.folder().path().join("syncs"));
    for node in Cluster::names() {
        let mut command = cluster.node_command(node);
        command
            .env("LD_PRELOAD", &library)
            .env("COUNT_SYNC_LOG", &syncs.0);
        cluster.spawn(node, &mut command);
    }
    cluster.start_all();
    let caller = Caller::of(&cluster, "clients/agent");
    let signer = Signer::agent(&cluster);
    let nodes = caller.nodes();
    let step = |name: String, event, command: &[u8]| {
        // Syncs of what came before are over once every node has it.
        settled(&caller);
        syncs.mark(&format!("propose {name}"));
        let submitted = caller.run(submit(&nodes, &signer, event, command, PATIENCE));
        syncs.mark(&format!("ack {name}"));
        let reply = submitted.expect("an answer").reply;
        let synced = syncs.between(&format!("propose {name}"), &format!("ack {name}"));
        assert!(
            synced.len() >= 2,
            "{name} was acknowledged after syncs on {synced:?}"
        );
        reply
    };
    for pair in 0..PAIRS {
        let status = caller
            .run(nodes.any_status(random(), PATIENCE))
            .expect("a status");
        let time = status.record().state_time;
        let event = EventId(random());
        let frozen = step(format!("freeze {pair}"), event, &signer.freeze(time, event));
        let Reply::Accepted(Accepted::Frozen(intent)) = frozen else {
            panic!("{frozen:?}");
        };
        let event = EventId(random());
        let command = signer.withdraw(time, event, intent);
        let withdrawn = step(format!("withdraw {pair}"), event, &command);
        assert_eq!(withdrawn, Reply::Accepted(Accepted::Withdrawn(intent)));
    }
    // Where nothing is proposed nothing is synced: the count above can fail.
    settled(&caller);
    syncs.mark("quiet");
    caller
        .run(nodes.any_status(random(), PATIENCE))
        .expect("a status");
    syncs.mark("end");
    assert_eq!(syncs.between("quiet", "end"), [""; 0]);
}

fn copy(from: &Path, to: &Path) {
    let copied = Answer::of(Command::new("cp").arg("-a").arg(from).arg(to));
    copied.says(0, &[]);
}

fn rename(from: &Path, to: &Path) {
    std::fs::rename(from, to).expect("both lie in the folder of this test");
}

/// Starts n3 on whatever disk it has; it must refuse.
#[track_caller]
fn refuses(cluster: &mut Cluster) {
    let mut command = cluster.node_command("n3");
    cluster.spawn("n3", &mut command);
    let before = cluster.process("n3").output().len();
    let ended = cluster
        .process("n3")
        .wait("a node whose disk went back stops");
    let text = cluster.process("n3").output();
    assert_eq!(ended.code(), Some(3), "{text}");
    let said = &text[before.min(text.len())..];
    let said = if said.is_empty() { &text } else { said };
    assert!(said.contains("rolled_back"), "{text}");
    assert!(
        said.contains("hint: start it once with `--set rejoin=true`"),
        "{text}"
    );
    cluster.kill("n3");
}

#[test]
fn fault_013_a_node_whose_disk_went_back_in_time_refuses_and_the_others_go_on() {
    let mut cluster = Cluster::start("rolled-back");
    let data = cluster.place("n3").join("data");
    let (old, newest) = (data.with_extension("old"), data.with_extension("newest"));
    cluster.freeze("refs/heads/one");
    assert_eq!(cluster.stop("n3"), Some(0));
    copy(&data, &old);
    cluster.start_node("n3");
    cluster.freeze("refs/heads/two");
    let caller = Caller::of(&cluster, "clients/operator");
    settled(&caller);
    cluster.kill("n3");
    rename(&data, &newest);
    copy(&old, &data);
    refuses(&mut cluster);
    // It does not become right by trying again.
    refuses(&mut cluster);
    cluster.freeze("refs/heads/three");
    // The disk as it was in the end is not refused.
    rename(&data, &data.with_extension("refused"));
    rename(&newest, &data);
    cluster.start_node("n3");
    assert_eq!(agreed(&cluster, &caller).state.authority.intents.len(), 3);
}

#[test]
fn fault_014_a_wiped_node_does_not_come_back_under_its_old_id() {
    let mut cluster = Cluster::start("wiped");
    let data = cluster.place("n3").join("data");
    cluster.freeze("refs/heads/one");
    let caller = Caller::of(&cluster, "clients/operator");
    settled(&caller);
    cluster.kill("n3");
    let kept = data.with_extension("kept");
    rename(&data, &kept);
    refuses(&mut cluster);
    cluster.freeze("refs/heads/two");
    rename(&data, &data.with_extension("refused"));
    rename(&kept, &data);
    cluster.start_node("n3");
    assert_eq!(agreed(&cluster, &caller).state.authority.intents.len(), 2);
}
