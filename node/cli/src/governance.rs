//! `redlatch governance`: what is in force, as a node tells it. Unproven: receipts prove the acts that led to it.

use crate::answer::{
    Governed, GovernedGrant, GovernedGround, GovernedKey, GovernedNode, GovernedSubject,
};
use crate::client::Client;
use crate::in_force::InForce;
use crate::{Common, Done, output};

pub(crate) async fn run(common: &Common) -> Done {
    let client = Client::current(common, "operator").await?;
    let in_force = client.in_force().await?;
    output::print(common.output, &answer(&in_force), text)?;
    Ok(0)
}

fn answer(in_force: &InForce) -> Governed {
    let subject = |it: &redlatch_types::records::ClientIdentityV1| GovernedSubject {
        subject: it.subject_id.to_string(),
        kind: it.actor_kind.to_string(),
        scopes: words(&it.scopes),
        person: it.person_optional.as_ref().map(ToString::to_string),
        revoked: it.revoked_at_optional.is_some(),
    };
    let nodes = in_force.roster.nodes.iter().map(|it| GovernedNode {
        node: it.name.to_string(),
        number: it.node_id.0.into(),
        seat: it.seat.to_string(),
    });
    let grants = in_force.grants.iter().map(|(it, committed)| GovernedGrant {
        grant: it.id().to_string(),
        subject: it.subject_id.to_string(),
        tier: it.max_tier.to_string(),
        mode: it.mode.to_string(),
        actions: words(&it.action_classes),
        budget: it.budget.into(),
        committed: (*committed).into(),
        expires_at: output::time(it.expires_at),
    });
    let keys = in_force.human_keys.iter().map(|it| GovernedKey {
        key: it.id().to_string(),
        person: it.subject_id.to_string(),
        class: it.attestation_class.to_string(),
        revoked: it.revoked_at_optional.is_some(),
    });
    let grounds = in_force.grounds.iter().map(|it| GovernedGround {
        ground: it.number.0.into(),
        cause: it.cause.to_string(),
    });
    Governed {
        mode: in_force.epoch.active_mode.to_string(),
        autonomy_epoch: in_force.epoch.autonomy_epoch.0.into(),
        constitution_epoch: in_force.constitution.constitution_epoch.0.into(),
        roster_epoch: in_force.roster.roster_epoch.0.into(),
        persons_required: in_force.constitution.human_approvals_required.into(),
        nodes: nodes.collect(),
        subjects: in_force.subjects.iter().map(subject).collect(),
        grants: grants.collect(),
        human_keys: keys.collect(),
        grounds: grounds.collect(),
    }
}

fn words<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

fn text(shown: &Governed) -> String {
    let mode = format!("{} at epoch {}", shown.mode, shown.autonomy_epoch);
    let mut text = output::lines(&[
        ("mode", mode),
        ("constitution", shown.constitution_epoch.to_string()),
        ("roster", shown.roster_epoch.to_string()),
        ("persons required", shown.persons_required.to_string()),
    ]);
    let mut part = |headings: &[&str], rows: Vec<Vec<String>>| {
        if !rows.is_empty() {
            text.push('\n');
            text.push_str(&output::table(headings, &rows));
        }
    };
    let nodes = shown.nodes.iter();
    let nodes = nodes.map(|it| vec![it.node.clone(), it.number.to_string(), it.seat.clone()]);
    part(&["NODE", "NUMBER", "SEAT"], nodes.collect());
    let note = |revoked: bool| if revoked { "revoked" } else { "" }.to_owned();
    let subjects = shown.subjects.iter().map(|it| {
        let name = it.subject.clone();
        vec![name, it.kind.clone(), it.scopes.join(" "), note(it.revoked)]
    });
    part(&["SUBJECT", "KIND", "SCOPES", "NOTE"], subjects.collect());
    let grants = shown.grants.iter().map(|it| {
        let used = format!("{} of {}", it.committed, it.budget);
        let (grant, subject, tier) = (it.grant.clone(), it.subject.clone(), it.tier.clone());
        let actions = it.actions.join(" ");
        vec![
            grant,
            subject,
            tier,
            it.mode.clone(),
            actions,
            used,
            it.expires_at.clone(),
        ]
    });
    let headings = [
        "GRANT", "SUBJECT", "TIER", "MODE", "ACTIONS", "USED", "UNTIL",
    ];
    part(&headings, grants.collect());
    let keys = shown.human_keys.iter().map(|it| {
        vec![
            it.key.clone(),
            it.person.clone(),
            it.class.clone(),
            note(it.revoked),
        ]
    });
    part(&["KEY", "PERSON", "CLASS", "NOTE"], keys.collect());
    let grounds = shown.grounds.iter();
    let grounds = grounds.map(|it| vec![it.ground.to_string(), it.cause.clone()]);
    part(&["GROUND", "CAUSE"], grounds.collect());
    text
}
