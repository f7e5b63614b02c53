//! What is in force, for those who propose to change it; and this node's word on what its build carries.

use redlatch_journal::registry::SERVED_LEVEL;
use redlatch_link::Role;
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_raft::engine::Engine;
use redlatch_types::records::FeatureSupportV1;
use redlatch_types::{Canonical, Envelope};
use tonic::Status;

use super::{Desk, read};
use crate::view;

/// Rules and parties in force, after a read point. Unproven: the journal judges whatever is made from it.
pub(super) async fn governance<E: Engine>(
    desk: &Desk<E>,
) -> Result<v1::GovernanceResponse, Status> {
    read::read_point(desk).await?;
    let shown = desk.raft.read(|state| view::in_force(&state.authority));
    shown.ok_or_else(no_genesis)
}

fn no_genesis() -> Status {
    NoAnswer::Unavailable.status("the journal has no genesis yet")
}

/// The feature level that this build carries from a client's call to the effect, signed.
pub(super) fn feature<E: Engine>(
    desk: &Desk<E>,
    role: Role,
) -> Result<v1::FeatureResponse, Status> {
    if role != Role::Operator {
        return Err(NoAnswer::Denied.status(format!("role {role} raises no feature level")));
    }
    let of_state = desk.raft.read(|state| {
        let governance = state.authority.governance.as_ref()?;
        Some((governance.scope(), governance.roster.roster_epoch))
    });
    let (scope, roster_epoch) = of_state.ok_or_else(no_genesis)?;
    let support = FeatureSupportV1 {
        node_id: desk.raft.node_id(),
        roster_epoch,
        feature_level: SERVED_LEVEL,
    };
    Ok(v1::FeatureResponse {
        support: Envelope::seal(scope, &desk.record_key, &support).to_canonical(),
    })
}
