//! The transport under simulation: madsim's gRPC, with the identity in each request's metadata.
//!
//! Admission is checked as in the real world, per request instead of per connection. Certificates, keys and
//! limits play no part; they are tested over real sockets.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use redlatch_types::OrganismId;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{BoxFuture, BoxMessageStream, Service};
use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::transport::server::Router;
use tonic::transport::{Channel, Endpoint, NamedService, Server};
use tonic::{Request, Response, Status};

use super::{Limits, Tls, TransportError};
use crate::certificate::{Admission, Leaf};
use crate::exit;
use crate::file;
use crate::identity::{PeerIdentity, Role};

const CALLER: &str = "redlatch-caller";
const CALLEE: &str = "redlatch-callee";

/// This process's identity.
#[derive(Clone, Debug)]
pub struct Credentials(Arc<PeerIdentity>);

impl Credentials {
    /// The identity that the configured certificate names.
    ///
    /// # Errors
    /// [`TransportError`] if there is no such certificate.
    pub fn load(config: &Tls) -> Result<Credentials, TransportError> {
        let path = &config.certificate;
        let what = "certificate";
        let pem = file::read_file(path).map_err(|source| TransportError::File { what, source })?;
        let der = CertificateDer::from_pem_slice(&pem).map_err(|_| TransportError::NotPem {
            what,
            path: path.clone(),
        })?;
        let leaf = Leaf::parse(&der).map_err(|source| TransportError::OwnCertificate {
            path: path.clone(),
            source,
        })?;
        Ok(Credentials::simulated(leaf.identity))
    }

    /// An identity without a certificate.
    pub fn simulated(identity: PeerIdentity) -> Credentials {
        Credentials(Arc::new(identity))
    }

    /// Nothing to read again.
    ///
    /// # Errors
    /// None.
    pub fn reload(&self) -> Result<(), TransportError> {
        Ok(())
    }

    /// Who this process is.
    pub fn identity(&self) -> PeerIdentity {
        (*self.0).clone()
    }

    /// The organism this process belongs to.
    pub fn organism(&self) -> OrganismId {
        self.0.organism
    }
}

/// An address to serve on.
pub struct Listener {
    address: SocketAddr,
    rule: Rule,
}

impl Listener {
    /// Takes `address` for peers of this process's organism in one of `roles`. It is bound by [`serve`].
    ///
    /// # Errors
    /// None.
    pub async fn bind(
        address: SocketAddr,
        credentials: &Credentials,
        roles: &[Role],
        _: Limits,
    ) -> Result<Listener, TransportError> {
        let organism = credentials.organism();
        let admission = Admission::Roles {
            organism,
            roles: roles.iter().copied().collect(),
        };
        Ok(Listener {
            address,
            rule: Rule {
                own: credentials.identity(),
                admission,
            },
        })
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// What a request is held against.
struct Rule {
    own: PeerIdentity,
    admission: Admission,
}

impl Rule {
    fn check(&self, metadata: &MetadataMap) -> Result<(), Status> {
        let refuse = |reason: &dyn std::fmt::Display| Status::unauthenticated(reason.to_string());
        self.admission
            .check(&written(metadata, CALLER)?)
            .map_err(|reason| refuse(&reason))?;
        let expected = Admission::Exactly(written(metadata, CALLEE)?);
        expected.check(&self.own).map_err(|reason| refuse(&reason))
    }
}

fn written(metadata: &MetadataMap, key: &str) -> Result<PeerIdentity, Status> {
    let text = metadata
        .get(key)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    text.parse()
        .map_err(|_| Status::unauthenticated("the request names no identity"))
}

/// The services of a listener.
#[derive(Default)]
pub struct Routes {
    router: Option<Router>,
    rule: Arc<OnceLock<Rule>>,
}

impl Routes {
    /// No services.
    pub fn new() -> Routes {
        Routes::default()
    }

    /// Adds a generated service.
    #[must_use]
    pub fn service<S>(self, service: S) -> Routes
    where
        S: Service<
                (PathAndQuery, Request<BoxMessageStream>),
                Response = Response<BoxMessageStream>,
                Error = Status,
                Future = BoxFuture<Response<BoxMessageStream>, Status>,
            > + NamedService
            + Send
            + 'static,
    {
        let guarded = Guarded {
            service,
            rule: Arc::clone(&self.rule),
        };
        let router = match self.router {
            Some(router) => router.add_service(guarded),
            None => Server::builder().add_service(guarded),
        };
        Routes {
            router: Some(router),
            rule: self.rule,
        }
    }
}

/// A service behind its listener's rule.
struct Guarded<S> {
    service: S,
    rule: Arc<OnceLock<Rule>>,
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<(PathAndQuery, Request<BoxMessageStream>)> for Guarded<S>
where
    S: Service<
            (PathAndQuery, Request<BoxMessageStream>),
            Response = Response<BoxMessageStream>,
            Error = Status,
            Future = BoxFuture<Response<BoxMessageStream>, Status>,
        >,
{
    type Response = Response<BoxMessageStream>;
    type Error = Status;
    type Future = BoxFuture<Response<BoxMessageStream>, Status>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, (path, request): (PathAndQuery, Request<BoxMessageStream>)) -> Self::Future {
        let checked = match self.rule.get() {
            Some(rule) => rule.check(request.metadata()),
            None => Err(Status::unavailable("not serving yet")),
        };
        match checked {
            Ok(()) => self.service.call((path, request)),
            Err(status) => Box::pin(async move { Err(status) }),
        }
    }
}

/// Serves until `stop` resolves.
///
/// # Errors
/// [`TransportError::Stopped`] if the server ends by itself, for example because the address is taken.
pub async fn serve(
    listener: Listener,
    routes: Routes,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), TransportError> {
    let Listener { address, rule } = listener;
    let _ = routes.rule.set(rule);
    match routes.router {
        Some(router) => router
            .serve_with_shutdown(address, stop)
            .await
            .map_err(|error| TransportError::Stopped(exit::chain(&error))),
        None => {
            stop.await;
            Ok(())
        }
    }
}

/// Makes links that carry this process's identity.
#[derive(Clone, Debug)]
pub struct Dialer {
    credentials: Credentials,
}

impl Dialer {
    /// A dialer that shows `credentials`.
    pub fn new(credentials: Credentials) -> Dialer {
        Dialer { credentials }
    }

    /// Who this dialer is.
    pub fn identity(&self) -> PeerIdentity {
        self.credentials.identity()
    }

    /// A link to `peer` at `address` (`host:port`). Nothing is connected yet.
    ///
    /// # Errors
    /// [`TransportError::NotAnAddress`].
    pub fn channel(&self, address: &str, peer: &PeerIdentity) -> Result<Link, TransportError> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|_| TransportError::NotAnAddress(address.to_owned()))?;
        let introduction = Introduction {
            caller: self.identity().to_string(),
            callee: peer.to_string(),
        };
        let channel = endpoint
            .connect_timeout(std::time::Duration::from_secs(3))
            .connect_lazy();
        Ok(Link {
            channel,
            introduction,
            peer: peer.clone(),
        })
    }
}

/// Calls to one peer.
#[derive(Clone, Debug)]
pub struct Link {
    channel: Channel,
    introduction: Introduction,
    peer: PeerIdentity,
}

impl Link {
    /// The channel for a generated client.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// The interceptor for a generated client: says who calls.
    pub fn introduction(&self) -> Introduction {
        self.introduction.clone()
    }

    /// Who is expected at the other end.
    pub fn peer(&self) -> &PeerIdentity {
        &self.peer
    }
}

/// Writes caller and callee into each request.
#[derive(Clone, Debug)]
pub struct Introduction {
    caller: String,
    callee: String,
}

impl Interceptor for Introduction {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        for (key, text) in [(CALLER, &self.caller), (CALLEE, &self.callee)] {
            let value = text
                .parse()
                .map_err(|_| Status::internal("an identity is plain ASCII"))?;
            request.metadata_mut().insert(key, value);
        }
        Ok(request)
    }
}

/// Who makes this call.
///
/// # Errors
/// `UNAUTHENTICATED` if the request names nobody.
pub fn caller<T>(request: &Request<T>) -> Result<PeerIdentity, Status> {
    written(request.metadata(), CALLER)
}
