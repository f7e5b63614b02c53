//! Tests of the journal as those see it who use it: commands in, replies and leaves out.
//!
//! They are one module of the library and not separate programs, so that each may plant a bug
//! and show that it notices.

mod approvals;
mod authorize;
mod bindings;
mod bounds;
mod chain;
mod changed;
mod changes;
mod codec;
mod deciders;
mod empty;
mod ends;
mod explore;
mod faults;
mod floors;
mod genesis;
mod governance;
mod human;
mod invariants;
mod laws;
mod planted;
mod poison;
mod policy;
mod positive;
mod red;
mod replay;
mod resealed;
mod root;
mod sequences;
mod shown;
mod steps;
mod webauthn;
mod world;
