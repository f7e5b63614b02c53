//! Conversions between openraft's values, peer rows and the messages of `peer.proto`. Nothing is
//! checked here but shape; who may say what is checked by `server`.

use openraft::raft::AppendEntriesResponse;
use openraft::{CommittedLeaderId, LeaderId};
use redlatch_proto::v1;
use redlatch_types::Digest;

use crate::config::{LogId, Vote};
use crate::cosign::SignedHead;
use crate::peers::{LogMark, PeerRow, PeerTable, VoteMark};

/// A message lacks a part or a part has a wrong shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed peer message: {0}")]
pub struct Malformed(pub &'static str);

impl From<Malformed> for tonic::Status {
    fn from(malformed: Malformed) -> Self {
        tonic::Status::invalid_argument(malformed.to_string())
    }
}

/// A vote as a mark.
#[must_use]
pub fn vote_mark(vote: &Vote) -> VoteMark {
    VoteMark {
        term: vote.leader_id.term,
        node: vote.leader_id.voted_for,
        committed: vote.committed,
    }
}

/// A log id as a mark.
#[must_use]
pub fn log_mark(log_id: &LogId) -> LogMark {
    LogMark {
        term: log_id.leader_id.term,
        index: log_id.index,
    }
}

/// A mark as a vote.
#[must_use]
pub fn vote_of(mark: &VoteMark) -> Vote {
    Vote {
        leader_id: LeaderId {
            term: mark.term,
            voted_for: mark.node,
        },
        committed: mark.committed,
    }
}

/// A mark as a log id.
#[must_use]
pub fn log_id_of(mark: &LogMark) -> LogId {
    LogId::new(CommittedLeaderId::new(mark.term, 0), mark.index)
}

pub(crate) fn vote_out(vote: &Vote) -> v1::RaftVote {
    mark_out(&vote_mark(vote))
}

fn mark_out(mark: &VoteMark) -> v1::RaftVote {
    v1::RaftVote {
        term: mark.term,
        node: mark.node,
        committed: mark.committed,
    }
}

pub(crate) fn vote_in(vote: Option<v1::RaftVote>) -> Result<Vote, Malformed> {
    let vote = vote.ok_or(Malformed("no vote"))?;
    Ok(Vote {
        leader_id: LeaderId {
            term: vote.term,
            voted_for: vote.node,
        },
        committed: vote.committed,
    })
}

pub(crate) fn log_id_out(log_id: &LogId) -> v1::RaftLogId {
    v1::RaftLogId {
        term: log_id.leader_id.term,
        index: log_id.index,
    }
}

pub(crate) fn log_id_in(log_id: v1::RaftLogId) -> LogId {
    LogId::new(CommittedLeaderId::new(log_id.term, 0), log_id.index)
}

pub(crate) fn rows_out(table: &PeerTable) -> Vec<v1::PeerRow> {
    let row = |row: &PeerRow| v1::PeerRow {
        node: row.node,
        incarnation: row.incarnation,
        vote: Some(mark_out(&row.vote)),
        log_id: row.log.map(|log| v1::RaftLogId {
            term: log.term,
            index: log.index,
        }),
    };
    table.rows().map(row).collect()
}

pub(crate) fn rows_in(rows: Vec<v1::PeerRow>) -> Result<PeerTable, Malformed> {
    if rows.len() > crate::peers::ROWS_MAX {
        return Err(Malformed("too many rows"));
    }
    let mut table = PeerTable::default();
    for row in rows {
        table.absorb(&PeerRow {
            node: row.node,
            incarnation: row.incarnation,
            vote: vote_mark(&vote_in(row.vote)?),
            log: row.log_id.map(|log| LogMark {
                term: log.term,
                index: log.index,
            }),
        });
    }
    Ok(table)
}

pub(crate) fn append_response_out(
    response: &AppendEntriesResponse<u64>,
    table: &PeerTable,
) -> v1::AppendResponse {
    use v1::append_response::{Conflict, Partial, Result, Success};
    let result = match response {
        AppendEntriesResponse::Success => Result::Success(Success {}),
        AppendEntriesResponse::PartialSuccess(matching) => Result::Partial(Partial {
            matching: matching.as_ref().map(log_id_out),
        }),
        AppendEntriesResponse::Conflict => Result::Conflict(Conflict {}),
        AppendEntriesResponse::HigherVote(vote) => Result::HigherVote(vote_out(vote)),
    };
    v1::AppendResponse {
        result: Some(result),
        rows: rows_out(table),
    }
}

pub(crate) fn append_response_in(
    result: Option<v1::append_response::Result>,
) -> Result<AppendEntriesResponse<u64>, Malformed> {
    use v1::append_response::Result as Wire;
    Ok(match result.ok_or(Malformed("no result"))? {
        Wire::Success(_) => AppendEntriesResponse::Success,
        Wire::Partial(partial) => {
            AppendEntriesResponse::PartialSuccess(partial.matching.map(log_id_in))
        }
        Wire::Conflict(_) => AppendEntriesResponse::Conflict,
        Wire::HigherVote(vote) => AppendEntriesResponse::HigherVote(vote_in(Some(vote))?),
    })
}

pub(crate) fn head_out(head: &SignedHead) -> v1::SignedHead {
    v1::SignedHead {
        node: head.node,
        size: head.size,
        root: head.root.0.to_vec(),
        state_time_ms: head.state_time_ms,
        log_signature: head.log_signature.to_string(),
        cosignature: head.cosignature.to_string(),
    }
}

pub(crate) fn head_in(head: v1::SignedHead) -> Result<SignedHead, Malformed> {
    let root = head
        .root
        .try_into()
        .map_err(|_| Malformed("root is not 32 bytes"))?;
    let line = |text: &str| text.parse().map_err(|_| Malformed("signature line"));
    Ok(SignedHead {
        node: head.node,
        size: head.size,
        root: Digest(root),
        state_time_ms: head.state_time_ms,
        log_signature: line(&head.log_signature)?,
        cosignature: line(&head.cosignature)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_log_ids_and_rows_survive_the_wire() {
        for vote in [Vote::default(), Vote::new(3, 2), Vote::new_committed(9, 1)] {
            assert_eq!(vote_in(Some(vote_out(&vote))), Ok(vote));
            assert_eq!(vote_of(&vote_mark(&vote)), vote);
        }
        let log_id = LogId::new(CommittedLeaderId::new(4, 0), 17);
        assert_eq!(log_id_in(log_id_out(&log_id)), log_id);
        assert_eq!(log_id_of(&log_mark(&log_id)), log_id);

        let mut table = PeerTable::default();
        table.absorb(&PeerRow {
            node: 2,
            incarnation: 7,
            vote: VoteMark {
                term: 3,
                node: Some(1),
                committed: true,
            },
            log: Some(LogMark { term: 3, index: 8 }),
        });
        assert_eq!(rows_in(rows_out(&table)), Ok(table));
    }

    #[test]
    fn append_answers_survive_the_wire_and_absent_parts_are_refused() {
        let log_id = LogId::new(CommittedLeaderId::new(4, 0), 17);
        for response in [
            AppendEntriesResponse::Success,
            AppendEntriesResponse::Conflict,
            AppendEntriesResponse::PartialSuccess(None),
            AppendEntriesResponse::PartialSuccess(Some(log_id)),
            AppendEntriesResponse::HigherVote(Vote::new(8, 3)),
        ] {
            let message = append_response_out(&response, &PeerTable::default());
            assert_eq!(append_response_in(message.result), Ok(response));
        }
        assert!(append_response_in(None).is_err());
        assert!(vote_in(None).is_err());
    }
}
