//! What an actuator brings to the shell that every process shares.

use std::future::Future;

use redlatch_actuator::config::ActuatorFiles;
use redlatch_actuator::{ActuatorConfig, ActuatorParts, ActuatorProcess};
use redlatch_link::diagnostics::{Condition, Diagnostics};
use redlatch_link::exit::Failure;
use redlatch_link::shell::{Service, Settings};
use redlatch_link::store::{DataFolder, RedbStore};
use redlatch_link::transport::Credentials;
use redlatch_link::{build_id, world};

pub(super) struct Actuator;

impl Service for Actuator {
    const NAME: &'static str = "redlatch-actuator";
    const ABOUT: &'static str = "The actuator of a redlatch organism";
    const SETTING: &'static str = "listen.red=127.0.0.1:7700";

    type Config = ActuatorConfig;
    type Files = ActuatorFiles;
    type Process = ActuatorProcess;

    fn settings(config: &ActuatorConfig) -> Settings<'_> {
        Settings {
            logs: &config.logs,
            diagnostics: config.listen.diagnostics,
        }
    }

    fn read(config: &ActuatorConfig) -> Result<ActuatorFiles, Failure> {
        Ok(ActuatorFiles::read(config)?)
    }

    fn credentials(files: &ActuatorFiles) -> &Credentials {
        &files.credentials
    }

    async fn start(
        config: ActuatorConfig,
        files: ActuatorFiles,
        diagnostics: Diagnostics,
        _: &Condition,
    ) -> Result<ActuatorProcess, Failure> {
        let data = config.data;
        let store = world::blocking(move || RedbStore::open(DataFolder::open(&data)?)).await?;
        let name = files.credentials.identity().short();
        let process = ActuatorProcess::start(ActuatorParts {
            store,
            genesis: files.genesis,
            policy: files.policy,
            key: files.key,
            credentials: files.credentials,
            red_line: config.listen.red,
            hold_line: config.listen.hold,
            nodes: config.nodes,
            rng: world::rng(),
            metrics: diagnostics.metrics,
            readiness: diagnostics.readiness,
        })
        .await?;
        tracing::info!(
            actuator = %name,
            red = %process.red_line(),
            hold = %process.hold_line(),
            build_id = build_id::build_id(),
            "running"
        );
        Ok(process)
    }

    async fn run(
        process: ActuatorProcess,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), Failure> {
        Ok(process.run(stop).await?)
    }
}
