//! Rosters that may follow the one in force (DESIGN D9): one node a step, majorities intact.

use std::collections::BTreeSet;

use redlatch_types::PublicKey;
use redlatch_types::limits::{NODES_MAX, VERIFIER_SEATS, VOTERS_MAX, VOTERS_MIN};
use redlatch_types::records::{
    ConstitutionV1, RosterNode, RosterPayload, RosterV1, RosterVerifier, Seat,
};
use redlatch_types::sign::check_key;

use super::terms;
use crate::authority::Governance;

/// The roster after `change`; `None` if it may not be made.
pub(super) fn after(governance: &Governance, change: &RosterPayload) -> Option<RosterV1> {
    let roster = &governance.roster;
    let mut next = roster.clone();
    next.roster_epoch = roster.roster_epoch.next();
    match change {
        RosterPayload::Join(node) => {
            let fits = node.seat == Seat::Learner
                && roster.nodes.len() < NODES_MAX
                && node_is_new(governance, node);
            next.nodes.push(fits.then(|| node.clone())?);
            next.nodes.sort_by_key(|n| n.node_id);
        }
        RosterPayload::Promote(id) => {
            let node = next.nodes.iter_mut().find(|n| n.node_id == *id)?;
            let learns = node.seat == Seat::Learner && roster.voters().count() < VOTERS_MAX;
            node.seat = learns.then_some(Seat::Voter)?;
        }
        RosterPayload::Remove(id) => {
            let node = roster.node(*id)?;
            let enough = node.seat == Seat::Learner || roster.voters().count() > VOTERS_MIN;
            enough.then_some(())?;
            next.nodes.retain(|n| n.node_id != *id);
        }
    }
    Some(next)
}

/// The roster in which a node that lost its disk counts for nothing until it is promoted.
/// Refused if the others could then decide nothing.
pub(super) fn rejoined(governance: &Governance, node: redlatch_types::NodeId) -> Option<RosterV1> {
    let mut next = governance.roster.clone();
    next.roster_epoch = next.roster_epoch.next();
    let seat = next.nodes.iter_mut().find(|n| n.node_id == node)?;
    seat.seat = Seat::Learner;
    (next.voters().count() >= 2).then_some(next)
}

/// Nodes are numbered from 1 and ascend: two of one number would be one with two votes.
pub(super) fn nodes_are_numbered(nodes: &[RosterNode]) -> bool {
    nodes.windows(2).all(|w| w[0].node_id < w[1].node_id) && nodes.iter().all(|n| n.node_id.0 != 0)
}

/// The seats are numbered 1 to 4: a number is the point at which the seat's share lies (RFC 9591).
pub(super) fn verifiers_are_numbered(verifiers: &[RosterVerifier]) -> bool {
    verifiers.len() == VERIFIER_SEATS
        && verifiers.iter().zip(1u16..).all(|(v, n)| v.identifier == n)
}

fn node_is_new(governance: &Governance, node: &RosterNode) -> bool {
    let roster = &governance.roster;
    let mine = [node.log_key, node.cosigner_key, node.record_key];
    let distinct: BTreeSet<_> = mine.iter().collect();
    let taken = keys(roster);
    node.node_id.0 != 0
        && roster.node(node.node_id).is_none()
        && !names(roster).contains(node.name.as_str())
        && distinct.len() == mine.len()
        && mine.iter().all(|key| {
            check_key(key).is_ok()
                && !taken.contains(key)
                && *key != governance.kernel.pinned_external_root_key
                && governance.subjects.values().all(|s| s.public_key != *key)
        })
}

/// Roster and constitution with these verifiers; `None` if a floor of the kernel would not hold.
pub(super) fn with_verifiers(
    governance: &Governance,
    verifiers: &[RosterVerifier],
) -> Option<(RosterV1, ConstitutionV1)> {
    let mut roster = governance.roster.clone();
    roster.roster_epoch = roster.roster_epoch.next();
    roster.verifiers = verifiers.to_vec();
    let named: BTreeSet<_> = verifiers.iter().map(|v| v.verifier_id.as_str()).collect();
    let sound = verifiers_are_numbered(verifiers)
        && named.len() == verifiers.len()
        && keys_are_distinct(governance, &roster)
        && !governance
            .subjects
            .keys()
            .any(|s| named.contains(s.as_str()));
    let mut constitution = governance.constitution.followed();
    constitution
        .independence_spec
        .four_voting_verifier_principals = roster.verifier_seats();
    let holds = sound && terms::constitution_holds(&constitution, &governance.kernel, &roster);
    holds.then_some((roster, constitution))
}

/// Every key is a good point and stands in one place only, so that no party can be counted
/// twice or sign in two roles (FAULTS 43, 44).
pub(super) fn keys_are_distinct(governance: &Governance, roster: &RosterV1) -> bool {
    let mut all = keys_with_repeats(roster);
    all.push(governance.kernel.pinned_external_root_key);
    all.extend(governance.subjects.values().map(|s| s.public_key));
    let distinct: BTreeSet<_> = all.iter().collect();
    distinct.len() == all.len() && all.iter().all(|key| check_key(key).is_ok())
}

/// Every key of a roster.
pub(super) fn keys(roster: &RosterV1) -> BTreeSet<PublicKey> {
    keys_with_repeats(roster).into_iter().collect()
}

pub(super) fn keys_with_repeats(roster: &RosterV1) -> Vec<PublicKey> {
    let mut keys = vec![roster.sentinel.key, roster.actuator.key];
    for node in &roster.nodes {
        keys.extend([node.log_key, node.cosigner_key, node.record_key]);
    }
    for verifier in &roster.verifiers {
        keys.extend([verifier.vote_key, verifier.witness_key]);
    }
    keys
}

/// Every name of a roster: no subject may have one of them.
pub(super) fn names(roster: &RosterV1) -> BTreeSet<&str> {
    let nodes = roster.nodes.iter().map(|n| n.name.as_str());
    let verifiers = roster.verifiers.iter().map(|v| v.verifier_id.as_str());
    let pinned = [roster.sentinel.name.as_str(), roster.actuator.name.as_str()];
    nodes.chain(verifiers).chain(pinned).collect()
}
