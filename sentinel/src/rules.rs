//! The rules as a person writes them, and their translation to [`redlatch_watch::Rules`].
//!
//! Words are those of the records (`land`, `high`, `A3`, `fence_epoch`); a resource is written
//! `repository:ref-prefix`. A rule that cannot be understood keeps the sentinel from starting.

use redlatch_types::limits::VERDICT_TTL_MS_MAX;
use redlatch_types::mandate::NegativeVerb;
use redlatch_types::records::{ActionClass, ResourceScope, RiskClass, Text, Tier};
use redlatch_types::{Name, SubjectId};
use redlatch_watch::Rules;
use redlatch_watch::rules::{Condition, Limit, Quota, TripScope, Tripwire};
use serde::{Deserialize, Serialize};

use crate::start::StartFailure;

/// The section `[rules]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct RulesConfig {
    /// Age of a freeze proof past which the sentinel is silent, milliseconds of state time.
    pub proof_age_ms_max: u64,
    /// Life of a verdict, milliseconds of state time; at most ten minutes.
    pub verdict_ttl_ms: u64,
    /// Resources that may be acted on, `repository:ref-prefix`. None allows nothing.
    pub allowed: Vec<String>,
    /// Resources that may not.
    pub forbidden: Vec<String>,
    /// Highest risk that may become GREEN: `low`, `medium` or `high`.
    pub risk_max: String,
    /// Intents that one subject may freeze.
    pub rate: QuotaConfig,
    /// Intents of one subject that may become GREEN.
    pub budget: QuotaConfig,
    /// Combinations that call RED.
    pub tripwires: Vec<TripwireConfig>,
}

impl Default for RulesConfig {
    fn default() -> RulesConfig {
        RulesConfig {
            proof_age_ms_max: 60_000,
            verdict_ttl_ms: VERDICT_TTL_MS_MAX,
            allowed: Vec::new(),
            forbidden: Vec::new(),
            risk_max: RiskClass::High.word().to_owned(),
            rate: QuotaConfig::default(),
            budget: QuotaConfig::default(),
            tripwires: Vec::new(),
        }
    }
}

/// So many intents within so many milliseconds of state time; a window of 0 is no rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct QuotaConfig {
    /// How many.
    pub intents_max: usize,
    /// Milliseconds.
    pub window_ms: u64,
}

/// One `[[rules.tripwires]]`. Conditions that are empty, false or 0 are none; all others must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct TripwireConfig {
    /// Name in findings.
    pub name: String,
    /// `intent`, `mission`, `proposer`, `action_class` or `everything`.
    pub scope: String,
    /// Verbs beside freeze and fence.
    pub verbs: Vec<String>,
    /// The resource is in this.
    pub resource: String,
    /// The action is this.
    pub action: String,
    /// The risk is this or higher.
    pub risk_at_least: String,
    /// The tier is this or higher.
    pub tier_at_least: String,
    /// This subject has a role in it.
    pub involves: String,
    /// No evidence is named.
    pub without_evidence: bool,
    /// One subject froze more than this.
    pub more_than: QuotaConfig,
}

/// The rules of a configuration.
///
/// # Errors
/// [`StartFailure::Setting`] with the key at fault.
pub fn rules(config: &RulesConfig) -> Result<Rules, StartFailure> {
    let mut limits = vec![
        Limit::Allowed(resources("rules.allowed", &config.allowed)?),
        Limit::Forbidden(resources("rules.forbidden", &config.forbidden)?),
        Limit::Risk(risk("rules.risk_max", &config.risk_max)?),
    ];
    limits.extend(config.rate.quota().map(Limit::Rate));
    limits.extend(config.budget.quota().map(Limit::Budget));
    if config.proof_age_ms_max == 0 || config.verdict_ttl_ms == 0 {
        let key = "rules.proof_age_ms_max, rules.verdict_ttl_ms";
        return Err(StartFailure::setting(key, "must be above 0"));
    }
    let tripwires = config.tripwires.iter().map(tripwire);
    Ok(Rules {
        limits,
        tripwires: tripwires.collect::<Result<_, _>>()?,
        proof_age_ms_max: config.proof_age_ms_max,
    })
}

impl QuotaConfig {
    fn quota(self) -> Option<Quota> {
        (self.window_ms > 0).then_some(Quota {
            intents_max: self.intents_max,
            window_ms: self.window_ms,
        })
    }
}

fn tripwire(config: &TripwireConfig) -> Result<Tripwire, StartFailure> {
    let key = "rules.tripwires";
    let bad = |error: &dyn std::fmt::Display| StartFailure::setting(key, error.to_string());
    let name = Name::new(&config.name).map_err(|error| bad(&error))?;
    let scope = match config.scope.as_str() {
        "intent" => TripScope::Intent,
        "mission" => TripScope::Mission,
        "proposer" => TripScope::Proposer,
        "action_class" => TripScope::ActionClass,
        "everything" => TripScope::Everything,
        other => return Err(bad(&format!("{name}: {other:?} is no scope"))),
    };
    let when = conditions(config)?;
    if when.is_empty() {
        return Err(bad(&format!(
            "{name} has no condition and would never trip"
        )));
    }
    let verbs = config.verbs.iter().map(|text| {
        let mut all = (1..).map_while(NegativeVerb::from_number);
        let found = all.find(|verb| verb.to_string() == *text);
        found.ok_or_else(|| bad(&format!("{name}: {text:?} is no verb")))
    });
    Ok(Tripwire {
        verbs: verbs.collect::<Result<_, _>>()?,
        name,
        when,
        scope,
    })
}

fn conditions(config: &TripwireConfig) -> Result<Vec<Condition>, StartFailure> {
    let key = "rules.tripwires";
    let mut when = Vec::new();
    if !config.resource.is_empty() {
        when.push(Condition::Resource(resource(key, &config.resource)?));
    }
    if !config.action.is_empty() {
        let found = ActionClass::ALL
            .iter()
            .find(|it| it.word() == config.action);
        when.push(Condition::Action(*known(key, &config.action, found)?));
    }
    if !config.risk_at_least.is_empty() {
        when.push(Condition::RiskAtLeast(risk(key, &config.risk_at_least)?));
    }
    if !config.tier_at_least.is_empty() {
        let found = Tier::ALL
            .iter()
            .find(|it| it.word() == config.tier_at_least);
        when.push(Condition::TierAtLeast(*known(
            key,
            &config.tier_at_least,
            found,
        )?));
    }
    if !config.involves.is_empty() {
        let subject = config.involves.parse::<SubjectId>().ok();
        when.push(Condition::Involves(known(key, &config.involves, subject)?));
    }
    if config.without_evidence {
        when.push(Condition::WithoutEvidence);
    }
    when.extend(config.more_than.quota().map(Condition::MoreThan));
    Ok(when)
}

fn known<T>(key: &'static str, text: &str, found: Option<T>) -> Result<T, StartFailure> {
    found.ok_or_else(|| StartFailure::setting(key, format!("{text:?} is not known")))
}

fn risk(key: &'static str, text: &str) -> Result<RiskClass, StartFailure> {
    let found = RiskClass::ALL.iter().find(|it| it.word() == text);
    known(key, text, found).copied()
}

fn resources(key: &'static str, texts: &[String]) -> Result<Vec<ResourceScope>, StartFailure> {
    texts.iter().map(|text| resource(key, text)).collect()
}

fn resource(key: &'static str, text: &str) -> Result<ResourceScope, StartFailure> {
    let parts = text.split_once(':').and_then(|(repository, prefix)| {
        let ref_prefix = Text::new(prefix).ok().filter(|_| !prefix.is_empty())?;
        Some(ResourceScope {
            repository: Name::new(repository).ok()?,
            ref_prefix,
        })
    });
    parts.ok_or_else(|| {
        let what = format!("{text:?} is not repository:ref-prefix, e.g. demo:refs/heads/");
        StartFailure::setting(key, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire() -> TripwireConfig {
        TripwireConfig {
            name: "bare-main".into(),
            scope: "proposer".into(),
            verbs: vec!["revoke".into()],
            resource: "demo:refs/heads/main".into(),
            without_evidence: true,
            ..TripwireConfig::default()
        }
    }

    #[test]
    fn nothing_is_allowed_by_default_and_a_tripwire_says_what_it_trips_on() {
        let none = rules(&RulesConfig::default()).unwrap();
        assert_eq!(none.limits[0], Limit::Allowed(Vec::new()));
        let config = RulesConfig {
            tripwires: vec![wire()],
            ..RulesConfig::default()
        };
        let wire = &rules(&config).unwrap().tripwires[0];
        assert_eq!(wire.scope, TripScope::Proposer);
        assert_eq!(wire.verbs, [NegativeVerb::Revoke]);
        assert_eq!(wire.when.len(), 2);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_key() {
        type Change = fn(&mut RulesConfig);
        let changes: [(Change, &str); 7] = [
            (|it| it.allowed.push("demo".into()), "rules.allowed"),
            (|it| it.allowed.push("demo:".into()), "rules.allowed"),
            (|it| it.forbidden.push("No:refs/".into()), "rules.forbidden"),
            (|it| it.risk_max = "huge".into(), "rules.risk_max"),
            (|it| it.verdict_ttl_ms = 0, "rules.proof_age_ms_max"),
            (
                |it| it.tripwires[0].verbs = vec!["land".into()],
                "rules.tripwires",
            ),
            (
                |it| {
                    it.tripwires[0].resource.clear();
                    it.tripwires[0].without_evidence = false;
                },
                "rules.tripwires",
            ),
        ];
        for (at, (change, key)) in changes.into_iter().enumerate() {
            let mut config = RulesConfig {
                tripwires: vec![wire()],
                ..RulesConfig::default()
            };
            change(&mut config);
            let failure = rules(&config).expect_err("refused").to_string();
            assert!(failure.starts_with(&format!("`{key}")), "{at}: {failure}");
        }
    }
}
