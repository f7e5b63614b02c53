//! C2SP trust policies.
