//! Exhaustive exploration: every order of everything that may be sent, up to a bound.
//!
//! ```text
//!   scenario ─▶ steps, honest and not ─▶ commands, signed and admitted ─▶ decide ▸ evolve
//!                    ▲                                                        │
//!                    └── states, merged by shape (breadth first, stateright) ◀┴─▶ rules, replay
//! ```
//!
//! Nothing here models the journal: the journal itself is driven, and the model is only who may
//! send what. `docs/ARCHITECTURE.md` says what is explored and what was counted.

mod check;
mod compose;
mod model;
mod pack;
mod past;
mod rules;
mod scenario;
mod shape;
mod sights;
mod step;
