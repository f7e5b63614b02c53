//! The sentinel (pure).
