//! The transport under simulation: the same calls, the same refusals, the caller known by the same function.

#![cfg(madsim)]

use std::net::SocketAddr;
use std::task::{Context, Poll};

use redlatch_link::transport::{
    Credentials, Dialer, Limits, Link, Listener, Routes, caller, serve,
};
use redlatch_link::{PeerIdentity, Role};
use redlatch_types::{Digest, OrganismId};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{BoxFuture, BoxMessage, BoxMessageStream, Service};
use tonic::transport::NamedService;
use tonic::{Code, Request, Response, Status};

/// Answers every call with the caller's short name.
struct WhoAmI;

impl NamedService for WhoAmI {
    const NAME: &'static str = "test.WhoAmI";
}

impl Service<(PathAndQuery, Request<BoxMessageStream>)> for WhoAmI {
    type Response = Response<BoxMessageStream>;
    type Error = Status;
    type Future = BoxFuture<Response<BoxMessageStream>, Status>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (_, request): (PathAndQuery, Request<BoxMessageStream>)) -> Self::Future {
        Box::pin(async move {
            let name = caller(&request)?.short();
            let answer = futures::stream::once(async move { Ok(Box::new(name) as BoxMessage) });
            Ok(Response::new(Box::pin(answer) as BoxMessageStream))
        })
    }
}

fn peer(organism: u8, role: Role, name: &str) -> PeerIdentity {
    PeerIdentity::new(OrganismId(Digest([organism; 32])), role, name).expect("an identity")
}

async fn ask(link: &Link) -> Result<String, Status> {
    let mut grpc = tonic::client::Grpc::with_interceptor(link.channel(), link.introduction());
    let path = PathAndQuery::from_static("/test.WhoAmI/Ask");
    Ok(grpc
        .unary::<(), String, ()>(Request::new(()), path, ())
        .await?
        .into_inner())
}

fn link(who: PeerIdentity, expected: PeerIdentity) -> Link {
    let dialer = Dialer::new(Credentials::simulated(who));
    dialer.channel("10.0.0.1:7100", &expected).expect("link")
}

#[test]
fn callers_are_known_and_held_against_the_same_rule() {
    let runtime = madsim::runtime::Runtime::with_seed_and_config(1, madsim::Config::default());
    runtime.block_on(async {
        let world = madsim::runtime::Handle::current();
        let address: SocketAddr = "10.0.0.1:7100".parse().expect("address");
        let server = world.create_node().name("n1").ip(address.ip()).build();
        server.spawn(async move {
            let own = Credentials::simulated(peer(1, Role::Node, "n1"));
            let listener = Listener::bind(address, &own, &[Role::Client], Limits::default())
                .await
                .expect("bound");
            serve(
                listener,
                Routes::new().service(WhoAmI),
                std::future::pending(),
            )
            .await
            .expect("serving");
        });
        let caller = world
            .create_node()
            .name("caller")
            .ip([10, 0, 0, 2].into())
            .build();
        let asked = caller.spawn(async {
            let n1 = || peer(1, Role::Node, "n1");
            let served = link(peer(1, Role::Client, "a"), n1());
            // The server may not be there yet; calls fail until it is.
            let name = loop {
                match ask(&served).await {
                    Ok(name) => break name,
                    Err(_) => {
                        redlatch_link::world::sleep(std::time::Duration::from_millis(10)).await
                    }
                }
            };
            assert_eq!(name, "client/a");
            let refused = [
                link(peer(2, Role::Client, "a"), n1()),
                link(peer(1, Role::Gate, "a"), n1()),
                link(peer(1, Role::Client, "a"), peer(1, Role::Node, "n2")),
            ];
            for link in refused {
                assert_eq!(
                    ask(&link).await.expect_err("refused").code(),
                    Code::Unauthenticated
                );
            }
        });
        asked.await.expect("all asked");
    });
}

#[test]
fn randomness_comes_from_the_seed() {
    let draw = |seed| {
        let runtime =
            madsim::runtime::Runtime::with_seed_and_config(seed, madsim::Config::default());
        runtime.block_on(async {
            use rand_core::RngCore;
            redlatch_link::world::rng().next_u64()
        })
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
}
