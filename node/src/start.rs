//! Why a node does not start or does not go on, each with its own text, exit code and advice.

use std::path::PathBuf;

use redlatch_link::exit::{ExitCode, Fails};
use redlatch_link::file::FileError;
use redlatch_link::keys::KeyError;
use redlatch_link::transport::TransportError;
use redlatch_raft::alarm::FatalCause;
use redlatch_raft::engine::StorageFault;
use redlatch_raft::node::StartError;
use redlatch_types::OrganismId;

/// Why a node does not run.
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
    /// A signing key cannot be read.
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
    /// The data directory was started by another genesis.
    #[error("{} holds organism {found}; a second genesis ({given}) is never accepted", path.display())]
    SecondGenesis {
        /// The data directory.
        path: PathBuf,
        /// The organism it holds.
        found: String,
        /// The one that was configured.
        given: OrganismId,
    },
    /// The certificate is not a node's of the roster.
    #[error("the certificate names {0}, which is no node of the roster")]
    NotANode(String),
    /// Connections cannot be made or taken.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The replicated journal does not start.
    #[error(transparent)]
    Raft(#[from] StartError),
    /// The node had to stop.
    #[error("this node had to stop: {0}")]
    Fatal(FatalCause),
}

impl Fails for StartFailure {
    fn code(&self) -> ExitCode {
        use StartFailure as F;
        match self {
            F::Setting { .. } | F::NotAGenesis { .. } => ExitCode::Usage,
            F::File { source, .. } => source.code(),
            F::Key { source, .. } => source.code(),
            F::WrongOrganism { .. } | F::SecondGenesis { .. } | F::NotANode(_) => ExitCode::Refused,
            F::Transport(error) => error.code(),
            F::Raft(error) => match error {
                StartError::RolledBack { .. } | StartError::WrongKeys => ExitCode::Refused,
                StartError::Storage(StorageFault::Locked { .. }) => ExitCode::Unavailable,
                StartError::Genesis | StartError::PeerAddress(_) | StartError::Timing(_) => {
                    ExitCode::Usage
                }
                _ => ExitCode::Error,
            },
            F::Fatal(FatalCause::RolledBack(_)) => ExitCode::Refused,
            F::Fatal(_) => ExitCode::Error,
        }
    }

    fn hint(&self) -> Option<String> {
        use StartFailure as F;
        let hint = match self {
            F::Setting { .. } => "see `redlatch-node config print` for every key and its default",
            F::File { source, .. } => return source.hint(),
            F::Key { source, .. } => return source.hint(),
            F::Transport(error) => return error.hint(),
            F::NotAGenesis { .. } => "`redlatch init` writes it as genesis.cbor",
            F::WrongOrganism { .. } => {
                "certificates, keys and genesis come from one `redlatch init`"
            }
            F::SecondGenesis { .. } => "start another organism in another data directory",
            F::NotANode(_) => {
                "use the certificate that was issued for this node; one that joins says its `number`"
            }
            F::Raft(StartError::RolledBack { .. }) | F::Fatal(FatalCause::RolledBack(_)) => {
                "start it once with `--set rejoin=true`: it comes back as a learner, without a vote until it is promoted"
            }
            F::Raft(StartError::WrongKeys) => {
                "keys.* must be the keys that genesis and roster name for this node"
            }
            F::Raft(StartError::Storage(StorageFault::Locked { .. })) => {
                "another process runs on this data directory: stop it first"
            }
            F::Fatal(FatalCause::Storage(_)) | F::Raft(StartError::Storage(_)) => {
                "check disk and file system, then start again; nothing that was acknowledged is lost with one node"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use redlatch_types::Digest;

    use super::*;

    #[test]
    fn bad_input_has_its_own_exit_code() {
        let organism = |byte| OrganismId(Digest([byte; 32]));
        let address = "127.0.0.1:7400".parse().expect("an address");
        let locked = StorageFault::Locked {
            path: "data".into(),
        };
        let cases = [
            (
                StartFailure::Setting {
                    key: "data",
                    what: "not set".into(),
                },
                ExitCode::Usage,
            ),
            (
                StartFailure::WrongOrganism {
                    genesis: organism(1),
                    certificate: organism(2),
                },
                ExitCode::Refused,
            ),
            (
                StartFailure::SecondGenesis {
                    path: "data".into(),
                    found: "aa".into(),
                    given: organism(2),
                },
                ExitCode::Refused,
            ),
            (
                StartFailure::Transport(TransportError::AddressInUse { address }),
                ExitCode::Unavailable,
            ),
            (StartFailure::Raft(StartError::WrongKeys), ExitCode::Refused),
            (
                StartFailure::Raft(StartError::Storage(locked)),
                ExitCode::Unavailable,
            ),
            (
                StartFailure::Fatal(FatalCause::Consensus("stopped".into())),
                ExitCode::Error,
            ),
        ];
        for (failure, code) in cases {
            assert_eq!(failure.code(), code, "{failure}");
        }
    }
}
