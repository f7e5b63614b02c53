//! An event in words: its fields for programs, one line for people. Only its own, decoded bytes are shown.

use redlatch_types::event::{Event, Ground};
use redlatch_types::records::RedScope;
use serde_json::Value;

use crate::answer::{Told, count};
use crate::output;

/// What an event tells.
pub(crate) fn told(event: &Event) -> Told {
    match event {
        Event::Bootstrapped(genesis, _) => Told::Bootstrapped {
            organism: genesis.organism_id().to_string(),
            organism_name: genesis.organism_name.to_string(),
            kind: genesis.kind.to_string(),
            nodes: count(genesis.roster.nodes.len()),
            verifiers: count(genesis.roster.verifiers.len()),
        },
        Event::Ticked(number, time, readings) => Told::Ticked {
            tick: number.0.into(),
            state_time: output::time(*time),
            readings: count(readings.len()),
        },
        Event::QuorumKeyActivated(epoch, key, transcript, _) => Told::QuorumKeyActivated {
            key_epoch: epoch.0.into(),
            group_key: key.to_string(),
            public_key_package: transcript.to_string(),
        },
        Event::Frozen(digest, at, intent, origin) => {
            let (land, swap) = (intent.payload.land(), intent.payload.swap());
            let executor = intent.executor_subject_id_optional.as_ref();
            Told::Frozen {
                intent: digest.to_string(),
                frozen_at: output::time(*at),
                caller: intent.caller_subject_id.to_string(),
                executor: executor.map(ToString::to_string),
                action: intent.action.to_string(),
                variant: intent.required_authority_variant.to_string(),
                resource: intent.payload.resource().to_string(),
                repository: land.map(|land| land.resource.repository.to_string()),
                r#ref: land.map(|land| land.resource.reference.to_string()),
                old: swap.map(|(old, _)| hex::encode(&old.0)),
                new: swap.map(|(_, new)| hex::encode(&new.0)),
                event_id: origin.event_id.to_string(),
                expires_at: output::time(intent.expires_at),
            }
        }
        Event::Authorized(body) => Told::Authorized {
            intent: body.decision.binding.intent_digest.to_string(),
            capability: body.capability_id.to_string(),
            label: body.decision.label.to_string(),
            votes: count(body.votes().len()),
        },
        Event::Prepared(id, transaction) => Told::Prepared {
            transaction: id.to_string(),
            intent: transaction.binding.intent_digest.to_string(),
        },
        Event::Committed(marker) => Told::Committed {
            marker: marker.marker.0.into(),
            transaction: marker.transaction_id.to_string(),
            intent: marker.intent_digest.to_string(),
            committed_at: output::time(marker.committed_at),
            effect_deadline: output::time(marker.effect_deadline),
        },
        other => ending(other),
    }
}

/// Ends of an action, and its effect.
fn ending(event: &Event) -> Told {
    match event {
        Event::Aborted(id, intent, reason) => Told::Aborted {
            transaction: id.to_string(),
            intent: intent.to_string(),
            reason: format!("{reason:?}"),
        },
        Event::Withdrawn(intent, origin) => Told::Withdrawn {
            intent: intent.to_string(),
            caller: origin.subject_id.to_string(),
            event_id: origin.event_id.to_string(),
        },
        Event::EffectClaimed(id, marker, key, _) => Told::EffectClaimed {
            transaction: id.to_string(),
            marker: marker.0.into(),
            effect_key: key.to_string(),
        },
        Event::EffectReported(id, outcome, head, _) => Told::EffectReported {
            transaction: id.to_string(),
            outcome: outcome.to_string(),
            head: hex::encode(&head.0),
        },
        Event::EffectWithheld(id, marker) => Told::EffectWithheld {
            transaction: id.to_string(),
            marker: marker.0.into(),
        },
        other => change(other),
    }
}

/// What changes the organism itself.
fn change(event: &Event) -> Told {
    match event {
        Event::ChallengeIssued(id, challenge, _) => Told::ChallengeIssued {
            challenge: id.to_string(),
            intent: challenge.binding.intent_digest.to_string(),
            approver: challenge.approver_subject_id.to_string(),
        },
        Event::Activated(id, marker, receipt) => Told::Activated {
            transaction: id.to_string(),
            marker: marker.0.into(),
            autonomy_epoch: receipt.activated_autonomy_epoch.0.into(),
        },
        Event::ConstitutionAmended(constitution) => Told::ConstitutionAmended {
            constitution_epoch: constitution.constitution_epoch.0.into(),
            constitution: constitution.digest().to_string(),
        },
        Event::GrantGiven(replaced, grant) => Told::GrantGiven {
            grant: grant.id().to_string(),
            replaces: replaced.as_ref().map(ToString::to_string),
        },
        Event::SubjectChanged(subject) => Told::SubjectChanged {
            subject: subject.subject_id.to_string(),
            revoked: subject.revoked_at_optional.is_some(),
        },
        Event::HumanKeyChanged(key) => Told::HumanKeyChanged {
            key: key.id().to_string(),
            subject: key.subject_id.to_string(),
            revoked: key.revoked_at_optional.is_some(),
        },
        Event::RosterChanged(roster) => Told::RosterChanged {
            roster_epoch: roster.roster_epoch.0.into(),
        },
        Event::NodeRejoined(roster, _) => Told::NodeRejoined {
            roster_epoch: roster.roster_epoch.0.into(),
        },
        Event::QuorumKeyVoided(epoch) => Told::QuorumKeyVoided {
            key_epoch: epoch.0.into(),
        },
        Event::GroundsReset(grounds) => Told::GroundsReset {
            grounds: grounds
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" "),
        },
        Event::RootActed(act, ground, _) => Told::RootActed {
            act: act.number.into(),
            ground: ground_words(ground),
        },
        Event::FeatureLevelRaised(level, _) => Told::FeatureLevelRaised {
            feature_level: (*level).into(),
        },
        Event::EffectResolved(id, outcome, head) => Told::EffectResolved {
            transaction: id.to_string(),
            outcome: outcome.to_string(),
            head: hex::encode(&head.0),
        },
        other => stop(other),
    }
}

/// Stops, and records of the journal about itself.
fn stop(event: &Event) -> Told {
    match event {
        Event::RedLatched(receipt, place, ground, _) => Told::RedLatched {
            latch: receipt.latch_epoch.0.into(),
            outbox_epoch: receipt.sentinel_outbox_epoch.0.into(),
            chain: format!("{place:?}"),
            latched_at: output::time(receipt.latched_at),
            ground: ground_words(ground),
        },
        Event::RedChained(epoch, root) => Told::RedChained {
            outbox_epoch: epoch.0.into(),
            root: root.to_string(),
        },
        Event::GrantRevoked(grant) => Told::GrantRevoked {
            grant: grant.to_string(),
        },
        Event::GrantDemoted(grant, fresh) => Told::GrantDemoted {
            grant: grant.to_string(),
            becomes: fresh.id().to_string(),
        },
        Event::SafetyIntentStored(_) => Told::SafetyIntentStored {},
        Event::SafetyPrepared(id, ..) => Told::SafetyPrepared {
            transaction: id.to_string(),
        },
        Event::LatchCommitting(latch, id) => Told::LatchCommitting {
            latch: latch.0.into(),
            transaction: id.to_string(),
        },
        Event::SafetyTerminal(latch, id) => Told::SafetyTerminal {
            latch: latch.0.into(),
            transaction: id.to_string(),
        },
        Event::SafetyCommitted(marker) => Told::SafetyCommitted {
            marker: marker.marker.0.into(),
            transaction: marker.transaction_id.to_string(),
        },
        Event::EpochPublished(epoch) => Told::EpochPublished {
            autonomy_epoch: epoch.autonomy_epoch.0.into(),
            mode: epoch.active_mode.to_string(),
        },
        Event::OutboxAcknowledged(latch, _) => Told::OutboxAcknowledged {
            latch: latch.0.into(),
        },
        Event::Refused(subject, refusal, command) => Told::Refused {
            subject: subject.to_string(),
            code: refusal.code().to_owned(),
            command: command.to_string(),
        },
        Event::StateRoot(root) => Told::StateRoot {
            authority: root.authority_digest.to_string(),
            term: root.term.into(),
            index: root.index.into(),
            size: root.size.into(),
        },
        _ => Told::Unknown,
    }
}

/// Names and texts of what an event tells, by name; what it does not have is left out.
pub(crate) fn fields(told: &Told) -> Vec<(String, String)> {
    let value = serde_json::to_value(told).unwrap_or_default();
    let fields = value["fields"].as_object().into_iter().flatten();
    let texts = fields.filter_map(|(name, value)| {
        let text = match value {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some((name.clone(), text))
    });
    texts.collect()
}

/// One line for people: the fields with digests cut short.
pub(crate) fn line(told: &Told) -> String {
    let fields = fields(told);
    let words = fields
        .iter()
        .map(|(name, text)| format!("{name}={}", short(text)));
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

#[cfg(test)]
mod tests {
    use redlatch_types::{SubjectId, TickNumber};

    use super::*;

    #[test]
    fn a_line_names_fields_and_cuts_digests() {
        let event = Event::Ticked(TickNumber(7), 1_700_000_000_000, vec![]);
        assert_eq!(
            line(&told(&event)),
            "readings=0 state_time=2023-11-14T22:13:20.000Z tick=7"
        );
        let subject: SubjectId = "agent".parse().expect("a name");
        let digest = redlatch_types::Digest([0xab; 32]);
        let event = Event::Refused(subject, redlatch_types::Refusal::Frozen, digest);
        assert_eq!(
            line(&told(&event)),
            "code=frozen command=abababababab… subject=agent"
        );
    }
}
