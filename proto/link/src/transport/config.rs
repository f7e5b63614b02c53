//! What a process is told about its connections: the `[tls]` section and the limits of a listener.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The `[tls]` section of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Tls {
    /// The organism's id, 64 hex digits.
    pub organism: String,
    /// PEM file with this process's certificate, leaf first.
    pub certificate: PathBuf,
    /// PEM file with its private key; only its owner may read it.
    pub key: PathBuf,
    /// PEM file with the organism's certificate authority; two of them while it changes.
    pub authority: PathBuf,
    /// Keys of fixed roles: `"node/n1" = ["<sha256 of the public key info, hex>"]`.
    pub pins: BTreeMap<String, Vec<String>>,
}

/// How much a listener takes on (FAULTS 60, 91).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Streams at once on one connection.
    pub streams_max: u32,
    /// Bytes of one request's headers.
    pub header_list_bytes_max: u32,
    /// Streams that a peer opened and reset, waiting to be cleaned up, before the connection is closed.
    pub reset_streams_max: usize,
    /// Handshakes at once; the oldest gives way to a newcomer.
    pub handshakes_max: usize,
    /// Handshakes at once from one source address; that source's oldest gives way.
    pub handshakes_per_source_max: usize,
    /// Established connections from one source address; a newcomer is turned away.
    pub connections_per_source_max: usize,
    /// How long a handshake may take.
    pub handshake_deadline: Duration,
    /// How long open calls may go on after shutdown began.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams_max: 64,
            header_list_bytes_max: 8 * 1024,
            reset_streams_max: 20,
            handshakes_max: 256,
            handshakes_per_source_max: 64,
            connections_per_source_max: 1024,
            handshake_deadline: Duration::from_secs(3),
            drain: Duration::from_secs(5),
        }
    }
}
