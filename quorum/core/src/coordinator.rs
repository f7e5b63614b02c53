//! The coordinator's rules: carry messages, fix one sheet, try subsets, abstain or authorize.
//!
//! ```text
//!  Ask ×4, Sentinel ─▶ seals ─▶ one sheet (adopted, if anybody opened one) ─▶ Open ─▶ votes
//!      ─▶ floors ─▶ GREEN ─▶ Sign ×3 ─▶ shares ─▶ Authorize
//!                              ▲            └─ bad share: Blame, next subset, same votes
//! ```
//!
//! It is trusted with nothing: verifiers and journal check whatever it says. So it keeps no
//! durable state; a new coordinator asks all four again and adopts the sheet it finds (D11).
//! Deadlines are inputs on the driver's clock. It does not know how messages travel.

mod sheet;
mod signing;
mod step;

use std::collections::{BTreeMap, BTreeSet};

use redlatch_types::records::{
    CountedVote, SealSheetV1, SealedVoteV1, SentinelVerdictV1, Verdict, VoteV1,
};
use redlatch_types::{Envelope, IntentDigest, Refusal, Signed, VerifierId};

use crate::decision::{self, Subject};
use crate::group;
use crate::messages::{PublicKeyPackageV1, SealedAnswerV1};
use crate::tally;
use crate::terms::{FrozenIntent, Terms};
use signing::Attempt;

pub use signing::RENEWALS_MAX;
pub use step::{Abstention, AnswerFault, Blame, Deadlines, Request, Step};

/// One ballot's coordinator.
pub struct Coordinator {
    terms: Terms,
    frozen: FrozenIntent,
    keys: frost_ed25519::keys::PublicKeyPackage,
    deadlines: Deadlines,
    term: u64,
    answers: BTreeMap<VerifierId, SealedAnswerV1>,
    refused: BTreeMap<VerifierId, Refusal>,
    sheet: Option<SealSheetV1>,
    opened: BTreeMap<VerifierId, Signed<VoteV1>>,
    late: BTreeMap<VerifierId, SealedVoteV1>,
    green: Option<Signed<SentinelVerdictV1>>,
    counted: Option<Vec<CountedVote>>,
    attempt: Option<Attempt>,
    /// Newest issue of commitments seen of each member.
    issues: BTreeMap<u16, u64>,
    /// Members that are asked for fresh commitments before the next attempt, and until when.
    renewing: BTreeSet<u16>,
    renew_by: u64,
    renewals: u32,
    /// Subsets whose nonces of the present issues are used up.
    tried: BTreeSet<tally::Subset>,
    /// Members that gave a bad share, no share, or refused.
    excluded: BTreeSet<u16>,
    /// Why members refused to sign.
    reasons: BTreeSet<Refusal>,
    over: bool,
}

impl Coordinator {
    /// Starts: asks all four, and the sentinel beside them. `keys` comes from any verifier.
    /// `term` is above every term of earlier coordinators of this intent and leaves room for
    /// [`RENEWALS_MAX`] more: for example 16 times the leader's Raft term.
    ///
    /// # Errors
    /// [`AnswerFault::OtherKey`] if `keys` is not what the key in force names.
    pub fn begin(
        terms: Terms,
        frozen: FrozenIntent,
        keys: &PublicKeyPackageV1,
        term: u64,
        deadlines: Deadlines,
    ) -> Result<(Coordinator, Vec<Step>), AnswerFault> {
        let pinned = terms.quorum_key().map(|k| k.public_key_package_digest);
        if pinned != Some(keys.digest()) {
            return Err(AnswerFault::OtherKey);
        }
        let keys = group::public_key_package(keys).map_err(|_| AnswerFault::OtherKey)?;
        let mut steps: Vec<Step> = terms
            .roster()
            .verifiers
            .iter()
            .map(|v| Step::Ask {
                to: v.verifier_id.clone(),
                term,
            })
            .collect();
        steps.push(Step::Sentinel);
        let coordinator = Coordinator {
            terms,
            frozen,
            keys,
            deadlines,
            term,
            answers: BTreeMap::new(),
            refused: BTreeMap::new(),
            sheet: None,
            opened: BTreeMap::new(),
            late: BTreeMap::new(),
            green: None,
            counted: None,
            attempt: None,
            issues: BTreeMap::new(),
            renewing: BTreeSet::new(),
            renew_by: 0,
            renewals: 0,
            tried: BTreeSet::new(),
            excluded: BTreeSet::new(),
            reasons: BTreeSet::new(),
            over: false,
        };
        Ok((coordinator, steps))
    }

    /// The intent under decision.
    pub fn intent_digest(&self) -> IntentDigest {
        self.frozen.digest()
    }

    /// Whether the ballot ended, by decision or abstention.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The sheet, once fixed or adopted.
    pub fn sheet(&self) -> Option<&SealSheetV1> {
        self.sheet.as_ref()
    }

    /// Opened votes of the sheet, dissents too.
    pub fn votes(&self) -> impl Iterator<Item = &Signed<VoteV1>> {
        self.opened.values()
    }

    /// Seals that came after the sheet was fixed. They never count and are shown.
    pub fn late(&self) -> impl Iterator<Item = &SealedVoteV1> {
        self.late.values()
    }

    /// When [`Coordinator::handle_timeout`] wants to be called next.
    pub fn next_timeout(&self) -> Option<u64> {
        if self.over {
            return None;
        }
        let seal = self.sheet.is_none().then_some(self.deadlines.seal_by);
        let share = self.attempt.as_ref().map(|a| a.deadline);
        let renewal = (!self.renewing.is_empty()).then_some(self.renew_by);
        [seal, share, renewal, Some(self.deadlines.decide_by)]
            .into_iter()
            .flatten()
            .min()
    }

    /// A verifier answered the packet.
    ///
    /// # Errors
    /// [`AnswerFault`]; the answer is dropped.
    pub fn handle_sealed(
        &mut self,
        from: &VerifierId,
        answer: SealedAnswerV1,
        now: u64,
    ) -> Result<Vec<Step>, AnswerFault> {
        let (member, issue) = self.check_sealed(from, &answer)?;
        if self.over {
            self.late.insert(from.clone(), answer.sealed);
            return Ok(Vec::new());
        }
        self.refused.remove(from);
        let newer = issue > self.issues.get(&member).copied();
        if let Some(sheet) = &self.sheet {
            if sheet.seal_of(from).is_none() {
                self.late.insert(from.clone(), answer.sealed.clone());
            }
            if !newer {
                return Ok(self.not_renewed(member, issue, now));
            }
        }
        // An older answer that was under way for long does not replace a newer one.
        if newer || !self.answers.contains_key(from) {
            self.issues.extend(issue.map(|i| (member, i)));
            self.answers.insert(from.clone(), answer);
        }
        if self.sheet.is_some() {
            return Ok(self.renewed(member, now));
        }
        Ok(self.try_fix_sheet(now))
    }

    /// A verifier refused what it was asked, or could not be reached for good.
    pub fn handle_refusal(
        &mut self,
        from: &VerifierId,
        request: Request,
        refusal: Refusal,
        now: u64,
    ) -> Vec<Step> {
        let Some(member) = self.member(from).filter(|_| !self.over) else {
            return Vec::new();
        };
        match request {
            Request::Packet(term) if term == self.term => {
                self.refused.insert(from.clone(), refusal);
                if self.sheet.is_none() {
                    self.try_fix_sheet(now)
                } else {
                    self.not_renewed(member, None, now)
                }
            }
            Request::Package(package) => self.refused_to_sign(member, package, refusal, now),
            // A sheet without one of its votes cannot be completed: the deadline ends it.
            Request::Sheet(_) | Request::Packet(_) => Vec::new(),
        }
    }

    /// A verifier opened another sheet before (`AlreadyOpened`): that one is adopted, if it can
    /// still be completed and nobody opened ours.
    pub fn handle_other_sheet(
        &mut self,
        from: &VerifierId,
        sheet: SealSheetV1,
        now: u64,
    ) -> Vec<Step> {
        if self.over || self.member(from).is_none() {
            return Vec::new();
        }
        let first_word = self.answers.get_mut(from).filter(|a| {
            let other = |opened: &SealSheetV1| *opened != sheet;
            !a.opened_sheet.as_ref().is_some_and(other)
        });
        // Nothing to adopt: our sheet is opened already, or this verifier says it both ways.
        let Some(answer) = first_word.filter(|_| self.opened.is_empty()) else {
            return self.abstain(Abstention::InsufficientQuorum);
        };
        answer.opened_sheet = Some(sheet);
        self.sheet = None;
        self.try_fix_sheet(now)
    }

    /// A verifier opened its vote.
    ///
    /// # Errors
    /// [`AnswerFault`]; the vote is dropped.
    pub fn handle_opened(
        &mut self,
        from: &VerifierId,
        vote: &Envelope,
        now: u64,
    ) -> Result<Vec<Step>, AnswerFault> {
        let signed: Signed<VoteV1> = vote.open().map_err(|_| AnswerFault::NotAuthorised)?;
        self.check_signer(from, &signed)?;
        let sealed = self.sheet.as_ref().and_then(|s| s.seal_of(from));
        if signed.record().verifier_id != *from || sealed != Some(&signed.digest()) {
            return Err(AnswerFault::NotTheSeal);
        }
        self.opened.insert(from.clone(), signed);
        Ok(self.try_count(now))
    }

    /// The sentinel answered: GREEN, or WITHHELD, which ends the ballot.
    ///
    /// # Errors
    /// [`AnswerFault::NotAVerdict`]; the verdict is dropped.
    pub fn handle_verdict(
        &mut self,
        verdict: &Envelope,
        now: u64,
    ) -> Result<Vec<Step>, AnswerFault> {
        let signed: Signed<SentinelVerdictV1> =
            verdict.open().map_err(|_| AnswerFault::NotAVerdict)?;
        let by_the_sentinel = *signed.key() == self.terms.roster().sentinel.key
            && *signed.scope() == self.terms.scope()
            && signed.record().intent_digest == self.frozen.digest();
        if !by_the_sentinel {
            return Err(AnswerFault::NotAVerdict);
        }
        if self.over || self.green.is_some() {
            return Ok(Vec::new());
        }
        if signed.record().verdict != Verdict::Green {
            return Ok(self.abstain(Abstention::SentinelRequired));
        }
        let earliest = self.frozen.state_time();
        decision::check_green(&self.terms, self.subject(), earliest, &signed)
            .map_err(|_| AnswerFault::NotAVerdict)?;
        self.green = Some(signed);
        Ok(self.try_sign(now))
    }

    /// Time passed (the driver's clock, milliseconds).
    pub fn handle_timeout(&mut self, now: u64) -> Vec<Step> {
        if self.over {
            return Vec::new();
        }
        if now >= self.deadlines.decide_by {
            let why = self.why_undecided();
            return self.abstain(why);
        }
        if self.sheet.is_none() {
            return self.try_fix_sheet(now);
        }
        self.give_up_silent(now)
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            intent: self.frozen.intent(),
            digest: self.frozen.digest(),
            frozen_at: self.frozen.state_time(),
        }
    }

    fn member(&self, verifier: &VerifierId) -> Option<u16> {
        self.terms.roster().verifier(verifier).map(|v| v.identifier)
    }

    fn abstain(&mut self, why: Abstention) -> Vec<Step> {
        self.over = true;
        self.attempt = None;
        vec![Step::Abstain(why)]
    }

    fn why_undecided(&self) -> Abstention {
        if self.refused.values().any(|r| *r == Refusal::StaleRoster) {
            Abstention::StaleRoster
        } else if self.counted.is_some() && self.green.is_none() {
            Abstention::SentinelRequired
        } else {
            Abstention::InsufficientQuorum
        }
    }

    fn check_signer<T>(&self, from: &VerifierId, signed: &Signed<T>) -> Result<u16, AnswerFault> {
        self.terms
            .roster()
            .verifier(from)
            .filter(|v| v.vote_key == *signed.key() && self.terms.scope() == *signed.scope())
            .map(|v| v.identifier)
            .ok_or(AnswerFault::NotAuthorised)
    }

    /// Counts once every vote of the sheet is open.
    fn try_count(&mut self, now: u64) -> Vec<Step> {
        let Some(sheet) = &self.sheet else {
            return Vec::new();
        };
        if self.over || self.counted.is_some() || self.opened.len() < sheet.seals.len() {
            return Vec::new();
        }
        let votes: Vec<Signed<VoteV1>> = self.opened.values().cloned().collect();
        let intent = self.frozen.intent();
        let digest = self.frozen.digest();
        let counted = tally::count(&self.terms, intent, digest, sheet, &votes)
            .and_then(|c| tally::check_floors(self.terms.floors(), &c).map(|()| c));
        match counted {
            Ok(counted) => {
                self.counted = Some(counted);
                self.try_sign(now)
            }
            Err(fault) => self.abstain(fault.into()),
        }
    }

    fn vote_envelopes(&self) -> Vec<Envelope> {
        self.opened.values().map(|v| v.envelope().clone()).collect()
    }
}
