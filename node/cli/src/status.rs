//! `redlatch status`: the nodes side by side, and what stops anything.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use redlatch_link::exit::Fails;
use redlatch_link::nodes::CallError;
use redlatch_proto::v1::ClusterResponse;

use crate::answer::{Decimal, Node, State, Status};
use crate::client::Client;
use crate::{Common, Done, output};

/// Nothing stops anything, a majority answers.
const GREEN: u8 = 0;
/// No majority, or no leader.
const ERROR: u8 = 1;
/// Something is latched, frozen or held.
const STOPPED: u8 = 2;

const ASK: Duration = Duration::from_secs(3);

pub(crate) async fn run(common: &Common) -> Done {
    let client = Client::current(common, "operator").await?;
    let deadline = client.deadline.min(ASK);
    let members: Vec<_> = client.nodes.members().cloned().collect();
    let asked = members
        .iter()
        .map(|member| client.nodes.cluster_with_state(&member.name, deadline));
    let answers = join_all(asked).await;
    // Somebody who may not ask at all is told so, and not that the cluster is down.
    let denied = answers.iter().find_map(|answer| match answer {
        Err(error @ (CallError::Denied(_) | CallError::NotTrusted(_))) => Some(error.clone()),
        _ => None,
    });
    if let (Some(error), false) = (denied, answers.iter().any(Result::is_ok)) {
        return Err(error.failure());
    }
    let nodes = members
        .iter()
        .zip(&answers)
        .map(|(member, answer)| node(&member.name, &member.address, answer));
    let (report, code) = judge(&client, nodes.collect(), &answers);
    output::print(common.output, &report, text)?;
    Ok(code)
}

fn node(name: &str, address: &str, answer: &Result<ClusterResponse, CallError>) -> Node {
    let (name, address) = (name.to_owned(), address.to_owned());
    let state = answer.as_ref().ok().and_then(|it| it.state_digest.as_ref());
    match answer {
        Err(error) => Node {
            name,
            address,
            unreachable: Some(match error {
                CallError::Unavailable(why) => why.clone(),
                other => other.to_string(),
            }),
            ..Node::default()
        },
        Ok(shown) => Node {
            name,
            address,
            unreachable: None,
            role: shown.role.clone(),
            standing: shown.standing.clone(),
            membership: shown.membership.clone(),
            leader: shown.leader.clone(),
            term: shown.term.into(),
            last_log: shown.last_log.into(),
            applied: shown.applied.into(),
            tree_size: shown.tree_size.into(),
            cosigned_size: shown.cosigned_size.into(),
            state_time_ms: shown.state_time_ms.into(),
            clock_skew_ms: Decimal(difference(shown.clock_ms, shown.state_time_ms)),
            clock_fit: shown.clock_fit,
            held_reds: shown.held_reds.into(),
            degraded: shown.degraded.clone(),
            build_id: shown.build_id.clone(),
            state_digest: state.map_or(String::new(), |it| hex::encode(&it.digest)),
            state_digest_size: state.map_or(0, |it| it.tree_size).into(),
        },
    }
}

fn difference(a: u64, b: u64) -> i64 {
    i64::try_from(i128::from(a) - i128::from(b)).unwrap_or(i64::MAX)
}

fn judge(
    client: &Client,
    nodes: Vec<Node>,
    answers: &[Result<ClusterResponse, CallError>],
) -> (Status, u8) {
    let answered = || answers.iter().flatten();
    // The node that has applied most knows most.
    let best = answered().max_by_key(|shown| shown.applied).cloned();
    let best = best.unwrap_or_default();
    let stops: BTreeSet<String> = answered().flat_map(|it| it.stops.clone()).collect();
    let held = answered().any(|shown| shown.held_reds > 0);
    let majority = answered().count() > answers.len() / 2;
    let led = answered().any(|shown| shown.role == "leader");
    let (state, code) = match (stops.is_empty() && !held, majority && led) {
        (false, _) => (State::Stopped, STOPPED),
        (true, true) => (State::Green, GREEN),
        (true, false) => (State::Unavailable, ERROR),
    };
    let report = Status {
        organism: client.genesis.organism_id().to_string(),
        organism_name: client.genesis.organism_name.to_string(),
        development: best.development,
        state,
        mode: best.active_mode,
        autonomy_epoch: best.autonomy_epoch.into(),
        quorum_key_epoch: best.quorum_key_epoch.into(),
        roster_epoch: best.roster_epoch.into(),
        constitution_epoch: best.constitution_epoch.into(),
        feature_level: best.feature_level.into(),
        live_intents: best.live_intents.into(),
        live_transactions: best.live_transactions.into(),
        stops,
        nodes,
    };
    (report, code)
}

fn text(report: &Status) -> String {
    let kind = if report.development {
        " (development)"
    } else {
        ""
    };
    let mode = match report.mode.as_str() {
        "" => "no genesis is applied yet".to_owned(),
        mode => format!("{mode} at epoch {}", report.autonomy_epoch),
    };
    let key = match report.quorum_key_epoch.0 {
        0 => "none yet".to_owned(),
        epoch => format!("epoch {epoch}"),
    };
    let mut text = output::lines(&[
        (
            "organism",
            format!("{} {}{kind}", report.organism_name, report.organism),
        ),
        ("state", report.state.word().to_owned()),
        ("mode", mode),
        ("quorum key", key),
        (
            "rules",
            format!(
                "constitution {}, roster {}, feature level {}",
                report.constitution_epoch, report.roster_epoch, report.feature_level
            ),
        ),
        (
            "live",
            format!(
                "{} intents, {} transactions",
                report.live_intents, report.live_transactions
            ),
        ),
    ]);
    for stop in &report.stops {
        text.push_str(&format!("stop        {stop}\n"));
    }
    text.push('\n');
    let headings = [
        "NODE",
        "ADDRESS",
        "ROLE",
        "TERM",
        "APPLIED",
        "LEAVES",
        "COSIGNED",
        "STATE",
        "STATE TIME",
        "CLOCK",
        "NOTE",
    ];
    let rows: Vec<Vec<String>> = report.nodes.iter().map(row).collect();
    text.push_str(&output::table(&headings, &rows));
    text
}

fn row(node: &Node) -> Vec<String> {
    if let Some(why) = &node.unreachable {
        let mut row = vec![
            node.name.clone(),
            node.address.clone(),
            "unreachable".to_owned(),
        ];
        row.extend(std::iter::repeat_n("-".to_owned(), 7));
        row.push(why.clone());
        return row;
    }
    let mut notes = Vec::new();
    if !node.clock_fit {
        notes.push("clock_unfit".to_owned());
    }
    if !matches!(node.standing.as_str(), "" | "voter") {
        notes.push(node.standing.clone());
    }
    if !node.membership.is_empty() {
        notes.push(node.membership.clone());
    }
    if node.held_reds.0 > 0 {
        notes.push(format!("{} REDs held", node.held_reds));
    }
    if !node.degraded.is_empty() {
        notes.push(format!("degraded: {}", node.degraded));
    }
    vec![
        node.name.clone(),
        node.address.clone(),
        node.role.clone(),
        node.term.to_string(),
        node.applied.to_string(),
        node.tree_size.to_string(),
        node.cosigned_size.to_string(),
        state(node),
        output::time(node.state_time_ms.0),
        if node.clock_fit { "fit" } else { "unfit" }.to_owned(),
        notes.join("; "),
    ]
}

/// The beginning of the state's digest and the leaves that led to it: digests of other sizes differ.
fn state(node: &Node) -> String {
    match node.state_digest.get(..8) {
        Some(digest) => format!("{digest} at {}", node.state_digest_size),
        None => "-".to_owned(),
    }
}
