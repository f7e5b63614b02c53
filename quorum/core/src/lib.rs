//! The blind ballot (pure).
