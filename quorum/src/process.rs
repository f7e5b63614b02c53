//! A whole verifier over any store: in the order in which its parts may start.
//!
//! ```text
//!   own seat ─▶ shares opened ─▶ boot counted, durably ─▶ key taken up, if kept ─▶ serve ─▶ fellows, journal, ceremony
//!     └─ in nothing that is known yet: the journal is read to its end
//! ```
//!
//! The boot is counted before anything is said. Fellows and nodes are not waited for: a verifier that runs
//! alone answers that it cannot vote.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use redlatch_ballot::{OwnSeat, SealedShare, Terms, Verifier};
use redlatch_link::Role;
use redlatch_link::diagnostics::{Condition, Readiness, Registry};
use redlatch_link::follow::{Follower, Trust, TrustV1};
use redlatch_link::nodes::Nodes;
use redlatch_link::passphrase::Passphrase;
use redlatch_link::store::Store;
use redlatch_link::transport::{
    self, Credentials, Dialer, Limits, Listener, Routes, TransportError,
};
use redlatch_link::world::{self, JoinHandle};
use redlatch_types::policy::Policy;
use redlatch_types::records::{BootClaimV1, GenesisV1};
use redlatch_types::{Digest, Envelope, KeyEpoch, OrganismId, Signed, SigningKey, VerifierId};
use tokio::sync::watch;

use crate::activation::Activation;
use crate::alarm::Alarm;
use crate::ceremony::{self, Conductor};
use crate::driver;
use crate::evaluate::Panel;
use crate::fellows::{self, Boots, Fellow};
use crate::metrics::VerifierMetrics;
use crate::newcomer;
use crate::service::{CALLERS, Desk, VerifierService};
use crate::signer::{Signer, SignerParts};
use crate::start::StartFailure;
use crate::store::{self, KeptError};
use crate::vault::{StretchCost, Vault};

/// What a verifier is made of.
pub struct VerifierParts<S> {
    /// Its store.
    pub store: S,
    /// The root-signed genesis.
    pub genesis: Envelope,
    /// What receipts must meet.
    pub policy: Policy,
    /// Signs votes, commitments, shares and ceremony messages.
    pub vote_key: SigningKey,
    /// Opens its key shares.
    pub passphrase: Passphrase,
    /// What trying a passphrase costs, if the store is new.
    pub stretch: StretchCost,
    /// How it judges.
    pub panel: Panel,
    /// Its certificate: role verifier, a name of the roster.
    pub credentials: Credentials,
    /// Where nodes and fellows connect.
    pub address: SocketAddr,
    /// `host:port` of the nodes' client listeners, by name.
    pub nodes: BTreeMap<String, String>,
    /// `host:port` of the other verifiers, by name.
    pub fellows: BTreeMap<String, String>,
    /// Where its secrets come from.
    pub rng: ChaCha20Rng,
    /// Where its numbers go.
    pub metrics: Registry,
    /// Where it says what it waits for.
    pub readiness: Readiness,
}

/// A running verifier.
pub struct VerifierProcess {
    address: SocketAddr,
    alarm: Alarm,
    generation: u64,
    stop: watch::Sender<bool>,
    server: JoinHandle<Result<(), TransportError>>,
    tasks: Vec<JoinHandle<()>>,
}

/// What the verifier reports as ready or not, by name.
struct Conditions {
    fellows: Condition,
    key: Condition,
}

/// The machine, counted and durable, with everything that stands beside it.
struct Opened {
    vault: Arc<Vault>,
    trust: Trust,
    next: u64,
    terms: Terms,
    seat: OwnSeat,
    machine: Verifier,
    shares: Vec<SealedShare>,
    share_epoch: KeyEpoch,
}

impl VerifierProcess {
    /// Starts a verifier.
    ///
    /// # Errors
    /// [`StartFailure`].
    pub async fn start<S: Store>(parts: VerifierParts<S>) -> Result<VerifierProcess, StartFailure> {
        let conditions = Conditions {
            fellows: parts
                .readiness
                .condition("fellows", "fewer than two fellows have confirmed this boot"),
            key: parts
                .readiness
                .condition("key", "the quorum's key is not in force here yet"),
        };
        let mut parts = parts;
        let opened = open(&mut parts).await?;
        let listener = Listener::bind(
            parts.address,
            &parts.credentials,
            &CALLERS,
            Limits::default(),
        )
        .await?;
        let address = listener.address();
        let generation = opened.machine.generation();
        let trust = opened.trust.clone();
        let assembled = Assembled::of(&mut parts, opened)?;
        let (stop, stopped) = watch::channel(false);
        let resumed = assembled.activation.adopt(&trust).await?;
        let routes = Routes::new().service(VerifierService::server(Arc::clone(&assembled.desk)));
        let server = world::spawn(transport::serve(listener, routes, until(stopped)));
        let alarm = assembled.activation.alarm.clone();
        let tasks = assembled.start(conditions, resumed);
        Ok(VerifierProcess {
            address,
            alarm,
            generation,
            stop,
            server,
            tasks,
        })
    }

    /// Where nodes and fellows connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// This boot's number.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Runs until `stop` resolves, then lets open calls finish.
    ///
    /// # Errors
    /// [`StartFailure::Fatal`] at once if the verifier must not go on; [`StartFailure::Transport`] if the
    /// server ends by itself.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send) -> Result<(), StartFailure> {
        let ended = tokio::select! {
            biased;
            cause = self.alarm.raised() => Err(StartFailure::Fatal(cause)),
            ended = &mut self.server => Err(of_server(ended).into()),
            () = stop => Ok(()),
        };
        for task in &self.tasks {
            task.abort();
        }
        self.stop.send_replace(true);
        if ended.is_ok() {
            // A server that ended with an error while stopping has nothing left to lose.
            let _ = self.server.await;
        }
        ended
    }
}

fn of_server<J: std::fmt::Display>(ended: Result<Result<(), TransportError>, J>) -> TransportError {
    match ended {
        Ok(Err(error)) => error,
        Ok(Ok(())) => TransportError::Stopped("it ended early".to_owned()),
        Err(join) => TransportError::Stopped(join.to_string()),
    }
}

/// Resolves when the flag is set, or whoever could set it is gone.
async fn until(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Finds this verifier's seat and counts its boot.
async fn open<S: Store>(parts: &mut VerifierParts<S>) -> Result<Opened, StartFailure> {
    let store = parts.store.clone();
    let followed = world::blocking(move || store::followed(&store)).await?;
    let next = followed.as_ref().map_or(0, |it| it.next);
    let trust = trusted(parts, followed.map(|it| it.trust))?;
    let (trust, next) = match own_seat(parts, &trust) {
        // Seated by a change of the verifiers that was not read yet, or not at all.
        Err(StartFailure::NotAVerifier(_) | StartFailure::WrongKey) => {
            newcomer::catch_up(parts, trust, next).await?
        }
        _ => (trust, next),
    };
    let (terms, seat) = own_seat(parts, &trust)?;
    let (organism, identifier) = (terms.scope().organism_id, seat.identifier);
    let vault = open_vault(parts, organism, &seat).await?;
    let (store, opener) = (parts.store.clone(), Arc::clone(&vault));
    let looked = world::blocking(move || {
        let stored = store::stored(&store, &opener, organism, identifier)?;
        let shares = store::shares(&store, &opener, organism, identifier)?;
        Ok::<_, KeptError>((stored, shares))
    });
    let (stored, shares) = looked.await?;
    let share_epoch = stored.share_epoch;
    let (machine, effects) = Verifier::start(terms.clone(), seat.clone(), None, &stored)?;
    driver::run_effects(&parts.store, &vault, effects).await?;
    Ok(Opened {
        vault,
        trust,
        next,
        terms,
        seat,
        machine,
        shares,
        share_epoch,
    })
}

/// Opens the vault of the shares before anything is counted: with a wrong passphrase nothing happens.
async fn open_vault<S: Store>(
    parts: &mut VerifierParts<S>,
    organism: OrganismId,
    seat: &OwnSeat,
) -> Result<Arc<Vault>, StartFailure> {
    let (store, rng) = (parts.store.clone(), fork(&mut parts.rng));
    let (verifier, cost) = (seat.verifier_id.clone(), parts.stretch);
    // Erased once it has opened the vault.
    let passphrase = std::mem::replace(&mut parts.passphrase, Passphrase::new(Vec::new()));
    let opening = world::blocking(move || {
        store::vault(&store, &passphrase, cost, (organism, &verifier), rng).map(Arc::new)
    });
    Ok(opening.await?)
}

/// What this verifier believes to begin with: the genesis, or what it has proven since.
fn trusted<S>(parts: &VerifierParts<S>, kept: Option<TrustV1>) -> Result<Trust, StartFailure> {
    let not_signed = || StartFailure::NotAGenesis {
        path: "genesis".into(),
    };
    let signed: Signed<GenesisV1> = parts.genesis.open().map_err(|_| not_signed())?;
    let genesis = signed.record();
    let by_root = *signed.key() == genesis.kernel.pinned_external_root_key
        && *signed.scope() == genesis.scope();
    if !by_root {
        return Err(not_signed());
    }
    let identity = parts.credentials.identity();
    if identity.organism != genesis.organism_id() {
        return Err(StartFailure::WrongOrganism {
            genesis: genesis.organism_id(),
            certificate: identity.organism,
        });
    }
    if parts.policy.origin().organism != genesis.organism_id() {
        return Err(StartFailure::OtherPolicy);
    }
    Trust::resume(parts.policy.clone(), genesis, kept)
        .map_err(|error| StartFailure::setting("policy", error.to_string()))
}

/// The seat that certificate, vote key and roster in force agree on.
fn own_seat<S>(parts: &VerifierParts<S>, trust: &Trust) -> Result<(Terms, OwnSeat), StartFailure> {
    let identity = parts.credentials.identity();
    let terms = Terms::in_force(trust.in_force())?;
    let named = |it: &VerifierId| identity.role == Role::Verifier && it.as_str() == identity.name;
    if !terms
        .roster()
        .verifiers
        .iter()
        .any(|it| named(&it.verifier_id))
    {
        return Err(StartFailure::NotAVerifier(identity.short()));
    }
    let seat = OwnSeat::find(&terms, parts.vote_key.clone()).filter(|it| named(&it.verifier_id));
    Ok((terms, seat.ok_or(StartFailure::WrongKey)?))
}

/// Everything that runs, put together.
struct Assembled<S> {
    desk: Arc<Desk<S>>,
    activation: Arc<Activation<S>>,
    nodes: Nodes,
    follower: Follower,
    fellows: Vec<Fellow>,
    leads: bool,
    rng: ChaCha20Rng,
}

impl<S: Store> Assembled<S> {
    fn of(parts: &mut VerifierParts<S>, opened: Opened) -> Result<Assembled<S>, StartFailure> {
        let claim = boot_claim(&opened, &mut parts.rng);
        let Opened {
            vault,
            trust,
            next,
            terms,
            seat,
            machine,
            shares,
            share_epoch,
        } = opened;
        let (terms, seat) = (&terms, &seat);
        let dialer = Dialer::new(parts.credentials.clone());
        let policy = trust.policy().clone();
        let follower = Follower::new(&dialer, &parts.nodes, trust, next)?;
        let nodes = follower.nodes().clone();
        warn_of_strangers(&parts.fellows, terms, &seat.verifier_id);
        let fellows = fellows::fellows(&dialer, terms, &seat.verifier_id, &parts.fellows)?;
        let alarm = Alarm::new();
        let conductor = Arc::new(Conductor::new(
            (parts.store.clone(), Arc::clone(&vault)),
            terms.clone(),
            seat.clone(),
            machine.boot_record(share_epoch),
            alarm.clone(),
            &shares,
            fork(&mut parts.rng),
        ));
        let boots = Boots::new(parts.store.clone(), terms.clone(), claim, alarm.clone());
        let boots = Arc::new(boots);
        let signer = Arc::new(Signer::new(SignerParts {
            store: parts.store.clone(),
            vault: Arc::clone(&vault),
            verifier: machine,
            rng: fork(&mut parts.rng),
            policy,
            panel: parts.panel.clone(),
            verifier_id: seat.verifier_id.clone(),
            alarm: alarm.clone(),
            metrics: VerifierMetrics::new(&parts.metrics, parts.panel.names()),
        }));
        let activation = Arc::new(Activation {
            store: parts.store.clone(),
            vault,
            terms: terms.clone(),
            seat: seat.clone(),
            signer: Arc::clone(&signer),
            conductor: Arc::clone(&conductor),
            alarm,
            none_so_far: AtomicBool::new(false),
        });
        let desk = Arc::new(Desk {
            name: seat.verifier_id.to_string(),
            signer,
            conductor,
            boots,
        });
        Ok(Assembled {
            desk,
            activation,
            nodes,
            follower,
            fellows,
            leads: seat.identifier == 1,
            rng: fork(&mut parts.rng),
        })
    }

    /// Starts what runs beside the server.
    fn start(self, conditions: Conditions, resumed: bool) -> Vec<JoinHandle<()>> {
        let Assembled {
            desk,
            activation,
            nodes,
            follower,
            fellows,
            leads,
            rng,
        } = self;
        let conductor = Arc::clone(&desk.conductor);
        let mut tasks = vec![world::spawn(fellows::tell_boot(
            Arc::clone(&desk.boots),
            Arc::clone(&desk.signer),
            fellows.clone(),
            conditions.fellows,
        ))];
        for fellow in &fellows {
            tasks.push(world::spawn(ceremony::carry(
                Arc::clone(&conductor),
                fellow.clone(),
            )));
        }
        if leads {
            let (looked, boots) = (Arc::clone(&activation), Arc::clone(&desk.boots));
            let ready = move || looked.none_so_far.load(Ordering::Acquire) && boots.all_heard();
            let leading = ceremony::lead(Arc::clone(&conductor), nodes.clone(), ready);
            tasks.push(world::spawn(leading));
        } else if let Some(first) = fellows.iter().find(|it| it.identifier == 1) {
            tasks.push(world::spawn(ceremony::confirm(conductor, first.clone())));
        }
        if resumed {
            conditions.key.met();
        }
        let following = activation.follow(follower, rng, conditions.key);
        tasks.push(world::spawn(following));
        tasks
    }
}

/// An address may stand in the configuration before its verifier has a seat, and after it has lost it. A name that
/// was mistyped looks the same, so it is said.
fn warn_of_strangers(addresses: &BTreeMap<String, String>, terms: &Terms, own: &VerifierId) {
    let known = |name: &String| {
        let mut all = terms.roster().verifiers.iter();
        all.any(|it| it.verifier_id != *own && it.verifier_id.as_str() == name)
    };
    for name in addresses.keys().filter(|name| !known(name)) {
        tracing::warn!(%name, "`fellows` names no other verifier of the roster in force");
    }
}

/// What fellows are told of this boot.
fn boot_claim(opened: &Opened, rng: &mut ChaCha20Rng) -> Signed<BootClaimV1> {
    let mut boot = Digest::ZERO;
    rng.fill_bytes(&mut boot.0);
    let claim = BootClaimV1 {
        verifier_id: opened.seat.verifier_id.clone(),
        generation: opened.machine.generation(),
        boot,
        key_epoch: opened.share_epoch,
    };
    Envelope::seal(opened.terms.scope(), &opened.seat.key, &claim)
        .open()
        .expect("sealed a line above")
}

/// An independent generator.
fn fork(rng: &mut ChaCha20Rng) -> ChaCha20Rng {
    let mut seed = zeroize::Zeroizing::new([0; 32]);
    rng.fill_bytes(&mut seed[..]);
    ChaCha20Rng::from_seed(*seed)
}
