//! Admission: from bytes to a [`Command`] whose every signature holds.
//!
//! Stateless, so that it may run anywhere and be memoised. Whether a key may sign what it
//! signed is asked by `decide`, against the state at the command's position.

use redlatch_types::command::RawCommand;
use redlatch_types::limits::{
    ASSERTION_PART_LEN_MAX, BATCH_COMMANDS_MAX, CHALLENGES_PER_INTENT_MAX, COMMAND_BYTES_MAX,
    POLICY_RECEIPTS_MAX, RED_SEGMENT_LEN_MAX,
};
use redlatch_types::records::{
    AbortReason, AgentQuorumDecisionV1, CausalEnvelopeV1, ChallengeRequestV1, ClockReadingV1,
    EffectClaimV1, EffectOutcomeV1, FeatureSupportV1, GateReceiptV1, GenesisV1, HumanApprovalV1,
    KeyConfirmationV1, OutboxAckV1, ProposalV1, RejoinV1, RootActV1, SafetyActionIntentV1,
    SafetyCapabilityV1, SealSheetV1, SentinelRedOutboxV1, SentinelVerdictV1, VoteV1, WithdrawalV1,
};
use redlatch_types::sign::{OpenError, SignedBytes};
use redlatch_types::{
    Bytes, Canonical, CapabilityId, Digest, Envelope, IntentDigest, Record, Refusal, Signed,
    TickNumber, TransactionId,
};

use crate::webauthn;

/// A command whose bytes are canonical and whose signatures hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Command {
    /// Start the organism.
    Bootstrap(Box<Signed<GenesisV1>>),
    /// Move state time.
    Tick(TickNumber, Vec<Signed<ClockReadingV1>>),
    /// Activate the quorum's first key.
    ActivateQuorumKey(Vec<Signed<KeyConfirmationV1>>),
    /// Freeze an intent.
    FreezeIntent(Box<ClientCommand<ProposalV1>>),
    /// Decide and mint.
    Authorize(Box<Authorization>),
    /// Consume the capability.
    Prepare(IntentDigest, CapabilityId),
    /// Write the marker.
    Commit(TransactionId),
    /// End a transaction.
    Abort(TransactionId, AbortReason),
    /// Take back.
    Withdraw(Box<ClientCommand<WithdrawalV1>>),
    /// Claim an effect.
    ClaimEffect(Signed<EffectClaimV1>),
    /// Report an outcome.
    ReportOutcome(Signed<EffectOutcomeV1>),
    /// Latch REDs.
    LatchRed(Vec<RedEntry>),
    /// Store a safety attempt.
    StoreSafetyIntent(Box<SafetyActionIntentV1>),
    /// Prepare a safety transaction.
    PrepareSafety(Box<Signed<SafetyCapabilityV1>>),
    /// Claim the latch.
    ClaimSafety(TransactionId),
    /// End the latch.
    FinishSafety(TransactionId),
    /// Close an outbox entry.
    AcknowledgeOutbox(Signed<OutboxAckV1>),
    /// Put a StateRoot leaf.
    Checkpoint,
    /// Challenge a person.
    OpenChallenge(Box<ClientCommand<ChallengeRequestV1>>),
    /// Decide by persons and mint.
    AuthorizeHuman(Box<HumanAuthorization>),
    /// Decide by policy and mint.
    AuthorizePolicy(Box<PolicyAuthorization>),
    /// Put a committed change of the organism in force.
    Activate(TransactionId),
    /// Replace pins of the kernel.
    RootAct(Box<Signed<RootActV1>>),
    /// Raise the feature level.
    RaiseFeatureLevel(Vec<Signed<FeatureSupportV1>>),
    /// A node comes back as a learner.
    Rejoin(Signed<RejoinV1>),
}

/// A client's command: its signed envelope and the payload that the envelope names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientCommand<T> {
    /// The envelope.
    pub envelope: Signed<CausalEnvelopeV1>,
    /// The payload.
    pub payload: T,
    /// Its canonical bytes.
    pub payload_bytes: Bytes,
}

/// What one authorization carries, every signature checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Authorization {
    /// The intent.
    pub intent_digest: IntentDigest,
    /// The sentinel's verdict.
    pub green: Signed<SentinelVerdictV1>,
    /// Opened votes.
    pub votes: Vec<Signed<VoteV1>>,
    /// Their sheet.
    pub sheet: SealSheetV1,
    /// The decision under the group key.
    pub decision: Signed<AgentQuorumDecisionV1>,
}

/// What one decision by persons carries, every signature checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HumanAuthorization {
    /// The intent.
    pub intent_digest: IntentDigest,
    /// The sentinel's verdict.
    pub green: Signed<SentinelVerdictV1>,
    /// Approvals.
    pub approvals: Vec<Asserted>,
}

/// What one decision by policy carries, every signature checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PolicyAuthorization {
    /// The intent.
    pub intent_digest: IntentDigest,
    /// The sentinel's verdict.
    pub green: Signed<SentinelVerdictV1>,
    /// Gate receipts.
    pub receipts: Vec<Signed<GateReceiptV1>>,
}

/// An approval whose signature holds for the key it names. What it claims, and whether that key
/// may claim it, is asked by `decide`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Asserted {
    record: HumanApprovalV1,
}

impl Asserted {
    /// Checks the assertion's signature, and that the record repeats what it shows.
    ///
    /// # Errors
    /// [`Refusal::LimitExceeded`] if a part is too long, else [`Refusal::BadAssertion`].
    pub fn check(record: HumanApprovalV1) -> Result<Asserted, Refusal> {
        let parts = [
            &record.authenticator_data,
            &record.client_data_json,
            &record.signature,
        ];
        if parts.iter().any(|p| p.0.len() > ASSERTION_PART_LEN_MAX) {
            return Err(Refusal::LimitExceeded);
        }
        let asserted = Asserted { record };
        let key = webauthn::CredentialKey::from_cose(&asserted.record.public_key.0)
            .map_err(|_| Refusal::BadAssertion)?;
        let shown = webauthn::check_signature(&key, &asserted.assertion(&[]))
            .map_err(|_| Refusal::BadAssertion)?;
        let same = shown.flags == asserted.record.user_presence_flags
            && shown.counter == asserted.record.counter;
        same.then_some(asserted).ok_or(Refusal::BadAssertion)
    }

    /// The approval.
    pub fn record(&self) -> &HumanApprovalV1 {
        &self.record
    }

    /// The assertion, as one of the credential with this id.
    pub(crate) fn assertion<'a>(&'a self, credential_id: &'a [u8]) -> webauthn::Assertion<'a> {
        webauthn::Assertion {
            credential_id,
            authenticator_data: &self.record.authenticator_data.0,
            client_data_json: &self.record.client_data_json.0,
            signature: &self.record.signature.0,
        }
    }
}

/// A RED whose signature holds. What cannot be read is kept: it stops everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RedEntry {
    /// The signed bytes.
    pub signed: SignedBytes,
    /// The entry, if this build can read it.
    pub entry: Option<SentinelRedOutboxV1>,
}

impl Command {
    /// Whether the command is positive: every one of these passes `fence()` in `decide`.
    pub fn is_positive(&self) -> bool {
        matches!(
            self,
            Command::ActivateQuorumKey(..)
                | Command::Authorize(..)
                | Command::AuthorizeHuman(..)
                | Command::AuthorizePolicy(..)
                | Command::Prepare(..)
                | Command::Commit(..)
                | Command::ClaimEffect(..)
                | Command::Activate(..)
                | Command::RaiseFeatureLevel(..)
        )
    }

    /// The subject to whom an audit line for a refusal would be attributed, if it signed.
    pub(crate) fn client(&self) -> Option<&Signed<CausalEnvelopeV1>> {
        match self {
            Command::FreezeIntent(c) => Some(&c.envelope),
            Command::Withdraw(c) => Some(&c.envelope),
            Command::OpenChallenge(c) => Some(&c.envelope),
            _ => None,
        }
    }
}

/// Decodes `bytes` and checks every signature in it.
///
/// # Errors
/// [`Refusal::LimitExceeded`] if it is too large, [`Refusal::NotCanonical`] if it is not the
/// canonical encoding of a command, [`Refusal::BadSignature`] if a signature does not hold,
/// [`Refusal::CandidateMismatch`] if a payload is not the one its envelope names.
pub fn admit(bytes: &[u8]) -> Result<Command, Refusal> {
    if bytes.len() > COMMAND_BYTES_MAX {
        return Err(Refusal::LimitExceeded);
    }
    let raw = RawCommand::from_canonical(bytes).map_err(|_| Refusal::NotCanonical)?;
    Ok(match raw {
        RawCommand::Bootstrap(genesis) => Command::Bootstrap(Box::new(open(&genesis)?)),
        RawCommand::Tick(number, readings) => Command::Tick(number, open_all(&readings)?),
        RawCommand::ActivateQuorumKey(c) => Command::ActivateQuorumKey(open_all(&c)?),
        RawCommand::FreezeIntent(envelope, payload) => {
            Command::FreezeIntent(Box::new(client(&envelope, payload)?))
        }
        RawCommand::Authorize(raw) => Command::Authorize(Box::new(Authorization {
            intent_digest: raw.intent_digest,
            green: open(&raw.green)?,
            votes: open_all(&raw.votes)?,
            sheet: raw.sheet,
            decision: open(&raw.decision)?,
        })),
        RawCommand::Prepare(intent, capability) => Command::Prepare(intent, capability),
        RawCommand::Commit(transaction) => Command::Commit(transaction),
        RawCommand::Abort(transaction, reason) => Command::Abort(transaction, reason),
        RawCommand::Withdraw(envelope, payload) => {
            Command::Withdraw(Box::new(client(&envelope, payload)?))
        }
        RawCommand::ClaimEffect(claim) => Command::ClaimEffect(open(&claim)?),
        RawCommand::ReportOutcome(outcome) => Command::ReportOutcome(open(&outcome)?),
        RawCommand::LatchRed(segment) => Command::LatchRed(red_segment(&segment)?),
        RawCommand::StoreSafetyIntent(attempt) => Command::StoreSafetyIntent(attempt),
        RawCommand::PrepareSafety(capability) => {
            Command::PrepareSafety(Box::new(open(&capability)?))
        }
        RawCommand::ClaimSafety(transaction) => Command::ClaimSafety(transaction),
        RawCommand::FinishSafety(transaction) => Command::FinishSafety(transaction),
        RawCommand::AcknowledgeOutbox(ack) => Command::AcknowledgeOutbox(open(&ack)?),
        RawCommand::Checkpoint => Command::Checkpoint,
        RawCommand::OpenChallenge(envelope, payload) => {
            Command::OpenChallenge(Box::new(client(&envelope, payload)?))
        }
        RawCommand::AuthorizeHuman(raw) => Command::AuthorizeHuman(Box::new(HumanAuthorization {
            intent_digest: raw.intent_digest,
            green: open(&raw.green)?,
            approvals: asserted(raw.approvals)?,
        })),
        RawCommand::AuthorizePolicy(raw) => {
            Command::AuthorizePolicy(Box::new(PolicyAuthorization {
                intent_digest: raw.intent_digest,
                green: open(&raw.green)?,
                receipts: receipts(&raw.receipts)?,
            }))
        }
        RawCommand::Activate(transaction) => Command::Activate(transaction),
        RawCommand::RootAct(act) => Command::RootAct(Box::new(open(&act)?)),
        RawCommand::RaiseFeatureLevel(supports) => Command::RaiseFeatureLevel(open_all(&supports)?),
        RawCommand::Rejoin(rejoin) => Command::Rejoin(open(&rejoin)?),
    })
}

fn asserted(approvals: Vec<HumanApprovalV1>) -> Result<Vec<Asserted>, Refusal> {
    if approvals.len() > CHALLENGES_PER_INTENT_MAX {
        return Err(Refusal::LimitExceeded);
    }
    approvals.into_iter().map(Asserted::check).collect()
}

fn receipts(envelopes: &[Envelope]) -> Result<Vec<Signed<GateReceiptV1>>, Refusal> {
    if envelopes.len() > POLICY_RECEIPTS_MAX {
        return Err(Refusal::LimitExceeded);
    }
    open_all(envelopes)
}

fn open<T: Record>(envelope: &Envelope) -> Result<Signed<T>, Refusal> {
    envelope.open().map_err(|e| match e {
        OpenError::NotCanonical(_) => Refusal::NotCanonical,
        OpenError::BadSignature(_) => Refusal::BadSignature,
    })
}

fn open_all<T: Record>(envelopes: &[Envelope]) -> Result<Vec<Signed<T>>, Refusal> {
    if envelopes.len() > BATCH_COMMANDS_MAX {
        return Err(Refusal::LimitExceeded);
    }
    envelopes.iter().map(open).collect()
}

fn client<T: Canonical>(envelope: &Envelope, payload: Bytes) -> Result<ClientCommand<T>, Refusal> {
    let envelope: Signed<CausalEnvelopeV1> = open(envelope)?;
    if envelope.record().payload_digest != Digest::of(&payload.0) {
        return Err(Refusal::CandidateMismatch);
    }
    Ok(ClientCommand {
        envelope,
        payload: T::from_canonical(&payload.0).map_err(|_| Refusal::NotCanonical)?,
        payload_bytes: payload,
    })
}

fn red_segment(segment: &[Envelope]) -> Result<Vec<RedEntry>, Refusal> {
    if segment.is_empty() || segment.len() > RED_SEGMENT_LEN_MAX {
        return Err(Refusal::LimitExceeded);
    }
    segment
        .iter()
        .map(|envelope| {
            let signed = envelope
                .open_leniently::<SentinelRedOutboxV1>()
                .map_err(|_| Refusal::BadSignature)?;
            let entry = SentinelRedOutboxV1::from_canonical(&envelope.body.0)
                .ok()
                .filter(SentinelRedOutboxV1::root_holds);
            Ok(RedEntry { signed, entry })
        })
        .collect()
}
