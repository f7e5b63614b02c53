//! The judge: from a proven freeze to GREEN, WITHHELD, RED or silence (DESIGN §5.3).
//!
//! ```text
//!   handle_intent ─▶ remembered? ─▶ rules ─▶ Persist(judgement) ─▶ State(verdict to be sealed)
//!                                       ├──▶ Raise(RED) ─▶ Persist(judgement)
//!                                       └──▶ Silent(why): nothing is signed, asking again is fair
//! ```
//!
//! - WITHHELD is for good for (intent, evidence held); more evidence may be judged anew.
//! - A fresh GREEN may be stated for the same intent as long as none was used.
//! - GREEN needs a sound outbox; a RED that stands over the intent withholds.
//! - A reset is judged as a reset ([`reset`]): the REDs that it ends do not withhold it.
//! - What is stated was persisted before; a RED is raised before anything is remembered of
//!   it, so that a crash between the two can only raise it again.
//!
//! The judge signs nothing and knows no clock: ids and nonces are arguments, times are state
//! time from proofs.

mod reset;

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use redlatch_types::event::Event;
use redlatch_types::limits::{INTENTS_OPEN_MAX, VERDICT_TTL_MS_MAX};
use redlatch_types::proven::ProvenEvent;
use redlatch_types::records::{SentinelVerdictV1, SovereignActionIntentV1, Text, Verdict};
use redlatch_types::{Canonical, Digest, IntentDigest, NotCanonical, SubjectId};

use crate::outbox::{Health, Posture};
use crate::rules::{Case, Conclusion, Epochs, Finding, Limit, RedCall, Rules, Use, weigh};

/// Intents remembered at a time. When it is full the judge is silent about new ones.
pub const JUDGED_MAX: usize = INTENTS_OPEN_MAX;
/// Different sets of evidence for one intent that may be withheld before the judge is silent.
pub const TRIES_PER_INTENT_MAX: usize = 8;
/// Intents that have tripped a wire whose bytes are kept, to ask the rule again at a reset.
pub const TRIPS_KEPT_MAX: usize = 1_024;

/// What the judge knows of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Pin of the sentinel: identity, key, builds, policy.
    pub pin: Digest,
    /// Life of a verdict, milliseconds of state time; cut to the kernel's maximum.
    pub verdict_ttl_ms: u64,
}

/// A proven freeze and what is known beside it.
#[derive(Debug, Clone, Copy)]
pub struct FreezeFacts<'a> {
    /// [`Event::Frozen`], proven.
    pub freeze: &'a ProvenEvent,
    /// State time of the head under which it is proven.
    pub proven_at: u64,
    /// Governance that the sentinel knows to be in force.
    pub epochs: Epochs,
    /// Evidence whose bytes the sentinel holds and has hashed itself.
    pub evidence_held: &'a BTreeSet<Digest>,
}

/// Fresh values for one statement, drawn by the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fresh {
    /// Unique.
    pub verdict_id: Digest,
    /// Single use.
    pub nonce: Digest,
}

/// What the judge wants done, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Store durably, under the intent, before the next effect.
    Persist(Box<JudgementV1>),
    /// Drop what is stored of this intent; it is over.
    Forget(IntentDigest),
    /// Seal and answer.
    State(Box<SentinelVerdictV1>),
    /// Hand to the outbox, before the next effect.
    Raise(RedCall),
    /// Answer that there is no verdict.
    Silent(Silence),
}

/// Why no verdict is stated. The journal then refuses with `sentinel_required`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    /// The event is no freeze, or not of the intent that it carries.
    #[error("the proven event is not the freeze of the intent it carries")]
    NotAFreeze,
    /// A rule misses what it needs.
    #[error("cannot judge: {0}")]
    CannotJudge(Text),
    /// The outbox is not sound.
    #[error("the outbox is not sound: {0}")]
    Outbox(Health),
    /// A positive decision has used a GREEN for this intent.
    #[error("a decision already used a GREEN for this intent")]
    Used,
    /// RED was raised instead.
    #[error("RED was raised instead")]
    Red,
    /// No more can be remembered.
    #[error("{JUDGED_MAX} intents are remembered already")]
    MemoryFull,
    /// Withheld too often.
    #[error("withheld under {TRIES_PER_INTENT_MAX} different sets of evidence already")]
    TooManyTries,
    /// The verdict would be over before it is stated.
    #[error("the intent or the proof leaves no time for a verdict")]
    NoTime,
}

/// How far an intent came with this judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Stage {
    /// Judged, never GREEN.
    #[n(1)]
    Judged,
    /// GREEN was stated at least once.
    #[n(2)]
    Green,
    /// A decision rests on a GREEN: no further one.
    #[n(3)]
    Used,
}

/// A WITHHELD that stands.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WithheldV1 {
    /// Digest of the evidence held then.
    #[n(0)]
    pub evidence_digest: Digest,
    /// Why.
    #[n(1)]
    pub reason: Text,
}

/// What is remembered of one intent; stored by the shell under the intent's digest.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct JudgementV1 {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// Who proposed it.
    #[n(1)]
    pub proposer: SubjectId,
    /// State time of the freeze.
    #[n(2)]
    pub frozen_at: u64,
    /// State time from which this need not be remembered.
    #[n(3)]
    pub forget_at: u64,
    /// How far it came.
    #[n(4)]
    pub stage: Stage,
    /// What was withheld.
    #[n(5)]
    pub withheld: Vec<WithheldV1>,
    /// It has tripped a wire.
    #[n(6)]
    pub tripped: Option<TripV1>,
}

/// What is known of an intent that has tripped a wire.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum TripV1 {
    /// Its bytes: the input with which the rule is asked again.
    #[n(1)]
    Kept(#[n(0)] Box<SovereignActionIntentV1>),
    /// There was no room for them: the cause counts as still there until it is forgotten.
    #[n(2)]
    NotKept,
}

/// The stored judgements cannot be read: a WITHHELD might be forgotten, so nothing is stated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a stored judgement cannot be read: {0}")]
pub struct CorruptMemory(#[from] NotCanonical);

/// The judge and what it remembers.
#[derive(Debug)]
pub struct Judge {
    identity: Identity,
    rules: Rules,
    now: u64,
    judgements: BTreeMap<IntentDigest, JudgementV1>,
    by_proposer: BTreeMap<SubjectId, BTreeSet<IntentDigest>>,
    by_end: BTreeSet<(u64, IntentDigest)>,
    /// Those that have tripped a wire and are kept, so that the rule can be asked again.
    trips: BTreeSet<IntentDigest>,
    /// Those that have tripped a wire and found no room.
    trips_not_kept: BTreeSet<IntentDigest>,
}

impl Judge {
    /// A judge with what was persisted before.
    ///
    /// # Errors
    /// [`CorruptMemory`] if one of the records cannot be read; the sentinel must not start.
    pub fn open<'a>(
        identity: Identity,
        rules: Rules,
        stored: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Judge, CorruptMemory> {
        let mut judge = Judge {
            identity,
            rules,
            now: 0,
            judgements: BTreeMap::new(),
            by_proposer: BTreeMap::new(),
            by_end: BTreeSet::new(),
            trips: BTreeSet::new(),
            trips_not_kept: BTreeSet::new(),
        };
        for bytes in stored {
            judge.remember(JudgementV1::from_canonical(bytes)?);
        }
        Ok(judge)
    }

    /// Learns a proven state time; it never goes back.
    pub fn handle_state_time(&mut self, state_time: u64, out: &mut Vec<Effect>) {
        self.now = self.now.max(state_time);
        while let Some((end, intent)) = self.by_end.first().copied() {
            if end > self.now {
                break;
            }
            self.by_end.pop_first();
            self.trips.remove(&intent);
            self.trips_not_kept.remove(&intent);
            if let Some(over) = self.judgements.remove(&intent) {
                self.drop_from_proposer(&over.proposer, &intent);
            }
            out.push(Effect::Forget(intent));
        }
    }

    /// Learns that a decision rests on a GREEN (`Event::Authorized`, proven).
    pub fn handle_used(&mut self, event: &ProvenEvent, out: &mut Vec<Effect>) {
        let Event::Authorized(authorized) = event.event() else {
            return;
        };
        let intent = authorized.decision.binding.intent_digest;
        if let Some(known) = self.judgements.get_mut(&intent)
            && known.stage != Stage::Used
        {
            known.stage = Stage::Used;
            out.push(Effect::Persist(Box::new(known.clone())));
        }
    }

    /// Judges a frozen intent. Returns the findings, for people; empty if no rule was asked.
    pub fn handle_intent(
        &mut self,
        facts: &FreezeFacts<'_>,
        posture: Posture<'_>,
        fresh: Fresh,
        out: &mut Vec<Effect>,
    ) -> Vec<Finding> {
        let Event::Frozen(digest, frozen_at, intent, _) = facts.freeze.event() else {
            out.push(Effect::Silent(Silence::NotAFreeze));
            return Vec::new();
        };
        if intent.digest() != *digest {
            out.push(Effect::Silent(Silence::NotAFreeze));
            return Vec::new();
        }
        self.handle_state_time(facts.proven_at, out);
        let evidence = evidence_digest(intent, facts.evidence_held);
        let used = self.use_by(&intent.proposer_subject_id, digest);
        let assessment = self.rules.assess(&Case {
            intent,
            frozen_at: *frozen_at,
            window_end: *frozen_at,
            proven_at: facts.proven_at,
            now: self.now,
            epochs: facts.epochs,
            evidence_held: facts.evidence_held,
            used: &used,
        });
        let mut judgement = self.judgement(digest, *frozen_at, intent);
        if matches!(assessment.conclusion, Conclusion::Red(_)) {
            judgement.tripped = Some(self.trip(digest, intent));
        }
        let standing = self.of_standing(intent, posture, facts.epochs);
        let conclusion = weigh(assessment.conclusion, &standing);
        match self.conclude(judgement, conclusion, posture, evidence, out) {
            Ok((verdict, reason)) => out.push(self.state(facts, fresh, verdict, reason)),
            Err(silence) => out.push(Effect::Silent(silence)),
        }
        let mut findings = assessment.findings;
        findings.push(standing);
        findings
    }

    /// What was said for good: a WITHHELD with its reason, or that nothing more is said.
    fn remembered(
        &self,
        digest: &IntentDigest,
        evidence: &Digest,
    ) -> Option<Result<Text, Silence>> {
        let Some(known) = self.judgements.get(digest) else {
            let full = self.judgements.len() >= JUDGED_MAX;
            return full.then_some(Err(Silence::MemoryFull));
        };
        if known.stage == Stage::Used {
            return Some(Err(Silence::Used));
        }
        let withheld = known
            .withheld
            .iter()
            .find(|w| w.evidence_digest == *evidence);
        match withheld {
            Some(withheld) => Some(Ok(withheld.reason.clone())),
            None if known.withheld.len() >= TRIES_PER_INTENT_MAX => {
                Some(Err(Silence::TooManyTries))
            }
            None => None,
        }
    }

    /// What is said, after everything that must come before it. Harm comes first: neither a
    /// remembered WITHHELD nor a full memory keeps a RED back.
    fn conclude(
        &mut self,
        mut judgement: JudgementV1,
        conclusion: Conclusion,
        posture: Posture<'_>,
        evidence: Digest,
        out: &mut Vec<Effect>,
    ) -> Result<(Verdict, Option<Text>), Silence> {
        let mut conclusion = conclusion;
        if let Conclusion::Red(calls) = conclusion {
            let news = |c: &RedCall| !posture.stops(&c.scope);
            let calls: Vec<_> = calls.into_iter().filter(news).collect();
            if !calls.is_empty() {
                out.extend(calls.into_iter().map(Effect::Raise));
                self.keep(judgement, out);
                return Err(Silence::Red);
            }
            // A rule that has tripped stands until its reset: no second RED by its proxy. That
            // its cause is still there is remembered.
            self.keep(judgement.clone(), out);
            conclusion = Conclusion::Withheld(stands_reason());
        }
        if let Some(said) = self.remembered(&judgement.intent_digest, &evidence) {
            return said.map(|reason| (Verdict::Withheld, Some(reason)));
        }
        match conclusion {
            Conclusion::CannotJudge(why) => Err(Silence::CannotJudge(why)),
            Conclusion::Green if posture.health != Health::Sound => {
                Err(Silence::Outbox(posture.health))
            }
            Conclusion::Green => {
                judgement.stage = Stage::Green;
                self.keep(judgement, out);
                Ok((Verdict::Green, None))
            }
            Conclusion::Withheld(reason) => {
                judgement.withheld.push(WithheldV1 {
                    evidence_digest: evidence,
                    reason: reason.clone(),
                });
                self.keep(judgement, out);
                Ok((Verdict::Withheld, Some(reason)))
            }
            Conclusion::Red(_) => Err(Silence::Red),
        }
    }

    /// The verdict to be sealed: every field from the frozen intent, times from the proof.
    fn state(
        &self,
        facts: &FreezeFacts<'_>,
        fresh: Fresh,
        verdict: Verdict,
        reason_optional: Option<Text>,
    ) -> Effect {
        let Event::Frozen(digest, _, intent, _) = facts.freeze.event() else {
            return Effect::Silent(Silence::NotAFreeze);
        };
        let ttl = self.identity.verdict_ttl_ms.min(VERDICT_TTL_MS_MAX);
        let expires_at = facts.proven_at.saturating_add(ttl).min(intent.expires_at);
        if expires_at <= self.now {
            return Effect::Silent(Silence::NoTime);
        }
        Effect::State(Box::new(SentinelVerdictV1 {
            verdict_id: fresh.verdict_id,
            sentinel_identity_key_binary_policy_digest: self.identity.pin,
            metric_evidence_rollback_digest: intent.metric_evidence_rollout_rollback_digest,
            verdict,
            intent_digest: *digest,
            intent_core_ref: *digest,
            intent_canonicalization_version: intent.intent_canonicalization_version,
            constitution_epoch: facts.epochs.constitution,
            autonomy_epoch: facts.epochs.autonomy,
            risk_scope_digest: intent.risk_scope_digest,
            candidate_digest_optional: intent.candidate_digest_optional,
            nonce: fresh.nonce,
            issued_at: facts.proven_at,
            expires_at,
            reason_optional,
        }))
    }

    fn judgement(
        &self,
        digest: &IntentDigest,
        frozen_at: u64,
        intent: &SovereignActionIntentV1,
    ) -> JudgementV1 {
        if let Some(known) = self.judgements.get(digest) {
            return known.clone();
        }
        // An intent that expires at once still counts for as long as a quota looks back.
        let counted_until = frozen_at.saturating_add(self.longest_window());
        JudgementV1 {
            intent_digest: *digest,
            proposer: intent.proposer_subject_id.clone(),
            frozen_at,
            forget_at: intent.expires_at.max(counted_until),
            stage: Stage::Judged,
            withheld: Vec::new(),
            tripped: None,
        }
    }

    fn trip(&self, digest: &IntentDigest, intent: &SovereignActionIntentV1) -> TripV1 {
        let kept = self.trips.contains(digest);
        if kept || self.trips.len() < TRIPS_KEPT_MAX {
            TripV1::Kept(Box::new(intent.clone()))
        } else {
            TripV1::NotKept
        }
    }

    fn longest_window(&self) -> u64 {
        let limits = self.rules.limits.iter().filter_map(|l| match l {
            Limit::Rate(quota) | Limit::Budget(quota) => Some(quota.window_ms),
            _ => None,
        });
        let wires = self.rules.tripwires.iter().flat_map(|w| w.windows());
        limits.chain(wires).max().unwrap_or(0)
    }

    /// Remembers and persists, unless it is known already or there is no room for it.
    fn keep(&mut self, judgement: JudgementV1, out: &mut Vec<Effect>) {
        let known = self.judgements.get(&judgement.intent_digest);
        if known.is_none() && self.judgements.len() >= JUDGED_MAX {
            return;
        }
        if known != Some(&judgement) {
            out.push(Effect::Persist(Box::new(judgement.clone())));
            self.remember(judgement);
        }
    }

    fn remember(&mut self, judgement: JudgementV1) {
        let digest = judgement.intent_digest;
        self.by_end.insert((judgement.forget_at, digest));
        match &judgement.tripped {
            Some(TripV1::Kept(_)) => {
                self.trips.insert(digest);
                self.trips_not_kept.remove(&digest);
            }
            Some(TripV1::NotKept) => {
                self.trips_not_kept.insert(digest);
            }
            None => {}
        }
        self.by_proposer
            .entry(judgement.proposer.clone())
            .or_default()
            .insert(digest);
        self.judgements.insert(digest, judgement);
    }

    fn drop_from_proposer(&mut self, proposer: &SubjectId, intent: &IntentDigest) {
        if let Some(intents) = self.by_proposer.get_mut(proposer) {
            intents.remove(intent);
            if intents.is_empty() {
                self.by_proposer.remove(proposer);
            }
        }
    }

    fn use_by(&self, proposer: &SubjectId, except: &IntentDigest) -> Use {
        let mut used = Use::default();
        for digest in self.by_proposer.get(proposer).into_iter().flatten() {
            let Some(known) = self.judgements.get(digest).filter(|_| digest != except) else {
                continue;
            };
            used.judged.push(known.frozen_at);
            if known.stage != Stage::Judged {
                used.green.push(known.frozen_at);
            }
        }
        used
    }
}

const STANDS: &str = "a RED stands in its scope until a reset";

fn stands_reason() -> Text {
    Text::lossy(STANDS)
}

/// Digest of the evidence that is both named and held.
fn evidence_digest(intent: &SovereignActionIntentV1, held: &BTreeSet<Digest>) -> Digest {
    let named: BTreeSet<_> = intent.evidence.iter().copied().collect();
    let both: Vec<Digest> = named.intersection(held).copied().collect();
    Digest::of(&both.to_canonical())
}
