//! Trust policies: who must have signed a tree head before it is believed
//! (c2sp.org/tlog-policy, in the one shape of DESIGN D4).
//!
//! ```text
//! log redlatch/<organism id>/<history>+<id>+<key>      one line per node
//! witness node-1 <vkey 0x04>                           one line per node's cosigner key
//! group nodes 2 node-1 node-2 node-3                   at least a majority
//! witness verifier-1 <vkey 0x04>                       the four verifiers
//! group witnesses 3 verifier-1 verifier-2 verifier-3 verifier-4
//! group both all nodes witnesses
//! quorum both
//! ```
//!
//! A development policy has no witnesses and ends in `quorum nodes`; it does not load unless
//! the origin starts with `redlatch-dev/`. The group that a head must meet is a [`Demand`]:
//! receipts of negative facts need the nodes only.
//!
//! A C2SP policy of any other shape is refused, and so is one with a repeated key
//! (FAULTS 43), a threshold of 0 or above the number of members, or a threshold that lets two
//! groups of signers meet in none (FAULTS 52). Comments and URLs are read over and not kept.
//! This module does not fetch, renew or store policies.

use std::collections::BTreeSet;
use std::fmt;

use thiserror::Error;

use crate::bytes::PublicKey;
use crate::checkpoint::{Origin, Stage};
use crate::note::{Algorithm, KeyError, VerifierKey};
use crate::records::RosterV1;

#[cfg(test)]
pub(crate) mod fixtures;
mod parse;
mod verdict;

pub use parse::{LineError, POLICY_BYTES_MAX, ParseError};
pub use verdict::{AcceptedHead, Demand, HeadError, InvalidHead, NotMet};

/// Most log lines, and most members of a group.
pub const POLICY_MEMBERS_MAX: usize = 32;
/// Fewest witnesses that must have cosigned: the floor of 3 failure domains (DESIGN §2).
pub const WITNESS_THRESHOLD_MIN: usize = 3;

/// A policy that must not be used. Blames whoever configured it.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum PolicyError {
    /// No log line, or not one per node.
    #[error("there must be one log line per node ({logs} logs, {nodes} nodes)")]
    LogPerNode {
        /// Log lines.
        logs: usize,
        /// Members of the group `nodes`.
        nodes: usize,
    },
    /// More than [`POLICY_MEMBERS_MAX`].
    #[error("more than {POLICY_MEMBERS_MAX} members")]
    TooManyMembers,
    /// The log keys' names are not one origin of a redlatch journal.
    #[error("the log keys must all be named by one origin of a redlatch journal")]
    BadOrigin,
    /// A log key that is not `0x01`, or a witness key that is not `0x04`.
    #[error("{name} has a key of the wrong algorithm for its line")]
    WrongAlgorithm {
        /// Key name of the log, or label of the witness.
        name: String,
    },
    /// The same key twice, under whatever names.
    #[error("the key of {name} is listed twice")]
    RepeatedKey {
        /// Where it appears for the second time.
        name: String,
    },
    /// Two keys that a signature line cannot tell apart.
    #[error("the key name and id of {name} are those of another key")]
    RepeatedName {
        /// Where they appear for the second time.
        name: String,
    },
    /// A witness label that is repeated or cannot be written.
    #[error("{label:?} cannot be a witness's label here")]
    BadLabel {
        /// The label.
        label: String,
    },
    /// 0, or more than there are members.
    #[error("{threshold} of {members} is no threshold")]
    BadThreshold {
        /// How many must sign.
        threshold: usize,
        /// How many could.
        members: usize,
    },
    /// Fewer nodes than a majority.
    #[error("{threshold} of {members} nodes are no majority")]
    NoMajority {
        /// How many must sign.
        threshold: usize,
        /// How many could.
        members: usize,
    },
    /// So few witnesses that two views could be witnessed with one malicious witness.
    #[error("{threshold} of {members} witnesses do not exclude a fork with one bad witness")]
    WeakWitnesses {
        /// How many must sign.
        threshold: usize,
        /// How many could.
        members: usize,
    },
    /// A development policy for a production journal.
    #[error("a policy without witnesses is for redlatch-dev/ origins only")]
    WitnessesRequired,
    /// A key that cannot be named.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// One key that may cosign.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Member {
    /// Its name inside the policy; it means nothing outside.
    pub label: String,
    /// Its key, of algorithm `0x04`.
    pub key: VerifierKey,
}

/// `threshold` of `members`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Group {
    /// How many distinct keys must have cosigned.
    pub threshold: usize,
    /// Who may.
    pub members: Vec<Member>,
}

/// A node's keys as the roster has them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeKeys {
    /// For example `node-1`.
    pub label: String,
    /// Signs heads as the log.
    pub log: PublicKey,
    /// Cosigns heads.
    pub cosigner: PublicKey,
}

/// A witness's key as the roster has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WitnessKey {
    /// For example `verifier-1`.
    pub label: String,
    /// Cosigns heads.
    pub key: PublicKey,
}

/// Who must have signed a head of one journal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    origin: Origin,
    logs: Vec<VerifierKey>,
    nodes: Group,
    witnesses: Option<Group>,
}

impl Policy {
    /// Checks everything the module's head promises.
    ///
    /// # Errors
    /// [`PolicyError`]: the policy must not be used.
    pub fn new(
        logs: Vec<VerifierKey>,
        nodes: Group,
        witnesses: Option<Group>,
    ) -> Result<Policy, PolicyError> {
        let origin = common_origin(&logs)?;
        if logs.len() != nodes.members.len() {
            let (logs, nodes) = (logs.len(), nodes.members.len());
            return Err(PolicyError::LogPerNode { logs, nodes });
        }
        let policy = Policy {
            origin,
            logs,
            nodes,
            witnesses,
        };
        policy.check_keys()?;
        policy.check_labels()?;
        check_majority(&policy.nodes)?;
        match &policy.witnesses {
            Some(group) => check_witnesses(group)?,
            None if origin.stage == Stage::Development => {}
            None => return Err(PolicyError::WitnessesRequired),
        }
        Ok(policy)
    }

    /// The policy of a roster: a majority of its voting nodes and, unless there are none,
    /// 3 of its witnesses.
    ///
    /// # Errors
    /// [`PolicyError`], in particular for a production origin without witnesses.
    pub fn of_roster(
        origin: &Origin,
        nodes: &[NodeKeys],
        witnesses: &[WitnessKey],
    ) -> Result<Policy, PolicyError> {
        let logs = nodes
            .iter()
            .map(|node| VerifierKey::new(origin.log_name(), Algorithm::Ed25519, node.log))
            .collect::<Result<_, _>>()?;
        let cosigners = nodes
            .iter()
            .map(|node| (node.label.as_str(), node.cosigner));
        let nodes = Group {
            threshold: nodes.len() / 2 + 1,
            members: named_members(origin, cosigners)?,
        };
        let keys = witnesses
            .iter()
            .map(|witness| (witness.label.as_str(), witness.key));
        let members = named_members(origin, keys)?;
        let group = Group {
            threshold: WITNESS_THRESHOLD_MIN,
            members,
        };
        Policy::new(logs, nodes, (!witnesses.is_empty()).then_some(group))
    }

    /// The policy of a whole roster: its voters, and its verifiers as witnesses unless the journal is
    /// a development organism's (D4).
    ///
    /// # Errors
    /// [`PolicyError`] as for [`Policy::of_roster`].
    pub fn of(origin: &Origin, roster: &RosterV1) -> Result<Policy, PolicyError> {
        Policy::witnessed(origin, roster, origin.stage == Stage::Production)
    }

    /// The policy of the same journal under another roster: its voters, and its verifiers as
    /// witnesses where this policy asks for witnesses.
    ///
    /// # Errors
    /// [`PolicyError`] as for [`Policy::of_roster`].
    pub fn under(&self, roster: &RosterV1) -> Result<Policy, PolicyError> {
        Policy::witnessed(&self.origin, roster, self.witnesses.is_some())
    }

    fn witnessed(
        origin: &Origin,
        roster: &RosterV1,
        has_witnesses: bool,
    ) -> Result<Policy, PolicyError> {
        let nodes = roster.voters().map(|node| NodeKeys {
            label: node.name.to_string(),
            log: node.log_key,
            cosigner: node.cosigner_key,
        });
        let verifiers = roster.verifiers.iter().filter(|_| has_witnesses);
        let witnesses = verifiers.map(|verifier| WitnessKey {
            label: verifier.verifier_id.to_string(),
            key: verifier.witness_key,
        });
        let (nodes, witnesses): (Vec<_>, Vec<_>) = (nodes.collect(), witnesses.collect());
        Policy::of_roster(origin, &nodes, &witnesses)
    }

    /// Whether its keys are those of this roster.
    pub fn is_of(&self, roster: &RosterV1) -> bool {
        let keys = |members: &[Member]| members.iter().map(|it| *it.key.key()).collect();
        let voters: BTreeSet<PublicKey> = roster.voters().map(|it| it.cosigner_key).collect();
        let logs: BTreeSet<PublicKey> = roster.voters().map(|it| it.log_key).collect();
        let verifiers = roster.verifiers.iter().map(|it| it.witness_key);
        let verifiers: BTreeSet<PublicKey> = verifiers.collect();
        let own_logs: BTreeSet<PublicKey> = self.logs.iter().map(|it| *it.key()).collect();
        let own_nodes: BTreeSet<PublicKey> = keys(&self.nodes.members);
        let witnesses = self.witnesses.as_ref();
        own_nodes == voters
            && own_logs == logs
            && witnesses.is_none_or(|group| {
                let own: BTreeSet<PublicKey> = keys(&group.members);
                own == verifiers
            })
    }

    /// Whose heads it judges.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The nodes' log keys.
    pub fn logs(&self) -> &[VerifierKey] {
        &self.logs
    }

    /// The nodes' cosigner keys.
    pub fn nodes(&self) -> &Group {
        &self.nodes
    }

    /// The witnesses' keys; none in a development policy.
    pub fn witnesses(&self) -> Option<&Group> {
        self.witnesses.as_ref()
    }

    /// Every key of the policy under the name that people know it by.
    fn keys(&self) -> impl Iterator<Item = (&str, &VerifierKey)> {
        let logs = self.logs.iter().map(|key| (key.name().as_str(), key));
        logs.chain(
            self.members()
                .map(|member| (member.label.as_str(), &member.key)),
        )
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        let witnesses = self.witnesses.iter().flat_map(|group| &group.members);
        self.nodes.members.iter().chain(witnesses)
    }

    fn check_keys(&self) -> Result<(), PolicyError> {
        let mut keys = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for (name, key) in self.keys() {
            let name = name.to_owned();
            if !keys.insert(*key.key()) {
                return Err(PolicyError::RepeatedKey { name });
            }
            if !ids.insert((key.name().clone(), key.id())) {
                return Err(PolicyError::RepeatedName { name });
            }
        }
        for member in self.members() {
            if member.key.algorithm() != Algorithm::Cosignature {
                return Err(PolicyError::WrongAlgorithm {
                    name: member.label.clone(),
                });
            }
        }
        Ok(())
    }

    fn check_labels(&self) -> Result<(), PolicyError> {
        let mut labels = BTreeSet::new();
        for Member { label, .. } in self.members() {
            if !parse::is_label(label) || !labels.insert(label) {
                return Err(PolicyError::BadLabel {
                    label: label.clone(),
                });
            }
        }
        Ok(())
    }
}

fn named_members<'a>(
    origin: &Origin,
    keys: impl Iterator<Item = (&'a str, PublicKey)>,
) -> Result<Vec<Member>, PolicyError> {
    keys.map(|(label, key)| {
        let name = origin.cosigner_name(label)?;
        let key = VerifierKey::new(name, Algorithm::Cosignature, key)?;
        Ok(Member {
            label: label.to_owned(),
            key,
        })
    })
    .collect()
}

fn common_origin(logs: &[VerifierKey]) -> Result<Origin, PolicyError> {
    let first = logs
        .first()
        .ok_or(PolicyError::LogPerNode { logs: 0, nodes: 0 })?;
    for log in logs {
        if log.name() != first.name() {
            return Err(PolicyError::BadOrigin);
        }
        if log.algorithm() != Algorithm::Ed25519 {
            return Err(PolicyError::WrongAlgorithm {
                name: log.name().to_string(),
            });
        }
    }
    first
        .name()
        .as_str()
        .parse()
        .map_err(|_| PolicyError::BadOrigin)
}

fn check_threshold(group: &Group) -> Result<(), PolicyError> {
    let (threshold, members) = (group.threshold, group.members.len());
    if members > POLICY_MEMBERS_MAX {
        return Err(PolicyError::TooManyMembers);
    }
    if threshold == 0 || threshold > members {
        return Err(PolicyError::BadThreshold { threshold, members });
    }
    Ok(())
}

/// Any two majorities share a node.
fn check_majority(group: &Group) -> Result<(), PolicyError> {
    check_threshold(group)?;
    let (threshold, members) = (group.threshold, group.members.len());
    if threshold <= members / 2 {
        return Err(PolicyError::NoMajority { threshold, members });
    }
    Ok(())
}

/// Any two quorums of witnesses share at least two, so one of those is honest when one is not.
fn check_witnesses(group: &Group) -> Result<(), PolicyError> {
    check_threshold(group)?;
    let (threshold, members) = (group.threshold, group.members.len());
    if threshold < WITNESS_THRESHOLD_MIN || 2 * threshold < members + 2 {
        return Err(PolicyError::WeakWitnesses { threshold, members });
    }
    Ok(())
}

/// The canonical text; [`Policy::parse`] reads it back to an equal policy.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.logs
            .iter()
            .try_for_each(|key| writeln!(f, "log {key}"))?;
        write_group(f, parse::NODES, &self.nodes)?;
        let Some(witnesses) = &self.witnesses else {
            return writeln!(f, "quorum {}", parse::NODES);
        };
        write_group(f, parse::WITNESSES, witnesses)?;
        writeln!(
            f,
            "group {} all {} {}",
            parse::BOTH,
            parse::NODES,
            parse::WITNESSES
        )?;
        writeln!(f, "quorum {}", parse::BOTH)
    }
}

fn write_group(f: &mut fmt::Formatter<'_>, name: &str, group: &Group) -> fmt::Result {
    for Member { label, key } in &group.members {
        writeln!(f, "witness {label} {key}")?;
    }
    write!(f, "group {name} {}", group.threshold)?;
    group
        .members
        .iter()
        .try_for_each(|member| write!(f, " {}", member.label))?;
    writeln!(f)
}

#[cfg(test)]
mod tests;
