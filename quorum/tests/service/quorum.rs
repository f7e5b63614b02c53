//! The four verifiers on their disks, and a coordinator that carries messages between them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use redlatch_ballot::coordinator::{Abstention, Deadlines, Request};
use redlatch_ballot::messages::{BallotPacketV1, PublicKeyPackageV1, SealedAnswerV1};
use redlatch_ballot::{Coordinator, FreezeProof, FrozenIntent, Step, Terms};
use redlatch_journal::development::authenticator::SoftAuthenticator;
use redlatch_journal::development::{Parties, Subject};
use redlatch_link::diagnostics::{Readiness, Registry};
use redlatch_link::passphrase::Passphrase;
use redlatch_link::store::SimDisk;
use redlatch_link::transport::{Dialer, Limits, Listener};
use redlatch_link::world::JoinHandle;
use redlatch_link::{PeerIdentity, Role, client_type, world};
use redlatch_proto::v1;
use redlatch_proto::v1::verifier_client::VerifierClient;
use redlatch_proto::v1::voter_answer::Result as Wire;
use redlatch_types::command::Authorization;
use redlatch_types::receipt::Receipt;
use redlatch_types::records::*;
use redlatch_types::*;
use redlatch_verifier::evaluate::{Evaluator, Panel, Report};
use redlatch_verifier::{StartFailure, StretchCost, VerifierParts, VerifierProcess};
use tokio::sync::oneshot;

use crate::certificates::Authority;
use crate::node::{CALLERS, Journal};

pub(crate) const START: u64 = 1_800_000_000_000;
pub(crate) const NAMES: [&str; 4] = ["v1", "v2", "v3", "v4"];
/// Nothing in these tests takes that long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nobody tries these passphrases: stretching them protects nothing.
const LIGHT: StretchCost = StretchCost {
    memory_kib: 8,
    passes: 1,
};

pub(crate) type Client = client_type!(VerifierClient);

pub(crate) fn key(n: u8) -> SigningKey {
    SigningKey::from_seed([n; 32])
}

pub(crate) fn id<T: std::str::FromStr>(text: &str) -> T {
    text.parse().ok().unwrap()
}

pub(crate) fn parties() -> Parties {
    let node = |n: u8| RosterNode {
        node_id: NodeId(u64::from(n)),
        name: id(&format!("n{n}")),
        seat: Seat::Voter,
        log_key: key(100 + n).public_key(),
        cosigner_key: key(110 + n).public_key(),
        record_key: key(120 + n).public_key(),
    };
    let verifier = |n: u8| RosterVerifier {
        verifier_id: id(&format!("v{n}")),
        identifier: u16::from(n),
        failure_domain: id(&format!("domain-{n}")),
        vote_key: key(20 + n).public_key(),
        witness_key: key(30 + n).public_key(),
        builds_digest: Digest::ZERO,
        policy_digest: Digest::ZERO,
    };
    let pinned = |name: &str, n: u8| PinnedParty {
        name: id(name),
        key: key(n).public_key(),
        builds_digest: Digest::ZERO,
        policy_digest: Digest::ZERO,
    };
    let subject = |name: &str, actor_kind, n| Subject {
        subject_id: id(name),
        actor_kind,
        public_key: key(n).public_key(),
    };
    let authenticator = SoftAuthenticator::ed_dsa([15; 32], vec![15; 16], 0);
    Parties {
        organism_name: id("test"),
        created_at: START,
        nonce: Digest::ZERO,
        root: key(1).public_key(),
        nodes: (1..=3).map(node).collect(),
        verifiers: (1..=4).map(verifier).collect(),
        sentinel: pinned("sentinel", 2),
        actuator: pinned("actuator", 3),
        subjects: vec![
            subject("agent", ActorKind::Agent, 10),
            subject("gate", ActorKind::Gate, 12),
            subject("operator", ActorKind::Operator, 13),
            subject("person", ActorKind::Human, 14),
        ],
        repository: id("repo"),
        human_keys: vec![authenticator.enrolled(id("person"), START).expect("a key")],
    }
}

/// Approves, or says why not.
struct Opinion(Option<&'static str>);

impl Evaluator for Opinion {
    fn name(&self) -> Name {
        id("opinion")
    }
    fn evaluate<'a>(&'a self, _: &'a FrozenIntent) -> BoxFuture<'a, Result<Report, String>> {
        let report = match self.0 {
            None => Report {
                seen: vec!["it is good".into()],
                against: vec![],
            },
            Some(reason) => Report::against(reason),
        };
        Box::pin(async move { Ok(report) })
    }
}

/// A running verifier.
struct Running {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), StartFailure>>,
    readiness: Readiness,
    generation: u64,
}

/// One organism with three nodes, four disks and the verifiers that run on them.
pub(crate) struct Quorum {
    pub(crate) journal: Journal,
    pub(crate) authority: Authority,
    nodes: BTreeMap<String, String>,
    pub(crate) addresses: BTreeMap<String, String>,
    pub(crate) disks: BTreeMap<&'static str, SimDisk>,
    running: BTreeMap<&'static str, Running>,
    /// Who rejects, and why.
    pub(crate) against: BTreeMap<&'static str, &'static str>,
    seed: u8,
    /// Vote keys that are not those of the genesis.
    pub(crate) vote_keys: BTreeMap<&'static str, u8>,
    /// What every verifier is started with.
    pub(crate) passphrase: &'static str,
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

impl Quorum {
    /// Three nodes serve; no verifier runs yet.
    pub(crate) async fn new() -> Quorum {
        let journal = Journal::new();
        let organism = journal.genesis().organism_id();
        let mut fixed: Vec<(Role, &str)> = NAMES.iter().map(|n| (Role::Verifier, *n)).collect();
        fixed.extend([
            (Role::Node, "n1"),
            (Role::Node, "n2"),
            (Role::Node, "n3"),
            (Role::Sentinel, "sentinel"),
            (Role::Actuator, "actuator"),
        ]);
        let authority = Authority::new(organism, &fixed);
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut nodes = BTreeMap::new();
        for number in 1..=3 {
            let name = format!("n{number}");
            let own = authority.credentials(Role::Node, &name);
            let listener = Listener::bind(any, &own, &CALLERS, Limits::default());
            let listener = listener.await.unwrap();
            nodes.insert(name, listener.address().to_string());
            journal.serve(listener, number);
        }
        let addresses = NAMES
            .iter()
            .map(|name| ((*name).to_owned(), free_address().to_string()));
        Quorum {
            journal,
            authority,
            nodes,
            addresses: addresses.collect(),
            disks: NAMES.iter().map(|name| (*name, SimDisk::new())).collect(),
            running: BTreeMap::new(),
            against: BTreeMap::new(),
            seed: 0,
            vote_keys: BTreeMap::new(),
            passphrase: "correct horse battery",
        }
    }

    /// All four run and have a key.
    pub(crate) async fn with_key() -> Quorum {
        let mut quorum = Quorum::new().await;
        for name in NAMES {
            quorum.start(name).await.unwrap();
        }
        quorum.ready(&NAMES).await;
        quorum
    }

    pub(crate) async fn start(&mut self, name: &'static str) -> Result<(), StartFailure> {
        self.seed += 1;
        let genesis = self.journal.genesis();
        let number: u8 = name[1..].parse().unwrap();
        let mut fellows = self.addresses.clone();
        fellows.remove(name);
        let opinion = Arc::new(Opinion(self.against.get(name).copied()));
        let readiness = Readiness::new();
        let parts = VerifierParts {
            store: self.disks[name].open().unwrap(),
            genesis: Envelope::seal(genesis.scope(), &key(1), &genesis),
            policy: self.journal.policy(),
            vote_key: key(self.vote_keys.get(name).copied().unwrap_or(20 + number)),
            passphrase: Passphrase::new(self.passphrase.into()),
            stretch: LIGHT,
            panel: Panel::new(vec![opinion], Duration::from_secs(5)),
            credentials: self.authority.credentials(Role::Verifier, name),
            address: self.addresses[name].parse().unwrap(),
            nodes: self.nodes.clone(),
            fellows,
            rng: ChaCha20Rng::from_seed([self.seed; 32]),
            metrics: Registry::new(),
            readiness: readiness.clone(),
        };
        let process = VerifierProcess::start(parts).await?;
        let generation = process.generation();
        let (stop, stopped) = oneshot::channel();
        let ended = world::spawn(process.run(async move {
            let _ = stopped.await;
        }));
        let running = Running {
            stop,
            ended,
            readiness,
            generation,
        };
        self.running.insert(name, running);
        Ok(())
    }

    /// Waits until these are ready: boot confirmed, key in force.
    pub(crate) async fn ready(&self, names: &[&'static str]) {
        for name in names {
            let readiness = &self.running[name].readiness;
            let ready = world::timeout(PATIENCE, async {
                if !readiness.is_ready() {
                    readiness.changed_from(false).await;
                }
            });
            ready
                .await
                .unwrap_or_else(|_| panic!("{name}: {:?}", readiness.states()));
        }
    }

    pub(crate) fn generation(&self, name: &'static str) -> u64 {
        self.running[name].generation
    }

    /// Stops a verifier; its disk loses what was not durable.
    pub(crate) async fn stop(&mut self, name: &'static str) {
        let running = self.running.remove(name).unwrap();
        let _ = running.stop.send(());
        running.ended.await.unwrap().unwrap();
        self.disks[name].crash();
    }

    /// Waits until a verifier ends by itself, and gives its cause.
    pub(crate) async fn ended(&mut self, name: &'static str) -> StartFailure {
        let running = self.running.remove(name).unwrap();
        let ended = world::timeout(PATIENCE, running.ended)
            .await
            .expect("it ends");
        self.disks[name].crash();
        ended.unwrap().expect_err("by itself")
    }

    pub(crate) fn client(&self, role: Role, caller: &str, name: &str) -> Client {
        let credentials = self.authority.credentials(role, caller);
        let organism = self.journal.genesis().organism_id();
        let peer = PeerIdentity::new(organism, Role::Verifier, name).unwrap();
        let link = Dialer::new(credentials)
            .channel(&self.addresses[name], &peer)
            .unwrap();
        VerifierClient::with_interceptor(link.channel(), link.introduction())
    }

    pub(crate) fn clients(&self) -> BTreeMap<VerifierId, Client> {
        let of = |name: &&str| (id(name), self.client(Role::Node, "n1", name));
        NAMES.iter().map(of).collect()
    }

    fn terms(&self) -> Terms {
        Terms::in_force(&self.journal.in_force()).unwrap()
    }

    /// The public key package, from whoever is up.
    async fn keys(&self, clients: &mut BTreeMap<VerifierId, Client>) -> PublicKeyPackageV1 {
        for client in clients.values_mut() {
            let answer = client.key(v1::KeyRequest {}).await;
            if let Some(bytes) = answer
                .ok()
                .and_then(|it| it.into_inner().public_key_package)
            {
                return PublicKeyPackageV1::from_canonical(&bytes).unwrap();
            }
        }
        panic!("nobody has a key");
    }

    /// One ballot to its end. Whoever is not reached counts as refusing.
    pub(crate) async fn ballot(
        &self,
        intent: &SovereignActionIntentV1,
        receipt: &str,
        term: u64,
    ) -> Result<Authorization, Abstention> {
        let mut clients = self.clients();
        let keys = self.keys(&mut clients).await;
        let leaf = Receipt::parse(receipt.as_bytes()).unwrap().leaf;
        let proof = FreezeProof::of_verified_leaf(&leaf).unwrap();
        let frozen = FrozenIntent::check(&proof, &intent.to_canonical()).unwrap();
        let deadlines = Deadlines {
            seal_by: u64::MAX,
            decide_by: u64::MAX,
            share_ms: u64::MAX,
        };
        let (mut coordinator, mut steps) =
            Coordinator::begin(self.terms(), frozen, &keys, term, deadlines).unwrap();
        let green = green(&self.journal.genesis(), intent);
        while !steps.is_empty() {
            let mut next = Vec::new();
            for step in steps {
                let request = step.request().map(|(to, request)| (to.clone(), request));
                let answer = match step {
                    Step::Authorize(authorization) => return Ok(*authorization),
                    Step::Abstain(why) => return Err(why),
                    Step::Blame(blame) => panic!("{} is honest", blame.verifier_id),
                    Step::Sentinel => {
                        next.extend(coordinator.handle_verdict(&green, 0).unwrap());
                        continue;
                    }
                    Step::Ask { to, term } => {
                        let request = packet(intent, receipt, term);
                        clients.get_mut(&to).unwrap().ballot(request).await
                    }
                    Step::Open { to, sheet } => {
                        let sheet = sheet.to_canonical();
                        let request = v1::OpenRequest { sheet };
                        clients.get_mut(&to).unwrap().open(request).await
                    }
                    Step::Sign { to, package } => {
                        let package = package.to_canonical();
                        let request = v1::SignRequest { package };
                        clients.get_mut(&to).unwrap().sign(request).await
                    }
                };
                let (to, request) = request.unwrap();
                next.extend(tell(&mut coordinator, &to, request, answer));
            }
            steps = next;
        }
        panic!("the ballot stands still");
    }
}

/// A ballot request.
pub(crate) fn packet(
    intent: &SovereignActionIntentV1,
    receipt: &str,
    term: u64,
) -> v1::BallotRequest {
    let packet = BallotPacketV1 {
        intent: intent.to_canonical().into(),
        term,
        fresh: Digest::of(&term.to_be_bytes()),
    };
    v1::BallotRequest {
        packet: packet.to_canonical(),
        freeze_receipt: receipt.to_owned(),
    }
}

fn tell(
    coordinator: &mut Coordinator,
    from: &VerifierId,
    request: Request,
    answer: Result<tonic::Response<v1::VoterAnswer>, tonic::Status>,
) -> Vec<Step> {
    let refused = |coordinator: &mut Coordinator, refusal| {
        coordinator.handle_refusal(from, request, refusal, 0)
    };
    let Ok(answer) = answer else {
        return refused(coordinator, Refusal::InsufficientQuorum);
    };
    match (answer.into_inner().result.unwrap(), request) {
        (Wire::Refusal(code), _) => refused(coordinator, code.parse().unwrap()),
        (Wire::Answer(bytes), Request::Packet(_)) => {
            let answer = SealedAnswerV1::from_canonical(&bytes).unwrap();
            coordinator.handle_sealed(from, answer, 0).unwrap()
        }
        (Wire::Answer(bytes), Request::Sheet(_)) => {
            let vote = Envelope::from_canonical(&bytes).unwrap();
            coordinator.handle_opened(from, &vote, 0).unwrap()
        }
        (Wire::Answer(bytes), Request::Package(_)) => {
            let share = Envelope::from_canonical(&bytes).unwrap();
            coordinator.handle_share(from, &share, 0).unwrap()
        }
    }
}

/// The sentinel's GREEN.
fn green(genesis: &GenesisV1, intent: &SovereignActionIntentV1) -> Envelope {
    let digest = intent.digest();
    let verdict = SentinelVerdictV1 {
        verdict_id: Digest::of(b"verdict"),
        sentinel_identity_key_binary_policy_digest: genesis.roster.sentinel.pin_digest(),
        metric_evidence_rollback_digest: intent.metric_evidence_rollout_rollback_digest,
        verdict: Verdict::Green,
        intent_digest: digest,
        intent_core_ref: digest,
        intent_canonicalization_version: 1,
        constitution_epoch: intent.constitution_epoch,
        autonomy_epoch: intent.autonomy_epoch,
        risk_scope_digest: intent.risk_scope_digest,
        candidate_digest_optional: intent.candidate_digest_optional,
        nonce: Digest::of(b"nonce"),
        issued_at: START,
        expires_at: START + 300_000,
        reason_optional: None,
    };
    Envelope::seal(genesis.scope(), &key(2), &verdict)
}
