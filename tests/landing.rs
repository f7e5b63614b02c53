//! Landings on nine real processes: the demo with all its assertions, and who must be there for a decision.

use redlatch_tests::cluster::PATIENCE;
use redlatch_tests::organism::Organism;
use redlatch_tests::process::{Answer, command};
use redlatch_tests::{StateFolder, binary, eventually, excerpt, repository};

const REFUSED: i32 = 3;
/// Longer than any decision takes, seconds.
const WAIT: u32 = 60;
/// Longer than a sentinel that runs is silent, seconds.
const SILENCE: u32 = 15;

fn demo(folder: &StateFolder, arguments: &[&str]) -> Answer {
    let mut demo = command(&binary("redlatch"));
    demo.env("TMPDIR", folder.path());
    Answer::of(demo.arg("demo").args(arguments))
}

/// Asserts that the words stand in the text, one after the other.
#[track_caller]
fn in_order(text: &str, words: &[&str]) {
    let mut rest = text;
    for word in words {
        let at = rest.find(word);
        let at = at.unwrap_or_else(|| panic!("no {word:?} where it belongs in:\n{text}"));
        rest = &rest[at + word.len()..];
    }
}

#[test]
fn the_demo_holds_from_the_refused_push_to_the_proven_stop() {
    let folder = StateFolder::new("demo");
    let answer = demo(&folder, &[]);
    assert_eq!(answer.code, Some(0), "{answer:#?}");
    let told = [
        "refused intent_missing",
        "FROZEN",
        "GREEN",
        "v4 REJECT",
        "at most 100 are allowed",
        "GROUP SIGNATURE",
        "PREPARE",
        "COMMIT",
        "push accepted",
        "the altered receipt is refused",
        "kill -9 n",
        "exactly one marker, in every node's journal",
        "HOLD",
        "LATCH",
        "epoch 2 to 3",
        "TERMINAL",
        "the branch did not move",
        "event            safety_terminal",
        "every assertion held",
    ];
    in_order(&answer.out, &told);
    let readme = std::fs::read_to_string(repository().join("README.md")).expect("readable");
    let shown = excerpt::block(&readme, "What the demo prints");
    assert!(shown.len() > 20, "the README shows the demo: {shown:?}");
    if let Some(departure) = excerpt::departure(&shown, &answer.out) {
        panic!(
            "README.md shows another demo:\n{departure}\n\n{}",
            answer.out
        );
    }
    // Nothing is kept that nobody asked for.
    let left = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(left, 0);
}

#[test]
fn two_stricter_verifiers_refuse_by_their_rule_and_their_findings_show_it() {
    let folder = StateFolder::new("strict");
    let answer = demo(&folder, &["--strict", "2"]);
    assert_eq!(answer.code, Some(0), "{answer:#?}");
    let told = [
        "v3 REJECT",
        "v3 git: file CHANGES has",
        "at most 100 are allowed",
        "v4 REJECT",
        "at most 100 are allowed",
        "refused insufficient_quorum",
        "every assertion held",
    ];
    in_order(&answer.out, &told);
}

#[test]
fn one_verifier_may_be_down_but_neither_two_nor_the_sentinel() {
    let mut organism = Organism::start("absent");
    organism.stop("v4");
    let first = organism.commit("first");
    let landed = organism.land(&first, WAIT);
    landed.says(0, &["3 votes opened"]);
    assert_eq!(landed.json()["outcome"], "done");
    assert_eq!(organism.head(), Some(first.clone()));

    organism.stop("v3");
    let second = organism.commit("second");
    organism
        .land(&second, WAIT)
        .says(REFUSED, &["refused insufficient_quorum"]);
    assert_eq!(organism.head(), Some(first.clone()));

    organism.start_again("v3");
    organism.stop("sentinel");
    organism
        .land(&second, SILENCE)
        .says(REFUSED, &["refused sentinel_required"]);
    assert_eq!(organism.head(), Some(first));

    // What was refused left nothing behind: the same commit lands once everybody who is needed is there.
    organism.start_again("sentinel");
    let landed = organism.land(&second, WAIT);
    landed.says(0, &["3 votes opened"]);
    assert_eq!(organism.head(), Some(second));

    every_process_shows_every_metric_of_its_page(&organism);
    landings_are_counted(&organism);
    a_stop_is_counted(&organism);
}

/// Names of the metrics below a heading of docs/metrics.md.
fn metrics_of(heading: &str) -> Vec<String> {
    let page = redlatch_tests::repository().join("docs/metrics.md");
    let page = std::fs::read_to_string(page).expect("readable");
    let section = page.split("\n## ").find(|it| it.starts_with(heading));
    let rows = section.expect("the heading").lines();
    let names = rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next());
    names.map(str::to_owned).collect()
}

fn every_process_shows_every_metric_of_its_page(organism: &Organism) {
    for (heading, process) in [
        ("Node", "n1"),
        ("Verifier", "v1"),
        ("Sentinel", "sentinel"),
        ("Actuator", "actuator"),
    ] {
        let (names, shown) = (metrics_of(heading), organism.metrics(process));
        assert!(names.len() >= 9, "{heading}: {names:?}");
        for name in names {
            assert!(
                shown.contains(&format!("# TYPE {name} ")),
                "{name} in {shown}"
            );
        }
    }
}

/// v1 took part in three ballots; two of them had a sheet of three seals, which it opened.
fn landings_are_counted(organism: &Organism) {
    let verifier = |series: &str| organism.number("v1", &format!("redlatch_verifier_{series}"));
    assert!(verifier("ballots_cast_total") >= 2.0);
    assert!(verifier("votes_total{verdict=\"APPROVE\"}") >= 2.0);
    assert_eq!(verifier("votes_total{verdict=\"REJECT\"}"), 0.0);
    let git = "evaluator=\"git\"";
    let approved = format!("findings_total{{{git},verdict=\"APPROVE\"}}");
    assert!(verifier(&approved) >= 2.0);
    assert!(verifier(&format!("evaluation_seconds_count{{{git}}}")) >= 2.0);
    let burned = verifier("burned_commitments_total");
    assert!(burned >= 6.0 && burned % 3.0 == 0.0, "{burned}");
    assert!(verifier("released_shares_total") >= 1.0);
    assert!(verifier("open_sessions_count") >= 2.0);
    assert_eq!(verifier("evaluating_intents_count"), 0.0);
    assert_eq!(verifier("key_epoch_number"), 1.0);
    assert_eq!(verifier("boot_generation_number"), 1.0);
    let again = organism.number("v3", "redlatch_verifier_boot_generation_number");
    assert_eq!(again, 2.0, "v3 was started twice");

    let sentinel = |series: &str| organism.number("sentinel", series);
    assert!(sentinel("redlatch_sentinel_verdicts_total{kind=\"GREEN\"}") >= 1.0);
    assert_eq!(sentinel("redlatch_sentinel_writer_generation_number"), 2.0);
    assert_eq!(sentinel("redlatch_sentinel_outbox_head_number"), 0.0);
    assert!(organism.number("actuator", "redlatch_actuator_permit_beats_total") >= 1.0);
}

fn a_stop_is_counted(organism: &Organism) {
    let raise = [
        "red",
        "raise",
        "--scope",
        "subject:agent",
        "--reason",
        "counted",
    ];
    // The sentinel takes orders of operators: anybody else is turned away in the handshake, and told so.
    let turned_away = organism.tool_disguised("clients/agent", &raise);
    let why = "its organism, role or key is not admitted there";
    turned_away.says(
        REFUSED,
        &["sentinel/sentinel at", why, "hint: use a certificate"],
    );
    let sentinel = |series: &str| organism.number("sentinel", series);
    assert_eq!(
        sentinel("redlatch_sentinel_reds_total{cause=\"order\"}"),
        0.0
    );

    let raised = organism.tool(&raise);
    assert_eq!(raised.code, Some(0), "{raised:#?}");
    let actuator = |series: &str| organism.number("actuator", series);
    eventually("the stop is complete", PATIENCE, || {
        let ended = actuator("redlatch_actuator_attempts_ended_total{result=\"terminal\"}");
        // Head and open entries are shown together, some time after they changed.
        let head = sentinel("redlatch_sentinel_outbox_head_number");
        let open = sentinel("redlatch_sentinel_outbox_unacknowledged_count");
        (ended == 1.0 && head == 1.0 && open == 0.0).then_some(())
    });
    assert_eq!(
        actuator("redlatch_actuator_latch_to_terminal_seconds_count"),
        1.0
    );
    assert_eq!(actuator("redlatch_actuator_latches_working_count"), 0.0);
    assert_eq!(actuator("redlatch_actuator_reds_seen_total"), 1.0);
    assert_eq!(actuator("redlatch_actuator_last_red_number"), 1.0);
    assert!(actuator("redlatch_actuator_hold_scopes_count") >= 1.0);
    assert!(actuator("redlatch_actuator_attempts_begun_total") >= 1.0);
    let finished = "redlatch_actuator_commands_total{command=\"finish\",answer=\"accepted\"}";
    assert!(actuator(finished) >= 1.0);
    assert_eq!(
        sentinel("redlatch_sentinel_reds_total{cause=\"order\"}"),
        1.0
    );
    let brought = "redlatch_sentinel_deliveries_total{target=\"actuator\",result=\"answered\"}";
    assert!(sentinel(brought) >= 1.0);
}
