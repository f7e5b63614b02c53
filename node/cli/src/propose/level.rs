//! `redlatch raise-level`: lets what every node's build carries be proposed.
//!
//! Each node signs for itself what its build carries; the journal raises the level only with every node's word.

use redlatch_link::exit::{ExitCode, Failure};
use redlatch_types::Envelope;
use redlatch_types::command::RawCommand;
use redlatch_types::event::Accepted;
use redlatch_types::records::FeatureSupportV1;

use crate::answer::Level;
use crate::client::{Client, another, refused};
use crate::{Common, Done, output};

pub(crate) async fn run(common: &Common) -> Done {
    let client = Client::current(common, "operator").await?;
    let in_force = client.in_force().await?;
    let mut supports = Vec::new();
    let mut levels = Vec::new();
    for node in &in_force.roster.nodes {
        let name = node.name.as_str();
        let envelope: Envelope = client.nodes.feature(name, client.deadline).await?;
        let support = envelope.open::<FeatureSupportV1>().map_err(|error| {
            Failure::new(
                ExitCode::Error,
                format!("{name} gave no signed word: {error}"),
            )
        })?;
        levels.push(support.record().feature_level);
        supports.push(envelope);
    }
    let lowest = levels.iter().copied().min().unwrap_or_default();
    if levels.iter().any(|level| *level != lowest) {
        let text = format!("the nodes' builds carry different levels: {levels:?}");
        return Err(
            Failure::new(ExitCode::Refused, text).hint("bring every node to the same build first")
        );
    }
    let command = RawCommand::RaiseFeatureLevel(supports);
    let submitted = client.submit(&command).await?;
    let level = match submitted.accepted().map_err(refused)? {
        Accepted::FeatureLevelRaised(level) => level,
        other => return Err(another(&other)),
    };
    let answer = Level {
        feature_level: level.into(),
    };
    output::print(common.output, &answer, |answer| {
        output::lines(&[("feature level", answer.feature_level.to_string())])
    })?;
    Ok(0)
}
