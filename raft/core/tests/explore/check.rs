//! The runs: the small bounds always, the full ones on request, and bugs that must be found.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redlatch_journal::planted::Bug;
use stateright::report::{ReportData, ReportDiscovery, Reporter};
use stateright::{Checker, HasDiscoveries, Model, Path};

use super::model::{Action, Exploration, Node};
use super::rules::Rule;
use super::scenario::{self, FULL, SMALL, Scenario, WIDE};
use super::shape::Shape;

/// Broken rules, each with the steps that lead there.
type Broken = BTreeMap<&'static str, String>;

/// Explores everything, or up to the first broken rule. One thread finds a shortest path.
fn explore(scenario: &Scenario, bug: Option<Bug>, threads: usize) -> Broken {
    let began = Instant::now();
    let checker = Exploration::new(*scenario, bug)
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .threads(threads)
        .spawn_bfs();
    let checker = match threads {
        1 => checker.join(),
        _ => checker.join_and_report(&mut Progress { began }),
    };
    checker.model().search_is_over();
    let broken: Broken = checker
        .discoveries()
        .into_iter()
        .map(|(name, path)| (name, story(path)))
        .collect();
    if bug.is_none() {
        let model = checker.model();
        println!(
            "explored: {}\n  {} unique states, {} steps between them, depth {}, {} commands decided, {:.1?}",
            scenario.name,
            checker.unique_state_count(),
            checker.state_count(),
            checker.max_depth(),
            model.decided.load(Ordering::Relaxed),
            began.elapsed(),
        );
        let unseen: Vec<&str> = model.unseen().iter().map(|s| s.text()).collect();
        assert!(
            unseen.is_empty() || !broken.is_empty(),
            "{}: never {unseen:?}",
            scenario.name
        );
    }
    broken
}

/// A path as a list of steps, each with what was answered.
fn story(path: Path<Node, Action>) -> String {
    let actions = path.into_actions();
    let width = actions.iter().map(|a| a.step.to_string().len()).max();
    let lines = actions.iter().enumerate().map(|(i, action)| {
        let step = action.step.to_string();
        let width = width.unwrap_or(0);
        format!("  {:>2}. {step:width$}  {}", i + 1, action.reply)
    });
    lines.collect::<Vec<String>>().join("\n")
}

/// Says how far it came, once in a while.
struct Progress {
    began: Instant,
}

impl Reporter<Exploration> for Progress {
    fn report_checking(&mut self, data: ReportData) {
        if !data.done {
            println!(
                "  {:>5.0} s  {} unique states, {} steps between them, depth {}",
                self.began.elapsed().as_secs_f64(),
                data.unique_states,
                data.total_states,
                data.max_depth
            );
        }
    }
    fn report_discoveries(
        &mut self,
        _: &Exploration,
        _: BTreeMap<&'static str, ReportDiscovery<Exploration>>,
    ) {
    }
    fn delay(&self) -> Duration {
        Duration::from_secs(10)
    }
}

/// The ordinary tests play the small scenarios. `EXPLORE=full` (`make explore`) and `EXPLORE=wide`
/// play larger ones on two threads.
#[test]
fn every_order_of_every_scenario_keeps_every_rule() {
    let bounds = std::env::var("EXPLORE").unwrap_or_else(|_| "small".to_owned());
    let (scenarios, threads) = match bounds.as_str() {
        "small" => (SMALL, 1),
        "full" => (FULL, 2),
        "wide" => (WIDE, 2),
        other => panic!("EXPLORE={other}: small, full or wide"),
    };
    for scenario in scenarios {
        let broken = explore(scenario, None, threads);
        let stories: Vec<String> = broken
            .iter()
            .map(|(r, s)| format!("broken: {r}\n{s}"))
            .collect();
        assert!(
            broken.is_empty(),
            "{}\n{}",
            scenario.name,
            stories.join("\n")
        );
    }
}

/// Each planted bug, the scenario in which it shows, and the rule that it breaks first.
const FOUND: &[(Bug, Scenario, Rule)] = &[
    (Bug::LatchUnseen, scenario::RESETS, Rule::I15),
    (Bug::FreezeUnseen, scenario::CHANGE, Rule::I14),
    (Bug::EpochUnfenced, scenario::CHANGE, Rule::I14),
    (Bug::SubjectUnfenced, scenario::CHANGE, Rule::I15),
    (
        Bug::StepsShareAnEntry,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::OneStep,
    ),
    (
        Bug::ReservationIgnored,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::Reserved,
    ),
    (
        Bug::StaleHeadAccepted,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::I27,
    ),
    (
        Bug::GreenUnchecked,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::I22,
    ),
    (Bug::DecidedTwice, scenario::LANDINGS_ON_ONE_REF, Rule::I33),
    (
        Bug::AbortForNoReason,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::Ended,
    ),
    (
        Bug::ClaimedAfterItsTime,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::Executor,
    ),
    (
        Bug::MandateUnchecked,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::I31,
    ),
    (
        Bug::AnybodyActuates,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::L2,
    ),
    (
        Bug::RedLatchedAgain,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::I32,
    ),
    (Bug::ActivationUnfenced, scenario::CHANGE, Rule::I34),
    (Bug::ResetForgetsGrounds, scenario::RESETS, Rule::I14),
    (Bug::ResetKeepsTiers, scenario::RESETS, Rule::Whole),
    (
        Bug::AnyCapabilityPrepares,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::I2,
    ),
    (
        Bug::PreparedIsEnough,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::I14,
    ),
    (
        Bug::VerdictBeforeTheFreeze,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::I22,
    ),
    (
        Bug::AttemptNeverDies,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::I35,
    ),
    (
        Bug::LatchHasTwoStops,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::I36,
    ),
    (
        Bug::AttemptSpentTwice,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::Refused,
    ),
    (
        Bug::EpochNotPublished,
        scenario::LANDINGS_ON_ONE_REF,
        Rule::Epochs,
    ),
    (Bug::GapStopsItsScopeOnly, scenario::RESETS, Rule::I32),
    (Bug::ActivatedAfterItsTime, scenario::CHANGE, Rule::Executor),
];

#[test]
fn the_exploration_finds_planted_bugs_and_says_which_rule_they_break() {
    let mut wrong = Vec::new();
    for (bug, scenario, rule) in FOUND {
        let broken = explore(scenario, Some(*bug), 1);
        for (rule, story) in &broken {
            println!("{} breaks: {rule}\n{story}", bug.name());
        }
        if !broken.contains_key(rule.text()) {
            wrong.push((bug.name(), rule.text(), broken));
        }
    }
    assert!(wrong.is_empty(), "not found: {wrong:#?}");
}

/// States that are looked at one by one, without merging any.
const LOOKED_AT: usize = 2_500;

/// What is merged may be merged: states of one shape have the same effective steps, and those
/// lead to states of the same shapes. Looked at in every small scenario, on states that differ.
#[test]
fn equal_shapes_have_equal_futures() {
    for scenario in SMALL {
        let model = Exploration::new(*scenario, None);
        let mut futures: HashMap<Shape, BTreeSet<(String, Shape)>> = HashMap::new();
        let mut merged = 0;
        let mut waiting: VecDeque<Node> = model.init_states().into();
        let mut known: HashSet<u64> = HashSet::new();
        let mut looked_at = 0;
        while let Some(node) = waiting.pop_front() {
            if looked_at == LOOKED_AT {
                break;
            }
            looked_at += 1;
            let steps = model.successors(&node);
            let future = steps
                .iter()
                .map(|a| (a.step.to_string(), a.next.shape()))
                .collect();
            match futures.get(&node.shape()) {
                None => {
                    futures.insert(node.shape(), future);
                }
                Some(other) => {
                    merged += 1;
                    let differ: Vec<_> = other.symmetric_difference(&future).collect();
                    assert!(differ.is_empty(), "{}: {differ:?}", scenario.name);
                }
            }
            for action in steps {
                if known.insert(action.next.identity()) {
                    waiting.push_back(action.next);
                }
            }
        }
        assert!(
            merged * 4 > looked_at,
            "{}: {merged} of {looked_at}",
            scenario.name
        );
    }
}
