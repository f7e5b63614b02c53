//! Fault 99: the invariants are not blind. Each planted fault must be found, by the invariant it names.

use crate::support::{printed, simulate};
use redlatch_sim::scenarios::Plant;

#[test]
fn fault_099_every_planted_fault_is_found_by_its_invariant() {
    for (_, plant, scenario, invariant) in Plant::ALL {
        let output = simulate(&["--seed", "1", "--scenario", scenario, "--plant", plant]);
        let text = printed(&output);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{plant} was not found:\n{text}"
        );
        let named = format!("invariant {invariant} is violated");
        assert!(
            text.contains(&named),
            "{plant} was found by something else:\n{text}"
        );
        assert!(text.contains("again: redlatch-sim --seed 1"), "{text}");
    }
}
