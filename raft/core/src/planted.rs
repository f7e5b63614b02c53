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
        /// An activation passes a latch or freeze.
        ActivationUnfenced,
        /// An activation does not wait for its time.
        ActivatedBeforeItsTime,
        /// An activation never lapses.
        ActivatedAfterItsTime,
        /// A claim never lapses.
        ClaimedAfterItsTime,
        /// A reset leaves the tiers of its scope as they were.
        ResetKeepsTiers,
        /// A reset passes though it leaves grounds out.
        ResetForgetsGrounds,
        /// A latch stops nothing.
        LatchUnseen,
        /// A ground stops nothing.
        FreezeUnseen,
        /// What was issued under an earlier epoch goes on.
        EpochUnfenced,
        /// Two steps of an intent share an entry.
        StepsShareAnEntry,
        /// Any variant decides.
        VariantUnchecked,
        /// The verdict is not looked at.
        GreenUnchecked,
        /// A decided intent is decided again.
        DecidedTwice,
        /// Votes count that no sheet fixed.
        VotesOutsideTheSheet,
        /// Fewer approvals than the threshold are enough.
        ThresholdUnchecked,
        /// Fewer domains than the floor are enough.
        DomainsUnchecked,
        /// The quorum's record is believed as it is signed.
        DecisionBelieved,
        /// Whoever proposed may approve.
        ProposerApproves,
        /// An approval serves an intent that it is not about.
        ApprovalServesAnyIntent,
        /// A key approves for whoever was asked.
        KeyOfAnybody,
        /// What an assertion claims is not compared.
        ClaimsUnchecked,
        /// Two approvals of one person are two.
        PersonCountsTwice,
        /// An amendment lowers floors.
        FloorsLowered,
        /// An amendment follows another constitution.
        AmendmentOfAnother,
        /// A subject promotes itself.
        PromotesItself,
        /// Evidence of one tuple promotes another.
        PromotionOfAnotherTuple,
        /// A promotion needs no data.
        PromotionWithoutData,
        /// One key stands for two parties.
        KeyInTwoPlaces,
        /// A resource that moved on is written all the same.
        StaleHeadAccepted,
        /// A caller acts in a realm that is not its own.
        RealmUnchecked,
        /// Two transactions hold one resource.
        ReservationIgnored,
        /// A budget never ends.
        BudgetIgnored,
        /// A transaction is ended for a reason that is not true.
        AbortForNoReason,
        /// The actuator's attempt is believed as it is.
        MandateUnchecked,
        /// Any key starts a safety transaction.
        AnybodyActuates,
        /// A RED that cannot be read latches nothing.
        UnreadableRedIgnored,
        /// Any capability prepares any decided intent.
        AnyCapabilityPrepares,
        /// What was prepared commits whatever came since.
        PreparedIsEnough,
        /// Recovery and migration ask for sovereign actions.
        AnyIngressServes,
        /// An empty list in a grant covers everything.
        EmptyListAllows,
        /// A mode is put in force without gates.
        ModeWithoutGates,
        /// A verdict over bytes that were not durable yet counts.
        VerdictBeforeTheFreeze,
        /// The caller is whom the body names.
        CallerFromTheBody,
        /// Governance may change between freeze and step.
        GovernanceUnchecked,
        /// A constitution past its end is one all the same.
        EndedConstitutionServes,
        /// A stop says that a decision may stand behind it.
        StopRestsOnADecision,
        /// A RED after a gap stops no more than it names.
        GapStopsItsScopeOnly,
        /// A safety attempt lives for ever.
        AttemptNeverDies,
        /// A latch that is claimed takes another attempt.
        LatchHasTwoStops,
        /// The same attempt is prepared once more.
        AttemptSpentTwice,
        /// A stop leaves the epoch as it was.
        EpochNotPublished,
        /// A dissent is not in the leaf of the decision.
        DissentHidden,
        /// An amendment changes the mode as well.
        ConstitutionOwnsTheMode,
        /// An outcome is reported under another marker.
        OutcomeOfAnyMarker,
        /// An amendment says how many decide on it.
        AmendmentApprovesItself,
        /// What a quorum ratified is called human.
        QuorumCalledHuman,
        /// A change may leave nobody who could decide.
        NobodyLeft,
        /// An amendment may be over when it comes.
        EndedOnArrival,
        /// Anybody has another person asked.
        AnybodyAsks,
        /// A planned change of the quorum's key ends ballots at once.
        RotationEndsBallots,
        /// A node gives its vote up where it cannot get it back.
        RejoinedTooEarly,
    }
}
