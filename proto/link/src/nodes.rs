//! The client of the cluster: follows the leader, repeats what may be repeated, confuses no answers.
//!
//! ```text
//!   submit ──▶ node ──▶ reply: accepted or refused                          Ok(Submitted)
//!     ▲         ├─ not_leader, unavailable, limit: nothing happened ──▶ next node, until the deadline
//!     │         ├─ a certificate is not accepted: nothing happened ──▶ next node, each of them once
//!     └─────────└─ indeterminate, or cut off: ask by key, then the same bytes again (D3) ──┘
//! ```
//!
//! The same bytes again are safe because every command of the journal answers a repeat with its first
//! outcome; what the caller says in [`Again`] decides whether they are sent. At the deadline the error says
//! which of *unavailable* and *indeterminate* is true. Signed answers are checked here against the key and
//! the nonce; receipts and leaves are handed on as they came.

mod call;
pub mod rosters;
mod round;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redlatch_proto::answer::NoAnswer;
use redlatch_proto::v1;
use redlatch_types::event::{Accepted, Reply};
use redlatch_types::records::StatusV1;
use redlatch_types::{
    Canonical, Digest, Envelope, EventId, IntentDigest, OrganismId, PublicKey, Refusal, ResourceId,
    Signed, SubjectId,
};

use crate::exit::{ExitCode, Fails};
use crate::identity::{PeerIdentity, Role};
use crate::transport::{Dialer, Link, NotTrusted, TransportError};
use call::{Heard, call};
use round::{Round, Trust};

/// A generated client of one node.
type Client = crate::client_type!(v1::authority_client::AuthorityClient);

/// How long one attempt on one node may take before another is asked.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How much longer an attempt may take than the receipt it waits for.
const RECEIPT_GRACE: Duration = Duration::from_secs(2);

/// One node as its clients know it.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name in its certificate.
    pub name: String,
    /// `host:port` of its client listener.
    pub address: String,
    /// The key it signs statuses with.
    pub record_key: PublicKey,
}

/// Whether a command may be sent again when nobody knows what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Again {
    /// Yes, after asking by this key: the first outcome is remembered under it.
    ByKey(SubjectId, EventId),
    /// Yes: a repeat is answered with what the first led to.
    SameAnswer,
    /// No: the caller reads the state first.
    Never,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// The journal's reply.
    pub reply: Reply,
    /// Term and index of its Raft entry, where this reply came with one.
    pub entry: Option<(u64, u64)>,
    /// Its leaves.
    pub leaves: Range<u64>,
    /// The receipt of its last leaf, if one was asked for and was there in time.
    pub receipt: Option<String>,
}

impl Submitted {
    /// What it led to, or why nothing happened.
    ///
    /// # Errors
    /// The journal's refusal.
    pub fn accepted(self) -> Result<Accepted, Refusal> {
        self.reply.into()
    }
}

/// Why there is no answer of the journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing happened: no node could answer before the deadline.
    #[error("no node could answer: {0}")]
    Unavailable(String),
    /// Nothing happened: the cluster takes on no more.
    #[error("the cluster takes on no more: {0}")]
    Limit(String),
    /// It may have happened.
    #[error("nobody knows whether it happened: {0}")]
    Indeterminate(String),
    /// Nothing happened: this caller may not ask for that.
    #[error("not authorised: {0}")]
    Denied(String),
    /// Nothing happened: no node that could be reached and this process accept each other's certificates.
    #[error(transparent)]
    NotTrusted(#[from] NotTrusted),
    /// Nothing happened: the request is malformed.
    #[error("malformed request: {0}")]
    Invalid(String),
    /// It is not there before the deadline.
    #[error("not yet: {0}")]
    NotYet(String),
    /// There is no such thing in the journal.
    #[error("not in the journal: {0}")]
    Absent(String),
    /// A node gave an answer that cannot be believed.
    #[error("node {node} gave an answer that cannot be believed: {what}")]
    Misbehaved {
        /// Which node.
        node: String,
        /// What is wrong with it.
        what: String,
    },
}

impl Fails for CallError {
    fn code(&self) -> ExitCode {
        match self {
            CallError::Unavailable(_) | CallError::Limit(_) | CallError::NotYet(_) => {
                ExitCode::Unavailable
            }
            CallError::Indeterminate(_) => ExitCode::Indeterminate,
            CallError::Denied(_) | CallError::NotTrusted(_) => ExitCode::Refused,
            CallError::Invalid(_) | CallError::Absent(_) | CallError::Misbehaved { .. } => {
                ExitCode::Error
            }
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            CallError::Unavailable(_) => "check that a majority of the nodes runs: redlatch status",
            CallError::Limit(_) => "nothing happened; try again with fewer calls at once",
            CallError::Indeterminate(_) => {
                "repeat with the same event id: the first outcome is answered"
            }
            CallError::Denied(_) => "use a certificate of this organism whose role may do this",
            CallError::NotTrusted(reason) => return reason.hint(),
            CallError::NotYet(_) => "a majority of the nodes has to cosign first; ask again",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// A node with the client that reaches it.
struct Peer {
    member: Member,
    client: Client,
}

/// The cluster as one process calls it. Clones share connections and what is known of the leader.
#[derive(Clone)]
pub struct Nodes(Arc<Shared>);

struct Shared {
    organism: OrganismId,
    peers: Vec<Peer>,
    /// Index of the node that answered last: most likely the leader.
    preferred: AtomicUsize,
}

impl Nodes {
    /// Links to every member. Nothing is connected yet.
    ///
    /// # Errors
    /// [`TransportError::NotAnAddress`] for an address or name that cannot be dialled.
    pub fn new(dialer: &Dialer, members: &[Member]) -> Result<Nodes, TransportError> {
        let organism = dialer.identity().organism;
        let peer = |member: &Member| -> Result<Peer, TransportError> {
            let refuse = |_| TransportError::NotAnAddress(member.name.clone());
            let identity = PeerIdentity::new(organism, Role::Node, member.name.as_str());
            let link = dialer.channel(&member.address, &identity.map_err(refuse)?)?;
            Ok(Peer {
                member: member.clone(),
                client: client(&link),
            })
        };
        let peers: Vec<Peer> = members.iter().map(peer).collect::<Result<_, _>>()?;
        if peers.is_empty() {
            return Err(TransportError::NotAnAddress("no node".to_owned()));
        }
        Ok(Nodes(Arc::new(Shared {
            organism,
            peers,
            preferred: AtomicUsize::new(0),
        })))
    }

    /// The members, in the order they were given.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.0.peers.iter().map(|peer| &peer.member)
    }

    /// Sends a command until a node has an answer of the journal or `deadline` has passed.
    /// `receipt_wait` asks for a receipt of its last leaf as well; zero does not.
    ///
    /// # Errors
    /// [`CallError`]; a refusal of the journal is not an error here.
    pub async fn submit(
        &self,
        command: &[u8],
        again: &Again,
        deadline: Duration,
        receipt_wait: Duration,
    ) -> Result<Submitted, CallError> {
        let request = v1::SubmitRequest {
            command: command.to_vec(),
            receipt_wait_ms: millis(receipt_wait),
        };
        let attempt = ATTEMPT + receipt_wait.saturating_add(RECEIPT_GRACE);
        let mut round = Round::new(deadline);
        let mut uncertain: Option<String> = None;
        let mut trust = Trust::new(self.0.peers.len());
        let mut at = self.preferred();
        loop {
            let (peer, message) = (&self.0.peers[at], request.clone());
            let mut client = peer.client.clone();
            let span = round.left().min(attempt);
            let heard = call(span, message, async |it| client.submit(it).await).await;
            trust.note(&heard);
            let (text, leader) = match heard {
                Heard::Answer(answer) => {
                    self.0.preferred.store(at, Ordering::Relaxed);
                    return submitted(peer, answer);
                }
                Heard::None(NoAnswer::Indeterminate, text) | Heard::CutOff(text) => {
                    uncertain = Some(text.clone());
                    if *again == Again::Never {
                        return Err(CallError::Indeterminate(text));
                    }
                    if let Some(first) = self.first_outcome(again, &round).await {
                        return first;
                    }
                    (text, None)
                }
                Heard::NotLeader(leader, text) => (text, leader),
                Heard::None(NoAnswer::Unavailable | NoAnswer::Limit, text)
                | Heard::NeverSent(text) => (text, None),
                Heard::NotTrusted(reason) => (reason.to_string(), None),
                Heard::None(kind, text) => return Err(error(kind, text, uncertain)),
            };
            if let Some(reason) = trust.verdict(&round) {
                return Err(reason.into());
            }
            let hinted = leader
                .and_then(|name| self.index(&name))
                .filter(|next| *next != at);
            at = hinted.unwrap_or((at + 1) % self.0.peers.len());
            if !round.pause(hinted.is_some()).await {
                let late = || error(NoAnswer::Unavailable, text, uncertain);
                return Err(trust.verdict(&round).map_or_else(late, CallError::from));
            }
        }
    }

    /// The first outcome of a command whose fate is unknown, if a node knows it.
    async fn first_outcome(
        &self,
        again: &Again,
        round: &Round,
    ) -> Option<Result<Submitted, CallError>> {
        let Again::ByKey(subject, event) = again else {
            return None;
        };
        let found = self
            .outcome(subject, event, round.left().min(ATTEMPT))
            .await;
        found.ok().flatten().map(|reply| {
            Ok(Submitted {
                reply,
                entry: None,
                leaves: 0..0,
                receipt: None,
            })
        })
    }

    /// What a command led to that was sent under this idempotency key; `None` if the journal knows none.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn outcome(
        &self,
        subject: &SubjectId,
        event: &EventId,
        deadline: Duration,
    ) -> Result<Option<Reply>, CallError> {
        let request = v1::OutcomeRequest {
            subject: subject.to_string(),
            event_id: event.0.0.to_vec(),
        };
        let ask = async |client: &mut Client, it| client.outcome(it).await;
        let (peer, answer) = self.ask(request, deadline, ask).await?;
        answer
            .reply
            .map(|reply| Reply::from_canonical(&reply))
            .transpose()
            .map_err(|fault| misbehaved(peer, &fault))
    }

    /// A fresh signed status of one node, checked against its key and a nonce.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Invalid`] if no member has this name.
    pub async fn status(
        &self,
        node: &str,
        nonce: Digest,
        intent: Option<IntentDigest>,
        deadline: Duration,
    ) -> Result<Signed<StatusV1>, CallError> {
        let peer = self.peer(node)?;
        let request = v1::StatusRequest {
            nonce: nonce.0.to_vec(),
            intent_digest: intent.map(|digest| digest.0.0.to_vec()),
        };
        let mut client = peer.client.clone();
        let heard = call(deadline, request, async |it| client.status(it).await).await;
        let answer = heard.read()?;
        self.checked_status(peer, &answer.status, nonce, intent)
    }

    /// A fresh signed status of whichever node answers first in turn: what clients stamp from (D7).
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn any_status(
        &self,
        nonce: Digest,
        deadline: Duration,
    ) -> Result<Signed<StatusV1>, CallError> {
        let request = v1::StatusRequest {
            nonce: nonce.0.to_vec(),
            intent_digest: None,
        };
        let ask = async |client: &mut Client, it| client.status(it).await;
        let (peer, answer) = self.ask(request, deadline, ask).await?;
        self.checked_status(peer, &answer.status, nonce, None)
    }

    fn checked_status(
        &self,
        peer: &Peer,
        bytes: &[u8],
        nonce: Digest,
        intent: Option<IntentDigest>,
    ) -> Result<Signed<StatusV1>, CallError> {
        let envelope = Envelope::from_canonical(bytes).map_err(|fault| misbehaved(peer, &fault))?;
        let status = envelope
            .open::<StatusV1>()
            .map_err(|fault| misbehaved(peer, &fault))?;
        let ours = *status.key() == peer.member.record_key
            && status.scope().organism_id == self.0.organism
            && status.record().nonce == nonce
            && status.record().intent_digest_optional == intent;
        if ours {
            Ok(status)
        } else {
            Err(misbehaved(
                peer,
                &"the status is not its own, or not of this question",
            ))
        }
    }

    /// The text of a leaf's receipt, as soon as a majority has cosigned a head above it.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::NotYet`] if that takes longer than `deadline`.
    pub async fn receipt(
        &self,
        leaf: v1::leaf_at::At,
        deadline: Duration,
    ) -> Result<String, CallError> {
        let request = v1::ReceiptRequest {
            leaf: Some(v1::LeafAt { at: Some(leaf) }),
            wait_ms: millis(deadline),
        };
        let ask = async |client: &mut Client, it| client.receipt(it).await;
        let span = deadline.saturating_add(RECEIPT_GRACE);
        let (_, answer) = self.ask(request, span, ask).await?;
        Ok(answer.receipt)
    }

    /// One leaf: its position and bytes, unproven.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Absent`] if the node that was asked has none.
    pub async fn leaf(
        &self,
        leaf: v1::leaf_at::At,
        deadline: Duration,
    ) -> Result<(u64, Vec<u8>), CallError> {
        let request = v1::LeafRequest {
            leaf: Some(v1::LeafAt { at: Some(leaf) }),
        };
        let ask = async |client: &mut Client, it| client.leaf(it).await;
        let (_, answer) = self.ask(request, deadline, ask).await?;
        Ok((answer.position, answer.leaf))
    }

    /// What a resource is at, unproven.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn resource(
        &self,
        resource: ResourceId,
        deadline: Duration,
    ) -> Result<v1::ResourceResponse, CallError> {
        let request = v1::ResourceRequest {
            resource_id: resource.0.0.to_vec(),
        };
        let ask = async |client: &mut Client, it| client.resource(it).await;
        Ok(self.ask(request, deadline, ask).await?.1)
    }

    /// How far the decision on an intent came, and who said what; unproven. While it is undecided only the
    /// leader knows.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn progress(
        &self,
        intent: IntentDigest,
        deadline: Duration,
    ) -> Result<v1::ProgressResponse, CallError> {
        let request = v1::ProgressRequest {
            intent_digest: intent.0.0.to_vec(),
        };
        let ask = async |client: &mut Client, it| client.progress(it).await;
        Ok(self.ask(request, deadline, ask).await?.1)
    }

    /// Brings what a decision rests on to the leader. Bringing it again is safe.
    ///
    /// # Errors
    /// [`CallError`]; that it would not count is an answer.
    pub async fn support(
        &self,
        support: v1::support_request::Support,
        deadline: Duration,
    ) -> Result<v1::SupportResponse, CallError> {
        let request = v1::SupportRequest {
            support: Some(support),
        };
        let ask = async |client: &mut Client, it| client.support(it).await;
        Ok(self.ask(request, deadline, ask).await?.1)
    }

    /// The rules and parties in force, unproven.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn governance(
        &self,
        deadline: Duration,
    ) -> Result<v1::GovernanceResponse, CallError> {
        let ask = async |client: &mut Client, it| client.governance(it).await;
        let request = v1::GovernanceRequest {};
        Ok(self.ask(request, deadline, ask).await?.1)
    }

    /// One node's signed word on the feature level that its build carries.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn feature(&self, node: &str, deadline: Duration) -> Result<Envelope, CallError> {
        let peer = self.peer(node)?;
        let mut client = peer.client.clone();
        let request = v1::FeatureRequest {};
        let heard = call(deadline, request, async |it| client.feature(it).await).await;
        let answer = heard.read()?;
        Envelope::from_canonical(&answer.support).map_err(|fault| misbehaved(peer, &fault))
    }

    /// What one node shows about itself.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn cluster(
        &self,
        node: &str,
        deadline: Duration,
    ) -> Result<v1::ClusterResponse, CallError> {
        self.shown(node, v1::ClusterRequest::default(), deadline)
            .await
    }

    /// As [`Nodes::cluster`], with what the node's state comes to: that costs it a pass over its state.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn cluster_with_state(
        &self,
        node: &str,
        deadline: Duration,
    ) -> Result<v1::ClusterResponse, CallError> {
        let request = v1::ClusterRequest { state_digest: true };
        self.shown(node, request, deadline).await
    }

    async fn shown(
        &self,
        node: &str,
        request: v1::ClusterRequest,
        deadline: Duration,
    ) -> Result<v1::ClusterResponse, CallError> {
        let mut client = self.peer(node)?.client.clone();
        call(deadline, request, async |it| client.cluster(it).await)
            .await
            .read()
    }

    /// Leaves from a position on, of whichever node answers; with `follow` the stream does not end by itself.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn journal(
        &self,
        from: u64,
        follow: bool,
        deadline: Duration,
    ) -> Result<tonic::Streaming<v1::JournalLeaf>, CallError> {
        let request = v1::JournalRequest { from, follow };
        let ask = async |client: &mut Client, it: tonic::Request<v1::JournalRequest>| {
            // A deadline in the request would end the stream as well.
            client.journal(it.into_inner()).await
        };
        Ok(self.ask(request, deadline, ask).await?.1)
    }

    /// Asks one node after the other until one answers: for what changes nothing.
    async fn ask<Q: Clone, T>(
        &self,
        message: Q,
        deadline: Duration,
        mut ask: impl AsyncFnMut(
            &mut Client,
            tonic::Request<Q>,
        ) -> Result<tonic::Response<T>, tonic::Status>,
    ) -> Result<(&Peer, T), CallError> {
        let mut round = Round::new(deadline);
        let mut trust = Trust::new(self.0.peers.len());
        let mut at = self.preferred();
        loop {
            let peer = &self.0.peers[at];
            let mut client = peer.client.clone();
            let heard = call(round.left(), message.clone(), async |it| {
                ask(&mut client, it).await
            })
            .await;
            trust.note(&heard);
            let failure = match heard.read() {
                Ok(answer) => return Ok((peer, answer)),
                Err(again @ (CallError::Unavailable(_) | CallError::NotTrusted(_))) => again,
                Err(other) => return Err(other),
            };
            if let Some(reason) = trust.verdict(&round) {
                return Err(reason.into());
            }
            at = (at + 1) % self.0.peers.len();
            if !round.pause(false).await {
                return Err(trust.verdict(&round).map_or(failure, CallError::from));
            }
        }
    }

    fn preferred(&self) -> usize {
        self.0.preferred.load(Ordering::Relaxed) % self.0.peers.len()
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.members().position(|member| member.name == name)
    }

    fn peer(&self, name: &str) -> Result<&Peer, CallError> {
        let at = self
            .index(name)
            .ok_or_else(|| CallError::Invalid(format!("no node is called {name}")))?;
        Ok(&self.0.peers[at])
    }
}

/// The members of a roster with their configured addresses. Nodes without an address are left out.
pub fn members(
    roster: &redlatch_types::records::RosterV1,
    addresses: &BTreeMap<String, String>,
) -> Vec<Member> {
    let member = |node: &redlatch_types::records::RosterNode| {
        let address = addresses.get(node.name.as_str())?.clone();
        Some(Member {
            name: node.name.to_string(),
            address,
            record_key: node.record_key,
        })
    };
    roster.nodes.iter().filter_map(member).collect()
}

fn client(link: &Link) -> Client {
    v1::authority_client::AuthorityClient::with_interceptor(link.channel(), link.introduction())
}

fn submitted(peer: &Peer, answer: v1::SubmitResponse) -> Result<Submitted, CallError> {
    let reply = Reply::from_canonical(&answer.reply).map_err(|fault| misbehaved(peer, &fault))?;
    Ok(Submitted {
        reply,
        entry: answer.term.zip(answer.index),
        leaves: answer.first_leaf..answer.first_leaf.saturating_add(answer.leaves),
        receipt: answer.receipt,
    })
}

fn misbehaved(peer: &Peer, fault: &dyn std::fmt::Display) -> CallError {
    CallError::Misbehaved {
        node: peer.member.name.clone(),
        what: fault.to_string(),
    }
}

/// The error of a kind; once something is uncertain, "nothing happened" can no longer be said.
fn error(kind: NoAnswer, text: String, uncertain: Option<String>) -> CallError {
    match uncertain {
        Some(first) => CallError::Indeterminate(first),
        None => call::error(kind, text),
    }
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(all(test, not(madsim)))]
mod tests {
    use super::*;

    #[test]
    fn once_uncertain_never_again_nothing_happened() {
        let certain = error(NoAnswer::Unavailable, "no leader".into(), None);
        assert_eq!(certain, CallError::Unavailable("no leader".into()));
        let uncertain = error(
            NoAnswer::Unavailable,
            "no leader".into(),
            Some("cut off".into()),
        );
        assert_eq!(uncertain, CallError::Indeterminate("cut off".into()));
        assert_eq!(uncertain.code(), ExitCode::Indeterminate);
    }

    #[test]
    fn exit_codes_of_calls_are_the_published_ones() {
        let text = String::new;
        for (error, code) in [
            (CallError::Unavailable(text()), ExitCode::Unavailable),
            (CallError::Limit(text()), ExitCode::Unavailable),
            (CallError::NotYet(text()), ExitCode::Unavailable),
            (CallError::Indeterminate(text()), ExitCode::Indeterminate),
            (CallError::Denied(text()), ExitCode::Refused),
            (CallError::Invalid(text()), ExitCode::Error),
            (CallError::Absent(text()), ExitCode::Error),
        ] {
            assert_eq!(error.code(), code, "{error}");
        }
    }
}
