//! Every check of the journal that can be switched off has a test that notices, by name.

use std::panic::{AssertUnwindSafe, catch_unwind};

use redlatch_journal::planted::Bug;

use super::{authorize, governance, human, positive, red};

/// The test that notices this bug.
fn noticed_by(bug: Bug) -> fn() {
    match bug {
        Bug::ActivationUnfenced => governance::a_latch_stops_an_activation_and_its_epoch_voids_it,
        Bug::ActivatedBeforeItsTime => governance::m1_i18_a_mode_is_active_only_by_its_activation,
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
        Bug::LastKeyRevoked => {
            governance::keys_of_persons_are_kept_well_enough_new_and_never_the_last
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
    }
}

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
