//! Three nodes and one that may join, in this process: the real journal and the real service, without Raft. Each node can be made
//! to say what a test wants it to say.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::Stream;
use redlatch_journal::IndexKey;
use redlatch_journal::development::{self, Subject};
use redlatch_journal::registry::FEATURE_LEVEL;
use redlatch_link::Role;
use redlatch_link::transport::{Credentials, Limits, Listener, Routes, caller, serve};
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_proto::v1::authority_server::{Authority, AuthorityServer};
use redlatch_types::checkpoint::{Checkpoint, Origin, Stage};
use redlatch_types::event::{Event, Reply};
use redlatch_types::merkle::{empty_root, leaf_hash, node_hash};
use redlatch_types::note::{Note, SignatureLine};
use redlatch_types::policy::{NodeKeys, Policy};
use redlatch_types::receipt::{Receipt, TlogProof};
use redlatch_types::records::{
    ActionPayload, ActorKind, EffectState, GenesisV1, RosterPayload, ScopeState, StatusV1,
};
use redlatch_types::*;
use tonic::{Request, Response, Status};

use crate::view;
use crate::world::{START, World, id, key, parties, seal_genesis};

/// What one node says instead of the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    Truth,
    Nothing,
    Scope(ScopeState),
    NotOutstanding,
}

/// Key of an enrolled runner.
pub const RUNNER: u8 = 13;

/// The shared world's organism, and a runner. Its roster can be changed.
pub fn genesis() -> GenesisV1 {
    let mut parties = parties();
    parties.subjects.push(Subject {
        subject_id: id("runner"),
        actor_kind: ActorKind::Runner,
        public_key: key(RUNNER).public_key(),
    });
    let mut genesis = development::genesis(parties);
    genesis.feature_level = FEATURE_LEVEL;
    genesis
}

fn started() -> World {
    let mut world = World::before_genesis();
    world.ok(seal_genesis(&genesis()));
    world.tick(START + 1_000);
    let confirmations = world.key_confirmations(|_, _| {});
    world.ok(command::RawCommand::ActivateQuorumKey(confirmations));
    world
}

/// What receipts are cosigned by.
pub const COSIGNERS: [u8; 3] = [1, 2, 3];

pub struct Shared {
    pub world: World,
    pub says: BTreeMap<u64, Says>,
    /// Nodes that cosign receipts.
    pub cosigners: Vec<u8>,
    /// Whether frozen intents are decided and committed at once.
    pub decides: bool,
    /// What is said of every decision in progress.
    pub progress: v1::ProgressResponse,
    /// Claims seen, by transaction.
    pub claims: Vec<TransactionId>,
    /// The chain of rosters that nodes show.
    pub links: Vec<Receipt>,
    /// What one node shows in its place.
    pub links_of: BTreeMap<u64, Vec<Receipt>>,
}

#[derive(Clone)]
pub struct Cluster(Arc<Mutex<Shared>>);

impl Cluster {
    pub fn new() -> Cluster {
        Cluster(Arc::new(Mutex::new(Shared {
            world: started(),
            says: BTreeMap::new(),
            cosigners: COSIGNERS.to_vec(),
            decides: false,
            progress: v1::ProgressResponse::default(),
            claims: Vec::new(),
            links: Vec::new(),
            links_of: BTreeMap::new(),
        })))
    }

    pub fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().expect("no test holds it while it fails")
    }

    pub fn says(&self, node: u64, what: Says) {
        self.lock().says.insert(node, what);
    }

    /// Changes the roster. The receipt of the change is cosigned by these nodes; no node shows it yet, and later
    /// receipts are cosigned by all that are there now.
    pub fn change_roster(&self, change: RosterPayload, signers: &[u8]) -> Receipt {
        let mut shared = self.lock();
        let change = ActionPayload::RosterChange(Box::new(change));
        shared.world.make_change(change);
        let leaves = shared.world.leaves.iter();
        let mut events = leaves.map(|leaf| Event::from_canonical(leaf).expect("a leaf"));
        let place = events.rposition(|it| it.roster().is_some());
        shared.cosigners = signers.to_vec();
        let link = shared.receipt(place.expect("a change") as u64);
        let roster = shared.world.governance().roster;
        let voters = roster.voters().map(|it| it.node_id.0);
        shared.cosigners = voters.map(|it| u8::try_from(it).expect("small")).collect();
        link
    }

    pub async fn serve(&self, node: u64, credentials: &Credentials) -> SocketAddr {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let roles = [Role::Gate, Role::Client];
        let listener = Listener::bind(anywhere, credentials, &roles, Limits::default());
        let listener = listener.await.expect("bound");
        let address = listener.address();
        let service = AuthorityServer::new(Node(node, self.clone()));
        let routes = Routes::new().service(service);
        tokio::spawn(serve(listener, routes, std::future::pending()));
        address
    }
}

impl Shared {
    pub fn origin(&self) -> Origin {
        Origin {
            stage: Stage::Development,
            organism: self.world.scope().organism_id,
            history: 0,
        }
    }

    pub fn policy(&self) -> Policy {
        let keys = |n: u8| NodeKeys {
            label: format!("n{n}"),
            log: key(100 + n).public_key(),
            cosigner: key(110 + n).public_key(),
        };
        Policy::of_roster(&self.origin(), &COSIGNERS.map(keys), &[]).expect("a policy")
    }

    pub fn find(&self, wanted: &[u8]) -> Option<u64> {
        let mut found = None;
        for (leaf, position) in self.world.leaves.iter().zip(0u64..) {
            let event = Event::from_canonical(leaf).expect("a leaf");
            if IndexKey::of(&event)
                .iter()
                .any(|it| it.to_bytes() == wanted)
            {
                found = Some(position);
            }
        }
        found
    }

    pub fn receipt(&self, position: u64) -> Receipt {
        let hashes: Vec<Digest> = self.world.leaves.iter().map(|it| leaf_hash(it)).collect();
        let at = usize::try_from(position).expect("small");
        let checkpoint = Checkpoint {
            origin: self.origin(),
            size: hashes.len() as u64,
            root: root(&hashes),
        };
        let text = checkpoint.to_string();
        let line = SignatureLine::by_log(self.origin().log_name(), &key(101), &text);
        let mut head = Note::new(text.clone(), line).expect("a note");
        for n in &self.cosigners {
            let name = self
                .origin()
                .cosigner_name(&format!("n{n}"))
                .expect("a name");
            let line = SignatureLine::by_cosigner(name, &key(110 + n), &text, 1_800_000_000);
            head.add(line.expect("a cosignature")).expect("added");
        }
        Receipt {
            leaf: self.world.leaves[at].clone(),
            proof: TlogProof {
                index: position,
                hashes: path(at, &hashes),
                head,
            },
        }
    }

    fn status(&self, node: u64, request: &v1::StatusRequest) -> StatusV1 {
        let digest = |bytes: &[u8]| Digest(bytes.try_into().expect("32 bytes"));
        let question = view::Question {
            nonce: digest(&request.nonce),
            intent: request
                .intent_digest
                .as_deref()
                .map(|it| IntentDigest(digest(it))),
        };
        let authority = &self.world.state.authority;
        let size = self.world.leaves.len() as u64;
        let mut status =
            view::status(authority, size, NodeId(node), question, &[]).expect("started");
        match self.says.get(&node).copied().unwrap_or(Says::Truth) {
            Says::Scope(scope) if question.intent.is_some() => status.scope = scope,
            Says::NotOutstanding => status.effect = EffectState::NotOutstanding,
            _ => {}
        }
        status
    }

    fn submit(&mut self, bytes: &[u8]) -> (Reply, u64, u64) {
        let first = self.world.leaves.len() as u64;
        let outcome = self.world.apply_bytes(vec![bytes.to_vec()]).remove(0);
        let leaves = self.world.leaves.len() as u64 - first;
        match &outcome.reply {
            Ok(event::Accepted::Frozen(digest)) if self.decides && leaves > 0 => {
                let digest = *digest;
                self.world.commit(digest);
            }
            Ok(event::Accepted::EffectClaimed(_)) => {
                if let Some(Event::EffectClaimed(id, ..)) = self.world.events.last() {
                    self.claims.push(*id);
                }
            }
            _ => {}
        }
        (outcome.reply.into(), first, leaves)
    }
}

fn split(len: usize) -> usize {
    let mut at = 1;
    while at * 2 < len {
        at *= 2;
    }
    at
}

/// RFC 6962 §2.1, as it is written there.
fn root(hashes: &[Digest]) -> Digest {
    match hashes {
        [] => empty_root(),
        [one] => *one,
        _ => {
            let (left, right) = hashes.split_at(split(hashes.len()));
            node_hash(&root(left), &root(right))
        }
    }
}

/// RFC 6962 §2.1.1.
fn path(at: usize, hashes: &[Digest]) -> Vec<Digest> {
    if hashes.len() <= 1 {
        return Vec::new();
    }
    let middle = split(hashes.len());
    let (left, right) = hashes.split_at(middle);
    let (mut inner, other) = if at < middle {
        (path(at, left), root(right))
    } else {
        (path(at - middle, right), root(left))
    };
    inner.push(other);
    inner
}

struct Node(u64, Cluster);

impl Node {
    /// Nobody but a known caller is answered, and a silent node answers nobody.
    async fn enter<T>(&self, request: &Request<T>) -> Result<(), Status> {
        caller(request)?;
        let silent = self.1.lock().says.get(&self.0) == Some(&Says::Nothing);
        if silent {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    fn position(&self, leaf: Option<v1::LeafAt>) -> Result<u64, Status> {
        let absent = || NoAnswer::Absent.status("no such leaf");
        match leaf.and_then(|it| it.at).ok_or_else(absent)? {
            v1::leaf_at::At::Position(position) => Ok(position),
            v1::leaf_at::At::IndexKey(wanted) => self.1.lock().find(&wanted).ok_or_else(absent),
        }
    }
}

type Leaves = Pin<Box<dyn Stream<Item = Result<v1::JournalLeaf, Status>> + Send>>;

#[tonic::async_trait]
impl Authority for Node {
    async fn submit(
        &self,
        request: Request<v1::SubmitRequest>,
    ) -> Result<Response<v1::SubmitResponse>, Status> {
        self.enter(&request).await?;
        let (reply, first_leaf, leaves) = self.1.lock().submit(&request.get_ref().command);
        Ok(Response::new(v1::SubmitResponse {
            reply: reply.to_canonical(),
            term: Some(1),
            index: Some(1),
            first_leaf,
            leaves,
            receipt: None,
        }))
    }

    async fn outcome(
        &self,
        request: Request<v1::OutcomeRequest>,
    ) -> Result<Response<v1::OutcomeResponse>, Status> {
        self.enter(&request).await?;
        Ok(Response::new(v1::OutcomeResponse::default()))
    }

    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        // What clients stamp from is answered by everyone; a silent node is silent about effects.
        if request.get_ref().intent_digest.is_some() {
            self.enter(&request).await?;
        }
        let shared = self.1.lock();
        let status = shared.status(self.0, request.get_ref());
        let record_key = key(120 + u8::try_from(self.0).expect("small"));
        let envelope = Envelope::seal(shared.world.scope(), &record_key, &status);
        Ok(Response::new(v1::StatusResponse {
            status: envelope.to_canonical(),
        }))
    }

    async fn receipt(
        &self,
        request: Request<v1::ReceiptRequest>,
    ) -> Result<Response<v1::ReceiptResponse>, Status> {
        let position = self.position(request.get_ref().leaf.clone())?;
        let receipt = self.1.lock().receipt(position).to_string();
        Ok(Response::new(v1::ReceiptResponse { receipt }))
    }

    async fn leaf(
        &self,
        request: Request<v1::LeafRequest>,
    ) -> Result<Response<v1::JournalLeaf>, Status> {
        let position = self.position(request.get_ref().leaf.clone())?;
        let at = usize::try_from(position).expect("small");
        let leaf = self.1.lock().world.leaves[at].clone();
        Ok(Response::new(v1::JournalLeaf { position, leaf }))
    }

    type JournalStream = Leaves;

    async fn journal(
        &self,
        request: Request<v1::JournalRequest>,
    ) -> Result<Response<Leaves>, Status> {
        let start = (request.get_ref().from, self.1.clone());
        let stream = futures::stream::unfold(start, |(at, cluster)| async move {
            loop {
                let index = usize::try_from(at).expect("small");
                let leaf = cluster.lock().world.leaves.get(index).cloned();
                if let Some(leaf) = leaf {
                    let leaf = v1::JournalLeaf { position: at, leaf };
                    return Some((Ok(leaf), (at + 1, cluster)));
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        Ok(Response::new(Box::pin(stream)))
    }

    async fn resource(
        &self,
        request: Request<v1::ResourceRequest>,
    ) -> Result<Response<v1::ResourceResponse>, Status> {
        let id = request.into_inner().resource_id;
        let id = id.try_into().expect("32 bytes");
        let shared = self.1.lock();
        let resources = &shared.world.state.authority.resources;
        let known = resources.get(&ResourceId(Digest(id)));
        Ok(Response::new(known.map_or_else(
            Default::default,
            |known| v1::ResourceResponse {
                head: known.head.clone().map(|it| it.0),
                store_version: known.store_version,
                reserved_by: known.reserved_by.map(|it| it.0.0.to_vec()),
            },
        )))
    }

    async fn progress(
        &self,
        _: Request<v1::ProgressRequest>,
    ) -> Result<Response<v1::ProgressResponse>, Status> {
        Ok(Response::new(self.1.lock().progress.clone()))
    }

    async fn support(
        &self,
        _: Request<v1::SupportRequest>,
    ) -> Result<Response<v1::SupportResponse>, Status> {
        Ok(Response::new(v1::SupportResponse::default()))
    }
    async fn governance(
        &self,
        _: Request<v1::GovernanceRequest>,
    ) -> Result<Response<v1::GovernanceResponse>, Status> {
        let shared = self.1.lock();
        let in_force = redlatch_node::view::in_force(&shared.world.state.authority);
        Ok(Response::new(in_force.expect("after genesis")))
    }
    async fn rosters(
        &self,
        request: Request<v1::RostersRequest>,
    ) -> Result<Response<v1::RostersResponse>, Status> {
        self.enter(&request).await?;
        let known = usize::try_from(request.get_ref().after - 1).expect("small");
        let shared = self.1.lock();
        let links = shared.links_of.get(&self.0).unwrap_or(&shared.links);
        let links = links.iter().skip(known).map(ToString::to_string);
        Ok(Response::new(v1::RostersResponse {
            links: links.collect(),
        }))
    }
    async fn feature(
        &self,
        _: Request<v1::FeatureRequest>,
    ) -> Result<Response<v1::FeatureResponse>, Status> {
        Ok(Response::new(v1::FeatureResponse::default()))
    }
    async fn cluster(
        &self,
        _: Request<v1::ClusterRequest>,
    ) -> Result<Response<v1::ClusterResponse>, Status> {
        Ok(Response::new(v1::ClusterResponse::default()))
    }
}
