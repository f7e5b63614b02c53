//! Three nodes as verifiers see them: one journal in memory whose heads their keys sign.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures::Stream;
use redlatch_journal::authority::Governance;
use redlatch_journal::development::genesis;
use redlatch_journal::tree::{NodeIndex, inclusion_proof};
use redlatch_journal::{EntryId, State, evolve};
use redlatch_link::transport::{self, Listener, Routes};
use redlatch_link::{Role, world};
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_proto::v1::authority_server::{Authority, AuthorityServer};
use redlatch_types::checkpoint::{Checkpoint, Origin, Stage};
use redlatch_types::command::RawCommand;
use redlatch_types::event::{Accepted, Event, Reply};
use redlatch_types::in_force::{ActiveKeyV1, InForceV1};
use redlatch_types::note::{Note, SignatureLine};
use redlatch_types::policy::{NodeKeys, Policy};
use redlatch_types::receipt::{Receipt, TlogProof};
use redlatch_types::records::*;
use redlatch_types::*;
use tonic::{Request, Response, Status};

use crate::quorum::{START, id, key, parties};

/// The journal, shared by the service and the test.
#[derive(Clone)]
pub(crate) struct Journal(Arc<Mutex<Inner>>);

struct Inner {
    genesis: GenesisV1,
    state: State,
    leaves: Vec<Vec<u8>>,
    nodes: BTreeMap<NodeIndex, Digest>,
    entries: u64,
    /// This node shows the genesis in the place of the first leaf of this kind.
    masking: Option<(u8, &'static str)>,
}

/// The journal as one of its nodes shows it.
struct Node {
    journal: Journal,
    number: u8,
}

impl Journal {
    pub(crate) fn new() -> Journal {
        let made = genesis(parties());
        let journal = Journal(Arc::new(Mutex::new(Inner {
            genesis: made.clone(),
            state: State::new(),
            leaves: Vec::new(),
            nodes: BTreeMap::new(),
            entries: 0,
            masking: None,
        })));
        let sealed = Envelope::seal(made.scope(), &key(1), &made);
        journal.apply(&RawCommand::Bootstrap(sealed)).unwrap();
        journal
    }

    pub(crate) fn genesis(&self) -> GenesisV1 {
        self.0.lock().unwrap().genesis.clone()
    }

    pub(crate) fn apply(&self, command: &RawCommand) -> Result<Accepted, Refusal> {
        self.apply_bytes(command.to_canonical()).0
    }

    fn apply_bytes(&self, command: Vec<u8>) -> (Result<Accepted, Refusal>, u64, u64) {
        let mut inner = self.0.lock().unwrap();
        inner.entries += 1;
        let at = EntryId {
            term: 1,
            leader: 1,
            index: inner.entries,
        };
        let mut applied = inner.state.apply(at, &[command]);
        let count = applied.leaves.len() as u64;
        inner.leaves.extend(applied.leaves);
        inner.nodes.extend(applied.nodes);
        (applied.outcomes.remove(0).reply, applied.first_leaf, count)
    }

    fn origin(genesis: &GenesisV1) -> Origin {
        Origin {
            stage: Stage::Development,
            organism: genesis.organism_id(),
            history: 0,
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        let genesis = self.genesis();
        let nodes: Vec<NodeKeys> = genesis
            .roster
            .nodes
            .iter()
            .map(|node| NodeKeys {
                label: node.name.to_string(),
                log: node.log_key,
                cosigner: node.cosigner_key,
            })
            .collect();
        Policy::of_roster(&Journal::origin(&genesis), &nodes, &[]).unwrap()
    }

    /// The receipt of a leaf under the present head, cosigned by two of three nodes.
    pub(crate) fn receipt(&self, index: u64) -> Receipt {
        let inner = self.0.lock().unwrap();
        let origin = Journal::origin(&inner.genesis);
        let size = inner.state.log.frontier.size();
        let checkpoint = Checkpoint {
            origin,
            size,
            root: inner.state.log.frontier.root(),
        };
        let text = checkpoint.to_string();
        let log = SignatureLine::by_log(origin.log_name(), &key(101), &text);
        let mut head = Note::new(text.clone(), log).unwrap();
        for (name, n) in [("n1", 111), ("n2", 112)] {
            let name = origin.cosigner_name(name).unwrap();
            let line = SignatureLine::by_cosigner(name, &key(n), &text, START / 1_000).unwrap();
            head.add(line).unwrap();
        }
        let mut fetch = |at: NodeIndex| inner.nodes.get(&at).copied();
        let at = usize::try_from(index).unwrap();
        Receipt {
            leaf: inner.leaves[at].clone(),
            proof: TlogProof {
                index,
                hashes: inclusion_proof(size, index, &mut fetch).unwrap(),
                head,
            },
        }
    }

    /// Freezes a landing and gives the intent and the receipt of its freeze.
    pub(crate) fn freeze(&self, new: u8) -> (SovereignActionIntentV1, String) {
        let genesis = self.genesis();
        let proposal = ProposalV1 {
            audience: id("repo"),
            payload: ActionPayload::Land(LandPayload {
                resource: GitRef {
                    repository: id("repo"),
                    reference: Text::lossy("refs/heads/main"),
                },
                old: Bytes(vec![]),
                new: Bytes(vec![new; 20]),
            }),
            applicable_grant_id: Some(genesis.grants[0].id()),
            executor_subject_id_optional: Some(id("gate")),
            delegation_grant_digest_optional: None,
            promotion_target_subject_id_optional: None,
            expected_store_version: 0,
            expected_boundary_version: 1,
            expected_contract_version: 1,
            evidence: vec![],
            rollback: RollbackPlan::MoveRefBack,
            expires_at: START + 3_600_000,
            effect_deadline_ms: 600_000,
            mission_id_optional: None,
            ingress: Ingress::Cli,
        };
        let payload = proposal.to_canonical();
        let event_id = EventId(Digest::of(&[new]));
        let envelope = CausalEnvelopeV1 {
            event_id,
            actor_id: id("agent"),
            actor_kind: ActorKind::Agent,
            issuer: id("agent"),
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
            correlation_id: event_id,
            payload_digest: Digest::of(&payload),
            issued_at: START,
            expires_at: START + 600_000,
        };
        let sealed = Envelope::seal(genesis.scope(), &key(10), &envelope);
        let command = RawCommand::FreezeIntent(sealed, Bytes(payload)).to_canonical();
        let (reply, first, count) = self.apply_bytes(command);
        reply.unwrap();
        for position in first..first + count {
            let receipt = self.receipt(position);
            if let Ok(Event::Frozen(_, _, intent, _)) = Event::from_canonical(&receipt.leaf) {
                return (*intent, receipt.to_string());
            }
        }
        panic!("nothing was frozen");
    }

    /// Puts other verifiers in force, with the events that an activation of such a change writes. Whether it may be
    /// activated is the journal's own to test.
    pub(crate) fn change_verifiers(&self, verifiers: Vec<RosterVerifier>) {
        let governance = self.governance();
        let mut roster = governance.roster.clone();
        roster.roster_epoch = roster.roster_epoch.next();
        roster.verifiers = verifiers;
        let mut constitution = governance.constitution.followed();
        let spec = &mut constitution.independence_spec;
        spec.four_voting_verifier_principals = roster.verifier_seats();
        let epoch = AutonomyEpochV1 {
            autonomy_epoch: governance.epoch.autonomy_epoch.next(),
            constitution_epoch: constitution.constitution_epoch,
            constitution_digest: constitution.digest(),
            quorum_key_epoch: KeyEpoch(0),
            ..governance.epoch.clone()
        };
        let events = [
            Event::RosterChanged(Box::new(roster)),
            Event::ConstitutionAmended(Box::new(constitution)),
            Event::QuorumKeyVoided(governance.last_key_epoch),
            Event::EpochPublished(Box::new(epoch)),
        ];
        let mut guard = self.0.lock().unwrap();
        let inner = &mut *guard;
        for event in &events {
            let leaf = event.to_canonical();
            let mut nodes = Vec::new();
            let frontier = &mut inner.state.log.frontier;
            frontier.append(merkle::leaf_hash(&leaf), &mut nodes);
            evolve(&mut inner.state.authority, event);
            inner.nodes.extend(nodes);
            inner.leaves.push(leaf);
        }
    }

    pub(crate) fn governance(&self) -> Governance {
        let inner = self.0.lock().unwrap();
        inner.state.authority.governance.clone().unwrap()
    }

    /// What is in force.
    pub(crate) fn in_force(&self) -> InForceV1 {
        let governance = self.governance();
        InForceV1 {
            scope: governance.scope(),
            roster: governance.roster.clone(),
            constitution: governance.constitution.clone(),
            autonomy_epoch: governance.epoch.autonomy_epoch,
            quorum_key: governance.quorum_key.map(|key| ActiveKeyV1 {
                epoch: key.epoch,
                group_key: key.group_key,
                public_key_package_digest: key.public_key_package_digest,
            }),
            last_key_epoch: governance.last_key_epoch,
            ..InForceV1::of_genesis(&self.genesis())
        }
    }

    /// The key in force, once there is one.
    pub(crate) fn quorum_key(&self) -> Option<redlatch_journal::authority::QuorumKey> {
        let inner = self.0.lock().unwrap();
        inner
            .state
            .authority
            .governance
            .as_ref()?
            .quorum_key
            .clone()
    }

    /// From now on this node shows another leaf in the place of the first one of this kind.
    pub(crate) fn set_masking(&self, node: u8, word: &'static str) {
        self.0.lock().unwrap().masking = Some((node, word));
    }

    /// Serves the journal as one of its nodes.
    pub(crate) fn serve(&self, listener: Listener, number: u8) {
        let node = Node {
            journal: self.clone(),
            number,
        };
        let routes = Routes::new().service(AuthorityServer::new(node));
        world::spawn(transport::serve(listener, routes, std::future::pending()));
    }
}

impl Node {
    /// The leaves that it shows.
    fn leaves(&self) -> Vec<Vec<u8>> {
        let inner = self.journal.0.lock().unwrap();
        let mut leaves = inner.leaves.clone();
        if let Some((_, word)) = inner.masking.filter(|(node, _)| *node == self.number) {
            let hidden = |leaf: &Vec<u8>| Event::from_canonical(leaf).unwrap().word() == word;
            if let Some(at) = leaves.iter().position(hidden) {
                leaves[at] = leaves[0].clone();
            }
        }
        leaves
    }

    /// What it vouches for.
    fn status(&self, nonce: Digest) -> Envelope {
        let inner = self.journal.0.lock().unwrap();
        let governance = inner.state.authority.governance.as_ref().unwrap();
        let status = StatusV1 {
            node_id: NodeId(self.number.into()),
            nonce,
            intent_digest_optional: None,
            scope: ScopeState::Free,
            effect: EffectState::NotAsked,
            marker: MarkerNumber(0),
            active_mode: governance.epoch.active_mode,
            autonomy_epoch: governance.epoch.autonomy_epoch,
            constitution_epoch: governance.constitution.constitution_epoch,
            roster_epoch: governance.roster.roster_epoch,
            quorum_key_epoch: governance.epoch.quorum_key_epoch,
            latch_epoch: LatchNumber(0),
            history: 0,
            tree_size: inner.leaves.len() as u64,
            tick: inner.state.authority.clock.tick,
            state_time: inner.state.authority.clock.state_time,
        };
        Envelope::seal(governance.scope(), &key(120 + self.number), &status)
    }
}

/// Who may connect to the node.
pub(crate) const CALLERS: [Role; 1] = [Role::Verifier];

fn unused<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("no verifier asks for that"))
}

#[tonic::async_trait]
impl Authority for Node {
    type JournalStream = Pin<Box<dyn Stream<Item = Result<v1::JournalLeaf, Status>> + Send>>;

    async fn submit(
        &self,
        request: Request<v1::SubmitRequest>,
    ) -> Result<Response<v1::SubmitResponse>, Status> {
        let (reply, first_leaf, leaves) = self.journal.apply_bytes(request.into_inner().command);
        Ok(Response::new(v1::SubmitResponse {
            reply: Reply::from(reply).to_canonical(),
            term: Some(1),
            index: Some(1),
            first_leaf,
            leaves,
            receipt: None,
        }))
    }

    async fn receipt(
        &self,
        request: Request<v1::ReceiptRequest>,
    ) -> Result<Response<v1::ReceiptResponse>, Status> {
        match request.into_inner().leaf.and_then(|leaf| leaf.at) {
            Some(v1::leaf_at::At::Position(position)) => Ok(Response::new(v1::ReceiptResponse {
                receipt: self.journal.receipt(position).to_string(),
            })),
            _ => Err(NoAnswer::Absent.status("no such leaf")),
        }
    }

    async fn journal(
        &self,
        request: Request<v1::JournalRequest>,
    ) -> Result<Response<Self::JournalStream>, Status> {
        let from = request.into_inner().from;
        let leaves = (0u64..)
            .zip(self.leaves())
            .filter(move |(at, _)| *at >= from);
        let stream = leaves.map(|(position, leaf)| Ok(v1::JournalLeaf { position, leaf }));
        Ok(Response::new(Box::pin(tokio_stream::iter(
            stream.collect::<Vec<_>>(),
        ))))
    }

    async fn outcome(
        &self,
        _: Request<v1::OutcomeRequest>,
    ) -> Result<Response<v1::OutcomeResponse>, Status> {
        unused()
    }
    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        let nonce = Digest(request.into_inner().nonce.try_into().unwrap());
        Ok(Response::new(v1::StatusResponse {
            status: self.status(nonce).to_canonical(),
        }))
    }
    async fn leaf(&self, _: Request<v1::LeafRequest>) -> Result<Response<v1::JournalLeaf>, Status> {
        unused()
    }
    async fn resource(
        &self,
        _: Request<v1::ResourceRequest>,
    ) -> Result<Response<v1::ResourceResponse>, Status> {
        unused()
    }
    async fn progress(
        &self,
        _: Request<v1::ProgressRequest>,
    ) -> Result<Response<v1::ProgressResponse>, Status> {
        unused()
    }
    async fn support(
        &self,
        _: Request<v1::SupportRequest>,
    ) -> Result<Response<v1::SupportResponse>, Status> {
        unused()
    }
    async fn governance(
        &self,
        _: Request<v1::GovernanceRequest>,
    ) -> Result<Response<v1::GovernanceResponse>, Status> {
        unused()
    }
    async fn rosters(
        &self,
        _: Request<v1::RostersRequest>,
    ) -> Result<Response<v1::RostersResponse>, Status> {
        unused()
    }
    async fn feature(
        &self,
        _: Request<v1::FeatureRequest>,
    ) -> Result<Response<v1::FeatureResponse>, Status> {
        unused()
    }
    async fn cluster(
        &self,
        _: Request<v1::ClusterRequest>,
    ) -> Result<Response<v1::ClusterResponse>, Status> {
        unused()
    }
}
