//! The ActionPolicyRegistry: which variant decides an action, at which tier and risk, and what
//! the action does to the world (SPEC H.1, M1-I3).
//!
//! ```text
//!   (ingress, action, mode) ─▶ row ─▶ default variant, tier, risk, union of effects
//!                                └─▶ POLICY instead, where the mode allows it and a clause matches
//! ```
//!
//! A combination without a complete set of effects is refused, never guessed.

use redlatch_types::records::{
    ActionClass, ActionPayload, AuthorityVariant, Effect, Ingress, Mode, PolicyClauseV1, RiskClass,
    Tier,
};
use redlatch_types::{Canonical, Digest, Refusal};

use crate::planted::Bug;

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

/// One row: an action, wherever it is asked for.
struct Row {
    action: ActionClass,
    tier: Tier,
    risk: RiskClass,
    /// Feature level from which on it may be proposed.
    since: u64,
    /// Who decides in POLICY_AUTONOMOUS and in FULL_AUTONOMY. In HUMAN_GATED it is a human.
    autonomous: [AuthorityVariant; 2],
    effects: &'static [Effect],
}

const QUORUM: AuthorityVariant = AuthorityVariant::AgentQuorum;
const HUMAN: AuthorityVariant = AuthorityVariant::Human;

/// Everything inside the journal: the organism's own records, and nothing else.
const GOVERN: &[Effect] = &[
    Effect::RuntimeStoreWrite,
    Effect::CoordinationRecord,
    Effect::SovereignMutation,
];
const LAND: &[Effect] = &[
    Effect::RuntimeStoreWrite,
    Effect::SourceFilesystemWrite,
    Effect::CoordinationRecord,
    Effect::SovereignMutation,
];
const RELEASE: &[Effect] = &[
    Effect::RuntimeStoreWrite,
    Effect::CoordinationRecord,
    Effect::SovereignMutation,
    Effect::ProcessSpawn,
    Effect::NetworkExpose,
];
const EXTERNAL: &[Effect] = &[
    Effect::RuntimeStoreWrite,
    Effect::CoordinationRecord,
    Effect::SovereignMutation,
    Effect::ProcessSpawn,
];

/// A row's fields in a line, so that the table below reads as one.
const fn row(
    action: ActionClass,
    tier: Tier,
    risk: RiskClass,
    since: u64,
    autonomous: [AuthorityVariant; 2],
    effects: &'static [Effect],
) -> Row {
    Row {
        action,
        tier,
        risk,
        since,
        autonomous,
        effects,
    }
}

/// What has no row is refused. Keys of persons, resets and unresolved effects stay with humans
/// in every mode (DESIGN §13.6); the rest of governance passes to the quorum in FULL_AUTONOMY.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(ActionClass::Land,              Tier::A3, RiskClass::Low,    1, [QUORUM, QUORUM], LAND),
    row(ActionClass::ReleasePromote,    Tier::A4, RiskClass::High,   2, [HUMAN,  QUORUM], RELEASE),
    row(ActionClass::BlockRatify,       Tier::A3, RiskClass::Medium, 2, [QUORUM, QUORUM], EXTERNAL),
    row(ActionClass::BlockArchive,      Tier::A3, RiskClass::Medium, 2, [QUORUM, QUORUM], EXTERNAL),
    row(ActionClass::ExternalEffect,    Tier::A3, RiskClass::Medium, 2, [QUORUM, QUORUM], EXTERNAL),
    row(ActionClass::ConstitutionAmend, Tier::A5, RiskClass::High,   2, [HUMAN,  QUORUM], GOVERN),
    row(ActionClass::ModeActivate,      Tier::A5, RiskClass::High,   2, [HUMAN,  QUORUM], GOVERN),
    row(ActionClass::GrantChange,       Tier::A4, RiskClass::High,   2, [HUMAN,  QUORUM], GOVERN),
    row(ActionClass::RosterChange,      Tier::A4, RiskClass::High,   ROSTER_LEVEL, [HUMAN,  QUORUM], GOVERN),
    row(ActionClass::VerifierSetChange, Tier::A5, RiskClass::High,   4, [HUMAN,  HUMAN],  GOVERN),
    row(ActionClass::SubjectChange,     Tier::A4, RiskClass::High,   2, [HUMAN,  QUORUM], GOVERN),
    row(ActionClass::KeyChange,         Tier::A5, RiskClass::High,   2, [HUMAN,  HUMAN],  GOVERN),
    row(ActionClass::ResetFrozen,       Tier::A0, RiskClass::High,   2, [HUMAN,  HUMAN],  GOVERN),
    row(ActionClass::ResolveEffect,     Tier::A0, RiskClass::High,   2, [HUMAN,  HUMAN],  GOVERN),
];

/// From this feature level on nodes join, are promoted, leave and come back.
pub const ROSTER_LEVEL: u64 = 3;

/// The highest feature level that this build's journal can be raised to.
pub const FEATURE_LEVEL: u64 = 4;

/// The feature level at which this build starts an organism: what its nodes carry to the end
/// from a client's call to the effect. Where it is below [`FEATURE_LEVEL`] the journal is ahead of its drivers.
pub const SERVED_LEVEL: u64 = 4;

/// Which variants a mode allows at all for a class (DESIGN §9). Anything else is `wrong_variant`.
pub fn mode_allows(mode: Mode, action: ActionClass, variant: AuthorityVariant) -> bool {
    match (mode, variant) {
        (_, AuthorityVariant::Human) => true,
        (Mode::HumanGated, _) => false,
        (Mode::PolicyAutonomous, _) => action.is_operational(),
        (Mode::FullAutonomy, AuthorityVariant::Policy) => action.is_operational(),
        (Mode::FullAutonomy, AuthorityVariant::AgentQuorum) => ROWS
            .iter()
            .any(|r| r.action == action && r.autonomous[1] == QUORUM),
    }
}

/// Ways by which a class may come in: people and agents ask for anything, other systems for
/// day-to-day work only, recovery and migration for nothing sovereign.
fn ingress_allows(ingress: Ingress, action: ActionClass) -> bool {
    match ingress {
        Ingress::Mcp | Ingress::Rest | Ingress::Cli => true,
        Ingress::Hook | Ingress::Job => action.is_operational(),
        Ingress::Recovery | Ingress::Migration => false,
    }
}

/// Classifies a payload that comes in by `ingress` in `mode`, under the constitution's clauses.
///
/// # Errors
/// [`Refusal::UnknownAction`] if there is no row with a complete set of effects for the way it
/// came in, [`Refusal::FeatureLevel`] if the organism is not yet at the row's level.
pub fn classify(
    ingress: Ingress,
    payload: &ActionPayload,
    mode: Mode,
    feature_level: u64,
    clauses: &[PolicyClauseV1],
) -> Result<Classification, Refusal> {
    let action = payload.class();
    let row = ROWS
        .iter()
        .find(|r| r.action == action)
        .filter(|_| ingress_allows(ingress, action) || Bug::AnyIngressServes.planted())
        .ok_or(Refusal::UnknownAction)?;
    if feature_level < row.since {
        return Err(Refusal::FeatureLevel);
    }
    let usual = match mode {
        Mode::HumanGated => HUMAN,
        Mode::PolicyAutonomous => row.autonomous[0],
        Mode::FullAutonomy => row.autonomous[1],
    };
    let policy = usual == QUORUM
        && mode_allows(mode, action, AuthorityVariant::Policy)
        && matching_clauses(clauses, payload, row.risk)
            .next()
            .is_some();
    Ok(Classification {
        variant: if policy {
            AuthorityVariant::Policy
        } else {
            usual
        },
        tier: row.tier,
        risk: row.risk,
        effects: row.effects,
    })
}

/// The clauses that decide `payload` at `risk`, in the constitution's order.
pub fn matching_clauses<'a>(
    clauses: &'a [PolicyClauseV1],
    payload: &'a ActionPayload,
    risk: RiskClass,
) -> impl Iterator<Item = &'a PolicyClauseV1> {
    let resource = payload.resource();
    clauses.iter().filter(move |clause| {
        clause.action_classes.contains(&payload.class())
            && clause.risk_domains.contains(&risk)
            && clause
                .resource_environment_scope
                .iter()
                .any(|scope| resource.covered_by(scope))
    })
}

/// `action_policy_registry_digest` of SPEC: over every row in order.
pub fn registry_digest() -> Digest {
    let mut bytes = Vec::new();
    for row in ROWS {
        bytes.extend((row.action, row.since, row.autonomous.to_vec()).to_canonical());
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
    use redlatch_types::records::{
        ExternalResource, GitRef, LandPayload, ModePayload, ResetPayload, ResourceScope,
        SwapPayload, Text,
    };
    use redlatch_types::{Bytes, GroundNumber};

    use super::*;

    /// A payload of every class that can be built without a journal around it.
    fn payloads() -> Vec<ActionPayload> {
        let swap = || SwapPayload {
            resource: ExternalResource {
                realm: "stage".parse().unwrap(),
                path: Text::lossy("channels/stable"),
            },
            old: Bytes(vec![]),
            new: Bytes(vec![1]),
        };
        vec![
            ActionPayload::Land(LandPayload {
                resource: GitRef {
                    repository: "repo".parse().unwrap(),
                    reference: Text::lossy("refs/heads/main"),
                },
                old: Bytes(vec![]),
                new: Bytes(vec![1; 20]),
            }),
            ActionPayload::ReleasePromote(swap()),
            ActionPayload::BlockRatify(swap()),
            ActionPayload::BlockArchive(swap()),
            ActionPayload::ExternalEffect(swap()),
            ActionPayload::ModeActivate(ModePayload {
                mode: Mode::HumanGated,
                activates_at: 0,
                gate_receipts_digest: Digest::ZERO,
                rollback_plan_digest: Digest::ZERO,
            }),
            ActionPayload::ResetFrozen(ResetPayload {
                grounds: vec![GroundNumber(1)],
                cause: Text::default(),
            }),
            ActionPayload::VerifierSetChange(Vec::new()),
        ]
    }

    /// A clause that matches every operational payload above.
    fn clause() -> PolicyClauseV1 {
        let scope = |realm: &str, prefix: &str| ResourceScope {
            repository: realm.parse().unwrap(),
            ref_prefix: Text::lossy(prefix),
        };
        PolicyClauseV1 {
            clause_id: "all".parse().unwrap(),
            action_classes: ActionClass::ALL.to_vec(),
            risk_domains: RiskClass::ALL.to_vec(),
            resource_environment_scope: vec![scope("repo", "refs/"), scope("stage", "channels/")],
            required_gates: vec!["unit".parse().unwrap()],
            runners: vec![redlatch_types::PublicKey([1; 32])],
        }
    }

    #[test]
    fn m1_i3_every_combination_has_a_complete_set_of_effects_or_is_refused() {
        let mut reached = 0;
        for ingress in Ingress::ALL {
            for payload in payloads() {
                for mode in Mode::ALL {
                    for level in 0..=FEATURE_LEVEL {
                        for clauses in [vec![], vec![clause()]] {
                            let found = classify(*ingress, &payload, *mode, level, &clauses);
                            let class = payload.class();
                            match found {
                                Ok(found) => {
                                    reached += 1;
                                    assert!(found.effects.contains(&Effect::SovereignMutation));
                                    assert!(found.effects.contains(&Effect::CoordinationRecord));
                                    assert!(mode_allows(*mode, class, found.variant), "{class}");
                                    assert!(ingress_allows(*ingress, class));
                                }
                                Err(refusal) => assert!(matches!(
                                    refusal,
                                    Refusal::UnknownAction | Refusal::FeatureLevel
                                )),
                            }
                        }
                    }
                }
            }
        }
        assert!(reached > 100, "{reached}");
    }

    #[test]
    fn what_no_driver_carries_out_is_refused_at_the_level_that_an_organism_reaches() {
        let refused = |class: ActionClass| {
            let row = ROWS.iter().find(|row| row.action == class);
            row.is_some_and(|row| row.since > SERVED_LEVEL)
        };
        for class in ActionClass::ALL {
            assert!(!refused(*class), "{class}: a driver carries it out");
        }
        let verifiers = ActionPayload::VerifierSetChange(Vec::new());
        let at = |level| classify(Ingress::Cli, &verifiers, Mode::HumanGated, level, &[]);
        assert_eq!(at(ROSTER_LEVEL), Err(Refusal::FeatureLevel));
        assert!(at(SERVED_LEVEL).is_ok());
    }

    #[test]
    fn every_class_has_one_row_and_the_table_of_modes_holds_over_all_cells() {
        assert!(ROWS.iter().all(|r| !r.effects.is_empty()));
        for class in ActionClass::ALL {
            assert_eq!(
                ROWS.iter().filter(|r| r.action == *class).count(),
                1,
                "{class}"
            );
            for mode in Mode::ALL {
                assert!(mode_allows(*mode, *class, AuthorityVariant::Human));
                let policy = mode_allows(*mode, *class, AuthorityVariant::Policy);
                let quorum = mode_allows(*mode, *class, AuthorityVariant::AgentQuorum);
                match mode {
                    Mode::HumanGated => assert!(!policy && !quorum, "{class}"),
                    Mode::PolicyAutonomous => {
                        assert_eq!(policy, class.is_operational());
                        assert_eq!(quorum, class.is_operational());
                    }
                    Mode::FullAutonomy => assert_eq!(policy, class.is_operational()),
                }
            }
        }
        let never = [
            ActionClass::KeyChange,
            ActionClass::ResetFrozen,
            ActionClass::ResolveEffect,
            ActionClass::VerifierSetChange,
        ];
        for class in never {
            let quorum = AuthorityVariant::AgentQuorum;
            assert!(!mode_allows(Mode::FullAutonomy, class, quorum), "{class}");
        }
    }

    #[test]
    fn a_clause_decides_what_it_names_and_an_empty_list_names_nothing() {
        let land = payloads().remove(0);
        let mode = Mode::PolicyAutonomous;
        let variant = |clauses: &[PolicyClauseV1]| {
            classify(Ingress::Cli, &land, mode, 1, clauses).map(|c| c.variant)
        };
        assert_eq!(variant(&[]), Ok(AuthorityVariant::AgentQuorum));
        assert_eq!(variant(&[clause()]), Ok(AuthorityVariant::Policy));
        type Empty = fn(&mut PolicyClauseV1);
        let empties: [Empty; 4] = [
            |c| c.action_classes.clear(),
            |c| c.risk_domains.clear(),
            |c| c.resource_environment_scope.clear(),
            |c| c.resource_environment_scope[0].ref_prefix = Text::default(),
        ];
        for empty in empties {
            let mut clause = clause();
            empty(&mut clause);
            assert_eq!(variant(&[clause]), Ok(AuthorityVariant::AgentQuorum));
        }
        // What a person decides, and what changes the organism, no clause decides.
        let mut everywhere = clause();
        everywhere.resource_environment_scope.push(ResourceScope {
            repository: redlatch_types::records::ORGANISM_REALM.parse().unwrap(),
            ref_prefix: Text::lossy("m"),
        });
        let by = |at: usize, mode| {
            let payload = &payloads()[at];
            let clauses = [everywhere.clone()];
            classify(Ingress::Cli, payload, mode, 2, &clauses).map(|c| c.variant)
        };
        assert_eq!(by(1, Mode::PolicyAutonomous), Ok(AuthorityVariant::Human));
        assert_eq!(by(1, Mode::FullAutonomy), Ok(AuthorityVariant::Policy));
        let mode = &payloads()[5];
        assert!(
            mode.resource()
                .covered_by(&everywhere.resource_environment_scope[2]),
            "{}",
            mode.resource()
        );
        assert_eq!(by(5, Mode::FullAutonomy), Ok(AuthorityVariant::AgentQuorum));
        let human = classify(Ingress::Cli, &land, Mode::HumanGated, 1, &[clause()]);
        assert_eq!(human.map(|c| c.variant), Ok(AuthorityVariant::Human));
    }
}
