//! Calls between processes: gRPC over mutual TLS; under simulation, gRPC over the simulated network.
//!
//! ```text
//!   Dialer ── channel(address, peer) ──▶ Link ═══ TLS 1.3, both certificates ═══▶ Listener ── serve ──▶ Routes
//!     ▲                                                                              ▲            │
//!     └──────────── Credentials (certificate, key, authority, pins; reloadable) ─────┘     caller(&request)
//! ```
//!
//! What a failed call says about the connection, certificates above all, is told by [`failed`].
//!
//! Both worlds have the same names and signatures, so code that calls and serves has no `cfg`. What a
//! caller may do is decided per method from [`caller`]; nothing here knows any method.
//!
//! Under simulation there is no TLS: a link writes its identity into each request's metadata and the
//! listener holds it against the same admission rule. In the real world that metadata is never read.

mod address;
mod config;
mod error;
mod failure;

#[cfg(madsim)]
#[path = "simulated.rs"]
mod world;

#[cfg(not(madsim))]
mod credentials;
#[cfg(not(madsim))]
mod dialer;
#[cfg(not(madsim))]
mod listener;
#[cfg(not(madsim))]
mod pending;
#[cfg(not(madsim))]
mod verify;
#[cfg(not(madsim))]
mod world {
    pub use super::credentials::Credentials;
    pub use super::dialer::{Dialer, Introduction, Link};
    pub use super::listener::{Listener, Routes, caller, serve};
}

pub use address::loopback_only;
pub use config::{Limits, Tls};
pub use error::TransportError;
pub use failure::{Failed, NotTrusted, Rejection, failed, words};
pub use world::{Credentials, Dialer, Introduction, Link, Listener, Routes, caller, serve};

/// Names the type of a generated client that calls through a [`Link`]: `client_type!(path::to::NodeClient)`.
///
/// The value is `NodeClient::with_interceptor(link.channel(), link.introduction())` in both worlds.
#[cfg(not(madsim))]
#[macro_export]
macro_rules! client_type {
    ($($client:ident)::+) => {
        $($client)::+<
            tonic::service::interceptor::InterceptedService<tonic::transport::Channel, $crate::transport::Introduction>
        >
    };
}

/// Names the type of a generated client that calls through a [`Link`]: `client_type!(path::to::NodeClient)`.
#[cfg(madsim)]
#[macro_export]
macro_rules! client_type {
    ($($client:ident)::+) => {
        $($client)::+<tonic::transport::Channel, $crate::transport::Introduction>
    };
}

/// Names the type of a generated server, for [`Routes::service`]: `server_type!(path::to::NodeServer<Service>)`.
///
/// The value is `NodeServer::new(service)` in both worlds.
#[cfg(not(madsim))]
#[macro_export]
macro_rules! server_type {
    ($($server:ident)::+ < $service:ty >) => {
        $($server)::+<$service>
    };
}

/// Names the type of a generated server, for [`Routes::service`]: `server_type!(path::to::NodeServer<Service>)`.
#[cfg(madsim)]
#[macro_export]
macro_rules! server_type {
    ($($server:ident)::+ < $service:ty >) => {
        $($server)::+<$service, tonic::codegen::IdentityInterceptor>
    };
}
