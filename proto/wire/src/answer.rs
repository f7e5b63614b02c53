//! Answers of a node that are no answers of the journal, as gRPC statuses (DESIGN §11).
//!
//! *Refused* is an answer of the journal and travels inside a response. Everything here is a
//! status with the metadata key [`OUTCOME`], so that "nothing happened", "it may have happened"
//! and "you may not ask" are never told apart by a text or a bare code. A status without that key
//! comes from a transport and says nothing about what happened.

use tonic::{Code, Status};

/// Metadata key of the outcome's word.
pub const OUTCOME: &str = "redlatch-outcome";
/// Metadata key of the leader's name.
pub const LEADER: &str = "redlatch-leader";

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoAnswer {
    /// This node does not lead; nothing happened.
    NotLeader,
    /// No leader, no majority or stopping; nothing happened.
    Unavailable,
    /// A queue is full or the command is too large; nothing happened.
    Limit,
    /// It may have happened: ask by key.
    Indeterminate,
    /// The caller's role may not do this; nothing happened.
    Denied,
    /// The request is malformed; nothing happened.
    Invalid,
    /// What was asked for is not there before the deadline.
    NotYet,
    /// There is no such thing in this node's journal.
    Absent,
}

impl NoAnswer {
    /// Every kind.
    pub const ALL: [NoAnswer; 8] = [
        NoAnswer::NotLeader,
        NoAnswer::Unavailable,
        NoAnswer::Limit,
        NoAnswer::Indeterminate,
        NoAnswer::Denied,
        NoAnswer::Invalid,
        NoAnswer::NotYet,
        NoAnswer::Absent,
    ];

    /// The stable word.
    pub const fn word(self) -> &'static str {
        match self {
            NoAnswer::NotLeader => "not_leader",
            NoAnswer::Unavailable => "unavailable",
            NoAnswer::Limit => "limit",
            NoAnswer::Indeterminate => "indeterminate",
            NoAnswer::Denied => "denied",
            NoAnswer::Invalid => "invalid",
            NoAnswer::NotYet => "not_yet",
            NoAnswer::Absent => "absent",
        }
    }

    /// The gRPC code, for callers that know no more than gRPC.
    pub const fn code(self) -> Code {
        match self {
            NoAnswer::NotLeader | NoAnswer::Unavailable | NoAnswer::NotYet => Code::Unavailable,
            NoAnswer::Limit => Code::ResourceExhausted,
            NoAnswer::Indeterminate => Code::Unknown,
            NoAnswer::Denied => Code::PermissionDenied,
            NoAnswer::Invalid => Code::InvalidArgument,
            NoAnswer::Absent => Code::NotFound,
        }
    }

    /// The status, with a sentence for people.
    pub fn status(self, text: impl Into<String>) -> Status {
        let mut status = Status::new(self.code(), text);
        if let Ok(word) = self.word().parse() {
            status.metadata_mut().insert(OUTCOME, word);
        }
        status
    }

    /// The status of [`NoAnswer::NotLeader`], naming the leader where one is known.
    pub fn not_leader(leader: Option<&str>) -> Status {
        let text = match leader {
            Some(name) => format!("this node does not lead; {name} does"),
            None => "this node does not lead, and knows no leader".to_owned(),
        };
        let mut status = NoAnswer::NotLeader.status(text);
        if let Some(name) = leader.and_then(|name| name.parse().ok()) {
            status.metadata_mut().insert(LEADER, name);
        }
        status
    }

    /// The kind of a status; `None` if it does not come from a node's service.
    pub fn of(status: &Status) -> Option<NoAnswer> {
        let word = status.metadata().get(OUTCOME)?.to_str().ok()?;
        NoAnswer::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// The leader that a status names.
    pub fn leader(status: &Status) -> Option<String> {
        let name = status.metadata().get(LEADER)?.to_str().ok()?;
        Some(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_travels_in_a_status_and_a_bare_status_is_none() {
        for kind in NoAnswer::ALL {
            assert_eq!(NoAnswer::of(&kind.status("text")), Some(kind));
        }
        assert_eq!(NoAnswer::of(&Status::unavailable("transport error")), None);
    }

    #[test]
    fn the_leader_is_named_where_known() {
        let named = NoAnswer::not_leader(Some("n2"));
        assert_eq!(NoAnswer::leader(&named).as_deref(), Some("n2"));
        assert_eq!(NoAnswer::leader(&NoAnswer::not_leader(None)), None);
        assert_eq!(NoAnswer::of(&named), Some(NoAnswer::NotLeader));
    }
}
