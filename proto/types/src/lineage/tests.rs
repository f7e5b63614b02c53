//! Lineages: they grow by the next proven link and by nothing else, whoever shows it.

use super::*;
use crate::chain::tests::{changed, link, roster, trust};
use crate::checkpoint::Stage;
use crate::policy::fixtures::Organism;

/// A development organism of four nodes, the first three of them its first voters, with a lineage of the first
/// roster and three links: node 4 joins, node 2 leaves, node 3 leaves.
struct Told {
    organism: Organism,
    lineage: Lineage,
    links: [Receipt; 3],
}

fn told() -> Told {
    let organism = Organism::new(Stage::Development, 4, 0);
    let change = |epoch: u64, voters: &[usize]| changed(roster(&organism, epoch, voters));
    let links = [
        link(&organism, &change(2, &[1, 2, 3, 4]), &[0, 1], &[]),
        link(&organism, &change(3, &[1, 3, 4]), &[0, 1, 3], &[]),
        link(&organism, &change(4, &[1, 4]), &[0, 3], &[]),
    ];
    let lineage = Lineage::from(trust(&organism, roster(&organism, 1, &[1, 2, 3])));
    Told {
        organism,
        lineage,
        links,
    }
}

/// Takes all links, and shows that none of `refused` changes anything before or after any of them.
fn unmoved_by(mut told: Told, refused: &Receipt, at: usize) {
    for link in &told.links[..at] {
        assert_eq!(told.lineage.take(link).ok(), Some(Step::Next));
    }
    let before = told.lineage.clone();
    assert!(told.lineage.take(refused).is_err());
    assert_eq!(told.lineage, before);
}

#[test]
fn a_lineage_grows_link_by_link_and_a_shorter_chain_changes_nothing() {
    let Told {
        mut lineage, links, ..
    } = told();
    for (link, epoch) in links.iter().zip(2..) {
        assert_eq!(lineage.take(link).ok(), Some(Step::Next));
        assert_eq!(lineage.epoch(), RosterEpoch(epoch));
    }
    let whole = lineage.clone();
    for link in &links[..2] {
        assert_eq!(lineage.take(link).ok(), Some(Step::Known));
    }
    assert_eq!(lineage, whole);
    assert_eq!(lineage.links(), links);
}

#[test]
fn a_cut_chain_ends_at_the_cut_and_a_reordered_one_at_the_first_that_does_not_follow() {
    for order in [[0, 2, 1], [1, 0, 2], [2, 1, 0]] {
        let mut told = told();
        let mut taken = 0;
        for place in order {
            let found = told.lineage.take(&told.links[place]);
            let Err(refused) = found else {
                taken += 1;
                continue;
            };
            // Under the roster that is trusted the later one may lack signatures, or follow no version.
            let RefusedLink::Broken { after, why } = refused else {
                panic!("{order:?}: {refused:?}");
            };
            assert_eq!(after, told.lineage.epoch(), "{order:?}");
            assert!(
                matches!(why, BadLink::NotTheNext { .. } | BadLink::Receipt(_)),
                "{order:?}: {why:?}"
            );
        }
        assert_eq!(told.lineage.links().len(), taken, "{order:?}");
        assert!(taken < 3, "{order:?}");
    }
}

#[test]
fn forged_and_foreign_links_are_refused_wherever_they_are_shown() {
    let organism = Organism::new(Stage::Development, 4, 0);
    let change = |epoch, voters: &[usize]| changed(roster(&organism, epoch, voters));
    // By too few; with another leaf; of a journal of the same nodes and another name.
    let unsigned = link(&organism, &change(2, &[1, 2]), &[0], &[]);
    unmoved_by(told(), &unsigned, 0);
    let mut altered = told().links[1].clone();
    altered.leaf = change(3, &[4]).to_canonical();
    unmoved_by(told(), &altered, 1);
    let mut elsewhere = Organism::new(Stage::Development, 4, 0);
    elsewhere.origin.history = 1;
    let foreign = link(&elsewhere, &change(2, &[1, 2, 3, 4]), &[0, 1], &[]);
    let mut told = told();
    let refused = told.lineage.take(&foreign);
    let Err(RefusedLink::Broken { why, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.to_string().contains("the policy is for"), "{why}");
}

#[test]
fn two_proven_changes_of_one_roster_are_a_fork_and_the_same_one_again_is_not() {
    let mut told = told();
    for link in &told.links {
        told.lineage.take(link).expect("proven");
    }
    let (organism, lineage) = (&told.organism, &mut told.lineage);
    let change = |voters: &[usize]| changed(roster(organism, 2, voters));
    // The same leaf under a head that others have cosigned.
    let again = link(organism, &change(&[1, 2, 3, 4]), &[1, 2], &[]);
    assert_eq!(lineage.take(&again).ok(), Some(Step::Known));
    let other = change(&[1, 2]);
    let unproven = link(organism, &other, &[0], &[]);
    let refused = lineage.take(&unproven);
    assert!(
        matches!(refused, Err(RefusedLink::Broken { after, .. }) if after == RosterEpoch(1)),
        "one node's word is no second history: {refused:?}"
    );
    let proven = link(organism, &other, &[0, 1], &[]);
    let refused = lineage.take(&proven);
    assert!(
        matches!(refused, Err(RefusedLink::Forked(RosterEpoch(1)))),
        "{refused:?}"
    );
}

#[test]
fn a_production_lineage_needs_the_witnesses_of_the_roster_before() {
    let organism = Organism::new(Stage::Production, 4, 4);
    let mut lineage = Lineage::from(trust(&organism, roster(&organism, 1, &[1, 2, 3])));
    let event = changed(roster(&organism, 2, &[1, 2, 3, 4]));
    let unwitnessed = link(&organism, &event, &[0, 1, 2], &[0, 1]);
    assert!(lineage.take(&unwitnessed).is_err());
    let witnessed = link(&organism, &event, &[0, 1], &[0, 1, 2]);
    assert_eq!(lineage.take(&witnessed).ok(), Some(Step::Next));
}

#[test]
fn a_policy_counts_as_it_is_for_the_last_roster_and_makes_way_for_a_later_one() {
    let mut told = told();
    let of = |lineage: &Lineage| lineage.last.policy().clone();
    let first = of(&told.lineage);
    // Stricter than a majority, for as long as its roster is in force.
    let mut strict = first.nodes().clone();
    strict.threshold = 3;
    let strict = Policy::new(first.logs().to_vec(), strict, None).expect("three of three");
    assert_eq!(told.lineage.policy(&strict), Ok(strict.clone()));
    let mut ahead = told.lineage.clone();
    for link in &told.links {
        ahead.take(link).expect("proven");
    }
    assert_eq!(ahead.policy(&first), Ok(of(&ahead)));
    assert_eq!(ahead.policy(&strict), Ok(of(&ahead)));
    let refused = told.lineage.policy(&of(&ahead));
    assert_eq!(refused, Err(StrangePolicy::OtherKeys(RosterEpoch(1))));
    let mut elsewhere = Organism::new(Stage::Development, 4, 0);
    elsewhere.origin.history = 1;
    let foreign = Lineage::from(trust(&elsewhere, roster(&elsewhere, 1, &[1, 2, 3])));
    assert!(matches!(
        told.lineage.policy(&of(&foreign)),
        Err(StrangePolicy::OtherJournal { .. })
    ));
    told.lineage.take(&told.links[0]).expect("proven");
    assert!(told.lineage.policy(&first).is_ok());
}
