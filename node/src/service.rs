//! The service `redlatch.v1.Authority`: what the node offers to everybody but its peers.
//!
//! ```text
//!   caller ──▶ role ──▶ admit ──▶ propose ──▶ reply          submit
//!          └─▶ read point ──▶ state ──▶ signed status          reads
//! ```
//!
//! Reads are open to every enrolled role of the organism. Nothing is decided here.

mod governance;
mod journal;
mod progress;
mod read;
mod shown;
mod submit;
mod support;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use redlatch_link::server_type;
use redlatch_link::transport;
use redlatch_link::world::Monotonic;
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_proto::v1::authority_server::{Authority, AuthorityServer};
use redlatch_raft::engine::Engine;
use redlatch_raft::node::RaftNode;
use redlatch_types::records::RosterV1;
use redlatch_types::{Digest, NodeId, SigningKey};
use tonic::{Request, Response, Status};

use crate::clock::ClockFitness;
use crate::coordinator::{Parties, Progress, Support};
use crate::held::HeldReds;
use crate::metrics::NodeMetrics;

pub(crate) use shown::LastDigest;

/// What the service works with. Handlers share one.
pub(crate) struct Desk<E> {
    /// The replicated journal.
    pub(crate) raft: RaftNode<E>,
    /// Signs statuses.
    pub(crate) record_key: Arc<SigningKey>,
    /// REDs not latched yet.
    pub(crate) held: Arc<HeldReds>,
    /// Whether this node's clock is near state time.
    pub(crate) clock: Arc<ClockFitness>,
    /// Numbers for people.
    pub(crate) metrics: NodeMetrics,
    /// Names of the nodes before the genesis is applied.
    pub(crate) genesis_roster: RosterV1,
    /// What the coordinator remembers of decisions.
    pub(crate) progress: Progress,
    /// What callers brought for decisions.
    pub(crate) support: Mutex<Support>,
    /// Who takes part in decisions, once this node may coordinate.
    pub(crate) parties: OnceLock<Arc<Parties>>,
    /// What the state came to when somebody asked last.
    pub(crate) last_digest: LastDigest,
}

impl<E> Desk<E> {
    /// What callers brought for decisions. Never held across an await.
    pub(crate) fn support(&self) -> MutexGuard<'_, Support> {
        self.support.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Engine> Desk<E> {
    /// A node's name, by the roster in force.
    pub(crate) fn name_of(&self, id: NodeId) -> Option<String> {
        let in_force = self.raft.read(|state| {
            let governance = state.authority.governance.as_ref()?;
            governance.roster.node(id).map(|node| node.name.to_string())
        });
        in_force.or_else(|| {
            self.genesis_roster
                .node(id)
                .map(|node| node.name.to_string())
        })
    }
}

/// The service's handle.
pub(crate) struct AuthorityService<E>(Arc<Desk<E>>);

impl<E: Engine> AuthorityService<E> {
    /// The tonic service.
    pub(crate) fn server(desk: Arc<Desk<E>>) -> server_type!(AuthorityServer<AuthorityService<E>>) {
        AuthorityServer::new(AuthorityService(desk))
    }
}

#[tonic::async_trait]
impl<E: Engine> Authority for AuthorityService<E> {
    type JournalStream = journal::Leaves;

    async fn submit(
        &self,
        request: Request<v1::SubmitRequest>,
    ) -> Result<Response<v1::SubmitResponse>, Status> {
        let caller = transport::caller(&request)?;
        let begun = Monotonic::now();
        let answer = submit::submit(&self.0, caller.role, request.into_inner()).await;
        self.0.metrics.submitted(&answer, begun.elapsed());
        answer.map(Response::new)
    }

    async fn outcome(
        &self,
        request: Request<v1::OutcomeRequest>,
    ) -> Result<Response<v1::OutcomeResponse>, Status> {
        transport::caller(&request)?;
        let answer = read::outcome(&self.0, request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        transport::caller(&request)?;
        let answer = read::status(&self.0, &request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn receipt(
        &self,
        request: Request<v1::ReceiptRequest>,
    ) -> Result<Response<v1::ReceiptResponse>, Status> {
        transport::caller(&request)?;
        let answer = read::receipt(&self.0, request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn leaf(
        &self,
        request: Request<v1::LeafRequest>,
    ) -> Result<Response<v1::JournalLeaf>, Status> {
        transport::caller(&request)?;
        let answer = read::leaf(&self.0, request.into_inner())?;
        Ok(Response::new(answer))
    }

    async fn journal(
        &self,
        request: Request<v1::JournalRequest>,
    ) -> Result<Response<Self::JournalStream>, Status> {
        transport::caller(&request)?;
        let stream = journal::leaves(&self.0, request.get_ref());
        Ok(Response::new(stream))
    }

    async fn resource(
        &self,
        request: Request<v1::ResourceRequest>,
    ) -> Result<Response<v1::ResourceResponse>, Status> {
        transport::caller(&request)?;
        let answer = read::resource(&self.0, request.get_ref()).await?;
        Ok(Response::new(answer))
    }

    async fn progress(
        &self,
        request: Request<v1::ProgressRequest>,
    ) -> Result<Response<v1::ProgressResponse>, Status> {
        transport::caller(&request)?;
        let answer = progress::progress(&self.0, request.get_ref()).await?;
        Ok(Response::new(answer))
    }

    async fn support(
        &self,
        request: Request<v1::SupportRequest>,
    ) -> Result<Response<v1::SupportResponse>, Status> {
        let caller = transport::caller(&request)?;
        let answer = support::support(&self.0, caller.role, request.into_inner())?;
        Ok(Response::new(answer))
    }

    async fn governance(
        &self,
        request: Request<v1::GovernanceRequest>,
    ) -> Result<Response<v1::GovernanceResponse>, Status> {
        transport::caller(&request)?;
        let answer = governance::governance(&self.0).await?;
        Ok(Response::new(answer))
    }

    async fn rosters(
        &self,
        request: Request<v1::RostersRequest>,
    ) -> Result<Response<v1::RostersResponse>, Status> {
        transport::caller(&request)?;
        let answer = read::rosters(&self.0, request.get_ref())?;
        Ok(Response::new(answer))
    }

    async fn feature(
        &self,
        request: Request<v1::FeatureRequest>,
    ) -> Result<Response<v1::FeatureResponse>, Status> {
        let caller = transport::caller(&request)?;
        let answer = governance::feature(&self.0, caller.role)?;
        Ok(Response::new(answer))
    }

    async fn cluster(
        &self,
        request: Request<v1::ClusterRequest>,
    ) -> Result<Response<v1::ClusterResponse>, Status> {
        transport::caller(&request)?;
        let answer = shown::cluster(&self.0, request.into_inner()).await;
        Ok(Response::new(answer))
    }
}

/// A digest of 32 bytes.
fn digest(what: &str, bytes: &[u8]) -> Result<Digest, Status> {
    bytes
        .try_into()
        .map(Digest)
        .map_err(|_| NoAnswer::Invalid.status(format!("{what} is not 32 bytes")))
}
