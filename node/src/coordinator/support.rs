//! What callers bring for a decision: approvals of persons, receipts of gates. Pure.
//!
//! Nothing is held that would not count now, so what somebody makes up displaces nothing: an approval is
//! held only if the journal would take it, a receipt only if the intent names it as its evidence. It is
//! forgotten with the leadership, and whoever waits for a decision brings it again.

use std::collections::{BTreeMap, BTreeSet};

use redlatch_journal::admit::Asserted;
use redlatch_journal::authority::IntentStage;
use redlatch_journal::{Authority, check_approval};
use redlatch_types::limits::POLICY_RECEIPTS_MAX;
use redlatch_types::records::{AuthorityVariant, GateReceiptV1, HumanApprovalV1};
use redlatch_types::{Canonical, ChallengeId, Digest, Envelope, IntentDigest, Refusal, SubjectId};

/// Longest receipt that is held, bytes.
const RECEIPT_BYTES_MAX: usize = 64 << 10;
/// Most intents for which receipts are held.
const INTENTS_MAX: usize = 256;

/// What is held for intents that are not decided.
#[derive(Debug, Default)]
pub(crate) struct Support {
    intents: BTreeMap<IntentDigest, Held>,
}

#[derive(Debug, Default)]
struct Held {
    approvals: BTreeMap<ChallengeId, (SubjectId, Asserted)>,
    receipts: BTreeMap<Digest, Envelope>,
}

impl Support {
    /// Holds an approval if the journal would count it now. The intent that it is about.
    ///
    /// # Errors
    /// The [`Refusal`] that a decision resting on it would meet.
    pub(crate) fn approve(
        &mut self,
        authority: &Authority,
        approval: HumanApprovalV1,
    ) -> Result<IntentDigest, Refusal> {
        let asserted = Asserted::check(approval)?;
        let (intent, person) = check_approval(authority, &asserted)?;
        let challenge = asserted.record().challenge_id;
        let held = self.intents.entry(intent).or_default();
        // One per challenge, and the journal bounds the challenges of an intent.
        held.approvals.insert(challenge, (person, asserted));
        Ok(intent)
    }

    /// Holds receipts that the intent names as its evidence.
    ///
    /// # Errors
    /// [`Refusal::UnknownIntent`], [`Refusal::WrongVariant`] if no policy decides it,
    /// [`Refusal::CandidateMismatch`] for a receipt that is not among its evidence, and
    /// [`Refusal::LimitExceeded`].
    pub(crate) fn attest(
        &mut self,
        authority: &Authority,
        intent: IntentDigest,
        receipts: &[Vec<u8>],
    ) -> Result<(), Refusal> {
        let live = authority.intents.get(&intent);
        let live = live
            .filter(|it| it.stage == IntentStage::Frozen)
            .ok_or(Refusal::UnknownIntent)?;
        if live.intent.required_authority_variant != AuthorityVariant::Policy {
            return Err(Refusal::WrongVariant);
        }
        let room = self.intents.contains_key(&intent) || self.intents.len() < INTENTS_MAX;
        let bounded = receipts.len() <= POLICY_RECEIPTS_MAX
            && receipts.iter().all(|it| it.len() <= RECEIPT_BYTES_MAX);
        if !room || !bounded {
            return Err(Refusal::LimitExceeded);
        }
        let mut good = BTreeMap::new();
        for bytes in receipts {
            let envelope = Envelope::from_canonical(bytes).map_err(|_| Refusal::NotCanonical)?;
            envelope
                .open::<GateReceiptV1>()
                .map_err(|_| Refusal::BadSignature)?;
            let digest = envelope.evidence_digest();
            if !live.intent.evidence.contains(&digest) {
                return Err(Refusal::CandidateMismatch);
            }
            good.insert(digest, envelope);
        }
        self.intents
            .entry(intent)
            .or_default()
            .receipts
            .extend(good);
        Ok(())
    }

    /// How many persons' approvals are held.
    pub(crate) fn persons(&self, intent: &IntentDigest) -> usize {
        let persons = |held: &Held| -> BTreeSet<SubjectId> {
            held.approvals
                .values()
                .map(|(who, _)| who.clone())
                .collect()
        };
        self.intents
            .get(intent)
            .map_or(0, |held| persons(held).len())
    }

    /// The approvals held, ascending by challenge.
    pub(crate) fn approvals(&self, intent: &IntentDigest) -> Vec<HumanApprovalV1> {
        let held = self.intents.get(intent);
        held.map_or_else(Vec::new, |it| {
            let records = it.approvals.values().map(|(_, it)| it.record().clone());
            records.collect()
        })
    }

    /// The receipts held, ascending by digest.
    pub(crate) fn receipts(&self, intent: &IntentDigest) -> Vec<Envelope> {
        let held = self.intents.get(intent);
        held.map_or_else(Vec::new, |it| it.receipts.values().cloned().collect())
    }

    /// Drops what would no longer count: one approval that has gone stale would spoil those beside it.
    pub(crate) fn settle(&mut self, authority: &Authority) {
        self.intents.retain(|digest, held| {
            held.approvals
                .retain(|_, (_, approval)| check_approval(authority, approval).is_ok());
            let live = authority.intents.get(digest);
            let frozen = live.is_some_and(|it| it.stage == IntentStage::Frozen);
            frozen && !(held.approvals.is_empty() && held.receipts.is_empty())
        });
    }

    /// Forgets everything.
    pub(crate) fn forget(&mut self) {
        self.intents.clear();
    }
}
