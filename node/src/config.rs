//! The node's configuration file.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redlatch_link::file;
use redlatch_link::keys;
use redlatch_link::logs::Logs;
use redlatch_link::transport::Tls;
use redlatch_raft::config::Timing;
use redlatch_raft::cosign::NodeSigningKeys;
use redlatch_types::records::GenesisV1;
use redlatch_types::{Canonical, Envelope, SigningKey};
use serde::{Deserialize, Serialize};

use crate::coordinator::PartyAddresses;
use crate::start::StartFailure;

/// Everything a node is told. Paths are relative to the folder that the process runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct NodeConfig {
    /// Folder of its store; made if it does not exist.
    pub data: PathBuf,
    /// The root-signed genesis.
    pub genesis: PathBuf,
    /// The number under which it joins, if the genesis does not name it; else 0.
    pub number: u64,
    /// Whether a disk that lost what it promised comes back, as a learner.
    pub rejoin: bool,
    /// `host:port` of the other nodes' peer listeners, by name.
    pub peers: BTreeMap<String, String>,
    /// `host:port` of the verifiers, by name; without them intents stay frozen.
    pub verifiers: BTreeMap<String, String>,
    /// `host:port` of the sentinel; without it nothing positive is decided.
    pub sentinel: String,
    /// Its three signing keys.
    pub keys: KeyFiles,
    /// Where it listens.
    pub listen: Listen,
    /// Heartbeat and election.
    pub timing: TimingConfig,
    /// What it writes to its log.
    pub logs: Logs,
    /// Certificate, authority, pins.
    pub tls: Tls,
}

/// Files of the node's signing keys, PKCS#8 PEM, readable by their owner alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct KeyFiles {
    /// Signs tree heads as the log.
    pub log: PathBuf,
    /// Cosigns tree heads.
    pub cosigner: PathBuf,
    /// Signs statuses and clock readings.
    pub record: PathBuf,
}

/// Where the node listens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Listen {
    /// Nodes.
    pub peers: SocketAddr,
    /// Everybody else.
    pub clients: SocketAddr,
    /// Health and metrics, for this machine alone.
    pub diagnostics: SocketAddr,
}

impl Default for Listen {
    fn default() -> Listen {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Listen {
            peers: loopback(7400),
            clients: loopback(7401),
            diagnostics: loopback(7402),
        }
    }
}

/// Heartbeat and election, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct TimingConfig {
    /// Interval between heartbeats; above the slowest healthy fsync.
    pub heartbeat_ms: u64,
    /// Shortest wait before a follower campaigns.
    pub election_ms_min: u64,
    /// Longest such wait, and the leader's lease.
    pub election_ms_max: u64,
}

impl Default for TimingConfig {
    fn default() -> TimingConfig {
        let Timing {
            heartbeat_ms,
            election_ms_min,
            election_ms_max,
        } = Timing::default();
        TimingConfig {
            heartbeat_ms,
            election_ms_min,
            election_ms_max,
        }
    }
}

impl From<TimingConfig> for Timing {
    fn from(config: TimingConfig) -> Timing {
        Timing {
            heartbeat_ms: config.heartbeat_ms,
            election_ms_min: config.election_ms_min,
            election_ms_max: config.election_ms_max,
        }
    }
}

impl NodeConfig {
    /// Who takes part in decisions.
    pub fn parties(&self) -> PartyAddresses {
        PartyAddresses {
            verifiers: self.verifiers.clone(),
            sentinel: Some(self.sentinel.clone()).filter(|it| !it.is_empty()),
        }
    }

    /// Refuses what cannot be meant.
    ///
    /// # Errors
    /// [`StartFailure::Setting`] with the first key at fault.
    pub fn check(&self) -> Result<(), StartFailure> {
        let paths = [
            ("data", &self.data),
            ("genesis", &self.genesis),
            ("keys.log", &self.keys.log),
            ("keys.cosigner", &self.keys.cosigner),
            ("keys.record", &self.keys.record),
        ];
        for (key, path) in paths {
            if path.as_os_str().is_empty() {
                let what = "not set".to_owned();
                return Err(StartFailure::Setting { key, what });
            }
        }
        Ok(())
    }

    /// Reads the signed genesis.
    ///
    /// # Errors
    /// [`StartFailure::File`] or [`StartFailure::NotAGenesis`].
    pub fn read_genesis(&self) -> Result<Envelope, StartFailure> {
        read_genesis(&self.genesis)
    }

    /// Reads the signing keys.
    ///
    /// # Errors
    /// [`StartFailure::Key`].
    pub fn read_keys(&self) -> Result<NodeSigningKeys, StartFailure> {
        let read = |key: &'static str, path: &Path| -> Result<Arc<SigningKey>, StartFailure> {
            let read = keys::load_key(path).map_err(|source| StartFailure::Key { key, source })?;
            Ok(Arc::new(read))
        };
        Ok(NodeSigningKeys {
            log: read("keys.log", &self.keys.log)?,
            cosigner: read("keys.cosigner", &self.keys.cosigner)?,
            record: read("keys.record", &self.keys.record)?,
        })
    }
}

/// Reads a genesis file and checks that the root it names has signed it.
///
/// # Errors
/// [`StartFailure::File`] or [`StartFailure::NotAGenesis`].
pub fn read_genesis(path: &Path) -> Result<Envelope, StartFailure> {
    let what = "genesis";
    let bytes = file::read_file(path).map_err(|source| StartFailure::File { what, source })?;
    let envelope = Envelope::from_canonical(&bytes).ok();
    let signed = envelope.and_then(|envelope| envelope.open::<GenesisV1>().ok());
    signed
        .filter(|signed| *signed.key() == signed.record().kernel.pinned_external_root_key)
        .map(|signed| signed.envelope().clone())
        .ok_or_else(|| StartFailure::NotAGenesis {
            path: path.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use redlatch_link::config::{Sources, load, print};

    use super::*;

    #[test]
    fn the_printed_configuration_reads_back() {
        let mut config = NodeConfig {
            data: "data".into(),
            ..NodeConfig::default()
        };
        config.peers.insert("n2".into(), "127.0.0.1:7410".into());
        let text = print(&config).expect("printable");
        let sources = text
            .lines()
            .fold(String::new(), |all, line| all + line + "\n");
        let folder = std::env::temp_dir().join(format!("redlatch-config-{}", std::process::id()));
        file::replace_file(&folder, sources.as_bytes(), file::Access::Public).expect("written");
        let read: NodeConfig = load(&Sources::none().file(&folder)).expect("readable");
        std::fs::remove_file(&folder).expect("removed");
        assert_eq!(read, config);
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let sources = Sources::none().flag("listen.client", "127.0.0.1:1");
        let error = load::<NodeConfig>(&sources)
            .expect_err("unknown")
            .to_string();
        assert!(error.contains("listen.clients"), "{error}");
    }

    #[test]
    fn the_sample_file_names_every_key_and_no_other() {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/config/node.toml");
        let config: NodeConfig = load(&Sources::none().file(sample)).expect("valid");
        assert_eq!(
            config.check().map_err(|failure| failure.to_string()),
            Ok(())
        );
        assert_eq!(config.timing, TimingConfig::default());
        assert_eq!(
            config.listen.clients.port(),
            Listen::default().clients.port()
        );
    }

    #[test]
    fn a_missing_path_is_named() {
        let failure = NodeConfig::default().check().expect_err("empty");
        assert_eq!(failure.to_string(), "`data`: not set");
    }
}
