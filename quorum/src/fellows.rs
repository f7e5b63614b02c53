//! The three other verifiers: links to them, and each one's memory of the others' boots.
//!
//! ```text
//!   this boot's claim ─▶ each fellow ─▶ the latest claim of ours it remembers, under our own signature
//!       two remember none later ─▶ this boot may vote        one remembers a later one ─▶ stop
//! ```
//!
//! A rolled back or copied disk does not know of boots that fellows remember (FAULTS 34). Once shown, that is
//! kept: this store is never started from again, whatever number its next boot would have. A fellow can
//! show only what this verifier's key has signed, so it cannot stop it by a lie. A boot that no two
//! reachable fellows remember stays unknown; `docs/limitations.md` says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redlatch_ballot::Terms;
use redlatch_link::diagnostics::Condition;
use redlatch_link::store::Store;
use redlatch_link::transport::{Dialer, TransportError};
use redlatch_link::world;
use redlatch_link::{PeerIdentity, Role, client_type};
use redlatch_proto::v1;
use redlatch_proto::v1::verifier_client::VerifierClient;
use redlatch_types::records::{BootClaimV1, RosterVerifier};
use redlatch_types::{Canonical, Envelope, Refusal, Signed, VerifierId};

use crate::alarm::{Alarm, FatalCause};
use crate::signer::Signer;
use crate::store::{self, KeptError};

/// How long a fellow may take to answer.
pub(crate) const CALL_DEADLINE: Duration = Duration::from_secs(5);
/// Pause before fellows that did not answer are asked again.
const AGAIN: Duration = Duration::from_millis(500);
/// How many fellows must confirm a boot. A decision needs as many others anyway.
const CONFIRMATIONS: usize = 2;

type Client = client_type!(VerifierClient);

/// One fellow.
#[derive(Clone)]
pub(crate) struct Fellow {
    pub(crate) verifier_id: VerifierId,
    pub(crate) identifier: u16,
    client: Client,
}

impl Fellow {
    fn new(
        dialer: &Dialer,
        verifier: &RosterVerifier,
        address: &str,
    ) -> Result<Fellow, TransportError> {
        let refuse = |_| TransportError::NotAnAddress(address.to_owned());
        let organism = dialer.identity().organism;
        let name = verifier.verifier_id.to_string();
        let peer = PeerIdentity::new(organism, Role::Verifier, name).map_err(refuse)?;
        let link = dialer.channel(address, &peer)?;
        let client = VerifierClient::with_interceptor(link.channel(), link.introduction());
        Ok(Fellow {
            verifier_id: verifier.verifier_id.clone(),
            identifier: verifier.identifier,
            client,
        })
    }

    /// Brings a ceremony message: taken, or refused with a code. `None`: it was not heard.
    pub(crate) async fn ceremony(
        &self,
        message: v1::ceremony_request::Message,
    ) -> Option<Result<(), Refusal>> {
        let request = v1::CeremonyRequest {
            message: Some(message),
        };
        let mut client = self.client.clone();
        let call = world::timeout(CALL_DEADLINE, client.ceremony(request)).await;
        let answer = call.ok()?.ok()?.into_inner();
        Some(match answer.refusal {
            None => Ok(()),
            // A code of another version refuses as well.
            Some(code) => Err(code.parse().unwrap_or(Refusal::NotSupported)),
        })
    }

    async fn boot(&self, claim: Vec<u8>) -> Option<Vec<u8>> {
        let mut client = self.client.clone();
        let request = v1::BootRequest { claim };
        let call = world::timeout(CALL_DEADLINE, client.boot(request)).await;
        Some(call.ok()?.ok()?.into_inner().remembered)
    }
}

/// Links to all fellows that have an address.
///
/// # Errors
/// [`TransportError::NotAnAddress`].
pub(crate) fn fellows(
    dialer: &Dialer,
    terms: &Terms,
    own: &VerifierId,
    addresses: &BTreeMap<String, String>,
) -> Result<Vec<Fellow>, TransportError> {
    let others = terms.roster().verifiers.iter();
    others
        .filter(|it| it.verifier_id != *own)
        .filter_map(|it| Some((it, addresses.get(it.verifier_id.as_str())?)))
        .map(|(it, address)| Fellow::new(dialer, it, address))
        .collect()
}

/// What is known of boots, here and at the fellows.
pub(crate) struct Boots<S> {
    store: S,
    terms: Terms,
    own: Signed<BootClaimV1>,
    alarm: Alarm,
    /// Fellows that remember no later boot of this verifier.
    confirmed: Mutex<BTreeSet<VerifierId>>,
}

impl<S: Store> Boots<S> {
    pub(crate) fn new(store: S, terms: Terms, own: Signed<BootClaimV1>, alarm: Alarm) -> Boots<S> {
        Boots {
            store,
            terms,
            own,
            alarm,
            confirmed: Mutex::new(BTreeSet::new()),
        }
    }

    /// A fellow says which boot it is at. Gives what is remembered of it, durably.
    pub(crate) async fn heard(&self, claim: &[u8]) -> Result<v1::BootResponse, Refusal> {
        let claim = Envelope::from_canonical(claim).map_err(|_| Refusal::NotCanonical)?;
        let claim = self.open(&claim).ok_or(Refusal::Unauthorized)?;
        if claim.record().verifier_id == self.own.record().verifier_id {
            return Err(Refusal::Unauthorized);
        }
        let store = self.store.clone();
        let kept = world::blocking(move || store::remember_boot(&store, &claim)).await;
        let remembered = kept.map_err(|error: KeptError| {
            self.alarm.raise(FatalCause::Storage(error.to_string()));
            Refusal::NotSupported
        })?;
        Ok(v1::BootResponse {
            remembered: remembered.to_canonical(),
        })
    }

    /// A claim that the verifier it names has signed.
    fn open(&self, claim: &Envelope) -> Option<Signed<BootClaimV1>> {
        let signed = claim.open::<BootClaimV1>().ok()?;
        let verifier = self.terms.roster().verifier_by_vote_key(signed.key())?;
        let authentic = verifier.verifier_id == signed.record().verifier_id
            && *signed.scope() == self.terms.scope();
        authentic.then_some(signed)
    }

    /// Whether every fellow has confirmed this boot, so that a ceremony has a chance.
    pub(crate) fn all_heard(&self) -> bool {
        self.confirmed().len() + 1 == self.terms.roster().verifiers.len()
    }

    fn confirmed(&self) -> MutexGuard<'_, BTreeSet<VerifierId>> {
        self.confirmed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What a fellow remembers of us; false if it is not about us.
    async fn remembered(&self, fellow: &VerifierId, remembered: &[u8]) -> bool {
        let claim = Envelope::from_canonical(remembered).ok();
        let claim = claim
            .and_then(|claim| self.open(&claim))
            .filter(|claim| claim.key() == self.own.key());
        let Some(claim) = claim else {
            return false;
        };
        let (theirs, ours) = (claim.record(), self.own.record());
        let later = theirs.generation > ours.generation
            || (theirs.generation == ours.generation && theirs.boot != ours.boot);
        if later {
            // Durable first: the next boot has a higher number than any that a fellow remembers.
            let (store, evidence) = (self.store.clone(), claim.envelope().clone());
            let kept = world::blocking(move || store::keep_rollback(&store, &evidence)).await;
            if let Err(error) = kept {
                tracing::error!(%error, "that the store was rolled back cannot be kept");
            }
            self.alarm.raise(FatalCause::RolledBack {
                fellow: fellow.to_string(),
                remembered: theirs.generation,
                generation: ours.generation,
            });
            return false;
        }
        self.confirmed().insert(fellow.clone());
        true
    }
}

/// Tells every fellow of this boot until all have confirmed it.
pub(crate) async fn tell_boot<S: Store>(
    boots: Arc<Boots<S>>,
    signer: Arc<Signer<S>>,
    fellows: Vec<Fellow>,
    condition: Condition,
) {
    let claim = boots.own.envelope().to_canonical();
    while !boots.all_heard() {
        for fellow in &fellows {
            if boots.confirmed().contains(&fellow.verifier_id) {
                continue;
            }
            if let Some(remembered) = fellow.boot(claim.clone()).await
                && !boots.remembered(&fellow.verifier_id, &remembered).await
            {
                tracing::warn!(fellow = %fellow.verifier_id, "does not confirm this boot");
            }
        }
        if boots.confirmed().len() >= CONFIRMATIONS {
            signer.confirm_boot();
            condition.met();
        }
        world::sleep(AGAIN).await;
    }
}
