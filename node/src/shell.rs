//! What a node brings to the shell that every process shares: RocksDB, and whose data directory it is.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use redlatch_link::diagnostics::{Condition, Diagnostics};
use redlatch_link::exit::Failure;
use redlatch_link::file::{self, Access, FileError};
use redlatch_link::shell::{Service, Settings};
use redlatch_link::transport::{Credentials, Dialer};
use redlatch_link::{build_id, world};
use redlatch_node::{NodeConfig, NodeFiles, NodeParts, NodeProcess, StartFailure};
use redlatch_raft::engine::{RocksEngine, RocksOptions};
use redlatch_raft::node::StartError;
use redlatch_raft::proposer::ProposerLimits;
use redlatch_raft::shared::WallClock;
use redlatch_types::OrganismId;

/// Name of the file in the data directory that says whose it is.
const ORGANISM_FILE: &str = "organism";

pub(super) struct Node;

impl Service for Node {
    const NAME: &'static str = "redlatch-node";
    const ABOUT: &'static str = "One replica of the redlatch journal";
    const SETTING: &'static str = "listen.clients=127.0.0.1:7401";
    /// The store is closed before the process ends, because the engine's own threads abort a process that
    /// ends around them; a disk that hangs is not waited for longer than this.
    const CLOSE: Duration = Duration::from_secs(5);

    type Config = NodeConfig;
    type Files = NodeFiles;
    type Process = NodeProcess<RocksEngine>;

    fn settings(config: &NodeConfig) -> Settings<'_> {
        Settings {
            logs: &config.logs,
            diagnostics: config.listen.diagnostics,
        }
    }

    fn read(config: &NodeConfig) -> Result<NodeFiles, Failure> {
        Ok(NodeFiles::read(config)?)
    }

    fn credentials(files: &NodeFiles) -> &Credentials {
        &files.credentials
    }

    async fn start(
        config: NodeConfig,
        files: NodeFiles,
        diagnostics: Diagnostics,
        starting: &Condition,
    ) -> Result<Self::Process, Failure> {
        let (data, organism) = (config.data.clone(), files.organism);
        let engine = world::blocking(move || open(&data, organism)).await?;
        starting.unmet("waiting for a majority of the nodes");
        let (parties, credentials) = (config.parties(), files.credentials.clone());
        let name = credentials.identity().short();
        let mut process = NodeProcess::start(NodeParts {
            engine,
            genesis: files.genesis,
            keys: files.keys,
            number: config.number,
            rejoin: config.rejoin,
            credentials: files.credentials,
            peers_address: config.listen.peers,
            clients_address: config.listen.clients,
            peers: config.peers,
            clock: WallClock::system(),
            timing: config.timing.into(),
            limits: ProposerLimits::default(),
            metrics: diagnostics.metrics,
            readiness: diagnostics.readiness,
        })
        .await?;
        process.coordinate(&Dialer::new(credentials), &parties)?;
        tracing::info!(
            node = %name,
            %organism,
            peers = %process.peers_address(),
            clients = %process.clients_address(),
            build_id = build_id::build_id(),
            "running"
        );
        Ok(process)
    }

    async fn run(
        process: Self::Process,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), Failure> {
        Ok(process.run(stop).await?)
    }
}

/// The engine of a data directory, once it is this organism's.
fn open(data: &Path, organism: OrganismId) -> Result<RocksEngine, StartFailure> {
    claim_data(data, organism)?;
    let opened = RocksEngine::open(data, RocksOptions::default());
    opened.map_err(|fault| StartFailure::Raft(StartError::Storage(fault)))
}

/// Makes the data directory this organism's, or refuses one that is another's.
fn claim_data(data: &Path, organism: OrganismId) -> Result<(), StartFailure> {
    let fault = |source| StartFailure::File {
        what: "data directory",
        source,
    };
    if !data.is_dir() {
        file::create_private_folder(data).map_err(fault)?;
    }
    let path = data.join(ORGANISM_FILE);
    match file::create_file(&path, format!("{organism}\n").as_bytes(), Access::Public) {
        Ok(()) => return Ok(()),
        Err(FileError::Exists { .. }) => {}
        Err(other) => return Err(fault(other)),
    }
    let found = file::read_file(&path).map_err(fault)?;
    let found = String::from_utf8_lossy(&found).trim().to_owned();
    if found == organism.to_string() {
        Ok(())
    } else {
        Err(StartFailure::SecondGenesis {
            path: data.to_owned(),
            found,
            given: organism,
        })
    }
}

#[cfg(test)]
mod tests {
    use redlatch_link::diagnostics;
    use redlatch_link::exit::{ExitCode, Fails};
    use redlatch_types::Digest;

    use super::*;

    #[test]
    fn a_data_directory_belongs_to_the_first_genesis() {
        let folder = std::env::temp_dir().join(format!("redlatch-claim-{}", std::process::id()));
        let organism = |byte| OrganismId(Digest([byte; 32]));
        claim_data(&folder, organism(1)).expect("claimed");
        claim_data(&folder, organism(1)).expect("the same again");
        let refused = claim_data(&folder, organism(2)).expect_err("another");
        assert!(matches!(refused, StartFailure::SecondGenesis { .. }));
        assert_eq!(refused.code(), ExitCode::Refused);
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn m1_i6_livez_answers_while_the_nodes_own_threads_are_stuck() {
        let diagnostics = Diagnostics::default();
        let _unmet = diagnostics
            .readiness
            .condition("genesis", "not applied yet");
        let anywhere = "127.0.0.1:0".parse().expect("an address");
        let endpoint = diagnostics::start(anywhere, diagnostics).expect("listening");
        let (release, stuck) = std::sync::mpsc::channel::<()>();
        let node = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            // As an apply that never ends: the only thread of the runtime waits for ever.
            runtime.expect("a runtime").block_on(async { stuck.recv() })
        });
        assert_eq!(code(endpoint.address(), "/livez"), "200");
        assert_eq!(code(endpoint.address(), "/readyz"), "503");
        drop(release);
        assert!(node.join().expect("released").is_err());
    }

    fn code(address: std::net::SocketAddr, path: &str) -> String {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(address).expect("connected");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    }
}
