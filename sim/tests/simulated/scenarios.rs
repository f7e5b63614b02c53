//! Every scenario on fixed seeds.

use crate::support::{printed, simulate};

fn passes(scenario: &str, seeds: &[u64]) {
    for seed in seeds {
        let output = simulate(&["--seed", &seed.to_string(), "--scenario", scenario]);
        assert!(output.status.success(), "{}", printed(&output));
    }
}

macro_rules! scenarios {
    ($($test:ident $name:literal [$($seed:literal),*];)*) => {
        /// What is tested here, to be held against what there is.
        const TESTED: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                passes($name, &[$($seed),*]);
            }
        )*
    };
}

scenarios! {
    calm_runs_serve_everybody "calm" [2, 3];
    fault_020_leaders_are_killed "leader_killed" [1, 2, 3];
    fault_001_votes_split_and_nobody_leads_twice "split_votes" [1, 2];
    fault_005_all_nodes_lose_unsynced_pages_at_once
        "all_nodes_lose_unsynced_pages_at_once" [1, 2, 3];
    fault_005_a_voter_loses_power "voter_loses_power" [1, 2];
    crash_between_truncate_and_append "crash_between_truncate_and_append" [1, 2, 3];
    fault_008_a_failed_sync_ends_the_process "failed_sync" [1, 2];
    fault_013_a_rolled_back_disk_does_not_vote "rolled_back_disk" [1, 2];
    fault_014_a_wiped_disk_does_not_vote "wiped_disk" [1, 2];
    fault_003_a_snapshot_is_installed "snapshot_install" [1];
    fault_002_a_lonely_candidate_comes_back "partition_heal" [1, 2];
    fault_019_a_deposed_leader_never_says_free "deposed_leader_status" [1, 2, 3];
    fault_077_a_clock_steps "clock_step" [1, 2];
    the_whole_organism_decides_and_stops "organism" [1, 2];
    the_whole_organism_stands_faults_of_its_parties "organism_faults" [1, 2, 3, 4];
    fault_030_broken_ballots_end_with_the_same_votes "ballots_broken_off" [1, 2, 3];
    fault_034_a_rolled_back_verifier_does_not_vote "rolled_back_verifier" [1, 2];
    fault_034_a_rolled_back_sentinel_stops_everything "rolled_back_sentinel" [1, 2];
    random_faults "random" [1, 2, 3, 4, 5, 6];
}

#[test]
fn every_scenario_is_tested() {
    let all: Vec<&str> = redlatch_sim::scenarios::ALL
        .iter()
        .map(|it| it.name)
        .collect();
    assert_eq!(all, TESTED);
}
