//! C2SP transparency-log checkpoints.
