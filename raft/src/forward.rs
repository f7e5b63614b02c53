//! REDs on their way from node to node (D2): a node that holds one and does not lead hands it on, so that
//! one delivery of the sentinel, to any node, is enough.
//!
//! Nothing is checked here and nothing is kept for long: who takes a forwarded command out admits it like
//! any other, and who holds a RED hands it on again until it is latched.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use redlatch_proto::v1;
use tokio::sync::Notify;

use crate::engine::Engine;
use crate::links::call;
use crate::shared::Shared;

/// Commands that wait to be taken out; what comes beyond is handed on again.
const WAITING_MAX: usize = 64;
/// How long a peer may take to receive one.
const DEADLINE: Duration = Duration::from_millis(500);

/// What peers have handed on.
#[derive(Debug, Default)]
pub(crate) struct Forwarded {
    waiting: Mutex<VecDeque<Vec<u8>>>,
    arrived: Notify,
}

impl Forwarded {
    /// Takes in a command; false if there is no room.
    pub(crate) fn push(&self, command: Vec<u8>) -> bool {
        let mut waiting = self.lock();
        if waiting.len() >= WAITING_MAX {
            return false;
        }
        waiting.push_back(command);
        drop(waiting);
        self.arrived.notify_one();
        true
    }

    /// Takes out the next one, when there is one.
    pub(crate) async fn next(&self) -> Vec<u8> {
        loop {
            let next = self.lock().pop_front();
            if let Some(command) = next {
                return command;
            }
            self.arrived.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        // Plain bytes: a panic elsewhere leaves them usable.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands a command to every peer at once, one time.
pub(crate) async fn forward<E: Engine>(shared: &Shared<E>, command: &[u8]) {
    let one = async |peer: u64| {
        let message = v1::RedsRequest {
            sender: shared.own,
            command: command.to_vec(),
        };
        let mut client = shared.links.control(peer)?;
        call(DEADLINE, message, |request| async move {
            client.reds(request).await
        })
        .await
    };
    let sent = join_all(shared.links.peers().into_iter().map(one)).await;
    for status in sent.into_iter().filter_map(Result::err) {
        tracing::debug!(%status, "a RED could not be handed on");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_093_what_waits_is_bounded_and_comes_out_in_order() {
        let forwarded = Forwarded::default();
        for number in 0..=WAITING_MAX {
            let room = forwarded.push(vec![u8::try_from(number).unwrap()]);
            assert_eq!(room, number < WAITING_MAX);
        }
        let first = futures::FutureExt::now_or_never(forwarded.next());
        assert_eq!(first, Some(vec![0]));
        assert!(forwarded.push(vec![200]));
    }
}
