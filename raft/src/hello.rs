//! The round before Raft starts (D9): asks every voter what it remembers of this disk, until a
//! majority, this node included, has answered. The judgement is [`crate::peers::judge_hello`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use redlatch_link::world;
use redlatch_proto::v1;
use tonic::Status;

use crate::engine::Engine;
use crate::links::call;
use crate::membership::Seats;
use crate::peers::{HelloVerdict, PeerRow, PeerTable, judge_hello};
use crate::rejoin::{self, Floor, Since};
use crate::shared::Shared;
use crate::wire;

const ANSWER_DEADLINE: Duration = Duration::from_millis(800);
const ROUND_PAUSE: Duration = Duration::from_millis(200);

/// A peer remembers more of this node than its disk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RolledBack {
    /// Who remembers.
    pub(crate) by: u64,
    /// What it remembers.
    pub(crate) row: PeerRow,
}

/// Asks until a majority has answered. Answers are kept between rounds: what a peer remembered
/// once it does not forget. With `returns`, a disk that lost something is no end: the floor is put
/// above what a majority of the others remembers. An empty disk has lost something then, whether or
/// not anybody remembers it: where most disks are gone the organism stands still, and never begins anew.
pub(crate) async fn ask<E: Engine>(
    shared: &Shared<E>,
    returns: bool,
) -> Result<Option<Floor>, RolledBack> {
    let mut voters = shared.seats().voters;
    let mut answers = BTreeMap::new();
    // A table of an earlier boot on the same disk is a memory too.
    answers.insert(shared.own, before_this_boot(shared));
    let disk = shared.memory.disk();
    let is_empty = disk.last_log.is_none() && shared.rejoined.since() == Since::Always;
    loop {
        match judge_hello(shared.own, &disk, &answers, &voters) {
            HelloVerdict::Start if !(returns && is_empty) => return Ok(None),
            HelloVerdict::Start | HelloVerdict::RolledBack { .. } if returns => {
                if let Some(floor) = above_others(shared.own, &answers, &voters) {
                    return Ok(Some(floor));
                }
            }
            HelloVerdict::RolledBack { by, row } => return Err(RolledBack { by, row }),
            HelloVerdict::Start | HelloVerdict::Wait => {}
        }
        if !round(shared, &mut answers).await {
            // Those that this disk knows may all have left: the chain leads to those of today.
            learn(shared).await;
            voters = Seats::of(&shared.known_roster()).voters;
            world::sleep(ROUND_PAUSE).await;
        }
    }
}

/// The floor above what the others remember, once a majority of them has answered.
fn above_others(
    own: u64,
    answers: &BTreeMap<u64, PeerTable>,
    voters: &BTreeSet<u64>,
) -> Option<Floor> {
    let others = |node: &&u64| **node != own && answers.contains_key(node);
    let heard = voters.iter().filter(others).count();
    (heard > voters.len() / 2).then(|| rejoin::floor(own, answers.values()))
}

/// Follows the chain of rosters that any node hands out, as far as it holds.
async fn learn<E: Engine>(shared: &Shared<E>) {
    for (name, mut client) in shared.links.strangers() {
        let message = v1::ChainRequest { sender: shared.own };
        let answer = call(ANSWER_DEADLINE, message, |request| async move {
            client.chain(request).await
        });
        match answer.await {
            Err(status) => tracing::debug!(name, %status, "no chain of rosters"),
            Ok(answer) => shared.learn(&answer.links),
        }
    }
    let kept = Default::default();
    for error in shared.links.follow(&shared.known_roster(), &kept).1 {
        tracing::warn!(%error, "a node of the roster cannot be called");
    }
}

fn before_this_boot<E: Engine>(shared: &Shared<E>) -> PeerTable {
    shared.memory.table()
}

/// One round; says whether anybody new has answered.
async fn round<E: Engine>(shared: &Shared<E>, answers: &mut BTreeMap<u64, PeerTable>) -> bool {
    let silent: Vec<u64> = shared
        .links
        .peers()
        .into_iter()
        .filter(|peer| !answers.contains_key(peer))
        .collect();
    let mut calls: FuturesUnordered<_> = silent
        .into_iter()
        .map(|peer| one(shared, peer).map(move |answer| (peer, answer)))
        .collect();
    let before = answers.len();
    while let Some((peer, answer)) = calls.next().await {
        match answer {
            Ok(table) => {
                answers.insert(peer, table);
            }
            Err(status) => tracing::debug!(peer, %status, "no answer to hello"),
        }
    }
    answers.len() > before
}

async fn one<E: Engine>(shared: &Shared<E>, peer: u64) -> Result<PeerTable, Status> {
    let mut client = shared.links.control(peer)?;
    let message = v1::HelloRequest {
        sender: shared.own,
        incarnation: shared.memory.incarnation(),
    };
    let answer = call(ANSWER_DEADLINE, message, |request| async move {
        client.hello(request).await
    })
    .await?;
    Ok(wire::rows_in(answer.rows)?)
}
