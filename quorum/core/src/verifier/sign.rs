//! Signing: by its own check, from its own stored vote, over its own message (FAULTS 35).
//!
//! A package that names a live nonce either gets that nonce's one share or burns it. Nothing
//! in this file looks at a message from the wire, because no package has one.

use redlatch_types::records::{SentinelVerdictV1, VoteV1, VoteVerdict};
use redlatch_types::{Canonical, Digest, Envelope, Signed};

use super::{Answer, Refused, Session, Verifier, persist};
use crate::decision;
use crate::group;
use crate::messages::{
    NonceCommitmentV1, SignatureShareV1, SigningCommitmentsV1, SigningPackageV1,
};
use crate::nonce::Nonce;
use crate::records::{BallotRecordV1, ReleasedV1, VerifierEffect};
use crate::tally::{self, THRESHOLD, TallyFault};

impl Verifier {
    /// Answers a signing package. A byte-identical repeat gets the stored share; anything else
    /// for a spent or dead nonce is [`Refused::AlreadySpent`].
    ///
    /// # Errors
    /// [`Refused`]; no share was made. If the package named a live nonce, that nonce is gone.
    pub fn sign(
        &mut self,
        package: &SigningPackageV1,
        stored: Option<&BallotRecordV1>,
    ) -> Result<Vec<VerifierEffect>, Refused> {
        let digest = package.intent_digest;
        if !self.recall(&digest, stored)? {
            return Err(Refused::UnknownIntent);
        }
        let Some(mut session) = self.sessions.remove(&digest) else {
            return Err(Refused::UnknownIntent);
        };
        let answer = self.sign_once(&mut session, package);
        self.sessions.insert(digest, session);
        answer
    }

    fn sign_once(
        &self,
        session: &mut Session,
        package: &SigningPackageV1,
    ) -> Result<Vec<VerifierEffect>, Refused> {
        let package_digest = package.digest();
        let released = &session.record.released;
        if let Some(again) = released.iter().find(|r| r.package_digest == package_digest) {
            return Ok(vec![VerifierEffect::Send(Answer::Share(
                again.share.clone(),
            ))]);
        }
        if !self.vote_is_current(&session.vote) {
            return Err(Refused::StaleRoster);
        }
        // From here on the nonce is out of the session: it signs this package or nothing.
        let nonce = take_nonce(session, package)?;
        let commitments = self.check_commitments(package)?;
        let message = self.check_and_rebuild(session, package)?;
        let share = self.current_share().ok_or(Refused::StaleRoster)?;
        let lines: Vec<(u16, &NonceCommitmentV1)> =
            commitments.iter().map(|(i, c)| (*i, c)).collect();
        let signing = group::signing_package(&lines, &message).map_err(|_| Refused::BadPackage)?;
        let scalar = nonce
            .sign(share, &signing)
            .map_err(|_| Refused::BadPackage)?;
        let record = SignatureShareV1 {
            intent_digest: package.intent_digest,
            verifier_id: self.seat.verifier_id.clone(),
            package_digest,
            share: scalar,
        };
        let envelope = Envelope::seal(self.terms.scope(), &self.seat.key, &record);
        session.record.released.push(ReleasedV1 {
            package_digest,
            share: envelope.clone(),
        });
        Ok(vec![
            persist(&session.record),
            VerifierEffect::Send(Answer::Share(envelope)),
        ])
    }

    /// The three commitments, each signed by its member, for this intent, key and subset.
    fn check_commitments(
        &self,
        package: &SigningPackageV1,
    ) -> Result<Vec<(u16, NonceCommitmentV1)>, Refused> {
        let members = package.subset.members();
        let fits = members.len() == usize::from(THRESHOLD)
            && package.commitments.len() == members.len()
            && members.contains(&self.seat.identifier);
        if !fits {
            return Err(Refused::BadPackage);
        }
        let mut lines = Vec::new();
        for (member, envelope) in members.into_iter().zip(&package.commitments) {
            lines.push((member, self.check_commitment(package, member, envelope)?));
        }
        Ok(lines)
    }

    fn check_commitment(
        &self,
        package: &SigningPackageV1,
        member: u16,
        envelope: &Envelope,
    ) -> Result<NonceCommitmentV1, Refused> {
        let signed = envelope
            .open::<SigningCommitmentsV1>()
            .map_err(|_| Refused::BadSignature)?;
        let verifier = self
            .terms
            .by_identifier(member)
            .ok_or(Refused::BadPackage)?;
        let record = signed.record();
        if *signed.key() != verifier.vote_key
            || *signed.scope() != self.terms.scope()
            || record.verifier_id != verifier.verifier_id
        {
            return Err(Refused::BadSignature);
        }
        let key_epoch = self.terms.quorum_key().map(|k| k.epoch);
        if Some(record.quorum_key_epoch) != key_epoch {
            return Err(Refused::StaleRoster);
        }
        let sealed = package.sheet.seal_of(&record.verifier_id) == Some(&record.vote_digest);
        if record.intent_digest != package.intent_digest || !sealed {
            return Err(Refused::BadPackage);
        }
        record
            .for_subset(package.subset)
            .cloned()
            .ok_or(Refused::BadPackage)
    }

    /// D12: everything that must hold before a share exists, and the message that follows.
    fn check_and_rebuild(
        &self,
        session: &Session,
        package: &SigningPackageV1,
    ) -> Result<Vec<u8>, Refused> {
        if session.vote.verdict != VoteVerdict::Approve {
            return Err(Refused::NotApproved);
        }
        self.check_in_force(&session.intent)?;
        if session.record.opened_sheet.as_ref() != Some(&package.sheet) {
            return Err(Refused::BadSheet);
        }
        let subject = session.subject();
        let votes = open_votes(&package.votes)?;
        let counted = tally::count(
            &self.terms,
            subject.intent,
            subject.digest,
            &package.sheet,
            &votes,
        )?;
        // Its own vote is the stored one: the sheet names its digest, and it opened that sheet.
        tally::check_floors(self.terms.floors(), &counted)?;
        if !tally::may_sign(&self.terms, &counted, package.subset) {
            return Err(TallyFault::InsufficientIndependence.into());
        }
        let green = package
            .green
            .open::<SentinelVerdictV1>()
            .map_err(|_| Refused::SentinelRequired)?;
        decision::check_green(&self.terms, subject, self.state_time, &green)
            .map_err(|_| Refused::SentinelRequired)?;
        let decision = decision::rebuild(&self.terms, subject, &green, &package.sheet, counted)
            .ok_or(Refused::StaleRoster)?;
        Ok(decision::message(&self.terms, &decision))
    }
}

/// Opens the signatures of votes, which must stand in ascending order of voter.
pub(crate) fn open_votes(votes: &[Envelope]) -> Result<Vec<Signed<VoteV1>>, Refused> {
    let mut opened: Vec<Signed<VoteV1>> = Vec::new();
    for envelope in votes {
        let vote = envelope.open().map_err(|_| Refused::BadSignature)?;
        opened.push(vote);
    }
    opened
        .windows(2)
        .all(|w| w[0].record().verifier_id < w[1].record().verifier_id)
        .then_some(opened)
        .ok_or(Refused::BadPackage)
}

/// Takes the nonce that the package names, if it is alive in this boot.
fn take_nonce(session: &mut Session, package: &SigningPackageV1) -> Result<Nonce, Refused> {
    let issue = session.record.issues.last().ok_or(Refused::AlreadySpent)?;
    let named: Vec<Digest> = package
        .commitments
        .iter()
        .map(|e| Digest::of(&e.to_canonical()))
        .collect();
    if !named.contains(&Digest::of(&issue.commitments.to_canonical())) {
        return Err(Refused::AlreadySpent);
    }
    session
        .live
        .remove(&package.subset)
        .ok_or(Refused::AlreadySpent)
}
