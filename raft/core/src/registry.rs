//! The ActionPolicyRegistry: which variant decides an action, at which tier and risk, and what
//! the action does to the world (SPEC H.1, M1-I3).
//!
//! A combination without a complete set of effects is refused, never guessed.

use redlatch_types::records::{ActionClass, AuthorityVariant, Effect, Mode, RiskClass, Tier};
use redlatch_types::{Canonical, Digest, Refusal};

/// The result of classifying an action; frozen in the intent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Classification {
    /// The one variant that may decide.
    pub variant: AuthorityVariant,
    /// The tier that a grant must reach.
    pub tier: Tier,
    /// The risk class that a grant must cover.
    pub risk: RiskClass,
    /// Everything that the action does.
    pub effects: &'static [Effect],
}

/// One row: an action in a mode.
struct Row {
    action: ActionClass,
    mode: Mode,
    variant: AuthorityVariant,
    tier: Tier,
    risk: RiskClass,
    effects: &'static [Effect],
}

const LAND: &[Effect] = &[
    Effect::RuntimeStoreWrite,
    Effect::SourceFilesystemWrite,
    Effect::CoordinationRecord,
    Effect::SovereignMutation,
];

/// Operational classes ask the quorum wherever the mode lets them (DESIGN §9). What has no row
/// is not carried out by this release and is refused as unknown.
const ROWS: &[Row] = &[
    Row {
        action: ActionClass::Land,
        mode: Mode::HumanGated,
        variant: AuthorityVariant::Human,
        tier: Tier::A3,
        risk: RiskClass::Low,
        effects: LAND,
    },
    Row {
        action: ActionClass::Land,
        mode: Mode::PolicyAutonomous,
        variant: AuthorityVariant::AgentQuorum,
        tier: Tier::A3,
        risk: RiskClass::Low,
        effects: LAND,
    },
    Row {
        action: ActionClass::Land,
        mode: Mode::FullAutonomy,
        variant: AuthorityVariant::AgentQuorum,
        tier: Tier::A3,
        risk: RiskClass::Low,
        effects: LAND,
    },
];

/// Classifies `action` in `mode`.
///
/// # Errors
/// [`Refusal::UnknownAction`] if there is no row with a complete set of effects.
pub fn classify(action: ActionClass, mode: Mode) -> Result<Classification, Refusal> {
    ROWS.iter()
        .find(|r| r.action == action && r.mode == mode && !r.effects.is_empty())
        .map(|r| Classification {
            variant: r.variant,
            tier: r.tier,
            risk: r.risk,
            effects: r.effects,
        })
        .ok_or(Refusal::UnknownAction)
}

/// `action_policy_registry_digest` of SPEC: over every row in order.
pub fn registry_digest() -> Digest {
    let mut bytes = Vec::new();
    for row in ROWS {
        bytes.extend((row.action, row.mode, row.variant).to_canonical());
        bytes.extend((row.tier, row.risk, row.effects.to_vec()).to_canonical());
    }
    Digest::of(&bytes)
}

impl Classification {
    /// `classifier_decision_digest` of SPEC.
    pub fn digest(&self) -> Digest {
        Digest::of(&(self.variant, self.tier, self.risk, self.effects.to_vec()).to_canonical())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m1_i3_every_row_has_a_complete_set_of_effects_or_is_refused() {
        for action in ActionClass::ALL {
            for mode in Mode::ALL {
                match classify(*action, *mode) {
                    Ok(found) => assert!(found.effects.contains(&Effect::SovereignMutation)),
                    Err(refusal) => assert_eq!(refusal, Refusal::UnknownAction),
                }
            }
        }
    }

    #[test]
    fn human_gated_lets_only_a_human_decide() {
        for action in ActionClass::ALL {
            if let Ok(found) = classify(*action, Mode::HumanGated) {
                assert_eq!(found.variant, AuthorityVariant::Human);
            }
        }
    }

    #[test]
    fn no_action_in_a_mode_has_two_rows() {
        for (i, a) in ROWS.iter().enumerate() {
            for b in &ROWS[i + 1..] {
                assert!((a.action, a.mode) != (b.action, b.mode));
            }
        }
    }
}
