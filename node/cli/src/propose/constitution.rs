//! The constitution as people edit it: what `redlatch constitution` prints and `redlatch propose constitution`
//! reads.
//!
//! Only what an amendment may change stands in it. Epoch, predecessor and kernel follow from what is in force;
//! the seats of the quorum follow from the roster.

use std::path::Path;

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::{config, file};
use redlatch_types::records::{
    ActionClass, ConstitutionV1, Mode, PolicyClauseV1, ResourceScope, RiskClass, Text,
};
use redlatch_types::{Digest, Name, PublicKey};
use serde::{Deserialize, Serialize};

use super::parse;
use crate::client::Client;
use crate::{Common, Done, output};

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edited {
    /// State time in milliseconds past which nothing autonomous passes; absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    allowed_autonomy_modes: Vec<String>,
    human_approvals_required: u64,
    quorum_threshold: u64,
    minimum_failure_domains: u64,
    quorum_signature_required: bool,
    webauthn_rp_id: String,
    webauthn_origins: Vec<String>,
    objectives_non_goals: Vec<String>,
    amendment_rules: Vec<String>,
    #[serde(default)]
    policy_clauses: Vec<Clause>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Clause {
    name: String,
    actions: Vec<String>,
    risks: Vec<String>,
    /// As realm:path-prefix.
    resources: Vec<String>,
    required_gates: Vec<String>,
    /// Public keys, hexadecimal.
    runners: Vec<String>,
}

/// `redlatch constitution`.
pub(crate) async fn show(common: &Common) -> Done {
    let client = Client::current(common, "operator").await?;
    let in_force = client.in_force().await?;
    let edited = Edited::of(&in_force.constitution);
    output::put(&config::print(&edited)?)?;
    Ok(0)
}

/// The constitution that follows the one in force, with what was edited.
///
/// # Errors
/// [`Failure`] that names the value at fault.
pub(super) fn edited(
    path: &Path,
    current: &ConstitutionV1,
    now: u64,
) -> Result<ConstitutionV1, Failure> {
    let usage = |what: String| Failure::new(ExitCode::Usage, format!("{}: {what}", path.display()));
    let bytes = file::read_file(path)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| usage(error.to_string()))?;
    let edited: Edited = toml::from_str(text).map_err(|error| usage(error.to_string()))?;
    edited.apply(current, now).map_err(usage)
}

impl Edited {
    fn of(constitution: &ConstitutionV1) -> Edited {
        let spec = &constitution.independence_spec;
        Edited {
            expires_at: constitution.expires_at_optional,
            allowed_autonomy_modes: words(&constitution.allowed_autonomy_modes),
            human_approvals_required: constitution.human_approvals_required,
            quorum_threshold: spec.quorum_threshold,
            minimum_failure_domains: spec.minimum_failure_domains,
            quorum_signature_required: constitution.quorum_signature_required,
            webauthn_rp_id: constitution.webauthn_rp_id.to_string(),
            webauthn_origins: words(&constitution.webauthn_origins),
            objectives_non_goals: words(&constitution.objectives_non_goals),
            amendment_rules: words(&constitution.amendment_rules),
            policy_clauses: constitution.policy_clauses.iter().map(Clause::of).collect(),
        }
    }

    fn apply(&self, current: &ConstitutionV1, now: u64) -> Result<ConstitutionV1, String> {
        let mut next = current.clone();
        next.constitution_epoch = current.constitution_epoch.next();
        next.previous_constitution_digest = current.digest();
        next.old_runtime_approval_digest = Digest::ZERO;
        next.effective_at = now;
        next.expires_at_optional = self.expires_at;
        next.allowed_autonomy_modes = read::<Mode>(&self.allowed_autonomy_modes)?;
        next.human_approvals_required = self.human_approvals_required;
        next.independence_spec.quorum_threshold = self.quorum_threshold;
        next.independence_spec.minimum_failure_domains = self.minimum_failure_domains;
        next.quorum_signature_required = self.quorum_signature_required;
        next.webauthn_rp_id = text(&self.webauthn_rp_id)?;
        next.webauthn_origins = texts(&self.webauthn_origins)?;
        next.objectives_non_goals = texts(&self.objectives_non_goals)?;
        next.amendment_rules = texts(&self.amendment_rules)?;
        let clauses = self.policy_clauses.iter().map(Clause::read);
        next.policy_clauses = clauses.collect::<Result<_, _>>()?;
        Ok(next)
    }
}

impl Clause {
    fn of(clause: &PolicyClauseV1) -> Clause {
        let scopes = clause.resource_environment_scope.iter();
        Clause {
            name: clause.clause_id.to_string(),
            actions: words(&clause.action_classes),
            risks: words(&clause.risk_domains),
            resources: scopes
                .map(|it| format!("{}:{}", it.repository, it.ref_prefix))
                .collect(),
            required_gates: words(&clause.required_gates),
            runners: clause.runners.iter().map(|it| hex::encode(it.0)).collect(),
        }
    }

    fn read(&self) -> Result<PolicyClauseV1, String> {
        let scopes = self.resources.iter().map(|it| parse::scope(it));
        let runners = self.runners.iter().map(|it| parse::public_key(it));
        Ok(PolicyClauseV1 {
            clause_id: self
                .name
                .parse()
                .map_err(|error| about(&self.name, &error))?,
            action_classes: read::<ActionClass>(&self.actions)?,
            risk_domains: read::<RiskClass>(&self.risks)?,
            resource_environment_scope: scopes.collect::<Result<Vec<ResourceScope>, _>>()?,
            required_gates: read::<Name>(&self.required_gates)?,
            runners: runners.collect::<Result<Vec<PublicKey>, _>>()?,
        })
    }
}

fn words<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

fn read<T: std::str::FromStr>(words: &[String]) -> Result<Vec<T>, String>
where
    T::Err: std::fmt::Display,
{
    let one = |word: &String| word.parse().map_err(|error| about(word, &error));
    words.iter().map(one).collect()
}

fn text(value: &str) -> Result<Text, String> {
    Text::new(value).map_err(|error| about(value, &error))
}

fn texts(values: &[String]) -> Result<Vec<Text>, String> {
    values.iter().map(|it| text(it)).collect()
}

fn about(value: &str, error: &dyn std::fmt::Display) -> String {
    format!("{value:?}: {error}")
}

#[cfg(test)]
mod tests {
    use redlatch_link::file::Access;

    use super::*;
    use crate::init;

    fn current() -> ConstitutionV1 {
        let place = tempfile::tempdir().expect("a folder");
        let made = init::make_for_tests(&place.path().join("organism"));
        made.constitution
    }

    #[test]
    fn what_is_printed_and_read_again_unchanged_is_the_next_epoch_of_the_same_rules() {
        let current = current();
        let place = tempfile::tempdir().expect("a folder");
        let file = place.path().join("constitution.toml");
        let printed = config::print(&Edited::of(&current)).expect("printed");
        file::create_file(&file, printed.as_bytes(), Access::Public).expect("written");
        let next = edited(&file, &current, 7).expect("read");
        assert_eq!(next.constitution_epoch, current.constitution_epoch.next());
        assert_eq!(next.previous_constitution_digest, current.digest());
        assert_eq!(Edited::of(&next), Edited::of(&current));
    }

    #[test]
    fn a_clause_survives_and_a_word_that_is_not_known_names_the_known_ones() {
        let current = current();
        let mut edited = Edited::of(&current);
        edited.policy_clauses.push(Clause {
            name: "tested".into(),
            actions: vec!["land".into()],
            risks: vec!["low".into()],
            resources: vec!["demo:refs/heads/".into()],
            required_gates: vec!["tests".into()],
            runners: vec!["11".repeat(32)],
        });
        let next = edited.apply(&current, 0).expect("read");
        assert_eq!(Edited::of(&next).policy_clauses, edited.policy_clauses);
        edited.policy_clauses[0].actions = vec!["fly".into()];
        let fault = edited.apply(&current, 0).expect_err("unknown");
        assert!(
            fault.contains("\"fly\"") && fault.contains("land"),
            "{fault}"
        );
    }
}
