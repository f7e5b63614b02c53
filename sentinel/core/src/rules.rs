//! Rules: what the sentinel asks of an intent before it says GREEN (DESIGN §5.3).
//!
//! ```text
//!   intent, evidence held, times, use ──▶ limits ────▶ satisfied · withholds · cannot judge
//!                                    └──▶ tripwires ──▶ silent    · trips (RED)
//! ```
//!
//! A [`Limit`] can only withhold, a [`Tripwire`] can only call RED: what merely fails to
//! convince never stops anybody, and what is harmful is never merely withheld. Lists that are
//! empty allow nothing (M1-I8), and a tripwire without conditions never trips.
//!
//! Rules know no clock: every time is state time from a proof (D7). They remember nothing;
//! what was judged before comes in as [`Use`].

use std::collections::BTreeSet;

use redlatch_types::limits::INTENT_TTL_MS_MAX;
use redlatch_types::mandate::NegativeVerb;
use redlatch_types::records::{
    ActionClass, RedScope, ResourceScope, RiskClass, SovereignActionIntentV1, Text, Tier,
};
use redlatch_types::{AutonomyEpoch, ConstitutionEpoch, Digest, IntentDigest, Name, SubjectId};

use crate::outbox::RedRequest;

/// The rules of one sentinel, from its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Only withhold.
    pub limits: Vec<Limit>,
    /// Only call RED.
    pub tripwires: Vec<Tripwire>,
    /// How old a freeze proof may be against the highest state time that the sentinel knows,
    /// milliseconds.
    pub proof_age_ms_max: u64,
}

/// A rule that withholds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// The resource must be in one of these.
    Allowed(Vec<ResourceScope>),
    /// The resource must be in none of these.
    Forbidden(Vec<ResourceScope>),
    /// At least so many digests of evidence are named, and all of them are held.
    Evidence(usize),
    /// One subject freezes at most so many intents within the window.
    Rate(Quota),
    /// One subject is given at most so many intents a GREEN within the window.
    Budget(Quota),
    /// The risk is at most this.
    Risk(RiskClass),
}

/// A number of intents within a window of state time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// How many, the one being judged included.
    pub intents_max: usize,
    /// Milliseconds of state time, at most [`INTENT_TTL_MS_MAX`].
    pub window_ms: u64,
}

/// A combination that must not be: it calls RED.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tripwire {
    /// Name in findings.
    pub name: Name,
    /// All of them must hold.
    pub when: Vec<Condition>,
    /// What is stopped.
    pub scope: TripScope,
    /// What is asked for beside freeze and fence. [`NegativeVerb::Rollback`] asks for the plan
    /// bound in the intent.
    pub verbs: Vec<NegativeVerb>,
}

/// One part of a forbidden combination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The resource is in this.
    Resource(ResourceScope),
    /// The action is this.
    Action(ActionClass),
    /// The risk is this or higher.
    RiskAtLeast(RiskClass),
    /// The tier is this or higher.
    TierAtLeast(Tier),
    /// The subject has a role in it.
    Involves(SubjectId),
    /// No evidence is named.
    WithoutEvidence,
    /// One subject froze more intents than this within the window.
    MoreThan(Quota),
}

/// What a tripwire stops, relative to the intent that trips it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TripScope {
    /// The intent, and by the mandate its proposer.
    Intent,
    /// Its mission; its proposer if it has none.
    Mission,
    /// Its proposer.
    Proposer,
    /// Its class of actions.
    ActionClass,
    /// Everything.
    Everything,
}

/// The governance that the sentinel knows to be in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epochs {
    /// Constitution version.
    pub constitution: ConstitutionEpoch,
    /// Autonomy epoch.
    pub autonomy: AutonomyEpoch,
}

/// Intents of one subject before this one: state times of their freezes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Use {
    /// Of those that were judged at all.
    pub judged: Vec<u64>,
    /// Of those that were given a GREEN.
    pub green: Vec<u64>,
}

/// What is known when an intent is judged.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The frozen intent.
    pub intent: &'a SovereignActionIntentV1,
    /// State time of the freeze.
    pub frozen_at: u64,
    /// State time at which windows end: that of the freeze, or of now where a rule is asked again.
    pub window_end: u64,
    /// State time of the head under which the freeze is proven.
    pub proven_at: u64,
    /// Highest state time that the sentinel knows.
    pub now: u64,
    /// Governance in force.
    pub epochs: Epochs,
    /// Digests of the evidence whose bytes the sentinel holds and has hashed itself.
    pub evidence_held: &'a BTreeSet<Digest>,
    /// Use by the same proposer.
    pub used: &'a Use,
}

/// What one rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Nothing against it.
    Satisfied,
    /// What is needed to judge is missing or old: no verdict at all.
    CannotJudge,
    /// No permission.
    Withholds,
    /// Harm.
    Trips,
}

/// What one rule found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which rule.
    pub rule: Name,
    /// What it says.
    pub outcome: Outcome,
    /// Why, for people.
    pub text: Text,
}

/// A RED to be raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedCall {
    /// What is stopped.
    pub scope: RedScope,
    /// Beside freeze and fence, ascending.
    pub verbs: Vec<NegativeVerb>,
    /// The bound plan, if rollback is asked for.
    pub rollback_plan: Option<Digest>,
    /// The intent, where scope or plan refer to it.
    pub source: Option<IntentDigest>,
    /// Why, for people.
    pub reason: Text,
}

impl RedCall {
    /// The request to the outbox; the id is drawn by the shell, the time is state time.
    pub fn into_request(self, verdict_id: Digest, issued_at: u64) -> RedRequest {
        RedRequest {
            verdict_id,
            scope: self.scope,
            verbs: self.verbs,
            rollback_plan: self.rollback_plan,
            source: self.source,
            reason: self.reason,
            issued_at,
        }
    }
}

/// The verdict of all rules together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// No rule objects.
    Green,
    /// No verdict can be formed; the intent may be put again.
    CannotJudge(Text),
    /// At least one limit withholds; no tripwire trips.
    Withheld(Text),
    /// At least one tripwire trips.
    Red(Vec<RedCall>),
}

/// All findings and what follows from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// One per rule, in order of the configuration.
    pub findings: Vec<Finding>,
    /// What follows.
    pub conclusion: Conclusion,
}

impl Rules {
    /// Judges `case` by every rule.
    pub fn assess(&self, case: &Case<'_>) -> Assessment {
        let mut findings = vec![self.proof_is_fresh(case), is_current(case)];
        findings.extend(self.limits.iter().map(|limit| limit.judge(case)));
        let mut calls = Vec::new();
        for wire in &self.tripwires {
            let tripped = wire.trips(case);
            findings.push(wire.finding(tripped));
            if tripped {
                calls.push(wire.call(case.intent));
            }
        }
        let conclusion = conclude(&findings, calls);
        Assessment {
            findings,
            conclusion,
        }
    }

    /// A proof under an old head says nothing about today: the sentinel stays silent, because
    /// a WITHHELD is for good and an old proof is no fault of the intent.
    fn proof_is_fresh(&self, case: &Case<'_>) -> Finding {
        let age = case.now.saturating_sub(case.proven_at);
        let bound = self.proof_age_ms_max;
        if age > bound {
            let text = format!("the freeze proof is {age} ms old, at most {bound} are allowed");
            return finding("freeze-proof", Outcome::CannotJudge, &text);
        }
        if case.frozen_at > case.proven_at {
            let text = "the freeze is younger than the head that is to prove it";
            return finding("freeze-proof", Outcome::CannotJudge, text);
        }
        finding("freeze-proof", Outcome::Satisfied, "fresh")
    }
}

/// What follows when one more finding, of no rule of the configuration, is taken in. It cannot
/// make anything better.
pub(crate) fn weigh(conclusion: Conclusion, more: &Finding) -> Conclusion {
    match (conclusion, more.outcome) {
        (Conclusion::Green | Conclusion::CannotJudge(_), Outcome::Withholds | Outcome::Trips) => {
            Conclusion::Withheld(more.text.clone())
        }
        (Conclusion::Green, Outcome::CannotJudge) => Conclusion::CannotJudge(more.text.clone()),
        (conclusion, _) => conclusion,
    }
}

/// A RED outweighs a WITHHELD, a WITHHELD outweighs silence: what is certain is said.
fn conclude(findings: &[Finding], calls: Vec<RedCall>) -> Conclusion {
    let first = |outcome| findings.iter().find(|f| f.outcome == outcome);
    if !calls.is_empty() {
        Conclusion::Red(calls)
    } else if let Some(finding) = first(Outcome::Withholds) {
        Conclusion::Withheld(finding.text.clone())
    } else if let Some(finding) = first(Outcome::CannotJudge) {
        Conclusion::CannotJudge(finding.text.clone())
    } else {
        Conclusion::Green
    }
}

/// Whether the intent can never be carried out any more: expired, or fenced by an epoch.
fn is_over(case: &Case<'_>) -> bool {
    let (intent, epochs) = (case.intent, case.epochs);
    case.now >= intent.expires_at
        || intent.constitution_epoch < epochs.constitution
        || intent.autonomy_epoch < epochs.autonomy
}

/// Whether the intent can still become valid under the governance in force.
fn is_current(case: &Case<'_>) -> Finding {
    let intent = case.intent;
    let named = (intent.constitution_epoch, intent.autonomy_epoch);
    let known = (case.epochs.constitution, case.epochs.autonomy);
    let (outcome, text) = if case.now >= intent.expires_at {
        (Outcome::Withholds, "the intent has expired")
    } else if named.0 < known.0 || named.1 < known.1 {
        (Outcome::Withholds, "frozen under an epoch that is over")
    } else if named != known {
        (
            Outcome::CannotJudge,
            "frozen under an epoch that the sentinel does not know yet",
        )
    } else {
        (Outcome::Satisfied, "current")
    };
    finding("epochs", outcome, text)
}

impl Limit {
    fn judge(&self, case: &Case<'_>) -> Finding {
        let intent = case.intent;
        let (rule, objection) = match self {
            Limit::Allowed(scopes) => {
                let inside = scopes.iter().any(|s| is_in(s, intent));
                let text = || format!("{} is not in an allowed resource", aim(intent));
                ("allowed-resources", (!inside).then(text))
            }
            Limit::Forbidden(scopes) => {
                let inside = scopes.iter().any(|s| is_in(s, intent));
                let text = || format!("{} is in a forbidden resource", aim(intent));
                ("forbidden-resources", inside.then(text))
            }
            Limit::Evidence(at_least) => ("evidence", evidence_missing(case, *at_least)),
            Limit::Rate(quota) => ("rate", quota.exceeded("frozen", &case.used.judged, case)),
            Limit::Budget(quota) => {
                let text = quota.exceeded("given GREEN", &case.used.green, case);
                ("budget", text)
            }
            Limit::Risk(highest) => {
                let text = || format!("risk {} is above {highest}", intent.risk);
                ("risk", (intent.risk > *highest).then(text))
            }
        };
        match objection {
            Some(text) => finding(rule, Outcome::Withholds, &text),
            None => finding(rule, Outcome::Satisfied, "within bounds"),
        }
    }
}

fn evidence_missing(case: &Case<'_>, at_least: usize) -> Option<String> {
    let named: BTreeSet<_> = case.intent.evidence.iter().collect();
    if named.len() < at_least {
        let found = named.len();
        return Some(format!("{found} pieces of evidence, {at_least} are needed"));
    }
    let missing = named
        .into_iter()
        .find(|d| !case.evidence_held.contains(d))?;
    Some(format!("evidence {missing} is not held"))
}

impl Quota {
    fn is_exceeded(&self, earlier: &[u64], case: &Case<'_>) -> bool {
        let window = self.window_ms.min(INTENT_TTL_MS_MAX);
        let start = case.window_end.saturating_sub(window);
        let all = earlier.iter().chain([&case.frozen_at]);
        // The one that is judged is counted always; asked again later, it may have left the window.
        let within = all.filter(|at| **at > start || **at == case.window_end);
        within.count() > self.intents_max
    }

    fn exceeded(&self, what: &str, earlier: &[u64], case: &Case<'_>) -> Option<String> {
        let subject = &case.intent.proposer_subject_id;
        let Quota {
            intents_max,
            window_ms,
        } = self;
        self.is_exceeded(earlier, case).then(|| {
            format!("{subject} has more than {intents_max} intents {what} in {window_ms} ms")
        })
    }
}

impl Tripwire {
    fn trips(&self, case: &Case<'_>) -> bool {
        !self.when.is_empty() && self.when.iter().all(|c| c.holds(case))
    }

    /// Whether the input that tripped it is still out of bounds: asked about the same intent
    /// now. A subject's rate counts as long as the window holds it; any other combination is
    /// over with its intent.
    pub(crate) fn still_trips(&self, case: &Case<'_>) -> bool {
        let looks_back = self.windows().next().is_some();
        (looks_back || !is_over(case)) && self.trips(case)
    }

    /// Windows that its conditions look back.
    pub(crate) fn windows(&self) -> impl Iterator<Item = u64> {
        self.when.iter().filter_map(|c| match c {
            Condition::MoreThan(quota) => Some(quota.window_ms),
            _ => None,
        })
    }

    fn finding(&self, tripped: bool) -> Finding {
        let (outcome, text) = if tripped {
            (Outcome::Trips, "the forbidden combination is there")
        } else {
            (Outcome::Satisfied, "not met")
        };
        Finding {
            rule: self.name.clone(),
            outcome,
            text: Text::lossy(text),
        }
    }

    pub(crate) fn call(&self, intent: &SovereignActionIntentV1) -> RedCall {
        let mut verbs = self.verbs.clone();
        verbs.sort();
        verbs.dedup();
        let rollback = verbs.contains(&NegativeVerb::Rollback);
        let refers = rollback || self.scope == TripScope::Intent;
        RedCall {
            scope: self.scope.of(intent),
            source: refers.then(|| intent.digest()),
            rollback_plan: rollback.then(|| intent.rollback.digest(&intent.payload)),
            verbs,
            reason: Text::lossy(&format!("tripwire {}: {}", self.name, aim(intent))),
        }
    }
}

impl Condition {
    fn holds(&self, case: &Case<'_>) -> bool {
        let intent = case.intent;
        match self {
            Condition::Resource(scope) => is_in(scope, intent),
            Condition::Action(class) => intent.action == *class,
            Condition::RiskAtLeast(risk) => intent.risk >= *risk,
            Condition::TierAtLeast(tier) => intent.tier >= *tier,
            Condition::Involves(subject) => intent.involves(subject),
            Condition::WithoutEvidence => intent.evidence.is_empty(),
            Condition::MoreThan(quota) => quota.is_exceeded(&case.used.judged, case),
        }
    }
}

impl TripScope {
    fn of(self, intent: &SovereignActionIntentV1) -> RedScope {
        let proposer = RedScope::Subject(intent.proposer_subject_id.clone());
        match self {
            TripScope::Intent => RedScope::Intent(intent.digest()),
            TripScope::Mission => intent
                .mission_id_optional
                .clone()
                .map_or(proposer, RedScope::Mission),
            TripScope::Proposer => proposer,
            TripScope::ActionClass => RedScope::ActionClass(intent.action),
            TripScope::Everything => RedScope::Everything,
        }
    }
}

/// Whether the intent's resource is in `scope`; an empty prefix matches nothing (M1-I8).
fn is_in(scope: &ResourceScope, intent: &SovereignActionIntentV1) -> bool {
    intent.payload.resource().covered_by(scope)
}

fn aim(intent: &SovereignActionIntentV1) -> String {
    let resource = intent.payload.resource();
    format!(
        "{} on {} in {}",
        intent.action,
        resource.path(),
        resource.realm()
    )
}

pub(crate) fn finding(rule: &str, outcome: Outcome, text: &str) -> Finding {
    Finding {
        rule: Name::new(rule).expect("the rules of this file have good names"),
        outcome,
        text: Text::lossy(text),
    }
}
