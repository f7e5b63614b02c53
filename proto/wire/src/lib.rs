//! The gRPC envelopes of redlatch: what is written in `redlatch/v1/*.proto`, compiled for real
//! and for simulated runs.
//!
//! ```text
//!   redlatch/v1/*.proto --protox--> descriptor set --tonic-build--> v1 (messages, clients, servers)
//!                                        |
//!                                        +--> FILE_DESCRIPTOR_SET (gRPC reflection)
//! ```
//!
//! A signed record travels as opaque bytes inside these messages and is never re-serialised here;
//! nothing in this crate checks a signature, a size or an identity. Servers refuse a request that is
//! not spelled as we spell it; this crate does not know what any of it means.

pub mod answer;
#[cfg(not(madsim))]
pub mod strict;

/// Package `redlatch.v1`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::unwrap_used,
    reason = "generated; the .proto files carry the documentation"
)]
pub mod v1 {
    tonic::include_proto!("redlatch.v1");
}

/// The compiled descriptors of package `redlatch.v1`, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/redlatch_descriptor.bin"));
