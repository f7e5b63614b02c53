//! Whoever is refused reads why, however often it is tried and whatever it has sent by then.
//!
//! A TLS 1.3 client is done before the server has judged its certificate, and what it sends from then on must
//! not cost it the alert.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair};
use redlatch_link::Role;
use redlatch_link::certificate::NotAuthorised;
use redlatch_link::exit::{ExitCode, Fails};
use redlatch_link::transport::{Dialer, Failed, Limits, Link, NotTrusted, Rejection, failed};
use redlatch_types::{Digest, OrganismId};
use rustls::AlertDescription;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tonic::Status;

use crate::authority::{Authority, Files, key, leaf, peer, pin, uri, write};
use crate::service::{Running, anywhere, arrives_as};
use crate::zoo::{Believer, EMPTY_SETTINGS, PREFACE, provider};

/// How often each refusal is asked for: a lost alert is a matter of luck.
const TIMES: usize = 40;
/// What an eager client sends after its handshake; less than is read away.
const EAGER: usize = 48 << 10;

/// A listener for clients and the one pinned operator, and what certificates for it are made of.
struct Scene {
    root: Authority,
    node: KeyPair,
    running: Running,
}

impl Scene {
    async fn new() -> Scene {
        let (root, node) = (Authority::root(), key());
        let files = Files::with_key(&root, &peer(Role::Node, "n1"), &node)
            .pinned("operator/o", pin(&key()))
            .pinned("node/n1", pin(&node));
        let roles = [Role::Client, Role::Operator];
        let running = Running::start(&files.load(), &roles, Limits::default()).await;
        Scene {
            root,
            node,
            running,
        }
    }

    fn link(&self, dialer: &Files, node: &str) -> Link {
        let address = self.running.address.to_string();
        let dialer = Dialer::new(dialer.load());
        let peer = peer(Role::Node, node);
        dialer.channel(&address, &peer).expect("an address")
    }
}

/// A chain of one with its key.
type Shown = Arc<SingleCertAndKey>;

fn shown(authority: &Authority, params: &CertificateParams) -> Shown {
    let key = key();
    let certificate = authority.sign(params, &key).der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = provider().key_provider.load_private_key(key);
    let certified = CertifiedKey::new(vec![certificate], key.expect("a usable key"));
    Arc::new(SingleCertAndKey::from(certified))
}

fn client(name: &str) -> CertificateParams {
    leaf(vec![uri(peer(Role::Client, name))])
}

/// Bare TLS that sends as much as it can at once after its own half of the handshake; how that ended.
async fn eager(address: SocketAddr, shown: Option<&Shown>) -> io::Error {
    let builder = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Believer));
    let mut config = match shown {
        Some(shown) => builder.with_client_cert_resolver(Arc::clone(shown) as Arc<_>),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = TcpStream::connect(address).await.expect("connected");
    let name = ServerName::try_from("n1").expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    let mut tls = match connector.connect(name, tcp).await {
        Ok(tls) => tls,
        Err(error) => return error,
    };
    let words = [PREFACE, EMPTY_SETTINGS, &[0; EAGER]].concat();
    if let Err(error) = tls.write_all(&words).await {
        return error;
    }
    let mut heard = Vec::new();
    match tls.read_to_end(&mut heard).await {
        Ok(_) => panic!("the connection was closed, not refused"),
        Err(error) => error,
    }
}

fn alert(error: &io::Error) -> Option<AlertDescription> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

#[tokio::test]
async fn a_client_that_has_sent_its_first_words_still_reads_the_alert() {
    use AlertDescription as A;
    let scene = Scene::new().await;
    let mut expired = client("a");
    expired.not_before = rcgen::date_time_ymd(2000, 1, 1);
    expired.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let mut early = client("a");
    early.not_before = rcgen::date_time_ymd(3000, 1, 1);
    early.not_after = rcgen::date_time_ymd(3001, 1, 1);
    let mut server_only = client("a");
    server_only.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let other = format!("spiffe://{}/client/a", OrganismId(Digest([1; 32])));
    let (root, stranger) = (&scene.root, Authority::root());
    let cases = [
        ("unknown CA", shown(&stranger, &client("a")), A::UnknownCA),
        ("expired", shown(root, &expired), A::CertificateExpired),
        ("not valid yet", shown(root, &early), A::CertificateExpired),
        (
            "wrong organism",
            shown(root, &leaf(vec![uri(other)])),
            A::CertificateUnknown,
        ),
        (
            "wrong role",
            shown(root, &leaf(vec![uri(peer(Role::Gate, "g"))])),
            A::CertificateUnknown,
        ),
        (
            "wrong key of a pinned name",
            shown(root, &leaf(vec![uri(peer(Role::Operator, "o"))])),
            A::CertificateUnknown,
        ),
        (
            "wrong usage",
            shown(root, &server_only),
            A::UnsupportedCertificate,
        ),
    ];
    for (what, shown, expected) in &cases {
        for time in 0..TIMES {
            let ended = eager(scene.running.address, Some(shown)).await;
            assert_eq!(alert(&ended), Some(*expected), "{what}, {time}: {ended}");
        }
    }
    for time in 0..TIMES {
        let ended = eager(scene.running.address, None).await;
        let expected = Some(A::CertificateRequired);
        assert_eq!(alert(&ended), expected, "no certificate, {time}: {ended}");
    }
}

async fn refusal(link: &Link) -> Status {
    arrives_as(link, "client/a").await.expect_err("refused")
}

/// What each of many calls over fresh connections says about certificates.
async fn reason(scene: &Scene, files: &Files, node: &str) -> NotTrusted {
    let mut reasons = Vec::new();
    for _ in 0..TIMES {
        let status = refusal(&scene.link(files, node)).await;
        let Failed::NotTrusted(reason) = failed(&status) else {
            panic!("{status:?}");
        };
        reasons.push(reason);
    }
    reasons.dedup();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    reasons.remove(0)
}

/// The files of a client that knows n1, with `authorities` in its file of authorities.
fn files(scene: &Scene, from: &Authority, role: Role, authorities: &[&Authority]) -> Files {
    let name = if role == Role::Operator { "o" } else { "a" };
    let files = Files::of(from, &peer(role, name)).pinned("node/n1", pin(&scene.node));
    let all: String = authorities.iter().map(|it| it.pem.as_str()).collect();
    write(&files.tls.authority, all.as_bytes());
    files
}

#[tokio::test]
async fn a_link_says_which_certificate_is_not_accepted_and_why() {
    let scene = Scene::new().await;
    let (root, stranger) = (&scene.root, Authority::root());
    let ours = |reason| NotTrusted::OurCertificate {
        peer: format!("node/n1 at {}", scene.running.address),
        reason,
    };
    let unknown = files(&scene, &stranger, Role::Client, &[root, &stranger]);
    assert_eq!(
        reason(&scene, &unknown, "n1").await,
        ours(Rejection::UnknownAuthority)
    );
    for role in [Role::Gate, Role::Operator] {
        let wrong = files(&scene, root, role, &[root]);
        let reason = reason(&scene, &wrong, "n1").await;
        assert_eq!(reason, ours(Rejection::NotAdmitted), "{role}");
        assert_eq!(reason.code(), ExitCode::Refused);
        assert!(reason.hint().is_some());
    }

    let theirs = |node: &str, reason: &str| NotTrusted::TheirCertificate {
        peer: format!("node/{node} at {}", scene.running.address),
        reason: reason.to_owned(),
    };
    let unknown = files(&scene, &stranger, Role::Client, &[&stranger]);
    assert_eq!(
        reason(&scene, &unknown, "n1").await,
        theirs("n1", "it was not issued by the configured authority")
    );
    let other = files(&scene, root, Role::Client, &[root]).pinned("node/n2", pin(&scene.node));
    let found = NotAuthorised::WrongPeer {
        expected: "node/n2".into(),
        found: "node/n1".into(),
    };
    assert_eq!(
        reason(&scene, &other, "n2").await,
        theirs("n2", &found.to_string())
    );
    let good = files(&scene, root, Role::Client, &[root]);
    let link = scene.link(&good, "n1");
    assert!(arrives_as(&link, "client/a").await.expect("served"));
}

#[tokio::test]
async fn a_connection_that_ends_before_the_peer_has_spoken_sent_nothing() {
    let scene = Scene::new().await;
    let files = files(&scene, &scene.root, Role::Client, &[&scene.root]);
    let tcp = TcpListener::bind(anywhere()).await.expect("bound");
    let address = tcp.local_addr().expect("bound").to_string();
    let dialer = Dialer::new(files.load());
    let link = dialer.channel(&address, &peer(Role::Node, "n1"));
    let link = link.expect("an address");
    let calling = tokio::spawn(async move { refusal(&link).await });
    let (stream, _) = tcp.accept().await.expect("accepted");
    drop((stream, tcp));
    let status = calling.await.expect("ended");
    assert_eq!(failed(&status), Failed::NeverConnected, "{status:?}");
}
