//! Rules of the repository that a compiler cannot hold, as ordinary tests.
//!
//! ```text
//!   files of the checkout ──source──▶ lines: raw, code alone, test or production
//!                                        │
//!   crates     edges, pure trees, refused packages, lints      (Cargo's own answers)
//!   sources    //! first, words banned in cores, one verify, nonces, leftovers
//!   doors      clocks, files, threads and exits have one place each
//!   commands   every positive command passes the fence
//!   mutants    no mutant, no symbolic constructor and no planted bug in shipped code
//!   processes  each stands in the simulated world with an invariant that watches it
//!   sizes      long functions and files: a list that only shrinks
//!   documents  README commands, links, invariants against tests, metrics against code
//!   measured   the README's numbers against the recorded run
//! ```
//!
//! Every rule is a function from text to findings, and is shown a bad example beside it: a rule
//! that cannot fail is a defect. Reading is by lines and relies on rustfmt, which is checked first.
//!
//! This suite does not judge taste and does not repeat what clippy says.

#[path = "tidy/commands.rs"]
mod commands;
#[path = "tidy/crates.rs"]
mod crates;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/doors.rs"]
mod doors;
#[path = "tidy/finding.rs"]
mod finding;
#[path = "tidy/invariants.rs"]
mod invariants;
#[path = "tidy/leftovers.rs"]
mod leftovers;
#[path = "tidy/measured.rs"]
mod measured;
#[path = "tidy/metrics.rs"]
mod metrics;
#[path = "tidy/mutants.rs"]
mod mutants;
#[path = "tidy/processes.rs"]
mod processes;
#[path = "tidy/readme.rs"]
mod readme;
#[path = "tidy/sizes.rs"]
mod sizes;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/sources.rs"]
mod sources;
