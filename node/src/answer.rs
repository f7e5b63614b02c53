//! From errors of the node to answers at the wire, so that no two kinds are ever confused.

use redlatch_proto::answer::NoAnswer;
use redlatch_raft::engine::StorageFault;
use redlatch_raft::node::ReceiptWait;
use redlatch_raft::proposer::ProposeError;
use redlatch_raft::read_point::ReadPointError;
use redlatch_types::NodeId;
use tonic::Status;

/// The status of a proposal without an outcome. `name` tells the leader's name.
pub(crate) fn of_proposal(
    error: ProposeError,
    name: impl FnOnce(NodeId) -> Option<String>,
) -> Status {
    match error {
        ProposeError::NotLeader { leader } => {
            NoAnswer::not_leader(leader.and_then(name).as_deref())
        }
        ProposeError::Unavailable => {
            NoAnswer::Unavailable.status("no leader with a majority; nothing happened")
        }
        ProposeError::LimitExceeded => {
            NoAnswer::Limit.status("too many commands wait here; nothing happened")
        }
        ProposeError::Indeterminate => {
            NoAnswer::Indeterminate.status("the command was proposed, its outcome is not known")
        }
    }
}

/// The status of a question that needs a read point and has none.
pub(crate) fn of_read_point(error: ReadPointError) -> Status {
    NoAnswer::Unavailable.status(error.to_string())
}

/// The status of a receipt that is not there.
pub(crate) fn of_receipt(error: &ReceiptWait) -> Status {
    match error {
        ReceiptWait::NotYet => NoAnswer::NotYet.status(error.to_string()),
        ReceiptWait::Storage(fault) => of_storage(fault),
    }
}

/// The status of a question that the store cannot answer: the process is about to end.
pub(crate) fn of_storage(_: &StorageFault) -> Status {
    NoAnswer::Unavailable.status("this node's store has failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_a_proposal_has_its_own_word() {
        let nobody = |_| None;
        let cases = [
            (
                ProposeError::NotLeader { leader: None },
                NoAnswer::NotLeader,
            ),
            (ProposeError::Unavailable, NoAnswer::Unavailable),
            (ProposeError::LimitExceeded, NoAnswer::Limit),
            (ProposeError::Indeterminate, NoAnswer::Indeterminate),
        ];
        for (error, kind) in cases {
            assert_eq!(NoAnswer::of(&of_proposal(error, nobody)), Some(kind));
        }
    }

    #[test]
    fn the_leader_goes_by_name() {
        let error = ProposeError::NotLeader {
            leader: Some(NodeId(2)),
        };
        let status = of_proposal(error, |id| Some(format!("n{id}")));
        assert_eq!(NoAnswer::leader(&status).as_deref(), Some("n2"));
    }
}
