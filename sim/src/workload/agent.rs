//! Agents: they freeze, take back, ask for status and receipts, and write down every answer.

use std::time::Duration;

use redlatch_link::Role;
use redlatch_link::nodes::{Again, CallError, Nodes, Submitted};
use redlatch_link::world as link;
use redlatch_proto::v1::leaf_at::At;
use redlatch_types::event::{Accepted, Reply};
use redlatch_types::receipt::{self, Receipt};
use redlatch_types::records::ScopeState;
use redlatch_types::{Canonical, Digest, EventId, IntentDigest};

use super::{Plan, SUBMIT_DEADLINE, Workload, short};
use crate::history::{ReceiptSeen, StatusSeen};
use crate::oracle::Promised;
use crate::organism::{NODES, agent_name, node_name};
use crate::seed::Draws;
use crate::trace::Who;

const READ_DEADLINE: Duration = Duration::from_secs(3);

/// One agent's life.
pub(super) async fn live(load: Workload, agent: u64, plan: Plan) {
    let name = agent_name(agent);
    let nodes = load.nodes(Role::Client, &name, None);
    let mut draws = load.draws(&name);
    while load.goes_on() {
        link::sleep(Duration::from_millis(draws.between(1, plan.pause_ms))).await;
        match draws.below(100) {
            0..60 => {
                load.freeze(&nodes, agent, &mut draws).await;
            }
            60..66 => load.withdraw(&nodes, agent, &mut draws).await,
            66..90 => {
                let node = draws.between(1, NODES + 1);
                let intents = load.frozen();
                let intent = draws
                    .one_of(&intents)
                    .map(|it| it.1)
                    .filter(|_| draws.percent(80));
                load.ask_status(&nodes, Some(node), intent, draws.digest())
                    .await;
            }
            _ => load.ask_receipt(&nodes, &mut draws).await,
        }
    }
}

/// What single parties do.
impl Workload {
    /// Asks one node, or any, and writes down what it says. State time, if there was an answer.
    pub async fn ask_status(
        &self,
        nodes: &Nodes,
        node: Option<u64>,
        intent: Option<IntentDigest>,
        nonce: Digest,
    ) -> Option<(u64, ScopeState)> {
        let asked_us = self.stage.now_us();
        let answer = match node {
            Some(node) => {
                nodes
                    .status(&node_name(node), nonce, intent, READ_DEADLINE)
                    .await
            }
            None => nodes.any_status(nonce, READ_DEADLINE).await,
        };
        match answer {
            Ok(status) => {
                let status = status.record();
                let (node, scope) = (status.node_id.0, status.scope);
                self.stage.note(
                    Who::Node(node),
                    format_args!("says {scope} of {}", short(intent)),
                );
                let intent = status.intent_digest_optional;
                let seen = StatusSeen {
                    node,
                    asked_us,
                    intent,
                    scope,
                };
                self.stage.history().statuses.push(seen);
                self.count(if scope == ScopeState::Free {
                    "status free"
                } else {
                    "status stopped"
                });
                Some((status.state_time, scope))
            }
            Err(error) => {
                self.blame(&error);
                self.count("status none");
                None
            }
        }
    }

    /// Freezes one intent and writes down what was answered.
    pub async fn freeze(
        &self,
        nodes: &Nodes,
        agent: u64,
        draws: &mut Draws,
    ) -> Option<IntentDigest> {
        let (now, _) = self.ask_status(nodes, None, None, draws.digest()).await?;
        let key = EventId(draws.digest());
        let command = self.stage.organism.freeze(agent, now, key);
        let receipt = if draws.percent(15) {
            Duration::from_secs(2)
        } else {
            Duration::ZERO
        };
        let again = again(agent, key, draws);
        let answer = nodes
            .submit(&command.to_canonical(), &again, SUBMIT_DEADLINE, receipt)
            .await;
        let promised = |accepted| match accepted {
            Accepted::Frozen(intent) => Some(Promised::Frozen(key, intent)),
            _ => None,
        };
        let frozen = self.take_down(agent, key, answer, promised);
        match frozen? {
            Promised::Frozen(_, intent) => {
                self.lock().frozen.push((agent, intent));
                Some(intent)
            }
            _ => None,
        }
    }

    async fn withdraw(&self, nodes: &Nodes, agent: u64, draws: &mut Draws) {
        let own: Vec<IntentDigest> = self
            .frozen()
            .into_iter()
            .filter(|it| it.0 == agent)
            .map(|it| it.1)
            .collect();
        let Some(intent) = draws.one_of(&own) else {
            return;
        };
        let Some((now, _)) = self.ask_status(nodes, None, None, draws.digest()).await else {
            return;
        };
        let key = EventId(draws.digest());
        let command = self.stage.organism.withdraw(agent, now, key, intent);
        let again = again(agent, key, draws);
        let bytes = command.to_canonical();
        let answer = nodes
            .submit(&bytes, &again, SUBMIT_DEADLINE, Duration::ZERO)
            .await;
        let promised = |accepted| match accepted {
            Accepted::Withdrawn(intent) => Some(Promised::Withdrawn(key, intent)),
            _ => None,
        };
        self.take_down(agent, key, answer, promised);
    }

    async fn ask_receipt(&self, nodes: &Nodes, draws: &mut Draws) {
        let known: Vec<u64> = {
            let history = self.stage.history();
            history
                .promises
                .acknowledged
                .iter()
                .filter_map(|it| it.position)
                .collect()
        };
        let Some(position) = draws.one_of(&known) else {
            return;
        };
        match nodes.receipt(At::Position(position), READ_DEADLINE).await {
            Ok(text) => self.keep_receipt(&text),
            Err(error) => self.blame(&error),
        }
    }

    /// Verifies a receipt as an auditor would, and keeps what it proves.
    fn keep_receipt(&self, text: &str) {
        let policy = self.stage.organism.policy();
        let verified = Receipt::parse(text.as_bytes())
            .map_err(|error| error.to_string())
            .and_then(|it| {
                let verified = receipt::verify(&it, &policy);
                Ok((
                    Digest::of(&it.leaf),
                    verified.map_err(|error| error.to_string())?,
                ))
            });
        let seen = match verified {
            Ok((leaf, it)) => ReceiptSeen {
                position: it.index,
                leaf,
                size: it.size,
                root: it.root,
                verified: Ok(()),
            },
            Err(why) => ReceiptSeen {
                position: 0,
                leaf: Digest::ZERO,
                size: 0,
                root: Digest::ZERO,
                verified: Err(why),
            },
        };
        self.count("receipts");
        self.stage.history().receipts.push(seen);
    }

    /// Writes down the answer to an agent's command; what it promises, if anything.
    fn take_down(
        &self,
        agent: u64,
        key: EventId,
        answer: Result<Submitted, CallError>,
        promised: impl FnOnce(Accepted) -> Option<Promised>,
    ) -> Option<Promised> {
        let at_us = self.stage.now_us();
        let who = Who::Client(agent);
        let mut history = self.stage.history();
        match answer {
            Ok(Submitted {
                reply: Reply::Accepted(accepted),
                leaves,
                receipt,
                ..
            }) => {
                let position = (!leaves.is_empty()).then_some(leaves.start);
                self.count(word(&accepted));
                self.stage
                    .note(who, format_args!("{} at {position:?}", word(&accepted)));
                let promise = promised(accepted);
                if let Some(promise) = &promise {
                    history
                        .promises
                        .acknowledge(at_us, promise.clone(), position);
                }
                drop(history);
                if let Some(receipt) = receipt {
                    self.keep_receipt(&receipt);
                }
                promise
            }
            Ok(Submitted {
                reply: Reply::Refused(refusal),
                ..
            }) => {
                self.stage.note(who, format_args!("refused: {refusal}"));
                self.count("refused");
                history.promises.nothing_happened(key);
                None
            }
            Err(error) => {
                drop(history);
                self.blame(&error);
                let mut history = self.stage.history();
                if nothing_happened(&error) {
                    self.stage.note(who, "nothing happened");
                    self.count("nothing happened");
                    history.promises.nothing_happened(key);
                } else {
                    self.stage.note(who, "nobody knows");
                    self.count("nobody knows");
                    history.promises.lose_sight_of(key);
                }
                None
            }
        }
    }
}

/// Whether an error says that the command has had and will have no effect.
fn nothing_happened(error: &CallError) -> bool {
    matches!(
        error,
        CallError::Unavailable(_)
            | CallError::Limit(_)
            | CallError::Denied(_)
            | CallError::Invalid(_)
    )
}

fn again(agent: u64, key: EventId, draws: &mut Draws) -> Again {
    let subject = agent_name(agent).parse().ok();
    match (draws.below(4), subject) {
        (0, _) => Again::Never,
        (1, _) => Again::SameAnswer,
        (_, Some(subject)) => Again::ByKey(subject, key),
        (_, None) => Again::Never,
    }
}

fn word(accepted: &Accepted) -> &'static str {
    match accepted {
        Accepted::Frozen(_) => "frozen",
        Accepted::Withdrawn(_) => "withdrawn",
        Accepted::Committed(_) => "committed",
        Accepted::EffectClaimed(_) => "claimed",
        Accepted::Latched(_) => "latched",
        _ => "accepted",
    }
}
