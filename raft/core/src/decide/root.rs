//! Acts without a decision: of the offline root, of all nodes together, of one node about
//! itself (DESIGN §6, §9, D9). None of them permits anything.

use std::collections::BTreeSet;

use redlatch_types::event::{Accepted, Event, Ground, GroundCause};
use redlatch_types::limits::{NODES_MAX, VERIFIER_SEATS, VOTERS_MAX, VOTERS_MIN};
use redlatch_types::records::{FeatureSupportV1, RedScope, RejoinV1, RootActV1, Seat};
use redlatch_types::{Refusal, Signed};

use super::deciders::After;
use super::fence::{Target, fence};
use super::{Decision, governance, in_scope, roster, signed_by, terms};
use crate::authority::{Authority, Governance};
use crate::planted::Bug;
use crate::registry::{FEATURE_LEVEL, ROSTER_LEVEL};

/// Replaces pins. Everything is frozen by it, so a human reset has to follow.
pub(super) fn act(state: &Authority, act: &Signed<RootActV1>) -> Decision {
    let governance = governance(state)?;
    signed_by(governance, act, &governance.kernel.pinned_external_root_key)?;
    let record = act.record();
    if record.number != governance.root_acts + 1
        || record.previous_kernel_digest != governance.kernel.digest()
    {
        return Err(Refusal::WrongState);
    }
    if !sound(governance, record) {
        return Err(Refusal::KernelFloor);
    }
    let ground = Ground {
        number: state.issued.ground.next(),
        scopes: vec![RedScope::Everything],
        cause: GroundCause::RootAct(record.number),
    };
    let event = Event::RootActed(Box::new(record.clone()), ground, act.envelope().clone());
    Ok((vec![event], Accepted::RootActed(record.number)))
}

/// The new kernel keeps the floors, pins the new roster's parties, and every key of the roster
/// stands in one place. A replaced sentinel starts its chain anew, and the act says where the
/// old one ended as far as the root knew: who holds the old key must not be able to hinder its
/// replacement by one more RED.
fn sound(governance: &Governance, act: &RootActV1) -> bool {
    let roster = &act.roster;
    let voters = roster.voters().count();
    let replaced = roster.sentinel.key != governance.roster.sentinel.key;
    let next = Governance {
        kernel: act.kernel.clone(),
        ..governance.clone()
    };
    let constitution = governance.constitution.after_root_act(act);
    // Where nobody can decide as it is, an act takes nothing away, and must still stop everything.
    let before = After::unchanged(governance).can_be_governed();
    let leaves = After {
        kernel: &act.kernel,
        constitution: &constitution,
        ..After::unchanged(governance)
    };
    terms::floors_hold(&act.kernel, governance.kind)
        && terms::pins_match(&act.kernel, roster)
        && roster.roster_epoch == governance.roster.roster_epoch.next()
        && roster::nodes_are_numbered(&roster.nodes)
        && roster.nodes.len() <= NODES_MAX
        && (VOTERS_MIN..=VOTERS_MAX).contains(&voters)
        && roster::verifiers_are_numbered(&roster.verifiers)
        && roster::keys_are_distinct(&next, roster)
        && roster::names(roster).len() == roster.nodes.len() + VERIFIER_SEATS + 2
        && terms::constitution_holds(&constitution, &act.kernel, roster)
        && (leaves.can_be_governed() || !before || Bug::NobodyLeft.planted())
        && (act.old_outbox_root_optional.is_some() == replaced)
}

/// Raises the feature level once every node of the roster says that it supports it.
pub(super) fn raise_feature_level(
    state: &Authority,
    supports: &[Signed<FeatureSupportV1>],
) -> Decision {
    let governance = governance(state)?;
    let level = supports
        .first()
        .map(|s| s.record().feature_level)
        .ok_or(Refusal::FeatureLevel)?;
    let accepted = Accepted::FeatureLevelRaised(level);
    if level == governance.feature_level {
        return Ok((Vec::new(), accepted));
    }
    fence(state, Target::Organism)?;
    if level < governance.feature_level || level > FEATURE_LEVEL {
        return Err(Refusal::FeatureLevel);
    }
    let mut nodes = BTreeSet::new();
    for support in supports {
        let record = support.record();
        let node = governance
            .roster
            .node(record.node_id)
            .ok_or(Refusal::Unauthorized)?;
        signed_by(governance, support, &node.record_key)?;
        let same = record.feature_level == level
            && record.roster_epoch == governance.roster.roster_epoch
            && nodes.insert(record.node_id);
        if !same {
            return Err(Refusal::StaleRoster);
        }
    }
    if nodes.len() != governance.roster.nodes.len() {
        return Err(Refusal::FeatureLevel);
    }
    let envelopes = supports.iter().map(|s| s.envelope().clone()).collect();
    Ok((vec![Event::FeatureLevelRaised(level, envelopes)], accepted))
}

/// A node that lost its disk counts for nothing until it is promoted again (D9). Where nobody
/// can be promoted yet, a vote given up would be lost for good: it is refused there.
pub(super) fn rejoin(state: &Authority, rejoin: &Signed<RejoinV1>) -> Decision {
    let governance = governance(state)?;
    in_scope(governance, rejoin.scope())?;
    let record = rejoin.record();
    let node = governance
        .roster
        .node(record.node_id)
        .ok_or(Refusal::Unauthorized)?;
    if node.record_key != *rejoin.key() || record.record_key != node.record_key {
        return Err(Refusal::Unauthorized);
    }
    if governance.feature_level < ROSTER_LEVEL && !Bug::RejoinedTooEarly.planted() {
        return Err(Refusal::FeatureLevel);
    }
    let accepted = Accepted::Rejoined(record.node_id);
    if node.seat == Seat::Learner {
        return Ok((Vec::new(), accepted));
    }
    if record.roster_epoch != governance.roster.roster_epoch {
        return Err(Refusal::StaleRoster);
    }
    let next = roster::rejoined(governance, record.node_id).ok_or(Refusal::KernelFloor)?;
    let event = Event::NodeRejoined(Box::new(next), rejoin.envelope().clone());
    Ok((vec![event], accepted))
}
