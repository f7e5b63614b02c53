//! Configuration files of a development organism: one per process, on free loopback ports.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};

use rand_core::RngCore;
use redlatch_link::config;
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::file::{self, Access};
use redlatch_link::logs::Logs;
use redlatch_link::transport::Tls;
use redlatch_link::{Role, world};
use redlatch_node::NodeConfig;
use redlatch_node::config::{KeyFiles, Listen, TimingConfig};
use redlatch_types::records::{ActorKind, GenesisV1};

use super::keys::{CALLERS, Caller};
use super::{stops, verifiers};
use crate::approve::authenticator;
use crate::client::ClientConfig;
use crate::gate::config::GateConfig;

type Pins = BTreeMap<String, Vec<String>>;

/// Writes every configuration file below `folder`, which is absolute.
///
/// # Errors
/// [`Failure`] if there are not enough ports, or a file cannot be written.
pub(super) fn write(folder: &Path, genesis: &GenesisV1, pins: Pins) -> Result<(), Failure> {
    let roster = &genesis.roster;
    let ports = Ports::free(roster.nodes.len(), roster.verifiers.len())?;
    let writer = Writer {
        verifiers: verifiers::addresses(genesis, &ports),
        folder,
        genesis,
        pins,
        ports,
    };
    writer.nodes()?;
    writer.verifiers()?;
    writer.stops()?;
    writer.clients()
}

/// What all configuration files have in common.
struct Writer<'a> {
    folder: &'a Path,
    genesis: &'a GenesisV1,
    pins: Pins,
    ports: Ports,
    /// Where each verifier listens, by name.
    verifiers: BTreeMap<String, String>,
}

impl Writer<'_> {
    fn tls(&self, place: &Path) -> Tls {
        Tls {
            organism: self.genesis.organism_id().to_string(),
            certificate: place.join("tls.pem"),
            key: place.join("tls.key"),
            authority: self.folder.join("authority/ca.pem"),
            pins: self.pins.clone(),
        }
    }

    /// One address of each node, by name.
    fn of(&self, pick: fn(&Listen) -> SocketAddr) -> BTreeMap<String, String> {
        let nodes = self.genesis.roster.nodes.iter().zip(&self.ports.nodes);
        nodes
            .map(|(node, listen)| (node.name.to_string(), pick(listen).to_string()))
            .collect()
    }

    fn nodes(&self) -> Result<(), Failure> {
        for (node, listen) in self.genesis.roster.nodes.iter().zip(&self.ports.nodes) {
            let place = self.folder.join("nodes").join(node.name.as_str());
            let mut peers = self.of(|listen| listen.peers);
            peers.remove(node.name.as_str());
            let node = NodeConfig {
                data: place.join("data"),
                genesis: self.folder.join("genesis.cbor"),
                number: 0,
                rejoin: false,
                peers,
                verifiers: self.verifiers.clone(),
                sentinel: self.ports.sentinel[0].to_string(),
                keys: KeyFiles {
                    log: place.join("log.key"),
                    cosigner: place.join("cosigner.key"),
                    record: place.join("record.key"),
                },
                listen: listen.clone(),
                timing: TimingConfig::default(),
                logs: logs(),
                tls: self.tls(&place),
            };
            put(&place.join("node.toml"), &config::print(&node)?)?;
        }
        Ok(())
    }

    fn verifiers(&self) -> Result<(), Failure> {
        let verifiers = self.genesis.roster.verifiers.iter();
        for (verifier, listen) in verifiers.zip(&self.ports.verifiers) {
            let name = verifier.verifier_id.as_str();
            let place = self.folder.join("verifiers").join(name);
            let nodes = self.of(|listen| listen.clients);
            let (folder, genesis) = (self.folder, self.genesis);
            let made = verifiers::config(folder, genesis, name, nodes, &self.verifiers, *listen);
            let made = made.with_tls(self.tls(&place));
            put(&place.join("verifier.toml"), &config::print(&made)?)?;
        }
        Ok(())
    }

    fn stops(&self) -> Result<(), Failure> {
        let (folder, ports) = (self.folder, &self.ports);
        let clients = self.of(|listen| listen.clients);
        let place = folder.join("sentinel");
        let tls = self.tls(&place);
        let made = stops::sentinel(folder, self.genesis, clients.clone(), ports, tls);
        put(&place.join("sentinel.toml"), &config::print(&made)?)?;
        let place = folder.join("actuator");
        let made = stops::actuator(folder, clients, ports, self.tls(&place));
        put(&place.join("actuator.toml"), &config::print(&made)?)
    }

    fn clients(&self) -> Result<(), Failure> {
        for Caller { name, role, kind } in CALLERS {
            let place = self.folder.join("clients").join(name);
            let client = ClientConfig {
                genesis: self.folder.join("genesis.cbor"),
                policy: self.folder.join("trust-policy.txt"),
                signing_key: place.join("signing.key"),
                nodes: self.of(|listen| listen.clients),
                sentinel: self.ports.sentinel[0].to_string(),
                actuator: self.ports.actuator[1].to_string(),
                authenticator: match kind {
                    ActorKind::Human => place.join(authenticator::FILE),
                    _ => PathBuf::new(),
                },
                state: place.join("state"),
                tls: self.tls(&place),
            };
            put(&place.join("client.toml"), &config::print(&client)?)?;
            if role == Role::Gate {
                let gate = gate(self.genesis, client);
                put(&place.join("gate.toml"), &config::print(&gate)?)?;
            }
        }
        Ok(())
    }
}

/// The same party in front of the organism's repository.
fn gate(genesis: &GenesisV1, client: ClientConfig) -> GateConfig {
    let scopes = genesis.subjects.iter().flat_map(|subject| &subject.scopes);
    GateConfig {
        repository: scopes.map(ToString::to_string).next().unwrap_or_default(),
        state: client.state,
        genesis: client.genesis,
        policy: client.policy,
        signing_key: client.signing_key,
        nodes: client.nodes,
        hold_line: client.actuator,
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

/// Ports are chosen below those that systems give to outgoing connections: a process that is started again
/// finds its own free, whatever its fellows have connected meanwhile.
const CHOSEN: Range<u16> = 10_000..32_000;
/// How many ports are looked at.
const TRIES_MAX: usize = 10_000;

/// Where one more node may listen: addresses that nobody listens on now.
///
/// # Errors
/// [`Failure`] if there are not enough ports.
pub(crate) fn listen() -> Result<Listen, Failure> {
    let ports = Ports::free(1, 0)?;
    ports.nodes.into_iter().next().ok_or_else(|| {
        let none = std::io::Error::from(ErrorKind::AddrInUse);
        no_ports(&none)
    })
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
        let bound = bound(3 * nodes + 2 * verifiers + 5)?;
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

/// Listeners on so many ports.
fn bound(wanted: usize) -> Result<Vec<TcpListener>, Failure> {
    let mut rng = world::rng();
    let mut bound = Vec::with_capacity(wanted);
    let mut last = std::io::Error::from(ErrorKind::AddrInUse);
    for _ in 0..TRIES_MAX {
        if bound.len() == wanted {
            return Ok(bound);
        }
        let above = rng.next_u32() % u32::from(CHOSEN.end - CHOSEN.start);
        let port = CHOSEN.start + u16::try_from(above).unwrap_or_default();
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => bound.push(listener),
            Err(error) => last = error,
        }
    }
    Err(no_ports(&last))
}

fn no_ports(error: &std::io::Error) -> Failure {
    Failure::new(
        ExitCode::Unavailable,
        format!("no free loopback ports: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_distinct_and_none_that_outgoing_connections_take() {
        let listeners = bound(22).expect("free ports");
        let ports: std::collections::BTreeSet<u16> = listeners
            .iter()
            .map(|it| it.local_addr().expect("bound").port())
            .collect();
        assert_eq!(ports.len(), 22);
        assert!(ports.iter().all(|port| CHOSEN.contains(port)), "{ports:?}");
    }
}
