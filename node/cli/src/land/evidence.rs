//! The gate receipts that a landing rests on, looked at before anything is sent (FAULTS 85).

use std::path::{Path, PathBuf};

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file;
use redlatch_types::records::{ActorKind, ClientIdentityV1, GateReceiptV1, LandPayload};
use redlatch_types::{Canonical, Digest, Envelope, OrganismId};

use crate::gate::config::enrolled;
use crate::gate::core::update::EVIDENCE;

/// A receipt that holds for the commit.
pub(super) struct Evidence {
    /// Its file.
    pub(super) file: PathBuf,
    /// By which the intent names it: SHA-256 of the file.
    pub(super) digest: Digest,
}

impl Evidence {
    /// Where verifiers find it.
    pub(super) fn reference(&self) -> String {
        format!("{EVIDENCE}{}", self.digest)
    }
}

/// Reads and checks every file, by the subjects that nodes tell. Verifiers judge them again by the runners that
/// each of them is configured for; this spares a landing that they would refuse.
pub(super) fn read(
    files: &[PathBuf],
    land: &LandPayload,
    organism: OrganismId,
    subjects: &[ClientIdentityV1],
) -> Result<Vec<Evidence>, Failure> {
    let files = files.iter();
    files
        .map(|path| one(path, land, organism, subjects))
        .collect()
}

fn one(
    path: &Path,
    land: &LandPayload,
    organism: OrganismId,
    subjects: &[ClientIdentityV1],
) -> Result<Evidence, Failure> {
    let refuse = |what: String| {
        Failure::new(
            ExitCode::Refused,
            format!("evidence {}: {what}", path.display()),
        )
        .hint("make it again with redlatch gate attest on exactly this commit")
    };
    let bytes = file::read_file(path)?;
    let envelope = Envelope::from_canonical(&bytes)
        .map_err(|_| refuse("it is no signed record; unsigned reports are no evidence".into()))?;
    let signed = envelope
        .open::<GateReceiptV1>()
        .map_err(|error| refuse(format!("it is unsigned or altered: {error}")))?;
    if signed.scope().organism_id != organism {
        return Err(refuse("it was signed for another organism".into()));
    }
    let runner = enrolled(
        subjects,
        signed.key(),
        &[ActorKind::Runner],
        &land.resource.repository,
    );
    if runner.is_none() {
        return Err(refuse(
            "its signer is no runner enrolled for this repository".into(),
        ));
    }
    signed
        .record()
        .check(&land.candidate_digest())
        .map_err(|error| refuse(error.to_string()))?;
    Ok(Evidence {
        file: path.to_owned(),
        digest: envelope.evidence_digest(),
    })
}
