//! What a verifier brings to the shell that every process shares.

use std::future::Future;

use redlatch_link::diagnostics::{Condition, Diagnostics};
use redlatch_link::exit::Failure;
use redlatch_link::shell::{Service, Settings};
use redlatch_link::store::{DataFolder, RedbStore};
use redlatch_link::transport::Credentials;
use redlatch_link::{build_id, world};
use redlatch_verifier::config::VerifierFiles;
use redlatch_verifier::{StretchCost, VerifierConfig, VerifierParts, VerifierProcess};

pub(super) struct Verifier;

impl Service for Verifier {
    const NAME: &'static str = "redlatch-verifier";
    const ABOUT: &'static str = "One of the four verifiers of a redlatch organism";
    const SETTING: &'static str = "listen.ballots=127.0.0.1:7500";

    type Config = VerifierConfig;
    type Files = VerifierFiles;
    type Process = VerifierProcess;

    fn settings(config: &VerifierConfig) -> Settings<'_> {
        Settings {
            logs: &config.logs,
            diagnostics: config.listen.diagnostics,
        }
    }

    fn read(config: &VerifierConfig) -> Result<VerifierFiles, Failure> {
        Ok(VerifierFiles::read(config)?)
    }

    fn credentials(files: &VerifierFiles) -> &Credentials {
        &files.credentials
    }

    async fn start(
        config: VerifierConfig,
        files: VerifierFiles,
        diagnostics: Diagnostics,
        _: &Condition,
    ) -> Result<VerifierProcess, Failure> {
        let data = config.data;
        let store = world::blocking(move || RedbStore::open(DataFolder::open(&data)?)).await?;
        let name = files.credentials.identity().short();
        let process = VerifierProcess::start(VerifierParts {
            store,
            genesis: files.genesis,
            policy: files.policy,
            vote_key: files.vote_key,
            passphrase: files.passphrase,
            stretch: StretchCost::STANDARD,
            panel: files.panel,
            credentials: files.credentials,
            address: config.listen.ballots,
            nodes: config.nodes,
            fellows: config.fellows,
            rng: world::rng(),
            metrics: diagnostics.metrics,
            readiness: diagnostics.readiness,
        })
        .await?;
        tracing::info!(
            verifier = %name,
            generation = process.generation(),
            ballots = %process.address(),
            build_id = build_id::build_id(),
            "running"
        );
        Ok(process)
    }

    async fn run(
        process: VerifierProcess,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), Failure> {
        Ok(process.run(stop).await?)
    }
}
