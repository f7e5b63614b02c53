//! Findings: what a verifier's evaluators saw, behind the `findings_digest` of its vote.
//!
//! The vote commits to the digest; the findings themselves are asked for afterwards. They are
//! for people: nothing decides by their words.

use minicbor::{Decode, Encode};

use super::ballot::VoteVerdict;
use super::base::Text;
use crate::bytes::Digest;
use crate::codec::Canonical;
use crate::ids::{IntentDigest, KeyEpoch, Name, VerifierId};

/// What one evaluator came to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct FindingV1 {
    /// Name of the evaluator.
    #[n(0)]
    pub evaluator: Name,
    /// Its verdict; one REJECT rejects.
    #[n(1)]
    pub verdict: VoteVerdict,
    /// Sentences for people: what it looked at, and every reason to reject.
    #[n(2)]
    pub sentences: Vec<Text>,
}

/// What all evaluators of one verifier came to on one intent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct FindingsV1 {
    /// The intent.
    #[n(0)]
    pub intent_digest: IntentDigest,
    /// Whose findings.
    #[n(1)]
    pub verifier_id: VerifierId,
    /// One per evaluator, in the order they ran.
    #[n(2)]
    pub findings: Vec<FindingV1>,
}

impl FindingsV1 {
    /// `findings_digest` of the vote.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }

    /// APPROVE only if there is an evaluator and none rejects: absence approves nothing.
    pub fn verdict(&self) -> VoteVerdict {
        let approve = |finding: &FindingV1| finding.verdict == VoteVerdict::Approve;
        if !self.findings.is_empty() && self.findings.iter().all(approve) {
            VoteVerdict::Approve
        } else {
            VoteVerdict::Reject
        }
    }
}

/// A verifier tells its fellows which boot it is at, so that they remember what its own disk
/// may forget (FAULTS 34). Signed with the vote key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct BootClaimV1 {
    /// Who.
    #[n(0)]
    pub verifier_id: VerifierId,
    /// Number of this boot.
    #[n(1)]
    pub generation: u64,
    /// Draws this boot apart from another with the same number.
    #[n(2)]
    pub boot: Digest,
    /// Highest epoch of a key whose share it holds; 0 for none.
    #[n(3)]
    pub key_epoch: KeyEpoch,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(verdicts: &[VoteVerdict]) -> FindingsV1 {
        FindingsV1 {
            intent_digest: IntentDigest(Digest::of(b"intent")),
            verifier_id: "va".parse().unwrap(),
            findings: verdicts
                .iter()
                .map(|verdict| FindingV1 {
                    evaluator: "git".parse().unwrap(),
                    verdict: *verdict,
                    sentences: vec![Text::lossy("looked")],
                })
                .collect(),
        }
    }

    #[test]
    fn no_evaluator_and_one_rejecting_evaluator_reject() {
        use VoteVerdict::{Approve, Reject};
        assert_eq!(findings(&[]).verdict(), Reject);
        assert_eq!(findings(&[Approve, Approve]).verdict(), Approve);
        assert_eq!(findings(&[Approve, Reject]).verdict(), Reject);
        let read = FindingsV1::from_canonical(&findings(&[Approve]).to_canonical());
        assert_eq!(read.unwrap().digest(), findings(&[Approve]).digest());
    }
}
