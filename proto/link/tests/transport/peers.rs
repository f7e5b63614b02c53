//! Links between processes of one organism: served, refused, reconnected, reloaded, stopped.

use std::time::Duration;

use redlatch_link::Role;
use redlatch_link::exit::{ExitCode, Fails};
use redlatch_link::transport::{Credentials, Dialer, Limits, Listener, TransportError};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;

use crate::authority::{Authority, Files, key, leaf, organism, peer, pin, uri, write};
use crate::service::{HOLD, Running, anywhere, arrives_as, client, whole};

/// A node and whoever calls it.
struct Pair {
    root: Authority,
    node: Credentials,
    pin: String,
}

impl Pair {
    fn new() -> Pair {
        let root = Authority::root();
        let key = key();
        let node = Files::with_key(&root, &peer(Role::Node, "n1"), &key)
            .pinned("node/n1", pin(&key))
            .load();
        Pair {
            root,
            node,
            pin: pin(&key),
        }
    }

    fn client_files(&self, name: &str) -> Files {
        Files::of(&self.root, &peer(Role::Client, name)).pinned("node/n1", self.pin.clone())
    }

    fn dialer(&self, name: &str) -> Dialer {
        Dialer::new(self.client_files(name).load())
    }

    async fn serve(&self, limits: Limits) -> Running {
        Running::start(&self.node, &[Role::Client], limits).await
    }
}

#[tokio::test]
async fn each_caller_is_known_by_its_own_certificate() {
    let pair = Pair::new();
    let running = pair.serve(Limits::default()).await;
    let address = running.address.to_string();
    for name in ["a", "b"] {
        let link = pair
            .dialer(name)
            .channel(&address, &peer(Role::Node, "n1"))
            .expect("link");
        assert!(
            arrives_as(&link, &format!("client/{name}"))
                .await
                .expect("served")
        );
        assert!(!arrives_as(&link, "client/other").await.expect("served"));
    }
}

#[tokio::test]
async fn an_identity_claimed_in_metadata_changes_nothing() {
    let pair = Pair::new();
    let running = pair.serve(Limits::default()).await;
    let link = pair
        .dialer("a")
        .channel(&running.address.to_string(), &peer(Role::Node, "n1"))
        .expect("link");
    let mut request = tonic::Request::new(HealthCheckRequest {
        service: "client/b".into(),
    });
    let claim = format!("spiffe://{}/client/b", organism())
        .parse()
        .expect("a header");
    request.metadata_mut().insert("redlatch-caller", claim);
    let answer = client(&link).check(request).await.expect("served");
    assert_eq!(
        answer.get_ref().status(),
        tonic_health::pb::health_check_response::ServingStatus::NotServing
    );
}

#[tokio::test]
async fn somebody_else_at_the_address_gets_no_request() {
    let pair = Pair::new();
    let running = pair.serve(Limits::default()).await;
    let dialer = Dialer::new(
        pair.client_files("a")
            .pinned("node/n2", pair.pin.clone())
            .load(),
    );
    let link = dialer
        .channel(&running.address.to_string(), &peer(Role::Node, "n2"))
        .expect("link");
    let refused = arrives_as(&link, "client/a").await.expect_err("not n2");
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    assert!(
        whole(&refused).contains("expected node/n2, found node/n1"),
        "{}",
        whole(&refused)
    );
}

#[tokio::test]
async fn a_link_connects_again_by_itself() {
    let pair = Pair::new();
    let running = pair.serve(Limits::default()).await;
    let address = running.address;
    let link = pair
        .dialer("a")
        .channel(&address.to_string(), &peer(Role::Node, "n1"))
        .expect("link");
    assert!(arrives_as(&link, "client/a").await.expect("served"));
    running
        .begin_stop()
        .await
        .expect("joined")
        .expect("stopped");
    assert!(
        arrives_as(&link, "client/a").await.is_err(),
        "nobody is there"
    );
    let _running = Running::start_at(address, &pair.node, &[Role::Client], Limits::default()).await;
    // Calls that meet the dead connection fail; the link replaces it without being told.
    let mut served = false;
    for _ in 0..1000 {
        served = arrives_as(&link, "client/a").await.unwrap_or(false);
        if served {
            break;
        }
    }
    assert!(served);
}

#[tokio::test]
async fn a_reload_is_used_at_once_and_a_failed_one_changes_nothing() {
    let pair = Pair::new();
    let running = pair.serve(Limits::default()).await;
    let address = running.address.to_string();
    let stranger = Authority::root();
    let files = pair.client_files("a");
    // At first the process's certificate is of an authority that only itself trusts.
    let first = key();
    write(
        &files.tls.authority,
        format!("{}{}", stranger.pem, pair.root.pem).as_bytes(),
    );
    files.write_certificate(
        &stranger
            .sign(&leaf(vec![uri(peer(Role::Client, "a"))]), &first)
            .pem(),
    );
    files.write_key(&first);
    let credentials = files.load();
    let dialer = Dialer::new(credentials.clone());
    let link = dialer
        .channel(&address, &peer(Role::Node, "n1"))
        .expect("link");
    assert!(
        arrives_as(&link, "client/a").await.is_err(),
        "refused before"
    );

    let second = key();
    files.write_certificate(
        &pair
            .root
            .sign(&leaf(vec![uri(peer(Role::Client, "a"))]), &second)
            .pem(),
    );
    let half = credentials
        .reload()
        .expect_err("the key is still the first");
    assert!(
        matches!(half, TransportError::KeyMismatch { .. }),
        "{half:?}"
    );
    assert!(
        arrives_as(&link, "client/a").await.is_err(),
        "refused still"
    );
    files.write_key(&second);
    credentials.reload().expect("reloaded");
    assert!(arrives_as(&link, "client/a").await.expect("served after"));

    files.write_certificate(
        &pair
            .root
            .sign(&leaf(vec![uri(peer(Role::Client, "b"))]), &second)
            .pem(),
    );
    let renamed = credentials.reload().expect_err("somebody else");
    assert!(
        renamed
            .to_string()
            .contains("expected client/a, found client/b"),
        "{renamed}"
    );
    files.write_certificate("nothing");
    assert!(matches!(
        credentials.reload(),
        Err(TransportError::NotPem { .. })
    ));
    let fresh = dialer
        .channel(&address, &peer(Role::Node, "n1"))
        .expect("link");
    assert!(
        arrives_as(&fresh, "client/a")
            .await
            .expect("served with what was in use")
    );
}

#[tokio::test]
async fn a_call_that_began_before_the_stop_is_finished() {
    let pair = Pair::new();
    let running = pair
        .serve(Limits {
            drain: Duration::from_secs(600),
            ..Limits::default()
        })
        .await;
    let link = pair
        .dialer("a")
        .channel(&running.address.to_string(), &peer(Role::Node, "n1"))
        .expect("link");
    let calling = tokio::spawn(async move { arrives_as(&link, HOLD).await });
    let gate = running.gate.clone();
    gate.entered.notified().await;
    let stopping = running.begin_stop();
    gate.release.notify_one();
    assert!(calling.await.expect("joined").expect("answered"));
    stopping.await.expect("joined").expect("stopped");
}

#[tokio::test]
async fn an_endless_call_does_not_keep_the_server() {
    let pair = Pair::new();
    let running = pair
        .serve(Limits {
            drain: Duration::from_millis(1),
            ..Limits::default()
        })
        .await;
    let link = pair
        .dialer("a")
        .channel(&running.address.to_string(), &peer(Role::Node, "n1"))
        .expect("link");
    let _endless = client(&link)
        .watch(HealthCheckRequest::default())
        .await
        .expect("open");
    running
        .begin_stop()
        .await
        .expect("joined")
        .expect("stopped");
}

#[tokio::test]
async fn fault_091_a_header_list_beyond_the_limit_is_refused_alone() {
    let pair = Pair::new();
    let running = pair.serve(Limits::default()).await;
    let link = pair
        .dialer("a")
        .channel(&running.address.to_string(), &peer(Role::Node, "n1"))
        .expect("link");
    let mut request = tonic::Request::new(HealthCheckRequest {
        service: "client/a".into(),
    });
    request
        .metadata_mut()
        .insert("filler", "x".repeat(16 * 1024).parse().expect("a header"));
    assert!(client(&link).check(request).await.is_err());
    assert!(arrives_as(&link, "client/a").await.expect("served"));
}

#[tokio::test]
async fn an_address_in_use_has_its_own_error() {
    let pair = Pair::new();
    let first = Listener::bind(anywhere(), &pair.node, &[Role::Client], Limits::default())
        .await
        .expect("bound");
    let Err(second) = Listener::bind(
        first.address(),
        &pair.node,
        &[Role::Client],
        Limits::default(),
    )
    .await
    else {
        panic!("bound twice");
    };
    assert!(matches!(second, TransportError::AddressInUse { .. }));
    assert_eq!(second.code(), ExitCode::Unavailable);
}

#[tokio::test]
async fn what_is_not_an_address_is_not_dialled() {
    let dialer = Pair::new().dialer("a");
    for bad in [
        "",
        "localhost",
        "http://a:1",
        "a:1/x",
        "a:1?x",
        "u@a:1",
        "a:99999",
        "a b:1",
    ] {
        let refused = dialer.channel(bad, &peer(Role::Node, "n1"));
        assert!(
            matches!(refused, Err(TransportError::NotAnAddress(_))),
            "{bad}"
        );
    }
    for good in ["localhost:1", "127.0.0.1:1", "[::1]:1"] {
        assert!(
            dialer.channel(good, &peer(Role::Node, "n1")).is_ok(),
            "{good}"
        );
    }
}
