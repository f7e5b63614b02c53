//! What a person is shown before they decide: rendered here, byte for byte the same for all.
//!
//! The bytes are part of the challenge that the authenticator signs, so a page or a tool that
//! shows anything else gets no approval that counts (SPEC C.7 `canonical_summary`). First what
//! it is and who asks for it; then every term that it would put in force: a person approves what
//! they have read, not a digest of it.

mod terms;

use std::fmt::Write;

use redlatch_types::records::{
    ActionPayload, GrantPayload, KeyPayload, RootActV1, RosterPayload, SovereignActionIntentV1,
    SubjectPayload,
};
use redlatch_types::time::rfc3339;
use redlatch_types::{Bytes, IntentDigest};

/// The text about `intent`, one fact a line, ending with a line feed.
pub fn summary(intent: &SovereignActionIntentV1, digest: &IntentDigest) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{name}: {value}");
    };
    line("action", &intent.action);
    line("what", &what(&intent.payload));
    line("resource", &intent.payload.resource());
    line("proposed by", &intent.proposer_subject_id);
    if let Some(executor) = &intent.executor_subject_id_optional {
        line("executed by", executor);
    }
    if let Some(target) = &intent.promotion_target_subject_id_optional {
        line("concerns", target);
    }
    line("risk", &intent.risk);
    line("tier", &intent.tier);
    line("mode", &intent.active_mode);
    line("autonomy epoch", &intent.autonomy_epoch);
    line("constitution", &intent.constitution_epoch);
    line("void after", &rfc3339(intent.expires_at));
    line("intent", digest);
    for (name, value) in terms::of(&intent.payload) {
        line(name, &value);
    }
    text
}

/// The text about an act of the root, for whoever holds its key: every term of the record, one a line.
pub fn root_act(act: &RootActV1) -> String {
    let terms = terms::of_root_act(act);
    terms.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{name}: {value}");
        text
    })
}

fn what(payload: &ActionPayload) -> String {
    match payload {
        ActionPayload::ConstitutionAmend(amend) => format!(
            "constitution {} {}, digest {}",
            amend.constitution.constitution_epoch,
            from(amend.constitution.effective_at),
            amend.constitution.digest()
        ),
        ActionPayload::ModeActivate(mode) => format!("{} {}", mode.mode, from(mode.activates_at)),
        ActionPayload::GrantChange(change) => grant(change),
        ActionPayload::SubjectChange(change) => match &**change {
            SubjectPayload::Enrol(s) => format!("enrol {} with key {}", s.subject_id, s.public_key),
            SubjectPayload::Rotate(s) => {
                format!("give {} the key {}", s.subject_id, s.public_key)
            }
            SubjectPayload::Revoke(subject) => format!("revoke {subject}"),
        },
        ActionPayload::KeyChange(change) => match &**change {
            KeyPayload::Enrol(key) => {
                format!(
                    "enrol a {} key of {}",
                    key.attestation_class, key.subject_id
                )
            }
            KeyPayload::Rotate(old, key) => format!("replace key {old} of {}", key.subject_id),
            KeyPayload::Revoke(old) => format!("revoke key {old}"),
        },
        ActionPayload::RosterChange(change) => match &**change {
            RosterPayload::Join(node) => format!("node {} ({}) joins", node.node_id, node.name),
            RosterPayload::Promote(id) => format!("node {id} becomes a voter"),
            RosterPayload::Remove(id) => format!("node {id} leaves"),
        },
        ActionPayload::VerifierSetChange(verifiers) => {
            let names: Vec<String> = verifiers
                .iter()
                .map(|v| v.verifier_id.to_string())
                .collect();
            format!("the verifiers become {}", names.join(", "))
        }
        ActionPayload::ResetFrozen(reset) => {
            let numbers: Vec<String> = reset.grounds.iter().map(ToString::to_string).collect();
            format!(
                "clear ground {}; cause: {}",
                numbers.join(", "),
                reset.cause
            )
        }
        ActionPayload::ResolveEffect(resolve) => format!(
            "the effect of {} is {}, head {}",
            resolve.transaction_id,
            resolve.outcome,
            head(&resolve.observed_head)
        ),
        ActionPayload::Land(_)
        | ActionPayload::ReleasePromote(_)
        | ActionPayload::BlockRatify(_)
        | ActionPayload::BlockArchive(_)
        | ActionPayload::ExternalEffect(_) => {
            payload.swap().map_or_else(String::new, |(old, new)| {
                format!("from {} to {}", head(old), head(new))
            })
        }
    }
}

/// A head of something outside.
fn head(bytes: &Bytes) -> String {
    match bytes.0.is_empty() {
        true => "nothing".to_owned(),
        false => terms::hex(bytes),
    }
}

/// From when a change takes effect.
fn from(time: u64) -> String {
    match time {
        0 => "at once".to_owned(),
        time => format!("from {}", rfc3339(time)),
    }
}

fn grant(change: &GrantPayload) -> String {
    match change {
        GrantPayload::Promote(promotion) => format!(
            "{} may act at {} in {}, {} times",
            promotion.grant.subject_id,
            promotion.grant.max_tier,
            promotion.grant.mode,
            promotion.grant.budget
        ),
        GrantPayload::Demote(id, tier) => format!("lower grant {id} to {tier}"),
        GrantPayload::Revoke(id) => format!("revoke grant {id}"),
    }
}
