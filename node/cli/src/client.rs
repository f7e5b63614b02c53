//! Who this process acts as: the client configuration, its keys, the cluster it calls, its signed commands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand_core::RngCore;
use redlatch_link::config::{self, Sources};
use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::nodes::{self, Again, CallError, Member, Nodes, Submitted, rosters};
use redlatch_link::transport::{Credentials, Dialer, Link, Tls};
use redlatch_link::{PeerIdentity, Role, keys, world};
use redlatch_node::config::read_genesis;
use redlatch_proto::v1::leaf_at::At;
use redlatch_types::checkpoint::Origin;
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event, Reply};
use redlatch_types::lineage::Lineage;
use redlatch_types::receipt::{Receipt, verify_for};
use redlatch_types::records::{
    CausalEnvelopeV1, ChallengeRequestV1, ClientIdentityV1, GenesisV1, ProposalV1, RosterNode,
    SovereignActionIntentV1, StatusV1, WithdrawalV1,
};
use redlatch_types::{
    Bytes, Canonical, Digest, Envelope, EventId, NodeId, Record, Refusal, Scope, Signed, SigningKey,
};
use serde::{Deserialize, Serialize};

use crate::gate::hold_line::HoldLine;
use crate::in_force::InForce;
use crate::output::note;
use crate::{Common, receipt};

/// Variables with the product's prefix that are no keys of a configuration.
pub(crate) const RESERVED: &[&str] = &["REDLATCH_DIR"];

/// How long the nodes may take to show changes of the roster before a command goes on without.
const FOLLOW_MAX: Duration = Duration::from_secs(2);

/// How often a command is stamped anew because state time had stood still.
const STAMPS_MAX: usize = 3;

/// A client's configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct ClientConfig {
    /// The root-signed genesis: who the nodes are.
    pub(crate) genesis: PathBuf,
    /// The trust policy that receipts are verified by.
    pub(crate) policy: PathBuf,
    /// The subject's signing key.
    pub(crate) signing_key: PathBuf,
    /// `host:port` of the nodes' client listeners, by name.
    pub(crate) nodes: BTreeMap<String, String>,
    /// `host:port` of the sentinel, for the safety officer.
    pub(crate) sentinel: String,
    /// `host:port` of the actuator's hold line.
    pub(crate) actuator: String,
    /// A person's authenticator made of software; development organisms only.
    pub(crate) authenticator: PathBuf,
    /// Folder in which the changes of the roster are remembered; empty remembers none.
    pub(crate) state: PathBuf,
    /// Certificate, authority, pins.
    pub(crate) tls: Tls,
}

/// The cluster, called as one subject.
pub(crate) struct Client {
    pub(crate) nodes: Nodes,
    pub(crate) genesis: GenesisV1,
    pub(crate) deadline: Duration,
    dialer: Dialer,
    members: Vec<Member>,
    /// `host:port` of every node, by name; of those that the genesis does not name, too.
    addresses: BTreeMap<String, String>,
    /// Rosters from the genesis to the last one proven.
    rosters: Lineage,
    history: u64,
    state: PathBuf,
    signing_key: PathBuf,
    policy: PathBuf,
    authenticator: PathBuf,
    sentinel: String,
    actuator: String,
}

/// A subject that signs.
pub(crate) struct Signer {
    /// As it is enrolled.
    pub(crate) subject: ClientIdentityV1,
    key: SigningKey,
}

/// When a command is made and how long it is accepted; state time, from a signed status (D7).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) scope: Scope,
    pub(crate) state_time: u64,
    pub(crate) expires_at: u64,
}

impl Client {
    /// Reads the configuration of `--config`, or of `--dir` as `subject` unless `--as` says otherwise.
    ///
    /// # Errors
    /// [`Failure`] that names the file or key at fault.
    pub(crate) fn open(common: &Common, subject: &str) -> Result<Client, Failure> {
        let file = match (&common.config, &common.dir) {
            (Some(file), _) => Some(file.clone()),
            (None, Some(dir)) => {
                let name = common.subject.as_deref().unwrap_or(subject);
                Some(dir.join("clients").join(name).join("client.toml"))
            }
            (None, None) => None,
        };
        let sources = Sources::of_process(file.as_deref(), RESERVED)?;
        let config: ClientConfig = config::load(&sources)?;
        if config.nodes.is_empty() || config.genesis.as_os_str().is_empty() {
            let text = "no configuration: neither nodes nor genesis are named";
            return Err(Failure::new(ExitCode::Usage, text)
                .hint("name one with --config PATH, or a development organism with --dir DIR"));
        }
        let genesis = genesis_of(&config)?;
        let dialer = Dialer::new(Credentials::load(&config.tls)?);
        // A policy that is no good is told by whatever needs it.
        let policy = receipt::policy(&config.policy).ok();
        let history = policy.map_or(0, |it| it.origin().history);
        let rosters = crate::rosters::read(&config.state, &genesis, history)?;
        let members = nodes::members(rosters.roster(), &config.nodes);
        Ok(Client {
            nodes: Nodes::new(&dialer, &members)?,
            genesis,
            deadline: Duration::from_secs(common.deadline),
            dialer,
            members,
            addresses: config.nodes,
            rosters,
            history,
            state: config.state,
            signing_key: config.signing_key,
            policy: config.policy,
            authenticator: config.authenticator,
            sentinel: config.sentinel,
            actuator: config.actuator,
        })
    }

    /// As [`Client::open`], with the roster in force as far as any node proves it. If no node answers, what
    /// was known before is gone on with.
    ///
    /// # Errors
    /// [`Failure`] as from [`Client::open`], and for a second history.
    pub(crate) async fn current(common: &Common, subject: &str) -> Result<Client, Failure> {
        let mut client = Client::open(common, subject)?;
        match client.follow().await {
            Err(failure) if failure.code == ExitCode::Error => Err(failure),
            // Whoever cannot be reached is told of by the command itself.
            Ok(()) | Err(_) => Ok(client),
        }
    }

    /// Follows the changes of the roster as far as any node proves them, and remembers them.
    ///
    /// # Errors
    /// [`Failure`] if no node answers, or for a second history.
    pub(crate) async fn follow(&mut self) -> Result<(), Failure> {
        let deadline = self.deadline.min(FOLLOW_MAX);
        let lineage = &mut self.rosters;
        let shown = rosters::follow(&self.dialer, &self.addresses, lineage, deadline).await?;
        for (node, why) in &shown.refused {
            note(&format!(
                "{node} shows a change of the roster that does not hold: {why}"
            ));
        }
        if shown.taken > 0 {
            if !self.state.as_os_str().is_empty() {
                crate::rosters::keep(&self.state, &self.genesis, self.history, &self.rosters)?;
            }
            self.members = nodes::members(self.rosters.roster(), &self.addresses);
            self.nodes = Nodes::new(&self.dialer, &self.members)?;
        }
        Ok(())
    }

    /// Rosters from the genesis to the last one that is proven.
    pub(crate) fn rosters(&self) -> &Lineage {
        &self.rosters
    }

    /// The configured trust policy.
    pub(crate) fn policy_file(&self) -> &Path {
        &self.policy
    }

    /// A link to the sentinel. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Failure`] if the configuration names none.
    pub(crate) fn sentinel(&self) -> Result<Link, Failure> {
        let name = self.rosters.roster().sentinel.name.as_str();
        self.link("sentinel", Role::Sentinel, name, &self.sentinel)
    }

    /// Whether the actuator holds nothing that covers `intent`.
    ///
    /// # Errors
    /// [`Failure`] if it does, gives no answer `within` that time that permits, or is not configured.
    pub(crate) async fn permits(
        &self,
        intent: &SovereignActionIntentV1,
        within: Duration,
    ) -> Result<(), Failure> {
        let line = HoldLine::new(&self.dialer, self.rosters.roster(), &self.actuator)
            .map_err(|what| Failure::new(ExitCode::Usage, format!("`actuator`: {what}")))?;
        Ok(line.permits(intent, within).await?)
    }

    /// A link to the actuator's hold line. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Failure`] if the configuration names none.
    pub(crate) fn hold_line(&self) -> Result<Link, Failure> {
        let name = self.rosters.roster().actuator.name.as_str();
        self.link("actuator", Role::Actuator, name, &self.actuator)
    }

    fn link(&self, key: &str, role: Role, name: &str, address: &str) -> Result<Link, Failure> {
        if address.is_empty() {
            let text = format!("`{key}`: not set");
            return Err(Failure::new(ExitCode::Usage, text)
                .hint(format!("name the {key}'s host:port in the configuration")));
        }
        let organism = self.genesis.organism_id();
        let peer = PeerIdentity::new(organism, role, name)
            .map_err(|error| Failure::new(ExitCode::Usage, error.to_string()))?;
        Ok(self.dialer.channel(address, &peer)?)
    }

    /// One node alone, over a connection of its own.
    ///
    /// # Errors
    /// [`Failure`] if no node has that name.
    pub(crate) fn node(&self, name: &str) -> Result<Nodes, Failure> {
        let one = self.members.iter().find(|member| member.name == name);
        let one =
            one.ok_or_else(|| Failure::new(ExitCode::Usage, format!("no node is called {name}")))?;
        Ok(Nodes::new(&self.dialer, std::slice::from_ref(one))?)
    }

    /// The voters of the last roster that is proven. Every one must have an address: one left out could be the one that knows
    /// of a RED.
    ///
    /// # Errors
    /// [`Failure`] with the first that has none.
    pub(crate) fn voters(&self) -> Result<Vec<(NodeId, &str)>, Failure> {
        let named =
            |node: &'_ RosterNode| self.members.iter().any(|it| it.name == node.name.as_str());
        let roster = self.rosters.roster();
        match roster.voters().find(|node| !named(node)) {
            None => Ok(roster
                .voters()
                .map(|node| (node.node_id, node.name.as_str()))
                .collect()),
            Some(node) => Err(Failure::new(
                ExitCode::Usage,
                format!("`nodes.{}` is not set; every voter is asked", node.name),
            )),
        }
    }

    /// A node of a roster in force, alone, over a connection of its own.
    ///
    /// # Errors
    /// [`Failure`] if the configuration has no address for it.
    pub(crate) fn of_roster(&self, node: &RosterNode) -> Result<Nodes, Failure> {
        let name = node.name.as_str();
        let address = self.addresses.get(name).cloned().ok_or_else(|| {
            Failure::new(ExitCode::Usage, format!("`nodes.{name}`: not set"))
                .hint("name the host:port of its client listener in the configuration")
        })?;
        let member = Member {
            name: name.to_owned(),
            address,
            record_key: node.record_key,
        };
        Ok(Nodes::new(&self.dialer, &[member])?)
    }

    /// The same cluster over connections of its own.
    ///
    /// # Errors
    /// [`Failure`] as from [`Client::open`].
    pub(crate) fn another_connection(&self) -> Result<Nodes, Failure> {
        Ok(Nodes::new(&self.dialer, &self.members)?)
    }

    /// The configured key. Asks no node: a stop must be ordered with the whole cluster down.
    ///
    /// # Errors
    /// [`Failure`] if there is no such key.
    pub(crate) fn key(&self) -> Result<SigningKey, Failure> {
        Ok(keys::load_key(&self.signing_key)?)
    }

    /// The subject that the genesis enrols the configured key for; if it enrols none, the one that nodes name.
    ///
    /// # Errors
    /// [`Failure`] if there is no such key or no such subject, or no node answers about one enrolled later.
    pub(crate) async fn signer_by_genesis(&self) -> Result<Signer, Failure> {
        match self.signer_among(&self.genesis.subjects) {
            Err(failure) if failure.code == ExitCode::Refused => Ok(self.signer().await?.0),
            found => found,
        }
    }

    /// The subject that the configured key is now enrolled for, and everything else in force.
    ///
    /// # Errors
    /// [`Failure`] if there is no such key or no such subject, or no node answers.
    pub(crate) async fn signer(&self) -> Result<(Signer, InForce), Failure> {
        let in_force = self.in_force().await?;
        Ok((self.signer_among(&in_force.subjects)?, in_force))
    }

    fn signer_among(&self, subjects: &[ClientIdentityV1]) -> Result<Signer, Failure> {
        let key = self.key()?;
        let public = key.public_key();
        let enrolled = subjects
            .iter()
            .find(|it| it.public_key == public && it.revoked_at_optional.is_none());
        let subject = enrolled.cloned().ok_or_else(|| {
            let path = self.signing_key.display();
            Failure::new(
                ExitCode::Refused,
                format!("no subject is enrolled with the key in {path}"),
            )
            .hint("signing_key must be the key of an enrolled subject")
        })?;
        Ok(Signer { subject, key })
    }

    /// The rules and parties in force.
    ///
    /// # Errors
    /// [`Failure`] if no node answers.
    pub(crate) async fn in_force(&self) -> Result<InForce, Failure> {
        InForce::read(&self.nodes.governance(self.deadline).await?)
    }

    /// The person's authenticator that the configuration names.
    ///
    /// # Errors
    /// [`Failure`] if it names none.
    pub(crate) fn authenticator(&self) -> Result<&Path, Failure> {
        if self.authenticator.as_os_str().is_empty() {
            let text = "`authenticator`: not set";
            return Err(Failure::new(ExitCode::Usage, text)
                .hint("run as a person with an authenticator, e.g. --as approver"));
        }
        Ok(&self.authenticator)
    }

    /// The event of a leaf, proven by the configured trust policy, and in which journal it stands.
    ///
    /// # Errors
    /// [`Failure`] if no majority vouches for it in time, or the proof does not hold.
    pub(crate) async fn proven(&self, at: At) -> Result<(Event, Origin), Failure> {
        let text = self.nodes.receipt(at, self.deadline).await?;
        let bad = |what: String| {
            Failure::new(
                ExitCode::Error,
                format!("a receipt that does not hold: {what}"),
            )
            .hint("do not go on; show it to whoever runs the nodes")
        };
        let policy = receipt::policy(&self.policy)?;
        let policy = self.rosters.policy(&policy).map_err(|error| {
            Failure::new(ExitCode::Usage, error.to_string())
                .hint("bring the trust policy up to date: redlatch trust-policy update")
        })?;
        let proof = Receipt::parse(text.as_bytes()).map_err(|error| bad(error.to_string()))?;
        let event = Event::from_canonical(&proof.leaf).map_err(|error| bad(error.to_string()))?;
        let demand = receipt::demand(Some(&event));
        let verified =
            verify_for(&proof, &policy, demand).map_err(|error| bad(error.to_string()))?;
        Ok((event, verified.origin))
    }

    /// A fresh signed status.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) async fn status(&self) -> Result<Signed<StatusV1>, CallError> {
        self.nodes.any_status(random(), self.deadline).await
    }

    /// A stamp for commands that are accepted for `ttl_ms` of state time.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) async fn stamp(&self, ttl_ms: u64) -> Result<Stamp, CallError> {
        let status = self.status().await?;
        let state_time = status.record().state_time;
        Ok(Stamp {
            scope: *status.scope(),
            state_time,
            expires_at: state_time.saturating_add(ttl_ms),
        })
    }

    /// Sends a command that the journal answers again as the first time, until there is an answer.
    ///
    /// # Errors
    /// [`CallError`]; a refusal is an answer.
    pub(crate) async fn submit(&self, command: &RawCommand) -> Result<Submitted, CallError> {
        let bytes = command.to_canonical();
        self.nodes
            .submit(&bytes, &Again::SameAnswer, self.deadline, Duration::ZERO)
            .await
    }

    /// Sends what `command` makes of a stamp. Where state time has stood still for longer than the command
    /// lives, the attempt itself moves it, and the command is stamped once more.
    ///
    /// # Errors
    /// [`CallError`]; a refusal is an answer.
    pub(crate) async fn submit_stamped(
        &self,
        signer: &Signer,
        event: EventId,
        ttl_ms: u64,
        mut command: impl FnMut(&Stamp) -> Vec<u8>,
    ) -> Result<Submitted, CallError> {
        let again = Again::ByKey(signer.subject.subject_id.clone(), event);
        let mut stamps = 1;
        loop {
            let stamp = self.stamp(ttl_ms).await?;
            let bytes = command(&stamp);
            let submitted = self
                .nodes
                .submit(&bytes, &again, self.deadline, Duration::ZERO)
                .await?;
            let expired = submitted.reply == Reply::Refused(Refusal::Expired);
            if !expired || stamps == STAMPS_MAX {
                return Ok(submitted);
            }
            stamps += 1;
        }
    }
}

impl Signer {
    /// FreezeIntent.
    pub(crate) fn freeze(&self, stamp: &Stamp, event: EventId, proposal: &ProposalV1) -> Vec<u8> {
        let payload = Bytes(proposal.to_canonical());
        let envelope = self.envelope(stamp, event, &payload);
        RawCommand::FreezeIntent(envelope, payload).to_canonical()
    }

    /// Withdraw.
    pub(crate) fn withdraw(
        &self,
        stamp: &Stamp,
        event: EventId,
        withdrawal: &WithdrawalV1,
    ) -> Vec<u8> {
        let payload = Bytes(withdrawal.to_canonical());
        let envelope = self.envelope(stamp, event, &payload);
        RawCommand::Withdraw(envelope, payload).to_canonical()
    }

    /// OpenChallenge.
    pub(crate) fn challenge(
        &self,
        stamp: &Stamp,
        event: EventId,
        request: &ChallengeRequestV1,
    ) -> Vec<u8> {
        let payload = Bytes(request.to_canonical());
        let envelope = self.envelope(stamp, event, &payload);
        RawCommand::OpenChallenge(envelope, payload).to_canonical()
    }

    /// A record signed by this subject.
    pub(crate) fn seal<T: Record>(&self, scope: Scope, record: &T) -> Envelope {
        Envelope::seal(scope, &self.key, record)
    }

    fn envelope(&self, stamp: &Stamp, event: EventId, payload: &Bytes) -> Envelope {
        let subject = &self.subject;
        let record = CausalEnvelopeV1 {
            event_id: event,
            actor_id: subject.subject_id.clone(),
            actor_kind: subject.actor_kind,
            issuer: subject.subject_id.clone(),
            mission_id_optional: None,
            store_version_optional: None,
            target_digest_optional: None,
            causation_id_optional: None,
            capability_id_optional: None,
            mission_head_id_optional: None,
            delegation_id_optional: None,
            block_id_optional: None,
            receipt_id_optional: None,
            presence_id_optional: None,
            correlation_id: event,
            payload_digest: Digest::of(&payload.0),
            issued_at: stamp.state_time,
            expires_at: stamp.expires_at,
        };
        Envelope::seal(stamp.scope, &self.key, &record)
    }
}

/// 32 fresh random bytes.
pub(crate) fn random() -> Digest {
    let mut bytes = [0; 32];
    world::rng().fill_bytes(&mut bytes);
    Digest(bytes)
}

/// A refusal as it ends this process.
pub(crate) fn refused(refusal: Refusal) -> Failure {
    Failure::new(ExitCode::Refused, format!("refused: {refusal}")).hint(refusal.hint())
}

/// The journal accepted something else than was brought.
pub(crate) fn another(accepted: &Accepted) -> Failure {
    let text = format!("the nodes answered another question: {accepted:?}");
    Failure::new(ExitCode::Error, text)
}

fn genesis_of(config: &ClientConfig) -> Result<GenesisV1, Failure> {
    let envelope = read_genesis(&config.genesis)?;
    let signed = envelope
        .open::<GenesisV1>()
        .map_err(|error| Failure::new(ExitCode::Usage, format!("genesis: {error}")))?;
    let genesis = signed.record();
    let by_root = *signed.key() == genesis.kernel.pinned_external_root_key
        && *signed.scope() == genesis.scope();
    if !by_root {
        let text = format!("{}: not signed by its own root", config.genesis.display());
        return Err(Failure::new(ExitCode::Usage, text));
    }
    Ok(genesis.clone())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_sample_file_is_valid() {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/config/client.toml");
        let config: ClientConfig = config::load(&Sources::none().file(sample)).expect("valid");
        assert_eq!(config.nodes.len(), 3);
    }

    #[test]
    fn a_refusal_ends_with_its_own_code_and_hint() {
        let failure = refused(Refusal::Frozen);
        assert_eq!(failure.code, ExitCode::Refused);
        assert!(failure.to_string().contains("frozen"), "{failure}");
        assert_eq!(failure.hint.as_deref(), Some(Refusal::Frozen.hint()));
    }
}
