//! The records as a whole: their encoding, and the table in docs/records.md.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with its reason in sight"
)]

mod codec;
mod draw;
mod page;
mod source;
