//! The challenge that a person signs: one decision on one intent, as it was shown.

use redlatch_types::{Digest, IntentDigest, Scope, SubjectId};

/// Never used for anything else.
const DOMAIN: &[u8] = b"redlatch/v1/human-challenge\0";

/// Binds an approval to everything it is about (FAULTS 64, 68, 69): the organism and its epoch,
/// the nonce that makes it single, the frozen intent, the exact bytes the person was shown, and
/// who may answer.
///
/// All parts but the last have a fixed length and the last one its length before it, so no two
/// lists of parts have the same bytes.
pub fn challenge(
    scope: &Scope,
    nonce: &Digest,
    intent: &IntentDigest,
    summary: &Digest,
    approver: &SubjectId,
) -> Digest {
    let approver = approver.as_str().as_bytes();
    Digest::of_parts(&[
        DOMAIN,
        scope.organism_id.0.as_bytes(),
        &scope.organism_epoch.to_be_bytes(),
        nonce.as_bytes(),
        intent.0.as_bytes(),
        summary.as_bytes(),
        &(approver.len() as u64).to_be_bytes(),
        approver,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use redlatch_types::OrganismId;

    /// The arguments, so that a test can change one.
    #[derive(Clone)]
    struct Parts {
        scope: Scope,
        nonce: Digest,
        intent: IntentDigest,
        summary: Digest,
        approver: SubjectId,
    }

    impl Parts {
        fn challenge(&self) -> Digest {
            challenge(
                &self.scope,
                &self.nonce,
                &self.intent,
                &self.summary,
                &self.approver,
            )
        }
    }

    fn parts() -> Parts {
        Parts {
            scope: Scope {
                organism_id: OrganismId(Digest([0x11; 32])),
                organism_epoch: 7,
            },
            nonce: Digest([0x22; 32]),
            intent: IntentDigest(Digest([0x33; 32])),
            summary: Digest([0x44; 32]),
            approver: "ana".parse().unwrap(),
        }
    }

    /// Computed apart from this code: Python's hashlib over the bytes written down in ADR 0009.
    #[test]
    fn frozen_challenges() {
        let first = parts();
        let mut second = parts();
        second.scope.organism_epoch = u64::MAX;
        second.approver = format!("b{}", "o".repeat(63)).parse().unwrap();
        assert_eq!(
            first.challenge().to_string(),
            "aa5254083ab9c9b967d4085e1fc1c7c35ef176b0e6f83f00e80d30922d64f779"
        );
        assert_eq!(
            second.challenge().to_string(),
            "2aaec79f5aa28fe144e2ff98302ecf552c101e3bd527483da73ef156087f5426"
        );
    }

    #[test]
    fn fault_069_every_part_is_bound() {
        let changes: [fn(&mut Parts); 6] = [
            |p| p.scope.organism_id.0.0[31] ^= 1,
            |p| p.scope.organism_epoch += 1,
            |p| p.nonce.0[0] ^= 1,
            |p| p.intent.0.0[0] ^= 1,
            |p| p.summary.0[31] ^= 1,
            |p| p.approver = "bo".parse().unwrap(),
        ];
        let mut seen = std::collections::BTreeSet::from([parts().challenge()]);
        for change in changes {
            let mut changed = parts();
            change(&mut changed);
            assert!(seen.insert(changed.challenge()));
        }
        let mut swapped = parts();
        std::mem::swap(&mut swapped.nonce, &mut swapped.summary);
        assert!(seen.insert(swapped.challenge()));
    }
}
