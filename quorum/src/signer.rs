//! The machine with its disk: one call at a time, durable before it is said.
//!
//! ```text
//!   ballot ─▶ receipt, bytes ─▶ [one per intent] ─▶ vote known? ── yes ─▶ the same again
//!                                                       └─ no ─▶ evaluate (machine free) ─▶ cast
//! ```
//!
//! Until two fellows have confirmed that this is the latest boot, nothing is said (FAULTS 34): a decision
//! needs three verifiers anyway. A failure of the store takes the machine away for good.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rand_chacha::ChaCha20Rng;
use redlatch_ballot::messages::{BallotPacketV1, PublicKeyPackageV1, SigningPackageV1};
use redlatch_ballot::records::BallotRecordV1;
use redlatch_ballot::verifier::{Answer, Asked, Evaluation};
use redlatch_ballot::{FrozenIntent, KeyShare, Next, Refused, Terms, Verifier, VerifierEffect};
use redlatch_link::follow::Trust;
use redlatch_link::logs::INTENT_ID;
use redlatch_link::store::Store;
use redlatch_link::world;
use redlatch_types::policy::Policy;
use redlatch_types::records::{FindingsV1, SealSheetV1};
use redlatch_types::{Canonical, Digest, IntentDigest, Refusal, VerifierId};
use tokio::sync::Mutex;

use crate::alarm::{Alarm, FatalCause};
use crate::driver;
use crate::evaluate::Panel;
use crate::freeze;
use crate::metrics::{Step, VerifierMetrics};
use crate::store::{self, KeptError};
use crate::vault::Vault;

/// Why a coordinator gets no answer of the machine.
#[derive(Debug)]
pub(crate) enum NoVote {
    /// Refused: nothing happened. With the sheet that was opened before, if that is why.
    Refused(Refusal, Option<SealSheetV1>),
    /// Not now, with the reason.
    Unavailable(&'static str),
}

impl From<Refused> for NoVote {
    fn from(refused: Refused) -> NoVote {
        let refusal = refused.refusal();
        match refused {
            Refused::AlreadyOpened(sheet) => NoVote::Refused(refusal, Some(*sheet)),
            _ => NoVote::Refused(refusal, None),
        }
    }
}

impl From<Refusal> for NoVote {
    fn from(refusal: Refusal) -> NoVote {
        NoVote::Refused(refusal, None)
    }
}

const STOPPING: NoVote = NoVote::Unavailable("this verifier is stopping");

/// The machine and where its nonces come from.
struct Machine {
    verifier: Verifier,
    rng: ChaCha20Rng,
    /// Public half of the share in force.
    public: Option<PublicKeyPackageV1>,
}

/// The verifier's machine over its store.
pub(crate) struct Signer<S> {
    store: S,
    vault: Arc<Vault>,
    machine: Mutex<Option<Machine>>,
    policy: RwLock<Policy>,
    panel: Panel,
    verifier_id: VerifierId,
    alarm: Alarm,
    metrics: VerifierMetrics,
    confirmed: AtomicBool,
    /// Intents in hand, so that each is evaluated once.
    in_hand: std::sync::Mutex<BTreeMap<IntentDigest, Arc<Mutex<()>>>>,
}

/// What a signer is made of.
pub(crate) struct SignerParts<S> {
    pub(crate) store: S,
    pub(crate) vault: Arc<Vault>,
    pub(crate) verifier: Verifier,
    /// Where its nonces come from.
    pub(crate) rng: ChaCha20Rng,
    pub(crate) policy: Policy,
    pub(crate) panel: Panel,
    pub(crate) verifier_id: VerifierId,
    pub(crate) alarm: Alarm,
    pub(crate) metrics: VerifierMetrics,
}

impl<S: Store> Signer<S> {
    pub(crate) fn new(parts: SignerParts<S>) -> Signer<S> {
        parts.metrics.booted(parts.verifier.generation());
        Signer {
            store: parts.store,
            vault: parts.vault,
            machine: Mutex::new(Some(Machine {
                verifier: parts.verifier,
                rng: parts.rng,
                public: None,
            })),
            policy: RwLock::new(parts.policy),
            panel: parts.panel,
            verifier_id: parts.verifier_id,
            alarm: parts.alarm,
            metrics: parts.metrics,
            confirmed: AtomicBool::new(false),
            in_hand: std::sync::Mutex::new(BTreeMap::new()),
        }
    }

    /// Two fellows know of no later boot: this one may vote.
    pub(crate) fn confirm_boot(&self) {
        self.confirmed.store(true, Ordering::Release);
    }

    /// Takes up what is in force, with the share of its key if there is one here.
    pub(crate) async fn adopt(&self, trust: &Trust, terms: Terms, share: Option<KeyShare>) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = trust.policy().clone();
        if let Some(machine) = self.machine.lock().await.as_mut() {
            machine.public = share.as_ref().map(|it| it.public().clone());
            self.metrics
                .adopted(terms.quorum_key().map(|key| key.epoch));
            machine.verifier.adopt(terms, share);
            let epoch = trust.in_force().autonomy_epoch;
            machine.verifier.observe_epoch(epoch);
        }
    }

    /// The public key package of the share in force.
    pub(crate) async fn public_key_package(&self) -> Option<PublicKeyPackageV1> {
        let machine = self.machine.lock().await;
        machine.as_ref().and_then(|it| it.public.clone())
    }

    /// Whether it may vote now.
    pub(crate) async fn can_sign(&self) -> bool {
        let machine = self.machine.lock().await;
        let holds = machine.as_ref().is_some_and(|it| it.verifier.can_sign());
        holds && self.confirmed.load(Ordering::Acquire)
    }

    /// The sealed vote on the intent of a packet.
    pub(crate) async fn ballot(&self, packet: &[u8], receipt: &str) -> Result<Answer, NoVote> {
        self.check_confirmed()?;
        let packet = BallotPacketV1::from_canonical(packet).map_err(|_| Refusal::NotCanonical)?;
        let policy = self.policy();
        let frozen = freeze::frozen(&policy, receipt, &packet.intent.0).map_err(|error| {
            tracing::warn!(%error, "a ballot without a freeze");
            error.refusal()
        })?;
        let asked = Asked {
            term: packet.term,
            fresh: packet.fresh,
        };
        let digest = frozen.digest();
        let turn = self.turn(digest);
        let answer = {
            let _turn = turn.lock().await;
            self.vote(Arc::new(frozen), asked).await
        };
        self.leave(&digest, turn);
        answer
    }

    async fn vote(&self, frozen: Arc<FrozenIntent>, asked: Asked) -> Result<Answer, NoVote> {
        let digest = frozen.digest();
        let first = |machine: &mut Machine, stored: Option<&BallotRecordV1>| {
            let Machine { verifier, rng, .. } = machine;
            match verifier.handle_packet(&frozen, asked, stored, rng)? {
                Next::Evaluate => Ok(None),
                Next::Effects(effects) => Ok(Some(effects)),
            }
        };
        if let Some(answer) = self.step(digest, first).await? {
            return Ok(answer);
        }
        let metrics = &self.metrics;
        let findings = self.panel.evaluate(&frozen, &self.verifier_id, metrics);
        let findings = findings.await;
        self.keep(&findings).await?;
        let evaluation = Evaluation {
            verdict: findings.verdict(),
            findings_digest: findings.digest(),
        };
        // The verdict is secret until the sheet is fixed, in the log too.
        tracing::info!({ INTENT_ID } = %digest, "voting");
        let cast = |machine: &mut Machine, stored: Option<&BallotRecordV1>| {
            let Machine { verifier, rng, .. } = machine;
            let effects = verifier.cast(&frozen, evaluation, asked, stored, rng)?;
            Ok(Some(effects))
        };
        self.step(digest, cast).await?.ok_or(STOPPING)
    }

    /// Opens the vote for a sheet.
    pub(crate) async fn open(&self, sheet: &[u8]) -> Result<Answer, NoVote> {
        self.check_confirmed()?;
        let sheet = SealSheetV1::from_canonical(sheet).map_err(|_| Refusal::NotCanonical)?;
        let open = |machine: &mut Machine, stored: Option<&BallotRecordV1>| {
            machine.verifier.open(&sheet, stored).map(Some)
        };
        let answer = self.step(sheet.intent_digest, open).await?;
        answer.ok_or(STOPPING)
    }

    /// Gives the share of the signature that a package asks for.
    pub(crate) async fn sign(&self, package: &[u8]) -> Result<Answer, NoVote> {
        self.check_confirmed()?;
        let package =
            SigningPackageV1::from_canonical(package).map_err(|_| Refusal::NotCanonical)?;
        let sign = |machine: &mut Machine, stored: Option<&BallotRecordV1>| {
            machine.verifier.sign(&package, stored).map(Some)
        };
        let answer = self.step(package.intent_digest, sign).await?;
        answer.ok_or(STOPPING)
    }

    /// Findings of an opened vote.
    pub(crate) async fn findings(&self, digest: Digest) -> Result<Option<FindingsV1>, NoVote> {
        let store = self.store.clone();
        world::blocking(move || store::opened_findings(&store, &digest))
            .await
            .map_err(|error| self.failed(&error))
    }

    /// One call of the machine with its effects; nobody else calls it meanwhile.
    async fn step(
        &self,
        digest: IntentDigest,
        call: impl FnOnce(
            &mut Machine,
            Option<&BallotRecordV1>,
        ) -> Result<Option<Vec<VerifierEffect>>, Refused>,
    ) -> Result<Option<Answer>, NoVote> {
        let mut slot = self.machine.lock().await;
        if self.alarm.is_raised() {
            *slot = None;
        }
        let machine = slot.as_mut().ok_or(STOPPING)?;
        let store = self.store.clone();
        let stored = world::blocking(move || store::ballot(&store, &digest))
            .await
            .map_err(|error| self.failed(&error))?;
        let Some(effects) = call(machine, stored.as_ref())? else {
            return Ok(None);
        };
        let taken = Step::of(stored.as_ref(), &effects);
        let done = driver::run_effects(&self.store, &self.vault, effects).await;
        let answer = match done {
            Ok(answer) => answer,
            Err(error) => {
                *slot = None;
                return Err(self.failed(&error));
            }
        };
        let sessions = machine.verifier.sessions_open();
        self.metrics.stepped(taken.as_ref(), sessions);
        if let Some(vote) = taken.and_then(|step| step.opened)
            && let Some(findings) = self.findings(vote.findings_digest).await?
        {
            self.metrics.opened(&findings);
        }
        Ok(answer)
    }

    async fn keep(&self, findings: &FindingsV1) -> Result<(), NoVote> {
        let (store, findings) = (self.store.clone(), findings.clone());
        world::blocking(move || store::keep_findings(&store, &findings))
            .await
            .map_err(|error| self.failed(&KeptError::Store(error)))
    }

    fn failed(&self, error: &KeptError) -> NoVote {
        self.alarm.raise(FatalCause::Storage(error.to_string()));
        STOPPING
    }

    /// What receipts must meet now.
    fn policy(&self) -> Policy {
        let policy = self.policy.read();
        policy.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn check_confirmed(&self) -> Result<(), NoVote> {
        if self.confirmed.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err(NoVote::Unavailable(
                "fewer than two fellows have confirmed this boot",
            ))
        }
    }

    fn turn(&self, digest: IntentDigest) -> Arc<Mutex<()>> {
        let mut hands = self.hands();
        let turn = Arc::clone(hands.entry(digest).or_default());
        self.metrics.in_hand(hands.len());
        turn
    }

    /// Forgets an intent that nobody else has in hand.
    fn leave(&self, digest: &IntentDigest, turn: Arc<Mutex<()>>) {
        let mut hands = self.hands();
        drop(turn);
        if hands
            .get(digest)
            .is_some_and(|it| Arc::strong_count(it) == 1)
        {
            hands.remove(digest);
        }
        self.metrics.in_hand(hands.len());
    }

    fn hands(&self) -> std::sync::MutexGuard<'_, BTreeMap<IntentDigest, Arc<Mutex<()>>>> {
        self.in_hand
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
