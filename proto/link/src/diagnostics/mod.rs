//! What a process tells the people who run it: alive, ready, counted.
//!
//! ```text
//!   Counter, Gauge, Histogram ──▶ Registry ──▶ /metrics          one loopback address,
//!   Condition ──▶ Readiness ─────────────────▶ /readyz, health   one thread of its own
//!                  nothing ──────────────────▶ /livez, /healthz
//! ```
//!
//! Liveness depends on nothing that a working thread could hold (M1-I6): the endpoint runs on its own thread
//! and answers from a constant. Readiness is a set of named conditions, read without a lock. Nothing here
//! changes what the process does, and nothing of it is reachable from another machine.

#[cfg(not(madsim))]
mod endpoint;
mod metrics;
mod readiness;

pub use metrics::{
    Counter, CounterName, Gauge, GaugeName, Histogram, HistogramName, Registry, SECONDS,
};
pub use readiness::{Condition, Readiness, State};

use std::net::SocketAddr;

use crate::transport::TransportError;

/// What the endpoint shows.
#[derive(Clone, Default)]
pub struct Diagnostics {
    /// The process's metrics.
    pub metrics: Registry,
    /// What the process still waits for.
    pub readiness: Readiness,
    /// Encoded descriptor sets of the services the process serves, for gRPC reflection.
    pub descriptors: Vec<&'static [u8]>,
}

/// A running endpoint; it ends when this is dropped.
pub struct Endpoint {
    address: SocketAddr,
    #[cfg(not(madsim))]
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Endpoint {
    /// The bound address; tells the port when port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Starts the endpoint on a loopback address. Under simulation nothing listens.
///
/// # Errors
/// [`TransportError::NotLoopback`], [`TransportError::AddressInUse`], [`TransportError::Bind`].
pub fn start(address: SocketAddr, diagnostics: Diagnostics) -> Result<Endpoint, TransportError> {
    let address = crate::transport::loopback_only(address)?;
    #[cfg(not(madsim))]
    return endpoint::start(address, diagnostics);
    #[cfg(madsim)]
    {
        drop(diagnostics);
        Ok(Endpoint { address })
    }
}
