//! The transport over real sockets: who gets in, who does not, and what strangers cannot break.
//!
//! Under simulation there is no TLS; see `tests/simulated.rs`.

#![cfg(not(madsim))]

mod authority;
mod credentials;
mod peers;
mod refusals;
mod service;
mod strangers;
mod zoo;
