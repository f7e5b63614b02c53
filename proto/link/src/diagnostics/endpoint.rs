//! The endpoint: HTTP/1 for people and scrapers, gRPC health and reflection for tools, on one address.
//!
//! It has its own thread and its own runtime, so a process whose working threads are all stuck still
//! answers (M1-I6).

use std::net::SocketAddr;
use std::pin::Pin;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use futures::Stream;
use tokio::sync::oneshot;
use tonic::server::NamedService;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tower::ServiceExt;

use super::{Diagnostics, Endpoint, Readiness, Registry};
use crate::transport::TransportError;

const ALIVE: &str = "alive\n";

/// Binds the address and serves it from a thread of its own.
pub(super) fn start(
    address: SocketAddr,
    diagnostics: Diagnostics,
) -> Result<Endpoint, TransportError> {
    let refuse = |source| TransportError::Bind { address, source };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(refuse)?;
    let tcp = std::net::TcpListener::bind(address).map_err(|source| match source.kind() {
        std::io::ErrorKind::AddrInUse => TransportError::AddressInUse { address },
        _ => refuse(source),
    })?;
    tcp.set_nonblocking(true).map_err(refuse)?;
    let bound = tcp.local_addr().map_err(refuse)?;
    let router = router(diagnostics)?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serve = move || {
        runtime.block_on(async move {
            let tcp = match tokio::net::TcpListener::from_std(tcp) {
                Ok(tcp) => tcp,
                Err(error) => return tracing::error!(%error, "diagnostics do not listen"),
            };
            tokio::select! {
                biased;
                _ = stopped => {}
                ended = axum::serve(tcp, router) => tracing::error!(?ended, "diagnostics ended"),
            }
        });
    };
    std::thread::Builder::new()
        .name("diagnostics".into())
        .spawn(serve)
        .map_err(refuse)?;
    Ok(Endpoint {
        address: bound,
        _stop: stop,
    })
}

fn router(diagnostics: Diagnostics) -> Result<Router, TransportError> {
    let Diagnostics {
        metrics,
        readiness,
        descriptors,
    } = diagnostics;
    let mut reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
    for set in descriptors {
        reflection = reflection.register_encoded_file_descriptor_set(set);
    }
    let reflection = reflection.build_v1().map_err(|error| {
        TransportError::Stopped(format!("a descriptor set cannot be read: {error}"))
    })?;
    let http = Router::new()
        .route("/livez", get(|| async { ALIVE }))
        .route("/healthz", get(|| async { ALIVE }))
        .merge(
            Router::new()
                .route("/readyz", get(readyz))
                .with_state(readiness.clone()),
        )
        .merge(
            Router::new()
                .route("/metrics", get(scrape))
                .with_state(metrics),
        );
    Ok(grpc(
        grpc(http, HealthServer::new(Reported(readiness))),
        reflection,
    ))
}

fn grpc<S>(router: Router, service: S) -> Router
where
    S: tower::Service<http::Request<tonic::body::Body>, Error = std::convert::Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Response: axum::response::IntoResponse,
    S::Future: Send + 'static,
{
    let path = format!("/{}/{{*method}}", S::NAME);
    let service = service.map_request(|request: http::Request<axum::body::Body>| {
        request.map(tonic::body::Body::new)
    });
    router.route_service(&path, service)
}

async fn readyz(State(readiness): State<Readiness>) -> (StatusCode, String) {
    let states = readiness.states();
    let ready = states.iter().all(|state| state.unmet.is_none());
    let lines: String = states
        .iter()
        .map(|state| match &state.unmet {
            None => format!("met   {}\n", state.name),
            Some(reason) => format!("unmet {}: {reason}\n", state.name),
        })
        .collect();
    let (code, head) = if ready {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready")
    };
    (code, format!("{head}\n{lines}"))
}

async fn scrape(State(metrics): State<Registry>) -> ([(&'static str, &'static str); 1], String) {
    (
        [("content-type", "text/plain; version=0.0.4; charset=utf-8")],
        metrics.render(),
    )
}

/// gRPC health of the whole process: serving while ready. Single services are not told apart.
struct Reported(Readiness);

fn response(serving: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: serving.into(),
    }
}

fn serving(ready: bool) -> HealthCheckResponse {
    response(if ready {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    })
}

#[tonic::async_trait]
impl Health for Reported {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !request.get_ref().service.is_empty() {
            return Err(Status::not_found(
                "only the process as a whole is reported: leave the service empty",
            ));
        }
        Ok(Response::new(serving(self.0.is_ready())))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        if !request.get_ref().service.is_empty() {
            let unknown = futures::stream::iter([Ok(response(ServingStatus::ServiceUnknown))]);
            // By the protocol the call stays open after this answer.
            let open = futures::StreamExt::chain(unknown, futures::stream::pending());
            return Ok(Response::new(Box::pin(open)));
        }
        let states =
            futures::stream::unfold((self.0.clone(), None), |(readiness, seen)| async move {
                if let Some(seen) = seen {
                    readiness.changed_from(seen).await;
                }
                let ready = seen.map_or_else(|| readiness.is_ready(), |seen: bool| !seen);
                Some((Ok(serving(ready)), (readiness, Some(ready))))
            });
        Ok(Response::new(Box::pin(states)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use tonic::transport::Channel;
    use tonic_health::pb::health_client::HealthClient;

    use super::super::{CounterName, start as start_checked};
    use super::*;

    fn fetch(address: SocketAddr, path: &str) -> (u16, String) {
        let mut tcp = TcpStream::connect(address).expect("connected");
        write!(
            tcp,
            "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        )
        .expect("sent");
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).expect("answered");
        let code = answer
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .expect("a status line");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        (code, body.to_owned())
    }

    fn anywhere() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[test]
    fn pages_tell_life_readiness_and_metrics() {
        let diagnostics = Diagnostics::default();
        let journal = diagnostics.readiness.condition("journal", "replaying");
        const STARTS: CounterName = CounterName::new("redlatch_node_process_starts_total");
        diagnostics
            .metrics
            .counter(STARTS, "Starts.", &[])
            .increment();
        let endpoint = start_checked(anywhere(), diagnostics).expect("started");
        let address = endpoint.address();
        assert_eq!(fetch(address, "/livez"), (200, "alive\n".into()));
        assert_eq!(fetch(address, "/healthz"), (200, "alive\n".into()));
        assert_eq!(
            fetch(address, "/readyz"),
            (503, "not ready\nunmet journal: replaying\n".into())
        );
        journal.met();
        assert_eq!(
            fetch(address, "/readyz"),
            (200, "ready\nmet   journal\n".into())
        );
        let (code, body) = fetch(address, "/metrics");
        assert!(
            code == 200 && body.contains("redlatch_node_process_starts_total 1\n"),
            "{body}"
        );
        assert_eq!(fetch(address, "/elsewhere").0, 404);
    }

    #[test]
    fn m1_i6_alive_while_the_registry_is_held_forever() {
        let diagnostics = Diagnostics::default();
        let metrics = diagnostics.metrics.clone();
        let endpoint = start_checked(anywhere(), diagnostics).expect("started");
        let _held = metrics.hold();
        assert_eq!(fetch(endpoint.address(), "/livez").0, 200);
        assert_eq!(fetch(endpoint.address(), "/readyz").0, 200);
    }

    #[test]
    fn only_loopback_and_only_a_free_port() {
        let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let refused = start_checked(everywhere, Diagnostics::default());
        assert!(matches!(refused, Err(TransportError::NotLoopback { .. })));
        let first = start_checked(anywhere(), Diagnostics::default()).expect("started");
        let second = start_checked(first.address(), Diagnostics::default());
        assert!(matches!(second, Err(TransportError::AddressInUse { .. })));
    }

    #[tokio::test]
    async fn grpc_health_follows_readiness() {
        let diagnostics = Diagnostics::default();
        let journal = diagnostics.readiness.condition("journal", "replaying");
        let endpoint = start_checked(anywhere(), diagnostics).expect("started");
        let uri = format!("http://{}", endpoint.address());
        let channel = Channel::from_shared(uri)
            .expect("uri")
            .connect()
            .await
            .expect("connected");
        let mut client = HealthClient::new(channel);
        let whole = || HealthCheckRequest {
            service: String::new(),
        };
        let mut watch = client.watch(whole()).await.expect("watched").into_inner();
        let mut next = async || watch.message().await.expect("told").expect("open").status();
        assert_eq!(next().await, ServingStatus::NotServing);
        journal.met();
        assert_eq!(next().await, ServingStatus::Serving);
        assert_eq!(
            client
                .check(whole())
                .await
                .expect("checked")
                .get_ref()
                .status(),
            ServingStatus::Serving
        );
        let single = client
            .check(HealthCheckRequest {
                service: "other".into(),
            })
            .await;
        assert_eq!(single.expect_err("unknown").code(), tonic::Code::NotFound);
    }
}
