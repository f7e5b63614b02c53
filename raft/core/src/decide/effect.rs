//! Effects: claim before, outcome after (DESIGN §5.7, §8).

use redlatch_types::event::{Accepted, Event};
use redlatch_types::records::{EffectClaimV1, EffectOutcomeV1, OutcomeKind};
use redlatch_types::{Refusal, Signed};

use super::fence::{Target, fence, one_step_per_entry};
use super::{Decision, Outcome, governance, in_scope};
use crate::authority::{Authority, EffectStage, Intent, Transaction, TransactionStage};
use crate::planted::Bug;

/// The executor claims the effect of a marker. A latch or freeze that came first withholds it:
/// the refusal is the one case that also records something, because the effect now needs
/// neither a claim nor a rollback.
pub(super) fn claim(state: &Authority, claim: &Signed<EffectClaimV1>) -> Outcome {
    match try_claim(state, claim) {
        Ok((events, accepted)) => Outcome {
            events,
            reply: Ok(accepted),
        },
        Err((refusal, events)) => Outcome {
            events,
            reply: Err(refusal),
        },
    }
}

type ClaimRefused = (Refusal, Vec<Event>);

fn try_claim(
    state: &Authority,
    claim: &Signed<EffectClaimV1>,
) -> Result<(Vec<Event>, Accepted), ClaimRefused> {
    let plain = |refusal| (refusal, Vec::new());
    let record = claim.record();
    let (live, transaction) = by_executor(state, claim).map_err(plain)?;
    let TransactionStage::Committed(marker, effect) = &transaction.stage else {
        return Err(plain(Refusal::WrongState));
    };
    if marker.marker != record.marker || live.intent.payload.resource().id() != record.resource_id {
        return Err(plain(Refusal::CandidateMismatch));
    }
    match effect {
        EffectStage::Unclaimed => {}
        EffectStage::Claimed(_, key) if *key == record.effect_key => {
            return Ok((Vec::new(), Accepted::EffectClaimed(marker.marker)));
        }
        EffectStage::Withheld(_) => return Err(plain(Refusal::RedLatched)),
        _ => return Err(plain(Refusal::AlreadySpent)),
    }
    if state.clock.state_time >= marker.effect_deadline && !Bug::ClaimedAfterItsTime.planted() {
        return Err(plain(Refusal::EffectLapsed));
    }
    if let Err(refusal) = fence(state, Target::of(&live.intent)) {
        let withheld = Event::EffectWithheld(record.transaction_id, marker.marker);
        return Err((refusal, vec![withheld]));
    }
    // Marker and claim are two commits: between them a RED can still win.
    one_step_per_entry(state, &live.intent.digest()).map_err(plain)?;
    Ok((
        vec![Event::EffectClaimed(
            record.transaction_id,
            marker.marker,
            record.effect_key,
            claim.envelope().clone(),
        )],
        Accepted::EffectClaimed(marker.marker),
    ))
}

/// The live intent and transaction of a claim whose signer is the intent's executor. What takes
/// effect inside the journal has none, so nobody claims it.
fn by_executor<'a>(
    state: &'a Authority,
    claim: &Signed<EffectClaimV1>,
) -> Result<(&'a Intent, &'a Transaction), Refusal> {
    executor_of(
        state,
        claim.scope(),
        claim.key(),
        &claim.record().transaction_id,
    )
}

fn executor_of<'a>(
    state: &'a Authority,
    scope: &redlatch_types::Scope,
    key: &redlatch_types::PublicKey,
    id: &redlatch_types::TransactionId,
) -> Result<(&'a Intent, &'a Transaction), Refusal> {
    let governance = governance(state)?;
    in_scope(governance, scope)?;
    let subject = governance
        .subject_by_key(key)
        .ok_or(Refusal::Unauthorized)?;
    let transaction = state
        .transactions
        .get(id)
        .ok_or(Refusal::UnknownTransaction)?;
    let live = state
        .intents
        .get(&transaction.transaction.binding.intent_digest)
        .ok_or(Refusal::UnknownIntent)?;
    let executes = live.intent.executor_subject_id_optional.as_ref() == Some(&subject.subject_id);
    executes
        .then_some((live, transaction))
        .ok_or(Refusal::Unauthorized)
}

/// The executor reports how a claimed effect ended: compare-and-set on (claim, state).
pub(super) fn report(state: &Authority, outcome: &Signed<EffectOutcomeV1>) -> Decision {
    let record = outcome.record();
    let (_, transaction) = executor_of(
        state,
        outcome.scope(),
        outcome.key(),
        &record.transaction_id,
    )?;
    let TransactionStage::Committed(marker, effect) = &transaction.stage else {
        return Err(Refusal::WrongState);
    };
    if marker.marker != record.marker && !Bug::OutcomeOfAnyMarker.planted() {
        return Err(Refusal::CandidateMismatch);
    }
    let accepted = Accepted::EffectReported(record.outcome);
    match (effect, record.outcome) {
        (EffectStage::Claimed(claim, _), _) if *claim == record.claim_digest => {}
        // What was unknown may become known later, by the same executor.
        (EffectStage::Unknown, OutcomeKind::Done | OutcomeKind::Failed) => {}
        (EffectStage::Done(_), OutcomeKind::Done)
        | (EffectStage::Failed(_), OutcomeKind::Failed)
        | (EffectStage::Unknown, OutcomeKind::OutcomeUnknown) => {
            return Ok((Vec::new(), accepted));
        }
        _ => return Err(Refusal::WrongState),
    }
    let event = Event::EffectReported(
        record.transaction_id,
        record.outcome,
        record.observed_head.clone(),
        outcome.envelope().clone(),
    );
    Ok((vec![event], accepted))
}
