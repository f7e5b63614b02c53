//! Judging a signed head by a policy.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::{Group, Policy};
use crate::bytes::PublicKey;
use crate::checkpoint::{Checkpoint, CheckpointError, Origin};
use crate::note::{Note, SignatureError, Statement};

/// A head that no policy could accept. Blames whoever made or changed it.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum InvalidHead {
    /// The text is no checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A known key's line does not hold.
    #[error("the signature line of {name} does not hold: {why}")]
    Signature {
        /// Key name of the log, or label of the witness.
        name: String,
        /// Why.
        why: SignatureError,
    },
}

/// A well-formed head that this policy does not accept. It may be accepted under another
/// policy, or with more signatures.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum NotMet {
    /// Another journal, or another history of this one.
    #[error("the head is of {found}, the policy is for {expected}")]
    OtherOrigin {
        /// Whose heads the policy judges.
        expected: Origin,
        /// Whose head this is.
        found: Origin,
    },
    /// No log key of the policy signed.
    #[error("no node of the policy signed the head as the log")]
    NoLogSignature,
    /// Too few nodes cosigned.
    #[error("{found} nodes cosigned, {needed} are needed")]
    NodesMissing {
        /// Distinct keys that cosigned.
        found: usize,
        /// The threshold.
        needed: usize,
    },
    /// Too few witnesses cosigned.
    #[error("{found} witnesses cosigned, {needed} are needed")]
    WitnessesMissing {
        /// Distinct keys that cosigned.
        found: usize,
        /// The threshold.
        needed: usize,
    },
}

/// Why a head is not accepted.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum HeadError {
    /// The head is no good.
    #[error("invalid: {0}")]
    Invalid(#[from] InvalidHead),
    /// The head may be good, but this policy asks for something else.
    #[error("policy not met: {0}")]
    NotMet(#[from] NotMet),
}

/// Which group of the policy must have signed (DESIGN D4).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Demand {
    /// The policy's quorum line: nodes and witnesses, or the nodes of a development policy.
    Quorum,
    /// The nodes alone: freeze proofs and receipts of negative facts.
    Nodes,
}

/// A head that met a demand. Only [`Policy::accept`] makes one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct AcceptedHead {
    /// The tree head.
    pub checkpoint: Checkpoint,
    /// Seconds since 1970: the latest time that a threshold of nodes had all reached, by
    /// their cosignatures. It is not ahead of every honest node's clock.
    pub time_s: u64,
    /// What was met.
    pub demand: Demand,
}

impl Policy {
    /// Judges a signed head. Every line of a known key must hold, or the head is invalid;
    /// lines of unknown keys count for nothing, and a key counts once however many lines it
    /// has (FAULTS 43).
    ///
    /// # Errors
    /// [`HeadError::Invalid`] or [`HeadError::NotMet`].
    pub fn accept(&self, head: &Note, demand: Demand) -> Result<AcceptedHead, HeadError> {
        let checkpoint = Checkpoint::parse(head.text()).map_err(InvalidHead::from)?;
        if checkpoint.origin != self.origin {
            let (expected, found) = (self.origin, checkpoint.origin);
            return Err(NotMet::OtherOrigin { expected, found }.into());
        }
        let signers = self.signers(head)?;
        if !signers.log {
            return Err(NotMet::NoLogSignature.into());
        }
        let times = signers.times(&self.nodes);
        let (found, needed) = (times.len(), self.nodes.threshold);
        // The threshold is at least 1, so the index exists whenever the group is met.
        let Some(time_s) = times.get(needed.saturating_sub(1)).copied() else {
            return Err(NotMet::NodesMissing { found, needed }.into());
        };
        if let (Demand::Quorum, Some(group)) = (demand, &self.witnesses) {
            let (found, needed) = (signers.times(group).len(), group.threshold);
            if found < needed {
                return Err(NotMet::WitnessesMissing { found, needed }.into());
            }
        }
        Ok(AcceptedHead {
            checkpoint,
            time_s,
            demand,
        })
    }

    fn signers(&self, head: &Note) -> Result<Signers, InvalidHead> {
        let mut signers = Signers {
            log: false,
            observed: BTreeMap::new(),
        };
        for line in head.signatures() {
            let Some((name, key)) = self.keys().find(|(_, key)| key.is_named_by(line)) else {
                continue;
            };
            let statement =
                key.verify(head.text(), line)
                    .map_err(|why| InvalidHead::Signature {
                        name: name.to_owned(),
                        why,
                    })?;
            match statement {
                Statement::Signed => signers.log = true,
                Statement::Observed { time_s } => {
                    let latest = signers.observed.entry(*key.key()).or_insert(time_s);
                    *latest = time_s.max(*latest);
                }
            }
        }
        Ok(signers)
    }
}

/// Who validly signed a head.
struct Signers {
    log: bool,
    /// Latest time of each key's cosignatures.
    observed: BTreeMap<PublicKey, u64>,
}

impl Signers {
    /// Times of the group's members that cosigned, latest first, one per distinct key.
    fn times(&self, group: &Group) -> Vec<u64> {
        let keys: BTreeSet<&PublicKey> = group.members.iter().map(|m| m.key.key()).collect();
        let mut times: Vec<u64> = keys
            .iter()
            .filter_map(|key| self.observed.get(*key))
            .copied()
            .collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        times
    }
}
