//! FAULTS 60: what arrives before any certificate does not stop or fill the listener.

use std::sync::Arc;
use std::time::Duration;

use redlatch_link::Role;
use redlatch_link::transport::{Dialer, Limits};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::authority::{Authority, Files, key, peer, pin};
use crate::service::{Running, arrives_as};

const CROWD: usize = 300;

struct Scene {
    running: Running,
    dialer: Dialer,
}

impl Scene {
    async fn new(limits: Limits) -> Scene {
        let root = Authority::root();
        let key = key();
        let node = Files::with_key(&root, &peer(Role::Node, "n1"), &key).load();
        let client = Files::of(&root, &peer(Role::Client, "a"))
            .pinned("node/n1", pin(&key))
            .load();
        Scene {
            running: Running::start(&node, &[Role::Client], limits).await,
            dialer: Dialer::new(client),
        }
    }

    /// Waits for as long as it takes, which is for ever on a listener that is stuck.
    async fn serves(&self) -> bool {
        let address = self.running.address.to_string();
        let link = self
            .dialer
            .channel(&address, &peer(Role::Node, "n1"))
            .expect("link");
        arrives_as(&link, "client/a").await.expect("served")
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.running.address)
            .await
            .expect("connected")
    }
}

/// A deadline that cannot be what saves the listener.
fn patient() -> Limits {
    Limits {
        handshake_deadline: Duration::from_secs(24 * 3600),
        ..Limits::default()
    }
}

fn client_hello() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("n1").expect("a name");
    let mut tls = rustls::ClientConnection::new(Arc::new(config), name).expect("a connection");
    let mut hello = Vec::new();
    tls.write_tls(&mut hello).expect("written");
    hello
}

#[tokio::test]
async fn fault_060_garbage_is_answered_by_a_close_and_the_next_is_served() {
    let scene = Scene::new(patient()).await;
    let messages: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nhost: n1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0xff; 512],
        &[0x16, 3, 1, 0xff, 0xff, 1],
        b"\n",
    ];
    for message in messages {
        let mut tcp = scene.connect().await;
        tcp.write_all(message).await.expect("sent");
        tcp.shutdown().await.expect("half closed");
        let mut answer = Vec::new();
        let _ = tcp.read_to_end(&mut answer).await;
        assert!(
            !answer.starts_with(b"HTTP"),
            "no HTTP before TLS: {message:?}"
        );
        assert!(scene.serves().await, "{message:?}");
    }
}

#[tokio::test]
async fn fault_060_resets_do_not_stop_the_listener() {
    let scene = Scene::new(patient()).await;
    for bytes in [&b""[..], b"\x16\x03\x01"] {
        for _ in 0..20 {
            let mut tcp = scene.connect().await;
            tcp.write_all(bytes).await.expect("sent");
            tcp.set_zero_linger().expect("set");
            drop(tcp);
        }
        assert!(scene.serves().await);
    }
}

#[tokio::test]
async fn fault_060_a_silent_crowd_of_one_source_does_not_keep_others_out() {
    let scene = Scene::new(patient()).await;
    let hello = client_hello();
    let mut crowd = Vec::new();
    for n in 0..CROWD {
        let mut tcp = scene.connect().await;
        // Some say nothing, some stop within their ClientHello.
        tcp.write_all(&hello[..(n % 2) * hello.len() / 2])
            .await
            .expect("sent");
        crowd.push(tcp);
    }
    assert!(scene.serves().await);
    // The oldest gave way; the youngest may still be waited for.
    let mut byte = [0; 1];
    assert!(
        !matches!(crowd[0].read(&mut byte).await, Ok(1)),
        "the first was closed"
    );
}

#[tokio::test]
async fn fault_060_a_handshake_ends_at_its_deadline() {
    let scene = Scene::new(Limits {
        handshake_deadline: Duration::from_millis(1),
        ..Limits::default()
    })
    .await;
    let mut silent = scene.connect().await;
    let mut answer = Vec::new();
    let _ = silent.read_to_end(&mut answer).await;
    assert!(answer.is_empty(), "closed without a word");
}

#[tokio::test]
async fn fault_060_one_source_cannot_hold_all_connections() {
    let scene = Scene::new(Limits {
        connections_per_source_max: 2,
        ..patient()
    })
    .await;
    let address = scene.running.address.to_string();
    let link = || {
        scene
            .dialer
            .channel(&address, &peer(Role::Node, "n1"))
            .expect("link")
    };
    let held = [link(), link()];
    for link in &held {
        assert!(arrives_as(link, "client/a").await.expect("served"));
    }
    assert!(
        arrives_as(&link(), "client/a").await.is_err(),
        "the share is used up"
    );
    assert!(
        arrives_as(&held[0], "client/a")
            .await
            .expect("those that are in stay in")
    );
}
