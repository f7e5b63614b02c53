//! The evaluator against real repositories.
