//! One ballot: the coordinator's rules of `redlatch-ballot`, with messages that travel.
//!
//! ```text
//!   freeze receipt ─▶ keys of three that may vote ─▶ Coordinator ── steps ──▶ calls, each a task
//!                                                        ▲                        │
//!                                                        └────── what was heard ──┘
//! ```
//!
//! A party that is not reached is asked again for a while and then counts as silent. Nothing is remembered
//! across ballots: a later coordinator finds the votes, and the sheet they opened, at the verifiers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use redlatch_ballot::coordinator::{Blame, Deadlines, Request};
use redlatch_ballot::messages::{BallotPacketV1, PublicKeyPackageV1, SealedAnswerV1};
use redlatch_ballot::{Coordinator, FreezeProof, FrozenIntent, Step, Terms};
use redlatch_journal::IndexKey;
use redlatch_link::logs::INTENT_ID;
use redlatch_link::world::{self, Monotonic};
use redlatch_proto::v1;
use redlatch_raft::engine::Engine;
use redlatch_types::command::RawCommand;
use redlatch_types::in_force::{ActiveKeyV1, InForceV1};
use redlatch_types::receipt::Receipt;
use redlatch_types::records::{SealSheetV1, SentinelVerdictV1, VoteV1};
use redlatch_types::{Canonical, Digest, Envelope, IntentDigest, Refusal, VerifierId};
use tokio::sync::mpsc;

use super::parties::{Question, Said};
use super::{Parties, propose};
use crate::service::Desk;

/// How long a majority may take to cosign the freeze.
const RECEIPT_DEADLINE: Duration = Duration::from_secs(30);
/// How long three verifiers may take to be there.
const KEYS_DEADLINE: Duration = Duration::from_secs(10);
/// How long a party that is not reached is asked again before it counts as silent.
const SILENT_AFTER: Duration = Duration::from_secs(4);
/// Pause between two attempts to reach a party.
const ASK_AGAIN: Duration = Duration::from_millis(300);
/// For the fourth seal, milliseconds from the beginning; a little more than evaluators get by default.
const SEAL_MS: u64 = 22_000;
/// For the whole ballot.
const DECIDE_MS: u64 = 30_000;
/// For a member's share.
const SHARE_MS: u64 = 5_000;
/// Terms of ballots per Raft term: room for renewed commitments.
const TERMS_PER_LEADER: u64 = 16;
/// Approvals that a decision needs; fewer verifiers cannot decide.
const VOTERS_MIN: usize = 3;

/// What a task heard.
enum Heard {
    Voter(VerifierId, Request, Said),
    Verdict(Envelope),
}

/// Everything a ballot rests on.
struct Ground {
    terms: Terms,
    frozen: FrozenIntent,
    receipt: String,
}

/// A ballot under way.
struct Ballot<E> {
    desk: Arc<Desk<E>>,
    parties: Arc<Parties>,
    digest: IntentDigest,
    receipt: Arc<str>,
    intent: Vec<u8>,
    begun: Monotonic,
    heard: mpsc::UnboundedSender<Heard>,
}

/// Carries one ballot to its end: a decision that is proposed, or an abstention that is noted.
pub(super) async fn run<E: Engine>(
    desk: Arc<Desk<E>>,
    parties: Arc<Parties>,
    digest: IntentDigest,
) {
    let ground = match ground(&desk, &digest).await {
        Ok(ground) => ground,
        Err((refusal, note)) => return desk.progress.waiting(&digest, refusal, note),
    };
    desk.progress.begun(&digest, ground.terms.roster());
    let Some(keys) = keys(&parties, &ground.terms).await else {
        return desk
            .progress
            .abstained(&digest, Refusal::InsufficientQuorum);
    };
    let (heard, hearing) = mpsc::unbounded_channel();
    let ballot = Ballot {
        receipt: ground.receipt.as_str().into(),
        intent: ground.frozen.bytes().0.clone(),
        begun: Monotonic::now(),
        desk,
        parties,
        digest,
        heard,
    };
    ballot.carry(ground, &keys, hearing).await;
}

/// What stands in the way when the freeze cannot be read.
const UNREADABLE: (Refusal, &str) = (Refusal::UnknownIntent, "the freeze cannot be read here");

/// The receipt of an intent's freeze, from this node's own journal.
pub(super) async fn freeze_receipt<E: Engine>(
    desk: &Desk<E>,
    digest: &IntentDigest,
) -> Result<Receipt, (Refusal, &'static str)> {
    let key = IndexKey::Frozen(*digest).to_bytes();
    let position = desk.raft.find(&key).ok().flatten().ok_or(UNREADABLE)?;
    let receipt = desk.raft.wait_receipt(position, RECEIPT_DEADLINE).await;
    receipt.map_err(|_| {
        let note = "no majority has cosigned the freeze yet";
        (Refusal::WitnessesMissing, note)
    })
}

/// Terms, intent and freeze receipt, from this node's own journal.
async fn ground<E: Engine>(
    desk: &Desk<E>,
    digest: &IntentDigest,
) -> Result<Ground, (Refusal, &'static str)> {
    let unreadable = UNREADABLE;
    let receipt = freeze_receipt(desk, digest).await?;
    let proof = FreezeProof::of_verified_leaf(&receipt.leaf).map_err(|_| unreadable)?;
    let bytes = desk.raft.read(|state| {
        let live = state.authority.intents.get(digest);
        live.map(|it| it.intent.to_canonical())
    });
    let frozen = FrozenIntent::check(&proof, &bytes.ok_or(unreadable)?).map_err(|_| unreadable)?;
    let no_key = (
        Refusal::InsufficientQuorum,
        "the quorum has no key yet; the verifiers make it",
    );
    let terms = terms(desk).ok_or(no_key)?;
    Ok(Ground {
        terms,
        frozen,
        receipt: receipt.to_string(),
    })
}

/// The terms in force, once the quorum has a key: an amendment may have changed more than the roster.
fn terms<E: Engine>(desk: &Desk<E>) -> Option<Terms> {
    let known = desk.raft.read(|state| {
        let governance = state.authority.governance.as_ref()?;
        let key = governance.quorum_key.as_ref()?;
        // What is applied is whole: nothing stands behind it.
        let next = state.log.frontier.size();
        Some(InForceV1 {
            next,
            epoch_next: next,
            acts_since: Vec::new(),
            former_sentinels: Vec::new(),
            last_key_epoch: governance.last_key_epoch,
            scope: governance.scope(),
            roster: governance.roster.clone(),
            kernel: governance.kernel.clone(),
            constitution: governance.constitution.clone(),
            autonomy_epoch: governance.epoch.autonomy_epoch,
            quorum_key: Some(ActiveKeyV1 {
                epoch: key.epoch,
                group_key: key.group_key,
                public_key_package_digest: key.public_key_package_digest,
            }),
            root_acts: governance.root_acts,
        })
    })?;
    Terms::in_force(&known).ok()
}

/// The public key package of the key in force, once enough verifiers may vote.
async fn keys(parties: &Parties, terms: &Terms) -> Option<PublicKeyPackageV1> {
    let pinned = terms.quorum_key()?.public_key_package_digest;
    let until = Monotonic::now().plus(KEYS_DEADLINE);
    loop {
        let asked = join_all(parties.voters().map(|it| parties.key(it))).await;
        let able: Vec<PublicKeyPackageV1> = asked
            .into_iter()
            .flatten()
            .filter(|it| it.digest() == pinned)
            .collect();
        if able.len() >= VOTERS_MIN {
            return able.into_iter().next();
        }
        if until.since(Monotonic::now()).is_zero() {
            return None;
        }
        world::sleep(ASK_AGAIN).await;
    }
}

impl<E: Engine> Ballot<E> {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    async fn carry(
        &self,
        ground: Ground,
        keys: &PublicKeyPackageV1,
        mut hearing: mpsc::UnboundedReceiver<Heard>,
    ) {
        let term = self
            .desk
            .raft
            .metrics()
            .term
            .saturating_mul(TERMS_PER_LEADER);
        let deadlines = Deadlines {
            seal_by: SEAL_MS,
            decide_by: DECIDE_MS,
            share_ms: SHARE_MS,
        };
        let begun = Coordinator::begin(ground.terms, ground.frozen, keys, term, deadlines);
        let (mut coordinator, mut steps) = match begun {
            Ok(begun) => begun,
            Err(fault) => {
                let note = fault.to_string();
                return self
                    .desk
                    .progress
                    .waiting(&self.digest, Refusal::StaleRoster, &note);
            }
        };
        loop {
            for step in steps {
                if self.take(&coordinator, step).await {
                    return;
                }
            }
            let wake = coordinator.next_timeout().unwrap_or(DECIDE_MS);
            let wait = Duration::from_millis(wake.saturating_sub(self.now()));
            steps = match world::timeout(wait, hearing.recv()).await {
                Ok(Some(heard)) => self.tell(&mut coordinator, heard),
                // This ballot holds a sender itself.
                Ok(None) => return,
                Err(world::DeadlinePassed) => coordinator.handle_timeout(self.now()),
            };
        }
    }

    /// Does what the coordinator wants. True at the ballot's end.
    async fn take(&self, coordinator: &Coordinator, step: Step) -> bool {
        let request = step.request().map(|(_, request)| request);
        match step {
            Step::Ask { to, term } => {
                let packet = BallotPacketV1 {
                    intent: self.intent.clone().into(),
                    term,
                    fresh: self.fresh(term),
                };
                let question = Question::Ballot(v1::BallotRequest {
                    packet: packet.to_canonical(),
                    freeze_receipt: self.receipt.to_string(),
                });
                self.ask(to, request, question);
            }
            Step::Open { to, sheet } if coordinator.sheet() == Some(&sheet) => {
                let question = Question::Open(v1::OpenRequest {
                    sheet: sheet.to_canonical(),
                });
                self.ask(to, request, question);
            }
            Step::Open { .. } => {}
            Step::Sign { to, package } => {
                let question = Question::Sign(v1::SignRequest {
                    package: package.to_canonical(),
                });
                self.ask(to, request, question);
            }
            Step::Sentinel => self.ask_sentinel(),
            Step::Blame(blame) => self.blame(&blame),
            Step::Authorize(authorization) => {
                let command = RawCommand::Authorize(authorization);
                self.desk.progress.decided(&self.digest);
                propose(&self.desk, self.digest, &command).await;
                return true;
            }
            Step::Abstain(why) => {
                let refusal = why.refusal();
                tracing::warn!({ INTENT_ID } = %self.digest, %refusal, "the ballot ended without a decision");
                self.desk.progress.abstained(&self.digest, refusal);
                return true;
            }
        }
        false
    }

    /// Something that no earlier attempt had: mixed into the verifiers' nonces (FAULTS 34).
    fn fresh(&self, term: u64) -> Digest {
        Digest::of_parts(&[
            b"redlatch/v1/ballot-fresh\0",
            self.receipt.as_bytes(),
            &term.to_be_bytes(),
            &world::now_unix_ms().to_be_bytes(),
        ])
    }

    fn blame(&self, blame: &Blame) {
        let verifier = &blame.verifier_id;
        tracing::error!({ INTENT_ID } = %self.digest, %verifier, "gave a bad share");
        let note = format!("{verifier} gave a bad signature share");
        self.desk.progress.note(&self.digest, &note);
    }

    /// Asks a verifier in a task of its own; one that is not reached is asked again for a while.
    fn ask(&self, to: VerifierId, request: Option<Request>, question: Question) {
        let Some(request) = request else {
            return;
        };
        let (parties, heard) = (Arc::clone(&self.parties), self.heard.clone());
        world::spawn(async move {
            let until = Monotonic::now().plus(SILENT_AFTER);
            let said = loop {
                // The ballot is over: nobody wants the answer any more.
                if heard.is_closed() {
                    return;
                }
                let said = parties.ask(&to, question.clone()).await;
                if said != Said::Silent || until.since(Monotonic::now()).is_zero() {
                    break said;
                }
                world::sleep(ASK_AGAIN).await;
            };
            let _ = heard.send(Heard::Voter(to, request, said));
        });
    }

    /// Asks the sentinel until it speaks or the ballot is over: its silence is no verdict.
    fn ask_sentinel(&self) {
        let (parties, heard) = (Arc::clone(&self.parties), self.heard.clone());
        let (desk, digest, receipt) = (Arc::clone(&self.desk), self.digest, self.receipt.clone());
        world::spawn(async move {
            while !heard.is_closed() {
                if let Some(verdict) = parties.verdict(&receipt).await {
                    let _ = heard.send(Heard::Verdict(verdict));
                    return;
                }
                desk.progress.sentinel_silent(&digest);
                world::sleep(ASK_AGAIN).await;
            }
        });
    }

    /// Tells the coordinator what was heard.
    fn tell(&self, coordinator: &mut Coordinator, heard: Heard) -> Vec<Step> {
        let now = self.now();
        match heard {
            Heard::Verdict(envelope) => {
                if let Ok(signed) = envelope.open::<SentinelVerdictV1>() {
                    self.desk.progress.verdict(&self.digest, signed.record());
                }
                self.fault("sentinel", coordinator.handle_verdict(&envelope, now))
            }
            Heard::Voter(from, request, Said::Silent) => {
                // A sheet or package without an answer has its deadline at the coordinator.
                if matches!(request, Request::Packet(_)) {
                    let refusal = Refusal::InsufficientQuorum;
                    return coordinator.handle_refusal(&from, request, refusal, now);
                }
                Vec::new()
            }
            Heard::Voter(from, request, Said::Refused(refusal, opened)) => {
                tracing::warn!({ INTENT_ID } = %self.digest, verifier = %from, %refusal, "a verifier refuses");
                self.desk
                    .progress
                    .voter_refused(&self.digest, &from, refusal);
                let opened = opened.and_then(|it| SealSheetV1::from_canonical(&it).ok());
                match (request, opened) {
                    (Request::Sheet(_), Some(sheet)) => {
                        coordinator.handle_other_sheet(&from, sheet, now)
                    }
                    _ => coordinator.handle_refusal(&from, request, refusal, now),
                }
            }
            Heard::Voter(from, request, Said::Answer(bytes)) => {
                self.answered(coordinator, &from, request, &bytes, now)
            }
        }
    }

    fn answered(
        &self,
        coordinator: &mut Coordinator,
        from: &VerifierId,
        request: Request,
        bytes: &[u8],
        now: u64,
    ) -> Vec<Step> {
        let progress = &self.desk.progress;
        let envelope = || Envelope::from_canonical(bytes).ok();
        let unreadable = || {
            progress.note(
                &self.digest,
                &format!("{from} gave an answer that cannot be read"),
            );
            Vec::new()
        };
        match request {
            Request::Packet(_) => {
                let Ok(answer) = SealedAnswerV1::from_canonical(bytes) else {
                    return unreadable();
                };
                let late = coordinator
                    .sheet()
                    .is_some_and(|it| it.seal_of(from).is_none());
                progress.sealed(&self.digest, from, late);
                self.fault(from, coordinator.handle_sealed(from, answer, now))
            }
            Request::Sheet(_) => {
                let Some(vote) = envelope() else {
                    return unreadable();
                };
                let steps = coordinator.handle_opened(from, &vote, now);
                if steps.is_ok() {
                    self.opened(from, &vote);
                }
                self.fault(from, steps)
            }
            Request::Package(_) => {
                let Some(share) = envelope() else {
                    return unreadable();
                };
                self.fault(from, coordinator.handle_share(from, &share, now))
            }
        }
    }

    /// Notes an opened vote and asks for what is behind it.
    fn opened(&self, from: &VerifierId, vote: &Envelope) {
        let Ok(signed) = vote.open::<VoteV1>() else {
            return;
        };
        self.desk.progress.opened(&self.digest, signed.record());
        let findings_digest = signed.record().findings_digest;
        let (desk, parties) = (Arc::clone(&self.desk), Arc::clone(&self.parties));
        let (digest, from) = (self.digest, from.clone());
        world::spawn(async move {
            let findings = parties.findings(&from, &findings_digest).await;
            // Findings of somebody else would be shown beside the wrong vote.
            if let Some(findings) = findings.filter(|it| it.verifier_id == from) {
                desk.progress.found(&digest, &findings);
            }
        });
    }

    fn fault(
        &self,
        from: impl std::fmt::Display,
        steps: Result<Vec<Step>, redlatch_ballot::coordinator::AnswerFault>,
    ) -> Vec<Step> {
        steps.unwrap_or_else(|fault| {
            tracing::warn!({ INTENT_ID } = %self.digest, %from, %fault, "an answer is not taken");
            self.desk
                .progress
                .note(&self.digest, &format!("{from}: {fault}"));
            Vec::new()
        })
    }
}

/// Findings of several verifiers, by verifier.
pub(crate) async fn findings_of(
    parties: &Parties,
    votes: &[(VerifierId, Digest)],
) -> BTreeMap<VerifierId, redlatch_types::records::FindingsV1> {
    let asked = votes.iter().map(|(verifier, digest)| async move {
        let found = parties.findings(verifier, digest).await?;
        (found.verifier_id == *verifier).then(|| (verifier.clone(), found))
    });
    join_all(asked).await.into_iter().flatten().collect()
}
