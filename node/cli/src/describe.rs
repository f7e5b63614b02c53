//! An event in words: its fields for programs, one line for people. Only its own, decoded bytes are shown.

use redlatch_types::event::{Event, Ground};
use redlatch_types::records::RedScope;
use serde_json::{Map, Value, json};

use crate::output;

/// The fields of an event, by name.
pub(crate) fn fields(event: &Event) -> Map<String, Value> {
    let value = match event {
        Event::Bootstrapped(genesis, _) => json!({
            "organism": genesis.organism_id().to_string(),
            "organism_name": genesis.organism_name.to_string(),
            "kind": genesis.kind.to_string(),
            "nodes": genesis.roster.nodes.len(),
            "verifiers": genesis.roster.verifiers.len(),
        }),
        Event::Ticked(number, time, readings) => json!({
            "tick": number.0,
            "state_time": output::time(*time),
            "readings": readings.len(),
        }),
        Event::QuorumKeyActivated(epoch, key, transcript, _) => json!({
            "key_epoch": epoch.0,
            "group_key": key.to_string(),
            "public_key_package": transcript.to_string(),
        }),
        Event::Frozen(digest, at, intent, origin) => {
            let (land, swap) = (intent.payload.land(), intent.payload.swap());
            json!({
                "intent": digest.to_string(),
                "frozen_at": output::time(*at),
                "caller": intent.caller_subject_id.to_string(),
                "executor": intent.executor_subject_id_optional.as_ref().map(ToString::to_string),
                "action": intent.action.to_string(),
                "variant": intent.required_authority_variant.to_string(),
                "resource": intent.payload.resource().to_string(),
                "repository": land.map(|land| land.resource.repository.to_string()),
                "ref": land.map(|land| land.resource.reference.to_string()),
                "old": swap.map(|(old, _)| hex::encode(&old.0)),
                "new": swap.map(|(_, new)| hex::encode(&new.0)),
                "event_id": origin.event_id.to_string(),
                "expires_at": output::time(intent.expires_at),
            })
        }
        Event::Authorized(body) => json!({
            "intent": body.decision.binding.intent_digest.to_string(),
            "capability": body.capability_id.to_string(),
            "label": body.decision.label.to_string(),
            "votes": body.votes().len(),
        }),
        Event::Prepared(id, transaction) => json!({
            "transaction": id.to_string(),
            "intent": transaction.binding.intent_digest.to_string(),
        }),
        Event::Committed(marker) => json!({
            "marker": marker.marker.0,
            "transaction": marker.transaction_id.to_string(),
            "intent": marker.intent_digest.to_string(),
            "committed_at": output::time(marker.committed_at),
            "effect_deadline": output::time(marker.effect_deadline),
        }),
        Event::Aborted(id, intent, reason) => json!({
            "transaction": id.to_string(),
            "intent": intent.to_string(),
            "reason": format!("{reason:?}"),
        }),
        Event::Withdrawn(intent, origin) => json!({
            "intent": intent.to_string(),
            "caller": origin.subject_id.to_string(),
            "event_id": origin.event_id.to_string(),
        }),
        other => return negative(other),
    };
    object(value)
}

/// The fields of effects, stops and records of the journal about itself.
fn negative(event: &Event) -> Map<String, Value> {
    object(match event {
        Event::EffectClaimed(id, marker, key, _) => json!({
            "transaction": id.to_string(), "marker": marker.0, "effect_key": key.to_string(),
        }),
        Event::EffectReported(id, outcome, head, _) => json!({
            "transaction": id.to_string(), "outcome": outcome.to_string(), "head": hex::encode(&head.0),
        }),
        Event::EffectWithheld(id, marker) => json!({
            "transaction": id.to_string(), "marker": marker.0,
        }),
        Event::RedLatched(receipt, place, ground, _) => json!({
            "latch": receipt.latch_epoch.0,
            "outbox_epoch": receipt.sentinel_outbox_epoch.0,
            "chain": format!("{place:?}"),
            "latched_at": output::time(receipt.latched_at),
            "ground": ground_words(ground),
        }),
        Event::RedChained(epoch, root) => json!({
            "outbox_epoch": epoch.0, "root": root.to_string(),
        }),
        Event::GrantRevoked(grant) => json!({ "grant": grant.to_string() }),
        Event::GrantDemoted(grant, fresh) => json!({
            "grant": grant.to_string(), "becomes": fresh.id().to_string(),
        }),
        Event::SafetyIntentStored(_) => json!({}),
        Event::SafetyPrepared(id, ..) => json!({ "transaction": id.to_string() }),
        Event::LatchCommitting(latch, id) | Event::SafetyTerminal(latch, id) => json!({
            "latch": latch.0, "transaction": id.to_string(),
        }),
        Event::SafetyCommitted(marker) => json!({
            "marker": marker.marker.0, "transaction": marker.transaction_id.to_string(),
        }),
        Event::EpochPublished(epoch) => json!({
            "autonomy_epoch": epoch.autonomy_epoch.0, "mode": epoch.active_mode.to_string(),
        }),
        Event::OutboxAcknowledged(latch, _) => json!({ "latch": latch.0 }),
        Event::Refused(subject, refusal, command) => json!({
            "subject": subject.to_string(), "code": refusal.code(), "command": command.to_string(),
        }),
        Event::StateRoot(root) => json!({
            "authority": root.authority_digest.to_string(),
            "term": root.term,
            "index": root.index,
            "size": root.size,
        }),
        _ => json!({}),
    })
}

/// One line for people: the fields with digests cut short.
pub(crate) fn summary(event: &Event) -> String {
    let fields = fields(event);
    let words = fields.iter().filter_map(|(key, value)| {
        let text = match value {
            Value::Null => return None,
            Value::String(text) => short(text),
            other => other.to_string(),
        };
        Some(format!("{key}={text}"))
    });
    words.collect::<Vec<_>>().join(" ")
}

fn short(text: &str) -> String {
    let digest = text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digest {
        format!("{}…", &text[..12])
    } else if text.contains(' ') {
        format!("{text:?}")
    } else {
        text.to_owned()
    }
}

fn ground_words(ground: &Ground) -> String {
    let scopes: Vec<String> = ground
        .scopes
        .iter()
        .map(|scope| match scope {
            RedScope::Everything => "everything".to_owned(),
            other => format!("{other:?}"),
        })
        .collect();
    format!(
        "{} by {}: {}",
        ground.number,
        ground.cause,
        scopes.join(", ")
    )
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use redlatch_types::{SubjectId, TickNumber};

    use super::*;

    #[test]
    fn a_line_names_fields_and_cuts_digests() {
        let event = Event::Ticked(TickNumber(7), 1_700_000_000_000, vec![]);
        assert_eq!(
            summary(&event),
            "readings=0 state_time=2023-11-14T22:13:20.000Z tick=7"
        );
        let subject: SubjectId = "agent".parse().expect("a name");
        let digest = redlatch_types::Digest([0xab; 32]);
        let event = Event::Refused(subject, redlatch_types::Refusal::Frozen, digest);
        assert_eq!(
            summary(&event),
            "code=frozen command=abababababab… subject=agent"
        );
    }
}
