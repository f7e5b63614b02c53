//! The listening end: accept, shake hands under bounds, hand authenticated connections to tonic.
//!
//! ```text
//!   accept ──▶ handshake task (deadline, oldest gives way) ──▶ Connection{identity} ──▶ tonic ──▶ service
//!     │                 └─ refused: alert, end of stream, what the peer still sends is read away
//!     └─ an error never ends the loop; lack of descriptors slows it down
//! ```
//!
//! No byte of HTTP/2 is read from a peer that has not proved who it is. The accept loop runs inside the
//! future that [`serve`] returns, so it cannot die unnoticed.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::Status;
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::Connected;

use super::pending::{Pending, Place};
use super::{Credentials, Limits, TransportError, verify};
use crate::certificate::{Admission, Leaf};
use crate::exit;
use crate::identity::{PeerIdentity, Role};
use crate::world;

const HANDED_OVER_MAX: usize = 16;
/// How long, and for how many bytes, a peer that was refused is listened to.
const PARTING: Duration = Duration::from_secs(1);
const PARTING_BYTES_MAX: usize = 64 << 10;
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const KEEPALIVE: Duration = Duration::from_secs(10);
const KEEPALIVE_DEADLINE: Duration = Duration::from_secs(10);

/// A bound address, not serving yet.
pub struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    limits: Limits,
}

impl Listener {
    /// Binds `address` for peers of this process's organism in one of `roles`.
    ///
    /// # Errors
    /// [`TransportError::AddressInUse`] or [`TransportError::Bind`].
    pub async fn bind(
        address: SocketAddr,
        credentials: &Credentials,
        roles: &[Role],
        limits: Limits,
    ) -> Result<Listener, TransportError> {
        let organism = credentials.organism();
        let admission = Admission::Roles {
            organism,
            roles: roles.iter().copied().collect(),
        };
        let config = verify::server_config(credentials, admission)
            .map_err(|error| TransportError::Stopped(error.to_string()))?;
        let tcp = bind_tcp(address).await?;
        let address = tcp
            .local_addr()
            .map_err(|source| TransportError::Bind { address, source })?;
        Ok(Listener {
            tcp,
            address,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            limits,
        })
    }

    /// The bound address; tells the port when port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Binds a TCP address, telling "in use" from everything else.
pub(crate) async fn bind_tcp(address: SocketAddr) -> Result<TcpListener, TransportError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => TransportError::AddressInUse { address },
            _ => TransportError::Bind { address, source },
        })
}

/// The services of a listener.
#[derive(Clone, Default)]
pub struct Routes(tonic::service::Routes);

impl Routes {
    /// No services.
    pub fn new() -> Routes {
        Routes::default()
    }

    /// Adds a generated service.
    #[must_use]
    pub fn service<S>(self, service: S) -> Routes
    where
        S: tower::Service<http::Request<tonic::body::Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Response: axum::response::IntoResponse,
        S::Future: Send + 'static,
    {
        Routes(self.0.add_service(service))
    }
}

/// Serves until `stop` resolves, then lets open calls finish for at most [`Limits::drain`].
///
/// # Errors
/// [`TransportError::Stopped`] if the server ends by itself. No peer can cause that.
pub async fn serve(
    listener: Listener,
    routes: Routes,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), TransportError> {
    let Listener {
        tcp,
        acceptor,
        limits,
        ..
    } = listener;
    let (hand_over, handed_over) = mpsc::channel(HANDED_OVER_MAX);
    let (drain, draining) = oneshot::channel::<()>();
    let incoming = futures::stream::unfold(handed_over, |mut handed_over| async move {
        handed_over
            .recv()
            .await
            .map(|connection| (Ok::<Connection, Infallible>(connection), handed_over))
    });
    let server = http2(&limits)
        .add_routes(routes.0)
        .serve_with_incoming_shutdown(incoming, async {
            let _ = draining.await;
        });
    let mut server = pin!(server);
    {
        let door = Door {
            acceptor,
            pending: Pending::new(&limits),
            deadline: limits.handshake_deadline,
            hand_over,
        };
        let accepting = accept_forever(|| tcp.accept(), |stream, peer| door.open(stream, peer));
        tokio::select! {
            biased;
            () = stop => {}
            ended = &mut server => return Err(stopped(ended)),
            never = accepting => match never {},
        }
    }
    drop(tcp);
    drop(drain);
    match world::timeout(limits.drain, server).await {
        // Calls that are still open after the drain are cut off with the process.
        Ok(Ok(())) | Err(world::DeadlinePassed) => Ok(()),
        Ok(Err(error)) => Err(stopped(Err(error))),
    }
}

fn http2(limits: &Limits) -> Server {
    Server::builder()
        .max_concurrent_streams(limits.streams_max)
        .http2_max_header_list_size(limits.header_list_bytes_max)
        .http2_max_pending_accept_reset_streams(Some(limits.reset_streams_max))
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_DEADLINE))
}

fn stopped(ended: Result<(), tonic::transport::Error>) -> TransportError {
    TransportError::Stopped(ended.map_or_else(
        |error| exit::chain(&error),
        |()| "it ended early".to_owned(),
    ))
}

/// Accepts for ever. Errors of single connections are skipped; a lack of resources slows the loop down.
async fn accept_forever<S, A>(
    mut accept: impl FnMut() -> A,
    mut opened: impl FnMut(S, SocketAddr),
) -> Infallible
where
    A: Future<Output = io::Result<(S, SocketAddr)>>,
{
    let mut failures = 0;
    loop {
        match accept().await {
            Ok((stream, peer)) => {
                failures = 0;
                opened(stream, peer);
            }
            Err(error) => {
                let pause = pause_after(&error, failures);
                failures += 1;
                tracing::warn!(%error, pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX), "accept failed");
                world::sleep(pause).await;
            }
        }
    }
}

/// How long to wait after an accept error, the `failures`-th in a row counted from 0.
fn pause_after(error: &io::Error, failures: u32) -> Duration {
    match error.kind() {
        // The peer was gone before it was accepted: nothing is short, go on.
        io::ErrorKind::ConnectionAborted
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::Interrupted => Duration::ZERO,
        // EMFILE, ENFILE, ENOBUFS, ENOMEM and whatever else: it would fail again at once.
        _ => PAUSE_MIN
            .saturating_mul(1 << failures.min(7))
            .min(PAUSE_MAX),
    }
}

/// Where accepted sockets become connections.
struct Door {
    acceptor: TlsAcceptor,
    pending: Arc<Pending>,
    deadline: Duration,
    hand_over: mpsc::Sender<Connection>,
}

impl Door {
    /// Shakes hands in a task of its own.
    fn open(&self, tcp: TcpStream, peer: SocketAddr) {
        let (handshake, evicted) = self.pending.begin(peer.ip());
        let (acceptor, hand_over, deadline) =
            (self.acceptor.clone(), self.hand_over.clone(), self.deadline);
        world::spawn(async move {
            let mut evicted = evicted;
            let shaken = tokio::select! {
                biased;
                _ = &mut evicted => return,
                shaken = world::timeout(deadline, shake(&acceptor, tcp)) => shaken,
            };
            let (tls, identity) = match shaken {
                Ok(Ok(authentic)) => authentic,
                Ok(Err((error, tcp))) => {
                    tracing::info!(%peer, %error, "connection refused");
                    tokio::select! {
                        biased;
                        _ = evicted => {}
                        () = part(tcp) => {}
                    }
                    return;
                }
                Err(_) => return tracing::info!(%peer, "connection refused: no handshake in time"),
            };
            match handshake.establish() {
                // A closed receiver means that the server is stopping.
                Some(place) => drop(
                    hand_over
                        .send(Connection {
                            tls,
                            identity,
                            _place: place,
                        })
                        .await,
                ),
                None => {
                    tracing::warn!(%peer, identity = %identity, "connection refused: too many from this source")
                }
            }
        });
    }
}

async fn shake(
    acceptor: &TlsAcceptor,
    tcp: TcpStream,
) -> Result<(TlsStream<TcpStream>, PeerIdentity), (io::Error, TcpStream)> {
    if let Err(error) = tcp.set_nodelay(true) {
        return Err((error, tcp));
    }
    let tls = acceptor.accept(tcp).into_fallible().await;
    let tls = tls.map_err(|(error, tcp)| (verify::unwrapped(error), tcp))?;
    match identity(&tls) {
        Ok(identity) => Ok((tls, identity)),
        Err(error) => Err((error, tls.into_inner().0)),
    }
}

fn identity(tls: &TlsStream<TcpStream>) -> io::Result<PeerIdentity> {
    let leaf = tls.get_ref().1.peer_certificates().and_then(<[_]>::first);
    // The verifier admitted this leaf a moment ago; here it is only read again.
    let leaf = leaf.ok_or_else(|| io::Error::other("no client certificate"))?;
    Ok(Leaf::parse(leaf).map_err(io::Error::other)?.identity)
}

/// Closes a connection so that the peer reads why. The alert is on its way; but to close a socket with unread
/// bytes in it sends a reset (RFC 9293 §3.10.4), and a reset takes from the peer what it has not read yet. So
/// what a TLS 1.3 client has already sent after its handshake is read away, until it closes or is too much.
async fn part(mut tcp: TcpStream) {
    if tcp.shutdown().await.is_err() {
        return;
    }
    let drained = async {
        let (mut read, mut away) = (0, [0; 4096]);
        while read < PARTING_BYTES_MAX {
            match tcp.read(&mut away).await {
                Ok(more) if more > 0 => read += more,
                // The end, or nobody there to tell.
                _ => return,
            }
        }
    };
    // Whoever does not close in time is cut off.
    let _ = world::timeout(PARTING, drained).await;
}

/// An authenticated connection.
struct Connection {
    tls: TlsStream<TcpStream>,
    identity: PeerIdentity,
    _place: Place,
}

/// Who is at the other end, as tonic attaches it to each request.
#[derive(Clone)]
struct Caller(PeerIdentity);

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        Caller(self.identity.clone())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tls).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tls).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tls.is_write_vectored()
    }
}

/// Who makes this call, as proved by the certificate of the connection it came over.
///
/// # Errors
/// `UNAUTHENTICATED` if the request came over no such connection.
pub fn caller<T>(request: &tonic::Request<T>) -> Result<PeerIdentity, Status> {
    match request.extensions().get::<Caller>() {
        Some(Caller(identity)) => Ok(identity.clone()),
        None => Err(Status::unauthenticated("the connection proves no identity")),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use super::*;

    #[tokio::test]
    async fn fault_060_no_accept_error_ends_the_loop() {
        let peer = SocketAddr::from(([10, 0, 0, 1], 1));
        let script: RefCell<VecDeque<io::Result<(u8, SocketAddr)>>> = RefCell::new(
            [
                Err(io::Error::from_raw_os_error(libc::EMFILE)),
                Err(io::Error::from_raw_os_error(libc::ENFILE)),
                Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
                Ok((1, peer)),
                Err(io::Error::other("whatever")),
                Ok((2, peer)),
            ]
            .into(),
        );
        let (report, mut reported) = mpsc::unbounded_channel();
        let accept = || async {
            let next = script.borrow_mut().pop_front();
            match next {
                Some(outcome) => outcome,
                None => std::future::pending().await,
            }
        };
        let accepting = accept_forever(accept, |stream, _| report.send(stream).expect("heard"));
        tokio::select! {
            biased;
            never = accepting => match never {},
            both = async { [reported.recv().await, reported.recv().await] } => assert_eq!(both, [Some(1), Some(2)]),
        }
    }

    #[test]
    fn fault_060_lack_of_descriptors_backs_off_and_a_gone_peer_does_not() {
        let full = io::Error::from_raw_os_error(libc::EMFILE);
        assert_eq!(pause_after(&full, 0), PAUSE_MIN);
        assert!(pause_after(&full, 3) > pause_after(&full, 2));
        assert_eq!(pause_after(&full, u32::MAX), PAUSE_MAX);
        assert_eq!(
            pause_after(&io::Error::from(io::ErrorKind::ConnectionAborted), 9),
            Duration::ZERO
        );
    }

    #[test]
    fn an_identity_written_into_a_request_is_never_read() {
        let mut request = tonic::Request::new(());
        let forged = format!("spiffe://{}/node/n1", "00".repeat(32));
        request
            .metadata_mut()
            .insert("redlatch-caller", forged.parse().expect("a header"));
        let status = caller(&request).expect_err("nobody");
        assert_eq!(status.code(), tonic::Code::Unauthenticated);
    }
}
