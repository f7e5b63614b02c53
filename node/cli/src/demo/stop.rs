//! RED: raised by the safety officer, held at once, latched, carried out; then nothing moves any more.

use std::time::Duration;

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::world::{self, Monotonic};
use redlatch_types::event::Event;
use redlatch_types::records::Verdict;
use serde::de::DeserializeOwned;

use super::evidence;
use super::journal::{Journal, whole};
use super::landing::{self, Landing, Step};
use super::repository::Repository;
use super::stage::Stage;
use super::timeline::{below, expect, held, leaf, scene, short, typed};
use crate::answer::{Status, Stop as Shown, View};
use crate::red::scope_text;

/// What is stopped.
const SCOPE: &str = "action:land";
/// How long the stop may take, from RED to its terminal.
const STOP: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(300);
/// Exit code of `status` while anything is stopped.
const STOPPED: i32 = 2;
/// Exit code of a refusal.
const REFUSED: i32 = 3;

/// Where the stop stands in the journal.
#[derive(Default)]
struct Stop {
    latched: Option<u64>,
    terminal: Option<u64>,
    acknowledged: Option<u64>,
    epochs: Option<(u64, u64)>,
}

/// Plays the stop, with a landing that is committed and not yet pushed.
///
/// # Errors
/// [`Failure`] if anything still moves.
pub(super) async fn play(stage: &Stage, repository: &Repository) -> Result<(), Failure> {
    scene("a third landing is committed, but its client dies before it pushes")?;
    let head = repository.head()?;
    let commit = repository.commit("THIRD", "small too\n")?;
    landing::attest(stage, repository, &commit).await?;
    let from = stage.size().await?;
    let mut landing = Landing::start(stage, repository, &commit, from).await?;
    landing.read_until(stage, Step::Prepared).await?;
    landing.kill().await?;
    landing.read_until(stage, Step::Committed).await?;
    let intent = landing.intent()?;

    scene("RED: raised, held, latched, carried out")?;
    let stop = stop(stage).await?;
    let latched = stop.latched.unwrap_or(0);

    scene("after RED nothing moves, not even what was committed before")?;
    let push = repository.push(&commit, Some(intent))?;
    below("gate", &push.said)?;
    push.expect_refused()?;
    repository.expect_head(head.as_ref())?;
    held("the branch did not move")?;
    refused_landing(stage, repository).await?;
    repository.expect_head(head.as_ref())?;
    stopped(stage).await?;
    nothing_positive(stage, latched).await?;

    scene("the receipts of the stop, verified offline with two files")?;
    evidence::verify(stage, "latch", latched, "red_latched").await?;
    evidence::verify(stage, "stop", stop.terminal.unwrap_or(0), "safety_terminal").await?;
    held("latch and terminal proven; the altered receipts are refused")
}

/// Raises RED and reads its way through the journal.
async fn stop(stage: &Stage) -> Result<Stop, Failure> {
    let mut journal = Journal::new(stage.client()?.another_connection()?, stage.size().await?);
    let raise = [
        "--dir",
        stage.dir(),
        "red",
        "raise",
        "--scope",
        SCOPE,
        "--reason",
        "the demo says stop",
    ];
    typed(&stage.tool.typed(&raise))?;
    let said = stage.tool.done(&raise).await?;
    let first = said.lines().next().unwrap_or_default();
    below("RED", first.trim_start_matches("RED").trim())?;
    hold(stage).await?;
    let until = Monotonic::now().plus(STOP);
    let mut stop = Stop::default();
    while stop.acknowledged.is_none() {
        match journal.next(LOOK).await? {
            Some((at, event)) => stop.tell(at, &event)?,
            None => {
                let late = Monotonic::now() >= until;
                let seen = format!("latch {:?}, terminal {:?}", stop.latched, stop.terminal);
                expect(!late, "latch, terminal and acknowledgement", seen)?;
            }
        }
    }
    expect(stop.latched.is_some(), "a latch", "none")?;
    expect(stop.terminal.is_some(), "a terminal", "none")?;
    let bumped = stop.epochs.is_some_and(|(old, new)| new == old + 1);
    expect(
        bumped,
        "the epoch bumped by one",
        format!("{:?}", stop.epochs),
    )?;
    held("latched before anything else; the epoch is bumped")?;
    Ok(stop)
}

impl Stop {
    fn tell(&mut self, at: u64, event: &Event) -> Result<(), Failure> {
        match event {
            Event::RedLatched(receipt, _, ground, _) => {
                self.latched.get_or_insert(at);
                let scopes: Vec<String> = ground.scopes.iter().map(scope_text).collect();
                let shown = format!(
                    "latch {}, frozen: {}",
                    receipt.latch_epoch,
                    scopes.join(" ")
                );
                leaf(at, "LATCH", &shown)
            }
            Event::SafetyIntentStored(intent) => {
                let shown = format!("attempt {}, by the actuator", intent.attempt_sequence);
                leaf(at, "SAFETY INTENT", &shown)
            }
            Event::SafetyPrepared(id, ..) => leaf(at, "SAFETY PREPARE", &short(id)),
            Event::LatchCommitting(latch, _) => leaf(at, "SAFETY CLAIM", &format!("latch {latch}")),
            Event::SafetyCommitted(marker) => {
                let (old, new) = (marker.old_autonomy_epoch.0, marker.new_autonomy_epoch.0);
                self.epochs = Some((old, new));
                let shown = format!("marker {}, epoch {old} to {new}", marker.marker);
                leaf(at, "SAFETY COMMIT", &shown)
            }
            Event::EpochPublished(epoch) => {
                let shown = format!("{} {}", epoch.active_mode, epoch.autonomy_epoch);
                leaf(at, "EPOCH", &shown)
            }
            Event::GrantRevoked(grant) => leaf(at, "REVOKED", &format!("grant {}", short(grant))),
            Event::SafetyTerminal(latch, _) => {
                self.terminal = Some(at);
                leaf(
                    at,
                    "TERMINAL",
                    &format!("latch {latch}: the stop is complete"),
                )
            }
            Event::OutboxAcknowledged(latch, _) => {
                self.acknowledged = Some(at);
                leaf(
                    at,
                    "ACKNOWLEDGED",
                    &format!("latch {latch}: the sentinel knows"),
                )
            }
            _ => Ok(()),
        }
    }
}

/// Waits until the actuator holds the scope: signed by it, asked with a nonce.
async fn hold(stage: &Stage) -> Result<(), Failure> {
    let until = Monotonic::now().plus(STOP);
    loop {
        let shown: Shown = answer(stage, &["red", "show"], 0).await?;
        if let View::Seen(hold) = &shown.hold
            && hold.held.iter().any(|it| it == SCOPE)
        {
            return below(
                "HOLD",
                &format!("{}, signed by the actuator", hold.held.join(" ")),
            );
        }
        let late = Monotonic::now() >= until;
        let seen = format!("{:?}", shown.hold);
        expect(!late, format!("HOLD of {SCOPE}"), seen)?;
        world::sleep(LOOK).await;
    }
}

/// A command's answer in JSON.
async fn answer<T: DeserializeOwned>(
    stage: &Stage,
    command: &[&str],
    code: i32,
) -> Result<T, Failure> {
    let mut arguments = vec!["--dir", stage.dir(), "-o", "json"];
    arguments.extend(command);
    let ran = stage.tool.run(&arguments).await?.ended_with(code)?;
    serde_json::from_str(&ran.out).map_err(|error| {
        let text = format!("expected an answer from {command:?}: {error}");
        Failure::new(ExitCode::Error, text)
    })
}

/// A new landing is refused as well: the sentinel withholds its GREEN, and says why.
async fn refused_landing(stage: &Stage, repository: &Repository) -> Result<(), Failure> {
    let commit = repository.commit("FOURTH", "small as well\n")?;
    landing::attest(stage, repository, &commit).await?;
    let from = stage.size().await?;
    let mut landing = Landing::start(stage, repository, &commit, from).await?;
    landing.read_until(stage, Step::Frozen).await?;
    let intent = landing.intent()?;
    let ran = landing.end().await?.ended_with(REFUSED)?;
    let client = stage.client()?;
    let progress = client.nodes.progress(intent, client.deadline).await?;
    // Only the leader that asked knows it; a successor has nothing to say about what is over.
    if !progress.verdict.is_empty() {
        let verdict = Verdict::Withheld.to_string();
        expect(progress.verdict == verdict, &verdict, &progress.verdict)?;
        let reason = format!("by the sentinel: {}", progress.verdict_reason);
        below(&verdict, &reason)?;
    }
    below("land", ran.error())?;
    held("the next landing is refused")
}

/// The cluster says by itself that it is stopped.
async fn stopped(stage: &Stage) -> Result<(), Failure> {
    typed("redlatch --dir organism status")?;
    let status: Status = answer(stage, &["status"], STOPPED).await?;
    for stop in &status.stops {
        below("stop", stop)?;
    }
    let (mode, epoch) = (&status.mode, status.autonomy_epoch);
    below("mode", &format!("{mode} at epoch {epoch}"))?;
    expect(!status.stops.is_empty(), "a stop in status", "none")
}

/// Asserts from every node's whole journal that nothing positive follows the latch.
async fn nothing_positive(stage: &Stage, latched: u64) -> Result<(), Failure> {
    let from = usize::try_from(latched).unwrap_or(usize::MAX);
    for name in stage.nodes()? {
        let leaves = whole(&stage.node(&name)?).await?;
        let after = leaves.iter().skip(from).map(|(event, _)| event);
        let positive = after.filter(|event| {
            event.is_positive_marker()
                || matches!(event, Event::Authorized(..) | Event::Prepared(..))
        });
        let words: Vec<&str> = positive.map(Event::word).collect();
        let seen = format!("{words:?}");
        expect(
            words.is_empty(),
            format!("nothing positive after the latch on {name}"),
            seen,
        )?;
    }
    held("no node's journal has a decision, PREPARE, COMMIT or claim after the latch")
}
