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

mod signing;

use std::collections::{BTreeMap, BTreeSet};

use redlatch_types::command::Authorization;
use redlatch_types::records::{
    CountedVote, SealLine, SealSheetV1, SealedVoteV1, SentinelVerdictV1, Verdict, VoteV1,
};
use redlatch_types::sign::{Record, preimage, verify};
use redlatch_types::{Digest, Envelope, IntentDigest, Refusal, Signed, VerifierId};

use crate::decision::{self, Subject};
use crate::group;
use crate::messages::{PublicKeyPackageV1, SealedAnswerV1, SigningCommitmentsV1, SigningPackageV1};
use crate::tally::{self, MEMBERS, SHEET_LINES_MIN, TallyFault};
use crate::terms::{FrozenIntent, Terms};
use signing::Attempt;

/// Until when the coordinator waits, on the driver's clock, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For the fourth seal; with three of them the sheet is fixed then.
    pub seal_by: u64,
    /// For the whole ballot; then it abstains.
    pub decide_by: u64,
    /// How long a member may take to answer a package.
    pub share_ms: u64,
}

/// What the driver does next. It drops an `Open` whose sheet is no longer
/// [`Coordinator::sheet`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send the packet with this term to this verifier.
    Ask {
        /// To whom.
        to: VerifierId,
        /// The attempt's number.
        term: u64,
    },
    /// Ask the sentinel for its verdict.
    Sentinel,
    /// Ask this verifier to open the sheet.
    Open {
        /// To whom.
        to: VerifierId,
        /// The sheet.
        sheet: SealSheetV1,
    },
    /// Ask this verifier for its share.
    Sign {
        /// To whom.
        to: VerifierId,
        /// The package.
        package: Box<SigningPackageV1>,
    },
    /// Report that a verifier gave a bad share.
    Blame(Box<Blame>),
    /// The ballot decided: submit this command.
    Authorize(Box<Authorization>),
    /// The ballot is over without a decision, for good.
    Abstain(Abstention),
}

impl Step {
    /// What this step asks of whom; `None` if it asks no verifier.
    pub fn request(&self) -> Option<(&VerifierId, Request)> {
        match self {
            Step::Ask { to, term } => Some((to, Request::Packet(*term))),
            Step::Open { to, sheet } => Some((to, Request::Sheet(sheet.digest()))),
            Step::Sign { to, package } => Some((to, Request::Package(package.digest()))),
            Step::Sentinel | Step::Blame(_) | Step::Authorize(_) | Step::Abstain(_) => None,
        }
    }
}

/// What a verifier was asked, so that a late refusal is not taken for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The packet, with this term.
    Packet(u64),
    /// To open the sheet with this digest.
    Sheet(Digest),
    /// To sign the package with this digest.
    Package(Digest),
}

/// Evidence of a bad share: the package and the signed share that answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blame {
    /// Whose share.
    pub verifier_id: VerifierId,
    /// What it answered.
    pub package: SigningPackageV1,
    /// Its signed answer.
    pub share: Envelope,
}

/// Why a ballot ended without a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abstention {
    /// Fewer than three approve, answer or open.
    InsufficientQuorum,
    /// Approvals from too few domains.
    InsufficientIndependence,
    /// No GREEN.
    SentinelRequired,
    /// Roster or quorum key changed under the ballot.
    StaleRoster,
    /// A voter of the sheet has a role in the intent.
    SelfAuthorization,
}

impl Abstention {
    /// The stable code.
    pub fn refusal(self) -> Refusal {
        match self {
            Abstention::InsufficientQuorum => Refusal::InsufficientQuorum,
            Abstention::InsufficientIndependence => Refusal::InsufficientIndependence,
            Abstention::SentinelRequired => Refusal::SentinelRequired,
            Abstention::StaleRoster => Refusal::StaleRoster,
            Abstention::SelfAuthorization => Refusal::SelfAuthorization,
        }
    }
}

impl From<TallyFault> for Abstention {
    fn from(fault: TallyFault) -> Abstention {
        match fault {
            TallyFault::InsufficientIndependence => Abstention::InsufficientIndependence,
            TallyFault::StaleRoster => Abstention::StaleRoster,
            TallyFault::SelfAuthorization => Abstention::SelfAuthorization,
            TallyFault::BadSheet
            | TallyFault::Unauthorized
            | TallyFault::NotOfTheSheet
            | TallyFault::Missing
            | TallyFault::InsufficientQuorum => Abstention::InsufficientQuorum,
        }
    }
}

/// Why an answer is not taken. It changes nothing; the sender may still answer properly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerFault {
    /// The sender is no verifier of the roster, or answers for another one.
    #[error("the answer is not by the verifier it came from")]
    NotAuthorised,
    /// The seal equals another verifier's (FAULTS 31).
    #[error("the seal is another verifier's")]
    CopiedSeal,
    /// The sender sealed something else before.
    #[error("the verifier sealed another vote before")]
    Equivocation,
    /// The opened vote is not what was sealed, or not on the sheet.
    #[error("the opened vote is not the sealed one")]
    NotTheSeal,
    /// The share does not answer the package in hand.
    #[error("the share answers another package")]
    OtherPackage,
    /// The verdict is not one about this intent by the pinned sentinel.
    #[error("not a verdict of the sentinel about this intent")]
    NotAVerdict,
    /// The package's digest is not that of the key in force.
    #[error("the public key package is not that of the key in force")]
    OtherKey,
}

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

    /// The seal is signed by its sender, is nobody else's, and is the one it gave before.
    fn check_sealed(
        &self,
        from: &VerifierId,
        answer: &SealedAnswerV1,
    ) -> Result<(u16, Option<u64>), AnswerFault> {
        let sealed = &answer.sealed;
        let verifier = self
            .terms
            .roster()
            .verifier(from)
            .filter(|v| v.verifier_id == sealed.verifier_id && v.vote_key == sealed.key)
            .filter(|_| sealed.scope == self.terms.scope())
            .ok_or(AnswerFault::NotAuthorised)?;
        let signed = preimage(VoteV1::TYPE, &sealed.scope, &sealed.seal);
        verify(&sealed.key, &signed, &sealed.signature).map_err(|_| AnswerFault::NotAuthorised)?;
        for (other, before) in &self.answers {
            let same = before.sealed.seal == sealed.seal;
            match (other == from, same) {
                (true, false) => return Err(AnswerFault::Equivocation),
                (false, true) => return Err(AnswerFault::CopiedSeal),
                (true, true) | (false, false) => {}
            }
        }
        let mut issue = None;
        if let Some(commitments) = &answer.commitments {
            let signed: Signed<SigningCommitmentsV1> =
                commitments.open().map_err(|_| AnswerFault::NotAuthorised)?;
            self.check_signer(from, &signed)?;
            let record = signed.record();
            if record.verifier_id != *from || record.vote_digest != sealed.seal {
                return Err(AnswerFault::NotAuthorised);
            }
            issue = Some(record.issue);
        }
        Ok((verifier.identifier, issue))
    }

    /// Fixes the sheet once all four have answered or time is up; adopts one that was opened.
    fn try_fix_sheet(&mut self, now: u64) -> Vec<Step> {
        let heard: BTreeSet<_> = self.answers.keys().chain(self.refused.keys()).collect();
        let enough = heard.len() == usize::from(MEMBERS) || now >= self.deadlines.seal_by;
        let hopeless = self.refused.len() > usize::from(MEMBERS) - SHEET_LINES_MIN;
        if !enough && !hopeless {
            return Vec::new();
        }
        let sheet = if self.answers.values().any(|a| a.opened_sheet.is_some()) {
            self.adoptable_sheet()
        } else {
            self.own_sheet()
        };
        let Some(sheet) = sheet else {
            let why = self.why_undecided();
            return self.abstain(why);
        };
        for (verifier, answer) in &self.answers {
            if sheet.seal_of(verifier).is_none() {
                self.late.insert(verifier.clone(), answer.sealed.clone());
            }
        }
        let steps = sheet
            .seals
            .iter()
            .map(|l| Step::Open {
                to: l.verifier_id.clone(),
                sheet: sheet.clone(),
            })
            .collect();
        self.sheet = Some(sheet);
        steps
    }

    fn own_sheet(&self) -> Option<SealSheetV1> {
        // BTreeMap order is the sheet's order: ascending by voter.
        let seals: Vec<SealLine> = self
            .answers
            .iter()
            .map(|(verifier_id, a)| SealLine {
                verifier_id: verifier_id.clone(),
                seal: a.sealed.seal,
            })
            .collect();
        (seals.len() >= SHEET_LINES_MIN).then(|| SealSheetV1 {
            intent_digest: self.frozen.digest(),
            seals,
        })
    }

    /// The opened sheet that most verifiers opened and that can still be completed: no member
    /// of it opened another, and no known seal differs from its line.
    fn adoptable_sheet(&self) -> Option<SealSheetV1> {
        let opened = |a: &SealedAnswerV1| a.opened_sheet.clone();
        let candidates: Vec<SealSheetV1> = self.answers.values().filter_map(opened).collect();
        let can_complete = |sheet: &&SealSheetV1| {
            tally::check_sheet(&self.terms, self.frozen.digest(), sheet).is_ok()
                && sheet.seals.iter().all(|line| {
                    self.answers.get(&line.verifier_id).is_none_or(|a| {
                        a.sealed.seal == line.seal
                            && a.opened_sheet.as_ref().is_none_or(|o| o == *sheet)
                    })
                })
        };
        let opened_by = |sheet: &&SealSheetV1| candidates.iter().filter(|c| c == sheet).count();
        candidates
            .iter()
            .filter(can_complete)
            .max_by_key(opened_by)
            .cloned()
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
