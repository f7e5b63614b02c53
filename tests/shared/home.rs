//! The folder that `redlatch init --dev` made, whatever of it runs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use redlatch_types::records::GenesisV1;
use redlatch_types::{Canonical, Envelope};

/// Something that runs on an organism's folder.
pub trait Home {
    /// The folder.
    fn organism(&self) -> PathBuf;
}

/// The organism's genesis.
pub fn genesis(organism: &Path) -> GenesisV1 {
    let bytes = std::fs::read(organism.join("genesis.cbor")).expect("made by init");
    let envelope = Envelope::from_canonical(&bytes).expect("an envelope");
    let signed = envelope.open::<GenesisV1>().expect("signed by the root");
    signed.record().clone()
}

/// Where a process listens, by its own configuration.
pub fn address(config: &Path, listener: &str) -> SocketAddr {
    let text = std::fs::read_to_string(config).expect("made by init");
    let config: toml::Table = text.parse().expect("TOML");
    let address = config["listen"][listener].as_str().expect("a text");
    address.parse().expect("an address")
}

/// The configuration of a node.
pub fn node_config(organism: &Path, node: &str) -> PathBuf {
    organism.join("nodes").join(node).join("node.toml")
}
