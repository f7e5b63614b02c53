//! What an actuator is told: its configuration file, and the files that it names.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use redlatch_link::logs::Logs;
use redlatch_link::transport::{Credentials, Tls};
use redlatch_link::{file, keys};
use redlatch_types::policy::Policy;
use redlatch_types::{Canonical, Envelope, SigningKey};
use serde::{Deserialize, Serialize};

use crate::start::StartFailure;

/// Everything an actuator is told. Paths are relative to the folder that the process runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ActuatorConfig {
    /// Folder of its store; made if it does not exist. One process at a time holds it.
    pub data: PathBuf,
    /// The root-signed genesis.
    pub genesis: PathBuf,
    /// The trust policy that receipts must meet.
    pub policy: PathBuf,
    /// `host:port` of the nodes' client listeners, by name.
    pub nodes: BTreeMap<String, String>,
    /// Its signing keys.
    pub keys: KeyFiles,
    /// Where it listens.
    pub listen: Listen,
    /// What it writes to its log.
    pub logs: Logs,
    /// Certificate, authority, pins.
    pub tls: Tls,
}

/// Files of the actuator's signing keys, PKCS#8 PEM, readable by their owner alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct KeyFiles {
    /// Signs safety capabilities and permit beats.
    pub actuator: PathBuf,
}

/// Where the actuator listens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Listen {
    /// The sentinel, and nobody else.
    pub red: SocketAddr,
    /// Gates.
    pub hold: SocketAddr,
    /// Health and metrics, for this machine alone.
    pub diagnostics: SocketAddr,
}

impl Default for Listen {
    fn default() -> Listen {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Listen {
            red: loopback(7700),
            hold: loopback(7701),
            diagnostics: loopback(7702),
        }
    }
}

/// What the configuration names, read and checked before anything starts.
pub struct ActuatorFiles {
    /// Certificate, key, authority, pins.
    pub credentials: Credentials,
    /// The root-signed genesis.
    pub genesis: Envelope,
    /// What receipts must meet.
    pub policy: Policy,
    /// Signs safety capabilities and permit beats.
    pub key: SigningKey,
}

impl ActuatorFiles {
    /// Reads everything.
    ///
    /// # Errors
    /// [`StartFailure`] with the first thing that is missing or does not fit the rest.
    pub fn read(config: &ActuatorConfig) -> Result<ActuatorFiles, StartFailure> {
        let paths = [
            ("data", &config.data),
            ("genesis", &config.genesis),
            ("policy", &config.policy),
            ("keys.actuator", &config.keys.actuator),
        ];
        for (key, path) in paths {
            if path.as_os_str().is_empty() {
                return Err(StartFailure::setting(key, "not set"));
            }
        }
        if config.nodes.is_empty() {
            return Err(StartFailure::setting("nodes", "not set"));
        }
        let credentials = Credentials::load(&config.tls)?;
        let key = keys::load_key(&config.keys.actuator).map_err(|source| StartFailure::Key {
            key: "keys.actuator",
            source,
        })?;
        Ok(ActuatorFiles {
            credentials,
            genesis: read_genesis(config)?,
            policy: read_policy(config)?,
            key,
        })
    }
}

fn read_genesis(config: &ActuatorConfig) -> Result<Envelope, StartFailure> {
    let what = "genesis";
    let bytes =
        file::read_file(&config.genesis).map_err(|source| StartFailure::File { what, source })?;
    Envelope::from_canonical(&bytes).map_err(|_| StartFailure::NotAGenesis {
        path: config.genesis.clone(),
    })
}

fn read_policy(config: &ActuatorConfig) -> Result<Policy, StartFailure> {
    let what = "trust policy";
    let bytes =
        file::read_file(&config.policy).map_err(|source| StartFailure::File { what, source })?;
    Policy::parse(&bytes)
        .map_err(|error| StartFailure::setting("policy", format!("no trust policy: {error}")))
}

#[cfg(all(test, not(madsim)))]
mod tests {
    use redlatch_link::config::{Sources, load};

    use super::*;

    #[test]
    fn the_sample_file_is_valid() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let sample = format!("{folder}/../../deploy/config/actuator.toml");
        let config: ActuatorConfig = load(&Sources::none().file(sample)).unwrap();
        assert_eq!(config.nodes.len(), 3);
        assert_ne!(config.listen.red, config.listen.hold);
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let sources = Sources::none().flag("listen.rad", "127.0.0.1:1");
        let error = load::<ActuatorConfig>(&sources).expect_err("unknown");
        assert!(error.to_string().contains("listen.red"), "{error}");
    }
}
