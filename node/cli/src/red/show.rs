//! `redlatch red show`: three views of the stop, each with its own source and its own word if it is silent.

use std::collections::BTreeMap;

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_link::world;
use redlatch_proto::v1;
use redlatch_proto::v1::hold_line_client::HoldLineClient;
use redlatch_types::event::Event;
use redlatch_types::records::{PermitBeatV1, RedScope, RedVerdictV1, SentinelRedOutboxV1};
use redlatch_types::{Canonical, Envelope, LatchNumber};
use serde_json::{Value, json};

use super::{of_status, scope_text, sentinel};
use crate::client::{Client, random};
use crate::{Common, Done, output};

/// A latch as the journal tells it.
#[derive(Default)]
struct Latch {
    outbox_epoch: u64,
    scopes: Vec<RedScope>,
    reason: String,
    latched: u64,
    terminal: Option<u64>,
    acknowledged: Option<u64>,
}

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
    let answer = json!({
        "outbox": shown(&outbox, outbox_json),
        "latches": shown(&latches, latches_json),
        "hold": shown(&hold, hold_json),
    });
    output::print(common.output, &answer, |_| {
        let parts = [
            outbox.as_ref().map_or_else(silent("sentinel"), outbox_text),
            latches
                .as_ref()
                .map_or_else(silent("journal"), latches_text),
            hold.as_ref().map_or_else(silent("actuator"), hold_text),
        ];
        parts.join("\n")
    })?;
    Ok(0)
}

fn silent(who: &'static str) -> impl Fn(&Failure) -> String {
    move |failure| format!("{who}: {}\n", failure.text)
}

fn shown<T>(part: &Result<T, Failure>, json: fn(&T) -> Value) -> Value {
    match part {
        Ok(part) => json(part),
        Err(failure) => json!({ "error": failure.text }),
    }
}

async fn outbox(client: &Client) -> Result<v1::OutboxResponse, Failure> {
    let mut sentinel = sentinel(client)?;
    let asked = sentinel.outbox(v1::OutboxRequest {});
    match world::timeout(client.deadline, asked).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(of_status(&status)),
        Err(late) => Err(late_failure(&late)),
    }
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

fn entry_row(entry: &v1::OutboxEntry) -> Option<(u64, String, String)> {
    let (number, verdict) = verdict_of(&Envelope::from_canonical(&entry.entry).ok()?)?;
    let scope = RedScope::from_open(verdict.scope_kind, &verdict.scope_value);
    let scope = scope.map_or_else(|| "everything".to_owned(), |scope| scope_text(&scope));
    Some((number, scope, verdict.reason.to_string()))
}

fn outbox_json(outbox: &v1::OutboxResponse) -> Value {
    let entries: Vec<Value> = outbox
        .entries
        .iter()
        .filter_map(|entry| {
            let (number, scope, reason) = entry_row(entry)?;
            let (progress, latch) = (&entry.progress, entry.latch);
            Some(
                json!({ "outbox_epoch": number, "scope": scope, "reason": reason,
                         "progress": progress, "latch": latch }),
            )
        })
        .collect();
    json!({ "head": outbox.head, "health": outbox.health, "open": entries })
}

fn outbox_text(outbox: &v1::OutboxResponse) -> String {
    let head = format!(
        "outbox of the sentinel: {} entries signed, {} open; {}\n",
        outbox.head,
        outbox.entries.len(),
        outbox.health
    );
    let rows: Vec<Vec<String>> = outbox
        .entries
        .iter()
        .filter_map(|entry| {
            let (number, scope, reason) = entry_row(entry)?;
            Some(vec![
                number.to_string(),
                entry.progress.clone(),
                scope,
                reason,
            ])
        })
        .collect();
    if rows.is_empty() {
        return head;
    }
    head + &output::table(&["RED", "PROGRESS", "SCOPE", "REASON"], &rows)
}

async fn latches(client: &Client) -> Result<BTreeMap<LatchNumber, Latch>, Failure> {
    let mut latches: BTreeMap<LatchNumber, Latch> = BTreeMap::new();
    let mut leaves = client.nodes.journal(0, false, client.deadline).await?;
    loop {
        let leaf = leaves
            .message()
            .await
            .map_err(|status| of_status(&status))?;
        let Some(leaf) = leaf else {
            return Ok(latches);
        };
        let at = leaf.position;
        match Event::from_canonical(&leaf.leaf) {
            Ok(Event::RedLatched(receipt, _, ground, envelope)) => {
                let verdict = verdict_of(&envelope);
                let latch = Latch {
                    outbox_epoch: receipt.sentinel_outbox_epoch.0,
                    scopes: ground.scopes,
                    reason: verdict.map_or_else(String::new, |(_, it)| it.reason.to_string()),
                    latched: at,
                    ..Latch::default()
                };
                latches.insert(receipt.latch_epoch, latch);
            }
            Ok(Event::SafetyTerminal(latch, _)) => {
                latches.entry(latch).or_default().terminal = Some(at);
            }
            Ok(Event::OutboxAcknowledged(latch, _)) => {
                latches.entry(latch).or_default().acknowledged = Some(at);
            }
            _ => {}
        }
    }
}

fn scopes_text(scopes: &[RedScope]) -> String {
    let scopes: Vec<String> = scopes.iter().map(scope_text).collect();
    scopes.join(" ")
}

fn latches_json(latches: &BTreeMap<LatchNumber, Latch>) -> Value {
    let latches = latches.iter().map(|(number, latch)| {
        let scopes: Vec<String> = latch.scopes.iter().map(scope_text).collect();
        json!({ "latch": number.0, "outbox_epoch": latch.outbox_epoch, "scopes": scopes,
                "reason": latch.reason, "latched_at": latch.latched,
                "terminal_at": latch.terminal, "acknowledged_at": latch.acknowledged })
    });
    Value::Array(latches.collect())
}

fn latches_text(latches: &BTreeMap<LatchNumber, Latch>) -> String {
    if latches.is_empty() {
        return "journal: nothing is latched\n".to_owned();
    }
    let place = |at: Option<u64>| at.map_or_else(|| "-".to_owned(), |at| at.to_string());
    let rows: Vec<Vec<String>> = latches
        .iter()
        .map(|(number, latch)| {
            vec![
                number.to_string(),
                latch.outbox_epoch.to_string(),
                latch.latched.to_string(),
                place(latch.terminal),
                place(latch.acknowledged),
                scopes_text(&latch.scopes),
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
async fn hold(client: &Client) -> Result<PermitBeatV1, Failure> {
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
    let beat = beat.filter(|beat| beat.key == client.genesis.roster.actuator.key);
    let beat = beat.and_then(|beat| beat.open::<PermitBeatV1>().ok());
    let beat = beat.map(|signed| signed.record().clone());
    beat.filter(|beat| beat.nonce == nonce).ok_or_else(|| {
        let text = "the answer is not the actuator's own";
        Failure::new(ExitCode::Error, text)
    })
}

fn hold_json(beat: &PermitBeatV1) -> Value {
    let held: Vec<String> = beat.held.iter().map(scope_text).collect();
    json!({ "held": held, "sentinel": beat.sentinel.word(),
            "seen_outbox_epoch": beat.seen_outbox_epoch.0 })
}

fn hold_text(beat: &PermitBeatV1) -> String {
    let held = if beat.held.is_empty() {
        "nothing".to_owned()
    } else {
        scopes_text(&beat.held)
    };
    let (seen, line) = (beat.seen_outbox_epoch, beat.sentinel);
    format!("HOLD of the actuator: {held}; sentinel {line}, RED {seen} stored\n")
}
