//! What callers bring for a decision: only the leader holds it, and only what would count.

use redlatch_link::Role;
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_proto::v1::support_request::Support as Brought;
use redlatch_raft::engine::Engine;
use redlatch_types::records::HumanApprovalV1;
use redlatch_types::{Canonical, IntentDigest, Refusal};
use tonic::Status;

use super::{Desk, digest};
use crate::coordinator::persons_required;

/// Roles that bring anything: those that propose.
const BRINGERS: [Role; 2] = [Role::Client, Role::Operator];

/// Holds what was brought, or says why it would not count.
pub(super) fn support<E: Engine>(
    desk: &Desk<E>,
    role: Role,
    request: v1::SupportRequest,
) -> Result<v1::SupportResponse, Status> {
    if !BRINGERS.contains(&role) {
        return Err(NoAnswer::Denied.status(format!("role {role} brings nothing for decisions")));
    }
    let brought = request
        .support
        .ok_or_else(|| NoAnswer::Invalid.status("nothing was brought"))?;
    if !desk.raft.leads() {
        let leader = desk.raft.leader().and_then(|id| desk.name_of(id));
        return Err(NoAnswer::not_leader(leader.as_deref()));
    }
    let held = match brought {
        Brought::Approval(bytes) => approve(desk, &bytes),
        Brought::Receipts(receipts) => {
            let intent = IntentDigest(digest("intent_digest", &receipts.intent_digest)?);
            let attested = desk.raft.read(|state| {
                let mut support = desk.support();
                support.attest(&state.authority, intent, &receipts.receipts)
            });
            attested.map(|()| intent)
        }
    };
    let intent = match held {
        Ok(intent) => intent,
        Err(refusal) => {
            return Ok(v1::SupportResponse {
                refusal: refusal.code().to_owned(),
                ..v1::SupportResponse::default()
            });
        }
    };
    let required = desk.raft.read(|state| persons_required(&state.authority));
    Ok(v1::SupportResponse {
        refusal: String::new(),
        intent_digest: intent.0.0.to_vec(),
        persons: u32::try_from(desk.support().persons(&intent)).unwrap_or(u32::MAX),
        required: u32::try_from(required).unwrap_or(u32::MAX),
    })
}

fn approve<E: Engine>(desk: &Desk<E>, bytes: &[u8]) -> Result<IntentDigest, Refusal> {
    let approval = HumanApprovalV1::from_canonical(bytes).map_err(|_| Refusal::NotCanonical)?;
    desk.raft
        .read(|state| desk.support().approve(&state.authority, approval))
}
