//! Seals, and the one sheet: fixed from what was heard, or adopted if anybody opened one (D11).

use std::collections::BTreeSet;

use redlatch_types::records::{SealLine, SealSheetV1, VoteV1};
use redlatch_types::sign::{Record, preimage, verify};
use redlatch_types::{Signed, VerifierId};

use super::{AnswerFault, Coordinator, Step};
use crate::messages::{SealedAnswerV1, SigningCommitmentsV1};
use crate::tally::{self, MEMBERS, SHEET_LINES_MIN};

impl Coordinator {
    /// The seal is signed by its sender, is nobody else's, and is the one it gave before.
    pub(super) fn check_sealed(
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
    pub(super) fn try_fix_sheet(&mut self, now: u64) -> Vec<Step> {
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
}
