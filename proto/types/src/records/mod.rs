//! The records (SPEC part C).
