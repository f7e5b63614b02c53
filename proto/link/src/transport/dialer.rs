//! The calling end: channels that connect when first used and again whenever they were cut.
//!
//! ```text
//!   TCP ─▶ TLS: is the peer who was dialled? ─▶ its first bytes: does it accept us? ─▶ requests
//! ```
//!
//! A link is to one identity at one address. If somebody else answers there, or does not accept this process's
//! certificate, no byte of a request is sent and the error says which of the two it is ([`super::NotTrusted`]).
//! Retrying a call is the caller's decision; only connections are re-made here.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::AsyncBufReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::service::Interceptor;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status};

use super::{Credentials, TransportError, failure, verify};
use crate::certificate::Admission;
use crate::identity::PeerIdentity;

const CONNECT_DEADLINE: Duration = Duration::from_secs(3);
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_DEADLINE: Duration = Duration::from_secs(3);

/// Makes links that prove this process's identity.
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
        let refuse = || TransportError::NotAnAddress(address.to_owned());
        let uri: Uri = format!("http://{address}").parse().map_err(|_| refuse())?;
        let plain = uri.port_u16().is_some() && uri.path() == "/" && uri.query().is_none();
        if !plain || address.contains(['@', '/']) {
            return Err(refuse());
        }
        let config = verify::client_config(&self.credentials, Admission::Exactly(peer.clone()))
            .map_err(|error| TransportError::Stopped(error.to_string()))?;
        let tls = TlsConnector::from(Arc::new(config));
        let target = Arc::new(Target {
            address: address.to_owned(),
            name: format!("{} at {address}", peer.short()),
        });
        let channel = Endpoint::from(uri)
            .connect_timeout(CONNECT_DEADLINE)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_DEADLINE)
            .keep_alive_while_idle(true)
            .connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
                connect(Arc::clone(&target), tls.clone())
            }));
        Ok(Link {
            channel,
            peer: peer.clone(),
        })
    }
}

/// Whom a link dials.
struct Target {
    address: String,
    /// For people.
    name: String,
}

/// Shakes hands until both ends have accepted each other.
async fn connect(
    target: Arc<Target>,
    connector: TlsConnector,
) -> Result<TokioIo<TlsStream<TcpStream>>, tower::BoxError> {
    let tcp = TcpStream::connect(&*target.address).await?;
    tcp.set_nodelay(true)?;
    let ended = |error: io::Error| -> tower::BoxError {
        match failure::not_trusted(&target.name, &error) {
            Some(reason) => reason.into(),
            None => error.into(),
        }
    };
    // No host name is sent or compared: the verifier knows whom to expect.
    let nobody = ServerName::from(std::net::IpAddr::from(Ipv4Addr::UNSPECIFIED));
    let mut tls = connector.connect(nobody, tcp).await.map_err(ended)?;
    // A TLS 1.3 client is done before the server has judged its certificate. A server of HTTP/2 speaks first
    // (RFC 9113 §3.4), so its first bytes say that it has, and waiting for them keeps nobody waiting.
    if tls.fill_buf().await.map_err(ended)?.is_empty() {
        let text = "the peer closed the connection without a word";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text).into());
    }
    Ok(TokioIo::new(tls))
}

/// Calls to one peer. Clones share one connection.
#[derive(Clone, Debug)]
pub struct Link {
    channel: Channel,
    peer: PeerIdentity,
}

impl Link {
    /// The channel for a generated client.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// The interceptor for a generated client: says who calls, where the connection does not.
    pub fn introduction(&self) -> Introduction {
        Introduction(())
    }

    /// Who is expected at the other end.
    pub fn peer(&self) -> &PeerIdentity {
        &self.peer
    }
}

/// Nothing to say: the connection proves who calls.
#[derive(Clone, Copy, Debug)]
pub struct Introduction(());

impl Interceptor for Introduction {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        Ok(request)
    }
}
