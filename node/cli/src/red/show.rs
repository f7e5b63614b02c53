//! `redlatch red show`: three views of the stop, each with its own source and its own word if it is silent.

use std::collections::BTreeMap;

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::world;
use redlatch_proto::v1;
use redlatch_proto::v1::hold_line_client::HoldLineClient;
use redlatch_types::event::Event;
use redlatch_types::records::{PermitBeatV1, RedScope, RedVerdictV1, SentinelRedOutboxV1};
use redlatch_types::{Canonical, Envelope, LatchNumber};

use super::{of_status, scope_text, sentinel};
use crate::answer::{Decimal, Hold, Latch, Outbox, OutboxEntry, Stop, View};
use crate::client::{Client, random};
use crate::{Common, Done, output};

pub(super) async fn run(client: &Client, common: &Common) -> Done {
    let outbox = outbox(client).await;
    let latches = latches(client).await;
    let hold = hold(client).await;
    // Somebody whom nobody answers because of who they are is told so, and not that all are silent.
    let failures = [
        outbox.as_ref().err(),
        latches.as_ref().err(),
        hold.as_ref().err(),
    ];
    let refused = |failure: &&Failure| failure.code == ExitCode::Refused;
    if let Some(all) = failures.into_iter().collect::<Option<Vec<_>>>()
        && let Some(failure) = all.into_iter().find(refused)
    {
        return Err(failure.clone());
    }
    let answer = Stop {
        outbox: view(outbox),
        latches: view(latches),
        hold: view(hold),
    };
    output::print(common.output, &answer, text)?;
    Ok(0)
}

fn text(stop: &Stop) -> String {
    let parts = [
        view_text(&stop.outbox, "sentinel", outbox_text),
        view_text(&stop.latches, "journal", |it| latches_text(it)),
        view_text(&stop.hold, "actuator", hold_text),
    ];
    parts.join("\n")
}

fn view<T>(part: Result<T, Failure>) -> View<T> {
    match part {
        Ok(part) => View::Seen(part),
        Err(failure) => View::Silent {
            error: failure.text,
        },
    }
}

fn view_text<T>(view: &View<T>, who: &str, text: impl FnOnce(&T) -> String) -> String {
    match view {
        View::Seen(part) => text(part),
        View::Silent { error } => format!("{who}: {error}\n"),
    }
}

async fn outbox(client: &Client) -> Result<Outbox, Failure> {
    let mut sentinel = sentinel(client)?;
    let asked = sentinel.outbox(v1::OutboxRequest {});
    let answer = match world::timeout(client.deadline, asked).await {
        Ok(Ok(answer)) => answer.into_inner(),
        Ok(Err(status)) => return Err(of_status(&status)),
        Err(late) => return Err(late_failure(&late)),
    };
    Ok(Outbox {
        head: answer.head.into(),
        health: answer.health,
        open: answer.entries.iter().map(entry).collect(),
    })
}

fn late_failure(late: &world::DeadlinePassed) -> Failure {
    Failure::new(ExitCode::Unavailable, late.to_string())
}

/// Scope and reason of a signed entry, as far as they can be read.
fn verdict_of(envelope: &Envelope) -> Option<(u64, RedVerdictV1)> {
    let record = SentinelRedOutboxV1::from_canonical(&envelope.body.0).ok()?;
    let verdict = RedVerdictV1::from_canonical(&record.red_verdict.0).ok()?;
    Some((record.outbox_epoch.0, verdict))
}

/// An entry as far as it can be read: one that cannot stops everything.
fn entry(entry: &v1::OutboxEntry) -> OutboxEntry {
    let envelope = Envelope::from_canonical(&entry.entry).ok();
    let read = envelope.as_ref().and_then(verdict_of);
    let scope = read
        .as_ref()
        .and_then(|(_, it)| RedScope::from_open(it.scope_kind, &it.scope_value));
    OutboxEntry {
        outbox_epoch: read.as_ref().map(|(number, _)| Decimal(*number)),
        scope: scope_text(&scope.unwrap_or(RedScope::Everything)),
        reason: read.map_or_else(String::new, |(_, it)| it.reason.to_string()),
        progress: entry.progress.clone(),
        latch: entry.latch.map(Decimal),
    }
}

fn outbox_text(outbox: &Outbox) -> String {
    let head = format!(
        "outbox of the sentinel: {} entries signed, {} open; {}\n",
        outbox.head,
        outbox.open.len(),
        outbox.health
    );
    let rows: Vec<Vec<String>> = outbox
        .open
        .iter()
        .map(|entry| {
            vec![
                place(entry.outbox_epoch),
                entry.progress.clone(),
                entry.scope.clone(),
                entry.reason.clone(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return head;
    }
    head + &output::table(&["RED", "PROGRESS", "SCOPE", "REASON"], &rows)
}

async fn latches(client: &Client) -> Result<Vec<Latch>, Failure> {
    let mut latches: BTreeMap<LatchNumber, Latch> = BTreeMap::new();
    let mut leaves = client.nodes.journal(0, false, client.deadline).await?;
    loop {
        let leaf = leaves
            .message()
            .await
            .map_err(|status| of_status(&status))?;
        let Some(leaf) = leaf else {
            return Ok(latches.into_values().collect());
        };
        let at = Some(Decimal(leaf.position));
        match Event::from_canonical(&leaf.leaf) {
            Ok(Event::RedLatched(receipt, _, ground, envelope)) => {
                let verdict = verdict_of(&envelope);
                let latch = Latch {
                    latch: receipt.latch_epoch.0.into(),
                    outbox_epoch: receipt.sentinel_outbox_epoch.0.into(),
                    scopes: ground.scopes.iter().map(scope_text).collect(),
                    reason: verdict.map_or_else(String::new, |(_, it)| it.reason.to_string()),
                    latched_at: leaf.position.into(),
                    terminal_at: None,
                    acknowledged_at: None,
                };
                latches.insert(receipt.latch_epoch, latch);
            }
            // The journal has no end of a latch before the latch.
            Ok(Event::SafetyTerminal(number, _)) => {
                if let Some(latch) = latches.get_mut(&number) {
                    latch.terminal_at = at;
                }
            }
            Ok(Event::OutboxAcknowledged(number, _)) => {
                if let Some(latch) = latches.get_mut(&number) {
                    latch.acknowledged_at = at;
                }
            }
            _ => {}
        }
    }
}

/// A number that may be missing.
fn place(number: Option<Decimal>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn latches_text(latches: &[Latch]) -> String {
    if latches.is_empty() {
        return "journal: nothing is latched\n".to_owned();
    }
    let rows: Vec<Vec<String>> = latches
        .iter()
        .map(|latch| {
            vec![
                latch.latch.to_string(),
                latch.outbox_epoch.to_string(),
                latch.latched_at.to_string(),
                place(latch.terminal_at),
                place(latch.acknowledged_at),
                latch.scopes.join(" "),
                latch.reason.clone(),
            ]
        })
        .collect();
    let headings = [
        "LATCH", "RED", "LATCHED", "TERMINAL", "CLOSED", "FROZEN", "REASON",
    ];
    format!("journal, by position:\n{}", output::table(&headings, &rows))
}

/// The permit beat, checked against the actuator's key and a nonce.
async fn hold(client: &Client) -> Result<Hold, Failure> {
    let link = client.hold_line()?;
    let mut line = HoldLineClient::with_interceptor(link.channel(), link.introduction());
    let nonce = random();
    let request = v1::PermitRequest {
        nonce: nonce.0.to_vec(),
    };
    let answer = match world::timeout(client.deadline, line.permit(request)).await {
        Ok(Ok(answer)) => answer.into_inner(),
        Ok(Err(status)) => return Err(of_status(&status)),
        Err(late) => return Err(late_failure(&late)),
    };
    let beat = Envelope::from_canonical(&answer.permit_beat).ok();
    let beat = beat.filter(|beat| beat.key == client.rosters().roster().actuator.key);
    let beat = beat.and_then(|beat| beat.open::<PermitBeatV1>().ok());
    let beat = beat.map(|signed| signed.record().clone());
    let beat = beat.filter(|beat| beat.nonce == nonce).ok_or_else(|| {
        let text = "the answer is not the actuator's own";
        Failure::new(ExitCode::Error, text)
    })?;
    Ok(Hold {
        held: beat.held.iter().map(scope_text).collect(),
        sentinel: beat.sentinel.word().to_owned(),
        seen_outbox_epoch: beat.seen_outbox_epoch.0.into(),
    })
}

fn hold_text(hold: &Hold) -> String {
    let held = if hold.held.is_empty() {
        "nothing".to_owned()
    } else {
        hold.held.join(" ")
    };
    let (seen, line) = (hold.seen_outbox_epoch, &hold.sentinel);
    format!("HOLD of the actuator: {held}; sentinel {line}, RED {seen} stored\n")
}
