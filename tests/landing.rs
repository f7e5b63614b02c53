//! Landings on nine real processes: the demo with all its assertions, and who must be there for a decision.

use redlatch_tests::organism::Organism;
use redlatch_tests::process::{Answer, command};
use redlatch_tests::{StateFolder, binary};

const REFUSED: i32 = 3;
/// Longer than any decision takes, seconds.
const WAIT: u32 = 60;
/// Longer than a sentinel that runs is silent, seconds.
const SILENCE: u32 = 15;

fn demo(folder: &StateFolder, arguments: &[&str]) -> Answer {
    let mut demo = command(&binary("redlatch"));
    demo.env("TMPDIR", folder.path());
    Answer::of(demo.arg("demo").args(arguments))
}

/// Asserts that the words stand in the text, one after the other.
#[track_caller]
fn in_order(text: &str, words: &[&str]) {
    let mut rest = text;
    for word in words {
        let at = rest.find(word);
        let at = at.unwrap_or_else(|| panic!("no {word:?} where it belongs in:\n{text}"));
        rest = &rest[at + word.len()..];
    }
}

#[test]
fn the_demo_holds_from_the_refused_push_to_the_proven_stop() {
    let folder = StateFolder::new("demo");
    let answer = demo(&folder, &[]);
    assert_eq!(answer.code, Some(0), "{answer:#?}");
    let told = [
        "refused intent_missing",
        "FROZEN",
        "GREEN",
        "v4 REJECT",
        "at most 100 are allowed",
        "GROUP SIGNATURE",
        "PREPARE",
        "COMMIT",
        "push accepted",
        "the altered receipt is refused",
        "kill -9 n",
        "exactly one marker, in every node's journal",
        "HOLD",
        "LATCH",
        "epoch 2 to 3",
        "TERMINAL",
        "the branch did not move",
        "event            safety_terminal",
        "every assertion held",
    ];
    in_order(&answer.out, &told);
    // Nothing is kept that nobody asked for.
    let left = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(left, 0);
}

#[test]
fn two_stricter_verifiers_refuse_by_their_rule_and_their_findings_show_it() {
    let folder = StateFolder::new("strict");
    let answer = demo(&folder, &["--strict", "2"]);
    assert_eq!(answer.code, Some(0), "{answer:#?}");
    let told = [
        "v3 REJECT",
        "v3 git: file CHANGES has",
        "at most 100 are allowed",
        "v4 REJECT",
        "at most 100 are allowed",
        "refused insufficient_quorum",
        "every assertion held",
    ];
    in_order(&answer.out, &told);
}

#[test]
fn one_verifier_may_be_down_but_neither_two_nor_the_sentinel() {
    let mut organism = Organism::start("absent");
    organism.stop("v4");
    let first = organism.commit("first");
    let landed = organism.land(&first, WAIT);
    landed.says(0, &["3 votes opened"]);
    assert_eq!(landed.json()["outcome"], "done");
    assert_eq!(organism.head(), Some(first.clone()));

    organism.stop("v3");
    let second = organism.commit("second");
    organism
        .land(&second, WAIT)
        .says(REFUSED, &["refused insufficient_quorum"]);
    assert_eq!(organism.head(), Some(first.clone()));

    organism.start_again("v3");
    organism.stop("sentinel");
    organism
        .land(&second, SILENCE)
        .says(REFUSED, &["refused sentinel_required"]);
    assert_eq!(organism.head(), Some(first));

    // What was refused left nothing behind: the same commit lands once everybody who is needed is there.
    organism.start_again("sentinel");
    let landed = organism.land(&second, WAIT);
    landed.says(0, &["3 votes opened"]);
    assert_eq!(organism.head(), Some(second));
}
