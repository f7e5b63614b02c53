//! Refusals: why nothing happened, as a closed enum of stable codes (DESIGN §11).
//!
//! A refusal carries a code and no free text, because refusals may be journaled and must be
//! equal on every replica (FAULTS 17). The sentence for people and what they can do about it
//! are part of the code's definition here; `docs/refusals.md` is generated from this table.
//!
//! *Not leader*, *unavailable* and *indeterminate* are not here: they are answers of a
//! process, not of the journal, and never mean that nothing happened for good.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};

macro_rules! refusals {
    ($($n:literal $variant:ident $code:literal $what:literal $hint:literal;)*) => {
        /// Why the journal refused. Nothing happened, except possibly an audit line.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
        #[cbor(index_only)]
        pub enum Refusal {
            $(#[doc = $what] #[n($n)] $variant,)*
        }

        impl Refusal {
            /// Every refusal, in the order of its number.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$variant,)*];

            /// The stable snake_case code.
            pub fn code(self) -> &'static str {
                match self { $(Refusal::$variant => $code,)* }
            }

            /// What it means, one sentence.
            pub fn what(self) -> &'static str {
                match self { $(Refusal::$variant => $what,)* }
            }

            /// What the caller can do.
            pub fn hint(self) -> &'static str {
                match self { $(Refusal::$variant => $hint,)* }
            }
        }
    };
}

refusals! {
    1 NotCanonical "not_canonical"
        "The command is not the canonical encoding of a known record."
        "Encode it with the product's own library; check that client and nodes have the same version.";
    2 BadSignature "bad_signature"
        "A signature does not hold for the key and the record it names."
        "Sign again with the enrolled key; check the organism id and epoch.";
    3 WrongOrganism "wrong_organism"
        "A record was signed for another organism or an earlier organism epoch."
        "Ask `redlatch status` for the organism id and epoch, then sign again.";
    4 NoGenesis "no_genesis"
        "The journal has no genesis yet."
        "Wait until the first leader has written it.";
    5 AlreadyBootstrapped "already_bootstrapped"
        "The journal has a genesis; a second one is never accepted."
        "Start another organism in other data directories.";
    6 BadGenesis "bad_genesis"
        "The genesis contradicts itself or the kernel's floors."
        "Run `redlatch init` again; nothing has been started.";
    7 Unauthorized "unauthorized"
        "The signer is not enrolled for this act, or its scope does not cover it."
        "Use an enrolled key whose grant covers the action and the resource.";
    8 SelfAuthorization "self_authorization"
        "One subject would hold two roles that exclude each other."
        "Let another subject propose, execute or vote.";
    9 UnknownAction "unknown_action"
        "The action policy registry has no complete set of effects for this combination."
        "Ask for an action class that this release supports.";
    10 WrongVariant "wrong_variant"
        "The active mode does not allow this decision variant for the action."
        "Ask for the variant that the mode requires, or have the mode changed.";
    11 UnknownIntent "unknown_intent"
        "No live intent has this digest; it was never frozen, or it is spent, void or expired."
        "Freeze the action again as a new intent.";
    12 UnknownTransaction "unknown_transaction"
        "No live transaction has this id."
        "Ask by idempotency key for its outcome.";
    13 WrongState "wrong_state"
        "The record is not in the state from which this step leads on."
        "Read its state first; a step that was already made needs no repeat.";
    14 TooEarly "too_early"
        "The intent already made one step in this entry; each step is its own chance for RED."
        "Read the previous step as applied, then propose the next.";
    15 Expired "expired"
        "State time is past the record's expiry."
        "Make a fresh one; ask by idempotency key what became of the old one.";
    16 TimeStale "time_stale"
        "The times in the record do not fit state time and the limits table."
        "Stamp from the state time that a signed Status tells.";
    17 IdempotencyConflict "idempotency_conflict"
        "The same event id was used for another payload."
        "Use a new event id for a new wish.";
    18 LimitExceeded "limit_exceeded"
        "A bound of the limits table is reached."
        "Finish or abort open work first.";
    19 AlreadySpent "already_spent"
        "The verdict, capability or nonce was used before."
        "Ask for a new decision on a new intent.";
    20 RedLatched "red_latched"
        "A RED is latched in the scope; nothing positive passes it."
        "See `redlatch status` for the latch; only a reset re-opens the scope.";
    21 Frozen "frozen"
        "The scope is frozen."
        "See `redlatch status` for the grounds; only a reset re-opens the scope.";
    22 EpochFenced "epoch_fenced"
        "The autonomy epoch moved on; what was issued before is void."
        "Freeze the action again under the current epoch.";
    23 SentinelRequired "sentinel_required"
        "A valid GREEN of the pinned sentinel is missing."
        "Check that the sentinel runs and reaches the nodes.";
    24 InsufficientQuorum "insufficient_quorum"
        "Fewer than three of the four verifiers approve."
        "Read the findings of the dissenting votes; a changed candidate is a new intent.";
    25 InsufficientIndependence "insufficient_independence"
        "The approving verifiers stand in fewer than three failure domains."
        "Bring the verifiers of the missing domains back.";
    26 StaleRoster "stale_roster"
        "Votes or signature name a roster or key epoch that is not current."
        "Start a new ballot for a new intent.";
    27 StaleScope "stale_scope"
        "The boundary or contract version changed since the proposal."
        "Run the gate again on the current scope.";
    28 UnlandableCandidate "unlandable_candidate"
        "The candidate is missing or cannot be landed."
        "Push the candidate and name its full id.";
    29 StaleHead "stale_head"
        "The resource is not at the expected head."
        "Rebase on the current head and freeze again.";
    30 CandidateMismatch "candidate_mismatch"
        "The candidate's digest differs from the one that was frozen."
        "Propose exactly what shall land.";
    31 ResourceReserved "resource_reserved"
        "Another transaction holds the resource."
        "Wait for its outcome, then prepare again.";
    32 EffectLapsed "effect_lapsed"
        "The effect was not claimed before its deadline."
        "Freeze the action again.";
    33 StaleLatchClaim "stale_latch_claim"
        "The latch is already committing or terminal; this attempt lost."
        "Nothing to do: the winning attempt finishes the stop.";
    34 MandateMismatch "mandate_mismatch"
        "The safety attempt differs from the mandate that the latch fixed."
        "Derive it again from the latch with the current build.";
    35 BudgetExceeded "budget_exceeded"
        "The grant's budget is used up."
        "Have the grant renewed by its authority.";
    36 NotSupported "not_supported"
        "This release does not carry out the act; it is refused, not ignored."
        "See the README's status table.";
    37 WitnessesMissing "witnesses_missing"
        "Too few witnesses cosigned for a positive receipt."
        "Bring the witnesses back; journal and stop path go on meanwhile.";
    38 ClockUnfit "clock_unfit"
        "The node's clock differs from state time by more than the bound."
        "Repair the clock of the node that `redlatch status` names.";
    39 RolledBack "rolled_back"
        "The node's disk is older than what its peers remember."
        "Do not reuse the disk: rejoin the node as a learner.";
    40 UnknownChallenge "unknown_challenge"
        "No open challenge has this id; it was never issued, or it is spent or expired."
        "Ask for a new challenge and approve that.";
    41 BadAssertion "bad_assertion"
        "The approval is not a valid assertion over this challenge by the enrolled key."
        "Approve again with the enrolled authenticator, in the organism's own page or tool.";
    42 KernelFloor "kernel_floor"
        "The change would lower a floor of the kernel or contradict what is in force."
        "Floors are changed by nobody but the offline root; correct the proposal.";
    43 NotDue "not_due"
        "The change is committed, and its time of activation has not come."
        "Activate it once state time has reached it.";
    44 FeatureLevel "feature_level"
        "Not every node of the organism runs a build that supports this."
        "Update all nodes, then raise the feature level.";
    45 ApproverExcluded "approver_excluded"
        "The person may not decide this: they proposed it, it concerns them, or their key does not reach so far."
        "Have another person approve.";
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.what())
    }
}

impl std::error::Error for Refusal {}

/// The text is not the code of a refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a refusal code")]
pub struct UnknownCode(pub String);

impl FromStr for Refusal {
    type Err = UnknownCode;
    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        Refusal::ALL
            .iter()
            .copied()
            .find(|r| r.code() == text)
            .ok_or_else(|| UnknownCode(text.chars().take(80).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Canonical;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_unique_snake_case_and_parse_back() {
        let codes: BTreeSet<_> = Refusal::ALL.iter().map(|r| r.code()).collect();
        assert_eq!(codes.len(), Refusal::ALL.len());
        for refusal in Refusal::ALL {
            let code = refusal.code();
            assert!(code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
            assert_eq!(code.parse(), Ok(*refusal));
        }
    }

    #[test]
    fn fault_052_zero_and_unknown_numbers_are_no_refusal() {
        assert!(Refusal::from_canonical(&[0x00]).is_err());
        assert!(Refusal::from_canonical(&[0x18, 0xc8]).is_err());
        for refusal in Refusal::ALL {
            assert_eq!(
                Refusal::from_canonical(&refusal.to_canonical()),
                Ok(*refusal)
            );
        }
    }
}
