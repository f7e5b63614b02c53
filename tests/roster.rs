//! The nodes of an organism change, on real processes: one joins, is promoted and is needed, one leaves, and one
//! that has lost its disk comes back (DESIGN D9, faults 13 to 15).

use redlatch_tests::cluster::PATIENCE;
use redlatch_tests::eventually;
use redlatch_tests::organism::Organism;

const USAGE: i32 = 2;
const REFUSED: i32 = 3;
const UNAVAILABLE: i32 = 4;

/// What a node is in the roster in force.
fn seat(organism: &Organism, node: &str) -> Option<String> {
    let shown = organism.tool(&["-o", "json", "governance"]).json();
    let nodes = shown["nodes"].as_array().expect("a list").clone();
    let found = nodes.into_iter().find(|it| it["node"] == node)?;
    found["seat"].as_str().map(str::to_owned)
}

/// Whether a node votes and counts, by its own word.
fn counts(organism: &Organism, node: &str) -> bool {
    organism.number(node, "redlatch_raft_is_voter") > 0.0
}

/// Freezes the landing of some commit: an entry that a majority has to write.
#[track_caller]
fn append(organism: &Organism, reference: &str) {
    let new = "5a1e0c4fd2b38e5b6b1b2f6c3a4d5e6f70818283";
    let freeze = ["intent", "freeze", "--repo", "demo", "--ref", reference];
    let frozen = organism.tool_as("agent", &[], &[&freeze[..], &["--new", new]].concat());
    assert_eq!(frozen.code, Some(0), "{frozen:#?}");
}

/// Makes a fourth node, lets everybody know its address, and starts it. It is in no roster.
fn fourth(organism: &mut Organism) -> String {
    let made = organism.tool(&["-o", "json", "node", "new"]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    assert_eq!(
        (&made.json()["node"], &made.json()["number"]),
        (&"n4".into(), &"4".into())
    );
    organism.kill_all();
    organism.start_all();
    organism.spawn_with("n4", &[]);
    let described = organism.tool(&["node", "describe", &organism.config("n4")]);
    assert_eq!(described.code, Some(0), "{described:#?}");
    organism.file("n4.toml", &described.out)
}

#[test]
fn a_fourth_node_joins_is_promoted_and_needed_and_another_one_leaves() {
    let mut organism = Organism::start("roster");
    let record = fourth(&mut organism);
    eventually("it waits for the others to know it", PATIENCE, || {
        let waits = organism.waits_for("n4");
        waits.contains("a majority has not answered").then_some(())
    });
    let early = organism.tool(&["node", "promote", "n4"]);
    early.says(USAGE, &["no node of the roster is called n4"]);
    organism.decide(&["node", "join", &record]);
    organism.wait_ready("n4");
    assert_eq!(seat(&organism, "n4").as_deref(), Some("learner"));
    assert!(!counts(&organism, "n4"));
    let again = organism.tool(&["node", "join", &record]);
    again.says(USAGE, &["n4 is node 4 of the roster already"]);

    organism.decide(&["node", "promote", "n4"]);
    eventually("it counts", PATIENCE, || {
        counts(&organism, "n4").then_some(())
    });
    append(&organism, "refs/heads/four");
    let voter = organism.tool(&["node", "promote", "n4"]);
    voter.says(USAGE, &["n4 votes already"]);

    // Three of four are needed: with one of the first three gone, the fourth is one of them.
    organism.stop("n1");
    append(&organism, "refs/heads/needed");
    organism.start_again("n1");

    organism.decide(&["node", "remove", "n2"]);
    assert_eq!(seat(&organism, "n2"), None);
    eventually("it knows that it was removed", PATIENCE, || {
        let waits = organism.waits_for("n2");
        waits.contains("outside the roster").then_some(())
    });
    assert!(!counts(&organism, "n2"));
    organism.stop("n2");
    append(&organism, "refs/heads/three");
}

#[test]
fn fault_014_a_node_with_a_wiped_disk_is_refused_and_comes_back_by_rejoin_and_promote() {
    let mut organism = Organism::start("rejoin");
    append(&organism, "refs/heads/before");
    organism.kill("n2");
    organism.wipe("n2");
    organism.spawn_with("n2", &[]);
    let (code, output) = organism.ended("n2");
    assert_eq!(code, Some(REFUSED), "{output}");
    assert!(
        output.contains("rolled_back") && output.contains("rejoin=true"),
        "{output}"
    );
    let absent = organism.tool(&["node", "rejoin", "n2", "--wait", "0"]);
    absent.says(UNAVAILABLE, &["n2 has not come back", "rejoin=true"]);

    organism.spawn_with("n2", &["rejoin=true"]);
    let back = organism.tool(&["-o", "json", "node", "rejoin", "n2"]);
    assert_eq!(back.code, Some(0), "{back:#?}");
    assert_eq!(back.json()["seat"], "learner");
    append(&organism, "refs/heads/without");
    eventually(
        "it has the journal and counts for nothing",
        PATIENCE,
        || {
            let waits = organism.waits_for("n2");
            waits
                .contains("counts for nothing until it is promoted")
                .then_some(())
        },
    );
    assert!(!counts(&organism, "n2"));
    // Its disk remembers that it has rejoined; while it is down nobody proposes to count it.
    organism.stop("n2");
    let unseen = organism.tool(&["node", "promote", "n2"]);
    unseen.says(UNAVAILABLE, &["n2 does not answer", "--unseen"]);
    organism.spawn_with("n2", &[]);
    // It says itself how far it is; nobody is promoted who has not caught up.
    let promotion = eventually("it has caught up", PATIENCE, || {
        let asked = organism.tool_as("operator", &[], &["node", "promote", "n2"]);
        let intent = (asked.code == Some(0)).then(|| asked.json()["intent"].clone())?;
        intent.as_str().map(str::to_owned)
    });
    let approved = organism.approve("approver", &promotion);
    assert_eq!(approved.json()["stage"], "in_force", "{approved:#?}");
    organism.wait_ready("n2");
    assert!(counts(&organism, "n2"));

    // It is needed, and after a restart without the setting it is let in again.
    organism.stop("n1");
    append(&organism, "refs/heads/needed");
    organism.start_again("n1");
    organism.stop("n2");
    organism.start_again("n2");
    assert!(counts(&organism, "n2"));
}
