//! What a sentinel is told: its configuration file, and the files that it names.
//!
//! Its rules are here and nowhere else: no node, verifier or proposer can change them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use redlatch_link::logs::Logs;
use redlatch_link::transport::{Credentials, Tls};
use redlatch_link::{file, keys};
use redlatch_types::policy::Policy;
use redlatch_types::{Canonical, Envelope, SigningKey};
use redlatch_watch::Rules;
use serde::{Deserialize, Serialize};

use crate::rules::{RulesConfig, rules};
use crate::start::StartFailure;

/// Everything a sentinel is told. Paths are relative to the folder that the process runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct SentinelConfig {
    /// Folder of its store; made if it does not exist. One process at a time holds it.
    pub data: PathBuf,
    /// The root-signed genesis.
    pub genesis: PathBuf,
    /// The trust policy that receipts must meet.
    pub policy: PathBuf,
    /// `host:port` of the actuator's RED listener.
    pub actuator: String,
    /// `host:port` of the nodes' client listeners, by name.
    pub nodes: BTreeMap<String, String>,
    /// Its signing keys.
    pub keys: KeyFiles,
    /// Where it listens.
    pub listen: Listen,
    /// How it judges.
    pub rules: RulesConfig,
    /// What it writes to its log.
    pub logs: Logs,
    /// Certificate, authority, pins.
    pub tls: Tls,
}

/// Files of the sentinel's signing keys, PKCS#8 PEM, readable by their owner alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct KeyFiles {
    /// Signs verdicts, REDs, beats and acknowledgements.
    pub sentinel: PathBuf,
}

/// Where the sentinel listens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Listen {
    /// Nodes, and the safety officer.
    pub service: SocketAddr,
    /// Health and metrics, for this machine alone.
    pub diagnostics: SocketAddr,
}

impl Default for Listen {
    fn default() -> Listen {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Listen {
            service: loopback(7600),
            diagnostics: loopback(7601),
        }
    }
}

/// What the configuration names, read and checked before anything starts.
pub struct SentinelFiles {
    /// Certificate, key, authority, pins.
    pub credentials: Credentials,
    /// The root-signed genesis.
    pub genesis: Envelope,
    /// What receipts must meet.
    pub policy: Policy,
    /// Signs everything that the sentinel says.
    pub key: SigningKey,
    /// How it judges.
    pub rules: Rules,
}

impl SentinelFiles {
    /// Reads everything.
    ///
    /// # Errors
    /// [`StartFailure`] with the first thing that is missing or does not fit the rest.
    pub fn read(config: &SentinelConfig) -> Result<SentinelFiles, StartFailure> {
        let paths = [
            ("data", &config.data),
            ("genesis", &config.genesis),
            ("policy", &config.policy),
            ("keys.sentinel", &config.keys.sentinel),
        ];
        for (key, path) in paths {
            if path.as_os_str().is_empty() {
                return Err(StartFailure::setting(key, "not set"));
            }
        }
        if config.actuator.is_empty() {
            return Err(StartFailure::setting("actuator", "not set"));
        }
        if config.nodes.is_empty() {
            return Err(StartFailure::setting("nodes", "not set"));
        }
        let rules = rules(&config.rules)?;
        let credentials = Credentials::load(&config.tls)?;
        let key = keys::load_key(&config.keys.sentinel).map_err(|source| StartFailure::Key {
            key: "keys.sentinel",
            source,
        })?;
        Ok(SentinelFiles {
            credentials,
            genesis: read_genesis(config)?,
            policy: read_policy(config)?,
            key,
            rules,
        })
    }
}

fn read_genesis(config: &SentinelConfig) -> Result<Envelope, StartFailure> {
    let what = "genesis";
    let bytes =
        file::read_file(&config.genesis).map_err(|source| StartFailure::File { what, source })?;
    Envelope::from_canonical(&bytes).map_err(|_| StartFailure::NotAGenesis {
        path: config.genesis.clone(),
    })
}

fn read_policy(config: &SentinelConfig) -> Result<Policy, StartFailure> {
    let what = "trust policy";
    let bytes =
        file::read_file(&config.policy).map_err(|source| StartFailure::File { what, source })?;
    Policy::parse(&bytes)
        .map_err(|error| StartFailure::setting("policy", format!("no trust policy: {error}")))
}

#[cfg(all(test, not(madsim)))]
mod tests {
    use redlatch_link::config::{Sources, load, print};

    use super::*;

    #[test]
    fn a_configuration_with_a_tripwire_survives_its_own_print() {
        let mut config = SentinelConfig::default();
        config.rules.allowed = vec!["demo:refs/heads/".into()];
        config.rules.tripwires = vec![crate::rules::TripwireConfig {
            name: "bare".into(),
            scope: "everything".into(),
            without_evidence: true,
            ..Default::default()
        }];
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sentinel.toml");
        std::fs::write(&file, print(&config).unwrap()).unwrap();
        let read: SentinelConfig = load(&Sources::none().file(file)).unwrap();
        assert_eq!(read, config);
    }

    #[test]
    fn the_sample_file_is_valid() {
        let sample = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../deploy/config/sentinel.toml"
        );
        let config: SentinelConfig = load(&Sources::none().file(sample)).unwrap();
        let rules = rules(&config.rules).unwrap();
        assert_eq!((config.nodes.len(), rules.tripwires.len()), (3, 1));
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let sources = Sources::none().flag("rules.alowed", "x");
        let error = load::<SentinelConfig>(&sources).expect_err("unknown");
        assert!(error.to_string().contains("rules.allowed"), "{error}");
    }
}
