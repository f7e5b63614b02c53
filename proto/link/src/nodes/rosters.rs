//! The chain of rosters, fetched from whoever shows it and believed for what it proves (DESIGN D4).
//!
//! ```text
//!   every address ── links after the version known ─▶ Lineage: the next · known · refused · a fork
//!        └─ the first answer, and 250 ms for the others: one node may be behind, or hide a change
//! ```
//!
//! Nodes that are in no known roster are asked as well: after enough changes nobody else is left. A node is
//! known by its certificate alone here, because what it says proves itself or counts for nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use redlatch_proto::v1;
use redlatch_types::RosterEpoch;
use redlatch_types::lineage::{Lineage, RefusedLink, Step};
use redlatch_types::receipt::Receipt;

use super::call::call;
use super::{CallError, Client, client};
use crate::exit::{ExitCode, Fails};
use crate::identity::{PeerIdentity, Role};
use crate::transport::{Dialer, TransportError};
use crate::world::{self, Monotonic};

/// How long the others are waited for once one node has answered.
const FOR_ALL: Duration = Duration::from_millis(250);
/// Most links that are taken from one node at once; further ones are asked for the next time.
const LINKS_MAX: usize = 4_096;

/// Why no chain was followed.
#[derive(Debug, thiserror::Error)]
pub enum NotShown {
    /// An address or name that cannot be dialled.
    #[error(transparent)]
    Address(#[from] TransportError),
    /// No node answered.
    #[error(transparent)]
    Silent(#[from] CallError),
    /// Two histories: nothing is believed any more.
    #[error("{node}: {what}")]
    Forked {
        /// Who showed the second one.
        node: String,
        /// What it is.
        what: String,
    },
}

impl Fails for NotShown {
    fn code(&self) -> ExitCode {
        match self {
            NotShown::Address(error) => error.code(),
            NotShown::Silent(error) => error.code(),
            NotShown::Forked { .. } => ExitCode::Error,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            NotShown::Address(error) => error.hint(),
            NotShown::Silent(error) => error.hint(),
            NotShown::Forked { .. } => {
                Some("believe nothing; keep both and call whoever holds the root's key".to_owned())
            }
        }
    }
}

/// What came of asking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Links that were new.
    pub taken: usize,
    /// Nodes that answered.
    pub answered: usize,
    /// Nodes that showed something that does not hold, with the reason.
    pub refused: Vec<(String, String)>,
}

/// Follows the chain of rosters as far as it is shown by any of these addresses (`host:port` by node name).
///
/// # Errors
/// [`NotShown`]. What was proven before the error stays taken.
pub async fn follow(
    dialer: &Dialer,
    addresses: &BTreeMap<String, String>,
    lineage: &mut Lineage,
    deadline: Duration,
) -> Result<Shown, NotShown> {
    let after = lineage.epoch();
    let mut asked = FuturesUnordered::new();
    for (name, address) in addresses {
        let refuse = |_| TransportError::NotAnAddress(name.clone());
        let organism = dialer.identity().organism;
        let identity = PeerIdentity::new(organism, Role::Node, name.as_str()).map_err(refuse)?;
        let client = client(&dialer.channel(address, &identity)?);
        asked.push(async move { (name, links(client, after, deadline).await) });
    }
    let begun = Monotonic::now();
    let mut wait = deadline;
    let mut shown = Shown::default();
    let mut failure = CallError::Unavailable("no node has an address".to_owned());
    while let Ok(Some((name, answer))) =
        world::timeout(wait.saturating_sub(begun.elapsed()), asked.next()).await
    {
        match answer {
            Ok(links) => {
                shown.answered += 1;
                wait = wait.min(begun.elapsed() + FOR_ALL);
                take(lineage, name, &links, &mut shown)?;
            }
            Err(error) => failure = error,
        }
    }
    if shown.answered == 0 {
        return Err(failure.into());
    }
    Ok(shown)
}

/// Takes one node's links until the first that does not hold.
fn take(
    lineage: &mut Lineage,
    node: &str,
    links: &[Receipt],
    shown: &mut Shown,
) -> Result<(), NotShown> {
    for link in links {
        match lineage.take(link) {
            Ok(Step::Next) => shown.taken += 1,
            Ok(Step::Known) => {}
            Err(fork @ RefusedLink::Forked(_)) => {
                return Err(NotShown::Forked {
                    node: node.to_owned(),
                    what: fork.to_string(),
                });
            }
            Err(broken) => {
                shown.refused.push((node.to_owned(), broken.to_string()));
                break;
            }
        }
    }
    Ok(())
}

/// What one node shows, page by page.
async fn links(
    client: Client,
    after: RosterEpoch,
    deadline: Duration,
) -> Result<Vec<Receipt>, CallError> {
    let mut links = Vec::new();
    let begun = Monotonic::now();
    while links.len() < LINKS_MAX {
        let known = u64::try_from(links.len()).unwrap_or(u64::MAX);
        let request = v1::RostersRequest {
            after: after.0.saturating_add(known),
        };
        let mut client = client.clone();
        let left = deadline.saturating_sub(begun.elapsed());
        let heard = call(left, request, async |it| client.rosters(it).await).await;
        let page = heard.read()?.links;
        if page.is_empty() {
            break;
        }
        for text in page {
            let link = Receipt::parse(text.as_bytes());
            links.push(link.map_err(|fault| CallError::Misbehaved {
                node: "a node".to_owned(),
                what: fault.to_string(),
            })?);
        }
    }
    Ok(links)
}
