//! A party that calls the nodes over mutual TLS, as the product's own clients do, and signs commands.
//!
//! Every call here blocks; a caller has a runtime of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use redlatch_link::keys::load_key;
use redlatch_link::nodes::{self, Nodes};
use redlatch_link::transport::{Credentials, Dialer, Link, Tls};
use redlatch_link::{PeerIdentity, Role, client_type, world};
use redlatch_proto::v1;
use redlatch_proto::v1::authority_client::AuthorityClient;
use redlatch_proto::v1::peer_client::PeerClient;
use redlatch_types::command::RawCommand;
use redlatch_types::records::{
    ActionPayload, CausalEnvelopeV1, GenesisV1, GitRef, Ingress, LandPayload, ProposalV1, RedScope,
    RedVerdictV1, RollbackPlan, SentinelRedOutboxV1, StatusV1, Text, WithdrawalV1,
};
use redlatch_types::{
    Bytes, Canonical, Digest, Envelope, EventId, IntentDigest, Name, OutboxEpoch, Signed,
    SigningKey, SubjectId,
};
use tokio::runtime::Runtime;

use crate::cluster::Cluster;
use crate::home::{self, Home};
use crate::identity::{issued, pins};

/// A client of a node's public service.
pub type AuthorityCalls = client_type!(AuthorityClient);
/// A client of a node's service for its peers.
pub type PeerCalls = client_type!(PeerClient);

/// How long commands and intents of tests live, in state time.
const HOUR_MS: u64 = 3_600_000;

/// A party with a certificate.
pub struct Caller {
    runtime: Runtime,
    dialer: Dialer,
    genesis: GenesisV1,
    addresses: BTreeMap<String, String>,
    peer_addresses: BTreeMap<String, String>,
}

impl Caller {
    /// The party whose certificate `init` put into a folder of the organism, for example `clients/agent`.
    pub fn of(home: &impl Home, place: &str) -> Caller {
        let organism = home::genesis(&home.organism()).organism_id();
        Caller::with(home, &issued(&home.organism(), organism, place))
    }

    /// A party with any certificate. It knows the nodes by their pinned keys.
    pub fn with(home: &impl Home, tls: &Tls) -> Caller {
        let organism = home.organism();
        let addresses = |listener: &str| {
            let address = |node: &str| home::address(&home::node_config(&organism, node), listener);
            let pair = |node: &str| (node.to_owned(), address(node).to_string());
            Cluster::names().map(pair).into_iter().collect()
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        Caller {
            runtime: runtime.expect("a runtime"),
            dialer: Dialer::new(credentials(&organism, tls)),
            genesis: home::genesis(&organism),
            addresses: addresses("clients"),
            peer_addresses: addresses("peers"),
        }
    }

    /// Runs one call to its end.
    pub fn run<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }

    /// Runs a call beside the test.
    pub fn spawn<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.runtime.spawn(call)
    }

    /// The whole cluster, over connections of its own.
    pub fn nodes(&self) -> Nodes {
        self.members(&self.addresses)
    }

    /// One node alone.
    pub fn only(&self, node: &str) -> Nodes {
        let one = [(node.to_owned(), self.addresses[node].clone())];
        self.members(&one.into_iter().collect())
    }

    fn members(&self, addresses: &BTreeMap<String, String>) -> Nodes {
        let members = nodes::members(&self.genesis.roster, addresses);
        let _inside = self.runtime.enter();
        Nodes::new(&self.dialer, &members).expect("addresses of the organism")
    }

    /// A node's public service, call by call.
    pub fn authority(&self, node: &str) -> AuthorityCalls {
        let link = self.link(node, &self.addresses[node]);
        AuthorityClient::with_interceptor(link.channel(), link.introduction())
    }

    /// A node's service for its peers; on its client listener if `aside`.
    pub fn peer(&self, node: &str, aside: bool) -> PeerCalls {
        let addresses = if aside {
            &self.addresses
        } else {
            &self.peer_addresses
        };
        let link = self.link(node, &addresses[node]);
        PeerClient::with_interceptor(link.channel(), link.introduction())
    }

    fn link(&self, node: &str, address: &str) -> Link {
        let organism = self.genesis.organism_id();
        let peer = PeerIdentity::new(organism, Role::Node, node).expect("a name");
        let _inside = self.runtime.enter();
        self.dialer.channel(address, &peer).expect("an address")
    }

    /// One node's signed status; none if it gives none in time.
    pub fn status(&self, node: &str, within: Duration) -> Option<Signed<StatusV1>> {
        let nodes = self.only(node);
        let asked = self.run(nodes.status(node, random(), None, within));
        asked.ok()
    }

    /// All leaves of one node.
    pub fn leaves(&self, node: &str) -> Vec<Vec<u8>> {
        let nodes = self.only(node);
        self.run(async {
            let mut stream = nodes.journal(0, false, PATIENT).await.expect("a stream");
            let mut leaves = Vec::new();
            while let Some(leaf) = stream.message().await.expect("a leaf") {
                assert_eq!(leaf.position, leaves.len() as u64, "leaves come in order");
                leaves.push(leaf.leaf);
            }
            leaves
        })
    }

    /// What a node shows about itself.
    pub fn shown(&self, node: &str) -> Option<v1::ClusterResponse> {
        let nodes = self.only(node);
        self.run(nodes.cluster(node, Duration::from_secs(5))).ok()
    }

    /// What a node says its state comes to, and after how many leaves.
    pub fn state_digest(&self, node: &str) -> Option<(u64, Digest)> {
        let nodes = self.only(node);
        let shown = self.run(nodes.cluster_with_state(node, Duration::from_secs(5)));
        let state = shown.ok()?.state_digest.expect("it was asked for");
        let digest = state.digest.try_into().expect("32 bytes");
        Some((state.tree_size, Digest(digest)))
    }
}

/// With the organism's pins, except for whoever this says it is: that is for the nodes to find out.
fn credentials(organism: &Path, tls: &Tls) -> Credentials {
    let load = |tls: &Tls| Credentials::load(tls).expect("a certificate of the test");
    let mut tls = tls.clone();
    tls.pins = pins(organism);
    let unpinned = Tls {
        pins: BTreeMap::new(),
        ..tls.clone()
    };
    tls.pins.remove(&load(&unpinned).identity().short());
    load(&tls)
}

const PATIENT: Duration = Duration::from_secs(30);

/// 32 fresh random bytes.
pub fn random() -> Digest {
    use rand_core::RngCore;
    let mut bytes = [0; 32];
    world::rng().fill_bytes(&mut bytes);
    Digest(bytes)
}

/// An enrolled subject that signs commands.
pub struct Signer {
    subject: SubjectId,
    key: SigningKey,
    genesis: GenesisV1,
}

impl Signer {
    /// The agent of the organism, who has a grant to land.
    pub fn agent(home: &impl Home) -> Signer {
        let key = home.organism().join("clients/agent/signing.key");
        Signer {
            subject: "agent".parse().expect("a name"),
            key: load_key(&key).expect("made by init"),
            genesis: home::genesis(&home.organism()),
        }
    }

    /// Whose commands these are.
    pub fn subject(&self) -> &SubjectId {
        &self.subject
    }

    /// The freeze of a landing of a commit that exists nowhere.
    pub fn freeze(&self, state_time: u64, event: EventId) -> Vec<u8> {
        let land = LandPayload {
            resource: GitRef {
                repository: Name::new("demo").expect("a name"),
                reference: Text::lossy("refs/heads/load"),
            },
            old: Bytes::default(),
            new: Bytes(random().0.to_vec()),
        };
        let proposal = ProposalV1 {
            audience: land.resource.repository.clone(),
            payload: ActionPayload::Land(land),
            applicable_grant_id: Some(self.genesis.grants[0].id()),
            executor_subject_id_optional: Some("gate".parse().expect("a name")),
            delegation_grant_digest_optional: None,
            promotion_target_subject_id_optional: None,
            expected_store_version: 0,
            expected_boundary_version: 1,
            expected_contract_version: 1,
            evidence: Vec::new(),
            rollback: RollbackPlan::MoveRefBack,
            expires_at: state_time + HOUR_MS,
            effect_deadline_ms: HOUR_MS,
            mission_id_optional: None,
            ingress: Ingress::Cli,
        };
        let payload = Bytes(proposal.to_canonical());
        let envelope = self.envelope(state_time, event, &payload);
        RawCommand::FreezeIntent(envelope, payload).to_canonical()
    }

    /// The withdrawal of an intent.
    pub fn withdraw(&self, state_time: u64, event: EventId, intent: IntentDigest) -> Vec<u8> {
        let withdrawal = WithdrawalV1 {
            intent_digest: intent,
            reason: Text::lossy("a test"),
        };
        let payload = Bytes(withdrawal.to_canonical());
        let envelope = self.envelope(state_time, event, &payload);
        RawCommand::Withdraw(envelope, payload).to_canonical()
    }

    fn envelope(&self, state_time: u64, event: EventId, payload: &Bytes) -> Envelope {
        let enrolled = self.genesis.subjects.iter();
        let mut enrolled = enrolled.filter(|subject| subject.subject_id == self.subject);
        let record = CausalEnvelopeV1 {
            event_id: event,
            actor_id: self.subject.clone(),
            actor_kind: enrolled.next().expect("enrolled").actor_kind,
            issuer: self.subject.clone(),
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
            issued_at: state_time,
            expires_at: state_time + HOUR_MS,
        };
        Envelope::seal(self.genesis.scope(), &self.key, &record)
    }
}

/// The sentinel's outbox, written with the sentinel's key.
pub struct Outbox {
    key: SigningKey,
    genesis: GenesisV1,
    number: u64,
    root: Digest,
}

impl Outbox {
    /// The empty outbox of the organism's sentinel.
    pub fn of(cluster: &Cluster) -> Outbox {
        let key = cluster.organism().join("sentinel/signing.key");
        Outbox {
            key: load_key(&key).expect("made by init"),
            genesis: cluster.genesis(),
            number: 0,
            root: Digest::ZERO,
        }
    }

    /// The command that latches one more RED of this scope.
    pub fn red(&mut self, scope: &RedScope) -> Vec<u8> {
        let (scope_kind, scope_value) = scope.to_open();
        let verdict = RedVerdictV1 {
            verdict_id: random(),
            scope_kind,
            scope_value,
            negative_verbs: Vec::new(),
            rollback_candidate_plan_digest_optional: None,
            reason: Text::lossy("a test says stop"),
            issued_at: self.genesis.created_at,
        };
        let red_verdict = Bytes(verdict.to_canonical());
        let number = OutboxEpoch(self.number + 1);
        let digest = Digest::of(&red_verdict.0);
        let root = SentinelRedOutboxV1::root_after(&self.root, number, &digest, None);
        let entry = SentinelRedOutboxV1 {
            outbox_epoch: number,
            previous_outbox_root_digest: self.root,
            red_verdict,
            source_intent_digest_optional: None,
            signed_outbox_root_digest: root,
            protected_latest_outbox_epoch: number,
        };
        (self.number, self.root) = (number.0, root);
        let envelope = Envelope::seal(self.genesis.scope(), &self.key, &entry);
        RawCommand::LatchRed(vec![envelope]).to_canonical()
    }
}
