//! Attempts at the group signature: one subset after another, never a second vote.
//!
//! A subset is tried once per issue of commitments, because its nonces serve one package. A
//! member that gave a bad share or none is left out; a member whose nonce is dead is asked,
//! with its two fellows, for fresh commitments under a higher term.

use std::collections::BTreeMap;

use frost_ed25519::SigningPackage;
use redlatch_types::command::Authorization;
use redlatch_types::records::AgentQuorumDecisionV1;
use redlatch_types::{Bytes, Digest, Envelope, Refusal, Signed, VerifierId};

use super::{Abstention, AnswerFault, Blame, Coordinator, Step};
use crate::decision;
use crate::group::{self, AggregateFault};
use crate::messages::{
    NonceCommitmentV1, SignatureShareV1, SigningCommitmentsV1, SigningPackageV1,
};
use crate::tally::{self, Subset};

/// Most times that fresh commitments are asked for in one ballot; below what a verifier issues.
pub const RENEWALS_MAX: u32 = 4;

/// One package in flight.
pub(super) struct Attempt {
    package: SigningPackageV1,
    package_digest: Digest,
    decision: AgentQuorumDecisionV1,
    signing: SigningPackage,
    shares: BTreeMap<u16, Signed<SignatureShareV1>>,
    pub(super) deadline: u64,
}

impl Coordinator {
    /// A verifier answered a package.
    ///
    /// # Errors
    /// [`AnswerFault`]; the share is dropped.
    pub fn handle_share(
        &mut self,
        from: &VerifierId,
        share: &Envelope,
        now: u64,
    ) -> Result<Vec<Step>, AnswerFault> {
        let signed: Signed<SignatureShareV1> =
            share.open().map_err(|_| AnswerFault::NotAuthorised)?;
        let member = self.check_signer(from, &signed)?;
        let attempt = self.attempt.as_mut().ok_or(AnswerFault::OtherPackage)?;
        let fits = signed.record().package_digest == attempt.package_digest
            && attempt.package.subset.contains(member);
        if !fits {
            return Err(AnswerFault::OtherPackage);
        }
        // The first answer counts: a second one could only be an attempt to move the blame.
        attempt.shares.entry(member).or_insert(signed);
        if attempt.shares.len() < attempt.package.subset.members().len() {
            return Ok(Vec::new());
        }
        Ok(self.finish_attempt(now))
    }

    /// Starts an attempt if votes and GREEN are there and none is in flight.
    pub(super) fn try_sign(&mut self, now: u64) -> Vec<Step> {
        let ready = self.counted.is_some()
            && self.green.is_some()
            && self.attempt.is_none()
            && self.renewing.is_empty();
        if self.over || !ready {
            return Vec::new();
        }
        while let Some(subset) = self.next_subset() {
            self.tried.insert(subset);
            if let Some(attempt) = self.attempt_with(subset, now) {
                let steps = self.sign_steps(&attempt.package);
                self.attempt = Some(attempt);
                return steps;
            }
        }
        let why = self.why_unsigned();
        self.abstain(why)
    }

    /// A member's fresh commitments came; with the last one the next attempt begins.
    pub(super) fn renewed(&mut self, member: u16, now: u64) -> Vec<Step> {
        if self.renewing.remove(&member) && self.renewing.is_empty() {
            return self.try_sign(now);
        }
        Vec::new()
    }

    /// A member that is asked for fresh commitments has none left.
    pub(super) fn not_renewed(&mut self, member: u16, issue: Option<u64>, now: u64) -> Vec<Step> {
        if issue.is_none() && self.renewing.contains(&member) {
            self.excluded.insert(member);
            return self.renewed(member, now);
        }
        Vec::new()
    }

    /// A member refused the package in flight; refusals of earlier packages are no news.
    pub(super) fn refused_to_sign(
        &mut self,
        member: u16,
        package: Digest,
        refusal: Refusal,
        now: u64,
    ) -> Vec<Step> {
        let in_flight =
            |a: &mut Attempt| a.package_digest == package && a.package.subset.contains(member);
        let Some(attempt) = self.attempt.take_if(in_flight) else {
            return Vec::new();
        };
        if refusal == Refusal::AlreadySpent && self.renewals < RENEWALS_MAX {
            return self.renew(attempt.package.subset, now);
        }
        self.reasons.insert(refusal);
        self.excluded.insert(member);
        self.try_sign(now)
    }

    /// Leaves out members that did not answer in time.
    pub(super) fn give_up_silent(&mut self, now: u64) -> Vec<Step> {
        if !self.renewing.is_empty() && now >= self.renew_by {
            self.excluded.append(&mut self.renewing);
            return self.try_sign(now);
        }
        let Some(attempt) = self.attempt.take_if(|a| now >= a.deadline) else {
            return Vec::new();
        };
        let silent = attempt
            .package
            .subset
            .members()
            .into_iter()
            .filter(|m| !attempt.shares.contains_key(m));
        self.excluded.extend(silent);
        self.try_sign(now)
    }

    /// Asks the members of `subset` for fresh commitments under a higher term.
    fn renew(&mut self, subset: Subset, now: u64) -> Vec<Step> {
        self.renew_by = now.saturating_add(self.deadlines.share_ms);
        self.renewals += 1;
        self.term += 1;
        self.renewing = subset.members().into_iter().collect();
        // Fresh issues bring fresh nonces for every subset of these members.
        self.tried.clear();
        let members = subset.members();
        members
            .into_iter()
            .filter_map(|m| self.terms.by_identifier(m))
            .map(|v| Step::Ask {
                to: v.verifier_id.clone(),
                term: self.term,
            })
            .collect()
    }

    fn next_subset(&self) -> Option<Subset> {
        let counted = self.counted.as_ref()?;
        tally::signing_subsets(&self.terms, counted)
            .into_iter()
            .filter(|s| !self.tried.contains(s))
            .find(|s| s.members().iter().all(|m| !self.excluded.contains(m)))
    }

    fn attempt_with(&self, subset: Subset, now: u64) -> Option<Attempt> {
        let green = self.green.as_ref()?;
        let sheet = self.sheet.clone()?;
        let mut envelopes = Vec::new();
        let mut lines: Vec<(u16, NonceCommitmentV1)> = Vec::new();
        for member in subset.members() {
            let verifier = self.terms.by_identifier(member)?;
            let envelope = self
                .answers
                .get(&verifier.verifier_id)?
                .commitments
                .clone()?;
            let signed: Signed<SigningCommitmentsV1> = envelope.open().ok()?;
            lines.push((member, signed.record().for_subset(subset)?.clone()));
            envelopes.push(envelope);
        }
        let counted = self.counted.clone()?;
        let decision = decision::rebuild(&self.terms, self.subject(), green, &sheet, counted)?;
        let message = decision::message(&self.terms, &decision);
        let lines: Vec<_> = lines.iter().map(|(m, c)| (*m, c)).collect();
        let signing = group::signing_package(&lines, &message).ok()?;
        let package = SigningPackageV1 {
            intent_digest: self.frozen.digest(),
            subset,
            sheet,
            votes: self.vote_envelopes(),
            green: green.envelope().clone(),
            commitments: envelopes,
        };
        Some(Attempt {
            package_digest: package.digest(),
            package,
            decision,
            signing,
            shares: BTreeMap::new(),
            deadline: now.saturating_add(self.deadlines.share_ms),
        })
    }

    fn sign_steps(&self, package: &SigningPackageV1) -> Vec<Step> {
        package
            .subset
            .members()
            .into_iter()
            .filter_map(|m| self.terms.by_identifier(m))
            .map(|v| Step::Sign {
                to: v.verifier_id.clone(),
                package: Box::new(package.clone()),
            })
            .collect()
    }

    fn finish_attempt(&mut self, now: u64) -> Vec<Step> {
        let Some(attempt) = self.attempt.take() else {
            return Vec::new();
        };
        let shares: BTreeMap<u16, Bytes> = attempt
            .shares
            .iter()
            .map(|(m, s)| (*m, s.record().share.clone()))
            .collect();
        let mut steps = Vec::new();
        match group::aggregate(&attempt.signing, &shares, &self.keys) {
            Ok(signature) => {
                let envelope = decision::envelope(&self.terms, &attempt.decision, signature);
                // What the library calls valid must be valid under the one strict rule too.
                if let Some(envelope) = envelope
                    && envelope.open::<AgentQuorumDecisionV1>().is_ok()
                {
                    self.over = true;
                    return vec![Step::Authorize(Box::new(
                        self.authorization(&attempt.package, envelope),
                    ))];
                }
            }
            Err(AggregateFault::Culprits(culprits)) => {
                for member in culprits {
                    self.excluded.insert(member);
                    steps.extend(self.blame(&attempt, member));
                }
            }
            Err(AggregateFault::Nobody) => {}
        }
        steps.extend(self.try_sign(now));
        steps
    }

    fn authorization(&self, package: &SigningPackageV1, decision: Envelope) -> Authorization {
        Authorization {
            intent_digest: package.intent_digest,
            green: package.green.clone(),
            votes: package.votes.clone(),
            sheet: package.sheet.clone(),
            decision,
        }
    }

    fn blame(&self, attempt: &Attempt, member: u16) -> Option<Step> {
        let verifier = self.terms.by_identifier(member)?;
        let share = attempt.shares.get(&member)?;
        Some(Step::Blame(Box::new(Blame {
            verifier_id: verifier.verifier_id.clone(),
            package: attempt.package.clone(),
            share: share.envelope().clone(),
        })))
    }

    /// The votes were enough and the signature did not come.
    fn why_unsigned(&self) -> Abstention {
        if self.reasons.contains(&Refusal::StaleRoster) {
            Abstention::StaleRoster
        } else if self.reasons.contains(&Refusal::SentinelRequired) {
            Abstention::SentinelRequired
        } else if self.few_domains_left() {
            Abstention::InsufficientIndependence
        } else {
            Abstention::InsufficientQuorum
        }
    }

    /// Three approvers are left, and they stand too close together.
    fn few_domains_left(&self) -> bool {
        let Some(counted) = &self.counted else {
            return false;
        };
        Subset::ALL.into_iter().any(|s| {
            let left = s.members().iter().all(|m| !self.excluded.contains(m));
            let approved = s.members().iter().all(|m| {
                self.terms.by_identifier(*m).is_some_and(|v| {
                    counted.iter().any(|c| {
                        c.verifier_id == v.verifier_id
                            && c.verdict == redlatch_types::records::VoteVerdict::Approve
                    })
                })
            });
            left && approved && !tally::may_sign(&self.terms, counted, s)
        })
    }
}
