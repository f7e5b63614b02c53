//! Answers about receipts and those who prove them: `receipt get`, `receipt verify`, `trust-policy update`.

use serde::{Deserialize, Serialize};

use super::{Decimal, Told};

/// `receipt get`: the receipt file's text.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Proof {
    pub(crate) receipt: String,
}

/// `receipt verify` of a receipt that holds.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Valid {
    pub(crate) valid: bool,
    pub(crate) proves: String,
    pub(crate) origin: String,
    pub(crate) position: Decimal,
    pub(crate) tree_size: Decimal,
    pub(crate) root: String,
    /// RFC 3339 in UTC.
    pub(crate) seen_at: String,
    /// `nodes` or `quorum`: whose signatures the policy asked for.
    pub(crate) group: String,
    #[serde(flatten)]
    pub(crate) told: Told,
}

/// `receipt verify` of a receipt that does not hold, or not under this policy; the exit code tells them apart.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Invalid {
    pub(crate) valid: bool,
    pub(crate) reason: String,
}

/// `trust-policy update`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PolicyUpdated {
    /// The file.
    pub(crate) policy: String,
    pub(crate) roster_epoch: Decimal,
    /// Whether it says something else than before.
    pub(crate) changed: bool,
    /// How many of whom must have signed.
    pub(crate) nodes: String,
    /// Likewise; empty in a development organism.
    pub(crate) witnesses: String,
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
}
