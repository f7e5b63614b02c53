//! Checks of this crate that a simulated run or a test may switch off, to prove that something notices.

redlatch_types::planted_bugs! {
    /// What the journal could get wrong.
    pub enum Bug {
        /// A scope that names a subject stops nothing.
        SubjectUnfenced,
        /// The RED at the watermark is not known again.
        RedLatchedAgain,
        /// A command that comes once more is refused, though it was carried out.
        RepeatRefused,
    }
}
