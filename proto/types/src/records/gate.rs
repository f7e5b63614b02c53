//! Gates: what a runner attests about a candidate (SPEC C.40), and who brings one.

use std::fmt;

use minicbor::{Decode, Encode};

use super::base::{Text, words};
use crate::bytes::{Bytes, Digest};
use crate::ids::Name;

words! {
    /// What a gate's command came to.
    GateVerdict {
        /// It ran to its end, something was checked, and it succeeded.
        1 Passed "passed",
        /// It failed, was stopped, or did not start.
        2 Failed "failed",
        /// It succeeded and shows nothing that it checked: a failure (FAULTS 85).
        3 NothingChecked "nothing_checked",
    }
}

/// Result of one run. Times are milliseconds of the runner's clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct GateFindingsV1 {
    /// What it came to.
    #[n(0)]
    pub verdict: GateVerdict,
    /// Exit code of the command; none if a signal ended it.
    #[n(1)]
    pub exit_code_optional: Option<u64>,
    /// When it began.
    #[n(2)]
    pub started_at_clock: u64,
    /// When it ended.
    #[n(3)]
    pub ended_at_clock: u64,
    /// SHA-256 of everything it wrote.
    #[n(4)]
    pub log_digest: Digest,
    /// How many bytes that is.
    #[n(5)]
    pub log_bytes: u64,
    /// Sentences for people.
    #[n(6)]
    pub findings: Vec<Text>,
}

/// What a runner attests: this command, on exactly this candidate, came to this (SPEC C.40).
/// Signed by the runner; its `signature` is the envelope's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct GateReceiptV1 {
    /// The gate, by its name.
    #[n(0)]
    pub gate_id: Name,
    /// Version of the gate's specification.
    #[n(1)]
    pub spec_version: Text,
    /// Harness and fixtures; here the runner's own build.
    #[n(2)]
    pub harness_fixture_digest: Digest,
    /// Digest of the environment that the command was given.
    #[n(3)]
    pub environment_digest: Digest,
    /// The command.
    #[n(4)]
    pub command: Text,
    /// Verdict and findings.
    #[n(5)]
    pub verdict_and_findings: GateFindingsV1,
    /// Version of the key that signs.
    #[n(6)]
    pub provider_key_version: u64,
    /// Unique.
    #[n(7)]
    pub receipt_id: Digest,
    /// Which commit of which repository: [`super::LandPayload::candidate_digest`].
    #[n(8)]
    pub release_candidate_digest: Digest,
    /// Digests of what the command made, ascending.
    #[n(9)]
    pub artifact_digests: Vec<Digest>,
    /// When the receipt was made, milliseconds of the runner's clock.
    #[n(10)]
    pub generated_at_clock: u64,
    /// Digests of evidence that it rests on, ascending.
    #[n(11)]
    pub evidence_refs: Vec<Digest>,
}

/// Why a gate receipt is no evidence for a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoEvidence {
    /// It was made for another commit or repository.
    #[error("the gate receipt is for another candidate")]
    OtherCandidate,
    /// The command failed.
    #[error("the gate receipt says that the command failed")]
    Failed,
    /// The command checked nothing, whatever the receipt calls it.
    #[error("the gate receipt shows nothing that was checked")]
    NothingChecked,
    /// Its verdict is not what its findings say.
    #[error("the gate receipt contradicts itself")]
    Contradiction,
}

impl GateReceiptV1 {
    /// Whether it is evidence that `candidate` passed. The caller has checked who signed it.
    ///
    /// # Errors
    /// [`NoEvidence`] with the first reason why it is none.
    pub fn check(&self, candidate: &Digest) -> Result<(), NoEvidence> {
        let findings = &self.verdict_and_findings;
        if self.release_candidate_digest != *candidate {
            return Err(NoEvidence::OtherCandidate);
        }
        match findings.verdict {
            GateVerdict::Failed => return Err(NoEvidence::Failed),
            GateVerdict::NothingChecked => return Err(NoEvidence::NothingChecked),
            GateVerdict::Passed => {}
        }
        if findings.log_bytes == 0 || self.command.as_str().trim().is_empty() {
            return Err(NoEvidence::NothingChecked);
        }
        let consistent = findings.exit_code_optional == Some(0)
            && findings.started_at_clock <= findings.ended_at_clock
            && findings.ended_at_clock <= self.generated_at_clock;
        consistent.then_some(()).ok_or(NoEvidence::Contradiction)
    }
}

/// An enrolled client brings a candidate, or evidence about one, to a gate. Signed by the client.
/// A repeat leads to the same ref at the same object, so it needs no freshness.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(map)]
pub struct CandidatePushV1 {
    /// Repository, by the name under which gates and grants know it.
    #[n(0)]
    pub repository: Name,
    /// Full object id of the commit, or of the evidence's blob.
    #[n(1)]
    pub object: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{GitRef, LandPayload};
    use crate::{Canonical, Envelope, OrganismId, Scope, SigningKey};

    fn candidate(commit: u8) -> Digest {
        let land = LandPayload {
            resource: GitRef {
                repository: "repo".parse().unwrap(),
                reference: Text::lossy("refs/heads/main"),
            },
            old: Bytes(vec![]),
            new: Bytes(vec![commit; 20]),
        };
        land.candidate_digest()
    }

    fn receipt() -> GateReceiptV1 {
        GateReceiptV1 {
            gate_id: "unit".parse().unwrap(),
            spec_version: Text::lossy("1"),
            harness_fixture_digest: Digest::of(b"harness"),
            environment_digest: Digest::of(b"environment"),
            command: Text::lossy("make test"),
            verdict_and_findings: GateFindingsV1 {
                verdict: GateVerdict::Passed,
                exit_code_optional: Some(0),
                started_at_clock: 10,
                ended_at_clock: 20,
                log_digest: Digest::of(b"log"),
                log_bytes: 3,
                findings: vec![],
            },
            provider_key_version: 1,
            receipt_id: Digest::of(b"id"),
            release_candidate_digest: candidate(1),
            artifact_digests: vec![],
            generated_at_clock: 20,
            evidence_refs: vec![],
        }
    }

    #[test]
    fn fault_085_a_receipt_serves_its_own_candidate_and_only_if_something_was_checked() {
        assert_eq!(receipt().check(&candidate(1)), Ok(()));
        assert_eq!(
            receipt().check(&candidate(2)),
            Err(NoEvidence::OtherCandidate)
        );
        type Change = fn(&mut GateReceiptV1);
        let changes: [(Change, NoEvidence); 8] = [
            (
                |r| r.verdict_and_findings.verdict = GateVerdict::Failed,
                NoEvidence::Failed,
            ),
            (
                |r| r.verdict_and_findings.verdict = GateVerdict::NothingChecked,
                NoEvidence::NothingChecked,
            ),
            (
                |r| r.verdict_and_findings.log_bytes = 0,
                NoEvidence::NothingChecked,
            ),
            (
                |r| r.command = Text::lossy("  "),
                NoEvidence::NothingChecked,
            ),
            (
                |r| r.verdict_and_findings.exit_code_optional = Some(1),
                NoEvidence::Contradiction,
            ),
            (
                |r| r.verdict_and_findings.exit_code_optional = None,
                NoEvidence::Contradiction,
            ),
            (
                |r| r.verdict_and_findings.ended_at_clock = 9,
                NoEvidence::Contradiction,
            ),
            (|r| r.generated_at_clock = 19, NoEvidence::Contradiction),
        ];
        for (at, (change, expected)) in changes.into_iter().enumerate() {
            let mut changed = receipt();
            change(&mut changed);
            assert_eq!(changed.check(&candidate(1)), Err(expected), "change {at}");
        }
    }

    #[test]
    fn gate_records_travel_signed_and_are_not_each_other() {
        let scope = Scope {
            organism_id: OrganismId(Digest::ZERO),
            organism_epoch: 1,
        };
        let key = SigningKey::from_seed([7; 32]);
        let sealed = Envelope::seal(scope, &key, &receipt());
        let carried = Envelope::from_canonical(&sealed.to_canonical()).unwrap();
        assert_eq!(
            *carried.open::<GateReceiptV1>().unwrap().record(),
            receipt()
        );
        assert!(carried.open::<CandidatePushV1>().is_err());
        let mut altered = sealed;
        altered.body.0[3] ^= 1;
        assert!(altered.open::<GateReceiptV1>().is_err());
    }
}
