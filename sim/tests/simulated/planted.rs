//! Fault 99: the invariants are not blind. Each planted fault must be found, by the invariant it names.

use crate::support::{printed, simulate};
use redlatch_sim::planted::{self, Planted};

fn is_found(name: &str) {
    let planted = planted::find(name).expect("there is a planted fault of this name");
    let Planted {
        scenario,
        seed,
        invariant,
        ..
    } = planted;
    let seed = seed.to_string();
    let output = simulate(&["--seed", &seed, "--scenario", scenario, "--plant", name]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "it was not found:\n{text}");
    let named = format!("invariant {invariant} is violated");
    assert!(
        text.contains(&named),
        "it was found by something else:\n{text}"
    );
    let again = format!("again: redlatch-sim --seed {seed}");
    assert!(text.contains(&again), "{text}");
}

macro_rules! planted {
    ($($test:ident $name:literal;)*) => {
        /// What is tested here, to be held against what there is.
        const TESTED: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                is_found($name);
            }
        )*
    };
}

planted! {
    fault_099_appends_that_are_never_synced "append-unsynced";
    fault_099_appends_that_are_answered_early "append-answered-early";
    fault_099_votes_that_are_never_synced "vote-unsynced";
    fault_099_leaves_that_are_dropped "leaves-dropped";
    fault_099_a_status_without_a_read_point "status-without-read-point";
    fault_099_a_vote_given_twice "vote-given-twice";
    fault_099_a_start_from_the_snapshot_alone "start-from-snapshot";
    fault_099_first_outcomes_forgotten_at_the_start "outcomes-forgotten";
    fault_099_a_head_with_one_cosigner "one-cosigner";
    fault_099_a_subject_that_is_not_fenced "subject-unfenced";
    fault_099_a_red_that_is_latched_again "red-latched-again";
    fault_099_a_repeat_that_is_refused "repeat-refused";
    fault_099_a_vote_that_is_forgotten "vote-forgotten";
    fault_099_a_sheet_that_is_forgotten "sheet-forgotten";
    fault_099_nonces_derived_from_the_vote "nonce-derived";
    fault_099_a_dead_attempt_that_is_kept "dead-attempt-kept";
}

#[test]
fn every_planted_fault_is_tested() {
    let all: Vec<&str> = planted::ALL.iter().map(|it| it.name).collect();
    assert_eq!(all, TESTED);
}
