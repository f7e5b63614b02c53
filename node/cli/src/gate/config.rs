//! What a gate is told, and the gate that follows from it once everything fits together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redlatch_link::config::{self, Sources};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::nodes::{self, Nodes, rosters};
use redlatch_link::transport::{Credentials, Dialer, Tls};
use redlatch_link::{file, keys};
use redlatch_types::checkpoint::Stage;
use redlatch_types::lineage::Lineage;
use redlatch_types::policy::Policy;
use redlatch_types::records::{ActorKind, ClientIdentityV1, GenesisV1, OrganismKind, RosterV1};
use redlatch_types::{Canonical, Envelope, Name, NodeId, PublicKey, SigningKey};
use serde::{Deserialize, Serialize};

use super::core::binding::Post;
use super::hold_line::HoldLine;
use crate::output::note;

/// How long the nodes may take to show changes of the roster before the gate goes on with what it knows.
const FOLLOW_MAX: Duration = Duration::from_secs(2);

/// A gate's configuration file. Paths are relative to the folder of the file, because a hook runs in the
/// repository. Environment variables do not count: a pusher may have a say in them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct GateConfig {
    /// The repository, by the name under which grants know it.
    pub(crate) repository: String,
    /// Folder of its state; made if it does not exist.
    pub(crate) state: PathBuf,
    /// The root-signed genesis: where the chain of rosters begins, and who the enrolled subjects are.
    pub(crate) genesis: PathBuf,
    /// The trust policy that receipts must meet.
    pub(crate) policy: PathBuf,
    /// The gate's signing key.
    pub(crate) signing_key: PathBuf,
    /// How old the nodes' statuses may be when the ref moves, in milliseconds.
    pub(crate) freshness_ms: u64,
    /// How long the nodes may take to answer anything else, in milliseconds.
    pub(crate) deadline_ms: u64,
    /// `host:port` of the actuator's hold line; empty asks the nodes alone.
    pub(crate) hold_line: String,
    /// `host:port` of every node's client listener, by name; of nodes that join later, too.
    pub(crate) nodes: BTreeMap<String, String>,
    /// Certificate, authority, pins.
    pub(crate) tls: Tls,
}

impl Default for GateConfig {
    fn default() -> GateConfig {
        GateConfig {
            repository: String::new(),
            state: PathBuf::new(),
            genesis: PathBuf::new(),
            policy: PathBuf::new(),
            signing_key: PathBuf::new(),
            freshness_ms: 2_000,
            deadline_ms: 10_000,
            hold_line: String::new(),
            nodes: BTreeMap::new(),
            tls: Tls::default(),
        }
    }
}

/// A gate that is ready to ask and to judge.
pub(crate) struct Gate {
    /// Who it is.
    pub(crate) post: Post,
    /// The genesis it was given.
    pub(crate) genesis: GenesisV1,
    /// What receipts must meet.
    pub(crate) policy: Policy,
    /// The cluster.
    pub(crate) nodes: Nodes,
    /// The actuator, if it is asked as well.
    pub(crate) hold_line: Option<HoldLine>,
    /// The nodes that count.
    pub(crate) voters: BTreeMap<String, NodeId>,
    /// Folder of its state.
    pub(crate) state: PathBuf,
    /// How old statuses may be.
    pub(crate) freshness: Duration,
    /// How long other answers may take.
    pub(crate) deadline: Duration,
    key: SigningKey,
    dialer: Dialer,
    /// The policy it was given.
    given: Policy,
    /// `host:port` of every node that it may have to ask.
    addresses: BTreeMap<String, String>,
    /// `host:port` of the actuator; empty asks the nodes alone.
    actuator: String,
    /// Rosters from the genesis to the last one proven.
    rosters: Lineage,
}

/// Whom a gate asks under one roster.
struct Around {
    policy: Policy,
    nodes: Nodes,
    hold_line: Option<HoldLine>,
    voters: BTreeMap<String, NodeId>,
}

impl Gate {
    /// As [`Gate::load`], under the roster in force as far as any node proves it. If no node answers, the one
    /// that was known before stands: the nodes' statuses say whether it is in force.
    ///
    /// # Errors
    /// [`Failure`] as from [`Gate::load`], for a second history, and for a voter without an address.
    pub(crate) async fn open(path: &Path) -> Result<Gate, Failure> {
        let mut gate = Gate::load(path)?;
        match gate.follow().await {
            Err(failure) if is_for_good(failure.code) => Err(failure),
            Ok(_) | Err(_) => Ok(gate),
        }
    }

    /// Follows the changes of the roster as far as any node proves them; says whether there were any. They are
    /// remembered before they count.
    ///
    /// # Errors
    /// [`Failure`] if no node answers, for a second history, and for a voter without an address.
    pub(crate) async fn follow(&mut self) -> Result<bool, Failure> {
        let mut rosters = self.rosters.clone();
        let shown =
            rosters::follow(&self.dialer, &self.addresses, &mut rosters, FOLLOW_MAX).await?;
        for (node, why) in &shown.refused {
            note(&format!(
                "redlatch: {node} shows a change of the roster that does not hold: {why}"
            ));
        }
        if shown.taken == 0 {
            return Ok(false);
        }
        let history = self.given.origin().history;
        crate::rosters::keep(&self.state, &self.genesis, history, &rosters)?;
        let around = around(
            &self.dialer,
            &rosters,
            &self.given,
            &self.addresses,
            &self.actuator,
        )?;
        self.rosters = rosters;
        Around {
            policy: self.policy,
            nodes: self.nodes,
            hold_line: self.hold_line,
            voters: self.voters,
        } = around;
        Ok(true)
    }

    /// The roster that it knows.
    pub(crate) fn roster(&self) -> &RosterV1 {
        self.rosters.roster()
    }

    /// Reads the configuration and everything it names.
    ///
    /// # Errors
    /// [`Failure`] with the first thing that is missing or does not fit the rest.
    pub(crate) fn load(path: &Path) -> Result<Gate, Failure> {
        let config = read(path)?;
        let genesis = read_genesis(&config.genesis)?;
        let credentials = Credentials::load(&config.tls)?;
        let organism = genesis.organism_id();
        if credentials.organism() != organism {
            return Err(unfit("certificate and genesis are of different organisms"));
        }
        let policy = read_policy(&config.policy)?;
        let stage = match genesis.kind {
            OrganismKind::Production => Stage::Production,
            OrganismKind::Development => Stage::Development,
        };
        if policy.origin().organism != organism || policy.origin().stage != stage {
            return Err(unfit(
                "the trust policy is for another organism than the genesis",
            ));
        }
        let key = keys::load_key(&config.signing_key)?;
        let repository = Name::new(&config.repository)
            .map_err(|error| unfit(&format!("repository: {error}")))?;
        let subject = enrolled(
            &genesis.subjects,
            &key.public_key(),
            &[ActorKind::Gate],
            &repository,
        )
        .ok_or_else(|| unfit("signing_key is of no gate enrolled for this repository"))?;
        let post = Post {
            organism,
            repository,
            subject: subject.subject_id.clone(),
        };
        let dialer = Dialer::new(credentials);
        let rosters = crate::rosters::read(&config.state, &genesis, policy.origin().history)?;
        let around = around(&dialer, &rosters, &policy, &config.nodes, &config.hold_line)?;
        Ok(Gate {
            post,
            policy: around.policy,
            nodes: around.nodes,
            hold_line: around.hold_line,
            voters: around.voters,
            genesis,
            state: config.state,
            freshness: Duration::from_millis(config.freshness_ms),
            deadline: Duration::from_millis(config.deadline_ms),
            key,
            dialer,
            given: policy,
            addresses: config.nodes,
            actuator: config.hold_line,
            rosters,
        })
    }

    /// The gate's signing key.
    pub(crate) fn key(&self) -> &SigningKey {
        &self.key
    }
}

/// The file, with every path made relative to its folder.
fn read(path: &Path) -> Result<GateConfig, Failure> {
    let mut config: GateConfig = config::load(&Sources::none().file(path))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let required = [
        ("state", &mut config.state),
        ("genesis", &mut config.genesis),
        ("policy", &mut config.policy),
        ("signing_key", &mut config.signing_key),
        ("tls.certificate", &mut config.tls.certificate),
        ("tls.key", &mut config.tls.key),
        ("tls.authority", &mut config.tls.authority),
    ];
    for (key, file) in required {
        if file.as_os_str().is_empty() {
            return Err(unfit(&format!("`{key}` is not set")));
        }
        *file = folder.join(&*file);
    }
    if config.freshness_ms == 0 || config.freshness_ms > 60_000 || config.deadline_ms == 0 {
        return Err(unfit(
            "freshness_ms is 1 to 60000 and deadline_ms at least 1",
        ));
    }
    Ok(config)
}

/// A root-signed genesis.
///
/// # Errors
/// [`Failure`] if the file holds none.
pub(crate) fn read_genesis(path: &Path) -> Result<GenesisV1, Failure> {
    let bytes = file::read_file(path)?;
    let refuse = || {
        unfit(&format!(
            "{} is not a genesis signed by its root",
            path.display()
        ))
    };
    let envelope = Envelope::from_canonical(&bytes).map_err(|_| refuse())?;
    let signed = envelope.open::<GenesisV1>().map_err(|_| refuse())?;
    let genesis = signed.record();
    let by_root = *signed.key() == genesis.kernel.pinned_external_root_key
        && *signed.scope() == genesis.scope();
    by_root.then(|| genesis.clone()).ok_or_else(refuse)
}

fn read_policy(path: &Path) -> Result<Policy, Failure> {
    let bytes = file::read_file(path)?;
    Policy::parse(&bytes)
        .map_err(|error| unfit(&format!("trust policy {}: {error}", path.display())))
}

/// The live subject of a key, if it is one of `kinds` and enrolled for the repository (M1-I26).
pub(crate) fn enrolled<'a>(
    subjects: &'a [ClientIdentityV1],
    key: &PublicKey,
    kinds: &[ActorKind],
    repository: &Name,
) -> Option<&'a ClientIdentityV1> {
    subjects.iter().find(|subject| {
        subject.public_key == *key
            && kinds.contains(&subject.actor_kind)
            && subject.revoked_at_optional.is_none()
            && subject.scopes.contains(repository)
    })
}

/// Whether the gate must not go on with what it knew.
fn is_for_good(code: ExitCode) -> bool {
    matches!(code, ExitCode::Error | ExitCode::Usage)
}

/// Whom the gate asks, under the last of these rosters.
fn around(
    dialer: &Dialer,
    rosters: &Lineage,
    given: &Policy,
    addresses: &BTreeMap<String, String>,
    actuator: &str,
) -> Result<Around, Failure> {
    let roster = rosters.roster();
    let policy = rosters.policy(given).map_err(|error| {
        unfit(&error.to_string())
            .hint("the trust policy must be one of this organism: redlatch trust-policy update")
    })?;
    let hold_line = match actuator {
        "" => None,
        address => Some(HoldLine::new(dialer, roster, address).map_err(|what| unfit(&what))?),
    };
    Ok(Around {
        policy,
        nodes: Nodes::new(dialer, &nodes::members(roster, addresses))?,
        hold_line,
        voters: voters(roster, addresses)?,
    })
}

/// The roster's voters. Every one must have an address: one left out could be the one that knows of a RED.
fn voters(
    roster: &RosterV1,
    addresses: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, NodeId>, Failure> {
    let voters: BTreeMap<String, NodeId> = roster
        .voters()
        .map(|node| (node.name.to_string(), node.node_id))
        .collect();
    match voters.keys().find(|name| !addresses.contains_key(*name)) {
        Some(missing) => Err(unfit(&format!(
            "`nodes.{missing}` is not set; every voter of roster {} is asked",
            roster.roster_epoch
        ))),
        None => Ok(voters),
    }
}

fn unfit(what: &str) -> Failure {
    Failure::new(ExitCode::Usage, format!("gate configuration: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_file_is_valid() {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/config/gate.toml");
        let config: GateConfig = config::load(&Sources::none().file(sample)).expect("valid");
        assert_eq!(config.nodes.len(), 3);
        assert_eq!(config.freshness_ms, GateConfig::default().freshness_ms);
    }
}
