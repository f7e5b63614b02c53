//! The offline root acts on nine real processes: a draft, a signature without a network, everything frozen, and
//! the way back that only persons have (DESIGN §6).

use redlatch_tests::cluster::PATIENCE;
use redlatch_tests::eventually;
use redlatch_tests::organism::Organism;

const USAGE: i32 = 2;
const REFUSED: i32 = 3;
/// Longer than any decision takes, seconds.
const WAIT: u32 = 60;

#[test]
fn the_root_admits_a_build_everything_is_frozen_and_persons_lead_back() {
    let mut organism = Organism::start("root");
    let first = organism.commit("before");
    organism.land(&first, WAIT).says(0, &[]);
    let place = |name: &str| organism.place().join(name).display().to_string();
    let (draft, act, root) = (place("act.toml"), place("act"), place("authority/root.key"));

    // Nothing is drafted without a reason or a change.
    let builds = redlatch_types::Digest::of(b"a new build").to_string();
    let drafted =
        |more: &[&str]| organism.tool(&[&["root", "draft", "--out", &draft], more].concat());
    drafted(&["--reason", "", "--sentinel-builds", &builds]).says(USAGE, &["says why"]);
    drafted(&["--reason", "none"]).says(USAGE, &["nothing would change"]);
    let made = drafted(&["--reason", "a new build", "--sentinel-builds", &builds]);
    made.says(0, &["root sign"]);

    // Any key signs, and only the root's counts.
    let stranger = place("clients/operator/signing.key");
    let forged = place("forged");
    let sign = |key: &str, out: &str| {
        organism.tool(&["root", "sign", &draft, "--key", key, "--out", out, "--yes"])
    };
    sign(&stranger, &forged).says(0, &[&builds, "a new build", "RED is an absolute veto: yes"]);
    organism
        .tool(&["root", "bring", &forged])
        .says(REFUSED, &["unauthorized"]);
    sign(&root, &act).says(0, &[&builds]);
    organism
        .tool(&["root", "bring", &act])
        .says(0, &["everything is frozen"]);
    // Sent once more it has happened already; the forged one still has not.
    organism
        .tool(&["root", "bring", &act])
        .says(0, &["everything is frozen"]);
    assert_eq!(
        organism.tool(&["root", "bring", &forged]).code,
        Some(REFUSED)
    );

    let stopped = organism.commit("stopped");
    assert_ne!(organism.land(&stopped, 5).code, Some(0), "frozen");
    for name in ["sentinel", "actuator", "v1", "v2", "v3", "v4"] {
        organism.ends(name);
    }
    organism.start_all();
    organism.put_in_force(&["reset", "--cause", "the new build is known"]);
    eventually("nothing is stopped", PATIENCE, || {
        (organism.status()["state"] == "green").then_some(())
    });
    // The gate knows the roster of the genesis, and is led to the one that the act names.
    organism.promote_step_by_step("agent");
    let landed = organism.land(&stopped, WAIT);
    landed.says(0, &["votes opened"]);
    assert_eq!(organism.head(), Some(stopped));
}

/// A place of the first latch in the journal, as `red show` tells it.
fn latch(organism: &Organism, place: &str) -> Option<String> {
    let shown = organism.tool(&["-o", "json", "red", "show"]).json();
    shown["latches"][0][place].as_str().map(str::to_owned)
}

/// Their keys are lost while a stop is under way: nobody says a word that counts until the root has named others,
/// who end it and go on.
#[test]
fn the_root_replaces_sentinel_and_actuator_while_a_stop_is_under_way() {
    let mut organism = Organism::start("replace");
    let first = organism.commit("before");
    organism.land(&first, WAIT).says(0, &[]);
    organism.stop("actuator");
    let scope = ["--scope", "subject:agent", "--reason", "both keys are lost"];
    let raised = organism.tool(&[&["red", "raise"], &scope[..]].concat());
    raised.says(0, &[]);
    eventually("latched", PATIENCE, || {
        (organism.status()["state"] == "stopped").then_some(())
    });
    assert_eq!(latch(&organism, "terminal_at"), None);

    let folder = organism.place();
    let place = |name: &str| folder.join(name).display().to_string();
    let (draft, act, root) = (place("act.toml"), place("act"), place("authority/root.key"));
    let (sentinel, actuator) = (organism.new_key("sentinel"), organism.new_key("actuator"));
    let made = organism.tool(&[
        "root",
        "draft",
        "--out",
        &draft,
        "--reason",
        "both keys are lost",
        "--sentinel-key",
        &sentinel,
        "--actuator-key",
        &actuator,
    ]);
    made.says(0, &["root sign"]);
    let signed = organism.tool(&[
        "root", "sign", &draft, "--key", &root, "--out", &act, "--yes",
    ]);
    signed.says(0, &[&sentinel, &actuator, "end of the old outbox"]);

    // Before the act a key that nobody has named starts nothing.
    let keys = [
        format!("keys.sentinel={}", organism.key_file("sentinel")),
        format!("keys.actuator={}", organism.key_file("actuator")),
    ];
    organism.spawn_with("actuator", &[&keys[1]]);
    let (code, said) = organism.ended("actuator");
    assert_eq!(code, Some(REFUSED), "{said}");
    assert!(said.contains("not the one in the roster"), "{said}");
    organism
        .tool(&["root", "bring", &act])
        .says(0, &["everything is frozen"]);
    for name in ["sentinel", "v1", "v2", "v3", "v4"] {
        organism.ends(name);
    }
    // After it the one before does not, and its folder is nobody else's.
    for (keys, text) in [
        (&[][..], "not the one in the roster"),
        (&[keys[0].as_str()], "that of a sentinel with another key"),
    ] {
        organism.spawn_with("sentinel", keys);
        let (code, said) = organism.ended("sentinel");
        assert_eq!(code, Some(REFUSED), "{said}");
        assert!(said.contains(text), "{said}");
    }
    for (name, key) in [("sentinel", &keys[0]), ("actuator", &keys[1])] {
        let data = format!("data={}", place(&format!("{name}/next")));
        organism.spawn_with(name, &[key, &data]);
    }
    organism.start_all();
    eventually("the stop is terminal", PATIENCE, || {
        latch(&organism, "terminal_at")
    });
    organism.put_in_force(&["reset", "--cause", "both are replaced"]);
    eventually("nothing is stopped", PATIENCE, || {
        (organism.status()["state"] == "green").then_some(())
    });
    organism.promote_step_by_step("agent");
    let landed = organism.commit("after");
    organism.land(&landed, WAIT).says(0, &["votes opened"]);
    assert_eq!(organism.head(), Some(landed));
}
