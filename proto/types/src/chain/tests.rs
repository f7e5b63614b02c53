//! Chains of rosters: who has to have signed, and in which order links count.

use super::*;
use crate::bytes::Digest;
use crate::ids::{FailureDomain, Name, NodeId, VerifierId};
use crate::merkle::definition::{path, root};
use crate::merkle::leaf_hash;
use crate::policy::fixtures::Organism;
use crate::receipt::TlogProof;
use crate::records::{PinnedParty, RootActV1, RosterNode, RosterVerifier, Seat, Text};
use crate::sign::{Envelope, Scope, SigningKey};

const ROOT: [u8; 32] = [7; 32];
const SUCCESSOR: [u8; 32] = [8; 32];

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// Nodes 1 to 4 of the organism exist; `voters` of them are in the roster.
pub(crate) fn roster(organism: &Organism, epoch: u64, voters: &[usize]) -> RosterV1 {
    let node = |number: &usize| RosterNode {
        node_id: NodeId(*number as u64),
        name: name(&format!("node-{number}")),
        seat: Seat::Voter,
        log_key: organism.logs[number - 1].public_key(),
        cosigner_key: organism.nodes[number - 1].public_key(),
        record_key: SigningKey::from_seed([90 + u8::try_from(*number).expect("small"); 32])
            .public_key(),
    };
    let verifier = |(index, key): (usize, &SigningKey)| RosterVerifier {
        verifier_id: VerifierId(name(&format!("verifier-{}", index + 1))),
        identifier: u16::try_from(index + 1).expect("small"),
        failure_domain: FailureDomain(name("d")),
        vote_key: key.public_key(),
        witness_key: key.public_key(),
        builds_digest: Digest::ZERO,
        policy_digest: Digest::ZERO,
    };
    let party = PinnedParty {
        name: name("party"),
        key: SigningKey::from_seed([80; 32]).public_key(),
        builds_digest: Digest::ZERO,
        policy_digest: Digest::ZERO,
    };
    RosterV1 {
        roster_epoch: RosterEpoch(epoch),
        nodes: voters.iter().map(node).collect(),
        verifiers: organism
            .witnesses
            .iter()
            .enumerate()
            .map(verifier)
            .collect(),
        sentinel: party.clone(),
        actuator: party,
    }
}

pub(crate) fn trust(organism: &Organism, roster: RosterV1) -> Trust {
    let root = RootInForce {
        scope: scope(organism, 1),
        key: SigningKey::from_seed(ROOT).public_key(),
        kernel_digest: kernel().digest(),
        acts: 0,
        roster_epoch: roster.roster_epoch,
    };
    Trust::of_roster(organism.origin, roster, root).expect("a policy")
}

fn scope(organism: &Organism, organism_epoch: u64) -> Scope {
    Scope {
        organism_id: organism.origin.organism,
        organism_epoch,
    }
}

/// A receipt of `event` in a journal of two leaves, signed by these nodes.
pub(crate) fn link(
    organism: &Organism,
    event: &Event,
    nodes: &[usize],
    witnesses: &[usize],
) -> Receipt {
    let leaf = event.to_canonical();
    let hashes = [leaf_hash(b"before"), leaf_hash(&leaf)];
    let head = organism.head(&organism.checkpoint(2, root(&hashes)), nodes, witnesses);
    Receipt {
        leaf,
        proof: TlogProof {
            index: 1,
            hashes: path(1, &hashes),
            head,
        },
    }
}

pub(crate) fn changed(roster: RosterV1) -> Event {
    Event::RosterChanged(Box::new(roster))
}

#[test]
fn a_majority_of_the_roster_before_leads_to_the_next_one() {
    let organism = Organism::new(Stage::Development, 4, 0);
    let first = trust(&organism, roster(&organism, 1, &[1, 2, 3]));
    let joined = changed(roster(&organism, 2, &[1, 2, 3, 4]));
    // Node 4 is nobody yet, so the second signature it brings is none.
    let refused = first.follow(&link(&organism, &joined, &[0, 3], &[]), Demand::Quorum);
    assert!(matches!(refused, Err(BadLink::Receipt(_))), "{refused:?}");
    let second = first
        .follow(&link(&organism, &joined, &[0, 1], &[]), Demand::Quorum)
        .expect("two of three");
    let left = changed(roster(&organism, 3, &[2, 3, 4]));
    let refused = second.follow(&link(&organism, &left, &[0, 1], &[]), Demand::Quorum);
    assert!(matches!(refused, Err(BadLink::Receipt(_))), "two of four");
    let third = second
        .follow(&link(&organism, &left, &[0, 1, 2], &[]), Demand::Quorum)
        .expect("three of four");
    assert_eq!(third.roster().roster_epoch, RosterEpoch(3));
    assert_eq!(
        third.policy(),
        &Policy::of(&organism.origin, third.roster()).expect("a policy")
    );
}

#[test]
fn neither_an_old_change_nor_one_left_out_is_the_next() {
    let organism = Organism::new(Stage::Development, 4, 0);
    let second = trust(&organism, roster(&organism, 2, &[1, 2, 3, 4]));
    for epoch in [1, 2, 4] {
        let event = changed(roster(&organism, epoch, &[1, 2, 3]));
        let refused = second.follow(&link(&organism, &event, &[0, 1, 2], &[]), Demand::Quorum);
        assert!(
            matches!(refused, Err(BadLink::NotTheNext { .. })),
            "{epoch}"
        );
    }
    let other = link(
        &organism,
        &Event::QuorumKeyVoided(crate::KeyEpoch(1)),
        &[0, 1, 2],
        &[],
    );
    let refused = second.follow(&other, Demand::Quorum);
    assert!(matches!(refused, Err(BadLink::NotARosterChange)));
}

#[test]
fn a_production_policy_asks_for_the_witnesses_as_well() {
    let organism = Organism::new(Stage::Production, 4, 4);
    let first = trust(&organism, roster(&organism, 1, &[1, 2, 3]));
    let event = changed(roster(&organism, 2, &[1, 2, 3, 4]));
    let unwitnessed = link(&organism, &event, &[0, 1], &[]);
    assert!(first.follow(&unwitnessed, Demand::Quorum).is_err());
    assert!(first.follow(&unwitnessed, Demand::Nodes).is_ok());
    let witnessed = link(&organism, &event, &[0, 1], &[0, 1, 2]);
    assert!(first.follow(&witnessed, Demand::Quorum).is_ok());
}

/// The root's first act, which names nodes 1, 3 and 4 and its successor.
fn act(organism: &Organism) -> RootActV1 {
    RootActV1 {
        number: 1,
        previous_kernel_digest: kernel().digest(),
        kernel: crate::records::SafetyKernelV1 {
            pinned_external_root_key: SigningKey::from_seed(SUCCESSOR).public_key(),
            ..kernel()
        },
        roster: roster(organism, 2, &[1, 3, 4]),
        old_outbox_root_optional: None,
        reason: Text::default(),
    }
}

/// The leaf of an act that `signer` has signed.
fn acted(scope: Scope, signer: [u8; 32], act: &RootActV1) -> Event {
    let envelope = Envelope::seal(scope, &SigningKey::from_seed(signer), act);
    let ground = crate::event::Ground {
        number: crate::GroundNumber(1),
        scopes: Vec::new(),
        cause: crate::event::GroundCause::RootAct(act.number),
    };
    Event::RootActed(Box::new(act.clone()), ground, envelope)
}

#[test]
fn an_act_of_the_root_leads_on_by_its_own_signature_and_names_its_successor() {
    let organism = Organism::new(Stage::Development, 4, 0);
    let first = trust(&organism, roster(&organism, 1, &[1, 2, 3]));
    let (scope, act) = (scope(&organism, 1), act(&organism));
    let follow = |scope: Scope, signer| {
        let link = link(&organism, &acted(scope, signer, &act), &[0, 2], &[]);
        first.follow(&link, Demand::Quorum)
    };
    let forged = follow(scope, [9; 32]);
    assert!(matches!(forged, Err(BadLink::NotTheRoot)), "{forged:?}");
    let foreign = Scope {
        organism_id: crate::OrganismId(Digest::of(b"another")),
        ..scope
    };
    assert!(matches!(follow(foreign, ROOT), Err(BadLink::NotTheRoot)));
    let second = follow(scope, ROOT).expect("the root of the genesis");
    assert_eq!(second.roster().voters().count(), 3);
    let again = link(&organism, &acted(scope, ROOT, &act), &[0, 2], &[]);
    let again = second.follow(&again, Demand::Quorum);
    assert!(
        matches!(again, Err(BadLink::NotTheRoot)),
        "the successor is root now"
    );
    // And what it signs follows from there: the next number, kernel, roster and organism epoch.
    let next = RootActV1 {
        number: 2,
        previous_kernel_digest: act.kernel.digest(),
        roster: roster(&organism, 3, &[1, 2, 3]),
        ..act.clone()
    };
    let next = acted(self::scope(&organism, 2), SUCCESSOR, &next);
    let third = second.follow(&link(&organism, &next, &[0, 1], &[]), Demand::Quorum);
    assert_eq!(
        third.expect("its second act").roster().roster_epoch,
        RosterEpoch(3)
    );
}

#[test]
fn an_act_of_the_root_that_is_not_its_next_one_leads_nowhere() {
    let organism = Organism::new(Stage::Development, 4, 0);
    let first = trust(&organism, roster(&organism, 1, &[1, 2, 3]));
    let changes: [fn(&mut RootActV1); 4] = [
        |it| it.number = 2,
        |it| it.number = 0,
        |it| it.previous_kernel_digest = Digest::of(b"another"),
        |it| it.roster.roster_epoch = RosterEpoch(3),
    ];
    for change in changes {
        let mut other = act(&organism);
        change(&mut other);
        let event = acted(scope(&organism, 1), ROOT, &other);
        let refused = first.follow(&link(&organism, &event, &[0, 2], &[]), Demand::Quorum);
        assert!(
            matches!(refused, Err(BadLink::NotTheNextAct)),
            "{refused:?}"
        );
    }
    let later = acted(scope(&organism, 2), ROOT, &act(&organism));
    let refused = first.follow(&link(&organism, &later, &[0, 2], &[]), Demand::Quorum);
    assert!(matches!(refused, Err(BadLink::NotTheNextAct)));
    // Signed is one act, and shown another.
    let mut shown = acted(scope(&organism, 1), ROOT, &act(&organism));
    if let Event::RootActed(act, ..) = &mut shown {
        act.roster.nodes.pop();
    }
    let refused = first.follow(&link(&organism, &shown, &[0, 2], &[]), Demand::Quorum);
    assert!(matches!(refused, Err(BadLink::NotTheRoot)), "{refused:?}");
}

#[test]
fn an_act_of_the_root_stands_in_a_journal_that_the_nodes_it_names_have_signed() {
    let organism = Organism::new(Stage::Production, 4, 4);
    let first = trust(&organism, roster(&organism, 1, &[1, 2, 3]));
    let event = acted(scope(&organism, 1), ROOT, &act(&organism));
    let follow = |nodes: &[usize], witnesses: &[usize], demand| {
        let followed = first.follow(&link(&organism, &event, nodes, witnesses), demand);
        match followed {
            Ok(_) => true,
            Err(BadLink::Receipt(_)) => false,
            Err(other) => panic!("{other}"),
        }
    };
    assert!(
        !follow(&[0, 1], &[], Demand::Nodes),
        "node 2 is named no more"
    );
    assert!(follow(&[0, 2], &[], Demand::Nodes));
    assert!(!follow(&[0, 2], &[], Demand::Quorum));
    assert!(follow(&[0, 2], &[0, 1, 2], Demand::Quorum));
}

fn kernel() -> crate::records::SafetyKernelV1 {
    crate::records::SafetyKernelV1 {
        kernel_id: name("kernel"),
        verifier_binary_digest: Digest::ZERO,
        canonicalization_version: 1,
        pinned_external_root_key: SigningKey::from_seed(ROOT).public_key(),
        verified_boot_policy_digest: Digest::ZERO,
        immutable_invariants_digest: Digest::ZERO,
        minimum_verifier_seats: 4,
        minimum_quorum_threshold: 3,
        minimum_failure_domains: 3,
        proposer_executor_nonvoting: true,
        sentinel_required_and_nonvoting: true,
        sentinel_red_absolute_veto: true,
        sentinel_outbox_antirollback_required: true,
        sentinel_identity_binary_policy_digest: Digest::ZERO,
        safety_actuator_identity_binary_policy_digest: Digest::ZERO,
        required_sentinel_unavailable_fail_closed: true,
        human_attestation_classes: Vec::new(),
    }
}
