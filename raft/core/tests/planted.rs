//! Every check of the journal that can be switched off has a test that notices, by name.

use std::panic::{AssertUnwindSafe, catch_unwind};

use redlatch_journal::planted::Bug;

use super::{
    authorize, bindings, deciders, governance, human, invariants, laws, positive, red, root,
};

/// The test that notices this bug.
fn noticed_by(bug: Bug) -> fn() {
    match bug {
        Bug::ActivationUnfenced => governance::a_latch_stops_an_activation_and_its_epoch_voids_it,
        Bug::ActivatedBeforeItsTime => governance::m1_i18_a_mode_is_active_only_by_its_activation,
        Bug::RotationEndsBallots => {
            governance::d12_another_key_of_the_same_four_lets_ballots_end_for_ten_minutes
        }
        Bug::ActivatedAfterItsTime => governance::an_activation_that_comes_too_late_has_lapsed,
        Bug::ClaimedAfterItsTime => {
            positive::an_unclaimed_effect_lapses_and_a_claimed_one_keeps_the_resource
        }
        Bug::ResetKeepsTiers => {
            governance::a_reset_names_every_ground_waits_for_terminal_and_leads_to_a0
        }
        Bug::ResetForgetsGrounds => {
            governance::a_reset_names_every_ground_waits_for_terminal_and_leads_to_a0
        }
        Bug::LatchUnseen => red::fault_022_a_latch_stops_every_positive_step_that_comes_after_it,
        Bug::FreezeUnseen => governance::only_a_reset_is_decided_in_a_frozen_organism,
        Bug::EpochUnfenced => red::m1_i14_an_epoch_bump_fences_what_was_issued_before,
        Bug::StepsShareAnEntry => positive::two_steps_of_one_intent_never_share_an_entry,
        Bug::VariantUnchecked => human::m1_i25_a_variant_other_than_the_frozen_one_decides_nothing,
        Bug::GreenUnchecked => authorize::m1_i22_without_a_valid_current_green_nothing_is_decided,
        Bug::DecidedTwice => authorize::m1_i33_one_intent_has_one_decision,
        Bug::VotesOutsideTheSheet => {
            authorize::fault_031_only_votes_of_the_sheet_count_and_all_of_them
        }
        Bug::ThresholdUnchecked => {
            authorize::q3_three_of_four_in_three_domains_and_no_label_counts_twice
        }
        Bug::DomainsUnchecked => authorize::m1_l1_two_domains_are_not_three,
        Bug::DecisionBelieved => {
            authorize::fault_035_the_decision_must_be_the_one_that_follows_from_the_votes
        }
        Bug::ProposerApproves => human::m1_i12_nobody_decides_what_they_or_their_clients_proposed,
        Bug::ApprovalServesAnyIntent => human::fault_065_an_approval_serves_one_intent_once,
        Bug::KeyOfAnybody => {
            human::fault_064_an_assertion_of_another_challenge_page_or_party_decides_nothing
        }
        Bug::ClaimsUnchecked => human::fault_068_a_cloned_authenticator_shows_by_its_counter,
        Bug::PersonCountsTwice => {
            human::two_persons_are_two_and_two_challenges_of_one_person_are_one
        }
        Bug::FloorsLowered => governance::m1_i21_no_amendment_lowers_a_floor,
        Bug::AmendmentOfAnother => governance::m1_i21_no_amendment_lowers_a_floor,
        Bug::PromotesItself => governance::m1_l7_nobody_promotes_a_client_of_their_own,
        Bug::PromotionOfAnotherTuple => {
            governance::m1_i11_m1_i17_a_promotion_is_one_step_for_one_tuple_with_data_and_a_way_back
        }
        Bug::PromotionWithoutData => {
            governance::m1_i11_m1_i17_a_promotion_is_one_step_for_one_tuple_with_data_and_a_way_back
        }
        Bug::KeyInTwoPlaces => {
            governance::a_subject_is_enrolled_rotated_and_revoked_by_decision_only
        }
        Bug::StaleHeadAccepted => positive::a_moved_head_is_stale_at_every_step,
        Bug::RealmUnchecked => governance::a_caller_acts_in_its_own_realms_only,
        Bug::ReservationIgnored => {
            positive::one_transaction_holds_a_resource_and_an_expired_one_holds_nothing
        }
        Bug::BudgetIgnored => positive::a_budget_counts_commits_and_live_preparations,
        Bug::AbortForNoReason => positive::an_abort_needs_a_reason_that_is_true,
        Bug::MandateUnchecked => red::m1_i31_only_the_four_rebased_fields_may_differ,
        Bug::AnybodyActuates => red::m1_l2_only_the_pinned_actuator_starts_a_safety_transaction,
        Bug::UnreadableRedIgnored => red::an_unreadable_but_authentic_red_stops_everything_once,
        Bug::SubjectUnfenced => {
            red::fault_022_a_latch_stops_every_positive_step_that_comes_after_it
        }
        Bug::RedLatchedAgain => red::a_segment_latches_in_order_in_one_entry_and_repeats_are_known,
        Bug::RepeatRefused => {
            positive::a_repeat_gets_the_first_outcome_and_another_payload_is_a_conflict
        }
        Bug::AnyCapabilityPrepares => {
            invariants::m1_i2_no_positive_step_without_the_one_before_it
        }
        Bug::PreparedIsEnough => {
            laws::m1_l9_recovery_judges_what_is_prepared_renews_a_latch_and_keeps_a_marker
        }
        Bug::AnyIngressServes => laws::m1_i3_recovery_and_migration_start_nothing_sovereign,
        Bug::EmptyListAllows => positive::m1_i8_empty_lists_in_a_grant_cover_nothing,
        Bug::ModeWithoutGates => laws::m1_l14_a_mode_that_is_allowed_is_not_the_mode_in_force,
        Bug::VerdictBeforeTheFreeze => {
            invariants::m1_i24_the_frozen_leaf_holds_the_bytes_that_its_digest_names
        }
        Bug::CallerFromTheBody => positive::m1_i26_the_caller_follows_from_the_key,
        Bug::GovernanceUnchecked => invariants::m1_i27_nothing_is_substituted_after_the_verdict,
        Bug::EndedConstitutionServes => {
            invariants::m1_l13_an_expired_constitution_and_a_revoked_party_stop_everything_positive
        }
        Bug::StopRestsOnADecision => {
            bindings::m1_i29_a_stop_says_that_no_decision_stands_behind_it_and_publishes_a_stopped_epoch
        }
        Bug::GapStopsItsScopeOnly => {
            red::m1_i32_a_gap_latches_everything_and_its_predecessor_latches_in_turn
        }
        Bug::AttemptNeverDies => {
            red::m1_i35_a_dead_attempt_is_followed_by_another_while_positives_stay_fenced
        }
        Bug::LatchHasTwoStops => red::m1_i36_one_marker_per_latch_and_no_effect_before_it,
        Bug::AttemptSpentTwice => {
            invariants::m1_l3_safety_and_positive_capabilities_are_signed_under_different_names
        }
        Bug::EpochNotPublished => red::m1_l10_claim_marker_and_epoch_are_one_entry,
        Bug::DissentHidden => {
            laws::m1_l11_nobody_but_the_root_moves_the_kernel_and_a_dissent_stays_in_the_record
        }
        Bug::ConstitutionOwnsTheMode => {
            laws::m1_i20_m1_l15_only_the_epoch_record_owns_mode_receipt_grants_and_fence
        }
        Bug::OutcomeOfAnyMarker => {
            laws::m1_i1_an_effect_is_done_only_under_the_marker_of_its_transaction
        }
        Bug::AmendmentApprovesItself => {
            laws::m1_i16_an_amendment_has_no_say_in_its_own_decision
        }
        Bug::NobodyLeft => deciders::no_change_leaves_an_organism_that_nobody_can_decide_for,
        Bug::EndedOnArrival => deciders::no_amendment_is_over_when_it_comes,
        Bug::AnybodyAsks => human::fault_094_nobody_uses_up_the_questions_of_another_person,
        Bug::RejoinedTooEarly => root::no_node_loses_its_vote_where_it_cannot_get_it_back,
        Bug::QuorumCalledHuman => authorize::m1_l16_a_quorum_decision_is_labelled_quorum_ratified,
    }
}

/// The invariants and laws that a bug breaks.
fn breaks(bug: Bug) -> &'static [&'static str] {
    match bug {
        Bug::AnyCapabilityPrepares => &["M1-I2", "M1-I13"],
        Bug::PreparedIsEnough => &["M1-I28", "M1-L9"],
        Bug::AnyIngressServes => &["M1-I3"],
        Bug::EmptyListAllows => &["M1-I8"],
        Bug::ModeWithoutGates => &["M1-I18", "M1-L14"],
        Bug::VerdictBeforeTheFreeze => &["M1-I24", "M1-L5"],
        Bug::CallerFromTheBody => &["M1-I26"],
        Bug::GovernanceUnchecked => &["M1-I27", "M1-L6"],
        Bug::EndedConstitutionServes => &["M1-L13"],
        Bug::StopRestsOnADecision => &["M1-I29"],
        Bug::GapStopsItsScopeOnly => &["M1-I32"],
        Bug::AttemptNeverDies => &["M1-I35"],
        Bug::LatchHasTwoStops => &["M1-I36"],
        Bug::AttemptSpentTwice => &["M1-L3"],
        Bug::EpochNotPublished => &["M1-L10"],
        Bug::DissentHidden => &["M1-L11"],
        Bug::ConstitutionOwnsTheMode => &["M1-I20", "M1-L15"],
        Bug::OutcomeOfAnyMarker => &["M1-I1"],
        Bug::AmendmentApprovesItself => &["M1-I16"],
        Bug::QuorumCalledHuman => &["M1-L16"],
        Bug::LatchUnseen | Bug::SubjectUnfenced => &["M1-I15", "M1-I34", "M1-L4"],
        Bug::FreezeUnseen | Bug::ActivationUnfenced => &["M1-I14", "M1-L4"],
        Bug::EpochUnfenced | Bug::ClaimedAfterItsTime | Bug::ActivatedAfterItsTime => &["M1-I14"],
        Bug::ActivatedBeforeItsTime => &["M1-I18"],
        Bug::VariantUnchecked => &["M1-I25", "M1-L6"],
        Bug::GreenUnchecked => &["M1-I22"],
        Bug::DecidedTwice => &["M1-I33"],
        Bug::ThresholdUnchecked | Bug::DomainsUnchecked => &["M1-L1"],
        Bug::DecisionBelieved => &["M1-L8"],
        Bug::ProposerApproves => &["M1-I12"],
        Bug::FloorsLowered => &["M1-I21"],
        Bug::AmendmentOfAnother => &["M1-L12"],
        Bug::PromotesItself => &["M1-L7"],
        Bug::PromotionOfAnotherTuple => &["M1-I17", "M1-L7"],
        Bug::PromotionWithoutData => &["M1-I11"],
        Bug::StaleHeadAccepted => &["M1-I27"],
        Bug::MandateUnchecked => &["M1-I31"],
        Bug::AnybodyActuates => &["M1-L2"],
        // Rules of the design that no invariant of the requirements names.
        Bug::ResetKeepsTiers
        | Bug::RotationEndsBallots
        | Bug::ResetForgetsGrounds
        | Bug::StepsShareAnEntry
        | Bug::VotesOutsideTheSheet
        | Bug::ApprovalServesAnyIntent
        | Bug::KeyOfAnybody
        | Bug::ClaimsUnchecked
        | Bug::PersonCountsTwice
        | Bug::KeyInTwoPlaces
        | Bug::RealmUnchecked
        | Bug::ReservationIgnored
        | Bug::BudgetIgnored
        | Bug::AbortForNoReason
        | Bug::UnreadableRedIgnored
        | Bug::RedLatchedAgain
        | Bug::RepeatRefused
        | Bug::NobodyLeft
        | Bug::EndedOnArrival
        | Bug::AnybodyAsks
        | Bug::RejoinedTooEarly => &[],
    }
}

/// Rows whose check cannot be switched off here, and why.
const NO_BUG: &[(&str, &str)] = &[
    ("M1-I6", "liveness is a matter of the processes"),
    ("M1-I7", "transport is a matter of the processes"),
    ("M1-I23", "a digest that named itself could not be computed"),
    (
        "M1-I30",
        "a verb that is not one of the six has no value of its type",
    ),
];

/// First cells of the rows of docs/ARCHITECTURE.md that are about an invariant or a law.
fn rows() -> Vec<String> {
    let document = include_str!("../../../docs/ARCHITECTURE.md");
    let cells = document.lines().filter_map(|line| {
        let cell = line.strip_prefix("| ")?.split(" |").next()?;
        (cell.starts_with("M1-I") || cell.starts_with("M1-L")).then(|| cell.to_owned())
    });
    cells.collect()
}

#[test]
fn every_invariant_and_law_has_a_row_and_one_that_exists_has_a_bug() {
    let rows = rows();
    let numbered = |letter: &str, last: u32| {
        let names = (1..=last).map(|n| format!("M1-{letter}{n}"));
        names.collect::<Vec<_>>()
    };
    let mut expected = [numbered("I", 36), numbered("L", 16)].concat();
    let mut found = rows.clone();
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "one row each");
    for row in &rows {
        let planted = Bug::ALL.iter().any(|bug| breaks(*bug).contains(&&**row));
        let excused = NO_BUG.iter().any(|(name, _)| name == row) || LATER.contains(&&**row);
        assert!(
            planted != excused,
            "{row}: a bug, or a reason why there is none"
        );
    }
}

/// Rows of what comes with later releases.
const LATER: [&str; 5] = ["M1-I4", "M1-I5", "M1-I9", "M1-I10", "M1-I19"];

#[test]
fn every_planted_bug_is_noticed_by_its_test() {
    let unnoticed = |bug: &&Bug| {
        let test = noticed_by(**bug);
        let planted = bug.plant();
        let outcome = catch_unwind(AssertUnwindSafe(test));
        drop(planted);
        outcome.is_ok()
    };
    let names: Vec<&str> = Bug::ALL
        .iter()
        .filter(unnoticed)
        .map(|bug| bug.name())
        .collect();
    assert!(
        names.is_empty(),
        "nothing noticed {names:?} of {}",
        Bug::ALL.len()
    );
}
