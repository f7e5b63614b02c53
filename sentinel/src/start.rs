//! Why a sentinel does not start or does not go on, each with its own text, exit code and advice.

use std::path::PathBuf;

use redlatch_link::exit::{ExitCode, Fails};
use redlatch_link::file::FileError;
use redlatch_link::keys::KeyError;
use redlatch_link::store::StoreError;
use redlatch_link::transport::TransportError;
use redlatch_types::OrganismId;
use redlatch_watch::verdict::CorruptMemory;

use crate::alarm::FatalCause;
use crate::store::KeptError;

/// Why a sentinel does not run.
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
    /// The genesis file is no signed genesis.
    #[error("{} is not a genesis signed by the root it names", path.display())]
    NotAGenesis {
        /// The file.
        path: PathBuf,
    },
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
    /// The certificate is not the roster's sentinel's.
    #[error("the certificate names {0}, which is not the sentinel of the roster")]
    NotTheSentinel(String),
    /// The key is not the roster's.
    #[error("the sentinel's key is not the one in the roster")]
    WrongKey,
    /// The store was begun under another key.
    #[error("the data folder is that of a sentinel with another key")]
    AnothersStore,
    /// Connections cannot be made or taken.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The store cannot be used.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// What was withheld is not known any more.
    #[error("this sentinel must not judge from its store: {0}")]
    Memory(#[from] CorruptMemory),
    /// The sentinel had to stop.
    #[error("this sentinel had to stop: {0}")]
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
            F::Setting { .. } | F::NotAGenesis { .. } => ExitCode::Usage,
            F::File { source, .. } => source.code(),
            F::Key { source, .. } => source.code(),
            F::WrongOrganism { .. } | F::OtherPolicy | F::NotTheSentinel(_) => ExitCode::Refused,
            F::WrongKey | F::AnothersStore => ExitCode::Refused,
            F::Transport(error) => error.code(),
            F::Kept(KeptError::Store(error)) => error.code(),
            F::Kept(_) => ExitCode::Error,
            F::Memory(_) => ExitCode::Refused,
            F::Fatal(_) => ExitCode::Error,
        }
    }

    fn hint(&self) -> Option<String> {
        use StartFailure as F;
        let hint = match self {
            F::File { source, .. } => return source.hint(),
            F::Key { source, .. } => return source.hint(),
            F::Transport(error) => return error.hint(),
            F::Kept(KeptError::Store(error)) => return error.hint(),
            F::WrongOrganism { .. } | F::OtherPolicy => {
                "genesis, policy and certificate must be those of one organism"
            }
            F::NotTheSentinel(_) => "give it the certificate of the sentinel that the roster names",
            F::WrongKey => {
                "keys.sentinel must be the key that the genesis names, or the last act of the root"
            }
            F::AnothersStore => {
                "a sentinel that replaces another begins with an empty folder; keep the old one for whoever looks into it"
            }
            F::Memory(_) => {
                "do not delete anything: a sentinel without its memory is replaced by a RootAct"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
