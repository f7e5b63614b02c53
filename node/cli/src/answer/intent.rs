//! Answers about one action: `intent`, `land`, `gate`.

use serde::{Deserialize, Serialize};

use super::{Decimal, Leaf};

/// `intent freeze` and `intent withdraw`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Submitted {
    /// `frozen` or `withdrawn`.
    pub(crate) result: String,
    pub(crate) intent: String,
    pub(crate) event_id: String,
    /// None for a repeat: it has no leaf of its own.
    pub(crate) position: Option<Decimal>,
    pub(crate) term: Option<Decimal>,
    pub(crate) index: Option<Decimal>,
}

/// `propose`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Proposed {
    pub(crate) intent: String,
    /// `HUMAN`, `POLICY` or `AGENT_QUORUM`.
    pub(crate) decided_by: String,
    pub(crate) event_id: String,
}

/// `approve`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Approved {
    pub(crate) intent: String,
    pub(crate) approver: String,
    pub(crate) challenge: String,
    /// `committed`, or `in_force` for a change of the organism.
    pub(crate) stage: String,
    pub(crate) position: Decimal,
}

/// `authenticator`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Drawn {
    pub(crate) person: String,
    pub(crate) key: String,
    pub(crate) authenticator: String,
    pub(crate) record: String,
}

/// `key new`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NewKey {
    pub(crate) public_key: String,
    pub(crate) file: String,
}

/// `effect claim`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Claimed {
    pub(crate) intent: String,
    /// The fencing token: history, then marker.
    pub(crate) history: Decimal,
    pub(crate) marker: Decimal,
    pub(crate) effect_key: String,
    pub(crate) resource: String,
    pub(crate) old: String,
    pub(crate) new: String,
}

/// `effect report`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reported {
    pub(crate) transaction: String,
    pub(crate) outcome: String,
}

/// `raise-level`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Level {
    pub(crate) feature_level: Decimal,
}

/// `intent show`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) intent: String,
    pub(crate) leaves: Vec<Leaf>,
    /// None if no node said anything. Unproven, for people: what counts is in the leaves.
    pub(crate) decision: Option<Decision>,
}

/// How a decision goes.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Decision {
    pub(crate) stage: String,
    pub(crate) sentinel: Sentinel,
    pub(crate) votes: Vec<Vote>,
    pub(crate) refusal: String,
    pub(crate) over: bool,
    pub(crate) notes: Vec<String>,
}

/// What the sentinel said.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sentinel {
    pub(crate) verdict: String,
    pub(crate) reason: String,
}

/// What a verifier said.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Vote {
    pub(crate) verifier: String,
    pub(crate) failure_domain: String,
    pub(crate) state: String,
    pub(crate) verdict: String,
    pub(crate) refusal: String,
    pub(crate) findings_digest: String,
    pub(crate) findings: Vec<Finding>,
}

/// What one of its evaluators found.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Finding {
    pub(crate) evaluator: String,
    pub(crate) verdict: String,
    pub(crate) sentences: Vec<String>,
}

/// `land`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Landed {
    pub(crate) intent: String,
    pub(crate) transaction: String,
    pub(crate) marker: Decimal,
    pub(crate) position: Decimal,
    pub(crate) repository: String,
    pub(crate) r#ref: String,
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) outcome: String,
    pub(crate) outcome_position: Option<Decimal>,
}

/// `gate attest`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attested {
    pub(crate) verdict: String,
    pub(crate) findings: Vec<String>,
    /// None if the command did not end by itself.
    pub(crate) exit_code: Option<u32>,
    pub(crate) digest: String,
    pub(crate) receipt: String,
    pub(crate) log: String,
    pub(crate) log_digest: String,
}

/// `gate reconcile`: how many claims are left open.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenClaims {
    pub(crate) open: u32,
}

/// `gate install`: the repository that now has a gate.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Installed {
    pub(crate) installed: String,
}

/// `gate check`: whom the gate acts as, and for which repository.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Post {
    pub(crate) subject: String,
    pub(crate) repository: String,
}
