//! Why a verifier does not start or does not go on, each with its own text, exit code and advice.

use std::path::PathBuf;

use redlatch_ballot::terms::BadTerms;
use redlatch_ballot::verifier::StartFault;
use redlatch_link::exit::{ExitCode, Fails};
use redlatch_link::file::FileError;
use redlatch_link::keys::KeyError;
use redlatch_link::passphrase::PassphraseError;
use redlatch_link::store::StoreError;
use redlatch_link::transport::TransportError;
use redlatch_types::OrganismId;

use crate::alarm::FatalCause;
use crate::store::KeptError;
use crate::vault::VaultError;

/// Why a verifier does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartFailure {
    /// A setting is missing or cannot be used.
    #[error("`{key}`: {what}")]
    Setting {
        /// The dotted key.
        key: &'static str,
        /// What is wrong.
        what: String,
    },
    /// A file cannot be read.
    #[error("{what}: {source}")]
    File {
        /// What it should hold.
        what: &'static str,
        /// Why it cannot be read.
        source: FileError,
    },
    /// The signing key cannot be read.
    #[error("key {key}: {source}")]
    Key {
        /// The dotted key.
        key: &'static str,
        /// Why.
        source: KeyError,
    },
    /// The passphrase of the key shares cannot be read.
    #[error("passphrase {key}: {source}")]
    Passphrase {
        /// The dotted key.
        key: &'static str,
        /// Why.
        source: PassphraseError,
    },
    /// The genesis file is no signed genesis.
    #[error("{} is not a genesis signed by the root it names", path.display())]
    NotAGenesis {
        /// The file.
        path: PathBuf,
    },
    /// The roster in the genesis cannot vote.
    #[error("the genesis: {0}")]
    Terms(#[from] BadTerms),
    /// Certificate and genesis are of two organisms.
    #[error("the genesis starts organism {genesis}, the certificate belongs to {certificate}")]
    WrongOrganism {
        /// The genesis'.
        genesis: OrganismId,
        /// The certificate's.
        certificate: OrganismId,
    },
    /// The trust policy is for another journal.
    #[error("the trust policy is for another organism than the genesis")]
    OtherPolicy,
    /// The certificate is not a verifier's of the roster.
    #[error("the certificate names {0}, which is no verifier of the roster")]
    NotAVerifier(String),
    /// The vote key is not the roster's.
    #[error("the vote key is not the one in the roster")]
    WrongKey,
    /// Connections cannot be made or taken.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The store cannot be used.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// The store must not be voted from (FAULTS 34).
    #[error("this verifier must not vote from its store: {0}")]
    Start(#[from] StartFault),
    /// The verifier had to stop.
    #[error("this verifier had to stop: {0}")]
    Fatal(FatalCause),
}

impl StartFailure {
    /// A setting that cannot be used.
    pub(crate) fn setting(key: &'static str, what: impl Into<String>) -> StartFailure {
        StartFailure::Setting {
            key,
            what: what.into(),
        }
    }
}

impl From<StoreError> for StartFailure {
    fn from(error: StoreError) -> StartFailure {
        StartFailure::Kept(KeptError::Store(error))
    }
}

impl Fails for StartFailure {
    fn code(&self) -> ExitCode {
        use StartFailure as F;
        match self {
            F::Setting { .. } | F::NotAGenesis { .. } | F::Terms(_) => ExitCode::Usage,
            F::File { source, .. } => source.code(),
            F::Key { source, .. } => source.code(),
            F::Passphrase { source, .. } => source.code(),
            F::WrongOrganism { .. } | F::OtherPolicy | F::NotAVerifier(_) | F::WrongKey => {
                ExitCode::Refused
            }
            F::Transport(error) => error.code(),
            F::Kept(KeptError::Store(error)) => error.code(),
            F::Kept(KeptError::Vault(VaultError::WrongPassphrase)) => ExitCode::Refused,
            F::Kept(_) => ExitCode::Error,
            F::Start(_) | F::Fatal(FatalCause::RolledBack { .. }) => ExitCode::Refused,
            F::Fatal(_) => ExitCode::Error,
        }
    }

    fn hint(&self) -> Option<String> {
        use StartFailure as F;
        let hint = match self {
            F::File { source, .. } => return source.hint(),
            F::Key { source, .. } => return source.hint(),
            F::Passphrase { source, .. } => return source.hint(),
            F::Transport(error) => return error.hint(),
            F::Kept(KeptError::Store(error)) => return error.hint(),
            F::WrongOrganism { .. } | F::OtherPolicy => {
                "genesis, policy and certificate must be those of one organism"
            }
            F::NotAVerifier(_) => "give it the certificate of a verifier that the genesis names",
            F::WrongKey => "keys.vote must be the key that the genesis names for this verifier",
            F::Start(_) | F::Fatal(FatalCause::RolledBack { .. }) => {
                "do not delete anything: a verifier without its memory is replaced, never reset"
            }
            F::Kept(KeptError::Vault(VaultError::WrongPassphrase)) => {
                "give it the passphrase under which its store was made; nothing has changed"
            }
            F::Kept(_) => "restore nothing from a backup; the verifier is replaced by a new one",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
