//! What is asked of the outbox: requests, what makes them equal, and the two that it makes itself.

use redlatch_types::mandate::NegativeVerb;
use redlatch_types::records::{RedScope, RedVerdictV1, Text};
use redlatch_types::{Digest, IntentDigest};

/// A RED that somebody asks for: a rule, or the safety officer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedRequest {
    /// Unique, drawn by the shell.
    pub verdict_id: Digest,
    /// What is stopped.
    pub scope: RedScope,
    /// Verbs beside freeze and fence.
    pub verbs: Vec<NegativeVerb>,
    /// The bound plan, if rollback is asked for.
    pub rollback_plan: Option<Digest>,
    /// The intent concerned; for a scope of one intent it is that intent.
    pub source: Option<IntentDigest>,
    /// Why, for people.
    pub reason: Text,
    /// State time that the sentinel last knew.
    pub issued_at: u64,
}

/// Whether a RED on `standing` stops everything that one on `asked` would.
pub fn stops(standing: &RedScope, asked: &RedScope) -> bool {
    *standing == RedScope::Everything || standing == asked
}

pub(super) fn is_everything(verdict: &RedVerdictV1) -> bool {
    scope_of(verdict) == Some(RedScope::Everything)
}

fn scope_of(verdict: &RedVerdictV1) -> Option<RedScope> {
    RedScope::from_open(verdict.scope_kind, &verdict.scope_value)
}

/// Whether an entry with this verdict and source asks for at least what `red` does.
pub(super) fn asks_for(
    verdict: &RedVerdictV1,
    source: Option<IntentDigest>,
    red: &RedRequest,
) -> bool {
    let plan = verdict.rollback_candidate_plan_digest_optional;
    scope_of(verdict).as_ref() == Some(&red.scope)
        && source == red.source
        && plan == red.rollback_plan
        && red
            .verbs
            .iter()
            .all(|v| verdict.negative_verbs.contains(&v.number()))
}

/// Merges requests for the same scope, source and plan: the newest reason, all verbs. Returns
/// them in order of their first appearance, and for each request its place there.
pub(super) fn coalesce(reds: Vec<RedRequest>) -> (Vec<RedRequest>, Vec<usize>) {
    let mut merged: Vec<RedRequest> = Vec::new();
    let mut places = Vec::new();
    for mut red in reds {
        if let RedScope::Intent(intent) = red.scope {
            red.source = Some(intent);
        }
        let same = |m: &RedRequest| {
            (&m.scope, m.source, m.rollback_plan) == (&red.scope, red.source, red.rollback_plan)
        };
        let at = merged.iter().position(same);
        places.push(at.unwrap_or(merged.len()));
        match at.and_then(|at| merged.get_mut(at)) {
            Some(earlier) => {
                red.verbs.append(&mut earlier.verbs);
                *earlier = red;
            }
            None => merged.push(red),
        }
    }
    (merged, places)
}

pub(super) fn verdict_record(red: &RedRequest) -> RedVerdictV1 {
    let (scope_kind, scope_value) = red.scope.to_open();
    let mut negative_verbs: Vec<u64> = red.verbs.iter().map(|v| v.number()).collect();
    negative_verbs.sort_unstable();
    negative_verbs.dedup();
    RedVerdictV1 {
        verdict_id: red.verdict_id,
        scope_kind,
        scope_value,
        negative_verbs,
        rollback_candidate_plan_digest_optional: red.rollback_plan,
        reason: red.reason.clone(),
        issued_at: red.issued_at,
    }
}

/// The request in the reserved slot: everything, freeze only.
pub(super) fn widened(red: &RedRequest) -> RedRequest {
    RedRequest {
        scope: RedScope::Everything,
        verbs: Vec::new(),
        rollback_plan: None,
        source: None,
        reason: Text::lossy(&format!("the outbox is full; widened: {}", red.reason)),
        ..red.clone()
    }
}

/// What a damaged outbox states. Its id needs no chance: its number and root make it unique.
pub(super) fn lost_request() -> RedRequest {
    RedRequest {
        verdict_id: Digest::of(b"redlatch/v1/outbox-damaged"),
        scope: RedScope::Everything,
        verbs: Vec::new(),
        rollback_plan: None,
        source: None,
        reason: Text::lossy("the outbox is shorter or other than journal or actuator remember"),
        issued_at: 0,
    }
}
