//! What every client command passes, and taking an intent back (DESIGN §5.1).

use redlatch_types::event::{Accepted, Event, Origination};
use redlatch_types::limits::{
    COMMAND_EXPIRY_AHEAD_MS_MAX, IDEMPOTENCY_PER_SUBJECT_MAX, INTENTS_OPEN_MAX,
    INTENTS_OPEN_PER_SUBJECT_MAX,
};
use redlatch_types::records::{
    CausalEnvelopeV1, ChallengeRequestV1, ClientIdentityV1, ProposalV1, WithdrawalV1,
};
use redlatch_types::{Digest, MissionId, Refusal, SubjectId};

use super::{Decision, governance, in_scope};
use crate::admit::ClientCommand;
use crate::authority::{Authority, IntentStage, TransactionStage};
use crate::planted::Bug;

/// The checks that every client command passes, or the first outcome of a repeat.
pub(super) enum Entry<'a> {
    /// A new wish of this subject.
    New(&'a ClientIdentityV1),
    /// One that was answered before.
    Repeat(Accepted),
}

/// What a payload says of the things that its envelope may name too.
pub(super) trait Named {
    fn target(&self) -> Digest;
    fn mission(&self) -> Option<&MissionId> {
        None
    }
    fn store_version(&self) -> Option<u64> {
        None
    }
    fn delegation(&self) -> Option<Digest> {
        None
    }
}

impl Named for ProposalV1 {
    fn mission(&self) -> Option<&MissionId> {
        self.mission_id_optional.as_ref()
    }
    fn store_version(&self) -> Option<u64> {
        Some(self.expected_store_version)
    }
    fn target(&self) -> Digest {
        self.payload.candidate_digest()
    }
    fn delegation(&self) -> Option<Digest> {
        self.delegation_grant_digest_optional
    }
}

impl Named for WithdrawalV1 {
    fn target(&self) -> Digest {
        self.intent_digest.0
    }
}

impl Named for ChallengeRequestV1 {
    fn target(&self) -> Digest {
        self.intent_digest.0
    }
}

/// What an envelope names, its payload names too. What nothing here can compare is refused, so
/// that no field of a signed header is decoration.
fn check_names(envelope: &CausalEnvelopeV1, payload: &impl Named) -> Result<(), Refusal> {
    let incomparable = envelope.capability_id_optional.is_some()
        || envelope.mission_head_id_optional.is_some()
        || envelope.block_id_optional.is_some()
        || envelope.receipt_id_optional.is_some()
        || envelope.presence_id_optional.is_some();
    if incomparable {
        return Err(Refusal::NotSupported);
    }
    fn agrees<T: PartialEq>(named: Option<T>, payload: Option<T>) -> bool {
        named.is_none() || named == payload
    }
    let agree = agrees(envelope.mission_id_optional.as_ref(), payload.mission())
        && agrees(envelope.store_version_optional, payload.store_version())
        && agrees(envelope.target_digest_optional, Some(payload.target()))
        && agrees(envelope.delegation_id_optional, payload.delegation());
    agree.then_some(()).ok_or(Refusal::CandidateMismatch)
}

/// Who asks, if they may ask at all (M1-I2).
pub(super) fn enter<'a, T: Named>(
    state: &'a Authority,
    command: &ClientCommand<T>,
) -> Result<Entry<'a>, Refusal> {
    let governance = governance(state)?;
    let envelope = command.envelope.record();
    in_scope(governance, command.envelope.scope())?;
    let subject = governance
        .subject_by_key(command.envelope.key())
        .ok_or(Refusal::Unauthorized)?;
    // M1-I26: the caller follows from the key; a name in the body may only agree with it.
    let names_itself = envelope.actor_id == subject.subject_id
        && envelope.issuer == subject.subject_id
        && envelope.actor_kind == subject.actor_kind;
    if !names_itself && !Bug::CallerFromTheBody.planted() {
        return Err(Refusal::Unauthorized);
    }
    check_names(envelope, &command.payload)?;
    let now = state.clock.state_time;
    if envelope.expires_at <= now {
        return Err(Refusal::Expired);
    }
    if envelope.issued_at > now || envelope.expires_at - now > COMMAND_EXPIRY_AHEAD_MS_MAX {
        return Err(Refusal::TimeStale);
    }
    let remembered = state.idempotency.get(&subject.subject_id);
    if let Some(first) = remembered.and_then(|m| m.get(&envelope.event_id)) {
        let same = first.payload_digest == envelope.payload_digest;
        return if same && !Bug::RepeatRefused.planted() {
            Ok(Entry::Repeat(first.accepted.clone()))
        } else {
            Err(Refusal::IdempotencyConflict)
        };
    }
    if remembered.is_some_and(|m| m.len() >= IDEMPOTENCY_PER_SUBJECT_MAX) {
        return Err(Refusal::LimitExceeded);
    }
    Ok(Entry::New(subject))
}

/// The record of who asked, for the event that answers.
pub(super) fn origination<T>(command: &ClientCommand<T>, subject: &SubjectId) -> Box<Origination> {
    let envelope = command.envelope.record();
    Box::new(Origination {
        subject_id: subject.clone(),
        event_id: envelope.event_id,
        payload_digest: envelope.payload_digest,
        expires_at: envelope.expires_at,
        envelope: command.envelope.envelope().clone(),
        payload: command.payload_bytes.clone(),
    })
}

/// FAULTS 94: one subject cannot fill the state.
pub(super) fn check_quota(state: &Authority, subject: &SubjectId) -> Result<(), Refusal> {
    let open = state
        .intents
        .values()
        .filter(|i| i.intent.caller_subject_id == *subject && is_open(state, &i.stage))
        .take(INTENTS_OPEN_PER_SUBJECT_MAX)
        .count();
    if open >= INTENTS_OPEN_PER_SUBJECT_MAX || state.intents.len() >= INTENTS_OPEN_MAX {
        return Err(Refusal::LimitExceeded);
    }
    Ok(())
}

fn is_open(state: &Authority, stage: &IntentStage) -> bool {
    match stage {
        IntentStage::Frozen | IntentStage::Authorized(_) => true,
        IntentStage::InTransaction(id) => state
            .transactions
            .get(id)
            .is_some_and(|t| t.stage == TransactionStage::Prepared),
    }
}

/// The proposer takes an uncommitted intent back.
pub(super) fn withdraw(state: &Authority, command: &ClientCommand<WithdrawalV1>) -> Decision {
    let subject = match enter(state, command)? {
        Entry::Repeat(accepted) => return Ok((Vec::new(), accepted)),
        Entry::New(subject) => subject,
    };
    let digest = command.payload.intent_digest;
    let intent = state.intents.get(&digest).ok_or(Refusal::UnknownIntent)?;
    if intent.intent.proposer_subject_id != subject.subject_id {
        return Err(Refusal::Unauthorized);
    }
    if !is_open(state, &intent.stage) {
        return Err(Refusal::WrongState);
    }
    let event = Event::Withdrawn(digest, origination(command, &subject.subject_id));
    Ok((vec![event], Accepted::Withdrawn(digest)))
}
