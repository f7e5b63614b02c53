//! Why a gate says no, as stable codes: its own, and those of the journal.

use std::fmt;

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::nodes::CallError;
use redlatch_types::Refusal;

macro_rules! refused {
    ($($(#[$doc:meta])* $variant:ident $(($($field:ty),*))? $code:literal $what:literal $hint:literal;)*) => {
        /// A gate's refusal. The ref did not move.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum Refused {
            $(#[doc = $what] $variant $(($($field),*))?,)*
            /// The journal's own refusal.
            Journal(Refusal),
        }

        impl Refused {
            /// The stable code.
            pub(crate) fn code(&self) -> &'static str {
                match self {
                    $(Refused::$variant { .. } => $code,)*
                    Refused::Journal(refusal) => refusal.code(),
                }
            }

            /// What is wrong, one sentence.
            fn what(&self) -> &'static str {
                match self {
                    $(Refused::$variant { .. } => $what,)*
                    Refused::Journal(refusal) => refusal.what(),
                }
            }

            /// What the pusher can do.
            pub(crate) fn hint(&self) -> &'static str {
                match self {
                    $(Refused::$variant { .. } => $hint,)*
                    Refused::Journal(refusal) => refusal.hint(),
                }
            }

            /// Codes and sentences of the gate's own refusals.
            #[cfg(test)]
            pub(crate) const TABLE: &'static [(&'static str, &'static str)] = &[$(($code, $hint),)*];
        }
    };
}

refused! {
    MalformedPush "malformed_push"
        "What git handed to the hook is not a list of ref updates."
        "Push with git itself.";
    MalformedOption "malformed_option"
        "A redlatch push option cannot be read, or stands there twice."
        "Use `redlatch land`, or give -o redlatch-intent=<digest> once.";
    MixedPush "mixed_push"
        "One push would create candidates and move other refs."
        "Push the candidate first, then the branch.";
    TooManyRefs(usize) "too_many_refs"
        "A push moves one ref, so that all of it passes or nothing."
        "Push one ref at a time.";
    Delete "delete_refused"
        "Refs are not deleted through this gate."
        "Land a commit in their place.";
    Tag "tag_refused"
        "Tags are not created or moved through this gate."
        "Land on a branch below refs/heads/.";
    NoBranch "ref_refused"
        "Only branches below refs/heads/, candidates and evidence pass this gate."
        "Land on a branch below refs/heads/.";
    NamedLikeAnId "ref_named_like_id"
        "The ref is named like an object id."
        "Choose a name that is no id.";
    NoIntent "intent_missing"
        "A branch moves by a committed intent, and the push names none."
        "Use `redlatch land`, or push with -o redlatch-intent=<digest> after COMMIT.";
    NotFastForward "force_refused"
        "The new commit does not follow from the old one."
        "Rebase on the current head and freeze again.";
    Gitlink "gitlink_refused"
        "The commit names commits of other repositories, which nobody judged."
        "Land the files themselves instead of a submodule.";
    CandidateName "candidate_name"
        "A candidate ref is named by the full id of its commit."
        "Push <id>:refs/redlatch/candidate/<id>.";
    EvidenceName "evidence_name"
        "An evidence ref is named by the SHA-256 of its blob, which is at most 64 KiB."
        "Push <blob>:refs/redlatch/evidence/<sha256>, as `redlatch land` does.";
    CandidateMoved "candidate_exists"
        "A candidate or evidence ref is created once and never moved."
        "Nothing to do: it is there.";
    NoClient "client_missing"
        "Only an enrolled client may bring a candidate, and the push names none."
        "Use `redlatch land` with the configuration of an enrolled subject.";
    StrangeClient "client_refused"
        "Whoever signed for the candidate is not enrolled for this repository, or signed for another commit."
        "Use the key of an enrolled subject whose scope covers the repository.";
    AliasRef "symbolic_ref"
        "The ref stands for another ref."
        "Land on the ref that it stands for.";
    UnsafeRepository(&'static str) "unsafe_repository"
        "The repository can show other objects than it names (replace refs, grafts, shallow, alternates)."
        "Remove what the message names; then ask again.";
    NotFromReceivePack "no_receive_pack"
        "The hook was not called by git receive-pack."
        "Push to the repository instead of calling the hook.";
    NotCommitted "not_committed"
        "The journal has no COMMIT of this intent."
        "Wait for COMMIT: redlatch intent show <digest>.";
    NotProven "not_proven"
        "No receipt of the COMMIT holds under this gate's trust policy."
        "Wait until enough nodes and witnesses have cosigned, then push again.";
    OtherIntent "candidate_mismatch"
        "The intent is not for exactly this update of this repository by this gate."
        "Push exactly what was frozen: ref, old and new commit.";
    NoToken "no_token"
        "The marker's number is none that a journal gives."
        "Do not trust whoever made this receipt.";
    StaleToken "stale_token"
        "A later authority was honoured for this ref already."
        "Freeze the action again on the current head.";
    NotOutstanding "not_outstanding"
        "The effect is reported, lapsed or withheld; it must not be made."
        "Freeze the action again.";
    Held "held"
        "The actuator holds this scope: a RED is on its way or latched."
        "Nothing lands in it before a reset: redlatch red show.";
    StaleRoster "stale_roster"
        "The nodes work under another roster than any of them proves to this gate."
        "Push again; the gate follows the change as soon as enough nodes have signed it.";
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.what())?;
        match self {
            Refused::TooManyRefs(count) => write!(f, " This one has {count}."),
            Refused::UnsafeRepository(what) => write!(f, " Found: {what}."),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Refused {}

/// Why a push does not pass, or a report could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GateError {
    /// For good: the ref does not move by this push.
    #[error("refused {0}")]
    Refused(Refused),
    /// The nodes could not say; nothing happened and the same push may pass later.
    #[error("unavailable {0}")]
    Unavailable(String),
    /// The claim may or may not be in the journal; the same push asks again.
    #[error("indeterminate {0}")]
    Indeterminate(String),
    /// Configuration, git, disk.
    #[error("{}", .0.text)]
    Failed(Failure),
}

impl From<Refused> for GateError {
    fn from(refused: Refused) -> GateError {
        GateError::Refused(refused)
    }
}

impl From<Refusal> for GateError {
    fn from(refusal: Refusal) -> GateError {
        GateError::Refused(Refused::Journal(refusal))
    }
}

impl From<Failure> for GateError {
    fn from(failure: Failure) -> GateError {
        GateError::Failed(failure)
    }
}

impl From<crate::git::GitError> for GateError {
    fn from(error: crate::git::GitError) -> GateError {
        GateError::Failed(error.into())
    }
}

impl From<redlatch_link::store::StoreError> for GateError {
    fn from(error: redlatch_link::store::StoreError) -> GateError {
        GateError::Failed(error.into())
    }
}

impl From<CallError> for GateError {
    fn from(error: CallError) -> GateError {
        match error {
            CallError::Indeterminate(text) => GateError::Indeterminate(text),
            CallError::Unavailable(_) | CallError::Limit(_) | CallError::NotYet(_) => {
                GateError::Unavailable(error.to_string())
            }
            other => GateError::Failed(other.into()),
        }
    }
}

impl From<GateError> for Failure {
    fn from(error: GateError) -> Failure {
        let text = error.to_string();
        match error {
            GateError::Refused(refused) => {
                Failure::new(ExitCode::Refused, text).hint(refused.hint())
            }
            GateError::Unavailable(_) => {
                Failure::new(ExitCode::Unavailable, text).hint("nothing happened; push again")
            }
            GateError::Indeterminate(_) => Failure::new(ExitCode::Indeterminate, text)
                .hint("push again with the same intent: the gate asks what became of its claim"),
            GateError::Failed(failure) => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_unique_words_with_a_hint() {
        let codes: BTreeSet<_> = Refused::TABLE.iter().map(|row| row.0).collect();
        assert_eq!(codes.len(), Refused::TABLE.len());
        for (code, hint) in Refused::TABLE {
            assert!(
                code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
                "{code}"
            );
            assert!(hint.ends_with('.'), "{code}");
        }
    }

    #[test]
    fn a_failure_keeps_code_and_hint_apart() {
        let failure = Failure::from(GateError::from(Refusal::RedLatched));
        assert_eq!(failure.code, ExitCode::Refused);
        assert!(
            failure.text.starts_with("refused red_latched: "),
            "{}",
            failure.text
        );
        let failure = Failure::from(GateError::from(Refused::TooManyRefs(30)));
        assert!(failure.text.contains("too_many_refs"), "{}", failure.text);
        assert!(
            failure.text.ends_with("This one has 30."),
            "{}",
            failure.text
        );
        let failure = Failure::from(GateError::Indeterminate("cut off".into()));
        assert_eq!(failure.code, ExitCode::Indeterminate);
    }
}
