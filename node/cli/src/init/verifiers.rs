//! The configuration files of a development organism's verifiers: `verifiers/NAME/verifier.toml`.
//!
//! The tool knows the verifier by its configuration file alone; `redlatch-verifier config check` says whether
//! a file is one. What is not written here has the verifier's own default.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use redlatch_link::transport::Tls;
use redlatch_types::records::{ActorKind, GenesisV1};
use serde::Serialize;

use super::configs::Ports;

/// What a verifier is told.
#[derive(Serialize)]
pub(super) struct VerifierToml {
    data: PathBuf,
    genesis: PathBuf,
    policy: PathBuf,
    nodes: BTreeMap<String, String>,
    fellows: BTreeMap<String, String>,
    keys: Keys,
    listen: Listen,
    evaluate: Evaluate,
    tls: Tls,
}

#[derive(Serialize)]
struct Keys {
    vote: PathBuf,
    share_passphrase: PathBuf,
}

#[derive(Serialize)]
struct Listen {
    ballots: SocketAddr,
    diagnostics: SocketAddr,
}

#[derive(Serialize)]
struct Evaluate {
    git: Git,
    evidence: Evidence,
}

#[derive(Serialize)]
struct Git {
    repository: String,
    source: PathBuf,
}

#[derive(Serialize)]
struct Evidence {
    runner_keys: Vec<String>,
}

impl VerifierToml {
    /// The same with certificate, key and authority.
    pub(super) fn with_tls(self, tls: Tls) -> VerifierToml {
        VerifierToml { tls, ..self }
    }
}

/// Where each verifier listens, by name.
pub(super) fn addresses(genesis: &GenesisV1, ports: &Ports) -> BTreeMap<String, String> {
    let names = genesis.roster.verifiers.iter();
    names
        .zip(&ports.verifiers)
        .map(|(verifier, [ballots, _])| (verifier.verifier_id.to_string(), ballots.to_string()))
        .collect()
}

/// The configuration of the verifier `name`. Candidates come from `repositories/NAME.git` in the folder, and
/// gate receipts count if an enrolled runner signed them.
pub(super) fn config(
    folder: &Path,
    genesis: &GenesisV1,
    name: &str,
    nodes: BTreeMap<String, String>,
    verifiers: &BTreeMap<String, String>,
    listen: [SocketAddr; 2],
) -> VerifierToml {
    let place = folder.join("verifiers").join(name);
    let scopes = genesis.subjects.iter().flat_map(|subject| &subject.scopes);
    let repository = scopes.map(ToString::to_string).next().unwrap_or_default();
    let runners = genesis
        .subjects
        .iter()
        .filter(|subject| subject.actor_kind == ActorKind::Runner);
    let mut fellows = verifiers.clone();
    fellows.remove(name);
    VerifierToml {
        data: place.join("data"),
        genesis: folder.join("genesis.cbor"),
        policy: folder.join("trust-policy.txt"),
        nodes,
        fellows,
        keys: Keys {
            vote: place.join("vote.key"),
            share_passphrase: place.join("share.passphrase"),
        },
        listen: Listen {
            ballots: listen[0],
            diagnostics: listen[1],
        },
        evaluate: Evaluate {
            git: Git {
                source: folder
                    .join("repositories")
                    .join(format!("{repository}.git")),
                repository,
            },
            evidence: Evidence {
                runner_keys: runners.map(|it| it.public_key.to_string()).collect(),
            },
        },
        tls: Tls::default(),
    }
}
