//! Checks of this crate that a simulated run may switch off, to prove that an invariant notices.

redlatch_types::planted_bugs! {
    /// What a verifier could get wrong across a restart.
    pub enum Bug {
        /// A ballot that is not in memory is taken for one that was never begun: the store is not looked at.
        VoteForgotten,
        /// A ballot that comes back from the store does not know which sheet it opened.
        SheetForgotten,
        /// Nonces follow from the vote alone, as they do in an ordinary signature.
        NonceDerived,
    }
}
