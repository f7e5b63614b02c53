//! The two services: the RED line for the pinned sentinel, the hold line for gates.
//!
//! They stand on two listeners, so that no number of gates takes the sentinel's room (FAULTS 60). A call
//! runs to its end even if its caller hangs up.

use std::future::Future;
use std::sync::Arc;

use redlatch_link::store::Store;
use redlatch_link::transport::Limits;
use redlatch_link::{PeerIdentity, Role, server_type, transport, world};
use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_proto::v1::hold_line_server::{HoldLine, HoldLineServer};
use redlatch_proto::v1::red_line_server::{RedLine, RedLineServer};
use redlatch_types::{Canonical, Digest};
use tonic::{Request, Response, Status};

use crate::desk::{Desk, NotHeard, Stopped};
use crate::hold::SeenV1;

/// Who may connect to the RED line.
pub(crate) const RED_CALLERS: [Role; 1] = [Role::Sentinel];
/// Who may connect to the hold line.
pub(crate) const HOLD_CALLERS: [Role; 2] = [Role::Gate, Role::Operator];

/// One caller needs few connections; strangers in their handshakes take nobody else's place.
pub(crate) fn red_limits() -> Limits {
    Limits {
        connections_per_source_max: 16,
        ..Limits::default()
    }
}

/// The RED line's handle.
pub(crate) struct RedService<S> {
    desk: Arc<Desk<S>>,
    sentinel: PeerIdentity,
}

impl<S: Store> RedService<S> {
    /// The tonic service, for this one caller.
    pub(crate) fn server(
        desk: Arc<Desk<S>>,
        sentinel: PeerIdentity,
    ) -> server_type!(RedLineServer<RedService<S>>) {
        RedLineServer::new(RedService { desk, sentinel })
    }

    fn allow<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let caller = transport::caller(request)?;
        if caller == self.sentinel {
            return Ok(());
        }
        let text = format!("{} is not the sentinel of the roster", caller.short());
        Err(NoAnswer::Denied.status(text))
    }
}

/// The hold line's handle.
pub(crate) struct HoldService<S>(Arc<Desk<S>>);

impl<S: Store> HoldService<S> {
    /// The tonic service.
    pub(crate) fn server(desk: Arc<Desk<S>>) -> server_type!(HoldLineServer<HoldService<S>>) {
        HoldLineServer::new(HoldService(desk))
    }
}

/// Runs a call to its end, whether or not the caller waits for it.
async fn to_the_end<T: Send + 'static>(
    call: impl Future<Output = Result<T, NotHeard>> + Send + 'static,
) -> Result<T, Status> {
    match world::spawn(call).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(NotHeard::Stopping)) => Err(stopping()),
        Ok(Err(error)) => Err(NoAnswer::Invalid.status(error.to_string())),
        Err(_) => Err(NoAnswer::Unavailable.status("the call failed")),
    }
}

fn stopping() -> Status {
    NoAnswer::Unavailable.status("the actuator is stopping")
}

fn acknowledged(seen: SeenV1) -> (u64, Vec<u8>) {
    (seen.number.0, seen.root.0.to_vec())
}

#[tonic::async_trait]
impl<S: Store> RedLine for RedService<S> {
    async fn red(
        &self,
        request: Request<v1::RedRequest>,
    ) -> Result<Response<v1::RedResponse>, Status> {
        self.allow(&request)?;
        let (desk, segment) = (Arc::clone(&self.desk), request.into_inner().segment);
        let seen = to_the_end(async move { desk.red(&segment).await }).await?;
        let (acknowledged_outbox_epoch, outbox_root) = acknowledged(seen);
        tracing::warn!(acknowledged_outbox_epoch, "RED: held and stored");
        Ok(Response::new(v1::RedResponse {
            acknowledged_outbox_epoch,
            outbox_root,
        }))
    }

    async fn beat(
        &self,
        request: Request<v1::BeatRequest>,
    ) -> Result<Response<v1::BeatResponse>, Status> {
        self.allow(&request)?;
        let (desk, beat) = (Arc::clone(&self.desk), request.into_inner().beat);
        let seen = to_the_end(async move { desk.beat(&beat).await }).await?;
        let (acknowledged_outbox_epoch, outbox_root) = acknowledged(seen);
        Ok(Response::new(v1::BeatResponse {
            acknowledged_outbox_epoch,
            outbox_root,
        }))
    }
}

#[tonic::async_trait]
impl<S: Store> HoldLine for HoldService<S> {
    async fn permit(
        &self,
        request: Request<v1::PermitRequest>,
    ) -> Result<Response<v1::PermitResponse>, Status> {
        let caller = transport::caller(&request)?;
        if !HOLD_CALLERS.contains(&caller.role) {
            let text = format!("role {} may not ask for the permit beat", caller.role);
            return Err(NoAnswer::Denied.status(text));
        }
        let nonce: Result<[u8; 32], _> = request.into_inner().nonce.try_into();
        let nonce = nonce.map_err(|_| NoAnswer::Invalid.status("a nonce is 32 bytes"))?;
        let beat = self.0.permit(Digest(nonce)).await;
        let beat = beat.map_err(|Stopped| stopping())?;
        Ok(Response::new(v1::PermitResponse {
            permit_beat: beat.to_canonical(),
        }))
    }
}
