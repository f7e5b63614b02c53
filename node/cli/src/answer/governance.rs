//! Answers about what is in force, `governance` and `key status`, and acts of the root.

use serde::{Deserialize, Serialize};

use super::Decimal;

/// `governance`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Governed {
    pub(crate) mode: String,
    pub(crate) autonomy_epoch: Decimal,
    pub(crate) constitution_epoch: Decimal,
    pub(crate) roster_epoch: Decimal,
    pub(crate) persons_required: Decimal,
    pub(crate) nodes: Vec<GovernedNode>,
    pub(crate) subjects: Vec<GovernedSubject>,
    pub(crate) grants: Vec<GovernedGrant>,
    pub(crate) human_keys: Vec<GovernedKey>,
    pub(crate) grounds: Vec<GovernedGround>,
}

/// `key status`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeyStatus {
    /// 0: none is in force.
    pub(crate) quorum_key_epoch: Decimal,
    /// All four have confirmed that they hold a share of it.
    pub(crate) confirmed: bool,
    pub(crate) roster_epoch: Decimal,
    pub(crate) verifiers: Vec<SeatedVerifier>,
}

/// A verifier of the roster.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SeatedVerifier {
    pub(crate) verifier: String,
    pub(crate) seat: Decimal,
    pub(crate) domain: String,
    pub(crate) vote_key: String,
}

/// A node of the roster.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GovernedNode {
    pub(crate) node: String,
    pub(crate) number: Decimal,
    pub(crate) seat: String,
}

/// An enrolled subject.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GovernedSubject {
    pub(crate) subject: String,
    pub(crate) kind: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) person: Option<String>,
    pub(crate) revoked: bool,
}

/// A grant and how much of it is used.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GovernedGrant {
    pub(crate) grant: String,
    pub(crate) subject: String,
    pub(crate) tier: String,
    pub(crate) mode: String,
    pub(crate) actions: Vec<String>,
    pub(crate) budget: Decimal,
    pub(crate) committed: Decimal,
    pub(crate) expires_at: String,
}

/// A person's key.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GovernedKey {
    pub(crate) key: String,
    pub(crate) person: String,
    pub(crate) class: String,
    pub(crate) revoked: bool,
}

/// What is frozen, by its ground.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GovernedGround {
    pub(crate) ground: Decimal,
    pub(crate) cause: String,
}

/// `root draft`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Drafted {
    pub(crate) act: Decimal,
    pub(crate) file: String,
}

/// `root sign`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Signed {
    pub(crate) act: Decimal,
    pub(crate) by: String,
    pub(crate) file: String,
}

/// `root bring`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Acted {
    pub(crate) act: Decimal,
    pub(crate) kernel: String,
}
