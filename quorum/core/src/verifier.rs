//! One verifier's machine: seal, open, sign (D11 to D13).
//!
//! ```text
//!   packet ─▶ Evaluate ─▶ cast ─▶ [Persist vote + burned commitments, Send seal]
//!   sheet  ─▶ open     ─▶ [Persist sheet, Send vote]
//!   package─▶ sign     ─▶ [Persist share, Send share]
//! ```
//!
//! One vote per intent, one sheet per intent, one package per nonce; each is durable before it
//! is said. Live nonces are in memory only: a new boot finds the vote, and no nonce. The
//! machine does not evaluate, does not verify receipts and trusts no coordinator.

mod answer;
mod sign;
mod start;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use rand_core::{CryptoRng, RngCore};
use redlatch_types::records::{
    AuthorityVariant, SealSheetV1, SealedVoteV1, SovereignActionIntentV1, VoteV1,
};
use redlatch_types::{AutonomyEpoch, Canonical, Digest, Envelope, IntentDigest};

use crate::decision::Subject;
use crate::messages::{SealedAnswerV1, SigningCommitmentsV1};
use crate::nonce::Nonce;
use crate::planted::Bug;
use crate::records::{BallotRecordV1, IssueV1, Row, VerifierEffect};
use crate::share::KeyShare;
use crate::tally::{self, Subset};
use crate::terms::{FrozenIntent, OwnSeat, Terms};

pub use answer::{Answer, Asked, Evaluation, Next, Refused};
pub use start::{StartFault, Stored};

/// Most issues of commitments for one intent (D13).
pub const ISSUES_MAX: usize = 8;
/// Most ballots in memory at a time.
pub const SESSIONS_OPEN_MAX: usize = 64;

/// A ballot in memory: what is on disk, the decoded intent, and the nonces of this boot.
struct Session {
    record: BallotRecordV1,
    intent: SovereignActionIntentV1,
    vote: VoteV1,
    live: BTreeMap<Subset, Nonce>,
}

/// One verifier. Not used again once an effect failed.
pub struct Verifier {
    terms: Terms,
    seat: OwnSeat,
    share: Option<KeyShare>,
    generation: u64,
    state_time: u64,
    autonomy_epoch: AutonomyEpoch,
    sessions: BTreeMap<IntentDigest, Session>,
}

impl Verifier {
    /// Notes a state time that a verified proof told (milliseconds). It never goes back.
    pub fn observe(&mut self, state_time: u64) {
        self.state_time = self.state_time.max(state_time);
    }

    /// Notes an autonomy epoch that a verified proof told; intents of earlier ones are fenced.
    /// It never goes back.
    pub fn observe_epoch(&mut self, epoch: AutonomyEpoch) {
        self.autonomy_epoch = self.autonomy_epoch.max(epoch);
    }

    /// Takes up later terms and the share that fits them. Live nonces of another roster or key
    /// are dead from here on.
    pub fn adopt(&mut self, terms: Terms, share: Option<KeyShare>) {
        self.terms = terms;
        self.share = share;
        for session in self.sessions.values_mut() {
            session.live.clear();
        }
    }

    /// Forgets an open ballot that the journal has ended. The store keeps its record.
    pub fn close(&mut self, intent: &IntentDigest) {
        self.sessions.remove(intent);
    }

    /// The terms in force here.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// This boot's number.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Ballots in memory, of at most [`SESSIONS_OPEN_MAX`].
    pub fn sessions_open(&self) -> usize {
        self.sessions.len()
    }

    /// Whether a share of the key in force is at hand.
    pub fn can_sign(&self) -> bool {
        self.current_share().is_some()
    }

    /// A packet came. `stored` is what the store holds under [`Row::ballot_key`]; it must show
    /// every earlier [`VerifierEffect::Persist`], and is not looked at while the ballot is in memory.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed.
    pub fn handle_packet(
        &mut self,
        frozen: &FrozenIntent,
        asked: Asked,
        stored: Option<&BallotRecordV1>,
        rng: &mut (impl RngCore + CryptoRng),
    ) -> Result<Next, Refused> {
        self.observe(frozen.state_time());
        self.observe_epoch(frozen.intent().autonomy_epoch);
        self.check_votable(frozen)?;
        if !self.recall(&frozen.digest(), stored)? {
            return Ok(Next::Evaluate);
        }
        self.answer_again(&frozen.digest(), asked, rng)
            .map(Next::Effects)
    }

    /// Casts the one vote on this intent, with commitments burned in the same write. If the
    /// vote was cast meanwhile, that one stands and `evaluation` is dropped.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed.
    pub fn cast(
        &mut self,
        frozen: &FrozenIntent,
        evaluation: Evaluation,
        asked: Asked,
        stored: Option<&BallotRecordV1>,
        rng: &mut (impl RngCore + CryptoRng),
    ) -> Result<Vec<VerifierEffect>, Refused> {
        self.check_votable(frozen)?;
        if self.recall(&frozen.digest(), stored)? {
            return self.answer_again(&frozen.digest(), asked, rng);
        }
        let vote = self.vote_record(frozen, evaluation, rng)?;
        let envelope = Envelope::seal(self.terms.scope(), &self.seat.key, &vote);
        let record = BallotRecordV1 {
            intent_digest: frozen.digest(),
            intent: frozen.bytes().clone(),
            frozen_at: frozen.state_time(),
            vote: envelope,
            issues: Vec::new(),
            opened_sheet: None,
            released: Vec::new(),
        };
        let mut session = Session {
            record,
            intent: frozen.intent().clone(),
            vote,
            live: BTreeMap::new(),
        };
        self.issue(&mut session, asked, rng)?;
        let effects = self.persist_and_seal(&session);
        self.sessions.insert(frozen.digest(), session);
        Ok(effects)
    }

    /// Opens the vote for a sheet: the only one it ever opens for this intent.
    ///
    /// # Errors
    /// [`Refused`]; nothing changed. [`Refused::AlreadyOpened`] names the sheet that counts.
    pub fn open(
        &mut self,
        sheet: &SealSheetV1,
        stored: Option<&BallotRecordV1>,
    ) -> Result<Vec<VerifierEffect>, Refused> {
        let digest = sheet.intent_digest;
        if !self.recall(&digest, stored)? {
            return Err(Refused::UnknownIntent);
        }
        let session = self
            .sessions
            .get_mut(&digest)
            .ok_or(Refused::UnknownIntent)?;
        let vote = session.record.vote.clone();
        if let Some(opened) = &session.record.opened_sheet {
            return if opened == sheet {
                Ok(vec![VerifierEffect::Send(Answer::Opened(vote))])
            } else {
                Err(Refused::AlreadyOpened(Box::new(opened.clone())))
            };
        }
        tally::check_sheet(&self.terms, digest, sheet).map_err(|_| Refused::BadSheet)?;
        if sheet.seal_of(&self.seat.verifier_id) != Some(&vote.digest()) {
            return Err(Refused::BadSheet);
        }
        session.record.opened_sheet = Some(sheet.clone());
        Ok(vec![
            persist(&session.record),
            VerifierEffect::Send(Answer::Opened(vote)),
        ])
    }

    fn current_share(&self) -> Option<&KeyShare> {
        let key = self.terms.quorum_key()?;
        self.share
            .as_ref()
            .filter(|s| s.epoch() == key.epoch && s.public().group_key == key.group_key)
    }

    fn check_votable(&self, frozen: &FrozenIntent) -> Result<(), Refused> {
        let intent = frozen.intent();
        if intent.required_authority_variant != AuthorityVariant::AgentQuorum {
            return Err(Refused::WrongVariant);
        }
        if tally::is_excluded(intent, &self.seat.verifier_id) {
            return Err(Refused::SelfAuthorization);
        }
        self.check_in_force(intent)?;
        if !self.terms.govern(intent) || !self.is_seated() {
            return Err(Refused::StaleRoster);
        }
        self.current_share().map(|_| ()).ok_or(Refused::StaleRoster)
    }

    /// Whether its seat in the roster in force is the one that it has a key for.
    fn is_seated(&self) -> bool {
        let found = self.terms.roster().verifier(&self.seat.verifier_id);
        found.is_some_and(|it| {
            it.vote_key == self.seat.key.public_key() && it.identifier == self.seat.identifier
        })
    }

    /// Neither expired nor fenced, as far as proofs have told.
    fn check_in_force(&self, intent: &SovereignActionIntentV1) -> Result<(), Refused> {
        if intent.expires_at <= self.state_time {
            return Err(Refused::Expired);
        }
        (intent.autonomy_epoch >= self.autonomy_epoch)
            .then_some(())
            .ok_or(Refused::EpochFenced)
    }

    /// Brings the ballot into memory if it is stored. Says whether a vote was cast.
    fn recall(
        &mut self,
        digest: &IntentDigest,
        stored: Option<&BallotRecordV1>,
    ) -> Result<bool, Refused> {
        if self.sessions.contains_key(digest) {
            return Ok(true);
        }
        self.make_room()?;
        let stored = stored.filter(|r| r.intent_digest == *digest && !Bug::VoteForgotten.planted());
        let Some(record) = stored else {
            return Ok(false);
        };
        let intent = SovereignActionIntentV1::from_canonical(&record.intent.0)
            .map_err(|_| Refused::UnknownIntent)?;
        let vote =
            VoteV1::from_canonical(&record.vote.body.0).map_err(|_| Refused::UnknownIntent)?;
        let mut record = record.clone();
        if Bug::SheetForgotten.planted() {
            record.opened_sheet = None;
        }
        let session = Session {
            record,
            intent,
            vote,
            live: BTreeMap::new(),
        };
        self.sessions.insert(*digest, session);
        Ok(true)
    }

    /// If memory is full, drops ballots that are over: expired, fenced by an epoch, or with the share that was
    /// asked of it given. The store keeps their records, and what it repeats of them comes from there.
    fn make_room(&mut self) -> Result<(), Refused> {
        if self.sessions.len() >= SESSIONS_OPEN_MAX {
            let (now, epoch) = (self.state_time, self.autonomy_epoch);
            self.sessions.retain(|_, session| {
                let in_force =
                    session.intent.expires_at > now && session.intent.autonomy_epoch >= epoch;
                in_force && session.record.released.is_empty()
            });
        }
        (self.sessions.len() < SESSIONS_OPEN_MAX)
            .then_some(())
            .ok_or(Refused::LimitExceeded)
    }

    fn vote_record(
        &self,
        frozen: &FrozenIntent,
        evaluation: Evaluation,
        rng: &mut (impl RngCore + CryptoRng),
    ) -> Result<VoteV1, Refused> {
        let key = self.terms.quorum_key().ok_or(Refused::StaleRoster)?;
        let mut salt = Digest::ZERO;
        rng.fill_bytes(&mut salt.0);
        Ok(VoteV1 {
            intent_digest: frozen.digest(),
            verifier_id: self.seat.verifier_id.clone(),
            verdict: evaluation.verdict,
            findings_digest: evaluation.findings_digest,
            salt,
            roster_epoch: self.terms.roster().roster_epoch,
            quorum_key_epoch: key.epoch,
        })
    }

    /// The vote stands: the same answer, or fresh commitments for a new boot or a higher term.
    fn answer_again(
        &mut self,
        digest: &IntentDigest,
        asked: Asked,
        rng: &mut (impl RngCore + CryptoRng),
    ) -> Result<Vec<VerifierEffect>, Refused> {
        let Some(mut session) = self.sessions.remove(digest) else {
            return Err(Refused::UnknownIntent);
        };
        if !self.vote_is_current(&session.vote) {
            self.sessions.insert(*digest, session);
            return Err(Refused::StaleRoster);
        }
        // A new boot has no nonces, and a higher term does not want the old ones (D13).
        let wants_fresh = session
            .record
            .issues
            .last()
            .is_none_or(|i| i.boot_generation != self.generation || i.term < asked.term);
        let may_issue = session.record.issues.len() < ISSUES_MAX;
        let effects = if wants_fresh && may_issue {
            self.issue(&mut session, asked, rng)
                .map(|()| self.persist_and_seal(&session))
        } else {
            Ok(vec![self.sealed_answer(&session)])
        };
        self.sessions.insert(*digest, session);
        effects
    }

    fn vote_is_current(&self, vote: &VoteV1) -> bool {
        vote.roster_epoch == self.terms.roster().roster_epoch
            && Some(vote.quorum_key_epoch) == self.terms.quorum_key().map(|k| k.epoch)
    }

    /// Draws fresh nonces, one per subset, and notes their commitments as burned. Earlier live
    /// nonces die here.
    fn issue(
        &self,
        session: &mut Session,
        asked: Asked,
        rng: &mut (impl RngCore + CryptoRng),
    ) -> Result<(), Refused> {
        let share = self.current_share().ok_or(Refused::StaleRoster)?;
        let number = session.record.issues.len() as u64 + 1;
        let vote = session.record.vote.digest();
        let context = if Bug::NonceDerived.planted() {
            vote
        } else {
            Digest::of_parts(&[
                &vote.0,
                &self.generation.to_be_bytes(),
                &number.to_be_bytes(),
                &asked.fresh.0,
            ])
        };
        let mut live = BTreeMap::new();
        for subset in Subset::of_member(self.seat.identifier) {
            let nonce =
                Nonce::draw(share, subset, &context, rng).map_err(|_| Refused::BadPackage)?;
            live.insert(subset, nonce);
        }
        let commitments = SigningCommitmentsV1 {
            intent_digest: session.record.intent_digest,
            verifier_id: self.seat.verifier_id.clone(),
            vote_digest: session.record.vote.digest(),
            quorum_key_epoch: share.epoch(),
            boot_generation: self.generation,
            issue: number,
            commitments: live.values().map(|n| n.commitment().clone()).collect(),
        };
        session.record.issues.push(IssueV1 {
            boot_generation: self.generation,
            term: asked.term,
            commitments: Envelope::seal(self.terms.scope(), &self.seat.key, &commitments),
        });
        session.live = live;
        Ok(())
    }

    fn persist_and_seal(&self, session: &Session) -> Vec<VerifierEffect> {
        vec![persist(&session.record), self.sealed_answer(session)]
    }

    /// The seal, the commitments if their nonces are alive, and the sheet it opened.
    fn sealed_answer(&self, session: &Session) -> VerifierEffect {
        let commitments = session
            .record
            .issues
            .last()
            .filter(|i| i.boot_generation == self.generation && !session.live.is_empty())
            .map(|i| i.commitments.clone());
        VerifierEffect::Send(Answer::Sealed(Box::new(SealedAnswerV1 {
            sealed: SealedVoteV1::of(&session.record.vote, self.seat.verifier_id.clone()),
            commitments,
            opened_sheet: session.record.opened_sheet.clone(),
        })))
    }
}

impl Session {
    fn subject(&self) -> Subject<'_> {
        Subject {
            intent: &self.intent,
            digest: self.record.intent_digest,
            frozen_at: self.record.frozen_at,
        }
    }
}

fn persist(record: &BallotRecordV1) -> VerifierEffect {
    VerifierEffect::Persist(vec![Row::Ballot(Box::new(record.clone()))])
}
