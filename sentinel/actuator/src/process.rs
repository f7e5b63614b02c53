//! A whole actuator over any store: in the order in which its parts may start.
//!
//! ```text
//!   the roster's actuator? ─▶ HOLD and attempts read ─▶ RED line, hold line ─▶ repeats, journal
//!     └─ not yet: the journal is followed until an act of the root names it
//! ```
//!
//! Nodes are not waited for, but by one that replaces another: it asks them first whether the root has named
//! it. Until a majority of them has shown every live ground, HOLD is what was stored,
//! and without a readable store it is everything.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};

use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use redlatch_link::diagnostics::{Condition, Readiness, Registry};
use redlatch_link::follow::{Follower, Trust, until_named};
use redlatch_link::store::Store;
use redlatch_link::transport::{
    self, Credentials, Dialer, Limits, Listener, Routes, TransportError,
};
use redlatch_link::world::{self, JoinHandle, Monotonic};
use redlatch_link::{PeerIdentity, Role};
use redlatch_types::policy::Policy;
use redlatch_types::records::{GenesisV1, RosterV1};
use redlatch_types::{Envelope, Signed, SigningKey};
use tokio::sync::{Mutex, Notify, watch};

use crate::alarm::Alarm;
use crate::attempts::{Attempts, Signer};
use crate::desk::{Desk, Machine};
use crate::driver;
use crate::follow::{self, Reader};
use crate::hold::Hold;
use crate::metrics::ActuatorMetrics;
use crate::service::{HOLD_CALLERS, HoldService, RED_CALLERS, RedService, red_limits};
use crate::start::StartFailure;
use crate::store::{self, Stored};
use crate::verify_red::RedVerifier;

/// What an actuator is made of.
pub struct ActuatorParts<S> {
    /// Its store.
    pub store: S,
    /// The root-signed genesis.
    pub genesis: Envelope,
    /// What receipts must meet.
    pub policy: Policy,
    /// Signs safety capabilities and permit beats.
    pub key: SigningKey,
    /// Its certificate: role actuator, the name in the roster.
    pub credentials: Credentials,
    /// Where the sentinel connects.
    pub red_line: SocketAddr,
    /// Where gates connect.
    pub hold_line: SocketAddr,
    /// `host:port` of the nodes' client listeners, by name.
    pub nodes: BTreeMap<String, String>,
    /// Where nonces and keys come from.
    pub rng: ChaCha20Rng,
    /// Where its numbers go.
    pub metrics: Registry,
    /// Where it says what it waits for.
    pub readiness: Readiness,
}

type Server = JoinHandle<Result<(), TransportError>>;

/// A running actuator.
pub struct ActuatorProcess {
    red_line: SocketAddr,
    hold_line: SocketAddr,
    alarm: Alarm,
    stop: watch::Sender<bool>,
    red_server: Server,
    hold_server: Server,
    tasks: Vec<JoinHandle<()>>,
}

impl ActuatorProcess {
    /// Starts an actuator.
    ///
    /// # Errors
    /// [`StartFailure`].
    pub async fn start<S: Store>(parts: ActuatorParts<S>) -> Result<ActuatorProcess, StartFailure> {
        let grounds = parts.readiness.condition(
            "grounds",
            "HOLD was not yet compared with what a majority of the nodes says is frozen",
        );
        let mut parts = parts;
        let genesis = own_genesis(&parts)?;
        let begun = begin(&mut parts, &genesis, &grounds).await?;
        let own = &parts.credentials;
        let red = Listener::bind(parts.red_line, own, &RED_CALLERS, red_limits()).await?;
        let hold = Listener::bind(parts.hold_line, own, &HOLD_CALLERS, Limits::default()).await?;
        let (red_line, hold_line) = (red.address(), hold.address());
        let organism = genesis.organism_id();
        let sentinel = begun.trust.in_force().roster.sentinel.name.as_str();
        let sentinel = PeerIdentity::new(organism, Role::Sentinel, sentinel)
            .map_err(|_| StartFailure::setting("genesis", "the sentinel's name is none"))?;
        let reader_rng = fork(&mut parts.rng);
        let (desk, follower) = assemble(parts, begun).await?;
        let (stop, stopped) = watch::channel(false);
        let routes = Routes::new().service(RedService::server(Arc::clone(&desk), sentinel));
        let red_server = world::spawn(transport::serve(red, routes, until(stopped.clone())));
        let routes = Routes::new().service(HoldService::server(Arc::clone(&desk)));
        let hold_server = world::spawn(transport::serve(hold, routes, until(stopped)));
        let alarm = desk.alarm.clone();
        let repeats = world::spawn(follow::repeat(Arc::clone(&desk)));
        let reader = Reader::new(desk, follower, reader_rng, grounds);
        Ok(ActuatorProcess {
            red_line,
            hold_line,
            alarm,
            stop,
            red_server,
            hold_server,
            tasks: vec![repeats, world::spawn(reader.run())],
        })
    }

    /// Where the sentinel connects.
    pub fn red_line(&self) -> SocketAddr {
        self.red_line
    }

    /// Where gates connect.
    pub fn hold_line(&self) -> SocketAddr {
        self.hold_line
    }

    /// Runs until `stop` resolves, then lets open calls finish.
    ///
    /// # Errors
    /// [`StartFailure::Fatal`] at once if the actuator must not go on; [`StartFailure::Transport`] if a
    /// server ends by itself.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send) -> Result<(), StartFailure> {
        let ended = tokio::select! {
            biased;
            cause = self.alarm.raised() => Err(StartFailure::Fatal(cause)),
            ended = &mut self.red_server => Err(of_server(ended).into()),
            ended = &mut self.hold_server => Err(of_server(ended).into()),
            () = stop => Ok(()),
        };
        for task in &self.tasks {
            task.abort();
        }
        self.stop.send_replace(true);
        if ended.is_ok() {
            // A server that ended with an error while stopping has nothing left to lose.
            let _ = self.red_server.await;
            let _ = self.hold_server.await;
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

/// The genesis, if certificate and policy are of its organism.
fn own_genesis<S>(parts: &ActuatorParts<S>) -> Result<GenesisV1, StartFailure> {
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
    if identity.role != Role::Actuator {
        return Err(StartFailure::NotTheActuator(identity.short()));
    }
    Ok(genesis.clone())
}

/// What an actuator begins with: its store, and whom it believes.
struct Begun {
    stored: Stored,
    trust: Trust,
}

/// Reads the store and finds the roster that names this actuator. One that replaces another reads the whole journal
/// again, and holds everything until it has.
async fn begin<S: Store>(
    parts: &mut ActuatorParts<S>,
    genesis: &GenesisV1,
    grounds: &Condition,
) -> Result<Begun, StartFailure> {
    let store = parts.store.clone();
    let stored = world::blocking(move || store::stored(&store)).await?;
    let trust = Trust::resume(parts.policy.clone(), genesis, stored.trust.clone())
        .map_err(|error| StartFailure::setting("policy", error.to_string()))?;
    let dialer = Dialer::new(parts.credentials.clone());
    let next = trust.in_force().next;
    let mut follower = Follower::new(&dialer, &parts.nodes, trust, next)?;
    let own = parts.key.public_key();
    let is_own = |roster: &RosterV1| roster.actuator.key == own;
    let mut stored = stored;
    if !is_own(&follower.trust().in_force().roster) {
        grounds.unmet(
            "no roster that is known here names this key; the nodes are asked for a later one",
        );
        if !until_named(&mut follower, is_own, &mut parts.rng).await {
            return Err(StartFailure::WrongKey);
        }
        let (store, kept) = (parts.store.clone(), follower.trust().kept().clone());
        stored = world::blocking(move || {
            store::begin_anew(&store, &kept)?;
            store::stored(&store)
        })
        .await?;
    }
    let trust = follower.trust().clone();
    let identity = parts.credentials.identity();
    if identity.name != trust.in_force().roster.actuator.name.as_str() {
        return Err(StartFailure::NotTheActuator(identity.short()));
    }
    Ok(Begun { stored, trust })
}

/// HOLD and attempts from the store, all beside them, and the reader of the journal.
async fn assemble<S: Store>(
    parts: ActuatorParts<S>,
    begun: Begun,
) -> Result<(Arc<Desk<S>>, Follower), StartFailure> {
    let Begun { stored, trust } = begun;
    let dialer = Dialer::new(parts.credentials.clone());
    let next = stored.known.map_or(0, |known| known.next);
    let in_force = trust.in_force().clone();
    let (scope, roster) = (trust.scope(), in_force.roster);
    let follower = Follower::new(&dialer, &parts.nodes, trust, next)?;
    let signer = Signer {
        scope,
        key: SigningKey::from_seed(*parts.key.seed()),
        pin: roster.actuator.pin_digest(),
    };
    let mut effects = Vec::new();
    let verifier = RedVerifier {
        scope,
        sentinel: roster.sentinel.key,
        former: in_force.former_sentinels,
    };
    let attempts = stored.attempts.iter().map(Vec::as_slice);
    let (attempts, unreadable) =
        Attempts::open(signer, in_force.autonomy_epoch, attempts, 0, &mut effects);
    for error in unreadable {
        tracing::warn!(%error, "the journal leads to it again");
    }
    let hold = Hold::load(stored.hold.as_deref(), verifier.sentinel);
    let machine = Machine::new(hold, attempts, parts.rng, stored.grounds, stored.known);
    let metrics = ActuatorMetrics::new(&parts.metrics, machine.at_work());
    machine.show(&metrics);
    let desk = Arc::new(Desk {
        store: parts.store,
        scope,
        key: parts.key,
        verifier,
        nodes: RwLock::new(follower.nodes().clone()),
        alarm: Alarm::new(),
        metrics,
        begun: Monotonic::now(),
        machine: Mutex::new(Some(machine)),
        rescheduled: Notify::new(),
        news: Notify::new(),
    });
    if driver::run_attempts(&desk, effects).await.is_err() {
        return Err(StartFailure::Fatal(desk.alarm.raised().await));
    }
    Ok((desk, follower))
}

/// An independent generator.
fn fork(rng: &mut ChaCha20Rng) -> ChaCha20Rng {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    ChaCha20Rng::from_seed(seed)
}
