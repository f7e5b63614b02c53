//! Small enumerations and texts that many records share.

use std::fmt;

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};

/// A fieldless enum with stable numbers and stable words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $n:literal $variant:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
        #[cbor(index_only)]
        pub enum $name {
            $($(#[$vdoc])* #[n($n)] $variant,)*
        }

        impl $name {
            /// Every value, ascending.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word that SPEC and people use for it.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::records::UnknownWord;

            fn from_str(text: &str) -> Result<$name, Self::Err> {
                let mut all = $name::ALL.iter().copied();
                let found = all.find(|it| it.word() == text);
                found.ok_or_else(|| $crate::records::UnknownWord::among($name::ALL))
            }
        }
    };
}
pub(super) use words;

/// A word that names none of the values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it must be one of: {0}")]
pub struct UnknownWord(String);

impl UnknownWord {
    pub(super) fn among<T: fmt::Display>(known: &[T]) -> UnknownWord {
        let words: Vec<String> = known.iter().map(ToString::to_string).collect();
        UnknownWord(words.join(", "))
    }
}

words! {
    /// What kind of subject acts (`actor_kind` of SPEC C.3).
    ActorKind {
        /// An autonomous agent.
        1 Agent "agent",
        /// A gate or effector: it claims effects and reports their outcome.
        2 Gate "gate",
        /// A runner that executes gates' commands and attests their result.
        3 Runner "runner",
        /// A person.
        4 Human "human",
        /// An operator of the cluster.
        5 Operator "operator",
    }
}

words! {
    /// Autonomy mode (SPEC A.4).
    Mode {
        /// Every sovereign action needs a human decision.
        1 HumanGated "HUMAN_GATED",
        /// Operational classes may be decided by policy or quorum.
        2 PolicyAutonomous "POLICY_AUTONOMOUS",
        /// The constitutional quorum governs above the kernel's floors.
        3 FullAutonomy "FULL_AUTONOMY",
    }
}

words! {
    /// Which single authority decides (M1-I25).
    AuthorityVariant {
        /// One human.
        1 Human "HUMAN",
        /// The policy in force.
        2 Policy "POLICY",
        /// Three of four independent verifiers.
        3 AgentQuorum "AGENT_QUORUM",
    }
}

words! {
    /// How far a grant reaches; always per grant, never global (M1-I17).
    Tier {
        /// Observe.
        1 A0 "A0",
        /// Propose.
        2 A1 "A1",
        /// Execute.
        3 A2 "A2",
        /// Land autonomously.
        4 A3 "A3",
        /// Govern autonomously.
        5 A4 "A4",
        /// Full autonomy.
        6 A5 "A5",
    }
}

words! {
    /// Class of a sovereign action.
    ActionClass {
        /// Land a candidate on a ref of a repository.
        1 Land "land",
        /// Promote a release.
        2 ReleasePromote "release_promote",
        /// Amend the constitution.
        3 ConstitutionAmend "constitution_amend",
        /// Activate a mode.
        4 ModeActivate "mode_activate",
        /// Change a grant.
        5 GrantChange "grant_change",
        /// Change the roster of nodes or verifiers.
        6 RosterChange "roster_change",
        /// Re-open a frozen scope.
        7 ResetFrozen "reset_frozen",
        /// Ratify a block.
        8 BlockRatify "block_ratify",
        /// Archive a block.
        9 BlockArchive "block_archive",
        /// Change who is enrolled.
        10 SubjectChange "subject_change",
        /// Change a person's keys.
        11 KeyChange "key_change",
        /// Replace the voting verifiers.
        12 VerifierSetChange "verifier_set_change",
        /// Any other effect that an enrolled effector makes.
        13 ExternalEffect "external_effect",
        /// Say how an effect ended that its executor could not say.
        14 ResolveEffect "resolve_effect",
    }
}

words! {
    /// Risk class that the registry gives an action.
    RiskClass {
        /// Can be undone by the bound rollback.
        1 Low "low",
        /// Can be undone with loss.
        2 Medium "medium",
        /// Cannot be undone.
        3 High "high",
    }
}

words! {
    /// What an action does to the world (SPEC H.1).
    Effect {
        /// Read.
        1 Read "READ",
        /// Change the observed graph.
        2 GraphMutation "GRAPH_MUTATION",
        /// Write a runtime store.
        3 RuntimeStoreWrite "RUNTIME_STORE_WRITE",
        /// Write source files.
        4 SourceFilesystemWrite "SOURCE_FILESYSTEM_WRITE",
        /// Write a coordination record.
        5 CoordinationRecord "COORDINATION_RECORD",
        /// Change a mission's state.
        6 MissionStateWrite "MISSION_STATE_WRITE",
        /// Change what only sovereign authority may change.
        7 SovereignMutation "SOVEREIGN_MUTATION",
        /// Start a process.
        8 ProcessSpawn "PROCESS_SPAWN",
        /// Expose a network surface.
        9 NetworkExpose "NETWORK_EXPOSE",
    }
}

words! {
    /// By which way a request came in (SPEC H.1); every way passes the registry.
    Ingress {
        /// Model Context Protocol.
        1 Mcp "mcp",
        /// HTTP or gRPC.
        2 Rest "rest",
        /// A person's or agent's command line.
        3 Cli "cli",
        /// A hook of another system.
        4 Hook "hook",
        /// A scheduled job.
        5 Job "job",
        /// Recovery after a failure.
        6 Recovery "recovery",
        /// A migration.
        7 Migration "migration",
    }
}

words! {
    /// How an autonomous ratification is labelled (M1-L16).
    RatificationLabel {
        /// A human accepted it.
        1 HumanRatified "HUMAN_RATIFIED",
        /// The policy in force authorised it.
        2 PolicyRatified "POLICY_RATIFIED",
        /// The quorum satisfied the constitution.
        3 QuorumRatified "QUORUM_RATIFIED",
    }
}

impl ActionClass {
    /// Whether it is day-to-day work; what is not, changes the organism itself (DESIGN §9).
    pub fn is_operational(self) -> bool {
        self.is_external()
    }

    /// Whether an executor makes the effect outside the journal, after a claim (DESIGN §5.7).
    /// What is not, takes effect by its own `Activate` (DESIGN §5.8).
    pub fn is_external(self) -> bool {
        matches!(
            self,
            ActionClass::Land
                | ActionClass::ReleasePromote
                | ActionClass::BlockRatify
                | ActionClass::BlockArchive
                | ActionClass::ExternalEffect
        )
    }
}

impl AuthorityVariant {
    /// The label of what this variant ratifies.
    pub fn label(self) -> RatificationLabel {
        match self {
            AuthorityVariant::Human => RatificationLabel::HumanRatified,
            AuthorityVariant::Policy => RatificationLabel::PolicyRatified,
            AuthorityVariant::AgentQuorum => RatificationLabel::QuorumRatified,
        }
    }
}

/// The canonicalization rule of this build (`canonicalization_version` of SPEC C.11).
pub const CANONICALIZATION_VERSION: u64 = 1;

/// Most characters of a [`Text`].
pub const TEXT_LEN_MAX: usize = 1_024;

/// Text for people, or a name that another system chose (a git ref): at most 1,024 bytes of
/// UTF-8 without control characters, so that showing it cannot change what a terminal shows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text(String);

/// The text is too long or has control characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("text must be at most {TEXT_LEN_MAX} bytes without control characters")]
pub struct NotText;

impl Text {
    /// Checks and wraps `text`.
    ///
    /// # Errors
    /// [`NotText`] if it is too long or has a control character.
    pub fn new(text: &str) -> Result<Text, NotText> {
        if text.len() <= TEXT_LEN_MAX && !text.chars().any(char::is_control) {
            Ok(Text(text.to_owned()))
        } else {
            Err(NotText)
        }
    }

    /// Wraps what fits of `text`: control characters become spaces, the rest is cut.
    pub fn lossy(text: &str) -> Text {
        let mut kept = String::new();
        for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
            if kept.len() + c.len_utf8() > TEXT_LEN_MAX {
                break;
            }
            kept.push(c);
        }
        Text(kept)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<C> Encode<C> for Text {
    fn encode<W: encode::Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        e.str(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Text {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        let at = d.position();
        Text::new(d.str()?).map_err(|_| decode::Error::message("not a text").at(at))
    }
}
