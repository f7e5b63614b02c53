//! A whole stop path of services: cluster, sentinel, actuator, and everybody who calls them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use redlatch_actuator::{ActuatorParts, ActuatorProcess};
use redlatch_link::diagnostics::{Readiness, Registry};
use redlatch_link::store::SimDisk;
use redlatch_link::transport::Dialer;
use redlatch_link::{Role, client_type};
use redlatch_proto::v1;
use redlatch_proto::v1::hold_line_client::HoldLineClient;
use redlatch_proto::v1::red_line_client::RedLineClient;
use redlatch_proto::v1::sentinel_client::SentinelClient;
use redlatch_sentinel::rules::{RulesConfig, rules};
use redlatch_sentinel::{SentinelParts, SentinelProcess};
use redlatch_types::mandate::NegativeVerb;
use redlatch_types::records::*;
use redlatch_types::*;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::Status;

use crate::cluster::{Cluster, OPERATOR};
use crate::identities::Identities;
use crate::world::journal::{ACTUATOR, ROOT, SENTINEL};
use crate::world::{key, policy};

pub(crate) type Sentinel = client_type!(SentinelClient);
pub(crate) type RedLine = client_type!(RedLineClient);
pub(crate) type HoldLine = client_type!(HoldLineClient);

/// A running process, and how to end it.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<String>,
}

impl Running {
    pub(crate) async fn stop(self) -> String {
        let _ = self.stop.send(());
        self.ended.await.unwrap()
    }

    /// How it ends by itself.
    pub(crate) async fn ended(self) -> String {
        self.ended.await.unwrap()
    }
}

pub(crate) struct Parties {
    pub(crate) cluster: Cluster,
    pub(crate) identities: Identities,
    pub(crate) nodes: BTreeMap<String, String>,
    pub(crate) sentinel_disk: SimDisk,
    pub(crate) actuator_disk: SimDisk,
    /// Under which keys both start.
    pub(crate) sentinel_key: u8,
    pub(crate) actuator_key: u8,
    pub(crate) red_line: SocketAddr,
    pub(crate) hold_line: SocketAddr,
    pub(crate) service: SocketAddr,
    boots: u64,
}

/// A port nobody listens on now.
pub(crate) fn free() -> SocketAddr {
    let bound = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    bound.local_addr().unwrap()
}

impl Parties {
    pub(crate) async fn new() -> Parties {
        let cluster = Cluster::new();
        let identities = Identities::new(cluster.genesis().organism_id());
        let nodes = cluster.serve(&identities).await;
        Parties {
            cluster,
            identities,
            nodes,
            sentinel_disk: SimDisk::new(),
            actuator_disk: SimDisk::new(),
            sentinel_key: SENTINEL,
            actuator_key: ACTUATOR,
            red_line: free(),
            hold_line: free(),
            service: free(),
            boots: 0,
        }
    }

    pub(crate) fn scope(&self) -> Scope {
        self.cluster.genesis().scope()
    }

    fn genesis(&self) -> Envelope {
        let genesis = self.cluster.genesis();
        Envelope::seal(genesis.scope(), &key(ROOT), &genesis)
    }

    fn rng(&mut self) -> ChaCha20Rng {
        self.boots += 1;
        ChaCha20Rng::seed_from_u64(self.boots)
    }

    pub(crate) async fn sentinel(&mut self, allowed: &str) -> (Running, Readiness) {
        let config = RulesConfig {
            allowed: vec![allowed.to_owned()],
            ..RulesConfig::default()
        };
        self.sentinel_of(config).await
    }

    pub(crate) async fn sentinel_of(&mut self, config: RulesConfig) -> (Running, Readiness) {
        self.try_sentinel(config).await.unwrap()
    }

    pub(crate) async fn try_sentinel(
        &mut self,
        config: RulesConfig,
    ) -> Result<(Running, Readiness), redlatch_sentinel::StartFailure> {
        let readiness = Readiness::new();
        let parts = SentinelParts {
            store: self.sentinel_disk.open().unwrap(),
            genesis: self.genesis(),
            policy: policy(self.scope()),
            key: key(self.sentinel_key),
            rules: rules(&config).unwrap(),
            verdict_ttl_ms: config.verdict_ttl_ms,
            credentials: self.identities.credentials(Role::Sentinel, "sentinel"),
            address: self.service,
            nodes: self.nodes.clone(),
            actuator: self.red_line.to_string(),
            rng: self.rng(),
            metrics: Registry::new(),
            readiness: readiness.clone(),
        };
        let process = SentinelProcess::start(parts).await?;
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            word(process.run(stopped).await)
        });
        Ok((Running { stop, ended }, readiness))
    }

    pub(crate) async fn actuator(&mut self) -> (Running, Readiness) {
        self.try_actuator().await.unwrap()
    }

    pub(crate) async fn try_actuator(
        &mut self,
    ) -> Result<(Running, Readiness), redlatch_actuator::StartFailure> {
        let readiness = Readiness::new();
        let parts = ActuatorParts {
            store: self.actuator_disk.open().unwrap(),
            genesis: self.genesis(),
            policy: policy(self.scope()),
            key: key(self.actuator_key),
            credentials: self.identities.credentials(Role::Actuator, "actuator"),
            red_line: self.red_line,
            hold_line: self.hold_line,
            nodes: self.nodes.clone(),
            rng: self.rng(),
            metrics: Registry::new(),
            readiness: readiness.clone(),
        };
        let process = ActuatorProcess::start(parts).await?;
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            word(process.run(stopped).await)
        });
        Ok((Running { stop, ended }, readiness))
    }

    pub(crate) fn ask_sentinel(&self, role: Role, name: &str) -> Sentinel {
        let dialer = Dialer::new(self.identities.credentials(role, name));
        let peer = self.identities.peer(Role::Sentinel, "sentinel");
        let link = dialer.channel(&self.service.to_string(), &peer).unwrap();
        SentinelClient::with_interceptor(link.channel(), link.introduction())
    }

    pub(crate) fn ask_red_line(&self, role: Role, name: &str) -> RedLine {
        let dialer = Dialer::new(self.identities.credentials(role, name));
        let peer = self.identities.peer(Role::Actuator, "actuator");
        let link = dialer.channel(&self.red_line.to_string(), &peer).unwrap();
        RedLineClient::with_interceptor(link.channel(), link.introduction())
    }

    pub(crate) fn ask_hold_line(&self, role: Role, name: &str) -> HoldLine {
        let dialer = Dialer::new(self.identities.credentials(role, name));
        let peer = self.identities.peer(Role::Actuator, "actuator");
        let link = dialer.channel(&self.hold_line.to_string(), &peer).unwrap();
        HoldLineClient::with_interceptor(link.channel(), link.introduction())
    }

    /// An order of the safety officer.
    pub(crate) fn order(&self, n: u8, scope: RedScope) -> RaiseOrderV1 {
        let _ = self;
        RaiseOrderV1 {
            order_id: Digest::of(&[n]),
            scope,
            verbs: vec![NegativeVerb::AbortPrepare],
            rollback_candidate_plan_digest_optional: None,
            reason: Text::lossy("the test says so"),
        }
    }

    pub(crate) async fn raise(&self, n: u8, scope: RedScope) -> Result<v1::RaiseResponse, Status> {
        let in_force = self.cluster.world(|world| world.scope());
        let order = Envelope::seal(in_force, &key(OPERATOR), &self.order(n, scope));
        self.raise_bytes(order.to_canonical()).await
    }

    pub(crate) async fn raise_bytes(&self, order: Vec<u8>) -> Result<v1::RaiseResponse, Status> {
        let mut sentinel = self.ask_sentinel(Role::Operator, "operator");
        let answer = sentinel.raise(v1::RaiseRequest { order }).await;
        answer.map(tonic::Response::into_inner)
    }

    pub(crate) async fn evaluate(&self, intent: IntentDigest) -> Result<SentinelVerdictV1, Status> {
        let mut sentinel = self.ask_sentinel(Role::Node, "n1");
        let freeze_receipt = self.cluster.freeze_receipt(intent);
        let answer = sentinel
            .evaluate(v1::EvaluateRequest { freeze_receipt })
            .await?;
        let envelope = Envelope::from_canonical(&answer.get_ref().verdict_envelope).unwrap();
        assert_eq!(envelope.key, key(self.sentinel_key).public_key());
        Ok(envelope
            .open::<SentinelVerdictV1>()
            .unwrap()
            .record()
            .clone())
    }

    /// What the actuator tells a gate.
    pub(crate) async fn permit(&self) -> Result<PermitBeatV1, Status> {
        let mut line = self.ask_hold_line(Role::Gate, "gate");
        let nonce = Digest::of(b"nonce");
        let request = v1::PermitRequest {
            nonce: nonce.0.to_vec(),
        };
        let answer = line.permit(request).await?;
        let envelope = Envelope::from_canonical(&answer.get_ref().permit_beat).unwrap();
        assert_eq!(envelope.key, key(self.actuator_key).public_key());
        let beat = envelope.open::<PermitBeatV1>().unwrap().record().clone();
        assert_eq!(beat.nonce, nonce);
        Ok(beat)
    }

    pub(crate) async fn outbox(&self) -> Result<v1::OutboxResponse, Status> {
        let mut sentinel = self.ask_sentinel(Role::Operator, "operator");
        let answer = sentinel.outbox(v1::OutboxRequest {}).await?;
        Ok(answer.into_inner())
    }
}

fn word<E: std::fmt::Display>(ended: Result<(), E>) -> String {
    ended.map_or_else(|error| error.to_string(), |()| "stopped".to_owned())
}
