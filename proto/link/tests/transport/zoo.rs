//! FAULTS 57: a zoo of certificates, each shown to a listener and to a dialer, with the verdict for both.
//!
//! Ours is the end under test; the other end is bare rustls that shows whatever it is given. "Admitted"
//! means that our end went on to speak HTTP/2.

use std::sync::Arc;

use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, PKCS_ED25519, SanType,
    SerialNumber,
};
use redlatch_link::Role;
use redlatch_link::transport::{Dialer, Limits};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, SignatureScheme, SupportedProtocolVersion,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::authority::{Authority, Files, key, leaf, organism, peer, pin, uri};
use crate::service::{Running, anywhere, arrives_as};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// One exhibit: a chain, the key it is shown with, and whether it gets in at either end.
struct Specimen {
    name: &'static str,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    as_client: bool,
    as_server: bool,
}

/// Everything specimens are made from.
struct Zoo {
    root: Authority,
    /// The pinned keys of node/n1, node/n2, verifier/v1 and client/pinned.
    keys: [KeyPair; 4],
    specimens: Vec<Specimen>,
}

fn der(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()))
}

fn spiffe(role: &str, name: &str) -> SanType {
    uri(format!("spiffe://{}/{role}/{name}", organism()))
}

fn node() -> SanType {
    spiffe("node", "n1")
}

impl Zoo {
    fn new() -> Zoo {
        let mut zoo = Zoo {
            root: Authority::root(),
            keys: [key(), key(), key(), key()],
            specimens: vec![],
        };
        zoo.add_names();
        zoo.add_keys_and_usages();
        zoo.add_texts();
        zoo.add_chains();
        zoo
    }

    /// The files of our end, which knows the pins.
    fn files(&self, own: &str) -> Files {
        let key = if own == "n1" {
            &self.keys[0]
        } else {
            &self.keys[1]
        };
        Files::with_key(&self.root, &peer(Role::Node, own), key)
            .pinned("node/n1", pin(&self.keys[0]))
            .pinned("node/n2", pin(&self.keys[1]))
            .pinned("verifier/v1", pin(&self.keys[2]))
            .pinned("client/pinned", pin(&self.keys[3]))
    }

    /// An exhibit signed by the root.
    fn add(
        &mut self,
        name: &'static str,
        params: &CertificateParams,
        key: &KeyPair,
        admitted: (bool, bool),
    ) {
        let chain = vec![self.root.sign(params, key).der().clone()];
        self.add_chain(name, chain, key, admitted);
    }

    fn add_chain(
        &mut self,
        name: &'static str,
        chain: Vec<CertificateDer<'static>>,
        key: &KeyPair,
        (as_client, as_server): (bool, bool),
    ) {
        self.specimens.push(Specimen {
            name,
            chain,
            key: der(key),
            as_client,
            as_server,
        });
    }

    /// An exhibit with the pinned key of node/n1.
    fn add_n1(&mut self, name: &'static str, params: &CertificateParams, admitted: (bool, bool)) {
        let key = KeyPair::from_pem(&self.keys[0].serialize_pem()).expect("the same key");
        self.add(name, params, &key, admitted);
    }

    fn pinned(&self, which: usize) -> KeyPair {
        KeyPair::from_pem(&self.keys[which].serialize_pem()).expect("the same key")
    }

    fn add_names(&mut self) {
        let (n2, v1, pinned) = (self.pinned(1), self.pinned(2), self.pinned(3));
        self.add_n1("the right node", &leaf(vec![node()]), (true, true));
        self.add(
            "another node",
            &leaf(vec![spiffe("node", "n2")]),
            &n2,
            (true, false),
        );
        self.add(
            "a client",
            &leaf(vec![spiffe("client", "c1")]),
            &key(),
            (true, false),
        );
        self.add(
            "a gate",
            &leaf(vec![spiffe("gate", "g1")]),
            &key(),
            (true, false),
        );
        self.add(
            "a role that is not admitted",
            &leaf(vec![spiffe("operator", "o1")]),
            &key(),
            (false, false),
        );
        self.add(
            "a pinned role that is not admitted",
            &leaf(vec![spiffe("verifier", "v1")]),
            &v1,
            (false, false),
        );
        self.add(
            "a pinned client",
            &leaf(vec![spiffe("client", "pinned")]),
            &pinned,
            (true, false),
        );
        self.add(
            "a pinned client with another key",
            &leaf(vec![spiffe("client", "pinned")]),
            &key(),
            (false, false),
        );
        self.add(
            "the right name, another key",
            &leaf(vec![node()]),
            &key(),
            (false, false),
        );
        self.add(
            "a node without a pin",
            &leaf(vec![spiffe("node", "n3")]),
            &key(),
            (false, false),
        );
        self.add(
            "a node's name under another node's key",
            &leaf(vec![node()]),
            &n2,
            (false, false),
        );
    }

    fn add_keys_and_usages(&mut self) {
        use ExtendedKeyUsagePurpose as Usage;
        let cases = [
            ("for clients only", vec![Usage::ClientAuth], (true, false)),
            ("for servers only", vec![Usage::ServerAuth], (false, true)),
            ("for nothing", vec![], (false, false)),
            ("for anything", vec![Usage::Any], (false, false)),
            ("for signing code", vec![Usage::CodeSigning], (false, false)),
        ];
        for (name, usages, admitted) in cases {
            let mut params = leaf(vec![node()]);
            params.extended_key_usages = usages;
            self.add_n1(name, &params, admitted);
        }
        let ed25519 = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        self.add(
            "an Ed25519 client",
            &leaf(vec![spiffe("client", "c2")]),
            &ed25519,
            (true, false),
        );
        let chain = vec![
            self.root
                .sign(&leaf(vec![spiffe("client", "c3")]), &key())
                .der()
                .clone(),
        ];
        self.add_chain("somebody else's certificate", chain, &key(), (false, false));
        for (name, years) in [("expired", (2000, 2001)), ("not valid yet", (3000, 3001))] {
            let mut params = leaf(vec![node()]);
            params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
            params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
            self.add_n1(name, &params, (false, false));
        }
    }

    fn add_texts(&mut self) {
        let dns = SanType::DnsName("n1".try_into().expect("ASCII"));
        self.add_n1(
            "two URIs",
            &leaf(vec![node(), spiffe("node", "n2")]),
            (false, false),
        );
        self.add_n1(
            "the same URI twice",
            &leaf(vec![node(), node()]),
            (false, false),
        );
        self.add_n1(
            "a second URI that is no identity",
            &leaf(vec![node(), uri("https://n1")]),
            (false, false),
        );
        self.add_n1("a host name only", &leaf(vec![dns.clone()]), (false, false));
        self.add_n1(
            "a host name beside the URI",
            &leaf(vec![dns, node()]),
            (true, true),
        );
        self.add_n1("no name at all", &leaf(vec![]), (false, false));
        let named = |names| {
            let mut params = leaf(names);
            params.distinguished_name.push(
                DnType::CommonName,
                format!("spiffe://{}/node/n1", organism()),
            );
            params
        };
        self.add_n1("a common name only", &named(vec![]), (false, false));
        self.add(
            "a node's common name on a client",
            &named(vec![spiffe("client", "c4")]),
            &key(),
            (true, false),
        );
        self.add(
            "a node's common name, another key",
            &named(vec![spiffe("node", "n3")]),
            &key(),
            (false, false),
        );
        let other = format!("spiffe://{}/node/n1", "cd".repeat(32));
        let texts = [
            ("another organism", other),
            (
                "an unknown role",
                format!("spiffe://{}/owner/n1", organism()),
            ),
            (
                "a role in capitals",
                format!("spiffe://{}/NODE/n1", organism()),
            ),
            (
                "a slash at the end",
                format!("spiffe://{}/node/n1/", organism()),
            ),
            (
                "a path before the role",
                format!("spiffe://{}/x/node/n1", organism()),
            ),
            ("a query", format!("spiffe://{}/node/n1?x", organism())),
            (
                "an escaped letter",
                format!("spiffe://{}/node/n%31", organism()),
            ),
            ("an empty name", format!("spiffe://{}/node/", organism())),
            ("another scheme", format!("https://{}/node/n1", organism())),
            (
                "an organism in capitals",
                format!("spiffe://{}/node/n1", organism().to_string().to_uppercase()),
            ),
        ];
        for (name, text) in texts {
            self.add_n1(name, &leaf(vec![uri(text)]), (false, false));
        }
    }

    fn add_chains(&mut self) {
        let key = self.pinned(0);
        let stranger = Authority::root();
        let by_stranger = stranger.sign(&leaf(vec![node()]), &key).der().clone();
        self.add_chain(
            "another authority of the same name",
            vec![by_stranger.clone()],
            &key,
            (false, false),
        );
        self.add_chain(
            "another authority, sent along",
            vec![by_stranger, stranger.der.clone()],
            &key,
            (false, false),
        );

        let mut params = leaf(vec![node()]);
        params.serial_number = Some(SerialNumber::from(vec![7]));
        self.add_n1("serial number 7", &params, (true, true));
        let self_signed = params.self_signed(&key).expect("signed").der().clone();
        self.add_chain(
            "self-signed with serial number 7",
            vec![self_signed],
            &key,
            (false, false),
        );

        let below = self.root.intermediate();
        let by_below = below.sign(&leaf(vec![node()]), &key).der().clone();
        self.add_chain(
            "below an intermediate",
            vec![by_below.clone(), below.der.clone()],
            &key,
            (true, true),
        );
        self.add_chain(
            "below one that is not sent",
            vec![by_below.clone()],
            &key,
            (false, false),
        );
        let all = vec![by_below, below.der.clone(), self.root.der.clone()];
        self.add_chain("the whole chain", all, &key, (true, true));

        let not_an_authority = leaf(vec![spiffe("client", "c5")]);
        let signer = crate::authority::key();
        let signer_der = self.root.sign(&not_an_authority, &signer).der().clone();
        let issuer = rcgen::Issuer::new(not_an_authority, signer);
        let by_leaf = leaf(vec![node()])
            .signed_by(&key, &issuer)
            .expect("signed")
            .der()
            .clone();
        self.add_chain(
            "signed by a client",
            vec![by_leaf, signer_der],
            &key,
            (false, false),
        );

        let mut authority = leaf(vec![node()]);
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        self.add_n1("an authority with a name", &authority, (false, false));
    }
}

pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Specimen {
    /// The chain with the key, whether or not they fit.
    fn certified(&self) -> Arc<SingleCertAndKey> {
        let key = provider()
            .key_provider
            .load_private_key(self.key.clone_key())
            .expect("a usable key");
        Arc::new(SingleCertAndKey::from(CertifiedKey::new(
            self.chain.clone(),
            key,
        )))
    }
}

/// Believes everybody: the end that is not under test.
#[derive(Debug)]
pub(crate) struct Believer;

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

impl ClientCertVerifier for Believer {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Bare TLS to a listener, showing `shown` or nothing; what the listener says first in HTTP/2, if it does.
async fn first_words(
    address: std::net::SocketAddr,
    shown: Option<&Specimen>,
    version: &'static SupportedProtocolVersion,
) -> Option<Vec<u8>> {
    let builder = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[version])
        .expect("a version")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Believer));
    let mut config = match shown {
        Some(specimen) => builder.with_client_cert_resolver(specimen.certified()),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = TcpStream::connect(address).await.expect("connected");
    let name = ServerName::try_from("n1").expect("a name");
    let mut tls = TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await
        .ok()?;
    tls.write_all(PREFACE).await.ok()?;
    tls.write_all(EMPTY_SETTINGS).await.ok()?;
    let mut head = [0; 9];
    tls.read_exact(&mut head).await.ok()?;
    let mut frame = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
    tls.read_exact(&mut frame).await.ok()?;
    Some([&head[..], &frame].concat())
}

/// Bare TLS from a dialer that expects node/n1, showing `shown`; whether the dialer speaks HTTP/2.
async fn is_spoken_to(dialer: &Dialer, shown: &Specimen) -> bool {
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version")
        .with_client_cert_verifier(Arc::new(Believer))
        .with_cert_resolver(shown.certified());
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = TcpListener::bind(anywhere()).await.expect("bound");
    let address = tcp.local_addr().expect("bound").to_string();
    let link = dialer
        .channel(&address, &peer(Role::Node, "n1"))
        .expect("an address");
    let calling = tokio::spawn(async move { arrives_as(&link, "whoever").await });
    let (stream, _) = tcp.accept().await.expect("accepted");
    let mut heard = vec![0; PREFACE.len()];
    let spoken = match TlsAcceptor::from(Arc::new(config)).accept(stream).await {
        Ok(mut tls) => {
            // A server of HTTP/2 speaks first, and that it does is what the dialer waits for.
            tls.write_all(EMPTY_SETTINGS).await.is_ok()
                && tls.flush().await.is_ok()
                && tls.read_exact(&mut heard).await.is_ok()
                && heard == PREFACE
        }
        Err(_) => false,
    };
    calling.abort();
    spoken
}

#[tokio::test]
async fn fault_057_each_certificate_gets_its_verdict_as_a_client() {
    let zoo = Zoo::new();
    let credentials = zoo.files("n1").load();
    let roles = [Role::Node, Role::Client, Role::Gate];
    let running = Running::start(&credentials, &roles, Limits::default()).await;
    assert!(
        zoo.specimens.len() >= 40,
        "{} specimens",
        zoo.specimens.len()
    );
    for specimen in &zoo.specimens {
        let words = first_words(running.address, Some(specimen), &rustls::version::TLS13).await;
        assert_eq!(words.is_some(), specimen.as_client, "{}", specimen.name);
    }
}

#[tokio::test]
async fn fault_057_each_certificate_gets_its_verdict_as_a_server() {
    let zoo = Zoo::new();
    let dialer = Dialer::new(zoo.files("n2").load());
    for specimen in &zoo.specimens {
        assert_eq!(
            is_spoken_to(&dialer, specimen).await,
            specimen.as_server,
            "{}",
            specimen.name
        );
    }
}

#[tokio::test]
async fn m1_i7_fault_057_no_certificate_and_old_tls_are_refused() {
    let zoo = Zoo::new();
    let running = Running::start(&zoo.files("n1").load(), &[Role::Node], Limits::default()).await;
    let right = &zoo.specimens[0];
    assert!(
        first_words(running.address, Some(right), &rustls::version::TLS13)
            .await
            .is_some()
    );
    assert!(
        first_words(running.address, Some(right), &rustls::version::TLS12)
            .await
            .is_none()
    );
    assert!(
        first_words(running.address, None, &rustls::version::TLS13)
            .await
            .is_none()
    );
}

#[tokio::test]
async fn fault_091_the_listener_announces_its_limits() {
    let zoo = Zoo::new();
    let running = Running::start(&zoo.files("n1").load(), &[Role::Node], Limits::default()).await;
    let frame = first_words(
        running.address,
        Some(&zoo.specimens[0]),
        &rustls::version::TLS13,
    )
    .await
    .expect("spoken to");
    assert_eq!(frame[3], 4, "a SETTINGS frame");
    let settings: Vec<(u16, u32)> = frame[9..]
        .chunks_exact(6)
        .map(|s| {
            (
                u16::from_be_bytes([s[0], s[1]]),
                u32::from_be_bytes([s[2], s[3], s[4], s[5]]),
            )
        })
        .collect();
    assert!(
        settings.contains(&(3, 64)),
        "SETTINGS_MAX_CONCURRENT_STREAMS: {settings:?}"
    );
    assert!(
        settings.contains(&(6, 8192)),
        "SETTINGS_MAX_HEADER_LIST_SIZE: {settings:?}"
    );
}
