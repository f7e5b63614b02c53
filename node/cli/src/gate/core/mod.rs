//! What a git gate decides, without git, network, clock or disk.
//!
//! ```text
//!   stdin, push options ──update──▶ Push ─┐
//!   intent bytes, proven marker ──────────┴─binding──▶ Permit ──token──▶ may be honoured
//!   signed statuses, what is still open ──status──▶ wait | permit | deny
//!   ref now, old, new, is the push alive? ──settle──▶ outcome to report, or nothing
//! ```
//!
//! Nothing here verifies a signature: what comes in was opened or proven by the caller.

pub(crate) mod binding;
pub(crate) mod settle;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod update;
