//! Configuration files of a development organism: one per process, on free loopback ports.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use redlatch_link::Role;
use redlatch_link::config;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};
use redlatch_link::logs::Logs;
use redlatch_link::transport::Tls;
use redlatch_node::NodeConfig;
use redlatch_node::config::{KeyFiles, Listen, TimingConfig};
use redlatch_types::records::GenesisV1;

use super::keys::CLIENTS;
use super::{stops, verifiers};
use crate::client::ClientConfig;
use crate::gate::config::GateConfig;

type Pins = BTreeMap<String, Vec<String>>;

/// Writes every configuration file below `folder`, which is absolute.
///
/// # Errors
/// [`Failure`] if there are not enough ports, or a file cannot be written.
pub(super) fn write(folder: &Path, genesis: &GenesisV1, pins: Pins) -> Result<(), Failure> {
    let names: Vec<String> = genesis
        .roster
        .nodes
        .iter()
        .map(|node| node.name.to_string())
        .collect();
    let ports = Ports::free(names.len(), genesis.roster.verifiers.len())?;
    let listens = &ports.nodes;
    let verifiers = verifiers::addresses(genesis, &ports);
    let tls = |place: &Path| Tls {
        organism: genesis.organism_id().to_string(),
        certificate: place.join("tls.pem"),
        key: place.join("tls.key"),
        authority: folder.join("authority/ca.pem"),
        pins: pins.clone(),
    };
    let of = |pick: fn(&Listen) -> SocketAddr| -> BTreeMap<String, String> {
        let addresses = listens.iter().map(|listen| pick(listen).to_string());
        names.iter().cloned().zip(addresses).collect()
    };
    for (name, listen) in names.iter().zip(listens) {
        let place = folder.join("nodes").join(name);
        let mut peers = of(|listen| listen.peers);
        peers.remove(name);
        let node = NodeConfig {
            data: place.join("data"),
            genesis: folder.join("genesis.cbor"),
            peers,
            verifiers: verifiers.clone(),
            sentinel: ports.sentinel[0].to_string(),
            keys: KeyFiles {
                log: place.join("log.key"),
                cosigner: place.join("cosigner.key"),
                record: place.join("record.key"),
            },
            listen: listen.clone(),
            timing: TimingConfig::default(),
            logs: logs(),
            tls: tls(&place),
        };
        put(&place.join("node.toml"), &config::print(&node)?)?;
    }
    for (verifier, listen) in genesis.roster.verifiers.iter().zip(&ports.verifiers) {
        let name = verifier.verifier_id.as_str();
        let place = folder.join("verifiers").join(name);
        let nodes = of(|listen| listen.clients);
        let made = verifiers::config(folder, genesis, name, nodes, &verifiers, *listen);
        let made = made.with_tls(tls(&place));
        put(&place.join("verifier.toml"), &config::print(&made)?)?;
    }
    let clients = of(|listen| listen.clients);
    let own = tls(&folder.join("sentinel"));
    let made = stops::sentinel(folder, genesis, clients.clone(), &ports, own);
    put(
        &folder.join("sentinel/sentinel.toml"),
        &config::print(&made)?,
    )?;
    let made = stops::actuator(folder, clients, &ports, tls(&folder.join("actuator")));
    put(
        &folder.join("actuator/actuator.toml"),
        &config::print(&made)?,
    )?;
    for (name, role) in CLIENTS {
        let place = folder.join("clients").join(name);
        let client = ClientConfig {
            genesis: folder.join("genesis.cbor"),
            policy: folder.join("trust-policy.txt"),
            signing_key: place.join("signing.key"),
            nodes: of(|listen| listen.clients),
            sentinel: ports.sentinel[0].to_string(),
            actuator: ports.actuator[1].to_string(),
            tls: tls(&place),
        };
        put(&place.join("client.toml"), &config::print(&client)?)?;
        if role == Role::Gate {
            let gate = gate(&place, genesis, client);
            put(&place.join("gate.toml"), &config::print(&gate)?)?;
        }
    }
    Ok(())
}

/// The same party in front of the organism's repository.
fn gate(place: &Path, genesis: &GenesisV1, client: ClientConfig) -> GateConfig {
    let scopes = genesis.subjects.iter().flat_map(|subject| &subject.scopes);
    GateConfig {
        repository: scopes.map(ToString::to_string).next().unwrap_or_default(),
        state: place.join("state"),
        genesis: client.genesis,
        policy: client.policy,
        signing_key: client.signing_key,
        nodes: client.nodes,
        tls: client.tls,
        ..GateConfig::default()
    }
}

/// The consensus library's own chatter is for its developers.
fn logs() -> Logs {
    Logs {
        filter: "info,openraft=warn".to_owned(),
        ..Logs::default()
    }
}

fn put(path: &Path, text: &str) -> Result<(), Failure> {
    Ok(file::create_file(path, text.as_bytes(), Access::Private)?)
}

/// Addresses that nobody listens on now, for every process.
pub(super) struct Ports {
    nodes: Vec<Listen>,
    /// Ballots and diagnostics of each verifier.
    pub(super) verifiers: Vec<[SocketAddr; 2]>,
    /// Of the sentinel; the first one is where nodes and operators connect.
    pub(super) sentinel: [SocketAddr; 2],
    /// RED line, hold line and diagnostics of the actuator.
    pub(super) actuator: [SocketAddr; 3],
}

impl Ports {
    /// All are bound at once, so no two are the same.
    fn free(nodes: usize, verifiers: usize) -> Result<Ports, Failure> {
        let bound: Vec<TcpListener> = (0..3 * nodes + 2 * verifiers + 5)
            .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .collect::<Result<_, _>>()
            .map_err(|error| no_ports(&error))?;
        let addresses: Vec<SocketAddr> = bound
            .iter()
            .map(TcpListener::local_addr)
            .collect::<Result<_, _>>()
            .map_err(|error| no_ports(&error))?;
        let (of_nodes, rest) = addresses.split_at(3 * nodes);
        let (of_verifiers, rest) = rest.split_at(2 * verifiers);
        let listen = |three: &[SocketAddr]| Listen {
            peers: three[0],
            clients: three[1],
            diagnostics: three[2],
        };
        Ok(Ports {
            nodes: of_nodes.chunks_exact(3).map(listen).collect(),
            verifiers: of_verifiers
                .chunks_exact(2)
                .map(|two| [two[0], two[1]])
                .collect(),
            sentinel: [rest[0], rest[1]],
            actuator: [rest[2], rest[3], rest[4]],
        })
    }
}

fn no_ports(error: &std::io::Error) -> Failure {
    Failure::new(
        ExitCode::Unavailable,
        format!("no free loopback ports: {error}"),
    )
}
