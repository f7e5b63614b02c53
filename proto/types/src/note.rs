//! C2SP signed notes.
