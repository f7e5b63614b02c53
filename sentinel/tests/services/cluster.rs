//! Nodes in front of one pure journal, three of them in its roster: real commands, real receipts, real signed statuses. They can be
//! switched off together, and remember what each was brought.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use redlatch_journal::development::{Subject, genesis};
use redlatch_journal::registry::FEATURE_LEVEL;
use redlatch_journal::tree::{Frontier, NodeIndex, inclusion_proof};
use redlatch_link::Role;
use redlatch_link::transport::{Limits, Listener, Routes, caller, serve};
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_proto::v1::authority_server::{Authority, AuthorityServer};
use redlatch_types::checkpoint::Checkpoint;
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Event, Reply};
use redlatch_types::merkle::leaf_hash;
use redlatch_types::note::{Note, SignatureLine};
use redlatch_types::receipt::{Receipt, TlogProof};
use redlatch_types::records::*;
use redlatch_types::*;
use tonic::{Request, Response, Status};

use crate::identities::Identities;
use crate::world::journal::{World, parties, seal_genesis};
use crate::world::{key, origin};

/// The safety officer's key.
pub(crate) const OPERATOR: u8 = 13;

struct Shared {
    world: World,
    genesis: GenesisV1,
    is_down: bool,
    /// This node shows the receipt of the genesis for every leaf.
    liar: Option<u8>,
    /// These nodes show another leaf in the place of the one there.
    masks: BTreeMap<(u8, u64), Vec<u8>>,
    /// These nodes show the genesis in the place of the first leaf of this kind, once there is one.
    masking: Vec<(u8, &'static str)>,
    /// These nodes say of these leaves that nobody has cosigned them yet.
    withheld: BTreeSet<(u8, u64)>,
    /// Its journal ends here for everybody who reads it, though its statuses go on.
    hidden_from: Option<u64>,
    /// Who cosigns heads; the first is also the log.
    signers: Vec<u8>,
    /// What each node was brought, by kind of command and node.
    brought: BTreeMap<(&'static str, u8), usize>,
}

#[derive(Clone)]
pub(crate) struct Cluster(Arc<Mutex<Shared>>);

impl Cluster {
    /// A new organism with a safety officer, and no node listening yet.
    pub(crate) fn new() -> Cluster {
        let mut parties = parties();
        parties.subjects.push(Subject {
            subject_id: "operator".parse().unwrap(),
            actor_kind: ActorKind::Operator,
            public_key: key(OPERATOR).public_key(),
        });
        let mut genesis = genesis(parties);
        genesis.feature_level = FEATURE_LEVEL;
        let mut world = World::before_genesis();
        world.ok(seal_genesis(&genesis));
        world.tick(genesis.created_at + 1_000);
        let confirmations = world.key_confirmations(|_, _| {});
        world.ok(RawCommand::ActivateQuorumKey(confirmations));
        Cluster(Arc::new(Mutex::new(Shared {
            world,
            genesis,
            is_down: false,
            liar: None,
            masks: BTreeMap::new(),
            masking: Vec::new(),
            withheld: BTreeSet::new(),
            hidden_from: None,
            signers: vec![1, 2],
            brought: BTreeMap::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap()
    }

    pub(crate) fn genesis(&self) -> GenesisV1 {
        self.lock().genesis.clone()
    }

    pub(crate) fn world<R>(&self, with: impl FnOnce(&mut World) -> R) -> R {
        with(&mut self.lock().world)
    }

    /// Every node answers nothing, or everything again.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.lock().is_down = is_down;
    }

    /// From now on this node's receipts are of another leaf.
    pub(crate) fn set_liar(&self, node: u8) {
        self.lock().liar = Some(node);
    }

    /// From now on this node shows another leaf in the place of the first one of this kind.
    pub(crate) fn set_masking(&self, node: u8, word: &'static str) {
        self.lock().masking.push((node, word));
    }

    /// From now on every node shows every leaf.
    pub(crate) fn unmask(&self) {
        self.lock().masking.clear();
    }

    /// From now on this node shows `leaf` at a position.
    pub(crate) fn set_mask(&self, node: u8, position: u64, leaf: &Event) {
        let shown = leaf.to_canonical();
        self.lock().masks.insert((node, position), shown);
    }

    /// From now on this node gives no receipt of the leaf at a position.
    pub(crate) fn withhold(&self, node: u8, position: u64) {
        self.lock().withheld.insert((node, position));
    }

    /// From now on every receipt is given.
    pub(crate) fn withhold_nothing(&self) {
        self.lock().withheld.clear();
    }

    /// Where the leaves of this kind are.
    pub(crate) fn positions(&self, word: &str) -> Vec<u64> {
        let shared = self.lock();
        let events = (0u64..).zip(&shared.world.events);
        let found = events.filter(|(_, event)| event.word() == word);
        found.map(|(position, _)| position).collect()
    }

    /// From now on these nodes cosign, and no others.
    pub(crate) fn set_signers(&self, signers: &[u8]) {
        self.lock().signers = signers.to_vec();
    }

    /// Every node hides its leaves from a position on, or nothing any more.
    pub(crate) fn set_hidden_from(&self, position: Option<u64>) {
        self.lock().hidden_from = position;
    }

    /// How many leaves there are.
    pub(crate) fn size(&self) -> u64 {
        self.lock().world.leaves.len() as u64
    }

    /// How often a node was brought this kind of command, or was asked for leaves when there were none more
    /// (`read out`).
    pub(crate) fn brought(&self, kind: &'static str, node: u8) -> usize {
        let shared = self.lock();
        shared.brought.get(&(kind, node)).copied().unwrap_or(0)
    }

    pub(crate) fn count(&self, word: &str) -> usize {
        let shared = self.lock();
        let events = shared.world.events.iter();
        events.filter(|event| event.word() == word).count()
    }

    /// Serves three nodes and two that may join; their addresses by name.
    pub(crate) async fn serve(&self, identities: &Identities) -> BTreeMap<String, String> {
        let mut addresses = BTreeMap::new();
        for node in 1..=5u8 {
            let name = format!("n{node}");
            let own = identities.credentials(Role::Node, &name);
            let roles = [Role::Sentinel, Role::Actuator];
            let at = SocketAddr::from(([127, 0, 0, 1], 0));
            let listener = Listener::bind(at, &own, &roles, Limits::default())
                .await
                .unwrap();
            addresses.insert(name, listener.address().to_string());
            let service = Node {
                cluster: self.clone(),
                node,
            };
            let routes = Routes::new().service(AuthorityServer::new(service));
            tokio::spawn(serve(listener, routes, std::future::pending()));
        }
        addresses
    }

    /// The receipt of a leaf under the head of everything.
    pub(crate) fn receipt(&self, position: u64) -> Option<Receipt> {
        let shared = self.lock();
        let leaves = &shared.world.leaves;
        let leaf = leaves.get(usize::try_from(position).ok()?)?.clone();
        let (mut frontier, mut nodes) = (Frontier::default(), BTreeMap::new());
        for leaf in leaves {
            let mut out: Vec<(NodeIndex, Digest)> = Vec::new();
            frontier.append(leaf_hash(leaf), &mut out);
            nodes.extend(out);
        }
        let mut fetch = |at: NodeIndex| nodes.get(&at).copied();
        let hashes = inclusion_proof(frontier.size(), position, &mut fetch)?;
        let origin = origin(shared.genesis.scope());
        let text = Checkpoint {
            origin,
            size: frontier.size(),
            root: frontier.root(),
        }
        .to_string();
        let log = key(100 + shared.signers.first()?);
        let log = SignatureLine::by_log(origin.log_name(), &log, &text);
        let mut head = Note::new(text.clone(), log).ok()?;
        let time_s = shared.world.now() / 1_000;
        for n in shared.signers.iter().copied() {
            let name = origin.cosigner_name(&format!("n{n}")).ok()?;
            let line = SignatureLine::by_cosigner(name, &key(110 + n), &text, time_s);
            head.add(line.ok()?).ok()?;
        }
        let index = position;
        let proof = TlogProof {
            index,
            hashes,
            head,
        };
        Some(Receipt { leaf, proof })
    }

    /// The receipt of an intent's freeze.
    pub(crate) fn freeze_receipt(&self, intent: IntentDigest) -> String {
        let position = self.world(|world| {
            let frozen = |it: &Event| matches!(it, Event::Frozen(digest, ..) if *digest == intent);
            world.events.iter().position(frozen).unwrap()
        });
        self.receipt(position as u64).unwrap().to_string()
    }
}

struct Node {
    cluster: Cluster,
    node: u8,
}

fn kind_of(command: &RawCommand) -> &'static str {
    match command {
        RawCommand::LatchRed(_) => "latch_red",
        RawCommand::AcknowledgeOutbox(_) => "acknowledge_outbox",
        _ => "safety",
    }
}

impl Node {
    /// Denied like a node that is gone.
    fn up<T>(&self, request: &Request<T>) -> Result<Role, Status> {
        if self.cluster.lock().is_down {
            return Err(NoAnswer::Unavailable.status("down"));
        }
        Ok(caller(request)?.role)
    }

    fn status(&self, request: &v1::StatusRequest) -> StatusV1 {
        let shared = self.cluster.lock();
        let authority = &shared.world.state.authority;
        let governance = authority.governance.as_ref().unwrap();
        StatusV1 {
            node_id: NodeId(self.node.into()),
            nonce: Digest(request.nonce.clone().try_into().unwrap()),
            intent_digest_optional: None,
            scope: ScopeState::Free,
            effect: EffectState::NotAsked,
            marker: MarkerNumber(0),
            active_mode: governance.epoch.active_mode,
            autonomy_epoch: governance.epoch.autonomy_epoch,
            constitution_epoch: governance.constitution.constitution_epoch,
            roster_epoch: governance.roster.roster_epoch,
            quorum_key_epoch: governance.epoch.quorum_key_epoch,
            latch_epoch: highest_latch(&shared.world.events),
            history: 0,
            tree_size: shared.world.leaves.len() as u64,
            tick: authority.clock.tick,
            state_time: authority.clock.state_time,
        }
    }
}

fn highest_latch(events: &[Event]) -> LatchNumber {
    let latches = events.iter().filter_map(|event| match event {
        Event::RedLatched(receipt, ..) => Some(receipt.latch_epoch),
        _ => None,
    });
    latches.max().unwrap_or_default()
}

#[tonic::async_trait]
impl Authority for Node {
    type JournalStream =
        Pin<Box<dyn futures::Stream<Item = Result<v1::JournalLeaf, Status>> + Send>>;

    async fn submit(
        &self,
        request: Request<v1::SubmitRequest>,
    ) -> Result<Response<v1::SubmitResponse>, Status> {
        let role = self.up(&request)?;
        let command = RawCommand::from_canonical(&request.get_ref().command).unwrap();
        let kind = kind_of(&command);
        assert_eq!(kind == "safety", role == Role::Actuator, "{kind}");
        let mut shared = self.cluster.lock();
        *shared.brought.entry((kind, self.node)).or_default() += 1;
        let outcome = shared.world.apply(command);
        Ok(Response::new(v1::SubmitResponse {
            reply: Reply::from(outcome.reply).to_canonical(),
            ..Default::default()
        }))
    }

    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        if self.up(&request)? == Role::Actuator {
            let mut shared = self.cluster.lock();
            *shared.brought.entry(("status", self.node)).or_default() += 1;
        }
        let status = self.status(request.get_ref());
        let scope = self.cluster.lock().genesis.scope();
        let signed = Envelope::seal(scope, &key(120 + self.node), &status);
        Ok(Response::new(v1::StatusResponse {
            status: signed.to_canonical(),
        }))
    }

    async fn receipt(
        &self,
        request: Request<v1::ReceiptRequest>,
    ) -> Result<Response<v1::ReceiptResponse>, Status> {
        self.up(&request)?;
        let at = request.into_inner().leaf.and_then(|leaf| leaf.at);
        let Some(v1::leaf_at::At::Position(position)) = at else {
            return Err(NoAnswer::Invalid.status("by position"));
        };
        let shared = self.cluster.lock();
        let lies = shared.liar == Some(self.node);
        let withheld = shared.withheld.contains(&(self.node, position));
        drop(shared);
        if withheld {
            return Err(NoAnswer::NotYet.status("nobody has cosigned it"));
        }
        let receipt = self.cluster.receipt(if lies { 0 } else { position });
        let receipt = receipt.ok_or_else(|| NoAnswer::Absent.status("no such leaf"))?;
        Ok(Response::new(v1::ReceiptResponse {
            receipt: receipt.to_string(),
        }))
    }

    async fn leaf(
        &self,
        request: Request<v1::LeafRequest>,
    ) -> Result<Response<v1::JournalLeaf>, Status> {
        self.up(&request)?;
        let at = request.into_inner().leaf.and_then(|leaf| leaf.at);
        let shared = self.cluster.lock();
        let found = shared.world.events.iter().position(|event| {
            let keys = redlatch_journal::IndexKey::of(event);
            matches!(&at, Some(v1::leaf_at::At::IndexKey(key)) if keys.iter().any(|it| it.to_bytes() == *key))
        });
        let position = found.ok_or_else(|| NoAnswer::Absent.status("no such leaf"))?;
        Ok(Response::new(v1::JournalLeaf {
            position: position as u64,
            leaf: shared.world.leaves[position].clone(),
        }))
    }

    async fn journal(
        &self,
        request: Request<v1::JournalRequest>,
    ) -> Result<Response<Self::JournalStream>, Status> {
        self.up(&request)?;
        let from = request.get_ref().from;
        let mut shared = self.cluster.lock();
        if from >= shared.world.leaves.len() as u64 {
            *shared.brought.entry(("read out", self.node)).or_default() += 1;
        }
        let genesis = &shared.world.leaves[0];
        let masking = shared.masking.iter().filter(|(it, _)| *it == self.node);
        let masked: Vec<_> = masking
            .filter_map(|(_, word)| {
                let mut events = shared.world.events.iter();
                events.position(|event| event.word() == *word)
            })
            .collect();
        let shown = |(at, leaf)| match shared.masks.get(&(self.node, at as u64)) {
            Some(other) => other,
            None if masked.contains(&at) => genesis,
            None => leaf,
        };
        let leaves: Vec<_> = (0u64..)
            .zip(shared.world.leaves.iter().enumerate().map(shown))
            .filter(|(position, _)| *position >= from)
            .filter(|(position, _)| shared.hidden_from.is_none_or(|end| *position < end))
            .map(|(position, leaf)| {
                let leaf = leaf.clone();
                Ok(v1::JournalLeaf { position, leaf })
            })
            .collect();
        Ok(Response::new(Box::pin(futures::stream::iter(leaves))))
    }

    async fn outcome(
        &self,
        _: Request<v1::OutcomeRequest>,
    ) -> Result<Response<v1::OutcomeResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn progress(
        &self,
        _: Request<v1::ProgressRequest>,
    ) -> Result<Response<v1::ProgressResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn resource(
        &self,
        _: Request<v1::ResourceRequest>,
    ) -> Result<Response<v1::ResourceResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }

    async fn support(
        &self,
        _: Request<v1::SupportRequest>,
    ) -> Result<Response<v1::SupportResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }
    async fn governance(
        &self,
        _: Request<v1::GovernanceRequest>,
    ) -> Result<Response<v1::GovernanceResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }
    async fn rosters(
        &self,
        _: Request<v1::RostersRequest>,
    ) -> Result<Response<v1::RostersResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }
    async fn feature(
        &self,
        _: Request<v1::FeatureRequest>,
    ) -> Result<Response<v1::FeatureResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }
    async fn cluster(
        &self,
        _: Request<v1::ClusterRequest>,
    ) -> Result<Response<v1::ClusterResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }
}
