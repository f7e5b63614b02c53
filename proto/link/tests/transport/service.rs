//! A service for tests on the health protocol's messages: it answers SERVING if the caller is who the
//! request says, and can be held up.

use std::net::SocketAddr;
use std::sync::Arc;

use redlatch_link::Role;
use redlatch_link::transport::{
    Credentials, Limits, Link, Listener, Routes, TransportError, caller, serve,
};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// Asks to be held up until [`Gate::release`].
pub(crate) const HOLD: &str = "hold";

#[derive(Clone, Default)]
pub(crate) struct Gate {
    pub(crate) entered: Arc<Notify>,
    pub(crate) release: Arc<Notify>,
}

struct Echo(Gate);

#[tonic::async_trait]
impl Health for Echo {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let who = caller(&request)?;
        if request.get_ref().service == HOLD {
            self.0.entered.notify_one();
            self.0.release.notified().await;
            return Ok(Response::new(HealthCheckResponse {
                status: ServingStatus::Serving.into(),
            }));
        }
        let same = who.short() == request.get_ref().service;
        let status = if same {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        Ok(Response::new(HealthCheckResponse {
            status: status.into(),
        }))
    }

    type WatchStream = futures::stream::Pending<Result<HealthCheckResponse, Status>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        caller(&request)?;
        Ok(Response::new(futures::stream::pending()))
    }
}

/// A server of the test service.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) gate: Gate,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), TransportError>>,
}

pub(crate) fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

impl Running {
    pub(crate) async fn start(
        credentials: &Credentials,
        roles: &[Role],
        limits: Limits,
    ) -> Running {
        Running::start_at(anywhere(), credentials, roles, limits).await
    }

    pub(crate) async fn start_at(
        address: SocketAddr,
        credentials: &Credentials,
        roles: &[Role],
        limits: Limits,
    ) -> Running {
        let listener = Listener::bind(address, credentials, roles, limits)
            .await
            .expect("bound");
        let address = listener.address();
        let gate = Gate::default();
        let routes = Routes::new().service(HealthServer::new(Echo(gate.clone())));
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(listener, routes, async {
            let _ = stopped.await;
        }));
        Running {
            address,
            gate,
            stop,
            serving,
        }
    }

    pub(crate) fn begin_stop(self) -> JoinHandle<Result<(), TransportError>> {
        let _ = self.stop.send(());
        self.serving
    }
}

pub(crate) type Client = redlatch_link::client_type!(HealthClient);

pub(crate) fn client(link: &Link) -> Client {
    HealthClient::with_interceptor(link.channel(), link.introduction())
}

/// Whether a call over the link arrives as `who`.
pub(crate) async fn arrives_as(link: &Link, who: &str) -> Result<bool, Status> {
    let answer = client(link)
        .check(HealthCheckRequest {
            service: who.into(),
        })
        .await?;
    Ok(answer.get_ref().status() == ServingStatus::Serving)
}

/// An error with everything behind it.
pub(crate) fn whole(status: &Status) -> String {
    redlatch_link::exit::chain(status)
}
