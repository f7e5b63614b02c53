//! What a verifier is told: its configuration file, and the files that it names.
//!
//! Its rules are here and nowhere else: no node, fellow or proposer can change them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redlatch_link::logs::Logs;
use redlatch_link::passphrase::Passphrase;
use redlatch_link::transport::{Credentials, Tls};
use redlatch_link::{file, keys};
use redlatch_types::policy::Policy;
use redlatch_types::records::GenesisV1;
use redlatch_types::{Canonical, Envelope, Name, OrganismId, PublicKey, SigningKey};
use serde::{Deserialize, Serialize};

use crate::evaluate::evidence::EvidenceEvaluator;
use crate::evaluate::git::{GitEvaluator, Limits, Quarantine, QuarantineConfig, Rules};
use crate::evaluate::{Evaluator, Panel};
use crate::start::StartFailure;

/// Everything a verifier is told. Paths are relative to the folder that the process runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct VerifierConfig {
    /// Folder of its store and its clones; made if it does not exist.
    pub data: PathBuf,
    /// The root-signed genesis.
    pub genesis: PathBuf,
    /// The trust policy that receipts must meet.
    pub policy: PathBuf,
    /// `host:port` of the nodes' client listeners, by name.
    pub nodes: BTreeMap<String, String>,
    /// `host:port` of the three other verifiers, by name.
    pub fellows: BTreeMap<String, String>,
    /// Its signing keys.
    pub keys: KeyFiles,
    /// Where it listens.
    pub listen: Listen,
    /// How it judges.
    pub evaluate: EvaluateConfig,
    /// What it writes to its log.
    pub logs: Logs,
    /// Certificate, authority, pins.
    pub tls: Tls,
}

/// Where the verifier's signing keys are, and what opens the one that the four hold together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct KeyFiles {
    /// File of the key that signs votes, commitments, shares and ceremony messages: PKCS#8 PEM, readable by its
    /// owner alone.
    pub vote: PathBuf,
    /// File of the passphrase of its key shares, readable by its owner alone.
    pub share_passphrase: PathBuf,
    /// Name of the credential in which the service manager hands that passphrase over, in the file's place.
    pub share_credential: String,
}

/// Where the verifier listens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Listen {
    /// Nodes and fellows.
    pub ballots: SocketAddr,
    /// Health and metrics, for this machine alone.
    pub diagnostics: SocketAddr,
}

impl Default for Listen {
    fn default() -> Listen {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Listen {
            ballots: loopback(7500),
            diagnostics: loopback(7501),
        }
    }
}

/// Which evaluators look, and how long each may take.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct EvaluateConfig {
    /// `git` and `evidence`. None rejects every intent.
    pub evaluators: Vec<String>,
    /// How long each may take, in milliseconds; then it rejects.
    pub deadline_ms: u64,
    /// Rules about the change.
    pub git: GitConfig,
    /// Rules about evidence.
    pub evidence: EvidenceConfig,
}

impl Default for EvaluateConfig {
    fn default() -> EvaluateConfig {
        EvaluateConfig {
            evaluators: vec!["git".into(), "evidence".into()],
            deadline_ms: 20_000,
            git: GitConfig::default(),
            evidence: EvidenceConfig::default(),
        }
    }
}

/// The evaluator `git`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct GitConfig {
    /// The repository, by the name under which grants know it.
    pub repository: String,
    /// Path or URL that candidates and evidence are fetched from.
    pub source: String,
    /// Folders where git and its helpers are looked for, colon-separated.
    pub search_path: String,
    /// Protocols that a fetch may use, colon-separated.
    pub protocols: String,
    /// Patterns of paths that may change.
    pub allowed_paths: Vec<String>,
    /// Patterns of paths that may not.
    pub forbidden_paths: Vec<String>,
    /// Largest changed file, in bytes.
    pub file_bytes_max: u64,
    /// Largest sum of all changed files, in bytes.
    pub changed_bytes_max: u64,
    /// Most changed paths.
    pub changed_files_max: u64,
    /// Most commits between the old and the new head.
    pub commits_max: u64,
}

impl Default for GitConfig {
    fn default() -> GitConfig {
        GitConfig {
            repository: String::new(),
            source: String::new(),
            search_path: "/usr/local/bin:/usr/bin:/bin".into(),
            protocols: "file:ssh:https".into(),
            allowed_paths: vec!["**".into()],
            forbidden_paths: Vec::new(),
            file_bytes_max: 1 << 20,
            changed_bytes_max: 8 << 20,
            changed_files_max: 500,
            commits_max: 1_000,
        }
    }
}

/// The evaluator `evidence`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct EvidenceConfig {
    /// Public keys of the runners whose gate receipts count, in hex.
    pub runner_keys: Vec<String>,
    /// How many passed receipts are needed.
    pub receipts_min: usize,
}

impl Default for EvidenceConfig {
    fn default() -> EvidenceConfig {
        EvidenceConfig {
            runner_keys: Vec::new(),
            receipts_min: 1,
        }
    }
}

/// What the configuration names, read and checked against each other before anything starts.
pub struct VerifierFiles {
    /// Certificate, key, authority, pins.
    pub credentials: Credentials,
    /// The root-signed genesis.
    pub genesis: Envelope,
    /// What receipts must meet.
    pub policy: Policy,
    /// Signs votes.
    pub vote_key: SigningKey,
    /// Opens its key shares.
    pub passphrase: Passphrase,
    /// How it judges.
    pub panel: Panel,
}

impl VerifierFiles {
    /// Reads everything.
    ///
    /// # Errors
    /// [`StartFailure`] with the first thing that is missing or does not fit the rest.
    pub fn read(config: &VerifierConfig) -> Result<VerifierFiles, StartFailure> {
        let paths = [
            ("data", &config.data),
            ("genesis", &config.genesis),
            ("policy", &config.policy),
            ("keys.vote", &config.keys.vote),
        ];
        for (key, path) in paths {
            if path.as_os_str().is_empty() {
                return Err(StartFailure::setting(key, "not set"));
            }
        }
        let credentials = Credentials::load(&config.tls)?;
        let genesis = read_genesis(config)?;
        let signed = genesis.open::<GenesisV1>();
        let signed = signed.map_err(|_| not_a_genesis(config))?;
        let organism = signed.record().organism_id();
        let path = &config.keys.vote;
        let vote_key = keys::load_key(path).map_err(|source| StartFailure::Key {
            key: "keys.vote",
            source,
        })?;
        Ok(VerifierFiles {
            credentials,
            genesis,
            policy: read_policy(config)?,
            vote_key,
            passphrase: passphrase(&config.keys)?,
            panel: panel(config, organism)?,
        })
    }
}

/// The passphrase of the shares, from one of the two places.
fn passphrase(keys: &KeyFiles) -> Result<Passphrase, StartFailure> {
    let (file, credential) = (&keys.share_passphrase, &keys.share_credential);
    let (key, read) = match (file.as_os_str().is_empty(), credential.is_empty()) {
        (false, true) => ("keys.share_passphrase", Passphrase::read(file)),
        (true, false) => (
            "keys.share_credential",
            Passphrase::of_credential(credential),
        ),
        (true, true) => {
            let what = "not set, and neither is keys.share_credential";
            return Err(StartFailure::setting("keys.share_passphrase", what));
        }
        (false, false) => {
            let what = "keys.share_passphrase is set as well; one of them is enough";
            return Err(StartFailure::setting("keys.share_credential", what));
        }
    };
    read.map_err(|source| StartFailure::Passphrase { key, source })
}

fn not_a_genesis(config: &VerifierConfig) -> StartFailure {
    StartFailure::NotAGenesis {
        path: config.genesis.clone(),
    }
}

fn read_genesis(config: &VerifierConfig) -> Result<Envelope, StartFailure> {
    let what = "genesis";
    let bytes =
        file::read_file(&config.genesis).map_err(|source| StartFailure::File { what, source })?;
    Envelope::from_canonical(&bytes).map_err(|_| not_a_genesis(config))
}

fn read_policy(config: &VerifierConfig) -> Result<Policy, StartFailure> {
    let what = "trust policy";
    let bytes =
        file::read_file(&config.policy).map_err(|source| StartFailure::File { what, source })?;
    Policy::parse(&bytes)
        .map_err(|error| StartFailure::setting("policy", format!("no trust policy: {error}")))
}

/// The evaluators that the configuration names.
fn panel(config: &VerifierConfig, organism: OrganismId) -> Result<Panel, StartFailure> {
    let evaluate = &config.evaluate;
    if evaluate.deadline_ms == 0 {
        return Err(StartFailure::setting(
            "evaluate.deadline_ms",
            "must be above 0",
        ));
    }
    let quarantine = Arc::new(Quarantine::new(QuarantineConfig {
        folder: config.data.join("quarantine"),
        source: evaluate.git.source.clone(),
        search_path: evaluate.git.search_path.clone(),
        protocols: evaluate.git.protocols.clone(),
    }));
    let mut evaluators: Vec<Arc<dyn Evaluator>> = Vec::new();
    for name in &evaluate.evaluators {
        evaluators.push(match name.as_str() {
            "git" => Arc::new(git(&evaluate.git, &quarantine)?),
            "evidence" => Arc::new(evidence(evaluate, &quarantine, organism)?),
            _ => {
                let what = format!("{name} is not one of git, evidence");
                return Err(StartFailure::setting("evaluate.evaluators", what));
            }
        });
    }
    if evaluators.is_empty() {
        tracing::warn!("no evaluator is configured: every intent will be rejected");
    }
    let deadline = Duration::from_millis(evaluate.deadline_ms);
    Ok(Panel::new(evaluators, deadline))
}

fn git(config: &GitConfig, quarantine: &Arc<Quarantine>) -> Result<GitEvaluator, StartFailure> {
    check_source(config)?;
    let repository = Name::new(&config.repository)
        .map_err(|error| StartFailure::setting("evaluate.git.repository", error.to_string()))?;
    let limits = Limits {
        file_bytes_max: config.file_bytes_max,
        changed_bytes_max: config.changed_bytes_max,
        changed_files_max: config.changed_files_max,
        commits_max: config.commits_max,
    };
    let rules = Rules::new(&config.allowed_paths, &config.forbidden_paths, limits)
        .map_err(|error| StartFailure::setting("evaluate.git", error.to_string()))?;
    Ok(GitEvaluator::new(Arc::clone(quarantine), repository, rules))
}

/// A source that git would take for an option is none.
fn check_source(config: &GitConfig) -> Result<(), StartFailure> {
    let key = "evaluate.git.source";
    if config.source.is_empty() {
        return Err(StartFailure::setting(key, "not set"));
    }
    if config.source.starts_with('-') || config.source.contains("::") {
        return Err(StartFailure::setting(key, "not a path or URL"));
    }
    Ok(())
}

fn evidence(
    config: &EvaluateConfig,
    quarantine: &Arc<Quarantine>,
    organism: OrganismId,
) -> Result<EvidenceEvaluator, StartFailure> {
    check_source(&config.git)?;
    let key = "evaluate.evidence.runner_keys";
    let mut runners = BTreeSet::new();
    for text in &config.evidence.runner_keys {
        let runner: PublicKey = text
            .parse()
            .map_err(|_| StartFailure::setting(key, format!("{text} is no public key")))?;
        redlatch_types::sign::check_key(&runner)
            .map_err(|error| StartFailure::setting(key, format!("{text}: {error}")))?;
        if !runners.insert(runner) {
            return Err(StartFailure::setting(key, format!("{text} stands twice")));
        }
    }
    if runners.is_empty() {
        return Err(StartFailure::setting(
            key,
            "not set; without a runner nothing is evidence",
        ));
    }
    let minimum = config.evidence.receipts_min;
    Ok(EvidenceEvaluator::new(
        Arc::clone(quarantine),
        organism,
        runners,
        minimum,
    ))
}

#[cfg(all(test, not(madsim)))]
mod tests {
    use redlatch_link::config::{Sources, load};

    use super::*;
    use crate::evaluate::testing;

    fn config() -> VerifierConfig {
        let mut config = VerifierConfig::default();
        config.evaluate.git.repository = "repo".into();
        config.evaluate.git.source = "/srv/repo.git".into();
        let runner = SigningKey::from_seed([7; 32]).public_key();
        config.evaluate.evidence.runner_keys = vec![runner.to_string()];
        config
    }

    #[test]
    fn each_unfit_setting_is_named() {
        assert!(panel(&config(), testing::scope().organism_id).is_ok());
        type Change = fn(&mut EvaluateConfig);
        let cases: [(Change, &str); 9] = [
            (|it| it.deadline_ms = 0, "evaluate.deadline_ms"),
            (
                |it| it.evaluators.push("oracle".into()),
                "evaluate.evaluators",
            ),
            (|it| it.git.source.clear(), "evaluate.git.source"),
            (
                |it| it.git.source = "--upload-pack=x".into(),
                "evaluate.git.source",
            ),
            (
                |it| it.git.source = "ext::sh -c x".into(),
                "evaluate.git.source",
            ),
            (
                |it| it.git.repository = "No Name".into(),
                "evaluate.git.repository",
            ),
            (
                |it| it.git.allowed_paths.push("../x".into()),
                "evaluate.git",
            ),
            (
                |it| it.evidence.runner_keys.clear(),
                "evaluate.evidence.runner_keys",
            ),
            (
                |it| it.evidence.runner_keys.push("00".into()),
                "evaluate.evidence.runner_keys",
            ),
        ];
        for (at, (change, key)) in cases.into_iter().enumerate() {
            let mut changed = config();
            change(&mut changed.evaluate);
            let failure = panel(&changed, testing::scope().organism_id)
                .err()
                .expect("refused");
            assert!(
                failure.to_string().starts_with(&format!("`{key}`")),
                "{at}: {failure}"
            );
        }
    }

    #[test]
    fn fault_043_a_runner_that_stands_twice_and_fault_044_a_weak_key_are_refused() {
        let mut twice = config();
        let runner = twice.evaluate.evidence.runner_keys[0].clone();
        twice.evaluate.evidence.runner_keys.push(runner);
        assert!(panel(&twice, testing::scope().organism_id).is_err());
        let mut weak = config();
        weak.evaluate.evidence.runner_keys = vec![format!("01{}", "00".repeat(31))];
        assert!(panel(&weak, testing::scope().organism_id).is_err());
    }

    #[test]
    fn the_passphrase_comes_from_one_place() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("passphrase");
        file::create_file(&path, b"correct horse battery", file::Access::Private).expect("written");
        let keys = |file: &std::path::Path, credential: &str| KeyFiles {
            share_passphrase: file.to_owned(),
            share_credential: credential.to_owned(),
            ..KeyFiles::default()
        };
        let nowhere = std::path::Path::new("");
        assert!(passphrase(&keys(&path, "")).is_ok());
        let cases = [
            (keys(nowhere, ""), "`keys.share_passphrase`: not set"),
            (keys(&path, "share"), "`keys.share_credential`: "),
            (
                keys(nowhere, "../share"),
                "passphrase keys.share_credential: ",
            ),
            (
                keys(&folder.path().join("none"), ""),
                "passphrase keys.share_passphrase: ",
            ),
        ];
        for (keys, text) in cases {
            let failure = passphrase(&keys).err().expect("refused").to_string();
            assert!(failure.starts_with(text), "{failure}");
        }
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let sources = Sources::none().flag("evaluate.git.allowed_path", "x");
        let error = load::<VerifierConfig>(&sources)
            .expect_err("unknown")
            .to_string();
        assert!(error.contains("evaluate.git.allowed_paths"), "{error}");
    }
}
