//! Checks of this crate that a simulated run may switch off, to prove that an invariant notices.

redlatch_types::planted_bugs! {
    /// What a node could get wrong beside the journal.
    pub enum Bug {
        /// A second candidate of one term is given the vote as well.
        VoteGivenTwice,
        /// The log is not applied again at the start: that is left to Raft.
        StartFromSnapshot,
        /// First outcomes are not rebuilt at the start.
        OutcomesForgotten,
        /// One cosignature makes a head that receipts are given under.
        OneCosigner,
    }
}
