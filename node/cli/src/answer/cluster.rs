//! Answers about an organism and its processes: `init`, `dev`, `status`, `bench append`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Decimal;

/// `init --dev`: an organism was made.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) folder: String,
    pub(crate) organism: String,
    pub(crate) origin: String,
    pub(crate) development: bool,
}

/// `dev`: every process is ready.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) ready: bool,
    pub(crate) folder: String,
    pub(crate) nodes: Vec<Process>,
    /// Verifiers, actuator, sentinel.
    pub(crate) parties: Vec<Process>,
}

/// A process of `dev`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) pid: u32,
    pub(crate) log: String,
    /// Addresses, by what is asked there.
    #[serde(flatten)]
    pub(crate) listen: BTreeMap<String, String>,
}

/// What a whole organism is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Nothing stops anything, and a majority with a leader answers.
    Green,
    /// Something is latched, frozen or held.
    Stopped,
    /// No majority, or no leader.
    Unavailable,
}

impl State {
    /// The word for people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            State::Green => "green",
            State::Stopped => "stopped",
            State::Unavailable => "unavailable",
        }
    }
}

/// `status`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) organism: String,
    pub(crate) organism_name: String,
    pub(crate) development: bool,
    pub(crate) state: State,
    pub(crate) mode: String,
    pub(crate) autonomy_epoch: Decimal,
    pub(crate) quorum_key_epoch: Decimal,
    pub(crate) roster_epoch: Decimal,
    pub(crate) constitution_epoch: Decimal,
    pub(crate) feature_level: Decimal,
    pub(crate) live_intents: Decimal,
    pub(crate) live_transactions: Decimal,
    pub(crate) stops: BTreeSet<String>,
    pub(crate) nodes: Vec<Node>,
}

/// A node as it shows itself, or why it does not.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unreachable: Option<String>,
    pub(crate) role: String,
    /// What it is in the roster that it has applied.
    pub(crate) standing: String,
    /// What the membership has to follow of the roster, by the leader.
    pub(crate) membership: String,
    pub(crate) leader: String,
    pub(crate) term: Decimal,
    pub(crate) last_log: Decimal,
    pub(crate) applied: Decimal,
    pub(crate) tree_size: Decimal,
    pub(crate) cosigned_size: Decimal,
    pub(crate) state_time_ms: Decimal,
    pub(crate) clock_skew_ms: Decimal<i64>,
    pub(crate) clock_fit: bool,
    pub(crate) held_reds: Decimal,
    pub(crate) degraded: String,
    pub(crate) build_id: String,
    /// What the state comes to, and after how many leaves.
    pub(crate) state_digest: String,
    pub(crate) state_digest_size: Decimal,
}

/// `node new`: made, and in no roster yet.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NewNode {
    pub(crate) node: String,
    pub(crate) number: Decimal,
    /// Its configuration file.
    pub(crate) config: String,
}

/// `node rejoin`: the journal has taken in the node's return.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Returned {
    pub(crate) node: String,
    pub(crate) number: Decimal,
    pub(crate) seat: String,
    pub(crate) roster_epoch: Decimal,
}

/// `bench append`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bench {
    pub(crate) clients: u16,
    pub(crate) seconds: u32,
    pub(crate) warmup_seconds: u32,
    pub(crate) appends: Decimal,
    pub(crate) appends_per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    /// How many, by their code.
    pub(crate) errors: BTreeMap<String, Decimal>,
}
