//! Counting: whose vote counts, how many approve, from how many domains (D12, M1-I12, M1-L1).
//!
//! Pure functions over values. They count distinct enrolled keys, never labels (FAULTS 43),
//! and know nothing of signatures in progress.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};
use redlatch_types::records::{
    CountedVote, IndependenceSpecV1, SafetyKernelV1, SealSheetV1, SovereignActionIntentV1, VoteV1,
    VoteVerdict,
};
use redlatch_types::{IntentDigest, Signed, SubjectId, VerifierId};

use crate::terms::Terms;

/// Participants of the quorum's key.
pub const MEMBERS: u16 = 4;
/// Members who sign together. Neither number is ever taken from a request (FAULTS 40).
pub const THRESHOLD: u16 = 3;
/// Fewest lines of a seal sheet.
pub const SHEET_LINES_MIN: usize = 3;

/// How many must approve, from how many domains: the constitution's terms, never below the
/// kernel's floors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floors {
    /// Approvals needed.
    pub threshold: u64,
    /// Failure domains needed among the approvals.
    pub domains: u64,
}

impl Floors {
    /// The stricter of kernel and constitution.
    pub fn of(kernel: &SafetyKernelV1, spec: &IndependenceSpecV1) -> Floors {
        Floors {
            threshold: spec.quorum_threshold.max(kernel.minimum_quorum_threshold),
            domains: spec
                .minimum_failure_domains
                .max(kernel.minimum_failure_domains),
        }
    }
}

/// Three of the four members, named by the one that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Subset(#[n(0)] u16);

impl Subset {
    /// All four, in the order of the member left out.
    pub const ALL: [Subset; 4] = [Subset(1), Subset(2), Subset(3), Subset(4)];

    /// Everybody but `identifier`; `None` if nobody has that identifier.
    pub fn without(identifier: u16) -> Option<Subset> {
        Subset::ALL.into_iter().find(|s| s.0 == identifier)
    }

    /// The identifiers, ascending. A subset that left nobody out would have four; decoding can
    /// make one, and every use compares with three members.
    pub fn members(self) -> Vec<u16> {
        (1..=MEMBERS).filter(|i| *i != self.0).collect()
    }

    /// Whether `identifier` is one of the three.
    pub fn contains(self, identifier: u16) -> bool {
        self.members().contains(&identifier)
    }

    /// The three subsets that `identifier` belongs to.
    pub fn of_member(identifier: u16) -> impl Iterator<Item = Subset> {
        Subset::ALL
            .into_iter()
            .filter(move |s| s.contains(identifier))
    }
}

/// Why votes do not make a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TallyFault {
    /// The sheet is not a sorted set of at least three verifiers, or names another intent.
    #[error("the seal sheet is not a sorted set of at least three seals for this intent")]
    BadSheet,
    /// A vote is not by the key enrolled for its voter, or for another organism.
    #[error("a vote is not by the key enrolled for its voter")]
    Unauthorized,
    /// A vote is about another intent, not on the sheet, or counted twice.
    #[error("a vote is not one of the sheet's, or stands twice")]
    NotOfTheSheet,
    /// A vote of the sheet is missing.
    #[error("a vote of the sheet is missing")]
    Missing,
    /// A vote names another roster or quorum key than those in force.
    #[error("a vote names another roster or quorum key")]
    StaleRoster,
    /// The voter has a role in the intent.
    #[error("a voter has a role in the intent")]
    SelfAuthorization,
    /// Fewer approvals than needed.
    #[error("too few approve")]
    InsufficientQuorum,
    /// Approvals from fewer domains than needed.
    #[error("the approvals stand in too few failure domains")]
    InsufficientIndependence,
}

/// Whether this verifier may not vote on the intent, because it has a role in it (M1-I12).
pub fn is_excluded(intent: &SovereignActionIntentV1, verifier: &VerifierId) -> bool {
    intent.involves(&SubjectId(verifier.0.clone()))
}

/// Checks a sheet by itself: right intent, sorted set, at least three enrolled voters, no seal
/// twice (a copied seal is somebody else's vote, FAULTS 31).
///
/// # Errors
/// [`TallyFault::BadSheet`].
pub fn check_sheet(
    terms: &Terms,
    intent: IntentDigest,
    sheet: &SealSheetV1,
) -> Result<(), TallyFault> {
    let seals: BTreeSet<_> = sheet.seals.iter().map(|l| &l.seal).collect();
    let sound = sheet.intent_digest == intent
        && sheet.is_sorted_set()
        && sheet.seals.len() >= SHEET_LINES_MIN
        && seals.len() == sheet.seals.len()
        && sheet
            .seals
            .iter()
            .all(|l| terms.roster().verifier(&l.verifier_id).is_some());
    sound.then_some(()).ok_or(TallyFault::BadSheet)
}

/// The votes of the sheet, each by the key enrolled for its voter, each by another voter, all
/// of them. Ascending by voter.
///
/// # Errors
/// [`TallyFault`] names what does not hold; nothing is counted then.
pub fn count(
    terms: &Terms,
    intent: &SovereignActionIntentV1,
    digest: IntentDigest,
    sheet: &SealSheetV1,
    votes: &[Signed<VoteV1>],
) -> Result<Vec<CountedVote>, TallyFault> {
    check_sheet(terms, digest, sheet)?;
    let mut counted: Vec<CountedVote> = Vec::new();
    let mut keys = BTreeSet::new();
    for vote in votes {
        let line = count_one(terms, intent, digest, sheet, vote)?;
        if !keys.insert(*vote.key()) {
            return Err(TallyFault::NotOfTheSheet);
        }
        counted.push(line);
    }
    if counted.len() != sheet.seals.len() {
        return Err(TallyFault::Missing);
    }
    counted.sort();
    Ok(counted)
}

fn count_one(
    terms: &Terms,
    intent: &SovereignActionIntentV1,
    digest: IntentDigest,
    sheet: &SealSheetV1,
    vote: &Signed<VoteV1>,
) -> Result<CountedVote, TallyFault> {
    let record = vote.record();
    let verifier = terms
        .roster()
        .verifier_by_vote_key(vote.key())
        .filter(|v| v.verifier_id == record.verifier_id && *vote.scope() == terms.scope())
        .ok_or(TallyFault::Unauthorized)?;
    let sealed = sheet.seal_of(&record.verifier_id) == Some(&vote.digest());
    if record.intent_digest != digest || !sealed {
        return Err(TallyFault::NotOfTheSheet);
    }
    let key_epoch = terms.quorum_key().map(|k| k.epoch);
    if record.roster_epoch != terms.roster().roster_epoch
        || Some(record.quorum_key_epoch) != key_epoch
    {
        return Err(TallyFault::StaleRoster);
    }
    if is_excluded(intent, &record.verifier_id) {
        return Err(TallyFault::SelfAuthorization);
    }
    Ok(CountedVote {
        verifier_id: verifier.verifier_id.clone(),
        verdict: record.verdict,
        findings_digest: record.findings_digest,
        failure_domain: verifier.failure_domain.clone(),
        vote_digest: vote.digest(),
    })
}

/// Whether the counted votes meet the floors.
///
/// # Errors
/// [`TallyFault::InsufficientQuorum`] or [`TallyFault::InsufficientIndependence`].
pub fn check_floors(floors: Floors, counted: &[CountedVote]) -> Result<(), TallyFault> {
    let approvals: BTreeSet<_> = approving(counted).map(|v| &v.verifier_id).collect();
    if (approvals.len() as u64) < floors.threshold {
        return Err(TallyFault::InsufficientQuorum);
    }
    let domains: BTreeSet<_> = approving(counted).map(|v| &v.failure_domain).collect();
    if (domains.len() as u64) < floors.domains {
        return Err(TallyFault::InsufficientIndependence);
    }
    Ok(())
}

fn approving(counted: &[CountedVote]) -> impl Iterator<Item = &CountedVote> {
    counted.iter().filter(|v| v.verdict == VoteVerdict::Approve)
}

/// The subsets that may sign: three approvers from three domains (fewer only if the floors ask
/// for fewer), ascending. The floors over all counted votes are [`check_floors`]'s matter.
pub fn signing_subsets(terms: &Terms, counted: &[CountedVote]) -> Vec<Subset> {
    Subset::ALL
        .into_iter()
        .filter(|s| may_sign(terms, counted, *s))
        .collect()
}

/// Whether the three members of `subset` all approved and are far enough apart.
pub fn may_sign(terms: &Terms, counted: &[CountedVote], subset: Subset) -> bool {
    let approvals: Vec<&CountedVote> = subset
        .members()
        .into_iter()
        .filter_map(|i| terms.by_identifier(i))
        .filter_map(|v| approving(counted).find(|c| c.verifier_id == v.verifier_id))
        .collect();
    let domains: BTreeSet<_> = approvals.iter().map(|v| &v.failure_domain).collect();
    let apart = (domains.len() as u64) >= terms.floors().domains.min(u64::from(THRESHOLD));
    approvals.len() == usize::from(THRESHOLD) && apart
}

#[cfg(test)]
mod tests;
