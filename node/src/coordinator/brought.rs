//! Decisions whose basis was brought: by persons, or by a policy on gate receipts (DESIGN §5.4).
//!
//! ```text
//!   enough is held ─▶ freeze receipt ─▶ sentinel: GREEN ─▶ the command, asked of the state ─▶ propose
//!                                          └─▶ WITHHELD: over, for good
//! ```
//!
//! The sentinel is asked last, so that its GREEN is fresh. A command that the state would refuse is not
//! proposed: it would only fill the log.

use std::sync::Arc;
use std::time::Duration;

use redlatch_journal::{admit, decide};
use redlatch_link::world::{self, Monotonic};
use redlatch_raft::engine::Engine;
use redlatch_types::command::{HumanAuthorization, PolicyAuthorization, RawCommand};
use redlatch_types::records::{AuthorityVariant, SentinelVerdictV1, Verdict};
use redlatch_types::{Canonical, Envelope, IntentDigest, Refusal};

use super::ballot::freeze_receipt;
use super::{Parties, propose};
use crate::service::Desk;

/// How long the sentinel may say nothing before the attempt is given up; it is made again.
const SENTINEL_WAIT: Duration = Duration::from_secs(10);
/// Pause before the sentinel is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(300);

/// Takes an intent to its decision, with what is held for it.
pub(super) async fn run<E: Engine>(
    desk: Arc<Desk<E>>,
    parties: Arc<Parties>,
    digest: IntentDigest,
    variant: AuthorityVariant,
) {
    let receipt = match freeze_receipt(&desk, &digest).await {
        Ok(receipt) => receipt.to_string(),
        Err((refusal, note)) => return desk.progress.waiting(&digest, refusal, note),
    };
    let Some(verdict) = verdict(&desk, &parties, &digest, &receipt).await else {
        return;
    };
    let Ok(signed) = verdict.open::<SentinelVerdictV1>() else {
        let note = "the sentinel's verdict cannot be read";
        return desk
            .progress
            .waiting(&digest, Refusal::SentinelRequired, note);
    };
    desk.progress.verdict(&digest, signed.record());
    if signed.record().verdict != Verdict::Green {
        return desk.progress.abstained(&digest, Refusal::SentinelRequired);
    }
    let Some(command) = command(&desk, digest, variant, verdict) else {
        return;
    };
    match refused(&desk, &command) {
        Some(refusal) => desk.progress.refused(&digest, refusal),
        None => {
            desk.progress.decided(&digest);
            propose(&desk, digest, &command).await;
        }
    }
}

/// What the sentinel says, if it says anything in time.
async fn verdict<E: Engine>(
    desk: &Desk<E>,
    parties: &Parties,
    digest: &IntentDigest,
    receipt: &str,
) -> Option<Envelope> {
    let until = Monotonic::now().plus(SENTINEL_WAIT);
    loop {
        let said = parties.verdict(receipt).await;
        if said.is_some() {
            return said;
        }
        desk.progress.sentinel_silent(digest);
        if until.since(Monotonic::now()).is_zero() {
            return None;
        }
        world::sleep(ASK_AGAIN).await;
    }
}

fn command<E: Engine>(
    desk: &Desk<E>,
    intent_digest: IntentDigest,
    variant: AuthorityVariant,
    green: Envelope,
) -> Option<RawCommand> {
    let support = desk.support();
    match variant {
        AuthorityVariant::Human => {
            let approvals = support.approvals(&intent_digest);
            Some(RawCommand::AuthorizeHuman(Box::new(HumanAuthorization {
                intent_digest,
                green,
                approvals,
            })))
        }
        AuthorityVariant::Policy => {
            let receipts = support.receipts(&intent_digest);
            Some(RawCommand::AuthorizePolicy(Box::new(PolicyAuthorization {
                intent_digest,
                green,
                receipts,
            })))
        }
        AuthorityVariant::AgentQuorum => None,
    }
}

/// What the applied state would refuse the command for.
fn refused<E: Engine>(desk: &Desk<E>, command: &RawCommand) -> Option<Refusal> {
    let admitted = match admit(&command.to_canonical()) {
        Ok(admitted) => admitted,
        Err(refusal) => return Some(refusal),
    };
    let reply = desk
        .raft
        .read(|state| decide(&state.authority, &admitted).reply);
    reply.err().filter(|refusal| *refusal != Refusal::TooEarly)
}
