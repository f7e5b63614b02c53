//! The negative mandate: exactly what a latched RED stops, computed by everyone alike.
//!
//! ```text
//!   RED verdict (open numbers) ─┐
//!   frozen intent, if known ────┴─▶ mandate() ─▶ scopes to freeze · verbs · bound rollback
//! ```
//!
//! Journal and actuator call the same function and compare for equality (M1-I31). What is
//! unknown, unreadable or unbound widens the stop to everything, freeze only: a RED is never
//! narrowed by what its reader does not understand (DESIGN §6). Nothing positive can come out
//! of here: the verbs are a closed set of negative ones (M1-I30).

use std::fmt;

use minicbor::{Decode, Encode};

use crate::bytes::{Bytes, Digest};
use crate::codec::Canonical;
use crate::records::{RedScope, RedVerdictV1, SovereignActionIntentV1};

/// A verb that a safety transaction may carry out. There are no others (M1-I30).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum NegativeVerb {
    /// Freeze the scope.
    #[n(1)]
    Freeze,
    /// Bump the autonomy epoch, which fences everything issued before.
    #[n(2)]
    FenceEpoch,
    /// Revoke grants in scope.
    #[n(3)]
    Revoke,
    /// Abort PREPARED transactions in scope.
    #[n(4)]
    AbortPrepare,
    /// Demote grants in scope.
    #[n(5)]
    Demote,
    /// Roll back committed effects in scope by the plan bound in the intent.
    #[n(6)]
    Rollback,
}

impl NegativeVerb {
    const ALL: [NegativeVerb; 6] = [
        NegativeVerb::Freeze,
        NegativeVerb::FenceEpoch,
        NegativeVerb::Revoke,
        NegativeVerb::AbortPrepare,
        NegativeVerb::Demote,
        NegativeVerb::Rollback,
    ];

    /// The verb's number in a [`RedVerdictV1`].
    pub fn number(self) -> u64 {
        self as u64 + 1
    }

    /// The verb of a number; `None` for what this build does not know, positive verbs included.
    pub fn from_number(number: u64) -> Option<NegativeVerb> {
        NegativeVerb::ALL.into_iter().find(|v| v.number() == number)
    }
}

impl fmt::Display for NegativeVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NegativeVerb::Freeze => "freeze",
            NegativeVerb::FenceEpoch => "fence_epoch",
            NegativeVerb::Revoke => "revoke",
            NegativeVerb::AbortPrepare => "abort_prepare",
            NegativeVerb::Demote => "demote",
            NegativeVerb::Rollback => "rollback",
        })
    }
}

/// What a latch fixes for ever (`immutable_negative_mandate` of SPEC C.25).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(map)]
pub struct Mandate {
    /// Scopes to freeze, ascending.
    #[n(0)]
    pub scopes: Vec<RedScope>,
    /// Verbs allowed, ascending; always contains freeze and the epoch fence.
    #[n(1)]
    pub verbs: Vec<NegativeVerb>,
    /// The bound rollback plan, if one was asked for and bound.
    #[n(2)]
    pub rollback_candidate_plan_digest: Option<Digest>,
}

impl Mandate {
    /// The widest stop: everything, freeze only.
    pub fn everything() -> Mandate {
        Mandate {
            scopes: vec![RedScope::Everything],
            verbs: vec![NegativeVerb::Freeze, NegativeVerb::FenceEpoch],
            rollback_candidate_plan_digest: None,
        }
    }

    /// `immutable_negative_mandate_digest` of SPEC.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }

    /// `exact_affected_scope_digest` of SPEC.
    pub fn scope_digest(&self) -> Digest {
        Digest::of(&self.scopes.to_canonical())
    }

    /// `allowed_negative_actions_digest` of SPEC.
    pub fn verbs_digest(&self) -> Digest {
        Digest::of(&self.verbs.to_canonical())
    }

    /// Whether the mandate stops this intent.
    pub fn covers(&self, intent: &SovereignActionIntentV1) -> bool {
        self.scopes.iter().any(|s| covers(s, intent))
    }
}

/// Whether `scope` covers `intent`.
pub fn covers(scope: &RedScope, intent: &SovereignActionIntentV1) -> bool {
    match scope {
        RedScope::Intent(digest) => intent.digest() == *digest,
        RedScope::Mission(mission) => intent.mission_id_optional.as_ref() == Some(mission),
        RedScope::Subject(subject) => intent.involves(subject),
        RedScope::ActionClass(class) => intent.action == *class,
        RedScope::Everything => true,
    }
}

/// The mandate of a RED.
///
/// `verdict` are the bytes from the outbox entry; `source` is the frozen intent that the entry
/// names, if the journal has it. Everything that this build cannot read, does not know or that
/// is not bound in the intent yields [`Mandate::everything`].
pub fn mandate(verdict: &Bytes, source: Option<&SovereignActionIntentV1>) -> Mandate {
    known(verdict, source).unwrap_or_else(Mandate::everything)
}

/// `None` where anything is unknown or unbound.
fn known(verdict: &Bytes, source: Option<&SovereignActionIntentV1>) -> Option<Mandate> {
    let verdict = RedVerdictV1::from_canonical(&verdict.0).ok()?;
    let scope = RedScope::from_open(verdict.scope_kind, &verdict.scope_value)?;
    let mut scopes = vec![scope.clone()];
    if let RedScope::Intent(digest) = scope {
        // One subject must not cause one epoch bump per intent: its intent-scoped RED
        // freezes the subject as well.
        let intent = source.filter(|i| i.digest() == digest)?;
        scopes.push(RedScope::Subject(intent.proposer_subject_id.clone()));
    }
    let mut verbs = vec![NegativeVerb::Freeze, NegativeVerb::FenceEpoch];
    for number in &verdict.negative_verbs {
        verbs.push(NegativeVerb::from_number(*number)?);
    }
    let rollback = verdict.rollback_candidate_plan_digest_optional;
    if verbs.contains(&NegativeVerb::Rollback) || rollback.is_some() {
        let intent = source?;
        if rollback != Some(intent.rollback.digest(&intent.payload)) {
            return None;
        }
        verbs.push(NegativeVerb::Rollback);
    }
    verbs.sort();
    verbs.dedup();
    scopes.sort();
    scopes.dedup();
    Some(Mandate {
        scopes,
        verbs,
        rollback_candidate_plan_digest: rollback,
    })
}
