//! Checks of this crate that a simulated run may switch off, to prove that an invariant notices.

redlatch_types::planted_bugs! {
    /// What the actuator could get wrong.
    pub enum Bug {
        /// An attempt whose epoch has passed is submitted again and again.
        DeadAttemptKept,
    }
}
