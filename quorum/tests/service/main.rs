//! Four verifiers over mutual TLS on loopback: key ceremony, ballot, group signature, crashes, wrong roles.
#![cfg(not(madsim))]
#![allow(clippy::unwrap_used, reason = "a test binary")]

mod ballot;
mod certificates;
mod keys;
mod node;
mod quorum;
mod roles;
