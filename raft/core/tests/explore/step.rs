//! The steps: everything that anybody may send, honest or not, timely or not.

use std::fmt;

use redlatch_types::records::{AbortReason, OutcomeKind};

/// One command. Wishes and REDs are counted from 0, attempts from 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// The proposer has a wish frozen.
    Freeze(usize),
    /// A person is asked.
    Challenge(usize),
    /// Honest parties decide, on a verdict signed at that moment.
    Authorize(usize, Moment),
    /// Honest parties decide once more, by another verdict.
    AuthorizeAgain(usize),
    /// Somebody lets less than a decision through.
    AuthorizeBadly(usize, Flaw),
    /// PREPARE with the capability of the first wish's last decision, of the second's, …
    Prepare(usize, usize),
    /// COMMIT.
    Commit(usize),
    /// ABORT for this reason, true or not.
    Abort(usize, AbortReason),
    /// The proposer takes it back.
    Withdraw(usize),
    /// Activation.
    Activate(usize),
    /// The executor, or somebody else, claims the effect under this key.
    Claim(usize, Claimer),
    /// The executor reports.
    Report(usize, OutcomeKind),
    /// The sentinel's entries from the first number to the second arrive.
    Red(usize, usize),
    /// An attempt at the stop of this RED, as the actuator derives it.
    Store(usize),
    /// An attempt that is not.
    StoreBadly(usize, Distortion),
    /// The capability of an attempt, signed by the actuator or by somebody else.
    PrepareSafety(usize, u64, Signer),
    /// The claim of an attempt's transaction.
    ClaimSafety(usize, u64),
    /// Its end.
    FinishSafety(usize, u64),
    /// The sentinel closes its entry.
    Acknowledge(usize),
    /// Time moves to the next point.
    Tick,
    /// A command that was accepted before arrives again.
    Again(Box<Step>),
}

/// When a verdict was signed: point of time, and autonomy epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Moment {
    pub(super) point: usize,
    pub(super) epoch: u64,
}

/// What is wrong with a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    /// The sentinel withheld its verdict.
    Withheld,
    /// Two of four verifiers.
    TwoVotes,
    /// Another variant than the frozen one.
    WrongVariant,
    /// The verdict is older than the intent.
    BeforeTheFreeze,
}

impl Flaw {
    pub(super) const ALL: [Flaw; 4] = [
        Flaw::Withheld,
        Flaw::TwoVotes,
        Flaw::WrongVariant,
        Flaw::BeforeTheFreeze,
    ];
}

/// Who claims an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Claimer {
    /// The executor.
    Gate,
    /// The executor for a second effect.
    GateAgain,
    /// The proposer.
    Agent,
}

impl Claimer {
    pub(super) const ALL: [Claimer; 3] = [Claimer::Gate, Claimer::GateAgain, Claimer::Agent];
}

/// What is wrong with a safety attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Distortion {
    /// It spends the nonce of the attempt before.
    ReusedNonce,
    /// It aims at more than the mandate.
    Wider,
    /// It was derived before the epoch moved.
    OldEpoch,
    /// It leaves a number out.
    Skipped,
}

impl Distortion {
    pub(super) const ALL: [Distortion; 4] = [
        Distortion::ReusedNonce,
        Distortion::Wider,
        Distortion::OldEpoch,
        Distortion::Skipped,
    ];
}

/// Who signs a safety capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Signer {
    /// The pinned actuator.
    Actuator,
    /// A gate.
    Gate,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = |wish: &usize| wish + 1;
        match self {
            Step::Freeze(w) => write!(f, "freeze intent {}", n(w)),
            Step::Challenge(w) => write!(f, "challenge a person about intent {}", n(w)),
            Step::Authorize(w, m) => write!(
                f,
                "authorize intent {} by a verdict of time {} and epoch {}",
                n(w),
                m.point,
                m.epoch
            ),
            Step::AuthorizeAgain(w) => write!(f, "authorize intent {} by another verdict", n(w)),
            Step::AuthorizeBadly(w, flaw) => write!(f, "authorize intent {} ({flaw:?})", n(w)),
            Step::Prepare(w, c) if w == c => write!(f, "prepare intent {}", n(w)),
            Step::Prepare(w, c) => {
                write!(
                    f,
                    "prepare intent {} with intent {}'s capability",
                    n(w),
                    n(c)
                )
            }
            Step::Commit(w) => write!(f, "commit intent {}", n(w)),
            Step::Abort(w, reason) => write!(f, "abort intent {} ({reason:?})", n(w)),
            Step::Withdraw(w) => write!(f, "withdraw intent {}", n(w)),
            Step::Activate(w) => write!(f, "activate intent {}", n(w)),
            Step::Claim(w, who) => write!(f, "claim the effect of intent {} ({who:?})", n(w)),
            Step::Report(w, how) => write!(f, "report the effect of intent {} ({how:?})", n(w)),
            Step::Red(first, last) if first == last => write!(f, "RED {}", n(first)),
            Step::Red(first, last) => write!(f, "REDs {} to {} together", n(first), n(last)),
            Step::Store(r) => write!(f, "store an attempt for RED {}", n(r)),
            Step::StoreBadly(r, how) => write!(f, "store an attempt for RED {} ({how:?})", n(r)),
            Step::PrepareSafety(r, a, who) => {
                write!(f, "prepare attempt {a} for RED {} ({who:?})", n(r))
            }
            Step::ClaimSafety(r, a) => write!(f, "claim the latch of RED {}, attempt {a}", n(r)),
            Step::FinishSafety(r, a) => write!(f, "finish the stop of RED {}, attempt {a}", n(r)),
            Step::Acknowledge(r) => write!(f, "acknowledge RED {}", n(r)),
            Step::Tick => f.write_str("time moves on"),
            Step::Again(step) => write!(f, "again: {step}"),
        }
    }
}
