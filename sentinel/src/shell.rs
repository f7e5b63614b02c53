//! What a sentinel brings to the shell that every process shares.

use std::future::Future;

use redlatch_link::diagnostics::{Condition, Diagnostics};
use redlatch_link::exit::Failure;
use redlatch_link::shell::{Service, Settings};
use redlatch_link::store::{DataFolder, RedbStore};
use redlatch_link::transport::Credentials;
use redlatch_link::{build_id, world};
use redlatch_sentinel::config::SentinelFiles;
use redlatch_sentinel::{SentinelConfig, SentinelParts, SentinelProcess};

pub(super) struct Sentinel;

impl Service for Sentinel {
    const NAME: &'static str = "redlatch-sentinel";
    const ABOUT: &'static str = "The sentinel of a redlatch organism";
    const SETTING: &'static str = "listen.service=127.0.0.1:7600";

    type Config = SentinelConfig;
    type Files = SentinelFiles;
    type Process = SentinelProcess;

    fn settings(config: &SentinelConfig) -> Settings<'_> {
        Settings {
            logs: &config.logs,
            diagnostics: config.listen.diagnostics,
        }
    }

    fn read(config: &SentinelConfig) -> Result<SentinelFiles, Failure> {
        Ok(SentinelFiles::read(config)?)
    }

    fn credentials(files: &SentinelFiles) -> &Credentials {
        &files.credentials
    }

    async fn start(
        config: SentinelConfig,
        files: SentinelFiles,
        diagnostics: Diagnostics,
        _: &Condition,
    ) -> Result<SentinelProcess, Failure> {
        let data = config.data;
        let store = world::blocking(move || RedbStore::open(DataFolder::open(&data)?)).await?;
        let name = files.credentials.identity().short();
        let process = SentinelProcess::start(SentinelParts {
            store,
            genesis: files.genesis,
            policy: files.policy,
            key: files.key,
            rules: files.rules,
            verdict_ttl_ms: config.rules.verdict_ttl_ms,
            credentials: files.credentials,
            address: config.listen.service,
            nodes: config.nodes,
            actuator: config.actuator,
            rng: world::rng(),
            metrics: diagnostics.metrics,
            readiness: diagnostics.readiness,
        })
        .await?;
        tracing::info!(
            sentinel = %name,
            generation = process.generation(),
            service = %process.address(),
            build_id = build_id::build_id(),
            "running"
        );
        Ok(process)
    }

    async fn run(
        process: SentinelProcess,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), Failure> {
        Ok(process.run(stop).await?)
    }
}
