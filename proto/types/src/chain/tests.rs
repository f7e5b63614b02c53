//! Chains of rosters: who has to have signed, and in which order links count.

use super::*;
use crate::bytes::Digest;
use crate::ids::{FailureDomain, Name, NodeId, VerifierId};
use crate::merkle::definition::{path, root};
use crate::merkle::leaf_hash;
use crate::policy::fixtures::Organism;
use crate::receipt::TlogProof;
use crate::records::{PinnedParty, RootActV1, RosterNode, RosterVerifier, Seat, Text};
use crate::sign::{Scope, SigningKey};

const ROOT: [u8; 32] = [7; 32];

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// Nodes 1 to 4 of the organism exist; `voters` of them are in the roster.
fn roster(organism: &Organism, epoch: u64, voters: &[usize]) -> RosterV1 {
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

fn trust(organism: &Organism, roster: RosterV1) -> Trust {
    let root = SigningKey::from_seed(ROOT).public_key();
    Trust::of_roster(organism.origin, roster, root).expect("a policy")
}

/// A receipt of `event` in a journal of two leaves, signed by these nodes.
fn link(organism: &Organism, event: &Event, nodes: &[usize], witnesses: &[usize]) -> Receipt {
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

fn changed(roster: RosterV1) -> Event {
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
        &policy_of(&organism.origin, third.roster()).expect("a policy")
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

#[test]
fn an_act_of_the_root_leads_on_by_its_own_signature_and_names_its_successor() {
    let organism = Organism::new(Stage::Development, 4, 0);
    let first = trust(&organism, roster(&organism, 1, &[1, 2, 3]));
    let scope = Scope {
        organism_id: organism.origin.organism,
        organism_epoch: 1,
    };
    let successor = SigningKey::from_seed([8; 32]);
    let acted = |scope: Scope, signer: [u8; 32]| {
        let act = RootActV1 {
            number: 1,
            previous_kernel_digest: Digest::ZERO,
            kernel: crate::records::SafetyKernelV1 {
                pinned_external_root_key: successor.public_key(),
                ..kernel()
            },
            roster: roster(&organism, 2, &[2, 3, 4]),
            old_outbox_root_optional: None,
            reason: Text::default(),
        };
        let envelope = Envelope::seal(scope, &SigningKey::from_seed(signer), &act);
        let ground = crate::event::Ground {
            number: crate::GroundNumber(1),
            scopes: Vec::new(),
            cause: crate::event::GroundCause::RootAct(1),
        };
        let event = Event::RootActed(Box::new(act), ground, envelope);
        link(&organism, &event, &[], &[])
    };
    let forged = first.follow(&acted(scope, [9; 32]), Demand::Quorum);
    assert!(matches!(forged, Err(BadLink::NotTheRoot)), "{forged:?}");
    let foreign = Scope {
        organism_id: crate::OrganismId(Digest::of(b"another")),
        ..scope
    };
    assert!(first.follow(&acted(foreign, ROOT), Demand::Quorum).is_err());
    let second = first
        .follow(&acted(scope, ROOT), Demand::Quorum)
        .expect("the root of the genesis");
    assert_eq!(second.roster().voters().count(), 3);
    let again = second.follow(&acted(scope, ROOT), Demand::Quorum);
    assert!(
        matches!(again, Err(BadLink::NotTheRoot)),
        "the successor is root now"
    );
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
