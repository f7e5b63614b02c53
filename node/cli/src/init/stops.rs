//! The configuration files of a development organism's stop path: `sentinel/sentinel.toml` and
//! `actuator/actuator.toml`.
//!
//! The tool knows both processes by their configuration files alone; their own `config check` says whether a
//! file is one. What is not written here has the process's own default.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use redlatch_link::transport::Tls;
use redlatch_types::records::{GenesisV1, ORGANISM_REALM};
use serde::Serialize;

use super::configs::Ports;

/// What the sentinel is told.
#[derive(Serialize)]
pub(super) struct SentinelToml {
    data: PathBuf,
    genesis: PathBuf,
    policy: PathBuf,
    actuator: String,
    nodes: BTreeMap<String, String>,
    keys: SentinelKeys,
    listen: SentinelListen,
    rules: Rules,
    tls: Tls,
}

#[derive(Serialize)]
struct SentinelKeys {
    sentinel: PathBuf,
}

#[derive(Serialize)]
struct SentinelListen {
    service: SocketAddr,
    diagnostics: SocketAddr,
}

#[derive(Serialize)]
struct Rules {
    allowed: Vec<String>,
}

/// What the actuator is told.
#[derive(Serialize)]
pub(super) struct ActuatorToml {
    data: PathBuf,
    genesis: PathBuf,
    policy: PathBuf,
    nodes: BTreeMap<String, String>,
    keys: ActuatorKeys,
    listen: ActuatorListen,
    tls: Tls,
}

#[derive(Serialize)]
struct ActuatorKeys {
    actuator: PathBuf,
}

#[derive(Serialize)]
struct ActuatorListen {
    red: SocketAddr,
    hold: SocketAddr,
    diagnostics: SocketAddr,
}

/// Parts of the organism itself that people may change.
const OWN_PARTS: [&str; 8] = [
    "constitution",
    "effects",
    "grants",
    "grounds",
    "keys",
    "mode",
    "roster/",
    "subjects",
];

/// The sentinel of the organism in `folder`: branches of the organism's repositories may be acted on, and the
/// organism itself.
pub(super) fn sentinel(
    folder: &Path,
    genesis: &GenesisV1,
    nodes: BTreeMap<String, String>,
    ports: &Ports,
    tls: Tls,
) -> SentinelToml {
    let place = folder.join("sentinel");
    let scopes = genesis.subjects.iter().flat_map(|subject| &subject.scopes);
    let mut allowed: Vec<String> = scopes
        .filter(|it| it.as_str() != ORGANISM_REALM)
        .map(|it| format!("{it}:refs/heads/"))
        .collect();
    allowed.extend(OWN_PARTS.map(|part| format!("{ORGANISM_REALM}:{part}")));
    allowed.sort();
    allowed.dedup();
    SentinelToml {
        data: place.join("data"),
        genesis: folder.join("genesis.cbor"),
        policy: folder.join("trust-policy.txt"),
        actuator: ports.actuator[0].to_string(),
        nodes,
        keys: SentinelKeys {
            sentinel: place.join("signing.key"),
        },
        listen: SentinelListen {
            service: ports.sentinel[0],
            diagnostics: ports.sentinel[1],
        },
        rules: Rules { allowed },
        tls,
    }
}

/// The actuator of the organism in `folder`.
pub(super) fn actuator(
    folder: &Path,
    nodes: BTreeMap<String, String>,
    ports: &Ports,
    tls: Tls,
) -> ActuatorToml {
    let place = folder.join("actuator");
    ActuatorToml {
        data: place.join("data"),
        genesis: folder.join("genesis.cbor"),
        policy: folder.join("trust-policy.txt"),
        nodes,
        keys: ActuatorKeys {
            actuator: place.join("signing.key"),
        },
        listen: ActuatorListen {
            red: ports.actuator[0],
            hold: ports.actuator[1],
            diagnostics: ports.actuator[2],
        },
        tls,
    }
}
