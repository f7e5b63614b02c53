//! Evaluator `evidence`: a signed gate receipt for exactly this commit, by a runner this verifier knows.
//!
//! The intent lists digests; the files are fetched by digest beside the candidate. At least one receipt of
//! each required number must be by a configured runner and passed; one that says *failed* by such a runner,
//! or evidence that is missing or has other bytes, rejects. What other keys signed counts for nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use redlatch_ballot::FrozenIntent;
use redlatch_types::records::GateReceiptV1;
use redlatch_types::{Canonical, Digest, Envelope, Name, OrganismId, PublicKey, Scope};

use super::git::{ObjectId, Quarantine};
use super::{Evaluator, Report};

/// Most evidence files of one intent that are fetched.
const FILES_MAX: usize = 16;

/// The evaluator.
pub struct EvidenceEvaluator {
    quarantine: Arc<Quarantine>,
    organism: OrganismId,
    runners: BTreeSet<PublicKey>,
    receipts_min: usize,
}

impl EvidenceEvaluator {
    /// Wants at least `receipts_min` passed receipts by keys of `runners`; at least one in any case.
    pub fn new(
        quarantine: Arc<Quarantine>,
        organism: OrganismId,
        runners: BTreeSet<PublicKey>,
        receipts_min: usize,
    ) -> EvidenceEvaluator {
        EvidenceEvaluator {
            quarantine,
            organism,
            runners,
            receipts_min: receipts_min.max(1),
        }
    }

    async fn judge(&self, intent: &FrozenIntent) -> Result<Report, String> {
        let Some(land) = intent.intent().payload.land() else {
            return Ok(Report::against("this evaluator judges landings only"));
        };
        let digests = &intent.intent().evidence;
        if digests.len() > FILES_MAX {
            return Ok(Report::against(format!(
                "more than {FILES_MAX} evidence files"
            )));
        }
        let id = ObjectId::new(&land.new.0).ok_or("the candidate is not a full object id")?;
        let candidate = land.candidate_digest();
        // Under the epoch in which the intent was frozen: what was signed before an act of the root is void.
        let scope = Scope {
            organism_id: self.organism,
            organism_epoch: intent.intent().expected_store_epoch,
        };
        let (mut report, mut passed) = (Report::default(), 0);
        for digest in digests {
            match self.quarantine.evidence(id.format(), digest).await {
                Ok(bytes) => match self.look(&bytes, scope, &candidate) {
                    Ok(Look::Passed(said)) => {
                        passed += 1;
                        report.seen.push(said);
                    }
                    Ok(Look::Nobody(said)) => report.seen.push(said),
                    Err(reason) => report.against.push(format!("evidence {digest}: {reason}")),
                },
                Err(reason) => report.against.push(reason),
            }
        }
        if passed < self.receipts_min {
            report.against.push(format!(
                "{passed} passed gate receipts by configured runners; {} are needed",
                self.receipts_min
            ));
        }
        Ok(report)
    }

    fn look(&self, bytes: &[u8], scope: Scope, candidate: &Digest) -> Result<Look, String> {
        let envelope = Envelope::from_canonical(bytes).map_err(|_| "it is no signed record")?;
        let signed = envelope
            .open::<GateReceiptV1>()
            .map_err(|error| error.to_string())?;
        if *signed.scope() != scope {
            return Err("it was signed for another organism or epoch".to_owned());
        }
        let receipt = signed.record();
        if !self.runners.contains(signed.key()) {
            let key = signed.key();
            return Ok(Look::Nobody(format!(
                "a receipt by {key} counts for nothing here"
            )));
        }
        receipt
            .check(candidate)
            .map_err(|error| error.to_string())?;
        Ok(Look::Passed(format!(
            "gate {} passed by runner {}: {}",
            receipt.gate_id,
            signed.key(),
            receipt.command
        )))
    }
}

/// What a receipt that holds is worth.
enum Look {
    /// By a configured runner, passed.
    Passed(String),
    /// By somebody else.
    Nobody(String),
}

impl Evaluator for EvidenceEvaluator {
    fn name(&self) -> Name {
        Name::new("evidence").expect("a name")
    }

    fn evaluate<'a>(&'a self, intent: &'a FrozenIntent) -> BoxFuture<'a, Result<Report, String>> {
        Box::pin(self.judge(intent))
    }
}
