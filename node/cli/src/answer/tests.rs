//! Every answer, with every kind of value: it reads back as it was written, and no integer of 64 bits is a number.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::*;

/// Random answers of each type.
const SEEDS: u64 = 300;
/// Where readers begin to round, and where integers end.
const EDGES: [u64; 6] = [
    0,
    (1 << 53) - 1,
    1 << 53,
    (1 << 53) + 1,
    u64::MAX - 1,
    u64::MAX,
];
/// Fields that are JSON integers: lengths of lists, exit codes, process ids, options of the benchmark.
const COUNTS: [&str; 10] = [
    "clients",
    "exit_code",
    "nodes",
    "open",
    "pid",
    "readings",
    "seconds",
    "verifiers",
    "votes",
    "warmup_seconds",
];
const TEXTS: [&str; 8] = [
    "",
    "refs/heads/main",
    "9007199254740993",
    "null",
    "\"quoted\" \\ and\u{7}\n",
    "é\u{1f512}\u{2028}",
    "-0",
    "unknown to this build",
];

/// Looks at each type of answer.
pub(super) trait Visitor {
    fn visit<T: Answer + Sample + DeserializeOwned + PartialEq + Debug>(&mut self, name: &str);
}

/// Where values come from.
pub(super) struct Samples {
    random: ChaCha8Rng,
    /// What every integer of 64 bits is; random if none.
    number: Option<u64>,
    /// Texts of the integers that were given out.
    given: Vec<String>,
}

impl Samples {
    fn of_seed(seed: u64) -> Samples {
        Samples {
            random: ChaCha8Rng::seed_from_u64(seed),
            number: None,
            given: Vec::new(),
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.random.next_u32()).expect("a wide machine") % limit
    }

    fn number(&mut self) -> u64 {
        let number = self.number.unwrap_or_else(|| match self.below(3) {
            0 => EDGES[self.below(EDGES.len())],
            1 => self.random.next_u32().into(),
            _ => self.random.next_u64(),
        });
        self.given.push(number.to_string());
        number
    }
}

/// A type that samples can be made of.
pub(super) trait Sample: Sized {
    fn sample(from: &mut Samples) -> Self;
}

impl Sample for Decimal {
    fn sample(from: &mut Samples) -> Self {
        Decimal(from.number())
    }
}

impl Sample for Decimal<i64> {
    fn sample(from: &mut Samples) -> Self {
        let number = from.number().cast_signed();
        from.given.pop();
        from.given.push(number.to_string());
        Decimal(number)
    }
}

impl Sample for bool {
    fn sample(from: &mut Samples) -> Self {
        from.below(2) == 1
    }
}

impl Sample for u16 {
    fn sample(from: &mut Samples) -> Self {
        u16::try_from(from.below(1 << 16)).expect("below")
    }
}

impl Sample for u32 {
    fn sample(from: &mut Samples) -> Self {
        match from.below(8) {
            0 => u32::MAX,
            _ => from.random.next_u32(),
        }
    }
}

impl Sample for f64 {
    fn sample(from: &mut Samples) -> Self {
        f64::from(from.random.next_u32()) / 8.0
    }
}

impl Sample for String {
    fn sample(from: &mut Samples) -> Self {
        TEXTS[from.below(TEXTS.len())].to_owned()
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(from: &mut Samples) -> Self {
        (from.below(3) > 0).then(|| T::sample(from))
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(from: &mut Samples) -> Self {
        (0..from.below(4)).map(|_| T::sample(from)).collect()
    }
}

impl Sample for BTreeSet<String> {
    fn sample(from: &mut Samples) -> Self {
        Vec::sample(from).into_iter().collect()
    }
}

impl<T: Sample> Sample for BTreeMap<String, T> {
    fn sample(from: &mut Samples) -> Self {
        let keys = ["api", "diagnostics", "limit"];
        let keys = keys.iter().take(from.below(4));
        keys.map(|key| ((*key).to_owned(), T::sample(from)))
            .collect()
    }
}

impl<T: Sample> Sample for View<T> {
    fn sample(from: &mut Samples) -> Self {
        match from.below(3) {
            0 => View::Silent {
                error: Sample::sample(from),
            },
            _ => View::Seen(T::sample(from)),
        }
    }
}

/// A structure of samples; a field that is not named here does not compile.
macro_rules! structures {
    ($($name:ident { $($field:ident),* })*) => {
        $(impl Sample for $name {
            fn sample(from: &mut Samples) -> Self {
                $name { $($field: Sample::sample(from)),* }
            }
        })*
    };
}

/// Any variant, made of samples; one that is not named here does not compile.
macro_rules! variants {
    ($name:ident: $($variant:ident { $($field:ident),* })*) => {
        impl $name {
            fn makers() -> Vec<fn(&mut Samples) -> $name> {
                fn _exhaustive(it: &$name) {
                    match it { $($name::$variant { .. } => {})* }
                }
                vec![$(|_from| $name::$variant { $($field: Sample::sample(_from)),* }),*]
            }
        }

        impl Sample for $name {
            fn sample(from: &mut Samples) -> Self {
                let makers = Self::makers();
                makers[from.below(makers.len())](from)
            }
        }
    };
}

structures! {
    Attested { verdict, findings, exit_code, digest, receipt, log, log_digest }
    Bench {
        clients, seconds, warmup_seconds, appends, appends_per_second, p50_ms, p90_ms, p99_ms, max_ms, errors
    }
    Decision { stage, sentinel, votes, refusal, over, notes }
    Finding { evaluator, verdict, sentences }
    Hold { held, sentinel, seen_outbox_epoch }
    Installed { installed }
    Invalid { valid, reason }
    Landed {
        intent, transaction, marker, position, repository, r#ref, old, new, outcome, outcome_position
    }
    Latch { latch, outbox_epoch, scopes, reason, latched_at, terminal_at, acknowledged_at }
    Leaf { position, told }
    Made { folder, organism, origin, development }
    Node {
        name, address, unreachable, role, standing, membership, leader, term, last_log, applied, tree_size,
        cosigned_size, state_time_ms, clock_skew_ms, clock_fit, held_reds, degraded, build_id, state_digest,
        state_digest_size
    }
    NewNode { node, number, config }
    OpenClaims { open }
    Outbox { head, health, open }
    OutboxEntry { outbox_epoch, scope, reason, progress, latch }
    PolicyUpdated { policy, roster_epoch, changed, nodes, witnesses, added, removed }
    Post { subject, repository }
    Process { name, role, pid, log, listen }
    Proof { receipt }
    Raised { outbox_epoch, order_id, scope }
    Returned { node, number, seat, roster_epoch }
    Running { ready, folder, nodes, parties }
    Sentinel { verdict, reason }
    Shown { intent, leaves, decision }
    Status {
        organism, organism_name, development, state, mode, autonomy_epoch, quorum_key_epoch, roster_epoch,
        constitution_epoch, feature_level, live_intents, live_transactions, stops, nodes
    }
    Stop { outbox, latches, hold }
    Submitted { result, intent, event_id, position, term, index }
    Proposed { intent, decided_by, event_id }
    Approved { intent, approver, challenge, stage, position }
    Drawn { person, key, authenticator, record }
    Claimed { intent, history, marker, effect_key, resource, old, new }
    Reported { transaction, outcome }
    Level { feature_level }
    NewKey { public_key, file }
    KeyStatus { quorum_key_epoch, confirmed, roster_epoch, verifiers }
    SeatedVerifier { verifier, seat, domain, vote_key }
    Governed {
        mode, autonomy_epoch, constitution_epoch, roster_epoch, persons_required, nodes, subjects, grants, human_keys,
        grounds
    }
    GovernedNode { node, number, seat }
    GovernedSubject { subject, kind, scopes, person, revoked }
    GovernedGrant { grant, subject, tier, mode, actions, budget, committed, expires_at }
    GovernedKey { key, person, class, revoked }
    GovernedGround { ground, cause }
    Acted { act, kernel }
    Drafted { act, file }
    Signed { act, by, file }
    Valid { valid, proves, origin, position, tree_size, root, seen_at, group, told }
    Vote { verifier, failure_domain, state, verdict, refusal, findings_digest, findings }
}

variants! { State: Green {} Stopped {} Unavailable {} }

variants! {
    Told:
    Bootstrapped { organism, organism_name, kind, nodes, verifiers }
    Ticked { tick, state_time, readings }
    QuorumKeyActivated { key_epoch, group_key, public_key_package }
    Frozen {
        intent, frozen_at, caller, executor, action, variant, resource, repository, r#ref, old, new, event_id,
        expires_at
    }
    Authorized { intent, capability, label, votes }
    Prepared { transaction, intent }
    Committed { marker, transaction, intent, committed_at, effect_deadline }
    Aborted { transaction, intent, reason }
    Withdrawn { intent, caller, event_id }
    EffectClaimed { transaction, marker, effect_key }
    EffectReported { transaction, outcome, head }
    EffectWithheld { transaction, marker }
    RedLatched { latch, outbox_epoch, chain, latched_at, ground }
    RedChained { outbox_epoch, root }
    GrantRevoked { grant }
    GrantDemoted { grant, becomes }
    SafetyIntentStored {}
    SafetyPrepared { transaction }
    LatchCommitting { latch, transaction }
    SafetyCommitted { marker, transaction }
    EpochPublished { autonomy_epoch, mode }
    SafetyTerminal { latch, transaction }
    OutboxAcknowledged { latch }
    Refused { subject, code, command }
    StateRoot { authority, term, index, size }
    ChallengeIssued { challenge, intent, approver }
    Activated { transaction, marker, autonomy_epoch }
    ConstitutionAmended { constitution_epoch, constitution }
    GrantGiven { grant, replaces }
    SubjectChanged { subject, revoked }
    HumanKeyChanged { key, subject, revoked }
    RosterChanged { roster_epoch }
    NodeRejoined { roster_epoch }
    QuorumKeyVoided { key_epoch }
    GroundsReset { grounds }
    RootActed { act, ground }
    FeatureLevelRaised { feature_level }
    EffectResolved { transaction, outcome, head }
    Unknown {}
}

/// Writes many answers of each type, random ones and ones whose every number is an edge, and looks at the text.
struct EveryAnswer<F>(F);

impl<F: FnMut(&str, &Value, &Samples)> Visitor for EveryAnswer<F> {
    fn visit<T: Answer + Sample + DeserializeOwned + PartialEq + Debug>(&mut self, name: &str) {
        let random = (0..SEEDS).map(|seed| (seed, None));
        let edges = EDGES
            .iter()
            .flat_map(|edge| (0..30).map(|seed| (seed, Some(*edge))));
        for (seed, number) in random.chain(edges) {
            let mut samples = Samples {
                number,
                ..Samples::of_seed(seed)
            };
            let answer = T::sample(&mut samples);
            let text = crate::output::json(&answer);
            let read: T = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{name}, seed {seed}: {error} in {text}"));
            assert_eq!(read, answer, "{name}, seed {seed}: {text}");
            let value = serde_json::from_str(&text).expect("JSON");
            self.0(name, &value, &samples);
        }
    }
}

/// Every integer of a value, with the name that it stands under.
fn integers<'a>(under: &'a str, value: &'a Value, found: &mut Vec<(&'a str, u64)>) {
    match value {
        Value::Number(number) => {
            assert!(!number.is_i64() || number.is_u64(), "{under} is {number}");
            found.extend(number.as_u64().map(|it| (under, it)));
        }
        Value::Array(items) => items.iter().for_each(|it| integers(under, it, found)),
        Value::Object(fields) => {
            fields
                .iter()
                .for_each(|(name, it)| integers(name, it, found));
        }
        _ => {}
    }
}

/// Texts of a value, but not the names of its fields.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|it| texts(it, found)),
        Value::Object(fields) => fields.values().for_each(|it| texts(it, found)),
        _ => {}
    }
}

#[test]
fn fault_050_every_answer_reads_back_as_it_was_written() {
    let mut seen = BTreeSet::new();
    visit_all(&mut EveryAnswer(|name: &str, _: &Value, _: &Samples| {
        seen.insert(name.to_owned());
    }));
    assert_eq!(seen.len(), 32, "{seen:?}");
}

#[test]
fn fault_050_an_integer_of_the_journal_is_text_whatever_its_value() {
    let mut counted = BTreeSet::new();
    visit_all(&mut EveryAnswer(
        |name: &str, value: &Value, samples: &Samples| {
            let mut numbers = Vec::new();
            integers("", value, &mut numbers);
            for (under, number) in numbers {
                assert!(
                    COUNTS.contains(&under),
                    "{name} has an integer {under}: {value}"
                );
                assert!(
                    u32::try_from(number).is_ok(),
                    "{name} has {under}: {number}"
                );
                counted.insert(under.to_owned());
            }
            let mut written = Vec::new();
            texts(value, &mut written);
            for given in &samples.given {
                let at = written.iter().position(|it| it == given);
                let at = at.unwrap_or_else(|| panic!("{name} has {given} not as text: {value}"));
                written.swap_remove(at);
            }
        },
    ));
    let counts = COUNTS.iter().map(|it| (*it).to_owned());
    assert_eq!(counted, counts.collect(), "COUNTS names what there is");
}

#[test]
fn only_decimal_text_is_read_as_an_integer() {
    let read = |text: &str| serde_json::from_str::<Decimal>(text).ok();
    assert_eq!(read("\"18446744073709551615\""), Some(Decimal(u64::MAX)));
    assert_eq!(read("\"0\""), Some(Decimal(0)));
    let bad = [
        "7",
        "7.0",
        "null",
        "\"\"",
        "\"07\"",
        "\"+7\"",
        "\"-0\"",
        "\"7.0\"",
        "\" 7\"",
        "\"70e-1\"",
        "\"18446744073709551616\"",
    ];
    for text in bad {
        assert_eq!(read(text), None, "{text}");
    }
    let signed = |text: &str| serde_json::from_str::<Decimal<i64>>(text).ok();
    assert_eq!(signed("\"-9223372036854775808\""), Some(Decimal(i64::MIN)));
    assert_eq!(signed("-1"), None);
}

/// The words of the events whose bytes are frozen: all that there are.
#[test]
fn an_event_has_the_word_that_the_journal_gives_it() {
    let frozen = include_str!("../../../../raft/core/tests/frozen/leaves.txt");
    let words = frozen.lines().filter_map(|line| line.split(' ').next());
    let words = words.chain(["unknown to this build"]);
    let ours = Told::makers().into_iter().map(|make| {
        let told = make(&mut Samples::of_seed(1));
        let value = serde_json::to_value(told).expect("JSON");
        value["event"].as_str().expect("a word").to_owned()
    });
    assert_eq!(
        ours.collect::<BTreeSet<String>>(),
        words.map(str::to_owned).collect()
    );
}

#[test]
fn the_page_about_output_names_every_count() {
    let page = include_str!("../../../../docs/output.md");
    for name in COUNTS {
        assert!(
            page.contains(&format!("`{name}`")),
            "{name} is not in docs/output.md"
        );
    }
}
